package daemon

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"syscall"
	"time"

	"github.com/homenode/homenode/core/plan"
	"github.com/homenode/homenode/core/workload"
)

// retry keeps a step that failed from being tried, and told of, at every tick.
type retry struct {
	failures int
	next     time.Time
	text     string
}

// A step that failed waits 10 s, then twice as long each time, up to 10
// minutes: a full node or an offline CPU seldom changes faster, and each try of
// a page move costs the workload time.
//
// A page move of which a part stayed behind for causes that last waits 10 minutes at
// once: pins for devices are held as long as the program runs.
const (
	retryFirst = 10 * time.Second
	retryMost  = 10 * time.Minute
)

// carryOut applies the steps, workload by workload: CPU sets at once; page moves
// and memory nodes, whose writing blocks while the kernel moves what lies outside,
// beside the loop (see traffic for which and when). look is the look the steps
// were planned on.
func (d *Daemon) carryOut(ctx context.Context, look uint64, steps []plan.Step) {
	var transfers []*transfer
	waits := map[workload.ID]time.Time{}
	for _, group := range byWorkload(steps) {
		if ctx.Err() != nil {
			return
		}
		id := group[0].Workload
		d.mu.Lock()
		m := d.moving[id]
		if to := goal(group); m != nil && to != "" && m.record.Home != to { // its home is another one by now
			m.cancel()
		}
		skip := d.held.has(id) || m != nil
		old := d.movedAt[id].look >= look && d.movedAt[id].look > 0 // figures from before a move ended
		d.mu.Unlock()
		if skip {
			continue
		}
		n := 0
		seen := d.observed(id)
		for n < len(group) && atOnce(group[n], seen) {
			n++
		}
		if !d.applyAll(ctx, group[:n]) || n == len(group) || old || d.waiting(group[n]) {
			continue
		}
		w := transferFor(group[n:], seen)
		waits[id] = d.o.Clock.Now()
		if since, ok := d.waits[id]; ok {
			waits[id] = since
		}
		w.aged = d.o.Clock.Now().Sub(waits[id]) >= agedAfter
		transfers = append(transfers, w)
	}
	d.waits = waits
	if len(transfers) == 0 {
		return
	}
	d.mu.Lock()
	inFlight := make([]*move, 0, len(d.moving))
	for _, m := range d.moving {
		inFlight = append(inFlight, m)
	}
	t := newTraffic(d.view.snapshot.Host, d.policy.ReservedMemory, inFlight)
	d.mu.Unlock()
	for _, w := range t.choose(transfers) {
		delete(d.waits, w.id)
		d.startMove(ctx, w)
	}
}

// goal is where the page move of a workload's steps goes, for a guest its nodes (see
// paced); "" when there is none.
func goal(steps []plan.Step) string {
	for _, s := range steps {
		if s.Kind == plan.MovePages || s.Kind == plan.SetMems && s.Target.Kind == workload.InGuest {
			return s.To
		}
	}
	return ""
}

// observed is what the newest look saw of a workload, or nil.
func (d *Daemon) observed(id workload.ID) *workload.Observation {
	d.mu.Lock()
	defer d.mu.Unlock()
	all := d.view.snapshot.Observations
	i, ok := slices.BinarySearchFunc(all, id, func(o workload.Observation, id workload.ID) int { return cmp.Compare(o.ID, id) })
	if !ok {
		return nil
	}
	return &all[i]
}

// byWorkload groups steps in order; the steps of a workload are neighbours or
// not, their order among themselves stays.
func byWorkload(steps []plan.Step) [][]plan.Step {
	index := map[workload.ID]int{}
	var groups [][]plan.Step
	for _, s := range steps {
		i, ok := index[s.Workload]
		if !ok {
			i = len(groups)
			index[s.Workload] = i
			groups = append(groups, nil)
		}
		groups[i] = append(groups[i], s)
	}
	return groups
}

