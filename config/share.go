package config

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/homenode/homenode/core/share"
	"github.com/homenode/homenode/core/topology"
)

// Share says how many CPUs batch work may have, so that online work does not feel it.
type Share struct {
	// Enabled squeezes batch work. Off, batch work may use every CPU that no dedicated
	// work holds. `homenode share on` and off have the last word until this is changed.
	Enabled bool `yaml:"enabled"`
	// how much of the CPUs that no dedicated work holds may be busy, 1 to 100 percent
	Target float64 `yaml:"target"`
	Idle   int     `yaml:"idle_cpus"` // CPUs of every node that stay idle for what wakes up; 0 is an eighth of them
	// MaxWait: while dedicated work, or work of the tiers online and online-strict, waits for a
	// CPU more than this many percent of the time, batch work loses cores, whatever the
	// target says. 0 to 100; 0 does not ask.
	MaxWait float64 `yaml:"max_wait"`
	// Freeze: where one core is left of a node and somebody important still waits there,
	// batch work is frozen. Off: who waits for an answer of it would wait.
	Freeze bool `yaml:"freeze"`
	// SchedExt: auto loads a scheduler for batch work into a kernel that takes one, while
	// sharing is on and mode is enforce; off never does. Auto, for whoever turns sharing on wants
	// online work not to feel it, and only a scheduler keeps batch work off the SMT siblings of
	// online work; the settings of cgroups are made first and stand whatever becomes of it.
	SchedExt string `yaml:"sched_ext"`
	// Probation is how long another version of that scheduler must hold after `homenode share
	// upgrade` before it is kept. 5s to 1h.
	Probation time.Duration `yaml:"probation"`
	// EvictAfter: where batch work has been frozen so long, or has had the least that it may so
	// long and somebody important still waited all that time, its manager is asked to stop it:
	// Kubernetes to evict the pod and, with Stop, systemd to stop the unit. 0 asks nobody.
	EvictAfter time.Duration `yaml:"evict_after"`
	Stop       bool          `yaml:"stop"`
	// Prometheus is the address of the server that queries of slo ask; "" is none.
	Prometheus string `yaml:"prometheus"`

	// Beside CPU sets. None of it is on by default: memory and block devices have owners more
	// often than CPUs do.
	// how much of each node's memory may be in use, percent; 0 limits nothing
	Memory   float64 `yaml:"memory"`
	Protect  bool    `yaml:"protect_memory"` // memory.low of important work is what it holds
	Burst    bool    `yaml:"burst"`          // important work that its cpu.max holds back may burst
	IOWeight int     `yaml:"io_weight"`      // of batch work at block devices, 1 to 10000; 0 leaves it
	// ways of the last-level caches that batch work has, percent, 5 to 95; 0 leaves it all
	Cache int `yaml:"cache"`
	// what cores with batch work may ask of memory, percent, 10 to 90; 0 leaves it all. Where resctrl counts in GB/s or
	// MiB/s it is a part of the measured bandwidth.
	Bandwidth int `yaml:"memory_bandwidth"`
	// what all batch work together may do a second, a device each: "sda read=100MiB write_iops=200", by name or
	// MAJOR:MINOR
	IOMax []string `yaml:"io_max"`
}

// Values of share.sched_ext.
const (
	SchedExtAuto = "auto"
	SchedExtOff  = "off"
)

func newShare() Share {
	s := share.DefaultSettings()
	return Share{Enabled: s.On, Target: 100 * s.Target, Idle: s.Idle, MaxWait: 100 * s.MaxWait, Freeze: s.Freeze,
		EvictAfter: s.EvictAfter, Stop: s.Stop, SchedExt: SchedExtAuto, Probation: time.Minute}
}

func (s *Share) validate() error {
	switch {
	case !(s.Target >= 1 && s.Target <= 100):
		return fmt.Errorf("share.target: %v; want 1 to 100 percent", s.Target)
	case s.Idle < 0 || s.Idle > topology.MaxID:
		return fmt.Errorf("share.idle_cpus: %d; want 0 (an eighth of a node's CPUs) or more", s.Idle)
	case !(s.MaxWait >= 0 && s.MaxWait <= 100):
		return fmt.Errorf("share.max_wait: %v; want 0 (not asked) to 100 percent", s.MaxWait)
	case s.SchedExt != SchedExtAuto && s.SchedExt != SchedExtOff:
		return fmt.Errorf("share.sched_ext: %q; want auto or off", s.SchedExt)
	case s.Probation < 5*time.Second || s.Probation > time.Hour:
		return fmt.Errorf("share.probation: %v; want 5s to 1h", s.Probation)
	case s.EvictAfter != 0 && (s.EvictAfter < time.Minute || s.EvictAfter > 24*time.Hour):
		return fmt.Errorf("share.evict_after: %v; want 0 (nobody is asked) or 1m to 24h", s.EvictAfter)
	case s.EvictAfter > 0 && s.MaxWait == 0:
		return errors.New("share.evict_after: it is not known who waits while share.max_wait is 0; set that, or " +
			"evict_after to 0")
	case s.Stop && s.EvictAfter == 0:
		return errors.New("share.stop: when a unit is stopped is share.evict_after; set that, such as 10m")
	}
	return s.validateBase()
}

func (s *Share) settings() share.Settings {
	return share.Settings{On: s.Enabled, Target: s.Target / 100, Idle: s.Idle, MaxWait: s.MaxWait / 100,
		Freeze: s.Freeze, EvictAfter: s.EvictAfter, Stop: s.Stop, Scheduler: s.SchedExt == SchedExtAuto,
		Probation: s.Probation, Spare: share.DefaultSettings().Spare}
}

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
			return fmt.Errorf("share.io_max: %q: %s; want a block device and what it may do a second, such as \"sda "+
				"read=100MiB write=50MiB read_iops=500 write_iops=200\"", text, why)
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
	b := share.Base{Memory: s.Memory / 100, Protect: s.Protect, Burst: s.Burst, IOWeight: s.IOWeight,
		Cache: share.CacheLimit{Cache: s.Cache, Bandwidth: s.Bandwidth}}
	b.IO, _ = s.ioMax()
	return b
}
