package daemon

import (
	"fmt"
	"slices"
	"strings"

	"github.com/homenode/homenode/api"
	"github.com/homenode/homenode/core/control"
	"github.com/homenode/homenode/core/irq"
	"github.com/homenode/homenode/core/place"
	"github.com/homenode/homenode/core/plan"
	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/core/words"
	"github.com/homenode/homenode/core/workload"
)

// devices is the wire form of the newest look at interrupts.
func (v *View) devices() []api.Device {
	out := []api.Device{}
	for _, r := range v.Devices.Plan.Reports {
		x := api.Device{Name: r.Device, Kind: string(r.Kind), Node: r.Node, Interrupts: r.Interrupts, AtHome: r.AtHome,
			Fixed:  r.Fixed,
			Queues: r.Queues, MostQueues: r.MostQueues, Steps: r.Steps, Why: fmt.Sprint(r.Why)}
		id := (&irq.Device{Name: r.Device}).ID()
		switch {
		case r.Steps == 0 && r.AtHome == r.Interrupts:
			x.State = api.StateAtHome
		case r.Steps == 0:
			x.State = api.StateAsPlanned
		case v.Settings.Interrupts != control.InterruptsPlace && r.AtHome == r.Interrupts:
			x.State = api.StateWouldSpread // on the right node, and several on one CPU or one anywhere
		case v.Settings.Interrupts != control.InterruptsPlace:
			x.State = api.StateWouldMove
		case v.Devices.Left != "":
			x.State, x.LeftTo = api.StateLeftToManager, v.Devices.Left
		case v.Holds.Has(id):
			x.State = api.StateHeld
		case len(v.Retries[id]) > 0:
			x.State = api.StateFailed
		default:
			x.State = api.StateMoving
		}
		out = append(out, x)
	}
	return out
}

// device finds a device of the newest look by "device:NAME", name or PCI address, also by
// the name of another network device of the same function; nil when there is none.
func (v *View) device(id workload.ID) *irq.Device {
	name := strings.TrimPrefix(string(id), "device:")
	if name == "" {
		return nil
	}
	for i := range v.Devices.All {
		if x := &v.Devices.All[i]; x.Name == name || x.PCI == name {
			return x
		}
	}
	if v.Snapshot.Host == nil {
		return nil
	}
	for _, dev := range v.Snapshot.Host.Devices {
		k := slices.IndexFunc(v.Devices.All, func(x irq.Device) bool { return x.PCI == dev.PCI })
		if dev.Is(name) && k >= 0 {
			return &v.Devices.All[k]
		}
	}
	return nil
}

// deviceDetail is where the interrupts of a device go, and why.
func (v *View) deviceDetail(x *irq.Device) *api.DeviceDetail {
	out := &api.DeviceDetail{ID: x.ID(), PCI: x.PCI, Settings: []api.DeviceSetting{}, Users: v.users(x)}
	for _, s := range v.devices() {
		if s.Name == x.Name {
			out.Device = s
		}
	}
	h := v.Snapshot.Host
	allowed := irq.Allowed(h, v.Devices.Avoid, x.Node)
	out.Allowed = allowed.String()
	out.Avoided = irq.Allowed(h, topology.CPUSet{}, x.Node).Intersect(v.Devices.Avoid).String()
	steps := map[string]plan.Step{}
	for _, s := range v.Devices.Plan.Steps {
		if s.Workload == x.ID() {
			steps[s.Target.Device] = s
		}
	}
	add := func(path, name, now string, why words.Reason) {
		s := api.DeviceSetting{Path: path, Name: name, Now: now, Why: why.String()}
		if step, ok := steps[path]; ok {
			s.To, s.Why = step.To, step.Reason.String()
			if r := v.RetryOf(&step); r != nil && r.Text != "" {
				s.Why += " " + r.Text + "."
			}
		}
		out.Settings = append(out.Settings, s)
	}
	for _, c := range x.Channels {
		why := words.Because(words.QueueCountKept, c.Most)
		if v.Settings.Queues == irq.MatchQueues {
			why = words.Because(words.QueueCountMatched, allowed.Len(), c.Most)
		}
		add(x.PCI+"/"+c.Name, c.Name+" queues", fmt.Sprint(c.Now), why)
	}
	for _, i := range x.Interrupts {
		add(irq.Path(x, &i), i.Name, i.CPUs.String(), whyThere(&i, allowed, out.Why))
	}
	for _, q := range x.Rx {
		add(x.PCI+"/"+q.Name, q.Name, q.CPUs.String(), words.Because(words.QueueRPS))
	}
	for _, q := range x.Tx {
		add(x.PCI+"/"+q.Name, q.Name, q.CPUs.String(), words.Because(words.QueueXPS))
	}
	return out
}

// whyThere is why an interrupt stays where it is.
func whyThere(x *irq.Interrupt, allowed topology.CPUSet, left string) words.Reason {
	switch {
	case x.Fixed:
		return words.Because(words.InterruptFixed)
	case !x.CPUs.Empty() && x.CPUs.SubsetOf(allowed):
		return words.Because(words.InterruptAtHome)
	case left != "":
		return words.Plain(left)
	}
	return words.Because(words.InterruptLeft)
}

// users is the workloads that are near to a device, told or learned.
func (v *View) users(x *irq.Device) []api.DeviceUser {
	out := []api.DeviceUser{}
	same := func(name string) bool {
		return slices.ContainsFunc(v.Snapshot.Host.Devices, func(dev topology.Device) bool {
			return dev.PCI == x.PCI && dev.Is(name)
		})
	}
	for i := range v.Subjects {
		id := v.Subjects[i].Observation.ID
		home := ""
		if p := place.Of(v.Plan.Placements, id); p != nil {
			home = p.Home.String()
		}
		for _, n := range v.Subjects[i].Spec.Near {
			if !n.Learned && same(n.Device) {
				out = append(out, api.DeviceUser{Workload: id, Home: home, How: "told to be near it"})
			}
		}
		for _, l := range v.Links[id] {
			if same(l.Device) {
				out = append(out, api.DeviceUser{Workload: id, Home: home, How: "learned: " + l.Evidence})
			}
		}
	}
	return out
}
