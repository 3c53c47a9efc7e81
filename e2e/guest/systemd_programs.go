//go:build linux

package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

// program is one that people run, started as a service by `homenode run`.
type program struct {
	name  string
	argv  []string
	ready func() bool // it serves
	fill  []string    // makes it take memory; nil: it does by itself
}

// threadsThatAllocate is a JVM program: 16 threads, each with 4 MB of its own that it
// writes all the time.
const threadsThatAllocate = `(dotimes [_ 16]
  (doto (Thread. (fn [] (let [^longs a (long-array 500000)]
    (loop [n 0] (dotimes [i 500000] (aset a i n)) (Thread/sleep 20) (recur (inc n))))))
    (.setDaemon true) (.start)))
(Thread/sleep 3000) (spit "/tmp/java.ready" "x") (Thread/sleep Long/MAX_VALUE)`

// redisServer answers at /tmp/redis.sock.
func redisServer() program {
	return program{
		name:  "redis",
		argv:  []string{"/usr/bin/redis-server", "--save", "", "--port", "0", "--unixsocket", "/tmp/redis.sock", "--dir", "/tmp", "--enable-debug-command", "yes"},
		ready: func() bool { return capture([]string{"redis-cli", "-s", "/tmp/redis.sock", "ping"}, "").exit == exitOK },
		fill:  []string{"redis-cli", "-s", "/tmp/redis.sock", "debug", "populate", "100000", "key", "500"},
	}
}

// asPostgres is a command line under PostgreSQL's user.
func asPostgres(argv ...string) []string {
	return append([]string{"/usr/bin/setpriv", "--reuid=106", "--regid=106", "--clear-groups"}, argv...)
}

// postgresBin is the folder of PostgreSQL's programs.
func (t *T) postgresBin() string {
	bin, _ := filepath.Glob("/usr/lib/postgresql/*/bin")
	if len(bin) != 1 {
		t.Fatalf("PostgreSQL in %q", bin)
	}
	return bin[0]
}

// postgresServer makes a cluster of PostgreSQL, which answers in /tmp.
func (t *T) postgresServer() program {
	const data = "/tmp/postgres"
	bin := t.postgresBin()
	t.Do(os.MkdirAll(data, 0o700))
	t.Do(os.Chown(data, 106, 106))
	initial := asPostgres(bin+"/initdb", "-D", data, "-A", "trust", "--no-sync", "--no-locale", "-E", "UTF8")
	if r := captureFor(5*time.Minute, initial, "initdb"); r.exit != exitOK {
		t.Fatalf("%s", r)
	}
	sql := "create table t as select i, repeat('homenode', 20) s from generate_series(1, 100000) i; select count(*), max(length(s)) from t"
	psql := func(q string) []string { return asPostgres(bin+"/psql", "-h", "/tmp", "-d", "postgres", "-Atc", q) }
	return program{
		name:  "postgres",
		argv:  asPostgres(bin+"/postgres", "-D", data, "-k", "/tmp", "-c", "listen_addresses=", "-c", "shared_buffers=64MB", "-c", "jit=off", "-c", "fsync=off"),
		ready: func() bool { return capture(psql("select 1"), "").exit == exitOK },
		fill:  psql(sql),
	}
}

