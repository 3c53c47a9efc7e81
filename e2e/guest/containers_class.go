//go:build linux

package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"
)

func init() {
	tests["containers.class"] = containersClass
	tests["containers.static"] = containersStatic
}

// containersClass: a pod's annotations, and those of one container of it, are what it
// gets; one that cannot be read keeps nothing from starting and is told.
func containersClass(t *T) {
	c := t.cri()
	t.underRuntime(daemonOptions{mode: "enforce", extra: granted("shop")})
	threads := func(k containerSpec, n int, cpus float64) containerSpec {
		k.threads, k.cpus = n, cpus
		return k
	}
	own := func(k containerSpec) containerSpec {
		k.own = true
		return k
	}
	bestEffort := func(k containerSpec) containerSpec {
		k.cpus = 0
		return k
	}
	pods := t.pods(c,
		podSpec{name: "own", qos: "guaranteed", annotations: map[string]string{"homenode.io/class": "dedicated"},
			containers: []containerSpec{own(threads(small("c", 0), 2, 2))}},
		podSpec{name: "half", qos: "guaranteed", annotations: map[string]string{"homenode.io/class.container/db": "dedicated", "homenode.io/importance": "80"},
			containers: []containerSpec{own(threads(small("db", 1), 1, 1)), small("web", 2)}},
		podSpec{name: "wide", qos: "guaranteed", annotations: map[string]string{"homenode.io/class": "dedicated", "homenode.io/max-nodes": "2"},
			containers: []containerSpec{own(threads(small("c", 3), 6, 6))}},
		podSpec{name: "large", annotations: map[string]string{"homenode.io/memory": "200MiB"},
			containers: []containerSpec{small("c", 4)}},
		podSpec{name: "wrong", annotations: map[string]string{"homenode.io/class": "fastest", "homenode.io/importance": "often"},
			containers: []containerSpec{small("c", 5)}},
	)
	// On other nodes there is more room.
	pods = append(pods, t.morePods(c, podSpec{name: "close", qos: "besteffort", annotations: map[string]string{"homenode.io/near": "shop/large"}, containers: []containerSpec{bestEffort(small("c", 6))}})...)
	alone, half, wide, large, wrong := pods[0].containers[0], pods[1].containers, pods[2].containers[0], pods[3].containers[0], pods[4].containers[0]
	near := pods[5].containers[0]

	var wrongs []string
	off := func(format string, a ...any) { wrongs = append(wrongs, fmt.Sprintf(format, a...)) }
	for k, cpus := range map[*container]int{alone: 2, half[0]: 1, wide: 6} {
		if k.first.size() != cpus {
			off("%s is dedicated with %d CPUs and began on CPUs %s", k.called, cpus, k.first)
		}
		if mems := t.set(t.read(k.group.file("cpuset.mems"))); mems != t.nodesOf(k.first) {
			off("%s is on CPUs %s, its memory is bound to %q", k.called, k.first, mems)
		}
	}
	if a, b := t.nodesOf(half[0].first), t.nodesOf(half[1].first); a != b {
		off("the containers of one pod began on nodes %s and %s", a, b)
	}
	nodes := t.nodesOf(wide.first)
	if ids := nodes.ids(); len(ids) != 2 || t.shape.Distance[ids[0]][ids[1]] != 16 {
		off("six CPUs on up to two nodes began on CPUs %s, nodes %s", wide.first, nodes)
	}
	if a, b := t.nodesOf(near.first), t.nodesOf(large.first); a != b {
		off("%s is to be near %s and began on node %s, not %s", near.called, large.called, a, b)
	}
	for _, k := range []*container{alone, half[0], half[1], large, wrong, near} {
		if why := t.firstPageAtHome(k); why != "" {
			off("%s", why)
		}
	}
	class, weight := map[string]string{}, map[string]int{}
	s := t.status()
	for _, w := range s.Workloads {
		class[w.ID], class[w.Name] = w.Class, w.Class
		weight[w.ID] = w.Weight
	}
	for k, want := range map[*container]int{half[0]: 80, half[1]: 80, near: 0, wrong: 50} {
		if weight[k.called] != want {
			off("%s has importance %d in status, not %d", k.called, weight[k.called], want)
		}
	}
	for _, n := range s.Nodes {
		if t.nodesOf(large.first) == setOf(n.ID) && n.Booked < 200<<10 {
			off("%s says that it will hold 200 MiB, on its node %d are %d KiB booked", large.called, n.ID, n.Booked)
		}
	}
	for k, want := range map[*container]string{alone: "dedicated", half[0]: "dedicated", half[1]: "shared", wide: "dedicated", large: "shared", wrong: "shared", near: "shared"} {
		if class[k.called] != want {
			off("%s is %q in status, not %s", k.called, class[k.called], want)
		}
	}
	if len(wrongs) > 0 {
		t.Fatalf("%s", strings.Join(wrongs, "; "))
	}
	for _, k := range []*container{alone, half[0]} {
		t.until(30*time.Second, time.Second, "the CPUs of "+k.called+" are its own", func() (bool, string) {
			for _, other := range walkersOf(pods) {
				for tid, may := range allowed(other.pid) {
					if other != k.walker && may&k.first != 0 {
						return false, fmt.Sprintf("CPUs %s are its own, and thread %d of %s may use CPUs %s", k.first, tid, other.called, may)
					}
				}
			}
			return true, ""
		})
	}
	t.until(30*time.Second, time.Second, "status tells of the annotation", func() (bool, string) {
		said := t.must(homenode("status"), exitOK)
		return strings.Contains(said.out+said.err, "fastest") && strings.Contains(said.out, "shop/wrong"), said.out
	})
	if said := t.must(homenode("explain", wrong.called), exitOK); !strings.Contains(said.out, "fastest") {
		t.Fatalf("explain does not tell of the annotation: %s", said)
	}
	t.awaitHome(settleLimit, walkersOf(pods))
	t.Textf("own on CPUs %s, half on %s with a CPU of its own, wide on nodes %s", alone.first, half[0].first, nodes)
}

