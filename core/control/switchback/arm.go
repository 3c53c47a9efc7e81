package switchback

import (
	"maps"
	"slices"

	"github.com/homenode/homenode/core/control/work"
	"github.com/homenode/homenode/core/plan"
	"github.com/homenode/homenode/core/trial"
	"github.com/homenode/homenode/core/words"
	"github.com/homenode/homenode/core/workload"
)

// to makes another arm stand. What a trial has begun is done under the trial's own
// holds, so that a hold of the user's is never lifted.
func (s *Trials) to(h *Host, to trial.Arm) {
	t := s.Trial
	was := t.Arm
	t.Arm = to
	t.Since = h.Work.At.Round(0)
	t.Scan = h.Work.Scans
	h.Unasked(func() { // the order was to run a trial
		h.Event(plan.Event{Kind: plan.EventDaemon}, words.TrialSwitched, t.Name, string(was), string(to))
		if was == trial.On {
			t.Stands = kernelValues{} // what is restored, or about to be
			s.hold(h)
		}
		if to == trial.On {
			s.letGo(h)
		}
		s.setKernel(h)
	})
}

// hold undoes and holds the workloads of the trial that are not held yet.
func (s *Trials) hold(h *Host) {
	t := s.Trial
	if len(t.Names) == 0 {
		if !h.Holds.All {
			t.Holds.All = true
			h.UndoAndHold(work.Which{All: true, Own: true})
		}
		return
	}
	for _, id := range h.Matching(t.Names) {
		if !h.Holds.Has(id) {
			t.Holds.IDs[id] = true
			h.UndoAndHold(work.Which{ID: id})
		}
	}
}

// letGo ends the holds that the trial has added.
func (s *Trials) letGo(h *Host) {
	t := s.Trial
	t.lift(h.Holds)
	if t.Holds.All {
		h.Work.GiveBackOf(work.Which{All: true})
		h.Work.DropSteps(work.Which{All: true})
	}
	for _, id := range slices.Sorted(maps.Keys(t.Holds.IDs)) {
		h.Work.GiveBackOf(work.Which{ID: id})
		h.Work.DropSteps(work.Which{ID: id})
	}
	t.Holds = work.Holds{IDs: map[workload.ID]bool{}}
	h.Work.Retries = map[work.Key]work.Retry{}
	h.SaveHolds()
}

// lift takes the holds that the trial has added out of others.
func (t *Trial) lift(holds *work.Holds) {
	if t.Holds.All {
		holds.All = false
	}
	for id := range t.Holds.IDs {
		delete(holds.IDs, id)
	}
}
