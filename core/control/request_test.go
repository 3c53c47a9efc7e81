package control

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/homenode/homenode/core/control/homes"
	"github.com/homenode/homenode/core/control/work"
	"github.com/homenode/homenode/core/place"
	"github.com/homenode/homenode/core/plan"
	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/core/words"
	"github.com/homenode/homenode/core/workload"
)

func TestOrder(t *testing.T) {
	f := newFake(t, 2, 8, ruled(workload.Rule{Match: "a", Class: workload.Dedicated, CPUs: 2}))
	a, b := f.add("a", 2, 1<<20, 0), f.add("b", 2, 1<<20, 1)
	before := f.all()
	f.scan(4)
	from, to := f.home(a), topology.NodeID(1)
	if from == "1" {
		to = 0
	}
	if r := f.order(a, 0, 1); r.Move == nil || r.Move.Outcome != plan.Kept || r.Move.To.String() != from {
		t.Fatalf("to both nodes: %s", asJSON(t, r))
	}
	settings := f.all()
	dry := f.ask(Request{Move: &MoveRequest{ID: "a", To: topology.Nodes(to), DryRun: true}})
	if dry.Failed != nil || dry.Move.Outcome != plan.Placed || dry.Move.Workload != a || len(dry.Move.Steps) == 0 || dry.Move.From.String() != from {
		t.Fatalf("dry run: %s", asJSON(t, dry))
	}
	for _, s := range dry.Move.Steps {
		if s.Workload != a {
			t.Errorf("a step of another: %+v", s)
		}
	}
	f.scan(2)
	if diff := cmp.Diff(settings, f.all()); diff != "" || f.home(a) != from {
		t.Fatalf("a dry run moved it to %s:\n%s", f.home(a), diff)
	}
	r := f.order(a, to)
	if r.Failed != nil || r.Move.Outcome != plan.Placed || !r.Move.CPUs.Equal(dry.Move.CPUs) || f.home(a) != topology.Nodes(to).String() {
		t.Fatalf("%s", asJSON(t, r))
	}
	if past := f.disk.saved(t).Past; len(past) != 1 || past[0].Workload != a {
		t.Errorf("on disk %+v", past)
	}
	f.scan(4)
	if !f.settled(a) || f.cpus(a) != r.Move.CPUs.String() || f.told(words.MovedByOrder) != 1 {
		t.Errorf("a is on %s", f.cpus(a))
	}
	if cpus, _ := topology.ParseCPUSet(f.cpus(b)); cpus.Intersects(r.Move.CPUs) {
		t.Errorf("b runs on %s, which are a's now", f.cpus(b))
	}
	if past := f.s.History.Changes; len(past) == 0 || past[len(past)-1].Workload != a || len(f.s.Orders) != 0 {
		t.Errorf("balancing knows nothing of it: %+v", past)
	}
	f.start()
	if past := f.s.History.Changes; len(past) == 0 {
		t.Error("forgotten by the next daemon")
	}
	f.scan(2)
	if f.home(a) != topology.Nodes(to).String() || !f.settled(a) {
		t.Errorf("after a restart: home %s", f.home(a))
	}
	f.undo("")
	if diff := cmp.Diff(before, f.all()); diff != "" {
		t.Errorf("after undo:\n%s", diff)
	}
}

func TestOrderThatIsRefused(t *testing.T) {
	f := newFake(t, 2, 8, func(s *Settings) { s.Exclude = []string{"left"} })
	a, left := f.add("a", 2, 1<<20, 0), f.add("left", 2, 1<<20, 0)
	full := f.add("full", 2, 7<<20, 1)
	f.add("b/twin", 1, 1<<18, 0)
	f.add("c/twin", 1, 1<<18, 0)
	f.works["/b/twin"].obs.Name, f.works["/c/twin"].obs.Name = "twin", "twin"
	if r := f.order(a, 1); r.Failed == nil || r.Failed.Code != NotFound {
		t.Errorf("before the first scan: %+v", r)
	}
	f.scan(4)
	wall := topology.NodeID(0)
	if f.home(full) == "0" {
		wall = 1
	}
	f.add("wall", 2, 4<<20, wall)
	f.scan(2)
	for _, c := range []struct {
		name string
		r    Reply
		code Code
	}{
		{"unknown", f.order("/no", 1), NotFound},
		{"no node", f.order(a), BadRequest},
		{"no name", f.order("", 1), BadRequest},
		{"two of a name", f.order("twin", 1), BadRequest},
		{"excluded", f.order(left, 1), NoRoom},
		{"no room", f.order(full, wall), NoRoom},
		{"nothing asked", f.ask(Request{}), BadRequest},
	} {
		if c.r.Failed == nil || c.r.Failed.Code != c.code || c.r.Failed.Text == "" {
			t.Errorf("%s: %s; want %s", c.name, asJSON(t, c.r), c.code)
		}
	}
	f.s.Holds.All, f.twin.Holds.All = true, true
	if r := f.order(a, 1); r.Failed == nil || r.Failed.Code != Forbidden {
		t.Errorf("all held: %s", asJSON(t, r))
	}
	f.start(observing)
	f.scan(1)
	if r := f.order(a, 1); r.Failed == nil || r.Failed.Code != Forbidden {
		t.Errorf("observe mode: %s", asJSON(t, r))
	}
	if r := f.ask(Request{Move: &MoveRequest{ID: a, To: topology.Nodes(0, 1), DryRun: true}}); r.Failed != nil {
		t.Errorf("a dry run in observe mode: %s", asJSON(t, r))
	}
}

