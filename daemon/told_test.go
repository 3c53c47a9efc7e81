package daemon

import (
	"errors"
	"strings"
	"testing"

	"github.com/homenode/homenode/api"
	"github.com/homenode/homenode/core/plan"
	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/core/workload"
)

func (r *rig) order(id workload.ID, to ...topology.NodeID) (api.MoveAnswer, error) {
	return r.Move(r.m.t.Context(), api.MoveOrder{ID: id, To: topology.Nodes(to...)})
}

// code is the code of a refusal.
func code(err error) api.Code {
	var e *api.Error
	if errors.As(err, &e) {
		return e.Code
	}
	return ""
}

func dedicated(name string, cpus int) func(*Config) {
	return func(c *Config) {
		c.Workloads = append(c.Workloads, Rule{Match: name, Class: workload.Dedicated, CPUs: cpus})
	}
}

func TestToldToMove(t *testing.T) {
	m := newMachine(t, 2, 8)
	a := m.add("a", 2, 1<<20, 0)
	b := m.add("b", 2, 1<<20, 1)
	r := newRig(t, m, Enforce, dedicated("a", 2))
	r.ticks(t, 3)
	from := r.status(t)[a].Home
	to := topology.NodeID(1)
	if from == "1" {
		to = 0
	}
	if x, err := r.order(a, to, topology.NodeID(1-int(to))); err != nil || x.Outcome != plan.Kept {
		t.Fatalf("to both nodes: %+v, %v; its home is one of them", x.Outcome, err)
	}

	before := m.settings()
	dry, err := r.Move(t.Context(), api.MoveOrder{ID: "a", To: topology.Nodes(to), DryRun: true})
	if err != nil || dry.Outcome != plan.Placed || dry.Workload != a || len(dry.Steps) == 0 {
		t.Fatalf("dry run: %+v, %v", dry, err)
	}
	r.ticks(t, 2)
	if w := r.status(t)[a]; w.Home != from || m.settings()[a] != before[a] {
		t.Fatalf("a dry run moved it to %s", w.Home)
	}

	x, err := r.order(a, to)
	if err != nil || x.Outcome != plan.Placed || !x.CPUs.Equal(dry.CPUs) {
		t.Fatalf("%+v, %v; the dry run said CPUs %s", x, err, dry.CPUs)
	}
	if w := r.status(t)[a]; w.State != "queued" || w.Home != topology.Nodes(to).String() {
		t.Errorf("told: state %q, home %s", w.State, w.Home)
	}
	r.ticks(t, 4)
	w := r.status(t)[a]
	if w.State != "at home" || w.CPUSet != x.CPUs.String() || *w.Locality < 0.99 || *w.OnHome < 0.99 {
		t.Errorf("after the move: %+v", w)
	}
	if cpus, _ := topology.ParseCPUSet(r.status(t)[b].CPUSet); cpus.Intersects(x.CPUs) {
		t.Errorf("b runs on CPUs %s, which are %s's now", cpus, a)
	}
	if !r.told(t, "told to move: home is node "+w.Home) {
		t.Error("the history does not tell")
	}
	if past := r.memory.Past; len(past) == 0 || past[len(past)-1].Workload != a {
		t.Errorf("balancing knows nothing of it: %+v", past)
	}
	// A restart keeps what was told.
	r.start(t, Enforce, dedicated("a", 2))
	r.ticks(t, 2)
	if got := r.status(t)[a]; got.Home != w.Home || got.CPUSet != w.CPUSet {
		t.Errorf("after a restart: home %s, CPUs %s", got.Home, got.CPUSet)
	}
	// And undo the value from before all of it.
	if _, err := r.Undo(t.Context(), api.Which{All: true}); err != nil {
		t.Fatal(err)
	}
	if got := m.settings()[a]; got != "0-15 0-1" {
		t.Errorf("after undo: %s", got)
	}
}

