//go:build linux

package main

import (
	"fmt"
	"time"
)

func init() { tests["containers.count"] = containersCount }

// Tags of the marks of the guest that counts what pods access.
const (
	tagPodsKernel = 1 + iota
	tagPodsBalancing
	tagPodsStatic
	tagPodsHomenode
)

// Ten pods, each with so many CPUs and threads and so large a heap: on two nodes of
// twelve CPUs they take what ten pods of 8 CPUs take of 44 cores with SMT.
const (
	serverCPUs    = 2
	serverThreads = 4
	serverMiB     = 64
)

// servers are ten pods with a transaction server's walk: every thread goes over the whole
// heap, which all of them have filled together.
func servers(qos string, cpuset func(i int) string) []podSpec {
	var r []podSpec
	for i := range 10 {
		k := containerSpec{cpus: serverCPUs, memoryMiB: serverMiB + 64, walkerSpec: walkerSpec{name: "server", slot: i, mib: serverMiB, threads: serverThreads, place: "local", whole: true}}
		if cpuset != nil {
			k.cpuset = cpuset(i)
		}
		r = append(r, podSpec{name: fmt.Sprintf("p%d", i), qos: qos, containers: []containerSpec{k}})
	}
	return r
}

// staticCPUs is the kubelet's static CPU manager with its default options, with CPUs 0-1
// kept for the system (pkg/kubelet/cm/cpumanager, takeByTopologyNUMAPacked): a guaranteed
// container that asks for whole CPUs gets whole cores, from the socket with the fewest free
// CPUs that is not empty, lowest numbers first. Pods of two CPUs come one after the other.
func staticCPUs(i int) string {
	first := serverCPUs * (i + 1)
	return setOf(first, first+1).String()
}

// containersCount counts what ten pods access: under the kernel alone, with its NUMA
// balancing, with the kubelet's static CPU manager, and under homenode.
func containersCount(t *T) {
	c := t.cri()
	pods := t.pods(c, servers("burstable", nil)...)
	ws := walkersOf(pods)
	t.declare(ws)
	warm(10 * time.Second)
	t.measure(ws, tagPodsKernel, "kernel alone", measuredPasses)
	t.Do(setBalancing(true))
	warm(balancingTime)
	t.measure(ws, tagPodsBalancing, "NUMA balancing", measuredPasses)
	t.Do(setBalancing(false))

	t.renew(c, pods, servers("guaranteed", staticCPUs)) // with a guaranteed pod's CPU set; the limits are not what is looked at
	ws = walkersOf(pods)
	warm(10 * time.Second)
	t.measure(ws, tagPodsStatic, "kubelet, static", measuredPasses)

	t.underRuntime(daemonOptions{mode: "enforce"})
	t.renew(c, pods, servers("burstable", nil))
	ws = walkersOf(pods)
	warm(10 * time.Second)
	for _, p := range pods {
		for _, k := range p.containers {
			t.record("HOME %d %s", k.slot, t.nodesOf(k.first))
		}
	}
	t.measure(ws, tagPodsHomenode, "homenode", measuredPasses)
	t.walking(ws)
}
