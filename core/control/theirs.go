package control

import (
	"github.com/homenode/homenode/core/control/journal"
	"github.com/homenode/homenode/core/plan"
	"github.com/homenode/homenode/core/words"
)

// Theirs is a setting of another program.
type Theirs = journal.Theirs

func (s *State) saveTheirs() { s.save(KeyTheirs, s.Theirs.Sorted()) }

// keepTheirs remembers whose the setting of an entry is.
func (s *State) keepTheirs(e *plan.Entry) {
	s.Theirs.Keep(e)
	s.saveTheirs()
}

// theirsAmong returns the first of the changes that is of a setting of another program.
func (s *State) theirsAmong(changes []plan.Change) *plan.Change {
	c, changed := s.Theirs.Among(changes)
	if changed {
		s.saveTheirs()
	}
	return c
}

// giveBack lets homenode set again what other programs have set of a workload.
func (s *State) giveBack(which Which) {
	if s.Theirs.GiveBackOf(which.has) {
		s.saveTheirs()
	}
}

func (s *State) giveBackOne(e *plan.Entry) {
	s.Theirs.GiveBack(e)
	s.saveTheirs()
}

// setSince is why a setting is not changed.
func setSince(x *plan.Setting) words.Reason {
	return words.Because(words.SetSince, string(x.Kind), x.Path, words.OrAll(x.Value))
}
