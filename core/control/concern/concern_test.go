package concern_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/homenode/homenode/core/control/concern"
	"github.com/homenode/homenode/core/control/concern/concerntest"
	"github.com/homenode/homenode/core/control/work"
	"github.com/homenode/homenode/core/place"
	"github.com/homenode/homenode/core/plan"
	"github.com/homenode/homenode/core/plan/plantest"
	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/core/words"
	"github.com/homenode/homenode/core/workload"
)

func on() (*concern.Scene, *concerntest.Loop) { return concerntest.On(plantest.Draw("0 0-3 16G 10\n")) }

// TestAmend: caches become part of the homes, and sentences of the decisions; what readers have stays as it is.
func TestAmend(t *testing.T) {
	why := words.Because(words.NotIncluded)
	before := []plan.Placement{{Workload: "/a", CPUs: topology.CPUs(0, 1)}, {Workload: "/b", CPUs: topology.CPUs(2)}}
	reasons := words.Reasons(words.Because(words.NamedByHand))
	decisions := []plan.Decision{{Workload: "/a", Reasons: reasons}, {Workload: "/b"}}
	p := plan.Plan{Placements: before, Report: plan.Report{Decisions: decisions}}
	d := concern.Desired{
		Caches: map[workload.ID]concern.Kept{"/a": {Caches: topology.SetOf(topology.CacheID(3)), CPUs: topology.CPUs(1)}},
		Why:    map[workload.ID]words.Reason{"/a": why},
	}
	d.Amend(&p)
	a := &p.Placements[0]
	if a.Caches.String() != "3" || a.CPUs.String() != "1" || p.Placements[1].CPUs.String() != "2" {
		t.Errorf("%+v", p.Placements)
	}
	if got := p.Report.Decisions; len(got[0].Reasons) != 2 || !got[0].Reasons[1].Equal(why) || len(got[1].Reasons) > 0 {
		t.Errorf("%+v", got)
	}
	if before[0].CPUs.String() != "0-1" || len(decisions[0].Reasons) != 1 {
		t.Error("what readers have has changed")
	}
	p = plan.Plan{Placements: before, Report: plan.Report{Decisions: decisions}}
	(&concern.Desired{}).Amend(&p)
	if &p.Placements[0] != &before[0] || &p.Report.Decisions[0] != &decisions[0] {
		t.Error("nothing is amended, and the plan is another one")
	}
}

// TestApplied: an entry counts when it is applied, and of the object that is there now.
func TestApplied(t *testing.T) {
	for _, c := range []struct {
		name, of, object string
		state            plan.EntryState
		want             bool
	}{
		{"applied", "7", "7", plan.Applied, true}, {"of an earlier object", "6", "7", plan.Applied, false},
		{"of an unknown object", "", "7", plan.Applied, true}, {"the object is not known", "6", "", plan.Applied, true},
		{"not applied yet", "7", "7", plan.Intended, false},
	} {
		sc, _ := on()
		e := concerntest.Set(sc, "/a", plan.CgroupIdle, "/a", "1")
		e.Object, e.State = c.of, c.state
		if got := sc.Applied(plan.CgroupIdle, "/a", c.object); (got == e) != c.want || (got == nil) == c.want {
			t.Errorf("%s: %v", c.name, got)
		}
	}
	sc, _ := on()
	if sc.Applied(plan.CgroupIdle, "/a", "") != nil {
		t.Error("there is no entry")
	}
}

// TestPlaced: the subjects that have a home, with it; a caller may stop.
func TestPlaced(t *testing.T) {
	sc, _ := on()
	for _, id := range []workload.ID{"/b", "/c", "/d", "/f"} {
		concerntest.Add(sc, place.Subject{Observation: workload.Observation{ID: id}}, nil)
	}
	for _, id := range []workload.ID{"/a", "/b", "/d", "/e"} {
		sc.Plan.Placements = append(sc.Plan.Placements, plan.Placement{Workload: id})
	}
	seen := func(most int) string {
		var all []string
		for x, home := range sc.Placed() {
			all = append(all, fmt.Sprint(x.Observation.ID, "@", home.Workload))
			if len(all) == most {
				break
			}
		}
		return strings.Join(all, " ")
	}
	if got := seen(9); got != "/b@/b /d@/d" {
		t.Errorf("%s", got)
	}
	sc.Plan.Placements = sc.Plan.Placements[:3]
	if got := seen(9); got != "/b@/b /d@/d" {
		t.Errorf("no home after theirs: %s", got)
	}
	sc.Subjects = sc.Subjects[3:]
	if got := seen(9); got != "" {
		t.Errorf("all homes are before: %s", got)
	}
	sc.Subjects = append(sc.Subjects[:0], &place.Subject{Observation: workload.Observation{ID: "/b"}})
	if got := seen(1); got != "/b@/b" {
		t.Errorf("stopped: %s", got)
	}
}

