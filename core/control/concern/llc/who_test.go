package llc

import (
	"fmt"
	"testing"
	"time"

	"github.com/homenode/homenode/core/control/concern"
	"github.com/homenode/homenode/core/place"
	"github.com/homenode/homenode/core/plan"
	"github.com/homenode/homenode/core/plan/plantest"
	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/core/words"
	"github.com/homenode/homenode/core/workload"
)

// holding is a loop with one workload that the user holds.
type holding struct{ loop }

func (holding) Held(workload.ID) bool { return true }

// TestLeavesOthersAlone: work that is not homenode's to move, and work on several nodes, gets no caches.
func TestLeavesOthersAlone(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(*host, *place.Subject)
		left   bool
	}{
		{"shared work", func(*host, *place.Subject) {}, false},
		{"fixed work", func(_ *host, x *place.Subject) { x.Fixed = true }, true},
		{"work left alone", func(_ *host, x *place.Subject) { x.Alone = words.Because(words.NotIncluded) }, true},
		{"held work", func(h *host, _ *place.Subject) { h.scene.Loop = holding{} }, true},
		{"batch work", func(_ *host, x *place.Subject) { x.Spec.Tier = workload.BatchTier }, true},
		{"dedicated work", func(h *host, _ *place.Subject) { h.scene.Plan.Placements[0].Class = workload.Dedicated }, true},
		{"work on two nodes", func(h *host, _ *place.Subject) {
			h.scene.Plan.Placements[0].Home = topology.Nodes(0, 1)
		}, true},
		{"between two scans", func(h *host, _ *place.Subject) { h.scene.Between = true }, true},
		{"mode off", func(h *host, _ *place.Subject) { h.mode = plan.CachesOff }, true},
	} {
		h := on(t, plan.CachesPlace, 2)
		h.scene.Snapshot.Host = plantest.Draw("0 0-15 8G 10 20 llc=4\n1 16-31 8G 20 10 llc=4\n")
		c.change(h, h.scene.Subjects[0])
		h.uses(0, 1, 0)
		h.scan(0)
		out := h.scan(calmFor)
		none := len(out.Caches) == 0 && len(out.Why) == 0 && len(out.Settings) == 0
		if none != c.left {
			t.Errorf("%s: %+v", c.name, out)
		}
	}
}

// TestOwnsNothing: the CPU sets are the homes', so that this concern restores none.
func TestOwnsNothing(t *testing.T) {
	b := Bound{}
	if b.Owns(&plan.Entry{Kind: plan.CgroupCPUs}) || b.Ended(nil, nil, nil) {
		t.Error("it owns CPU sets")
	}
}

// TestForgets: work that is gone is forgotten, and other work is not; where caches divide no node, all is.
func TestForgets(t *testing.T) {
	h := on(t, plan.CachesPlace, 2, 2)
	h.scan(0)
	h.concern.Forget(func(id workload.ID) bool { return id == "a" })
	if h.concern.CacheCalm["a"] != nil || h.concern.CacheCalm["b"] == nil {
		t.Errorf("it remembers %v", h.concern.CacheCalm)
	}
	h.scene.Snapshot.Host = plantest.Draw("0 0-15 8G 10\n")
	h.scan(time.Second)
	if h.concern.CacheCalm != nil {
		t.Errorf("it remembers %v of a host without divided nodes", h.concern.CacheCalm)
	}
}

// TestThreadsOfAGuest: no more threads of a guest count than it was given vCPUs; those of other work all count.
func TestThreadsOfAGuest(t *testing.T) {
	for _, c := range []struct {
		given         bool
		cpus, threads int
		want          int
	}{
		{true, 2, 9, 2}, {true, 1, 9, 1}, {true, 2, 0, 2}, {true, 9, 2, 2}, {true, 9, 1, 1},
		{true, 0, 9, 9}, {true, 0, 0, 0}, {false, 2, 9, 9}, {false, 2, 0, 0},
	} {
		x := &place.Subject{Spec: workload.Spec{Given: c.given, CPUs: c.cpus}}
		x.Observation.Threads = c.threads
		if got := threads(x); got != c.want {
			t.Errorf("given %v, %d vCPUs, %d threads: %d, want %d", c.given, c.cpus, c.threads, got, c.want)
		}
	}
}

// TestUsualIsTheMean: the first scans count alike, in what work waits usually and in how far it strays from that.
func TestUsualIsTheMean(t *testing.T) {
	var c Calm
	for i, step := range []struct{ waited, usual, strays float64 }{
		{0.1, 0.1, 0}, {0.3, 0.2, 0.2}, {0.2, 0.2, 0.1}, {0.6, 0.3, 0.2},
	} {
		c.learn(step.waited)
		got, want := fmt.Sprintf("%.3f %.3f", c.Usual, c.Strays), fmt.Sprintf("%.3f %.3f", step.usual, step.strays)
		if got != want {
			t.Errorf("scan %d: usual wait and deviation %s, want %s", i, got, want)
		}
	}
	if may := fmt.Sprintf("%.3f", c.MayWait()); may != "0.900" {
		t.Errorf("it may wait %s, want three deviations beyond the usual 0.3", may)
	}
}

// TestUsualNeedsAnIdleCPU: waits count as usual while a whole CPU of the node idles.
func TestUsualNeedsAnIdleCPU(t *testing.T) {
	for busy, want := range map[float64]int{10: 1, 13.5: 1, 14: 1, 14.5: 0, 15: 0} {
		h := on(t, plan.CachesPlace, 4, 12)
		h.uses(0, 1, 0.2)
		h.uses(1, busy, 0)
		h.scan(0)
		if got := h.concern.CacheCalm["a"].Scans; got != want {
			t.Errorf("%.1f of 16 CPUs are busy: %d scans count, want %d", 1+busy, got, want)
		}
	}
}

// TestStands: a CPU set that work has already stands, one that its cgroups have in part does not.
func TestStands(t *testing.T) {
	for _, c := range []struct {
		has    topology.CPUSet
		uneven bool
		want   concern.Stands
	}{
		{topology.CPUs(0, 1, 2, 3), false, concern.Yes},
		{topology.CPUs(0, 1, 2, 3), true, concern.No},
		{topology.CPUs(0, 1, 2), false, concern.No},
	} {
		h := on(t, plan.CachesPlace, 2)
		o := &h.scene.Subjects[0].Observation
		o.CPUs, o.UnevenCPUs = c.has, c.uneven
		h.scan(0)
		out := h.scan(calmFor)
		if len(out.Settings) != 1 || out.Settings[0].Stands != c.want {
			t.Errorf("it has %v, uneven %v: %+v", c.has, c.uneven, out.Settings)
		}
	}
}
