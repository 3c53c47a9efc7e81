package work

import "github.com/homenode/homenode/core/workload"

// Holds is what undo, or the cancelling of a move, told homenode to leave alone.
type Holds struct {
	All bool                 `json:"all"`
	IDs map[workload.ID]bool `json:"ids"`
}

// Has reports whether a workload is held.
func (h *Holds) Has(id workload.ID) bool {
	whole, _ := workload.PartOf(id)
	return h.All || h.IDs[id] || h.IDs[whole]
}
