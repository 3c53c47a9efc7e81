//go:build linux

package main

import (
	"time"
)

// homenodeLoadShift: others crowd the home of a workload, which moves with its
// memory; one that lives elsewhere does not.
func homenodeLoadShift(t *T) {
	ws := t.startWalkers(cgroupRoot,
		walkerSpec{name: "mover", slot: 0, mib: 96, threads: 2, place: "interleave", unbind: true, busy: true},
		walkerSpec{name: "other", slot: 1, mib: 48, threads: 1, place: "interleave", unbind: true})
	d := t.startDaemon(daemonOptions{mode: "enforce", exclude: "noise", balance: true})
	homes := t.awaitHome(settleLimit, ws)
	home := homes["mover"]
	if home == homes["other"] {
		t.Fatalf("both live on node %s of an empty machine", home)
	}
	warm(15 * time.Second)
	if now := t.homes(ws); now["mover"] != home || now["other"] != homes["other"] {
		t.Fatalf("homes changed on a calm machine: %v, before %v", now, homes)
	}

	noise := t.startWalkers(cgroupRoot, walkerSpec{name: "noise", slot: 2, mib: 16, threads: 4, place: "local", busy: true})
	for _, tid := range threadsOf(noise[0].pid) {
		t.Do(setAffinity(tid, cpusOf(home)))
	}
	start := time.Now()
	seen := len(t.history())
	t.until(120*time.Second, time.Second, "the crowded walker has another home", func() (bool, string) {
		now := t.homes(ws)["mover"]
		return now != home, "lives on node " + now.String()
	})
	decided := time.Since(start)
	after := t.awaitHome(settleLimit, ws)
	if after["other"] != homes["other"] {
		t.Fatalf("other moved from node %s to %s", homes["other"], after["other"])
	}
	t.awaitEvent(10*time.Second, ws[0].id(), "balance-doing") // and nothing else has moved it
	for _, e := range t.history()[seen:] {
		t.Logf("%.1f s: %s: %s", e.Time.Sub(start).Seconds(), e.Workload, cut(e.Text))
	}
	t.walking(ws)
	noise[0].kill() // a replay reads and decides much, on a machine that noise keeps busy
	t.order(ws, "pause", "paused")
	t.must(homenode("replay", stateFolder+"/flight"), exitOK)
	t.alive(d)
	t.Textf("node %s to %s, decided after %.1f s, memory there after %.1f s", home, after["mover"], decided.Seconds(), time.Since(start).Seconds())
}
