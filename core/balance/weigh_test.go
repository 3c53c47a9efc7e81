package balance

import (
	"math"
	"slices"
	"testing"
	"time"

	"github.com/homenode/homenode/core/place"
	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/core/words"
	"github.com/homenode/homenode/core/workload"
)

func TestHorizonFormula(t *testing.T) {
	for age, want := range map[float64]float64{
		-5: 0, 0: 0, 1: math.Log(3600), 60: 60 * math.Log(60), 3000: 3000, 3599: 3599, 3600: 3600, 3601: 3601, 7200: 7200,
	} {
		if got := horizon(age); !near(got, want) {
			t.Errorf("after %v s: %v, want %v", age, got, want)
		}
	}
}

// TestWeigh works out the gain and the cost of one move: 5 vCPUs too many on node 0 for
// want of cores, and 1 GiB of memory at 256 MiB/s.
func TestWeigh(t *testing.T) {
	const lost = 3 // CPUs: 11 are wanted of 8
	build := func(edit func(b *bench)) (*decider, *work) {
		b := two(t)
		b.in.Settings.Horizon = 5 * time.Minute
		still := func(s *place.Subject) { s.Observation.Bandwidth = 1 } // distance and bandwidth are nothing beside CPUs
		b.run("a", 0, 5, gib, still)
		b.run("b", 0, 6, gib, still)
		b.run("c", 1, 1, gib, still)
		for i := range b.in.Subjects {
			b.in.Subjects[i].Observation.Threads = int(b.in.Subjects[i].Observation.CPUUse) // it wants what it uses
		}
		b.memory.Samples = []Sample{{At: b.in.At.Add(-time.Hour), Busy: []float64{11, 1}, Free: []topology.KiB{gib, gib}, Uses: []Use{
			{Workload: "a", CPUs: 5, Level: 5, Since: b.in.At.Add(-2 * time.Hour), Bandwidth: 1},
			{Workload: "b", CPUs: 6, Level: 6, Since: b.in.At.Add(-2 * time.Hour), Bandwidth: 1},
			{Workload: "c", CPUs: 1, Level: 1, Since: b.in.At.Add(-2 * time.Hour), Bandwidth: 1},
		}}}
		if edit != nil {
			edit(b)
		}
		d := b.decider()
		return d, &d.m.workloads[0]
	}
	within := func(got, want float64) bool { return math.Abs(got-want) < 0.01*second }
	crowd := place.Crowding(8, 8, 8+lost) * second

	d, a := build(nil)
	o := option{changes: []shift{d.shiftTo(a, topology.Nodes(1))}}
	sums, far := slices.Clone(d.m.sums), d.m.far
	d.weigh(&o)
	if !slices.Equal(sums, d.m.sums) || far != d.m.far {
		t.Error("the model is another after weighing")
	}
	if o.kib != float64(gib) || !near(o.seconds, 4) || o.horizon != 300 || !o.rejected.None() {
		t.Errorf("%v KiB in %v s, for %v s, %v", o.kib, o.seconds, o.horizon, o.rejected)
	}
	if !within(o.saves, crowd) {
		t.Errorf("saves %v, want %v", o.saves, crowd)
	}
	// 1 s once, a tenth of 5 CPUs for 4 s, 1 s of copying.
	if want := (1 + 0.1*5*4 + 1) * second; !near(o.cost, want) {
		t.Errorf("costs %v, want %v", o.cost, want)
	}
	// CPUs are there from the start, memory while it moves: about the same here.
	if want := crowd * 300; math.Abs(o.gain-want) > 0.001*want {
		t.Errorf("gains %v, want %v", o.gain, want)
	}

	// A heavier workload's own loss counts by its weight.
	d, a = build(nil)
	a.weight = 2
	o = option{changes: []shift{d.shiftTo(a, topology.Nodes(1))}}
	d.weigh(&o)
	if want := (2*(1+0.1*5*4) + 1) * second; !near(o.cost, want) {
		t.Errorf("of weight 2 it costs %v, want %v", o.cost, want)
	}

	// Memory alone: what is near at the end counts for half while it moves, and not at
	// all while other moves are under way.
	for _, queue := range []float64{0, 10, 400} {
		d, a = build(func(b *bench) {
			b.in.Subjects[0].Observation.Memory = []workload.NodeMemory{{Node: 1, KiB: gib}}
			b.in.Subjects[0].Observation.Accesses = workload.Accesses{From: workload.Counters, PerSecond: 4e7}
			b.in.Subjects[0].Observation.Bandwidth = 0
			b.memory.Samples[0].Uses[0].Accesses, b.memory.Samples[0].Uses[0].Bandwidth = 4e7, 0
			b.in.State.Host.Distances = topology.Matrix{{10, 21}, {21, 10}}
			b.in.State.Host.Nodes[0].Memory = 1 << 30 // that nothing is short
			b.in.State.Host.Nodes[0].Free = 1 << 29
		})
		d.queue = queue
		o = option{changes: []shift{d.shiftTo(a, topology.Nodes(0))}}
		d.weigh(&o)
		// 1e7 accesses are waited for; each is 1.1 × 82 ns nearer.
		saves := 1e7 * 82 * 1.1
		if math.Abs(o.saves-saves) > 0.01*saves {
			t.Errorf("memory alone: saves %v, want %v", o.saves, saves)
		}
		waiting := min(queue, 300)
		moving := min(4, 300-waiting)
		if want := o.saves*moving/2 + o.saves*(300-waiting-moving); math.Abs(o.gain-want) > 1 {
			t.Errorf("memory alone, after %v s of others' moves: gains %v, want %v", queue, o.gain, want)
		}
	}

	// Without memory to move nothing waits for the moves under way.
	d, a = build(nil)
	d.queue = 50
	o = option{changes: []shift{{w: a, to: d.one[1], run: parts(0, 1), mem: a.mem}}}
	if d.weigh(&o); math.Abs(o.gain-300*o.saves) > 1 || o.seconds != 0 {
		t.Errorf("CPUs alone: gains %v, want 300 s of %v", o.gain, o.saves)
	}

	// A new load is believed for as long as it may last: 10 s × ln 360.
	d, a = build(nil)
	a.age = 10
	o = option{changes: []shift{d.shiftTo(a, topology.Nodes(1))}}
	d.weigh(&o)
	if !near(o.horizon, 10*math.Log(360)) {
		t.Errorf("a load of 10 s is believed for %v s", o.horizon)
	}
	// So is a crowd, however old what moves is.
	d, a = build(nil)
	d.crowded[0] = 10
	o = option{changes: []shift{d.shiftTo(a, topology.Nodes(1))}}
	d.weigh(&o)
	if !near(o.horizon, 10*math.Log(360)) {
		t.Errorf("a crowd of 10 s is believed for %v s", o.horizon)
	}

	// It goes nowhere where memory would be short by it.
	for _, tt := range []struct {
		name string
		free float64
		bad  bool
	}{{"room", 2 * float64(gib), false}, {"too little left", 1.2 * float64(gib), true}, {"none", 0, true}, {"unknown", topology.None, false}} {
		d, a = build(nil)
		d.m.free[1] = tt.free
		d.free = slices.Clone(d.m.free)
		d.saved = slices.Clone(d.m.sums)
		o = option{changes: []shift{d.shiftTo(a, topology.Nodes(1))}}
		d.weigh(&o)
		if !o.rejected.None() != tt.bad {
			t.Errorf("%s: %v", tt.name, o.rejected)
		}
	}
	// A node that is short and becomes less so is no reason.
	d, a = build(nil)
	d.m.free[0] = 0
	d.free, d.saved = slices.Clone(d.m.free), slices.Clone(d.m.sums)
	c := &d.m.workloads[2]
	o = option{changes: []shift{d.shiftTo(a, topology.Nodes(1)), d.shiftTo(c, topology.Nodes(0))}}
	o.changes[1].w.kib = a.kib
	if d.weigh(&o); !o.rejected.None() {
		t.Errorf("a swap of like with like: %v", o.rejected)
	}
}

