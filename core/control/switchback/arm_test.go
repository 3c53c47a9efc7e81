package switchback

import (
	"cmp"
	"slices"
	"testing"
	"time"

	"github.com/homenode/homenode/core/control/concern/threads"
	"github.com/homenode/homenode/core/control/work"
	"github.com/homenode/homenode/core/hostprep"
	"github.com/homenode/homenode/core/plan"
	"github.com/homenode/homenode/core/trial"
	"github.com/homenode/homenode/core/words"
	"github.com/homenode/homenode/core/workload"
)

// TestArmsHold: an arm without homenode holds the workloads of the trial, and the arm on lifts only those holds.
func TestArmsHold(t *testing.T) {
	for _, tt := range []struct {
		name   string
		names  []string
		held   []workload.ID // by the user, once the trial runs
		all    bool          // the user holds all, once the trial runs
		undone []work.Which  // by the arm off
		after  []workload.ID // still held in the arm on
		steps  []workload.ID // of the plan that are left then
		theirs int           // settings of other programs that are left then
	}{
		{name: "all", undone: []work.Which{{All: true, Own: true}}},
		{name: "all, and the user holds one", held: []workload.ID{"/a"}, undone: []work.Which{{All: true, Own: true}}, after: []workload.ID{"/a"}},
		{name: "all, and the user holds all", all: true, steps: []workload.ID{"/a", "/b", "/c"}, theirs: 3},
		{name: "some", names: []string{"x*"}, undone: []work.Which{{ID: "/a"}, {ID: "/b"}}, steps: []workload.ID{"/c"}, theirs: 1},
		{name: "some, and the user holds one", names: []string{"x*"}, held: []workload.ID{"/a"}, undone: []work.Which{{ID: "/b"}}, after: []workload.ID{"/a"}, steps: []workload.ID{"/a", "/c"}, theirs: 2},
	} {
		g := newStage()
		g.l.matches = map[string][]workload.ID{"x*": {"/a", "/b"}}
		g.obey(t, Order{Arm: trial.On, Names: tt.names})
		g.l.holds.All = tt.all
		for _, id := range tt.held {
			g.l.holds.IDs[id] = true
		}
		g.obey(t, Order{Arm: trial.Off, Names: tt.names})
		g.obey(t, Order{Arm: trial.Caches, Names: tt.names}) // from one arm without homenode to another: as it was
		if !slices.Equal(g.l.undone, tt.undone) || g.l.held != 0 {
			t.Errorf("%s: undone %+v, want %+v; holds written %d times", tt.name, g.l.undone, tt.undone, g.l.held)
		}
		g.l.plan.Steps = steps("/a", "/b", "/c")
		for _, id := range []workload.ID{"/a", "/b", "/c"} {
			g.h.Work.Theirs.Keep(&plan.Entry{Workload: id, Kind: plan.CgroupCPUs, Path: string(id)})
		}
		g.h.Work.Retries[work.Key{Workload: "/c"}] = work.Retry{Failures: 9}
		g.obey(t, Order{Arm: trial.On, Names: tt.names})
		if g.l.holds.All != tt.all || len(g.l.holds.IDs) != len(tt.after) {
			t.Errorf("%s: held in the arm on: %+v", tt.name, g.l.holds)
		}
		for _, id := range tt.after {
			if !g.l.holds.IDs[id] {
				t.Errorf("%s: the user's hold of %s was lifted", tt.name, id)
			}
		}
		if got := idsOf(g.l.plan.Steps); !slices.Equal(got, tt.steps) {
			t.Errorf("%s: left to do of %v, want %v", tt.name, got, tt.steps)
		}
		if n := len(g.h.Work.Theirs.Sorted()); n != tt.theirs {
			t.Errorf("%s: %d settings are of other programs, want %d", tt.name, n, tt.theirs)
		}
		if len(g.h.Work.Retries) != 0 || g.l.held != 1 || g.Trial.Holds.All || len(g.Trial.Holds.IDs) != 0 {
			t.Errorf("%s: %d retries, holds written %d times, the trial has %+v", tt.name, len(g.h.Work.Retries), g.l.held, g.Trial.Holds)
		}
		if g.l.asked != 0 || count(g.l.told, words.TrialSwitched) != 3 {
			t.Errorf("%s: %d counted as ordered, %v", tt.name, g.l.asked, g.l.told)
		}
	}
}

func count(all []words.Code, code words.Code) (n int) {
	for _, c := range all {
		if c == code {
			n++
		}
	}
	return n
}

// TestSwitchIsDated: an arm counts from its switch, not from a renewal.
func TestSwitchIsDated(t *testing.T) {
	g := newStage()
	g.h.Work.At, g.h.Work.Scans = time.Unix(100, 0), 3
	g.obey(t, Order{Arm: trial.On})
	g.h.Work.At, g.h.Work.Scans = time.Unix(200, 0), 5
	g.obey(t, Order{Arm: trial.Off, Block: 2, Blocks: 8})
	g.h.Work.At, g.h.Work.Scans = time.Unix(300, 0), 7
	g.obey(t, Order{Arm: trial.Off, Block: 3, Blocks: 8})
	x := g.Trial
	if x.Began != time.Unix(100, 0) || x.Since != time.Unix(200, 0) || x.Scan != 5 || x.Until != time.Unix(300, 0).Add(time.Hour) || x.Block != 3 || x.Blocks != 8 {
		t.Errorf("%+v", x)
	}
}

