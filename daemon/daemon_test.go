package daemon

import (
	"context"
	"maps"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/homenode/homenode/api"
	"github.com/homenode/homenode/core/plan"
	"github.com/homenode/homenode/core/words"
	"github.com/homenode/homenode/core/words/wordstest"
	"github.com/homenode/homenode/core/workload"
)

// scattered is two workloads that each fit a node, with their memory on both.
func scattered(t *testing.T) *machine {
	m := newMachine(t, 2, 8)
	m.add("a", 3, 1<<20, 0, 1)
	m.add("b", 3, 1<<20, 0, 1)
	return m
}

// What stands beside a workload can be computed from its status alone.
func TestStatusSaysWhatItWasPlacedBy(t *testing.T) {
	m := newMachine(t, 2, 8)
	id := m.add("a", 1, 1<<20, 0)
	r := newRig(t, m, false, func(o *Options) {
		o.Settings.Rules = []workload.Rule{{Match: "a", Class: workload.Dedicated, CPUs: 1, SMT: workload.SMTIsolate, Near: []string{"eth0"}, NearGiven: true}}
	})
	r.ticks(1)
	w := r.status(t)[id]
	if w.SMT != workload.SMTIsolate || w.CPUSetPlanned != "0" || w.Idle != "1" || len(w.Near) != 1 || w.Near[0] != "eth0" {
		t.Errorf("got %+v", w)
	}
}

func TestObserveChangesNothingAndPredicts(t *testing.T) {
	m := scattered(t)
	before := m.settings()
	r := newRig(t, m, false)
	r.ticks(5)
	if diff := cmp.Diff(before, m.settings()); diff != "" {
		t.Errorf("observe mode changed the host:\n%s", diff)
	}
	if m.calls != 0 {
		t.Errorf("%d calls of Apply in observe mode", m.calls)
	}
	predicted := map[workload.ID]string{}
	for id, w := range r.status(t) {
		if w.State != api.StateWouldMove {
			t.Errorf("%s: state %q, want it to say that it would move", id, w.State)
		}
		if w.LocalityExpected == nil || *w.LocalityExpected < 0.99 {
			t.Errorf("%s: no prediction of full locality", id)
		}
		predicted[id] = w.Home
	}
	r.start(t, true)
	r.ticks(6)
	for id, w := range r.status(t) {
		if w.Home != predicted[id] {
			t.Errorf("%s: predicted node %s, went to %s", id, predicted[id], w.Home)
		}
	}
}

func TestEnforceBringsHomeAndRests(t *testing.T) {
	m := scattered(t)
	r := newRig(t, m, true)
	r.ticks(6)
	for id, w := range r.status(t) {
		if w.State != api.StateAtHome || w.Locality == nil || *w.Locality < 0.99 {
			t.Errorf("%s: state %q, locality %v", id, w.State, w.Locality)
		}
	}
	writes := maps.Clone(m.writes)
	r.ticks(10)
	if diff := cmp.Diff(writes, m.writes); diff != "" {
		t.Errorf("a host at home was changed again:\n%s", diff)
	}
}

func TestUndoRestoresAndHolds(t *testing.T) {
	m := scattered(t)
	before := m.settings()
	r := newRig(t, m, true)
	r.ticks(6)
	changed := m.settings()
	dry, err := r.undo(api.Which{All: true, DryRun: true})
	if diff := cmp.Diff(changed, m.settings()); err != nil || diff != "" || r.View().Holds.All {
		t.Errorf("a dry run changed something: %v\n%s", err, diff)
	}
	result, err := r.undo(api.Which{All: true})
	if err != nil || len(result.Failed) > 0 || len(result.Restored) == 0 {
		t.Fatalf("undo: %+v, %v", result, err)
	}
	if len(dry.Restored) != len(result.Restored) {
		t.Errorf("a dry run would restore %d, undo %d", len(dry.Restored), len(result.Restored))
	}
	if diff := cmp.Diff(before, m.settings()); diff != "" {
		t.Errorf("undo left the host changed:\n%s", diff)
	}
	r.ticks(5)
	if diff := cmp.Diff(before, m.settings()); diff != "" {
		t.Errorf("what was undone was changed again:\n%s", diff)
	}
	r.start(t, true) // also after a restart
	r.ticks(5)
	if diff := cmp.Diff(before, m.settings()); diff != "" {
		t.Errorf("after a restart what was undone was changed again:\n%s", diff)
	}
	if err := r.resume(api.Which{All: true}); err != nil {
		t.Fatal(err)
	}
	r.ticks(5)
	if cmp.Equal(before, m.settings()) {
		t.Error("resume did not bring the workloads home again")
	}
}

