package suite

import "time"

// NICQueues is how many queue pairs the network card of a shape has where the
// machine lends a tap device, else 1.
const NICQueues = 4

func init() {
	Shapes = append(Shapes, Shape{
		Name: "n2-nic", Nodes: 2, CPUsPerNode: 4, NodeMiB: 320, NIC: 1, Waits: true,
		Distance: [][]int{
			{10, 21},
			{21, 10},
		},
	})
	Tests = append(Tests,
		Test{Name: "homenode.irq", Shapes: []string{"n2-nic"}, Limit: 240 * time.Second, Homenode: true},
		Test{Name: "homenode.near", Shapes: []string{"n2-nic"}, Limit: 240 * time.Second, Homenode: true},
	)
}

func init() {
	// The CPUs of node 1 may stop their tick while one task runs there.
	Shapes = append(Shapes, Shape{
		Name: "n2-quiet", Nodes: 2, CPUsPerNode: 4, NodeMiB: 320, NIC: 1, Slow: true, Boot: []string{"nohz_full=4-7"},
		Distance: [][]int{
			{10, 21},
			{21, 10},
		},
	})
	Tests = append(Tests, Test{
		Name: "homenode.isolated", Shapes: []string{"n2-quiet"}, Limit: 420 * time.Second, Homenode: true,
	})
}
