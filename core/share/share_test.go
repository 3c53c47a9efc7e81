package share

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"syscall"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/core/workload"
)

var epoch = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// node is one with so many cores of so many CPUs, from CPU at on.
func node(id, at, cores, width int) Node {
	n := Node{ID: topology.NodeID(id), Known: true}
	for range cores {
		var c topology.CPUSet
		for range width {
			c.Add(topology.CPUID(at))
			at++
		}
		n.Cores, n.Pool = append(n.Cores, c), n.Pool.Union(c)
	}
	return n
}

// batch is batch work that may be on all CPUs of nodes.
func batch(id string, importance int, nodes ...Node) Work {
	w := Work{ID: workload.ID(id), Importance: importance, Use: 1, Freezes: true}
	for i := range nodes {
		w.CPUs = w.CPUs.Union(nodes[i].Pool)
	}
	w.Now = w.CPUs
	return w
}

func on() Settings { s := DefaultSettings(); s.On, s.Freeze = true, true; return s }

// TestBudget is the formula on cases that can be worked out by hand. A node has 16 cores of
// two CPUs: 4 CPUs, an eighth, stay idle.
func TestBudget(t *testing.T) {
	for _, tt := range []struct {
		name           string
		online, system float64
		target         float64
		idle           int
		want           int // CPUs given from all
	}{
		{"quiet", 0, 0, 0.65, 0, 22},                                   // 20.8, and more than a core of it must be too much
		{"half busy", 10, 0, 0.65, 0, 12},                              // 10.8
		{"the system counts", 10, 2, 0.65, 0, 10},                      // 8.8
		{"CPUs kept idle bound it", 10, 0, 1, 0, 18},                   // 22, and 4 stay idle
		{"as many are kept idle as was said", 10, 0, 1, 12, 10},        // 22 - 12
		{"beyond the target: one core", 24, 0, 0.65, 0, 2},             // -3.2
		{"nothing is left: one core", 32, 0, 0.65, 0, 2},               //
		{"everything is shared out", 0, 0, 1, 1, 30},                   // 31 in whole cores
		{"a target above what is left idle", 0, 0, 1, 0, 28},           //
		{"all of it kept idle: one core is the least", 0, 0, 1, 99, 2}, //
	} {
		n := node(0, 0, 16, 2)
		n.Online, n.System = tt.online, tt.system
		in := Input{At: epoch, Nodes: []Node{n}, Work: []Work{batch("b", 50, n)}, Settings: on()}
		in.Target, in.Idle = tt.target, tt.idle
		out, _ := Decide(in, State{})
		if got := out.Nodes[0].Given; got.Len() != tt.want || !got.Has(31) {
			t.Errorf("%s: given %v (%d CPUs), want %d", tt.name, got, got.Len(), tt.want)
		}
		if !out.Work[0].CPUs.Equal(out.Nodes[0].Given) {
			t.Errorf("%s: the workload has %v, the node gives %v", tt.name, out.Work[0].CPUs, out.Nodes[0].Given)
		}
	}
}

// TestNoWholeCore: where dedicated work holds a sibling of every core, one CPU is what there is.
func TestNoWholeCore(t *testing.T) {
	n := Node{ID: 0, Pool: topology.CPUs(0, 2, 4), Known: true}
	in := Input{At: epoch, Nodes: []Node{n}, Work: []Work{batch("b", 50, n)}, Settings: on()}
	if out, _ := Decide(in, State{}); out.Work[0].CPUs.String() != "4" {
		t.Errorf("given %v, want CPU 4", out.Work[0].CPUs)
	}
	in.Nodes[0].Pool = topology.CPUSet{}
	if out, _ := Decide(in, State{}); out.Work[0].CPUs.String() != "0,2,4" {
		t.Errorf("given %v: a workload that no pool has a CPU for keeps its own", out.Work[0].CPUs)
	}
}

// world is a node that is lived on round by round.
type world struct {
	in  Input
	was State
	out Outcome

	turns map[topology.NodeID][]time.Time // to more, as check has seen them
}

