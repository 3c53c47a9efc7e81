package libvirt

import (
	"context"
	"errors"
	"fmt"
	"math"

	"github.com/godbus/dbus/v5"

	"github.com/homenode/homenode/core/guest"
	"github.com/homenode/homenode/core/topology"
)

// Limit sets what the NICs and disks of a guest may do a second: as it runs, and in its
// definition. It says in words what it set; an error tells of the first that failed,
// after which the rest is not tried.
func (c *Client) Limit(ctx context.Context, name string, l guest.Limits) (done []string, err error) {
	path, err := c.lookup(ctx, name)
	if err != nil {
		return nil, err
	}
	if done, err = c.limit(ctx, path, l); err != nil {
		return done, fmt.Errorf("guest %q: %w", name, err)
	}
	return done, nil
}

func (c *Client) limit(ctx context.Context, path dbus.ObjectPath, l guest.Limits) (done []string, err error) {
	on, err := c.active(ctx, path)
	if err != nil {
		return nil, err
	}
	v, err := c.property(ctx, path, domainIface, "Persistent")
	if err != nil {
		return nil, err
	}
	flags := uint32(0)
	if on {
		flags |= affectLive
	}
	if persistent, _ := v.(bool); persistent {
		flags |= affectConfig
	}
	d, err := c.xml(ctx, path, 0)
	if err != nil {
		return nil, err
	}
	if l.Network != nil {
		for _, mac := range d.NICs() {
			text, err := c.limitNIC(ctx, path, mac, *l.Network, flags)
			if err != nil {
				return done, err
			}
			done = append(done, text)
		}
	}
	if l.Disk != nil {
		volumes := map[string]topology.KiB{}
		if l.Disk.IOPSPerGiB > 0 || l.Disk.RatePerGiB > 0 {
			if volumes, err = c.volumes(ctx, path); err != nil {
				return done, err
			}
		}
		for _, target := range d.Disks() {
			text, err := c.limitDisk(ctx, path, target, volumes[target], *l.Disk, flags)
			if err != nil {
				return done, err
			}
			done = append(done, text)
		}
	}
	return done, nil
}

// limitNIC sets KiB a second each way, 0 for no limit.
func (c *Client) limitNIC(ctx context.Context, path dbus.ObjectPath, mac string, rate topology.KiB, flags uint32) (string, error) {
	if rate < 0 || rate > math.MaxUint32 {
		return "", fmt.Errorf("NIC %s: %d KiB a second; want 0 to %d", mac, rate, uint32(math.MaxUint32))
	}
	params := map[string]dbus.Variant{"inbound.average": dbus.MakeVariant(uint32(rate)), "outbound.average": dbus.MakeVariant(uint32(rate))}
	if err := c.call(ctx, path, domainIface+".SetInterfaceParameters", nil, mac, params, flags); err != nil {
		return "", fmt.Errorf("NIC %s: %w", mac, err)
	}
	if rate == 0 {
		return fmt.Sprintf("NIC %s: no limit", mac), nil
	}
	return fmt.Sprintf("NIC %s: %d KiB a second each way", mac, rate), nil
}

// volumes is the size of each volume of a guest, by disk.
func (c *Client) volumes(ctx context.Context, path dbus.ObjectPath) (map[string]topology.KiB, error) {
	var stats map[string]dbus.Variant
	if err := c.call(ctx, path, domainIface+".GetStats", &stats, statsBlock, uint32(0)); err != nil {
		return nil, err
	}
	out := map[string]topology.KiB{}
	count, _ := stats["block.count"].Value().(uint32)
	for i := range count {
		name, _ := stats[fmt.Sprintf("block.%d.name", i)].Value().(string)
		size, _ := stats[fmt.Sprintf("block.%d.capacity", i)].Value().(uint64)
		out[name] = topology.KiB(min(size, 1<<60) >> 10)
	}
	return out, nil
}

// limitDisk sets operations and bytes a second, by the size of the volume where the
// limit goes by that; one of unknown size counts as empty.
func (c *Client) limitDisk(ctx context.Context, path dbus.ObjectPath, target string, volume topology.KiB, l guest.DiskLimit, flags uint32) (string, error) {
	iops, rate := l.For(volume)
	if iops < 0 || rate < 0 || rate > 1<<50 {
		return "", fmt.Errorf("disk %s: %w", target, errors.New("limit out of range"))
	}
	params := map[string]dbus.Variant{"total_bytes_sec": dbus.MakeVariant(uint64(rate) << 10), "total_iops_sec": dbus.MakeVariant(uint64(iops))}
	if err := c.call(ctx, path, domainIface+".SetBlockIOTune", nil, target, params, flags); err != nil {
		return "", fmt.Errorf("disk %s: %w", target, err)
	}
	word := func(n int64, unit string) string {
		if n == 0 {
			return "any number of " + unit
		}
		return fmt.Sprintf("%d %s", n, unit)
	}
	return fmt.Sprintf("disk %s: %s and %s a second", target, word(iops, "operations"), word(int64(rate), "KiB")), nil
}
