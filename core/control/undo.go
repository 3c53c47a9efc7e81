package control

import (
	"maps"

	"github.com/homenode/homenode/core/control/work"
	"github.com/homenode/homenode/core/plan"
	"github.com/homenode/homenode/core/words"
	"github.com/homenode/homenode/core/workload"
)

// undo holds what matches, stops its page moves and restores its settings, without
// waiting for those moves to end.
func (s *State) undo(id uint64, which Which, of workload.Lineage) {
	f := s.means(&which, of)
	if f != nil {
		s.reply(Reply{ID: id, Failed: f})
		return
	}
	if which.DryRun {
		s.reply(Reply{ID: id, Undo: new(s.DryUndo(which, s.runEntries(which)))})
		return
	}
	if s.by != nil { // else homenode itself restores what came late
		s.order(which.ID, words.UndoOrdered, which.Name())
	}
	if !which.Stop && which.Only == "" {
		s.hold(which)
		s.holdConcerns(which)
	}
	s.Undo(id, which, s.runEntries(which))
}

// runOf returns the admission of `homenode run` that a setting is of, if it is known what its
// process had before.
func (s *State) runOf(kind plan.SettingKind, path string) (Admission, bool) {
	if kind != plan.Affinity {
		return Admission{}, false
	}
	p, err := plan.ParseProcessPath(path)
	if err != nil {
		return Admission{}, false
	}
	a, ok := s.Admissions[ProcessID(p.PID)]
	return a, ok && a.Process == p && !a.Had.Empty()
}

// runEntries returns the affinities that `homenode run` has set itself, of what is to be undone,
// as journal entries. Before that nothing needs them: when the process ends they are gone.
func (s *State) runEntries(which Which) (out []plan.Entry) {
	for _, id := range sortedKeys(s.Admissions) {
		a := s.Admissions[id]
		path := plan.ProcessPath(a.Process)
		unknown := a.Process.PID <= 0 || a.Had.Empty() || a.Placement.CPUs.Empty()
		if unknown || !which.Has(id) || s.Journal.Of(plan.Affinity, path) != nil {
			continue
		}
		out = append(out, plan.Entry{
			Seq: s.Seq + uint64(len(out)) + 1, Time: s.At.Round(0), Workload: id, Kind: plan.Affinity, Path: path,
			Old: a.Had.String(), New: a.Placement.CPUs.String(), Ticks: a.Process.Start, State: plan.Applied,
		})
	}
	return out
}

// hold writes down that homenode is to leave something alone.
func (s *State) hold(which Which) {
	if which.All {
		s.Holds.All = true
	} else {
		s.Holds.IDs[which.ID] = true
	}
	s.saveHolds()
}

// resume ends a hold: the next scan plans the workload again.
func (s *State) resume(id uint64, which Which, of workload.Lineage) {
	f := s.means(&which, of)
	if f != nil {
		s.reply(Reply{ID: id, Failed: f})
		return
	}
	held := Holds{All: s.Holds.All, IDs: maps.Clone(s.Holds.IDs)}
	if !which.All {
		held.All, held.IDs = false, map[workload.ID]bool{which.ID: true}
	}
	switch {
	case which.All && which.DryRun:
	case which.All:
		s.Holds = Holds{IDs: map[workload.ID]bool{}}
	case s.Holds.All:
		s.reply(Reply{ID: id, Failed: work.Refuse(BadRequest, words.AllHeldResumeAll)})
		return
	case !s.Holds.IDs[which.ID]:
		s.reply(Reply{ID: id, Failed: work.Refuse(NotFound, words.NotHeld, string(which.ID))})
		return
	case !which.DryRun:
		delete(s.Holds.IDs, which.ID)
	}
	nothing := !held.All && len(held.IDs) == 0
	if which.DryRun || nothing {
		s.reply(Reply{ID: id, Resumed: &held})
		return
	}
	if s.by != nil {
		s.order(which.ID, words.ResumeOrdered, which.Name())
	}
	maps.DeleteFunc(s.Retries, func(key stepKey, _ retry) bool { return which.Has(key.Workload) })
	s.GiveBackOf(which)
	s.DropSteps(which)
	s.saveHolds()
	s.reply(Reply{ID: id, Resumed: &held})
}
