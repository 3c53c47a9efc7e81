package daemon

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/homenode/homenode/api"
	"github.com/homenode/homenode/core/control"
	"github.com/homenode/homenode/core/plan"
	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/core/workload"
	"github.com/homenode/homenode/daemon/memory"
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

// called carries out do. The nth is not carried out and fails; if late it is, and fails.
func called[T any](f *faults, what string, do func() (T, error)) (out T, err error) {
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

func (f *faults) do(what string, do func() error) error {
	_, err := called(f, what, func() (struct{}, error) { return struct{}{}, do() })
	return err
}

type faultyStore struct {
	Store
	f *faults
}

func (s faultyStore) Journal() ([]plan.Entry, error) { return called(s.f, "journal", s.Store.Journal) }
func (s faultyStore) LastSeq() (uint64, error)       { return called(s.f, "last seq", s.Store.LastSeq) }
func (s faultyStore) Placements() ([]plan.Placement, error) {
	return called(s.f, "placements", s.Store.Placements)
}
func (s faultyStore) Moves() ([]plan.Move, error) { return called(s.f, "moves", s.Store.Moves) }
func (s faultyStore) History(q plan.EventQuery) ([]plan.Event, error) {
	return called(s.f, "history", func() ([]plan.Event, error) { return s.Store.History(q) })
}
func (s faultyStore) Load(key string, v any) (bool, error) {
	return called(s.f, "load "+key, func() (bool, error) { return s.Store.Load(key, v) })
}
func (s faultyStore) Commit(b plan.Batch) error {
	if s.f.full {
		return fmt.Errorf("commit: %w", syscall.ENOSPC)
	}
	var parts []string
	for part, has := range map[string]bool{"entries": len(b.Entries) > 0, "placements": b.Placements != nil, "moves": len(b.Moves) > 0, "values": len(b.Values) > 0, "events": len(b.Events) > 0} {
		if has {
			parts = append(parts, part)
		}
	}
	slices.Sort(parts)
	return s.f.do("commit "+strings.Join(parts, "+"), func() error { return s.Store.Commit(b) })
}

type faultyDriver struct {
	Driver
	f *faults
}

func (d faultyDriver) Changes(ctx context.Context, s plan.Step) ([]plan.Change, error) {
	return called(d.f, "changes "+string(s.Kind), func() ([]plan.Change, error) { return d.Driver.Changes(ctx, s) })
}
func (d faultyDriver) Apply(ctx context.Context, s plan.Step, progress func(plan.Move)) error {
	return d.f.do("apply "+string(s.Kind), func() error { return d.Driver.Apply(ctx, s, progress) })
}
func (d faultyDriver) Read(ctx context.Context, e plan.Entry) (plan.Setting, error) {
	return called(d.f, "read "+string(e.Kind), func() (plan.Setting, error) { return d.Driver.Read(ctx, e) })
}
func (d faultyDriver) Restore(ctx context.Context, all []plan.Entry) []error {
	errs := make([]error, len(all))
	for i, e := range all {
		errs[i] = d.f.do("restore "+string(e.Kind), func() error { return d.Driver.Restore(ctx, []plan.Entry{e})[0] })
	}
	return errs
}
func (d faultyDriver) Present(e plan.Entry) error {
	err := d.f.do("present", func() error { return d.Driver.Present(e) })
	if isGone(err) { // whoever is asked whether it is gone must not err in that
		return errBroken
	}
	return err
}

type faultyObserver struct {
	Observer
	f *faults
}

func (o faultyObserver) Look(ctx context.Context, with control.Attention) (workload.Snapshot, error) {
	return called(o.f, "look", func() (workload.Snapshot, error) { return o.Observer.Look(ctx, with) })
}

// faultRig is a host with work to bring home and interrupts to place.
type faultRig struct {
	*rig
	w       *wires
	f       *faults
	journal map[string]string // value before all, by kind and path
}

func newFaultRig(t *testing.T) *faultRig {
	x := &faultRig{w: newWires(), f: &faults{}, journal: map[string]string{}}
	m := scattered(t)
	x.rig = &rig{m: m, clock: &handClock{now: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)}, store: memory.New(), change: []func(*Options){func(o *Options) {
		o.Settings.Interrupts, o.Settings.Surveys = control.InterruptsPlace, []control.SurveyKind{control.Interrupts}
		o.Drivers[workload.InDevice] = x.w
		for k, d := range o.Drivers {
			o.Drivers[k] = faultyDriver{d, x.f}
		}
		o.Store, o.Observer = faultyStore{o.Store, x.f}, faultyObserver{o.Observer, x.f}
		o.Surveys = map[control.SurveyKind]Surveyor{control.Interrupts: func(_ context.Context, s *workload.Snapshot) (control.Survey, error) {
			return called(x.f, "devices", func() (control.Survey, error) { return control.Survey{Devices: x.w.devices()}, nil })
		}}
	}}}
	m.devices = []topology.Device{{Name: "eth0", PCI: x.w.pci, Kind: topology.NIC, Node: 1}}
	for path, v := range x.now() {
		x.journal[path] = v
	}
	return x
}

