package share

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/core/words"
	"github.com/homenode/homenode/core/workload"
)

// hurt is a victim whose samples alternate around its limit, and use is a suspect with the same rhythm.
func hurt() Victim {
	v := Victim{ID: "/v", Importance: 50, Signal: workload.CPI, Limit: 1, Hurt: true, Usual: []float64{0.9, 0.9}}
	for i := range 20 {
		v.Samples = append(v.Samples, []float64{0.5, 2}[i%2])
	}
	return v
}

func use(id workload.ID, most float64, batch bool, importance int) Suspect {
	x := Suspect{ID: id, Batch: batch, Importance: importance}
	for i := range 20 {
		x.Use = append(x.Use, []float64{0, most}[i%2])
	}
	return x
}

// TestOffender: batch work first, then less important work, never the victim itself.
func TestOffender(t *testing.T) {
	steady := Suspect{ID: "/steady", Batch: true, Use: make([]float64, 20)}
	for i := range steady.Use {
		steady.Use[i] = 4
	}
	weak := use("/weak", 1, true, 0)
	for i := range weak.Use {
		weak.Use[i] += 0.3 // it runs in good times, too
	}
	for _, c := range []struct {
		name     string
		suspects []Suspect
		calm     bool
		want     workload.ID
	}{
		{"batch work", []Suspect{use("/a", 9, false, 10), use("/b", 1, true, 90)}, false, "/b"},
		{"the likelier of two", []Suspect{use("/b", 1, true, 0), weak}, false, "/b"},
		{"the likelier of two, last", []Suspect{weak, use("/b", 1, true, 0)}, false, "/b"},
		{"less important work", []Suspect{use("/a", 9, false, 49), use("/v", 9, false, 10)}, false, "/a"},
		{"as important work", []Suspect{use("/a", 9, false, 50)}, false, ""},
		{"a steady load", []Suspect{steady}, false, ""},
		{"nobody is hurt", []Suspect{use("/b", 1, true, 0)}, true, ""},
	} {
		v := hurt()
		v.Hurt = !c.calm
		s := Interference{Suspects: c.suspects}
		got := workload.ID("")
		if x := s.Offender(&v); x != nil {
			got = x.ID
		}
		if got != c.want {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
}

// codes writes the codes of reasons.
func codes(all []words.Reason) string {
	var out []string
	for _, r := range all {
		out = append(out, string(r.Code))
	}
	return strings.Join(out, " ")
}

// TestHarms: each important workload with its signal, its baseline, its likely offender and its blames.
func TestHarms(t *testing.T) {
	change := func(f func(*Victim)) Victim {
		v := hurt()
		f(&v)
		return v
	}
	batch, other := []Suspect{use("/b", 1, true, 0)}, []Suspect{use("/o", 1, false, 0)}
	blame := []Blame{{Offender: "/b", Victim: "/v", Until: epoch.Add(1)}, {Offender: "/b", Victim: "/w"}}
	for _, c := range []struct {
		name     string
		v        Victim
		suspects []Suspect
		blames   []Blame
		value    float64
		by       workload.ID
		want     string
	}{
		{"no signal", Victim{ID: "/v"}, nil, nil, -1, "", "share-no-signal"},
		{"too little use", change(func(v *Victim) { v.Samples[19] = -1 }), batch, nil, -1, "/b",
			"share-no-cpi share-usual-cpi share-hurt share-offender"},
		{"hurt by batch work", hurt(), batch, nil, 2, "/b", "share-cpi share-usual-cpi share-hurt share-offender"},
		{"hurt by other work", hurt(), other, nil, 2, "/o",
			"share-cpi share-usual-cpi share-hurt share-offender share-not-batch"},
		{"hurt by nobody", hurt(), nil, nil, 2, "", "share-cpi share-usual-cpi share-hurt share-nobody"},
		{"not hurt", change(func(v *Victim) { v.Hurt = false }), batch, nil, 2, "", "share-cpi share-usual-cpi share-unhurt"},
		{"still learning", change(func(v *Victim) { v.Limit = 0 }), batch, nil, 2, "", "share-cpi share-learns"},
		{"it waits", change(func(v *Victim) { v.Signal, v.Hurt = workload.PSI, false }), nil, nil, 2, "",
			"share-wait share-usual-wait share-unhurt"},
		{"it waits never", change(func(v *Victim) {
			v.Signal, v.Hurt, v.Samples = workload.PSI, false, []float64{0}
		}), nil, nil, 0, "", "share-wait share-usual-wait share-unhurt"},
		{"its wait is not known", change(func(v *Victim) {
			v.Signal, v.Hurt, v.Samples = workload.PSI, false, nil
		}), nil, nil, -1, "", "share-no-wait share-usual-wait share-unhurt"},
		{"with a blame", change(func(v *Victim) { v.Hurt = false }), nil, blame, 2, "",
			"share-cpi share-usual-cpi share-unhurt share-is-cut"},
	} {
		s := Interference{At: epoch, Victims: []Victim{c.v}, Suspects: c.suspects, Blames: c.blames}
		all := s.Harms()
		if len(all) != 1 {
			t.Fatalf("%s: %+v", c.name, all)
		}
		h := &all[0]
		if got := codes(h.Why); got != c.want || h.Value != c.value || h.By != c.by || h.Workload != "/v" {
			t.Errorf("%s: value %v, by %q: %s, want %s", c.name, h.Value, h.By, got, c.want)
		}
		if (h.By != "") != (h.Samples > 0 && h.Score > 0) || h.Learned != len(c.v.Usual) || h.Limit != c.v.Limit {
			t.Errorf("%s: %+v", c.name, h)
		}
	}
}

// TestHurts: the victims of a workload, each with the state of the blame.
func TestHurts(t *testing.T) {
	s := Interference{At: epoch, Blames: []Blame{
		{Offender: "/b", Victim: "/x", Score: 0.5, Samples: 9, Until: epoch.Add(time.Minute)},
		{Offender: "/c", Victim: "/x"},
		{Offender: "/b", Victim: "/y", Until: epoch.Add(-time.Minute)},
		{Offender: "/b", Victim: "/z", Cleared: true, Until: epoch.Add(time.Minute)},
	}}
	got := s.Hurts("/b")
	if all := codes(got); all != "share-hurts share-is-cut share-hurts share-had-cut share-hurts share-cleared" {
		t.Errorf("%s", all)
	}
	for i, want := range map[int]words.Reason{
		0: words.Because(words.ShareHurts, "/x", 0.5, 9), 1: words.Because(words.ShareIsCut, "/b", time.Minute),
		3: words.Because(words.ShareHadCut, "/y", time.Minute), 5: words.Because(words.ShareCleared, "/b", "/z", clearedFor),
	} {
		if !got[i].Equal(want) {
			t.Errorf("%d: %v, want %v", i, got[i], want)
		}
	}
	if len(s.Hurts("/a")) > 0 {
		t.Error("/a hurts nobody")
	}
}

// TestBoundOfMemory: of many workloads those that use most CPU are kept, batch work first, rising by ID.
func TestBoundOfMemory(t *testing.T) {
	var s Interference
	for i := range mostVictims + 4 {
		s.Victims = append(s.Victims, Victim{ID: workload.ID(fmt.Sprintf("/v%02d", i)), CPUTime: time.Duration(i)})
	}
	for i := range mostSuspects + 4 {
		s.Suspects = append(s.Suspects, Suspect{ID: workload.ID(fmt.Sprintf("/s%02d", i)), Use: []float64{-1, float64(i)}})
	}
	s.Suspects[1].Batch = true
	s.bound()
	if n := len(s.Victims); n != mostVictims || s.Victims[0].ID != "/v04" || s.Victims[n-1].ID != "/v19" {
		t.Errorf("victims: %d, from %s", n, s.Victims[0].ID)
	}
	n := len(s.Suspects)
	if n != mostSuspects || s.Suspects[0].ID != "/s01" || s.Suspects[1].ID != "/s05" || s.Suspects[n-1].ID != "/s67" {
		t.Errorf("suspects: %d, %s and then from %s", n, s.Suspects[0].ID, s.Suspects[1].ID)
	}
	before := len(s.Victims)
	if s.bound(); len(s.Victims) != before || len(s.Suspects) != n {
		t.Error("it forgets some of few")
	}
	if got := sum([]float64{1, -1, 2.5}); got != 3.5 {
		t.Errorf("unknown samples count: %v", got)
	}
}

// TestIOPart: batch workloads divide what all may do together, at least a page and one operation a second each.
func TestIOPart(t *testing.T) {
	all := []IOMax{{Device: "8:0", Read: 8 << 20, WriteIOPS: 10}, {Device: "8:16", Write: 5000, ReadIOPS: 1}}
	for among, want := range map[int]string{
		0: "8:0 rbps=8388608 wbps=max riops=max wiops=10; 8:16 rbps=max wbps=5000 riops=1 wiops=max",
		1: "8:0 rbps=8388608 wbps=max riops=max wiops=10; 8:16 rbps=max wbps=5000 riops=1 wiops=max",
		2: "8:0 rbps=4194304 wbps=max riops=max wiops=5; 8:16 rbps=max wbps=4096 riops=1 wiops=max",
	} {
		if got := IOPart(all, among); got != want {
			t.Errorf("among %d: %s, want %s", among, got, want)
		}
	}
	least := []IOMax{{Device: "8:0", Read: 1, Write: 1, ReadIOPS: 1, WriteIOPS: 1}}
	if got := IOPart(least, 9); got != "8:0 rbps=4096 wbps=4096 riops=1 wiops=1" {
		t.Errorf("the least: %q", got)
	}
	if got := IOPart(nil, 2); got != "" {
		t.Errorf("no device: %q", got)
	}
}

// TestCacheLimits: the notation of a limit, with its bounds.
func TestCacheLimits(t *testing.T) {
	for text, valid := range map[string]bool{
		"cache=30% bandwidth=0%": true, "cache=100% bandwidth=100%": true, "cache=0% bandwidth=0%": true,
		"cache=101% bandwidth=0%": false, "cache=0% bandwidth=101%": false, "cache=-1% bandwidth=0%": false,
		"cache=0% bandwidth=-1%": false, "cache=030% bandwidth=0%": false, "cache=30%": false, "": false,
	} {
		l, err := ParseCacheLimit(text)
		if (err == nil) != valid || (valid && l.String() != text) || (!valid && !l.None()) {
			t.Errorf("%q: %v, %v", text, l, err)
		}
	}
	if (CacheLimit{Bandwidth: 1}).None() || (CacheLimit{Cache: 1}).None() || !(CacheLimit{}).None() {
		t.Error("a limit is none")
	}
}

// TestEqualConfig: two configurations are equal when all their values are.
func TestEqualConfig(t *testing.T) {
	config := func(f func(*SchedulerConfig)) *SchedulerConfig {
		c := &SchedulerConfig{
			Nodes:  []SchedulerNode{{Node: 1, CPUs: 2, Idle: 3}},
			Groups: []SchedulerGroup{{Cgroup: "/b", Object: 7, Tier: workload.BatchTier, Nodes: topology.Nodes(1)}},
		}
		f(c)
		return c
	}
	same := config(func(*SchedulerConfig) {})
	for name, f := range map[string]func(*SchedulerConfig){
		"node":        func(c *SchedulerConfig) { c.Nodes[0].CPUs = 3 },
		"cgroup":      func(c *SchedulerConfig) { c.Groups[0].Cgroup = "/c" },
		"object":      func(c *SchedulerConfig) { c.Groups[0].Object = 8 },
		"tier":        func(c *SchedulerConfig) { c.Groups[0].Tier = workload.Online },
		"group nodes": func(c *SchedulerConfig) { c.Groups[0].Nodes = topology.Nodes(2) },
		"groups":      func(c *SchedulerConfig) { c.Groups = nil },
	} {
		if same.Equal(config(f)) {
			t.Errorf("another %s is the same", name)
		}
	}
	if !same.Equal(config(func(*SchedulerConfig) {})) {
		t.Error("the same values are another configuration")
	}
}
