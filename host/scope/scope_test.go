package scope

import (
	"context"
	"errors"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/godbus/dbus/v5"

	"github.com/homenode/homenode/core/plan"
	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/core/words"
	"github.com/homenode/homenode/host/internal/bus"
)

// manager is a systemd that starts scopes.
type manager struct {
	conn   *dbus.Conn
	mu     sync.Mutex // of what follows
	result string     // of the job; "" never tells
	refuse string
	asked  map[string]dbus.Variant
	unit   string
	slices map[string]map[string]dbus.Variant // that it has, as they were asked for
	old    bool                               // of before 252
	late   bool                               // another command is faster, once
}

type property struct {
	Name  string
	Value dbus.Variant
}

type aux struct {
	Name       string
	Properties []property
}

const object = dbus.ObjectPath("/org/freedesktop/systemd1")

func (m *manager) Subscribe() *dbus.Error { return nil }

func (m *manager) StartTransientUnit(name, mode string, properties []property, more []aux) (dbus.ObjectPath, *dbus.Error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.refuse != "" {
		return "", dbus.MakeFailedError(errors.New(m.refuse))
	}
	for _, a := range more {
		if m.slices[a.Name] != nil || m.late {
			m.late = false
			m.slices[a.Name] = map[string]dbus.Variant{}
			return "", dbus.NewError("org.freedesktop.systemd1.UnitExists", []any{"Unit " + a.Name + " was already loaded or has a fragment file."})
		}
		made := map[string]dbus.Variant{}
		for _, p := range a.Properties {
			if made[p.Name] = p.Value; m.old && p.Name == "CPUWeight" && p.Value.Value() == uint64(0) {
				return "", dbus.NewError("org.freedesktop.DBus.Error.InvalidArgs", []any{"CPUWeight= value out of range"})
			}
		}
		m.slices[a.Name] = made
	}
	m.unit, m.asked = name, map[string]dbus.Variant{"mode": dbus.MakeVariant(mode)}
	for _, p := range properties {
		m.asked[p.Name] = p.Value
	}
	const job = object + "/job/7"
	if result := m.result; result != "" {
		time.AfterFunc(10*time.Millisecond, func() {
			m.conn.Emit(object, "org.freedesktop.systemd1.Manager.JobRemoved", uint32(7), job, name, result)
		})
	}
	return job, nil
}

// got is the unit that was asked for last, and its properties.
func (m *manager) got() (unit string, asked map[string]dbus.Variant) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.unit, m.asked
}

// does says how it answers from now on.
func (m *manager) does(refuse, result string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.refuse, m.result = refuse, result
}

// start puts a manager on a bus of the test's own.
func start(t *testing.T) *manager {
	conn := bus.Start(t)
	m := &manager{conn: conn, result: "done", slices: map[string]map[string]dbus.Variant{}}
	if err := conn.Export(m, object, "org.freedesktop.systemd1.Manager"); err != nil {
		t.Fatal(err)
	}
	if _, err := conn.RequestName("org.freedesktop.systemd1", dbus.NameFlagDoNotQueue); err != nil {
		t.Fatal(err)
	}
	return m
}

func TestEnter(t *testing.T) {
	m := start(t)
	o := Options{Description: "sleep 1", CPUs: topology.CPUs(0, 9), Mems: topology.Nodes(1), Booted: t.TempDir()}
	unit, err := Enter(context.Background(), o)
	wants, asked := m.got()
	if err != nil || unit != wants || !strings.HasPrefix(unit, "homenode-") || !strings.HasSuffix(unit, ".scope") {
		t.Fatal(unit, err)
	}
	if pids := asked["PIDs"].Value().([]uint32); len(pids) != 1 || int(pids[0]) != os.Getpid() {
		t.Errorf("PIDs %v", pids)
	}
	if cpus := asked["AllowedCPUs"].Value().([]byte); string(cpus) != "\x01\x02" {
		t.Errorf("AllowedCPUs %v", cpus)
	}
	if mems := asked["AllowedMemoryNodes"].Value().([]byte); string(mems) != "\x02" {
		t.Errorf("AllowedMemoryNodes %v", mems)
	}
	if asked["MemoryAccounting"].Value() != true || asked["mode"].Value() != "fail" {
		t.Errorf("%v", asked)
	}
	if unit, err := Enter(context.Background(), Options{Unit: "batch", Booted: o.Booted}); err != nil || unit != "batch.scope" {
		t.Error(unit, err)
	}
	_, asked = m.got()
	if _, restricts := asked["AllowedCPUs"]; restricts {
		t.Error("no CPUs were named")
	}
}

// TestDescription: systemd writes the description into a line of a file, and D-Bus takes UTF-8
// alone.
func TestDescription(t *testing.T) {
	m := start(t)
	for _, text := range []string{"sh -c a\nExecStart=/bin/b", "cat \xff", "x \x1b[2J", strings.Repeat("é\xff", 1<<20)} {
		if _, err := Enter(t.Context(), Options{Description: text, Booted: t.TempDir()}); err != nil {
			t.Fatalf("%.20q: %v", text, err)
		}
		_, asked := m.got()
		got := asked["Description"].Value().(string)
		if words.Printable(got) != got || got == "" || len(got) > 1<<10 {
			t.Errorf("%.20q: %.40q, %d bytes", text, got, len(got))
		}
	}
}