// systemdPrograms: redis, PostgreSQL and a JVM with many threads are at home from the first page on when
// `homenode run` starts them without a daemon; a daemon that comes later has nothing to move.
func systemdPrograms(t *T) {
	t.install()
	java, _ := filepath.Glob("/usr/lib/jvm/java-*-openjdk-*/bin/java")
	jars, _ := filepath.Glob("/usr/share/java/*.jar")
	if len(java) == 0 || len(jars) == 0 {
		t.Fatalf("Java %q, %d jars", java, len(jars))
	}
	programs := []program{
		redisServer(),
		t.postgresServer(),
		{
			name:  "java",
			argv:  []string{java[0], "-Xms160m", "-Xmx160m", "-XX:+UseParallelGC", "-cp", strings.Join(jars, ":"), "clojure.main", "-e", threadsThatAllocate},
			ready: func() bool { _, err := os.Stat("/tmp/java.ready"); return err == nil },
		},
	}
	homes := map[string]set{}
	for _, p := range programs {
		t.startProgram(p, nil, installed, "run", "--name", p.name, "--cpus", "2", "--memory", "256MiB", "--")
	}
	for _, p := range programs {
		t.awaitProgram(p)
		homes[p.name] = t.unitAtHome(p.name, 0)
	}

	t.command("systemctl", "start", "homenode")
	t.Defer(func() { capture([]string{"systemctl", "stop", "homenode"}, "") })
	warm(30 * time.Second)
	for _, p := range programs {
		t.unitAtHome(p.name, homes[p.name])
	}
	for _, e := range t.events(t.command(installed, "history", "--json", "--limit", "0")) {
		if e.Code == "move-begins" {
			t.Fatalf("the daemon moved %s: %s", e.Workload, e.Code)
		}
	}
}

// startProgram starts a service, with further options of systemd-run and with words before its command line.
func (t *T) startProgram(p program, options []string, before ...string) {
	t.command(slices.Concat([]string{"systemd-run", "-q", "--unit=" + p.name}, options, before, p.argv)...)
	t.Defer(func() { capture([]string{"systemctl", "stop", p.name}, "") })
	t.OnFailure(func() {
		t.logLines(p.name, capture([]string{"journalctl", "-u", p.name, "--no-pager", "-o", "cat"}, "").out, 10)
	})
}

// awaitProgram waits until a service serves, and fills it.
func (t *T) awaitProgram(p program) {
	t.until(5*time.Minute, time.Second, p.name+" is ready", func() (bool, string) {
		state := t.show(p.name, "ActiveState")
		if state == "failed" {
			t.Fatalf("%s has failed", p.name)
		}
		return p.ready(), "it is " + state
	})
	t.fillProgram(p)
}

// fillProgram makes a program take its memory.
func (t *T) fillProgram(p program) {
	if p.fill != nil {
		if r := captureFor(5*time.Minute, p.fill, p.name); r.exit != exitOK {
			t.Fatalf("%s", r)
		}
	}
}

// pidsOf are the processes of a service.
func (t *T) pidsOf(unit string) []int {
	return t.pidsIn(group(cgroupRoot + t.show(unit, "ControlGroup")))
}

// whereUnit is where all processes of a service are.
func (t *T) whereUnit(unit string) (nodes set, own map[int]int, processes int) {
	return t.whereAll(t.pidsOf(unit))
}

// whereAll is where processes are: the nodes whose CPUs their threads may use, and the pages that are
// theirs, by node. It counts the processes that are still there.
func (t *T) whereAll(pids []int) (nodes set, own map[int]int, processes int) {
	own = map[int]int{}
	for _, pid := range pids {
		byNode, err := ownByNode(pid)
		if err != nil {
			continue // it has ended
		}
		processes++
		for node, n := range byNode {
			own[node] += n
		}
		for _, may := range allowed(pid) {
			nodes |= t.nodesOf(may)
		}
	}
	return nodes, own, processes
}

// unitAtHome looks at all processes of a service: their threads may use the CPUs of one node,
// home unless that is 0, and 99 % of what is theirs lies there.
func (t *T) unitAtHome(unit string, home set) set {
	nodes, own, processes := t.whereUnit(unit)
	if home == 0 {
		home = nodes
	}
	if nodes != home || home.size() != 1 || share(own, home) < 0.99 {
		t.Fatalf("%s: home %s, its threads may use the CPUs of nodes %s, memory %s", unit, home, nodes, byNodeText(own))
	}
	pages := 0
	for _, n := range own {
		pages += n
	}
	t.Row("Programs under homenode run", unit, fmt.Sprint(processes), fmt.Sprintf("%d MiB", pages*4/1024), home.String(), fmt.Sprintf("%.2f %%", share(own, home)*100))
	return home
}

