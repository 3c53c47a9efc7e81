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
	g.Why = "Its metric is stale: the newest value is 40s old."
	out.Reset()
	writeSharing(&out, view.Paint{}, s)
	for _, want := range []string{"up to 74 % by share.target, because no goal can be used", "stale: Its metric is stale"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("%s\nwant %q", out.String(), want)
		}
	}
}
