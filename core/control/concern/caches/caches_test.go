package caches

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/homenode/homenode/core/control/concern"
	"github.com/homenode/homenode/core/control/concern/concerntest"
	"github.com/homenode/homenode/core/control/concern/sharing"
	"github.com/homenode/homenode/core/control/work"
	"github.com/homenode/homenode/core/place"
	"github.com/homenode/homenode/core/plan"
	"github.com/homenode/homenode/core/plan/plantest"
	"github.com/homenode/homenode/core/share"
	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/core/words"
	"github.com/homenode/homenode/core/workload"
)

// host is a host of four cores of two CPUs, with batch work, /b, on one of them, whose memory traffic is counted.
type host struct {
	t *testing.T
	Bound
	sc   *concern.Scene
	loop *concerntest.Loop
}

func on(t *testing.T) *host {
	h := &host{t: t}
	h.sc, h.loop = concerntest.On(plantest.Draw("0 0-3|4-7 16G 10\n"))
	h.sc.Snapshot.Sources = []workload.SourceStatus{{Source: workload.MBM, Used: true}}
	batch := sharing.New(sharing.Settings{
		Share: share.Settings{On: true},
		Base:  share.Base{Cache: share.CacheLimit{Cache: 40, Bandwidth: 60}},
	}, sharing.Saved{On: true, Configured: true})
	h.Bound = Bound{&Concern{}, &batch}
	x := place.Subject{Observation: concerntest.Service("/b", topology.CPUs(1, 5))}
	concerntest.Add(h.sc, x, &workload.Placement{Class: workload.Batch})
	batch.Shared.Work = []share.Grant{{Workload: "/b", CPUs: topology.CPUs(1, 5)}}
	return h
}

// made has the group stand, with batch work's limit.
func (h *host) made() {
	concerntest.Set(h.sc, share.CacheID, plan.CacheGroup, share.CacheGroup, "L3:0=f")
	h.Ended(h.sc, &plan.Step{Kind: plan.SetCache, To: limit}, nil)
}

// batch is what the scan saw of the batch work.
func (h *host) batch() *workload.Observation { return &h.sc.Subjects[0].Observation }

// scan decides, ten seconds after the scan before, and returns the desires.
func (h *host) scan() string {
	concerntest.Pass(h.sc, share.SampleEvery)
	h.Batch.Shared.Cache = sharing.CacheUse{}
	return concerntest.Lines(h.Decide(h.sc).Settings)
}

// why is the reasons for what batch work has.
func (h *host) why() string {
	var codes []string
	for _, r := range h.Batch.Shared.Cache.Why {
		codes = append(codes, string(r.Code))
	}
	return strings.Join(codes, " ")
}

const (
	limit = "cache=40% bandwidth=60%"
	group = "resctrl.schemata homenode-batch of resctrl: set-cache  > " + limit + " cache-set is otherwise\n"
	stays = "resctrl.tasks /b of /b: stays"
)

// TestGroup: the group is made first, then the cgroups of batch work enter it.
func TestGroup(t *testing.T) {
	h := on(t)
	h.loop.Parts = map[workload.ID][]workload.ID{"/b": {"/b", "/b2"}}
	const both = "\n" + `
		resctrl.tasks /b of /b: set-cache-tasks  > homenode-batch cache-set is otherwise
		resctrl.tasks /b2 of /b: set-cache-tasks  > homenode-batch cache-set is otherwise`
	concerntest.Expect(t, "first", h.scan(), group+stays+"\nresctrl.tasks /b2 of /b: stays")
	if h.why() != "cache-tried" || h.Batch.Shared.Cache.Schemata != "" {
		t.Errorf("why %s, %+v", h.why(), h.Batch.Shared.Cache)
	}
	h.made()
	const stands = "resctrl.schemata homenode-batch of resctrl: set-cache L3:0=f > " + limit + " cache-set stands\n"
	concerntest.Expect(t, "then", h.scan(), stands+strings.TrimSpace(both))
	if use := h.Batch.Shared.Cache; use.Schemata != "L3:0=f" || use.Limit.Cache != 40 || h.why() != "cache-whole" {
		t.Errorf("why %s, %+v", h.why(), use)
	}
	concerntest.Set(h.sc, "/b", plan.CacheTasks, "/b", share.CacheGroup)
	concerntest.Set(h.sc, "/b", plan.CacheTasks, "/b2", share.CacheGroup).State = plan.Intended
	concerntest.Expect(t, "in it", h.scan(), stands+strings.Replace(strings.TrimSpace(both), "is otherwise", "stands", 1))
	h.Caching.Set = "cache=5% bandwidth=60%"
	if !strings.Contains(h.scan(), "cache-set is otherwise\n") {
		t.Error("another limit stands")
	}
}

