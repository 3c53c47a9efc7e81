//go:build linux

package runtimes

import (
	"strings"
	"time"

	"github.com/homenode/homenode/e2e/guest/lab"
)

// firstPage: so many pods begin on the CPUs of a home, so that their memory is there from
// the first page; the containers of a pod share a home; undo gives them their old sets.
func firstPage(t *lab.T, n int) {
	c := ConnectCRI(t)
	UnderRuntime(t, lab.DaemonOptions{Mode: "enforce"})
	specs := numbered(n, 0)
	specs[n-1].Containers = append(specs[n-1].Containers, small("side", n))
	start := time.Now()
	pods := Pods(t, c, specs...)
	took := time.Since(start)
	var off []string
	used := lab.Set(0)
	var slowest time.Duration
	for _, p := range pods {
		for _, k := range p.Containers {
			if why := firstPageAtHome(t, k); why != "" {
				off = append(off, why)
			}
			used |= t.NodesOf(k.First)
			slowest = max(slowest, k.took)
		}
	}
	if len(off) > 0 {
		t.Fatalf("%d of %d: %s", len(off), n+1, strings.Join(off, "; "))
	}
	both := pods[n-1].Containers
	if a, b := t.NodesOf(both[0].First), t.NodesOf(both[1].First); a != b {
		t.Fatalf("the containers of one pod began on nodes %s and %s", a, b)
	}
	if used.Size() < min(n, t.Shape.Nodes) {
		t.Fatalf("%d pods are all on nodes %s", n, used)
	}
	homes := t.AwaitHome(lab.SettleLimit, WalkersOf(pods))
	s := t.Status()
	for _, p := range pods {
		for _, k := range p.Containers {
			if at := t.NodesOf(k.First); homes[k.Walker.Name] != at {
				t.Fatalf("%s began on node %s, its home is %s", k.Called, at, homes[k.Walker.Name])
			}
			if m, _, _ := s.Of(k.Called); m.Moved > 0 {
				t.Fatalf("%s: %d bytes were moved, which should have been at home from the start", k.Called, m.Moved)
			}
		}
	}
	t.UndoneAll()
	for _, p := range pods {
		for _, k := range p.Containers {
			if cpus, mems := t.Read(k.Group.File("cpuset.cpus")), t.Read(k.Group.File("cpuset.mems")); cpus != "" ||
				mems != "" {
				t.Fatalf("after undo --all %s still has CPUs %q and memory nodes %q", k.Called, cpus, mems)
			}
		}
	}
	t.Textf("%d pods in %.0f s, the slowest CreateContainer %v; on nodes %s, all pages at home from the first", n,
		took.Seconds(), slowest, used)
}
