package scene

import (
	"fmt"
	"slices"

	"github.com/homenode/homenode/core/workload"
)

// first remembers which source claims a workload, a process or a cgroup first.
type first struct {
	sources   []Claimed
	workloads map[workload.ID]int // the index of the source, by workload
	parts     map[string]int      // … by cgroup or process
}

func firstOf(sources []Claimed) first {
	return first{sources: sources, workloads: map[workload.ID]int{}, parts: map[string]int{}}
}

// claim notes what source i claims. When another source has claimed the same workload, cgroup or
// process, claim returns the name of that source and what both claim: one cgroup under two IDs
// would be given two homes, and the original values of one would be lost.
// found is the observations of the claim, taken the source of each.
func (f *first) claim(i int, c *workload.Claim, all []workload.Observation, found []int, taken map[int]int) (
	owner, what string,
) {
	if len(f.sources) < 2 {
		return "", ""
	}
	k, ok := f.workloads[c.ID]
	if ok && k != i {
		return f.sources[k].Source, string(c.ID)
	}
	for _, j := range found {
		k, ok := taken[j]
		if ok && k != i {
			return f.sources[k].Source, string(all[j].ID)
		}
	}
	parts := partsOf(c)
	for _, part := range parts {
		k, ok := f.parts[part]
		if ok && k != i {
			return f.sources[k].Source, part
		}
	}
	f.workloads[c.ID] = i
	for _, part := range parts {
		f.parts[part] = i
	}
	return "", ""
}

// partsOf returns the cgroups and the process that a claim names, also those too small to be observed.
func partsOf(c *workload.Claim) []string {
	if !c.Running || c.Part != nil {
		return nil
	}
	parts := slices.Clone(c.Cgroups)
	if c.Process.PID > 0 {
		parts = append(parts, fmt.Sprintf("PID %d", c.Process.PID))
	}
	return parts
}
