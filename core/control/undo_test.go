package control

import (
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/homenode/homenode/core/control/journal"
	"github.com/homenode/homenode/core/control/work"
	"github.com/homenode/homenode/core/plan"
	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/core/words"
	"github.com/homenode/homenode/core/workload"
)

func TestUndoRestoresAndHolds(t *testing.T) {
	f := scattered(t)
	before := f.all()
	f.scan(6)
	r := f.undo("")
	if r.Undo == nil || len(r.Undo.Restored) != 2 || len(r.Undo.Failed) > 0 || f.told(words.PutBack) != 2 {
		t.Fatalf("undo: %s", asJSON(t, r))
	}
	same := func(when string) {
		t.Helper()
		if diff := cmp.Diff(before, f.all()); diff != "" {
			t.Errorf("%s:\n%s", when, diff)
		}
	}
	same("undo left the host changed")
	if len(f.disk.journal()) != 0 || len(f.s.Undoing) != 0 || len(f.disk.saved(t).Undoing) != 0 {
		t.Errorf("on disk: %+v", f.disk.saved(t))
	}
	f.scan(5)
	same("what was undone was changed again")
	f.start()
	if f.told(words.AllHeld) != 1 {
		t.Error("the next daemon does not tell that all is held")
	}
	f.scan(5)
	same("changed again after a restart")
	if r := f.resume("/a"); r.Failed == nil || r.Failed.Code != BadRequest {
		t.Errorf("resume of one while all is held: %+v", r)
	}
	if r := f.resume(""); r.Failed != nil {
		t.Fatal(r.Failed)
	}
	f.scan(5)
	if !f.settled("/a") || !f.settled("/b") {
		t.Error("resume did not bring them home again")
	}
	f.start()
	if f.s.Holds.All {
		t.Error("held again after a restart")
	}
}

func TestUndoOneLeavesTheOther(t *testing.T) {
	f := scattered(t)
	before := f.all()
	f.scan(6)
	after := f.all()
	if r := f.undo("/a"); r.Undo == nil || len(r.Undo.Restored) != 1 || r.Undo.Restored[0].Workload != "/a" || r.Undo.Restored[0].State != plan.Restored {
		t.Fatalf("%s", asJSON(t, r))
	}
	f.scan(3)
	key := func(id string) string { return "cpuset.cpus " + id }
	if now := f.all(); now[key("/a")] != before[key("/a")] || now[key("/b")] != after[key("/b")] {
		t.Errorf("%v", now)
	}
	if r := f.resume("/b"); r.Failed == nil || r.Failed.Code != NotFound {
		t.Errorf("resume of what is not held: %+v", r)
	}
	if r := f.resume("/a"); r.Failed != nil {
		t.Error(r.Failed)
	}
	f.scan(3)
	if !f.settled("/a") {
		t.Error("not brought home again")
	}
}

// TestUndoByName: a name that only one workload has will do, as for explain and move.
func TestUndoByName(t *testing.T) {
	f := scattered(t)
	f.scan(6)
	if r := f.undo("a"); r.Undo == nil || len(r.Undo.Restored) != 1 || r.Undo.Restored[0].Workload != "/a" || !f.s.Holds.IDs["/a"] || len(f.s.Holds.IDs) != 1 {
		t.Errorf("%s, held %v", asJSON(t, r), f.s.Holds)
	}
	if r := f.resume("a"); r.Failed != nil || len(f.s.Holds.IDs) != 0 {
		t.Errorf("%+v, held %v", r, f.s.Holds)
	}
	if r := f.resume("a"); r.Failed == nil || r.Failed.Code != NotFound {
		t.Errorf("%+v", r)
	}
}

func TestUndoOfNobody(t *testing.T) {
	f := scattered(t)
	f.scan(1)
	for id, code := range map[workload.ID]Code{"/nobody": NotFound, "device:eth9": NotFound} {
		if r := f.undo(id); r.Failed == nil || r.Failed.Code != code || f.s.Holds.Has(id) {
			t.Errorf("%s: %+v", id, r)
		}
	}
	for _, nobody := range []Request{{Undo: &Which{}}, {Resume: &Which{}}, {Move: &MoveRequest{To: topology.Nodes(0)}}} {
		if r := f.ask(nobody); r.Failed == nil || r.Failed.Code != BadRequest {
			t.Errorf("%+v", r)
		}
	}
	// What is gone and stands in the journal is somebody.
	f.scan(4)
	f.remove("/a")
	f.scan(1)
	if r := f.undo("/a"); r.Undo == nil || len(r.Undo.Gone) != 1 || r.Undo.Gone[0].State != plan.Gone || f.told(words.NothingToRestore) != 1 || len(f.disk.journal()) != 1 {
		t.Errorf("%s", asJSON(t, r))
	}
}