func (w *world) round(period time.Duration) {
	w.in.At = w.in.At.Add(period)
	w.out, w.was = Decide(w.in, w.was)
	for i := range w.in.Work {
		w.in.Work[i].Now, w.in.Work[i].Max = w.out.Work[i].CPUs, w.out.Work[i].Max
	}
}

// TestGrowth: from one core to all that there is room for, a tenth of the node at a time, and
// only when there was room all the while; at once back.
func TestGrowth(t *testing.T) {
	n := node(0, 0, 32, 2)
	w := world{in: Input{At: epoch, Nodes: []Node{n}, Work: []Work{batch("b", 50, n)}, Settings: on()}}
	w.in.Nodes[0].Online = 64
	w.round(2 * time.Second)
	if got := w.out.Nodes[0].Given.Len(); got != 2 {
		t.Fatalf("a full node gives %d CPUs, want one core", got)
	}
	w.in.Nodes[0].Online = 10 // 31.6 are left
	var sizes []int
	for range 14 {
		w.round(2 * time.Second)
		sizes = append(sizes, w.out.Nodes[0].Given.Len())
	}
	if want := []int{2, 2, 2, 2, 8, 14, 20, 26, 32, 32, 32, 32, 32, 32}; !slices.Equal(sizes, want) {
		t.Errorf("it grew %v, want %v", sizes, want)
	}
	w.in.Nodes[0].Online = 40
	if w.round(2 * time.Second); w.out.Nodes[0].Given.Len() != 2 {
		t.Errorf("%d CPUs are left of it, want one core at once", w.out.Nodes[0].Given.Len())
	}
	// it turned 12 s after the start, and may once more before the minute is over, and then when it is
	for _, want := range []time.Duration{42 * time.Second, 72 * time.Second, 132 * time.Second} {
		w.in.Nodes[0].Online = 10
		for w.out.Nodes[0].Given.Len() == 2 && w.in.At.Sub(epoch) < time.Hour {
			w.round(2 * time.Second)
		}
		if at := w.in.At.Sub(epoch); at != want || w.out.Nodes[0].Given.Len() != 8 {
			t.Errorf("%v after the start it has %d CPUs, want 8 after %v", at, w.out.Nodes[0].Given.Len(), want)
		}
		w.in.Nodes[0].Online = 40
		w.round(2 * time.Second)
	}
}

// TestLimitsAcrossNodes: who is limited for what one node gives gets its part of another that gives
// whole cores, and not all of that once more.
func TestLimitsAcrossNodes(t *testing.T) {
	a, b := node(0, 0, 8, 1), node(1, 8, 8, 1)
	a.Online, b.Online = 2.6, 2.0 // 8 × 0.65: 2.6 and 3.2
	w := &world{in: Input{At: epoch, Nodes: []Node{a, b}, Settings: on()}}
	for i := range 2 {
		x := batch(fmt.Sprint("w", i), 50, a, b)
		x.Limits, x.Use, x.RanOn = true, 3.5, []workload.NodeShare{{Node: 0, Share: 0.5}, {Node: 1, Share: 0.5}}
		w.in.Work = append(w.in.Work, x)
	}
	for k := range 100 {
		if k == 20 { // 3: what the three cores can do that it has
			w.in.Nodes[0].Online = 2.2
		}
		w.round(2 * time.Second)
		for i := range w.in.Work { // they want all that there is: 3 and 4 CPUs
			if w.in.Work[i].Use = 3.5; w.in.Work[i].Max > 0 {
				w.in.Work[i].Use = min(3.5, w.in.Work[i].Max)
			}
		}
	}
	if got := w.limits(); w.out.Nodes[0].Given.Len() != 3 || got[0] == 0 || math.Abs(got[0]+got[1]-6.2) > 0.1 {
		t.Errorf("they are limited to %v, and %v are given, of node 0 %v", got, w.out.Nodes[0].CPUs+w.out.Nodes[1].CPUs, w.out.Nodes[0].Given)
	}
}

