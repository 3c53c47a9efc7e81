package main

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/homenode/homenode/core/control"
	"github.com/homenode/homenode/core/plan"
	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/core/workload"
	"github.com/homenode/homenode/daemon"
	"github.com/homenode/homenode/host/flight"
	"github.com/homenode/homenode/host/store"
	"github.com/homenode/homenode/sim"
)

// soakClock stands still but for scans: each lets a period pass. However slow the machine is, the
// daemon scans as often as it would.
type soakClock struct {
	mu  sync.Mutex // guards now
	now time.Time
}

func (c *soakClock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func (c *soakClock) After(d time.Duration) <-chan time.Time { return time.After(d / 10000) }

func (c *soakClock) pass(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
}

// crowd is a simulated host with many processes beside its work that live for some scans each. Their PIDs
// are used again, their names are not. It is observer and driver.
type crowd struct {
	*sim.House
	clock  *soakClock
	period time.Duration
	random *rand.Rand
	host   *topology.Host

	mu    sync.Mutex // guards what follows
	all   []shortLived
	born  int
	scans int
}

// shortLived is one of the processes.
type shortLived struct {
	process workload.Process
	name    string
	ends    int // scan
	large   bool
	cpus    string // affinity
}

func newCrowd(size int, period time.Duration) (*crowd, error) {
	c := &crowd{clock: &soakClock{now: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)}, period: period, random: rand.New(rand.NewPCG(1, 2)), all: make([]shortLived, size)}
	house, err := sim.NewHouse(sim.HomenodeWorks, 2, 1, c.clock)
	if err != nil {
		return nil, err
	}
	s, err := house.Look(context.Background(), control.Attention{})
	c.House, c.host = house, s.Host
	for i := range c.all {
		c.start(i)
	}
	return c, err
}

// start starts a process in the place of the i-th. One in ten is large enough to be placed.
func (c *crowd) start(i int) {
	c.born++
	c.all[i] = shortLived{process: workload.Process{PID: 100_000 + i, Start: uint64(c.born)}, name: fmt.Sprintf("job-%d", c.born), ends: c.scans + 1 + c.random.IntN(20),
		large: c.random.IntN(10) == 0, cpus: c.host.Allowed.String()}
}

// Look implements daemon.Observer.
func (c *crowd) Look(ctx context.Context, with control.Attention) (workload.Snapshot, error) {
	c.clock.pass(c.period)
	s, err := c.House.Look(ctx, with)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.scans++
	s.Observations = slices.Clone(s.Observations)
	for i := range c.all {
		p := &c.all[i]
		if p.ends <= c.scans {
			c.start(i)
		}
		o := workload.Observation{ID: workload.ID(fmt.Sprintf("pid:%d", p.process.PID)), Name: p.name, Kind: workload.InProcess, Cgroup: "/", Processes: []workload.Process{p.process}, Threads: 1,
			UID: 1000, Mems: c.host.AllowedMems, CPUUse: 0.01, Memory: []workload.NodeMemory{{Node: topology.NodeID(i % 2), KiB: 2 << 10}}}
		if o.CPUs, err = topology.ParseCPUSet(p.cpus); err != nil {
			return s, err
		}
		if p.large {
			o.CPUUse, o.Memory[0].KiB = 0.5, 80<<10
		}
		s.Observations = append(s.Observations, o)
	}
	slices.SortFunc(s.Observations, func(a, b workload.Observation) int { return strings.Compare(string(a.ID), string(b.ID)) })
	return s, err
}

// of is one of the short-lived processes, if it still lives.
func (c *crowd) of(p workload.Process) *shortLived {
	i := p.PID - 100_000
	if i < 0 || i >= len(c.all) || c.all[i].process != p {
		return nil
	}
	return &c.all[i]
}

func (c *crowd) ofEntry(e *plan.Entry) (p *shortLived, ours bool) {
	process, err := plan.ParseProcessPath(e.Path)
	if e.Kind != plan.Affinity || err != nil || process.PID < 100_000 {
		return nil, false
	}
	return c.of(process), true
}

