package see

import (
	"fmt"

	"github.com/homenode/homenode/api"
	"github.com/homenode/homenode/core/words"
	"github.com/homenode/homenode/ui/cli"
	"github.com/homenode/homenode/ui/view"
)

const (
	// wellLocal is the share of local accesses from which a workload is not worth a word.
	wellLocal = 0.95
	// longestName is how many columns the name of a workload has.
	longestName = 32
)

// inShort is the state of a host of several nodes in one line, "" where there is nothing to say: how many workloads are
// at home, how local they are, and which is the least local.
func inShort(s *api.Status, p view.Paint) string {
	placed := 0
	for i := range s.Workloads {
		if s.Workloads[i].State != api.StateLeftAlone {
			placed++
		}
	}
	if s.OneNode() || placed == 0 {
		return ""
	}
	good := s.AtHome() == placed
	text := fmt.Sprintf("%d of %s at home", s.AtHome(), words.Count(placed, "workload"))
	now, plan := s.Locality()
	if now != nil {
		text += fmt.Sprintf("; %s of accesses local, %s by plan", cli.Percent(now), cli.Percent(plan))
	}
	worst := s.Worst()
	if worst != nil && *worst.Locality < wellLocal {
		good = false
		name := view.Short(cli.Label(*worst), longestName)
		text += fmt.Sprintf("; least local: %s, %s", name, cli.Percent(worst.Locality))
	}
	if good {
		return p.Best(text)
	}
	return p.Warn(text)
}
