package daemon

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/homenode/homenode/api"
	"github.com/homenode/homenode/core/measure"
	"github.com/homenode/homenode/core/plan"
	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/core/workload"
)

// Status is the newest look and what is planned.
func (d *Daemon) Status(context.Context) (api.Status, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	v := d.view
	s := api.Status{
		Schema: "homenode-status/1", Version: d.o.Version, Mode: string(d.o.Config.Mode), Held: d.held.All,
		Time: v.at, TickMs: float64(v.took.Microseconds()) / 1000,
		Nodes: nodesOf(v), Workloads: []api.Workload{}, Small: v.snapshot.Small, Problems: []string{},
		Pressure: append([]workload.Pressure{}, v.snapshot.Pressure...), Sources: append([]workload.SourceStatus{}, v.snapshot.Sources...),
		Devices: d.deviceStatus(), Rivals: append([]measure.Manager{}, d.rivals.all...),
	}
	planned := d.planned()
	for i := range v.snapshot.Observations {
		s.Workloads = append(s.Workloads, d.workloadOf(&v.snapshot.Observations[i], planned))
	}
	for _, p := range v.snapshot.Problems {
		s.Problems = append(s.Problems, p.Subject+": "+p.Text)
	}
	if v.halted != "" {
		s.Problems = append(s.Problems, v.halted)
	}
	if border := d.borderNow(); border.Border != plan.AnyClass {
		s.Border = &border
	}
	if v.balance.State != "" {
		s.Balance = &v.balance
	}
	if d.o.Self != nil {
		self := d.o.Self()
		entries, err := d.o.Store.Journal()
		if err != nil {
			return s, err
		}
		self.Journal = len(entries)
		s.Self = &self
	}
	return s, nil
}

// Explain is why one workload is where it is, by ID or by a name that is unique.
func (d *Daemon) Explain(_ context.Context, id workload.ID) (api.Explanation, error) {
	x := api.Explanation{Schema: "homenode-explain/1", Mode: string(d.o.Config.Mode), Journal: []plan.Entry{}, Events: []plan.Event{}}
	d.mu.Lock()
	o, err := d.find(id)
	if dev := d.deviceNamed(id); err != nil && dev != nil {
		x.Device = d.deviceDetail(dev)
		d.mu.Unlock()
		return x, d.recall(&x, x.Device.ID)
	}
	if err != nil {
		if d.o.Config.interrupts() == IRQOff && strings.HasPrefix(string(id), "device:") {
			err = &api.Error{Code: api.NotFound, Text: fmt.Sprintf("no %q: interrupts of devices are not looked at (irq: off)", id)}
		}
		d.mu.Unlock()
		return x, err
	}
	planned := d.planned()
	x.Workload = d.workloadOf(o, planned)
	if dec := planned[o.ID].decision; dec != nil {
		x.Decision = d.because(*dec)
	}
	x.Move = d.moveOf(o.ID)
	x.Balance, x.Balancing = d.view.balance.Of(o.ID), d.view.balance.Words()
	d.mu.Unlock()
	return x, d.recall(&x, o.ID)
}

// because is a decision with what spoke for the home when it was chosen. d.mu is held.
func (d *Daemon) because(dec plan.Decision) plan.Decision {
	old, ok := d.chosen[dec.Workload]
	if dec.Outcome != plan.Kept || !ok {
		return dec
	}
	dec.Reasons = slices.Clone(dec.Reasons)
	for _, r := range old.Reasons {
		dec.Reasons = append(dec.Reasons, "When it was chosen: "+r)
	}
	dec.Candidates = old.Candidates
	return dec
}

// recall adds what the store knows of a workload.
func (d *Daemon) recall(x *api.Explanation, id workload.ID) error {
	entries, err := d.o.Store.Journal()
	if err != nil {
		return err
	}
	for _, e := range entries {
		if e.Workload == id {
			x.Journal = append(x.Journal, e)
		}
	}
	if x.Move == nil {
		moves, err := d.o.Store.Moves()
		if err != nil {
			return err
		}
		for _, m := range moves {
			if m.Workload == id {
				x.Move = &m
			}
		}
	}
	events, err := d.o.Store.History(0)
	if err != nil {
		return err
	}
	for _, e := range events {
		if e.Workload == id {
			x.Events = append(x.Events, e)
		}
	}
	if n := len(x.Events); n > explainEvents {
		x.Events = x.Events[n-explainEvents:]
	}
	return nil
}

