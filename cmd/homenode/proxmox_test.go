package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/homenode/homenode/core/control"
	"github.com/homenode/homenode/core/plan"
	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/core/words"
	"github.com/homenode/homenode/core/workload"
	"github.com/homenode/homenode/host/cgroup"
	"github.com/homenode/homenode/host/process"
	"github.com/homenode/homenode/host/proxmox"
)

// qemu is the QEMU of this machine, or the one that the guest tests have fetched.
func qemu(t *testing.T) (program string, args []string) {
	if found, err := exec.LookPath("qemu-system-x86_64"); err == nil {
		return found, nil
	}
	text, _ := os.ReadFile("/var/cache/homenode-e2e/rig.env") // e2e/fetch.sh
	for line := range strings.Lines(string(text)) {
		key, value, _ := strings.Cut(strings.TrimSpace(line), "=")
		switch key {
		case "QEMU":
			program = value
		case "FIRMWARE":
			for _, dir := range strings.Fields(value) {
				args = append(args, "-L", dir)
			}
		}
	}
	if _, err := os.Stat(program); err != nil {
		t.Skip("no qemu-system-x86_64 here")
	}
	return program, args
}

// wroteCgroups takes what is written into cgroups for done.
type wroteCgroups struct{ *cgroup.Driver }

func (wroteCgroups) Changes(context.Context, plan.Step) ([]plan.Change, error) { return nil, nil }
func (wroteCgroups) Apply(context.Context, plan.Step, func(plan.Move)) error   { return nil }

