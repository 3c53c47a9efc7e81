package sharing

import (
	"fmt"
	"testing"
	"time"

	"github.com/homenode/homenode/core/control/concern/concerntest"
	"github.com/homenode/homenode/core/place"
	"github.com/homenode/homenode/core/share"
	"github.com/homenode/homenode/core/workload"
)

// TestWatched: important work, and work with goals, is sampled by all its parts; batch work is not.
func TestWatched(t *testing.T) {
	h := on(t)
	h.batch("/b", func(x *place.Subject) { x.Spec.Tier = workload.Online })
	h.add("/goal", workload.Shared, "", func(x *place.Subject) { x.Spec.Goals = []workload.Goal{{}} })
	h.add("/online", workload.Shared, workload.Online, nil)
	h.add("/plain", workload.Shared, "", nil)
	h.loop.Parts = map[workload.ID][]workload.ID{"/online": {"/online", "pid:7"}}
	h.interferes()
	if got := fmt.Sprint(h.Shared.Watched); got != "map[/goal:true /online:true pid:7:true]" {
		t.Errorf("sampled: %s", got)
	}
	if len(h.Interference.Victims) != 2 || !h.Interference.At.Equal(h.Began) {
		t.Errorf("%+v", h.Interference)
	}
}

// TestNobodyWatched: without important work, batch work hurts none: the concern forgets its samples.
func TestNobodyWatched(t *testing.T) {
	h := on(t)
	h.batch("/b", nil)
	h.Interference.At = h.Began.Add(-time.Hour)
	h.interferes()
	if !h.Interference.At.IsZero() || !h.Shared.Interference.At.IsZero() {
		t.Errorf("%+v", h.Interference)
	}
}

// TestSamples: who a victim is: another cgroup, start or home is another one, without its baseline.
func TestSamples(t *testing.T) {
	at := time.Duration(0)
	h := on(t)
	h.batch("/b", nil)
	x := h.add("/x", workload.Shared, workload.Online, nil)
	o := &h.Snapshot.Observations[1]
	h.loop.Starts = map[workload.ID]uint64{"/x": 9}
	sample := func() share.Victim {
		at += share.SampleEvery
		concerntest.Pass(h.Scene, share.SampleEvery)
		o.WaitedFrom, o.CPUTime = workload.PSI, at
		h.interferes()
		return h.Shared.Interference.Victims[0]
	}
	first := sample()
	if first.ID != "/x" || first.As != "7 9 0" || first.Importance != 50 {
		t.Errorf("%+v", first)
	}
	o.Waited = 0.1
	if v := sample(); len(v.Samples) == 0 || v.Samples[len(v.Samples)-1] != 0.1 {
		t.Errorf("it waited: %+v", v)
	}
	h.interferes() // the same ten seconds
	if n := len(h.Interference.Victims[0].Samples); n != len(sample().Samples)-1 {
		t.Errorf("%d samples within ten seconds", n)
	}
	for name, hides := range map[string]func(){
		"its limit held it back": func() { o.Throttled = 0.01 },
		"it filled its CPUs":     func() { o.Throttled, o.CPUUse = 0, 8 },
	} {
		hides()
		v := sample()
		if v.Samples[len(v.Samples)-1] != -1 {
			t.Errorf("%s: %+v", name, v.Samples)
		}
	}
	o.Throttled = 0
	h.Plan.Placements = h.Plan.Placements[:1]
	if v := sample(); v.As != "7 9" || v.Importance != workload.DefaultImportance {
		t.Errorf("without a home: %+v", v)
	}
	x.Observation.ID = "/y" // the scan has not seen it
	h.interferes()
	concerntest.Pass(h.Scene, share.SampleEvery)
	h.interferes()
	if len(h.Interference.Victims) != 0 {
		t.Errorf("a victim that was not seen: %+v", h.Interference.Victims)
	}
}

// TestBlame: history has each offender with its victim once, where homenode acts.
func TestBlame(t *testing.T) {
	for _, acts := range []bool{true, false} {
		h := on(t)
		h.Acts = acts
		h.batch("/b", nil)
		h.add("/x", workload.Shared, workload.Online, nil)
		victim, batch := h.loop.Observation("/x"), h.loop.Observation("/b")
		victim.WaitedFrom = workload.PSI
		told := ""
		for i := range 120 {
			concerntest.Pass(h.Scene, share.SampleEvery)
			busy := i > 40 && i%2 == 0
			victim.Waited = 0.01
			use := 0.2
			if busy {
				victim.Waited, use = 0.6, 6
			}
			victim.CPUTime += 5 * time.Second
			batch.CPUTime += time.Duration(use * float64(share.SampleEvery))
			h.interferes()
			told += h.loop.Logged()
			if told != "" {
				break
			}
		}
		if !acts {
			concerntest.Expect(t, "nothing is changed", told, "")
			continue
		}
		if len(h.Interference.Blames) == 0 {
			t.Fatal("nobody is blamed")
		}
		b := &h.Interference.Blames[0]
		concerntest.Expect(t, "history", told,
			fmt.Sprintf("event /b share-found /x %v %d %s", b.Score, b.Samples, b.Until.Sub(b.Since)))
		h.interferes()
		h.logged("the same sample", "")
	}
}
