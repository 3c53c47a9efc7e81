package work

import (
	"slices"
	"time"

	"github.com/homenode/homenode/core/plan"
	"github.com/homenode/homenode/core/workload"
)

// Dispatch begins what the plan says is left to do, workload by workload: settings at
// once; page moves and memory nodes when transfers may (see traffic).
func (w *Work) Dispatch() {
	if !w.loop.Acts() {
		return
	}
	var transfers []*Transfer
	checking := w.Checking()
	w.FindTargets()
	waits := map[workload.ID]time.Time{}
	for _, group := range Grouped(w.Steps()) {
		if len(w.inUseAs) > 0 && w.InUseElsewhere(group[0].Target.Own(), group[0].Workload) {
			continue
		}
		x := w.dispatchGroup(group, checking)
		if x == nil {
			continue
		}
		waits[x.ID] = w.At
		since, ok := w.Waits[x.ID]
		if ok {
			waits[x.ID] = since
		}
		x.Aged = w.At.Sub(waits[x.ID]) >= AgedAfter
		transfers = append(transfers, x)
	}
	w.Waits = waits
	w.beginSome(transfers)
}

// dispatchRest goes on with the steps of one workload whose settings are set. What waited
// for a transfer to end goes on waiting: none has.
func (w *Work) dispatchRest(id workload.ID) {
	if !w.loop.Acts() {
		return
	}
	group := w.stepsOf(id)
	if len(group) == 0 {
		return
	}
	x := w.dispatchGroup(group, w.Checking())
	if x != nil {
		w.Waits[id] = w.At
		w.beginSome([]*Transfer{x})
	}
}

// dispatchGroup begins the steps of one workload, unless their settings are being read to find who set
// them. It returns a transfer that is to be begun when it may.
func (w *Work) dispatchGroup(group []plan.Step, checking map[workload.ID]bool) *Transfer {
	id := group[0].Workload
	t := w.Tasks[id]
	if t != nil {
		to := goal(group)
		if t.Move != nil && to != "" && t.Move.Home != to { // its home is another one by now
			w.Cancel(id, t)
		}
		return nil
	}
	if checking[id] || !w.mayBegin(id, &group[0]) {
		return nil
	}
	end := w.Ended[id]
	if !group[0].Slow() {
		if end.Settings && !w.Fresh(id) {
			return nil
		}
		n := 1
		for n < len(group) && !group[n].Slow() {
			n++
		}
		w.Begin(id, &Task{Steps: slices.Clone(group[:n]), Scan: w.loop.LastScan()})
		return nil
	}
	if !end.Settings && !w.Fresh(id) { // figures from before a move ended
		return nil
	}
	o := w.loop.Observation(id)
	if o != nil && o.MemoryMoved {
		return nil
	}
	return transferFor(group, o)
}

// mayBegin reports whether nothing hinders a step of a workload now.
func (w *Work) mayBegin(id workload.ID, step *plan.Step) bool {
	if w.Tried[id] || w.loop.Held(id) || w.Undoes(id) {
		return false
	}
	return !w.needsRestored(step) && !w.SilentNow(id) && !w.waiting(step)
}

// beginSome begins those of transfers that may.
func (w *Work) beginSome(transfers []*Transfer) {
	if len(transfers) == 0 {
		return
	}
	host, reserved := w.loop.Room()
	for _, x := range newTraffic(host, reserved, w.transfers()).choose(transfers) {
		delete(w.Waits, x.ID)
		w.Begin(x.ID, &Task{Steps: slices.Clone(x.Steps), Scan: w.loop.LastScan(), Transfer: x})
	}
}

// transfers returns the tasks with a transfer: few of thousands.
func (w *Work) transfers() map[workload.ID]*Task {
	if w.moving == nil {
		w.moving = map[workload.ID]bool{}
		for id, t := range w.Tasks {
			if t.Transfer != nil {
				w.moving[id] = true
			}
		}
	}
	out := make(map[workload.ID]*Task, len(w.moving))
	for id := range w.moving {
		out[id] = w.Tasks[id]
	}
	return out
}

// goal returns where the page move of a workload's steps goes; "" when there is none.
func goal(steps []plan.Step) string {
	for i := range steps {
		if steps[i].Kind.MovesPages() {
			return steps[i].To
		}
	}
	return ""
}