func TestToldAndRefused(t *testing.T) {
	m := newMachine(t, 2, 8)
	a := m.add("a", 2, 1<<20, 0)
	full := m.add("full", 2, 7<<20, 1)
	guest := m.add("machine.slice/machine-qemu\\x2d1\\x2dweb.scope", 1, 1<<20, 0)
	left := m.add("left", 2, 1<<20, 0)
	leave := func(c *Config) { c.Manage.Exclude = []string{"left"} }
	for _, c := range []struct {
		name string
		mode Mode
		prep func(r *rig)
		id   workload.ID
		to   []topology.NodeID
		code api.Code
		text string
	}{
		{"unknown", Enforce, nil, "/no", []topology.NodeID{1}, api.NotFound, "no workload"},
		{"no node", Enforce, nil, a, nil, api.BadRequest, "--to"},
		{"no name", Enforce, nil, "", []topology.NodeID{1}, api.BadRequest, "name a workload"},
		{"observe mode", Observe, nil, a, []topology.NodeID{1}, api.Forbidden, "observe mode"},
		{"no room", Enforce, nil, full, []topology.NodeID{0}, api.NoRoom, "not moved"},
		{"libvirt", Enforce, nil, guest, []topology.NodeID{1}, api.NoRoom, "homenode vm move"},
		{"excluded", Enforce, nil, left, []topology.NodeID{1}, api.NoRoom, "manage.exclude"},
		{"all held", Enforce, func(r *rig) { r.held.All = true }, a, []topology.NodeID{1}, api.Forbidden, "resume --all"},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := newRig(t, m, c.mode, leave)
			if c.prep != nil {
				c.prep(r)
			}
			if err := r.Tick(t.Context()); err != nil {
				t.Fatal(err)
			}
			r.wait()
			if c.name == "no room" { // the big one's node is the one it is told to leave
				c.to = []topology.NodeID{1}
				if r.status(t)[full].Home == "1" {
					c.to = []topology.NodeID{0}
				}
				m.add("wall", 2, 4<<20, c.to[0])
				r.ticks(t, 2)
			}
			_, err := r.order(c.id, c.to...)
			if code(err) != c.code || !strings.Contains(err.Error(), c.text) {
				t.Errorf("%v; want %s with %q", err, c.code, c.text)
			}
		})
	}
}

// A cancelled move stops, stays stopped over restarts, and goes on when resumed.
func TestCancelMove(t *testing.T) {
	m := newMachine(t, 2, 8)
	a := m.add("a", 3, 1<<20, 0, 1)
	r := newRig(t, m, Enforce)
	if _, err := r.Move(t.Context(), api.MoveOrder{ID: "/a", Cancel: true}); code(err) != api.NotFound {
		t.Fatalf("before the first look: %v", err)
	}
	half, cancelled := make(chan struct{}), make(chan struct{})
	m.midMove = func(*thing) {
		m.midMove = nil
		close(half)
		<-cancelled
	}
	if err := r.Tick(t.Context()); err != nil {
		t.Fatal(err)
	}
	<-half
	go func() {
		for { // Move waits for the move to end
			r.mu.Lock()
			held := r.held.has(a)
			r.mu.Unlock()
			if held {
				close(cancelled)
				return
			}
		}
	}()
	x, err := r.Move(t.Context(), api.MoveOrder{ID: a, Cancel: true})
	if err != nil || x.Outcome != api.Cancelled || x.Move == nil || x.Move.State != moveCancelled || x.Move.Moved == 0 || x.Move.Moved >= x.Move.Planned {
		t.Fatalf("%+v, %v", x, err)
	}
	moves := m.moves
	r.ticks(t, 5)
	r.start(t, Enforce)
	r.ticks(t, 5)
	if w := r.status(t)[a]; w.State != "held" || *w.OnHome > 0.99 || m.moves != moves {
		t.Fatalf("after cancelling: state %q, %.2f at home, %d moves", w.State, *w.OnHome, m.moves-moves)
	}
	if _, err := r.Move(t.Context(), api.MoveOrder{ID: a, Cancel: true}); code(err) != api.NotFound {
		t.Errorf("twice: %v", err)
	}
	if err := r.Resume(t.Context(), api.Which{ID: a}); err != nil {
		t.Fatal(err)
	}
	r.ticks(t, 3)
	if w := r.status(t)[a]; w.State != "at home" {
		t.Errorf("resumed: state %q", w.State)
	}
}

