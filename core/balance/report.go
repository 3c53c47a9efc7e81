package balance

import (
	"time"

	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/core/words"
	"github.com/homenode/homenode/core/workload"
)

// Report is what a tick found, chose and did not choose.
type Report struct {
	// Quiet is why nothing is done; none when something is.
	Quiet words.Reason `json:"quiet,omitzero"`
	// State is Quiet or the choice without numbers: it changes only when
	// something else is the matter.
	State    State       `json:"state"`
	Lost     float64     `json:"lost_cpus"`          // thread time lost, in CPUs, by the model
	Nodes    []Node      `json:"nodes,omitempty"`    // how busy each is
	Triggers []Trigger   `json:"triggers,omitempty"` // what has been wrong for long enough
	Chosen   *Candidate  `json:"chosen,omitempty"`   // what is done about it
	Weighed  []Candidate `json:"weighed,omitempty"`  // best first, at most mostWeighed, without the chosen one
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

// Node is one node in the model's eyes, averaged over the window.
type Node struct {
	ID        topology.NodeID `json:"id"`        // of the node
	CPUs      int             `json:"cpus"`      // for shared work
	Load      float64         `json:"load"`      // CPUs that shared work is entitled to and wants
	Kept      float64         `json:"kept"`      // idle CPUs that important work keeps
	Traffic   float64         `json:"mib_s"`     // to its memory
	Bandwidth int64           `json:"capacity"`  // MiB/s
	Free      topology.KiB    `json:"free_kib"`  // and reclaimable, when moves under way have ended; None when unknown
	Known     float64         `json:"known"`     // part of Traffic that was measured, 0 to 1
	Important bool            `json:"important"` // an important workload lives here
}

// TriggerKind is what is wrong.
type TriggerKind string

// Kinds of trigger.
const (
	CPUPressure       TriggerKind = "CPU"
	BandwidthPressure TriggerKind = "bandwidth"
	LowLocality       TriggerKind = "locality"
	MemoryShortage    TriggerKind = "memory"
	FarFromPartner    TriggerKind = "near" // far from a device or a helper it is to be near
)

// Trigger is something wrong, of a node or of a workload.
type Trigger struct {
	Kind     TriggerKind     `json:"kind"`               // of what is wrong
	Node     topology.NodeID `json:"node"`               // None for a workload
	Workload workload.ID     `json:"workload,omitempty"` // that it is about; empty when it is about a node
	Reason   words.Reason    `json:"reason"`             // in words and numbers
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

// Candidate is a change that was weighed, or that a rule forbids.
type Candidate struct {
	Kind    Kind          `json:"kind"`     // move or exchange
	Changes []Change      `json:"changes"`  // of homes that belong together
	Gain    time.Duration `json:"gain_ns"`  // thread time saved within the horizon, by importance
	Cost    time.Duration `json:"cost_ns"`  // thread time spent on it
	Saves   float64       `json:"saves"`    // CPUs no longer lost when it is done
	Bytes   int64         `json:"bytes"`    // to move
	Took    time.Duration `json:"takes_ns"` // at the paced bandwidth
	Reason  words.Reason  `json:"reason"`   // what it is good for
	// Rejected is why it is not done; none for the chosen one.
	Rejected words.Reason `json:"rejected,omitzero"`
}

// Change is a new home of one workload.
type Change struct {
	Workload workload.ID      `json:"workload"` // that changes its home
	From     topology.NodeSet `json:"from"`     // nodes of the home it has
	To       topology.NodeSet `json:"to"`       // nodes of the home it would have
	Bytes    int64            `json:"bytes"`    // of its memory that lie elsewhere
}

// Of are the triggers, candidates and choice that concern one workload.
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
