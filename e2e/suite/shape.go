package suite

import (
	"fmt"
	"strconv"
	"strings"
)

// Shape is one guest machine.
type Shape struct {
	Name        string
	Nodes       int
	CPUsPerNode int // SMT2, so half as many cores
	NodeMiB     int
	Caches      int     // last-level caches of a node, each a socket of its own; 0 is 1
	Distance    [][]int // SLIT, row = from
	Guests      int     // so many machines share the tests; 0 is 1
	Waits       bool    // its tests wait more than they compute: half a CPU and not one and a half
	Slow        bool    // only when named, or with -all
	Count       bool    // with the access-counting plugin
	Arms        []int   // of BottleArms, by number from 0: those that are counted; nil is all
	Cache       Cache   // that the plugin gives each group of CPUs; none if it has no size
	Virtual     bool    // its clock counts instructions, whatever the machine does meanwhile
	// ns of that clock that one takes, a power of 2; 0 is 2: the more, the less the machine has to do for a second of
	// the guest
	Instruction int
	// µs of that clock that all CPUs have their turns within at most; 0 is 200: the fewer, the closer to CPUs that run
	// at the same moment, and the more the machine has to do
	Turn int
	// in virtual time: of the random numbers that QEMU hands out, and so of the order of events; 0 is the rig's own
	Seed       int
	Overlap    bool     // with the plugin that counts overlap on cores
	MemoryOnly int      // so many of the nodes, the last ones, have no CPUs
	HMAT       bool     // with a table of latencies and bandwidths
	Boot       []string // further words of the kernel command line
	Generic    bool     // with the generic flavour of the kernel
	Kernel     string   // with the newest kernel of this version (6.18) that the archive has; "" is the newest of all
	NIC        int      // a network card with several queues is on the PCI root of this node; 0: there is none
	Disk       string   // its root is what e2e/disk/DISK.sh describes; "" is no disk
	// its first process is the program of this folder of e2e, and all of its image; "" is the guest's
	Init    string
	Reboots bool // its tests restart it; its disks stay, and there is one more for state
	// systemd of that disk is PID 1 and runs the tests as a service; else it is resumed from where it was saved
	Systemd bool
}

// Cache is a last-level cache, modelled by the counting plugin.
type Cache struct {
	KiB  int
	Ways int
	Line int // bytes
	CPUs int // that share one; 0: those of a node
}

// ParseCache reads KIB,WAYS,LINE or KIB,WAYS,LINE,CPUS.
func ParseCache(text string) (Cache, error) {
	var c Cache
	parts := strings.Split(text, ",")
	into := []*int{&c.KiB, &c.Ways, &c.Line, &c.CPUs}
	if len(parts) < 3 || len(parts) > len(into) {
		return Cache{}, fmt.Errorf("cache %q: want KIB,WAYS,LINE or KIB,WAYS,LINE,CPUS", text)
	}
	for i, part := range parts {
		n, err := strconv.Atoi(part)
		if err != nil || n < 1 {
			return Cache{}, fmt.Errorf("cache %q: %q is no number from 1 on", text, part)
		}
		*into[i] = n
	}
	if c.KiB<<10%(c.Ways*c.Line) != 0 {
		return Cache{}, fmt.Errorf("cache %q: %d KiB are no whole number of sets of %d lines of %d bytes", text, c.KiB,
			c.Ways, c.Line)
	}
	return c, nil
}

func (c Cache) String() string {
	shared := "the CPUs of a node"
	if c.CPUs > 0 {
		shared = fmt.Sprintf("%d CPUs", c.CPUs)
	}
	return fmt.Sprintf("%d KiB, %d ways, lines of %d bytes, one for %s", c.KiB, c.Ways, c.Line, shared)
}

// CPUs is the number of CPUs of the whole guest.
func (s Shape) CPUs() int { return (s.Nodes - s.MemoryOnly) * s.CPUsPerNode }

// CPUsPerCache is the number of CPUs that share a last-level cache.
func (s Shape) CPUsPerCache() int { return s.CPUsPerNode / max(1, s.Caches) }

// MiB is the memory of the whole guest.
func (s Shape) MiB() int { return s.Nodes * s.NodeMiB }

// Shapes lists the guests in the order they run.
var Shapes = []Shape{
	{
		Name: "n4", Guests: 2, Nodes: 4, CPUsPerNode: 4, NodeMiB: 384,
		Distance: [][]int{
			{10, 16, 31, 31},
			{16, 10, 31, 31},
			{31, 31, 10, 16},
			{31, 31, 16, 10},
		},
	},
	{
		// Small, for what asks for no more.
		Name: "n2", Nodes: 2, CPUsPerNode: 2, NodeMiB: 320, Waits: true,
		Distance: [][]int{
			{10, 21},
			{21, 10},
		},
	},
	{
		// Near nodes have IDs that are not neighbours, so that "next ID" can not
		// pass for "near", and three steps of distance.
		Name: "n8", Nodes: 8, CPUsPerNode: 2, NodeMiB: 192,
		Distance: [][]int{
			{10, 22, 31, 31, 16, 22, 31, 31},
			{22, 10, 31, 31, 22, 16, 31, 31},
			{31, 31, 10, 22, 31, 31, 16, 22},
			{31, 31, 22, 10, 31, 31, 22, 16},
			{16, 22, 31, 31, 10, 22, 31, 31},
			{22, 16, 31, 31, 22, 10, 31, 31},
			{31, 31, 16, 22, 31, 31, 10, 22},
			{31, 31, 22, 16, 31, 31, 22, 10},
		},
	},
	{
		// As n4, but 0-2 and 1-3 are near.
		Name: "n4-count", Nodes: 4, CPUsPerNode: 4, NodeMiB: 576, Count: true,
		Distance: [][]int{
			{10, 31, 16, 31},
			{31, 10, 31, 16},
			{16, 31, 10, 31},
			{31, 16, 31, 10},
		},
	},
}

// ShapeNamed finds a shape.
func ShapeNamed(name string) (Shape, error) {
	for _, s := range Shapes {
		if s.Name == name {
			return s, nil
		}
	}
	return Shape{}, fmt.Errorf("no shape %q", name)
}
