package sim

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/homenode/homenode/core/control"
	"github.com/homenode/homenode/core/plan"
	"github.com/homenode/homenode/core/words"
)

// seeds is how many variants of each scenario are run; HOMENODE_SCENARIO_SEEDS
// changes it.
func seeds(t *testing.T) int {
	text := os.Getenv("HOMENODE_SCENARIO_SEEDS")
	if text == "" {
		return 1
	}
	n, err := strconv.Atoi(text)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// tally is the mean of scores.
type tally struct {
	access, utility, served, important, gib float64
	rehomed, returned, n                    int
}

func (t *tally) add(p *Score) {
	t.access += p.AccessNs
	t.utility += p.Utility
	t.served += p.CPUServed
	t.important += p.Important
	t.gib += float64(p.MovedBytes) / (1 << 30)
	t.rehomed += p.Rehomed
	t.returned += p.Returned
	t.n++
}

func (t *tally) String() string {
	n := float64(t.n)
	return fmt.Sprintf("access %5.1f ns, utility %5.2f, CPU %.3f, important %.3f, homes changed %.1f, back %d, moved %.1f GiB",
		t.access/n, t.utility/n, t.served/n, t.important/n, float64(t.rehomed)/n, t.returned, t.gib/n)
}

// TestScenarios holds every scenario to what the daemon must never do, and
// balancing against the same daemon without it. bench/balance does the former for
// 50 seeds and three sizes of host, beside other ways to run the machine.
func TestScenarios(t *testing.T) {
	t.Parallel()
	// Utility points that balancing must bring on two nodes. None on noisy-neighbour: the important
	// guest counts by what it uses when the others come, and they come to lie elsewhere.
	helps := map[string]float64{
		"load-shift": 5, "slow-ramp": 5, "day-and-night": 5, "bandwidth-hogs": 5, "memory-shortage": 1,
		"memory-lost": 1, "ping-pong": 5, "departures": 5, "heavy-migrant": 5,
	}
	sizes := []int{2, 4, 8}
	if raceEnabled || seeds(t) == 1 {
		sizes = []int{2, 4}
	}
	for _, name := range Scenarios {
		for _, nodes := range sizes {
			if raceEnabled && nodes > 2 && helps[name] > 0 {
				continue
			}
			t.Run(fmt.Sprintf("%s/%d", name, nodes), func(t *testing.T) {
				t.Parallel()
				tallies := make([]tally, 2)
				for seed := range seeds(t) {
					trace, err := Scenario(name, nodes, uint64(seed+1))
					if err != nil {
						t.Fatal(err)
					}
					policies := []string{"homenode", "homes-kept"}
					if raceEnabled && nodes > 2 {
						policies = policies[:1]
					}
					r := sound(t, Options{Trace: trace, Seed: uint64(seed + 1), Policies: policies})
					for k := range policies {
						tallies[k].add(&r.Policies[k])
					}
					for _, text := range trace.Breaks(&r.Policies[0]) {
						t.Errorf("seed %d: %s", seed+1, text)
					}
				}
				with, without := &tallies[0], &tallies[1]
				t.Logf("balanced %v", with)
				if without.n == 0 {
					return
				}
				t.Logf("kept     %v", without)
				gain := (with.utility - without.utility) / float64(with.n)
				if gain < -2 || nodes == 2 && helps[name] > 0 && gain < helps[name] {
					t.Errorf("utility %.2f better; want %v", gain, helps[name])
				}
				if with.important > without.important*1.01 {
					t.Errorf("important work is slowed down %.3f-fold, %.3f-fold without balancing", with.important/float64(with.n), without.important/float64(with.n))
				}
			})
		}
	}
}

// TestNothingToDo is a day on which nothing is wrong, or, under the race detector,
// an hour.
func TestNothingToDo(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"even-load", "idle-many"} {
		trace, err := Scenario(name, 4, 7)
		if err != nil {
			t.Fatal(err)
		}
		trace.Until = 24 * time.Hour
		if raceEnabled {
			trace.Until = time.Hour
		}
		r := sound(t, Options{Trace: trace, Seed: 7, Period: 20 * time.Second, Policies: []string{"homenode"}})
		if p := r.Policies[0]; p.Rehomed != 0 || p.Moves != 0 || p.Seconds < trace.Until.Seconds() {
			t.Errorf("%s: %d homes changed, %d page moves in %.0f s", name, p.Rehomed, p.Moves, p.Seconds)
		}
	}
}

// TestRecognisedIsShielded: an important guest of which nobody has said so fares better where what is recognised
// counts than where it is only suggested.
func TestRecognisedIsShielded(t *testing.T) {
	t.Parallel()
	var with, without float64
	for seed := range uint64(4) {
		slowed := map[control.Recognise]float64{}
		for _, how := range []control.Recognise{control.RecogniseSuggest, control.RecogniseApply} {
			trace, err := Scenario("important-untold", 4, seed+1)
			if err != nil {
				t.Fatal(err)
			}
			trace.Recognise = how
			slowed[how] = sound(t, Options{Trace: trace, Seed: seed + 1, Policies: []string{"homenode"}}).Policies[0].Important
		}
		with, without = with+slowed[control.RecogniseApply], without+slowed[control.RecogniseSuggest]
	}
	t.Logf("slowed down %.4f-fold where it counts, %.4f-fold where it is suggested", with/4, without/4)
	if with >= without {
		t.Errorf("slowed down %.4f-fold where it counts, %.4f-fold where it is suggested", with/4, without/4)
	}
}

// TestSwapIsTold: where only a swap pays, the history tells of one, with numbers,
// and it pays. Only in some seeds do the two busy guests share a node.
func TestSwapIsTold(t *testing.T) {
	t.Parallel()
	const seed = 2
	trace, err := Scenario("swap", 2, seed)
	if err != nil {
		t.Fatal(err)
	}
	found := ""
	r := sound(t, Options{Trace: trace, Seed: seed, Policies: []string{"homenode"}, breakHomenode: func(h *homenode) {
		h.listen = func(e plan.Event) {
			if e.Code == words.Doing && strings.HasPrefix(e.Text, "swap") {
				found = e.Text
			}
		}
	}})
	if !strings.Contains(found, "saves") || !strings.Contains(found, " and ") {
		t.Errorf("told %q", found)
	}
	kept := sound(t, Options{Trace: trace, Seed: seed, Policies: []string{"homes-kept"}})
	if gain := r.Policies[0].Utility - kept.Policies[0].Utility; gain < 5 {
		t.Errorf("utility %.2f better; want 5", gain)
	}
}