// A cancelled move stops, stays stopped over restarts, and goes on when resumed.
func TestCancelMove(t *testing.T) {
	f := newFake(t, 2, 8)
	a := f.add("a", 3, 1<<20, 0, 1)
	cancel := func(dry bool) Reply { return f.ask(Request{Move: &MoveRequest{ID: a, Cancel: true, DryRun: dry}}) }
	if r := cancel(false); r.Failed == nil || r.Failed.Code != NotFound {
		t.Errorf("before the first scan: %s", asJSON(t, r))
	}
	f.mid = func(e *Effect) {
		f.mid = nil
		if r := cancel(true); r.Move == nil || r.Move.Outcome != plan.Cancelled || f.stopped[e.ID] || f.s.Holds.Has(a) {
			t.Errorf("dry run: %s", asJSON(t, r))
		}
		r := cancel(false)
		if r.Move == nil || r.Move.Move == nil || r.Move.Move.Moved == 0 || r.Move.To.Empty() || !f.stopped[e.ID] {
			t.Errorf("%s", asJSON(t, r))
		}
	}
	f.scan(1)
	if m := f.s.Moves[a]; m.State != work.MoveCancelled || m.Moved >= m.Planned || f.told(words.MoveCancelledByHand) != 1 {
		t.Errorf("%+v", m)
	}
	f.scan(5)
	f.start()
	f.scan(5)
	if !f.s.Holds.Has(a) || f.onHome(a) > 0.99 || len(f.applies(plan.MovePages)) != 1 {
		t.Errorf("after cancelling %.2f at home", f.onHome(a))
	}
	if r := cancel(false); r.Failed == nil || r.Failed.Code != NotFound {
		t.Errorf("twice: %s", asJSON(t, r))
	}
	f.resume(a)
	f.scan(3)
	if !f.settled(a) {
		t.Error("resumed, and not at home")
	}
}

// One that waits can be cancelled too.
func TestCancelMoveThatWaits(t *testing.T) {
	f := newFake(t, 2, 8)
	a := f.add("a", 3, 1<<20, 0, 1)
	f.stuck = true
	f.scan(1)
	if f.s.Tasks[a] != nil || !f.s.restOf(a) {
		// it is planned again at the next scan
		f.scan(1)
	}
	if r := f.ask(Request{Move: &MoveRequest{ID: a, Cancel: true}}); r.Move == nil || r.Move.Outcome != plan.Cancelled || r.Move.Move != nil || !f.s.Holds.Has(a) {
		t.Errorf("%s", asJSON(t, r))
	}
}

// An order ends the hold of a cancelled move, also one to the home that it has.
func TestOrderAfterCancel(t *testing.T) {
	f := newFake(t, 2, 8)
	a := f.add("a", 3, 1<<20, 0, 1)
	f.stuck = true
	f.scan(2)
	f.stuck = false
	f.ask(Request{Move: &MoveRequest{ID: a, Cancel: true}})
	home, _ := topology.ParseNodeSet(f.home(a))
	f.start()
	f.scan(1)
	if r := f.ask(Request{Move: &MoveRequest{ID: a, To: home, DryRun: true}}); r.Move == nil || r.Move.Outcome != plan.Kept || !f.s.Holds.Has(a) {
		t.Fatalf("dry run: %s", asJSON(t, r))
	}
	if r := f.ask(Request{Move: &MoveRequest{ID: a, To: home}}); r.Move == nil || r.Move.Outcome != plan.Kept || f.s.Holds.Has(a) {
		t.Fatalf("%s", asJSON(t, r))
	}
	f.start()
	f.scan(3)
	if !f.settled(a) {
		t.Error("not at home")
	}
}

func TestPlaceWritesTheLedger(t *testing.T) {
	f := newFake(t, 2, 8, observing)
	spec := workload.Spec{Name: "db", Class: workload.Dedicated, CPUs: 6, Memory: 1 << 20}
	place := func(pid int) Reply {
		return f.ask(Request{Place: &PlaceRequest{Spec: spec, Process: workload.Process{PID: pid, Start: 9}}})
	}
	if r := place(1); r.Failed == nil || r.Failed.Code != Failed {
		t.Errorf("before the first scan: %s", asJSON(t, r))
	}
	f.scan(1)
	if r := place(0); r.Failed != nil || r.Place.Ledger || len(f.disk.placements) != 0 || len(f.s.Admissions) != 0 {
		t.Fatalf("asking only: %s", asJSON(t, r))
	}
	one := place(4711)
	if one.Failed != nil || !one.Place.Ledger || one.Place.Placement.CPUs.Len() != 6 || one.Place.Placement.Start != 9 || len(f.disk.placements) != 1 {
		t.Fatalf("placing: %s", asJSON(t, one))
	}
	two := place(4712)
	if two.Failed != nil || two.Place.Placement.CPUs.Intersects(one.Place.Placement.CPUs) {
		t.Fatalf("the second: %s", asJSON(t, two))
	}
	if r := place(4713); r.Failed == nil || r.Failed.Code != NoRoom || r.Place == nil || r.Place.Decision.Outcome != plan.Refused {
		t.Errorf("a third on 16 CPUs: %s", asJSON(t, r))
	}
	if got := registered(f); len(got) != 2 || got[0].PID != 4711 {
		t.Errorf("registered: %v", got)
	}
	if f.told(words.RequestDecided) != 3 {
		t.Errorf("told %d times", f.told(words.RequestDecided))
	}
	if d := chosen(f, "pid:4711"); d.Outcome != plan.Placed || !f.s.Given["pid:4711"].Equal(one.Place.Placement.CPUs) {
		t.Errorf("%+v", d)
	}
	f.start()
	if got := registered(f); len(got) != 2 || !f.s.Given["pid:4711"].Equal(one.Place.Placement.CPUs) {
		t.Errorf("after a restart: %v", got)
	}
	if f.scan(1); len(registered(f)) != 0 { // a scan of the next daemon is newer than all of this one
		t.Errorf("never seen, and registered: %v", registered(f))
	}
}

