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

// Settings say how much is shared.
type Settings struct {
	On     bool    `json:"on"`
	Target float64 `json:"target"` // of the pool, how much may be busy, 0 to 1
	Idle   int     `json:"idle"`   // CPUs of every node that are kept idle; 0 is an eighth of the pool
	// MaxWait is the share of time, 0 to 1, that important work may wait for a CPU; 0 does
	// not ask.
	MaxWait float64 `json:"max_wait"`
	Freeze  bool    `json:"freeze"` // offline work is frozen when squeezing is not enough
	// Scheduler: a scheduler for offline work is loaded into the kernel, where that takes one.
	Scheduler bool `json:"scheduler,omitempty"`
	// Probation is how long another version of it must hold before it is kept.
	Probation time.Duration `json:"probation,omitempty"`
}

// DefaultSettings are off. 65 % is what Koordinator keeps to; five percent of the time is
// about what a service on a host half busy waits anyway. Nothing is frozen: who waits for an
// answer of offline work would wait for ever.
func DefaultSettings() Settings {
	return Settings{Target: 0.65, MaxWait: 0.05}
}

// Input is one look at what is used.
type Input struct {
	At    time.Time
	Nodes []Node // rising by ID
	Work  []Work // offline workloads, rising by ID
	Settings
}

// Node is the CPUs of one NUMA node and who uses them.
type Node struct {
	ID    topology.NodeID
	Pool  topology.CPUSet   // online, neither reserved nor dedicated
	Cores []topology.CPUSet // those that lie wholly in Pool, in the order of the machine
	Known bool              // the next two are known
	// Online and System are the CPUs of Pool kept busy by online work and by what is no workload.
	Online, System float64
	// Wait is the share of time, 0 to 1, that the important workload Waiting waited for a CPU:
	// the most of any that runs here. 0 when nothing tells.
	Wait    float64
	Waiting workload.ID
}

// Work is one offline workload.
type Work struct {
	ID         workload.ID
	Importance int
	CPUs       topology.CPUSet // it may have at most
	Now        topology.CPUSet // it may use now
	Use        float64         // CPUs that it keeps busy
	Freezes    bool            // it can be frozen
	Proven     bool            // it was found to hurt somebody important lately
}

// State is what is remembered from one round to the next.
type State struct {
	Nodes  []NodeState   `json:"nodes,omitempty"`
	Frozen []Frozen      `json:"frozen,omitempty"` // the newest last
	Turned time.Time     `json:"turned,omitzero"`  // when a workload was last frozen or let go
	Calm   time.Duration `json:"calm,omitempty"`   // nothing must have waited so long before one is let go
	Waited time.Time     `json:"waited,omitzero"`  // when something important last waited though offline work was down to one core
}

// Frozen is an offline workload that must not run.
type Frozen struct {
	Workload workload.ID `json:"workload"`
	For      workload.ID `json:"for"`
	Since    time.Time   `json:"since"`
}

// NodeState is what is remembered of a node.
type NodeState struct {
	Node   topology.NodeID `json:"node"`
	Given  topology.CPUSet `json:"given"`
	Seen   []Sample        `json:"seen,omitempty"` // oldest first
	Hold   time.Duration   `json:"hold"`           // there must have been room for so long before more is given
	Grew   time.Time       `json:"grew,omitzero"`
	Shrank time.Time       `json:"shrank,omitzero"`
}

// Sample is what was found at one time.
type Sample struct {
	At        time.Time `json:"at"`
	Allowance float64   `json:"allowance"`
	Room      float64   `json:"room"`
}

// Outcome is what offline work may have now.
type Outcome struct {
	Nodes []Budget `json:"nodes"` // rising by node
	Work  []Grant  `json:"work"`  // rising by workload
}

// Budget is what offline work may have of one node.
type Budget struct {
	Node   topology.NodeID `json:"node"`   // node ID of the kernel
	CPUs   float64         `json:"cpus"`   // CPUs that offline work may keep busy now, by the formula; 0 or more
	Given  topology.CPUSet `json:"given"`  // CPUs that it is given, in list format
	Pool   int             `json:"pool"`   // number of CPUs that neither dedicated work nor the host holds
	Online float64         `json:"online"` // CPUs that online work keeps busy
	System float64         `json:"system"` // CPUs that everything else keeps busy
	Idle   int             `json:"idle"`   // number of CPUs that are kept idle
	Why    []words.Reason  `json:"why"`    // why, in words and numbers
}

