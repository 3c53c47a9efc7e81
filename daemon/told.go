package daemon

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/homenode/homenode/api"
	"github.com/homenode/homenode/core/balance"
	"github.com/homenode/homenode/core/plan"
	"github.com/homenode/homenode/core/workload"
)

// Move gives a workload the home that an operator names, or cancels its page move.
// The loop carries it out like any other change.
func (d *Daemon) Move(_ context.Context, order api.MoveOrder) (api.MoveAnswer, error) {
	if order.ID == "" {
		return api.MoveAnswer{}, &api.Error{Code: api.BadRequest, Text: "name a workload; `homenode status` lists them"}
	}
	if order.Cancel {
		return d.cancelMove(order)
	}
	if order.To.Empty() {
		return api.MoveAnswer{}, &api.Error{Code: api.BadRequest, Text: "name the nodes to move to, such as --to 1"}
	}
	d.deciding.Lock()
	answer, err := d.rehome(order)
	d.deciding.Unlock()
	if err == nil && answer.Outcome == plan.Placed && !order.DryRun {
		// One to the old home would only have to come back.
		d.cancelMoves(func(id workload.ID) bool { return id == answer.Workload })
	}
	return answer, err
}

// rehome decides on an order and writes the new home into the ledger. d.deciding is held.
func (d *Daemon) rehome(order api.MoveOrder) (api.MoveAnswer, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	o, err := d.find(order.ID)
	if err != nil {
		return api.MoveAnswer{}, err
	}
	id := o.ID
	if err := d.mayMove(id, order); err != nil {
		return api.MoveAnswer{}, err
	}
	now := d.o.Clock.Now()
	before := d.view
	state := before.state
	state.Placements = before.plan.Placements
	in := d.input(now, state, before.snapshot)
	next, dec := balance.Told(in, id, order.To)
	answer := api.MoveAnswer{Schema: "homenode-move/1", Workload: id, Outcome: dec.Outcome, Decision: dec, Steps: []plan.Step{}}
	if was := placementOf(before.plan.Placements, id); was != nil {
		answer.From, answer.FromCPUs = was.Home, was.CPUs
	}
	switch dec.Outcome {
	case plan.Kept:
		answer.To, answer.CPUs = answer.From, answer.FromCPUs
		if order.DryRun {
			return answer, nil
		}
		d.tryAgain(id)
		return answer, d.release(id)
	case plan.Placed:
	default:
		return answer, &api.Error{Code: api.NoRoom, Text: fmt.Sprintf("%s is not moved: %s", id, strings.Join(dec.Reasons, " "))}
	}
	bear(next.Placements, before.snapshot)
	if why := halt(plan.CheckPlan(state, next)); why != "" {
		return answer, &api.Error{Code: api.Failed, Text: why}
	}
	p := placementOf(next.Placements, id)
	answer.To, answer.CPUs = p.Home, p.CPUs
	for _, s := range next.Steps {
		if s.Workload == id {
			answer.Steps = append(answer.Steps, s)
		}
	}
	if order.DryRun {
		return answer, nil
	}
	return answer, d.settle(id, next, dec, answer)
}

// settle makes an ordered change of home the newest plan. d.mu and d.deciding are held.
func (d *Daemon) settle(id workload.ID, next plan.Plan, dec plan.Decision, answer api.MoveAnswer) error {
	if err := d.release(id); err != nil {
		return err
	}
	told := balance.Past{Workload: id, From: answer.From, To: answer.To, At: d.o.Clock.Now().Round(0).UTC()}
	d.unpast = true
	// The ban on going back outlives a daemon that ends before its next look.
	if err := d.o.Store.Save(keyPast, slices.Concat(d.memory.Past, d.orders, []balance.Past{told})); err != nil {
		return err
	}
	if err := d.o.Store.SavePlacements(next.Placements); err != nil {
		return err
	}
	d.view.plan, d.saved = next, next.Placements
	d.chosen[id], d.whys = dec, true
	d.orders = append(d.orders, told)
	d.tryAgain(id) // what failed on the way to the old home says nothing of the new one
	d.event(plan.Event{Kind: plan.EventPlan, Workload: id, Text: fmt.Sprintf(
		"told to move: home is node %s, CPUs %s, after node %s, CPUs %s", answer.To, answer.CPUs, answer.From, answer.FromCPUs)})
	return nil
}

