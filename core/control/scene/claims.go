package scene

import (
	"cmp"
	"slices"
	"strings"

	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/core/words"
	"github.com/homenode/homenode/core/workload"
)

// Merge puts what the sources say into a snapshot: a claimed workload replaces the cgroups and
// processes that it was observed as. begun is the claims of workloads that homenode may have
// given a home before their start.
func (s *Scene) Merge(snap workload.Snapshot, sources []Claimed) (_ workload.Snapshot, begun []*workload.Claim) {
	s.Claims = map[workload.ID]*workload.Claim{}
	s.Covered = map[workload.ID]*workload.Claim{}
	s.SeenAs = map[workload.ID][]workload.ID{}
	if len(sources) == 0 {
		return snap, nil
	}
	snap.Problems = slices.Clone(snap.Problems)
	m := merger{scene: s, snap: &snap, at: positionsOf(snap.Observations), taken: map[int]int{},
		first: firstOf(sources)}
	for i := range sources {
		m.source(i, &sources[i])
	}
	m.others()
	slices.SortFunc(m.merged, func(a, b workload.Observation) int { return cmp.Compare(a.ID, b.ID) })
	snap.Observations = m.merged
	return snap, m.begun
}

// merger builds the observations of a snapshot with the claims of all sources.
type merger struct {
	scene  *Scene
	snap   *workload.Snapshot // the observations are those of the scan until all are merged
	at     positions
	taken  map[int]int // the index of the source that has an observation, by the index of that
	first  first
	merged []workload.Observation
	covers []*workload.Claim // of observations that no other claim has found
	begun  []*workload.Claim
}

// source takes up the claims of one source.
func (m *merger) source(i int, from *Claimed) {
	m.snap.Problems = append(m.snap.Problems, from.Problems...)
	if from.Failed != "" {
		m.problem(from.Source, from.Failed)
	}
	for k := range from.Claims {
		c := &from.Claims[k]
		if c.ID == "" {
			m.covers = append(m.covers, c)
			continue
		}
		var found []int
		if c.Running && c.Part == nil {
			found = m.at.of(c)
		}
		mine := m.mayClaim(i, from.Source, c, found)
		if mine && m.scene.Claims[c.ID] == nil {
			m.claim(i, c, found)
		}
	}
}

func (m *merger) problem(subject, text string) {
	m.snap.Problems = append(m.snap.Problems, workload.Problem{Subject: subject, Text: text})
}

// mayClaim reports whether anything of a claim is left for its source. What another source has is
// reported as a problem.
func (m *merger) mayClaim(i int, source string, c *workload.Claim, found []int) bool {
	owner, what := m.first.claim(i, c, m.snap.Observations, found, m.taken)
	if what == "" {
		return true
	}
	m.problem(source, words.Because(words.ClaimedTwice, string(c.ID), what, owner).String())
	if what == string(c.ID) {
		return false
	}
	free := func(j int) bool {
		_, taken := m.taken[j]
		return !taken
	}
	return slices.ContainsFunc(found, free)
}

// claim merges what was found of a claim into one observation.
func (m *merger) claim(i int, c *workload.Claim, found []int) {
	s := m.scene
	s.Claims[c.ID] = c
	if !c.Running {
		return
	}
	if c.Part != nil {
		m.merged = append(m.merged, asClaimed(takePart(m.merged, c.Part), c, m.snap.Host))
		return
	}
	var parts []workload.Observation
	for _, j := range found {
		_, taken := m.taken[j]
		if taken {
			continue
		}
		m.taken[j] = i
		o := &m.snap.Observations[j]
		parts = append(parts, *o)
		s.SeenAs[c.ID] = append(s.SeenAs[c.ID], o.ID)
	}
	var o workload.Observation
	if len(parts) > 0 {
		o = joined(parts)
	}
	m.merged = append(m.merged, asClaimed(o, c, m.snap.Host))
	if len(c.Began) > 0 {
		m.begun = append(m.begun, c)
	}
}

// others adds the observations that no source has claimed by name.
func (m *merger) others() {
	for i := range m.snap.Observations {
		_, taken := m.taken[i]
		if taken {
			continue
		}
		o := m.snap.Observations[i]
		path := CgroupPath(&o)
		k := slices.IndexFunc(m.covers, func(c *workload.Claim) bool { return c.Covers(path) })
		if k >= 0 {
			o.Caps = m.covers[k].Caps
			m.scene.Covered[o.ID] = m.covers[k]
		}
		m.merged = append(m.merged, o)
	}
}

// positions finds observations by what they are about.
type positions struct {
	all       []workload.Observation
	byProcess map[workload.Process]int
	byCgroup  []int // indexes of all, rising by cgroup
}

func positionsOf(all []workload.Observation) positions {
	p := positions{all, map[workload.Process]int{}, make([]int, len(all))}
	for i := len(all) - 1; i >= 0; i-- { // the first of several stays
		p.byCgroup[i] = i
		for _, x := range all[i].Processes {
			p.byProcess[x] = i
		}
	}
	slices.SortStableFunc(p.byCgroup, func(i, j int) int {
		return cmp.Compare(CgroupPath(&all[i]), CgroupPath(&all[j]))
	})
	return p
}

// of returns the observations that a claim is about: that of its process, all that lie in the
// cgroups that it names by their paths, in their order, or the first in a cgroup that it names
// otherwise.
func (p *positions) of(c *workload.Claim) (found []int) {
	if c.Process.PID > 0 {
		i, ok := p.byProcess[c.Process]
		if !ok {
			return nil
		}
		return []int{i}
	}
	for _, want := range c.Cgroups {
		if !strings.HasPrefix(want, "/") {
			i := slices.IndexFunc(p.all, func(o workload.Observation) bool { return c.Covers(CgroupPath(&o)) })
			if i < 0 {
				return nil
			}
			return []int{i}
		}
		found = append(found, p.below(want)...)
	}
	return found
}

// below returns the observations in a cgroup, in the order of their cgroups.
func (p *positions) below(cgroup string) (found []int) {
	k, _ := slices.BinarySearchFunc(p.byCgroup, cgroup, func(i int, want string) int {
		return cmp.Compare(CgroupPath(&p.all[i]), want)
	})
	for _, i := range p.byCgroup[k:] {
		rest, in := strings.CutPrefix(CgroupPath(&p.all[i]), cgroup)
		if !in {
			break
		}
		if rest == "" || rest[0] == '/' {
			found = append(found, i)
		}
	}
	return found
}

// asClaimed returns an observation as its source knows it.
func asClaimed(o workload.Observation, c *workload.Claim, h *topology.Host) workload.Observation {
	o.ID, o.Name = c.ID, c.Name
	o.Caps = c.Caps
	if o.Kind == "" && len(c.Cgroups) > 0 {
		o.Owner, _ = workload.CgroupOwner(c.Cgroups[0])
	}
	if c.Owner != workload.SystemOwner {
		o.Owner = c.Owner
	}
	if c.Caps.PinsThreads {
		o.Pinned, o.PinnedWhy = false, ""
		o.VCPUSets = c.VCPUSets
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
