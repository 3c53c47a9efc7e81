//go:build linux

package share

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/core/workload"
	"github.com/homenode/homenode/e2e/guest/lab"
	"github.com/homenode/homenode/host/scx"
)

// machine is the guest as the scheduler is told of it, without bounds. Siblings are neighbours.
func machine(t *lab.T) scx.Config {
	c := scx.Config{Timeout: 5 * time.Second}
	for cpu := range t.Shape.CPUs() {
		id := topology.CPUID(cpu)
		if lab.ReadText("/sys/devices/system/cpu/cpu"+strconv.Itoa(cpu)+"/online") == "0" {
			continue
		}
		one := scx.CPU{ID: id, Node: topology.NodeID(cpu / t.Shape.CPUsPerNode), LLC: cpu / t.Shape.CPUsPerNode}
		if lab.ReadText("/sys/devices/system/cpu/cpu"+strconv.Itoa(cpu^1)+"/online") != "0" {
			one.Siblings = topology.CPUs(id ^ 1)
		}
		c.CPUs = append(c.CPUs, one)
	}
	return c
}

// scheduler loads and attaches one for this test.
func scheduler(t *lab.T, c scx.Config) *scx.Scheduler {
	os.MkdirAll("/sys/fs/bpf", 0o755)
	if err := syscall.Mount("bpf", "/sys/fs/bpf", "bpf", 0, ""); err != nil && err != syscall.EBUSY {
		t.Fatalf("mount bpffs: %v", err)
	}
	if s := scx.Probe(); s.Kind == scx.NoSchedExt {
		t.Skipf("%s", s.Why)
	} else if !s.OK {
		t.Fatalf("probe: %s", s.Why)
	}
	s, err := scx.Load(context.Background(), scx.Options{Config: c})
	t.Do(err)
	t.Do(s.Attach())
	t.Defer(func() { s.Detach(); s.Close() })
	// Loading leaves much: swept now, not on a CPU that is measured.
	runtime.GC()
	debug.SetGCPercent(-1)
	return s
}

// batch makes a cgroup of batch work.
func tiered(t *lab.T, g lab.Group, tier workload.Tier, nodes ...topology.NodeID) scx.Cgroup {
	return scx.Cgroup{ID: t.Inode(g), Tier: tier, Nodes: topology.SetOf(nodes...)}
}

func switched(t *lab.T, g lab.Group) int {
	n, err := scx.Switch(context.Background(), scx.CgroupThreads(string(g)))
	t.Do(err)
	return n
}

func counters(t *lab.T, s *scx.Scheduler) scx.Stats {
	st, err := s.Stats()
	t.Do(err)
	return st
}

// window is how long CPU time is measured: exact where the clock is virtual, else what other work
// takes of the machine evens out.
func window(t *lab.T) time.Duration {
	if t.Shape.Virtual {
		return 500 * time.Millisecond
	}
	return 2 * time.Second
}

// freeze waits until the kernel has done it.
func freeze(t *lab.T, g lab.Group) {
	t.Write(g.File("cgroup.freeze"), "1")
	t.Poll(5*time.Second, 10*time.Millisecond, "frozen", func() (bool, string) {
		events := lab.ReadText(g.File("cgroup.events"))
		return strings.Contains(events, "frozen 1"), events
	})
}

func stillEnabled(t *lab.T, s *scx.Scheduler) scx.Stats {
	st := counters(t, s)
	if st.State != "enabled" || st.Scheduler != scx.Name {
		t.Fatalf("sched_ext is %s with scheduler %q: %+v", st.State, st.Scheduler, st.Exit)
	}
	return st
}

// between fails unless low <= x <= high.
func between(t *lab.T, what string, x, low, high float64) {
	if x < low || x > high {
		t.Fatalf("%s: %.3f, not %.3f to %.3f", what, x, low, high)
	}
	t.Logf("%s: %.3f", what, x)
}

// comesTo waits until what a cgroup uses is low to high: who may run again is woken within some ms, but
// which of its threads had waited for which CPU is chance.
func comesTo(t *lab.T, what string, g lab.Group, low, high float64) {
	t.Poll(10*time.Second, 0, what, func() (bool, string) {
		x := g.Uses(window(t))
		t.Logf("%s: %.3f", what, x)
		return x >= low && x <= high, fmt.Sprintf("%.3f, not %.3f to %.3f", x, low, high)
	})
}

