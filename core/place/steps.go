package place

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/homenode/homenode/core/plan"
	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/core/workload"
)

const (
	// offHomeShare and offHomeLeast are how much movable memory may lie off home for
	// good: pages shared with others and stacks that come and go never come to rest.
	offHomeShare = 0.005
	offHomeLeast = topology.KiB(128)
)

// steps is what must change for one workload: CPUs first, so that new pages fall
// at home, then the pages, and the memory nodes last. When the workload may not
// have memory at its home as things are, the memory nodes come before the pages:
// the kernel moves no page to a node outside of them.
func (a *arrangement) steps(s *subject, p *plan.Placement) []plan.Step {
	obs := &s.Observation
	gain := a.gain(obs, p)
	step := func(kind plan.StepKind, from, to, reason string) plan.Step {
		return plan.Step{
			Kind: kind, Workload: obs.ID, From: from, To: to, Reason: reason, Gain: gain,
			Target: plan.Target{Kind: obs.Kind, Cgroup: obs.Cgroup, Processes: slices.Clone(obs.Processes)},
		}
	}
	var out []plan.Step
	if !p.CPUs.Equal(obs.CPUs) {
		out = append(out, step(plan.SetCPUs, obs.CPUs.String(), p.CPUs.String(), whyCPUs(p)))
	}
	home := a.memoryHome(p)
	if home.Empty() || p.Class == workload.Offline {
		return out
	}
	if obs.Kind == workload.InGuest {
		if booked := p.MemoryNodes().Intersect(home); !booked.Empty() {
			home = booked
		}
	}
	bind := p.Class == workload.Dedicated && p.Bound && obs.OwnPolicy == "" && obs.Kind == workload.InCgroup && !home.Equal(obs.Mems)
	mems := func() {
		out = append(out, step(plan.SetMems, obs.Mems.String(), home.String(),
			fmt.Sprintf("It is dedicated and has no memory policy of its own, so new pages are bound to its home, %s.", nodesWords(home))))
	}
	before := bind && !home.SubsetOf(obs.Mems)
	if before {
		mems()
	}
	total := workload.Total(movable(obs))
	off := total - workload.On(movable(obs), home)
	if obs.Kind == workload.InGuest && !home.Equal(obs.Mems) { // its pages go with its nodes
		m := step(plan.SetMems, obs.Mems.String(), home.String(), fmt.Sprintf("Its home is %s: its memory goes there with it.", nodesWords(home)))
		m.Bytes, m.Shares = int64(off)<<10, shares(movable(obs), p.Memory, home)
		return append(out, m)
	}
	if float64(off) > max(offHomeShare*float64(total), float64(offHomeLeast)) {
		m := step(plan.MovePages, "", home.String(), fmt.Sprintf("%s of its %s (%.0f %%) lie off its home, %s.",
			size(off), size(total), 100*float64(off)/float64(total), nodesWords(home)))
		if obs.Kind == workload.InGuest { // pages are its process's
			m.Target.Kind = workload.InProcess
		}
		m.Bytes = int64(off) << 10
		m.Shares = shares(movable(obs), p.Memory, home)
		m.Cost = plan.Cost{Bytes: m.Bytes}
		if a.opt.MoveBandwidth > 0 {
			m.Cost.Seconds = float64(m.Bytes) / float64(a.opt.MoveBandwidth)
		}
		out = append(out, m)
	}
	if bind && !before {
		mems()
	}
	return out
}

// movable is the memory that a page move can take home.
func movable(obs *workload.Observation) []workload.NodeMemory {
	if obs.Movable == nil {
		return obs.Memory
	}
	return obs.Movable
}

// fixed is the memory that stays where it is: Memory without what is movable.
func fixed(obs *workload.Observation) []workload.NodeMemory {
	if obs.Movable == nil {
		return nil
	}
	var out []workload.NodeMemory
	for _, m := range obs.Memory {
		if m.KiB -= workload.On(obs.Movable, topology.Nodes(m.Node)); m.KiB > 0 {
			out = append(out, m)
		}
	}
	return out
}

