//go:build linux

package home

import (
	"strings"
	"time"

	"github.com/homenode/homenode/e2e/guest/lab"
)

// presets gives some walkers values of their own to be put back, so that undo can
// not pass by emptying everything.
func presets(t *lab.T, ws []*lab.Walker) {
	for _, w := range ws {
		switch w.Name {
		case "batch":
			t.Write(w.Group.File("cpuset.cpus"), "0-15")
		case "db":
			t.Write(w.Group.File("cpuset.mems"), "0-3")
			t.Write(w.Group.File("cpu.weight"), "150")
		}
	}
}

// homenodeUndo: undo of one workload puts that one back, undo --all everything,
// and the daemon leaves alone what was undone.
func homenodeUndo(t *lab.T) {
	ws := t.StartWalkers(lab.CgroupRoot, t.Few()...)
	presets(t, ws)
	before := lab.TakeSnapshot(ws)
	d := t.StartDaemon(lab.DaemonOptions{Mode: "enforce"})
	t.AwaitHome(lab.SettleLimit, ws)
	enforced := lab.TakeSnapshot(ws)
	changed := before.Changes(enforced, lab.All)
	if len(changed) < len(ws) {
		t.Fatalf("only %d values changed by enforcing: %s", len(changed), strings.Join(changed, "; "))
	}

	web, p1 := ws[2], ws[4]
	for _, one := range []*lab.Walker{web, p1} { // one of each kind
		t.Must(lab.Homenode("undo", one.ID()), lab.ExitOK)
		t.Same("after undo of "+one.ID(), before, lab.TakeSnapshot(ws), lab.About(one))
		others := func(n string) bool { return !lab.About(one)(n) && !lab.About(web)(n) }
		t.Same("others after undo of "+one.ID(), enforced, lab.TakeSnapshot(ws), others)
	}
	t.UndoneAll()
	t.Same("after undo --all", before, lab.TakeSnapshot(ws), lab.All)
	lab.Warm(5 * time.Second)
	t.Same("5 s after undo --all", before, lab.TakeSnapshot(ws), lab.All)
	t.Alive(d)
	t.Walking(ws)

	t.Must(lab.Homenode("resume", "--all"), lab.ExitOK)
	t.AwaitHome(lab.SettleLimit, ws)
	t.UndoneAll()
	t.Same("after resume and undo --all", before, lab.TakeSnapshot(ws), lab.All)
	t.Textf("%d changed values put back, twice", len(changed))
}

// homenodeStop: a clean stop leaves things or restores them, as configured; what
// it left, undo restores without a daemon.
func homenodeStop(t *lab.T) {
	ws := t.StartWalkers(lab.CgroupRoot, t.Few()[1:]...)
	presets(t, ws)
	before := lab.TakeSnapshot(ws)

	d := t.StartDaemon(lab.DaemonOptions{Mode: "enforce", Restore: true})
	t.AwaitHome(lab.SettleLimit, ws)
	t.Stop(d)
	t.Same("after a stop with restore_on_stop", before, lab.TakeSnapshot(ws), lab.All)

	d = t.StartDaemon(lab.DaemonOptions{Mode: "enforce"})
	t.Must(lab.Homenode("resume", "--all"), lab.ExitOK)
	t.AwaitHome(lab.SettleLimit, ws)
	enforced := lab.TakeSnapshot(ws)
	t.Stop(d)
	t.Same("after a stop without restore_on_stop", enforced, lab.TakeSnapshot(ws), lab.All)
	if len(before.Changes(enforced, lab.All)) == 0 {
		t.Fatalf("enforcing changed nothing")
	}
	t.Must(lab.Homenode("undo", "--all"), lab.ExitOK)
	t.Same("after undo --all without a daemon", before, lab.TakeSnapshot(ws), lab.All)
	t.Walking(ws)
}
