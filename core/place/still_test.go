package place

import (
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/homenode/homenode/core/plan"
	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/core/workload"
)

// TestHomeStillHolds: what a home that exists must still satisfy, each rule alone. "a" has
// CPUs 0, 1, 8 and 9 of node 0 and 4 GiB there; nodes have 8 CPUs and 16 GiB.
func TestHomeStillHolds(t *testing.T) {
	for _, tt := range []struct {
		name string
		edit func(st *plan.State, p *plan.Placement, r *Request)
		bad  bool
		want []workload.NodeMemory // booked, where it holds and is not as before
	}{
		{"as it is", func(*plan.State, *plan.Placement, *Request) {}, false, nil},
		{"another class", func(_ *plan.State, _ *plan.Placement, r *Request) { r.Spec.Class = workload.Shared }, true, nil},
		{"a node that is gone", func(_ *plan.State, p *plan.Placement, _ *Request) { p.Home = topology.Nodes(0, 7) }, true, nil},
		{"a node it may not use", func(_ *plan.State, _ *plan.Placement, r *Request) { r.Spec.Nodes = topology.Nodes(1) }, true, nil},
		{"no node", func(_ *plan.State, p *plan.Placement, _ *Request) { p.Home = topology.NodeSet{} }, true, nil},
		{"one node at most", func(_ *plan.State, _ *plan.Placement, r *Request) { r.Spec.MaxNodes = 1 }, false, nil},
		{"two nodes, one at most", func(_ *plan.State, p *plan.Placement, r *Request) {
			p.Home, r.Spec.MaxNodes = topology.Nodes(0, 1), 1
		}, true, nil},
		{"two nodes, two at most", func(_ *plan.State, p *plan.Placement, r *Request) {
			p.Home, r.Spec.MaxNodes = topology.Nodes(0, 1), 2
		}, false, nil},
		{"more vCPUs", func(_ *plan.State, _ *plan.Placement, r *Request) { r.Spec.CPUs = 5 }, true, nil},
		{"fewer vCPUs", func(_ *plan.State, _ *plan.Placement, r *Request) { r.Spec.CPUs = 3 }, true, nil},
		{"a CPU offline", func(st *plan.State, _ *plan.Placement, _ *Request) {
			st.Host.Online.Remove(8)
			st.Host.Offline.Add(8)
			for i := range st.Host.Cores {
				st.Host.Cores[i].CPUs.Remove(8)
			}
			st.Host.Nodes[0].CPUs.Remove(8)
		}, true, nil},
		{"a CPU reserved", func(st *plan.State, _ *plan.Placement, _ *Request) { st.Policy.Reserved = topology.CPUs(9) }, true, nil},
		{"a CPU that is not there", func(_ *plan.State, p *plan.Placement, _ *Request) { p.CPUs.Add(900) }, true, nil},
		{"a CPU of another node", func(_ *plan.State, p *plan.Placement, _ *Request) { p.Idle = topology.CPUs(4) }, true, nil},
		{"a CPU for shared work", func(st *plan.State, _ *plan.Placement, _ *Request) {
			st.Policy.Split, st.Policy.Dedicated = true, topology.CPUs(0, 1, 8)
		}, true, nil},
		{"CPUs for dedicated work", func(st *plan.State, _ *plan.Placement, _ *Request) {
			st.Policy.Split, st.Policy.Dedicated = true, topology.CPUs(0, 1, 8, 9)
		}, false, nil},
		{"a CPU of another's", func(st *plan.State, _ *plan.Placement, _ *Request) {
			st.Placements = append(st.Placements, dedicatedOn("x", 0, 0, 9))
		}, true, nil},
		{"others beside it", func(st *plan.State, _ *plan.Placement, _ *Request) {
			st.Placements = append(st.Placements, dedicatedOn("x", 0, 0, 2))
		}, false, nil},
		{"more memory, and there is room", func(_ *plan.State, _ *plan.Placement, r *Request) { r.Spec.Memory = 16 * gib }, false, on(16 * gib)},
		{"more memory than there is, and it holds that", func(_ *plan.State, _ *plan.Placement, r *Request) {
			r.Spec.Memory, r.Memory = 17*gib, on(17*gib)
		}, true, nil},
		{"more memory than there is, and it holds none", func(_ *plan.State, _ *plan.Placement, r *Request) { r.Spec.Memory = 17 * gib }, false, []workload.NodeMemory{}},
		{"more memory than there is, but it is resident", func(_ *plan.State, _ *plan.Placement, r *Request) {
			r.Spec.Memory, r.Memory = 17*gib, on(5*gib)
		}, false, on(5 * gib)},
		{"more is resident than it wants", func(st *plan.State, _ *plan.Placement, r *Request) {
			r.Memory = on(5 * gib)
			st.Placements = append(st.Placements, dedicatedOn("x", 0, 13*gib, 2))
		}, true, nil},
		{"less memory", func(_ *plan.State, _ *plan.Placement, r *Request) { r.Spec.Memory = gib }, false, on(gib)},
		{"its booking does not fit any more", func(st *plan.State, _ *plan.Placement, r *Request) {
			r.Memory = on(4 * gib)
			st.Placements = append(st.Placements, dedicatedOn("x", 0, 13*gib, 2))
		}, true, nil},
		{"its booking just fits", func(st *plan.State, _ *plan.Placement, _ *Request) {
			st.Placements = append(st.Placements, dedicatedOn("x", 0, 12*gib, 2))
		}, false, nil},
		{"memory on two nodes, where it lies", func(_ *plan.State, p *plan.Placement, r *Request) {
			p.Home, r.Spec.Memory, r.Memory = topology.Nodes(0, 1), 8*gib, on(gib, 3*gib)
		}, false, on(2*gib, 6*gib)},
		{"as much memory, a part of it elsewhere", func(st *plan.State, p *plan.Placement, r *Request) {
			p.Home, p.Memory, p.Asked = topology.Nodes(0, 1), on(12*gib), 12*gib
			r.Spec.Memory = 12 * gib
			st.Placements = append(st.Placements, dedicatedOn("x", 0, 8*gib, 2))
		}, false, on(8*gib, 4*gib)},
		{"huge pages on two nodes, whole ones where they lie", func(st *plan.State, p *plan.Placement, r *Request) {
			for i := range st.Host.Nodes {
				st.Host.Nodes[i].HugePages = []topology.HugePool{{Size: 2 << 10, Total: 1024, Free: 1024}}
			}
			p.Home, p.Memory, p.Asked = topology.Nodes(0, 1), nil, 0
			r.Spec.HugePage, r.Spec.Memory, r.Memory = 2<<10, 6<<10, on(3<<10, 3<<10)
		}, false, on(4<<10, 2<<10)},
		{"memory on two nodes, the rest where it was booked", func(st *plan.State, p *plan.Placement, r *Request) {
			p.Home, p.Memory, p.Asked = topology.Nodes(0, 1), on(gib, 3*gib), 4*gib
			r.Spec.Memory = 3 * gib
		}, false, on(gib, 2*gib)},
		{"memory on two nodes, the rest where most is free", func(st *plan.State, p *plan.Placement, r *Request) {
			p.Home, p.Memory, p.Asked = topology.Nodes(0, 1), nil, 0
			r.Spec.Memory = 3 * gib
			st.Placements = append(st.Placements, dedicatedOn("x", 0, gib, 2))
		}, false, on(0, 3*gib)},
	} {
		st := onHost(twoNodes)
		p := dedicatedOn("a", 0, 4*gib, 0, 8, 1, 9)
		req := Request{Spec: vm("a", 4, 4*gib)}
		tt.edit(&st, &p, &req)
		got, why := NewLedger(st).Renew(&p, &req)
		if why.None() == tt.bad {
			t.Errorf("%s: %v", tt.name, why)
			continue
		}
		if tt.want == nil {
			tt.want = p.Memory
		}
		if diff := gocmp.Diff(tt.want, got.Memory, cmpopts.EquateEmpty()); why.None() && diff != "" {
			t.Errorf("%s: booked (-want +got):\n%s", tt.name, diff)
		}
		if why.None() && got.Asked > max(0, req.Spec.Memory) {
			t.Errorf("%s: asked for %d", tt.name, got.Asked)
		}
	}
}