func batchHogs(t *lab.T, s *scx.Scheduler, threads int, others ...scx.Cgroup) lab.Group {
	off := t.NewGroup(lab.CgroupRoot, "off")
	t.Do(s.SetTiers(append(others, tiered(t, off, workload.BatchTier))))
	t.OnFailure(func() {
		st, err := s.Stats()
		st.Programs = nil
		t.Logf("%+v %v", st, err)
		for _, tid := range strings.Fields(lab.ReadText(off.File("cgroup.threads"))) {
			id, _ := strconv.Atoi(tid)
			if f := statFields(id); len(f) > 36 {
				t.Logf("thread %s: %s on CPU %s of %s, ran and waited %s", tid, f[0], f[36],
					lab.StatusField(id, "Cpus_allowed_list"), lab.ReadText("/proc/"+tid+"/schedstat"))
			}
		}
	})
	startIn(t, off, "hog", strconv.Itoa(threads))
	t.Poll(5*time.Second, 50*time.Millisecond, "threads", func() (bool, string) {
		n := len(strings.Fields(lab.ReadText(off.File("cgroup.threads"))))
		return n > threads, strconv.Itoa(n)
	})
	switched(t, off)
	return off
}

// scxLoad: loaded and verified without being attached, attached, another is refused, found
// again by its pins, and gone.
func scxLoad(t *lab.T) {
	conf := machine(t)
	if _, err := os.Stat("/sys/kernel/sched_ext"); err != nil {
		var why scx.Support
		if _, err := scx.Load(context.Background(), scx.Options{Config: conf}); !errors.As(err, &why) ||
			why.Kind != scx.NoSchedExt || strings.Contains(why.Why, "\n") {
			t.Fatalf("without sched_ext: %v", err)
		}
		t.Textf("%s", why.Why)
		return
	}
	s := scheduler(t, conf)
	other, err := scx.Load(context.Background(), scx.Options{Pin: scx.DefaultPin + "-other", Config: conf})
	t.Do(err)
	stillEnabled(t, s)
	var why scx.Support
	if err := other.Attach(); !errors.As(err, &why) || why.Kind != scx.Other {
		t.Fatalf("a second one attached: %v", err)
	}
	other.Close()
	t.Do(s.Close())
	s, err = scx.Adopt(scx.DefaultPin)
	t.Do(err)
	t.Defer(func() { s.Detach(); s.Close() })
	stillEnabled(t, s)

	// Idle CPUs are used, all of them.
	off := batchHogs(t, s, t.Shape.CPUs())
	cpus := float64(t.Shape.CPUs())
	comesTo(t, "CPUs that batch work uses of "+strconv.Itoa(t.Shape.CPUs()), off, 0.8*cpus, cpus*1.05)
	st := stillEnabled(t, s)
	if st.Refused.Expelled+st.Refused.Budget+st.Refused.IdleBuffer+st.Refused.Nodes > 0 {
		t.Fatalf("refused without a reason: %+v", st.Refused)
	}
	// The time of who never leaves its CPU is counted as it runs.
	t.Write(off.File("cgroup.kill"), "1")
	one, last := t.NewGroup(lab.CgroupRoot, "one"), t.Shape.CPUs()-1
	t.Do(s.SetTiers([]scx.Cgroup{tiered(t, one, workload.BatchTier)}))
	pinned(t, one, last)
	switched(t, one)
	for _, f := range strings.Fields(t.Read(one.File("cgroup.threads"))) {
		if tid, _ := strconv.Atoi(f); statFields(tid)[0] != "R" {
			t.Do(lab.SetAffinity(tid, lab.SetOf(0))) // Go's own, which would take its CPU every 10 ms
		}
	}
	for range 2 {
		begin, start := counters(t, s), time.Now()
		time.Sleep(4 * window(t)) // long beside the time that reading the counters takes
		node := last / t.Shape.CPUsPerNode
		between(t, "CPUs of one busy task, as counted",
			float64(counters(t, s).Nodes[node].Used-begin.Nodes[node].Used)/float64(time.Since(start)), 0.9, 1.1)
	}
	t.Do(s.Detach())
	t.Poll(5*time.Second, 50*time.Millisecond, "disabled", func() (bool, string) {
		st, err := s.Stats()
		return err == nil && st.State == "disabled" && st.Exit.Reason != "", fmt.Sprintf("%+v %v", st.Exit, err)
	})
	if _, err := scx.Adopt(scx.DefaultPin); !errors.Is(err, os.ErrNotExist) {
		t.Fatalf("pins are left: %v", err)
	}
}

