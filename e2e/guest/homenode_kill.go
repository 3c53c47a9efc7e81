//go:build linux

package main

import (
	"math/rand/v2"
	"os"
	"strconv"
	"time"
)

// kills is how often the daemon is killed. Page moves are slowed down so that
// most kills hit one.
const kills = 10

// homenodeKill: kill -9 at any moment harms no workload; the next daemon goes on,
// the journal can be read in between, and undo still knows the first values.
func homenodeKill(t *T) {
	seed := uint64(time.Now().UnixNano())
	if s, err := strconv.ParseUint(bootParam("seed"), 10, 64); err == nil {
		seed = s
	}
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))

	ws := t.startWalkers(cgroupRoot, t.few()[1:]...)
	t.presets(ws)
	before := takeSnapshot(ws)
	inMove, home := 0, false
	for i := range kills {
		d := t.launchDaemon(daemonOptions{mode: "enforce", bandwidth: "8MiB"})
		// Every second kill waits for a page move to hit; the others come up to 2.5 s
		// after the start, so that starting, planning and CPU sets are hit as well.
		patience := 15 * time.Second
		if inMove == 0 {
			patience = time.Minute // the first look takes long on a busy machine
		}
		moving := i%2 == 1 && !home && t.anyMoves(ws, patience)
		home = home || i%2 == 1 && !moving // nothing is left to move
		most := 2500 * time.Millisecond
		if moving {
			most = 300 * time.Millisecond
			inMove++
		}
		time.Sleep(time.Duration(random.Int64N(int64(most))))
		if d.ended() {
			t.Fatalf("seed %d: the daemon ended by itself with status %d: %s", seed, d.exit, d.text())
		}
		d.kill9()
		if _, err := os.Stat(stateFolder + "/homenode.db"); err == nil { // not killed before it began
			t.history() // the state folder is whole
		}
	}
	t.walking(ws)
	touched := len(before.changes(takeSnapshot(ws), all))
	t.startDaemon(daemonOptions{mode: "enforce"})
	t.awaitHome(settleLimit, ws)
	t.undoneAll()
	t.same("after undo --all (seed "+strconv.FormatUint(seed, 10)+")", before, takeSnapshot(ws), all)
	t.walking(ws)
	if inMove == 0 {
		t.Fatalf("seed %d: none of %d kills hit a page move", seed, kills)
	}
	t.Textf("%d kills, %d during page moves, %d values changed by then, all put back; seed %d", kills, inMove, touched, seed)
}

// anyMoves waits until pages of any walker are on the move; false when none are
// for so long.
func (t *T) anyMoves(ws []*walker, limit time.Duration) bool {
	before := snapshot{}.withPlaces(ws)
	for start := time.Now(); time.Since(start) < limit; time.Sleep(100 * time.Millisecond) {
		if len(before.changes(snapshot{}.withPlaces(ws), all)) > 0 {
			return true
		}
	}
	return false
}
