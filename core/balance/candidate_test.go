package balance

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/homenode/homenode/core/place"
	"github.com/homenode/homenode/core/plan"
	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/core/words"
	"github.com/homenode/homenode/core/workload"
)

// seen gives b's workloads the looks of a full window.
func (b *bench) seen() *bench {
	for range 5 {
		b.memory = remember(&b.in, b.memory)
		b.in.At = b.in.At.Add(2 * time.Second)
	}
	return b
}

// TestWhatStays: what may not move at all, each rule alone.
func TestWhatStays(t *testing.T) {
	for _, tt := range []struct {
		name  string
		edit  func(b *bench, d *decider, w *work)
		stays bool
	}{
		{"shared work", func(*bench, *decider, *work) {}, false},
		{"without a home", func(_ *bench, _ *decider, w *work) { w.placed = nil }, true},
		{"fixed", func(_ *bench, _ *decider, w *work) { w.Fixed = true }, true},
		{"dedicated", func(_ *bench, _ *decider, w *work) { w.placed.Class = workload.Dedicated }, true},
		{"batch", func(_ *bench, _ *decider, w *work) { w.placed.Class = workload.Batch }, true},
		{"all held", func(b *bench, _ *decider, _ *work) { b.in.HeldAll = true }, true},
		{"held", func(b *bench, _ *decider, _ *work) { b.in.Held = []workload.ID{"x", "a"} }, true},
		{"others held", func(b *bench, _ *decider, _ *work) { b.in.Held = []workload.ID{"x"} }, false},
		{"pinned", func(_ *bench, _ *decider, w *work) { w.Observation.Pinned = true }, true},
		{"a policy of its own", func(_ *bench, _ *decider, w *work) { w.Observation.OwnPolicy = "bind:0" }, true},
		{"a policy that could not be read", func(_ *bench, _ *decider, w *work) { w.Observation.OwnPolicy = workload.PolicyUnknown }, false},
		{"memory on its way", func(_ *bench, _ *decider, w *work) { w.flight = &Flight{} }, true},
		{"memory put off", func(_ *bench, _ *decider, w *work) { w.flight = &Flight{PutOff: words.Plain("busy.")} }, false},
		{"memory put off since it came", func(_ *bench, d *decider, w *work) {
			w.flight = &Flight{PutOff: words.Plain("busy.")}
			d.memory.Changes = []HomeChange{{Workload: "a", At: d.in.At.Add(-d.in.Settings.Ban + time.Second)}}
		}, true},
		{"memory put off, long after it came", func(_ *bench, d *decider, w *work) {
			w.flight = &Flight{PutOff: words.Plain("busy.")}
			d.memory.Changes = []HomeChange{{Workload: "a", At: d.in.At.Add(-d.in.Settings.Ban)}, {Workload: "x", At: d.in.At}}
		}, false},
		{"missing in one look", func(b *bench, d *decider, w *work) {
			d.looks = slices.Clone(d.looks)
			d.looks[1].Uses = []Use{{Workload: "0"}, {Workload: "b"}}
			*w = newModel(&b.in, b.in.State.Placements, d.ledger, d.looks).workloads[0]
		}, true},
		{"moved a moment ago", func(_ *bench, d *decider, _ *work) {
			d.memory.Changes = []HomeChange{{Workload: "a", At: d.in.At.Add(-d.in.Settings.Cooldown + time.Second)}}
		}, true},
		{"another moved a moment ago", func(_ *bench, d *decider, _ *work) {
			d.memory.Changes = []HomeChange{{Workload: "b", At: d.in.At.Add(-time.Second)}}
		}, false},
		{"rested", func(_ *bench, d *decider, _ *work) {
			d.memory.Changes = []HomeChange{{Workload: "a", At: d.in.At.Add(-d.in.Settings.Cooldown)}}
		}, false},
	} {
		b := two(t)
		b.run("a", 0, 2, gib)
		b.run("b", 1, 2, gib)
		d := b.seen().decider()
		w := &d.m.workloads[0]
		tt.edit(b, d, w)
		if why := d.stays(w); why.None() == tt.stays {
			t.Errorf("%s: %v", tt.name, why)
		}
		if forbidden := d.forbids(&shift{w: w, to: d.one[1]}); w.placed != nil && tt.stays && forbidden.None() {
			t.Errorf("%s: a move is not forbidden", tt.name)
		}
	}
	// A fixed workload's own reason is given.
	b := two(t)
	b.run("a", 0, 2, gib)
	d := b.seen().decider()
	d.m.workloads[0].Fixed, d.m.workloads[0].Alone = true, words.Plain("Its manager keeps it there.")
	if why := d.stays(&d.m.workloads[0]); why.String() != d.m.workloads[0].Alone.String() {
		t.Errorf("fixed: %v", why)
	}
}

