package place

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"github.com/homenode/homenode/core/place/cores"
	"github.com/homenode/homenode/core/plan"
	"github.com/homenode/homenode/core/plan/plantest"
	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/core/words"
	"github.com/homenode/homenode/core/words/wordstest"
	"github.com/homenode/homenode/core/workload"
)

const gib = plantest.GiB

// What the tests of placing share with those of arranging.
var (
	same                  = plantest.Same
	onHost, bigHost       = plantest.OnHost, plantest.Large
	vm, service, on       = plantest.VM, plantest.Service, plantest.Memory
	floating, dedicatedOn = plantest.Floating, plantest.Dedicated
	about                 = plantest.About
)

const (
	twoNodes   = plantest.TwoNodes
	twoSockets = `
		0  0-3|16-19   16G 10 12 32 32
		1  4-7|20-23   16G 12 10 32 32
		2  8-11|24-27  16G 32 32 10 12
		3  12-15|28-31 16G 32 32 12 10
	`
	withCXL = `
		0  0-3|8-11   16G 10 21 17
		1  4-7|12-15  16G 21 10 27
		2  -          32G 17 27 10
	`
)

func TestPlace(t *testing.T) {
	tests := []struct {
		name    string
		host    string
		edit    func(*plan.State)
		before  []workload.Spec // placed first, each where the engine wants
		want    workload.Spec
		edits   func(*Request)
		home    string
		cpus    string
		memory  []workload.NodeMemory
		idle    string
		reasons []words.Reason // among those given
	}{
		{name: "empty host", host: twoNodes, want: vm("a", 4, 4*gib), home: "0", cpus: "0-1,8-9", memory: on(4 * gib)},
		{name: "packs the tighter node", host: twoNodes, before: []workload.Spec{vm("x", 4, gib)}, want: vm("a", 4, gib),
			home: "0", cpus: "2-3,10-11", reasons: says(words.BestFit)},
		{name: "only node with room", host: twoNodes, before: []workload.Spec{vm("x", 6, gib)}, want: vm("a", 4, gib),
			home: "1", cpus: "4-5,12-13", reasons: says(words.OnlyNodeFits, topology.NodeID(1), amounts(words.Because(words.FreeCPUs, 4), memory(gib)), words.Reasons(words.Because(words.NodeLacks, 0, words.Reasons(words.Because(words.FreeCPUs, 2)))))},
		{name: "memory decides", host: twoNodes, before: []workload.Spec{vm("x", 1, 15*gib)}, want: vm("a", 2, 2*gib),
			home: "1", cpus: "4,12", reasons: says(words.NodeLacks, 0, words.Reasons(memory(gib)))},
		{name: "spread by policy", host: twoNodes, edit: func(st *plan.State) { st.Policy.Packing = plan.Spread },
			before: []workload.Spec{vm("x", 4, gib)}, want: vm("a", 4, gib), home: "1", cpus: "4-5,12-13"},
		{name: "bandwidth spreads", host: twoNodes,
			before: []workload.Spec{func() workload.Spec { s := vm("x", 4, gib); s.Bandwidth = 100_000; return s }()},
			want:   func() workload.Spec { s := vm("a", 4, gib); s.Bandwidth = 100_000; return s }(), home: "1", cpus: "4-5,12-13",
			reasons: says(words.BestBandwidth)},
		{name: "odd size opens a core on an empty node", host: twoNodes, before: []workload.Spec{vm("x", 1, gib)}, want: vm("a", 3, gib),
			home: "0", cpus: "1-2,9"},
		{name: "odd size joins a core on a full node", host: twoNodes, before: []workload.Spec{vm("x", 3, gib)},
			want: func() workload.Spec { s := vm("a", 3, gib); s.Nodes = topology.Nodes(0); return s }(), home: "0", cpus: "2,9-10"},
		{name: "odd size goes where it need not join", host: twoNodes, before: []workload.Spec{vm("x", 3, gib)}, want: vm("a", 3, gib),
			home: "1", cpus: "4-5,12", reasons: says(words.BestSiblings)},
		{name: "wide is split over the nearest", host: twoSockets, before: []workload.Spec{vm("x", 2, gib)}, want: vm("a", 12, 8*gib),
			home: "0-1", cpus: "1-2,4-7,17-18,20-23", memory: on(0, 8*gib), reasons: says(words.SplitTooLarge, amounts(words.Because(words.FreeCPUs, 12), memory(8*gib)))},
		{name: "narrow is split when near", host: twoSockets, before: []workload.Spec{vm("w", 5, gib), vm("x", 5, gib), vm("y", 5, gib), vm("z", 5, gib)},
			want: vm("a", 4, gib), home: "0-1", cpus: "3,18-19,22", reasons: says(words.SplitNoNode)},
		{name: "even split for guests that see their nodes", host: twoSockets, before: []workload.Spec{vm("x", 2, gib)},
			want: func() workload.Spec { s := vm("a", 12, 8*gib); s.Even = true; return s }(),
			home: "0-1", cpus: "1-6,17-22", memory: on(4*gib, 4*gib)},
		{name: "dedicated does not squeeze shared", host: twoNodes, before: []workload.Spec{service("s", 4, gib)}, want: vm("a", 4, gib),
			home: "1", cpus: "4-5,12-13"},
		{name: "important work keeps idle CPU", host: twoNodes,
			before: []workload.Spec{func() workload.Spec { s := service("s", 4, gib); s.Importance = 100; return s }(), service("t", 5, gib)},
			want:   service("a", 2, gib), home: "1", cpus: "4-7,12-15"},
		{name: "SMT isolate holds siblings idle", host: twoNodes, want: func() workload.Spec { s := vm("a", 2, gib); s.SMT = workload.SMTIsolate; return s }(),
			home: "0", cpus: "0-1", idle: "8-9", reasons: says(words.IdleSiblings, "8-9")},
		{name: "SMT require takes whole cores", host: twoNodes, want: func() workload.Spec { s := vm("a", 3, gib); s.SMT = workload.SMTRequire; return s }(),
			home: "0", cpus: "0-1,8", idle: "9"},
		{name: "sibling of a reserved CPU comes last", host: twoNodes, edit: func(st *plan.State) { st.Policy.Reserved = topology.CPUs(0, 4) },
			want: vm("a", 6, gib), home: "0", cpus: "1-3,9-11"},
		{name: "one cache where one will do", host: `
				0  0-7|16-23   16G 10 21 llc=4
				1  8-15|24-31  16G 21 10 llc=4
			`, before: []workload.Spec{vm("x", 2, gib)}, want: vm("a", 8, gib), home: "0", cpus: "4-7,20-23", reasons: says(words.PinnedCores, "4-7,20-23", 4, 1)},
		{name: "of caches that hold all of it the first", host: `
				0  0-7|16-23   16G 10 21 llc=4
				1  8-15|24-31  16G 21 10 llc=4
			`, want: vm("a", 8, gib), home: "0", cpus: "0-3,16-19"},
		{name: "near a device", host: `
				0  0-3|8-11   16G 10 21
				1  4-7|12-15  16G 21 10 dev=eth0
			`, want: func() workload.Spec { s := vm("a", 2, gib); s.Near = []workload.Near{{Device: "eth0"}}; return s }(),
			home: "1", cpus: "4,12", reasons: says(words.BestNear, []string{"eth0"}, 0)},
		{name: "device nodes are kept free", host: `
				0  0-3|8-11   16G 10 21 dev=eth0
				1  4-7|12-15  16G 21 10
			`, want: vm("a", 2, gib), home: "1", cpus: "4,12"},
		{name: "near a workload", host: twoNodes, before: []workload.Spec{vm("w", 4, gib), vm("x", 6, gib)},
			want: func() workload.Spec { s := vm("a", 2, gib); s.Near = []workload.Near{{Workload: "x"}}; return s }(), home: "1", cpus: "7,15"},
		{name: "nodes named", host: twoNodes, want: func() workload.Spec { s := vm("a", 2, gib); s.Nodes = topology.Nodes(1); return s }(), home: "1", cpus: "4,12"},
		{name: "memory-only node only when it must", host: withCXL, before: []workload.Spec{vm("x", 8, 16*gib)}, want: vm("a", 4, 20*gib),
			home: "1-2", cpus: "4-5,12-13", memory: on(0, 16*gib, 4*gib)},
		{name: "memory-only node not when it need not", host: withCXL, want: vm("a", 4, 16*gib), home: "0", cpus: "0-1,8-9", memory: on(16 * gib)},
		{name: "CPUs without memory take the nearest", host: `
				0  0-3  0G  10 21 17
				1  4-7  16G 21 10 27
				2  -    16G 17 27 10
			`, before: []workload.Spec{vm("x", 4, gib)}, want: vm("a", 4, gib), edits: func(r *Request) { r.Must = true },
			home: "0,2", cpus: "0-3", memory: on(0, 0, gib)},
		{name: "huge pages", host: `
				0  0-3  16G 10 21 huge=2Mx100
				1  4-7  16G 21 10 huge=2Mx1024
			`, want: func() workload.Spec { s := vm("a", 2, gib); s.HugePage = 2 << 10; return s }(), home: "1", cpus: "4-5", memory: on(0, gib),
			reasons: says(words.HugePages, 412, 2048)},
		{name: "foreign huge pages do not count", host: `
				0  0-3  16G 10 21 huge=2Mx1024
				1  4-7  16G 21 10 huge=2Mx1024
			`, edit: func(st *plan.State) { st.Host.Nodes[0].HugePages[0].Free = 10 },
			want: func() workload.Spec { s := vm("a", 2, gib); s.HugePage = 2 << 10; return s }(), home: "1", cpus: "4-5"},
		{name: "shared goes where load is low", host: twoNodes, before: []workload.Spec{service("x", 4, gib)}, want: service("a", 4, gib),
			home: "1", cpus: "4-7,12-15", reasons: says(words.BestContention, 0.0, 8, 0, 4.0, 8)},
		{name: "shared leaves dedicated CPUs", host: twoNodes, before: []workload.Spec{vm("x", 4, gib), vm("y", 6, gib)}, want: service("a", 2, gib),
			home: "0", cpus: "2-3,10-11"},
		{name: "shared overcommits", host: twoNodes, before: []workload.Spec{service("x", 20, gib), service("y", 20, gib)}, want: service("a", 4, gib), home: "0", cpus: "0-3,8-11"},
		{name: "batch takes what is left", host: twoNodes, before: []workload.Spec{vm("x", 4, gib)},
			want: workload.Spec{ID: "a", Class: workload.Batch, CPUs: 64}, home: "0-1", cpus: "2-7,10-15"},
		{name: "running stays with its memory", host: twoNodes, want: service("a", 2, 4*gib),
			edits: func(r *Request) { r.Memory = on(gib, 3*gib) }, home: "1", cpus: "4-7,12-15", memory: on(0, 4*gib), reasons: says(words.BestMove, 0.75, 0, 0.25)},
		{name: "running leaves a crowded node", host: twoNodes, before: []workload.Spec{func() workload.Spec { s := service("x", 20, gib); s.Nodes = topology.Nodes(1); return s }()},
			want: service("a", 2, 4*gib), edits: func(r *Request) { r.Memory = on(0, 4*gib) }, home: "0", cpus: "0-3,8-11"},
		{name: "measured latency before SLIT", host: `
				0  0-3 16G 10 12 32
				1  4-7 16G 12 10 32
				2  8-11 16G 32 32 10
			`, edit: func(st *plan.State) {
			st.Host.Measured = &topology.Measured{LatencyNs: [][]float64{{100, 300, 110}, {300, 100, 300}, {110, 300, 100}}}
		}, want: vm("a", 6, gib), home: "0,2", cpus: "0-3,8-9"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			st := onHost(tt.host)
			if tt.edit != nil {
				tt.edit(&st)
			}
			l := NewLedger(st)
			for _, s := range tt.before {
				r := l.Place(Request{Spec: s, Must: true})
				if !r.Placed() {
					t.Fatalf("%s: %v", s.ID, r.Decision)
				}
				l.Commit(r.Placement)
			}
			st.Placements = l.Placements()
			req := Request{Spec: tt.want}
			if tt.edits != nil {
				tt.edits(&req)
			}
			r := Place(st, req)
			if !r.Placed() {
				t.Fatalf("refused: %v", r.Decision.Reasons)
			}
			p := r.Placement
			if p.Home.String() != tt.home || p.CPUs.String() != tt.cpus || p.Idle.String() != tt.idle {
				t.Errorf("home %v CPUs %v idle %v, want %s, %s, %s\n%v", p.Home, p.CPUs, p.Idle, tt.home, tt.cpus, tt.idle, r.Decision.Reasons)
			}
			if tt.memory != nil {
				if diff := cmp.Diff(tt.memory, p.Memory); diff != "" {
					t.Errorf("memory (-want +got):\n%s", diff)
				}
			}
			if missing := wordstest.Missing(r.Decision.Reasons, tt.reasons); missing != nil {
				t.Errorf("reasons: %s\nmissing: %s", r.Decision.Reasons, missing)
			}
			l.Commit(p)
			if v := plan.Check(st, l.Placements()); v != nil {
				t.Errorf("check: %v", v)
			}
		})
	}
}

