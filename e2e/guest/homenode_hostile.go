//go:build linux

package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"
	"unicode"

	"golang.org/x/sys/unix"

	"github.com/homenode/homenode/e2e/suite"
)

func init() {
	tests["homenode.locked"] = homenodeLocked
	tests["homenode.other-writer"] = homenodeOtherWriter
	tests["homenode.same-name"] = homenodeSameName
	tests["homenode.shared-memory"] = homenodeSharedMemory
	tests["homenode.names"] = homenodeNames
	tests["homenode.cpu-taken"] = homenodeCPUTaken
}

// service is a walker that asks for little and starts on the wrong node for half of it.
func service(name string, slot int) walkerSpec {
	return walkerSpec{name: name, slot: slot, mib: 32, threads: 1, place: "interleave", unbind: true}
}

// homenodeLocked: a process whose mmap lock is held for ever stops nothing but itself:
// not placing, not undo, not the daemon's end, not a look without a daemon. (R1)
func homenodeLocked(t *T) {
	stuck := t.startStuck(t.newGroup(cgroupRoot, "stuck"))
	t.OnFailure(func() {
		files, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stack", stuck))
		for _, f := range files {
			t.logLines(f, readText(f), 5)
		}
	})
	ws := t.startWalkers(cgroupRoot, service("web", 0))
	before := takeSnapshot(ws)
	d := t.startDaemon(daemonOptions{mode: "enforce"})
	start := time.Now()
	t.awaitHome(60*time.Second, ws)
	took := time.Since(start)
	warm(15 * time.Second) // it is tried again meanwhile
	// Some kernels read numa_maps without that lock. All of them take it to move pages.
	var s status
	var home, state, why string
	t.Until(60*time.Second, "the stuck one is decided on", func() (bool, string) {
		s = t.status()
		home = s.home("/stuck")
		_, state, why = s.of("/stuck")
		return home != "" || state == "no answer", state + ": " + why
	})
	if state != "no answer" && mapsAnswer(stuck) {
		// Its memory may lie at home already, so that no call has hung: it is sent away from there.
		to := "0"
		if home == to {
			to = "1"
		}
		t.order(ws, "pause", "paused") // it takes two minutes
		t.must(homenode("move", "/stuck", "--to", to), exitOK)
		t.until(90*time.Second, 5*time.Second, "the move gets no answer", func() (bool, string) {
			s = t.status()
			_, state, why = s.of("/stuck")
			return state == "no answer", state + ": " + why
		})
		t.order(ws, "go", "going")
	}
	if s.Self.Lost > 4 {
		t.Fatalf("%d calls have been given up", s.Self.Lost)
	}
	t.must(homenode("undo", "--all"), exitOK)
	t.same("after undo --all", before, takeSnapshot(ws), about(ws[0]))
	t.must(homenode("resume", "--all"), exitOK)
	t.awaitHome(60*time.Second, ws)
	t.unrepeated()
	t.stop(d)
	t.must(homenode("status"), exitOK)
	t.must(homenode("undo", "--all"), exitOK)
	t.same("after undo --all without a daemon", before, takeSnapshot(ws), about(ws[0]))
	if state != "no answer" {
		t.Fatalf("the stuck one is %s: %s", state, why)
	}
	t.Textf("another is home after %.1f s; the stuck one is %s: %s", took.Seconds(), state, why)
}

// mapsAnswer reports whether numa_maps of a process can be read.
func mapsAnswer(pid int) bool {
	back := make(chan error, 1)
	go func() {
		_, err := os.ReadFile(fmt.Sprintf("/proc/%d/numa_maps", pid))
		back <- err
	}()
	select {
	case err := <-back:
		return err == nil
	case <-time.After(suite.Slack * 2 * time.Second):
		return false
	}
}

