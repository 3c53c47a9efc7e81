package daemon

import (
	"fmt"
	"slices"
	"strings"

	"github.com/homenode/homenode/core/plan"
	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/core/workload"
)

// event writes one line of history, and the log. A history that cannot be
// written must not stop the daemon: the log still has the line.
func (d *Daemon) event(e plan.Event) {
	e.Time = d.o.Clock.Now()
	e.Text = strings.Join(strings.Fields(e.Text), " ") // joined errors have several lines
	level := d.o.Log.Info
	if e.Error {
		level = d.o.Log.Warn
	}
	level(e.Text, "kind", e.Kind, "workload", e.Workload)
	if err := d.o.Store.Append(e); err != nil {
		d.o.Log.Error("write history", "err", err)
	}
}

// once writes an event that would repeat at every tick, only when its text
// changes; an empty text means that the trouble is over.
func (d *Daemon) once(key string, e plan.Event) {
	d.mu.Lock()
	r := d.tries[key]
	if r == nil {
		r = &retry{}
		d.tries[key] = r
	}
	same := r.text == e.Text
	r.text = e.Text
	d.mu.Unlock()
	if !same && e.Text != "" {
		d.event(e)
	}
}

// tell writes what is new since the last tick.
func (d *Daemon) tell(before, now view) {
	d.tellHost(before.snapshot.Host, now.snapshot.Host)
	d.tellWorkloads(before.snapshot, now.snapshot)
	for _, p := range now.snapshot.Problems {
		if !slices.Contains(before.snapshot.Problems, p) {
			d.event(plan.Event{Kind: plan.EventHost, Error: true, Text: p.Subject + ": " + p.Text})
		}
	}
	old := map[workload.ID]*plan.Decision{}
	for i := range before.plan.Report.Decisions {
		old[before.plan.Report.Decisions[i].Workload] = &before.plan.Report.Decisions[i]
	}
	for i := range now.plan.Report.Decisions {
		dec := &now.plan.Report.Decisions[i]
		was := old[dec.Workload]
		if was != nil && sameOutcome(was, dec) || was == nil && dec.Outcome == plan.Kept && d.registered(dec.Workload) {
			continue
		}
		d.event(plan.Event{Kind: plan.EventPlan, Workload: dec.Workload,
			Error: dec.Outcome == plan.Refused, Text: decided(dec)})
	}
	if now.halted != before.halted {
		text := now.halted
		if text == "" {
			text = "the plan is sound again"
		}
		d.event(plan.Event{Kind: plan.EventPlan, Error: now.halted != "", Text: text})
	}
}

// registered reports whether `homenode run` placed a workload: Place told of it then.
func (d *Daemon) registered(id workload.ID) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	_, ok := d.wants[id]
	return ok
}

// sameOutcome: placed once and kept ever after is one decision, not two.
func sameOutcome(a, b *plan.Decision) bool {
	settled := func(o plan.Outcome) plan.Outcome {
		if o == plan.Kept {
			return plan.Placed
		}
		return o
	}
	return settled(a.Outcome) == settled(b.Outcome) && a.Home.Equal(b.Home)
}

func decided(dec *plan.Decision) string {
	text := string(dec.Outcome)
	if !dec.Home.Empty() {
		text = fmt.Sprintf("%s: node %s", dec.Outcome, dec.Home)
	}
	if len(dec.Reasons) > 0 {
		text += ". " + dec.Reasons[0]
	}
	return text
}

func (d *Daemon) tellHost(before, now *topology.Host) {
	if before == nil {
		for _, n := range now.Notes {
			d.event(plan.Event{Kind: plan.EventHost, Text: n.Subject + ": " + n.Text})
		}
		return
	}
	if off := before.Online.Minus(now.Online); !off.Empty() {
		d.event(plan.Event{Kind: plan.EventHost, Error: true, Text: fmt.Sprintf("CPU %s went offline", off)})
	}
	if on := now.Online.Minus(before.Online); !on.Empty() {
		d.event(plan.Event{Kind: plan.EventHost, Text: fmt.Sprintf("CPU %s came online", on)})
	}
	for _, n := range now.Nodes {
		full := fmt.Sprintf("node %d is nearly out of memory: %s of %s free",
			n.ID, size(int64(n.Free)*1024), size(int64(n.Memory)*1024))
		if !nearlyFull(n) {
			full = ""
		}
		// The amount changes at every look; only crossing the line is news.
		if was := nodeOf(before, n.ID); was != nil && full != "" && nearlyFull(*was) {
			continue
		}
		if full != "" {
			d.event(plan.Event{Kind: plan.EventHost, Error: true, Text: full})
		}
	}
}

// nearlyFull: under 2 % free the kernel is reclaiming (its watermarks lie at
// about 1 %, mm/page_alloc.c) and page moves to the node will fail.
func nearlyFull(n topology.Node) bool {
	return n.Memory > 0 && n.Free >= 0 && n.Free*50 < n.Memory
}

func nodeOf(h *topology.Host, id topology.NodeID) *topology.Node {
	for i := range h.Nodes {
		if h.Nodes[i].ID == id {
			return &h.Nodes[i]
		}
	}
	return nil
}

func (d *Daemon) tellWorkloads(before, now workload.Snapshot) {
	seen := map[workload.ID]bool{}
	for i := range before.Observations {
		seen[before.Observations[i].ID] = true
	}
	for i := range now.Observations {
		o := &now.Observations[i]
		if seen[o.ID] {
			delete(seen, o.ID)
			continue
		}
		threads := "1 thread"
		if o.Threads != 1 {
			threads = fmt.Sprintf("%d threads", o.Threads)
		}
		memory := "memory unknown"
		if kib := workload.Total(o.Memory); kib > 0 {
			memory = size(int64(kib) * 1024)
		}
		d.event(plan.Event{Kind: plan.EventWorkload, Workload: o.ID, Text: fmt.Sprintf("seen: %s, %s, %s", o.Name, threads, memory)})
	}
	for i := range before.Observations {
		if id := before.Observations[i].ID; seen[id] {
			text := "gone"
			if slices.Contains(now.Shrunk, id) {
				text = "no longer counted: it is too small now, or part of another workload"
			}
			d.event(plan.Event{Kind: plan.EventWorkload, Workload: id, Text: text})
		}
	}
}
