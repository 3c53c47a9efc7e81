package irq

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"
	"pgregory.net/rapid"

	"github.com/homenode/homenode/core/irq"
	"github.com/homenode/homenode/core/plan"
	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/core/workload"
	"github.com/homenode/homenode/host/internal/kernfile"
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
	ever          bool // and each call after it
	err           error
	writes        int
	stuck         bool // writes are accepted and do nothing
}

func (f *faulty) fails(op, name string) error {
	if f.calls++; f.calls == f.failAt || f.ever && f.calls > f.failAt {
		return &fs.PathError{Op: op, Path: name, Err: f.err}
	}
	return nil
}

func (f *faulty) Read(name string) (string, error) {
	if err := f.fails("read", name); err != nil {
		return "", err
	}
	return f.files.Read(name)
}

func (f *faulty) Write(name, text string) error {
	if err := f.fails("write", name); err != nil {
		return err
	}
	f.writes++
	if f.stuck {
		return nil
	}
	return f.files.Write(name, text)
}

func (f *faulty) List(dir string) ([]string, error) {
	if err := f.fails("readdir", dir); err != nil {
		return nil, err
	}
	return f.files.List(dir)
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

func (f *faulty) Link(name string) (string, error) {
	if err := f.fails("readlink", name); err != nil {
		return "", err
	}
	return f.files.Link(name)
}

func stepTo(kind plan.StepKind, path, to string) plan.Step {
	return plan.Step{Kind: kind, Workload: "device:eth0", Target: plan.Target{Kind: workload.InDevice, Device: path}, To: to}
}

var steps = []plan.Step{
	stepTo(plan.SetIRQ, nic+"/40", "4-7"), stepTo(plan.SetIRQ, nic+"/41", "4"),
	stepTo(plan.SetRPS, nic+"/eth0/rx-0", "4-7,33"), stepTo(plan.SetXPS, nic+"/eth0/tx-0", "4-5"),
}

// restore puts one entry back.
func restore(d *Driver, e plan.Entry) error {
	return d.Restore(context.Background(), []plan.Entry{e})[0]
}

func TestDevices(t *testing.T) {
	h := &topology.Host{Devices: []topology.Device{
		{Name: "eth0", Kind: topology.NIC, PCI: nic, Node: 1}, {Name: "mlx5_0", Kind: topology.Accel, PCI: nic, Node: 1},
		{Name: "eth1", Kind: topology.NIC, PCI: "0000:82:00.0", Node: 1}, {Name: "eth2", Kind: topology.NIC, PCI: nic, Node: topology.None},
	}}
	root := machine(t)
	put(t, root, map[string]string{"sys/bus/pci/devices/" + nic + "/msi_irqs/100": "msix", "sys/kernel/irq/100/actions": "eth0-TxRx-1", "proc/irq/100/smp_affinity_list": "1"})
	got, err := New(root).Devices(t.Context(), h)
	if err != nil {
		t.Fatal(err)
	}
	want := []irq.Device{{Name: "eth0", Kind: topology.NIC, PCI: nic, Node: 1,
		Interrupts: []irq.Interrupt{{Number: 40, Name: "eth0-config", CPUs: topology.CPUs(0, 1, 2, 3)}, {Number: 41, Name: "eth0-TxRx-0", CPUs: topology.CPUs(0)},
			{Number: 100, Name: "eth0-TxRx-1", CPUs: topology.CPUs(1)}},
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
	f := &faulty{files: disk{kernfile.Tree(root)}}
	d := &Driver{f}
	var have []plan.Change
	for _, s := range steps {
		x, err := d.Changes(t.Context(), s)
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
			if err := errors.Join(d.Present(e), restore(d, e)); err != nil {
				t.Error(err)
			}
		}
		if diff := cmp.Diff(before, tree(t, root)); diff != "" {
			t.Error(diff)
		}
	}
}

// The nth call fails, for every n and step, alone or with all after it: either the step
// has come out, or its file has the old value, or the error says that it could not be put
// back.
func TestNthCallFails(t *testing.T) {
	for _, errno := range []error{unix.EIO, unix.ENOSPC, unix.EINVAL, unix.ENODEV, unix.EACCES} {
		for _, s := range steps {
			root, n := machine(t), 1
			for nthCallFails(t, root, s, n, errno, false) {
				nthCallFails(t, root, s, n, errno, true)
				n++
			}
			if n < 5 {
				t.Errorf("%s: only %d calls", s.Target.Device, n-1)
			}
		}
	}
}

// nthCallFails leaves the tree as it was, and reports whether the step has so many calls.
func nthCallFails(t *testing.T, root string, s plan.Step, n int, errno error, ever bool) bool {
	before := tree(t, root)
	f := &faulty{files: disk{kernfile.Tree(root)}, failAt: n, err: errno, ever: ever}
	err := (&Driver{f}).Apply(t.Context(), s, nil)
	if f.calls < n {
		if err != nil {
			t.Fatal(err)
		}
		return false
	}
	switch {
	case err == nil:
		t.Fatalf("%s: call %d failed with %v and Apply did not", s.Target.Device, n, errno)
	case cmp.Equal(before, tree(t, root)):
	case kernfile.Gone(err): // the journal keeps its entry, and prune finds out
	case !strings.Contains(err.Error(), "restore: "):
		t.Errorf("%s, call %d, %v: changed and not told: %v", s.Target.Device, n, errno, err)
	}
	for name, text := range before {
		if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return true
}

// A call of undo that fails is told, and the next undo puts back what is left.
func TestNthCallOfRestoreFails(t *testing.T) {
	for _, s := range append(slices.Clone(steps), countStep) {
		root := machine(t)
		before := tree(t, root)
		for n := 1; ; n++ {
			c := &counting{disk: disk{kernfile.Tree(root)}, now: 2, most: 8}
			f := &faulty{files: c}
			d := &Driver{f}
			have, err := d.Changes(t.Context(), s)
			if err != nil {
				t.Fatal(err)
			}
			if err := d.Apply(t.Context(), s, nil); err != nil {
				t.Fatal(err)
			}
			e := plan.Entry{Kind: have[0].Kind, Path: have[0].Path, Old: have[0].Value, New: have[0].Will}
			f.failAt, f.err = f.calls+n, unix.EIO
			err = restore(d, e)
			if f.calls < f.failAt {
				if err != nil || n < 5 {
					t.Errorf("%s: %d calls, %v", e.Path, n-1, err)
				}
				break
			}
			if err == nil {
				t.Errorf("%s: call %d failed and Restore did not", e.Path, n)
			}
			if err := restore(d, e); err != nil || c.now != 2 || !cmp.Equal(before, tree(t, root)) {
				t.Errorf("%s, call %d: the second undo: %v, %d queues, %s", e.Path, n, err, c.now, cmp.Diff(before, tree(t, root)))
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
			f := &faulty{files: disk{kernfile.Tree(root)}, failAt: calls, err: errno}
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
	d := &Driver{&faulty{files: disk{kernfile.Tree(machine(t))}, stuck: true}}
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
			for _, err := range []error{d.Present(tt.entry), restore(d, tt.entry)} {
				if err == nil || kernfile.Gone(err) != tt.gone {
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
			have, err := d.Changes(t.Context(), s)
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
			if err := restore(d, e); err != nil {
				r.Fatal(err)
			}
		}
		if diff := cmp.Diff(before, tree(t, root)); diff != "" {
			r.Fatal(diff)
		}
	})
}

// What somebody else has set since is theirs (R2). The same CPUs in other words are not
// another value.
func TestSetBySomebodyElse(t *testing.T) {
	for i, c := range []struct{ name, file, alike, foreign, subset string }{
		{"interrupt", "proc/irq/40/smp_affinity_list", "4,5-7", "0", "4-6"},
		{"interrupt", "proc/irq/41/smp_affinity_list", "4-4", "0-7", "5"},
		{"RPS", "sys/class/net/eth0/queues/rx-0/rps_cpus", "0002,000000f0", "f0", "10"},
		{"XPS", "sys/class/net/eth0/queues/tx-0/xps_cpus", "0,00000030", "4", "10"},
	} {
		t.Run(c.name, func(t *testing.T) {
			root := machine(t)
			d := New(root)
			have, err := d.Changes(t.Context(), steps[i])
			if err != nil || len(have) != 1 || !slices.Contains(d.Owns(), have[0].Kind) || d.SurvivesBoot(have[0].Kind) {
				t.Fatal(have, err)
			}
			before := tree(t, root)[filepath.Join(root, strings.Replace(c.file, "class/net", "devices/"+nic+"/net", 1))]
			e := plan.Entry{Kind: have[0].Kind, Path: have[0].Path, Old: have[0].Value, New: have[0].Will, Past: []string{"1,3"}}
			check := func(value string, ours bool) {
				t.Helper()
				now, err := d.Read(t.Context(), e)
				if err != nil || now.Kind != e.Kind || now.Path != e.Path || now.Value != value || e.Ours(now) != ours {
					t.Errorf("%+v %v, ours %v; want %q, %v", now, err, e.Ours(now), value, ours)
				}
			}
			check(strings.TrimSpace(before), true)
			if err := d.Apply(t.Context(), steps[i], nil); err != nil {
				t.Fatal(err)
			}
			check(steps[i].To, true)
			put(t, root, map[string]string{c.file: c.alike})
			check(steps[i].To, true)
			past := "1,3"
			if i > 1 {
				past = "a"
			}
			put(t, root, map[string]string{c.file: past})
			check("1,3", true)
			for _, v := range []string{c.foreign, c.subset} {
				put(t, root, map[string]string{c.file: v})
				check(v, false)
			}
			put(t, root, map[string]string{c.file: "x"})
			if now, err := d.Read(t.Context(), e); err == nil {
				t.Errorf("%+v", now)
			}
		})
	}
	c := &counting{disk: disk{kernfile.Tree(machine(t))}, now: 2, most: 8}
	d := &Driver{c}
	e := plan.Entry{Kind: plan.QueueCount, Path: nic + "/eth0", Old: "2", New: "4"}
	for n, ours := range map[int]bool{2: true, 4: true, 3: false} {
		c.now = n
		if now, err := d.Read(t.Context(), e); err != nil || now.Value != fmt.Sprint(n) || e.Ours(now) != ours {
			t.Errorf("%d queues: %+v %v", n, now, err)
		}
	}
	if now, err := d.Read(t.Context(), plan.Entry{Kind: plan.CgroupCPUs, Path: "/a"}); err == nil {
		t.Errorf("%+v of another kind", now)
	}
}

// Every call of reading fails once: that is an error and no value. A device that does not
// tell its queues has a note instead.
func TestEachCallOfReadingFailing(t *testing.T) {
	h := &topology.Host{Devices: []topology.Device{{Name: "eth0", Kind: topology.NIC, PCI: nic, Node: 1}}}
	root := machine(t)
	for _, step := range append(slices.Clone(steps), countStep) {
		model := func(n int) (*faulty, *Driver) {
			f := &faulty{files: &counting{disk: disk{kernfile.Tree(root)}, now: 2, most: 8}, failAt: n, err: unix.EIO}
			return f, &Driver{f}
		}
		_, d := model(0)
		have, err := d.Changes(t.Context(), step)
		if err != nil {
			t.Fatal(err)
		}
		e := plan.Entry{Kind: have[0].Kind, Path: have[0].Path, Old: have[0].Value, New: have[0].Will}
		for what, read := range map[string]func(*Driver) error{
			"Changes": func(d *Driver) error { _, err := d.Changes(t.Context(), step); return err },
			"Read":    func(d *Driver) error { _, err := d.Read(t.Context(), e); return err },
			"Present": func(d *Driver) error { return d.Present(e) },
			"Devices": func(d *Driver) error {
				all, err := d.Devices(t.Context(), h)
				if err == nil && strings.Contains(all[0].NoChannels, "failed") {
					return errors.New(all[0].NoChannels)
				}
				return err
			},
		} {
			for n := 1; ; n++ {
				f, d := model(n)
				err := read(d)
				if f.calls < n {
					if err != nil || n < 3 {
						t.Errorf("%s of %s, %d calls: %v", what, e.Path, f.calls, err)
					}
					break
				}
				if err == nil {
					t.Errorf("%s of %s: call %d fails, and there is no error", what, e.Path, n)
				}
			}
		}
		ended, cancel := context.WithCancel(t.Context())
		cancel()
		f, d := model(0)
		_, err1 := d.Changes(ended, step)
		_, err2 := d.Read(ended, e)
		_, err3 := d.Devices(ended, h)
		for _, err := range []error{err1, err2, err3, d.Apply(ended, step, nil), restore(d, e), d.Restore(ended, []plan.Entry{e})[0]} {
			if err != nil && !errors.Is(err, context.Canceled) {
				t.Error(err)
			}
		}
		if err1 == nil || err2 == nil || err3 == nil || f.writes > 0 {
			t.Errorf("%v %v %v, %d writes without time", err1, err2, err3, f.writes)
		}
	}
}

func TestRefusedInWords(t *testing.T) {
	irq, queue := setting{kind: plan.IRQAffinity, path: nic + "/40"}, setting{kind: plan.RPSCPUs, path: nic + "/eth0/rx-0"}
	for _, c := range []struct {
		s     setting
		op    string
		errno error
		fixed bool
		says  string
	}{
		{irq, "write", unix.EPERM, true, nic + "/40 is kept by the kernel"},
		{irq, "write", unix.EIO, true, "input/output error"},
		{irq, "write", unix.ENOSPC, false, "no interrupt vector left"},
		{irq, "write", unix.EINVAL, false, "none of these CPUs is online"},
		{irq, "open", unix.EPERM, false, "needs root"},
		{queue, "write", unix.EPERM, false, "needs root"},
		{queue, "open", unix.EACCES, false, "needs root"},
		{queue, "open", unix.EROFS, false, "read-only"},
	} {
		err := refused(c.s, "1", &fs.PathError{Op: c.op, Err: c.errno})
		if errors.Is(err, plan.ErrFixed) != c.fixed || !strings.Contains(err.Error(), c.says) || !c.fixed && !errors.Is(err, c.errno) {
			t.Errorf("%s of %s says %v: %v", c.op, c.s.path, c.errno, err)
		}
	}
}
