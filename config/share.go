package config

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/homenode/homenode/core/share"
)

// validateBase checks what sharing sets beside CPU sets.
func (s *Share) validateBase() error {
	switch {
	case s.Memory != 0 && !(s.Memory >= 10 && s.Memory <= 100):
		return fmt.Errorf("share.memory: %v; want 0 (no limit) or 10 to 100 percent", s.Memory)
	case s.IOWeight < 0 || s.IOWeight > 10000:
		return fmt.Errorf("share.io_weight: %d; want 0 (as it is) or 1 to 10000", s.IOWeight)
	case s.Cache != 0 && (s.Cache < 5 || s.Cache > 95):
		return fmt.Errorf("share.cache: %d; want 0 (all of it) or 5 to 95 percent", s.Cache)
	case s.Bandwidth != 0 && (s.Bandwidth < 10 || s.Bandwidth > 90):
		return fmt.Errorf("share.memory_bandwidth: %d; want 0 (all of it) or 10 to 90 percent", s.Bandwidth)
	}
	_, err := s.ioMax()
	return err
}

// ioMax reads IOMax: devices as they are named, rising.
func (s *Share) ioMax() (out []share.IOMax, err error) {
	for _, text := range s.IOMax {
		bad := func(why string) error {
			return fmt.Errorf("share.io_max: %q: %s; want a block device and what it may do a second, such as \"sda read=100MiB write=50MiB read_iops=500 write_iops=200\"", text, why)
		}
		device, rest, _ := strings.Cut(strings.TrimSpace(text), " ")
		m := share.IOMax{Device: device}
		if strings.ContainsAny(device, "/;=") || device == "" {
			return nil, bad("no device")
		}
		for _, word := range strings.Fields(rest) {
			key, value, _ := strings.Cut(word, "=")
			var n int64
			if limit, bytes := map[string]*int64{"read": &m.Read, "write": &m.Write}[key]; bytes {
				var size Size
				if err := size.UnmarshalText([]byte(value)); err != nil || size == 0 {
					return nil, bad(fmt.Sprintf("%s is no size with a unit", word))
				}
				*limit = int64(size)
			} else if limit, ops := map[string]*int64{"read_iops": &m.ReadIOPS, "write_iops": &m.WriteIOPS}[key]; ops {
				if n, err = strconv.ParseInt(value, 10, 64); err != nil || n <= 0 {
					return nil, bad(fmt.Sprintf("%s is no number above 0", word))
				}
				*limit = n
			} else {
				return nil, bad(fmt.Sprintf("%q is unknown", key))
			}
		}
		if m == (share.IOMax{Device: device}) {
			return nil, bad("it limits nothing")
		}
		if slices.ContainsFunc(out, func(o share.IOMax) bool { return o.Device == device }) {
			return nil, bad("the device is there twice")
		}
		out = append(out, m)
	}
	slices.SortFunc(out, func(a, b share.IOMax) int { return cmp.Compare(a.Device, b.Device) })
	return out, nil
}

// base is what sharing sets beside CPU sets, with devices as they are named.
func (s *Share) base() share.Base {
	b := share.Base{Memory: s.Memory / 100, Protect: s.Protect, Burst: s.Burst, IOWeight: s.IOWeight, Cache: share.CacheLimit{Cache: s.Cache, Bandwidth: s.Bandwidth}}
	b.IO, _ = s.ioMax()
	return b
}
