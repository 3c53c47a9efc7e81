//go:build linux

package main

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// id is the workload ID that homenode gives a walker.
func (w *walker) id() string {
	if w.called != "" {
		return w.called
	}
	if w.group != "" {
		return w.group.path()
	}
	return fmt.Sprintf("pid:%d", w.pid)
}

// homes is the home node set of each walker by homenode's own account.
func (t *T) homes(ws []*walker) map[string]set {
	r := map[string]set{}
	for _, wl := range t.status().Workloads {
		for _, w := range ws {
			if (w.id() == wl.ID || w.id() == wl.Name) && wl.Home != "" {
				r[w.name] = t.set(wl.Home)
			}
		}
	}
	return r
}

// atHome says what keeps a walker from being at home, by /proc alone: 99 % of
// the process's anonymous pages on the home nodes, and every thread's CPUs
// within those nodes. "" when nothing does.
func (w *walker) atHome(home set) string {
	if home == 0 {
		return w.name + " has no home"
	}
	anon, err := anonByNode(w.pid)
	if err != nil {
		return fmt.Sprintf("%s: %v", w.name, err)
	}
	if s := share(anon, home); s < 0.99 {
		return fmt.Sprintf("%s: %.1f %% of its memory on its home %s: %s", w.name, s*100, home, byNodeText(anon))
	}
	cpus := cpusOf(home)
	for tid, may := range allowed(w.pid) {
		if !may.within(cpus) {
			return fmt.Sprintf("%s: thread %d may use CPUs %s, its home %s has %s", w.name, tid, may, home, cpus)
		}
	}
	return ""
}

// awaitHome waits until all walkers are at home and returns the homes.
func (t *T) awaitHome(limit time.Duration, ws []*walker) map[string]set {
	var homes map[string]set
	start := time.Now()
	t.until(limit, time.Second, "all walkers at home", func() (bool, string) {
		asked := time.Now()
		homes = t.homes(ws)
		answered := time.Now()
		off := make([]string, len(ws))
		inParallel(ws, func(i int, w *walker) { off[i] = w.atHome(homes[w.name]) })
		off = slices.DeleteFunc(off, func(s string) bool { return s == "" })
		if slow := time.Since(asked); slow > 5*time.Second {
			t.Logf("status took %.1f s, reading numa_maps %.1f s", answered.Sub(asked).Seconds(), time.Since(answered).Seconds())
		}
		return len(off) == 0, strings.Join(off, "; ")
	})
	t.Logf("at home after %.1f s", time.Since(start).Seconds())
	return homes
}

// wideOnNear checks the shape of the homes: one node for what fits a node, near
// nodes for what does not.
func (t *T) wideOnNear(ws []*walker, homes map[string]set) {
	for _, w := range ws {
		home := homes[w.name]
		if fits := w.mib < t.shape.NodeMiB*9/10 && w.threads <= t.shape.CPUsPerNode; fits {
			if home.size() != 1 {
				t.Fatalf("%s fits a node, its home is %s", w.name, home)
			}
			continue
		}
		if home.size() != 2 {
			t.Fatalf("%s needs two nodes, its home is %s", w.name, home)
		}
		ids := home.ids()
		if d := t.shape.Distance[ids[0]][ids[1]]; d != 16 {
			t.Fatalf("%s is split over nodes %s at distance %d; there are near ones at 16", w.name, home, d)
		}
	}
}

// withinCapacity checks that no node carries more threads than CPUs. The crowd
// fits the machine, so that there is always a way.
func (t *T) withinCapacity(ws []*walker, homes map[string]set) {
	load := make([]float64, t.shape.Nodes)
	for _, w := range ws {
		for _, n := range homes[w.name].ids() {
			load[n] += float64(w.threads) / float64(homes[w.name].size())
		}
	}
	for n, l := range load {
		t.Logf("node%d: %.1f threads on %d CPUs, %d of %d MiB free", n, l, t.shape.CPUsPerNode, nodeKiB(n, "MemFree")>>10, nodeKiB(n, "MemTotal")>>10)
		if free := nodeKiB(n, "MemFree"); free < 16<<10 {
			t.Fatalf("node%d has %d KiB free", n, free)
		}
	}
}

// logHomes shows where everyone lives.
func (t *T) logHomes(ws []*walker, homes map[string]set) {
	for _, w := range ws {
		cpus := map[set]bool{}
		for _, c := range allowed(w.pid) {
			cpus[c] = true
		}
		t.Logf("%-6s %4d MiB %d threads: home %s, threads may use %v, %s", w.name, w.mib, w.threads, homes[w.name],
			setKeys(cpus), byNodeText(t.buffer(w).nodes))
	}
}

// settleLimit is how long homenode may take to bring the crowd home: moving a
// gigabyte takes the emulated guest some ten seconds idle, on a busy machine a
// minute or two.
const settleLimit = 240 * time.Second
