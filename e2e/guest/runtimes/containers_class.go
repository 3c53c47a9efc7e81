//go:build linux

package runtimes

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/homenode/homenode/e2e/guest/lab"
)

// containersClass: a pod's annotations, and those of one container of it, are what it
// gets; one that cannot be read keeps nothing from starting and is told.
func containersClass(t *lab.T) {
	c := ConnectCRI(t)
	UnderRuntime(t, lab.DaemonOptions{Mode: "enforce", Extra: granted("shop")})
	threads := func(k ContainerSpec, n int, cpus float64) ContainerSpec {
		k.Threads, k.CPUs = n, cpus
		return k
	}
	own := func(k ContainerSpec) ContainerSpec {
		k.own = true
		return k
	}
	bestEffort := func(k ContainerSpec) ContainerSpec {
		k.CPUs = 0
		return k
	}
	pods := Pods(t, c,
		PodSpec{Name: "own", QoS: "guaranteed", annotations: map[string]string{"homenode.io/class": "dedicated"},
			Containers: []ContainerSpec{own(threads(small("c", 0), 2, 2))}},
		PodSpec{Name: "half", QoS: "guaranteed",
			annotations: map[string]string{"homenode.io/class.container/db": "dedicated",
				"homenode.io/importance": "80"},
			Containers: []ContainerSpec{own(threads(small("db", 1), 1, 1)), small("web", 2)}},
		PodSpec{Name: "wide", QoS: "guaranteed", annotations: map[string]string{"homenode.io/class": "dedicated",
			"homenode.io/max-nodes": "2"},
			Containers: []ContainerSpec{own(threads(small("c", 3), 6, 6))}},
		PodSpec{Name: "large", annotations: map[string]string{"homenode.io/memory": "200MiB"},
			Containers: []ContainerSpec{small("c", 4)}},
		PodSpec{Name: "wrong", annotations: map[string]string{"homenode.io/class": "fastest",
			"homenode.io/importance": "often"},
			Containers: []ContainerSpec{small("c", 5)}},
	)
	// On other nodes there is more room.
	pods = append(pods,
		morePods(t, c, PodSpec{Name: "close", QoS: "besteffort",
			annotations: map[string]string{"homenode.io/near": "shop/large"},
			Containers:  []ContainerSpec{bestEffort(small("c", 6))}})...)
	alone := pods[0].Containers[0]
	half := pods[1].Containers
	wide := pods[2].Containers[0]
	large := pods[3].Containers[0]
	wrong := pods[4].Containers[0]
	near := pods[5].Containers[0]

	var wrongs []string
	off := func(format string, a ...any) { wrongs = append(wrongs, fmt.Sprintf(format, a...)) }
	for k, cpus := range map[*Container]int{alone: 2, half[0]: 1, wide: 6} {
		if k.First.Size() != cpus {
			off("%s is dedicated with %d CPUs and began on CPUs %s", k.Called, cpus, k.First)
		}
		if mems := t.Set(t.Read(k.Group.File("cpuset.mems"))); mems != t.NodesOf(k.First) {
			off("%s is on CPUs %s, its memory is bound to %q", k.Called, k.First, mems)
		}
	}
	if a, b := t.NodesOf(half[0].First), t.NodesOf(half[1].First); a != b {
		off("the containers of one pod began on nodes %s and %s", a, b)
	}
	nodes := t.NodesOf(wide.First)
	if ids := nodes.IDs(); len(ids) != 2 || t.Shape.Distance[ids[0]][ids[1]] != 16 {
		off("six CPUs on up to two nodes began on CPUs %s, nodes %s", wide.First, nodes)
	}
	if a, b := t.NodesOf(near.First), t.NodesOf(large.First); a != b {
		off("%s is to be near %s and began on node %s, not %s", near.Called, large.Called, a, b)
	}
	for _, k := range []*Container{alone, half[0], half[1], large, wrong, near} {
		if why := firstPageAtHome(t, k); why != "" {
			off("%s", why)
		}
	}
	class, weight := map[string]string{}, map[string]int{}
	s := t.Status()
	for _, w := range s.Workloads {
		class[w.ID], class[w.Name] = w.Class, w.Class
		weight[w.ID] = w.Weight
	}
	for k, want := range map[*Container]int{half[0]: 80, half[1]: 80, near: 0, wrong: 50} {
		if weight[k.Called] != want {
			off("%s has importance %d in status, not %d", k.Called, weight[k.Called], want)
		}
	}
	for _, n := range s.Nodes {
		if t.NodesOf(large.First) == lab.SetOf(n.ID) && n.Booked < 200<<10 {
			off("%s says that it will hold 200 MiB, on its node %d are %d KiB booked", large.Called, n.ID, n.Booked)
		}
	}
	for k, want := range map[*Container]string{alone: "dedicated", half[0]: "dedicated", half[1]: "shared",
		wide: "dedicated", large: "shared", wrong: "shared", near: "shared"} {
		if class[k.Called] != want {
			off("%s is %q in status, not %s", k.Called, class[k.Called], want)
		}
	}
	if len(wrongs) > 0 {
		t.Fatalf("%s", strings.Join(wrongs, "; "))
	}
	for _, k := range []*Container{alone, half[0]} {
		t.Poll(30*time.Second, time.Second, "the CPUs of "+k.Called+" are its own", func() (bool, string) {
			for _, other := range WalkersOf(pods) {
				for tid, may := range lab.Allowed(other.PID) {
					if other != k.Walker && may&k.First != 0 {
						return false, fmt.Sprintf("CPUs %s are its own, and thread %d of %s may use CPUs %s", k.First,
							tid, other.Called, may)
					}
				}
			}
			return true, ""
		})
	}
	t.Poll(30*time.Second, time.Second, "status tells of the annotation", func() (bool, string) {
		said := t.Must(lab.Homenode("status"), lab.ExitOK)
		return strings.Contains(said.Out+said.Err, "fastest") && strings.Contains(said.Out, "shop/wrong"), said.Out
	})
	if said := t.Must(lab.Homenode("explain", wrong.Called), lab.ExitOK); !strings.Contains(said.Out, "fastest") {
		t.Fatalf("explain does not tell of the annotation: %s", said)
	}
	t.AwaitHome(lab.SettleLimit, WalkersOf(pods))
	t.Textf("own on CPUs %s, half on %s with a CPU of its own, wide on nodes %s", alone.First, half[0].First, nodes)
}

