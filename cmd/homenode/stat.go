package main

import (
	"context"
	"os"

	"github.com/homenode/homenode/core/control"
	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/core/workload"
	"github.com/homenode/homenode/host/numastat"
	"github.com/homenode/homenode/host/process"
)

// memoryFigures reads this machine's.
type memoryFigures struct{}

func (memoryFigures) Nodes() (workload.Figures, error) { return numastat.Nodes(os.DirFS(machine)) }

func (memoryFigures) Processes(ctx context.Context, pids []int) (workload.Figures, []workload.Unread) {
	return numastat.Processes(ctx, os.DirFS(machine), pids)
}

// processNow is a process of this machine, and the machine.
func processNow(ctx context.Context, pid int) (*topology.Host, workload.Observation, error) {
	o := workload.Observation{ID: control.ProcessID(pid), Kind: workload.InProcess}
	h, err := topology.FromSysfs(os.DirFS(machine))
	if err != nil {
		return nil, o, err
	}
	p, err := process.Identify(pid)
	if err != nil {
		return nil, o, err
	}
	o.Processes = []workload.Process{p}
	if o.CPUs, err = process.AffinityOf(pid); err != nil {
		return nil, o, err
	}
	f, _ := numastat.Processes(ctx, os.DirFS(machine), []int{pid}) // what cannot be read, the move will say
	for _, r := range f.Rows {
		if r.Name != numastat.Total {
			continue
		}
		for i, kib := range r.ByNode {
			o.Memory = append(o.Memory, workload.NodeMemory{Node: f.Nodes[i], KiB: topology.KiB(kib)})
		}
	}
	return h, o, nil
}
