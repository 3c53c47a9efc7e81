//go:build linux

package main

import (
	"strings"
	"time"
)

// presets gives some walkers values of their own to be put back, so that undo can
// not pass by emptying everything.
func (t *T) presets(ws []*walker) {
	for _, w := range ws {
		switch w.name {
		case "batch":
			t.write(w.group.file("cpuset.cpus"), "0-15")
		case "db":
			t.write(w.group.file("cpuset.mems"), "0-3")
			t.write(w.group.file("cpu.weight"), "150")
		}
	}
}

// homenodeUndo: undo of one workload puts that one back, undo --all everything,
// and the daemon leaves alone what was undone.
func homenodeUndo(t *T) {
	ws := t.startWalkers(cgroupRoot, t.few()...)
	t.presets(ws)
	before := takeSnapshot(ws)
	d := t.startDaemon(daemonOptions{mode: "enforce"})
	t.awaitHome(settleLimit, ws)
	enforced := takeSnapshot(ws)
	changed := before.changes(enforced, all)
	if len(changed) < len(ws) {
		t.Fatalf("only %d values changed by enforcing: %s", len(changed), strings.Join(changed, "; "))
	}

	web, p1 := ws[2], ws[4]
	for _, one := range []*walker{web, p1} { // one of each kind
		t.must(homenode("undo", one.id()), exitOK)
		t.same("after undo of "+one.id(), before, takeSnapshot(ws), about(one))
		others := func(n string) bool { return !about(one)(n) && !about(web)(n) }
		t.same("others after undo of "+one.id(), enforced, takeSnapshot(ws), others)
	}
	t.undoneAll()
	t.same("after undo --all", before, takeSnapshot(ws), all)
	warm(5 * time.Second)
	t.same("5 s after undo --all", before, takeSnapshot(ws), all)
	t.alive(d)
	t.walking(ws)

	t.must(homenode("resume", "--all"), exitOK)
	t.awaitHome(settleLimit, ws)
	t.undoneAll()
	t.same("after resume and undo --all", before, takeSnapshot(ws), all)
	t.Textf("%d changed values put back, twice", len(changed))
}

// homenodeStop: a clean stop leaves things or restores them, as configured; what
// it left, undo restores without a daemon.
func homenodeStop(t *T) {
	ws := t.startWalkers(cgroupRoot, t.few()[1:]...)
	t.presets(ws)
	before := takeSnapshot(ws)

	d := t.startDaemon(daemonOptions{mode: "enforce", restore: true})
	t.awaitHome(settleLimit, ws)
	t.stop(d)
	t.same("after a stop with restore_on_stop", before, takeSnapshot(ws), all)

	d = t.startDaemon(daemonOptions{mode: "enforce"})
	t.must(homenode("resume", "--all"), exitOK)
	t.awaitHome(settleLimit, ws)
	enforced := takeSnapshot(ws)
	t.stop(d)
	t.same("after a stop without restore_on_stop", enforced, takeSnapshot(ws), all)
	if len(before.changes(enforced, all)) == 0 {
		t.Fatalf("enforcing changed nothing")
	}
	t.must(homenode("undo", "--all"), exitOK)
	t.same("after undo --all without a daemon", before, takeSnapshot(ws), all)
	t.walking(ws)
}
