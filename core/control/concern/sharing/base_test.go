package sharing

import (
	"fmt"
	"strings"
	"testing"

	"github.com/homenode/homenode/core/control/concern"
	"github.com/homenode/homenode/core/control/concern/concerntest"
	"github.com/homenode/homenode/core/control/work"
	"github.com/homenode/homenode/core/place"
	"github.com/homenode/homenode/core/plan"
	"github.com/homenode/homenode/core/plan/plantest"
	"github.com/homenode/homenode/core/share"
	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/core/words"
	"github.com/homenode/homenode/core/workload"
)

// only is the lines of desires of some kinds.
func only(all []concern.Desire, kinds ...plan.SettingKind) string {
	var some []concern.Desire
	for _, d := range all {
		for _, kind := range kinds {
			if d.Kind == kind {
				some = append(some, d)
			}
		}
	}
	return concerntest.Lines(some)
}

// TestIOLimits: batch work divides what it may do at block devices, and has the configured weight.
func TestIOLimits(t *testing.T) {
	h := on(t)
	h.settings.Base.IO = []share.IOMax{{Device: "8:0", Read: 8 << 20}}
	h.settings.Base.IOWeight = 1
	h.batch("/a", nil)
	h.batch("/b", nil)
	h.batch("/z", nil)
	h.loop.Is("managed /z")
	const half = "8:0 rbps=4194304 wbps=max riops=max wiops=max"
	concerntest.Expect(t, "two with cgroups", only(h.limits(), plan.IOWeight, plan.IOMax, plan.MemoryHigh), `
		memory.high /a of /a: set-cgroup max > max
		io.weight /a of /a: set-cgroup 100 > 1 share-io-weight
		io.max /a of /a: set-cgroup  > `+half+` share-io-max
		memory.high /b of /b: set-cgroup max > max
		io.weight /b of /b: set-cgroup 100 > 1 share-io-weight
		io.max /b of /b: set-cgroup  > `+half+` share-io-max`)
}

// TestMemoryLimits: batch work divides what other work and the system leave of the target of each node.
func TestMemoryLimits(t *testing.T) {
	const gib = plantest.GiB
	on0 := func(gib topology.KiB) func(*place.Subject) {
		return func(x *place.Subject) {
			x.Observation.Memory = []workload.NodeMemory{{Node: 0, KiB: gib * plantest.GiB}}
		}
	}
	stage := func() *host {
		h := on(t)
		h.batch("/b", on0(1))
		h.batch("/c", on0(3))
		h.batch("/y", on0(1))
		h.loop.Is("managed /y")
		h.add("/x", workload.Shared, "", on0(2))
		h.Snapshot.Unmanaged = []workload.NodeMemory{{Node: 0, KiB: gib}, {Node: 1, KiB: 2 * gib}}
		h.settings.Base.Memory = 0.9
		return h
	}
	h := stage()
	own := h.mine[:2]
	limits := h.memoryLimits(own, h.settings.Base.Memory)
	if len(limits) != 2 {
		t.Fatalf("%+v", limits)
	}
	// Of 16 GiB a node: the budget is what 90 % without the free part leave beyond 2 + 1 + 1 and 2 GiB.
	budget := func(online, system topology.KiB) topology.KiB {
		return share.MemoryBudget(&share.MemoryNode{Capacity: 16 * gib, Online: online, System: system}, 0.9)
	}
	want := fmt.Sprint([]workload.NodeMemory{{Node: 0, KiB: budget(3*gib, gib)}, {Node: 1, KiB: budget(0, 2*gib)}})
	if got := fmt.Sprint(h.Shared.Memory); got != want {
		t.Errorf("budgets %s, want %s", got, want)
	}
	both := budget(3*gib, gib) + budget(0, 2*gib)
	if sum := limits[0].High + limits[1].High; sum > both+4096 || sum < both-4096 {
		t.Errorf("limits of %d KiB, budgets of %d KiB", sum, both)
	}
	desires := only(h.limits(), plan.MemoryHigh)
	first := fmt.Sprintf("memory.high /b of /b: set-cgroup max > %d %s", int64(limits[0].High)<<10, limits[0].Why.Code)
	if got := strings.Split(desires, "\n"); len(got) != 2 || got[0] != first {
		t.Errorf("desires %v, want %s", got, first)
	}
	h = stage() // a limit grows slowly, and not at all while the host stalls
	concerntest.Set(h.Scene, "/b", plan.MemoryHigh, "/b", fmt.Sprint(int64(2*gib)<<10))
	grows := h.memoryLimits(own, h.settings.Base.Memory)[0].High
	if grows <= 2*gib || grows >= limits[0].High {
		t.Errorf("from 2 GiB to %d KiB", grows)
	}
	h.Snapshot.Pressure = []workload.Pressure{{Resource: "memory", Full: 50}, {Resource: "cpu", Full: 0}}
	if got := h.memoryLimits(own, h.settings.Base.Memory)[0].High; got > 2*gib {
		t.Errorf("while the host stalls, from 2 GiB to %d KiB", got)
	}
	h.Snapshot.Pressure[0].Full = 0.5 // percent
	if got := h.memoryLimits(own, h.settings.Base.Memory)[0].High; got != grows {
		t.Errorf("while the host stalls half a percent of the time, to %d KiB", got)
	}
	h.Snapshot.Pressure = []workload.Pressure{{Resource: "cpu", Full: 50}}
	if got := h.memoryLimits(own, h.settings.Base.Memory)[0].High; got != grows {
		t.Errorf("while work waits for CPUs, to %d KiB", got)
	}
	h.Snapshot.Host.Nodes[1].Memory = topology.None
	h.Shared.Memory = nil
	h.memoryLimits(own, h.settings.Base.Memory)
	if h.Shared.Memory[1].KiB != 0 {
		t.Errorf("a node of unknown memory has a budget of %d KiB", h.Shared.Memory[1].KiB)
	}
	h.settings.Base.Memory = 0
	if h.memoryLimits(own, h.settings.Base.Memory) != nil {
		t.Error("nothing is limited")
	}
}

