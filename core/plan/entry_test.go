package plan_test

import (
	"slices"
	"testing"

	"github.com/homenode/homenode/core/plan"
	"github.com/homenode/homenode/core/workload"
)

// TestOursWithoutObject: where one side cannot tell things apart, the value alone counts.
func TestOursWithoutObject(t *testing.T) {
	entry := plan.Entry{Old: "0-7", New: "0-3", Past: []string{"4-7"}, Object: "17"}
	for _, value := range []string{"0-7", "0-3", "4-7"} {
		if !entry.Ours(plan.Setting{Value: value}) {
			t.Errorf("%s, of who knows what, is not ours", value)
		}
	}
	if entry.Ours(plan.Setting{Value: "5"}) {
		t.Error("5 is ours")
	}
}

func TestProcessPath(t *testing.T) {
	p := workload.Process{PID: 12, Start: 34}
	if path := plan.ProcessPath(p); path != "12@34" {
		t.Errorf("written as %q", path)
	}
	if got, err := plan.ParseProcessPath("12@34"); err != nil || got != p {
		t.Errorf("read as %+v, %v", got, err)
	}
	if got, err := plan.ParseProcessPath("1@1"); err != nil || got != (workload.Process{PID: 1, Start: 1}) {
		t.Errorf("init: %+v, %v", got, err)
	}
	for _, bad := range []string{"", "12", "12@", "@34", "0@34", "-1@34", "12@0", "12@-1", "12@34@5", "a@34", "0x1@3", "12@34 "} {
		if got, err := plan.ParseProcessPath(bad); err == nil {
			t.Errorf("%q: %+v and no error", bad, got)
		}
	}
}

func TestCausesThatLast(t *testing.T) {
	last := []plan.Cause{plan.Pinned, plan.SharedMem, plan.Special, plan.Denied}
	for _, c := range []plan.Cause{plan.Busy, plan.Pinned, plan.Locked, plan.SharedMem, plan.Special, plan.Denied, plan.NoHugePage, plan.NodeFull, plan.OtherCause, ""} {
		if c.Lasts() != slices.Contains(last, c) {
			t.Errorf("%s: %v", c, c.Lasts())
		}
	}
}

func TestBatchEmpty(t *testing.T) {
	if b := (plan.Batch{}); !b.Empty() {
		t.Error("nothing is not empty")
	}
	for name, b := range map[string]plan.Batch{
		"entries":       {Entries: make([]plan.Entry, 1)},
		"no placements": {Placements: plan.HomesOf(nil)}, // replaces the ledger by an empty one
		"moves":         {Moves: make([]plan.Move, 1)},
		"events":        {Events: make([]plan.Event, 1)},
		"values":        {Values: map[string]any{"k": nil}},
	} {
		if b.Empty() {
			t.Errorf("%s: empty", name)
		}
	}
}
