package daemon

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/homenode/homenode/core/plan"
	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/core/workload"
)

// machine is a host of two or more equal nodes with workloads on it: Observer
// and Driver in one, so that what a step changes is what the next look sees.
type machine struct {
	t     *testing.T
	mu    sync.Mutex
	nodes int
	per   int // CPUs a node, two a core
	mem   topology.KiB
	live  map[workload.ID]*thing
	store Store

	calls   int // changes made, for failing the nth
	failAt  int
	failErr error
	looked  func()       // called in Look
	midMove func(*thing) // called after the first half of a move
	after   func()       // called once what Look saw is put together
	paused  string       // a move rests for this in its middle, and goes on
	pinned  topology.KiB // of each workload's memory off home
	shrunk  []workload.ID
	stuck   bool           // pages do not move, without an error
	moves   int            // page moves begun
	writes  map[string]int // how often each setting was written
	devices []topology.Device
}

type thing struct {
	obs  workload.Observation
	mems topology.NodeSet
}

func newMachine(t *testing.T, nodes, per int) *machine {
	return &machine{t: t, nodes: nodes, per: per, mem: 8 << 20, live: map[workload.ID]*thing{}, writes: map[string]int{}}
}

// host is made once for each size: nobody changes a Host.
func (m *machine) host() *topology.Host {
	if m.devices != nil {
		return m.newHost()
	}
	key := [3]int{m.nodes, m.per, int(m.mem)}
	if h, ok := hosts.Load(key); ok {
		return h.(*topology.Host)
	}
	h := m.newHost()
	hosts.Store(key, h)
	return h
}

var hosts sync.Map // *topology.Host by nodes, CPUs a node and memory

func (m *machine) newHost() *topology.Host {
	h := &topology.Host{Devices: m.devices}
	for n := range m.nodes {
		node := topology.Node{ID: topology.NodeID(n), Package: topology.PackageID(n), Memory: m.mem, Free: m.mem, Kind: topology.DRAM}
		for c := range m.per {
			node.CPUs.Add(topology.CPUID(n*m.per + c))
		}
		for c := 0; c < m.per; c += 2 {
			id := topology.CPUID(n*m.per + c)
			h.Cores = append(h.Cores, topology.Core{CPUs: topology.CPUs(id, id+1), Node: node.ID, Package: node.Package, Capacity: topology.None})
		}
		h.Packages = append(h.Packages, topology.Package{ID: node.Package, CPUs: node.CPUs})
		h.LLCs = append(h.LLCs, topology.LLC{CPUs: node.CPUs, Level: 3, Size: topology.None})
		h.Online = h.Online.Union(node.CPUs)
		h.AllowedMems.Add(node.ID)
		h.Nodes = append(h.Nodes, node)
		row := make([]int, m.nodes)
		for o := range row {
			row[o] = 20
			if o == n {
				row[o] = 10
			}
		}
		h.Distances = append(h.Distances, row)
	}
	h.Allowed = h.Online
	return h
}

// add puts a cgroup workload on the machine that keeps cpus busy, may run
// anywhere and has its memory on the given nodes in equal parts.
func (m *machine) add(name string, cpus float64, kib topology.KiB, on ...topology.NodeID) workload.ID {
	id := workload.ID("/" + name)
	o := workload.Observation{ID: id, Name: name, Kind: workload.InCgroup, Cgroup: string(id), Threads: int(cpus + 0.5),
		Processes: []workload.Process{{PID: 100 + len(m.live), Start: 7}}, Window: time.Second, CPUUse: cpus,
		CPUs: m.host().Online, Mems: m.host().AllowedMems, RanOnFrom: workload.PerThread}
	for n := range m.nodes {
		o.RanOn = append(o.RanOn, workload.NodeShare{Node: topology.NodeID(n), Share: 1 / float64(m.nodes)})
	}
	for _, n := range on {
		o.Memory = append(o.Memory, workload.NodeMemory{Node: n, KiB: kib / topology.KiB(len(on))})
	}
	o.Anon = o.Memory
	m.live[id] = &thing{obs: o, mems: o.Mems}
	return id
}

