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
		// Two sockets and SMT, as the host of which 43.5 % and 99.2 % were published.
		Shape{Name: "pods-count", Nodes: 2, CPUsPerNode: 12, NodeMiB: 1024, Disk: "containerd", Count: true, Slow: true,
			Distance: [][]int{{10, 21}, {21, 10}}},
		Shape{Name: "pods-1.7", Nodes: 4, CPUsPerNode: 4, NodeMiB: 512, Disk: "containerd-1.7", Distance: four,
			Slow: true},
		// The pods of bench/seeds, which come from containerd's own command line.
		Shape{Name: "pods-seeds", Nodes: 4, CPUsPerNode: 4, NodeMiB: 512, Disk: "containerd", Distance: four,
			Slow: true},
		// CRI-O is tried where HOMENODE_CRIO says that somebody has built it.
		Shape{Name: "pods-crio", Nodes: 4, CPUsPerNode: 4, NodeMiB: 512, Disk: "crio", Distance: four, Slow: true},
	)
	Tests = append(Tests,
		Test{Name: "containers.count", Shapes: []string{"pods-count"}, Limit: 10 * time.Minute, Homenode: true},
		Test{Name: "containers.exact", Shapes: []string{"pods-count"}, OnHost: true, After: "containers.count"},
		Test{Name: "containers.local", Shapes: []string{"pods-count"}, OnHost: true, After: "containers.count",
			Homenode: true})
	Tests = append(Tests, Test{Name: "seeds.pods", Shapes: []string{"pods-seeds"}, Limit: 18 * time.Minute,
		Homenode: true, Numactl: true})
	Tests = append(Tests, Test{Name: "containers.grants", Shapes: []string{"pods", "pods-crio"}, Limit: 8 * time.Minute,
		Slow: true, Homenode: true})
	for _, name := range []string{"start", "first-page", "class", "static", "move", "undo", "faults", "come-and-go"} {
		Tests = append(Tests, Test{Name: "containers." + name, Shapes: []string{"pods", "pods-1.7", "pods-crio"},
			Limit: 3 * time.Minute, Slow: name != "start", Homenode: true})
	}
}