func (c *crowd) ofStep(s *plan.Step) (p *shortLived, ours bool) {
	if s.Target.Kind != workload.InProcess || len(s.Target.Processes) == 0 || s.Target.Processes[0].PID < 100_000 {
		return nil, false
	}
	return c.of(s.Target.Processes[0]), true
}

var errExited = fmt.Errorf("the process has ended: %w", os.ErrNotExist)

// Changes implements daemon.Driver.
func (c *crowd) Changes(ctx context.Context, s plan.Step) ([]plan.Change, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	p, ours := c.ofStep(&s)
	switch {
	case !ours:
		return c.House.Changes(ctx, s)
	case p == nil:
		return nil, errExited
	case s.Kind == plan.MovePages:
		return nil, nil
	}
	return []plan.Change{{Setting: plan.Setting{Kind: plan.Affinity, Path: plan.ProcessPath(p.process), Value: p.cpus, Groups: "1 /", Ticks: p.process.Start}, Will: s.To}}, nil
}

// Apply implements daemon.Driver.
func (c *crowd) Apply(ctx context.Context, s plan.Step, progress func(plan.Move)) error {
	c.mu.Lock()
	p, ours := c.ofStep(&s)
	if !ours {
		c.mu.Unlock() // a move of the house takes its time
		return c.House.Apply(ctx, s, progress)
	}
	defer c.mu.Unlock()
	if p == nil {
		return errExited
	}
	if s.Kind == plan.SetCPUs {
		p.cpus = s.To
	}
	return nil
}

// Read implements daemon.Driver.
func (c *crowd) Read(ctx context.Context, e plan.Entry) (plan.Setting, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	p, ours := c.ofEntry(&e)
	switch {
	case !ours:
		return c.House.Read(ctx, e)
	case p == nil:
		return plan.Setting{}, errExited
	}
	return plan.Setting{Kind: e.Kind, Path: e.Path, Value: p.cpus}, nil
}

// Restore implements daemon.Driver.
func (c *crowd) Restore(ctx context.Context, entries []plan.Entry) []error {
	c.mu.Lock()
	defer c.mu.Unlock()
	out := make([]error, len(entries))
	for i := range entries {
		p, ours := c.ofEntry(&entries[i])
		switch {
		case !ours:
			out[i] = c.House.Restore(ctx, entries[i:i+1])[0]
		case p == nil:
			out[i] = errExited
		default:
			p.cpus = entries[i].Old
		}
	}
	return out
}

// Present implements daemon.Driver.
func (c *crowd) Present(e plan.Entry) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	p, ours := c.ofEntry(&e)
	switch {
	case !ours:
		return c.House.Present(e)
	case p == nil:
		return errExited
	}
	return nil
}

// Bounds of a soak. The recorder's is its setting and one file that is being written; the store's
// are 60,000 events of some 300 bytes with what bbolt keeps free (host/store).
const (
	soakRecord      = 8 << 20 // bytes of the flight recorder; in a short run so few that files go
	shortRecord     = 128 << 10
	soakRecordFiles = 64
	soakStore       = 64 << 20  // bytes
	soakHeap        = 192 << 20 // bytes
	soakOpen        = 4         // descriptors more than at the start
	soakRunning     = 128       // goroutines: each call under way has some
)

// held is what a daemon holds at one time.
type held struct {
	after       time.Duration // simulated
	heap        uint64
	descriptors int
	goroutines  int
	recordFiles int
	record      int64
	store       int64
	folders     int // files in the state folder beside the recorder's
}