// TestSpike: what little is given back to batch work does not keep it from what a spike of
// online work took; the next little waits for both.
func TestSpike(t *testing.T) {
	n := node(0, 0, 32, 2)
	w := world{in: Input{At: epoch, Nodes: []Node{n}, Work: []Work{batch("b", 50, n)}, Settings: on()}}
	turns := func(online float64, length time.Duration) (at []time.Duration) {
		w.in.Nodes[0].Online = online
		for end := w.in.At.Add(length); w.in.At.Before(end); {
			before, fell := w.out.Nodes, len(w.was.Nodes) > 0 && w.was.Nodes[0].Fell
			if w.round(2 * time.Second); fell && w.out.Nodes[0].CPUs > before[0].CPUs {
				at = append(at, w.in.At.Sub(epoch))
			}
		}
		return at
	}
	for _, step := range []struct {
		online float64
		length time.Duration
		want   []time.Duration
	}{
		{16, 60 * time.Second, nil},
		{18, 30 * time.Second, nil},                                // a little less
		{16, 30 * time.Second, []time.Duration{100 * time.Second}}, // and a little more
		{40, 4 * time.Second, nil},                                 // a spike
		{16, 40 * time.Second, []time.Duration{134 * time.Second}},
		{18, 10 * time.Second, nil},
		{16, 60 * time.Second, []time.Duration{220 * time.Second}}, // two minutes after the first of two
	} {
		if got := turns(step.online, step.length); !slices.Equal(got, step.want) {
			t.Errorf("online %v until %v: turned to more at %v, want %v", step.online, w.in.At.Sub(epoch), got, step.want)
		}
	}
}

// limited is a node of 8 cores of two CPUs, and batch work that takes limits, each with what
// it uses.
func limited(online float64, uses ...float64) *world {
	n := node(0, 0, 8, 2)
	n.Online = online
	w := &world{in: Input{At: epoch, Nodes: []Node{n}, Settings: on()}}
	for i, use := range uses {
		b := batch(fmt.Sprint("w", i), 50, n)
		b.Limits, b.Use, b.RanOn = true, use, []workload.NodeShare{{Node: 0, Share: 1}}
		w.in.Work = append(w.in.Work, b)
	}
	return w
}

func (w *world) limits() (out []float64) {
	for i := range w.out.Work {
		out = append(out, w.out.Work[i].Max)
	}
	return out
}

// TestLimits: where a core is a large part of a node, the budget is met within the last core by
// limits: alike for all that want more than their part, none for who uses less.
func TestLimits(t *testing.T) {
	w := limited(3.6, 4, 3.5, 0.3) // 16 × 0.65 - 3.6 = 6.8
	w.round(2 * time.Second)
	if b := w.out.Nodes[0]; math.Abs(b.CPUs-6.8) > 1e-9 || b.Given.Len() != 8 {
		t.Fatalf("%v CPUs on %v, want 6.8 on 8", b.CPUs, b.Given)
	}
	for _, step := range []struct {
		uses, want []float64
	}{
		{[]float64{4, 3.5, 0.3}, []float64{3.25, 3.25, 0}},
		{[]float64{3.25, 3.25, 0.3}, []float64{3.25, 3.25, 0}},
		{[]float64{3.2, 3.2, 1.6}, []float64{2.6, 2.6, 2.6}}, // the third wants more now
		{[]float64{2.6, 2.6, 1.6}, []float64{2.6, 2.6, 2.6}},
		{[]float64{2.6, 0, 1.6}, []float64{5.2, 2.6, 5.2}}, // the second rests, and keeps its limit
		{[]float64{5.2, 0, 0}, []float64{6.8, 2.6, 5.2}},
	} {
		for i, use := range step.uses {
			w.in.Work[i].Use = use
		}
		w.round(2 * time.Second)
		if got := w.limits(); !slices.EqualFunc(got, step.want, func(a, b float64) bool { return math.Abs(a-b) < 0.002 }) {
			t.Errorf("who uses %v is limited to %v, want %v", step.uses, got, step.want)
		}
	}
	w.in.Nodes[0].Online = 2.4 // 8.0: no part of a core is left over
	for range 40 {
		w.round(2 * time.Second)
	}
	if got := w.limits(); !slices.Equal(got, []float64{0, 0, 0}) || w.out.Nodes[0].Given.Len() != 8 {
		t.Errorf("with %v of %v for it, batch work is limited to %v", w.out.Nodes[0].CPUs, w.out.Nodes[0].Given, got)
	}
	w.in.Work[1].Limits = false
	w.in.Nodes[0].Online = 3.6
	w.round(2 * time.Second)
	if got := w.limits(); !slices.Equal(got, []float64{0, 0, 0}) {
		t.Errorf("one takes no limit, and the others have %v", got)
	}
}