func TestRefused(t *testing.T) {
	farSockets := `
		0  0-3   16G 10 32
		1  4-7   16G 32 10
	`
	tests := []struct {
		name    string
		host    string
		before  []workload.Spec
		want    workload.Spec
		reasons []words.Reason
		short   []plan.Shortage
		nearest []plan.Shortage
	}{
		{name: "too many CPUs", host: farSockets, want: vm("a", 9, gib), reasons: says(words.HostTooSmall, words.Because(words.FreeCPUs, 9), words.Because(words.Number, 8)),
			short: []plan.Shortage{{Nodes: topology.Nodes(0), Resource: plan.CPU, Want: 9, Have: 4}, {Nodes: topology.Nodes(1), Resource: plan.CPU, Want: 9, Have: 4}}},
		{name: "too much memory", host: farSockets, want: vm("a", 2, 40*gib), reasons: says(words.HostTooSmall, memory(40*gib), memory(32*gib))},
		{name: "a split that does not pay", host: farSockets, before: []workload.Spec{vm("x", 2, gib), vm("y", 2, gib), vm("z", 2, gib)},
			want: vm("a", 4, gib), reasons: says(words.HostTooSmall, words.Because(words.FreeCPUs, 4), words.Because(words.Number, 2))},
		{name: "far halves", host: farSockets, before: []workload.Spec{vm("x", 2, 9*gib), vm("y", 2, 9*gib)}, want: vm("a", 4, gib),
			reasons: words.Reasons(words.Because(words.OnlySplit), words.Because(words.NodeLacks, 1, words.Reasons(words.Because(words.FreeCPUs, 2))),
				words.Because(words.WithMore, words.Reasons(words.Because(words.MoreFreeCPUs, 2)), 0), words.Because(words.AllowSplit, 2)), nearest: []plan.Shortage{{Nodes: topology.Nodes(0), Resource: plan.CPU, Want: 4, Have: 2}}},
		{name: "one node at most", host: farSockets, want: func() workload.Spec { s := vm("a", 5, gib); s.MaxNodes = 1; return s }(),
			reasons: words.Reasons(words.Because(words.MustFitOne, amounts(words.Because(words.FreeCPUs, 5), memory(gib))), words.Because(words.ByNode),
				words.Because(words.WithMaxNodes, 2, words.Reasons(words.Because(words.NodeShare, 0, words.Reasons(words.Because(words.VCPUs, 4), memory(gib))),
					words.Because(words.NodeShare, 1, words.Reasons(words.Because(words.VCPUs, 1))))))},
		{name: "no such node", host: farSockets, want: func() workload.Spec { s := vm("a", 4, gib); s.Nodes = topology.Nodes(9); return s }(),
			reasons: words.Reasons(words.Because(words.NodesAbsent, "9"), words.Because(words.WithAnyNode, "0"))},
		{name: "the named node is full", host: farSockets, before: []workload.Spec{vm("x", 2, gib)}, want: func() workload.Spec { s := vm("a", 4, gib); s.Nodes = topology.Nodes(0); return s }(),
			reasons: words.Reasons(words.Because(words.WithMore, words.Reasons(words.Because(words.MoreFreeCPUs, 2)), 0), words.Because(words.WithAnyNode, "1")),
			short:   []plan.Shortage{{Nodes: topology.Nodes(0), Resource: plan.CPU, Want: 4, Have: 2}}, nearest: []plan.Shortage{{Nodes: topology.Nodes(0), Resource: plan.CPU, Want: 4, Have: 2}}},
		{name: "wider than a node", host: farSockets, before: []workload.Spec{vm("x", 4, gib)}, want: vm("a", 5, gib),
			reasons: says(words.WithMoreOn, words.Reasons(words.Because(words.MoreFreeCPUs, 1)), "0-1"),
			nearest: []plan.Shortage{{Nodes: topology.Nodes(0, 1), Resource: plan.CPU, Want: 5, Have: 4}}},
		{name: "wider than a node, and with all memory there is", host: farSockets, before: []workload.Spec{vm("x", 4, 0)}, want: vm("a", 5, 32*gib),
			reasons: says(words.WithMoreOn, words.Reasons(words.Because(words.MoreFreeCPUs, 1)), "0-1"),
			nearest: []plan.Shortage{{Nodes: topology.Nodes(0, 1), Resource: plan.CPU, Want: 5, Have: 4}}},
		{name: "wider than the one node it may have", host: farSockets, before: []workload.Spec{vm("x", 4, gib)},
			want:    func() workload.Spec { s := vm("a", 5, gib); s.MaxNodes = 1; return s }(),
			reasons: says(words.MaxNodesShort, 1, 2, words.Reasons(words.Because(words.MoreFreeCPUs, 1)), "0-1", words.Reasons(words.Because(words.VCPUs, 4))),
			nearest: []plan.Shortage{}},
		{name: "wider than the two nodes it may have", host: `
				0  0-3 16G 10 12 12
				1  4-7 16G 12 10 12
				2  8-11 16G 12 12 10
			`, before: []workload.Spec{vm("x", 4, gib), vm("y", 2, gib)},
			want:    func() workload.Spec { s := vm("a", 7, gib); s.MaxNodes = 2; return s }(),
			reasons: says(words.WithMoreOn, words.Reasons(words.Because(words.MoreFreeCPUs, 1)), "1-2"),
			nearest: []plan.Shortage{{Nodes: topology.Nodes(1, 2), Resource: plan.CPU, Want: 7, Have: 6}}},
		{name: "wider than the host", host: farSockets, want: vm("a", 9, 40*gib), reasons: says(words.EmptyTooSmall, words.Reasons(words.Because(words.VCPUs, 8), memory(32*gib)))},
		{name: "more whole cores than a node has", host: twoNodes, before: []workload.Spec{vm("x", 4, gib)},
			want:    func() workload.Spec { s := vm("a", 5, gib); s.SMT = workload.SMTIsolate; s.MaxNodes = 1; return s }(),
			reasons: words.Reasons(words.Because(words.NodeLacks, 0, words.Reasons(words.Because(words.FreeCores, 3))), words.Because(words.WithMaxNodes))},
		{name: "batch work keeps a CPU", host: twoNodes, before: []workload.Spec{{ID: "o", Class: workload.Batch}}, want: vm("a", 16, gib),
			reasons: words.Reasons(words.Because(words.StarvesBatch, "o"), words.Because(words.OneCPUMore, "0-1")),
			nearest: []plan.Shortage{{Nodes: topology.Nodes(0, 1), Resource: plan.CPU, Want: 17, Have: 16}}},
		{name: "batch work keeps a CPU of its only node", host: farSockets, before: []workload.Spec{{ID: "o", Class: workload.Batch, Nodes: topology.Nodes(0)}},
			want:    func() workload.Spec { s := vm("a", 4, gib); s.Nodes = topology.Nodes(0); return s }(),
			nearest: []plan.Shortage{{Nodes: topology.Nodes(0), Resource: plan.CPU, Want: 4, Have: 3}}},
		{name: "shared work keeps its CPUs", host: farSockets, before: []workload.Spec{service("s", 4, gib), service("t", 4, gib)}, want: vm("a", 4, gib),
			reasons: says(words.OnlySplit)},
		{name: "shared beyond the overcommit", host: farSockets, want: service("s", 25, gib), reasons: says(words.HostTooSmall, words.Because(words.SharedVCPUs, 25), words.Because(words.Number, 24))},
		{name: "huge pages", host: farSockets, want: func() workload.Spec { s := vm("a", 1, gib); s.HugePage = gib; return s }(),
			reasons: words.Reasons(words.Because(words.HostTooSmall, words.Because(words.HugePages, 1, gib), words.Because(words.NoneFree)),
				words.Because(words.WithMore, words.Reasons(words.Because(words.MoreHugePages, 1, gib)), 0))},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			l := NewLedger(onHost(tt.host))
			for _, s := range tt.before {
				r := l.Place(Request{Spec: s, Must: true})
				if !r.Placed() {
					t.Fatalf("%s: %v", s.ID, r.Decision)
				}
				l.Commit(r.Placement)
			}
			r := l.Place(Request{Spec: tt.want})
			if r.Decision.Outcome != plan.Refused {
				t.Fatalf("placed: %+v", r.Placement)
			}
			if missing := wordstest.Missing(r.Decision.Reasons, tt.reasons); missing != nil {
				t.Errorf("reasons: %s\nmissing: %s", r.Decision.Reasons, missing)
			}
			if tt.short != nil {
				if diff := cmp.Diff(tt.short, r.Decision.Shortages, same); diff != "" {
					t.Errorf("shortages (-want +got):\n%s", diff)
				}
			}
			if tt.nearest != nil {
				if diff := cmp.Diff(tt.nearest, r.Decision.Nearest, same, cmpopts.EquateEmpty()); diff != "" {
					t.Errorf("nearest (-want +got):\n%s", diff)
				}
			}
		})
	}
}

