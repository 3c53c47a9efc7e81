package domain

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/homenode/homenode/core/guest"
	"github.com/homenode/homenode/core/plan"
	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/core/workload"
)

// Guest is what the guest wants and where the document says that it is.
//
// A guest is dedicated when homenode's mark says so or, without a mark, when
// every vCPU is pinned to one CPU that no other vCPU has. A dedicated guest
// counts with all vCPUs it may have, a shared one with those it has. One that is
// bound nowhere may be on every node.
func (d *Document) Guest(h *topology.Host) (guest.Guest, error) {
	s, err := d.guest(h)
	if err != nil {
		return s, fmt.Errorf("domain %q: %w", d.Name(), err)
	}
	return s, nil
}

func (d *Document) guest(h *topology.Host) (guest.Guest, error) {
	s := guest.Guest{Name: d.Name(), UUID: d.UUID(), Emulator: guest.Share}
	s.Running = d.tree.Root().SelectAttr("id") != nil // libvirt gives a running one an ID
	if err := guest.CheckName(s.Name); err != nil {
		return s, err
	}
	w, err := d.wants(h)
	if err != nil {
		return s, err
	}
	mark, marked := d.Mark()
	most, now, err := d.vcpus()
	if err != nil {
		return s, err
	}
	s.Most = most
	p, err := d.pinning(h.Online, most, now)
	if err != nil {
		return s, err
	}
	s.Spec = workload.Spec{
		ID: guest.ID(s.Name), Name: s.Name, Class: workload.Shared, Importance: workload.DefaultImportance, CPUs: now,
		Memory: w.memory, HugePage: w.hugePage, Near: w.near, Given: true,
	}
	s.SeesNodes = w.cells > 0
	if w.cells > 1 { // its nodes are what it sees as such
		s.Spec.Even, s.Spec.MaxNodes = true, w.cells
	}
	s.Drives = d.hostDevices()
	if marked {
		s.Flavor = mark.Flavor
		s.Placed = true
		s.Emulator = mark.Emulator
		s.Spec.Class = mark.Class
		s.Spec.Tier = mark.Tier
		s.Spec.Importance = mark.Importance
		s.Spec.SMT = mark.SMT
	}
	if marked {
		s.OnlyNodes, _ = topology.ParseNodeSet(mark.Only)
		s.Spec.Nodes = s.OnlyNodes
		s.Near = mark.near()
		s.Spec.Goals = mark.goals()
		s.Spec.Near = slices.Concat(s.Near, s.Spec.Near)
		if mark.Exact > 0 {
			s.Spec.MinNodes, s.Spec.MaxNodes = mark.Exact, mark.Exact
		}
	}
	s.Manual = p.manual(mark, marked)
	s.Nova = d.nova()
	if s.Floats = s.Nova && !marked && !p.auto &&
		(len(p.said) == 0 || (len(p.said) == 1 && p.said[0] == fence)); s.Floats {
		s.Fence = p.bound.Clone()
	}
	if missing := p.drop(h); missing != "" && (s.Manual != "" || !marked) {
		s.Manual = fmt.Sprintf("bound to %s, which this host does not have", missing)
	}
	if !marked && p.single {
		s.Spec.Class = workload.Dedicated
	}
	if s.Spec.Class == workload.Dedicated {
		s.Spec.CPUs = most
	}
	s.BoundCPUs = p.bound
	s.BoundNodes = p.nodes
	s.Mode = p.mode
	s.Loose = p.loose
	s.Home.Placement = w.placement(h, &s.Spec, &p)
	s.Apart = w.otherPages(h, &s, &p)
	s.Home.Emulator = p.emulator
	if marked && mark.Composed && s.Manual == "" {
		if err := d.compose(h, &s, mark); err != nil {
			s.Manual = err.Error()
		}
	}
	if marked && mark.Emulator == guest.Isolate && p.emulator.Len() == 1 {
		s.Home.Spare = guest.OwnCPUs(h, guest.EmulatorID(s.Name), s.Spec.Importance, p.emulator, topology.CPUSet{})
	}
	if s.Manual != "" {
		s.Apart = append(s.Apart, p.pinnedByOthers(h, &s)...)
		if home := &s.Home.Placement; home.Class != workload.Dedicated { // the rest of it floats
			if rest := home.CPUs.Minus(p.alone); !rest.Empty() {
				home.CPUs, home.VCPUs = rest, max(1, home.VCPUs-p.alone.Len())
			}
		}
	}
	return s, nil
}

