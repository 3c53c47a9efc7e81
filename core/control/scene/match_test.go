package scene

import (
	"math/rand/v2"
	"testing"

	"github.com/bmatcuk/doublestar/v4"

	"github.com/homenode/homenode/core/workload"
)

// TestMatches: looking at what a pattern begins with first changes nothing.
func TestMatches(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 1))
	parts := []string{"a", "b", "/", "/", "*", "**", "?", "[ab]", "{a,b/a}", "{,a}", `\*`, `\a`, "a/", "/a", "ab"}
	fits := 0
	for range 200_000 {
		draw := func(from []string) (s string) {
			for range r.IntN(6) {
				s += from[r.IntN(len(from))]
			}
			return s
		}
		pattern, text := draw(parts), draw([]string{"a", "b", "/", "ab", "a/", "/a", "*"})
		want := doublestar.MatchUnvalidated(pattern, text)
		if got := matches(pattern, text); got != want {
			t.Fatalf("%q on %q: %t, want %t", pattern, text, got, want)
		}
		if want {
			fits++
		}
	}
	if fits < 1000 {
		t.Fatalf("only %d fit: the test tests nothing", fits)
	}
}

// TestNames: a cgroup counts however small it is when the first rule that fits makes it batch work, or
// gives it a tier other than normal or a latency goal.
func TestNames(t *testing.T) {
	rules := []workload.Rule{
		{Match: "/system.slice/web*", Tier: workload.OnlineStrict},
		{Match: "/system.slice/encode*", Class: workload.Batch},
		{Match: "cache", Tier: workload.Normal},
		{Match: "/system.slice/*", Class: workload.Dedicated},
		{Match: "mail", Tier: workload.Online},
		{Match: "search", Goals: []workload.Goal{{Metric: "p99"}}},
	}
	for _, c := range []struct {
		cgroup, name string
		want         bool
	}{
		{"/system.slice/web.service", "web", true},
		{"/system.slice/encode.service", "encode", true},
		{"/system.slice/cache.service", "cache", false},
		{"/system.slice/mail.service", "mail", false}, // an earlier rule fits
		{"/mail", "mail", true},
		{"/search", "search", true},
		{"/other", "other", false},
	} {
		if got := Names(rules, c.cgroup, c.name); got != c.want {
			t.Errorf("%s, %s: %t, want %t", c.cgroup, c.name, got, c.want)
		}
	}
}