// pinned starts hogs that are bound to one CPU each.
func pinned(t *lab.T, g lab.Group, cpus ...int) {
	for _, cpu := range cpus {
		c := startIn(t, g, "hog", "1")
		for _, tid := range lab.ThreadsOf(c.Process.Pid) {
			t.Do(lab.SetAffinity(tid, lab.SetOf(cpu)))
		}
		time.Sleep(50 * time.Millisecond)
		for _, tid := range lab.ThreadsOf(c.Process.Pid) {
			t.Do(lab.SetAffinity(tid, lab.SetOf(cpu)))
		}
	}
}

// scxExpel: a batch task does not run beside online-strict work; beside work of other tiers,
// and beside online-strict work that may not run itself, it does.
func scxExpel(t *lab.T) {
	conf := machine(t)
	s := scheduler(t, conf)
	strict := t.NewGroup(lab.CgroupRoot, "strict")
	inner := t.NewGroup(strict, "inner") // has the tier of the one above it
	tier := tiered(t, strict, workload.OnlineStrict)
	off := batchHogs(t, s, t.Shape.CPUs(), tier)
	var evens []int
	for cpu := 0; cpu < t.Shape.CPUs(); cpu += 2 {
		evens = append(evens, cpu)
	}
	pinned(t, inner, evens...)
	half := float64(len(evens))
	time.Sleep(500 * time.Millisecond)
	between(t, "batch CPUs beside online-strict work on each core", off.Uses(window(t)), 0, 0.2)
	st := stillEnabled(t, s)
	if st.Refused.Expelled == 0 {
		t.Fatalf("nothing was expelled: %+v", st)
	}
	// At once, also for a hog that never leaves its CPU.
	t.Do(s.SetTiers([]scx.Cgroup{tiered(t, strict, workload.Online), tiered(t, off, workload.BatchTier)}))
	comesTo(t, "beside online work", off, 0.85*half, 1.15*half)
	t.Do(s.SetTiers([]scx.Cgroup{tier, tiered(t, off, workload.BatchTier)}))
	between(t, "beside online-strict work again", off.Uses(window(t)), 0, 0.2)
	freeze(t, strict)
	comesTo(t, "beside frozen work", off, 1.7*half, 2.1*half)
	t.Write(strict.File("cgroup.freeze"), "0")
	t.Write(strict.File("cpu.max"), "1000 100000")
	comesTo(t, "beside throttled work", off, 1.6*half, 2.1*half)
	t.Write(strict.File("cpu.max"), "max 100000")
	between(t, "beside work that is throttled no more", off.Uses(window(t)), 0, 0.2)
	// An untagged cgroup is normal; so are its tasks, though they are SCHED_EXT still: none is expelled,
	// and what waits goes to a CPU that is free.
	t.Do(s.SetTiers([]scx.Cgroup{tier}))
	comesTo(t, "what was batch work", off, 0.85*half, 1.15*half)
	t.Write(strict.File("cgroup.kill"), "1")
	comesTo(t, "what was batch work, alone", off, 1.8*half, 2.1*half)
	st = stillEnabled(t, s)
	if st.QueuedFree == 0 {
		t.Fatalf("no task went free: %+v", st)
	}
}

