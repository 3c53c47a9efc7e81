package scheduler

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/homenode/homenode/core/control/concern"
	"github.com/homenode/homenode/core/control/concern/concerntest"
	"github.com/homenode/homenode/core/control/concern/sharing"
	"github.com/homenode/homenode/core/control/work"
	"github.com/homenode/homenode/core/place"
	"github.com/homenode/homenode/core/plan"
	"github.com/homenode/homenode/core/plan/plantest"
	"github.com/homenode/homenode/core/share"
	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/core/words"
	"github.com/homenode/homenode/core/workload"
)

// host is a host of two nodes with one batch workload, /b, and what decides on its scheduler.
type host struct {
	t *testing.T
	Bound
	sc   *concern.Scene
	loop *concerntest.Loop
}

func on(t *testing.T) *host {
	h := &host{t: t}
	h.sc, h.loop = concerntest.On(plantest.Draw("0 0-3 8G 10 20\n1 4-7 8G 20 10\n"))
	settings := sharing.Settings{Share: share.Settings{
		On: true, Target: 0.65, MaxWait: 0.05, Scheduler: true, Probation: time.Hour,
	}}
	batch := sharing.New(settings, sharing.Saved{On: true, Configured: true})
	h.Bound = Bound{&Concern{}, &batch}
	concerntest.Add(h.sc, place.Subject{
		Spec:        workload.Spec{Class: workload.Batch},
		Observation: concerntest.Service("/b", topology.CPUs(4, 5)),
	}, &workload.Placement{Class: workload.Batch})
	batch.Shared.Work = []share.Grant{{Workload: "/b", CPUs: topology.CPUs(4, 5)}}
	return h
}

// settings is the configuration of the test.
func (h *host) settings() *share.Settings { return &h.Batch.Settings().Share }

// notNow has the desires while no scheduler is loaded, and while one is being loaded.
const notNow = `
	scheduler scheduler of scheduler: stays
	sched.policy /b of /b: stays`

// scan decides at a scan, and returns the desires.
func (h *host) scan() string {
	h.sc.Between = false
	return concerntest.Lines(h.Decide(h.sc).Settings)
}

// between decides between two scans.
func (h *host) between() string {
	h.sc.Between = true
	return concerntest.Lines(h.Decide(h.sc).Settings)
}

// answer is the kernel's answer to the newest question.
func (h *host) answer(seen share.SchedulerSeen) {
	h.t.Helper()
	if !h.Looked(h.sc, &work.Result{ID: h.Scheduler.Look, Scheduler: &seen}) {
		h.t.Error("the answer is not its own")
	}
}

// runs has a version run that homenode has loaded.
func (h *host) runs(version string) {
	concerntest.Set(h.sc, share.SchedulerID, plan.Scheduler, "scheduler", version)
	h.scan()
	h.answer(share.SchedulerSeen{Loaded: version, Newest: version})
	h.loop.Logged()
}

func (h *host) logged(what, want string) {
	h.t.Helper()
	concerntest.Expect(h.t, what, h.loop.Logged(), want)
}

func (h *host) why(want words.Code) {
	h.t.Helper()
	if got := h.Scheduler.Why.Code; got != want {
		h.t.Errorf("why: %s, want %s", got, want)
	}
}

// TestLoads: the kernel is asked at a scan; the scheduler is loaded after the answer, before the next scan, and then
// has the threads of batch work.
func TestLoads(t *testing.T) {
	h := on(t)
	concerntest.Expect(t, "first scan", h.scan(), notNow)
	h.logged("first scan", "ask scheduler")
	if h.Scheduler.Known {
		t.Error("the kernel has not answered")
	}
	h.answer(share.SchedulerSeen{Newest: "v2"})
	h.why(words.SchedulerNeeded)
	concerntest.Expect(t, "after the answer", h.between(), `
		scheduler scheduler of scheduler: set-scheduler  > v2 scheduler-needed is otherwise now required
		sched.policy /b of /b: stays`)
	h.loop.Is("busy scheduler")
	concerntest.Expect(t, "while it is loaded", h.between(), notNow)
	h.scan()
	h.loop.Is("")
	h.logged("loading", "over [scheduler]\nover [no scheduler]")
	h.Ended(h.sc, &plan.Step{Kind: plan.SetScheduler}, nil)
	concerntest.Set(h.sc, share.SchedulerID, plan.Scheduler, "scheduler", "v2")
	h.logged("it took", "over [no scheduler]\nask scheduler")
	h.why(words.SchedulerRuns)
	if k := &h.Scheduler; k.Seen.Loaded != "v2" || k.Do.Verb != share.Leave || k.Runs != "v2" {
		t.Errorf("loaded: %+v", k)
	}
	orders := h.loop.Effects[1].Scheduler
	if len(orders.Config.Groups) != 1 || len(orders.Cgroups) != 1 || orders.Cgroups[0] != "/b" {
		t.Errorf("it is told %+v at once", orders)
	}
	concerntest.Expect(t, "then", h.between(), `
		scheduler scheduler of scheduler: stays
		sched.policy /b of /b: set-policy other > ext scheduler-needed is otherwise`)
	if s, ok := h.loop.Saved[Key].(share.SchedulerState); !ok || s.Runs != "v2" {
		t.Errorf("on disk: %+v", h.loop.Saved)
	}
}

