package daemon

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"

	"github.com/homenode/homenode/api"
	"github.com/homenode/homenode/core/control"
	"github.com/homenode/homenode/core/plan"
	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/core/words"
	"github.com/homenode/homenode/core/workload"
	"github.com/homenode/homenode/daemon/memory"
)

// Local answers when no daemon runs: it looks at the machine once, and works on the store
// that a stopped daemon left. It changes the host only when told to.
type Local struct {
	Options                        // Store is not used
	Open     func() (Store, error) // the store, to change it
	OpenUndo func() (Store, error) // … or, where it cannot be written, to undo all the same
	OpenOwn  func() (Store, error) // that of this user, for what is this user's
	// Process is a running process and the machine; nil where nobody can say.
	Process  func(ctx context.Context, pid int) (*topology.Host, workload.Observation, error)
	OpenRead func() (Store, error) // the store, to read it; nil without error when there is none
	Who      func() *plan.Asker    // who asks; nil is not told
	Runs     Runs                  // nil: a home for a command is found by a scan of all that runs
	// Own is the runs whose settings the store has; nil: none.
	Own     func() []control.Admission
	first   *Daemon
	undoing []control.Which // what an undo that was interrupted has to restore
}

// keys is what a look without a daemon takes over from the store.
var keys = []string{keyBoot, plan.KeyVersion, control.KeyAdmissions, control.KeyHolds, control.KeyChosen,
	control.KeyPast, control.KeyPartition, control.KeySharing, control.KeyScheduler}

// look is a daemon that looked once, on a copy of the store.
func (l *Local) look(ctx context.Context) (*Daemon, error) {
	if l.first != nil {
		return l.first, nil
	}
	o := l.Options
	var err error
	if o.Store, err = l.copied(); err != nil {
		return nil, err
	}
	o.Log = slog.New(slog.DiscardHandler)
	o.Settings.Enforce, o.Recorder = false, nil
	d, err := New(o)
	if err != nil {
		return nil, err
	}
	l.first = d
	if err := d.lookOnce(ctx); err != nil {
		l.first = nil
		return nil, err
	}
	return d, nil
}

// left is how many settings an undo that was interrupted was still to restore.
func (d *Daemon) left(undoing []control.Which) (n int) {
	for _, e := range d.View().Journal {
		if slices.ContainsFunc(undoing, func(w control.Which) bool { return w.All || w.ID == e.Workload }) {
			n++
		}
	}
	return n
}

func (l *Local) copied() (Store, error) {
	s, err := l.OpenRead()
	if err != nil {
		return nil, err
	}
	if s == nil {
		return memory.New(), nil
	}
	defer s.Close()
	if _, err := s.Load(control.KeyUndoing, &l.undoing); err != nil {
		return nil, err
	}
	return memory.Copy(s, keys...)
}

// Status implements api.Backend.
func (l *Local) Status(ctx context.Context) (api.Status, error) {
	d, err := l.look(ctx)
	if err != nil {
		return api.Status{}, err
	}
	s, err := d.Status(ctx)
	s.Mode = "none"
	if n := d.left(l.undoing); n > 0 {
		s.Problems = append(s.Problems, words.Because(words.UndoInterrupted, n).String())
	}
	return s, err
}

// Small implements api.SmallSource.
func (l *Local) Small(ctx context.Context) (api.Small, error) {
	d, err := l.look(ctx)
	if err != nil {
		return api.Small{}, err
	}
	return d.Small(ctx)
}

// Explain implements api.Backend.
func (l *Local) Explain(ctx context.Context, id workload.ID) (api.Explanation, error) {
	d, err := l.look(ctx)
	if err != nil {
		return api.Explanation{}, err
	}
	x, err := d.Explain(ctx, id)
	x.Mode = "none"
	return x, err
}

// History implements api.Backend. The host is looked at only for a name that no event has.
func (l *Local) History(ctx context.Context, q api.HistoryQuery) (api.History, error) {
	h := api.History{Schema: "homenode-history/2", Events: []plan.Event{}}
	read := func(do func(Store) error) error {
		s, err := l.OpenRead()
		if err != nil || s == nil {
			return err
		}
		return errors.Join(do(s), s.Close())
	}
	if q.Workload != "" {
		var known []workload.ID
		if err := read(func(s Store) (err error) { known, err = s.About(); return err }); err != nil {
			return h, err
		}
		if !slices.Contains(known, q.Workload) {
			d, err := l.look(ctx)
			if err != nil {
				return h, err
			}
			id, f := d.View().FindKnown(q.Workload, d.lineage(string(q.Workload)), known...)
			if f != nil {
				return h, wireError(f)
			}
			q.Workload = id
		}
	}
	h.Workload = q.Workload
	err := read(func(s Store) error {
		events, err := s.History(q)
		h.Events = append(h.Events, events...)
		return err
	})
	return h, err
}