// The hold of a process ends with it, also when another has its PID. A cgroup's stays, for
// the next under its path is the same service.
func TestHoldOfAProcessEndsWithIt(t *testing.T) {
	f := newFake(t, 2, 8)
	held := []workload.ID{f.add("a", 1, 1<<20, 0), f.addProcess(77, "b", 1, 1<<20, 0), f.addProcess(78, "c", 1, 1<<20, 0), f.addProcess(79, "d", 1, 1<<20, 0)}
	f.scan(2)
	for _, id := range held {
		f.undo(id)
	}
	f.scan(2)
	if len(f.s.Holds.IDs) != 4 {
		t.Fatalf("while they live %v are held", f.s.Holds.IDs)
	}
	f.remove(held[0])
	f.remove(held[1])
	f.works[held[2]].obs.Processes[0].Start = 8
	f.scan(1)
	want := map[workload.ID]bool{held[0]: true, held[3]: true}
	if diff := cmp.Diff(want, f.s.Holds.IDs) + cmp.Diff(want, f.disk.saved(t).Holds.IDs); diff != "" {
		t.Errorf("held, and so on disk:\n%s", diff)
	}
}

// A step of which the settings are being read when its workload is undone changes nothing,
// and holds up nothing that is asked for later.
func TestUndoWhileSettingsAreRead(t *testing.T) {
	f := newFake(t, 2, 8)
	id := f.add("a", 3, 1<<20, 0)
	before := f.all()
	f.keeping(EffectRead)
	f.scan(1)
	if r := f.undo(id); len(f.kept) != 1 || r.Undo == nil {
		t.Fatalf("%d reads under way: %s", len(f.kept), asJSON(t, r))
	}
	f.release()
	if diff := cmp.Diff(before, f.all()); diff != "" || len(f.s.Tasks) != 0 || f.s.Journal.Len() != 0 {
		t.Errorf("%d tasks:\n%s", len(f.s.Tasks), diff)
	}
	f.resume(id)
	f.scan(4)
	if !f.settled(id) {
		t.Errorf("resumed, it is on %q", f.cpus(id))
	}
}

// While the affinity of one process is put back, steps of another begin.
func TestUndoOfOneProcessHoldsUpNoOther(t *testing.T) {
	f := newFake(t, 2, 8)
	a, b := f.addProcess(77, "a", 2, 1<<20, 0), f.addProcess(78, "b", 2, 1<<20, 1)
	f.scan(6)
	f.keeping(EffectRestore)
	f.undo(a)
	to := topology.NodeID(0)
	if f.home(b) == "0" {
		to = 1
	}
	if r := f.order(b, to); r.Failed != nil || len(f.kept) != 1 {
		t.Fatalf("%s, %d restores", asJSON(t, r), len(f.kept))
	}
	if got := f.get(plan.Affinity, "78@7"); got != f.placement(b).CPUs.String() {
		t.Errorf("b is on %s, its home has %v", got, f.placement(b).CPUs)
	}
	f.release()
}

// A stop that restores holds nothing.
func TestUndoAtTheEnd(t *testing.T) {
	f := scattered(t)
	before := f.all()
	f.scan(6)
	f.turn(Input{Stopped: true})
	r := f.ask(Request{Undo: &Which{All: true, Stop: true}})
	if diff := cmp.Diff(before, f.all()); diff != "" || r.Undo == nil || f.s.Holds.All {
		t.Errorf("held %v\n%s", f.s.Holds.All, diff)
	}
	if f.told(words.DaemonStopped) != 1 {
		t.Error("not told")
	}
	f.start()
	f.scan(5)
	if !f.settled("/a") {
		t.Error("nothing is enforced after the next start")
	}
}

// What ends or is seen while the daemon stops begins nothing anew.
func TestNothingBeginsAtTheEnd(t *testing.T) {
	f := scattered(t)
	before := f.all()
	f.scan(0)
	f.keeping(EffectApply)
	f.scan(1)
	scan := f.begin()
	f.turn(Input{Stopped: true})
	f.ask(Request{Undo: &Which{All: true, Stop: true}})
	f.release()
	f.end(scan)
	f.scan(2)
	if diff := cmp.Diff(before, f.all()); diff != "" || f.replies[f.asked].Undo == nil || len(f.disk.journal()) != 0 {
		t.Errorf("%s", diff)
	}
}

