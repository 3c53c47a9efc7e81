package control

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/homenode/homenode/core/control/upkeep"
	"github.com/homenode/homenode/core/plan"
	"github.com/homenode/homenode/core/share"
	"github.com/homenode/homenode/core/words"
	"github.com/homenode/homenode/core/workload"
)

// kernel is the scheduler of a fake host.
type kernel struct {
	unable words.Reason
	newest string
	other  string
	end    *share.SchedulerEnd
	left   map[string]int
	gap    time.Duration
	told   []*share.SchedulerConfig
	tiers  int
}

var theScheduler = settingKey{plan.Scheduler, string(share.SchedulerID)}

func (k *kernel) look(f *fake, orders *share.SchedulerOrders) *share.SchedulerSeen {
	if orders.Config != nil {
		k.told = append(k.told, orders.Config)
	}
	seen := &share.SchedulerSeen{Unable: k.unable, Newest: k.newest, Loaded: f.values[theScheduler].Value, Other: k.other, Gap: k.gap, Tiers: k.tiers}
	if seen.Loaded == "" {
		seen.End = k.end
	}
	for _, cgroup := range orders.Cgroups {
		if n := k.left[cgroup]; n > 0 {
			if seen.Left == nil {
				seen.Left = map[string]int{}
			}
			seen.Left[cgroup] = n
		}
	}
	return seen
}

// ends has the kernel end the scheduler.
func (f *fake) ends(kind share.EndKind) {
	f.kernel.end = &share.SchedulerEnd{Kind: kind, Text: "told by the kernel"}
	f.set(plan.Scheduler, theScheduler.path, "")
}

func (f *fake) loaded() string { return f.values[theScheduler].Value }

func scheduled(s *Settings) {
	turnedOn(s)
	s.Share.Scheduler, s.Share.Probation, s.Share.Freeze = true, time.Minute, false
}

// kernelled is batch on a kernel that takes a scheduler.
func kernelled(t testing.TB, change ...func(*Settings)) *fake {
	f := batch(t, append([]func(*Settings){scheduled}, change...)...)
	f.kernel.newest = "v1"
	f.values[theScheduler] = plan.Setting{Kind: plan.Scheduler, Path: theScheduler.path}
	for _, id := range []string{"/batch1", "/batch2"} {
		f.values[settingKey{plan.TaskPolicy, id}] = plan.Setting{Kind: plan.TaskPolicy, Path: id, Value: "other", Object: f.values[settingKey{plan.CgroupCPUs, id}].Object}
	}
	return f
}

// loads is how often it was loaded.
func (f *fake) loads() int { return len(f.applies(plan.SetScheduler)) }

