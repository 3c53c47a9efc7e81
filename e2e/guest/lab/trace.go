//go:build linux

package lab

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

	"github.com/homenode/homenode/bench/openloop"
)

// What ran where and who waited, as the kernel's own tracepoints tell it: no counter of homenode
// has a part in it. With a clock that counts instructions the times are the same however busy
// the machine is.

// traced is one line of the tracer: prev left a CPU to next, or pid was woken, or moved to another CPU.
type traced struct {
	at         time.Duration
	cpu        int
	prev, next int
	preempted  bool // prev wants to run on
	woken      int  // 0: it is a switch, or a move
	moved      int  // 0: it is no move
}

// Trace is what happened in a time, rising.
type Trace struct {
	From, To time.Duration
	events   []traced
	moves    []traced // to another CPU
}

// Span is a time.
type Span struct{ From, To time.Duration }

// Long returns the length of the span.
func (s Span) Long() time.Duration { return s.To - s.From }

// TraceFolder is where the kernel's tracing is mounted.
const TraceFolder = "/sys/kernel/tracing"

// Trace records what the kernel's scheduler does while f runs. Reading it takes longer: all cgroups
// are frozen meanwhile.
func (t *T) Trace(f func()) *Trace {
	if err := syscall.Mount("tracefs", TraceFolder, "tracefs", 0, ""); err != nil && err != syscall.EBUSY {
		t.Skipf("mount tracefs: %v", err)
	}
	set := func(file, value string) { t.Write(filepath.Join(TraceFolder, file), value) }
	set("tracing_on", "0")
	set("trace_clock", "mono")
	set("buffer_size_kb", "6000")
	set("trace", "")
	for _, e := range []string{"sched_switch", "sched_wakeup", "sched_wakeup_new", "sched_migrate_task"} {
		set("events/sched/"+e+"/enable", "1")
		defer set("events/sched/"+e+"/enable", "0")
	}
	tr := &Trace{}
	set("tracing_on", "1")
	tr.From = time.Duration(Monotonic())
	f()
	tr.To = time.Duration(Monotonic())
	set("tracing_on", "0")
	groups, _ := filepath.Glob(CgroupRoot + "/*/cgroup.freeze")
	for _, g := range groups {
		t.Write(g, "1")
		defer t.Write(g, "0")
	}
	file, err := os.Open(filepath.Join(TraceFolder, "trace"))
	t.Do(err)
	defer file.Close()
	for lines := bufio.NewScanner(file); lines.Scan(); {
		if strings.Contains(lines.Text(), "LOST") {
			t.Fatalf("the tracer lost events: %s", lines.Text())
		}
		e, ok := parseTraced(lines.Text())
		switch {
		case !ok || e.at > tr.To:
		case e.moved > 0:
			tr.moves = append(tr.moves, e)
		default:
			tr.events = append(tr.events, e)
		}
	}
	slices.SortStableFunc(tr.events, byTime)
	slices.SortStableFunc(tr.moves, byTime)
	if len(tr.events) == 0 {
		t.Fatalf("the tracer has nothing")
	}
	if first := tr.events[0].at; first > tr.From+100*time.Millisecond {
		t.Fatalf("the tracer's buffer was too small: it begins %v late", first-tr.From)
	}
	return tr
}

func byTime(a, b traced) int { return cmp.Compare(a.at, b.at) }

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
	e.at = time.Duration(Leading(seconds))*time.Second + time.Duration(Leading(micros))*time.Microsecond
	e.cpu = Leading(head[open+1:])
	after := func(key string) int {
		i := strings.LastIndex(rest, key)
		if i < 0 {
			ok = false
			return 0
		}
		return Leading(rest[i+len(key):])
	}
	if strings.HasPrefix(rest, "switch:") {
		e.prev, e.next = after(" prev_pid="), after(" next_pid=")
		e.preempted = strings.Contains(rest, " prev_state=R")
		return e, ok
	}
	if strings.HasPrefix(rest, "migrate_task:") {
		e.moved, e.cpu = after(" pid="), after(" dest_cpu=")
		return e, ok
	}
	e.woken, e.cpu = after(" pid="), after(" target_cpu=")
	return e, ok
}

// Leading is the number that a text begins with.
func Leading(text string) (n int) {
	for i := 0; i < len(text) && text[i] >= '0' && text[i] <= '9'; i++ {
		n = n*10 + int(text[i]-'0')
	}
	return n
}

