package suite

import "time"

// What sharing gives, in virtual time: three cores of two threads, and few CPUs busy, for all
// take turns on one thread of the machine.
func init() {
	Shapes = append(Shapes, Shape{Name: "virtual", Nodes: 1, CPUsPerNode: 6, NodeMiB: 512, Virtual: true, Overlap: true,
		Distance: [][]int{{10}}})
	// The same with turns so short that a tenth of a millisecond shows.
	Shapes = append(Shapes, Shape{Name: "step", Slow: true, Nodes: 1, CPUsPerNode: 6, NodeMiB: 512, Virtual: true,
		Instruction: 1, Turn: 25, Distance: [][]int{{10}}})
	Tests = append(Tests,
		Test{Name: "share.bench", Shapes: []string{"n2", "scx-6.18"}, Limit: 150 * time.Second, Homenode: true,
			Bench: true},
		Test{Name: "share.order", Shapes: []string{"virtual"}, Limit: 120 * time.Second, Homenode: true},
		Test{Name: "share.virtual", Shapes: []string{"virtual"}, Limit: 400 * time.Second, Slow: true, Homenode: true},
		Test{Name: "share.step", Shapes: []string{"step"}, Limit: 200 * time.Second, Slow: true, Homenode: true},
		Test{Name: "share.trigger", Shapes: []string{"virtual"}, Limit: 120 * time.Second, Slow: true, Homenode: true},
		Test{
			Name: "share.virtual-goal", Shapes: []string{"virtual"},
			Limit: 400 * time.Second, Slow: true, Homenode: true,
		},
		Test{
			Name: "share.goal-table", Shapes: []string{"virtual"},
			OnHost: true, After: "share.virtual-goal", Slow: true, Homenode: true,
		},
		Test{Name: "share.table", Shapes: []string{"virtual"}, OnHost: true, After: "share.virtual", Slow: true,
			Homenode: true})
}
