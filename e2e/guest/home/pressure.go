//go:build linux

package home

import (
	"os"
	"syscall"
	"time"

	"github.com/homenode/homenode/e2e/guest/lab"
)

// homenodePressure: a page move rests while its workload waits for memory, says
// so, and goes on by itself afterwards.
func homenodePressure(t *lab.T) {
	ws := t.StartWalkers(lab.CgroupRoot, lab.WalkerSpec{Name: "pressed", Slot: 1, MiB: 160, Threads: 1,
		Place: "interleave", Unbind: true})
	w := ws[0]
	d := t.StartDaemon(lab.DaemonOptions{Mode: "enforce", Bandwidth: slow})
	awaitMove(t, w)

	// Above memory.high whoever allocates is made to wait, by seconds at last.
	high := w.Group.File("memory.high")
	t.Write(high, "16M")
	hungry := startIn(t, w.Group, "/init", "hungry")
	var rests string
	var at lab.Moved
	t.Poll(120*time.Second, time.Second, "the move rests", func() (bool, string) {
		s := t.Status()
		m, state, why := s.Of(w.ID())
		if m.State == "done" {
			t.Fatalf("the move ended before the pressure was felt: %s", lab.ReadText(w.Group.File("memory.pressure")))
		}
		at, rests = m, why
		return state == "paused", state + ", " + lab.OneLine(lab.ReadText(w.Group.File("memory.pressure")))
	})
	t.AwaitEvent(10*time.Second, w.ID(), "move-rests")
	lab.Warm(3 * time.Second)
	s := t.Status()
	if m, state, _ := s.Of(w.ID()); state != "paused" || m.Moved != at.Moved {
		t.Fatalf("it does not rest: %s, %d bytes moved, then %d", state, at.Moved, m.Moved)
	}

	start := time.Now()
	t.Write(high, "max")
	syscall.Kill(hungry, syscall.SIGKILL)
	t.AwaitEvent(120*time.Second, w.ID(), "move-goes-on")
	on := time.Since(start)
	t.AwaitHome(lab.SettleLimit, ws)
	t.Until(20*time.Second, "the move is done", func() (bool, string) {
		s := t.Status()
		m, state, _ := s.Of(w.ID())
		return m.State == "done" && state == "at home", m.State + ", " + state
	})
	t.Walking(ws)
	t.Alive(d)
	t.Textf("%s; went on %.0f s after the pressure had gone", rests, on.Seconds())
}

// startedErrors is where programs started by startIn write what goes wrong.
const startedErrors = lab.WorkFolder + "/started.errors"

// startIn starts a program in a cgroup; it dies with the test.
func startIn(t *lab.T, g lab.Group, argv ...string) int {
	fd, err := syscall.Open(string(g), syscall.O_DIRECTORY|syscall.O_RDONLY|syscall.O_CLOEXEC, 0)
	t.Do(err)
	defer syscall.Close(fd)
	errs, err := os.OpenFile(startedErrors, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	t.Do(err)
	defer errs.Close()
	pid, err := syscall.ForkExec(argv[0], argv, &syscall.ProcAttr{Env: []string{"GODEBUG=asyncpreemptoff=1"},
		Files: []uintptr{0, 1, errs.Fd()},
		Sys:   &syscall.SysProcAttr{UseCgroupFD: true, CgroupFD: fd}})
	t.Do(err)
	t.Defer(func() {
		syscall.Kill(pid, syscall.SIGKILL)
		lab.AwaitEnd(pid)
	})
	return pid
}

// Hungry takes memory and gives it back, for ever.
func Hungry() error {
	for {
		b, err := syscall.Mmap(-1, 0, 4<<20, syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_PRIVATE|syscall.MAP_ANON)
		if err != nil {
			return err
		}
		for i := 0; i < len(b); i += lab.PageSize {
			b[i] = 1
		}
		if err := syscall.Munmap(b); err != nil {
			return err
		}
	}
}