// TestPutOff: a load that the loop has not begun by the next scan is decided anew.
func TestPutOff(t *testing.T) {
	h := on(t)
	h.scan()
	h.answer(share.SchedulerSeen{Newest: "v2"})
	concerntest.Expect(t, "next scan", h.scan(), notNow)
}

// TestOwns: the scheduler and the policies of threads are restored with it, nothing else is.
func TestOwns(t *testing.T) {
	for kind, want := range map[plan.SettingKind]bool{
		plan.Scheduler: true, plan.TaskPolicy: true, plan.CgroupCPUs: false,
	} {
		if got := (Bound{}).Owns(&plan.Entry{Kind: kind}); got != want {
			t.Errorf("%s: %v", kind, got)
		}
	}
}

// TestAsks: when the kernel is asked, and when not.
func TestAsks(t *testing.T) {
	journal := func(h *host) { concerntest.Set(h.sc, share.SchedulerID, plan.Scheduler, "scheduler", "v1") }
	unshared := func(h *host) { h.Batch.ShareOn = false }
	off := func(h *host) { h.settings().Scheduler = false }
	observe := func(h *host) { h.sc.Enforce, h.sc.Acts = false, false }
	none := func(h *host) { h.Scheduler.Known = true }
	loaded := func(h *host) { h.Scheduler.Known, h.Scheduler.Seen.Loaded = true, "v1" }
	for _, c := range []struct {
		name string
		when []func(*host)
		want bool
	}{
		{"it is wanted", nil, true},
		{"turned off", []func(*host){off}, false},
		{"turned off, and still loaded", []func(*host){off, journal}, true},
		{"it was asked already", []func(*host){func(h *host) { h.Scheduler.Look = 1 }}, false},
		{"the daemon stops", []func(*host){func(h *host) { h.sc.Stopping = true }}, false},
		{"it is being changed", []func(*host){func(h *host) { h.loop.Is("busy scheduler") }}, false},
		{"no host was read", []func(*host){func(h *host) { h.sc.Snapshot.Host = nil }}, false},
		{"not shared, not asked before", []func(*host){unshared}, true},
		{"not shared, none loaded", []func(*host){unshared, none}, false},
		{"not shared, another daemon's loaded", []func(*host){unshared, loaded}, true},
		{"not shared, ours loaded", []func(*host){unshared, none, journal}, true},
		{"not shared, observe mode", []func(*host){unshared, observe}, false},
		{"observe mode", []func(*host){observe}, true},
	} {
		h := on(t)
		for _, f := range c.when {
			f(h)
		}
		t2 := &turn{h.Concern, h.sc, h.Batch}
		t2.ask()
		asked := len(h.loop.Effects) == 1
		if asked != c.want || (asked && h.Scheduler.Look != 1) {
			t.Errorf("%s: asked %v, want %v", c.name, asked, c.want)
		}
	}
}