// TestScheduler: it is loaded where batch work is, told what holds, has all threads of that, and
// everything goes with sharing.
func TestScheduler(t *testing.T) {
	f := kernelled(t)
	before := f.all()
	f.scans(4)
	if f.loaded() != "v1" || f.loads() != 1 {
		t.Fatalf("%q runs, loaded %d times: %v", f.loaded(), f.loads(), f.s.Scheduler.Why)
	}
	for _, id := range []string{"/batch1", "/batch2"} {
		if got := f.get(plan.TaskPolicy, id); got != plan.PolicyExt {
			t.Errorf("%s has the policy %s", id, got)
		}
	}
	if f.get(plan.CgroupIdle, "/batch1") != "1" {
		t.Error("the base layer is not set")
	}
	says := func(want string) {
		t.Helper()
		if !slices.ContainsFunc(f.events, func(e plan.Event) bool { return strings.Contains(e.Text, want) }) {
			t.Errorf("the history does not say %q", want)
		}
	}
	says("set-scheduler of scheduler: none → v1.")
	says("set-policy: other → ext.")
	c := f.kernel.told[len(f.kernel.told)-1]
	tiers := map[string]workload.Tier{}
	for _, g := range c.Groups {
		tiers[g.Cgroup] = g.Tier
	}
	if diff := cmp.Diff(map[string]workload.Tier{"/batch1": workload.BatchTier, "/batch2": workload.BatchTier, "/web": workload.Online}, tiers); diff != "" || len(c.Nodes) != 2 || c.Nodes[0].Idle == 0 {
		t.Errorf("told %+v\n%s", c, diff)
	}
	f.kernel.left = map[string]int{"/batch1": 3} // it forked while it was switched
	n := len(f.applies(plan.SetPolicy))
	f.scans(2)
	if got := len(f.applies(plan.SetPolicy)) - n; got < 1 {
		t.Error("threads that are left stay")
	}
	f.kernel.left = nil
	f.scans(2)
	n = len(f.applies(plan.SetPolicy))
	f.scans(5)
	if got := len(f.applies(plan.SetPolicy)); got != n || f.loads() != 1 {
		t.Error("it does not come to rest")
	}
	f.start() // it is adopted
	f.scans(3)
	if f.loaded() != "v1" || f.loads() != 1 {
		t.Errorf("after a restart %q, loaded %d times", f.loaded(), f.loads())
	}
	f.ask(Request{Share: &ShareOrder{On: false}})
	if f.loaded() != "" {
		t.Error("it is not unloaded at once")
	}
	says("restored scheduler of scheduler: v1 → none")
	f.scans(4)
	for _, id := range []string{"/batch1", "/batch2"} {
		before["cpuset.cpus "+id] = f.cpus(workload.ID(id))
	}
	if diff := cmp.Diff(before, f.all()); diff != "" {
		t.Errorf("turned off, not all is as before:\n%s", diff)
	}
	f.scans(100)
	if f.loads() != 1 {
		t.Error("it came back")
	}
}

// TestSchedulerEnds: what the kernel ends is told, is not loaded again at once, and never in a
// loop, over restarts of the daemon too. The base layer stands.
func TestSchedulerEnds(t *testing.T) {
	for _, kind := range []share.EndKind{share.EndStalled, share.EndSysRq, share.EndError, share.EndHotplug, share.EndAbove} {
		t.Run(string(kind), func(t *testing.T) {
			f := kernelled(t)
			f.scans(4)
			var loads []time.Time
			for k := range 400 { // of more than three hours
				if f.loaded() != "" {
					f.ends(kind)
				}
				n := f.loads()
				f.after(28 * time.Second)
				if f.scans(1); k%100 == 50 {
					f.start()
				}
				for range f.loads() - n {
					loads = append(loads, f.now)
				}
				if f.get(plan.CgroupIdle, "/batch1") != "1" {
					t.Fatal("the base layer does not stand")
				}
			}
			for i := share.MostLoads; i < len(loads); i++ {
				if loads[i].Sub(loads[i-share.MostLoads]) < time.Hour {
					t.Errorf("loaded %d times within an hour: %v", share.MostLoads+1, loads[i-share.MostLoads:i+1])
				}
			}
			if f.told(words.SchedulerEnded) == 0 {
				t.Error("it is not told")
			}
			if f.s.Scheduler.Why.None() {
				t.Error("it is not said why none runs")
			}
			f.ask(Request{Undo: &Which{All: true}})
			f.scans(2)
			if f.get(plan.TaskPolicy, "/batch1") != "other" {
				t.Error("undo leaves the policy")
			}
		})
	}
}