// TestRests: the rest doubles with each move within the hour.
func TestRests(t *testing.T) {
	b := two(t)
	b.run("a", 0, 2, gib)
	d := b.seen().decider()
	ago := func(ages ...time.Duration) (out []HomeChange) {
		for _, age := range ages {
			out = append(out, HomeChange{Workload: "a", At: d.in.At.Add(-age)}, HomeChange{Workload: "x", At: d.in.At})
		}
		return out
	}
	min := time.Minute
	for _, tt := range []struct {
		past  []HomeChange
		rest  time.Duration
		moves int
	}{
		{nil, 0, 0},
		{ago(20 * time.Second), 40 * time.Second, 1},
		{ago(min), 0, 1},
		{ago(2 * min), -min, 1},
		{ago(40*min, min), min, 2},
		{ago(50*min, 40*min, min), 3 * min, 3},
		{ago(time.Hour, min), 0, 1},
		{ago(time.Hour-time.Second, min), min, 2},
		{ago(time.Hour + time.Second), 0, 0},
		{ago(12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0), 1024 * min, 13}, // ns: the doubling ends
		{ago(10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0), 1024 * min, 11},
		{ago(9, 8, 7, 6, 5, 4, 3, 2, 1, 0), 512 * min, 10},
	} {
		d.memory.Changes = tt.past
		if rest, moves := d.rests("a"); rest != tt.rest || moves != tt.moves {
			t.Errorf("%v: rests %v after %d moves, want %v, %d", tt.past, rest, moves, tt.rest, tt.moves)
		}
	}
}

// TestForbids: the rules about where to, each alone.
func TestForbids(t *testing.T) {
	node := topology.Nodes
	for _, tt := range []struct {
		name   string
		edit   func(d *decider, w *work)
		to     topology.NodeSet
		forbid bool
	}{
		{"nothing", func(*decider, *work) {}, node(1), false},
		{"other nodes only", func(_ *decider, w *work) { w.Spec.Nodes = node(0, 2) }, node(1), true},
		{"what it requires is elsewhere", func(_ *decider, w *work) { w.required = []place.Requirement{{Name: "eth0", At: node(0)}} }, node(1), true},
		{"what it requires is there", func(_ *decider, w *work) { w.required = []place.Requirement{{Name: "eth0", At: node(0, 1)}} }, node(1), false},
		{"one of its nodes", func(_ *decider, w *work) { w.Spec.Nodes = node(0, 1) }, node(1), false},
		{"one node too many", func(_ *decider, w *work) { w.Spec.Nodes = node(0, 1) }, node(1, 2), true},
		{"memory elsewhere only", func(_ *decider, w *work) { w.Observation.Mems = node(0, 2) }, node(1), true},
		{"memory there too", func(_ *decider, w *work) { w.Observation.Mems = node(0, 1) }, node(1), false},
		{"memory nodes unknown", func(_ *decider, w *work) { w.Observation.Mems = topology.NodeSet{} }, node(1), false},
		{"one node at most", func(_ *decider, w *work) { w.Spec.MaxNodes = 1 }, node(1), false},
		{"one node at most, to two", func(_ *decider, w *work) { w.Spec.MaxNodes = 1 }, node(0, 1), true},
		{"two nodes at most", func(_ *decider, w *work) { w.Spec.MaxNodes = 2 }, node(0, 1), false},
		{"back too early", func(d *decider, _ *work) {
			d.memory.Changes = []HomeChange{{Workload: "a", From: node(1), To: node(0), At: d.in.At.Add(-d.in.Settings.Ban + time.Second)}}
		}, node(1), true},
		{"back in time", func(d *decider, _ *work) {
			d.memory.Changes = []HomeChange{{Workload: "a", From: node(1), To: node(0), At: d.in.At.Add(-d.in.Settings.Ban)}}
		}, node(1), false},
		{"on to another", func(d *decider, _ *work) {
			d.memory.Changes = []HomeChange{{Workload: "a", From: node(2), To: node(0), At: d.in.At.Add(-2 * time.Minute)}}
		}, node(1), false},
		{"another came from there", func(d *decider, _ *work) {
			d.memory.Changes = []HomeChange{{Workload: "b", From: node(1), To: node(0), At: d.in.At.Add(-2 * time.Minute)}}
		}, node(1), false},
		{"it was on both", func(d *decider, _ *work) {
			d.memory.Changes = []HomeChange{{Workload: "a", From: node(0, 1), To: node(0, 2), At: d.in.At.Add(-2 * time.Minute)}}
		}, node(0, 2), false},
		{"the node settles", func(d *decider, _ *work) { d.settling[1] = true }, node(1), true},
		{"its own node settles", func(d *decider, _ *work) { d.settling[0] = true }, node(1), true},
		{"another node settles", func(d *decider, _ *work) { d.settling[2] = true }, node(1), false},
		{"memory moves between the two", func(d *decider, _ *work) { d.pairs[pairOf(1, 0)] = "b" }, node(1), true},
		{"memory moves elsewhere", func(d *decider, _ *work) { d.pairs[pairOf(1, 2)] = "b" }, node(1), false},
		{"memory moves, but it has a hundredth there", func(d *decider, w *work) {
			d.pairs[pairOf(1, 2)] = "b"
			w.mem = parts(0.99, 0, 0.01)
		}, node(1), false},
		{"memory moves, and it has more there", func(d *decider, w *work) {
			d.pairs[pairOf(1, 2)] = "b"
			w.mem = parts(0.98, 0, 0.02)
		}, node(1), true},
		{"its memory is there", func(d *decider, w *work) {
			d.pairs[pairOf(1, 1)] = "b"
			w.mem = parts(0, 1)
		}, node(1), false},
	} {
		b := newBench(t, "package:3 node:1(memory=16GiB) core:8")
		b.run("a", 0, 2, gib)
		b.run("b", 1, 2, gib)
		d := b.seen().decider()
		w := &d.m.workloads[0]
		tt.edit(d, w)
		if why := d.forbids(&shift{w: w, to: tt.to}); why.None() == tt.forbid {
			t.Errorf("%s: %v", tt.name, why)
		}
	}
}