// Place implements api.Backend. Nothing is written down.
func (l *Local) Place(ctx context.Context, want api.Want) (api.Home, error) {
	asked, err := placeRequest(&want)
	if err != nil {
		return api.Home{}, err
	}
	x := want.Exact
	nothing := x != nil && x.CPUs.Empty() && x.Nodes.Empty() // is named, as by --localalloc: it takes nothing
	if l.Runs != nil && want.ID == "" && !nothing && !workload.NamesOthers(asked.Spec.Near) {
		return l.placeBeside(asked)
	}
	if x != nil { // nothing is searched
		return api.Home{Schema: "homenode-home/3", Nodes: x.Nodes, CPUs: x.CPUs,
			Why: words.Because(words.ExactNamed).String()}, nil
	}
	asked.Process, asked.Hold = workload.Process{}, 0
	d, err := l.look(ctx)
	if err != nil {
		return api.Home{}, err
	}
	if l.Who != nil { // whose processes count by their name
		ctx = api.AskedBy(ctx, l.Who())
	}
	r, err := d.once(ctx, control.Request{Place: asked})
	return wireHome(r.Place), err
}

// placeBeside finds a home for a command by what is known without a scan, and writes it down where the command
// starts. Unkept in the answer is why it could not be written down.
func (l *Local) placeBeside(asked *control.PlaceRequest) (home api.Home, err error) {
	var unkept error
	starts := asked.Process.PID > 0
	if starts {
		var unlock func()
		unlock, unkept = l.Runs.Lock(asked.Spec.Class == workload.Dedicated)
		defer unlock()
	}
	seen, err := l.Runs.Look(asked)
	if err != nil {
		return home, err
	}
	r := control.PlaceBeside(l.Clock.Now().Round(0), l.Settings, seen, *asked)
	if r.Failed != nil {
		return home, wireError(r.Failed)
	}
	if starts {
		p := r.Place.Placement
		bad := l.Runs.Keep(control.Admission{Spec: asked.Spec, Process: asked.Process, Placement: p,
			Exact: asked.Exact != nil}, false)
		unkept = cmp.Or(unkept, bad)
	}
	home = wireHome(r.Place)
	home.Unkept = unkept
	return home, nil
}

// Move implements api.Backend: without a daemon a process named by its PID is moved at once;
// of all else it can only be said what would be.
func (l *Local) Move(ctx context.Context, order api.MoveOrder) (api.MoveAnswer, error) {
	if pid, is := workload.PIDOf(string(order.ID)); is && !order.Cancel && l.Process != nil {
		return l.moveProcess(ctx, pid, order)
	}
	if !order.DryRun || order.Cancel {
		return api.MoveAnswer{},
			&api.Error{Code: api.Forbidden,
				Text: "no daemon is running: name a process by its PID; all else is moved by a daemon in enforce mode"}
	}
	d, err := l.look(ctx)
	if err != nil {
		return api.MoveAnswer{}, err
	}
	r, err := d.once(ctx, control.Request{Move: &control.MoveRequest{ID: order.ID, To: order.To, DryRun: true}})
	return wireMoved(r.Move), err
}

// Partition implements api.Backend.
func (l *Local) Partition(context.Context, api.Partition) (api.Partition, error) {
	return api.Partition{}, &api.Error{Code: api.Failed,
		Text: "no daemon is running. Write partition: into the configuration of the next one"}
}

// Undo implements api.Backend.
func (l *Local) Undo(ctx context.Context, which api.Which) (api.UndoResult, error) {
	var out api.UndoResult
	none := false // there is no journal
	id, err := l.named(ctx, which)
	if err != nil {
		return out, err
	}
	out.Workload = id // what `homenode run` has set of it may be known elsewhere
	open := func() (Store, error) {
		s, err := l.OpenUndo()
		var refused *api.Error
		none = errors.As(err, &refused) && refused.Code == api.NotFound
		return s, err
	}
	err = l.with(ctx, open, control.Which{ID: id, All: which.All}, func(d *Daemon) error {
		if id != "" && !slices.ContainsFunc(d.View().Journal, func(e plan.Entry) bool { return e.Workload == id }) {
			return &api.Error{Code: api.NotFound, Text: fmt.Sprintf("nothing of %q was changed", id)}
		}
		r, err := d.once(l.asked(ctx),
			control.Request{Undo: &control.Which{ID: id, All: which.All, DryRun: which.DryRun}})
		undone := r.Undo
		if err == nil && which.DryRun {
			undone = d.checkUndone(ctx, undone)
		}
		out = wireUndone(undone)
		return err
	})
	if none && which.All { // and so all is as it was
		out = wireUndone(&control.Undone{})
		out.Unheld = true
		return out, nil
	}
	return out, err
}

