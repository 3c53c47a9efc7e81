package process

import (
	"cmp"
	"context"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"github.com/homenode/homenode/core/plan"
	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/core/workload"
	"github.com/homenode/homenode/host/internal/numa"
	procfs "github.com/homenode/homenode/host/internal/proc"
)

// kernel is the system calls used here, so that tests can put a model in place.
type kernel interface {
	Affinity(tid int) (topology.CPUSet, error)
	SetAffinity(tid int, cpus topology.CPUSet) error
	PageNodes(pid int, pages []uintptr, status []int32) error
	MovePages(pid int, pages []uintptr, nodes, status []int32, all bool) error
	MigratePages(pid int, from, to topology.NodeSet) (int, error)
}

// PageMover moves the pages of a step's processes; *Mover is one.
type PageMover interface {
	Move(ctx context.Context, step plan.Step, progress func(plan.Move)) error
}

// Options says what the driver works with.
type Options struct {
	Root  fs.FS     // the machine's file tree; nil is "/"
	Mover PageMover // for move-pages steps; nil is NewMover with its defaults
}

// Driver carries out steps on process trees that have no cgroup of their own.
type Driver struct {
	proc   proc
	kernel kernel
	mover  PageMover
	now    func() (uint64, error) // clock ticks since boot
}

// New returns a driver.
func New(o Options) *Driver {
	o.Root = cmp.Or(o.Root, os.DirFS("/"))
	if o.Mover == nil {
		o.Mover = NewMover(MoverOptions{Root: o.Root})
	}
	return &Driver{proc: proc{o.Root}, kernel: numa.Kernel{}, mover: o.Mover, now: sinceBoot}
}

// Owns lists the kinds of setting that this driver changes.
func (d *Driver) Owns() []plan.SettingKind { return []plan.SettingKind{plan.Affinity, plan.ThreadCPUs} }

// SurvivesBoot reports whether settings of the kind outlive a restart of the machine:
// processes do not.
func (d *Driver) SurvivesBoot(plan.SettingKind) bool { return false }

// Changes reads the affinity of every process that Apply(step) would change.
func (d *Driver) Changes(ctx context.Context, step plan.Step) ([]plan.Change, error) {
	if step.Kind == plan.MovePages {
		return nil, ctx.Err()
	}
	if step.Kind == plan.DivideThreads {
		return d.divided(ctx, step)
	}
	cpus, err := wanted(step)
	if err != nil {
		return nil, err
	}
	began, err := d.now() // what is made from now on may have inherited
	if err != nil {
		return nil, err
	}
	members, err := d.proc.family(step.Target.Processes)
	if err != nil {
		return nil, err
	}
	var out []plan.Change
	for _, p := range members {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		a, err := d.affinityOf(p)
		var groups groups
		if err == nil {
			groups, err = d.groupsOf(p)
		}
		if isGone(err) {
			continue
		}
		if err != nil {
			return nil, err
		}
		out = append(out, plan.Change{Will: cpus.String(), Setting: plan.Setting{
			Kind: plan.Affinity, Path: plan.ProcessPath(p), Value: a.String(), Groups: groups.String(), Ticks: began}})
	}
	if len(out) == 0 {
		return nil, &GoneError{PIDs: pids(members)}
	}
	return out, nil
}

// Read reads the affinity of an entry's process, which is that of its main thread: the
// value of the entry that it has, but for CPUs that have gone offline since, or what
// somebody else gave it.
func (d *Driver) Read(ctx context.Context, entry plan.Entry) (plan.Setting, error) {
	now := plan.Setting{Kind: entry.Kind, Path: entry.Path}
	if err := ctx.Err(); err != nil {
		return now, err
	}
	if entry.Kind != plan.Affinity && entry.Kind != plan.ThreadCPUs {
		return now, fmt.Errorf("process %s: no setting of kind %q", entry.Path, entry.Kind)
	}
	p, err := plan.ParseProcessPath(entry.Path)
	if err != nil {
		return now, err
	}
	if err := d.proc.check(p); err != nil {
		return now, err
	}
	// each thread is asked for itself: what somebody else gave one of them is left alone
	if entry.Kind == plan.ThreadCPUs {
		now.Value = entry.New
		return now, nil
	}
	has, err := d.kernel.Affinity(p.PID)
	if err != nil {
		return now, err
	}
	online, err := d.proc.online()
	if err != nil {
		return now, err
	}
	now.Value = entry.Known(has.String(), func(value string, _ bool) bool {
		a, err := parseAffinity(value)
		return err == nil && (has.Equal(a.main) || has.Equal(a.main.Intersect(online)))
	})
	return now, d.proc.check(p)
}

