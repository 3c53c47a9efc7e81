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
	// The same in pods, which containerd gives the device files.
	Shapes = append(Shapes, Shape{
		Name: "pods-gpu", Nodes: 2, CPUsPerNode: 8, NodeMiB: 768, Disk: "containerd", NIC: 1, Count: true, Slow: true,
		Distance: [][]int{{10, 21}, {21, 10}},
	})
	pods := []string{"pods-gpu"}
	Tests = append(Tests,
		Test{Name: "containers.gpus", Shapes: pods, Limit: 12 * time.Minute, Homenode: true},
		Test{Name: "containers.gpus-local", Shapes: pods, OnHost: true, After: "containers.gpus", Homenode: true},
		Test{Name: "homenode.gpus", Shapes: []string{"n2-gpu"}, Limit: 600 * time.Second, Homenode: true},
		Test{Name: "homenode.gpus-local", Shapes: []string{"n2-gpu"}, OnHost: true, After: "homenode.gpus",
			Homenode: true},
	)
}