func TestBadPlaceRequests(t *testing.T) {
	f := newFake(t, 2, 8)
	f.scan(1)
	ok := workload.Spec{Class: workload.Shared, CPUs: 1}
	with := func(change func(*PlaceRequest)) *PlaceRequest {
		r := PlaceRequest{Spec: ok}
		change(&r)
		return &r
	}
	for _, c := range []struct {
		r   *PlaceRequest
		bad bool
	}{
		{with(func(*PlaceRequest) {}), false},
		{with(func(r *PlaceRequest) { r.Spec.Class = "gold" }), true},
		{with(func(r *PlaceRequest) { r.Spec.CPUs = 0 }), true},
		{with(func(r *PlaceRequest) { r.Spec.CPUs = topology.MaxID + 1 }), true},
		{with(func(r *PlaceRequest) { r.Spec.Memory = -1 }), true},
		{with(func(r *PlaceRequest) { r.Spec.Memory = 1<<50 + 1 }), true},
		{with(func(r *PlaceRequest) { r.Spec.HugePage = -1 }), true},
		{with(func(r *PlaceRequest) { r.Spec.HugePage = 1<<25 + 1 }), true},
		{with(func(r *PlaceRequest) { r.Process.PID = -1 }), true},
		{with(func(r *PlaceRequest) { r.Hold = time.Second }), true},
		{with(func(r *PlaceRequest) { r.Spec.ID, r.Hold = "x", -time.Second }), true},
		{with(func(r *PlaceRequest) { r.Spec.ID, r.Hold = "x", homes.MostHold+time.Second }), true},
		{with(func(r *PlaceRequest) { r.Spec.ID, r.Hold = "x", homes.MostHold }), false},
		{with(func(r *PlaceRequest) { r.Spec.SMT = "maybe" }), true},
		{with(func(r *PlaceRequest) { r.Spec.SMT = workload.SMTPrefer }), false},
		{with(func(r *PlaceRequest) { r.Spec.SMT = workload.SMTRequire }), false},
		{with(func(r *PlaceRequest) { r.Spec.SMT = workload.SMTIsolate }), false},
	} {
		r := f.ask(Request{Place: c.r})
		if bad := r.Failed != nil && r.Failed.Code == BadRequest; bad != c.bad {
			t.Errorf("%s: %s", asJSON(t, c.r), asJSON(t, r))
		}
	}
}

// A home that is given while a scan goes on stands; the next scan must have seen it.
// TestExact: what a person puts somewhere stays there, is left alone with a reason, and others
// are told: its CPUs go to no other dedicated work, neither at once nor after the next scan.
func TestExact(t *testing.T) {
	f := newFake(t, 2, 8)
	f.scan(1)
	exact := func(pid int, class workload.Class, cpus, nodes string) Reply {
		c, _ := topology.ParseCPUSet(cpus)
		n, _ := topology.ParseNodeSet(nodes)
		r := f.ask(Request{Place: &PlaceRequest{Spec: workload.Spec{Name: "x", Class: class, CPUs: max(1, c.Len()), Given: true},
			Process: workload.Process{PID: pid, Start: 7}, Exact: &Exact{CPUs: c, Nodes: n}}})
		return r
	}
	for _, bad := range []Reply{exact(50, workload.Shared, "", ""), exact(50, workload.Dedicated, "", "1")} {
		if bad.Failed == nil || bad.Failed.Code != BadRequest {
			t.Errorf("nothing named: %s", asJSON(t, bad))
		}
	}
	host := f.s.Snapshot.Host
	first, second := host.Nodes[0].CPUs, host.Nodes[1].CPUs
	r := exact(60, workload.Dedicated, first.String(), "")
	if r.Failed != nil || !r.Place.Ledger || !r.Place.Placement.CPUs.Equal(first) || r.Place.Placement.Home.String() != "0" {
		t.Fatalf("%s", asJSON(t, r))
	}
	if r := exact(61, workload.Dedicated, first.String(), ""); r.Failed != nil || r.Place.Decision.Reasons[0].Code != words.ExactTaken {
		t.Errorf("a second on the same CPUs is not refused, and told: %s", asJSON(t, r))
	}
	if r := exact(62, workload.Shared, "", "1"); r.Failed != nil || r.Place.Placement.Home.String() != "1" || !r.Place.Placement.CPUs.Empty() {
		t.Errorf("memory only: %s", asJSON(t, r))
	}
	if f.told(words.RequestExact) != 2 || f.told(words.RequestExactMemory) != 1 || len(f.disk.saved(t).Admissions) != 3 {
		t.Errorf("told %d times, %d on disk", f.told(words.RequestExact), len(f.disk.saved(t).Admissions))
	}
	for range 2 { // before it was seen, and afterwards
		for range 2 {
			r := f.ask(Request{Place: &PlaceRequest{Spec: workload.Spec{Name: "d", Class: workload.Dedicated, CPUs: 2, Given: true}}})
			if r.Failed != nil || !r.Place.Placement.CPUs.SubsetOf(second) {
				t.Errorf("others: %s", asJSON(t, r))
			}
		}
		f.addProcess(60, "x", 2, 1<<20, 0)
		f.scan(1)
		if !f.leftAlone("pid:60", words.NamedByHand) {
			t.Error("not left alone")
		}
	}
	f.remove("pid:60")
	f.scan(2)
	r = f.ask(Request{Place: &PlaceRequest{Spec: workload.Spec{Name: "d", Class: workload.Dedicated, CPUs: 8, Given: true}}})
	if r.Failed != nil || len(f.s.Admissions) != 0 {
		t.Errorf("after its end %+v: %s", f.s.Admissions, asJSON(t, r))
	}
}

func TestPlaceDuringAScan(t *testing.T) {
	f := newFake(t, 2, 8, observing)
	f.scan(1)
	scan := f.begin()
	r := f.admit(4711, workload.Dedicated, 4)
	f.end(scan)
	if len(f.disk.placements) != 1 || !f.disk.placements[0].CPUs.Equal(r.Place.Placement.CPUs) || len(registered(f)) != 1 || chosen(f, "pid:4711").Outcome != plan.Placed {
		t.Fatalf("ledger %+v", f.disk.placements)
	}
	f.scan(1)
	if len(f.disk.placements) != 0 || len(registered(f)) != 0 || len(f.disk.saved(t).Admissions) != 0 || len(f.s.Given) != 0 {
		t.Errorf("gone, but still in the ledger: %+v", f.disk.placements)
	}
}

