package share

import (
	"cmp"
	"math"
	"slices"
	"time"

	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/core/words"
	"github.com/homenode/homenode/core/workload"
)

// Settings are the rules of sharing.
type Settings struct {
	On     bool    `json:"on"`
	Target float64 `json:"target"` // of the pool, how much may be busy, 0 to 1
	Idle   int     `json:"idle"`   // CPUs of every node that are kept idle; 0 is an eighth of the pool
	// MaxWait is the share of time, 0 to 1, that important work may wait for a CPU; 0 does
	// not ask.
	MaxWait float64 `json:"max_wait"`
	Freeze  bool    `json:"freeze"` // batch work is frozen when squeezing is not enough
	// EvictAfter is how long batch work is frozen, or somebody important waits though it has
	// the least that it may, until its manager is asked to stop it; 0 asks nobody.
	EvictAfter time.Duration `json:"evict_after,omitempty"`
	Stop       bool          `json:"stop,omitempty"` // systemd is asked, too, to stop units of batch work
	// Scheduler: a scheduler for batch work is loaded into the kernel, where that takes one.
	Scheduler bool `json:"scheduler,omitempty"`
	// Probation is how long another version must hold before it is kept.
	Probation time.Duration `json:"probation,omitempty"`
	// Spare is the number of cores that batch work has besides those that its budget needs, 0 or more, where that
	// scheduler holds it to the budget.
	Spare int `json:"spare,omitempty"`
}

// DefaultSettings returns settings that are off. 65 % is Koordinator's target; a service on a half
// busy host waits about five percent of the time anyway. Freezing is off, because a client of batch
// work would wait forever.
func DefaultSettings() Settings {
	return Settings{Target: 0.65, MaxWait: 0.05, Spare: 1}
}

// Input is the use of CPUs in one scan.
type Input struct {
	At    time.Time
	Nodes []Node // rising by ID
	Work  []Work // batch workloads, rising by ID
	// Scheduled: a scheduler in the kernel holds batch work to the budget, CPU by CPU.
	Scheduled bool
	Settings
}

// Node is the CPUs of one NUMA node, by user.
type Node struct {
	ID    topology.NodeID
	Pool  topology.CPUSet   // online, neither reserved nor dedicated
	Cores []topology.CPUSet // those that lie wholly in Pool, in the order of the machine
	// Target replaces that of Settings where latency goals have set it, and the CPUs kept idle follow
	// from it; 0 where they have not.
	Target float64
	Known  bool // the next two are known
	// Online and System are the CPUs of Pool kept busy by online work and by what is no workload.
	Online, System float64
	// Wait is the share of time, 0 to 1, that the important workload Waiting waited for a CPU:
	// the most of any that runs here. 0 when nothing tells.
	Wait    float64
	Waiting workload.ID
}

// Work is one batch workload.
type Work struct {
	ID         workload.ID
	Importance int
	CPUs       topology.CPUSet      // it may have at most
	Now        topology.CPUSet      // it may use now
	Use        float64              // CPUs that it keeps busy
	Traffic    int64                // of its memory, MiB/s; 0 when no counter tells
	RanOn      []workload.NodeShare // where; rising by node
	Freezes    bool                 // it can be frozen
	Limits     bool                 // how much of its CPUs it uses can be limited
	Max        float64              // CPUs that it is limited to now; 0 for no limit
	Asks       bool                 // its manager can be asked to stop it
	Proven     bool                 // it was found to hurt somebody important lately
}

// State is the memory from one scan to the next.
type State struct {
	Nodes  []NodeState   `json:"nodes,omitempty"`
	Frozen []Frozen      `json:"frozen,omitempty"` // the newest last
	Turned time.Time     `json:"turned,omitzero"`  // when a workload was last frozen or let go
	Calm   time.Duration `json:"calm,omitempty"`   // nothing must have waited so long before one is let go
	Asking Asking        `json:"asking,omitzero"`
	// Given is the CPUs that batch work may use, of all nodes, and Changed when they changed last:
	// of hosts with many nodes.
	Given   topology.CPUSet `json:"given,omitzero"`
	Changed time.Time       `json:"changed,omitzero"`
	// when something important last waited though batch work was down to one core
	Waited time.Time `json:"waited,omitzero"`
}

// Frozen is a batch workload that homenode freezes.
type Frozen struct {
	Workload workload.ID `json:"workload"`
	For      workload.ID `json:"for"`
	Since    time.Time   `json:"since"`
}

