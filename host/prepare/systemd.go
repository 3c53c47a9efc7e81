package prepare

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	sd "github.com/coreos/go-systemd/v22/dbus"
	"github.com/godbus/dbus/v5"

	"github.com/homenode/homenode/core/plan"
	"github.com/homenode/homenode/core/topology"
)

// Units is what is asked of systemd.
type Units interface {
	// AllowedCPUs of a slice or scope; empty when not restricted.
	AllowedCPUs(ctx context.Context, unit string) (topology.CPUSet, error)
	// SetAllowedCPUs until the machine is restarted; the empty set restricts nothing.
	SetAllowedCPUs(ctx context.Context, unit string, cpus topology.CPUSet) error
	// Stop asks for a unit to be stopped and does not wait until it is.
	Stop(ctx context.Context, unit string) error
}

// Systemd is that of this machine, over the system bus.
type Systemd struct {
	Wait time.Duration // how long an answer may take; 0 is 20 seconds
}

const property = "AllowedCPUs"

// unitType names the D-Bus interface that a unit's resource settings are on.
func unitType(unit string) string {
	if strings.HasSuffix(unit, ".scope") {
		return "Scope"
	}
	return "Slice"
}

// call makes one call, which has to be answered in time.
func (s Systemd) call(ctx context.Context, do func(context.Context, *sd.Conn) error) error {
	ctx, cancel := context.WithTimeout(ctx, cmp.Or(s.Wait, 20*time.Second))
	defer cancel()
	// The connection ends with ctx, so that making it does not last longer either.
	c, err := sd.NewSystemConnectionContext(ctx)
	if err == nil {
		defer c.Close()
		err = do(ctx, c)
	}
	switch {
	case err == nil:
		return nil
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		return fmt.Errorf("systemd %w: %w", plan.ErrNoAnswer, err)
	}
	return fmt.Errorf("systemd: %w", err)
}

// AllowedCPUs implements Units.
func (s Systemd) AllowedCPUs(ctx context.Context, unit string) (cpus topology.CPUSet, err error) {
	err = s.call(ctx, func(ctx context.Context, c *sd.Conn) error {
		p, err := c.GetUnitTypePropertyContext(ctx, unit, unitType(unit), property)
		if err != nil {
			return fmt.Errorf("%s of %s (systemd 244 and later have it): %w", property, unit, err)
		}
		bits, ok := p.Value.Value().([]byte)
		if !ok {
			return fmt.Errorf("%s of %s is a %T", property, unit, p.Value.Value())
		}
		cpus = fromBits(bits)
		return nil
	})
	return cpus, err
}

// SetAllowedCPUs implements Units.
func (s Systemd) SetAllowedCPUs(ctx context.Context, unit string, cpus topology.CPUSet) error {
	return s.call(ctx, func(ctx context.Context, c *sd.Conn) error {
		err := c.SetUnitPropertiesContext(ctx, unit, true,
			sd.Property{Name: property, Value: dbus.MakeVariant(toBits(cpus))})
		if err != nil {
			return fmt.Errorf("set %s of %s to %q: %w", property, unit, cpus, err)
		}
		return nil
	})
}

// Stop implements Units, as `systemctl --no-block stop` does: a service with Restart= is not
// started again.
func (s Systemd) Stop(ctx context.Context, unit string) error {
	return s.call(ctx, func(ctx context.Context, c *sd.Conn) error {
		if _, err := c.StopUnitContext(ctx, unit, "replace", nil); err != nil {
			return fmt.Errorf("stop %s: %w", unit, err)
		}
		return nil
	})
}

// CPU sets travel as bytes, CPU 0 in the lowest bit of the first
// (org.freedesktop.systemd1(5)).
func fromBits(bits []byte) (cpus topology.CPUSet) {
	for i, b := range bits[:min(len(bits), topology.MaxID/8)] {
		for k := range 8 {
			if b&(1<<k) != 0 {
				cpus.Add(topology.CPUID(8*i + k))
			}
		}
	}
	return cpus
}

func toBits(cpus topology.CPUSet) []byte {
	bits := make([]byte, (int(cpus.Max())+8)/8)
	for cpu := range cpus.All() {
		bits[cpu/8] |= 1 << (cpu % 8)
	}
	return bits
}
