package process

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"

	"github.com/homenode/homenode/core/plan"
	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/host/internal/numa"
)

// What taskset(1) and migratepages(8) do of a process that runs: one system call, by a person's order.
// Nothing of it is written down.

// SetAffinityOf gives a thread CPUs, as sched_setaffinity(2) takes them; 0 is the calling thread.
func SetAffinityOf(tid int, cpus topology.CPUSet) error { return numa.Kernel{}.SetAffinity(tid, cpus) }

// ThreadsOf is the threads of a process, rising; the error is unix.ESRCH when it has ended.
func ThreadsOf(pid int) ([]int, error) {
	tids, err := threadsOf(pid)
	if errors.Is(err, os.ErrNotExist) {
		return nil, unix.ESRCH
	}
	return tids, err
}

// Migrate moves the pages of a process that lie on from to the nodes to, and returns how many could not be
// moved (migrate_pages(2)).
func Migrate(pid int, from, to topology.NodeSet) (left int, err error) {
	left, err = numa.Kernel{}.MigratePages(pid, from, to)
	if errors.Is(err, unix.ENOSYS) {
		err = plan.Unsupported("moving pages", "a kernel with CONFIG_MIGRATION and CONFIG_NUMA")
	}
	return left, err
}
