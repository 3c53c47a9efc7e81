package workload

import "github.com/homenode/homenode/core/topology"

// Figures is a table of amounts by node, as numastat(8) has them.
type Figures struct {
	Nodes []topology.NodeID `json:"nodes"` // the columns, rising
	Rows  []Figure          `json:"rows"`  // of the table
}

// Figure is a row of Figures.
type Figure struct {
	Name   string  `json:"name"`    // of the row
	Unit   string  `json:"unit"`    // InKiB or InPages
	ByNode []int64 `json:"by_node"` // as Figures.Nodes; -1 where it is not known
}

// Units of a Figure.
const (
	InKiB   = "KiB"
	InPages = "pages" // counted since the machine started
)

// Total is the sum over all nodes of what is known; -1 where nothing is.
func (f *Figure) Total() int64 {
	sum := int64(-1)
	for _, n := range f.ByNode {
		if n >= 0 {
			sum = max(0, sum) + n
		}
	}
	return sum
}

// Unread is a process that is not in Figures.
type Unread struct {
	PID int    `json:"pid"` // of the process
	Why string `json:"why"` // it could not be read
}
