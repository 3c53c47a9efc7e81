package switchback

import (
	"maps"
	"slices"

	"github.com/homenode/homenode/core/control/concern/threads"
	"github.com/homenode/homenode/core/control/work"
	"github.com/homenode/homenode/core/trial"
	"github.com/homenode/homenode/core/words"
	"github.com/homenode/homenode/core/workload"
)

// Now returns how far the switch to the arm has come.
func (s *Trials) Now(h *Host) Now {
	if s.Trial == nil {
		return Now{Settled: true}
	}
	t := *s.Trial
	t.Written, t.Stands = maps.Clone(t.Written), maps.Clone(t.Stands)
	now := Now{Trial: &t}
	now.Pending = len(h.Work.Undoing) + len(h.Work.Tasks)
	for id, value := range t.Written {
		if value != t.Stands[id] {
			now.Pending++
		}
	}
	if t.Arm == trial.On {
		steps := map[workload.ID]bool{}
		for _, step := range h.Planned().Steps {
			steps[step.Workload] = true
		}
		for id := range steps {
			if h.Work.Tasks[id] == nil && !h.Holds.Has(id) && !h.Work.Failing(id) && s.has(h, id) {
				now.Pending++
			}
		}
	}
	seen := h.Scan > t.Scan || h.Work.Scans == 0
	now.Settled = now.Pending == 0 && seen && t.Ending == nil
	return now
}

func (s *Trials) has(h *Host, id workload.ID) bool {
	return len(s.Trial.Names) == 0 || slices.Contains(h.Matching(s.Trial.Names), id)
}

// Balances reports whether a trial decides on kernel.numa_balancing now.
func (s *Trials) Balances() bool {
	t := s.Trial
	return t != nil && slices.Contains(t.Kernel, trial.Balancing) &&
		(t.Arm != trial.On || t.Written[threads.BalancingID] != "")
}

func (s *Trials) save(h *Host) {
	if s.Trial == nil {
		h.Save(Key, (*Trial)(nil))
		return
	}
	t := *s.Trial
	t.Names, t.Holds = slices.Clone(t.Names), work.Holds{All: t.Holds.All, IDs: copied(t.Holds.IDs)}
	t.Written, t.Stands = maps.Clone(t.Written), maps.Clone(t.Stands)
	h.Save(Key, &t)
}

// Resumed returns a copy of a saved trial.
func Resumed(saved *Trial) *Trial {
	if saved == nil {
		return nil
	}
	t := *saved
	t.Scan = 0                // scans are counted from the start of a daemon
	t.Stands = kernelValues{} // the daemon before may have restored them when it stopped
	t.Written = copied(t.Written)
	t.Holds = work.Holds{All: t.Holds.All, IDs: copied(t.Holds.IDs)}
	return &t
}

// AfterBoot ends the holds that a saved trial has added, and returns the lines of history about its end. The machine
// was restarted: the program of the trial no longer runs, and the settings of the kernel are those of the boot.
func AfterBoot(saved *Trial, holds *work.Holds) []words.Reason {
	if saved == nil {
		return nil
	}
	saved.lift(holds)
	if saved.Ending != nil { // the history has it
		return nil
	}
	return []words.Reason{words.Because(words.TrialEnds, saved.Name, words.Because(words.TrialRestarted))}
}

// copied returns a map that can be written to.
func copied[K comparable, V any](m map[K]V) map[K]V {
	if m == nil {
		return map[K]V{}
	}
	return maps.Clone(m)
}