// applyAll applies settings in order and reports whether all took.
func (d *Daemon) applyAll(ctx context.Context, steps []plan.Step) bool {
	for _, s := range steps {
		if d.waiting(s) || d.applyOne(ctx, s) != nil {
			return false
		}
	}
	return true
}

// applyOne journals one setting, changes it and records how it went.
func (d *Daemon) applyOne(ctx context.Context, s plan.Step) error {
	d.changing.Lock()
	defer d.changing.Unlock()
	d.mu.Lock()
	held := d.held.has(s.Workload)
	d.mu.Unlock()
	if held { // undone between planning and now
		return errHeld
	}
	driver, ok := d.o.Drivers[s.Target.Kind]
	if !ok {
		return d.failed(s, nil, fmt.Errorf("no driver for %s workloads", s.Target.Kind))
	}
	have, err := driver.Settings(ctx, s)
	if err != nil {
		return d.failed(s, nil, err)
	}
	will := make([]string, len(have))
	for i := range have {
		will[i] = s.To
		switch {
		case have[i].Kind == plan.CgroupControllers:
			will[i] = "+cpuset"
		case s.Kind == plan.SetQueues && have[i].Kind != plan.QueueCount: // the driver may set it anew
			will[i] = have[i].Value
		}
	}
	if s.Target.Kind == workload.InProcess {
		if err := d.adoptAmong(ctx, s.Workload, have); err != nil {
			return d.failed(s, nil, fmt.Errorf("look for inherited settings: %w", err))
		}
	}
	entries, err := d.o.Store.Intend(s.Workload, have, will, d.o.Clock.Now())
	if err != nil { // no journal, no change
		return d.failed(s, nil, fmt.Errorf("journal: %w", err))
	}
	d.mu.Lock()
	maps.Copy(d.sets, changedSets(entries))
	d.mu.Unlock()
	defer d.o.Observer.Changed(d.observerID(s.Workload)) // also when it failed half way
	if err := d.apply(ctx, driver, s); err != nil {
		return d.failed(s, entries, err)
	}
	d.mu.Lock()
	for _, e := range entries {
		d.noteGiven(s.Workload, e.Kind, e.New)
	}
	d.mu.Unlock()
	if err := d.o.Store.Mark(plan.Applied, seqs(entries)...); err != nil {
		return d.failed(s, nil, fmt.Errorf("journal: %w", err))
	}
	d.mu.Lock()
	delete(d.tries, tryKey(s))
	d.mu.Unlock()
	what := string(s.Kind)
	if s.Target.Device != "" {
		what += " of " + s.Target.Device
	}
	d.event(plan.Event{Kind: plan.EventStep, Workload: s.Workload, Text: fmt.Sprintf(
		"%s: %s → %s. %s", what, orAll(s.From), s.To, s.Reason)})
	return nil
}

// apply lets others change the host while the kernel moves the memory of a guest, which
// takes as long as there is memory: an undo waits for the move it is a part of. What is
// part of none nobody waits for (see atOnce).
func (d *Daemon) apply(ctx context.Context, driver Driver, s plan.Step) error {
	d.mu.Lock()
	moving := d.moving[s.Workload] != nil
	d.mu.Unlock()
	if moving && s.Kind == plan.SetMems && s.Target.Kind == workload.InGuest {
		d.changing.Unlock()
		defer d.changing.Lock()
	}
	return driver.Apply(ctx, s, func(plan.Move) {})
}

