//go:build linux

package count

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/homenode/homenode/e2e/guest/lab"
	"github.com/homenode/homenode/e2e/guest/runtimes"
	"github.com/homenode/homenode/e2e/suite"
)

// databaseServer is a real program in the bottle.
type databaseServer struct {
	runtimes.Program
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
func bottleDatabase(t *lab.T) {
	runtimes.Install(t)
	postgres := runtimes.PostgresServer(t)
	pgbench := runtimes.AsPostgres(runtimes.PostgresBin(t)+"/pgbench", "-h", "/tmp", "postgres")
	postgres.Fill = append(pgbench[:len(pgbench):len(pgbench)], "-i", "-q", "-s", "2")
	redis := runtimes.RedisServer()
	ask := []string{"redis-benchmark", "-s", "/tmp/redis.sock", "-q", "-c", "4", "-d", "500", "-r", "60000"}
	redis.Fill = append(ask[:len(ask):len(ask)], "-t", "set", "-n", "60000", "-P", "16")
	runServers(t, "database", services(t, databaseCPUs), armsFor(t, databaseCPUs), []databaseServer{
		{Program: redis, threads: 1, load: append(ask[:len(ask):len(ask)], "-t", "get", "-n", "10000")},
		{Program: postgres, threads: 4, load: append(pgbench[:len(pgbench):len(pgbench)], "-n", "-S", "-c", "4", "-j",
			"1", "-t", "250")},
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
func services(t *lab.T, each int) hosting {
	h := hosting{pids: func(unit string) []int { return runtimes.PIDsOf(t, unit) }}
	h.history = func() string { return t.Command(runtimes.Installed, "history", "--limit", "0") }
	h.homenode = func() func() {
		t.Command("systemctl", "start", "homenode")
		runtimes.Answers(t, "0")
		return func() {
			t.Command(runtimes.Installed, "undo", "--all")
			t.Command("systemctl", "stop", "homenode")
		}
	}
	h.start = func(a arm, servers []databaseServer) func() {
		for i, s := range servers {
			var options, before []string
			if a.cpus != nil {
				options = []string{"-p", "AllowedCPUs=" + a.cpus(i).String()}
			}
			if a.run {
				before = []string{runtimes.Installed, "run", "--name", s.Name, "--cpus", strconv.Itoa(each), "--memory",
					"192MiB", "--"}
			}
			runtimes.StartProgram(t, s.Program, options, before...)
			runtimes.AwaitProgram(t, s.Program)
		}
		return func() {
			for _, s := range slices.Backward(servers) {
				t.Command("systemctl", "stop", s.Name)
			}
		}
	}
	h.first = func(name string) int {
		pid, err := strconv.Atoi(runtimes.Show(t, name, "MainPID"))
		t.Do(err)
		return pid
	}
	return h
}

// runServers counts programs under each arm.
func runServers(t *lab.T, scene string, h hosting, arms []arm, servers []databaseServer) {
	slots := 0
	random := rand.New(rand.NewPCG(lab.Seed(), 27))
	for _, i := range random.Perm(len(arms)) {
		if !wantedArm(i) {
			continue
		}
		start := time.Now()
		databaseArm(t, scene, h, arms[i], servers, slots)
		slots += len(servers)
		t.Logf("%s: %.0f s", arms[i].name, time.Since(start).Seconds())
	}
	t.Textf("seed %d", lab.Seed())
}

// databaseArm counts the servers under an arm. The plugin knows them by slots, from slot on.
func databaseArm(t *lab.T, scene string, h hosting, a arm, servers []databaseServer, slot int) {
	t.Do(lab.SetBalancing(a.balancing))
	defer func() { t.Do(lab.SetBalancing(false)) }()
	if a.homenode {
		end := h.homenode()
		defer end()
	}
	end := h.start(a, servers)
	defer end()
	load(t, servers)
	if a.running != nil {
		var programs [][]int
		for _, s := range servers {
			programs = append(programs, h.pids(s.Name))
		}
		a.running(programs)
	}
	if a.homenode {
		for _, s := range servers {
			t.Poll(lab.SettleLimit, time.Second, s.Name+" is at home", func() (bool, string) {
				if s.busy {
					load(t, servers)
				}
				nodes, own, _ := runtimes.WhereAll(t, h.pids(s.Name))
				return nodes.Size() == 1 && lab.Share(own, nodes) >= 0.99,
					fmt.Sprintf("its threads may use the CPUs of nodes %s, memory %s", nodes, lab.ByNodeText(own))
			})
		}
	}
	warmUnderLoad(t, servers, a.warm)
	t.Record("SCENE %s", scene)
	for i, s := range servers {
		from, to := memoryOf(t, h, s)
		lab.MarkFrom(uint32(from >> 21))
		lab.MarkTo(uint32(to>>21) + 1)
		t.Record("WALKER %d %s %d %d 0 local", slot+i, s.Name, (to-from)>>20, s.threads)
	}
	tag := suite.BottleTag(scene, a.name, false)
	lab.Mark(0)
	load(t, servers)
	lab.Mark(tag)
	t.Record("MARK %d 1 %s", tag, a.name)
	for _, s := range servers {
		nodes, own, processes := runtimes.WhereAll(t, h.pids(s.Name))
		t.Logf("%s: %s, %d processes, may use the CPUs of nodes %s, memory %s", a.name, s.Name, processes, nodes,
			lab.ByNodeText(own))
		if a.homenode && lab.Share(own, nodes) < 1 {
			logAway(t, s.Name, h.pids(s.Name), nodes)
			t.LogLines("history", h.history(), 60)
		}
	}
}

// logAway shows the mappings of processes that have pages off their home.
func logAway(t *lab.T, name string, pids []int, home lab.Set) {
	for _, pid := range pids {
		maps, err := lab.NumaMaps(pid)
		if err != nil {
			continue // it has ended
		}
		for _, m := range maps {
			library := strings.HasPrefix(m.File, "/usr/")
			if library || len(m.Nodes) == 0 || lab.Share(m.Nodes, home) == 1 {
				continue
			}
			program := lab.ReadText(fmt.Sprintf("/proc/%d/comm", pid))
			what := cmp.Or(m.File, "anonymous")
			t.Logf("%s: process %d %s: %x %s %s", name, pid, program, m.Start, what, lab.ByNodeText(m.Nodes))
		}
	}
}

// load has all clients ask once, side by side.
func load(t *lab.T, servers []databaseServer) {
	said := make([]lab.Result, len(servers))
	var all sync.WaitGroup
	for i, s := range servers {
		all.Go(func() { said[i] = lab.CaptureFor(5*time.Minute, s.load, s.Name) })
	}
	all.Wait()
	for _, r := range said {
		if r.Exit != lab.ExitOK {
			t.Fatalf("%s", r)
		}
	}
}

// warmUnderLoad has clients ask for a while.
func warmUnderLoad(t *lab.T, servers []databaseServer, d time.Duration) {
	for end := time.Now().Add(d); time.Now().Before(end); {
		load(t, servers)
	}
}

// workerSpace is what workers map below what they have from the first process, for as long as a request takes.
const workerSpace = 8 << 20

// memoryOf is where the first process of a program has mapped memory, or all of its processes: those are
// copies of the first one, which map more below what they have from it.
func memoryOf(t *lab.T, h hosting, s databaseServer) (from, to uint64) {
	pids := []int{h.first(s.Name)}
	if s.workers {
		pids = h.pids(s.Name)
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
	from, to = ownMappings(lab.ReadText(fmt.Sprintf("/proc/%d/maps", pid)))
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
