//go:build linux

package main

import (
	"os"
	"strconv"
	"strings"
	"time"
)

func init() {
	tests["tiers.demotion"] = tiersDemotion
	tests["tiers.page-tables"] = tiersPageTables
}

const (
	demotionFile = "/sys/kernel/mm/numa/demotion_enabled"
	// demotionScans is how long it is watched that nothing comes back, in seconds and scans.
	demotionScans = 30
	mibPages      = 1 << 20 / pageSize
)

// tiersDemotion: pages that the kernel moves to the slow node stay there while demotion is on, over many scans, and
// explain shows them as demoted. With demotion off the same pages come home, so homenode does see them.
func tiersDemotion(t *T) {
	const slow = 2
	if tier := readText("/sys/devices/system/node/node2/cpulist"); tier != "" {
		t.Fatalf("node2 has CPUs %s", tier)
	}
	t.write(demotionFile, "true")
	t.Defer(func() { os.WriteFile(demotionFile, []byte("false"), 0o644) })
	ws := t.startWalkers(cgroupRoot, walkerSpec{name: "cold", slot: 0, mib: 96, threads: 1, place: "bind:0", unbind: true, sleep: "100ms"})
	w := ws[0]
	d := t.startDaemon(daemonOptions{mode: "enforce"})
	homes := t.awaitHome(settleLimit, ws)
	t.logLines("topology", t.must(capture([]string{homenodeBin, "topology"}, "topology"), exitOK).out, 30)
	t.Logf("tiers: %s", tiersOfKernel())
	// The kernel demotes what it would reclaim: there is no swap.
	demote := func(mib int) {
		os.WriteFile(w.group.file("memory.reclaim"), []byte(strconv.Itoa(mib)+"M"), 0o644) // EAGAIN when it finds less
	}
	demote(32)
	t.until(60*time.Second, time.Second, "the kernel demotes", func() (bool, string) {
		on := t.buffer(w).nodes
		if on[slow] < 16*mibPages {
			demote(8)
		}
		return on[slow] >= 16*mibPages, byNodeText(on) + ", " + oneLine(vmstat("pgdemote"))
	})
	warm(3 * time.Second)
	s := t.status()
	start, _, _ := s.of(w.id())
	first := t.buffer(w).nodes[slow]
	most, back := first, 0
	t.Logf("%d MiB demoted: %s", first/mibPages, oneLine(vmstat("pgdemote")))
	for i := range demotionScans {
		warm(time.Second)
		on := t.buffer(w).nodes[slow]
		back += max(0, most-on)
		most = max(most, on)
		if i%10 == 9 { // reclaim takes seconds here
			demote(1)
		}
	}
	s = t.status()
	end, state, why := s.of(w.id())
	if back > 0 || end.Moved != start.Moved || !end.Started.Equal(start.Started) {
		t.Fatalf("%d pages came back, homenode moved %d bytes, then %d; %s %s", back, start.Moved, end.Moved, state, why)
	}
	if state != "at home" || s.home(w.id()) != homes["cold"].String() {
		t.Fatalf("state %q, home %q: %s", state, s.home(w.id()), why)
	}
	shown := t.must(homenode("explain", w.id()), exitOK).out
	if !strings.Contains(shown, "the kernel moves cold pages there") || !strings.Contains(shown, "locality 100") {
		t.Fatalf("explain does not show what was demoted:\n%s", shown)
	}
	demoted := vmstat("pgdemote")
	t.alive(d)

	t.write(demotionFile, "false")
	t.Until(90*time.Second, "with demotion off the pages come home", func() (bool, string) {
		on := t.buffer(w).nodes
		return on[slow] < mibPages, byNodeText(on)
	})
	t.walking(ws)
	t.Textf("%d MiB demoted (%s), 0 pages came back in %d scans, 0 bytes moved by homenode; with demotion off they came home",
		most/mibPages, oneLine(demoted), demotionScans)
}

// vmstat is the lines of /proc/vmstat that begin with a word, without zeros.
func vmstat(prefix string) string {
	var out []string
	for line := range strings.Lines(readText("/proc/vmstat")) {
		if strings.HasPrefix(line, prefix) && !strings.HasSuffix(strings.TrimSpace(line), " 0") {
			out = append(out, strings.TrimSpace(line))
		}
	}
	return strings.Join(out, " ")
}

func tiersOfKernel() string {
	entries, _ := os.ReadDir("/sys/devices/virtual/memory_tiering")
	var out []string
	for _, e := range entries {
		if nodes := readText("/sys/devices/virtual/memory_tiering/" + e.Name() + "/nodelist"); nodes != "" {
			out = append(out, e.Name()+": "+strings.TrimSpace(nodes))
		}
	}
	return strings.Join(out, ", ")
}