// The node that could hold a refused workload and lacks least of it is named, whether it asks
// for memory or not.
func TestNodeThatLacksLeast(t *testing.T) {
	for _, tt := range []struct {
		want  workload.Spec
		taken [2][]topology.CPUID
		kib   [2]topology.KiB
		node  int
	}{
		{vm("a", 8, 0), [2][]topology.CPUID{{0, 1, 2, 3}, {4, 5}}, [2]topology.KiB{}, 1},
		{vm("a", 8, 0), [2][]topology.CPUID{{0}, {4, 5}}, [2]topology.KiB{}, 0},
		{vm("a", 8, 8*gib), [2][]topology.CPUID{{0}, {4, 5}}, [2]topology.KiB{12 * gib, 8 * gib}, 1},
		{vm("a", 8, 8*gib), [2][]topology.CPUID{{0}, {4}}, [2]topology.KiB{9 * gib, 12 * gib}, 0},
		{vm("a", 9, 0), [2][]topology.CPUID{{0}, {4}}, [2]topology.KiB{}, -1},
		{vm("a", 8, 17*gib), [2][]topology.CPUID{{0}, {4}}, [2]topology.KiB{}, -1},
	} {
		st := onHost(twoNodes)
		for n, cpus := range tt.taken {
			st.Placements = append(st.Placements, dedicatedOn(workload.ID(fmt.Sprint("x", n)), topology.NodeID(n), 0, cpus...))
			st.Placements[n].Memory = []workload.NodeMemory{{Node: topology.NodeID(n), KiB: tt.kib[n]}}
		}
		l := NewLedger(st)
		w := newWant(l, &Request{Spec: tt.want})
		if got := newSearch(l, &w).leastLack(); got != tt.node {
			t.Errorf("%d vCPUs and %d KiB beside %v and %v: node %d, want %d", tt.want.CPUs, tt.want.Memory, tt.taken, tt.kib, got, tt.node)
		}
	}
}

