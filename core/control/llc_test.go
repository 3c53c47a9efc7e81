package control

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/homenode/homenode/core/plan"
	"github.com/homenode/homenode/core/words"
	"github.com/homenode/homenode/core/workload"
)

// TestCachesOfSharedWork: with caches: place shared work that is calm is kept in one cache of its node,
// gets all of the node at once when it waits, and undo and another mode restore it.
func TestCachesOfSharedWork(t *testing.T) {
	begin := func(mode plan.CacheMode) (f *fake, web workload.ID, before any) {
		f = newFake(t, 2, 16, func(s *Settings) { s.Policy.Caches = mode })
		f.perCache = 2
		web = f.add("web", 2, 1<<20, 1)
		f.works[web].obs.WaitedFrom = workload.PSI
		before = f.all()
		f.scans(20)
		return f, web, before
	}
	f, web, _ := begin(plan.CachesReport)
	if f.cpus(web) != "16-31" || f.placement(web).Caches.Len() > 0 {
		t.Errorf("mode report: CPUs %s, caches %v", f.cpus(web), f.placement(web).Caches)
	}
	if r := f.decision(web).Reasons; !hasCode(r, words.CacheWould) {
		t.Errorf("mode report: %v", r)
	}

	f, web, before := begin(plan.CachesPlace)
	kept := f.cpus(web)
	if p := f.placement(web); p.Caches.Len() != 1 || p.CPUs.String() != kept || p.CPUs.Len() != 4 {
		t.Fatalf("kept in caches %v (%v), CPUs are %s", p.Caches, p.CPUs, kept)
	}
	f.scans(5)
	if now := f.cpus(web); now != kept {
		t.Errorf("it does not stay: %s, then %s", kept, now)
	}
	f.works[web].obs.Waited = 0.4
	f.scans(2)
	if now := f.cpus(web); now != "16-31" || f.placement(web).Caches.Len() > 0 {
		t.Errorf("it waits and has CPUs %s", now)
	}
	f.works[web].obs.Waited = 0
	f.scans(40)
	if now := f.placement(web); now.Caches.Len() != 1 || f.cpus(web) != now.CPUs.String() {
		t.Errorf("calm again: CPUs %s, caches %v", f.cpus(web), now.Caches)
	}
	f.start(func(s *Settings) { s.Policy.Caches = plan.CachesOff })
	f.scans(4)
	if now := f.cpus(web); now != "16-31" {
		t.Errorf("mode off: CPUs %s", now)
	}
	f.start(func(s *Settings) { s.Policy.Caches = plan.CachesPlace })
	f.scans(30)
	f.undo("")
	if diff := cmp.Diff(before, f.all()); diff != "" {
		t.Errorf("undo left:\n%s", diff)
	}
}

func hasCode(all []words.Reason, code words.Code) bool {
	for _, r := range all {
		if r.Code == code {
			return true
		}
	}
	return false
}

// TestClockSetBackCaches: after the clock was set back by a year, work that became calm is kept in a cache again.
func TestClockSetBackCaches(t *testing.T) {
	f := newFake(t, 2, 16, func(s *Settings) { s.Policy.Caches = plan.CachesPlace })
	f.perCache = 2
	web := f.add("web", 2, 1<<20, 1)
	f.works[web].obs.WaitedFrom = workload.PSI
	f.scans(20)
	f.works[web].obs.Waited = 0.4
	f.scans(2)
	f.works[web].obs.Waited = 0
	f.after(-365 * 24 * time.Hour)
	f.scans(40)
	if now := f.placement(web); now.Caches.Len() != 1 {
		t.Errorf("caches %v", now.Caches)
	}
}
