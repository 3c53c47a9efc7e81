package control

import (
	"testing"
	"time"

	"github.com/homenode/homenode/core/plan"
	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/core/words"
	"github.com/homenode/homenode/core/workload"
)

// What somebody else sets after homenode is theirs: it stays, it is told of, and no undo
// takes it away (R2).
func TestForeignValueIsLeftAlone(t *testing.T) {
	f := scattered(t)
	f.scan(6)
	f.set(plan.CgroupCPUs, "/a", "0")
	f.scan(4)
	if f.cpus("/a") != "0" || f.toldOf("/a", words.SetSince) != 1 || !f.leftAlone("/a", words.SetByOthers) || !f.settled("/b") {
		t.Errorf("a is on %q, told %d times: %+v", f.cpus("/a"), f.toldOf("/a", words.SetSince), f.decision("/a"))
	}
	if f.s.Journal.Of(plan.CgroupCPUs, "/a") != nil || len(f.disk.journal()) != 1 {
		t.Errorf("journal %+v", f.disk.journal())
	}
	r := f.undo("")
	if f.cpus("/a") != "0" || r.Undo == nil || len(r.Undo.Restored) != 1 || r.Undo.Restored[0].Workload != "/b" {
		t.Errorf("undo took it away: %q, %s", f.cpus("/a"), asJSON(t, r))
	}
	f.resume("")
	f.start()
	f.scan(3)
	if f.cpus("/a") != "0" || !f.settled("/b") {
		t.Errorf("after a restart %q", f.cpus("/a"))
	}
	// Whoever set it takes it back: it is managed again.
	f.set(plan.CgroupCPUs, "/a", "")
	f.scan(4)
	if !f.settled("/a") {
		t.Errorf("given back, it is on %q: %+v", f.cpus("/a"), f.decision("/a"))
	}
}

// Whoever set it and takes it back needs nobody to resume it; with its cgroup it is
// forgotten, each for itself.
func TestForeignValueIsForgotten(t *testing.T) {
	for _, how := range []string{"back", "anew", "gone"} {
		f := scattered(t)
		f.scan(6)
		f.set(plan.CgroupCPUs, "/a", "0")
		f.set(plan.CgroupCPUs, "/b", "0")
		f.scan(2)
		if len(f.s.Theirs) != 2 || len(f.disk.saved(t).Theirs) != 2 {
			t.Fatalf("theirs %+v, on disk %+v", f.s.Theirs, f.disk.saved(t).Theirs)
		}
		if f.start(); len(f.s.Theirs) != 2 {
			t.Fatalf("after a restart %+v", f.s.Theirs)
		}
		switch how {
		case "back":
			f.set(plan.CgroupCPUs, "/a", "")
		case "anew":
			f.remove("/a")
			f.add("a", 3, 1<<20, 0, 1)
		case "gone":
			f.remove("/a")
		}
		f.scan(14)
		if how != "gone" && !f.settled("/a") || f.cpus("/b") != "0" || len(f.s.Theirs) != 1 || len(f.disk.saved(t).Theirs) != 1 || f.s.Theirs["cpuset.cpus /b"].Workload != "/b" {
			t.Errorf("%s: a is on %q, b on %q, theirs %+v, on disk %+v", how, f.cpus("/a"), f.cpus("/b"), f.s.Theirs, f.disk.saved(t).Theirs)
		}
	}
}

// An undo that comes before the next scan finds a foreign value by itself.
func TestUndoLeavesAForeignValue(t *testing.T) {
	f := scattered(t)
	f.scan(6)
	f.set(plan.CgroupCPUs, "/a", "0")
	r := f.undo("")
	if f.cpus("/a") != "0" || r.Undo == nil || len(r.Undo.Foreign) != 1 || r.Undo.Foreign[0].State != plan.Gone || f.told(words.NotRestoredTheirs) != 1 || len(f.disk.journal()) != 0 {
		t.Errorf("%q: %s", f.cpus("/a"), asJSON(t, r))
	}
}

// Somebody sets back what homenode has changed: it reads as it did a scan ago, when that
// was right.
func TestSetBackSinceTheScan(t *testing.T) {
	f := newFake(t, 2, 8)
	id := f.add("a", 3, 0, 0)
	f.scan(6)
	was, other := f.cpus(id), topology.NodeID(1)
	if f.home(id) == "1" {
		other = 0
	}
	if r := f.order(id, other); r.Failed != nil || f.cpus(id) == was {
		t.Fatal(r.Failed, f.cpus(id))
	}
	f.set(plan.CgroupCPUs, "/a", was)
	f.scan(2)
	if f.cpus(id) == was || f.toldOf(id, words.SetBack) != 1 {
		t.Errorf("on %q, told %d times", f.cpus(id), f.toldOf(id, words.SetBack))
	}
}

