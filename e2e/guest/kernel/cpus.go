//go:build linux

package kernel

import (
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/homenode/homenode/e2e/guest/lab"
)

// kernelAffinity: sched_setaffinity moves a running thread at once, threads made
// later inherit, and the other threads of the process are left alone.
func kernelAffinity(t *lab.T) {
	w := t.StartWalkers(lab.CgroupRoot, lab.WalkerSpec{Name: "w", Slot: 0, MiB: 16, Threads: 2, Place: "local"})[0]
	for tid, cpus := range lab.Allowed(w.PID) {
		if cpus.Size() != t.Shape.CPUs() {
			t.Fatalf("thread %d may use %s only", tid, cpus)
		}
	}
	threads := lab.ThreadsOf(w.PID)
	slices.Sort(threads)
	lone := threads[len(threads)-1]
	t.Do(lab.SetAffinity(lone, lab.NodeCPUs(2)))
	for tid, cpus := range lab.Allowed(w.PID) {
		if (cpus == lab.NodeCPUs(2)) != (tid == lone) {
			t.Fatalf("after setting thread %d: thread %d may use %s", lone, tid, cpus)
		}
	}
	for _, tid := range threads {
		t.Do(lab.SetAffinity(tid, lab.NodeCPUs(3)))
	}
	// A thread that slept through it all still counts where it last ran, and one
	// that was on its way when looked at may have run a moment more where it was.
	t.Until(20*time.Second, "the threads run only where they may", func() (bool, string) {
		before := map[int]string{}
		for _, tid := range lab.ThreadsOf(w.PID) {
			before[tid] = lab.RunTime(tid)
		}
		t.Walking([]*lab.Walker{w})
		ran := 0
		for tid, was := range before {
			if lab.RunTime(tid) == was {
				continue
			}
			ran++
			if c := lab.LastCPU(tid); !lab.NodeCPUs(3).Has(c) {
				return false, fmt.Sprintf("thread %d ran on CPU %d, its affinity is %s", tid, c, lab.NodeCPUs(3))
			}
		}
		return ran >= w.Threads, fmt.Sprintf("only %d threads ran", ran)
	})
}

// kernelCpuset: cpuset.cpus narrows affinity and gives it back, cpuset.mems
// narrows what may be allocated from. Whether cpuset.mems also moves what is
// resident differs: cpuset_migrate_mm starts at old_mems_allowed
// (kernel/cgroup/cpuset.c), which up to Linux 7.2 is empty for a cgroup that
// processes were born into, so that its first narrowing moves nothing; 7.3 moves.
// Homenode therefore moves the pages itself; what this kernel does is reported.
func kernelCpuset(t *lab.T) {
	born := lab.WalkerSpec{Name: "born", Slot: 0, MiB: 32, Threads: 2, Place: "bind:0", Unbind: true}
	joined := lab.WalkerSpec{Name: "joined", Slot: 1, MiB: 32, Threads: 2, Place: "bind:0", Unbind: true, Plain: true}
	ws := t.StartWalkers(lab.CgroupRoot, born, joined)
	w, j := ws[0], ws[1]
	t.Write(w.Group.File("cpuset.cpus"), lab.NodeCPUs(1).String())
	for tid, cpus := range lab.Allowed(w.PID) {
		if cpus != lab.NodeCPUs(1) {
			t.Fatalf("thread %d may use %s with cpuset.cpus %s", tid, cpus, lab.NodeCPUs(1))
		}
	}
	t.Write(w.Group.File("cpuset.mems"), "3")
	if got := lab.StatusField(w.PID, "Mems_allowed_list"); got != "3" {
		t.Fatalf("Mems_allowed_list %q", got)
	}
	if got := t.Read(w.Group.File("cpuset.mems.effective")); got != "3" {
		t.Fatalf("cpuset.mems.effective %q", got)
	}
	first := t.Buffer(w)
	t.Write(w.Group.File("cpuset.mems"), "2") // from 3, where nothing lies
	second := t.Buffer(w)

	j.Group = t.NewGroup(lab.CgroupRoot, "joined")
	t.Write(j.Group.File("cgroup.procs"), strconv.Itoa(j.PID))
	start := time.Now()
	t.Write(j.Group.File("cpuset.mems"), "3")
	took := time.Since(start)
	third := t.Buffer(j)

	if lab.Share(third.Nodes, lab.SetOf(3)) < 1 {
		t.Fatalf("joined, narrowed to 3: %s", lab.ByNodeText(third.Nodes))
	}
	t.Write(w.Group.File("cpuset.cpus"), "\n")
	t.Write(j.Group.File("cpuset.mems"), "\n")
	for tid, cpus := range lab.Allowed(w.PID) {
		if cpus.Size() != t.Shape.CPUs() {
			t.Fatalf("thread %d may use %s after cpuset.cpus was emptied", tid, cpus)
		}
	}
	if b := t.Buffer(j); lab.Share(b.Nodes, lab.SetOf(3)) < 1 {
		t.Fatalf("pages moved when cpuset.mems was emptied: %s", lab.ByNodeText(b.Nodes))
	}
	t.Textf("32 MiB moved by cpuset.mems in %d ms; born in the cgroup, narrowed to 3: %s, then to 2: %s",
		took.Milliseconds(), lab.ByNodeText(first.Nodes), lab.ByNodeText(second.Nodes))
}

// kernelCPUOffline: a CPU that goes offline leaves CPU sets and affinities, and
// comes back into cpuset.cpus.effective, but an affinity that lost its last CPU
// is reset by the kernel.
func kernelCPUOffline(t *lab.T) {
	w := t.StartWalkers(lab.CgroupRoot, lab.WalkerSpec{Name: "w", Slot: 0, MiB: 16, Threads: 2, Place: "local"})[0]
	t.Write(w.Group.File("cpuset.cpus"), "4-5")
	t.Write("/sys/devices/system/cpu/cpu5/online", "0")
	t.Until(10*time.Second, "cpuset.cpus.effective loses CPU 5", func() (bool, string) {
		got := t.Read(w.Group.File("cpuset.cpus.effective"))
		return got == "4", got
	})
	if got := t.Read(w.Group.File("cpuset.cpus")); got != "4-5" {
		t.Fatalf("cpuset.cpus is %q with CPU 5 offline", got)
	}
	if got := t.Read(lab.NodeFile(1, "cpulist")); got != "4,6-7" {
		t.Fatalf("node1 CPUs %q with CPU 5 offline", got)
	}
	t.Write("/sys/devices/system/cpu/cpu5/online", "1")
	t.Until(10*time.Second, "cpuset.cpus.effective has CPU 5 back", func() (bool, string) {
		got := t.Read(w.Group.File("cpuset.cpus.effective"))
		return got == "4-5", got
	})
	t.Walking([]*lab.Walker{w})

	spec := lab.WalkerSpec{Name: "p", Slot: 1, MiB: 16, Threads: 1, Place: "local", Plain: true}
	p := t.StartWalkers(lab.CgroupRoot, spec)[0]
	for _, tid := range lab.ThreadsOf(p.PID) {
		t.Do(lab.SetAffinity(tid, lab.SetOf(9)))
	}
	t.Write("/sys/devices/system/cpu/cpu9/online", "0")
	t.Walking([]*lab.Walker{p})
	after := map[lab.Set]bool{}
	for _, cpus := range lab.Allowed(p.PID) {
		after[cpus] = true
	}
	t.Textf("affinity to the CPU that went offline became %v", lab.SetKeys(after))
}
