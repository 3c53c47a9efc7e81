package view

import (
	"github.com/homenode/homenode/core/control/concern/gpus"
	"github.com/homenode/homenode/core/control/concern/interrupts"
	"github.com/homenode/homenode/core/control/concern/scheduler"
	"github.com/homenode/homenode/core/control/concern/sharing"
	"github.com/homenode/homenode/core/control/scene"
	"github.com/homenode/homenode/core/place/inside"
	"github.com/homenode/homenode/core/plan"
	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/core/workload"
)

// ConcernViews is the part of a View that concerns show.
type ConcernViews struct {
	Sharing   sharing.View
	Scheduler scheduler.Scheduler
	Devices   interrupts.Devices
	// Divided is the CPU sets that homenode has divided the threads of a workload among, by what the
	// observer calls it.
	Divided map[workload.ID][]topology.CPUSet
	// WorkersBefore is what was measured of workloads before their workers were given the nodes of their GPUs.
	WorkersBefore map[workload.ID]gpus.Measure
	// Cached is the shared work that last-level caches may hold, by what the observer calls it.
	Cached map[workload.ID]bool
	// Tiered is the work whose share of fast memory follows its use, by what the observer calls it.
	Tiered map[workload.ID]bool
}

// ConcernAttention is the part of an Attention that concerns ask for.
type ConcernAttention struct {
	// Divided is the CPU sets that homenode has divided the threads of a workload among.
	Divided map[workload.ID][]topology.CPUSet `json:"divided,omitempty"`
	// Waits has the observer read how long each cgroup waits for CPUs, a file more for each. Watched is the
	// workloads that batch work must not hurt: more is read of them, and their cycles are counted.
	Waits   bool                 `json:"waits,omitempty"`
	Watched map[workload.ID]bool `json:"watched,omitempty"`
	// Cached is the shared work that last-level caches may hold: its waits are read too, its cycles are not.
	Cached map[workload.ID]bool `json:"cached,omitempty"`
	// Tiered is the work of which is read how much of its memory it uses: a walk over its page tables.
	Tiered map[workload.ID]bool `json:"tiered,omitempty"`
}

func (v *View) attend() ConcernAttention {
	out := ConcernAttention{Divided: v.Divided, Tiered: v.Tiered}
	if v.Settings.Share.MaxWait > 0 && v.Sharing.On {
		out.Waits, out.Watched = true, v.Sharing.Watched
	}
	if v.Settings.Policy.Caches == plan.CachesPlace {
		out.Waits, out.Cached = true, v.Cached
	}
	return out
}

// Workers returns the processes of a workload that each have GPUs of one node open.
func (v *View) Workers(id workload.ID) []inside.Worker {
	return scene.WorkersOf(v.Snapshot.Host, v.Links[id])
}
