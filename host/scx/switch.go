package scx

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/homenode/homenode/host/internal/proc"
)

const policyExt = 7 // SCHED_EXT, include/uapi/linux/sched.h

// Threads lists the IDs of threads that are there now.
type Threads func() ([]int, error)

// CgroupThreads lists the threads of a cgroup v2 and of those below it; a cgroup that is gone has none.
func CgroupThreads(dir string) Threads {
	return func() ([]int, error) {
		var tids []int
		err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
			if errors.Is(err, fs.ErrNotExist) {
				return nil
			}
			if err != nil || !d.IsDir() {
				return err
			}
			b, err := os.ReadFile(filepath.Join(path, "cgroup.threads"))
			if errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ENODEV) {
				return nil // gone meanwhile
			}
			if err != nil {
				return err
			}
			for _, f := range strings.Fields(string(b)) {
				if tid, err := strconv.Atoi(f); err == nil && tid > 0 {
					tids = append(tids, tid)
				}
			}
			return nil
		})
		return tids, err
	}
}

// ProcessThreads lists the threads of processes; one that has ended has none.
func ProcessThreads(pids []int) Threads {
	return func() (tids []int, err error) {
		for _, pid := range pids {
			entries, _ := os.ReadDir(filepath.Join("/proc", strconv.Itoa(pid), "task"))
			for _, e := range entries {
				if tid, err := strconv.Atoi(e.Name()); err == nil {
					tids = append(tids, tid)
				}
			}
		}
		return tids, nil
	}
}

// calls are the system calls, so that tests need no kernel with sched_ext.
type calls struct {
	get   func(tid int) (*unix.SchedAttr, error)
	set   func(tid int, a *unix.SchedAttr) error
	start func(tid int) (uint64, error)
	ran   func(tid int) (uint64, error)
	ready func(tid int) bool
}

var kernel = calls{
	get: func(tid int) (*unix.SchedAttr, error) { return unix.SchedGetAttr(tid, 0) },
	set: func(tid int, a *unix.SchedAttr) error { return unix.SchedSetAttr(tid, a, 0) },
	start: func(tid int) (uint64, error) {
		s, err := stat(tid)
		return s.Start, err
	},
	ran: ranFor,
	ready: func(tid int) bool { // it runs, or waits for a CPU
		s, err := stat(tid)
		return err == nil && s.State == 'R'
	},
}

func stat(tid int) (proc.Stat, error) {
	b, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(tid), "stat"))
	if err != nil {
		return proc.Stat{}, err
	}
	return proc.ParseStat(b)
}

// maxPasses bounds how often Switch looks again for threads that began meanwhile. Those of a
// thread that is switched inherit its policy, so that a few passes find them all.
const maxPasses = 100

// Switch puts threads into SCHED_EXT, and looks again until it finds none that it has not
// switched. n is how many it put there. Threads under a realtime or deadline policy, those that
// end meanwhile, and those that set another policy themselves once they are switched are left alone.
func Switch(ctx context.Context, threads Threads) (n int, err error) {
	return kernel.switchTo(ctx, threads)
}

func (c calls) switchTo(ctx context.Context, threads Threads) (n int, err error) {
	done := map[int]uint64{} // start by TID: each may set its policy itself, and would never be done with
	for range maxPasses {
		tids, err := threads()
		if err != nil {
			return n, fmt.Errorf("switch to SCHED_EXT: %w", err)
		}
		found := false
		for _, tid := range tids {
			if err := ctx.Err(); err != nil {
				return n, err
			}
			a, err := c.get(tid)
			if err != nil || !fair(a.Policy) {
				continue // ended, or not ours to change
			}
			start, err := c.start(tid)
			if last, was := done[tid]; err != nil || (was && last == start) {
				continue
			}
			found, done[tid] = true, start
			a.Policy = policyExt
			if err := c.set(tid, a); errors.Is(err, unix.ESRCH) {
				continue
			} else if err != nil {
				return n, fmt.Errorf("switch thread %d to SCHED_EXT: %w", tid, err)
			}
			n++
		}
		if !found {
			return n, nil
		}
	}
	return n, fmt.Errorf("switch to SCHED_EXT: after %d looks there are still threads that are not", maxPasses)
}

// fair says whether a policy is one of the fair class: SCHED_OTHER, SCHED_BATCH, SCHED_IDLE.
func fair(policy uint32) bool { return policy == 0 || policy == 3 || policy == 5 }

// SwitchBack takes threads out of SCHED_EXT, to SCHED_OTHER. They keep their nice value.
func SwitchBack(ctx context.Context, threads Threads) (n int, err error) {
	return kernel.switchBack(ctx, threads)
}

func (c calls) switchBack(ctx context.Context, threads Threads) (n int, err error) {
	for range maxPasses {
		tids, err := threads()
		if err != nil {
			return n, fmt.Errorf("switch back from SCHED_EXT: %w", err)
		}
		left := 0
		for _, tid := range tids {
			if err := ctx.Err(); err != nil {
				return n, err
			}
			a, err := c.get(tid)
			if err != nil || a.Policy != policyExt {
				continue
			}
			a.Policy = 0
			if err := c.set(tid, a); errors.Is(err, unix.ESRCH) {
				continue
			} else if err != nil {
				return n, fmt.Errorf("switch thread %d back from SCHED_EXT: %w", tid, err)
			}
			left++
			n++
		}
		if left == 0 {
			return n, nil
		}
	}
	return n, fmt.Errorf("switch back from SCHED_EXT: after %d looks there are still threads that are", maxPasses)
}
