//go:build linux

package share

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/homenode/homenode/e2e/guest/lab"
)

// shareRules makes the walkers that are called so batch, and the web important.
const shareRules = "workloads: [{match: /encode*, bvt: -1}, {match: /fenced/**, tier: batch}, {match: /web, tier: " +
	"online-strict}]\n"

// shareFiles is what sharing may change here.
var shareFiles = []string{"cpu.idle", "cpu.weight", "cpu.max", "cpu.max.burst", "memory.low", "memory.high",
	"io.weight", "io.max", "cgroup.freeze"}

// shareState is these files of groups, and what the root's children have.
func shareState(groups ...lab.Group) map[string]string {
	out := map[string]string{"controllers": lab.ReadText(lab.CgroupRoot + "/cgroup.subtree_control")}
	words := strings.Fields(out["controllers"])
	slices.Sort(words)
	out["controllers"] = strings.Join(words, " ")
	for _, g := range groups {
		for _, f := range shareFiles {
			if _, err := os.Stat(g.File(f)); err == nil {
				out[g.Path()+" "+f] = strings.TrimSpace(lab.ReadText(g.File(f)))
			}
		}
	}
	return out
}

func awaitFile(t *lab.T, g lab.Group, file, want string) {
	t.Until(60*time.Second, g.Path()+" has "+file+" "+want, func() (bool, string) {
		got := strings.TrimSpace(lab.ReadText(g.File(file)))
		return got == want || (want == "" && got != "" && got != "max"), fmt.Sprintf("%s is %q", file, got)
	})
}

func backAs(t *lab.T, when string, before map[string]string, groups ...lab.Group) {
	t.Until(60*time.Second, when+" all is as before", func() (bool, string) {
		now := shareState(groups...)
		for _, key := range slices.Sorted(maps.Keys(before)) {
			if now[key] != before[key] {
				return false, fmt.Sprintf("%s is %q, was %q", key, now[key], before[key])
			}
		}
		return len(now) == len(before), fmt.Sprintf("%d values, were %d", len(now), len(before))
	})
}

// shareBase: batch work has cpu.idle, a limit of memory and a weight at devices, also a cgroup with
// two jobs in it, online work nothing of it; what cannot be squeezed is named with the reason; off, undo, and undo
// after kill -9 put everything back with the controllers; a cgroup that goes meanwhile is no trouble; what somebody has
// chosen stays.
func shareBase(t *lab.T) {
	t.Write(lab.CgroupRoot+"/cgroup.subtree_control", "-cpu") // homenode turns it on, and off again
	t.Defer(func() { lab.WriteText(lab.CgroupRoot+"/cgroup.subtree_control", "+cpu") })
	ws := t.StartWalkers(lab.CgroupRoot, lab.WalkerSpec{Name: "web", Slot: 0, MiB: 32, Threads: 1, Place: "local"},
		lab.WalkerSpec{Name: "encode", Slot: 1, MiB: 32, Threads: 1, Place: "local", Busy: true},
		lab.WalkerSpec{Name: "encode2", Slot: 2, MiB: 32, Threads: 1, Place: "local", Busy: true},
		lab.WalkerSpec{Name: "job", Slot: 3, MiB: 32, Threads: 1, Place: "local", Busy: true, Plain: true})
	web := ws[0].Group
	encode := ws[1].Group
	second := ws[2].Group
	t.Write(encode.File("cgroup.procs"), strconv.Itoa(ws[3].PID))
	fenced := t.NewGroup(lab.CgroupRoot, "fenced")
	t.Write(fenced.File("cpuset.cpus"), "0-1")
	t.StartWalkers(fenced, lab.WalkerSpec{Name: "job", Slot: 4, MiB: 32, Threads: 1, Place: "local", Busy: true})
	t.Write(second.File("memory.high"), "1073741824") // somebody's
	before := shareState(web, encode, second)
	o := lab.DaemonOptions{Mode: "enforce",
		Extra: shareRules + "share: {enabled: true, memory: 90, io_weight: 10, sched_ext: off}\n"}
	d := t.StartDaemon(o)
	set := func() {
		awaitFile(t, encode, "cpu.idle", "1")
		awaitFile(t, second, "cpu.idle", "1")
		awaitFile(t, encode, "memory.high", "")
		if _, err := os.Stat(encode.File("io.weight")); err == nil {
			awaitFile(t, encode, "io.weight", "default 10")
		}
	}
	set()
	n, err := strconv.ParseInt(t.Read(encode.File("memory.high")), 10, 64)
	if err != nil || n < 64<<20 || n > int64(t.Shape.MiB())<<20 || n%(1<<20) != 0 {
		t.Fatalf("memory.high is %d, %v", n, err)
	}
	t.Until(30*time.Second, "share status names what is left alone", func() (bool, string) {
		out := t.Must(lab.Homenode("share", "status"), lab.ExitOK).Out
		return strings.Contains(out, "/fenced/job: Another program gave its cgroup, or one above it, CPUs 0-1"), out
	})
	if got := t.Read(second.File("memory.high")); got != "1073741824" {
		t.Fatalf("somebody's memory.high is %s", got)
	}
	for _, f := range shareFiles {
		if got := strings.TrimSpace(lab.ReadText(web.File(f))); (f == "cpu.idle" && got != "0") ||
			(f == "memory.high" && got != "max") {
			t.Fatalf("%s of the online one is %s", f, got)
		}
	}
	t.Must(lab.Homenode("share", "off"), lab.ExitOK)
	backAs(t, "turned off,", before, web, encode, second)
	t.Must(lab.Homenode("share", "on"), lab.ExitOK)
	set()
	d.Kill9()
	t.Must(lab.Homenode("undo", "--all"), lab.ExitOK)
	backAs(t, "undone after kill -9,", before, web, encode, second)
	t.Must(lab.Homenode("resume", "--all"), lab.ExitOK)
	d = t.StartDaemon(o)
	set()
	ws[2].Kill()
	ws[2].End()
	t.Until(30*time.Second, "the cgroup can be removed", func() (bool, string) {
		err := os.Remove(string(second))
		return err == nil || os.IsNotExist(err), fmt.Sprint(err)
	})
	lab.Warm(5 * time.Second)
	t.Alive(d)
	t.Must(lab.Homenode("undo", "--all"), lab.ExitOK)
	maps.DeleteFunc(before, func(key, _ string) bool { return strings.HasPrefix(key, second.Path()+" ") })
	backAs(t, "undone with a cgroup gone,", before, web, encode)
	t.Textf("memory.high %d MiB; put back by off, undo and undo after kill -9", n>>20)
}

