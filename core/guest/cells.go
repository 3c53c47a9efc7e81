package guest

import (
	"errors"
	"fmt"
	"slices"

	"github.com/homenode/homenode/core/place"
	"github.com/homenode/homenode/core/plan"
	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/core/words"
	"github.com/homenode/homenode/core/workload"
)

// Mixed is the class of guests of which some vCPUs have a CPU of their own and the
// others float (Nova's hw:cpu_policy=mixed). To the placing engine the floating part is
// shared work, and the rest is held beside it.
const Mixed workload.Class = "mixed"

// Class is what guests are promised, as people write it.
type Class string

// Classes of guests.
const (
	DedicatedGuest Class = "dedicated"
	SharedGuest    Class = "shared"
	MixedGuest     Class = "mixed"
	BatchGuest     Class = "batch"
)

// VCPUs is a set of vCPU numbers.
type VCPUs = topology.Set[int]

// Cell is a NUMA node that a guest sees.
type Cell struct {
	VCPUs    VCPUs
	Memory   topology.KiB // whole MiB, and whole huge pages
	HugePage topology.KiB // 0 for ordinary pages
}

// Composed is a guest that is placed cell by cell.
type Composed struct {
	Cells []Cell
	Own   VCPUs // that have a CPU of their own
}

// Floats reports whether all its vCPUs float: each cell is then a part of the guest by itself,
// which may come to another node while the guest runs, with its memory.
func (c *Composed) Floats() bool { return c != nil && c.Own.Empty() }

// CellID names a cell of a guest of which all vCPUs float.
func CellID(name string, cell int) workload.ID { return workload.PartID(ID(name), cell) }

// CellOf is the guest whose cell an ID names, and which.
func CellOf(id workload.ID) (name string, cell int, ok bool) {
	whole, n := workload.PartOf(id)
	name = NameOf(whole)
	return name, n, n >= 0 && name != ""
}

// Spread is a guest in equal cells, as many as there are nodes: what each has more than the
// last is one vCPU, and a page or MiB of memory, at most. nil where a cell would have no vCPU or
// no memory.
func Spread(vcpus int, memory, page topology.KiB, nodes int) *Composed {
	unit := max(page, 1024)
	if nodes < 2 || vcpus < nodes || memory < unit*topology.KiB(nodes) || memory%unit != 0 {
		return nil
	}
	c := &Composed{}
	units, next := memory/unit, 0
	for k := range nodes {
		n, m := vcpus/nodes, units/topology.KiB(nodes)
		if k < vcpus%nodes {
			n++
		}
		if topology.KiB(k) < units%topology.KiB(nodes) {
			m++
		}
		cell := Cell{Memory: m * unit, HugePage: page}
		for v := next + n - 1; v >= next; v-- {
			cell.VCPUs.Add(v)
		}
		c.Cells, next = append(c.Cells, cell), next+n
	}
	return c
}

// CellSpecs is what the cells of a guest of which all vCPUs float want by themselves, those at
// the given nodes: each is on a node of its own, near the others.
func (c *Composed) CellSpecs(whole *workload.Spec, name string, at []topology.NodeID,
	all topology.NodeSet) []workload.Spec {
	if !whole.Nodes.Empty() {
		all = whole.Nodes
	}
	out := make([]workload.Spec, len(c.Cells))
	for k := range c.Cells {
		cell := &c.Cells[k]
		s := workload.Spec{
			ID: CellID(name, k), Name: name, Class: workload.Shared, Tier: whole.Tier, Importance: whole.Importance,
			CPUs:   cell.VCPUs.Len(),
			Memory: cell.Memory, HugePage: cell.HugePage, SMT: whole.SMT, Near: slices.Clone(whole.Near), Nodes: all,
			MaxNodes: 1, Given: true,
		}
		for i, node := range at {
			if i == k {
				continue
			}
			if node != at[k] || i < k { // of two on one node the first stays
				s.Nodes = s.Nodes.Minus(topology.Nodes(node))
			}
			s.Near = append(s.Near, workload.Near{Workload: CellID(name, i), Nodes: topology.Nodes(node),
				Weight: 1 / float64(len(at)-1), Learned: true})
		}
		out[k] = s
	}
	return out
}

