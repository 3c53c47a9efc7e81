package place

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"github.com/homenode/homenode/core/plan"
	"github.com/homenode/homenode/core/plan/plantest"
	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/core/workload"
)

const gib = plantest.GiB

// same compares values that hold sets: those by what they hold.
var same = cmp.Options{
	cmp.Comparer(func(a, b topology.CPUSet) bool { return a.Equal(b) }),
	cmp.Comparer(func(a, b topology.NodeSet) bool { return a.Equal(b) }),
}

func onHost(drawing string) plan.State {
	return plan.State{Host: plantest.Draw(drawing), Policy: plan.DefaultPolicy()}
}

func vm(id string, vcpus int, memory topology.KiB) workload.Spec {
	return workload.Spec{ID: workload.ID(id), Class: workload.Dedicated, Importance: 50, CPUs: vcpus, Memory: memory, Given: true}
}

func service(id string, vcpus int, memory topology.KiB) workload.Spec {
	s := vm(id, vcpus, memory)
	s.Class = workload.Shared
	return s
}

const (
	twoNodes = `
		0  0-3|8-11   16G 10 21
		1  4-7|12-15  16G 21 10
	`
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
		name   string
		host   string
		edit   func(*plan.State)
		before []workload.Spec // placed first, each where the engine wants
		want   workload.Spec
		edits  func(*Request)
		home   string
		cpus   string
		memory []workload.NodeMemory
		idle   string
		reason string // part of the reasons
	}{
		{name: "empty host", host: twoNodes, want: vm("a", 4, 4*gib), home: "0", cpus: "0-1,8-9", memory: on(4 * gib)},
		{name: "packs the tighter node", host: twoNodes, before: []workload.Spec{vm("x", 4, gib)}, want: vm("a", 4, gib),
			home: "0", cpus: "2-3,10-11", reason: "the fit is tightest there"},
		{name: "only node with room", host: twoNodes, before: []workload.Spec{vm("x", 6, gib)}, want: vm("a", 4, gib),
			home: "1", cpus: "4-5,12-13", reason: "Node 1 is the only node with 4 free CPUs and 1 GiB: node 0 lacks 2 free CPUs."},
		{name: "memory decides", host: twoNodes, before: []workload.Spec{vm("x", 1, 15*gib)}, want: vm("a", 2, 2*gib),
			home: "1", cpus: "4,12", reason: "node 0 lacks 1 GiB"},
		{name: "spread by policy", host: twoNodes, edit: func(st *plan.State) { st.Policy.Packing = plan.Spread },
			before: []workload.Spec{vm("x", 4, gib)}, want: vm("a", 4, gib), home: "1", cpus: "4-5,12-13"},
		{name: "bandwidth spreads", host: twoNodes,
			before: []workload.Spec{func() workload.Spec { s := vm("x", 4, gib); s.Bandwidth = 100_000; return s }()},
			want:   func() workload.Spec { s := vm("a", 4, gib); s.Bandwidth = 100_000; return s }(), home: "1", cpus: "4-5,12-13",
			reason: "memory bandwidth"},
		{name: "odd size opens a core on an empty node", host: twoNodes, before: []workload.Spec{vm("x", 1, gib)}, want: vm("a", 3, gib),
			home: "0", cpus: "1-2,9"},
		{name: "odd size joins a core on a full node", host: twoNodes, before: []workload.Spec{vm("x", 3, gib)},
			want: func() workload.Spec { s := vm("a", 3, gib); s.Nodes = topology.Nodes(0); return s }(), home: "0", cpus: "2,9-10"},
		{name: "odd size goes where it need not join", host: twoNodes, before: []workload.Spec{vm("x", 3, gib)}, want: vm("a", 3, gib),
			home: "1", cpus: "4-5,12", reason: "it needs no core that another tenant uses"},
		{name: "wide is split over the nearest", host: twoSockets, before: []workload.Spec{vm("x", 2, gib)}, want: vm("a", 12, 8*gib),
			home: "0-1", cpus: "1-2,4-7,17-18,20-23", memory: on(0, 8*gib), reason: "No node of this host could ever hold 12 free CPUs and 8 GiB, so it is split."},
		{name: "narrow is split when near", host: twoSockets, before: []workload.Spec{vm("w", 5, gib), vm("x", 5, gib), vm("y", 5, gib), vm("z", 5, gib)},
			want: vm("a", 4, gib), home: "0-1", cpus: "3,18-19,22", reason: "No single node has 4 free CPUs and 1 GiB: node 0 lacks 1 free CPU"},
		{name: "even split for guests that see their nodes", host: twoSockets, before: []workload.Spec{vm("x", 2, gib)},
			want: func() workload.Spec { s := vm("a", 12, 8*gib); s.Even = true; return s }(),
			home: "0-1", cpus: "1-6,17-22", memory: on(4*gib, 4*gib)},
		{name: "dedicated does not squeeze shared", host: twoNodes, before: []workload.Spec{service("s", 4, gib)}, want: vm("a", 4, gib),
			home: "1", cpus: "4-5,12-13"},
		{name: "important work keeps idle CPU", host: twoNodes,
			before: []workload.Spec{func() workload.Spec { s := service("s", 4, gib); s.Importance = 100; return s }(), service("t", 5, gib)},
			want:   service("a", 2, gib), home: "1", cpus: "4-7,12-15"},
		{name: "SMT isolate holds siblings idle", host: twoNodes, want: func() workload.Spec { s := vm("a", 2, gib); s.SMT = workload.SMTIsolate; return s }(),
			home: "0", cpus: "0-1", idle: "8-9", reason: "CPUs 8-9 stay idle beside them"},
		{name: "SMT require takes whole cores", host: twoNodes, want: func() workload.Spec { s := vm("a", 3, gib); s.SMT = workload.SMTRequire; return s }(),
			home: "0", cpus: "0-1,8", idle: "9"},
		{name: "sibling of a reserved CPU comes last", host: twoNodes, edit: func(st *plan.State) { st.Policy.Reserved = topology.CPUs(0, 4) },
			want: vm("a", 6, gib), home: "0", cpus: "1-3,9-11"},
		{name: "one cache where one will do", host: `
				0  0-7|16-23   16G 10 21 llc=4
				1  8-15|24-31  16G 21 10 llc=4
			`, before: []workload.Spec{vm("x", 2, gib)}, want: vm("a", 8, gib), home: "0", cpus: "4-7,20-23", reason: "under 1 last-level cache"},
		{name: "near a device", host: `
				0  0-3|8-11   16G 10 21
				1  4-7|12-15  16G 21 10 dev=eth0
			`, want: func() workload.Spec { s := vm("a", 2, gib); s.Near = []workload.Near{{Device: "eth0"}}; return s }(),
			home: "1", cpus: "4,12", reason: "it is nearer to eth0"},
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
			reason: "node 0 lacks 412 2 MiB pages"},
		{name: "foreign huge pages do not count", host: `
				0  0-3  16G 10 21 huge=2Mx1024
				1  4-7  16G 21 10 huge=2Mx1024
			`, edit: func(st *plan.State) { st.Host.Nodes[0].HugePages[0].Free = 10 },
			want: func() workload.Spec { s := vm("a", 2, gib); s.HugePage = 2 << 10; return s }(), home: "1", cpus: "4-5"},
		{name: "shared goes where load is low", host: twoNodes, before: []workload.Spec{service("x", 4, gib)}, want: service("a", 4, gib),
			home: "1", cpus: "4-7,12-15", reason: "0.0 shared vCPUs on 8 CPUs there, 4.0 on 8 on node 0"},
		{name: "shared leaves dedicated CPUs", host: twoNodes, before: []workload.Spec{vm("x", 4, gib), vm("y", 6, gib)}, want: service("a", 2, gib),
			home: "0", cpus: "2-3,10-11"},
		{name: "shared overcommits", host: twoNodes, before: []workload.Spec{service("x", 20, gib), service("y", 20, gib)}, want: service("a", 4, gib), home: "0", cpus: "0-3,8-11"},
		{name: "offline takes what is left", host: twoNodes, before: []workload.Spec{vm("x", 4, gib)},
			want: workload.Spec{ID: "a", Class: workload.Offline, CPUs: 64}, home: "0-1", cpus: "2-7,10-15"},
		{name: "running stays with its memory", host: twoNodes, want: service("a", 2, 4*gib),
			edits: func(r *Request) { r.Memory = on(gib, 3*gib) }, home: "1", cpus: "4-7,12-15", memory: on(0, 4*gib), reason: "75 % of its memory is there already"},
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
			if all := strings.Join(r.Decision.Reasons, " "); !strings.Contains(all, tt.reason) {
				t.Errorf("reasons: %s\nwant in them: %s", all, tt.reason)
			}
			l.Commit(p)
			if v := plan.Check(st, l.Placements()); v != nil {
				t.Errorf("check: %v", v)
			}
		})
	}
}

