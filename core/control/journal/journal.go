package journal

import (
	"maps"
	"slices"

	"github.com/homenode/homenode/core/plan"
)

// Journal is the live entries: the oldest known value of everything that homenode has changed.
// The zero value has no entries and takes none: see New.
type Journal struct {
	entries map[uint64]*plan.Entry
	bySet   map[setting]*plan.Entry
	all     []plan.Entry // rising by Seq; nil when stale
	groups  []group
	written []plan.Entry // see Intended; nil when stale
	changes uint64
	shape   uint64
}

type setting struct {
	kind plan.SettingKind
	path string
}

// group is the entries of some kinds, kept until one of them changes.
type group struct {
	name    string
	has     func(plan.SettingKind) bool
	entries []plan.Entry // nil when stale
}

// New returns a journal of entries that were on disk.
func New(entries []plan.Entry) Journal {
	j := Journal{entries: map[uint64]*plan.Entry{}, bySet: map[setting]*plan.Entry{}}
	for _, e := range entries {
		RenameEntry(&e)
		j.Put(e)
	}
	return j
}

// Put writes an entry, or removes one that is Restored or Gone.
func (j *Journal) Put(e plan.Entry) {
	j.all = nil
	j.changes++
	for i := range j.groups {
		if j.groups[i].has(e.Kind) {
			j.groups[i].entries = nil
		}
	}
	if e.Kind == plan.Affinity {
		j.written = nil
	}
	ends := e.State == plan.Restored || e.State == plan.Gone
	key := setting{e.Kind, e.Path}
	old := j.bySet[key]
	if ends || old == nil || old.Object != e.Object || old.Workload != e.Workload {
		j.shape++
	}
	if !ends {
		j.entries[e.Seq] = &e
		j.bySet[key] = &e
		return
	}
	delete(j.entries, e.Seq)
	if old != nil && old.Seq == e.Seq {
		delete(j.bySet, key)
	}
}

// Of returns the entry of a setting, or nil.
func (j *Journal) Of(kind plan.SettingKind, path string) *plan.Entry {
	return j.bySet[setting{kind, path}]
}

// At returns the entry with a number, or nil.
func (j *Journal) At(seq uint64) *plan.Entry { return j.entries[seq] }

// Len returns the number of entries.
func (j *Journal) Len() int { return len(j.entries) }

// Changes counts the entries written or removed so far.
func (j *Journal) Changes() uint64 { return j.changes }

// Shape changes when a setting was added or removed, or is now of another object or workload.
func (j *Journal) Shape() uint64 { return j.shape }

// All returns every entry, rising by Seq. The caller must not change it.
func (j *Journal) All() []plan.Entry {
	if j.all == nil {
		j.all = make([]plan.Entry, 0, len(j.entries))
		for _, seq := range slices.Sorted(maps.Keys(j.entries)) {
			j.all = append(j.all, *j.entries[seq])
		}
	}
	return j.all
}

// Group returns the entries of the kinds that has accepts, rising by Seq. They are kept under name
// until one changes; a name always goes with the same kinds. The caller must not change them.
func (j *Journal) Group(name string, has func(plan.SettingKind) bool) []plan.Entry {
	i := slices.IndexFunc(j.groups, func(g group) bool { return g.name == name })
	if i < 0 {
		i = len(j.groups)
		j.groups = append(j.groups, group{name: name, has: has})
	}
	g := &j.groups[i]
	if g.entries == nil {
		g.entries = []plan.Entry{}
		for _, e := range j.All() {
			if has(e.Kind) {
				g.entries = append(g.entries, e)
			}
		}
	}
	return g.entries
}

// Inherits reports whether a process that starts after a setting was changed has its value, too.
func Inherits(k plan.SettingKind) bool { return k == plan.Affinity || k == plan.ThreadCPUs }

// Affinities returns the entries that something may have inherited from. The caller must not change them.
func (j *Journal) Affinities() []plan.Entry { return j.Group("inherits", Inherits) }

// Intended returns the affinities of which homenode has written some, all or none so far. The caller
// must not change them.
func (j *Journal) Intended() []plan.Entry {
	if j.written == nil {
		j.written = []plan.Entry{}
		for _, e := range j.Affinities() {
			if e.Kind == plan.Affinity && e.State == plan.Intended {
				j.written = append(j.written, e)
			}
		}
	}
	return j.written
}
