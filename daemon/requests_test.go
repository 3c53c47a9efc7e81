package daemon

import (
	"context"
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/homenode/homenode/api"
	"github.com/homenode/homenode/core/control"
	"github.com/homenode/homenode/core/topology"
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
		"resume":  func(ctx context.Context, b api.Backend) error { _, err := b.Resume(ctx, api.Which{}); return err },
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

// dead has all processes end but those it names.
type dead map[workload.Process]bool

func (d dead) Ended(all []workload.Process) (out []workload.Process) {
	for _, p := range all {
		if !d[p] {
			out = append(out, p)
		}
	}
	return out
}

func (dead) Affinity(workload.Process) topology.CPUSet { return topology.CPUs(0, 1) }

// TestRunsInARow: commands that have ended by the time the next asks hold nothing, without
// a scan between them.
func TestRunsInARow(t *testing.T) {
	living := dead{}
	r := newRig(t, newMachine(t, 1, 2), false, func(o *Options) { o.Processes = living })
	r.ticks(1)
	for pid := 101; pid < 113; pid++ {
		clear(living)
		p := workload.Process{PID: pid, Start: 9}
		living[p] = true
		if _, err := r.place(api.Want{Class: workload.Dedicated, CPUs: 1, Process: p}); err != nil {
			t.Fatalf("%d: %v", pid-100, err)
		}
		if got := r.state.Booked(); len(got) != 1 || got[0] != p {
			t.Errorf("booked by %v", got)
		}
		if had := r.state.Admissions[control.ProcessID(pid)].Had; had.String() != "0-1" {
			t.Errorf("it might use CPUs %q before", had)
		}
	}
}

// TestAskerGone: nothing is begun for who has gone away before the loop came to it.
func TestAskerGone(t *testing.T) {
	m := scattered(t)
	r := newRig(t, m, true)
	r.ticks(6)
	before := m.settings()
	gone, leave := context.WithCancel(t.Context())
	leave()
	p := workload.Process{PID: 7, Start: 9}
	for _, request := range []control.Request{{Undo: &control.Which{All: true}},
		{Place: &control.PlaceRequest{Spec: workload.Spec{Class: workload.Shared, CPUs: 1}, Process: p}}} {
		r.ask(asked{ctx: gone, request: request, answer: make(chan control.Reply, 1)})
		r.settle()
	}
	if diff := cmp.Diff(before, m.settings()); diff != "" || r.state.Holds.All || len(r.state.Admissions) != 0 {
		t.Errorf("held %v, admitted %d:\n%s", r.state.Holds.All, len(r.state.Admissions), diff)
	}
}
