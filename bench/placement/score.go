package main

import (
	"slices"

	"github.com/homenode/homenode/core/place"
	"github.com/homenode/homenode/core/place/replay"
	"github.com/homenode/homenode/core/plan"
	"github.com/homenode/homenode/core/topology"
)

// Score is what the shared scorer (cases/score.py) says of one peer on one case;
// the JSON names are the scorer's.
type Score struct {
	Peer         string  `json:"peer"`
	Case         string  `json:"case"`
	N            int     `json:"n"`
	Accepted     int     `json:"accepted"`
	AcceptedVCPU float64 `json:"acc_vcpu"` // of offered vCPUs
	// of accepted vCPUs: all of the workload's memory is on their node
	Local        float64        `json:"local"`
	LocalGoodput float64        `json:"local_goodput"` // the same of offered vCPUs
	Utility      float64        `json:"utility"`       // Σ vCPUs × max(0.05, 2 − cost) over offered vCPUs
	Cost         float64        `json:"cost"`          // mean access cost over accepted vCPUs, local = 1
	Imbalance    float64        `json:"imbalance"`     // highest over mean node load, mean over arrivals
	Shares       float64        `json:"smt_shares"`    // cores with two tenants, mean over arrivals
	RejectedRoom int            `json:"rej_room"`      // refused though the host had CPUs and memory in all
	MissedLocal  int            `json:"missed_local"`  // one node had room and it was not used
	P50          float64        `json:"p50_us"`
	P99          float64        `json:"p99_us"`
	Max          float64        `json:"max_us"`
	Moves        int            `json:"moves"`
	MovedGiB     float64        `json:"moved_gib"`
	Lasting      float64        `json:"lasting_utility"` // utility, and what moves changed of it for the moved
	Bad          map[string]int `json:"bad"`
	Expect       string         `json:"expect,omitempty"`
}

// meter scores a case while it runs. It keeps its own book of who holds what, so
// that the engine's ledger is not its own witness.
type meter struct {
	c      *replay.Case
	nodeOf map[topology.CPUID]int
	coreOf map[topology.CPUID]int
	usable []int
	free   []topology.KiB
	owner  map[topology.CPUID]string
	held   map[string]*plan.Placement
	next   int // event to look at next

	s                        Score
	offered, took, local     float64
	utility, cost, changed   float64
	imbalances, shares, lats []float64
}

func newMeter(c *replay.Case, peer string) *meter {
	m := &meter{
		c: c, nodeOf: map[topology.CPUID]int{}, coreOf: map[topology.CPUID]int{},
		owner: map[topology.CPUID]string{}, held: map[string]*plan.Placement{},
		s: Score{Peer: peer, Case: c.Name, Bad: map[string]int{}},
	}
	for i := range c.Host.Nodes {
		n := &c.Host.Nodes[i]
		for cpu := range n.CPUs.All() {
			m.nodeOf[cpu] = i
		}
		m.usable = append(m.usable, n.CPUs.Minus(c.Policy.Reserved).Len())
		m.free = append(m.free, n.Memory)
	}
	for i := range c.Host.Cores {
		for cpu := range c.Host.Cores[i].CPUs.All() {
			m.coreOf[cpu] = i
		}
	}
	return m
}

func (m *meter) hold(id string, p *plan.Placement) {
	for cpu := range p.CPUs.All() {
		if m.owner[cpu] != "" {
			m.s.Bad["double_cpu"]++
		}
		if m.c.Policy.Reserved.Has(cpu) {
			m.s.Bad["reserved_cpu"]++
		}
		m.owner[cpu] = id
	}
	for _, x := range p.Memory {
		i := m.node(x.Node)
		if m.free[i] -= x.KiB; m.free[i] < 0 {
			m.s.Bad["mem_over"]++
		}
	}
	m.held[id] = p
}

func (m *meter) drop(id string) {
	p := m.held[id]
	if p == nil {
		return
	}
	delete(m.held, id)
	for cpu := range p.CPUs.All() {
		if m.owner[cpu] == id {
			delete(m.owner, cpu)
		}
	}
	for _, x := range p.Memory {
		m.free[m.node(x.Node)] += x.KiB
	}
}

func (m *meter) node(id topology.NodeID) int {
	return slices.IndexFunc(m.c.Host.Nodes, func(n topology.Node) bool { return n.ID == id })
}

// catchUp takes in what happened before event i.
func (m *meter) catchUp(i int) {
	for ; m.next < i; m.next++ {
		switch e := &m.c.Events[m.next]; e.Op {
		case replay.Preplace:
			m.hold(string(e.VM), e.Placement(m.c.Host))
		case replay.Depart:
			m.drop(string(e.VM))
		}
	}
}

