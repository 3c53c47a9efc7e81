//go:build linux

package main

import (
	"encoding/binary"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/homenode/homenode/e2e/suite"
)

func init() {
	tests["libvirt.daemon"] = libvirtDaemon
	tests["libvirt.started"] = libvirtStarted
	tests["libvirt.balance"] = libvirtBalance
}

// overGuests starts a daemon that places guests of libvirt; what runs beside them
// in this small machine is left alone.
func (t *T) overGuests(manage string, balance bool) *daemon {
	return t.startDaemon(daemonOptions{
		mode: "enforce", balance: balance, exclude: "guest, homenode-next, sh, virsh, dbus-daemon, libvirtd, libvirt-dbus, virtlogd",
		extra: fmt.Sprintf("libvirt: {manage: %s}\nreserve: {cpus: %q, memory: 32MiB}\npolicy: {overcommit: 8}\n", manage, reserved),
	})
}

// seen waits until a daemon knows guests by their homes.
func (t *T) seen(d *daemon, vms []*vm) {
	t.until(vmLimit, time.Second, "the daemon knows the guests", func() (bool, string) {
		r := homenode("status", "--json")
		for _, v := range vms {
			if !strings.Contains(r.out, `"vm:`+v.name+`"`) {
				return false, fmt.Sprintf("no %s (status %d, %s); the daemon last said %s", v.name, r.exit, cut(r.err), last(d.text()))
			}
		}
		return true, ""
	})
}

// last is the last line of a text.
func last(text string) string { return text[strings.LastIndexByte(text, '\n')+1:] }

