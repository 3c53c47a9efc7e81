//go:build linux

package count

import (
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
	"unsafe"

	"github.com/homenode/homenode/e2e/guest/lab"
	"github.com/homenode/homenode/e2e/guest/runtimes"
	"github.com/homenode/homenode/e2e/suite"
)

// bottlePasses are measured of each arm.
const bottlePasses = 2

// bottleRest is what a thread sleeps between two bursts: forty threads that rest less leave the
// emulated guest no time for what starts, moves and places them.
const bottleRest = "40ms"

// scene is work that every arm starts anew.
type scene struct {
	name string // of suite.BottleScenes
	each int    // CPUs that each program asks for
	// prepare does what comes before the first page and takes long while accesses are counted; nil is nothing.
	prepare func(cpus func(i int) lab.Set)
	// start starts all of it, each with CPUs of its own where cpus is not nil.
	start func(cpus func(i int) lab.Set) []*lab.Walker
	end   func([]*lab.Walker)
	// daemon starts homenode.
	daemon func() *lab.Daemon
	// run starts all of it by homenode run; nil where nothing is started so.
	run func() []*lab.Walker
	// declared is whether the host knows the walkers.
	declared bool
	// only is the arms that it is left to; none is all.
	only []string
	// managed: under homenode run a daemon runs, too.
	managed bool
	// settled waits, with a daemon, for what comes after the move home; nil is nothing.
	settled func()
	// unmoved: there is no better place for it, so it is left to the kernel and to homenode, and nothing has
	// to come home.
	unmoved bool
}

// arm is what the work of a scene is left to.
type arm struct {
	name      string
	balancing bool                // the kernel's
	cpus      func(i int) lab.Set // each starts on these
	running   func([][]int)       // done to it as it runs: to the processes of each program
	warm      time.Duration       // until it is measured
	homenode  bool                // with a daemon in enforce mode
	run       bool                // started by homenode run
}

// tenPods are ten servers: a CPU's worth of work each, a heap that one crew of threads fills and
// all of them use, and a small part of it that they use much.
func tenPods() []lab.WalkerSpec {
	var r []lab.WalkerSpec
	for i := range 10 {
		r = append(r, lab.WalkerSpec{Name: fmt.Sprintf("pod%d", i), Slot: i, MiB: 32, Threads: 2, Place: "local",
			Whole: true, Hot: 1, Sleep: bottleRest})
	}
	return r
}

// guestsOf are processes as QEMU's are: a thread for each of two vCPUs, and the memory of a guest. Six
// of them have as many vCPUs as the machine has CPUs, eight have more.
func guestsOf(n int) []lab.WalkerSpec {
	var r []lab.WalkerSpec
	for i := range n {
		r = append(r, lab.WalkerSpec{Name: fmt.Sprintf("guest%d", i), Slot: i, MiB: 48, Threads: 2, Place: "local",
			Whole: true, Hot: 1, Sleep: bottleRest})
	}
	return r
}

// twoServers are for a guest of four CPUs in virtual time.
func twoServers() []lab.WalkerSpec {
	var r []lab.WalkerSpec
	for i := range 2 {
		r = append(r, lab.WalkerSpec{Name: fmt.Sprintf("server%d", i), Slot: i, MiB: 16, Threads: 2, Place: "local",
			Whole: true, Hot: 1, Sleep: bottleRest})
	}
	return r
}

// idleMiB is the memory of the program on an idle host. It visits 4 of 64 lines of each page: 30 MiB in
// all, nine tenths of a cache of 33 MiB. What a scan takes of the cache is missing then.
const idleMiB = 480

// idleHost is one program of one thread on an idle machine.
func idleHost() []lab.WalkerSpec {
	return []lab.WalkerSpec{{Name: "server0", Slot: 0, MiB: idleMiB, Threads: 1, Place: "local", Whole: true, Hot: 1,
		Sleep: bottleRest}}
}

// fullMachine is a program with a thread for each CPU of the machine and more memory than a node has.
func fullMachine() []lab.WalkerSpec {
	return []lab.WalkerSpec{{Name: "server0", Slot: 0, MiB: 384, Threads: 4, Place: "local", Whole: true, Sleep: "4ms"}}
}

