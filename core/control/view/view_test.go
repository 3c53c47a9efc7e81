package view

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/homenode/homenode/core/control/homes"
	"github.com/homenode/homenode/core/control/scene"
	"github.com/homenode/homenode/core/control/settings"
	"github.com/homenode/homenode/core/control/work"
	"github.com/homenode/homenode/core/place"
	"github.com/homenode/homenode/core/plan"
	"github.com/homenode/homenode/core/plan/plantest"
	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/core/workload"
)

const gib = topology.KiB(1) << 20

func dedicated(id string, cpus int) workload.Spec {
	return workload.Spec{ID: workload.ID(id), Class: workload.Dedicated, CPUs: cpus, Memory: gib, Importance: 50}
}

// town is a view of a host of two nodes of 8 CPUs: /a lives on node 0, a home on node 1 is held for next-1, and
// pid:70 was placed by `homenode run`.
func town(t *testing.T) *View {
	t.Helper()
	facts := plan.State{Host: plantest.Pairs(2, 16, 64*gib), Policy: plan.DefaultPolicy()}
	ledger := place.NewLedger(facts)
	home := func(spec workload.Spec) workload.Placement {
		d := ledger.Place(place.Request{Spec: spec})
		if d.Placement.Home.Empty() {
			t.Fatalf("no home for %s", spec.ID)
		}
		ledger.Commit(d.Placement)
		return d.Placement
	}
	a, next := dedicated("/a", 4), dedicated("next-1", 2)
	seen := func(id string) workload.Observation {
		return workload.Observation{ID: workload.ID(id), Kind: workload.InCgroup, Cgroup: id, CPUs: facts.Host.Online, Mems: topology.Nodes(0, 1),
			Memory: []workload.NodeMemory{{Node: 0, KiB: gib}}, Caps: workload.Caps{}}
	}
	v := &View{
		At: time.Unix(1000, 0), Settings: &settings.Settings{Exclude: []string{"/out/**"}, Policy: facts.Policy}, Facts: facts,
		Snapshot: workload.Snapshot{Host: facts.Host, Observations: []workload.Observation{seen("/a"), seen("/b")}},
		Given:    map[workload.ID]topology.CPUSet{"pid:70": topology.CPUs(1)},
		Writing:  map[workload.ID][]topology.CPUSet{"pid:70": {topology.CPUs(2)}, "pid:71": {topology.CPUs(3)}},
		Wide:     homes.Wide{IDs: map[workload.ID]bool{"/a": true}},
		Journal:  []plan.Entry{{Seq: 1, Workload: "/gone", Kind: plan.CgroupCPUs, Path: "/gone"}},
		Helpers: map[scene.ProcessKey]workload.ID{
			{PID: 90, Start: 1}: "", {PID: 80, Start: 1}: "pid:80", {PID: 85, Start: 1}: "/a",
		},
	}
	v.Plan.Placements = []workload.Placement{home(a)}
	v.Subjects = []*place.Subject{{Spec: a, Observation: v.Snapshot.Observations[0]}, {Spec: dedicated("/b", 1), Observation: v.Snapshot.Observations[1]}}
	h := homes.Homes{Admissions: map[workload.ID]scene.Admission{
		"next-1": {Spec: next, Placement: home(next)},
		"pid:70": {Process: workload.Process{PID: 70, Start: 3}},
		"pid:60": {Process: workload.Process{PID: 60, Start: 3}},
	}}
	v.Admitted = h.SaveAdmissions()
	return v
}

// TestHeldHomes: a home is held for work that no scan has seen, not for a command that runs.
func TestHeldHomes(t *testing.T) {
	v := town(t)
	held := v.Held()
	if len(held) != 1 || held["next-1"].Home.Empty() {
		t.Errorf("held %+v, want the home of next-1", held)
	}
	if (&View{}).Held() != nil {
		t.Error("a home is held in an empty view")
	}
}

// TestLeft: homes that are held count as taken, except those of the named work.
func TestLeft(t *testing.T) {
	v := town(t)
	free := func(without string) (sum int) {
		for _, l := range v.Left(without) {
			sum += l.CPUs
		}
		return sum
	}
	all := free("")
	if without := free("next-"); without <= all || free("/a") != all || free("other") != all {
		t.Errorf("%d CPUs are left, without next-1 %d, without /a %d", all, without, free("/a"))
	}
	if (&View{}).Left("") != nil {
		t.Error("something is left before the first scan")
	}
}

