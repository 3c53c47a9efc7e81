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
// experiment of Caladan (Fried and others, OSDI 2020, section 7.3).
//
// Go's scheduler has no part in this, or it would wake threads of its own each time: its monitor marks a goroutine that
// sleeps in a raw system call, and the next function with a stack check yields. So the loop and all functions that the
// loop calls are nosplit functions, which have none. The process must have GODEBUG=asyncpreemptoff=1.
type Step struct {
	Threads int
	Period  time.Duration
	Warm    int              // steps before anything is counted
	Count   int              // steps that are counted
	Work    func(of uintptr) // what each thread does in a step, in less than a period; a nosplit function
	Of      uintptr          // how much work
	Begun   func()           // called when the next step counts, unless nil
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
		late[i] = make([]int64, s.Count)
		all.Go(func() {
			runtime.LockOSThread()
			s.thread(first, late[i])
		})
	}
	if s.Begun != nil {
		SleepUntil(first + int64(s.Warm)*int64(s.Period) - int64(s.Period)/2)
		s.Begun()
	}
	all.Wait()
	return late
}

// thread is the loop of one thread.
//
//go:nosplit
func (s *Step) thread(first int64, late []int64) {
	for k := range s.Warm + s.Count {
		at := first + int64(k)*int64(s.Period)
		SleepUntil(at)
		if k >= s.Warm {
			late[k-s.Warm] = Monotonic() - at
		}
		s.Work(s.Of)
	}
}

// Monotonic is CLOCK_MONOTONIC, in ns.
//
//go:nosplit
func Monotonic() int64 { return clock(unix.CLOCK_MONOTONIC) }

// WorkFor keeps the thread that calls it on a CPU until it has used so many ns of CPU time. The thread must be the
// goroutine's own (runtime.LockOSThread).
//
//go:nosplit
func WorkFor(ns uintptr) {
	for end := clock(unix.CLOCK_THREAD_CPUTIME_ID) + int64(ns); clock(unix.CLOCK_THREAD_CPUTIME_ID) < end; {
	}
}

//go:nosplit
func clock(id uintptr) int64 {
	var ts unix.Timespec
	syscall.RawSyscall(unix.SYS_CLOCK_GETTIME, id, uintptr(unsafe.Pointer(&ts)), 0)
	return int64(ts.Sec)*1e9 + int64(ts.Nsec)
}

// SleepUntil sleeps until a time of CLOCK_MONOTONIC, in ns.
//
//go:nosplit
func SleepUntil(at int64) {
	ts := unix.Timespec{Sec: at / 1e9, Nsec: at % 1e9}
	interrupted := unix.EINTR
	for interrupted == unix.EINTR {
		_, _, interrupted = syscall.RawSyscall6(unix.SYS_CLOCK_NANOSLEEP, unix.CLOCK_MONOTONIC, unix.TIMER_ABSTIME,
			uintptr(unsafe.Pointer(&ts)), 0, 0, 0)
	}
}