// interleaved is a program as large, whose memory is interleaved on purpose: it keeps that policy.
func interleaved() []lab.WalkerSpec {
	return []lab.WalkerSpec{{Name: "server0", Slot: 0, MiB: 384, Threads: 4, Place: "interleave", Whole: true,
		Sleep: "4ms"}}
}

// arms lists what is compared, in the order of suite.BottleArms.
func arms(t *lab.T, s *scene) []arm { return armsFor(t, s.each) }

// armsFor lists it for programs that ask for so many CPUs each.
func armsFor(t *lab.T, each int) []arm {
	settle := 5 * time.Second
	return []arm{
		{name: suite.BottleArms[0], warm: 2 * settle},
		{name: suite.BottleArms[1], warm: balancingTime, balancing: true},
		{name: suite.BottleArms[2], warm: settle, running: func(programs [][]int) { numadRule(t, programs) }},
		{name: suite.BottleArms[3], warm: settle, running: func(programs [][]int) { tasksetRule(t, programs) }},
		{name: suite.BottleArms[4], warm: settle, cpus: kubeletRule(t.Shape.CPUs(), each)},
		{name: suite.BottleArms[5], warm: settle, homenode: true},
		{name: suite.BottleArms[6], warm: settle, run: true},
	}
}

// nothingToGain is a scene in which there is nothing to gain.
func nothingToGain(t *lab.T, name string, specs []lab.WalkerSpec) *scene {
	s := bareScene(t, name, specs[0].Threads, specs)
	s.unmoved, s.run = true, nil
	return s
}

// idle is such a scene on an idle host, with as much time between two scans as the product has.
func idle(t *lab.T, name string) *scene {
	s := nothingToGain(t, name, idleHost())
	s.daemon = func() *lab.Daemon { return t.StartDaemon(lab.DaemonOptions{Mode: "enforce", Period: productPeriod}) }
	return s
}

// productPeriod is the time between two scans where no configuration names another (config.New): what
// a scan costs depends on it.
const productPeriod = "2s"

// startedLocal starts programs on node 0 and lets them run anywhere once they have filled their memory, so that thread
// and memory are on one node in every arm.
func startedLocal(t *lab.T, s *scene) *scene {
	start := s.start
	s.start = func(func(int) lab.Set) []*lab.Walker {
		ws := start(func(int) lab.Set { return lab.NodeCPUs(0) })
		for _, w := range ws {
			t.Write(w.Group.File("cpuset.cpus"), "\n")
		}
		return ws
	}
	return s
}

// bottle counts a scene under each arm: from the first page on, and when it has settled.
func bottle(t *lab.T, s *scene) {
	whereTurnsAre(t)
	random := rand.New(rand.NewPCG(lab.Seed(), 27))
	arms := arms(t, s)
	for _, i := range random.Perm(len(arms)) {
		a := arms[i]
		other := !a.homenode && i > 0
		left := len(s.only) > 0 && !slices.Contains(s.only, a.name)
		if (a.run && s.run == nil) || (s.unmoved && other) || left || !wantedArm(i) {
			continue
		}
		start := time.Now()
		bottleArm(t, s, a)
		t.Logf("%s: %.0f s", a.name, time.Since(start).Seconds())
	}
	t.Textf("seed %d", lab.Seed())
}

// wantedArm reports whether an arm is to be counted: all are, unless some were named.
func wantedArm(i int) bool {
	some := false
	for k := range suite.BottleArms {
		some = some || lab.BootParam(fmt.Sprintf("arm%d", k)) != ""
	}
	return !some || lab.BootParam(fmt.Sprintf("arm%d", i)) != ""
}