// TestNoGroup: the reasons for no group; the concern then forgets its state.
func TestNoGroup(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(*host)
		want   words.Code
	}{
		{"no limit", func(h *host) { h.Batch.Settings().Base.Cache = share.CacheLimit{} }, words.CacheOff},
		{"not shared", func(h *host) { h.Batch.ShareOn = false }, words.CacheOff},
		{"held", func(h *host) { h.loop.Is("held resctrl") }, words.CacheHeld},
		{"no batch work", func(h *host) { h.Batch.Shared.Work = nil }, words.CacheNoWork},
	} {
		h := on(t)
		h.scan()
		if !h.Caching.Wanted {
			t.Error("it was wanted before")
		}
		c.change(h)
		if got := h.scan(); got != "" || h.why() != string(c.want) || h.Caching.Wanted || !h.Caching.At.IsZero() {
			t.Errorf("%s: %q, why %s, %+v", c.name, got, h.why(), h.Caching)
		}
	}
}

// TestUnable: a resource that this machine lacks has no limit, with the reason; the other one has its limit.
func TestUnable(t *testing.T) {
	for _, c := range []struct {
		name, failed, limit, why string
	}{
		{"no caches", "L3: needs RDT", "cache=0% bandwidth=60%", "text cache-tried"},
		{"no bandwidth", "MB: needs RDT", "cache=40% bandwidth=0%", "text cache-tried"},
		{"a failure", "no space", limit, "text"},
	} {
		h := on(t)
		h.scan()
		if h.Ended(h.sc, &plan.Step{Kind: plan.SetCache}, &work.Failure{Text: c.failed}) {
			t.Error("it acts before the next scan")
		}
		got := h.scan()
		if !strings.Contains(got, c.limit) || h.why() != c.why || h.Batch.Shared.Cache.Why[0].String() != c.failed {
			t.Errorf("%s: %s, why %v", c.name, got, h.Batch.Shared.Cache.Why)
		}
	}
	h := on(t)
	for _, text := range []string{"L3: needs RDT", "MB: needs RDT"} {
		h.Ended(h.sc, &plan.Step{Kind: plan.SetCache}, &work.Failure{Text: text})
	}
	if got := h.scan(); got != "" || h.Caching.Wanted {
		t.Errorf("neither: %s", got)
	}
	if h.Ended(h.sc, &plan.Step{Kind: plan.SetCacheTasks}, &work.Failure{Text: "x"}) || h.Caching.Failed != "" {
		t.Error("a step of its tasks counts for the group")
	}
	h.Caching.Failed = "no space"
	if h.Ended(h.sc, &plan.Step{Kind: plan.SetCache, To: limit}, nil) {
		t.Error("it acts before the next scan")
	}
	if h.Caching.Failed != "" || h.Caching.Set != limit {
		t.Errorf("it took: %+v", h.Caching)
	}
}

// measured has the node's local bandwidth be that.
func (h *host) measured(mibs float64) {
	h.sc.Snapshot.Host.Measured = &topology.Measured{BandwidthMiBs: [][]float64{{mibs}}}
}