// start is a daemon whose calls may fail.
func (x *faultRig) start() error {
	d, err := New(x.options(true))
	if err != nil {
		return err
	}
	if x.Daemon != nil {
		x.Daemon.stop()
	}
	x.Daemon = d
	x.next(control.Input{Started: &control.Started{Version: "test", Period: x.o.Period}})
	x.ready = true // a scan that fails is not the end
	return nil
}

// run is some rounds, whatever comes of them.
func (x *faultRig) run(rounds int) {
	for range rounds {
		x.ticks(1)
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
		if w.State != api.StateAtHome {
			t.Errorf("%s: %s is %q: %s", what, id, w.State, w.Why)
		}
	}
	s, err := x.Status(t.Context())
	if err != nil || len(s.Devices) != 1 || s.Devices[0].State != api.StateAtHome {
		t.Errorf("%s: devices %+v, %v", what, s.Devices, err)
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
				x.run(1)
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
			x.run(6)
			x.recorded(t, what())
			if x.f.err != plan.ErrFixed || restarted { // what the kernel keeps is not tried again
				x.home(t, what())
			}
			if _, err := x.undo(api.Which{All: true}); err != nil {
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
			x.run(6)
			x.f.calls, x.f.nth, x.f.late, x.f.err = 0, n, turn%2 == 1, errnos[(n+turn)%len(errnos)]
			result, err := x.undo(api.Which{All: true})
			what := fmt.Sprintf("call %d (%s) fails with %v, late %v", n, x.f.failed, x.f.err, x.f.late)
			ended, x.f.nth = x.f.failed == "", 0
			x.recorded(t, what)
			left := !cmp.Equal(x.journal, x.now())
			if left && err == nil && len(result.Failed) == 0 {
				t.Errorf("%s: said to be undone, and is not: %v", what, x.now())
			}
			if _, err := x.undo(api.Which{All: true}); err != nil {
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

// TestUndoOnAFullDisk: what was changed goes back though nothing can be written down, and
// the error says so; once there is room it is written.
func TestUndoOnAFullDisk(t *testing.T) {
	x := newFaultRig(t)
	if err := x.start(); err != nil {
		t.Fatal(err)
	}
	x.run(6)
	x.f.full = true
	unwritten := func(err error) bool {
		return err != nil && strings.Contains(err.Error(), "cannot be written down") && strings.Contains(err.Error(), syscall.ENOSPC.Error())
	}
	if _, err := x.undo(api.Which{All: true}); !unwritten(err) {
		t.Errorf("undo: %v", err)
	}
	if diff := cmp.Diff(x.journal, x.now()); diff != "" {
		t.Errorf("undo left\n%s", diff)
	}
	x.run(3)
	if diff := cmp.Diff(x.journal, x.now()); diff != "" {
		t.Errorf("what was undone was changed again:\n%s", diff)
	}
	if err := x.resume(api.Which{All: true}); !unwritten(err) {
		t.Errorf("resume: %v", err)
	}
	x.run(3)
	if diff := cmp.Diff(x.journal, x.now()); diff != "" {
		t.Errorf("changed without a record:\n%s", diff)
	}
	x.f.full = false
	if _, err := x.undo(api.Which{All: true}); err != nil {
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
	x.run(6)
	if diff := cmp.Diff(x.journal, x.now()); diff != "" {
		t.Errorf("changed without a record:\n%s", diff)
	}
	x.f.full = false
	x.run(100) // each try waits longer, up to ten minutes
	x.home(t, "with room again")
}
