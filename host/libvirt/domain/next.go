package domain

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/homenode/homenode/core/guest"
	"github.com/homenode/homenode/core/plan"
	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/core/workload"
)

// Next is where the document has its guest, as guest.Next writes it: "" when it is bound
// nowhere. Where somebody else bound it, it is a text that homenode never writes.
func (d *Document) Next() (string, error) {
	mark, marked := d.Mark()
	cpus, nodes, err := d.Bound()
	if err != nil {
		return "", err
	}
	n := guest.Next{CPUs: cpus, Nodes: nodes}
	if !marked || (mark.Class != workload.Dedicated && !mark.Composed) {
		switch {
		case marked:
			return n.String(), nil
		case d.Manual() != "":
			return fmt.Sprintf("%s (%s)", n, d.Manual()), nil
		}
		return "", nil
	}
	most, _, err := d.vcpus()
	if err != nil {
		return "", err
	}
	pins := d.Pins()
	for vcpu := range most {
		own, err := pins(Thread{Kind: VCPU, ID: uint32(vcpu)})
		if err != nil || (own.Len() != 1 && (!mark.Composed || own.Empty() || mark.own().Has(vcpu))) {
			return fmt.Sprintf("%s (vCPU %d has no CPU of its own)", n, vcpu), err
		}
		n.VCPUs = append(n.VCPUs, own)
	}
	if n.Emulator, err = attrSet[topology.CPUID](d.at("cputune", "emulatorpin"), "cpuset"); err != nil {
		return "", err
	}
	cells, err := d.guestCells()
	if err != nil {
		return "", err
	}
	if slices.ContainsFunc(cells, func(c guestCell) bool { return !c.on.Empty() }) {
		for i := range cells {
			if cells[i].on.Len() != 1 {
				return fmt.Sprintf("%s (cell %d is on nodes %q)", n, i, cells[i].on), nil
			}
			n.Cells = append(n.Cells, cells[i].on.Min())
		}
	}
	return n.String(), nil
}

// PlaceNext writes where the guest is to be at its next start. The nodes of cells that the
// guest sees are told by next or, by its CPUs, by h.
func (d *Document) PlaceNext(h *topology.Host, next guest.Next, mark Mark) error {
	p := next.Placement()
	p.Importance = mark.Importance
	if most, _, err := d.vcpus(); err != nil || (len(next.VCPUs) > 0 && len(next.VCPUs) != most) {
		return cmp.Or(err, fmt.Errorf("%d CPUs for %d vCPUs", len(next.VCPUs), most))
	}
	at := bindings{vcpus: next.VCPUs, emulator: next.Emulator, cells: next.Cells, cpus: next.CPUs, nodes: next.Nodes,
		strict: len(next.VCPUs) > 0}
	switch {
	case mark.floats() && d.at("cpu", "numa") == nil:
		if err := d.addCells(h, next, &mark); err != nil {
			return err
		}
		p.Class = mark.Class
	case mark.Composed && len(next.VCPUs) == 0: // its floating part has other CPUs
		var err error
		if at, err = d.within(h, next.CPUs); err != nil {
			return err
		}
		p.Class = mark.Class
	case mark.Composed:
		p.Class = mark.Class
	case len(next.Pins) > 0 && at.cells == nil && d.at("cpu", "numa") != nil:
		if h == nil {
			return errHostUnknown
		}
		at.cells = d.cellNodes(h, &p)
	}
	d.place(&p, at, mark)
	return nil
}

var errHostUnknown = errors.New("the nodes of this host are not known yet")