// What floats keeps its home as long as each of its nodes has the CPUs for its vCPUs,
// overcommitted as the policy says, whatever others have booked there.
func TestFloatingHomeStillHolds(t *testing.T) {
	for _, tt := range []struct {
		vcpus, others int
		overcommit    float64
		taken         []topology.CPUID
		home          topology.NodeSet
		holds         bool
	}{
		{2, 6, 1, nil, topology.Nodes(0), true}, {8, 6, 1, nil, topology.Nodes(0), true}, {9, 6, 1, nil, topology.Nodes(0), false}, {16, 6, 2, nil, topology.Nodes(0), true}, {17, 6, 2, nil, topology.Nodes(0), false},
		{16, 6, 1, nil, topology.Nodes(0, 1), true}, {17, 6, 1, nil, topology.Nodes(0, 1), false}, {1, 0, 1, []topology.CPUID{0, 1, 2, 3, 8, 9, 10, 11}, topology.Nodes(0), false},
		{1, 0, 1, []topology.CPUID{0, 1, 2, 3, 8, 9, 10}, topology.Nodes(0), true},
	} {
		st := onHost(twoNodes)
		st.Policy.Overcommit = tt.overcommit
		if tt.others > 0 {
			st.Placements = append(st.Placements, floating("x", 0, tt.others))
		}
		if tt.taken != nil {
			st.Placements = append(st.Placements, dedicatedOn("y", 0, 0, tt.taken...))
		}
		p := floating("a", 0, tt.vcpus)
		p.Home = tt.home
		if _, why := NewLedger(st).Renew(&p, &Request{Spec: service("a", tt.vcpus, 0)}); why.None() != tt.holds {
			t.Errorf("%d vCPUs on nodes %v beside %d and CPUs %v: %v", tt.vcpus, tt.home, tt.others, tt.taken, why)
		}
	}
}