// Composed is how the flavor is placed cell by cell; nil for one that is placed as a whole.
func (f *Flavor) Composed() *Composed {
	if f.Class != Mixed && len(f.Cells) == 0 {
		return nil
	}
	c := &Composed{Cells: f.Cells, Own: f.Own}
	if len(c.Cells) == 0 {
		c.Cells = []Cell{{VCPUs: firstVCPUs(f.VCPUs), Memory: f.Memory, HugePage: f.HugePage}}
	}
	if f.Class == workload.Dedicated {
		c.Own = firstVCPUs(f.VCPUs)
	}
	return c
}

func firstVCPUs(n int) VCPUs {
	var all VCPUs
	for v := n - 1; v >= 0; v-- {
		all.Add(v)
	}
	return all
}

// checkCells says what is wrong with the cells of a flavor, or with the vCPUs that are to
// have a CPU of their own.
func (f *Flavor) checkCells() error {
	all := firstVCPUs(f.VCPUs)
	switch {
	case f.Class == Mixed && (f.Own.Empty() || !f.Own.SubsetOf(all) || f.Own.Equal(all)):
		return fmt.Errorf("dedicated_vcpus: %q; want some of vCPUs %v, and not all: the others float", f.Own, all)
	case f.Class != Mixed && !f.Own.Empty():
		return fmt.Errorf("dedicated_vcpus: %q; only class mixed has some", f.Own)
	case f.Class == Mixed && f.MaxNodes > 0, len(f.Cells) > 0 && f.MaxNodes > 0:
		return errors.New("max_nodes: each cell is on one node; want none here")
	case len(f.Cells) == 0:
		return nil
	case f.Tier == workload.BatchTier:
		return errors.New("cells: a batch guest has none")
	case f.Class == workload.Shared && len(f.Cells) == 1:
		return errors.New("cells: one alone is what a shared guest has anyway; want two or more")
	case f.HugePage > 0:
		return errors.New("huge_pages: each cell names its own; want none here")
	}
	var have VCPUs
	var memory topology.KiB
	for i := range f.Cells {
		c := &f.Cells[i]
		switch {
		case c.VCPUs.Empty() || !c.VCPUs.SubsetOf(all):
			return fmt.Errorf("cells[%d].vcpus: %q; want some of vCPUs %v", i, c.VCPUs, all)
		case c.VCPUs.Intersects(have):
			return fmt.Errorf("cells[%d].vcpus: %q; vCPUs %v are in a cell above", i, c.VCPUs, c.VCPUs.Intersect(have))
		case c.Memory < 1 || c.Memory%1024 != 0:
			return fmt.Errorf("cells[%d].memory: %d KiB; want whole MiB", i, c.Memory)
		case c.HugePage > 0 && c.Memory%c.HugePage != 0:
			return fmt.Errorf("cells[%d].huge_pages: %d KiB of memory are no whole number of pages of %d KiB", i,
				c.Memory, c.HugePage)
		}
		have = have.Union(c.VCPUs)
		memory += c.Memory
	}
	if !have.Equal(all) {
		return fmt.Errorf("cells: vCPUs %v are in none", all.Minus(have))
	}
	if memory != f.Memory {
		return fmt.Errorf("cells: %d KiB of memory together; the flavor has %d", memory, f.Memory)
	}
	return nil
}

// composition is one search for the nodes of cells.
type composition struct {
	r        *Room
	spec     *workload.Spec // of the whole guest
	c        *Composed
	emulator Emulator
	fits     [][]bool            // by cell and node of the host
	free     []int               // CPUs that no dedicated work holds, by node of the host
	nodes    []int               // of the cells so far
	used     []bool              // by node of the host
	required []place.Requirement // of which the cells have a node each
	best     []int
	cost     float64
	tries    int
}

// mostCellTries bounds the search: 20,000 sets of nodes take some milliseconds.
const mostCellTries = 20_000

// compose finds a home for a guest cell by cell, each on a node of its own: the nodes that
// lie nearest together, weighed by the vCPUs of both, and of those the ones with least
// room left. The room stays as it is.
func (r *Room) compose(spec workload.Spec, c *Composed, emulator Emulator) (Home, plan.Decision) {
	spec.CPUs = 0
	for i := range c.Cells {
		spec.CPUs += c.Cells[i].VCPUs.Len()
	}
	x := composition{r: r, spec: &spec, c: c, emulator: emulator, used: make([]bool, len(r.state.Host.Nodes))}
	if emulator == Housekeeping && r.state.Policy.Reserved.Intersect(r.state.Host.Online).Empty() {
		return Home{}, refused(&spec, words.Because(words.NothingReserved))
	}
	var why words.Reason
	if x.required, why = r.ledger.Requirements(spec.Near); !why.None() {
		return Home{}, refused(&spec, why)
	}
	x.countFree()
	for k := range c.Cells {
		fits, any, why := x.nodesOf(k)
		if !any {
			cell := &c.Cells[k]
			return Home{}, refused(&spec, words.Because(words.CellNowhere, k, cell.VCPUs.String(), cell.Memory, why))
		}
		x.fits = append(x.fits, fits)
	}
	x.assign(0, 0)
	if x.best == nil {
		d := refused(&spec, words.Because(words.CellsNowhere, len(c.Cells)))
		for _, r := range x.required {
			d.Reasons = append(d.Reasons, words.Because(words.RequiredOn, r.At, r.Name))
		}
		return Home{}, d
	}
	return x.realize()
}

