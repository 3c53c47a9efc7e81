package plantest

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"

	"github.com/homenode/homenode/core/topology"
)

// GiB in the unit of topology.KiB.
const GiB = topology.KiB(1 << 20)

// Draw builds a host from a drawing, one node a line:
//
//	ID  CPUS     MEMORY  DISTANCES…  [llc=N] [dev=NAME] [huge=SIZExPAGES] [offline=CPUS] [type=cxl]
//	0   0-3|8-11 16G     10 21       llc=2
//	1   4-7|-    16G     21 10
//
// CPUS are threads of cores: the k-th CPU of each part after "|" is a sibling of
// the k-th of the first; "-" alone is no CPU. llc=N makes a last-level cache of
// every N cores; a node is one cache otherwise. A distance "?" is unknown. A
// memory of "?" is unknown. type= is what the memory is made of; without it a node without CPUs gets the type
// that its distances speak for.
func Draw(drawing string) *topology.Host {
	h := &topology.Host{}
	for line := range strings.Lines(drawing) {
		if f := strings.Fields(line); len(f) > 0 {
			drawNode(h, f)
		}
	}
	for i, n := range h.Nodes {
		if len(h.Distances[i]) != len(h.Nodes) {
			panic(fmt.Sprintf("node %d: %d distances for %d nodes", n.ID, len(h.Distances[i]), len(h.Nodes)))
		}
	}
	h.NumberLLCs()
	h.Allowed = h.Online.Clone()
	topology.SettleTypes(h)
	return h
}

func drawNode(h *topology.Host, f []string) {
	n := topology.Node{ID: topology.NodeID(number(f[0])), Package: topology.None, Kind: topology.DRAM}
	var cores []topology.Core
	if f[1] != "-" {
		for _, part := range strings.Split(f[1], "|") {
			k := 0
			for cpu := range cpus(part).All() {
				if k == len(cores) {
					cores = append(cores, topology.Core{Node: n.ID, Package: topology.None, Capacity: topology.None})
				}
				cores[k].CPUs.Add(cpu)
				n.CPUs.Add(cpu)
				k++
			}
		}
	}
	n.Memory = memory(f[2])
	n.Free = n.Memory
	switch {
	case n.Memory == 0:
		n.Kind = topology.NoMem
	case n.CPUs.Empty():
		n.Kind = topology.Special
	}
	var row []int
	llc := 0
	for _, word := range f[3:] {
		key, value, _ := strings.Cut(word, "=")
		switch key {
		case "llc":
			llc = number(value)
		case "dev":
			h.Devices = append(h.Devices, topology.Device{Name: value, Kind: topology.NIC, Node: n.ID})
		case "huge":
			size, pages, _ := strings.Cut(value, "x")
			p := int64(number(pages))
			n.HugePages = append(n.HugePages, topology.HugePool{Size: memory(size), Total: p, Free: p})
		case "type":
			n.Type = topology.MemoryType(value)
		case "offline":
			h.Offline = h.Offline.Union(cpus(value))
		case "?":
			row = append(row, topology.None)
		default:
			row = append(row, number(word))
		}
	}
	h.Distances = append(h.Distances, row)
	h.Nodes = append(h.Nodes, n)
	addCores(h, cores, llc)
	h.Online = h.Online.Union(n.CPUs)
	if n.Memory != 0 {
		h.AllowedMems.Add(n.ID)
	}
}

func addCores(h *topology.Host, cores []topology.Core, llc int) {
	llc = cmp.Or(llc, max(1, len(cores)))
	for i, c := range cores {
		h.Cores = append(h.Cores, c)
		if i%llc == 0 {
			h.LLCs = append(h.LLCs, topology.LLC{Level: 3, Size: topology.None})
		}
		last := &h.LLCs[len(h.LLCs)-1]
		last.CPUs = last.CPUs.Union(c.CPUs)
	}
}

// Grid is a host of equal nodes: core c has the CPUs c, c+cores, … and lies on
// node c/(cores per node). distance tells the SLIT distance of two nodes.
func Grid(nodes, cores, smt int, mem topology.KiB, distance func(i, j int) int) *topology.Host {
	var b strings.Builder
	all := nodes * cores
	for n := range nodes {
		fmt.Fprintf(&b, "%d ", n)
		for t := range smt {
			if t > 0 {
				b.WriteByte('|')
			}
			fmt.Fprintf(&b, "%d-%d", t*all+n*cores, t*all+(n+1)*cores-1)
		}
		fmt.Fprintf(&b, " %dK", mem)
		for m := range nodes {
			fmt.Fprintf(&b, " %d", distance(n, m))
		}
		b.WriteByte('\n')
	}
	return Draw(b.String())
}

// Pairs is a host of equal nodes, a package each, 20 apart: CPUs 2k and 2k+1 are a core,
// and those of a node have one last-level cache.
func Pairs(nodes, perNode int, mem topology.KiB) *topology.Host {
	h := &topology.Host{}
	for n := range nodes {
		node := topology.Node{ID: topology.NodeID(n), Package: topology.PackageID(n), Memory: mem, Free: mem,
			Kind: topology.DRAM}
		for c := range perNode {
			node.CPUs.Add(topology.CPUID(n*perNode + c))
		}
		for c := 0; c < perNode; c += 2 {
			id := topology.CPUID(n*perNode + c)
			h.Cores = append(h.Cores, topology.Core{CPUs: topology.CPUs(id, id+1), Node: node.ID, Package: node.Package,
				Capacity: topology.None})
		}
		h.Packages = append(h.Packages, topology.Package{ID: node.Package, CPUs: node.CPUs})
		h.LLCs = append(h.LLCs, topology.LLC{CPUs: node.CPUs, Level: 3, Size: topology.None})
		h.Online = h.Online.Union(node.CPUs)
		h.AllowedMems.Add(node.ID)
		h.Nodes = append(h.Nodes, node)
		row := make([]int, nodes)
		for o := range row {
			row[o] = Flat(20)(n, o)
		}
		h.Distances = append(h.Distances, row)
	}
	h.Allowed = h.Online
	h.NumberLLCs()
	return h
}

// Flat is a distance function: 10 to itself, far to every other node.
func Flat(far int) func(i, j int) int {
	return func(i, j int) int {
		if i == j {
			return 10
		}
		return far
	}
}

func number(s string) int {
	n, err := strconv.Atoi(s)
	if err != nil {
		panic(err)
	}
	return n
}

func cpus(list string) topology.CPUSet {
	if list == "-" {
		return topology.CPUSet{}
	}
	s, err := topology.ParseCPUSet(list)
	if err != nil {
		panic(err)
	}
	return s
}

func memory(s string) topology.KiB {
	if s == "?" {
		return topology.None
	}
	unit := topology.KiB(1)
	switch s[len(s)-1] {
	case 'G':
		unit = GiB
	case 'M':
		unit = 1 << 10
	case 'K':
	default:
		return topology.KiB(number(s))
	}
	return topology.KiB(number(s[:len(s)-1])) * unit
}
