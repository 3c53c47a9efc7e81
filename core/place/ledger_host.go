package place

import (
	"slices"

	"github.com/homenode/homenode/core/place/cores"
	"github.com/homenode/homenode/core/plan"
	"github.com/homenode/homenode/core/topology"
)

// NewLedger reads a state into a ledger. What the state holds against the rules
// (see plan.Check) is held all the same, and nothing more fits there.
func NewLedger(st plan.State) *Ledger {
	h := st.Host
	l := &Ledger{host: h, policy: st.Policy, cpus: cores.New(h, &st.Policy)}
	l.nodes = make([]node, len(h.Nodes))
	maxNode := topology.NodeID(-1)
	for i := range h.Nodes {
		maxNode = max(maxNode, h.Nodes[i].ID)
	}
	l.nodeAt = slices.Repeat([]int32{-1}, int(maxNode)+1)
	caps := plan.Capacity(st)
	for i := range h.Nodes {
		l.nodeAt[h.Nodes[i].ID] = int32(i)
		l.addNode(i, caps[i])
	}
	l.crossing = crossingCost(h.Measured)
	for i := range h.Devices {
		if n := l.index(h.Devices[i].Node); n >= 0 {
			l.nodes[n].devices++
		}
	}
	for i := range l.nodes {
		l.largest = max(l.largest, l.nodes[i].Usable)
		l.apart = l.apart || h.Nodes[i].Apart()
		if m := l.nodes[i].memory; m < unlimited && !h.Nodes[i].OfGPU() {
			l.mostMemory = max(l.mostMemory, m)
		}
	}
	l.access = AccessCosts(h)
	l.held = make([]*holding, 0, len(st.Placements))
	l.arena.holdings = make([]holding, len(st.Placements))
	for i := range st.Placements {
		l.add(&st.Placements[i])
	}
	l.pageUse(h)
	l.settle()
	return l
}

func (l *Ledger) addNode(i int, room topology.KiB) {
	hn := &l.host.Nodes[i]
	n := &l.nodes[i]
	n.Node = &l.cpus.Nodes[i]
	n.id, n.alone = hn.ID, topology.Nodes(hn.ID)
	n.memory = room
	if room < 0 {
		n.memory = unlimited
	}
	n.memoryFree = n.memory
	if l.host.AllowedMems.Has(hn.ID) {
		for _, p := range hn.HugePages {
			t := p.Size * topology.KiB(max(0, p.Total))
			n.pages = append(n.pages, pool{p.Size, t, t})
		}
	}
	n.bandwidthCap = unknownBandwidth
	if m := l.host.Measured; m != nil && i < len(m.BandwidthMiBs) && i < len(m.BandwidthMiBs[i]) &&
		m.BandwidthMiBs[i][i] > 0 {
		n.bandwidthCap = int64(m.BandwidthMiBs[i][i])
	}
}

// pageUse takes huge pages that somebody else uses out of the pools. The host
// does not tell whose the used pages are: those beyond the bookings are foreign.
func (l *Ledger) pageUse(h *topology.Host) {
	for i := range h.Nodes {
		for _, hp := range h.Nodes[i].HugePages {
			p := l.nodes[i].pool(hp.Size)
			if p == nil || hp.Free < 0 {
				continue
			}
			used, booked := hp.Size*topology.KiB(max(0, hp.Total-hp.Free)), p.total-p.free
			if foreign := used - booked; foreign > 0 {
				p.total -= foreign
				p.free -= foreign
			}
		}
	}
}