// Resume implements api.Backend.
func (l *Local) Resume(ctx context.Context, which api.Which) (out api.Resumed, err error) {
	id, err := l.named(ctx, which)
	if err != nil {
		return out, err
	}
	err = l.with(ctx, l.Open, control.Which{}, func(d *Daemon) error {
		if h := d.View().Holds; id != "" && !h.Has(id) { // what runs is not known here
			return &api.Error{Code: api.NotFound, Text: words.Because(words.NotHeld, string(id)).String()}
		}
		r, err := d.once(l.asked(ctx),
			control.Request{Resume: &control.Which{ID: id, All: which.All, DryRun: which.DryRun}})
		out = wireResumed(r.Resumed)
		return err
	})
	return out, err
}

// named is the ID of the one workload that is meant, of what runs and what an earlier daemon
// left. The host is looked at only for a name that is not the ID of what was left.
func (l *Local) named(ctx context.Context, which api.Which) (workload.ID, error) {
	if which.All || which.ID == "" {
		return which.ID, nil
	}
	s, err := l.copied()
	if err != nil {
		return which.ID, nil // whoever opens it to change it tells
	}
	o := l.Options
	o.Store = s
	o.Recorder = nil
	o.Log = slog.New(slog.DiscardHandler)
	d, err := New(o)
	if err != nil {
		return "", err
	}
	defer d.stop()
	of := d.lineage(string(which.ID))
	id, f := d.View().FindKnown(which.ID, of)
	if f == nil && id == which.ID {
		return id, nil
	}
	if d, err = l.look(ctx); err == nil { // what else has the name
		// What an earlier daemon left may be too small to be seen, and is meant all the same.
		if other, g := d.View().FindKnown(which.ID, of); f != nil || g == nil || g.Code != control.NotFound {
			id, f = other, g
		}
	}
	return id, wireError(f)
}

// Change implements api.Backend.
func (l *Local) Change(ctx context.Context, c api.Change) (errs []error, err error) {
	if err := mayChange(c.Steps); err != nil {
		return nil, err
	}
	err = l.with(ctx, l.Open, control.Which{}, func(d *Daemon) error {
		r, err := d.once(l.asked(ctx), changeRequest(&c))
		errs = changeErrors(r.Changed)
		return err
	})
	return errs, err
}

func (l *Local) asked(ctx context.Context) context.Context {
	if l.Who == nil {
		return ctx
	}
	return api.AskedBy(ctx, l.Who())
}

// with lets a daemon that does not loop work on the store. What an undo that was interrupted
// has left is restored first, unless it is to be undone now.
func (l *Local) with(ctx context.Context, open func() (Store, error), undoes control.Which,
	do func(*Daemon) error) error {
	s, err := open()
	if err != nil {
		return err
	}
	defer s.Close()
	o := l.Options
	o.Store = s
	o.Recorder = nil
	o.Log = slog.New(slog.DiscardHandler)
	o.Admitted = l.Own // what other runs have set is in a journal of their own
	d, err := New(o)
	if err != nil {
		return err
	}
	defer d.stop()
	for _, u := range slices.Clone(d.state.Undoing) {
		if which := u.Which; !undoes.All && which != undoes {
			if _, err := d.once(ctx, control.Request{Undo: &which}); err != nil {
				return fmt.Errorf("go on with an undo that was interrupted: %w", err)
			}
		}
	}
	return do(d)
}

// Placed is the homes that an earlier daemon has given and that still hold: those whose
// settings are in the journal, and those of `homenode run`.
func (l *Local) Placed() ([]workload.Placement, error) {
	s, err := l.OpenRead()
	if err != nil || s == nil {
		return nil, err
	}
	defer s.Close()
	var boot string
	if _, err := s.Load(keyBoot, &boot); err != nil || boot != l.BootID {
		return nil, err
	}
	saved, err := load(s)
	return slices.DeleteFunc(saved.Placements, func(p workload.Placement) bool {
		return p.Start == 0 &&
			!slices.ContainsFunc(saved.Journal, func(e plan.Entry) bool { return e.Workload == p.Workload })
	}), err
}
