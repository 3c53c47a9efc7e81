package daemon

import (
	"context"
	"math"
	"time"

	"github.com/homenode/homenode/api"
	"github.com/homenode/homenode/core/control"
	"github.com/homenode/homenode/core/trial"
)

// Trial begins, switches, renews or ends a trial.
func (d *Daemon) Trial(ctx context.Context, o api.TrialOrder) (api.Trial, error) {
	var kernel []trial.Arm
	if o.Balancing {
		kernel = append(kernel, trial.Balancing)
	}
	if o.Caches {
		kernel = append(kernel, trial.Caches)
	}
	r,
		err := d.request(ctx, control.Request{Trial: &control.TrialOrder{Name: o.Name, Arm: o.Arm, Begin: o.Begin,
		End: o.End, Names: o.Workloads, Kernel: kernel,
		Lease: time.Duration(max(-1, min(o.LeaseS, math.MaxInt32))) * time.Second, Block: o.Block, Blocks: o.Blocks}})
	if err != nil || r.Trial == nil {
		return api.Trial{}, err
	}
	return wireSwitchback(r.Trial), nil
}

func wireSwitchback(now *control.TrialNow) api.Trial {
	out := api.Trial{Schema: "homenode-trial-arm/1", Settled: now.Settled, Pending: now.Pending}
	if t := now.Trial; t != nil {
		out.Name = t.Name
		out.Arm = t.Arm
		out.Workloads = t.Names
		out.Block = t.Block
		out.Blocks = t.Blocks
		out.Began = t.Began
		out.Since = t.Since
		out.Until = t.Until
		if t.Ending != nil {
			out.Ending = t.Ending.String()
		}
	}
	return out
}
