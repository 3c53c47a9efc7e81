package daemon

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/homenode/homenode/api"
	"github.com/homenode/homenode/core/balance"
	"github.com/homenode/homenode/core/irq"
	"github.com/homenode/homenode/core/plan"
	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/core/workload"
)

// faults lets the nth call fail that a daemon makes to store, drivers, observer and
// recorder, counted together.
type faults struct {
	mu     sync.Mutex
	calls  int
	nth    int  // 0 is none
	full   bool // every write of the store fails
	late   bool
	err    error
	failed string // what failed
}

// call carries out do. The nth is not carried out and fails; if late it is, and fails.
func call[T any](f *faults, what string, do func() (T, error)) (out T, err error) {
	f.mu.Lock()
	f.calls++
	fails := f.calls == f.nth
	if fails {
		f.failed = what
	}
	f.mu.Unlock()
	if fails && !f.late {
		return out, fmt.Errorf("%s: %w", what, f.err)
	}
	if out, err = do(); fails {
		var none T
		return none, fmt.Errorf("%s, done: %w", what, f.err)
	}
	return out, err
}

// write is do for what a full disk refuses.
func (f *faults) write(what string, do func() error) error {
	if f.full {
		return fmt.Errorf("%s: %w", what, syscall.ENOSPC)
	}
	return f.do(what, do)
}

func (f *faults) do(what string, do func() error) error {
	_, err := call(f, what, func() (struct{}, error) { return struct{}{}, do() })
	return err
}

type faultyStore struct {
	Store
	f *faults
}

func (s faultyStore) Intend(w workload.ID, have []plan.Setting, will []string, at time.Time) ([]plan.Entry, error) {
	if s.f.full {
		return nil, syscall.ENOSPC
	}
	return call(s.f, "intend", func() ([]plan.Entry, error) { return s.Store.Intend(w, have, will, at) })
}
func (s faultyStore) Mark(state plan.EntryState, seqs ...uint64) error {
	return s.f.write("mark", func() error { return s.Store.Mark(state, seqs...) })
}
func (s faultyStore) Journal() ([]plan.Entry, error) { return call(s.f, "journal", s.Store.Journal) }
func (s faultyStore) SavePlacements(p []plan.Placement) error {
	return s.f.write("save placements", func() error { return s.Store.SavePlacements(p) })
}
func (s faultyStore) Placements() ([]plan.Placement, error) {
	return call(s.f, "placements", s.Store.Placements)
}
func (s faultyStore) SaveMove(m plan.Move) error {
	return s.f.write("save move", func() error { return s.Store.SaveMove(m) })
}
func (s faultyStore) Moves() ([]plan.Move, error) { return call(s.f, "moves", s.Store.Moves) }
func (s faultyStore) Append(e ...plan.Event) error {
	return s.f.write("append", func() error { return s.Store.Append(e...) })
}
func (s faultyStore) Load(key string, v any) (bool, error) {
	return call(s.f, "load "+key, func() (bool, error) { return s.Store.Load(key, v) })
}
func (s faultyStore) Save(key string, v any) error {
	return s.f.write("save "+key, func() error { return s.Store.Save(key, v) })
}

type faultyDriver struct {
	Driver
	f *faults
}

func (d faultyDriver) Settings(ctx context.Context, s plan.Step) ([]plan.Setting, error) {
	return call(d.f, "settings", func() ([]plan.Setting, error) { return d.Driver.Settings(ctx, s) })
}
func (d faultyDriver) Apply(ctx context.Context, s plan.Step, progress func(plan.Move)) error {
	return d.f.do("apply "+string(s.Kind), func() error { return d.Driver.Apply(ctx, s, progress) })
}
func (d faultyDriver) Restore(ctx context.Context, e plan.Entry) error {
	return d.f.do("restore", func() error { return d.Driver.Restore(ctx, e) })
}
func (d faultyDriver) Present(e plan.Entry) error {
	err := d.f.do("present", func() error { return d.Driver.Present(e) })
	if gone(err) { // whoever is asked whether it is gone must not err in that
		return errBroken
	}
	return err
}
func (d faultyDriver) Devices(ctx context.Context, h *topology.Host) ([]irq.Device, error) {
	return call(d.f, "devices", func() ([]irq.Device, error) { return d.Driver.(Devices).Devices(ctx, h) })
}

type faultyObserver struct {
	Observer
	f *faults
}

func (o faultyObserver) Look(ctx context.Context) (workload.Snapshot, error) {
	return call(o.f, "look", func() (workload.Snapshot, error) { return o.Observer.Look(ctx) })
}