// A home that is kept is explained by what spoke for it when it was chosen, also
// by the next daemon.
func TestExplainRemembersTheChoice(t *testing.T) {
	m := scattered(t)
	r := newRig(t, m, true)
	r.ticks(6)
	for range 2 {
		x, err := r.Explain(t.Context(), "a")
		if err != nil {
			t.Fatal(err)
		}
		if x.Decision.Outcome != plan.Kept || len(x.Decision.Candidates) == 0 || !wordstest.Has(x.Decision.Reasons, words.Reason{Code: words.WhenChosen}) {
			t.Errorf("decision %+v", x.Decision)
		}
		if len(x.Journal) == 0 || x.Move == nil || len(x.Events) == 0 {
			t.Errorf("journal %v, move %v, %d events", x.Journal, x.Move, len(x.Events))
		}
		r.start(t, true)
		r.ticks(2)
	}
	if _, err := r.Explain(t.Context(), "/nobody"); err == nil {
		t.Error("an unknown workload: no error")
	}
}

func TestUndoOneLeavesTheOther(t *testing.T) {
	m := scattered(t)
	before := m.settings()
	r := newRig(t, m, true)
	r.ticks(6)
	after := m.settings()
	if _, err := r.undo(api.Which{ID: "/a"}); err != nil {
		t.Fatal(err)
	}
	r.ticks(3)
	now := m.settings()
	if now["/a"] != before["/a"] {
		t.Errorf("/a is %q, want %q", now["/a"], before["/a"])
	}
	if now["/b"] != after["/b"] {
		t.Errorf("/b is %q, want %q", now["/b"], after["/b"])
	}
	if _, err := r.undo(api.Which{ID: "/nobody"}); err == nil {
		t.Error("undo of an unknown workload: no error")
	}
}

func TestRestoreOnStop(t *testing.T) {
	for _, restore := range []bool{true, false} {
		m := scattered(t)
		before := m.settings()
		r := newRig(t, m, true, func(o *Options) { o.Settings.RestoreOnStop = restore })
		r.ticks(6)
		if err := r.end(); err != nil {
			t.Fatal(err)
		}
		if got := cmp.Equal(before, m.settings()); got != restore {
			t.Errorf("restore_on_stop %v: restored %v", restore, got)
		}
		r.start(t, true) // a stop is no hold: the next start goes on
		r.ticks(6)
		if cmp.Equal(before, m.settings()) {
			t.Errorf("restore_on_stop %v: nothing enforced after the next start", restore)
		}
	}
}

// What is handed over stays as it is, and is put back all the same where the user stops the service meanwhile.
func TestHandOver(t *testing.T) {
	r, before, program, stop := handedOver(t)
	if cmp.Equal(before, r.m.settings()) {
		t.Error("handed over and restored")
	}
	r.start(t, true)
	r.ticks(2)
	r.HandOver(program)
	stop()
	if err := r.end(); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(before, r.m.settings()); diff != "" {
		t.Errorf("not restored when stopped after the hand-over: %s", diff)
	}
}

// handedOver is a rig that restores when it stops, with settings that its daemon has handed over to the
// next; before is what the machine had, and stop ends the program.
func handedOver(t *testing.T) (r *rig, before map[workload.ID]string, program context.Context, stop func()) {
	m := scattered(t)
	before = m.settings()
	r = newRig(t, m, true, func(o *Options) { o.Settings.RestoreOnStop = true })
	r.ticks(6)
	program, stop = context.WithCancel(t.Context())
	r.HandOver(program)
	if err := r.end(); err != nil {
		t.Fatal(err)
	}
	return r, before, program, stop
}

// A daemon that is to end before it begins restores what the one before it left.
func TestRestoreAtOnce(t *testing.T) {
	r, before, program, stop := handedOver(t)
	d, err := New(r.options(true))
	if err != nil {
		t.Fatal(err)
	}
	stop()
	if err := d.Run(program); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(before, r.m.settings()); diff != "" {
		t.Errorf("not restored: %s", diff)
	}
}

