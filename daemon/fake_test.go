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

	"github.com/homenode/homenode/api"
	"github.com/homenode/homenode/core/balance"
	"github.com/homenode/homenode/core/control"
	"github.com/homenode/homenode/core/place/arrange"
	"github.com/homenode/homenode/core/plan"
	"github.com/homenode/homenode/core/plan/plantest"
	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/core/words"
	"github.com/homenode/homenode/core/workload"
	"github.com/homenode/homenode/daemon/memory"
)

// machine is a host of two or more equal nodes with workloads on it: Observer
// and Driver in one, so that what a step changes is what the next look sees.
type machine struct {
	t     testing.TB
	mu    sync.Mutex
	nodes int
	per   int // CPUs a node, two a core
	mem   topology.KiB
	live  map[workload.ID]*thing
	store Store // nil: nobody asks whether changes are journalled

	calls   int // changes made, for failing the nth
	failAt  int
	failErr error
	looked  func()       // called in Look
	failing func() error // what Look fails with
	midMove func(*thing) // called after the first half of a move
	after   func()       // called once what Look saw is put together
	paused  string       // a move rests for this in its middle, and goes on
	pinned  topology.KiB // of each workload's memory off home
	shrunk  []workload.ID
	stuck   bool           // pages do not move, without an error
	moves   int            // page moves begun
	writes  map[string]int // how often each setting was written
	devices []topology.Device
	anew    []workload.ID // that the next Look is to read anew
}

type thing struct {
	obs   workload.Observation
	mems  topology.NodeSet
	inode string
}

