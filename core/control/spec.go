package control

import (
	"cmp"
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/bmatcuk/doublestar/v4"

	"github.com/homenode/homenode/core/balance"
	"github.com/homenode/homenode/core/hostprep"
	"github.com/homenode/homenode/core/place"
	"github.com/homenode/homenode/core/plan"
	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/core/words"
	"github.com/homenode/homenode/core/workload"
)

// Matches reports whether a glob pattern fits a workload's ID or its name, or those of the cgroup
// that it runs in: what is said of a cgroup is said of all trees of processes in it.
func Matches(pattern string, o *workload.Observation) bool {
	return namesIt(pattern, o) || inCgroup(pattern, o)
}

// inCgroup reports whether a pattern fits the cgroup that a tree of processes is in.
func inCgroup(pattern string, o *workload.Observation) bool {
	return o.Kind == workload.InProcess && o.Cgroup != "" && (matches(pattern, o.Cgroup) || matches(pattern, workload.UnitName(o.Cgroup)))
}

// namesIt reports whether a pattern fits the ID or the name of a workload itself.
func namesIt(pattern string, o *workload.Observation) bool {
	if matches(pattern, string(o.ID)) || matches(pattern, o.Name) {
		return true
	}
	whole, n := workload.PartOf(o.ID) // what is said of a workload is said of its parts
	name, _ := workload.PartOf(workload.ID(o.Name))
	return n >= 0 && (matches(pattern, string(whole)) || matches(pattern, string(name)))
}

// matches sees at what a pattern begins with, mostly, that it does not fit.
func matches(pattern, s string) bool {
	for i := range len(pattern) {
		switch c := pattern[i]; {
		case c == '*' || c == '?' || c == '[' || c == '{' || c == '\\':
			return doublestar.MatchUnvalidated(pattern, s)
		case i < len(s) && s[i] == c:
		case c != '/' || i < len(s): // a/** fits a
			return false
		}
	}
	return doublestar.MatchUnvalidated(pattern, s)
}

// rule is the first rule that fits, or nil.
func (s *Settings) rule(o *workload.Observation) *workload.Rule {
	for i := range s.Rules {
		if Matches(s.Rules[i].Match, o) {
			return &s.Rules[i]
		}
	}
	return nil
}

// Names reports whether a rule says of a cgroup that it is batch work, or gives it another tier than
// normal: it then counts however small it is.
func (s *Settings) Names(cgroup, name string) bool {
	r := s.rule(&workload.Observation{ID: workload.ID(cgroup), Name: name})
	return r != nil && (r.Class == workload.Batch || r.Tier != "" && r.Tier != workload.Normal)
}

// SpecOf is what is wished for a workload.
func (s *State) SpecOf(o *workload.Observation) workload.Spec {
	spec := s.specOf(o)
	s.locate(spec.Near, o.Responsible())
	return spec
}

func (s *State) specOf(o *workload.Observation) workload.Spec {
	rule := s.Settings.rule(o)
	spec := s.toldSpec(o, rule)
	s.weighted(&spec, o, rule)
	return spec
}

// toldSpec is SpecOf without what is recognised.
func (s *State) toldSpec(o *workload.Observation, rule *workload.Rule) workload.Spec {
	if c := s.Claims[o.ID]; c != nil && c.Spec != nil {
		return s.claimedSpec(o, c, rule)
	}
	spec := place.SpecFrom(*o)
	given := false
	if workload.OfRun(o.Cgroup) { // also when it was started while no daemon answered
		spec.Class, spec.Tier = workload.Batch, workload.BatchTier
	}
	if rule != nil {
		r := *rule
		if spec.Given = namesIt(r.Match, o); !spec.Given {
			r.CPUs, r.Memory = 0, 0 // those of the whole cgroup
		}
		r.Apply(&spec)
		given = r.NearGiven
	}
	if a, ok := s.Admissions[o.ID]; ok && a.Process.Start == startOf(o) {
		spec = a.spec(spec)
		given = len(a.Spec.Near) > 0
	}
	if !given {
		s.addLearned(&spec, o)
	}
	return spec
}

