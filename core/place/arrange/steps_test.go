package arrange

import (
	"testing"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/homenode/homenode/core/place"
	"github.com/homenode/homenode/core/plan"
	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/core/workload"
)

// mem is memory of nodes 0, 1, 2, …; a negative one is left out.
func mem(kib ...topology.KiB) []workload.NodeMemory {
	var out []workload.NodeMemory
	for n, k := range kib {
		if k >= 0 {
			out = append(out, workload.NodeMemory{Node: topology.NodeID(n), KiB: k})
		}
	}
	return out
}

// TestShares: what each home node should hold in the end, the one that gets most first.
func TestShares(t *testing.T) {
	at := func(node topology.NodeID, kib topology.KiB) workload.NodeMemory {
		return workload.NodeMemory{Node: node, KiB: kib}
	}
	for _, tt := range []struct {
		name        string
		now, booked []workload.NodeMemory
		home        topology.NodeSet
		want        []workload.NodeMemory
	}{
		{"one node gets all", mem(10, 30), mem(40), topology.Nodes(0), []workload.NodeMemory{at(0, 40)}},
		{"what lies on the home stays there", mem(10, 5, 20), mem(25, 10), topology.Nodes(0, 1), []workload.NodeMemory{at(0, 25), at(1, 10)}},
		{"each gets what it is short of", mem(10, 10, 15), mem(15, 20), topology.Nodes(0, 1), []workload.NodeMemory{at(1, 20), at(0, 15)}},
		{"less than they are short of: in proportion", mem(0, 0, 12), mem(10, 30), topology.Nodes(0, 1), []workload.NodeMemory{at(1, 9), at(0, 3)}},
		{"more than they are short of: to the largest booking", mem(0, 0, 50), mem(10, 30), topology.Nodes(0, 1), []workload.NodeMemory{at(1, 40), at(0, 10)}},
		{"nothing is booked: to the first", mem(0, 0, 50), nil, topology.Nodes(0, 1), []workload.NodeMemory{at(0, 50), at(1, 0)}},
		{"more there than is booked", mem(40, 0, 10), mem(20, 20), topology.Nodes(0, 1), []workload.NodeMemory{at(1, 10), at(0, 40)}},
		{"a remainder of rounding", mem(0, 0, 10), mem(10, 10, 0), topology.Nodes(0, 1), []workload.NodeMemory{at(0, 5), at(1, 5)}},
		{"a remainder of one", mem(0, 0, 11), mem(10, 10, 0), topology.Nodes(0, 1), []workload.NodeMemory{at(0, 6), at(1, 5)}},
	} {
		if diff := gocmp.Diff(tt.want, shares(tt.now, tt.booked, tt.home)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tt.name, diff)
		}
	}
}

func TestMovableAndFixed(t *testing.T) {
	o := &workload.Observation{Memory: mem(10, 20, 30)}
	if diff := gocmp.Diff(o.Memory, o.MovableMemory()); diff != "" || fixed(o) != nil {
		t.Errorf("nobody told: movable %v, fixed %v", o.MovableMemory(), fixed(o))
	}
	o.Movable = mem(10, 5)
	if diff := gocmp.Diff(mem(-1, 15, 30), fixed(o)); diff != "" {
		t.Errorf("fixed (-want +got):\n%s", diff)
	}
	o.Movable = []workload.NodeMemory{}
	if diff := gocmp.Diff(o.Memory, fixed(o)); diff != "" || len(o.MovableMemory()) != 0 {
		t.Errorf("nothing is movable: movable %v, fixed %v", o.MovableMemory(), fixed(o))
	}
}

