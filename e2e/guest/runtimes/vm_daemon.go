//go:build linux

package runtimes

import (
	"encoding/binary"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/homenode/homenode/e2e/guest/lab"
	"github.com/homenode/homenode/e2e/suite"
)

// overGuests starts a daemon that places guests of libvirt; what runs beside them
// in this small machine is left alone.
func overGuests(t *lab.T, manage string, balance bool) *lab.Daemon {
	return t.StartDaemon(lab.DaemonOptions{
		Mode: "enforce", Balance: balance,
		Exclude: "guest, homenode-next, sh, virsh, dbus-daemon, libvirtd, libvirt-dbus, virtlogd",
		Extra: fmt.Sprintf("libvirt: {manage: %s}\nreserve: {cpus: %q, memory: 32MiB}\npolicy: {overcommit: 8}\n",
			manage, reserved),
	})
}

// seen waits until a daemon knows guests by their homes.
func seen(t *lab.T, d *lab.Daemon, vms []*vm) {
	t.Poll(vmLimit, time.Second, "the daemon knows the guests", func() (bool, string) {
		r := lab.Homenode("status", "--json")
		for _, v := range vms {
			if !strings.Contains(r.Out, `"vm:`+v.name+`"`) {
				return false, fmt.Sprintf("no %s (status %d, %s); the daemon last said %s", v.name, r.Exit,
					lab.Cut(r.Err), last(d.Text()))
			}
		}
		return true, ""
	})
}

// last is the last line of a text.
func last(text string) string { return text[strings.LastIndexByte(text, '\n')+1:] }

// settled waits until guests have been the same for a while, so that what a daemon
// does later is seen.
func settled(t *lab.T, vms []*vm) map[string]where {
	was, since := whereVMs(vms), time.Now()
	t.Poll(vmLimit, 2*time.Second, "guests rest", func() (bool, string) {
		now := whereVMs(vms)
		for _, v := range vms {
			if now[v.name] != was[v.name] {
				was, since = now, time.Now()
				return false, v.name + " changes"
			}
		}
		return time.Since(since) > 10*time.Second, "not for 10 s yet"
	})
	return was
}

// libvirtDaemon: guests do not notice a daemon that starts, ends, is killed, or is
// replaced by another version.
func libvirtDaemon(t *lab.T) {
	sixGuests(t)
	was := whereVMs(six)
	lab.FreshState()
	d := overGuests(t, "marked", false)
	seen(t, d, six)
	if now := settled(t, six); !sameWhere(was, now) {
		t.Logf("before a daemon %+v", was)
		t.Logf("under a daemon %+v", now)
		t.Fatalf("a daemon moved guests that were at home: %v", t.History())
	}
	t.Stop(d)
	unmoved(t, "after the daemon ended", six, was)
	d = overGuests(t, "marked", false)
	seen(t, d, six)
	d.Kill9()
	unmoved(t, "after kill -9", six, was)
	older := lab.HomenodeBin
	lab.HomenodeBin = "/e2e/homenode-next"
	defer func() { lab.HomenodeBin = older }()
	r := lab.Capture([]string{lab.HomenodeBin, "--version"}, "--version")
	if !strings.Contains(r.Out, suite.NextVersion) {
		t.Fatalf("%s", r)
	}
	d = overGuests(t, "marked", false)
	seen(t, d, six)
	settled(t, six)
	unmoved(t, "under another version", six, was)
	t.Stop(d)
	unmoved(t, "after all", six, was)
	t.Textf("started, ended, killed, replaced by %s: no guest changed", suite.NextVersion)
}

func sameWhere(a, b map[string]where) bool {
	for name, w := range a {
		if b[name] != w {
			return false
		}
	}
	return len(a) == len(b)
}

// libvirtStarted: under a daemon a guest that runs comes to the home it was adopted
// to, and one that plain virsh starts is placed as it starts, both with their memory;
// one bound by hand is left alone and named, and when a hand gives it the last CPU of a
// node, what floats there leaves.
func libvirtStarted(t *lab.T) {
	sixGuests(t)
	strangers(t)
	if xml := virsh("dumpxml", "--inactive", "plain").Out; !strings.Contains(xml, "homenode") {
		t.Must(vmCommand("adopt", "plain"), lab.ExitOK)
	}
	was, theirs := whereVMs(six), whereIs(pinned)
	brief := &vm{name: "brief", vcpus: 1, mib: 48, nodes: 1}
	remove("brief")
	t.Defer(func() { remove("brief") })
	lab.FreshState()
	d := overGuests(t, "all", false)
	seen(t, d, append(slices.Clone(six), plain, pinned))
	t.Must(virsh("create", xmlFile(t, "brief", plainXML("brief", ""))), lab.ExitOK) // transient: it has no definition
	startVMs(t, []*vm{brief})
	var taken lab.Set
	for _, v := range six {
		if v.dedicated() {
			taken |= union(vcpus(t, v))
		}
	}
	for _, v := range []*vm{plain, brief} {
		t.Poll(vmLimit, time.Second, v.name+" comes to a home", func() (bool, string) {
			nodes := t.NodesOf(union(vcpus(t, v)))
			anon, _ := lab.AnonByNode(v.pid())
			return nodes.Size() == 1 && lab.Share(anon, nodes) >= 0.99,
				fmt.Sprintf("its vCPU may use CPUs %s, its memory %s", union(vcpus(t, v)), lab.ByNodeText(anon))
		})
		floatsAtHome(t, v, taken)
	}
	if is := whereIs(pinned); is != theirs {
		t.Fatalf("pinned was bound by hand, was %+v, is %+v", theirs, is)
	}
	s := t.Status()
	_, state, why := s.Of("vm:pinned")
	if state != "left alone" {
		t.Fatalf("pinned, which was bound by hand, is %s: %s", state, why)
	}
	left := lastCPUTaken(t, pinned, taken)
	t.Alive(d)
	for _, v := range six {
		if v.dedicated() {
			unmoved(t, "while others started", []*vm{v}, was)
		}
	}
	t.Stop(d)
	t.Textf("adopted to node %s, started on node %s; %s; %s", t.NodesOf(union(vcpus(t, plain))),
		t.NodesOf(union(vcpus(t, brief))), left, why)
}

