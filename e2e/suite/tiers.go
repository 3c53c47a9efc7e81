package suite

import "time"

// A guest whose last node is slow memory without CPUs, a tier of its own to the kernel by the HMAT.
func init() {
	distance := [][]int{{10, 21, 30}, {21, 10, 40}, {30, 40, 10}}
	Shapes = append(Shapes, Shape{
		Name: "tiers", Slow: true, HMAT: true, Distance: distance,
		Nodes: 3, MemoryOnly: 1, CPUsPerNode: 2, NodeMiB: 512,
	})
	Tests = append(Tests,
		Test{Name: "tiers.demotion", Shapes: []string{"tiers"}, Limit: 300 * time.Second, Homenode: true},
		Test{
			Name: "tiers.demotion-long", Shapes: []string{"tiers"},
			Limit: 15 * time.Minute, Homenode: true, Slow: true,
		},
		Test{Name: "tiers.share", Shapes: []string{"tiers"}, Limit: 600 * time.Second, Slow: true, Homenode: true},
		Test{Name: "tiers.page-tables", Shapes: []string{"flat"}, Limit: 300 * time.Second, Homenode: true},
	)
}
