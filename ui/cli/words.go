package cli

import (
	"fmt"

	"github.com/homenode/homenode/api"
	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/core/words"
	"github.com/homenode/homenode/ui/view"
)

// paintState colours a state by what it asks of the reader.
func paintState(p view.Paint, state string) string {
	switch state {
	case api.StateAtHome:
		return p.Good(state)
	case api.StateLeftAlone, api.StateHeld:
		return p.Dim(state)
	}
	return p.Warn(state)
}

// stateOf is the state of a workload, with how far a page move is.
func stateOf(w api.Workload) string {
	if m := w.Move; w.State == api.StateMoving && m != nil && m.Planned > 0 {
		return fmt.Sprintf("%s %d %%", w.State, min(100, m.Moved*100/m.Planned))
	}
	return w.State
}

func kib(n int64) string {
	if n < 0 {
		return "?"
	}
	return words.Size(n)
}

// What is worth a look, each a share of the whole.
const (
	fewLocal = 0.8  // of the memory accesses stay on the node
	mostBusy = 0.9  // of the CPUs of a node are busy
	lowFree  = 0.05 // of the memory of a node is free: about where the kernel begins to reclaim
)

// paintLocal is a locality, marked where much of the memory is remote.
func paintLocal(p view.Paint, share *float64) string {
	if share != nil && *share < fewLocal {
		return p.Warn(percent(share))
	}
	return percent(share)
}

// paintBusy is how many CPUs of a node are busy, marked where most are.
func paintBusy(p view.Paint, n api.Node) string {
	if cpus, err := topology.ParseCPUSet(n.CPUs); err == nil && n.CPUUse != nil && *n.CPUUse > mostBusy*float64(cpus.Len()) {
		return p.Warn(busyCPUs(n.CPUUse))
	}
	return busyCPUs(n.CPUUse)
}

// paintFree is the free memory of a node, marked where it is little.
func paintFree(p view.Paint, n api.Node) string {
	if n.MemoryKiB > 0 && n.FreeKiB >= 0 && float64(n.FreeKiB) < lowFree*float64(n.MemoryKiB) {
		return p.Warn(kib(n.FreeKiB))
	}
	return kib(n.FreeKiB)
}
