package replay

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/homenode/homenode/core/place"
	"github.com/homenode/homenode/core/plan"
	"github.com/homenode/homenode/core/plan/plantest"
	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/core/workload"
)

// drawTrace is a trace that keeps a small host about full.
func drawTrace(t *rapid.T) *Case {
	c := &Case{
		Name: "drawn", Policy: plan.DefaultPolicy(),
		Host: plantest.Grid(rapid.IntRange(2, 4).Draw(t, "nodes"), 4, 2, 16*plantest.GiB, plantest.Flat(21)),
	}
	var there []workload.ID
	for i := range rapid.IntRange(10, 60).Draw(t, "events") {
		if len(there) > 0 && rapid.IntRange(0, 9).Draw(t, "departs") < 4 {
			k := rapid.IntRange(0, len(there)-1).Draw(t, "who")
			c.Events = append(c.Events, Event{Op: Depart, VM: there[k]})
			there = append(there[:k], there[k+1:]...)
			continue
		}
		id := workload.ID(fmt.Sprintf("v%d", i))
		v := rapid.SampledFrom([]int{1, 2, 3, 4, 8, 12}).Draw(t, "vCPUs")
		c.Events = append(c.Events, Event{Op: Arrive, VM: id, Spec: workload.Spec{
			ID: id, Class: workload.Dedicated, CPUs: v, Memory: topology.KiB(v*rapid.IntRange(1, 4).Draw(t, "GiB a vCPU")) * plantest.GiB, Given: true,
		}})
		there = append(there, id)
	}
	return c
}

// TestRepackKeepsTheRules: at most one move for every two arrivals so far, none of more
// memory than the moved workload has, every state on the way passes, and the same
// trace has the same answers.
func TestRepackKeepsTheRules(t *testing.T) {
	all := 0
	rapid.Check(t, func(t *rapid.T) {
		c := drawTrace(t)
		st := plan.State{Host: c.Host, Policy: c.Policy}
		run := func() (answers []Answer) {
			shadow := place.NewLedger(st)
			arrivals, moves, next := 0, 0, 0
			err := Run(c, Options{Repack: true, Answered: func(a *Answer, l *place.Ledger) error {
				for ; next < a.I; next++ {
					if c.Events[next].Op == Depart {
						shadow.Remove(c.Events[next].VM)
					}
				}
				arrivals++
				for _, m := range a.Moves {
					shadow.Commit(m.Move.To)
					if v := plan.Check(st, shadow.Placements()); v != nil {
						t.Fatalf("event %d: after the move of %s: %v", a.I, m.VM, v)
					}
					if m.Move.KiB > workload.Total(m.Move.To.Memory) {
						t.Fatalf("event %d: %s moves %d KiB of %d", a.I, m.VM, m.Move.KiB, workload.Total(m.Move.To.Memory))
					}
				}
				if moves += len(a.Moves); 2*moves > arrivals {
					t.Fatalf("event %d: %d moves in %d arrivals", a.I, moves, arrivals)
				}
				if a.OK {
					shadow.Commit(a.Result.Placement)
				}
				if diff := cmp.Diff(shadow.Placements(), l.Placements(), sets); diff != "" {
					t.Fatalf("event %d: what was reported is not what is:\n%s", a.I, diff)
				}
				answers = append(answers, *a)
				return nil
			}})
			if err != nil {
				t.Fatal(err)
			}
			all += moves
			return answers
		}
		if diff := cmp.Diff(run(), run(), sets); diff != "" {
			t.Fatalf("the same trace has other answers:\n%s", diff)
		}
	})
	if all == 0 {
		t.Error("nothing ever moved: the test tests nothing")
	}
}

var sets = cmp.Options{
	cmp.Comparer(func(a, b topology.CPUSet) bool { return a.Equal(b) }),
	cmp.Comparer(func(a, b topology.NodeSet) bool { return a.Equal(b) }),
}
