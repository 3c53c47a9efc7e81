//go:build linux

package home

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

	"github.com/homenode/homenode/e2e/guest/lab"
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
	*lab.T
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
func homenodeKillRun(t *lab.T) {
	seed := uint64(time.Now().UnixNano())
	if s, err := strconv.ParseUint(lab.BootParam("seed"), 10, 64); err == nil {
		seed = s
	}
	t.Logf("seed %d", seed)
	lab.FreshState()
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
		start, most := t.LaunchDaemon, 4*time.Second
		if i%2 == 1 {
			start, most = t.StartDaemon, 3*time.Second
		}
		d := start(lab.DaemonOptions{Mode: "enforce", Bandwidth: "8MiB", Memory: "1MiB"})
		time.Sleep(time.Duration(random.Int64N(int64(most))))
		if d.Ended() {
			t.Fatalf("seed %d: the daemon ended by itself with status %d: %s", seed, d.Exit, d.Text())
		}
		d.Kill9()
		x.apart(seed)
	}
	quiet()
	t.Do(x.failed)
	if x.started < killsOfRun || x.refused > x.started/2 {
		t.Fatalf("seed %d: %d started, %d moved, %d refused, the last with %q", seed, x.started, x.moved, x.refused,
			x.last)
	}

	d := t.StartDaemon(lab.DaemonOptions{Mode: "enforce", Bandwidth: "8MiB", Memory: "1MiB"})
	lab.Warm(3 * time.Second)
	t.UndoneAll()
	x.undone(seed)
	t.Stop(d)
	left := len(x.living)
	// Without a daemon the registry and the affinities count: all CPUs are free.
	for n := range t.Shape.Nodes {
		t.Must(lab.Homenode("run", "--dry-run", "--class", "dedicated", "--cpus", strconv.Itoa(t.Shape.CPUsPerNode),
			"--nodes", strconv.Itoa(n), "--", "/bin/walker"), lab.ExitOK)
	}
	t.Textf("%d kills, %d commands started, %d refused, %d moves, %d ended before the undo of %d; seed %d", killsOfRun,
		x.started, x.refused, x.moved, x.ended, left, seed)
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
	case n > 0 && (what == 0 || (n >= mostCommands && what < 4)):
		x.mu.Lock()
		i := slices.Index(x.living, c)
		if i >= 0 {
			x.living = slices.Delete(x.living, i, i+1)
			x.ended++
		}
		x.mu.Unlock()
		if i >= 0 {
			syscall.Kill(c.pid, syscall.SIGKILL)
			lab.AwaitEnd(c.pid)
		}
	case n > 0 && (what < 4 || n >= mostCommands):
		if lab.Homenode("move", c.name, "--to", strconv.Itoa(random.IntN(x.Shape.Nodes))).Exit == lab.ExitOK {
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
	c.said = filepath.Join(lab.WorkFolder, c.name+".said")
	said, err := os.Create(c.said)
	if err != nil {
		return err
	}
	defer said.Close()
	run := exec.Command(lab.HomenodeBin, "--socket", lab.SocketPath, "run", "--class", c.class, "--cpus",
		strconv.Itoa(c.cpus), "--name", c.name, "--", "/init", "sleeper", c.name)
	run.Stderr = said
	if c.pid, err = lab.StartOrphan(run); err != nil {
		return err
	}
	run.Process.Wait()
	for late := time.Now().Add(lab.CommandLimit); ; time.Sleep(20 * time.Millisecond) {
		switch is := lab.ReadText(fmt.Sprintf("/proc/%d/comm", c.pid)); {
		case is == c.name:
			x.mu.Lock()
			x.started++
			x.living = append(x.living, c)
			x.mu.Unlock()
			return nil
		case is == "":
			x.mu.Lock()
			x.refused, x.last = x.refused+1, lab.ReadText(c.said)
			x.mu.Unlock()
			return nil
		case time.Now().After(late):
			syscall.Kill(c.pid, syscall.SIGKILL)
			return fmt.Errorf("%s is still %s after %v: it said %q", c, is, lab.CommandLimit, lab.ReadText(c.said))
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
		var may lab.Set
		for _, cpus := range lab.Allowed(c.pid) {
			may |= cpus
		}
		if may.Size() == 0 {
			x.Fatalf("seed %d: %s has ended", seed, c)
		}
		for _, cpu := range may.IDs() {
			if other, taken := held[cpu]; taken {
				x.Fatalf("seed %d: CPU %d is both of %s (%s; it said %q) and of %s (%s; it said %q)", seed, cpu,
					other, mayUse(other.pid), lab.ReadText(other.said), c, mayUse(c.pid), lab.ReadText(c.said))
			}
			held[cpu] = c
		}
	}
}

func mayUse(pid int) string { return lab.StatusField(pid, "Cpus_allowed_list") }

// undone fails the test when something is left of what homenode has set and booked.
func (x *traffic) undone(seed uint64) {
	everywhere := lab.SetOf()
	for n := range x.Shape.Nodes {
		everywhere |= lab.CPUsOf(lab.SetOf(n))
	}
	for _, c := range x.living {
		for tid, may := range lab.Allowed(c.pid) {
			if may != everywhere {
				x.Fatalf("seed %d: after undo --all thread %d of %s may use CPUs %s", seed, tid, c, may)
			}
		}
	}
	entries, err := os.ReadDir(registry)
	x.Do(err)
	for _, e := range entries {
		if e.Name() != "lock" {
			text, _ := json.Marshal(lab.ReadText(filepath.Join(registry, e.Name())))
			x.Fatalf("seed %d: after undo --all the registry still has %s: %s", seed, e.Name(),
				strings.TrimSpace(string(text)))
		}
	}
}
