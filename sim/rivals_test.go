package sim

import (
	"math"
	"testing"
	"time"

	"github.com/homenode/homenode/core/plan"
	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/core/workload"
)

// rivalHost is a machine of two nodes with four CPUs and 8 GiB each, and one job
// with its memory on node 0.
func rivalHost(t *testing.T, vcpus int, busy float64, kib topology.KiB) (*machine, *job, *Score) {
	t.Helper()
	h := synthetic(t, "package:2 node:1(memory=8GiB) core:4")
	m := newMachine(h, 1)
	j := &job{id: "j", cpus: h.Nodes[0].CPUs, mems: h.AllowedMems,
		demand: Demand{Class: workload.Shared, VCPUs: vcpus, Busy: busy, Memory: kib, Bandwidth: 1000}}
	m.add(j)
	j.asWas.cpus = h.Online
	return m, j, &Score{}
}

// TestKernelBalancing: memory follows threads that cannot go back to it, no faster
// than it is scanned; threads that can go back do; what is idle is left alone.
func TestKernelBalancing(t *testing.T) {
	const gib = topology.KiB(1 << 20)
	try := func(busy float64, cpus func(h *topology.Host) topology.CPUSet) (*job, *Score, topology.KiB) {
		m, j, score := rivalHost(t, 4, busy, 4*gib)
		m.setCPUs(j, m.host.Nodes[1].CPUs, false)
		m.setCPUs(j, cpus(m.host), false)
		a := newAutoNUMA(newReference(m, plan.DefaultPolicy(), 1, nil, false), 2*time.Second, score)
		most := topology.KiB(0)
		for range 300 {
			before := j.mem[1]
			m.settleMemory()
			m.serve()
			if err := a.tick(t.Context()); err != nil {
				t.Fatal(err)
			}
			most = max(most, j.mem[1]-before)
			m.now += 2 * time.Second
			if err := m.conserved(); err != nil {
				t.Fatal(err)
			}
		}
		return j, score, most
	}
	j, score, most := try(1, func(h *topology.Host) topology.CPUSet { return h.Nodes[1].CPUs })
	if j.mem[0] > gib/20 || score.MovedBytes < int64(3*gib)<<10 {
		t.Errorf("threads held on node 1: memory %v, %d bytes moved", j.mem, score.MovedBytes)
	}
	if limit := topology.KiB(2 / scanFloor * float64(scanSize)); most > limit {
		t.Errorf("%d KiB moved in one period; it scans %d at most", most, limit)
	}
	if j, _, _ := try(1, func(h *topology.Host) topology.CPUSet { return h.Online }); j.threads[0] != 4 && j.mem[1] < 4*gib*9/10 {
		t.Errorf("threads free to go: on %v, memory %v", j.threads, j.mem)
	}
	if j, _, most := try(0, func(h *topology.Host) topology.CPUSet { return h.Nodes[1].CPUs }); most != 0 || j.mem[0] != 4*gib {
		t.Errorf("idle: memory %v", j.mem)
	}
}

// TestNumad: what is large and busy is bound where most is free, small or calm
// work is not; what was bound rests; memory follows.
func TestNumad(t *testing.T) {
	const gib = topology.KiB(1 << 20)
	for _, x := range []struct {
		name  string
		busy  float64
		kib   topology.KiB
		bound bool
	}{
		{"large and busy", 0.5, 2 * gib, true},
		{"calm", 0.2, 2 * gib, false},
		{"small", 0.5, 200 << 10, false},
	} {
		m, j, score := rivalHost(t, 2, x.busy, x.kib)
		m.setCPUs(j, m.host.Online, false)
		m.add(&job{id: "other", cpus: m.host.Nodes[0].CPUs, mems: m.host.AllowedMems,
			demand: Demand{VCPUs: 4, Busy: 0.8, Memory: 100 << 10}})
		n := newNumad(newReference(m, plan.DefaultPolicy(), 1, nil, false), 2*time.Second, score)
		bound := 0
		for m.now < 4*time.Minute {
			due, _ := n.due()
			m.now = due
			m.settleMemory()
			m.serve()
			moves := score.Moves
			n.wake(t.Context())
			if score.Moves > moves {
				if bound++; m.byID["other"].threads[0] != 4 {
					t.Errorf("%s: the other is bound", x.name)
				}
			}
		}
		if x.bound != (bound == 1) || x.bound && (j.threads[1] != 2 || j.mem[0] != 0) {
			t.Errorf("%s: bound %d times, threads %v, memory %v", x.name, bound, j.threads, j.mem)
		}
		if err := m.conserved(); err != nil {
			t.Error(err)
		}
	}
}

// TestFelt: an access costs as many times more as work waits for a CPU; refused work
// costs the most, so that refusing does not pay.
func TestFelt(t *testing.T) {
	h := synthetic(t, "package:1 node:1(memory=8GiB) core:4")
	d := Demand{Class: workload.Shared, VCPUs: 8, Busy: 1, Memory: 1 << 20, Bandwidth: 8, Asks: true}
	until := func(d Demand) *Score {
		trace := &Trace{Host: h, Policy: plan.DefaultPolicy(), Until: time.Minute, Events: []Event{{Op: Arrive, Name: "a", Demand: d}}}
		return &sound(t, Options{Trace: trace, Policies: []string{"none"}}).Policies[0]
	}
	if s := until(d); math.Abs(s.FeltNs-2*s.AccessNs) > 0.01*s.AccessNs {
		t.Errorf("eight threads on four CPUs: %v ns, an access alone %v", s.FeltNs, s.AccessNs)
	}
	d.Memory = 1 << 30
	if s := until(d); s.Refused != 1 || math.Abs(s.FeltNs-localNs/leastUtility) > 1 {
		t.Errorf("refused %d: %v ns", s.Refused, s.FeltNs)
	}
}
