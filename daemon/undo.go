package daemon

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/homenode/homenode/api"
	"github.com/homenode/homenode/core/plan"
	"github.com/homenode/homenode/core/workload"
)

// Undo puts back every journalled setting of one workload or of all, the last
// change first. It needs no running daemon, only that nobody else holds the
// store. A setting that cannot be put back stays in the journal, and so does an
// affinity that was put back when what has inherited it could not be looked for: it
// is in Restored or Gone, and in Failed. When the store cannot be written, as on a full
// disk, everything is put back all the same, and the error says so.
func Undo(ctx context.Context, s Store, drivers map[workload.Kind]Driver, which api.Which, at time.Time) (api.UndoResult, error) {
	result := api.UndoResult{Schema: "homenode-undo/1",
		Restored: []plan.Entry{}, Gone: []plan.Entry{}, Deferred: []api.UndoFailure{}, Failed: []api.UndoFailure{}}
	entries, err := s.Journal()
	if err != nil {
		return result, err
	}
	var events []plan.Event
	// What inherited a setting goes back too, also when what it was given to is gone.
	_, lost := adopt(ctx, s, drivers, entries, nil, nil)
	var more *heirsError
	if errors.As(lost, &more) {
		lost = nil // what starts others all the time ends that when it is restored: restoreLate looks again
	}
	if entries, err = s.Journal(); err != nil {
		return result, err
	}
	slices.Reverse(entries)
	var unwritten error
	// A number of queues goes first: it makes interrupts and queues anew.
	rank := map[plan.SettingKind]int{plan.QueueCount: -1}
	slices.SortStableFunc(entries, func(a, b plan.Entry) int { return cmp.Compare(rank[a.Kind], rank[b.Kind]) })
	var done []plan.Entry // affinities, marked when no heir of theirs is left
	var restored []string // cgroups
	for _, e := range entries {
		// A controller was turned on for the first workload that needed it and goes
		// off with the last.
		shared := e.Kind == plan.CgroupControllers && slices.ContainsFunc(restored, func(path string) bool {
			return e.Path == "/" || strings.HasPrefix(path, e.Path+"/")
		})
		if !which.All && e.Workload != which.ID && !shared {
			continue
		}
		err := ctx.Err()
		if err == nil {
			err = restore(ctx, drivers, e)
		}
		event := plan.Event{Time: at, Kind: plan.EventUndo, Workload: e.Workload}
		switch {
		case err == nil:
			e.State = plan.Restored
			result.Restored = append(result.Restored, e)
			restored = append(restored, e.Path)
			event.Text = fmt.Sprintf("%s of %s: %s → %s, as before", e.Kind, e.Path, e.New, orAll(e.Old))
		case gone(err) && isGone(drivers, e):
			e.State = plan.Gone
			result.Gone = append(result.Gone, e)
			event.Text = fmt.Sprintf("%s of %s: gone, nothing to restore", e.Kind, e.Path)
		case errors.Is(err, plan.ErrInUse):
			result.Deferred = append(result.Deferred, api.UndoFailure{Entry: e, Error: err.Error()})
			events = append(events, plan.Event{Time: at, Kind: plan.EventUndo, Workload: e.Workload, Text: err.Error() + "; it goes back when they are undone"})
			continue
		default:
			result.Failed = append(result.Failed, api.UndoFailure{Entry: e, Error: err.Error()})
			event.Text = fmt.Sprintf("%s of %s could not be put back to %s: %v", e.Kind, e.Path, orAll(e.Old), err)
			event.Error = true
		}
		events = append(events, event)
		if event.Error {
			continue
		}
		if e.Kind == plan.Affinity {
			done = append(done, e)
			continue
		}
		unwritten = errors.Join(unwritten, s.Mark(e.State, e.Seq))
	}
	if lost == nil {
		lost = restoreLate(ctx, s, drivers, done, &result)
	}
	if lost != nil {
		lost = fmt.Errorf("look for what has inherited settings: %w", lost)
		events = append(events, plan.Event{Time: at, Kind: plan.EventUndo, Error: true, Text: lost.Error()})
		for _, e := range entries { // only by these are their heirs to be found
			if slices.ContainsFunc(done, func(d plan.Entry) bool { return d.Seq == e.Seq }) {
				result.Failed = append(result.Failed, api.UndoFailure{Entry: e, Error: lost.Error()})
			}
		}
		return result, errors.Join(unwritten, s.Append(events...))
	}
	for _, e := range done {
		unwritten = errors.Join(unwritten, s.Mark(e.State, e.Seq))
	}
	return result, errors.Join(unwritten, s.Append(events...))
}

// restoreLate puts back what was started, by something that has ended since,
// while the affinities of done were restored. Those are still in the journal.
func restoreLate(ctx context.Context, s Store, drivers map[workload.Kind]Driver, done []plan.Entry, result *api.UndoResult) error {
	if len(done) == 0 {
		return nil
	}
	journal, err := s.Journal()
	if err != nil {
		return err
	}
	late, err := adopt(ctx, s, drivers, journal, nil, nil)
	if err != nil {
		return err
	}
	for _, e := range slices.Backward(late) {
		if !slices.ContainsFunc(done, func(of plan.Entry) bool { return of.Workload == e.Workload }) {
			continue
		}
		e.State = plan.Restored
		switch err := restore(ctx, drivers, e); {
		case err == nil:
			result.Restored = append(result.Restored, e)
		case gone(err) && isGone(drivers, e):
			e.State = plan.Gone
			result.Gone = append(result.Gone, e)
		default:
			result.Failed = append(result.Failed, api.UndoFailure{Entry: e, Error: err.Error()})
			continue
		}
		if err := s.Mark(e.State, e.Seq); err != nil {
			return err
		}
	}
	return nil
}

