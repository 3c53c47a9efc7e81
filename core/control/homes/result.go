package homes

import (
	"github.com/homenode/homenode/core/balance"
	"github.com/homenode/homenode/core/plan"
	"github.com/homenode/homenode/core/words"
	"github.com/homenode/homenode/core/workload"
)

// Result is what a request led to.
type Result struct {
	Placed  *Placed
	Refused *Refusal
	Save    Save
	Event   *Event // for the history; nil for none
}

// Save is what is to be saved; nil is as it was.
type Save struct {
	Placements *plan.Homes
	Admissions *Admitted
	Chosen     map[workload.ID]plan.Decision
	Past       []balance.HomeChange // changes of home
}

// Event is one line of the history.
type Event struct {
	Workload workload.ID
	Code     words.Code
	Values   []any
}

// refused answers with what stands in the way.
func refused(kind RefusalKind, code words.Code, values ...any) Result {
	return Result{Refused: refuse(kind, code, values...)}
}

func (s *Save) placements(h *Homes) { s.Placements = h.SavePlacements() }

func (s *Save) admissions(h *Homes) {
	s.Admissions = new(h.SaveAdmissions())
}

// admission keeps one admission more.
func (s *Save) admission(h *Homes, id workload.ID, a Admission) {
	s.Admissions = new(h.Admit(id, a))
}