// TestAttention: the next scan gets the settings of homenode, and the processes that are workloads however small.
func TestAttention(t *testing.T) {
	v := town(t)
	a := v.Attention()
	var pids []string
	for _, p := range a.Registered {
		pids = append(pids, fmt.Sprint(p.PID, "@", p.Start))
	}
	if !slices.Equal(pids, []string{"80@1", "90@1", "60@3", "70@3"}) {
		t.Errorf("registered %q", pids)
	}
	sets := func(id workload.ID) (out []string) {
		for _, s := range a.Expected(id) {
			out = append(out, s.String())
		}
		return out
	}
	if !slices.Equal(sets("pid:70"), []string{"1", "2"}) || !slices.Equal(sets("pid:71"), []string{"3"}) || sets("pid:72") != nil {
		t.Errorf("expected %q, %q and %q", sets("pid:70"), sets("pid:71"), sets("pid:72"))
	}
	if p, ok := a.Home("/a"); !ok || !p.Home.Equal(v.Plan.Placements[0].Home) {
		t.Errorf("the home of /a is %+v, %v", p, ok)
	}
	if p, ok := a.Home("/b"); ok || p.Workload != "" {
		t.Errorf("the home of /b is %+v", p)
	}
	if !a.Wide["/a"] || len(a.Journal) != 1 || len(a.Homes) != 1 || len(a.Held) != 1 {
		t.Errorf("%+v", a)
	}
	if a.Leaves(&workload.Spec{ID: "/out/x", Name: "x"}, nil).None() || !a.Leaves(&workload.Spec{ID: "/in/x", Name: "x"}, nil).None() {
		t.Error("what the configuration excludes is placed, or what it does not exclude is not")
	}
	v.Managers = []scene.Manager{{Name: "numad", Owns: "all", Everything: true}}
	managed := v.Attention()
	if managed.Leaves(&workload.Spec{ID: "/in/x"}, nil).None() {
		t.Error("what a manager owns is placed")
	}
	if !(&Attention{}).Leaves(&workload.Spec{ID: "/out/x"}, nil).None() {
		t.Error("without a daemon something is left alone")
	}
	if v.HelperAt(workload.Process{PID: 85, Start: 1}) != "/a" || v.HelperAt(workload.Process{PID: 85, Start: 2}) != "" {
		t.Error("a helper is taken for another process")
	}
}

// TestRetryOf: the retry of a step is that of its kind, value and device.
func TestRetryOf(t *testing.T) {
	v := &View{Retries: map[workload.ID][]Retry{"/a": {
		{Step: plan.SetMems, To: "1", Failures: 1}, {Step: plan.SetCPUs, To: "0", Failures: 2}, {Step: plan.SetCPUs, To: "1", Failures: 3},
	}}}
	of := func(id workload.ID, kind plan.StepKind, to string) int {
		r := v.RetryOf(&plan.Step{Workload: id, Kind: kind, To: to})
		if r == nil {
			return 0
		}
		return r.Failures
	}
	if got := []int{of("/a", plan.SetMems, "1"), of("/a", plan.SetCPUs, "1"), of("/a", plan.SetCPUs, "2"), of("/b", plan.SetCPUs, "1")}; !slices.Equal(got, []int{1, 3, 0, 0}) {
		t.Errorf("%v", got)
	}
}

// TestSpecOf: a workload that the newest scan has not seen has no wishes.
func TestSpecOf(t *testing.T) {
	v := town(t)
	if a, b, c := v.SpecOf("/a"), v.SpecOf("/b"), v.SpecOf("/c"); a.CPUs != 4 || b.CPUs != 1 || c.ID != "" {
		t.Errorf("%+v, %+v, %+v", a, b, c)
	}
}

