package view

import (
	"cmp"
	"context"
	"maps"
	"slices"

	"github.com/homenode/homenode/core/control/homes"
	"github.com/homenode/homenode/core/control/scene"
	"github.com/homenode/homenode/core/control/settings"
	"github.com/homenode/homenode/core/control/work"
	"github.com/homenode/homenode/core/place"
	"github.com/homenode/homenode/core/plan"
	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/core/words"
	"github.com/homenode/homenode/core/workload"
)

// Attention is what a scan depends on besides the host: the settings that homenode has made, so that the
// observer does not take them for those of another program, and the workloads that it reads more closely. It is
// recorded with the scan. Nothing in it changes once it is made.
type Attention struct {
	// Given is the affinity of each process that homenode or `homenode run` has set, Writing those that are
	// being written: threads may have one or another of them.
	Given   map[workload.ID]topology.CPUSet   `json:"given,omitempty"`
	Writing map[workload.ID][]topology.CPUSet `json:"writing,omitempty"`
	// Wide is the workloads whose home has several nodes: their threads are read one by one.
	Wide map[workload.ID]bool `json:"wide,omitempty"`
	// Registered is the processes that are workloads of their own however small they are, and whatever
	// cgroup they are in, for as long as they live.
	Registered []workload.Process `json:"registered,omitempty"`

	ConcernAttention

	// Homes, Journal, Holds and Held are for sources. They are not recorded: the state before the scan has
	// them. Held is the homes of work that no scan has seen.
	Homes   []workload.Placement     `json:"-"`
	Journal []plan.Entry             `json:"-"`
	Holds   work.Holds               `json:"-"`
	Held    map[workload.ID]Reserved `json:"-"`

	settings *settings.Settings // for Leaves
	managers []scene.Manager
}

// Reserved is a home of work that no scan has seen.
type Reserved struct {
	workload.Placement
	Owner workload.Owner // party that is responsible for the work
}

// reserved returns the homes of work that no scan has seen.
func (v *View) reserved() map[workload.ID]Reserved {
	out := map[workload.ID]Reserved{}
	for id, a := range v.unseen {
		out[id] = Reserved{a.Placement, a.From.Owner}
	}
	return out
}

// Standing is a daemon as its sources see it.
type Standing interface {
	// Attention returns the current one.
	Attention() Attention
	// Admit finds a home for work that a source is about to start. The daemon keeps the home until a scan
	// sees the work, but no longer than homes.PlaceRequest.Hold.
	Admit(context.Context, homes.PlaceRequest) (workload.Placement, error)
}

// Attention returns what the next scan depends on.
func (v *View) Attention() Attention {
	return Attention{
		Given: v.Given, Writing: v.Writing, Wide: v.Wide.IDs,
		Registered:       v.Registered(),
		ConcernAttention: v.attend(),
		Homes:            v.Plan.Placements,
		Journal:          v.Journal,
		Holds:            v.Holds,
		Held:             v.reserved(),
		settings:         v.Settings,
		managers:         v.Managers,
	}
}

// Leaves returns why work that is about to start is not homenode's to place.
func (a *Attention) Leaves(spec *workload.Spec, names []string) words.Reason {
	if a.settings == nil { // there is no daemon
		return words.Reason{}
	}
	of := a.settings.Scene()
	return scene.Leave(&of, a.managers, false, &workload.Observation{ID: spec.ID, Name: spec.Name}, names)
}

// Expected returns the affinities that threads of a workload may have from homenode, the current one first.
func (a *Attention) Expected(id workload.ID) []topology.CPUSet {
	cpus, ok := a.Given[id]
	if !ok {
		return a.Writing[id]
	}
	return append([]topology.CPUSet{cpus}, a.Writing[id]...)
}

// Home returns the home of a workload that a scan has seen.
func (a *Attention) Home(id workload.ID) (workload.Placement, bool) {
	found := place.Of(a.Homes, id)
	if found == nil {
		return workload.Placement{}, false
	}
	return *found, true
}

// Registered returns the root processes of the commands that `homenode run` placed, and helpers.
func (v *View) Registered() []workload.Process {
	var out []workload.Process
	for p, id := range v.Helpers {
		if id == "" || id == scene.ProcessID(p.PID) { // it may be too small to be seen otherwise
			out = append(out, workload.Process(p))
		}
	}
	slices.SortFunc(out, func(a, b workload.Process) int { return cmp.Compare(a.PID, b.PID) })
	admitted := v.Admitted.All()
	for _, id := range slices.Sorted(maps.Keys(admitted)) {
		if p := admitted[id].Process; p.PID > 0 {
			out = append(out, p)
		}
	}
	return out
}