func bottleArm(t *lab.T, s *scene, a arm) {
	lab.FreshState()
	t.Do(lab.SetBalancing(a.balancing))
	var d *lab.Daemon
	if a.homenode || (a.run && s.managed) {
		d = s.daemon()
		if s.unmoved {
			lab.Warm(a.warm) // its start costs more than what it does all the time, and a cache of 256 KiB notices
		}
	}
	if s.prepare != nil {
		s.prepare(a.cpus)
	}
	clock(t, a.name+" begins")
	lab.Mark(0)
	var ws []*lab.Walker
	if a.run {
		ws = s.run()
	} else {
		ws = s.start(a.cpus)
	}
	clock(t, a.name+" has started")
	if !s.declared {
		t.Record("SCENE %s", s.name)
		t.Declare(ws)
		s.declared = true
	}
	t.Order(ws, "pause", "paused")
	t.Order(ws, "walk 1", "walked 1")
	cold := suite.BottleTag(s.name, a.name, true)
	lab.Mark(cold)
	t.Record("MARK %d 1 %s", cold, a.name)
	clock(t, a.name+" was counted from the first page")
	t.Order(ws, "go", "going")
	if a.running != nil {
		lab.Warm(a.warm)
		a.running(pidsOf(ws))
	}
	if a.homenode && s.unmoved {
		lab.Warm(a.warm) // in which it would move what it would
		for name, home := range t.Homes(ws) {
			t.Logf("%s: the home of %s is %s", a.name, name, home)
		}
	} else if a.homenode {
		for name, home := range t.AwaitHome(lab.SettleLimit, ws) {
			t.Logf("%s: %s is at home on %s", a.name, name, home)
		}
	}
	if d != nil && s.settled != nil {
		s.settled()
	}
	lab.Warm(a.warm)
	clock(t, a.name+" has settled")
	t.Measure(ws, suite.BottleTag(s.name, a.name, false), a.name, bottlePasses)
	clock(t, a.name+" was counted")
	if d != nil {
		t.UndoneAll()
		t.Stop(d)
	}
	s.end(ws)
	t.Do(lab.SetBalancing(false))
}

// clock shows the guest's clock in virtual time, where two guests of one seed have to show the same: the
// first line that differs is where they part.
func clock(t *lab.T, when string) {
	if !t.Shape.Virtual {
		return
	}
	var now syscall.Timespec
	const monotonic = 1 // CLOCK_MONOTONIC, include/uapi/linux/time.h
	syscall.Syscall(syscall.SYS_CLOCK_GETTIME, monotonic, uintptr(unsafe.Pointer(&now)), 0)
	t.Logf("%s at %d ns", when, now.Nano())
}

// whereTurnsAre tells the plugin which CPU is which, where QEMU does not.
func whereTurnsAre(t *lab.T) {
	if !t.Shape.Virtual {
		return
	}
	self := os.Getpid()
	for cpu := range t.Shape.CPUs() {
		for _, tid := range lab.ThreadsOf(self) {
			t.Do(lab.SetAffinity(tid, lab.SetOf(cpu)))
		}
		lab.MarkHere(uint32(cpu))
	}
	for _, tid := range lab.ThreadsOf(self) {
		t.Do(lab.SetAffinity(tid, lab.CPUsOf(lab.SetOf(0, 1))))
	}
}

// bareScene is work in cgroups, without a manager.
func bareScene(t *lab.T, name string, each int, specs []lab.WalkerSpec) *scene {
	random := rand.New(rand.NewPCG(lab.Seed(), 28))
	apart := func() { time.Sleep(time.Duration(random.IntN(300)) * time.Millisecond) }
	s := &scene{name: name, each: each}
	s.start = func(cpus func(i int) lab.Set) []*lab.Walker {
		ws := make([]*lab.Walker, len(specs))
		for n, i := range random.Perm(len(specs)) {
			w := &lab.Walker{WalkerSpec: specs[i]}
			w.Group = t.NewGroup(lab.CgroupRoot, w.Name)
			if cpus != nil {
				t.Write(w.Group.File("cpuset.cpus"), cpus(n).String())
			}
			t.Do(w.Start())
			t.Defer(w.Kill)
			ws[i] = w
			apart()
		}
		for _, w := range ws {
			t.Expect(w, "ready")
		}
		return ws
	}
	s.run = func() []*lab.Walker {
		ws := make([]*lab.Walker, len(specs))
		for _, i := range random.Perm(len(specs)) {
			w := specs[i]
			argv := append([]string{lab.HomenodeBin}, lab.UsualSocket()...)
			argv = append(argv, "run", "--cpus", strconv.Itoa(each), "--memory", fmt.Sprintf("%dMiB", w.MiB+16), "--",
				"/bin/walker")
			argv = append(argv, w.Args()...)
			ws[i] = t.WalkerBehind(w.Name, argv)
			ws[i].WalkerSpec = w
			t.Defer(ws[i].Kill)
			apart()
		}
		return ws
	}
	s.end = func(ws []*lab.Walker) {
		for _, w := range ws {
			w.Kill()
			if w.Group != "" {
				t.Do(os.Remove(string(w.Group)))
			}
		}
	}
	s.daemon = func() *lab.Daemon { return t.StartDaemon(lab.DaemonOptions{Mode: "enforce"}) }
	return s
}

