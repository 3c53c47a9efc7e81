package interleave

import (
	"strconv"

	"github.com/homenode/homenode/core/control/concern"
	"github.com/homenode/homenode/core/control/work"
	"github.com/homenode/homenode/core/hostprep"
	"github.com/homenode/homenode/core/plan"
	"github.com/homenode/homenode/core/words"
	"github.com/homenode/homenode/core/workload"
)

// ID is the workload that the weights belong to.
const ID workload.ID = "interleave-weights"

// Concern decides on the weights. It remembers nothing.
type Concern struct {
	Set bool // the configuration says so
}

// Name implements concern.Concern.
func (Concern) Name() string { return "interleave" }

// Owns implements concern.Concern.
func (Concern) Owns(e *plan.Entry) bool { return e.Kind == plan.HostFile && e.Workload == ID }

// Ended implements concern.Concern.
func (Concern) Ended(*concern.Scene, *plan.Step, *work.Failure) bool { return false }

// Decide implements concern.Concern. The kernel's own choice is switched off first, so that it is restored last:
// writing a weight would switch it off.
func (c Concern) Decide(sc *concern.Scene) (out concern.Desired) {
	h := sc.Snapshot.Host
	if !c.Set || h == nil || sc.Held(ID) {
		return out
	}
	weights, source := h.InterleaveWeights()
	if weights == nil {
		return out
	}
	set := func(file, to string, why words.Reason) {
		step := plan.Step{
			Kind: plan.SetFile, Workload: ID, To: to, Optional: true, Reason: why,
			Target: plan.Target{Kind: workload.InHost, Host: file},
		}
		if e := sc.Journal.Of(plan.HostFile, file); e != nil {
			step.From = e.New
		}
		out.Settings = append(out.Settings, concern.Desire{Kind: plan.HostFile, Path: file, Step: step})
	}
	set(hostprep.InterleaveAuto, "false", words.Because(words.WeightsOwn))
	for i, w := range weights {
		n := h.Nodes[i].ID
		if w > 0 {
			set(hostprep.InterleaveWeight(n), strconv.Itoa(w), words.Because(words.WeightOf, n, w, string(source)))
		}
	}
	return out
}