type faultyRecorder struct{ f *faults }

func (r faultyRecorder) Record(balance.Record) error {
	return r.f.do("record", func() error { return nil })
}

// faultRig is a host with work to bring home and interrupts to place.
type faultRig struct {
	*rig
	w       *wires
	f       *faults
	o       Options
	journal map[string]string // value before all, by kind and path
}

func newFaultRig(t *testing.T) *faultRig {
	r, w := irqRig(t, scattered(t), Enforce, IRQPlace)
	x := &faultRig{rig: r, w: w, f: &faults{}, o: r.o, journal: map[string]string{}}
	for id, s := range r.m.live {
		x.journal["cpuset.cpus "+string(id)] = s.obs.CPUs.String()
		x.journal["cpuset.mems "+string(id)] = s.mems.String()
	}
	for path, v := range w.values() {
		x.journal["irq "+path] = v
	}
	return x
}

// start is a daemon whose calls may fail.
func (x *faultRig) start() error {
	o := x.o
	o.Store, o.Observer, o.Recorder = faultyStore{x.o.Store, x.f}, faultyObserver{x.o.Observer, x.f}, faultyRecorder{x.f}
	o.Drivers = map[workload.Kind]Driver{}
	for k, d := range x.o.Drivers {
		o.Drivers[k] = faultyDriver{d, x.f}
	}
	d, err := New(o)
	if err == nil {
		x.Daemon = d
	}
	return err
}

// run is some ticks, whatever comes of them.
func (x *faultRig) run(t *testing.T, ticks int) {
	for range ticks {
		_ = x.Tick(t.Context())
		x.wait()
		x.clock.step(11 * time.Second) // a step that failed once is due again
	}
}

// recorded checks that for all that was changed the value from before is on disk.
func (x *faultRig) recorded(t *testing.T, what string) {
	t.Helper()
	entries, err := x.store.Journal()
	if err != nil {
		t.Fatal(err)
	}
	have := map[string]string{}
	for _, e := range entries {
		have[string(e.Kind)+" "+e.Path] = e.Old
	}
	for path, now := range x.now() {
		if old, ok := have[path]; now != x.journal[path] && (!ok || old != x.journal[path]) {
			t.Errorf("%s: %s is %q, was %q, and the journal says %q", what, path, now, x.journal[path], old)
		}
	}
}

// now is every setting as it stands.
func (x *faultRig) now() map[string]string {
	out := map[string]string{}
	for id, s := range x.m.live {
		out["cpuset.cpus "+string(id)] = s.obs.CPUs.String()
		out["cpuset.mems "+string(id)] = s.mems.String()
	}
	for path, v := range x.w.values() {
		out["irq "+path] = v
	}
	return out
}

// home checks that all is where it belongs.
func (x *faultRig) home(t *testing.T, what string) {
	t.Helper()
	for id, w := range x.status(t) {
		if w.State != "at home" {
			t.Errorf("%s: %s is %q: %s", what, id, w.State, w.Why)
		}
	}
	if d := x.device(t); d.State != "at home" {
		t.Errorf("%s: %s is %q", what, d.Name, d.State)
	}
}

// TestEveryCallFails: whichever call fails, before or after it took effect, nothing is
// changed without a record; the same daemon and the next one bring all work home; undo
// puts everything back, also when it fails once itself.
func TestEveryCallFails(t *testing.T) {
	errnos := []error{syscall.EPERM, syscall.EINVAL, syscall.ENOSPC, syscall.EBUSY, syscall.ESRCH, syscall.ENOENT, syscall.EIO, syscall.EINTR, plan.ErrFixed}
	failed := map[string]bool{}
	for n, ended := 1, false; !ended; n++ {
		for turn := range 6 {
			x := newFaultRig(t)
			x.f.nth, x.f.late, x.f.err = n, turn%2 == 1, errnos[(n+turn*2)%len(errnos)]
			if x.start() != nil {
				if err := x.start(); err != nil {
					t.Fatal(err)
				}
			}
			what := func() string {
				return fmt.Sprintf("call %d (%s) fails with %v, late %v", n, x.f.failed, x.f.err, x.f.late)
			}
			for range 6 {
				x.run(t, 1)
				x.recorded(t, what())
			}
			failed[x.f.failed] = true
			ended, x.f.nth = x.f.failed == "", 0
			restarted := turn >= 2
			if restarted { // the next daemon
				if err := x.start(); err != nil {
					t.Fatal(err)
				}
			}
			x.run(t, 6)
			x.recorded(t, what())
			if x.f.err != plan.ErrFixed || restarted { // what the kernel keeps is not tried again
				x.home(t, what())
			}
			if _, err := x.Undo(t.Context(), api.Which{All: true}); err != nil {
				t.Fatalf("%s: undo: %v", what(), err)
			}
			if diff := cmp.Diff(x.journal, x.now()); diff != "" {
				t.Errorf("%s: undo left\n%s", what(), diff)
			}
			if left, _ := x.store.Journal(); len(left) > 0 {
				t.Errorf("%s: after undo the journal has %+v", what(), left)
			}
			if t.Failed() {
				return
			}
		}
	}
	t.Logf("%d kinds of call: %v", len(failed)-1, failed)
}

