package place

import (
	"slices"

	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/core/words"
	"github.com/homenode/homenode/core/workload"
)

// Requirement is nodes of which one has to be in the home of a workload, and what is there.
type Requirement struct {
	Name string
	At   topology.NodeSet
}

// Requirements is where the required ones of what a workload is near to are, or why that cannot
// be met anywhere: the host does not have it, or nobody knows its node. On a host of one node
// everything that is there is near.
func (l *Ledger) Requirements(near []workload.Near) (all []Requirement, why words.Reason) {
	for i := range near {
		x := &near[i]
		if !x.Refuses() || x.Device == workload.AnyGPU { // no GPU has been found yet
			continue
		}
		at, known := l.targets(x)
		if x.Socket {
			at = l.packages(at)
		}
		r := Requirement{Name: x.Name()}
		for _, k := range at {
			r.At.Add(l.nodes[k].id)
		}
		switch {
		case !known && x.Device != "":
			return nil, words.Because(words.RequiredNoDevice, r.Name)
		case !known:
			return nil, words.Because(words.RequiredNotRunning, r.Name)
		case r.At.Empty() && len(l.nodes) > 1:
			return nil, words.Because(words.RequiredNowhere, r.Name)
		case !r.At.Empty():
			all = append(all, r)
		}
	}
	return all, words.Reason{}
}

// packages returns all nodes of the packages of some; a node whose package is unknown stands alone.
func (l *Ledger) packages(at []int) (all []int) {
	for i := range l.host.Nodes {
		n := &l.host.Nodes[i]
		sameAs := func(k int) bool {
			if n.Package == topology.None {
				return k == i
			}
			return l.host.Nodes[k].Package == n.Package
		}
		if slices.ContainsFunc(at, sameAs) {
			all = append(all, i)
		}
	}
	return all
}

// confine narrows the nodes of a workload to those that it is required to be near to. Where
// one of them could ever hold it, it is there whole; wider work has to have one of each
// requirement among its nodes, which farFromRequired asks of every set.
func (w *want) confine(l *Ledger) {
	if len(w.required) == 0 || !w.unmet.None() {
		return
	}
	all := w.required[0].At.Clone()
	for _, r := range w.required {
		all = all.Intersect(r.At)
		if !w.Nodes.Empty() && !w.Nodes.Intersects(r.At) {
			w.unmet = words.Because(words.RequiredElsewhere, w.Nodes, r.Name, r.At)
			return
		}
	}
	if !w.Nodes.Empty() {
		all = all.Intersect(w.Nodes)
	}
	if w.Class != workload.Batch && w.MinNodes > 1 {
		return
	}
	holds := func(i int) bool {
		vcpus, mem := w.everRoom(l, i)
		return vcpus >= w.vcpus && mem >= w.memory
	}
	for i := range l.nodes {
		if all.Has(l.nodes[i].id) && (w.Class == workload.Batch || holds(i)) {
			w.Nodes = all
			return
		}
	}
	if all.Empty() && !w.tooLarge {
		w.unmet = words.Because(words.RequiredApart, w.requiredNames(), w.requiredNodes())
	}
}

// farFromRequired reports whether a candidate lacks vCPUs near something required.
func (w *want) farFromRequired(l *Ledger, shares []share) bool {
	for _, r := range w.required {
		if !slices.ContainsFunc(shares, func(s share) bool { return s.vcpus > 0 && r.At.Has(l.nodes[s.node].id) }) {
			return true
		}
	}
	return false
}

// whyRequired says where something required is.
func (w *want) whyRequired() (out []words.Reason) {
	for _, r := range w.required {
		out = append(out, words.Because(words.RequiredOn, r.At, r.Name))
	}
	return out
}

func (w *want) requiredNames() (names []string) {
	for _, r := range w.required {
		names = append(names, r.Name)
	}
	return names
}

func (w *want) requiredNodes() (all topology.NodeSet) {
	for _, r := range w.required {
		all = all.Union(r.At)
	}
	return all
}