func (m *meter) answered(a *replay.Answer, _ *place.Ledger) error {
	m.catchUp(a.I)
	m.move(a.Moves)
	spec := &m.c.Events[a.I].Spec
	v := float64(spec.CPUs)
	m.s.N++
	m.offered += v
	fitsNode, fitsHost := m.fits(spec.CPUs, spec.Memory)
	m.lats = append(m.lats, float64(a.Nanos)/1000)
	if !a.OK {
		if fitsHost {
			m.s.RejectedRoom++
		}
		if fitsNode {
			m.s.MissedLocal++
		}
	} else {
		p := a.Result.Placement
		cost, local := m.access(&p)
		m.hold(string(a.VM), &p)
		if p.CPUs.Len() != spec.CPUs {
			m.s.Bad["wrong_cpu_count"]++
		}
		m.s.Accepted++
		m.took += v
		m.local += local
		m.cost += cost * v
		m.utility += v * max(0.05, 2-cost)
		if fitsNode && local < v {
			m.s.MissedLocal++
		}
	}
	m.imbalances = append(m.imbalances, m.imbalance()...)
	m.shares = append(m.shares, m.shared())
	return nil
}

// move takes in moves, one after the other, each on top of the one before.
func (m *meter) move(moves []replay.Moved) {
	for i := range moves {
		x := &moves[i].Move
		id := string(x.Workload)
		old := m.held[id]
		before, _ := m.access(old)
		m.drop(id)
		to := x.To
		m.hold(id, &to)
		after, _ := m.access(&to)
		m.s.Moves++
		m.s.MovedGiB += float64(x.KiB) / (1 << 20)
		if x.KiB > old.Asked {
			m.s.Bad["moved_over"]++
		}
		m.changed += float64(to.VCPUs) * (max(0.05, 2-after) - max(0.05, 2-before))
	}
}

func (m *meter) fits(vcpus int, mem topology.KiB) (onNode, onHost bool) {
	free := slices.Clone(m.usable)
	for cpu := range m.owner {
		if !m.c.Policy.Reserved.Has(cpu) {
			free[m.nodeOf[cpu]]--
		}
	}
	cpus, all := 0, topology.KiB(0)
	for i, f := range free {
		onNode = onNode || (f >= vcpus && m.free[i] >= mem)
		cpus += f
		all += m.free[i]
	}
	return onNode, cpus >= vcpus && all >= mem
}

// access is the mean access cost of a placement and its local vCPUs.
func (m *meter) access(p *plan.Placement) (cost, local float64) {
	total := 0.0
	for _, x := range p.Memory {
		total += float64(x.KiB)
		for cpu := range p.CPUs.All() {
			cost += float64(x.KiB) * float64(m.c.Host.Distances[m.nodeOf[cpu]][m.node(x.Node)]) / 10
		}
	}
	for cpu := range p.CPUs.All() {
		if len(p.Memory) == 1 && m.node(p.Memory[0].Node) == m.nodeOf[cpu] {
			local++
		}
	}
	return cost / (total * float64(p.CPUs.Len())), local
}

func (m *meter) imbalance() []float64 {
	used := make([]float64, len(m.usable))
	for cpu := range m.owner {
		used[m.nodeOf[cpu]]++
	}
	most, sum := 0.0, 0.0
	for i := range used {
		load := used[i] / float64(m.usable[i])
		most = max(most, load)
		sum += load
	}
	if sum == 0 {
		return nil
	}
	return []float64{most / (sum / float64(len(used)))}
}

func (m *meter) shared() float64 {
	first := map[int]string{}
	shared := map[int]bool{}
	for cpu, id := range m.owner {
		g := m.coreOf[cpu]
		if first[g] == "" {
			first[g] = id
		} else if first[g] != id {
			shared[g] = true
		}
	}
	return float64(len(shared))
}

// score is the sum of it.
func (m *meter) score() Score {
	s := m.s
	slices.Sort(m.lats)
	if n := len(m.lats); n > 0 {
		s.P50 = m.lats[n/2]
		s.P99 = m.lats[min(n-1, n*99/100)]
		s.Max = m.lats[n-1]
	}
	s.AcceptedVCPU = m.took / max(1, m.offered)
	s.Local = m.local / max(1, m.took)
	s.LocalGoodput = m.local / max(1, m.offered)
	s.Utility = m.utility / max(1, m.offered)
	s.Lasting = (m.utility + m.changed) / max(1, m.offered)
	s.Cost = m.cost / max(1, m.took)
	s.Imbalance = mean(m.imbalances)
	s.Shares = mean(m.shares)
	return s
}

func mean(x []float64) float64 {
	if len(x) == 0 {
		return 0
	}
	sum := 0.0
	for _, v := range x {
		sum += v
	}
	return sum / float64(len(x))
}
