package suite

import "time"

// A guest with systemd in which Incus and LXD run system containers.
func init() {
	Shapes = append(Shapes, Shape{
		Name: "incus", Nodes: 2, CPUsPerNode: 4, NodeMiB: 768, Slow: true, Disk: "incus", Systemd: true,
		Distance: [][]int{{10, 21}, {21, 10}},
	})
	for _, name := range []string{"incus", "lxd"} {
		test := Test{Name: name + ".home", Shapes: []string{"incus"}, Limit: 10 * time.Minute, Homenode: true}
		Tests = append(Tests, test)
	}
}