// TestWeight: where the kernel has no cpu.idle batch work has the lowest weight; an entry that cpu.idle made stays.
func TestWeight(t *testing.T) {
	idle := work.Key{Workload: "/b", Kind: plan.SetCgroup, To: "1", Device: string(plan.CgroupIdle)}
	lacking := work.Retry{Code: work.Lacking}
	for _, c := range []struct {
		name, journal string
		retry         work.Retry
		want          string
	}{
		{"cpu.idle", "", work.Retry{}, ""},
		{"cpu.idle, with its entry", "idle", work.Retry{}, "cpu.weight /b of /b: stays"},
		{"none", "", lacking, "cpu.weight /b of /b: set-cgroup 100 > 1 share-weight"},
		{"the lowest weight already", "1", work.Retry{}, "cpu.weight /b of /b: set-cgroup 1 > 1 share-weight"},
		{"busy", "", work.Retry{Code: work.Failed}, ""},
	} {
		h := on(t)
		x := h.batch("/b", nil)
		if c.journal != "" {
			concerntest.Set(h.Scene, "/b", plan.CgroupWeight, "/b", c.journal)
		}
		h.loop.Tries[idle] = c.retry
		concerntest.Expect(t, c.name, concerntest.Lines(h.weight(&x.Observation, "/b")), c.want)
		concerntest.Expect(t, c.name, only(h.limits(), plan.CgroupWeight), c.want)
	}
}

// helped is a host with important work, /x.
func helped(t *testing.T) (*host, *place.Subject) {
	h := on(t)
	h.settings.Base.Protect, h.settings.Base.Burst = true, true
	x := h.add("/x", workload.Shared, workload.Online, func(x *place.Subject) {
		x.Observation.Memory = []workload.NodeMemory{{Node: 0, KiB: 1000 << 10}}
		x.Observation.RanOn = []workload.NodeShare{{Node: 1, Share: 1}}
		x.Observation.Throttled = 0.1
	})
	h.Shared.Nodes = []share.Budget{{Node: 0, Pool: 4, Online: 4}, {Node: 1, Pool: 4, Online: 1, System: 1, Idle: 2}}
	return h, x
}

// TestHelps: which important work has settings of sharing.
func TestHelps(t *testing.T) {
	const both = "memory.low /x of /x: set-cgroup 0 > 1073741824 share-protect\n" +
		"cpu.max.burst /x of /x: set-cgroup 0 > quota share-burst"
	for _, c := range []struct {
		name   string
		change func(*host, *place.Subject)
		want   string
	}{
		{"important", func(*host, *place.Subject) {}, both},
		{"burst alone", func(h *host, _ *place.Subject) { h.settings.Base.Protect = false },
			both[strings.Index(both, "\n"):]},
		{"protection alone", func(h *host, _ *place.Subject) { h.settings.Base.Burst = false },
			strings.Replace(strings.Replace(both, "quota", "0", 1), "share-burst", "share-no-burst", 1)},
		{"neither", func(h *host, _ *place.Subject) { h.settings.Base = share.Base{} }, ""},
		{"held", func(h *host, _ *place.Subject) { h.loop.Is("held /x") }, ""},
		{"no cgroup of its own", func(h *host, _ *place.Subject) { h.loop.Is("managed /x") }, ""},
		{"left alone", func(_ *host, x *place.Subject) { x.Alone = words.Because(words.NotIncluded) }, ""},
		{"squeezed", func(h *host, _ *place.Subject) { h.Shared.Work = []share.Grant{{Workload: "/x"}} }, ""},
		{"normal", func(_ *host, x *place.Subject) { x.Spec.Tier = workload.Normal }, ""},
	} {
		h, x := helped(t)
		c.change(h, x)
		concerntest.Expect(t, c.name, concerntest.Lines(h.helps()), c.want)
		if (len(h.Shared.Helped) == 1) != (c.want != "") {
			t.Errorf("%s: helped %v", c.name, h.Shared.Helped)
		}
	}
}