func (m *machine) Look(context.Context) (workload.Snapshot, error) {
	if m.looked != nil {
		m.looked()
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	s := workload.Snapshot{Host: m.host(), Shrunk: m.shrunk, Observations: make([]workload.Observation, 0, len(m.live))}
	for _, id := range slices.Sorted(maps.Keys(m.live)) {
		o := m.live[id].obs
		o.Memory = slices.Clone(o.Memory)
		s.Observations = append(s.Observations, o)
	}
	if m.after != nil {
		m.after()
		m.after = nil
	}
	return s, nil
}

func (m *machine) Stale(workload.ID)   {}
func (m *machine) Changed(workload.ID) {}

func (m *machine) find(cgroup string) (*thing, error) {
	w, ok := m.live[workload.ID(cgroup)]
	if !ok {
		return nil, fmt.Errorf("cgroup %s: %w", cgroup, fs.ErrNotExist)
	}
	return w, nil
}

func (m *machine) Settings(_ context.Context, s plan.Step) ([]plan.Setting, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	w, err := m.find(s.Target.Cgroup)
	if err != nil {
		return nil, err
	}
	switch s.Kind {
	case plan.SetCPUs:
		return []plan.Setting{{Kind: plan.CgroupCPUs, Path: s.Target.Cgroup, Value: w.obs.CPUs.String()}}, nil
	case plan.SetMems:
		return []plan.Setting{{Kind: plan.CgroupMems, Path: s.Target.Cgroup, Value: w.mems.String()}}, nil
	}
	return nil, nil
}

func (m *machine) Apply(ctx context.Context, s plan.Step, progress func(plan.Move)) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	w, err := m.find(s.Target.Cgroup)
	if err != nil {
		return err
	}
	if m.calls++; m.calls == m.failAt {
		return m.failErr
	}
	switch s.Kind {
	case plan.SetCPUs:
		m.mustBeJournalled(plan.CgroupCPUs, s.Target.Cgroup, w.obs.CPUs.String())
		return m.setCPUs(w, s.To)
	case plan.SetMems:
		m.mustBeJournalled(plan.CgroupMems, s.Target.Cgroup, w.mems.String())
		w.mems, err = topology.ParseNodeSet(s.To)
		w.obs.Mems = w.mems
		return err
	}
	return m.move(ctx, w, s, progress)
}

func (m *machine) setCPUs(w *thing, list string) error {
	cpus, err := topology.ParseCPUSet(list)
	if err != nil {
		return err
	}
	w.obs.CPUs = cpus
	m.writes[w.obs.Cgroup]++
	w.obs.RanOn = nil
	for _, n := range m.host().Nodes {
		if k := n.CPUs.Overlap(cpus); k > 0 {
			w.obs.RanOn = append(w.obs.RanOn, workload.NodeShare{Node: n.ID, Share: float64(k) / float64(cpus.Len())})
		}
	}
	return nil
}

// move goes in two halves, so that a test can step between them.
func (m *machine) move(ctx context.Context, w *thing, s plan.Step, progress func(plan.Move)) error {
	if m.moves++; m.stuck {
		return nil
	}
	var total int64
	for half := range 2 {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		home, _ := topology.ParseNodeSet(s.To)
		var mem []workload.NodeMemory
		var moved topology.KiB
		for _, x := range w.obs.Memory {
			if !home.Has(x.Node) {
				part := x.KiB
				if half == 0 {
					part /= 2
				}
				if half == 1 {
					part = max(0, part-m.pinned)
				}
				moved += part
				x.KiB -= part
			}
			mem = append(mem, x)
		}
		i := slices.IndexFunc(mem, func(x workload.NodeMemory) bool { return x.Node == home.Min() })
		if i < 0 {
			mem = append(mem, workload.NodeMemory{Node: home.Min()})
			i = len(mem) - 1
		}
		mem[i].KiB += moved
		w.obs.Memory = slices.DeleteFunc(mem, func(x workload.NodeMemory) bool { return x.KiB == 0 })
		slices.SortFunc(w.obs.Memory, func(a, b workload.NodeMemory) int { return int(a.Node - b.Node) })
		w.obs.Anon = w.obs.Memory
		m.mu.Unlock()
		total += int64(moved) * 1024
		record := plan.Move{Moved: total, State: moveRunning}
		if half == 0 && m.paused != "" {
			progress(plan.Move{Moved: total, State: movePaused, Why: m.paused})
		}
		if half == 1 && m.pinned > 0 {
			record.Refused = int64(m.pinned) << 10
			record.Why, record.RefusedBy = "pinned", []plan.Refusal{{Cause: plan.Pinned, Bytes: record.Refused, Why: "pinned"}}
		}
		if half == 1 || m.paused == "" {
			progress(record)
		}
		if half == 0 && m.midMove != nil {
			m.midMove(w)
		}
		m.mu.Lock()
		if _, err := m.find(s.Target.Cgroup); err != nil {
			return err
		}
	}
	return nil
}

