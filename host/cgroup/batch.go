package cgroup

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/homenode/homenode/core/plan"
	"github.com/homenode/homenode/core/workload"
	"github.com/homenode/homenode/host/internal/kernfile"
)

// BatchGroup is the cgroup below which `homenode run` puts batch work where systemd does
// not run. All of it together runs when nothing else on the machine wants the CPU.
const BatchGroup = "/" + workload.BatchGroup

// groups are those below which there may be batch work: BatchGroup, and what it was called before.
var groups = []string{BatchGroup, "/" + workload.BatchGroupBefore}

// turnedOn is what BatchGroup is marked with when the cpu controller was turned on for it:
// who removes it turns the controller off again.
const turnedOn = "user.homenode.cpu"

// tries is how often a cgroup is made anew that another command removes as empty meanwhile.
const tries = 5

// Enter puts a process into a cgroup of its own below BatchGroup. Kernels before 5.15, which
// have no cpu.idle, give BatchGroup the least cpu.weight.
func (d *Driver) Enter(ctx context.Context, pid int) (cgroup string, err error) {
	if err := d.present("/", cpus); err != nil {
		return "", err
	}
	cgroup = path.Join(BatchGroup, strconv.Itoa(pid))
	for range tries {
		if err = d.makeBatch(ctx); err == nil {
			if err = d.files.make(cgroup); err == nil || errors.Is(err, fs.ErrExist) {
				err = d.files.write(cgroup, "cgroup.procs", strconv.Itoa(pid)+"\n")
			}
		}
		if err == nil {
			return cgroup, nil
		}
		if !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, unix.ENODEV) {
			break
		}
	}
	d.Sweep(ctx)
	return "", fmt.Errorf("cgroup %s: %v", cgroup, err)
}

// makeBatch makes BatchGroup where it is not there, and has it run last.
func (d *Driver) makeBatch(ctx context.Context) error {
	if err := d.files.make(BatchGroup); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	off, err := d.off(BatchGroup, cpus)
	if err != nil {
		return err
	}
	if len(off) > 0 { // on disk before it is done, as long as the thing itself
		if err := d.files.mark(BatchGroup, turnedOn); err != nil {
			return err
		}
	}
	step := plan.Step{Kind: plan.SetCgroup, To: "1", Target: plan.Target{Kind: workload.InCgroup, Cgroup: BatchGroup,
		File: string(plan.CgroupIdle)}}
	err = d.Apply(ctx, step, nil)
	if errors.As(err, new(*plan.UnsupportedError)) {
		step.Target.File = string(plan.CgroupWeight)
		err = d.Apply(ctx, step, nil)
	}
	return err
}

// Sweep removes what is empty below BatchGroup, then that itself.
func (d *Driver) Sweep(ctx context.Context) (err error) {
	for _, group := range groups {
		err = errors.Join(err, d.sweep(group))
	}
	return err
}

func (d *Driver) sweep(group string) error {
	below, err := d.files.children(group)
	if err != nil {
		if errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ENODEV) || errors.As(err, new(*MountError)) {
			return nil
		}
		return err
	}
	for _, c := range below {
		d.files.remove(c) // EBUSY: it has processes
	}
	on := d.files.marked(group, turnedOn)
	if err := d.files.remove(group); err != nil || !on {
		return nil
	}
	if err := d.restoreControllers("/", cpus.off(), cpus); err != nil && !errors.Is(err, plan.ErrInUse) {
		return err
	}
	return nil
}

// RunsLast reports whether a cgroup, or one above it, has cpu.idle or the least cpu.weight.
func (d *Driver) RunsLast(cgroup string) bool {
	for _, c := range append(ancestors(cgroup), cgroup) {
		idle, _ := d.files.read(c, string(plan.CgroupIdle))
		weight, _ := d.files.read(c, string(plan.CgroupWeight))
		if idle == "1" || weight == "1" {
			return true
		}
	}
	return false
}

// Processes is the PIDs of what is in a cgroup.
func (d *Driver) Processes(cgroup string) (pids []int, err error) {
	text, err := d.files.read(cgroup, "cgroup.procs")
	if err != nil {
		return nil, d.lost(cgroup, err)
	}
	for _, f := range strings.Fields(text) {
		if pid, err := strconv.Atoi(f); err == nil && pid > 0 {
			pids = append(pids, pid)
		}
	}
	return pids, nil
}

// Leave moves what is in a cgroup of Enter to where it was before, or to the root where that is
// gone or takes no processes, and removes the cgroup.
func (d *Driver) Leave(ctx context.Context, cgroup, to string) error {
	if !slices.Contains(groups, path.Dir(cgroup)) {
		return fmt.Errorf("cgroup %s: homenode has not made it", cgroup)
	}
	for { // what forks meanwhile is there at the next look
		pids, err := d.Processes(cgroup)
		switch {
		case kernfile.Gone(err): // who sweeps found it empty first
			return d.Sweep(ctx)
		case err != nil:
			return err
		}
		if len(pids) == 0 || ctx.Err() != nil {
			break
		}
		for _, n := range pids {
			pid := strconv.Itoa(n)
			err := fs.ErrNotExist
			if held := d.holdsLock(cgroup, n); held != nil {
				return held
			}
			if checkPath(to) == nil {
				err = d.files.write(to, "cgroup.procs", pid+"\n")
			}
			if err != nil && !errors.Is(err, unix.ESRCH) {
				err = d.files.write("/", "cgroup.procs", pid+"\n")
			}
			if err != nil && !errors.Is(err, unix.ESRCH) {
				return d.refused(cgroup, "cgroup.procs", pid, err)
			}
		}
	}
	return errors.Join(ctx.Err(), d.Sweep(ctx))
}
