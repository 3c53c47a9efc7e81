package switchback

import (
	"testing"
	"time"

	"github.com/homenode/homenode/core/control/work"
	"github.com/homenode/homenode/core/plan"
	"github.com/homenode/homenode/core/trial"
	"github.com/homenode/homenode/core/words"
)

// TestRefusedOrders: an order that cannot be carried out begins nothing and writes nothing.
func TestRefusedOrders(t *testing.T) {
	good := Order{Name: "t", Arm: trial.Off, Begin: true, Lease: time.Minute}
	over := words.Because(words.TrialEndOrdered)
	for name, tt := range map[string]struct {
		change func(*Order, *Host, *Trials)
		want   work.Code
	}{
		"no name":          {func(o *Order, _ *Host, _ *Trials) { o.Name = "" }, work.BadRequest},
		"another runs":     {func(_ *Order, _ *Host, s *Trials) { s.Trial = &Trial{Name: "other"} }, work.Forbidden},
		"it ends":          {func(_ *Order, _ *Host, s *Trials) { s.Trial = &Trial{Name: "t", Ending: &over} }, work.Gone},
		"observe mode":     {func(_ *Order, h *Host, _ *Trials) { h.Enforce = false }, work.Forbidden},
		"no such arm":      {func(o *Order, _ *Host, _ *Trials) { o.Arm = "sideways" }, work.BadRequest},
		"a short lease":    {func(o *Order, _ *Host, _ *Trials) { o.Lease = LeastLease - 1 }, work.BadRequest},
		"a long lease":     {func(o *Order, _ *Host, _ *Trials) { o.Lease = MostLease + 1 }, work.BadRequest},
		"none to renew":    {func(o *Order, _ *Host, _ *Trials) { o.Begin = false }, work.NotFound},
		"one that is over": {func(o *Order, _ *Host, s *Trials) { o.Begin, s.TrialOver = false, &Over{"t", over} }, work.Gone},
		"all is held":      {func(_ *Order, h *Host, _ *Trials) { h.Holds.All = true }, work.Forbidden},
		"no such workload": {func(o *Order, _ *Host, _ *Trials) { o.Names = []string{"web*"} }, work.NotFound},
		"it is held": {func(o *Order, h *Host, _ *Trials) {
			o.Names, h.Holds.IDs["/a"] = []string{"/a"}, true
		}, work.Forbidden},
	} {
		h, l := newHost()
		var s Trials
		o := good
		tt.change(&o, h, &s)
		was := s.Trial
		f := s.Obey(h, &o)
		if f == nil || f.Code != tt.want || s.Trial != was || len(l.told)+len(l.saved) > 0 {
			t.Errorf("%s: %v, trial %+v, told %v, saved %v", name, f, s.Trial, l.told, l.saved)
		}
	}
}

// TestLease: a trial stands as long as it is renewed, and ends with the lease; what was set back by hours ends
// within the longest lease.
func TestLease(t *testing.T) {
	h, l := newHost()
	var s Trials
	h.Work.At = time.Unix(5000, 0)
	begin := Order{Name: "t", Arm: trial.Off, Begin: true, Lease: time.Minute}
	f := s.Obey(h, &begin)
	saved, _ := l.saved[Key].(*Trial)
	if f != nil || s.Trial == nil || saved == nil || saved == s.Trial || !s.Trial.Holds.All {
		t.Fatalf("%v, %+v, saved %+v", f, s.Trial, saved)
	}
	h.Work.At = time.Unix(5059, 0)
	s.Due(h)
	if s.Trial == nil || s.Trial.Ending != nil {
		t.Fatalf("a second before its end: %+v", s.Trial)
	}
	h.Work.At = time.Unix(0, 0)
	s.Due(h)
	if left := s.Trial.Until.Sub(h.Work.At); left != MostLease {
		t.Errorf("the clock was set back: %v left", left)
	}
	h.Work.At = h.Work.At.Add(MostLease)
	s.Due(h)
	if saved, ok := l.saved[Key].(*Trial); s.Trial != nil || !ok || saved != nil || s.TrialOver != nil {
		t.Errorf("after its end: %+v, saved %+v, over %+v", s.Trial, saved, s.TrialOver)
	}
}

// TestOverrule: an order of a person ends a trial; one of homenode itself does not.
func TestOverrule(t *testing.T) {
	h, _ := newHost()
	s := Trials{Trial: &Trial{Name: "t", Arm: trial.On}}
	h.By = nil
	s.Overrule(h, "undo a")
	if s.Trial == nil || s.Trial.Ending != nil {
		t.Fatalf("by homenode: %+v", s.Trial)
	}
	h.By = &plan.Asker{User: "root"}
	s.Overrule(h, "undo a")
	if s.TrialOver == nil || s.TrialOver.Why.Code != words.TrialOverruled {
		t.Errorf("by a person: %+v", s.TrialOver)
	}
}
