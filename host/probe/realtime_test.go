package probe

import (
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"golang.org/x/sys/unix"

	"github.com/homenode/homenode/core/doctor"
	"github.com/homenode/homenode/core/measure"
	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/host/probe/kernel"
)

// fifoThread is a thread of its own with realtime; the test is skipped where it
// is not allowed.
func fifoThread(t *testing.T, f func(r *realtime)) {
	t.Helper()
	h, err := topology.FromSysfs(os.DirFS("/"))
	if err != nil {
		t.Skip(err)
	}
	result := make(chan error)
	go func() {
		runtime.LockOSThread()
		r, err := newRealtime(h.Allowed)
		if err == nil {
			f(r)
			r.close()
		}
		result <- err
	}()
	if err := <-result; errors.Is(err, ErrNoRealtime) {
		t.Skip(err)
	} else if err != nil {
		t.Fatal(err)
	}
}

func policy(t *testing.T) uint32 {
	a, err := unix.SchedGetAttr(0, 0)
	if err != nil {
		t.Error(err)
		return 0
	}
	return a.Policy
}

// Real time lasts for a sample, and nothing of it is left behind.
func TestRealtimeEnds(t *testing.T) {
	was := policy(t) // of this test's threads: SCHED_OTHER as a rule
	fifoThread(t, func(r *realtime) {
		for range 3 {
			if p := policy(t); p != was {
				t.Errorf("policy %d before a sample", p)
			}
			r.enter()
			if p := policy(t); p != unix.SCHED_FIFO {
				t.Errorf("policy %d in a sample", p)
			}
			r.leave()
		}
		if p := policy(t); p != was || r.fired.Load() {
			t.Errorf("policy %d after a sample; fired %v", p, r.fired.Load())
		}
	})
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_RTTIME, &limit); err != nil || limit.Max > rttimeHard {
		t.Errorf("RLIMIT_RTTIME %+v, %v", limit, err)
	}
}

// A sample that does not end loses its priority to the watchdog, and the thread
// lives on.
func TestWatchdogEndsRealtime(t *testing.T) {
	was := policy(t)
	fifoThread(t, func(r *realtime) {
		r.enter()
		for start := time.Now(); !r.fired.Load() && time.Since(start) < 20*time.Second; {
			kernel.Spin(100_000)
		}
		if !r.fired.Load() {
			t.Error("the watchdog slept")
		}
		// The watchdog says that it acts before it does.
		for start := time.Now(); policy(t) != was && time.Since(start) < 20*time.Second; {
			kernel.Spin(100_000)
		}
		if p := policy(t); p != was {
			t.Errorf("policy %d after the watchdog", p)
		}
		r.leave()
		r.enter()
		if p := policy(t); p != was {
			t.Errorf("policy %d: real time again after the watchdog", p)
		}
		r.leave()
	})
}

// A run in real time says so, as does one that cannot be.
func TestRunInRealtime(t *testing.T) {
	m, plan := live(t, measure.PartLatency, measure.PartPages)
	plan.Request.RT = true
	d := measure.NewDocument(m.Root, m.Host)
	err := m.Run(t.Context(), plan, d, nil)
	if errors.Is(err, ErrNoRealtime) {
		t.Skip(err)
	}
	if err != nil || !d.Run.RT || d.Latency == nil {
		t.Fatalf("%v, run %+v", err, d.Run)
	}
	t.Logf("%.1f %% thrown out, clock %+v", float64(d.Run.Rejected), d.Run.Clock)
	m.Host.Allowed = topology.CPUs(m.Host.Allowed.Min())
	if err := m.Run(t.Context(), plan, d, nil); !errors.Is(err, ErrNoRealtime) || !strings.Contains(err.Error(), "second CPU") {
		t.Errorf("on one CPU: %v", err)
	}
}

