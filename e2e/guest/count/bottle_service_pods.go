//go:build linux

package count

import (
	"fmt"
	"os"
	"time"

	"github.com/homenode/homenode/e2e/guest/lab"
	"github.com/homenode/homenode/e2e/guest/runtimes"
)

// servicePodMiB is the memory limit of each pod.
const servicePodMiB = 192

// bottleServicePods counts the four programs of bottleServices in a pod each, of the real containerd. Homenode
// places them by the Node Resource Interface. Their clients are outside, and left to the kernel in all arms.
// No arm is homenode run: it starts no pods.
func bottleServicePods(t *lab.T) {
	t.Do(lab.LoopbackUp()) // nginx listens there, and this disk has no systemd that brings it up
	servers := fourServers(t)
	arms := armsFor(t, serviceCPUs)
	runServers(t, "service-pods", servicePods(t, runtimes.ConnectCRI(t)), arms[:len(arms)-1], servers)
}

// servicePods runs each program in a pod of its own.
func servicePods(t *lab.T, c *runtimes.CRI) hosting {
	var pods []*runtimes.Pod
	of := func(name string) *runtimes.Container {
		for _, p := range pods {
			if p.Name == name {
				return p.Containers[0]
			}
		}
		t.Fatalf("no pod %s", name)
		return nil
	}
	var h hosting
	h.homenode = func() func() {
		lab.FreshState()
		d := runtimes.UnderRuntime(t, lab.DaemonOptions{Mode: "enforce"})
		return func() {
			t.UndoneAll()
			t.Stop(d)
		}
	}
	h.start = func(a arm, servers []databaseServer) func() {
		var specs []runtimes.PodSpec
		for i, s := range servers {
			k := runtimes.ContainerSpec{Program: &s.Program, CPUs: serviceCPUs, MemoryMiB: servicePodMiB}
			k.Name = "server"
			p := runtimes.PodSpec{Name: s.Name, QoS: "burstable", Containers: []runtimes.ContainerSpec{k}}
			if a.cpus != nil {
				p.QoS, p.Containers[0].Cpuset = "guaranteed", a.cpus(i).String()
			}
			specs = append(specs, p)
		}
		os.Remove(memcachedSocket) // left by the last arm: its server would seem ready
		pods = runtimes.Pods(t, c, specs...)
		for _, s := range servers {
			awaitPod(t, of(s.Name), s.Program)
		}
		return func() { runtimes.CleanPods(t, c) }
	}
	h.first = func(name string) int { return of(name).PID }
	h.history = func() string { return lab.Homenode("history", "--limit", "0").Out }
	h.pids = func(name string) []int { return t.PIDsIn(of(name).Group) }
	return h
}

// awaitPod waits until the program of a pod serves, and fills it.
func awaitPod(t *lab.T, k *runtimes.Container, p runtimes.Program) {
	t.Poll(5*time.Minute, time.Second, p.Name+" is ready", func() (bool, string) {
		if _, err := os.Stat(fmt.Sprintf("/proc/%d", k.PID)); err != nil {
			t.Fatalf("%s has ended: %s", p.Name, lab.ReadText(lab.PodFolder+"/"+k.Walker.Name+".log"))
		}
		return p.Ready(), "its process is " + lab.ReadText(fmt.Sprintf("/proc/%d/comm", k.PID))
	})
	runtimes.FillProgram(t, p)
}
