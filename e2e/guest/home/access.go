//go:build linux

package home

import (
	"syscall"
	"time"

	"github.com/homenode/homenode/e2e/guest/lab"
)

// homenodeSecondDaemon: two daemons would undo one another.
func homenodeSecondDaemon(t *lab.T) {
	d := t.StartDaemon(lab.DaemonOptions{Mode: "observe"})
	for _, o := range []lab.DaemonOptions{
		{Mode: "observe"},
		{Mode: "observe", Socket: lab.WorkFolder + "/other.sock"},
	} {
		second := t.LaunchDaemon(o)
		select {
		case <-second.Done:
		case <-time.After(20 * time.Second):
			t.Fatalf("a second daemon (socket %q) runs: %s", o.Socket, second.Text())
		}
		if second.Exit != lab.ExitForbidden || second.Text() == "" {
			t.Fatalf("a second daemon (socket %q) ended with status %d and said %q", o.Socket, second.Exit,
				second.Text())
		}
	}
	t.Alive(d)
	t.Status()
}

// homenodeUnprivileged: an ordinary user changes nothing, not even by a command
// that works without a daemon.
func homenodeUnprivileged(t *lab.T) {
	ws := t.StartWalkers(lab.CgroupRoot, pair()...)
	d := t.StartDaemon(lab.DaemonOptions{Mode: "enforce"})
	t.AwaitHome(lab.SettleLimit, ws)
	enforced := lab.TakeSnapshot(ws)
	t.Must(lab.HomenodeVia(lab.ViaNobody, "undo", "--all"), lab.ExitForbidden)
	t.Must(lab.HomenodeVia(lab.ViaNobody, "undo", ws[0].ID()), lab.ExitForbidden)
	t.Must(lab.HomenodeVia(lab.ViaNobody, "resume", "--all"), lab.ExitForbidden)
	t.Same("after an ordinary user's undo", enforced, lab.TakeSnapshot(ws), lab.All)
	t.Stop(d)
	t.Must(lab.HomenodeVia(lab.ViaNobody, "undo", "--all"), lab.ExitForbidden)
	t.Same("after an ordinary user's undo without a daemon", enforced, lab.TakeSnapshot(ws), lab.All)

	theirs := t.LaunchDaemon(lab.DaemonOptions{Mode: "enforce", Wrap: lab.ViaNobody})
	select {
	case <-theirs.Done:
	case <-time.After(20 * time.Second):
		t.Fatalf("an ordinary user's daemon runs: %s", theirs.Text())
	}
	if theirs.Exit != lab.ExitForbidden {
		t.Fatalf("an ordinary user's daemon ended with status %d: %s", theirs.Exit, theirs.Text())
	}
	if _, err := lab.BufferOf(ws[0].PID, ws[0].Slot); err != nil {
		t.Do(err)
	}
	t.Do(syscall.Kill(ws[0].PID, 0))
}
