package sim

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/homenode/homenode/core/plan"
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

// TestScenarios holds balancing against the same daemon without it: it helps
// where something is wrong, and where nothing is it does nothing. Nothing ever goes
// back within the ban, and moves are few however the load swings.
func TestScenarios(t *testing.T) {
	t.Parallel()
	helps := map[string]float64{ // utility points that balancing must bring on two nodes
		"load-shift": 5, "day-and-night": 5, "noisy-neighbour": 3, "bandwidth-hogs": 5, "memory-shortage": 1, "swap": 5, "ping-pong": 5,
		"heavy-migrant": 5, "wide-guest": 0, "even-load": 0, "idle-many": 0,
	}
	for _, name := range Scenarios {
		for _, nodes := range []int{2, 4, 8} {
			if nodes == 8 && seeds(t) == 1 {
				continue // minutes
			}
			t.Run(fmt.Sprintf("%s/%d", name, nodes), func(t *testing.T) {
				policies := []string{"homenode", "homes-kept"}
				if seeds(t) > 1 { // the table of docs/balancing.md
					policies = append(policies, "first-fit", "none")
				}
				tallies := make([]tally, len(policies))
				for seed := range seeds(t) {
					trace, err := Scenario(name, nodes, uint64(seed+1))
					if err != nil {
						t.Fatal(err)
					}
					if name == "even-load" {
						trace.Until = 20 * time.Minute // TestNothingToDo takes the day
					}
					r := sound(t, Options{Trace: trace, Seed: uint64(seed + 1), Policies: policies})
					for k := range policies {
						tallies[k].add(&r.Policies[k])
					}
					hours, guests := trace.Until.Hours(), float64(r.Policies[0].Arrivals)
					if most := 1 + guests*hours; float64(r.Policies[0].Rehomed) > most {
						t.Errorf("seed %d: %d homes changed in %.1f hours, of %.0f guests", seed+1, r.Policies[0].Rehomed, hours, guests)
					}
				}
				for k, name := range policies {
					t.Logf("%-10s %v", name, &tallies[k])
				}
				with, without := &tallies[0], &tallies[1]
				if with.returned > 0 {
					t.Errorf("%d workloads went back within 15 minutes", with.returned)
				}
				gain := (with.utility - without.utility) / float64(with.n)
				if gain < -0.5 || nodes == 2 && gain < helps[name] {
					t.Errorf("utility %.2f better; want %v", gain, helps[name])
				}
				if with.important > without.important*1.01 {
					t.Errorf("important work is slowed down %.3f-fold, %.3f-fold without balancing", with.important/float64(with.n), without.important/float64(with.n))
				}
			})
		}
	}
}

// TestNothingToDo is a day on which nothing is wrong.
func TestNothingToDo(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"even-load", "idle-many"} {
		trace, err := Scenario(name, 4, 7)
		if err != nil {
			t.Fatal(err)
		}
		trace.Until = 24 * time.Hour
		r := sound(t, Options{Trace: trace, Seed: 7, Period: 20 * time.Second, Policies: []string{"homenode"}})
		if p := r.Policies[0]; p.Rehomed != 0 || p.Moves != 0 || p.Seconds < 24*3600 {
			t.Errorf("%s: %d homes changed, %d page moves in %.0f s", name, p.Rehomed, p.Moves, p.Seconds)
		}
	}
}

// TestSwapIsTold: where only a swap pays, the history tells of one, with numbers.
func TestSwapIsTold(t *testing.T) {
	trace, err := Scenario("swap", 2, 1)
	if err != nil {
		t.Fatal(err)
	}
	found := ""
	sound(t, Options{Trace: trace, Seed: 1, Policies: []string{"homenode"}, breakHomenode: func(h *homenode) {
		h.listen = func(e plan.Event) {
			if strings.HasPrefix(e.Text, "balancing: swap") {
				found = e.Text
			}
		}
	}})
	if !strings.Contains(found, "saves") || !strings.Contains(found, " and ") {
		t.Errorf("told %q", found)
	}
}
