//go:build linux

package main

import (
	"path/filepath"
	"strconv"
	"time"
)

func init() { tests["share.step-why"] = shareStepWhy }

const (
	// shortWait is the longest wait that counts as short: the guest's CPUs take turns within 200 µs.
	shortWait = 400 * time.Microsecond
	// whySteps are the steps of load that are traced.
	whySteps = 60
)

// shareStepWhy: under the scheduler, online threads that wake at the same moment as others seldom wait while a CPU is
// idle. Before a batch thread that its CPU no longer ran was given to another CPU, 83 of 103 long waits were
// such: the kernel took the idle CPU for busy.
func shareStepWhy(t *T) {
	quiet()
	t.mountBPF()
	s := &tollSetup{t: t, hogs: 6}
	s.online, s.batch = t.newGroup(cgroupRoot, "online"), t.newGroup(cgroupRoot, "batch")
	c := tollKernel
	c.begin(s)
	if s.why != "" {
		t.Skipf("%s", s.why)
	}
	file := filepath.Join(workFolder, "late")
	p := tollProgram("step", "step", strconv.Itoa(stepThreads), strconv.FormatInt(int64(stepPeriod), 10),
		strconv.Itoa(whySteps), strconv.Itoa(stepTurns), file)
	var online, batch func(int) bool
	tr := t.trace(func() {
		t.startToll(s.online, p)
		time.Sleep(300 * time.Millisecond)
		online, batch = t.members(s.online), t.members(s.batch)
		t.Do(p.Wait())
	})
	long, withIdle, withBatch := tr.longWaits(t.shape.CPUs(), online, batch)
	t.Textf("%d waits of online threads over %v: %d while a CPU was idle, %d others while batch work ran",
		long, shortWait, withIdle, withBatch)
	if withIdle > long/2 {
		t.Fatalf("%d of %d waits over %v while a CPU was idle", withIdle, long, shortWait)
	}
}

// longWaits counts waits over shortWait: all, those with an idle CPU, and others with batch work on some CPU.
func (tr *trace) longWaits(cpus int, online, batch func(int) bool) (long, withIdle, withBatch int) {
	for tid := range tr.all(online) {
		for _, w := range tr.waits(tid) {
			if w.long() < shortWait || w.long() > stepPeriod {
				continue
			}
			long++
			idle, runs := false, false
			for cpu := range cpus {
				now := tr.on(cpu, w.from+shortWait/2)
				idle = idle || now == 0
				runs = runs || batch(now)
			}
			switch {
			case idle:
				withIdle++
			case runs:
				withBatch++
			}
		}
	}
	return long, withIdle, withBatch
}

// all returns the threads of some kind that ran or were woken.
func (tr *trace) all(such func(int) bool) map[int]bool {
	out := map[int]bool{}
	for _, e := range tr.events {
		for _, tid := range []int{e.prev, e.next, e.woken} {
			if tid > 0 && such(tid) {
				out[tid] = true
			}
		}
	}
	return out
}

// on returns the thread that a CPU ran at a time; 0 is idle.
func (tr *trace) on(cpu int, at time.Duration) (tid int) {
	for _, e := range tr.events {
		if e.at > at {
			break
		}
		if e.woken == 0 && e.cpu == cpu {
			tid = e.next
		}
	}
	return tid
}
