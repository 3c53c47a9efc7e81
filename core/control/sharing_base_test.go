package control

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/homenode/homenode/core/plan"
	"github.com/homenode/homenode/core/share"
	"github.com/homenode/homenode/core/words"
	"github.com/homenode/homenode/core/workload"
)

// served is batch with an important service beside it whose cpu.max holds it back.
func served(t testing.TB, change ...func(*Settings)) *fake {
	f := batch(t, append(change, ruled(workload.Rule{Match: "db", Tier: workload.Online}))...)
	f.batch(f.add("db", 1, 1<<20, 0))
	f.works["/db"].obs.Throttled = 0.3
	return f
}

// TestBase: memory and block devices of batch work, memory.low and bursts of important work are
// set where the configuration has them and not otherwise; all goes back.
func TestBase(t *testing.T) {
	all := share.Base{Memory: 0.9, Protect: true, Burst: true, IOWeight: 10, IO: []share.IOMax{{Device: "8:0", Read: 1 << 20}}}
	for name, tt := range map[string]struct {
		base share.Base
		want map[plan.SettingKind]string // of /batch1; "" of the whole is any but unset
		web  map[plan.SettingKind]string
	}{
		"nothing": {want: map[plan.SettingKind]string{plan.MemoryHigh: "max", plan.IOWeight: "100", plan.IOMax: ""}, web: map[plan.SettingKind]string{plan.MemoryLow: "0", plan.CgroupBurst: "0"}},
		// 8 GiB × (0.9 - 1/32) are 6.95 GiB a node. Of node 0 db holds 1 GiB; the two hold 1 GiB of node 1 each.
		"all": {all, map[plan.SettingKind]string{plan.MemoryHigh: "6920", plan.IOWeight: "10", plan.IOMax: "8:0 rbps=524288 wbps=max riops=max wiops=max"},
			map[plan.SettingKind]string{plan.MemoryLow: "1073741824", plan.CgroupBurst: plan.WholeQuota}},
	} {
		f := served(t, func(s *Settings) { s.Base = tt.base })
		f.scans(1)
		before := f.all()
		f.ask(Request{Share: &ShareOrder{On: true}})
		f.scans(4)
		check := func(path string, want map[plan.SettingKind]string) {
			for kind, v := range want {
				got := f.get(kind, path)
				if kind == plan.MemoryHigh && strings.HasPrefix(v, "6") {
					var b int64
					for _, r := range got {
						b = 10*b + int64(r-'0')
					}
					if mib := b >> 20; mib < 6000 || mib > 7200 {
						t.Errorf("%s: %s of %s is %d MiB", name, kind, path, mib)
					}
				} else if got != v {
					t.Errorf("%s: %s of %s is %q, want %q", name, kind, path, got, v)
				}
			}
		}
		check("/batch1", tt.want)
		check("/db", tt.web)
		steps := f.count(EffectApply, "")
		f.scans(5)
		if n := f.count(EffectApply, ""); n > steps+4 {
			t.Errorf("%s: %d values more were written though nothing has changed", name, n-steps)
		}
		f.ask(Request{Share: &ShareOrder{On: false}})
		f.scans(4)
		for _, id := range []string{"/batch1", "/batch2"} {
			if before["cpuset.cpus "+id] == "" {
				before["cpuset.cpus "+id] = "0-15"
			}
		}
		if diff := cmp.Diff(before, f.all()); diff != "" {
			t.Errorf("%s: turned off, not all is as before:\n%s", name, diff)
		}
	}
}

// TestBaseRespects: limits of memory and of devices that somebody has chosen stay, also bursts.
func TestBaseRespects(t *testing.T) {
	f := served(t, turnedOn, func(s *Settings) { s.Base = share.Base{Memory: 0.9, Burst: true, IOWeight: 10} })
	f.set(plan.MemoryHigh, "/batch1", "5368709120")
	f.set(plan.IOWeight, "/batch1", "300")
	f.set(plan.CgroupBurst, "/db", "20000")
	f.scans(6)
	if a, b, c := f.get(plan.MemoryHigh, "/batch1"), f.get(plan.IOWeight, "/batch1"), f.get(plan.CgroupBurst, "/db"); a != "5368709120" || b != "300" || c != "20000" {
		t.Errorf("memory.high %s, io.weight %s, burst %s", a, b, c)
	}
	if f.get(plan.IOWeight, "/batch2") != "10" {
		t.Error("the other one has no weight")
	}
}

