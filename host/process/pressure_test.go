package process

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/fstest"
	"time"

	"github.com/homenode/homenode/core/plan"
	"github.com/homenode/homenode/core/topology"
	procfs "github.com/homenode/homenode/host/internal/proc"
)

func psi(some float64) *fstest.MapFile {
	return &fstest.MapFile{Data: fmt.Appendf(nil, "some avg10=%.2f avg60=1.00 avg300=99.00 total=5\nfull avg10=99.00 avg60=0.00 avg300=0.00 total=1\n", some)}
}

func TestPressure(t *testing.T) {
	const group = "sys/fs/cgroup/a.slice/b.service/memory.pressure"
	for _, c := range []struct {
		name   string
		files  fstest.MapFS
		cgroup string
		paused bool
		want   string // part of the reason; "" goes on
	}{
		{"calm", fstest.MapFS{"proc/pressure/memory": psi(9.99), group: psi(19.99)}, "/a.slice/b.service", false, ""},
		{"host", fstest.MapFS{"proc/pressure/memory": psi(10)}, "/a.slice/b.service", false, "this machine wait for memory 10 % of the time; it goes on below 5 %"},
		{"workload", fstest.MapFS{"proc/pressure/memory": psi(0), group: psi(20)}, "/a.slice/b.service", false, "/a.slice/b.service waits for memory 20 %"},
		{"another workload", fstest.MapFS{group: psi(90)}, "/a.slice/c.service", false, ""},
		{"no cgroup", fstest.MapFS{group: psi(90)}, "", false, ""},
		{"hybrid", fstest.MapFS{"sys/fs/cgroup/unified/x/memory.pressure": psi(90)}, "/x", false, "/x waits"},
		{"still above half", fstest.MapFS{"proc/pressure/memory": psi(5)}, "", true, "5 %"},
		{"below half", fstest.MapFS{"proc/pressure/memory": psi(4.99), group: psi(9.99)}, "/a.slice/b.service", true, ""},
		{"no PSI", fstest.MapFS{}, "/a.slice/b.service", false, ""},
		{"nonsense", fstest.MapFS{"proc/pressure/memory": {Data: []byte("some avg10=many\n")}}, "", false, ""},
	} {
		p := Pressure{Root: c.files, Host: 10, Workload: 20}
		why, pause := p.Pause(plan.Step{Target: plan.Target{Cgroup: c.cgroup}}, c.paused)
		if pause != (c.want != "") || !strings.Contains(why, c.want) {
			t.Errorf("%s: %v %q, want %q", c.name, pause, why, c.want)
		}
		if why, pause := (&Pressure{Root: c.files}).Pause(plan.Step{Target: plan.Target{Cgroup: c.cgroup}}, c.paused); pause {
			t.Errorf("%s: without limits paused for %q", c.name, why)
		}
	}
}

// TestMovesUpUnderPressure: the pressure of batch work does not keep important work in slower memory where its target
// has free pages. Other moves rest.
func TestMovesUpUnderPressure(t *testing.T) {
	node := func(total, free int) *fstest.MapFile {
		return &fstest.MapFile{Data: fmt.Appendf(nil, "Node 0 MemTotal:       %d kB\nNode 0 MemFree:        %d kB\n", total, free)}
	}
	const group, meminfo = "sys/fs/cgroup/w/memory.pressure", "sys/devices/system/node/node0/meminfo"
	for _, c := range []struct {
		name  string
		files fstest.MapFS
		step  plan.Step
		pause bool
	}{
		{"room", fstest.MapFS{meminfo: node(128<<10, 1<<10)}, plan.Step{Up: true, To: "0"}, false},
		{"not up", fstest.MapFS{meminfo: node(128<<10, 1<<10)}, plan.Step{To: "0"}, true},
		{"short of free pages", fstest.MapFS{meminfo: node(128<<10, 1<<10-1)}, plan.Step{Up: true, To: "0"}, true},
		{"room on one of two", fstest.MapFS{meminfo: node(128<<10, 1<<10)}, plan.Step{Up: true, To: "0-1"}, true},
		{"no such list", fstest.MapFS{meminfo: node(128<<10, 1<<10)}, plan.Step{Up: true, To: "x"}, true},
		{"it waits itself", fstest.MapFS{meminfo: node(128<<10, 1<<10), group: psi(20)},
			plan.Step{Up: true, To: "0", Target: plan.Target{Cgroup: "/w"}}, true},
	} {
		c.files["proc/pressure/memory"] = psi(50)
		p := Pressure{Root: c.files, Host: 10, Workload: 20}
		if why, pause := p.Pause(c.step, false); pause != c.pause {
			t.Errorf("%s: %v %q", c.name, pause, why)
		}
	}
}

