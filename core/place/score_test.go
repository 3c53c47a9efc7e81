package place

import (
	"math"
	"slices"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/homenode/homenode/core/plan"
	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/core/workload"
)

func TestCrowding(t *testing.T) {
	for _, tt := range []struct{ cpus, cores, vcpus, want float64 }{
		{8, 4, 0, 0}, {8, 4, -1, 0}, {8, 4, 4, 0}, {8, 4, 5, 0.35}, {8, 4, 8, 1.4}, {8, 4, 9, 2.4}, {8, 4, 10, 3.4},
		{4, 4, 5, 1}, {0, 0, 2, 2}, {8, 4, 4.5, 0.175},
	} {
		if got := Crowding(tt.cpus, tt.cores, tt.vcpus); !about(got, tt.want) {
			t.Errorf("%v on %v CPUs of %v cores: %v, want %v", tt.vcpus, tt.cpus, tt.cores, got, tt.want)
		}
	}
	for importance, want := range map[int]int{-5: 0, 0: 0, 50: 0, 51: 1, 80: 30, 100: 50, 101: 50} {
		if got := Reserve(importance); got != want {
			t.Errorf("importance %d keeps %d %% idle, want %d", importance, got, want)
		}
	}
}

// TestCeiling works out the price of a split: a vCPU that would fit one node is worth
// 0.65 of a local one, one that never would 0.35, and memory beyond its share of the host,
// 2 GiB a CPU here, adds a fifth of the CPUs that it leaves without.
func TestCeiling(t *testing.T) {
	for _, tt := range []struct {
		name string
		edit func(*plan.State, *Request)
		spec workload.Spec
		want float64
	}{
		{"would fit one node", nil, vm("a", 4, 8*gib), 1.35},
		{"less than its share of memory", nil, vm("a", 4, gib), 1.35},
		{"twice its share", nil, vm("a", 4, 16*gib), 2 - 0.65*1.2},
		{"three times its share", nil, vm("a", 2, 12*gib), 2 - 0.65*1.4},
		{"no node would ever hold it", nil, vm("a", 9, gib), 1.65},
		{"nor its memory", nil, vm("a", 9, 27*gib), 2 - 0.35*1.1},
		{"in huge pages memory is no share", nil, func() workload.Spec { s := vm("a", 4, 16*gib); s.HugePage = 2 << 10; return s }(), 1.65},
		{"one node at most", nil, func() workload.Spec { s := vm("a", 4, gib); s.MaxNodes = 1; return s }(), 1.35},
		{"more are asked for", nil, func() workload.Spec { s := vm("a", 4, gib); s.MaxNodes = 2; return s }(), math.Inf(1)},
		{"it must", func(_ *plan.State, r *Request) { r.Must = true }, vm("a", 4, gib), math.Inf(1)},
		{"it runs", func(_ *plan.State, r *Request) { r.Memory = on(gib) }, vm("a", 4, gib), math.Inf(1)},
		{"shared work", nil, service("a", 4, gib), math.Inf(1)},
		{"pack", func(st *plan.State, _ *Request) { st.Policy.Packing = plan.Pack }, vm("a", 4, gib), math.Inf(1)},
		{"spread", func(st *plan.State, _ *Request) { st.Policy.Packing = plan.Spread }, vm("a", 4, gib), math.Inf(1)},
	} {
		st, req := onHost(twoNodes), Request{Spec: tt.spec}
		if tt.edit != nil {
			tt.edit(&st, &req)
		}
		l := NewLedger(st)
		w := newWant(l, &req)
		if got := w.ceiling(l); !about(got, tt.want) {
			t.Errorf("%s: %v, want %v", tt.name, got, tt.want)
		}
	}
}