// TestArmsOfTheKernel: an arm with a setting of the kernel has it at 1, the others without homenode at 0, and the arm
// on at its original value. No value is written twice.
func TestArmsOfTheKernel(t *testing.T) {
	for _, tt := range []struct {
		kernel []trial.Arm
		want   map[trial.Arm]string
	}{
		{both, map[trial.Arm]string{trial.Off: "0 0", trial.Balancing: "1 0", trial.Caches: "0 1", trial.On: "7 8"}},
		{both[:1], map[trial.Arm]string{trial.Off: "0 8", trial.Balancing: "1 8", trial.Caches: "0 8", trial.On: "7 8"}},
		{nil, map[trial.Arm]string{trial.Off: "7 8", trial.Balancing: "7 8", trial.Caches: "7 8", trial.On: "7 8"}},
	} {
		g := newStage()
		g.obey(t, Order{Arm: trial.On, Kernel: tt.kernel})
		for _, arm := range []trial.Arm{trial.Off, trial.Balancing, trial.Caches, trial.On, trial.Balancing, trial.Off, trial.On} {
			g.obey(t, Order{Arm: arm, Kernel: tt.kernel})
			g.carryOut()
			if got := g.kernel(); got != tt.want[arm] {
				t.Errorf("%v: %s: %s, want %s", tt.kernel, arm, got, tt.want[arm])
			}
			saved, _ := g.l.saved[Key].(*Trial)
			writes, saves := g.writes, g.l.saves
			g.Due(g.h)
			g.carryOut()
			if arm != trial.On && (g.writes != writes || g.l.saves != saves || len(saved.Stands) != len(tt.kernel) || len(saved.Written) != len(tt.kernel)) {
				t.Errorf("%v: %s: written again: %d, %d saves, saved %+v", tt.kernel, arm, g.writes-writes, g.l.saves-saves, saved)
			}
			if arm == trial.On && (len(g.Trial.Written) != 0 || len(g.Trial.Stands) != 0 || g.h.Work.Journal.Len() != 0) {
				t.Errorf("%v: left in the arm on: %+v, %d entries", tt.kernel, g.Trial, g.h.Work.Journal.Len())
			}
		}
	}
}

// TestKernelIsWrittenOnceAtATime: no step begins for a setting of the kernel during a write or restore of it.
func TestKernelIsWrittenOnceAtATime(t *testing.T) {
	g := newStage()
	g.obey(t, Order{Arm: trial.Balancing, Kernel: both[:1]})
	g.obey(t, Order{Arm: trial.Off, Kernel: both[:1]})
	if len(g.l.todo) != 1 || g.Trial.Written[threads.BalancingID] != "1" {
		t.Fatalf("under way %+v, written %v", g.l.todo, g.Trial.Written)
	}
	g.carryOut() // 1 is written; what the arm wants by now follows at the next scan
	g.Due(g.h)
	g.carryOut()
	if g.kernel() != "0 8" {
		t.Errorf("%s after the switch during a write", g.kernel())
	}
	g.obey(t, Order{Arm: trial.On, Kernel: both[:1]})
	if len(g.h.Work.Undoing) != 1 || g.Now(g.h).Settled || !g.setsKernel(g.h) {
		t.Fatalf("%d restores are under way", len(g.h.Work.Undoing))
	}
	g.obey(t, Order{Arm: trial.Off, Kernel: both[:1]})
	if len(g.h.Work.Tasks) != 0 || len(g.h.Work.Undoing) != 1 {
		t.Errorf("during a restore: %d tasks, %d restores", len(g.h.Work.Tasks), len(g.h.Work.Undoing))
	}
}

// TestKernelIsWrittenUntilItStands: a value stands if the kernel took it and no other was tried since.
func TestKernelIsWrittenUntilItStands(t *testing.T) {
	for _, tt := range []struct {
		written, stands string
		writes          int
	}{{"0", "0", 0}, {"0", "", 1}, {"0", "1", 1}, {"1", "0", 1}, {"", "", 1}} {
		g := newStage()
		id := threads.BalancingID
		g.Trial = &Trial{Name: "t", Arm: trial.Off, Kernel: both[:1], Written: kernelValues{id: tt.written}, Stands: kernelValues{id: tt.stands}}
		g.setKernel(g.h)
		if len(g.l.todo) != tt.writes || g.Trial.Written[id] != "0" {
			t.Errorf("tried %q, stands %q: %+v", tt.written, tt.stands, g.l.todo)
		}
	}
}