// settled waits until guests have been the same for a while, so that what a daemon
// does later is seen.
func (t *T) settled(vms []*vm) map[string]where {
	was, since := whereAll(vms), time.Now()
	t.until(vmLimit, 2*time.Second, "guests rest", func() (bool, string) {
		now := whereAll(vms)
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
func libvirtDaemon(t *T) {
	t.sixGuests()
	was := whereAll(six)
	freshState()
	d := t.overGuests("marked", false)
	t.seen(d, six)
	if now := t.settled(six); !sameWhere(was, now) {
		t.Logf("before a daemon %+v", was)
		t.Logf("under a daemon %+v", now)
		t.Fatalf("a daemon moved guests that were at home: %v", t.history())
	}
	t.stop(d)
	t.unmoved("after the daemon ended", six, was)
	d = t.overGuests("marked", false)
	t.seen(d, six)
	d.kill9()
	t.unmoved("after kill -9", six, was)
	older := homenodeBin
	homenodeBin = "/e2e/homenode-next"
	defer func() { homenodeBin = older }()
	r := capture([]string{homenodeBin, "--version"}, "--version")
	if !strings.Contains(r.out, suite.NextVersion) {
		t.Fatalf("%s", r)
	}
	d = t.overGuests("marked", false)
	t.seen(d, six)
	t.settled(six)
	t.unmoved("under another version", six, was)
	t.stop(d)
	t.unmoved("after all", six, was)
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
func libvirtStarted(t *T) {
	t.sixGuests()
	t.strangers()
	if xml := virsh("dumpxml", "--inactive", "plain").out; !strings.Contains(xml, "homenode") {
		t.must(vmCommand("adopt", "plain"), exitOK)
	}
	was, theirs := whereAll(six), whereIs(pinned)
	brief := &vm{name: "brief", vcpus: 1, mib: 48, nodes: 1}
	remove("brief")
	t.Defer(func() { remove("brief") })
	freshState()
	d := t.overGuests("all", false)
	t.seen(d, append(slices.Clone(six), plain, pinned))
	t.must(virsh("create", t.xmlFile("brief", plainXML("brief", ""))), exitOK) // transient: it has no definition
	t.start([]*vm{brief})
	var taken set
	for _, v := range six {
		if v.dedicated() {
			taken |= union(t.vcpus(v))
		}
	}
	for _, v := range []*vm{plain, brief} {
		t.until(vmLimit, time.Second, v.name+" comes to a home", func() (bool, string) {
			nodes := t.nodesOf(union(t.vcpus(v)))
			anon, _ := anonByNode(v.pid())
			return nodes.size() == 1 && share(anon, nodes) >= 0.99, fmt.Sprintf("its vCPU may use CPUs %s, its memory %s", union(t.vcpus(v)), byNodeText(anon))
		})
		t.floatsAtHome(v, taken)
	}
	if is := whereIs(pinned); is != theirs {
		t.Fatalf("pinned was bound by hand, was %+v, is %+v", theirs, is)
	}
	s := t.status()
	_, state, why := s.of("vm:pinned")
	if state != "left alone" {
		t.Fatalf("pinned, which was bound by hand, is %s: %s", state, why)
	}
	left := t.lastCPUTaken(pinned, taken)
	t.alive(d)
	for _, v := range six {
		if v.dedicated() {
			t.unmoved("while others started", []*vm{v}, was)
		}
	}
	t.stop(d)
	t.Textf("adopted to node %s, started on node %s; %s; %s", t.nodesOf(union(t.vcpus(plain))), t.nodesOf(union(t.vcpus(brief))), left, why)
}

// lastCPUTaken binds a guest by hand to the last CPU over which some shared guest
// floats; that one goes to another node with its memory.
func (t *T) lastCPUTaken(by *vm, taken set) string {
	i := slices.IndexFunc(six, func(v *vm) bool { return !v.dedicated() && union(t.vcpus(v)).size() == 1 })
	if i < 0 {
		t.Fatalf("no guest floats over one CPU: %+v", whereAll(six))
	}
	v, cpu := six[i], union(t.vcpus(six[i]))
	t.must(virsh("vcpupin", by.name, "0", cpu.String()), exitOK)
	t.Defer(func() { virsh("vcpupin", by.name, "0", byHand) })
	t.until(vmLimit, time.Second, v.name+" leaves CPU "+cpu.String(), func() (bool, string) {
		now := union(t.vcpus(v))
		anon, _ := anonByNode(v.pid())
		return now&cpu == 0 && share(anon, t.nodesOf(now)) >= 0.99, fmt.Sprintf("its vCPUs may use CPUs %s, its memory %s", now, byNodeText(anon))
	})
	t.floatsAtHome(v, taken|cpu)
	if is := union(t.vcpus(by)); is != cpu {
		t.Fatalf("%s was bound by hand to CPU %s, is on %s", by.name, cpu, is)
	}
	return fmt.Sprintf("%s left CPU %s for nodes %s", v.name, cpu, t.nodesOf(union(t.vcpus(v))))
}

// libvirtBalance: others crowd the home of a busy shared guest, which moves with
// its memory; an idle one does not.
func libvirtBalance(t *T) {
	t.sixGuests()
	mover, idle := six[3], six[4]
	for _, v := range []*vm{six[0], six[1], six[2], six[5], plain, pinned} {
		remove(v.name)
	}
	virsh("destroy", mover.name)
	t.sleeps(mover, 0)
	t.start([]*vm{mover})
	freshState()
	d := t.overGuests("marked", true)
	t.seen(d, []*vm{mover, idle})
	was := t.settled([]*vm{mover, idle})
	home := was[mover.name].nodes
	if home.size() != 1 {
		t.Fatalf("at first %+v", was)
	}
	for range t.shape.CPUsPerNode {
		c := exec.Command("sh", "-c", "while :; do :; done")
		t.Do(c.Start())
		t.Defer(func() { c.Process.Kill(); c.Wait() })
		t.Do(setAffinity(c.Process.Pid, cpusOf(home)))
	}
	start := time.Now()
	t.until(vmLimit, 2*time.Second, "the crowded guest leaves, its memory with it", func() (bool, string) {
		w := whereIs(mover)
		return w.nodes.size() == 1 && w.nodes != home && t.nodesOf(union(t.vcpus(mover))) == w.nodes, fmt.Sprintf("%+v", w)
	})
	took := time.Since(start)
	t.unmoved("while the other left", []*vm{idle}, was)
	if mover.pid() != was[mover.name].pid {
		t.Fatalf("%s was started anew", mover.name)
	}
	i := slices.IndexFunc(t.history(), func(e event) bool {
		return e.Workload == "vm:"+mover.name && e.Code == "balance-doing"
	})
	if i < 0 {
		t.Fatalf("the history does not tell of it: %v", t.history())
	}
	anon, _ := anonByNode(mover.pid())
	at := t.nodesOf(union(t.vcpus(mover)))
	t.alive(d)
	t.Textf("node %s to node %s after %.1f s, %.1f %% of its memory there", home, at, took.Seconds(), 100*share(anon, at))
}

// sleeps lets the program on a guest's disk rest for so long after each MiB, 0 for not at all (pacer.s).
func (t *T) sleeps(v *vm, rest time.Duration) {
	f, err := os.OpenFile(images+"/"+v.name+".img", os.O_WRONLY|syscall.O_CLOEXEC, 0)
	t.Do(err)
	defer f.Close()
	_, err = f.WriteAt(binary.LittleEndian.AppendUint32(nil, uint32(rest/16)), 506)
	t.Do(err)
}