// NodeState is the memory about one node.
type NodeState struct {
	Node  topology.NodeID `json:"node"`
	CPUs  float64         `json:"cpus"`            // that batch work may keep busy
	Given topology.CPUSet `json:"given"`           // it does so on these
	Level float64         `json:"level,omitempty"` // CPUs that no batch workload may keep busy more of; 0 for no limit
	// Given is not more than CPUs: Level counts for who is limited for another node
	Loose  bool          `json:"loose,omitempty"`
	Seen   []Sample      `json:"seen,omitempty"`  // oldest first
	Hold   time.Duration `json:"hold"`            // time between two turns
	Fell   bool          `json:"fell,omitempty"`  // the last change was to less
	Turned time.Time     `json:"turned,omitzero"` // when more was last given after less
	// from when on it may turn to a little more; a minute before to a lot more
	Rested time.Time `json:"rested,omitzero"`
	Shrank time.Time `json:"shrank,omitzero"`
	Target float64   `json:"target,omitempty"` // that latency goals have set
}

// Sample is the use of a node at one time.
type Sample struct {
	At        time.Time `json:"at"`
	Allowance float64   `json:"allowance"`
	Room      float64   `json:"room"`
}

// Outcome is the decision: budgets, grants and frozen workloads.
type Outcome struct {
	Nodes []Budget `json:"nodes"` // rising by node
	Work  []Grant  `json:"work"`  // rising by workload
}

// Budget is batch work's part of one node.
type Budget struct {
	Node   topology.NodeID `json:"node"`   // node ID of the kernel
	CPUs   float64         `json:"cpus"`   // CPUs that batch work may keep busy now; 0 or more
	Given  topology.CPUSet `json:"given"`  // CPUs that it may use for that, in list format
	Pool   int             `json:"pool"`   // number of CPUs that neither dedicated work nor the host holds
	Online float64         `json:"online"` // CPUs that online work keeps busy
	System float64         `json:"system"` // CPUs that everything else keeps busy
	Used   float64         `json:"used"`   // CPUs that batch work keeps busy
	Idle   int             `json:"idle"`   // number of CPUs that are kept idle
	Why    []words.Reason  `json:"why"`    // why, in words and numbers
}

// Grant is the part of one batch workload.
type Grant struct {
	Workload workload.ID     `json:"workload"`                // ID of the workload
	CPUs     topology.CPUSet `json:"cpus"`                    // CPUs that it may use, in list format
	Max      float64         `json:"max,omitempty"`           // CPUs that it may keep busy of them; 0 for no limit
	Traffic  int64           `json:"traffic_mib_s,omitempty"` // traffic of its memory, MiB/s; 0 when no counter tells
	Frozen   bool            `json:"frozen,omitempty"`        // whether it must not run
	// whether it has one core of each node, for it hurts somebody
	Cut   bool         `json:"cut,omitempty"`
	For   workload.ID  `json:"for,omitempty"`  // workload that it is frozen or cut for, or asked away
	Since time.Time    `json:"since,omitzero"` // when it was frozen or cut
	Asked time.Time    `json:"asked,omitzero"` // when its manager was asked to stop it
	Why   words.Reason `json:"why"`            // why, in words and numbers
}

const (
	// window is the least time that there must have been room before more is given, and what the
	// allowance is averaged over: five looks at the default period, so that one quiet look is
	// not taken for rest.
	window = 10 * time.Second

	// kept is how long samples are kept, to tell noise from change.
	kept = time.Minute

	// between is the time between two turns from less to more: a load that comes and goes is
	// followed once a minute and no more often.
	between = time.Minute

	// betweenGoals is the same where latency goals set the target, which changes as the load does. With two minutes
	// there were more turns than with a constant target (bench/goalsim: 0.67 and 0.62 a minute; now 0.61).
	betweenGoals = 140 * time.Second

	// mostHold bounds what that grows to where important work waits each time that more is given.
	mostHold = 16 * time.Minute

	// soon is when who is frozen may be let go at the earliest.
	soon = time.Minute

	// growth is the part of the pool that is given at most in one round, as Koordinator's
	// beMaxIncreaseCPUPercent; at least one core.
	growth = 0.1

	// many is from how many nodes on what they give more is gathered for so long: all are in one CPU
	// set of each batch cgroup, and what is bounded for each node would add up to a change in each look.
	many   = 9
	gather = 10 * time.Second

	// point is the part of the pool that a change must have.
	point = 0.01

	// least is the part of the pool that batch work may always keep busy, where it can be
	// limited to so little; else it has one core.
	least = 0.02

	// fine is the number of cores from which on one core more or less is a small part of a
	// node: what is given is met by whole cores alone.
	fine = 32

	// slack is how much of a core what is given may lie above the budget before it is
	// taken back, on nodes where it is met by whole cores alone. More than a half, at which it
	// is given: else a budget that hardly changes would swing.
	slack = 0.75

	// crumb and crumbOf bound what is left of a whole CPU and is not given, in CPUs and as a part of the whole CPUs of
	// the budget.
	crumb, crumbOf = 0.2, 0.05

	// patience is the time between two workloads that are frozen or let go: what the first
	// brought must be seen before.
	patience = 10 * time.Second
)

