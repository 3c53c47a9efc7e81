package main

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/homenode/homenode/api"
	"github.com/homenode/homenode/core/hostprep"
	"github.com/homenode/homenode/core/plan"
	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/core/workload"
	"github.com/homenode/homenode/daemon"
	"github.com/homenode/homenode/daemon/memory"
	"github.com/homenode/homenode/host/irq"
	"github.com/homenode/homenode/host/prepare"
	"github.com/homenode/homenode/host/store"
)

const nic = "0000:81:00.0"

// hostTree is what `host prepare` changes on a machine with systemd, as files.
func hostTree(t *testing.T) string {
	root := t.TempDir()
	for name, text := range map[string]string{
		hostprep.Workqueue: "ff", hostprep.Writeback: "ff", hostprep.DefaultIRQ: "ff", hostprep.KSM: "1",
		"run/systemd/system/x": "", "sys/fs/cgroup/cgroup.controllers": "cpuset cpu", "sys/fs/cgroup/cpuset.cpus.effective": "0-7",
		"sys/fs/cgroup/system.slice/cgroup.procs": "1", "sys/fs/cgroup/system.slice/cpuset.cpus": "",
		"sys/fs/cgroup/user.slice/cgroup.procs": "1", "sys/fs/cgroup/user.slice/cpuset.cpus": "0-3",
		"sys/devices/system/node/node0/hugepages/hugepages-2048kB/nr_hugepages": "5",
		"proc/irq/9/smp_affinity_list":                                          "0-7", "sys/kernel/irq/9/actions": "acpi",
		"proc/irq/40/smp_affinity_list": "0-7", "sys/kernel/irq/40/actions": "eth0-TxRx-0", "sys/bus/pci/devices/" + nic + "/msi_irqs/40": "msix",
		"sys/devices/" + nic + "/net/eth0/queues/rx-0/rps_cpus": "00",
	} {
		name = filepath.Join(root, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(name), 0o755), os.WriteFile(name, []byte(text+"\n"), 0o644)); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(os.MkdirAll(root+"/sys/class/net", 0o755), os.Symlink("../../devices/"+nic+"/net/eth0", root+"/sys/class/net/eth0")); err != nil {
		t.Fatal(err)
	}
	return root
}

// treeUnits is a systemd that keeps AllowedCPUs in its units' cgroups.
type treeUnits struct{ root string }

func (u treeUnits) file(unit string) string {
	return filepath.Join(u.root, "sys/fs/cgroup", hostprep.CgroupOf(unit), "cpuset.cpus")
}

func (u treeUnits) AllowedCPUs(_ context.Context, unit string) (topology.CPUSet, error) {
	b, err := os.ReadFile(u.file(unit))
	if err != nil {
		return topology.CPUSet{}, err
	}
	return topology.ParseCPUSet(string(b))
}

func (u treeUnits) SetAllowedCPUs(_ context.Context, unit string, cpus topology.CPUSet) error {
	return os.WriteFile(u.file(unit), []byte(cpus.String()+"\n"), 0o644)
}

func (u treeUnits) Stop(context.Context, string) error { return errors.ErrUnsupported }

