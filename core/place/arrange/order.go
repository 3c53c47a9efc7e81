package arrange

import (
	"cmp"
	"math"
	"slices"

	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/core/workload"
)

// key is what the order of placing goes by: dedicated before shared before batch, then the
// more important, then the larger, then by ID.
type key struct {
	class, importance, cpus int32
	at                      int32 // among the subjects
	memory                  topology.KiB
}

func (a *arrangement) key(i int) key {
	x := &a.subjects[i].Spec
	return key{int32(slices.Index(workload.Classes, x.Class)), narrow(x.Importance), narrow(x.CPUs), int32(i), x.Memory}
}

func (x key) compare(y key) int {
	switch {
	case x.class != y.class:
		return int(x.class - y.class)
	case x.importance != y.importance:
		return cmp.Compare(y.importance, x.importance)
	case x.cpus != y.cpus:
		return cmp.Compare(y.cpus, x.cpus)
	case x.memory > y.memory:
		return -1
	case x.memory < y.memory:
		return 1
	}
	return int(x.at - y.at)
}

// sort puts the subjects in the order in which they choose. Those that can stay as they are
// stand by ID between two of the others: which of them comes first counts only where there
// is no room for all (see keepGroup), or where something is to be done for them: then
// all are sorted.
func (a *arrangement) sort(all bool) {
	var others []key
	for i := range a.subjects {
		if all || !a.subjects[i].asBefore.stays {
			others = append(others, a.key(i))
		}
	}
	slices.SortFunc(others, key.compare)
	a.order = make([]*subject, len(a.subjects))
	a.groups = make([]int, len(others)+1)
	before := func(i int) int {
		if len(others) == 0 {
			return 0
		}
		g, _ := slices.BinarySearchFunc(others, a.key(i), key.compare)
		return g
	}
	for i := range a.subjects {
		if s := &a.subjects[i]; !all && s.asBefore.stays {
			s.asBefore.group = int32(before(i))
			a.groups[s.asBefore.group]++
		}
	}
	at := 0
	for g, n := range a.groups {
		a.groups[g] = at
		if at += n; g < len(others) {
			a.order[at] = &a.subjects[others[g].at]
			at++
		}
	}
	for i := range a.subjects {
		if s := &a.subjects[i]; !all && s.asBefore.stays {
			a.order[a.groups[s.asBefore.group]] = s
			a.groups[s.asBefore.group]++
		}
	}
}

// narrow is n, or the nearest that 32 bits hold.
func narrow(n int) int32 { return int32(min(max(n, math.MinInt32), math.MaxInt32)) }