// Decide computes batch work's part of the host, and the new state. It modifies no argument.
func Decide(in Input, was State) (Outcome, State) {
	now := State{Frozen: slices.Clone(was.Frozen), Turned: was.Turned, Calm: max(was.Calm, soon), Waited: was.Waited,
		Asking: was.Asking, Given: was.Given, Changed: was.Changed}
	out := Outcome{Nodes: []Budget{}, Work: []Grant{}}
	pressed := -1 // a node that gives the least that it may, and important work waits
	for i := range in.Nodes {
		n := &in.Nodes[i]
		k, known := slices.BinarySearchFunc(was.Nodes, n.ID,
			func(s NodeState, id topology.NodeID) int { return cmp.Compare(s.Node, id) })
		m := NodeState{Node: n.ID, Hold: between}
		switch {
		case known:
			m = was.Nodes[k]
			m.Seen = slices.Clone(m.Seen)
		case len(in.Work) == 0: // what there would be
			m.CPUs = float64(n.Pool.Len())
		default: // what batch work has now is what there is to take back
			for j := range in.Work {
				m.Given = m.Given.Union(in.Work[j].Now)
			}
			m.CPUs = float64(whole(n, m.Given).Len())
		}
		b := m.round(&in, n)
		if waits(&in, n) && m.CPUs <= in.LeastOf(n) && (pressed < 0 || n.Wait > in.Nodes[pressed].Wait) {
			pressed = i
		}
		now.Nodes, out.Nodes = append(now.Nodes, m), append(out.Nodes, b)
	}
	now.gather(&in, &out)
	now.freeze(&in, pressed)
	now.ask(&in, pressed)
	out.grant(&in, &now)
	return out, now
}

func waits(in *Input, n *Node) bool { return in.MaxWait > 0 && n.Wait > in.MaxWait }

// Used returns the CPUs of a node that batch work keeps busy.
func (in *Input) Used(n *Node) (sum float64) {
	for i := range in.Work {
		for _, r := range in.Work[i].RanOn {
			if r.Node == n.ID {
				sum += in.Work[i].Use * r.Share
			}
		}
	}
	return sum
}

// idle is how many CPUs of a node are kept idle: when nobody says, an eighth, not less than a
// core and not more than a quarter.
func idle(in *Input, n *Node) int {
	k := n.Pool.Len()
	if in.Idle > 0 {
		return min(in.Idle, k)
	}
	if n.Target > 0 {
		return min(int((1-n.Target)*float64(k)), k/4)
	}
	return min(max(width(n), (k+7)/8), k/4)
}

// width is the CPUs of a core.
func width(n *Node) int {
	if len(n.Cores) == 0 {
		return 1
	}
	return n.Cores[len(n.Cores)-1].Len()
}

// trims reports whether batch work of a node is held to its budget by limits, for a core is
// too much or too little there. Everything that may run there must take one.
func trims(in *Input, n *Node) bool {
	if len(n.Cores) == 0 || fine*width(n) <= n.Pool.Len() {
		return false
	}
	for i := range in.Work {
		if !in.Work[i].Limits && in.Work[i].CPUs.Intersects(n.Pool) {
			return false
		}
	}
	return true
}

// floorOf is the least that batch work has of a node: its last core, else its last CPU.
func floorOf(n *Node) topology.CPUSet {
	switch {
	case len(n.Cores) > 0:
		return n.Cores[len(n.Cores)-1]
	case !n.Pool.Empty():
		return topology.CPUs(n.Pool.Max())
	}
	return topology.CPUSet{}
}

// LeastOf returns the CPUs of a node that batch work may always keep busy.
func (in *Input) LeastOf(n *Node) float64 {
	all := float64(floorOf(n).Len())
	if trims(in, n) {
		return min(all, least*float64(n.Pool.Len()))
	}
	return all
}

