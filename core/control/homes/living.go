package homes

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"github.com/homenode/homenode/core/place"
	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/core/workload"
)

// Scanned is the workloads of one scan, rising by ID.
type Scanned struct {
	Observations []workload.Observation
	Lives        []workload.Life // of each
}

// of returns the index of a workload, or -1.
func (s *Scanned) of(id workload.ID) int {
	byID := func(l workload.Life, id workload.ID) int { return cmp.Compare(l.ID, id) }
	i, ok := slices.BinarySearchFunc(s.Lives, id, byID)
	if !ok {
		return -1
	}
	return i
}

// Living is what lives on from one scan to the next.
type Living struct {
	Placements []workload.Placement      // of what lives
	Left       []*workload.Observation   // seen by the scan before, and no more
	Another    map[workload.ID]bool      // processes with the PID of an earlier one
	Admissions bool                      // some ended: they are to be saved
	Gone       func(id workload.ID) bool // reports whether a workload neither lives nor is about to start
}

// Live takes what is gone out of the homes. before is what the scan before saw, after the
// newest one, whose number is seen.
func (h *Homes) Live(before, after *Scanned, seen uint64, at time.Time) Living {
	l := Living{Another: map[workload.ID]bool{}}
	l.Gone = func(id workload.ID) bool {
		ended := l.Another[id] || after.of(id) < 0
		return ended && !h.fresh(id, seen)
	}
	h.keepLiving(&l, after, seen)
	l.findLeft(before, after)
	admitted := len(h.Admissions)
	h.endAdmissions(&l, after, seen, at)
	l.Admissions = len(h.Admissions) != admitted
	if !h.givenSeen || len(l.Left) > 0 || len(l.Another) > 0 {
		maps.DeleteFunc(h.Given, func(id workload.ID, _ topology.CPUSet) bool { return l.Gone(id) })
		h.givenSeen = len(h.Admissions) == 0 // else some may be fresh
	}
	return l
}

// fresh reports whether a process was admitted so late that no scan need have seen it.
func (h *Homes) fresh(id workload.ID, seen uint64) bool {
	a, ok := h.Admissions[id]
	return ok && a.Process.PID > 0 && a.Scan >= seen
}

// keepLiving finds the placements of what lives. What nobody left is shared.
func (h *Homes) keepLiving(l *Living, after *Scanned, seen uint64) {
	placements := h.Placements()
	l.Placements = placements
	dropped := false
	all := workload.Lives{All: after.Lives}
	for i := range placements { // both rise by ID
		p := &placements[i]
		k, here := all.Find(p.Workload)
		same := here && after.Lives[k].Start == p.Start
		switch {
		case !same && !h.fresh(p.Workload, seen):
			if !dropped {
				dropped = true
				l.Placements = append(make([]workload.Placement, 0, len(placements)), placements[:i]...)
			}
			l.Another[p.Workload] = here
		case dropped:
			l.Placements = append(l.Placements, *p)
		}
	}
	if l.Placements == nil {
		l.Placements = []workload.Placement{}
	}
}

// findLeft compares two scans.
func (l *Living) findLeft(before, after *Scanned) {
	all := workload.Lives{All: after.Lives}
	for i := range before.Lives {
		was := &before.Lives[i]
		k, here := all.Find(was.ID)
		switch {
		case !here:
			l.Left = append(l.Left, &before.Observations[i])
		case after.Lives[k].Start != was.Start:
			l.Another[was.ID] = true
		}
	}
}

// endAdmissions takes out the admissions of what came, of what exited and of what did not
// come in time.
func (h *Homes) endAdmissions(l *Living, after *Scanned, seen uint64, at time.Time) {
	for id, a := range h.Admissions {
		if h.fresh(id, seen) {
			continue
		}
		i := after.of(id)
		if a.Process.PID > 0 {
			// it need not have a placement: it may be left alone
			lives := i >= 0 && after.Lives[i].Start == a.Process.Start
			if !lives {
				delete(h.Admissions, id)
				delete(h.Given, id)
			}
			continue
		}
		if i >= 0 { // what was held for it is its home, if nothing else is
			delete(h.Admissions, id)
			if place.Of(l.Placements, id) == nil {
				l.Placements = Merge(l.Placements, []workload.Placement{a.Placement})
			}
		} else if !at.Before(a.Until) {
			delete(h.Admissions, id)
		}
	}
}

// WithStartTimes returns placements with the start time of process workloads. One that
// was placed while the scan went on is not in it and keeps the one it has.
func WithStartTimes(placements []workload.Placement, seen *Scanned) []workload.Placement {
	all, own := workload.Lives{All: seen.Lives}, false
	for i := range placements { // both rise by ID
		k, here := all.Find(placements[i].Workload)
		if !here {
			continue
		}
		if start := seen.Lives[k].Start; start != placements[i].Start {
			if !own { // the ledger may have the others
				placements, own = slices.Clone(placements), true
			}
			placements[i].Start = start
		}
	}
	return placements
}
