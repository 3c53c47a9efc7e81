package domain

import (
	"slices"
	"strconv"
	"strings"

	"github.com/beevik/etree"

	"github.com/homenode/homenode/core/guest"
	"github.com/homenode/homenode/core/plan"
	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/core/workload"
)

// Place writes a home: what the host does with the guest's threads and memory,
// and the mark. What the guest sees stays as it is. The mark's CPUs, Nodes and Shares
// are filled in.
//
// A dedicated guest gets a CPU for each vCPU and its memory strictly; a shared
// one floats, with memory in mode `restrictive`: libvirt refuses to change the
// nodes of a running guest in any other mode, and in this one the kernel moves
// its pages along (cpuset.mems).
func (d *Document) Place(h *topology.Host, home guest.Home, mark Mark) {
	p := &home.Placement
	at := bindings{vcpus: home.VCPUs, emulator: home.Emulator, cells: home.Cells, cpus: p.CPUs,
		nodes: home.MemoryNodes(), strict: home.Cells != nil}
	if p.Class == workload.Dedicated && home.Cells == nil {
		at.vcpus = oneEach(p.Pins)
		at.cells = d.cellNodes(h, p)
		at.strict = true
	}
	d.place(p, at, mark)
}

// bindings is where a guest and its threads may be.
type bindings struct {
	vcpus    []topology.CPUSet // of each vCPU; nil where all float over cpus
	emulator topology.CPUSet   // … and IOThreads, where the vCPUs have their own
	cells    []topology.NodeID // the node of each cell; nil when none is bound by itself
	cpus     topology.CPUSet
	nodes    topology.NodeSet // of all memory
	strict   bool             // the memory stays there while the guest runs
	floats   bool             // each cell may move by itself
}

// all is the CPUs of all vCPUs.
func (b *bindings) all() topology.CPUSet {
	if b.vcpus == nil {
		return b.cpus
	}
	var all topology.CPUSet
	for _, set := range b.vcpus {
		all = all.Union(set)
	}
	return all
}

func oneEach(pins []topology.CPUID) []topology.CPUSet {
	out := make([]topology.CPUSet, len(pins))
	for i, cpu := range pins {
		out[i] = topology.CPUs(cpu)
	}
	return out
}

func (d *Document) place(p *plan.Placement, at bindings, mark Mark) {
	mark.Class, mark.Importance = p.Class, p.Importance
	at.floats = mark.floats()
	mark.CPUs, mark.Nodes = at.all().String(), at.nodes.String()
	mark.ToCPUs, mark.ToNodes = "", ""
	was, _ := d.Mark()
	if mark.Shares = was.Shares; was.Added != "" {
		mark.Added = was.Added
	}
	if d.at("vcpu") == nil {
		mark.Added = strings.TrimSpace("vcpu " + mark.Added)
	}
	vcpu := d.child(d.tree.Root(), "vcpu")
	if strings.TrimSpace(vcpu.Text()) == "" {
		vcpu.SetText("1") // what libvirt takes a missing one for
	}
	if vcpu.SelectAttr("placement") != nil {
		vcpu.CreateAttr("placement", "static")
	}
	if at.vcpus != nil {
		vcpu.RemoveAttr("cpuset")
	} else {
		vcpu.CreateAttr("cpuset", at.cpus.String())
	}
	d.placeThreads(&at)
	d.weigh(p, &mark)
	d.placeMemory(&at)
	metadata := d.child(d.tree.Root(), "metadata")
	if el := d.markElement(); el != nil {
		mark.fill(el)
	} else {
		metadata.AddChild(mark.element())
	}
}

// MemoryNodes is the nodes that numatune binds the guest's memory to, as it is
// written; "" for none.
func (d *Document) MemoryNodes() string {
	if el := d.at("numatune", "memory"); el != nil {
		return el.SelectAttrValue("nodeset", "")
	}
	return ""
}

// MemoryMode is how the guest's memory is bound, "" when it is not.
func (d *Document) MemoryMode() string {
	if el := d.at("numatune", "memory"); el != nil {
		return el.SelectAttrValue("mode", "strict")
	}
	return ""
}

// order is where libvirt writes the children of <domain> that are written here;
// the schema takes them anywhere, people expect them there.
var order = []string{
	"name", "uuid", "genid", "title", "description", "metadata", "maxMemory", "memory", "currentMemory",
	"memoryBacking",
	"vcpu", "vcpus", "iothreads", "iothreadids", "cputune", "numatune", "resource", "sysinfo", "os", "features", "cpu",
}