// failed records why a step did not take, once per reason, and puts off the
// next try. Its journal entries stay as they are, intended: part of the change
// may stand, and undo must be able to put it back.
func (d *Daemon) failed(s plan.Step, entries []plan.Entry, err error) error {
	if gone(err) {
		// Controllers were turned on in parents, which are still there; children of a
		// process may have inherited from it, which prune looks into. One that only
		// looked gone may have been changed.
		own := slices.DeleteFunc(slices.Clone(entries), func(e plan.Entry) bool {
			return e.Kind == plan.CgroupControllers || e.Kind == plan.Affinity || !isGone(d.o.Drivers, e)
		})
		if e := d.o.Store.Mark(plan.Gone, seqs(own)...); e != nil {
			d.o.Log.Error("journal", "workload", s.Workload, "err", e)
		}
	}
	if errors.Is(err, context.Canceled) {
		return err
	}
	if errors.Is(err, plan.ErrFixed) {
		if e := d.o.Store.Mark(plan.Restored, seqs(d.unchanged(s, entries))...); e != nil {
			d.o.Log.Error("journal", "workload", s.Workload, "err", e)
		}
		d.event(plan.Event{Kind: plan.EventStep, Workload: s.Workload, Text: fmt.Sprintf("%s to %s: %v; it is not tried again", s.Kind, s.To, err)})
		return err
	}
	text := fmt.Sprintf("%s to %s failed: %v", s.Kind, s.To, err)
	if gone(err) {
		text = fmt.Sprintf("%s to %s: the workload is gone (%v)", s.Kind, s.To, err)
	}
	d.mu.Lock()
	wait, told := d.putOff(s, text)
	e := plan.Event{Kind: plan.EventStep, Workload: s.Workload, Error: true, Text: fmt.Sprintf("%s; next try in %v", text, wait)}
	if r, ok := d.moved[s.Workload]; ok && s.Kind == plan.MovePages {
		e.Move = &r
	}
	d.mu.Unlock()
	if !told {
		d.event(e)
	}
	return err
}

// unchanged is the entries of a step whose settings have the value from before homenode:
// there is nothing to be put back, unless an earlier step took.
func (d *Daemon) unchanged(s plan.Step, entries []plan.Entry) []plan.Entry {
	if len(entries) == 0 {
		return nil
	}
	now, err := d.o.Drivers[s.Target.Kind].Settings(context.Background(), s)
	if err != nil {
		return nil
	}
	return slices.DeleteFunc(slices.Clone(entries), func(e plan.Entry) bool {
		return !slices.ContainsFunc(now, func(n plan.Setting) bool { return n.Kind == e.Kind && n.Path == e.Path && n.Value == e.Old })
	})
}

// putOff says when a step may be tried again, and whether the same was told of
// it before. d.mu is held.
func (d *Daemon) putOff(s plan.Step, text string) (wait time.Duration, told bool) {
	r := d.tries[tryKey(s)]
	if r == nil {
		r = &retry{}
		d.tries[tryKey(s)] = r
	}
	told = r.text == text
	wait = min(retryFirst<<min(r.failures, 10), retryMost)
	if m, ok := d.moved[s.Workload]; ok && s.Kind == plan.MovePages && m.Home == s.To && immovable(m) {
		wait = retryMost
	}
	r.failures++
	r.next, r.text = d.o.Clock.Now().Add(wait), text
	return wait, told
}

// waiting reports whether a step failed lately and is not yet due again.
func (d *Daemon) waiting(s plan.Step) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	r := d.tries[tryKey(s)]
	return r != nil && d.o.Clock.Now().Before(r.next)
}

func tryKey(s plan.Step) string {
	return fmt.Sprintf("%s %s %s %s", s.Workload, s.Kind, s.To, s.Target.Device)
}

// gone reports whether an error says that the target no longer exists.
func gone(err error) bool {
	return errors.Is(err, ErrGone) || errors.Is(err, fs.ErrNotExist) ||
		errors.Is(err, syscall.ESRCH) || errors.Is(err, syscall.ENODEV)
}

// isGone asks the driver of an entry whether what it is about no longer exists. A call
// that fails once as if it did is no ground to forget how to put it back.
func isGone(drivers map[workload.Kind]Driver, e plan.Entry) bool {
	driver, ok := drivers[kindOf(e)]
	return ok && gone(driver.Present(e))
}

func seqs(entries []plan.Entry) []uint64 {
	out := make([]uint64, len(entries))
	for i, e := range entries {
		out[i] = e.Seq
	}
	return out
}

func orAll(list string) string {
	if list == "" {
		return "all"
	}
	return list
}