// Too large is what no node could ever hold, whatever lies there now.
func TestTooLarge(t *testing.T) {
	for _, tt := range []struct {
		spec workload.Spec
		edit func(*workload.Spec)
		want bool
	}{
		{vm("a", 8, 15*gib), nil, false}, {vm("a", 9, gib), nil, true}, {vm("a", 1, 16*gib+1), nil, true}, {service("a", 24, gib), nil, false}, {service("a", 25, gib), nil, true},
		{vm("a", 4, 0), func(s *workload.Spec) { s.SMT = workload.SMTIsolate }, false}, {vm("a", 5, 0), func(s *workload.Spec) { s.SMT = workload.SMTIsolate }, true},
		{vm("a", 8, 0), func(s *workload.Spec) { s.SMT = workload.SMTRequire }, false}, {vm("a", 7, 0), func(s *workload.Spec) { s.SMT, s.Nodes = workload.SMTRequire, topology.Nodes(1) }, true},
		{vm("a", 1, 200<<10), func(s *workload.Spec) { s.HugePage = 2 << 10 }, false}, {vm("a", 1, 202<<10), func(s *workload.Spec) { s.HugePage = 2 << 10 }, true},
		{vm("a", 1, 1), func(s *workload.Spec) { s.HugePage = 1 << 20 }, true},
	} {
		st := onHost(`
			0  0-3|8-11   16G 10 21 huge=2Mx100
			1  4-7|12-15  16G 21 10
		`)
		st.Policy.Reserved = topology.CPUs(4)
		l := NewLedger(st)
		if tt.edit != nil {
			tt.edit(&tt.spec)
		}
		if w := newWant(l, &Request{Spec: tt.spec}); w.tooLarge != tt.want {
			t.Errorf("%+v: %v", tt.spec, w.tooLarge)
		}
	}
}

