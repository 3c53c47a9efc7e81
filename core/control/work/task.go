package work

import (
	"time"

	"github.com/homenode/homenode/core/plan"
	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/core/workload"
)

// Task is the steps of one workload that are under way, the first of them now.
type Task struct {
	Steps     []plan.Step
	Effect    uint64   // the one under way
	Writing   bool     // it changes something; until then it reads the current values
	Entries   []uint64 // of the journal, of the step under way
	Cancelled bool     // nothing more is begun
	Took      bool     // a step of it took
	Pinned    uint64   // scans up to this one may have seen a part of the affinities that it wrote
	Scan      uint64   // the plan was made on
	Target    string   // what it changes, as plan.Target.Own

	Move     *plan.Move // the record of a page move that has begun
	Saved    time.Time  // when Move was last written to disk
	Transfer *Transfer  // nil for settings that are changed at once

	Request  uint64     // that asked for it; 0 for a plan of a scan
	Together bool       // of a request: nothing follows a step that failed
	Errs     []*Failure // of a request: how each step went
}

// Step returns the step under way.
func (t *Task) Step() *plan.Step { return &t.Steps[0] }

// Queued is a task that waits for another one of its workload to end.
type Queued struct {
	ID   workload.ID
	Task *Task
}

// Transfer is the rest of a workload's steps, from its page move on, that waits to be begun.
type Transfer struct {
	ID      workload.ID
	Steps   []plan.Step
	Bytes   int64
	Leaves  map[topology.NodeID]topology.KiB // what it takes away
	Arrives map[topology.NodeID]topology.KiB // what it brings
	Aged    bool                             // it has waited long
}

// todo finds the steps of one workload in the plan without going through all of them: there are
// thousands after a first scan, and each that was carried out is removed.
type todo struct {
	own   bool                  // no reader has the steps of the plan
	steps []plan.Step           // of the plan, when the index was made
	of    map[workload.ID][]int // positions in steps that are left, rising; nil for no index
	done  int                   // how many of steps are not left
}