// scxBursts: work that comes and goes: the interrupts that expelling takes, and how long batch
// work ran beside it.
func scxBursts(t *lab.T) {
	s := scheduler(t, machine(t))
	strict := t.NewGroup(lab.CgroupRoot, "strict")
	batchHogs(t, s, t.Shape.CPUs(), tiered(t, strict, workload.OnlineStrict))
	c := startIn(t, strict, "bursts")
	for range 3 {
		for _, tid := range lab.ThreadsOf(c.Process.Pid) {
			t.Do(lab.SetAffinity(tid, lab.SetOf(0)))
		}
		time.Sleep(20 * time.Millisecond)
	}
	// The more vCPUs take turns, the less often a task of one of them begins.
	t.Poll(20*time.Second, window(t), "200 beginnings of online-strict work", func() (bool, string) {
		n := stillEnabled(t, s).StrictStarts
		return n >= 200, strconv.FormatUint(n, 10)
	})
	st := stillEnabled(t, s)
	st.Programs = nil
	t.Logf("%+v", st)
	if n := st.Kicks.Expel + st.Kicks.Late; st.Kicks.Expel == 0 || n > 2*st.StrictStarts {
		t.Fatalf("%d interrupts to expel in %d beginnings", n, st.StrictStarts)
	}
	// The vCPUs of this guest take turns: the more there are, the longer a CPU that has decided waits to begin.
	if st.Kicks.Late*40 > st.StrictStarts*uint64(t.Shape.CPUs()) {
		t.Fatalf("%d batch tasks began beside online-strict work, which began %d times", st.Kicks.Late, st.StrictStarts)
	}
}

// scxGuard: online-strict work takes every CPU, and many batch threads wait. Without the guard
// the kernel's watchdog ends the scheduler. With it, and with those given back that it can not
// serve, the scheduler stays and every thread has its turn.
func scxGuard(t *lab.T) {
	const hogs = 20
	conf := machine(t)
	conf.NoGuard = true
	conf.Timeout = 3 * time.Second
	conf.Guard = 500 * time.Millisecond
	s := scheduler(t, conf)
	strict := t.NewGroup(lab.CgroupRoot, "strict")
	off := batchHogs(t, s, hogs, tiered(t, strict, workload.OnlineStrict))
	t.Write(off.File("cpu.idle"), "1")
	startIn(t, strict, "hog", strconv.Itoa(t.Shape.CPUs()))
	t.Poll(20*time.Second, 100*time.Millisecond, "the watchdog", func() (bool, string) {
		st := counters(t, s)
		return st.State == "disabled" && st.Exit.Reason != "", st.State
	})
	st := counters(t, s)
	if !strings.Contains(st.Exit.Reason, "stall") {
		t.Fatalf("ended: %+v", st.Exit)
	}
	t.Logf("without: %s: %s", st.Exit.Reason, st.Exit.Message)
	t.Do(s.Detach())
	t.Do(s.Close())

	conf.NoGuard = false
	freeze(t, strict)
	s = scheduler(t, conf)
	t.Do(s.SetTiers([]scx.Cgroup{tiered(t, strict, workload.OnlineStrict), tiered(t, off, workload.BatchTier)}))
	t.Write(strict.File("cgroup.freeze"), "0")
	// As the daemon does it, in the proportion of this timeout to its own.
	relief := scx.Relief{After: conf.Timeout / 5}
	ran := func() map[int]string {
		out := map[int]string{}
		for _, f := range strings.Fields(lab.ReadText(off.File("cgroup.threads"))) {
			tid, _ := strconv.Atoi(f)
			// Go's threads that only wait for an event are not meant.
			if fields := strings.Fields(lab.ReadText("/proc/" + f + "/schedstat")); len(fields) == 3 &&
				statFields(tid)[0] == "R" {
				out[tid] = fields[0]
			}
		}
		return out
	}
	before, given := ran(), 0
	starves := func() int {
		for tid, ns := range ran() {
			if before[tid] == ns {
				return tid
			}
		}
		return 0
	}
	var offBefore, strictBefore time.Duration
	// The fair class gives those that were given back 3 of 1027 parts of a CPU (cpu.idle), a tick of 4 ms
	// at a time: of 8 that share a CPU the last has its turn after 11 s.
	rounds := 0
	for ; rounds < 24 || (rounds < 50 && starves() > 0); rounds++ {
		if rounds == 12 { // all that starve were given back
			offBefore, strictBefore = off.Used(), strict.Used()
		}
		time.Sleep(conf.Timeout / 10)
		n, err := relief.Look(time.Now(), scx.CgroupThreads(string(off)))
		t.Do(err)
		given += n
	}
	st = stillEnabled(t, s)
	took := conf.Timeout / 10 * time.Duration(rounds)
	if tid := starves(); tid > 0 {
		t.Fatalf("thread %d did not run in %v; %d were given back, %+v", tid, took, given, st)
	}
	offUsed, strictUsed := off.Used()-offBefore, strict.Used()-strictBefore
	between(t, "part of the CPU time that is online-strict work's", float64(strictUsed)/float64(strictUsed+offUsed),
		0.9, 1)
	t.Logf("with: each ran within %v, %d guard slices, %d threads given back, %+v", took, st.GuardSlices, given,
		st.Refused)
}

