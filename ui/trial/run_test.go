package trial

import (
	"context"
	"testing"
	"time"

	"github.com/homenode/homenode/api"
	"github.com/homenode/homenode/core/trial"
)

// TestTimeRises: periods follow those that were measured before a restart of the machine, also where its clock is wrong
// by then.
func TestTimeRises(t *testing.T) {
	for _, began := range []time.Duration{-time.Hour, -time.Minute, 3 * time.Hour} { // from now on
		d := &trial.Document{Began: time.Now().Add(began).Round(0)}
		d.Plan = trial.Plan{Blocks: 2, Period: 2 * time.Millisecond, Every: time.Millisecond}
		d.Plan.Arms = []trial.Arm{trial.Off, trial.On}
		for _, arm := range d.Plan.Arms {
			d.Periods = append(d.Periods, trial.Record{Arm: arm, From: 100, To: 200})
		}
		state := api.Trial{Name: "t", Settled: true}
		r := Runner{
			Doc: d, Save: func(*trial.Document) error { return nil }, Lease: time.Hour, Patience: time.Hour,
			Switch: func(_ context.Context, order api.TrialOrder) (api.Trial, error) {
				if order.End {
					return api.Trial{}, nil
				}
				return state, nil
			},
		}
		if err := r.Run(t.Context()); err != nil {
			t.Fatal(err)
		}
		last := 0.0
		for _, p := range d.Periods[1:] {
			if p.From < last || p.To <= p.From {
				t.Errorf("begun %v from now on: from %g s to %g s, after %g s", began, p.From, p.To, last)
			}
			last = p.To
		}
		if len(d.Periods) != 4 || d.Periods[2].Switch < 200 || began == -time.Hour && d.Periods[2].Switch < 3600 {
			t.Errorf("begun %v from now on: %+v", began, d.Periods)
		}
	}
}