// round is the next of one node.
func (m *NodeState) round(in *Input, n *Node) Budget {
	b := Budget{Node: n.ID, Pool: n.Pool.Len(), Online: n.Online, System: n.System, Used: in.Used(n), Idle: idle(in, n)}
	floor, trims := floorOf(n), trims(in, n)
	m.Given = whole(n, m.Given).Union(floor)
	switch {
	case floor.Empty():
		b.Why = words.Reasons(words.Because(words.ShareNoCPUs))
		return b
	case len(n.Cores) == 0:
		m.CPUs, m.Level = 1, 0
		b.CPUs = m.CPUs
		b.Given = m.Given
		b.Why = words.Reasons(words.Because(words.ShareNoCore))
		return b
	case !n.Known:
		m.CPUs = min(m.CPUs, float64(m.Given.Len()))
		b.CPUs = m.CPUs
		b.Given = m.Given
		b.Why = words.Reasons(words.Because(words.ShareUnknown))
		return b
	}
	pool := float64(b.Pool)
	used := n.Online + n.System
	low := in.LeastOf(n)
	target := cmp.Or(n.Target, in.Target)
	now := Sample{At: in.At, Allowance: pool*target - used, Room: pool - used - float64(b.Idle)}
	b.Why = words.Reasons(words.Because(words.ShareBudget, b.Pool, n.Online, n.System, b.Idle, target,
		max(0, min(now.Allowance, now.Room))))
	if now.Room < now.Allowance {
		b.Why = append(b.Why, words.Because(words.ShareBuffer))
	}
	step := growth * pool
	if !trims {
		step = max(step, float64(width(n)))
	}
	m.retarget(n.Target, target, pool)
	before := m.CPUs
	m.remember(now)
	seen := m.look(pool)
	m.CPUs = max(low, m.less(now, &seen))
	if waits(in, n) {
		b.Why = append(b.Why, words.Because(words.ShareWaits, string(n.Waiting), n.Wait, in.MaxWait))
		m.CPUs = max(low, min(m.CPUs, before-step))
		last := &m.Seen[len(m.Seen)-1]
		last.Allowance = min(last.Allowance, m.CPUs) // no room is seen here for as long as it waits
	} else if m.CPUs == before {
		more, when := m.more(now, &seen, pool)
		switch {
		case more == before:
		case when > 0:
			b.Why = append(b.Why, words.Because(words.ShareSettling, when))
		default:
			m.CPUs = min(more, m.may()+step) // more than it had: a step is larger than a crumb
			if m.Fell || m.Turned.IsZero() {
				m.Fell, m.Turned = false, in.At
				rest := between
				if n.Target > 0 {
					rest = betweenGoals
				}
				if m.Rested = m.Rested.Add(rest); m.Rested.Before(in.At.Add(rest)) {
					m.Rested = in.At.Add(rest)
				}
			}
			b.Why = append(b.Why, words.Because(words.ShareGrown, m.CPUs-before))
		}
	}
	if m.CPUs < before {
		if waits(in, n) && !m.Fell && !m.Turned.IsZero() { // it waits for what was given
			if in.At.Sub(m.Turned) < 2*m.Hold {
				m.Hold = min(2*m.Hold, mostHold)
			} else {
				m.Hold = between
			}
		}
		m.Fell, m.Shrank = true, in.At
		b.Why = append(b.Why, words.Because(words.ShareShrunk, before-m.CPUs))
	}
	may := max(low, m.may())
	if may < m.CPUs {
		b.Why = append(b.Why, words.Because(words.ShareCrumb, m.CPUs, may))
	}
	cores := may
	if trims && in.Scheduled && m.CPUs > low && !waits(in, n) {
		// A scheduler holds batch work to the budget on whatever CPUs it has. Without a core to move to, each thread
		// that wakes on one of its CPUs costs batch work that CPU.
		cores += float64(in.Spare * width(n))
	}
	m.cover(n, cores, now.Room, trims)
	m.level(in, n, may, trims)
	if m.CPUs <= low {
		b.Why = append(b.Why, words.Because(words.ShareFloor, m.CPUs))
	}
	b.CPUs, b.Given = may, m.Given
	return b
}

// whole is what of a set is whole cores of a node.
func whole(n *Node, set topology.CPUSet) topology.CPUSet {
	var out topology.CPUSet
	for _, c := range n.Cores {
		if c.SubsetOf(set) {
			out = out.Union(c)
		}
	}
	return out
}

