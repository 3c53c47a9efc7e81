package control

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/homenode/homenode/core/place"
	"github.com/homenode/homenode/core/plan"
	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/core/words"
	"github.com/homenode/homenode/core/workload"
)

// claimed puts what the sources say into a snapshot, in the place of the cgroups and
// processes that their workloads were observed as.
func (s *State) claimed(snap workload.Snapshot, sources []Claimed) workload.Snapshot {
	s.Claims, s.SeenAs = map[workload.ID]*workload.Claim{}, map[workload.ID][]workload.ID{}
	s.Covered = map[workload.ID]*workload.Claim{}
	if len(sources) == 0 {
		return snap
	}
	snap.Problems = slices.Clone(snap.Problems)
	at := observed(snap.Observations)
	taken := map[int]int{} // index of the source, by that of the observation
	first := firstSource{sources: sources, workloads: map[workload.ID]int{}, parts: map[string]int{}}
	var merged []workload.Observation
	var rest []*workload.Claim // of whatever no other claim has found
	for i := range sources {
		snap.Problems = append(snap.Problems, sources[i].Problems...)
		if f := sources[i].Failed; f != "" {
			snap.Problems = append(snap.Problems, workload.Problem{Subject: sources[i].Source, Text: f})
		}
		for k := range sources[i].Claims {
			c := &sources[i].Claims[k]
			if c.ID == "" {
				rest = append(rest, c)
				continue
			}
			var found []int
			if c.Running && c.Part == nil {
				found = at.of(c)
			}
			if owner, what := first.claim(i, c, snap.Observations, found, taken); what != "" {
				snap.Problems = append(snap.Problems, workload.Problem{Subject: sources[i].Source, Text: words.Because(words.ClaimedTwice, string(c.ID), what, owner).String()})
				rest := func(j int) bool { _, ok := taken[j]; return !ok }
				if what == string(c.ID) || !slices.ContainsFunc(found, rest) { // nothing of it is left
					continue
				}
			}
			if s.Claims[c.ID] != nil {
				continue
			}
			if !c.Running {
				s.Claims[c.ID] = c
				continue
			}
			s.Claims[c.ID] = c
			if c.Part != nil {
				merged = append(merged, asClaimed(takePart(merged, c.Part), c, snap.Host))
				continue
			}
			var parts []workload.Observation
			for _, j := range found {
				if _, ok := taken[j]; !ok {
					taken[j] = i
					parts = append(parts, snap.Observations[j])
					s.SeenAs[c.ID] = append(s.SeenAs[c.ID], snap.Observations[j].ID)
				}
			}
			var o workload.Observation
			if len(parts) > 0 {
				o = joined(parts)
			}
			merged = append(merged, asClaimed(o, c, snap.Host))
			if s.begun(c) && s.Holds.Has(c.ID) {
				s.late = append(s.late, c.ID)
			}
		}
	}
	for i := range snap.Observations {
		if _, ok := taken[i]; ok {
			continue
		}
		o := snap.Observations[i]
		for _, c := range rest {
			if c.Covers(cgroupPath(&o)) {
				o.Caps = c.Caps
				s.Covered[o.ID] = c
				break
			}
		}
		merged = append(merged, o)
	}
	slices.SortFunc(merged, func(a, b workload.Observation) int { return cmp.Compare(a.ID, b.ID) })
	snap.Observations = merged
	return snap
}

// firstSource remembers which source claims a workload, a process or a cgroup first.
type firstSource struct {
	sources   []Claimed
	workloads map[workload.ID]int // index of the source, by workload
	parts     map[string]int      // … by cgroup or process
}

// claim notes what source i claims. When another source has claimed the same workload, cgroup or
// process, claim returns the name of that source and what both claim: one cgroup under two IDs
// would be given two homes, and the original values of one would be lost.
// found is the observations of the claim, taken who has each.
func (f *firstSource) claim(i int, c *workload.Claim, all []workload.Observation, found []int, taken map[int]int) (owner, what string) {
	if len(f.sources) < 2 {
		return "", ""
	}
	if k, ok := f.workloads[c.ID]; ok && k != i {
		return f.sources[k].Source, string(c.ID)
	}
	for _, j := range found {
		if k, ok := taken[j]; ok && k != i {
			return f.sources[k].Source, string(all[j].ID)
		}
	}
	var parts []string // also those too small to be observed
	if c.Running && c.Part == nil {
		parts = slices.Clone(c.Cgroups)
		if c.Process.PID > 0 {
			parts = append(parts, fmt.Sprintf("PID %d", c.Process.PID))
		}
	}
	for _, part := range parts {
		k, ok := f.parts[part]
		if ok && k != i {
			return f.sources[k].Source, part
		}
	}
	f.workloads[c.ID] = i
	for _, part := range parts {
		f.parts[part] = i
	}
	return "", ""
}

