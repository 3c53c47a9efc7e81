package scx

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/homenode/homenode/core/plan"
	"github.com/homenode/homenode/core/share"
	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/core/words"
	"github.com/homenode/homenode/core/workload"
)

// DriverOptions says where a Driver works.
type DriverOptions struct {
	Root   string // the machine; "" is "/"
	Folder string // keeps the objects that were loaded, for going back to one
	Pins   string // in bpffs, begins the name of each scheduler's folder; "" is DefaultPin
	Host   func() (*topology.Host, error)
}

// Driver carries out what core/control decides: it is a driver, and a scheduler, of the daemon.
// A version is the start of the SHA-256 of an object; the folder that a scheduler is pinned in
// has it in its name, so that a later daemon knows what it adopts.
type Driver struct {
	o    DriverOptions
	load func(context.Context, Options) (*Scheduler, error)

	mu      sync.Mutex
	support Support
	asked   time.Time // when support was asked
	runs    *Scheduler
	version string // of runs
	under   string // name of another scheduler that lets this one run below it; "" none
	before  string // version that ran before: there must be one to go back to
	told    *share.SchedulerConfig
	gap     time.Duration
	untold  map[uint64]share.SchedulerEnd // ends of sub-schedulers to report, by the cgroup's ID
	listed  map[string][]listedThread     // by cgroup: threads with a policy of their own that were read last

	relief  Relief
	relieve sync.Once
	cgroups atomic.Pointer[[]string] // of batch work
}

// NewDriver returns a driver. It touches nothing yet.
func NewDriver(o DriverOptions) *Driver {
	if o.Root == "" {
		o.Root = "/"
	}
	if o.Pins == "" {
		o.Pins = DefaultPin
	}
	d := &Driver{o: o, load: Load, listed: map[string][]listedThread{}}
	d.cgroups.Store(new([]string))
	return d
}

// askAgain is how long what Probe said holds where it said no: reading the kernel's types takes
// some 100 ms.
const askAgain = time.Minute

// supported is what Probe says, asked as seldom as it may have changed.
func (d *Driver) supported() Support {
	if d.support.Generation == "" && time.Since(d.asked) >= askAgain {
		d.support, d.asked = probe(os.DirFS(d.o.Root)), time.Now()
	}
	return d.support
}

// unable is a refusal in the words of status.
func unable(s Support) words.Reason {
	switch s.Kind {
	case Supported, Other:
		return words.Reason{}
	case NoSchedExt:
		return words.Because(words.SchedulerNoKernel)
	case NoBTF:
		return words.Because(words.SchedulerNoBTF)
	case NoCapability:
		return words.Because(words.SchedulerNoCapability)
	case NoBPFFS:
		return words.Because(words.SchedulerNoBPFFS, "/sys/fs/bpf", "/sys/fs/bpf")
	}
	return words.Because(words.SchedulerRefused, s.Why)
}

// Versions.

// What runs.

// now is the version that runs, adopted where an earlier daemon has loaded it; "" when none
// does. What is left of one that the kernel ended stays in d.runs until another is loaded.
func (d *Driver) now() string {
	if d.runs != nil && d.runs.enabled() {
		return d.version
	}
	for _, version := range d.pinned() {
		if d.runs != nil && version == d.version {
			continue
		}
		s, err := Adopt(d.pin(version))
		if err != nil {
			continue
		}
		if d.runs != nil && !s.enabled() {
			s.Close()
			continue
		}
		if d.runs != nil {
			d.runs.Close()
		}
		d.runs = s
		d.version = version
		d.told = nil
		d.equip()
	}
	if d.runs != nil && d.runs.enabled() {
		return d.version
	}
	return ""
}

// adopt finds what an earlier daemon left: it may have given cgroups sub-schedulers.
func (d *Driver) adopt() {
	if d.runs == nil {
		d.now()
	}
}