func TestFailedStepIsToldOnceAndTriedLater(t *testing.T) {
	m := newMachine(t, 2, 8)
	m.add("a", 3, 1<<20, 0, 1)
	m.failAt, m.failErr = 1, errBroken
	r := newRig(t, m, true)
	r.ticks(3) // 6 s: not yet due again
	if m.calls != 1 {
		t.Errorf("%d tries within 6 s, want 1", m.calls)
	}
	if !r.happened(t, words.StepFailed) {
		t.Error("the failure is not in the history")
	}
	if s := r.status(t)["/a"].State; s != api.StateFailed {
		t.Errorf("state %q, want failed", s)
	}
	r.ticks(5)
	if s := r.status(t)["/a"].State; s != api.StateAtHome {
		t.Errorf("after the wait: state %q, want at home", s)
	}
}

// Pages shared with others stay without an error; they must not be moved at
// every tick, and must not keep other workloads waiting.
func TestPagesThatDoNotMoveAreNotTriedAtOnce(t *testing.T) {
	m := scattered(t)
	m.stuck = true
	r := newRig(t, m, true)
	r.ticks(4) // 8 s
	if m.moves != 2 {
		t.Errorf("%d moves of two workloads within 8 s, want 2", m.moves)
	}
	r.ticks(30) // 60 s more: each is due again after 10 s, then 20 s, then 40 s
	if m.moves > 8 {
		t.Errorf("%d moves of two workloads within 68 s, want at most 8", m.moves)
	}
}

func TestWorkloadEndsInTheMiddleOfAMove(t *testing.T) {
	m := scattered(t)
	ended := false
	m.midMove = func(w *thing) { // of both, perhaps beside each other
		m.mu.Lock()
		defer m.mu.Unlock()
		if !ended {
			delete(m.live, w.obs.ID)
			ended = true
		}
	}
	r := newRig(t, m, true)
	r.ticks(8)
	if !r.happened(t, words.WorkloadGone) {
		t.Error("the history does not say that the workload is gone")
	}
	if len(r.status(t)) != 1 {
		t.Fatal("the machine should have one workload left")
	}
	for id, w := range r.status(t) {
		if w.State != api.StateAtHome {
			t.Errorf("%s: state %q; the other's end must not stop it", id, w.State)
		}
	}
}

func TestUndoInTheMiddleOfAMove(t *testing.T) {
	m := newMachine(t, 2, 8)
	m.add("a", 3, 1<<20, 0, 1)
	before := m.settings()
	r := newRig(t, m, true)
	middle, end := make(chan struct{}), make(chan struct{})
	m.midMove = func(*thing) {
		close(middle)
		<-end
	}
	r.scan()
	for busy := true; busy; {
		select {
		case <-middle:
			busy = false
		case in := <-r.inputs:
			r.take(in)
		}
	}
	if _, err := r.undo(api.Which{All: true}); err != nil { // it does not wait for the move
		t.Fatal(err)
	}
	close(end)
	r.settle()
	if diff := cmp.Diff(before, m.settings()); diff != "" {
		t.Errorf("undo left the host changed:\n%s", diff)
	}
	if !r.happened(t, words.MoveCancelled) {
		t.Error("the history does not tell of the cancelled move")
	}
}

// dyingStore fails every write after the nth, as if the daemon had been killed there.
type dyingStore struct {
	Store
	left int
}

func (s *dyingStore) Commit(b plan.Batch) error {
	if s.left--; s.left < 0 {
		return errBroken
	}
	return s.Store.Commit(b)
}

// TestKilledAtEveryWrite stops the store at its nth write, for every n, starts a
// new daemon on what the disk holds, and undoes.
func TestKilledAtEveryWrite(t *testing.T) {
	for n := 0; ; n++ {
		m := scattered(t)
		before := m.settings()
		r := newRig(t, m, true)
		dying := &dyingStore{Store: r.store, left: n}
		r.o.Store = dying
		for range 6 {
			r.ticks(1)
			r.clock.step(time.Minute)
		}
		survived := dying.left >= 0
		r.start(t, true)
		if _, err := r.undo(api.Which{All: true}); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(before, m.settings()); diff != "" {
			t.Fatalf("killed at write %d, undo left:\n%s", n, diff)
		}
		if survived {
			if n < 6 {
				t.Fatalf("only %d writes: the scenario does too little", n)
			}
			return
		}
	}
}

