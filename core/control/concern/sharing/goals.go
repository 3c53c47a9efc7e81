package sharing

import (
	"fmt"
	"math"

	"github.com/homenode/homenode/core/place"
	"github.com/homenode/homenode/core/plan"
	"github.com/homenode/homenode/core/share"
	"github.com/homenode/homenode/core/share/goal"
	"github.com/homenode/homenode/core/words"
	"github.com/homenode/homenode/core/workload"
)

// GoalsKey is where Learned is on disk.
const GoalsKey = "goals"

// Learned is what survives a restart of the daemon: the use at which goals held, by hour of the week.
type Learned struct {
	Goals []goal.Past `json:"goals,omitempty"`
	Hours map[int]int `json:"hours,omitempty"`
}

// ToldGoal is where Told has what is wrong with the metrics of a workload, before its ID.
const ToldGoal = "goal "

// steer replaces the target of in by the use at which all latency goals hold.
func (t *turn) steer(in *share.Input) {
	goals := t.readings()
	if len(goals) == 0 {
		t.Goals = goal.State{}
		return
	}
	g := goal.Input{At: in.At, Hour: goal.HourOfWeek(in.At), Goals: goals, Target: in.Target, Can: t.canLimit()}
	known := true
	for i := range in.Nodes {
		n := &in.Nodes[i]
		known = known && n.Known
		g.Pool += float64(n.Pool.Len())
		g.Busy += n.Online + n.System
		g.Least += in.LeastOf(n)
	}
	for i := range in.Work {
		g.Batch += in.Work[i].Use
	}
	g.Busy += g.Batch
	if !known { // the first scan
		return
	}
	if len(t.Goals.Goals) == 0 && len(t.Known.Goals) > 0 { // what an earlier daemon has learned
		t.Goals.Goals, t.Goals.Hours = t.Known.Goals, t.Known.Hours
	}
	t.Known = Learned{}
	hour := t.Goals.Hour
	var out goal.Outcome
	out, t.Goals = goal.Decide(g, t.Goals)
	t.Shared.Goals = &out
	in.Target, in.Steered = out.Use, !out.Fell
	for i := range in.Nodes { // a goal says more than the time that it waits
		n := &in.Nodes[i]
		for k := range out.Goals {
			if v := &out.Goals[k]; v.Workload == n.Waiting && !out.Fell {
				n.Wait, n.Waiting = 0, ""
			}
		}
	}
	if t.Goals.Hour != hour && len(t.Goals.Hours) > 0 {
		t.saveLearned()
	}
	t.tellGoals(&out)
}

// saveLearned writes what was learned to disk, once an hour.
func (t *turn) saveLearned() {
	l := Learned{Hours: t.Goals.Hours}
	for _, m := range t.Goals.Goals {
		l.Goals = append(l.Goals, goal.Past{Workload: m.Workload, As: m.As, Metric: m.Metric, Most: m.Most})
	}
	t.Save(GoalsKey, l)
}

// tellGoals writes into the history which metrics cannot be used, and when they can again.
func (t *turn) tellGoals(out *goal.Outcome) {
	told := map[workload.ID]bool{}
	for i := range out.Goals {
		v := &out.Goals[i]
		if v.Why.None() || v.State == goal.Waiting || told[v.Workload] {
			continue
		}
		told[v.Workload] = true
		t.Once(ToldGoal+string(v.Workload), plan.Event{Kind: plan.EventHost, Workload: v.Workload, Error: true}, words.GoalUnusable, v.Metric, v.State)
	}
	for i := range out.Goals {
		if id := out.Goals[i].Workload; !told[id] {
			t.Over(ToldGoal + string(id))
		}
	}
}

// readings returns the goals of the workloads that run, rising by ID.
func (t *turn) readings() []goal.Reading {
	var out []goal.Reading
	for _, x := range t.Subjects {
		o := &x.Observation
		if len(x.Spec.Goals) == 0 || t.Shared.Of(o.ID) != nil || t.isMine(x) {
			continue
		}
		for i := range x.Spec.Goals {
			g := &x.Spec.Goals[i]
			r := goal.Reading{Workload: o.ID, As: fmt.Sprint(o.CgroupID, t.Start(o)), Metric: g.Metric, Unit: g.Unit, Most: g.Most, Window: g.Window}
			switch g.From {
			case workload.FromKernel:
				t.waiting(&r, o)
			case workload.FromBaseline:
				t.harm(&r, o)
			default:
				if m := t.Snapshot.MetricOf(g); m != nil {
					r.Value, r.Known, r.At, r.Failed = m.Value, m.Known, m.At, m.Failed
				} else {
					r.Failed = "the daemon does not read it"
				}
			}
			out = append(out, r)
		}
	}
	return goal.Sorted(out)
}

// isMine reports whether a workload is batch work that is squeezed.
func (t *turn) isMine(x *place.Subject) bool {
	for _, m := range t.mine {
		if m == x {
			return true
		}
	}
	return false
}

// waiting reads the share of time that a workload waits for a CPU, in percent.
func (t *turn) waiting(r *goal.Reading, o *workload.Observation) {
	r.Steady = true
	if o.WaitedFrom == "" {
		r.Failed = "this kernel does not count how long it waits for a CPU"
		return
	}
	r.Known, r.At, r.Value = true, t.Began.Round(0).UTC(), 100*Waited(o)
}

// harm reads the signal of package share for harm, in parts of its limit.
func (t *turn) harm(r *goal.Reading, o *workload.Observation) {
	r.Steady, r.Most = true, 1
	for i := range t.Interference.Victims {
		v := &t.Interference.Victims[i]
		if v.ID != o.ID || len(v.Samples) == 0 {
			continue
		}
		now := v.Samples[len(v.Samples)-1]
		if v.Limit > 0 && now >= 0 {
			r.Known, r.At, r.Value = true, t.Interference.At, now/v.Limit
			return
		}
	}
	r.Failed = "its baseline is not known yet"
}

// canLimit returns the resources, other than cores, that sharing limits on this host.
func (t *turn) canLimit() (out []goal.Resource) {
	limit := &t.settings.Base.Cache
	if limit.Cache > 0 && t.cacheStands() {
		out = append(out, goal.Cache)
	}
	if limit.Bandwidth > 0 && t.cacheStands() {
		out = append(out, goal.Bandwidth)
	}
	return out
}

// cacheStands reports whether batch work has its group of resctrl.
func (t *turn) cacheStands() bool { return t.Journal.Of(plan.CacheGroup, share.CacheGroup) != nil }

// Limited returns the part of most that goals leave batch work of the caches and of memory bandwidth.
func (v *View) Limited(most share.CacheLimit) share.CacheLimit {
	if v.Goals == nil {
		return most
	}
	part := func(all int, r goal.Resource) int {
		if percent := v.Goals.Limits[r]; percent > 0 && all > 0 {
			return max(5, int(math.Round(float64(all*percent)/100)))
		}
		return all
	}
	return share.CacheLimit{Cache: part(most.Cache, goal.Cache), Bandwidth: max(part(most.Bandwidth, goal.Bandwidth), min(most.Bandwidth, 10))}
}
