package resctrl

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strconv"
	"strings"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/homenode/homenode/core/plan"
	"github.com/homenode/homenode/core/share"
	"github.com/homenode/homenode/host/internal/kernfile"
)

const (
	mount = "sys/fs/resctrl"
	group = mount + "/" + share.CacheGroup
	// groupBefore is what it was called before version 0.2: what that has made is used until it is
	// removed, for a second group would take another class of service (num_closids).
	groupBefore = mount + "/homenode-offline"
)

// Driver carries out what core/control decides of resctrl.
type Driver struct {
	files files

	mu   sync.Mutex
	dir  string   // of the group
	ours schemata // that the group was given last
}

// find learns which folder the group has.
func (d *Driver) find() {
	d.dir = group
	if _, err := d.files.read(group + "/schemata"); errors.Is(err, fs.ErrNotExist) {
		if _, err := d.files.read(groupBefore + "/schemata"); err == nil {
			d.dir = groupBefore
		}
	}
}

// New returns a driver for the machine below root.
func New(root string) *Driver { return &Driver{files: tree{root}} }

// Owns lists the kinds of setting that this driver changes.
func (d *Driver) Owns() []plan.SettingKind {
	return []plan.SettingKind{plan.CacheGroup, plan.CacheTasks}
}

// SurvivesBoot reports whether settings of the kind outlive a restart of the machine.
func (d *Driver) SurvivesBoot(plan.SettingKind) bool { return false }

// knownOptions is the options of a mount that change nothing of what is done here: those of any file
// system, and of resctrl.rst.
var knownOptions = []string{"rw", "nosuid", "nodev", "noexec", "relatime", "noatime", "nodiratime", "strictatime",
	"seclabel", "cdp", "cdpl2", "mba_MBps", "debug"}

// errNotMounted also means that nothing is set: the kernel removes all groups when resctrl is unmounted.
var errNotMounted = plan.Unsupported("resctrl", "to be mounted (mount -t resctrl resctrl /"+mount+
	"), and a processor that has it")

// options is how resctrl is mounted.
func (d *Driver) options() ([]string, error) {
	mounts, err := d.files.read("proc/mounts")
	if err != nil {
		return nil, shown("read", "proc/mounts", err)
	}
	options := mounted(mounts, "/"+mount)
	if options == nil {
		return nil, errNotMounted
	}
	for _, o := range options {
		switch {
		case o == "ro":
			return nil, plan.Unsupported("resctrl", "a mount that can be written: /"+mount+" is read-only")
		case !slices.Contains(knownOptions, o):
			return nil, plan.Unsupported("resctrl", fmt.Sprintf("a mount with options that homenode knows: /%s has %q",
				mount, o))
		}
	}
	return options, nil
}

// number is a file with one number of a base.
func (d *Driver) number(name string, base int) (uint64, error) {
	text, err := d.files.read(name)
	if err != nil {
		return 0, shown("read", name, err)
	}
	v, err := strconv.ParseUint(strings.TrimSpace(text), base, 64)
	if err != nil {
		return 0, fmt.Errorf("read /%s: %q is no number", name, strings.TrimSpace(text))
	}
	return v, nil
}

// wanted is the schemata of a limit on this machine.
func (d *Driver) wanted(limit share.CacheSetting) (schemata, error) {
	options, err := d.options()
	if err != nil {
		return nil, err
	}
	text, err := d.files.read(mount + "/schemata")
	if err != nil {
		return nil, shown("read", mount+"/schemata", err)
	}
	all, err := parse(text)
	if err != nil {
		return nil, err
	}
	cached := false
	for name, domains := range all {
		if name == bandwidth {
			if err := d.throttle(domains, options, limit); err != nil {
				return nil, err
			}
			continue
		}
		cached = true
		info := mount + "/info/" + name
		mask, err := d.number(info+"/cbm_mask", 16)
		least, bad := d.number(info+"/min_cbm_bits", 10)
		if err = errors.Join(err, bad); err != nil {
			return nil, err
		}
		shared, err := d.number(info+"/shareable_bits", 16)
		if err != nil && !errors.Is(err, errMissing) {
			return nil, err
		}
		if limit.Cache > 0 {
			if mask = share.CacheMask(mask, shared, int(min(least, 64)), limit.Cache); mask == 0 {
				return nil, fmt.Errorf("/%s: no mask of the ways has %d contiguous bits", info, least)
			}
		}
		for domain := range domains {
			domains[domain] = mask
		}
	}
	if limit.Cache > 0 && !cached {
		return nil, plan.Unsupported("L3", "a processor whose last-level cache can be divided (Intel RDT CAT, AMD QoS)")
	}
	if limit.Bandwidth > 0 && all[bandwidth] == nil {
		return nil, plan.Unsupported(bandwidth,
			"a processor that can throttle memory bandwidth (Intel RDT MBA, AMD QoS)")
	}
	return all, nil
}

