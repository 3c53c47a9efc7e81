//go:build linux

package main

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"time"
)

// homenodeCaches: homenode sees the caches and what the kernel does about them, and a dedicated command
// that fits a cache gets one.
func homenodeCaches(t *T) {
	caches := t.caches()
	r := t.must(capture([]string{homenodeBin, "topology", "--json"}, "topology --json"), exitOK)
	var top struct {
		LLCs []struct {
			CPUs string `json:"cpus"`
		} `json:"llcs"`
	}
	t.Do(json.Unmarshal([]byte(r.out), &top))
	if len(top.LLCs) != len(caches) {
		t.Fatalf("topology --json lists %d caches, the shape has %d: %s", len(top.LLCs), len(caches), cut(r.out))
	}
	for i := range caches {
		if got := t.set(top.LLCs[i].CPUs); got != caches[i] {
			t.Fatalf("topology --json: cache %d has CPUs %s, the shape says %s", i, got, caches[i])
		}
	}
	doctor := t.must(capture([]string{homenodeBin, "doctor", "--no-measure"}, "doctor --no-measure"), exitOK)
	want := fmt.Sprintf("node0 has %d last-level caches", t.shape.Caches)
	if !strings.Contains(oneLine(doctor.out), want) {
		t.Fatalf("doctor does not say %q: %s", want, doctor.out)
	}

	d := t.startDaemon(daemonOptions{mode: "enforce"})
	t.kernelKnown("on", "off")

	for i := range caches { // all together fill the machine
		w := t.walkerBehind("dedicated", []string{homenodeBin, "--socket", socketPath, "run", "--class", "dedicated",
			"--cpus", fmt.Sprint(t.shape.CPUsPerCache()), "--memory", "32MiB", "--",
			"/bin/walker", "--slot", fmt.Sprint(i), "--mib", "16", "--threads", "2", "--place", "local"})
		defer w.kill()
		cpus := t.affinities(w.pid)
		in := t.cachesOf(cpus)
		if in != 1 || cpus.size() != t.shape.CPUsPerCache() {
			t.Fatalf("dedicated command %d has CPUs %s in %d caches, wanted one whole cache of %v", i+1, cpus, in, caches)
		}
		if i == len(caches)-2 { // the daemon itself needs room
			break
		}
	}
	t.alive(d)
	t.Textf("%d dedicated commands of %d CPUs, each in a cache of its own", len(caches)-1, t.shape.CPUsPerCache())
}

// kernelKnown switches the kernel's cache-aware scheduling, and waits until status has each state.
func (t *T) kernelKnown(states ...string) {
	if _, err := os.Stat(llcSwitch); err != nil {
		t.Logf("this kernel has no cache-aware scheduling: %v", err)
		return
	}
	t.Defer(func() { writeText(llcSwitch, "1") })
	for _, state := range states {
		value := map[string]string{"on": "1", "off": "0"}[state]
		t.write(llcSwitch, value)
		t.Until(30*time.Second, "status has cache-aware scheduling "+state, func() (bool, string) {
			r := t.must(homenode("status", "--json"), exitOK)
			var s struct {
				Caches struct {
					Count  int    `json:"count"`
					Kernel string `json:"kernel"`
					From   string `json:"from"`
				} `json:"caches"`
			}
			t.Do(json.Unmarshal([]byte(r.out), &s))
			c := s.Caches
			return c.Kernel == state && c.From == llcSwitch && c.Count == len(t.caches()), fmt.Sprintf("%+v", c)
		})
	}
}

// twoInNode starts two walkers that each fit a cache, and returns them with their settings.
func (t *T) twoInNode() ([]*walker, snapshot) {
	ws := t.startWalkers(cgroupRoot,
		walkerSpec{name: "db", slot: 0, mib: 48, threads: 2, place: "interleave", unbind: true},
		walkerSpec{name: "web", slot: 1, mib: 24, threads: 1, place: "bind:1", unbind: true})
	return ws, takeSnapshot(ws)
}

// homenodeCachesUndo: where homenode is to report alone, which it is by default, shared work that fits a
// cache keeps all CPUs of its home. Undo restores every setting.
func homenodeCachesUndo(t *T) {
	ws, before := t.twoInNode()
	d := t.startDaemon(daemonOptions{mode: "enforce"})
	homes := t.awaitHome(settleLimit, ws)
	warm(5 * time.Second)
	for _, w := range ws {
		for tid, may := range allowed(w.pid) {
			if want := cpusOf(homes[w.name]); may != want {
				t.Fatalf("%s: thread %d may use CPUs %s, its home %s has %s, and homenode was to report alone",
					w.name, tid, may, homes[w.name], want)
			}
		}
	}
	t.undoneAll()
	t.same("after undo --all", before, takeSnapshot(ws), all)
	t.alive(d)
	t.walking(ws)
}

// homenodeCachesPlace: with caches: place shared work lives in one cache where the kernel keeps it in none.
// Undo restores every setting.
func homenodeCachesPlace(t *T) {
	if _, err := os.Stat(llcSwitch); err == nil {
		t.Defer(func() { writeText(llcSwitch, "1") })
		t.write(llcSwitch, "0")
	}
	ws, before := t.twoInNode()
	d := t.startDaemon(daemonOptions{mode: "enforce", extra: "caches: place\n"})
	t.until(settleLimit, 2*time.Second, "both live in one cache", func() (bool, string) {
		var wide []string
		for _, w := range ws {
			if in := t.cachesOf(t.affinities(w.pid)); in != 1 {
				wide = append(wide, fmt.Sprintf("%s may use %d caches", w.name, in))
			}
		}
		return len(wide) == 0, strings.Join(wide, "; ")
	})
	t.undoneAll()
	t.same("after undo --all", before, takeSnapshot(ws), all)
	t.alive(d)
	t.walking(ws)
}