// homenodeOtherWriter: what somebody else writes into a CPU set after homenode stays, also
// over undo. (R2)
func homenodeOtherWriter(t *T) {
	ws := t.startWalkers(cgroupRoot, service("web", 0), service("db", 1))
	before := takeSnapshot(ws)
	d := t.startDaemon(daemonOptions{mode: "enforce"})
	t.awaitHome(settleLimit, ws)
	file := ws[0].group.file("cpuset.cpus")
	byHand := "0"
	if t.set(t.read(file)).has(0) {
		byHand = fmt.Sprint(t.shape.CPUs() - 1)
	}
	t.write(file, byHand)
	t.Until(30*time.Second, "it is left alone", func() (bool, string) {
		s := t.status()
		_, state, why := s.of(ws[0].id())
		return state == "left alone", state + ": " + why
	})
	stays := func(when string) {
		if is := t.read(file); is != byHand {
			t.Fatalf("%s: somebody wrote %s, it is %q", when, byHand, is)
		}
	}
	warm(10 * time.Second)
	stays("10 s later")
	t.must(homenode("undo", "--all"), exitOK)
	stays("after undo --all")
	t.same("the other after undo --all", before, takeSnapshot(ws), about(ws[1]))
	t.must(homenode("resume", "--all"), exitOK)
	t.awaitHome(settleLimit, ws[1:])
	stays("after resume --all")
	t.unrepeated()
	t.alive(d)
	t.walking(ws)
}

// homenodeSameName: a cgroup that is made anew under its old name, with a CPU set of its
// own, is another one: nothing is known of it and nothing put back. (R2)
func homenodeSameName(t *T) {
	ws := t.startWalkers(cgroupRoot, service("web", 0))
	d := t.startDaemon(daemonOptions{mode: "enforce"})
	t.awaitHome(settleLimit, ws)
	g := ws[0].group
	ws[0].kill()
	t.Until(10*time.Second, "remove the cgroup", func() (bool, string) {
		err := syscall.Rmdir(string(g))
		return err == nil, fmt.Sprint(err)
	})
	own := fmt.Sprint(t.shape.CPUs() - 1)
	t.newGroup(cgroupRoot, "web")
	t.write(g.file("cpuset.cpus"), own)
	w := &walker{walkerSpec: service("web", 0), group: g}
	t.Do(w.start())
	t.Defer(w.kill)
	t.expect(w, "ready")
	t.Until(30*time.Second, "it is left alone", func() (bool, string) {
		s := t.status()
		_, state, why := s.of(w.id())
		return state == "left alone", state + ": " + why
	})
	warm(5 * time.Second)
	t.must(homenode("undo", "--all"), exitOK)
	if is := t.read(g.file("cpuset.cpus")); is != own {
		t.Fatalf("it was started on CPU %s, and after undo --all its set is %q", own, is)
	}
	t.unrepeated()
	t.alive(d)
}

// sharers is an ordinary user's processes that share one mapping, in MiB.
const (
	sharers   = 12
	sharedMiB = 64
)

// homenodeSharedMemory: memory that many processes of one user share is counted once, and
// leaves room for a service that starts then. (R3)
func homenodeSharedMemory(t *T) {
	if sharers*sharedMiB < t.shape.MiB() {
		t.Fatalf("%d times %d MiB are less than the machine's", sharers, sharedMiB)
	}
	slice := t.newGroup(t.newGroup(cgroupRoot, "user.slice"), "session-1.scope")
	fd, err := unix.MemfdCreate("shared", 0)
	t.Do(err)
	shared := os.NewFile(uintptr(fd), "shared")
	t.Do(shared.Truncate(sharedMiB << 20))
	at, err := syscall.Open(string(slice), syscall.O_DIRECTORY|syscall.O_RDONLY|syscall.O_CLOEXEC, 0)
	t.Do(err)
	for i := range sharers {
		c := exec.Command("/init", "as-nobody", "/init", "sharer", fmt.Sprintf("w%d", i))
		c.ExtraFiles = []*os.File{shared}
		c.SysProcAttr = &syscall.SysProcAttr{UseCgroupFD: true, CgroupFD: at}
		out, err := c.StdoutPipe()
		t.Do(err)
		t.Do(c.Start())
		t.Defer(func() {
			c.Process.Kill()
			c.Wait()
		})
		if _, err := out.Read(make([]byte, 1)); err != nil { // it has touched all
			t.Fatalf("sharer %d: %v", i, err)
		}
	}
	syscall.Close(at)
	d := t.startDaemon(daemonOptions{mode: "enforce"})
	warm(5 * time.Second)
	ws := t.startWalkers(cgroupRoot, walkerSpec{name: "web", slot: 0, mib: 96, threads: 1, place: "interleave", unbind: true})
	homes := t.awaitHome(60*time.Second, ws)
	t.alive(d)
	t.Textf("%d processes share %d MiB; a service of %d MiB lives on node %s", sharers, sharedMiB, ws[0].mib, homes["web"])
}