// now is what the group has, as a value and read: "" and nil where it is not there, or was made and
// given nothing yet; nil where it is no group as homenode makes them.
func (d *Driver) now() (value string, all schemata, err error) {
	fresh, err := d.wanted(share.CacheSetting{})
	if errors.Is(err, errNotMounted) {
		return "", nil, nil
	}
	if err != nil {
		return "", nil, err
	}
	text, err := d.files.read(d.dir + "/schemata")
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ENODEV) {
		return "", nil, nil
	}
	if err != nil {
		return "", nil, shown("read", d.dir+"/schemata", err)
	}
	mode, err := d.files.read(d.dir + "/mode")
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "", nil, shown("read", d.dir+"/mode", err)
	}
	if mode = strings.TrimSpace(mode); mode != "" && mode != "shareable" {
		return "mode " + mode, nil, nil
	}
	if all, err = parse(text); err != nil {
		return "", nil, err
	}
	switch {
	case d.ours != nil && all.agrees(d.ours):
		return d.ours.String(), all, nil
	case !all.limited(fresh).agrees(fresh):
		return all.String(), all, nil
	}
	for _, name := range []string{"/tasks", "/cpus"} {
		has, err := d.files.read(d.dir + name)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return "", nil, shown("read", d.dir+name, err)
		}
		if strings.Trim(has, "0, \n") != "" {
			return all.String(), all, nil
		}
	}
	return "", nil, nil
}

// Changes reads what Apply(step) would change.
func (d *Driver) Changes(ctx context.Context, step plan.Step) ([]plan.Change, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.find()
	switch step.Kind {
	case plan.SetCache:
		limit, err := share.ParseCacheSetting(step.To)
		if err != nil {
			return nil, err
		}
		will, err := d.wanted(limit)
		if err != nil {
			return nil, err
		}
		now, _, err := d.now()
		if err != nil {
			return nil, err
		}
		return []plan.Change{{Setting: plan.Setting{Kind: plan.CacheGroup, Path: share.CacheGroup, Value: now},
			Will: will.String()}}, ctx.Err()
	case plan.SetCacheTasks:
		in, object, err := d.tasks(step.Target.Cgroup)
		if err != nil {
			return nil, err
		}
		return []plan.Change{{Setting: plan.Setting{Kind: plan.CacheTasks, Path: step.Target.Cgroup, Value: in.value(),
			Object: object}, Will: share.CacheGroup}}, ctx.Err()
	}
	return nil, fmt.Errorf("resctrl: no step of kind %q", step.Kind)
}

// members is the threads of a cgroup by their group of resctrl; those in a group of others are in
// neither.
type members struct{ ours, free []int }

// value is that of plan.CacheTasks.
func (m *members) value() string {
	if len(m.free) > 0 || len(m.ours) == 0 {
		return ""
	}
	return share.CacheGroup
}

func (d *Driver) tasks(cgroup string) (m members, object string, err error) {
	tids, object, err := d.files.threads(cgroup)
	if err != nil {
		return m, "", err
	}
	if _, err := d.options(); errors.Is(err, errNotMounted) {
		return m, object, nil
	} else if err != nil {
		return m, "", err
	}
	of := func(dir string) (map[string]bool, error) {
		text, err := d.files.read(dir + "/tasks")
		if err != nil && !(dir == d.dir && (errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ENODEV))) {
			return nil, shown("read", dir+"/tasks", err)
		}
		out := map[string]bool{}
		for tid := range strings.FieldsSeq(text) {
			out[tid] = true
		}
		return out, nil
	}
	ours, err := of(d.dir)
	if err != nil {
		return m, "", err
	}
	free, err := of(mount)
	if err != nil {
		return m, "", err
	}
	for _, tid := range tids {
		switch s := strconv.Itoa(tid); {
		case ours[s]:
			m.ours = append(m.ours, tid)
		case free[s]:
			m.free = append(m.free, tid)
		}
	}
	return m, object, nil
}

// Apply makes the step true.
func (d *Driver) Apply(ctx context.Context, step plan.Step, _ func(plan.Move)) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.find()
	switch step.Kind {
	case plan.SetCache:
		limit, err := share.ParseCacheSetting(step.To)
		if err != nil {
			return err
		}
		want, err := d.wanted(limit)
		if err != nil {
			return err
		}
		return d.set(want)
	case plan.SetCacheTasks:
		return d.move(ctx, step.Target.Cgroup, step.Target.Object, d.dir)
	}
	return fmt.Errorf("resctrl: no step of kind %q", step.Kind)
}

// set makes the group, gives it what it may have and reads that it stands.
func (d *Driver) set(want schemata) error {
	err := d.files.mkdir(d.dir)
	made := err == nil
	switch {
	case errors.Is(err, unix.ENOSPC):
		return fmt.Errorf("make /%s: %w: all classes of service (num_closids) are used by the groups of others", d.dir,
			err)
	case err != nil && !errors.Is(err, fs.ErrExist):
		return shown("make", d.dir, err)
	}
	before, _, err := d.now()
	if err == nil {
		err = d.write(want)
	}
	if err == nil {
		d.ours = want
		return nil
	}
	if made {
		if d.files.rmdir(d.dir) == nil {
			d.ours = nil
		}
	} else if old, bad := parse(before); bad == nil && len(old) > 0 {
		d.write(old)
	}
	return err
}

