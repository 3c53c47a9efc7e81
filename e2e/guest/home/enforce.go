//go:build linux

package home

import (
	"fmt"
	"strings"
	"time"

	"github.com/homenode/homenode/e2e/guest/lab"
)

// homenodeEnforce: scattered walkers come home and stay there.
func homenodeEnforce(t *lab.T) {
	t.Do(lab.SetBalancing(true)) // as any distribution has it
	ws := t.StartWalkers(lab.CgroupRoot, t.Crowd()...)
	before := lab.TakeSnapshot(ws)
	start := time.Now()
	d := t.StartDaemon(lab.DaemonOptions{Mode: "enforce", Extra: t.AskForWide(ws)})
	homes := t.AwaitHome(lab.SettleLimit, ws)
	took := time.Since(start)
	t.LogHomes(ws, homes)
	t.WideOnNear(ws, homes)
	t.WithinCapacity(ws, homes)

	// Policies that a workload set itself are its own.
	for _, w := range ws {
		name := "memory policy of " + w.Name
		if got := lab.TakeSnapshot(ws)[name]; got != before[name] {
			t.Fatalf("%s was %s and is %s", name, before[name], got)
		}
	}
	t.Walking(ws)
	lab.Warm(5 * time.Second)
	for name, home := range t.Homes(ws) {
		if home != homes[name] {
			t.Fatalf("%s moved on from node %s to %s without a cause", name, homes[name], home)
		}
	}
	for _, w := range ws {
		if off := w.AtHome(homes[w.Name]); off != "" {
			t.Fatalf("5 s later: %s", off)
		}
	}
	t.Alive(d)
	t.Textf("all home after %.1f s", took.Seconds())
}

// homenodeObserve: observing changes nothing, and says what enforcing then does.
func homenodeObserve(t *lab.T) {
	ws := t.StartWalkers(lab.CgroupRoot, t.Crowd()...)
	before := lab.TakeSnapshot(ws).WithPlaces(ws)
	d := t.StartDaemon(lab.DaemonOptions{Mode: "observe"})
	t.Poll(60*time.Second, time.Second, "observe has a home for all", func() (bool, string) {
		homes := t.Homes(ws)
		return len(homes) == len(ws), fmt.Sprint(homes)
	})
	lab.Warm(5 * time.Second)
	foreseen := t.Homes(ws)
	t.Same("after observing", before, lab.TakeSnapshot(ws).WithPlaces(ws), lab.All)
	for _, w := range ws {
		if foreseen[w.Name] == 0 {
			t.Fatalf("observe has no home for %s (%s) any more", w.Name, w.ID())
		}
	}
	t.Stop(d)
	t.Same("after the observer has stopped", before, lab.TakeSnapshot(ws).WithPlaces(ws), lab.All)

	// The same state folder: what observing foresaw is in the ledger, and enforcing
	// goes by it. From an empty one the homes would be chosen afresh, by what the
	// machine looks like then.
	t.StartDaemon(lab.DaemonOptions{Mode: "enforce"})
	taken := t.AwaitHome(lab.SettleLimit, ws)
	var off []string
	for _, w := range ws {
		if taken[w.Name] != foreseen[w.Name] {
			off = append(off, fmt.Sprintf("%s: foreseen %s, taken %s", w.Name, foreseen[w.Name], taken[w.Name]))
		}
	}
	if len(off) > 0 {
		t.Fatalf("%s", strings.Join(off, "; "))
	}
	t.Textf("%d values unchanged, %d homes as foreseen", len(before), len(ws))
}

// homenodeEightNodes: near is what the distances say, not the next number.
func homenodeEightNodes(t *lab.T) {
	ws := t.StartWalkers(lab.CgroupRoot, lab.CrowdOfEight()...)
	t.StartDaemon(lab.DaemonOptions{Mode: "enforce", Extra: t.AskForWide(ws)})
	homes := t.AwaitHome(lab.SettleLimit, ws)
	t.LogHomes(ws, homes)
	t.WideOnNear(ws, homes)
	t.Walking(ws)
	t.Textf("wide on nodes %s", homes["wide"])
}
