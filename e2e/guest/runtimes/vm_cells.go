//go:build linux

package runtimes

import (
	"encoding/binary"
	"fmt"
	"os"
	"strings"
	"syscall"
	"time"

	"github.com/homenode/homenode/e2e/guest/lab"
)

// Tags of the marks: where the guest started, and after one of its cells has moved.
const (
	tagCells = 1 + iota
	tagCellMoved
)

// floating is a guest of two cells, the vCPUs of each of which float over a node.
var floating = &vm{name: "floating", flavor: "floating", vcpus: 6, mib: 192, nodes: 2}

// cellMiB is the memory of each of its cells.
const cellMiB = 96

// cellWork is the CPU time that the vCPUs of each cell get while accesses are counted: in a second of it they
// make some 10,000.
const cellWork = 6 * time.Second

// walksItsCells lets each vCPU go over the memory of its own cell (pacer.s): two sockets of three
// cores have APICs 0 to 2 and 4 to 6. It rests for a ms after each MiB: six that never do keep
// libvirt from its work in an emulated host.
func walksItsCells(t *lab.T, v *vm) {
	f, err := os.OpenFile(images+"/"+v.name+".img", os.O_WRONLY|syscall.O_CLOEXEC, 0)
	t.Do(err)
	defer f.Close()
	_, err = f.WriteAt(append([]byte{2}, binary.LittleEndian.AppendUint32(nil, cellMiB<<20)...), 501)
	t.Do(err)
	sleeps(t, v, time.Millisecond)
}

// cellRAM is the mapping of each cell, by the node that it was asked for on.
func cellRAM(t *lab.T, v *vm, asked []lab.Set) (r []lab.Mapping) {
	ram := v.ram()
	for _, node := range asked {
		for _, m := range ram {
			if strings.HasPrefix(m.Policy, "prefer") && strings.HasSuffix(m.Policy, ":"+node.String()) {
				r = append(r, m)
			}
		}
	}
	if len(r) != v.nodes {
		t.Fatalf("%s: memory asked for on nodes %v: %+v", v.name, asked, ram)
	}
	return r
}