// What cannot be put back stays in the journal, and the next undo ends it.
func TestUndoThatFails(t *testing.T) {
	for code, check := range map[Code]func(*Undone) (n, left int){
		Failed:   func(u *Undone) (int, int) { return len(u.Failed), 2 },
		NoAnswer: func(u *Undone) (int, int) { return len(u.Failed), 2 },
		InUse:    func(u *Undone) (int, int) { return len(u.Deferred), 2 },
		Gone:     func(u *Undone) (int, int) { return len(u.Gone), 0 },
		Foreign:  func(u *Undone) (int, int) { return len(u.Foreign), 0 },
	} {
		f := scattered(t)
		before := f.all()
		f.scan(6)
		f.fail = func(e *Effect) *Failure {
			if e.Kind == EffectRestore {
				return &Failure{Code: code, Text: "on purpose"}
			}
			return nil
		}
		r := f.undo("")
		if r.Undo == nil {
			t.Fatalf("%s: %s", code, asJSON(t, r))
		}
		n, left := check(r.Undo)
		if n != 2 || len(f.disk.journal()) != left || len(r.Undo.Restored) != 0 {
			t.Errorf("%s: %s, journal %+v", code, asJSON(t, r), f.disk.journal())
		}
		errors := 0
		for _, e := range f.events {
			if e.Kind == plan.EventUndo && e.Error {
				errors++
			}
		}
		if (errors > 0) != (code == Failed || code == NoAnswer) {
			t.Errorf("%s: %d errors told", code, errors)
		}
		f.fail = nil
		f.scan(2)
		f.undo("")
		if left > 0 {
			if diff := cmp.Diff(before, f.all()); diff != "" || len(f.disk.journal()) != 0 {
				t.Errorf("%s, the next undo left:\n%s", code, diff)
			}
		}
	}
}

// An undo that comes while a setting is read does not let it be changed; one that comes
// while it is changed waits for that, and puts it back.
func TestUndoInTheMidstOfAStep(t *testing.T) {
	for _, kind := range []EffectKind{EffectRead, EffectApply} {
		f := newFake(t, 2, 8)
		id := f.add("a", 3, 1<<20, 0)
		f.add("b", 3, 1<<20, 1)
		before := f.all()
		f.scan(0)
		f.keep = func(e *Effect) bool { return e.Kind == kind && e.Workload == id }
		f.scan(1)
		if len(f.kept) != 1 {
			t.Fatalf("%s: %s", kind, asJSON(t, f.kept))
		}
		r := f.undo("")
		if answered := r.Undo != nil; answered != (kind == EffectRead) {
			t.Errorf("%s: answered %v", kind, answered)
		}
		if f.cpus("/b") != "" {
			t.Errorf("%s: b waits for a", kind)
		}
		f.scan(2)
		f.release()
		if r := f.replies[f.asked]; r.Undo == nil || len(r.Undo.Failed) != 0 {
			t.Errorf("%s: %s", kind, asJSON(t, r))
		}
		f.scan(2)
		if diff := cmp.Diff(before, f.all()); diff != "" || len(f.disk.journal()) != 0 {
			t.Errorf("%s: undo left, journal %+v:\n%s", kind, f.disk.journal(), diff)
		}
	}
}

// An undo puts settings back before the pages have stopped.
func TestUndoDoesNotWaitForPages(t *testing.T) {
	f := newFake(t, 2, 8)
	id := f.add("a", 3, 1<<20, 0, 1)
	before := f.all()
	var reply Reply
	f.mid = func(e *Effect) {
		f.mid = nil
		reply = f.undo("")
		if !f.stopped[e.ID] {
			t.Error("its pages go on")
		}
	}
	f.scan(1)
	if reply.Undo == nil || len(reply.Undo.Restored) != 1 {
		t.Errorf("not answered while pages move: %s", asJSON(t, reply))
	}
	if diff := cmp.Diff(before, f.all()); diff != "" {
		t.Errorf("undo left:\n%s", diff)
	}
	if m := f.s.Moves[id]; m.State != work.MoveCancelled || m.Moved == 0 || m.Moved >= m.Planned || f.told(words.MoveCancelled) != 1 || f.disk.moves[id].State != work.MoveCancelled {
		t.Errorf("%+v", m)
	}
	f.scan(5)
	if diff := cmp.Diff(before, f.all()); diff != "" || len(f.applies(plan.MovePages)) != 1 {
		t.Errorf("changed again:\n%s", diff)
	}
}

// One of two moves in flight is undone: its own stops, the other goes on.
func TestUndoOfOneOfTwoMoves(t *testing.T) {
	f := scattered(t)
	before := f.all()
	f.keep = func(e *Effect) bool { return e.Kind == EffectApply && e.Step.Kind == plan.MovePages }
	f.scan(1)
	if len(f.kept) != 2 {
		t.Fatalf("%d moves", len(f.kept))
	}
	f.undo("/a")
	f.release()
	f.scan(4)
	if m := f.s.Moves["/a"]; m.State != work.MoveCancelled || !f.s.Holds.Has("/a") {
		t.Errorf("a: %+v", m)
	}
	if m := f.s.Moves["/b"]; m.State != work.MoveDone || !f.settled("/b") {
		t.Errorf("b: %+v", m)
	}
	if f.cpus("/a") != before["cpuset.cpus /a"] {
		t.Errorf("a has %s", f.cpus("/a"))
	}
}

