package control

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/homenode/homenode/core/control/switchback"
	"github.com/homenode/homenode/core/control/work"
	"github.com/homenode/homenode/core/hostprep"
	"github.com/homenode/homenode/core/plan"
	"github.com/homenode/homenode/core/trial"
	"github.com/homenode/homenode/core/words"
	"github.com/homenode/homenode/core/workload"
)

// trials is scattered with a kernel that balances, or not.
func trials(t *testing.T, balancing string) (f *fake, before, after map[string]string) {
	f = scattered(t)
	f.values[settingKey{plan.HostFile, hostprep.NUMABalancing}] = plan.Setting{Kind: plan.HostFile, Path: hostprep.NUMABalancing, Value: balancing}
	f.values[settingKey{plan.HostFile, hostprep.CacheAware}] = plan.Setting{Kind: plan.HostFile, Path: hostprep.CacheAware, Value: "1"}
	before = f.all()
	f.scan(6)
	return f, before, f.all()
}

func (f *fake) arm(arm trial.Arm, names ...string) Reply {
	return f.ask(Request{Trial: &TrialOrder{Name: "t", Begin: true, Arm: arm, Names: names, Kernel: []trial.Arm{trial.Balancing, trial.Caches}, Lease: time.Minute, Block: 1, Blocks: 6}, By: &plan.Asker{UID: 0, User: "root"}})
}

func (f *fake) stands(when string, want map[string]string) {
	f.t.Helper()
	if diff := cmp.Diff(want, f.all()); diff != "" {
		f.t.Errorf("%s:\n%s", when, diff)
	}
}

// with returns all settings, with those of the kernel as an arm has them.
func with(all map[string]string, balancing, caches string) map[string]string {
	out := map[string]string{}
	for k, v := range all {
		out[k] = v
	}
	out[string(plan.HostFile)+" "+hostprep.NUMABalancing] = balancing
	out[string(plan.HostFile)+" "+hostprep.CacheAware] = caches
	return out
}

func TestTrialSwitchesArms(t *testing.T) {
	f, before, after := trials(t, "1")
	for i, step := range []struct {
		arm  trial.Arm
		want map[string]string
	}{
		{trial.Off, with(before, "0", "0")}, {trial.Balancing, with(before, "1", "0")}, {trial.On, after}, {trial.Caches, with(before, "0", "1")}, {trial.Balancing, with(before, "1", "0")},
		{trial.Off, with(before, "0", "0")}, {trial.On, after}, {trial.Off, with(before, "0", "0")},
	} {
		if r := f.arm(step.arm); r.Failed != nil || r.Trial.Trial.Arm != step.arm {
			t.Fatalf("%d: %s", i, asJSON(t, r))
		}
		if f.s.Trials.Now(f.s.trials()).Settled {
			t.Errorf("%d: settled at once, before any scan", i)
		}
		f.scan(6)
		f.arm(step.arm) // renewed
		f.stands(fmt.Sprintf("%d: %s", i, step.arm), step.want)
		if now := f.s.Trials.Now(f.s.trials()); !now.Settled {
			t.Errorf("%d: %s not settled: %s", i, step.arm, asJSON(t, now))
		}
	}
	if r := f.ask(Request{Trial: &TrialOrder{Name: "t", End: true}}); r.Failed != nil {
		t.Fatal(r.Failed)
	}
	f.scan(6)
	f.stands("after its end", after)
	if f.s.Trial != nil || f.s.Holds.All || f.disk.saved(t).Trial != nil {
		t.Errorf("left: %+v, %+v", f.s.Trial, f.s.Holds)
	}
}