// TestNames: a name means a running or a remembered workload; an unknown name and one of several are refused.
func TestNames(t *testing.T) {
	v := town(t)
	o, f := v.Find("/b", workload.Lineage{})
	if f != nil || o != &v.Snapshot.Observations[1] {
		t.Errorf("%+v, %v", o, f)
	}
	if o, f := v.Find("/gone", workload.Lineage{}); o != nil || f == nil || f.Code != work.NotFound {
		t.Errorf("what does not run: %+v, %v", o, f)
	}
	if id, f := v.FindKnown("/gone", workload.Lineage{}); f != nil || id != "/gone" {
		t.Errorf("what the journal has: %s, %v", id, f)
	}
	if id, f := v.FindKnown("/other", workload.Lineage{}, "/other"); f != nil || id != "/other" {
		t.Errorf("what somebody remembers: %s, %v", id, f)
	}
	id, f := v.FindKnown("/nobody", workload.Lineage{})
	if id != "" || f == nil || f.Code != work.NotFound || f.Text == "" {
		t.Errorf("a name of nothing: %s, %v", id, f)
	}
	two := []workload.Named{{ID: "/x/db", Name: "db"}, {ID: "/y/db", Name: "db"}}
	if id, f := Find(two, "db", workload.Lineage{}); id != "" || f == nil || f.Code != work.BadRequest || f.Text == "" {
		t.Errorf("a name of two: %s, %v", id, f)
	}
	if id, f := Find(two, "/y/db", workload.Lineage{}); id != "/y/db" || f != nil {
		t.Errorf("%s, %v", id, f)
	}
	none := f.Text
	v.Snapshot.Smaller = []workload.Smaller{{ID: "/nobody", Memory: 3 << 10}}
	for _, known := range []bool{false, true} {
		if known {
			_, f = v.FindKnown("/nobody", workload.Lineage{})
		} else {
			_, f = v.Find("/nobody", workload.Lineage{})
		}
		if f == nil || f.Code != work.NotFound || f.Text == none {
			t.Errorf("what is too small: %v", f)
		}
	}
}

// TestWhatIf: questions are answered on top of all homes, those that are held too, and book nothing.
func TestWhatIf(t *testing.T) {
	v := town(t)
	fits, f := v.WouldFit([]workload.Spec{dedicated("new", 2)})
	if f != nil || len(fits) != 1 || !fits[0].Admitted() {
		t.Fatalf("%+v, %v", fits, f)
	}
	taken := v.Plan.Placements[0].CPUs.Union(v.Held()["next-1"].CPUs)
	if cpus := fits[0].Result.Placement.CPUs; !cpus.Intersect(taken).Empty() {
		t.Errorf("it would have CPUs %v of others, %v", cpus, taken)
	}
	if _, f := v.WouldFit([]workload.Spec{dedicated("/a", 2)}); f == nil || f.Code != work.BadRequest {
		t.Errorf("what runs already: %v", f)
	}
	if _, f := (&View{}).WouldFit([]workload.Spec{dedicated("new", 2)}); f == nil || f.Code != work.Failed {
		t.Errorf("before the first scan: %v", f)
	}
	there := topology.Nodes(0, 1).Minus(v.Plan.Placements[0].Home)
	moved, f := v.WouldMove("/a", there, workload.Lineage{})
	if f != nil || moved.Workload != "/a" || !moved.Decision.Home.Equal(there) {
		t.Errorf("%+v, %v", moved, f)
	}
	if _, f := v.WouldMove("/a", topology.NodeSet{}, workload.Lineage{}); f == nil || f.Code != work.BadRequest {
		t.Errorf("nowhere: %v", f)
	}
	if _, f := v.WouldMove("/nobody", there, workload.Lineage{}); f == nil || f.Code != work.NotFound {
		t.Errorf("a name of nothing: %v", f)
	}
	if v.stays("/a") != "" {
		t.Errorf("/a stays: %s", v.stays("/a"))
	}
	v.Holds.IDs = map[workload.ID]bool{"/a": true}
	if v.stays("/a") == "" || v.stays("/b") != "" {
		t.Error("what is held moves, or what is not stays")
	}
	v.Claims = map[workload.ID]*workload.Claim{"/b": {ID: "/b", Fixed: true, MovedBy: "libvirt"}}
	if v.stays("/b") == "" {
		t.Error("what its manager moves makes room")
	}
	refused, f := v.WouldMove("/b", there, workload.Lineage{})
	if f != nil || refused.Outcome != plan.Refused || refused.Decision.Outcome != plan.Refused || len(refused.Decision.Reasons) != 1 || refused.Workload != "/b" {
		t.Errorf("what its manager moves: %+v, %v", refused, f)
	}
}

// TestFailureOf: each kind of refusal has its code.
func TestFailureOf(t *testing.T) {
	if FailureOf(nil) != nil {
		t.Error("no refusal is a failure")
	}
	for kind, code := range map[homes.RefusalKind]work.Code{homes.Malformed: work.BadRequest, homes.NoRoom: work.NoRoom, homes.TooEarly: work.Failed} {
		f := FailureOf(&homes.Refusal{Kind: kind, Why: "why"})
		if f.Code != code || f.Text != "why" {
			t.Errorf("%v: %+v", kind, f)
		}
	}
}