// Whoever asks after a scan does not wait for a ledger, where somebody has asked before.
func TestLedgerAfterAScan(t *testing.T) {
	f := scattered(t)
	f.scan(2)
	if f.s.HasLedger() {
		t.Error("nobody has asked")
	}
	f.ask(Request{Place: &PlaceRequest{Spec: workload.Spec{Class: workload.Shared, CPUs: 1}}})
	f.scan(1)
	if !f.s.HasLedger() {
		t.Error("the next has to wait")
	}
}

// What `homenode run` booked stays booked until the process ends, on a host of one node
// as well.
func TestPlacedUntilItEnds(t *testing.T) {
	f := newFake(t, 1, 4)
	f.scan(1)
	r := f.admit(77, workload.Dedicated, 3)
	if r.Failed != nil {
		t.Fatal(r.Failed)
	}
	id := f.addProcess(77, "x", 1, 1<<20, 0)
	f.set(plan.Affinity, "77@7", r.Place.Placement.CPUs.String())
	f.scan(3)
	v := f.s.View()
	if spec := v.SpecOf(id); spec.Name != "db" || spec.Class != workload.Dedicated || spec.CPUs != 3 || f.s.Observation(id).Name != "db" {
		t.Errorf("%+v", spec)
	}
	if p := f.placement(id); p == nil || !p.CPUs.Equal(r.Place.Placement.CPUs) || p.Start != 7 {
		t.Errorf("%+v", p)
	}
	if again := f.admit(78, workload.Dedicated, 3); again.Failed == nil || again.Failed.Code != NoRoom {
		t.Errorf("given out again: %s", asJSON(t, again))
	}
	if f.toldOf(id, words.Decided) != 0 || f.toldOf(id, words.RequestDecided) != 1 {
		t.Error("told twice that it was placed")
	}
	f.remove(id)
	f.scan(1)
	if again := f.admit(78, workload.Dedicated, 3); again.Failed != nil {
		t.Errorf("after the first has ended: %s", asJSON(t, again))
	}
	// Another process with its PID is not it.
	id = f.addProcess(78, "x", 1, 1<<20, 0)
	f.works[id].obs.Processes[0].Start = 8
	f.scan(1)
	if n := len(registered(f)); n != 0 {
		t.Errorf("%d registered when its PID has gone to another", n)
	}
}

// What comes from elsewhere at the same time does not get the same CPUs, although no
// source shows any of it yet.
func TestHomesAreHeldForWhatComes(t *testing.T) {
	f := newFake(t, 1, 8, observing)
	f.scan(1)
	ask := func(name string) Reply {
		return f.ask(Request{Place: &PlaceRequest{Spec: workload.Spec{ID: workload.ID("m:" + name), Name: name, Class: workload.Dedicated, CPUs: 4}, Hold: time.Minute}})
	}
	a := ask("a")
	if a.Failed != nil || a.Place.Ledger {
		t.Fatal(asJSON(t, a))
	}
	if again := ask("a"); again.Failed != nil || !again.Place.Placement.CPUs.Equal(a.Place.Placement.CPUs) {
		t.Errorf("asked again: %s", asJSON(t, again))
	}
	b := ask("b")
	if b.Failed != nil || b.Place.Placement.CPUs.Intersects(a.Place.Placement.CPUs) {
		t.Fatal(asJSON(t, b))
	}
	f.scan(2)
	if c := ask("c"); c.Failed == nil || c.Failed.Code != NoRoom {
		t.Errorf("c: %s", asJSON(t, c))
	}
	m := f.define(pinnedMachine("a", 0, a.Place.Placement.CPUs.Slice()...))
	f.boot(m, 0)
	f.scan(1)
	if len(f.s.Admissions) != 1 {
		t.Errorf("%+v", f.s.Admissions)
	}
	f.after(time.Minute + time.Second)
	f.scan(1)
	if c := ask("c"); c.Failed != nil || !c.Place.Placement.CPUs.Equal(b.Place.Placement.CPUs) {
		t.Errorf("b did not come, and c: %s", asJSON(t, c))
	}
	f.after(time.Minute + time.Second)
	f.scan(1)
	if n := len(f.s.Placements()); n != 1 || len(f.s.Admissions) != 0 {
		t.Errorf("%d homes for one machine, %+v", n, f.s.Admissions)
	}
}

// What is held is held for longer, as it is, when the same is asked again, also by a daemon
// that was started again; it is let go when that is asked.
func TestHeldForLongerAndLetGo(t *testing.T) {
	f := newFake(t, 2, 8, observing)
	f.scan(1)
	hold := func(id workload.ID, node topology.NodeID, cpus int) Reply {
		return f.ask(Request{Place: &PlaceRequest{Spec: workload.Spec{ID: id, Class: workload.Dedicated, CPUs: cpus, Memory: 1 << 10, Nodes: topology.Nodes(node)}, Hold: time.Minute}})
	}
	left := func() string {
		v := f.s.View()
		return fmt.Sprint(v.Left("")[0].CPUs, v.Left("")[1].CPUs, " ", v.Left("claim:")[0].CPUs, v.Left("claim:")[1].CPUs)
	}
	a, other := hold("claim:a", 1, 3), hold("b", 0, 1)
	if a.Failed != nil || other.Failed != nil || !a.Place.Placement.Home.Equal(topology.Nodes(1)) {
		t.Fatal(asJSON(t, a), asJSON(t, other))
	}
	if got := left(); got != "7 5 7 8" {
		t.Errorf("left %s", got)
	}
	f.start()
	f.scan(1)
	f.after(50 * time.Second)
	if again := hold("claim:a", 1, 3); again.Failed != nil || again.Place.Decision.Outcome != plan.Kept || !again.Place.Placement.CPUs.Equal(a.Place.Placement.CPUs) {
		t.Errorf("asked again: %s", asJSON(t, again))
	}
	f.after(50 * time.Second)
	f.scan(1)
	if got := left(); got != "8 5 8 8" || !held(f)["claim:a"].CPUs.Equal(a.Place.Placement.CPUs) {
		t.Errorf("after the first minute: left %s, held %v", got, held(f))
	}
	for range 2 { // the second finds nothing
		if r := f.ask(Request{Place: &PlaceRequest{Spec: workload.Spec{ID: "claim:a"}, Release: true}}); r.Failed != nil {
			t.Error(asJSON(t, r))
		}
		if got := left(); got != "8 8 8 8" || len(f.s.Admissions) != 0 {
			t.Errorf("let go: left %s", got)
		}
	}
	if r := f.ask(Request{Place: &PlaceRequest{Release: true}}); r.Failed == nil || r.Failed.Code != BadRequest {
		t.Errorf("nothing named: %s", asJSON(t, r))
	}
}

