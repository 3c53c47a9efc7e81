package sharing

import (
	"os"
	"strconv"
	"testing"
)

// played plays some scenarios with a few seeds (SEEDS is how many, SEED the first) under one policy, and
// returns the mean.
func played(t *testing.T, policy string, every int) (sum GoalScore) {
	first, seeds := 1, 1
	if n, err := strconv.Atoi(os.Getenv("SEED")); err == nil {
		first = n
	}
	if n, err := strconv.Atoi(os.Getenv("SEEDS")); err == nil {
		seeds, every = n, 1
	}
	n := 0.0
	for i, s := range GoalScenarios() {
		if i%every != 0 {
			continue
		}
		for seed := first; seed < first+seeds; seed++ {
			x, err := RunGoals(&s, policy, uint64(seed))
			if err != nil {
				t.Error(err)
			}
			t.Logf("%-46s seed %d, %-16s use %.3f busy %.3f possible %.3f violated %.4f any %.4f recovery %.1f turns %.2f", s.Name, seed, policy, x.Use, x.Busy, x.Possible, x.Violated, x.Any, x.Recovery, x.Turns)
			sum.Use += x.Use
			sum.Violated += x.Violated
			sum.Turns += x.Turns
			sum.Possible += x.Possible
			n++
		}
	}
	return GoalScore{Use: sum.Use / n, Violated: sum.Violated / n, Turns: sum.Turns / n, Possible: sum.Possible / n}
}

// TestGoalsBeatTheTarget: with goals more CPUs are used than with the target, and goals are missed at most half a
// percent of the time.
func TestGoalsBeatTheTarget(t *testing.T) {
	const every = 3 // steady, bursts, ramps, days, dedicated work, many nodes and overload
	goals, target := played(t, Goals, every), played(t, Homenode, every)
	if goals.Use < target.Use+0.08 {
		t.Errorf("use %.3f with goals, %.3f with the target", goals.Use, target.Use)
	}
	if goals.Violated > 0.005 {
		t.Errorf("goals are missed %.4f of the time", goals.Violated)
	}
	if goals.Turns > target.Turns+0.4 {
		t.Errorf("%.2f reversals a minute with goals, %.2f with the target", goals.Turns, target.Turns)
	}
}

// TestPeersAreWorse: published rules reach less use, or miss goals more often. The test fails if one does better
// in both.
func TestPeersAreWorse(t *testing.T) {
	const every = 7
	goals := played(t, Goals, every)
	for _, p := range []string{KoordQuota, PerfIso, Heracles, Parties, Nothing} {
		x := played(t, p, every)
		if x.Use > goals.Use && x.Violated < goals.Violated {
			t.Errorf("%s: use %.3f, violated %.4f; homenode %.3f, %.4f", p, x.Use, x.Violated, goals.Use, goals.Violated)
		}
	}
}

// TestLatencyModel: the model does what its description says.
func TestLatencyModel(t *testing.T) {
	h := newHost("node:1 core:16 pu:2", 1)
	n := h.nodes[0]
	n.pool = 32
	h.batchHas = shareOf{1, 1}
	at := func(want, batch float64) float64 { return h.latency(n, want, batch, 32) }
	idle := at(1, 0)
	if idle < tail || idle > 1.05*tail {
		t.Errorf("p99 of an idle host: %.2f S0, want %.2f", idle, tail)
	}
	for want := 1.0; want < 31; want++ {
		if at(want+1, 0) < at(want, 0)-1e-9 || at(want, 2) < at(want, 0)-1e-9 {
			t.Errorf("latency falls at %v CPUs", want)
		}
	}
	if x := at(8, 20); x < 1.2*at(8, 0) {
		t.Errorf("batch work on the siblings costs too little: %.2f, %.2f", x, at(8, 0))
	}
	h.harm = harm{cache: 0.4}
	whole := at(8, 8)
	h.batchHas.ways = 0.1
	if few := at(8, 8); few >= whole {
		t.Errorf("fewer ways for batch work bring nothing: %.2f, %.2f", few, whole)
	}
	if x := h.latency(n, 8, 16, 16); x <= h.latency(n, 8, 16, 24) {
		t.Error("fewer CPUs for online work cost nothing")
	}
}
