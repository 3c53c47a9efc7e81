package arrange

import (
	"fmt"
	"reflect"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/homenode/homenode/core/place"
	"github.com/homenode/homenode/core/place/demand"
	"github.com/homenode/homenode/core/plan"
	"github.com/homenode/homenode/core/plan/plantest"
	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/core/workload"
)

// TestArrangerIsArrange: an Arranger plans what Arrange plans, whatever changes from scan to scan, and plans that were
// given out do not change.
func TestArrangerIsArrange(t *testing.T) {
	scans, held, heldThoughChanged, refused := 0, 0, 0, 0
	rapid.Check(t, func(t *rapid.T) {
		st := plantest.State(3).Draw(t, "state")
		var subjects []*place.Subject
		for i := range rapid.IntRange(1, 7).Draw(t, "workloads") {
			s := drawSubject(t, st.Host, workload.ID(fmt.Sprintf("w%02d", i)))
			if rapid.IntRange(0, 3).Draw(t, "plain") > 0 {
				s.Spec, s.Observation.Pinned, s.Observation.OwnPolicy = demand.SpecFrom(s.Observation), false, ""
			}
			subjects = append(subjects, s)
		}
		var r Arranger
		var given, copies []plan.Plan
		for range rapid.IntRange(3, 7).Draw(t, "scans") {
			before := r
			want := Arrange(st, subjects, options)
			was := r.subjects
			got := r.Arrange(st, subjects, options)
			if !reflect.DeepEqual(want, got) { // much quicker than a difference
				if diff := cmp.Diff(want, got, same); diff != "" {
					t.Fatalf("Arrange (-), Arranger (+):\n%s", diff)
				}
			}
			scans++
			if before.settled && r.settled && before.newest == r.newest {
				held++
				if !slices.Equal(was, subjects) {
					heldThoughChanged++
				}
			} else if before.settled {
				refused++
			}
			given = append(given, got)
			copies = append(copies, deepCopy(got))
			subjects = slices.Clone(subjects)
			st.Placements = got.Placements
			arriveHome(t, got.Placements, subjects)
			alter(t, &st, subjects)
		}
		if !reflect.DeepEqual(copies, given) {
			t.Fatalf("plans that were given out have changed:\n%s", cmp.Diff(copies, given, same))
		}
	})
	if held < scans/20 || heldThoughChanged < scans/100 || refused < scans/100 {
		t.Errorf("%d scans: the newest plan held at %d, though something had changed at %d, and no longer at %d: the test tests nothing",
			scans, held, heldThoughChanged, refused)
	}
}

func deepCopy(p plan.Plan) plan.Plan {
	p.Placements, p.Report.Decisions = slices.Clone(p.Placements), slices.Clone(p.Report.Decisions)
	for i := range p.Report.Decisions {
		p.Report.Decisions[i].Reasons = slices.Clone(p.Report.Decisions[i].Reasons)
	}
	return p
}

// arriveHome has workloads use what they were given; those that do already stay the same subjects.
func arriveHome(t *rapid.T, placements []plan.Placement, subjects []*place.Subject) {
	if rapid.IntRange(0, 9).Draw(t, "nothing is done") == 0 {
		return
	}
	for i, s := range subjects {
		p := place.Of(placements, s.Observation.ID)
		if p == nil || (s.Observation.CPUs.Equal(p.CPUs) && workload.Total(workload.Outside(s.Observation.Memory, p.Home)) == 0) {
			continue
		}
		x := *s
		x.Observation.CPUs, x.Observation.Memory = p.CPUs, []workload.NodeMemory{{Node: p.Home.Min(), KiB: workload.Total(x.Observation.Memory)}}
		if p.Bound {
			x.Observation.Mems = p.Home
		}
		subjects[i] = &x
	}
}

// alter is what may be otherwise at the next scan: mostly nothing, or little.
func alter(t *rapid.T, st *plan.State, subjects []*place.Subject) {
	h := *st.Host // another reading of the same machine
	h.Nodes = slices.Clone(h.Nodes)
	st.Host = &h
	for i := range h.Nodes {
		if h.Nodes[i].Free >= 0 {
			h.Nodes[i].Free = topology.KiB(rapid.IntRange(0, 1<<20).Draw(t, "free"))
		}
	}
	i := rapid.IntRange(0, len(subjects)-1).Draw(t, "which")
	x := *subjects[i]
	subjects[i] = &x
	switch rapid.IntRange(0, 19).Draw(t, "change") {
	case 0:
		subjects[i] = drawSubject(t, st.Host, x.Observation.ID)
	case 1:
		x.Spec.Importance = rapid.IntRange(0, 100).Draw(t, "importance")
	case 2:
		x.Observation.CPUs = h.Allowed
	case 3:
		x.Fixed = true
	case 4:
		x.Spec.Class = rapid.SampledFrom(workload.Classes).Draw(t, "class")
	case 5:
		takeOffline(t, st, rapid.IntRange(0, len(h.Nodes)-1).Draw(t, "goes offline"))
	case 6:
		st.Unmanaged = nil
		for _, n := range h.Nodes {
			st.Unmanaged = append(st.Unmanaged, workload.NodeMemory{Node: n.ID, KiB: n.Memory / topology.KiB(rapid.IntRange(1, 9).Draw(t, "taken"))})
		}
	case 7:
		st.Policy.Overcommit = rapid.SampledFrom([]float64{1, 2, 8, 32}).Draw(t, "overcommit")
	case 8:
		x.Observation.Pinned = !x.Observation.Pinned
	case 9:
		st.Placements = slices.Delete(slices.Clone(st.Placements), 0, min(1, len(st.Placements)))
	case 10, 11, 12, 13, 14:
		x.Observation.CPUUse *= rapid.Float64Range(0.8, 1.2).Draw(t, "use")
		for k := range x.Observation.Memory {
			x.Observation.Memory = slices.Clone(x.Observation.Memory)
			x.Observation.Memory[k].KiB += topology.KiB(rapid.IntRange(0, 64).Draw(t, "more"))
		}
		if !x.Spec.Given {
			x.Spec = demand.SpecFrom(x.Observation)
		}
	}
}