func TestAccessCosts(t *testing.T) {
	none := topology.None
	for _, tt := range []struct {
		name string
		m    topology.Matrix
		want []float64
	}{
		{"nothing is known", nil, []float64{1, 2, 2, 2, 1, 2, 2, 2, 1}},
		{"all is known", topology.Matrix{{10, 12, 32}, {12, 10, 32}, {32, 32, 10}}, []float64{1, 1.2, 3.2, 1.2, 1, 3.2, 3.2, 3.2, 1}},
		{"the unknown is as far as the farthest", topology.Matrix{{10, none, 32}, {12, 10, 32}, {32, 32, 10}}, []float64{1, 3.2, 3.2, 1.2, 1, 3.2, 3.2, 3.2, 1}},
		{"no nearer than its own", topology.Matrix{{20, 10, 40}, {20, 20, 20}, {10, 10, 10}}, []float64{1, 1, 2, 1, 1, 1, 1, 1, 1}},
	} {
		h := onHost("0 0-1 1G 10 21 21\n1 2-3 1G 21 10 21\n2 4-5 1G 21 21 10").Host
		h.Distances = tt.m
		got := AccessCosts(h)
		for i := range got {
			if !about(got[i], tt.want[i]) {
				t.Errorf("%s: %v, want %v", tt.name, got, tt.want)
				break
			}
		}
	}
	for in, want := range map[float64]float64{-1: 1, 0.5: 1, 1: 1, 3: 3, 100: 100, 101: 100} {
		if got := clampCost(in); got != want {
			t.Errorf("%v is taken as %v", in, got)
		}
	}
}

func TestAccessOf(t *testing.T) {
	l := NewLedger(onHost(twoSockets)) // 1.2 to the neighbour, 3.2 to the others
	for _, tt := range []struct {
		name   string
		shares []share
		memory topology.KiB
		want   float64
	}{
		{"at home", []share{{0, 4, gib}}, gib, 1},
		{"all on the neighbour", []share{{0, 4, 0}, {1, 0, gib}}, gib, 1.2},
		{"halves", []share{{0, 2, gib}, {1, 2, gib}}, 2 * gib, 1.1},
		{"three quarters and a quarter", []share{{0, 3, gib}, {2, 1, 3 * gib}}, 4 * gib, (3*1 + 9*3.2 + 1*3.2 + 3*1) / 16},
		{"memory unknown: where its CPUs are", []share{{0, 3, 0}, {2, 1, 0}}, 0, (9 + 1 + 6*3.2) / 16},
		{"no CPUs", []share{{0, 0, gib}}, gib, 1},
		{"nothing booked", []share{{0, 2, 0}}, gib, 1},
	} {
		if got := l.accessOf(tt.shares, tt.memory); !about(got, tt.want) {
			t.Errorf("%s: %v, want %v", tt.name, got, tt.want)
		}
	}
}

