//go:build linux

package main

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

func init() {
	tests["share.base"] = shareBase
	tests["share.freeze"] = shareFreeze
	tests["share.run"] = shareRun
	tests["share.cores"] = shareCores
}

// shareRules makes the walkers that are called so batch, and the web important.
const shareRules = "workloads: [{match: /encode*, bvt: -1}, {match: /fenced/**, tier: batch}, {match: /web, tier: online-strict}]\n"

// shareFiles is what sharing may change here.
var shareFiles = []string{"cpu.idle", "cpu.weight", "cpu.max", "cpu.max.burst", "memory.low", "memory.high", "io.weight", "io.max", "cgroup.freeze"}

// shareState is these files of groups, and what the root's children have.
func shareState(groups ...group) map[string]string {
	out := map[string]string{"controllers": readText(cgroupRoot + "/cgroup.subtree_control")}
	words := strings.Fields(out["controllers"])
	slices.Sort(words)
	out["controllers"] = strings.Join(words, " ")
	for _, g := range groups {
		for _, f := range shareFiles {
			if _, err := os.Stat(g.file(f)); err == nil {
				out[g.path()+" "+f] = strings.TrimSpace(readText(g.file(f)))
			}
		}
	}
	return out
}

func (t *T) awaitFile(g group, file, want string) {
	t.Until(60*time.Second, g.path()+" has "+file+" "+want, func() (bool, string) {
		got := strings.TrimSpace(readText(g.file(file)))
		return got == want || want == "" && got != "" && got != "max", fmt.Sprintf("%s is %q", file, got)
	})
}