// A value that somebody else writes between the plan and the change is found when it is
// read, and is not written over.
func TestForeignValueBeforeAStep(t *testing.T) {
	f := newFake(t, 2, 8)
	id := f.add("a", 3, 1<<20, 0)
	f.scan(3)
	other := topology.NodeID(1)
	if f.home(id) == "1" {
		other = 0
	}
	f.set(plan.CgroupCPUs, "/a", "0-1")
	if r := f.order(id, other); r.Failed != nil { // decided on the newest scan, which has not seen it
		t.Fatal(r.Failed)
	}
	if f.cpus(id) != "0-1" || f.toldOf(id, words.SetSince) != 1 || f.s.Journal.Len() != 0 {
		t.Errorf("on %q, told %d times", f.cpus(id), f.toldOf(id, words.SetSince))
	}
	moves := len(f.applies(plan.MovePages))
	f.scan(3)
	if f.cpus(id) != "0-1" || len(f.applies(plan.MovePages)) != moves || !f.leftAlone(id, words.SetByOthers) {
		t.Errorf("on %q: %+v", f.cpus(id), f.decision(id))
	}
}

// CPUs that somebody gives a cgroup after the scan that homenode's first step for it is of
// are not written over either.
func TestForeignValueBeforeTheFirstStep(t *testing.T) {
	f := newFake(t, 2, 8)
	id := f.add("a", 3, 1<<20, 0)
	f.keeping(EffectRead)
	for n := 0; len(f.kept) == 0; n++ {
		if n == 10 {
			t.Fatal("no step")
		}
		f.scan(1)
	}
	f.set(plan.CgroupCPUs, "/a", "0-1")
	f.release()
	f.scan(4)
	if f.cpus(id) != "0-1" || !f.leftAlone(id, words.SetByOthers) || f.s.Journal.Len() != 0 {
		t.Errorf("on %q: %+v", f.cpus(id), f.decision(id))
	}
}

// A cgroup that is made anew under the same path with a CPU set of its own keeps that;
// the old entry says nothing of it.
func TestCgroupMadeAnewWithCPUs(t *testing.T) {
	for _, seen := range []bool{true, false} {
		f := newFake(t, 2, 8)
		id := f.add("box", 3, 1<<20, 0)
		f.scan(4)
		if !f.settled(id) {
			t.Fatal("not settled")
		}
		if seen {
			f.remove(id)
			f.scan(1)
			f.add("box", 3, 1<<20, 0)
		} else {
			f.create("/box")
		}
		f.set(plan.CgroupCPUs, "/box", "5-6")
		f.scan(15)
		if f.cpus(id) != "5-6" || !f.leftAlone(id, words.SetByOthers) || f.s.Journal.Len() != 0 || f.told(words.SetSince) != 0 {
			t.Errorf("gap %v: on %q, journal %+v, %+v", seen, f.cpus(id), f.s.Journal.All(), f.decision(id))
		}
		f.undo("")
		if f.cpus(id) != "5-6" {
			t.Errorf("gap %v: undo left %q", seen, f.cpus(id))
		}
	}
}

// One that is made anew without CPUs of its own is placed anew, with an entry of its own.
func TestCgroupMadeAnewWithoutCPUs(t *testing.T) {
	f := newFake(t, 2, 8)
	id := f.add("box", 3, 1<<20, 0)
	f.scan(4)
	f.create("/box")
	object := f.values[settingKey{plan.CgroupCPUs, "/box"}].Object
	f.scan(4)
	e := f.s.Journal.Of(plan.CgroupCPUs, "/box")
	if !f.settled(id) || e == nil || e.Object != object || e.Old != "" || f.s.Journal.Len() != 1 || len(f.disk.journal()) != 1 {
		t.Errorf("on %q, journal %+v on disk %+v", f.cpus(id), e, f.disk.journal())
	}
	f.undo("")
	if f.cpus(id) != "" {
		t.Errorf("undo left %q", f.cpus(id))
	}
}

