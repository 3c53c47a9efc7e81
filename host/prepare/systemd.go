package prepare

import (
	"context"
	"fmt"
	"strings"

	sd "github.com/coreos/go-systemd/v22/dbus"
	"github.com/godbus/dbus/v5"

	"github.com/homenode/homenode/core/topology"
)

// Units is what is asked of systemd.
type Units interface {
	// AllowedCPUs of a slice or scope; empty when not restricted.
	AllowedCPUs(ctx context.Context, unit string) (topology.CPUSet, error)
	// SetAllowedCPUs until the machine is restarted; the empty set restricts nothing.
	SetAllowedCPUs(ctx context.Context, unit string, cpus topology.CPUSet) error
}

// Systemd is that of this machine, over the system bus.
type Systemd struct{}

const property = "AllowedCPUs"

// unitType names the D-Bus interface that a unit's resource settings are on.
func unitType(unit string) string {
	if strings.HasSuffix(unit, ".scope") {
		return "Scope"
	}
	return "Slice"
}

// AllowedCPUs implements Units.
func (Systemd) AllowedCPUs(ctx context.Context, unit string) (cpus topology.CPUSet, err error) {
	c, err := sd.NewSystemConnectionContext(ctx)
	if err != nil {
		return cpus, fmt.Errorf("systemd: %w", err)
	}
	defer c.Close()
	p, err := c.GetUnitTypePropertyContext(ctx, unit, unitType(unit), property)
	if err != nil {
		return cpus, fmt.Errorf("systemd: %s of %s (systemd 244 and later have it): %w", property, unit, err)
	}
	bits, ok := p.Value.Value().([]byte)
	if !ok {
		return cpus, fmt.Errorf("systemd: %s of %s is a %T", property, unit, p.Value.Value())
	}
	return fromBits(bits), nil
}

// SetAllowedCPUs implements Units.
func (Systemd) SetAllowedCPUs(ctx context.Context, unit string, cpus topology.CPUSet) error {
	c, err := sd.NewSystemConnectionContext(ctx)
	if err != nil {
		return fmt.Errorf("systemd: %w", err)
	}
	defer c.Close()
	err = c.SetUnitPropertiesContext(ctx, unit, true, sd.Property{Name: property, Value: dbus.MakeVariant(toBits(cpus))})
	if err != nil {
		return fmt.Errorf("systemd: set %s of %s to %q: %w", property, unit, cpus, err)
	}
	return nil
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
