package suite

import "time"

// Guests in which containerd runs pods.
func init() {
	four := [][]int{
		{10, 16, 31, 31},
		{16, 10, 31, 31},
		{31, 31, 10, 16},
		{31, 31, 16, 10},
	}
	Shapes = append(Shapes,
		Shape{Name: "pods", Nodes: 4, CPUsPerNode: 4, NodeMiB: 512, Disk: "containerd", Distance: four},
		Shape{Name: "pods-1.7", Nodes: 4, CPUsPerNode: 4, NodeMiB: 512, Disk: "containerd-1.7", Distance: four, Slow: true},
	)
	for _, test := range []struct {
		name string
		slow bool
	}{
		{"first-page", false},
	} {
		Tests = append(Tests, Test{Name: "containers." + test.name, Shapes: []string{"pods", "pods-1.7"}, Limit: 10 * time.Minute, Slow: test.slow, Homenode: true})
	}
}
