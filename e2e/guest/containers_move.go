//go:build linux

package main

import (
	"fmt"
	"os/exec"
	"slices"
	"strings"
	"time"
)

func init() {
	tests["containers.move"] = containersMove
	tests["containers.undo"] = containersUndo
}

// containersMove: a busy pod leaves a crowded node with its memory, by updates that nobody
// asked the runtime for; the others stay. One that grows keeps its home where that has
// room, and gets another where it has not.
func containersMove(t *T) {
	c := t.cri()
	d := t.underRuntime(daemonOptions{mode: "enforce", balance: true, cooldown: "5s", extra: granted("shop")})
	specs := numbered(4, 0)
	busy := &specs[0].containers[0]
	busy.busy, busy.cpus, busy.mib = true, 1, 48
	specs = append(specs, podSpec{name: "grows", qos: "guaranteed", annotations: map[string]string{"homenode.io/class": "dedicated"}, containers: []containerSpec{small("c", 4)}})
	grows := &specs[4].containers[0]
	grows.cpus, grows.own = 1, true
	pods := t.pods(c, specs...)
	ws := walkersOf(pods)
	homes := t.awaitHome(settleLimit, ws)

	mover, home := pods[0].containers[0], t.nodesOf(pods[0].containers[0].first)
	var hogs []*exec.Cmd
	calm := func() {
		for _, hog := range hogs {
			hog.Process.Kill()
			hog.Wait()
		}
		hogs = nil
	}
	t.Defer(calm)
	for range t.shape.CPUsPerNode {
		hog := exec.Command("sh", "-c", "while :; do :; done")
		t.Do(hog.Start())
		hogs = append(hogs, hog)
		t.Do(setAffinity(hog.Process.Pid, cpusOf(home)))
	}
	t.Logf("node %s is crowded", home)
	start := time.Now()
	var to set
	t.until(vmLimit, 2*time.Second, "the busy pod leaves, its memory with it", func() (bool, string) {
		cpus := t.set(t.read(mover.group.file("cpuset.cpus")))
		to = t.nodesOf(cpus)
		anon, _ := anonByNode(mover.pid)
		return to.size() == 1 && to != home && share(anon, to) >= 0.99, fmt.Sprintf("it may use CPUs %s, its memory %s", cpus, byNodeText(anon))
	})
	took := time.Since(start)
	if !slices.ContainsFunc(t.history(), func(e event) bool { return e.Workload == mover.id() && e.Code == "balance-doing" }) {
		t.Fatalf("the history does not tell why %s moved: %v", mover.id(), t.history())
	}
	for _, w := range ws {
		if homes[w.name] == home { // crowded, too
			continue
		}
		if now := t.homes([]*walker{w})[w.name]; now != homes[w.name] {
			t.Fatalf("%s moved from node %s to %s", w.id(), homes[w.name], now)
		}
		if why := w.atHome(homes[w.name]); why != "" {
			t.Fatalf("%s", why)
		}
	}

	calm() // what spins takes the emulated CPUs from all else
	// Dedicated, one CPU: a second one is at home; all of a node's are not, where others are.
	p, k := pods[4], pods[4].containers[0]
	was := t.nodesOf(k.first)
	for _, cpus := range []int{2, t.shape.CPUsPerNode} {
		to := k.spec
		to.cpus = float64(cpus)
		t.Do(c.resize(p, k, to))
		t.until(vmLimit, time.Second, fmt.Sprintf("%s has %d CPUs on one node", k.called, cpus), func() (bool, string) {
			has := t.set(t.read(k.group.file("cpuset.cpus")))
			nodes := t.nodesOf(has)
			anon, _ := anonByNode(k.pid)
			return has.size() == cpus && nodes.size() == 1 && share(anon, nodes) >= 0.99, fmt.Sprintf("it has CPUs %s, its memory %s", has, byNodeText(anon))
		})
		now := t.nodesOf(t.set(t.read(k.group.file("cpuset.cpus"))))
		if cpus == 2 && now != was && was != home { // a crowded node has no room
			t.Fatalf("%s grew to 2 CPUs and left node %s for %s", k.called, was, now)
		}
	}
	t.alive(d)
	t.walking(ws)
	t.Textf("node %s to node %s after %.1f s, those on other nodes stayed; grown to %d CPUs", home, to, took.Seconds(), t.shape.CPUsPerNode)
}

// containersUndo: what a container was given goes back to what it would have had, whether
// it ran before the daemon or began under it.
func containersUndo(t *T) {
	c := t.cri()
	before := t.pods(c, numbered(2, 0)...)
	given := small("c", 3)
	given.cpuset = "0-11" // by whoever made it
	before = append(before, t.morePods(c, podSpec{name: "given", containers: []containerSpec{given}})...)
	old := takeSnapshot(walkersOf(before))
	d := t.underRuntime(daemonOptions{mode: "enforce", extra: granted("shop")})
	own := small("c", 4)
	own.own, own.cpus = true, 1
	under := t.morePods(c, podSpec{name: "later", containers: []containerSpec{small("c", 2)}},
		podSpec{name: "own", qos: "guaranteed", annotations: map[string]string{"homenode.io/class": "dedicated"}, containers: []containerSpec{own}})
	placed := append(slices.Clone(before[:2]), under...)
	t.awaitHome(settleLimit, walkersOf(placed))
	for _, w := range walkersOf(under) {
		if t.read(w.group.file("cpuset.cpus")) == "" {
			t.Fatalf("%s has no CPU set to undo", w.id())
		}
	}
	t.undoneAll()
	about := func(n string) bool {
		return !slices.ContainsFunc(under, func(p *pod) bool {
			return strings.HasPrefix(n, string(p.parent())) || strings.Contains(n, " of "+p.name+".")
		})
	}
	t.same("after undo --all", old, takeSnapshot(walkersOf(before)), about)
	for _, w := range walkersOf(under) {
		if cpus, mems := t.read(w.group.file("cpuset.cpus")), t.read(w.group.file("cpuset.mems")); cpus != "" || mems != "" {
			t.Fatalf("after undo --all %s still has CPUs %q and memory nodes %q", w.id(), cpus, mems)
		}
	}
	// What starts now starts as without homenode, until it is told to go on.
	later := t.morePods(c, numbered(1, 5)[0].named("after"))
	if cpus := later[0].containers[0].first; cpus.size() != t.shape.CPUs() {
		t.Logf("after undo --all a new pod began on CPUs %s", cpus)
	}
	t.alive(d)
	t.walking(walkersOf(before))
	t.Textf("%d containers back to their old sets", len(walkersOf(before))+len(walkersOf(under)))
}

func (s podSpec) named(name string) podSpec {
	s.name = name
	return s
}