// Look tells the scheduler what holds now, and says how it is.
func (d *Driver) Look(ctx context.Context, orders share.SchedulerOrders) (share.SchedulerSeen, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	support := d.supported()
	seen := share.SchedulerSeen{Unable: unable(support), Generation: support.Generation, Gap: d.gap, Tiers: maxCgroups}
	if !seen.Unable.None() {
		return seen, nil
	}
	state, name, err := State(os.DirFS(d.o.Root))
	if err != nil {
		return seen, fmt.Errorf("read /sys/kernel/sched_ext: %w", err)
	}
	d.under = ""
	if name != Name && state == "enabled" && support.Below && takesSubs(os.DirFS(d.o.Root)) {
		d.under = name
	}
	seen.Under = d.under
	if b := d.embedded(); b != nil {
		seen.Newest = versionOf(b)
	}
	seen.Loaded = d.now()
	// Again: it may have begun to end since.
	if state, name, err = State(os.DirFS(d.o.Root)); err != nil {
		return seen, fmt.Errorf("read /sys/kernel/sched_ext: %w", err)
	}
	if seen.Loaded == "" && d.runs != nil && state == "disabling" && name == Name {
		// Why is told last, before the name goes (scx_disable_workfn, kernel/sched/ext.c).
		seen.Loaded = d.version
		return seen, nil
	}
	if seen.Loaded == "" {
		orders.Cgroups = nil
	}
	d.cgroups.Store(&orders.Cgroups)
	if seen.Loaded == "" {
		seen.End = d.ended()
		if d.runs != nil && d.runs.below != nil {
			d.runs.Detach() // of some cgroups it may run on
		}
		if name != "" && state != "disabled" && d.under == "" {
			seen.Other = name
		}
		return seen, nil
	}
	if seen.Ended, err = d.endedBelow(orders.Cgroups); err != nil {
		return seen, err
	}
	if c := orders.Config; c != nil && (d.told == nil || !c.Equal(d.told)) {
		if err := d.tell(c); err != nil {
			return seen, err
		}
	}
	st, err := d.runs.Stats()
	if err != nil {
		return seen, err
	}
	seen.Counters = append(countersOf(&st), share.Counter{Name: "given_back", Value: d.relief.givenBack()})
	d.relieve.Do(func() { go d.relieving() })
	for _, cgroup := range orders.Cgroups {
		if err := ctx.Err(); err != nil {
			return seen, err
		}
		if n := d.left(cgroup); n > 0 {
			if seen.Left == nil {
				seen.Left = map[string]int{}
			}
			seen.Left[cgroup] = n
		}
	}
	d.untold = nil
	return seen, nil
}

// config is what the scheduler is told.
func (d *Driver) config(c *share.SchedulerConfig) (Config, error) {
	h, err := d.o.Host()
	if err != nil {
		return Config{}, err
	}
	out := ConfigOf(h)
	if c != nil {
		for _, n := range c.Nodes {
			out.Nodes = append(out.Nodes, Node{ID: n.Node, Budget: n.CPUs, Idle: n.Idle})
		}
	}
	return out, nil
}

func (d *Driver) tell(c *share.SchedulerConfig) error {
	config, err := d.config(c)
	if err != nil {
		return err
	}
	var groups []Cgroup
	for _, g := range c.Groups {
		id, err := inode(d.dir(g.Cgroup))
		if err == nil && (g.Object == 0 || g.Object == id) { // else it is gone
			groups = append(groups, Cgroup{ID: id, Tier: g.Tier, Nodes: g.Nodes})
		}
	}
	if err := d.runs.SetTiers(groups); err != nil {
		return err
	}
	if err := d.runs.Set(config); err != nil {
		return err
	}
	d.told = c
	return nil
}

func (d *Driver) dir(cgroup string) string {
	return filepath.Join(d.o.Root, "sys/fs/cgroup", filepath.Clean("/"+cgroup))
}

func inode(dir string) (uint64, error) {
	var st unix.Stat_t
	if err := unix.Stat(dir, &st); err != nil {
		return 0, &fs.PathError{Op: "stat", Path: dir, Err: err}
	}
	return st.Ino, nil
}

// reliefPeriod is the time between two looks for threads that wait. A thread is given back 15 s
// after it ran last, at the latest: half of what the watchdog bears.
const reliefPeriod = 5 * time.Second

// relieving goes on while the daemon runs. It waits for no look and no step: those may be far
// apart, and to load a scheduler may take longer than the watchdog of the one that runs bears.
func (d *Driver) relieving() {
	for now := range time.Tick(reliefPeriod) {
		// What can not be read or given back is tried again; a thread that starves is told by the watchdog.
		d.relief.Look(now, func() (all []int, err error) {
			for _, cgroup := range *d.cgroups.Load() {
				tids, _ := CgroupThreads(d.dir(cgroup))()
				all = append(all, tids...)
			}
			return all, nil
		})
	}
}

// left is how many threads of a cgroup are under a policy of the fair class and may be under the scheduler.
func (d *Driver) left(cgroup string) (n int) {
	tids, _ := CgroupThreads(d.dir(cgroup))()
	if d.runs != nil && d.runs.below != nil && !d.attached(cgroup) {
		return len(tids)
	}
	for _, tid := range tids {
		if a, err := kernel.get(tid); err == nil && fair(a.Policy) && !d.relief.rests(tid) {
			n++
		}
	}
	return n
}

// Steps.

// Owns lists the kinds of setting that this driver changes.
func (d *Driver) Owns() []plan.SettingKind {
	return []plan.SettingKind{plan.Scheduler, plan.TaskPolicy}
}

