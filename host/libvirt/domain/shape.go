package domain

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/beevik/etree"

	"github.com/homenode/homenode/core/guest"
	"github.com/homenode/homenode/core/plan"
	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/core/workload"
)

// cell is a NUMA node of a new guest.
type cell struct {
	node   topology.NodeID // of the host
	vcpus  guest.VCPUs
	memory topology.KiB
}

// cellsOf divides a dedicated guest into the nodes it got, one cell each; a
// placement that has CPUs on one node and memory on another, or whose vCPUs do
// not lie node after node, is one cell.
func cellsOf(h *topology.Host, p *plan.Placement) []cell {
	var cells []cell
	var seen topology.NodeSet
	for i, cpu := range p.Pins {
		n := h.NodeOf(cpu)
		if k := len(cells) - 1; k >= 0 && cells[k].node == n {
			cells[k].vcpus.Add(i)
			continue
		}
		if n < 0 || seen.Has(n) {
			return oneCell(p)
		}
		seen.Add(n)
		cells = append(cells, cell{n, topology.SetOf(i), workload.On(p.Memory, topology.Nodes(n))})
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
	c := cell{node: topology.None, memory: workload.Total(p.Memory)}
	for i := range p.Pins {
		c.vcpus.Add(i)
	}
	return []cell{c}
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

// guestTopology is what the guest sees: sockets × dies × cores × threads.
type guestTopology struct{ sockets, dies, cores, threads int }

// topologyOf mirrors the threads that a dedicated guest got: as many threads a
// core as its vCPUs, taken in order, share each core of the host, if that is the
// same for all; a socket for each cell, for a guest that sees one LLC over two of
// its nodes schedules as if they were one. Cells of different size are made of
// sockets of a size that divides all.
func topologyOf(threads int, cells []cell) guestTopology {
	size, sum := 0, 0
	for i := range cells {
		n := cells[i].vcpus.Len()
		size, sum = gcd(size, n), sum+n
	}
	for i := range cells { // a socket is within one cell
		for v := range cells[i].vcpus.All() {
			for first := v - v%size; first < v-v%size+size; first++ {
				if !cells[i].vcpus.Has(first) {
					return guestTopology{sum, 1, 1, 1}
				}
			}
		}
	}
	if size%threads != 0 {
		threads = 1
	}
	return guestTopology{sum / size, 1, size / threads, threads}
}

// threadsPerCore is how many vCPUs in a row share a core of the host, 1 when
// that is not the same for all.
func threadsPerCore(h *topology.Host, pins []topology.CPUSet) int {
	core := map[topology.CPUID]int{}
	for i := range h.Cores {
		for cpu := range h.Cores[i].CPUs.All() {
			core[cpu] = i
		}
	}
	at := func(i int) int {
		if c, ok := core[pins[i].Min()]; ok && pins[i].Len() == 1 {
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
		if first := i - i%threads; at(i) != at(first) || (i == first && seen[at(i)]) {
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
func (d *Document) shape(h *topology.Host, home *guest.Home, asked *guest.Composed, m Machine) {
	p := &home.Placement
	cpu := d.child(d.tree.Root(), "cpu")
	t := guestTopology{1, 1, p.VCPUs, 1}
	var cells []cell
	var pins []topology.CPUSet
	switch {
	case asked != nil:
		for i, c := range asked.Cells {
			cells = append(cells, cell{home.Cells[i], c.VCPUs, c.Memory})
		}
		pins = home.VCPUs
	case p.Class == workload.Dedicated:
		cells = cellsOf(h, p)
		pins = oneEach(p.Pins)
	}
	if cells != nil {
		t = topologyOf(threadsPerCore(h, pins), cells).withCaches(h, pins, m)
		ownCaches(cpu, h, pins, t)
		cpu.AddChild(numaElement(h, cells))
	}
	el := etree.NewElement("topology")
	el.CreateAttr("sockets", strconv.Itoa(t.sockets))
	if t.dies > 1 { // libvirt 6.1 and later
		el.CreateAttr("dies", strconv.Itoa(t.dies))
	}
	el.CreateAttr("cores", strconv.Itoa(t.cores))
	el.CreateAttr("threads", strconv.Itoa(t.threads))
	cpu.InsertChildAt(0, el)
	d.shapePages(p, asked)
	if p.Class == workload.Dedicated || p.Bound || asked != nil {
		// KSM may give a guest a page that lies on another's node.
		d.child(d.tree.Root(), "memoryBacking").CreateElement("nosharepages")
	}
}

// shapePages writes memoryBacking: one page size for all of the guest, or those of its cells.
func (d *Document) shapePages(p *plan.Placement, asked *guest.Composed) {
	of := map[topology.KiB]guest.VCPUs{} // cells by page size
	if asked != nil {
		for i, c := range asked.Cells {
			set := of[c.HugePage].Clone()
			set.Add(i)
			of[c.HugePage] = set
		}
	} else {
		of[p.HugePage] = guest.VCPUs{}
	}
	sizes := slices.Sorted(maps.Keys(of))
	for _, size := range sizes {
		if size == 0 {
			continue
		}
		page := d.child(d.child(d.tree.Root(), "memoryBacking"), "hugepages").CreateElement("page")
		page.CreateAttr("size", strconv.FormatInt(int64(size), 10))
		page.CreateAttr("unit", "KiB")
		if len(sizes) > 1 {
			page.CreateAttr("nodeset", of[size].String())
		}
	}
}

func numaElement(h *topology.Host, cells []cell) *etree.Element {
	numa := etree.NewElement("numa")
	known := knownDistances(h, cells)
	for i := range cells {
		c := &cells[i]
		el := numa.CreateElement("cell")
		el.CreateAttr("id", strconv.Itoa(i))
		el.CreateAttr("cpus", c.vcpus.String())
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

// addCells lets a guest that sees no NUMA nodes see those that its next start names, in equal
// parts. Its sockets and cores stay.
func (d *Document) addCells(h *topology.Host, next guest.Next, mark *Mark) error {
	if h == nil {
		return errHostUnknown
	}
	memory, err := d.memory()
	if err != nil {
		return err
	}
	pages, err := d.hugePages(h)
	if err != nil {
		return err
	}
	c := guest.Spread(len(next.VCPUs), memory, pages.of(0), len(next.Cells))
	if c == nil {
		return fmt.Errorf("%d vCPUs and %d KiB are in no %d cells", len(next.VCPUs), memory, len(next.Cells))
	}
	var cells []cell
	for i := range c.Cells {
		cells = append(cells, cell{next.Cells[i], c.Cells[i].VCPUs, c.Cells[i].Memory})
	}
	mark.Added = strings.TrimSpace(mark.Added + " numa")
	if d.at("cpu") == nil {
		mark.Added += " cpu"
	}
	d.child(d.tree.Root(), "cpu").AddChild(numaElement(h, cells))
	return nil
}

// removeAdded takes out what was not there before the first mark.
func (d *Document) removeAdded(mark *Mark) {
	for tag := range strings.FieldsSeq(mark.Added) {
		switch el := d.at("cpu"); {
		case tag == "numa" && el != nil && el.SelectElement("numa") != nil:
			remove(el.SelectElement("numa"))
		case tag == "cpu" && el != nil && len(el.Attr) == 0 && len(el.ChildElements()) == 0:
			remove(el)
		}
	}
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
			if (i == k && v != 10) || (i != k && (v < 11 || v > 254)) {
				return nil
			}
			out[i] = append(out[i], v)
		}
	}
	return out
}
