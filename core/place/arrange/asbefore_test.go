package arrange

import (
	"fmt"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/homenode/homenode/core/place"
	"github.com/homenode/homenode/core/plan"
	"github.com/homenode/homenode/core/plan/plantest"
	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/core/workload"
)

// TestAsBeforeIsRenew: what asBefore says of a placement is what Renew and steps say, one by
// one and for the whole plan, also where there is no room for all that could stay.
func TestAsBeforeIsRenew(t *testing.T) {
	kept, stayed, refused, full := 0, 0, 0, 0
	rapid.Check(t, func(t *rapid.T) {
		st := plantest.State(4).Draw(t, "state")
		st.Policy.Overcommit = rapid.SampledFrom([]float64{2, 8, 32}).Draw(t, "overcommit")
		st.Policy.Caches = rapid.SampledFrom([]plan.CacheMode{plan.CachesReport, plan.CachesPlace}).Draw(t, "caches")
		var subjects []*place.Subject
		for i := range rapid.IntRange(1, 20).Draw(t, "workloads") {
			subjects = append(subjects, drawSubject(t, st.Host, workload.ID(fmt.Sprintf("w%02d", i))))
		}
		st.Placements = Arrange(st, subjects, options).Placements
		comeHome(st.Placements, subjects)
		change(t, &st, subjects)

		for _, s := range rapid.Permutation(asBeforeOf(st, subjects)).Draw(t, "turns") {
			a, b := arrangementOf(st, subjects), arrangementOf(st, subjects)
			fill(t, a, b)
			x, y := &a.subjects[s], &b.subjects[s]
			r := steady(b.host, y)
			p, why := b.ledger.Renew(y.old, &r)
			stays := why.None() && p == y.old
			if got := a.keepAsBefore(x); got != stays {
				t.Fatalf("%s is kept as before: %v, renew: %v, the same: %v\n%+v\n%+v", x.old.Workload, got, why, p == y.old, x.old, x.Spec)
			}
			if !stays {
				refused++
				continue
			}
			kept++
			if steps := b.steps(y, p); x.asBefore.stays != (len(steps) == 0) {
				t.Fatalf("%s stays: %v, steps: %v", x.old.Workload, x.asBefore.stays, steps)
			}
			if x.asBefore.stays {
				stayed++
			}
		}

		a := arrangementOf(st, subjects)
		from := 0
		for _, end := range a.groups {
			if group := a.order[from:end]; !a.fits(group) {
				full++
			}
			from = min(end+1, len(a.order))
		}
		if diff := cmp.Diff(arrangeEach(st, subjects), Arrange(st, subjects, options), same); diff != "" {
			t.Fatalf("each by renew (-), as before (+):\n%s", diff)
		}
	})
	if kept < 500 || stayed < 250 || refused < 100 || full < 20 {
		t.Errorf("%d kept, %d of them stay, %d refused, %d groups without room: the test tests nothing", kept, stayed, refused, full)
	}
}

func arrangementOf(st plan.State, subjects []*place.Subject) *arrangement {
	a := newArrangement(st, subjects, options)
	a.leaveAlone()
	return a
}

// asBeforeOf is the subjects whose placement can stay as it is.
func asBeforeOf(st plan.State, subjects []*place.Subject) []int {
	var out []int
	a := arrangementOf(st, subjects)
	for i := range a.subjects {
		if a.subjects[i].asBefore.may {
			out = append(out, i)
		}
	}
	return out
}

// arrangeEach is Arrange with each placement renewed by itself.
func arrangeEach(st plan.State, subjects []*place.Subject) plan.Plan {
	a := arrangementOf(st, subjects)
	for i := range a.subjects {
		a.subjects[i].asBefore = asBefore{}
	}
	a.sort(true)
	a.keep()
	a.countForeign()
	a.placeRest()
	return a.plan()
}

// fill takes the same memory of two ledgers, so that the next may or may not fit.
func fill(t *rapid.T, a, b *arrangement) {
	var others workload.Observation
	for _, n := range a.host.Nodes {
		kib := topology.KiB(rapid.IntRange(0, 8<<20).Draw(t, "memory of others"))
		others.Memory = append(others.Memory, workload.NodeMemory{Node: n.ID, KiB: kib})
	}
	a.ledger.AddForeign(&others)
	b.ledger.AddForeign(&others)
}

// comeHome has all workloads use what they were given.
func comeHome(placements []plan.Placement, subjects []*place.Subject) {
	for i := range subjects {
		s := *subjects[i]
		if p := place.Of(placements, s.Observation.ID); p != nil {
			s.Observation.CPUs, s.Observation.Memory = p.CPUs, slices.Clone(p.Memory)
			if p.Bound {
				s.Observation.Mems = p.Home
			}
		}
		subjects[i] = &s
	}
}

// change makes other work of some, and takes room away.
func change(t *rapid.T, st *plan.State, subjects []*place.Subject) {
	for i := range subjects {
		switch rapid.IntRange(0, 11).Draw(t, "change") {
		case 0:
			subjects[i] = drawSubject(t, st.Host, subjects[i].Observation.ID)
		case 1:
			subjects[i].Spec.CPUs += rapid.IntRange(-2, 3).Draw(t, "CPUs")
		case 2:
			subjects[i].Spec.Memory += topology.KiB(rapid.IntRange(-1<<20, 1<<20).Draw(t, "memory"))
		case 3:
			subjects[i].Spec.Importance = rapid.IntRange(0, 100).Draw(t, "importance")
		case 4:
			subjects[i].Observation.CPUs = st.Host.Allowed
		case 5:
			subjects[i].Fixed = true
		case 6:
			subjects[i].Spec.Bandwidth = rapid.Int64Range(-1, 1000).Draw(t, "bandwidth")
		}
	}
	switch rapid.IntRange(0, 4).Draw(t, "room") {
	case 0, 3:
		st.Policy.Overcommit = 1
	case 1:
		takeOffline(t, st, rapid.IntRange(0, len(st.Host.Nodes)-1).Draw(t, "goes offline"))
	case 2:
		for _, n := range st.Host.Nodes {
			st.Unmanaged = append(st.Unmanaged, workload.NodeMemory{Node: n.ID, KiB: n.Memory / topology.KiB(rapid.IntRange(1, 4).Draw(t, "taken"))})
		}
	}
}
