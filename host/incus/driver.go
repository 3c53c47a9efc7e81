package incus

import (
	"context"

	"github.com/homenode/homenode/core/plan"
	"github.com/homenode/homenode/core/workload"
)

// Driver sets CPUs and memory nodes of a container on its payload cgroup. A container that runs systemd is observed as
// its services: a step about the first of them is about all.
type Driver struct{ plan.Driver }

// Changes implements plan.Driver.
func (d Driver) Changes(ctx context.Context, step plan.Step) ([]plan.Change, error) {
	return d.Driver.Changes(ctx, whole(step))
}

// Apply implements plan.Driver.
func (d Driver) Apply(ctx context.Context, step plan.Step, progress func(plan.Move)) error {
	return d.Driver.Apply(ctx, whole(step), progress)
}

// whole returns a step about the container that its cgroup lies in.
func whole(step plan.Step) plan.Step {
	ofSets := step.Kind == plan.SetCPUs || step.Kind == plan.SetMems
	if !ofSets || step.Target.Kind != workload.InCgroup {
		return step
	}
	at := payloadOf(step.Target.Cgroup)
	if at == "" || at == step.Target.Cgroup {
		return step
	}
	step.Target.Cgroup = at
	step.Target.Object = "" // that of the service
	return step
}