// kubeletRule is the kubelet's static CPU manager (see staticCPUs): the nth program starts on so
// many CPUs of its own; the first two CPUs are the system's. Memory is where it is first touched.
func kubeletRule(cpus, each int) func(n int) lab.Set {
	const system = 2
	return func(n int) lab.Set {
		first := system + n*each
		if first+each > cpus { // more than there is: the shared pool, which is left over
			return lab.SetOf(0, 1)
		}
		var s lab.Set
		for c := range each {
			s |= lab.SetOf(first + c)
		}
		return s
	}
}

func pidsOf(ws []*lab.Walker) (programs [][]int) {
	for _, w := range ws {
		programs = append(programs, []int{w.PID})
	}
	return programs
}

// tasksetRule pins what runs: the first program to the first CPUs, the next to those after them, so
// that all CPUs are given out. Nothing moves its memory.
func tasksetRule(t *lab.T, programs [][]int) {
	all := t.Shape.CPUs()
	for i, pids := range programs {
		var cpus lab.Set
		for c := i * all / len(programs); c < (i+1)*all/len(programs); c++ {
			cpus |= lab.SetOf(c)
		}
		pin(t, pids, cpus)
	}
}

// pin has the threads of processes run on these CPUs.
func pin(t *lab.T, pids []int, cpus lab.Set) {
	for _, pid := range pids {
		for _, tid := range lab.ThreadsOf(pid) {
			t.Do(lab.SetAffinity(tid, cpus))
		}
	}
}

// numadRule is what numad does to programs that it manages (numad.c, pick_numa_nodes and
// bind_and_migrate_process): one after the other it looks what is free, gives it the node with the
// greatest product of free CPUs and memory, what it has there counted as free, binds its threads to
// the node's CPUs and migrates its memory. Its thresholds (300 MB, half a CPU) are not looked at:
// programs are small here, as the machine is.
func numadRule(t *lab.T, programs [][]int) {
	for _, pids := range programs {
		idle := idleCPUs(t, 500*time.Millisecond)
		anon := map[int]int{}
		for _, pid := range pids {
			byNode, err := lab.AnonByNode(pid)
			t.Do(err)
			for node, n := range byNode {
				anon[node] += n
			}
		}
		best, most := 0, -1.0
		for n := range t.Shape.Nodes {
			mib := float64(lab.NodeKiB(n, "MemFree"))/1024 + float64(anon[n])*lab.PageSize/(1<<20)
			if product := idle[n] * mib; product > most {
				best, most = n, product
			}
		}
		pin(t, pids, lab.NodeCPUs(best))
		for _, pid := range pids {
			if _, err := lab.MigratePages(pid, lab.SetOf(0, 1)&^lab.SetOf(best), lab.SetOf(best)); err != nil {
				t.Fatalf("migrate process %d: %v", pid, err)
			}
		}
	}
}

// idleCPUs is how many CPUs of each node are idle during d.
func idleCPUs(t *lab.T, d time.Duration) []float64 {
	before, total := idleTicks(t)
	time.Sleep(d)
	after, totalAfter := idleTicks(t)
	r := make([]float64, t.Shape.Nodes)
	for n := range r {
		for _, c := range lab.NodeCPUs(n).IDs() {
			if all := totalAfter[c] - total[c]; all > 0 {
				r[n] += (after[c] - before[c]) / all
			}
		}
	}
	return r
}

// idleTicks reads /proc/stat: of each CPU the idle time and all of it.
func idleTicks(t *lab.T) (idle, all map[int]float64) {
	idle, all = map[int]float64{}, map[int]float64{}
	for line := range strings.Lines(t.Read("/proc/stat")) {
		var cpu int
		f := strings.Fields(line)
		if n, _ := fmt.Sscanf(line, "cpu%d ", &cpu); n != 1 || len(f) < 9 {
			continue
		}
		for i, field := range f[1:9] {
			ticks, _ := strconv.ParseFloat(field, 64)
			all[cpu] += ticks
			if i == 3 || i == 4 { // idle and iowait
				idle[cpu] += ticks
			}
		}
	}
	return idle, all
}

