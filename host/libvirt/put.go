package libvirt

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"time"

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
// What a hand has bound, as it runs or in its definition, is an error.
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
	now = !on
	var live *domain.Document
	if on {
		if live, err = c.xml(ctx, path, 0); err != nil {
			return false, err
		}
		if err := ours(live); err != nil {
			return false, err
		}
		now = home.Placement.Class == workload.Shared && live.MemoryMode() == "restrictive"
	}
	define := func() (*domain.Document, error) {
		d, err := c.xml(ctx, path, xmlSecure|xmlInactive)
		if err != nil {
			return nil, err
		}
		if err := ours(d); err != nil {
			return nil, err
		}
		mark, ok := d.Mark()
		if !ok {
			mark = domain.Mark{SMT: workload.SMTPrefer, Emulator: guest.Share}
		}
		d.Place(h, home, mark)
		return d, c.Define(ctx, d.Bytes())
	}
	if !on || !now {
		_, err := define()
		return now, err
	}
	return true, c.move(ctx, h, path, live, home.Placement, define)
}

// move moves a shared guest that runs. The mark tells of it first, so that what a
// failure leaves behind is known for homenode's. When something fails, what was
// moved is put back; where that fails too the mark stays and the next Put mends it.
func (c *Client) move(ctx context.Context, h *topology.Host, path dbus.ObjectPath, live *domain.Document, p plan.Placement, define func() (*domain.Document, error)) error {
	threads, err := c.threads(ctx, path, live)
	if err != nil {
		return err
	}
	was := live.MarkText()
	if err := live.Intend(&p); err != nil {
		return err
	}
	if err := c.mark(ctx, path, live.MarkText()); err != nil {
		return err
	}
	begun, err := c.float(ctx, path, threads, live, p)
	var d *domain.Document
	if err == nil {
		d, err = define()
	}
	if err == nil {
		return c.mark(ctx, path, d.MarkText())
	}
	if errors.Is(err, fs.ErrNotExist) {
		return err
	}
	// The caller may have given up; what is half done is not left so for that.
	back, cancel := context.WithTimeout(context.WithoutCancel(ctx), putBackWait)
	defer cancel()
	if e := c.putBack(back, h, path, threads[:begun], live, p); e != nil {
		return fmt.Errorf("%w; it could not be put back where it was: %w", err, e)
	}
	if e := c.mark(back, path, was); e != nil {
		return fmt.Errorf("%w; it is back where it was, which its mark does not say: %w", err, e)
	}
	return err
}

// putBackWait bounds how long a failed move goes on: the calls take milliseconds,
// and a libvirt that does not answer shall not hold up who waits.
const putBackWait = 10 * time.Second

// mark writes the mark of a running guest; nothing when it has none.
func (c *Client) mark(ctx context.Context, path dbus.ObjectPath, text string) error {
	if text == "" {
		return nil
	}
	return c.call(ctx, path, domainIface+".SetMetadata", nil, metadataOfOwn, text, domain.Prefix, domain.Namespace, affectLive)
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

// float moves the threads of a running guest, and lets its memory follow. begun
// is how many threads may have been moved.
func (c *Client) float(ctx context.Context, path dbus.ObjectPath, threads []domain.Thread, live *domain.Document, p plan.Placement) (begun int, err error) {
	for i, t := range threads {
		if err := c.pin(ctx, path, t, p.CPUs); err != nil {
			return i + 1, err
		}
	}
	nodes := p.MemoryNodes()
	if live.MemoryNodes() == nodes.String() {
		return len(threads), nil
	}
	return len(threads), c.bind(ctx, path, nodes.String())
}

// putBack puts threads and memory where they were as the document was read. It
// goes on past what fails and tells the first of it.
func (c *Client) putBack(ctx context.Context, h *topology.Host, path dbus.ObjectPath, threads []domain.Thread, live *domain.Document, p plan.Placement) (first error) {
	for _, t := range threads {
		cpus, err := live.CPUsOf(t)
		if cpus.Empty() {
			cpus = h.Online
		}
		if err == nil {
			err = c.pin(ctx, path, t, cpus)
		}
		first = cmp.Or(first, err)
	}
	if nodes := live.MemoryNodes(); nodes != p.MemoryNodes().String() {
		first = cmp.Or(first, c.bind(ctx, path, nodes))
	}
	return first
}

// bind lets the memory of a running guest follow to other nodes.
func (c *Client) bind(ctx context.Context, path dbus.ObjectPath, nodes string) error {
	return c.call(ctx, path, domainIface+".SetNumaParameters", nil, map[string]dbus.Variant{"numa_nodeset": dbus.MakeVariant(nodes)}, affectLive)
}

// pin pins threads of one kind and ID.
func (c *Client) pin(ctx context.Context, path dbus.ObjectPath, t domain.Thread, cpus topology.CPUSet) error {
	switch t.Kind {
	case domain.VCPU:
		err := c.call(ctx, path, domainIface+".PinVcpu", nil, t.ID, cpuMap(cpus), affectLive)
		if t.Off && !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, fs.ErrPermission) && !errors.Is(err, ErrUnavailable) {
			return nil // not every driver of libvirt pins one that is not there yet; the next look finds it when it is
		}
		return err
	case domain.IOThread:
		return c.call(ctx, path, domainIface+".PinIOThread", nil, t.ID, cpuMap(cpus), affectLive)
	}
	return c.call(ctx, path, domainIface+".PinEmulator", nil, cpuMap(cpus), affectLive)
}

// threads is the threads of a running guest: vCPUs, emulator, IOThreads. A vCPU that
// may be plugged in counts: it comes up where it is pinned.
func (c *Client) threads(ctx context.Context, path dbus.ObjectPath, live *domain.Document) ([]domain.Thread, error) {
	most, now, err := live.VCPUs()
	if err != nil {
		return nil, err
	}
	var out []domain.Thread
	for vcpu := range most {
		out = append(out, domain.Thread{Kind: domain.VCPU, ID: uint32(vcpu), Off: vcpu >= now})
	}
	out = append(out, domain.Thread{Kind: domain.EmulatorThread})
	ids, err := c.iothreads(ctx, path)
	for _, id := range ids {
		out = append(out, domain.Thread{Kind: domain.IOThread, ID: id})
	}
	return out, err
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