// TestStepsOfOne: which steps lead one workload home, with every figure. It is on node 0
// of two, and its home is node 1.
func TestStepsOfOne(t *testing.T) {
	type want struct {
		kind     plan.StepKind
		from, to string
		bytes    int64
	}
	const move = int64(gib) << 10
	for _, tt := range []struct {
		name string
		edit func(o *workload.Observation, p *plan.Placement)
		want []want
		gain plan.Gain
	}{
		{"shared", func(*workload.Observation, *plan.Placement) {},
			[]want{{plan.SetCPUs, "0-3,8-11", "4-7,12-15", 0}, {plan.MovePages, "", "1", move}}, plan.Gain{LocalityBefore: 1, LocalityAfter: 1}},
		{"at home", func(o *workload.Observation, p *plan.Placement) {
			p.Home, p.CPUs, p.Memory = topology.Nodes(0), o.CPUs, on(gib)
		}, nil, plan.Gain{}},
		{"only its memory is elsewhere", func(o *workload.Observation, p *plan.Placement) {
			o.CPUs, o.RanOn = p.CPUs, []workload.NodeShare{{Node: 1, Share: 1}}
		}, []want{{plan.MovePages, "", "1", move}}, plan.Gain{LocalityBefore: 0, LocalityAfter: 1}},
		{"nobody saw where it ran", func(o *workload.Observation, p *plan.Placement) { o.RanOn, o.CPUs = nil, topology.CPUs(0, 4, 5, 6) },
			[]want{{plan.SetCPUs, "0,4-6", "4-7,12-15", 0}, {plan.MovePages, "", "1", move}}, plan.Gain{LocalityBefore: 0.25, LocalityAfter: 1}},
		{"page cache stays", func(o *workload.Observation, p *plan.Placement) { o.Movable = on(gib / 4) },
			[]want{{plan.SetCPUs, "0-3,8-11", "4-7,12-15", 0}, {plan.MovePages, "", "1", move / 4}}, plan.Gain{LocalityBefore: 1, LocalityAfter: 0.25}},
		{"128 KiB may lie off home", func(o *workload.Observation, p *plan.Placement) { o.CPUs, o.Memory = p.CPUs, mem(128, 1000) }, nil, plan.Gain{}},
		{"a little more may not", func(o *workload.Observation, p *plan.Placement) { o.CPUs, o.Memory = p.CPUs, mem(129, 871) },
			[]want{{plan.MovePages, "", "1", 129 << 10}}, plan.Gain{LocalityBefore: 0.129, LocalityAfter: 1}},
		{"of much memory half a per cent may", func(o *workload.Observation, p *plan.Placement) { o.CPUs, o.Memory = p.CPUs, mem(1000, 199_000) }, nil, plan.Gain{}},
		{"of much memory more may not", func(o *workload.Observation, p *plan.Placement) { o.CPUs, o.Memory = p.CPUs, mem(1001, 198_999) },
			[]want{{plan.MovePages, "", "1", 1001 << 10}}, plan.Gain{LocalityBefore: 1001.0 / 200_000, LocalityAfter: 1}},
		{"batch", func(_ *workload.Observation, p *plan.Placement) { p.Class = workload.Batch },
			[]want{{plan.SetCPUs, "0-3,8-11", "4-7,12-15", 0}}, plan.Gain{LocalityBefore: 1, LocalityAfter: 0}},
		{"dedicated", func(_ *workload.Observation, p *plan.Placement) { p.Class, p.Bound = workload.Dedicated, true },
			[]want{{plan.SetCPUs, "0-3,8-11", "4-7,12-15", 0}, {plan.MovePages, "", "1", move}, {plan.SetMems, "0-1", "1", 0}}, plan.Gain{LocalityBefore: 1, LocalityAfter: 1}},
		{"dedicated, confined elsewhere", func(o *workload.Observation, p *plan.Placement) {
			p.Class, p.Bound, o.Mems = workload.Dedicated, true, topology.Nodes(0)
		}, []want{{plan.SetCPUs, "0-3,8-11", "4-7,12-15", 0}, {plan.SetMems, "0", "0-1", 0}, {plan.MovePages, "", "1", move}, {plan.SetMems, "0-1", "1", 0}}, plan.Gain{LocalityBefore: 1, LocalityAfter: 1}},
		{"dedicated, bound already", func(o *workload.Observation, p *plan.Placement) {
			p.Class, p.Bound, o.Mems, o.CPUs = workload.Dedicated, true, topology.Nodes(1), p.CPUs
			o.Memory = mem(0, gib)
		}, nil, plan.Gain{}},
		{"dedicated, not bound", func(_ *workload.Observation, p *plan.Placement) { p.Class = workload.Dedicated },
			[]want{{plan.SetCPUs, "0-3,8-11", "4-7,12-15", 0}, {plan.MovePages, "", "1", move}}, plan.Gain{LocalityBefore: 1, LocalityAfter: 1}},
		{"dedicated, with a policy of its own", func(o *workload.Observation, p *plan.Placement) {
			p.Class, p.Bound, o.OwnPolicy = workload.Dedicated, true, "bind:0"
		}, []want{{plan.SetCPUs, "0-3,8-11", "4-7,12-15", 0}, {plan.MovePages, "", "1", move}}, plan.Gain{LocalityBefore: 1, LocalityAfter: 1}},
		{"a dedicated process", func(o *workload.Observation, p *plan.Placement) {
			p.Class, p.Bound, o.Kind = workload.Dedicated, true, workload.InProcess
		}, []want{{plan.SetCPUs, "0-3,8-11", "4-7,12-15", 0}, {plan.MovePages, "", "1", move}}, plan.Gain{LocalityBefore: 1, LocalityAfter: 1}},
	} {
		st := onHost(twoNodes)
		a := &arrangement{host: st.Host, opt: Options{MoveBandwidth: 256 << 20}}
		s := &subject{Subject: &place.Subject{Observation: workload.Observation{ID: "a", Kind: workload.InCgroup, Cgroup: "/a", CPUs: topology.CPUs(0, 1, 2, 3, 8, 9, 10, 11),
			Mems: topology.Nodes(0, 1), Memory: on(gib), RanOn: []workload.NodeShare{{Node: 0, Share: 1}}}}}
		p := plan.Placement{Workload: "a", Class: workload.Shared, Home: topology.Nodes(1), CPUs: topology.CPUs(4, 5, 6, 7, 12, 13, 14, 15), Memory: on(0, gib)}
		tt.edit(&s.Observation, &p)
		steps := a.steps(s, &p)
		var got []want
		for i := range steps {
			x := &steps[i]
			got = append(got, want{x.Kind, x.From, x.To, x.Bytes})
			if (x.Bytes != 0) != (x.Cost.Seconds != 0) || !about(x.Cost.Seconds, float64(x.Bytes)/(256<<20)) || x.Cost.Bytes != x.Bytes {
				t.Errorf("%s: cost %+v of %d bytes", tt.name, x.Cost, x.Bytes)
			}
			if x.Workload != "a" || x.Target.Cgroup != "/a" || x.Target.Kind != s.Observation.Kind || x.Reason.None() {
				t.Errorf("%s: %+v", tt.name, x)
			}
			if !about(x.Gain.LocalityBefore, tt.gain.LocalityBefore) || !about(x.Gain.LocalityAfter, tt.gain.LocalityAfter) {
				t.Errorf("%s: gain %+v, want %+v", tt.name, x.Gain, tt.gain)
			}
		}
		if diff := gocmp.Diff(tt.want, got, gocmp.AllowUnexported(want{})); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tt.name, diff)
		}
	}
}
