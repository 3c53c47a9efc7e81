//go:build linux

package main

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

// registry is where root's `homenode run` writes down what it has started.
const registry = "/run/homenode/runs"

// killsOfRun is how often the daemon is killed while commands start, end and move.
const killsOfRun = 10

// command is one that `homenode run` has started.
type command struct {
	name, class string
	cpus, pid   int
	said        string // the file with what homenode said
}

func (c command) String() string {
	return fmt.Sprintf("%s (%d, %s, %d CPUs)", c.name, c.pid, c.class, c.cpus)
}

// traffic starts, ends and moves commands. Who holds the lock sees none of that under way.
type traffic struct {
	*T
	sync.RWMutex
	mu             sync.Mutex
	living         []command
	tried, started int
	refused, ended int
	moved          int
	last           string // why the last one was refused
	failed         error
}

// homenodeKillRun: kill -9 of the daemon at any moment, while `homenode run` is used, puts no
// two dedicated commands on one CPU; undo then takes back every pin, with what is booked.
func homenodeKillRun(t *T) {
	seed := uint64(time.Now().UnixNano())
	if s, err := strconv.ParseUint(bootParam("seed"), 10, 64); err == nil {
		seed = s
	}
	t.Logf("seed %d", seed)
	freshState()
	os.RemoveAll(registry)
	random := rand.New(rand.NewPCG(seed, 0))
	x := &traffic{T: t}
	t.Defer(func() {
		for _, c := range x.living {
			syscall.Kill(c.pid, syscall.SIGKILL)
		}
	})
	stop := make(chan struct{})
	var users sync.WaitGroup
	quiet := sync.OnceFunc(func() { close(stop); users.Wait() })
	t.Defer(quiet)
	for user := range uint64(2) {
		users.Go(func() { x.use(rand.New(rand.NewPCG(seed, 1+user)), stop) })
	}

	for i := range killsOfRun {
		// Every second one is killed when it has begun to answer, the others as they start.
		start, most := t.launchDaemon, 4*time.Second
		if i%2 == 1 {
			start, most = t.startDaemon, 3*time.Second
		}
		d := start(daemonOptions{mode: "enforce", bandwidth: "8MiB", memory: "1MiB"})
		time.Sleep(time.Duration(random.Int64N(int64(most))))
		if d.ended() {
			t.Fatalf("seed %d: the daemon ended by itself with status %d: %s", seed, d.exit, d.text())
		}
		d.kill9()
		x.apart(seed)
	}
	quiet()
	t.Do(x.failed)
	if x.started < killsOfRun || x.refused > x.started/2 {
		t.Fatalf("seed %d: %d started, %d moved, %d refused, the last with %q", seed, x.started, x.moved, x.refused, x.last)
	}

	d := t.startDaemon(daemonOptions{mode: "enforce", bandwidth: "8MiB", memory: "1MiB"})
	warm(3 * time.Second)
	t.undoneAll()
	x.undone(seed)
	t.stop(d)
	left := len(x.living)
	// Without a daemon the registry and the affinities count: all CPUs are free.
	for n := range t.shape.Nodes {
		t.must(homenode("run", "--dry-run", "--class", "dedicated", "--cpus", strconv.Itoa(t.shape.CPUsPerNode), "--nodes", strconv.Itoa(n), "--", "/bin/walker"), exitOK)
	}
	t.Textf("%d kills, %d commands started, %d refused, %d moves, %d ended before the undo of %d; seed %d", killsOfRun, x.started, x.refused, x.moved, x.ended, left, seed)
}

// use starts, ends and moves commands until it is told to stop.
func (x *traffic) use(random *rand.Rand, stop <-chan struct{}) {
	for {
		select {
		case <-stop:
			return
		case <-time.After(time.Duration(random.Int64N(int64(300 * time.Millisecond)))):
		}
		x.RLock()
		err := x.one(random)
		x.RUnlock()
		if err != nil {
			x.mu.Lock()
			x.failed = err
			x.mu.Unlock()
			return
		}
	}
}

// Most commands that live at a time, and CPUs of dedicated ones, which leave room on each of four
// nodes.
const (
	mostCommands  = 8
	mostDedicated = 8
)