func TestMovingTime(t *testing.T) {
	o := option{kib: 400, seconds: 8}
	for kib, want := range map[float64]float64{0: 0, 100: 2, 400: 8} {
		if got := o.moving(&shift{kib: kib}); got != want {
			t.Errorf("%v of 400 KiB: %v s, want %v", kib, got, want)
		}
	}
	if got := (&option{}).moving(&shift{}); got != 0 {
		t.Errorf("nothing to move takes %v s", got)
	}
}

func TestPays(t *testing.T) {
	d := &decider{in: &Input{Settings: Settings{Factor: 2}}}
	for _, tt := range []struct {
		saves, gain, cost float64
		pays              bool
	}{
		{0.1 * second, 2.1, 1, true}, {0.0999 * second, 100, 1, false}, {1 * second, 2, 1, false}, {1 * second, 1.9, 1, false},
		{1 * second, 0, 0, false}, {-1, 5, 1, false},
	} {
		if why := d.pays(&option{saves: tt.saves, gain: tt.gain, cost: tt.cost}); why.None() != tt.pays {
			t.Errorf("%+v: %v", tt, why)
		}
	}
}

// TestBetter: by importance, then net gain, then bytes, then names.
func TestBetter(t *testing.T) {
	d := &decider{in: &Input{Settings: Settings{Factor: 2}}}
	opt := func(tier int, gain, cost, kib float64, ids ...workload.ID) *option {
		o := &option{tier: tier, gain: gain, cost: cost, kib: kib}
		for i, id := range ids {
			o.changes = append(o.changes, shift{w: &work{id: id}, to: topology.Nodes(topology.NodeID(i))})
		}
		return o
	}
	other := opt(0, 9, 1, 5, "a")
	other.changes[0].to = topology.Nodes(1)
	order := []*option{
		opt(0, 20, 1, 5, "z"), // nets 18
		opt(0, 21, 2, 5, "a"), // nets 17
		opt(0, 9, 1, 4, "b"),
		opt(0, 9, 1, 5, "a"),
		opt(0, 9, 1, 5, "a", "c"),
		opt(0, 9, 1, 5, "a", "d"),
		other,
		opt(0, 9, 1, 5, "b"),
		opt(60, 99, 1, 5, "a"),
		opt(90, 99, 1, 5, "a"),
	}
	for i, x := range order {
		for j, y := range order {
			got := d.better(x, y)
			if got < 0 != (i < j) || got > 0 != (i > j) {
				t.Errorf("%d and %d: %d", i, j, got)
			}
		}
	}
	if got := d.net(order[1]); got != 17 {
		t.Errorf("a gain of 21 for 2 nets %v", got)
	}
}

