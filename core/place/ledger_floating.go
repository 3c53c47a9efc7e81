package place

import (
	"slices"

	"github.com/homenode/homenode/core/plan"
	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/core/workload"
)

// Placements is what the ledger holds, rising by workload ID. Floating
// workloads have the CPU sets that are free for them now.
func (l *Ledger) Placements() []plan.Placement {
	return l.placementsAs(nil)
}

// placementsAs is Placements, and what was handed in when that is the same: of thousands
// few change from one look to the next.
func (l *Ledger) placementsAs(old []plan.Placement) []plan.Placement {
	var floats floaters
	same := len(old) == len(l.held)
	for i := 0; same && i < len(old); i++ {
		h := l.held[i]
		same = h.Placement == &old[i]
		switch {
		case !same:
		case h.Class == workload.Shared:
			same = floats.cpus(l, h).Equal(h.CPUs)
		case h.Class == workload.Batch:
			now := l.placement(h)
			same = now.CPUs.Equal(h.CPUs) && now.Home.Equal(h.Home)
		}
	}
	if same && old != nil {
		return old
	}
	out := make([]plan.Placement, len(l.held))
	for i, h := range l.held {
		out[i] = floats.placement(l, h)
	}
	return out
}

// floaters is the CPUs that shared work may use, by home: thousands on a few homes share
// one set.
type floaters []floater

func (f *floaters) cpus(l *Ledger, h *holding) topology.CPUSet {
	for k := range *f {
		if x := &(*f)[k]; slices.Equal(x.home, h.home) && x.caches.Equal(h.Caches) {
			return (*f)[k].cpus
		}
	}
	k := len(*f) % mostFloats
	*f = append((*f)[:k], floater{h.home, h.Caches, l.cpus.ForShared(h.home, h.Caches)})
	return (*f)[k].cpus
}

// placement is a placement with the CPUs that are free for it now.
func (f *floaters) placement(l *Ledger, h *holding) plan.Placement {
	if h.Class != workload.Shared {
		return l.placement(h)
	}
	p := *h.Placement
	p.CPUs = f.cpus(l, h)
	return p
}

// floater is the CPUs that shared work with a home may use.
type floater struct {
	home   []int
	caches topology.CacheSet // that the work is kept in; none for all
	cpus   topology.CPUSet
}

// mostFloats bounds what is gone through for a home.
const mostFloats = 64

func (l *Ledger) placement(h *holding) plan.Placement {
	p := *h.Placement
	switch p.Class {
	case workload.Shared:
		p.CPUs = l.cpus.ForShared(h.home, h.Caches)
	case workload.Batch:
		p.CPUs, p.Home = l.batchCPUs(&p)
	}
	return p
}

// batchCPUs is where a batch workload runs: every CPU that no dedicated
// work holds, on the nodes it may use. Its home is the nodes of those CPUs and
// of its memory.
func (l *Ledger) batchCPUs(p *plan.Placement) (topology.CPUSet, topology.NodeSet) {
	var on []int
	var home topology.NodeSet
	for i := range l.nodes {
		n := &l.nodes[i]
		if n.Idle() > 0 && (p.Within.Empty() || p.Within.Has(n.id)) {
			on = append(on, i)
			home.Add(n.id)
		}
	}
	for _, m := range p.Memory {
		if l.index(m.Node) >= 0 {
			home.Add(m.Node)
		}
	}
	return l.cpus.ForBatch(on), home
}

// floaters calls yield for every held workload that floats on CPUs of the given nodes.
func (l *Ledger) floaters(nodes topology.NodeSet, yield func(h *holding)) {
	for i := range l.held {
		h := l.held[i]
		switch h.Class {
		case workload.Shared:
			if h.Home.Intersects(nodes) {
				yield(h)
			}
		case workload.Batch:
			if h.Within.Empty() || h.Within.Intersects(nodes) {
				yield(h)
			}
		}
	}
}

// others is what becomes of the workloads that float on CPUs which a placement
// takes or which it, having been elsewhere before, gives back. old is in the
// ledger, p is not.
func (l *Ledger) others(old, p *plan.Placement) []plan.Placement {
	takes, gives := p.Class == workload.Dedicated, old != nil && old.Class == workload.Dedicated
	if !takes && !gives {
		return nil
	}
	var nodes topology.NodeSet
	if takes {
		nodes = p.Home
	}
	if gives {
		nodes = nodes.Union(old.Home)
	}
	var was, will floaters
	var before []plan.Placement
	l.floaters(nodes, func(h *holding) {
		if h.Workload != p.Workload {
			before = append(before, was.placement(l, h))
		}
	})
	if before == nil {
		return nil
	}
	turn := func(sign int) {
		if gives {
			l.cpus.Hold(old, -sign)
		}
		if takes {
			l.cpus.Hold(p, sign)
		}
	}
	taken := p.CPUs.Union(p.Idle)
	turn(1)
	var out []plan.Placement
	k := 0
	l.floaters(nodes, func(h *holding) {
		if h.Workload == p.Workload {
			return
		}
		after := will.placement(l, h)
		changes := !after.CPUs.Equal(before[k].CPUs) || !after.Home.Equal(before[k].Home)
		stale := takes && h.CPUs.Intersects(taken) // its CPUs are from before a hold
		if changes || stale {
			out = append(out, after)
		}
		k++
	})
	turn(-1)
	return out
}

// starves finds a batch workload that a dedicated placement would leave no CPU.
func (l *Ledger) starves(p *plan.Placement) (workload.ID, bool) {
	if p.Class != workload.Dedicated || l.batch == 0 {
		return "", false
	}
	var starved workload.ID
	found := false
	l.floaters(p.Home, func(h *holding) {
		if h.Class != workload.Batch || found {
			return
		}
		free := 0
		for i := range l.nodes {
			if h.Within.Empty() || h.Within.Has(l.nodes[i].id) {
				free += l.nodes[i].Idle()
			}
		}
		for _, taken := range []topology.CPUSet{p.CPUs, p.Idle} {
			for cpu := range taken.All() {
				if h.Within.Empty() || h.Within.Has(l.nodes[l.cpus.NodeOf(cpu)].id) {
					free--
				}
			}
		}
		if free <= 0 {
			starved, found = h.Workload, true
		}
	})
	return starved, found
}

// guardBatch marks the nodes that hold the last CPUs of some batch workload.
func (l *Ledger) guardBatch() {
	for i := range l.nodes {
		l.nodes[i].keptForBatch = false
	}
	if l.batch == 0 {
		return
	}
	for k := range l.held {
		h := l.held[k]
		if h.Class != workload.Batch {
			continue
		}
		only, more := -1, false
		for i := range l.nodes {
			if n := &l.nodes[i]; n.Idle() > 0 && (h.Within.Empty() || h.Within.Has(n.id)) {
				more = only >= 0
				only = i
				if more {
					break
				}
			}
		}
		if only >= 0 && !more {
			l.nodes[only].keptForBatch = true
		}
	}
}

// keep is the number of CPUs of a node that shared and batch work needs at least.
func (l *Ledger) keep(n *node) int {
	if n.shared > 0 && !l.policy.Split { // behind a partition they have theirs apart
		return max(1, ceil(n.sharedVCPUs()/l.overcommit()))
	}
	if n.keptForBatch && n.Beyond == 0 {
		return 1
	}
	return 0
}