// TestSteady: of a load that never changes nothing is changed; less of it leaves more to batch
// work; who the workloads are does not matter.
func TestSteady(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var cores []topology.CPUSet // of uneven nodes: some cores have lost a CPU
		at := 0
		for range rapid.IntRange(1, 24).Draw(t, "cores") {
			var c topology.CPUSet
			for range rapid.IntRange(1, 2).Draw(t, "width") {
				c.Add(topology.CPUID(at))
				at++
			}
			cores = append(cores, c)
		}
		takes := rapid.Bool().Draw(t, "limits")
		settle := func(used float64, order []int) *world {
			n := Node{Known: true, Cores: cores, Online: used}
			for _, c := range cores {
				n.Pool = n.Pool.Union(c)
			}
			w := &world{in: Input{At: epoch, Nodes: []Node{n}, Settings: on()}}
			for i := range order {
				b := batch(fmt.Sprint("w", i), 50, n)
				b.Limits, b.Use, b.RanOn = takes, float64(order[i]), []workload.NodeShare{{Node: 0, Share: 1}}
				w.in.Work = append(w.in.Work, b)
			}
			for range 120 {
				w.round(2 * time.Second)
			}
			before := w.out
			for range 60 {
				if w.round(2 * time.Second); w.out.Nodes[0].CPUs != before.Nodes[0].CPUs || !w.out.Nodes[0].Given.Equal(before.Nodes[0].Given) {
					t.Fatalf("a load of %v of %d that never changes: %v on %v, then %v on %v", used, n.Pool.Len(),
						before.Nodes[0].CPUs, before.Nodes[0].Given, w.out.Nodes[0].CPUs, w.out.Nodes[0].Given)
				}
			}
			return w
		}
		load := float64(at) * rapid.Float64Range(0, 1).Draw(t, "load")
		a := settle(load, []int{1, 2, 3})
		if less := settle(load*rapid.Float64Range(0, 1).Draw(t, "less"), []int{1, 2, 3}); less.out.Nodes[0].CPUs < a.out.Nodes[0].CPUs-1e-9 {
			t.Fatalf("with a load of %v batch work has %v, with less %v", load, a.out.Nodes[0].CPUs, less.out.Nodes[0].CPUs)
		}
		b := settle(load, []int{3, 1, 2})
		if a.out.Nodes[0].CPUs != b.out.Nodes[0].CPUs || a.limits()[0] != b.limits()[1] || a.limits()[2] != b.limits()[0] {
			t.Fatalf("under other names the same work has %v and %v, not %v and %v", b.out.Nodes[0].CPUs, b.limits(), a.out.Nodes[0].CPUs, a.limits())
		}
	})
}

// TestStep: online work that comes back takes its CPUs back in the same look, noise or not.
func TestStep(t *testing.T) {
	w := limited(3, 8)
	for k := range 120 {
		w.in.Nodes[0].Online = 3 + 0.2*float64(k%3-1)
		w.round(2 * time.Second)
	}
	before := w.out.Nodes[0].CPUs
	w.in.Nodes[0].Online = 8
	if w.round(2 * time.Second); before < 6.5 || w.out.Nodes[0].CPUs > 16*0.65-8+0.5 {
		t.Errorf("%v CPUs, and %v after 5 more are used", before, w.out.Nodes[0].CPUs)
	}
}

