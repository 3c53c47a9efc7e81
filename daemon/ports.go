package daemon

import (
	"context"
	"time"

	"github.com/homenode/homenode/core/control"
	"github.com/homenode/homenode/core/plan"
	"github.com/homenode/homenode/core/share"
	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/core/workload"
)

// Observer looks at the host. Look is called by one goroutine at a time, the others by
// any.
type Observer interface {
	// Look reads the machine and every workload on it. What cannot be read is in
	// Snapshot.Problems; an error means that nothing could be seen at all.
	Look(ctx context.Context) (workload.Snapshot, error)
	// Stale says that the memory of a workload was moved: the next Look reads it anew,
	// however lately it did.
	Stale(id workload.ID)
	// Changed says that what a workload may use was changed.
	Changed(id workload.ID)
}

// Source knows its workloads better than cgroups and processes show them.
type Source interface {
	// Name is the source's in status and events.
	Name() string
	// Refresh brings what is known up to date. On an error what was known before stands,
	// and the error is one problem.
	Refresh(ctx context.Context) error
	// Claims is what is known, rising by ID, and what is not understood.
	Claims(h *topology.Host) ([]workload.Claim, []workload.Problem)
	// Processes is those of its workloads, which are observed however small they are.
	Processes() []workload.Process
	// Wake receives when something began or ended; nil is polled.
	Wake() <-chan struct{}
}

// Driver carries out steps for one kind of target.
type Driver = plan.Driver

// Inheriting is a Driver whose settings pass on to what a workload starts: a child has
// the affinity of the process that made it.
type Inheriting interface {
	// Inherited finds what has inherited a value from an entry of journal and has no
	// entry itself, among the given processes or, with nil, all.
	Inherited(ctx context.Context, journal []plan.Entry, among []workload.Process) ([]plan.Inherited, error)
	// RestoreBeside is Restore, but for what has its value from an entry of journal that is not
	// among entries.
	RestoreBeside(ctx context.Context, entries, journal []plan.Entry) []error
}

// Processes tells of processes what the kernel says without waiting for them.
type Processes interface {
	// Ended is those that are no more.
	Ended([]workload.Process) []workload.Process
	// Affinity is the CPUs that a process may use; empty when it cannot be read.
	Affinity(workload.Process) topology.CPUSet
}

// Surveyor makes one kind of survey, on what the newest scan saw.
type Surveyor func(ctx context.Context, s *workload.Snapshot) (control.Survey, error)

// Scheduler is the kernel's scheduler for batch work. What loads and unloads it is a
// Driver. Its methods may block and are called by one goroutine at a time.
type Scheduler interface {
	// Look tells it what holds now, and says how it is. Without orders.Config nothing is told.
	Look(ctx context.Context, orders share.SchedulerOrders) (share.SchedulerSeen, error)
	// Keep keeps the scheduler in a file, so that a step can load it by the version returned. A
	// dry run only reads it.
	Keep(ctx context.Context, file string, dryRun bool) (version string, err error)
}

// Recorder keeps what happened, for `homenode replay`. Neither method waits for the disk.
type Recorder interface {
	// Due reports whether the next record should carry the state before it: a file begins
	// there, and what follows cannot be replayed without.
	Due() bool
	Record(control.Recorded)
}

// Clock is time, so that tests have their own.
type Clock interface {
	Now() time.Time
	After(time.Duration) <-chan time.Time
}

// Store is the durable memory. The daemon keeps a copy of all but the history.
type Store interface {
	Journal() ([]plan.Entry, error) // live entries, rising by Seq
	LastSeq() (uint64, error)       // of the newest entry ever made
	Placements() ([]plan.Placement, error)
	Moves() ([]plan.Move, error)
	// Load reads a value kept under key into v and reports whether there is one.
	Load(key string, v any) (bool, error)
	// History is the events that are asked for, oldest first.
	History(plan.EventQuery) ([]plan.Event, error)
	// About is the workloads that events are about, each once, rising.
	About() ([]workload.ID, error)
	// Commit writes a batch in one transaction, on disk when it returns.
	Commit(plan.Batch) error
	Close() error
}
