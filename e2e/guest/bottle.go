//go:build linux

package main

import (
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"
	"unsafe"

	"github.com/homenode/homenode/e2e/suite"
)

func init() {
	tests["bottle.ten"] = func(t *T) { t.bottle(t.bareScene("ten", 1, tenPods())) }
	tests["bottle.six-guests"] = func(t *T) { t.bottle(t.bareScene("six-guests", 2, guestsOf(6))) }
	tests["bottle.eight-guests"] = func(t *T) { t.bottle(t.bareScene("eight-guests", 2, guestsOf(8))) }
	tests["bottle.two"] = func(t *T) { t.bottle(t.bareScene("two", 1, twoServers())) }
	tests["bottle.idle"] = func(t *T) { t.bottle(t.idle("idle")) }
	tests["bottle.idle-local"] = func(t *T) { t.bottle(t.startedLocal(t.idle("idle-local"))) }
	tests["bottle.full"] = func(t *T) { t.bottle(t.nothingToGain("full", fullMachine())) }
	tests["bottle.interleaved"] = func(t *T) { t.bottle(t.nothingToGain("interleaved", interleaved())) }
	tests["bottle.pods"] = bottlePods
	tests["bottle.wide"] = bottleWide
}

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
	prepare func(cpus func(i int) set)
	// start starts all of it, each with CPUs of its own where cpus is not nil.
	start func(cpus func(i int) set) []*walker
	end   func([]*walker)
	// daemon starts homenode.
	daemon func() *daemon
	// run starts all of it by homenode run; nil where nothing is started so.
	run func() []*walker
	// declared is whether the host knows the walkers.
	declared bool
	// unmoved: there is no better place for it, so it is left to the kernel and to homenode, and nothing has
	// to come home.
	unmoved bool
}

// arm is what the work of a scene is left to.
type arm struct {
	name      string
	balancing bool            // the kernel's
	cpus      func(i int) set // each starts on these
	running   func([][]int)   // done to it as it runs: to the processes of each program
	warm      time.Duration   // until it is measured
	homenode  bool            // with a daemon in enforce mode
	run       bool            // started by homenode run
}

// tenPods are ten servers: a CPU's worth of work each, a heap that one crew of threads fills and
// all of them use, and a small part of it that they use much.
func tenPods() []walkerSpec {
	var r []walkerSpec
	for i := range 10 {
		r = append(r, walkerSpec{name: fmt.Sprintf("pod%d", i), slot: i, mib: 32, threads: 2, place: "local", whole: true, hot: 1, sleep: bottleRest})
	}
	return r
}

// guestsOf are processes as QEMU's are: a thread for each of two vCPUs, and the memory of a guest. Six
// of them have as many vCPUs as the machine has CPUs, eight have more.
func guestsOf(n int) []walkerSpec {
	var r []walkerSpec
	for i := range n {
		r = append(r, walkerSpec{name: fmt.Sprintf("guest%d", i), slot: i, mib: 48, threads: 2, place: "local", whole: true, hot: 1, sleep: bottleRest})
	}
	return r
}

// twoServers are for a guest of four CPUs in virtual time.
func twoServers() []walkerSpec {
	var r []walkerSpec
	for i := range 2 {
		r = append(r, walkerSpec{name: fmt.Sprintf("server%d", i), slot: i, mib: 16, threads: 2, place: "local", whole: true, hot: 1, sleep: bottleRest})
	}
	return r
}

// idleMiB is the memory of the program on an idle host. It visits 4 of 64 lines of each page: 30 MiB in
// all, nine tenths of a cache of 33 MiB. What a scan takes of the cache is missing then.
const idleMiB = 480

// idleHost is one program of one thread on an idle machine.
func idleHost() []walkerSpec {
	return []walkerSpec{{name: "server0", slot: 0, mib: idleMiB, threads: 1, place: "local", whole: true, hot: 1, sleep: bottleRest}}
}

// fullMachine is a program with a thread for each CPU of the machine and more memory than a node has.
func fullMachine() []walkerSpec {
	return []walkerSpec{{name: "server0", slot: 0, mib: 384, threads: 4, place: "local", whole: true, sleep: "4ms"}}
}

// interleaved is a program as large, whose memory is interleaved on purpose: it keeps that policy.
func interleaved() []walkerSpec {
	return []walkerSpec{{name: "server0", slot: 0, mib: 384, threads: 4, place: "interleave", whole: true, sleep: "4ms"}}
}

// arms lists what is compared, in the order of suite.BottleArms.
func (t *T) arms(s *scene) []arm { return t.armsFor(s.each) }

