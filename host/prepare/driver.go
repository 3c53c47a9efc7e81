package prepare

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/homenode/homenode/core/hostprep"
	"github.com/homenode/homenode/core/plan"
	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/core/workload"
	"github.com/homenode/homenode/host/internal/kernfile"
)

// Driver carries out steps on the host itself.
type Driver struct {
	files  files
	units  Units
	follow time.Duration // how long systemd may take to write a cgroup
}

// New returns a driver on the machine below root ("/" for this one) with its systemd. It touches
// nothing yet.
func New(root string, units Units) *Driver {
	return &Driver{files: kernfile.Tree(root), units: units, follow: 2 * time.Second}
}

var kinds = map[plan.StepKind]plan.SettingKind{plan.SetUnit: plan.UnitCPUs, plan.SetFile: plan.HostFile,
	plan.SetIRQ: plan.HostIRQ}

// form is how the text of a setting is to be read.
type form int

const (
	list   form = iota // of CPUs
	mask               // of CPUs, in hex
	number             //
	word               // one of several, the chosen one in brackets
)

// setting is one thing with a value.
type setting struct {
	kind plan.SettingKind
	path string // in steps and the journal
	file string // below the root; "" for a unit
	form form
	name string // HostIRQ: of its handlers
}

var (
	poolFile = sync.OnceValue(func() *regexp.Regexp {
		return regexp.MustCompile(`^sys/devices/system/node/node[0-9]{1,4}/hugepages/hugepages-[0-9]{1,9}kB/nr_hugepages$`)
	})
	irqPath = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^([0-9]{1,9})/(.+)$`) })
)

// parse reads a path out of a step or the journal. It leads to no other file than
// those that core/hostprep plans for.
func parse(kind plan.SettingKind, path string) (setting, error) {
	s := setting{kind: kind, path: path, file: path}
	switch kind {
	case plan.UnitCPUs:
		if hostprep.CgroupOf(path) != "" {
			s.file = ""
			return s, nil
		}
	case plan.HostIRQ:
		if m := irqPath().FindStringSubmatch(path); m != nil {
			s.file, s.name = "proc/irq/"+m[1]+"/smp_affinity_list", m[2]
			return s, nil
		}
	case plan.HostFile:
		switch path {
		case hostprep.Workqueue, hostprep.Writeback, hostprep.DefaultIRQ:
			s.form = mask
			return s, nil
		case hostprep.THP:
			s.form = word
			return s, nil
		case hostprep.KSM, hostprep.NUMABalancing, hostprep.CacheAware:
			s.form = number
			return s, nil
		}
		if poolFile().MatchString(path) {
			s.form = number
			return s, nil
		}
		for _, known := range []func(string) (number, word bool){hostprep.OfCPU, hostprep.OfInterleave} {
			isNumber, isWord := known(path)
			switch {
			case isNumber:
				s.form = number
				return s, nil
			case isWord:
				s.form = word
				return s, nil
			}
		}
	}
	return s, fmt.Errorf("%q is not the path of a setting of kind %q", path, kind)
}

var wordForm = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[a-z+]{1,20}$`) })

// text is a value of a step as the setting is written; value is the same for what
// was read of it.
func (s setting) text(to string) (string, error) {
	switch s.form {
	case list, mask:
		cpus, err := topology.ParseCPUSet(to)
		if err == nil && cpus.Empty() {
			err = errors.New("the empty set")
		}
		if s.form == mask {
			return topology.Mask(cpus), err
		}
		return cpus.String(), err
	case number:
		n, err := strconv.ParseUint(to, 10, 63)
		return strconv.FormatUint(n, 10), err
	}
	if !wordForm().MatchString(to) {
		return "", fmt.Errorf("%q is no word", to)
	}
	return to, nil
}

// same reports whether a value that was read is the one that was written.
func (s setting) same(have, want string) bool {
	var a, b topology.CPUSet
	var err1, err2 error
	switch s.form {
	case list:
		a, err1 = topology.ParseCPUSet(have)
		b, err2 = topology.ParseCPUSet(want)
	case mask:
		a, err1 = topology.ParseMask(have)
		b, err2 = topology.ParseMask(want)
	default:
		return have == want
	}
	return err1 == nil && err2 == nil && a.Equal(b)
}