// TestBursts: work bursts where its cpu.max held it back while CPUs idle, and goes on as long as they do.
func TestBursts(t *testing.T) {
	already := func(h *host) *plan.Entry {
		return concerntest.Set(h.Scene, "/x", plan.CgroupBurst, "/x", plan.WholeQuota)
	}
	for _, c := range []struct {
		name   string
		change func(*host, *place.Subject)
		want   bool
	}{
		{"held back", func(*host, *place.Subject) {}, true},
		{"held back a little", func(_ *host, x *place.Subject) { x.Observation.Throttled = throttledMost }, false},
		{"it bursts", func(h *host, x *place.Subject) { x.Observation.Throttled = 0; already(h) }, true},
		{"an earlier cgroup burst", func(h *host, x *place.Subject) {
			x.Observation.Throttled = 0
			already(h).Object = "6"
		}, false},
		{"it burst", func(h *host, x *place.Subject) {
			x.Observation.Throttled = 0
			already(h).New = "0"
		}, false},
		{"it bursts, no CPU idles", func(h *host, _ *place.Subject) { already(h); h.Shared.Nodes[1].Online = 2 }, false},
		{"just enough idle", func(h *host, _ *place.Subject) { h.Shared.Nodes[1].System = 1 }, true},
		{"less than is kept idle", func(h *host, _ *place.Subject) { h.Shared.Nodes[1].System = 1.1 }, false},
		{"none is kept idle", func(h *host, _ *place.Subject) {
			h.Shared.Nodes[1].Idle, h.Shared.Nodes[1].System = 0, 2
		}, true},
		{"none is kept idle, less than one is", func(h *host, _ *place.Subject) {
			h.Shared.Nodes[1].Idle, h.Shared.Nodes[1].System = 0, 2.1
		}, false},
		{"CPUs idle on another node", func(_ *host, x *place.Subject) { x.Observation.RanOn[0].Node = 0 }, false},
	} {
		h, x := helped(t)
		c.change(h, x)
		got := strings.Contains(only(h.helps(), plan.CgroupBurst), "> quota share-burst")
		if got != c.want {
			t.Errorf("%s: %v", c.name, got)
		}
	}
}

// TestProtects: memory.low follows what work holds, up in large steps, and stays while it is about right.
func TestProtects(t *testing.T) {
	for _, c := range []struct {
		holds, now, want int64 // MiB
	}{
		{0, 0, 0}, {1, 0, 64}, {64, 0, 64}, {65, 0, 128}, {128, 0, 128},
		{1024, 1024, 1024}, {1152, 1024, 1024}, {1153, 1024, 1216}, {896, 1024, 1024}, {832, 1024, 832}, {64, 1024, 64},
	} {
		h, x := helped(t)
		if c.now > 0 {
			concerntest.Set(h.Scene, "/x", plan.MemoryLow, "/x", fmt.Sprint(c.now<<20))
		}
		x.Observation.Memory = []workload.NodeMemory{{KiB: topology.KiB(c.holds << 10)}}
		if got := h.protects(&x.Observation, "/x"); got != c.want<<10 {
			t.Errorf("holds %d MiB, protects %d: %d KiB, want %d MiB", c.holds, c.now, got, c.want)
		}
	}
}

// TestSetNow: a number that homenode has set, and none where that is of an earlier cgroup, or no number.
func TestSetNow(t *testing.T) {
	h, x := helped(t)
	o := &x.Observation
	if got := h.setNow(o, "/x", plan.MemoryLow); got != 0 {
		t.Errorf("nothing is set: %d", got)
	}
	e := concerntest.Set(h.Scene, "/x", plan.MemoryLow, "/x", "4096")
	if got := h.setNow(o, "/x", plan.MemoryLow); got != 4096 {
		t.Errorf("set: %d", got)
	}
	e.Object = "6"
	if got := h.setNow(o, "/x", plan.MemoryLow); got != 0 {
		t.Errorf("of an earlier cgroup: %d", got)
	}
	e.Object, e.New = "", "max"
	if got := h.setNow(o, "/x", plan.MemoryLow); got != 0 {
		t.Errorf("no limit: %d", got)
	}
}
