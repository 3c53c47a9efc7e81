//go:build linux

package home

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/homenode/homenode/e2e/guest/lab"
)

// homenodeCaches: homenode sees the caches and what the kernel does about them, and a dedicated command
// that fits a cache gets one.
func homenodeCaches(t *lab.T) {
	caches := t.Caches()
	r := t.Must(lab.Capture([]string{lab.HomenodeBin, "topology", "--json"}, "topology --json"), lab.ExitOK)
	var top struct {
		LLCs []struct {
			CPUs string `json:"cpus"`
		} `json:"llcs"`
	}
	t.Do(json.Unmarshal([]byte(r.Out), &top))
	if len(top.LLCs) != len(caches) {
		t.Fatalf("topology --json lists %d caches, the shape has %d: %s", len(top.LLCs), len(caches), lab.Cut(r.Out))
	}
	for i := range caches {
		if got := t.Set(top.LLCs[i].CPUs); got != caches[i] {
			t.Fatalf("topology --json: cache %d has CPUs %s, the shape says %s", i, got, caches[i])
		}
	}
	asked := []string{lab.HomenodeBin, "doctor", "--no-measure"}
	doctor := t.Must(lab.Capture(asked, "doctor --no-measure"), lab.ExitOK)
	want := fmt.Sprintf("node0 has %d last-level caches", t.Shape.Caches)
	if !strings.Contains(lab.OneLine(doctor.Out), want) {
		t.Fatalf("doctor does not say %q: %s", want, doctor.Out)
	}

	d := t.StartDaemon(lab.DaemonOptions{Mode: "enforce"})
	kernelKnown(t, "on", "off")

	for i := range caches { // all together fill the machine
		w := t.WalkerBehind("dedicated", []string{lab.HomenodeBin, "--socket", lab.SocketPath, "run",
			"--class", "dedicated",
			"--cpus", fmt.Sprint(t.Shape.CPUsPerCache()), "--memory", "32MiB", "--",
			"/bin/walker", "--slot", fmt.Sprint(i), "--mib", "16", "--threads", "2", "--place", "local"})
		defer w.Kill()
		cpus := t.Affinities(w.PID)
		in := t.CachesOf(cpus)
		if in != 1 || cpus.Size() != t.Shape.CPUsPerCache() {
			t.Fatalf("dedicated command %d has CPUs %s in %d caches, wanted one whole cache of %v", i+1, cpus, in,
				caches)
		}
		if i == len(caches)-2 { // the daemon itself needs room
			break
		}
	}
	t.Alive(d)
	t.Textf("%d dedicated commands of %d CPUs, each in a cache of its own", len(caches)-1, t.Shape.CPUsPerCache())
}

// kernelKnown switches the kernel's cache-aware scheduling, and waits until status has each state.
func kernelKnown(t *lab.T, states ...string) {
	if _, err := os.Stat(lab.LLCSwitch); err != nil {
		t.Logf("this kernel has no cache-aware scheduling: %v", err)
		return
	}
	t.Defer(func() { lab.WriteText(lab.LLCSwitch, "1") })
	for _, state := range states {
		value := map[string]string{"on": "1", "off": "0"}[state]
		t.Write(lab.LLCSwitch, value)
		t.Until(30*time.Second, "status has cache-aware scheduling "+state, func() (bool, string) {
			r := t.Must(lab.Homenode("status", "--json"), lab.ExitOK)
			var s struct {
				Caches struct {
					Count  int    `json:"count"`
					Kernel string `json:"kernel"`
					From   string `json:"from"`
				} `json:"caches"`
			}
			t.Do(json.Unmarshal([]byte(r.Out), &s))
			c := s.Caches
			return c.Kernel == state && c.From == lab.LLCSwitch && c.Count == len(t.Caches()), fmt.Sprintf("%+v", c)
		})
	}
}

// twoInNode starts two walkers that each fit a cache, and returns them with their settings.
func twoInNode(t *lab.T) ([]*lab.Walker, lab.Snapshot) {
	ws := t.StartWalkers(lab.CgroupRoot,
		lab.WalkerSpec{Name: "db", Slot: 0, MiB: 48, Threads: 2, Place: "interleave", Unbind: true},
		lab.WalkerSpec{Name: "web", Slot: 1, MiB: 24, Threads: 1, Place: "bind:1", Unbind: true})
	return ws, lab.TakeSnapshot(ws)
}

// homenodeCachesUndo: where homenode is to report alone, which it is by default, shared work that fits a
// cache keeps all CPUs of its home. Undo restores every setting.
func homenodeCachesUndo(t *lab.T) {
	ws, before := twoInNode(t)
	d := t.StartDaemon(lab.DaemonOptions{Mode: "enforce"})
	homes := t.AwaitHome(lab.SettleLimit, ws)
	lab.Warm(5 * time.Second)
	for _, w := range ws {
		for tid, may := range lab.Allowed(w.PID) {
			if want := lab.CPUsOf(homes[w.Name]); may != want {
				t.Fatalf("%s: thread %d may use CPUs %s, its home %s has %s, and homenode was to report alone",
					w.Name, tid, may, homes[w.Name], want)
			}
		}
	}
	t.UndoneAll()
	t.Same("after undo --all", before, lab.TakeSnapshot(ws), lab.All)
	t.Alive(d)
	t.Walking(ws)
}

// homenodeCachesPlace: with caches: place shared work lives in one cache where the kernel keeps it in none.
// Undo restores every setting.
func homenodeCachesPlace(t *lab.T) {
	if _, err := os.Stat(lab.LLCSwitch); err == nil {
		t.Defer(func() { lab.WriteText(lab.LLCSwitch, "1") })
		t.Write(lab.LLCSwitch, "0")
	}
	ws, before := twoInNode(t)
	d := t.StartDaemon(lab.DaemonOptions{Mode: "enforce", Extra: "caches: place\n"})
	t.Poll(lab.SettleLimit, 2*time.Second, "both live in one cache", func() (bool, string) {
		var wide []string
		for _, w := range ws {
			if in := t.CachesOf(t.Affinities(w.PID)); in != 1 {
				wide = append(wide, fmt.Sprintf("%s may use %d caches", w.Name, in))
			}
		}
		return len(wide) == 0, strings.Join(wide, "; ")
	})
	t.UndoneAll()
	t.Same("after undo --all", before, lab.TakeSnapshot(ws), lab.All)
	t.Alive(d)
	t.Walking(ws)
}
