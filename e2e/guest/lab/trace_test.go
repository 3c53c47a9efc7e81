//go:build linux

package lab

import (
	"slices"
	"testing"
	"time"
)

func TestTrace(t *testing.T) {
	tr := &Trace{From: 10 * time.Second, To: 10*time.Second + 10*time.Millisecond}
	for _, line := range []string{
		"# tracer: nop",
		"          <idle>-0       [001] d..2.    10.001000: sched_wakeup: comm=my web [1] pid=7 prio=120 target_cpu=001",
		"          <idle>-0       [001] d..2.    10.001200: sched_switch: prev_comm=swapper/1 prev_pid=0 prev_prio=120 prev_state=R ==> next_comm=my web [1] next_pid=7 next_prio=120",
		"     my web [1]-7       [001] d..2.    10.003000: sched_switch: prev_comm=my web [1] prev_pid=7 prev_prio=120 prev_state=R+ ==> next_comm=hog next_pid=8 next_prio=120",
		"            hog-8       [001] d..2.    10.004000: sched_switch: prev_comm=hog prev_pid=8 prev_prio=120 prev_state=R ==> next_comm=my web [1] next_pid=7 next_prio=120",
		"     my web [1]-7       [001] d..2.    10.005000: sched_switch: prev_comm=my web [1] prev_pid=7 prev_prio=120 prev_state=S ==> next_comm=hog next_pid=8 next_prio=120",
	} {
		if e, ok := parseTraced(line); ok {
			tr.events = append(tr.events, e)
		}
	}
	ms := func(from, to float64) Span {
		return Span{tr.From + time.Duration(from*1e6), tr.From + time.Duration(to*1e6)}
	}
	is := func(tid int) func(int) bool { return func(x int) bool { return x == tid } }
	for _, c := range []struct {
		what      string
		got, want []Span
	}{
		{"idle", tr.Runs(1, is(0)), []Span{ms(0, 1.2)}},
		{"web runs", tr.Runs(1, is(7)), []Span{ms(1.2, 3), ms(4, 5)}},
		{"hog runs", tr.Runs(1, is(8)), []Span{ms(3, 4), ms(5, 10)}},
		{"web waits", tr.Waits(7), []Span{ms(1, 1.2), ms(3, 4)}},
		{"hog waits", tr.Waits(8), []Span{ms(4, 5)}},
		{"hog runs while web waits", Meet(tr.Runs(1, is(8)), tr.Waits(7)), []Span{ms(3, 4)}},
	} {
		if !slices.Equal(c.got, c.want) {
			t.Errorf("%s: %v, want %v", c.what, c.got, c.want)
		}
	}
	if n := tr.Starts(1, is(7)); n != 2 {
		t.Errorf("web began %d times, want 2", n)
	}
}

// TestCounted: a thread that waits is counted on the CPU that it left, and after a move on the other one.
func TestCounted(t *testing.T) {
	tr := &Trace{From: 10 * time.Second, To: 10*time.Second + 10*time.Millisecond}
	for _, line := range []string{
		"hog-8  [000] d..2.    10.001000: sched_switch: prev_comm=hog prev_pid=8 prev_prio=120 prev_state=R ==> next_comm=swapper/0 next_pid=0 next_prio=120",
		"swapper-0  [000] d..2.    10.002000: sched_migrate_task: comm=hog pid=8 prio=120 orig_cpu=0 dest_cpu=1",
		"hog-9  [001] d..2.    10.005000: sched_switch: prev_comm=hog prev_pid=9 prev_prio=120 prev_state=R ==> next_comm=hog next_pid=8 next_prio=120",
	} {
		e, ok := parseTraced(line)
		switch {
		case !ok:
			t.Fatalf("cannot read %q", line)
		case e.moved > 0:
			tr.moves = append(tr.moves, e)
		default:
			tr.events = append(tr.events, e)
		}
	}
	at := func(ms int) time.Duration { return tr.From + time.Duration(ms)*time.Millisecond }
	want := [][]Span{{{at(1), at(2)}}, {{at(2), at(5)}}}
	got := tr.Counted(8, 2)
	for cpu := range want {
		if !slices.Equal(got[cpu], want[cpu]) {
			t.Errorf("CPU %d: %v, want %v", cpu, got[cpu], want[cpu])
		}
	}
}
