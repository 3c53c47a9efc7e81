package balance

import (
	"fmt"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/homenode/homenode/core/place"
	"github.com/homenode/homenode/core/plan"
	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/core/workload"
)

// TestRecall: whatever alone changes from one tick to the next, a model with what the one before found is the model made
// anew.
func TestRecall(t *testing.T) {
	edit := func(in *Input, i int, f func(*place.Subject)) {
		in.Subjects = slices.Clone(in.Subjects)
		s := *in.Subjects[i]
		f(&s)
		in.Subjects[i] = &s
	}
	for _, tt := range []struct {
		name   string
		change func(in *Input, memory *History)
		steady int // workloads that are sized as steady then, of three
	}{
		{"nothing", func(*Input, *History) {}, 3},
		{"its use", func(in *Input, _ *History) {
			edit(in, 1, func(s *place.Subject) { s.Observation.CPUUse = 3 })
		}, 2},
		{"its traffic", func(in *Input, _ *History) {
			edit(in, 1, func(s *place.Subject) { s.Observation.Bandwidth = 3000 })
		}, 2},
		{"its accesses", func(in *Input, _ *History) {
			edit(in, 1, func(s *place.Subject) { s.Observation.Accesses.PerSecond = 1e6 })
		}, 2},
		{"its memory", func(in *Input, _ *History) {
			edit(in, 1, func(s *place.Subject) {
				s.Observation.Memory = []workload.NodeMemory{{Node: 0, KiB: gib}, {Node: 1, KiB: gib}}
			})
		}, 3},
		{"its importance", func(in *Input, _ *History) {
			edit(in, 1, func(s *place.Subject) { s.Spec.Importance = 90 })
		}, 3},
		{"its home", func(in *Input, _ *History) {
			in.State.Placements = slices.Clone(in.State.Placements)
			p := &in.State.Placements[1]
			p.Home, p.CPUs = topology.Nodes(0), in.State.Host.Nodes[0].CPUs
		}, 3},
		{"a page move", func(in *Input, _ *History) {
			in.Flights = []Flight{{Workload: "b", To: topology.Nodes(0)}}
		}, 3},
		{"the machine", func(in *Input, _ *History) {
			h := *in.State.Host
			h.Measured = &topology.Measured{LatencyNs: [][]float64{{50, 90}, {90, 50}}}
			in.State.Host = &h
		}, 0},
		{"another history", func(_ *Input, memory *History) {
			memory.Samples = slices.Clone(memory.Samples)
			for k := range memory.Samples {
				l := &memory.Samples[k]
				l.Uses = slices.Clone(l.Uses)
				l.Uses[0].CPUs = 2
			}
		}, 0},
		{"one workload less", func(in *Input, _ *History) { in.Subjects = in.Subjects[1:] }, 0},
		{"another in its place", func(in *Input, _ *History) {
			edit(in, 2, func(s *place.Subject) { s.Observation.ID = "d" })
		}, 2},
		{"a saturated node", func(in *Input, memory *History) {
			memory.Samples = slices.Clone(memory.Samples)
			memory.Samples[1].Busy = []float64{8, 8}
		}, 3},
	} {
		b := two(t)
		b.run("a", 0, 1, gib)
		b.run("b", 1, 2, 2*gib)
		b.run("c", 1, 0.5, gib)
		in, memory := b.in, History{}
		var known recall
		for range 12 {
			in.At = in.At.Add(2 * time.Second)
			memory = remember(&in, memory)
			known.model(&in, in.State.Placements, place.NewLedger(in.State), memory.Samples)
		}
		in.At = in.At.Add(2 * time.Second)
		tt.change(&in, &memory)
		copies := [2]History{remember(&in, memory), remember(&in, memory)}
		got := known.model(&in, in.State.Placements, place.NewLedger(in.State), copies[0].Samples)
		want := newModel(&in, in.State.Placements, place.NewLedger(in.State), copies[1].Samples)
		if x, y := figures(got), figures(want); x != y {
			t.Errorf("%s:\ngot  %s\nwant %s", tt.name, x, y)
		}
		if !reflect.DeepEqual(copies[0], copies[1]) {
			t.Errorf("%s: other looks", tt.name)
		}
		steady := 0
		for i := range got.workloads {
			if got.workloads[i].steady.looks >= len(copies[0].Samples) {
				steady++
			}
		}
		if steady != tt.steady {
			t.Errorf("%s: %d are steady, want %d", tt.name, steady, tt.steady)
		}
	}
}

// figures is a model in full.
func figures(m *model) string {
	x := fmt.Sprint(m.sums, m.far, m.perCPU, m.wanted, m.counted, m.least)
	for _, w := range m.workloads {
		w.steady, w.lasts = steadiness{}, false
		subject, placed := *w.Subject, plan.Placement{}
		if w.placed != nil {
			placed = *w.placed
		}
		w.Subject, w.placed = nil, nil
		x += fmt.Sprintf("\n%+v %v %v", w, subject.Observation.ID, placed.Home)
	}
	return x
}
