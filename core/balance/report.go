package balance

import (
	"time"

	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/core/words"
	"github.com/homenode/homenode/core/workload"
)

// Report is the result of balancing in one scan: findings, the choice, and rejected candidates.
type Report struct {
	Quiet words.Reason `json:"quiet,omitzero"` // why nothing is done; absent when something is
	// outcome in a word or two; it changes only when the situation does
	State    State       `json:"state"`
	Lost     float64     `json:"lost_cpus"`          // CPUs of work that waits for a CPU or for memory, by the model
	Nodes    []Node      `json:"nodes,omitempty"`    // how busy each node is
	Triggers []Trigger   `json:"triggers,omitempty"` // what has been wrong for long enough to act
	Chosen   *Candidate  `json:"chosen,omitempty"`   // the change that is made; absent without one
	Weighed  []Candidate `json:"weighed,omitempty"`  // other changes that were weighed, best first
}

// State is the outcome of a tick in one word.
type State string

// States.
const (
	Off      State = "off"
	Learning State = "learning"  // the window is not full
	InOrder  State = "in order"  // no trigger
	NoChoice State = "no choice" // triggers, and nothing that may be done pays
	Would    State = "would"     // observe mode: a choice that is not carried out
	Moves    State = "moves"
)

// Node is the load of one node by the model, averaged over the window.
type Node struct {
	ID        topology.NodeID `json:"id"`       // node ID of the kernel
	CPUs      int             `json:"cpus"`     // CPUs for shared work
	Load      float64         `json:"load"`     // CPUs that shared work is entitled to and wants
	Kept      float64         `json:"kept"`     // idle CPUs that are kept for important work
	Traffic   float64         `json:"mib_s"`    // traffic to its memory, MiB/s
	Bandwidth int64           `json:"capacity"` // bandwidth of its memory, MiB/s
	// free and reclaimable memory when moves under way have ended, KiB; -1 unknown
	Free      topology.KiB `json:"free_kib"`
	Known     float64      `json:"known"`     // share of its traffic that was measured, 0 to 1
	Important bool         `json:"important"` // whether an important workload lives here
}

// TriggerKind is the kind of a problem.
type TriggerKind string

// Kinds of trigger.
const (
	CPUPressure       TriggerKind = "CPU"
	BandwidthPressure TriggerKind = "bandwidth"
	LowLocality       TriggerKind = "locality"
	MemoryShortage    TriggerKind = "memory"
	FarFromPartner    TriggerKind = "near" // far from a device or a helper it is to be near
)

// Trigger is a problem of a node or of a workload.
type Trigger struct {
	Kind     TriggerKind     `json:"kind"`               // what is wrong
	Node     topology.NodeID `json:"node"`               // node that it is about; -1 for a workload
	Workload workload.ID     `json:"workload,omitempty"` // ID of the workload that it is about; absent for a node
	Reason   words.Reason    `json:"reason"`             // what is wrong, in words and numbers
}

// Kind is the kind of a change.
type Kind string

// Kinds of change.
const (
	Move         Kind = "move"           // to another node
	Swap         Kind = "swap"           // two workloads change places
	MemoryToCPUs Kind = "memory-to-CPUs" // the home stays and memory comes to it
	Widen        Kind = "widen"          // one node more
	Narrow       Kind = "narrow"         // fewer nodes of its home
)

// Candidate is a change that balancing considered, or that a rule forbids.
type Candidate struct {
	Kind     Kind          `json:"kind"`              // kind of change
	Changes  []Change      `json:"changes"`           // changes of home that belong together
	Gain     time.Duration `json:"gain_ns"`           // thread time that it saves within the horizon, by importance, ns
	Cost     time.Duration `json:"cost_ns"`           // thread time that it costs, ns
	Saves    float64       `json:"saves"`             // CPUs of work that no longer wait when it is done
	Bytes    int64         `json:"bytes"`             // bytes to move
	Took     time.Duration `json:"takes_ns"`          // time that the move takes at the paced bandwidth, ns
	Reason   words.Reason  `json:"reason"`            // what it is good for
	Rejected words.Reason  `json:"rejected,omitzero"` // why it is not made; absent for the chosen one

	split words.Reason // why the home gets one node more; none for other kinds
}

// Change is a new home of one workload.
type Change struct {
	Workload workload.ID      `json:"workload"` // ID of the workload
	From     topology.NodeSet `json:"from"`     // home nodes now
	To       topology.NodeSet `json:"to"`       // home nodes afterwards
	Bytes    int64            `json:"bytes"`    // bytes of its memory that lie off the new home
}

// Of returns the triggers, candidates and choice that concern one workload.
func (r *Report) Of(id workload.ID) []Candidate {
	var out []Candidate
	add := func(c *Candidate) {
		for _, ch := range c.Changes {
			if ch.Workload == id {
				out = append(out, *c)
				return
			}
		}
	}
	if r.Chosen != nil {
		add(r.Chosen)
	}
	for i := range r.Weighed {
		add(&r.Weighed[i])
	}
	return out
}
