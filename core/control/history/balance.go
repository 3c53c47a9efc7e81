package history

import (
	"reflect"
	"slices"
	"time"

	"github.com/homenode/homenode/core/balance"
	"github.com/homenode/homenode/core/control/scene"
	"github.com/homenode/homenode/core/plan"
	"github.com/homenode/homenode/core/words"
)

// Swing is the least time between two lines that report a short node without a remedy, or its end: demand may swing
// around the limit for hours.
const Swing = 10 * time.Minute

// Balance writes what is done about the load, and when the reason for doing nothing
// becomes another one.
func (l *Lines) Balance(h *Host, r *balance.Report) {
	e := plan.Event{Kind: plan.EventPlan}
	key := string(r.State)
	if r.Chosen != nil {
		e.Workload = r.Chosen.Changes[0].Workload
		for _, c := range r.Chosen.Changes {
			key += " " + string(c.Workload) + " " + c.To.String()
		}
	}
	calm := r.State == balance.NoChoice || r.State == balance.InOrder
	news := l.Balanced != key && (r.State != balance.NoChoice || l.Balanced == "" ||
		l.Balanced == string(balance.InOrder))
	if news && calm && (l.Balanced == string(balance.NoChoice) || l.Balanced == string(balance.InOrder)) {
		if h.At.Sub(l.Swung) < Swing {
			return
		}
		l.Swung = h.At
	}
	quiet := l.Balanced == "" && r.State != balance.Would && r.State != balance.Moves
	l.Balanced = key
	if news && !quiet && r.State != balance.Learning {
		v := r.Verdict()
		l.Event(h, e, v.Code, v.Args...)
	}
}

// ManagersChanged reports managers that came or went.
func (l *Lines) ManagersChanged(h *Host, before, now []scene.Manager) {
	among := func(all []scene.Manager, m scene.Manager) bool {
		return slices.ContainsFunc(all, func(x scene.Manager) bool { return reflect.DeepEqual(x, m) })
	}
	for _, m := range before {
		if !among(now, m) && !slices.ContainsFunc(now, func(x scene.Manager) bool { return x.Name == m.Name }) {
			l.Event(h, plan.Event{Kind: plan.EventHost}, words.ManagerGone, m.Name, m.Does)
		}
	}
	for _, m := range now {
		if !among(before, m) {
			if m.Owns == "" {
				l.Event(h, plan.Event{Kind: plan.EventHost}, words.ManagerSeen, m.Name, m.Does)
			} else {
				l.Event(h, plan.Event{Kind: plan.EventHost}, words.ManagerSeenOwns, m.Name, m.Does, m.Owns)
			}
		}
	}
}