// A change that does not come back holds up nobody else's undo; when it has failed the
// undo ends.
func TestUndoBesideACallThatHangs(t *testing.T) {
	f := newFake(t, 2, 8)
	a := f.add("a", 3, 1<<20, 0, 1)
	f.add("b", 3, 1<<20, 0, 1)
	before := f.all()
	f.keep = func(e *Effect) bool { return e.Kind == EffectApply && e.Workload == a }
	f.scan(4)
	if r := f.undo("/b"); r.Undo == nil || len(r.Undo.Restored) != 1 {
		t.Fatalf("undo of b: %s", asJSON(t, r))
	}
	r := f.undo("")
	if r.Undo != nil || len(f.s.Undoing) != 1 {
		t.Fatalf("answered: %s", asJSON(t, r))
	}
	f.fail = func(e *Effect) *Failure {
		if e.Kind == EffectApply {
			return &Failure{Code: NoAnswer, Text: "no answer within 31s"}
		}
		return nil
	}
	f.release()
	if r := f.replies[f.asked]; r.Undo == nil || len(r.Undo.Failed) != 0 {
		t.Errorf("%s", asJSON(t, r))
	}
	if diff := cmp.Diff(before, f.all()); diff != "" || len(f.disk.journal()) != 0 {
		t.Errorf("undo left:\n%s", diff)
	}
}

// A daemon that is killed in the midst of an undo goes on with it when it is started.
func TestUndoGoesOnAfterARestart(t *testing.T) {
	f := scattered(t)
	before := f.all()
	f.scan(6)
	f.keeping(EffectRestore)
	f.undo("")
	if len(f.kept) == 0 {
		t.Fatal("nothing is put back")
	}
	f.perform(f.kept[0]) // one of them
	f.keep = nil
	f.start()
	if diff := cmp.Diff(before, f.all()); diff != "" || len(f.disk.journal()) != 0 || len(f.disk.saved(t).Undoing) != 0 {
		t.Errorf("the next daemon left:\n%s", diff)
	}
	f.scan(3)
	if diff := cmp.Diff(before, f.all()); diff != "" {
		t.Errorf("changed again:\n%s", diff)
	}
}

// A second undo while one is under way is answered too, and nothing is put back twice.
func TestTwoUndosAtOnce(t *testing.T) {
	for _, processes := range []bool{false, true} {
		f := newFake(t, 2, 8)
		a := workload.ID("/a")
		if processes {
			a = f.addProcess(77, "a", 3, 1<<20, 0, 1)
			f.addProcess(78, "b", 3, 1<<20, 0, 1)
		} else {
			f = scattered(t)
		}
		before := f.all()
		f.scan(6)
		f.keeping(EffectRestore)
		f.undo(a)
		one := f.asked
		f.undo("")
		two := f.asked
		f.release()
		if f.replies[one].Undo == nil || f.replies[two].Undo == nil {
			t.Fatalf("%s", asJSON(t, f.replies))
		}
		n := len(f.replies[one].Undo.Restored) + len(f.replies[two].Undo.Restored)
		if n != 2 || len(f.replies[two].Undo.Foreign)+len(f.replies[two].Undo.Failed) > 0 {
			t.Errorf("%d restored: %s", n, asJSON(t, f.replies))
		}
		if diff := cmp.Diff(before, f.all()); diff != "" {
			t.Errorf("left:\n%s", diff)
		}
	}
}

// Undos of the same end together, each answered once, also when what waited for one of
// them was cancelled by another.
func TestUndosThatEndTogether(t *testing.T) {
	f := scattered(t)
	f.scan(6)
	f.keeping(EffectRestore)
	f.undo("")
	f.set(plan.HostFile, "sys/a", "1")
	f.ask(Request{Change: &Change{Steps: []plan.Step{{Kind: "write", Workload: "host", Target: plan.Target{Kind: workload.InHost, Host: "sys/a"}, To: "2"}}}})
	f.undo("")
	f.undo("/a")
	f.release()
	if len(f.replies) != 4 || f.get(plan.HostFile, "sys/a") != "1" || len(f.s.Undoing) != 0 || len(f.s.Queued) != 0 {
		t.Errorf("%d answered, %q: %s", len(f.replies), f.get(plan.HostFile, "sys/a"), asJSON(t, f.s.Undoing))
	}
}

// A resume while an undo is under way lets it end first.
func TestResumeInTheMidstOfAnUndo(t *testing.T) {
	f := scattered(t)
	f.scan(6)
	f.keeping(EffectRestore)
	f.undo("")
	undo := f.asked
	f.resume("")
	f.scan(2)
	f.release()
	if f.replies[undo].Undo == nil {
		t.Error("not answered")
	}
	f.scan(3)
	for _, e := range f.s.Journal.All() {
		if e.Old != "" {
			t.Errorf("the original is lost: %+v", e)
		}
	}
	if !f.settled("/a") || !f.settled("/b") {
		t.Error("not brought home")
	}
}