// A real QEMU, which never runs its guest, tells which thread is which vCPU; each comes to the
// CPU that the home has for it, and undo gives back what they had. While another client has the
// socket, the threads' names say the same.
func TestQEMUTellsItsThreads(t *testing.T) {
	program, args := qemu(t)
	cpus, err := process.AffinityOf(0)
	if err != nil || cpus.Len() < 2 {
		t.Skip("one CPU only")
	}
	root, err := os.MkdirTemp("", "pve")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(root) })
	for _, dir := range []string{"run/qemu-server", "etc/pve/qemu-server", "sys/fs/cgroup/qemu.slice/100.scope"} {
		if err := os.MkdirAll(filepath.Join(root, dir), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink("/proc", filepath.Join(root, "proc")); err != nil {
		t.Fatal(err)
	}
	write := func(path, text string) {
		if err := os.WriteFile(filepath.Join(root, path), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	write("etc/pve/qemu-server/100.conf", "name: real\ncores: 2\nmemory: 128\ntags: homenode-dedicated\n")
	socket := filepath.Join(root, "run/qemu-server/100.qmp")
	c := exec.Command(program, append(args, "-name", "real,debug-threads=on", "-machine", "q35", "-accel", "tcg,thread=multi", "-smp", "2", "-m", "64", "-S",
		"-nodefaults", "-display", "none", "-chardev", "socket,id=qmp,path="+socket+",server=on,wait=off", "-mon", "chardev=qmp,mode=control")...)
	c.Stderr = os.Stderr
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Process.Kill(); c.Wait() })
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(20 * time.Millisecond) {
		if _, err := os.Stat(socket); err == nil {
			break
		}
		if time.Now().After(deadline) {
			t.Fatal("QEMU made no socket")
		}
	}
	pid := strconv.Itoa(c.Process.Pid)
	write("run/qemu-server/100.pid", pid+"\n")
	write("sys/fs/cgroup/qemu.slice/100.scope/cgroup.procs", pid+"\n")

	own := cpus.Slice()[:2]
	home := workload.Placement{Workload: "vm:100", Class: workload.Dedicated, CPUs: topology.CPUs(own...), Pins: []topology.CPUID{own[1], own[0]}}
	now := time.Now()
	host, err := topology.FromSynthetic("package:1 node:1(memory=16GiB) core:4 pu:1")
	if err != nil {
		t.Fatal(err)
	}
	look := func() (*proxmox.Source, []workload.Problem) {
		s := proxmox.New(proxmox.Options{Root: root, Manage: proxmox.Every, Now: func() time.Time { return now }})
		if err := s.Refresh(context.Background()); err != nil {
			t.Fatal(err)
		}
		claims, problems := s.Claims(host)
		if len(claims) != 1 || claims[0].Spec.CPUs != 2 || claims[0].Spec.Class != workload.Dedicated || !claims[0].Alone.None() {
			t.Fatalf("%+v", claims)
		}
		if memory := claims[0].Spec.Memory; len(problems) == 0 && memory != 64<<10 { // what runs, not what is configured since
			t.Errorf("%d KiB of memory", memory)
		}
		return s, problems
	}
	s, problems := look()
	for tries := 0; len(problems) > 0 && tries < 60; tries++ { // a busy machine may take longer to answer
		t.Log(problems)
		s, problems = look()
	}
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	threads := func() map[string]topology.CPUSet {
		out := map[string]topology.CPUSet{}
		tasks, _ := filepath.Glob("/proc/" + pid + "/task/*/comm")
		for _, file := range tasks {
			comm, _ := os.ReadFile(file)
			tid, _ := strconv.Atoi(filepath.Base(filepath.Dir(file)))
			if cpus, err := process.AffinityOf(tid); err == nil {
				out[strings.TrimSpace(string(comm))] = cpus
			}
		}
		return out
	}
	drive := func(s *proxmox.Source) []plan.Change {
		t.Helper()
		s.Join(standing{Homes: []workload.Placement{home}})
		d := s.Driver(wroteCgroups{}, process.New(process.Options{}))
		step := plan.Step{Kind: plan.SetCPUs, Workload: "vm:100", To: home.CPUs.String(), Target: plan.Target{Kind: workload.InCgroup, Cgroup: "/qemu.slice/100.scope"},
			Reason: words.Because(words.DedicatedCPUs, 2, topology.Nodes(0))}
		changes, err := d.Changes(context.Background(), step)
		if err == nil {
			err = d.Apply(context.Background(), step, nil)
		}
		if err != nil {
			t.Fatal(err)
		}
		return changes
	}
	pinned := func() {
		t.Helper()
		has := threads()
		for i, cpu := range home.Pins {
			if name := fmt.Sprintf("CPU %d/TCG", i); !has[name].Equal(topology.CPUs(cpu)) {
				t.Errorf("%s may use %v; want %d (%v)", name, has[name], cpu, has)
			}
		}
	}
	before := threads()
	changes := drive(s)
	pinned()
	if len(changes) != 1 || changes[0].Kind != plan.Affinity || changes[0].Value != cpus.String() {
		t.Fatalf("%+v", changes)
	}
	undo := func() {
		t.Helper()
		x := changes[0]
		e := plan.Entry{Kind: x.Kind, Path: x.Path, Old: x.Value, New: x.Will, Groups: x.Groups, Ticks: x.Ticks, Time: time.Now()}
		if errs := process.New(process.Options{}).Restore(context.Background(), []plan.Entry{e}); errs[0] != nil {
			t.Fatal(errs)
		}
		for name, cpus := range threads() {
			if !cpus.Equal(before[name]) {
				t.Errorf("%s may use %v after undo, had %v", name, cpus, before[name])
			}
		}
	}
	undo()

	// Somebody else has the socket.
	other, err := net.Dial("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	if _, err := other.Read(make([]byte, 1)); err != nil { // QEMU greets: it is this one's now
		t.Fatal(err)
	}
	s, problems = look()
	if !slices.ContainsFunc(problems, func(p workload.Problem) bool {
		return p.Text == "QMP: it is busy with another client, Proxmox' own most likely; its vCPU threads are told by their names"
	}) {
		t.Error(problems)
	}
	home.Pins = []topology.CPUID{own[0], own[1]}
	changes = drive(s)
	pinned()
	undo()
}

// standing is a daemon that admits nothing.
type standing control.Attention

func (s standing) Attention() control.Attention { return control.Attention(s) }
func (standing) Admit(context.Context, control.PlaceRequest) (p workload.Placement, err error) {
	return p, errors.New("nothing is admitted")
}
