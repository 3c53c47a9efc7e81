//go:build linux

package home

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"
	"unicode"

	"github.com/homenode/homenode/e2e/guest/lab"
	"github.com/homenode/homenode/e2e/suite"
	"golang.org/x/sys/unix"
)

// service is a walker that asks for little and starts on the wrong node for half of it.
func service(name string, slot int) lab.WalkerSpec {
	return lab.WalkerSpec{Name: name, Slot: slot, MiB: 32, Threads: 1, Place: "interleave", Unbind: true}
}

// homenodeLocked: a process whose mmap lock is held for ever stops nothing but itself:
// not placing, not undo, not the daemon's end, not a look without a daemon. (R1)
func homenodeLocked(t *lab.T) {
	stuck := startStuck(t, t.NewGroup(lab.CgroupRoot, "stuck"))
	t.OnFailure(func() {
		files, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stack", stuck))
		for _, f := range files {
			t.LogLines(f, lab.ReadText(f), 5)
		}
	})
	ws := t.StartWalkers(lab.CgroupRoot, service("web", 0))
	before := lab.TakeSnapshot(ws)
	d := t.StartDaemon(lab.DaemonOptions{Mode: "enforce"})
	start := time.Now()
	t.AwaitHome(60*time.Second, ws)
	took := time.Since(start)
	lab.Warm(15 * time.Second) // it is tried again meanwhile
	// Some kernels read numa_maps without that lock. All of them take it to move pages.
	var s lab.Status
	var home, state, why string
	t.Until(60*time.Second, "the stuck one is decided on", func() (bool, string) {
		s = t.Status()
		home = s.Home("/stuck")
		_, state, why = s.Of("/stuck")
		return home != "" || state == "no answer", state + ": " + why
	})
	if state != "no answer" && mapsAnswer(stuck) {
		// Its memory may lie at home already, so that no call has hung: it is sent away from there.
		to := "0"
		if home == to {
			to = "1"
		}
		t.Order(ws, "pause", "paused") // it takes two minutes
		t.Must(lab.Homenode("move", "/stuck", "--to", to), lab.ExitOK)
		t.Poll(90*time.Second, 5*time.Second, "the move gets no answer", func() (bool, string) {
			s = t.Status()
			_, state, why = s.Of("/stuck")
			return state == "no answer", state + ": " + why
		})
		t.Order(ws, "go", "going")
	}
	if s.Self.Lost > 4 {
		t.Fatalf("%d calls have been given up", s.Self.Lost)
	}
	t.Must(lab.Homenode("undo", "--all"), lab.ExitOK)
	t.Same("after undo --all", before, lab.TakeSnapshot(ws), lab.About(ws[0]))
	t.Must(lab.Homenode("resume", "--all"), lab.ExitOK)
	t.AwaitHome(60*time.Second, ws)
	t.Unrepeated()
	t.Stop(d)
	t.Must(lab.Homenode("status"), lab.ExitOK)
	t.Must(lab.Homenode("undo", "--all"), lab.ExitOK)
	t.Same("after undo --all without a daemon", before, lab.TakeSnapshot(ws), lab.About(ws[0]))
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
func homenodeOtherWriter(t *lab.T) {
	ws := t.StartWalkers(lab.CgroupRoot, service("web", 0), service("db", 1))
	before := lab.TakeSnapshot(ws)
	d := t.StartDaemon(lab.DaemonOptions{Mode: "enforce"})
	t.AwaitHome(lab.SettleLimit, ws)
	file := ws[0].Group.File("cpuset.cpus")
	byHand := "0"
	if t.Set(t.Read(file)).Has(0) {
		byHand = fmt.Sprint(t.Shape.CPUs() - 1)
	}
	t.Write(file, byHand)
	t.Until(30*time.Second, "it is left alone", func() (bool, string) {
		s := t.Status()
		_, state, why := s.Of(ws[0].ID())
		return state == "left alone", state + ": " + why
	})
	stays := func(when string) {
		if is := t.Read(file); is != byHand {
			t.Fatalf("%s: somebody wrote %s, it is %q", when, byHand, is)
		}
	}
	lab.Warm(10 * time.Second)
	stays("10 s later")
	t.Must(lab.Homenode("undo", "--all"), lab.ExitOK)
	stays("after undo --all")
	t.Same("the other after undo --all", before, lab.TakeSnapshot(ws), lab.About(ws[1]))
	t.Must(lab.Homenode("resume", "--all"), lab.ExitOK)
	t.AwaitHome(lab.SettleLimit, ws[1:])
	stays("after resume --all")
	t.Unrepeated()
	t.Alive(d)
	t.Walking(ws)
}

// homenodeSameName: a cgroup that is made anew under its old name, with a CPU set of its
// own, is another one: nothing is known of it and nothing put back. (R2)
func homenodeSameName(t *lab.T) {
	ws := t.StartWalkers(lab.CgroupRoot, service("web", 0))
	d := t.StartDaemon(lab.DaemonOptions{Mode: "enforce"})
	t.AwaitHome(lab.SettleLimit, ws)
	g := ws[0].Group
	ws[0].Kill()
	t.Until(10*time.Second, "remove the cgroup", func() (bool, string) {
		err := syscall.Rmdir(string(g))
		return err == nil, fmt.Sprint(err)
	})
	own := fmt.Sprint(t.Shape.CPUs() - 1)
	t.NewGroup(lab.CgroupRoot, "web")
	t.Write(g.File("cpuset.cpus"), own)
	w := &lab.Walker{WalkerSpec: service("web", 0), Group: g}
	t.Do(w.Start())
	t.Defer(w.Kill)
	t.Expect(w, "ready")
	t.Until(30*time.Second, "it is left alone", func() (bool, string) {
		s := t.Status()
		_, state, why := s.Of(w.ID())
		return state == "left alone", state + ": " + why
	})
	lab.Warm(5 * time.Second)
	t.Must(lab.Homenode("undo", "--all"), lab.ExitOK)
	if is := t.Read(g.File("cpuset.cpus")); is != own {
		t.Fatalf("it was started on CPU %s, and after undo --all its set is %q", own, is)
	}
	t.Unrepeated()
	t.Alive(d)
}

// sharers is an ordinary user's processes that share one mapping, in MiB.
const (
	sharers   = 12
	sharedMiB = 64
)

// homenodeSharedMemory: memory that many processes of one user share is counted once, and
// leaves room for a service that starts then. (R3)
func homenodeSharedMemory(t *lab.T) {
	if sharers*sharedMiB < t.Shape.MiB() {
		t.Fatalf("%d times %d MiB are less than the machine's", sharers, sharedMiB)
	}
	slice := t.NewGroup(t.NewGroup(lab.CgroupRoot, "user.slice"), "session-1.scope")
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
	d := t.StartDaemon(lab.DaemonOptions{Mode: "enforce"})
	lab.Warm(5 * time.Second)
	ws := t.StartWalkers(lab.CgroupRoot, lab.WalkerSpec{Name: "web", Slot: 0, MiB: 96, Threads: 1, Place: "interleave",
		Unbind: true})
	homes := t.AwaitHome(60*time.Second, ws)
	t.Alive(d)
	t.Textf("%d processes share %d MiB; a service of %d MiB lives on node %s", sharers, sharedMiB, ws[0].MiB,
		homes["web"])
}

// Sharer maps the memory behind descriptor 3, reads all of it and rests.
func Sharer(name string) error {
	if err := os.WriteFile("/proc/self/comm", []byte(name), 0); err != nil {
		return err
	}
	b, err := syscall.Mmap(3, 0, sharedMiB<<20, syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_SHARED)
	if err != nil {
		return fmt.Errorf("map shared memory: %w", err)
	}
	lab.Pages{Bytes: b}.Touch()
	fmt.Print("1")
	Sleeper()
	return nil
}

// homenodeNames: an ordinary user's process called numad switches nothing off, one
// called homenode is seen, and so is a cgroup called init.scope below others, and no
// byte of a name reaches the terminal as it is. (R4, R9)
func homenodeNames(t *lab.T) {
	const hostile = "a b\x1b[31mc\r\u009b (deleted)"
	outer := t.NewGroup(lab.CgroupRoot, "outer")
	t.Write(outer.File("cgroup.subtree_control"), "+cpuset +memory")
	ws := t.StartWalkers(lab.CgroupRoot, service(hostile, 0), service("web", 1))
	hidden := t.StartWalkers(outer, service("init.scope", 2))[0]
	called := map[string]int{}
	for _, name := range []string{"numad", "homenode", "\x1b[2J\x1b[31m\n"} {
		c := exec.Command("/init", "as-nobody", "/init", "called", name)
		pid, err := lab.StartOrphan(c)
		t.Do(err)
		t.Defer(func() { syscall.Kill(pid, syscall.SIGKILL) })
		called[name] = pid
	}
	before := lab.TakeSnapshot(ws)
	d := t.StartDaemon(lab.DaemonOptions{Mode: "enforce"})
	t.AwaitHome(lab.SettleLimit, ws)
	s := t.Status()
	// The tests' configuration excludes names that begin so.
	if _, state, _ := s.Of(hidden.ID()); state == "" {
		t.Fatalf("%s is not seen: %+v", hidden.ID(), s.Workloads)
	}
	for name, pid := range called {
		if _, state, _ := s.Of(fmt.Sprintf("pid:%d", pid)); name != "numad" && state == "" {
			t.Fatalf("a process of %d MiB called %q is not seen: %+v", broodMiB, name, s.Workloads)
		}
	}
	for _, args := range [][]string{{"status"}, {"explain", ws[0].ID()}, {"history"}, {"undo", "--all"}} {
		r := t.Must(lab.Homenode(args...), lab.ExitOK)
		for _, c := range r.Out + r.Err {
			if c != '\n' && unicode.IsControl(c) {
				t.Fatalf("%s prints %q as it is", args[0], c)
			}
		}
	}
	t.Same("after undo --all", before, lab.TakeSnapshot(ws), lab.All)
	t.Alive(d)
}

// Called is a process with a name and memory.
func Called(name string) error {
	if err := os.WriteFile("/proc/self/comm", []byte(name), 0); err != nil {
		return err
	}
	memory := make([]byte, broodMiB<<20)
	for i := 0; i < len(memory); i += lab.PageSize {
		memory[i] = 1
	}
	Sleeper()
	memory[0]++
	return nil
}

// homenodeCPUTaken: when a partition takes a CPU of a home, what lives there is not
// said to be at home with it: it has its CPUs elsewhere, or it is told. (R20)
func homenodeCPUTaken(t *lab.T) {
	ws := t.StartWalkers(lab.CgroupRoot, service("web", 0))
	d := t.StartDaemon(lab.DaemonOptions{Mode: "enforce"})
	t.AwaitHome(lab.SettleLimit, ws)
	file := ws[0].Group.File("cpuset.cpus")
	taken := t.Set(t.Read(file)).IDs()[0]
	part := t.NewGroup(lab.CgroupRoot, "part")
	t.Write(part.File("cpuset.cpus"), fmt.Sprint(taken))
	t.Write(part.File("cpuset.cpus.partition"), "root")
	if is := t.Read(part.File("cpuset.cpus.partition")); is != "root" {
		t.Skipf("no partition: %s", is)
	}
	effective := ws[0].Group.File("cpuset.cpus.effective")
	var outcome string
	t.Until(60*time.Second, "the missing CPU is noticed", func() (bool, string) {
		s := t.Status()
		_, state, why := s.Of(ws[0].ID())
		outcome = fmt.Sprintf("CPU %d taken; set %s, effective %s, %s: %s", taken, t.Read(file), t.Read(effective),
			state, why)
		if !t.Set(t.Read(file)).Has(taken) {
			return true, ""
		}
		for _, e := range t.History() {
			if e.Code == "cpus-taken" {
				return true, ""
			}
		}
		return false, outcome
	})
	t.Alive(d)
	t.Walking(ws)
	t.Textf("%s", strings.TrimSpace(outcome))
}
