package daemon

import (
	"context"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/homenode/homenode/api"
	"github.com/homenode/homenode/core/doctor"
	"github.com/homenode/homenode/core/irq"
	"github.com/homenode/homenode/core/measure"
	"github.com/homenode/homenode/core/plan"
	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/core/workload"
)

// wires is a NIC on node 1 with interrupts by number: Devices and Driver in one.
type wires struct {
	t       *testing.T
	store   func() Store
	mu      sync.Mutex
	at      map[string]string // CPU list by path
	fixed   map[string]bool
	tried   map[string]int
	failing map[string]error
	looks   int
	queues  int // pairs in use, of most; 0: the driver does not tell
	most    int
}

func newWires(t *testing.T, r *rig) *wires {
	w := &wires{t: t, store: func() Store { return r.store }, at: map[string]string{}, fixed: map[string]bool{}, tried: map[string]int{}, failing: map[string]error{}}
	for n := range 4 {
		w.at[fmt.Sprintf("p/%d", 40+n)] = "0-15"
	}
	return w
}

func (w *wires) Devices(context.Context, *topology.Host) ([]irq.Device, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.looks++
	d := irq.Device{Name: "eth0", Kind: topology.NIC, PCI: "p", Node: 1}
	if w.queues > 0 {
		d.Channels = []irq.Channels{{Name: "eth0", Now: w.queues, Most: w.most}}
	}
	for n := range max(4, w.most) {
		at, here := w.at[fmt.Sprintf("p/%d", 40+n)]
		if !here {
			continue
		}
		cpus, err := topology.ParseCPUSet(at)
		if err != nil {
			return nil, err
		}
		d.Interrupts = append(d.Interrupts, irq.Interrupt{Number: 40 + n, Name: fmt.Sprintf("eth0-TxRx-%d", n), CPUs: cpus})
	}
	return []irq.Device{d}, nil
}

func (w *wires) Settings(_ context.Context, s plan.Step) ([]plan.Setting, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if s.Kind == plan.SetQueues {
		out := []plan.Setting{{Kind: plan.QueueCount, Path: s.Target.Device, Value: fmt.Sprint(w.queues)}}
		for _, path := range slices.Sorted(maps.Keys(w.at)) {
			out = append(out, plan.Setting{Kind: plan.IRQAffinity, Path: path, Value: w.at[path]})
		}
		return out, nil
	}
	v, ok := w.at[s.Target.Device]
	if !ok {
		return nil, fs.ErrNotExist
	}
	return []plan.Setting{{Kind: plan.IRQAffinity, Path: s.Target.Device, Value: v}}, nil
}

func (w *wires) Apply(_ context.Context, s plan.Step, _ func(plan.Move)) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	entries, err := w.store().Journal()
	if err != nil {
		return err
	}
	journalled := false
	kind := map[plan.StepKind]plan.SettingKind{plan.SetIRQ: plan.IRQAffinity, plan.SetQueues: plan.QueueCount}[s.Kind]
	for _, e := range entries {
		journalled = journalled || e.Path == s.Target.Device && e.Kind == kind
	}
	if !journalled {
		w.t.Errorf("%s is changed without a journal entry", s.Target.Device)
	}
	w.tried[s.Target.Device]++
	if w.fixed[s.Target.Device] {
		return fmt.Errorf("managed: %w", plan.ErrFixed)
	}
	if err := w.failing[s.Target.Device]; err != nil {
		return err
	}
	if s.Kind == plan.SetQueues {
		w.count(s.To)
		return nil
	}
	w.at[s.Target.Device] = s.To
	return nil
}

// count gives the card so many queues: all of its interrupts are made anew.
func (w *wires) count(text string) {
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 || n > w.most {
		w.t.Errorf("%q queues of %d", text, w.most)
	}
	w.queues = n
	clear(w.at)
	for k := range n {
		w.at[fmt.Sprintf("p/%d", 40+k)] = "0-15"
	}
}

func (w *wires) Restore(_ context.Context, e plan.Entry) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if e.Kind == plan.QueueCount {
		w.count(e.Old)
		return nil
	}
	if _, ok := w.at[e.Path]; !ok {
		return fs.ErrNotExist
	}
	w.at[e.Path] = e.Old
	return nil
}

func (w *wires) Present(e plan.Entry) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if _, ok := w.at[e.Path]; !ok && e.Kind == plan.IRQAffinity {
		return fs.ErrNotExist
	}
	return nil
}

func (w *wires) values() map[string]string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return maps.Clone(w.at)
}

func irqRig(t *testing.T, m *machine, mode Mode, how Interrupts) (*rig, *wires) {
	r := newRig(t, m, mode, func(c *Config) { c.IRQ = how })
	w := newWires(t, r)
	r.o.Drivers[workload.InDevice] = w
	return r, w
}