// TestClock: a clock that is set does not keep batch work from anything.
func TestClock(t *testing.T) {
	for _, jump := range []time.Duration{-5 * time.Hour, 5 * time.Hour} {
		w := limited(12, 8)
		for range 60 {
			w.round(2 * time.Second)
		}
		w.in.At = w.in.At.Add(jump)
		w.in.Nodes[0].Online = 3
		for range 60 {
			w.round(2 * time.Second)
		}
		if got := w.out.Nodes[0].CPUs; got < 7 {
			t.Errorf("two minutes after the clock was set by %v batch work has %v CPUs, 7.4 are allowed", jump, got)
		}
		w.in.At = w.in.At.Add(jump)
		w.in.Nodes[0].Online = 12
		if w.round(2 * time.Second); w.out.Nodes[0].CPUs > 2 {
			t.Errorf("the clock was set by %v, and batch work keeps %v CPUs that online work needs", jump, w.out.Nodes[0].CPUs)
		}
	}
}

// TestWaiting: where important work waits each time that more is given, that is tried ever more
// seldom.
func TestWaiting(t *testing.T) {
	w := limited(3, 8)
	var turns []time.Duration
	for range 3600 { // two hours
		w.in.Nodes[0].Wait, w.in.Nodes[0].Waiting = 0, "web"
		if w.out.Nodes != nil && w.out.Nodes[0].CPUs > 5 { // it waits when batch work has more than 5
			w.in.Nodes[0].Wait = 0.2
		}
		before := w.was
		w.round(2 * time.Second)
		if len(before.Nodes) > 0 && before.Nodes[0].Fell && !w.was.Nodes[0].Fell {
			turns = append(turns, w.in.At.Sub(epoch))
		}
	}
	if len(turns) > 12 {
		t.Errorf("it was tried %d times in two hours: %v", len(turns), turns)
	}
}

// TestFreeze: the order in which work is frozen and let go, and that it is never before one
// core is left.
func TestFreeze(t *testing.T) {
	n := node(0, 0, 4, 2)
	w := world{in: Input{At: epoch, Nodes: []Node{n}, Settings: on()}}
	w.in.Work = []Work{batch("a", 50, n), batch("b", 10, n), batch("c", 10, n)}
	w.in.Work[2].Use = 3
	w.in.Nodes[0].Wait, w.in.Nodes[0].Waiting = 0.2, "web"
	frozen := func() (out []workload.ID) {
		for _, f := range w.was.Frozen {
			out = append(out, f.Workload)
		}
		return out
	}
	w.round(2 * time.Second)
	for w.out.Nodes[0].Given.Len() > 2 {
		if len(frozen()) > 0 {
			t.Fatalf("frozen %v with CPUs %v left", frozen(), w.out.Nodes[0].Given)
		}
		w.round(2 * time.Second)
	}
	for range 20 {
		w.round(2 * time.Second)
	}
	if want := []workload.ID{"c", "b", "a"}; !slices.Equal(frozen(), want) {
		t.Fatalf("frozen %v, want %v", frozen(), want)
	}
	w.in.Nodes[0].Wait = 0
	let := []int{}
	for range 60 {
		w.round(2 * time.Second)
		if k := len(frozen()); len(let) == 0 || let[len(let)-1] != k {
			let = append(let, k)
		}
	}
	if want := []int{3, 2, 1, 0}; !slices.Equal(let, want) {
		t.Errorf("frozen one after the other: %v, want %v", let, want)
	}
	w.in.Nodes[0].Wait, w.in.Freeze = 0.2, false
	for range 40 {
		if w.round(2 * time.Second); len(frozen()) > 0 {
			t.Fatal("frozen though the configuration does not freeze")
		}
	}
}

