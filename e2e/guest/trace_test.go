//go:build linux

package main

import (
	"slices"
	"testing"
	"time"
)

func TestTrace(t *testing.T) {
	tr := &trace{from: 10 * time.Second, to: 10*time.Second + 10*time.Millisecond}
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
	ms := func(from, to float64) span {
		return span{tr.from + time.Duration(from*1e6), tr.from + time.Duration(to*1e6)}
	}
	is := func(tid int) func(int) bool { return func(x int) bool { return x == tid } }
	for _, c := range []struct {
		what      string
		got, want []span
	}{
		{"idle", tr.runs(1, is(0)), []span{ms(0, 1.2)}},
		{"web runs", tr.runs(1, is(7)), []span{ms(1.2, 3), ms(4, 5)}},
		{"hog runs", tr.runs(1, is(8)), []span{ms(3, 4), ms(5, 10)}},
		{"web waits", tr.waits(7), []span{ms(1, 1.2), ms(3, 4)}},
		{"hog waits", tr.waits(8), []span{ms(4, 5)}},
		{"hog runs while web waits", meet(tr.runs(1, is(8)), tr.waits(7)), []span{ms(3, 4)}},
	} {
		if !slices.Equal(c.got, c.want) {
			t.Errorf("%s: %v, want %v", c.what, c.got, c.want)
		}
	}
	if n := tr.starts(1, is(7)); n != 2 {
		t.Errorf("web began %d times, want 2", n)
	}
}
