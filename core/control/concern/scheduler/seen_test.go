package scheduler

import (
	"testing"
	"time"

	"github.com/homenode/homenode/core/control/concern/concerntest"
	"github.com/homenode/homenode/core/control/work"
	"github.com/homenode/homenode/core/place"
	"github.com/homenode/homenode/core/plan"
	"github.com/homenode/homenode/core/share"
	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/core/words"
	"github.com/homenode/homenode/core/workload"
)

// TestAnswers: only the answer to the newest question counts, and one from before a change does not.
func TestAnswers(t *testing.T) {
	h := on(t)
	if h.Looked(h.sc, &work.Result{}) {
		t.Error("nothing was asked")
	}
	h.scan()
	if h.Looked(h.sc, &work.Result{ID: 9}) || h.Scheduler.Look != 1 {
		t.Error("it took the answer to another question")
	}
	h.Scheduler.Stale = 1
	h.answer(share.SchedulerSeen{Newest: "v2"})
	if h.Scheduler.Known || h.Scheduler.Look != 0 {
		t.Error("an answer from before a change counts")
	}
	h.scan()
	h.answer(share.SchedulerSeen{Newest: "v2"})
	if !h.Scheduler.Known || h.Scheduler.Seen.Newest != "v2" {
		t.Error("an answer after the change does not count")
	}
}

// TestSilent: a kernel that cannot be checked is in history, and the user who waits is answered.
func TestSilent(t *testing.T) {
	h := on(t)
	h.scan()
	h.Scheduler.Ask = 5
	h.loop.Logged()
	h.Looked(h.sc, &work.Result{ID: 1, Failed: &work.Failure{Text: "no answer"}})
	h.logged("a failure", "once [scheduler] scheduler-silent no answer error\nreply 5 failed: no answer")
	h.why(words.SchedulerSilent)
	h.scan()
	h.loop.Logged()
	h.Looked(h.sc, &work.Result{ID: 2})
	h.logged("no answer", "once [scheduler] scheduler-silent nobody asks it error")
	h.why(words.SchedulerSilent)
	if len(h.loop.Saved) > 0 || h.Scheduler.Do.Verb != share.Leave {
		t.Errorf("it decides without an answer: %+v", h.Scheduler.Do)
	}
}

// TestReportsOnly: while nothing is changed, the reason is what the kernel would take.
func TestReportsOnly(t *testing.T) {
	unable := words.Because(words.SchedulerNoKernel)
	for _, c := range []struct {
		name    string
		seen    share.SchedulerSeen
		facts   string
		enforce bool
		want    words.Code
	}{
		{"held", share.SchedulerSeen{Loaded: "v1", Unable: unable}, "held scheduler", false, words.SchedulerHeld},
		{"unable", share.SchedulerSeen{Loaded: "v1", Unable: unable}, "", false, words.SchedulerNoKernel},
		{"loaded", share.SchedulerSeen{Loaded: "v1", Other: "x"}, "", false, words.SchedulerRuns},
		{"below another", share.SchedulerSeen{Loaded: "v1", Under: "x"}, "", false, words.SchedulerBelow},
		{"another", share.SchedulerSeen{Other: "x"}, "", false, words.SchedulerOther},
		{"none", share.SchedulerSeen{}, "", false, words.SchedulerObserve},
		{"none, halted", share.SchedulerSeen{}, "", true, ""},
	} {
		h := on(t)
		h.sc.Acts, h.sc.Enforce = false, c.enforce
		h.loop.Is(c.facts)
		h.scan()
		h.answer(c.seen)
		t.Run(c.name, func(t *testing.T) {
			h.t = t
			h.why(c.want)
		})
	}
}

// TestNotWanted: the reason why batch work has no scheduler; one that runs is taken out.
func TestNotWanted(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(*host)
		want   words.Code
		drops  bool
	}{
		{"wanted", func(*host) {}, words.SchedulerRuns, false},
		{"sharing is off", func(h *host) { h.Batch.ShareOn = false }, words.SchedulerNotShared, true},
		{"turned off", func(h *host) { h.settings().Scheduler = false }, words.SchedulerOff, true},
		{"held", func(h *host) { h.loop.Is("held scheduler") }, words.SchedulerHeld, true},
		{"being changed", func(h *host) {
			h.loop.Is("busy scheduler")
			h.Batch.ShareOn = false
		}, words.SchedulerRuns, false},
		{"being restored", func(h *host) {
			h.loop.Is("undoes scheduler")
			h.settings().Scheduler = false
		}, words.SchedulerRuns, false},
	} {
		h := on(t)
		h.runs("v1")
		h.scan()
		c.change(h)
		h.answer(share.SchedulerSeen{Loaded: "v1", Newest: "v1"})
		t.Run(c.name, func(t *testing.T) {
			h.t = t
			if h.Scheduler.Drop != c.drops {
				t.Errorf("it leaves the kernel: %v", h.Scheduler.Drop)
			}
			if c.drops {
				concerntest.Expect(t, "desires", h.between(), "")
			}
			if c.want != words.SchedulerRuns {
				tr := &turn{h.Concern, h.sc, h.Batch}
				if got := tr.notRunning().Code; got != c.want {
					t.Errorf("not running: %s, want %s", got, c.want)
				}
				return
			}
			h.why(c.want)
		})
	}
}

