package change

import (
	"fmt"
	"io"

	"github.com/homenode/homenode/api"
	"github.com/homenode/homenode/core/share/goal"
	"github.com/homenode/homenode/core/workload"
	"github.com/homenode/homenode/ui/view"
)

// writeGoals prints the use, the goal that decides, and the next step; then all goals.
func writeGoals(w io.Writer, p view.Paint, s *api.Sharing, how string) {
	busy := "?"
	if s.Busy != nil {
		busy = fmt.Sprintf("%.0f", 100*min(1, *s.Busy))
	}
	by, decides := "by share.target, because no goal can be used", false
	for i := range s.Goals {
		decides = decides || s.Goals[i].Limits
	}
	if decides {
		by = "by latency goals"
	}
	line := fmt.Sprintf("sharing is on: %s %% used, up to %.0f %% %s%s", busy, 100**s.Use, by, how)
	for i := range s.Goals {
		if g := &s.Goals[i]; g.Limits {
			line += fmt.Sprintf("; %s %s", g.ID, g.Text())
		}
	}
	fmt.Fprintf(w, "%s\nnext step: %s\n\n", line, s.Next)
	t := view.NewTable("GOAL OF", "METRIC", ">NOW", ">MOST", ">LEFT", "STATE")
	for i := range s.Goals {
		g := &s.Goals[i]
		now, left := "-", "-"
		if g.Value != nil {
			now = workload.WithUnit(*g.Value, g.Unit)
		}
		if g.Slack != nil {
			left = fmt.Sprintf("%.0f %%", 100**g.Slack)
		}
		t.Row(string(g.ID), g.Metric, now, workload.WithUnit(g.Most, g.Unit), left, goalState(p, g))
	}
	t.Print(w, p)
	fmt.Fprintln(w)
}

func goalState(p view.Paint, g *api.ShareGoal) string {
	state := g.State
	if g.Why != "" {
		state += ": " + g.Why
	}
	if g.State == goal.Fine || g.State == goal.Near {
		return state
	}
	return p.Warn(state)
}
