package cli

import (
	"fmt"

	"github.com/homenode/homenode/api"
	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/core/words"
	"github.com/homenode/homenode/ui/view"
)

// PaintState colours a state by what it asks of the reader.
func PaintState(p view.Paint, state string) string {
	switch state {
	case api.StateAtHome:
		return p.Good(state)
	case api.StateLeftAlone, api.StateHeld:
		return p.Dim(state)
	}
	return p.Warn(state)
}

// StateOf is the state of a workload, with how far a page move is.
func StateOf(w api.Workload) string {
	if m := w.Move; w.State == api.StateMoving && m != nil && m.Planned > 0 {
		return fmt.Sprintf("%s %d %%", w.State, min(100, m.Moved*100/m.Planned))
	}
	return w.State
}

func KiB(n int64) string {
	if n < 0 {
		return "?"
	}
	return words.Size(n)
}

// What is worth a look, each a share of the whole.
const (
	fewLocal = 0.8  // of the memory accesses stay on the node
	mostBusy = 0.9  // of the CPUs of a node are busy
	LowFree  = 0.05 // of the memory of a node is free: about where the kernel begins to reclaim
)

// PaintLocal is a locality, marked where much of the memory is remote.
func PaintLocal(p view.Paint, share *float64) string {
	if share != nil && *share < fewLocal {
		return p.Warn(Percent(share))
	}
	return Percent(share)
}

// PaintBusy is how many CPUs of a node are busy, marked where most are.
func PaintBusy(p view.Paint, n api.Node) string {
	if cpus, err := topology.ParseCPUSet(n.CPUs); err == nil && n.CPUUse != nil && *n.CPUUse > mostBusy*float64(cpus.Len()) {
		return p.Warn(busyCPUs(n.CPUUse))
	}
	return busyCPUs(n.CPUUse)
}

// PaintFree is the free memory of a node, marked where it is little.
func PaintFree(p view.Paint, n api.Node) string {
	if n.MemoryKiB > 0 && n.FreeKiB >= 0 && float64(n.FreeKiB) < LowFree*float64(n.MemoryKiB) {
		return p.Warn(KiB(n.FreeKiB))
	}
	return KiB(n.FreeKiB)
}
