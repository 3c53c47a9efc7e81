package suite

import "time"

// Batch work under the scheduler of host/scx, in virtual time: what a CPU is given does not depend
// on what the machine does meanwhile. One core, four nodes and other kernels are slow.
func init() {
	two := [][]int{{10, 21}, {21, 10}}
	Shapes = append(Shapes,
		Shape{Name: "scx", Nodes: 2, CPUsPerNode: 2, NodeMiB: 320, Distance: two, Virtual: true, Instruction: 4},
		// CPUs that run at the same time, on a machine that does nothing else.
		Shape{Name: "scx-real", Slow: true, Nodes: 2, CPUsPerNode: 2, NodeMiB: 320, Distance: two},
		Shape{Name: "scx-core", Slow: true, Nodes: 1, CPUsPerNode: 2, NodeMiB: 512, Distance: [][]int{{10}},
			Virtual: true, Instruction: 4},
		Shape{Name: "scx-n4", Slow: true, Nodes: 4, CPUsPerNode: 2, NodeMiB: 192, Virtual: true, Instruction: 4,
			Distance: [][]int{
				{10, 16, 31, 31},
				{16, 10, 31, 31},
				{31, 31, 10, 16},
				{31, 31, 16, 10},
			}},
		Shape{Name: "scx-6.18", Slow: true, Nodes: 2, CPUsPerNode: 2, NodeMiB: 320, Distance: two, Virtual: true,
			Instruction: 4, Kernel: "6.18"},
		Shape{Name: "scx-7.0", Slow: true, Nodes: 2, CPUsPerNode: 2, NodeMiB: 320, Distance: two, Virtual: true,
			Instruction: 4, Kernel: "7.0"},
		Shape{Name: "scx-6.12", Slow: true, Nodes: 2, CPUsPerNode: 2, NodeMiB: 320, Distance: two, Virtual: true,
			Instruction: 4, Kernel: "6.12"},
	)
	all := []string{"scx", "scx-real", "scx-core", "scx-n4", "scx-6.18", "scx-7.0"}
	Tests = append(Tests,
		Test{Name: "scx.below", Shapes: []string{"scx", "scx-core", "scx-n4"}, Limit: 60 * time.Second},
		Test{Name: "scx.load", Shapes: append(all, "scx-6.12"), Limit: 60 * time.Second},
		Test{Name: "scx.expel", Shapes: all, Limit: 60 * time.Second},
		Test{Name: "scx.bursts", Shapes: all, Limit: 60 * time.Second},
		Test{Name: "scx.guard", Shapes: all, Limit: 120 * time.Second},
		Test{Name: "scx.bounds", Shapes: all, Limit: 60 * time.Second},
		Test{Name: "scx.tasks", Shapes: all, Limit: 60 * time.Second},
		Test{Name: "scx.hotplug", Shapes: all, Limit: 60 * time.Second},
		Test{Name: "scx.limits", Shapes: all, Limit: 60 * time.Second},
		Test{Name: "scx.cost", Shapes: []string{"scx", "scx-6.18", "scx-7.0"}, Limit: 60 * time.Second},
	)
}
