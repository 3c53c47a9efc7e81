package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/homenode/homenode/api"
	"github.com/homenode/homenode/core/plan"
	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/core/workload"
	"github.com/homenode/homenode/daemon"
	"github.com/homenode/homenode/host/process"
)

// brood is a live shell that starts processes when told to: a process workload on
// a made-up host with a node for each of two real CPUs.
type brood struct {
	t      *testing.T
	cmd    *exec.Cmd
	root   workload.Process
	in     *bufio.Writer
	out    *bufio.Scanner
	all    topology.CPUSet // affinity before anything
	listed []int           // what the observer sees, by PID
	now    time.Time
}

// startBrood skips the test on a machine with one CPU.
func startBrood(t *testing.T) *brood {
	t.Helper()
	all, err := process.AffinityOf(0)
	if err != nil {
		t.Fatal(err)
	}
	if all.Len() < 2 {
		t.Skip("needs two CPUs")
	}
	b := &brood{t: t, all: all, cmd: exec.Command("/bin/sh"), now: time.Now()}
	// A session of its own: whoever takes in its orphans here has another.
	b.cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	in, err := b.cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := b.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := b.cmd.Start(); err != nil {
		t.Skip(err)
	}
	b.in, b.out = bufio.NewWriter(in), bufio.NewScanner(out)
	t.Cleanup(func() { b.end() })
	if b.root, err = process.Identify(b.cmd.Process.Pid); err != nil {
		t.Fatal(err)
	}
	b.listed = []int{b.root.PID}
	return b
}

// start runs a line of shell that prints the PID of a sleeper.
func (b *brood) start(line string) int {
	b.t.Helper()
	fmt.Fprintln(b.in, line)
	if err := b.in.Flush(); err != nil || !b.out.Scan() {
		b.t.Fatal(err, "the shell does not answer")
	}
	pid, err := strconv.Atoi(strings.TrimSpace(b.out.Text()))
	if err != nil {
		b.t.Fatal(err)
	}
	b.t.Cleanup(func() { syscall.Kill(pid, syscall.SIGKILL) })
	return pid
}

// end kills the root only; its children become orphans.
func (b *brood) end() {
	b.cmd.Process.Kill()
	b.cmd.Wait()
}

func (b *brood) Now() time.Time                            { return b.now }
func (b *brood) After(time.Duration) <-chan time.Time      { return nil }
func (b *brood) Changed(workload.ID)                       {}
func (b *brood) Stale(workload.ID)                         {}
func (b *brood) host() *topology.Host                      { return twoNodeHost(b.all) }
func (b *brood) affinity(pid int) (topology.CPUSet, error) { return process.AffinityOf(pid) }

// twoNodeHost gives each of the two lowest CPUs a node.
func twoNodeHost(all topology.CPUSet) *topology.Host {
	h := &topology.Host{Distances: [][]int{{10, 20}, {20, 10}}}
	for i, cpu := range all.Slice()[:2] {
		n := topology.NodeID(i)
		cpus := topology.CPUs(cpu)
		h.Nodes = append(h.Nodes, topology.Node{ID: n, Package: topology.PackageID(i), CPUs: cpus, Memory: 8 << 20, Free: 8 << 20, Kind: topology.DRAM})
		h.Cores = append(h.Cores, topology.Core{CPUs: cpus, Node: n, Package: topology.PackageID(i), Capacity: topology.None})
		h.Packages = append(h.Packages, topology.Package{ID: topology.PackageID(i), CPUs: cpus})
		h.LLCs = append(h.LLCs, topology.LLC{CPUs: cpus, Level: 3, Size: topology.None})
		h.Online.Add(cpu)
		h.AllowedMems.Add(n)
	}
	h.Allowed = h.Online
	return h
}

// Look reports the root with what is listed as one workload, while the root lives.
func (b *brood) Look(context.Context) (workload.Snapshot, error) {
	h := b.host()
	s := workload.Snapshot{Host: h}
	o := workload.Observation{ID: workload.ID(fmt.Sprintf("pid:%d", b.root.PID)), Name: "sh", Kind: workload.InProcess, Threads: 1,
		Window: time.Second, CPUUse: 0.5, Mems: h.AllowedMems, RanOnFrom: workload.PerThread,
		Memory: []workload.NodeMemory{{Node: 0, KiB: 1 << 20}}, RanOn: []workload.NodeShare{{Node: 0, Share: 1}}}
	o.Anon = o.Memory
	for _, pid := range b.listed {
		if p, err := process.Identify(pid); err == nil {
			o.Processes = append(o.Processes, p)
		}
	}
	cpus, err := b.affinity(b.root.PID)
	if err != nil {
		return s, nil
	}
	o.CPUs = cpus.Intersect(h.Online)
	s.Observations = []workload.Observation{o}
	return s, nil
}