// positions finds observations by what they are about.
type positions struct {
	all       []workload.Observation
	byProcess map[workload.Process]int
	byCgroup  []int // of all, rising by cgroup
}

func observed(all []workload.Observation) positions {
	p := positions{all, map[workload.Process]int{}, make([]int, len(all))}
	for i := len(all) - 1; i >= 0; i-- { // the first of several stays
		p.byCgroup[i] = i
		for _, x := range all[i].Processes {
			p.byProcess[x] = i
		}
	}
	slices.SortStableFunc(p.byCgroup, func(i, j int) int { return cmp.Compare(cgroupPath(&all[i]), cgroupPath(&all[j])) })
	return p
}

// of is the observations that a claim is about: that of its process, all that lie in the
// cgroups that it names by their paths, in their order, or the first in one that it names
// otherwise.
func (p positions) of(c *workload.Claim) (found []int) {
	if c.Process.PID > 0 {
		if i, ok := p.byProcess[c.Process]; ok {
			return []int{i}
		}
		return nil
	}
	for _, want := range c.Cgroups {
		if !strings.HasPrefix(want, "/") {
			if i := slices.IndexFunc(p.all, func(o workload.Observation) bool { return c.Covers(cgroupPath(&o)) }); i >= 0 {
				return []int{i}
			}
			return nil
		}
		k, _ := slices.BinarySearchFunc(p.byCgroup, want, func(i int, want string) int { return cmp.Compare(cgroupPath(&p.all[i]), want) })
		for ; k < len(p.byCgroup); k++ {
			i := p.byCgroup[k]
			rest, in := strings.CutPrefix(cgroupPath(&p.all[i]), want)
			if !in {
				break
			}
			if rest == "" || rest[0] == '/' {
				found = append(found, i)
			}
		}
	}
	return found
}

// asClaimed is an observation as its source knows it.
func asClaimed(o workload.Observation, c *workload.Claim, h *topology.Host) workload.Observation {
	o.ID, o.Name, o.Caps = c.ID, c.Name, c.Caps
	if o.Kind == "" && len(c.Cgroups) > 0 {
		o.Owner, _ = workload.CgroupOwner(c.Cgroups[0])
	}
	if c.Owner != workload.SystemOwner {
		o.Owner = c.Owner
	}
	if c.Caps.PinsThreads {
		o.Pinned, o.PinnedWhy, o.VCPUSets = false, "", c.VCPUSets
	}
	if c.Driver == "" && o.Kind != "" {
		return o
	}
	o.Kind = c.Driver
	if len(c.Cgroups) > 0 && c.Driver == "" { // too small to be seen, or it has not begun
		o.Kind, o.Cgroup = workload.InCgroup, c.Cgroups[0]
	}
	o.Pinned, o.PinnedWhy = false, ""
	o.CPUs, o.Mems = c.CPUs, c.Mems
	if c.Part != nil {
		o.AskedFor = topology.Nodes(c.Part.Memory)
	}
	if o.CPUs.Empty() {
		o.CPUs = h.Online
	}
	if o.Mems.Empty() {
		o.Mems = h.AllowedMems
	}
	if len(o.Processes) == 0 && c.Process.PID > 0 {
		o.Processes = []workload.Process{c.Process}
	}
	return o
}

// begun writes into the journal what homenode had set of a workload before it began, and
// reports whether there was any.
func (s *State) begun(c *workload.Claim) (any bool) {
	for _, b := range c.Began {
		for _, x := range []struct {
			kind plan.SettingKind
			set  string
		}{{plan.CgroupCPUs, b.CPUs}, {plan.CgroupMems, b.Mems}} {
			if e := s.Journal.Of(x.kind, b.Cgroup); x.set == "" || e != nil && (e.Object == "" || e.Object == b.Object) {
				continue
			} else if e != nil { // of an earlier one under the same path
				s.mark(e, plan.Gone)
			}
			s.Seq++
			s.put(plan.Entry{Seq: s.Seq, Time: s.At.Round(0), Workload: c.ID, Kind: x.kind, Path: b.Cgroup, Object: b.Object, New: x.set, State: plan.Applied})
			s.event(plan.Event{Kind: plan.EventStep, Workload: c.ID}, words.BegunWith, string(x.kind), x.set, b.Cgroup)
			any = true
		}
	}
	return any
}

