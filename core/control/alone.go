package control

import (
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/homenode/homenode/core/words"
	"github.com/homenode/homenode/core/workload"
)

// leave returns why a workload is not homenode's to place. A scan decides with it, and a request for a home
// before the start.
func (s *State) leave(o *workload.Observation, names []string) words.Reason {
	return leave(&s.Settings, s.Managers, has(s.Admissions, o.ID), o, names)
}

// Leaves returns why work that is about to start is not homenode's to place.
func (a *Attention) Leaves(spec *workload.Spec, names []string) words.Reason {
	if a.settings == nil { // there is no daemon
		return words.Reason{}
	}
	return leave(a.settings, a.managers, false, &workload.Observation{ID: spec.ID, Name: spec.Name}, names)
}

// leave returns why a workload is not homenode's to place: its name cannot be stored, another manager owns it,
// or the configuration leaves it out. asked: a user has asked for its home by `homenode run`, wherever it runs.
// names are those that a source knows beside the ID and the name; its cgroups begin with a slash.
func leave(settings *Settings, managers []Manager, asked bool, o *workload.Observation, names []string) words.Reason {
	if !utf8.ValidString(string(o.ID)) { // the journal is JSON, which cannot hold such a path
		return words.Because(words.NotUTF8)
	}
	if m := managerOf(managers, o, names); m != nil {
		if m.Everything {
			return words.Because(words.ManagerMovesAll, m.Name, m.Does, m.Name)
		}
		return words.Because(words.ManagerOwns, m.Name, m.Does)
	}
	for _, p := range settings.Exclude {
		if namesIt(p, o) || matchesAny(p, names) || (!asked && inCgroup(p, o)) {
			return words.Because(words.Excluded, p)
		}
	}
	includes := func(p string) bool { return Matches(p, o) || matchesAny(p, names) }
	if len(settings.Include) > 0 && !slices.ContainsFunc(settings.Include, includes) {
		return words.Because(words.NotIncluded)
	}
	return words.Reason{}
}

// managerOf returns the other manager that owns a workload, or nil.
func managerOf(all []Manager, o *workload.Observation, names []string) *Manager {
	for i := range all {
		m := &all[i]
		owns := func(name string) bool { return strings.HasPrefix(name, "/") && below(name, m.Cgroups) }
		switch {
		case m.Everything, below(string(o.ID), m.Cgroups), slices.ContainsFunc(names, owns):
			return m
		case o.Kind == workload.InProcess && below(o.Cgroup, m.Cgroups):
			return m
		}
	}
	return nil
}

// matchesAny reports whether a pattern fits one of some names.
func matchesAny(pattern string, names []string) bool {
	return slices.ContainsFunc(names, func(name string) bool { return matches(pattern, name) })
}