// TestSchedulerCannot: each cause has its sentence, nothing is loaded, the base layer stands.
func TestSchedulerCannot(t *testing.T) {
	for _, tt := range []struct {
		what   string
		change func(*fake)
		why    words.Code
	}{
		{"kernel", func(f *fake) { f.kernel.unable = words.Because(words.SchedulerNoKernel) }, words.SchedulerNoKernel},
		{"another", func(f *fake) { f.kernel.other = "lavd" }, words.SchedulerOther},
		{"verifier", func(f *fake) {
			f.fail = func(e *Effect) *Failure {
				if e.Kind == EffectApply && e.Step.Kind == plan.SetScheduler {
					return &Failure{Code: Failed, Text: "invalid access to map value"}
				}
				return nil
			}
		}, words.SchedulerWaits},
		{"no answer", func(f *fake) {
			f.fail = func(e *Effect) *Failure {
				if e.Kind == EffectScheduler {
					return &Failure{Code: NoAnswer, Text: "no answer within 11s"}
				}
				return nil
			}
		}, words.SchedulerSilent},
		{"off", func(f *fake) { f.start(func(s *Settings) { s.Share.Scheduler = false }) }, ""},
		{"observe", func(f *fake) { f.start(func(s *Settings) { s.Enforce = false }) }, words.SchedulerObserve},
		{"held", func(f *fake) { f.s.Holds.IDs[share.SchedulerID] = true }, words.SchedulerHeld},
	} {
		t.Run(tt.what, func(t *testing.T) {
			f := kernelled(t)
			f.blind = true
			tt.change(f)
			f.scans(10)
			if got := f.s.View().Scheduler.Why; got.Code != tt.why {
				t.Errorf("says %q (%s)", got.Code, got)
			}
			if f.loaded() != "" || f.get(plan.TaskPolicy, "/batch1") != "other" {
				t.Error("something was done")
			}
			if tt.what != "observe" && f.get(plan.CgroupIdle, "/batch1") != "1" {
				t.Error("the base layer does not stand")
			}
			if n := f.loads(); n > 2 {
				t.Errorf("tried %d times", n)
			}
		})
	}
}

// TestSchedulerUpgrade: another version takes the place of the one that runs, and stays when it
// holds; when it ends, or important work waits more, the one before comes back.
func TestSchedulerUpgrade(t *testing.T) {
	for _, tt := range []struct {
		what string
		then func(*fake)
		held bool
	}{
		{"holds", func(*fake) {}, true},
		{"ends", func(f *fake) { f.ends(share.EndError) }, false},
		{"waits", func(f *fake) { f.works["/web"].obs.Waited = 0.3 }, false},
		{"restart", func(f *fake) { f.start() }, true},
		{"restart and ends", func(f *fake) { f.start(); f.ends(share.EndStalled) }, false},
	} {
		t.Run(tt.what, func(t *testing.T) {
			f := kernelled(t)
			f.scans(4)
			if r := f.ask(Request{Upgrade: &UpgradeOrder{}}); r.Failed != nil || r.Upgrade.From != r.Upgrade.To {
				t.Fatalf("nothing is newer: %+v", r)
			}
			f.kernel.newest, f.kernel.gap = "v2", 7*time.Millisecond
			f.scans(1)
			if f.loaded() != "v1" {
				t.Fatal("it goes over by itself")
			}
			if r := f.ask(Request{Upgrade: &UpgradeOrder{}, DryRun: true}); r.Failed != nil || r.Upgrade.To != "v2" || f.loaded() != "v1" {
				t.Fatalf("dry: %+v", r)
			}
			r := f.ask(Request{Upgrade: &UpgradeOrder{}})
			if r.Failed != nil || r.Upgrade.From != "v1" || r.Upgrade.To != "v2" || f.loaded() != "v2" {
				t.Fatalf("%+v", r)
			}
			if trial := f.s.Scheduler.Trial; trial == nil || trial.Gap != f.kernel.gap {
				t.Fatalf("%+v", trial)
			}
			if r := f.ask(Request{Upgrade: &UpgradeOrder{}}); r.Upgrade != nil && r.Upgrade.From != "v2" {
				t.Fatalf("twice: %+v", r)
			}
			f.scans(2)
			tt.then(f)
			f.scans(40)
			want := map[bool]string{true: "v2", false: "v1"}[tt.held]
			u := f.s.Scheduler.Upgrade
			if f.loaded() != want || u == nil || u.Held != tt.held || f.s.Scheduler.Trial != nil {
				t.Errorf("%q runs: %+v", f.loaded(), u)
			}
			if f.told(words.SchedulerHeldOut)+f.told(words.SchedulerWentBack) != 1 || f.told(words.SchedulerSwapped) != 1 {
				t.Error("it is not told, or twice")
			}
			f.works["/web"].obs.Waited = 0
			f.ends(share.EndError)
			f.scans(1)
			f.after(time.Hour)
			f.scans(3)
			if f.loaded() != want {
				t.Errorf("after an end %q is loaded", f.loaded())
			}
		})
	}
}