// What resume gives back is planned by the next scan. A step that was planned before is
// not begun then: it knows nothing of who has set what since.
func TestResumeForgetsWhatWasPlannedBefore(t *testing.T) {
	f := newFake(t, 2, 8)
	a, b := f.add("a", 3, 1<<20, 0), f.add("b", 3, 1<<20, 1)
	f.scan(6)
	if !f.settled(a) || !f.settled(b) || f.home(a) != "0" || f.home(b) != "1" {
		t.Fatal("not settled")
	}
	f.keep = func(e *Effect) bool { return e.Workload == b }
	f.order(b, 0)
	f.fail = func(e *Effect) *Failure {
		if e.Kind == EffectRead {
			return &Failure{Code: Failed, Text: "on purpose"}
		}
		return nil
	}
	f.order(a, 1)
	f.fail = nil
	f.scan(1)                            // it waits for its next try
	f.set(plan.CgroupCPUs, "/a", "0-14") // more than homenode had set
	if r := f.undo(a); r.Undo == nil || len(r.Undo.Foreign) != 1 {
		t.Fatalf("%s", asJSON(t, r))
	}
	f.resume(a)
	f.after(time.Minute)
	f.release() // goes on with all that is left to do
	f.scan(2)
	if f.cpus(a) != "0-14" || !f.leftAlone(a, words.SetByOthers) {
		t.Errorf("on %q: %+v", f.cpus(a), f.decision(a))
	}
}

// Changes that wait when an undo comes are not made after it; one that is asked for while
// settings are put back is made when that has ended, and its original is not lost.
func TestUndoAndChanges(t *testing.T) {
	f := newFake(t, 2, 8)
	f.scan(1)
	f.set(plan.HostFile, "sys/a", "1")
	change := func(to string) uint64 {
		step := plan.Step{Kind: "write", Workload: "host", Target: plan.Target{Kind: workload.InHost, Host: "sys/a"}, To: to}
		f.ask(Request{Change: &Change{Steps: []plan.Step{step}}})
		return f.asked
	}
	f.keeping(EffectApply)
	change("2")
	waits := change("3")
	f.undo("host")
	f.release()
	if r := f.replies[waits]; len(r.Changed) != 1 || r.Changed[0] == nil || r.Changed[0].Code != Cancelled {
		t.Errorf("%s", asJSON(t, r))
	}
	if r := f.replies[waits+1]; r.Undo == nil || len(r.Undo.Restored) != 1 || f.get(plan.HostFile, "sys/a") != "1" || len(f.disk.journal()) != 0 {
		t.Errorf("after undo %q: %s", f.get(plan.HostFile, "sys/a"), asJSON(t, r))
	}
	change("4")
	f.keeping(EffectRestore)
	f.undo("host")
	late := change("5")
	if len(f.replies) != int(late)-2 {
		t.Errorf("changed while it is put back: %s", asJSON(t, f.replies[late]))
	}
	f.release()
	if r := f.replies[late]; len(r.Changed) != 1 || r.Changed[0] != nil || f.get(plan.HostFile, "sys/a") != "5" {
		t.Errorf("%s", asJSON(t, r))
	}
	if e := f.s.Journal.Of(plan.HostFile, "sys/a"); e == nil || e.Old != "1" || e.New != "5" || len(f.s.Queued) != 0 {
		t.Errorf("journal %+v", e)
	}
}

// An order that comes while settings are put back does not lose the originals.
func TestOrderInTheMidstOfAnUndo(t *testing.T) {
	f := newFake(t, 2, 8)
	id := f.add("a", 3, 1<<20, 0)
	f.scan(4)
	other := topology.NodeID(1)
	if f.home(id) == "1" {
		other = 0
	}
	f.keeping(EffectRestore)
	f.undo(id)
	if r := f.order(id, other); r.Failed != nil {
		t.Fatal(r.Failed)
	}
	f.scan(1)
	f.release()
	f.scan(4)
	if e := f.s.Journal.Of(plan.CgroupCPUs, "/a"); !f.settled(id) || e == nil || e.Old != "" {
		t.Errorf("on %q, journal %+v", f.cpus(id), e)
	}
	f.undo("")
	if f.cpus(id) != "" {
		t.Errorf("undo left %q", f.cpus(id))
	}
}