func on(mem ...topology.KiB) []workload.NodeMemory {
	var out []workload.NodeMemory
	for n, m := range mem {
		if m > 0 {
			out = append(out, workload.NodeMemory{Node: topology.NodeID(n), KiB: m})
		}
	}
	return out
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
		reason  string
		short   []plan.Shortage
		nearest []plan.Shortage
	}{
		{name: "too many CPUs", host: farSockets, want: vm("a", 9, gib), reason: "The host can give 8 free CPUs in all, and it wants 9.",
			short: []plan.Shortage{{Nodes: topology.Nodes(0), Resource: plan.CPU, Want: 9, Have: 4}, {Nodes: topology.Nodes(1), Resource: plan.CPU, Want: 9, Have: 4}}},
		{name: "too much memory", host: farSockets, want: vm("a", 2, 40*gib), reason: "The host can give 32 GiB in all, and it wants 40 GiB."},
		{name: "a split that does not pay", host: farSockets, before: []workload.Spec{vm("x", 2, gib), vm("y", 2, gib), vm("z", 2, gib)},
			want: vm("a", 4, gib), reason: "The host can give 2 free CPUs in all"},
		{name: "far halves", host: farSockets, before: []workload.Spec{vm("x", 2, 9*gib), vm("y", 2, 9*gib)}, want: vm("a", 4, gib),
			reason: "It fits only in parts, as node 0 (2 vCPUs, 1 GiB) and node 1 (2 vCPUs), where an access costs 2.10 times a local one; a split pays up to 1.35. " +
				"By node: node 0 lacks 2 free CPUs, node 1 lacks 2 free CPUs. It would be admitted as soon as node 0 has 2 more free CPUs. " +
				"To have it split all the same, allow it 2 nodes.", nearest: []plan.Shortage{{Nodes: topology.Nodes(0), Resource: plan.CPU, Want: 4, Have: 2}}},
		{name: "one node at most", host: farSockets, want: func() workload.Spec { s := vm("a", 5, gib); s.MaxNodes = 1; return s }(),
			reason: "It may be split over at most 1 node, and no such set holds 5 free CPUs and 1 GiB. By node: node 0 lacks 1 free CPU, node 1 lacks 1 free CPU. " +
				"Split over 2 nodes it would be admitted now, as node 0 (4 vCPUs, 1 GiB) and node 1 (1 vCPU)."},
		{name: "no such node", host: farSockets, want: func() workload.Spec { s := vm("a", 4, gib); s.Nodes = topology.Nodes(9); return s }(),
			reason: "It may use only node 9, and the host has none of them. Allowed on any node it would be admitted now, on node 0."},
		{name: "the named node is full", host: farSockets, before: []workload.Spec{vm("x", 2, gib)}, want: func() workload.Spec { s := vm("a", 4, gib); s.Nodes = topology.Nodes(0); return s }(),
			reason: "It would be admitted as soon as node 0 has 2 more free CPUs. Allowed on any node it would be admitted now, on node 1.",
			short:  []plan.Shortage{{Nodes: topology.Nodes(0), Resource: plan.CPU, Want: 4, Have: 2}}, nearest: []plan.Shortage{{Nodes: topology.Nodes(0), Resource: plan.CPU, Want: 4, Have: 2}}},
		{name: "wider than a node", host: farSockets, before: []workload.Spec{vm("x", 4, gib)}, want: vm("a", 5, gib),
			reason:  "It can be held in parts only, which takes 1 more free CPU on nodes 0-1 together.",
			nearest: []plan.Shortage{{Nodes: topology.Nodes(0, 1), Resource: plan.CPU, Want: 5, Have: 4}}},
		{name: "wider than the one node it may have", host: farSockets, before: []workload.Spec{vm("x", 4, gib)},
			want:    func() workload.Spec { s := vm("a", 5, gib); s.MaxNodes = 1; return s }(),
			reason:  "No room helps while it may be on 1 node at most: allow it max_nodes: 2 or more, which takes 1 more free CPU on nodes 0-1 together, or ask for at most 4 vCPUs.",
			nearest: []plan.Shortage{}},
		{name: "wider than the two nodes it may have", host: `
				0  0-3 16G 10 12 12
				1  4-7 16G 12 10 12
				2  8-11 16G 12 12 10
			`, before: []workload.Spec{vm("x", 4, gib), vm("y", 2, gib)},
			want:    func() workload.Spec { s := vm("a", 7, gib); s.MaxNodes = 2; return s }(),
			reason:  "It can be held in parts only, which takes 1 more free CPU on nodes 1-2 together.",
			nearest: []plan.Shortage{{Nodes: topology.Nodes(1, 2), Resource: plan.CPU, Want: 7, Have: 6}}},
		{name: "wider than the host", host: farSockets, want: vm("a", 9, 40*gib), reason: "It could not be admitted with nothing else there either: ask for at most 8 vCPUs and 32 GiB."},
		{name: "more whole cores than a node has", host: twoNodes, before: []workload.Spec{vm("x", 4, gib)},
			want:   func() workload.Spec { s := vm("a", 5, gib); s.SMT = workload.SMTIsolate; s.MaxNodes = 1; return s }(),
			reason: "By node: node 1 lacks 1 free whole core, node 0 lacks 3 free whole cores. Split over 2 nodes it would be admitted now, as"},
		{name: "offline work keeps a CPU", host: twoNodes, before: []workload.Spec{{ID: "o", Class: workload.Offline}}, want: vm("a", 16, gib),
			reason:  "It would leave o, which is offline work, not a single CPU. It would be admitted as soon as one more CPU is free on nodes 0-1.",
			nearest: []plan.Shortage{{Nodes: topology.Nodes(0, 1), Resource: plan.CPU, Want: 17, Have: 16}}},
		{name: "shared work keeps its CPUs", host: farSockets, before: []workload.Spec{service("s", 4, gib), service("t", 4, gib)}, want: vm("a", 4, gib),
			reason: "It fits only in parts"},
		{name: "shared beyond the overcommit", host: farSockets, want: service("s", 25, gib), reason: "The host can give 24 shared vCPUs in all, and it wants 25."},
		{name: "huge pages", host: farSockets, want: func() workload.Spec { s := vm("a", 1, gib); s.HugePage = gib; return s }(),
			reason: "The host can give 0 1 GiB pages in all, and it wants 1 1 GiB page. By node: node 0 lacks 1 1 GiB page, node 1 lacks 1 1 GiB page. " +
				"It would be admitted as soon as node 0 has 1 1 GiB page more."},
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
			if all := strings.Join(r.Decision.Reasons, " "); !strings.Contains(all, tt.reason) {
				t.Errorf("reasons: %s\nwant in them: %s", all, tt.reason)
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

func TestDedicatedShrinksOthers(t *testing.T) {
	l := NewLedger(onHost(twoNodes))
	for _, s := range []workload.Spec{service("s", 4, gib), service("t", 4, gib), {ID: "o", Class: workload.Offline}} {
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
		out = append(out, fmt.Sprintf("node %d: %d CPUs %d cores %d KiB %v pages %.3f shared %d MiB/s", n.id, n.free, n.whole, n.memoryFree, n.pages, n.sharedVCPUs(), n.bandwidth))
	}
	return out
}

func checkDecision(t *rapid.T, req Request, r Result) {
	d := r.Decision
	if d.Workload != req.Spec.ID || len(d.Reasons) == 0 {
		t.Fatalf("decision for %q says %v", d.Workload, d.Reasons)
	}
	for _, s := range d.Reasons {
		if !strings.HasSuffix(s, ".") || strings.Contains(s, "%!") {
			t.Fatalf("not a sentence: %q", s)
		}
	}
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
		if m := req.Spec.MaxNodes; m > 0 && p.Class != workload.Offline && p.Home.Len() > m {
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
		if req.Spec.Class == workload.Offline {
			return
		}
		w := l.newWant(&req)
		s := l.newSearch(&w)
		s.run()
		found, got := len(s.top) > 0, 0.0
		if found {
			got = s.top[0].score
		}
		s = l.newSearch(&w)
		s.singles()
		if len(s.top) == 0 || w.Class == workload.Shared && s.top[0].terms[contention] > tiny {
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
