package homes

import (
	"maps"
	"reflect"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/homenode/homenode/core/plan"
	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/core/words"
	"github.com/homenode/homenode/core/workload"
)

// decision returns a decision with its reason as the mark.
func decision(id workload.ID, outcome plan.Outcome, node topology.NodeID, why words.Code) plan.Decision {
	return plan.Decision{Workload: id, Outcome: outcome, Home: topology.Nodes(node), Reasons: words.Reasons(words.Because(why))}
}

// TestNewestDecision: of several decisions about a home the newest counts.
func TestNewestDecision(t *testing.T) {
	at := func(id workload.ID, node topology.NodeID) plan.Decision {
		return plan.Decision{Workload: id, Home: topology.Nodes(node)}
	}
	d := Decisions{all: map[workload.ID]plan.Decision{"a": at("a", 0), "b": at("b", 0)}, since: []plan.Decision{at("a", 1), at("a", 2)}}
	for id, home := range map[workload.ID]string{"a": "2", "b": "0"} {
		if one, ok := d.Of(id); !ok || one.Home.String() != home {
			t.Errorf("%s: %v %+v", id, ok, one)
		}
	}
	if _, ok := d.Of("c"); ok {
		t.Error("of nobody")
	}
}

// TestAllChosen: AllChosen adds the newest decisions to a copy, so that a reader keeps the older list.
func TestAllChosen(t *testing.T) {
	h := New(nil, map[workload.ID]plan.Decision{"a": decision("a", plan.Placed, 0, "first")}, nil)
	before := h.AllChosen()
	if again := h.AllChosen(); len(again) != 1 {
		t.Errorf("%+v", again)
	}
	for _, why := range []words.Code{"second", "third"} {
		d := decision("b", plan.Placed, 1, why)
		h.Choose(&d)
	}
	newest := h.Decisions()
	all := h.AllChosen()
	if len(before) != 1 || len(all) != 2 || all["b"].Reasons[0].Code != "third" {
		t.Errorf("before %+v, now %+v", before, all)
	}
	if !sameMap(all, h.AllChosen()) {
		t.Error("copied for nothing")
	}
	if d, ok := newest.Of("b"); !ok || d.Reasons[0].Code != "third" {
		t.Errorf("%+v", d)
	}
}

func sameMap(a, b map[workload.ID]plan.Decision) bool {
	return reflect.ValueOf(a).Pointer() == reflect.ValueOf(b).Pointer()
}

// TestNothingNewCopiesNothing: a plan that keeps every home leaves the list of reasons as it is, at every scan.
func TestNothingNewCopiesNothing(t *testing.T) {
	h := New(nil, map[workload.ID]plan.Decision{"a": decision("a", plan.Placed, 0, "first"), "b": decision("b", plan.Placed, 1, "first")}, nil)
	was := h.AllChosen()
	kept := []plan.Decision{decision("a", plan.Kept, 0, "kept"), decision("b", plan.Kept, 1, "kept"), decision("c", plan.LeftAlone, 0, "alone")}
	for i := range 3 {
		h.Plan.Report.Decisions = slices.Clone(kept)
		if h.KeepDecisions(5) || !sameMap(was, h.Chosen) {
			t.Errorf("%d: copied for nothing", i)
		}
		if h.kept == nil {
			t.Errorf("%d: it is not known that they are kept", i)
		}
	}
	h.Chosen["b"] = decision("b", plan.Placed, 0, "other") // not asked again for homes that are those of before
	h.Plan.Report.Decisions = slices.Clone(kept)
	if h.KeepDecisions(5) || len(h.Chosen) != 2 {
		t.Error("all were compared again")
	}
}

// TestKeepDecisions: a home keeps the decision of its choice while the workload stays there; other decisions are
// forgotten. KeepDecisions asks for a save when the list changes.
func TestKeepDecisions(t *testing.T) {
	ids := []workload.ID{"a", "b", "c", "d"}
	outcomes := []plan.Outcome{plan.Placed, plan.Kept, plan.Kept, plan.Kept, plan.Kept, plan.Refused, plan.LeftAlone}
	rapid.Check(t, func(t *rapid.T) {
		h := New(nil, nil, nil)
		node := func() topology.NodeID { return topology.NodeID(rapid.IntRange(0, 1).Draw(t, "node")) }
		for seen := uint64(5); seen < 5+uint64(rapid.IntRange(1, 5).Draw(t, "scans")); seen++ {
			chosen := maps.Clone(h.AllChosen())
			if rapid.IntRange(0, 2).Draw(t, "requests") == 0 {
				clear(h.Admissions)
				for _, id := range ids {
					if rapid.Bool().Draw(t, "admitted") {
						h.Admissions[id] = Admission{Scan: seen - rapid.Uint64Range(0, 2).Draw(t, "scans ago")}
						d := decision(id, plan.Placed, node(), "requested")
						h.Choose(&d)
						chosen[id] = d
					}
				}
			}
			if rapid.Bool().Draw(t, "another plan") || seen == 5 {
				h.Plan.Report.Decisions = nil
				for _, id := range ids {
					if rapid.IntRange(0, 4).Draw(t, "decided") > 0 {
						d := decision(id, rapid.SampledFrom(outcomes).Draw(t, "outcome"), node(), "planned")
						h.Plan.Report.Decisions = append(h.Plan.Report.Decisions, d)
					}
				}
			} else { // the same again, as a copy
				h.Plan.Report.Decisions = slices.Clone(h.Plan.Report.Decisions)
			}
			want, placed := map[workload.ID]plan.Decision{}, false
			for _, d := range h.Plan.Report.Decisions {
				old, ok := chosen[d.Workload]
				switch {
				case d.Outcome == plan.Placed:
					want[d.Workload], placed = d, true
				case d.Outcome == plan.Kept && ok && old.Home.Equal(d.Home):
					want[d.Workload] = old
				}
			}
			for id, a := range h.Admissions {
				old, ok := chosen[id]
				_, has := want[id]
				if ok && !has && a.Scan >= seen {
					want[id] = old
				}
			}
			save := h.KeepDecisions(seen)
			got := h.AllChosen()
			if len(got) != len(want) || save != (placed || len(want) != len(chosen)) {
				t.Fatalf("%+v, want %+v; save %v", got, want, save)
			}
			for id, d := range want {
				if x := got[id]; x.Reasons[0].Code != d.Reasons[0].Code || !x.Home.Equal(d.Home) || x.Outcome != d.Outcome {
					t.Fatalf("%s: %+v, want %+v", id, x, d)
				}
			}
		}
	})
}

// TestSameHomes: two reports are about the same homes when they agree on each workload, outcome and home.
func TestSameHomes(t *testing.T) {
	a := decision("a", plan.Kept, 0, "one")
	for name, tt := range map[string]struct {
		other []plan.Decision
		same  bool
	}{
		"equal":              {[]plan.Decision{a, a}, true},
		"for another reason": {[]plan.Decision{a, decision("a", plan.Kept, 0, "two")}, true},
		"fewer":              {[]plan.Decision{a}, false},
		"more":               {[]plan.Decision{a, a, a}, false},
		"another workload":   {[]plan.Decision{a, decision("b", plan.Kept, 0, "one")}, false},
		"another outcome":    {[]plan.Decision{a, decision("a", plan.Placed, 0, "one")}, false},
		"another home":       {[]plan.Decision{a, decision("a", plan.Kept, 1, "one")}, false},
	} {
		if got := sameHomes([]plan.Decision{a, a}, tt.other); got != tt.same {
			t.Errorf("%s: %v", name, got)
		}
	}
}
