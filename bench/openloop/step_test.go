//go:build linux

package openloop

import (
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// TestStep: each thread is counted in each step after the first ones, from the moment that all of them share.
func TestStep(t *testing.T) {
	if os.Getenv("HOMENODE_TEST_STEP") != "" {
		step()
		os.Exit(0)
	}
	c := exec.Command(os.Args[0], "-test.run", "^TestStep$")
	c.Env = append(os.Environ(), "HOMENODE_TEST_STEP=1", "GODEBUG=asyncpreemptoff=1")
	out, err := c.Output()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if got, want := strings.TrimSpace(string(out)), "begun 3 3 no time is below zero, worked 10"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

// step is the process of TestStep: two threads, two steps of warm-up and three that count.
func step() {
	late := Step{Threads: 2, Period: 5 * time.Millisecond, Warm: 2, Count: 3,
		Work: count, Of: 7,
		Begun: func() { os.Stdout.WriteString("begun ") }}.Run()
	words := "no time is below zero"
	for _, thread := range late {
		os.Stdout.WriteString(strconv.Itoa(len(thread)) + " ")
		for _, ns := range thread {
			if ns < 0 {
				words = "a thread ran too early"
			}
		}
	}
	os.Stdout.WriteString(words + ", worked " + strconv.Itoa(int(worked.Load()/7)))
}

var worked atomic.Uintptr

//go:nosplit
func count(of uintptr) { worked.Add(of) }

// TestWorkFor: work is counted in CPU time of the thread, not in time.
func TestWorkFor(t *testing.T) {
	const work = 3_000_000 // ns
	done := make(chan int64)
	go func() {
		runtime.LockOSThread()
		before := clock(unix.CLOCK_THREAD_CPUTIME_ID)
		WorkFor(work)
		done <- clock(unix.CLOCK_THREAD_CPUTIME_ID) - before
	}()
	if used := <-done; used < work {
		t.Errorf("%d ns of CPU time, want %d at least", used, work)
	}
}