// TestMeasured: a step brings the measured bandwidth where bandwidth is limited. A machine that needs it and has none
// gets a part of its caches; bandwidth is tried again once something else is measured, and at no scan before.
func TestMeasured(t *testing.T) {
	const refusal = "MB: needs the measured bandwidth of cache 0"
	h := on(t)
	refused := func(setting string) {
		t.Helper()
		if got := h.scan(); !strings.Contains(got, "> "+setting+" cache-set is otherwise") {
			t.Errorf("it is not tried: %s", got)
		}
		h.Ended(h.sc, &plan.Step{Kind: plan.SetCache, To: setting}, &work.Failure{Text: refusal})
		for range 3 {
			got := h.scan()
			if !strings.Contains(got, "> cache=40% bandwidth=0% cache-set") || h.why() != "text cache-tried" {
				t.Errorf("refused: %s, why %s", got, h.why())
			}
		}
	}
	refused(limit)
	h.measured(24000)
	refused(limit + " of 0=24000 MiB/s") // the machine has another cache, too
	h.measured(30000)
	if got := h.scan(); !strings.Contains(got, "> "+limit+" of 0=30000 MiB/s cache-set is otherwise") ||
		h.Caching.Unable["MB"] != "" {
		t.Errorf("measured anew: %s", got)
	}
	h.Ended(h.sc, &plan.Step{Kind: plan.SetCache}, &work.Failure{Text: "L3: needs RDT"})
	h.measured(31000)
	if got := h.scan(); !strings.Contains(got, "> cache=0% bandwidth=60% of 0=31000 MiB/s") {
		t.Errorf("caches cannot be divided, whatever is measured: %s", got)
	}
}

// TestMeasuredAnew: the group follows a measurement, and the end of one.
func TestMeasuredAnew(t *testing.T) {
	h := on(t)
	h.measured(24000)
	const whole = limit + " of 0=24000 MiB/s"
	concerntest.Set(h.sc, share.CacheID, plan.CacheGroup, share.CacheGroup, "L3:0=f MB:0=121")
	h.Ended(h.sc, &plan.Step{Kind: plan.SetCache, To: whole}, nil)
	if got := h.scan(); !strings.Contains(got, "> "+whole+" cache-set stands") {
		t.Error(got)
	}
	use := h.Batch.Shared.Cache
	if use.Limit != (share.CacheLimit{Cache: 40, Bandwidth: 60}) || h.why() != "cache-whole cache-bandwidth" ||
		fmt.Sprint(use.Why[1].Args) != "[14424 0.6]" { // 121/8 GB/s in MiB/s
		t.Errorf("%+v, why %s", use, h.why())
	}
	concerntest.Set(h.sc, share.CacheID, plan.CacheGroup, share.CacheGroup, "L3:0=f MB:0=60")
	if h.scan(); h.why() != "cache-whole" {
		t.Errorf("a percentage: why %s", h.why())
	}
	h.measured(12000)
	if got := h.scan(); !strings.Contains(got, "> "+limit+" of 0=12000 MiB/s cache-set is otherwise") {
		t.Errorf("measured anew: %s", got)
	}
	h.sc.Snapshot.Host.Measured = nil
	if got := h.scan(); !strings.Contains(got, "> "+limit+" cache-set is otherwise") {
		t.Errorf("no longer measured: %s", got)
	}
}

// TestAmount: the least and the most of several caches.
func TestAmount(t *testing.T) {
	h := on(t)
	h.Caching.Set = "cache=0% bandwidth=50% of 0=20000;1=40000 MiB/s"
	concerntest.Set(h.sc, share.CacheID, plan.CacheGroup, share.CacheGroup, "MB:0=10000;1=20000")
	h.scan()
	if why := h.Batch.Shared.Cache.Why; h.why() != "cache-whole cache-bandwidths" ||
		fmt.Sprint(why[1].Args) != "[10000 20000 0.5]" {
		t.Errorf("why %v", why)
	}
}

// TestHow: the sentence on the state of the group.
func TestHow(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(*host)
		want   words.Code
	}{
		{"whole", func(*host) {}, words.CacheWhole},
		{"not enforced", func(h *host) { h.sc.Enforce = false }, words.CacheObserved},
		{"not made", func(h *host) {
			h.sc.Journal.Of(plan.CacheGroup, share.CacheGroup).State = plan.Intended
		}, words.CacheTried},
		{"nothing is counted", func(h *host) { h.sc.Snapshot.Sources[0].Used = false }, words.CacheFixed},
		{"something else is counted", func(h *host) { h.sc.Snapshot.Sources[0].Source = workload.PSI }, words.CacheFixed},
		{"important work is hurt", func(h *host) {
			h.Batch.Interference.Victims = []share.Victim{{}, {Hurt: true}}
		}, words.CacheHurt},
		{"it was hurt", func(h *host) {
			h.Batch.Interference.Victims = []share.Victim{{Hurt: true}}
			h.scan()
			h.Batch.Interference.Victims[0].Hurt = false
		}, words.CacheGrows},
	} {
		h := on(t)
		h.made()
		h.scan()
		c.change(h)
		h.scan()
		if h.why() != string(c.want) {
			t.Errorf("%s: why %s, want %s", c.name, h.why(), c.want)
		}
	}
}