// TestTerms works out every term of single candidates. A node of twoSockets has 8 CPUs on
// 4 cores and 16 GiB.
func TestTerms(t *testing.T) {
	// 4 of 8 CPUs and 4 of 16 GiB are left half and three quarters free: 0.1 × 0.5, and it
	// becomes lopsided by a quarter: 0.2 × 0.25. The neighbour is free: 0.05 × 0.8.
	const empty = 4 * (0.05 + 0.05 + 0.04)
	nearTo := func(weight float64) func(*Request) {
		return func(r *Request) { r.Spec.Near = []workload.Near{{Device: "eth0", Weight: weight}} }
	}
	for _, tt := range []struct {
		name   string
		st     func(*plan.State)
		before []plan.Placement
		req    Request
		edit   func(*Request)
		shares []share
		want   terms
	}{
		{name: "empty", req: Request{Spec: vm("a", 4, 4*gib)}, shares: []share{{0, 4, 4 * gib}}, want: terms{holes: empty}},
		{name: "spread", st: func(st *plan.State) { st.Policy.Packing = plan.Spread }, req: Request{Spec: vm("a", 4, 4*gib)},
			shares: []share{{0, 4, 4 * gib}}, want: terms{holes: 0.1 * 4 * 0.5}},
		{name: "memory unknown", st: func(st *plan.State) { st.Host.Nodes[0].Memory = topology.None }, req: Request{Spec: vm("a", 4, 4*gib)},
			shares: []share{{0, 4, 4 * gib}}, want: terms{holes: 4 * (0.05 + 0.04)}},
		{name: "more memory than CPUs", req: Request{Spec: vm("a", 4, 12*gib)}, shares: []share{{0, 4, 12 * gib}},
			want: terms{holes: 4 * (0.1*0.25 + 0.2*0.25 + 0.04)}},
		{name: "all of its CPUs, no memory: welcome nowhere", req: Request{Spec: vm("a", 8, 0)}, shares: []share{{0, 8, 0}},
			want: terms{holes: 8 * (0.2*1 + 0.04)}},
		{name: "on two nodes", req: Request{Spec: vm("a", 4, 4*gib)}, shares: []share{{0, 3, 3 * gib}, {1, 1, gib}},
			want: terms{distance: 4 * 2 * 3.0 / 16 * 0.2, holes: 0.1 * (5 + 7)}},
		{name: "its memory is elsewhere", req: Request{Spec: vm("a", 4, 4*gib), Memory: on(gib, 3*gib)}, shares: []share{{0, 4, 4 * gib}},
			want: terms{holes: empty, move: 0.15 * 4 * 0.75}},
		{
			name: "its little memory is elsewhere: it moves in no time", edit: func(r *Request) { r.Spec = service("s", 3, gib/16) },
			req: Request{Memory: on(0, gib/32)}, shares: []share{{0, 3, gib / 16}}, want: terms{balance: 0.05 * 3 * 3 / 4.0, move: 0.15 * 3 / 4},
		},
		{name: "its memory is here", req: Request{Spec: vm("a", 4, 4*gib), Memory: on(4 * gib)}, shares: []share{{0, 4, 4 * gib}}, want: terms{holes: empty}},
		{name: "bandwidth", req: Request{Spec: func() workload.Spec { s := vm("a", 4, 4*gib); s.Bandwidth = 15_000; return s }()},
			shares: []share{{0, 4, 4 * gib}}, want: terms{holes: empty, bandwidth: 0.5 * 4 * 0.1}},
		{name: "a device it does not ask for", st: device, req: Request{Spec: vm("a", 4, 4*gib)}, shares: []share{{0, 4, 4 * gib}},
			want: terms{holes: empty, devices: 0.02 * 4}},
		{name: "a device it asks for", st: device, req: Request{Spec: vm("a", 4, 4*gib)}, edit: nearTo(1), shares: []share{{0, 4, 4 * gib}}, want: terms{holes: empty}},
		{name: "far from a device it asks for", st: device, req: Request{Spec: vm("a", 4, 4*gib)}, edit: nearTo(1), shares: []share{{1, 4, 4 * gib}},
			want: terms{holes: empty, near: 4 * 0.5 * 0.2}},
		{name: "far from a device it asks for very much", st: device, req: Request{Spec: vm("a", 4, 4*gib)}, edit: nearTo(9), shares: []share{{1, 4, 4 * gib}},
			want: terms{holes: empty, near: 4 * 0.9}},
		{name: "shared work alone", req: Request{Spec: service("s", 3, gib)}, shares: []share{{0, 3, gib}}, want: terms{balance: 0.05 * 3 * 3 / 4.0}},
		{name: "shared work on more than the cores", req: Request{Spec: service("s", 6, gib)}, shares: []share{{0, 6, gib}},
			want: terms{contention: 2 * 0.35, balance: 0.05 * 6 * 6 / 4.0}},
		{name: "important shared work", req: Request{Spec: func() workload.Spec { s := service("s", 3, gib); s.Importance = 100; return s }()},
			shares: []share{{0, 3, gib}}, want: terms{contention: 0.5 * 0.35, balance: 0.05 * 4.5 * 4.5 / 4.0}},
		{name: "shared work beside other", before: []plan.Placement{floating("x", 0, 3)}, req: Request{Spec: service("s", 3, gib)}, shares: []share{{0, 3, gib}},
			want: terms{contention: 2 * 0.35, balance: 0.05 * 3 * 6 / 4.0}},
		{name: "dedicated work beside shared", before: []plan.Placement{floating("x", 0, 3)}, req: Request{Spec: vm("a", 4, 4*gib)}, shares: []share{{0, 4, 4 * gib}},
			want: terms{holes: empty, contention: 0.35, balance: 0.05 * 3 * (3/2.0 - 3/4.0)}},
		{name: "dedicated work takes the last CPU of shared", before: []plan.Placement{floating("x", 0, 1), dedicatedOn("y", 0, 0, 0, 16, 1, 17, 2, 18, 3)}, req: Request{Spec: vm("a", 1, 0)}, shares: []share{{0, 1, 0}},
			want: terms{holes: 0.2/8 + 0.05*0.8, contention: 1 - 0.35*0.5, siblings: 0.15}},
	} {
		st := onHost(twoSockets)
		if tt.st != nil {
			tt.st(&st)
		}
		st.Placements = tt.before
		if tt.edit != nil {
			tt.edit(&tt.req)
		}
		l := NewLedger(st)
		w := newWant(l, &tt.req)
		c := candidate{shares: tt.shares}
		w.weigh(l, &c)
		sum := 0.0
		for k := range tt.want {
			sum += tt.want[k]
			if !about(c.terms[k], tt.want[k]) {
				t.Errorf("%s: %s is %v, want %v", tt.name, termNames[k], c.terms[k], tt.want[k])
			}
		}
		if !about(c.score, sum) {
			t.Errorf("%s: score %v, want %v", tt.name, c.score, sum)
		}
	}
}

