//go:build linux

package lab

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// ID is the workload ID that homenode gives a walker.
func (w *Walker) ID() string {
	if w.Called != "" {
		return w.Called
	}
	if w.Group != "" {
		return w.Group.Path()
	}
	return fmt.Sprintf("pid:%d", w.PID)
}

// Homes is the home node set of each walker by homenode's own account.
func (t *T) Homes(ws []*Walker) map[string]Set {
	r := map[string]Set{}
	for _, wl := range t.Status().Workloads {
		for _, w := range ws {
			if (w.ID() == wl.ID || w.ID() == wl.Name) && wl.Home != "" {
				r[w.Name] = t.Set(wl.Home)
			}
		}
	}
	return r
}

// AtHome says what keeps a walker from being at home, by /proc alone: 99 % of
// the process's anonymous pages on the home nodes, and every thread's CPUs
// within those nodes. "" when nothing does.
func (w *Walker) AtHome(home Set) string {
	if home == 0 {
		return w.Name + " has no home"
	}
	anon, err := AnonByNode(w.PID)
	if err != nil {
		return fmt.Sprintf("%s: %v", w.Name, err)
	}
	if s := Share(anon, home); s < 0.99 {
		return fmt.Sprintf("%s: %.1f %% of its memory on its home %s: %s", w.Name, s*100, home, ByNodeText(anon))
	}
	cpus := CPUsOf(home)
	for tid, may := range Allowed(w.PID) {
		if !may.Within(cpus) {
			return fmt.Sprintf("%s: thread %d may use CPUs %s, its home %s has %s", w.Name, tid, may, home, cpus)
		}
	}
	return ""
}

// AwaitHome waits until all walkers are at home and returns the homes.
func (t *T) AwaitHome(limit time.Duration, ws []*Walker) map[string]Set {
	var homes map[string]Set
	start := time.Now()
	t.Poll(limit, time.Second, "all walkers at home", func() (bool, string) {
		asked := time.Now()
		homes = t.Homes(ws)
		answered := time.Now()
		off := make([]string, len(ws))
		inParallel(ws, func(i int, w *Walker) { off[i] = w.AtHome(homes[w.Name]) })
		off = slices.DeleteFunc(off, func(s string) bool { return s == "" })
		if slow := time.Since(asked); slow > 5*time.Second {
			t.Logf("status took %.1f s, reading numa_maps %.1f s", answered.Sub(asked).Seconds(),
				time.Since(answered).Seconds())
		}
		return len(off) == 0, strings.Join(off, "; ")
	})
	t.Logf("at home after %.1f s", time.Since(start).Seconds())
	return homes
}

// WideOnNear checks the shape of the homes: one node for what fits a node, near
// nodes for what does not.
func (t *T) WideOnNear(ws []*Walker, homes map[string]Set) {
	for _, w := range ws {
		home := homes[w.Name]
		if fits := w.MiB < t.Shape.NodeMiB*9/10 && w.Threads <= t.Shape.CPUsPerNode; fits {
			if home.Size() != 1 {
				t.Fatalf("%s fits a node, its home is %s", w.Name, home)
			}
			continue
		}
		if home.Size() != 2 {
			t.Fatalf("%s needs two nodes, its home is %s", w.Name, home)
		}
		ids := home.IDs()
		if d := t.Shape.Distance[ids[0]][ids[1]]; d != 16 {
			t.Fatalf("%s is split over nodes %s at distance %d; there are near ones at 16", w.Name, home, d)
		}
	}
}

// WithinCapacity checks that no node carries more threads than CPUs. The crowd
// fits the machine, so that there is always a way.
func (t *T) WithinCapacity(ws []*Walker, homes map[string]Set) {
	load := make([]float64, t.Shape.Nodes)
	for _, w := range ws {
		for _, n := range homes[w.Name].IDs() {
			load[n] += float64(w.Threads) / float64(homes[w.Name].Size())
		}
	}
	for n, l := range load {
		t.Logf("node%d: %.1f threads on %d CPUs, %d of %d MiB free", n, l, t.Shape.CPUsPerNode,
			NodeKiB(n, "MemFree")>>10, NodeKiB(n, "MemTotal")>>10)
		if free := NodeKiB(n, "MemFree"); free < 16<<10 {
			t.Fatalf("node%d has %d KiB free", n, free)
		}
	}
}

// LogHomes shows where everyone lives.
func (t *T) LogHomes(ws []*Walker, homes map[string]Set) {
	for _, w := range ws {
		cpus := map[Set]bool{}
		for _, c := range Allowed(w.PID) {
			cpus[c] = true
		}
		t.Logf("%-6s %4d MiB %d threads: home %s, threads may use %v, %s", w.Name, w.MiB, w.Threads, homes[w.Name],
			SetKeys(cpus), ByNodeText(t.Buffer(w).Nodes))
	}
}

// SettleLimit is how long homenode may take to bring the crowd home: moving a
// gigabyte takes the emulated guest some ten seconds idle, on a busy machine a
// minute or two.
const SettleLimit = 240 * time.Second