func whyCPUs(p *plan.Placement) string {
	switch p.Class {
	case workload.Dedicated:
		return fmt.Sprintf("It is dedicated: %d CPUs of its home, %s, are its own.", len(p.Pins), nodesWords(p.Home))
	case workload.Offline:
		return "It is offline work and runs on the CPUs that no dedicated work holds."
	}
	return fmt.Sprintf("Its home is %s: threads run there, and new memory falls there.", nodesWords(p.Home))
}

// memoryHome is the nodes of a home that can hold memory.
func (a *arrangement) memoryHome(p *plan.Placement) topology.NodeSet {
	var home topology.NodeSet
	for i := range a.host.Nodes {
		n := &a.host.Nodes[i]
		if p.Home.Has(n.ID) && n.Memory != 0 && a.host.AllowedMems.Has(n.ID) {
			home.Add(n.ID)
		}
	}
	return home
}

// shares is what each node of a home should hold in the end: what it holds,
// and of what lies elsewhere as much as it is short of its booking, the rest in
// proportion to the bookings. The node that gets most comes first.
func shares(now, booked []workload.NodeMemory, home topology.NodeSet) []workload.NodeMemory {
	off := workload.Total(now) - workload.On(now, home)
	type target struct{ have, booked, gets topology.KiB }
	nodes := home.Slice()
	targets := make([]target, len(nodes))
	short := topology.KiB(0)
	for k, n := range nodes {
		one := topology.Nodes(n)
		targets[k] = target{have: workload.On(now, one), booked: workload.On(booked, one)}
		short += max(0, targets[k].booked-targets[k].have)
	}
	left := off
	for k := range targets {
		t := &targets[k]
		if lack := max(0, t.booked-t.have); lack > 0 {
			t.gets = min(left, topology.KiB(float64(lack)*min(1, float64(off)/float64(short))))
			left -= t.gets
		}
	}
	// What rounding and bookings below the present size leave over goes to the
	// node with the largest booking.
	most := 0
	for k := range targets {
		if targets[k].booked > targets[most].booked {
			most = k
		}
	}
	targets[most].gets += left
	order := make([]int, len(nodes))
	for k := range order {
		order[k] = k
	}
	slices.SortStableFunc(order, func(x, y int) int { return -cmp.Compare(targets[x].gets, targets[y].gets) })
	out := make([]workload.NodeMemory, 0, len(nodes))
	for _, k := range order {
		out = append(out, workload.NodeMemory{Node: nodes[k], KiB: targets[k].have + targets[k].gets})
	}
	return out
}

// gain is the locality now and when all steps are done.
func (a *arrangement) gain(obs *workload.Observation, p *plan.Placement) plan.Gain {
	ran := obs.RanOn
	if len(ran) == 0 {
		ran = a.spread(obs.CPUs)
	}
	var g plan.Gain
	g.LocalityBefore, _ = workload.Locality(ran, obs.Memory)
	mem := obs.Memory
	if home := a.memoryHome(p); !home.Empty() && p.Class != workload.Offline {
		mem = append(fixed(obs), shares(movable(obs), p.Memory, home)...)
	}
	g.LocalityAfter, _ = workload.Locality(a.spread(p.CPUs), mem)
	return g
}

// spread is CPU time spread evenly over CPUs.
func (a *arrangement) spread(cpus topology.CPUSet) []workload.NodeShare {
	all := 0
	for i := range a.host.Nodes {
		all += a.host.Nodes[i].CPUs.Overlap(cpus)
	}
	var out []workload.NodeShare
	for i := range a.host.Nodes {
		if k := a.host.Nodes[i].CPUs.Overlap(cpus); k > 0 {
			out = append(out, workload.NodeShare{Node: a.host.Nodes[i].ID, Share: float64(k) / float64(all)})
		}
	}
	return out
}