// A node may take spilled memory when what is left then still finds room within the nodes
// that the workload may have.
func TestMayHold(t *testing.T) {
	l := NewLedger(onHost("0 0-1 1G 10 21 21 21\n1 2-3 1G 21 10 21 21\n2 4-5 1G 21 21 10 21\n3 - 1G 21 21 21 10"))
	for _, tt := range []struct {
		class workload.Class
		most  int
		left  topology.KiB
		want  bool
	}{
		{workload.Dedicated, 1, 5, false}, {workload.Dedicated, 2, 20, true}, {workload.Dedicated, 2, 21, false}, {workload.Dedicated, 3, 25, true}, {workload.Dedicated, 3, 26, false},
		{workload.Dedicated, 4, 27, true}, {workload.Dedicated, 4, 28, false}, {workload.Shared, 3, 22, true}, {workload.Shared, 3, 23, false},
	} {
		s := search{l: l, w: &want{Spec: workload.Spec{Class: tt.class, MaxNodes: tt.most}}, mem: []topology.KiB{10, 5, 20, 2}, vcpus: []float64{1, 0, 0, 0}, memory: make([]topology.KiB, 4)}
		if got := s.mayHold(2, tt.left); got != tt.want {
			t.Errorf("%s, %d nodes at most, %d left: %v", tt.class, tt.most, tt.left, got)
		}
	}
}

// Of two rooms the tightest that holds all of a need is the better one, or else the larger.
func TestFitsBetter(t *testing.T) {
	for _, tt := range []struct {
		a, b, need int64
		want       bool
	}{{5, 6, 4, true}, {6, 5, 4, false}, {5, 5, 4, false}, {4, 3, 4, true}, {3, 4, 4, false}, {9, 3, 4, true}, {3, 2, 4, true}, {2, 3, 4, false}, {3, 3, 4, false}} {
		if got := fitsBetter(tt.a, tt.b, tt.need); got != tt.want {
			t.Errorf("%d rather than %d for %d: %v", tt.a, tt.b, tt.need, got)
		}
	}
}