// claimedSpec is what is wished for a workload that its source knows. What has a manager of
// its own has from it what it is; how much it matters and what it is near to is for
// homenode to say.
func (s *State) claimedSpec(o *workload.Observation, c *workload.Claim, rule *workload.Rule) workload.Spec {
	spec := *c.Spec
	spec.Near = slices.Clone(spec.Near)
	if has(s.Beyond, o.ID) {
		withoutOwn(&spec, &c.Asked)
	}
	if spec.CPUs == 0 || spec.Memory == 0 {
		seen := place.SpecFrom(*o)
		spec.CPUs, spec.Memory = cmp.Or(spec.CPUs, seen.CPUs), cmp.Or(spec.Memory, seen.Memory)
	}
	if c.Ruled {
		if len(spec.Near) == 0 {
			s.addLearned(&spec, o)
		}
		return spec
	}
	if rule != nil {
		r := *rule
		if c.Driver != "" {
			r.Class, r.CPUs, r.Memory, r.SMT = "", 0, 0, ""
		}
		r.Apply(&spec)
	}
	if rule == nil || !rule.NearGiven {
		s.addLearned(&spec, o)
	}
	return spec
}

// unfollowed is what a rule asks of a claimed workload in vain.
func (s *State) unfollowed(o *workload.Observation) []workload.Problem {
	c, r := s.Claims[o.ID], s.Settings.rule(o)
	if r == nil || c == nil || c.Spec == nil || c.Driver == "" {
		return nil
	}
	var asks []string
	if r.Class != "" && r.Class != c.Spec.Class && r.Tier != workload.BatchTier {
		asks = append(asks, "class "+string(r.Class))
	}
	if r.CPUs > 0 && r.CPUs != c.Spec.CPUs {
		asks = append(asks, fmt.Sprintf("%d CPUs", r.CPUs))
	}
	if r.Memory > 0 && r.Memory != c.Spec.Memory {
		asks = append(asks, words.Size(r.Memory)+" of memory")
	}
	if r.SMT != "" && r.SMT != c.Spec.SMT {
		asks = append(asks, "smt "+string(r.SMT))
	}
	if asks == nil {
		return nil
	}
	return []workload.Problem{{Subject: string(o.ID), Text: words.Because(words.RuleUnfollowed, r.Match, strings.Join(asks, ", ")).String()}}
}

// spec is what an admission asked for, over what was derived.
func (a *Admission) spec(derived workload.Spec) workload.Spec {
	spec, asked := derived, &a.Spec
	spec.Name, spec.Class, spec.CPUs, spec.Given = asked.Name, asked.Class, asked.CPUs, true
	if asked.Memory > 0 {
		spec.Memory = asked.Memory
	}
	if asked.HugePage > 0 {
		spec.HugePage = asked.HugePage
	}
	if asked.SMT != "" {
		spec.SMT = asked.SMT
	}
	if asked.Tier != "" {
		spec.Tier = asked.Tier
	}
	spec.Near = slices.Clone(asked.Near)
	return spec
}

// addLearned adds what was learned to wishes that name nothing.
func (s *State) addLearned(spec *workload.Spec, o *workload.Observation) {
	id, _ := workload.PartOf(o.ID) // a part has the links of the whole
	for i, l := range s.Links[id] {
		near, counts := place.Learned(o, &l.Link, place.Weighs(o, l.Rate, VhostUse(s.Links[id], i)))
		if !counts {
			continue
		}
		if l.Helper.PID > 0 {
			near.Workload = s.Helpers[processKey(l.Helper)]
			if at := s.observation(near.Workload); at != nil && !workload.MayServe(at.Responsible(), o.Responsible()) {
				continue
			}
		}
		if near.Workload != o.ID && near.Workload != id && !s.Following[near.Workload].Follows {
			spec.Near = append(spec.Near, near)
		}
	}
	spec.Near = append(spec.Near, s.Following[o.ID].To...)
}