// TestSchedulerAfterSettings: the threads of work that comes later go to the scheduler after the
// settings that hold without it.
func TestSchedulerAfterSettings(t *testing.T) {
	f := kernelled(t)
	f.scans(4)
	id := f.add("batch3", 2, 1<<20, 1)
	f.batch(id)
	f.values[settingKey{plan.TaskPolicy, string(id)}] = plan.Setting{Kind: plan.TaskPolicy, Path: string(id), Value: "other", Object: f.values[settingKey{plan.CgroupCPUs, string(id)}].Object}
	f.scans(3)
	var order []string
	for _, e := range f.done {
		if e.Kind == EffectApply && e.Workload == id && (e.Step.Kind == plan.SetPolicy || e.Step.Target.File == string(plan.CgroupIdle)) {
			order = append(order, string(e.Step.Kind))
		}
	}
	if want := []string{string(plan.SetCgroup), string(plan.SetPolicy)}; !slices.Equal(order, want) {
		t.Errorf("%v, want %v", order, want)
	}
}

// TestSchedulerUpgradeWaits: a look from before that fails does not answer for a swap that is under way.
func TestSchedulerUpgradeWaits(t *testing.T) {
	f := kernelled(t)
	f.scans(4)
	k := &f.s.Scheduler
	k.Ask, k.Do = 77, share.SchedulerDo{Verb: share.Replace, Version: "v2"}
	f.s.out = &Output{}
	k.Look = k.Stale + 1
	f.s.differ().Looked(&Result{ID: k.Look, Failed: &Failure{Code: NoAnswer, Text: "it did not come back"}})
	if len(f.s.out.Replies) > 0 || k.Ask != 77 {
		t.Errorf("answered: %+v", f.s.out.Replies)
	}
	f.s.stepEnded(&plan.Step{Kind: plan.SetScheduler}, &Failure{Code: Failed, Text: "refused"})
	if len(f.s.out.Replies) != 1 || f.s.out.Replies[0].Failed.Text != "refused" {
		t.Errorf("%+v", f.s.out.Replies)
	}
}

// TestSchedulerUpgradeEnds: who asked for a swap is answered also when the scheduler is unloaded before
// a look has seen the swap, as when sharing is turned off meanwhile.
func TestSchedulerUpgradeEnds(t *testing.T) {
	f := kernelled(t)
	f.scans(4)
	f.s.Scheduler.Ask = 77
	if f.twin != nil {
		f.twin.Scheduler.Ask = 77
	}
	f.ask(Request{Undo: &Which{All: true}})
	if r, ok := f.replies[77]; !ok || r.Failed == nil || f.loaded() != "" {
		t.Errorf("answered %v: %s", ok, asJSON(t, r))
	}
}

// TestSchedulerUpgradeUndone: who asked for a swap is answered when everything is undone, also when the scheduler
// cannot be restored and no scan succeeds any more.
func TestSchedulerUpgradeUndone(t *testing.T) {
	f := kernelled(t)
	f.scans(4)
	f.s.Scheduler.Ask = 77
	f.s.out = &Output{}
	f.s.undo(1, Which{All: true}, workload.Lineage{})
	if f.s.Scheduler.Ask != 0 {
		t.Error("it still waits")
	}
	k := slices.IndexFunc(f.s.out.Replies, func(r Reply) bool { return r.ID == 77 })
	if k < 0 || f.s.out.Replies[k].Failed == nil || !strings.Contains(f.s.out.Replies[k].Failed.Text, "Undone by the user") {
		t.Errorf("%+v", f.s.out.Replies)
	}
}

