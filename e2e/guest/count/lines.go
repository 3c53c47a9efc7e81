//go:build linux

package count

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/homenode/homenode/e2e/guest/lab"
	"github.com/homenode/homenode/e2e/suite"
)

const (
	// lineWarm is how long work runs under the kernel alone before it is watched.
	lineWarm = 6 * time.Second
	// lineSettle is how long Homenode has at most: it keeps work that it finds running in few caches after 30 s of
	// calm (core/control/concern/llc), later once it had to give it more CPUs.
	lineSettle = 45 * time.Second
	// lineWatch is how long threads are watched while nothing is counted, which would slow the guest.
	lineWatch = 12 * time.Second
	// lineCount is how long accesses are counted.
	lineCount = 4 * time.Second
	// watchEvery is the time between two looks at which threads run where.
	watchEvery = 150 * time.Millisecond
)

// exchange is one workload whose threads take lines from each other: processes with one buffer.
type exchange struct {
	name    string
	kind    string // of the table
	threads []int  // of each process
	spell   string // CPU time of a thread between two rests
	rest    string
}

// togetherWork is three pairs, a pod of three processes, and a guest: a VMM with two vCPU threads and an
// emulator thread, and a helper process. 13 threads that are busy three fifths of the time. Spells are long, because a
// thread that wakes waits up to 2 ms for the turn of its CPU: all CPUs of the guest take turns on one thread.
func togetherWork() []exchange {
	var all []exchange
	for i := range 3 {
		all = append(all, exchange{fmt.Sprintf("pair%d", i), "process pairs", []int{1, 1}, "45ms", "30ms"})
	}
	return append(all,
		exchange{"pod", "a pod of three processes", []int{1, 1, 1}, "45ms", "30ms"},
		exchange{"guest", "a guest with its helper", []int{3, 1}, "45ms", "30ms"})
}

// sixServices are six services of two processes and three threads each, busy two fifths of the time, for four caches of
// 4 CPUs.
func sixServices() []exchange {
	var all []exchange
	for i := range 6 {
		all = append(all, exchange{fmt.Sprintf("service%d", i), "six services", []int{2, 1}, "40ms", "60ms"})
	}
	return all
}

// exchanging is a running exchange.
type exchanging struct {
	exchange
	slot  int
	group lab.Group
	w     *lab.Walker // the first process, whose children the others are
}

// cachesLines counts the lines that work takes from other caches, under each of suite.LineArms.
func cachesLines(t *lab.T) {
	if _, err := os.Stat(lab.LLCSwitch); err != nil {
		t.Skipf("this kernel has no cache-aware scheduling: %v", err)
	}
	t.Defer(func() { lab.WriteText(lab.LLCSwitch, "1") })
	whereTurnsAre(t)
	random := rand.New(rand.NewPCG(lab.Seed(), 29))
	last := len(suite.LineArms) - 1 // added later, so that the order of the others is that of earlier runs
	for _, arm := range append(random.Perm(last), last) {
		lineArm(t, arm, random)
	}
	t.Textf("seed %d", lab.Seed())
}

// lineArm runs both scenes under one arm.
func lineArm(t *lab.T, arm int, random *rand.Rand) {
	name := suite.LineArms[arm]
	aware, observed := "0", strings.Contains(name, "observes")
	managed := strings.HasPrefix(name, "homenode") && !observed
	if strings.HasSuffix(name, " on") {
		aware = "1"
	}
	t.Write(lab.LLCSwitch, aware)
	lab.FreshState()
	var d *lab.Daemon
	switch {
	case observed:
		d = t.StartDaemon(lab.DaemonOptions{Mode: "observe", Period: "2s"})
	case managed:
		caches := "place"
		if strings.Contains(name, "without caches") {
			caches = "report"
		}
		d = t.StartDaemon(lab.DaemonOptions{Mode: "enforce", Period: "2s", Extra: "caches: " + caches + "\n"})
	}
	for scene, work := range [][]exchange{togetherWork(), sixServices()} {
		all := startExchanges(t, work, random)
		lab.Warm(lineWarm)
		if managed {
			settleCaches(t, all)
		}
		seen := watch(t, all, lineWatch)
		tag := suite.LineTag(scene, arm)
		lab.Mark(0)
		lab.Warm(lineCount)
		lab.Mark(tag)
		for _, x := range all {
			r := seen[x.name]
			t.Record("LINES %d %d %d %d %d %d|%s|%s|%s|%s", tag, x.slot, r.threads, r.ran.Nanoseconds(),
				r.waited.Nanoseconds(),
				seen[""].overfull.Milliseconds(), suite.LineScenes[scene], name, x.kind, x.name)
		}
		logCaches(t, name, all)
		if managed {
			explainWide(t, all)
		}
		endExchanges(t, all)
	}
	if managed {
		t.UndoneAll()
	}
	if d != nil {
		t.Stop(d)
	}
}

// startExchanges starts work in an order and at times of the seed.
func startExchanges(t *lab.T, work []exchange, random *rand.Rand) []*exchanging {
	all := make([]*exchanging, len(work))
	for _, i := range random.Perm(len(work)) {
		x := &exchanging{exchange: work[i], slot: i, group: t.NewGroup(lab.CgroupRoot, work[i].name)}
		file := filepath.Join(os.TempDir(), x.name)
		var with []string
		for _, threads := range x.threads[1:] {
			with = append(with, strconv.Itoa(threads))
		}
		w := &lab.Walker{Group: x.group, WalkerSpec: lab.WalkerSpec{Name: x.name, Slot: i, MiB: 1,
			Threads: x.threads[0], With: strings.Join(with, ","),
			Place: "local", Whole: true, Sleep: x.rest, Share: file, Spell: x.spell}}
		t.Do(w.Start())
		t.Defer(w.Kill)
		x.w = w
		all[i] = x
		time.Sleep(time.Duration(random.IntN(300)) * time.Millisecond)
	}
	for _, x := range all {
		t.Expect(x.w, "ready")
	}
	return all
}

