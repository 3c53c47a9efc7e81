package switchback

import (
	"strings"
	"testing"
	"time"

	"github.com/homenode/homenode/core/control/work"
	"github.com/homenode/homenode/core/trial"
	"github.com/homenode/homenode/core/words"
	"github.com/homenode/homenode/core/workload"
)

// TestEnds: every end of a trial restores everything, and only a trial with a late program may begin again.
func TestEnds(t *testing.T) {
	for _, tt := range []struct {
		name string
		end  func(*testing.T, *stage)
		why  words.Code
		over bool
	}{
		{"by an order", func(t *testing.T, g *stage) { g.obey(t, Order{End: true}) }, words.TrialEndOrdered, true},
		{"left", func(_ *testing.T, g *stage) { g.h.Work.At = g.h.Work.At.Add(MostLease); g.Due(g.h) }, words.TrialLeft, false},
		{"observe mode", func(_ *testing.T, g *stage) { g.h.Enforce = false; g.Due(g.h) }, words.TrialObserves, true},
		{"overruled", func(_ *testing.T, g *stage) { g.Overrule(g.h, "move a") }, words.TrialOverruled, true},
	} {
		for _, arm := range []trial.Arm{trial.Off, trial.Balancing, trial.On} {
			g := newStage()
			g.obey(t, Order{Arm: arm, Kernel: both})
			g.carryOut()
			tt.end(t, g)
			if over := g.TrialOver != nil && g.TrialOver.Why.Code == tt.why && g.TrialOver.Name == "t"; over != tt.over {
				t.Errorf("%s, %s: over %+v", tt.name, arm, g.TrialOver)
			}
			if arm != trial.On {
				saved, _ := g.l.saved[Key].(*Trial)
				if g.Trial == nil || g.Trial.Ending == nil || g.Trial.Ending.Code != tt.why || g.Trial.Arm != trial.On || saved == nil || saved.Ending == nil {
					t.Fatalf("%s, %s: %+v, saved %+v", tt.name, arm, g.Trial, saved)
				}
				if g.l.holds.All {
					t.Errorf("%s, %s: held still", tt.name, arm)
				}
			}
			saves := g.l.saves
			tt.end(t, g) // once more
			g.carryOut()
			g.Due(g.h)
			g.carryOut()
			g.Due(g.h)
			saved, ok := g.l.saved[Key].(*Trial)
			if g.Trial != nil || g.kernel() != "7 8" || saved != nil || !ok {
				t.Errorf("%s, %s: %+v, kernel %s, saved %+v", tt.name, arm, g.Trial, g.kernel(), saved)
			}
			if count(g.l.told, words.TrialEnds) != 1 || (arm != trial.On && g.l.saves == saves) {
				t.Errorf("%s, %s: told %v, %d saves", tt.name, arm, g.l.told, g.l.saves-saves)
			}
		}
	}
}

// TestProgramComesBack: the program of a trial that it had left comes back while everything is being restored, and
// goes on. The arm stands again.
func TestProgramComesBack(t *testing.T) {
	for _, begin := range []bool{false, true} {
		for _, restored := range []bool{false, true} { // the kernel's settings
			g := newStage()
			g.obey(t, Order{Arm: trial.Off, Kernel: both})
			g.carryOut()
			g.h.Work.At = g.h.Work.At.Add(MostLease)
			g.Due(g.h)
			if restored {
				g.carryOut()
			}
			if g.Trial == nil {
				t.Fatal("it is over: this is no test")
			}
			if f := g.Obey(g.h, &Order{Name: "t", Begin: begin, Arm: trial.Off, Kernel: both, Lease: time.Minute}); f != nil {
				t.Fatalf("begin %v, restored %v: %v", begin, restored, f)
			}
			for range 3 {
				g.carryOut()
				g.Due(g.h)
			}
			if g.Trial == nil || g.Trial.Ending != nil || g.Trial.Arm != trial.Off || g.kernel() != "0 0" || !g.l.holds.All {
				t.Errorf("begin %v, restored %v: %+v, kernel %s", begin, restored, g.Trial, g.kernel())
			}
		}
	}
}

// TestNoWriteForATrial: a daemon that stops, or only observes, writes no setting of the kernel for a trial.
func TestNoWriteForATrial(t *testing.T) {
	for _, tt := range []struct {
		name              string
		stopping, observe bool
		writes            int
	}{{"enforce", false, false, 2}, {"it stops", true, false, 0}, {"observe mode, and the clock was set back", false, true, 0}} {
		g := newStage()
		g.Trial = &Trial{Name: "t", Arm: trial.Off, Kernel: both, Written: kernelValues{}, Stands: kernelValues{}}
		g.h.Work.At, g.h.Work.Stopping, g.h.Enforce = time.Unix(1, 0), tt.stopping, !tt.observe
		g.Trial.Until = g.h.Work.At.Add(MostLease)
		if tt.observe {
			g.Trial.Until = g.Trial.Until.Add(1)
		}
		g.Due(g.h)
		saved := g.l.saves > 0 // also that the lease was cut
		if len(g.l.todo) != tt.writes || len(g.Trial.Written) != tt.writes || saved != (tt.writes > 0 || tt.observe) {
			t.Errorf("%s: %+v, written %v, saved %v", tt.name, g.l.todo, g.Trial.Written, saved)
		}
	}
}

