package control

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/homenode/homenode/core/control/concern/caches"
	"github.com/homenode/homenode/core/plan"
	"github.com/homenode/homenode/core/share"
	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/core/workload"
)

var theGroup = settingKey{plan.CacheGroup, share.CacheGroup}

func cachedBy(most share.CacheLimit) func(*Settings) {
	return func(s *Settings) { turnedOn(s); s.Base.Cache = most }
}

// cached is batch on a machine with resctrl.
func cached(t testing.TB, most share.CacheLimit, change ...func(*Settings)) *fake {
	f := batch(t, append([]func(*Settings){cachedBy(most)}, change...)...)
	f.values[theGroup] = plan.Setting{Kind: plan.CacheGroup, Path: share.CacheGroup}
	for _, id := range []string{"/batch1", "/batch2"} {
		f.values[settingKey{plan.CacheTasks, id}] = plan.Setting{Kind: plan.CacheTasks, Path: id, Object: f.values[settingKey{plan.CgroupCPUs, id}].Object}
	}
	return f
}

func (f *fake) cacheGroup() string { return f.values[theGroup].Value }

// TestCache: the group is made, batch work is put into it, what enters a cgroup later too, and
// sharing that is turned off takes all of it back.
func TestCache(t *testing.T) {
	f := cached(t, share.CacheLimit{Cache: 30, Bandwidth: 50})
	before := f.all()
	f.scans(4)
	if got := f.cacheGroup(); got != "cache=30% bandwidth=50%" {
		t.Fatalf("the group has %q: %v", got, f.s.Shared.Cache.Why)
	}
	for _, id := range []string{"/batch1", "/batch2"} {
		if got := f.get(plan.CacheTasks, id); got != share.CacheGroup {
			t.Errorf("%s is in %q", id, got)
		}
	}
	if u := f.s.Shared.Cache; u.Schemata == "" || u.Limit != (share.CacheLimit{Cache: 30, Bandwidth: 50}) || !strings.Contains(u.Why[0].String(), "does not count") {
		t.Errorf("status: %+v", u)
	}
	n := len(f.applies(plan.SetCacheTasks))
	f.scans(5)
	if got := len(f.applies(plan.SetCacheTasks)) + len(f.applies(plan.SetCache)); got != n+1 {
		t.Errorf("%d steps, want %d and one to the group", got, n)
	}
	f.set(plan.CacheTasks, "/batch1", "") // a thread came from elsewhere
	f.scans(2)
	if got := f.get(plan.CacheTasks, "/batch1"); got != share.CacheGroup {
		t.Error("a thread that came in stays out of the group")
	}
	f.ask(Request{Share: &ShareOrder{On: false}})
	f.scans(4)
	for _, id := range []string{"/batch1", "/batch2"} {
		if before["cpuset.cpus "+id] == "" {
			before["cpuset.cpus "+id] = "0-15"
		}
	}
	if diff := cmp.Diff(before, f.all()); diff != "" {
		t.Errorf("turned off, not all is as before:\n%s", diff)
	}
}

// TestCacheOff: without the configuration nothing is asked of resctrl.
func TestCacheOff(t *testing.T) {
	f := cached(t, share.CacheLimit{})
	f.scans(4)
	if f.cacheGroup() != "" || len(f.applies(plan.SetCacheTasks)) > 0 {
		t.Error("it is set")
	}
}

// TestCacheTheirs: a group of the name that somebody else has made is left alone, and said.
func TestCacheTheirs(t *testing.T) {
	f := cached(t, share.CacheLimit{Cache: 30})
	f.set(plan.CacheGroup, share.CacheGroup, "L3:0=f")
	f.scans(4)
	if f.cacheGroup() != "L3:0=f" || len(f.applies(plan.SetCacheTasks)) > 0 || f.s.Shared.Cache.Schemata != "" || len(f.s.Shared.Cache.Why) == 0 {
		t.Errorf("%q, %+v", f.cacheGroup(), f.s.Shared.Cache)
	}
}

// TestCacheUnable: where bandwidth cannot be throttled caches are divided all the same; a failure is
// in the status.
func TestCacheUnable(t *testing.T) {
	f := cached(t, share.CacheLimit{Cache: 30, Bandwidth: 50})
	f.fail = func(e *Effect) *Failure {
		if e.Kind == EffectRead && e.Step.Kind == plan.SetCache && !strings.HasSuffix(e.Step.To, "bandwidth=0%") {
			return &Failure{Code: Failed, Text: "MB: needs a processor that can throttle memory bandwidth"}
		}
		return nil
	}
	f.scans(4)
	if got := f.cacheGroup(); got != "cache=30% bandwidth=0%" || !strings.Contains(f.s.Shared.Cache.Why[0].String(), "MB: needs") {
		t.Errorf("the group has %q: %v", got, f.s.Shared.Cache.Why)
	}
	f = cached(t, share.CacheLimit{Cache: 30})
	f.fail = func(e *Effect) *Failure {
		if e.Kind == EffectApply && e.Step.Kind == plan.SetCache {
			return &Failure{Code: Failed, Text: "no space left on device: all classes of service are used"}
		}
		return nil
	}
	f.scans(4)
	if u := f.s.Shared.Cache; u.Schemata != "" || !strings.Contains(u.Why[0].String(), "all classes") || len(f.applies(plan.SetCacheTasks)) > 0 {
		t.Errorf("status: %+v", u)
	}
}