func endExchanges(t *lab.T, all []*exchanging) {
	for _, x := range all {
		x.w.Kill()
		t.Until(10*time.Second, x.name+" has ended", func() (bool, string) {
			pids := t.PIDsIn(x.group)
			return len(pids) == 0, fmt.Sprint("processes ", pids)
		})
		t.Do(os.Remove(string(x.group)))
		os.Remove(filepath.Join(os.TempDir(), x.name))
	}
}

// watched is what was seen of a workload: the CPU time that its threads had, the time that they waited for
// a CPU, and under the name "" the longest time in which a cache had more runnable threads of all work than
// CPUs while another had room.
type watched struct {
	threads               int
	ran, waited, overfull time.Duration
}

// watch watches the threads of all work.
func watch(t *lab.T, all []*exchanging, d time.Duration) map[string]watched {
	out := map[string]watched{}
	threads := map[*exchanging][]string{} // folders in /proc
	for _, x := range all {
		for _, pid := range t.PIDsIn(x.group) {
			for _, tid := range lab.ThreadsOf(pid) {
				threads[x] = append(threads[x], fmt.Sprintf("/proc/%d/task/%d/", pid, tid))
			}
		}
	}
	before := map[string][2]time.Duration{}
	for _, folders := range threads {
		for _, folder := range folders {
			before[folder] = schedstat(t, folder)
		}
	}
	out[""] = watched{overfull: longestOverfull(t, threads, d)}
	for _, x := range all {
		r := watched{}
		for _, n := range x.exchange.threads {
			r.threads += n
		}
		for _, folder := range threads[x] {
			now := schedstat(t, folder)
			r.ran += now[0] - before[folder][0]
			r.waited += now[1] - before[folder][1]
		}
		out[x.name] = r
	}
	return out
}

// schedstat reads the time that a thread ran and that it waited on a run queue.
func schedstat(t *lab.T, folder string) (ns [2]time.Duration) {
	f := strings.Fields(lab.ReadText(folder + "schedstat"))
	for i := range min(2, len(f)) {
		n, _ := strconv.ParseInt(f[i], 10, 64)
		ns[i] = time.Duration(n)
	}
	return ns
}

// longestOverfull watches for d where threads are runnable, and returns the longest time in which one cache
// had more of them than CPUs at each look, while another had fewer.
func longestOverfull(t *lab.T, threads map[*exchanging][]string, d time.Duration) (longest time.Duration) {
	caches := t.Caches()
	since := make([]time.Time, len(caches))
	for end := time.Now().Add(d); time.Now().Before(end); time.Sleep(watchEvery) {
		runnable := make([]int, len(caches))
		for _, folders := range threads {
			for _, folder := range folders {
				cpu, runs := runnableOn(folder)
				if runs && cpu/t.Shape.CPUsPerCache() < len(caches) {
					runnable[cpu/t.Shape.CPUsPerCache()]++
				}
			}
		}
		now := time.Now()
		room := false
		for _, n := range runnable {
			room = room || n < t.Shape.CPUsPerCache()
		}
		for k, n := range runnable {
			if n <= t.Shape.CPUsPerCache() || !room {
				since[k] = time.Time{}
				continue
			}
			if since[k].IsZero() {
				since[k] = now
			}
			longest = max(longest, now.Sub(since[k]))
		}
	}
	return longest
}

// runnableOn reads the CPU that a thread ran on last, and whether it runs or waits for one.
func runnableOn(folder string) (cpu int, runs bool) {
	_, rest, _ := strings.Cut(lab.ReadText(folder+"stat"), ") ")
	f := strings.Fields(rest)
	if len(f) < 37 { // it has ended
		return 0, false
	}
	cpu, _ = strconv.Atoi(f[36]) // field 39, proc_pid_stat(5)
	return cpu, f[0] == "R"
}

// settleCaches waits until the CPUs of all work have stayed the same for 15 s, so that Homenode has decided.
func settleCaches(t *lab.T, all []*exchanging) {
	const calm = 15 * time.Second
	before, since := "", time.Now()
	for end := time.Now().Add(lineSettle); time.Now().Before(end) &&
		time.Since(since) < calm; time.Sleep(3 * time.Second) {
		now := cpusOfAll(t, all)
		narrow := !strings.Contains(now, lab.CPUsOf(lab.SetOf(0, 1)).String())
		if now != before || !narrow {
			before, since = now, time.Now()
		}
	}
}

// logCaches shows the CPUs that work may use.
func logCaches(t *lab.T, arm string, all []*exchanging) {
	t.Logf("%s: %s", arm, cpusOfAll(t, all))
}

// cpusOfAll is the CPUs that each workload may use.
func cpusOfAll(t *lab.T, all []*exchanging) string {
	var parts []string
	for _, x := range all {
		var may lab.Set
		for _, pid := range t.PIDsIn(x.group) {
			may |= t.Affinities(pid)
		}
		parts = append(parts, x.name+" "+may.String())
	}
	return strings.Join(parts, "; ")
}

// explainWide shows why the first workload that may use several caches is in no fewer.
func explainWide(t *lab.T, all []*exchanging) {
	for _, x := range all {
		var may lab.Set
		for _, pid := range t.PIDsIn(x.group) {
			may |= t.Affinities(pid)
		}
		if t.CachesOf(may) > 1 {
			r := lab.Homenode("explain", x.group.Path())
			t.Logf("%s: %s", x.name, cmp.Or(lab.OneLine(r.Out), r.Err))
			return
		}
	}
}
