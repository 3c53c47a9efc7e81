package scheduler

import (
	"testing"
	"time"

	"github.com/homenode/homenode/core/control/concern/concerntest"
	"github.com/homenode/homenode/core/control/work"
	"github.com/homenode/homenode/core/plan"
	"github.com/homenode/homenode/core/share"
	"github.com/homenode/homenode/core/words"
)

// TestUpgradeRefused: each reason why another version does not come now; a dry run says the same.
func TestUpgradeRefused(t *testing.T) {
	const notRunning = "no scheduler for batch work is loaded: "
	for _, c := range []struct {
		name   string
		change func(*host)
		code   work.Code
		text   string
	}{
		{"observe mode", func(h *host) { h.sc.Enforce, h.sc.Acts = false, false }, work.Forbidden,
			words.Because(words.ObserveOnly).String()},
		{"all held", func(h *host) { h.loop.Is("all held") }, work.Forbidden, words.Because(words.AllHeldFirst).String()},
		{"halted", func(h *host) { h.sc.Acts = false }, work.Forbidden, words.Because(words.ObserveOnly).String()},
		{"none is loaded", func(h *host) { h.Scheduler.Seen.Loaded = "" }, work.Forbidden,
			notRunning + words.Because(words.SchedulerRuns).String()},
		{"none is loaded, nothing known", func(h *host) { h.Scheduler.Seen.Loaded, h.Scheduler.Why = "", words.Reason{} },
			work.Forbidden, notRunning + words.Because(words.SchedulerUnknown).String()},
		{"held", func(h *host) { h.loop.Is("held scheduler") }, work.Forbidden,
			notRunning + words.Because(words.SchedulerHeld).String()},
		{"on probation", func(h *host) { h.Scheduler.Trial = &share.Trial{} }, work.Failed, busy()},
		{"busy", func(h *host) { h.loop.Is("busy scheduler") }, work.Failed, busy()},
		{"being restored", func(h *host) { h.loop.Is("undoes scheduler") }, work.Failed, busy()},
		{"another user waits", func(h *host) { h.Scheduler.Ask = 3 }, work.Failed, busy()},
	} {
		h := on(t)
		h.runs("v1")
		c.change(h)
		loaded := h.Scheduler.Seen.Loaded
		h.Upgrade(h.sc, 8, Order{Version: "v2"}, false)
		h.logged(c.name, "reply 8 "+string(c.code)+": "+c.text)
		h.Upgrade(h.sc, 8, Order{Version: "v2"}, true)
		if c.name == "observe mode" {
			h.logged("dry run of "+c.name, "reply 8 &{From:v1 To:v2 Why:}")
			continue
		}
		h.logged("dry run of "+c.name, "reply 8 &{From:"+loaded+" To:"+loaded+" Why:"+c.text+"}")
	}
}

func busy() string { return words.Because(words.SchedulerBusy).String() }

// TestUpgrades: another version takes the place of the one that runs, and the user is answered once the kernel has
// been asked after it.
func TestUpgrades(t *testing.T) {
	h := on(t)
	h.runs("v1")
	h.Upgrade(h.sc, 8, Order{Version: "v1"}, false)
	h.logged("the same", "reply 8 &{From:v1 To:v1 Why:}")
	h.Upgrade(h.sc, 8, Order{}, true)
	h.logged("the newest, dry", "reply 8 &{From:v1 To:v1 Why:}")
	h.scan() // a question from before the swap
	h.Upgrade(h.sc, 8, Order{Version: "v2"}, false)
	h.logged("another", "ask scheduler\norder scheduler scheduler-ordered v2")
	concerntest.Expect(t, "desires", h.between(), `
		scheduler scheduler of scheduler: set-scheduler v1 > v2 scheduler-upgraded is otherwise now required
		sched.policy /b of /b: set-policy other > ext scheduler-needed is otherwise`)
	h.loop.Is("busy scheduler")
	h.Looked(h.sc, &work.Result{ID: h.Scheduler.Look, Failed: &work.Failure{Text: "slow"}})
	h.logged("the earlier question fails", "once [scheduler] scheduler-silent slow error")
	h.loop.Is("")
	h.sc.Journal.Of(plan.Scheduler, "scheduler").New = "v2"
	h.Ended(h.sc, &plan.Step{Kind: plan.SetScheduler}, nil)
	h.logged("it took", "over [no scheduler]\nask scheduler")
	h.answer(share.SchedulerSeen{Loaded: "v2", Newest: "v2", Gap: 2500 * time.Microsecond})
	h.logged("the kernel answers", `
		over [scheduler]
		adopt scheduler scheduler scheduler: v2
		over [no scheduler]
		event scheduler scheduler-swapped v2 v1 2.5 1h0m0s
		reply 8 &{From:v1 To:v2 Why:}`)
	if h.Scheduler.Ask != 0 || h.Scheduler.From != "v1" {
		t.Errorf("%+v", h.Scheduler)
	}
}

// TestUpgradeFails: the user is answered with the reason, and the version before runs.
func TestUpgradeFails(t *testing.T) {
	h := on(t)
	h.runs("v1")
	h.Upgrade(h.sc, 8, Order{Version: "v2"}, false)
	h.loop.Logged()
	h.Ended(h.sc, &plan.Step{Kind: plan.SetScheduler}, &work.Failure{Code: work.Failed, Text: "no"})
	h.logged("it failed", `
		event scheduler scheduler-went-back v2 it could not be loaded: no v1 error
		over [no scheduler]
		reply 8 failed: no`)
	if k := &h.Scheduler; k.Do.Verb != share.Leave || k.Ask != 0 || k.Seen.Loaded != "v1" || k.Stale != 1 {
		t.Errorf("%+v", k)
	}
	h.Ended(h.sc, &plan.Step{Kind: plan.SetScheduler}, nil)
	h.logged("a step that is none of its own", "")
	if h.Ended(h.sc, &plan.Step{Kind: plan.SetCPUs}, nil) {
		t.Error("a step of another concern changes its desires")
	}
}

// TestGoesBack: a version that fails its probation makes way for the one before.
func TestGoesBack(t *testing.T) {
	h := on(t)
	h.runs("v2")
	h.Scheduler.Trial = &share.Trial{From: "v1", To: "v2", Until: h.sc.At.Add(time.Hour),
		Why: words.Because(words.SchedulerDidEnd, "x")}
	h.Scheduler.Drop = true
	h.scan()
	h.answer(share.SchedulerSeen{Loaded: "v2", Newest: "v2"})
	if k := &h.Scheduler; k.Do.Verb != share.Replace || k.Do.Version != "v1" || k.From != "v2" || k.Drop {
		t.Errorf("%+v", k)
	}
}
