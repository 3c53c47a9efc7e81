package workload

import "github.com/homenode/homenode/core/topology"

// Figures is a table of amounts by node, as numastat(8) has them.
type Figures struct {
	Nodes []topology.NodeID `json:"nodes"` // node IDs of the columns, rising
	Rows  []Figure          `json:"rows"`  // rows of the table
}

// Figure is one row of the table.
type Figure struct {
	Name   string  `json:"name"`    // name of the row, such as free
	Unit   string  `json:"unit"`    // unit of the row: KiB or pages
	ByNode []int64 `json:"by_node"` // values in the order of nodes; -1 unknown
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

// Unread is a process that could not be read.
type Unread struct {
	PID int    `json:"pid"` // PID of the process
	Why string `json:"why"` // why it could not be read
}