// wanted reads a step.
func wanted(step plan.Step) (setting, string, error) {
	kind, ok := kinds[step.Kind]
	if !ok || step.Target.Kind != workload.InHost {
		return setting{}, "", fmt.Errorf("%s: no step of kind %q on a %s", step.Workload, step.Kind, step.Target.Kind)
	}
	s, err := parse(kind, step.Target.Host)
	if err != nil {
		return s, "", err
	}
	to, err := s.text(step.To)
	if err != nil {
		return s, "", fmt.Errorf("%s: %s to %q: %w", s.path, step.Kind, step.To, err)
	}
	return s, to, nil
}

// Owns lists the kinds of setting that this driver changes.
func (d *Driver) Owns() []plan.SettingKind {
	return []plan.SettingKind{plan.UnitCPUs, plan.HostFile, plan.HostIRQ}
}

// SurvivesBoot reports whether settings of the kind outlive a restart of the machine:
// none does, units are set for this boot only.
func (d *Driver) SurvivesBoot(plan.SettingKind) bool { return false }

// Changes reads the one value that Apply(step) would change; none of a unit that is to be
// stopped, for nobody starts that again.
func (d *Driver) Changes(ctx context.Context, step plan.Step) ([]plan.Change, error) {
	if step.Kind == plan.StopUnit {
		return nil, stoppable(step)
	}
	s, _, err := wanted(step)
	if err != nil {
		return nil, err
	}
	value, err := d.read(ctx, s)
	if err != nil {
		return nil, err
	}
	will := step.To
	if s.form == list || s.form == mask {
		cpus, err := topology.ParseCPUSet(step.To)
		if err != nil {
			return nil, err
		}
		will = cpus.String()
	}
	return []plan.Change{{Setting: plan.Setting{Kind: s.kind, Path: s.path, Value: value}, Will: will}}, nil
}

// Read reads the setting of an entry. Its value is that of the entry which stands for
// the same, as it is written there: Old as the file has it, the others as in a step.
func (d *Driver) Read(ctx context.Context, entry plan.Entry) (plan.Setting, error) {
	now := plan.Setting{Kind: entry.Kind, Path: entry.Path}
	s, err := parse(entry.Kind, entry.Path)
	if err != nil {
		return now, err
	}
	if now.Value, err = d.read(ctx, s); err != nil {
		return now, err
	}
	if s.kind == plan.UnitCPUs && now.Value != "" {
		// Who writes the cgroup behind systemd's back has set it as well.
		if have, err := d.files.Read(cgroupFile(s.path)); err == nil && !s.same(have, now.Value) {
			now.Value = have
		}
	}
	now.Value = entry.Known(now.Value, func(value string, old bool) bool {
		if old {
			return s.same(now.Value, value)
		}
		text, err := s.text(value)
		return err == nil && s.same(now.Value, text)
	})
	return now, nil
}

// unitName is a service or scope (systemd.unit(5)).
var unitName = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`^[A-Za-z0-9:_.\\@-]{1,247}\.(service|scope)$`)
})

// stoppable reports whether a step names a unit that may be stopped.
func stoppable(step plan.Step) error {
	if unit := step.Target.Host; step.Target.Kind != workload.InHost || !unitName().MatchString(unit) ||
		strings.HasPrefix(unit, "init.") {
		return fmt.Errorf("%s: %q on a %s is no service or scope", step.Workload, unit, step.Target.Kind)
	}
	return nil
}

// Apply makes the step true and reads back that it is. That systemd was asked to stop a unit is
// all that is waited for: its processes have the time to end that the unit gives them.
func (d *Driver) Apply(ctx context.Context, step plan.Step, _ func(plan.Move)) error {
	if step.Kind == plan.StopUnit {
		if err := stoppable(step); err != nil {
			return err
		}
		return d.units.Stop(ctx, step.Target.Host)
	}
	s, to, err := wanted(step)
	if err != nil {
		return err
	}
	before, err := d.read(ctx, s)
	if err != nil || s.same(before, to) {
		return err
	}
	err = d.write(ctx, s, to)
	if err == nil || kernfile.Gone(err) || errors.Is(err, plan.ErrFixed) {
		return err
	}
	// An interrupted change is restored, too.
	if back := d.write(context.WithoutCancel(ctx), s, before); back != nil {
		return errors.Join(err, fmt.Errorf("restore: %w", back))
	}
	return err
}

// Restore puts Old of each entry back and reads back that it stands.
func (d *Driver) Restore(ctx context.Context, entries []plan.Entry) []error {
	return plan.Each(ctx, entries, d.restore)
}

