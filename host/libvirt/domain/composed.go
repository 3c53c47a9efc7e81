package domain

import (
	"fmt"

	"github.com/homenode/homenode/core/guest"
	"github.com/homenode/homenode/core/plan"
	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/core/workload"
)

// compose fills in what a guest is that homenode placed cell by cell, and where. Its binding
// is that of its floating part, if it has one: what has a CPU of its own stays where it is.
func (d *Document) compose(h *topology.Host, s *guest.Guest, mark Mark) error {
	cells, err := d.guestCells()
	if err != nil {
		return err
	}
	pages, err := d.hugePages(h)
	if err != nil {
		return err
	}
	pins, err := d.vcpuPins()
	if err != nil {
		return err
	}
	c := &guest.Composed{Own: mark.own()}
	var all guest.VCPUs
	floats := mark.floats()
	for i, x := range cells {
		if x.on.Len() != 1 || x.vcpus.Empty() || x.vcpus.Intersects(all) {
			return fmt.Errorf("cell %d: vCPUs %v on nodes %q; want vCPUs of its own, on one node", i, x.vcpus, x.on)
		}
		all = all.Union(x.vcpus)
		c.Cells = append(c.Cells, guest.Cell{VCPUs: x.vcpus, Memory: x.memory, HugePage: pages.of(i)})
		node := x.on.Min()
		if floats { // it may have moved since its memory was asked for there
			if node = h.NodeOf(pins[x.vcpus.Min()].Min()); node == topology.None {
				return fmt.Errorf("cell %d: its vCPUs are on CPUs %q, on no node", i, pins[x.vcpus.Min()])
			}
		}
		s.Home.Cells, s.Asked = append(s.Home.Cells, node), append(s.Asked, x.on.Min())
	}
	for i := range c.Cells {
		for v := range c.Cells[i].VCPUs.All() {
			if (floats && !pins[v].Equal(pins[c.Cells[i].VCPUs.Min()])) ||
				(floats && !pins[v].SubsetOf(guest.CPUsOf(h, s.Home.Cells[i]))) {
				return fmt.Errorf("vCPU %d of cell %d is pinned to CPUs %q; want those of the whole cell, on one node",
					v, i, pins[v])
			}
		}
	}
	var own topology.CPUSet
	for v := range all.Len() {
		if pins[v].Empty() || (c.Own.Has(v) && pins[v].Len() != 1) {
			return fmt.Errorf("vCPU %d is pinned to CPUs %q", v, pins[v])
		}
		s.Home.VCPUs = append(s.Home.VCPUs, pins[v])
		if c.Own.Has(v) {
			own = own.Union(pins[v])
		}
	}
	s.Composed, s.Apart = c, nil
	s.Home.Placement, s.Home.Apart = c.Books(h, s.Name, s.Spec.Importance, s.Home.VCPUs, s.Home.Cells,
		plan.Idle(h, s.Spec.SMT, own))
	home := &s.Home.Placement
	s.Spec.Memory = home.Asked
	s.Spec.HugePage = home.HugePage
	s.Spec.CPUs = home.VCPUs
	if floats {
		s.BoundCPUs = home.CPUs
		s.Spec.CPUs = len(s.Home.VCPUs)
		s.Spec.Even = false
		s.Spec.MaxNodes = 0
		return nil
	}
	if home.Class != workload.Dedicated { // what floats stays on the nodes of its cells, all of them
		s.Spec.Nodes = home.Home
		s.Spec.MinNodes = home.Home.Len()
		s.Spec.MaxNodes = home.Home.Len()
		s.Spec.Even = false
		s.BoundCPUs = home.CPUs
	}
	return nil
}