// child is the child of a tag, made where libvirt would write it when missing.
func (d *Document) child(parent *etree.Element, tag string) *etree.Element {
	if el := parent.SelectElement(tag); el != nil {
		return el
	}
	el := etree.NewElement(tag)
	before := 0 // index of the first token that comes after it
	rank := slices.Index(order, tag)
	for _, kid := range parent.ChildElements() {
		if r := slices.Index(order, kid.Tag); r >= 0 && r < rank {
			before = kid.Index() + 1
		}
	}
	if rank < 0 {
		before = len(parent.Child)
	}
	parent.InsertChildAt(before, el)
	return el
}

// Release takes the bindings off, and the mark: the guest runs where the kernel
// and libvirt put it. Of a guest that was adopted nothing is left of homenode.
func (d *Document) Release() {
	mark, _ := d.Mark()
	if vcpu := d.at("vcpu"); vcpu != nil {
		vcpu.RemoveAttr("cpuset")
		if slices.Contains(strings.Fields(mark.Added), "vcpu") && len(vcpu.Attr) == 0 && vcpu.Text() == "1" {
			remove(vcpu)
		}
	}
	d.removeAdded(&mark)
	if tune := d.at("cputune"); tune != nil {
		if d.weighedBy(&mark) {
			remove(tune.SelectElement("shares"))
		}
		for _, tag := range []string{"vcpupin", "emulatorpin", "iothreadpin"} {
			pinEach(tune, tag, "", nil)
		}
		removeEmpty(tune)
	}
	if tune := d.at("numatune"); tune != nil {
		for _, el := range tune.ChildElements() {
			if el.Tag == "memory" || el.Tag == "memnode" {
				remove(el)
			}
		}
		removeEmpty(tune)
	}
	if mark := d.markElement(); mark != nil {
		remove(mark)
		removeEmpty(d.at("metadata"))
	}
}

// placeThreads writes cputune: one pin a vCPU where each has its own CPUs, none where
// <vcpu cpuset> holds for every thread.
func (d *Document) placeThreads(at *bindings) {
	tune := d.child(d.tree.Root(), "cputune")
	var want [][2]string
	for i, cpus := range at.vcpus {
		want = append(want, [2]string{strconv.Itoa(i), cpus.String()})
	}
	pinEach(tune, "vcpupin", "vcpu", want)
	pin := tune.SelectElement("emulatorpin")
	switch {
	case at.vcpus != nil && !at.emulator.Empty():
		if pin == nil {
			pin = etree.NewElement("emulatorpin")
			insertAfter(tune, pin, "vcpupin")
		}
		pin.CreateAttr("cpuset", at.emulator.String())
	case pin != nil:
		remove(pin)
	}
	pinEach(tune, "iothreadpin", "iothread", d.iothreadPins(at))
	removeEmpty(tune)
}

// weighedBy reports whether the guest's CPU weight is the mark's.
func (d *Document) weighedBy(mark *Mark) bool {
	el := d.at("cputune", "shares")
	return el != nil && mark.Shares != "" && strings.TrimSpace(el.Text()) == mark.Shares
}

// weigh gives a shared guest without a CPU weight one by its size and importance. A
// weight that homenode did not give stays.
func (d *Document) weigh(p *plan.Placement, mark *Mark) {
	el := d.at("cputune", "shares")
	ours := d.weighedBy(mark)
	mark.Shares = ""
	_, now, err := d.vcpus()
	switch {
	case (el != nil && !ours) || err != nil:
		return
	case p.Class != workload.Shared:
		if ours {
			tune := el.Parent()
			remove(el)
			removeEmpty(tune)
		}
		return
	case el == nil:
		el = etree.NewElement("shares")
		d.child(d.tree.Root(), "cputune").InsertChildAt(0, el)
	}
	mark.Shares = strconv.Itoa(weight(now, p.Importance))
	el.SetText(mark.Shares)
}

// removeEmpty takes an element out of the tree that holds no other.
func removeEmpty(el *etree.Element) {
	if len(el.ChildElements()) == 0 {
		remove(el)
	}
}

// iothreadPins puts the IOThreads of a guest whose vCPUs have CPUs of their own with its
// emulator.
func (d *Document) iothreadPins(at *bindings) (want [][2]string) {
	if at.vcpus == nil || at.emulator.Empty() {
		return nil
	}
	for _, id := range d.iothreads() {
		want = append(want, [2]string{id, at.emulator.String()})
	}
	return want
}

