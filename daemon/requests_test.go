package daemon

import (
	"context"
	"errors"
	"testing"

	"github.com/homenode/homenode/api"
	"github.com/homenode/homenode/core/workload"
)

// TestRequestsOfNothing: what names nothing, or asks for what cannot be, is refused in a
// line, with a daemon and without.
func TestRequestsOfNothing(t *testing.T) {
	r := newRig(t, scattered(t), true)
	r.ticks(3)
	open := func() (Store, error) { return r.store, nil }
	l := &Local{Open: open, OpenUndo: open, OpenRead: open, Options: r.options(true)}
	ctx := t.Context()
	for name, ask := range map[string]func(context.Context, api.Backend) error{
		"explain": func(ctx context.Context, b api.Backend) error { _, err := b.Explain(ctx, ""); return err },
		"undo":    func(ctx context.Context, b api.Backend) error { _, err := b.Undo(ctx, api.Which{}); return err },
		"resume":  func(ctx context.Context, b api.Backend) error { return b.Resume(ctx, api.Which{}) },
		"move": func(ctx context.Context, b api.Backend) error {
			_, err := b.Move(ctx, api.MoveOrder{DryRun: true})
			return err
		},
		"hold": func(ctx context.Context, b api.Backend) error {
			if b == api.Backend(l) {
				return &api.Error{Code: api.BadRequest} // nothing is held without a daemon
			}
			for _, seconds := range []int{-1, 3601, 1 << 40, 18446744073} { // the last wraps to a second
				if _, err := b.Place(ctx, api.Want{ID: "x", Class: workload.Shared, CPUs: 1, HoldSeconds: seconds}); err == nil {
					return errors.New("it is held")
				}
			}
			_, err := b.Place(ctx, api.Want{ID: "x", Class: workload.Shared, CPUs: 1, HoldSeconds: -1})
			return err
		},
	} {
		for _, b := range []api.Backend{r.Daemon, l} {
			_, err := within(r, func() (struct{}, error) { return struct{}{}, ask(ctx, b) })
			var e *api.Error
			if !errors.As(err, &e) || e.Code != api.BadRequest {
				t.Errorf("%s of %T: %v", name, b, err)
			}
		}
	}
}