// retarget moves the samples of a node to a new target: earlier samples of online work still count. goals is
// the target that latency goals have set, 0 for none.
func (m *NodeState) retarget(goals, target, pool float64) {
	if m.Target > 0 && m.Target != target {
		for i := range m.Seen {
			m.Seen[i].Allowance += pool * (target - m.Target)
		}
	}
	m.Target = 0
	if goals > 0 {
		m.Target = target
	}
}

// remember keeps what was found, one sample a second, for as long as it may be asked for: the
// newest that is older than window tells that all of window was seen.
func (m *NodeState) remember(now Sample) {
	k := len(m.Seen)
	switch {
	case k > 0 && now.At.Before(m.Seen[k-1].At): // the clock was set back: all begins anew
		m.Seen = nil
		m.Shrank = now.At
		m.Turned = now.At
		m.Rested = now.At.Add(between)
	case k > 1 && now.At.Sub(m.Seen[k-2].At) < time.Second:
		last := &m.Seen[k-1]
		last.At = now.At
		last.Allowance = (last.Allowance + now.Allowance) / 2
		last.Room = min(last.Room, now.Room)
		return
	}
	m.Seen = append(m.Seen, now)
	for len(m.Seen) > 2 && now.At.Sub(m.Seen[1].At) >= kept {
		m.Seen = m.Seen[1:]
	}
}

// seen is what the samples of a node tell.
type seen struct {
	whole     bool    // they reach over the whole window
	mean, low float64 // allowance, of the window
	room      float64 // the least, of the window
	noise     float64 // how much the allowance goes up and down from look to look
	dead      float64 // what is no change
}

func (m *NodeState) look(pool float64) seen {
	at := m.Seen[len(m.Seen)-1].At
	s := seen{whole: at.Sub(m.Seen[0].At) >= window, low: math.Inf(1), room: math.Inf(1)}
	k := 0
	for _, x := range slices.Backward(m.Seen) {
		if k > 0 && at.Sub(x.At) >= window {
			break
		}
		s.mean += x.Allowance
		s.low = min(s.low, x.Allowance)
		s.room = min(s.room, x.Room)
		k++
	}
	s.mean /= float64(k)
	long := 0.0
	for _, x := range m.Seen {
		long += x.Allowance / float64(len(m.Seen))
	}
	if len(m.Seen) > 4 { // the middle one: a step or a burst among them does not count
		steps := make([]float64, 0, len(m.Seen))
		for i := range m.Seen[1:] {
			steps = append(steps, math.Abs(m.Seen[i+1].Allowance-m.Seen[i].Allowance))
		}
		slices.Sort(steps)
		s.noise = min(steps[len(steps)/2], 3*point*pool)
	}
	s.dead = max(point*pool, s.noise)
	if s.whole && math.Abs(s.mean-long) < 2*s.dead { // nothing has changed but for noise
		s.mean = long
	}
	return s
}

// less is the budget after what is taken back at once: what reaches into the CPUs kept idle,
// and what is above the allowance by more than noise, be it now, be it on average.
func (m *NodeState) less(now Sample, s *seen) float64 {
	c := min(m.CPUs, now.Room)
	switch {
	case c > now.Allowance+max(2*s.dead, 5*s.noise):
		return now.Allowance + 2*s.noise
	case c > s.mean+s.dead:
		return s.mean
	}
	return c
}

// more is the budget that there was room for all through the window, but for noise; when
// is how long it takes until that may be given.
func (m *NodeState) more(now Sample, s *seen, pool float64) (cpus float64, when time.Duration) {
	cpus = min(s.mean, s.low+2*s.noise, s.room)
	if cpus <= m.CPUs+s.dead || !s.whole {
		if cpus = min(now.Allowance, now.Room); cpus <= m.CPUs+s.dead {
			return m.CPUs, 0
		}
		when = window
	}
	if !m.Shrank.IsZero() {
		when = max(when, window-now.At.Sub(m.Shrank))
	}
	if m.Fell && !m.Turned.IsZero() {
		hold := m.Rested.Sub(now.At)
		if cpus-m.CPUs >= growth*pool { // a spike is over: what little was given before must not keep it waiting
			hold -= between
		}
		if m.Hold > between {
			hold = m.Hold - now.At.Sub(m.Turned)
		}
		when = max(when, hold)
	}
	return cpus, when
}