// scxBounds: budget, idle CPUs and the nodes of a cgroup.
func scxBounds(t *lab.T) {
	conf := machine(t)
	conf.Guard = window(t) / 2
	s := scheduler(t, conf)
	off := batchHogs(t, s, t.Shape.CPUs())
	perNode := func(what string, set func(*scx.Node), low, high float64) {
		conf.Nodes = nil
		for n := range t.Shape.Nodes {
			one := scx.Node{ID: topology.NodeID(n), Budget: -1}
			set(&one)
			conf.Nodes = append(conf.Nodes, one)
		}
		t.Do(s.Set(conf))
		time.Sleep(100 * time.Millisecond)
		patience := time.Duration(0)
		if low > 0 { // as in comesTo
			patience = 10 * time.Second
		}
		t.Poll(patience, 0, what, func() (bool, string) {
			var cpus []float64
			used, start := counters(t, s).Nodes, time.Now()
			time.Sleep(window(t))
			for i, n := range counters(t, s).Nodes {
				cpus = append(cpus, float64(n.Used-used[i].Used)/float64(time.Since(start)))
			}
			t.Logf("%s: CPUs of each node %.3f", what, cpus)
			return slices.Min(cpus) >= low && slices.Max(cpus) <= high,
				fmt.Sprintf("CPUs of each node %.3f, not %.3f to %.3f", cpus, low, high)
		})
	}
	all := float64(t.Shape.CPUsPerNode)
	perNode("a budget of 1", func(n *scx.Node) { n.Budget = 1 }, 0.8, 1.1)
	perNode("a budget of 0.5", func(n *scx.Node) { n.Budget = 0.5 }, 0.35, 0.65)
	perNode("no budget", func(n *scx.Node) { n.Budget = 0 }, 0, 0.06)
	perNode("one CPU idle", func(n *scx.Node) { n.Idle = 1 }, all-1.2, all-0.9)
	perNode("all CPUs idle", func(n *scx.Node) { n.Idle = t.Shape.CPUsPerNode }, 0, 0.06)
	perNode("no bound", func(n *scx.Node) {}, all*0.8, all*1.05)
	st := stillEnabled(t, s)
	if st.Refused.Budget == 0 || st.Refused.IdleBuffer == 0 || st.Refused.Expelled > 0 || st.GuardSlices == 0 {
		t.Fatalf("%+v", st)
	}

	last := t.Shape.Nodes - 1
	t.Do(s.SetTiers([]scx.Cgroup{tiered(t, off, workload.BatchTier, topology.NodeID(last))}))
	time.Sleep(200 * time.Millisecond)
	before, start := counters(t, s).Nodes, time.Now()
	time.Sleep(window(t))
	for i, n := range counters(t, s).Nodes {
		low, high := 0.0, 0.005
		if i == last {
			low, high = all*0.8, all*1.05
		}
		between(t, fmt.Sprintf("on node %d alone: CPUs of node %d", last, i),
			float64(n.Used-before[i].Used)/float64(time.Since(start)), low, high)
	}
	stillEnabled(t, s)
}

