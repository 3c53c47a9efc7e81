package scene

import (
	"github.com/bmatcuk/doublestar/v4"

	"github.com/homenode/homenode/core/workload"
)

// Matches reports whether a glob pattern fits a workload's ID or its name, or those of the cgroup
// that it runs in: what is said of a cgroup is said of all trees of processes in it.
func Matches(pattern string, o *workload.Observation) bool {
	return namesIt(pattern, o) || inCgroup(pattern, o)
}

// inCgroup reports whether a pattern fits the cgroup that a tree of processes is in.
func inCgroup(pattern string, o *workload.Observation) bool {
	if o.Kind != workload.InProcess || o.Cgroup == "" {
		return false
	}
	return matches(pattern, o.Cgroup) || matches(pattern, workload.UnitName(o.Cgroup))
}

// namesIt reports whether a pattern fits the ID or the name of a workload itself.
func namesIt(pattern string, o *workload.Observation) bool {
	if matches(pattern, string(o.ID)) || matches(pattern, o.Name) {
		return true
	}
	whole, n := workload.PartOf(o.ID) // what is said of a workload is said of its parts
	if n < 0 {
		return false
	}
	name, _ := workload.PartOf(workload.ID(o.Name))
	return matches(pattern, string(whole)) || matches(pattern, string(name))
}

// matches reports whether a pattern fits. Most do not, which the first bytes show.
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

// RuleOf returns the first rule that fits a workload, or nil.
func RuleOf(rules []workload.Rule, o *workload.Observation) *workload.Rule {
	for i := range rules {
		if Matches(rules[i].Match, o) {
			return &rules[i]
		}
	}
	return nil
}

// Names reports whether a rule makes a cgroup batch work, or gives it another tier than normal or a latency goal:
// it then counts however small it is.
func Names(rules []workload.Rule, cgroup, name string) bool {
	r := RuleOf(rules, &workload.Observation{ID: workload.ID(cgroup), Name: name})
	if r == nil {
		return false
	}
	tiered := r.Tier != "" && r.Tier != workload.Normal
	return r.Class == workload.Batch || tiered || len(r.Goals) > 0
}
