package daemon

import (
	"context"
	"fmt"
	"slices"
	"strconv"

	"github.com/homenode/homenode/api"
	"github.com/homenode/homenode/core/control"
	"github.com/homenode/homenode/core/plan"
	"github.com/homenode/homenode/core/words"
	"github.com/homenode/homenode/core/workload"
)

// moveProcess puts a process with its threads and children on the CPUs of nodes, and moves
// their pages there. What it has now goes into the journal first, so that undo puts it back.
func (l *Local) moveProcess(ctx context.Context, pid int, order api.MoveOrder) (api.MoveAnswer, error) {
	h, o, err := l.Process(ctx, pid)
	if err != nil {
		return api.MoveAnswer{}, &api.Error{Code: api.NotFound, Text: err.Error()}
	}
	a := api.MoveAnswer{Schema: "homenode-move/3", Workload: o.ID, Outcome: plan.Placed, From: h.NodesOf(o.CPUs),
		FromCPUs: o.CPUs, To: order.To, Steps: []plan.Step{}}
	for i := range h.Nodes {
		n := &h.Nodes[i]
		if order.To.Has(n.ID) {
			a.CPUs = a.CPUs.Union(n.CPUs)
		}
	}
	nodes := h.AllNodes()
	if bad := order.To.Minus(nodes); order.To.Empty() || !bad.Empty() {
		return api.MoveAnswer{},
			&api.Error{Code: api.BadRequest, Text: fmt.Sprintf("--to %s: this machine has %s only", order.To,
				words.Nodes(nodes))}
	}
	a.Decision = plan.Decision{Workload: o.ID, Outcome: plan.Placed, Home: order.To}
	target := plan.Target{Kind: workload.InProcess, Processes: o.Processes}
	why := words.Because(words.MovedByHand)
	if !a.CPUs.Empty() { // else the nodes have memory only, and it stays where it runs
		a.Steps = append(a.Steps, plan.Step{Kind: plan.SetCPUs, Workload: o.ID, Target: target, From: o.CPUs.String(),
			To: a.CPUs.String(), Reason: why})
	} else {
		a.CPUs = o.CPUs
	}
	stays := h.Stays(order.To).Intersect(workload.NodesOf(o.Memory))
	if !stays.Empty() {
		target.Stays = stays
	}
	off := int64(workload.Total(o.Memory)-workload.On(o.Memory, order.To.Union(stays))) << 10
	cost := plan.Cost{Bytes: off}
	if pace := l.Settings.Arrange.MoveBandwidth; pace > 0 {
		cost.Seconds = float64(off) / float64(pace)
	}
	a.Steps = append(a.Steps, plan.Step{Kind: plan.MovePages, Workload: o.ID, Target: target, To: order.To.String(),
		Bytes: off, Reason: why, Cost: cost})
	if order.DryRun {
		return a, nil
	}
	err = l.with(ctx, l.OpenOwn, control.Which{}, func(d *Daemon) error {
		if err := d.undivide(ctx, pid); err != nil {
			return err
		}
		r, err := d.once(l.asked(ctx),
			control.Request{Change: &control.Change{Steps: a.Steps, Together: true, Release: true}})
		if err != nil {
			return err
		}
		for _, f := range r.Changed {
			if f != nil {
				return wireError(f)
			}
		}
		if m, ok := d.View().Moves[o.ID]; ok {
			a.Move = &m
		}
		return nil
	})
	return a, err
}

// undivide restores what the threads of a process, and of what it has started, could use before
// they were divided among nodes: the journal would else take that for what they had of their own.
func (d *Daemon) undivide(ctx context.Context, pid int) error {
	done := map[workload.ID]bool{}
	for _, e := range d.View().Journal {
		p, err := plan.ParseProcessPath(e.Path)
		if e.Kind != plan.ThreadCPUs || err != nil || done[e.Workload] ||
			(p.PID != pid && !slices.Contains(d.lineage(strconv.Itoa(p.PID)).PIDs, pid)) {
			continue
		}
		done[e.Workload] = true
		r, err := d.once(ctx, control.Request{Undo: &control.Which{ID: e.Workload, Only: plan.ThreadCPUs}})
		if err != nil {
			return err
		}
		if len(r.Undo.Failed) > 0 {
			return &api.Error{Code: api.Failed,
				Text: fmt.Sprintf("the daemon has divided its threads among nodes, and that could not be restored: %s",
					r.Undo.Failed[0].Error)}
		}
	}
	return nil
}
