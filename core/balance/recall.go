package balance

import (
	"github.com/homenode/homenode/core/place"
	"github.com/homenode/homenode/core/plan"
	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/core/workload"
)

// recall is the knowledge of the newest model about each workload. Facts that depend on the workload, its placement and
// the machine alone are kept as long as these stay the same. All others are found anew at every scan.
type recall struct {
	host      *topology.Host
	workloads []work
	cut       []part // memory for parts to come
	newest    *Use   // the first one of the newest scan
	rising    bool   // workloads and uses have the same order
}

// steadiness is the time for which the use of a workload has not changed.
type steadiness struct {
	looks     int // number of newest samples with this use
	cpus      float64
	bandwidth int64
	accesses  float64
}

// of returns the workloads of a tick as the newest model knows them.
func (r *recall) of(h *topology.Host, n int) []work {
	if r.host == nil || !h.SameMachine(r.host) || len(r.workloads) != n {
		r.workloads, r.newest = make([]work, n), nil
	}
	r.host = h
	return r.workloads
}

// goesOn reports whether the samples continue those of the newest model, and remembers the newest one.
func (r *recall) goesOn(looks []Sample) bool {
	n := len(looks)
	was := r.newest
	r.newest = nil
	if len(looks[n-1].Uses) > 0 {
		r.newest = &looks[n-1].Uses[0]
	}
	return was != nil && n > 1 && len(looks[n-2].Uses) > 0 && was == &looks[n-2].Uses[0]
}

// usesAgain copies the uses of the scan before if its workloads are the same, and reads those that have changed. The
// same subject has the same use at the same level: see follow.
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

// anyNear reports whether any workload has a wish to be near something.
func (r *recall) anyNear(all []*place.Subject) bool {
	for i, s := range all {
		isKnown := i < len(r.workloads) && r.workloads[i].Subject == s && r.workloads[i].lasts
		if !isKnown && len(s.Spec.Near) > 0 {
			return true
		}
	}
	return false
}

// isStill reports whether the kept facts about a workload still hold.
func (w *work) isStill(s *place.Subject, placed *plan.Placement) bool {
	return w.lasts && w.Subject == s && w.placed == placed
}

// restart forgets everything that depends on the samples.
func (w *work) restart() {
	w.flight = nil
	w.pull = nil
	w.required = nil
	w.demand = 0
	w.kept = 0
	w.traffic = 0
	w.accesses = 0
	w.counted = 0
	w.age = 0
	w.seen = 0
	w.measured = false
	w.follows = false
}

// steadyAs returns how steady a workload is.
func (w *work) steadyAs(id workload.ID) steadiness {
	if w.id != id {
		return steadiness{}
	}
	return w.steady
}

// takeUse counts one more sample. u is the use in it, nil if unknown.
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