// shareCores: batch work has whole cores, fewer than there are, while its budget is no number of
// cores, and all CPUs again when it is turned off.
func shareCores(t *lab.T) {
	ws := t.StartWalkers(lab.CgroupRoot,
		lab.WalkerSpec{Name: "web", Slot: 0, MiB: 32, Threads: 1, Place: "local", Busy: true},
		lab.WalkerSpec{Name: "encode", Slot: 1, MiB: 32, Threads: 1, Place: "local", Busy: true})
	encode := ws[1].Group
	t.StartDaemon(lab.DaemonOptions{Mode: "enforce", Extra: shareRules + "share: {enabled: true, sched_ext: off}\n"})
	given := lab.Set(0)
	t.Until(60*time.Second, "batch work has some whole cores", func() (bool, string) {
		text := strings.TrimSpace(lab.ReadText(encode.File("cpuset.cpus")))
		if text == "" {
			return false, "no CPU set"
		}
		given = t.Set(text)
		return given.Size() >= 3 && given.Size() < t.Shape.CPUs(), text
	})
	for cpu := 0; cpu < t.Shape.CPUs(); cpu += 2 { // siblings have numbers that follow
		if siblings := t.Set(t.Read(fmt.Sprintf("/sys/devices/system/cpu/cpu%d/topology/thread_siblings_list",
			cpu))); given&siblings != 0 && given&siblings != siblings {
			t.Fatalf("of the core of CPUs %s it has CPUs %s", siblings, given&siblings)
		}
	}
	t.Must(lab.Homenode("share", "off"), lab.ExitOK)
	t.Until(60*time.Second, "batch work has every CPU again", func() (bool, string) {
		text := t.Read(encode.File("cpuset.cpus.effective"))
		return t.Set(text).Size() == t.Shape.CPUs(), text
	})
	t.Textf("CPUs %s of %d", given, t.Shape.CPUs())
}

// shareFreeze: where one core is left and important work waits, batch work is frozen; a daemon
// that stops lets it go, undo lets it go after kill -9, and so does the next daemon.
func shareFreeze(t *lab.T) {
	if _, err := os.Stat("/proc/pressure/cpu"); err != nil {
		t.Skipf("no pressure: %v", err)
	}
	ws := t.StartWalkers(lab.CgroupRoot,
		lab.WalkerSpec{Name: "web", Slot: 0, MiB: 16, Threads: 8, Place: "local", Busy: true},
		lab.WalkerSpec{Name: "encode", Slot: 1, MiB: 16, Threads: 2, Place: "local", Busy: true})
	encode := ws[1].Group
	o := lab.DaemonOptions{Mode: "enforce",
		Extra: shareRules + "share: {enabled: true, freeze: true, max_wait: 1, sched_ext: off}\n"}
	d := t.StartDaemon(o)
	awaitFile(t, encode, "cgroup.freeze", "1")
	t.Stop(d)
	if got := t.Read(encode.File("cgroup.freeze")); got != "0" {
		t.Fatalf("after a clean stop cgroup.freeze is %s", got)
	}
	if got := t.Read(encode.File("cpu.idle")); got != "1" {
		t.Fatalf("after a clean stop cpu.idle is %s: nothing else was to be undone", got)
	}
	d = t.StartDaemon(o)
	awaitFile(t, encode, "cgroup.freeze", "1")
	d.Kill9()
	if got := t.Read(encode.File("cgroup.freeze")); got != "1" {
		t.Fatalf("after kill -9 cgroup.freeze is %s", got)
	}
	t.Must(lab.Homenode("undo", "--all"), lab.ExitOK)
	if got := t.Read(encode.File("cgroup.freeze")); got != "0" {
		t.Fatalf("undone after kill -9, cgroup.freeze is %s", got)
	}
	t.Must(lab.Homenode("resume", "--all"), lab.ExitOK)
	d = t.StartDaemon(o)
	awaitFile(t, encode, "cgroup.freeze", "1")
	d.Kill9()
	o.Extra = shareRules + "share: {enabled: true, sched_ext: off}\n"
	t.StartDaemon(o)
	awaitFile(t, encode, "cgroup.freeze", "0")
	t.Textf("frozen for the web, let go by stop, by undo and by the next start")
}

