package control

import (
	"fmt"
	"strings"
	"testing"

	"github.com/homenode/homenode/core/hostprep"
	"github.com/homenode/homenode/core/plan"
	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/core/words"
	"github.com/homenode/homenode/core/workload"
)

// boundBy is a claim on a cgroup of a runtime that binds its workloads itself.
func boundBy(id workload.ID, cgroup string) workload.Claim {
	return workload.Claim{ID: id, Name: string(id), Cgroups: []string{cgroup}, Running: true, Driver: "guest", Caps: workload.Caps{Rebinds: true},
		Spec: &workload.Spec{ID: id, Name: string(id), Class: workload.Shared, CPUs: 2, Memory: 1 << 20, Importance: 50, Given: true}}
}

// A rule says how much a claimed workload matters and what it is near to; what it is, its
// manager says, and a rule that asks for something else is named.
func TestRulesOfClaimedWorkloads(t *testing.T) {
	high := 90
	f := newFake(t, 2, 8, ruled(
		workload.Rule{Match: "vm:a", Class: workload.Dedicated, CPUs: 3, Memory: 2 << 20, SMT: workload.SMTIsolate, Importance: &high, Near: []string{"eth0"}},
		workload.Rule{Match: "vm:b", Class: workload.Shared, CPUs: 2},
		workload.Rule{Match: "c", Class: workload.Dedicated, CPUs: 2}))
	f.add("a", 1, 1<<20, 0)
	f.add("b", 1, 1<<20, 0)
	f.add("c", 1, 1<<20, 0)
	c := boundBy("c", "/c")
	c.Driver = "" // changed as what it was observed as
	f.claimedScan(c, boundBy("vm:a", "/a"), boundBy("vm:b", "/b"))
	v := f.s.View()
	if got := v.SpecOf("vm:a"); got.Class != workload.Shared || got.CPUs != 2 || got.Memory != 1<<20 || got.SMT != "" || got.Importance != 90 || len(got.Near) != 1 || got.Near[0].Device != "eth0" {
		t.Errorf("%+v", got)
	}
	if got := v.SpecOf("c"); got.Class != workload.Dedicated || got.CPUs != 2 {
		t.Errorf("%+v", got)
	}
	all := f.s.Snapshot.Problems
	if len(all) != 1 || all[0].Subject != "vm:a" || all[0].Text != words.Because(words.RuleUnfollowed, "vm:a", "class dedicated, 3 CPUs, 2 GiB of memory, smt isolate").String() {
		t.Errorf("%+v", all)
	}
}

// What a claimed workload was learned to work with draws it, unless a rule says otherwise.
func TestLinksOfClaimedWorkloads(t *testing.T) {
	for _, given := range []bool{false, true} {
		f := newFake(t, 2, 8, ruled(workload.Rule{Match: "vm:a", NearGiven: given}))
		f.byHand = true
		f.add("a", 1, 1<<20, 0)
		f.claimedScan(boundBy("vm:a", "/a"))
		o := f.s.Observation("vm:a")
		f.s.Links["vm:a"] = []Link{{Link: workload.Link{Device: "eth0", Kind: workload.ByTap}, Rate: 1 << 20}}
		if got := f.s.SpecOf(o); (len(got.Near) == 1) == given {
			t.Errorf("near as given %v: %+v", given, got.Near)
		}
	}
}

