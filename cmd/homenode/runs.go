package main

import (
	"context"
	"errors"
	"os"
	"path/filepath"

	"github.com/homenode/homenode/api"
	"github.com/homenode/homenode/core/control"
	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/core/workload"
	"github.com/homenode/homenode/daemon"
	"github.com/homenode/homenode/host/observe"
	"github.com/homenode/homenode/host/observe/files"
	"github.com/homenode/homenode/host/process"
	"github.com/homenode/homenode/host/runs"
	"github.com/homenode/homenode/host/scope"
)

// systemRuns is the registry of root, which all believe.
const systemRuns = "/run/homenode/runs"

// ownRuns is the registry that this user writes.
func ownRuns() *runs.Registry {
	r := &runs.Registry{Dir: systemRuns, ForAll: true, Boot: bootID(), Processes: process.Live{}}
	if os.Geteuid() == 0 && machine == "/" {
		return r
	}
	r.ForAll = false
	r.Dir = filepath.Join(defaultState(), "runs")
	if dir := os.Getenv("XDG_RUNTIME_DIR"); dir != "" {
		r.Dir = filepath.Join(dir, "homenode", "runs")
	}
	return r
}

// runsHere is what `homenode run` has started on this machine, as this user may believe it.
func runsHere(stateDir string) *runs.Source {
	root := files.Root(machine)
	s := &runs.Source{
		Registry: ownRuns(), User: os.Geteuid(),
		Host: func() (*topology.Host, error) { return keptIn(stateDir).host(root) },
		InUse: func(h *topology.Host, held map[topology.NodeID]topology.KiB) []workload.NodeMemory {
			return observe.InUse(root, h, held)
		},
		Affinity: process.AffinityOf, Resident: process.Resident, Cgroup: cgroupOf,
	}
	if machine != "/" {
		return s
	}
	s.Affinities = process.Affinities
	if s.Dir != systemRuns {
		system := *s.Registry
		system.Dir = systemRuns
		s.System = &system
	}
	return s
}

// keep writes down where a daemon has placed this process; the registry is locked.
func keep(want api.Want, home api.Home) error {
	return runsHere(defaultState()).Keep(daemon.Booked(want, home), true)
}

// keepScope writes down what cgroup a command will be in, and what that is restricted to,
// before it is.
func keepScope(s runs.Scope) error {
	if s.CPUs.Empty() && s.Mems.Empty() && !s.Batch {
		return nil
	}
	p, err := self()
	if err != nil {
		return err
	}
	own := ownRuns()
	unlock, err := own.Lock(false)
	if err != nil {
		return nil // the run is not written down either, which has been told
	}
	defer unlock()
	return own.PutScope(p, s)
}

// undoOwn restores one part of what living runs of this user have set.
func undoOwn(ctx context.Context, which api.Which, s *runs.Source, part runs.Part) (api.UndoResult, error) {
	if !exists(s.Dir) {
		return api.UndoResult{}, nil
	}
	l := &daemon.Local{
		Options: daemon.Options{
			Version: version, BootID: bootID(), Clock: wallClock{}, Lineage: lineage,
			Observer: runs.Observer{Of: s},
			Drivers: map[workload.Kind]daemon.Driver{
				workload.InProcess: process.New(process.Options{Root: os.DirFS("/")}),
				workload.InHost:    scope.Driver{Cgroups: batchCgroups{cgroups()}},
			},
		},
		Who: whoAsks, Own: func() []control.Admission { return s.Own(part) },
	}
	out, err := l.UndoKept(ctx, which, func() (daemon.Kept, error) { return s.Open(part) })
	return out, errors.Join(err, s.Forget(part, control.Which{ID: out.Workload, All: which.All, DryRun: which.DryRun}))
}

// undoScopes restores what living runs of this user have set of cgroups. A run is named by its scope or a PID.
func undoScopes(ctx context.Context, which api.Which) (out api.UndoResult, err error) {
	s := runsHere(defaultState())
	id, ok := s.Named(which.ID)
	if !ok && !which.All {
		return out, nil
	}
	which.ID = id
	if !which.DryRun {
		defer func() { _ = cgroups().Sweep(ctx) }() // of commands that have ended
	}
	return undoOwn(ctx, which, s, runs.Cgroups)
}

// undoRuns gives living runs of this user the CPUs back that they had; with a daemon those that it has not booked.
func undoRuns(ctx context.Context, which api.Which, daemon bool) (api.UndoResult, error) {
	part := runs.Every
	if daemon {
		part = runs.Affinities
	}
	return undoOwn(ctx, which, runsHere(defaultState()), part)
}
