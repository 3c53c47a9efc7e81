package suite

import "time"

// Guests in which the doctor has something to find.
func init() {
	two := [][]int{{10, 21}, {21, 10}}
	Shapes = append(Shapes,
		// Few CPUs, so that the emulator's threads disturb one another less: in here
		// something is measured.
		Shape{Name: "flat", Slow: true, Nodes: 4, CPUsPerNode: 2, NodeMiB: 768, Distance: [][]int{
			{10, 16, 31, 31}, {16, 10, 31, 31}, {31, 31, 10, 16}, {31, 31, 16, 10},
		}},
		Shape{Name: "off", Slow: true, Nodes: 4, CPUsPerNode: 2, NodeMiB: 512, Boot: []string{"numa=off"},
			Distance: [][]int{
				{10, 16, 31, 31}, {16, 10, 31, 31}, {31, 31, 10, 16}, {31, 31, 16, 10},
			}},
		// Node 2 is memory without CPUs, five times as far as ordinary memory by
		// the HMAT.
		Shape{Name: "hmat", Slow: true, Nodes: 3, MemoryOnly: 1, CPUsPerNode: 2, NodeMiB: 512, HMAT: true,
			Distance: [][]int{
				{10, 21, 30}, {21, 10, 40}, {30, 40, 10},
			}},
		Shape{Name: "fake", Slow: true, Nodes: 2, CPUsPerNode: 2, NodeMiB: 1024, Boot: []string{"numa=fake=4"},
			Generic: true, Distance: two},
	)
	Tests = append(Tests,
		Test{Name: "probe.matrix", Shapes: []string{"flat"}, Limit: 240 * time.Second, Homenode: true},
		Test{Name: "probe.flat", Shapes: []string{"flat"}, Limit: 240 * time.Second, Homenode: true},
		Test{Name: "probe.full", Shapes: []string{"flat"}, Limit: 180 * time.Second, Homenode: true},
		Test{Name: "probe.start", Shapes: []string{"flat", "hmat"}, Limit: 240 * time.Second, Homenode: true},
		Test{Name: "probe.hidden", Shapes: []string{"off"}, Limit: 60 * time.Second, Homenode: true},
		Test{Name: "probe.tier", Shapes: []string{"hmat"}, Limit: 60 * time.Second, Homenode: true},
		Test{Name: "probe.fake", Shapes: []string{"fake"}, Limit: 60 * time.Second, Homenode: true},
		Test{Name: "probe.tables", Shapes: []string{"flat", "off", "hmat"}, Limit: 30 * time.Second},
	)
}