// TestGoneWithoutWord: a scheduler that the kernel ended is restored in the journal, and loaded again.
func TestGoneWithoutWord(t *testing.T) {
	h := on(t)
	h.runs("v1")
	h.scan()
	h.loop.Logged()
	h.answer(share.SchedulerSeen{Newest: "v1", End: &share.SchedulerEnd{Kind: share.EndStalled}})
	h.logged("it ended", `
		over [scheduler]
		event scheduler scheduler-ended stalled 30s error
		over [no scheduler]`)
	if !h.Scheduler.Drop {
		t.Error("its entry stays in the journal")
	}
	concerntest.Expect(t, "desires", h.between(), "sched.policy /b of /b: stays")
}

// TestAdopts: a scheduler that an earlier daemon loaded is homenode's own again.
func TestAdopts(t *testing.T) {
	for _, c := range []struct{ name, journal, runs, want string }{
		{"nothing is known", "", "", `
			over [scheduler]
			adopt scheduler scheduler scheduler: v1
			event scheduler-adopted v1
			over [no scheduler]`},
		{"the journal knows it", "v1", "", `
			over [scheduler]
			adopt scheduler scheduler scheduler: v1
			event scheduler-adopted v1
			over [no scheduler]`},
		{"the journal has another", "v0", "v1", "over [scheduler]\nover [no scheduler]"},
		{"it ran before", "v1", "v1", `
			over [scheduler]
			adopt scheduler scheduler scheduler: v1
			over [no scheduler]`},
	} {
		h := on(t)
		if c.journal != "" {
			concerntest.Set(h.sc, share.SchedulerID, plan.Scheduler, "scheduler", c.journal)
		}
		h.Scheduler.Runs = c.runs
		h.scan()
		h.loop.Logged()
		h.answer(share.SchedulerSeen{Loaded: "v1", Newest: "v1"})
		h.logged(c.name, c.want)
	}
}

// TestRestored: a scheduler that left the kernel leaves no state, and the user who waits for a swap gets an answer.
func TestRestored(t *testing.T) {
	h := on(t)
	h.runs("v1")
	h.Scheduler.Untiered, h.Scheduler.Drop, h.Scheduler.Ask = []string{"/x"}, true, 4
	h.Restored(h.sc, &plan.Entry{Kind: plan.TaskPolicy})
	h.logged("a policy", "")
	h.Restored(h.sc, &plan.Entry{Kind: plan.Scheduler})
	h.logged("the scheduler", "reply 4 failed: no scheduler for batch work is loaded: It runs batch work in the time that "+
		"online work leaves.")
	k := &h.Scheduler
	if k.Seen.Loaded != "" || k.Untiered != nil || k.Drop || k.Ask != 0 || k.Stale != 1 || k.Runs != "" {
		t.Errorf("left: %+v", k)
	}
	h.Hold(h.sc)
	h.logged("nobody waits", "")
}

// TestInput: what important work waits for CPUs, and whether batch work is there.
func TestInput(t *testing.T) {
	h := on(t)
	add := func(id workload.ID, tier workload.Tier, waited float64) {
		o := concerntest.Service(id, topology.CPUs(0, 1))
		o.Waited = waited
		concerntest.Add(h.sc, place.Subject{Spec: workload.Spec{Tier: tier}, Observation: o}, nil)
	}
	add("/x", workload.Online, 0.1)
	add("/y", workload.Online, 0.2)
	add("/z", workload.Normal, 0.9)
	tr := &turn{h.Concern, h.sc, h.Batch}
	if in := tr.input(); in.Wait != 0.2 || !in.Work || in.Most != 0.05 || in.Proves != time.Hour || !in.Not.None() {
		t.Errorf("%+v", in)
	}
	h.Batch.Shared.Work = nil
	if tr.input().Work {
		t.Error("there is no batch work")
	}
	h.Batch.ShareOn = false
	if in := tr.input(); in.Not.Code != words.SchedulerNotShared {
		t.Errorf("%+v", in)
	}
	h.sc.Snapshot.Host, h.Batch.ShareOn = nil, true
	if tr.input().Work {
		t.Error("no host was read")
	}
}

