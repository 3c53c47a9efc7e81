package sim

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/homenode/homenode/core/control"
	"github.com/homenode/homenode/core/plan"
	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/core/words"
	"github.com/homenode/homenode/core/workload"
)

// onlineLocal is the local share of the accesses of online work, each workload counting by the
// CPUs that it keeps busy, and the memory that all work holds.
func onlineLocal(v *control.View) (local float64, held int64) {
	all := 0.0
	for i := range v.Snapshot.Observations {
		o := &v.Snapshot.Observations[i]
		held += int64(workload.Total(o.Memory)) << 10
		share, _, known := o.LocalShare()
		if !known || v.SpecOf(o.ID).Class == workload.Batch {
			continue
		}
		use := max(o.CPUUse, 0.01)
		local, all = local+use*share, all+use
	}
	return local / all, held
}

// TestHouseComesHome plays an hour of the demo in simulated time: online work begins about 40 %
// local, is home within two minutes and stays so, and pages are moved no more than twice.
func TestHouseComesHome(t *testing.T) {
	t.Parallel()
	const hour = time.Hour
	for nodes, seeds := range map[int]int{2: 2, 4: 2, 8: 10} {
		for seed := uint64(1); seed <= uint64(max(1, fewer(seeds))); seed++ {
			t.Run(fmt.Sprintf("%d nodes, seed %d", nodes, seed), func(t *testing.T) {
				t.Parallel()
				trace, err := HouseTrace(HomenodeWorks, nodes, seed, hour)
				if err != nil {
					t.Fatal(err)
				}
				first, least, home, held := -1.0, 1.0, time.Duration(0), int64(0)
				began := time.Time{}
				r := sound(t, Options{Trace: trace, Seed: seed, Policies: []string{"homenode"}, Watch: func(v control.View, events []plan.Event) {
					for i := range events { // what was told before a move ended counts
						if e := &events[i]; e.Code == words.LocalityChanged && e.Move.Moved == 0 {
							t.Errorf("%s: %s, and nothing was moved", e.Workload, e.Text)
						}
					}
					local, now := onlineLocal(&v)
					if first < 0 {
						first, began = local, v.At
					}
					at := v.At.Sub(began)
					if at > hour-2*time.Second { // everything departs
						return
					}
					held = max(held, now)
					if local >= 0.98 && home == 0 {
						home = at
					}
					if at >= 2*time.Minute && local < least {
						least = local
					}
				}})
				moved, moves := r.Policies[0].MovedBytes, r.Policies[0].Moves
				t.Logf("%.1f %% local at first, home after %v, then %.1f %% at least; %d moves, %d GiB moved of %d GiB held", 100*first, home, 100*least, moves, moved>>30, held>>30)
				if first < 0.3 || first > 0.5 {
					t.Errorf("%.1f %% local at first, want about 40 %%", 100*first)
				}
				if home == 0 || home > 2*time.Minute {
					t.Errorf("98 %% local after %v, want two minutes at most", home)
				}
				if least < 0.95 {
					t.Errorf("%.1f %% local later, want 95 %% at least", 100*least)
				}
				if moved > 2*held {
					t.Errorf("%d GiB moved in an hour, %d GiB in use", moved>>30, held>>30)
				}
			})
		}
	}
}

// TestBatchStoryBegins: on a small host, too, the story about batch work shows some within seconds.
func TestBatchStoryBegins(t *testing.T) {
	for _, nodes := range []int{1, 2, 8} {
		trace, err := HouseTrace(BatchWork, nodes, 1, time.Minute)
		if err != nil {
			t.Fatal(err)
		}
		first := slices.IndexFunc(trace.Events, func(e Event) bool { return e.Op == Arrive && e.Demand.Class == workload.Batch })
		if first < 0 || trace.Events[first].At > 10*time.Second {
			t.Errorf("%d nodes: the first batch work is event %d of %d", nodes, first, len(trace.Events))
		}
	}
}

// TestBatchKeepsToItsCPUs: all batch work together keeps no more CPUs busy than it was given, and
// online work does not wait for it.
func TestBatchKeepsToItsCPUs(t *testing.T) {
	t.Parallel()
	for _, nodes := range []int{1, 8} {
		trace, err := HouseTrace(BatchWork, nodes, 1, 2*time.Minute)
		if err != nil {
			t.Fatal(err)
		}
		var given []float64 // in the last scans: what was measured is of the settings before
		most := 0.0
		_ = sound(t, Options{Trace: trace, Seed: 1, Policies: []string{"homenode"}, Watch: func(v control.View, _ []plan.Event) {
			used, cpus := 0.0, topology.CPUSet{}
			for i := range v.Snapshot.Observations {
				o := &v.Snapshot.Observations[i]
				if v.SpecOf(o.ID).Class != workload.Batch {
					if o.Waited > 0.05 {
						t.Errorf("%d nodes: %s waits %.0f %% of its time beside batch work", nodes, o.ID, 100*o.Waited)
					}
					continue
				}
				used += o.CPUUse
				cpus = cpus.Union(o.CPUs)
			}
			given = append(given, float64(cpus.Len()))
			if len(given) > 4 {
				given = given[1:]
			}
			most = max(most, used)
			if used > slices.Max(given)+0.01 {
				t.Errorf("%d nodes: batch work keeps %.1f CPUs busy, and was given %v", nodes, used, given)
			}
		}})
		if most < 2*float64(nodes) {
			t.Errorf("%d nodes: batch work never kept more than %.1f CPUs busy", nodes, most)
		}
	}
}
