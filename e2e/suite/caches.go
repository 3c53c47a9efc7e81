package suite

import "time"

// A machine whose nodes have two last-level caches each, as most new servers have several.
func init() {
	Shapes = append(Shapes, Shape{
		Name: "caches", Nodes: 2, CPUsPerNode: 8, Caches: 2, NodeMiB: 384, Waits: true,
		Distance: [][]int{
			{10, 21},
			{21, 10},
		},
	})
	Shapes = append(Shapes, Shape{
		Name: "caches-count", Nodes: 2, CPUsPerNode: 8, Caches: 2, NodeMiB: 384, Count: true, Slow: true, Virtual: true,
		Cache:    Cache{KiB: 1024, Ways: 16, Line: 64, CPUs: 4},
		Distance: [][]int{{10, 21}, {21, 10}},
	})
	Tests = append(Tests,
		Test{Name: "caches.lines", Shapes: []string{"caches-count"}, Limit: 25 * time.Minute, Homenode: true},
		Test{Name: "caches.lines-counted", Shapes: []string{"caches-count"}, OnHost: true, After: "caches.lines",
			Homenode: true})
	only := []string{"caches"}
	Tests = append(Tests,
		Test{Name: "kernel.caches", Shapes: only, Limit: 60 * time.Second},
		Test{Name: "homenode.caches", Shapes: only, Limit: 240 * time.Second, Homenode: true},
		Test{Name: "homenode.caches-undo", Shapes: only, Limit: 300 * time.Second, Homenode: true},
		Test{Name: "homenode.caches-place", Shapes: only, Limit: 300 * time.Second, Homenode: true, Slow: true})
}

// LineArms are what work that exchanges lines is left to: the kernel alone and Homenode, each with the kernel's
// cache-aware scheduling off and on, between them Homenode with homes on nodes alone, and Homenode that only observes.
var LineArms = []string{"kernel alone, off", "kernel alone, on", "homenode without caches, off", "homenode, off",
	"homenode, on", "homenode observes, off"}

// LineScenes are such work: pairs, a pod and a guest at once, and six services.
var LineScenes = []string{"together", "six"}

// LineTag is the tag of the mark of a scene under an arm.
func LineTag(scene, arm int) uint32 { return 0x4000 | uint32(scene)<<4 | uint32(arm+1) }
