//go:build linux

package home

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

	"github.com/homenode/homenode/e2e/guest/lab"
	"github.com/homenode/homenode/e2e/suite"
)

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
func homenodeCpusetLocked(t *lab.T) {
	mute, endMute := startMute(t)
	pod := t.NewGroup(lab.CgroupRoot, "pod")
	_, take := startStuckLater(t, pod, mute)
	ws := t.StartWalkers(lab.CgroupRoot, service("web", 0))
	before := lab.TakeSnapshot(ws)
	var took []time.Duration
	during := func(what string, do func() lab.Result) lab.Result {
		r, each := whileMaking(t, what, endMute, do)
		took = append(took, each...)
		return r
	}
	o := lab.DaemonOptions{Mode: "enforce", Extra: "workloads: [{match: /pod, class: dedicated, cpus: 1}]\n"}
	d := t.StartDaemon(o)
	t.Until(120*time.Second, "its memory is bound", func() (bool, string) {
		return lab.ReadText(pod.File("cpuset.mems")) != "", fmt.Sprintf("%+v", t.Status().Workloads)
	})
	t.AwaitHome(60*time.Second, ws)
	t.AwaitEvent(30*time.Second, "/pod", "was-frozen")
	home := t.Read(pod.File("cpuset.mems"))

	// It takes its lock at any time later.
	take()
	left := func(when string) {
		bound(t, when, pod, home)
		thawed(t, when, pod)
	}
	left("with the lock held")
	undone := func(when string) {
		r := during(when, func() lab.Result { return lab.Homenode("undo", "--all") })
		if said := strings.Join(strings.Fields(r.Out+r.Err), " "); r.Exit == lab.ExitOK ||
			!strings.Contains(said, "did not freeze within 300ms") {
			t.Fatalf("%s: %s", when, r)
		}
		left(when)
	}
	undone("undo --all")
	t.Same("after undo --all", before, lab.TakeSnapshot(ws), lab.About(ws[0]))
	undone("undo --all again")

	other := "0"
	if strings.TrimSpace(home) == other {
		other = "1"
	}
	t.Must(lab.Homenode("resume", "--all"), lab.ExitOK)
	during("move", func() lab.Result {
		t.Must(lab.Homenode("move", "/pod", "--to", other), lab.ExitOK)
		t.Until(120*time.Second, "it is left alone", func() (bool, string) {
			s := t.Status()
			_, state, why := s.Of("/pod")
			return state == "no answer" && strings.Contains(why, frozenNot), state + ": " + why
		})
		return lab.Result{}
	})
	left("move")
	t.AwaitEvent(30*time.Second, "/pod", "frozen-in-vain")
	explained := strings.Join(strings.Fields(t.Must(lab.Homenode("explain", "/pod"), lab.ExitOK).Out), " ")
	for _, want := range []string{frozenNot, "restart the workload"} {
		if !strings.Contains(explained, want) {
			t.Fatalf("explain does not say %q: %s", want, explained)
		}
	}
	during("stop", func() lab.Result {
		t.Stop(d)
		return lab.Result{}
	})
	left("stop")

	o.Restore = true
	d = t.StartDaemon(o)
	during("stop with restore_on_stop", func() lab.Result {
		d.Cmd.Process.Signal(syscall.SIGTERM)
		<-d.Done
		return lab.Result{}
	})
	if said := d.Text(); d.Exit != lab.ExitForbidden || !strings.Contains(said, "1 settings could not be restored") {
		t.Fatalf("a stop with restore_on_stop ended with status %d: %s", d.Exit, said)
	}
	left("stop with restore_on_stop")
	during("move without a daemon", func() lab.Result { return lab.Homenode("move", "/pod", "--to", other) })
	left("move without a daemon")
	killedWhileFrozen(t, pod)
	t.Logf("killed twice while %s was frozen", pod.Path())
	left("a kill -9 in the midst")
	undone("undo --all without a daemon")
	t.Same("after undo --all without a daemon", before, lab.TakeSnapshot(ws), lab.About(ws[0]))
	slices.Sort(took)
	t.Textf("%d cgroups made meanwhile in %v (median), %v at most; %s", len(took),
		took[len(took)/2].Round(time.Millisecond), took[len(took)-1].Round(time.Millisecond), frozenNot)
}

// killedWhileFrozen kills homenode in the moment in which it has frozen a cgroup: its guardian
// thaws that. With the guardian killed too, as when a whole service is, the next homenode does.
func killedWhileFrozen(t *lab.T, g lab.Group) {
	for _, all := range []bool{false, true} {
		c := exec.Command(lab.HomenodeBin, "undo", "--all", "--state-dir", lab.StateFolder)
		t.Do(c.Start())
		frozen := func() bool { return strings.TrimSpace(lab.ReadText(g.File("cgroup.freeze"))) == "1" }
		for began := time.Now(); !frozen(); time.Sleep(time.Millisecond) {
			if time.Since(began) > lab.CommandLimit {
				c.Process.Kill()
				t.Fatalf("undo does not freeze %s", g.Path())
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
				t.Fatalf("%s is thawed with the guardian killed", g.Path())
			}
			t.Must(lab.Homenode("thaw-frozen"), lab.ExitOK)
		}
		t.Until(10*time.Second, "it is thawed",
			func() (bool, string) { return !frozen(), "cgroup.freeze of " + g.Path() + " is 1" })
	}
}

// guardians is the processes that thaw what a homenode has frozen when that is killed. They are
// started as /proc/self/exe; cmdline of the locked ones cannot be read.
func guardians() (pids []int) {
	files, _ := filepath.Glob("/proc/[0-9]*/comm")
	for _, f := range files {
		if lab.ReadText(f) == "exe" {
			pid, _ := strconv.Atoi(filepath.Base(filepath.Dir(f)))
			pids = append(pids, pid)
		}
	}
	return pids
}

// bound fails the test when memory nodes are not as they were.
func bound(t *lab.T, when string, g lab.Group, mems string) {
	if now := t.Read(g.File("cpuset.mems")); now != mems {
		t.Fatalf("%s: cpuset.mems of %s is %q, it was %q", when, g.Path(), now, mems)
	}
}

// thawed fails the test when homenode has left a cgroup frozen.
func thawed(t *lab.T, when string, all ...lab.Group) {
	for _, g := range all {
		if now := strings.TrimSpace(t.Read(g.File("cgroup.freeze"))); now != "0" {
			t.Fatalf("%s: cgroup.freeze of %s is %s", when, g.Path(), now)
		}
	}
}

// whileMaking does something, and makes and removes a cgroup several times a second meanwhile
// and for 3 s after: none may take long. Where one does, release ends what it waits for: no
// program can be started before.
func whileMaking(t *lab.T, what string, release func(), do func() lab.Result) (lab.Result, []time.Duration) {
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
		t.Fatalf("%s: %d cgroups were made, half of them in %v or more, the slowest in %v", what, len(took), median,
			worst)
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
		err := os.Mkdir(lab.CgroupRoot+"/new", 0o755)
		long := time.Since(start)
		late.Stop()
		if err == nil {
			err = syscall.Rmdir(lab.CgroupRoot + "/new")
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