// Runs is when a CPU ran such a thread; 0 is idle.
func (tr *Trace) Runs(cpu int, such func(tid int) bool) (out []Span) {
	since, on := tr.From, false
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
			out = append(out, Span{since, e.at})
		}
		on = such(e.next)
	}
	if on {
		out = append(out, Span{since, tr.To})
	}
	return out
}

// Waits is when a thread could run and did not, from the first that is heard of it.
func (tr *Trace) Waits(tid int) (out []Span) {
	since, waiting := tr.From, false
	for _, e := range tr.events {
		switch {
		case e.woken == tid && !waiting:
			since, waiting = e.at, true
		case e.woken > 0:
		case e.next == tid:
			if waiting {
				out = append(out, Span{since, e.at})
			}
			waiting = false
		case e.prev == tid:
			since, waiting = e.at, e.preempted
		}
	}
	if waiting {
		out = append(out, Span{since, tr.To})
	}
	return out
}

// Around is what happened in a time and shortly before.
func (tr *Trace) Around(s Span) string {
	var b strings.Builder
	for _, e := range tr.events {
		if e.at < s.From-500*time.Microsecond || e.at > s.To {
			continue
		}
		fmt.Fprintf(&b, " %v CPU %d:", e.at-s.From, e.cpu)
		if e.woken > 0 {
			fmt.Fprintf(&b, " wakes %d;", e.woken)
		} else {
			fmt.Fprintf(&b, " %d to %d;", e.prev, e.next)
		}
	}
	return b.String()
}

// Starts counts the switches on a CPU to such a thread.
func (tr *Trace) Starts(cpu int, such func(tid int) bool) (n int) {
	for _, e := range tr.events {
		if e.woken == 0 && e.cpu == cpu && such(e.next) {
			n++
		}
	}
	return n
}

// Meet is when both were so; each of the two rises and does not meet itself.
func Meet(a, b []Span) (out []Span) {
	for len(a) > 0 && len(b) > 0 {
		if s := (Span{max(a[0].From, b[0].From), min(a[0].To, b[0].To)}); s.From < s.To {
			out = append(out, s)
		}
		if a[0].To < b[0].To {
			a = a[1:]
		} else {
			b = b[1:]
		}
	}
	return out
}

// Longest returns the length of the longest span; 0 of none.
func Longest(spans []Span) (most time.Duration) {
	for _, s := range spans {
		most = max(most, s.Long())
	}
	return most
}

// InAll returns the sum of the lengths.
func InAll(spans []Span) (sum time.Duration) {
	for _, s := range spans {
		sum += s.Long()
	}
	return sum
}

// Within is a percentile of how long they were.
func Within(spans []Span, percent int) time.Duration {
	var d []time.Duration
	for _, s := range spans {
		d = append(d, s.Long())
	}
	slices.Sort(d)
	if len(d) == 0 {
		return 0
	}
	return d[min(len(d)-1, len(d)*percent/100)]
}

// Members tells the threads that a cgroup has now, and those below it.
func (t *T) Members(gs ...Group) func(tid int) bool {
	has := map[int]bool{}
	for _, g := range gs {
		for _, dir := range append(Subtree(string(g)), string(g)) {
			for _, f := range strings.Fields(ReadText(filepath.Join(dir, "cgroup.threads"))) {
				tid, _ := strconv.Atoi(f)
				has[tid] = true
			}
		}
	}
	return func(tid int) bool { return has[tid] }
}

// Monotonic returns CLOCK_MONOTONIC in nanoseconds: all processes of the guest share it.
func Monotonic() int64 { return openloop.Monotonic() }

// Counted returns, for each CPU, when a thread waited that the kernel counts in the run queue of this CPU: the CPU
// that it left, or woke on, or was moved to since.
func (tr *Trace) Counted(tid, cpus int) [][]Span {
	out := make([][]Span, cpus)
	on, since := -1, tr.From
	until := func(at time.Duration) {
		if on >= 0 {
			out[on] = append(out[on], Span{since, at})
		}
	}
	all := slices.Concat(tr.events, tr.moves)
	slices.SortStableFunc(all, byTime)
	for _, e := range all {
		switch {
		case e.moved == tid && on >= 0:
			until(e.at)
			on, since = e.cpu, e.at
		case e.moved > 0:
		case e.woken == tid, e.woken == 0 && e.prev == tid && e.preempted:
			on, since = e.cpu, e.at
		case e.woken == 0 && (e.next == tid || e.prev == tid):
			until(e.at)
			on = -1
		}
	}
	until(tr.To)
	return out
}