// TestSchedulerUpgradeRefused: what cannot be loaded does not take the place of what runs; with
// none there is nothing to upgrade.
func TestSchedulerUpgradeRefused(t *testing.T) {
	f := kernelled(t)
	f.scans(1)
	f.kernel.other = "x"
	g := kernelled(t, func(s *Settings) { s.Share.Scheduler = false })
	g.scans(2)
	if r := g.ask(Request{Upgrade: &UpgradeOrder{}}); r.Failed == nil || r.Failed.Code != Forbidden || !strings.Contains(r.Failed.Text, "share.sched_ext") {
		t.Errorf("with none: %+v", r)
	}
	f.kernel.other = ""
	f.scans(3)
	f.fail = func(e *Effect) *Failure {
		if e.Kind == EffectApply && e.Step.To == "bad" {
			return &Failure{Code: Failed, Text: "the verifier says no"}
		}
		return nil
	}
	r := f.ask(Request{Upgrade: &UpgradeOrder{Version: "bad"}})
	if r.Failed == nil || f.loaded() != "v1" {
		t.Fatalf("%+v, %q runs", r, f.loaded())
	}
	f.scans(5)
	if f.loaded() != "v1" || f.s.Scheduler.Runs != "v1" || f.loads() != 2 {
		t.Errorf("%q runs, %d loads", f.loaded(), f.loads())
	}
}

// TestSchedulerGoes: without batch work it is unloaded after a while; undo of it alone puts the
// policies back and leaves the base layer.
func TestSchedulerGoes(t *testing.T) {
	f := kernelled(t)
	f.scans(4)
	f.undo(share.SchedulerID)
	f.scans(3)
	if f.loaded() != "" || f.get(plan.TaskPolicy, "/batch1") != "other" || f.get(plan.CgroupIdle, "/batch1") != "1" {
		t.Errorf("undone: %q runs, policy %s, cpu.idle %s", f.loaded(), f.get(plan.TaskPolicy, "/batch1"), f.get(plan.CgroupIdle, "/batch1"))
	}
	f.resume(share.SchedulerID)
	f.scans(3)
	if f.loaded() != "v1" || f.get(plan.TaskPolicy, "/batch1") != plan.PolicyExt {
		t.Errorf("resumed: %q", f.loaded())
	}
	f.remove("/batch1")
	f.remove("/batch2")
	f.scans(30)
	if f.loaded() != "v1" {
		t.Error("it goes at once")
	}
	f.scans(400)
	if f.loaded() != "" || slices.ContainsFunc(f.disk.journal(), func(e plan.Entry) bool { return e.Kind == plan.Scheduler }) {
		t.Error("it stays without batch work")
	}
}

// TestSchedulerLostJournal: one that was loaded by a daemon whose state is lost is unloaded with
// sharing all the same.
func TestSchedulerLostJournal(t *testing.T) {
	f := kernelled(t)
	f.set(plan.Scheduler, theScheduler.path, "v0")
	f.scans(3)
	if f.loaded() != "v0" || f.loads() != 0 {
		t.Errorf("%q runs", f.loaded())
	}
	f.start(func(s *Settings) { s.Share.On = false })
	f.scans(3)
	if f.loaded() != "" {
		t.Errorf("%q runs though sharing is off", f.loaded())
	}
}

// TestSchedulerOffTold: who turns sharing off is told with that, not with an undo.
func TestSchedulerOffTold(t *testing.T) {
	f := kernelled(t)
	f.scans(4)
	f.ask(Request{Share: &ShareOrder{On: false}, By: &plan.Asker{UID: 0, User: "root"}})
	if f.loaded() != "" || f.told(words.ShareOrdered) != 1 || f.told(words.UndoOrdered) != 0 {
		t.Errorf("%q runs; told of an undo %d times", f.loaded(), f.told(words.UndoOrdered))
	}
}

