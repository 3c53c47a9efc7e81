package libvirt

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/godbus/dbus/v5"

	"github.com/homenode/homenode/core/guest"
	"github.com/homenode/homenode/core/plan"
	"github.com/homenode/homenode/core/topology"
)

// limited is a guest whose NICs and disks can be limited.
type limited struct {
	c      *Client
	name   string
	path   dbus.ObjectPath
	uuid   string
	run    int // 0: off
	config bool
	nics   []string // MAC addresses
	disks  []string
}

// limits is what one device may do a second, by libvirt's names for it.
type limits map[string]uint64

// String is "inbound.average=2048 outbound.average=2048"; 0, which is no limit, is left out.
func (l limits) String() string {
	var out []string
	for _, key := range slices.Sorted(maps.Keys(l)) {
		if l[key] > 0 {
			out = append(out, fmt.Sprintf("%s=%d", key, l[key]))
		}
	}
	return strings.Join(out, " ")
}

func parseLimits(text string) (limits, error) {
	out := limits{}
	for word := range strings.FieldsSeq(text) {
		key, value, _ := strings.Cut(word, "=")
		n, err := strconv.ParseUint(value, 10, 64)
		if err != nil {
			return nil, fmt.Errorf("limits %q: %w", text, err)
		}
		out[key] = n
	}
	return out, nil
}

func (w *Watch) limited(ctx context.Context, name string) (*limited, error) {
	c, err := w.connect(ctx)
	if err != nil {
		return nil, err
	}
	l := &limited{c: c, name: name}
	if l.path, err = c.lookup(ctx, name); err != nil {
		return nil, err
	}
	d, err := c.xml(ctx, l.path, 0)
	if err == nil {
		l.config, err = c.persistent(ctx, l.path)
	}
	if err != nil {
		return nil, fmt.Errorf("guest %q: %w", name, err)
	}
	l.uuid = d.UUID()
	l.run = d.Run()
	l.nics = d.NICs()
	l.disks = d.Disks()
	return l, nil
}

// isNIC tells a device by its name: disks have no MAC address.
func isNIC(device string) bool { return strings.Contains(device, ":") }

// get is the limits of a device as it runs (affectLive) or by its definition (affectConfig).
func (l *limited) get(ctx context.Context, device string, flags uint32) (limits, error) {
	method := "GetBlockIOTune"
	if isNIC(device) {
		method = "GetInterfaceParameters"
	}
	var all map[string]dbus.Variant
	if err := l.c.call(ctx, l.path, domainIface+"."+method, &all, device, flags); err != nil {
		return nil, fmt.Errorf("%s: %w", device, err)
	}
	out := limits{}
	for key, v := range all {
		switch n := v.Value().(type) { // the name of a group is no limit
		case uint32:
			out[key] = uint64(n)
		case uint64:
			out[key] = n
		case int32:
			out[key] = uint64(max(0, n))
		case int64:
			out[key] = uint64(max(0, n))
		}
	}
	return out, nil
}

// set gives a device limits; what it has besides goes.
func (l *limited) set(ctx context.Context, device string, to limits, flags uint32) error {
	was, err := l.get(ctx, device, flags)
	if err != nil {
		return err
	}
	method, params := "SetBlockIOTune", map[string]dbus.Variant{}
	if isNIC(device) {
		method = "SetInterfaceParameters"
	}
	keys := append(slices.Collect(maps.Keys(was)), slices.Collect(maps.Keys(to))...)
	for _, key := range keys {
		_, named := to[key]
		switch {
		case !named && was[key] == 0: // not every hypervisor has every limit
		case isNIC(device):
			params[key] = dbus.MakeVariant(uint32(to[key]))
		default:
			params[key] = dbus.MakeVariant(to[key])
		}
	}
	if len(params) == 0 {
		return nil
	}
	if err := l.c.call(ctx, l.path, domainIface+"."+method, nil, device, params, flags); err != nil {
		return fmt.Errorf("%s: %w", device, err)
	}
	now, err := l.get(ctx, device, flags)
	if err == nil && now.String() != to.String() {
		err = fmt.Errorf("%s: was to be limited to %q and is to %q", device, to, now)
	}
	return err
}