// A step that was planned for a cgroup is not for the one that was made under its path
// before the settings were read: whoever made that has given it CPUs.
func TestCgroupMadeAnewBeforeAStep(t *testing.T) {
	for _, cpus := range []string{"5-6", "0-11"} {
		f := newFake(t, 2, 8)
		id := f.add("box", 3, 1<<20, 0)
		f.scan(4)
		other := topology.NodeID(1)
		if f.home(id) == "1" {
			other = 0
		}
		f.order(id, other) // the entry says what homenode has set, the plan comes from that
		f.keeping(EffectRead)
		f.order(id, 1-other)
		f.scan(1)
		if len(f.kept) == 0 {
			t.Fatal("nothing is read")
		}
		f.create("/box")
		f.set(plan.CgroupCPUs, "/box", cpus)
		f.release()
		if f.cpus(id) != cpus {
			t.Errorf("%s is set to %q", cpus, f.cpus(id))
		}
		f.scan(3)
		if f.cpus(id) != cpus || !f.leftAlone(id, words.SetByOthers) || f.s.Journal.Len() != 0 {
			t.Errorf("%s is set to %q in the end: %+v", cpus, f.cpus(id), f.decision(id))
		}
	}
}

// Nor is the first step for a cgroup that was given CPUs between the scan and the reading.
func TestCgroupGivenCPUsBeforeItsFirstStep(t *testing.T) {
	for _, anew := range []bool{true, false} {
		f := newFake(t, 2, 8)
		id := f.add("box", 3, 1<<20, 0)
		f.keeping(EffectRead)
		f.scan(2)
		if len(f.kept) == 0 {
			t.Fatal("nothing is read")
		}
		if anew {
			f.create("/box")
		}
		f.set(plan.CgroupCPUs, "/box", "5-6")
		f.release()
		if f.cpus(id) != "5-6" {
			t.Errorf("made anew %v: 5-6 is set to %q", anew, f.cpus(id))
		}
		f.scan(3)
		if f.cpus(id) != "5-6" || !f.leftAlone(id, words.SetByOthers) || f.s.Journal.Len() != 0 {
			t.Errorf("made anew %v: 5-6 is set to %q in the end: %+v", anew, f.cpus(id), f.decision(id))
		}
	}
}

// A change that is asked for of a cgroup that was made anew has an entry of its own: undo
// gives it what it had.
func TestChangeOfACgroupMadeAnew(t *testing.T) {
	f := newFake(t, 2, 8)
	id := f.add("box", 0, 1<<10, 0)
	f.scan(1)
	change := func(to string) Reply {
		return f.ask(Request{Change: &Change{Steps: []plan.Step{{Kind: plan.SetCPUs, Workload: id, Target: plan.Target{Kind: workload.InCgroup, Cgroup: "/box"}, To: to}}}})
	}
	change("0-3")
	f.create("/box")
	f.set(plan.CgroupCPUs, "/box", "5-6")
	if r := change("0-1"); len(r.Changed) != 1 || r.Changed[0] != nil || f.cpus(id) != "0-1" {
		t.Fatalf("on %q: %s", f.cpus(id), asJSON(t, r))
	}
	if f.undo(id); f.cpus(id) != "5-6" {
		t.Errorf("undo left %q", f.cpus(id))
	}
}

// Nor is it for one that is made between the reading and the change.
func TestCgroupMadeAnewInTheMidstOfAStep(t *testing.T) {
	f := newFake(t, 2, 8)
	id := f.add("box", 3, 1<<20, 0)
	f.keeping(EffectApply)
	f.scan(2)
	if len(f.kept) != 1 {
		t.Fatalf("%d changes under way", len(f.kept))
	}
	f.create("/box")
	f.set(plan.CgroupCPUs, "/box", "5-6")
	f.scan(15) // the journal is looked through meanwhile
	f.release()
	if f.cpus(id) != "5-6" {
		t.Errorf("set to %q, journal %+v", f.cpus(id), f.s.Journal.All())
	}
	f.scan(15)
	if f.cpus(id) != "5-6" || !f.leftAlone(id, words.SetByOthers) || f.s.Journal.Len() != 0 {
		t.Errorf("set to %q in the end: %+v", f.cpus(id), f.decision(id))
	}
}

// One that is made while it is asked who set the CPUs of an earlier one owes that nothing:
// it is given a home as any other.
func TestCgroupMadeAnewWhileItIsAskedWhoSetIt(t *testing.T) {
	f := newFake(t, 2, 8)
	id := f.add("box", 3, 1<<20, 0)
	f.scan(4)
	f.set(plan.CgroupCPUs, "/box", "5-6")
	f.keeping(EffectCheck)
	f.scan(1)
	if len(f.kept) != 1 {
		t.Fatalf("%d checks under way", len(f.kept))
	}
	f.create("/box")
	f.release()
	if f.s.Journal.Len() != 0 || f.told(words.SetSince) != 0 {
		t.Errorf("told %d times, journal %+v", f.told(words.SetSince), f.s.Journal.All())
	}
	f.scan(3)
	if !f.settled(id) {
		t.Errorf("on %q", f.cpus(id))
	}
}