// explainEvents is how many of its newest events an explanation shows: a screen.
const explainEvents = 20

// History is the newest events.
func (d *Daemon) History(_ context.Context, limit int) (api.History, error) {
	events, err := d.o.Store.History(limit)
	if events == nil {
		events = []plan.Event{}
	}
	return api.History{Schema: "homenode-history/1", Events: events}, err
}

// find looks a workload up by ID, or by a name only one has. d.mu is held.
func (d *Daemon) find(id workload.ID) (*workload.Observation, error) {
	all := d.view.snapshot.Observations
	var named []*workload.Observation
	for i := range all {
		if all[i].ID == id {
			return &all[i], nil
		}
		if all[i].Name == string(id) {
			named = append(named, &all[i])
		}
	}
	switch len(named) {
	case 0:
		return nil, notFound(id)
	case 1:
		return named[0], nil
	}
	ids := make([]string, len(named))
	for i := range named {
		ids[i] = string(named[i].ID)
	}
	return nil, &api.Error{Code: api.BadRequest, Text: fmt.Sprintf("%d workloads are named %q: %s", len(ids), id, strings.Join(ids, ", "))}
}

// planned is what the newest plan says of one workload.
type planned struct {
	decision *plan.Decision // nil for none
	steps    []plan.Step
}

// planned is the newest plan by workload. d.mu is held.
func (d *Daemon) planned() map[workload.ID]planned {
	p := &d.view.plan
	out := make(map[workload.ID]planned, len(p.Report.Decisions))
	for i := range p.Report.Decisions {
		dec := &p.Report.Decisions[i]
		out[dec.Workload] = planned{decision: dec}
	}
	for _, s := range p.Steps {
		x := out[s.Workload]
		x.steps = append(x.steps, s)
		out[s.Workload] = x
	}
	return out
}

// workloadOf is the wire form of one workload. d.mu is held.
func (d *Daemon) workloadOf(o *workload.Observation, all map[workload.ID]planned) api.Workload {
	w := api.Workload{
		ID: o.ID, Name: o.Name, Kind: o.Kind, Class: workload.Shared, Importance: workload.DefaultImportance,
		CPUSet: o.CPUs.String(), CPUUse: o.CPUUse, MemoryKiB: int64(workload.Total(o.Memory)),
		MemoryByNode: []api.NodeKiB{}, Processes: []int{}, Steps: []plan.Step{},
	}
	for _, m := range o.Memory {
		w.MemoryByNode = append(w.MemoryByNode, api.NodeKiB{Node: m.Node, KiB: int64(m.KiB)})
	}
	for _, p := range o.Processes {
		w.Processes = append(w.Processes, p.PID)
	}
	if share, from, ok := o.LocalShare(); ok {
		w.Locality, w.LocalityFrom = &share, from
	}
	if n := o.Accesses.PerSecond; n > 0 {
		w.Accesses = &n
	}
	w.Move = d.moveOf(o.ID)
	if p := placementOf(d.view.plan.Placements, o.ID); p != nil {
		w.Class, w.Importance, w.CPUs = p.Class, p.Importance, p.VCPUs
		w.Home, w.CPUSetPlanned, w.Idle = p.Home.String(), p.CPUs.String(), p.Idle.String()
		spec := d.specOf(o)
		w.SMT = spec.SMT
		w.Near = nearOf(&spec)
		if total := workload.Total(o.Memory); total > 0 {
			share := float64(workload.On(o.Memory, p.Home)) / float64(total)
			w.OnHome = &share
		}
		w.LocalityExpected = w.Locality
	}
	spec := d.specOf(o)
	w.Links = d.linksOf(o, &spec)
	for _, s := range all[o.ID].steps {
		w.Steps = append(w.Steps, s)
		after := s.Gain.LocalityAfter
		w.LocalityExpected = &after
	}
	w.State, w.Why = d.stateOf(o.ID, all[o.ID])
	return w
}

