package balance

import (
	"fmt"
	"testing"

	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/core/words"
	"github.com/homenode/homenode/core/words/wordstest"
	"github.com/homenode/homenode/core/workload"
)

// TestWidens: work that wants more than its node has gets one node more only when it was measured
// to wait, and no other node has as many CPUs idle. The reason has the figures.
func TestWidens(t *testing.T) {
	for _, tt := range []struct {
		name   string
		waited float64
		want   string
		why    words.Reason // the second of the decision
	}{
		{"it waits, and both nodes are too small", 0.12, "widen a 0>0-1", words.Because(words.SplitWaits, "0-1", 0.12, "0", 10)},
		{"it does not wait", 0, "no choice", words.Reason{}},
	} {
		b := two(t)
		b.run("a", 0, 8, gib)
		b.run("b", 1, 1, gib)
		b.in.Subjects[0].Observation.Bandwidth = 2048
		waits(b.in.Subjects[0], tt.waited)
		r := b.until()
		if got := brief(r); got != tt.want {
			t.Errorf("%s: %s, want %s: %v", tt.name, got, tt.want, r.Verdict())
		}
		if tt.why.None() {
			continue
		}
		if d := b.out.Plan.Report.Decisions[0]; !wordstest.Has(d.Reasons, words.Reason{Code: words.SplitWaits}) || !d.Reasons[1].Equal(tt.why) {
			t.Errorf("%s: %v, want %v", tt.name, d.Reasons, tt.why)
		}
	}

	// A node with as many idle CPUs is better, and the widening says so.
	b := two(t)
	b.run("a", 0, 8, gib)
	b.run("b", 1, 1, gib)
	waits(b.in.Subjects[0], 0.12)
	d := b.decider()
	w := &d.m.workloads[0]
	d.m.rooms[1].CPUs = 16
	options := d.wider(w)
	if len(options) != 1 || !options[0].rejected.Equal(words.Because(words.FitsWhole, w.demand, 1, 15)) {
		t.Errorf("%s: %v", briefly(options), options[0].rejected)
	}
	for _, tt := range []struct {
		name string
		edit func()
		want int
	}{
		{"as it is", func() {}, 1},
		{"it may not be there", func() { w.Spec.Nodes = topology.Nodes(0) }, -1},
		{"no room for its memory", func() { w.Spec.Nodes, d.m.free[1] = topology.NodeSet{}, 1<<20 }, -1},
		{"important work keeps the CPUs", func() { d.m.free[1], d.m.kept[1] = float64(15*gib), 6 }, -1},
		{"fewer", func() { d.m.kept[1] = 5 }, 1},
	} {
		tt.edit()
		if got := d.holdsWhole(w); got != tt.want {
			t.Errorf("%s: node %d, want %d", tt.name, got, tt.want)
		}
	}
}

// TestSplitComesHome: work that is split though a node holds it comes home by the rules for any
// move: when that pays. What others have booked there does not keep it away.
func TestSplitComesHome(t *testing.T) {
	for _, tt := range []struct {
		name  string
		use   float64
		cores string
		want  string
	}{
		{"it loses by it", 3, "core:8", "narrow a 0-1>0"},
		{"it does next to nothing", 0.1, "core:8", "in order"},
		{"it wants more CPUs than a node has cores", 10, "core:8 pu:2", "narrow a 0-1>0"},
		{"it wants more CPUs than a node has", 10, "core:8", "in order"},
	} {
		b := newBench(t, fmt.Sprintf("package:2 node:1(memory=16GiB) %s", tt.cores))
		b.run("a", 0, tt.use, 2*gib)
		b.run("x", 0, 0.1, gib/8)
		b.run("y", 1, 0.2, gib/8)
		for k := range b.in.State.Placements[1:] { // wishes, and more than the ratio lets a node carry
			b.in.Subjects[k+1].Spec.CPUs, b.in.Subjects[k+1].Spec.Given = 24, true
			b.in.State.Placements[k+1].VCPUs = 24
		}
		o, p := &b.in.Subjects[0].Observation, &b.in.State.Placements[0]
		o.RanOn = []workload.NodeShare{{Node: 0, Share: 0.5}, {Node: 1, Share: 0.5}}
		o.Memory = []workload.NodeMemory{{Node: 0, KiB: gib}, {Node: 1, KiB: gib}}
		o.CPUs = b.in.State.Host.Online
		p.Home, p.CPUs, p.Memory = topology.Nodes(0, 1), o.CPUs, o.Memory
		r := b.until()
		if got := brief(r); got != tt.want {
			t.Errorf("%s: %s, want %s: %v", tt.name, got, tt.want, r.Verdict())
		}
	}
}
