package suite

import (
	"testing"
	"time"
)

func TestResultRoundTrip(t *testing.T) {
	for _, r := range []Result{
		{"kernel.distances", OK, 1500 * time.Millisecond, "4 nodes"},
		{"kernel.policy", Fail, 0, "two / lines"},
		{"homenode.run", Skip, 100 * time.Millisecond, ""},
	} {
		l, ok := ParseLine(r.String() + "\r\n")
		if !ok || l.Kind != "TEST" {
			t.Fatalf("%v: parsed as %v", r, l)
		}
		got, err := ParseResult(l.Rest)
		if err != nil || got != r {
			t.Errorf("%+v: came back as %+v, %v", r, got, err)
		}
	}
}

func TestResultRefused(t *testing.T) {
	for _, s := range []string{"", "name", "name ok", "name ok fast", "name maybe 1.0 x"} {
		if r, err := ParseResult(s); err == nil {
			t.Errorf("%q: taken as %+v", s, r)
		}
	}
}

func TestParseLineSkipsNoise(t *testing.T) {
	for _, s := range []string{"", "[    1.0] BUG: x", "TESTname ok", "homenode: moved"} {
		if l, ok := ParseLine(s); ok {
			t.Errorf("%q: taken as %+v", s, l)
		}
	}
}

func TestShapesAreSquareAndSymmetric(t *testing.T) {
	for _, s := range Shapes {
		if len(s.Distance) != s.Nodes {
			t.Errorf("%s: %d rows for %d nodes", s.Name, len(s.Distance), s.Nodes)
		}
		for i, row := range s.Distance {
			for j, d := range row {
				if i == j && d != 10 || i != j && d <= 10 || d != s.Distance[j][i] {
					t.Errorf("%s: distance %d-%d is %d", s.Name, i, j, d)
				}
			}
		}
	}
}
