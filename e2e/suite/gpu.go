package suite

import "time"

func init() {
	Shapes = append(Shapes, Shape{
		// Two sockets with two GPUs each, which the test makes up. The counting plugin says where the
		// accesses of their workers go.
		Name: "n2-gpu", Nodes: 2, CPUsPerNode: 4, NodeMiB: 384, NIC: 1, Count: true, Slow: true,
		Distance: [][]int{
			{10, 21},
			{21, 10},
		},
	})
	Tests = append(Tests,
		Test{Name: "homenode.gpus", Shapes: []string{"n2-gpu"}, Limit: 600 * time.Second, Homenode: true},
		Test{Name: "homenode.gpus-local", Shapes: []string{"n2-gpu"}, OnHost: true, After: "homenode.gpus", Homenode: true},
	)
}
