package api

import (
	"context"
	"time"

	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/core/workload"
)

// ShareSource is a Backend that turns sharing on and off, too.
type ShareSource interface {
	Share(ctx context.Context, order ShareOrder) (Sharing, error)
}

// ShareOrder turns sharing on or off: POST /v1/share.
type ShareOrder struct {
	On     bool `json:"on"`                // whether offline work is to be squeezed
	DryRun bool `json:"dry_run,omitempty"` // nothing is changed
}

// Sharing is how many CPUs offline work may have now, so that online work does not feel it.
type Sharing struct {
	Schema    string      `json:"schema"`         // homenode-share/1
	On        bool        `json:"on"`             // whether offline work is squeezed
	Mode      string      `json:"mode"`           // mode of the daemon: observe (nothing is changed) or enforce
	Target    float64     `json:"target"`         // share of the CPUs that may be busy, 0 to 1
	Rest      string      `json:"rest,omitempty"` // why there is nothing to share; absent when there is
	Nodes     []ShareNode `json:"nodes"`          // NUMA nodes, rising by ID
	Workloads []ShareWork `json:"workloads"`      // offline workloads, rising by ID
}

// ShareNode is what offline work may have of one NUMA node.
type ShareNode struct {
	Node   topology.NodeID `json:"node"`   // node ID of the kernel
	CPUs   float64         `json:"cpus"`   // CPUs that offline work may keep busy: what online work, the system and the CPUs kept idle leave up to the target
	Given  string          `json:"given"`  // CPUs that it has, in list format: whole cores, to the nearest
	Pool   int             `json:"pool"`   // number of CPUs that neither dedicated work nor the host holds
	Online float64         `json:"online"` // CPUs that online work keeps busy
	System float64         `json:"system"` // CPUs that everything else keeps busy
	Idle   int             `json:"idle"`   // number of CPUs that are kept idle
	Why    []string        `json:"why"`    // why, in sentences
}

// ShareWork is what one offline workload may have.
type ShareWork struct {
	ID     workload.ID `json:"id"`               // ID of the workload
	CPUs   string      `json:"cpus"`             // CPUs that it may use, in list format
	Frozen *time.Time  `json:"frozen,omitempty"` // when it was frozen; absent while it may run
	For    workload.ID `json:"for,omitempty"`    // workload that it is frozen for
	Why    string      `json:"why"`              // why, in a sentence
}