// TestTrialIsLeft: its program is killed, whatever the arm. The daemon restores everything.
func TestTrialIsLeft(t *testing.T) {
	for _, arm := range trial.Arms {
		for _, restarts := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s/%v", arm, restarts), func(t *testing.T) {
				f, _, after := trials(t, "0")
				f.arm(arm)
				f.scan(3)
				if restarts {
					f.start()
					f.scan(2)
					if f.s.Trial == nil || f.s.Trial.Arm != arm {
						t.Fatalf("the next daemon has the trial %+v", f.s.Trial)
					}
				}
				f.after(2 * time.Minute)
				f.scan(8)
				f.stands("after the program was killed", after)
				if f.s.Trial != nil || f.s.Holds.All || f.told(words.TrialEnds) != 1 {
					t.Errorf("left: %+v, %+v", f.s.Trial, f.s.Holds)
				}
				if r := f.arm(trial.Off); r.Failed != nil {
					t.Errorf("it does not go on: %v", r.Failed)
				}
			})
		}
	}
}

// restart restarts the machine, with the settings that it has at boot, and a daemon, whose clock shows so much more.
func (f *fake) restart(boot map[string]string, later time.Duration) {
	f.after(later)
	for key, x := range f.values {
		if x.Value = boot[string(key.kind)+" "+key.path]; f.values[key] != x {
			f.values[key] = x
		}
	}
	_, b := f.disk.saved(f.t).AfterBoot(f.now, func(plan.SettingKind) bool { return false })
	f.disk.commit(f.t, b)
	f.events = append(f.events, b.Events...)
	f.start()
}

// TestTrialEndsWithTheBoot: a restart of the machine ends the program of a trial, and resets what it switched. The
// next daemon sets no arm, however soon it starts and whatever the clock is then, and the trial can go on.
func TestTrialEndsWithTheBoot(t *testing.T) {
	for _, clock := range []time.Duration{time.Second, 2 * time.Minute, -3 * time.Hour} {
		for _, names := range [][]string{nil, {"a"}} {
			for _, arm := range trial.Arms {
				f, before, _ := trials(t, "7")
				f.undo("/b") // by the user
				f.scan(3)
				held := f.all()
				f.arm(arm, names...)
				f.scan(3)
				f.restart(before, clock)
				name := fmt.Sprintf("%s of %v, %v later", arm, names, clock)
				if f.s.Trial != nil || f.s.Holds.All || len(f.s.Holds.IDs) != 1 || !f.s.Holds.IDs["/b"] || f.disk.saved(t).Trial != nil {
					t.Errorf("%s: trial %+v, holds %+v", name, f.s.Trial, f.s.Holds)
				}
				if f.told(words.TrialEnds) != 1 || f.told(words.MachineRestarted) != 1 {
					t.Errorf("%s: its end is told %d times, the restart %d times", name, f.told(words.TrialEnds), f.told(words.MachineRestarted))
				}
				f.scan(6)
				f.stands(name, held)
				if r := f.arm(trial.Off, names...); r.Failed != nil {
					t.Errorf("%s: it does not go on: %v", name, r.Failed)
				}
			}
		}
	}
}

// TestTrialThatMayNotSwitch: the kernel refuses a setting, as kernel.numa_balancing without
// CAP_SYS_ADMIN, or what is in debugfs where that is not mounted. The arm would be measured as if it
// stood, so the trial ends and says what to do.
func TestTrialThatMayNotSwitch(t *testing.T) {
	for id, why := range map[workload.ID]words.Code{BalancingID: words.TrialNotBalanced, switchback.CachesID: words.TrialNotCaches} {
		f, _, after := trials(t, "1")
		f.fail = func(e *Effect) *Failure {
			if e.Kind == EffectApply && e.Workload == id {
				return &Failure{Code: Failed, Text: "operation not permitted"}
			}
			return nil
		}
		f.arm(trial.Off)
		f.scan(8)
		if f.s.Trials.Now(f.s.trials()).Trial != nil || f.s.TrialOver == nil || f.s.TrialOver.Why.Code != why {
			t.Errorf("%s: trial %+v, over %+v", id, f.s.Trial, f.s.TrialOver)
		}
		f.after(work.RetryMost)
		f.scan(8)
		f.stands(string(id)+", after its end", after)
	}
}

// TestTrialLeavesOtherArmsAlone: a setting whose arm is not in the trial stays as found.
func TestTrialLeavesOtherArmsAlone(t *testing.T) {
	f, before, _ := trials(t, "1")
	if r := f.ask(Request{Trial: &TrialOrder{Name: "t", Begin: true, Arm: trial.Off, Lease: time.Minute, Block: 1, Blocks: 6}}); r.Failed != nil {
		t.Fatal(r.Failed)
	}
	f.scan(6)
	f.stands("off", before)
}

