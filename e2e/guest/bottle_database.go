//go:build linux

package main

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/homenode/homenode/e2e/suite"
)

func init() { tests["bottle.database"] = bottleDatabase }

// databaseServer is a real program in the bottle.
type databaseServer struct {
	program
	threads int      // that serve
	load    []string // a client that asks for so much, time and again
	workers bool     // it has memory in processes that map more than the first one
	busy    bool     // it has a home for its CPU use, under load alone
}

// databaseCPUs is what each of the two programs asks for.
const databaseCPUs = 2

// bottleDatabase counts a database and the cache before it, PostgreSQL and redis as services of systemd,
// under clients that read. Counted is what lies in the memory of its own that each has mapped, the shared
// buffers of PostgreSQL and the keys of redis, by all of its processes; not the libraries, whose pages all
// programs share. Clients are left to the kernel in all arms.
func bottleDatabase(t *T) {
	t.install()
	postgres := t.postgresServer()
	pgbench := asPostgres(t.postgresBin()+"/pgbench", "-h", "/tmp", "postgres")
	postgres.fill = append(pgbench[:len(pgbench):len(pgbench)], "-i", "-q", "-s", "2")
	redis := redisServer()
	ask := []string{"redis-benchmark", "-s", "/tmp/redis.sock", "-q", "-c", "4", "-d", "500", "-r", "60000"}
	redis.fill = append(ask[:len(ask):len(ask)], "-t", "set", "-n", "60000", "-P", "16")
	t.servers("database", t.services(databaseCPUs), t.armsFor(databaseCPUs), []databaseServer{
		{program: redis, threads: 1, load: append(ask[:len(ask):len(ask)], "-t", "get", "-n", "10000")},
		{program: postgres, threads: 4, load: append(pgbench[:len(pgbench):len(pgbench)], "-n", "-S", "-c", "4", "-j", "1", "-t", "250")},
	})
}

// hosting is what the programs of a scene run as: services of systemd, or pods.
type hosting struct {
	// homenode starts it, and returns what ends it and undoes what it did.
	homenode func() (end func())
	// start starts the programs of an arm and returns, when all serve and are filled, what ends them.
	start func(a arm, servers []databaseServer) (end func())
	first func(name string) int   // the first process of a program
	pids  func(name string) []int // all processes of a program
	// history is what homenode has done.
	history func() string
}

// services runs programs that ask for so many CPUs each as services of systemd.
func (t *T) services(each int) hosting {
	h := hosting{pids: func(unit string) []int { return t.pidsOf(unit) }}
	h.history = func() string { return t.command(installed, "history", "--limit", "0") }
	h.homenode = func() func() {
		t.command("systemctl", "start", "homenode")
		t.answers("0")
		return func() {
			t.command(installed, "undo", "--all")
			t.command("systemctl", "stop", "homenode")
		}
	}
	h.start = func(a arm, servers []databaseServer) func() {
		for i, s := range servers {
			var options, before []string
			if a.cpus != nil {
				options = []string{"-p", "AllowedCPUs=" + a.cpus(i).String()}
			}
			if a.run {
				before = []string{installed, "run", "--name", s.name, "--cpus", strconv.Itoa(each), "--memory", "192MiB", "--"}
			}
			t.startProgram(s.program, options, before...)
			t.awaitProgram(s.program)
		}
		return func() {
			for _, s := range slices.Backward(servers) {
				t.command("systemctl", "stop", s.name)
			}
		}
	}
	h.first = func(name string) int {
		pid, err := strconv.Atoi(t.show(name, "MainPID"))
		t.Do(err)
		return pid
	}
	return h
}

// servers counts programs under each arm.
func (t *T) servers(scene string, h hosting, arms []arm, servers []databaseServer) {
	slots := 0
	random := rand.New(rand.NewPCG(seed(), 27))
	for _, i := range random.Perm(len(arms)) {
		if !wantedArm(i) {
			continue
		}
		start := time.Now()
		t.databaseArm(scene, h, arms[i], servers, slots)
		slots += len(servers)
		t.Logf("%s: %.0f s", arms[i].name, time.Since(start).Seconds())
	}
	t.Textf("seed %d", seed())
}