// TestThreadsThatLeave: who sets the policy of threads back all the time has homenode write
// seldom, and not for good: once they stay, new ones are switched at once. What was read of
// threads that have ended goes from the journal while their workload lives.
func TestThreadsThatLeave(t *testing.T) {
	f := kernelled(t)
	f.scans(8)
	f.kernel.left = map[string]int{"/batch1": 1}
	n, told := len(f.applies(plan.SetPolicy)), f.told(words.StepTook)
	f.scans(600)
	if got := len(f.applies(plan.SetPolicy)) - n; got < 8 || got > 30 || f.told(words.StepTook)-told > 30 {
		t.Errorf("switched %d times in 600 looks, told %d times", got, f.told(words.StepTook)-told)
	}
	f.kernel.left = nil
	f.scans(2)
	f.kernel.left = map[string]int{"/batch1": 1}
	n = len(f.applies(plan.SetPolicy))
	f.scans(3)
	if len(f.applies(plan.SetPolicy)) == n {
		t.Error("new threads are not switched")
	}
	f.kernel.left = nil

	thread := settingKey{plan.TaskPolicy, "4711@99"}
	f.values[thread] = plan.Setting{Kind: plan.TaskPolicy, Path: thread.path, Value: plan.PolicyExt}
	f.disk.entries[9999] = plan.Entry{Seq: 9999, Time: f.now, Workload: "/batch1", Kind: plan.TaskPolicy, Path: thread.path, Old: "batch", New: plan.PolicyExt, State: plan.Applied}
	f.start()
	f.scans(2)
	f.after(upkeep.PruneEvery)
	f.scans(2)
	if f.s.Journal.Of(plan.TaskPolicy, thread.path) == nil {
		t.Error("a thread that lives is forgotten")
	}
	delete(f.values, thread)
	f.after(upkeep.PruneEvery)
	f.scans(2)
	if f.s.Journal.Of(plan.TaskPolicy, thread.path) != nil {
		t.Error("a thread that has ended stays in the journal")
	}
}

// TestSchedulerRun: what `homenode run --class batch` has put into a cgroup of its own is with the
// scheduler, a process in any other cgroup is not.
func TestSchedulerRun(t *testing.T) {
	f := kernelled(t)
	f.scans(4)
	groups := map[int]string{501: "/homenode.slice/homenode-batch.slice/homenode-501.scope", 503: "/user.slice/session-1.scope"}
	for pid, group := range groups {
		id := f.addProcess(pid, "encode", 2, 1<<20, 1)
		f.works[id].obs.Cgroup = group
		f.create(group)
		f.batch(workload.ID(group))
		f.values[settingKey{plan.TaskPolicy, group}] = plan.Setting{Kind: plan.TaskPolicy, Path: group, Value: "other"}
		r := f.ask(Request{Place: &PlaceRequest{Spec: workload.Spec{Name: "encode", Class: workload.Batch, Tier: "-1", CPUs: 2}, Process: workload.Process{PID: pid, Start: 7}}})
		if r.Failed != nil {
			t.Fatal(r.Failed)
		}
	}
	f.scans(6)
	if got := f.get(plan.TaskPolicy, groups[501]); got != plan.PolicyExt {
		t.Errorf("a run has the policy %s", got)
	}
	if got := f.get(plan.TaskPolicy, groups[503]); got != "other" {
		t.Errorf("somebody else's cgroup has the policy %s", got)
	}
	f.ask(Request{Share: &ShareOrder{On: false}})
	f.scans(4)
	if got := f.get(plan.TaskPolicy, groups[501]); got != "other" {
		t.Errorf("turned off: the policy %s", got)
	}
}

// TestSchedulerToldWhereItIsWanted: what a kernel lacks for it is no news where sharing is off.
func TestSchedulerToldWhereItIsWanted(t *testing.T) {
	f := kernelled(t, func(s *Settings) { s.Share.On = false })
	f.kernel.unable = words.Because(words.SchedulerNoBPFFS, "/sys/fs/bpf", "/sys/fs/bpf")
	f.scans(4)
	if n := f.told(words.Text); n != 0 {
		t.Errorf("sharing is off, and it is told %d times", n)
	}
	f.ask(Request{Share: &ShareOrder{On: true}})
	f.scans(4)
	if n := f.told(words.Text); n != 1 {
		t.Errorf("sharing is on: told %d times", n)
	}
}