func (c *crowd) held(t *testing.T, state string, after time.Duration) held {
	t.Helper()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	self := holdings()
	h := held{after: after, heap: m.HeapAlloc, descriptors: self.Descriptors, goroutines: self.Goroutines}
	err := filepath.WalkDir(state, func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return nil // the recorder removes files meanwhile
		}
		info, err := d.Info()
		if err != nil {
			return nil
		}
		switch {
		case filepath.Base(filepath.Dir(path)) == flightFolder:
			h.recordFiles++
			h.record += info.Size()
		case filepath.Ext(path) == ".db":
			h.store += info.Size()
			fallthrough
		default:
			h.folders++
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return h
}

// TestSoak runs the daemon's loop with its store and flight recorder on a simulated host beside
// short-lived processes, and asks it meanwhile: what it holds is bounded. `make soak` runs it for
// 24 hours of simulated time with 3,000 processes.
func TestSoak(t *testing.T) {
	hours, processes, period := number(t, "SOAK_HOURS", 0), number(t, "SOAK_PROCESSES", 300), 30*time.Second
	until, most := time.Duration(hours)*time.Hour, int64(soakRecord)
	if hours == 0 {
		until, most = 30*time.Minute, shortRecord
	}
	c, err := newCrowd(processes, period)
	if err != nil {
		t.Fatal(err)
	}
	state := t.TempDir()
	s, err := store.Open(state)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	w, err := flight.Create(filepath.Join(state, flightFolder), most)
	if err != nil {
		t.Fatal(err)
	}
	log := slog.New(slog.DiscardHandler)
	r := recorder{flight.NewRecorder(w, log)}
	defer r.Close()
	d, err := daemon.New(daemon.Options{Settings: c.Settings(), Period: period, Version: "soak", BootID: "soak", Clock: c.clock, Store: s, Recorder: r,
		Observer: c, Sources: []daemon.Source{c.House}, Drivers: map[workload.Kind]daemon.Driver{workload.InCgroup: c, workload.InProcess: c}, Log: log, Self: holdings, Alive: func() {}})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	began := time.Now()
	go func() { ended <- d.Run(ctx) }()
	defer cancel()
	start := c.clock.Now()
	var all []held
	samples := max(6, min(hours, 24))
	for n := 1; n <= samples; n++ {
		for c.clock.Now().Sub(start) < until*time.Duration(n)/time.Duration(samples) {
			select {
			case err := <-ended:
				t.Fatal("the daemon ended: ", err)
			case <-time.After(20 * time.Millisecond):
			}
			if _, err := d.Status(ctx); err != nil {
				t.Fatal(err)
			}
		}
		h := c.held(t, state, c.clock.Now().Sub(start).Round(time.Minute))
		all = append(all, h)
		t.Logf("%v: heap %d KiB, %d descriptors, %d goroutines, recorder %d files with %d KiB, store %d KiB in %d files, %d processes have lived",
			h.after, h.heap>>10, h.descriptors, h.goroutines, h.recordFiles, h.record>>10, h.store>>10, h.folders, c.lived())
	}
	v := d.View()
	t.Logf("%d scans in %v; %d homes, %d entries in the journal", c.looked(), time.Since(began).Round(time.Second), len(v.Plan.Placements), len(v.Journal))
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	if len(v.Plan.Placements) == 0 || !v.Halted.None() || c.looked() < int(until/period)*9/10 {
		t.Errorf("it did nothing: %d homes, halted: %s, %d scans", len(v.Plan.Placements), v.Halted, c.looked())
	}
	first := all[0]
	for _, h := range all {
		bound := func(what string, is, most int64) {
			if is > most {
				t.Errorf("after %v: %s %d, at most %d", h.after, what, is, most)
			}
		}
		bound("bytes of heap", int64(h.heap), soakHeap)
		bound("descriptors", int64(h.descriptors), int64(first.descriptors+soakOpen))
		bound("goroutines", int64(h.goroutines), soakRunning)
		bound("bytes of the recorder", h.record, most*5/4)
		bound("files of the recorder", int64(h.recordFiles), soakRecordFiles)
		bound("bytes of the store", h.store, soakStore)
		bound("files beside the recorder's", int64(h.folders), 4)
	}
	// A sample may have a scan in it that is under way: the least of several has none.
	least := func(part []held) int64 { return int64(slices.MinFunc(part, byHeap).heap) }
	early, late := least(all[:len(all)/2]), least(all[len(all)*3/4:])
	if late > early+early/4+8<<20 {
		t.Errorf("the heap grows: %d KiB in the first half, %d KiB in the last quarter", early>>10, late>>10)
	}
}

func byHeap(a, b held) int { return int(a.heap>>10) - int(b.heap>>10) }

func (c *crowd) lived() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.born
}

func (c *crowd) looked() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.scans
}

// number is an environment variable as a number.
func number(t *testing.T, name string, otherwise int) int {
	text := os.Getenv(name)
	if text == "" {
		return otherwise
	}
	n, err := strconv.Atoi(text)
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return n
}
