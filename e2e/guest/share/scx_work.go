//go:build linux

package share

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

	"github.com/homenode/homenode/e2e/guest/lab"
)

// Hog computes on so many threads, for ever.
func Hog(threads string) error {
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

// Bursts works for a millisecond, then sleeps for two, as a service does.
func Bursts() {
	for {
		for begin := time.Now(); time.Since(begin) < time.Millisecond; {
		}
		time.Sleep(2 * time.Millisecond)
	}
}

// Together has so many threads that all ran last on CPU 0 wake at the same moment, every togetherEvery,
// and work for togetherFor.
func Together(threads string) error {
	n, err := strconv.Atoi(threads)
	if err != nil {
		return err
	}
	debug.SetGCPercent(-1)
	all := lab.Set(1)<<runtime.NumCPU() - 1
	runtime.GOMAXPROCS(n + 1)
	turn := func() {
		runtime.LockOSThread()
		for {
			lab.SetAffinity(0, lab.SetOf(0))
			lab.SetAffinity(0, all)
			at := (lab.Monotonic()/int64(togetherEvery) + 1) * int64(togetherEvery)
			sleep := syscall.NsecToTimespec(at)
			const absolute = 1 // TIMER_ABSTIME
			syscall.RawSyscall6(syscall.SYS_CLOCK_NANOSLEEP, 1, absolute, uintptr(unsafe.Pointer(&sleep)), 0, 0, 0)
			for lab.Monotonic() < at+int64(togetherFor) {
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

// Storm starts processes that start others, for ever: fork, exec and exit.
func Storm() error {
	for {
		c := exec.Command("/init", "test")
		c.Run()
	}
}

// startIn runs this program in a cgroup from its first instruction on.
func startIn(t *lab.T, g lab.Group, args ...string) *exec.Cmd {
	c := exec.Command("/init", args...)
	c.Stderr = os.Stderr
	if args[0] == "hog" || args[0] == "together" || args[0] == "restless" {
		c.Env = append(os.Environ(), "GODEBUG=asyncpreemptoff=1")
	}
	t.RunIn(g, c)
	t.Defer(func() { c.Process.Kill(); c.Wait() })
	return c
}
