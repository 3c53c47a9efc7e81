//go:build linux

package main

import (
	"os"
	"syscall"
	"time"
)

// homenodePressure: a page move rests while its workload waits for memory, says
// so, and goes on by itself afterwards.
func homenodePressure(t *T) {
	ws := t.startWalkers(cgroupRoot, walkerSpec{name: "pressed", slot: 1, mib: 160, threads: 1, place: "interleave", unbind: true})
	w := ws[0]
	d := t.startDaemon(daemonOptions{mode: "enforce", bandwidth: slow})
	t.awaitMove(w)

	// Above memory.high whoever allocates is made to wait, by seconds at last.
	high := w.group.file("memory.high")
	t.write(high, "16M")
	hungry := t.startIn(w.group, "/init", "hungry")
	var rests string
	var at moved
	t.until(120*time.Second, time.Second, "the move rests", func() (bool, string) {
		s := t.status()
		m, state, why := s.of(w.id())
		if m.State == "done" {
			t.Fatalf("the move ended before the pressure was felt: %s", readText(w.group.file("memory.pressure")))
		}
		at, rests = m, why
		return state == "paused", state + ", " + oneLine(readText(w.group.file("memory.pressure")))
	})
	t.awaitEvent(10*time.Second, w.id(), "move-rests")
	warm(3 * time.Second)
	s := t.status()
	if m, state, _ := s.of(w.id()); state != "paused" || m.Moved != at.Moved {
		t.Fatalf("it does not rest: %s, %d bytes moved, then %d", state, at.Moved, m.Moved)
	}

	start := time.Now()
	t.write(high, "max")
	syscall.Kill(hungry, syscall.SIGKILL)
	t.awaitEvent(120*time.Second, w.id(), "move-goes-on")
	on := time.Since(start)
	t.awaitHome(settleLimit, ws)
	t.Until(20*time.Second, "the move is done", func() (bool, string) {
		s := t.status()
		m, state, _ := s.of(w.id())
		return m.State == "done" && state == "at home", m.State + ", " + state
	})
	t.walking(ws)
	t.alive(d)
	t.Textf("%s; went on %.0f s after the pressure had gone", rests, on.Seconds())
}

// startedErrors is where programs started by startIn write what goes wrong.
const startedErrors = workFolder + "/started.errors"

// startIn starts a program in a cgroup; it dies with the test.
func (t *T) startIn(g group, argv ...string) int {
	fd, err := syscall.Open(string(g), syscall.O_DIRECTORY|syscall.O_RDONLY|syscall.O_CLOEXEC, 0)
	t.Do(err)
	defer syscall.Close(fd)
	errs, err := os.OpenFile(startedErrors, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	t.Do(err)
	defer errs.Close()
	pid, err := syscall.ForkExec(argv[0], argv, &syscall.ProcAttr{Env: []string{"GODEBUG=asyncpreemptoff=1"}, Files: []uintptr{0, 1, errs.Fd()},
		Sys: &syscall.SysProcAttr{UseCgroupFD: true, CgroupFD: fd}})
	t.Do(err)
	t.Defer(func() {
		syscall.Kill(pid, syscall.SIGKILL)
		awaitEnd(pid)
	})
	return pid
}

// hungry takes memory and gives it back, for ever.
func hungry() error {
	for {
		b, err := syscall.Mmap(-1, 0, 4<<20, syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_PRIVATE|syscall.MAP_ANON)
		if err != nil {
			return err
		}
		for i := 0; i < len(b); i += pageSize {
			b[i] = 1
		}
		if err := syscall.Munmap(b); err != nil {
			return err
		}
	}
}
