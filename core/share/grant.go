package share

import (
	"cmp"
	"math"
	"math/bits"
	"slices"
	"time"

	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/core/words"
)

// on is the part of its time that a workload ran on a node.
func (w *Work) on(n topology.NodeID) float64 {
	for _, r := range w.RanOn {
		if r.Node == n {
			return r.Share
		}
	}
	return 0
}

// fill is the level up to which all wants together are so much.
func fill(wants []float64, all float64) float64 {
	slices.Sort(wants)
	for i, w := range wants {
		if part := all / float64(len(wants)-i); w >= part {
			return part
		}
		all -= w
	}
	return all
}

// Squeeze is batch work in the order in which it is frozen: what matters least first, of
// that what was found to hurt somebody, then what has most memory traffic, then what uses most
// CPU. Traffic counts from 1 GiB/s on, and as more where it is twice as much: it goes up and down
// from look to look.
func Squeeze(work []Work) []Work {
	out := slices.Clone(work)
	proven := map[bool]int{true: 1}
	traffic := func(w *Work) int { return bits.Len64(uint64(max(0, w.Traffic)) >> 10) }
	slices.SortFunc(out, func(a, b Work) int {
		return cmp.Or(cmp.Compare(a.Importance, b.Importance), -cmp.Compare(proven[a.Proven], proven[b.Proven]),
			-cmp.Compare(traffic(&a), traffic(&b)), -cmp.Compare(a.Use, b.Use), cmp.Compare(a.ID, b.ID))
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
			if frozen || !w.Freezes || s.Asking.Of(w.ID) != nil || !w.CPUs.Intersects(n.Pool) {
				continue
			}
			if len(s.Frozen) == 0 && !s.Turned.IsZero() && in.At.Sub(s.Turned) < 2*s.Calm { // it was let go too early
				s.Calm = min(2*s.Calm, 10*time.Minute)
			}
			s.Frozen, s.Turned = append(s.Frozen, Frozen{w.ID, n.Waiting, in.At}), in.At
			return
		}
	case pressed < 0 && rested && len(s.Frozen) > 0 && in.At.Sub(s.Waited).Abs() >= s.Calm:
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
		g := Grant{Workload: w.ID, Traffic: w.Traffic, CPUs: given.Intersect(w.CPUs)}
		if g.CPUs.Empty() { // no CPU of its own nodes is in any pool
			g.CPUs = w.CPUs
		}
		var nodes topology.NodeSet
		limited, most := false, 0.0
		goals := false // set the use on one of its nodes
		for k := range in.Nodes {
			if cpus := in.Nodes[k].Pool.Overlap(g.CPUs); cpus > 0 {
				nodes.Add(in.Nodes[k].ID)
				goals = goals || in.Nodes[k].Target > 0
				part := float64(cpus)
				if level := s.Nodes[k].Level; level > 0 {
					limited, part = limited || !s.Nodes[k].Loose, min(part, level)
				}
				most += part
			}
		}
		g.Why = words.Because(words.ShareSet, g.CPUs, nodes, in.Target)
		if goals {
			g.Why = words.Because(words.ShareSetGoals, g.CPUs, nodes)
		}
		if limited && w.Limits {
			if g.Max = w.limit(most); g.Max > 0 {
				g.Why = words.Because(words.ShareSetMax, g.CPUs, nodes, g.Max)
			}
		}
		if k := slices.IndexFunc(s.Frozen, func(f Frozen) bool { return f.Workload == w.ID }); k >= 0 {
			g.Frozen = true
			g.For = s.Frozen[k].For
			g.Since = s.Frozen[k].Since
			g.Why = words.Because(words.ShareFreeze, string(g.For))
		} else if a := s.Asking.Of(w.ID); a != nil {
			g.For, g.Asked = a.For, a.Since
			g.Why = words.Because(words.ShareEvict, string(a.For), in.EvictAfter)
		}
		out.Work = append(out.Work, g)
	}
}

// gather keeps what only adds CPUs for later, where there are many nodes and the last change was just
// now. What takes some away is never kept, and takes what was with it.
func (s *State) gather(in *Input, out *Outcome) {
	var given topology.CPUSet
	first := s.Given.Empty() // that a node has any
	for i := range out.Nodes {
		b := &out.Nodes[i]
		given = given.Union(b.Given)
		first = first || (!b.Given.Empty() && !b.Given.Intersects(s.Given))
	}
	switch {
	case len(in.Nodes) < many || len(in.Work) == 0:
		s.Given, s.Changed = topology.CPUSet{}, time.Time{}
	case given.Equal(s.Given):
	case !first && s.Given.SubsetOf(given) && in.At.Sub(s.Changed).Abs() < gather:
		for i := range out.Nodes {
			out.Nodes[i].Given = out.Nodes[i].Given.Intersect(s.Given)
		}
	default:
		s.Given, s.Changed = given, in.At
	}
}

// limit is what a workload is limited to that may use so much. One that uses less than half
// of that keeps what it has: its limit is not what holds it.
func (w *Work) limit(most float64) float64 {
	if (w.Max == 0 && w.Use < most/2) || (w.Max > 0 && w.Use < min(w.Max, most)/2) {
		return w.Max
	}
	return max(leastLimit, math.Floor(most*1000)/1000)
}

// leastLimit is the least of a CPU that the kernel limits to: 1 ms in 100 (min_cfs_quota_period,
// kernel/sched/core.c).
const leastLimit = 0.01