// lastCPUTaken binds a guest by hand to the last CPU over which some shared guest
// floats; that one goes to another node with its memory.
func lastCPUTaken(t *lab.T, by *vm, taken lab.Set) string {
	i := slices.IndexFunc(six, func(v *vm) bool { return !v.dedicated() && union(vcpus(t, v)).Size() == 1 })
	if i < 0 {
		t.Fatalf("no guest floats over one CPU: %+v", whereVMs(six))
	}
	v, cpu := six[i], union(vcpus(t, six[i]))
	t.Must(virsh("vcpupin", by.name, "0", cpu.String()), lab.ExitOK)
	t.Defer(func() { virsh("vcpupin", by.name, "0", byHand) })
	t.Poll(vmLimit, time.Second, v.name+" leaves CPU "+cpu.String(), func() (bool, string) {
		now := union(vcpus(t, v))
		anon, _ := lab.AnonByNode(v.pid())
		return now&cpu == 0 && lab.Share(anon, t.NodesOf(now)) >= 0.99,
			fmt.Sprintf("its vCPUs may use CPUs %s, its memory %s", now, lab.ByNodeText(anon))
	})
	floatsAtHome(t, v, taken|cpu)
	if is := union(vcpus(t, by)); is != cpu {
		t.Fatalf("%s was bound by hand to CPU %s, is on %s", by.name, cpu, is)
	}
	return fmt.Sprintf("%s left CPU %s for nodes %s", v.name, cpu, t.NodesOf(union(vcpus(t, v))))
}

// libvirtBalance: others crowd the home of a busy shared guest, which moves with
// its memory; an idle one does not.
func libvirtBalance(t *lab.T) {
	sixGuests(t)
	mover, idle := six[3], six[4]
	for _, v := range []*vm{six[0], six[1], six[2], six[5], plain, pinned} {
		remove(v.name)
	}
	virsh("destroy", mover.name)
	sleeps(t, mover, 0)
	startVMs(t, []*vm{mover})
	lab.FreshState()
	d := overGuests(t, "marked", true)
	seen(t, d, []*vm{mover, idle})
	was := settled(t, []*vm{mover, idle})
	home := was[mover.name].nodes
	if home.Size() != 1 {
		t.Fatalf("at first %+v", was)
	}
	for range t.Shape.CPUsPerNode {
		c := exec.Command("sh", "-c", "while :; do :; done")
		t.Do(c.Start())
		t.Defer(func() { c.Process.Kill(); c.Wait() })
		t.Do(lab.SetAffinity(c.Process.Pid, lab.CPUsOf(home)))
	}
	start := time.Now()
	t.Poll(vmLimit, 2*time.Second, "the crowded guest leaves, its memory with it", func() (bool, string) {
		w := whereIs(mover)
		return w.nodes.Size() == 1 && w.nodes != home && t.NodesOf(union(vcpus(t, mover))) == w.nodes,
			fmt.Sprintf("%+v", w)
	})
	took := time.Since(start)
	unmoved(t, "while the other left", []*vm{idle}, was)
	if mover.pid() != was[mover.name].pid {
		t.Fatalf("%s was started anew", mover.name)
	}
	i := slices.IndexFunc(t.History(), func(e lab.Event) bool {
		return e.Workload == "vm:"+mover.name && e.Code == "balance-doing"
	})
	if i < 0 {
		t.Fatalf("the history does not tell of it: %v", t.History())
	}
	anon, _ := lab.AnonByNode(mover.pid())
	at := t.NodesOf(union(vcpus(t, mover)))
	t.Alive(d)
	t.Textf("node %s to node %s after %.1f s, %.1f %% of its memory there", home, at, took.Seconds(),
		100*lab.Share(anon, at))
}

// sleeps lets the program on a guest's disk rest for so long after each MiB, 0 for not at all (pacer.s).
func sleeps(t *lab.T, v *vm, rest time.Duration) {
	f, err := os.OpenFile(images+"/"+v.name+".img", os.O_WRONLY|syscall.O_CLOEXEC, 0)
	t.Do(err)
	defer f.Close()
	_, err = f.WriteAt(binary.LittleEndian.AppendUint32(nil, uint32(rest/16)), 506)
	t.Do(err)
}