// shareRun: a batch command has a cgroup that runs last, undo takes it out of it, and it goes
// when it is empty; without a daemon and with one; who may not have one is told.
func shareRun(t *lab.T) {
	const parent = lab.CgroupRoot + "/homenode-batch"
	start := func(name string, more ...string) *lab.Walker {
		argv := append([]string{lab.HomenodeBin, "--socket", lab.SocketPath, "run", "--class", "batch"}, more...)
		return t.WalkerBehind(name, append(argv, "--", "/bin/walker", "--slot", "8", "--mib", "16", "--threads", "1",
			"--place", "local"))
	}
	of := func(pid int) string {
		return strings.TrimPrefix(strings.TrimSpace(lab.ReadText(fmt.Sprintf("/proc/%d/cgroup", pid))), "0::")
	}
	undo := func(name string) { // as who has never had a daemon
		t.Must(lab.Capture(append(append([]string{lab.HomenodeBin}, lab.UsualSocket()...), "undo", name),
			"homenode undo "+name), lab.ExitOK)
	}
	sameController := func() string {
		words := strings.Fields(lab.ReadText(lab.CgroupRoot + "/cgroup.subtree_control"))
		slices.Sort(words)
		return strings.Join(words, " ")
	}
	for _, off := range []bool{false, true} {
		if off {
			t.Write(lab.CgroupRoot+"/cgroup.subtree_control", "-cpu")
			t.Defer(func() { lab.WriteText(lab.CgroupRoot+"/cgroup.subtree_control", "+cpu") })
		}
		controllers := sameController()
		w := start(fmt.Sprintf("batch, controller off %t", off))
		if got := of(w.PID); got != fmt.Sprintf("/homenode-batch/%d", w.PID) {
			t.Fatalf("%s is in %s", w.Name, got)
		}
		if got := t.Read(filepath.Join(parent, "cpu.idle")); got != "1" {
			t.Fatalf("%s: cpu.idle is %s", w.Name, got)
		}
		undo(fmt.Sprintf("pid:%d", w.PID))
		if got := of(w.PID); got != of(os.Getpid()) {
			t.Fatalf("undone, %s is in %s", w.Name, got)
		}
		if _, err := os.Stat(parent); err == nil || sameController() != controllers {
			t.Fatalf("undone, %s: %v, controllers %s, were %s", parent, err, sameController(), controllers)
		}
		w.Kill()
	}
	lab.WriteText(lab.CgroupRoot+"/cgroup.subtree_control", "+cpu")
	w := start("ends by itself")
	w.Kill()
	w.Cmd.Wait()
	t.Must(lab.Homenode("run", "--class", "batch", "--quiet", "--", "/bin/walker", "--help"), lab.ExitOK)
	t.Until(30*time.Second, "what has ended is gone", func() (bool, string) {
		undo("--all")
		_, err := os.Stat(parent)
		return os.IsNotExist(err), fmt.Sprint(lab.Subtree(parent))
	})

	d := t.StartDaemon(lab.DaemonOptions{Mode: "enforce", Extra: "share: {enabled: true, sched_ext: off}\n"})
	t.Until(60*time.Second, "the daemon answers within a second", func() (bool, string) {
		r := lab.Homenode("run", "--class", "batch", "--strict", "--", "/bin/walker", "--help")
		return r.Exit == lab.ExitOK, r.String()
	})
	w = start("with a daemon")
	own := lab.Group(filepath.Join(parent, strconv.Itoa(w.PID)))
	awaitFile(t, own, "cpu.idle", "1") // by sharing, for it is a workload of tier batch
	w.Kill()
	w.Cmd.Wait()
	t.Until(60*time.Second, "the daemon removes the empty cgroup", func() (bool, string) {
		_, err := os.Stat(parent)
		return os.IsNotExist(err), fmt.Sprint(lab.Subtree(parent))
	})
	t.Stop(d)

	nobody := lab.HomenodeVia(lab.ViaNobody, "run", "--class", "batch", "--", "/bin/walker", "--help")
	if nobody.Exit != lab.ExitOK ||
		!strings.Contains(nobody.Err, "it has no cgroup of its own and runs as batch work by its affinity alone") {
		t.Fatalf("as nobody: %s", nobody)
	}
	strict := []string{"run", "--class", "batch", "--strict", "--", "/bin/walker", "--help"}
	t.Must(lab.HomenodeVia(lab.ViaNobody, strict...), lab.ExitForbidden)
	t.Textf("a cgroup that runs last, left by undo, removed when empty")
}
