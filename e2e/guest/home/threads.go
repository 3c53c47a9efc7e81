//go:build linux

package home

import (
	"fmt"
	"time"

	"github.com/homenode/homenode/e2e/guest/lab"
)

// homenodeThreads: each thread of a process that is wider than a node is kept on one node of
// its home, also one that has all CPUs of the home later, and after a daemon that was killed;
// who pins one keeps it; undo gives all others what they had.
func homenodeThreads(t *lab.T) {
	ws := t.StartWalkers(lab.CgroupRoot, t.Crowd()[:1]...)
	w := ws[0]
	before := lab.Allowed(w.PID)
	o := lab.DaemonOptions{Mode: "enforce", Extra: t.AskForWide(ws)}
	d := t.StartDaemon(o)
	home := t.AwaitHome(lab.SettleLimit, ws)[w.Name]
	nodes := home.IDs()
	if len(nodes) != 2 {
		t.Fatalf("home %s", home)
	}
	parts := []lab.Set{lab.CPUsOf(lab.SetOf(nodes[0])), lab.CPUsOf(lab.SetOf(nodes[1]))}
	divided := func(pinned int) {
		t.Until(60*time.Second, "each thread is on one node", func() (bool, string) {
			count := map[lab.Set]int{}
			for tid, cpus := range lab.Allowed(w.PID) {
				if tid == pinned {
					continue
				}
				if cpus != parts[0] && cpus != parts[1] {
					return false, fmt.Sprintf("thread %d has CPUs %s", tid, cpus)
				}
				count[cpus]++
			}
			return count[parts[0]] > 1 && count[parts[1]] > 1,
				fmt.Sprintf("%d and %d threads", count[parts[0]], count[parts[1]])
		})
	}
	divided(0)
	t.Walking(ws)

	// As one that is born: it has all CPUs of the home.
	tids := lab.ThreadsOf(w.PID)
	last := tids[len(tids)-1]
	t.Do(lab.SetAffinity(last, lab.CPUsOf(home)))
	divided(0)

	d.Kill9()
	d = t.StartDaemon(o)
	divided(0)

	own := lab.SetOf(parts[0].IDs()[0])
	t.Do(lab.SetAffinity(last, own))
	t.Must(lab.Homenode("undo", "--all"), lab.ExitOK)
	for tid, cpus := range lab.Allowed(w.PID) {
		want, ok := before[tid]
		if !ok {
			want = before[w.PID]
		}
		if tid == last {
			want = own
		}
		if cpus != want {
			t.Fatalf("after undo thread %d has CPUs %s, wanted %s", tid, cpus, want)
		}
	}
	if s := t.Status(); s.Self.Journal != 0 {
		t.Fatalf("after undo --all %d entries are left in the journal", s.Self.Journal)
	}
	t.Alive(d)
	t.Walking(ws)
}
