package daemon

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"

	"github.com/homenode/homenode/api"
	"github.com/homenode/homenode/core/plan"
	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/core/workload"
)

// Local answers when no daemon runs: it looks at the machine once, and works on
// the store that a stopped daemon left. It changes the host only to undo.
type Local struct {
	Options                        // Store is not used
	Open     func() (Store, error) // the store, to change it
	OpenRead func() (Store, error) // the store, to read it; nil without error when there is none
	first    *Daemon
}

// Given and Registered are what a stopped daemon left, for the observer.
func (l *Local) Given(id workload.ID) (topology.CPUSet, bool) {
	if l.first == nil {
		return topology.CPUSet{}, false
	}
	return l.first.Given(id)
}

// Registered is the processes that `homenode run` placed under that daemon.
func (l *Local) Registered() []workload.Process {
	if l.first == nil {
		return nil
	}
	return l.first.Registered()
}

// look is a daemon that looked once, on a copy of the store.
func (l *Local) look(ctx context.Context) (*Daemon, error) {
	if l.first != nil {
		return l.first, nil
	}
	o := l.Options
	memory, err := l.remember()
	if err != nil {
		return nil, err
	}
	o.Store = memory
	o.Log = slog.New(slog.DiscardHandler)
	o.Config.Mode = Observe
	d, err := New(o)
	if err != nil {
		return nil, err
	}
	l.first = d
	if err := d.Tick(ctx); err != nil {
		l.first = nil
		return nil, err
	}
	return d, nil
}

func (l *Local) remember() (*Memory, error) {
	s, err := l.OpenRead()
	if err != nil {
		return nil, err
	}
	if s == nil {
		return NewMemory(), nil
	}
	defer s.Close()
	return NewMemoryFrom(s)
}

// Status implements api.Backend.
func (l *Local) Status(ctx context.Context) (api.Status, error) {
	d, err := l.look(ctx)
	if err != nil {
		return api.Status{}, err
	}
	s, err := d.Status(ctx)
	s.Mode = "none"
	return s, err
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

// History implements api.Backend.
func (l *Local) History(ctx context.Context, limit int) (api.History, error) {
	m, err := l.remember()
	if err != nil {
		return api.History{}, err
	}
	return (&Daemon{o: Options{Store: m}}).History(ctx, limit)
}

// Place implements api.Backend. Nothing is written down.
func (l *Local) Place(ctx context.Context, want api.Want) (api.Home, error) {
	d, err := l.look(ctx)
	if err != nil {
		return api.Home{}, err
	}
	want.Process = workload.Process{}
	return d.Place(ctx, want)
}

// Move implements api.Backend: without a daemon it can only be said what would be.
func (l *Local) Move(ctx context.Context, order api.MoveOrder) (api.MoveAnswer, error) {
	if !order.DryRun || order.Cancel {
		return api.MoveAnswer{}, &api.Error{Code: api.Forbidden, Text: "no daemon is running; page moves are a daemon's in enforce mode"}
	}
	d, err := l.look(ctx)
	if err != nil {
		return api.MoveAnswer{}, err
	}
	return d.Move(ctx, order)
}

// Undo implements api.Backend.
func (l *Local) Undo(ctx context.Context, which api.Which) (api.UndoResult, error) {
	s, err := l.open()
	if err != nil {
		return api.UndoResult{}, err
	}
	defer s.Close()
	if !which.All {
		entries, err := s.Journal()
		if err != nil {
			return api.UndoResult{}, err
		}
		if !slices.ContainsFunc(entries, func(e plan.Entry) bool { return e.Workload == which.ID }) {
			return api.UndoResult{}, &api.Error{Code: api.NotFound, Text: fmt.Sprintf("nothing of %q was changed", which.ID)}
		}
	}
	unheld := Hold(s, which)
	if unheld != nil {
		unheld = fmt.Errorf("write down that it is left alone from now on: %w", unheld)
	}
	result, err := Undo(ctx, s, l.Drivers, which, l.Clock.Now())
	return result, errors.Join(unheld, err)
}

// Resume implements api.Backend.
func (l *Local) Resume(_ context.Context, which api.Which) error {
	s, err := l.open()
	if err != nil {
		return err
	}
	defer s.Close()
	return Resume(s, which)
}

// open opens the store for change; journals of another boot are void first.
func (l *Local) open() (Store, error) {
	s, err := l.Open()
	if err != nil {
		return nil, err
	}
	d := &Daemon{o: l.Options}
	d.o.Store = s
	if err := d.forgetOtherBoot(); err != nil {
		s.Close()
		return nil, err
	}
	return s, nil
}
