package main

import (
	"math/rand/v2"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

func TestMedian(t *testing.T) {
	for _, c := range []struct {
		x    []float64
		want float64
	}{{[]float64{3}, 3}, {[]float64{4, 1}, 2.5}, {[]float64{9, 1, 5}, 5}} {
		if got := median(c.x); got != c.want {
			t.Errorf("%v: %v, want %v", c.x, got, c.want)
		}
	}
}

// TestChangeIsBySeed: an interval holds the estimate, and the same seed gives the same one.
func TestChangeIsBySeed(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		runs := rapid.SliceOfN(rapid.Float64Range(1, 1000), 3, 9)
		a, b, seed := runs.Draw(t, "a"), runs.Draw(t, "b"), rapid.Uint64().Draw(t, "seed")
		x := change(a, b, seed)
		if x != change(a, b, seed) {
			t.Fatal("another interval by the same seed")
		}
		if x.Low > x.Value || x.Value > x.High {
			t.Fatalf("%+v does not hold its own value", x)
		}
	})
}

// TestChangeCovers: of many experiments in which nothing changes, nearly all have 0 in the
// interval, and of those with twice the time none.
func TestChangeCovers(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	runs := func(mean float64) []float64 {
		x := make([]float64, 7)
		for i := range x {
			x[i] = mean * (1 + 0.05*r.NormFloat64())
		}
		return x
	}
	held, apart := 0, 0
	for i := range 100 {
		if x := change(runs(1), runs(1), uint64(i)); x.Low <= 0 && x.High >= 0 {
			held++
		}
		if x := change(runs(1), runs(2), uint64(i)); x.Low > 0 {
			apart++
		}
	}
	if held < 85 || apart < 100 {
		t.Errorf("0 lies in %d of 100 intervals without a change, and outside %d of 100 with one", held, apart)
	}
}

func TestOrder(t *testing.T) {
	cases := []string{"B", "C", "W", "T"}
	all := order(cases, 7, 3)
	if !slices.Equal(all, order(cases, 7, 3)) || slices.Equal(all, order(cases, 7, 4)) {
		t.Error("the order is not the seed's")
	}
	for i := 0; i < len(all); i += len(cases) {
		if round := slices.Sorted(slices.Values(all[i : i+4])); !slices.Equal(round, []string{"B", "C", "T", "W"}) {
			t.Errorf("round %v", round)
		}
	}
}

func TestPasses(t *testing.T) {
	for _, c := range []struct {
		high, busy float64
		want       bool
	}{{0.04, 0.65, true}, {0.05, 0.65, false}, {0.04, 0.60, false}, {-0.1, 0.9, true}} {
		if got := passes(interval{High: c.high}, c.busy); got != c.want {
			t.Errorf("%+v: %v", c, got)
		}
	}
}
