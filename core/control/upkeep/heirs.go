package upkeep

import (
	"github.com/homenode/homenode/core/control/scene"
	"github.com/homenode/homenode/core/control/work"
	"github.com/homenode/homenode/core/plan"
	"github.com/homenode/homenode/core/words"
	"github.com/homenode/homenode/core/workload"
)

// FindHeirs asks after processes that workloads have started since their affinity
// was set. One that is younger than a scan is left for the next: most live shorter, and
// those whose makers end meanwhile are found before an entry goes.
func (s *Searches) FindHeirs(h *Host) {
	if s.Inheriting != 0 {
		return
	}
	if s.allAsked(h) {
		return
	}
	asked := make(map[scene.ProcessKey]bool, len(s.Asked))
	var among []workload.Process
	for i := range h.Scene.Snapshot.Observations {
		o := &h.Scene.Snapshot.Observations[i]
		if o.Kind != workload.InProcess {
			continue
		}
		for _, p := range o.Processes {
			known, seen := s.Asked[scene.ProcessKey(p)]
			asked[scene.ProcessKey(p)] = seen
			if seen && !known {
				among = append(among, p)
			}
		}
	}
	s.Asked = asked
	if len(among) == 0 {
		return
	}
	entries := h.Work.Journal.Affinities()
	if len(entries) == 0 {
		return
	}
	s.Inheriting = h.Work.Effect(work.Effect{Kind: work.EffectInherited, Entries: entries, Among: among})
}

// allAsked reports whether of all processes there are it is known if they have inherited.
func (s *Searches) allAsked(h *Host) bool {
	n := 0
	for i := range h.Scene.Snapshot.Observations {
		o := &h.Scene.Snapshot.Observations[i]
		if o.Kind != workload.InProcess {
			continue
		}
		for _, p := range o.Processes {
			if !s.Asked[scene.ProcessKey(p)] {
				return false
			}
		}
		n += len(o.Processes)
	}
	return n == len(s.Asked)
}

func (s *Searches) inheritedResult(h *Host, r *work.Result) {
	s.Inheriting = 0
	if r.Failed != nil {
		h.Once("inherited", plan.Event{Kind: plan.EventStep, Error: true}, words.InheritedFailed, r.Failed.Text)
		for p := range s.Asked { // they are asked again
			s.Asked[p] = false
		}
		return
	}
	h.Over("inherited")
	owner := map[workload.Process]workload.ID{}
	for i := range h.Scene.Snapshot.Observations {
		for _, p := range h.Scene.Snapshot.Observations[i].Processes {
			owner[p] = h.Scene.Snapshot.Observations[i].ID
		}
	}
	ownerOf := func(p workload.Process) (workload.ID, bool) {
		id, ok := owner[p]
		return id, ok
	}
	for _, heir := range h.Work.AdoptInherited(r.Inherited, ownerOf) {
		if p, err := plan.ParseProcessPath(heir.Path); err == nil {
			s.Asked[scene.ProcessKey(p)] = false // it is asked again
		}
	}
}