// wants is what the document asks of the host.
type wants struct {
	memory, hugePage topology.KiB // in pages of the size that most of it has
	parts            []part       // all of it
	near             []workload.Near
	cells            int
}

// part is memory of the guest in pages of one size that is bound alike.
type part struct {
	memory, page topology.KiB
	on           topology.NodeSet // empty: as all of the guest is
}

func (d *Document) wants(h *topology.Host) (w wants, err error) {
	total, err := d.memory()
	if err != nil {
		return w, err
	}
	cells, err := d.guestCells()
	if err != nil {
		return w, err
	}
	pages, err := d.hugePages(h)
	if err != nil {
		return w, err
	}
	w.cells = len(cells)
	sums := map[topology.KiB]topology.KiB{}
	take := func(p part) {
		w.parts = append(w.parts, p)
		if sums[p.page] += p.memory; sums[p.page] > w.memory || (sums[p.page] == w.memory && p.page > w.hugePage) {
			w.memory, w.hugePage = sums[p.page], p.page
		}
	}
	left := total
	for id, c := range cells {
		p := part{min(left, c.memory), pages.of(id), c.on}
		left -= p.memory
		take(p)
	}
	switch {
	case len(cells) == 0: // all of it is as if in cell 0
		take(part{memory: left, page: pages.of(0)})
	case left > 0: // as DIMMs
		take(part{memory: left, page: pages.of(-1)})
	}
	for _, device := range append(d.hostDevices(), d.directNICs()...) {
		w.near = append(w.near, workload.Near{Device: device})
	}
	return w, nil
}

// pinning is where the document lets the guest be.
type pinning struct {
	pins      []topology.CPUID // the CPU of each vCPU, when single
	single    bool             // each vCPU has one CPU, which no other has
	cpus      topology.CPUSet  // of all vCPUs; the whole host when nothing is said
	bound     topology.CPUSet  // … of those it has now, as far as something is said
	boundAll  topology.CPUSet  // … of all it may have
	loose     bool             // something is said of some vCPUs and not of others
	nodes     topology.NodeSet // its memory; empty when nothing is said
	mode      string           // of the memory
	alone     topology.CPUSet  // of vCPUs that are pinned to one CPU
	emulator  topology.CPUSet
	iothreads []topology.CPUSet // of each that is pinned
	said      []string          // what the document says about it, for people
	auto      bool              // libvirt asks numad at start
}

// fence is what Nova binds guests by that float: [compute] cpu_shared_set.
const fence = "vcpu cpuset"

