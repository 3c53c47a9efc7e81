//go:build linux

package main

import (
	"fmt"
	"time"
)

// homenodeThreads: each thread of a process that is wider than a node is kept on one node of
// its home, also one that has all CPUs of the home later, and after a daemon that was killed;
// who pins one keeps it; undo gives all others what they had.
func homenodeThreads(t *T) {
	ws := t.startWalkers(cgroupRoot, t.crowd()[:1]...)
	w := ws[0]
	before := allowed(w.pid)
	o := daemonOptions{mode: "enforce", extra: t.askForWide(ws)}
	d := t.startDaemon(o)
	home := t.awaitHome(settleLimit, ws)[w.name]
	nodes := home.ids()
	if len(nodes) != 2 {
		t.Fatalf("home %s", home)
	}
	parts := []set{cpusOf(setOf(nodes[0])), cpusOf(setOf(nodes[1]))}
	divided := func(pinned int) {
		t.Until(60*time.Second, "each thread is on one node", func() (bool, string) {
			count := map[set]int{}
			for tid, cpus := range allowed(w.pid) {
				if tid == pinned {
					continue
				}
				if cpus != parts[0] && cpus != parts[1] {
					return false, fmt.Sprintf("thread %d has CPUs %s", tid, cpus)
				}
				count[cpus]++
			}
			return count[parts[0]] > 1 && count[parts[1]] > 1, fmt.Sprintf("%d and %d threads", count[parts[0]], count[parts[1]])
		})
	}
	divided(0)
	t.walking(ws)

	// As one that is born: it has all CPUs of the home.
	tids := threadsOf(w.pid)
	last := tids[len(tids)-1]
	t.Do(setAffinity(last, cpusOf(home)))
	divided(0)

	d.kill9()
	d = t.startDaemon(o)
	divided(0)

	own := setOf(parts[0].ids()[0])
	t.Do(setAffinity(last, own))
	t.must(homenode("undo", "--all"), exitOK)
	for tid, cpus := range allowed(w.pid) {
		want, ok := before[tid]
		if !ok {
			want = before[w.pid]
		}
		if tid == last {
			want = own
		}
		if cpus != want {
			t.Fatalf("after undo thread %d has CPUs %s, wanted %s", tid, cpus, want)
		}
	}
	if s := t.status(); s.Self.Journal != 0 {
		t.Fatalf("after undo --all %d entries are left in the journal", s.Self.Journal)
	}
	t.alive(d)
	t.walking(ws)
}
