package cli

import (
	"fmt"

	"github.com/homenode/homenode/api"
	"github.com/homenode/homenode/core/words"
	"github.com/homenode/homenode/ui/view"
)

// paintState colours a state by what it asks of the reader.
func paintState(p view.Paint, state string) string {
	switch state {
	case api.StateAtHome:
		return p.Good(state)
	case api.StateLeftAlone, api.StateHeld:
		return p.Dim(state)
	}
	return p.Warn(state)
}

// stateOf is the state of a workload, with how far a page move is.
func stateOf(w api.Workload) string {
	if m := w.Move; w.State == api.StateMoving && m != nil && m.Planned > 0 {
		return fmt.Sprintf("%s %d %%", w.State, min(100, m.Moved*100/m.Planned))
	}
	return w.State
}

func kib(n int64) string {
	if n < 0 {
		return "?"
	}
	return words.Size(n)
}

// shorten keeps the end of a long name: that is where cgroup paths differ.
func shorten(s string, most int) string {
	if r := []rune(s); len(r) > most {
		return "…" + string(r[len(r)-most+1:])
	}
	return s
}
