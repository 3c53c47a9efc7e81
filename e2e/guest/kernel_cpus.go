//go:build linux

package main

import (
	"fmt"
	"slices"
	"strconv"
	"time"
)

// kernelAffinity: sched_setaffinity moves a running thread at once, threads made
// later inherit, and the other threads of the process are left alone.
func kernelAffinity(t *T) {
	w := t.startWalkers(cgroupRoot, walkerSpec{name: "w", slot: 0, mib: 16, threads: 2, place: "local"})[0]
	for tid, cpus := range allowed(w.pid) {
		if cpus.size() != t.shape.CPUs() {
			t.Fatalf("thread %d may use %s only", tid, cpus)
		}
	}
	threads := threadsOf(w.pid)
	slices.Sort(threads)
	lone := threads[len(threads)-1]
	t.Do(setAffinity(lone, nodeCPUs(2)))
	for tid, cpus := range allowed(w.pid) {
		if (cpus == nodeCPUs(2)) != (tid == lone) {
			t.Fatalf("after setting thread %d: thread %d may use %s", lone, tid, cpus)
		}
	}
	for _, tid := range threads {
		t.Do(setAffinity(tid, nodeCPUs(3)))
	}
	// A thread that slept through it all still counts where it last ran, and one
	// that was on its way when looked at may have run a moment more where it was.
	t.Until(20*time.Second, "the threads run only where they may", func() (bool, string) {
		before := map[int]string{}
		for _, tid := range threadsOf(w.pid) {
			before[tid] = runTime(tid)
		}
		t.walking([]*walker{w})
		ran := 0
		for tid, was := range before {
			if runTime(tid) == was {
				continue
			}
			ran++
			if c := lastCPU(tid); !nodeCPUs(3).has(c) {
				return false, fmt.Sprintf("thread %d ran on CPU %d, its affinity is %s", tid, c, nodeCPUs(3))
			}
		}
		return ran >= w.threads, fmt.Sprintf("only %d threads ran", ran)
	})
}

// kernelCpuset: cpuset.cpus narrows affinity and gives it back, cpuset.mems
// narrows what may be allocated from. Whether cpuset.mems also moves what is
// resident differs: cpuset_migrate_mm starts at old_mems_allowed
// (kernel/cgroup/cpuset.c), which up to Linux 7.2 is empty for a cgroup that
// processes were born into, so that its first narrowing moves nothing; 7.3 moves.
// Homenode therefore moves the pages itself; what this kernel does is reported.
func kernelCpuset(t *T) {
	born := walkerSpec{name: "born", slot: 0, mib: 32, threads: 2, place: "bind:0", unbind: true}
	joined := walkerSpec{name: "joined", slot: 1, mib: 32, threads: 2, place: "bind:0", unbind: true, plain: true}
	ws := t.startWalkers(cgroupRoot, born, joined)
	w, j := ws[0], ws[1]
	t.write(w.group.file("cpuset.cpus"), nodeCPUs(1).String())
	for tid, cpus := range allowed(w.pid) {
		if cpus != nodeCPUs(1) {
			t.Fatalf("thread %d may use %s with cpuset.cpus %s", tid, cpus, nodeCPUs(1))
		}
	}
	t.write(w.group.file("cpuset.mems"), "3")
	if got := statusField(w.pid, "Mems_allowed_list"); got != "3" {
		t.Fatalf("Mems_allowed_list %q", got)
	}
	if got := t.read(w.group.file("cpuset.mems.effective")); got != "3" {
		t.Fatalf("cpuset.mems.effective %q", got)
	}
	first := t.buffer(w)
	t.write(w.group.file("cpuset.mems"), "2") // from 3, where nothing lies
	second := t.buffer(w)

	j.group = t.newGroup(cgroupRoot, "joined")
	t.write(j.group.file("cgroup.procs"), strconv.Itoa(j.pid))
	start := time.Now()
	t.write(j.group.file("cpuset.mems"), "3")
	took := time.Since(start)
	third := t.buffer(j)

	if share(third.nodes, setOf(3)) < 1 {
		t.Fatalf("joined, narrowed to 3: %s", byNodeText(third.nodes))
	}
	t.write(w.group.file("cpuset.cpus"), "\n")
	t.write(j.group.file("cpuset.mems"), "\n")
	for tid, cpus := range allowed(w.pid) {
		if cpus.size() != t.shape.CPUs() {
			t.Fatalf("thread %d may use %s after cpuset.cpus was emptied", tid, cpus)
		}
	}
	if b := t.buffer(j); share(b.nodes, setOf(3)) < 1 {
		t.Fatalf("pages moved when cpuset.mems was emptied: %s", byNodeText(b.nodes))
	}
	t.Textf("32 MiB moved by cpuset.mems in %d ms; born in the cgroup, narrowed to 3: %s, then to 2: %s",
		took.Milliseconds(), byNodeText(first.nodes), byNodeText(second.nodes))
}

// kernelCPUOffline: a CPU that goes offline leaves CPU sets and affinities, and
// comes back into cpuset.cpus.effective, but an affinity that lost its last CPU
// is reset by the kernel.
func kernelCPUOffline(t *T) {
	w := t.startWalkers(cgroupRoot, walkerSpec{name: "w", slot: 0, mib: 16, threads: 2, place: "local"})[0]
	t.write(w.group.file("cpuset.cpus"), "4-5")
	t.write("/sys/devices/system/cpu/cpu5/online", "0")
	t.Until(10*time.Second, "cpuset.cpus.effective loses CPU 5", func() (bool, string) {
		got := t.read(w.group.file("cpuset.cpus.effective"))
		return got == "4", got
	})
	if got := t.read(w.group.file("cpuset.cpus")); got != "4-5" {
		t.Fatalf("cpuset.cpus is %q with CPU 5 offline", got)
	}
	if got := t.read(nodeFile(1, "cpulist")); got != "4,6-7" {
		t.Fatalf("node1 CPUs %q with CPU 5 offline", got)
	}
	t.write("/sys/devices/system/cpu/cpu5/online", "1")
	t.Until(10*time.Second, "cpuset.cpus.effective has CPU 5 back", func() (bool, string) {
		got := t.read(w.group.file("cpuset.cpus.effective"))
		return got == "4-5", got
	})
	t.walking([]*walker{w})

	p := t.startWalkers(cgroupRoot, walkerSpec{name: "p", slot: 1, mib: 16, threads: 1, place: "local", plain: true})[0]
	for _, tid := range threadsOf(p.pid) {
		t.Do(setAffinity(tid, setOf(9)))
	}
	t.write("/sys/devices/system/cpu/cpu9/online", "0")
	t.walking([]*walker{p})
	after := map[set]bool{}
	for _, cpus := range allowed(p.pid) {
		after[cpus] = true
	}
	t.Textf("affinity to the CPU that went offline became %v", setKeys(after))
}
