package suite

import "time"

// NextVersion is what the second homenode on the disk of the guest with libvirt
// calls itself.
const NextVersion = "e2e-next"

// A guest in which libvirt runs guests. To start six of them and end takes 100 s of CPU time.
func init() {
	Shapes = append(Shapes, Shape{
		Name: "virt", Nodes: 4, CPUsPerNode: 4, NodeMiB: 1024, Disk: "libvirt", NIC: 1,
		Distance: [][]int{
			{10, 16, 31, 31},
			{16, 10, 31, 31},
			{31, 31, 10, 16},
			{31, 31, 16, 10},
		},
	})
	counted := Shapes[len(Shapes)-1]
	counted.Name = "virt-count"
	counted.Count = true
	counted.Slow = true
	Shapes = append(Shapes, counted)
	Tests = append(Tests, Test{Name: "libvirt.cells", Shapes: []string{"virt-count"}, Limit: 15 * time.Minute,
		Slow: true, Homenode: true},
		Test{Name: "libvirt.local", Shapes: []string{"virt-count"}, OnHost: true, After: "libvirt.cells", Slow: true,
			Homenode: true})
	Shapes = append(Shapes, Shape{
		Name: "virt-nic", Nodes: 2, CPUsPerNode: 8, NodeMiB: 1024, Disk: "libvirt", NIC: 1, Slow: true,
		Distance: [][]int{
			{10, 21},
			{21, 10},
		},
	})
	for _, name := range []string{"required", "near"} {
		Tests = append(Tests, Test{Name: "libvirt." + name, Shapes: []string{"virt-nic"}, Limit: 15 * time.Minute,
			Slow: true, Homenode: true})
	}
	for _, test := range []struct {
		name string
		slow bool
	}{
		{"define", true}, {"move", true}, {"adopt", true}, {"daemon", true}, {"started", false}, {"restart", true},
		{"vanish", true}, {"auto", true}, {"unprivileged", true}, {"destroy", true}, {"balance", true},
		{"helper", true},
	} {
		Tests = append(Tests, Test{Name: "libvirt." + test.name, Shapes: []string{"virt"}, Limit: 15 * time.Minute,
			Slow: test.slow, Homenode: true})
	}
}
