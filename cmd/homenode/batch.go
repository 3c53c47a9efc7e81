package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"strings"
	"time"

	"github.com/homenode/homenode/core/plan"
	"github.com/homenode/homenode/host/cgroup"
	"github.com/homenode/homenode/host/observe"
	"github.com/homenode/homenode/host/observe/files"
	"github.com/homenode/homenode/host/process"
	"github.com/homenode/homenode/host/runs"
	"github.com/homenode/homenode/host/scope"
	"github.com/homenode/homenode/host/scx"
	"github.com/homenode/homenode/ui/cli"
)

// cgroups is the driver of this machine's cgroups.
func cgroups() *cgroup.Driver {
	root := os.DirFS(machine)
	return cgroup.New(cgroup.Options{Mount: cgroupMount(), Root: root,
		Answers: process.NewMover(process.MoverOptions{Root: root}).Answers})
}

// enterBatch puts this process into a cgroup that runs when nothing else wants the CPU: with
// systemd a scope in scope.BatchSlice, without it one below cgroup.BatchGroup.
func enterBatch(ctx context.Context, s cli.Start, argv []string) error {
	was := observe.LineageOf(files.Root(machine), os.Getpid()).Cgroup
	var group string
	err := scope.Here(filepath.Join(machine, "run/systemd/system"))
	if err == nil {
		o := scope.Options{Unit: s.Unit, Description: strings.Join(argv, " "), Batch: true}
		if err = keepScope(runs.Scope{Unit: scope.Name(o.Unit), From: was, Batch: true}); err == nil {
			if group, err = scope.Enter(ctx, o); err == nil {
				group = observe.LineageOf(files.Root(machine), os.Getpid()).Cgroup
			}
		}
	} else if err = keepScope(runs.Scope{Unit: batchGroup(os.Getpid()), From: was, Batch: true}); err == nil {
		cgroups().Sweep(ctx)
		group, err = cgroups().Enter(ctx, os.Getpid())
	}
	switch {
	case err != nil:
		return fmt.Errorf("it has no cgroup of its own and runs as batch work by its affinity alone: %w", err)
	case !cgroups().RunsLast(group):
		return fmt.Errorf("its cgroup %s runs as any other: the cpu controller is not on for it (for a user manager: "+
			"Delegate=cpu of user@.service)", group)
	}
	return nil
}

func batchGroup(pid int) string { return path.Join(cgroup.BatchGroup, fmt.Sprint(pid)) }

// batchCgroups is the cgroups of commands for the driver that restores them.
type batchCgroups struct{ *cgroup.Driver }

func (batchCgroups) Of(pid int) string { return cgroupOf(pid) }

func (batchCgroups) Fair(ctx context.Context, group string, pids []int) error {
	_, err := scx.SwitchBack(ctx, scx.ProcessThreads(pids))
	if group != "" {
		_, more := scx.SwitchBack(ctx, scx.CgroupThreads(filepath.Join(cgroupMount(), group)))
		err = errors.Join(err, more)
	}
	return err
}

func (batchCgroups) FreeNodes(ctx context.Context, unit string, pid int) error {
	return freeNodes(ctx, unit, pid)
}

// sweepBatch removes the cgroups of batch commands that have ended, for as long as a
// daemon of root runs. Those of systemd it removes itself.
func sweepBatch(ctx context.Context) {
	if os.Geteuid() != 0 || !errors.As(scope.Here(filepath.Join(machine, "run/systemd/system")),
		new(*plan.UnsupportedError)) {
		return
	}
	for tick := time.NewTicker(30 * time.Second); ; {
		cgroups().Sweep(ctx)
		select {
		case <-ctx.Done():
			tick.Stop()
			return
		case <-tick.C:
		}
	}
}
