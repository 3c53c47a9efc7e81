//go:build linux

package main

import (
	"syscall"
	"time"
)

// homenodeSecondDaemon: two daemons would undo one another.
func homenodeSecondDaemon(t *T) {
	d := t.startDaemon(daemonOptions{mode: "observe"})
	for _, o := range []daemonOptions{
		{mode: "observe"},
		{mode: "observe", socket: workFolder + "/other.sock"},
	} {
		second := t.launchDaemon(o)
		select {
		case <-second.done:
		case <-time.After(20 * time.Second):
			t.Fatalf("a second daemon (socket %q) runs: %s", o.socket, second.text())
		}
		if second.exit != exitForbidden || second.text() == "" {
			t.Fatalf("a second daemon (socket %q) ended with status %d and said %q", o.socket, second.exit, second.text())
		}
	}
	t.alive(d)
	t.status()
}

// homenodeUnprivileged: an ordinary user changes nothing, not even by a command
// that works without a daemon.
func homenodeUnprivileged(t *T) {
	ws := t.startWalkers(cgroupRoot, pair()...)
	d := t.startDaemon(daemonOptions{mode: "enforce"})
	t.awaitHome(settleLimit, ws)
	enforced := takeSnapshot(ws)
	t.must(homenodeVia(viaNobody, "undo", "--all"), exitForbidden)
	t.must(homenodeVia(viaNobody, "undo", ws[0].id()), exitForbidden)
	t.must(homenodeVia(viaNobody, "resume", "--all"), exitForbidden)
	t.same("after an ordinary user's undo", enforced, takeSnapshot(ws), all)
	t.stop(d)
	t.must(homenodeVia(viaNobody, "undo", "--all"), exitForbidden)
	t.same("after an ordinary user's undo without a daemon", enforced, takeSnapshot(ws), all)

	theirs := t.launchDaemon(daemonOptions{mode: "enforce", wrap: viaNobody})
	select {
	case <-theirs.done:
	case <-time.After(20 * time.Second):
		t.Fatalf("an ordinary user's daemon runs: %s", theirs.text())
	}
	if theirs.exit != exitForbidden {
		t.Fatalf("an ordinary user's daemon ended with status %d: %s", theirs.exit, theirs.text())
	}
	if _, err := bufferOf(ws[0].pid, ws[0].slot); err != nil {
		t.Do(err)
	}
	t.Do(syscall.Kill(ws[0].pid, 0))
}