func (r *rig) device(t *testing.T) api.Device {
	t.Helper()
	s, err := r.Status(t.Context())
	if err != nil || len(s.Devices) != 1 {
		t.Fatalf("devices %+v, %v", s.Devices, err)
	}
	return s.Devices[0]
}

func TestWhatIsDoneAboutInterrupts(t *testing.T) {
	for _, tt := range []struct {
		mode       Mode
		irq, holds Interrupts
	}{
		{Observe, "", IRQReport}, {Observe, IRQOff, IRQOff}, {Observe, IRQPlace, IRQReport}, {Observe, IRQReport, IRQReport},
		{Enforce, "", IRQOff}, {Enforce, IRQOff, IRQOff}, {Enforce, IRQReport, IRQReport}, {Enforce, IRQPlace, IRQPlace},
	} {
		t.Run(fmt.Sprint(tt.mode, " ", tt.irq), func(t *testing.T) {
			r, w := irqRig(t, newMachine(t, 2, 8), tt.mode, tt.irq)
			before := w.values()
			r.ticks(t, 3)
			if changed := !cmp.Equal(before, w.values()); changed != (tt.holds == IRQPlace) {
				t.Errorf("changed: %v", changed)
			}
			if read := w.looks > 0; read != (tt.holds != IRQOff) {
				t.Errorf("read: %v", read)
			}
			if tt.holds != IRQOff {
				state := map[Interrupts]string{IRQReport: "would move", IRQPlace: "at home"}[tt.holds]
				if d := r.device(t); d.State != state {
					t.Errorf("%+v, want %s", d, state)
				}
			}
		})
	}
}

func TestIRQConfig(t *testing.T) {
	c, err := ParseConfig(strings.NewReader("irq: off\n"), "f", NewConfig())
	if err != nil || c.IRQ != IRQOff {
		t.Errorf("%q, %v", c.IRQ, err)
	}
	if _, err = ParseConfig(strings.NewReader("irq: yes\n"), "f", NewConfig()); err == nil || !strings.Contains(err.Error(), "want off, report or place") {
		t.Error(err)
	}
}

// Interrupts go to their node, away from dedicated work, rest there, and undo puts
// them back; then they are held until they are resumed.
func TestInterruptsArePlacedAndUndone(t *testing.T) {
	m := newMachine(t, 2, 8)
	m.add("db", 4, 1<<20, 1)
	r, w := irqRig(t, m, Enforce, IRQPlace)
	r.o.Config.Workloads = []Rule{{Match: "/db", Class: workload.Dedicated, CPUs: 4, Near: nil}}
	before := w.values()
	r.ticks(t, 4)
	var dedicated topology.CPUSet
	for _, p := range r.view.plan.Placements {
		if p.Class == workload.Dedicated {
			dedicated = dedicated.Union(p.CPUs).Union(p.Idle)
		}
	}
	if dedicated.Empty() {
		t.Fatal("nothing is dedicated")
	}
	seen := map[string]bool{}
	for path, list := range w.values() {
		cpus, err := topology.ParseCPUSet(list)
		if err != nil || !cpus.SubsetOf(m.host().Nodes[1].CPUs) || cpus.Intersects(dedicated) || seen[list] {
			t.Errorf("%s goes to %s; dedicated %v, others %v", path, list, dedicated, seen)
		}
		seen[list] = true
	}
	tried := maps.Clone(w.tried)
	r.clock.step(irqEvery)
	r.ticks(t, 2)
	if !cmp.Equal(tried, w.tried) {
		t.Errorf("tried again: %v, before %v", w.tried, tried)
	}
	r.start(t, Enforce, func(c *Config) { c.IRQ = IRQPlace }) // as after a crash
	r.o.Drivers[workload.InDevice] = w
	if _, err := r.Undo(t.Context(), api.Which{ID: "device:eth0"}); err != nil {
		t.Fatal(err)
	}
	r.ticks(t, 3)
	if diff := cmp.Diff(before, w.values()); diff != "" {
		t.Errorf("after undo:\n%s", diff)
	}
	if d := r.device(t); d.State != "held" {
		t.Errorf("%+v", d)
	}
	if err := r.Resume(t.Context(), api.Which{ID: "device:eth0"}); err != nil {
		t.Fatal(err)
	}
	r.clock.step(irqEvery)
	r.ticks(t, 2)
	if d := r.device(t); d.AtHome != 4 {
		t.Errorf("after resume: %+v", d)
	}
}