// TestSchedulerRefusedIsSaid: until a load takes it is said what became of the one before, and when
// the next is tried: also while that is under way.
func TestSchedulerRefusedIsSaid(t *testing.T) {
	f := kernelled(t)
	f.blind = true
	f.fail = func(e *Effect) *Failure {
		if e.Kind == EffectApply && e.Step.Kind == plan.SetScheduler {
			return &Failure{Code: Failed, Text: "invalid access to map value"}
		}
		return nil
	}
	tries, under := 0, 0
	f.keep = func(e *Effect) bool { return e.Kind == EffectApply && e.Step.Kind == plan.SetScheduler }
	for range 200 {
		f.scans(1)
		why := f.s.View().Scheduler.Why
		if len(f.kept) > 0 { // under way
			if tries++; tries > 1 {
				if under++; why.Code != words.SchedulerAgain || !strings.Contains(why.String(), "invalid access to map value") {
					t.Fatalf("try %d under way: %s", tries, why)
				}
			}
			keep := f.keep
			f.release()
			f.keep = keep
			why = f.s.View().Scheduler.Why
		}
		if tries > 0 && (!strings.Contains(why.String(), "invalid access to map value") || why.Code != words.SchedulerWaits && why.Code != words.SchedulerAgain) {
			t.Fatalf("after try %d: %s", tries, why)
		}
	}
	if under < 2 {
		t.Errorf("tried %d times", tries)
	}
	if end := f.s.View().Scheduler.End; end == nil || end.Kind != share.EndRefused {
		t.Errorf("what never ran ended by %+v", end)
	}
}

// TestSchedulerTakesSoManyTiers: where more cgroups have tiers than the scheduler takes, it is told those
// of batch work first, and it is known which have none: their threads are not given to it.
func TestSchedulerTakesSoManyTiers(t *testing.T) {
	f := kernelled(t)
	f.kernel.tiers = 2
	f.scans(4)
	last := func() (out []string) {
		for _, g := range f.kernel.told[len(f.kernel.told)-1].Groups {
			out = append(out, g.Cgroup)
		}
		return out
	}
	if got := last(); !slices.Equal(got, []string{"/batch1", "/batch2"}) || !slices.Equal(f.s.Scheduler.Untiered, []string{"/web"}) {
		t.Fatalf("tiers of %v; without %v", got, f.s.Scheduler.Untiered)
	}
	f = kernelled(t)
	f.kernel.tiers = 1
	f.scans(4)
	if got := last(); !slices.Equal(got, []string{"/batch1"}) || !slices.Equal(f.s.Scheduler.Untiered, []string{"/batch2", "/web"}) {
		t.Errorf("tiers of %v; without %v", got, f.s.Scheduler.Untiered)
	}
	if a, b := f.get(plan.TaskPolicy, "/batch1"), f.get(plan.TaskPolicy, "/batch2"); a != plan.PolicyExt || b != "other" {
		t.Errorf("policies %s and %s", a, b)
	}
	// Another takes its tier: to the scheduler its threads would be normal now, and bounded by nothing.
	f.batch(f.add("batch0", 2, 1<<20, 1))
	f.values[settingKey{plan.TaskPolicy, "/batch0"}] = plan.Setting{Kind: plan.TaskPolicy, Path: "/batch0", Value: "other", Object: f.values[settingKey{plan.CgroupCPUs, "/batch0"}].Object}
	f.scans(4)
	if got := last(); !slices.Equal(got, []string{"/batch0"}) {
		t.Errorf("another has come: tiers of %v; without %v", got, f.s.Scheduler.Untiered)
	}
	if a, b := f.get(plan.TaskPolicy, "/batch0"), f.get(plan.TaskPolicy, "/batch1"); a != plan.PolicyExt || b != "other" {
		t.Errorf("another has come: policies %s and %s", a, b)
	}
	f.ask(Request{Share: &ShareOrder{On: false}})
	if f.scans(2); len(f.s.Scheduler.Untiered) > 0 {
		t.Error("turned off, and some are without")
	}
}
