package process

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/homenode/homenode/core/plan"
	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/core/workload"
	"github.com/homenode/homenode/host/internal/numa"
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

	mu sync.Mutex
	// set holds every CPU set given to a process since this driver was made. The
	// journal has the newest only, and a child forked in between has inherited an
	// older one.
	set map[workload.Process][]topology.CPUSet
}

// New returns a driver.
func New(o Options) *Driver {
	if o.Root == nil {
		o.Root = os.DirFS("/")
	}
	if o.Mover == nil {
		o.Mover = NewMover(MoverOptions{Root: o.Root})
	}
	return &Driver{proc: proc{o.Root}, kernel: numa.Kernel{}, mover: o.Mover, set: map[workload.Process][]topology.CPUSet{}}
}

// maxPasses bounds how often all threads are gone through for new ones. A thread
// inherits the affinity of the one that makes it, so that only those are left
// over whose maker had not had its turn: two or three passes do.
const maxPasses = 50

// Settings reads the affinity of every process that Apply(step) would change.
func (d *Driver) Settings(ctx context.Context, step plan.Step) ([]plan.Setting, error) {
	if step.Kind == plan.MovePages {
		return nil, ctx.Err()
	}
	if _, err := wanted(step); err != nil {
		return nil, err
	}
	members, err := d.proc.family(step.Target.Processes)
	if err != nil {
		return nil, err
	}
	var have []plan.Setting
	for _, p := range members {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		a, err := d.affinityOf(p)
		if isGone(err) {
			continue
		}
		if err != nil {
			return nil, err
		}
		kin, err := d.kinOf(p)
		if isGone(err) {
			continue
		}
		if err != nil {
			return nil, err
		}
		have = append(have, plan.Setting{Kind: plan.Affinity, Path: plan.ProcessPath(p), Value: a.String(), Kin: kin.String()})
	}
	if len(have) == 0 {
		return nil, &GoneError{PIDs: pids(members)}
	}
	return have, nil
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
	want, err := wanted(step)
	if err != nil {
		return err
	}
	c := change{Driver: d, old: map[int]topology.CPUSet{}}
	err = c.everywhere(ctx, func() (int, error) {
		members, err := d.proc.family(step.Target.Processes)
		if err != nil {
			return 0, err
		}
		n, live := 0, 0
		for _, p := range members {
			d.remember(p, want)
			changed, err := c.threads(p, func(int) (topology.CPUSet, bool) { return want, true })
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
	if err != nil {
		// Also when all are gone: children changed before may live on.
		return errors.Join(err, c.putBack())
	}
	return nil
}

func (d *Driver) remember(p workload.Process, cpus topology.CPUSet) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if !slices.ContainsFunc(d.set[p], cpus.Equal) {
		d.set[p] = append(d.set[p], cpus)
	}
}

// Present returns nil while the process of the entry exists.
func (d *Driver) Present(entry plan.Entry) error {
	p, err := plan.ParseProcessPath(entry.Path)
	if err != nil {
		return err
	}
	return d.proc.check(p)
}

// Restore puts entry.Old back: on the threads it names, on the main thread, and
// on every thread and later descendant that still has what homenode gave. A
// thread that chose its own CPUs since keeps them.
func (d *Driver) Restore(ctx context.Context, entry plan.Entry) error {
	if entry.Kind != plan.Affinity {
		return fmt.Errorf("process %s: no setting of kind %q", entry.Path, entry.Kind)
	}
	root, err := plan.ParseProcessPath(entry.Path)
	if err != nil {
		return err
	}
	old, err := parseAffinity(entry.Old)
	if err != nil {
		return err
	}
	if err := d.proc.check(root); err != nil {
		return err
	}
	given := d.given(root, append(slices.Clone(entry.Past), entry.New))
	since := d.ticks(entry.Time)
	c := change{Driver: d, old: map[int]topology.CPUSet{}, cut: true}
	err = c.everywhere(ctx, func() (int, error) {
		members, err := d.proc.family([]workload.Process{root})
		if err != nil {
			return 0, err
		}
		n := 0
		for _, p := range members {
			if p != root && p.Start < since {
				continue // it was there when the entry was written and has one of its own
			}
			changed, err := c.threads(p, func(tid int) (topology.CPUSet, bool) {
				if p == root {
					if cpus, ok := old.except[tid]; ok {
						return cpus, true
					}
					if tid == root.PID {
						return old.main, true
					}
				}
				has, err := d.kernel.Affinity(tid)
				return old.main, err == nil && slices.ContainsFunc(given, has.Equal)
			})
			n += changed
			if err != nil && (p == root || !isGone(err)) {
				return n, err
			}
		}
		return n, nil
	})
	if err == nil {
		d.mu.Lock()
		delete(d.set, root)
		d.mu.Unlock()
	}
	return err
}

// given is every CPU set that a thread may have from homenode, by itself or by
// inheritance, as the kernel would give it back now.
func (d *Driver) given(p workload.Process, written []string) []topology.CPUSet {
	d.mu.Lock()
	given := slices.Clone(d.set[p])
	d.mu.Unlock()
	for _, w := range written {
		if a, err := parseAffinity(w); err == nil {
			given = append(given, a.main)
		}
	}
	if online, err := d.proc.online(); err == nil {
		for _, g := range given {
			given = append(given, g.Intersect(online)) // CPUs may have gone offline since
		}
	}
	return given
}

// ticks is a wall-clock time as a start time, some seconds earlier: boot time is
// told in whole seconds and the clock is set now and then. 0 when unknown.
func (d *Driver) ticks(t time.Time) uint64 {
	const slack = 2 * time.Second
	boot, err := d.proc.booted()
	if err != nil || t.IsZero() || t.Before(boot.Add(slack)) {
		return 0
	}
	return uint64(t.Add(-slack).Sub(boot) * userHZ / time.Second)
}

// change sets affinities and knows how they were.
type change struct {
	*Driver
	old   map[int]topology.CPUSet // by thread
	order []setThread
	cut   bool // accept a result that lacks only CPUs that are offline
}

type setThread struct {
	workload.Process
	tid int
}

// everywhere repeats a pass until it finds nothing to change.
func (c *change) everywhere(ctx context.Context, pass func() (int, error)) error {
	for range maxPasses {
		if err := ctx.Err(); err != nil {
			return err
		}
		n, err := pass()
		if err != nil {
			return err
		}
		if n == 0 {
			return nil
		}
	}
	return fmt.Errorf("affinity: threads were still changing after %d passes", maxPasses)
}

// threads sets each thread of p to what want says and reports how many changed.
func (c *change) threads(p workload.Process, want func(tid int) (topology.CPUSet, bool)) (int, error) {
	if err := c.proc.check(p); err != nil {
		return 0, err
	}
	threads, err := c.proc.threads(p.PID)
	if err != nil {
		return 0, err
	}
	n := 0
	for _, tid := range threads {
		cpus, ok := want(tid)
		if !ok {
			continue
		}
		changed, err := c.thread(p, tid, cpus)
		if isGone(err) {
			if c.proc.hasThread(p.PID, tid) {
				n++ // it only looked gone: another pass
			}
			continue
		}
		if err != nil {
			return n, err
		}
		if changed {
			n++
		}
	}
	return n, nil
}

func (c *change) thread(p workload.Process, tid int, want topology.CPUSet) (changed bool, err error) {
	has, err := c.kernel.Affinity(tid)
	if err != nil || c.holds(has, want) {
		return false, err
	}
	if err := c.proc.check(p); err != nil {
		return false, err
	}
	err = c.kernel.SetAffinity(tid, want)
	// The thread may have ended and its ID have gone to a stranger between the
	// listing and the call.
	if !c.proc.hasThread(p.PID, tid) || isGone(c.proc.check(p)) {
		if err == nil {
			c.kernel.SetAffinity(tid, has)
		}
		return false, exited(tid)
	}
	if err == nil {
		if _, seen := c.old[tid]; !seen {
			c.old[tid] = has
			c.order = append(c.order, setThread{p, tid})
		}
		if has, err = c.kernel.Affinity(tid); err != nil {
			return false, err
		}
	}
	if err == nil && c.holds(has, want) {
		return true, nil
	}
	if err != nil && !errors.Is(err, unix.EINVAL) {
		if errors.Is(err, unix.EPERM) {
			err = fmt.Errorf("%w; it belongs to another user, which needs root", err)
		}
		return false, err
	}
	return false, &MismatchError{Thread: tid, Want: want, Have: has, Why: c.whyNot(p, want, has)}
}

func (c *change) holds(has, want topology.CPUSet) bool {
	if has.Equal(want) {
		return true
	}
	if !c.cut {
		return false
	}
	online, err := c.proc.online()
	return err == nil && has.Equal(want.Intersect(online))
}

func (c *change) whyNot(p workload.Process, want, has topology.CPUSet) string {
	missing := want.Minus(has)
	if online, err := c.proc.online(); err == nil {
		if off := missing.Minus(online); !off.Empty() {
			return fmt.Sprintf("CPU %s is offline", off)
		}
	}
	if cgroup, err := c.proc.cgroup(p.PID); err == nil && !missing.Empty() {
		return fmt.Sprintf("its cgroup does not allow CPU %s (%s)", missing, oneLine(cgroup))
	}
	return "someone else may be setting it"
}

// putBack undoes a change that failed half way.
func (c *change) putBack() error {
	var errs []error
	for _, s := range slices.Backward(c.order) {
		err := c.proc.check(s.Process)
		if isGone(err) || err == nil && !c.proc.hasThread(s.PID, s.tid) {
			continue
		}
		if err != nil { // whose the thread is now is not known
			errs = append(errs, fmt.Errorf("put back: %w", err))
			continue
		}
		if err := c.kernel.SetAffinity(s.tid, c.old[s.tid]); err != nil && !isGone(err) {
			errs = append(errs, fmt.Errorf("put back: %w", err))
		}
	}
	return errors.Join(errs...)
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
