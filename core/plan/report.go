package plan

import (
	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/core/words"
	"github.com/homenode/homenode/core/workload"
)

// Report is why a plan is as it is: a decision for every workload looked at.
type Report struct {
	Decisions []Decision `json:"decisions"`
}

// Outcome is what was decided for a workload.
type Outcome string

// Outcomes.
const (
	Placed    Outcome = "placed"     // a new home, or its first
	Kept      Outcome = "kept"       // stays where it is
	Refused   Outcome = "refused"    // nothing fits; Shortages say what was short
	Cancelled Outcome = "cancelled"  // by hand, while it was moved
	LeftAlone Outcome = "left alone" // not homenode's to place; Reasons say why
)

// Decision is what was chosen for one workload and why.
type Decision struct {
	Workload   workload.ID      `json:"workload"`             // ID of the workload
	Outcome    Outcome          `json:"outcome"`              // what was decided
	Home       topology.NodeSet `json:"home"`                 // home nodes; empty without a home
	Reasons    []words.Reason   `json:"reasons"`              // reasons, the weightiest first
	Candidates []Candidate      `json:"candidates,omitempty"` // node sets that were weighed, best first
	Shortages  []Shortage       `json:"shortages,omitempty"`  // what each node lacks; of a refusal only
	// the least that would have to become free; of a refusal only
	Nearest []Shortage `json:"nearest,omitempty"`
	// cost of accesses from the first node of the home that has CPUs
	Distances []Distance `json:"distances,omitempty"`
}

// Distance is what an access to another node's memory was taken to cost.
type Distance struct {
	From   topology.NodeID `json:"from"`   // node that reads
	To     topology.NodeID `json:"to"`     // node whose memory is read
	Times  float64         `json:"times"`  // cost of such an access, where a local one costs 1
	Source topology.Source `json:"source"` // where the cost is known from
}

// Candidate is one node set that was weighed.
type Candidate struct {
	Nodes    topology.NodeSet `json:"nodes"`             // the node set
	Score    float64          `json:"score"`             // score; lower is better; compare it within one decision only
	Terms    []Term           `json:"terms,omitempty"`   // parts of the score
	Rejected words.Reason     `json:"rejected,omitzero"` // why it was not taken; absent for the one that was
}

// Term is one part of a score.
type Term struct {
	Name  string       `json:"name"`         // name of the term
	Value float64      `json:"value"`        // value with its weight: the terms add up to the score
	Why   words.Reason `json:"why,omitzero"` // the numbers behind it
}

// Resource is something a node can run out of.
type Resource string

// Resources.
const (
	CPU      Resource = "CPU"
	Core     Resource = "whole core"
	Memory   Resource = "memory"
	HugePage Resource = "huge page"
)

// Shortage is what a node set lacked for a workload.
type Shortage struct {
	Nodes    topology.NodeSet `json:"nodes"`    // nodes, looked at together
	Resource Resource         `json:"resource"` // what is short
	Want     int64            `json:"want"`     // amount that is needed: CPUs, cores, KiB or pages
	Have     int64            `json:"have"`     // amount that is left, in the same unit
}