// What runs already takes any home, also halves that are far from each other, whatever is
// known of where it is; what is new does not.
func TestRunningTakesAnyHome(t *testing.T) {
	l := NewLedger(onHost(`
		0  0-3   16G 10 32
		1  4-7   16G 32 10
	`))
	for _, s := range []workload.Spec{vm("x", 2, 9*gib), vm("y", 2, 9*gib)} {
		l.Commit(l.Place(Request{Spec: s}).Placement)
	}
	want := vm("a", 4, gib)
	if r := l.Place(Request{Spec: want}); r.Decision.Outcome != plan.Refused {
		t.Fatalf("a new one: %+v", r.Placement)
	}
	for name, r := range map[string]Request{
		"memory": {Spec: want, Memory: on(gib)}, "CPU time": {Spec: want, RanOn: []workload.NodeShare{{Node: 0, Share: 1}}}, "CPUs": {Spec: want, CPUs: topology.CPUs(0, 1)},
		"an order": {Spec: want, Must: true},
	} {
		if got := l.Place(r); !got.Placed() || got.Placement.Home.Len() != 2 {
			t.Errorf("by its %s: %+v", name, got.Decision)
		}
	}
}

// TestOthersAfterHold: a hold takes the caches that shared work is kept in, which then floats over its node, and lets
// go of a part. Dedicated work on the CPUs over which that work still floats shrinks it.
func TestOthersAfterHold(t *testing.T) {
	st := onHost(twoOfFourCaches)
	st.Policy.Caches = plan.CachesPlace
	floats := sharedOn("s", "0", "8-31", 2, gib)
	floats.Caches = topology.SetOf[topology.CacheID](0)
	st.Placements = []plan.Placement{floats, pinnedTo("soon", "0", "0-7")}
	l := NewLedger(st)
	l.Commit(pinnedTo("soon", "0", "0-6"))
	pinned := pinnedTo("b", "0", "8-9")
	others := l.others(nil, &pinned)
	if len(others) != 1 || others[0].CPUs.String() != "7" {
		t.Errorf("others: %+v, want s on CPU 7", others)
	}
}

func TestDedicatedShrinksOthers(t *testing.T) {
	l := NewLedger(onHost(twoNodes))
	for _, s := range []workload.Spec{service("s", 4, gib), service("t", 4, gib), {ID: "o", Class: workload.Batch}} {
		l.Commit(l.Place(Request{Spec: s}).Placement)
	}
	before := l.Placements()
	r := l.Place(Request{Spec: vm("a", 4, gib)})
	if diff := cmp.Diff(before, l.Placements(), same); diff != "" {
		t.Errorf("asking changed the ledger:\n%s", diff)
	}
	got := map[workload.ID]string{}
	for _, p := range r.Others {
		got[p.Workload] = p.CPUs.String()
	}
	want := map[workload.ID]string{"o": "2-7,10-15", "s": "2-3,10-11"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("others (-want +got):\n%s", diff)
	}
}

func TestKeptWhereItIs(t *testing.T) {
	st := onHost(twoNodes)
	r := Place(st, Request{Spec: vm("a", 2, gib)})
	st.Placements = []plan.Placement{r.Placement}
	again := Place(st, Request{Spec: vm("a", 2, gib), Memory: r.Placement.Memory, CPUs: r.Placement.CPUs})
	if again.Decision.Outcome != plan.Kept {
		t.Errorf("outcome %s, want kept", again.Decision.Outcome)
	}
}

// TestLedgerProperties runs random arrivals and departures on random hosts.
func TestLedgerProperties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		st := plantest.State(6).Draw(t, "state")
		l := NewLedger(st)
		for i := range rapid.IntRange(1, 12).Draw(t, "events") {
			id := workload.ID(fmt.Sprintf("w%d", rapid.IntRange(0, 8).Draw(t, "workload")))
			if rapid.IntRange(0, 3).Draw(t, "departs") == 0 {
				l.Remove(id)
				continue
			}
			req := Request{Spec: plantest.Spec(id).Draw(t, "spec"), Must: rapid.Bool().Draw(t, "must")}
			if rapid.IntRange(0, 3).Draw(t, "running") == 0 {
				for _, n := range st.Host.Nodes {
					req.Memory = append(req.Memory, workload.NodeMemory{Node: n.ID, KiB: topology.KiB(rapid.IntRange(0, 4<<20).Draw(t, "resident"))})
				}
			}
			r := l.Place(req)
			if again := l.Place(req); cmp.Diff(r, again, same) != "" {
				t.Fatalf("event %d: another answer:\n%s", i, cmp.Diff(r, again, same))
			}
			st.Placements = l.Placements()
			if fresh := Place(st, req); cmp.Diff(r, fresh, same) != "" {
				t.Fatalf("event %d: another answer on a fresh ledger:\n%s", i, cmp.Diff(r, fresh, same))
			}
			checkDecision(t, req, r)
			if !r.Placed() {
				continue
			}
			l.Commit(r.Placement)
			for _, o := range r.Others {
				l.Commit(o)
			}
			after := l.Placements()
			if v := plan.Check(st, after); v != nil {
				t.Fatalf("event %d: %v", i, v)
			}
			checkOthers(t, st.Placements, after, r)
		}
		for _, p := range l.Placements() {
			l.Remove(p.Workload)
		}
		if diff := cmp.Diff(summary(NewLedger(plan.State{Host: st.Host, Policy: st.Policy})), summary(l)); diff != "" {
			t.Fatalf("the emptied ledger leaks (-want +got):\n%s", diff)
		}
	})
}

