package interleave

import (
	"strings"
	"testing"

	"github.com/homenode/homenode/core/control/concern"
	"github.com/homenode/homenode/core/control/concern/concerntest"
	"github.com/homenode/homenode/core/hostprep"
	"github.com/homenode/homenode/core/plan"
	"github.com/homenode/homenode/core/plan/plantest"
)

// on is a host whose slower node has a quarter of the bandwidth, and a node of a GPU.
func on() (*concern.Scene, *concerntest.Loop) {
	h := plantest.Draw("0 0-3 16G 10 20 30\n1 - 16G 20 10 30 type=cxl\n2 - 16G 30 30 10 type=gpu\n")
	h.HMATBandwidth = [][]float64{{200, 50, 900}, {0, 0, 0}, {0, 0, 0}}
	return concerntest.On(h)
}

// TestWeights: the kernel's own choice goes off first, then each node gets its weight; a GPU's gets none.
func TestWeights(t *testing.T) {
	want := "file " + hostprep.InterleaveAuto + " of interleave-weights: set-file  > false weights-own\n" +
		"file " + hostprep.InterleaveWeight(0) + " of interleave-weights: set-file  > 4 weight-of\n" +
		"file " + hostprep.InterleaveWeight(1) + " of interleave-weights: set-file  > 1 weight-of"
	for _, c := range []struct {
		name   string
		set    bool
		change func(*concern.Scene, *concerntest.Loop)
		want   string
	}{
		{"configured", true, func(*concern.Scene, *concerntest.Loop) {}, want},
		{"not configured", false, func(*concern.Scene, *concerntest.Loop) {}, ""},
		{"no host was read", true, func(sc *concern.Scene, _ *concerntest.Loop) { sc.Snapshot.Host = nil }, ""},
		{"held", true, func(_ *concern.Scene, l *concerntest.Loop) { l.Is("held interleave-weights") }, ""},
		{"bandwidth is not known", true, func(sc *concern.Scene, _ *concerntest.Loop) {
			sc.Snapshot.Host.HMATBandwidth = nil
		}, ""},
		{"set before", true, func(sc *concern.Scene, _ *concerntest.Loop) {
			concerntest.Set(sc, ID, plan.HostFile, hostprep.InterleaveWeight(0), "9")
		}, strings.Replace(want, " > 4", "9 > 4", 1)},
	} {
		sc, loop := on()
		c.change(sc, loop)
		concerntest.Expect(t, c.name, concerntest.Lines(Concern{Set: c.set}.Decide(sc).Settings), c.want)
	}
}

// TestOwns: the files that it set.
func TestOwns(t *testing.T) {
	for e, want := range map[*plan.Entry]bool{
		{Kind: plan.HostFile, Workload: ID}: true, {Kind: plan.HostFile, Workload: "host"}: false,
		{Kind: plan.HostIRQ, Workload: ID}: false,
	} {
		if got := (Concern{}).Owns(e); got != want {
			t.Errorf("%+v: %v", e, got)
		}
	}
	if (Concern{}).Ended(nil, nil, nil) {
		t.Error("a step changes its desires")
	}
}