// Memory can be held alone, as beside CPUs that are held in another page size.
func TestMemoryIsHeldAlone(t *testing.T) {
	f := newFake(t, 2, 8, observing)
	f.scan(1)
	left := func() place.Left { v := f.s.View(); return v.Left("")[1] }
	before := left()
	hold := func(id workload.ID, memory topology.KiB) Reply {
		return f.ask(Request{Place: &PlaceRequest{Spec: workload.Spec{ID: id, Class: workload.Shared, Memory: memory, Nodes: topology.Nodes(1)}, Hold: time.Minute}})
	}
	if r := hold("claim:a", before.Memory-1000); r.Failed != nil || !r.Place.Placement.Home.Equal(topology.Nodes(1)) {
		t.Fatal(asJSON(t, r))
	}
	if again := hold("claim:a", before.Memory-1000); again.Failed != nil || again.Place.Decision.Outcome != plan.Kept {
		t.Error(asJSON(t, again))
	}
	if r := hold("claim:b", 1001); r.Failed == nil || r.Failed.Code != NoRoom {
		t.Error(asJSON(t, r))
	}
	f.scan(1)
	if left := left(); left.Memory != 1000 || left.CPUs != before.CPUs {
		t.Errorf("left %+v, before %+v", left, before)
	}
}

// What is held for work that is still to come stands in the way as what runs does.
func TestPartitionLeavesRoomForWhatIsHeld(t *testing.T) {
	f := newFake(t, 1, 8)
	f.scan(1)
	r := f.ask(Request{Place: &PlaceRequest{Spec: workload.Spec{ID: "soon", Class: workload.Dedicated, CPUs: 2}, Hold: time.Minute}})
	if r.Place == nil || r.Place.Placement.CPUs.Empty() {
		t.Fatalf("not held: %s", asJSON(t, r))
	}
	others := plan.Partition(f.host().Online.Minus(r.Place.Placement.CPUs).String())
	if r := f.ask(Request{Partition: &others}); r.Failed == nil || r.Failed.Code != NoRoom {
		t.Errorf("dedicated work gets %s alone: %s", others, asJSON(t, r))
	}
	f.after(2 * time.Minute)
	f.scan(1)
	if r := f.ask(Request{Partition: &others}); r.Failed != nil {
		t.Errorf("when it is no longer held: %s", asJSON(t, r))
	}
}

func TestPartitionMovesAndStays(t *testing.T) {
	rules := ruled(workload.Rule{Match: "/db", Class: workload.Dedicated, CPUs: 2}, workload.Rule{Match: "/web", CPUs: 4})
	f := newFake(t, 1, 8, rules, func(s *Settings) { s.Partition = "4-7" })
	db, web := f.add("db", 2, 1<<20, 0), f.add("web", 2, 1<<20, 0)
	set := func(p plan.Partition) Reply { return f.ask(Request{Partition: &p}) }
	if r := set("4-7"); r.Failed == nil || r.Failed.Code != Failed {
		t.Errorf("before the first scan: %s", asJSON(t, r))
	}
	f.scan(3)
	if got := f.placement(db).CPUs; got.Len() != 2 || !got.SubsetOf(topology.CPUs(4, 5, 6, 7)) || f.cpus(web) != "0-3" {
		t.Errorf("db on %v, web on %s", got, f.cpus(web))
	}
	if now := f.s.PartitionNow(); !now.Split || now.Dedicated.String() != "4-7" || now.Partition != "4-7" {
		t.Errorf("%+v", now)
	}
	for p, code := range map[plan.Partition]Code{"0-3": NoRoom, "1-7": NoRoom, "shared": NoRoom, "x": BadRequest, "0-99": BadRequest, "": BadRequest} {
		if r := set(p); r.Failed == nil || r.Failed.Code != code || f.s.Partition != "4-7" {
			t.Errorf("%q: %s", p, asJSON(t, r))
		}
	}
	if r := set("2-7"); r.Partition == nil || r.Partition.Dedicated.String() != "2-7" || f.told(words.PartitionSet) != 1 {
		t.Fatal(asJSON(t, r))
	}
	f.scan(2)
	if f.cpus(web) != "0-1" {
		t.Errorf("web is on %s", f.cpus(web))
	}
	f.start()
	f.scan(2)
	if p := f.s.PartitionNow(); p.Partition != "2-7" {
		t.Errorf("after a restart: %+v", p)
	}
	f.start(func(s *Settings) { s.Partition = plan.AnyClass })
	f.scan(2)
	if p := f.s.PartitionNow(); p.Split || p.Partition != plan.AnyClass {
		t.Errorf("after the configuration changed: %+v", p)
	}
}