// binding is where a claimed workload was seen to be bound.
type binding struct {
	CPUs  topology.CPUSet
	Nodes topology.NodeSet
}

// between reports whether a workload is where it was, where it is to be, or on the
// way: else somebody other than homenode has bound it anew.
func (b binding) between(was, to binding) bool {
	return (b.CPUs.Equal(was.CPUs) || b.CPUs.Equal(to.CPUs)) && b.Nodes.SubsetOf(was.Nodes.Union(to.Nodes))
}

// withClaims is a ledger with what claimed workloads hold. Where one is bound, and by
// whom, its manager knows: the ledger knows better only while homenode itself is about to
// change it.
func (s *State) withClaims(ledger []workload.Placement, h *topology.Host) []workload.Placement {
	if len(s.Claims) == 0 {
		s.Bindings = map[workload.ID]binding{}
		return s.withAdmissions(ledger)
	}
	before := s.Bindings
	s.Bindings = map[workload.ID]binding{}
	byID := make(map[workload.ID]workload.Placement, len(ledger))
	for _, p := range ledger {
		byID[p.Workload] = p
	}
	for id, c := range s.Claims {
		if !c.Caps.Rebinds {
			continue
		}
		now := binding{c.CPUs, c.Mems}
		was, seen := before[id]
		if s.Bindings[id] = now; seen && s.changing(id) { // what it comes to is seen at the next scan
			s.Bindings[id] = was
			continue
		}
		p, have := byID[id]
		to := binding{p.CPUs, memoryNodes(h, &p)}
		switch {
		case c.Home != nil && c.Home.Class == workload.Dedicated:
			byID[id] = *c.Home
		case !c.Running || !c.Alone.None() && !c.Fixed:
			delete(byID, id)
		case c.Home == nil:
		case !have,
			seen && s.Tasks[id] == nil && !now.between(was, to),
			!seen && !now.CPUs.Equal(to.CPUs) && !now.Nodes.Equal(to.Nodes):
			byID[id] = *c.Home
		}
		if _, have := byID[id]; !have && c.Running && c.Next != nil && c.Next.Home != nil && c.Next.Ours && c.Alone.None() { // it goes where its next start is
			byID[id] = *c.Next.Home
		}
	}
	for _, c := range s.Claims { // whatever homenode thinks, also of what is off
		for _, p := range c.Holds {
			byID[p.Workload] = p
		}
	}
	return s.withAdmissions(slices.SortedFunc(maps.Values(byID), byWorkload))
}

// keepClear reserves the CPUs of what claimed workloads hold where homenode itself would
// not put them: on reserved CPUs, beyond the partition, or twice. Of such a hold only its
// memory stays in the ledger.
func (s *State) keepClear() {
	h, policy := s.Facts.Host, &s.Facts.Policy
	alone := plan.State{Host: h, Policy: *policy}
	var kept, clear topology.CPUSet
	unfit := func(p *workload.Placement) bool {
		cpus := p.CPUs.Union(p.Idle)
		if p.Class != workload.Dedicated || cpus.Empty() {
			return false
		}
		if !cpus.Intersects(kept) && len(plan.Check(alone, []workload.Placement{*p})) == 0 {
			kept = kept.Union(cpus)
			return false
		}
		clear = clear.Union(cpus)
		return true
	}
	for _, id := range sortedKeys(s.Claims) {
		if c := s.Claims[id]; c.Fixed && c.Home != nil {
			unfit(c.Home)
		}
	}
	for _, id := range sortedKeys(s.Claims) {
		for i := range s.Claims[id].Holds {
			if p := &s.Claims[id].Holds[i]; unfit(p) {
				k := slices.IndexFunc(s.Facts.Placements, func(x workload.Placement) bool { return x.Workload == p.Workload })
				if k < 0 {
					continue
				}
				x := &s.Facts.Placements[k]
				x.VCPUs, x.CPUs, x.Pins, x.Idle = 0, topology.CPUSet{}, nil, topology.CPUSet{}
				if len(x.Memory) == 0 {
					s.Facts.Placements = slices.Delete(s.Facts.Placements, k, k+1)
				}
			}
		}
	}
	clear = clear.Union(s.exactCPUs().Minus(s.dedicatedCPUs("")))
	policy.Reserved = policy.Reserved.Union(clear.Minus(kept).Intersect(h.Online))
}

func byWorkload(a, b workload.Placement) int { return cmp.Compare(a.Workload, b.Workload) }

