package libvirt

import (
	"context"
	"fmt"

	"github.com/godbus/dbus/v5"

	"github.com/homenode/homenode/core/guest"
	"github.com/homenode/homenode/core/plan"
	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/core/workload"
	"github.com/homenode/homenode/host/libvirt/domain"
)

// Put gives a guest another home: its definition, and when it is shared and runs
// its threads and memory too. now is false when a running guest comes to it at
// its next start: libvirt changes the nodes of running memory in mode
// `restrictive` alone, which is not that of dedicated guests. The mark follows,
// so that what homenode did is not taken for a hand's; a guest without one gets it.
func (c *Client) Put(ctx context.Context, h *topology.Host, name string, home guest.Home) (now bool, err error) {
	path, err := c.lookup(ctx, name)
	if err != nil {
		return false, err
	}
	if now, err = c.put(ctx, h, path, home); err != nil {
		return false, fmt.Errorf("guest %q: %w", name, err)
	}
	return now, nil
}

func (c *Client) put(ctx context.Context, h *topology.Host, path dbus.ObjectPath, home guest.Home) (now bool, err error) {
	on, err := c.active(ctx, path)
	if err != nil {
		return false, err
	}
	now = true
	if on {
		live, err := c.xml(ctx, path, 0)
		if err != nil {
			return false, err
		}
		now = home.Placement.Class == workload.Shared && live.MemoryMode() == "restrictive"
		if now {
			if err := c.float(ctx, path, live, home.Placement); err != nil {
				return false, err
			}
		}
	}
	d, err := c.xml(ctx, path, xmlSecure|xmlInactive)
	if err != nil {
		return false, err
	}
	mark, ok := d.Mark()
	if !ok {
		mark = domain.Mark{SMT: workload.SMTPrefer, Emulator: guest.Share}
	}
	d.Place(h, home, mark)
	if err := c.Define(ctx, d.Bytes()); err != nil || !on || !now {
		return now, err
	}
	return now, c.call(ctx, path, domainIface+".SetMetadata", nil, metadataOfOwn, d.MarkText(), domain.Prefix, domain.Namespace, affectLive)
}

// Release takes homenode's bindings and mark off the definition of a guest. One
// that runs keeps them until its next start.
func (c *Client) Release(ctx context.Context, name string) error {
	path, err := c.lookup(ctx, name)
	if err != nil {
		return err
	}
	d, err := c.xml(ctx, path, xmlSecure|xmlInactive)
	if err == nil {
		d.Release()
		err = c.Define(ctx, d.Bytes())
	}
	if err != nil {
		return fmt.Errorf("guest %q: %w", name, err)
	}
	return nil
}

// float moves the threads of a running guest, and lets its memory follow.
func (c *Client) float(ctx context.Context, path dbus.ObjectPath, d *domain.Document, p plan.Placement) error {
	cpus := cpuMap(p.CPUs)
	var pins [][]bool
	if err := c.call(ctx, path, domainIface+".GetVcpuPinInfo", &pins, affectLive); err != nil {
		return err
	}
	for vcpu := range pins {
		if err := c.call(ctx, path, domainIface+".PinVcpu", nil, uint32(vcpu), cpus, affectLive); err != nil {
			return err
		}
	}
	if err := c.call(ctx, path, domainIface+".PinEmulator", nil, cpus, affectLive); err != nil {
		return err
	}
	threads, err := c.iothreads(ctx, path)
	if err != nil {
		return err
	}
	for _, id := range threads {
		if err := c.call(ctx, path, domainIface+".PinIOThread", nil, id, cpus, affectLive); err != nil {
			return err
		}
	}
	nodes := domain.MemoryNodes(&p)
	if d.MemoryNodes() == nodes.String() {
		return nil
	}
	return c.call(ctx, path, domainIface+".SetNumaParameters", nil, map[string]dbus.Variant{"numa_nodeset": dbus.MakeVariant(nodes.String())}, affectLive)
}

// iothreads is the IDs of the IOThreads of a running guest.
func (c *Client) iothreads(ctx context.Context, path dbus.ObjectPath) ([]uint32, error) {
	var threads []struct {
		ID   uint32
		CPUs []bool
	}
	if err := c.call(ctx, path, domainIface+".GetIOThreadInfo", &threads, affectLive); err != nil {
		return nil, err
	}
	ids := make([]uint32, len(threads))
	for i := range threads {
		ids[i] = threads[i].ID
	}
	return ids, nil
}

// cpuMap is a CPU set as libvirt-dbus takes it: a bool for each CPU from 0.
func cpuMap(s topology.CPUSet) []bool {
	m := make([]bool, max(0, int(s.Max())+1))
	for cpu := range s.All() {
		m[cpu] = true
	}
	return m
}