// TestFreezeClock: what is frozen does not stay so for as long as the clock was set back by.
func TestFreezeClock(t *testing.T) {
	n := node(0, 0, 4, 2)
	w := world{in: Input{At: epoch, Nodes: []Node{n}, Settings: on()}}
	w.in.Work = []Work{batch("a", 50, n)}
	w.in.Nodes[0].Wait, w.in.Nodes[0].Waiting = 0.2, "web"
	for range 20 {
		w.round(2 * time.Second)
	}
	if len(w.was.Frozen) != 1 {
		t.Fatal("nothing is frozen")
	}
	w.in.At, w.in.Nodes[0].Wait = w.in.At.Add(-5*time.Hour), 0
	for range 60 {
		w.round(2 * time.Second)
	}
	if len(w.was.Frozen) > 0 {
		t.Errorf("two minutes after the clock was set back it is frozen: %+v", w.was)
	}
}

// TestProperties: whatever happens on a host, what is given keeps to the rules.
func TestProperties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := world{turns: map[topology.NodeID][]time.Time{}, in: Input{At: epoch, Settings: Settings{On: true, Target: rapid.Float64Range(0.1, 1).Draw(t, "target"),
			Idle: rapid.IntRange(0, 6).Draw(t, "idle"), MaxWait: 0.05, Freeze: rapid.Bool().Draw(t, "freeze")}}}
		at := 0
		for i := range rapid.IntRange(1, 4).Draw(t, "nodes") {
			width := rapid.IntRange(1, 2).Draw(t, "width")
			n := node(i, at, rapid.IntRange(0, 24).Draw(t, "cores"), width)
			at += n.Pool.Len()
			w.in.Nodes = append(w.in.Nodes, n)
		}
		for i := range rapid.IntRange(0, 5).Draw(t, "work") {
			b := batch(fmt.Sprint("w", i), rapid.IntRange(0, 100).Draw(t, "importance"), w.in.Nodes...)
			b.Limits = rapid.IntRange(0, 9).Draw(t, "limits") > 0
			w.in.Work = append(w.in.Work, b)
		}
		for range rapid.IntRange(1, 40).Draw(t, "rounds") {
			for i := range w.in.Nodes {
				n := &w.in.Nodes[i]
				pool := float64(n.Pool.Len())
				n.Known = rapid.IntRange(0, 9).Draw(t, "known") > 0
				n.Online, n.System = pool*rapid.Float64Range(0, 1.1).Draw(t, "online"), pool*rapid.Float64Range(0, 0.2).Draw(t, "system")
				n.Wait, n.Waiting = rapid.SampledFrom([]float64{0, 0, 0, 0.3}).Draw(t, "wait"), "web"
			}
			for i := range w.in.Work {
				b := &w.in.Work[i]
				b.Use, b.RanOn = rapid.Float64Range(0, 8).Draw(t, "use"), nil
				for k := range w.in.Nodes {
					b.RanOn = append(b.RanOn, workload.NodeShare{Node: w.in.Nodes[k].ID, Share: 1 / float64(len(w.in.Nodes))})
				}
			}
			before, had := w.was, slices.Clone(w.was.Nodes)
			text := asJSON(t, w.was)
			period := rapid.SampledFrom([]time.Duration{100 * time.Millisecond, 2 * time.Second, time.Minute, -time.Second}).Draw(t, "period")
			in := w.in
			in.Work = slices.Clone(in.Work)
			w.round(period)
			in.At = w.in.At
			if asJSON(t, before) != text {
				t.Fatal("a round changed what it was handed")
			}
			var read State
			if err := json.Unmarshal([]byte(asJSON(t, before)), &read); err != nil {
				t.Fatal(err)
			}
			if out, _ := Decide(in, read); asJSON(t, out.Nodes) != asJSON(t, w.out.Nodes) {
				t.Fatal("what was written and read again decides otherwise")
			}
			for i := range w.in.Nodes {
				var old *NodeState
				if len(had) > 0 {
					old = &had[i]
				}
				if period < 0 { // all begins anew
					clear(w.turns)
				}
				w.check(t, &w.in.Nodes[i], &w.out.Nodes[i], old)
			}
			w.checkFrozen(t, &before)
		}
	})
}