// armsFor lists it for programs that ask for so many CPUs each.
func (t *T) armsFor(each int) []arm {
	settle := 5 * time.Second
	return []arm{
		{name: suite.BottleArms[0], warm: 2 * settle},
		{name: suite.BottleArms[1], warm: balancingTime, balancing: true},
		{name: suite.BottleArms[2], warm: settle, running: func(programs [][]int) { t.numadRule(programs) }},
		{name: suite.BottleArms[3], warm: settle, running: func(programs [][]int) { t.tasksetRule(programs) }},
		{name: suite.BottleArms[4], warm: settle, cpus: kubeletRule(t.shape.CPUs(), each)},
		{name: suite.BottleArms[5], warm: settle, homenode: true},
		{name: suite.BottleArms[6], warm: settle, run: true},
	}
}

// nothingToGain is a scene in which there is nothing to gain.
func (t *T) nothingToGain(name string, specs []walkerSpec) *scene {
	s := t.bareScene(name, specs[0].threads, specs)
	s.unmoved, s.run = true, nil
	return s
}

// idle is such a scene on an idle host, with as much time between two scans as the product has.
func (t *T) idle(name string) *scene {
	s := t.nothingToGain(name, idleHost())
	s.daemon = func() *daemon { return t.startDaemon(daemonOptions{mode: "enforce", period: productPeriod}) }
	return s
}

// productPeriod is the time between two scans where no configuration names another (config.New): what
// a scan costs depends on it.
const productPeriod = "2s"

// startedLocal starts programs on node 0 and lets them run anywhere once they have filled their memory, so that thread and
// memory are on one node in every arm.
func (t *T) startedLocal(s *scene) *scene {
	start := s.start
	s.start = func(func(int) set) []*walker {
		ws := start(func(int) set { return nodeCPUs(0) })
		for _, w := range ws {
			t.write(w.group.file("cpuset.cpus"), "\n")
		}
		return ws
	}
	return s
}

// bottle counts a scene under each arm: from the first page on, and when it has settled.
func (t *T) bottle(s *scene) {
	t.whereTurnsAre()
	random := rand.New(rand.NewPCG(seed(), 27))
	arms := t.arms(s)
	for _, i := range random.Perm(len(arms)) {
		a := arms[i]
		other := !a.homenode && i > 0
		if a.run && s.run == nil || s.unmoved && other || !wantedArm(i) {
			continue
		}
		start := time.Now()
		t.bottleArm(s, a)
		t.Logf("%s: %.0f s", a.name, time.Since(start).Seconds())
	}
	t.Textf("seed %d", seed())
}

// wantedArm reports whether an arm is to be counted: all are, unless some were named.
func wantedArm(i int) bool {
	some := false
	for k := range suite.BottleArms {
		some = some || bootParam(fmt.Sprintf("arm%d", k)) != ""
	}
	return !some || bootParam(fmt.Sprintf("arm%d", i)) != ""
}

func (t *T) bottleArm(s *scene, a arm) {
	freshState()
	t.Do(setBalancing(a.balancing))
	var d *daemon
	if a.homenode {
		d = s.daemon()
		if s.unmoved {
			warm(a.warm) // its start costs more than what it does all the time, and a cache of 256 KiB notices
		}
	}
	if s.prepare != nil {
		s.prepare(a.cpus)
	}
	t.clock(a.name + " begins")
	mark(0)
	var ws []*walker
	if a.run {
		ws = s.run()
	} else {
		ws = s.start(a.cpus)
	}
	t.clock(a.name + " has started")
	if !s.declared {
		t.record("SCENE %s", s.name)
		t.declare(ws)
		s.declared = true
	}
	t.order(ws, "pause", "paused")
	t.order(ws, "walk 1", "walked 1")
	cold := suite.BottleTag(s.name, a.name, true)
	mark(cold)
	t.record("MARK %d 1 %s", cold, a.name)
	t.clock(a.name + " was counted from the first page")
	t.order(ws, "go", "going")
	if a.running != nil {
		warm(a.warm)
		a.running(pidsOf(ws))
	}
	if a.homenode && s.unmoved {
		warm(a.warm) // in which it would move what it would
		for name, home := range t.homes(ws) {
			t.Logf("%s: the home of %s is %s", a.name, name, home)
		}
	} else if a.homenode {
		for name, home := range t.awaitHome(settleLimit, ws) {
			t.Logf("%s: %s is at home on %s", a.name, name, home)
		}
	}
	warm(a.warm)
	t.clock(a.name + " has settled")
	t.measure(ws, suite.BottleTag(s.name, a.name, false), a.name, bottlePasses)
	t.clock(a.name + " was counted")
	if d != nil {
		t.undoneAll()
		t.stop(d)
	}
	s.end(ws)
	t.Do(setBalancing(false))
}

