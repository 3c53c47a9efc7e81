package prepare

import (
	"bytes"
	"context"
	"errors"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/godbus/dbus/v5"
	"pgregory.net/rapid"

	"github.com/homenode/homenode/core/plan"
	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/host/internal/bus"
)

func TestBits(t *testing.T) {
	if got := toBits(topology.CPUs(0, 1, 9, 40)); !bytes.Equal(got, []byte{3, 2, 0, 0, 0, 1}) {
		t.Errorf("%v", got)
	}
	if got := toBits(topology.CPUSet{}); len(got) != 0 {
		t.Errorf("%v", got)
	}
	if got := fromBits(bytes.Repeat([]byte{0xff}, topology.MaxID)); int(got.Max()) > topology.MaxID {
		t.Errorf("CPU %d, which no machine has", got.Max())
	}
	rapid.Check(t, func(t *rapid.T) {
		var cpus topology.CPUSet
		for _, c := range rapid.SliceOf(rapid.IntRange(0, 3000)).Draw(t, "CPUs") {
			cpus.Add(topology.CPUID(c))
		}
		if back := fromBits(toBits(cpus)); !back.Equal(cpus) {
			t.Fatalf("%v came back as %v", cpus, back)
		}
	})
}

// manager is org.freedesktop.systemd1 as far as it is used here.
type manager struct {
	mu      sync.Mutex // the bus calls from its own goroutines
	bits    []byte
	runtime bool
	refuse  *dbus.Error
}

type setting1 struct {
	Name  string
	Value dbus.Variant
}

func (m *manager) SetUnitProperties(unit string, runtime bool, all []setting1) *dbus.Error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.refuse != nil {
		return m.refuse
	}
	if unit != "system.slice" || len(all) != 1 || all[0].Name != "AllowedCPUs" {
		return dbus.MakeFailedError(os.ErrInvalid)
	}
	m.bits, m.runtime = all[0].Value.Value().([]byte), runtime
	return nil
}

func (m *manager) StopUnit(unit, mode string) (dbus.ObjectPath, *dbus.Error) {
	if unit != "encode.service" || mode != "replace" {
		return "", dbus.MakeFailedError(os.ErrNotExist)
	}
	return "/org/freedesktop/systemd1/job/1", nil
}

func (m *manager) thisBoot() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.runtime
}

func (m *manager) Get(iface, name string) (dbus.Variant, *dbus.Error) {
	if iface != "org.freedesktop.systemd1.Slice" || name != "AllowedCPUs" {
		return dbus.Variant{}, dbus.MakeFailedError(os.ErrNotExist)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	return dbus.MakeVariant(m.bits), nil
}

// TestSystemd talks to a service of systemd's interface on a bus of its own.
func TestSystemd(t *testing.T) {
	conn := bus.Start(t)
	m := &manager{}
	for path, iface := range map[dbus.ObjectPath]string{
		"/org/freedesktop/systemd1": "org.freedesktop.systemd1.Manager", "/org/freedesktop/systemd1/unit/system_2eslice": "org.freedesktop.DBus.Properties",
	} {
		if err := conn.Export(m, path, iface); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := conn.RequestName("org.freedesktop.systemd1", 0); err != nil {
		t.Fatal(err)
	}
	var s Systemd
	if cpus, err := s.AllowedCPUs(t.Context(), "system.slice"); err != nil || !cpus.Empty() {
		t.Fatalf("%v, %v", cpus, err)
	}
	for _, want := range []topology.CPUSet{topology.CPUs(0, 1, 40, 41), {}} {
		if err := s.SetAllowedCPUs(t.Context(), "system.slice", want); err != nil || !m.thisBoot() {
			t.Fatalf("%v, for this boot only: %v", err, m.thisBoot())
		}
		if cpus, err := s.AllowedCPUs(t.Context(), "system.slice"); err != nil || !cpus.Equal(want) {
			t.Errorf("%v, %v", cpus, err)
		}
	}
	if err := s.Stop(t.Context(), "encode.service"); err != nil {
		t.Error(err)
	}
	if err := s.Stop(t.Context(), "other.service"); err == nil || !strings.Contains(err.Error(), "other.service") {
		t.Error(err)
	}
	m.mu.Lock()
	m.refuse = dbus.MakeFailedError(os.ErrPermission)
	m.mu.Unlock()
	if err := s.SetAllowedCPUs(t.Context(), "system.slice", topology.CPUs(0)); err == nil || !strings.Contains(err.Error(), "system.slice") {
		t.Error(err)
	}
	if _, err := s.AllowedCPUs(t.Context(), "init.scope"); err == nil {
		t.Error("a unit that is not there has CPUs")
	}
}

// TestSilentBus: a bus that accepts and says nothing holds nobody up (R6).
func TestSilentBus(t *testing.T) {
	dir, err := os.MkdirTemp("", "bus")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	l, err := net.Listen("unix", filepath.Join(dir, "s"))
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			defer c.Close()
		}
	}()
	t.Setenv("DBUS_SYSTEM_BUS_ADDRESS", "unix:path="+filepath.Join(dir, "s"))
	s := Systemd{Wait: 50 * time.Millisecond}
	done := make(chan error, 2)
	go func() {
		_, err := s.AllowedCPUs(context.Background(), "system.slice")
		done <- err
		done <- s.SetAllowedCPUs(context.Background(), "system.slice", topology.CPUs(0))
	}()
	for range 2 {
		select {
		case err := <-done:
			if !errors.Is(err, plan.ErrNoAnswer) || !strings.Contains(err.Error(), "systemd") {
				t.Error(err)
			}
		case <-time.After(5 * time.Second):
			t.Fatal("it waits for ever")
		}
	}
}
