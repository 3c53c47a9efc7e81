package suite

import "time"

// Offline work under the scheduler of host/scx. The guest that all other tests share shows most of
// it; one core, four nodes and other kernels are slow.
func init() {
	two := [][]int{{10, 21}, {21, 10}}
	Shapes = append(Shapes,
		Shape{Name: "scx-core", Slow: true, Nodes: 1, CPUsPerNode: 2, NodeMiB: 512, Distance: [][]int{{10}}},
		Shape{Name: "scx-n4", Slow: true, Nodes: 4, CPUsPerNode: 2, NodeMiB: 192, Distance: [][]int{
			{10, 16, 31, 31},
			{16, 10, 31, 31},
			{31, 31, 10, 16},
			{31, 31, 16, 10},
		}},
		Shape{Name: "scx-6.18", Slow: true, Nodes: 2, CPUsPerNode: 2, NodeMiB: 320, Distance: two, Kernel: "6.18"},
		Shape{Name: "scx-7.0", Slow: true, Nodes: 2, CPUsPerNode: 2, NodeMiB: 320, Distance: two, Kernel: "7.0"},
		Shape{Name: "scx-6.12", Slow: true, Nodes: 2, CPUsPerNode: 2, NodeMiB: 320, Distance: two, Kernel: "6.12"},
	)
	more := []string{"scx-core", "scx-n4", "scx-6.18"}
	Tests = append(Tests,
		Test{Name: "scx.load", Shapes: append(more, "n2", "scx-7.0", "scx-6.12"), Limit: 60 * time.Second},
		Test{Name: "scx.expel", Shapes: append(more, "n2"), Limit: 60 * time.Second},
		Test{Name: "scx.bursts", Shapes: append(more, "n2"), Limit: 60 * time.Second},
		Test{Name: "scx.guard", Shapes: append(more, "n2"), Limit: 120 * time.Second},
		Test{Name: "scx.bounds", Shapes: append(more, "n2"), Limit: 60 * time.Second},
		Test{Name: "scx.tasks", Shapes: append(more, "n2"), Limit: 60 * time.Second},
		Test{Name: "scx.hotplug", Shapes: append(more, "n2"), Limit: 60 * time.Second},
		Test{Name: "scx.limits", Shapes: append(more, "n2"), Limit: 60 * time.Second},
		Test{Name: "scx.cost", Shapes: []string{"scx-6.18", "n2"}, Limit: 60 * time.Second},
	)
}