// CPUs of the partition that the host loses: what is left of it holds, and dedicated
// work there stays.
func TestPartitionOfAHostThatShrinks(t *testing.T) {
	f := newFake(t, 2, 8, ruled(workload.Rule{Match: "/db", Class: workload.Dedicated, CPUs: 2}), func(s *Settings) { s.Partition = "0-3,12-15" })
	db := f.add("db", 2, 1<<20, 0)
	f.scan(3)
	before := f.cpus(db)
	f.nodes = 1
	f.scan(3)
	now := f.s.PartitionNow()
	if !now.Split || now.Dedicated.String() != "0-3" || f.cpus(db) != before || !f.settled(db) || f.told(words.PartitionUnfit) != 1 || f.told(words.CPUsOffline) != 1 {
		t.Errorf("%+v; db on %s, told %d times", now, f.cpus(db), f.told(words.PartitionUnfit))
	}
	f.nodes = 2
	f.scan(1)
	if f.told(words.CPUsOnline) != 1 {
		t.Error("not told")
	}
	f.nodes = 1
	f.scan(1)
	if f.told(words.PartitionUnfit) != 2 {
		t.Error("not told when it comes again")
	}
}

// Steps that somebody asks for go through the journal, each on its own; undo takes them back.
func TestChange(t *testing.T) {
	f := newFake(t, 2, 8)
	f.scan(1)
	for _, path := range []string{"sys/a", "sys/b", "sys/c"} {
		f.set(plan.HostFile, path, "1")
	}
	step := func(path string) plan.Step {
		return plan.Step{Kind: "write", Workload: "host", Target: plan.Target{Kind: workload.InHost, Host: path}, To: "0"}
	}
	f.fail = func(e *Effect) *Failure {
		if e.Kind == EffectApply && e.Step.Target.Host == "sys/b" {
			return &Failure{Code: Failed, Text: "on purpose"}
		}
		return nil
	}
	change := func(steps ...plan.Step) Reply { return f.ask(Request{Change: &Change{Steps: steps}}) }
	r := change(step("sys/a"), step("sys/b"), step("sys/c"), step("sys/none"))
	if r.Failed != nil || len(r.Changed) != 4 || r.Changed[0] != nil || r.Changed[1] == nil || r.Changed[2] != nil || r.Changed[3] == nil || r.Changed[3].Code != Gone {
		t.Fatal(asJSON(t, r))
	}
	if f.get(plan.HostFile, "sys/a") != "0" || f.get(plan.HostFile, "sys/c") != "0" || f.s.Journal.Len() != 3 || f.told(words.StepFailed) != 0 || f.told(words.StepTook) != 2 {
		t.Errorf("%v", f.all())
	}
	f.fail = nil
	if r := change(step("sys/b")); len(r.Changed) != 1 || r.Changed[0] != nil { // at once, whatever failed before
		t.Error(asJSON(t, r))
	}
	if r := change(); r.Failed != nil || len(r.Changed) != 0 {
		t.Error(asJSON(t, r))
	}
	other := step("sys/a")
	other.Workload = "guest"
	nobody := step("sys/a")
	nobody.Workload = ""
	if r := change(step("sys/a"), other); r.Failed == nil || r.Failed.Code != BadRequest {
		t.Error(asJSON(t, r))
	}
	if r := change(nobody); r.Failed == nil || r.Failed.Code != BadRequest {
		t.Error(asJSON(t, r))
	}
	// Somebody else has set it since: that is said once; who asks again means it.
	f.set(plan.HostFile, "sys/c", "7")
	if r := change(step("sys/c")); len(r.Changed) != 1 || r.Changed[0] == nil || r.Changed[0].Code != Foreign || f.get(plan.HostFile, "sys/c") != "7" {
		t.Error(asJSON(t, r))
	}
	if r := change(step("sys/c")); len(r.Changed) != 1 || r.Changed[0] != nil || f.get(plan.HostFile, "sys/c") != "0" {
		t.Error(asJSON(t, r))
	}
	f.undo("host")
	if f.get(plan.HostFile, "sys/a") != "1" || f.get(plan.HostFile, "sys/b") != "1" || f.get(plan.HostFile, "sys/c") != "7" {
		t.Errorf("%v", f.all())
	}
	if !f.s.Holds.Has("host") {
		t.Error("not held")
	}
	if r := f.ask(Request{Change: &Change{Steps: []plan.Step{step("sys/a")}, Release: true}}); r.Failed != nil || f.s.Holds.Has("host") || f.disk.saved(t).Holds.IDs["host"] {
		t.Error(asJSON(t, r))
	}
}

// What a person orders is carried out in observe mode too, once and journalled, and nothing
// else is; a daemon that ends says so.
func TestChangeInObserveMode(t *testing.T) {
	f := scattered(t, observing)
	f.set(plan.HostFile, "sys/a", "1")
	before := f.all()
	f.scan(2)
	f.ask(Request{Undo: &Which{All: true}})
	order := Request{Change: &Change{Steps: []plan.Step{{Kind: "write", Workload: "host", Target: plan.Target{Kind: workload.InHost, Host: "sys/a"}, To: "0"}}, Release: true}}
	if r := f.ask(order); r.Failed != nil || len(r.Changed) != 1 || r.Changed[0] != nil {
		t.Error(asJSON(t, r))
	}
	f.scan(3)
	if n := f.count(EffectApply, ""); f.get(plan.HostFile, "sys/a") != "0" || n != 1 || f.s.Journal.Len() != 1 {
		t.Errorf("%d changes, %d entries; %v", n, f.s.Journal.Len(), f.all())
	}
	f.undo("host")
	if diff := cmp.Diff(before, f.all()); diff != "" || len(f.disk.journal()) != 0 {
		t.Errorf("undo left:\n%s", diff)
	}
	f.turn(Input{Stopped: true})
	if r := f.ask(order); r.Failed == nil || r.Failed.Code != Failed || f.get(plan.HostFile, "sys/a") != "1" {
		t.Error(asJSON(t, r))
	}
}

