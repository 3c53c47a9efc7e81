package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/homenode/homenode/api"
	"github.com/homenode/homenode/core/plan"
	"github.com/homenode/homenode/core/workload"
	"github.com/homenode/homenode/host/cgroup"
	"github.com/homenode/homenode/host/observe"
	"github.com/homenode/homenode/host/process"
	"github.com/homenode/homenode/host/runs"
	"github.com/homenode/homenode/host/scope"
	"github.com/homenode/homenode/host/scx"
	"github.com/homenode/homenode/ui/cli"
)

// cgroups is the driver of this machine's cgroups.
func cgroups() *cgroup.Driver {
	root := os.DirFS(machine)
	return cgroup.New(cgroup.Options{Mount: cgroupMount(), Root: root, Answers: process.NewMover(process.MoverOptions{Root: root}).Answers})
}

// enterBatch puts this process into a cgroup that runs when nothing else wants the CPU: with
// systemd a scope in scope.BatchSlice, without it one below cgroup.BatchGroup.
func enterBatch(ctx context.Context, s cli.Start, argv []string) error {
	was := observe.LineageOf(observe.Root(machine), os.Getpid()).Cgroup
	var group string
	err := scope.Here(filepath.Join(machine, "run/systemd/system"))
	if err == nil {
		o := scope.Options{Unit: s.Unit, Description: strings.Join(argv, " "), Batch: true}
		if err = keepScope(runs.Scope{Unit: scope.Name(o.Unit), From: was, Batch: true}); err == nil {
			if group, err = scope.Enter(ctx, o); err == nil {
				group = observe.LineageOf(observe.Root(machine), os.Getpid()).Cgroup
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
		return fmt.Errorf("its cgroup %s runs as any other: the cpu controller is not on for it (for a user manager: Delegate=cpu of user@.service)", group)
	}
	return nil
}

func batchGroup(pid int) string { return path.Join(cgroup.BatchGroup, fmt.Sprint(pid)) }

// undoBatch takes living runs of this user out of the cgroups that run last: with systemd
// into a scope beside them, else to where they were. What the kernel's scheduler for batch work
// has of them goes back to the fair class: no journal knows it anywhere else. Workload of the answer is its ID.
func undoBatch(ctx context.Context, which api.Which) (out api.UndoResult) {
	living, err := ownRuns().Living(os.Geteuid())
	if err != nil {
		return out // undoRuns tells
	}
	living = slices.DeleteFunc(living, func(r runs.Run) bool { return r.Scope == nil || !r.Scope.Batch })
	if !which.All {
		unit := path.Base(string(which.ID))
		if i := slices.IndexFunc(living, func(r runs.Run) bool {
			name := path.Base(r.Scope.Unit)
			return name == unit || name == unit+".scope"
		}); i >= 0 {
			living = living[i : i+1]
		} else if living, err = meant(living, which); err != nil {
			return out
		}
		if len(living) == 1 {
			out.Workload = living[0].Placement.Workload
		}
	}
	for _, r := range living {
		e := plan.Entry{Time: time.Now(), Workload: r.Placement.Workload, Kind: plan.ProcessGroup, Path: plan.ProcessPath(r.Process), Old: r.Scope.From, New: r.Scope.Unit, State: plan.Applied}
		now := observe.LineageOf(observe.Root(machine), r.Process.PID).Cgroup
		if path.Base(now) != path.Base(r.Scope.Unit) || !workload.OfRun(now) {
			continue // it is there no more
		}
		inScope := strings.HasSuffix(r.Scope.Unit, ".scope")
		if inScope {
			e.Old = strings.TrimSuffix(r.Scope.Unit, ".scope") + "-online.scope"
		}
		err := error(nil)
		if !which.DryRun {
			pids, _ := cgroups().Processes(now)
			_, err = scx.SwitchBack(ctx, scx.CgroupThreads(filepath.Join(machine, "sys/fs/cgroup", now)))
			switch {
			case err != nil:
			case inScope:
				_, err = scope.Enter(ctx, scope.Options{Unit: e.Old, Description: r.Name, PIDs: pids})
			default:
				err = cgroups().Leave(ctx, now, r.Scope.From)
			}
			if err == nil { // a daemon may have looked in between
				_, err = scx.SwitchBack(ctx, scx.ProcessThreads(pids))
			}
		}
		if err != nil {
			out.Failed = append(out.Failed, api.UndoFailure{Entry: e, Error: err.Error()})
			continue
		}
		e.State = plan.Restored
		out.Restored = append(out.Restored, e)
	}
	if !which.DryRun {
		cgroups().Sweep(ctx)
	}
	return out
}

// sweepBatch removes the cgroups of batch commands that have ended, for as long as a
// daemon of root runs. Those of systemd it removes itself.
func sweepBatch(ctx context.Context) {
	if os.Geteuid() != 0 || !errors.As(scope.Here(filepath.Join(machine, "run/systemd/system")), new(*plan.UnsupportedError)) {
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