// TestDecision: what the plan decided about a workload.
func TestDecision(t *testing.T) {
	sc, _ := on()
	sc.Plan.Report.Decisions = []plan.Decision{{Workload: "/a"}, {Workload: "/c"}}
	for id, want := range map[workload.ID]int{"/a": 0, "/c": 1} {
		if got := sc.Decision(id); got != &sc.Plan.Report.Decisions[want] {
			t.Errorf("%s: %v", id, got)
		}
	}
	if sc.Decision("/b") != nil || sc.Decision("/d") != nil {
		t.Error("nothing was decided")
	}
}

// TestCgroups: the cgroups that a workload has to itself.
func TestCgroups(t *testing.T) {
	run := "/" + workload.BatchSlice + "/homenode-run-x.scope"
	for _, c := range []struct {
		name  string
		o     workload.Observation
		parts []workload.ID
		want  string
	}{
		{"a cgroup", workload.Observation{ID: "/a", Kind: workload.InCgroup, Cgroup: "/a", CgroupID: 7}, nil, "/a#7"},
		{"the root", workload.Observation{ID: "/", Kind: workload.InCgroup, Cgroup: "/", CgroupID: 1}, nil, ""},
		{"several", workload.Observation{ID: "vm:a", Kind: "guest"}, []workload.ID{"/x", "/y", "pid:7"}, "/x#0 /y#0"},
		{"a guest", workload.Observation{ID: "vm:a", Kind: "guest", Cgroup: "/x"}, nil, ""},
		{"a process tree", workload.Observation{ID: "pid:7", Kind: workload.InProcess, Cgroup: "/x"}, nil, ""},
		{"homenode run", workload.Observation{ID: "pid:7", Kind: workload.InProcess, Cgroup: run}, nil, run + "#0"},
	} {
		sc, loop := on()
		if c.parts != nil {
			loop.Parts = map[workload.ID][]workload.ID{c.o.ID: c.parts}
		}
		var got []string
		for _, g := range sc.Cgroups(&c.o) {
			got = append(got, fmt.Sprintf("%s#%d", g.Cgroup, g.Object))
		}
		if all := strings.Join(got, " "); all != c.want {
			t.Errorf("%s: %s, want %s", c.name, all, c.want)
		}
	}
}

// TestKept: entries of a workload stay, and nothing is set.
func TestKept(t *testing.T) {
	sc, loop := on()
	o := concerntest.Service("/a", topology.CPUs(0))
	loop.Parts = map[workload.ID][]workload.ID{"/a": {"/a", "/b"}}
	concerntest.Expect(t, "desires", concerntest.Lines(sc.Kept(&o, plan.CgroupIdle)),
		"cpu.idle /a of /a: stays\ncpu.idle /b of /a: stays")
}

// TestInode: the object of settings of a cgroup; none where its inode is not known.
func TestInode(t *testing.T) {
	for id, want := range map[uint64]string{0: "", 1: "1", 77: "77"} {
		if got := concern.Inode(id); got != want {
			t.Errorf("%d: %q", id, got)
		}
	}
}

// TestFile: a step for a file of a cgroup begins at what homenode set, else at the kernel's own value.
func TestFile(t *testing.T) {
	for _, c := range []struct{ name, object, from string }{
		{"nothing is set", "-", "0"}, {"set", "7", "1"}, {"set, object unknown", "", "1"}, {"of an earlier cgroup", "6", "0"},
	} {
		sc, _ := on()
		if c.object != "-" {
			concerntest.Set(sc, "/a", plan.CgroupIdle, "/a", "1").Object = c.object
		}
		o := concerntest.Service("/a", topology.CPUs(0))
		d := sc.File(&o, "/a", plan.CgroupIdle, "1", words.Because(words.ShareIdle))
		concerntest.Expect(t, c.name, concerntest.Line(&d), "cpu.idle /a of /a: set-cgroup "+c.from+" > 1 share-idle")
		if d.Object != "7" || d.Step.Target.File != "cpu.idle" || d.Step.Target.Cgroup != "/a" {
			t.Errorf("%s: %+v", c.name, d)
		}
	}
}

// TestRefuse: a failure has its code and its sentence.
func TestRefuse(t *testing.T) {
	f := concern.Refuse(work.Forbidden, words.ObserveOnly)
	if f == nil || f.Code != work.Forbidden || f.Text != words.Because(words.ObserveOnly).String() {
		t.Errorf("%+v", f)
	}
}
