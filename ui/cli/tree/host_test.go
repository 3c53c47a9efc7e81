package tree

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/homenode/homenode/api"
	"github.com/homenode/homenode/core/guest"
	"github.com/homenode/homenode/core/irq"
	"github.com/homenode/homenode/core/plan"
	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/core/words"
	"github.com/homenode/homenode/core/workload"
	"github.com/homenode/homenode/ui/cli"
)

// preparer is a machine that takes every step but those on interrupts.
type preparer struct {
	placed   []plan.Placement
	owns     bool
	prepared []plan.Step
}

func (p *preparer) Devices(context.Context, *topology.Host) ([]irq.Device, error) { return nil, nil }
func (p *preparer) PlacesInterrupts() (bool, error)                               { return p.owns, nil }
func (p *preparer) Placed(string) ([]plan.Placement, error)                       { return p.placed, nil }

func (p *preparer) MayPrepare() error { return nil }

// prepares is the journal's side of it.
type prepares struct {
	api.Backend
	*preparer
}

func (prepares) Partition(context.Context, api.Partition) (api.Partition, error) {
	return api.Partition{}, errors.New("nobody to ask")
}

func (p prepares) Change(_ context.Context, c api.Change) ([]error, error) {
	steps := c.Steps
	p.prepared = steps
	errs := make([]error, len(steps))
	for i, s := range steps {
		switch s.Kind {
		case plan.SetIRQ:
			errs[i] = fmt.Errorf("it says no: %w", plan.ErrFixed)
		case plan.SetFile:
			errs[i] = errors.New("it broke")
		}
	}
	return errs, nil
}

// hostTree is eightCPUs with a service and an interrupt on all of them.
func hostTree(more map[string]string) fs.FS {
	tree := fstest.MapFS{}
	for name, f := range eightCPUs() {
		tree[name] = f
	}
	files := map[string]string{
		"sys/fs/cgroup/cgroup.controllers": "cpuset", "sys/fs/cgroup/cpuset.cpus.effective": "0-7", "sys/fs/cgroup/system.slice/cgroup.procs": "1",
		"proc/irq/9/smp_affinity_list": "0-7", "sys/kernel/irq/9/actions": "acpi", "proc/cmdline": "quiet",
	}
	for name, text := range more {
		files[name] = text
	}
	for name, text := range files {
		tree[name] = &fstest.MapFile{Data: []byte(text + "\n")}
	}
	return tree
}

func host(p *preparer, v *hypervisor, tree fs.FS, args ...string) (status int, stdout, stderr string) {
	var out, errs bytes.Buffer
	e := &cli.Env{Stdout: &out, Stderr: &errs, Getenv: func(string) string { return "" }, Root: tree, Libvirt: v, Host: p,
		Policy: func(*topology.Host) (plan.Policy, error) {
			st := plan.DefaultPolicy()
			st.Reserved = topology.CPUs(0)
			return st, nil
		},
		Local: func(context.Context, string) (api.Backend, func() error, error) {
			return prepares{preparer: p}, func() error { return nil }, nil
		}}
	e.DefaultSocket = "/nonexistent/socket"
	status = Main(context.Background(), e, append([]string{"host"}, args...))
	return status, out.String(), errs.String()
}

func TestHostPrepare(t *testing.T) {
	p := &preparer{}
	status, out, errs := host(p, &hypervisor{}, hostTree(nil), "prepare", "--dry-run")
	for _, want := range []string{
		"planned  set-cpus /system.slice: all → 0. Programs in system.slice", "planned  set-irq 9/acpi: 0-7 → 0. ", "2 steps; nothing was changed",
		"for homenode's configuration:\nreserve:\n  cpus: \"0\"\n",
	} {
		if status != 0 || errs != "" || !strings.Contains(out, want) {
			t.Errorf("%d, %s\nno %q in\n%s", status, errs, want, out)
		}
	}
	if p.prepared != nil {
		t.Errorf("a dry run did %v", p.prepared)
	}
	status, out, _ = host(p, &hypervisor{}, hostTree(nil), "prepare", "--reserve", "0-1")
	if status != 0 || len(p.prepared) != 2 || !strings.Contains(out, "done  set-cpus /system.slice: all → 0-1") || !strings.Contains(out, "1 done, 1 kept by the kernel, 0 failed") {
		t.Errorf("%d: %s", status, out)
	}
	status, out, _ = host(p, &hypervisor{}, hostTree(map[string]string{"sys/kernel/mm/ksm/run": "1"}), "prepare", "--ksm", "0", "--json")
	if status != 1 || !strings.Contains(out, `"state": "failed"`) || !strings.Contains(out, `"schema": "homenode-host-prepare/2"`) {
		t.Errorf("%d: %s", status, out)
	}
	done := hostTree(map[string]string{"sys/fs/cgroup/system.slice/cpuset.cpus": "0", "proc/irq/9/smp_affinity_list": "0"})
	p.prepared = nil
	if status, out, _ = host(p, &hypervisor{}, done, "prepare"); status != 0 || p.prepared != nil || !strings.Contains(out, "nothing to do") {
		t.Errorf("%d: %s", status, out)
	}
}