// Grant is what one offline workload may have.
type Grant struct {
	Workload workload.ID     `json:"workload"`         // ID of the workload
	CPUs     topology.CPUSet `json:"cpus"`             // CPUs that it may use, in list format
	Frozen   bool            `json:"frozen,omitempty"` // whether it must not run
	Cut      bool            `json:"cut,omitempty"`    // whether it has one core of each node, for it hurts somebody
	For      workload.ID     `json:"for,omitempty"`    // workload that it is frozen or cut for
	Since    time.Time       `json:"since,omitzero"`   // when it was frozen or cut
	Why      words.Reason    `json:"why"`              // why, in words and numbers
}

const (
	// window is the least time that there must have been room before more is given: five
	// looks at the default period, so that one quiet look is not taken for rest.
	window = 10 * time.Second

	// mostHold bounds what Hold grows to: a load that comes every few minutes is seen coming.
	mostHold = 4 * time.Minute

	// soon is when taking back what was given tells that it was given too early.
	soon = time.Minute

	// growth is the part of the pool that is given at most in one round, as Koordinator's
	// beMaxIncreaseCPUPercent; at least one core.
	growth = 0.1

	// slack is how much of a core what is given may lie above the allowance before it is
	// taken back. More than a half, at which it is given: else a load that does not
	// change would swing.
	slack = 0.75

	// patience is the time between two workloads that are frozen or let go: what the first
	// brought must be seen before.
	patience = 10 * time.Second
)

// Decide is what offline work may have in a round, and what is to be remembered. It changes
// nothing that it is handed.
func Decide(in Input, was State) (Outcome, State) {
	now := State{Frozen: slices.Clone(was.Frozen), Turned: was.Turned, Calm: max(was.Calm, soon), Waited: was.Waited}
	out := Outcome{Nodes: []Budget{}, Work: []Grant{}}
	pressed := -1 // a node that is down to its floor, and important work waits
	for i := range in.Nodes {
		n := &in.Nodes[i]
		k, known := slices.BinarySearchFunc(was.Nodes, n.ID, func(s NodeState, id topology.NodeID) int { return cmp.Compare(s.Node, id) })
		m := NodeState{Node: n.ID, Hold: window}
		if known {
			m = was.Nodes[k]
			m.Seen = slices.Clone(m.Seen)
		} else {
			for j := range in.Work { // what offline work has now is what there is to take back
				m.Given = m.Given.Union(in.Work[j].Now)
			}
		}
		b := m.round(&in, n)
		if waits(&in, n) && m.Given.Len() <= floorOf(n).Len() && (pressed < 0 || n.Wait > in.Nodes[pressed].Wait) {
			pressed = i
		}
		now.Nodes, out.Nodes = append(now.Nodes, m), append(out.Nodes, b)
	}
	now.freeze(&in, pressed)
	out.grant(&in, &now)
	return out, now
}

func waits(in *Input, n *Node) bool { return in.MaxWait > 0 && n.Wait > in.MaxWait }

// idle is how many CPUs of a node are kept idle.
func idle(in *Input, n *Node) int {
	if in.Idle > 0 {
		return min(in.Idle, n.Pool.Len())
	}
	return min(max(width(n), (n.Pool.Len()+7)/8), n.Pool.Len())
}

// width is the CPUs of a core.
func width(n *Node) int {
	if len(n.Cores) == 0 {
		return 1
	}
	return n.Cores[len(n.Cores)-1].Len()
}

// floorOf is the least that offline work has of a node: its last core, else its last CPU.
func floorOf(n *Node) topology.CPUSet {
	switch {
	case len(n.Cores) > 0:
		return n.Cores[len(n.Cores)-1]
	case !n.Pool.Empty():
		return topology.CPUs(n.Pool.Max())
	}
	return topology.CPUSet{}
}

