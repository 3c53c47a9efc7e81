package upkeep

import (
	"slices"
	"time"

	"github.com/homenode/homenode/core/control/journal"
	"github.com/homenode/homenode/core/control/work"
	"github.com/homenode/homenode/core/plan"
)

// PruneEvery is how often the journal is rid of settings whose thing is gone. Nothing
// waits for it, undo finds out by itself; a host where 20 cgroups a second come and go then
// has some hundreds of dead entries at most.
const PruneEvery = 20 * time.Second

// pruning is the search for entries of things that are gone.
type pruning struct {
	Effect uint64
	Asked  []plan.Entry
	Dead   []uint64 // affinities; each goes when no process is left that inherited from it
	Passes int
}

// inheritPasses bounds how often all processes are gone through for those that have
// inherited: one can be made, and its maker end, while a pass goes on.
const inheritPasses = 5

// PruneSoon makes the next scan search for entries of objects that are gone.
func (s *Searches) PruneSoon() { s.Pruned = time.Time{} }

// Prune asks which journalled settings are of things that no longer exist, so that the
// journal does not grow with every workload that came and went.
func (s *Searches) Prune(h *Host) {
	if s.Pruning != nil || (h.Scene.Began.Sub(s.Pruned) < PruneEvery && !s.Pruned.After(h.Scene.Began)) {
		return
	}
	s.Pruned = h.Scene.Began
	var ask []plan.Entry
	for _, e := range h.Work.Journal.All() {
		o := h.Scene.Observation(e.Workload)
		// Processes come and go while their workload stays, and what a source claims may
		// have been started anew.
		if o == nil || e.Kind == plan.Affinity || e.Kind == plan.TaskPolicy || h.Scene.Claims[e.Workload] != nil ||
			!o.SameCgroup(e.Object) {
			ask = append(ask, e)
		}
	}
	if ask = append(ask, h.Work.Theirs.Entries()...); len(ask) > 0 {
		s.Pruning = &pruning{Asked: ask}
		s.Pruning.Effect = h.Work.Effect(work.Effect{Kind: work.EffectPresent, Entries: ask})
	}
}

// prunedResult takes entries out whose things are gone.
func (s *Searches) prunedResult(h *Host, r *work.Result) {
	p := s.Pruning
	switch {
	case r.Failed != nil:
		s.Pruning = nil
		return
	case p.Passes > 0:
		found := len(r.Inherited)
		ofDead := slices.ContainsFunc(r.Inherited, func(x plan.Inherited) bool { return slices.Contains(p.Dead, x.Of) })
		h.Work.AdoptInherited(r.Inherited, nil)
		// A process that lives and starts others all the time keeps its entry.
		if found > 0 && (p.Passes < inheritPasses || ofDead) {
			if p.Passes >= inheritPasses {
				s.Pruning = nil
				return
			}
			break
		}
		for _, seq := range p.Dead {
			if e := h.Work.Journal.At(seq); e != nil {
				h.Work.Mark(e, plan.Gone)
			}
		}
		s.Pruning = nil
		return
	default:
		p.found(h, r)
	}
	if len(p.Dead) == 0 {
		s.Pruning = nil
		return
	}
	p.Passes++
	p.Effect = h.Work.Effect(work.Effect{Kind: work.EffectInherited, Entries: h.Work.Journal.Affinities()})
}

// found notes which settings are of things that are gone.
func (p *pruning) found(h *Host, r *work.Result) {
	for i, e := range p.Asked {
		if i >= len(r.Each) || r.Each[i] == nil || r.Each[i].Code != work.Gone {
			continue
		}
		if e.Seq == 0 {
			h.Work.GiveBack(&e)
		}
		now := h.Work.Journal.At(e.Seq)
		switch {
		case now == nil:
		case journal.Inherits(e.Kind): // no process comes back, whatever its entry says by now
			p.Dead = append(p.Dead, e.Seq)
		case now.New == e.New: // else it may have been made anew
			h.Work.Mark(now, plan.Gone)
		}
	}
}