// Interrupts have an owner already.
func TestHostPrepareLeavesInterrupts(t *testing.T) {
	for name, run := range map[string]func() (int, string, string){
		"irqbalance": func() (int, string, string) {
			return host(&preparer{}, &hypervisor{}, hostTree(map[string]string{"proc/71/comm": "irqbalance", "proc/71/status": "Uid:\t0\t0\t0\t0\n"}), "prepare", "--dry-run")
		},
		"daemon": func() (int, string, string) {
			return host(&preparer{owns: true}, &hypervisor{}, hostTree(nil), "prepare", "--dry-run")
		},
	} {
		if status, out, _ := run(); status != 0 || strings.Contains(out, "set-irq") || !strings.Contains(out, "note  interrupts are left to") || !strings.Contains(out, name) {
			t.Errorf("%s: %d: %s", name, status, out)
		}
	}
}

func TestHostPrepareRefuses(t *testing.T) {
	pinned := floating("db", true, "")
	pinned.Home.Placement.Class, pinned.Home.Placement.CPUs = workload.Dedicated, topology.CPUs(4)
	spare := pinned
	spare.Home.Spare = &plan.Placement{Workload: "vm:db/emulator", Class: workload.Dedicated, CPUs: topology.CPUs(6)}
	odd := []guest.Unread{{Name: "odd", Running: true, Text: `domain "odd": what`}}
	placed := []plan.Placement{{Workload: "/system.slice/x", Class: workload.Shared, CPUs: topology.CPUs(5)}}
	tests := []struct {
		args   string
		p      *preparer
		v      *hypervisor
		status int
		want   string
	}{
		{"--reserve 0,4", &preparer{}, &hypervisor{guests: []guest.Guest{pinned}}, 1, "nothing is changed: " + words.Because(words.ReserveTaken, "4", "vm:db").String()},
		{"--reserve 0,6", &preparer{}, &hypervisor{guests: []guest.Guest{spare}}, 1, words.Because(words.ReserveTaken, "6", "vm:db/emulator").String()},
		{"", &preparer{}, &hypervisor{unread: odd}, 3, `domain "odd": what; it runs`},
		{"", &preparer{placed: placed}, &hypervisor{}, 1, "nothing is changed: /system.slice/x "},
		{"--reserve 0-7", &preparer{}, &hypervisor{}, 2, "leave none for guests"},
		{"--reserve 0,9", &preparer{}, &hypervisor{}, 2, "CPUs 9 are not on this host"},
		{"--reserve x", &preparer{}, &hypervisor{}, 2, "--reserve: "},
		{"--reserve-per-node 0", &preparer{}, &hypervisor{}, 2, "want 1 or more"},
		{"--reserve-per-node 99", &preparer{}, &hypervisor{}, 2, "no node has so many"},
		{"--reserve 0 --reserve-per-node 1", &preparer{}, &hypervisor{}, 2, "reserve"},
		{"--huge-pages 0:3MiB:1", &preparer{}, &hypervisor{}, 2, "no pool"},
		{"--thp maybe", &preparer{}, &hypervisor{}, 2, "want always, madvise or never"},
		{"--ksm 2", &preparer{}, &hypervisor{}, 2, "want 0 or 1"},
		{"--slices system", &preparer{}, &hypervisor{}, 2, "want names such as system.slice"},
	}
	for _, tt := range tests {
		status, out, errs := host(tt.p, tt.v, hostTree(nil), append([]string{"prepare"}, strings.Fields(tt.args)...)...)
		if status != tt.status || !strings.Contains(errs, tt.want) || tt.p.prepared != nil || strings.Count(errs, "\n") != 1 {
			t.Errorf("%s: %d, %s%s; want %d, %s", tt.args, status, out, errs, tt.status, tt.want)
		}
	}
}

func TestHostReport(t *testing.T) {
	status, out, errs := host(&preparer{}, &hypervisor{}, hostTree(nil), "report")
	if status != 1 || errs != "" || !strings.Contains(out, "system.slice (/sys/fs/cgroup/system.slice): ") || !strings.Contains(out, "→ homenode host prepare") {
		t.Errorf("%d: %s%s", status, errs, out)
	}
	status, out, _ = host(&preparer{}, &hypervisor{}, hostTree(map[string]string{"proc/cmdline": "numa=off"}), "report", "--json")
	if status != 1 || !strings.Contains(out, `"schema": "homenode-host-report/1"`) || !strings.Contains(out, `"severity": "defect"`) {
		t.Errorf("%d: %s", status, out)
	}
	good := hostTree(map[string]string{"sys/fs/cgroup/system.slice/cpuset.cpus.effective": "0", "proc/irq/9/smp_affinity_list": "0"})
	if status, out, _ = host(&preparer{}, &hypervisor{}, good, "report", "--reserve-per-node", "1"); status != 0 {
		t.Errorf("a good host: %d: %s", status, out)
	}
	for args, want := range map[string]int{"--synthetic core:4": 1, "--root /nonexistent": 2, "--reserve x": 2, "--nope": 2, "extra": 2} {
		if status, out, errs := host(&preparer{}, &hypervisor{}, hostTree(nil), append([]string{"report"}, strings.Fields(args)...)...); status != want {
			t.Errorf("%s: %d, want %d: %s%s", args, status, want, out, errs)
		}
	}
}

func TestHostPartition(t *testing.T) {
	for args, want := range map[string]int{"x": 2, "0%": 2, "1 2": 2, "50%": 3} { // 3: nobody to ask
		if status, out, errs := host(&preparer{}, &hypervisor{}, hostTree(nil), append([]string{"partition"}, strings.Fields(args)...)...); status != want {
			t.Errorf("%s: %d, want %d: %s%s", args, status, want, out, errs)
		}
	}
}