// What a person asks of a guest stands: neither what a scan saw in the midst of it nor the
// home of before has a step undo it.
func TestChangeOfAGuestStands(t *testing.T) {
	f := newFake(t, 2, 8)
	id := f.add("a", 2, 1<<20, 0)
	at := func(node topology.NodeID, cpus topology.CPUSet) workload.Claim {
		c := boundBy("vm:a", string(id))
		c.CPUs, c.Mems = cpus, topology.Nodes(node)
		c.Home = &workload.Placement{Workload: "vm:a", Class: workload.Shared, Importance: 50, VCPUs: 2, Home: topology.Nodes(node), CPUs: cpus,
			Memory: []workload.NodeMemory{{Node: node, KiB: 1 << 20}}, Asked: 1 << 20}
		return c
	}
	here, there := topology.CPUs(0, 1, 2, 3, 4, 5, 6, 7), topology.CPUs(8, 9, 10, 11, 12, 13, 14, 15)
	for range 3 {
		f.claimedScan(at(0, here))
	}
	if f.home("vm:a") != "0" {
		t.Fatalf("home %s", f.home("vm:a"))
	}
	midst := f.begin()
	r := f.ask(Request{Change: &Change{Together: true, Release: true, Steps: []plan.Step{
		{Kind: plan.SetCPUs, Workload: "vm:a", Target: plan.Target{Kind: workload.InCgroup, Cgroup: string(id)}, To: "8-15"}}}})
	if r.Failed != nil || len(r.Changed) != 1 || r.Changed[0] != nil {
		t.Fatalf("%+v", r)
	}
	// The source had read where it is, and not yet that homenode put it there.
	half := at(1, there)
	half.Home = nil
	midst.Snapshot, midst.Claims = f.snapshot(), []Claimed{{Source: "runtime", Claims: []workload.Claim{half}}}
	f.turn(Input{Scan: midst})
	f.run()
	if got := f.get(plan.CgroupCPUs, string(id)); got != "8-15" {
		t.Fatalf("set to %q", got)
	}
	for range 2 {
		f.claimedScan(at(1, there))
	}
	if f.home("vm:a") != "1" || f.get(plan.CgroupCPUs, string(id)) != "8-15" {
		t.Errorf("home %s, set to %q", f.home("vm:a"), f.get(plan.CgroupCPUs, string(id)))
	}
}

// Steps that build on one another end with the first that fails; others go on.
func TestStepsTogether(t *testing.T) {
	for _, together := range []bool{false, true} {
		f := newFake(t, 2, 8)
		id := f.add("a", 0, 1<<10, 0)
		f.scan(1)
		f.fail = func(e *Effect) *Failure {
			if e.Kind == EffectApply && e.Step.Kind == plan.SetCPUs {
				return &Failure{Code: Failed, Text: "no"}
			}
			return nil
		}
		target := plan.Target{Kind: workload.InCgroup, Cgroup: string(id)}
		r := f.ask(Request{Change: &Change{Together: together, Steps: []plan.Step{
			{Kind: plan.SetCPUs, Workload: id, Target: target, To: "0-1"}, {Kind: plan.SetMems, Workload: id, Target: target, To: "0", AtOnce: true}}}})
		if len(r.Changed) != 2 || r.Changed[0] == nil || (r.Changed[1] == nil) == together || !strings.Contains(r.Changed[0].Text, "no") {
			t.Errorf("together %v: %+v", together, r.Changed)
		}
		if got := f.get(plan.CgroupMems, string(id)); (got == "0") == together {
			t.Errorf("together %v: nodes %q", together, got)
		}
	}
}

// An undo in the midst of a change cuts it: who asked is told so of each step that was not
// taken, and of the others how they went.
func TestUndoCutsAChange(t *testing.T) {
	for _, together := range []bool{false, true} {
		for failing := range 2 {
			f := newFake(t, 2, 8)
			id := f.add("a", 0, 1<<10, 0)
			f.scan(1)
			target := plan.Target{Kind: workload.InCgroup, Cgroup: string(id)}
			f.fail = func(e *Effect) *Failure {
				if failing > 0 && e.Kind == EffectApply {
					return &Failure{Code: Failed, Text: "no"}
				}
				return nil
			}
			f.keep = func(e *Effect) bool { return e.Kind == EffectRead && (failing == 0 || e.Step.Kind == plan.SetMems) }
			f.ask(Request{Change: &Change{Together: together, Steps: []plan.Step{
				{Kind: plan.SetCPUs, Workload: id, Target: target, To: "0-1"}, {Kind: plan.SetMems, Workload: id, Target: target, To: "0", AtOnce: true}}}})
			change := f.asked
			f.undo(id)
			f.release()
			r := f.replies[change]
			if len(r.Changed) != 2 || r.Changed[0] == nil || r.Changed[1] == nil {
				t.Fatalf("together %v, %d failing: %+v", together, failing, r)
			}
			want := []Code{Cancelled, Cancelled}
			if failing > 0 {
				want[0] = Failed
				if together {
					want[1] = Failed
				}
			}
			if r.Changed[0].Code != want[0] || r.Changed[1].Code != want[1] {
				t.Errorf("together %v, %d failing: %+v and %+v, want %v", together, failing, r.Changed[0], r.Changed[1], want)
			}
			if got := f.get(plan.CgroupMems, string(id)); got != "" {
				t.Errorf("together %v, %d failing: nodes %q", together, failing, got)
			}
		}
	}
}

