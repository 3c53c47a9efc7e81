//go:build linux

package runtimes

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/homenode/homenode/e2e/guest/lab"
)

// Program is one that people run, started as a service by `homenode run`.
type Program struct {
	Name  string
	Argv  []string
	Ready func() bool // it serves
	Fill  []string    // makes it take memory; nil: it does by itself
}

// threadsThatAllocate is a JVM program: 16 threads, each with 4 MB of its own that it
// writes all the time.
const threadsThatAllocate = `(dotimes [_ 16]
  (doto (Thread. (fn [] (let [^longs a (long-array 500000)]
    (loop [n 0] (dotimes [i 500000] (aset a i n)) (Thread/sleep 20) (recur (inc n))))))
    (.setDaemon true) (.start)))
(Thread/sleep 3000) (spit "/tmp/java.ready" "x") (Thread/sleep Long/MAX_VALUE)`

// RedisServer answers at /tmp/redis.sock.
func RedisServer() Program {
	return Program{
		Name: "redis",
		Argv: []string{"/usr/bin/redis-server", "--save", "", "--port", "0", "--unixsocket", "/tmp/redis.sock", "--dir",
			"/tmp", "--enable-debug-command", "yes"},
		Ready: func() bool {
			return lab.Capture([]string{"redis-cli", "-s", "/tmp/redis.sock", "ping"}, "").Exit == lab.ExitOK
		},
		Fill: []string{"redis-cli", "-s", "/tmp/redis.sock", "debug", "populate", "100000", "key", "500"},
	}
}

// AsPostgres is a command line under PostgreSQL's user.
func AsPostgres(argv ...string) []string {
	return append([]string{"/usr/bin/setpriv", "--reuid=106", "--regid=106", "--clear-groups"}, argv...)
}

// PostgresBin is the folder of PostgreSQL's programs.
func PostgresBin(t *lab.T) string {
	bin, _ := filepath.Glob("/usr/lib/postgresql/*/bin")
	if len(bin) != 1 {
		t.Fatalf("PostgreSQL in %q", bin)
	}
	return bin[0]
}

// PostgresServer makes a cluster of PostgreSQL, which answers in /tmp.
func PostgresServer(t *lab.T) Program {
	const data = "/tmp/postgres"
	bin := PostgresBin(t)
	t.Do(os.MkdirAll(data, 0o700))
	t.Do(os.Chown(data, 106, 106))
	initial := AsPostgres(bin+"/initdb", "-D", data, "-A", "trust", "--no-sync", "--no-locale", "-E", "UTF8")
	if r := lab.CaptureFor(5*time.Minute, initial, "initdb"); r.Exit != lab.ExitOK {
		t.Fatalf("%s", r)
	}
	sql := "create table t as select i, repeat('homenode', 20) s from generate_series(1, 100000) i; select count(*), " +
		"max(length(s)) from t"
	psql := func(q string) []string { return AsPostgres(bin+"/psql", "-h", "/tmp", "-d", "postgres", "-Atc", q) }
	return Program{
		Name: "postgres",
		Argv: AsPostgres(bin+"/postgres", "-D", data, "-k", "/tmp", "-c", "listen_addresses=", "-c",
			"shared_buffers=64MB", "-c", "jit=off", "-c", "fsync=off"),
		Ready: func() bool { return lab.Capture(psql("select 1"), "").Exit == lab.ExitOK },
		Fill:  psql(sql),
	}
}

// systemdPrograms: redis, PostgreSQL and a JVM with many threads are at home from the first page on when
// `homenode run` starts them without a daemon; a daemon that comes later has nothing to move.
func systemdPrograms(t *lab.T) {
	lab.FreshState() // the history of other tests is not this one's
	Install(t)
	java, _ := filepath.Glob("/usr/lib/jvm/java-*-openjdk-*/bin/java")
	jars, _ := filepath.Glob("/usr/share/java/*.jar")
	if len(java) == 0 || len(jars) == 0 {
		t.Fatalf("Java %q, %d jars", java, len(jars))
	}
	programs := []Program{
		RedisServer(),
		PostgresServer(t),
		{
			Name: "java",
			Argv: []string{java[0], "-Xms160m", "-Xmx160m", "-XX:+UseParallelGC", "-cp", strings.Join(jars, ":"),
				"clojure.main", "-e", threadsThatAllocate},
			Ready: func() bool { _, err := os.Stat("/tmp/java.ready"); return err == nil },
		},
	}
	homes := map[string]lab.Set{}
	for _, p := range programs {
		StartProgram(t, p, nil, Installed, "run", "--name", p.Name, "--cpus", "2", "--memory", "256MiB", "--")
	}
	for _, p := range programs {
		AwaitProgram(t, p)
		homes[p.Name] = unitAtHome(t, p.Name, 0)
	}

	t.Command("systemctl", "start", "homenode")
	t.Defer(func() { lab.Capture([]string{"systemctl", "stop", "homenode"}, "") })
	lab.Warm(30 * time.Second)
	for _, p := range programs {
		unitAtHome(t, p.Name, homes[p.Name])
	}
	for _, e := range t.Events(t.Command(Installed, "history", "--json", "--limit", "0")) {
		if e.Code == "move-begins" {
			t.Fatalf("the daemon moved %s: %s", e.Workload, e.Code)
		}
	}
}

