package daemon

import (
	"context"
	"fmt"
	"maps"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/homenode/homenode/api"
	"github.com/homenode/homenode/core/plan"
	"github.com/homenode/homenode/core/workload"
)

// scattered is two workloads that each fit a node, with their memory on both.
func scattered(t *testing.T) *machine {
	m := newMachine(t, 2, 8)
	m.add("a", 3, 1<<20, 0, 1)
	m.add("b", 3, 1<<20, 0, 1)
	return m
}

func (r *rig) status(t *testing.T) map[workload.ID]api.Workload {
	t.Helper()
	s, err := r.Status(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	out := map[workload.ID]api.Workload{}
	for _, w := range s.Workloads {
		out[w.ID] = w
	}
	return out
}

func (r *rig) told(t *testing.T, want string) bool {
	t.Helper()
	for _, e := range r.history(t) {
		if strings.Contains(e.Text, want) {
			return true
		}
	}
	return false
}

// What stands beside a workload can be computed from its status alone.
func TestStatusSaysWhatItWasPlacedBy(t *testing.T) {
	m := newMachine(t, 2, 8)
	id := m.add("a", 1, 1<<20, 0)
	r := newRig(t, m, Observe, func(c *Config) {
		c.Workloads = []Rule{{Match: "a", Class: workload.Dedicated, CPUs: 1, SMT: workload.SMTIsolate, Near: []string{"eth0"}}}
	})
	r.ticks(t, 1)
	w := r.status(t)[id]
	if w.SMT != workload.SMTIsolate || w.CPUSetPlanned != "0" || w.Idle != "1" || len(w.Near) != 1 || w.Near[0] != "eth0" {
		t.Errorf("got %+v", w)
	}
}

func TestObserveChangesNothingAndPredicts(t *testing.T) {
	m := scattered(t)
	before := m.settings()
	r := newRig(t, m, Observe)
	r.ticks(t, 5)
	if diff := cmp.Diff(before, m.settings()); diff != "" {
		t.Errorf("observe mode changed the host:\n%s", diff)
	}
	if m.calls != 0 {
		t.Errorf("%d calls of Apply in observe mode", m.calls)
	}
	predicted := map[workload.ID]string{}
	for id, w := range r.status(t) {
		if w.State != "would move" {
			t.Errorf("%s: state %q, want \"would move\"", id, w.State)
		}
		if w.LocalityExpected == nil || *w.LocalityExpected < 0.99 {
			t.Errorf("%s: no prediction of full locality", id)
		}
		predicted[id] = w.Home
	}
	r.start(t, Enforce)
	r.ticks(t, 6)
	for id, w := range r.status(t) {
		if w.Home != predicted[id] {
			t.Errorf("%s: predicted node %s, went to %s", id, predicted[id], w.Home)
		}
	}
}

func TestEnforceBringsHomeAndRests(t *testing.T) {
	m := scattered(t)
	r := newRig(t, m, Enforce)
	r.ticks(t, 6)
	for id, w := range r.status(t) {
		if w.State != "at home" || w.Locality == nil || *w.Locality < 0.99 {
			t.Errorf("%s: state %q, locality %v", id, w.State, w.Locality)
		}
	}
	writes := maps.Clone(m.writes)
	r.ticks(t, 10)
	if diff := cmp.Diff(writes, m.writes); diff != "" {
		t.Errorf("a host at home was changed again:\n%s", diff)
	}
}

func TestUndoRestoresAndHolds(t *testing.T) {
	m := scattered(t)
	before := m.settings()
	r := newRig(t, m, Enforce)
	r.ticks(t, 6)
	result, err := r.Undo(t.Context(), api.Which{All: true})
	if err != nil || len(result.Failed) > 0 || len(result.Restored) == 0 {
		t.Fatalf("undo: %+v, %v", result, err)
	}
	if diff := cmp.Diff(before, m.settings()); diff != "" {
		t.Errorf("undo left the host changed:\n%s", diff)
	}
	r.ticks(t, 5)
	if diff := cmp.Diff(before, m.settings()); diff != "" {
		t.Errorf("what was undone was changed again:\n%s", diff)
	}
	r.start(t, Enforce) // also after a restart
	r.ticks(t, 5)
	if diff := cmp.Diff(before, m.settings()); diff != "" {
		t.Errorf("after a restart what was undone was changed again:\n%s", diff)
	}
	if err := r.Resume(t.Context(), api.Which{All: true}); err != nil {
		t.Fatal(err)
	}
	r.ticks(t, 5)
	if cmp.Equal(before, m.settings()) {
		t.Error("resume did not bring the workloads home again")
	}
}

// A home that is kept is explained by what spoke for it when it was chosen, also
// by the next daemon.
func TestExplainRemembersTheChoice(t *testing.T) {
	m := scattered(t)
	r := newRig(t, m, Enforce)
	r.ticks(t, 6)
	for range 2 {
		x, err := r.Explain(t.Context(), "a")
		if err != nil {
			t.Fatal(err)
		}
		if x.Decision.Outcome != plan.Kept || len(x.Decision.Candidates) == 0 || !strings.Contains(strings.Join(x.Decision.Reasons, " "), "When it was chosen") {
			t.Errorf("decision %+v", x.Decision)
		}
		if len(x.Journal) == 0 || x.Move == nil || len(x.Events) == 0 {
			t.Errorf("journal %v, move %v, %d events", x.Journal, x.Move, len(x.Events))
		}
		r.start(t, Enforce)
		r.ticks(t, 2)
	}
	if _, err := r.Explain(t.Context(), "/nobody"); err == nil {
		t.Error("an unknown workload: no error")
	}
}

func TestUndoOneLeavesTheOther(t *testing.T) {
	m := scattered(t)
	before := m.settings()
	r := newRig(t, m, Enforce)
	r.ticks(t, 6)
	after := m.settings()
	if _, err := r.Undo(t.Context(), api.Which{ID: "/a"}); err != nil {
		t.Fatal(err)
	}
	r.ticks(t, 3)
	now := m.settings()
	if now["/a"] != before["/a"] {
		t.Errorf("/a is %q, want %q", now["/a"], before["/a"])
	}
	if now["/b"] != after["/b"] {
		t.Errorf("/b is %q, want %q", now["/b"], after["/b"])
	}
	if _, err := r.Undo(t.Context(), api.Which{ID: "/nobody"}); err == nil {
		t.Error("undo of an unknown workload: no error")
	}
}

func TestRestoreOnStop(t *testing.T) {
	for _, restore := range []bool{true, false} {
		m := scattered(t)
		before := m.settings()
		r := newRig(t, m, Enforce, func(c *Config) { c.RestoreOnStop = restore })
		r.ticks(t, 6)
		if err := r.stop(); err != nil {
			t.Fatal(err)
		}
		if got := cmp.Equal(before, m.settings()); got != restore {
			t.Errorf("restore_on_stop %v: restored %v", restore, got)
		}
		r.start(t, Enforce) // a stop is no hold: the next start goes on
		r.ticks(t, 6)
		if cmp.Equal(before, m.settings()) {
			t.Errorf("restore_on_stop %v: nothing enforced after the next start", restore)
		}
	}
}

func TestFailedStepIsToldOnceAndTriedLater(t *testing.T) {
	m := newMachine(t, 2, 8)
	m.add("a", 3, 1<<20, 0, 1)
	m.failAt, m.failErr = 1, errBroken
	r := newRig(t, m, Enforce)
	r.ticks(t, 3) // 6 s: not yet due again
	if m.calls != 1 {
		t.Errorf("%d tries within 6 s, want 1", m.calls)
	}
	if !r.told(t, errBroken.Error()) {
		t.Error("the failure is not in the history")
	}
	if s := r.status(t)["/a"].State; s != "failed" {
		t.Errorf("state %q, want failed", s)
	}
	r.ticks(t, 5)
	if s := r.status(t)["/a"].State; s != "at home" {
		t.Errorf("after the wait: state %q, want at home", s)
	}
}

// Pages shared with others stay without an error; they must not be moved at
// every tick, and must not keep other workloads waiting.
func TestPagesThatDoNotMoveAreNotTriedAtOnce(t *testing.T) {
	m := scattered(t)
	m.stuck = true
	r := newRig(t, m, Enforce)
	r.ticks(t, 4) // 8 s
	if m.moves != 2 {
		t.Errorf("%d moves of two workloads within 8 s, want 2", m.moves)
	}
	r.ticks(t, 30) // 60 s more: each is due again after 10 s, then 20 s, then 40 s
	if m.moves > 8 {
		t.Errorf("%d moves of two workloads within 68 s, want at most 8", m.moves)
	}
}

func TestWorkloadEndsInTheMiddleOfAMove(t *testing.T) {
	m := scattered(t)
	m.midMove = func(w *thing) {
		m.mu.Lock()
		delete(m.live, w.obs.ID)
		m.mu.Unlock()
		m.midMove = nil
	}
	r := newRig(t, m, Enforce)
	r.ticks(t, 8)
	if !r.told(t, "the workload is gone") {
		t.Error("the history does not say that the workload is gone")
	}
	if len(r.status(t)) != 1 {
		t.Fatal("the machine should have one workload left")
	}
	for id, w := range r.status(t) {
		if w.State != "at home" {
			t.Errorf("%s: state %q; the other's end must not stop it", id, w.State)
		}
	}
}

func TestUndoInTheMiddleOfAMove(t *testing.T) {
	m := newMachine(t, 2, 8)
	m.add("a", 3, 1<<20, 0, 1)
	before := m.settings()
	r := newRig(t, m, Enforce)
	middle, undone := make(chan struct{}), make(chan error)
	m.midMove = func(*thing) {
		close(middle)
		<-r.moveContext("/a").Done()
	}
	go func() {
		<-middle
		_, err := r.Undo(context.Background(), api.Which{All: true})
		undone <- err
	}()
	if err := r.Tick(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := <-undone; err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(before, m.settings()); diff != "" {
		t.Errorf("undo left the host changed:\n%s", diff)
	}
	if !r.told(t, "cancelled") {
		t.Error("the history does not tell of the cancelled move")
	}
}

// dyingStore fails every write after the nth, as if the daemon had been killed there.
type dyingStore struct {
	*Memory
	left atomic.Int64
}

func (s *dyingStore) dead() error {
	if s.left.Add(-1) < 0 {
		return errBroken
	}
	return nil
}

func (s *dyingStore) Intend(w workload.ID, have []plan.Setting, will []string, at time.Time) ([]plan.Entry, error) {
	if err := s.dead(); err != nil {
		return nil, err
	}
	return s.Memory.Intend(w, have, will, at)
}

func (s *dyingStore) Mark(state plan.EntryState, seqs ...uint64) error {
	if err := s.dead(); err != nil {
		return err
	}
	return s.Memory.Mark(state, seqs...)
}

func (s *dyingStore) SavePlacements(p []plan.Placement) error {
	if err := s.dead(); err != nil {
		return err
	}
	return s.Memory.SavePlacements(p)
}

func (s *dyingStore) SaveMove(m plan.Move) error {
	if err := s.dead(); err != nil {
		return err
	}
	return s.Memory.SaveMove(m)
}

// TestKilledAtEveryWrite stops the store at its nth write, for every n, starts a
// new daemon on what the disk holds, and undoes.
func TestKilledAtEveryWrite(t *testing.T) {
	for n := 0; ; n++ {
		m := scattered(t)
		before := m.settings()
		r := newRig(t, m, Enforce)
		dying := &dyingStore{Memory: r.store}
		dying.left.Store(int64(n))
		r.o.Store = dying
		for range 6 {
			r.Tick(t.Context())
			r.wait()
			r.clock.step(time.Minute)
		}
		survived := dying.left.Load() >= 0
		r.start(t, Enforce)
		if _, err := r.Undo(t.Context(), api.Which{All: true}); err != nil {
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
		r := newRig(t, m, Enforce)
		r.ticks(t, 15)
		for id, w := range r.status(t) {
			if w.State != "at home" {
				t.Errorf("change %d failed once: %s is %q in the end", n, id, w.State)
			}
		}
		if _, err := r.Undo(t.Context(), api.Which{All: true}); err != nil {
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
	r := newRig(t, m, Enforce)
	r.ticks(t, 6)
	r.o.BootID = "next boot"
	d, err := New(r.o)
	if err != nil {
		t.Fatal(err)
	}
	entries, _ := r.store.Journal()
	if len(entries) != 0 {
		t.Errorf("%d entries of another boot are still to be restored", len(entries))
	}
	if d.held.All {
		t.Error("held")
	}
}

func TestPlaceWritesTheLedger(t *testing.T) {
	m := newMachine(t, 2, 8)
	r := newRig(t, m, Observe)
	r.ticks(t, 1)
	want := api.Want{Name: "db", Class: workload.Dedicated, CPUs: 6, MemoryKiB: 1 << 20}
	asked, err := r.Place(t.Context(), want)
	if err != nil || asked.Ledger {
		t.Fatalf("asking only: %+v, %v", asked, err)
	}
	want.Process = workload.Process{PID: 4711, Start: 9}
	home, err := r.Place(t.Context(), want)
	if err != nil || !home.Ledger || home.CPUs.Len() != 6 {
		t.Fatalf("placing: %+v, %v", home, err)
	}
	want.Process = workload.Process{PID: 4712, Start: 9}
	second, err := r.Place(t.Context(), want)
	if err != nil || second.CPUs.Intersects(home.CPUs) {
		t.Fatalf("second one: %+v, %v; the first has CPUs %s", second, err, home.CPUs)
	}
	want.Process = workload.Process{PID: 4713, Start: 9}
	if _, err := r.Place(t.Context(), want); err == nil {
		t.Error("a third 6-CPU workload on 16 CPUs: no refusal")
	}
	if got := r.Registered(); len(got) != 2 {
		t.Errorf("registered: %v", got)
	}
	for _, bad := range []api.Want{{Class: "gold", CPUs: 1}, {Class: workload.Shared}, {Class: workload.Shared, CPUs: 1, MemoryKiB: -1}} {
		if _, err := r.Place(t.Context(), bad); err == nil {
			t.Errorf("%+v: no error", bad)
		}
	}
}

// The journal does not keep what is gone for ever, nor drop what is not.
func TestJournalForgetsWhatIsGone(t *testing.T) {
	m := scattered(t)
	r := newRig(t, m, Enforce)
	r.ticks(t, 6)
	delete(m.live, "/a")
	r.ticks(t, 40)
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
	r := newRig(t, m, Observe)
	r.ticks(t, 1)
	var home api.Home
	m.looked = func() {
		m.looked = nil
		var err error
		if home, err = r.Place(t.Context(), api.Want{Name: "db", Class: workload.Dedicated, CPUs: 4,
			Process: workload.Process{PID: 4711, Start: 9}}); err != nil {
			t.Error(err)
		}
	}
	r.ticks(t, 1)
	placements, err := r.store.Placements()
	if err != nil || len(placements) != 1 || !placements[0].CPUs.Equal(home.CPUs) {
		t.Fatalf("ledger %+v, %v; want CPUs %s", placements, err, home.CPUs)
	}
	if len(r.Registered()) != 1 {
		t.Error("no longer registered")
	}
	r.ticks(t, 1) // the next look would have seen it: it is gone
	if placements, _ := r.store.Placements(); len(placements) != 0 || len(r.Registered()) != 0 {
		t.Errorf("gone, but still in the ledger: %+v", placements)
	}
}

func TestConfig(t *testing.T) {
	good := "mode: enforce\nperiod: 500ms\nreserve: {cpus: \"0,8\", memory: 1GiB}\n" +
		"workloads:\n  - {match: \"/system.slice/**\", class: dedicated, importance: 80}\n"
	c, err := ParseConfig(strings.NewReader(good), "good", NewConfig())
	if err != nil || c.Mode != Enforce || c.Reserve.CPUs.String() != "0,8" || c.Reserve.Memory != 1<<30 || *c.Workloads[0].Importance != 80 {
		t.Errorf("good: %+v, %v", c, err)
	}
	for _, empty := range []string{"", "# nothing\n", "---\n"} {
		if c, err := ParseConfig(strings.NewReader(empty), "empty", NewConfig()); err != nil || c.Mode != Observe || c.Policy.Overcommit != 3 {
			t.Errorf("%q: %v", empty, err)
		}
	}
	for name, bad := range map[string]string{
		"unknown key": "mod: enforce", "bad mode": "mode: on", "bad period": "period: 1ns", "negative": "policy: {overcommit: -1}",
		"bad size": "move: {bandwidth: lots}", "bad set": "reserve: {cpus: 3-1}", "bad class": "workloads: [{match: x, class: gold}]",
		"no match": "workloads: [{class: shared}]", "bad pattern": "manage: {include: [\"[\"]}", "not YAML": "a: [", "duplicate": "mode: observe\nmode: enforce",
		"NaN": "policy: {overcommit: .nan}",
	} {
		_, err := ParseConfig(strings.NewReader(bad), "file.yaml", NewConfig())
		if err == nil || strings.Contains(err.Error(), "\n") || !strings.Contains(err.Error(), "file.yaml") {
			t.Errorf("%s: want one line with the file's name, have %v", name, err)
		} else {
			t.Logf("%-12s %v", name, err)
		}
	}
}

// TestConfigErrors: each says where, which key, what is wrong and what would do.
func TestConfigErrors(t *testing.T) {
	for text, want := range map[string]string{
		"mode: observe\nperiod: 5":                  "f: line 2: period: 5; want a time with a unit, such as 2s",
		"period: abc":                               "f: line 1: period: abc; want a time with a unit, such as 2s",
		"period: 1ns":                               "f: line 1: period: 1ns; want 100ms to 1h",
		`reserve: {cpus: "x"}`:                      `f: line 1: reserve.cpus: "x"; want CPUs in list format, such as 0-3,8`,
		"reserve:\n  memory: -1GiB":                 "f: line 2: reserve.memory: -1GiB; want a size with a unit, such as 64MiB",
		"\nworkloads:\n  - {class: shared}":         "f: line 3: workloads[0].match: not given; want a pattern on ID or name",
		"workloads:\n  - match: a\n    class: gold": "f: line 3: workloads[0].class: ",
		"[]":                           "f: line 1: []; want keys: mode, period, state_dir,",
		"mod: enforce":                 `f: line 1: unknown key "mod"; known are mode, period,`,
		"move: {batch: x}":             "f: line 1: move.batch: x; want a whole number",
		"move:\n  batch: 0":            "f: line 2: move.batch: 0; want 1 to 65536 pages",
		"manage: 5":                    "f: line 1: manage: 5; want keys: min_memory,",
		"manage:\n  exclude:\n  - '['": `f: line 3: manage.exclude[0]: bad pattern "["`,
		"workloads: 5":                 "f: line 1: workloads: 5; want a list",
		"restore_on_stop: 3":           "f: line 1: restore_on_stop: 3; want true or false",
	} {
		_, err := ParseConfig(strings.NewReader(text), "f", NewConfig())
		if err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%q: %v\nwant %s", text, err, want)
		}
	}
}

func FuzzConfig(f *testing.F) {
	f.Add("mode: enforce\nworkloads: [{match: x, class: offline}]")
	f.Add("reserve: {cpus: 0-3}")
	f.Fuzz(func(t *testing.T, text string) {
		if c, err := ParseConfig(strings.NewReader(text), "fuzz", NewConfig()); err == nil {
			if err := c.Validate(); err != nil {
				t.Errorf("accepted, then refused: %v", err)
			}
		} else if strings.Contains(err.Error(), "\n") {
			t.Errorf("more than one line: %q", err)
		}
	})
}

// moveContext is the context of a move in flight.
func (r *rig) moveContext(id workload.ID) context.Context {
	r.mu.Lock()
	defer r.mu.Unlock()
	m := r.moving[id]
	if m == nil {
		panic(fmt.Sprintf("no move of %s", id))
	}
	return m.ctx
}

// A placement that breaks a rule is not carried out; those of others are.
func TestBrokenPlacementStopsNobodyElse(t *testing.T) {
	r := newRig(t, newMachine(t, 2, 8), Enforce)
	bad, good := r.m.add("bad", 2, 1<<20, 0), r.m.add("good", 2, 1<<20, 1)
	r.ticks(t, 1)
	r.Daemon.mu.Lock()
	in, memory := r.input(r.clock.Now(), r.view.state, r.view.snapshot), r.memory
	r.Daemon.mu.Unlock()
	says := func(always bool) func(plan.Plan) []plan.Violation {
		return func(p plan.Plan) (v []plan.Violation) {
			if always || placementOf(p.Placements, bad) != nil {
				v = append(v, plan.Violation{Code: plan.NoCPU, Workloads: []workload.ID{bad}, Text: "bad has an empty CPU set"})
			}
			return v
		}
	}
	in, out, _, violations := sound(in, memory, says(false))
	if len(violations) > 0 || placementOf(out.Plan.Placements, bad) != nil || placementOf(out.Plan.Placements, good) == nil {
		t.Errorf("%v: %+v", violations, out.Plan.Placements)
	}
	if p := broken(in.Subjects); len(p) != 1 || p[0].Subject != string(bad) || !strings.Contains(p[0].Text, "empty CPU set") {
		t.Errorf("told: %+v", p)
	}
	if _, _, _, violations := sound(in, memory, says(true)); halt(violations) == "" {
		t.Error("a rule that is broken all the same did not stop the plan")
	}
}