func (x *traffic) one(random *rand.Rand) error {
	x.mu.Lock()
	n, cpus := len(x.living), 0
	for _, c := range x.living {
		if c.class == "dedicated" {
			cpus += c.cpus
		}
	}
	var c command
	if n > 0 {
		c = x.living[random.IntN(n)]
	}
	x.mu.Unlock()
	switch what := random.IntN(8); {
	case n > 0 && (what == 0 || n >= mostCommands && what < 4):
		x.mu.Lock()
		i := slices.Index(x.living, c)
		if i >= 0 {
			x.living = slices.Delete(x.living, i, i+1)
			x.ended++
		}
		x.mu.Unlock()
		if i >= 0 {
			syscall.Kill(c.pid, syscall.SIGKILL)
			awaitEnd(c.pid)
		}
	case n > 0 && (what < 4 || n >= mostCommands):
		if homenode("move", c.name, "--to", strconv.Itoa(random.IntN(x.shape.Nodes))).exit == exitOK {
			x.mu.Lock()
			x.moved++
			x.mu.Unlock()
		}
	default:
		c = command{class: "shared", cpus: 1 + random.IntN(2)}
		if random.IntN(4) > 0 && cpus+c.cpus <= mostDedicated {
			c.class = "dedicated"
		}
		return x.start(c)
	}
	return nil
}

// start starts a command as a child of PID 1 and waits until it is what it was asked to be.
func (x *traffic) start(c command) error {
	x.mu.Lock()
	x.tried++
	c.name = fmt.Sprintf("%s%d", c.class, x.tried)
	x.mu.Unlock()
	c.said = filepath.Join(workFolder, c.name+".said")
	said, err := os.Create(c.said)
	if err != nil {
		return err
	}
	defer said.Close()
	run := exec.Command(homenodeBin, "--socket", socketPath, "run", "--class", c.class, "--cpus", strconv.Itoa(c.cpus), "--name", c.name, "--", "/init", "sleeper", c.name)
	run.Stderr = said
	if c.pid, err = startOrphan(run); err != nil {
		return err
	}
	run.Process.Wait()
	for late := time.Now().Add(commandLimit); ; time.Sleep(20 * time.Millisecond) {
		switch is := readText(fmt.Sprintf("/proc/%d/comm", c.pid)); {
		case is == c.name:
			x.mu.Lock()
			x.started++
			x.living = append(x.living, c)
			x.mu.Unlock()
			return nil
		case is == "":
			x.mu.Lock()
			x.refused, x.last = x.refused+1, readText(c.said)
			x.mu.Unlock()
			return nil
		case time.Now().After(late):
			syscall.Kill(c.pid, syscall.SIGKILL)
			return fmt.Errorf("%s is still %s after %v: it said %q", c, is, commandLimit, readText(c.said))
		}
	}
}

// apart fails the test when two dedicated commands may use one CPU. It comes while no daemon
// runs.
func (x *traffic) apart(seed uint64) {
	x.Lock()
	defer x.Unlock()
	held := map[int]command{}
	for _, c := range x.living {
		if c.class != "dedicated" {
			continue
		}
		var may set
		for _, cpus := range allowed(c.pid) {
			may |= cpus
		}
		if may.size() == 0 {
			x.Fatalf("seed %d: %s has ended", seed, c)
		}
		for _, cpu := range may.ids() {
			if other, taken := held[cpu]; taken {
				x.Fatalf("seed %d: CPU %d is both of %s (%s; it said %q) and of %s (%s; it said %q)", seed, cpu,
					other, mayUse(other.pid), readText(other.said), c, mayUse(c.pid), readText(c.said))
			}
			held[cpu] = c
		}
	}
}

func mayUse(pid int) string { return statusField(pid, "Cpus_allowed_list") }

// undone fails the test when something is left of what homenode has set and booked.
func (x *traffic) undone(seed uint64) {
	everywhere := setOf()
	for n := range x.shape.Nodes {
		everywhere |= cpusOf(setOf(n))
	}
	for _, c := range x.living {
		for tid, may := range allowed(c.pid) {
			if may != everywhere {
				x.Fatalf("seed %d: after undo --all thread %d of %s may use CPUs %s", seed, tid, c, may)
			}
		}
	}
	entries, err := os.ReadDir(registry)
	x.Do(err)
	for _, e := range entries {
		if e.Name() != "lock" {
			text, _ := json.Marshal(readText(filepath.Join(registry, e.Name())))
			x.Fatalf("seed %d: after undo --all the registry still has %s: %s", seed, e.Name(), strings.TrimSpace(string(text)))
		}
	}
}
