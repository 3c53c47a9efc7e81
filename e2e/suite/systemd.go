package suite

import "time"

// A guest whose PID 1 is systemd: the unit that ships, and `host prepare` by systemd.
func init() {
	systemd := Shape{
		Name: "systemd", Nodes: 4, CPUsPerNode: 4, NodeMiB: 512, Slow: true, Disk: "systemd", Systemd: true,
		Distance: [][]int{
			{10, 16, 31, 31},
			{16, 10, 31, 31},
			{31, 31, 10, 16},
			{31, 31, 16, 10},
		},
	}
	// Docker with the driver cgroupfs, and Podman, on such a host.
	docker := systemd
	docker.Name, docker.Disk = "docker", "docker"
	for _, name := range []string{"placed", "agents"} {
		Tests = append(Tests, Test{Name: "docker." + name, Shapes: []string{"docker"}, Limit: 10 * time.Minute,
			Slow: true, Homenode: true})
	}
	for _, name := range []string{"unit", "cpusets", "host", "scope", "batch", "programs", "package"} {
		Tests = append(Tests, Test{Name: "systemd." + name, Shapes: []string{"systemd"}, Limit: 20 * time.Minute,
			Homenode: true})
	}
	// What bench/share runs.
	bench := systemd
	bench.Name, bench.Disk = "bench", "bench"
	bench.Nodes = 2
	bench.CPUsPerNode = 2
	bench.NodeMiB = 1024
	bench.Distance = [][]int{{10, 21}, {21, 10}}
	bench.Virtual, bench.Instruction = true, 4 // its runs are short, however busy the machine is
	// Real programs with latency goals, for minutes: the machine does half as much for a second of this guest.
	stack := bench
	stack.Name = "stack"
	stack.Instruction = 8
	// A test restarts this one. A kernel that panics stops, so that only a test restarts it.
	reboot := bench
	reboot.Name, reboot.Disk = "reboot", "systemd"
	reboot.Reboots = true
	reboot.NodeMiB = 512
	reboot.Virtual, reboot.Instruction = false, 0
	reboot.Boot = []string{"panic=0", "numa_balancing=disable"}
	Shapes = append(Shapes, systemd, docker, bench, stack, reboot)
	Tests = append(Tests, Test{
		Name: "systemd.reboot", Shapes: []string{"reboot"}, Limit: 10 * time.Minute, Homenode: true,
	})
	Tests = append(Tests, Test{Name: "systemd.bench", Shapes: []string{"bench"}, Limit: 20 * time.Minute,
		Homenode: true, Bench: true})
	Tests = append(Tests, Test{Name: "share.stack", Shapes: []string{"stack"}, Limit: 20 * time.Minute, Homenode: true})
}
