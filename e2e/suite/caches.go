package suite

import "time"

// A machine whose nodes have two last-level caches each, as most new servers have several.
func init() {
	Shapes = append(Shapes, Shape{
		Name: "caches", Nodes: 2, CPUsPerNode: 8, Caches: 2, NodeMiB: 384,
		Distance: [][]int{
			{10, 21},
			{21, 10},
		},
	})
	only := []string{"caches"}
	Tests = append(Tests,
		Test{Name: "kernel.caches", Shapes: only, Limit: 60 * time.Second},
		Test{Name: "homenode.caches", Shapes: only, Limit: 240 * time.Second, Homenode: true},
		Test{Name: "homenode.caches-undo", Shapes: only, Limit: 300 * time.Second, Homenode: true},
		Test{Name: "homenode.caches-place", Shapes: only, Limit: 300 * time.Second, Homenode: true, Slow: true})
}
