//go:build linux

package count

import (
	"fmt"
	"os"
	"time"

	"github.com/homenode/homenode/e2e/guest/lab"
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

// countKernel counts what the kernel alone makes of the crowd: first with its
// NUMA balancing off, then on, with short scan periods and most of a minute of
// time, which is more than it gets from most workloads.
func countKernel(t *lab.T) {
	ws := t.StartWalkers(lab.CgroupRoot, t.Crowd()...)
	t.Declare(ws)
	lab.Warm(5 * time.Second)
	t.Measure(ws, tagKernelOff, "kernel, balancing off", lab.MeasuredPasses)
	t.Do(lab.SetBalancing(true))
	lab.Warm(balancingTime)
	t.Measure(ws, tagKernelOn, "kernel, balancing on", lab.MeasuredPasses)
	t.Walking(ws)
}

// countHomenode counts what homenode makes of the same crowd. First with the
// kernel's balancing off, so that what moved, homenode moved; then with it on, as
// distributions have it: it brings the memory of the wide one to its threads.
func countHomenode(t *lab.T) {
	ws := t.StartWalkers(lab.CgroupRoot, t.Crowd()...)
	t.Declare(ws)
	t.Measure(ws, tagBefore, "before", lab.MeasuredPasses)
	start := time.Now()
	t.StartDaemon(lab.DaemonOptions{Mode: "enforce"})
	homes := t.AwaitHome(lab.SettleLimit, ws)
	took := time.Since(start)
	t.LogHomes(ws, homes)
	t.WideOnNear(ws, homes)
	for _, w := range ws {
		t.Record("HOME %d %s", w.Slot, homes[w.Name])
	}
	t.Measure(ws, tagHomenode, "homenode, balancing off", lab.MeasuredPasses)
	t.Do(lab.SetBalancing(true))
	lab.Warm(balancingTime)
	// A home may be given up when what it holds grows meanwhile; what is asked is
	// that memory and accesses are at the home of the moment.
	for name, now := range t.AwaitHome(lab.SettleLimit, ws) {
		if now != homes[name] {
			t.Logf("%s has moved from node %s to %s", name, homes[name], now)
		}
		homes[name] = now
	}
	for _, w := range ws {
		t.Record("HOME %d %s", w.Slot, homes[w.Name])
	}
	t.Measure(ws, tagBoth, "homenode, balancing on", lab.MeasuredPasses)
	t.Textf("all home after %.1f s", took.Seconds())
}

// awaitSampled waits until homenode has had the kernel's balancing on and has put it back.
func awaitSampled(t *lab.T, limit time.Duration) {
	t.Poll(limit, time.Second, "NUMA balancing is switched on and off again", func() (bool, string) {
		on := false
		for _, e := range t.History() {
			if e.Workload != "numa-balancing" {
				continue
			}
			switch e.Kind {
			case "host":
				on = true
			case "undo":
				return on && !e.Error && lab.ReadText(lab.BalancingFile) == "0", e.Text
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
func countWide(t *lab.T) {
	t.Do(lab.ScanOften())
	for run := range wideRuns {
		lab.FreshState()
		ws := t.StartWalkers(lab.CgroupRoot, t.Crowd()[:1]...)
		if run == 0 {
			t.Declare(ws)
		}
		start := time.Now()
		d := t.StartDaemon(lab.DaemonOptions{Mode: "enforce", Extra: t.AskForWide(ws) + "threads: {sample: true}\n"})
		homes := t.AwaitHome(lab.SettleLimit, ws)
		awaitSampled(t, lab.SettleLimit)
		t.Logf("run %d: at home and sampled after %.1f s", run+1, time.Since(start).Seconds())
		for _, w := range ws {
			t.Record("HOME %d %s", w.Slot, homes[w.Name])
		}
		t.Measure(ws, tagRuns+uint32(run), fmt.Sprintf("homenode, run %d", run+1), lab.MeasuredPasses)
		t.UndoneAll()
		t.Stop(d)
		ws[0].Kill()
		t.Do(os.Remove(string(ws[0].Group)))
	}
}
