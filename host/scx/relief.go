package scx

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// Relief keeps the kernel's watchdog from ending the scheduler where the guard has no say.
//
// The guard acts when a CPU asks for a batch task. While online work leaves a CPU no moment,
// none asks: up to Linux 6.19 none at all, and since 7.0 the deadline server of SCHED_EXT asks
// until it is refused once, and then not again before all SCHED_EXT tasks of the CPU slept
// (__pick_task_dl, kernel/sched/deadline.c; enqueue_task_scx, kernel/sched/ext.c). So a thread
// that waits and does not run is given back to the fair class. There cpu.idle of its cgroup
// makes it the last, but it has its turn, however many wait.
//
// The zero Relief is ready. Its methods may be called from several goroutines.
type Relief struct {
	After time.Duration // a thread that waited for so long is given back; 0 is 5 s
	Rest  time.Duration // for so long it stays there; 0 is 1 minute

	mu      sync.Mutex
	waits   map[int]wait // by TID
	resting map[int]rest // by TID
	given   uint64
}

// wait is a thread that may be waiting.
type wait struct {
	ran   uint64    // ns that it ran, ever
	since time.Time // when it was first seen ready without having run; zero: it was not
}

type rest struct {
	start uint64 // of the thread
	until time.Time
}

// Look is to be called at least every After: a thread is given back once two calls that are After
// apart found it ready, and not run since the call before. n is how many were now.
func (r *Relief) Look(now time.Time, threads Threads) (n int, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	tids, err := threads()
	if err != nil {
		return 0, fmt.Errorf("look for threads that wait: %w", err)
	}
	var errs []error
	waits := map[int]wait{}
	for _, tid := range tids {
		a, err := kernel.get(tid)
		if err != nil || a.Policy != policyExt {
			continue
		}
		ran, err := kernel.ran(tid)
		if err != nil {
			continue // ended
		}
		w, known := r.waits[tid]
		if !known || w.ran != ran || !kernel.ready(tid) {
			waits[tid] = wait{ran: ran}
			continue
		}
		if w.since.IsZero() {
			w.since = now
		}
		if now.Sub(w.since) < cmp.Or(r.After, 5*time.Second) {
			waits[tid] = w
			continue
		}
		start, err := kernel.start(tid)
		if err != nil {
			continue
		}
		a.Policy = 0
		if err := kernel.set(tid, a); err != nil && !errors.Is(err, unix.ESRCH) {
			errs = append(errs, fmt.Errorf("give thread %d back: %w", tid, err))
			continue
		}
		if r.resting == nil {
			r.resting = map[int]rest{}
		}
		r.resting[tid] = rest{start, now.Add(cmp.Or(r.Rest, time.Minute))}
		n++
	}
	for tid, t := range r.resting {
		if !now.Before(t.until) {
			delete(r.resting, tid)
		}
	}
	r.waits = waits
	r.given += uint64(n)
	return n, errors.Join(errs...)
}

// rests says whether a thread was given back and is to stay there for now.
func (r *Relief) rests(tid int) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	t, ok := r.resting[tid]
	if !ok {
		return false
	}
	start, err := kernel.start(tid)
	return err == nil && start == t.start
}

// givenBack counts the threads that were given back.
func (r *Relief) givenBack() uint64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.given
}

// ranFor is how many ns a thread ran, ever: the first field of /proc/TID/schedstat
// (Documentation/scheduler/sched-stats.rst).
func ranFor(tid int) (uint64, error) {
	b, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(tid), "schedstat"))
	if err != nil {
		return 0, err
	}
	first, _, _ := strings.Cut(string(b), " ")
	return strconv.ParseUint(first, 10, 64)
}
