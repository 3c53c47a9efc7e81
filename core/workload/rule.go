package workload

import "cmp"

import "github.com/homenode/homenode/core/topology"

// Rule gives wishes to the workloads that match. What is zero says nothing.
type Rule struct {
	Match      string       `json:"match"` // glob pattern on workload ID or name; ** crosses slashes
	Class      Class        `json:"class,omitempty"`
	Tier       Tier         `json:"tier,omitempty"`
	Importance *int         `json:"importance,omitempty"` // 0 to 100
	CPUs       int          `json:"cpus,omitempty"`       // 0: from what it uses
	Memory     topology.KiB `json:"memory,omitempty"`     // 0: from what it holds
	SMT        SMTPolicy    `json:"smt,omitempty"`
	Isolated   bool         `json:"isolated,omitempty"`   // with class dedicated
	Near       []string     `json:"near,omitempty"`       // what ParseNear reads
	NearGiven  bool         `json:"near_given,omitempty"` // Near stands instead of what is learned, also when empty
	Goals      []Goal       `json:"slo,omitempty"`
}

// Apply puts what a rule says over what was derived. Whether that is Given is for the caller to
// say.
func (r *Rule) Apply(spec *Spec) {
	spec.Class = cmp.Or(r.Class, spec.Class)
	spec.Tier = cmp.Or(r.Tier, spec.Tier)
	if r.Importance != nil {
		spec.Importance = *r.Importance
	}
	if r.CPUs > 0 {
		spec.CPUs = r.CPUs
	}
	if r.Memory > 0 {
		spec.Memory = r.Memory
	}
	spec.SMT = cmp.Or(r.SMT, spec.SMT)
	spec.Isolated = spec.Isolated || r.Isolated
	if len(r.Goals) > 0 {
		spec.Goals = r.Goals
	}
	for _, text := range r.Near {
		near, _ := ParseNear(text) // config has checked it
		spec.Near = append(spec.Near, near...)
	}
}

// Vouch notes the wishes that a rule makes as the operator's.
func (r *Rule) Vouch(asked *Asked) {
	for _, x := range []struct {
		said bool
		word *Word
	}{
		{r.Class != "", &asked.Class}, {r.Tier != "", &asked.Tier}, {r.Importance != nil, &asked.Importance},
		{r.CPUs > 0, &asked.CPUs}, {r.Memory > 0, &asked.Memory}, {len(r.Near) > 0, &asked.Near},
	} {
		if x.said {
			*x.word = Operator
		}
	}
}
