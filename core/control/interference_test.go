package control

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/homenode/homenode/core/plan"
	"github.com/homenode/homenode/core/words"
	"github.com/homenode/homenode/core/workload"
)

// hurt is a host where batch1 and batch2 take turns for a while; then batch1, when it runs,
// triples the cycles that web takes an instruction.
func (f *fake) hurt(looks int, harms bool) {
	const period = 2 * time.Second
	for range looks {
		f.beat++
		web, one, two := &f.works["/web"].obs, &f.works["/batch1"].obs, &f.works["/batch2"].obs
		web.CPUTime += 2 * period
		instructions := 4e9
		if f.beat%50 < 25 { // 50 s each
			one.CPUTime += 2 * period
			if g := f.s.Shared.Of("/batch1"); harms && !(g.Cut && f.settings.Enforce) {
				instructions /= 3
			}
		} else {
			two.CPUTime += 2 * period
		}
		web.Executed.Cycles += 4e9
		web.Executed.Instructions += instructions
		f.scans(1)
	}
}

// TestInterference: who makes somebody important take more cycles an instruction is found, has
// one core of each node for a while, and is let go by itself; observe mode only tells.
func TestInterference(t *testing.T) {
	for _, enforce := range []bool{true, false} {
		f := batch(t, turnedOn, func(s *Settings) { s.Enforce = enforce })
		f.scans(2)
		if w := f.s.View().Sharing.Watched; len(w) != 1 || !w["/web"] {
			t.Fatalf("watched: %v", w)
		}
		f.hurt(250, false)
		learned := f.s.View().Sharing
		if h := learned.Interference.Harms(); len(h) != 1 || h[0].Hurt || h[0].Signal != workload.CPI || h[0].Usual != 1 {
			t.Fatalf("%+v", h)
		}
		before := f.all()
		for k := 0; k < 400 && len(f.s.Interference.Blames) == 0; k++ {
			f.hurt(1, true)
		}
		v := f.s.View().Sharing
		h := v.Interference.Harms()[0]
		if !h.Hurt || h.By != "/batch1" || h.Workload != "/web" || h.Value < 1.5 {
			t.Fatalf("%+v", h)
		}
		if !enforce {
			if f.toldOf("/batch1", words.ShareFound) > 0 || f.cpus("/batch1") != before["cpuset.cpus /batch1"] {
				t.Error("observe mode did something")
			}
			if g := v.Of("/batch1"); !g.Cut || g.For != "/web" {
				t.Errorf("observe mode does not tell: %+v", g)
			}
			continue
		}
		f.hurt(2, true)
		if f.given("/batch1") != 4 || f.given("/batch2") <= 4 { // a core of each node
			t.Errorf("batch1 has %s, batch2 %s", f.cpus("/batch1"), f.cpus("/batch2"))
		}
		if n := f.toldOf("/batch1", words.ShareFound); n != 1 {
			t.Errorf("told %d times", n)
		}
		if f.get(plan.CgroupFreeze, "/batch1") != "0" {
			t.Error("it is frozen")
		}
		f.hurt(160, false)
		if f.given("/batch1") <= 4 {
			t.Errorf("it still has %s", f.cpus("/batch1"))
		}
		f.ask(Request{Share: &ShareOrder{On: false}})
		f.scans(1)
		if v := f.s.View().Sharing; len(v.Watched) > 0 || len(v.Interference.Victims) > 0 {
			t.Error("it goes on though sharing is off")
		}
	}
}

// TestStopsUnits: a unit of batch work is stopped when squeezing it was not enough for long,
// by systemd, only where the configuration says so, thawed before, and once.
func TestStopsUnits(t *testing.T) {
	for name, tt := range map[string]struct {
		cgroup string
		change func(*Settings)
		want   []string
		told   int
	}{
		"by default":          {"/encode.service", func(s *Settings) { s.Share.EvictAfter = 0 }, nil, 0},
		"not allowed":         {"/encode.service", func(s *Settings) { s.Share.Stop = false }, nil, 0},
		"allowed":             {"/encode.service", func(*Settings) {}, []string{"encode.service"}, 1},
		"no unit":             {"/encode", func(*Settings) {}, nil, 0},
		"in observe mode":     {"/encode.service", observing, nil, 0},
		"frozen for long":     {"/encode.service", func(s *Settings) { s.Share.Freeze = true }, []string{"encode.service"}, 1},
		"within another unit": {"/a.service/encode.service", func(*Settings) {}, nil, 0},
		"of a user":           {"/user.slice/encode.service", func(*Settings) {}, nil, 0},
	} {
		t.Run(name, func(t *testing.T) {
			f := batch(t, turnedOn, ruled(workload.Rule{Match: "*encode*", Class: workload.Batch}), func(s *Settings) {
				s.Share.Freeze, s.Share.EvictAfter, s.Share.Stop = false, 2*time.Minute, true
			}, tt.change)
			f.remove("/batch1")
			f.remove("/batch2")
			id := f.add(tt.cgroup[1:], 2, 1<<20, 1)
			f.batch(id)
			f.works["/web"].obs.Waited = 0.4
			f.scans(150)
			if !slices.Equal(f.units, tt.want) || f.toldOf(id, words.ShareEvict) != tt.told {
				t.Errorf("stopped %v, told %d times", f.units, f.toldOf(id, words.ShareEvict))
			}
			if len(tt.want) > 0 && f.get(plan.CgroupFreeze, string(id)) == "1" {
				t.Error("it is asked to end, and frozen")
			}
			f.remove(id)
			f.scans(1)
			for key := range f.s.Told {
				if strings.HasSuffix(key, string(id)) {
					t.Errorf("%q is kept though it is gone", key)
				}
			}
		})
	}
}

// TestAsksRuntime: of what somebody else manages nothing is stopped: that it should be is told.
func TestAsksRuntime(t *testing.T) {
	f := batch(t, turnedOn, func(s *Settings) { s.Share.Freeze, s.Share.EvictAfter = false, 2*time.Minute })
	f.works["/web"].obs.Waited = 0.4
	f.works["/batch1"].obs.Caps.Evicts = true
	f.scans(150)
	if f.toldOf("/batch1", words.ShareEvict) != 1 || f.toldOf("/batch2", words.ShareEvict) != 0 || len(f.units) > 0 {
		t.Errorf("told of batch1 %d times, of batch2 %d, stopped %v", f.toldOf("/batch1", words.ShareEvict), f.toldOf("/batch2", words.ShareEvict), f.units)
	}
	v := f.s.View().Sharing
	if g := v.Of("/batch1"); g.Asked.IsZero() || g.For != "/web" {
		t.Errorf("%+v", g)
	}
}

// TestMemoryHeadroom: what batch work may hold of each node is told where it is limited.
func TestMemoryHeadroom(t *testing.T) {
	f := batch(t, turnedOn)
	f.scans(2)
	if m := f.s.View().Sharing.Memory; len(m) > 0 {
		t.Errorf("it is not limited: %v", m)
	}
	f = batch(t, turnedOn, func(s *Settings) { s.Base.Memory = 0.9 })
	f.scans(2)
	m := f.s.View().Sharing.Memory
	if len(m) != 2 || m[0].Node != 0 || m[0].KiB <= 0 || m[0].KiB != m[1].KiB-1<<20 { // web holds 1 GiB of node 0
		t.Errorf("%v", m)
	}
}
