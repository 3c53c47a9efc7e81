//go:build linux

package main

import (
	"os"
	"os/exec"
	"runtime"
	"runtime/debug"
	"strconv"
	"sync/atomic"
	"syscall"
	"time"
	"unsafe"
)

// hog computes on so many threads, for ever.
func hog(threads string) error {
	n, err := strconv.Atoi(threads)
	if err != nil {
		return err
	}
	// Each goroutine has a thread of its own from now on, and nothing takes it from there: in runs
	// such a program without preemption.
	debug.SetGCPercent(-1)
	runtime.GOMAXPROCS(n + 1)
	var began atomic.Int32
	for range n - 1 {
		go func() {
			began.Add(1)
			spin()
		}()
	}
	for int(began.Load()) < n-1 {
		time.Sleep(time.Millisecond)
	}
	spin()
	return nil
}

func spin() {
	for i := uint64(0); ; i++ {
		if i&0xfffff == 0 {
			runtime.KeepAlive(i) // keeps the loop
		}
	}
}

// bursts works for a millisecond, then sleeps for two, as a service does.
func bursts() {
	for {
		for begin := time.Now(); time.Since(begin) < time.Millisecond; {
		}
		time.Sleep(2 * time.Millisecond)
	}
}

// together has so many threads that all ran last on CPU 0 wake at the same moment, every togetherEvery,
// and work for togetherFor.
func together(threads string) error {
	n, err := strconv.Atoi(threads)
	if err != nil {
		return err
	}
	debug.SetGCPercent(-1)
	all := set(1)<<runtime.NumCPU() - 1
	runtime.GOMAXPROCS(n + 1)
	turn := func() {
		runtime.LockOSThread()
		for {
			setAffinity(0, setOf(0))
			setAffinity(0, all)
			at := (monotonic()/int64(togetherEvery) + 1) * int64(togetherEvery)
			sleep := syscall.NsecToTimespec(at)
			const absolute = 1 // TIMER_ABSTIME
			syscall.RawSyscall6(syscall.SYS_CLOCK_NANOSLEEP, 1, absolute, uintptr(unsafe.Pointer(&sleep)), 0, 0, 0)
			for monotonic() < at+int64(togetherFor) {
			}
		}
	}
	for range n - 1 {
		go turn()
	}
	turn()
	return nil
}

const togetherEvery, togetherFor = 50 * time.Millisecond, 10 * time.Millisecond

// storm starts processes that start others, for ever: fork, exec and exit.
func storm() error {
	for {
		c := exec.Command("/init", "test")
		c.Run()
	}
}

// in runs this program in a cgroup from its first instruction on.
func (t *T) in(g group, args ...string) *exec.Cmd {
	c := exec.Command("/init", args...)
	c.Stderr = os.Stderr
	if args[0] == "hog" || args[0] == "together" || args[0] == "restless" {
		c.Env = append(os.Environ(), "GODEBUG=asyncpreemptoff=1")
	}
	t.runIn(g, c)
	t.Defer(func() { c.Process.Kill(); c.Wait() })
	return c
}