// StartProgram starts a service, with further options of systemd-run and with words before its command line.
func StartProgram(t *lab.T, p Program, options []string, before ...string) {
	t.Command(slices.Concat([]string{"systemd-run", "-q", "--unit=" + p.Name}, options, before, p.Argv)...)
	t.Defer(func() { lab.Capture([]string{"systemctl", "stop", p.Name}, "") })
	t.OnFailure(func() {
		t.LogLines(p.Name, lab.Capture([]string{"journalctl", "-u", p.Name, "--no-pager", "-o", "cat"}, "").Out, 10)
	})
}

// AwaitProgram waits until a service serves, and fills it.
func AwaitProgram(t *lab.T, p Program) {
	t.Poll(5*time.Minute, time.Second, p.Name+" is ready", func() (bool, string) {
		state := Show(t, p.Name, "ActiveState")
		if state == "failed" {
			t.Fatalf("%s has failed", p.Name)
		}
		return p.Ready(), "it is " + state
	})
	FillProgram(t, p)
}

// FillProgram makes a program take its memory.
func FillProgram(t *lab.T, p Program) {
	if p.Fill != nil {
		if r := lab.CaptureFor(5*time.Minute, p.Fill, p.Name); r.Exit != lab.ExitOK {
			t.Fatalf("%s", r)
		}
	}
}

// PIDsOf are the processes of a service.
func PIDsOf(t *lab.T, unit string) []int {
	return t.PIDsIn(lab.Group(lab.CgroupRoot + Show(t, unit, "ControlGroup")))
}

// whereUnit is where all processes of a service are.
func whereUnit(t *lab.T, unit string) (nodes lab.Set, own map[int]int, processes int) {
	return WhereAll(t, PIDsOf(t, unit))
}

// WhereAll is where processes are: the nodes whose CPUs their threads may use, and the pages that are
// theirs, by node. It counts the processes that are still there.
func WhereAll(t *lab.T, pids []int) (nodes lab.Set, own map[int]int, processes int) {
	own = map[int]int{}
	for _, pid := range pids {
		byNode, err := lab.OwnByNode(pid)
		if err != nil {
			continue // it has ended
		}
		processes++
		for node, n := range byNode {
			own[node] += n
		}
		for _, may := range lab.Allowed(pid) {
			nodes |= t.NodesOf(may)
		}
	}
	return nodes, own, processes
}

// unitAtHome looks at all processes of a service: their threads may use the CPUs of one node,
// home unless that is 0, and 99 % of what is theirs lies there.
func unitAtHome(t *lab.T, unit string, home lab.Set) lab.Set {
	nodes, own, processes := whereUnit(t, unit)
	if home == 0 {
		home = nodes
	}
	if nodes != home || home.Size() != 1 || lab.Share(own, home) < 0.99 {
		t.Fatalf("%s: home %s, its threads may use the CPUs of nodes %s, memory %s",
			unit, home, nodes, lab.ByNodeText(own))
	}
	pages := 0
	for _, n := range own {
		pages += n
	}
	t.Row("Programs under homenode run", unit, fmt.Sprint(processes), fmt.Sprintf("%d MiB", pages*4/1024),
		home.String(), fmt.Sprintf("%.2f %%", lab.Share(own, home)*100))
	return home
}

