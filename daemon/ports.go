package daemon

import (
	"context"
	"errors"
	"time"

	"github.com/homenode/homenode/core/balance"
	"github.com/homenode/homenode/core/irq"
	"github.com/homenode/homenode/core/plan"
	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/core/workload"
)

// ErrGone is returned by a Driver when the cgroup or process no longer exists.
var ErrGone = errors.New("no longer exists")

// Observer looks at the host.
type Observer interface {
	// Look reads the machine and every workload on it. What cannot be read is
	// in Snapshot.Problems; an error means that nothing could be seen at all.
	Look(ctx context.Context) (workload.Snapshot, error)
	// Stale says that the memory of a workload was moved: the next Look reads it
	// anew, however lately it did.
	Stale(id workload.ID)
	// Changed says that what a workload may use was changed.
	Changed(id workload.ID)
}

// Driver carries out steps for one kind of target. Its methods are idempotent
// and safe to call from one goroutine at a time, but for move-pages steps, of which
// several run beside it and one another. Errors that wrap fs.ErrNotExist
// or ESRCH mean that the target is gone.
type Driver interface {
	// Settings reads everything that Apply(step) would change, with the values
	// that stand now, in the order Apply will change them. A step that moves
	// pages only has none.
	Settings(ctx context.Context, step plan.Step) ([]plan.Setting, error)
	// Apply makes the step true and reads back that it is. For move-pages it
	// calls progress after each batch and stops between batches when ctx ends,
	// returning ctx's error; calling again goes on where it stopped.
	Apply(ctx context.Context, step plan.Step, progress func(plan.Move)) error
	// Restore puts entry.Old back and reads back that it stands.
	Restore(ctx context.Context, entry plan.Entry) error
	// Present returns nil while the thing that entry is about exists.
	Present(entry plan.Entry) error
}

// Heirs is a Driver whose settings pass on to what a workload starts: a child
// has the affinity of the process that made it.
type Heirs interface {
	// Heirs finds what has inherited a value from an entry of journal and has no
	// entry itself, among the given processes or, with nil, all.
	Heirs(ctx context.Context, journal []plan.Entry, among []workload.Process) ([]plan.Heir, error)
}

// Recorder keeps what was seen and decided, for `homenode replay`.
type Recorder interface {
	Record(balance.Record) error
}

// Devices is a Driver that can read the interrupts and queues of devices.
type Devices interface {
	// Devices is every NIC and NVMe drive of h whose node is known.
	Devices(ctx context.Context, h *topology.Host) ([]irq.Device, error)
}

// Links finds what workloads use.
type Links interface {
	// Links is the devices and helpers that each workload was found to use, in a fixed
	// order, and when its counters were read. What was not looked at in this round is as
	// found before.
	Links(ctx context.Context, h *topology.Host, all []workload.Observation) (map[workload.ID][]workload.Link, map[workload.ID]time.Time)
}

// Clock is time, so that tests and the simulator have their own.
type Clock interface {
	Now() time.Time
	After(time.Duration) <-chan time.Time
}

// Store is the durable memory of the daemon. Every method that writes returns
// only when the data is on disk.
type Store interface {
	// Intend journals the settings before they are changed to the values in
	// will (same order). A setting already in the journal keeps its first Old.
	Intend(w workload.ID, have []plan.Setting, will []string, at time.Time) ([]plan.Entry, error)
	// Mark records how far entries have come.
	Mark(state plan.EntryState, seqs ...uint64) error
	// Journal is all entries not yet Restored or Gone, in order.
	Journal() ([]plan.Entry, error)
	// SavePlacements replaces the ledger of homes.
	SavePlacements([]plan.Placement) error
	Placements() ([]plan.Placement, error)
	// SaveMove keeps the newest record of a workload's page move.
	SaveMove(plan.Move) error
	Moves() ([]plan.Move, error)
	// Append adds events to the history, which keeps a bounded number of them.
	Append(...plan.Event) error
	// History is the newest events, oldest first, at most limit (0 is all).
	History(limit int) ([]plan.Event, error)
	// Load reads a value kept under key into v and reports whether there is one;
	// Save keeps it as JSON. For the few small things that have no table.
	Load(key string, v any) (bool, error)
	Save(key string, v any) error
	Close() error
}
