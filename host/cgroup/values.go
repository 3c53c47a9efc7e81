package cgroup

import (
	"errors"
	"fmt"
	"io/fs"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/homenode/homenode/core/plan"
	"github.com/homenode/homenode/core/workload"
)

// control is a controller that this driver turns on.
type control struct {
	name   string
	kind   plan.SettingKind
	file   string // that a cgroup has when it is on
	gives  string // what there is with it, in words
	config string // of the kernel
}

var (
	cpusets = &control{"cpuset", plan.CgroupControllers, string(plan.CgroupCPUs), "CPU sets", "CONFIG_CPUSETS"}
	cpus    = &control{"cpu", plan.CPUController, string(plan.CgroupWeight), "shares of CPU time", "CONFIG_FAIR_GROUP_SCHED"}
	known   = []*control{cpusets, cpus}
)

// The values of a setting of a controller: whether the children of a cgroup have it.
func (c *control) on() string  { return "+" + c.name }
func (c *control) off() string { return "-" + c.name }

// controlOf is the controller that a kind of setting needs or is; nil when it needs none.
func controlOf(kind plan.SettingKind) *control {
	for _, c := range known {
		if kind == c.kind || strings.HasPrefix(string(kind), c.name+".") {
			return c
		}
	}
	return nil
}

// idleWeight is what cpu.weight reads as where cpu.idle is 1: the kernel then has a weight of
// its own, which it writes as 0 or 1, and takes none (sched_group_set_shares, kernel/sched/fair.c).
const idleWeight = "idle"

// valueChanges reads what a set-cgroup step would change. Where cpu.idle is turned on the
// kernel forgets cpu.weight: it is remembered first, to be put back last.
func (d *Driver) valueChanges(step plan.Step) ([]plan.Change, error) {
	kind, err := wantedValue(&step)
	if err != nil {
		return nil, err
	}
	cgroup, c := step.Target.Cgroup, controlOf(kind)
	off, err := d.off(cgroup, c)
	if err != nil {
		return nil, err
	}
	var last []plan.Change
	add := func(kind plan.SettingKind, will string) error {
		now := plan.CgroupFiles[kind]
		if len(off) == 0 {
			if now, err = d.valueNow(cgroup, kind); err != nil {
				return err
			}
		}
		last = append(last, plan.Change{Setting: plan.Setting{Kind: kind, Path: cgroup, Value: now}, Will: will})
		return nil
	}
	if kind == plan.CgroupIdle && step.To == "1" {
		if err := add(plan.CgroupWeight, idleWeight); err != nil {
			return nil, err
		}
	}
	if err := add(kind, step.To); err != nil {
		return nil, err
	}
	return d.changes(off, c, last...)
}

// wantedValue reads the step.
func wantedValue(step *plan.Step) (plan.SettingKind, error) {
	kind := plan.SettingKind(step.Target.File)
	if step.Target.Kind != workload.InCgroup {
		return "", fmt.Errorf("target of %s is not a cgroup but a %s", step.Workload, step.Target.Kind)
	}
	if err := checkPath(step.Target.Cgroup); err != nil {
		return "", err
	}
	if !kind.IsCgroupFile() || step.Target.Cgroup == "/" {
		return "", fmt.Errorf("cgroup %s: it has no %q that homenode sets", step.Target.Cgroup, step.Target.File)
	}
	if step.To == "" || strings.ContainsAny(step.To, "\n") {
		return "", fmt.Errorf("cgroup %s: %s to %q: want one line", step.Target.Cgroup, kind, step.To)
	}
	return kind, nil
}

