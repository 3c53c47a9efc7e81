package cgroup

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/homenode/homenode/core/plan"
	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/core/workload"
	"github.com/homenode/homenode/host/internal/numa"
)

// PageMover moves the pages of a step's processes. host/process has one.
type PageMover interface {
	Move(ctx context.Context, step plan.Step, progress func(plan.Move)) error
}

// Options says where the driver works.
type Options struct {
	Mount string    // of cgroup v2; "" is /sys/fs/cgroup
	Root  fs.FS     // the machine's file tree, for sys/devices/system; nil is "/"
	Mover PageMover // for move-pages steps; nil refuses them
	Run   string    // folder for notes of what is frozen at this moment; "" keeps none
	// Guardian starts a process that thaws what has a note when this one is killed; see
	// Guard. nil starts none.
	Guardian func(run, record string) (end func(), err error)
	// Answers returns an error that wraps plan.ErrNoAnswer when the lock of a process's memory is
	// held. nil asks nothing.
	Answers func(workload.Process) error
}

// Driver carries out steps on cgroups.
type Driver struct {
	mount    string
	root     fs.FS
	mover    PageMover
	files    files
	affinity func(tid int) (topology.CPUSet, error)

	run        string
	guardian   func(run, record string) (end func(), err error)
	answers    func(workload.Process) error
	shared     func(ctx context.Context, at string) error
	sameMemory func(a, b int) (bool, error)

	mu        sync.Mutex
	freezes   map[string]chan struct{} // under way, by cgroup; closed at their end
	comparing map[string]bool          // cgroups about whose processes the kernel is being asked
}

// New returns a driver. It touches nothing yet: a missing mount shows in the
// methods.
func New(o Options) *Driver {
	o.Mount = cmp.Or(o.Mount, "/sys/fs/cgroup")
	o.Root = cmp.Or(o.Root, os.DirFS("/"))
	d := &Driver{mount: o.Mount, root: o.Root, mover: o.Mover, files: tree{o.Mount}, affinity: numa.Kernel{}.Affinity,
		run: o.Run, guardian: o.Guardian, answers: o.Answers, sameMemory: sameMemory,
		freezes: map[string]chan struct{}{}, comparing: map[string]bool{}}
	d.shared = d.sharesOutside
	return d
}

const (
	controllers    = "cgroup.controllers"
	subtreeControl = "cgroup.subtree_control"
)

// Owns lists the kinds of setting that this driver changes.
func (d *Driver) Owns() []plan.SettingKind {
	out := []plan.SettingKind{plan.CgroupCPUs, plan.CgroupMems}
	for _, c := range known {
		out = append(out, c.kind)
	}
	return append(out, slices.Sorted(maps.Keys(plan.CgroupFiles))...)
}

// SurvivesBoot reports whether settings of the kind outlive a restart of the machine:
// cgroups do not.
func (d *Driver) SurvivesBoot(plan.SettingKind) bool { return false }

// Changes reads what Apply(step) would change, in the order it will: the
// controller from the root down where it is off, then the set itself.
func (d *Driver) Changes(ctx context.Context, step plan.Step) ([]plan.Change, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if step.Kind == plan.MovePages {
		return nil, nil
	}
	if step.Kind == plan.ReclaimMemory {
		return nil, d.reclaims(&step)
	}
	if step.Kind == plan.SetCgroup {
		return d.valueChanges(step)
	}
	kind, will, err := wanted(step)
	if err != nil {
		return nil, err
	}
	off, err := d.off(step.Target.Cgroup, cpusets)
	if err != nil {
		return nil, err
	}
	value := ""
	if len(off) == 0 {
		if value, err = d.value(step.Target.Cgroup, kind); err != nil {
			return nil, err
		}
	}
	return d.changes(off, cpusets,
		plan.Change{Setting: plan.Setting{Kind: kind, Path: step.Target.Cgroup, Value: value}, Will: will})
}

