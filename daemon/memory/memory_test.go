package memory

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/homenode/homenode/core/plan"
	"github.com/homenode/homenode/core/workload"
)

// All that was committed is there, in the store and in a copy of it that goes its own way.
func TestCommitAndCopy(t *testing.T) {
	at := time.Date(2026, 11, 22, 8, 0, 0, 0, time.UTC)
	homes := []plan.Placement{{Workload: "/a", Class: workload.Shared}}
	first := []plan.Entry{{Seq: 7, Path: "/b", State: plan.Intended}, {Seq: 3, Path: "/a", State: plan.Applied}}
	events := []plan.Event{{Seq: 1, Time: at, Text: "one"}, {Seq: 2, Time: at, Text: "two"}}
	value := map[string]int{"x": 1}
	m := New()
	for _, b := range []plan.Batch{
		{Entries: first, Placements: plan.HomesOf(homes), Moves: []plan.Move{{Workload: "/b"}, {Workload: "/a"}}, Events: events, Values: map[string]any{"holds": value, "other": 1}},
		{Entries: []plan.Entry{{Seq: 7, State: plan.Restored}}, Events: []plan.Event{{Seq: 3, Time: at, Text: "three"}}},
	} {
		if err := m.Commit(b); err != nil {
			t.Fatal(err)
		}
	}
	value["x"] = 2 // the caller's own
	homes[0].Workload = "/c"
	copied, err := Copy(m, "holds")
	if err != nil {
		t.Fatal(err)
	}
	if err := m.Commit(plan.Batch{Entries: []plan.Entry{{Seq: 3, State: plan.Gone}}, Placements: plan.HomesOf(nil)}); err != nil {
		t.Fatal(err)
	}
	journal, _ := copied.Journal()
	last, _ := copied.LastSeq()
	placements, _ := copied.Placements()
	moves, _ := copied.Moves()
	history, _ := copied.History(plan.EventQuery{Limit: 2})
	var got map[string]int
	found, err := copied.Load("holds", &got)
	for name, pair := range map[string][2]any{
		"journal":    {journal, first[1:]},
		"last":       {last, uint64(7)},
		"placements": {placements, []plan.Placement{{Workload: "/a", Class: workload.Shared}}},
		"moves":      {moves, []plan.Move{{Workload: "/a"}, {Workload: "/b"}}},
		"history":    {history, []plan.Event{{Seq: 2, Time: at, Text: "two"}, {Seq: 3, Time: at, Text: "three"}}},
		"value":      {got, map[string]int{"x": 1}},
	} {
		if d := cmp.Diff(pair[1], pair[0]); d != "" {
			t.Error(name, d)
		}
	}
	if !found || err != nil {
		t.Error(found, err)
	}
	if found, _ := copied.Load("other", new(int)); found {
		t.Error("a value that was not named was copied")
	}
	if journal, _ := m.Journal(); len(journal) != 0 {
		t.Errorf("%+v", journal)
	}
}

// A batch of which a value has no JSON changes nothing.
func TestNothingOfABadBatch(t *testing.T) {
	m := New()
	if err := m.Commit(plan.Batch{Entries: []plan.Entry{{Seq: 1}}, Values: map[string]any{"x": func() {}}}); err == nil {
		t.Fatal("no error")
	}
	if last, _ := m.LastSeq(); last != 0 {
		t.Error("half of it was kept")
	}
}