// scxTasks: no task is lost. Tasks bound to each CPU all get their turn beside as many that may run
// anywhere; a storm of fork, exec and exit, changes of affinity and moves between cgroups leave nothing waiting.
func scxTasks(t *lab.T) {
	s := scheduler(t, machine(t))
	off := t.NewGroup(lab.CgroupRoot, "off")
	on := t.NewGroup(lab.CgroupRoot, "on")
	t.Do(s.SetTiers([]scx.Cgroup{tiered(t, off, workload.BatchTier)}))
	var bound []*exec.Cmd
	for cpu := range t.Shape.CPUs() {
		c := startIn(t, off, "hog", "1")
		bound = append(bound, c)
		for _, tid := range lab.ThreadsOf(c.Process.Pid) {
			t.Do(lab.SetAffinity(tid, lab.SetOf(cpu)))
		}
	}
	startIn(t, off, "hog", strconv.Itoa(t.Shape.CPUs()))
	startIn(t, off, "storm")
	mover := startIn(t, off, "hog", "2")
	time.Sleep(200 * time.Millisecond)
	// Those that are born meanwhile are found, too.
	switched(t, off)
	if got := policies(t, off); !slices.Equal(got, []int{policyExt}) {
		t.Fatalf("policies %v", got)
	}
	for i := 0; i < 60; i++ {
		for _, tid := range lab.ThreadsOf(mover.Process.Pid) {
			lab.SetAffinity(tid, lab.SetOf(i%t.Shape.CPUs()))
			if i%3 == 0 {
				lab.SetAffinity(tid, lab.SetOf(0, 1))
			}
		}
		to := []lab.Group{on, off}[i%2]
		t.Write(to.File("cgroup.procs"), strconv.Itoa(mover.Process.Pid))
		time.Sleep(20 * time.Millisecond)
	}
	before := make([]time.Duration, len(bound))
	for i, c := range bound {
		before[i] = cpuTime(c.Process.Pid)
	}
	time.Sleep(2 * window(t))
	for i, c := range bound {
		if took := cpuTime(c.Process.Pid) - before[i]; took < window(t)/5 {
			t.Fatalf("the task bound to CPU %d had %v of %v", i, took, 2*window(t))
		}
	}
	st := stillEnabled(t, s)
	if st.QueuedForCPU == 0 {
		t.Fatalf("no task was queued for one CPU: %+v", st)
	}
	t.Write(off.File("cgroup.kill"), "1")
	t.Poll(5*time.Second, 50*time.Millisecond, "nothing waits", func() (bool, string) {
		st := stillEnabled(t, s)
		n := 0
		for _, node := range st.Nodes {
			n += node.Batch
		}
		return st.Waiting == 0 && n == 0 && lab.ReadText(off.File("cgroup.threads")) == "",
			fmt.Sprintf("%d wait, %d run, %q", st.Waiting, n, lab.ReadText(off.File("cgroup.threads")))
	})
}

// statFields are those of /proc/PID/stat from the third on, which is the first here.
func statFields(pid int) []string {
	text := lab.ReadText(fmt.Sprintf("/proc/%d/stat", pid))
	_, rest, _ := strings.Cut(text, ") ")
	return strings.Fields(rest)
}

func cpuTime(pid int) time.Duration {
	f := statFields(pid)
	if len(f) < 13 {
		return 0
	}
	user, _ := strconv.Atoi(f[11])
	system, _ := strconv.Atoi(f[12])
	return time.Duration(user+system) * 10 * time.Millisecond
}

// scxHotplug: CPUs go and come while the scheduler runs; in between each core has one, as with SMT off.
func scxHotplug(t *lab.T) {
	s := scheduler(t, machine(t))
	strict := t.NewGroup(lab.CgroupRoot, "strict")
	off := batchHogs(t, s, t.Shape.CPUs(), tiered(t, strict, workload.OnlineStrict))
	onlineFile := func(cpu int) string { return fmt.Sprintf("/sys/devices/system/cpu/cpu%d/online", cpu) }
	cores := float64(t.Shape.CPUs() / 2)
	for cpu := 1; cpu < t.Shape.CPUs(); cpu += 2 {
		t.Write(onlineFile(cpu), "0")
	}
	stillEnabled(t, s)
	comesTo(t, "CPUs with SMT off", off, 0.75*cores, 1.05*cores)
	t.Do(s.Set(machine(t)))
	// No sibling, so nothing to be put off from: online-strict work has its CPU, batch work the others.
	if t.Shape.CPUs() > 2 {
		pinned(t, strict, 0)
		comesTo(t, "beside online-strict work, SMT off", off, 0.7*(cores-1), 1.1*(cores-1)+0.1)
		if st := stillEnabled(t, s); st.Kicks.Expel > 0 {
			t.Fatalf("expelled without siblings: %+v", st)
		}
		t.Write(strict.File("cgroup.kill"), "1")
	}
	for cpu := 1; cpu < t.Shape.CPUs(); cpu += 2 {
		t.Write(onlineFile(cpu), "1")
	}
	// They are idle as the scheduler is told of them: what each node has is counted as before.
	time.Sleep(100 * time.Millisecond)
	t.Do(s.Set(machine(t)))
	comesTo(t, "CPUs with SMT on again", off, 1.7*cores, 2.1*cores)
	st := stillEnabled(t, s)
	for _, n := range st.Nodes {
		if n.Idle < 0 || n.Batch < 0 || n.Idle+n.Batch > t.Shape.CPUsPerNode {
			t.Fatalf("node %d of %d CPUs: %d idle, %d with batch work", n.ID, t.Shape.CPUsPerNode, n.Idle, n.Batch)
		}
	}
	if st.Refused.IdleBuffer+st.Refused.Budget > 0 {
		t.Fatalf("refused without a bound: %+v", st.Refused)
	}
}