// An interrupt that the kernel manages is tried once, told of, and has no journal entry.
func TestManagedInterrupts(t *testing.T) {
	r, w := irqRig(t, newMachine(t, 2, 8), Enforce, IRQPlace)
	w.fixed["p/41"] = true
	for range 5 {
		r.ticks(t, 2)
		r.clock.step(irqEvery)
	}
	if w.tried["p/41"] != 1 {
		t.Errorf("tried %d times", w.tried["p/41"])
	}
	if d := r.device(t); d.Fixed != 1 || d.AtHome != 3 || d.Steps != 0 || d.State != "as planned" {
		t.Errorf("%+v", d)
	}
	entries, err := r.store.Journal()
	if err != nil || len(entries) != 3 {
		t.Errorf("journal %+v, %v", entries, err)
	}
	if !r.told(t, "it is not tried again") {
		t.Errorf("history %+v", r.history(t))
	}
}

// One that fails otherwise waits longer each time, and does not stop the others.
func TestInterruptThatFails(t *testing.T) {
	r, w := irqRig(t, newMachine(t, 2, 8), Enforce, IRQPlace)
	w.failing["p/40"] = errBroken
	r.ticks(t, 4) // 8 s
	if w.tried["p/40"] != 1 || r.device(t).State != "failed" || r.device(t).AtHome != 3 {
		t.Errorf("tried %d times, %+v", w.tried["p/40"], r.device(t))
	}
	w.failing = map[string]error{}
	r.clock.step(retryFirst)
	r.ticks(t, 2)
	if d := r.device(t); d.State != "at home" {
		t.Errorf("%+v", d)
	}
}

// What irqbalance owns is left to it.
func TestInterruptsAreLeftToIrqbalance(t *testing.T) {
	r, w := irqRig(t, newMachine(t, 2, 8), Enforce, IRQPlace)
	all, asked := []measure.Manager{{Name: doctor.Irqbalance}}, 0
	withRivals(r, &all, &asked)
	before := w.values()
	r.ticks(t, 4)
	if d := r.device(t); d.State != "left to irqbalance" || !cmp.Equal(before, w.values()) {
		t.Errorf("%+v, %v", d, w.values())
	}
	all = nil
	r.clock.step(rivalsEvery)
	r.ticks(t, 2)
	if d := r.device(t); d.State != "at home" {
		t.Errorf("after irqbalance has stopped: %+v", d)
	}
}

// The number of queues is brought to that of the CPUs, then their interrupts come
// home; undo puts the number back first, and then the interrupts that come back with it.
func TestQueuesAreMatchedAndUndone(t *testing.T) {
	for _, most := range []int{8, 12} { // fewer than, and more than node 1 has CPUs
		r, w := irqRig(t, newMachine(t, 2, 8), Enforce, IRQPlace)
		r.o.Config.IRQQueues = irq.MatchQueues
		w.queues, w.most = 1, most
		if most == 12 {
			w.queues = 12
		}
		w.at = map[string]string{}
		for k := range w.queues {
			w.at[fmt.Sprintf("p/%d", 40+k)] = fmt.Sprint(k) // values of their own
		}
		was, before := w.queues, w.values()
		r.ticks(t, 4)
		if d := r.device(t); w.queues != 8 || d.Queues != 8 || d.MostQueues != most || d.State != "at home" || d.Interrupts != 8 {
			t.Fatalf("%d queues, %+v", w.queues, d)
		}
		if w.tried["p/eth0"] != 1 {
			t.Errorf("set %d times", w.tried["p/eth0"])
		}
		r.clock.step(2 * pruneEvery) // what is not there now comes back with the number
		r.ticks(t, 2)
		if _, err := r.Undo(t.Context(), api.Which{ID: "device:eth0"}); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(before, w.values()); diff != "" || w.queues != was {
			t.Errorf("%d queues after undo, before %d:\n%s", w.queues, was, diff)
		}
		if entries, err := r.store.Journal(); err != nil || len(entries) != 0 {
			t.Errorf("journal %+v, %v", entries, err)
		}
	}
}

// A card that refuses another number keeps it, is told of once, and its interrupts
// come home all the same.
func TestQueuesThatStay(t *testing.T) {
	r, w := irqRig(t, newMachine(t, 2, 8), Enforce, IRQPlace)
	r.o.Config.IRQQueues = irq.MatchQueues
	w.queues, w.most = 4, 8
	w.failing["p/eth0"] = errBroken
	for range 4 {
		r.ticks(t, 2)
		r.clock.step(irqEvery)
	}
	if d := r.device(t); d.AtHome != 4 || d.Steps != 1 || d.State != "failed" {
		t.Errorf("%+v", d)
	}
	told := 0
	for _, e := range r.history(t) {
		if strings.Contains(e.Text, "set-queues") {
			told++
		}
	}
	if told != 1 {
		t.Errorf("told %d times", told)
	}
}