// sharer maps the memory behind descriptor 3, reads all of it and rests.
func sharer(name string) error {
	if err := os.WriteFile("/proc/self/comm", []byte(name), 0); err != nil {
		return err
	}
	b, err := syscall.Mmap(3, 0, sharedMiB<<20, syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_SHARED)
	if err != nil {
		return fmt.Errorf("map shared memory: %w", err)
	}
	pages{b}.touch()
	fmt.Print("1")
	sleeper()
	return nil
}

// homenodeNames: an ordinary user's process called numad switches nothing off, one
// called homenode is seen, and so is a cgroup called init.scope below others, and no
// byte of a name reaches the terminal as it is. (R4, R9)
func homenodeNames(t *T) {
	const hostile = "a b\x1b[31mc\r\u009b (deleted)"
	outer := t.newGroup(cgroupRoot, "outer")
	t.write(outer.file("cgroup.subtree_control"), "+cpuset +memory")
	ws := t.startWalkers(cgroupRoot, service(hostile, 0), service("web", 1))
	hidden := t.startWalkers(outer, service("init.scope", 2))[0]
	called := map[string]int{}
	for _, name := range []string{"numad", "homenode", "\x1b[2J\x1b[31m\n"} {
		c := exec.Command("/init", "as-nobody", "/init", "called", name)
		pid, err := startOrphan(c)
		t.Do(err)
		t.Defer(func() { syscall.Kill(pid, syscall.SIGKILL) })
		called[name] = pid
	}
	before := takeSnapshot(ws)
	d := t.startDaemon(daemonOptions{mode: "enforce"})
	t.awaitHome(settleLimit, ws)
	s := t.status()
	// The tests' configuration excludes names that begin so.
	if _, state, _ := s.of(hidden.id()); state == "" {
		t.Fatalf("%s is not seen: %+v", hidden.id(), s.Workloads)
	}
	for name, pid := range called {
		if _, state, _ := s.of(fmt.Sprintf("pid:%d", pid)); name != "numad" && state == "" {
			t.Fatalf("a process of %d MiB called %q is not seen: %+v", broodMiB, name, s.Workloads)
		}
	}
	for _, args := range [][]string{{"status"}, {"explain", ws[0].id()}, {"history"}, {"undo", "--all"}} {
		r := t.must(homenode(args...), exitOK)
		for _, c := range r.out + r.err {
			if c != '\n' && unicode.IsControl(c) {
				t.Fatalf("%s prints %q as it is", args[0], c)
			}
		}
	}
	t.same("after undo --all", before, takeSnapshot(ws), all)
	t.alive(d)
}

// called is a process with a name and memory.
func called(name string) error {
	if err := os.WriteFile("/proc/self/comm", []byte(name), 0); err != nil {
		return err
	}
	memory := make([]byte, broodMiB<<20)
	for i := 0; i < len(memory); i += pageSize {
		memory[i] = 1
	}
	sleeper()
	memory[0]++
	return nil
}

// homenodeCPUTaken: when a partition takes a CPU of a home, what lives there is not
// said to be at home with it: it has its CPUs elsewhere, or it is told. (R20)
func homenodeCPUTaken(t *T) {
	ws := t.startWalkers(cgroupRoot, service("web", 0))
	d := t.startDaemon(daemonOptions{mode: "enforce"})
	t.awaitHome(settleLimit, ws)
	file := ws[0].group.file("cpuset.cpus")
	taken := t.set(t.read(file)).ids()[0]
	part := t.newGroup(cgroupRoot, "part")
	t.write(part.file("cpuset.cpus"), fmt.Sprint(taken))
	t.write(part.file("cpuset.cpus.partition"), "root")
	if is := t.read(part.file("cpuset.cpus.partition")); is != "root" {
		t.Skipf("no partition: %s", is)
	}
	effective := ws[0].group.file("cpuset.cpus.effective")
	var outcome string
	t.Until(60*time.Second, "the missing CPU is noticed", func() (bool, string) {
		s := t.status()
		_, state, why := s.of(ws[0].id())
		outcome = fmt.Sprintf("CPU %d taken; set %s, effective %s, %s: %s", taken, t.read(file), t.read(effective), state, why)
		if !t.set(t.read(file)).has(taken) {
			return true, ""
		}
		for _, e := range t.history() {
			if e.Code == "cpus-taken" {
				return true, ""
			}
		}
		return false, outcome
	})
	t.alive(d)
	t.walking(ws)
	t.Textf("%s", strings.TrimSpace(outcome))
}
