package suite

import (
	"slices"
	"time"
)

// Slack is what limits and waits are multiplied by: on two slow CPUs that other work shares,
// guests take several times as long. It costs a test that passes nothing.
const Slack = 3

// Test is one test of the rig. The guest holds the code under the same name.
type Test struct {
	Name   string
	Shapes []string // the guests it runs in
	// Limit is for an emulated guest on a loaded machine; idle, tests take a
	// fifth of it or less.
	Limit    time.Duration
	Slow     bool // only when its guest or it itself is named, or with -all
	Homenode bool // needs the homenode binary
	Bench    bool // runs bench/share
	Numactl  bool // compares with numactl(8), and is skipped where the archive has none
	Alone    bool // its code is the first process of its shape (Shape.Init)
	// OnHost tests have no code in the guest: the host judges by the access
	// counts of the guest's marks, or by what it was told. After names the guest test they belong to.
	OnHost bool
	After  string
}

// Tests lists all tests in the order they run in each guest.
var Tests = []Test{
	// What the kernel does. Homenode leans on each of these.
	{Name: "kernel.topology", Shapes: []string{"n4", "n8", "n4-count", "caches"}, Limit: 20 * time.Second},
	{Name: "kernel.affinity", Shapes: []string{"n4"}, Limit: 30 * time.Second},
	{Name: "kernel.cpuset", Shapes: []string{"n4"}, Limit: 60 * time.Second},
	{Name: "kernel.move-pages", Shapes: []string{"n4"}, Limit: 60 * time.Second},
	{Name: "kernel.migrate-pages", Shapes: []string{"n4"}, Limit: 60 * time.Second},
	{Name: "kernel.memory-files", Shapes: []string{"n4"}, Limit: 60 * time.Second},
	{Name: "kernel.policy", Shapes: []string{"n4"}, Limit: 60 * time.Second},
	{Name: "kernel.cpu-offline", Shapes: []string{"n4"}, Limit: 60 * time.Second},
	{Name: "kernel.huge-pages", Shapes: []string{"n4"}, Limit: 60 * time.Second},
	{Name: "kernel.balancing", Shapes: []string{"n4"}, Limit: 90 * time.Second},

	// Homenode on a host with four nodes.
	{Name: "homenode.topology", Shapes: []string{"n4", "n8"}, Limit: 30 * time.Second, Homenode: true},
	{Name: "homenode.observe", Shapes: []string{"n4"}, Limit: 300 * time.Second, Homenode: true},
	{Name: "homenode.enforce", Shapes: []string{"n4"}, Limit: 300 * time.Second, Homenode: true},
	{Name: "homenode.who", Shapes: []string{"n4"}, Limit: 180 * time.Second, Homenode: true},
	{Name: "homenode.undo", Shapes: []string{"n4"}, Limit: 300 * time.Second, Homenode: true},
	{Name: "homenode.stop", Shapes: []string{"n4"}, Limit: 300 * time.Second, Homenode: true},
	{Name: "homenode.kill", Shapes: []string{"n4"}, Limit: 420 * time.Second, Homenode: true},
	{Name: "homenode.kill-run", Shapes: []string{"n4"}, Limit: 240 * time.Second, Slow: true, Homenode: true},
	{Name: "homenode.host", Shapes: []string{"n4"}, Limit: 180 * time.Second, Homenode: true},
	{Name: "homenode.orphans", Shapes: []string{"n4"}, Limit: 180 * time.Second, Homenode: true},
	{Name: "homenode.exit-in-move", Shapes: []string{"n4"}, Limit: 180 * time.Second, Homenode: true},
	{Name: "homenode.cgroup-gone", Shapes: []string{"n4"}, Limit: 180 * time.Second, Homenode: true},
	{Name: "homenode.node-full", Shapes: []string{"n4"}, Limit: 180 * time.Second, Homenode: true},
	{Name: "homenode.cpu-offline", Shapes: []string{"n4"}, Limit: 180 * time.Second, Homenode: true},
	{Name: "homenode.read-only", Shapes: []string{"n4"}, Limit: 180 * time.Second, Homenode: true},
	{Name: "homenode.second-daemon", Shapes: []string{"n4"}, Limit: 60 * time.Second, Homenode: true},
	{Name: "homenode.unprivileged", Shapes: []string{"n4"}, Limit: 180 * time.Second, Homenode: true},
	{Name: "homenode.run", Shapes: []string{"n4"}, Limit: 180 * time.Second, Homenode: true},
	{Name: "homenode.numactl", Shapes: []string{"n4"}, Limit: 180 * time.Second, Homenode: true, Numactl: true},
	{Name: "homenode.load-shift", Shapes: []string{"n4"}, Limit: 300 * time.Second, Homenode: true},
	{Name: "homenode.shield", Shapes: []string{"n4"}, Limit: 300 * time.Second, Homenode: true},
	{Name: "homenode.immovable", Shapes: []string{"n4"}, Limit: 240 * time.Second, Homenode: true},
	{Name: "homenode.pressure", Shapes: []string{"n4"}, Limit: 300 * time.Second, Homenode: true},
	{Name: "homenode.move", Shapes: []string{"n4"}, Limit: 240 * time.Second, Homenode: true},
	{Name: "homenode.torn", Shapes: []string{"n4"}, Limit: 180 * time.Second, Homenode: true},
	{Name: "homenode.alert", Shapes: []string{"n4"}, OnHost: true, After: "homenode.torn", Homenode: true},
	{Name: "homenode.threads", Shapes: []string{"n4"}, Limit: 180 * time.Second, Slow: true, Homenode: true},
	{Name: "proxmox.threads", Shapes: []string{"n2"}, Limit: 240 * time.Second, Slow: true, Homenode: true},
	{Name: "homenode.churn", Shapes: []string{"n4"}, Limit: 240 * time.Second, Slow: true, Homenode: true},

	// Homenode beside processes, users and managers that mean it no good.
	{Name: "homenode.locked", Shapes: []string{"n2"}, Limit: 300 * time.Second, Homenode: true},
	{Name: "homenode.cpuset-locked", Shapes: []string{"n2"}, Limit: 400 * time.Second, Homenode: true},
	{Name: "homenode.frozen", Shapes: []string{"n2"}, Limit: 400 * time.Second, Slow: true, Homenode: true},
	{Name: "homenode.trial", Shapes: []string{"n2"}, Limit: 600 * time.Second, Slow: true, Homenode: true},
	{Name: "homenode.other-writer", Shapes: []string{"n2"}, Limit: 240 * time.Second, Homenode: true},
	{Name: "homenode.same-name", Shapes: []string{"n2"}, Limit: 240 * time.Second, Homenode: true},
	{Name: "homenode.shared-memory", Shapes: []string{"n2"}, Limit: 240 * time.Second, Homenode: true},
	{Name: "homenode.names", Shapes: []string{"n2"}, Limit: 240 * time.Second, Homenode: true},
	{Name: "homenode.cpu-taken", Shapes: []string{"n2"}, Limit: 180 * time.Second, Homenode: true},

	// Homenode where the near nodes are not next to one another.
	{Name: "homenode.eight-nodes", Shapes: []string{"n8"}, Limit: 300 * time.Second, Homenode: true},

	// The same walkers under the kernel alone and under homenode, every access counted.
	{Name: "count.kernel", Shapes: []string{"n4-count"}, Limit: 300 * time.Second},
	{Name: "count.exact", Shapes: []string{"n4-count"}, OnHost: true, After: "count.kernel"},
	{Name: "count.homenode", Shapes: []string{"n4-count"}, Limit: 300 * time.Second, Homenode: true},
	{Name: "count.wide", Shapes: []string{"n4-count"}, Limit: 900 * time.Second, Slow: true, Homenode: true},
	{Name: "count.wide-local", Shapes: []string{"n4-count"}, OnHost: true, After: "count.wide", Slow: true,
		Homenode: true},
	{Name: "count.local", Shapes: []string{"n4-count"}, OnHost: true, After: "count.homenode", Homenode: true},
}

// ForShape lists the tests of one shape.
func ForShape(shape string) []Test {
	var r []Test
	for _, t := range Tests {
		if slices.Contains(t.Shapes, shape) {
			r = append(r, t)
		}
	}
	return r
}
