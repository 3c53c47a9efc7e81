//go:build linux

package main

import (
	"bufio"
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
	"unsafe"
)

// What ran where and who waited, as the kernel's own tracepoints tell it: no counter of homenode
// has a part in it. With a clock that counts instructions the times are the same however busy
// the machine is.

// traced is one line of the tracer: prev left a CPU to next, or pid was woken.
type traced struct {
	at         time.Duration
	cpu        int
	prev, next int
	preempted  bool // prev wants to run on
	woken      int  // 0: it is a switch
}

// trace is what happened in a time, rising.
type trace struct {
	from, to time.Duration
	events   []traced
}

// span is a time.
type span struct{ from, to time.Duration }

func (s span) long() time.Duration { return s.to - s.from }

const traceFolder = "/sys/kernel/tracing"

// trace records what the kernel's scheduler does while f runs. Reading it takes longer: all cgroups
// are frozen meanwhile.
func (t *T) trace(f func()) *trace {
	if err := syscall.Mount("tracefs", traceFolder, "tracefs", 0, ""); err != nil && err != syscall.EBUSY {
		t.Skipf("mount tracefs: %v", err)
	}
	set := func(file, value string) { t.write(filepath.Join(traceFolder, file), value) }
	set("tracing_on", "0")
	set("trace_clock", "mono")
	set("buffer_size_kb", "6000")
	set("trace", "")
	for _, e := range []string{"sched_switch", "sched_wakeup", "sched_wakeup_new"} {
		set("events/sched/"+e+"/enable", "1")
		defer set("events/sched/"+e+"/enable", "0")
	}
	tr := &trace{}
	set("tracing_on", "1")
	tr.from = time.Duration(monotonic())
	f()
	tr.to = time.Duration(monotonic())
	set("tracing_on", "0")
	groups, _ := filepath.Glob(cgroupRoot + "/*/cgroup.freeze")
	for _, g := range groups {
		t.write(g, "1")
		defer t.write(g, "0")
	}
	file, err := os.Open(filepath.Join(traceFolder, "trace"))
	t.Do(err)
	defer file.Close()
	for lines := bufio.NewScanner(file); lines.Scan(); {
		if strings.Contains(lines.Text(), "LOST") {
			t.Fatalf("the tracer lost events: %s", lines.Text())
		}
		if e, ok := parseTraced(lines.Text()); ok && e.at <= tr.to {
			tr.events = append(tr.events, e)
		}
	}
	slices.SortStableFunc(tr.events, func(a, b traced) int { return cmp.Compare(a.at, b.at) })
	if len(tr.events) == 0 {
		t.Fatalf("the tracer has nothing")
	}
	if first := tr.events[0].at; first > tr.from+100*time.Millisecond {
		t.Fatalf("the tracer's buffer was too small: it begins %v late", first-tr.from)
	}
	return tr
}

// parseTraced reads a line of the file trace (Documentation/trace/ftrace.rst):
//
//	hog-123  [002] d..2.    12.345678: sched_switch: prev_comm=hog prev_pid=123 prev_prio=120 prev_state=R ==> next_comm=web next_pid=124 next_prio=120
//
// There are tens of thousands, and the guest is slow: no regular expressions.
func parseTraced(line string) (e traced, ok bool) {
	head, rest, ok := strings.Cut(line, ": sched_")
	at := strings.LastIndexByte(head, ' ')
	open := strings.LastIndexByte(head, '[')
	if !ok || at < 0 || open < 0 {
		return e, false
	}
	seconds, micros, _ := strings.Cut(head[at+1:], ".")
	e.at = time.Duration(leading(seconds))*time.Second + time.Duration(leading(micros))*time.Microsecond
	e.cpu = leading(head[open+1:])
	after := func(key string) int {
		i := strings.LastIndex(rest, key)
		if i < 0 {
			ok = false
			return 0
		}
		return leading(rest[i+len(key):])
	}
	if strings.HasPrefix(rest, "switch:") {
		e.prev, e.next = after(" prev_pid="), after(" next_pid=")
		e.preempted = strings.Contains(rest, " prev_state=R")
		return e, ok
	}
	e.woken, e.cpu = after(" pid="), after(" target_cpu=")
	return e, ok
}

