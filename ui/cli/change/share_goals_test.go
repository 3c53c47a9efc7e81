package change

import (
	"strings"
	"testing"

	"github.com/homenode/homenode/api"
	"github.com/homenode/homenode/ui/view"
)

// TestShareStatusOfGoals: use, the goal that decides and the next step are in the first two lines; with no usable goal
// the target is named.
func TestShareStatusOfGoals(t *testing.T) {
	use, busy, value, slack := 0.74, 0.72, 1.4, 0.3
	s := api.Sharing{On: true, Mode: "enforce", Use: &use, Busy: &busy, Next: "Slack: the use goes from 72 % to 74 %.",
		Goals: []api.ShareGoal{{ID: "db", Metric: "p99", Unit: "ms", Value: &value, Most: 2, Slack: &slack, State: "held", Limits: true}}}
	var out strings.Builder
	writeSharing(&out, view.Paint{}, s)
	want := "sharing is on: 72 % used, up to 74 % by latency goals; db p99 1.4 of 2 ms\nnext step: Slack: the use goes from 72 % to 74 %.\n"
	if !strings.HasPrefix(out.String(), want) {
		t.Errorf("%s\nwant\n%s", out.String(), want)
	}
	g := &s.Goals[0]
	g.Limits, g.State, g.Slack = false, "stale", nil
	g.Why = "Its metric is stale: the newest value is 40 s old."
	out.Reset()
	writeSharing(&out, view.Paint{}, s)
	for _, want := range []string{"up to 74 % by share.target, because no goal can be used", "stale: Its metric is stale"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("%s\nwant %q", out.String(), want)
		}
	}
}

// TestShareStatusOfGoalsByNode: the use counts on the nodes with goals, each has its own, and what is wrong with a
// metric does not push the names of its workload and of the others out of a table of 80 columns.
func TestShareStatusOfGoalsByNode(t *testing.T) {
	use, low, high, busy, value, slack := 0.37, 0.1, 0.64, 0.4, 0.0, 1.0
	s := api.Sharing{On: true, Mode: "enforce", Target: 0.65, Use: &use, Busy: &busy, Next: "The use stays.",
		Nodes: []api.ShareNode{{Node: 0}, {Node: 3, Use: &low}, {Node: 6, Use: &high}},
		Goals: []api.ShareGoal{
			{ID: "/system.slice/elasticsearch-2.service", Metric: "p99 of searches", Unit: "ms", Most: 5, State: "unread", Why: "Its metric cannot be read: no answer within 8s."},
			{ID: "/system.slice/redis.service", Metric: "kernel", Unit: "%", Value: &value, Most: 5, Slack: &slack, State: "held", Limits: true},
		}}
	var out strings.Builder
	writeSharing(&out, view.Paint{Width: 80}, s)
	for _, want := range []string{
		"up to 37 % (10 to 64 % by node) by latency goals on nodes 3,6, 65 % elsewhere; /system.slice/redis.service kernel 0 of 5 %\n",
		"/system.slice/elasticsearch-2.service  p99 of searches ",
		"/system.slice/redis.service            kernel ",
		"/system.slice/elasticsearch-2.service, p99 of searches, is unread: Its metric cannot be read: no answer within 8s.\n",
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("%s\nwant %q", out.String(), want)
		}
	}
	s.Nodes = s.Nodes[1:2] // every node has goals, with one use
	out.Reset()
	writeSharing(&out, view.Paint{Width: 80}, s)
	if want := "up to 37 % by latency goals; /system"; !strings.Contains(out.String(), want) {
		t.Errorf("%s\nwant %q", out.String(), want)
	}
}
