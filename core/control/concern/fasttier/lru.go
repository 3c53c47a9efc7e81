package fasttier

import (
	"github.com/homenode/homenode/core/control/concern"
	"github.com/homenode/homenode/core/hostprep"
	"github.com/homenode/homenode/core/plan"
	"github.com/homenode/homenode/core/words"
	"github.com/homenode/homenode/core/workload"
)

// LRU is the workload that the kernel's choice of LRU belongs to.
const LRU workload.ID = "kernel-lru"

// lru desires the kernel's older LRU where memory.low protects work. The LRU of generations reclaims a protected cgroup
// once in each round over all cgroups (shrink_one, mm/vmscan.c), and a batch job that fills its memory brings several
// rounds a second.
//
// The choice is the whole host's, and while the kernel sorts its pages anew no cgroup is made. So it is made once, and
// stands whichever work comes and goes.
func (t *turn) lru() {
	if !t.places() || t.kind != plan.MemoryLow || t.KeepLRU || t.Held(LRU) {
		return
	}
	step := plan.Step{
		Kind: plan.SetFile, Workload: LRU, To: hostprep.NoGenerations, Optional: true,
		Reason: words.Because(words.FastLRU),
		Target: plan.Target{Kind: workload.InHost, Host: hostprep.Generations},
	}
	e := t.Journal.Of(plan.HostFile, hostprep.Generations)
	switch {
	case e != nil:
		step.From = e.New
	case !t.Snapshot.Host.Tiering.Generations || !t.protects():
		return
	}
	t.out.Settings = append(t.out.Settings, concern.Desire{Kind: plan.HostFile, Path: hostprep.Generations, Step: step})
}

// protects reports whether any work is protected.
func (t *turn) protects() bool {
	for _, x := range t.work {
		if x.low > 0 {
			return true
		}
	}
	return false
}
