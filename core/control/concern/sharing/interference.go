package sharing

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
func (t *turn) interferes() {
	p, mine := t.Plan, t.mine
	t.Shared.Watched = map[workload.ID]bool{}
	due, all := share.Due(t.Began, t.Interference.At), []share.Watch(nil)
	k := 0
	for _, x := range t.Subjects { // both rise by ID
		id := x.Observation.ID
		batch := k < len(mine) && mine[k] == x
		if batch {
			k++
		}
		important := !batch && (x.Spec.Tier.Important(x.Spec.Class) || len(x.Spec.Goals) > 0)
		if important {
			for _, part := range t.Observed(id) {
				t.Shared.Watched[part] = true
			}
		}
		o := t.Observation(id) // a Subject may have the totals of an earlier look
		if !due || o == nil {
			continue
		}
		w := share.Watch{ID: id, As: fmt.Sprint(o.CgroupID, t.Start(o)), Importance: workload.DefaultImportance,
			Important: important, Batch: batch,
			CPUTime: o.CPUTime, Executed: o.Executed, Wait: o.Waited, WaitFrom: o.WaitedFrom, Held: o.Throttled > 0 ||
				(o.Executed.Cycles == 0 && fills(o))}
		if at := place.Of(p.Placements, id); at != nil { // on another node other figures are usual
			w.Importance, w.As = at.Importance, fmt.Sprint(w.As, " ", at.Home)
		}
		all = append(all, w)
	}
	switch {
	case len(t.Shared.Watched) == 0:
		t.Interference = share.Interference{}
	case due:
		t.Interference = t.Interference.Look(t.Began.Round(0).UTC(), all, t.settings.Share.MaxWait)
		for _, b := range t.Interference.Blames {
			if t.Acts && b.Since.Equal(t.Interference.At) {
				t.Event(plan.Event{Kind: plan.EventHost, Workload: b.Offender}, words.ShareFound, string(b.Victim),
					b.Score, b.Samples, b.Until.Sub(b.Since))
			}
		}
	}
	t.Shared.Interference = t.Interference
}

// unitOf is the unit of systemd that a batch workload is, where systemd may be asked to stop
// it; "" for none. Units below user.slice are of the user's own manager.
func (t *turn) unitOf(x *place.Subject) string {
	cgroup := t.OwnCgroup(&x.Observation)
	unit := path.Base(cgroup)
	if !t.settings.Share.Stop || strings.HasPrefix(cgroup, "/user.slice/") ||
		(!strings.HasSuffix(unit, ".service") && !strings.HasSuffix(unit, ".scope")) {
		return ""
	}
	// within another unit its name is anybody's
	for _, slice := range strings.Split(strings.Trim(path.Dir(cgroup), "/"), "/") {
		if slice != "" && !strings.HasSuffix(slice, ".slice") {
			return ""
		}
	}
	return unit
}

// tellAsked writes into the history whose manager is asked to stop a workload. A program that
// listens can stop it; a unit of systemd is stopped by a step.
func (t *turn) tellAsked() {
	at := t.Began.Round(0).UTC()
	for i := range t.Shared.Work {
		g := &t.Shared.Work[i]
		switch {
		case g.Asked.IsZero():
			delete(t.Stopped, g.Workload)
		case g.Asked.Equal(at):
			delete(t.Stopped, g.Workload) // it is asked once more
			t.Event(plan.Event{Kind: plan.EventHost, Workload: g.Workload, Error: true}, g.Why.Code, g.Why.Args...)
		}
	}
}