// TestTrialLeavesSamplingAlone: in the arm on homenode runs as configured, and may switch NUMA
// balancing on for a while itself.
func TestTrialLeavesSamplingAlone(t *testing.T) {
	f := newFake(t, 4, 8, dividing, func(s *Settings) { s.Sample = true })
	f.values[settingKey{plan.HostFile, hostprep.NUMABalancing}] = plan.Setting{Kind: plan.HostFile, Path: hostprep.NUMABalancing, Value: "0"}
	f.arm(trial.On)
	f.addWide("wide", 12)
	f.scan(6)
	for range 4 {
		f.arm(trial.On)
		if f.scan(1); f.get(plan.HostFile, hostprep.NUMABalancing) != "1" {
			t.Fatal("the trial has switched off what homenode had switched on")
		}
	}
}

// TestTrialAfterRestoreOnStop: a stop restored kernel.numa_balancing. The next daemon, which goes on
// with the trial, sets it anew.
func TestTrialAfterRestoreOnStop(t *testing.T) {
	f, before, _ := trials(t, "1")
	f.arm(trial.Off)
	f.scan(4)
	f.ask(Request{Undo: &Which{All: true, Stop: true}})
	f.stands("stopped", before)
	f.start()
	f.arm(trial.Off)
	if f.s.Trials.Now(f.s.trials()).Settled {
		t.Error("settled before anything is set")
	}
	f.scan(6)
	f.stands("gone on", with(before, "0", "0"))
}

// TestTrialIsLeftWhileScansFail: the lease ends all the same.
func TestTrialIsLeftWhileScansFail(t *testing.T) {
	f, _, _ := trials(t, "0")
	f.arm(trial.Off)
	f.scan(3)
	f.after(2 * time.Minute)
	f.begin()
	f.turn(Input{Scan: &Scan{Number: f.scanNo, Failed: "no answer"}})
	f.run()
	if f.s.Holds.All || f.told(words.TrialEnds) != 1 {
		t.Errorf("trial %+v, holds %+v", f.s.Trial, f.s.Holds)
	}
}

func TestTrialOfOne(t *testing.T) {
	f, before, after := trials(t, "0")
	f.arm(trial.Off, "a")
	f.scan(3)
	key := func(id string) string { return "cpuset.cpus " + id }
	if now := f.all(); now[key("/a")] != before[key("/a")] || now[key("/b")] != after[key("/b")] {
		t.Errorf("%v", now)
	}
	f.arm(trial.On, "a")
	f.scan(4)
	f.stands("on again", after)
	f.ask(Request{Trial: &TrialOrder{Name: "t", End: true}})
	for _, c := range []struct {
		names []string
		code  Code
	}{{[]string{"nobody"}, NotFound}, {[]string{"nob*"}, NotFound}} {
		f.scan(1)
		if r := f.arm(trial.Off, c.names...); r.Failed == nil || r.Failed.Code != c.code || f.s.Trial != nil {
			t.Errorf("%v: %s", c.names, asJSON(t, r))
		}
	}
}

// TestTrialKeepsHoldsOfUsers: what a user holds is not managed after a trial either.
func TestTrialKeepsHoldsOfUsers(t *testing.T) {
	f, before, _ := trials(t, "0")
	f.undo("/a")
	f.scan(3)
	held := f.all()
	f.arm(trial.Off)
	f.scan(3)
	f.stands("off", with(before, "0", "0"))
	f.arm(trial.On)
	f.scan(4)
	f.stands("on", held)
	if !f.s.Holds.IDs["/a"] || f.s.Holds.All {
		t.Errorf("held: %+v", f.s.Holds)
	}
	if r := f.ask(Request{Trial: &TrialOrder{Name: "u", Begin: true, Arm: trial.On, Lease: time.Minute}}); r.Failed == nil || r.Failed.Code != Forbidden {
		t.Errorf("two trials: %s", asJSON(t, r))
	}
}

