package cgroup

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"slices"
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
	cpus    = &control{"cpu", plan.CPUController, string(plan.CgroupWeight), "shares of CPU time",
		"CONFIG_FAIR_GROUP_SCHED"}
	memory  = &control{"memory", plan.MemoryController, string(plan.MemoryHigh), "limits of memory", "CONFIG_MEMCG"}
	devices = &control{"io", plan.IOController, "io.stat", "shares of block devices", "CONFIG_BLK_CGROUP"}
	known   = []*control{cpusets, cpus, memory, devices}
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
// kernel forgets cpu.weight: it is remembered first, to be restored last.
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
	protection := kind == plan.MemoryLow || kind == plan.MemoryMin
	if protection && step.To != plan.CgroupFiles[kind] {
		if err := d.protects(cgroup, kind); err != nil {
			return nil, err
		}
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
	if (step.To == "" && kind != plan.IOMax) || strings.ContainsAny(step.To, "\n") {
		return "", fmt.Errorf("cgroup %s: %s to %q: want one line", step.Target.Cgroup, kind, step.To)
	}
	return kind, nil
}

// protects is nil where memory.low or memory.min of a cgroup has an effect: what a cgroup above has bounds it
// (effective_protection, mm/page_counter.c).
func (d *Driver) protects(cgroup string, kind plan.SettingKind) error {
	ofUnit := map[plan.SettingKind]string{plan.MemoryLow: "MemoryLow=", plan.MemoryMin: "MemoryMin="}
	for _, above := range ancestors(cgroup) {
		value, err := d.files.read(above, string(kind))
		if err == nil && value == "0" {
			needs := fmt.Sprintf("%s of %s, which is 0 (%s of its unit) and bounds what is below", kind, above,
				ofUnit[kind])
			return plan.Unsupported(string(kind), needs)
		}
	}
	return nil
}

// quota is what cpu.max gives a cgroup in a period, in µs as it is written; "max" for no limit.
func (d *Driver) quota(cgroup string) string {
	text, _ := d.files.read(cgroup, "cpu.max")
	quota, _, _ := strings.Cut(text, " ")
	return quota
}

// noLimit is a device of io.max without a limit.
const noLimit = " rbps=max wbps=max riops=max wiops=max"

// ioLines is io.max with one line a device.
func ioLines(text string) map[string]string {
	out := map[string]string{}
	for line := range strings.FieldsFuncSeq(text, func(r rune) bool { return r == '\n' || r == ';' }) {
		if device, _, _ := strings.Cut(strings.TrimSpace(line), " "); device != "" {
			out[device] = strings.TrimSpace(line)
		}
	}
	return out
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
		return "", plan.Unsupported(string(kind), plan.CgroupFileNeeds[kind])
	}
	if err != nil {
		return "", d.lost(cgroup, err)
	}
	switch text = strings.TrimSpace(text); kind {
	case plan.IOWeight: // "default 100", and a line for each device that has another
		for line := range strings.Lines(text) {
			if rest, ok := strings.CutPrefix(line, "default "); ok {
				return strings.TrimSpace(rest), nil
			}
		}
	case plan.IOMax:
		lines := ioLines(text)
		var out []string
		for _, device := range slices.Sorted(maps.Keys(lines)) {
			out = append(out, lines[device])
		}
		return strings.Join(out, "; "), nil
	case plan.CgroupPartition: // "isolated invalid (REASON)" where the kernel cannot have it so
		kind, _, _ := strings.Cut(text, " ")
		return kind, nil
	case plan.CgroupBurst:
		if text != "0" && text == d.quota(cgroup) {
			return plan.WholeQuota, nil
		}
	}
	return text, nil
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
	if bad := d.invalid(cgroup, kind, want); bad != nil && err == nil {
		return errors.Join(bad, d.writeValue(cgroup, kind, before))
	}
	switch {
	case err != nil:
		return err
	case !sameValue(now, want):
		return errors.Join(fmt.Errorf("cgroup %s: %s is %q after %q was written; someone else may be writing it",
			cgroup, kind, now, want), d.writeValue(cgroup, kind, before))
	}
	return nil
}

// invalid returns why the kernel does not have a cgroup as the partition that was written.
func (d *Driver) invalid(cgroup string, kind plan.SettingKind, want string) error {
	if kind != plan.CgroupPartition || want == plan.CgroupFiles[kind] {
		return nil
	}
	text, err := d.files.read(cgroup, string(kind))
	if err != nil {
		return err
	}
	_, why, is := strings.Cut(strings.TrimSpace(text), " invalid")
	if !is {
		return nil
	}
	return fmt.Errorf("cgroup %s: the kernel makes it no partition%s", cgroup, why)
}

func sameValue(a, b string) bool {
	return strings.Join(strings.Fields(a), " ") == strings.Join(strings.Fields(b), " ")
}

func (d *Driver) writeValue(cgroup string, kind plan.SettingKind, value string) error {
	texts := []string{value}
	switch kind {
	case plan.IOWeight:
		texts[0] = "default " + value
	case plan.CgroupBurst:
		if value == plan.WholeQuota {
			if texts[0] = d.quota(cgroup); texts[0] == "max" || texts[0] == "" {
				return fmt.Errorf("cgroup %s: it has no limit in cpu.max that cpu.max.burst could add to", cgroup)
			}
		}
	case plan.IOMax: // a line a write (blkg_conf_prep, block/blk-cgroup.c)
		now, _ := d.files.read(cgroup, string(kind))
		want := ioLines(value)
		for device := range ioLines(now) {
			want[device] = cmp.Or(want[device], device+noLimit)
		}
		texts = texts[:0]
		for _, device := range slices.Sorted(maps.Keys(want)) {
			texts = append(texts, want[device])
		}
	}
	var err error
	for _, text := range texts {
		err = cmp.Or(err, d.files.write(cgroup, string(kind), text+"\n"))
	}
	switch {
	case err == nil:
		return nil
	case errors.Is(err, unix.EINVAL), errors.Is(err, unix.ERANGE):
		return fmt.Errorf("cgroup %s: write %q to %s: %w; the kernel takes no such value there", cgroup, value, kind,
			err)
	}
	return d.refused(cgroup, string(kind), value, err)
}

// putBackValue writes the old value of a file. A weight is restored once cpu.idle is: the
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
		return fmt.Errorf("cgroup %s: cpu.weight cannot go back to %s while cpu.idle is 1, which somebody else has set",
			cgroup, old)
	}
	return d.setValue(cgroup, kind, old)
}

// lost is more that goes with a controller, with the value that each has where nobody has set it.
var lost = map[plan.SettingKind]string{"memory.max": "max", "memory.swap.max": "max", "memory.oom.group": "0"}

// usesValues reports whether turning a controller off would lose something of a child.
func (d *Driver) usesValues(child string, c *control) (bool, error) {
	all := maps.Clone(plan.CgroupFiles)
	maps.Copy(all, lost)
	for kind, unset := range all {
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