// bottlePods has ten pods of the real containerd in the place of processes; homenode places them by
// its Node Resource Interface, before their first page. Containers are made before accesses are
// counted, for that takes containerd and runc several times as long; their walkers touch no page
// before they are told to.
func bottlePods(t *lab.T) {
	const each = 1
	c := runtimes.ConnectCRI(t)
	var pods []*runtimes.Pod
	s := &scene{name: "pods", each: each}
	s.prepare = func(cpus func(i int) lab.Set) {
		var specs []runtimes.PodSpec
		for i, w := range tenPods() {
			w.Name, w.Wait = "server", true
			p := runtimes.PodSpec{Name: fmt.Sprintf("p%d", i), QoS: "burstable",
				Containers: []runtimes.ContainerSpec{{WalkerSpec: w, CPUs: each, MemoryMiB: w.MiB + 64}}}
			if cpus != nil {
				p.QoS, p.Containers[0].Cpuset = "guaranteed", cpus(i).String()
			}
			specs = append(specs, p)
		}
		if pods == nil {
			pods = runtimes.Pods(t, c, specs...)
		} else {
			runtimes.Renew(t, c, pods, specs)
		}
	}
	s.start = func(func(i int) lab.Set) []*lab.Walker {
		ws := runtimes.WalkersOf(pods)
		t.Order(ws, "fill", "ready")
		return ws
	}
	s.end = func([]*lab.Walker) {}
	s.daemon = func() *lab.Daemon { return runtimes.UnderRuntime(t, lab.DaemonOptions{Mode: "enforce"}) }
	bottle(t, s)
}

// bottleWide counts a program of six threads, wider than a node of four CPUs and larger than its
// memory, under homenode with kernel balancing for a while (threads.sample), and under the kernel.
func bottleWide(t *lab.T) {
	t.Do(lab.ScanOften())
	t.Record("SCENE wide")
	kernel := func(arm string, balancing bool, ran time.Duration) {
		ws := t.StartWalkers(lab.CgroupRoot, t.Crowd()[:1]...)
		if !balancing {
			t.Declare(ws)
		}
		t.Do(lab.SetBalancing(balancing))
		lab.Warm(ran)
		t.Measure(ws, suite.BottleTag("wide", arm, false), arm, bottlePasses)
		t.Do(lab.SetBalancing(false))
		ws[0].Kill()
		t.Do(os.Remove(string(ws[0].Group)))
	}
	kernel(suite.BottleArms[0], false, 5*time.Second)
	kernel(suite.BottleArms[1], true, balancingTime)
	lab.FreshState()
	ws := t.StartWalkers(lab.CgroupRoot, t.Crowd()[:1]...)
	t.StartDaemon(lab.DaemonOptions{Mode: "enforce", Extra: t.AskForWide(ws) + "threads: {sample: true}\n"})
	homes := t.AwaitHome(lab.SettleLimit, ws)
	awaitSampled(t, lab.SettleLimit)
	t.Record("HOME %d %s", ws[0].Slot, homes[ws[0].Name])
	t.Measure(ws, suite.BottleTag("wide", suite.BottleArms[5], false), suite.BottleArms[5], bottlePasses)
}

// bottleWideStart counts such a program from its start on: each thread fills its part of the memory, and walks
// over it. Under homenode run a daemon keeps each thread on a node of the home as soon as it has seen it.
func bottleWideStart(t *lab.T) {
	t.Do(lab.ScanOften())
	w := t.Crowd()[0]
	w.Place, w.Unbind = "local", false
	s := bareScene(t, "wide-start", w.Threads, []lab.WalkerSpec{w})
	s.only = []string{suite.BottleArms[0], suite.BottleArms[1], suite.BottleArms[5], suite.BottleArms[6]}
	s.managed = true
	s.settled = func() { awaitSampled(t, lab.SettleLimit) }
	asked := fmt.Sprintf("workloads: [{match: %s, cpus: %d}]\n", w.Name, w.Threads)
	s.daemon = func() *lab.Daemon {
		return t.StartDaemon(lab.DaemonOptions{Mode: "enforce", Extra: asked + "threads: {sample: true}\n"})
	}
	bottle(t, s)
}
