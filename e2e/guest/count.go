//go:build linux

package main

import (
	"fmt"
	"os"
	"time"
)

// Tags of the marks. The host joins the plugin's counts by them.
const (
	tagKernelOff = 1 + iota
	tagKernelOn
	tagBefore
	tagHomenode
	tagBoth

	tagRuns = 0x10 // and those after it
)

// Passes of a measured walk: enough for threads to wander, few enough for time.
const measuredPasses = 3

// countKernel counts what the kernel alone makes of the crowd: first with its
// NUMA balancing off, then on, with short scan periods and most of a minute of
// time, which is more than it gets from most workloads.
func countKernel(t *T) {
	ws := t.startWalkers(cgroupRoot, t.crowd()...)
	t.declare(ws)
	warm(5 * time.Second)
	t.measure(ws, tagKernelOff, "kernel, balancing off", measuredPasses)
	t.Do(setBalancing(true))
	warm(balancingTime)
	t.measure(ws, tagKernelOn, "kernel, balancing on", measuredPasses)
	t.walking(ws)
}

// countHomenode counts what homenode makes of the same crowd. First with the
// kernel's balancing off, so that what moved, homenode moved; then with it on, as
// distributions have it: it brings the memory of the wide one to its threads.
func countHomenode(t *T) {
	ws := t.startWalkers(cgroupRoot, t.crowd()...)
	t.declare(ws)
	t.measure(ws, tagBefore, "before", measuredPasses)
	start := time.Now()
	t.startDaemon(daemonOptions{mode: "enforce"})
	homes := t.awaitHome(settleLimit, ws)
	took := time.Since(start)
	t.logHomes(ws, homes)
	t.wideOnNear(ws, homes)
	for _, w := range ws {
		t.record("HOME %d %s", w.slot, homes[w.name])
	}
	t.measure(ws, tagHomenode, "homenode, balancing off", measuredPasses)
	t.Do(setBalancing(true))
	warm(balancingTime)
	// A home may be given up when what it holds grows meanwhile; what is asked is
	// that memory and accesses are at the home of the moment.
	for name, now := range t.awaitHome(settleLimit, ws) {
		if now != homes[name] {
			t.Logf("%s has moved from node %s to %s", name, homes[name], now)
		}
		homes[name] = now
	}
	for _, w := range ws {
		t.record("HOME %d %s", w.slot, homes[w.name])
	}
	t.measure(ws, tagBoth, "homenode, balancing on", measuredPasses)
	t.Textf("all home after %.1f s", took.Seconds())
}

// awaitSampled waits until homenode has had the kernel's balancing on and has put it back.
func (t *T) awaitSampled(limit time.Duration) {
	t.until(limit, time.Second, "NUMA balancing is switched on and off again", func() (bool, string) {
		on := false
		for _, e := range t.history() {
			if e.Workload != "numa-balancing" {
				continue
			}
			switch e.Kind {
			case "host":
				on = true
			case "undo":
				return on && !e.Error && readText(balancingFile) == "0", e.Text
			}
		}
		return false, fmt.Sprintf("it is on: %v", on)
	})
}

// balancingTime is how long the kernel's balancing gets.
const balancingTime = 40 * time.Second

// wideRuns is how often countWide begins anew.
const wideRuns = 5

// countWide counts what homenode makes of the wide one of the crowd alone, time and again:
// started anew, with the kernel's balancing off but for the while in which homenode has it on.
func countWide(t *T) {
	t.Do(scanOften())
	for run := range wideRuns {
		freshState()
		ws := t.startWalkers(cgroupRoot, t.crowd()[:1]...)
		if run == 0 {
			t.declare(ws)
		}
		start := time.Now()
		d := t.startDaemon(daemonOptions{mode: "enforce", extra: t.askForWide(ws) + "threads: {sample: true}\n"})
		homes := t.awaitHome(settleLimit, ws)
		t.awaitSampled(settleLimit)
		t.Logf("run %d: at home and sampled after %.1f s", run+1, time.Since(start).Seconds())
		for _, w := range ws {
			t.record("HOME %d %s", w.slot, homes[w.name])
		}
		t.measure(ws, tagRuns+uint32(run), fmt.Sprintf("homenode, run %d", run+1), measuredPasses)
		t.undoneAll()
		t.stop(d)
		ws[0].kill()
		t.Do(os.Remove(string(ws[0].group)))
	}
}
