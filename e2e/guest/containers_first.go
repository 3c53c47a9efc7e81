//go:build linux

package main

import (
	"strings"
	"time"
)

func init() {
	tests["containers.start"] = func(t *T) { firstPage(t, 3) }
	tests["containers.first-page"] = func(t *T) { firstPage(t, 10) }
}

// firstPage: so many pods begin on the CPUs of a home, so that their memory is there from
// the first page; the containers of a pod share a home; undo gives them their old sets.
func firstPage(t *T, n int) {
	c := t.cri()
	t.underRuntime(daemonOptions{mode: "enforce"})
	specs := numbered(n, 0)
	specs[n-1].containers = append(specs[n-1].containers, small("side", n))
	start := time.Now()
	pods := t.pods(c, specs...)
	took := time.Since(start)
	var off []string
	used := set(0)
	var slowest time.Duration
	for _, p := range pods {
		for _, k := range p.containers {
			if why := t.firstPageAtHome(k); why != "" {
				off = append(off, why)
			}
			used |= t.nodesOf(k.first)
			slowest = max(slowest, k.took)
		}
	}
	if len(off) > 0 {
		t.Fatalf("%d of %d: %s", len(off), n+1, strings.Join(off, "; "))
	}
	both := pods[n-1].containers
	if a, b := t.nodesOf(both[0].first), t.nodesOf(both[1].first); a != b {
		t.Fatalf("the containers of one pod began on nodes %s and %s", a, b)
	}
	if used.size() < min(n, t.shape.Nodes) {
		t.Fatalf("%d pods are all on nodes %s", n, used)
	}
	homes := t.awaitHome(settleLimit, walkersOf(pods))
	s := t.status()
	for _, p := range pods {
		for _, k := range p.containers {
			if at := t.nodesOf(k.first); homes[k.walker.name] != at {
				t.Fatalf("%s began on node %s, its home is %s", k.called, at, homes[k.walker.name])
			}
			if m, _, _ := s.of(k.called); m.Moved > 0 {
				t.Fatalf("%s: %d bytes were moved, which should have been at home from the start", k.called, m.Moved)
			}
		}
	}
	t.undoneAll()
	for _, p := range pods {
		for _, k := range p.containers {
			if cpus, mems := t.read(k.group.file("cpuset.cpus")), t.read(k.group.file("cpuset.mems")); cpus != "" || mems != "" {
				t.Fatalf("after undo --all %s still has CPUs %q and memory nodes %q", k.called, cpus, mems)
			}
		}
	}
	t.Textf("%d pods in %.0f s, the slowest CreateContainer %v; on nodes %s, all pages at home from the first", n, took.Seconds(), slowest, used)
}
