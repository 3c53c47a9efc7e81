package sharing

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	"github.com/homenode/homenode/core/plan"
	"github.com/homenode/homenode/core/share"
	"github.com/homenode/homenode/core/share/goal"
	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/core/words"
	"github.com/homenode/homenode/core/workload"
)

// GoalsKey is the key of Learned on disk.
const GoalsKey = "goals"

// Learned is the use at which goals held, by node and hour of the week. It survives a restart of the daemon, and times
// without goals or batch work.
type Learned struct {
	Nodes map[topology.NodeID]NodeLearned `json:"nodes,omitempty"`
}

// NodeLearned is the memory of one node.
type NodeLearned struct {
	Goals []goal.Past `json:"goals,omitempty"`
	Hours map[int]int `json:"hours,omitempty"`
}

// Steering is the outcome of the latency goals of all nodes.
type Steering struct {
	Use   float64 // of all nodes with goals together, 0 to 1
	Busy  float64 // share of their CPUs that was busy
	Nodes []SteeredNode
	Goals []goal.Verdict // rising by workload and metric; of a workload on several nodes once
	Worst int            // index of the goal with the least slack; -1 when none is usable
	Fell  bool           // some node falls back to the target
	Next  words.Reason   // of the node with the worst goal
	// Limits has the percent left to batch work of resources other than cores: the least of all nodes.
	Limits map[goal.Resource]int
}

// SteeredNode is the outcome of the goals of one node.
type SteeredNode struct {
	Node topology.NodeID
	goal.Outcome
}

// Of returns the outcome of the goals of a node, or nil.
func (s *Steering) Of(node topology.NodeID) *SteeredNode {
	if s == nil {
		return nil
	}
	for i := range s.Nodes {
		if s.Nodes[i].Node == node {
			return &s.Nodes[i]
		}
	}
	return nil
}

// ToldGoal comes before the ID of a workload in the keys of Told for unusable metrics.
const ToldGoal = "goal "

// fewest is the share of its time that a workload runs on a node for its goals to count there.
const fewest = 0.1

// steer replaces the target of each node by the use at which all latency goals of the work there hold.
func (t *turn) steer(in *share.Input) {
	goals, on := t.readings()
	if len(goals) == 0 {
		t.Goals = nil
		return
	}
	before := t.Goals
	t.Goals = map[topology.NodeID]goal.State{}
	nodes := maps.Clone(t.Learned.Nodes) // the other one may be on its way to disk
	if nodes == nil {
		nodes = map[topology.NodeID]NodeLearned{}
	}
	all := &Steering{Worst: -1}
	pool, learned := 0.0, false
	for i := range in.Nodes {
		n := &in.Nodes[i]
		g := t.goalInput(in, n, goals, on)
		was := before[n.ID]
		switch {
		case len(g.Goals) == 0:
			continue
		case !n.Known: // the first scan
			t.Goals[n.ID] = was
			continue
		case len(was.Goals) == 0: // no goal or no batch work until now, or another daemon
			earlier := t.Learned.Nodes[n.ID]
			was.Goals, was.Hours = earlier.Goals, earlier.Hours
		}
		out, now := goal.Decide(g, was)
		learned = learned || now.Hour != was.Hour
		t.Goals[n.ID] = now
		nodes[n.ID] = learnedOf(&now)
		n.Target = out.Use
		if goesBy(&out, n.Waiting) { // its goal is better evidence than the time that it waits
			n.Wait, n.Waiting = 0, ""
		}
		pool += g.Pool
		all.Use += g.Pool * out.Use
		all.Busy += g.Busy
		all.add(n.ID, out)
	}
	if len(all.Nodes) == 0 {
		return
	}
	all.Use /= max(pool, 1)
	all.Busy /= max(pool, 1)
	t.Shared.Steering = all
	t.Learned.Nodes = nodes
	if learned { // once an hour
		t.Save(GoalsKey, t.Learned)
	}
	t.tellGoals(all)
}

// goesBy reports whether a workload has a usable goal.
func goesBy(out *goal.Outcome, id workload.ID) bool {
	for i := range out.Goals {
		if v := &out.Goals[i]; v.Workload == id && v.Why.None() {
			return true
		}
	}
	return false
}

// ran is where workloads ran.
type ran map[workload.ID][]workload.NodeShare

// goalInput returns one node as package goal sees it.
func (t *turn) goalInput(in *share.Input, n *share.Node, goals []goal.Reading, on ran) goal.Input {
	g := goal.Input{At: in.At, Hour: goal.HourOfWeek(in.At), Target: in.Target}
	g.Pool, g.Can = float64(n.Pool.Len()), t.canLimit()
	for _, r := range goals {
		for _, x := range on[r.Workload] {
			if x.Node == n.ID && x.Share >= fewest {
				g.Goals = append(g.Goals, r)
			}
		}
	}
	g.Batch = in.Used(n)
	g.Busy = n.Online + n.System + g.Batch
	g.Least = in.LeastOf(n)
	return g
}