// TestUndoWhileEveryCallFails: an undo that fails says so, keeps the records of what it did
// not put back, and the next one ends it.
func TestUndoWhileEveryCallFails(t *testing.T) {
	errnos := []error{syscall.EPERM, syscall.ENOSPC, syscall.EBUSY, syscall.EIO, syscall.ESRCH, syscall.ENOENT}
	for n, ended := 1, false; !ended; n++ {
		for turn := range 4 {
			x := newFaultRig(t)
			if err := x.start(); err != nil {
				t.Fatal(err)
			}
			x.run(t, 6)
			x.f.calls, x.f.nth, x.f.late, x.f.err = 0, n, turn%2 == 1, errnos[(n+turn)%len(errnos)]
			result, err := x.Undo(t.Context(), api.Which{All: true})
			what := fmt.Sprintf("call %d (%s) fails with %v, late %v", n, x.f.failed, x.f.err, x.f.late)
			ended, x.f.nth = x.f.failed == "", 0
			x.recorded(t, what)
			left := !cmp.Equal(x.journal, x.now())
			if left && err == nil && len(result.Failed) == 0 {
				t.Errorf("%s: said to be undone, and is not: %v", what, x.now())
			}
			if _, err := x.Undo(t.Context(), api.Which{All: true}); err != nil {
				t.Fatalf("%s: the next undo: %v", what, err)
			}
			if diff := cmp.Diff(x.journal, x.now()); diff != "" {
				t.Errorf("%s: the next undo left\n%s", what, diff)
			}
			if entries, _ := x.store.Journal(); len(entries) > 0 {
				t.Errorf("%s: after undo the journal has %+v", what, entries)
			}
			if t.Failed() {
				return
			}
		}
	}
}

// TestUndoOnAFullDisk: what was changed goes back though nothing can be written down,
// and the error says so; work that was not resumed is not.
func TestUndoOnAFullDisk(t *testing.T) {
	x := newFaultRig(t)
	if err := x.start(); err != nil {
		t.Fatal(err)
	}
	x.run(t, 6)
	x.f.full = true
	if _, err := x.Undo(t.Context(), api.Which{All: true}); !errors.Is(err, syscall.ENOSPC) {
		t.Errorf("undo: %v", err)
	}
	if diff := cmp.Diff(x.journal, x.now()); diff != "" {
		t.Errorf("undo left\n%s", diff)
	}
	x.run(t, 3)
	if diff := cmp.Diff(x.journal, x.now()); diff != "" {
		t.Errorf("what was undone was changed again:\n%s", diff)
	}
	if err := x.Resume(t.Context(), api.Which{All: true}); !errors.Is(err, syscall.ENOSPC) {
		t.Errorf("resume: %v", err)
	}
	if s, err := x.Status(t.Context()); err != nil || !s.Held {
		t.Errorf("resumed, though it was refused: %v", err)
	}
	x.f.full = false
	if _, err := x.Undo(t.Context(), api.Which{All: true}); err != nil {
		t.Fatal(err)
	}
	if left, _ := x.store.Journal(); len(left) > 0 {
		t.Errorf("journal %+v", left)
	}
}

// TestFullDiskChangesNothing: no journal, no change.
func TestFullDiskChangesNothing(t *testing.T) {
	x := newFaultRig(t)
	if err := x.start(); err != nil {
		t.Fatal(err)
	}
	x.f.full = true
	x.run(t, 6)
	if diff := cmp.Diff(x.journal, x.now()); diff != "" {
		t.Errorf("changed without a record:\n%s", diff)
	}
	x.f.full = false
	x.run(t, 100) // each try waits longer, up to ten minutes
	x.home(t, "with room again")
}
