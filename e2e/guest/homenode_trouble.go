//go:build linux

package main

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"syscall"
	"time"
)

// slow is a bandwidth at which moving a walker takes long enough to meddle.
const slow = "8MiB"

// pair is two walkers in the wrong place: the first meets the trouble, the second
// shows that nothing is stuck.
func pair() []walkerSpec {
	return []walkerSpec{
		{name: "first", slot: 1, mib: 160, threads: 2, place: "interleave", unbind: true},
		{name: "second", slot: 2, mib: 48, threads: 1, place: "interleave", unbind: true},
	}
}

// awaitMove waits until pages of a walker are on the move.
func (t *T) awaitMove(w *walker) {
	was := byNodeText(t.buffer(w).nodes)
	t.Until(60*time.Second, "pages of "+w.name+" move", func() (bool, string) {
		is := byNodeText(t.buffer(w).nodes)
		return is != was, is
	})
}

// homenodeExitInMove: a workload that ends while its pages move.
func homenodeExitInMove(t *T) {
	ws := t.startWalkers(cgroupRoot, pair()...)
	d := t.startDaemon(daemonOptions{mode: "enforce", bandwidth: slow})
	t.awaitMove(ws[0])
	ws[0].kill()
	e := t.awaitEvent(30*time.Second, ws[0].id(), "workload-gone")
	t.awaitHome(settleLimit, ws[1:])
	t.alive(d)
	t.Textf("history: %s", cut(e.Text))
}

// homenodeCgroupGone: a cgroup that was changed and is removed.
func homenodeCgroupGone(t *T) {
	ws := t.startWalkers(cgroupRoot, pair()...)
	d := t.startDaemon(daemonOptions{mode: "enforce"})
	t.awaitHome(settleLimit, ws)
	id := ws[0].id()
	ws[0].kill()
	t.Until(10*time.Second, "remove cgroup", func() (bool, string) {
		err := syscall.Rmdir(string(ws[0].group))
		return err == nil, fmt.Sprint(err)
	})
	e := t.awaitEvent(30*time.Second, id, "workload-gone")
	t.must(homenode("undo", "--all"), exitOK)
	if cpus := t.read(ws[1].group.file("cpuset.cpus")); cpus != "" {
		t.Fatalf("after undo --all cpuset.cpus of the other is %q", cpus)
	}
	t.alive(d)
	t.Textf("history: %s", cut(e.Text))
}

// homenodeNodeFull: the home runs out of free memory while pages move there.
func homenodeNodeFull(t *T) {
	ws := t.startWalkers(cgroupRoot, pair()...)
	d := t.startDaemon(daemonOptions{mode: "enforce", bandwidth: "2MiB"})
	t.awaitMove(ws[0])
	home := t.homes(ws)["first"]
	if home.size() != 1 {
		t.Fatalf("home of first is %q", home)
	}
	t.fill(home.ids()[0])
	// It moves on to a node with room, or says what did not fit.
	var outcome string
	t.until(90*time.Second, time.Second, "the full node is noticed", func() (bool, string) {
		s := t.status()
		m, state, why := s.of(ws[0].id())
		now := t.homes(ws)["first"]
		outcome = fmt.Sprintf("home node %s, then %s: %s, move %s with %d bytes refused; %s", home, now, state, m.State, m.Refused, why)
		return now != home && now != 0 || m.Refused > 0 || m.State == "failed", outcome
	})
	t.walking(ws)
	t.alive(d)
	t.must(homenode("undo", "--all"), exitOK)
	t.unrepeated()
	t.Textf("%s", cut(outcome))
}