// changes is what turning a controller on where it is off changes, and then last.
func (d *Driver) changes(off []plan.Setting, c *control, last ...plan.Change) ([]plan.Change, error) {
	var out []plan.Change
	for _, s := range off {
		out = append(out, plan.Change{Setting: s, Will: c.on()})
	}
	out = append(out, last...)
	for i := range out {
		object, err := d.files.object(out[i].Path)
		if err != nil {
			return nil, d.lost(out[i].Path, err)
		}
		out[i].Object = object
	}
	return out, nil
}

// Read reads the setting of an entry: what is configured, not what is effective.
func (d *Driver) Read(ctx context.Context, entry plan.Entry) (plan.Setting, error) {
	now := plan.Setting{Kind: entry.Kind, Path: entry.Path}
	if err := ctx.Err(); err != nil {
		return now, err
	}
	if err := d.present(entry.Path, controlOf(entry.Kind)); err != nil {
		return now, err
	}
	var err error
	if now.Object, err = d.files.object(entry.Path); err != nil {
		return now, d.lost(entry.Path, err)
	}
	switch {
	case entry.Kind.IsController():
		now.Value, err = d.controllerNow(entry.Path, controlOf(entry.Kind))
	case entry.Kind == plan.CgroupCPUs, entry.Kind == plan.CgroupMems:
		now.Value, err = d.configured(entry.Path, entry.Kind, entry.Old)
	case entry.Kind.IsCgroupFile():
		now.Value, err = d.valueNow(entry.Path, entry.Kind)
	default:
		err = fmt.Errorf("cgroup %s: no setting of kind %q", entry.Path, entry.Kind)
	}
	if err != nil {
		return now, err
	}
	after, err := d.files.object(entry.Path)
	if err != nil {
		return now, d.lost(entry.Path, err)
	}
	if after != now.Object {
		return now, fmt.Errorf("cgroup %s: it was made anew while it was read", entry.Path)
	}
	return now, nil
}

// controllerNow is whether the children of a cgroup have the controller.
func (d *Driver) controllerNow(cgroup string, c *control) (string, error) {
	on, err := d.files.read(cgroup, subtreeControl)
	if err != nil {
		return "", d.lost(cgroup, err)
	}
	if slices.Contains(strings.Fields(on), c.name) {
		return c.on(), nil
	}
	return c.off(), nil
}

// configured is the value of a set as it is written here. Where the controller is off it
// is the empty set, and so is the set of all that Restore writes instead of it.
func (d *Driver) configured(cgroup string, kind plan.SettingKind, old string) (string, error) {
	text, err := d.files.read(cgroup, string(kind))
	if errors.Is(err, fs.ErrNotExist) {
		if off, err := d.off(cgroup, cpusets); err != nil || len(off) > 0 {
			return "", err
		}
		text, err = d.files.read(cgroup, string(kind)) // it was turned on meanwhile
	}
	if err != nil {
		return "", d.lost(cgroup, err)
	}
	// CPU and node lists have one format.
	set, err := topology.ParseCPUSet(text)
	if err != nil {
		return "", fmt.Errorf("cgroup %s: %s: %w", cgroup, kind, err)
	}
	if old == "" {
		if all, err := d.possible(kind); err == nil && same(text, all) {
			return "", nil
		}
	}
	return set.String(), nil
}

// Apply makes the step true and reads back that it is.
func (d *Driver) Apply(ctx context.Context, step plan.Step, progress func(plan.Move)) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if step.Kind == plan.MovePages {
		if d.mover == nil {
			return plan.Unsupported("moving pages", "a page mover")
		}
		return d.mover.Move(ctx, step, progress)
	}
	if step.Kind == plan.ReclaimMemory {
		return d.reclaim(ctx, &step)
	}
	if step.Kind == plan.SetCgroup {
		return d.applyValue(step)
	}
	kind, want, err := wanted(step)
	if err != nil {
		return err
	}
	return d.with(cpusets, step, kind, func() error { return d.set(ctx, step.Target.Cgroup, kind, want) })
}

