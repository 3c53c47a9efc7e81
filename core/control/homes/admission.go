package homes

import (
	"cmp"
	"encoding/json"
	"maps"
	"slices"

	"github.com/homenode/homenode/core/control/scene"
	"github.com/homenode/homenode/core/workload"
)

// Admission is a home that was given to a workload before its start.
type Admission = scene.Admission

// Admitted is the admissions as they are saved: all at one time, which never change, and
// those since. A copy of it costs no copy of them.
type Admitted struct {
	all   map[workload.ID]Admission
	since []admittedOne
}

type admittedOne struct {
	id workload.ID
	Admission
}

// MarshalJSON writes all of them, by ID.
func (a Admitted) MarshalJSON() ([]byte, error) {
	return json.Marshal(a.All())
}

// All returns all of them, by ID.
func (a *Admitted) All() map[workload.ID]Admission {
	if len(a.since) == 0 {
		return a.all
	}
	all := cloned(a.all)
	for _, x := range a.since {
		all[x.id] = x.Admission
	}
	return all
}

// with adds one. Only the newest may be asked, once. It reports false when a list of all is
// cheaper.
func (a *Admitted) with(id workload.ID, one Admission) bool {
	if len(a.since) >= len(a.all) {
		return false
	}
	a.since = append(a.since, admittedOne{id, one})
	return true
}

func cloned[K comparable, V any](m map[K]V) map[K]V {
	if m == nil {
		return map[K]V{}
	}
	return maps.Clone(m)
}

func sortedKeys[K cmp.Ordered, V any](m map[K]V) []K { return slices.Sorted(maps.Keys(m)) }
