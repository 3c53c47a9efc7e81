package daemon

import (
	"fmt"
	"slices"
	"strings"

	"github.com/homenode/homenode/api"
	"github.com/homenode/homenode/core/irq"
	"github.com/homenode/homenode/core/plan"
	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/core/workload"
)

// deviceNamed finds a device of the newest look by "device:NAME", name or PCI
// address, also by the name of another network device of the same function; nil when
// there is none. d.mu is held.
func (d *Daemon) deviceNamed(id workload.ID) *irq.Device {
	name := strings.TrimPrefix(string(id), "device:")
	for i := range d.devices.all {
		x := &d.devices.all[i]
		if x.Name == name || x.PCI == name {
			return x
		}
	}
	if h := d.view.snapshot.Host; h != nil {
		for _, dev := range h.Devices {
			k := slices.IndexFunc(d.devices.all, func(x irq.Device) bool { return x.PCI == dev.PCI })
			if dev.Name == name && k >= 0 {
				return &d.devices.all[k]
			}
		}
	}
	return nil
}

// deviceDetail is where the interrupts of a device go, and why. d.mu is held.
func (d *Daemon) deviceDetail(x *irq.Device) *api.DeviceDetail {
	out := &api.DeviceDetail{ID: x.ID(), PCI: x.PCI, Settings: []api.DeviceSetting{}, Users: d.usersOf(x)}
	for _, s := range d.deviceStatus() {
		if s.Name == x.Name {
			out.Device = s
		}
	}
	h := d.view.snapshot.Host
	allowed := irq.Allowed(h, d.devices.avoid, x.Node)
	out.Allowed = allowed.String()
	out.Avoided = irq.Allowed(h, topology.CPUSet{}, x.Node).Intersect(d.devices.avoid).String()
	steps := map[string]plan.Step{}
	for _, s := range d.devices.plan.Steps {
		if s.Workload == x.ID() {
			steps[s.Target.Device] = s
		}
	}
	add := func(path, name, now, why string) {
		s := api.DeviceSetting{Path: path, Name: name, Now: now, Why: why}
		if step, ok := steps[path]; ok {
			s.To, s.Why = step.To, step.Reason
			if r := d.tries[tryKey(step)]; r != nil && r.text != "" {
				s.Why += " " + r.text + "."
			}
		}
		out.Settings = append(out.Settings, s)
	}
	for _, c := range x.Channels {
		why := fmt.Sprintf("The hardware has up to %d; the number is left as it is (irq_queues).", c.Most)
		if d.o.Config.IRQQueues == irq.MatchQueues {
			why = fmt.Sprintf("One for each of the %d CPUs, as far as the hardware has them (%d).", allowed.Len(), c.Most)
		}
		add(x.PCI+"/"+c.Name, c.Name+" queues", fmt.Sprint(c.Now), why)
	}
	for _, i := range x.Interrupts {
		add(fmt.Sprintf("%s/%d", x.PCI, i.Number), i.Name, i.CPUs.String(), whyThere(&i, allowed, out.Why))
	}
	for _, q := range x.Rx {
		add(x.PCI+"/"+q.Name, q.Name, q.CPUs.String(), "RPS; no CPU is that of the interrupt.")
	}
	for _, q := range x.Tx {
		add(x.PCI+"/"+q.Name, q.Name, q.CPUs.String(), "XPS; no CPU is the driver's own choice.")
	}
	return out
}

// whyThere is why an interrupt stays where it is.
func whyThere(x *irq.Interrupt, allowed topology.CPUSet, left string) string {
	switch {
	case x.Fixed:
		return "The kernel manages it and refuses changes."
	case !x.CPUs.Empty() && x.CPUs.SubsetOf(allowed):
		return "It is on its device's node."
	case left != "":
		return left
	}
	return "It is left as it is."
}

// usersOf is the workloads that are near to a device, told or learned. d.mu is held.
func (d *Daemon) usersOf(x *irq.Device) []api.DeviceUser {
	out := []api.DeviceUser{}
	h := d.view.snapshot.Host
	same := func(name string) bool {
		return slices.ContainsFunc(h.Devices, func(dev topology.Device) bool {
			return dev.PCI == x.PCI && (dev.Name == name || dev.PCI == name)
		})
	}
	for i := range d.view.snapshot.Observations {
		o := &d.view.snapshot.Observations[i]
		home := ""
		if p := placementOf(d.view.plan.Placements, o.ID); p != nil {
			home = p.Home.String()
		}
		for _, n := range d.specOf(o).Near {
			if !n.Learned && same(n.Device) {
				out = append(out, api.DeviceUser{Workload: o.ID, Home: home, How: "told to be near it"})
			}
		}
		for _, l := range d.near.of(o.ID) {
			if same(l.Device) {
				out = append(out, api.DeviceUser{Workload: o.ID, Home: home, How: "learned: " + l.Evidence})
			}
		}
	}
	return out
}
