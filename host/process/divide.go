package process

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"

	"github.com/homenode/homenode/core/plan"
	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/core/workload"
	procfs "github.com/homenode/homenode/host/internal/proc"
)

// division is a divide-threads step as it is read.
type division struct {
	workload.Process
	ours []topology.CPUSet       // what homenode has given and gives: a thread that has another set is somebody else's
	all  topology.CPUSet         // what all of it may use: a thread that may use no less has chosen nothing
	want map[int]topology.CPUSet // by thread
}

func divisionOf(step plan.Step) (division, error) {
	v := division{want: map[int]topology.CPUSet{}}
	if step.Target.Kind != workload.InProcess || len(step.Target.Processes) != 1 {
		return v, fmt.Errorf("%s: %s is about the threads of one process", step.Workload, step.Kind)
	}
	v.Process = step.Target.Processes[0]
	to, err := plan.ParseSets(step.To)
	if err != nil {
		return v, fmt.Errorf("%s: %s to %w", step.Workload, step.Kind, err)
	}
	for _, cpus := range to {
		v.all = v.all.Union(cpus)
	}
	if v.ours = to; step.From != "" {
		from, err := plan.ParseSets(step.From)
		if err != nil {
			return v, fmt.Errorf("%s: %s from %w", step.Workload, step.Kind, err)
		}
		v.ours = append(v.ours, from...)
	}
	for _, t := range step.Threads {
		if t.CPUs.Empty() || t.TID <= 0 {
			return v, fmt.Errorf("%s: %s: thread %d to CPUs %q", step.Workload, step.Kind, t.TID, t.CPUs)
		}
		v.want[t.TID] = t.CPUs
	}
	return v, nil
}

// divided is the setting that a divide-threads step changes. Its value before the first is what
// the threads may use that nobody has pinned, and what others of those that are divided had; a
// later one tells that of threads that have come since.
func (d *Driver) divided(ctx context.Context, step plan.Step) ([]plan.Change, error) {
	v, err := divisionOf(step)
	if err != nil {
		return nil, err
	}
	began, err := d.now()
	if err != nil {
		return nil, err
	}
	if err := errors.Join(d.proc.check(v.Process), ctx.Err()); err != nil {
		return nil, err
	}
	value, later := step.From, ""
	if before, err := d.undivided(v, step.From == ""); err != nil {
		return nil, err
	} else if step.From == "" {
		value = before.String()
	} else {
		_, threads, _ := strings.Cut(before.String(), ";")
		if threads != "" {
			later = ";" + threads
		}
	}
	groups, err := d.groupsOf(v.Process)
	if err != nil {
		return nil, err
	}
	return []plan.Change{{Will: step.To, Threads: later, Setting: plan.Setting{
		Kind: plan.ThreadCPUs, Path: plan.ProcessPath(v.Process), Value: value, Groups: groups.String(),
		Ticks: began}}}, nil
}

// undivided is the CPUs of a process before its threads are divided, the first time or again. Where
// that is all that its cgroup has, nobody has set an affinity, and it is those of PID 1, as of
// everything that nobody has pinned: the cgroup may have more CPUs later, and the kernel gives a
// thread no more than it was set to (user_cpus_ptr, kernel/sched/core.c).
func (d *Driver) undivided(v division, first bool) (a affinity, err error) {
	a.except = map[int]topology.CPUSet{}
	if a.main, err = d.kernel.Affinity(v.PID); err != nil {
		return a, err
	}
	if !first || !v.divides(a.main) { // the main thread has CPUs of its own
		a.main = v.all
	}
	cgroup, err := d.cgroupCPUs(v.PID)
	if err != nil {
		return a, err
	}
	var nobodys topology.CPUSet
	if first && cgroup.SubsetOf(a.main) {
		all, err := d.kernel.Affinity(1)
		if err != nil {
			return a, err
		}
		a.main, nobodys = a.main.Union(all), cgroup
	}
	threads, err := d.proc.threads(v.PID)
	if err != nil {
		return a, err
	}
	for _, tid := range threads {
		if _, ok := v.want[tid]; !ok {
			continue
		}
		has, err := d.kernel.Affinity(tid)
		if isGone(err) {
			continue
		}
		if err != nil {
			return a, err
		}
		if v.divides(has) && !has.Equal(a.main) && !has.Equal(nobodys) {
			a.except[tid] = has
		}
	}
	return a, nil
}

// divides reports whether a thread that has so many CPUs is divided for the first time: homenode
// has not given them, and they are no fewer than all.
func (v *division) divides(has topology.CPUSet) bool {
	return v.all.SubsetOf(has) && !slices.ContainsFunc(v.ours, has.Equal)
}

// cgroupCPUs is the CPUs that the cgroup of a process has, the nearest one that says so; all
// that run where none does.
func (d *Driver) cgroupCPUs(pid int) (topology.CPUSet, error) {
	text, err := d.proc.read(pid, "cgroup")
	if err != nil {
		return topology.CPUSet{}, err
	}
	for dir := procfs.Cgroup(text); dir != ""; dir = path.Dir(dir) {
		text, err := fs.ReadFile(d.proc.root, path.Join("sys/fs/cgroup", dir, "cpuset.cpus.effective"))
		if err == nil {
			return topology.ParseCPUSet(strings.TrimSpace(string(text)))
		}
		if dir == "/" || dir == "." {
			break
		}
	}
	return d.proc.online()
}

// divide gives threads their CPUs. One that has others than homenode gave, or has ended, is
// passed over; one that was born since has what the thread has that made it.
func (d *Driver) divide(ctx context.Context, step plan.Step) error {
	v, err := divisionOf(step)
	if err != nil {
		return err
	}
	c := change{Driver: d, old: map[int]topology.CPUSet{}}
	return c.orNothing(ctx, func() (int, error) {
		return c.threads(v.Process, func(tid int, has topology.CPUSet) topology.CPUSet {
			want, ok := v.want[tid]
			if !ok || (!slices.ContainsFunc(v.ours, has.Equal) && !v.divides(has)) {
				return has
			}
			return want
		})
	})
}