// stateOf says in a few words how far a workload has come, and why. d.mu is held.
func (d *Daemon) stateOf(id workload.ID, p planned) (state, why string) {
	steps := p.steps
	if dec := p.decision; dec != nil {
		state, why = string(dec.Outcome), strings.Join(dec.Reasons, " ")
		if dec.Outcome == plan.Refused {
			state = "no room"
		}
		if dec.Outcome != plan.Placed && dec.Outcome != plan.Kept {
			return state, why
		}
	}
	if m := d.moving[id]; m != nil {
		if m.record.State == movePaused {
			return "paused", m.record.Why
		}
		if m.record.Planned > 0 {
			return fmt.Sprintf("moving %d %%", min(100, m.record.Moved*100/m.record.Planned)), why
		}
		return "moving", why
	}
	switch {
	case d.held.has(id):
		return "held", errHeld.Error()
	case len(steps) == 0:
		return "at home", why
	case d.o.Config.Mode == Observe:
		return "would move", why
	}
	for _, s := range steps {
		if r := d.tries[tryKey(s)]; r != nil && r.failures > 0 && r.text != "" {
			return "failed", r.text
		}
		if r := d.tries[tryKey(s)]; r != nil && r.failures > 0 && s.Kind == plan.MovePages {
			left := ""
			if m := d.moved[id]; m.Why != "" {
				left = ": " + m.Why
			}
			return "at home", fmt.Sprintf("%s What is left off home did not move%s; the next try is not before %s.", why, left, r.next.UTC().Format(time.TimeOnly+" UTC"))
		}
	}
	return "queued", why
}

// moveOf is a workload's page move in flight, or the newest that ended. d.mu is held.
func (d *Daemon) moveOf(id workload.ID) *plan.Move {
	if m := d.moving[id]; m != nil {
		record := m.record
		return &record
	}
	if r, ok := d.moved[id]; ok {
		return &r
	}
	return nil
}

// placementOf looks in placements, which rise by workload.
func placementOf(placements []plan.Placement, id workload.ID) *plan.Placement {
	i, ok := slices.BinarySearchFunc(placements, id, func(p plan.Placement, id workload.ID) int { return cmp.Compare(p.Workload, id) })
	if !ok {
		return nil
	}
	return &placements[i]
}

func nodesOf(v view) []api.Node {
	nodes := []api.Node{}
	if v.snapshot.Host == nil {
		return nodes
	}
	for _, n := range v.snapshot.Host.Nodes {
		out := api.Node{ID: n.ID, CPUs: n.CPUs.String(), MemoryKiB: int64(n.Memory), FreeKiB: int64(n.Free)}
		useOf(&out, &n, v.snapshot.Nodes)
		home := topology.Nodes(n.ID)
		for i := range v.plan.Placements {
			p := &v.plan.Placements[i]
			out.BookedKiB += int64(workload.On(p.Memory, home))
			if p.Home.Has(n.ID) {
				out.VCPUs += float64(p.VCPUs) / float64(p.Home.Len())
			}
		}
		nodes = append(nodes, out)
	}
	return nodes
}

// useOf fills in what is used of a node now.
func useOf(out *api.Node, n *topology.Node, use []workload.NodeUse) {
	known := func(v int64) *int64 {
		if v < 0 {
			return nil
		}
		return &v
	}
	out.ReclaimableKiB, out.HugePages = known(int64(n.Reclaimable)), []api.HugePool{}
	for _, p := range n.HugePages {
		out.HugePages = append(out.HugePages, api.HugePool{SizeKiB: int64(p.Size), Total: p.Total, Free: known(p.Free)})
	}
	for _, u := range use {
		if u.Node != n.ID {
			continue
		}
		if cpus := u.CPUUse; cpus >= 0 {
			out.CPUUse = &cpus
		}
		out.Bandwidth, out.BandwidthFrom = known(u.Bandwidth), u.BandwidthFrom
	}
}
