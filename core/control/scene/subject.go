package scene

import (
	"cmp"

	"github.com/homenode/homenode/core/balance"
	"github.com/homenode/homenode/core/place"
	"github.com/homenode/homenode/core/words"
	"github.com/homenode/homenode/core/workload"
)

// Decidable pairs each observation with what is wanted for it. A workload that has not changed since,
// nor anything else that its subject was made of, keeps that subject: most have not.
func (s *Scene) Decidable(by *Basis, all []workload.Observation) []*place.Subject {
	allowed := s.Snapshot.Host.Allowed
	before := s.made
	if before.journal != by.Journal.Shape() || !before.allowed.Equal(allowed) {
		before = made{hosts: hostCgroups(by.Journal)}
	}
	now := made{
		journal:  by.Journal.Shape(),
		hosts:    before.hosts,
		allowed:  allowed,
		observed: all,
		subjects: make([]*place.Subject, len(all)),
		alike:    make([]bool, len(all)),
		settings: Readings{Right: make([]bool, len(all)), Changes: before.settings.Changes},
	}
	k := 0
	for i := range all {
		o := &all[i]
		for k < len(before.observed) && before.observed[k].ID < o.ID {
			k++
		}
		now.alike[i] = !s.special(by, o.ID)
		if now.alike[i] && before.has(k, o) {
			now.subjects[i] = before.subjects[k]
			now.settings.Right[i] = before.settings.Right[k]
			now.setOwner(i, before.owner(k))
		} else {
			now.setOwner(i, s.ownStart(by, o))
		}
	}
	beyond := s.beyondCeiling(by, all, now.owners)
	for i := range all {
		o := &all[i]
		isBeyond := len(beyond) > 0 && has(beyond, o.ID)
		if now.subjects[i] != nil && !isBeyond {
			continue
		}
		now.subjects[i] = s.subject(by, o, now.hosts, beyond[o.ID])
		now.settings.Right[i] = false
		now.alike[i] = now.alike[i] && !isBeyond && lasts(now.subjects[i])
	}
	s.made = now
	return now.subjects
}

// owner returns the party that started workload k, see ownStart.
func (m *made) owner(k int) workload.Owner {
	if m.owners == nil {
		return workload.SystemOwner
	}
	return m.owners[k]
}

func (m *made) setOwner(i int, owner workload.Owner) {
	if owner == workload.SystemOwner {
		return
	}
	if m.owners == nil {
		m.owners = make([]workload.Owner, len(m.observed))
	}
	m.owners[i] = owner
}

// has reports whether subject k is of the same observation, and of nothing else.
func (m *made) has(k int, o *workload.Observation) bool {
	return k < len(m.observed) && m.alike[k] && m.observed[k].Same(o)
}

// lasts reports whether a subject stays the same as long as its observation does: a young process
// grows older, and the workloads that a spec names come and go.
func lasts(x *place.Subject) bool {
	return x.Aside.Code != words.TooYoung && !workload.NamesOthers(x.Spec.Near)
}

// special reports whether more is known of a workload than its observation shows.
func (s *Scene) special(by *Basis, id workload.ID) bool {
	switch {
	case s.Claims[id] != nil, s.Covered[id] != nil:
		return true
	case len(s.Links[id]) > 0, s.Following[id].Follows, s.Loads[id].Importance > 0:
		return true
	case has(by.Admissions, id):
		return true
	}
	return by.Work.Trouble(id) != nil
}

// subject returns what is decided on for one workload. hosts is the host's own cgroups, beyond why the
// workload is beyond the ceiling of its party.
func (s *Scene) subject(by *Basis, o *workload.Observation, hosts []string, beyond words.Reason) *place.Subject {
	x := &place.Subject{Spec: s.SpecOf(by, o), Observation: balance.Round(*o)}
	c := cmp.Or(s.Claims[o.ID], s.Covered[o.ID])
	if c != nil {
		x.Fixed, x.Booked = c.Fixed, c.Booked
		x.Crowd = c.Crowd && x.Spec.Class == workload.Shared
	}
	a, admitted := by.Admissions[o.ID]
	if admitted && a.started(o) { // as when it was started
		x.Crowd = a.Process.PID > 0 && x.Spec.Class == workload.Shared
	}
	trouble := by.Work.Trouble(o.ID)
	x.Alone = s.alone(by, o, c, hosts, trouble)
	if x.Alone.None() {
		x.Alone = unseen(o, trouble)
		x.Fixed = x.Fixed || !x.Alone.None() // its CPUs stay its own until a scan sees it again
	}
	if x.Alone.None() {
		x.Alone = beyond
	}
	x.Aside = s.aside(by, o)
	return x
}

// alone returns the first reason to leave a workload alone, whether a scan can read it or not. c is the
// claim on it, or nil.
func (s *Scene) alone(
	by *Basis, o *workload.Observation, c *workload.Claim, hosts []string, trouble *Trouble,
) words.Reason {
	why := s.LeftAlone(by, o, s.Claims[o.ID].Names())
	if why.None() && c != nil {
		why = c.Alone
	}
	if why.None() && c != nil {
		why = fenced(by.Facts, c)
	}
	if why.None() {
		why = byHand(by, o)
	}
	if why.None() {
		why = ofHost(o.ID, hosts)
	}
	if why.None() && trouble != nil {
		why = trouble.GivenIn
	}
	if why.None() {
		why = s.SetByOthers(by.Journal, o)
	}
	return why
}
