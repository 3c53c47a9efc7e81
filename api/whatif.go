package api

import (
	"context"

	"github.com/homenode/homenode/core/plan"
	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/core/workload"
)

// WhatIfSource is a Backend that says what would be, without doing it.
type WhatIfSource interface {
	WhatIf(ctx context.Context, q WhatIf) (WhatIfAnswer, error)
}

// WhatIf asks what would be: where new workloads would go, with Spec, or what a move would
// cost and bring, with Workload and To. Who may look may ask: POST /v1/what-if.
type WhatIf struct {
	// workloads as the file of homenode plan --spec has them, YAML or JSON; at most 32
	Spec string `json:"spec,omitempty"`
	// workload that would move: its ID, or a name that only it has
	Workload workload.ID      `json:"workload,omitempty"`
	To       topology.NodeSet `json:"to,omitzero"` // nodes that it would move to; one of them may do
}

// WhatIfAnswer is what would be: POST /v1/what-if. Nothing is done or booked.
type WhatIfAnswer struct {
	Schema string `json:"schema"` // homenode-what-if/2
	// answers, one for each workload of the spec, each on top of those before it
	Workloads []RepackAnswer `json:"workloads"`
	Move      *MoveForecast  `json:"move,omitempty"` // the move that was asked about; absent with a spec
}

// MoveForecast is what a move would cost and bring.
type MoveForecast struct {
	Workload workload.ID `json:"workload"` // ID of the workload
	// what an order would lead to: placed (it moves), kept (it is there already), refused or left alone
	Outcome  plan.Outcome     `json:"outcome"`
	From     topology.NodeSet `json:"from"`      // home nodes now
	FromCPUs topology.CPUSet  `json:"from_cpus"` // CPUs that it may use now
	To       topology.NodeSet `json:"to"`        // home nodes afterwards
	CPUs     topology.CPUSet  `json:"cpus"`      // CPUs that it may use afterwards
	Bytes    int64            `json:"bytes"`     // memory that would move, bytes
	// least time that this takes at the paced bandwidth, s; 0 when nothing moves
	Seconds float64 `json:"seconds"`
	// share of its memory accesses that are local now, 0 to 1; null unknown
	Locality *float64 `json:"locality"`
	// share of local accesses afterwards, 0 to 1; null when it does not move
	LocalityAfter *float64      `json:"locality_after"`
	Decision      plan.Decision `json:"decision"` // the decision, with all reasons
	Steps         []plan.Step   `json:"steps"`    // steps of this workload
}

// WhatIf asks what would be.
func (c *Client) WhatIf(ctx context.Context, q WhatIf) (a WhatIfAnswer, err error) {
	return a, c.do(ctx, "POST", "/v1/what-if", q, &a)
}