// Memory that was booked on a node with too much of it lies elsewhere on its home, as far as
// that has others.
func TestBookingsAreSpread(t *testing.T) {
	st := onHost(twoNodes)
	wide := floating("wide", 0, 2)
	wide.Home, wide.Memory, wide.Asked = topology.Nodes(0, 1), on(12*gib), 12*gib
	st.Placements = []plan.Placement{dedicatedOn("one", 0, 8*gib, 0), wide}
	l := NewLedger(st)
	if a, b := l.nodes[0].memoryFree, l.nodes[1].memoryFree; a != 0 || b != 12*gib {
		t.Errorf("%d and %d KiB are free", a, b)
	}
	l.Remove("wide")
	if a, b := l.nodes[0].memoryFree, l.nodes[1].memoryFree; a != 8*gib || b != 16*gib {
		t.Errorf("without it %d and %d KiB are free", a, b)
	}
}

// TestFurtherNodesCost: of sets that are equally near the smaller is taken; the price is
// half a hundredth of a vCPU for each vCPU and further node.
func TestFurtherNodesCost(t *testing.T) {
	l := NewLedger(onHost(twoNodes))
	w := newWant(l, &Request{Spec: vm("a", 10, 4*gib)})
	s := newSearch(l, &w)
	s.run()
	if len(s.top) == 0 {
		t.Fatal("nothing was found")
	}
	c := s.top[0]
	if got, want := c.terms[distance], 10*(c.access-1)+nodePenalty*10; len(c.shares) != 2 || !about(got, want) {
		t.Errorf("%d nodes, distance %v, want %v", len(c.shares), got, want)
	}
	if !about(c.score, c.terms.sum()) {
		t.Errorf("score %v of terms %v", c.score, c.terms)
	}
}