// summary is what a ledger has free.
func summary(l *Ledger) []string {
	var out []string
	for i := range l.nodes {
		n := &l.nodes[i]
		out = append(out, fmt.Sprintf("node %d: %d CPUs %d cores %d KiB %v pages %.3f shared %d MiB/s", n.id, n.Free, n.Whole, n.memoryFree, n.pages, n.sharedVCPUs(), n.bandwidth))
	}
	return out
}

// says is one reason, of the values given or any.
func says(code words.Code, args ...any) []words.Reason {
	return words.Reasons(words.Because(code, args...))
}

func memory(k topology.KiB) words.Reason { return words.Because(words.Memory, k) }

func amounts(parts ...words.Reason) words.Reason { return words.Because(words.Amounts, parts) }

func checkDecision(t *rapid.T, req Request, r Result) {
	d := r.Decision
	if d.Workload != req.Spec.ID || len(d.Reasons) == 0 {
		t.Fatalf("decision for %q says %v", d.Workload, d.Reasons)
	}
	wordstest.Check(t, d.Reasons)
	for i, c := range d.Candidates {
		sum := 0.0
		for _, term := range c.Terms {
			sum += term.Value
		}
		if diff := sum - c.Score; diff > 1e-6 || diff < -1e-6 {
			t.Fatalf("terms of %v sum to %v, score %v", c.Nodes, sum, c.Score)
		}
		if i > 0 && c.Score < d.Candidates[i-1].Score {
			t.Fatalf("candidates are not best first: %v", d.Candidates)
		}
	}
	if r.Placed() {
		p := r.Placement
		if !req.Spec.Nodes.Empty() && !p.Home.SubsetOf(req.Spec.Nodes) {
			t.Fatalf("home %v outside the nodes %v", p.Home, req.Spec.Nodes)
		}
		if m := req.Spec.MaxNodes; m > 0 && p.Class != workload.Batch && p.Home.Len() > m {
			t.Fatalf("home %v has more than %d nodes", p.Home, m)
		}
	}
}

// checkOthers compares what the answer said of others with what became of them.
func checkOthers(t *rapid.T, before, after []plan.Placement, r Result) {
	said := map[workload.ID]plan.Placement{}
	for _, p := range r.Others {
		said[p.Workload] = p
	}
	old := map[workload.ID]plan.Placement{}
	for _, p := range before {
		old[p.Workload] = p
	}
	for _, p := range after {
		if p.Workload == r.Placement.Workload {
			continue
		}
		want := old[p.Workload]
		if s, ok := said[p.Workload]; ok {
			want = s
		}
		if diff := cmp.Diff(want, p, same); diff != "" {
			t.Fatalf("%s became something nobody announced (-said +is):\n%s", p.Workload, diff)
		}
	}
}

// TestExactSearch compares branch and bound with trying every node set.
func TestExactSearch(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		st := plantest.State(6).Draw(t, "state")
		l := NewLedger(st)
		for i := range rapid.IntRange(0, 5).Draw(t, "held") {
			if r := l.Place(Request{Spec: plantest.Spec(workload.ID(fmt.Sprintf("w%d", i))).Draw(t, "spec"), Must: true}); r.Placed() {
				l.Commit(r.Placement)
			}
		}
		req := Request{Spec: plantest.Spec("a").Draw(t, "spec")}
		if req.Spec.Class == workload.Batch {
			return
		}
		w := newWant(l, &req)
		s := newSearch(l, &w)
		s.run()
		found, got := len(s.top) > 0, 0.0
		if found {
			got = s.top[0].score
		}
		s = newSearch(l, &w)
		s.singles()
		if !s.staysWhole() { // TestWhatFitsANodeIsNotSplit
		sets:
			for set := 1; set < 1<<len(l.nodes); set++ {
				s.set = s.set[:0]
				for i := range l.nodes {
					if s.inSet[i] = set>>i&1 == 1; s.inSet[i] {
						if s.part[i] == 0 {
							continue sets
						}
						s.set = append(s.set, i)
					}
				}
				if w.MaxNodes != 1 {
					s.tryAll()
				}
			}
		}
		// The search also divides around nodes outside the set, so it may find more.
		if exact := len(s.top) > 0; exact && !found {
			t.Fatalf("search found none, brute force %v", s.top[0].score)
		}
		if found && len(s.top) > 0 && got > s.top[0].score+2*tiny {
			t.Fatalf("search found %v, brute force %v", got, s.top[0].score)
		}
	})
}