func (d *Driver) restore(ctx context.Context, entry plan.Entry) error {
	s, err := parse(entry.Kind, entry.Path)
	if err != nil {
		return err
	}
	now, err := d.read(ctx, s)
	if err != nil || now == entry.Old {
		return err
	}
	return d.write(ctx, s, entry.Old)
}

// Present returns nil while the setting of the entry is there.
func (d *Driver) Present(entry plan.Entry) error {
	s, err := parse(entry.Kind, entry.Path)
	if err != nil || s.kind == plan.UnitCPUs {
		return err // slices and scopes of the host stay as long as it runs
	}
	_, err = d.read(context.Background(), s)
	return err
}

func (d *Driver) read(ctx context.Context, s setting) (string, error) {
	if err := ctx.Err(); err != nil {
		return "", err
	}
	if s.kind == plan.UnitCPUs {
		cpus, err := d.units.AllowedCPUs(ctx, s.path)
		return cpus.String(), err
	}
	if s.kind == plan.HostIRQ {
		number, _, _ := strings.Cut(s.path, "/")
		name, err := d.files.Read("sys/kernel/irq/" + number + "/actions")
		if err == nil && strings.TrimSpace(name) != s.name {
			err = fs.ErrNotExist // the number is another's now
		}
		if err != nil {
			return "", fmt.Errorf("interrupt %s: %w", s.path, err)
		}
	}
	var value string
	err := fs.ErrNotExist
	if s.file == hostprep.Workqueue { // the requested mask, on kernels that show it
		value, err = d.files.Read(hostprep.WorkqueueRequested)
	}
	if errors.Is(err, fs.ErrNotExist) {
		value, err = d.files.Read(s.file)
	}
	if err != nil {
		return "", fmt.Errorf("%s: %w", s.path, err)
	}
	if s.form == word {
		value = hostprep.Choice(value)
	}
	return value, nil
}

// write changes a value and reads back that it holds.
func (d *Driver) write(ctx context.Context, s setting, value string) error {
	if s.kind == plan.UnitCPUs {
		cpus, err := topology.ParseCPUSet(value)
		if err == nil {
			err = d.units.SetAllowedCPUs(ctx, s.path, cpus)
		}
		if err != nil {
			return err
		}
	} else if err := d.files.Write(s.file, value+"\n"); err != nil {
		return refused(s, value, err)
	}
	now, err := d.read(ctx, s)
	if err != nil {
		return err
	}
	switch {
	case !s.same(now, value) && poolFile().MatchString(s.file):
		return fmt.Errorf(
			"%s: %s pages instead of %s: the kernel found no more in one piece, or those there are in use", s.path, now,
			value)
	case !s.same(now, value):
		return fmt.Errorf("%s: it is %q after %q was written; someone else may be writing it", s.path, now, value)
	case s.kind == plan.UnitCPUs:
		return d.followed(ctx, s, value)
	}
	return nil
}

// cgroupFile is where systemd writes the CPUs of a unit.
func cgroupFile(unit string) string {
	return "sys/fs/cgroup" + hostprep.CgroupOf(unit) + "/cpuset.cpus"
}

// followed waits until the cgroup of a unit has what systemd was told.
func (d *Driver) followed(ctx context.Context, s setting, value string) error {
	file := cgroupFile(s.path)
	for until := time.Now().Add(d.follow); ; {
		have, err := d.files.Read(file)
		if (err == nil && s.same(have, value)) || (value == "" && errors.Is(err, fs.ErrNotExist)) {
			return nil // systemd turns the controller off where nothing needs it
		}
		if time.Now().After(until) {
			return fmt.Errorf("%s: systemd was told %q, and %s does not follow (%q, %v)", s.path, value, "/"+file, have,
				err)
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(10 * time.Millisecond):
		}
	}
}

// refused puts the kernel's answer to a write in words.
func refused(s setting, value string, err error) error {
	why := kernfile.Why(err)
	switch {
	case s.kind == plan.HostIRQ && kernfile.Fixed(err):
		return &plan.FixedError{What: "interrupt " + s.path, Err: err}
	case errors.Is(err, unix.ENOSPC):
		why = "; the CPUs have no interrupt vector left"
	}
	return fmt.Errorf("%s: write %q: %w%s", s.path, value, err, why)
}

// files is the part of the machine's tree that is used here, or a model of it.
type files interface {
	Read(name string) (string, error)
	Write(name, text string) error
}