// containersStatic: CPUs that the kubelet's static CPU manager gave to a container are
// that container's: nothing of it is changed, and nothing else is put there.
func containersStatic(t *lab.T) {
	c := ConnectCRI(t)
	const state = "/var/lib/kubelet/cpu_manager_state"
	t.Do(os.MkdirAll(filepath.Dir(state), 0o755))
	t.Defer(func() { os.Remove(state) })
	t.Do(os.WriteFile(state,
		[]byte(`{"policyName":"static","defaultCpuSet":"0-1,4-15","entries":{"e2e-st":{"c":"2-3"}},"checksum":0}`),
		0o600))
	d := UnderRuntime(t, lab.DaemonOptions{Mode: "enforce"})
	given := small("c", 0)
	given.CPUs = 2
	given.Threads = 2
	given.Cpuset = "2-3"
	pods := Pods(t, c, append([]PodSpec{{Name: "st", QoS: "guaranteed", Containers: []ContainerSpec{given}}},
		numbered(3, 1)...)...)
	theirs := pods[0].Containers[0]
	lab.Warm(10 * time.Second)
	if theirs.First.String() != "2-3" || t.Read(theirs.Group.File("cpuset.cpus")) != "2-3" {
		t.Fatalf("the kubelet gave CPUs 2-3, it began on %s and has %s", theirs.First,
			t.Read(theirs.Group.File("cpuset.cpus")))
	}
	s := t.Status()
	if _, state, why := s.Of(theirs.Called); state != "left alone" || !strings.Contains(why, "kubelet") {
		t.Fatalf("what the kubelet pinned is %s: %s", state, why)
	}
	for _, dir := range lab.Subtree(lab.CgroupRoot) {
		if cpus := t.Set(lab.ReadText(dir + "/cpuset.cpus")); lab.Group(dir) != theirs.Group && cpus != 0 &&
			cpus.Within(t.Set("2-3")) {
			t.Fatalf("%s is on the CPUs that the kubelet gave away: %s", dir, cpus)
		}
	}
	t.Alive(d)
}