// subjects pairs each observation with what is wished for it. Of one that has not changed
// since they were made last, nor anything else they were made of, it is the same: most have
// not.
func (s *State) subjects(all []workload.Observation) []*place.Subject {
	beyond := s.beyondCeiling(all)
	before := s.made
	if before.journal != s.Journal.shape || !before.allowed.Equal(s.Snapshot.Host.Allowed) {
		before = made{hosts: s.hostCgroups()}
	}
	now := made{
		hosts:   before.hosts,
		checked: before.checked, reads: make([]bool, len(all)),
		journal: s.Journal.shape, allowed: s.Snapshot.Host.Allowed,
		observed: all, subjects: make([]*place.Subject, len(all)), alike: make([]bool, len(all)),
	}
	k := 0
	for i := range all {
		o := &all[i]
		for k < len(before.observed) && before.observed[k].ID < o.ID {
			k++
		}
		now.alike[i] = !s.special(o.ID) && !has(beyond, o.ID)
		if now.alike[i] && k < len(before.observed) && before.alike[k] && before.observed[k].Same(o) {
			now.subjects[i], now.reads[i] = before.subjects[k], before.reads[k]
			continue
		}
		now.subjects[i] = s.subject(o, now.hosts, beyond[o.ID])
		now.alike[i] = now.alike[i] && now.subjects[i].Aside.Code != words.TooYoung && !workload.NamesOthers(now.subjects[i].Spec.Near) // it grows older; they come and go
	}
	s.made = now
	return now.subjects
}

// made is the subjects as they were made last, and of what.
type made struct {
	journal  uint64   // Journal.shape
	hosts    []string // see hostCgroups
	allowed  topology.CPUSet
	observed []workload.Observation
	subjects []*place.Subject
	alike    []bool // each was made of nothing but its observation, the rules and the above
	reads    []bool // its setting reads as it should, see checkSettings, as long as Journal.changes is checked
	checked  uint64
}

// special reports whether more is known of a workload than its observation shows.
func (s *State) special(id workload.ID) bool {
	return s.Claims[id] != nil || s.Covered[id] != nil || len(s.Links[id]) > 0 || s.Following[id].Follows || s.Loads[id].Importance > 0 || has(s.Admissions, id) || has(s.Overwrites, id) || has(s.Silent, id)
}

func has[V any](m map[workload.ID]V, id workload.ID) bool { _, ok := m[id]; return ok }

func (s *State) subject(o *workload.Observation, hosts []string, beyond words.Reason) *place.Subject {
	c := s.Claims[o.ID]
	subject := place.Subject{Spec: s.SpecOf(o), Observation: balance.Round(*o), Alone: s.leave(o, c.Names())}
	if c = cmp.Or(c, s.Covered[o.ID]); c != nil {
		subject.Fixed, subject.Booked = c.Fixed, c.Booked
		subject.Crowd = c.Crowd && subject.Spec.Class == workload.Shared
		if subject.Alone.None() {
			subject.Alone = c.Alone
		}
		if subject.Alone.None() {
			subject.Alone = s.fenced(c)
		}
	}
	if a, ok := s.Admissions[o.ID]; ok && a.Process.Start == startOf(o) {
		subject.Crowd = a.Process.PID > 0 && subject.Spec.Class == workload.Shared // as when it was started
	}
	if subject.Alone.None() {
		subject.Alone = s.exactly(o)
	}
	if subject.Alone.None() {
		subject.Alone = ofHost(o.ID, hosts)
	}
	if subject.Alone.None() {
		subject.Alone = s.setByOthers(o)
	}
	if subject.Alone.None() {
		// What it holds stays its own until it can be seen again.
		subject.Alone = s.unseen(o)
		subject.Fixed = subject.Fixed || !subject.Alone.None()
	}
	if subject.Alone.None() {
		subject.Alone = beyond
	}
	subject.Aside = s.aside(o)
	return &subject
}

