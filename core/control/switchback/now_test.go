package switchback

import (
	"testing"
	"time"

	"github.com/homenode/homenode/core/control/concern/threads"
	"github.com/homenode/homenode/core/control/work"
	"github.com/homenode/homenode/core/plan"
	"github.com/homenode/homenode/core/trial"
	"github.com/homenode/homenode/core/words"
	"github.com/homenode/homenode/core/workload"
)

// TestNow: an arm is settled after the first full scan since its switch if no change for it is pending.
func TestNow(t *testing.T) {
	over := words.Because(words.TrialLeft)
	for _, tt := range []struct {
		name    string
		change  func(*stage)
		pending int
		settled bool
	}{
		{name: "nothing left", settled: true},
		{name: "no scan since", change: func(g *stage) { g.h.Scan = 5 }},
		{name: "no scan since, and none ever", change: func(g *stage) { g.h.Scan, g.h.Work.Scans = 5, 0 }, settled: true},
		{name: "it ends", change: func(g *stage) { g.Trial.Ending = &over }},
		{name: "tasks", change: func(g *stage) { g.h.Work.Tasks["/a"], g.h.Work.Tasks["/b"] = &work.Task{}, &work.Task{} }, pending: 2},
		{name: "undos", change: func(g *stage) { g.h.Work.Undoing = []*work.Undoing{{}, {}} }, pending: 2},
		{name: "tasks and an undo", change: func(g *stage) {
			g.h.Work.Tasks["/a"], g.h.Work.Undoing = &work.Task{}, []*work.Undoing{{}}
		}, pending: 2},
		{name: "values not taken", change: func(g *stage) {
			g.Trial.Written, g.Trial.Stands = kernelValues{threads.BalancingID: "1", CachesID: "0"}, kernelValues{CachesID: "0"}
		}, pending: 1},
		{name: "values taken", change: func(g *stage) {
			g.Trial.Written, g.Trial.Stands = kernelValues{CachesID: "0"}, kernelValues{CachesID: "0"}
		}, settled: true},
		{name: "steps", change: func(g *stage) { g.l.plan.Steps = steps("/a", "/a", "/b") }, pending: 2},
		{name: "steps in an arm without homenode", change: func(g *stage) {
			g.l.plan.Steps, g.Trial.Arm = steps("/a"), trial.Off
		}, settled: true},
		{name: "steps under way", change: func(g *stage) {
			g.l.plan.Steps, g.h.Work.Tasks["/a"] = steps("/a"), &work.Task{}
		}, pending: 1},
		{name: "steps of what is held", change: func(g *stage) { g.l.plan.Steps, g.l.holds.IDs["/a"] = steps("/a"), true }, settled: true},
		{name: "steps that failed", change: func(g *stage) {
			g.l.plan.Steps, g.h.Work.Retries[work.Key{Workload: "/a"}] = steps("/a", "/b"), work.Retry{Failures: 1}
		}, pending: 1},
		{name: "steps of others", change: func(g *stage) {
			g.l.plan.Steps, g.Trial.Names = steps("/a", "/b"), []string{"x*"}
		}, pending: 1},
	} {
		g := newStage()
		g.l.matches = map[string][]workload.ID{"x*": {"/a"}}
		g.Trial = &Trial{Name: "t", Arm: trial.On, Scan: 5}
		g.h.Scan, g.h.Work.Scans = 6, 6
		if tt.change != nil {
			tt.change(g)
		}
		now := g.Now(g.h)
		if now.Pending != tt.pending || now.Settled != tt.settled || now.Trial == nil || now.Trial == g.Trial {
			t.Errorf("%s: %+v", tt.name, now)
		}
	}
	g := newStage()
	if now := g.Now(g.h); !now.Settled || now.Trial != nil || now.Pending != 0 {
		t.Errorf("without a trial: %+v", now)
	}
}

// TestAnswerStands: an answer and a saved trial never change later.
func TestAnswerStands(t *testing.T) {
	g := newStage()
	g.l.matches = map[string][]workload.ID{"x*": {"/a"}}
	order := Order{Arm: trial.Balancing, Names: []string{"x*"}, Kernel: both}
	g.obey(t, order)
	g.carryOut()
	now := g.Now(g.h)
	saved, _ := g.l.saved[Key].(*Trial)
	g.Trial.Names[0] = "y"
	g.obey(t, Order{Arm: trial.Caches})
	g.l.matches["y"] = []workload.ID{"/b"}
	g.hold(g.h)
	g.carryOut()
	g.Due(g.h)
	g.carryOut()
	for what, x := range map[string]*Trial{"answer": now.Trial, "disk": saved} {
		if x.Arm != trial.Balancing || x.Written[threads.BalancingID] != "1" || x.Stands[threads.BalancingID] != "1" {
			t.Errorf("%s: %+v", what, x)
		}
	}
	if len(saved.Holds.IDs) != 1 || saved.Names[0] != "x*" || order.Names[0] != "x*" {
		t.Errorf("on disk: %+v", saved)
	}
}

