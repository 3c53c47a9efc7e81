package main

import (
	"math"
	"path/filepath"
	"strings"
	"testing"

	"github.com/homenode/homenode/core/place"
	"github.com/homenode/homenode/core/place/replay"
)

const host4 = `"host":{"nodes":[{"id":0,"cpus":[0,1,2,3],"mem_mib":4096}],"cores":[[0],[1],[2],[3]],"l3":[[0,1,2,3]],"slit":[[10]]}`

func mustRead(t *testing.T, text string) *replay.Case {
	t.Helper()
	c, err := replay.Read(strings.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// TestLimit: sizes 1 and 4 come equally often to 4 CPUs, twice in all, and stay as
// long as it takes until the next comes. By hand: with one to come W(∅) = 5/2, W(small) =
// (1/2 + 5/2)/2 = 3/2, W(large) = 5/4; with two W(∅) = (max(5/2, 1+3/2) + max(5/2, 4+5/4))/2 = 31/8.
func TestLimit(t *testing.T) {
	c := mustRead(t, `{"name":"c",`+host4+`,"events":[{"op":"arrive","vm":"a","vcpus":1,"mem_mib":1},{"op":"arrive","vm":"b","vcpus":4,"mem_mib":1}]}`)
	got := limit(c)
	if want := 31.0 / 8 / 5; math.Abs(got.Mean-want) > 1e-12 {
		t.Errorf("mean %v, want %v", got.Mean, want)
	}
	if got.Greedy != 1.0/5 {
		t.Errorf("greedy %v, want the small one alone", got.Greedy)
	}
}

// TestMeterBooksMoves: the meter keeps its own book of moves and sees what is
// wrong with them.
func TestMeterBooksMoves(t *testing.T) {
	two := `"host":{"nodes":[{"id":0,"cpus":[0,1],"mem_mib":4096},{"id":1,"cpus":[2,3],"mem_mib":4096}],"cores":[[0],[1],[2],[3]],"l3":[[0,1],[2,3]],"slit":[[10,21],[21,10]]}`
	c := mustRead(t, `{"name":"c",`+two+`,"events":[{"op":"preplace","vm":"a","cpus":[0],"mem":{"0":1024}},{"op":"preplace","vm":"b","cpus":[2],"mem":{"1":1024}},
		{"op":"arrive","vm":"n0","vcpus":1,"mem_mib":1},{"op":"depart","vm":"n0"},{"op":"arrive","vm":"n1","vcpus":1,"mem_mib":1},{"op":"depart","vm":"n1"},
		{"op":"arrive","vm":"c","vcpus":2,"mem_mib":1024}]}`)
	m := newMeter(c, "homenode")
	var last *replay.Answer
	err := replay.Run(c, replay.Options{Repack: true, Answered: func(a *replay.Answer, l *place.Ledger) error {
		last = a
		return m.answered(a, l)
	}})
	if err != nil {
		t.Fatal(err)
	}
	s := m.score()
	if !last.OK || s.Moves != 1 || s.MovedGiB != 1 || s.Utility != 1 || s.Lasting != 1 || len(s.Bad) != 0 {
		t.Errorf("answer %+v, score %+v", last, s)
	}
	m.move([]replay.Moved{{Move: place.Move{Workload: "a", To: last.Result.Placement}}})
	if s = m.score(); s.Bad["double_cpu"] != 2 {
		t.Errorf("two CPUs are used twice; it counts %v", s.Bad)
	}
}

// TestSharedTraces holds what bench/results/placement.md says of moves, where the shared cases are.
func TestSharedTraces(t *testing.T) {
	paths, err := filepath.Glob("../../../shared/cases/cases/churn_*.json")
	if err != nil || len(paths) == 0 {
		t.Skip("no shared cases here")
	}
	sum := 0.0
	for _, path := range paths {
		c, err := read(path)
		if err != nil {
			t.Fatal(err)
		}
		m := newMeter(c, "homenode")
		if err := replay.Run(c, replay.Options{Repack: true, Answered: m.answered}); err != nil {
			t.Fatal(err)
		}
		s := m.score()
		if len(s.Bad) > 0 || 2*s.Moves > s.N || s.Lasting < s.Utility-1e-9 {
			t.Errorf("%s: violations %v, %d moves in %d arrivals, utility %v, lasting %v", s.Case, s.Bad, s.Moves, s.N, s.Utility, s.Lasting)
		}
		sum += s.Utility
	}
	if mean := sum / float64(len(paths)); mean < 0.82 {
		t.Errorf("mean utility %v with moves; it was 0.8207", mean)
	}
}