// fenced is why a claimed workload is left alone whose manager lets it have fewer CPUs than the
// policy gives shared work.
func (s *State) fenced(c *workload.Claim) words.Reason {
	h := s.Facts.Host
	if c.Within.Empty() || h == nil {
		return words.Reason{}
	}
	if shared := h.Online.Minus(s.Facts.Policy.Barred(h, workload.Shared)); !shared.SubsetOf(c.Within) {
		return words.Because(words.Fenced, c.Within, shared)
	}
	return words.Reason{}
}

// aside is why a process that nobody named gets no home by what it asks for: it may be a
// command that ends in a moment, or a shell. One whose age is not known counts.
func (s *State) aside(o *workload.Observation) words.Reason {
	if o.Kind != workload.InProcess || s.Claims[o.ID] != nil || s.Covered[o.ID] != nil {
		return words.Reason{}
	}
	if o.Terminal {
		return words.Because(words.TerminalShell)
	}
	if age := s.Snapshot.Age(workload.Process{Start: startOf(o)}); age > 0 && age < s.Settings.MinAge {
		return words.Because(words.TooYoung, s.Settings.MinAge)
	}
	return words.Reason{}
}

// unseen is why a workload is left alone for now: it does not answer, or has not been
// looked at yet.
func (s *State) unseen(o *workload.Observation) words.Reason {
	if q := s.Silent[o.ID]; s.silentNow(o.ID) { // it is tried again after that
		return q.why()
	}
	switch {
	case o.Unanswered:
		return o.Unread()
	case o.MemoryUnread:
		return words.Because(words.MemoryNotRead)
	}
	return words.Reason{}
}

// below reports whether a cgroup is one of those named, or below one.
func below(cgroup string, names []string) bool {
	for part := range strings.SplitSeq(cgroup, "/") {
		if slices.Contains(names, part) {
			return true
		}
	}
	return false
}

// hostCgroups is the cgroups that preparing the host gave CPUs to and that were not
// undone: what runs there is the host's.
func (s *State) hostCgroups() []string {
	var out []string
	all := s.Journal.All()
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

func ofHost(id workload.ID, cgroups []string) words.Reason {
	for _, at := range cgroups {
		if string(id) == at || strings.HasPrefix(string(id), at+"/") {
			return words.Because(words.OfHost, at)
		}
	}
	return words.Reason{}
}

// setByOthers is why a cgroup is left alone whose CPUs somebody else chose, by systemd's
// AllowedCPUs= or as the kubelet's static policy does it. A set that homenode changed, on
// the cgroup or above it, is not somebody else's as long as it reads so (see foreign).
func (s *State) setByOthers(o *workload.Observation) words.Reason {
	if w, ok := s.Overwrites[o.ID]; ok && w.Count >= mostOverwrites && s.At.Sub(w.Last) < giveInFor {
		return words.Because(words.GivenIn, w.Count, giveInFor)
	}
	if o.Kind != workload.InCgroup || o.CPUs.Empty() || s.Snapshot.Host.Allowed.SubsetOf(o.CPUs) {
		return words.Reason{}
	}
	own := o.Cgroup
	if !strings.HasPrefix(own, "/") {
		own = "/" + own
	}
	own = path.Clean(own)
	for at := own; ; at = path.Dir(at) {
		if e := s.Journal.Of(plan.CgroupCPUs, at); e != nil && (at != own || sameCgroup(e, o)) {
			return words.Reason{}
		}
		if at == "/" {
			return words.Because(words.SetByOthers, o.CPUs)
		}
	}
}

// startOf tells one process workload from a later one with the same PID; 0 for a
// cgroup, which keeps its home when its service is started again.
func startOf(o *workload.Observation) uint64 {
	if o.Kind != workload.InProcess || len(o.Processes) == 0 {
		return 0
	}
	for _, p := range o.Processes {
		if isProcess(o.ID, p.PID) {
			return p.Start
		}
	}
	return o.Processes[0].Start
}

// startsOf is startOf each.
func startsOf(all []workload.Observation) []uint64 {
	out := make([]uint64, len(all))
	for i := range all {
		out[i] = startOf(&all[i])
	}
	return out
}