// An order to move ends the hold of a cancelled move, and the move to the old home.
func TestMoveAfterCancel(t *testing.T) {
	m := newMachine(t, 2, 8)
	a := m.add("a", 3, 1<<20, 0, 1)
	r := newRig(t, m, Enforce)
	half, goOn := make(chan struct{}), make(chan struct{})
	m.midMove = func(*thing) {
		m.midMove = nil
		close(half)
		<-goOn
	}
	if err := r.Tick(t.Context()); err != nil {
		t.Fatal(err)
	}
	<-half
	to := topology.NodeID(1)
	if r.status(t)[a].Home == "1" {
		to = 0
	}
	r.mu.Lock()
	r.held.add(api.Which{ID: a})
	ctx := r.moving[a].ctx
	r.mu.Unlock()
	go func() {
		<-ctx.Done()
		close(goOn)
	}()
	if _, err := r.order(a, to); err != nil {
		t.Fatal(err)
	}
	r.ticks(t, 4)
	if w := r.status(t)[a]; w.Home != topology.Nodes(to).String() || w.State != "at home" || *w.OnHome < 0.99 {
		t.Errorf("home %s, state %q, %.2f at home", w.Home, w.State, *w.OnHome)
	}
}

// An order to the home that it has already ends the hold of its cancelled move too.
func TestMoveHomeAfterCancel(t *testing.T) {
	m := newMachine(t, 2, 8)
	a := m.add("a", 3, 1<<20, 0, 1)
	r := newRig(t, m, Enforce)
	m.stuck = true
	r.ticks(t, 1)
	m.stuck = false
	if err := Hold(r.store, api.Which{ID: a}); err != nil {
		t.Fatal(err)
	}
	r.start(t, Enforce)
	r.ticks(t, 1)
	home, err := topology.ParseNodeSet(r.status(t)[a].Home)
	if err != nil {
		t.Fatal(err)
	}
	if x, err := r.Move(t.Context(), api.MoveOrder{ID: a, To: home, DryRun: true}); err != nil || x.Outcome != plan.Kept || !r.held.has(a) {
		t.Fatalf("dry run: %+v, %v, held %v", x.Outcome, err, r.held.has(a))
	}
	if x, err := r.Move(t.Context(), api.MoveOrder{ID: a, To: home}); err != nil || x.Outcome != plan.Kept {
		t.Fatalf("%+v, %v", x.Outcome, err)
	}
	r.start(t, Enforce)
	r.ticks(t, 3)
	if w := r.status(t)[a]; w.State != "at home" || *w.OnHome < 0.99 {
		t.Errorf("state %q, %.2f at home", w.State, *w.OnHome)
	}
}

// full is a store that cannot write some keys.
type full struct {
	Store
	key string
}

func (f *full) Save(key string, v any) error {
	if key == f.key {
		return errBroken
	}
	return f.Store.Save(key, v)
}

// What an operator ordered is known to balancing after a crash, and after a disk
// that was full for a while: the ban on going back counts from it.
func TestToldIsNotForgotten(t *testing.T) {
	for _, key := range []string{"", keyPast, keyWants} {
		m := newMachine(t, 2, 8)
		a := m.add("a", 2, 1<<20, 0)
		r := newRig(t, m, Enforce)
		r.ticks(t, 3)
		to := topology.NodeID(1)
		if r.status(t)[a].Home == "1" {
			to = 0
		}
		if _, err := r.order(a, to); err != nil {
			t.Fatal(err)
		}
		if key != "" {
			r.fewer = true
			r.o.Store = &full{r.store, key}
			for range 2 {
				err := r.Tick(t.Context())
				if r.wait(); key == keyWants && err == nil {
					t.Fatalf("no error although %q cannot be written", key)
				}
			}
			r.o.Store = r.store
			r.ticks(t, 1)
		}
		r.start(t, Enforce)
		if past := r.memory.Past; len(past) != 1 || past[0].Workload != a || !past[0].To.Equal(topology.Nodes(to)) {
			t.Errorf("%q: after a restart: %+v", key, past)
		}
	}
}

// One who changes the home while the disk is full is told so, and nothing is changed.
func TestToldOnAFullDisk(t *testing.T) {
	m := newMachine(t, 2, 8)
	a := m.add("a", 2, 1<<20, 0)
	r := newRig(t, m, Enforce)
	r.ticks(t, 3)
	home := r.status(t)[a].Home
	to := topology.NodeID(1)
	if home == "1" {
		to = 0
	}
	r.o.Store = &full{r.store, keyPast}
	if _, err := r.order(a, to); err == nil || r.status(t)[a].Home != home {
		t.Errorf("%v, home %s, before %s", err, r.status(t)[a].Home, home)
	}
}