// TestCrowdedSearch: what is not looked at for the crowd there would not have been listed.
func TestCrowdedSearch(t *testing.T) {
	cut, splits := 0, 0
	rapid.Check(t, func(t *rapid.T) {
		remote := rapid.IntRange(11, 40).Draw(t, "distance")
		h := plantest.Grid(8, 2, 2, 64*gib, func(i, j int) int {
			if i == j {
				return 10
			}
			return min(remote, 10+3*max(i-j, j-i))
		})
		l := NewLedger(plan.State{Host: h, Policy: plan.Policy{Overcommit: 16}})
		for i := range l.nodes {
			l.nodes[i].shared = cores.Micro(rapid.IntRange(0, 40_000_000).Draw(t, "vCPUs"))
			l.nodes[i].foreign = float64(rapid.IntRange(0, 4).Draw(t, "foreign"))
		}
		spec := vm("a", rapid.IntRange(1, 60).Draw(t, "vCPUs"), topology.KiB(rapid.IntRange(0, 90).Draw(t, "GiB"))*gib)
		spec.Class, spec.Importance = workload.Shared, rapid.IntRange(0, 100).Draw(t, "importance")
		w := newWant(l, &Request{Spec: spec})
		list := func(look func(s *search)) ([]candidate, int) {
			s := newSearch(l, &w)
			look(s)
			s.run()
			out := slices.Clone(s.top)
			for i := range out {
				out[i].shares = slices.Clone(out[i].shares)
			}
			return out, s.branches
		}
		got, few := list(func(*search) {})
		want, all := list(func(s *search) {
			for i := range s.crowd {
				s.crowd[i] = math.Inf(-1)
			}
		})
		if diff := cmp.Diff(want, got, cmp.AllowUnexported(candidate{}, share{})); diff != "" {
			t.Fatalf("with all sets (-), without some (+):\n%s", diff)
		}
		if few < all {
			cut++
		}
		for i := range got {
			if len(got[i].shares) > 1 {
				splits++
			}
		}
	})
	if cut < 200 || splits < 200 {
		t.Errorf("%d searches were cut, %d splits listed: the test tests nothing", cut, splits)
	}
}

// TestCrowd: shared work is refused no CPU for what other shared work has asked for, and
// goes where it crowds least. What the host could never hold, and memory, are refused.
func TestCrowd(t *testing.T) {
	l := NewLedger(onHost(twoNodes))
	for i, s := range []workload.Spec{service("a", 24, gib), service("b", 20, gib)} {
		r := l.Place(Request{Spec: s, Must: true})
		if !r.Placed() {
			t.Fatalf("%d: %+v", i, r.Decision)
		}
		l.Commit(r.Placement)
	}
	before := l.Placements()
	want := service("c", 8, gib)
	if r := l.Place(Request{Spec: want}); r.Placed() {
		t.Fatalf("without Crowd: %+v", r.Placement)
	}
	r := l.Place(Request{Spec: want, Crowd: true})
	b := plan.Placement{}
	for _, p := range before {
		if p.Workload == "b" {
			b = p
		}
	}
	if !r.Placed() || !r.Placement.Home.Equal(b.Home) || len(r.Decision.Reasons) < 2 || r.Decision.Reasons[1].Code != words.HomeCrowded {
		t.Errorf("with Crowd: %+v %v", r.Placement, r.Decision.Reasons)
	}
	if diff := cmp.Diff(before, l.Placements(), same); diff != "" {
		t.Errorf("asking has changed the ledger:\n%s", diff)
	}
	for name, s := range map[string]workload.Spec{"more vCPUs than could ever be": service("d", 49, gib), "memory": service("d", 1, 64*gib), "dedicated": vm("d", 16, gib)} {
		if r := l.Place(Request{Spec: s, Crowd: true}); r.Placed() {
			t.Errorf("%s: %+v", name, r.Placement)
		}
	}
	if r := l.Place(Request{Spec: want}); r.Placed() {
		t.Error("it crowds for good")
	}
}

// TestPlaceBeside: dedicated work keeps off the CPUs that others are pinned to, is refused
// where only those are left, with who has them; shared work does not mind.
func TestPlaceBeside(t *testing.T) {
	st := onHost("0  0-1  16G 10")
	first := Place(st, Request{Spec: vm("a", 1, gib)}).Placement
	st.Placements = []plan.Placement{first}
	pinned := []Pinned{{PID: 42, CPUs: topology.CPUs(1).Minus(first.CPUs).Union(topology.CPUs(0).Minus(first.CPUs))}}
	if r := PlaceBeside(st, nil, Request{Spec: vm("b", 1, gib)}); !r.Placed() || r.Placement.CPUs.Equal(first.CPUs) {
		t.Errorf("nobody pinned: %+v", r)
	}
	r := PlaceBeside(st, pinned, Request{Spec: vm("b", 1, gib)})
	last := len(r.Decision.Reasons) - 1
	if r.Placed() || last < 0 || r.Decision.Reasons[last].Code != words.PinnedThere {
		t.Errorf("the other CPU is taken: %+v", r.Decision)
	}
	if r := PlaceBeside(st, pinned, Request{Spec: service("c", 1, gib)}); !r.Placed() {
		t.Errorf("shared: %+v", r.Decision)
	}
	for cpus, want := range map[string]bool{"0": true, "0-3": true, "0-3,8-11": false, "0-15": false, "": false} {
		set, err := topology.ParseCPUSet(cpus)
		if err != nil || IsPin(plantest.Draw(twoNodes), set) != want {
			t.Errorf("CPUs %q are a pin: want %v", cpus, want)
		}
	}
}

// TestFourRunsOnTwoNodes: runs that are known go two on each of two empty nodes.
func TestFourRunsOnTwoNodes(t *testing.T) {
	st := onHost("0  0-3  2G 10 21\n1  4-7  2G 21 10")
	count := map[string]int{}
	for i := range 4 {
		r := PlaceBeside(st, nil, Request{Spec: service(fmt.Sprintf("pid:%d", 100+i), 2, 400<<10), Crowd: true})
		if !r.Placed() {
			t.Fatalf("%d: %+v", i, r.Decision)
		}
		count[r.Placement.Home.String()]++
		st.Placements = append(st.Placements, r.Placement)
	}
	if count["0"] != 2 || count["1"] != 2 {
		t.Errorf("homes: %v", count)
	}
}