// iothreads is the IDs of the guest's IOThreads: those named, and from 1 as many
// more as the count asks for (virDomainIOThreadIDDefArrayInit).
func (d *Document) iothreads() []string {
	var ids []string
	known := map[string]bool{}
	if el := d.at("iothreadids"); el != nil {
		for _, t := range el.SelectElements("iothread") {
			id := t.SelectAttrValue("id", "")
			ids, known[id] = append(ids, id), true
		}
	}
	most, _ := strconv.Atoi(d.textAt("iothreads"))
	for n := 1; len(ids) < min(most, mostVCPUs); n++ {
		if id := strconv.Itoa(n); !known[id] {
			ids = append(ids, id)
		}
	}
	return ids
}

// pinEach makes the pins of one kind those wanted: there is one for each key,
// existing ones are kept and changed, others go.
func pinEach(tune *etree.Element, tag, key string, want [][2]string) {
	have := map[string]*etree.Element{}
	for _, el := range tune.SelectElements(tag) {
		if k := el.SelectAttrValue(key, ""); have[k] == nil {
			have[k] = el
		} else {
			remove(el)
		}
	}
	for _, w := range want {
		el := have[w[0]]
		delete(have, w[0])
		if el == nil {
			el = etree.NewElement(tag)
			el.CreateAttr(key, w[0])
			if tag == "iothreadpin" && tune.SelectElement(tag) == nil {
				insertAfter(tune, el, "emulatorpin")
			} else {
				insertAfter(tune, el, tag)
			}
		}
		el.CreateAttr("cpuset", w[1])
	}
	for _, el := range have {
		remove(el)
	}
}

// insertAfter puts el behind the last child of a tag, or at the end.
func insertAfter(parent, el *etree.Element, tag string) {
	if all := parent.SelectElements(tag); len(all) > 0 {
		parent.InsertChildAt(all[len(all)-1].Index()+1, el)
		return
	}
	parent.AddChild(el)
}

// remove takes an element out of the tree.
func remove(el *etree.Element) { el.Parent().RemoveChild(el) }

// placeMemory writes numatune: all of the memory, and cells that the guest sees one by
// one where the node of each is given. Where each cell may move by itself, nothing is said of
// all: libvirt would keep the threads' cpuset.mems to those nodes as long as the guest runs, and
// the kernel moves no page out of them. A cell's node is then preferred.
func (d *Document) placeMemory(at *bindings) {
	tune := d.child(d.tree.Root(), "numatune")
	mode := "restrictive"
	switch {
	case at.floats:
		mode = "preferred"
	case at.strict:
		mode = "strict"
	}
	if memory := tune.SelectElement("memory"); at.floats && memory != nil {
		remove(memory)
	} else if !at.floats {
		memory = d.child(tune, "memory")
		memory.RemoveAttr("placement")
		memory.CreateAttr("mode", mode)
		memory.CreateAttr("nodeset", at.nodes.String())
	}
	for _, el := range tune.SelectElements("memnode") {
		remove(el)
	}
	for id, n := range at.cells {
		el := tune.CreateElement("memnode")
		el.CreateAttr("cellid", strconv.Itoa(id))
		el.CreateAttr("mode", mode)
		el.CreateAttr("nodeset", strconv.Itoa(int(n)))
	}
}

// cellNodes is the host node of each cell that the guest sees: that of its
// vCPUs' pins. nil when some cell's vCPUs lie on no node or on several, or where
// nothing is booked on that node.
func (d *Document) cellNodes(h *topology.Host, p *plan.Placement) []topology.NodeID {
	numa := d.at("cpu", "numa")
	if numa == nil {
		return nil
	}
	els := numa.SelectElements("cell")
	nodes := make([]topology.NodeID, len(els))
	for i, el := range els {
		id, err := strconv.Atoi(el.SelectAttrValue("id", strconv.Itoa(i)))
		vcpus, bad := parseSet[int](el.SelectAttrValue("cpus", ""))
		if err != nil || bad != nil || id < 0 || id >= len(els) || vcpus.Empty() || vcpus.Max() >= len(p.Pins) {
			return nil
		}
		first := h.NodeOf(p.Pins[vcpus.Min()])
		for v := range vcpus.All() {
			if h.NodeOf(p.Pins[v]) != first {
				return nil
			}
		}
		if workload.On(p.Memory, topology.Nodes(first)) == 0 {
			return nil
		}
		nodes[id] = first
	}
	return nodes
}

// nodeOf is the node of a CPU, None for one that no node has.
