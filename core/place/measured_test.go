package place

import (
	"testing"

	"github.com/homenode/homenode/core/plan"
	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/core/workload"
)

// fourNodes has a SLIT that says 0-1 and 2-3 are near.
func fourNodes(t *testing.T) *topology.Host {
	t.Helper()
	h, err := topology.FromSynthetic("package:2 node:2(memory=32GiB) core:8 pu:1")
	if err != nil {
		t.Fatal(err)
	}
	h.Distances = topology.Matrix{{10, 12, 22, 22}, {12, 10, 22, 22}, {22, 22, 10, 12}, {22, 22, 12, 10}}
	return h
}

// The firmware puts the nodes in the wrong order; once the machine is measured,
// a workload that needs two nodes goes to two that are near in truth.
func TestMeasuredOrderBeatsSLIT(t *testing.T) {
	slit := fourNodes(t)
	measured := fourNodes(t)
	measured.Measured = &topology.Measured{Source: topology.MeasuredBefore, LatencyNs: [][]float64{
		{80, 140, 95, 141}, {140, 80, 141, 95}, {95, 141, 80, 140}, {141, 95, 140, 80},
	}}
	wide := Request{Spec: workload.Spec{ID: "w", Class: workload.Dedicated, CPUs: 12, Memory: 40 << 20}}
	before, after := Place(plan.State{Host: slit}, wide), Place(plan.State{Host: measured}, wide)
	if !before.Placed() || !after.Placed() {
		t.Fatal(before.Decision.Reasons, after.Decision.Reasons)
	}
	for _, c := range []struct {
		r      Result
		home   []string
		source topology.Source
	}{
		{before, []string{"0-1", "2-3"}, topology.FromSLIT},
		{after, []string{"0,2", "1,3"}, topology.MeasuredBefore},
	} {
		if home := c.r.Placement.Home.String(); home != c.home[0] && home != c.home[1] {
			t.Errorf("by %s it goes to nodes %s, want one of %v", c.source, home, c.home)
		}
		if len(c.r.Decision.Distances) != 3 {
			t.Fatalf("distances %+v", c.r.Decision.Distances)
		}
		for _, d := range c.r.Decision.Distances {
			if d.Source != c.source || d.Times <= 1 {
				t.Errorf("%+v, want source %s", d, c.source)
			}
		}
	}
}

// Each distance has the best source there is for it.
func TestSourcesOfDistances(t *testing.T) {
	h := fourNodes(t)
	h.Distances[0][3] = topology.None
	h.HMAT = [][]float64{{90, 0, 200, 0}, {0, 90, 0, 0}, {0, 0, 90, 0}, {0, 0, 0, 90}}
	h.Measured = &topology.Measured{Source: topology.MeasuredNow, LatencyNs: [][]float64{{80, 120, 0, 0}, {0, 0, 0, 0}, {0, 0, 0, 0}, {0, 0, 0, 0}}}
	for j, want := range []struct {
		cost   float64
		source topology.Source
	}{{1, topology.MeasuredNow}, {1.5, topology.MeasuredNow}, {200.0 / 90, topology.FromHMAT}, {0, topology.Assumed}} {
		if cost, source := h.Access(0, j); cost != want.cost || source != want.source {
			t.Errorf("node0 to node%d: %v from %s, want %v from %s", j, cost, source, want.cost, want.source)
		}
	}
	if cost, source := h.Access(1, 3); cost != 2.2 || source != topology.FromSLIT {
		t.Errorf("%v from %s", cost, source)
	}
}
