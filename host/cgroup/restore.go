package cgroup

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/homenode/homenode/core/plan"
)

// Nothing tries a restore again by itself, and on a machine with many tasks for each CPU a healthy
// workload may need longer than freezeWithin: it is tried some times with a pause, in which the
// workload runs.
const (
	restoreTries = 4
	restorePause = 500 * time.Millisecond
)

// Restore puts Old of each entry back and reads back that it stands. Entries of one
// cgroup have to come in the reverse of the order in which they were changed.
func (d *Driver) Restore(ctx context.Context, entries []plan.Entry) []error {
	return plan.Each(ctx, entries, d.restore)
}

func (d *Driver) restore(ctx context.Context, entry plan.Entry) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if err := d.Present(entry); err != nil {
		// A kernel without the controller has nothing left to restore, but only
		// a person can know why it is gone: leave the entry.
		return err
	}
	switch {
	case entry.Kind.IsController():
		return d.restoreControllers(entry.Path, entry.Old, controlOf(entry.Kind))
	case entry.Kind == plan.CgroupCPUs, entry.Kind == plan.CgroupMems:
		err := d.putBack(ctx, entry.Path, entry.Kind, entry.Old)
		for tried := 1; errors.Is(err, plan.ErrNotFrozen) && tried < restoreTries && ctx.Err() == nil; tried++ {
			time.Sleep(restorePause)
			err = d.putBack(ctx, entry.Path, entry.Kind, entry.Old)
		}
		return err
	case entry.Kind.IsCgroupFile():
		return d.putBackValue(entry.Path, entry.Kind, entry.Old)
	}
	return fmt.Errorf("cgroup %s: no setting of kind %q", entry.Path, entry.Kind)
}

// Present returns nil while the cgroup of the entry exists: one that was made anew under
// the same path is another.
func (d *Driver) Present(entry plan.Entry) error {
	if err := d.present(entry.Path, controlOf(entry.Kind)); err != nil || entry.Object == "" {
		return err
	}
	object, err := d.files.object(entry.Path)
	if err != nil {
		return d.lost(entry.Path, err)
	}
	if object != entry.Object {
		return gone(entry.Path)
	}
	return nil
}

// putBack writes the old value of a set.
func (d *Driver) putBack(ctx context.Context, cgroup string, kind plan.SettingKind, old string) error {
	now, err := d.files.read(cgroup, string(kind))
	if errors.Is(err, fs.ErrNotExist) {
		off, lost := d.off(cgroup, cpusets)
		if lost != nil {
			return lost
		}
		if len(off) == 0 {
			return fmt.Errorf("cgroup %s: %v", cgroup, err) // it is there now
		}
		if old == "" {
			return nil // the controller was turned off since, and the set went with it
		}
		return fmt.Errorf("cgroup %s: %s cannot go back to %s: the controller was turned off since", cgroup, kind, old)
	}
	if err != nil {
		return d.refused(cgroup, string(kind), old, err)
	}
	if same(now, old) {
		return nil
	}
	err = d.writeSet(ctx, cgroup, kind, old+"\n")
	if old == "" && errors.Is(err, unix.ENOSPC) {
		return d.inherit(ctx, cgroup, kind, now)
	}
	if err != nil {
		return d.refused(cgroup, string(kind), old, err)
	}
	return d.stands(cgroup, kind, old)
}

// inherit gives a populated cgroup the effect of the empty set: see doc.go.
func (d *Driver) inherit(ctx context.Context, cgroup string, kind plan.SettingKind, now string) error {
	all, err := d.possible(kind)
	if err != nil {
		return fmt.Errorf("cgroup %s: %s back to inherit: %v", cgroup, kind, err)
	}
	if same(now, all) {
		return nil
	}
	if err := d.writeSet(ctx, cgroup, kind, all+"\n"); err != nil {
		return d.refused(cgroup, string(kind), all, err)
	}
	return d.stands(cgroup, kind, all)
}

func (d *Driver) stands(cgroup string, kind plan.SettingKind, want string) error {
	now, err := d.value(cgroup, kind)
	if err != nil {
		return err
	}
	if !same(now, want) {
		return fmt.Errorf("cgroup %s: %s is %q after %q was written; someone else may be writing it", cgroup, kind, now,
			want)
	}
	return nil
}

// restoreControllers turns the controller off again if it was off in old and no
// child has a set of its own any more.
func (d *Driver) restoreControllers(cgroup, old string, ctl *control) error {
	if slices.Contains(strings.Fields(old), ctl.name) { // of a version that kept the whole list
		return nil
	}
	now, err := d.files.read(cgroup, subtreeControl)
	if err != nil {
		return d.lost(cgroup, err)
	}
	if !slices.Contains(strings.Fields(now), ctl.name) {
		return nil
	}
	children, err := d.files.children(cgroup)
	if err != nil {
		return d.lost(cgroup, err)
	}
	for _, c := range children {
		uses, err := d.uses(c, ctl)
		if err != nil {
			return err
		}
		if uses {
			return &InUseError{ctl.name, cgroup, c}
		}
	}
	if err := d.mayAttach(cgroup, ctl); err != nil {
		return err
	}
	err = d.files.write(cgroup, subtreeControl, ctl.off())
	if errors.Is(err, unix.EBUSY) {
		return &InUseError{Controller: ctl.name, Cgroup: cgroup}
	}
	if err != nil {
		return d.refused(cgroup, subtreeControl, ctl.off(), err)
	}
	if now, err = d.files.read(cgroup, subtreeControl); err != nil {
		return d.lost(cgroup, err)
	}
	if slices.Contains(strings.Fields(now), ctl.name) {
		return &InUseError{Controller: ctl.name, Cgroup: cgroup}
	}
	return nil
}

// uses reports whether turning the controller off would lose something of a
// child. The set of all possible CPUs or nodes is nothing: Restore writes it.
func (d *Driver) uses(child string, c *control) (bool, error) {
	if c != cpusets {
		return d.usesValues(child, c)
	}
	for _, kind := range []plan.SettingKind{plan.CgroupCPUs, plan.CgroupMems} {
		v, err := d.files.read(child, string(kind))
		if errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ENODEV) {
			continue // removed meanwhile
		}
		if err != nil {
			return false, fmt.Errorf("cgroup %s: %w", child, err)
		}
		if v == "" {
			continue
		}
		if all, err := d.possible(kind); err != nil || !same(v, all) {
			return true, nil
		}
	}
	if p, err := d.files.read(child, partitionFile); err == nil && p != "member" {
		return true, nil
	}
	return false, nil
}

// possible is every CPU or node that the kernel may ever have, in list format.
func (d *Driver) possible(kind plan.SettingKind) (string, error) {
	file := "sys/devices/system/cpu/possible"
	if kind == plan.CgroupMems {
		file = "sys/devices/system/node/possible"
	}
	set, err := d.list(file)
	return set.String(), err
}