func (x *composition) countFree() {
	h, policy := x.r.state.Host, &x.r.state.Policy
	var held topology.CPUSet
	for _, p := range x.r.ledger.Placements() {
		if p.Class == workload.Dedicated {
			held = held.Union(p.CPUs).Union(p.Idle)
		}
	}
	for _, n := range h.Nodes {
		x.free = append(x.free, n.CPUs.Intersect(h.Online).Minus(policy.Reserved).Minus(held).Len())
	}
}

// parts is what the engine is asked for of one cell on one node: the vCPUs with CPUs of
// their own, those that float, and on cell 0 an isolated emulator. The memory goes with
// the first.
func (x *composition) parts(k int, node topology.NodeID) []workload.Spec {
	cell := &x.c.Cells[k]
	part := func(name string, class workload.Class, cpus int) workload.Spec {
		return workload.Spec{ID: workload.ID(fmt.Sprintf("%s/cell%d-%s", x.spec.ID, k, name)), Name: x.spec.Name,
			Class:      class,
			Importance: x.spec.Importance, CPUs: cpus, SMT: x.spec.SMT, Nodes: topology.Nodes(node), MaxNodes: 1,
			Given: true}
	}
	var out []workload.Spec
	own := cell.VCPUs.Intersect(x.c.Own).Len()
	if own > 0 {
		out = append(out, part("own", workload.Dedicated, own))
	}
	if floating := cell.VCPUs.Len() - own; floating > 0 {
		out = append(out, part("floating", workload.Shared, floating))
	}
	out[0].Memory = cell.Memory
	out[0].HugePage = cell.HugePage
	out[0].Near = preferred(x.spec.Near)
	if k == 0 && x.emulator == Isolate {
		e := part("emulator", workload.Dedicated, 1)
		e.ID = EmulatorID(x.spec.Name)
		e.Name = x.spec.Name + " (emulator)"
		e.SMT = workload.SMTPrefer
		out = append(out, e)
	}
	return out
}

// preferred is wishes of a whole guest for one of its cells: the others may have what it requires.
func preferred(near []workload.Near) []workload.Near {
	out := slices.Clone(near)
	for i := range out {
		out[i].Prefer()
	}
	return out
}

// seat books parts one after the other; undo takes them off again. ok is false when one
// has no room, and why is what the engine says of it.
func (x *composition) seat(parts []workload.Spec) (placed []plan.Placement, ok bool, why words.Reason, undo func()) {
	undo = func() {
		for i := range placed {
			x.r.ledger.Remove(placed[i].Workload)
		}
	}
	for i := range parts {
		res := x.r.ledger.Place(place.Request{Spec: parts[i], Must: true})
		if !res.Placed() {
			undo()
			return nil, false, res.Decision.Reasons[0], func() {}
		}
		x.r.ledger.Commit(res.Placement)
		placed = append(placed, res.Placement)
	}
	return placed, true, words.Reason{}, undo
}

// nodesOf is the nodes of the host that cell k fits on by itself, or why it fits on none: what
// the engine says of the node with most free CPUs.
func (x *composition) nodesOf(k int) (fits []bool, any bool, why words.Reason) {
	most := -1
	for i, n := range x.r.state.Host.Nodes {
		if !x.spec.Nodes.Empty() && !x.spec.Nodes.Has(n.ID) {
			fits = append(fits, false)
			continue
		}
		_, ok, no, undo := x.seat(x.parts(k, n.ID))
		undo()
		if any = any || ok; !ok && x.free[i] > most {
			most, why = x.free[i], no
		}
		fits = append(fits, ok)
	}
	if most < 0 {
		why = words.Because(words.NodesAbsent, x.spec.Nodes)
	}
	return fits, any, why
}

