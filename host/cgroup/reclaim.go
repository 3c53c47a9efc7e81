package cgroup

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strconv"

	"golang.org/x/sys/unix"

	"github.com/homenode/homenode/core/plan"
	"github.com/homenode/homenode/core/workload"
)

const (
	// reclaimFile has the kernel reclaim memory of a cgroup when a number of bytes is written (Linux 5.19,
	// memory_reclaim in mm/memcontrol.c). Where the kernel demotes, it moves pages to a slower tier first.
	reclaimFile = "memory.reclaim"
	// reclaimPart is the bytes of one write: the kernel returns from it when it has reclaimed them, and nothing
	// stops it before. 4 MiB take milliseconds.
	reclaimPart = 4 << 20
)

// reclaims returns nil where a reclaim-memory step can be carried out.
func (d *Driver) reclaims(step *plan.Step) error {
	if _, err := reclaimBytes(step); err != nil {
		return err
	}
	if err := d.present(step.Target.Cgroup, memory); err != nil {
		return err
	}
	off, err := d.off(step.Target.Cgroup, memory)
	if err != nil {
		return err
	}
	if len(off) > 0 {
		return fmt.Errorf("cgroup %s: the memory controller is off, so that it has no %s", step.Target.Cgroup,
			reclaimFile)
	}
	return nil
}

// reclaimBytes reads a reclaim-memory step.
func reclaimBytes(step *plan.Step) (int64, error) {
	if step.Target.Kind != workload.InCgroup {
		return 0, fmt.Errorf("target of %s is not a cgroup but a %s", step.Workload, step.Target.Kind)
	}
	if err := checkPath(step.Target.Cgroup); err != nil {
		return 0, err
	}
	n, err := strconv.ParseInt(step.To, 10, 64)
	if err != nil || n <= 0 || step.Target.Cgroup == "/" {
		return 0, fmt.Errorf("cgroup %s: reclaim %q: want bytes, and not of the root", step.Target.Cgroup, step.To)
	}
	return n, nil
}

// reclaim has the kernel reclaim memory part by part, until it has reclaimed all or finds no more. It fails when
// the kernel finds none at all.
func (d *Driver) reclaim(ctx context.Context, step *plan.Step) error {
	left, err := reclaimBytes(step)
	if err != nil {
		return err
	}
	cgroup := step.Target.Cgroup
	if err := d.Present(plan.Entry{Kind: plan.MemoryHigh, Path: cgroup, Object: step.Target.Object}); err != nil {
		return err
	}
	for first := true; left > 0 && ctx.Err() == nil; first = false {
		part := min(left, reclaimPart)
		err := d.files.write(cgroup, reclaimFile, strconv.FormatInt(part, 10)+"\n")
		switch {
		case err == nil:
		case errors.Is(err, unix.EAGAIN) && !first, errors.Is(err, unix.EINTR):
			return nil
		case errors.Is(err, unix.EAGAIN):
			return fmt.Errorf("cgroup %s: the kernel finds nothing to reclaim", cgroup)
		case errors.Is(err, fs.ErrNotExist) && d.present(cgroup, nil) == nil:
			return plan.Unsupported(reclaimFile, "Linux 5.19")
		default:
			return d.refused(cgroup, reclaimFile, step.To, err)
		}
		left -= part
	}
	return nil
}