// round is the next of one node.
func (m *NodeState) round(in *Input, n *Node) Budget {
	b := Budget{Node: n.ID, Pool: n.Pool.Len(), Online: n.Online, System: n.System, Idle: idle(in, n)}
	floor := floorOf(n)
	m.Given = whole(n, m.Given).Union(floor)
	switch {
	case floor.Empty():
		b.Why = words.Reasons(words.Because(words.ShareNoCPUs))
		return b
	case len(n.Cores) == 0:
		b.Given, b.Why = m.Given, words.Reasons(words.Because(words.ShareNoCore))
		return b
	case !n.Known:
		b.Given, b.Why = m.Given, words.Reasons(words.Because(words.ShareUnknown))
		return b
	}
	used := n.Online + n.System
	now := Sample{At: in.At, Allowance: float64(b.Pool)*in.Target - used, Room: float64(b.Pool) - used - float64(b.Idle)}
	b.CPUs = max(0, min(now.Allowance, now.Room))
	b.Why = words.Reasons(words.Because(words.ShareBudget, b.Pool, n.Online, n.System, b.Idle, in.Target, b.CPUs))
	if now.Room < now.Allowance {
		b.Why = append(b.Why, words.Because(words.ShareBuffer))
	}
	before := m.Given.Len()
	m.shrink(n, &now)
	if waits(in, n) {
		b.Why = append(b.Why, words.Because(words.ShareWaits, string(n.Waiting), n.Wait, in.MaxWait))
		if m.Given.Len() == before {
			m.takeBack(n, max(1, int(growth*float64(b.Pool))))
		}
		now.Allowance = min(now.Allowance, float64(m.Given.Len())) // no room is seen here for as long as it waits
	}
	m.remember(in.At, now)
	if taken := before - m.Given.Len(); taken > 0 {
		if !m.Grew.IsZero() && in.At.Sub(m.Grew) < max(soon, 2*m.Hold) {
			m.Hold = min(2*m.Hold, mostHold)
		} else {
			m.Hold = window
		}
		m.Shrank = in.At
		b.Why = append(b.Why, words.Because(words.ShareShrunk, taken))
	} else if more, waits := m.grow(in, n); more > 0 {
		m.Grew = in.At
		b.Why = append(b.Why, words.Because(words.ShareGrown, more))
	} else if waits {
		b.Why = append(b.Why, words.Because(words.ShareSettling, m.Hold))
	}
	if m.Given.Equal(floor) && b.CPUs < float64(floor.Len()) {
		b.Why = append(b.Why, words.Because(words.ShareFloor))
	}
	b.Given = m.Given
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

// shrink takes cores back, the first of the node first, until what is left is within the
// room and, to a part of a core, within the allowance.
func (m *NodeState) shrink(n *Node, now *Sample) {
	for _, c := range n.Cores[:len(n.Cores)-1] { // the last is the floor
		have := float64(m.Given.Len())
		if have <= now.Room && have <= now.Allowance+slack*float64(c.Len()) {
			return
		}
		if c.SubsetOf(m.Given) {
			m.Given = m.Given.Minus(c)
		}
	}
}

// takeBack takes cores back until so many CPUs, or all but the floor, are.
func (m *NodeState) takeBack(n *Node, cpus int) {
	for _, c := range n.Cores[:len(n.Cores)-1] {
		if cpus <= 0 {
			return
		}
		if c.SubsetOf(m.Given) {
			m.Given = m.Given.Minus(c)
			cpus -= c.Len()
		}
	}
}

// remember keeps what was found for as long as it may be asked for: the newest that is
// older than Hold tells that all of Hold was seen.
func (m *NodeState) remember(at time.Time, now Sample) {
	if k := len(m.Seen); k > 0 && !m.Seen[k-1].At.Before(at) { // the clock was set back
		m.Seen = nil
	}
	m.Seen = append(m.Seen, now)
	for len(m.Seen) > 1 && at.Sub(m.Seen[1].At) >= m.Hold {
		m.Seen = m.Seen[1:]
	}
	if len(m.Seen) > mostSeen { // of a short period: every other will do, with the less of two
		thin := m.Seen[:0]
		newest := m.Seen[len(m.Seen)-1]
		for k := 0; k+1 < len(m.Seen)-1; k += 2 {
			a, b := m.Seen[k], m.Seen[k+1]
			thin = append(thin, Sample{a.At, min(a.Allowance, b.Allowance), min(a.Room, b.Room)})
		}
		m.Seen = append(thin, newest)
	}
}

// mostSeen bounds the samples of a node; odd, so that they go in pairs when there is one
// more and the newest stays by itself. It is mostHold at the default period.
const mostSeen = 128

// grow gives as many cores as there was room for all through Hold. waits: there is room
// now, and was not for as long.
func (m *NodeState) grow(in *Input, n *Node) (more int, waits bool) {
	allowance, room := math.Inf(1), math.Inf(1)
	for _, s := range m.Seen {
		allowance, room = min(allowance, s.Allowance), min(room, s.Room)
	}
	newest := m.Seen[len(m.Seen)-1]
	settled := in.At.Sub(m.Seen[0].At) >= m.Hold && in.At.Sub(m.Shrank) >= m.Hold
	most := int(growth * float64(n.Pool.Len()))
	for _, c := range slices.Backward(n.Cores) {
		if c.SubsetOf(m.Given) {
			continue
		}
		next, half := float64(m.Given.Len()+c.Len()), float64(c.Len())/2
		if next > newest.Room || next-half > newest.Allowance {
			break
		}
		if !settled || next > room || next-half > allowance {
			return more, true
		}
		if more > 0 && more+c.Len() > most {
			break
		}
		m.Given, more = m.Given.Union(c), more+c.Len()
	}
	return more, false
}

// Squeeze is offline work in the order in which it is frozen: what matters least first, of
// that what was found to hurt somebody, then what uses most CPU.
func Squeeze(work []Work) []Work {
	out := slices.Clone(work)
	proven := map[bool]int{true: 1}
	slices.SortFunc(out, func(a, b Work) int {
		return cmp.Or(cmp.Compare(a.Importance, b.Importance), -cmp.Compare(proven[a.Proven], proven[b.Proven]), -cmp.Compare(a.Use, b.Use), cmp.Compare(a.ID, b.ID))
	})
	return out
}

// freeze freezes one more workload, or lets one go.
func (s *State) freeze(in *Input, pressed int) {
	s.Frozen = slices.DeleteFunc(s.Frozen, func(f Frozen) bool {
		return !slices.ContainsFunc(in.Work, func(w Work) bool { return w.ID == f.Workload })
	})
	if !in.Freeze {
		s.Frozen = nil
		return
	}
	if pressed >= 0 {
		s.Waited = in.At
	}
	rested := s.Turned.IsZero() || in.At.Sub(s.Turned).Abs() >= patience
	switch {
	case pressed >= 0 && rested:
		n := &in.Nodes[pressed]
		for _, w := range Squeeze(in.Work) {
			frozen := slices.ContainsFunc(s.Frozen, func(f Frozen) bool { return f.Workload == w.ID })
			if frozen || !w.Freezes || !w.CPUs.Intersects(n.Pool) {
				continue
			}
			if len(s.Frozen) == 0 && !s.Turned.IsZero() && in.At.Sub(s.Turned) < 2*s.Calm { // it was let go too early
				s.Calm = min(2*s.Calm, 10*time.Minute)
			}
			s.Frozen, s.Turned = append(s.Frozen, Frozen{w.ID, n.Waiting, in.At}), in.At
			return
		}
	case pressed < 0 && rested && len(s.Frozen) > 0 && in.At.Sub(s.Waited) >= s.Calm:
		s.Frozen, s.Turned = s.Frozen[:len(s.Frozen)-1], in.At
	}
}

// grant is what of the CPUs that are given each workload may use.
func (out *Outcome) grant(in *Input, s *State) {
	var given topology.CPUSet
	for i := range out.Nodes {
		given = given.Union(out.Nodes[i].Given)
	}
	for i := range in.Work {
		w := &in.Work[i]
		g := Grant{Workload: w.ID, CPUs: given.Intersect(w.CPUs)}
		if g.CPUs.Empty() { // no CPU of its own nodes is in any pool
			g.CPUs = w.CPUs
		}
		var nodes topology.NodeSet
		for k := range in.Nodes {
			if in.Nodes[k].Pool.Intersects(g.CPUs) {
				nodes.Add(in.Nodes[k].ID)
			}
		}
		g.Why = words.Because(words.ShareSet, g.CPUs, nodes)
		if k := slices.IndexFunc(s.Frozen, func(f Frozen) bool { return f.Workload == w.ID }); k >= 0 {
			g.Frozen, g.For, g.Since = true, s.Frozen[k].For, s.Frozen[k].Since
			g.Why = words.Because(words.ShareFreeze, string(g.For))
		}
		out.Work = append(out.Work, g)
	}
}