// brief options: "move a 1, swap a 1 b 0".
func briefly(options []option) string {
	var out []string
	for i := range options {
		text := string(options[i].kind)
		for _, c := range options[i].changes {
			text += fmt.Sprintf(" %s %s", c.w.id, c.to)
		}
		out = append(out, text)
	}
	return strings.Join(out, ", ")
}

func newTrouble(n int) *trouble {
	return &trouble{cpu: make([]bool, n), traffic: make([]bool, n), short: make([]bool, n)}
}

// waits has PSI tell for which share of its time a workload waits for a CPU.
func waits(s *place.Subject, share float64) {
	s.Observation.Waited, s.Observation.WaitedFrom = share, workload.PSI
}

// TestSingles: which changes of one home are weighed.
func TestSingles(t *testing.T) {
	for _, tt := range []struct {
		name string
		edit func(b *bench)
		find func(d *decider, t *trouble)
		want string
	}{
		{"nothing is wrong", nil, nil, ""},
		{"CPUs", nil, func(_ *decider, t *trouble) { t.cpu[0] = true }, "move a 1, move a 2"},
		{"bandwidth", nil, func(_ *decider, t *trouble) { t.traffic[1] = true }, "move b 0, move b 2"},
		{"memory", nil, func(_ *decider, t *trouble) { t.short[0] = true }, "move a 1, move a 2"},
		{"its memory is there and it is not", func(b *bench) {
			b.in.Subjects[1].Observation.Memory = []workload.NodeMemory{{Node: 0, KiB: gib}}
		}, func(_ *decider, t *trouble) { t.cpu[0] = true }, "move a 1, move a 2"},
		{"its memory is there and bandwidth is short", func(b *bench) {
			b.in.Subjects[1].Observation.Memory = []workload.NodeMemory{{Node: 0, KiB: gib}}
		}, func(_ *decider, t *trouble) { t.traffic[0] = true }, "move a 1, move a 2, move b 0, move b 2"},
		{"far from its memory", nil, func(d *decider, t *trouble) { t.far = []*work{&d.m.workloads[1]} }, "move b 0, move b 2"},
		{"far from a device", nil, func(d *decider, t *trouble) { t.farFromPartner = []*work{&d.m.workloads[0]} }, "move a 1, move a 2"},
		{"far, and its memory put off", func(b *bench) { b.in.Flights = []Flight{{Workload: "b", PutOff: words.Plain("busy.")}} },
			func(d *decider, t *trouble) { t.far = []*work{&d.m.workloads[1]} }, "memory-to-CPUs b 1, move b 0, move b 2"},
		{"far, and its memory on its way", func(b *bench) { b.in.Flights = []Flight{{Workload: "b", To: topology.Nodes(1)}} },
			func(d *decider, t *trouble) { t.far = []*work{&d.m.workloads[1]} }, "move b 0, move b 2"},
		{"put off, but not far", func(b *bench) { b.in.Flights = []Flight{{Workload: "b", PutOff: words.Plain("busy.")}} },
			func(d *decider, t *trouble) { t.cpu[1] = true }, "move b 0, move b 2"},
		{"on two nodes", func(b *bench) {
			b.in.State.Placements[0].Home = topology.Nodes(0, 1)
		}, func(_ *decider, t *trouble) { t.cpu[0] = true }, "narrow a 0, narrow a 1, move a 2"},
		{"too large for its node, and it waits", func(b *bench) {
			b.in.Subjects[0].Observation.CPUUse = 8.5
			waits(b.in.Subjects[0], 0.12)
		}, func(_ *decider, t *trouble) { t.cpu[0] = true }, "move a 1, move a 2, widen a 0-1, widen a 0,2"},
		{"too large for its node, and it does not wait", func(b *bench) {
			b.in.Subjects[0].Observation.CPUUse = 8.5
			waits(b.in.Subjects[0], 0.09)
		}, func(_ *decider, t *trouble) { t.cpu[0] = true }, "move a 1, move a 2"},
		{"too large for its node, and nothing tells whether it waits", func(b *bench) { b.in.Subjects[0].Observation.CPUUse = 8.5 },
			func(_ *decider, t *trouble) { t.cpu[0] = true }, "move a 1, move a 2"},
		{"as large as its node", func(b *bench) {
			b.in.Subjects[0].Observation.CPUUse, b.in.Subjects[0].Observation.Threads = 8, 8
			waits(b.in.Subjects[0], 0.5)
		}, func(_ *decider, t *trouble) { t.cpu[0] = true }, "move a 1, move a 2"},
		{"a node without memory", func(b *bench) { b.in.State.Host.Nodes[2].Memory = 0 },
			func(_ *decider, t *trouble) { t.cpu[0] = true }, "move a 1"},
		{"a node that may not be used", func(b *bench) { b.in.State.Host.AllowedMems = topology.Nodes(0, 1) },
			func(_ *decider, t *trouble) { t.cpu[0] = true }, "move a 1"},
		{"batch work", func(b *bench) { b.in.State.Placements[0].Class = workload.Batch },
			func(_ *decider, t *trouble) { t.cpu[0] = true }, ""},
	} {
		b := newBench(t, "package:3 node:1(memory=16GiB) core:8")
		b.run("a", 0, 2, gib)
		b.run("b", 1, 2, gib)
		if tt.edit != nil {
			tt.edit(b)
		}
		d := b.decider()
		x := newTrouble(3)
		if tt.find != nil {
			tt.find(d, x)
		}
		options := d.singles(x)
		if got := briefly(options); got != tt.want {
			t.Errorf("%s: %s; want %s", tt.name, got, tt.want)
		}
		for _, o := range options {
			if o.kind == MemoryToCPUs && o.rejected.None() {
				t.Errorf("%s: memory that was put off is fetched", tt.name)
			}
		}
	}
}

