package irq

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"regexp"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/homenode/homenode/core/plan"
	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/core/workload"
)

// Driver carries out steps on interrupts and queues.
type Driver struct{ files files }

// New returns a driver on the machine below root ("/" for this one). It touches
// nothing yet.
func New(root string) *Driver { return &Driver{files: disk{root}} }

// FixedError says that the kernel manages an interrupt and lets nobody change it.
type FixedError struct {
	Path string
	Err  error // of the write
}

func (e *FixedError) Error() string {
	return fmt.Sprintf("interrupt %s is managed by the kernel, which refuses changes: %v", e.Path, e.Err)
}

// Unwrap makes the error known as one that trying again does not help.
func (e *FixedError) Unwrap() error { return plan.ErrFixed }

// setting is one file with a CPU set.
type setting struct {
	kind plan.SettingKind
	path string // in steps and the journal
	pci  string
	dev  string // of a queue
	file string // below the root; "" of a number of queues
}

var (
	countPath = regexp.MustCompile(`^([0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7])/([^/\s]{1,15})$`)
	irqPath   = regexp.MustCompile(`^([0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7])/([0-9]{1,9})$`)
	queuePath = regexp.MustCompile(`^([0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7])/([^/\s]{1,15})/((rx|tx)-[0-9]{1,5})$`)
)

// parse reads a path out of a step or the journal.
func parse(kind plan.SettingKind, path string) (setting, error) {
	s := setting{kind: kind, path: path}
	if kind == plan.IRQAffinity {
		m := irqPath.FindStringSubmatch(path)
		if m == nil {
			return s, fmt.Errorf("%q is not PCI/N", path)
		}
		s.pci, s.file = m[1], "proc/irq/"+m[2]+"/smp_affinity_list"
		return s, nil
	}
	if kind == plan.QueueCount {
		m := countPath.FindStringSubmatch(path)
		if m == nil || m[2] == "." || m[2] == ".." {
			return s, fmt.Errorf("%q is not PCI/DEV", path)
		}
		s.pci, s.dev = m[1], m[2]
		return s, nil
	}
	m := queuePath.FindStringSubmatch(path)
	way := map[plan.SettingKind]string{plan.RPSCPUs: "rx", plan.XPSCPUs: "tx"}[kind]
	if m == nil || m[4] != way || m[2] == "." || m[2] == ".." {
		return s, fmt.Errorf("%q is not the path of a setting of kind %q", path, kind)
	}
	s.pci, s.dev, s.file = m[1], m[2], "sys/class/net/"+m[2]+"/queues/"+m[3]+"/"+string(kind)
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
	plan.SetIRQ: plan.IRQAffinity, plan.SetRPS: plan.RPSCPUs, plan.SetXPS: plan.XPSCPUs, plan.SetQueues: plan.QueueCount,
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

// Settings reads the one value that Apply(step) would change; for a number of queues
// also the interrupts and queues of the device, which drivers set anew with it.
func (d *Driver) Settings(ctx context.Context, step plan.Step) ([]plan.Setting, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	s, _, err := wanted(step)
	if err != nil {
		return nil, err
	}
	value, err := d.read(s)
	if err != nil {
		return nil, err
	}
	out := []plan.Setting{{Kind: s.kind, Path: s.path, Value: value}}
	if s.kind == plan.QueueCount {
		more, err := d.dependents(s)
		if err != nil {
			return nil, err
		}
		out = append(out, more...)
	}
	return out, nil
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
	err = d.write(s, value)
	if err == nil || gone(err) || errors.Is(err, plan.ErrFixed) {
		return err
	}
	if back := d.write(s, before); back != nil {
		return errors.Join(err, fmt.Errorf("put back: %w", back))
	}
	return err
}

// Restore puts entry.Old back and reads back that it stands.
func (d *Driver) Restore(ctx context.Context, entry plan.Entry) error {
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
	return d.write(s, entry.Old)
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
	if _, err := d.files.list(root); err != nil {
		return fmt.Errorf("%s: %v", s.path, err) // not to be taken for an interrupt that is gone
	}
	if s.dev != "" {
		link, err := d.files.link("sys/class/net/" + s.dev)
		if err == nil && !strings.Contains(link, "/"+s.pci+"/") {
			err = fs.ErrNotExist
		}
		if err != nil {
			return fmt.Errorf("%s: %w", s.path, err)
		}
	} else if _, err := d.files.read("sys/bus/pci/devices/" + s.pci + "/msi_irqs" + s.path[len(s.pci):]); err != nil {
		return fmt.Errorf("%s: %w", s.path, err)
	}
	if s.file == "" {
		return nil
	}
	if _, err := d.files.read(s.file); err != nil {
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
	value, err := d.files.read(s.file)
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
	if err := d.files.write(s.file, value+"\n"); err != nil {
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
		return fmt.Errorf("%s: %s is %q after %q was written; someone else may be writing it", s.path, s.kind, now, value)
	}
	return nil
}

// refused puts the kernel's answer to a write in words.
func refused(s setting, value string, err error) error {
	var at *fs.PathError
	wrote := errors.As(err, &at) && at.Op == "write"
	why := ""
	switch {
	case s.kind == plan.IRQAffinity && wrote && (errors.Is(err, unix.EPERM) || errors.Is(err, unix.EIO)):
		return &FixedError{s.path, err}
	case errors.Is(err, unix.EROFS):
		why = "; it is mounted read-only, as in a container"
	case errors.Is(err, unix.EACCES), errors.Is(err, unix.EPERM):
		why = "; writing needs root"
	case errors.Is(err, unix.EINVAL):
		why = "; none of these CPUs is online"
	case errors.Is(err, unix.ENOSPC):
		why = "; the CPUs have no interrupt vector left"
	}
	return fmt.Errorf("%s: write %q to %s: %w%s", s.path, value, s.kind, err, why)
}

func gone(err error) bool {
	return errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ENODEV)
}