// volumes is the size of each volume of a guest, by disk.
func (l *limited) volumes(ctx context.Context) (map[string]topology.KiB, error) {
	var stats map[string]dbus.Variant
	if err := l.c.call(ctx, l.path, domainIface+".GetStats", &stats, statsBlock, uint32(0)); err != nil {
		return nil, err
	}
	out := map[string]topology.KiB{}
	eachDisk(stats, func(name string, of func(string) (uint64, bool)) {
		size, _ := of("capacity")
		out[name] = topology.KiB(min(size, 1<<60) >> 10)
	})
	return out, nil
}

// eachDisk calls do for each disk in the statistics of a guest (virConnectGetAllDomainStats).
func eachDisk(stats map[string]dbus.Variant, do func(name string, of func(what string) (uint64, bool))) {
	count, _ := stats["block.count"].Value().(uint32)
	for i := range min(count, mostDisks) {
		name, _ := stats[fmt.Sprintf("block.%d.name", i)].Value().(string)
		do(name, func(what string) (uint64, bool) {
			n, ok := stats[fmt.Sprintf("block.%d.%s", i, what)].Value().(uint64)
			return n, ok
		})
	}
}

// mostDisks bounds what a service says: QEMU takes far fewer.
const mostDisks = 4096

// wanted is what each device is to be limited to, by device; a disk of unknown size counts
// as empty.
func (l *limited) wanted(ctx context.Context, text string) (map[string]limits, error) {
	order, err := guest.ParseLimits(text)
	if err != nil {
		return nil, err
	}
	out := map[string]limits{}
	if order.Network != nil {
		rate := *order.Network
		if rate > math.MaxUint32 {
			return nil, fmt.Errorf("%d KiB a second; NICs take %d at most", rate, uint32(math.MaxUint32))
		}
		for _, mac := range l.nics {
			out[mac] = limits{"inbound.average": uint64(rate), "outbound.average": uint64(rate)}
			for key, n := range map[string]topology.KiB{"peak": order.Burst.Peak, "burst": order.Burst.Size} {
				if n > math.MaxUint32 {
					return nil, fmt.Errorf("%d KiB; NICs take %d at most", n, uint32(math.MaxUint32))
				}
				if n > 0 {
					out[mac]["inbound."+key], out[mac]["outbound."+key] = uint64(n), uint64(n)
				}
			}
		}
	}
	if order.Disk == nil {
		return out, nil
	}
	volumes := map[string]topology.KiB{}
	if order.Disk.IOPSPerGiB > 0 || order.Disk.RatePerGiB > 0 {
		if volumes, err = l.volumes(ctx); err != nil {
			return nil, err
		}
	}
	for _, disk := range l.disks {
		iops, rate := order.Disk.For(volumes[disk])
		if rate > 1<<50 {
			return nil, fmt.Errorf("disk %s: limit out of range", disk)
		}
		out[disk] = limits{"total_bytes_sec": uint64(rate) << 10, "total_iops_sec": uint64(iops)}
		for _, p := range order.Disk.Bursts() {
			out[disk][p.Name] = uint64(p.Value)
		}
	}
	return out, nil
}

// Limits says in words what limits would be set, a line for each NIC and disk.
func (w *Watch) Limits(ctx context.Context, name string, order guest.Limits) ([]string, error) {
	l, err := w.limited(ctx, name)
	if err != nil {
		return nil, err
	}
	want, err := l.wanted(ctx, order.String())
	if err != nil {
		return nil, fmt.Errorf("guest %q: %w", name, err)
	}
	number := func(n uint64, none, unit string) string {
		if n == 0 {
			return none
		}
		return fmt.Sprintf("%d %s", n, unit)
	}
	var out []string
	for _, mac := range l.nics {
		if to, ok := want[mac]; ok {
			out = append(out, fmt.Sprintf("NIC %s: %s", mac,
				number(to["inbound.average"], "no limit", "KiB a second each way")))
		}
	}
	for _, disk := range l.disks {
		if to, ok := want[disk]; ok {
			out = append(out, fmt.Sprintf("disk %s: %s and %s a second", disk,
				number(to["total_iops_sec"], "any number of operations", "operations"),
				number(to["total_bytes_sec"]>>10, "any number of KiB", "KiB")))
		}
	}
	return out, nil
}

