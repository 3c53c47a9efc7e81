package probe

import (
	"errors"
	"fmt"
	"os"
	"os/signal"
	"runtime"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/host/internal/numa"
)

// ErrNoRealtime says that SCHED_FIFO was asked for and cannot be had.
var ErrNoRealtime = errors.New("--rt is not possible here")

// Bounds of real time. A sample takes 2 to 10 ms.
const (
	// fifoRest is slept before each sample: other work of the CPU gets its turn.
	// What RLIMIT_RTTIME counts starts anew when a thread wakes up with real-time
	// priority, and only then (enqueue_task_rt, kernel/sched/rt.c).
	fifoRest = time.Millisecond
	// fifoLimit is when the watchdog takes the priority away.
	fifoLimit = 100 * time.Millisecond
	// rttimeSoft and rttimeHard, in µs, are the kernel's own net below it
	// (getrlimit(2)): SIGXCPU, which counts as the watchdog, then SIGKILL.
	rttimeSoft, rttimeHard = 200_000, 2_000_000
)

// realtime runs single samples of one thread under SCHED_FIFO, never longer
// than a sample: between them the thread has normal priority. A watchdog on
// another CPU takes the priority away should a sample not end.
type realtime struct {
	tid     int
	allowed topology.CPUSet
	base    unix.SchedAttr // normal, with the nice value there was
	start   time.Time
	entered atomic.Int64 // ns since start; 0 outside a sample
	cpu     atomic.Int64 // that measures, where the watchdog is not
	fired   atomic.Bool
	stop    chan struct{}
	done    chan struct{}
}

// newRealtime is for the calling thread, which must be locked to its goroutine.
func newRealtime(allowed topology.CPUSet) (*realtime, error) {
	if allowed.Len() < 2 {
		return nil, fmt.Errorf("%w: the watchdog that ends it needs a second CPU", ErrNoRealtime)
	}
	r := &realtime{tid: unix.Gettid(), allowed: allowed, start: time.Now(), stop: make(chan struct{}),
		done: make(chan struct{})}
	r.cpu.Store(-1)
	base, err := unix.SchedGetAttr(0, 0)
	if err != nil {
		return nil, fmt.Errorf("%w: read the scheduling of this thread: %w", ErrNoRealtime, err)
	}
	r.base = *base
	// Threads that the runtime starts from this one get normal priority. An
	// unprivileged thread may not take the flag off again, so it stays.
	r.base.Flags |= unix.SCHED_FLAG_RESET_ON_FORK
	// It stays: only a privileged process may raise it again, and it matters to
	// nothing but real time.
	var limit unix.Rlimit
	if err = unix.Getrlimit(unix.RLIMIT_RTTIME, &limit); err == nil {
		err = unix.Setrlimit(unix.RLIMIT_RTTIME,
			&unix.Rlimit{Cur: min(rttimeSoft, limit.Cur), Max: min(rttimeHard, limit.Max)})
	}
	if err != nil {
		return nil, fmt.Errorf("%w: set RLIMIT_RTTIME: %w", ErrNoRealtime, err)
	}
	err = fifo(1)
	if back := r.normal(); err == nil {
		err = back
	}
	if err != nil {
		return nil,
			fmt.Errorf("%w: SCHED_FIFO needs root, CAP_SYS_NICE or an rtprio limit, and a cgroup with real-time "+
				"budget: %w", ErrNoRealtime, err)
	}
	go r.watch()
	return r, nil
}

// fifo gives the calling thread a real-time priority; 1, the lowest, is above all
// ordinary work.
func fifo(priority uint32) error {
	return unix.SchedSetAttr(0, &unix.SchedAttr{Size: unix.SizeofSchedAttr, Policy: unix.SCHED_FIFO, Priority: priority,
		Flags: unix.SCHED_FLAG_RESET_ON_FORK}, 0)
}

func (r *realtime) normal() error { return r.normalOf(0) }

// normalOf works on a copy: the call writes to its argument.
func (r *realtime) normalOf(tid int) error {
	base := r.base
	return unix.SchedSetAttr(tid, &base, 0)
}

// enter begins a sample; a nil realtime does nothing.
func (r *realtime) enter() {
	if r == nil || r.fired.Load() {
		return
	}
	_ = fifo(1) // it worked before; without it the sample is an ordinary one
	time.Sleep(fifoRest)
	// Only from here on is the time this thread's own.
	r.entered.Store(max(1, int64(time.Since(r.start))))
}

// leave ends a sample.
func (r *realtime) leave() {
	if r != nil && r.entered.Load() != 0 {
		r.entered.Store(0)
		_ = r.normal()
	}
}

// watch is the watchdog. It stays on CPUs other than the one that is measured,
// above the priority it watches over, and asks nothing of the runtime's timers,
// which on a busy machine wait for their turn.
func (r *realtime) watch() {
	runtime.LockOSThread()
	defer close(r.done)
	defer numa.Kernel{}.SetAffinity(0, r.allowed)
	defer r.normal()
	_ = fifo(2)
	over := make(chan os.Signal, 1)
	signal.Notify(over, unix.SIGXCPU)
	defer signal.Stop(over)
	pause := unix.NsecToTimespec(int64(fifoLimit / 5))
	for away := int64(-1); ; {
		if cpu := r.cpu.Load(); cpu != away {
			away = cpu
			_ = numa.Kernel{}.SetAffinity(0, r.allowed.Minus(topology.CPUs(topology.CPUID(cpu))))
		}
		_ = unix.Nanosleep(&pause, nil)
		// The clock first: this thread may be off its CPU before the next line.
		now := int64(time.Since(r.start))
		since := r.entered.Load()
		late := since != 0 && now-since > int64(fifoLimit)
		select {
		case <-r.stop:
			return
		case <-over:
			late = true
		default:
		}
		if late && r.fired.CompareAndSwap(false, true) {
			_ = r.normalOf(r.tid)
		}
	}
}

// close ends the watchdog.
func (r *realtime) close() {
	if r == nil {
		return
	}
	_ = r.normal()
	close(r.stop)
	<-r.done
}