// within is the bindings of a guest that is placed cell by cell once its floating vCPUs have
// other CPUs: those of each cell the ones of its node. What has a CPU of its own keeps it.
func (d *Document) within(h *topology.Host, cpus topology.CPUSet) (bindings, error) {
	mark, _ := d.Mark()
	var at bindings
	if h == nil {
		return at, errHostUnknown
	}
	cells, err := d.guestCells()
	if err != nil {
		return at, err
	}
	most, _, err := d.vcpus()
	if err != nil {
		return at, err
	}
	at = bindings{vcpus: make([]topology.CPUSet, most), strict: true}
	if at.nodes, err = d.boundNodes(); err != nil {
		return at, err
	}
	pins := d.Pins()
	for v := range at.vcpus {
		own, err := pins(Thread{Kind: VCPU, ID: uint32(v)})
		if err != nil {
			return at, err
		}
		at.vcpus[v] = own
	}
	for i := range cells {
		if cells[i].on.Len() != 1 {
			return at, fmt.Errorf("cell %d is on nodes %q", i, cells[i].on)
		}
		node := cells[i].on.Min()
		at.cells = append(at.cells, node)
		here := cpus.Intersect(guest.CPUsOf(h, node))
		for v := range cells[i].vcpus.Minus(mark.own()).All() {
			if here.Empty() || v >= most {
				return at, fmt.Errorf("vCPU %d of cell %d: none of CPUs %v is on node %d", v, i, cpus, node)
			}
			at.vcpus[v] = here
		}
	}
	if at.emulator, err = attrSet[topology.CPUID](d.at("cputune", "emulatorpin"), "cpuset"); err == nil &&
		mark.Emulator == guest.Share {
		at.emulator = cpus
	}
	return at, err
}

// PlaceCell writes where one cell of a guest whose cells are placed one by one is to be at its
// next start.
func (d *Document) PlaceCell(k int, next guest.Next) error {
	mark, _ := d.Mark()
	at, err := d.cell(k, next.CPUs)
	if err != nil {
		return err
	}
	if k >= len(at.cells) || next.Nodes.Len() != 1 {
		return fmt.Errorf("cell %d on nodes %q: want one of %d cells, on one node", k, next.Nodes, len(at.cells))
	}
	at.cells[k] = next.Nodes.Min()
	at.nodes = topology.Nodes(at.cells...)
	p := plan.Placement{Class: mark.Class, Importance: mark.Importance}
	d.place(&p, at, mark)
	return nil
}

// cell is the bindings of such a guest once a cell has other CPUs. Its emulator follows.
func (d *Document) cell(k int, cpus topology.CPUSet) (bindings, error) {
	mark, _ := d.Mark()
	var at bindings
	if !mark.floats() || cpus.Empty() {
		return at, fmt.Errorf("cell %d is not placed by itself", k)
	}
	cells, err := d.guestCells()
	if err != nil {
		return at, err
	}
	if k < 0 || k >= len(cells) {
		return at, fmt.Errorf("cell %d: it has %d", k, len(cells))
	}
	most, _, err := d.vcpus()
	if err != nil {
		return at, err
	}
	at.vcpus = make([]topology.CPUSet, most)
	pins := d.Pins()
	for v := range at.vcpus {
		if at.vcpus[v], err = pins(Thread{Kind: VCPU, ID: uint32(v)}); err != nil {
			return at, err
		}
	}
	for i := range cells {
		at.cells = append(at.cells, cells[i].on.Min())
		for v := range cells[i].vcpus.All() {
			if i == k && v < most {
				at.vcpus[v] = cpus
			}
		}
	}
	at.emulator = at.all()
	return at, nil
}

// Cell is the CPUs of each thread of such a guest once a cell has other CPUs.
func (d *Document) Cell(k int, cpus topology.CPUSet) (func(Thread) topology.CPUSet, error) {
	at, err := d.cell(k, cpus)
	return at.of, err
}

// CellCPUs is where the vCPUs of a cell may run.
func (d *Document) CellCPUs(k int) (cpus topology.CPUSet, err error) {
	cells, err := d.guestCells()
	if err != nil {
		return cpus, err
	}
	if k < 0 || k >= len(cells) {
		return cpus, fmt.Errorf("cell %d: it has %d", k, len(cells))
	}
	pins := d.Pins()
	for v := range cells[k].vcpus.All() {
		own, err := pins(Thread{Kind: VCPU, ID: uint32(v)})
		if err != nil {
			return cpus, err
		}
		cpus = cpus.Union(own)
	}
	return cpus, nil
}