// What the sessions of one ordinary user may book is bounded, by CPUs and by memory; the
// largest come first, and neither root nor another user is touched by it.
func TestUserShare(t *testing.T) {
	f := newFake(t, 2, 8) // 16 CPUs and 16 GiB
	own := func(pid, uid int, cpus float64, kib topology.KiB) workload.ID {
		id := f.addProcess(pid, fmt.Sprint("p", pid), cpus, kib, topology.NodeID(pid%2))
		f.works[id].obs.UID = uid
		return id
	}
	within := []workload.ID{own(10, 1000, 3, 3<<20), own(11, 1000, 3, 2<<20), own(20, 1001, 1, 4<<20+4), own(30, 0, 9, 1<<20),
		own(13, 1000, 2, 1<<19), own(22, 1001, 1, 1<<20), // what is beyond takes nothing from what fits beside it
		own(40, 1002, 1, 4<<20), own(41, 1002, 1, 4<<20)} // half of the host, and no more
	beyond := []workload.ID{own(12, 1000, 3, 1<<20), own(21, 1001, 1, 4<<20)}
	f.scan(3)
	for _, id := range within {
		if f.leftAlone(id, words.UserShare) {
			t.Errorf("%s: %+v", id, f.decision(id))
		}
	}
	for _, id := range beyond {
		if !f.leftAlone(id, words.UserShare) {
			t.Errorf("%s is beyond its user's share: %+v", id, f.decision(id))
		}
	}
}

// What it was learned to work with draws what `homenode run` placed, unless that was told
// what it is near to; it draws no later process with the PID.
func TestLinksOfWhatRunPlaced(t *testing.T) {
	link := Link{Link: workload.Link{Device: "eth0", Kind: workload.ByTap}, Rate: 1 << 20}
	for _, tt := range []struct {
		start uint64
		near  []workload.Near
		want  string
	}{{7, nil, "eth0"}, {7, []workload.Near{{Device: "eth1"}}, "eth1"}, {8, []workload.Near{{Device: "eth1"}}, "eth0"}} {
		s := New(defaults(), Saved{})
		s.Links["pid:7"] = []Link{link}
		s.Admissions["pid:7"] = Admission{Spec: workload.Spec{Near: tt.near}, Process: workload.Process{PID: 7, Start: 7}}
		o := workload.Observation{ID: "pid:7", Kind: workload.InProcess, CPUUse: 1, Processes: []workload.Process{{PID: 7, Start: tt.start}}}
		if got := s.SpecOf(&o).Near; len(got) != 1 || got[0].Device != tt.want {
			t.Errorf("started at %d, told %+v: near %+v", tt.start, tt.near, got)
		}
	}
}

// What cannot be seen for now keeps what it holds; what is the host's own, or has a name
// that no journal can hold, is left alone.
func TestWhatIsLeftAlone(t *testing.T) {
	f := newFake(t, 2, 8, ruled(workload.Rule{Match: "/deaf", Class: workload.Dedicated, CPUs: 2}))
	deaf, unread, odd := f.add("deaf", 2, 1<<20, 0), f.add("unread", 2, 1<<20, 1), f.add("odd\xff", 1, 1<<20, 0)
	slice, below, beside := f.add("system.slice", 1, 1<<20, 0), f.add("user.slice/x", 1, 1<<20, 0), f.add("system.slices", 1, 1<<20, 0)
	f.blind = true // JSON has no such name
	f.works[unread].obs.MemoryUnread = true
	f.scan(3)
	home := f.placement(deaf).CPUs
	f.works[deaf].obs.Unanswered = true
	for seq, e := range []plan.Entry{{Kind: plan.CgroupCPUs, Path: "/system.slice"}, {Kind: plan.UnitCPUs, Path: "user.slice"}, {Kind: plan.HostFile, Path: "/system.slices"}, {Workload: "/other", Kind: plan.CgroupCPUs, Path: "/system.slices"}} {
		if e.Seq, e.State = 100+uint64(seq), plan.Applied; e.Workload == "" {
			e.Workload = hostprep.ID
		}
		f.s.Journal.Put(e)
	}
	f.scan(2)
	for id, code := range map[workload.ID]words.Code{deaf: words.MemoryUnanswered, unread: words.MemoryNotRead, odd: words.NotUTF8, slice: words.OfHost, below: words.OfHost} {
		if !f.leftAlone(id, code) {
			t.Errorf("%s: %+v, want %s", id, f.decision(id), code)
		}
	}
	if p := f.placement(deaf); p == nil || !p.CPUs.Equal(home) || f.home(beside) == "" {
		t.Errorf("it had %v to itself, and has %+v; beside %+v", home, p, f.decision(beside))
	}
}
