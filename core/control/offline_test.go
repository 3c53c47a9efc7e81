package control

import (
	"strings"
	"testing"
	"time"

	"github.com/homenode/homenode/core/plan"
	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/core/words"
	"github.com/homenode/homenode/core/words/wordstest"
	"github.com/homenode/homenode/core/workload"
)

// offlineScan is a scan in which CPUs are offline.
func (f *fake) offlineScan(claims []workload.Claim, cpus ...topology.CPUID) {
	f.t.Helper()
	s := f.begin()
	s.Snapshot = f.snapshot()
	h := *s.Snapshot.Host
	for _, cpu := range cpus {
		h.Online.Remove(cpu)
		h.Allowed.Remove(cpu)
		h.Offline.Add(cpu)
		for i := range h.Nodes {
			h.Nodes[i].CPUs.Remove(cpu)
		}
		for i := range h.Cores {
			h.Cores[i].CPUs.Remove(cpu)
		}
	}
	s.Snapshot.Host = &h
	if claims != nil {
		s.Claims = []Claimed{{Source: "runtime", Claims: claims}}
	}
	f.turn(Input{Scan: s})
	f.run()
	f.after(2 * time.Second)
}

// TestAHoldKeepsWhatIsOnline: a home that is held for work loses the CPUs that go offline and no
// others. Who asks for it again gets a whole one elsewhere, unless the work runs on the rest
// already or there is no room; it has its CPUs again once they are online.
func TestAHoldKeepsWhatIsOnline(t *testing.T) {
	for _, tt := range []struct {
		name  string
		inUse bool
		full  bool // the host has no other room
	}{{"room elsewhere", false, false}, {"its work runs there", true, false}, {"no other room", false, true}} {
		t.Run(tt.name, func(t *testing.T) {
			f := newFake(t, 2, 4)
			f.scan(1)
			spec := workload.Spec{ID: "claim:a", Name: "shop/a", Class: workload.Dedicated, CPUs: 2}
			ask := func(spec workload.Spec) Reply {
				return f.ask(Request{Place: &PlaceRequest{Spec: spec, Hold: time.Hour}})
			}
			first := ask(spec)
			if first.Failed != nil {
				t.Fatal(asJSON(t, first))
			}
			was := first.Place.Placement.CPUs
			if tt.full {
				for cpus := 4; cpus > 0; cpus-- {
					ask(workload.Spec{ID: workload.ID("rest" + string(rune('0'+cpus))), Class: workload.Dedicated, CPUs: cpus})
				}
			}
			var claims []workload.Claim
			if tt.inUse {
				id := f.add("pod", 1, 1<<20, 0)
				f.set(plan.CgroupCPUs, string(id), was.String())
				f.works[id].obs.CPUs = was
				claims = []workload.Claim{{ID: "shop/pod", Cgroups: []string{"/pod"}, Running: true, Booked: true, Alone: words.Because(words.ContainerClaimed),
					Spec: &workload.Spec{ID: "shop/pod", Class: workload.Dedicated, CPUs: 2}}}
				f.claimedScan(claims...)
			}
			off := was.Min()
			rest := was.Minus(topology.CPUs(off))
			f.offlineScan(claims, off)
			f.offlineScan(claims, off)
			var told []string
			for _, p := range f.s.Snapshot.Problems {
				if p.Subject == "shop/a" {
					told = append(told, p.Text)
				}
			}
			if len(told) != 1 || !strings.Contains(told[0], "still held: "+words.CPUs(rest)+".") {
				t.Errorf("told: %q", told)
			}
			if r := ask(workload.Spec{ID: "thief", Class: workload.Dedicated, CPUs: 1, Nodes: first.Place.Placement.Home}); r.Failed == nil && r.Place.Placement.CPUs.Intersects(was) {
				t.Errorf("another one has %s of it", r.Place.Placement.CPUs)
			}
			f.ask(Request{Place: &PlaceRequest{Spec: workload.Spec{ID: "thief"}, Release: true}})
			again := ask(spec)
			got := again.Place.Placement.CPUs
			if stays := tt.inUse || tt.full; stays {
				if !got.Equal(rest) || !wordstest.Has(again.Place.Decision.Reasons, words.Reason{Code: words.HeldLost}) {
					t.Errorf("asked again: %s", asJSON(t, again))
				}
				f.scan(1)
				if later := ask(spec); !later.Place.Placement.CPUs.Equal(was) || wordstest.Has(later.Place.Decision.Reasons, words.Reason{Code: words.HeldLost}) {
					t.Errorf("all CPUs are online: %s", asJSON(t, later))
				}
				return
			}
			if got.Len() != 2 || got.Has(off) {
				t.Errorf("asked again: %s", asJSON(t, again))
			}
			f.offlineScan(claims, off)
			if p := f.s.Facts.Placements; len(p) != 1 || !p[0].CPUs.Equal(got) || len(f.s.Snapshot.Problems) > 0 {
				t.Errorf("placed anew: %s", asJSON(t, p))
			}
		})
	}
}
