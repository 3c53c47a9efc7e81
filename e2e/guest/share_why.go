//go:build linux

package main

import (
	"fmt"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

func init() { tests["share.step-why"] = shareStepWhy }

// shareStepWhy finds out for whom online threads wait that wake at the same moment beside batch work under the
// scheduler.
func shareStepWhy(t *T) {
	quiet()
	t.mountBPF()
	s := &tollSetup{t: t, hogs: 6, online: t.newGroup(cgroupRoot, "online"), batch: t.newGroup(cgroupRoot, "batch")}
	c := tollKernel
	c.begin(s)
	if s.why != "" {
		t.Skipf("%s", s.why)
	}
	file := filepath.Join(workFolder, "late")
	p := tollProgram("step", "step", strconv.Itoa(stepThreads), strconv.FormatInt(int64(stepPeriod), 10), "60",
		strconv.Itoa(stepTurns), file)
	var online, batch func(int) bool
	tr := t.trace(func() {
		t.startToll(s.online, p)
		time.Sleep(300 * time.Millisecond)
		online, batch = t.members(s.online), t.members(s.batch)
		t.Do(p.Wait())
	})
	beside := map[string]int{}
	shown := 0
	for tid := range tr.all(online) {
		for _, w := range tr.waits(tid) {
			if w.long() < 400*time.Microsecond || w.long() > 40*time.Millisecond {
				continue
			}
			idle, batchOn, onlineOn, otherOn := 0, 0, 0, 0
			var at []string
			for cpu := range t.shape.CPUs() {
				tid := tr.on(cpu, w.from+200*time.Microsecond)
				switch {
				case tid == 0:
					idle++
					at = append(at, "idle")
				case batch(tid):
					batchOn++
					at = append(at, "batch")
				case online(tid):
					onlineOn++
					at = append(at, "online")
				default:
					otherOn++
					at = append(at, fmt.Sprint(tid))
				}
			}
			beside[fmt.Sprintf("idle %d batch %d online %d other %d", idle, batchOn, onlineOn, otherOn)]++
			if shown++; shown < 25 {
				t.Logf("WAIT %d of %v at %v: %s", tid, w.long(), w.from, strings.Join(at, " "))
				t.Logf("AROUND %s", tr.around(span{w.from, w.from + 400*time.Microsecond}))
			}
		}
	}
	for k, n := range beside {
		t.Logf("BESIDE %s: %d", k, n)
	}
	t.Logf("%s", homenode("share", "status").out)
}

// all is the threads of such a kind that ran or were woken.
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

// on is the thread that a CPU ran at a time.
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
