package domain

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/homenode/homenode/core/guest"
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
	if !marked || mark.Class != workload.Dedicated {
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
		if err != nil || own.Len() != 1 {
			return fmt.Sprintf("%s (vCPU %d has no CPU of its own)", n, vcpu), err
		}
		n.Pins = append(n.Pins, own.Min())
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
	if most, _, err := d.vcpus(); err != nil || len(next.Pins) > 0 && len(next.Pins) != most {
		return cmp.Or(err, fmt.Errorf("%d CPUs for %d vCPUs", len(next.Pins), most))
	}
	cells := next.Cells
	if len(next.Pins) > 0 && cells == nil && d.at("cpu", "numa") != nil {
		if h == nil {
			return errors.New("the nodes of this host are not known yet")
		}
		cells = d.cellNodes(h, &p)
	}
	d.place(&p, next.Emulator, cells, mark)
	return nil
}

// About is what the mark says the guest is to homenode, wherever it runs; "" for a guest
// without a mark.
func (d *Document) About() string {
	m, ok := d.Mark()
	if !ok {
		return ""
	}
	words := []string{"class=" + string(m.Class), fmt.Sprintf("importance=%d", m.Importance), "smt=" + string(m.SMT), "emulator=" + string(m.Emulator)}
	if m.Tier != "" {
		words = append(words, "tier="+string(m.Tier))
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
	text, tier, _ := strings.Cut(text, " tier=")
	if _, err := fmt.Sscanf(text, "class=%s importance=%d smt=%s emulator=%s", &class, &m.Importance, &m.SMT, &m.Emulator); err != nil {
		return m, fmt.Errorf("mark %q: %w", text, err)
	}
	var err error
	if m.Class, err = workload.ParseClass(class); err == nil {
		m.Tier, err = workload.ParseTier(tier)
	}
	return m, err
}