// kindOf is the driver's kind for an entry.
func kindOf(e plan.Entry) workload.Kind {
	switch e.Kind {
	case plan.Affinity:
		return workload.InProcess
	case plan.IRQAffinity, plan.RPSCPUs, plan.XPSCPUs, plan.QueueCount:
		return workload.InDevice
	case plan.UnitCPUs, plan.HostFile, plan.HostIRQ:
		return workload.InHost
	case plan.GuestCPUs, plan.GuestMems, plan.GuestDefinition:
		return workload.InGuest
	}
	return workload.InCgroup
}

func (d *Daemon) driverOf(e plan.Entry) (Driver, bool) {
	driver, ok := d.o.Drivers[kindOf(e)]
	return driver, ok
}

func restore(ctx context.Context, drivers map[workload.Kind]Driver, e plan.Entry) error {
	driver, ok := drivers[kindOf(e)]
	if !ok {
		return fmt.Errorf("no driver for %s", e.Kind)
	}
	return driver.Restore(ctx, e)
}

// Hold writes down that undone work is to be left alone, for a daemon to come.
func Hold(s Store, which api.Which) error {
	held := holds{IDs: map[workload.ID]bool{}}
	if _, err := s.Load(keyHolds, &held); err != nil {
		return err
	}
	held.add(which)
	return s.Save(keyHolds, held)
}

func (h *holds) add(which api.Which) {
	if which.All {
		h.All = true
		return
	}
	if h.IDs == nil {
		h.IDs = map[workload.ID]bool{}
	}
	h.IDs[which.ID] = true
}

// Resume takes a hold back.
func Resume(s Store, which api.Which) error {
	var held holds
	if _, err := s.Load(keyHolds, &held); err != nil {
		return err
	}
	if err := held.remove(which); err != nil {
		return err
	}
	return s.Save(keyHolds, held)
}

func (h *holds) remove(which api.Which) error {
	switch {
	case which.All:
		*h = holds{IDs: map[workload.ID]bool{}}
	case h.All:
		return &api.Error{Code: api.BadRequest, Text: "everything is held since `undo --all`; use `homenode resume --all`"}
	case !h.IDs[which.ID]:
		return &api.Error{Code: api.NotFound, Text: fmt.Sprintf("%s is not held", which.ID)}
	default:
		delete(h.IDs, which.ID)
	}
	return nil
}

// Undo stops page moves of the workload, holds it and puts its settings back.
func (d *Daemon) Undo(ctx context.Context, which api.Which) (api.UndoResult, error) {
	if err := d.known(which); err != nil {
		return api.UndoResult{}, err
	}
	d.mu.Lock()
	d.held.add(which)
	unheld := d.o.Store.Save(keyHolds, d.held)
	d.mu.Unlock()
	if unheld != nil {
		unheld = fmt.Errorf("write down that it is left alone from now on: %w", unheld)
	}
	ctx = context.WithoutCancel(ctx) // half an undo helps nobody
	d.cancelMoves(func(id workload.ID) bool { return which.All || id == which.ID })
	d.changing.Lock()
	defer d.changing.Unlock()
	result, err := Undo(ctx, d.o.Store, d.o.Drivers, which, d.o.Clock.Now())
	for _, e := range result.Restored {
		d.o.Observer.Changed(d.observerID(e.Workload))
	}
	entries, lost := d.o.Store.Journal()
	err = errors.Join(err, lost)
	d.mu.Lock()
	if lost == nil {
		d.host, d.sets = confined(entries), changedSets(entries)
	}
	for _, e := range result.Restored {
		if e.Kind != plan.Affinity {
			continue
		}
		delete(d.given, e.Workload)
		if _, own := d.wants[e.Workload]; own { // back to what `homenode run` gave it
			d.noteGiven(e.Workload, e.Kind, e.Old)
		}
	}
	d.mu.Unlock()
	return result, errors.Join(unheld, err)
}

// Resume takes a hold back: the next look plans the workload again.
func (d *Daemon) Resume(_ context.Context, which api.Which) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	held := holds{All: d.held.All, IDs: maps.Clone(d.held.IDs)}
	if err := held.remove(which); err != nil {
		return err
	}
	if err := d.o.Store.Save(keyHolds, held); err != nil {
		return err
	}
	d.held, d.tries = held, map[string]*retry{}
	return nil
}

// known refuses an ID that neither runs nor stands in the journal.
func (d *Daemon) known(which api.Which) error {
	if which.All {
		return nil
	}
	if which.ID == "" {
		return &api.Error{Code: api.BadRequest, Text: "name a workload, or --all"}
	}
	d.mu.Lock()
	for i := range d.view.snapshot.Observations {
		if d.view.snapshot.Observations[i].ID == which.ID {
			d.mu.Unlock()
			return nil
		}
	}
	d.mu.Unlock()
	entries, err := d.o.Store.Journal()
	if err != nil {
		return err
	}
	if slices.ContainsFunc(entries, func(e plan.Entry) bool { return e.Workload == which.ID }) {
		return nil
	}
	return notFound(which.ID)
}

func notFound(id workload.ID) error {
	if name, ok := strings.CutPrefix(string(id), "device:"); ok {
		return &api.Error{Code: api.NotFound, Text: fmt.Sprintf("no device %q with interrupts to place; `homenode status` lists those that are looked at (irq: in the configuration)", name)}
	}
	return &api.Error{Code: api.NotFound, Text: fmt.Sprintf("no workload %q; `homenode status` lists them", id)}
}
