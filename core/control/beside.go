package control

import (
	"time"

	"github.com/homenode/homenode/core/place"
	"github.com/homenode/homenode/core/workload"
)

// Beside is what `homenode run` knows where no daemon answers, without a scan of all that runs.
type Beside struct {
	Snapshot workload.Snapshot // the machine, and the memory in use by all but Runs
	Runs     []Admission       // homes of runs
	Pinned   []place.Pinned    // other pinned work
}

// PlaceBeside answers a request for a home from what is known without a daemon. It decides as a daemon does
// whose first scan saw nothing but the machine.
func PlaceBeside(at time.Time, settings Settings, seen *Beside, asked PlaceRequest) Reply {
	settings.Enforce = false
	s := New(settings, Saved{}.With(seen.Runs))
	s, _ = Next(s, Input{At: at, Scan: &Scan{Began: at, Snapshot: seen.Snapshot}})
	asked.Beside = seen.Pinned
	_, out := Next(s, Input{At: at, Request: &Request{ID: 1, Place: &asked}})
	reply := out.Replies[0]
	if reply.Place != nil {
		reply.Place.Ledger = false // there is none
	}
	return reply
}
