package observe

import (
	"fmt"
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
	if o := find(t, r.look(), "pid:100"); len(o.PerThread) != 3 || o.PerThread[0].Use != 0 {
		t.Errorf("at first: %+v", o.PerThread)
	}
	p.threads[1].ticks += 150
	s := r.after(3 * time.Second)
	o := find(t, s, "pid:100")
	if on := o.PerThread[1].On; !on.Equal(topology.Nodes(0)) {
		t.Errorf("it ran on nodes %s", on)
	}
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

// TestYoungWide: in the first seconds of wide work new threads are read in each look, later not; what a thread uses
// counts since it began while that is all that is known.
func TestYoungWide(t *testing.T) {
	m := newFake()
	p := m.proc(100, 1, "a", "/", 100*mib)
	thread := fakeThread{cpus: "0-7", ticks: 15, cpu: 5}
	p.threads = []fakeThread{{cpus: "0-7"}, thread}
	p.start = 99_970 // 0.3 s ago
	r := newRig(t, m, Options{})
	r.with.Wide = map[workload.ID]bool{"pid:100": true}
	threads := func(after time.Duration) []workload.Thread { return find(t, r.after(after), "pid:100").PerThread }
	got := threads(0)
	if len(got) != 2 || got[1].Use != 0.5 || !got[1].On.Equal(topology.Nodes(1)) {
		t.Fatalf("%+v", got)
	}
	more := func() { p.threads = append(p.threads, thread) }
	more()
	got = threads(200 * time.Millisecond)
	if len(got) != 3 || got[2].Use < 0.29 || got[2].Use > 0.31 { // half a second old
		t.Errorf("one more: %+v", got)
	}
	p.threads[1].ticks += 100
	if got = threads(100 * time.Millisecond); got[1].Use > 0.31 {
		t.Errorf("read again though nothing has changed: %+v", got)
	}
	if got = threads(5 * time.Second); got[1].Use < 0.18 || got[1].Use > 0.2 {
		t.Errorf("in five seconds a CPU second: %+v", got)
	}
	threads(10 * time.Second)
	more()
	if got = threads(time.Second); len(got) != 3 {
		t.Errorf("a new thread is read at once though the work is no longer young: %+v", got)
	}
	if got = threads(wideFirst); len(got) != 4 {
		t.Errorf("a new thread is not read: %+v", got)
	}
}

// TestSeemsWide: work that begins with more threads than a node has CPUs is read once before it has a home.
func TestSeemsWide(t *testing.T) {
	m := newFake()
	m.proc(1000, 1, "before", "/", 100*mib).threads = make([]fakeThread, 9)
	r := newRig(t, m, Options{})
	if o := find(t, r.look(), "pid:1000"); o.PerThread != nil {
		t.Errorf("it ran before homenode: %+v", o.PerThread)
	}
	for pid, threads := range map[int]int{2000: 4, 3000: 5} {
		p := m.proc(pid, 1, "began", "/", 100*mib)
		p.threads = make([]fakeThread, threads)
		for i := range p.threads {
			p.threads[i].cpus = "0-7"
		}
	}
	for _, want := range []map[workload.ID]int{
		{"pid:1000": 0, "pid:2000": 0, "pid:3000": 5}, {"pid:1000": 0, "pid:2000": 0, "pid:3000": 0},
	} {
		s := r.after(2 * time.Second)
		for id, n := range want {
			if o := find(t, s, id); len(o.PerThread) != n {
				t.Errorf("%s: %d threads are read, want %d", id, len(o.PerThread), n)
			}
		}
	}
}

// The observation has the memory of each process of a wide workload; not of a single process, nor of work
// that fits a node.
func TestPerProcess(t *testing.T) {
	m := newFake()
	m.group("/train", fakeGroup{anon: byNode{100 * mib, 60 * mib}, cpus: "0-7", mems: "0-1"})
	m.proc(100, 1, "a", "/train", 100*mib)
	m.proc(101, 100, "a", "/train", 60*mib).maps = "7f0000000000 default anon=100 dirty=100 N0=40 N1=60 kernelpagesize_kB=4\n"
	m.service("/one", 200, "b", 100*mib)
	m.group("/narrow", fakeGroup{anon: byNode{100 * mib, 0}, cpus: "0-7", mems: "0-1"})
	m.proc(300, 1, "c", "/narrow", 50*mib)
	m.proc(301, 300, "c", "/narrow", 50*mib)
	r := newRig(t, m, Options{})
	r.with.Wide = map[workload.ID]bool{"/train": true, "/one": true}
	r.look()
	s := r.after(3 * time.Second)
	got := find(t, s, "/train").PerProcess
	if len(got) != 2 || got[0].Process != 100 || workload.Total(got[0].Memory) != 100*mib || got[0].Memory[0].Node != 0 {
		t.Fatalf("%+v", got)
	}
	if x := got[1]; x.Process != 101 || len(x.Memory) != 2 || x.Memory[1] != (workload.NodeMemory{Node: 1, KiB: 240}) {
		t.Errorf("%+v", x)
	}
	for _, id := range []workload.ID{"/one", "/narrow"} {
		if x := find(t, s, id).PerProcess; x != nil {
			t.Errorf("%s: %+v", id, x)
		}
	}
}

// TestWideInTurn: a user who begins work of many threads in each scan keeps no other work from being read, with homes
// of several nodes for the new work or without.
func TestWideInTurn(t *testing.T) {
	for name, homes := range map[string]bool{"no homes": false, "homes": true} {
		m := newFake()
		p := m.proc(100, 1, "a", "/", 100*mib)
		p.threads = []fakeThread{{cpus: "0-7"}, {cpus: "0-7"}}
		r := newRig(t, m, Options{})
		r.with.Wide = map[workload.ID]bool{"pid:100": true}
		r.look()
		p.threads[1].ticks += 1000
		read := false
		for i := range 10 {
			pid := 1000 + 100*i
			m.proc(pid, 1, "flood", "/", 100*mib).threads = make([]fakeThread, 9)
			wide := map[workload.ID]bool{"pid:100": true} // readers have the old one
			for k := range i + 1 {
				wide[workload.ID(fmt.Sprint("pid:", 1000+100*k))] = homes
			}
			r.with.Wide = wide
			o := find(t, r.after(2*time.Second), "pid:100")
			read = read || (len(o.PerThread) == 2 && o.PerThread[1].Use > 0)
		}
		if !read {
			t.Errorf("%s: its threads were not read in 20 s", name)
		}
	}
}