// databaseArm counts the servers under an arm. The plugin knows them by slots, from slot on.
func (t *T) databaseArm(scene string, h hosting, a arm, servers []databaseServer, slot int) {
	t.Do(setBalancing(a.balancing))
	defer func() { t.Do(setBalancing(false)) }()
	if a.homenode {
		end := h.homenode()
		defer end()
	}
	end := h.start(a, servers)
	defer end()
	t.load(servers)
	if a.running != nil {
		var programs [][]int
		for _, s := range servers {
			programs = append(programs, h.pids(s.name))
		}
		a.running(programs)
	}
	if a.homenode {
		for _, s := range servers {
			t.until(settleLimit, time.Second, s.name+" is at home", func() (bool, string) {
				if s.busy {
					t.load(servers)
				}
				nodes, own, _ := t.whereAll(h.pids(s.name))
				return nodes.size() == 1 && share(own, nodes) >= 0.99, fmt.Sprintf("its threads may use the CPUs of nodes %s, memory %s", nodes, byNodeText(own))
			})
		}
	}
	t.warmUnderLoad(servers, a.warm)
	t.record("SCENE %s", scene)
	for i, s := range servers {
		from, to := t.mappedBy(h, s)
		markFrom(uint32(from >> 21))
		markTo(uint32(to>>21) + 1)
		t.record("WALKER %d %s %d %d 0 local", slot+i, s.name, (to-from)>>20, s.threads)
	}
	tag := suite.BottleTag(scene, a.name, false)
	mark(0)
	t.load(servers)
	mark(tag)
	t.record("MARK %d 1 %s", tag, a.name)
	for _, s := range servers {
		nodes, own, processes := t.whereAll(h.pids(s.name))
		t.Logf("%s: %s, %d processes, may use the CPUs of nodes %s, memory %s", a.name, s.name, processes, nodes, byNodeText(own))
		if a.homenode && share(own, nodes) < 1 {
			t.logAway(s.name, h.pids(s.name), nodes)
			t.logLines("history", h.history(), 60)
		}
	}
}

// logAway shows the mappings of processes that have pages off their home.
func (t *T) logAway(name string, pids []int, home set) {
	for _, pid := range pids {
		maps, err := numaMaps(pid)
		if err != nil {
			continue // it has ended
		}
		for _, m := range maps {
			library := strings.HasPrefix(m.file, "/usr/")
			if library || len(m.nodes) == 0 || share(m.nodes, home) == 1 {
				continue
			}
			program := readText(fmt.Sprintf("/proc/%d/comm", pid))
			what := cmp.Or(m.file, "anonymous")
			t.Logf("%s: process %d %s: %x %s %s", name, pid, program, m.start, what, byNodeText(m.nodes))
		}
	}
}

// load has all clients ask once, side by side.
func (t *T) load(servers []databaseServer) {
	said := make([]result, len(servers))
	var all sync.WaitGroup
	for i, s := range servers {
		all.Go(func() { said[i] = captureFor(5*time.Minute, s.load, s.name) })
	}
	all.Wait()
	for _, r := range said {
		if r.exit != exitOK {
			t.Fatalf("%s", r)
		}
	}
}

// warmUnderLoad has clients ask for a while.
func (t *T) warmUnderLoad(servers []databaseServer, d time.Duration) {
	for end := time.Now().Add(d); time.Now().Before(end); {
		t.load(servers)
	}
}

// workerSpace is what workers map below what they have from the first process, for as long as a request takes.
const workerSpace = 8 << 20

// mappedBy is where the first process of a program has mapped memory, or all of its processes: those are
// copies of the first one, which map more below what they have from it.
func (t *T) mappedBy(h hosting, s databaseServer) (from, to uint64) {
	pids := []int{h.first(s.name)}
	if s.workers {
		pids = h.pids(s.name)
	}
	for _, pid := range pids {
		start, end, err := mappedBy(pid)
		t.Do(err)
		if from == 0 {
			from = start
		}
		from, to = min(from, start), max(to, end)
	}
	if s.workers {
		from -= workerSpace
	}
	return from, to
}

// mappedBy is where a process has the memory of its own that it has mapped: all below its libraries, which are
// mapped first and highest. No other process has anything there, for the kernel begins each at a place
// of its own.
func mappedBy(pid int) (from, to uint64, err error) {
	from, to = ownMappings(readText(fmt.Sprintf("/proc/%d/maps", pid)))
	if from == 0 {
		return 0, 0, fmt.Errorf("process %d has mapped nothing below its libraries", pid)
	}
	return from, to, nil
}

// ownMappings reads maps of proc_pid_maps(5).
func ownMappings(maps string) (from, to uint64) {
	const above = 0x7000_0000_0000 // the heap, and before it the program, are below
	for line := range strings.Lines(maps) {
		var start, end uint64
		if n, _ := fmt.Sscanf(line, "%x-%x", &start, &end); n != 2 || start < above {
			continue
		}
		if strings.Contains(line, " /usr/") || strings.Contains(line, "[stack]") || strings.Contains(line, "[v") {
			break
		}
		if from == 0 {
			from = start
		}
		to = end
	}
	return from, to
}