// release ends the hold of one workload. d.mu is held.
func (d *Daemon) release(id workload.ID) error {
	if !d.held.IDs[id] {
		return nil
	}
	held := holds{All: d.held.All, IDs: maps.Clone(d.held.IDs)}
	delete(held.IDs, id)
	if err := d.o.Store.Save(keyHolds, held); err != nil {
		return err
	}
	d.held = held
	return nil
}

// tryAgain lets what was put off be tried at the next look. d.mu is held.
func (d *Daemon) tryAgain(id workload.ID) {
	maps.DeleteFunc(d.tries, func(key string, _ *retry) bool { return strings.HasPrefix(key, string(id)+" ") })
}

// mayMove is why an order is not even looked at. d.mu is held.
func (d *Daemon) mayMove(id workload.ID, order api.MoveOrder) error {
	no := func(code api.Code, format string, a ...any) error {
		return &api.Error{Code: code, Text: fmt.Sprintf(format, a...)}
	}
	switch {
	case ofLibvirt(id), d.guests.by[id] != nil && d.guests.by[id].Home.Placement.Class == workload.Dedicated:
		return no(api.NoRoom, "%s is a guest of libvirt, which would set its CPUs and memory nodes again; use homenode vm move", id)
	case order.DryRun:
		return nil
	case d.o.Config.Mode != Enforce:
		return no(api.Forbidden, "the daemon runs in %s mode and changes nothing; say --dry-run, or run it with --mode enforce", d.o.Config.Mode)
	case d.held.All:
		return no(api.Forbidden, "everything is held since `undo --all`; use `homenode resume --all` first")
	case d.view.halted != "":
		return no(api.Failed, "%s", d.view.halted)
	}
	return nil
}

// cancelMove stops the page move of a workload and holds it: what has moved stays,
// and nothing more is done to it until it is resumed or told to move.
func (d *Daemon) cancelMove(order api.MoveOrder) (api.MoveAnswer, error) {
	d.mu.Lock()
	o, err := d.find(order.ID)
	if err != nil {
		d.mu.Unlock()
		return api.MoveAnswer{}, err
	}
	id := o.ID
	m := d.moving[id]
	if m == nil && !d.queued(id) {
		d.mu.Unlock()
		return api.MoveAnswer{}, &api.Error{Code: api.NotFound, Text: fmt.Sprintf("%s: no move is under way or waits", id)}
	}
	answer := api.MoveAnswer{Schema: "homenode-move/1", Workload: id, Outcome: api.Cancelled, Steps: []plan.Step{}}
	if p := placementOf(d.view.plan.Placements, id); p != nil {
		answer.To, answer.CPUs = p.Home, p.CPUs
	}
	if order.DryRun {
		answer.Move = d.moveOf(id)
		d.mu.Unlock()
		return answer, nil
	}
	held := holds{All: d.held.All, IDs: maps.Clone(d.held.IDs)}
	held.add(api.Which{ID: id})
	if err := d.o.Store.Save(keyHolds, held); err != nil {
		d.mu.Unlock()
		return api.MoveAnswer{}, err
	}
	d.held = held
	d.event(plan.Event{Kind: plan.EventMove, Workload: id, Text: "move cancelled by hand: it is left as it is until `homenode resume` or `homenode move`"})
	d.mu.Unlock()
	d.cancelMoves(func(x workload.ID) bool { return x == id })
	d.mu.Lock()
	defer d.mu.Unlock()
	if m != nil {
		answer.Move = d.moveOf(id)
	}
	return answer, nil
}

// queued reports whether a page move of a workload is planned and will be begun.
// d.mu is held.
func (d *Daemon) queued(id workload.ID) bool {
	if d.o.Config.Mode != Enforce || d.held.has(id) {
		return false
	}
	for _, s := range d.view.plan.Steps {
		if s.Workload == id && s.Kind == plan.MovePages {
			return true
		}
	}
	return false
}