// A move rests while its cgroup waits for memory, says so once, and goes on.
func TestMoveRestsUnderPressure(t *testing.T) {
	m := newModel()
	p := m.add(10, 1)
	r := p.anon(0x10000000, repeat(1, 2000)...)
	files := fstest.MapFS{"proc/pressure/memory": psi(0), "sys/fs/cgroup/w/memory.pressure": psi(0)}
	pressure := &Pressure{Root: files, Host: 10, Workload: 10}
	mv, clock := m.mover(MoverOptions{Bandwidth: -1, Pause: pressure.Pause})
	step := moveStep("0", p)
	step.Target.Cgroup = "/w"
	var states []string
	err := mv.Move(context.Background(), step, func(r plan.Move) {
		switch {
		case len(states) == 0:
			files["sys/fs/cgroup/w/memory.pressure"] = psi(40)
		case r.State == "paused":
			files["sys/fs/cgroup/w/memory.pressure"] = psi(4)
		}
		states = append(states, strings.TrimSpace(r.State+" "+r.Why))
	})
	want := []string{"running", "paused /w waits for memory 40 % of the time; it goes on below 5 %", "running", "running", "running", "done"}
	if err != nil || r.on(0) != 2000 || clock.slept != pauseCheck || !slices.Equal(states, want) {
		t.Errorf("%v after %v: %q", err, clock.slept, states)
	}
}

// stepClock lets time pass only when everyone waits: the earliest goes on.
type stepClock struct {
	mu      sync.Mutex
	now     time.Time
	running int // moves not waiting
	waits   []stepWait
}

type stepWait struct {
	at    time.Time
	ready chan time.Time
}

func (c *stepClock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func (c *stepClock) After(d time.Duration) <-chan time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	w := stepWait{c.now.Add(d), make(chan time.Time, 1)}
	c.waits = append(c.waits, w)
	c.running--
	c.pass()
	return w.ready
}

// done is called by a move that has ended.
func (c *stepClock) done() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.running--
	c.pass()
}

func (c *stepClock) pass() {
	if c.running > 0 || len(c.waits) == 0 {
		return
	}
	first := 0
	for i := range c.waits {
		if c.waits[i].at.Before(c.waits[first].at) {
			first = i
		}
	}
	w := c.waits[first]
	c.waits = slices.Delete(c.waits, first, first+1)
	c.now = w.at
	c.running++
	w.ready <- c.now
}

// TestMovesShareTheCap: two moves at once take no more than one may, in turns.
func TestMovesShareTheCap(t *testing.T) {
	const pages = 4096 // 16 MiB each
	clock := &stepClock{now: time.Unix(0, 0), running: 2}
	// A model is for one move; the mover, and so the cap, is shared.
	models := []*model{newModel(), newModel()}
	mover, _ := models[0].mover(MoverOptions{Bandwidth: 1 << 20, Batch: 256})
	mover.o.Clock, mover.pace.clock = clock, clock
	var mu sync.Mutex
	var turns []int
	var all sync.WaitGroup
	var errs [2]error
	for i, m := range models {
		p := m.add(10, 1)
		p.anon(0x10000000, repeat(1, pages)...)
		m.home = topology.Nodes(0)
		own := *mover
		own.kernel, own.proc, own.o.Root, own.owners = m, proc{m}, m, procfs.NewOwners(m)
		all.Go(func() {
			defer clock.done()
			errs[i] = own.Move(context.Background(), moveStep("0", p), func(plan.Move) {
				mu.Lock()
				defer mu.Unlock()
				turns = append(turns, i)
			})
		})
	}
	all.Wait()
	if err := errors.Join(errs[:]...); err != nil {
		t.Fatal(err)
	}
	if took := clock.now.Sub(time.Unix(0, 0)); took < 30*time.Second || took > 32*time.Second {
		t.Errorf("32 MiB at 1 MiB/s took %v", took)
	}
	lead := 0
	for _, who := range turns {
		lead += 1 - 2*who
		if lead > 3 || lead < -3 {
			t.Fatalf("one move starves the other: %v", turns)
		}
	}
}
