//go:build linux

package share

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"runtime/debug"
	"slices"
	"strconv"
	"syscall"
	"time"
	"unsafe"

	"github.com/homenode/homenode/bench/openloop"
	"github.com/homenode/homenode/e2e/guest/lab"
)

// What runs in a table of virtual time, in raw system calls, so that Go's scheduler has no
// part in it.

// TollProcess is a process of the table: hog THREADS, server TURNS, clock PERIOD-NS COUNT FILE, step THREADS
// PERIOD-NS COUNT TURNS FILE.
func TollProcess(args []string) error {
	runtime.LockOSThread()
	runtime.GOMAXPROCS(1)
	debug.SetGCPercent(-1)
	switch {
	case len(args) == 2 && args[0] == "hog":
		n, err := strconv.Atoi(args[1])
		return errors.Join(err, batchWork(n))
	case len(args) == 2 && args[0] == "server":
		n, err := strconv.Atoi(args[1])
		return errors.Join(err, server(uintptr(n)))
	case len(args) == 4 && args[0] == "clock":
		period, err := strconv.ParseInt(args[1], 10, 64)
		count, err2 := strconv.Atoi(args[2])
		return errors.Join(err, err2, clock(period, count, args[3]))
	case len(args) == 6 && args[0] == "step":
		return step(args[1:5], args[5])
	}
	return fmt.Errorf("toll: hog, server, clock or step, not %q", args)
}

// batchWork works for ever, on so many threads.
func batchWork(n int) error {
	code, err := mapWork(workBatch)
	if err != nil {
		return err
	}
	runtime.GOMAXPROCS(n)
	for range n {
		go func() {
			for {
				turns(code, 1000)
			}
		}()
	}
	select {}
}

// server answers each request on its input, the time when it was meant to come, with so many
// turns of work and writes how late it was done.
func server(n uintptr) error {
	code, err := mapWork(workStrict)
	if err != nil {
		return err
	}
	if e := answer(code, n); e != 0 {
		return e
	}
	return nil
}

// answer is the server's loop, in nosplit functions alone (openloop.Step says why). It returns 0 at the end of the
// input.
//
//go:nosplit
func answer(code, n uintptr) syscall.Errno {
	var due int64
	for {
		if got, _, e := syscall.RawSyscall(syscall.SYS_READ, 0, uintptr(unsafe.Pointer(&due)), 8); got != 8 {
			return e
		}
		turns(code, n)
		due = openloop.Monotonic() - due
		if _, _, e := syscall.RawSyscall(syscall.SYS_WRITE, 1, uintptr(unsafe.Pointer(&due)), 8); e != 0 {
			return e
		}
	}
}

// clock sends a request at each of its times, late or not, writes how late it was awake to
// the file, and closes its output.
func clock(period int64, count int, file string) error {
	late := make([]int64, count)
	if e := request(period, late); e != 0 {
		return e
	}
	return os.WriteFile(file, bytesOf(late), 0o600)
}

// request is the clock's loop, in nosplit functions alone.
//
//go:nosplit
func request(period int64, late []int64) syscall.Errno {
	next := openloop.Monotonic() + 20e6
	for i := range late {
		openloop.SleepUntil(next)
		late[i] = openloop.Monotonic() - next
		if _, _, e := syscall.RawSyscall(syscall.SYS_WRITE, 1, uintptr(unsafe.Pointer(&next)), 8); e != 0 {
			return e
		}
		next += period
	}
	return 0
}

func bytesOf(times []int64) (b []byte) {
	for _, ns := range times {
		b = binary.NativeEndian.AppendUint64(b, uint64(ns))
	}
	return b
}

// step has so many threads wake at the same moment, once a period, and do so many turns of work each. It writes how
// late each of them ran, thread by thread, to the file. numbers are the threads, the period in ns, how often, and
// the turns.
func step(numbers []string, file string) error {
	var x [4]int64
	for i := range x {
		n, err := strconv.ParseInt(numbers[i], 10, 64)
		if err != nil {
			return err
		}
		x[i] = n
	}
	code, err := mapWork(workStrict)
	if err != nil {
		return err
	}
	stepCode = code
	late := openloop.Step{Threads: int(x[0]), Period: time.Duration(x[1]), Count: int(x[2]), Work: stepWork,
		Of: uintptr(x[3])}.Run()
	return os.WriteFile(file, bytesOf(slices.Concat(late...)), 0o600)
}

var stepCode uintptr // where its work lies

//go:nosplit
func stepWork(n uintptr) { turns(stepCode, n) }

// spread is a list of times in ns, rising.
type spread []int64

func spreadOf(b []byte) spread {
	var s spread
	for ; len(b) >= 8; b = b[8:] {
		s = append(s, int64(binary.NativeEndian.Uint64(b)))
	}
	slices.Sort(s)
	return s
}

// at is a percentile in µs.
func (s spread) at(percent int) int64 {
	if len(s) == 0 {
		return -1
	}
	return s[min(len(s)-1, len(s)*percent/100)] / 1000
}

// startToll starts one of these in a cgroup.
func startToll(t *lab.T, g lab.Group, c *exec.Cmd) {
	c.Env = append(os.Environ(), "GODEBUG=asyncpreemptoff=1")
	c.Stderr = os.Stderr
	t.RunIn(g, c)
}
