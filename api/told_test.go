package api

import (
	"slices"
	"testing"

	"github.com/homenode/homenode/core/plan"
	"github.com/homenode/homenode/core/words"
)

// A page move is one line, from its decision to what it gained; the next move of the workload, and
// what happens to others, are lines of their own.
func TestOneLineForEachMove(t *testing.T) {
	before, after := 0.33, 1.0
	event := func(seq uint64, code words.Code, text string) plan.Event {
		return plan.Event{Seq: seq, Workload: "vm:a", Code: code, Text: text}
	}
	all := []plan.Event{
		event(1, words.Decided, "placed"),
		{Seq: 2, Workload: "vm:b", Code: words.Decided, Text: "placed elsewhere"},
		event(3, words.MoveBegins, "moving"),
		event(4, words.MoveEnded, "moved"),
		{Seq: 5, Workload: "vm:a", Kind: plan.EventStep, Text: "set-mems"},
		event(6, words.LocalityChanged, "locality after the move"),
		event(7, words.Decided, "placed again"),
		event(8, words.MoveBegins, "moving again"),
	}
	all[5].Move = &plan.Move{LocalityBefore: &before, LocalityAfter: &after}
	for n, want := range map[int][]string{
		1: {"placed"}, 3: {"placed elsewhere", "moving"}, 4: {"placed elsewhere", "moved"},
		6: {"placed elsewhere", "set-mems", "moved"}, 8: {"placed elsewhere", "set-mems", "moved", "moving again"},
	} {
		var got []string
		for _, line := range Tell(all[:n]) {
			got = append(got, line.Text)
		}
		if !slices.Equal(got, want) {
			t.Errorf("%d events: %q, want %q", n, got, want)
		}
	}
	line := Tell(all[:6])[2]
	if line.Before == nil || *line.Before != before || *line.After != after || !slices.Equal(line.Replaces, []uint64{1, 3, 4}) {
		t.Errorf("the line of the move: %+v", line)
	}
}