// Within is the CPUs of each thread of a guest that is placed cell by cell once its floating
// part has other CPUs. ok is false for any other guest.
func (d *Document) Within(h *topology.Host,
	cpus topology.CPUSet) (of func(Thread) topology.CPUSet, ok bool, err error) {
	if mark, marked := d.Mark(); !marked || !mark.Composed || mark.Class == workload.Dedicated {
		return nil, false, nil
	}
	at, err := d.within(h, cpus)
	return at.of, true, err
}

// of is the CPUs of a thread.
func (b *bindings) of(t Thread) topology.CPUSet {
	if t.Kind == VCPU && int(t.ID) < len(b.vcpus) {
		return b.vcpus[t.ID]
	}
	return b.emulator
}

// About is what the mark says the guest is to homenode, wherever it runs; "" for a guest
// without a mark.
func (d *Document) About() string {
	m, ok := d.Mark()
	if !ok {
		return ""
	}
	words := []string{"class=" + string(m.Class), fmt.Sprintf("importance=%d", m.Importance), "smt=" + string(m.SMT),
		"emulator=" + string(m.Emulator)}
	if m.Tier != "" {
		words = append(words, "tier="+string(m.Tier))
	}
	if m.Only != "" {
		words = append(words, "only-nodes="+m.Only)
	}
	if m.Exact > 0 {
		words = append(words, "exact-nodes="+strconv.Itoa(m.Exact))
	}
	for near := range strings.FieldsSeq(m.Near) {
		words = append(words, "near="+near)
	}
	if m.SLO != "" {
		words = append(words, "slo="+m.SLO)
	}
	if m.Composed {
		words = append(words, "own="+m.Own)
	}
	if m.Flavor != "" {
		words = append(words, "flavor="+m.Flavor) // last: it may have blanks
	}
	return strings.Join(words, " ")
}

// ParseAbout is a mark of which About is text.
func ParseAbout(text string) (Mark, error) {
	var m Mark
	var class string
	text, m.Flavor, _ = strings.Cut(text, " flavor=")
	if _, err := fmt.Sscanf(text, "class=%s importance=%d smt=%s emulator=%s", &class, &m.Importance, &m.SMT,
		&m.Emulator); err != nil {
		return m, fmt.Errorf("mark %q: %w", text, err)
	}
	var err error
	if m.Class, err = workload.ParseClass(class); err != nil {
		return m, err
	}
	for word := range strings.FieldsSeq(text) {
		key, value, _ := strings.Cut(word, "=")
		switch key {
		case "tier":
			if m.Tier, err = workload.ParseTier(value); err != nil {
				return m, err
			}
		case "only-nodes":
			m.Only = value
			if _, err = topology.ParseNodeSet(value); err != nil {
				return m, fmt.Errorf("mark %q: only-nodes: %w", text, err)
			}
		case "exact-nodes":
			if m.Exact, err = strconv.Atoi(value); err != nil {
				return m, fmt.Errorf("mark %q: exact-nodes: %w", text, err)
			}
		case "near":
			m.Near = strings.TrimSpace(m.Near + " " + value)
			if _, err = workload.ParseNear(value); err != nil {
				return m, fmt.Errorf("mark %q: near: %w", text, err)
			}
		case "slo":
			m.SLO = value
			if _, err = workload.ParseGoal(value); err != nil {
				return m, fmt.Errorf("mark %q: slo: %w", text, err)
			}
		case "own":
			m.Composed, m.Own = true, value
			if _, err = topology.ParseSet[int](value); err != nil {
				return m, fmt.Errorf("mark %q: own: %w", text, err)
			}
		}
	}
	return m, nil
}
