package control

import (
	"slices"

	"github.com/homenode/homenode/core/control/scene"
	"github.com/homenode/homenode/core/control/switchback"
	"github.com/homenode/homenode/core/control/view"
	"github.com/homenode/homenode/core/control/work"
	"github.com/homenode/homenode/core/workload"
)

// This page is how package switchback and the rest of control meet.

// Types of package switchback that are part of the inputs, the outputs and the checkpoints of this one.
type (
	Trial      = switchback.Trial
	TrialOrder = switchback.Order
	TrialNow   = switchback.Now
)

// trials returns what trials are decided on.
func (s *State) trials() *switchback.Host {
	return &switchback.Host{Work: &s.Work, Holds: &s.Holds, Enforce: s.Settings.Enforce, Scan: s.Seen, By: s.by,
		Loop: loop{s}}
}

func (s *State) orderTrial(id uint64, in *TrialOrder) {
	f := s.Obey(s.trials(), in)
	if f != nil {
		s.reply(Reply{ID: id, Failed: f})
		return
	}
	s.reply(Reply{ID: id, Trial: new(s.Trials.Now(s.trials()))})
}

// overrules returns an order in words that a trial would undo, or has undone; "" for others.
func (r *Request) overrules() string {
	switch {
	case r.Undo != nil && !r.Undo.DryRun:
		return "undo " + r.Undo.Name()
	case r.Resume != nil && !r.Resume.DryRun:
		return "resume " + r.Resume.Name()
	case r.Move != nil && !r.Move.DryRun:
		return "move " + string(r.Move.ID)
	case r.Share != nil && !r.DryRun:
		return "share"
	case r.Partition != nil && !r.DryRun:
		return "host partition"
	case r.Upgrade != nil && !r.DryRun:
		return "share upgrade"
	}
	return ""
}

// loop implements switchback.Loop beside concern.Loop and work.Loop.

func (l loop) SaveHolds() { l.s.saveHolds() }

func (l loop) UndoAndHold(which work.Which) { l.s.undo(0, which, workload.Lineage{}) }

func (l loop) Find(name workload.ID) (workload.ID, *work.Failure) {
	return view.Find(scene.Running(l.s.Snapshot.Observations, l.s.Claims), name, workload.Lineage{})
}

func (l loop) Unasked(f func()) {
	by := l.s.by
	l.s.by = nil
	f()
	l.s.by = by
}

func (l loop) Matching(names []string) []workload.ID {
	var out []workload.ID
	for i := range l.s.Snapshot.Observations {
		o := &l.s.Snapshot.Observations[i]
		whole, _ := workload.PartOf(o.ID)
		fits := func(p string) bool { return p == string(o.ID) || p == string(whole) || scene.Matches(p, o) }
		if slices.ContainsFunc(names, fits) {
			out = append(out, o.ID)
		}
	}
	return out
}
