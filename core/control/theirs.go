package control

import (
	"cmp"
	"maps"
	"slices"

	"github.com/homenode/homenode/core/plan"
	"github.com/homenode/homenode/core/words"
	"github.com/homenode/homenode/core/workload"
)

// Theirs is a setting that somebody else has set since homenode did. No plan changes it
// until it is back to the value from before homenode, or a person resumes its workload.
type Theirs struct {
	Workload workload.ID      `json:"workload"`
	Kind     plan.SettingKind `json:"kind"`
	Path     string           `json:"path"`
	Object   string           `json:"object,omitempty"`
	Old      string           `json:"old"` // before homenode
}

func (t *Theirs) key() string { return string(t.Kind) + " " + t.Path }

func theirs(all []Theirs) map[string]Theirs {
	out := make(map[string]Theirs, len(all))
	for _, t := range all {
		if t.Kind == plan.CacheGroup {
			t.Path = renamed(t.Kind, t.Path)
		}
		t.Old = renamed(t.Kind, t.Old)
		out[t.key()] = t
	}
	return out
}

func (s *State) saveTheirs() {
	s.save(KeyTheirs, sortedTheirs(s.Theirs))
}

// keepTheirs remembers whose the setting of an entry is.
func (s *State) keepTheirs(e *plan.Entry) {
	t := Theirs{e.Workload, e.Kind, e.Path, e.Object, e.Old}
	s.Theirs[t.key()] = t
	s.saveTheirs()
}

// theirsAmong is the first of the changes that is of a setting of somebody else. Those
// that were given back are homenode's to set again.
func (s *State) theirsAmong(changes []plan.Change) *plan.Change {
	for i := range changes {
		c := &changes[i]
		t, ok := s.Theirs[(&Theirs{Kind: c.Kind, Path: c.Path}).key()]
		switch {
		case !ok:
		case c.Value == t.Old, t.Object != "" && c.Object != "" && t.Object != c.Object:
			delete(s.Theirs, t.key())
			s.saveTheirs()
		default:
			return c
		}
	}
	return nil
}

// giveBack makes what others have set of a workload homenode's to set again.
func (s *State) giveBack(which Which) {
	before := len(s.Theirs)
	maps.DeleteFunc(s.Theirs, func(_ string, t Theirs) bool { return which.has(t.Workload) })
	if len(s.Theirs) != before {
		s.saveTheirs()
	}
}

func (s *State) giveBackOne(e *plan.Entry) {
	delete(s.Theirs, (&Theirs{Kind: e.Kind, Path: e.Path}).key())
	s.saveTheirs()
}

// theirEntries asks after the things of others as of those in the journal. They have no
// Seq.
func (s *State) theirEntries() []plan.Entry {
	var out []plan.Entry
	for _, t := range sortedTheirs(s.Theirs) {
		out = append(out, plan.Entry{Workload: t.Workload, Kind: t.Kind, Path: t.Path, Object: t.Object, State: plan.Gone})
	}
	return out
}

// setSince is why a setting is not changed.
func setSince(x *plan.Setting) words.Reason {
	return words.Because(words.SetSince, string(x.Kind), x.Path, words.OrAll(x.Value))
}

func sortedTheirs(all map[string]Theirs) []Theirs {
	return slices.SortedFunc(maps.Values(all), func(a, b Theirs) int { return cmp.Compare(a.key(), b.key()) })
}
