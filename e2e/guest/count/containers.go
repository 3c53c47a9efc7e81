//go:build linux

package count

import (
	"fmt"
	"time"

	"github.com/homenode/homenode/e2e/guest/lab"
	"github.com/homenode/homenode/e2e/guest/runtimes"
)

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
func servers(qos string, cpuset func(i int) string) []runtimes.PodSpec {
	var r []runtimes.PodSpec
	for i := range 10 {
		k := runtimes.ContainerSpec{CPUs: serverCPUs, MemoryMiB: serverMiB + 64,
			WalkerSpec: lab.WalkerSpec{Name: "server", Slot: i, MiB: serverMiB, Threads: serverThreads, Place: "local",
				Whole: true}}
		if cpuset != nil {
			k.Cpuset = cpuset(i)
		}
		r = append(r, runtimes.PodSpec{Name: fmt.Sprintf("p%d", i), QoS: qos, Containers: []runtimes.ContainerSpec{k}})
	}
	return r
}

// staticCPUs is the kubelet's static CPU manager with its default options, with CPUs 0-1
// kept for the system (pkg/kubelet/cm/cpumanager, takeByTopologyNUMAPacked): a guaranteed
// container that asks for whole CPUs gets whole cores, from the socket with the fewest free
// CPUs that is not empty, lowest numbers first. Pods of two CPUs come one after the other.
func staticCPUs(i int) string {
	first := serverCPUs * (i + 1)
	return lab.SetOf(first, first+1).String()
}

// containersCount counts what ten pods access: under the kernel alone, with its NUMA
// balancing, with the kubelet's static CPU manager, and under homenode.
func containersCount(t *lab.T) {
	c := runtimes.ConnectCRI(t)
	pods := runtimes.Pods(t, c, servers("burstable", nil)...)
	ws := runtimes.WalkersOf(pods)
	t.Declare(ws)
	lab.Warm(10 * time.Second)
	t.Measure(ws, tagPodsKernel, "kernel alone", lab.MeasuredPasses)
	t.Do(lab.SetBalancing(true))
	lab.Warm(balancingTime)
	t.Measure(ws, tagPodsBalancing, "NUMA balancing", lab.MeasuredPasses)
	t.Do(lab.SetBalancing(false))

	// with a guaranteed pod's CPU set; the limits are not what is looked at
	runtimes.Renew(t, c, pods, servers("guaranteed", staticCPUs))
	ws = runtimes.WalkersOf(pods)
	lab.Warm(10 * time.Second)
	t.Measure(ws, tagPodsStatic, "kubelet, static", lab.MeasuredPasses)

	runtimes.UnderRuntime(t, lab.DaemonOptions{Mode: "enforce"})
	runtimes.Renew(t, c, pods, servers("burstable", nil))
	ws = runtimes.WalkersOf(pods)
	lab.Warm(10 * time.Second)
	for _, p := range pods {
		for _, k := range p.Containers {
			t.Record("HOME %d %s", k.Slot, t.NodesOf(k.First))
		}
	}
	t.Measure(ws, tagPodsHomenode, "homenode", lab.MeasuredPasses)
	t.Walking(ws)
}