// TestEveryChangeFails lets the driver's nth change fail, for every n.
func TestEveryChangeFails(t *testing.T) {
	for n := 1; ; n++ {
		m := scattered(t)
		before := m.settings()
		m.failAt, m.failErr = n, errBroken
		r := newRig(t, m, true)
		r.ticks(15)
		for id, w := range r.status(t) {
			if w.State != api.StateAtHome {
				t.Errorf("change %d failed once: %s is %q in the end", n, id, w.State)
			}
		}
		if _, err := r.undo(api.Which{All: true}); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(before, m.settings()); diff != "" {
			t.Fatalf("change %d failed, undo left:\n%s", n, diff)
		}
		if m.calls < n {
			return
		}
	}
}

func TestAnotherBootVoidsTheJournal(t *testing.T) {
	m := scattered(t)
	r := newRig(t, m, true)
	r.ticks(6)
	r.o.BootID = "next boot"
	d, err := New(r.o)
	if err != nil {
		t.Fatal(err)
	}
	entries, _ := r.store.Journal()
	if len(entries) != 0 {
		t.Errorf("%d entries of another boot are still to be restored", len(entries))
	}
	if d.View().Holds.All {
		t.Error("held")
	}
}

func TestPlaceWritesTheLedger(t *testing.T) {
	m := newMachine(t, 2, 8)
	r := newRig(t, m, false)
	r.ticks(1)
	want := api.Want{Name: "db", Class: workload.Dedicated, CPUs: 6, MemoryKiB: 1 << 20}
	asked, err := r.place(want)
	if err != nil || asked.Ledger {
		t.Fatalf("asking only: %+v, %v", asked, err)
	}
	want.Process = workload.Process{PID: 4711, Start: 9}
	home, err := r.place(want)
	if err != nil || !home.Ledger || home.CPUs.Len() != 6 {
		t.Fatalf("placing: %+v, %v", home, err)
	}
	want.Process = workload.Process{PID: 4712, Start: 9}
	second, err := r.place(want)
	if err != nil || second.CPUs.Intersects(home.CPUs) {
		t.Fatalf("second one: %+v, %v; the first has CPUs %s", second, err, home.CPUs)
	}
	want.Process = workload.Process{PID: 4713, Start: 9}
	if _, err := r.place(want); err == nil {
		t.Error("a third 6-CPU workload on 16 CPUs: no refusal")
	}
	if got := r.Attention().Registered; len(got) != 2 {
		t.Errorf("registered: %v", got)
	}
	for _, bad := range []api.Want{{Class: "gold", CPUs: 1}, {Class: workload.Shared}, {Class: workload.Shared, CPUs: 1, MemoryKiB: -1}} {
		if _, err := r.place(bad); err == nil {
			t.Errorf("%+v: no error", bad)
		}
	}
}

// The journal does not keep what is gone for ever, nor drop what is not.
func TestJournalForgetsWhatIsGone(t *testing.T) {
	m := scattered(t)
	r := newRig(t, m, true)
	r.ticks(6)
	delete(m.live, "/a")
	r.ticks(40)
	entries, err := r.store.Journal()
	if err != nil {
		t.Fatal(err)
	}
	if len(entries) == 0 {
		t.Error("the entry of a living workload was dropped")
	}
	for _, e := range entries {
		if e.Workload == "/a" {
			t.Errorf("still there: %+v", e)
		}
	}
}

// A home given between a look and what is decided on it stands.
func TestPlaceDuringALookStands(t *testing.T) {
	m := newMachine(t, 2, 8)
	r := newRig(t, m, false)
	r.ticks(1)
	looking, proceed := make(chan struct{}), make(chan struct{})
	m.looked = func() {
		m.looked = nil
		close(looking)
		<-proceed
	}
	r.scan()
	<-looking
	home, err := r.place(api.Want{Name: "db", Class: workload.Dedicated, CPUs: 4, Process: workload.Process{PID: 4711, Start: 9}})
	if err != nil {
		t.Fatal(err)
	}
	close(proceed)
	r.settle()
	placements, err := r.store.Placements()
	if err != nil || len(placements) != 1 || !placements[0].CPUs.Equal(home.CPUs) {
		t.Fatalf("ledger %+v, %v; want CPUs %s", placements, err, home.CPUs)
	}
	if len(r.Attention().Registered) != 1 {
		t.Error("no longer registered")
	}
	r.ticks(1) // the next look would have seen it: it is gone
	if placements, _ := r.store.Placements(); len(placements) != 0 || len(r.Attention().Registered) != 0 {
		t.Errorf("gone, but still in the ledger: %+v", placements)
	}
}
