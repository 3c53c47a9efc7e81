package suite

import "time"

// A guest in virtual time whose counts are kept in the tree, for each machine to repeat.
func init() {
	Shapes = append(Shapes, Shape{
		Name: "same", Nodes: 2, CPUsPerNode: 2, NodeMiB: 128, Init: "same", Count: true, Virtual: true,
		Cache: Cache{KiB: 256, Ways: 16, Line: 64}, Distance: [][]int{{10, 21}, {21, 10}},
	})
	Tests = append(Tests,
		Test{Name: "same.counts", Shapes: []string{"same"}, Limit: 60 * time.Second, Alone: true},
		Test{Name: "same.stored", Shapes: []string{"same"}, OnHost: true, After: "same.counts"})
}
