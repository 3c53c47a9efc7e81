package main

import (
	"context"
	"os"

	"github.com/homenode/homenode/core/workload"
	"github.com/homenode/homenode/host/numastat"
)

// memoryFigures reads this machine's.
type memoryFigures struct{}

func (memoryFigures) Nodes() (workload.Figures, error) { return numastat.Nodes(os.DirFS(machine)) }

func (memoryFigures) Processes(ctx context.Context, pids []int) (workload.Figures, []workload.Unread) {
	return numastat.Processes(ctx, os.DirFS(machine), pids)
}
