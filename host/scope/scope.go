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
	"github.com/homenode/homenode/core/words"
	"github.com/homenode/homenode/core/workload"
)

// Options says what scope is made.
type Options struct {
	Unit        string // its name, with or without .scope; "" is homenode-PID.scope
	Description string
	CPUs        topology.CPUSet  // AllowedCPUs; empty restricts nothing
	Mems        topology.NodeSet // AllowedMemoryNodes; empty restricts nothing
	Batch       bool             // in BatchSlice
	PIDs        []int            // that it takes; none is this process
	Booted      string           // folder that is there where systemd runs; "" is /run/systemd/system (sd_booted(3))
	Wait        time.Duration    // how long systemd may take; 0 is 10 seconds
}

// BatchSlice is the slice of batch work: systemd gives it and the slice above it CPUWeight=idle
// (cpu.idle) as long as something is in it, so that all of it together runs when nothing else
// of its manager wants the CPU.
const BatchSlice = workload.BatchSlice

// batchSlices is BatchSlice with those above it, by their names (systemd.slice(5)).
var batchSlices = []string{"homenode.slice", BatchSlice}

// idleWeight is CPUWeight=idle on the bus, since systemd 252; before, 1 is the least.
const idleWeight = 0

// Here is nil where systemd runs, by the folder of sd_booted(3) ("" is the usual one), else an
// error that wraps plan.UnsupportedError.
func Here(booted string) error {
	if _, err := os.Stat(cmp.Or(booted, "/run/systemd/system")); err != nil {
		return plan.Unsupported("--scope", "systemd, which does not run here")
	}
	return nil
}

// Enter makes a scope and puts this process into it. Root asks the system manager, others
// their user manager. CPU, memory and tasks are accounted. The error wraps
// plan.UnsupportedError where systemd does not run.
func Enter(ctx context.Context, o Options) (unit string, err error) {
	if err := Here(o.Booted); err != nil {
		return "", err
	}
	unit = Name(o.Unit)
	ctx, cancel := context.WithTimeout(ctx, cmp.Or(o.Wait, 10*time.Second))
	defer cancel()
	c, err := dial(ctx)
	if err != nil {
		return "", err
	}
	defer c.Close()
	done := make(chan string, 1)
	if err := o.start(ctx, c, unit, done); err != nil {
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

// start asks for the scope, and for the slices of batch work that are not there. Another
// command may have them made, or systemd may have taken them away, meanwhile.
func (o *Options) start(ctx context.Context, c *sd.Conn, unit string, done chan string) (err error) {
	weight := uint64(idleWeight)
	for range 5 {
		var slices []sd.PropertyCollection
		for _, slice := range batchSlices {
			if !o.Batch {
				break
			}
			state, err := c.GetUnitPropertyContext(ctx, slice, "ActiveState")
			if err != nil {
				return err
			}
			if state.Value.Value() == "inactive" {
				slices = append(slices, sd.PropertyCollection{Name: slice, Properties: []sd.Property{
					set("Description", "Batch work of homenode run"), set("CPUWeight", weight),
					set("StopWhenUnneeded", true),
				}})
			}
		}
		_, err = c.StartTransientUnitAux(ctx, unit, "fail", o.properties(), slices, done)
		var refused dbus.Error
		switch {
		case err == nil || !o.Batch || !errors.As(err, &refused):
			return err
		case weight == idleWeight && strings.Contains(refused.Error(), "CPUWeight"):
			weight = 1
		case refused.Name != "org.freedesktop.systemd1.UnitExists" || !strings.Contains(refused.Error(), ".slice"):
			return err
		}
	}
	return err
}

// Name is the unit that Enter makes for Options.Unit.
func Name(unit string) string {
	if unit = cmp.Or(unit, fmt.Sprintf("homenode-%d", os.Getpid())); !strings.HasSuffix(unit, ".scope") {
		unit += ".scope"
	}
	return unit
}

// dial reaches the manager that scopes of this user are of.
func dial(ctx context.Context) (*sd.Conn, error) {
	to := sd.NewUserConnectionContext
	if os.Geteuid() == 0 {
		to = sd.NewSystemConnectionContext
	}
	c, err := to(ctx)
	if err != nil {
		return nil, fmt.Errorf("systemd: %w", err)
	}
	return c, nil
}

// Read is the CPUs and memory nodes that a scope of this user is restricted to; empty where
// it is not. A unit that is gone has none.
func Read(ctx context.Context, unit string) (cpus topology.CPUSet, mems topology.NodeSet, err error) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	c, err := dial(ctx)
	if err != nil {
		return cpus, mems, err
	}
	defer c.Close()
	read := func(property string) []byte {
		p, bad := c.GetUnitTypePropertyContext(ctx, unit, "Scope", property)
		if bad != nil {
			err = cmp.Or(err, fmt.Errorf("systemd: %s of %s: %w", property, unit, bad))
			return nil
		}
		b, _ := p.Value.Value().([]byte)
		return b
	}
	cpus, mems = fromBits[topology.CPUID](read(string(plan.UnitCPUs))),
		fromBits[topology.NodeID](read(string(plan.UnitMems)))
	return cpus, mems, err
}

// Free takes a restriction of a scope of this user away: plan.UnitCPUs or plan.UnitMems.
func Free(ctx context.Context, unit string, kind plan.SettingKind) error {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	c, err := dial(ctx)
	if err != nil {
		return err
	}
	defer c.Close()
	if err := c.SetUnitPropertiesContext(ctx, unit, true,
		sd.Property{Name: string(kind), Value: dbus.MakeVariant([]byte{})}); err != nil {
		return fmt.Errorf("systemd: %s of %s: %w", kind, unit, err)
	}
	return nil
}

func set(name string, value any) sd.Property {
	return sd.Property{Name: name, Value: dbus.MakeVariant(value)}
}

func (o *Options) properties() []sd.Property {
	pids := []uint32{}
	for _, pid := range o.PIDs {
		pids = append(pids, uint32(pid))
	}
	if len(pids) == 0 {
		pids = append(pids, uint32(os.Getpid()))
	}
	p := []sd.Property{
		set("PIDs", pids), set("Description", described(o.Description)), set("CollectMode", "inactive-or-failed"),
		set("CPUAccounting", true), set("MemoryAccounting", true), set("TasksAccounting", true),
	}
	if o.Batch {
		p = append(p, set("Slice", BatchSlice))
	}
	if !o.CPUs.Empty() {
		p = append(p, set("AllowedCPUs", bits(o.CPUs)))
	}
	if !o.Mems.Empty() {
		p = append(p, set("AllowedMemoryNodes", bits(o.Mems)))
	}
	return p
}

// described is a description that systemd takes: it writes it into a line of a unit's file, where
// the end of a line would begin another setting, and D-Bus closes the connection for what is
// not UTF-8.
func described(text string) string {
	const most = 1 << 10
	if text = words.Printable(text[:min(len(text), most)]); len(text) > most {
		text = text[:most]
	}
	return text
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

func fromBits[T ~int](bits []byte) (s topology.Set[T]) {
	for i, b := range bits[:min(len(bits), topology.MaxID/8)] {
		for k := range 8 {
			if b&(1<<k) != 0 {
				s.Add(T(8*i + k))
			}
		}
	}
	return s
}
