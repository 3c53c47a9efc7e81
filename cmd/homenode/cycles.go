package main

import (
	"path/filepath"

	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/host/cycles"
	"github.com/homenode/homenode/host/observe/files"
	"github.com/homenode/homenode/ui/trial"
)

// countCycles opens counters of what this machine's CPUs do for some cgroups, or for all.
func countCycles(cgroups []string) (trial.CycleCounter, error) {
	h, err := topology.FromSysfs(files.Root(machine))
	if err != nil {
		return nil, err
	}
	var dirs []string
	for _, cgroup := range cgroups {
		dirs = append(dirs, filepath.Join(machine, "sys/fs/cgroup", cgroup))
	}
	c, err := cycles.Open(dirs, h.Online)
	if err != nil {
		return nil, err
	}
	return counted{c}, nil
}

// counted gives counts as a trial reads them.
type counted struct{ *cycles.Counters }

func (c counted) Read() (cycles, instructions, stalled, stalledOf float64, err error) {
	n, err := c.Counters.Read()
	return n.Cycles, n.Instructions, n.Stalled, n.StalledOf, err
}