// systemdScope: `homenode run --scope` becomes the command in a scope of systemd that has the CPUs of
// its home, holds what it starts, accounts their memory and goes with them.
func systemdScope(t *T) {
	t.install()
	c := exec.Command(installed, "run", "--quiet", "--scope", "--unit", "job", "--cpus", "2", "--memory", "64MiB", "--",
		"/bin/sh", "-c", "/bin/sleep infinity | /e2e/walker --burst 2048 --sleep 3ms --slot 2 --mib 32 --threads 1 --place local")
	t.Do(c.Start())
	t.Defer(func() { capture([]string{"systemctl", "stop", "job.scope"}, ""); c.Wait() })
	const scope = "/system.slice/job.scope"
	t.until(systemdLimit, time.Second, "the walker holds its memory", func() (bool, string) {
		n, _ := strconv.Atoi(readText(cgroupRoot + scope + "/memory.current"))
		return n >= 32<<20, fmt.Sprintf("%s has %d bytes", scope, n)
	})
	if procs := strings.Fields(readText(cgroupRoot + scope + "/cgroup.procs")); len(procs) != 3 || !slices.Contains(procs, strconv.Itoa(c.Process.Pid)) {
		t.Fatalf("in %s are %q; want %d and its two children", scope, procs, c.Process.Pid)
	}
	cpus := t.show("job.scope", "AllowedCPUs")
	if !oneNode(cpus) || readText(cgroupRoot+scope+"/cpuset.cpus") != cpus {
		t.Fatalf("AllowedCPUs is %q, cpuset.cpus %q", cpus, readText(cgroupRoot+scope+"/cpuset.cpus"))
	}
	home := t.unitAtHome("job.scope", 0)
	t.must(capture([]string{installed, "run", "--scope", "--class", "dedicated", "--", "true"}, "run --scope --class dedicated"), exitUsage)
	t.must(capture([]string{installed, "run", "--scope", "--unit", "job", "--", "true"}, "run --scope with the name of another"), exitForbidden)

	// Undo takes the restrictions of the scope away, and then gives the process its CPUs back.
	allowed := func(pid int) string {
		for _, may := range allowed(pid) {
			return fmt.Sprint(may)
		}
		return ""
	}
	want := allowed(os.Getpid())
	if out := t.must(capture([]string{installed, "undo", "job.scope"}, "undo job.scope"), exitOK).out; !strings.Contains(out, "AllowedCPUs job.scope: "+strings.ReplaceAll(cpus, " ", ",")) {
		t.Fatalf("undo says %q", out)
	}
	if now, file := t.show("job.scope", "AllowedCPUs"), readText(cgroupRoot+scope+"/cpuset.cpus"); now != "" || file != "" {
		t.Fatalf("after undo AllowedCPUs is %q, cpuset.cpus %q", now, file)
	}
	if now := allowed(c.Process.Pid); now != want {
		t.Fatalf("after undo %d may use CPUs %s, others %s", c.Process.Pid, now, want)
	}
	bound := exec.Command(installed, "run", "--quiet", "--scope", "--unit", "bound", "--cpus", "1", "--membind", "1", "--", "/bin/sleep", "infinity")
	t.Do(bound.Start())
	t.Defer(func() { capture([]string{"systemctl", "stop", "bound.scope"}, ""); bound.Wait() })
	t.until(systemdLimit, time.Second, "the other scope is there", func() (bool, string) {
		s := t.show("bound.scope", "AllowedMemoryNodes")
		return s == "1", s
	})
	t.must(capture([]string{installed, "undo", strconv.Itoa(bound.Process.Pid)}, "undo by PID"), exitOK)
	if now := t.show("bound.scope", "AllowedCPUs") + t.show("bound.scope", "AllowedMemoryNodes"); now != "" {
		t.Fatalf("after undo AllowedCPUs and AllowedMemoryNodes are %q", now)
	}
	t.command("systemctl", "stop", "job.scope")
	t.until(systemdLimit, time.Second, "the scope goes with its processes", func() (bool, string) {
		s := t.show("job.scope", "LoadState")
		return s == "not-found", s
	})
	t.Textf("node %s, AllowedCPUs %s", home, cpus)
}