// TestTakes: shared work can live where there is a CPU and memory for it.
func TestTakes(t *testing.T) {
	b := two(t)
	b.run("a", 0, 2, gib)
	d := b.decider()
	for cpus, want := range []bool{false, true, true} {
		d.m.rooms[1].CPUs = cpus
		if d.takes(1) != want {
			t.Errorf("a node with %d CPUs: %v", cpus, !want)
		}
	}
	b.in.State.Host.Nodes[1].Memory = 1
	if !d.takes(1) {
		t.Error("a node with 1 KiB takes nothing")
	}
	b.in.State.Host.Nodes[1].Memory = topology.None
	if !d.takes(1) {
		t.Error("a node of which nobody knows the memory takes nothing")
	}
}

// TestSwaps: pairs of a node in trouble and another, the heaviest of each.
func TestSwaps(t *testing.T) {
	build := func() *bench {
		b := newBench(t, "package:3 node:1(memory=16GiB) core:8")
		b.run("a", 0, 2, gib)
		b.run("b", 0, 3, gib)
		b.run("c", 1, 1, gib)
		b.run("d", 1, 1, gib, class(workload.Dedicated))
		b.run("e", 2, 1, gib, func(s *place.Subject) { s.Observation.Pinned = true })
		b.in.State.Placements = append(b.in.State.Placements, plan.Placement{Workload: "e", Class: workload.Shared, Home: topology.Nodes(2), CPUs: topology.CPUs(16)})
		return b.seen()
	}
	for _, tt := range []struct {
		name string
		edit func(b *bench, d *decider, t *trouble)
		want string
	}{
		{"nothing", func(*bench, *decider, *trouble) {}, ""},
		{"CPUs", func(_ *bench, _ *decider, t *trouble) { t.cpu[0] = true }, "swap b 1 c 0, swap a 1 c 0"},
		{"the other node", func(_ *bench, _ *decider, t *trouble) { t.short[1] = true }, "swap c 0 b 1, swap c 0 a 1"},
		{"both: each pair once", func(_ *bench, _ *decider, t *trouble) { t.cpu[0], t.cpu[1] = true, true }, "swap b 1 c 0, swap a 1 c 0"},
		{"bandwidth: the one with most goes first", func(_ *bench, d *decider, t *trouble) { t.traffic[0] = true; d.m.workloads[0].traffic = 1e6 }, "swap a 1 c 0, swap b 1 c 0"},
		{"CPUs: bandwidth does not count", func(_ *bench, d *decider, t *trouble) { t.cpu[0] = true; d.m.workloads[0].traffic = 1e6 }, "swap b 1 c 0, swap a 1 c 0"},
		{"one is on two nodes", func(b *bench, d *decider, t *trouble) {
			t.cpu[0] = true
			d.m.workloads[2].placed.Home = topology.Nodes(1, 2)
		}, ""},
		{"one may not move", func(b *bench, d *decider, t *trouble) { t.cpu[0] = true; b.in.Held = []workload.ID{"b"} }, "swap a 1 c 0"},
	} {
		b := build()
		d := b.decider()
		x := newTrouble(3)
		tt.edit(b, d, x)
		if got := briefly(d.swaps(x)); got != tt.want {
			t.Errorf("%s: %s; want %s", tt.name, got, tt.want)
		}
	}
	b := two(t)
	for i := range 20 {
		b.run(fmt.Sprintf("a%02d", i), 0, float64(i), 1)
		b.run(fmt.Sprintf("b%02d", i), 1, float64(i), 1)
	}
	slices.SortFunc(b.in.State.Placements, func(x, y plan.Placement) int { return strings.Compare(string(x.Workload), string(y.Workload)) })
	d := b.seen().decider()
	x := newTrouble(2)
	x.cpu[0] = true
	options := d.swaps(x)
	if len(options) != mostSwapped*mostSwapped || options[0].changes[0].w.id != "a19" || options[255].changes[1].w.id != "b04" {
		t.Errorf("%d pairs, the first %v", len(options), briefly(options[:1]))
	}
}

