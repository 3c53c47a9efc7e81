package irq

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"
	"pgregory.net/rapid"

	"github.com/homenode/homenode/core/irq"
	"github.com/homenode/homenode/core/plan"
	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/core/workload"
)

const nic = "0000:81:00.0"

// machine is a tree with a NIC of two queues on node 1 and an interrupt that has
// no handler.
func machine(t testing.TB) string {
	root := t.TempDir()
	put(t, root, map[string]string{
		"proc/irq/40/smp_affinity_list":                          "0-3",
		"proc/irq/41/smp_affinity_list":                          "0",
		"proc/irq/42/smp_affinity_list":                          "0-7",
		"sys/kernel/irq/40/actions":                              "eth0-config",
		"sys/kernel/irq/41/actions":                              "eth0-TxRx-0",
		"sys/kernel/irq/42/actions":                              "",
		"sys/bus/pci/devices/" + nic + "/msi_irqs/40":            "msix",
		"sys/bus/pci/devices/" + nic + "/msi_irqs/41":            "msix",
		"sys/bus/pci/devices/" + nic + "/msi_irqs/42":            "msix",
		"sys/devices/" + nic + "/net/eth0/queues/rx-0/rps_cpus":  "00",
		"sys/devices/" + nic + "/net/eth0/queues/rx-10/rps_cpus": "0f",
		"sys/devices/" + nic + "/net/eth0/queues/rx-2/rps_cpus":  "01",
		"sys/devices/" + nic + "/net/eth0/queues/tx-0/xps_cpus":  "00000000,000000ff",
	})
	if err := os.MkdirAll(filepath.Join(root, "sys/class/net"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("../../devices/"+nic+"/net/eth0", filepath.Join(root, "sys/class/net/eth0")); err != nil {
		t.Fatal(err)
	}
	return root
}

func put(t testing.TB, root string, files map[string]string) {
	t.Helper()
	for name, text := range files {
		name = filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(text+"\n"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// tree is every file below root with its text.
func tree(t testing.TB, root string) map[string]string {
	t.Helper()
	all := map[string]string{}
	err := filepath.WalkDir(root, func(path string, e fs.DirEntry, err error) error {
		if err != nil || !e.Type().IsRegular() {
			return err
		}
		b, err := os.ReadFile(path)
		all[path] = string(b)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// faulty fails the nth call.
type faulty struct {
	files
	calls, failAt int
	err           error
	writes        int
	stuck         bool // writes are accepted and do nothing
}

func (f *faulty) fails(op, name string) error {
	if f.calls++; f.calls == f.failAt {
		return &fs.PathError{Op: op, Path: name, Err: f.err}
	}
	return nil
}

func (f *faulty) read(name string) (string, error) {
	if err := f.fails("read", name); err != nil {
		return "", err
	}
	return f.files.read(name)
}

func (f *faulty) write(name, text string) error {
	if err := f.fails("write", name); err != nil {
		return err
	}
	f.writes++
	if f.stuck {
		return nil
	}
	return f.files.write(name, text)
}

func (f *faulty) list(dir string) ([]string, error) {
	if err := f.fails("readdir", dir); err != nil {
		return nil, err
	}
	return f.files.list(dir)
}

func (f *faulty) channels(dev string) (now, most int, err error) {
	if err := f.fails("ioctl", dev); err != nil {
		return 0, 0, err
	}
	return f.files.channels(dev)
}

func (f *faulty) setChannels(dev string, n int) error {
	if err := f.fails("ioctl", dev); err != nil {
		return err
	}
	f.writes++
	if f.stuck {
		return nil
	}
	return f.files.setChannels(dev, n)
}

func (f *faulty) link(name string) (string, error) {
	if err := f.fails("readlink", name); err != nil {
		return "", err
	}
	return f.files.link(name)
}

func stepTo(kind plan.StepKind, path, to string) plan.Step {
	return plan.Step{Kind: kind, Workload: "device:eth0", Target: plan.Target{Kind: workload.InDevice, Device: path}, To: to}
}

var steps = []plan.Step{
	stepTo(plan.SetIRQ, nic+"/40", "4-7"), stepTo(plan.SetIRQ, nic+"/41", "4"),
	stepTo(plan.SetRPS, nic+"/eth0/rx-0", "4-7,33"), stepTo(plan.SetXPS, nic+"/eth0/tx-0", "4-5"),
}

func TestDevices(t *testing.T) {
	h := &topology.Host{Devices: []topology.Device{
		{Name: "eth0", Kind: topology.NIC, PCI: nic, Node: 1}, {Name: "mlx5_0", Kind: topology.Accel, PCI: nic, Node: 1},
		{Name: "eth1", Kind: topology.NIC, PCI: "0000:82:00.0", Node: 1}, {Name: "eth2", Kind: topology.NIC, PCI: nic, Node: topology.None},
	}}
	got, err := New(machine(t)).Devices(t.Context(), h)
	if err != nil {
		t.Fatal(err)
	}
	want := []irq.Device{{Name: "eth0", Kind: topology.NIC, PCI: nic, Node: 1,
		Interrupts: []irq.Interrupt{{Number: 40, Name: "eth0-config", CPUs: topology.CPUs(0, 1, 2, 3)}, {Number: 41, Name: "eth0-TxRx-0", CPUs: topology.CPUs(0)}},
		Rx:         []irq.Queue{{Name: "eth0/rx-0"}, {Name: "eth0/rx-2", CPUs: topology.CPUs(0)}, {Name: "eth0/rx-10", CPUs: topology.CPUs(0, 1, 2, 3)}},
		Tx:         []irq.Queue{{Name: "eth0/tx-0", CPUs: topology.CPUs(0, 1, 2, 3, 4, 5, 6, 7)}},
		NoChannels: "the driver of eth0 does not tell it",
	}}
	if diff := cmp.Diff(want, got, cmp.Comparer(topology.CPUSet.Equal)); diff != "" {
		t.Error(diff)
	}
}

// Every step changes its file as the kernel wants it, once; restoring leaves the
// tree byte by byte as it was.
func TestApplyAndRestore(t *testing.T) {
	root := machine(t)
	before := tree(t, root)
	f := &faulty{files: disk{root}}
	d := &Driver{f}
	var have []plan.Setting
	for _, s := range steps {
		x, err := d.Settings(t.Context(), s)
		if err != nil || len(x) != 1 {
			t.Fatalf("%v: %v, %v", s.Target, x, err)
		}
		have = append(have, x...)
		for range 2 {
			if err := d.Apply(t.Context(), s, nil); err != nil {
				t.Fatal(err)
			}
		}
	}
	if f.writes != len(steps) {
		t.Errorf("%d writes for %d steps", f.writes, len(steps))
	}
	for name, want := range map[string]string{
		"proc/irq/40/smp_affinity_list": "4-7\n", "proc/irq/41/smp_affinity_list": "4\n",
		"sys/class/net/eth0/queues/rx-0/rps_cpus": "2,000000f0\n", "sys/class/net/eth0/queues/tx-0/xps_cpus": "30\n",
	} {
		if b, err := os.ReadFile(filepath.Join(root, name)); err != nil || string(b) != want {
			t.Errorf("%s: %q, %v, want %q", name, b, err, want)
		}
	}
	for range 2 {
		for _, s := range have {
			e := plan.Entry{Kind: s.Kind, Path: s.Path, Old: s.Value}
			if err := errors.Join(d.Present(e), d.Restore(t.Context(), e)); err != nil {
				t.Error(err)
			}
		}
		if diff := cmp.Diff(before, tree(t, root)); diff != "" {
			t.Error(diff)
		}
	}
}

// The nth call fails, for every n and step: either the step has come out, or its file
// has the old value, or the error says that it could not be put back.
func TestNthCallFails(t *testing.T) {
	for _, errno := range []error{unix.EIO, unix.ENOSPC, unix.EINVAL, unix.ENODEV, unix.EACCES} {
		for i, s := range steps {
			failed := 0
			for n := 1; ; n++ {
				root := machine(t)
				before := tree(t, root)
				f := &faulty{files: disk{root}, failAt: n, err: errno}
				err := (&Driver{f}).Apply(t.Context(), s, nil)
				if f.calls < n {
					if err != nil {
						t.Fatal(err)
					}
					break
				}
				after := tree(t, root)
				switch {
				case err == nil:
					t.Fatalf("step %d: call %d failed with %v and Apply did not", i, n, errno)
				case cmp.Equal(before, after):
				case gone(err): // the journal keeps its entry, and prune finds out
				case !strings.Contains(err.Error(), "put back"):
					t.Errorf("step %d, call %d, %v: changed and not told: %v", i, n, errno, err)
				}
				failed++
			}
			if failed < 4 {
				t.Errorf("step %d: only %d calls", i, failed)
			}
		}
	}
}

func TestManagedByTheKernel(t *testing.T) {
	for _, errno := range []error{unix.EPERM, unix.EIO} {
		root := machine(t)
		before := tree(t, root)
		d := New(root)
		var calls int
		for calls = 1; ; calls++ { // find the write
			f := &faulty{files: disk{root}, failAt: calls, err: errno}
			d.files = f
			err := d.Apply(t.Context(), steps[1], nil)
			if errors.Is(err, plan.ErrFixed) {
				break
			}
			if err == nil || calls > 50 {
				t.Fatalf("%v: no write is known as refused: %v", errno, err)
			}
		}
		if diff := cmp.Diff(before, tree(t, root)); diff != "" {
			t.Error(diff)
		}
	}
	// Without root the file does not even open: that is no managed interrupt.
	err := refused(setting{kind: plan.IRQAffinity}, "1", &fs.PathError{Op: "open", Err: unix.EPERM})
	if errors.Is(err, plan.ErrFixed) || !strings.Contains(err.Error(), "needs root") {
		t.Error(err)
	}
}

func TestAcceptedAndNotDone(t *testing.T) {
	d := &Driver{&faulty{files: disk{machine(t)}, stuck: true}}
	if err := d.Apply(t.Context(), steps[0], nil); err == nil || !strings.Contains(err.Error(), "someone else") {
		t.Error(err)
	}
}

// What is no longer the device's is gone; what cannot be looked at is not.
func TestGone(t *testing.T) {
	entry := func(i int) plan.Entry {
		return plan.Entry{Kind: kinds[steps[i].Kind], Path: steps[i].Target.Device, Old: "1"}
	}
	remove := func(names ...string) func(string) {
		return func(root string) {
			for _, n := range names {
				os.RemoveAll(filepath.Join(root, n))
			}
		}
	}
	tests := []struct {
		name   string
		entry  plan.Entry
		change func(root string)
		gone   bool
	}{
		{"the number is another device's now", entry(0), remove("sys/bus/pci/devices/" + nic + "/msi_irqs/40"), true},
		{"the interrupt", entry(0), remove("proc/irq/40"), true},
		{"the network device", entry(2), remove("sys/class/net/eth0", "sys/devices"), true},
		{"the name is another device's now", entry(3), func(root string) {
			os.Remove(filepath.Join(root, "sys/class/net/eth0"))
			os.Symlink("../../devices/0000:01:00.0/net/eth0", filepath.Join(root, "sys/class/net/eth0"))
		}, true},
		{"proc is not mounted", entry(0), remove("proc"), false},
		{"sys is not mounted", entry(2), remove("sys"), false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			root := machine(t)
			d := New(root)
			if err := d.Present(tt.entry); err != nil {
				t.Fatal(err)
			}
			tt.change(root)
			for _, err := range []error{d.Present(tt.entry), d.Restore(t.Context(), tt.entry)} {
				if err == nil || gone(err) != tt.gone {
					t.Errorf("%v, want gone %v", err, tt.gone)
				}
			}
		})
	}
}

// A path out of a journal leads nowhere else.
func TestPathsStayInside(t *testing.T) {
	for _, bad := range []string{"", "/", nic, nic + "/", nic + "/../40", nic + "/40/x", "../" + nic + "/40", nic + "/4x",
		nic + "/../rx-0", nic + "/./rx-0", nic + "/eth0/rx-0/..", nic + "/eth0/tx-", nic + "/eth0/ty-0", nic + "/e/h/rx-0"} {
		for _, kind := range []plan.SettingKind{plan.IRQAffinity, plan.RPSCPUs, plan.XPSCPUs, plan.CgroupCPUs} {
			if s, err := parse(kind, bad); err == nil {
				t.Errorf("%s %q: %s", kind, bad, s.file)
			}
		}
	}
}

// From any state the plan of core/irq is carried out, a second look plans nothing,
// and undoing it all leaves the tree as it was.
func TestPlaceAndUndoProperties(t *testing.T) {
	h, err := topology.FromSynthetic("package:2 node:1 core:4 pu:1")
	if err != nil {
		t.Fatal(err)
	}
	h.Devices = []topology.Device{{Name: "eth0", Kind: topology.NIC, PCI: nic, Node: 1}}
	root := machine(t)
	rapid.Check(t, func(r *rapid.T) {
		list := func(name string) string {
			return topology.SetOf(rapid.SliceOfN(rapid.Map(rapid.IntRange(0, 7), func(i int) topology.CPUID { return topology.CPUID(i) }), 1, 8).Draw(r, name)...).String()
		}
		mask := func(name string) string { return fmt.Sprintf("%02x", rapid.IntRange(0, 255).Draw(r, name)) }
		put(t, root, map[string]string{
			"proc/irq/40/smp_affinity_list": list("40"), "proc/irq/41/smp_affinity_list": list("41"), "proc/irq/42/smp_affinity_list": list("42"),
			"sys/class/net/eth0/queues/rx-0/rps_cpus": mask("rx-0"), "sys/class/net/eth0/queues/tx-0/xps_cpus": mask("tx-0"),
		})
		before := maps.Clone(tree(t, root))
		avoid, _ := topology.ParseCPUSet(list("avoid"))
		d := New(root)
		look := func() irq.Plan {
			devices, err := d.Devices(t.Context(), h)
			if err != nil {
				r.Fatal(err)
			}
			return irq.Decide(h, avoid, devices, irq.KeepQueues)
		}
		var entries []plan.Entry
		for _, s := range look().Steps {
			have, err := d.Settings(t.Context(), s)
			if err != nil {
				r.Fatal(err)
			}
			entries = append(entries, plan.Entry{Kind: have[0].Kind, Path: have[0].Path, Old: have[0].Value})
			if err := d.Apply(t.Context(), s, nil); err != nil {
				r.Fatal(err)
			}
		}
		if left := look().Steps; len(left) > 0 {
			r.Fatalf("left to do: %+v", left)
		}
		for _, e := range entries {
			if err := d.Restore(t.Context(), e); err != nil {
				r.Fatal(err)
			}
		}
		if diff := cmp.Diff(before, tree(t, root)); diff != "" {
			r.Fatal(diff)
		}
	})
}