func readTree(t *testing.T, root string) map[string]string {
	all := map[string]string{}
	err := filepath.WalkDir(root, func(path string, e fs.DirEntry, err error) error {
		if err != nil || !e.Type().IsRegular() {
			return err
		}
		b, err := os.ReadFile(path)
		all[strings.TrimPrefix(path, root+"/")] = string(b)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// crash counts the calls that change something, on disk or on the host; the nth and
// all after it do not come, as if the process had been killed, before or after.
type crash struct {
	calls, at int
	after     bool
}

func (c *crash) do(call func() error) error {
	if c.calls++; c.at > 0 && (c.calls > c.at || c.calls == c.at && !c.after) {
		return errKilled
	}
	err := call()
	if c.calls == c.at {
		return errKilled
	}
	return err
}

var errKilled = errors.New("killed")

type crashStore struct {
	daemon.Store
	c *crash
}

func (s crashStore) Commit(b plan.Batch) error {
	return s.c.do(func() error { return s.Store.Commit(b) })
}

func (s crashStore) Close() error { return nil }

type crashDriver struct {
	daemon.Driver
	c *crash
}

func (d crashDriver) Apply(ctx context.Context, step plan.Step, p func(plan.Move)) error {
	return d.c.do(func() error { return d.Driver.Apply(ctx, step, p) })
}

// preparer works on a tree; s is its store.
func preparer(root string, s daemon.Store, c *crash) *daemon.Local {
	open := func() (daemon.Store, error) { return crashStore{s, c}, nil }
	return &daemon.Local{Open: open, OpenUndo: open, OpenRead: open, Options: daemon.Options{BootID: "this", Clock: wallClock{}, Drivers: map[workload.Kind]daemon.Driver{
		workload.InHost:   crashDriver{prepare.New(root, treeUnits{root}), c},
		workload.InDevice: crashDriver{irq.New(root), c},
	}}}
}

func stepsOf(t *testing.T, root string) []plan.Step {
	t.Helper()
	h, err := topology.FromSynthetic("node:1(memory=8GiB hugepages=2MiB:5) core:4 pu:2")
	if err != nil {
		t.Fatal(err)
	}
	h.Devices = []topology.Device{{Name: "eth0", Kind: topology.NIC, PCI: nic}}
	pages := readTree(t, root)["sys/devices/system/node/node0/hugepages/hugepages-2048kB/nr_hugepages"]
	h.Nodes[0].HugePages[0].Total = int64(pages[0] - '0')
	devices, err := irq.New(root).Devices(t.Context(), h)
	if err != nil || len(devices) != 1 {
		t.Fatal(devices, err)
	}
	facts := hostprep.Read(os.DirFS(root), h, hostprep.HostSlices, nil)
	want := hostprep.Want{Reserve: topology.CPUs(0, 4), Interrupts: true, KSM: "0", HugePages: []hostprep.Pages{{Node: 0, Size: 2048, Count: 7}}}
	steps, _ := hostprep.Steps(h, &facts, &want, devices)
	return steps
}

func undoHost(t *testing.T, root string, s daemon.Store) {
	t.Helper()
	r, err := preparer(root, s, &crash{}).Undo(t.Context(), api.Which{All: true})
	if err != nil || len(r.Failed)+len(r.Deferred) > 0 {
		t.Fatalf("%+v, %v", r, err)
	}
}

// Preparing changes what was planned; a second run has nothing to do; undo leaves
// every file byte by byte as it was, and can be done again.
func TestPrepareAndUndo(t *testing.T) {
	root := hostTree(t)
	before := readTree(t, root)
	s, err := store.Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	for range 2 {
		steps := stepsOf(t, root)
		if len(steps) != 10 {
			t.Errorf("%d steps: %+v", len(steps), steps)
		}
		errs, err := preparer(root, s, &crash{}).Change(t.Context(), api.Change{Steps: steps})
		if err = errors.Join(append(errs, err)...); err != nil {
			t.Fatal(err)
		}
		if left := stepsOf(t, root); len(left) > 0 {
			t.Errorf("left to do: %+v", left)
		}
		r, err := preparer(root, s, &crash{}).Undo(t.Context(), api.Which{ID: hostprep.ID})
		if err != nil || len(r.Restored) != len(steps) || len(r.Failed) > 0 {
			t.Errorf("%+v, %v", r, err)
		}
		if diff := cmp.Diff(before, readTree(t, root)); diff != "" {
			t.Error(diff)
		}
	}
	if _, err := preparer(root, s, &crash{}).Undo(t.Context(), api.Which{ID: hostprep.ID}); err == nil {
		t.Error("something is left to undo")
	}
}

// Killed before or after any write of the journal or the host: undo puts everything
// back, and so does undo after preparing went on.
func TestPrepareKilled(t *testing.T) {
	t.Parallel()
	root := hostTree(t)
	before := readTree(t, root)
	steps := stepsOf(t, root)
	for _, after := range []bool{false, true} {
		for n := 1; ; n++ {
			c := &crash{at: n, after: after}
			s := memory.New()
			errs, err := preparer(root, s, c).Change(t.Context(), api.Change{Steps: steps})
			if c.calls < n {
				if n <= 3*len(steps) || errors.Join(append(errs, err)...) != nil {
					t.Fatalf("%d calls, %v %v", c.calls, errs, err)
				}
				undoHost(t, root, s)
				break
			}
			if err := errors.Join(append(errs, err)...); err == nil || !strings.Contains(err.Error(), errKilled.Error()) {
				t.Fatalf("call %d: %v", n, err)
			}
			if n%2 == 0 { // go on
				errs, err := preparer(root, s, &crash{}).Change(t.Context(), api.Change{Steps: stepsOf(t, root)})
				if err = errors.Join(append(errs, err)...); err != nil {
					t.Fatal(err)
				}
				if left := stepsOf(t, root); len(left) > 0 {
					t.Errorf("call %d: left to do: %+v", n, left)
				}
			}
			undoHost(t, root, s)
			if diff := cmp.Diff(before, readTree(t, root)); diff != "" {
				t.Fatalf("call %d: %s", n, diff)
			}
		}
	}
}

// What the kernel keeps is told, leaves nothing to undo, and holds up nothing else.
func TestPrepareKeptByTheKernel(t *testing.T) {
	root := hostTree(t)
	s := memory.New()
	l := preparer(root, s, &crash{})
	l.Drivers[workload.InHost] = fixedDriver{l.Drivers[workload.InHost]}
	steps := stepsOf(t, root)
	errs, err := l.Change(t.Context(), api.Change{Steps: steps})
	if err != nil {
		t.Fatal(err)
	}
	fixed := 0
	for i, err := range errs {
		if steps[i].Kind == plan.SetIRQ && steps[i].Target.Host != "" {
			if fixed++; !errors.Is(err, plan.ErrFixed) {
				t.Errorf("%+v: %v", steps[i], err)
			}
		} else if err != nil {
			t.Error(err)
		}
	}
	journal, _ := s.Journal()
	if fixed != 1 || len(journal) != len(steps)-1 {
		t.Errorf("%d fixed, %d of %d steps in the journal", fixed, len(journal), len(steps))
	}
}

type fixedDriver struct{ daemon.Driver }

func (d fixedDriver) Apply(ctx context.Context, step plan.Step, p func(plan.Move)) error {
	if step.Kind == plan.SetIRQ {
		return &plan.FixedError{What: step.Target.Host, Err: errors.ErrUnsupported}
	}
	return d.Driver.Apply(ctx, step, p)
}
