package sharing

import (
	"fmt"
	"testing"

	"github.com/homenode/homenode/core/control/concern/concerntest"
	"github.com/homenode/homenode/core/place"
	"github.com/homenode/homenode/core/plan"
	"github.com/homenode/homenode/core/share"
	"github.com/homenode/homenode/core/share/goal"
	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/core/workload"
)

// TestCauses: what can be tested as the cause is what homenode limits now; siblings only where the scheduler is
// loaded, and work with a goal does not have them to itself already.
func TestCauses(t *testing.T) {
	smt := topology.Core{CPUs: topology.CPUs(0, 1)}
	alone := topology.Core{CPUs: topology.CPUs(0)}
	for _, c := range []struct {
		name      string
		core      topology.Core
		tier      workload.Tier
		goals     int
		scheduler bool
		kind      plan.SettingKind
		want      string
	}{
		{"siblings", smt, workload.Online, 1, true, "", "[SMT siblings]"},
		{"no scheduler", smt, workload.Online, 1, false, "", "[]"},
		{"no SMT", alone, workload.Online, 1, true, "", "[]"},
		{"strict already", smt, workload.OnlineStrict, 1, true, "", "[]"},
		{"no goal", smt, workload.Online, 0, true, "", "[]"},
		{"weight", alone, "", 1, false, plan.IOWeight, "[disk I/O]"},
		{"rates", alone, "", 1, false, plan.IOMax, "[disk I/O]"},
		{"memory", alone, "", 1, false, plan.MemoryHigh, "[memory]"},
		{"another setting", alone, "", 1, false, plan.CgroupCPUs, "[]"},
	} {
		h := on(t)
		h.batch("/b", func(*place.Subject) {})
		h.add("/x", workload.Shared, c.tier, func(x *place.Subject) {
			x.Spec.Goals = make([]workload.Goal, c.goals)
		})
		h.Snapshot.Host.Cores = []topology.Core{c.core}
		if c.scheduler {
			concerntest.Set(h.Scene, share.SchedulerID, plan.Scheduler, string(share.SchedulerID), "v1")
		}
		if c.kind != "" {
			concerntest.Set(h.Scene, "/b", c.kind, "/b", "x")
		}
		if got := fmt.Sprint(h.canLimit()); got != c.want {
			t.Errorf("%s: %s, want %s", c.name, got, c.want)
		}
	}
}

// TestLess: a limit under test is a part of what the operator has set, and never 0, which would be no limit.
func TestLess(t *testing.T) {
	most := share.Base{Memory: 0.8, IOWeight: 1, Burst: true,
		IO: []share.IOMax{{Device: "8:0", Read: 1 << 62, WriteIOPS: 301}, {Device: "8:16", Write: 1}}}
	less := func(r goal.Resource) string {
		v := View{Steering: &Steering{Limits: map[goal.Resource]int{r: 50}}}
		b := v.Base(most)
		return fmt.Sprint(b.Memory, b.IOWeight, b.Burst, b.IO)
	}
	const whole = "0.8 1 true [{8:0 4611686018427387904 0 0 301} {8:16 0 1 0 0}]"
	for r, want := range map[goal.Resource]string{
		goal.Memory: "0.4 1 true [{8:0 4611686018427387904 0 0 301} {8:16 0 1 0 0}]",
		goal.IO:     "0.8 1 true [{8:0 2305843009213693952 0 0 150} {8:16 0 1 0 0}]",
		goal.Cache:  whole,
	} {
		if got := less(r); got != want {
			t.Errorf("%s: %s, want %s", r, got, want)
		}
	}
	if b := (&View{}).Base(most); fmt.Sprint(b) != fmt.Sprint(most) {
		t.Errorf("without goals: %v", b)
	}
	most.IOWeight = 10
	if b := (&View{Steering: &Steering{Limits: map[goal.Resource]int{goal.IO: 50}}}).Base(most); b.IOWeight != 5 {
		t.Errorf("weight %d", b.IOWeight)
	}
}

// TestFreesSiblings: of work with goals, while siblings are tested or were found to be the cause.
func TestFreesSiblings(t *testing.T) {
	v := View{Steering: &Steering{Limits: map[goal.Resource]int{goal.Siblings: 50},
		Goals: []goal.Verdict{{Reading: goal.Reading{Workload: "/db"}}}}}
	if !v.FreesSiblings("/db") || v.FreesSiblings("/web") {
		t.Error("not of the work with goals alone")
	}
	v.Steering.Limits = map[goal.Resource]int{goal.Cache: 50}
	if v.FreesSiblings("/db") || (&View{}).FreesSiblings("/db") {
		t.Error("nothing tests them")
	}
}