// libvirtCells: a floating guest of six vCPUs over two nodes sees two: each group is on its
// node, over its memory. One is ordered elsewhere as it runs: its threads and the memory of its
// cell go, the others stay, and undo and release put back what was.
func libvirtCells(t *lab.T) {
	v := floating
	t.Do(os.WriteFile(flavorsPath,
		[]byte("flavors:\n  - {name: floating, class: shared, vcpus: 6, memory: 192MiB, exact_nodes: 2}\n"), 0o644))
	remove(v.name)
	t.Defer(func() { remove(v.name) })
	lab.FreshState()
	t.Must(vmCommand("define", "--emulated", "--flavor", v.flavor, "--name", v.name, "--disk",
		image(t, v.name)+",format=raw"), lab.ExitOK)
	walksItsCells(t, v)
	defined := t.Must(virsh("dumpxml", "--inactive", v.name), lab.ExitOK).Out
	startVMs(t, []*vm{v})
	on := func(k int) lab.Set { return union(vcpus(t, v)[3*k : 3*k+3]) }
	started := []lab.Set{t.NodesOf(on(0)), t.NodesOf(on(1))}
	if started[0].Size() != 1 || started[1].Size() != 1 || started[0] == started[1] {
		t.Fatalf("its vCPUs float over CPUs %v", vcpus(t, v))
	}
	for k, m := range cellRAM(t, v, started) {
		first := uint32(m.Start >> 21)
		if m.Start%(2<<20) != 0 {
			t.Fatalf("cell %d begins at %#x", k, m.Start)
		}
		lab.MarkFrom(first)
		lab.MarkTo(first + cellMiB/2)
		t.Record("WALKER %d cell%d %d %d %d %s", k, k, cellMiB, 3, 0, "libvirt")
		t.Record("HOME %d %s", k, started[k])
	}
	countCells(t, v, tagCells, "as defined")
	lies := func(k int, at lab.Set) (bool, string) {
		m := cellRAM(t, v, started)[k]
		all, here := 0, 0
		for n, pages := range m.Nodes {
			if all += pages; at&lab.SetOf(n) != 0 {
				here += pages
			}
		}
		return 100*here >= 95*all, fmt.Sprintf("cell %d: %d of %d pages on node %s, vCPUs on %s", k, here, all, at,
			t.NodesOf(on(k)))
	}
	for k, at := range started {
		if ok, said := lies(k, at); !ok {
			t.Fatalf("%s", said)
		}
	}
	d := overGuests(t, "marked", false)
	t.Poll(vmLimit, time.Second, "the daemon knows its cells", func() (bool, string) {
		r := lab.Homenode("status", "--json")
		return strings.Contains(r.Out, `"vm:floating/cell1"`), r.String()
	})
	pid, to := v.pid(), lab.Set(0)
	for n := range t.Shape.Nodes {
		if lab.SetOf(n)&(started[0]|started[1]|1) == 0 { // node 0 has reserved CPUs
			to = lab.SetOf(n)
		}
	}
	t.Poll(vmLimit, 2*time.Second, "cell 1 is ordered away", func() (bool, string) {
		r := lab.Homenode("move", "vm:floating/cell1", "--to", to.String())
		return r.Exit == lab.ExitOK, r.String()
	})
	t.Poll(vmLimit, time.Second, "cell 1 goes with its memory", func() (bool, string) {
		ok, said := lies(1, to)
		return ok && t.NodesOf(on(1)) == to, said
	})
	if ok, said := lies(0, started[0]); !ok || t.NodesOf(on(0)) != started[0] || v.pid() != pid {
		t.Fatalf("the other was to stay: %s", said)
	}
	countCells(t, v, tagCellMoved, "cell 1 moved")
	t.Poll(vmLimit, time.Second, "its next start follows", func() (bool, string) {
		xml := virsh("dumpxml", "--inactive", v.name).Out
		return strings.Contains(xml, fmt.Sprintf("<memnode cellid='1' mode='preferred' nodeset='%s'/>", to)), xml
	})
	t.Must(lab.Homenode("undo", "vm:floating"), lab.ExitOK)
	if now := t.NodesOf(on(1)); now != started[1] {
		t.Fatalf("undone, cell 1 is on node %s; it was on %s", now, started[1])
	}
	if now := t.Must(virsh("dumpxml", "--inactive", v.name), lab.ExitOK).Out; now != defined {
		t.Fatalf("undone, it is defined as\n%s\nwas\n%s", now, defined)
	}
	t.Alive(d)
	t.Stop(d)
	t.Textf("cells on nodes %s and %s; the second went to node %s and back", started[0], started[1], to)
}

// countCells counts what the guest accesses for a while.
func countCells(t *lab.T, v *vm, tag uint32, phase string) {
	lab.Mark(0)
	begun := v.cellTimes()
	t.Poll(vmLimit, time.Second, "the vCPUs of each cell work", func() (bool, string) {
		now := v.cellTimes()
		for k := range now {
			if now[k]-begun[k] < cellWork {
				return false, fmt.Sprintf("those of cell %d for %s", k, now[k]-begun[k])
			}
		}
		return true, ""
	})
	lab.Mark(tag)
	t.Record("MARK %d %d %s", tag, 1, phase)
}

// cellTimes is the CPU time that the vCPUs of each cell have had (proc_pid_schedstat, the first figure).
func (v *vm) cellTimes() []time.Duration {
	times, each := make([]time.Duration, v.nodes), v.vcpus/v.nodes
	pid := v.pid()
	for tid := range lab.Allowed(pid) {
		var n int
		var ns int64
		task := fmt.Sprintf("/proc/%d/task/%d/", pid, tid)
		if _, err := fmt.Sscanf(lab.ReadText(task+"comm"), "CPU %d/TCG", &n); err != nil || n >= v.vcpus {
			continue
		}
		fmt.Sscan(lab.ReadText(task+"schedstat"), &ns)
		times[n/each] += time.Duration(ns)
	}
	return times
}
