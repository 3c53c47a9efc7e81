package journal

import (
	"cmp"
	"maps"
	"slices"

	"github.com/homenode/homenode/core/plan"
	"github.com/homenode/homenode/core/workload"
)

// Theirs is a setting that another program has set since homenode did. No plan changes it until it
// has its original value again, or the user resumes its workload.
type Theirs struct {
	Workload workload.ID      `json:"workload"`
	Kind     plan.SettingKind `json:"kind"`
	Path     string           `json:"path"`
	Object   string           `json:"object,omitempty"`
	Old      string           `json:"old"` // before homenode
}

func theirsKey(kind plan.SettingKind, path string) string { return string(kind) + " " + path }

// Foreign is the settings of other programs, by kind and path.
type Foreign map[string]Theirs

// ForeignOf returns the settings that were on disk.
func ForeignOf(all []Theirs) Foreign {
	out := make(Foreign, len(all))
	for _, t := range all {
		if t.Kind == plan.CacheGroup {
			t.Path = Renamed(t.Kind, t.Path)
		}
		t.Old = Renamed(t.Kind, t.Old)
		out[theirsKey(t.Kind, t.Path)] = t
	}
	return out
}

// Keep remembers that the setting of an entry belongs to another program.
func (f Foreign) Keep(e *plan.Entry) {
	f[theirsKey(e.Kind, e.Path)] = Theirs{e.Workload, e.Kind, e.Path, e.Object, e.Old}
}

// GiveBack lets homenode set the setting of an entry again.
func (f Foreign) GiveBack(e *plan.Entry) { delete(f, theirsKey(e.Kind, e.Path)) }

// GiveBackOf lets homenode set the settings of some workloads again, and reports whether there were any.
func (f Foreign) GiveBackOf(has func(workload.ID) bool) bool {
	before := len(f)
	maps.DeleteFunc(f, func(_ string, t Theirs) bool { return has(t.Workload) })
	return len(f) != before
}

// Among returns the first of the changes that is of a setting of another program; nil for none. A
// setting that has its original value again, or is of a new object, belongs to nobody: it is removed,
// and changed is true.
func (f Foreign) Among(changes []plan.Change) (first *plan.Change, changed bool) {
	for i := range changes {
		c := &changes[i]
		key := theirsKey(c.Kind, c.Path)
		t, ok := f[key]
		if !ok {
			continue
		}
		another := t.Object != "" && c.Object != "" && t.Object != c.Object
		if c.Value != t.Old && !another {
			return c, changed
		}
		delete(f, key)
		changed = true
	}
	return nil, changed
}

// Entries returns entries to ask with whether the objects still exist. They have no Seq.
func (f Foreign) Entries() []plan.Entry {
	var out []plan.Entry
	for _, t := range f.Sorted() {
		out = append(out, plan.Entry{Workload: t.Workload, Kind: t.Kind, Path: t.Path, Object: t.Object,
			State: plan.Gone})
	}
	return out
}

// Sorted returns the settings in the order of their kinds and paths.
func (f Foreign) Sorted() []Theirs {
	return slices.SortedFunc(maps.Values(f), func(a, b Theirs) int {
		return cmp.Compare(theirsKey(a.Kind, a.Path), theirsKey(b.Kind, b.Path))
	})
}
