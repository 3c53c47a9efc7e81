package cores

import (
	"fmt"
	"os"
	"reflect"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/homenode/homenode/core/plan"
	"github.com/homenode/homenode/core/plan/plantest"
	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/core/workload"
)

func TestMain(m *testing.M) { os.Exit(plantest.Main(m)) }

// of returns the books of a state with the CPUs that its dedicated work holds.
func of(st plan.State) Books {
	b := New(st.Host, &st.Policy)
	for i := range st.Placements {
		if st.Placements[i].Class == workload.Dedicated {
			b.Hold(&st.Placements[i], 1)
		}
	}
	return b
}

// drawn is a random host, some of whose CPUs dedicated work holds.
func drawn(t *rapid.T) plan.State {
	st := plantest.State(4).Draw(t, "state")
	ids := st.Host.Online.Slice()
	if len(ids) == 0 {
		t.Skip("no CPU")
	}
	some := func(label string) topology.CPUSet {
		return topology.CPUs(rapid.SliceOfN(rapid.SampledFrom(ids), 0, len(ids)).Draw(t, label)...)
	}
	if rapid.Bool().Draw(t, "reserves") {
		st.Policy.Reserved = some("reserved")
	}
	if rapid.Bool().Draw(t, "partition") {
		st.Policy.Split, st.Policy.Dedicated = true, some("for dedicated work")
	}
	st.Placements = nil
	for i := range rapid.IntRange(0, 4).Draw(t, "held") {
		p := plan.Placement{Workload: workload.ID(fmt.Sprint("w", i)), Class: workload.Dedicated, CPUs: some("CPUs")}
		p.Idle = some("idle").Minus(p.CPUs)
		st.Placements = append(st.Placements, p)
	}
	return st
}

// TestHoldKeepsTheSums: the sums are those of a count, in whatever order CPUs were held. When all are released, the
// books are as new.
func TestHoldKeepsTheSums(t *testing.T) {
	every := cmp.Exporter(func(reflect.Type) bool { return true })
	rapid.Check(t, func(t *rapid.T) {
		st := drawn(t)
		fresh := New(st.Host, &st.Policy)
		b := of(st)
		for i := range b.Nodes {
			n := &b.Nodes[i]
			open, free := 0, 0
			for cpu := range st.Host.Nodes[i].CPUs.All() {
				may := st.Host.Online.Has(cpu) && st.Host.Allowed.Has(cpu) && !st.Policy.Reserved.Has(cpu)
				taken := slices.ContainsFunc(st.Placements, func(p plan.Placement) bool { return p.CPUs.Has(cpu) || p.Idle.Has(cpu) })
				if got := b.Taken(cpu); got != (!may || taken) {
					t.Fatalf("CPU %d is taken: %v; it may be given: %v, it is held: %v", cpu, got, may, taken)
				}
				switch {
				case !may || taken:
				case st.Policy.Split && !st.Policy.Dedicated.Has(cpu):
					open++
				default:
					free++
				}
			}
			if n.Free != free || n.Idle() != free+open {
				t.Fatalf("node %d: %d CPUs are free and %d idle, want %d and %d", i, n.Free, n.Idle(), free, free+open)
			}
			if set := b.ForBatch([]int{i}); set.Len() != n.Idle() {
				t.Fatalf("node %d: batch work may use %v, want %d CPUs", i, set, n.Idle())
			}
			if set := b.ForShared([]int{i}, topology.CacheSet{}); set.Len() != n.Open() {
				t.Fatalf("node %d: shared work may use %v, want %d CPUs", i, set, n.Open())
			}
		}
		other := b.Clone()
		slices.Reverse(st.Placements)
		if diff := cmp.Diff(of(st).Nodes, b.Nodes, every); diff != "" {
			t.Fatalf("in another order (-want +got):\n%s", diff)
		}
		for i := range st.Placements {
			b.Hold(&st.Placements[i], -1)
		}
		if diff := cmp.Diff(fresh.Nodes, b.Nodes, every); diff != "" {
			t.Fatalf("all is released (-fresh +got):\n%s", diff)
		}
		if diff := cmp.Diff(of(st).Nodes, other.Nodes, every); diff != "" {
			t.Fatalf("the clone changed with it (-want +got):\n%s", diff)
		}
	})
}