// The clock of the CPUs that measure is taken before and after.
func TestClockIsRecorded(t *testing.T) {
	m, plan := live(t, measure.PartLatency)
	d := measure.NewDocument(m.Root, m.Host)
	if err := m.Run(t.Context(), plan, d, nil); err != nil {
		t.Fatal(err)
	}
	if len(d.Run.Clock) != len(plan.NodeCPUs) {
		t.Fatalf("clocks %+v of %d CPUs", d.Run.Clock, len(plan.NodeCPUs))
	}
	for _, c := range d.Run.Clock {
		// Emulated CPUs come to some 100 MHz, none is over 20 GHz.
		for _, v := range []measure.Value{c.Before, c.After} {
			if !v.Known() || v < 1 || v > 20_000 {
				t.Errorf("clock %+v", c)
			}
		}
	}
	s := &session{m: &Machine{Root: fstest.MapFS{"sys/devices/system/cpu/cpu3/cpufreq/scaling_cur_freq": &fstest.MapFile{Data: []byte("2500000\n")}}}}
	if f := s.cpufreq(3); f != 2500 {
		t.Errorf("cpufreq %v, want 2500", f)
	}
	if f := s.cpufreq(4); f.Known() {
		t.Errorf("cpufreq %v of a CPU that tells none", f)
	}
}

// withRegisters is a machine whose msr and cpuid devices are files.
func withRegisters(t *testing.T, m *Machine, vendor, family string, reg int64, value byte) string {
	t.Helper()
	m.CPUFiles, m.Restore = t.TempDir(), filepath.Join(t.TempDir(), "state", "restore.json")
	cpu := filepath.Join(m.CPUFiles, "0")
	if err := os.Mkdir(cpu, 0o755); err != nil {
		t.Fatal(err)
	}
	msr, err := os.Create(filepath.Join(cpu, "msr"))
	if err != nil {
		t.Fatal(err)
	}
	defer msr.Close()
	if _, err := msr.WriteAt([]byte{value, 0, 0, 0, 0, 0, 0, 0}, reg); err != nil {
		t.Fatal(err)
	}
	id, err := os.Create(filepath.Join(cpu, "cpuid"))
	if err != nil {
		t.Fatal(err)
	}
	defer id.Close()
	if _, err := id.WriteAt([]byte{0, 0x20, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0}, amdLeaf); err != nil {
		t.Fatal(err)
	}
	m.Root = fstest.MapFS{
		"proc/cpuinfo":                      {Data: []byte("vendor_id\t: " + vendor + "\ncpu family\t: " + family + "\n")},
		"proc/sys/kernel/random/boot_id":    {Data: []byte("boot-1\n")},
		"sys/devices/system/node/online":    {Data: []byte("0\n")},
		"proc/self/cgroup":                  {Data: []byte("0::/\n")},
		"sys/devices/system/cpu/cpu0/empty": {},
	}
	return filepath.Join(cpu, "msr")
}

func register(t *testing.T, file string, reg int64) byte {
	t.Helper()
	f, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var b [8]byte
	if _, err := f.ReadAt(b[:], reg); err != nil {
		t.Fatal(err)
	}
	return b[0]
}

