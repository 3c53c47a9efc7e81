package homes

import (
	"time"

	"github.com/homenode/homenode/core/workload"
)

const (
	// hurryFor is how long scans follow one another quickly once work has a home of several nodes: work that has just
	// begun starts its threads, and each fills its memory, in its first seconds.
	hurryFor = 10 * time.Second
	// hurryMost is how much hurry the whole host has at once, enough for three such starts one after the other. Every
	// user can start wide work again and again, and a scan reads the whole host.
	hurryMost = 30 * time.Second
	// hurryWithin is the time in which a spent budget is full again: in the long run scans hurry a tenth of the time.
	hurryWithin = 5 * time.Minute
)

// Wide is the workloads whose home has several nodes.
type Wide struct {
	IDs   map[workload.ID]bool // by what the observer calls them; it is not to be changed
	Hurry time.Time            // until when scans follow one another quickly

	full time.Time // when the budget for hurry is full again; past: it is full
}

// Follow takes up which homes there are now. parts returns what the observer calls the parts of a workload.
func (w *Wide) Follow(all []workload.Placement, parts func(workload.ID) []workload.ID, now time.Time) {
	if w.Hurry.After(now.Add(hurryFor)) { // the clock went back
		w.Hurry, w.full = now, now
	}
	was, begins := w.IDs, false
	w.IDs = nil
	for i := range all {
		if all[i].Home.Len() < 2 {
			continue
		}
		if w.IDs == nil {
			w.IDs = map[workload.ID]bool{}
		}
		for _, part := range parts(all[i].Workload) {
			w.IDs[part] = true
			begins = begins || !was[part]
		}
	}
	if begins {
		w.hurry(now)
	}
}

// hurry has scans follow one another quickly for hurryFor from now on, as far as the budget goes. What the hurry
// lasted already is paid.
func (w *Wide) hurry(now time.Time) {
	const price = hurryWithin / hurryMost // the time in which what a hurry cost comes back, by its length
	from, full := latest(now, w.Hurry), latest(now, w.full)
	left := max(0, hurryMost-full.Sub(now)/price)
	more := min(left, now.Add(hurryFor).Sub(from))
	w.Hurry, w.full = from.Add(more), full.Add(more*price)
}

func latest(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}