// assign goes through the nodes for cell k and those after it, the cheapest of all so far
// in best.
func (x *composition) assign(k int, cost float64) {
	x.tries++
	if x.best != nil && (cost >= x.cost || x.tries > mostCellTries) {
		return
	}
	if k == len(x.c.Cells) {
		for _, r := range x.required {
			if !slices.ContainsFunc(x.nodes, func(i int) bool { return r.At.Has(x.r.state.Host.Nodes[i].ID) }) {
				return
			}
		}
		x.best, x.cost = slices.Clone(x.nodes), cost
		return
	}
	for i := range x.fits[k] {
		if !x.fits[k][i] || x.used[i] {
			continue
		}
		more := tightness * float64(x.free[i])
		for m, at := range x.nodes {
			more += float64(x.c.Cells[k].VCPUs.Len()*x.c.Cells[m].VCPUs.Len()) * (x.distance(i, at) + x.distance(at, i))
		}
		for _, n := range x.spec.Near {
			if d := x.device(n.Device); d >= 0 {
				more += float64(x.c.Cells[k].VCPUs.Len()) * x.distance(i, d)
			}
		}
		x.used[i], x.nodes = true, append(x.nodes, i)
		x.assign(k+1, cost+more)
		x.used[i], x.nodes = false, x.nodes[:len(x.nodes)-1]
	}
}

// tightness is what a free CPU of a node counts beside distances: it decides between
// nodes that are equally near.
const tightness = 1e-4

// distance is the SLIT distance between two nodes; where the firmware tells none, 20 from
// one to another, as the kernel has it (REMOTE_DISTANCE, include/linux/topology.h).
func (x *composition) distance(i, k int) float64 {
	if d := x.r.state.Host.Distances; i < len(d) && k < len(d[i]) && d[i][k] > 0 {
		return float64(d[i][k])
	}
	if i == k {
		return 10
	}
	return 20
}

// device is the index of the node of a device; -1 for none.
func (x *composition) device(name string) int {
	h := x.r.state.Host
	d := h.Device(name)
	if d == nil {
		return -1
	}
	return h.Index(d.Node)
}

// realize makes a home of the nodes found.
func (x *composition) realize() (Home, plan.Decision) {
	h := x.r.state.Host
	before := x.r.ledger.Placements()
	home := Home{VCPUs: make([]topology.CPUSet, x.spec.CPUs)}
	d := plan.Decision{Workload: x.spec.ID, Outcome: plan.Placed}
	var idle topology.CPUSet
	for k, at := range x.best {
		cell, node := &x.c.Cells[k], h.Nodes[at].ID
		parts, ok, why, undo := x.seat(x.parts(k, node))
		defer undo()
		if !ok { // it fitted alone: batch work, say, would be left without a CPU
			return Home{}, refused(x.spec, words.Because(words.CellNowhere, k, cell.VCPUs.String(), cell.Memory, why))
		}
		d.Reasons = append(d.Reasons, words.Because(words.CellHome, k, cell.VCPUs.String(), cell.Memory, node))
		d.Home.Add(node)
		home.Cells = append(home.Cells, node)
		for i, v := range cell.VCPUs.Intersect(x.c.Own).Slice() {
			home.VCPUs[v] = topology.CPUs(parts[0].Pins[i])
		}
		if x.c.Floats() {
			for v := range cell.VCPUs.All() {
				home.VCPUs[v] = parts[0].CPUs
			}
		}
		idle = idle.Union(parts[0].Idle)
		if e := parts[len(parts)-1]; e.Workload == EmulatorID(x.spec.Name) {
			home.Spare = &e
		}
		undo()
	}
	home.Composed = x.c
	home.Placement, home.Apart = x.c.Books(h, x.spec.Name, x.spec.Importance, home.VCPUs, home.Cells, idle)
	x.float(&home, before)
	var own topology.CPUSet
	for v := range x.c.Own.All() {
		own = own.Union(home.VCPUs[v])
	}
	if !own.Empty() {
		d.Reasons = append(d.Reasons, words.Because(words.CellPinned, x.c.Own.String(), own))
	}
	if floating := firstVCPUs(x.spec.CPUs).Minus(x.c.Own); !floating.Empty() {
		d.Reasons = append(d.Reasons, words.Because(words.CellFloats, floating.String(), home.Placement.CPUs))
	}
	return home, d
}