// pinning reads where vCPUs and memory may be: of all vCPUs the guest may have, and
// what is said of those it has now. Vcpus that nothing is said of are on all online CPUs.
func (d *Document) pinning(online topology.CPUSet, vcpus, now int) (pinning, error) {
	var p pinning
	pins, err := d.vcpuPins()
	if err != nil {
		return p, err
	}
	vcpu := d.at("vcpu")
	floating, err := attrSet[topology.CPUID](vcpu, "cpuset")
	if err != nil {
		return p, err
	}
	if !floating.Empty() {
		p.said = append(p.said, fence)
	}
	if len(pins) > 0 {
		p.said = append(p.said, "vcpupin")
	}
	said := !floating.Empty()
	if !said {
		floating = online
	}
	p.single = true
	var once topology.CPUSet
	free := 0
	for i := range vcpus {
		set, pinned := pins[i]
		if !pinned {
			set = floating
		} else if set.Len() == 1 {
			p.alone = p.alone.Union(set)
		}
		if pinned || said {
			p.boundAll = p.boundAll.Union(set)
		}
		switch {
		case i >= now:
		case pinned || said:
			p.bound = p.bound.Union(set)
		default:
			free++
		}
		p.single = p.single && pinned && set.Len() == 1 && !once.Intersects(set)
		once = once.Union(set)
		p.pins = append(p.pins, set.Min())
	}
	p.cpus = once
	p.loose = free > 0 && free < now
	if p.emulator, err = attrSet[topology.CPUID](d.at("cputune", "emulatorpin"), "cpuset"); err != nil {
		return p, err
	}
	if tune := d.at("cputune"); tune != nil {
		for _, el := range tune.SelectElements("iothreadpin") {
			set, err := attrSet[topology.CPUID](el, "cpuset")
			if err != nil {
				return p, err
			}
			p.iothreads = append(p.iothreads, set)
		}
	}
	if tune := d.at("cputune"); tune != nil &&
		(tune.SelectElement("emulatorpin") != nil || tune.SelectElement("iothreadpin") != nil) {
		p.said = append(p.said, "emulatorpin, iothreadpin")
	}
	memory := d.at("numatune", "memory")
	if memory != nil || d.at("numatune", "memnode") != nil {
		p.said = append(p.said, "numatune")
	}
	if p.nodes, err = d.boundNodes(); err != nil {
		return p, err
	}
	if memory != nil {
		p.mode = memory.SelectAttrValue("mode", "strict")
		p.auto = memory.SelectAttrValue("placement", "") == "auto"
	}
	p.auto = p.auto || (vcpu != nil && vcpu.SelectAttrValue("placement", "") == "auto")
	return p, nil
}

// Manual says who else than homenode decides where the guest runs, as Guest does; ""
// for nobody.
func (d *Document) Manual() string {
	most, now, err := d.vcpus()
	if err != nil {
		return err.Error()
	}
	p, err := d.pinning(topology.CPUSet{}, most, now)
	if err != nil {
		return err.Error()
	}
	return p.manual(d.Mark())
}

// manual says who else than homenode decides where the guest runs.
func (p *pinning) manual(m Mark, marked bool) string {
	switch {
	case p.auto:
		return "libvirt asks numad where it goes at every start (placement='auto')"
	case !marked && len(p.said) > 0:
		return fmt.Sprintf("bound by hand (%s)", strings.Join(p.said, ", "))
	case marked && m.ToCPUs+m.ToNodes != "":
		cpus, nodes, err := m.left()
		if err == nil && (!p.nodes.Empty() || m.Nodes == "") && p.bound.Minus(cpus).Empty() &&
			p.nodes.Minus(nodes).Empty() {
			return ""
		}
		return fmt.Sprintf("its bindings (CPUs %v, nodes %v) are not what homenode wrote (from CPUs %s, nodes %s to "+
			"CPUs %s, nodes %s)", p.bound, p.nodes, m.CPUs, m.Nodes, m.ToCPUs, m.ToNodes)
	case marked && ((p.bound.String() != m.CPUs && p.boundAll.String() != m.CPUs) || p.nodes.String() != m.Nodes):
		return fmt.Sprintf("its bindings (CPUs %v, nodes %v) are not what homenode wrote (CPUs %s, nodes %s)", p.bound,
			p.nodes, m.CPUs, m.Nodes)
	}
	return ""
}

func (w *wants) placement(h *topology.Host, s *workload.Spec, p *pinning) plan.Placement {
	out := plan.Placement{
		Workload: s.ID, Class: s.Class, Importance: s.Importance, VCPUs: s.CPUs,
		Home: p.nodes.Union(h.NodesOf(p.cpus)), CPUs: p.cpus,
		Asked: s.Memory, HugePage: s.HugePage, Bound: p.mode == "strict" && !p.nodes.Empty(),
	}
	if s.Class == workload.Dedicated && !p.single {
		out.Class = workload.Shared // it wants CPUs of its own and has none
	}
	if out.Class == workload.Dedicated {
		out.Pins = p.pins
		out.Idle = plan.Idle(h, s.SMT, p.cpus)
	}
	// Memory that no node of the home can hold is booked where it can be.
	out.Memory = w.lies(h, p, out.Home, s.HugePage)
	for _, m := range out.Memory {
		out.Home.Add(m.Node)
	}
	return out
}