// A request to change something waits for the task of its workload, which begins nothing
// more; two wait in their order.
func TestChangeWaits(t *testing.T) {
	f := newFake(t, 2, 8)
	f.scan(1)
	f.set(plan.HostFile, "sys/a", "1")
	f.set(plan.HostFile, "sys/b", "1")
	steps := func(to string) *Change {
		var out []plan.Step
		for _, path := range []string{"sys/a", "sys/b"} {
			out = append(out, plan.Step{Kind: "write", Workload: "host", Target: plan.Target{Kind: workload.InHost, Host: path}, To: to})
		}
		return &Change{Steps: out}
	}
	f.keeping(EffectApply)
	f.ask(Request{Change: steps("2")})
	one := f.asked
	f.ask(Request{Change: steps("3")})
	f.ask(Request{Change: steps("4")})
	if len(f.kept) != 1 || len(f.replies) != 0 {
		t.Fatalf("%s", asJSON(t, f.kept))
	}
	f.release()
	if r := f.replies[one]; len(r.Changed) != 2 || r.Changed[0] != nil || r.Changed[1] == nil || r.Changed[1].Code != Cancelled {
		t.Errorf("the first: %s", asJSON(t, r))
	}
	for k := uint64(1); k <= 2; k++ {
		if r := f.replies[one+k]; len(r.Changed) != 2 || r.Changed[0] != nil || r.Changed[1] != nil {
			t.Errorf("the %dth: %s", k+1, asJSON(t, r))
		}
	}
	if f.get(plan.HostFile, "sys/a") != "4" || f.get(plan.HostFile, "sys/b") != "4" || len(f.s.Queued) != 0 {
		t.Errorf("%v", f.all())
	}
	f.undo("host")
	if f.get(plan.HostFile, "sys/a") != "1" || f.get(plan.HostFile, "sys/b") != "1" {
		t.Errorf("undo left %v", f.all())
	}
	// It stops a page move.
	id := f.add("a", 3, 1<<20, 0, 1)
	f.mid = func(e *Effect) {
		f.mid = nil
		f.ask(Request{Change: &Change{Steps: []plan.Step{{Kind: plan.SetCPUs, Workload: id, Target: plan.Target{Kind: workload.InCgroup, Cgroup: "/a"}, To: "3"}}}})
		if !f.stopped[e.ID] {
			t.Error("the pages go on")
		}
	}
	f.scan(1)
	if r := f.replies[f.asked]; len(r.Changed) != 1 || r.Changed[0] != nil {
		t.Errorf("%s", asJSON(t, r))
	}
}

func chosen(f *fake, id workload.ID) plan.Decision {
	v := f.s.View()
	if d, ok := v.Chosen.Of(id); ok {
		return d
	}
	return plan.Decision{}
}

// TestEndedHoldsNothing: what was found to have ended gives its CPUs back before the next
// scan; a younger process of the same PID keeps its own.
func TestEndedHoldsNothing(t *testing.T) {
	f := newFake(t, 1, 2)
	f.scan(1)
	place := func(pid int, class workload.Class, ended ...workload.Process) Reply {
		return f.ask(Request{Place: &PlaceRequest{Spec: workload.Spec{Name: "x", Class: class, CPUs: 1},
			Process: workload.Process{PID: pid, Start: uint64(pid)}, Ended: ended}})
	}
	if r := place(101, workload.Dedicated); r.Failed != nil {
		t.Fatalf("%+v", r.Failed)
	}
	if r := place(102, workload.Dedicated, workload.Process{PID: 101, Start: 7}); r.Failed == nil && r.Place.Placement.CPUs.Equal(f.s.Admissions["pid:101"].Placement.CPUs) {
		t.Fatal("a CPU of a process that lives")
	}
	for i := range 12 {
		last := workload.Process{PID: 101 + i, Start: uint64(101 + i)}
		if r := place(102+i, workload.Dedicated, workload.Process{PID: 101, Start: 101}, last); r.Failed != nil {
			t.Fatalf("%d: %s", i, r.Failed.Text)
		}
	}
	if n := len(f.s.Admissions); n != 1 {
		t.Errorf("%d admissions", n)
	}
	if got := f.s.Booked(); len(got) != 1 || got[0].PID != 113 {
		t.Errorf("booked by %v", got)
	}
	f.run()
	if n := len(f.disk.placements); n != 1 {
		t.Errorf("%d homes on disk", n)
	}
}

// TestSharedRunsAreNeverRefused: on a host full of living shared runs there is room for one
// more, and the answer says that it is crowded.
func TestSharedRunsAreNeverRefused(t *testing.T) {
	f := newFake(t, 1, 2)
	f.scan(1)
	early := f.begin() // does not see them
	crowded := 0
	for pid := 101; pid < 120; pid++ {
		r := f.admit(pid, workload.Shared, 1)
		if r.Failed != nil {
			t.Fatalf("run %d: %s", pid-100, r.Failed.Text)
		}
		for _, why := range r.Place.Decision.Reasons {
			if why.Code == words.HomeCrowded {
				crowded++
			}
		}
	}
	if crowded != 19-6 { // the policy lets each CPU carry three
		t.Errorf("%d are told that it is crowded", crowded)
	}
	f.end(early)
	for pid := 101; pid < 120; pid++ {
		id := f.addProcess(pid, "x", 0, 1<<10, 0)
		if f.placement(id) == nil {
			t.Errorf("%s has lost its home before it was seen", id)
		}
	}
	f.scan(2)
	for pid := 101; pid < 120; pid++ {
		if d := f.decision(ProcessID(pid)); d.Outcome != plan.Kept {
			t.Errorf("%s has started, and is %s: %s", d.Workload, d.Outcome, words.Join(d.Reasons))
		}
	}
}