func (t *T) backAs(when string, before map[string]string, groups ...group) {
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
// two jobs in it, online work nothing of it; what cannot be squeezed is named with the reason; off, undo, and undo after kill -9 put everything back with the controllers;
// a cgroup that goes meanwhile is no trouble; what somebody has chosen stays.
func shareBase(t *T) {
	t.write(cgroupRoot+"/cgroup.subtree_control", "-cpu") // homenode turns it on, and off again
	t.Defer(func() { writeText(cgroupRoot+"/cgroup.subtree_control", "+cpu") })
	ws := t.startWalkers(cgroupRoot, walkerSpec{name: "web", slot: 0, mib: 32, threads: 1, place: "local"},
		walkerSpec{name: "encode", slot: 1, mib: 32, threads: 1, place: "local", busy: true}, walkerSpec{name: "encode2", slot: 2, mib: 32, threads: 1, place: "local", busy: true},
		walkerSpec{name: "job", slot: 3, mib: 32, threads: 1, place: "local", busy: true, plain: true})
	web, encode, second := ws[0].group, ws[1].group, ws[2].group
	t.write(encode.file("cgroup.procs"), strconv.Itoa(ws[3].pid))
	fenced := t.newGroup(cgroupRoot, "fenced")
	t.write(fenced.file("cpuset.cpus"), "0-1")
	t.startWalkers(fenced, walkerSpec{name: "job", slot: 4, mib: 32, threads: 1, place: "local", busy: true})
	t.write(second.file("memory.high"), "1073741824") // somebody's
	before := shareState(web, encode, second)
	o := daemonOptions{mode: "enforce", extra: shareRules + "share: {enabled: true, memory: 90, io_weight: 10, sched_ext: off}\n"}
	d := t.startDaemon(o)
	set := func() {
		t.awaitFile(encode, "cpu.idle", "1")
		t.awaitFile(second, "cpu.idle", "1")
		t.awaitFile(encode, "memory.high", "")
		if _, err := os.Stat(encode.file("io.weight")); err == nil {
			t.awaitFile(encode, "io.weight", "default 10")
		}
	}
	set()
	n, err := strconv.ParseInt(t.read(encode.file("memory.high")), 10, 64)
	if err != nil || n < 64<<20 || n > int64(t.shape.MiB())<<20 || n%(1<<20) != 0 {
		t.Fatalf("memory.high is %d, %v", n, err)
	}
	t.Until(30*time.Second, "share status names what is left alone", func() (bool, string) {
		out := t.must(homenode("share", "status"), exitOK).out
		return strings.Contains(out, "/fenced/job: Another program gave its cgroup, or one above it, CPUs 0-1"), out
	})
	if got := t.read(second.file("memory.high")); got != "1073741824" {
		t.Fatalf("somebody's memory.high is %s", got)
	}
	for _, f := range shareFiles {
		if got := strings.TrimSpace(readText(web.file(f))); f == "cpu.idle" && got != "0" || f == "memory.high" && got != "max" {
			t.Fatalf("%s of the online one is %s", f, got)
		}
	}
	t.must(homenode("share", "off"), exitOK)
	t.backAs("turned off,", before, web, encode, second)
	t.must(homenode("share", "on"), exitOK)
	set()
	d.kill9()
	t.must(homenode("undo", "--all"), exitOK)
	t.backAs("undone after kill -9,", before, web, encode, second)
	t.must(homenode("resume", "--all"), exitOK)
	d = t.startDaemon(o)
	set()
	ws[2].kill()
	ws[2].end()
	t.Until(30*time.Second, "the cgroup can be removed", func() (bool, string) {
		err := os.Remove(string(second))
		return err == nil || os.IsNotExist(err), fmt.Sprint(err)
	})
	warm(5 * time.Second)
	t.alive(d)
	t.must(homenode("undo", "--all"), exitOK)
	maps.DeleteFunc(before, func(key, _ string) bool { return strings.HasPrefix(key, second.path()+" ") })
	t.backAs("undone with a cgroup gone,", before, web, encode)
	t.Textf("memory.high %d MiB; put back by off, undo and undo after kill -9", n>>20)
}

// shareCores: batch work has whole cores, fewer than there are, while its budget is no number of
// cores, and all CPUs again when it is turned off.
func shareCores(t *T) {
	ws := t.startWalkers(cgroupRoot, walkerSpec{name: "web", slot: 0, mib: 32, threads: 1, place: "local", busy: true},
		walkerSpec{name: "encode", slot: 1, mib: 32, threads: 1, place: "local", busy: true})
	encode := ws[1].group
	t.startDaemon(daemonOptions{mode: "enforce", extra: shareRules + "share: {enabled: true, sched_ext: off}\n"})
	given := set(0)
	t.Until(60*time.Second, "batch work has some whole cores", func() (bool, string) {
		text := strings.TrimSpace(readText(encode.file("cpuset.cpus")))
		if text == "" {
			return false, "no CPU set"
		}
		given = t.set(text)
		return given.size() >= 3 && given.size() < t.shape.CPUs(), text
	})
	for cpu := 0; cpu < t.shape.CPUs(); cpu += 2 { // siblings have numbers that follow
		if siblings := t.set(t.read(fmt.Sprintf("/sys/devices/system/cpu/cpu%d/topology/thread_siblings_list", cpu))); given&siblings != 0 && given&siblings != siblings {
			t.Fatalf("of the core of CPUs %s it has CPUs %s", siblings, given&siblings)
		}
	}
	t.must(homenode("share", "off"), exitOK)
	t.Until(60*time.Second, "batch work has every CPU again", func() (bool, string) {
		text := t.read(encode.file("cpuset.cpus.effective"))
		return t.set(text).size() == t.shape.CPUs(), text
	})
	t.Textf("CPUs %s of %d", given, t.shape.CPUs())
}

// shareFreeze: where one core is left and important work waits, batch work is frozen; a daemon
// that stops lets it go, undo lets it go after kill -9, and so does the next daemon.
func shareFreeze(t *T) {
	if _, err := os.Stat("/proc/pressure/cpu"); err != nil {
		t.Skipf("no pressure: %v", err)
	}
	ws := t.startWalkers(cgroupRoot, walkerSpec{name: "web", slot: 0, mib: 16, threads: 8, place: "local", busy: true},
		walkerSpec{name: "encode", slot: 1, mib: 16, threads: 2, place: "local", busy: true})
	encode := ws[1].group
	o := daemonOptions{mode: "enforce", extra: shareRules + "share: {enabled: true, freeze: true, max_wait: 1, sched_ext: off}\n"}
	d := t.startDaemon(o)
	t.awaitFile(encode, "cgroup.freeze", "1")
	t.stop(d)
	if got := t.read(encode.file("cgroup.freeze")); got != "0" {
		t.Fatalf("after a clean stop cgroup.freeze is %s", got)
	}
	if got := t.read(encode.file("cpu.idle")); got != "1" {
		t.Fatalf("after a clean stop cpu.idle is %s: nothing else was to be undone", got)
	}
	d = t.startDaemon(o)
	t.awaitFile(encode, "cgroup.freeze", "1")
	d.kill9()
	if got := t.read(encode.file("cgroup.freeze")); got != "1" {
		t.Fatalf("after kill -9 cgroup.freeze is %s", got)
	}
	t.must(homenode("undo", "--all"), exitOK)
	if got := t.read(encode.file("cgroup.freeze")); got != "0" {
		t.Fatalf("undone after kill -9, cgroup.freeze is %s", got)
	}
	t.must(homenode("resume", "--all"), exitOK)
	d = t.startDaemon(o)
	t.awaitFile(encode, "cgroup.freeze", "1")
	d.kill9()
	o.extra = shareRules + "share: {enabled: true, sched_ext: off}\n"
	t.startDaemon(o)
	t.awaitFile(encode, "cgroup.freeze", "0")
	t.Textf("frozen for the web, let go by stop, by undo and by the next start")
}

// shareRun: a batch command has a cgroup that runs last, undo takes it out of it, and it goes
// when it is empty; without a daemon and with one; who may not have one is told.
func shareRun(t *T) {
	const parent = cgroupRoot + "/homenode-batch"
	start := func(name string, more ...string) *walker {
		argv := append([]string{homenodeBin, "--socket", socketPath, "run", "--class", "batch"}, more...)
		return t.walkerBehind(name, append(argv, "--", "/bin/walker", "--slot", "8", "--mib", "16", "--threads", "1", "--place", "local"))
	}
	of := func(pid int) string {
		return strings.TrimPrefix(strings.TrimSpace(readText(fmt.Sprintf("/proc/%d/cgroup", pid))), "0::")
	}
	undo := func(name string) { // as who has never had a daemon
		t.must(capture(append(append([]string{homenodeBin}, usualSocket()...), "undo", name), "homenode undo "+name), exitOK)
	}
	sameController := func() string {
		words := strings.Fields(readText(cgroupRoot + "/cgroup.subtree_control"))
		slices.Sort(words)
		return strings.Join(words, " ")
	}
	for _, off := range []bool{false, true} {
		if off {
			t.write(cgroupRoot+"/cgroup.subtree_control", "-cpu")
			t.Defer(func() { writeText(cgroupRoot+"/cgroup.subtree_control", "+cpu") })
		}
		controllers := sameController()
		w := start(fmt.Sprintf("batch, controller off %t", off))
		if got := of(w.pid); got != fmt.Sprintf("/homenode-batch/%d", w.pid) {
			t.Fatalf("%s is in %s", w.name, got)
		}
		if got := t.read(filepath.Join(parent, "cpu.idle")); got != "1" {
			t.Fatalf("%s: cpu.idle is %s", w.name, got)
		}
		undo(fmt.Sprintf("pid:%d", w.pid))
		if got := of(w.pid); got != of(os.Getpid()) {
			t.Fatalf("undone, %s is in %s", w.name, got)
		}
		if _, err := os.Stat(parent); err == nil || sameController() != controllers {
			t.Fatalf("undone, %s: %v, controllers %s, were %s", parent, err, sameController(), controllers)
		}
		w.kill()
	}
	writeText(cgroupRoot+"/cgroup.subtree_control", "+cpu")
	w := start("ends by itself")
	w.kill()
	w.cmd.Wait()
	t.must(homenode("run", "--class", "batch", "--quiet", "--", "/bin/walker", "--help"), exitOK)
	t.Until(30*time.Second, "what has ended is gone", func() (bool, string) {
		undo("--all")
		_, err := os.Stat(parent)
		return os.IsNotExist(err), fmt.Sprint(subtree(parent))
	})

	d := t.startDaemon(daemonOptions{mode: "enforce", extra: "share: {enabled: true, sched_ext: off}\n"})
	t.Until(60*time.Second, "the daemon answers within a second", func() (bool, string) {
		r := homenode("run", "--class", "batch", "--strict", "--", "/bin/walker", "--help")
		return r.exit == exitOK, r.String()
	})
	w = start("with a daemon")
	own := group(filepath.Join(parent, strconv.Itoa(w.pid)))
	t.awaitFile(own, "cpu.idle", "1") // by sharing, for it is a workload of tier batch
	w.kill()
	w.cmd.Wait()
	t.Until(60*time.Second, "the daemon removes the empty cgroup", func() (bool, string) {
		_, err := os.Stat(parent)
		return os.IsNotExist(err), fmt.Sprint(subtree(parent))
	})
	t.stop(d)

	nobody := homenodeVia(viaNobody, "run", "--class", "batch", "--", "/bin/walker", "--help")
	if nobody.exit != exitOK || !strings.Contains(nobody.err, "it has no cgroup of its own and runs as batch work by its affinity alone") {
		t.Fatalf("as nobody: %s", nobody)
	}
	t.must(homenodeVia(viaNobody, "run", "--class", "batch", "--strict", "--", "/bin/walker", "--help"), exitForbidden)
	t.Textf("a cgroup that runs last, left by undo, removed when empty")
}