// TestShift: where work of a new home runs and lies, and what moves for it.
func TestShift(t *testing.T) {
	b := newBench(t, "package:3 node:1(memory=16GiB) core:8")
	b.run("a", 0, 2, 4*gib, func(s *place.Subject) {
		s.Observation.Memory = []workload.NodeMemory{{Node: 0, KiB: 3 * gib}, {Node: 1, KiB: gib}}
	})
	b.run("z", 1, 4, gib, class(workload.Dedicated), func(s *place.Subject) { s.Spec.CPUs = 4 })
	d := b.decider()
	w := &d.m.workloads[0]
	for _, tt := range []struct {
		to       topology.NodeSet
		run, mem []part
		kib      topology.KiB
	}{
		{topology.Nodes(0), parts(1), parts(1), gib},
		{topology.Nodes(1), parts(0, 1), parts(0, 1), 3 * gib},
		{topology.Nodes(2), parts(0, 0, 1), parts(0, 0, 1), 4 * gib},
		{topology.Nodes(0, 1), parts(8.0/12, 4.0/12), parts(0.75, 0.25), 0}, // z has 4 of the CPUs of node 1
	} {
		s := d.shiftTo(w, tt.to)
		if s.w != w || !s.to.Equal(tt.to) || !alike(s.run, tt.run) || !alike(s.mem, tt.mem) || !near(s.kib, float64(tt.kib)) {
			t.Errorf("to %v: runs on %v, lies on %v, moves %v KiB; want %+v", tt.to, s.run, s.mem, s.kib, tt)
		}
	}
	d.m.rooms[2].CPUs = 0
	if got := d.runOn(topology.Nodes(0, 2)); !alike(got, parts(1)) {
		t.Errorf("a home of which a node has no CPU left: runs on %v", got)
	}
}
