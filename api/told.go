package api

import (
	"slices"

	"github.com/homenode/homenode/core/plan"
	"github.com/homenode/homenode/core/words"
	"github.com/homenode/homenode/core/workload"
)

// Told is an event as a screen shows it. A page move is one line from its decision to its result:
// each newer event of it stands in place of those before.
type Told struct {
	plan.Event
	Before, After *float64 // of a page move that ended: local share of the workload's accesses
	Replaces      []uint64 // numbers of the events that this one stands for
}

// Tell returns events, which rise by number, with one line for each page move.
func Tell(events []plan.Event) []Told {
	out := make([]Told, 0, len(events))
	open := map[workload.ID]int{} // index of the newest event of a move that goes on
	for i := range events {
		e := Told{Event: events[i]}
		last, under := open[e.Workload]
		follows := false
		switch e.Code {
		case words.Decided:
			follows = under && out[last].Code == e.Code
			open[e.Workload] = len(out)
		case words.MoveBegins, words.MoveRests, words.MoveGoesOn:
			follows = under && !endsMove(out[last].Code)
			open[e.Workload] = len(out)
		case words.MoveEnded, words.MoveEndedPart, words.MoveEndedNone, words.MoveCancelled, words.MoveInterrupted:
			follows = under && !endsMove(out[last].Code)
			open[e.Workload] = len(out)
		case words.LocalityChanged, words.LocalityAfterMove:
			if follows = under && endsMove(out[last].Code); follows {
				e.Text = out[last].Text
			}
			if e.Move != nil {
				e.Before, e.After = e.Move.LocalityBefore, e.Move.LocalityAfter
			}
			delete(open, e.Workload)
		}
		if follows {
			e.Replaces = append(slices.Clone(out[last].Replaces), out[last].Seq)
		}
		out = append(out, e)
	}
	gone := map[uint64]bool{}
	for i := range out {
		for _, seq := range out[i].Replaces {
			gone[seq] = true
		}
	}
	return slices.DeleteFunc(out, func(t Told) bool { return gone[t.Seq] })
}

// endsMove reports whether a page move is over with an event of this code.
func endsMove(code words.Code) bool {
	return code == words.MoveEnded || code == words.MoveEndedPart || code == words.MoveEndedNone ||
		code == words.MoveCancelled || code == words.MoveInterrupted
}
