//go:build linux

package openloop

import (
	"runtime"
	"runtime/debug"
	"sync"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Step is load that rises at once: threads wake at the same moment, once a period, and work for a while. It is the
// experiment of Caladan (Fried and others, OSDI 2020, section 7.3). It sleeps and reads the clock by raw system calls,
// so that Go's scheduler has no part in what it counts.
type Step struct {
	Threads int
	Period  time.Duration
	Warm    int    // steps before anything is counted
	Count   int    // steps that are counted
	Work    func() // what each thread does in a step; it should take less than the period
	Begun   func() // called when the next step counts, unless nil
}

// Run returns how late each thread ran in each counted step, in ns. The process is Run's alone: it collects no garbage
// from then on.
func (s Step) Run() (late [][]int64) {
	debug.SetGCPercent(-1)
	runtime.GOMAXPROCS(s.Threads + 1)
	first := Monotonic() + int64(100*time.Millisecond)
	late = make([][]int64, s.Threads)
	var all sync.WaitGroup
	for i := range s.Threads {
		late[i] = make([]int64, 0, s.Count)
		all.Go(func() {
			runtime.LockOSThread()
			for k := range s.Warm + s.Count {
				at := first + int64(k)*int64(s.Period)
				SleepUntil(at)
				if k >= s.Warm {
					late[i] = append(late[i], Monotonic()-at)
				}
				s.Work()
			}
		})
	}
	if s.Begun != nil {
		SleepUntil(first + int64(s.Warm)*int64(s.Period) - int64(s.Period)/2)
		s.Begun()
	}
	all.Wait()
	return late
}

// Monotonic is CLOCK_MONOTONIC, in ns.
func Monotonic() int64 { return clock(unix.CLOCK_MONOTONIC) }

// WorkFor keeps the thread that calls it on a CPU until it has used so much CPU time. The thread must be the
// goroutine's own (runtime.LockOSThread).
func WorkFor(d time.Duration) {
	for end := clock(unix.CLOCK_THREAD_CPUTIME_ID) + int64(d); clock(unix.CLOCK_THREAD_CPUTIME_ID) < end; {
	}
}

func clock(id uintptr) int64 {
	var ts unix.Timespec
	syscall.RawSyscall(unix.SYS_CLOCK_GETTIME, id, uintptr(unsafe.Pointer(&ts)), 0)
	return ts.Nano()
}

// SleepUntil sleeps until a time of CLOCK_MONOTONIC, in ns.
func SleepUntil(at int64) {
	ts := unix.NsecToTimespec(at)
	interrupted := unix.EINTR
	for interrupted == unix.EINTR {
		_, _, interrupted = syscall.RawSyscall6(unix.SYS_CLOCK_NANOSLEEP, unix.CLOCK_MONOTONIC, unix.TIMER_ABSTIME,
			uintptr(unsafe.Pointer(&ts)), 0, 0, 0)
	}
}
