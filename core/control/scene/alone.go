package scene

import (
	"path"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/homenode/homenode/core/hostprep"
	"github.com/homenode/homenode/core/plan"
	"github.com/homenode/homenode/core/words"
	"github.com/homenode/homenode/core/workload"
)

// LeftAlone returns why a workload is not homenode's to place. A scan decides with it, and a request for a home
// before the start. names are those that a source knows besides the ID and the name; its cgroups begin with a slash.
func (s *Scene) LeftAlone(by *Basis, o *workload.Observation, names []string) words.Reason {
	asked := has(by.Admissions, o.ID) // `homenode run` asks for its command, in whatever cgroup that is
	return Leave(&by.Settings, s.Managers, asked, o, names)
}

// Leave returns why a workload is not homenode's to place: its name cannot be stored, another manager owns it,
// or the configuration leaves it out. asked: a user has asked for its home by `homenode run`.
func Leave(settings *Settings, managers []Manager, asked bool, o *workload.Observation, names []string) words.Reason {
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
		named := namesIt(p, o) || matchesAny(p, names)
		if named || (!asked && inCgroup(p, o)) {
			return words.Because(words.Excluded, p)
		}
	}
	if len(settings.Include) == 0 {
		return words.Reason{}
	}
	includes := func(p string) bool { return Matches(p, o) || matchesAny(p, names) }
	if !slices.ContainsFunc(settings.Include, includes) {
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

// below reports whether a cgroup is one of those named, or below one.
func below(cgroup string, names []string) bool {
	if len(names) == 0 {
		return false
	}
	for part := range strings.SplitSeq(cgroup, "/") {
		if slices.Contains(names, part) {
			return true
		}
	}
	return false
}

// byHand returns why a workload is left where it is: a person named its CPUs.
func byHand(by *Basis, o *workload.Observation) words.Reason {
	a, ok := by.Admissions[o.ID]
	if ok && a.Exact && a.started(o) {
		return words.Because(words.NamedByHand)
	}
	return words.Reason{}
}

// unseen returns why a workload is left alone for now: it does not answer, or no scan has read it yet.
func unseen(o *workload.Observation, trouble *Trouble) words.Reason {
	if trouble != nil && !trouble.Silent.None() {
		return trouble.Silent
	}
	switch {
	case o.Unanswered:
		return o.Unread()
	case o.MemoryUnread:
		return words.Because(words.MemoryNotRead)
	}
	return words.Reason{}
}

// fenced returns why a claimed workload is left alone whose manager lets it have fewer CPUs than the
// policy gives shared work.
func fenced(facts *plan.State, c *workload.Claim) words.Reason {
	h := facts.Host
	if c.Within.Empty() || h == nil {
		return words.Reason{}
	}
	shared := h.Online.Minus(facts.Policy.Barred(h, workload.Shared))
	if !shared.SubsetOf(c.Within) {
		return words.Because(words.Fenced, c.Within, shared)
	}
	return words.Reason{}
}

// aside returns why a process that nobody named gets no home by its size: it may be a command that
// ends in a moment, or a shell. A process of unknown age counts.
func (s *Scene) aside(by *Basis, o *workload.Observation) words.Reason {
	if o.Kind != workload.InProcess || s.Claims[o.ID] != nil || s.Covered[o.ID] != nil {
		return words.Reason{}
	}
	if o.Terminal {
		return words.Because(words.TerminalShell)
	}
	age := s.Snapshot.Age(workload.Process{Start: StartOf(o)})
	if age > 0 && age < by.Settings.MinAge {
		return words.Because(words.TooYoung, by.Settings.MinAge)
	}
	return words.Reason{}
}

// hostCgroups returns the cgroups that preparing the host gave CPUs to, unless that was undone:
// what runs there is the host's.
func hostCgroups(journal Journal) []string {
	var out []string
	all := journal.All()
	for i := range all {
		e := &all[i]
		if e.Workload != hostprep.ID {
			continue
		}
		switch e.Kind {
		case plan.CgroupCPUs:
			out = append(out, e.Path)
		case plan.UnitCPUs:
			out = append(out, hostprep.CgroupOf(e.Path))
		}
	}
	return out
}

// ofHost returns why a workload in one of the host's cgroups is left alone.
func ofHost(id workload.ID, cgroups []string) words.Reason {
	for _, at := range cgroups {
		if string(id) == at || strings.HasPrefix(string(id), at+"/") {
			return words.Because(words.OfHost, at)
		}
	}
	return words.Reason{}
}

// SetByOthers returns why a cgroup is left alone whose CPUs another program chose, by systemd's
// AllowedCPUs= or as the kubelet's static policy does it. A set that homenode changed, on the cgroup
// or above it, is not another program's as long as it reads so.
func (s *Scene) SetByOthers(journal Journal, o *workload.Observation) words.Reason {
	if o.Kind != workload.InCgroup || o.CPUs.Empty() {
		return words.Reason{}
	}
	if s.Snapshot.Host.Allowed.Minus(s.Isolated).SubsetOf(o.CPUs) {
		return words.Reason{}
	}
	own := o.Cgroup
	if !strings.HasPrefix(own, "/") {
		own = "/" + own
	}
	own = path.Clean(own)
	for at := own; ; at = path.Dir(at) {
		e := journal.Of(plan.CgroupCPUs, at)
		if e != nil && (at != own || o.SameCgroup(e.Object)) {
			return words.Reason{}
		}
		if at == "/" {
			return words.Because(words.SetByOthers, o.CPUs)
		}
	}
}
