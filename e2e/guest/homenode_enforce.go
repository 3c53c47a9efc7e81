//go:build linux

package main

import (
	"fmt"
	"strings"
	"time"
)

// homenodeEnforce: scattered walkers come home and stay there.
func homenodeEnforce(t *T) {
	t.Do(setBalancing(true)) // as any distribution has it
	ws := t.startWalkers(cgroupRoot, t.crowd()...)
	before := takeSnapshot(ws)
	start := time.Now()
	d := t.startDaemon(daemonOptions{mode: "enforce", extra: t.askForWide(ws)})
	homes := t.awaitHome(settleLimit, ws)
	took := time.Since(start)
	t.logHomes(ws, homes)
	t.wideOnNear(ws, homes)
	t.withinCapacity(ws, homes)

	// Policies that a workload set itself are its own.
	for _, w := range ws {
		name := "memory policy of " + w.name
		if got := takeSnapshot(ws)[name]; got != before[name] {
			t.Fatalf("%s was %s and is %s", name, before[name], got)
		}
	}
	t.walking(ws)
	warm(5 * time.Second)
	for name, home := range t.homes(ws) {
		if home != homes[name] {
			t.Fatalf("%s moved on from node %s to %s without a cause", name, homes[name], home)
		}
	}
	for _, w := range ws {
		if off := w.atHome(homes[w.name]); off != "" {
			t.Fatalf("5 s later: %s", off)
		}
	}
	t.alive(d)
	t.Textf("all home after %.1f s", took.Seconds())
}

// homenodeObserve: observing changes nothing, and says what enforcing then does.
func homenodeObserve(t *T) {
	ws := t.startWalkers(cgroupRoot, t.crowd()...)
	before := takeSnapshot(ws).withPlaces(ws)
	d := t.startDaemon(daemonOptions{mode: "observe"})
	t.until(60*time.Second, time.Second, "observe has a home for all", func() (bool, string) {
		homes := t.homes(ws)
		return len(homes) == len(ws), fmt.Sprint(homes)
	})
	warm(5 * time.Second)
	foreseen := t.homes(ws)
	t.same("after observing", before, takeSnapshot(ws).withPlaces(ws), all)
	for _, w := range ws {
		if foreseen[w.name] == 0 {
			t.Fatalf("observe has no home for %s (%s) any more", w.name, w.id())
		}
	}
	t.stop(d)
	t.same("after the observer has stopped", before, takeSnapshot(ws).withPlaces(ws), all)

	// The same state folder: what observing foresaw is in the ledger, and enforcing
	// goes by it. From an empty one the homes would be chosen afresh, by what the
	// machine looks like then.
	t.startDaemon(daemonOptions{mode: "enforce"})
	taken := t.awaitHome(settleLimit, ws)
	var off []string
	for _, w := range ws {
		if taken[w.name] != foreseen[w.name] {
			off = append(off, fmt.Sprintf("%s: foreseen %s, taken %s", w.name, foreseen[w.name], taken[w.name]))
		}
	}
	if len(off) > 0 {
		t.Fatalf("%s", strings.Join(off, "; "))
	}
	t.Textf("%d values unchanged, %d homes as foreseen", len(before), len(ws))
}

// homenodeEightNodes: near is what the distances say, not the next number.
func homenodeEightNodes(t *T) {
	ws := t.startWalkers(cgroupRoot, crowdOfEight()...)
	t.startDaemon(daemonOptions{mode: "enforce", extra: t.askForWide(ws)})
	homes := t.awaitHome(settleLimit, ws)
	t.logHomes(ws, homes)
	t.wideOnNear(ws, homes)
	t.walking(ws)
	t.Textf("wide on nodes %s", homes["wide"])
}
