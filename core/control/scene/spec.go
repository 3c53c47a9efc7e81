package scene

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/homenode/homenode/core/place/demand"
	"github.com/homenode/homenode/core/place/nearness"
	"github.com/homenode/homenode/core/words"
	"github.com/homenode/homenode/core/workload"
)

// SpecOf returns what is wanted for a workload.
func (s *Scene) SpecOf(by *Basis, o *workload.Observation) workload.Spec {
	rule := RuleOf(by.Settings.Rules, o)
	spec := s.orderedSpec(by, o, rule)
	if by.Settings.Weighs {
		s.weigh(&spec, o, rule)
	}
	s.byGPUs(by, &spec, o)
	s.Locate(spec.Near, o.Responsible())
	return spec
}

// orderedSpec returns what is wanted for a workload, without its kind of load.
func (s *Scene) orderedSpec(by *Basis, o *workload.Observation, rule *workload.Rule) workload.Spec {
	c := s.Claims[o.ID]
	if c != nil && c.Spec != nil {
		return s.claimedSpec(o, c, rule)
	}
	spec := demand.SpecFrom(*o)
	given := false
	if workload.OfRun(o.Cgroup) { // also when it was started while no daemon answered
		spec.Class, spec.Tier = workload.Batch, workload.BatchTier
	}
	if rule != nil {
		r := *rule
		spec.Given = namesIt(r.Match, o)
		if !spec.Given {
			r.CPUs, r.Memory = 0, 0 // those of the whole cgroup
		}
		_, user := o.Responsible().User()
		byName := !strings.HasPrefix(r.Match, "/")
		if byName && user { // both take from others, and a user chooses names
			r.Goals = nil
			r.Isolated = false
		}
		r.Apply(&spec)
		given = r.NearGiven
	}
	a, admitted := by.Admissions[o.ID]
	if admitted && a.started(o) {
		spec = a.over(spec)
		given = len(a.Spec.Near) > 0
	}
	if !given {
		s.addLearned(&spec, o)
	}
	return spec
}

// claimedSpec returns what is wanted for a workload that its source knows. The manager of a workload
// says what it is; homenode says how much it matters, and what it is near to.
func (s *Scene) claimedSpec(o *workload.Observation, c *workload.Claim, rule *workload.Rule) workload.Spec {
	spec := *c.Spec
	spec.Near = slices.Clone(spec.Near)
	if has(s.Beyond, o.ID) {
		WithoutOwn(&spec, &c.Asked)
	}
	if spec.CPUs == 0 || spec.Memory == 0 {
		seen := demand.SpecFrom(*o)
		spec.CPUs = cmp.Or(spec.CPUs, seen.CPUs)
		spec.Memory = cmp.Or(spec.Memory, seen.Memory)
	}
	if c.Ruled {
		named := slices.ContainsFunc(spec.Near, func(n workload.Near) bool { return !n.Learned })
		if !named { // GPUs that its runtime gives it are learned, too
			s.addLearned(&spec, o)
		}
		return spec
	}
	if rule != nil {
		r := *rule
		if c.Driver != "" {
			r.Class, r.SMT = "", ""
			r.CPUs, r.Memory = 0, 0
		}
		r.Apply(&spec)
	}
	if rule == nil || !rule.NearGiven {
		s.addLearned(&spec, o)
	}
	return spec
}

// Unfollowed returns as problems what rules ask of claimed workloads in vain.
func (s *Scene) Unfollowed(rules []workload.Rule) (out []workload.Problem) {
	if len(s.Claims) == 0 {
		return nil
	}
	for i := range s.Snapshot.Observations {
		o := &s.Snapshot.Observations[i]
		c := s.Claims[o.ID]
		if c == nil || c.Spec == nil || c.Driver == "" {
			continue
		}
		r := RuleOf(rules, o)
		if r == nil {
			continue
		}
		asks := unfollowed(r, c.Spec)
		if asks != nil {
			why := words.Because(words.RuleUnfollowed, r.Match, strings.Join(asks, ", "))
			out = append(out, workload.Problem{Subject: string(o.ID), Text: why.String()})
		}
	}
	return out
}

// unfollowed returns what a rule asks that differs from what the manager of a workload says.
func unfollowed(r *workload.Rule, spec *workload.Spec) (asks []string) {
	if r.Class != "" && r.Class != spec.Class && r.Tier != workload.BatchTier {
		asks = append(asks, "class "+string(r.Class))
	}
	if r.CPUs > 0 && r.CPUs != spec.CPUs {
		asks = append(asks, fmt.Sprintf("%d CPUs", r.CPUs))
	}
	if r.Memory > 0 && r.Memory != spec.Memory {
		asks = append(asks, words.Size(r.Memory)+" of memory")
	}
	if r.SMT != "" && r.SMT != spec.SMT {
		asks = append(asks, "smt "+string(r.SMT))
	}
	return asks
}

// over returns what an admission asked for, over what was derived.
func (a *Admission) over(derived workload.Spec) workload.Spec {
	spec, asked := derived, &a.Spec
	spec.Name, spec.Class = asked.Name, asked.Class
	spec.CPUs, spec.Given = asked.CPUs, true
	if asked.Memory > 0 {
		spec.Memory = asked.Memory
	}
	if asked.HugePage > 0 {
		spec.HugePage = asked.HugePage
	}
	spec.SMT = cmp.Or(asked.SMT, spec.SMT)
	spec.Tier = cmp.Or(asked.Tier, spec.Tier)
	if len(asked.Goals) > 0 {
		spec.Goals = asked.Goals
	}
	spec.Near = slices.Clone(asked.Near)
	return spec
}

// addLearned adds the links of a workload, and the workload that it follows, to a spec that names
// nothing.
func (s *Scene) addLearned(spec *workload.Spec, o *workload.Observation) {
	id, _ := workload.PartOf(o.ID) // a part has the links of the whole
	links := s.Links[id]
	for i := range links {
		l := &links[i]
		near, counts := nearness.Learned(o, &l.Link, nearness.Weighs(o, l.Rate, VhostUse(links, i)))
		if !counts {
			continue
		}
		if l.Helper.PID > 0 {
			near.Workload = s.Helpers[ProcessKey(l.Helper)]
			at := s.Observation(near.Workload)
			if at != nil && !workload.MayServe(at.Responsible(), o.Responsible()) {
				continue
			}
		}
		itself := near.Workload == o.ID || near.Workload == id
		if !itself && !s.Following[near.Workload].Follows {
			spec.Near = append(spec.Near, near)
		}
	}
	spec.Near = append(spec.Near, s.Following[o.ID].To...)
}
