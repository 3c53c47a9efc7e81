package irq

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/homenode/homenode/core/irq"
	"github.com/homenode/homenode/core/plan"
	"github.com/homenode/homenode/core/topology"
)

// Devices reads the interrupts and queues of every NIC and NVMe drive whose node is
// known, in the order of h.Devices. What vanishes meanwhile is left out.
func (d *Driver) Devices(ctx context.Context, h *topology.Host) ([]irq.Device, error) {
	var out []irq.Device
	for _, dev := range h.Devices {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		if (dev.Kind != topology.NIC && dev.Kind != topology.NVMe) || dev.Node == topology.None {
			continue
		}
		// A function may have several network devices; its interrupts are theirs together.
		i := slices.IndexFunc(out, func(x irq.Device) bool { return x.PCI == dev.PCI })
		if i < 0 {
			x := irq.Device{Name: dev.Name, Kind: dev.Kind, PCI: dev.PCI, Node: dev.Node}
			var err error
			if x.Interrupts, err = d.interrupts(dev.PCI); err != nil {
				return nil, err
			}
			if len(x.Interrupts) == 0 {
				continue
			}
			out = append(out, x)
			i = len(out) - 1
		}
		if dev.Kind == topology.NIC && dev.Name != dev.PCI {
			rx, err := d.queues(plan.RPSCPUs, dev, "rx-")
			if err != nil {
				return nil, err
			}
			tx, err := d.queues(plan.XPSCPUs, dev, "tx-")
			if err != nil {
				return nil, err
			}
			out[i].Rx, out[i].Tx = append(out[i].Rx, rx...), append(out[i].Tx, tx...)
			switch now, most, err := d.files.channels(dev.Name); {
			case errors.Is(err, unix.EOPNOTSUPP):
				out[i].NoChannels = "the driver of " + dev.Name + " does not tell it"
			case err != nil:
				out[i].NoChannels = fmt.Sprintf("asking for it failed: %v", err)
			case now == 0 || most == 0:
				out[i].NoChannels = dev.Name + " counts receive and transmit queues apart"
			default:
				out[i].Channels = append(out[i].Channels, irq.Channels{Name: dev.Name, Now: now, Most: most})
			}
		}
	}
	return out, nil
}

// interrupts is those of a PCI function that have a handler.
func (d *Driver) interrupts(pci string) ([]irq.Interrupt, error) {
	names, err := d.files.List("sys/bus/pci/devices/" + pci + "/msi_irqs")
	if absent(err) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var out []irq.Interrupt
	for _, name := range names {
		n, err := strconv.Atoi(name)
		if err != nil {
			continue
		}
		// One line of handlers, with commas (kernel/irq/irqdesc.c, actions_show).
		actions, err := d.files.Read("sys/kernel/irq/" + name + "/actions")
		if (err == nil && strings.TrimSpace(actions) == "") || absent(err) {
			continue
		}
		if err != nil {
			return nil, err
		}
		list, err := d.files.Read("proc/irq/" + name + "/smp_affinity_list")
		if absent(err) {
			continue
		}
		if err != nil {
			return nil, err
		}
		cpus, err := topology.ParseCPUSet(list)
		if err != nil {
			return nil, err
		}
		out = append(out, irq.Interrupt{Number: n, Name: strings.TrimSpace(actions), CPUs: cpus})
	}
	slices.SortFunc(out, func(a, b irq.Interrupt) int { return cmp.Compare(a.Number, b.Number) })
	return out, nil
}

// queues is the queues of a network device whose setting can be read.
func (d *Driver) queues(kind plan.SettingKind, dev topology.Device, prefix string) ([]irq.Queue, error) {
	names, err := d.queueNames(dev.Name, prefix)
	if err != nil {
		return nil, err
	}
	var out []irq.Queue
	for _, name := range names {
		s, err := parse(kind, dev.PCI+"/"+dev.Name+"/"+name)
		if err != nil {
			continue // a name that no kernel gives
		}
		value, err := d.files.Read(s.file)
		if absent(err) {
			continue
		}
		if err != nil {
			return nil, err
		}
		cpus, err := topology.ParseMask(value)
		if err != nil {
			return nil, err
		}
		out = append(out, irq.Queue{Name: dev.Name + "/" + name, CPUs: cpus})
	}
	return out, nil
}

// queueNames is the queues of a network device in one direction, rising.
func (d *Driver) queueNames(dev, prefix string) ([]string, error) {
	names, err := d.files.List("sys/class/net/" + dev + "/queues")
	if absent(err) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	names = slices.DeleteFunc(names, func(n string) bool { return !strings.HasPrefix(n, prefix) })
	slices.SortFunc(names, func(a, b string) int {
		return cmp.Or(cmp.Compare(len(a), len(b)), strings.Compare(a, b))
	})
	return names, nil
}

// absent: not there, never was, or of a device that has gone meanwhile.
func absent(err error) bool {
	return errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ENODEV) || errors.Is(err, unix.EINVAL)
}
