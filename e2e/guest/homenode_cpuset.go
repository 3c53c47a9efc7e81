//go:build linux

package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/homenode/homenode/e2e/suite"
)

func init() { tests["homenode.cpuset-locked"] = homenodeCpusetLocked }

// mkdirMost is how long a new cgroup takes while homenode changes others: half of them at most.
// One may meet a moment in which the host gives this guest no CPU; where the kernel waits for
// the lock none is made for as long as that is held.
const (
	mkdirMost  = 100 * time.Millisecond
	mkdirWorst = suite.Slack * 2 * time.Second
)

// frozenNot is what homenode says of a workload with such a process.
const frozenNot = "did not freeze within 300 ms, so its memory nodes were not changed"

// homenodeCpusetLocked: the kernel takes the lock of each process's memory while a write of
// cpuset.mems keeps all other cgroups waiting. A process that holds that lock for ever stops
// nothing but itself while homenode sets memory nodes, undoes, moves and stops, with a daemon
// and without one: a new cgroup is there in 100 ms. (A1)
func homenodeCpusetLocked(t *T) {
	mute, endMute := t.startMute()
	pod := t.newGroup(cgroupRoot, "pod")
	_, take := t.startStuckLater(pod, mute)
	ws := t.startWalkers(cgroupRoot, service("web", 0))
	before := takeSnapshot(ws)
	var took []time.Duration
	during := func(what string, do func() result) result {
		r, each := t.whileMaking(what, endMute, do)
		took = append(took, each...)
		return r
	}
	o := daemonOptions{mode: "enforce", extra: "workloads: [{match: /pod, class: dedicated, cpus: 1}]\n"}
	d := t.startDaemon(o)
	t.Until(120*time.Second, "its memory is bound", func() (bool, string) {
		return readText(pod.file("cpuset.mems")) != "", fmt.Sprintf("%+v", t.status().Workloads)
	})
	t.awaitHome(60*time.Second, ws)
	t.awaitEvent(30*time.Second, "/pod", "was-frozen")
	home := t.read(pod.file("cpuset.mems"))

	// It takes its lock at any time later.
	take()
	left := func(when string) {
		t.bound(when, pod, home)
		t.thawed(when, pod)
	}
	left("with the lock held")
	undone := func(when string) {
		r := during(when, func() result { return homenode("undo", "--all") })
		if said := strings.Join(strings.Fields(r.out+r.err), " "); r.exit == exitOK || !strings.Contains(said, "did not freeze within 300ms") {
			t.Fatalf("%s: %s", when, r)
		}
		left(when)
	}
	undone("undo --all")
	t.same("after undo --all", before, takeSnapshot(ws), about(ws[0]))
	undone("undo --all again")

	other := "0"
	if strings.TrimSpace(home) == other {
		other = "1"
	}
	t.must(homenode("resume", "--all"), exitOK)
	during("move", func() result {
		t.must(homenode("move", "/pod", "--to", other), exitOK)
		t.Until(120*time.Second, "it is left alone", func() (bool, string) {
			s := t.status()
			_, state, why := s.of("/pod")
			return state == "no answer" && strings.Contains(why, frozenNot), state + ": " + why
		})
		return result{}
	})
	left("move")
	t.awaitEvent(30*time.Second, "/pod", "frozen-in-vain")
	explained := strings.Join(strings.Fields(t.must(homenode("explain", "/pod"), exitOK).out), " ")
	for _, want := range []string{frozenNot, "restart the workload"} {
		if !strings.Contains(explained, want) {
			t.Fatalf("explain does not say %q: %s", want, explained)
		}
	}
	during("stop", func() result {
		t.stop(d)
		return result{}
	})
	left("stop")

	o.restore = true
	d = t.startDaemon(o)
	during("stop with restore_on_stop", func() result {
		d.cmd.Process.Signal(syscall.SIGTERM)
		<-d.done
		return result{}
	})
	if said := d.text(); d.exit != exitForbidden || !strings.Contains(said, "1 settings could not be restored") {
		t.Fatalf("a stop with restore_on_stop ended with status %d: %s", d.exit, said)
	}
	left("stop with restore_on_stop")
	during("move without a daemon", func() result { return homenode("move", "/pod", "--to", other) })
	left("move without a daemon")
	t.killedWhileFrozen(pod)
	t.Logf("killed twice while %s was frozen", pod.path())
	left("a kill -9 in the midst")
	undone("undo --all without a daemon")
	t.same("after undo --all without a daemon", before, takeSnapshot(ws), about(ws[0]))
	slices.Sort(took)
	t.Textf("%d cgroups made meanwhile in %v (median), %v at most; %s", len(took), took[len(took)/2].Round(time.Millisecond), took[len(took)-1].Round(time.Millisecond), frozenNot)
}