// TestCacheMeasured: where resctrl does not count bandwidth in percent, caches are divided until bandwidth is measured,
// without a failing step at each scan; then bandwidth is limited, too.
func TestCacheMeasured(t *testing.T) {
	f := cached(t, share.CacheLimit{Cache: 30, Bandwidth: 50})
	refused := 0
	f.fail = func(e *Effect) *Failure {
		if e.Kind == EffectRead && e.Step.Kind == plan.SetCache && strings.HasSuffix(e.Step.To, "bandwidth=50%") {
			refused++
			return &Failure{Code: Failed, Text: "MB: needs the measured bandwidth of cache 0"}
		}
		return nil
	}
	f.scans(6)
	if got := f.cacheGroup(); got != "cache=30% bandwidth=0%" || refused != 1 {
		t.Errorf("the group has %q, %d steps were refused: %v", got, refused, f.s.Shared.Cache.Why)
	}
	f.measured = &topology.Measured{BandwidthMiBs: [][]float64{{24000, 0}, {0, 23000}}}
	f.scans(4)
	if got := f.cacheGroup(); got != "cache=30% bandwidth=50% of 0=24000;1=23000 MiB/s" {
		t.Errorf("measured, the group has %q: %v", got, f.s.Shared.Cache.Why)
	}
	if got := f.s.Shared.Cache.Limit; got.Bandwidth != 50 || refused != 1 {
		t.Errorf("status: %v, %d refused", got, refused)
	}
}

// TestCacheCores: bandwidth is throttled by core: not where batch work has no whole one, or does
// not keep to what it is given.
func TestCacheCores(t *testing.T) {
	f := cached(t, share.CacheLimit{Cache: 30, Bandwidth: 50})
	f.fail = func(e *Effect) *Failure {
		if e.Kind == EffectApply && e.Step.Kind == plan.SetCPUs && e.Workload == "/batch2" {
			return &Failure{Code: Failed, Text: "told so"}
		}
		return nil
	}
	f.scans(6)
	if got := f.cacheGroup(); got != "cache=30% bandwidth=0%" || !strings.Contains(f.s.Shared.Cache.Why[0].String(), "/batch2") {
		t.Errorf("the group has %q: %v", got, f.s.Shared.Cache.Why)
	}
}

// TestCacheUndo: undo removes the group until it is resumed.
func TestCacheUndo(t *testing.T) {
	f := cached(t, share.CacheLimit{Cache: 30})
	f.scans(4)
	f.ask(Request{Undo: &Which{ID: share.CacheID}})
	f.scans(4)
	if f.cacheGroup() != "" || f.get(plan.CacheTasks, "/batch1") != "" {
		t.Errorf("undone: %q, %q", f.cacheGroup(), f.get(plan.CacheTasks, "/batch1"))
	}
	f.ask(Request{Resume: &Which{ID: share.CacheID}})
	f.scans(4)
	if f.cacheGroup() == "" || f.get(plan.CacheTasks, "/batch1") == "" {
		t.Errorf("resumed: %q, %q", f.cacheGroup(), f.get(plan.CacheTasks, "/batch1"))
	}
}

// TestCacheAdapts: where memory bandwidth is counted, half is taken while important work is hurt.
func TestCacheAdapts(t *testing.T) {
	f := cached(t, share.CacheLimit{Cache: 40})
	f.scans(4)
	s := f.s
	s.Snapshot.Sources = []workload.SourceStatus{{Source: workload.MBM, Used: true}}
	s.Interference.Victims = []share.Victim{{ID: "/web", Hurt: true}}
	s.Shared.Cache = CacheUse{}
	caches.Bound{Concern: &s.cachesConcern, Batch: &s.sharingConcern}.Decide(s.scene(true))
	if got := s.Caching.Now.Cache; got != 20 {
		t.Errorf("%d %% while important work is hurt", got)
	}
}

// TestCacheKilled: a daemon that was killed at any moment goes on with it, and undo takes back all.
func TestCacheKilled(t *testing.T) {
	for n := 0; ; n++ {
		f := cached(t, share.CacheLimit{Cache: 30})
		before := f.all()
		left, ended := n, true
		f.keep = func(e *Effect) bool {
			if e.Step == nil || e.Step.Kind != plan.SetCache && e.Step.Kind != plan.SetCacheTasks {
				return false
			}
			if left--; left < 0 {
				ended = false
			}
			return left < 0
		}
		f.scans(2)
		f.keep = nil
		f.start()
		f.scans(4)
		if f.cacheGroup() == "" || f.get(plan.CacheTasks, "/batch1") == "" || f.get(plan.CacheTasks, "/batch2") == "" {
			t.Errorf("killed at step %d: %q, %q", n, f.cacheGroup(), f.get(plan.CacheTasks, "/batch1"))
		}
		f.undo("")
		if diff := cmp.Diff(before, f.all()); diff != "" || len(f.disk.journal()) != 0 {
			t.Errorf("killed at step %d, undo left:\n%s", n, diff)
		}
		if ended {
			if n < 5 {
				t.Errorf("only %d steps: this is no test", n)
			}
			return
		}
	}
}