// valueNow is one value as it is written here.
func (d *Driver) valueNow(cgroup string, kind plan.SettingKind) (string, error) {
	if kind == plan.CgroupWeight {
		if idle, err := d.files.read(cgroup, string(plan.CgroupIdle)); err == nil && idle == "1" {
			return idleWeight, nil
		}
	}
	text, err := d.files.read(cgroup, string(kind))
	if errors.Is(err, fs.ErrNotExist) {
		if lost := d.present(cgroup, nil); lost != nil {
			return "", lost
		}
		if c := controlOf(kind); c != nil {
			if off, _ := d.off(cgroup, c); len(off) > 0 { // somebody turned it off
				return plan.CgroupFiles[kind], nil
			}
		}
		return "", plan.Unsupported(string(kind), sinceKernel[kind])
	}
	if err != nil {
		return "", d.lost(cgroup, err)
	}
	return strings.TrimSpace(text), nil
}

// sinceKernel is what brings a file that is missing though its controller is there.
var sinceKernel = map[plan.SettingKind]string{
	plan.CgroupIdle: "Linux 5.15", plan.CgroupWeight: "CONFIG_FAIR_GROUP_SCHED", plan.CgroupMax: "CONFIG_CFS_BANDWIDTH", plan.CgroupFreeze: "Linux 5.2",
}

// applyValue makes a set-cgroup step true and reads back that it is.
func (d *Driver) applyValue(step plan.Step) error {
	kind, err := wantedValue(&step)
	if err != nil {
		return err
	}
	return d.with(controlOf(kind), step, kind, func() error { return d.setValue(step.Target.Cgroup, kind, step.To) })
}

// setValue writes one value and checks that it stands.
func (d *Driver) setValue(cgroup string, kind plan.SettingKind, want string) error {
	before, err := d.valueNow(cgroup, kind)
	if err != nil || sameValue(before, want) {
		return err
	}
	if err := d.writeValue(cgroup, kind, want); err != nil {
		return err
	}
	now, err := d.valueNow(cgroup, kind)
	switch {
	case err != nil:
		return err
	case !sameValue(now, want):
		return errors.Join(fmt.Errorf("cgroup %s: %s is %q after %q was written; someone else may be writing it", cgroup, kind, now, want), d.writeValue(cgroup, kind, before))
	}
	return nil
}

func sameValue(a, b string) bool {
	return strings.Join(strings.Fields(a), " ") == strings.Join(strings.Fields(b), " ")
}

func (d *Driver) writeValue(cgroup string, kind plan.SettingKind, value string) error {
	err := d.files.write(cgroup, string(kind), value+"\n")
	switch {
	case err == nil:
		return nil
	case errors.Is(err, unix.EINVAL), errors.Is(err, unix.ERANGE):
		return fmt.Errorf("cgroup %s: write %q to %s: %w; the kernel takes no such value there", cgroup, value, kind, err)
	}
	return d.refused(cgroup, string(kind), value, err)
}

// putBackValue writes the old value of a file. A weight is put back once cpu.idle is: the
// kernel takes none before.
func (d *Driver) putBackValue(cgroup string, kind plan.SettingKind, old string) error {
	now, err := d.valueNow(cgroup, kind)
	if err != nil || sameValue(now, old) {
		return err
	}
	if old == idleWeight { // it was idle before homenode, and is so again with cpu.idle
		return nil
	}
	if kind == plan.CgroupWeight && now == idleWeight {
		return fmt.Errorf("cgroup %s: cpu.weight cannot go back to %s while cpu.idle is 1, which somebody else has set", cgroup, old)
	}
	return d.setValue(cgroup, kind, old)
}

// usesValues reports whether turning a controller off would lose something of a child.
func (d *Driver) usesValues(child string, c *control) (bool, error) {
	for kind, unset := range plan.CgroupFiles {
		if controlOf(kind) != c {
			continue
		}
		v, err := d.valueNow(child, kind)
		var missing *plan.UnsupportedError
		switch {
		case errors.Is(err, fs.ErrNotExist), errors.As(err, &missing):
		case err != nil:
			return false, err
		case !sameValue(v, unset):
			return true, nil
		}
	}
	return false, nil
}
