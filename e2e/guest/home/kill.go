//go:build linux

package home

import (
	"math/rand/v2"
	"os"
	"strconv"
	"time"

	"github.com/homenode/homenode/e2e/guest/lab"
)

// kills is how often the daemon is killed. Page moves are slowed down so that
// most kills hit one.
const kills = 10

// homenodeKill: kill -9 at any moment harms no workload; the next daemon goes on,
// the journal can be read in between, and undo still knows the first values.
func homenodeKill(t *lab.T) {
	seed := uint64(time.Now().UnixNano())
	if s, err := strconv.ParseUint(lab.BootParam("seed"), 10, 64); err == nil {
		seed = s
	}
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))

	ws := t.StartWalkers(lab.CgroupRoot, t.Few()[1:]...)
	presets(t, ws)
	before := lab.TakeSnapshot(ws)
	inMove, home := 0, false
	for i := range kills {
		d := t.LaunchDaemon(lab.DaemonOptions{Mode: "enforce", Bandwidth: "8MiB"})
		// Every second kill waits for a page move to hit; the others come up to 2.5 s
		// after the start, so that starting, planning and CPU sets are hit as well.
		patience := 15 * time.Second
		if inMove == 0 {
			patience = time.Minute // the first look takes long on a busy machine
		}
		moving := i%2 == 1 && !home && anyMoves(t, ws, patience)
		home = home || (i%2 == 1 && !moving) // nothing is left to move
		most := 2500 * time.Millisecond
		if moving {
			most = 300 * time.Millisecond
			inMove++
		}
		time.Sleep(time.Duration(random.Int64N(int64(most))))
		if d.Ended() {
			t.Fatalf("seed %d: the daemon ended by itself with status %d: %s", seed, d.Exit, d.Text())
		}
		d.Kill9()
		if _, err := os.Stat(lab.StateFolder + "/homenode.db"); err == nil { // not killed before it began
			t.History() // the state folder is whole
		}
	}
	t.Walking(ws)
	touched := len(before.Changes(lab.TakeSnapshot(ws), lab.All))
	t.StartDaemon(lab.DaemonOptions{Mode: "enforce"})
	t.AwaitHome(lab.SettleLimit, ws)
	t.UndoneAll()
	t.Same("after undo --all (seed "+strconv.FormatUint(seed, 10)+")", before, lab.TakeSnapshot(ws), lab.All)
	t.Walking(ws)
	if inMove == 0 {
		t.Fatalf("seed %d: none of %d kills hit a page move", seed, kills)
	}
	t.Textf("%d kills, %d during page moves, %d values changed by then, all put back; seed %d", kills, inMove, touched,
		seed)
}

// anyMoves waits until pages of any walker are on the move; false when none are
// for so long.
func anyMoves(t *lab.T, ws []*lab.Walker, limit time.Duration) bool {
	before := lab.Snapshot{}.WithPlaces(ws)
	for start := time.Now(); time.Since(start) < limit; time.Sleep(100 * time.Millisecond) {
		if len(before.Changes(lab.Snapshot{}.WithPlaces(ws), lab.All)) > 0 {
			return true
		}
	}
	return false
}
