package irq

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"regexp"
	"strconv"
	"strings"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/homenode/homenode/core/plan"
	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/core/workload"
	"github.com/homenode/homenode/host/internal/kernfile"
)

// Driver carries out steps on interrupts and queues.
type Driver struct{ files files }

// New returns a driver on the machine below root ("/" for this one). It touches
// nothing yet.
func New(root string) *Driver { return &Driver{files: disk{kernfile.Tree(root)}} }

// setting is one file with a CPU set.
type setting struct {
	kind plan.SettingKind
	path string // in steps and the journal
	pci  string
	dev  string // of a queue
	file string // below the root; "" of a number of queues
}

var (
	countPath = sync.OnceValue(func() *regexp.Regexp {
		return regexp.MustCompile(`^([0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7])/([^/\s]{1,15})$`)
	})
	irqPath = sync.OnceValue(func() *regexp.Regexp {
		return regexp.MustCompile(`^([0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7])/([0-9]{1,9})$`)
	})
	queuePath = sync.OnceValue(func() *regexp.Regexp {
		return regexp.MustCompile(`^([0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7])/([^/\s]{1,15})/((rx|tx)-[0-9]{1,5})$`)
	})
)

// parse reads a path out of a step or the journal.
func parse(kind plan.SettingKind, path string) (setting, error) {
	s := setting{kind: kind, path: path}
	if kind == plan.IRQAffinity {
		m := irqPath().FindStringSubmatch(path)
		if m == nil {
			return s, fmt.Errorf("%q is not PCI/N", path)
		}
		s.pci, s.file = m[1], "proc/irq/"+m[2]+"/smp_affinity_list"
		return s, nil
	}
	if kind == plan.QueueCount {
		m := countPath().FindStringSubmatch(path)
		if m == nil || m[2] == "." || m[2] == ".." {
			return s, fmt.Errorf("%q is not PCI/DEV", path)
		}
		s.pci, s.dev = m[1], m[2]
		return s, nil
	}
	m := queuePath().FindStringSubmatch(path)
	way := map[plan.SettingKind]string{plan.RPSCPUs: "rx", plan.XPSCPUs: "tx"}[kind]
	if m == nil || m[4] != way || m[2] == "." || m[2] == ".." {
		return s, fmt.Errorf("%q is not the path of a setting of kind %q", path, kind)
	}
	s.pci = m[1]
	s.dev = m[2]
	s.file = "sys/class/net/" + m[2] + "/queues/" + m[3] + "/" + string(kind)
	return s, nil
}

// set reads the CPU set that a value stands for.
func (s setting) set(value string) (topology.CPUSet, error) {
	if s.kind == plan.IRQAffinity {
		return topology.ParseCPUSet(value)
	}
	return topology.ParseMask(value)
}

// value writes a CPU set as the file wants it.
func (s setting) value(cpus topology.CPUSet) string {
	if s.kind == plan.IRQAffinity {
		return cpus.String()
	}
	return topology.Mask(cpus)
}

var kinds = map[plan.StepKind]plan.SettingKind{
	plan.SetIRQ: plan.IRQAffinity, plan.SetRPS: plan.RPSCPUs, plan.SetXPS: plan.XPSCPUs,
	plan.SetQueues: plan.QueueCount,
}

// wanted reads a step.
func wanted(step plan.Step) (setting, topology.CPUSet, error) {
	var to topology.CPUSet
	kind, ok := kinds[step.Kind]
	if !ok || step.Target.Kind != workload.InDevice {
		return setting{}, to, fmt.Errorf("%s: no step of kind %q on a %s", step.Workload, step.Kind, step.Target.Kind)
	}
	s, err := parse(kind, step.Target.Device)
	if err != nil {
		return s, to, err
	}
	if kind == plan.QueueCount {
		if n, err := strconv.Atoi(step.To); err != nil || n < 1 {
			return s, to, fmt.Errorf("%s: %s to %q; want a number", s.path, step.Kind, step.To)
		}
		return s, to, nil
	}
	if to, err = topology.ParseCPUSet(step.To); err != nil {
		return s, to, fmt.Errorf("%s: %s to %w", s.path, step.Kind, err)
	}
	if to.Empty() {
		return s, to, fmt.Errorf("%s: %s to the empty set", s.path, step.Kind)
	}
	return s, to, nil
}

// Owns lists the kinds of setting that this driver changes.
func (d *Driver) Owns() []plan.SettingKind {
	return []plan.SettingKind{plan.IRQAffinity, plan.RPSCPUs, plan.XPSCPUs, plan.QueueCount}
}

// SurvivesBoot reports whether settings of the kind outlive a restart of the machine:
// none does.
func (d *Driver) SurvivesBoot(plan.SettingKind) bool { return false }

// Changes reads the one value that Apply(step) would change; for a number of queues
// also the interrupts and queues of the device, which drivers set anew with it: Apply
// then gives them back what they had.
func (d *Driver) Changes(ctx context.Context, step plan.Step) ([]plan.Change, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	s, to, err := wanted(step)
	if err != nil {
		return nil, err
	}
	value, err := d.read(s)
	if err != nil {
		return nil, err
	}
	will := to.String()
	if s.kind == plan.QueueCount {
		will = step.To
	}
	out := []plan.Change{{Setting: plan.Setting{Kind: s.kind, Path: s.path, Value: value}, Will: will}}
	more, err := d.dependents(s)
	if err != nil {
		return nil, err
	}
	for _, h := range more {
		cpus, err := setting{kind: h.Kind}.set(h.Value)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", h.Path, err)
		}
		out = append(out, plan.Change{Setting: h, Will: cpus.String()})
	}
	return out, nil
}