// mortal is a store that stops taking writes, as when the daemon is killed.
type mortal struct {
	*daemon.Memory
	left int // writes; below 0 is no end
}

var errKilled = errors.New("killed")

func (m *mortal) write() error {
	if m.left == 0 {
		return errKilled
	}
	m.left--
	return nil
}

func (m *mortal) Intend(w workload.ID, have []plan.Setting, will []string, at time.Time) ([]plan.Entry, error) {
	if err := m.write(); err != nil {
		return nil, err
	}
	return m.Memory.Intend(w, have, will, at)
}

func (m *mortal) Mark(state plan.EntryState, seqs ...uint64) error {
	if err := m.write(); err != nil {
		return err
	}
	return m.Memory.Mark(state, seqs...)
}

// story is a life of a brood under a daemon: it is given a home, starts children of
// several kinds, and ends. It returns the children.
func (b *brood) story(d *daemon.Daemon) []int {
	tick := func(n int, after time.Duration) {
		for range n {
			d.Tick(b.t.Context()) // a killed daemon's journal fails
			b.now = b.now.Add(after)
		}
	}
	before := b.start("sleep 1000 & echo $!")
	b.listed = append(b.listed, before)
	tick(2, 2*time.Second)
	child := b.start("sleep 1000 & echo $!")
	b.listed = append(b.listed, child)
	tick(3, 2*time.Second)
	unseen := b.start("sleep 1000 & echo $!")
	orphan := b.start("(sleep 1000 & echo $!)")
	leader := b.start("(setsid sh -c 'sleep 1000 & echo $!')")
	tick(1, 2*time.Second)
	b.end()
	tick(2, 2*time.Minute) // prune
	return []int{before, child, unseen, orphan, leader}
}

func (b *brood) daemon(s daemon.Store) *daemon.Daemon {
	b.t.Helper()
	c := daemon.NewConfig()
	c.Mode = daemon.Enforce
	d, err := daemon.New(daemon.Options{Config: c, Version: "test", BootID: "boot", Observer: b, Store: s, Clock: b,
		Drivers: drivers(), Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		b.t.Fatal(err)
	}
	return d
}

func drivers() map[workload.Kind]daemon.Driver {
	return map[workload.Kind]daemon.Driver{workload.InProcess: process.New(process.Options{})}
}

// TestUndoAfterTheRootDied is a known gap of issue 2: children of a process workload
// whose root had died kept the CPUs it was given. Also with a daemon killed
// between any two writes to its journal.
func TestUndoAfterTheRootDied(t *testing.T) {
	for kill := -1; ; kill++ {
		b := startBrood(t)
		s := &mortal{Memory: daemon.NewMemory(), left: kill}
		children := b.story(b.daemon(s))
		narrowed := 0
		for _, pid := range children {
			if cpus, err := b.affinity(pid); err != nil {
				t.Fatalf("child %d: %v", pid, err)
			} else if !cpus.Equal(b.all) {
				narrowed++
			}
		}
		if kill < 0 && narrowed != len(children) {
			t.Fatalf("%d of %d children have a narrower affinity: nothing to undo", narrowed, len(children))
		}
		result, err := daemon.Undo(t.Context(), s.Memory, drivers(), api.Which{All: true}, b.now)
		if err != nil || len(result.Failed) > 0 {
			t.Fatalf("killed after %d writes: undo: %+v %v", kill, result, err)
		}
		for i, pid := range children {
			if cpus, err := b.affinity(pid); err != nil || !cpus.Equal(b.all) {
				t.Errorf("killed after %d writes: child %d (%d) is left with CPUs %v of %v, %v", kill, i, pid, cpus, b.all, err)
			}
		}
		if left, err := s.Journal(); err != nil || len(left) > 0 {
			t.Errorf("killed after %d writes: the journal still has %+v, %v", kill, left, err)
		}
		if kill > 0 && s.left > 0 { // it was not reached any more
			return
		}
	}
}
