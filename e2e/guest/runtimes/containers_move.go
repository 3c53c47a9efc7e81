//go:build linux

package runtimes

import (
	"fmt"
	"os/exec"
	"slices"
	"strings"
	"time"

	"github.com/homenode/homenode/e2e/guest/lab"
)

// containersMove: a busy pod leaves a crowded node with its memory, by updates that nobody
// asked the runtime for; the others stay. One that grows keeps its home where that has
// room, and gets another where it has not.
func containersMove(t *lab.T) {
	c := ConnectCRI(t)
	d := UnderRuntime(t, lab.DaemonOptions{Mode: "enforce", Balance: true, Cooldown: "5s", Extra: granted("shop")})
	specs := numbered(4, 0)
	busy := &specs[0].Containers[0]
	busy.Busy = true
	busy.CPUs = 1
	busy.MiB = 48
	specs = append(specs, PodSpec{Name: "grows", QoS: "guaranteed",
		annotations: map[string]string{"homenode.io/class": "dedicated"}, Containers: []ContainerSpec{small("c", 4)}})
	grows := &specs[4].Containers[0]
	grows.CPUs, grows.own = 1, true
	pods := Pods(t, c, specs...)
	ws := WalkersOf(pods)
	homes := t.AwaitHome(lab.SettleLimit, ws)

	mover, home := pods[0].Containers[0], t.NodesOf(pods[0].Containers[0].First)
	var hogs []*exec.Cmd
	calm := func() {
		for _, hog := range hogs {
			hog.Process.Kill()
			hog.Wait()
		}
		hogs = nil
	}
	t.Defer(calm)
	for range t.Shape.CPUsPerNode {
		hog := exec.Command("sh", "-c", "while :; do :; done")
		t.Do(hog.Start())
		hogs = append(hogs, hog)
		t.Do(lab.SetAffinity(hog.Process.Pid, lab.CPUsOf(home)))
	}
	t.Logf("node %s is crowded", home)
	start := time.Now()
	var to lab.Set
	t.Poll(vmLimit, 2*time.Second, "the busy pod leaves, its memory with it", func() (bool, string) {
		cpus := t.Set(t.Read(mover.Group.File("cpuset.cpus")))
		to = t.NodesOf(cpus)
		anon, _ := lab.AnonByNode(mover.PID)
		return to.Size() == 1 && to != home && lab.Share(anon, to) >= 0.99,
			fmt.Sprintf("it may use CPUs %s, its memory %s", cpus, lab.ByNodeText(anon))
	})
	took := time.Since(start)
	if !slices.ContainsFunc(t.History(),
		func(e lab.Event) bool { return e.Workload == mover.ID() && e.Code == "balance-doing" }) {
		t.Fatalf("the history does not tell why %s moved: %v", mover.ID(), t.History())
	}
	for _, w := range ws {
		if homes[w.Name] == home { // crowded, too
			continue
		}
		if now := t.Homes([]*lab.Walker{w})[w.Name]; now != homes[w.Name] {
			t.Fatalf("%s moved from node %s to %s", w.ID(), homes[w.Name], now)
		}
		if why := w.AtHome(homes[w.Name]); why != "" {
			t.Fatalf("%s", why)
		}
	}

	calm() // what spins takes the emulated CPUs from all else
	// Dedicated, one CPU: a second one is at home; all of a node's are not, where others are.
	p, k := pods[4], pods[4].Containers[0]
	was := t.NodesOf(k.First)
	for _, cpus := range []int{2, t.Shape.CPUsPerNode} {
		to := k.spec
		to.CPUs = float64(cpus)
		t.Do(c.resize(p, k, to))
		t.Poll(vmLimit, time.Second, fmt.Sprintf("%s has %d CPUs on one node", k.Called, cpus), func() (bool, string) {
			has := t.Set(t.Read(k.Group.File("cpuset.cpus")))
			nodes := t.NodesOf(has)
			anon, _ := lab.AnonByNode(k.PID)
			return has.Size() == cpus && nodes.Size() == 1 && lab.Share(anon, nodes) >= 0.99,
				fmt.Sprintf("it has CPUs %s, its memory %s", has, lab.ByNodeText(anon))
		})
		now := t.NodesOf(t.Set(t.Read(k.Group.File("cpuset.cpus"))))
		if cpus == 2 && now != was && was != home { // a crowded node has no room
			t.Fatalf("%s grew to 2 CPUs and left node %s for %s", k.Called, was, now)
		}
	}
	t.Alive(d)
	t.Walking(ws)
	t.Textf("node %s to node %s after %.1f s, those on other nodes stayed; grown to %d CPUs", home, to, took.Seconds(),
		t.Shape.CPUsPerNode)
}

// containersUndo: what a container was given goes back to what it would have had, whether
// it ran before the daemon or began under it.
func containersUndo(t *lab.T) {
	c := ConnectCRI(t)
	before := Pods(t, c, numbered(2, 0)...)
	given := small("c", 3)
	given.Cpuset = "0-11" // by whoever made it
	before = append(before, morePods(t, c, PodSpec{Name: "given", Containers: []ContainerSpec{given}})...)
	old := lab.TakeSnapshot(WalkersOf(before))
	d := UnderRuntime(t, lab.DaemonOptions{Mode: "enforce", Extra: granted("shop")})
	own := small("c", 4)
	own.own, own.CPUs = true, 1
	under := morePods(t, c, PodSpec{Name: "later", Containers: []ContainerSpec{small("c", 2)}},
		PodSpec{Name: "own", QoS: "guaranteed", annotations: map[string]string{"homenode.io/class": "dedicated"},
			Containers: []ContainerSpec{own}})
	placed := append(slices.Clone(before[:2]), under...)
	t.AwaitHome(lab.SettleLimit, WalkersOf(placed))
	for _, w := range WalkersOf(under) {
		if t.Read(w.Group.File("cpuset.cpus")) == "" {
			t.Fatalf("%s has no CPU set to undo", w.ID())
		}
	}
	t.UndoneAll()
	about := func(n string) bool {
		return !slices.ContainsFunc(under, func(p *Pod) bool {
			return strings.HasPrefix(n, string(p.parent())) || strings.Contains(n, " of "+p.Name+".")
		})
	}
	t.Same("after undo --all", old, lab.TakeSnapshot(WalkersOf(before)), about)
	for _, w := range WalkersOf(under) {
		if cpus, mems := t.Read(w.Group.File("cpuset.cpus")), t.Read(w.Group.File("cpuset.mems")); cpus != "" ||
			mems != "" {
			t.Fatalf("after undo --all %s still has CPUs %q and memory nodes %q", w.ID(), cpus, mems)
		}
	}
	// What starts now starts as without homenode, until it is told to go on.
	later := morePods(t, c, numbered(1, 5)[0].named("after"))
	if cpus := later[0].Containers[0].First; cpus.Size() != t.Shape.CPUs() {
		t.Logf("after undo --all a new pod began on CPUs %s", cpus)
	}
	t.Alive(d)
	t.Walking(WalkersOf(before))
	t.Textf("%d containers back to their old sets", len(WalkersOf(before))+len(WalkersOf(under)))
}

func (s PodSpec) named(name string) PodSpec {
	s.Name = name
	return s
}