// clock shows the guest's clock in virtual time, where two guests of one seed have to show the same: the
// first line that differs is where they part.
func (t *T) clock(when string) {
	if !t.shape.Virtual {
		return
	}
	var now syscall.Timespec
	const monotonic = 1 // CLOCK_MONOTONIC, include/uapi/linux/time.h
	syscall.Syscall(syscall.SYS_CLOCK_GETTIME, monotonic, uintptr(unsafe.Pointer(&now)), 0)
	t.Logf("%s at %d ns", when, now.Nano())
}

// whereTurnsAre tells the plugin which CPU is which, where QEMU does not.
func (t *T) whereTurnsAre() {
	if !t.shape.Virtual {
		return
	}
	self := os.Getpid()
	for cpu := range t.shape.CPUs() {
		for _, tid := range threadsOf(self) {
			t.Do(setAffinity(tid, setOf(cpu)))
		}
		markHere(uint32(cpu))
	}
	for _, tid := range threadsOf(self) {
		t.Do(setAffinity(tid, cpusOf(setOf(0, 1))))
	}
}

// bareScene is work in cgroups, without a manager.
func (t *T) bareScene(name string, each int, specs []walkerSpec) *scene {
	random := rand.New(rand.NewPCG(seed(), 28))
	apart := func() { time.Sleep(time.Duration(random.IntN(300)) * time.Millisecond) }
	s := &scene{name: name, each: each}
	s.start = func(cpus func(i int) set) []*walker {
		ws := make([]*walker, len(specs))
		for n, i := range random.Perm(len(specs)) {
			w := &walker{walkerSpec: specs[i]}
			w.group = t.newGroup(cgroupRoot, w.name)
			if cpus != nil {
				t.write(w.group.file("cpuset.cpus"), cpus(n).String())
			}
			t.Do(w.start())
			t.Defer(w.kill)
			ws[i] = w
			apart()
		}
		for _, w := range ws {
			t.expect(w, "ready")
		}
		return ws
	}
	s.run = func() []*walker {
		ws := make([]*walker, len(specs))
		for _, i := range random.Perm(len(specs)) {
			w := specs[i]
			argv := append([]string{homenodeBin, "run", "--cpus", strconv.Itoa(each), "--memory", fmt.Sprintf("%dMiB", w.mib+16), "--", "/bin/walker"}, w.args()...)
			ws[i] = t.walkerBehind(w.name, argv)
			ws[i].walkerSpec = w
			t.Defer(ws[i].kill)
			apart()
		}
		return ws
	}
	s.end = func(ws []*walker) {
		for _, w := range ws {
			w.kill()
			if w.group != "" {
				t.Do(os.Remove(string(w.group)))
			}
		}
	}
	s.daemon = func() *daemon { return t.startDaemon(daemonOptions{mode: "enforce"}) }
	return s
}

// kubeletRule is the kubelet's static CPU manager (see staticCPUs): the nth program starts on so
// many CPUs of its own; the first two CPUs are the system's. Memory is where it is first touched.
func kubeletRule(cpus, each int) func(n int) set {
	const system = 2
	return func(n int) set {
		first := system + n*each
		if first+each > cpus { // more than there is: the shared pool, which is left over
			return setOf(0, 1)
		}
		var s set
		for c := range each {
			s |= setOf(first + c)
		}
		return s
	}
}

func pidsOf(ws []*walker) (programs [][]int) {
	for _, w := range ws {
		programs = append(programs, []int{w.pid})
	}
	return programs
}

// tasksetRule pins what runs: the first program to the first CPUs, the next to those after them, so
// that all CPUs are given out. Nothing moves its memory.
func (t *T) tasksetRule(programs [][]int) {
	all := t.shape.CPUs()
	for i, pids := range programs {
		var cpus set
		for c := i * all / len(programs); c < (i+1)*all/len(programs); c++ {
			cpus |= setOf(c)
		}
		t.pin(pids, cpus)
	}
}

// pin has the threads of processes run on these CPUs.
func (t *T) pin(pids []int, cpus set) {
	for _, pid := range pids {
		for _, tid := range threadsOf(pid) {
			t.Do(setAffinity(tid, cpus))
		}
	}
}