// fill takes a node's free memory until the kernel gives from other nodes alone.
// The memory is preferred there, not bound: a bound allocation on a full node
// calls the OOM killer.
func (t *T) fill(node int) {
	// By default the kernel keeps some 60 MiB a node back (for huge pages), and
	// lets page moves have part of that: a node would never be quite full.
	const reserve = "/proc/sys/vm/min_free_kbytes"
	was := t.read(reserve)
	t.write(reserve, "4096")
	t.Defer(func() { writeText(reserve, was) })
	const chunk = 4 // MiB
	for misses := 0; misses < 3; {
		before := nodeKiB(node, "MemFree")
		p := t.mapPages(chunk)
		t.Do(p.bind(mpolPreferred, setOf(node)))
		p.touch()
		if before-nodeKiB(node, "MemFree") < chunk<<10/2 {
			misses++
		} else {
			misses = 0
		}
	}
	t.Logf("node%d is full, %d KiB free", node, nodeKiB(node, "MemFree"))
}

// homenodeCPUOffline: a CPU of a home goes and comes back.
func homenodeCPUOffline(t *T) {
	ws := t.startWalkers(cgroupRoot, append(pair(), walkerSpec{name: "p1", slot: 3, mib: 32, threads: 1, place: "interleave", unbind: true, plain: true})...)
	d := t.startDaemon(daemonOptions{mode: "enforce"})
	homes := t.awaitHome(settleLimit, ws)
	cpu := cpusOf(homes["first"]).ids()[1]
	file := fmt.Sprintf("/sys/devices/system/cpu/cpu%d/online", cpu)
	t.write(file, "0")
	e := t.awaitEvent(30*time.Second, "", "cpus-offline")
	t.awaitHome(settleLimit, ws)
	t.walking(ws)
	t.write(file, "1")
	t.Until(60*time.Second, "the CPU is used again", func() (bool, string) {
		homes := t.homes(ws)
		var seen []string
		for _, w := range ws {
			for _, cpus := range allowed(w.pid) {
				if cpus.has(cpu) {
					return true, ""
				}
			}
			seen = append(seen, fmt.Sprintf("%s home %s allowed %v", w.name, homes[w.name], allowed(w.pid)))
		}
		return false, fmt.Sprint(seen)
	})
	t.alive(d)
	t.Textf("history: %s", cut(e.Text))
}

// homenodeReadOnly: a daemon that may not write the cgroup tree, as in a
// container. What can not be done is said, and nothing else suffers.
func homenodeReadOnly(t *T) {
	ws := t.startWalkers(cgroupRoot, pair()...)
	before := takeSnapshot(ws)
	d := t.startDaemon(daemonOptions{mode: "enforce", wrap: []string{"/init", "read-only-cgroups"}})
	e := t.awaitEvent(30*time.Second, "", "step-failed")
	warm(3 * time.Second)
	t.alive(d)
	settings := func(n string) bool { return n[0] == '/' }
	t.same("cgroup files under a read-only tree", before, takeSnapshot(ws), settings)
	t.must(homenode("status"), exitOK)
	t.walking(ws)
	t.unrepeated()
	t.stop(d)
	t.Textf("history: %s", cut(e.Text))
}

// readOnlyCgroups runs a command in a mount namespace of its own, in which the
// cgroup tree is read-only.
func readOnlyCgroups(argv []string) error {
	if len(argv) == 0 {
		return errors.New("read-only-cgroups: no command")
	}
	runtime.LockOSThread() // a namespace belongs to the thread that asked for it
	if err := syscall.Unshare(syscall.CLONE_NEWNS); err != nil {
		return fmt.Errorf("unshare mounts: %w", err)
	}
	if err := syscall.Mount("", "/", "", syscall.MS_REC|syscall.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("make mounts private: %w", err)
	}
	if err := syscall.Mount("", cgroupRoot, "", syscall.MS_REMOUNT|syscall.MS_BIND|syscall.MS_RDONLY, ""); err != nil {
		return fmt.Errorf("make %s read-only: %w", cgroupRoot, err)
	}
	return fmt.Errorf("run %s: %w", argv[0], syscall.Exec(argv[0], argv, os.Environ()))
}