// TestResumed: a new daemon resumes a trial without scans and without values of the kernel, from a copy.
func TestResumed(t *testing.T) {
	if Resumed(nil) != nil {
		t.Error("a trial out of nothing")
	}
	saved := Trial{
		Name: "t", Arm: trial.Off, Scan: 9, Until: time.Unix(9, 0), Holds: work.Holds{All: true, IDs: map[workload.ID]bool{"/a": true}},
		Written: kernelValues{CachesID: "1"}, Stands: kernelValues{CachesID: "1"},
	}
	x := Resumed(&saved)
	if x.Name != "t" || x.Arm != trial.Off || !x.Until.Equal(saved.Until) || x.Scan != 0 || x.Stands == nil || len(x.Stands) != 0 {
		t.Errorf("%+v", x)
	}
	if !x.Holds.All || !x.Holds.IDs["/a"] || x.Written[CachesID] != "1" {
		t.Errorf("%+v", x)
	}
	x.Holds.IDs["/b"], x.Written[threads.BalancingID] = true, "1"
	if len(saved.Holds.IDs) != 1 || len(saved.Written) != 1 || len(saved.Stands) != 1 {
		t.Errorf("what was read was changed: %+v", saved)
	}
	x = Resumed(&Trial{Name: "t"}) // of a file without them
	x.Holds.IDs["/b"], x.Written[CachesID], x.Stands[CachesID] = true, "1", "1"
}

// TestBalances: a trial decides on kernel.numa_balancing from its first arm until the restore.
func TestBalances(t *testing.T) {
	wrote := kernelValues{threads.BalancingID: "0"}
	for _, tt := range []struct {
		name  string
		trial *Trial
		want  bool
	}{
		{"no trial", nil, false},
		{"without that arm", &Trial{Arm: trial.Off, Kernel: []trial.Arm{trial.Caches}, Written: wrote}, false},
		{"an arm without homenode", &Trial{Arm: trial.Off, Kernel: both}, true},
		{"that arm", &Trial{Arm: trial.Balancing, Kernel: both, Written: wrote}, true},
		{"on, not yet restored", &Trial{Arm: trial.On, Kernel: both, Written: wrote}, true},
		{"on", &Trial{Arm: trial.On, Kernel: both}, false},
		{"on, another setting not yet restored", &Trial{Arm: trial.On, Kernel: both, Written: kernelValues{CachesID: "0"}}, false},
	} {
		s := Trials{Trial: tt.trial}
		if got := s.Balances(); got != tt.want {
			t.Errorf("%s: %v", tt.name, got)
		}
	}
}

// TestBegins: a trial begins in the arm on, with IDs for names and without failures of earlier writes.
func TestBegins(t *testing.T) {
	g := newStage()
	g.h.Work.At, g.h.Work.Scans = time.Unix(50, 0), 4
	g.l.matches = map[string][]workload.ID{"x*": {"/b"}}
	old := words.Because(words.TrialLeft)
	g.TrialOver = &Over{"t", old}
	write := work.Key{Workload: CachesID, Kind: plan.SetFile}
	other := work.Key{Workload: "/a", Kind: plan.SetCPUs}
	g.h.Work.Retries[write], g.h.Work.Retries[other] = work.Retry{Failures: 1}, work.Retry{Failures: 1}
	g.h.Work.Put(plan.Entry{Seq: 1, Kind: plan.HostFile, Path: kernelArms[0].file, Workload: "host"}) // of an arm that it has not
	g.h.Work.Put(plan.Entry{Seq: 2, Kind: plan.HostFile, Path: kernelArms[1].file, Workload: CachesID})
	order := Order{Arm: trial.On, Names: []string{"a", "x*"}, Kernel: []trial.Arm{trial.Caches}, Block: 1, Blocks: 6}
	g.obey(t, order)
	x := g.Trial
	if x.Name != "t" || x.Arm != trial.On || x.Names[0] != "/a" || x.Names[1] != "x*" || x.Kernel[0] != trial.Caches || x.By != g.h.By {
		t.Errorf("%+v", x)
	}
	begun := time.Unix(50, 0)
	if !x.Began.Equal(begun) || !x.Since.Equal(begun) || x.Scan != 4 || x.Block != 1 || x.Blocks != 6 || g.TrialOver != nil {
		t.Errorf("%+v, over %+v", x, g.TrialOver)
	}
	if order.Names[0] != "a" {
		t.Errorf("the order was changed: %+v", order)
	}
	if _, ok := g.h.Work.Retries[write]; ok || g.h.Work.Retries[other].Failures != 1 {
		t.Errorf("%+v", g.h.Work.Retries)
	}
	if len(g.l.undone) != 0 || len(g.l.todo) != 0 || len(g.l.orders) != 1 || g.l.orders[0] != "root started trial t" {
		t.Errorf("undone %v, to do %v, ordered %q", g.l.undone, g.l.todo, g.l.orders)
	}
	g = newStage()
	g.h.By = nil
	if g.obey(t, Order{Arm: trial.On}); len(g.l.orders) != 0 {
		t.Errorf("no person ordered it: %q", g.l.orders)
	}
}
