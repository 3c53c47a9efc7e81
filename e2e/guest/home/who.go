//go:build linux

package home

import (
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/homenode/homenode/e2e/guest/lab"
	"golang.org/x/sys/unix"
)

// homenodeWho: a process gets its home when it is old enough, the shell of a terminal none
// until somebody orders it, and the history has neither before that.
func homenodeWho(t *lab.T) {
	// An hour, however slow the machine is.
	d := t.StartDaemon(lab.DaemonOptions{Mode: "enforce", MinAge: "1h"})
	terminal := newTerminal(t)
	began := time.Now() // or later
	ws := t.StartWalkers(lab.CgroupRoot,
		lab.WalkerSpec{Name: "bash", Slot: 1, MiB: 24, Threads: 1, Place: "bind:1", Unbind: true, Terminal: terminal},
		lab.WalkerSpec{Name: "train", Slot: 2, MiB: 24, Threads: 1, Place: "bind:1", Unbind: true, Plain: true})
	shell, train := ws[0], ws[1]
	all := lab.StatusField(train.PID, "Cpus_allowed_list")
	t.Poll(60*time.Second, time.Second, "the young process is seen and left alone", func() (bool, string) {
		s := t.Status()
		_, state, why := s.Of(train.ID())
		return state == "left alone" && strings.Contains(why, "started less than "), state + ": " + why
	})
	if now := lab.StatusField(train.PID, "Cpus_allowed_list"); now != all {
		t.Fatalf("the young process may use CPUs %s of %s", now, all)
	}
	t.Stop(d)
	minAge := time.Since(began).Round(time.Second) + 20*time.Second
	d = t.StartDaemon(lab.DaemonOptions{Mode: "enforce", MinAge: minAge.String()})
	homes := t.AwaitHome(lab.SettleLimit, ws[1:])
	if age := time.Since(began); age < minAge {
		t.Fatalf("it is at home at the age of %v; min_age is %v", age, minAge)
	}
	s := t.Status()
	if _, state, why := s.Of(shell.ID()); state != "left alone" || !strings.Contains(why, "Login shell") {
		t.Fatalf("the shell is %s: %s", state, why)
	}
	if now := lab.StatusField(shell.PID, "Cpus_allowed_list"); now != all {
		t.Fatalf("the shell may use CPUs %s of %s", now, all)
	}
	text := t.Must(lab.Homenode("history", "--limit", "0"), lab.ExitOK).Out
	if strings.Contains(text, shell.ID()+" ") || strings.Contains(text, "left alone.") {
		t.Fatalf("the history has what was left alone:\n%s", text)
	}
	t.Must(lab.Homenode("move", shell.ID(), "--to", "2"), lab.ExitOK)
	t.AwaitHome(lab.SettleLimit, ws)
	text = t.Must(lab.Homenode("history", "--limit", "0"), lab.ExitOK).Out
	if !strings.Contains(text, " ordered a move: home is node 2") {
		t.Fatalf("the history does not say who ordered the move:\n%s", text)
	}
	t.Alive(d)
	t.Textf("%s on node %s when it was old enough, the shell on node 2 by order", train.ID(), homes[train.Name])
}

// newTerminal is a terminal without a controlling process.
func newTerminal(t *lab.T) *os.File {
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
