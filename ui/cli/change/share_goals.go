package change

import (
	"fmt"
	"io"

	"github.com/homenode/homenode/api"
	"github.com/homenode/homenode/core/share/goal"
	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/core/words"
	"github.com/homenode/homenode/core/workload"
	"github.com/homenode/homenode/ui/view"
)

// writeGoals prints the use, the goal that decides, and the next step; then all goals.
func writeGoals(w io.Writer, p view.Paint, s *api.Sharing, how string) {
	busy := "?"
	if s.Busy != nil {
		busy = fmt.Sprintf("%.0f", 100*min(1, *s.Busy))
	}
	by, tightest := "by share.target, because no goal can be used", ""
	if g := s.Decides(); g != nil {
		by, tightest = "by latency goals", fmt.Sprintf("; %s %s", g.ID, g.Text())
	}
	most := fmt.Sprintf("%.0f %%%s", 100**s.Use, useRange(s.Nodes))
	line := fmt.Sprintf("sharing is on: %s %% used, up to %s %s%s%s", busy, most, by, whereGoals(s), how)
	fmt.Fprintf(w, "%s%s\nnext step: %s\n\n", line, tightest, s.Next)
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
	for i := range s.Goals {
		if g := &s.Goals[i]; g.Why != "" {
			fmt.Fprintf(w, "%s, %s, is %s: %s\n", g.ID, g.Metric, p.Warn(g.State), g.Why)
		}
	}
	fmt.Fprintln(w)
}

// useRange is the least and the highest use of the nodes with goals, where these differ.
func useRange(nodes []api.ShareNode) string {
	least, most := 1.0, 0.0
	for i := range nodes {
		if use := nodes[i].Use; use != nil {
			least, most = min(least, *use), max(most, *use)
		}
	}
	from, to := fmt.Sprintf("%.0f", 100*least), fmt.Sprintf("%.0f", 100*most)
	if most < least || from == to {
		return ""
	}
	return fmt.Sprintf(" (%s to %s %% by node)", from, to)
}

// whereGoals names the nodes with goals, where the target holds on others.
func whereGoals(s *api.Sharing) string {
	with := topology.NodeSet{}
	for i := range s.Nodes {
		if s.Nodes[i].Use != nil {
			with.Add(s.Nodes[i].Node)
		}
	}
	if with.Empty() || with.Len() == len(s.Nodes) {
		return ""
	}
	return fmt.Sprintf(" on %s, %.0f %% elsewhere", words.Nodes(with), 100*s.Target)
}

func goalState(p view.Paint, g *api.ShareGoal) string {
	if g.State == goal.Fine || g.State == goal.Near {
		return g.State
	}
	return p.Warn(g.State)
}