func setRegister(t *testing.T, file string, reg int64, value byte) {
	t.Helper()
	f, err := os.OpenFile(file, os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := f.WriteAt([]byte{value}, reg); err != nil {
		t.Fatal(err)
	}
}

// Prefetchers are measured on and off, and are then as they were: after a run,
// and after one that was killed.
func TestPrefetchersAreRestored(t *testing.T) {
	for _, c := range []struct {
		vendor, family string
		reg            int64
		was, on, off   byte
	}{
		{"GenuineIntel", "6", intelReg, 0x22, 0x20, 0x2f},
		{"AuthenticAMD", "26", amdReg, 0x01, 0x00, 0x2f},
	} {
		m, plan := live(t, measure.PartLatency)
		msr := withRegisters(t, m, c.vendor, c.family, c.reg, c.was)
		plan.NodeCPUs = plan.NodeCPUs[:1]
		plan.NodeCPUs[0].CPU, plan.CPUs, plan.Request.MSR = 0, nil, true
		if !m.Host.Allowed.Has(0) {
			t.Skip("CPU 0 is not allowed")
		}
		d := measure.NewDocument(m.Root, m.Host)
		if err := m.Run(t.Context(), plan, d, nil); err != nil {
			t.Fatal(err)
		}
		if !d.Latency.Prefetchers.Known() && len(d.Run.Notes) > 0 && strings.Contains(strings.Join(d.Run.Notes, " "), "prefetchers") {
			t.Errorf("%s: %v", c.vendor, d.Run.Notes)
		}
		if got := register(t, msr, c.reg); got != c.was {
			t.Errorf("%s: register %#x after the run, was %#x", c.vendor, got, c.was)
		}
		if _, err := os.Stat(m.Restore); !os.IsNotExist(err) {
			t.Errorf("the promise is left: %v", err)
		}

		// A run that is killed with the register changed.
		p, err := m.openPrefetchers(0)
		if err != nil {
			t.Fatal(err)
		}
		if err := p.promise(m.bootID(), 0); err != nil {
			t.Fatal(err)
		}
		if err := p.write(p.was | p.off); err != nil {
			t.Fatal(err)
		}
		if got := register(t, msr, c.reg); got != c.off {
			t.Fatalf("%s: register %#x, want all off, %#x", c.vendor, got, c.off)
		}
		p.close() // as its end does
		d = measure.NewDocument(m.Root, m.Host)
		if err := m.Run(t.Context(), plan, d, nil); err != nil {
			t.Fatal(err)
		}
		if got := register(t, msr, c.reg); got != c.was {
			t.Errorf("%s: register %#x after the next run, was %#x", c.vendor, got, c.was)
		}
		if _, err := os.Stat(m.Restore); !os.IsNotExist(err) {
			t.Errorf("the promise is left: %v", err)
		}
	}
}

// Without the device, the CPU or a place to write the old value down nothing is
// measured, and one line says why.
func TestPrefetchersAreRefused(t *testing.T) {
	m, plan := live(t, measure.PartLatency)
	plan.Request.MSR = true
	for name, c := range map[string]struct {
		vendor string
		spoil  func(m *Machine)
		says   string
	}{
		"no device":     {"GenuineIntel", func(m *Machine) { m.CPUFiles = t.TempDir() }, "module msr"},
		"no cpuid":      {"AuthenticAMD", func(m *Machine) { m.CPUFiles = t.TempDir() }, "module cpuid"},
		"unknown CPU":   {"CentaurHauls", func(*Machine) {}, "no switches are known"},
		"a virtual CPU": {"GenuineIntel", func(m *Machine) { os.Truncate(filepath.Join(m.CPUFiles, "0", "msr"), 0) }, "virtual machine"},
	} {
		withRegisters(t, m, c.vendor, "6", intelReg, 0)
		c.spoil(m)
		plan.NodeCPUs[0].CPU = 0
		err := m.Run(t.Context(), plan, measure.NewDocument(m.Root, m.Host), nil)
		if !errors.Is(err, ErrNoMSR) || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// What a run that was killed left changed is put back before any other change:
// where that fails, --msr is refused and a run without it says so.
func TestPrefetchersLeftOff(t *testing.T) {
	m, plan := live(t, measure.PartLatency)
	msr := withRegisters(t, m, "GenuineIntel", "6", intelReg, 0x0f)
	plan.NodeCPUs = plan.NodeCPUs[:1]
	plan.NodeCPUs[0].CPU, plan.CPUs = m.Host.Allowed.Min(), nil
	// Of a CPU that is gone.
	left := []byte(`{"boot_id":"boot-1","cpu":7,"register":420,"was":0}`)
	if err := errors.Join(os.MkdirAll(filepath.Dir(m.Restore), 0o755), os.WriteFile(m.Restore, left, 0o600)); err != nil {
		t.Fatal(err)
	}
	d := measure.NewDocument(m.Root, m.Host)
	if err := m.Run(t.Context(), plan, d, nil); err != nil || !strings.Contains(strings.Join(d.Run.Notes, " "), "left off") {
		t.Errorf("without --msr: %v, run %+v", err, d.Run)
	}
	plan.Request.MSR = true
	err := m.Run(t.Context(), plan, d, nil)
	if !errors.Is(err, ErrNoMSR) || !strings.Contains(err.Error(), "CPU 7 were left off by a run that was killed") {
		t.Errorf("with --msr: %v", err)
	}
	if got := register(t, msr, intelReg); got != 0x0f {
		t.Errorf("register %#x, was 0xf", got)
	}
	if b, err := os.ReadFile(m.Restore); err != nil || string(b) != string(left) {
		t.Errorf("the promise is now %q, %v", b, err)
	}
}

// A record that is not what a run of ours writes changes no register, and is kept
// where it may still be needed; one without content was never acted on.
func TestPrefetchersBadRecord(t *testing.T) {
	m, plan := live(t, measure.PartLatency)
	msr := withRegisters(t, m, "GenuineIntel", "6", intelReg, 0x0f)
	root := m.Root.(fstest.MapFS)
	if err := os.MkdirAll(filepath.Dir(m.Restore), 0o755); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		record, boot string
		says         string // "" for no error and no record left
		want         byte   // register after
	}{
		"empty":            {"", "boot-1", "", 0x0f},
		"another boot":     {`{"boot_id":"boot-0","cpu":0,"register":420,"was":0}`, "boot-1", "", 0x0f},
		"this boot":        {`{"boot_id":"boot-1","cpu":0,"register":420,"was":2}`, "boot-1", "", 0x02},
		"torn":             {`{"boot_id":"boo`, "boot-1", "restarting the machine", 0x0f},
		"no boot ID now":   {`{"boot_id":"boot-1","cpu":0,"register":420,"was":0}`, "", "boot ID", 0x0f},
		"no boot ID then":  {`{"boot_id":"","cpu":0,"register":420,"was":0}`, "boot-1", "boot ID", 0x0f},
		"another register": {`{"boot_id":"boot-1","cpu":0,"register":432,"was":0}`, "boot-1", "register 0x1b0", 0x0f},
		"AMD's register":   {`{"boot_id":"boot-1","cpu":0,"register":3221225736,"was":0}`, "boot-1", "register 0xc0000108", 0x0f},
	} {
		t.Run(name, func(t *testing.T) {
			setRegister(t, msr, intelReg, 0x0f)
			root["proc/sys/kernel/random/boot_id"] = &fstest.MapFile{Data: []byte(c.boot + "\n")}
			if err := os.WriteFile(m.Restore, []byte(c.record), 0o600); err != nil {
				t.Fatal(err)
			}
			err := m.restoreLeft()
			b, gone := os.ReadFile(m.Restore)
			if c.says == "" && (err != nil || !os.IsNotExist(gone)) {
				t.Errorf("%v; the record: %q", err, b)
			}
			if c.says != "" && (err == nil || !strings.Contains(err.Error(), c.says) || string(b) != c.record) {
				t.Errorf("%v, want %q; the record: %q", err, c.says, b)
			}
			if got := register(t, msr, intelReg); got != c.want {
				t.Errorf("register %#x, want %#x", got, c.want)
			}
		})
	}
	// And with an empty record, or half of one not yet in place, --msr works.
	root["proc/sys/kernel/random/boot_id"] = &fstest.MapFile{Data: []byte("boot-1\n")}
	if err := errors.Join(os.WriteFile(m.Restore, nil, 0o600), os.WriteFile(m.Restore+".new", []byte("{"), 0o600)); err != nil {
		t.Fatal(err)
	}
	plan.NodeCPUs = plan.NodeCPUs[:1]
	plan.NodeCPUs[0].CPU, plan.CPUs, plan.Request.MSR = 0, nil, true
	if !m.Host.Allowed.Has(0) {
		t.Skip("CPU 0 is not allowed")
	}
	d := measure.NewDocument(m.Root, m.Host)
	if err := m.Run(t.Context(), plan, d, nil); err != nil || strings.Contains(strings.Join(d.Run.Notes, " "), "prefetchers") {
		t.Errorf("%v, run %+v", err, d.Run)
	}
}

// Only the bits of the prefetchers come from the record: it does not undo, or do,
// anything else in the register.
func TestPrefetchersKeepOtherBits(t *testing.T) {
	m, _ := live(t, measure.PartLatency)
	msr := withRegisters(t, m, "GenuineIntel", "6", intelReg, 0x2f)
	record := []byte(`{"boot_id":"boot-1","cpu":0,"register":420,"was":195}`) // 0xc3
	if err := errors.Join(os.MkdirAll(filepath.Dir(m.Restore), 0o755), os.WriteFile(m.Restore, record, 0o600)); err != nil {
		t.Fatal(err)
	}
	if err := m.restoreLeft(); err != nil {
		t.Fatal(err)
	}
	if got := register(t, msr, intelReg); got != 0x23 {
		t.Errorf("register %#x, want 0x23", got)
	}
}

// While one run has the prefetchers switched, no other switches them, nor takes
// that run for one that was killed.
func TestPrefetchersAreLocked(t *testing.T) {
	m, _ := live(t, measure.PartLatency)
	msr := withRegisters(t, m, "GenuineIntel", "6", intelReg, 0)
	p, err := m.openPrefetchers(0)
	if err != nil {
		t.Fatal(err)
	}
	defer p.close()
	if err := errors.Join(p.promise(m.bootID(), 0), p.write(p.off)); err != nil {
		t.Fatal(err)
	}
	if err := m.restoreLeft(); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(m.Restore); err != nil || register(t, msr, intelReg) != 0x0f {
		t.Errorf("put back under the hands of the run: %v", err)
	}
	if _, err := m.openPrefetchers(0); !errors.Is(err, ErrNoMSR) || !strings.Contains(err.Error(), "another") {
		t.Errorf("a second run: %v", err)
	}
	p.close() // its end
	if p, err = m.openPrefetchers(0); err != nil {
		t.Fatal(err)
	}
	if p.was != 0 || register(t, msr, intelReg) != 0 {
		t.Errorf("the next run finds %#x as the old value", p.was)
	}
	p.close()
}

// Nothing is changed where the boot cannot be told from the next.
func TestPrefetchersNeedABootID(t *testing.T) {
	m, _ := live(t, measure.PartLatency)
	withRegisters(t, m, "GenuineIntel", "6", intelReg, 0)
	p, err := m.openPrefetchers(0)
	if err != nil {
		t.Fatal(err)
	}
	defer p.close()
	if err := p.promise("", 0); !errors.Is(err, ErrNoMSR) {
		t.Error(err)
	}
	if _, err := os.Stat(m.Restore); !os.IsNotExist(err) {
		t.Errorf("a record all the same: %v", err)
	}
}

// Memory that does not land where it is bound is left out, live: this machine
// is given a node that it has not got.
func TestCellsOfABadBindAreExcluded(t *testing.T) {
	m, plan := live(t, measure.PartLatency)
	if len(m.Host.Nodes) != 1 {
		t.Skip("needs a machine of one node")
	}
	ghost := m.Host.Nodes[0]
	ghost.ID++
	m.Host.Nodes = append(m.Host.Nodes[:1:1], ghost)
	again := plan.Buffers[0]
	again.Node++
	plan.Buffers = append(plan.Buffers[:1:1], again)
	plan.LeftOut = append(plan.LeftOut, measure.Left{Node: int(ghost.ID), Why: "it is a ghost"})
	d := measure.NewDocument(m.Root, m.Host)
	err := m.Run(t.Context(), plan, d, nil)
	if errors.Is(err, unix.ENOSYS) || errors.Is(err, unix.EPERM) {
		t.Skip(err) // emulators of processes and some containers have no mbind
	}
	if err != nil {
		t.Fatal(err)
	}
	if flag := d.Latency.Flags[0][1]; !strings.HasPrefix(flag, "failed: ") || !strings.Contains(flag, "cannot be bound to node1") || d.Latency.Median[0][1].Known() {
		t.Errorf("cell of the ghost: %q %v", flag, d.Latency.Median[0][1])
	}
	for _, v := range doctor.Diagnose(d, doctor.DefaultLimits).Verdicts {
		if v.State == doctor.CellsExcluded && strings.Contains(v.Says, "cannot be bound to node1") {
			t.Log(v.Says)
			return
		}
	}
	t.Error("the doctor does not tell of it")
}