// TestOrders: the scheduler gets the budget of each node for batch work and the tier of each cgroup; it gets nothing
// while it is not loaded, sharing is off or homenode changes nothing.
func TestOrders(t *testing.T) {
	add := func(h *host, id workload.ID, tier workload.Tier, class workload.Class) {
		x := place.Subject{Spec: workload.Spec{Tier: tier}, Observation: concerntest.Service(id, topology.CPUs(0))}
		var home *workload.Placement
		if class != "" {
			home = &workload.Placement{Class: class}
		}
		concerntest.Add(h.sc, x, home)
	}
	h := on(t)
	add(h, "/left", workload.BatchTier, workload.Shared)
	add(h, "/dedicated", "", workload.Dedicated)
	add(h, "/shared", "", workload.Shared)
	add(h, "/homeless", "", "")
	add(h, "/normal", workload.Normal, workload.Dedicated)
	add(h, "/online", workload.Online, workload.Shared)
	h.loop.Parts = map[workload.ID][]workload.ID{"/b": {"/b", "/a/part", "pid:9"}}
	h.Batch.Shared.Nodes = []share.Budget{{Node: 0, CPUs: 1.5, Idle: 2}, {Node: 1, CPUs: 3, Idle: 1}}
	h.Scheduler.Seen.Loaded = "v1"
	h.scan()
	var told []string
	for _, n := range h.loop.Effects[0].Scheduler.Config.Nodes {
		told = append(told, fmt.Sprintf("node %d: %.1f, %d idle", n.Node, n.CPUs, n.Idle))
	}
	for _, g := range h.loop.Effects[0].Scheduler.Config.Groups {
		told = append(told, fmt.Sprintf("%s %s on %s", g.Cgroup, g.Tier, g.Nodes))
	}
	concerntest.Expect(t, "orders", strings.Join(told, "\n"), `
		node 0: 1.5, 2 idle
		node 1: 3.0, 1 idle
		/a/part batch on 1
		/b batch on 1
		/dedicated online-strict on
		/online online on`)
	if got := fmt.Sprint(h.loop.Effects[0].Scheduler.Cgroups); got != "[/a/part /b]" {
		t.Errorf("it is asked which threads of %s are not with it", got)
	}
	for name, change := range map[string]func(*host){
		"not loaded":     func(h *host) { h.Scheduler.Seen.Loaded = "" },
		"nothing is set": func(h *host) { h.sc.Acts = false },
		"sharing is off": func(h *host) { h.Batch.ShareOn = false },
	} {
		h := on(t)
		h.Scheduler.Seen.Loaded, h.Scheduler.Untiered = "v1", []string{"/b"}
		change(h)
		h.scan()
		if o := h.loop.Effects[0].Scheduler; o.Config != nil || o.Cgroups != nil || h.Scheduler.Untiered != nil {
			t.Errorf("%s: it is told %+v", name, o)
		}
	}
}

// TestUntiered: threads of a cgroup that the scheduler has no tier for stay with the kernel's own.
func TestUntiered(t *testing.T) {
	h := on(t)
	h.loop.Parts = map[workload.ID][]workload.ID{"/b": {"/b", "/z"}}
	h.Scheduler.Seen = share.SchedulerSeen{Loaded: "v1", Tiers: 1}
	concerntest.Expect(t, "scan", h.scan(), `
		scheduler scheduler of scheduler: stays
		sched.policy /b of /b: set-policy other > ext scheduler-needed is otherwise`)
	h.Scheduler.Seen.Loaded = ""
	concerntest.Expect(t, "loaded again", h.between(), `
		scheduler scheduler of scheduler: stays
		sched.policy /b of /b: stays`)
}

// TestPolicies: threads of batch work go to the scheduler; those that have come since, too, unless they come always.
func TestPolicies(t *testing.T) {
	const is = "sched.policy /b of /b: set-policy other > ext scheduler-needed"
	set := func(h *host) { concerntest.Set(h.sc, "/b", plan.TaskPolicy, "/b", plan.PolicyExt) }
	left := func(h *host) { h.Scheduler.Seen.Left = map[string]int{"/b": 2} }
	for _, c := range []struct {
		name string
		when []func(*host)
		want string
	}{
		{"not yet", nil, is + " is otherwise"},
		{"all have it", []func(*host){set}, is + " stands"},
		{"two have come", []func(*host){set, left}, is + " is otherwise"},
		{"they always come", []func(*host){set, left, func(h *host) {
			h.Scheduler.Again = map[string]work.Retry{"/b": {Next: h.sc.At.Add(time.Second)}}
		}}, is + " stands"},
		{"its own has ended", []func(*host){set, left, func(h *host) {
			h.Scheduler.Rest = map[string]work.Retry{"/b": {Next: h.sc.At.Add(time.Second)}}
		}}, is + " stands"},
		{"its own has ended, and the cgroup is new", []func(*host){left, func(h *host) {
			h.Scheduler.Rest = map[string]work.Retry{"/b": {Next: h.sc.At.Add(time.Second)}}
		}}, ""},
		{"another cgroup under the path", []func(*host){set, func(h *host) {
			h.sc.Journal.Of(plan.TaskPolicy, "/b").Object = "6"
		}}, is + " is otherwise"},
		{"held", []func(*host){func(h *host) { h.loop.Is("held scheduler") }}, ""},
		{"turned off", []func(*host){func(h *host) { h.settings().Scheduler = false }}, ""},
	} {
		h := on(t)
		h.Scheduler.Seen.Loaded = "v1"
		for _, f := range c.when {
			f(h)
		}
		tr := &turn{h.Concern, h.sc, h.Batch}
		concerntest.Expect(t, c.name, concerntest.Lines(tr.policies(&h.sc.Subjects[0].Observation)), c.want)
	}
}