// TestFollows: the limit is halved while important work is hurt.
func TestFollows(t *testing.T) {
	h := on(t)
	h.scan()
	h.Batch.Interference.Victims = []share.Victim{{Hurt: true}}
	if got := h.scan(); !strings.Contains(got, "> cache=20% bandwidth=30%") {
		t.Error(got)
	}
	h.Batch.Interference.Victims = nil
	if got := h.scan(); !strings.Contains(got, "> cache=25% bandwidth=35%") {
		t.Error(got)
	}
	if !h.Caching.At.Equal(h.sc.Began) || h.Caching.At.Location() != time.UTC {
		t.Errorf("at %v", h.Caching.At)
	}
}

// TestWholeCores: memory bandwidth is limited by core: batch work must have whole cores, and keep to them.
func TestWholeCores(t *testing.T) {
	key := func(kind plan.StepKind, id workload.ID) work.Key { return work.Key{Workload: id, Kind: kind} }
	for _, c := range []struct {
		name   string
		change func(*host)
		whole  bool
	}{
		{"whole cores", func(*host) {}, true},
		{"half a core", func(h *host) { h.batch().CPUs = topology.CPUs(1) }, false},
		{"half a core, its sibling is offline", func(h *host) {
			h.sc.Snapshot.Host.Online.Remove(5)
			h.batch().CPUs = topology.CPUs(1)
			h.Batch.Shared.Work[0].CPUs = topology.CPUs(1)
		}, true},
		{"it is to have half a core", func(h *host) { h.Batch.Shared.Work[0].CPUs = topology.CPUs(1, 2, 5) }, false},
		{"uneven", func(h *host) { h.batch().UnevenCPUs = true }, false},
		{"its CPU set failed", func(h *host) { h.loop.Tries[key(plan.SetCPUs, "/b")] = work.Retry{Failures: 1} }, false},
		{"its CPU set was tried", func(h *host) { h.loop.Tries[key(plan.SetCPUs, "/b")] = work.Retry{} }, true},
		{"another CPU set failed", func(h *host) { h.loop.Tries[key(plan.SetCPUs, "/c")] = work.Retry{Failures: 1} }, true},
		{"another step failed", func(h *host) { h.loop.Tries[key(plan.SetMems, "/b")] = work.Retry{Failures: 1} }, true},
	} {
		h := on(t)
		c.change(h)
		got := h.scan()
		if whole := strings.Contains(got, limit) && h.why() == "cache-tried"; whole != c.whole {
			t.Errorf("%s: %s, why %s", c.name, got, h.why())
		}
		if !c.whole && (!strings.Contains(got, "cache=40% bandwidth=0%") || h.why() != "cache-no-cores cache-tried") {
			t.Errorf("%s: %s, why %s", c.name, got, h.why())
		}
	}
	h := on(t)
	h.Batch.Settings().Base.Cache.Bandwidth = 0
	h.batch().CPUs = topology.CPUs(1)
	if h.scan(); h.why() != "cache-tried" {
		t.Errorf("bandwidth is not limited: why %s", h.why())
	}
}

// TestOwns: the group and its cgroups, which each scan reads again.
func TestOwns(t *testing.T) {
	h := on(t)
	for i, kind := range []plan.SettingKind{plan.CacheGroup, plan.CacheTasks, plan.CgroupCPUs, plan.CgroupIdle} {
		e := concerntest.Set(h.sc, "/b", kind, "/b", "1")
		if got := h.Owns(e); got != (i < 2) {
			t.Errorf("%s: %v", kind, got)
		}
	}
	if got := h.Verify(h.sc); len(got) != 2 || got[0].Kind != plan.CacheGroup || got[1].Kind != plan.CacheTasks {
		t.Errorf("read again: %v", got)
	}
}
