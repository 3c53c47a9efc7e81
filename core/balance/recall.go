package balance

import (
	"github.com/homenode/homenode/core/place"
	"github.com/homenode/homenode/core/plan"
	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/core/workload"
)

// recall is what the newest model found out of each workload. What it found by the workload, its placement and the
// machine alone stays as long as these do; the rest is found anew at every look.
type recall struct {
	host      *topology.Host
	workloads []work
	cut       []part // memory for parts to come
	newest    *Use   // the first of the newest look
	rising    bool   // the workloads are in the order of its uses
}

// steadiness is for how long a workload has used the same.
type steadiness struct {
	looks     int // the newest ones, in all of which it used this
	cpus      float64
	bandwidth int64
	accesses  float64
}

// of returns room for the workloads of a tick, with what is known of them.
func (r *recall) of(h *topology.Host, n int) []work {
	if r.host == nil || !h.SameMachine(r.host) || len(r.workloads) != n {
		r.workloads, r.newest = make([]work, n), nil
	}
	r.host = h
	return r.workloads
}

// goesOn reports whether looks go on from the newest one, and takes up the next.
func (r *recall) goesOn(looks []Sample) bool {
	n := len(looks)
	was := r.newest
	r.newest = nil
	if len(looks[n-1].Uses) > 0 {
		r.newest = &looks[n-1].Uses[0]
	}
	return was != nil && n > 1 && len(looks[n-2].Uses) > 0 && was == &looks[n-2].Uses[0]
}

// usesAgain fills in what workloads used if they are those of the look before, read by the newest model. One that is the
// same subject used the same, and at the same level: see follow.
func (r *recall) usesAgain(in *Input, before []Use, l *Sample) bool {
	n := len(in.Subjects)
	if n == 0 || len(before) != n || len(r.workloads) != n || !r.rising || r.newest != &before[0] {
		return false
	}
	if !in.State.Host.SameMachine(r.host) {
		return false
	}
	uses := make([]Use, n)
	at := indexByID(in.State.Host)
	for i, s := range in.Subjects {
		w := &r.workloads[i]
		if w.Subject == s {
			uses[i] = before[i]
			for _, p := range w.online {
				l.Busy[p.node] += p.share * before[i].CPUs
			}
			continue
		}
		if s.Observation.ID != before[i].Workload {
			clear(l.Busy)
			return false
		}
		uses[i] = l.useOf(s, at)
		uses[i].follow(&before[i])
	}
	l.Uses = uses
	return true
}

// anyNear reports whether a workload is to be near to anything.
func (r *recall) anyNear(all []*place.Subject) bool {
	for i, s := range all {
		isKnown := i < len(r.workloads) && r.workloads[i].Subject == s && r.workloads[i].lasts
		if !isKnown && len(s.Spec.Near) > 0 {
			return true
		}
	}
	return false
}

// isStill reports whether what was found of a workload is right for what is now.
func (w *work) isStill(s *place.Subject, placed *plan.Placement) bool {
	return w.lasts && w.Subject == s && w.placed == placed
}

// lookAgain forgets what goes by the looks.
func (w *work) lookAgain() {
	w.flight, w.pull, w.required = nil, nil, nil
	w.demand, w.kept, w.traffic, w.accesses, w.counted, w.age = 0, 0, 0, 0, 0, 0
	w.seen, w.measured, w.follows = 0, false, false
}

// steadyAs returns how steady a workload is.
func (w *work) steadyAs(id workload.ID) steadiness {
	if w.id != id {
		return steadiness{}
	}
	return w.steady
}

// takeUse counts one more look; u is its use there, nil where that is not known.
func (w *work) takeUse(u *Use, goesOn bool) {
	s := &w.steady
	if u == nil {
		*s = steadiness{}
		return
	}
	if !goesOn || u.CPUs != s.cpus || u.Bandwidth != s.bandwidth || u.Accesses != s.accesses {
		*s = steadiness{cpus: u.CPUs, bandwidth: u.Bandwidth, accesses: u.Accesses}
	}
	s.looks++
}