// scxLimits: what the fair class promises online work holds beside batch work: its share of a CPU
// they are both bound to, cpu.max and cpu.weight.
func scxLimits(t *lab.T) {
	last := t.Shape.CPUs() - 1
	one, other := t.NewGroup(lab.CgroupRoot, "one"), t.NewGroup(lab.CgroupRoot, "other")
	pinned(t, one, last)
	pinned(t, other, last)
	t.Write(one.File("cpu.weight"), "300")
	part := func() float64 {
		first, second := one.Used(), other.Used()
		time.Sleep(2 * window(t))
		first, second = one.Used()-first, other.Used()-second
		return float64(first) / float64(first+second)
	}
	without := part()
	conf := machine(t)
	conf.Timeout = 0 // those bound to the CPU starve meanwhile
	s := scheduler(t, conf)
	batchHogs(t, s, t.Shape.CPUs()+1)
	bound := t.NewGroup(lab.Group(lab.CgroupRoot+"/off"), "bound")
	pinned(t, bound, last)
	switched(t, bound)
	with := part()
	between(t, "with a cpu.weight of 300 beside 100, part, less what it is without the scheduler", with-without, -0.07,
		0.07)
	freeze(t, other)
	// Of the CPU time that was had: an emulator on a busy machine gives less than a whole CPU.
	bounds := bound.Used()
	ones := one.Used()
	time.Sleep(window(t))
	ones, bounds = one.Used()-ones, bound.Used()-bounds
	between(t, "online work's part on a CPU that batch work is bound to", float64(ones)/float64(ones+bounds), 0.95, 1)
	t.Write(one.File("cpu.max"), "20000 100000")
	between(t, "with a cpu.max of 20 %", one.Uses(2*time.Second), 0.18, 0.22) // 20 periods: at most one more or less
	stillEnabled(t, s)
}

//go:embed scx_verifier.txt
var verifierBaseline string

// scxCost: what the verifier had to go through, beside what it had when the baseline was written,
// and what the programs take while 4 CPUs switch.
func scxCost(t *lab.T) {
	s := scheduler(t, machine(t))
	generation := scx.Probe().Generation
	want := map[string]int{}
	for line := range strings.Lines(verifierBaseline) {
		if f := strings.Fields(line); len(f) == 3 && f[0] == generation {
			want[f[1]], _ = strconv.Atoi(f[2])
		}
	}
	var wrong []string
	st := counters(t, s)
	for _, p := range st.Programs {
		t.Logf("%s %s %d", generation, p.Name, p.Verified)
		if n := want[p.Name]; n == 0 || p.Verified > n+n/4 || p.Verified < n-n/4 {
			wrong = append(wrong, fmt.Sprintf("%s: %d instructions, baseline %d", p.Name, p.Verified, n))
		}
	}
	if len(wrong) > 0 {
		t.Fatalf("by more than a quarter off e2e/guest/share/scx_verifier.txt: %s", strings.Join(wrong, "; "))
	}
	measuring, err := scx.MeasurePrograms()
	t.Do(err)
	defer measuring.Close()
	strict := t.NewGroup(lab.CgroupRoot, "strict")
	batchHogs(t, s, t.Shape.CPUs(), tiered(t, strict, workload.OnlineStrict))
	startIn(t, strict, "bursts")
	startIn(t, strict, "bursts")
	time.Sleep(2 * window(t))
	for _, p := range stillEnabled(t, s).Programs {
		if p.Runs > 0 {
			t.Row("BPF programs: cost in an emulated guest", p.Name, strconv.FormatUint(p.Runs, 10),
				fmt.Sprintf("%.0f ns", float64(p.Time)/float64(p.Runs)))
		}
	}
}
