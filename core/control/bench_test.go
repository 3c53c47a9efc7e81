package control

import (
	"fmt"
	"testing"
	"time"

	"github.com/homenode/homenode/core/place/arrange"
	"github.com/homenode/homenode/core/plan"
	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/core/workload"
)

// busy is a host with n workloads in cgroups, none of them placed yet.
func busy(b *testing.B, n int) (*State, workload.Snapshot) {
	b.Helper()
	h, err := topology.FromSynthetic("node:2 core:64 pu:2")
	if err != nil {
		b.Fatal(err)
	}
	for i := range h.Nodes {
		h.Nodes[i].Memory, h.Nodes[i].Free = 512<<20, 256<<20
		h.AllowedMems.Add(h.Nodes[i].ID)
	}
	snap := workload.Snapshot{Host: h}
	for i := range n {
		id := fmt.Sprintf("/system.slice/w%04d.service", i)
		snap.Observations = append(snap.Observations, workload.Observation{ID: workload.ID(id), Name: id, Kind: workload.InCgroup, Cgroup: id, Threads: 4, CPUUse: 0.5,
			Processes: []workload.Process{{PID: 1000 + i, Start: uint64(i + 1)}}, CPUs: h.Online, Mems: h.AllowedMems,
			Memory: []workload.NodeMemory{{Node: topology.NodeID(i % 2), KiB: 512 << 10}}})
	}
	s := New(Settings{Enforce: true, Policy: plan.DefaultPolicy(), Arrange: arrange.Options{MinMemory: 64 << 10, MinCPU: 0.2}, Interrupts: InterruptsOff}, Saved{})
	return s, snap
}

// Processes that live shorter than a scan are placed: each is a request, and a scan after
// every 200 forgets them.
func BenchmarkPlace(b *testing.B) {
	s, snap := busy(b, 300)
	now, scans := time.Unix(1, 0), uint64(0)
	scan := func() {
		now, scans = now.Add(5*time.Second), scans+1
		s, _ = Next(s, Input{At: now, Begun: &Begun{Number: scans}})
		s, _ = Next(s, Input{At: now, Scan: &Scan{Number: scans, Began: now, Snapshot: snap}})
	}
	scan()
	var inNext, inScans time.Duration
	n := 0
	for b.Loop() {
		if n++; n%200 == 0 {
			began := time.Now()
			scan()
			inScans += time.Since(began)
		}
		began := time.Now()
		var out Output
		s, out = Next(s, Input{At: now, Request: &Request{ID: uint64(n), Place: &PlaceRequest{Process: workload.Process{PID: 100000 + n%1000, Start: uint64(n) + 10000},
			Spec: workload.Spec{Name: "job", Class: workload.Shared, Importance: 50, CPUs: 1, Memory: 1 << 10, Given: true}}}})
		inNext += time.Since(began)
		if out.Replies[0].Failed != nil {
			b.Fatal(out.Replies[0].Failed)
		}
	}
	b.ReportMetric(float64(n)/inNext.Seconds(), "requests/s")
	b.ReportMetric(float64(n)/(inNext+inScans).Seconds(), "with-scans/s")
}

// What follows the first scan: of each workload the CPUs are set; the half of its memory that
// is elsewhere waits for the page moves of others. How much CPU time the results take.
func BenchmarkResults(b *testing.B) {
	for _, n := range []int{300, 5000} {
		b.Run(fmt.Sprintf("workloads=%d", n), func(b *testing.B) {
			var inNext time.Duration
			results := 0
			for b.Loop() {
				s, snap := busy(b, n)
				s.Settings.Policy.Overcommit = float64(n) / 100
				for i := range snap.Observations {
					o := &snap.Observations[i]
					o.CPUUse = min(o.CPUUse, 100/float64(n))
					kib := max(64<<10, min(512<<10, 300<<20/topology.KiB(n)))
					o.Memory = []workload.NodeMemory{{Node: 0, KiB: kib / 2}, {Node: 1, KiB: kib / 2}}
				}
				now := time.Unix(1, 0)
				s, _ = Next(s, Input{At: now, Begun: &Begun{Number: 1}})
				s, out := Next(s, Input{At: now, Scan: &Scan{Number: 1, Began: now, Snapshot: snap}})
				todo := out.Effects
				began := cpuUsed(b)
				before := results
				for len(todo) > 0 {
					e := todo[0]
					todo = todo[1:]
					if e.ID == 0 || e.Step.Kind == plan.MovePages {
						continue
					}
					r := &Result{ID: e.ID}
					if e.Kind == EffectRead {
						r.Changes = []plan.Change{{Setting: plan.Setting{Kind: plan.CgroupCPUs, Path: e.Step.Target.Cgroup}, Will: e.Step.To}}
					}
					s, out = Next(s, Input{At: now, Result: r})
					todo = append(todo, out.Effects...)
					results++
				}
				inNext += cpuUsed(b) - began
				if results-before != 2*n || len(s.Waits) < n-3 {
					b.Fatalf("%d results, %d wait: not all are placed", results-before, len(s.Waits))
				}
			}
			b.ReportMetric(float64(results)/inNext.Seconds(), "results/cpu-s")
		})
	}
}
