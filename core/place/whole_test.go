package place

import (
	"fmt"
	"testing"

	"pgregory.net/rapid"

	"github.com/homenode/homenode/core/plan"
	"github.com/homenode/homenode/core/plan/plantest"
	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/core/words"
	"github.com/homenode/homenode/core/words/wordstest"
	"github.com/homenode/homenode/core/workload"
)

// booked is a ledger of eight nodes of 12 cores and 24 CPUs, with so many shared vCPUs booked on each.
func booked(t testing.TB, vcpus int) *Ledger {
	t.Helper()
	h, err := topology.FromSynthetic("package:2 node:4(memory=64GiB) core:12 pu:2")
	if err != nil {
		t.Fatal(err)
	}
	st := plan.State{Host: h, Policy: plan.DefaultPolicy()}
	for i := range h.Nodes {
		p := floating(workload.ID(fmt.Sprint("s", i)), topology.NodeID(i), vcpus)
		p.Memory, p.Asked = []workload.NodeMemory{{Node: topology.NodeID(i), KiB: 20 * gib}}, 20*gib
		st.Placements = append(st.Placements, p)
	}
	return NewLedger(st)
}

// TestSmallWorkStaysWhole: 3 vCPUs and 4 GiB went to nodes 0-2 where 11 or 23 shared vCPUs were
// booked on each node, to two with 10 or 22, and to one with 9, 12 or 24: the SMT siblings that
// they might come to share outweighed remote accesses.
func TestSmallWorkStaysWhole(t *testing.T) {
	for vcpus := range 80 {
		r := booked(t, vcpus).Place(Request{Spec: service("web", 3, 4*gib), Crowd: true})
		if home := r.Placement.Home; home.Len() != 1 {
			t.Errorf("%d vCPUs booked on each node: on %v: %v", vcpus, home, r.Decision.Reasons)
		}
	}
}

// using is shared work with known CPUs and a known use of them.
func using(id string, use float64, vcpus int, ran ...workload.NodeShare) *Subject {
	o := workload.Observation{ID: workload.ID(id), Threads: 16, CPUUse: use, RanOn: ran}
	return &Subject{Spec: service(id, vcpus, gib), Observation: o}
}

// TestMeasuredBookings: what was seen to run counts by its use, and keeps the room that it booked.
func TestMeasuredBookings(t *testing.T) {
	st := onHost(twoNodes)
	st.Placements = []plan.Placement{floating("busy", 1, 6), floating("idle", 0, 12)}
	idle, busy := using("idle", 0, 12), using("busy", 6, 6, workload.NodeShare{Node: 1, Share: 1})
	place := func(measured ...*Subject) Result {
		l := NewLedger(st)
		l.Measure(measured)
		if room := l.sharedRoom(&l.nodes[0]); room != 12 {
			t.Errorf("room for %v vCPUs, want 12", room)
		}
		return l.Place(Request{Spec: service("a", 4, gib)})
	}
	if r := place(); r.Placement.Home.String() != "1" {
		t.Errorf("before anything was seen: on %v: %v", r.Placement.Home, r.Decision.Reasons)
	}
	if r := place(idle, busy); r.Placement.Home.String() != "1" {
		t.Errorf("what was not seen to run: on %v: %v", r.Placement.Home, r.Decision.Reasons)
	}
	idle.Observation.RanOn = []workload.NodeShare{{Node: 0, Share: 1}}
	r := place(idle, busy)
	if r.Placement.Home.String() != "0" || !wordstest.Has(r.Decision.Reasons, words.Reason{Code: words.BestNode}) {
		t.Errorf("measured: on %v: %v", r.Placement.Home, r.Decision.Reasons)
	}

	// What is measured comes and goes with its placement, in parts on several nodes too.
	wide := floating("wide", 0, 5)
	wide.Home, wide.Importance = topology.Nodes(0, 1), 90
	st.Placements = append(st.Placements, wide)
	l := NewLedger(st)
	before := [2]node{l.nodes[0], l.nodes[1]}
	w := using("wide", 0.7, 5, workload.NodeShare{Node: 0, Share: 0.5}, workload.NodeShare{Node: 1, Share: 0.5})
	l.Measure([]*Subject{idle, busy, w})
	if got, want := l.nodes[0].load(), 0.35*1.4; !about(got, want) {
		t.Errorf("load of node 0: %v, want %v", got, want)
	}
	for _, p := range st.Placements {
		l.Remove(p.Workload)
	}
	for i := range l.nodes {
		if n := &l.nodes[i]; n.unused != 0 || n.load() != 0 {
			t.Errorf("all have gone, and %v CPUs are wanted on node %d (%d millionths not used)", n.load(), i, n.unused)
		}
	}
	for _, p := range st.Placements {
		l.Commit(p)
	}
	for i := range before {
		if l.nodes[i].load() != before[i].load() {
			t.Errorf("node %d: %v CPUs are wanted, want %v as booked", i, l.nodes[i].load(), before[i].load())
		}
	}
}

