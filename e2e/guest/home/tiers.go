//go:build linux

package home

import (
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/homenode/homenode/e2e/guest/lab"
)

const (
	demotionFile = "/sys/kernel/mm/numa/demotion_enabled"
	mibPages     = 1 << 20 / lab.PageSize
)

// tiersDemotion: pages that the kernel moves to the slow node stay there while demotion is on and it is watched, and
// explain shows them as demoted. With demotion off the same pages come home, so homenode does see them.
func tiersDemotion(t *lab.T, watched time.Duration) {
	const slow = 2
	if tier := lab.ReadText("/sys/devices/system/node/node2/cpulist"); tier != "" {
		t.Fatalf("node2 has CPUs %s", tier)
	}
	t.Write(demotionFile, "true")
	t.Defer(func() { os.WriteFile(demotionFile, []byte("false"), 0o644) })
	ws := t.StartWalkers(lab.CgroupRoot, lab.WalkerSpec{Name: "cold", Slot: 0, MiB: 96, Threads: 1, Place: "bind:0",
		Unbind: true, Sleep: "100ms"})
	w := ws[0]
	d := t.StartDaemon(lab.DaemonOptions{Mode: "enforce"})
	homes := t.AwaitHome(lab.SettleLimit, ws)
	t.LogLines("topology", t.Must(lab.Capture([]string{lab.HomenodeBin, "topology"}, "topology"), lab.ExitOK).Out, 30)
	t.Logf("tiers: %s", tiersOfKernel())
	// The kernel demotes what it would reclaim: there is no swap.
	demote := func(mib int) {
		os.WriteFile(w.Group.File("memory.reclaim"), []byte(strconv.Itoa(mib)+"M"), 0o644) // EAGAIN when it finds less
	}
	demote(32)
	t.Poll(60*time.Second, time.Second, "the kernel demotes", func() (bool, string) {
		on := t.Buffer(w).Nodes
		if on[slow] < 16*mibPages {
			demote(8)
		}
		return on[slow] >= 16*mibPages, lab.ByNodeText(on) + ", " + lab.OneLine(vmstat("pgdemote"))
	})
	lab.Warm(3 * time.Second)
	s := t.Status()
	start, _, _ := s.Of(w.ID())
	first := t.Buffer(w).Nodes[slow]
	most, back := first, 0
	t.Logf("%d MiB demoted: %s", first/mibPages, lab.OneLine(vmstat("pgdemote")))
	for i, end := 0, time.Now().Add(watched); time.Now().Before(end); i++ {
		lab.Warm(time.Second)
		on := t.Buffer(w).Nodes[slow]
		back += max(0, most-on)
		most = max(most, on)
		if i%10 == 9 { // reclaim takes seconds here
			demote(1)
		}
	}
	s = t.Status()
	end, state, why := s.Of(w.ID())
	if back > 0 || end.Moved != start.Moved || !end.Started.Equal(start.Started) {
		t.Fatalf("%d pages came back, homenode moved %d bytes, then %d; %s %s", back, start.Moved, end.Moved, state,
			why)
	}
	if state != "at home" || s.Home(w.ID()) != homes["cold"].String() {
		t.Fatalf("state %q, home %q: %s", state, s.Home(w.ID()), why)
	}
	shown := t.Must(lab.Homenode("explain", w.ID()), lab.ExitOK).Out
	if !strings.Contains(shown, "the kernel moves cold pages there") || !strings.Contains(shown, "locality 100") {
		t.Fatalf("explain does not show what was demoted:\n%s", shown)
	}
	demoted := vmstat("pgdemote")
	t.Alive(d)

	t.Write(demotionFile, "false")
	t.Until(90*time.Second, "with demotion off the pages come home", func() (bool, string) {
		on := t.Buffer(w).Nodes
		return on[slow] < mibPages, lab.ByNodeText(on)
	})
	t.Walking(ws)
	t.Textf("%d MiB demoted (%s), 0 pages came back in %v, 0 bytes moved by homenode; with demotion off they came home",
		most/mibPages, lab.OneLine(demoted), watched)
}

// vmstat is the lines of /proc/vmstat that begin with a word, without zeros.
func vmstat(prefix string) string {
	var out []string
	for line := range strings.Lines(lab.ReadText("/proc/vmstat")) {
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
		if nodes := lab.ReadText("/sys/devices/virtual/memory_tiering/" + e.Name() + "/nodelist"); nodes != "" {
			out = append(out, e.Name()+": "+strings.TrimSpace(nodes))
		}
	}
	return strings.Join(out, ", ")
}