// SurvivesBoot reports whether settings of the kind outlive a restart of the machine.
func (d *Driver) SurvivesBoot(plan.SettingKind) bool { return false }

// policyOther is the value of plan.TaskPolicy where homenode has set nothing: that of most, SCHED_OTHER.
const policyOther = "other"

// policyNames is the policies that one thread may have had.
var policyNames = map[int]string{0: policyOther, 3: "batch", 5: "idle"}

// mostListed bounds how many threads one step writes into the journal: who starts a workload
// may start any number. The rest is left for the next step.
const mostListed = 1000

// Changes reads what Apply(step) would change. Of a cgroup that is its threads as a whole, and
// each that has another policy than SCHED_OTHER.
func (d *Driver) Changes(ctx context.Context, step plan.Step) ([]plan.Change, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	switch step.Kind {
	case plan.SetScheduler:
		return []plan.Change{{Setting: plan.Setting{Kind: plan.Scheduler, Path: string(share.SchedulerID),
			Value: d.now()}, Will: step.To}}, ctx.Err()
	case plan.SetPolicy:
	default:
		return nil, fmt.Errorf("scheduler: no step of kind %q", step.Kind)
	}
	cgroup := step.Target.Cgroup
	id, err := inode(d.dir(cgroup))
	if err != nil {
		return nil, err
	}
	tids, err := CgroupThreads(d.dir(cgroup))()
	if err != nil {
		return nil, err
	}
	out := []plan.Change{{Setting: plan.Setting{Kind: plan.TaskPolicy, Path: cgroup, Value: policyOther,
		Object: fmt.Sprint(id)}, Will: step.To}}
	var listed []listedThread
	for _, tid := range tids {
		a, err := kernel.get(tid)
		if err != nil || !fair(a.Policy) || a.Policy == 0 {
			continue
		}
		if len(listed) >= mostListed {
			break
		}
		start, err := kernel.start(tid)
		if err != nil {
			continue
		}
		listed = append(listed, listedThread{tid, start, a.Policy})
		out = append(out,
			plan.Change{Setting: plan.Setting{Kind: plan.TaskPolicy,
				Path: plan.ProcessPath(workload.Process{PID: tid, Start: start}), Value: policyNames[int(a.Policy)]},
				Will: step.To})
	}
	d.listed[cgroup] = listed
	return out, ctx.Err()
}

// Apply makes the step true.
func (d *Driver) Apply(ctx context.Context, step plan.Step, _ func(plan.Move)) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	switch step.Kind {
	case plan.SetScheduler:
		return d.swap(ctx, step.To)
	case plan.SetPolicy:
		return d.take(ctx, step.Target)
	}
	return fmt.Errorf("scheduler: no step of kind %q", step.Kind)
}

// listedThread is a thread and its policy.
type listedThread struct {
	tid    int
	start  uint64 // ticks after boot, field 22 of /proc/TID/stat: IDs are used again
	policy uint32 // SCHED_ number of sched(7)
}

// take puts the threads of a cgroup under the scheduler. A thread with a policy of its own that
// was not read before is left for the next time: it is not in the journal.
func (d *Driver) take(ctx context.Context, target plan.Target) error {
	dir := d.dir(target.Cgroup)
	id, err := inode(dir)
	if err != nil {
		return err
	}
	if target.Object != "" && target.Object != fmt.Sprint(id) {
		return fmt.Errorf("cgroup %s was made anew: %w", target.Cgroup, fs.ErrNotExist)
	}
	listed := d.listed[target.Cgroup]
	delete(d.listed, target.Cgroup)
	if known := *d.cgroups.Load(); !slices.Contains(known, target.Cgroup) {
		known = append(slices.Clone(known), target.Cgroup)
		d.cgroups.Store(&known)
	}
	threads := func() ([]int, error) {
		tids, err := CgroupThreads(dir)()
		return slices.DeleteFunc(tids, func(tid int) bool {
			a, err := kernel.get(tid)
			if err != nil || a.Policy == 0 {
				return err != nil || d.relief.rests(tid)
			}
			start, err := kernel.start(tid)
			return err != nil || !slices.Contains(listed, listedThread{tid, start, a.Policy})
		}), err
	}
	if err := d.attach(target.Cgroup, id); err != nil {
		return err
	}
	_, err = Switch(ctx, threads)
	return err
}

