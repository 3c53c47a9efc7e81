package control

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/homenode/homenode/core/plan"
	"github.com/homenode/homenode/core/workload"
)

// TestDedicatedNeverSwaps: with swap: never the cgroups of dedicated work have memory.swap.max 0, and
// no others; what the user set stays, and switching it off, undo and a new class restore it.
func TestDedicatedNeverSwaps(t *testing.T) {
	swaps := func(f *fake, id workload.ID) string { return f.get(plan.SwapMax, string(id)) }
	begin := func() (f *fake, db, web workload.ID, before any) {
		f = newFake(t, 2, 8, func(s *Settings) { s.NeverSwap = true }, ruled(workload.Rule{Match: "db", Class: workload.Dedicated}))
		db, web = f.add("db", 2, 1<<20, 0), f.add("web", 2, 1<<20, 1)
		for _, id := range []workload.ID{db, web} {
			f.batch(id) // its files
		}
		before = f.all()
		f.scans(4)
		return f, db, web, before
	}
	f, db, web, before := begin()
	if swaps(f, db) != "0" || swaps(f, web) != "max" {
		t.Fatalf("dedicated %q, shared %q", swaps(f, db), swaps(f, web))
	}
	f.undo("")
	if diff := cmp.Diff(before, f.all()); diff != "" {
		t.Errorf("undo left:\n%s", diff)
	}

	f, db, _, _ = begin()
	f.start(func(s *Settings) { s.NeverSwap = false })
	f.scans(4)
	if swaps(f, db) != "max" {
		t.Errorf("switched off: %q", swaps(f, db))
	}

	f, db, _, _ = begin()
	f.start(func(s *Settings) { s.NeverSwap, s.Rules = true, []workload.Rule{{Match: "db", Class: workload.Shared}} })
	f.scans(6)
	if swaps(f, db) != "max" {
		t.Errorf("of another class: %q", swaps(f, db))
	}
}