// Affinities are put back together, with one look at all processes; of one workload the
// last change goes first; a controller goes last.
func TestOrderOfUndo(t *testing.T) {
	entry := func(seq uint64, w workload.ID, kind plan.SettingKind, path string) plan.Entry {
		return plan.Entry{Seq: seq, Workload: w, Kind: kind, Path: path, Old: "o", New: "n", State: plan.Applied}
	}
	f := newFake(t, 2, 8)
	all := []plan.Entry{
		entry(1, "/x/a", plan.CgroupControllers, "/x"), entry(2, "/x/a", plan.CgroupCPUs, "/x/a"), entry(3, "pid:1", plan.Affinity, "1@1"),
		entry(4, "/x/a", plan.CgroupMems, "/x/a"), entry(5, "/x/b", plan.CgroupCPUs, "/x/b"), entry(6, "pid:2", plan.Affinity, "2@1"),
		entry(7, "device:eth0", plan.QueueCount, "p/eth0"), entry(8, "device:eth0", plan.IRQAffinity, "p/40"), entry(9, "/y", plan.CgroupCPUs, "/y"),
	}
	for _, e := range all {
		f.disk.entries[e.Seq] = e
		f.values[settingKey{e.Kind, e.Path}] = plan.Setting{Kind: e.Kind, Path: e.Path, Value: "n"}
	}
	f.cards = &cards{most: 8}
	f.start()
	f.keeping(EffectRestore)
	f.undo("")
	var got [][]uint64
	for len(f.kept) > 0 {
		for _, e := range f.kept {
			var seqs []uint64
			for _, x := range e.Entries {
				seqs = append(seqs, x.Seq)
			}
			got = append(got, seqs)
		}
		kept := f.kept
		f.kept = nil
		for _, e := range kept {
			r := Result{ID: e.ID, Each: make([]*Failure, len(e.Entries))}
			f.result(r)
			f.run()
		}
	}
	want := [][]uint64{{6, 3}, {9}, {7, 8}, {5}, {4, 2}, {1}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if r := f.replies[f.asked]; r.Undo == nil || len(r.Undo.Restored) != len(all) {
		t.Errorf("%s", asJSON(t, r))
	}
}

// A controller goes with the last workload that needed it, and no other does.
func TestControllerGoesWithItsWorkload(t *testing.T) {
	f := newFake(t, 2, 8)
	for _, e := range []plan.Entry{
		{Seq: 1, Workload: "/x/a", Kind: plan.CgroupControllers, Path: "/x", Old: "", New: "+cpuset", State: plan.Applied},
		{Seq: 2, Workload: "/z/a", Kind: plan.CgroupControllers, Path: "/z", Old: "", New: "+cpuset", State: plan.Applied},
		{Seq: 3, Workload: "/x/b", Kind: plan.CgroupCPUs, Path: "/x/b", Old: "", New: "1", State: plan.Applied},
	} {
		f.disk.entries[e.Seq] = e
		f.values[settingKey{e.Kind, e.Path}] = plan.Setting{Kind: e.Kind, Path: e.Path, Value: e.New}
	}
	f.start()
	r := f.undo("/x/b")
	if r.Undo == nil || len(r.Undo.Restored) != 2 || r.Undo.Restored[0].Seq != 3 || r.Undo.Restored[1].Seq != 1 || len(f.disk.journal()) != 1 {
		t.Errorf("%s", asJSON(t, r))
	}
}

// A controller stays on while a cgroup inside is being changed, and goes when that has
// ended.
func TestControllerStaysWhileItIsNeeded(t *testing.T) {
	f := newFake(t, 2, 8)
	f.disk.entries[1] = plan.Entry{Seq: 1, Workload: "/x/a", Kind: plan.CgroupControllers, Path: "/x", Old: "", New: "+cpuset", State: plan.Applied}
	f.disk.seq = 1
	f.set(plan.CgroupControllers, "/x", "+cpuset")
	f.add("x/b", 3, 1<<20, 0)
	f.add("y", 3, 1<<20, 1)
	f.start()
	f.keep = func(e *Effect) bool { return e.Kind == EffectApply }
	f.scan(1)
	if r := f.undo("/x/a"); r.Undo != nil || f.get(plan.CgroupControllers, "/x") == "" || len(f.kept) != 2 {
		t.Fatalf("%d changes under way: %s", len(f.kept), asJSON(t, r))
	}
	inside := slices.IndexFunc(f.kept, func(e Effect) bool { return e.Workload == "/x/b" })
	e := f.kept[inside]
	f.kept = slices.Delete(f.kept, inside, inside+1)
	f.perform(e)
	f.run()
	if r := f.replies[f.asked]; r.Undo == nil || len(r.Undo.Restored) != 1 || f.get(plan.CgroupControllers, "/x") != "" {
		t.Errorf("%s", asJSON(t, r))
	}
}

// Nothing is begun inside a cgroup while its controllers are put back.
func TestNothingBeginsWhereAControllerGoes(t *testing.T) {
	f := newFake(t, 2, 8)
	f.disk.entries[1] = plan.Entry{Seq: 1, Workload: "/x/a", Kind: plan.CgroupControllers, Path: "/x", Old: "", New: "+cpuset", State: plan.Applied}
	f.disk.seq = 1
	f.set(plan.CgroupControllers, "/x", "+cpuset")
	f.add("x/b", 3, 1<<20, 0)
	f.start()
	f.keeping(EffectRestore)
	f.undo("/x/a")
	f.scan(1)
	if n := f.count(EffectRead, ""); len(f.kept) != 1 || n != 0 {
		t.Fatalf("%d put back, %d begun", len(f.kept), n)
	}
	f.release()
	if f.scan(2); !f.settled("/x/b") {
		t.Errorf("afterwards on %q", f.cpus("/x/b"))
	}
}

// Of one workload one restore at a time is under way: what was being changed waits for the
// one that began before.
func TestOneRestoreAtATime(t *testing.T) {
	f := machinesOn(t, 2, 8)
	a := f.define(floating("a", 2, 1<<20))
	f.boot(a, 0, 1)
	f.workOf(a).obs.Memory = []workload.NodeMemory{{Node: 0, KiB: 4 << 10}, {Node: 1, KiB: 4 << 10}}
	f.keep = func(e *Effect) bool {
		return e.Kind == EffectApply && e.Step.Kind == plan.SetMems || e.Kind == EffectRestore
	}
	f.scan(1)
	f.undo("m:a")
	if len(f.kept) != 2 || f.kept[1].Kind != EffectRestore {
		t.Fatalf("%s", asJSON(t, f.kept))
	}
	e := f.kept[0]
	f.kept = f.kept[1:]
	f.perform(e)
	f.run()
	if len(f.kept) != 1 || f.replies[f.asked].Undo != nil {
		t.Errorf("%s", asJSON(t, f.kept))
	}
	f.release()
	if r := f.replies[f.asked]; r.Undo == nil || len(r.Undo.Restored) != 2 || a.now.String() != "0-15/0-1" {
		t.Errorf("at %v: %s", &a.now, asJSON(t, r))
	}
}

// An undo takes over what an earlier one that was interrupted has left to do, if it is about
// the same.
func TestUndoTakesOver(t *testing.T) {
	for _, tt := range []struct {
		left work.Undoing
		id   workload.ID
		over bool
	}{
		{work.Undoing{Which: Which{ID: "/a"}}, "/a", true}, {work.Undoing{Which: Which{ID: "/a"}}, "", true}, {work.Undoing{Which: Which{ID: "/a"}}, "/b", false},
		{work.Undoing{Which: Which{All: true}}, "/a", false}, {work.Undoing{Which: Which{ID: "/a"}, Request: 9}, "/a", false},
		{work.Undoing{Which: Which{ID: "/a"}, Running: map[uint64][]plan.Entry{99: {{Seq: 99, Workload: "/x"}}}, Tried: map[uint64]bool{}}, "/a", false},
	} {
		f := scattered(t)
		f.scan(6)
		f.s.Undoing, f.twin = []*work.Undoing{&tt.left}, nil
		f.keeping(EffectRestore)
		f.undo(tt.id)
		left := map[bool]int{false: 2, true: 1}[tt.over]
		if n := f.told(words.UndoGoesOn); (n == 1) != tt.over || len(f.s.Undoing) != left || len(f.disk.saved(t).Undoing) != left {
			t.Errorf("%q after %+v: told %d times, %d under way", tt.id, tt.left, n, len(f.s.Undoing))
		}
	}
}

// What `homenode run` gave a process is what it has again after an undo.
func TestUndoOfWhatRunPlaced(t *testing.T) {
	f := newFake(t, 2, 8)
	f.scan(1)
	r := f.admit(77, workload.Dedicated, 4)
	if r.Place == nil || !r.Place.Ledger {
		t.Fatalf("%s", asJSON(t, r))
	}
	id := f.addProcess(77, "x", 2, 1<<20, 0)
	f.set(plan.Affinity, "77@7", r.Place.Placement.CPUs.String())
	f.scan(2)
	other := topology.NodeID(1)
	if f.home(id) == "1" {
		other = 0
	}
	if r := f.order(id, other); r.Failed != nil {
		t.Fatal(r.Failed)
	}
	f.scan(2)
	if g := f.s.Given[id]; !g.Equal(f.placement(id).CPUs) || g.Equal(r.Place.Placement.CPUs) {
		t.Fatalf("given %v", g)
	}
	f.undo(id)
	if g := f.s.Given[id]; !g.Equal(r.Place.Placement.CPUs) || f.get(plan.Affinity, "77@7") != g.String() {
		t.Errorf("after undo it is taken to have %v", g)
	}
	plain := f.addProcess(78, "y", 2, 1<<20, 0, 1)
	f.scan(3)
	if f.s.Given[plain].Empty() {
		t.Fatal("nothing given")
	}
	f.undo(plain)
	if g, ok := f.s.Given[plain]; ok {
		t.Errorf("after undo it is taken to have %v", g)
	}
}

// Killed at every input: the next daemon, on what the disk has, puts all back.
func TestKilledAnywhere(t *testing.T) {
	for n := 0; ; n++ {
		f := scattered(t)
		before := f.all()
		ended := true
		left := n
		f.keep = func(*Effect) bool {
			if left--; left < 0 {
				ended = false
			}
			return left < 0
		}
		f.scan(4)
		f.keep = nil
		f.start()
		if n%2 == 0 {
			f.scan(2)
		}
		f.undo("")
		if diff := cmp.Diff(before, f.all()); diff != "" || len(f.disk.journal()) != 0 {
			t.Fatalf("killed at effect %d, undo left:\n%s", n, diff)
		}
		if ended {
			if n < 8 {
				t.Fatalf("only %d effects: this is no test", n)
			}
			return
		}
	}
}

func TestAfterBoot(t *testing.T) {
	at := time.Unix(9, 0)
	v := Saved{
		Seq: 7,
		Journal: []plan.Entry{{Seq: 1, Kind: plan.CgroupCPUs, Path: "/a", State: plan.Applied}, {Seq: 2, Workload: "machine:m", Kind: machineNext, Path: "m", State: plan.Applied},
			{Seq: 3, Kind: plan.Affinity, Path: "1@1", State: plan.Intended}},
		Placements: []workload.Placement{{Workload: "/a"}, {Workload: "pid:1", Start: 1}},
		Admissions: map[workload.ID]Admission{"pid:1": {}},
		Holds:      Holds{IDs: map[workload.ID]bool{"/a": true, "pid:1": true}},
		Undoing:    []Which{{ID: "/a"}, {All: true}, {ID: "machine:m"}},
		Theirs:     []journal.Theirs{{Workload: "/a", Kind: plan.CgroupCPUs}, {Workload: "machine:n", Kind: machineNext}},
	}
	got, b := v.AfterBoot(at, func(k plan.SettingKind) bool { return k == machineNext })
	if len(got.Journal) != 1 || got.Journal[0].Seq != 2 || got.Seq != 7 || len(got.Placements) != 1 || len(got.Admissions) != 0 {
		t.Errorf("%+v", got)
	}
	if want := []Which{{All: true}, {ID: "machine:m"}}; !slices.Equal(got.Undoing, want) || !slices.Equal(b.Values[KeyUndoing].([]Which), want) { // what survives the boot is still to be put back
		t.Errorf("%+v, on disk %+v", got.Undoing, b.Values[KeyUndoing])
	}
	if len(got.Theirs) != 1 || got.Theirs[0].Workload != "machine:n" || len(b.Values[KeyTheirs].([]journal.Theirs)) != 1 || len(v.Theirs) != 2 {
		t.Errorf("%+v, on disk %+v", got.Theirs, b.Values[KeyTheirs])
	}
	if !got.Holds.Has("/a") || got.Holds.Has("pid:1") || got.Holds.All {
		t.Errorf("%+v", got.Holds)
	}
	if len(b.Entries) != 2 || slices.ContainsFunc(b.Entries, func(e plan.Entry) bool { return e.State != plan.Gone }) || len(b.Events) != 1 || !b.Events[0].Time.Equal(at) {
		t.Errorf("%+v", b)
	}
	if want := words.Because(words.MachineRestarted, 2).String(); b.Events[0].Text != want || b.Events[0].Seq != got.Events || got.Events != v.Events+1 {
		t.Errorf("%+v, want %q", b.Events, want)
	}
	if b.Events[0].Code != words.MachineRestarted {
		t.Errorf("%+v", b.Events)
	}
	if b.Placements == nil || len(b.Placements.All()) != 1 || len(b.Values) != 5 {
		t.Errorf("%+v", b)
	}
	if len(v.Journal) != 3 || len(v.Placements) != 2 || len(v.Holds.IDs) != 2 || len(v.Undoing) != 3 {
		t.Errorf("what was read is changed: %+v", v)
	}
}

// TestUndoOfRun: what `homenode run` set itself is put back too, once, and not what a
// process with the same PID has.
func TestUndoOfRun(t *testing.T) {
	for _, enforce := range []bool{false, true} {
		f := newFake(t, 2, 8, func(s *Settings) { s.Enforce = enforce })
		f.scan(1)
		had := f.host().Online
		pid := 4711
		id := f.addProcess(pid, "db", 1, 1<<20, 0)
		r := f.ask(Request{Place: &PlaceRequest{Spec: workload.Spec{Name: "db", Class: workload.Dedicated, CPUs: 2},
			Process: workload.Process{PID: pid, Start: 7}, Had: had}})
		if r.Failed != nil {
			t.Fatal(r.Failed.Text)
		}
		path := plan.ProcessPath(workload.Process{PID: pid, Start: 7})
		f.set(plan.Affinity, path, r.Place.Placement.CPUs.String()) // it confines itself
		would := func(when string) {
			t.Helper()
			dry := f.ask(Request{Undo: &Which{ID: id, DryRun: true}})
			if dry.Failed != nil || len(dry.Undo.Restored) != 1 || dry.Undo.Restored[0].Path != path || len(dry.Undo.Policies) != 1 || len(f.disk.saved(t).Undoing) != 0 {
				t.Errorf("enforce %v, dry run %s: %s", enforce, when, asJSON(t, dry))
			}
		}
		would("before it is seen")
		f.scan(3)
		would("later")
		u := f.undo(id)
		if u.Failed != nil || len(u.Undo.Restored) != 1 || len(u.Undo.Policies) != 1 || u.Undo.Policies[0] != id {
			t.Fatalf("enforce %v: %+v %+v", enforce, u.Failed, u.Undo)
		}
		if got := f.get(plan.Affinity, path); got != had.String() {
			t.Errorf("enforce %v: it may use %s, want %s", enforce, got, had)
		}
		if u := f.undo(id); u.Failed != nil || len(u.Undo.Restored) != 0 {
			t.Errorf("enforce %v: again: %+v", enforce, u.Undo)
		}
	}
}