// otherPages is the memory in pages of other sizes than most of it has, as the ledger has
// it: it takes no CPU.
func (w *wants) otherPages(h *topology.Host, s *guest.Guest, p *pinning) []plan.Placement {
	sums := map[topology.KiB]topology.KiB{}
	for _, x := range w.parts {
		if x.page != w.hugePage && x.memory > 0 {
			sums[x.page] += x.memory
		}
	}
	var out []plan.Placement
	for _, page := range slices.Sorted(maps.Keys(sums)) {
		more := plan.Placement{Workload: guest.PagesID(s.Name, page), Class: workload.Dedicated,
			Importance: s.Spec.Importance,
			Asked:      sums[page], HugePage: page, Bound: p.mode == "strict" && !p.nodes.Empty(),
			Memory: w.lies(h, p, s.Home.Placement.Home, page)}
		for _, m := range more.Memory {
			more.Home.Add(m.Node)
		}
		out = append(out, more)
	}
	return out
}

// lies is how the guest's memory in pages of one size is bound: what its cells say, the
// rest spread over the nodes of the binding, or over its home.
func (w *wants) lies(h *topology.Host, p *pinning, home topology.NodeSet, page topology.KiB) []workload.NodeMemory {
	booked := map[topology.NodeID]topology.KiB{}
	unit := max(1, page)
	spread := func(over topology.NodeSet, kib topology.KiB) {
		nodes := over.Intersect(h.AllowedMems).Slice()
		if len(nodes) == 0 {
			nodes = h.AllowedMems.Slice()
		}
		pages := kib / unit
		for i, n := range nodes {
			part := pages / topology.KiB(len(nodes))
			if topology.KiB(i) < pages%topology.KiB(len(nodes)) {
				part++
			}
			booked[n] += part * unit
		}
	}
	var total topology.KiB
	for _, x := range w.parts {
		if x.page == page {
			total += x.memory
		}
	}
	left := plan.RoundUp(total, page)
	for _, x := range w.parts {
		if x.page == page && !x.on.Empty() {
			size := min(left, plan.RoundUp(x.memory, page))
			spread(x.on, size)
			left -= size
		}
	}
	if p.nodes.Empty() {
		spread(home, left)
	} else {
		spread(p.nodes, left)
	}
	var out []workload.NodeMemory
	for _, n := range h.Nodes {
		if booked[n.ID] > 0 {
			out = append(out, workload.NodeMemory{Node: n.ID, KiB: booked[n.ID]})
		}
	}
	return out
}

// Wants is what the guest asks of a host, whatever host it is bound to now, and its
// mark. ok is false when that is not homenode's to say: it has no mark, or was placed cell
// by cell.
func (d *Document) Wants(h *topology.Host) (spec workload.Spec, mark Mark, ok bool, err error) {
	mark, ok = d.Mark()
	if !ok || mark.Composed {
		return spec, mark, false, nil
	}
	w, err := d.wants(h)
	if err != nil {
		return spec, mark, false, err
	}
	most, now, err := d.vcpus()
	only, _ := topology.ParseNodeSet(mark.Only)
	spec = workload.Spec{ID: guest.ID(d.Name()), Name: d.Name(), Class: mark.Class, Tier: mark.Tier,
		Importance: mark.Importance, CPUs: now,
		Memory: w.memory, HugePage: w.hugePage, SMT: mark.SMT, Nodes: only, MinNodes: mark.Exact, MaxNodes: mark.Exact,
		Near: mark.near(), Given: true}
	if mark.Class == workload.Dedicated {
		spec.CPUs = most
	}
	return spec, mark, err == nil, err
}
