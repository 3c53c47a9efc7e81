package place

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/homenode/homenode/core/plan"
	"github.com/homenode/homenode/core/plan/plantest"
	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/core/workload"
)

// sizes is vCPUs as they come: many small, few large, by a fixed pattern.
var sizes = []int{2, 4, 2, 8, 4, 2, 16, 4, 2, 8, 3, 2, 4, 1, 2, 8}

// halfFull fills a ledger to half its CPUs. Every third workload goes away
// again, so that the free CPUs lie scattered.
func halfFull(st plan.State) *Ledger {
	l := NewLedger(st)
	cpus, used := 0, 0
	for i := range l.nodes {
		cpus += l.nodes[i].Usable
	}
	for i := 0; used < cpus*3/4; i++ {
		v := sizes[i%len(sizes)]
		s := vm(fmt.Sprintf("w%05d", i), v, topology.KiB(v)*3*gib)
		r := l.Place(Request{Spec: s, Must: true})
		if !r.Placed() {
			break
		}
		l.Commit(r.Placement)
		used += v
	}
	for i, p := range l.Placements() {
		if i%3 == 0 {
			l.Remove(p.Workload)
		}
	}
	return l
}

func benchPlace(b *testing.B, l *Ledger, next func(i int) workload.Spec) {
	b.ReportAllocs()
	times := make([]time.Duration, 0, b.N)
	for i := 0; b.Loop(); i++ {
		s := next(i)
		start := time.Now()
		l.Place(Request{Spec: s, Must: true})
		times = append(times, time.Since(start))
	}
	slices.Sort(times)
	b.ReportMetric(float64(times[len(times)/2].Nanoseconds()), "median-ns")
	b.ReportMetric(float64(times[len(times)*99/100].Nanoseconds()), "p99-ns")
}

func mixed(i int) workload.Spec {
	v := sizes[i%len(sizes)]
	return vm("new", v, topology.KiB(v)*3*gib)
}

// BenchmarkPlace is one decision of a mixed stream on a half full host.
func BenchmarkPlace(b *testing.B) {
	for _, n := range []struct{ nodes, cpus int }{{8, 256}, {64, 2048}} {
		l := halfFull(bigHost(n.nodes, n.cpus))
		b.Run(fmt.Sprintf("%dnodes%dcpus", n.nodes, n.cpus), func(b *testing.B) { benchPlace(b, l, mixed) })
		wide := n.cpus/n.nodes + n.cpus/n.nodes/2
		b.Run(fmt.Sprintf("%dnodes%dcpus/wide", n.nodes, n.cpus), func(b *testing.B) {
			benchPlace(b, l, func(int) workload.Spec { return vm("new", wide, topology.KiB(wide)*2*gib) })
		})
		b.Run(fmt.Sprintf("%dnodes%dcpus/commit", n.nodes, n.cpus), func(b *testing.B) {
			b.ReportAllocs()
			p := l.Place(Request{Spec: mixed(3), Must: true}).Placement
			for b.Loop() {
				l.Commit(p)
				l.Remove(p.Workload)
			}
		})
		st := bigHost(n.nodes, n.cpus)
		st.Placements = l.Placements()
		b.Run(fmt.Sprintf("%dnodes%dcpus/fresh", n.nodes, n.cpus), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				Place(st, Request{Spec: mixed(3)})
			}
		})
	}
}

// BenchmarkCrowded is one decision beside 5,000 shared workloads of a vCPU on 8 nodes of 256 CPUs,
// and what it takes to read those into a ledger.
func BenchmarkCrowded(b *testing.B) {
	st := plan.State{Host: plantest.Pairs(8, 256, 1<<30), Policy: plan.DefaultPolicy()}
	l := NewLedger(st)
	for i := range 5000 {
		s := vm(fmt.Sprintf("w%05d", i), 1, 1<<17)
		s.Class = workload.Shared
		l.Commit(l.Place(Request{Spec: s}).Placement)
	}
	for _, class := range []workload.Class{workload.Shared, workload.Dedicated} {
		b.Run(string(class), func(b *testing.B) {
			benchPlace(b, l, func(int) workload.Spec { return workload.Spec{ID: "new", Class: class, CPUs: 1} })
		})
	}
	st.Placements = l.Placements()
	b.Run("ledger", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			NewLedger(st)
		}
	})
}

// BenchmarkCurve shows how a decision grows with CPUs and with nodes.
func BenchmarkCurve(b *testing.B) {
	for _, cpus := range []int{64, 256, 1024, 4096} {
		l := halfFull(bigHost(8, cpus))
		b.Run(fmt.Sprintf("8nodes%dcpus", cpus), func(b *testing.B) { benchPlace(b, l, mixed) })
	}
	for _, nodes := range []int{2, 4, 8, 16, 32, 64} {
		l := halfFull(bigHost(nodes, 32*nodes))
		b.Run(fmt.Sprintf("%dnodes%dcpus", nodes, 32*nodes), func(b *testing.B) { benchPlace(b, l, mixed) })
	}
}

// BenchmarkRepack is moves for one workload: a host from which every twentieth
// workload has left, and a workload of half a node that must be on one.
func BenchmarkRepack(b *testing.B) {
	for _, n := range []struct{ nodes, cpus int }{{8, 256}, {64, 2048}} {
		l := halfFull(bigHost(n.nodes, n.cpus))
		var running []Runner
		for _, p := range l.Placements() {
			running = append(running, Runner{Spec: specOf(&p)})
		}
		for i := 0; ; i++ {
			v := sizes[i%len(sizes)]
			r := l.Place(Request{Spec: vm(fmt.Sprintf("x%05d", i), v, topology.KiB(v)*3*gib)})
			if !r.Placed() {
				break
			}
			l.Commit(r.Placement)
			running = append(running, Runner{Spec: specOf(&r.Placement)})
		}
		for i := 0; i < len(running); i += 20 {
			l.Remove(running[i].Spec.ID)
		}
		s := vm("new", n.cpus/n.nodes/2, 16*gib)
		s.MaxNodes = 1
		b.Run(fmt.Sprintf("%dnodes%dcpus", n.nodes, n.cpus), func(b *testing.B) {
			b.ReportAllocs()
			var r Repacking
			for b.Loop() {
				r = l.Repack(Request{Spec: s}, RepackOptions{Running: running})
			}
			b.ReportMetric(float64(len(r.Moves)), "moves")
			b.ReportMetric(float64(r.AtLeast), "at-least")
			b.ReportMetric(float64(r.Steps), "steps")
		})
	}
}
