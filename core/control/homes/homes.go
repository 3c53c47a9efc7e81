package homes

import (
	"slices"

	"github.com/homenode/homenode/core/balance"
	"github.com/homenode/homenode/core/place"
	"github.com/homenode/homenode/core/plan"
	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/core/workload"
)

// Homes is which home each workload has, and why. Its owner may change what it refers to,
// except for what was handed out.
type Homes struct {
	Admissions map[workload.ID]Admission
	Chosen     map[workload.ID]plan.Decision   // why each home was chosen, for as long as it is kept; see Choose
	History    balance.History                 // of it the changes of home
	Orders     []balance.HomeChange            // changes of home that were ordered since the newest scan
	Plan       plan.Plan                       // Steps are those left to do
	Facts      plan.State                      // the plan was made on
	Given      map[workload.ID]topology.CPUSet // affinity homenode gave, for the observer

	// Requests add to these since the newest scan, so that one home more does not cost a copy
	// of all.
	homes    *plan.Homes     // Plan.Placements and what was booked; nil when nothing was: see Placements
	saved    *plan.Homes     // as last written
	chosen   []plan.Decision // not in Chosen yet
	kept     []plan.Decision // by which Chosen stays as it is; nil when not known
	admitted Admitted        // as last written

	ledger    *place.Ledger // of Plan.Placements and admissions, for requests
	givenSeen bool          // all of Given were in the newest scan
}

// New returns the homes that an earlier daemon has saved.
func New(
	admissions map[workload.ID]Admission, chosen map[workload.ID]plan.Decision, placements []workload.Placement,
) Homes {
	h := Homes{
		Admissions: make(map[workload.ID]Admission, len(admissions)),
		Chosen:     cloned(chosen),
		Given:      map[workload.ID]topology.CPUSet{},
	}
	for id, a := range admissions {
		a.Scan = 0 // scans are counted from the start of a daemon
		h.Admissions[id] = a
		if !a.Placement.CPUs.Empty() { // not known of versions before
			h.Given[id] = a.Placement.CPUs // `homenode run` set these itself: they have no journal entry
		}
	}
	h.Plan.Placements = sharing(placements)
	h.saved = plan.HomesOf(h.Plan.Placements)
	return h
}

// Placements returns the placements as they are now: Plan.Placements is brought up to date.
func (h *Homes) Placements() []workload.Placement {
	if h.homes != nil {
		all := h.homes.All()
		if h.saved == h.homes {
			h.saved = plan.HomesOf(all)
		}
		h.Plan.Placements, h.homes = all, nil
	}
	return h.Plan.Placements
}

// remove takes the placements of some workloads out of the newest plan.
func (h *Homes) remove(gone func(workload.ID) bool) {
	all := slices.Clone(h.Placements())
	h.Plan.Placements = slices.DeleteFunc(all, func(p workload.Placement) bool { return gone(p.Workload) })
}

// Written returns the placements as they were last saved.
func (h *Homes) Written() []workload.Placement { return h.saved.All() }

// SetWritten says which placements are saved.
func (h *Homes) SetWritten(placements []workload.Placement) { h.saved = plan.HomesOf(placements) }

// SavePlacements returns the placements to be saved.
func (h *Homes) SavePlacements() *plan.Homes {
	h.saved = h.homes
	if h.saved == nil {
		h.saved = plan.HomesOf(h.Plan.Placements)
	}
	return h.saved
}

// Unsaved reports whether the newest plan has other placements than those saved.
func (h *Homes) Unsaved() bool { return !SamePlacements(h.saved.All(), h.Plan.Placements) }

// SaveAdmissions returns the admissions to be saved.
func (h *Homes) SaveAdmissions() Admitted {
	h.admitted = Admitted{all: cloned(h.Admissions)}
	return h.admitted
}

// Admit keeps an admission and returns those to be saved.
func (h *Homes) Admit(id workload.ID, a Admission) Admitted {
	h.Admissions[id] = a
	if !h.admitted.with(id, a) {
		return h.SaveAdmissions()
	}
	return h.admitted
}

// Admitted returns the admissions as they were last saved.
func (h *Homes) Admitted() Admitted {
	if h.admitted.all == nil { // as at the start
		h.admitted.all = cloned(h.Admissions)
	}
	return h.admitted
}

// Give notes the affinity that homenode gave a workload.
func (h *Homes) Give(id workload.ID, cpus topology.CPUSet) {
	h.Given[id], h.givenSeen = cpus, false
}
