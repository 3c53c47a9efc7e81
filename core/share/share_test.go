package share

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"
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

// batch is offline work that may be on all CPUs of nodes.
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
}

func (w *world) round(period time.Duration) {
	w.in.At = w.in.At.Add(period)
	w.out, w.was = Decide(w.in, w.was)
	for i := range w.in.Work {
		w.in.Work[i].Now = w.out.Work[i].CPUs
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
	if want := []int{2, 2, 2, 2, 2, 8, 14, 20, 26, 32, 32, 32, 32, 32}; !slices.Equal(sizes, want) {
		t.Errorf("it grew %v, want %v", sizes, want)
	}
	w.in.Nodes[0].Online = 40
	if w.round(2 * time.Second); w.out.Nodes[0].Given.Len() != 2 {
		t.Errorf("%d CPUs are left of it, want one core at once", w.out.Nodes[0].Given.Len())
	}
	if w.was.Nodes[0].Hold <= window {
		t.Errorf("it is taken back just after it grew, and the next growth waits no longer than before: %v", w.was.Nodes[0].Hold)
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

// TestProperties: whatever happens on a host, what is given keeps to the rules.
func TestProperties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := world{in: Input{At: epoch, Settings: Settings{On: true, Target: rapid.Float64Range(0.1, 1).Draw(t, "target"),
			Idle: rapid.IntRange(0, 6).Draw(t, "idle"), MaxWait: 0.05, Freeze: rapid.Bool().Draw(t, "freeze")}}}
		at := 0
		for i := range rapid.IntRange(1, 4).Draw(t, "nodes") {
			width := rapid.IntRange(1, 2).Draw(t, "width")
			n := node(i, at, rapid.IntRange(0, 24).Draw(t, "cores"), width)
			at += n.Pool.Len()
			w.in.Nodes = append(w.in.Nodes, n)
		}
		for i := range rapid.IntRange(0, 5).Draw(t, "work") {
			w.in.Work = append(w.in.Work, batch(fmt.Sprint("w", i), rapid.IntRange(0, 100).Draw(t, "importance"), w.in.Nodes...))
		}
		for range rapid.IntRange(1, 40).Draw(t, "rounds") {
			for i := range w.in.Nodes {
				n := &w.in.Nodes[i]
				pool := float64(n.Pool.Len())
				n.Known = rapid.IntRange(0, 9).Draw(t, "known") > 0
				n.Online, n.System = pool*rapid.Float64Range(0, 1.1).Draw(t, "online"), pool*rapid.Float64Range(0, 0.2).Draw(t, "system")
				n.Wait, n.Waiting = rapid.SampledFrom([]float64{0, 0, 0, 0.3}).Draw(t, "wait"), "web"
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
	width := float64(n.Cores[0].Len())
	given, pool := float64(b.Given.Len()), float64(n.Pool.Len())
	if old != nil && given > float64(old.Given.Len())+max(growth*pool, width) {
		t.Fatalf("node %d of %v CPUs grew from %v to %v in a round", n.ID, pool, old.Given.Len(), given)
	}
	if !n.Known {
		if old != nil && given > float64(old.Given.Len()) {
			t.Fatalf("node %d grew and nothing is known of it", n.ID)
		}
		return
	}
	used := n.Online + n.System
	if room := pool - used - float64(b.Idle); given > max(float64(floor.Len()), room)+1e-9 {
		t.Fatalf("node %d gives %v CPUs: %v of %v are used and %d stay idle", n.ID, given, used, pool, b.Idle)
	}
	if allowance := pool*w.in.Target - used; given > max(float64(floor.Len()), allowance+slack*width)+1e-9 {
		t.Fatalf("node %d gives %v CPUs, %v are allowed", n.ID, given, allowance)
	}
	if old != nil && given > float64(old.Given.Len()) && !old.Shrank.IsZero() && w.in.At.Sub(old.Shrank) < window {
		t.Fatalf("node %d grew %v after it shrank", n.ID, w.in.At.Sub(old.Shrank))
	}
	if waits(&w.in, n) && old != nil && given > float64(old.Given.Len()) {
		t.Fatalf("node %d grew while %s waits", n.ID, n.Waiting)
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
		w := world{in: Input{At: epoch, Nodes: []Node{n}, Work: []Work{batch("b", 50, n)}, Settings: on()}}
		load := pool * rapid.Float64Range(0, 0.5).Draw(t, "load")
		noise := rapid.Float64Range(0, 0.02).Draw(t, "noise") * pool
		back, dir, last := 0, 0, -1
		for k := range 900 { // half an hour
			w.in.Nodes[0].Online = max(0, load+noise*rapid.Float64Range(-1, 1).Draw(t, "x"))
			w.round(2 * time.Second)
			given := w.out.Nodes[0].Given.Len()
			if last >= 0 && given != last {
				d := 1
				if given < last {
					d = -1
				}
				if dir == 1 && d == -1 && k > 60 {
					back++
				}
				dir = d
			}
			last = given
		}
		if back > 8 {
			t.Fatalf("what was given was taken back %d times in half an hour of a load that is always %v ± %v of %v", back, load, noise, pool)
		}
		allowed := min(pool*w.in.Target-load, pool-load-float64(w.out.Nodes[0].Idle))
		if off := allowed - float64(last); math.Abs(off) > width+2*noise+1e-9 && last > int(width) {
			t.Fatalf("%d CPUs are given, %v allowed", last, allowed)
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
		in.Work = append(in.Work, batch(fmt.Sprintf("w%03d", i), i%100, in.Nodes...))
	}
	_, was := Decide(in, State{})
	b.ReportAllocs()
	for b.Loop() {
		in.At = in.At.Add(2 * time.Second)
		_, was = Decide(in, was)
	}
}