// Books is what the ledger keeps of a guest whose vCPUs have these CPUs, its cells on these
// nodes: its home, which is where what floats of it is, and beside that the CPUs that single
// vCPUs have to themselves and memory in other pages or where nothing floats. idle is the
// siblings of those CPUs that stay so. A guest without floating vCPUs is its home; one of which
// all float has nothing there, and its cells beside it.
func (c *Composed) Books(h *topology.Host, name string, importance int, vcpus []topology.CPUSet,
	nodes []topology.NodeID, idle topology.CPUSet) (home plan.Placement, apart []plan.Placement) {
	id := ID(name)
	if c.Floats() {
		home = plan.Placement{Workload: id, Class: workload.Shared, Importance: importance}
		for k, node := range nodes {
			cell := &c.Cells[k]
			p := plan.Placement{Workload: CellID(name, k), Class: workload.Shared, Importance: importance,
				VCPUs: cell.VCPUs.Len(), CPUs: vcpus[cell.VCPUs.Min()],
				Home: topology.Nodes(node), Asked: cell.Memory, HugePage: cell.HugePage,
				Memory: []workload.NodeMemory{{Node: node, KiB: cell.Memory}}}
			home.Home, home.CPUs = home.Home.Union(p.Home), home.CPUs.Union(p.CPUs)
			apart = append(apart, p)
		}
		return home, apart
	}
	home = plan.Placement{Workload: id, Class: workload.Shared, Importance: importance, VCPUs: len(vcpus) - c.Own.Len(),
		Bound: true}
	var own []topology.CPUID
	for v := range vcpus {
		if c.Own.Has(v) {
			own = append(own, vcpus[v].Min())
		} else {
			home.CPUs = home.CPUs.Union(vcpus[v])
		}
	}
	if home.VCPUs == 0 {
		home.Class = workload.Dedicated
		home.VCPUs = len(own)
		home.Pins = own
		home.CPUs = topology.CPUs(own...)
		home.Idle = idle
	} else if len(own) > 0 {
		apart = append(apart, *OwnCPUs(h, PinnedID(name), importance, topology.CPUs(own...), idle))
	}
	floats := func(k int) bool {
		return home.Class == workload.Dedicated || !c.Cells[k].VCPUs.SubsetOf(c.Own)
	}
	sums := map[topology.KiB]topology.KiB{}
	for k := range nodes {
		if floats(k) {
			sums[c.Cells[k].HugePage] += c.Cells[k].Memory
			home.Home.Add(nodes[k])
		}
	}
	main := MainPage(sums)
	for k, node := range nodes {
		cell := &c.Cells[k]
		to := &home
		if !floats(k) || cell.HugePage != main {
			pages := PagesID(name, cell.HugePage)
			i := slices.IndexFunc(apart, func(p plan.Placement) bool { return p.Workload == pages })
			if i < 0 {
				i = len(apart)
				apart = append(apart, plan.Placement{Workload: pages, Class: workload.Dedicated, Importance: importance,
					Bound: true})
			}
			to = &apart[i]
		}
		to.Asked, to.HugePage = to.Asked+cell.Memory, cell.HugePage
		to.Home.Add(node)
		to.Memory = append(to.Memory, workload.NodeMemory{Node: node, KiB: cell.Memory})
	}
	for _, p := range append(apart, home) {
		slices.SortFunc(p.Memory, func(a, b workload.NodeMemory) int { return int(a.Node - b.Node) })
	}
	return home, apart
}

// float finds the CPUs of the floating vCPUs and of the emulator, and whose CPUs change by
// all of the guest.
func (x *composition) float(home *Home, before []plan.Placement) {
	l := x.r.ledger
	mine := append([]plan.Placement{home.Placement}, home.Beside()...)
	for _, p := range mine {
		l.Commit(p)
		defer l.Remove(p.Workload)
	}
	for _, p := range l.Placements() {
		k := slices.IndexFunc(before, func(b plan.Placement) bool { return b.Workload == p.Workload })
		if k >= 0 && (!p.CPUs.Equal(before[k].CPUs) || !p.Home.Equal(before[k].Home)) {
			home.Others = append(home.Others, p)
		}
		if p.Workload == x.spec.ID {
			home.Placement.CPUs = p.CPUs
		}
	}
	for k, node := range home.Cells {
		here := home.Placement.CPUs.Intersect(CPUsOf(x.r.state.Host, node))
		for v := range x.c.Cells[k].VCPUs.Minus(x.c.Own).All() {
			home.VCPUs[v] = here
		}
		if x.c.Floats() {
			home.Apart[k].CPUs = here
		}
	}
	home.Emulator = x.r.emulator(x.emulator, &home.Placement)
	if home.Spare != nil {
		home.Emulator = home.Spare.CPUs
	}
}