// systemd takes CPUs back when a unit is changed: they are given again, three times, and
// then the workload is left alone for an hour.
func TestValuePutBackIsSetAgainAFewTimes(t *testing.T) {
	f := newFake(t, 2, 8)
	id := f.add("a", 3, 1<<20, 0)
	f.scan(4)
	for k := range 2 {
		f.set(plan.CgroupCPUs, "/a", "")
		f.scan(4)
		if !f.settled(id) || f.toldOf(id, words.SetBack) != k+1 {
			t.Fatalf("the %dth time: on %q, told %d times", k+1, f.cpus(id), f.toldOf(id, words.SetBack))
		}
		f.after(time.Minute)
	}
	f.set(plan.CgroupCPUs, "/a", "")
	last := f.now
	f.scan(4)
	if f.cpus(id) != "" || !f.leftAlone(id, words.GivenIn) || f.told(words.SetSince) != 0 {
		t.Errorf("after the third time: on %q, %+v", f.cpus(id), f.decision(id))
	}
	writes := f.count(EffectApply, id)
	f.now = last.Add(time.Hour - 3*time.Second)
	f.scan(1)
	if f.count(EffectApply, id) != writes || !f.leftAlone(id, words.GivenIn) {
		t.Error("within the hour it was set again")
	}
	f.scan(3)
	if !f.settled(id) {
		t.Errorf("an hour after: on %q, %+v", f.cpus(id), f.decision(id))
	}
	f.undo("")
	if f.cpus(id) != "" || len(f.disk.journal()) != 0 {
		t.Errorf("undo left %q", f.cpus(id))
	}
}

// Overwrites by an hour apart are no fight.
func TestOverwritesAreForgotten(t *testing.T) {
	f := newFake(t, 2, 8)
	id := f.add("a", 3, 1<<20, 0)
	f.scan(4)
	for range 5 {
		f.set(plan.CgroupCPUs, "/a", "")
		f.scan(4)
		if !f.settled(id) {
			t.Fatalf("on %q: %+v", f.cpus(id), f.decision(id))
		}
		f.after(time.Hour)
	}
}

// An order to move has the last word over what was given in to.
func TestOrderAfterGivingIn(t *testing.T) {
	f := newFake(t, 2, 8)
	id := f.add("a", 3, 1<<20, 0)
	f.scan(4)
	for range 3 {
		f.set(plan.CgroupCPUs, "/a", "")
		f.scan(3)
	}
	if !f.leftAlone(id, words.GivenIn) {
		t.Fatalf("%+v", f.decision(id))
	}
	if r := f.order(id, 1); r.Failed == nil || r.Failed.Code != NoRoom {
		t.Errorf("what is left alone is not moved: %s", asJSON(t, r))
	}
}

// One that is obeyed counts anew who sets it back.
func TestOrderBeforeGivingIn(t *testing.T) {
	f := newFake(t, 2, 8)
	id := f.add("a", 3, 1<<20, 0)
	f.scan(4)
	for k := range 4 {
		f.set(plan.CgroupCPUs, "/a", "")
		if f.scan(4); !f.settled(id) {
			t.Fatalf("the %dth time: on %q, %+v", k+1, f.cpus(id), f.decision(id))
		}
		home, _ := topology.ParseNodeSet(f.home(id))
		if r := f.order(id, home.Min()); k == 1 && r.Failed != nil {
			t.Fatal(r.Failed)
		}
	}
}

// A setting that is not read back is asked for again at the next scan.
func TestCheckThatFails(t *testing.T) {
	f := newFake(t, 2, 8)
	id := f.add("a", 3, 1<<20, 0)
	f.scan(4)
	writes := f.count(EffectApply, id)
	f.fail = func(e *Effect) *Failure {
		if e.Kind == EffectCheck {
			return &Failure{Code: Failed, Text: "on purpose"}
		}
		return nil
	}
	f.set(plan.CgroupCPUs, "/a", "0")
	f.scan(3)
	if f.count(EffectCheck, id) != 3 || f.count(EffectApply, id) != writes || f.cpus(id) != "0" {
		t.Errorf("%d checks, on %q", f.count(EffectCheck, id), f.cpus(id))
	}
	f.fail = nil
	f.scan(1)
	if f.toldOf(id, words.SetSince) != 1 {
		t.Error("not told in the end")
	}
	// While an answer is awaited it is not asked for twice, and nothing is begun.
	g := newFake(t, 2, 8)
	g.add("a", 3, 1<<20, 0)
	g.add("b", 3, 1<<20, 1)
	g.scan(6)
	g.set(plan.CgroupCPUs, "/a", "0")
	g.keeping(EffectCheck)
	reads := g.count(EffectRead, "/a")
	g.scan(3)
	g.order("/b", 0)
	g.order("/b", 1) // a plan for all, on what the newest scan has seen
	if len(g.kept) != 1 || g.count(EffectRead, "/a") != reads {
		t.Errorf("%d checks under way, %d steps begun", len(g.kept), g.count(EffectRead, "/a")-reads)
	}
	g.remove("/a")
	g.release()
	g.scan(1)
}