// with does something that needs a controller, which is turned on where it is off and off
// again when that fails.
func (d *Driver) with(c *control, step plan.Step, kind plan.SettingKind, do func() error) error {
	cgroup := step.Target.Cgroup
	if err := d.Present(plan.Entry{Kind: kind, Path: cgroup, Object: step.Target.Object}); err != nil {
		return err
	}
	off, err := d.off(cgroup, c)
	if err != nil {
		return err
	}
	for i, s := range off {
		if err := d.turnOn(s.Path, c); err != nil {
			return errors.Join(err, d.turnOff(off[:i+1], c))
		}
	}
	if err := do(); err != nil {
		return errors.Join(err, d.turnOff(off, c))
	}
	return nil
}

// wanted reads the step. Only paths below the root have sets of their own.
func wanted(step plan.Step) (plan.SettingKind, string, error) {
	if step.Target.Kind != workload.InCgroup {
		return "", "", fmt.Errorf("target of %s is not a cgroup but a %s", step.Workload, step.Target.Kind)
	}
	if err := checkPath(step.Target.Cgroup); err != nil {
		return "", "", err
	}
	if step.Target.Cgroup == "/" {
		return "", "", errors.New("the root cgroup has no CPU set or memory nodes of its own")
	}
	set, err := topology.ParseCPUSet(step.To)
	if err != nil {
		return "", "", fmt.Errorf("cgroup %s: %s to %w", step.Target.Cgroup, step.Kind, err)
	}
	if set.Empty() {
		return "", "", fmt.Errorf("cgroup %s: %s to the empty set", step.Target.Cgroup, step.Kind)
	}
	switch step.Kind {
	case plan.SetCPUs:
		return plan.CgroupCPUs, set.String(), nil
	case plan.SetMems:
		return plan.CgroupMems, set.String(), nil
	}
	return "", "", fmt.Errorf("cgroup %s: no step of kind %q", step.Target.Cgroup, step.Kind)
}

// off is where a controller has to be turned on before cgroup has its files, from the root
// down, as settings with their values. What needs no controller is c nil.
func (d *Driver) off(cgroup string, c *control) ([]plan.Setting, error) {
	if err := d.present(cgroup, c); err != nil || c == nil {
		return nil, err
	}
	_, err := d.files.read(cgroup, c.file)
	if err == nil || !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	var off []plan.Setting
	for _, a := range ancestors(cgroup) {
		value, err := d.files.read(a, subtreeControl)
		if err != nil {
			return nil, d.lost(cgroup, err)
		}
		if !slices.Contains(strings.Fields(value), c.name) {
			off = append(off, plan.Setting{Kind: c.kind, Path: a, Value: c.off()})
		}
	}
	if len(off) == 0 {
		return nil, d.lost(cgroup, fmt.Errorf("cgroup %s: no %s although the controller is on", cgroup, c.file))
	}
	return off, nil
}

// present tells a missing mount and a missing controller from a missing cgroup.
func (d *Driver) present(cgroup string, c *control) error {
	if err := checkPath(cgroup); err != nil {
		return err
	}
	have, err := d.files.read("/", controllers)
	if err != nil {
		var mount *MountError
		if errors.As(err, &mount) {
			return err
		}
		return &MountError{d.mount, err.Error()}
	}
	if c != nil && !slices.Contains(strings.Fields(have), c.name) {
		return plan.Unsupported(c.gives+" in cgroup v2",
			fmt.Sprintf("the %s controller, which is absent: the kernel lacks %s, or cgroup v1 has it mounted", c.name,
				c.config))
	}
	if _, err := d.files.read(cgroup, controllers); err != nil {
		if errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ENODEV) {
			return gone(cgroup)
		}
		return fmt.Errorf("cgroup %s: %w", cgroup, err)
	}
	return nil
}