// systemdScope: `homenode run --scope` becomes the command in a scope of systemd that has the CPUs of
// its home, holds what it starts, accounts their memory and goes with them.
func systemdScope(t *lab.T) {
	Install(t)
	c := exec.Command(Installed, "run", "--quiet", "--scope", "--unit", "job", "--cpus", "2", "--memory", "64MiB", "--",
		"/bin/sh", "-c",
		"/bin/sleep infinity | /e2e/walker --burst 2048 --sleep 3ms --slot 2 --mib 32 --threads 1 --place local")
	t.Do(c.Start())
	t.Defer(func() { lab.Capture([]string{"systemctl", "stop", "job.scope"}, ""); c.Wait() })
	const scope = "/system.slice/job.scope"
	t.Poll(lab.SystemdLimit, time.Second, "the walker holds its memory", func() (bool, string) {
		n, _ := strconv.Atoi(lab.ReadText(lab.CgroupRoot + scope + "/memory.current"))
		return n >= 32<<20, fmt.Sprintf("%s has %d bytes", scope, n)
	})
	if procs := strings.Fields(lab.ReadText(lab.CgroupRoot + scope + "/cgroup.procs")); len(procs) != 3 ||
		!slices.Contains(procs, strconv.Itoa(c.Process.Pid)) {
		t.Fatalf("in %s are %q; want %d and its two children", scope, procs, c.Process.Pid)
	}
	cpus := Show(t, "job.scope", "AllowedCPUs")
	if !oneNode(cpus) || lab.ReadText(lab.CgroupRoot+scope+"/cpuset.cpus") != cpus {
		t.Fatalf("AllowedCPUs is %q, cpuset.cpus %q", cpus, lab.ReadText(lab.CgroupRoot+scope+"/cpuset.cpus"))
	}
	home := unitAtHome(t, "job.scope", 0)
	t.Must(lab.Capture([]string{Installed, "run", "--scope", "--class", "dedicated", "--", "true"},
		"run --scope --class dedicated"), lab.ExitUsage)
	t.Must(lab.Capture([]string{Installed, "run", "--scope", "--unit", "job", "--", "true"},
		"run --scope with the name of another"), lab.ExitForbidden)

	// Undo takes the restrictions of the scope away, and then gives the process its CPUs back.
	allowed := func(pid int) string {
		for _, may := range lab.Allowed(pid) {
			return fmt.Sprint(may)
		}
		return ""
	}
	want := allowed(os.Getpid())
	if out := t.Must(lab.Capture([]string{Installed, "undo", "job.scope"}, "undo job.scope"),
		lab.ExitOK).Out; !strings.Contains(out, "AllowedCPUs job.scope: "+strings.ReplaceAll(cpus, " ", ",")) {
		t.Fatalf("undo says %q", out)
	}
	if now, file := Show(t, "job.scope", "AllowedCPUs"), lab.ReadText(lab.CgroupRoot+scope+"/cpuset.cpus"); now != "" ||
		file != "" {
		t.Fatalf("after undo AllowedCPUs is %q, cpuset.cpus %q", now, file)
	}
	if now := allowed(c.Process.Pid); now != want {
		t.Fatalf("after undo %d may use CPUs %s, others %s", c.Process.Pid, now, want)
	}
	bound := exec.Command(Installed, "run", "--quiet", "--scope", "--unit", "bound", "--cpus", "1", "--membind", "1",
		"--", "/bin/sleep", "infinity")
	t.Do(bound.Start())
	t.Defer(func() { lab.Capture([]string{"systemctl", "stop", "bound.scope"}, ""); bound.Wait() })
	t.Poll(lab.SystemdLimit, time.Second, "the other scope is there", func() (bool, string) {
		s := Show(t, "bound.scope", "AllowedMemoryNodes")
		return s == "1", s
	})
	t.Must(lab.Capture([]string{Installed, "undo", strconv.Itoa(bound.Process.Pid)}, "undo by PID"), lab.ExitOK)
	if now := Show(t, "bound.scope", "AllowedCPUs") + Show(t, "bound.scope", "AllowedMemoryNodes"); now != "" {
		t.Fatalf("after undo AllowedCPUs and AllowedMemoryNodes are %q", now)
	}
	t.Command("systemctl", "stop", "job.scope")
	t.Poll(lab.SystemdLimit, time.Second, "the scope goes with its processes", func() (bool, string) {
		s := Show(t, "job.scope", "LoadState")
		return s == "not-found", s
	})
	t.Textf("node %s, AllowedCPUs %s", home, cpus)
}
