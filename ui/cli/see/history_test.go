package see

import (
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/homenode/homenode/core/plan"
	"github.com/homenode/homenode/core/words"
	"github.com/homenode/homenode/core/workload"
	"github.com/homenode/homenode/ui/view"
)

// A sentence that names its workload has no name before it.
func TestEventsNameTheirWorkloadOnce(t *testing.T) {
	for text, want := range map[string]string{
		"move pid:15 from node 2 to node 1.":   "plan     move pid:15 from node 2 to node 1.",
		"move pid:1544 from node 2 to node 1.": "plan     pid:15 move pid:1544 from node 2 to node 1.",
		"placed: node 1.":                      "plan     pid:15 placed: node 1.",
		"gone":                                 "plan     pid:15 gone",
	} {
		var b strings.Builder
		printEvents(&b, view.Paint{}, []plan.Event{{Kind: plan.EventPlan, Workload: "pid:15", Text: text}}, true)
		if !strings.HasSuffix(b.String(), "  "+want+"\n") {
			t.Errorf("%q; want %q", b.String(), want)
		}
	}
}

// TestFolded: changes of the CPUs of one workload are one line, the last, where nothing else happened to it between
// them.
func TestFolded(t *testing.T) {
	at := time.Date(2026, 11, 22, 14, 30, 0, 0, time.Local)
	event := func(id workload.ID, code words.Code, text string) plan.Event {
		at = at.Add(time.Second)
		return plan.Event{Time: at, Kind: plan.EventStep, Workload: id, Code: code, Text: text}
	}
	cpus := func(id workload.ID, text string) plan.Event { return event(id, words.StepTook, "set-cpus: "+text) }
	all := []plan.Event{
		cpus("/b", "1"), cpus("/c", "2"), cpus("/b", "3"), cpus("/b", "4"), cpus("/c", "5"),
		event("/b", words.StepTook, "set-mems: 6"), cpus("/b", "7"), cpus("/b", "8"),
		event("/b", words.StepFailed, "set-cpus: 9"), cpus("/d", "10"), cpus("/d", "11"), cpus("/d", "12"),
	}
	var got []string
	for _, ev := range folded(all) {
		got = append(got, string(ev.Workload)+" "+ev.Text)
	}
	want := []string{
		"/c set-cpus: 2", "/b set-cpus: 4 (3 changes since 14:30:01)", "/c set-cpus: 5", "/b set-mems: 6",
		"/b set-cpus: 7", "/b set-cpus: 8", "/b set-cpus: 9", "/d set-cpus: 12 (3 changes since 14:30:10)",
	}
	if !slices.Equal(got, want) {
		t.Errorf("%q", got)
	}
	if all[3].Text != "set-cpus: 4" || folded(nil) != nil {
		t.Error("the events were changed")
	}
}

func TestTimeOf(t *testing.T) {
	zone := time.FixedZone("east", 2*3600)
	now := time.Date(2026, 11, 22, 14, 30, 15, 0, zone)
	for text, want := range map[string]string{
		"":                          "0001-01-01T00:00:00Z",
		"0s":                        "2026-11-22T14:30:15+02:00",
		"1h":                        "2026-11-22T13:30:15+02:00",
		"1h30m":                     "2026-11-22T13:00:15+02:00",
		"2d":                        "2026-11-20T14:30:15+02:00",
		"1w":                        "2026-11-15T14:30:15+02:00",
		"10:30":                     "2026-11-22T10:30:00+02:00",
		"10:30:05":                  "2026-11-22T10:30:05+02:00",
		"2026-11-21":                "2026-11-21T00:00:00+02:00",
		"2026-11-21T10:00":          "2026-11-21T10:00:00+02:00",
		"2026-11-21 10:00:07":       "2026-11-21T10:00:07+02:00",
		"2026-11-21T10:00:00Z":      "2026-11-21T10:00:00Z",
		"2026-11-21T10:00:00+05:00": "2026-11-21T10:00:00+05:00",
	} {
		if got, err := timeOf(text, now); err != nil || got.Format(time.RFC3339) != want {
			t.Errorf("%q: %v, %v; want %s", text, got, err, want)
		}
	}
	for _, text := range []string{"noon", "-1h", "-2d", "25:00", "2026-13-01", "1", "d", "w", "1.5d", "99999d"} {
		if got, err := timeOf(text, now); err == nil {
			t.Errorf("%q is %v", text, got)
		}
	}
	rapid.Check(t, func(t *rapid.T) { timeOf(rapid.String().Draw(t, "text"), now) })
}
