package daemon

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/homenode/homenode/api"
	"github.com/homenode/homenode/core/guest"
	"github.com/homenode/homenode/core/place"
	"github.com/homenode/homenode/core/plan"
	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/core/workload"
)

// Place finds a home for a command that is about to start. With a process it
// is written into the ledger and the process becomes a workload at the next look.
func (d *Daemon) Place(_ context.Context, want api.Want) (api.Home, error) {
	if err := check(want); err != nil {
		return api.Home{}, err
	}
	d.deciding.Lock()
	defer d.deciding.Unlock()
	d.mu.Lock()
	defer d.mu.Unlock()
	state := d.view.state
	if state.Host == nil {
		return api.Home{}, &api.Error{Code: api.Failed, Text: "the daemon has not yet looked at the host; try again"}
	}
	state.Placements = d.expected(d.view.plan.Placements)
	id := processID(want.Process.PID)
	if want.Guest {
		id = guest.ID(want.Name)
	}
	home, result, err := HomeFor(state, want, id)
	if want.Guest && err == nil {
		if d.guests.coming == nil {
			d.guests.coming = map[workload.ID]coming{}
		}
		d.guests.coming[id] = coming{result.Placement, d.o.Clock.Now().Add(comesWithin)}
	}
	if want.Process.PID == 0 || want.Guest {
		return home, err
	}
	if err != nil {
		d.tellPlaced(want, id, &result.Decision)
		return home, err
	}
	p := result.Placement
	p.Start = want.Process.Start
	ledger := merge(d.view.plan.Placements, append(slices.Clone(result.Others), p))
	if err := d.o.Store.SavePlacements(ledger); err != nil {
		return api.Home{}, err
	}
	d.saved = ledger
	wants := maps.Clone(d.wants)
	wants[id] = want
	if err := d.o.Store.Save(keyWants, wants); err != nil {
		return api.Home{}, err
	}
	d.wants, d.view.plan.Placements = wants, ledger
	d.given[id] = home.CPUs
	d.chosen[id] = result.Decision
	d.fresh[id] = true
	d.tellPlaced(want, id, &result.Decision)
	home.Ledger = true
	return home, nil
}

// tellPlaced writes what became of a want into the history. A refusal is an answer
// to who asked, no error: nothing runs without a home for it.
func (d *Daemon) tellPlaced(want api.Want, id workload.ID, dec *plan.Decision) {
	cpus := "1 CPU"
	if want.CPUs != 1 {
		cpus = fmt.Sprintf("%d CPUs", want.CPUs)
	}
	d.event(plan.Event{Kind: plan.EventPlan, Workload: id,
		Text: fmt.Sprintf("%s (%s, %s) %s", want.Name, want.Class, cpus, decided(dec))})
}

// HomeFor finds a home on a given state, as a function.
func HomeFor(state plan.State, want api.Want, id workload.ID) (api.Home, place.Result, error) {
	spec := specOfWant(want, id, workload.Spec{Importance: workload.DefaultImportance})
	result := place.Place(state, place.Request{Spec: spec})
	if result.Decision.Outcome == plan.Refused {
		return api.Home{}, result, &api.Error{Code: api.NoRoom, Text: "no home: " + strings.Join(result.Decision.Reasons, " ")}
	}
	p := result.Placement
	home := api.Home{Schema: "homenode-home/1", Nodes: p.Home, CPUs: p.CPUs, Bound: p.Bound, Decision: result.Decision, Pins: p.Pins}
	for _, m := range p.Memory {
		home.Memory = append(home.Memory, api.NodeKiB{Node: m.Node, KiB: int64(m.KiB)})
	}
	if len(result.Decision.Reasons) > 0 {
		home.Why = result.Decision.Reasons[0]
	}
	return home, result, nil
}

func check(want api.Want) error {
	bad := func(format string, a ...any) error {
		return &api.Error{Code: api.BadRequest, Text: fmt.Sprintf(format, a...)}
	}
	if _, err := workload.ParseClass(string(want.Class)); err != nil {
		return bad("%v", err)
	}
	if want.CPUs < 1 || want.CPUs > topology.MaxID {
		return bad("cpus: %d; want 1 or more", want.CPUs)
	}
	if want.MemoryKiB < 0 || want.MemoryKiB > 1<<50 {
		return bad("memory: %d KiB; want 0 (unknown) or more", want.MemoryKiB)
	}
	if want.HugePageKiB < 0 || want.HugePageKiB > 1<<25 {
		return bad("huge_page_kib: %d; want a page size in KiB, or 0", want.HugePageKiB)
	}
	switch want.SMT {
	case "", workload.SMTPrefer, workload.SMTIsolate, workload.SMTRequire:
	default:
		return bad("smt: %q; want prefer, isolate or require", want.SMT)
	}
	if want.Process.PID < 0 {
		return bad("process: PID %d", want.Process.PID)
	}
	return nil
}

// merge puts changed placements over a ledger, rising by workload.
func merge(ledger, changed []plan.Placement) []plan.Placement {
	byID := map[workload.ID]plan.Placement{}
	for _, p := range ledger {
		byID[p.Workload] = p
	}
	for _, p := range changed {
		byID[p.Workload] = p
	}
	out := make([]plan.Placement, 0, len(byID))
	for _, id := range slices.Sorted(maps.Keys(byID)) {
		out = append(out, byID[id])
	}
	return out
}
