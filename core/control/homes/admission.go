package homes

import (
	"cmp"
	"encoding/json"
	"maps"
	"slices"
	"time"

	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/core/workload"
)

// Admission is a home that was given to work before a scan has seen it.
type Admission struct {
	Spec      workload.Spec      `json:"spec"`
	Process   workload.Process   `json:"process,omitzero"` // its root; without one it holds until Until
	From      workload.Origin    `json:"from,omitzero"`    // the party that asked
	Had       topology.CPUSet    `json:"had,omitzero"`     // CPUs that Process could use before; empty: unknown, or restored
	Placement workload.Placement `json:"placement"`
	Until     time.Time          `json:"until,omitzero"`
	Scan      uint64             `json:"scan,omitempty"`  // the newest that had begun: later ones must see it
	Exact     bool               `json:"exact,omitempty"` // a person named the place: it is in no plan, and left there
}

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

// Of returns one of them.
func (a *Admitted) Of(id workload.ID) (Admission, bool) {
	for i := range slices.Backward(a.since) {
		if a.since[i].id == id {
			return a.since[i].Admission, true
		}
	}
	one, ok := a.all[id]
	return one, ok
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
