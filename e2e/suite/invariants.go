package suite

import "time"

// What holds under the scheduler for batch work, by the kernel's tracepoints, in virtual time.
func init() {
	Shapes = append(Shapes, Shape{Name: "traced", Slow: true, Nodes: 2, CPUsPerNode: 2, NodeMiB: 320,
		Distance: [][]int{{10, 21}, {21, 10}}, Virtual: true})
	for _, name := range []string{"waits", "beside", "idle", "together", "budget"} {
		Tests = append(Tests, Test{Name: "scx." + name, Shapes: []string{"traced"}, Limit: 60 * time.Second})
	}
	kernels := []string{"traced", "scx-6.18", "scx-7.0"}
	Tests = append(Tests, Test{Name: "scx.restless", Shapes: kernels, Limit: 90 * time.Second})
	// The limits are for this guest: one that computes more slowly needs longer for each hand-over.
	Tests = append(Tests, Test{Name: "scx.looks-idle", Shapes: []string{"traced"}, Limit: 60 * time.Second})
}