func (d *Driver) write(want schemata) error {
	if err := d.files.write(d.dir+"/schemata", strings.ReplaceAll(want.String(), " ", "\n")+"\n"); err != nil {
		why := ""
		if status, bad := d.files.read(mount + "/info/last_cmd_status"); bad == nil &&
			strings.TrimSpace(status) != "ok" {
			why = ": " + strings.TrimSpace(status)
		}
		return fmt.Errorf("write %q to /%s/schemata: %v%s", want, d.dir, cause(err), why)
	}
	text, err := d.files.read(d.dir + "/schemata")
	if err != nil {
		return shown("read", d.dir+"/schemata", err)
	}
	now, err := parse(text)
	if err != nil {
		return err
	}
	if !now.agrees(want) {
		return fmt.Errorf("/%s/schemata is %q after %q was written; someone else may be writing it", d.dir, now, want)
	}
	return nil
}

// passes bounds how often it is looked for threads that began meanwhile: those of a thread that is
// in a group begin there.
const passes = 100

// move puts the threads of a cgroup into a group: those of the default group into homenode's, and
// back.
func (d *Driver) move(ctx context.Context, cgroup, object, to string) error {
	for range passes {
		in, now, err := d.tasks(cgroup)
		if err != nil {
			return err
		}
		if object != "" && object != now {
			return fmt.Errorf("cgroup %s was made anew: %w", cgroup, fs.ErrNotExist)
		}
		tids := in.free
		if to == mount {
			tids = in.ours
		}
		if len(tids) == 0 {
			return nil
		}
		for _, tid := range tids {
			if err := ctx.Err(); err != nil {
				return err
			}
			err := d.files.write(to+"/tasks", strconv.Itoa(tid)+"\n")
			if err != nil && !errors.Is(err, unix.ESRCH) {
				return fmt.Errorf("thread %d of cgroup %s: write to /%s/tasks: %v%s", tid, cgroup, to, cause(err),
					kernfile.Why(err))
			}
		}
	}
	return fmt.Errorf("cgroup %s: after %d looks there are still threads that are not in /%s", cgroup, passes, to)
}

// Read is the setting of an entry as it is now.
func (d *Driver) Read(ctx context.Context, entry plan.Entry) (plan.Setting, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.find()
	now := plan.Setting{Kind: entry.Kind, Path: entry.Path, Object: entry.Object}
	if entry.Kind == plan.CacheTasks {
		in, object, err := d.tasks(entry.Path)
		now.Value, now.Object = in.value(), object
		return now, errors.Join(err, ctx.Err())
	}
	value, all, err := d.now()
	if now.Value = value; err != nil || all == nil {
		return now, errors.Join(err, ctx.Err())
	}
	now.Value = entry.Known(value, func(text string, _ bool) bool {
		was, err := parse(text)
		if err != nil {
			return false
		}
		if len(was) > 0 && was[bandwidth] == nil { // earlier versions left out MB in other units
			return all.without(bandwidth).agrees(was)
		}
		return all.agrees(was)
	})
	if was, _ := parse(now.Value); now.Value == entry.New {
		for name, domains := range was {
			if len(all[name]) > len(domains) { // a cache came since: it is not limited
				now.Value = entry.Old
			}
		}
	}
	return now, ctx.Err()
}

// Present returns nil while the thing of an entry exists. The group is made again where it is not.
func (d *Driver) Present(entry plan.Entry) error {
	if entry.Kind != plan.CacheTasks {
		return nil
	}
	_, object, err := d.files.threads(entry.Path)
	if err == nil && entry.Object != "" && entry.Object != object {
		err = fmt.Errorf("cgroup %s was made anew: %w", entry.Path, fs.ErrNotExist)
	}
	return err
}

// Restore puts entries back. What is in the group falls back to the default group with its removal.
func (d *Driver) Restore(ctx context.Context, entries []plan.Entry) []error {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.find()
	out := make([]error, len(entries))
	for i := range entries {
		e := &entries[i]
		switch e.Kind {
		case plan.CacheTasks:
			out[i] = d.move(ctx, e.Path, e.Object, mount)
		default:
			err := d.files.rmdir(d.dir)
			if err == nil || errors.Is(err, fs.ErrNotExist) {
				d.ours = nil
				continue
			}
			out[i] = shown("remove", d.dir, err)
		}
	}
	return out
}

// shown names what failed. It does not wrap that a file is missing of the mount itself: nothing of
// a cgroup is gone by that.
func shown(what, name string, err error) error {
	return &fileError{fmt.Sprintf("%s /%s: %v%s", what, path.Clean(name), cause(err), kernfile.Why(err)), err}
}

type fileError struct {
	text string
	err  error
}

func (e *fileError) Error() string { return e.text }

// Is lets callers here ask for a file that is missing.
func (e *fileError) Is(target error) bool {
	return target == errMissing && errors.Is(e.err, fs.ErrNotExist)
}

var errMissing = errors.New("missing")

func cause(err error) error {
	var errno unix.Errno
	if errors.As(err, &errno) {
		return errno
	}
	return err
}
