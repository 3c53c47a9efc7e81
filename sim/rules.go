package sim

import (
	"fmt"
	"slices"
)

// Breaks is what the daemon did in a scenario that it must never do, whatever the
// seed: go back within the ban, change more than three homes an hour for each guest
// (six are the most for any one, docs/design/balancing.md), move anything where nothing is wrong, or break a rule.
func (t *Trace) Breaks(s *Score) []string {
	var out []string
	if s.Failure != nil {
		out = append(out, s.Failure.Error())
	}
	if s.Returned > 0 {
		out = append(out, fmt.Sprintf("%d homes changed back within %v", s.Returned, returnTime))
	}
	if most := 3 * float64(s.Arrivals) * max(1, t.Until.Hours()); float64(s.Rehomed) > most {
		out = append(out, fmt.Sprintf("%d homes changed in %v, of %d guests", s.Rehomed, t.Until, s.Arrivals))
	}
	if slices.Contains(Calm, t.Name) && s.Rehomed+s.Moves > 0 {
		out = append(out, fmt.Sprintf("%d homes changed, %d page moves, and nothing was wrong", s.Rehomed, s.Moves))
	}
	return out
}
