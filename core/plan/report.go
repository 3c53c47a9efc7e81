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
	Workload   workload.ID      `json:"workload"`             // that was decided on
	Outcome    Outcome          `json:"outcome"`              // in a word
	Home       topology.NodeSet `json:"home"`                 // nodes; empty without one
	Reasons    []words.Reason   `json:"reasons"`              // the weightiest first
	Candidates []Candidate      `json:"candidates,omitempty"` // best first
	Shortages  []Shortage       `json:"shortages,omitempty"`  // of a refusal: what each node lacks for all of it
	Nearest    []Shortage       `json:"nearest,omitempty"`    // of a refusal: the least that would have to be free for it to be admitted
	Distances  []Distance       `json:"distances,omitempty"`  // from the first node of the home with CPUs
}

// Distance is what an access to another node's memory was taken to cost.
type Distance struct {
	From   topology.NodeID `json:"from"`   // node
	To     topology.NodeID `json:"to"`     // node
	Times  float64         `json:"times"`  // a local access
	Source topology.Source `json:"source"` // of the figure
}

// Candidate is one node set that was weighed.
type Candidate struct {
	Nodes    topology.NodeSet `json:"nodes"`             // that were looked at
	Score    float64          `json:"score"`             // lower is better; meaningful within one decision
	Terms    []Term           `json:"terms,omitempty"`   // of the score
	Rejected words.Reason     `json:"rejected,omitzero"` // why it was not taken; none for the winner
}

// Term is one part of a score.
type Term struct {
	Name  string       `json:"name"`         // of the term
	Value float64      `json:"value"`        // already weighted: terms add up to the score
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

// Shortage says what a node set lacked for a workload.
type Shortage struct {
	Nodes    topology.NodeSet `json:"nodes"`    // that are looked at together
	Resource Resource         `json:"resource"` // that is short
	Want     int64            `json:"want"`     // CPUs, cores, KiB or pages
	Have     int64            `json:"have"`     // what is left of it, in the resource's unit
}
