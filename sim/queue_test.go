package sim

import (
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/homenode/homenode/core/plan"
	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/core/workload"
)

// TestStretch holds the queues to cases whose answer is known without them. A node has 4
// cores and 150000 MiB/s; a remote access costs 2.1 times a local one.
func TestStretch(t *testing.T) {
	const all = 1.0
	// stalledFor is the bandwidth at which a thread stalls for so much of its time.
	stalledFor := func(part float64) float64 { return part * outstanding * 64 / (1 << 20) / (localNs * 1e-9) }
	on := func(cpus, mem int) func(*job) {
		return func(j *job) {
			j.threads, j.mem = make([]int32, 2), make([]topology.KiB, 2)
			j.threads[cpus], j.mem[mem] = int32(j.demand.VCPUs), 1<<20
		}
	}
	type kind struct {
		n    int
		busy float64
		mibs float64 // of a thread
		edit func(*job)
	}
	for _, tt := range []struct {
		name   string
		host   string
		jobs   []kind
		moving float64
		least  float64
		most   float64
	}{
		{"alone", "package:2 node:1 core:4", []kind{{1, all, 0, on(0, 0)}}, 0, 1, 1},
		{"a CPU each", "package:2 node:1 core:4", []kind{{4, all, stalledFor(0.5), on(0, 0)}}, 0, 1, 1.01},
		{"two for each CPU", "package:2 node:1 core:4", []kind{{8, all, 0, on(0, 0)}}, 0, 1.9, 2.05},
		{"far, and never asked for", "package:2 node:1 core:4", []kind{{4, all, 0, on(0, 1)}}, 0, 1, 1},
		{"far", "package:2 node:1 core:4", []kind{{1, all, stalledFor(0.5), on(0, 1)}}, 0, 1.54, 1.56}, // 1 + 0.5 × 1.1
		{"far for half of its accesses", "package:2 node:1 core:4", []kind{{1, all, stalledFor(0.5), func(j *job) {
			on(0, 0)(j)
			j.mem[1] = j.mem[0]
		}}}, 0, 1.15, 1.4},
		{"threads of two on a core: five quarters for both", "package:2 node:1 core:2 pu:2", []kind{{4, all, 0, on(0, 0)}}, 0, 1.55, 1.65},
		{"one more than there are cores", "package:2 node:1 core:2 pu:2", []kind{{2, all, 0, on(0, 0)}}, 0, 1, 1.01},
		{"twice what the memory gives", "package:2 node:1 core:4", []kind{{4, all, 75_000, on(0, 0)}}, 0, 1.8, 2.4},
		{"page moves come whatever threads wait for: half is left", "package:2 node:1 core:4", []kind{{4, all, 25_000, on(0, 0)}}, 100_000, 1.9, 2.1},
		{"memory of another node does not matter", "package:2 node:1 core:4", []kind{{4, all, stalledFor(0.2), on(0, 0)}, {4, all, 75_000, func(j *job) {
			on(1, 1)(j)
			j.demand.Class = workload.Batch
		}}}, 0, 1, 1.01},
		{"a node half busy: little is waited for", "package:2 node:1 core:4", []kind{{16, 0.125, 0, on(0, 0)}}, 0, 1.01, 1.4},
		{"batch work takes what is left", "package:2 node:1 core:4", []kind{{4, all, 0, on(0, 0)}, {8, all, 0, func(j *job) {
			on(0, 0)(j)
			j.demand.Class = workload.Batch
		}}}, 0, 1, 1.1},
		{"CPUs of its own", "package:2 node:1 core:4", []kind{{8, all, 0, func(j *job) {
			on(0, 0)(j)
			j.demand.Class = workload.Batch
		}}, {2, all, 0, func(j *job) {
			on(0, 0)(j)
			j.exclusive, j.cpus = true, topology.CPUs(0, 1)
		}}}, 0, 1, 1},
		{"too few CPUs of its own", "package:2 node:1 core:4", []kind{{4, all, 0, func(j *job) {
			on(0, 0)(j)
			j.exclusive, j.cpus = true, topology.CPUs(0, 1)
		}}}, 0, 1.9, 2.05},
	} {
		h := synthetic(t, tt.host)
		h.Distances = topology.Matrix{{10, 21}, {21, 10}}
		m := newMachine(h, 1)
		m.moving[0] = tt.moving
		for i, k := range tt.jobs {
			j := &job{id: workload.ID(fmt.Sprint(i)), demand: Demand{VCPUs: k.n, Busy: k.busy, Bandwidth: int64(k.mibs * float64(k.n)), Class: workload.Shared}}
			k.edit(j)
			if j.exclusive {
				m.owned[0] += int32(j.cpus.Len())
			}
			m.jobs = append(m.jobs, j)
		}
		took, ideal := m.stretch(7)
		if got := took / ideal; got < tt.least-0.001 || got > tt.most+0.001 {
			t.Errorf("%s: %.3f times as long, want %v to %v", tt.name, got, tt.least, tt.most)
		}
		if again, _ := m.stretch(7); again != took {
			t.Errorf("%s: %v, and then %v", tt.name, took, again)
		}
	}
}

// TestJudge: the figure is in the score when it is asked for, refused work counts as in
// FeltNs, and nothing else in the score changes by it.
func TestJudge(t *testing.T) {
	d := Demand{VCPUs: 8, Memory: 1 << 20, Class: workload.Shared, Busy: 1, Bandwidth: 800}
	trace := &Trace{Host: synthetic(t, "node:1 core:4"), Policy: plan.DefaultPolicy(), Until: time.Minute, Events: []Event{{Op: Arrive, Name: "a", Demand: d}}}
	without := sound(t, Options{Trace: trace, Seed: 1, Policies: []string{"none"}}).Policies[0]
	with := sound(t, Options{Trace: trace, Seed: 1, Policies: []string{"none"}, Judge: 4}).Policies[0]
	if without.Stretch != 0 || with.Stretch < 1.8 || with.Stretch > 2.2 {
		t.Errorf("eight threads on four CPUs: %v, not asked for %v", with.Stretch, without.Stretch)
	}
	with.Stretch = 0
	if with != without {
		t.Errorf("%+v\n%+v", with, without)
	}
	trace.Events[0].Demand.Memory = 1 << 40
	trace.Events[0].Demand.Asks = true
	refused := sound(t, Options{Trace: trace, Seed: 1, Policies: []string{"homenode"}, Judge: 4}).Policies[0]
	if refused.Refused != 1 || math.Abs(refused.Stretch-refusedStretch) > 1e-9 {
		t.Errorf("refused %d: %v", refused.Refused, refused.Stretch)
	}
}