// TestSwitchedLessOften: threads that come are switched five times at once, then after ever longer waits.
func TestSwitchedLessOften(t *testing.T) {
	h := on(t)
	var waits []string
	for range 13 {
		before := h.Scheduler.Again
		h.Ended(h.sc, &plan.Step{Kind: plan.SetPolicy, Target: plan.Target{Cgroup: "/b"}}, nil)
		waits = append(waits, h.Scheduler.Again["/b"].Next.Sub(h.sc.At).String())
		if before != nil && before["/b"] == h.Scheduler.Again["/b"] {
			t.Error("a View that has the tries before has changed")
		}
	}
	want := "[0s 0s 0s 0s 0s 10s 20s 40s 1m20s 2m40s 5m20s 10m0s 10m0s]"
	if got := fmt.Sprint(waits); got != want {
		t.Errorf("waits %s, want %s", got, want)
	}
	h.Scheduler.Again["/b"] = work.Retry{Failures: 1000}
	h.Ended(h.sc, &plan.Step{Kind: plan.SetPolicy, Target: plan.Target{Cgroup: "/b"}}, nil)
	if got := h.Scheduler.Again["/b"].Next.Sub(h.sc.At); got != work.RetryMost {
		t.Errorf("after 1000 tries it waits %s", got)
	}
	h.Ended(h.sc, &plan.Step{Kind: plan.SetPolicy, Target: plan.Target{Cgroup: "/c"}}, &work.Failure{})
	if _, ok := h.Scheduler.Again["/c"]; ok {
		t.Error("a failure counts as switched")
	}
	h.runs("v1")
	h.Scheduler.Again = map[string]work.Retry{"/b": {Failures: 7}}
	h.scan()
	h.answer(share.SchedulerSeen{Loaded: "v1", Left: map[string]int{"/b": 1}})
	if h.Scheduler.Again["/b"].Failures != 7 {
		t.Errorf("a thread of /b is left, and it remembers %v", h.Scheduler.Again)
	}
	h.scan()
	h.answer(share.SchedulerSeen{Loaded: "v1", Left: map[string]int{"/c": 1}})
	if len(h.Scheduler.Again) > 0 {
		t.Errorf("no thread of /b is left, and it remembers %v", h.Scheduler.Again)
	}
}

// TestRests: a cgroup whose scheduler the kernel ended gets another one later each time, and as at first once it has
// gone on for an hour. Others get theirs at once.
func TestRests(t *testing.T) {
	h := on(t)
	h.runs("v1")
	ends := func() string {
		h.scan()
		before := h.Scheduler.Rest
		times := before["/b"].Failures
		h.answer(share.SchedulerSeen{Loaded: "v1", Ended: map[string]share.SchedulerEnd{"/b": {Kind: "stalled", Text: "stall"}, "/nobody": {}}})
		if before != nil && before["/b"].Failures != times {
			t.Error("a View that has the rests before has changed")
		}
		return h.Scheduler.Rest["/b"].Next.Sub(h.sc.At).String()
	}
	h.loop.Logged()
	var waits []string
	for range 8 {
		waits = append(waits, ends())
	}
	if got, want := fmt.Sprint(waits), "[1m0s 2m0s 4m0s 8m0s 16m0s 32m0s 1h0m0s 1h0m0s]"; got != want {
		t.Errorf("it rests for %s, want %s", got, want)
	}
	if got := h.loop.Logged(); !strings.Contains(got, "event /b scheduler-ended-in /b stalled: stall 1m0s error") {
		t.Errorf("history says %s", got)
	}
	if len(h.Scheduler.Rest) != 1 || h.Scheduler.Seen.Loaded != "v1" {
		t.Errorf("all others rest, too: %+v", h.Scheduler)
	}
	h.sc.At = h.sc.At.Add(2*time.Hour + time.Second)
	if got := ends(); got != "1m0s" {
		t.Errorf("an hour after its newest rest it rests for %s", got)
	}
	h.Scheduler.Stale = 1000 // a swap was under way: the end is reported once
	if got := ends(); got != "2m0s" {
		t.Errorf("an old answer: it rests for %s", got)
	}
	h.Restored(h.sc, &plan.Entry{Kind: plan.Scheduler})
	if len(h.Scheduler.Rest) > 0 {
		t.Error("it rests without a scheduler")
	}
}