// lost returns gone when the cgroup went away meanwhile, and otherwise err, which
// must not look like that.
func (d *Driver) lost(cgroup string, err error) error {
	if now := d.present(cgroup, nil); now != nil {
		return now
	}
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ENODEV) {
		return fmt.Errorf("cgroup %s: %v", cgroup, err)
	}
	return err
}

func (d *Driver) value(cgroup string, kind plan.SettingKind) (string, error) {
	v, err := d.files.read(cgroup, string(kind))
	if err != nil {
		return "", d.lost(cgroup, err)
	}
	return v, nil
}

// set writes a set and checks that it holds; otherwise it restores what stood.
func (d *Driver) set(ctx context.Context, cgroup string, kind plan.SettingKind, want string) error {
	if p, err := d.files.read(cgroup, partitionFile); err == nil && p != "member" {
		return fmt.Errorf("cgroup %s: it is a cpuset partition (%s), whose set is not changed", cgroup, p)
	}
	before, err := d.value(cgroup, kind)
	if err != nil {
		return err
	}
	changed := !same(before, want)
	if changed {
		if err := d.writeSet(ctx, cgroup, kind, want+"\n"); err != nil {
			// It may have taken all the same.
			return d.takenBack(ctx, cgroup, kind, before, d.refused(cgroup, string(kind), want, err))
		}
	}
	err = d.holds(cgroup, kind, want)
	if err == nil || !changed || errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return d.takenBack(ctx, cgroup, kind, before, err)
}

// takenBack is the error of a write, with that of putting the value back.
func (d *Driver) takenBack(ctx context.Context, cgroup string, kind plan.SettingKind, before string, err error) error {
	if back := d.putBack(ctx, cgroup, kind, before); back != nil {
		err = errors.Join(err, fmt.Errorf("restore: %w", back))
	}
	return err
}

// holds reads back what is effective.
func (d *Driver) holds(cgroup string, kind plan.SettingKind, want string) error {
	have, err := d.files.read(cgroup, string(kind)+".effective")
	if err != nil {
		return d.lost(cgroup, err)
	}
	if !same(have, want) {
		return &MismatchError{Cgroup: cgroup, File: string(kind), Want: want, Have: have,
			Why: d.whyNot(cgroup, kind, want, have)}
	}
	if kind != plan.CgroupCPUs {
		return nil
	}
	return d.threadsFollow(cgroup, want)
}

// whyNot explains a set that is not effective.
func (d *Driver) whyNot(cgroup string, kind plan.SettingKind, wantList, haveList string) []string {
	// CPU and node lists have one format; the sets here are of either.
	want, err1 := topology.ParseCPUSet(wantList)
	have, err2 := topology.ParseCPUSet(haveList)
	if err1 != nil || err2 != nil {
		return []string{"the kernel's list cannot be read"}
	}
	noun, onlineFile := "CPU", "sys/devices/system/cpu/online"
	if kind == plan.CgroupMems {
		noun, onlineFile = "node", "sys/devices/system/node/has_memory"
	}
	var why []string
	missing := want.Minus(have)
	if online, err := d.list(onlineFile); err == nil {
		if off := missing.Minus(online); !off.Empty() {
			state := "offline"
			if kind == plan.CgroupMems {
				state = "without memory"
			}
			why = append(why, fmt.Sprintf("%s %s is %s", noun, off, state))
			missing = missing.Minus(off)
		}
	}
	parent := path.Dir(cgroup)
	if text, err := d.files.read(parent, string(kind)+".effective"); err == nil {
		if allowed, err := topology.ParseCPUSet(text); err == nil && !missing.SubsetOf(allowed) {
			why = append(why, fmt.Sprintf("the parent %s has only %s", parent, or(text, "nothing")))
		}
	}
	if len(why) == 0 {
		why = append(why, "the kernel gives no reason; someone else may be writing it")
	}
	return why
}

