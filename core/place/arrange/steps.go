package arrange

import (
	"cmp"
	"slices"

	"github.com/homenode/homenode/core/plan"
	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/core/words"
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
// have memory at its home as things are, the home is added to its memory nodes before
// the pages: the kernel moves no page to a node outside of them. What it leaves goes
// last, for on leaving the kernel moves what lies there at once, without pace.
func (a *arrangement) steps(s *subject, p *plan.Placement) []plan.Step {
	obs := &s.Observation
	at := a.home(p.Home)
	var gain *plan.Gain
	step := func(kind plan.StepKind, from, to string, reason words.Reason) plan.Step {
		if gain == nil {
			gain = new(a.gain(obs, p))
		}
		return plan.Step{
			Kind: kind, Workload: obs.ID, From: from, To: to, Reason: reason, Gain: *gain,
			Target: plan.Target{Kind: obs.Kind, Cgroup: obs.Cgroup, Processes: slices.Clone(obs.Processes)},
		}
	}
	var out []plan.Step
	if obs.UnevenCPUs || !p.CPUs.Equal(obs.CPUs) || !vcpusFit(obs, p) {
		out = append(out, step(plan.SetCPUs, obs.CPUs.String(), p.CPUs.String(), whyCPUs(p)))
	}
	if at.memory.Empty() || p.Class == workload.Batch || obs.Caps.MemoryStays {
		return out
	}
	if obs.Caps.MemoryFollows {
		if booked := p.MemoryNodes().Intersect(at.memory); !booked.Empty() {
			at = a.home(booked)
		}
	}
	home := at.memory
	moves := workload.Outside(obs.MovableMemory(), at.stays)
	mems := at.mems // narrower nodes would bring what the kernel has demoted back at once
	bind := p.Class == workload.Dedicated && p.Bound && obs.OwnPolicy == "" && obs.Kind == workload.InCgroup &&
		(obs.UnevenMems || !mems.Equal(obs.Mems))
	have := obs.Mems
	if bind && !mems.SubsetOf(have) {
		have = have.Union(mems)
		out = append(out, step(plan.SetMems, obs.Mems.String(), have.String(),
			words.Because(words.AllowMemory, mems)))
	}
	total := workload.Total(moves)
	off := total - workload.On(moves, home)
	if obs.Caps.MemoryFollows && !home.Equal(obs.Mems) { // its pages go with its nodes
		m := step(plan.SetMems, have.String(), home.String(), words.Because(words.MemoryFollows, home))
		m.Bytes, m.Shares = int64(off)<<10, shares(moves, p.Memory, home)
		if m.AtOnce = off <= obs.Caps.AtOnce; m.AtOnce || len(obs.Processes) == 0 {
			return append(out, m)
		}
		// The kernel would move it all at full speed: first it may lie on both, then pages
		// are moved, paced, and what is left of them goes with the nodes.
		if both := have.Union(home); !both.Equal(have) {
			widen := step(plan.SetMems, have.String(), both.String(), words.Because(words.MemoryOnBoth, both))
			widen.AtOnce, m.From = true, widen.To
			out = append(out, widen)
		}
		pages := m
		pages.Kind = plan.MovePages
		pages.From = ""
		pages.Target.Kind = workload.InProcess
		pages.Optional = true
		return append(out, pages, m)
	}
	if float64(off) > max(offHomeShare*float64(total), float64(offHomeLeast)) {
		part := float64(off) / float64(total)
		m := step(plan.MovePages, "", home.String(), words.Because(words.MemoryOffHome, off, total, part, home))
		if obs.Caps.MemoryFollows || !obs.AskedFor.Empty() { // pages are its process's
			m.Target.Kind, m.Target.AskedFor = workload.InProcess, obs.AskedFor
		}
		m.Bytes = int64(off) << 10
		m.Shares = shares(moves, p.Memory, home)
		m.Target.Stays = staying(obs, at.stays)
		m.Cost = plan.Cost{Bytes: m.Bytes}
		if a.opt.MoveBandwidth > 0 {
			m.Cost.Seconds = float64(m.Bytes) / float64(a.opt.MoveBandwidth)
		}
		out = append(out, m)
	}
	if bind && (obs.UnevenMems || !mems.Equal(have)) {
		out = append(out, step(plan.SetMems, have.String(), mems.String(),
			words.Because(words.BindMemory, mems)))
	}
	return out
}

// vcpusFit reports whether each vCPU has the CPU of its own where a guest is dedicated, and all
// that the guest has where it is not.
func vcpusFit(obs *workload.Observation, p *plan.Placement) bool {
	for i, has := range obs.VCPUSets {
		want := p.CPUs
		if p.Class == workload.Dedicated {
			if len(obs.VCPUSets) != len(p.Pins) {
				break // it has other vCPUs by now: the next look knows more
			}
			want = topology.CPUs(p.Pins[i])
		}
		if !has.Empty() && !has.Equal(want) {
			return false
		}
	}
	return true
}

// staying is those of the nodes on which a workload has memory.
func staying(obs *workload.Observation, nodes topology.NodeSet) topology.NodeSet {
	has := nodes.Intersect(workload.NodesOf(obs.Memory))
	if has.Empty() {
		return topology.NodeSet{}
	}
	return has
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

func whyCPUs(p *plan.Placement) words.Reason {
	switch p.Class {
	case workload.Dedicated:
		return words.Because(words.DedicatedCPUs, len(p.Pins), p.Home)
	case workload.Batch:
		return words.Because(words.LeftoverCPUs)
	}
	return words.Because(words.SharedCPUs, p.Home)
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
	g.LocalityBefore, _ = workload.Locality(ran, obs.Memory, a.lower)
	mem := obs.Memory
	if home := a.home(p.Home); !home.memory.Empty() && p.Class != workload.Batch {
		mem = append(fixed(obs), shares(workload.Outside(obs.MovableMemory(), home.stays), p.Memory, home.memory)...)
		for _, m := range obs.MovableMemory() {
			if home.stays.Has(m.Node) {
				mem = append(mem, m)
			}
		}
	}
	g.LocalityAfter, _ = workload.Locality(a.spread(p.CPUs), mem, a.lower)
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