// sinceBoot is now in clock ticks since boot, as start times are counted.
func sinceBoot() (uint64, error) {
	var t unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &t); err != nil {
		return 0, fmt.Errorf("read the boot-time clock: %w", err)
	}
	return uint64(t.Nano()) / uint64(time.Second/procfs.TicksPerSecond), nil
}

func (d *Driver) affinityOf(p workload.Process) (affinity, error) {
	a := affinity{except: map[int]topology.CPUSet{}}
	var err error
	if a.main, err = d.kernel.Affinity(p.PID); err != nil {
		return a, err
	}
	threads, err := d.proc.threads(p.PID)
	if err != nil {
		return a, err
	}
	for _, tid := range threads {
		cpus, err := d.kernel.Affinity(tid)
		if isGone(err) {
			continue
		}
		if err != nil {
			return a, err
		}
		if !cpus.Equal(a.main) {
			a.except[tid] = cpus
		}
	}
	return a, d.proc.check(p)
}

// wanted reads a set-cpus step.
func wanted(step plan.Step) (topology.CPUSet, error) {
	var none topology.CPUSet
	if step.Target.Kind != workload.InProcess {
		return none, fmt.Errorf("target of %s is not a process but a %s", step.Workload, step.Target.Kind)
	}
	switch step.Kind {
	case plan.SetCPUs:
	case plan.SetMems:
		return none, errMems
	default:
		return none, fmt.Errorf("%s: no step of kind %q", step.Workload, step.Kind)
	}
	cpus, err := topology.ParseCPUSet(step.To)
	if err != nil {
		return none, fmt.Errorf("%s: %s to %w", step.Workload, step.Kind, err)
	}
	if cpus.Empty() {
		return none, fmt.Errorf("%s: %s to the empty set", step.Workload, step.Kind)
	}
	return cpus, nil
}

// Apply makes the step true and reads back that it is. A step that fails puts
// back what it had changed.
func (d *Driver) Apply(ctx context.Context, step plan.Step, progress func(plan.Move)) error {
	if step.Kind == plan.MovePages {
		return d.mover.Move(ctx, step, progress)
	}
	if step.Kind == plan.DivideThreads {
		return d.divide(ctx, step)
	}
	want, err := wanted(step)
	if err != nil {
		return err
	}
	c := change{Driver: d, old: map[int]topology.CPUSet{}}
	return c.orNothing(ctx, func() (int, error) {
		members, err := d.proc.family(step.Target.Processes)
		if err != nil {
			return 0, err
		}
		n, live := 0, 0
		for _, p := range members {
			changed, err := c.threads(p, func(int, topology.CPUSet) topology.CPUSet { return want })
			n += changed
			if err != nil && !isGone(err) {
				return n, err
			}
			if err == nil {
				live++
			} else if !isGone(d.proc.check(p)) {
				n++ // it only looked gone: another pass
			}
		}
		if live+n == 0 {
			return 0, &GoneError{PIDs: pids(members)}
		}
		return n, nil
	})
}

// Pin gives each thread of a process the CPUs that the value of an Affinity setting says, and
// reads back that it has them; threads that it does not name have those of the first. What
// fails is restored.
func (d *Driver) Pin(ctx context.Context, p workload.Process, value string) error {
	want, err := parseAffinity(value)
	if err != nil {
		return err
	}
	c := change{Driver: d, old: map[int]topology.CPUSet{}}
	return c.orNothing(ctx, func() (int, error) {
		return c.threads(p, func(tid int, _ topology.CPUSet) topology.CPUSet {
			if cpus, own := want.except[tid]; own {
				return cpus
			}
			return want.main
		})
	})
}

// Present returns nil while the process of the entry exists.
func (d *Driver) Present(entry plan.Entry) error {
	p, err := plan.ParseProcessPath(entry.Path)
	if err != nil {
		return err
	}
	return d.proc.check(p)
}

// ticks is a wall-clock time as a start time, some seconds earlier: boot time is
// told in whole seconds and the clock is set now and then. 0 when unknown.
func (d *Driver) ticks(t time.Time) uint64 {
	const slack = 2 * time.Second
	boot, err := d.proc.booted()
	if err != nil || t.IsZero() || t.Before(boot.Add(slack)) {
		return 0
	}
	return uint64(t.Add(-slack).Sub(boot) * procfs.TicksPerSecond / time.Second)
}

func pids(of []workload.Process) []int {
	var ids []int
	for _, p := range of {
		ids = append(ids, p.PID)
	}
	return ids
}

// oneLine folds the text of a /proc file for an error.
func oneLine(s string) string {
	const most = 120
	out := []rune{}
	for _, r := range s {
		if r == '\n' {
			r = ' '
		}
		if len(out) == most {
			return string(out) + "…"
		}
		out = append(out, r)
	}
	return string(slices.Clip(out))
}
