package scene

import (
	"reflect"
	"slices"
	"testing"

	"github.com/homenode/homenode/core/plan"
	"github.com/homenode/homenode/core/words"
	"github.com/homenode/homenode/core/workload"
)

// TestNamed: a process has the name that it was started with; a later one under its PID does not.
func TestNamed(t *testing.T) {
	for _, tt := range []struct {
		what string
		a    Admission
		want string
	}{
		{"named", Admission{Spec: workload.Spec{Name: "job"}, Process: workload.Process{PID: 7, Start: 7}}, "job"},
		{"without a name", Admission{Process: workload.Process{PID: 7, Start: 7}}, "w7"},
		{"an earlier one", Admission{Spec: workload.Spec{Name: "job"}, Process: workload.Process{PID: 7, Start: 6}}, "w7"},
	} {
		snap := workload.Snapshot{Observations: []workload.Observation{process(7, 0, 1)}}
		got := Named(map[workload.ID]Admission{"pid:7": tt.a}, snap)
		if got.Observations[0].Name != tt.want || snap.Observations[0].Name != "w7" {
			t.Errorf("%s: %q; the snapshot of others has %q", tt.what, got.Observations[0].Name, snap.Observations[0].Name)
		}
	}
}

// TestDropReplaced: an observation goes when its PID belongs to a later process that no scan has seen.
func TestDropReplaced(t *testing.T) {
	later := workload.Process{PID: 7, Start: 8}
	for _, tt := range []struct {
		what string
		a    Admission
		kind workload.Kind
		stay bool
	}{
		{"a later process", Admission{Process: later, Scan: 3}, workload.InProcess, false},
		{"a later process that was to be seen", Admission{Process: later, Scan: 2}, workload.InProcess, true},
		{"the process", Admission{Process: workload.Process{PID: 7, Start: 7}, Scan: 3}, workload.InProcess, true},
		{"no process", Admission{Scan: 3}, workload.InProcess, true},
		{"a cgroup", Admission{Process: later, Scan: 3}, workload.InCgroup, true},
	} {
		o := process(7, 0, 1)
		o.Kind = tt.kind
		s := seen(o, service("db"))
		s.Seen = 3
		before := s.Snapshot.Observations
		s.DropReplaced(map[workload.ID]Admission{"pid:7": tt.a, "pid:99": {Process: later, Scan: 3}})
		if (s.Observation("pid:7") != nil) != tt.stay || len(before) != 2 || before[1].ID != "pid:7" {
			t.Errorf("%s: %d observations; others have %d", tt.what, len(s.Snapshot.Observations), len(before))
		}
	}
}

// TestNote: decisions say what the sources do, and which claims are beyond the ceiling.
func TestNote(t *testing.T) {
	why := words.Because(words.AllShare, AllShare)
	s := &Scene{
		Claims: map[workload.ID]*workload.Claim{"a": {Note: why}, "b": {}},
		Beyond: map[workload.ID]words.Reason{"c": why},
	}
	all := []plan.Decision{{Workload: "a"}, {Workload: "b"}, {Workload: "c"}, {Workload: "d"}}
	before := slices.Clone(all)
	noted := s.Note(all)
	if !reflect.DeepEqual(all, before) {
		t.Errorf("the decisions of the engine have changed: %+v", all)
	}
	all = noted
	for i, want := range []words.Code{words.AllShare, "", words.CountsAsUsed, ""} {
		if got := all[i].Reasons; (want == "") != (len(got) == 0) || want != "" && got[0].Code != want {
			t.Errorf("%s: %+v", all[i].Workload, got)
		}
	}
}

// TestWithParts: who holds a workload holds its parts.
func TestWithParts(t *testing.T) {
	s := &Scene{Claims: map[workload.ID]*workload.Claim{
		"vm:a": {}, "vm:a/cell0": {Part: &workload.Part{Of: "vm:a"}}, "vm:a/cell1": {Part: &workload.Part{Of: "vm:a"}},
		"vm:b/cell0": {Part: &workload.Part{Of: "vm:b"}},
	}}
	got := s.WithParts(map[workload.ID]bool{"vm:a": true, "vm:a/cell1": true, "pid:7": true})
	if want := []workload.ID{"pid:7", "vm:a", "vm:a/cell0", "vm:a/cell1"}; !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}
