package control

import (
	"math/rand/v2"
	"testing"

	"github.com/bmatcuk/doublestar/v4"
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
