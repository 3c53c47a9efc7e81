package domain

import (
	"fmt"
	"strconv"

	"github.com/beevik/etree"

	"github.com/homenode/homenode/core/plan"
	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/core/workload"
)

// cell is a NUMA node of a new guest.
type cell struct {
	node        topology.NodeID // of the host
	first, last int             // its vCPUs
	memory      topology.KiB
}

func (c *cell) vcpus() int { return c.last - c.first + 1 }

// cellsOf divides a dedicated guest into the nodes it got, one cell each; a
// placement that has CPUs on one node and memory on another, or whose vCPUs do
// not lie node after node, is one cell.
func cellsOf(h *topology.Host, p *plan.Placement) []cell {
	var cells []cell
	var seen topology.NodeSet
	for i, cpu := range p.Pins {
		n := nodeOf(h, cpu)
		if k := len(cells) - 1; k >= 0 && cells[k].node == n {
			cells[k].last = i
			continue
		}
		if n < 0 || seen.Has(n) {
			return oneCell(p)
		}
		seen.Add(n)
		cells = append(cells, cell{n, i, i, workload.On(p.Memory, topology.Nodes(n))})
	}
	sum := topology.KiB(0)
	for i := range cells {
		if cells[i].memory == 0 {
			return oneCell(p)
		}
		sum += cells[i].memory
	}
	if sum != workload.Total(p.Memory) {
		return oneCell(p)
	}
	wholeMiB(cells)
	return cells
}

func oneCell(p *plan.Placement) []cell {
	return []cell{{topology.None, 0, len(p.Pins) - 1, workload.Total(p.Memory)}}
}

// wholeMiB makes all cells whole MiB; the last takes what the others lose, less
// than 1 MiB each. libvirt would round each up (qemuDomainAlignMemorySizes), and
// the guest would have more than it was given.
func wholeMiB(cells []cell) {
	last := &cells[len(cells)-1]
	for i := range cells[:len(cells)-1] {
		rest := cells[i].memory % 1024
		cells[i].memory -= rest
		last.memory += rest
	}
}

// guestTopology is what the guest sees: sockets × cores × threads.
type guestTopology struct{ sockets, cores, threads int }

// topologyOf mirrors the threads that a dedicated guest got: as many threads a
// core as its vCPUs, taken in order, share each core of the host, if that is the
// same for all; a socket for each cell, for a guest that sees one LLC over two of
// its nodes schedules as if they were one. Cells of different size are made of
// sockets of a size that divides all.
func topologyOf(h *topology.Host, p *plan.Placement, cells []cell) guestTopology {
	size := 0
	for i := range cells {
		size = gcd(size, cells[i].vcpus())
	}
	threads := threadsPerCore(h, p.Pins)
	if size%threads != 0 {
		threads = 1
	}
	return guestTopology{len(p.Pins) / size, size / threads, threads}
}

// threadsPerCore is how many vCPUs in a row share a core of the host, 1 when
// that is not the same for all.
func threadsPerCore(h *topology.Host, pins []topology.CPUID) int {
	core := map[topology.CPUID]int{}
	for i := range h.Cores {
		for cpu := range h.Cores[i].CPUs.All() {
			core[cpu] = i
		}
	}
	at := func(i int) int {
		if c, ok := core[pins[i]]; ok {
			return c
		}
		return -1 - i
	}
	threads := 1
	for threads < len(pins) && at(threads) == at(0) {
		threads++
	}
	seen := map[int]bool{}
	for i := range pins {
		if first := i - i%threads; at(i) != at(first) || i == first && seen[at(i)] {
			return 1
		}
		seen[at(i)] = true
	}
	if len(pins)%threads != 0 {
		return 1
	}
	return threads
}

func gcd(a, b int) int {
	for b != 0 {
		a, b = b, a%b
	}
	return a
}

// shape writes what a new guest sees: its topology, cells and pages.
func (d *Document) shape(h *topology.Host, p *plan.Placement) {
	cpu := d.child(d.tree.Root(), "cpu")
	t := guestTopology{1, p.VCPUs, 1}
	if p.Class == workload.Dedicated {
		cells := cellsOf(h, p)
		t = topologyOf(h, p, cells)
		cpu.AddChild(numaElement(h, cells))
	}
	el := etree.NewElement("topology")
	el.CreateAttr("sockets", strconv.Itoa(t.sockets))
	el.CreateAttr("cores", strconv.Itoa(t.cores))
	el.CreateAttr("threads", strconv.Itoa(t.threads))
	cpu.InsertChildAt(0, el)
	if p.HugePage > 0 {
		backing := d.child(d.tree.Root(), "memoryBacking")
		page := backing.CreateElement("hugepages").CreateElement("page")
		page.CreateAttr("size", strconv.FormatInt(int64(p.HugePage), 10))
		page.CreateAttr("unit", "KiB")
	}
	if p.Class == workload.Dedicated {
		// KSM may give a guest a page that lies on another's node.
		d.child(d.tree.Root(), "memoryBacking").CreateElement("nosharepages")
	}
}

func numaElement(h *topology.Host, cells []cell) *etree.Element {
	numa := etree.NewElement("numa")
	known := knownDistances(h, cells)
	for i := range cells {
		c := &cells[i]
		el := numa.CreateElement("cell")
		el.CreateAttr("id", strconv.Itoa(i))
		el.CreateAttr("cpus", vcpuRange(c.first, c.last))
		el.CreateAttr("memory", strconv.FormatInt(int64(c.memory), 10))
		el.CreateAttr("unit", "KiB")
		if known == nil {
			continue
		}
		distances := el.CreateElement("distances")
		for k := range cells {
			sibling := distances.CreateElement("sibling")
			sibling.CreateAttr("id", strconv.Itoa(k))
			sibling.CreateAttr("value", strconv.Itoa(known[i][k]))
		}
	}
	return numa
}

func vcpuRange(first, last int) string {
	if first == last {
		return strconv.Itoa(first)
	}
	return fmt.Sprintf("%d-%d", first, last)
}

// knownDistances is the host's SLIT between the nodes of the cells; nil for one
// cell, and when an entry is not what libvirt takes: 10 on the diagonal, 11 to
// 254 elsewhere (virDomainNumaDefParseXML).
func knownDistances(h *topology.Host, cells []cell) [][]int {
	if len(cells) < 2 {
		return nil
	}
	at := map[topology.NodeID]int{}
	for i := range h.Nodes {
		at[h.Nodes[i].ID] = i
	}
	out := make([][]int, len(cells))
	for i := range cells {
		row := at[cells[i].node]
		if row >= len(h.Distances) {
			return nil
		}
		for k := range cells {
			col := at[cells[k].node]
			if col >= len(h.Distances[row]) {
				return nil
			}
			v := h.Distances[row][col]
			if i == k && v != 10 || i != k && (v < 11 || v > 254) {
				return nil
			}
			out[i] = append(out[i], v)
		}
	}
	return out
}
