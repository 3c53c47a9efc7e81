// Package scope puts this process into a scope of systemd, a cgroup of its own that systemd
// takes away when its last process has ended (systemd.scope(5)).
//
// Not in here: which CPUs and nodes it gets, and scopes that are there already.
package scope

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	sd "github.com/coreos/go-systemd/v22/dbus"
	"github.com/godbus/dbus/v5"

	"github.com/homenode/homenode/core/plan"
	"github.com/homenode/homenode/core/topology"
)

// Options says what scope is made.
type Options struct {
	Unit        string // its name, with or without .scope; "" is homenode-PID.scope
	Description string
	CPUs        topology.CPUSet  // AllowedCPUs; empty restricts nothing
	Mems        topology.NodeSet // AllowedMemoryNodes; empty restricts nothing
	Booted      string           // folder that is there where systemd runs; "" is /run/systemd/system (sd_booted(3))
	Wait        time.Duration    // how long systemd may take; 0 is 10 seconds
}

// Enter makes a scope and puts this process into it. Root asks the system manager, others
// their user manager. CPU, memory and tasks are accounted. The error wraps
// plan.UnsupportedError where systemd does not run.
func Enter(ctx context.Context, o Options) (unit string, err error) {
	if _, err := os.Stat(cmp.Or(o.Booted, "/run/systemd/system")); err != nil {
		return "", plan.Unsupported("--scope", "systemd, which does not run here")
	}
	unit = cmp.Or(o.Unit, fmt.Sprintf("homenode-%d", os.Getpid()))
	if !strings.HasSuffix(unit, ".scope") {
		unit += ".scope"
	}
	ctx, cancel := context.WithTimeout(ctx, cmp.Or(o.Wait, 10*time.Second))
	defer cancel()
	dial := sd.NewUserConnectionContext
	if os.Geteuid() == 0 {
		dial = sd.NewSystemConnectionContext
	}
	c, err := dial(ctx)
	if err != nil {
		return "", fmt.Errorf("systemd: %w", err)
	}
	defer c.Close()
	done := make(chan string, 1)
	if _, err := c.StartTransientUnitContext(ctx, unit, "fail", o.properties(), done); err != nil {
		return "", fmt.Errorf("systemd: scope %s: %w", unit, err)
	}
	select {
	case result := <-done:
		if result != "done" {
			return "", fmt.Errorf("systemd: scope %s: its start is %q", unit, result)
		}
		return unit, nil
	case <-ctx.Done():
		if errors.Is(ctx.Err(), context.DeadlineExceeded) {
			return "", fmt.Errorf("systemd: scope %s %w", unit, plan.ErrNoAnswer)
		}
		return "", ctx.Err()
	}
}

func (o *Options) properties() []sd.Property {
	set := func(name string, value any) sd.Property {
		return sd.Property{Name: name, Value: dbus.MakeVariant(value)}
	}
	p := []sd.Property{
		set("PIDs", []uint32{uint32(os.Getpid())}), set("Description", o.Description), set("CollectMode", "inactive-or-failed"),
		set("CPUAccounting", true), set("MemoryAccounting", true), set("TasksAccounting", true),
	}
	if !o.CPUs.Empty() {
		p = append(p, set("AllowedCPUs", bits(o.CPUs)))
	}
	if !o.Mems.Empty() {
		p = append(p, set("AllowedMemoryNodes", bits(o.Mems)))
	}
	return p
}

// bits is a set as it travels: bytes, 0 in the lowest bit of the first
// (org.freedesktop.systemd1(5)).
func bits[T ~int](s topology.Set[T]) []byte {
	b := make([]byte, (int(s.Max())+8)/8)
	for id := range s.All() {
		b[id/8] |= 1 << (id % 8)
	}
	return b
}
