package process

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/core/workload"
)

// maxPasses bounds how often all threads are gone through for new ones. A thread
// inherits the affinity of the one that makes it, so that only those are left
// over whose maker had not had its turn: two or three passes do.
const maxPasses = 50

// change sets affinities and knows how they were.
type change struct {
	*Driver
	old   map[int]topology.CPUSet // by thread
	gave  map[int]topology.CPUSet // what a thread had of it when that was read back
	order []setThread
	// cut: accept a result that lacks CPUs, which are offline, or not the cgroup's at the moment: the
	// kernel gives them once the cgroup has them (user_cpus_ptr, kernel/sched/core.c).
	cut bool
}

type setThread struct {
	workload.Process
	tid int
}

// everywhere repeats a pass until it finds nothing to change.
func (c *change) everywhere(ctx context.Context, pass func() (int, error)) error {
	for range maxPasses {
		if err := ctx.Err(); err != nil {
			return err
		}
		n, err := pass()
		if err != nil {
			return err
		}
		if n == 0 {
			return nil
		}
	}
	return fmt.Errorf("affinity: threads were still changing after %d passes", maxPasses)
}

// orNothing is everywhere, and restores the affinities of before when that fails. Also when all processes are
// gone: children changed before may live on.
func (c *change) orNothing(ctx context.Context, pass func() (int, error)) error {
	if err := c.everywhere(ctx, pass); err != nil {
		return errors.Join(err, c.putBack())
	}
	return nil
}

// threads sets each thread of p to what want says, which is asked with what it has, and
// reports how many changed.
func (c *change) threads(p workload.Process, want func(tid int, has topology.CPUSet) topology.CPUSet) (int, error) {
	if err := c.proc.check(p); err != nil {
		return 0, err
	}
	threads, err := c.proc.threads(p.PID)
	if err != nil {
		return 0, err
	}
	n := 0
	for _, tid := range threads {
		changed, err := c.thread(p, tid, want)
		if isGone(err) {
			if c.proc.hasThread(p.PID, tid) {
				n++ // it only looked gone: another pass
			}
			continue
		}
		if err != nil {
			return n, err
		}
		if changed {
			n++
		}
	}
	return n, nil
}

func (c *change) thread(p workload.Process, tid int,
	wants func(tid int, has topology.CPUSet) topology.CPUSet) (changed bool, err error) {
	has, err := c.kernel.Affinity(tid)
	if err != nil {
		return false, err
	}
	want := wants(tid, has)
	_, done := c.old[tid]
	if c.holds(has, want) || (done && c.cut && has.SubsetOf(want)) {
		return false, nil
	}
	if err := c.proc.check(p); err != nil {
		return false, err
	}
	err = c.kernel.SetAffinity(tid, want)
	// The thread may have ended and its ID have gone to a stranger between the
	// listing and the call.
	if !c.proc.hasThread(p.PID, tid) || isGone(c.proc.check(p)) {
		if err == nil {
			c.kernel.SetAffinity(tid, has)
		}
		return false, exited(tid)
	}
	if err == nil {
		if _, seen := c.old[tid]; !seen {
			c.old[tid] = has
			c.order = append(c.order, setThread{p, tid})
		}
		delete(c.gave, tid)
		if has, err = c.kernel.Affinity(tid); err != nil {
			return false, err
		}
		if c.gave == nil {
			c.gave = map[int]topology.CPUSet{}
		}
		if c.gave[tid] = want; has.SubsetOf(want) {
			c.gave[tid] = has
		}
	}
	if err == nil && (c.holds(has, want) || (c.cut && has.SubsetOf(want))) {
		return true, nil
	}
	if err != nil && !errors.Is(err, unix.EINVAL) {
		if errors.Is(err, unix.EPERM) {
			err = fmt.Errorf("%w; it belongs to another user, which needs root", err)
		}
		return false, err
	}
	return false, &MismatchError{Thread: tid, Want: want, Have: has, Why: c.whyNot(p, want, has)}
}

func (c *change) holds(has, want topology.CPUSet) bool {
	if has.Equal(want) {
		return true
	}
	if !c.cut {
		return false
	}
	online, err := c.proc.online()
	return err == nil && has.Equal(want.Intersect(online))
}

func (c *change) whyNot(p workload.Process, want, has topology.CPUSet) string {
	missing := want.Minus(has)
	if online, err := c.proc.online(); err == nil {
		if off := missing.Minus(online); !off.Empty() {
			return fmt.Sprintf("CPU %s is offline", off)
		}
	}
	if cgroup, err := c.proc.cgroup(p.PID); err == nil && !missing.Empty() {
		return fmt.Sprintf("its cgroup does not allow CPU %s (%s)", missing, oneLine(cgroup))
	}
	return "someone else may be setting it"
}

// putBack undoes a change that failed half way. A thread that somebody else has given CPUs meanwhile
// keeps them.
func (c *change) putBack() error {
	var errs []error
	for _, s := range slices.Backward(c.order) {
		err := c.proc.check(s.Process)
		if isGone(err) || (err == nil && !c.proc.hasThread(s.PID, s.tid)) {
			continue
		}
		if err != nil { // whose the thread is now is not known
			errs = append(errs, fmt.Errorf("restore: %w", err))
			continue
		}
		if gave, known := c.gave[s.tid]; known {
			if has, err := c.kernel.Affinity(s.tid); err == nil && !has.Equal(gave) {
				continue
			}
		}
		if err := c.kernel.SetAffinity(s.tid, c.old[s.tid]); err != nil && !isGone(err) {
			errs = append(errs, fmt.Errorf("restore: %w", err))
		}
	}
	return errors.Join(errs...)
}
