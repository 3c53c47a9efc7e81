//go:build linux

package main

import (
	"fmt"
	"os"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// homenodeWho: a process gets its home when it is old enough, the shell of a terminal none
// until somebody orders it, and the history has neither before that.
func homenodeWho(t *T) {
	// An hour, however slow the machine is.
	d := t.startDaemon(daemonOptions{mode: "enforce", minAge: "1h"})
	terminal := t.newTerminal()
	began := time.Now() // or later
	ws := t.startWalkers(cgroupRoot,
		walkerSpec{name: "bash", slot: 1, mib: 24, threads: 1, place: "bind:1", unbind: true, terminal: terminal},
		walkerSpec{name: "train", slot: 2, mib: 24, threads: 1, place: "bind:1", unbind: true, plain: true})
	shell, train := ws[0], ws[1]
	all := statusField(train.pid, "Cpus_allowed_list")
	t.until(60*time.Second, time.Second, "the young process is seen and left alone", func() (bool, string) {
		s := t.status()
		_, state, why := s.of(train.id())
		return state == "left alone" && strings.Contains(why, "started less than "), state + ": " + why
	})
	if now := statusField(train.pid, "Cpus_allowed_list"); now != all {
		t.Fatalf("the young process may use CPUs %s of %s", now, all)
	}
	t.stop(d)
	minAge := time.Since(began).Round(time.Second) + 20*time.Second
	d = t.startDaemon(daemonOptions{mode: "enforce", minAge: minAge.String()})
	homes := t.awaitHome(settleLimit, ws[1:])
	if age := time.Since(began); age < minAge {
		t.Fatalf("it is at home at the age of %v; min_age is %v", age, minAge)
	}
	s := t.status()
	if _, state, why := s.of(shell.id()); state != "left alone" || !strings.Contains(why, "Login shell") {
		t.Fatalf("the shell is %s: %s", state, why)
	}
	if now := statusField(shell.pid, "Cpus_allowed_list"); now != all {
		t.Fatalf("the shell may use CPUs %s of %s", now, all)
	}
	text := t.must(homenode("history", "--limit", "0"), exitOK).out
	if strings.Contains(text, shell.id()+" ") || strings.Contains(text, "left alone.") {
		t.Fatalf("the history has what was left alone:\n%s", text)
	}
	t.must(homenode("move", shell.id(), "--to", "2"), exitOK)
	t.awaitHome(settleLimit, ws)
	text = t.must(homenode("history", "--limit", "0"), exitOK).out
	if !strings.Contains(text, " ordered a move: home is node 2") {
		t.Fatalf("the history does not say who ordered the move:\n%s", text)
	}
	t.alive(d)
	t.Textf("%s on node %s when it was old enough, the shell on node 2 by order", train.id(), homes[train.name])
}

// newTerminal is a terminal of which nobody has control yet.
func (t *T) newTerminal() *os.File {
	t.Do(os.MkdirAll("/dev/pts", 0o755))
	if err := unix.Mount("devpts", "/dev/pts", "devpts", 0, "ptmxmode=0666"); err != nil && err != unix.EBUSY {
		t.Fatalf("mount devpts: %v", err)
	}
	t.Defer(func() { unix.Unmount("/dev/pts", unix.MNT_DETACH) })
	master, err := os.OpenFile("/dev/pts/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	t.Do(err)
	t.Defer(func() { master.Close() })
	t.Do(unix.IoctlSetPointerInt(int(master.Fd()), unix.TIOCSPTLCK, 0))
	n, err := unix.IoctlGetInt(int(master.Fd()), unix.TIOCGPTN)
	t.Do(err)
	slave, err := os.OpenFile(fmt.Sprintf("/dev/pts/%d", n), os.O_RDWR|unix.O_NOCTTY, 0)
	t.Do(err)
	t.Defer(func() { slave.Close() })
	return slave
}