// withAdmissions is placements with the homes of what was told one and is not seen yet.
func (s *State) withAdmissions(ledger []workload.Placement) []workload.Placement {
	var add []workload.Placement
	for id, a := range s.Admissions {
		if a.Exact {
			continue
		}
		if a.Process.PID == 0 {
			add = append(add, a.Placement)
			continue
		}
		if place.Of(ledger, id) == nil && a.Scan >= s.Seen {
			add = append(add, a.Placement)
		}
	}
	if len(add) == 0 {
		return ledger
	}
	return merge(ledger, add)
}

// merge puts changed placements over a ledger, rising by workload.
func merge(ledger, changed []workload.Placement) []workload.Placement {
	byID := make(map[workload.ID]workload.Placement, len(ledger)+len(changed))
	for _, p := range ledger {
		byID[p.Workload] = p
	}
	for _, p := range changed {
		byID[p.Workload] = p
	}
	return slices.SortedFunc(maps.Values(byID), byWorkload)
}

// memoryNodes is the nodes that a workload's memory belongs on, as its steps have them.
func memoryNodes(h *topology.Host, p *workload.Placement) topology.NodeSet {
	var home topology.NodeSet
	for _, n := range h.Nodes {
		if p.Home.Has(n.ID) && n.Memory != 0 && h.AllowedMems.Has(n.ID) {
			home.Add(n.ID)
		}
	}
	if booked := p.MemoryNodes().Intersect(home); !booked.Empty() {
		return booked
	}
	return home
}

// nextStarts is the steps that write where workloads will be when they are started next,
// so that the first page falls there: those that run, once they have come to their homes,
// and those that are off.
func (s *State) nextStarts(busy map[workload.ID]bool) []plan.Step {
	var steps []plan.Step
	var ledger *place.Ledger
	writes := map[workload.ID]bool{} // of parts: what is written of one is read by the next
	for _, id := range sortedKeys(s.Claims) {
		c := s.Claims[id]
		if c.Part != nil && (writes[c.Part.Of] || s.writesPart(c.Part.Of)) {
			continue
		}
		if !c.Caps.NextStart || c.Next == nil || !c.Next.Alone.None() || s.Holds.Has(id) || busy[id] || s.Tasks[id] != nil || s.changing(id) {
			continue
		}
		o := workload.Observation{ID: id, Name: c.Name, Kind: c.Driver}
		if !c.Alone.None() || !s.leave(&o, c.Names()).None() || c.Spec == nil || c.Spec.Class != workload.Shared || c.Next.Spec.Class != workload.Shared {
			continue
		}
		p, why := place.Of(s.Homes(), id), words.Because(words.NextStartRuns)
		if !c.Running {
			if ledger == nil {
				st := s.Facts
				st.Placements = s.Homes()
				ledger = place.NewLedger(st)
			}
			p, why = restingHome(ledger, c.Next)
		}
		if p == nil {
			continue
		}
		from := c.Next.CPUs.String() + "/" + c.Next.Mems.String()
		nodes := memoryNodes(s.Snapshot.Host, p)
		if c.Caps.MemoryStays {
			nodes = c.Next.Mems
		}
		to := p.CPUs.String() + "/" + nodes.String()
		if from != to || !c.Next.Ours {
			if c.Part != nil {
				writes[c.Part.Of] = true
			}
			steps = append(steps, plan.Step{Kind: plan.SetNext, Workload: id, Target: plan.Target{Kind: c.Driver}, From: from, To: to, Reason: why})
		}
	}
	return steps
}

// writesPart reports whether a workload, or a part of it, is being changed: all have one
// definition.
func (s *State) writesPart(whole workload.ID) bool {
	for id, t := range s.Tasks {
		if id.Is(whole) && (t.Request != 0 || t.Step().Kind == plan.SetNext) {
			return true
		}
	}
	return s.changing(whole)
}

// restingHome is where a workload that is off belongs: where its next start is as long
// as that holds, else the best there is. It books nothing.
func restingHome(l *place.Ledger, n *workload.Next) (*workload.Placement, words.Reason) {
	r := place.Request{Spec: n.Spec, Must: true}
	if n.Ours && n.Home != nil {
		nodes := n.Home.Home
		r.Spec.Nodes = nodes
		if res := l.Place(r); res.Placed() && res.Placement.Home.Equal(nodes) {
			return &res.Placement, words.Because(words.NextStartHolds)
		}
		r.Spec.Nodes = n.Spec.Nodes
	}
	res := l.Place(r)
	if !res.Placed() {
		return nil, words.Reason{}
	}
	return &res.Placement, words.Because(words.NextStartBest)
}
