package cli

import (
	"fmt"

	"github.com/homenode/homenode/api"
	"github.com/homenode/homenode/core/words"
	"github.com/homenode/homenode/ui/figures"
	"github.com/homenode/homenode/ui/view"
)

// PaintState colours a state by what it asks of the reader.
func PaintState(p view.Paint, state string) string {
	switch state {
	case api.StateAtHome:
		return p.Good(state)
	case api.StateLeftAlone, api.StateHeld:
		return p.Dim(state)
	}
	return p.Warn(state)
}

// StateOf is the state of a workload, with how far a page move is.
func StateOf(w api.Workload) string {
	if m := w.Move; w.State == api.StateMoving && m != nil && m.Planned > 0 {
		return fmt.Sprintf("%s %d %%", w.State, min(100, m.Moved*100/m.Planned))
	}
	return w.State
}

func KiB(n int64) string {
	if n < 0 {
		return "?"
	}
	return words.Size(n)
}

// PaintLocal is a locality, marked where much of the memory is remote.
func PaintLocal(p view.Paint, share *float64) string {
	if share != nil && *share < figures.FewLocal {
		return p.Warn(Percent(share))
	}
	return Percent(share)
}