// Read reads the setting of an entry. Its value is that of the entry which stands for
// the same CPUs, as it is written there: Old as the file has it, the others as a list.
func (d *Driver) Read(ctx context.Context, entry plan.Entry) (plan.Setting, error) {
	now := plan.Setting{Kind: entry.Kind, Path: entry.Path}
	if err := ctx.Err(); err != nil {
		return now, err
	}
	s, err := parse(entry.Kind, entry.Path)
	if err != nil {
		return now, err
	}
	if now.Value, err = d.read(s); err != nil || s.kind == plan.QueueCount {
		return now, err
	}
	cpus, err := s.set(now.Value)
	if err != nil {
		return now, fmt.Errorf("%s: %w", s.path, err)
	}
	now.Value = entry.Known(now.Value, func(value string, old bool) bool {
		set, err := topology.ParseCPUSet(value)
		if old {
			set, err = s.set(value)
		}
		return err == nil && set.Equal(cpus)
	})
	return now, nil
}

// Apply makes the step true and reads back that it is.
func (d *Driver) Apply(ctx context.Context, step plan.Step, _ func(plan.Move)) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	s, to, err := wanted(step)
	if err != nil {
		return err
	}
	before, err := d.read(s)
	if err != nil {
		return err
	}
	value := step.To
	if s.kind != plan.QueueCount {
		if have, err := s.set(before); err == nil && have.Equal(to) {
			return nil
		}
		value = s.value(to)
	} else if before == value {
		return nil
	}
	had, err := d.dependents(s)
	if err != nil {
		return err
	}
	if err = d.write(s, value); err == nil {
		err = d.setAgain(had)
	}
	if err == nil || kernfile.Gone(err) || errors.Is(err, plan.ErrFixed) {
		return err
	}
	if back := errors.Join(d.write(s, before), d.setAgain(had)); back != nil {
		return errors.Join(err, fmt.Errorf("restore: %w", back))
	}
	return err
}

// Restore puts Old of each entry back and reads back that it stands.
func (d *Driver) Restore(ctx context.Context, entries []plan.Entry) []error {
	return plan.Each(ctx, entries, d.restore)
}

func (d *Driver) restore(ctx context.Context, entry plan.Entry) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	s, err := parse(entry.Kind, entry.Path)
	if err != nil {
		return err
	}
	now, err := d.read(s)
	if err != nil || now == entry.Old {
		return err
	}
	had, err := d.dependents(s)
	if err != nil {
		return err
	}
	if err := d.write(s, entry.Old); err != nil {
		return err
	}
	return d.setAgain(had)
}

// Present returns nil while the interrupt or queue of the entry exists on its device.
func (d *Driver) Present(entry plan.Entry) error {
	s, err := parse(entry.Kind, entry.Path)
	if err != nil {
		return err
	}
	return d.present(s)
}

// present tells an interrupt or queue that is no longer its device's from trees that
// are not there.
func (d *Driver) present(s setting) error {
	root := "proc/irq"
	if s.dev != "" {
		root = "sys/class/net"
	}
	if _, err := d.files.List(root); err != nil {
		return fmt.Errorf("%s: %v", s.path, err) // not to be taken for an interrupt that is gone
	}
	if s.dev != "" {
		link, err := d.files.Link("sys/class/net/" + s.dev)
		if err == nil && !strings.Contains(link, "/"+s.pci+"/") {
			err = fs.ErrNotExist
		}
		if err != nil {
			return fmt.Errorf("%s: %w", s.path, err)
		}
	} else if _, err := d.files.Read("sys/bus/pci/devices/" + s.pci + "/msi_irqs" + s.path[len(s.pci):]); err != nil {
		return fmt.Errorf("%s: %w", s.path, err)
	}
	if s.file == "" {
		return nil
	}
	if _, err := d.files.Read(s.file); err != nil {
		return fmt.Errorf("%s: %w", s.path, err)
	}
	return nil
}

func (d *Driver) read(s setting) (string, error) {
	if err := d.present(s); err != nil {
		return "", err
	}
	if s.kind == plan.QueueCount {
		now, _, err := d.files.channels(s.dev)
		if err != nil {
			return "", fmt.Errorf("%s: read its number of queues: %w", s.path, err)
		}
		return strconv.Itoa(now), nil
	}
	value, err := d.files.Read(s.file)
	if err != nil {
		return "", fmt.Errorf("%s: %w", s.path, err)
	}
	return value, nil
}

// write changes a value and reads back that it holds.
func (d *Driver) write(s setting, value string) error {
	if s.kind == plan.QueueCount {
		return d.setCount(s, value)
	}
	if err := d.files.Write(s.file, value+"\n"); err != nil {
		return refused(s, value, err)
	}
	want, err := s.set(value)
	if err != nil {
		return fmt.Errorf("%s: %w", s.path, err)
	}
	now, err := d.read(s)
	if err != nil {
		return err
	}
	if have, err := s.set(now); err != nil || !have.Equal(want) {
		return fmt.Errorf("%s: %s is %q after %q was written; someone else may be writing it", s.path, s.kind, now,
			value)
	}
	return nil
}

// refused puts the kernel's answer to a write in words.
func refused(s setting, value string, err error) error {
	why := kernfile.Why(err)
	switch {
	case s.kind == plan.IRQAffinity && kernfile.Fixed(err):
		return &plan.FixedError{What: "interrupt " + s.path, Err: err}
	case errors.Is(err, unix.EINVAL):
		why = "; none of these CPUs is online"
	case errors.Is(err, unix.ENOSPC):
		why = "; the CPUs have no interrupt vector left"
	}
	return fmt.Errorf("%s: write %q to %s: %w%s", s.path, value, s.kind, err, why)
}
