package place

import (
	"fmt"
	"reflect"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"github.com/homenode/homenode/core/plan"
	"github.com/homenode/homenode/core/plan/plantest"
	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/core/workload"
)

// everyField compares fields that are not exported too.
var everyField = cmp.Exporter(func(reflect.Type) bool { return true })

// TestFillingIsCommit: a ledger that is filled with what stays as it is, and with the rest, is the one that
// has it committed. What AsBefore and Keep say of a placement is what Renew says, also where there is
// no room for all.
func TestFillingIsCommit(t *testing.T) {
	kept, refused, together, all := 0, 0, 0, 0
	rapid.Check(t, func(t *rapid.T) {
		st := plantest.State(4).Draw(t, "state")
		st.Policy.Overcommit = rapid.SampledFrom([]float64{2, 8, 32}).Draw(t, "overcommit")
		placed := NewLedger(st)
		for i := range rapid.IntRange(1, 12).Draw(t, "workloads") {
			s := plantest.Spec(workload.ID(fmt.Sprintf("w%02d", i))).Draw(t, "spec")
			if r := placed.Place(Request{Spec: s, Must: true, Crowd: true}); r.Placed() {
				placed.Commit(r.Placement)
			}
		}
		was := placed.Placements()
		taken := workload.Observation{ID: "foreign"}
		if rapid.Bool().Draw(t, "less room") {
			for _, n := range st.Host.Nodes {
				kib := topology.KiB(rapid.IntRange(0, 8<<20).Draw(t, "memory of others"))
				taken.Memory = append(taken.Memory, workload.NodeMemory{Node: n.ID, KiB: kib})
			}
		}
		if cpus := st.Host.Online; !cpus.Empty() && rapid.IntRange(0, 3).Draw(t, "reserves a CPU") == 0 {
			st.Policy.Reserved = topology.CPUs(cpus.Min())
		}
		st.Placements = nil
		a, b := NewLedger(st), NewLedger(st)
		a.AddForeign(&taken)
		b.AddForeign(&taken)
		f := a.Fill(len(was))
		var may []*AsBefore
		for i := range was {
			p := &was[i]
			spec := specOf(p)
			switch rapid.IntRange(0, 19).Draw(t, "wants another thing") {
			case 0:
				spec.Importance++
			case 1:
				spec.Bandwidth++
			case 2:
				spec.Nodes = topology.Nodes(st.Host.Nodes[0].ID)
			}
			books, ok := a.AsBefore(p, &spec, p.VCPUs, p.Asked)
			if ok {
				may = append(may, &books)
			}
			renewed, why := b.Renew(p, &Request{Spec: spec, Must: true})
			stays := why.None() && renewed == p
			switch {
			case ok && f.Keep(int32(i), p, &books):
				if !stays {
					t.Fatalf("%s is kept: %v, the same: %v", p.Workload, why, renewed == p)
				}
				kept++
			case ok && !f.done && stays:
				t.Fatalf("%s is not kept, and could be", p.Workload)
			default:
				f.Put(int32(i), p)
				refused++
			}
			b.Commit(*p)
			if diff := cmp.Diff(b.nodes, a.nodes, everyField); diff != "" {
				t.Fatalf("%s books another thing (-committed +filled):\n%s", p.Workload, diff)
			}
		}
		got := f.Placements(was)
		if len(was) > 0 && &got[0] == &was[0] {
			all++
		}
		if diff := cmp.Diff(b.Placements(), got, same, cmpopts.EquateEmpty()); diff != "" {
			t.Fatalf("other placements (-committed +filled):\n%s", diff)
		}
		f.Done()
		if len(a.held) != len(b.held) {
			t.Fatalf("%d are listed, want %d", len(a.held), len(b.held))
		}
		for i := range b.held {
			if a.held[i].Workload != b.held[i].Workload {
				t.Fatalf("%s is listed as %d, want %s", a.held[i].Workload, i, b.held[i].Workload)
			}
		}
		fresh := NewLedger(st)
		fresh.AddForeign(&taken)
		g := fresh.Fill(len(may))
		if g.Fits(slices.Values(may)) {
			together++
			for i, x := range may {
				if !g.Keep(int32(i), &was[0], x) {
					t.Fatalf("all fit, and number %d does not", i)
				}
			}
		}
	})
	if kept < 100 || refused < 100 || together < 20 || all < 5 {
		t.Errorf("%d kept, %d not, %d fit together, %d lists are the same: the test tests nothing", kept, refused, together, all)
	}
}

// Placements that are as they were are handed back as they are; when the CPUs of one that
// floats are others, all are made anew.
func TestPlacementsAsTheyWere(t *testing.T) {
	for _, lost := range []topology.CPUID{-1, 2, 6} { // neither, of the shared, of the batch one's
		st := onHost(twoNodes)
		st.Placements = []plan.Placement{dedicatedOn("d", 0, gib, 0, 8), {Workload: "o", Class: workload.Batch, Importance: 50, VCPUs: 1, Within: topology.Nodes(1)}, floating("s", 0, 2)}
		st.Placements = NewLedger(st).Placements()
		if lost >= 0 {
			st.Policy.Reserved = topology.CPUs(lost)
		}
		l := NewLedger(st)
		got := l.placementsAs(st.Placements)
		if same := &got[0] == &st.Placements[0]; same != (lost < 0) {
			t.Errorf("without CPU %d the same: %v", lost, same)
		}
		if got[1].CPUs.Has(lost) || got[2].CPUs.Has(lost) || got[1].CPUs.Empty() || got[2].CPUs.Empty() {
			t.Errorf("without CPU %d: %+v", lost, got)
		}
		if fewer := l.placementsAs(st.Placements[:2]); len(fewer) != 3 {
			t.Errorf("%d of three", len(fewer))
		}
	}
}