// leading is the number that a text begins with.
func leading(text string) (n int) {
	for i := 0; i < len(text) && text[i] >= '0' && text[i] <= '9'; i++ {
		n = n*10 + int(text[i]-'0')
	}
	return n
}

// runs is when a CPU ran such a thread; 0 is idle.
func (tr *trace) runs(cpu int, such func(tid int) bool) (out []span) {
	since, on := tr.from, false
	first := true
	for _, e := range tr.events {
		if e.cpu != cpu || e.woken > 0 {
			continue
		}
		if first {
			on, first = such(e.prev), false
		}
		switch now := such(e.next); {
		case now && !on:
			since = e.at
		case on && !now:
			out = append(out, span{since, e.at})
		}
		on = such(e.next)
	}
	if on {
		out = append(out, span{since, tr.to})
	}
	return out
}

// waits is when a thread could run and did not, from the first that is heard of it.
func (tr *trace) waits(tid int) (out []span) {
	since, waiting := tr.from, false
	for _, e := range tr.events {
		switch {
		case e.woken == tid && !waiting:
			since, waiting = e.at, true
		case e.woken > 0:
		case e.next == tid:
			if waiting {
				out = append(out, span{since, e.at})
			}
			waiting = false
		case e.prev == tid:
			since, waiting = e.at, e.preempted
		}
	}
	if waiting {
		out = append(out, span{since, tr.to})
	}
	return out
}

// around is what happened in a time and shortly before.
func (tr *trace) around(s span) string {
	var b strings.Builder
	for _, e := range tr.events {
		if e.at < s.from-500*time.Microsecond || e.at > s.to {
			continue
		}
		fmt.Fprintf(&b, " %v CPU %d:", e.at-s.from, e.cpu)
		if e.woken > 0 {
			fmt.Fprintf(&b, " wakes %d;", e.woken)
		} else {
			fmt.Fprintf(&b, " %d to %d;", e.prev, e.next)
		}
	}
	return b.String()
}

// starts counts the switches on a CPU to such a thread.
func (tr *trace) starts(cpu int, such func(tid int) bool) (n int) {
	for _, e := range tr.events {
		if e.woken == 0 && e.cpu == cpu && such(e.next) {
			n++
		}
	}
	return n
}

// meet is when both were so; each of the two rises and does not meet itself.
func meet(a, b []span) (out []span) {
	for len(a) > 0 && len(b) > 0 {
		if s := (span{max(a[0].from, b[0].from), min(a[0].to, b[0].to)}); s.from < s.to {
			out = append(out, s)
		}
		if a[0].to < b[0].to {
			a = a[1:]
		} else {
			b = b[1:]
		}
	}
	return out
}

func longest(spans []span) (most time.Duration) {
	for _, s := range spans {
		most = max(most, s.long())
	}
	return most
}

func inAll(spans []span) (sum time.Duration) {
	for _, s := range spans {
		sum += s.long()
	}
	return sum
}

// within is a percentile of how long they were.
func within(spans []span, percent int) time.Duration {
	var d []time.Duration
	for _, s := range spans {
		d = append(d, s.long())
	}
	if slices.Sort(d); len(d) == 0 {
		return 0
	}
	return d[min(len(d)-1, len(d)*percent/100)]
}

// members tells the threads that a cgroup has now, and those below it.
func (t *T) members(gs ...group) func(tid int) bool {
	has := map[int]bool{}
	for _, g := range gs {
		for _, dir := range append(subtree(string(g)), string(g)) {
			for _, f := range strings.Fields(readText(filepath.Join(dir, "cgroup.threads"))) {
				tid, _ := strconv.Atoi(f)
				has[tid] = true
			}
		}
	}
	return func(tid int) bool { return has[tid] }
}

func monotonic() int64 {
	var ts syscall.Timespec
	syscall.RawSyscall(syscall.SYS_CLOCK_GETTIME, 1, uintptr(unsafe.Pointer(&ts)), 0)
	return ts.Nano()
}
