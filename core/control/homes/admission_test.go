package homes

import (
	"testing"

	"github.com/homenode/homenode/core/workload"
)

// TestAdmitted: of several admissions of a workload the newest counts; the list of all is made anew when the newer
// ones are as many.
func TestAdmitted(t *testing.T) {
	one := func(scan uint64) Admission { return Admission{Scan: scan} }
	a := Admitted{all: map[workload.ID]Admission{"a": one(1), "b": one(1)}}
	if !a.with("a", one(2)) || !a.with("a", one(3)) || a.with("c", one(4)) {
		t.Errorf("%+v", a)
	}
	for id, scan := range map[workload.ID]uint64{"a": 3, "b": 1, "c": 0} {
		got, ok := a.All()[id]
		if ok != (scan > 0) || got.Scan != scan {
			t.Errorf("%s: %v %+v", id, ok, got)
		}
	}
	if len(a.all) != 2 || a.all["a"].Scan != 1 {
		t.Errorf("those before: %+v", a.all)
	}
	if asJSON(t, a) != asJSON(t, a.All()) {
		t.Errorf("saved as %s", asJSON(t, a))
	}
}

// TestCloned: a copy takes new keys, also a copy of nil, and the original keeps its own.
func TestCloned(t *testing.T) {
	was := map[string]int{"a": 1}
	for _, m := range []map[string]int{nil, was} {
		c := cloned(m)
		if c["b"] = 2; len(c) != len(m)+1 {
			t.Errorf("%v", c)
		}
	}
	if len(was) != 1 {
		t.Errorf("%v", was)
	}
}
