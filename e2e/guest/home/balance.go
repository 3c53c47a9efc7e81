//go:build linux

package home

import (
	"time"

	"github.com/homenode/homenode/e2e/guest/lab"
)

// homenodeLoadShift: others crowd the home of a workload, which moves with its
// memory; one that lives elsewhere does not.
func homenodeLoadShift(t *lab.T) {
	ws := t.StartWalkers(lab.CgroupRoot,
		lab.WalkerSpec{Name: "mover", Slot: 0, MiB: 96, Threads: 2, Place: "interleave", Unbind: true, Busy: true},
		lab.WalkerSpec{Name: "other", Slot: 1, MiB: 48, Threads: 1, Place: "interleave", Unbind: true})
	d := t.StartDaemon(lab.DaemonOptions{Mode: "enforce", Exclude: "noise", Balance: true})
	homes := t.AwaitHome(lab.SettleLimit, ws)
	home := homes["mover"]
	if home == homes["other"] {
		t.Fatalf("both live on node %s of an empty machine", home)
	}
	lab.Warm(15 * time.Second)
	if now := t.Homes(ws); now["mover"] != home || now["other"] != homes["other"] {
		t.Fatalf("homes changed on a calm machine: %v, before %v", now, homes)
	}

	noise := t.StartWalkers(lab.CgroupRoot, lab.WalkerSpec{Name: "noise", Slot: 2, MiB: 16, Threads: 4, Place: "local",
		Busy: true})
	for _, tid := range lab.ThreadsOf(noise[0].PID) {
		t.Do(lab.SetAffinity(tid, lab.CPUsOf(home)))
	}
	start := time.Now()
	seen := len(t.History())
	t.Poll(120*time.Second, time.Second, "the crowded walker has another home", func() (bool, string) {
		now := t.Homes(ws)["mover"]
		return now != home, "lives on node " + now.String()
	})
	decided := time.Since(start)
	after := t.AwaitHome(lab.SettleLimit, ws)
	if after["other"] != homes["other"] {
		t.Fatalf("other moved from node %s to %s", homes["other"], after["other"])
	}
	t.AwaitEvent(10*time.Second, ws[0].ID(), "balance-doing") // and nothing else has moved it
	for _, e := range t.History()[seen:] {
		t.Logf("%.1f s: %s: %s", e.Time.Sub(start).Seconds(), e.Workload, lab.Cut(e.Text))
	}
	t.Walking(ws)
	noise[0].Kill() // a replay reads and decides much, on a machine that noise keeps busy
	t.Order(ws, "pause", "paused")
	t.Must(lab.Homenode("replay", lab.StateFolder+"/flight"), lab.ExitOK)
	t.Alive(d)
	t.Textf("node %s to %s, decided after %.1f s, memory there after %.1f s", home, after["mover"], decided.Seconds(),
		time.Since(start).Seconds())
}