func TestEnterFails(t *testing.T) {
	m := start(t)
	o := Options{Booted: t.TempDir(), Wait: 300 * time.Millisecond}
	m.does("Unit x.scope already exists.", "done")
	if _, err := Enter(context.Background(), o); err == nil || !strings.Contains(err.Error(), "already exists") {
		t.Error(err)
	}
	m.does("", "failed")
	if _, err := Enter(context.Background(), o); err == nil || !strings.Contains(err.Error(), "failed") {
		t.Error(err)
	}
	m.does("", "")
	if _, err := Enter(context.Background(), o); !errors.Is(err, plan.ErrNoAnswer) {
		t.Error(err)
	}
	o.Booted += "/none"
	if _, err := Enter(context.Background(), o); !errors.As(err, new(*plan.UnsupportedError)) {
		t.Error(err)
	}
}

// properties is what systemd says of the units that it was told of.
type properties struct{ *manager }

func (p properties) Get(_, name string) (dbus.Variant, *dbus.Error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if v, ok := p.asked[name]; ok {
		return v, nil
	}
	return dbus.MakeVariant([]byte{}), nil
}

// SetUnitProperties is told of what is set.
func (m *manager) SetUnitProperties(_ string, _ bool, set []property) *dbus.Error {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, p := range set {
		m.asked[p.Name] = p.Value
	}
	return nil
}

// TestFree: what a scope was restricted to is read, and taken away one by one.
func TestFree(t *testing.T) {
	m := start(t)
	o := Options{Unit: "batch", CPUs: topology.CPUs(0, 9), Mems: topology.Nodes(1), Booted: t.TempDir()}
	unit, err := Enter(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	path := object + "/unit/batch_2escope" // sd_bus_path_encode(3)
	if err := m.conn.Export(properties{m}, path, "org.freedesktop.DBus.Properties"); err != nil {
		t.Fatal(err)
	}
	reads := func(cpus, mems string) {
		t.Helper()
		if c, n, err := Read(t.Context(), unit); err != nil || c.String() != cpus || n.String() != mems {
			t.Errorf("CPUs %q nodes %q %v, want %q %q", c, n, err, cpus, mems)
		}
	}
	reads("0,9", "1")
	if err := Free(t.Context(), unit, plan.UnitCPUs); err != nil {
		t.Fatal(err)
	}
	reads("", "1")
	if err := Free(t.Context(), unit, plan.UnitMems); err != nil {
		t.Fatal(err)
	}
	reads("", "")
	m.conn.Close()
	if _, _, err := Read(t.Context(), unit); err == nil {
		t.Error("nobody answers, and there is no error")
	}
}

// sliceOf is what systemd says of a slice.
type sliceOf struct {
	*manager
	name string
}

func (p sliceOf) Get(_, name string) (dbus.Variant, *dbus.Error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.slices[p.name] == nil {
		return dbus.MakeVariant("inactive"), nil
	}
	return dbus.MakeVariant("active"), nil
}

// TestBatch: batch work is in a slice that is idle, with the one above it; who comes second, or
// at the same time, finds it there; an older systemd gets the least weight.
func TestBatch(t *testing.T) {
	for name, tt := range map[string]struct {
		edit   func(*manager)
		weight any
	}{
		"first":       {func(*manager) {}, uint64(0)},
		"old systemd": {func(m *manager) { m.old = true }, uint64(1)},
		"race":        {func(m *manager) { m.late = true }, nil},
		"there":       {func(m *manager) { m.slices["homenode.slice"] = map[string]dbus.Variant{} }, uint64(0)},
	} {
		m := start(t)
		tt.edit(m)
		for path, slice := range map[string]string{"homenode_2eslice": "homenode.slice", "homenode_2dbatch_2eslice": BatchSlice} {
			if err := m.conn.Export(sliceOf{m, slice}, object+"/unit/"+dbus.ObjectPath(path), "org.freedesktop.DBus.Properties"); err != nil {
				t.Fatal(err)
			}
		}
		for range 2 {
			if _, err := Enter(t.Context(), Options{Batch: true, PIDs: []int{7, 8}, Booted: t.TempDir()}); err != nil {
				t.Fatalf("%s: %v", name, err)
			}
		}
		_, asked := m.got()
		if asked["Slice"].Value() != BatchSlice || len(asked["PIDs"].Value().([]uint32)) != 2 {
			t.Errorf("%s: %v", name, asked)
		}
		if got := m.slices[BatchSlice]; got == nil || tt.weight != nil && (got["CPUWeight"].Value() != tt.weight || got["StopWhenUnneeded"].Value() != true) {
			t.Errorf("%s: %v", name, m.slices)
		}
		m.does("no such thing", "done")
		if _, err := Enter(t.Context(), Options{Batch: true, Booted: t.TempDir()}); err == nil || !strings.Contains(err.Error(), "no such thing") {
			t.Errorf("%s: %v", name, err)
		}
		m.conn.Close()
	}
}