func newMachine(t testing.TB, nodes, per int) *machine {
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
	h := plantest.Pairs(m.nodes, m.per, m.mem)
	h.Devices = m.devices
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

func (m *machine) Look(context.Context, control.Attention) (workload.Snapshot, error) {
	if m.looked != nil {
		m.looked()
	}
	if m.failing != nil {
		if err := m.failing(); err != nil {
			return workload.Snapshot{}, err
		}
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

func (m *machine) Stale(id workload.ID)   { m.anew = append(m.anew, id) }
func (m *machine) Changed(id workload.ID) { m.anew = append(m.anew, id) }

func (m *machine) find(cgroup string) (*thing, error) {
	w, ok := m.live[workload.ID(cgroup)]
	if !ok {
		return nil, fmt.Errorf("cgroup %s: %w", cgroup, fs.ErrNotExist)
	}
	return w, nil
}

func (m *machine) Owns() []plan.SettingKind {
	return []plan.SettingKind{plan.CgroupCPUs, plan.CgroupMems}
}
func (m *machine) SurvivesBoot(plan.SettingKind) bool { return false }

func (m *machine) Changes(_ context.Context, s plan.Step) ([]plan.Change, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	w, err := m.find(s.Target.Cgroup)
	if err != nil {
		return nil, err
	}
	kind := map[plan.StepKind]plan.SettingKind{plan.SetCPUs: plan.CgroupCPUs, plan.SetMems: plan.CgroupMems}[s.Kind]
	if kind == "" {
		return nil, nil
	}
	return []plan.Change{{Setting: w.setting(kind), Will: s.To}}, nil
}

func (w *thing) setting(kind plan.SettingKind) plan.Setting {
	s := plan.Setting{Kind: kind, Path: w.obs.Cgroup, Value: w.obs.CPUs.String(), Object: w.inode}
	if kind == plan.CgroupMems {
		s.Value = w.mems.String()
	}
	return s
}

func (m *machine) Read(_ context.Context, e plan.Entry) (plan.Setting, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	w, err := m.find(e.Path)
	if err != nil {
		return plan.Setting{}, err
	}
	return w.setting(e.Kind), nil
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
		mem, moved := plantest.MoveHalf(w.obs.Memory, home, half, m.pinned)
		w.obs.Memory, w.obs.Anon = mem, mem
		m.mu.Unlock()
		total += int64(moved) * 1024
		record := plan.Move{Moved: total, State: api.StateMoving}
		if half == 0 && m.paused != "" {
			progress(plan.Move{Moved: total, State: api.StatePaused, Why: m.paused})
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

func (m *machine) Restore(_ context.Context, entries []plan.Entry) []error {
	m.mu.Lock()
	defer m.mu.Unlock()
	errs := make([]error, len(entries))
	for i, e := range entries {
		w, err := m.find(e.Path)
		switch {
		case err != nil:
			errs[i] = err
		case e.Kind == plan.CgroupMems:
			w.mems, errs[i] = topology.ParseNodeSet(e.Old)
			w.obs.Mems = w.mems
		default:
			errs[i] = m.setCPUs(w, e.Old)
		}
	}
	return errs
}

func (m *machine) Present(e plan.Entry) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	_, err := m.find(e.Path)
	return err
}

// mustBeJournalled is the invariant itself: the old value is on disk before the change.
func (m *machine) mustBeJournalled(kind plan.SettingKind, path, value string) {
	if m.store == nil {
		return
	}
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

// rig is a daemon on a machine whose loop a test steps through.
type rig struct {
	*Daemon
	m      *machine
	clock  *handClock
	store  *memory.Store
	change []func(*Options)
}

// settings is those those of a configuration with the mode enforce and no more.
func settings(enforce bool) control.Settings {
	return control.Settings{Enforce: enforce, Policy: plan.DefaultPolicy(), Balance: balance.DefaultSettings(), Interrupts: control.InterruptsOff,
		Arrange: arrange.Options{MinMemory: 64 << 10, MinCPU: 0.2, MoveBandwidth: 256 << 20}}
}

func newRig(t testing.TB, m *machine, enforce bool, change ...func(*Options)) *rig {
	t.Helper()
	r := &rig{m: m, clock: &handClock{now: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)}, store: memory.New(), change: change}
	r.start(t, enforce)
	return r
}

func (r *rig) options(enforce bool) Options {
	r.m.store = r.store
	o := Options{Settings: settings(enforce), Period: 2 * time.Second, Version: "test", BootID: "boot", Observer: r.m, Store: r.store, Clock: r.clock,
		Drivers: map[workload.Kind]Driver{workload.InCgroup: r.m}, Log: slog.New(slog.DiscardHandler), Inline: true}
	for _, f := range r.change {
		f(&o)
	}
	return o
}

// start makes a daemon anew on the same machine and store, as after a restart.
func (r *rig) start(t testing.TB, enforce bool) {
	t.Helper()
	d, err := New(r.options(enforce))
	if err != nil {
		t.Fatal(err)
	}
	if r.Daemon != nil {
		r.Daemon.stop()
	}
	r.Daemon = d
	r.next(control.Input{Started: &control.Started{Version: "test", Period: r.o.Period}})
}

// ticks runs n rounds, each one period long, and waits for what they begin.
func (r *rig) ticks(n int) {
	for range n {
		r.scan()
		r.settle()
		r.clock.step(r.o.Period)
	}
}

// settle takes what comes back until nothing is under way.
func (r *rig) settle() {
	for r.running > 0 {
		r.take(<-r.inputs)
	}
}

// within lets the loop go round while do waits for its answer.
func within[T any](r *rig, do func() (T, error)) (T, error) {
	type answer struct {
		v   T
		err error
	}
	done := make(chan answer)
	go func() {
		v, err := do()
		done <- answer{v, err}
	}()
	for {
		select {
		case a := <-done:
			return a.v, a.err
		case in := <-r.inputs:
			r.take(in)
		case a := <-r.requests:
			r.ask(a)
		}
	}
}

func (r *rig) undo(which api.Which) (api.UndoResult, error) {
	return within(r, func() (api.UndoResult, error) { return r.Undo(context.Background(), which) })
}

func (r *rig) resume(which api.Which) error {
	_, err := within(r, func() (api.Resumed, error) { return r.Resume(context.Background(), which) })
	return err
}

func (r *rig) place(w api.Want) (api.Home, error) {
	return within(r, func() (api.Home, error) { return r.Place(context.Background(), w) })
}

func (r *rig) history(t *testing.T) []plan.Event {
	t.Helper()
	h, err := r.History(t.Context(), api.HistoryQuery{})
	if err != nil {
		t.Fatal(err)
	}
	return h.Events
}

// happened reports whether the history has an event of a code.
func (r *rig) happened(t *testing.T, code words.Code) bool {
	t.Helper()
	return slices.ContainsFunc(r.history(t), func(e plan.Event) bool { return e.Code == code })
}

func (r *rig) status(t *testing.T) map[workload.ID]api.Workload {
	t.Helper()
	return workloads(t, r.Daemon)
}

func workloads(t *testing.T, d *Daemon) map[workload.ID]api.Workload {
	t.Helper()
	s, err := d.Status(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	out := map[workload.ID]api.Workload{}
	for _, w := range s.Workloads {
		out[w.ID] = w
	}
	return out
}