// TestPrepare: which nodes changed within the window, and which moves are under way.
func TestPrepare(t *testing.T) {
	b := newBench(t, "package:4 node:1(memory=16GiB) core:4")
	b.in.Arrange.MoveBandwidth = 256 << 20
	b.run("a", 0, 1, gib, func(s *place.Subject) {
		s.Observation.Memory = []workload.NodeMemory{{Node: 0, KiB: gib}, {Node: 1, KiB: 2 * gib}, {Node: 3, KiB: 0}}
	})
	b.run("b", 2, 1, gib, func(s *place.Subject) {
		s.Observation.Memory = []workload.NodeMemory{{Node: 0, KiB: gib}, {Node: 2, KiB: gib}}
	})
	b.run("c", 1, 1, gib, func(s *place.Subject) { s.Observation.Memory = []workload.NodeMemory{{Node: 0, KiB: gib}} })
	b.in.Flights = []Flight{{Workload: "a", To: topology.Nodes(0)}, {Workload: "b", To: topology.Nodes(2), PutOff: words.Plain("refused.")}, {Workload: "c", To: topology.Nodes(1)}}
	at := b.in.At
	b.memory.Samples = []Sample{{At: at.Add(-10 * time.Second), Busy: make([]float64, 4)}}
	b.memory.Changes = []HomeChange{
		{Workload: "x", From: topology.Nodes(0), To: topology.Nodes(1), At: at.Add(-11 * time.Second)},
		{Workload: "x", From: topology.Nodes(0), To: topology.Nodes(1), At: at.Add(-10 * time.Second)},
		{Workload: "y", From: topology.Nodes(2), To: topology.Nodes(3), At: at.Add(-9 * time.Second)},
	}
	d := b.decider()
	if !slices.Equal(d.settling, []bool{false, false, true, true}) {
		t.Errorf("settling %v", d.settling)
	}
	if len(d.pairs) != 1 || d.pairs[pair{0, 1}] != "a" {
		t.Errorf("pairs %v", d.pairs)
	}
	if want := (2.0 + 1) * 4; !near(d.queue, want) { // GiB at a quarter of one a second
		t.Errorf("the moves under way take %v s, want %v", d.queue, want)
	}
	for i, one := range d.one {
		if !one.Equal(topology.Nodes(topology.NodeID(i))) {
			t.Errorf("node %d alone is %v", i, one)
		}
	}
	b.in.Arrange.MoveBandwidth = 0
	if d = b.decider(); d.queue != 0 {
		t.Errorf("without a pace %v s", d.queue)
	}
	// A change of home is put back whatever was tried.
	d.m.load[0], d.m.far = 77, 99
	if d.restore(); d.m.load[0] == 77 || d.m.far == 99 {
		t.Error("not put back")
	}
}

// TestOptionTier: how important the most important above the default is.
func TestOptionTier(t *testing.T) {
	b := two(t)
	b.run("a", 0, 1, gib)
	b.run("b", 0, 1, gib, important(51))
	b.run("c", 1, 1, gib, important(90))
	b.run("d", 1, 1, gib, important(10))
	d := b.decider()
	for _, tt := range []struct {
		ids  []workload.ID
		want int
	}{{[]workload.ID{"a"}, 0}, {[]workload.ID{"b"}, 51}, {[]workload.ID{"d"}, 0}, {[]workload.ID{"c", "b"}, 90}, {[]workload.ID{"b", "c"}, 90}, {[]workload.ID{"a", "b"}, 51}} {
		var changes []shift
		for _, id := range tt.ids {
			w := &d.m.workloads[d.m.at(id)]
			changes = append(changes, d.shiftTo(w, d.one[1-d.m.index(w.placed.Home.Min())]))
		}
		if o := d.option(Move, changes...); o.tier != tt.want || o.kind != Move || len(o.changes) != len(tt.ids) {
			t.Errorf("%v: tier %d, want %d", tt.ids, o.tier, tt.want)
		}
	}
}