// killedWhileFrozen kills homenode in the moment in which it has frozen a cgroup: its guardian
// thaws that. With the guardian killed too, as when a whole service is, the next homenode does.
func (t *T) killedWhileFrozen(g group) {
	for _, all := range []bool{false, true} {
		c := exec.Command(homenodeBin, "undo", "--all", "--state-dir", stateFolder)
		t.Do(c.Start())
		frozen := func() bool { return strings.TrimSpace(readText(g.file("cgroup.freeze"))) == "1" }
		for began := time.Now(); !frozen(); time.Sleep(time.Millisecond) {
			if time.Since(began) > commandLimit {
				c.Process.Kill()
				t.Fatalf("undo does not freeze %s", g.path())
			}
		}
		if all {
			c.Process.Signal(syscall.SIGSTOP) // it would thaw while the guardian is looked for
			for _, pid := range guardians() {
				syscall.Kill(pid, syscall.SIGKILL)
			}
		}
		c.Process.Kill()
		c.Wait()
		if all {
			if !frozen() {
				t.Fatalf("%s is thawed with the guardian killed", g.path())
			}
			t.must(homenode("thaw-frozen"), exitOK)
		}
		t.Until(10*time.Second, "it is thawed", func() (bool, string) { return !frozen(), "cgroup.freeze of " + g.path() + " is 1" })
	}
}

// guardians is the processes that thaw what a homenode has frozen when that is killed. They are
// started as /proc/self/exe; cmdline of the locked ones cannot be read.
func guardians() (pids []int) {
	files, _ := filepath.Glob("/proc/[0-9]*/comm")
	for _, f := range files {
		if readText(f) == "exe" {
			pid, _ := strconv.Atoi(filepath.Base(filepath.Dir(f)))
			pids = append(pids, pid)
		}
	}
	return pids
}

// bound fails the test when memory nodes are not as they were.
func (t *T) bound(when string, g group, mems string) {
	if now := t.read(g.file("cpuset.mems")); now != mems {
		t.Fatalf("%s: cpuset.mems of %s is %q, it was %q", when, g.path(), now, mems)
	}
}

// thawed fails the test when homenode has left a cgroup frozen.
func (t *T) thawed(when string, all ...group) {
	for _, g := range all {
		if now := strings.TrimSpace(t.read(g.file("cgroup.freeze"))); now != "0" {
			t.Fatalf("%s: cgroup.freeze of %s is %s", when, g.path(), now)
		}
	}
}

// whileMaking does something, and makes and removes a cgroup several times a second meanwhile
// and for 3 s after: none may take long. Where one does, release ends what it waits for: no
// program can be started before.
func (t *T) whileMaking(what string, release func(), do func() result) (result, []time.Duration) {
	stop, done := make(chan struct{}), make(chan error, 1)
	var took []time.Duration
	go func() {
		done <- makeGroups(stop, func(long time.Duration) { took = append(took, long) }, release)
	}()
	r := do()
	time.Sleep(3 * time.Second)
	close(stop)
	if err := <-done; err != nil {
		t.Fatalf("%s: %v", what, err)
	}
	if len(took) == 0 {
		t.Fatalf("%s: no cgroup was made", what)
	}
	slices.Sort(took)
	median, worst := took[len(took)/2], took[len(took)-1]
	if median > mkdirMost {
		t.Fatalf("%s: %d cgroups were made, half of them in %v or more, the slowest in %v", what, len(took), median, worst)
	}
	t.Logf("%s: %d cgroups made in %v (median), %v at most", what, len(took), median, worst)
	return r, took
}

// makeGroups makes and removes a cgroup until stop is closed, or one takes longer than mkdirWorst.
func makeGroups(stop <-chan struct{}, took func(time.Duration), release func()) error {
	for {
		select {
		case <-stop:
			return nil
		case <-time.After(200 * time.Millisecond):
		}
		start := time.Now()
		late := time.AfterFunc(mkdirWorst, release)
		err := os.Mkdir(cgroupRoot+"/new", 0o755)
		long := time.Since(start)
		if late.Stop(); err == nil {
			err = syscall.Rmdir(cgroupRoot + "/new")
		}
		if err == nil && long > mkdirWorst {
			err = fmt.Errorf("no cgroup could be made for %v, until the lock was let go", long.Round(time.Millisecond))
		}
		if err != nil {
			return err
		}
		took(long)
	}
}