// numadRule is what numad does to programs that it manages (numad.c, pick_numa_nodes and
// bind_and_migrate_process): one after the other it looks what is free, gives it the node with the
// greatest product of free CPUs and memory, what it has there counted as free, binds its threads to
// the node's CPUs and migrates its memory. Its thresholds (300 MB, half a CPU) are not looked at:
// programs are small here, as the machine is.
func (t *T) numadRule(programs [][]int) {
	for _, pids := range programs {
		idle := t.idleCPUs(500 * time.Millisecond)
		anon := map[int]int{}
		for _, pid := range pids {
			byNode, err := anonByNode(pid)
			t.Do(err)
			for node, n := range byNode {
				anon[node] += n
			}
		}
		best, most := 0, -1.0
		for n := range t.shape.Nodes {
			mib := float64(nodeKiB(n, "MemFree"))/1024 + float64(anon[n])*pageSize/(1<<20)
			if product := idle[n] * mib; product > most {
				best, most = n, product
			}
		}
		t.pin(pids, nodeCPUs(best))
		for _, pid := range pids {
			if _, err := migratePages(pid, setOf(0, 1)&^setOf(best), setOf(best)); err != nil {
				t.Fatalf("migrate process %d: %v", pid, err)
			}
		}
	}
}

// idleCPUs is how many CPUs of each node are idle during d.
func (t *T) idleCPUs(d time.Duration) []float64 {
	before, total := t.idleTicks()
	time.Sleep(d)
	after, totalAfter := t.idleTicks()
	r := make([]float64, t.shape.Nodes)
	for n := range r {
		for _, c := range nodeCPUs(n).ids() {
			if all := totalAfter[c] - total[c]; all > 0 {
				r[n] += (after[c] - before[c]) / all
			}
		}
	}
	return r
}

// idleTicks reads /proc/stat: of each CPU the idle time and all of it.
func (t *T) idleTicks() (idle, all map[int]float64) {
	idle, all = map[int]float64{}, map[int]float64{}
	for line := range strings.Lines(t.read("/proc/stat")) {
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
func bottlePods(t *T) {
	const each = 1
	c := t.cri()
	var pods []*pod
	s := &scene{name: "pods", each: each}
	s.prepare = func(cpus func(i int) set) {
		var specs []podSpec
		for i, w := range tenPods() {
			w.name, w.wait = "server", true
			p := podSpec{name: fmt.Sprintf("p%d", i), qos: "burstable", containers: []containerSpec{{walkerSpec: w, cpus: each, memoryMiB: w.mib + 64}}}
			if cpus != nil {
				p.qos, p.containers[0].cpuset = "guaranteed", cpus(i).String()
			}
			specs = append(specs, p)
		}
		if pods == nil {
			pods = t.pods(c, specs...)
		} else {
			t.renew(c, pods, specs)
		}
	}
	s.start = func(func(i int) set) []*walker {
		ws := walkersOf(pods)
		t.order(ws, "fill", "ready")
		return ws
	}
	s.end = func([]*walker) {}
	s.daemon = func() *daemon { return t.underRuntime(daemonOptions{mode: "enforce"}) }
	t.bottle(s)
}

// bottleWide counts a program of six threads, wider than a node of four CPUs and larger than its
// memory, under homenode with kernel balancing for a while (threads.sample), and under the kernel.
func bottleWide(t *T) {
	t.Do(scanOften())
	t.record("SCENE wide")
	kernel := func(arm string, balancing bool, ran time.Duration) {
		ws := t.startWalkers(cgroupRoot, t.crowd()[:1]...)
		if !balancing {
			t.declare(ws)
		}
		t.Do(setBalancing(balancing))
		warm(ran)
		t.measure(ws, suite.BottleTag("wide", arm, false), arm, bottlePasses)
		t.Do(setBalancing(false))
		ws[0].kill()
		t.Do(os.Remove(string(ws[0].group)))
	}
	kernel(suite.BottleArms[0], false, 5*time.Second)
	kernel(suite.BottleArms[1], true, balancingTime)
	freshState()
	ws := t.startWalkers(cgroupRoot, t.crowd()[:1]...)
	t.startDaemon(daemonOptions{mode: "enforce", extra: t.askForWide(ws) + "threads: {sample: true}\n"})
	homes := t.awaitHome(settleLimit, ws)
	t.awaitSampled(settleLimit)
	t.record("HOME %d %s", ws[0].slot, homes[ws[0].name])
	t.measure(ws, suite.BottleTag("wide", suite.BottleArms[5], false), suite.BottleArms[5], bottlePasses)
}
