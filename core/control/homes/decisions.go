package homes

import (
	"slices"

	"github.com/homenode/homenode/core/plan"
	"github.com/homenode/homenode/core/workload"
)

// Decisions is why homes were chosen.
type Decisions struct {
	all   map[workload.ID]plan.Decision // never changed
	since []plan.Decision               // newer ones
}

// Of returns the decision that gave a workload its home.
func (d *Decisions) Of(id workload.ID) (plan.Decision, bool) {
	for i := range slices.Backward(d.since) {
		if d.since[i].Workload == id {
			return d.since[i], true
		}
	}
	one, ok := d.all[id]
	return one, ok
}

// Choose remembers why a home was chosen.
func (h *Homes) Choose(d *plan.Decision) { h.chosen = append(h.chosen, *d) }

// Decisions returns why homes were chosen.
func (h *Homes) Decisions() Decisions { return Decisions{h.Chosen, h.chosen} }

// AllChosen brings Chosen up to date. Readers have the map as it was.
func (h *Homes) AllChosen() map[workload.ID]plan.Decision {
	if len(h.chosen) > 0 {
		h.Chosen, h.kept = cloned(h.Chosen), nil
		for i := range h.chosen {
			h.Chosen[h.chosen[i].Workload] = h.chosen[i]
		}
		h.chosen = nil
	}
	return h.Chosen
}

// KeepDecisions remembers why homes were chosen: a kept home is later explained by what
// spoke for it when it was new. It reports whether Chosen is to be saved.
func (h *Homes) KeepDecisions(seen uint64) bool {
	h.AllChosen()
	if h.sameDecisions() {
		return false
	}
	chosen := make(map[workload.ID]plan.Decision, len(h.Chosen))
	renewed := false
	for i := range h.Plan.Report.Decisions {
		d := &h.Plan.Report.Decisions[i]
		old, ok := h.Chosen[d.Workload]
		kept := d.Outcome == plan.Kept && ok && old.Home.Equal(d.Home)
		switch {
		case d.Outcome == plan.Placed:
			chosen[d.Workload] = *d
			renewed = true
		case kept:
			chosen[d.Workload] = old
		}
	}
	for id, a := range h.Admissions { // not in the plan's report yet
		old, ok := h.Chosen[id]
		unseen := ok && a.Scan >= seen
		if unseen && chosen[id].Outcome == "" {
			chosen[id] = old
		}
	}
	changed := renewed || len(chosen) != len(h.Chosen)
	h.Chosen, h.kept = chosen, nil // replaced at the next scan, never changed
	return changed
}

// sameDecisions reports whether the homes that were chosen are those that were kept.
func (h *Homes) sameDecisions() bool {
	now := h.Plan.Report.Decisions
	if h.kept != nil && sameHomes(h.kept, now) {
		return true
	}
	n := 0
	for i := range now {
		d := &now[i]
		switch d.Outcome {
		case plan.Placed:
			return false
		case plan.Kept:
			old, ok := h.Chosen[d.Workload]
			if ok && old.Home.Equal(d.Home) {
				n++
			}
		}
	}
	same := n == len(h.Chosen)
	h.kept = nil
	if same {
		h.kept = now
	}
	return same
}

// sameHomes reports whether two lists of decisions are about the same homes.
func sameHomes(a, b []plan.Decision) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		x, y := &a[i], &b[i]
		if x.Workload != y.Workload || x.Outcome != y.Outcome || !x.Home.Equal(y.Home) {
			return false
		}
	}
	return true
}