func asJSON(t interface{ Fatal(...any) }, v any) string {
	text, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// check holds what a node gives to every rule.
func (w *world) check(t *rapid.T, n *Node, b *Budget, old *NodeState) {
	floor := floorOf(n)
	if !b.Given.SubsetOf(n.Pool) || !floor.SubsetOf(b.Given) {
		t.Fatalf("node %d gives %v of %v, and one core is the least: %v", n.ID, b.Given, n.Pool, floor)
	}
	if len(n.Cores) == 0 {
		return
	}
	for _, c := range n.Cores {
		if c.Intersects(b.Given) && !c.SubsetOf(b.Given) {
			t.Fatalf("node %d gives %v, a part of core %v", n.ID, b.Given, c)
		}
	}
	trims, width, low := trims(&w.in, n), float64(n.Cores[0].Len()), w.in.LeastOf(n)
	given, pool := float64(b.Given.Len()), float64(n.Pool.Len())
	if old != nil && b.CPUs > max(low, old.CPUs+max(growth*pool, width))+1e-9 {
		t.Fatalf("node %d of %v CPUs grew from %v to %v in a round", n.ID, pool, old.CPUs, b.CPUs)
	}
	if !n.Known {
		if old != nil && (b.CPUs > max(old.CPUs, low) || given > float64(old.Given.Len())) {
			t.Fatalf("node %d grew and nothing is known of it", n.ID)
		}
		return
	}
	used := n.Online + n.System
	room := max(low, pool-used-float64(b.Idle))
	switch {
	case b.CPUs > room+1e-9:
		t.Fatalf("node %d gives %v CPUs: %v of %v are used and %d stay idle", n.ID, b.CPUs, used, pool, b.Idle)
	case trims && given > max(width, b.CPUs+1.25*width)+1e-9 || !trims && given > max(room, width)+1e-9:
		t.Fatalf("node %d gives %v CPUs of %v: %v of %v are used and %d stay idle", n.ID, b.CPUs, b.Given, used, pool, b.Idle)
	}
	if allowance := max(low, pool*w.in.Target-used); b.CPUs > allowance+0.15*pool+1e-9 {
		t.Fatalf("node %d gives %v CPUs, %v are allowed", n.ID, b.CPUs, allowance)
	}
	if old != nil && b.CPUs > max(low, old.CPUs)+1e-9 {
		now := w.in.At
		if now.Before(old.Seen[len(old.Seen)-1].At) || !old.Shrank.IsZero() && now.Sub(old.Shrank) < window {
			t.Fatalf("node %d grew %v after it shrank", n.ID, now.Sub(old.Shrank))
		}
		if old.Fell && !old.Turned.IsZero() {
			turns := append(w.turns[n.ID], now)
			if k := len(turns) - 3; k >= 0 && now.Sub(turns[k]) < between || old.Hold > between && now.Sub(old.Turned) < old.Hold {
				t.Fatalf("node %d turned to more at %v, and holds for %v", n.ID, turns, old.Hold)
			}
			w.turns[n.ID] = turns
		}
		if waits(&w.in, n) {
			t.Fatalf("node %d grew while %s waits", n.ID, n.Waiting)
		}
	}
	if len(b.Why) == 0 {
		t.Fatalf("node %d: no reason", n.ID)
	}
}

// checkFrozen: one more or one less at a time, what matters least first, only while somebody
// waits on a node that is down to its floor.
func (w *world) checkFrozen(t *rapid.T, before *State) {
	had, has := len(before.Frozen), len(w.was.Frozen)
	if has > 0 && !w.in.Freeze || has > had+1 || has < had-1 && w.in.Freeze {
		t.Fatalf("%d frozen, then %d", had, has)
	}
	if has > had {
		down := false
		for i := range w.in.Nodes {
			n := &w.in.Nodes[i]
			down = down || waits(&w.in, n) && w.out.Nodes[i].Given.Len() <= floorOf(n).Len()
		}
		last := w.was.Frozen[has-1]
		if !down || !last.Since.Equal(w.in.At) {
			t.Fatalf("%s is frozen and nobody waits where one core is left", last.Workload)
		}
		for i := range w.in.Work {
			x := &w.in.Work[i]
			other := slices.ContainsFunc(w.was.Frozen, func(f Frozen) bool { return f.Workload == x.ID })
			k := slices.IndexFunc(w.in.Work, func(v Work) bool { return v.ID == last.Workload })
			if !other && x.Importance < w.in.Work[k].Importance && !x.CPUs.Empty() {
				t.Fatalf("%s is frozen before %s, which matters less", last.Workload, x.ID)
			}
		}
	}
}

// TestSettles: a load with noise moves what is given a bounded number of times and to within
// a core of what the formula allows.
func TestSettles(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := node(0, 0, rapid.IntRange(8, 64).Draw(t, "cores"), rapid.IntRange(1, 2).Draw(t, "width"))
		pool, width := float64(n.Pool.Len()), float64(n.Cores[0].Len())
		job := batch("b", 50, n)
		job.Limits = rapid.Bool().Draw(t, "limits")
		w := world{in: Input{At: epoch, Nodes: []Node{n}, Work: []Work{job}, Settings: on()}}
		load := pool * rapid.Float64Range(0, 0.5).Draw(t, "load")
		noise := rapid.Float64Range(0, 0.02).Draw(t, "noise") * pool
		turns := 0
		for k := range 900 { // half an hour
			before := w.was
			w.in.Nodes[0].Online = max(0, load+noise*rapid.Float64Range(-1, 1).Draw(t, "x"))
			w.round(2 * time.Second)
			if k > 60 && w.was.Nodes[0].Fell != before.Nodes[0].Fell {
				turns++
			}
		}
		// Most draws have less than ten. On few CPUs, with the most noise, some have half a turn a minute: 15.
		if turns > 20 {
			t.Fatalf("more turned to less and back %d times in half an hour of a load that is always %v ± %v of %v", turns, load, noise, pool)
		}
		allowed := min(pool*w.in.Target-load, pool-load-float64(w.out.Nodes[0].Idle))
		have := w.out.Nodes[0].CPUs
		off := 0.01*pool + 2*noise + 1e-9
		left := min(crumb, crumbOf*allowed)
		if have > w.in.LeastOf(&n) && (have < allowed-off-left || have > allowed+off) {
			t.Fatalf("%v CPUs are given, %v allowed", have, allowed)
		}
		if given := float64(w.out.Nodes[0].Given.Len()); given > have+1.25*width || given < have-1.5*width {
			t.Fatalf("%v CPUs are given as %v", have, given)
		}
	})
}