// TestKernelOfOthersStays: the arm on restores only values of the trial, none that homenode set before it under the
// same ID.
func TestKernelOfOthersStays(t *testing.T) {
	path := hostprep.NUMABalancing
	for _, tt := range []struct {
		name     string
		entry    *plan.Entry
		written  kernelValues
		restores bool
		left     int // values that the trial has written
	}{
		{"nothing written", &plan.Entry{Workload: threads.BalancingID}, kernelValues{}, false, 0},
		{"nothing in the journal", nil, kernelValues{threads.BalancingID: "0"}, false, 0},
		{"of another", &plan.Entry{Workload: hostprep.ID}, kernelValues{threads.BalancingID: "0"}, false, 0},
		{"written", &plan.Entry{Workload: threads.BalancingID}, kernelValues{threads.BalancingID: "0"}, true, 1},
	} {
		g := newStage()
		if tt.entry != nil {
			tt.entry.Seq, tt.entry.Kind, tt.entry.Path = 4, plan.HostFile, path
			g.h.Work.Put(*tt.entry)
		}
		g.Trial = &Trial{Name: "t", Arm: trial.On, Kernel: both, Written: tt.written, Stands: kernelValues{threads.BalancingID: "0"}}
		g.setKernel(g.h)
		if restores := len(g.h.Work.Undoing) == 1; restores != tt.restores || len(g.Trial.Written) != tt.left {
			t.Errorf("%s: restores %v, written %v", tt.name, restores, g.Trial.Written)
		}
		if gone := g.Trial.Stands[threads.BalancingID] == ""; gone != (tt.left == 0 && tt.name != "nothing written") {
			t.Errorf("%s: stands %v", tt.name, g.Trial.Stands)
		}
		// A restore that failed waits for its next try.
		if tt.restores {
			g.refuse = &work.Failure{Code: work.Failed}
			g.carryOut()
			g.setKernel(g.h)
			if len(g.h.Work.Undoing) != 0 {
				t.Error("it is tried again at once")
			}
			g.h.Work.At = g.h.Work.At.Add(work.RetryMost)
			g.setKernel(g.h)
			if len(g.h.Work.Undoing) != 1 {
				t.Error("it is not tried again")
			}
		}
	}
}

// TestStepEnded: a refusal of the kernel ends the trial with the reason of its arm; a cancelled step, or one of an
// earlier arm, does not.
func TestStepEnded(t *testing.T) {
	over := words.Because(words.TrialLeft)
	refused := &work.Failure{Code: work.Failed, Text: "no"}
	for _, tt := range []struct {
		name   string
		id     workload.ID
		to     string
		f      *work.Failure
		change func(*stage)
		stands string     // of the kernel's balancing and of the caches
		ends   words.Code // "" goes on
	}{
		{name: "balancing took", id: threads.BalancingID, to: "1", stands: "1 "},
		{name: "caches took", id: CachesID, to: "0", stands: " 0"},
		{name: "balancing refused", id: threads.BalancingID, to: "1", f: refused, ends: words.TrialNotBalanced},
		{name: "caches refused", id: CachesID, to: "0", f: refused, ends: words.TrialNotCaches},
		{name: "cancelled", id: CachesID, to: "0", f: &work.Failure{Code: work.Cancelled}},
		{name: "of an earlier arm", id: CachesID, to: "1"},
		{name: "of an earlier arm, refused", id: CachesID, to: "1", f: refused},
		{name: "of a workload", id: "/a", to: ""},
		{name: "of a workload, refused", id: "/a", to: "", f: refused},
		{name: "no trial", id: CachesID, to: "0", f: refused, change: func(g *stage) { g.Trial = nil }},
		{name: "it ends already", id: CachesID, to: "0", change: func(g *stage) { g.Trial.Ending = &over }},
		{name: "it ends already, refused", id: CachesID, to: "0", f: refused, change: func(g *stage) { g.Trial.Ending = &over }},
	} {
		g := newStage()
		x := &Trial{Name: "t", Arm: trial.Balancing, Kernel: both, Written: kernelValues{threads.BalancingID: "1", CachesID: "0"}, Stands: kernelValues{}}
		g.Trial = x
		if tt.change != nil {
			tt.change(g)
		}
		g.StepEnded(g.h, tt.id, tt.to, tt.f)
		if got := x.Stands[threads.BalancingID] + " " + x.Stands[CachesID]; got != cmp.Or(tt.stands, " ") || (tt.stands != "") != (g.l.saves > 0 && tt.ends == "") {
			t.Errorf("%s: stands %q, %d saves", tt.name, got, g.l.saves)
		}
		switch {
		case tt.ends == "":
			if g.TrialOver != nil || count(g.l.told, words.TrialEnds) != 0 {
				t.Errorf("%s: ended: %+v", tt.name, g.TrialOver)
			}
		case g.TrialOver == nil || g.TrialOver.Why.Code != tt.ends || g.TrialOver.Name != "t" || x.Arm != trial.On:
			t.Errorf("%s: %+v, arm %s", tt.name, g.TrialOver, x.Arm)
		}
	}
}