// threadsFollow checks that every thread of the cgroup may run only on want. The
// kernel narrows them with the set, whatever affinity they chose themselves; a
// thread that was not is said.
func (d *Driver) threadsFollow(cgroup, wantList string) error {
	text, err := d.files.read(cgroup, "cgroup.threads")
	if err != nil {
		if errors.Is(err, unix.EOPNOTSUPP) {
			return nil
		}
		return d.lost(cgroup, err)
	}
	want, err := topology.ParseCPUSet(wantList)
	if err != nil {
		return err
	}
	stray := map[int]topology.CPUSet{}
	for _, field := range strings.Fields(text) {
		tid, err := strconv.Atoi(field)
		if err != nil || tid <= 0 {
			continue // 0 is a thread of another PID namespace
		}
		if cpus, err := d.affinity(tid); err == nil && !cpus.SubsetOf(want) {
			stray[tid] = cpus
		}
	}
	if len(stray) > 0 {
		return &StrayError{Cgroup: cgroup, Threads: stray, Want: want}
	}
	return nil
}

// turnOn enables a controller for the children of a cgroup.
func (d *Driver) turnOn(cgroup string, c *control) error {
	if err := d.mayAttach(cgroup, c); err != nil {
		return err
	}
	err := d.files.write(cgroup, subtreeControl, c.on())
	switch {
	case err == nil:
	case errors.Is(err, unix.ENODEV):
		return d.lost(cgroup, err)
	case errors.Is(err, fs.ErrNotExist):
		// Also the answer when the controller is not available there.
		return d.lost(cgroup, fmt.Errorf("cgroup %s: the %s controller cannot be turned on here: %v", cgroup, c.name,
			err))
	case errors.Is(err, unix.EBUSY):
		return fmt.Errorf("cgroup %s: turn on the %s controller: %w; it has processes of its own beside its children",
			cgroup, c.name, err)
	case errors.Is(err, unix.EOPNOTSUPP):
		return fmt.Errorf("cgroup %s: turn on the %s controller: %w; it is in a threaded subtree that is not valid",
			cgroup, c.name, err)
	default:
		return d.refused(cgroup, subtreeControl, c.on(), err)
	}
	now, err := d.files.read(cgroup, subtreeControl)
	if err != nil {
		return d.lost(cgroup, err)
	}
	if !slices.Contains(strings.Fields(now), c.name) {
		return fmt.Errorf("cgroup %s: the %s controller did not stay on; another manager of cgroups may have "+
			"turned it off", cgroup, c.name)
	}
	return nil
}

// turnOff undoes turnOn after a failed step, the deepest first. It is best
// effort: what could not be undone is added to the step's error.
func (d *Driver) turnOff(on []plan.Setting, c *control) error {
	var errs []error
	for _, s := range slices.Backward(on) {
		if err := d.restoreControllers(s.Path, s.Value, c); err != nil && !errors.Is(err, fs.ErrNotExist) {
			errs = append(errs, fmt.Errorf("restore: %w", err))
		}
	}
	return errors.Join(errs...)
}

// ancestors of a cgroup, from the root down, without itself.
func ancestors(cgroup string) []string {
	var all []string
	for p := cgroup; p != "/"; {
		p = path.Dir(p)
		all = append(all, p)
	}
	slices.Reverse(all)
	return all
}

// same compares two lists as sets; the kernel writes "0-1" for "0,1".
func same(a, b string) bool {
	x, err1 := topology.ParseCPUSet(a)
	y, err2 := topology.ParseCPUSet(b)
	return err1 == nil && err2 == nil && x.Equal(y)
}

// list reads a list of CPUs or nodes of the machine.
func (d *Driver) list(file string) (topology.CPUSet, error) {
	text, err := fs.ReadFile(d.root, file)
	if err != nil {
		return topology.CPUSet{}, err
	}
	return topology.ParseCPUSet(string(text))
}
