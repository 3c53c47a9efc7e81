package control

import (
	"testing"
	"time"

	"github.com/homenode/homenode/core/plan"
	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/core/words"
	"github.com/homenode/homenode/core/workload"
)

// several is a claim on more than one cgroup, of which a person said how large it is.
func several(id workload.ID, cgroups ...string) workload.Claim {
	return workload.Claim{ID: id, Name: string(id), Cgroups: cgroups, Running: true, Ruled: true,
		Spec: &workload.Spec{ID: id, Class: workload.Shared, CPUs: 2, Memory: 1 << 20, Importance: 50, Given: true}}
}

// Cgroups that one claim names are one workload: with the memory and the processes of all.
func TestCgroupsOfOneClaimAreOneWorkload(t *testing.T) {
	f := newFake(t, 2, 8)
	f.add("a/x", 1, 1<<20, 1)
	f.add("a/y", 2, 1<<19, 0)
	f.add("a/y-z", 3, 1<<18, 0)
	f.claimedScan(several("web/a", "/a/x", "/a/y"))
	all := f.s.Snapshot.Observations
	if len(all) != 2 || all[0].ID != "/a/y-z" || all[1].ID != "web/a" {
		t.Fatalf("%+v", all)
	}
	o := all[1]
	if o.Cgroup != "/a/x" || workload.Total(o.Memory) != 1<<20+1<<19 || len(o.Memory) != 2 || o.Memory[0].Node != 0 || o.CPUUse != 3 {
		t.Errorf("%+v", o)
	}
	if got := f.s.Observed("web/a"); len(got) != 2 || got[0] != "/a/x" || got[1] != "/a/y" {
		t.Errorf("seen as %v", got)
	}
}

// A part that came later, without the CPUs that the others have, gets them.
func TestPartsThatCameLater(t *testing.T) {
	f := newFake(t, 2, 8)
	f.add("a/x", 1, 1<<20, 1)
	f.claimedScan(several("web/a", "/a/x"))
	f.claimedScan(several("web/a", "/a/x"))
	was := f.get(plan.CgroupCPUs, "/a/x")
	f.add("a/y", 1, 1<<20, 1)
	read := f.count(EffectRead, "web/a")
	for range 3 {
		f.claimedScan(several("web/a", "/a/x", "/a/y"))
	}
	if was == "" || f.count(EffectRead, "web/a") == read { // the driver knows all parts
		t.Errorf("set to %q, and no step for the second", was)
	}
}

// The home that was held for what was about to start is its home once it is seen, also of a
// daemon that was started anew in between; and it begins without a step where it was put.
func TestHeldHomeIsKept(t *testing.T) {
	for _, again := range []bool{false, true} {
		f := newFake(t, 2, 8)
		f.add("other", 4, 1<<20, 0)
		f.scan(2)
		c := several("web/a", "/a")
		c.Spec.Class = workload.Dedicated
		spec := *c.Spec
		spec.Nodes = topology.Nodes(1)
		r := f.ask(Request{Place: &PlaceRequest{Spec: spec, Hold: time.Minute, Starts: true}})
		if r.Failed != nil || !r.Place.Placement.Home.Equal(topology.Nodes(1)) {
			t.Fatalf("%+v", r)
		}
		if again {
			f.start() // what is on disk is all that it knows
		}
		f.add("a", 1, 1<<10, 1)
		f.set(plan.CgroupCPUs, "/a", r.Place.Placement.CPUs.String())
		c.Began = []workload.Began{{Cgroup: "/a", CPUs: r.Place.Placement.CPUs.String()}}
		for range 2 {
			f.claimedScan(c)
		}
		if e := f.s.Journal.Of(plan.CgroupCPUs, "/a"); e == nil || e.Old != "" || e.New != r.Place.Placement.CPUs.String() || f.told(words.BegunWith) != 1 {
			t.Errorf("again %v: in the journal as %+v", again, e)
		}
		if f.home("web/a") != "1" || len(f.s.Admissions) != 0 {
			t.Errorf("again %v: home %s, admissions %v", again, f.home("web/a"), f.s.Admissions)
		}
		if got := f.get(plan.CgroupCPUs, "/a"); got != r.Place.Placement.CPUs.String() {
			t.Errorf("again %v: set to %q, held %v", again, got, r.Place.Placement.CPUs)
		}
	}
}

// What began with what homenode had set while an undo went on is put back, too.
func TestUndoOfWhatJustBegan(t *testing.T) {
	f := newFake(t, 2, 8)
	f.add("other", 4, 1<<20, 0)
	f.scan(2)
	if r := f.ask(Request{Undo: &Which{All: true}}); r.Failed != nil {
		t.Fatal(r.Failed)
	}
	f.add("a", 1, 1<<10, 1)
	f.set(plan.CgroupCPUs, "/a", "8-9")
	c := several("web/a", "/a")
	c.Began = []workload.Began{{Cgroup: "/a", CPUs: "8-9"}}
	f.claimedScan(c)
	if got := f.get(plan.CgroupCPUs, "/a"); got == "8-9" || f.s.Journal.Of(plan.CgroupCPUs, "/a") != nil {
		t.Errorf("it keeps %q, in the journal as %+v", got, f.s.Journal.Of(plan.CgroupCPUs, "/a"))
	}
	f.ask(Request{Resume: &Which{All: true}})
	if f.s.Holds.Has("web/a") {
		t.Error("still held")
	}
}

// Rules that a source has put into a claim are not put over it again, and sizes that it leaves
// open are those that were seen.
func TestRuledClaims(t *testing.T) {
	f := newFake(t, 2, 8, ruled(workload.Rule{Match: "web/*", Class: workload.Dedicated, CPUs: 3}))
	f.add("a", 2, 1<<20, 0)
	c := several("web/a", "/a")
	c.Spec.CPUs, c.Spec.Memory = 0, 0
	f.claimedScan(c)
	v := f.s.View()
	if got := v.SpecOf("web/a"); got.Class != workload.Shared || got.CPUs != 2 || got.Memory < 1<<20 {
		t.Errorf("%+v", got)
	}
}