// add adds the outcome of one node.
func (s *Steering) add(node topology.NodeID, out goal.Outcome) {
	s.Nodes = append(s.Nodes, SteeredNode{node, out})
	s.Fell = s.Fell || out.Fell
	for r, percent := range out.Limits {
		if s.Limits == nil {
			s.Limits = map[goal.Resource]int{}
		}
		if now := s.Limits[r]; now == 0 || percent < now {
			s.Limits[r] = percent
		}
	}
	for i := range out.Goals {
		v := &out.Goals[i]
		k, seen := slices.BinarySearchFunc(s.Goals, *v, func(a, b goal.Verdict) int {
			return cmp.Or(cmp.Compare(a.Workload, b.Workload), cmp.Compare(a.Metric, b.Metric))
		})
		if !seen {
			s.Goals = slices.Insert(s.Goals, k, *v)
		}
	}
	s.Worst = -1
	for i := range s.Goals {
		usable := s.Goals[i].Why.None()
		if usable && (s.Worst < 0 || s.Goals[i].Slack < s.Goals[s.Worst].Slack) {
			s.Worst = i
		}
	}
	decides := out.Worst >= 0 && s.Worst >= 0 && out.Goals[out.Worst].Workload == s.Goals[s.Worst].Workload
	if s.Next.None() || decides {
		s.Next = out.Next
	}
}

// learnedOf returns what is kept of a node where its state is not.
func learnedOf(s *goal.State) NodeLearned {
	n := NodeLearned{Hours: s.Hours}
	for _, m := range s.Goals {
		n.Goals = append(n.Goals, goal.Past{Workload: m.Workload, As: m.As, Metric: m.Metric, Most: m.Most})
	}
	return n
}

// tellGoals records in the history which metrics cannot be used, and when they can again.
func (t *turn) tellGoals(out *Steering) {
	told := map[workload.ID]bool{}
	for i := range out.Goals {
		v := &out.Goals[i]
		if v.Why.None() || v.State == goal.Waiting || told[v.Workload] {
			continue
		}
		told[v.Workload] = true
		event := plan.Event{Kind: plan.EventHost, Workload: v.Workload, Error: true}
		t.Once(ToldGoal+string(v.Workload), event, words.GoalUnusable, v.Metric, v.State)
	}
	for i := range out.Goals {
		if id := out.Goals[i].Workload; !told[id] {
			t.Over(ToldGoal + string(id))
		}
	}
}

// readings returns the goals of running workloads, rising by ID, and the nodes that these ran on.
func (t *turn) readings() (out []goal.Reading, on ran) {
	on = ran{}
	for _, x := range t.Subjects {
		o := &x.Observation
		if len(x.Spec.Goals) == 0 || t.Shared.Of(o.ID) != nil || slices.Contains(t.mine, x) {
			continue
		}
		on[o.ID] = t.ranOn(o)
		for i := range x.Spec.Goals {
			g := &x.Spec.Goals[i]
			r := goal.Reading{
				Workload: o.ID, As: fmt.Sprint(o.CgroupID, t.Start(o)),
				Metric: g.Metric, Unit: g.Unit, Most: g.Most, Window: g.Window,
			}
			switch g.From {
			case workload.FromKernel:
				t.waiting(&r, o)
			case workload.FromBaseline:
				t.harm(&r, o)
			default:
				if m := t.Snapshot.MetricOf(g); m != nil {
					r.Value, r.Known = m.Value, m.Known
					r.At, r.Failed = m.At, m.Failed
				} else {
					r.Failed = "the daemon does not read it"
				}
			}
			out = append(out, r)
		}
	}
	return goal.Sorted(out), on
}

// waiting reads the percentage of time that a workload waits for a CPU.
func (t *turn) waiting(r *goal.Reading, o *workload.Observation) {
	r.Steady = true
	if o.WaitedFrom == "" {
		r.Failed = "this kernel does not count how long it waits for a CPU"
		return
	}
	r.Known, r.At = true, t.Began.Round(0).UTC()
	r.Value = 100 * Waited(o)
}

// harm reads package share's signal of harm as a part of its limit.
func (t *turn) harm(r *goal.Reading, o *workload.Observation) {
	r.Steady, r.Most = true, 1
	for i := range t.Interference.Victims {
		v := &t.Interference.Victims[i]
		if v.ID != o.ID || len(v.Samples) == 0 {
			continue
		}
		now := v.Samples[len(v.Samples)-1]
		if v.Limit > 0 && now >= 0 {
			r.Known, r.At = true, t.Interference.At
			r.Value = now / v.Limit
			return
		}
	}
	r.Failed = "its baseline is not known yet"
}