const nearNodes = `
	0  0-7   16G 10 11
	1  8-15  16G 11 10
`

// TestWhySplit: the reason for a split, with figures.
func TestWhySplit(t *testing.T) {
	for _, tt := range []struct {
		name   string
		before []workload.Spec
		want   workload.Spec
		why    words.Reason
	}{
		{"more vCPUs than a node has CPUs", nil, service("a", 12, gib), words.Because(words.SplitWider, "0-1", 12, 8)},
		{"more memory than a node has free", []workload.Spec{service("x", 1, 9*gib), service("y", 1, 8*gib)}, service("a", 2, 10*gib), words.Because(words.SplitMemory, "0-1", 10*gib, 1, 8*gib)},
		{"more memory than a node has", nil, service("a", 2, 20*gib), words.Because(words.SplitTooLarge, amounts(words.Because(words.SharedVCPUs, 2), memory(20*gib)))},
	} {
		l := NewLedger(onHost(nearNodes))
		for _, s := range tt.before {
			l.Commit(l.Place(Request{Spec: s}).Placement)
		}
		r := l.Place(Request{Spec: tt.want})
		if r.Placement.Home.String() != "0-1" || !r.Decision.Reasons[0].Equal(tt.why) {
			t.Errorf("%s: on %v: %v, want %v", tt.name, r.Placement.Home, r.Decision.Reasons, tt.why)
		}
	}
}

// TestWhatFitsANodeIsNotSplit: on any host, whatever is there, shared work for which some node has
// the memory free and the CPUs is on one node, unless it was measured to wait or asked for more.
func TestWhatFitsANodeIsNotSplit(t *testing.T) {
	fitting, wider, waiting := 0, 0, 0
	rapid.Check(t, func(t *rapid.T) {
		st := plantest.State(6).Draw(t, "state")
		st.Policy.Overcommit = rapid.SampledFrom([]float64{0, 1, 3}).Draw(t, "overcommit")
		l := NewLedger(st)
		for i := range rapid.IntRange(0, 10).Draw(t, "held") {
			s := plantest.Spec(workload.ID(fmt.Sprint("w", i))).Draw(t, "spec")
			if r := l.Place(Request{Spec: s, Must: true, Crowd: rapid.Bool().Draw(t, "crowd")}); r.Placed() {
				l.Commit(r.Placement)
			}
		}
		s := plantest.Spec("a").Draw(t, "spec")
		s.Class = workload.Shared
		req := Request{Spec: s, Must: rapid.Bool().Draw(t, "must"), Crowd: rapid.Bool().Draw(t, "crowd")}
		waits := rapid.IntRange(0, 3).Draw(t, "waits") == 0
		if waits {
			n := rapid.SampledFrom(st.Host.Nodes).Draw(t, "runs on")
			req.CPUs, req.RanOn, req.Waited = n.CPUs, []workload.NodeShare{{Node: n.ID, Share: 1}}, 0.5
		}
		fits := false
		for i, n := range st.Host.Nodes {
			may := s.Nodes.Empty() || s.Nodes.Has(n.ID)
			left, pages := l.Left()[i], topology.KiB(0)
			for _, p := range left.HugePages {
				if p.Size == s.HugePage {
					pages = p.Free
				}
			}
			memory := left.Memory == topology.None || left.Memory >= max(0, s.Memory)
			if s.HugePage > 0 {
				memory = pages >= plan.RoundUp(max(0, s.Memory), s.HugePage)
			}
			fits = fits || may && memory && l.Rooms()[i].CPUs >= max(1, s.CPUs)
		}
		r := l.Place(req)
		split := r.Placed() && r.Placement.Home.Len() > 1
		switch {
		case fits && s.MinNodes <= 1 && !waits:
			fitting++
			if split {
				t.Fatalf("%+v is split over %v: %v", s, r.Placement.Home, r.Decision.Reasons)
			}
		case split && fits:
			waiting++
		case split:
			wider++
		}
	})
	if fitting < 500 || wider < 20 {
		t.Errorf("%d fit a node, %d are wider, %d wait: the test tests nothing", fitting, wider, waiting)
	}
	t.Logf("%d fit a node, %d are wider, %d wait", fitting, wider, waiting)
}
