package observe

import (
	"testing"
	"time"

	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/core/workload"
)

// TestWide: of work that is wider than a node each thread is looked at; what homenode has
// divided is nobody's pin.
func TestWide(t *testing.T) {
	m := newFake()
	p := m.proc(100, 1, "a", "/", 100*mib)
	p.threads = []fakeThread{{cpus: "0-7"}, {cpus: "0-7"}, {cpus: "0-7"}}
	m.proc(200, 1, "b", "/", 100*mib).threads = []fakeThread{{cpus: "0-7"}, {cpus: "0-7"}}
	r := newRig(t, m, Options{})
	r.with.Wide = map[workload.ID]bool{"pid:100": true}
	m.more = map[string]string{"proc/sys/kernel/numa_balancing": "1\n", "proc/100/task/101/sched": schedFile(20, 0, 300, 100)}
	if o := find(t, r.look(), "pid:100"); o.PerThread != nil {
		t.Errorf("before anything is known of what they use: %+v", o.PerThread)
	}
	p.threads[1].ticks += 150
	s := r.after(3 * time.Second)
	o := find(t, s, "pid:100")
	if len(o.PerThread) != 3 || o.PerThread[1].TID != 101 || o.PerThread[1].Process != 100 || o.PerThread[1].CPUs.String() != "0-7" ||
		o.PerThread[1].Use < 0.45 || o.PerThread[1].Use > 0.55 || o.PerThread[0].Use != 0 {
		t.Fatalf("threads %+v", o.PerThread)
	}
	if f := o.PerThread[1].Faults; len(f) != 2 || f[0].Faults != 300 || f[1].Node != 1 || o.PerThread[1].Scans != 20 {
		t.Errorf("faults %+v after %d scans", f, o.PerThread[1].Scans)
	}
	if find(t, s, "pid:200").PerThread != nil {
		t.Error("threads of what is not wide are looked at")
	}

	r.with.Divided = map[workload.ID][]topology.CPUSet{"pid:100": {mustCPUs("0-3"), mustCPUs("4-7")}}
	for i, cpus := range []string{"0-3", "4-7", "0-3"} {
		p.threads[i].cpus = cpus
	}
	r.o.Changed("pid:100")
	o = find(t, r.after(time.Second), "pid:100")
	if o.Pinned || o.CPUs.String() != "0-7" || o.PerThread[1].CPUs.String() != "4-7" || o.PerThread[1].Use < 0.45 {
		t.Errorf("divided: pinned %v (%s), CPUs %s, threads %+v", o.Pinned, o.PinnedWhy, o.CPUs, o.PerThread)
	}
	p.threads[2].cpus = "5"
	if o = find(t, r.after(2*affinityEvery), "pid:100"); !o.Pinned {
		t.Error("one that was pinned since is not told")
	}

	p.threads = make([]fakeThread, workload.MostPerThread+1)
	for i := range p.threads {
		p.threads[i].cpus = "0-7"
	}
	r.after(wideEvery)
	if o = find(t, r.after(wideEvery), "pid:100"); o.PerThread != nil {
		t.Errorf("%d threads are looked at", len(o.PerThread))
	}
}