// TestNewcomersAreHeld: workloads that come during an arm without homenode are held if the trial names them.
func TestNewcomersAreHeld(t *testing.T) {
	for _, tt := range []struct {
		name  string
		arm   trial.Arm
		names []string
		held  int
		saves int
	}{
		{"an arm without homenode", trial.Off, []string{"x*"}, 2, 1},
		{"on", trial.On, []string{"x*"}, 0, 0},
		{"all are held already", trial.Off, nil, 0, 0},
		{"nothing new", trial.Off, []string{"y*"}, 1, 0},
	} {
		g := newStage()
		g.l.matches = map[string][]workload.ID{"x*": {"/a"}, "y*": {"/a"}}
		g.obey(t, Order{Arm: tt.arm, Names: tt.names})
		g.l.matches["x*"] = []workload.ID{"/a", "/b"}
		if tt.names == nil {
			g.l.holds.All = false // as the user may have ordered meanwhile
		}
		saves := g.l.saves
		for range 2 {
			g.Due(g.h)
		}
		if len(g.Trial.Holds.IDs) != tt.held || len(g.l.holds.IDs) != tt.held || g.l.saves-saves != tt.saves {
			t.Errorf("%s: the trial holds %v, in all %v, %d saves", tt.name, g.Trial.Holds.IDs, g.l.holds.IDs, g.l.saves-saves)
		}
		if tt.names == nil && len(g.l.undone) != 1 {
			t.Errorf("%s: undone %v", tt.name, g.l.undone)
		}
	}
}

// TestClockSetBack: a lease longer than an hour is cut to an hour.
func TestClockSetBack(t *testing.T) {
	for _, tt := range []struct {
		left  time.Duration
		saves int
	}{{MostLease, 0}, {MostLease + 1, 1}, {90 * time.Hour, 1}, {1, 0}} {
		g := newStage()
		g.h.Work.At = time.Unix(1e6, 0)
		g.Trial = &Trial{Name: "t", Arm: trial.On, Until: g.h.Work.At.Add(tt.left)}
		g.Due(g.h)
		if left := g.Trial.Until.Sub(g.h.Work.At); left != min(tt.left, time.Hour) || g.l.saves != tt.saves {
			t.Errorf("%v: %v left, %d saves", tt.left, left, g.l.saves)
		}
	}
}

// TestLeaseBounds: leases of 5 s to an hour are granted; the refusal of another has it in seconds.
func TestLeaseBounds(t *testing.T) {
	for lease, granted := range map[time.Duration]bool{5*time.Second - 1: false, 5 * time.Second: true, time.Hour: true, time.Hour + 1: false} {
		h, _ := newHost()
		var s Trials
		f := s.Obey(h, &Order{Name: "t", Begin: true, Arm: trial.On, Lease: lease})
		if (f == nil) != granted {
			t.Errorf("%v: %v", lease, f)
		}
	}
	h, _ := newHost()
	var s Trials
	if f := s.Obey(h, &Order{Name: "t", Begin: true, Arm: trial.On, Lease: 2 * time.Hour}); f == nil || !strings.Contains(f.Text, "7200") {
		t.Errorf("%v", f)
	}
}

// TestOverruleOnce: the first order of a person ends the trial and is its reason.
func TestOverruleOnce(t *testing.T) {
	g := newStage()
	if g.Overrule(g.h, "undo a"); g.TrialOver != nil || len(g.l.told) != 0 {
		t.Errorf("without a trial: %+v", g.TrialOver)
	}
	g.obey(t, Order{Arm: trial.Off, Kernel: both})
	g.Overrule(g.h, "undo a")
	g.Overrule(g.h, "move b")
	if why := g.TrialOver.Why.String(); why != "`homenode undo a` was ordered" {
		t.Errorf("%s", why)
	}
}

// TestNothingBeginsWhereItMayNot: no trial begins for unknown or held workloads, or with a setting of the kernel in
// other use.
func TestNothingBeginsWhereItMayNot(t *testing.T) {
	for _, tt := range []struct {
		name   string
		order  Order
		change func(*stage)
		code   work.Code
		text   string
	}{
		{"matches none", Order{Names: []string{"y*"}}, nil, work.NotFound, "no workload matches y*"},
		{"not there", Order{Names: []string{"gone"}}, nil, work.NotFound, ""},
		{"the second is held", Order{Names: []string{"a", "b"}}, func(g *stage) { g.l.holds.IDs["/b"] = true }, work.Forbidden, "/b is held by `homenode undo`; use `homenode resume /b` first"},
		{"balancing is taken", Order{Kernel: both}, func(g *stage) { g.take(0) }, work.Forbidden, "kernel.numa_balancing was set for /b; use `homenode undo /b` first or leave out the arm balancing"},
		{"caches are taken", Order{Kernel: both}, func(g *stage) { g.take(1) }, work.Forbidden, "cache-aware scheduling was set for /b; use `homenode undo /b` first or leave out the arm caches"},
	} {
		g := newStage()
		g.l.missing = map[workload.ID]bool{"gone": true}
		if tt.change != nil {
			tt.change(g)
		}
		tt.order.Name, tt.order.Begin, tt.order.Arm, tt.order.Lease = "t", true, trial.Off, time.Minute
		f := g.Obey(g.h, &tt.order)
		if f == nil || f.Code != tt.code || f.Text != tt.text || g.Trial != nil || len(g.l.told)+g.l.saves != 0 {
			t.Errorf("%s: %+v, %+v, told %v", tt.name, f, g.Trial, g.l.told)
		}
	}
}

// TestEndIsNotForOthers: an order ends only the trial with its name.
func TestEndIsNotForOthers(t *testing.T) {
	g := newStage()
	g.obey(t, Order{End: true})
	if len(g.l.told) != 0 || g.l.saves != 0 {
		t.Errorf("without a trial: %v", g.l.told)
	}
	g.obey(t, Order{Arm: trial.Off})
	if f := g.Obey(g.h, &Order{Name: "u", End: true}); f == nil || f.Code != work.Forbidden || g.Trial.Ending != nil {
		t.Errorf("by another: %v", f)
	}
}