func (m *machine) Restore(_ context.Context, e plan.Entry) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	w, err := m.find(e.Path)
	if err != nil {
		return err
	}
	if e.Kind == plan.CgroupMems {
		w.mems, err = topology.ParseNodeSet(e.Old)
		w.obs.Mems = w.mems
		return err
	}
	return m.setCPUs(w, e.Old)
}

func (m *machine) Present(e plan.Entry) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	_, err := m.find(e.Path)
	return err
}

// mustBeJournalled is the invariant itself: the old value is on disk before the change.
func (m *machine) mustBeJournalled(kind plan.SettingKind, path, value string) {
	entries, err := m.store.Journal()
	if err != nil {
		m.t.Error(err)
	}
	for _, e := range entries {
		if e.Kind == kind && e.Path == path {
			return
		}
	}
	m.t.Errorf("%s of %s was changed from %q without a journal entry", kind, path, value)
}

// settings is everything a step may change, to compare before and after.
func (m *machine) settings() map[workload.ID]string {
	m.mu.Lock()
	defer m.mu.Unlock()
	out := map[workload.ID]string{}
	for id, w := range m.live {
		out[id] = w.obs.CPUs.String() + " " + w.mems.String()
	}
	return out
}

// handClock stands still until it is moved.
type handClock struct {
	mu  sync.Mutex
	now time.Time
}

func (c *handClock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func (c *handClock) After(time.Duration) <-chan time.Time { return make(chan time.Time) }

func (c *handClock) step(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
}

var errBroken = errors.New("broken on purpose")

// rig is a daemon on a machine.
type rig struct {
	*Daemon
	m     *machine
	clock *handClock
	store *Memory
}

func newRig(t *testing.T, m *machine, mode Mode, change ...func(*Config)) *rig {
	t.Helper()
	r := &rig{m: m, clock: &handClock{now: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)}, store: NewMemory()}
	r.start(t, mode, change...)
	return r
}

// start makes a daemon anew on the same machine and store, as after a restart.
func (r *rig) start(t testing.TB, mode Mode, change ...func(*Config)) {
	t.Helper()
	c := NewConfig()
	c.Mode = mode
	for _, f := range change {
		f(&c)
	}
	r.m.store = r.store
	d, err := New(Options{Config: c, Version: "test", BootID: "boot", Observer: r.m, Store: r.store, Clock: r.clock,
		Drivers: map[workload.Kind]Driver{workload.InCgroup: r.m, workload.InProcess: r.m}, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	r.Daemon = d
}

// ticks runs n rounds, each one period long, and waits for moves in between.
func (r *rig) ticks(t *testing.T, n int) {
	t.Helper()
	for range n {
		if err := r.Tick(t.Context()); err != nil {
			t.Fatal(err)
		}
		r.wait()
		r.clock.step(2 * time.Second)
	}
}

// wait lets page moves in flight end.
func (r *rig) wait() {
	r.mu.Lock()
	var all []chan struct{}
	for _, m := range r.moving {
		all = append(all, m.done)
	}
	r.mu.Unlock()
	for _, done := range all {
		<-done
	}
}

func (r *rig) history(t *testing.T) []plan.Event {
	t.Helper()
	h, err := r.History(t.Context(), 0)
	if err != nil {
		t.Fatal(err)
	}
	return h.Events
}