// The affinity of a process that chose others since is its own.
func TestForeignAffinity(t *testing.T) {
	f := newFake(t, 2, 8)
	id := f.addProcess(77, "db", 3, 1<<20, 0)
	f.scan(4)
	if f.s.Given[id].Empty() {
		t.Fatal("nothing given")
	}
	other := topology.NodeID(1)
	if f.home(id) == "1" {
		other = 0
	}
	f.set(plan.Affinity, "77@7", "3")
	if r := f.order(id, other); r.Failed != nil {
		t.Fatal(r.Failed)
	}
	if got := f.get(plan.Affinity, "77@7"); got != "3" || f.toldOf(id, words.SetSince) != 1 || f.s.Journal.Len() != 0 {
		t.Errorf("on %q, journal %+v", got, f.s.Journal.All())
	}
	if g, ok := f.s.Given[id]; ok {
		t.Errorf("the observer would take %v for homenode's", g)
	}
	f.undo("")
	if got := f.get(plan.Affinity, "77@7"); got != "3" {
		t.Errorf("undo left %q", got)
	}
}

// An interrupt that somebody else has moved since stays there.
func TestForeignInterrupt(t *testing.T) {
	f := newFake(t, 2, 8, placing)
	f.addCard()
	f.scan(2)
	before := f.get(plan.IRQAffinity, "p/40")
	f.set(plan.IRQAffinity, "p/40", "0")
	f.after(10 * time.Second)
	f.scan(2)
	if got := f.get(plan.IRQAffinity, "p/40"); got != "0" || f.told(words.SetSince) != 1 || before == "0" {
		t.Errorf("it goes to %q, told %d times", got, f.told(words.SetSince))
	}
	for range 10 {
		f.after(10 * time.Minute)
		f.scan(2)
	}
	if got := f.get(plan.IRQAffinity, "p/40"); got != "0" || f.told(words.SetSince) != 1 {
		t.Errorf("later it goes to %q, told %d times", got, f.told(words.SetSince))
	}
	f.undo("")
	if got := f.get(plan.IRQAffinity, "p/40"); got != "0" {
		t.Errorf("undo left %q", got)
	}
}

// It stays also when homenode had brought it back, by what was best then, to where it was
// before.
func TestForeignInterruptThatWasBack(t *testing.T) {
	f := newFake(t, 2, 8, placing)
	f.addCard()
	f.scan(2)
	e := *f.s.Journal.Of(plan.IRQAffinity, "p/40")
	e.Past, e.New = []string{e.New}, e.Old
	f.disk.entries[e.Seq] = e
	f.set(plan.IRQAffinity, "p/40", "0")
	f.start()
	f.scan(2)
	if got := f.get(plan.IRQAffinity, "p/40"); got != "0" || f.told(words.SetSince) != 1 || f.s.Journal.Of(plan.IRQAffinity, "p/40") != nil {
		t.Errorf("it goes to %q, told %d times, journal %+v", got, f.told(words.SetSince), f.s.Journal.All())
	}
}

// TestResumeOfOne: what failed of other work is tried again in its time.
func TestResumeOfOne(t *testing.T) {
	for all, want := range map[bool]int{false: 1, true: 0} {
		s := New(Settings{}, Saved{Holds: Holds{IDs: map[workload.ID]bool{"/a": true}}})
		for _, id := range []workload.ID{"/a", "/b"} {
			s.Retries[stepKey{Workload: id, Kind: plan.SetCPUs}] = retry{Failures: 3, Text: "no answer"}
		}
		which := Which{ID: "/a", All: all}
		if all {
			which.ID = ""
		}
		s, out := Next(s, Input{Request: &Request{ID: 1, Resume: &which}})
		if len(out.Replies) != 1 || out.Replies[0].Resumed == nil {
			t.Fatalf("all %t: %+v", all, out.Replies)
		}
		if len(s.Retries) != want || (want > 0 && s.Retries[stepKey{Workload: "/b", Kind: plan.SetCPUs}].Failures != 3) {
			t.Errorf("all %t: %+v", all, s.Retries)
		}
	}
}
