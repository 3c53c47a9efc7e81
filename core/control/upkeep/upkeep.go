package upkeep

import (
	"time"

	"github.com/homenode/homenode/core/control/scene"
	"github.com/homenode/homenode/core/control/work"
	"github.com/homenode/homenode/core/plan"
	"github.com/homenode/homenode/core/words"
)

// Searches is two searches: for entries of objects that are gone, and for processes that inherited a setting.
type Searches struct {
	Pruning    *pruning
	Pruned     time.Time                 // when that was last begun
	Inheriting uint64                    // the effect that looks for who has inherited, 0 for none
	Asked      map[scene.ProcessKey]bool // processes seen, and whether it is known if they have inherited
}

// New returns searches that have not begun.
func New() Searches { return Searches{Asked: map[scene.ProcessKey]bool{}} }

// Host is what the searches are about.
type Host struct {
	Scene *scene.Scene
	Work  *work.Work
	Loop
}

// Loop takes what the searches have to report.
type Loop interface {
	// Once writes a line that each scan would repeat only when its text changes.
	Once(key string, e plan.Event, code words.Code, args ...any)
	// Over forgets a line of Once.
	Over(key string)
}

// Result takes up how an effect ended, and reports whether it was one of a search.
func (s *Searches) Result(h *Host, r *work.Result) bool {
	switch {
	case s.Pruning != nil && s.Pruning.Effect == r.ID:
		s.prunedResult(h, r)
	case s.Inheriting == r.ID && r.ID != 0:
		s.inheritedResult(h, r)
	default:
		return false
	}
	return true
}
