//go:build linux

package main

import (
	"fmt"
	"os"
	"time"
)

func init() { tests["bottle.service-pods"] = bottleServicePods }

// servicePodMiB is the memory limit of each pod.
const servicePodMiB = 192

// bottleServicePods counts the four programs of bottleServices in a pod each, of the real containerd. Homenode
// places them by the Node Resource Interface. Their clients are outside, and left to the kernel in all arms.
// No arm is homenode run: it starts no pods.
func bottleServicePods(t *T) {
	t.Do(loopbackUp()) // nginx listens there, and this disk has no systemd that brings it up
	servers := fourServers(t)
	arms := t.armsFor(serviceCPUs)
	t.servers("service-pods", t.servicePods(t.cri()), arms[:len(arms)-1], servers)
}

// servicePods runs each program in a pod of its own.
func (t *T) servicePods(c *cri) hosting {
	var pods []*pod
	of := func(name string) *container {
		for _, p := range pods {
			if p.name == name {
				return p.containers[0]
			}
		}
		t.Fatalf("no pod %s", name)
		return nil
	}
	var h hosting
	h.homenode = func() func() {
		freshState()
		d := t.underRuntime(daemonOptions{mode: "enforce"})
		return func() {
			t.undoneAll()
			t.stop(d)
		}
	}
	h.start = func(a arm, servers []databaseServer) func() {
		var specs []podSpec
		for i, s := range servers {
			k := containerSpec{program: &s.program, cpus: serviceCPUs, memoryMiB: servicePodMiB}
			k.name = "server"
			p := podSpec{name: s.name, qos: "burstable", containers: []containerSpec{k}}
			if a.cpus != nil {
				p.qos, p.containers[0].cpuset = "guaranteed", a.cpus(i).String()
			}
			specs = append(specs, p)
		}
		os.Remove(memcachedSocket) // left by the last arm: its server would seem ready
		pods = t.pods(c, specs...)
		for _, s := range servers {
			t.awaitPod(of(s.name), s.program)
		}
		return func() { t.cleanPods(c) }
	}
	h.first = func(name string) int { return of(name).pid }
	h.history = func() string { return homenode("history", "--limit", "0").out }
	h.pids = func(name string) []int { return t.pidsIn(of(name).group) }
	return h
}

// awaitPod waits until the program of a pod serves, and fills it.
func (t *T) awaitPod(k *container, p program) {
	t.until(5*time.Minute, time.Second, p.name+" is ready", func() (bool, string) {
		if _, err := os.Stat(fmt.Sprintf("/proc/%d", k.pid)); err != nil {
			t.Fatalf("%s has ended: %s", p.name, readText(podFolder+"/"+k.walker.name+".log"))
		}
		return p.ready(), "its process is " + readText(fmt.Sprintf("/proc/%d/comm", k.pid))
	})
	t.fillProgram(p)
}
