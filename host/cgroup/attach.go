package cgroup

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"slices"

	"github.com/homenode/homenode/core/plan"
	"github.com/homenode/homenode/core/workload"
)

// A process that comes to another cpuset has its memory policies rebound, with its lock taken
// while the kernel holds cpuset_mutex (cpuset_attach, kernel/cgroup/cpuset.c). Turning the
// controller on or off gives every process below another cpuset. From Linux 6.2 on the kernel
// skips that where the CPUs and nodes in effect stay the same, as they do here: a controller
// goes on with empty sets, and off when no child has a set (7fd4da9c1584). Older kernels take
// the lock of each process. A freeze is no guard: it would be of all services, homenode too,
// and a process that moves is thawed before it is rebound. So each process is asked first
// whether its lock is free; one that takes it in the milliseconds between is not seen.

// rebindsAlways reports whether the kernel takes the locks although nothing changes.
func (d *Driver) rebindsAlways() bool {
	text, err := fs.ReadFile(d.root, "proc/sys/kernel/osrelease")
	var major, minor int
	if n, _ := fmt.Sscanf(string(text), "%d.%d", &major, &minor); err != nil || n != 2 {
		return false
	}
	return major < 6 || (major == 6 && minor < 2)
}

// mayAttach returns an error when turning a controller on or off for the children of a cgroup
// would wait for the lock of a process.
func (d *Driver) mayAttach(cgroup string, c *control) error {
	if c != cpusets || d.answers == nil || !d.rebindsAlways() {
		return nil
	}
	below, err := d.processesBelow(cgroup)
	var hidden *plan.UnsupportedError
	if err != nil && !errors.As(err, &hidden) {
		return err
	}
	for _, pid := range slices.Sorted(maps.Keys(below)) {
		if err := d.holdsLock(cgroup, pid); err != nil {
			return err
		}
	}
	return nil
}

// holdsLock returns an error when a process holds the lock of its memory.
func (d *Driver) holdsLock(cgroup string, pid int) error {
	if d.answers == nil {
		return nil
	}
	start := d.startOf(pid)
	if start == 0 {
		return nil // it has ended
	}
	if err := d.answers(workload.Process{PID: pid, Start: start}); errors.Is(err, plan.ErrNoAnswer) {
		return &LockedError{cgroup, pid}
	}
	return nil
}
