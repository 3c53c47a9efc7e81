package homes

import (
	"testing"

	"github.com/homenode/homenode/core/plan"
	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/core/workload"
)

// TestNew: a new daemon takes over all homes, counts scans from 0, and knows the affinities that `homenode run` gave.
func TestNew(t *testing.T) {
	given := Admission{Scan: 9, Placement: home("pid:7", workload.Shared, 0, 3)}
	before := Admission{Scan: 9} // of a version that did not save CPUs
	placements := []workload.Placement{home("/a", workload.Shared, 1, 4, 5)}
	h := New(map[workload.ID]Admission{"pid:7": given, "pid:8": before}, map[workload.ID]plan.Decision{"/a": {Workload: "/a"}}, placements)
	if len(h.Admissions) != 2 || h.Admissions["pid:7"].Scan != 0 || h.Admissions["pid:8"].Scan != 0 {
		t.Errorf("admissions %+v", h.Admissions)
	}
	if len(h.Given) != 1 || !h.Given["pid:7"].Equal(topology.CPUs(3)) {
		t.Errorf("given %v", h.Given)
	}
	if len(h.AllChosen()) != 1 || !SamePlacements(h.Placements(), placements) || !SamePlacements(h.Written(), placements) || h.Unsaved() {
		t.Errorf("%+v", h)
	}
	saved := h.Admitted()
	if len(saved.All()) != 2 {
		t.Errorf("saved %+v", saved.All())
	}
	if a, ok := saved.All()["pid:7"]; !ok || a.Scan != 0 {
		t.Errorf("saved %+v", a)
	}
}

// TestUnsaved: placements need a save if they differ from the disk, and a list that was saved never changes.
func TestUnsaved(t *testing.T) {
	a, b, c := home("/a", workload.Shared, 0, 1), home("/b", workload.Shared, 1, 4), home("/c", workload.Shared, 1, 5)
	h := host(t)
	h.Plan.Placements = []workload.Placement{a}
	if !h.Unsaved() || len(h.Written()) != 0 {
		t.Error("nothing was written")
	}
	h.SetWritten([]workload.Placement{a})
	if h.Unsaved() || homesOf(h.Written()) != "/a@1/0 " {
		t.Errorf("written: %q", homesOf(h.Written()))
	}
	h.Book(&Now{}, b)
	if got := homesOf(h.Written()); got != "/a@1/0 " {
		t.Errorf("booked, and not saved: written %q", got)
	}
	first := h.SavePlacements()
	h.Book(&Now{}, c)
	if got := homesOf(first.All()); got != "/a@1/0 /b@4/1 " {
		t.Errorf("saved before: %q", got)
	}
	if got := homesOf(h.Placements()); got != "/a@1/0 /b@4/1 /c@5/1 " || homesOf(h.Written()) != "/a@1/0 /b@4/1 " || !h.Unsaved() {
		t.Errorf("now %q, written %q", got, homesOf(h.Written()))
	}
	if second := h.SavePlacements(); homesOf(second.All()) != homesOf(h.Placements()) || h.Unsaved() {
		t.Errorf("%q", homesOf(second.All()))
	}
}

// TestReadPlacementsAreSaved: reading the placements after a save does not make them unsaved.
func TestReadPlacementsAreSaved(t *testing.T) {
	h := host(t)
	h.Book(&Now{}, home("/a", workload.Shared, 0, 1))
	h.SavePlacements()
	if all := h.Placements(); len(all) != 1 || h.Unsaved() || &all[0] != &h.Written()[0] {
		t.Errorf("%q, written %q", homesOf(all), homesOf(h.Written()))
	}
	h.Book(&Now{}, home("/b", workload.Shared, 0, 2))
	if h.Placements(); !h.Unsaved() || len(h.Written()) != 1 {
		t.Errorf("written %q", homesOf(h.Written()))
	}
}