// limitChange is a device's limits as they are and are to be, as it runs or by its definition.
type limitChange struct {
	device   string
	flags    uint32
	was, now limits
}

func (l *limited) changes(ctx context.Context, text string) ([]limitChange, error) {
	want, err := l.wanted(ctx, text)
	if err != nil {
		return nil, err
	}
	var out []limitChange
	for _, device := range slices.Sorted(maps.Keys(want)) {
		for flags, there := range map[uint32]bool{affectLive: l.run > 0, affectConfig: l.config} {
			if !there {
				continue
			}
			was, err := l.get(ctx, device, flags)
			if err != nil {
				return nil, err
			}
			out = append(out, limitChange{device, flags, was, want[device]})
		}
	}
	slices.SortStableFunc(out, func(a, b limitChange) int { return int(a.flags) - int(b.flags) })
	return out, nil
}

func (l *limited) setting(device string, flags uint32, value limits) plan.Setting {
	s := plan.Setting{Kind: plan.GuestLimitsNext, Path: l.name + "/" + device, Value: value.String(), Object: l.uuid}
	if flags == affectLive {
		s.Kind, s.Path = plan.GuestLimits, runPath(l.name, l.run)+"/"+device
	}
	return s
}

func (w *Watch) changesLimits(ctx context.Context, name, text string) ([]plan.Change, error) {
	l, err := w.limited(ctx, name)
	if err != nil {
		return nil, err
	}
	all, err := l.changes(ctx, text)
	if err != nil {
		return nil, fmt.Errorf("guest %q: %w", name, err)
	}
	out := make([]plan.Change, len(all))
	for i, c := range all {
		out[i] = plan.Change{Setting: l.setting(c.device, c.flags, c.was), Will: c.now.String()}
	}
	return out, nil
}

// applyLimits limits all devices, or none: what was set before one fails is restored.
func (w *Watch) applyLimits(ctx context.Context, name, text string) error {
	l, err := w.limited(ctx, name)
	if err != nil {
		return err
	}
	all, err := l.changes(ctx, text)
	if err != nil {
		return err
	}
	for i, c := range all {
		if err = l.set(ctx, c.device, c.now, c.flags); err == nil {
			continue
		}
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), changeWithin) // what is half done is not left so
		defer cancel()
		for k := i; k >= 0; k-- {
			if e := l.set(ctx, all[k].device, all[k].was, all[k].flags); e != nil && !isGone(e) {
				err = errors.Join(err, fmt.Errorf("and it could not be restored: %w", e))
			}
		}
		return err
	}
	return nil
}

// device is what the path of a setting names, and how it is reached.
func (l *limited) device(kind plan.SettingKind, a about) (flags uint32, err error) {
	flags = affectConfig
	if kind == plan.GuestLimits {
		flags = affectLive
	}
	switch {
	case flags == affectLive && l.run != a.run:
		err = gone("that run of it has ended")
	case flags == affectConfig && !l.config:
		err = gone("it has no definition")
	case flags == affectLive && !slices.Contains(append(l.nics, l.disks...), a.device):
		err = gone("it has no device " + a.device)
	}
	return flags, err
}

func (w *Watch) readLimit(ctx context.Context, kind plan.SettingKind, a about) (plan.Setting, error) {
	l, err := w.limited(ctx, a.name)
	if err != nil {
		return plan.Setting{}, err
	}
	flags, err := l.device(kind, a)
	if err != nil {
		return plan.Setting{}, fmt.Errorf("guest %q: %w", a.name, err)
	}
	now, err := l.get(ctx, a.device, flags)
	return l.setting(a.device, flags, now), err
}

func (w *Watch) restoreLimit(ctx context.Context, kind plan.SettingKind, a about, old string) error {
	to, err := parseLimits(old)
	if err != nil {
		return err
	}
	l, err := w.limited(ctx, a.name)
	if err != nil {
		return err
	}
	flags, err := l.device(kind, a)
	if err != nil {
		return err
	}
	return l.set(ctx, a.device, to, flags)
}
