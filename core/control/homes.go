package control

import (
	"github.com/homenode/homenode/core/control/homes"
	"github.com/homenode/homenode/core/place"
	"github.com/homenode/homenode/core/workload"
)

// What package homes describes.
type (
	PlaceRequest = homes.PlaceRequest
	Exact        = homes.Exact
	MoveRequest  = homes.MoveRequest
	Placed       = homes.Placed
	Moved        = homes.Moved
)

// MostAsked is how many workloads one what-if question may name.
const MostAsked = homes.MostAsked

// now returns what homes depend on besides themselves.
func (s *State) now() *homes.Now {
	return &homes.Now{At: s.At, Begun: s.Scans, Seen: s.Seen, Subjects: s.Subjects, Claims: s.Claims}
}

// keep writes what homes have to save.
func (s *State) keep(changed homes.Save) {
	if changed.Placements != nil {
		s.out.Save.Placements = changed.Placements
	}
	if changed.Admissions != nil {
		s.save(KeyAdmissions, *changed.Admissions)
	}
	if changed.Chosen != nil {
		s.save(KeyChosen, changed.Chosen)
	}
	if changed.Past != nil {
		s.save(KeyPast, changed.Past)
	}
}

// Ledger returns what is booked now, for requests between two scans.
func (s *State) Ledger() *place.Ledger { return s.Homes.Ledger(s.now()) }

func (s *State) withAdmissions(ledger []workload.Placement) []workload.Placement {
	return s.Homes.WithAdmissions(ledger, s.Seen)
}

func (s *State) keepClear() { s.Homes.KeepClear(s.Claims) }

func (s *State) savePlacements() { s.out.Save.Placements = s.SavePlacements() }

func (s *State) saveAdmissions() { s.save(KeyAdmissions, s.SaveAdmissions()) }

// keepDecisions remembers why homes were chosen.
func (s *State) keepDecisions() {
	if s.KeepDecisions(s.Seen) {
		s.save(KeyChosen, s.Chosen) // replaced at the next scan, never changed
	}
}