// containersStatic: CPUs that the kubelet's static CPU manager gave to a container are
// that container's: nothing of it is changed, and nothing else is put there.
func containersStatic(t *T) {
	c := t.cri()
	const state = "/var/lib/kubelet/cpu_manager_state"
	t.Do(os.MkdirAll(filepath.Dir(state), 0o755))
	t.Defer(func() { os.Remove(state) })
	t.Do(os.WriteFile(state, []byte(`{"policyName":"static","defaultCpuSet":"0-1,4-15","entries":{"e2e-st":{"c":"2-3"}},"checksum":0}`), 0o600))
	d := t.underRuntime(daemonOptions{mode: "enforce"})
	given := small("c", 0)
	given.cpus, given.threads, given.cpuset = 2, 2, "2-3"
	pods := t.pods(c, append([]podSpec{{name: "st", qos: "guaranteed", containers: []containerSpec{given}}}, numbered(3, 1)...)...)
	theirs := pods[0].containers[0]
	warm(10 * time.Second)
	if theirs.first.String() != "2-3" || t.read(theirs.group.file("cpuset.cpus")) != "2-3" {
		t.Fatalf("the kubelet gave CPUs 2-3, it began on %s and has %s", theirs.first, t.read(theirs.group.file("cpuset.cpus")))
	}
	s := t.status()
	if _, state, why := s.of(theirs.called); state != "left alone" || !strings.Contains(why, "kubelet") {
		t.Fatalf("what the kubelet pinned is %s: %s", state, why)
	}
	for _, dir := range subtree(cgroupRoot) {
		if cpus := t.set(readText(dir + "/cpuset.cpus")); group(dir) != theirs.group && cpus != 0 && cpus.within(t.set("2-3")) {
			t.Fatalf("%s is on the CPUs that the kubelet gave away: %s", dir, cpus)
		}
	}
	t.alive(d)
}
