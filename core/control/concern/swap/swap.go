package swap

import (
	"github.com/homenode/homenode/core/control/concern"
	"github.com/homenode/homenode/core/control/work"
	"github.com/homenode/homenode/core/plan"
	"github.com/homenode/homenode/core/words"
	"github.com/homenode/homenode/core/workload"
)

// Concern decides which work may swap. It remembers nothing.
type Concern struct {
	Never bool // dedicated work does not swap
}

// Name implements concern.Concern.
func (Concern) Name() string { return "swap" }

// Owns implements concern.Concern.
func (Concern) Owns(e *plan.Entry) bool { return e.Kind == plan.SwapMax }

// Ended implements concern.Concern.
func (Concern) Ended(*concern.Scene, *plan.Step, *work.Failure) bool { return false }

// Decide implements concern.Concern.
func (c Concern) Decide(sc *concern.Scene) (out concern.Desired) {
	if !c.Never {
		return out
	}
	for x, home := range sc.Placed() {
		o := &x.Observation
		cgroup := sc.OwnCgroup(o)
		if home.Class != workload.Dedicated || cgroup == "" || sc.Held(o.ID) {
			continue
		}
		out.Settings = append(out.Settings, sc.File(o, cgroup, plan.SwapMax, "0", words.Because(words.NeverSwaps)))
	}
	return out
}