// TestOrdersEndTrials: the last word is a person's.
func TestOrdersEndTrials(t *testing.T) {
	f, before, after := trials(t, "0")
	by := &plan.Asker{UID: 0, User: "root"}
	f.arm(trial.Off)
	f.scan(2)
	if r := f.ask(Request{Undo: &Which{All: true}, By: by}); r.Failed != nil {
		t.Fatal(r.Failed)
	}
	f.scan(3)
	f.stands("undone by hand", before)
	if r := f.arm(trial.On); r.Failed == nil {
		t.Errorf("a trial goes on after undo --all: %s", asJSON(t, r))
	}
	f.ask(Request{Resume: &Which{All: true}, By: by})
	for name, code := range map[string]Code{"t": Gone, "u": NotFound} {
		if r := f.ask(Request{Trial: &TrialOrder{Name: name, Arm: trial.On, Lease: time.Minute}}); r.Failed == nil || r.Failed.Code != code {
			t.Errorf("%s is renewed after resume: %s", name, asJSON(t, r))
		}
	}
	f.scan(4)
	f.stands("resumed", after)
	if f.s.Trial != nil {
		t.Errorf("left: %+v", f.s.Trial)
	}
}

func TestTrialLeavesHostPrepared(t *testing.T) {
	f, _, _ := trials(t, "0")
	path := hostprep.KSM
	f.values[settingKey{plan.HostFile, path}] = plan.Setting{Kind: plan.HostFile, Path: path, Value: "1"}
	f.ask(Request{Change: &Change{Steps: []plan.Step{{Kind: plan.SetFile, Workload: hostprep.ID, Target: plan.Target{Kind: workload.InHost, Host: path}, To: "0", Reason: words.Plain("as told")}}}})
	f.scan(1)
	f.arm(trial.Off)
	f.scan(3)
	if got := f.get(plan.HostFile, path); got != "0" {
		t.Errorf("what host prepare set is %q in the arm off", got)
	}
}

func TestNoTrialInObserveMode(t *testing.T) {
	f := newFake(t, 2, 8, observing)
	f.add("a", 1, 1<<20, 0)
	f.scan(2)
	if r := f.arm(trial.Off); r.Failed == nil || r.Failed.Code != Forbidden {
		t.Errorf("%s", asJSON(t, r))
	}
}

// TestTrialAmidFaults: the program and the daemon are killed at any time, a user gives orders, and
// calls fail. In a calm everything is as without a trial.
func TestTrialAmidFaults(t *testing.T) {
	for seed := range uint64(40) {
		r := rand.New(rand.NewPCG(seed, 27))
		f, _, after := trials(t, []string{"0", "1"}[seed%2])
		failing := false
		f.fail = func(e *Effect) *Failure {
			if failing && (e.Kind == EffectApply || e.Kind == EffectRestore) {
				return &Failure{Code: Failed, Text: "input/output error"}
			}
			return nil
		}
		var did []string
		for range 25 {
			what := r.IntN(8)
			did = append(did, fmt.Sprint(what))
			switch what {
			case 0, 1, 2:
				f.arm(trial.Arms[r.IntN(len(trial.Arms))])
			case 3:
				failing = !failing
			case 4:
				f.start()
			case 5:
				f.after(time.Duration(r.IntN(90)) * time.Second)
			case 6:
				f.ask(Request{Trial: &TrialOrder{Name: "t", End: true}})
			case 7:
				f.undo("/a")
				f.resume("/a")
			}
			if r.IntN(3) > 0 {
				f.scan(r.IntN(3))
			}
		}
		failing = false
		f.after(time.Hour)
		f.scan(8)
		f.ask(Request{Resume: &Which{All: true}})
		f.after(time.Hour)
		f.scan(8)
		if diff := cmp.Diff(after, f.all()); diff != "" || f.s.Trial != nil || f.s.Holds.All {
			t.Fatalf("seed %d after %v: trial %+v, holds %+v\n%s", seed, did, f.s.Trial, f.s.Holds, diff)
		}
	}
}
