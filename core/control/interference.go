package control

import (
	"fmt"
	"path"
	"strings"

	"github.com/homenode/homenode/core/place"
	"github.com/homenode/homenode/core/plan"
	"github.com/homenode/homenode/core/share"
	"github.com/homenode/homenode/core/words"
	"github.com/homenode/homenode/core/workload"
)

// interferes learns who hurts whom from what was seen, and says what is to be looked at more
// closely.
func (s *State) interferes(p *plan.Plan, mine []*place.Subject) {
	s.Shared.Watched = map[workload.ID]bool{}
	due, all := share.Due(s.Began, s.Interference.At), []share.Watch(nil)
	k := 0
	for _, x := range s.Subjects { // both rise by ID
		id := x.Observation.ID
		batch := k < len(mine) && mine[k] == x
		if batch {
			k++
		}
		important := !batch && x.Spec.Tier.Important(x.Spec.Class)
		if important {
			for _, part := range s.observed(id) {
				s.Shared.Watched[part] = true
			}
		}
		o := s.observation(id) // a Subject may have the totals of an earlier look
		if !due || o == nil {
			continue
		}
		w := share.Watch{ID: id, As: fmt.Sprint(o.CgroupID, startOf(o)), Importance: workload.DefaultImportance, Important: important, Batch: batch,
			CPUTime: o.CPUTime, Executed: o.Executed, Wait: o.Waited, WaitFrom: o.WaitedFrom, Held: o.Throttled > 0 || o.Executed.Cycles == 0 && fills(o)}
		if at := place.Of(p.Placements, id); at != nil { // on another node other figures are usual
			w.Importance, w.As = at.Importance, fmt.Sprint(w.As, " ", at.Home)
		}
		all = append(all, w)
	}
	switch {
	case len(s.Shared.Watched) == 0:
		s.Interference = share.Interference{}
	case due:
		s.Interference = s.Interference.Look(s.Began.Round(0).UTC(), all, s.Settings.Share.MaxWait)
		for _, b := range s.Interference.Blames {
			if s.acts() && b.Since.Equal(s.Interference.At) {
				s.event(plan.Event{Kind: plan.EventHost, Workload: b.Offender}, words.ShareFound, string(b.Victim), b.Score, b.Samples, b.Until.Sub(b.Since))
			}
		}
	}
	s.Shared.Interference = s.Interference
}

// unitOf is the unit of systemd that a batch workload is, where systemd may be asked to stop
// it; "" for none. Units below user.slice are of the user's own manager.
func (s *State) unitOf(x *place.Subject) string {
	cgroup := s.ownCgroup(x)
	unit := path.Base(cgroup)
	if !s.Settings.Share.Stop || strings.HasPrefix(cgroup, "/user.slice/") || !strings.HasSuffix(unit, ".service") && !strings.HasSuffix(unit, ".scope") {
		return ""
	}
	for _, slice := range strings.Split(strings.Trim(path.Dir(cgroup), "/"), "/") { // within another unit its name is anybody's
		if slice != "" && !strings.HasSuffix(slice, ".slice") {
			return ""
		}
	}
	return unit
}

// toldStopped is where Told has the unit that systemd was asked to stop.
const toldStopped = "stopped "

// askManagers tells, for who listens, of whom the manager is asked now. Who can stop it hears
// the event; a unit is stopped by a step.
func (s *State) askManagers() {
	at := s.Began.Round(0).UTC()
	for i := range s.Shared.Work {
		g := &s.Shared.Work[i]
		if g.Asked.IsZero() {
			s.over(toldStopped + string(g.Workload))
		} else if g.Asked.Equal(at) {
			s.over(toldStopped + string(g.Workload)) // it is asked once more
			s.event(plan.Event{Kind: plan.EventHost, Workload: g.Workload, Error: true}, g.Why.Code, g.Why.Args...)
		}
	}
}