// TestBurstEnds: where no CPU of its node is idle a burst would take from others.
func TestBurstEnds(t *testing.T) {
	f := served(t, turnedOn, func(s *Settings) { s.Base = share.Base{Burst: true} })
	f.scans(3)
	if got := f.get(plan.CgroupBurst, "/db"); got != plan.WholeQuota {
		t.Errorf("cpu.max.burst %q", got)
	}
	f.use(7, 0)
	f.uses[1].CPUUse = 8
	f.works["/db"].obs.CPUUse = 8
	f.scans(3)
	if got := f.get(plan.CgroupBurst, "/db"); got != "0" {
		t.Errorf("cpu.max.burst %q though its node is busy", got)
	}
}

// TestNoIdle: a kernel without cpu.idle gives batch work the least weight.
func TestNoIdle(t *testing.T) {
	f := batch(t, turnedOn)
	f.fail = func(e *Effect) *Failure {
		if e.Step != nil && e.Step.Target.File == string(plan.CgroupIdle) {
			return &Failure{Code: Lacking, Text: "in words of the driver"}
		}
		return nil
	}
	f.scans(6)
	for _, id := range []string{"/batch1", "/batch2"} {
		if got := f.get(plan.CgroupWeight, id); got != "1" {
			t.Errorf("%s: cpu.weight %s", id, got)
		}
	}
	if f.toldOf(workload.ID("/batch1"), words.StepFailed) != 1 {
		t.Errorf("told %d times", f.toldOf("/batch1", words.StepFailed))
	}
}

// TestSharingOfAnotherTier: work that is no longer batch work keeps nothing of what batch work has,
// also where something is set of important work, and the other way round.
func TestSharingOfAnotherTier(t *testing.T) {
	base := func(s *Settings) { s.Base.Protect, s.Base.IOWeight = true, 10 }
	f := served(t, turnedOn, base)
	f.works["/web"].obs.Waited = 0.4
	f.scans(16)
	if f.get(plan.CgroupFreeze, "/batch1") != "1" || f.get(plan.CgroupIdle, "/batch1") != "1" || f.get(plan.IOWeight, "/batch1") != "10" || f.get(plan.MemoryLow, "/db") == "0" {
		t.Fatal("not set at first")
	}
	f.start(func(s *Settings) {
		s.Rules = []workload.Rule{{Match: "batch1", Tier: workload.Online}, {Match: "batch2", Class: workload.Batch, Tier: workload.BatchTier},
			{Match: "db", Class: workload.Batch, Tier: workload.BatchTier}}
	})
	f.scans(6)
	for kind, want := range map[plan.SettingKind]string{plan.CgroupFreeze: "0", plan.CgroupIdle: "0", plan.IOWeight: "100"} {
		if got := f.get(kind, "/batch1"); got != want {
			t.Errorf("/batch1 is important now, and its %s is %s", kind, got)
		}
	}
	if got := f.get(plan.MemoryLow, "/batch1"); got == "0" {
		t.Error("/batch1 is important now, and has no memory.low")
	}
	if low, idle := f.get(plan.MemoryLow, "/db"), f.get(plan.CgroupIdle, "/db"); low != "0" || idle != "1" {
		t.Errorf("/db is batch work now: memory.low %s, cpu.idle %s", low, idle)
	}
	f.ask(Request{Share: &ShareOrder{On: false}})
	f.scans(4)
	for _, id := range []string{"/batch1", "/batch2", "/db"} {
		for kind, unset := range plan.CgroupFiles {
			if got := f.get(kind, id); got != unset {
				t.Errorf("turned off: %s of %s is %s", kind, id, got)
			}
		}
	}
}

// TestTrafficFirst: of two jobs that matter alike, the one with more memory traffic is frozen
// first, and what it has is told.
func TestTrafficFirst(t *testing.T) {
	f := batch(t, turnedOn)
	f.works["/batch2"].obs.Bandwidth = 9 << 10
	f.works["/web"].obs.Waited = 0.4
	for range 20 {
		f.scans(1)
		if g := f.s.Shared.Of("/batch2"); g != nil && g.Frozen {
			if other := f.s.Shared.Of("/batch1"); other.Frozen || g.Traffic != 9<<10 {
				t.Errorf("%+v beside %+v", g, other)
			}
			return
		}
		if f.s.Shared.Of("/batch1").Frozen {
			break
		}
	}
	t.Error("the one without traffic is frozen first, or none")
}
