package suite

import (
	"slices"
	"time"
)

// BottleArms are what work is left to in the bottle, in the order of the tables.
var BottleArms = []string{
	"kernel alone",
	"NUMA balancing",
	"numad's rule",
	"taskset",
	"kubelet's rule",
	"homenode",
	"homenode run",
}

// BottleScenes are the work in the bottle.
var BottleScenes = []string{
	"ten", "six-guests", "eight-guests", "two", "pods", "wide", "idle", "full", "interleaved", "database", "idle-local",
	"services", "service-pods", "wide-start",
}

// BottleUnmoved are the scenes in which there is nothing to gain: homenode must do no harm there.
var BottleUnmoved = []string{"idle", "idle-local", "full", "interleaved"}

// BottleVirtual reports whether a scene runs in virtual time, where two guests of one seed count the same.
func BottleVirtual(scene string) bool {
	return scene == "two" || slices.Contains(BottleUnmoved, scene)
}

// BottleTag is the tag of the mark of a scene under an arm: counted from the first page on, or
// when it has settled.
func BottleTag(scene, arm string, cold bool) uint32 {
	tag := uint32(slices.Index(BottleScenes, scene)+1)<<8 | uint32(slices.Index(BottleArms, arm)+1)<<1
	if cold {
		tag |= 1
	}
	return tag
}

// The machine in a bottle: a machine of two sockets with a last-level cache each, whose misses are
// counted by the memory that serves them.
func init() {
	two := [][]int{{10, 21}, {21, 10}}
	Shapes = append(Shapes,
		// Two sockets of 6 CPUs stand for two of 44 or 48: ten programs of one CPU, for ten pods of 8.
		Shape{Name: "bottle", Nodes: 2, CPUsPerNode: 6, NodeMiB: 512, Count: true, Slow: true,
			Cache: Cache{KiB: 1024, Ways: 16, Line: 64}, Distance: two},
		// As n4-count, for work that is wider than a node.
		Shape{Name: "bottle-wide", Nodes: 4, CPUsPerNode: 4, NodeMiB: 576, Count: true, Slow: true,
			Cache:    Cache{KiB: 1024, Ways: 16, Line: 64},
			Distance: [][]int{{10, 31, 16, 31}, {31, 10, 31, 16}, {16, 31, 10, 31}, {31, 16, 31, 10}}},
		// Small, in virtual time: the same run to the last count.
		Shape{Name: "bottle-virtual", Nodes: 2, CPUsPerNode: 2, NodeMiB: 320, Count: true, Slow: true, Virtual: true,
			Cache: Cache{KiB: 256, Ways: 16, Line: 64}, Distance: two},
		// Homenode is not scaled down, so neither is the cache of the machine that has nothing else to do: 33 MiB
		// in 11 ways, as the Xeon Platinum 8163 has, whose latencies times are modelled with.
		Shape{Name: "bottle-idle", Nodes: 2, CPUsPerNode: 2, NodeMiB: 1280, Count: true, Slow: true, Virtual: true,
			Cache: Cache{KiB: 33 * 1024, Ways: 11, Line: 64}, Distance: two},
		// Real programs, services of systemd.
		Shape{Name: "bottle-database", Nodes: 2, CPUsPerNode: 4, NodeMiB: 768, Disk: "systemd", Systemd: true,
			Count: true, Slow: true, Cache: Cache{KiB: 1024, Ways: 16, Line: 64}, Distance: two},
		Shape{Name: "bottle-services", Nodes: 2, CPUsPerNode: 4, NodeMiB: 768, Disk: "services", Systemd: true,
			Count: true, Slow: true, Cache: Cache{KiB: 1024, Ways: 16, Line: 64}, Distance: two},
		// The same programs, in pods.
		Shape{
			Name: "bottle-service-pods", Nodes: 2, CPUsPerNode: 4, NodeMiB: 768, Disk: "programs", Count: true,
			Slow:  true,
			Cache: Cache{KiB: 1024, Ways: 16, Line: 64}, Distance: two,
		},
		// Ten real pods.
		Shape{Name: "bottle-pods", Nodes: 2, CPUsPerNode: 6, NodeMiB: 768, Disk: "containerd", Count: true, Slow: true,
			Cache: Cache{KiB: 1024, Ways: 16, Line: 64}, Distance: two})
	for _, scene := range []struct{ name, shape string }{
		{"ten", "bottle"}, {"six-guests", "bottle"}, {"eight-guests", "bottle"}, {"two", "bottle-virtual"},
		{"pods", "bottle-pods"},
		{"idle", "bottle-idle"}, {"idle-local", "bottle-idle"}, {"full", "bottle-virtual"},
		{"interleaved", "bottle-virtual"}, {"database", "bottle-database"}, {"services", "bottle-services"},
		{"service-pods", "bottle-service-pods"},
		{"wide-start", "bottle-wide"},
	} {
		Tests = append(Tests,
			Test{Name: "bottle." + scene.name, Shapes: []string{scene.shape}, Limit: 45 * time.Minute, Homenode: true},
			Test{Name: "bottle." + scene.name + "-served", Shapes: []string{scene.shape}, OnHost: true,
				After: "bottle." + scene.name, Homenode: true})
	}
	Tests = append(Tests,
		Test{Name: "bottle.wide", Shapes: []string{"bottle-wide"}, Limit: 15 * time.Minute, Homenode: true},
		Test{Name: "bottle.wide-served", Shapes: []string{"bottle-wide"}, OnHost: true, After: "bottle.wide",
			Homenode: true})
}