// swap loads and verifies a version, takes off the one that runs and puts it on. When it cannot
// be put on, the one before is restored.
func (d *Driver) swap(ctx context.Context, version string) error {
	d.supported()
	if d.now() == version {
		return nil
	}
	object, err := d.object(version)
	if err != nil {
		return err
	}
	config, err := d.config(d.told)
	if err != nil {
		return err
	}
	next, err := d.load(ctx, Options{Pin: d.pin(version), Config: config, Object: object})
	if err != nil {
		return err
	}
	if err := d.keep(object); err != nil {
		next.Close()
		return fmt.Errorf("keep version %s: %w", version, err)
	}
	before, began := d.runs, time.Now()
	running := before != nil && before.enabled()
	if before != nil {
		if err := before.Detach(); err != nil {
			next.Close()
			return err
		}
	}
	if err := next.Attach(); err != nil {
		next.Close()
		if running {
			err = errors.Join(err, before.Attach())
		}
		return err
	}
	if running {
		d.gap, d.before = time.Since(began), d.version
	}
	if before != nil {
		before.Close()
	}
	d.runs = next
	d.version = version
	d.told = nil
	d.relieve.Do(func() { go d.relieving() })
	return nil
}

// Read is the setting of an entry as it is now.
func (d *Driver) Read(ctx context.Context, entry plan.Entry) (plan.Setting, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	now := plan.Setting{Kind: entry.Kind, Path: entry.Path, Value: entry.Old}
	if entry.Kind == plan.Scheduler {
		now.Value = d.now()
		return now, ctx.Err()
	}
	if err := d.present(entry); err != nil {
		return now, err
	}
	tids := []int{}
	if p, err := plan.ParseProcessPath(entry.Path); err == nil {
		tids = append(tids, p.PID)
	} else {
		now.Object = entry.Object
		d.adopt()
		if id, err := inode(d.dir(entry.Path)); err == nil && d.runs != nil && d.runs.has(id) {
			now.Value = entry.New // also without a thread of its policy
		}
		if tids, err = CgroupThreads(d.dir(entry.Path))(); err != nil {
			return now, err
		}
	}
	for _, tid := range tids {
		if a, err := kernel.get(tid); err == nil && (a.Policy == policyExt || d.relief.rests(tid)) {
			now.Value = entry.New
		}
	}
	return now, ctx.Err()
}

// Present returns nil while the thing of an entry exists.
func (d *Driver) Present(entry plan.Entry) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.present(entry)
}

func (d *Driver) present(entry plan.Entry) error {
	if entry.Kind == plan.Scheduler {
		return nil
	}
	if p, err := plan.ParseProcessPath(entry.Path); err == nil {
		start, err := kernel.start(p.PID)
		if err == nil && start != p.Start {
			err = syscall.ESRCH
		}
		if err != nil {
			return fmt.Errorf("thread %d: %w", p.PID, err)
		}
		return nil
	}
	id, err := inode(d.dir(entry.Path))
	if err == nil && entry.Object != "" && entry.Object != fmt.Sprint(id) {
		err = fmt.Errorf("cgroup %s was made anew: %w", entry.Path, fs.ErrNotExist)
	}
	return err
}

// Restore puts entries back: single threads first, for what is left of their cgroup then is as most.
func (d *Driver) Restore(ctx context.Context, entries []plan.Entry) []error {
	d.mu.Lock()
	defer d.mu.Unlock()
	out := make([]error, len(entries))
	d.adopt()
	for _, single := range []bool{true, false} {
		for i := range entries {
			p, err := plan.ParseProcessPath(entries[i].Path)
			if (err == nil) != single {
				continue
			}
			switch {
			case entries[i].Kind == plan.Scheduler:
				out[i] = d.unload()
			case d.present(entries[i]) != nil:
				out[i] = d.present(entries[i])
			case single:
				out[i] = d.letGo(p.PID, entries[i].Old)
			default:
				_, out[i] = SwitchBack(ctx, CgroupThreads(d.dir(entries[i].Path)))
				if id, err := inode(d.dir(entries[i].Path)); err == nil && d.runs != nil {
					d.runs.DetachFrom(id)
				}
			}
		}
	}
	return out
}

// letGo gives one thread its old policy back. The kernel keeps its nice value.
func (d *Driver) letGo(tid int, old string) error {
	a, err := kernel.get(tid)
	if err != nil || (a.Policy != policyExt && !d.relief.rests(tid)) {
		return err
	}
	for number, name := range policyNames {
		if name == old {
			a.Policy = uint32(number)
			return kernel.set(tid, a)
		}
	}
	return fmt.Errorf("thread %d: no policy %q", tid, old)
}

// unload takes the scheduler out of the kernel, and the pins of all that were left.
func (d *Driver) unload() error {
	var errs []error
	if d.runs != nil {
		errs = append(errs, d.runs.Detach(), d.runs.Close())
	}
	d.runs = nil
	d.version = ""
	d.told = nil
	for _, version := range d.pinned() {
		if s, err := Adopt(d.pin(version)); err == nil {
			errs = append(errs, s.Detach(), s.Close())
		} else {
			errs = append(errs, removePins(d.pin(version)))
		}
	}
	return errors.Join(errs...)
}