// TestKeeps: a state that must outlive the daemon goes to disk when it changes.
func TestKeeps(t *testing.T) {
	at := concerntest.Start
	for _, c := range []struct {
		name     string
		was, now share.SchedulerState
		want     bool
	}{
		{"nothing", share.SchedulerState{}, share.SchedulerState{Idle: at, Since: at}, false},
		{"a failure", share.SchedulerState{}, share.SchedulerState{Failures: 1}, true},
		{"the next try", share.SchedulerState{}, share.SchedulerState{Next: at}, true},
		{"a load", share.SchedulerState{}, share.SchedulerState{Loads: []time.Time{at}}, true},
		{"the version", share.SchedulerState{}, share.SchedulerState{Runs: "v1"}, true},
		{"the choice", share.SchedulerState{}, share.SchedulerState{Chosen: "v1"}, true},
		{"a trial", share.SchedulerState{}, share.SchedulerState{Trial: &share.Trial{}}, true},
		{"a trial goes on", share.SchedulerState{Trial: &share.Trial{}},
			share.SchedulerState{Trial: &share.Trial{Worst: 1}}, false},
		{"a trial failed", share.SchedulerState{Trial: &share.Trial{}},
			share.SchedulerState{Trial: &share.Trial{Why: words.Because(words.SchedulerDidEnd, "x")}}, true},
		{"a trial is over", share.SchedulerState{Trial: &share.Trial{}}, share.SchedulerState{}, true},
	} {
		h := on(t)
		h.Scheduler.SchedulerState = c.was
		tr := &turn{h.Concern, h.sc, h.Batch}
		tr.keep(c.now)
		if saved := len(h.loop.Saved) == 1; saved != c.want {
			t.Errorf("%s: saved %v", c.name, saved)
		}
	}
}

// TestTells: history has each change once.
func TestTells(t *testing.T) {
	at := concerntest.Start
	end := &share.SchedulerEnd{Kind: share.EndError}
	ended := share.SchedulerState{Runs: "", End: end, Ended: at, Next: at.Add(time.Minute)}
	held := share.SchedulerState{Runs: "v2", Upgrade: &share.Trial{
		To: "v2", Began: at, Until: at.Add(time.Hour), Ended: at, Held: true,
	}}
	back := share.SchedulerState{Runs: "v1", Upgrade: &share.Trial{
		To: "v2", Ended: at, Why: words.Because(words.SchedulerDidEnd, "x"),
	}}
	runs := share.SchedulerState{Why: words.Because(words.SchedulerRuns)}
	other := share.SchedulerState{Why: words.Because(words.SchedulerOther, "x")}
	often := share.SchedulerState{Why: words.Because(words.SchedulerTooOften, 3, time.Minute)}
	for _, c := range []struct {
		name     string
		was, now share.SchedulerState
		unable   words.Reason
		want     string
	}{
		{"it ended", share.SchedulerState{Runs: "v1"}, ended, words.Reason{},
			"event scheduler scheduler-ended error 1m0s error"},
		{"it had not run", share.SchedulerState{}, ended, words.Reason{}, ""},
		{"it is known", share.SchedulerState{Runs: "v1", Ended: at}, ended, words.Reason{}, ""},
		{"next try is past", share.SchedulerState{Runs: "v1"}, share.SchedulerState{End: end, Ended: at}, words.Reason{},
			"event scheduler scheduler-ended error 0s error"},
		{"a trial held", share.SchedulerState{}, held, words.Reason{}, "event scheduler scheduler-held-out v2 1h0m0s 0 0"},
		{"it is known", held, held, words.Reason{}, ""},
		{"a later trial held", share.SchedulerState{Upgrade: &share.Trial{Ended: at.Add(-1)}}, held, words.Reason{},
			"event scheduler scheduler-held-out v2 1h0m0s 0 0"},
		{"a trial failed", share.SchedulerState{}, back, words.Reason{},
			"event scheduler scheduler-went-back v2 The kernel ended it (x). v1 error"},
		{"another scheduler", share.SchedulerState{}, other, words.Reason{},
			"event scheduler text " + other.Why.String() + " error"},
		{"it is known", other, other, words.Reason{}, ""},
		{"too often", share.SchedulerState{}, often, words.Reason{}, "event scheduler text " + often.Why.String() + " error"},
		{"another reason", share.SchedulerState{}, runs, words.Reason{}, ""},
		{"no scheduler", share.SchedulerState{}, share.SchedulerState{}, words.Because(words.SchedulerNoKernel),
			"once [no scheduler] text " + words.Because(words.SchedulerNoKernel).String()},
	} {
		h := on(t)
		h.Scheduler.SchedulerState, h.Scheduler.Seen.Unable = c.now, c.unable
		tr := &turn{h.Concern, h.sc, h.Batch}
		tr.tell(&c.was)
		want := c.want
		if c.unable.None() {
			want += "\nover [no scheduler]"
		}
		h.logged(c.name, want)
		h.Batch.ShareOn = false
		h.Scheduler.SchedulerState = share.SchedulerState{}
		tr.tell(&share.SchedulerState{})
		h.logged(c.name+", not shared", "over [no scheduler]")
	}
}
