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
		busy = fmt.Sprintf("%.0f", 100**s.Busy)
	}
	line := fmt.Sprintf("sharing is on: %s %% used, up to %.0f %% by latency goals%s", busy, 100**s.Use, how)
	for i := range s.Goals {
		if g := &s.Goals[i]; g.Limits {
			line += fmt.Sprintf("; %s %s", g.ID, GoalValue(g))
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

// GoalValue returns a goal as "p99 1.4 of 2 ms".
func GoalValue(g *api.ShareGoal) string {
	now := "unknown"
	if g.Value != nil {
		now = workload.WithUnit(*g.Value, "")
	}
	return fmt.Sprintf("%s %s of %s", g.Metric, now, workload.WithUnit(g.Most, g.Unit))
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