// TestChooseTakesWhatHolds: as many vCPUs as Holds says get a free CPU each, without a CPU more than may be taken.
// Under isolate and require the cores are whole, and no other work has a CPU of theirs.
func TestChooseTakesWhatHolds(t *testing.T) {
	chosen := 0
	rapid.Check(t, func(t *rapid.T) {
		st := drawn(t)
		b := of(st)
		node := rapid.IntRange(0, len(b.Nodes)-1).Draw(t, "node")
		w := Wish{SMT: rapid.SampledFrom([]workload.SMTPolicy{workload.SMTPrefer, workload.SMTIsolate, workload.SMTRequire}).Draw(t, "SMT")}
		w.Spare = rapid.IntRange(0, b.Nodes[node].Free).Draw(t, "spare")
		most := b.Holds(node, w.Spare, w.SMT)
		if ever := b.EverHolds(node, w.SMT); most > ever {
			t.Fatalf("%d vCPUs fit now, and %d on the empty node", most, ever)
		}
		if most == 0 {
			return
		}
		chosen++
		w.VCPUs = rapid.IntRange(1, most).Draw(t, "vCPUs")
		pins, idle := b.Choose(nil, node, w)
		got, held := topology.CPUs(pins...), topology.CPUs(idle...)
		all := got.Union(held)
		if len(pins) != w.VCPUs || all.Len() != len(pins)+len(idle) || all.Len() > w.Spare {
			t.Fatalf("%d vCPUs of %d that fit, %d CPUs to spare: CPUs %v, idle %v", w.VCPUs, most, w.Spare, pins, idle)
		}
		for cpu := range all.All() {
			if b.Taken(cpu) || b.NodeOf(cpu) != node {
				t.Fatalf("CPU %d is not to be had on node %d", cpu, node)
			}
		}
		p := plan.Placement{Class: workload.Dedicated, Pins: pins, CPUs: got, Idle: held}
		full, parts, _ := b.Layout(&p)
		if w.SMT != workload.SMTPrefer && (parts > 0 || b.Doubled(&p) > 0) {
			t.Fatalf("%s: parts of %d cores, CPUs %v, idle %v", w.SMT, parts, pins, idle)
		}
		if w.SMT == workload.SMTIsolate && full != w.VCPUs {
			t.Fatalf("%d vCPUs on %d cores of their own", w.VCPUs, full)
		}
	})
	if chosen < 20 {
		t.Errorf("only %d choices: the test tests nothing", chosen)
	}
}

// TestCoresIn: CPUs count as the part of the node's cores that they are.
func TestCoresIn(t *testing.T) {
	for _, tt := range []struct {
		host       string
		cpus, want float64
	}{
		{"0 0-3|4-7 1G 10", 8, 4}, {"0 0-3|4-7 1G 10", 3, 1.5}, {"0 0-3 1G 10", 3, 3}, {"0 0 1G 10", 1, 1},
		{"0 - 1G 10 21\n1 0 1G 21 10", 1, 0},
	} {
		b := of(plantest.OnHost(tt.host))
		if got := b.Nodes[0].CoresIn(tt.cpus); !plantest.About(got, tt.want) {
			t.Errorf("%s: %v CPUs are %v cores, want %v", tt.host, tt.cpus, got, tt.want)
		}
	}
}

// TestCPUsUnderNoCore: a CPU that the host lists under no core and no cache is a core of its own.
func TestCPUsUnderNoCore(t *testing.T) {
	st := plantest.OnHost(plantest.TwoNodes)
	st.Host.Cores, st.Host.LLCs = st.Host.Cores[:1], nil
	books := of(st)
	for i, want := range []struct{ cores, threads int }{{7, 2}, {8, 1}} {
		n := &books.Nodes[i]
		if n.Usable != 8 || n.cores.len() != want.cores || n.threads != want.threads {
			t.Errorf("node %d: %+v, want 8 CPUs and %+v", i, n, want)
		}
	}
}
