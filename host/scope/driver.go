package scope

import (
	"context"
	"errors"
	"fmt"
	"path"
	"strings"

	"github.com/homenode/homenode/core/plan"
	"github.com/homenode/homenode/core/workload"
)

// Cgroups is what a Driver needs of cgroups and of the kernel's scheduler.
type Cgroups interface {
	// Of returns the cgroup of a process, "" when that is not known.
	Of(pid int) string
	// Processes returns the PIDs of what is in a cgroup.
	Processes(cgroup string) ([]int, error)
	// Leave moves what is in a cgroup of batch work to where it was before.
	Leave(ctx context.Context, cgroup, to string) error
	// Fair gives the threads of a cgroup and of processes back to the fair class.
	Fair(ctx context.Context, cgroup string, pids []int) error
	// FreeNodes gives a scope, which a process runs in, all memory nodes.
	FreeNodes(ctx context.Context, unit string, pid int) error
}

// Driver restores what `homenode run` set of cgroups: restrictions of scopes, and the cgroup that batch work was
// put into. `homenode run` sets them itself, before it becomes the command.
type Driver struct{ Cgroups }

// Owns implements plan.Driver.
func (Driver) Owns() []plan.SettingKind {
	return []plan.SettingKind{plan.UnitCPUs, plan.UnitMems, plan.ProcessGroup}
}

// SurvivesBoot implements plan.Driver: a scope ends with its processes.
func (Driver) SurvivesBoot(plan.SettingKind) bool { return false }

var errSetByRun = errors.New("`homenode run` alone sets this")

// Changes implements plan.Driver.
func (Driver) Changes(context.Context, plan.Step) ([]plan.Change, error) { return nil, errSetByRun }

// Apply implements plan.Driver.
func (Driver) Apply(context.Context, plan.Step, func(plan.Move)) error { return errSetByRun }

// Present implements plan.Driver.
func (d Driver) Present(e plan.Entry) error {
	_, err := d.Read(context.Background(), e)
	return err
}

// Read implements plan.Driver.
func (d Driver) Read(ctx context.Context, e plan.Entry) (plan.Setting, error) {
	now := plan.Setting{Kind: e.Kind, Path: e.Path}
	if e.Kind == plan.ProcessGroup {
		group, err := d.group(e)
		if now.Value = group; path.Base(group) == path.Base(e.New) && workload.OfRun(group) {
			now.Value = e.New
		}
		return now, err
	}
	cpus, mems, err := Read(ctx, e.Path)
	if now.Value = cpus.String(); e.Kind == plan.UnitMems {
		now.Value = mems.String()
	}
	return now, err
}

// group returns the cgroup of the process that an entry is about.
func (d Driver) group(e plan.Entry) (string, error) {
	p, err := plan.ParseProcessPath(e.Path)
	if err != nil {
		return "", err
	}
	return d.Of(p.PID), nil
}

// Restore implements plan.Driver.
func (d Driver) Restore(ctx context.Context, entries []plan.Entry) []error {
	errs := make([]error, len(entries))
	for i := range entries {
		e := &entries[i]
		switch e.Kind {
		case plan.ProcessGroup:
			errs[i] = d.leave(ctx, e)
		case plan.UnitMems:
			errs[i] = d.freeNodes(ctx, e)
		default:
			errs[i] = Free(ctx, e.Path, e.Kind)
		}
	}
	return errs
}

func (d Driver) freeNodes(ctx context.Context, e *plan.Entry) error {
	pid, ok := workload.PIDOf(string(e.Workload))
	if !ok {
		return fmt.Errorf("%s of %s: %q is no process", e.Kind, e.Path, e.Workload)
	}
	err := d.FreeNodes(ctx, e.Path, pid)
	if err != nil {
		return err
	}
	return Free(ctx, e.Path, e.Kind)
}

// leave takes a command out of the cgroup that runs last: out of a scope into one beside it, else to the cgroup
// where it was. The scheduler for batch work loses its threads; no other journal knows of it.
func (d Driver) leave(ctx context.Context, e *plan.Entry) error {
	group, err := d.group(*e)
	if err != nil {
		return err
	}
	pids, err := d.Processes(group)
	if err != nil {
		return err
	}
	err = d.Fair(ctx, group, nil)
	if err != nil {
		return err
	}
	if strings.HasSuffix(e.Old, ".scope") {
		_, err = Enter(ctx, Options{Unit: e.Old, Description: string(e.Workload), PIDs: pids})
	} else {
		err = d.Leave(ctx, group, e.Old)
	}
	if err != nil {
		return err
	}
	return d.Fair(ctx, "", pids) // a daemon may have scanned in between
}
