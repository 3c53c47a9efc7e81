package arrange

import (
	"testing"

	"github.com/homenode/homenode/core/place"
	"github.com/homenode/homenode/core/plan"
	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/core/words"
	"github.com/homenode/homenode/core/words/wordstest"
	"github.com/homenode/homenode/core/workload"
)

// TestBookedWishesDoNotSplit: no node has room for two more vCPUs by what is booked, and both nodes
// together have. Where it comes to live it stays.
func TestBookedWishesDoNotSplit(t *testing.T) {
	st := onHost(twoNodes)
	st.Policy.Overcommit = 1
	st.Placements = []plan.Placement{floating("x", 0, 7), floating("y", 1, 7)}
	l := place.NewLedger(st)
	r := l.Place(place.Request{Spec: service("a", 2, gib)})
	if r.Placement.Home.Len() != 1 || !wordstest.Has(r.Decision.Reasons, words.Reason{Code: words.HomeCrowded}) {
		t.Fatalf("on %v: %v", r.Placement.Home, r.Decision.Reasons)
	}
	st.Placements = append([]plan.Placement{r.Placement}, st.Placements...)
	var subjects []*place.Subject
	for _, p := range st.Placements {
		subjects = append(subjects, given(seen(string(p.Workload), 1, p.CPUs.String(), "0-1", gib), wantClass(workload.Shared, p.VCPUs)))
	}
	for _, d := range Arrange(st, subjects, options).Report.Decisions {
		if d.Outcome != plan.Kept {
			t.Errorf("%s is %s: %v", d.Workload, d.Outcome, d.Reasons)
		}
	}
	l.Commit(r.Placement)
	l.Commit(floating("b", 1-r.Placement.Home.Min(), 1))
	if r := l.Place(place.Request{Spec: service("c", 1, gib)}); r.Placed() {
		t.Errorf("more than the host carries by its ratio is admitted to %v: %v", r.Placement.Home, r.Decision.Reasons)
	}
}

const nearNodes = `
	0  0-7   16G 10 11
	1  8-15  16G 11 10
`

// TestWaitingSplits: work that waits for a CPU on its node is split when it would wait on every
// other node too, and the reason has the figures.
func TestWaitingSplits(t *testing.T) {
	for _, tt := range []struct {
		name   string
		others [2]float64 // CPUs in use on each node
		waited float64
		ran    []workload.NodeShare
		home   string
	}{
		{"it waits, and both nodes are short of CPUs", [2]float64{6, 6}, 0.12, []workload.NodeShare{{Node: 0, Share: 1}}, "0-1"},
		{"it does not wait", [2]float64{6, 6}, 0, []workload.NodeShare{{Node: 0, Share: 1}}, "0"},
		{"it waits too little", [2]float64{6, 6}, 0.09, []workload.NodeShare{{Node: 0, Share: 1}}, "0"},
		{"it waited on both nodes", [2]float64{6, 6}, 0.12, []workload.NodeShare{{Node: 0, Share: 0.5}, {Node: 1, Share: 0.5}}, "0"},
		{"the other node has room", [2]float64{6, 1}, 0.12, []workload.NodeShare{{Node: 0, Share: 1}}, "1"},
	} {
		st := onHost(nearNodes)
		st.Placements = []plan.Placement{floating("x", 0, 8), floating("y", 1, 8)}
		var subjects []*place.Subject
		for i, use := range tt.others {
			s := given(seen(string(st.Placements[i].Workload), use, "0-7", "0-1", gib), wantClass(workload.Shared, 8))
			s.Observation.CPUs, s.Observation.RanOn = st.Host.Nodes[i].CPUs, []workload.NodeShare{{Node: topology.NodeID(i), Share: 1}}
			s.Observation.Threads = int(use) // it can want no more
			subjects = append(subjects, s)
		}
		a := given(seen("a", 3, "0-7", "0-1", gib/8), wantClass(workload.Shared, 4))
		a.Observation.RanOn, a.Observation.Waited, a.Observation.WaitedFrom = tt.ran, tt.waited, workload.PSI
		subjects = append(subjects, a)
		p := Arrange(st, subjects, options)
		i := 0
		for ; p.Report.Decisions[i].Workload != "a"; i++ {
		}
		d := &p.Report.Decisions[i]
		if d.Home.String() != tt.home {
			t.Errorf("%s: on %v: %v", tt.name, d.Home, d.Reasons)
		}
		want := words.Because(words.SplitWaits, "0-1", 0.12, "0", 4)
		if tt.home == "0-1" && !d.Reasons[0].Equal(want) {
			t.Errorf("%s: %v, want %v", tt.name, d.Reasons[0], want)
		}
	}
}