func device(st *plan.State) {
	st.Host.Devices = []topology.Device{{Name: "eth0", Kind: topology.NIC, PCI: "0000:00:01.0", Node: 0}}
}

// TestRooms: what shared work may have of each node, beside what is booked and what others
// use.
func TestRooms(t *testing.T) {
	st := onHost(twoSockets)
	st.Host.Nodes[1].Memory = topology.None
	st.Host.Measured = &topology.Measured{BandwidthMiBs: [][]float64{{90_000}}}
	st.Placements = []plan.Placement{dedicatedOn("d", 0, 4*gib, 0, 16, 1), floating("s", 2, 3)}
	l := NewLedger(st)
	l.AddForeign(&workload.Observation{CPUUse: 4, RanOn: []workload.NodeShare{{Node: 0, Share: 0.25}, {Node: 9, Share: 0.75}},
		Memory: []workload.NodeMemory{{Node: 0, KiB: gib}, {Node: 1, KiB: gib}, {Node: 9, KiB: gib}}})
	want := []Room{{0, 5, 2.5, 11 * gib, 90_000}, {1, 8, 4, unlimited, unknownBandwidth}, {2, 8, 4, 16 * gib, unknownBandwidth}, {3, 8, 4, 16 * gib, unknownBandwidth}}
	if diff := gocmp.Diff(want, l.Rooms()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if n := &l.nodes[0]; n.memory != 15*gib {
		t.Errorf("%d KiB may be booked where others hold a GiB", n.memory)
	}
	if load, other := l.nodes[0].load(), l.nodes[2].load(); !about(load, 1) || !about(other, 3) {
		t.Errorf("load %v and %v", load, other)
	}
	st.Host.Nodes = append(st.Host.Nodes[:1:1], st.Host.Nodes[2:]...) // IDs have a gap
	for id, want := range map[topology.NodeID]int{-1: -1, 0: 0, 1: -1, 2: 1, 3: 2, 4: -1} {
		if got := NewLedger(st).index(id); got != want {
			t.Errorf("node %d is at %d, want %d", id, got, want)
		}
	}
	st = onHost(twoSockets)
	st.Placements = []plan.Placement{dedicatedOn("d", 0, 4*gib, 0, 16, 1)}
	st.Policy.Split, st.Policy.Dedicated = true, topology.CPUs(0, 1, 16, 17)
	if r := NewLedger(st).Rooms()[0]; r.CPUs != 4 || !about(r.Cores, 2) {
		t.Errorf("behind the partition: %+v", r)
	}
}

// TestCPUsThatAreNotThere: a placement with CPUs that the host has lost, or never had, holds
// the others.
func TestCPUsThatAreNotThere(t *testing.T) {
	st := onHost(twoNodes)
	fresh := summary(NewLedger(st))
	p := dedicatedOn("a", 0, gib, 0, 16, 900)
	p.Pins, p.VCPUs = append(p.Pins, -1), 4
	p.Idle = topology.CPUs(1, 16)
	st.Placements = []plan.Placement{p, dedicatedOn("b", 0, gib, 8)}
	l := NewLedger(st)
	if n := &l.nodes[0]; n.Free != 8-3 || n.Whole != 2 {
		t.Errorf("%d CPUs on %d whole cores are free", n.Free, n.Whole)
	}
	for cpu, want := range map[topology.CPUID]int{-1: -1, 16: -1, 900: -1, 15: 1, 3: 0} {
		if got := l.cpus.NodeOf(cpu); got != want {
			t.Errorf("CPU %d is of node %d, want %d", cpu, got, want)
		}
	}
	k, _ := l.find("a")
	if got := l.cpus.Doubled(l.held[k].Placement); got != 1 {
		t.Errorf("%d of its CPUs are on cores that others use too", got)
	}
	l.Remove("a")
	l.Remove("b")
	if diff := gocmp.Diff(fresh, summary(l)); diff != "" {
		t.Errorf("the ledger leaks (-fresh +emptied):\n%s", diff)
	}
}

// TestPull: each near thing pulls by its distance, and several of its nodes in equal parts.
func TestPull(t *testing.T) {
	st := onHost(twoSockets)
	device(&st)
	st.Host.Devices = append(st.Host.Devices, topology.Device{Name: "eth1", Node: topology.None})
	st.Placements = []plan.Placement{floating("peer", 2, 1), {Workload: "off", Class: workload.Batch, Home: topology.Nodes(2)}}
	for _, tt := range []struct {
		name  string
		near  []workload.Near
		vcpus int
		want  []float64
		lost  []string
	}{
		{"nothing", nil, 1, nil, nil},
		{"a device by name", []workload.Near{{Device: "eth0", Weight: 0.5}}, 1, []float64{0, 0.05, 0.55, 0.55}, nil},
		{"a device by address", []workload.Near{{Device: "0000:00:01.0", Weight: 0.5}}, 1, []float64{0, 0.05, 0.55, 0.55}, nil},
		{"no weight is 1", []workload.Near{{Device: "eth0"}}, 1, []float64{0, 0.1, 1, 1}, nil},
		{"a peer", []workload.Near{{Workload: "peer", Weight: 0.5}}, 1, []float64{0.55, 0.55, 0, 0.05}, nil},
		{"two nodes, half each", []workload.Near{{Nodes: topology.Nodes(0, 1), Weight: 1, Learned: true}}, 1, []float64{0.05, 0.05, 0.1, 0.1}, nil},
		{"learned, for many vCPUs", []workload.Near{{Nodes: topology.Nodes(0), Weight: 1, Learned: true}}, 6, []float64{0, 0.05, 0.05, 0.05}, nil},
		{"a device that is not there", []workload.Near{{Device: "eth9"}}, 1, nil, []string{"eth9"}},
		{"a device of which nobody knows the node", []workload.Near{{Device: "eth1"}}, 1, nil, nil},
		{"batch work is nowhere", []workload.Near{{Workload: "off"}, {Device: "eth0"}}, 1, []float64{0, 0.1, 1, 1}, []string{"off"}},
		{"learned, and not there any more", []workload.Near{{Device: "eth9", Learned: true}}, 1, nil, nil},
		{"a weight below nothing", []workload.Near{{Device: "eth0", Weight: -1}}, 1, nil, nil},
		{"no number", []workload.Near{{Device: "eth0", Weight: math.NaN()}}, 1, nil, nil},
	} {
		got, absent := NewLedger(st).pull(tt.near, firstCeiling(tt.vcpus))
		var lost []string
		for _, x := range absent {
			lost = append(lost, x.Device+string(x.Workload))
		}
		if len(got) != len(tt.want) || !slices.Equal(lost, tt.lost) {
			t.Errorf("%s: %v, lost %v", tt.name, got, lost)
			continue
		}
		for i := range got {
			if !about(got[i], tt.want[i]) {
				t.Errorf("%s: %v, want %v", tt.name, got, tt.want)
				break
			}
		}
	}
}

// TestLies: where a workload is, by the best that tells.
func TestLies(t *testing.T) {
	l := NewLedger(onHost(twoNodes))
	for _, tt := range []struct {
		name string
		req  Request
		want []float64
	}{
		{"it does not run", Request{}, nil},
		{"by its memory", Request{Memory: on(gib, 3*gib), RanOn: []workload.NodeShare{{Node: 0, Share: 1}}}, []float64{0.25, 0.75}},
		{"by its CPU time", Request{RanOn: []workload.NodeShare{{Node: 0, Share: 0.2}, {Node: 1, Share: 0.8}}, CPUs: topology.CPUs(0)}, []float64{0.2, 0.8}},
		{"memory of nothing", Request{Memory: []workload.NodeMemory{{Node: 1}}, RanOn: []workload.NodeShare{{Node: 0, Share: 1}}}, []float64{1, 0}},
		{"by its CPUs", Request{CPUs: topology.CPUs(0, 1, 8, 4)}, []float64{0.75, 0.25}},
		{"a part on a node that left", Request{Memory: []workload.NodeMemory{{Node: 0, KiB: 1}, {Node: 9, KiB: 7}}}, []float64{1, 0}},
		{"on a node that left", Request{Memory: []workload.NodeMemory{{Node: 9, KiB: 7}}}, nil},
	} {
		got := residence(l, &tt.req)
		if len(got) != len(tt.want) || len(got) > 0 && (!about(got[0], tt.want[0]) || !about(got[1], tt.want[1])) {
			t.Errorf("%s: %v, want %v", tt.name, got, tt.want)
		}
	}
}

func TestLargest(t *testing.T) {
	for k, want := range map[int]float64{0: 0, 1: 7, 2: 12, 3: 15, 4: 15, -1: 0} {
		if got := largest([]float64{5, 3, 7}, k); got != want {
			t.Errorf("the %d largest are %v, want %v", k, got, want)
		}
	}
}

// TestRemotes: the order is by what is lost, vCPUs times what an access costs too much.
func TestRemotes(t *testing.T) {
	st := onHost(twoSockets)
	apart := func(id workload.ID, nodes topology.NodeSet, mem []workload.NodeMemory, pins ...topology.CPUID) Runner {
		st.Placements = append(st.Placements, plan.Placement{Workload: id, Class: workload.Dedicated, Importance: 50, VCPUs: len(pins), Home: nodes,
			CPUs: topology.CPUs(pins...), Pins: pins, Memory: mem, Asked: workload.Total(mem), Bound: true})
		return Runner{Spec: vm(string(id), len(pins), workload.Total(mem))}
	}
	running := []Runner{
		apart("four, near", topology.Nodes(0, 1), on(gib, gib), 0, 1, 4, 5), // 4 × 0.1
		apart("here", topology.Nodes(0), on(gib), 2, 18),
		apart("same", topology.Nodes(0, 2), on(gib, 0, gib), 3, 8),  // 2 × 1.1
		apart("some", topology.Nodes(0, 2), on(gib, 0, gib), 19, 9), // 2 × 1.1
		apart("three", topology.Nodes(1, 2), on(0, gib, gib), 6, 10, 11),
	}
	running[1].Stay = "pinned"
	running[2].Stay = "pinned"
	running = append(running, running[2], Runner{Spec: vm("unknown", 1, gib)})
	got := remotes(NewLedger(st), running)
	want := []struct {
		id     workload.ID
		access float64
		stay   string
	}{{"three", 2.1, ""}, {"same", 2.1, "pinned"}, {"some", 2.1, ""}, {"four, near", 1.1, ""}}
	if len(got) != len(want) {
		t.Fatalf("%+v", got)
	}
	for i, x := range got {
		if x.Workload != want[i].id || !about(x.Access, want[i].access) || x.Least != 1 || x.Stay != want[i].stay {
			t.Errorf("%d: %+v, want %+v", i, x, want[i])
		}
	}
}