// TestCrowdTakesNoHome: what runs and has no more than room for its vCPUs keeps its home,
// however many shared runs are started beside it.
func TestCrowdTakesNoHome(t *testing.T) {
	f := newFake(t, 2, 4)
	id := f.add("db", 4, 1<<20, 0)
	f.scan(3)
	home := f.home(id)
	for pid := 101; pid < 150; pid++ {
		if r := f.admit(pid, workload.Shared, 4); r.Failed != nil {
			t.Fatal(r.Failed.Text)
		}
		f.addProcess(pid, "x", 0, 1<<10, 0)
	}
	f.scan(3)
	if d := f.decision(id); d.Outcome != plan.Kept || f.home(id) != home {
		t.Errorf("%s on %s, before on %s: %s", d.Outcome, f.home(id), home, words.Join(d.Reasons))
	}
}

func registered(f *fake) []workload.Process {
	v := f.s.View()
	return v.Registered()
}

func held(f *fake) map[workload.ID]workload.Placement {
	v := f.s.View()
	return v.Held()
}

// A view stands when the state goes on: what is held, let go or held for longer later is not in it.
func TestViewOfWhatIsHeldStands(t *testing.T) {
	f := newFake(t, 2, 8)
	f.scan(1)
	hold := func(id workload.ID, cpus int) {
		t.Helper()
		r := f.ask(Request{Place: &PlaceRequest{Spec: workload.Spec{ID: id, Name: string(id), Class: workload.Dedicated, CPUs: cpus}, Hold: time.Minute}})
		if r.Failed != nil {
			t.Fatal(r.Failed)
		}
	}
	letGo := func(id workload.ID) {
		f.ask(Request{Place: &PlaceRequest{Spec: workload.Spec{ID: id}, Release: true}})
	}
	var views []View
	var want []string
	now := func() {
		t.Helper()
		all := map[workload.ID]workload.Placement{}
		for id, a := range f.s.Admissions {
			all[id] = a.Placement
		}
		v := f.s.View()
		views, want = append(views, v), append(want, fmt.Sprint(all))
		if len(all) == 0 {
			want[len(want)-1] = fmt.Sprint(map[workload.ID]workload.Placement(nil))
		}
		for _, id := range []workload.ID{"a", "b", "c", "none"} {
			p, ok := v.Held()[id]
			if in, is := all[id]; is != ok || fmt.Sprint(in) != fmt.Sprint(p) {
				t.Errorf("%s: held %t, %v; want %t, %v", id, ok, p, is, in)
			}
		}
	}
	now()
	for range 3 {
		hold("a", 1)
		now()
		hold("b", 2)
		now()
		letGo("a")
		hold("c", 1)
		now()
		hold("c", 1) // for longer
		now()
		letGo("c")
		letGo("b")
		now()
	}
	for i := range views {
		if got := fmt.Sprint(views[i].Held()); got != want[i] {
			t.Errorf("view %d has become %s, was %s", i, got, want[i])
		}
	}
}

// A process that `homenode run` places gets the PID of one that ended after a scan saw it: what was
// decided of that one, such as to leave it alone, does not take the home of the new one.
func TestPIDUsedAgainAfterAScan(t *testing.T) {
	f := newFake(t, 2, 8)
	id := f.addProcess(77, "old", 2, 1<<20, 0)
	f.set(plan.Affinity, plan.ProcessPath(f.works[id].obs.Processes[0]), "3")
	f.scan(2)
	if !f.leftAlone(id, words.OwnAffinity) {
		t.Fatal("it is not left alone")
	}
	look := f.begin()
	look.Snapshot = f.snapshot() // has the old one
	f.remove(id)
	r := f.ask(Request{Place: &PlaceRequest{Spec: workload.Spec{Name: "new", Class: workload.Dedicated, CPUs: 2}, Process: workload.Process{PID: 77, Start: 9000}}})
	if r.Failed != nil {
		t.Fatal(asJSON(t, r))
	}
	f.turn(Input{Scan: look})
	f.run()
	if p := f.placement(id); p == nil || !p.CPUs.Equal(r.Place.Placement.CPUs) {
		t.Errorf("its home is %s, and it was given %s", asJSON(t, p), r.Place.Placement.CPUs)
	}
}

// TestMoveMindsCommandsWithoutADaemon: a command that started while no daemon answered keeps its CPUs when the user
// then moves dedicated work to its node, before any scan has seen the command.
func TestMoveMindsCommandsWithoutADaemon(t *testing.T) {
	f := newFake(t, 2, 8, ruled(workload.Rule{Match: "db", Class: workload.Dedicated}))
	db := f.add("db", 2, 1<<20, 0)
	f.scan(4)
	p := f.placement(db)
	if p == nil || p.CPUs.Len() != 2 {
		t.Fatalf("home %+v", p)
	}
	to := topology.NodeID(1)
	if p.Home.Has(1) {
		to = 0
	}
	// The CPUs that a move takes where nothing else is there.
	free := f.ask(Request{Move: &MoveRequest{ID: db, To: topology.Nodes(to), DryRun: true}}).Move
	if free == nil || free.CPUs.Empty() {
		t.Fatalf("%+v", free)
	}
	run := Admission{
		Spec:      workload.Spec{ID: ProcessID(77), Name: "job", Class: workload.Dedicated, CPUs: free.CPUs.Len(), Given: true},
		Process:   workload.Process{PID: 77, Start: 7},
		Placement: workload.Placement{Workload: ProcessID(77), Class: workload.Dedicated, Importance: 50, Home: topology.Nodes(to), VCPUs: free.CPUs.Len(), CPUs: free.CPUs, Pins: free.CPUs.Slice(), Start: 7},
	}
	moved := f.ask(Request{Move: &MoveRequest{ID: db, To: topology.Nodes(to), Admitted: []Admission{run}}})
	if moved.Move == nil || moved.Move.CPUs.Intersects(free.CPUs) || moved.Move.CPUs.Len() != 2 {
		t.Errorf("moved to %+v (%v), the command has CPUs %v", moved.Move, moved.Failed, free.CPUs)
	}
}