func BenchmarkDecide(b *testing.B) {
	in := Input{At: epoch, Settings: on()}
	for i := range 8 {
		n := node(i, i*64, 32, 2)
		n.Online = float64(10 + i)
		in.Nodes = append(in.Nodes, n)
	}
	for i := range 300 {
		w := batch(fmt.Sprintf("w%03d", i), i%100, in.Nodes...)
		w.Limits, w.Max = true, 1
		for k := range in.Nodes {
			w.RanOn = append(w.RanOn, workload.NodeShare{Node: in.Nodes[k].ID, Share: 0.125})
		}
		in.Work = append(in.Work, w)
	}
	_, was := Decide(in, State{})
	cpu := func() time.Duration { // the machine may be busy
		var r syscall.Rusage
		if err := syscall.Getrusage(syscall.RUSAGE_SELF, &r); err != nil {
			b.Fatal(err)
		}
		return time.Duration(r.Utime.Nano() + r.Stime.Nano())
	}
	b.ReportAllocs()
	began := cpu()
	defer func() { b.ReportMetric((cpu()-began).Seconds()*1000/float64(b.N), "cpu-ms/op") }()
	for k := 0; b.Loop(); k++ {
		in.At = in.At.Add(2 * time.Second)
		in.Nodes[k%8].Online = float64(10 + k%11)
		_, was = Decide(in, was)
	}
}
