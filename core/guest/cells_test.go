package guest

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/homenode/homenode/core/plan"
	"github.com/homenode/homenode/core/plan/plantest"
	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/core/words"
	"github.com/homenode/homenode/core/workload"
)

// ofNova is flavors with the keys of Nova's extra specs that they stand for.
const ofNova = `flavors:
# hw:cpu_policy=mixed hw:cpu_dedicated_mask=2-3
- {name: mixed, class: mixed, vcpus: 4, dedicated_vcpus: 2-3, memory: 4GiB}
# hw:cpu_policy=mixed hw:cpu_dedicated_mask=^0 hw:numa_nodes=2 hw:numa_cpus.0=0-1 hw:numa_mem.0=1024 hw:numa_cpus.1=2-7 hw:numa_mem.1=3072
- {name: mixed-uneven, class: mixed, vcpus: 8, dedicated_vcpus: 1-7, memory: 4GiB, cells: [{vcpus: 0-1, memory: 1GiB}, {vcpus: 2-7, memory: 3GiB}]}
# hw:cpu_policy=dedicated hw:numa_nodes=2 hw:numa_cpus.0=0-1,6 hw:numa_mem.0=1024 hw:numa_cpus.1=2-5 hw:numa_mem.1=3072 hw:mem_page_size=2MB
- {name: uneven, class: dedicated, vcpus: 7, memory: 4GiB, cells: [{vcpus: "0-1,6", memory: 1GiB}, {vcpus: 2-5, memory: 3GiB, huge_pages: 2MiB}]}
# hw:numa_nodes=2 hw:numa_cpus.0=0-1 hw:numa_mem.0=1024 hw:numa_cpus.1=2-3 hw:numa_mem.1=3072, without a policy
- {name: floating, class: shared, vcpus: 4, memory: 4GiB, cells: [{vcpus: 0-1, memory: 1GiB}, {vcpus: 2-3, memory: 3GiB}]}
`

func novas(t testing.TB) Catalogue {
	t.Helper()
	c, err := ReadCatalogue(strings.NewReader(ofNova), "nova.yaml")
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// eight is two nodes of four cores with two threads.
func eight() plan.State {
	return plan.State{Host: plantest.Draw(`
		0 0-3|4-7   16G 10 21 huge=2Mx4096 dev=eth0
		1 8-11|12-15 16G 21 10 huge=2Mx4096`), Policy: plan.DefaultPolicy()}
}

func TestComposed(t *testing.T) {
	want := map[string]string{
		"mixed": `0=1-3,5-7 1=1-3,5-7 2=0 3=4 emulator=1-3,5-7/0 cell0=0
vm:g shared 2×1-3,5-7 on 0 [0:4194304] of 0
vm:g/pinned dedicated 2×0,4 on 0 [] of 0
`,
		"mixed-uneven": `0=1-7 1=0 2=8 3=12 4=9 5=13 6=10 7=14 emulator=1-7/0-1 cell0=0 cell1=1
vm:g shared 1×1-7 on 0 [0:1048576] of 0
vm:g/pinned dedicated 7×0,8-10,12-14 on 0-1 [] of 0
vm:g/pages-0 dedicated 0× on 1 [1:3145728] of 0
`,
		"uneven": `0=0 1=4 2=8 3=12 4=9 5=13 6=1 emulator=0-1,4,8-9,12-13/0-1 cell0=0 cell1=1
vm:g dedicated 7×0-1,4,8-9,12-13 on 0-1 [1:3145728] of 2048
vm:g/pages-0 dedicated 0× on 0 [0:1048576] of 0
`,
		"floating": `0=0-7 1=0-7 2=8-15 3=8-15 emulator=0-15/0-1 cell0=0 cell1=1
vm:g shared 0×0-15 on 0-1 [] of 0
vm:g/cell0 shared 2×0-7 on 0 [0:1048576] of 0
vm:g/cell1 shared 2×8-15 on 1 [1:3145728] of 0
`,
	}
	for _, f := range novas(t) {
		r := room(t, eight())
		h, d := r.Place(&Order{Flavor: f, Name: "g"})
		if d.Outcome != plan.Placed {
			t.Fatalf("%s: %v", f.Name, d.Reasons)
		}
		r.Commit(h)
		var b strings.Builder
		fmt.Fprintln(&b, h.Next())
		for _, p := range append([]plan.Placement{h.Placement}, h.Beside()...) {
			fmt.Fprintf(&b, "%s %s %d×%s on %s [", p.Workload, p.Class, p.VCPUs, p.CPUs, p.Home)
			for i, m := range p.Memory {
				fmt.Fprintf(&b, "%s%d:%d", strings.Repeat(" ", min(i, 1)), m.Node, m.KiB)
			}
			fmt.Fprintf(&b, "] of %d\n", p.HugePage)
		}
		if got := b.String(); got != want[f.Name] {
			t.Errorf("%s:\n%s\nwant\n%s", f.Name, got, want[f.Name])
		}
		if n, err := ParseNext(h.Next()); err != nil || n.String() != h.Next() {
			t.Errorf("%s: read back: %q, %v", f.Name, n.String(), err)
		}
	}
}

func TestComposedRefused(t *testing.T) {
	st := eight()
	for _, tt := range []struct {
		flavor string
		code   words.Code
		text   string
	}{
		{"{name: a, class: mixed, vcpus: 9, dedicated_vcpus: 0-7, memory: 1GiB}", words.CellNowhere, "Its cell 0 (vCPUs 0-8, 1 GiB) fits on no node: "},
		{"{name: a, class: dedicated, vcpus: 3, memory: 3GiB, cells: [{vcpus: 0, memory: 1GiB}, {vcpus: 1, memory: 1GiB}, {vcpus: 2, memory: 1GiB}]}",
			words.CellsNowhere, "Each of its 3 cells fits on some node, but they do not fit on different nodes."},
	} {
		c, err := ReadCatalogue(strings.NewReader("flavors: ["+tt.flavor+"]"), "f")
		if err != nil {
			t.Fatal(err)
		}
		if _, d := room(t, st).Place(&Order{Flavor: c[0], Name: "g"}); d.Outcome != plan.Refused || d.Reasons[0].Code != tt.code || !strings.HasPrefix(d.Reasons[0].String(), tt.text) {
			t.Errorf("%s: %s %v", tt.flavor, d.Outcome, d.Reasons)
		}
	}
}

func TestReadCellsErrors(t *testing.T) {
	for _, tt := range []struct{ text, want string }{
		{"class: mixed", `dedicated_vcpus: ""; want some of vCPUs 0-3, and not all`},
		{"class: mixed, dedicated_vcpus: 0-3", "and not all"},
		{"class: mixed, dedicated_vcpus: 4", "want some of vCPUs 0-3"},
		{"class: mixed, dedicated_vcpus: x", "want a list such as 0-1,4"},
		{"class: dedicated, dedicated_vcpus: 1", "only class mixed has some"},
		{"class: mixed, dedicated_vcpus: 1, max_nodes: 2", "max_nodes: each cell is on one node"},
		{"class: dedicated, cells: [{vcpus: 0-2, memory: 4GiB}]", "cells: vCPUs 3 are in none"},
		{"class: dedicated, cells: [{vcpus: 0-3, memory: 4GiB}, {vcpus: 3, memory: 1GiB}]", `cells[1].vcpus: "3"; vCPUs 3 are in a cell above`},
		{"class: dedicated, cells: [{vcpus: 0-3, memory: 3GiB}]", "cells: 3145728 KiB of memory together; the flavor has 4194304"},
		{"class: dedicated, cells: [{vcpus: 0-3}]", "cells[0].memory: 0 KiB; want whole MiB"},
		{"class: dedicated, cells: [{memory: 4GiB}]", `cells[0].vcpus: ""; want some of vCPUs 0-3`},
		{"class: dedicated, huge_pages: 2MiB, cells: [{vcpus: 0-3, memory: 4GiB}]", "huge_pages: each cell names its own"},
		{"class: dedicated, cells: [{vcpus: 0-1, memory: 3GiB, huge_pages: 2GiB}, {vcpus: 2-3, memory: 1GiB}]", "cells[0].huge_pages: 3145728 KiB"},
		{"cells: [{vcpus: 0-3, memory: 4GiB}]", "want two or more"},
	} {
		_, err := ReadCatalogue(strings.NewReader("flavors: [{name: a, vcpus: 4, memory: 4GiB, "+tt.text+"}]"), "f.yaml")
		if err == nil || !strings.Contains(err.Error(), tt.want) || strings.ContainsAny(err.Error(), "\n\r") {
			t.Errorf("%s:\n got %v\nwant %s, on one line", tt.text, err, tt.want)
		}
	}
}

// drawComposed is a flavor of one to three cells of any class that has some.
func drawComposed(t *rapid.T) Flavor {
	f := Flavor{Name: "f", Class: rapid.SampledFrom([]workload.Class{workload.Dedicated, workload.Shared, Mixed}).Draw(t, "class"),
		SMT:      rapid.SampledFrom([]workload.SMTPolicy{workload.SMTPrefer, workload.SMTIsolate, workload.SMTRequire}).Draw(t, "SMT"),
		Emulator: Share, Queues: 1, Importance: 50}
	cells := rapid.IntRange(1, 3).Draw(t, "cells")
	if f.Class == workload.Shared {
		cells = max(2, cells)
	}
	f.Cells = make([]Cell, cells)
	f.VCPUs = cells + rapid.IntRange(1, 5).Draw(t, "more vCPUs")
	for v := range f.VCPUs {
		k := v
		if v >= cells {
			k = rapid.IntRange(0, cells-1).Draw(t, "cell")
		}
		f.Cells[k].VCPUs.Add(v)
		if f.Class == Mixed && v > 0 && (v == 1 || rapid.Bool().Draw(t, "own")) {
			f.Own.Add(v)
		}
	}
	for k := range f.Cells {
		c := &f.Cells[k]
		c.Memory = topology.KiB(rapid.IntRange(1, 4).Draw(t, "GiB")) << 20
		if rapid.IntRange(0, 3).Draw(t, "huge") == 0 {
			c.HugePage = 2 << 10
		}
		f.Memory += c.Memory
	}
	if f.Class == workload.Dedicated && rapid.Bool().Draw(t, "isolated") {
		f.Emulator = Isolate
	}
	if err := f.validate(); err != nil {
		t.Fatal(err)
	}
	return f
}

// TestComposedHomesHold: each cell has its CPUs and its memory on one node, which no other
// cell has; vCPUs that are to have a CPU of their own have one, and nobody else runs there;
// all others float over CPUs that nobody holds. Asking changes nothing.
func TestComposedHomesHold(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		st := plantest.State(4).Draw(t, "host")
		r, err := NewRoom(st, nil, nil)
		if err != nil {
			t.Fatal(err)
		}
		start := len(plan.Check(st, r.Placements()))
		for i := range 4 {
			f := drawComposed(t)
			if i > 1 && rapid.Bool().Draw(t, "whole") {
				f = drawFlavor(t)
			}
			o := Order{Flavor: f, Name: fmt.Sprint("g", i)}
			before := fmt.Sprint(r.Placements())
			h, d := r.Place(&o)
			if after := fmt.Sprint(r.Placements()); after != before {
				t.Fatalf("asking changed the room:\n%s\n%s", before, after)
			}
			if d.Outcome != plan.Placed {
				continue
			}
			r.Commit(h)
			if c := f.Composed(); c != nil {
				checkComposed(t, st.Host, c, &h)
				g := Guest{Name: o.Name, Spec: o.Spec(), Home: h, Placed: true, Emulator: f.Emulator, Composed: c}
				before := fmt.Sprint(r.Placements())
				if _, d := r.Move(&g, topology.NodeSet{}); d.Outcome != plan.Placed && d.Outcome != plan.Kept {
					t.Fatalf("it has no home where it is: %v", d.Reasons)
				}
				if after := fmt.Sprint(r.Placements()); after != before {
					t.Fatalf("asking for a move changed the room:\n%s\n%s", before, after)
				}
			}
		}
		if bad := plan.Check(st, r.Placements()); len(bad) > start {
			t.Fatalf("plan.Check: %v", bad)
		}
	})
}

func checkComposed(t *rapid.T, host *topology.Host, c *Composed, h *Home) {
	var nodes topology.NodeSet
	booked := map[topology.NodeID]topology.KiB{}
	var pinned topology.CPUSet
	for _, p := range append([]plan.Placement{h.Placement}, h.Beside()...) {
		for _, m := range p.Memory {
			booked[m.Node] += m.KiB
		}
		if p.Class == workload.Dedicated {
			pinned = pinned.Union(p.CPUs).Union(p.Idle)
		}
	}
	for k, node := range h.Cells {
		if nodes.Has(node) {
			t.Fatalf("two cells on node %d", node)
		}
		nodes.Add(node)
		for v := range c.Cells[k].VCPUs.All() {
			cpus := h.VCPUs[v]
			switch {
			case cpus.Empty() || !cpus.SubsetOf(CPUsOf(host, node)):
				t.Fatalf("vCPU %d of cell %d on CPUs %v, node %d", v, k, cpus, node)
			case c.Own.Has(v) && cpus.Len() != 1:
				t.Fatalf("vCPU %d has CPUs %v", v, cpus)
			case !c.Own.Has(v) && cpus.Intersects(pinned):
				t.Fatalf("vCPU %d floats over CPUs %v, of which %v are held", v, cpus, cpus.Intersect(pinned))
			}
		}
		if booked[node] != c.Cells[k].Memory {
			t.Fatalf("cell %d has %d KiB, node %d books %d", k, c.Cells[k].Memory, node, booked[node])
		}
	}
	var own []topology.CPUSet
	for v := range c.Own.All() {
		own = append(own, h.VCPUs[v])
	}
	slices.SortFunc(own, func(a, b topology.CPUSet) int { return int(a.Min() - b.Min()) })
	if len(slices.CompactFunc(own, topology.CPUSet.Equal)) != c.Own.Len() {
		t.Fatalf("%d vCPUs on fewer CPUs: %v", c.Own.Len(), own)
	}
}

// TestComposedCapacity: as many fit as can be ordered one after the other.
func TestComposedCapacity(t *testing.T) {
	for _, f := range novas(t) {
		r := room(t, eight())
		n := r.Capacity(Catalogue{f}, true)[0]
		fit := 0
		for ; ; fit++ {
			h, d := r.Place(&Order{Flavor: f, Name: fmt.Sprint(fit)})
			if d.Outcome != plan.Placed {
				break
			}
			r.Commit(h)
		}
		if n.Now != fit || n.Repacked != fit || fit == 0 || n.Why.None() {
			t.Errorf("%s: %d said to fit, %d with moves (%v), and %d do", f.Name, n.Now, n.Repacked, n.Why, fit)
		}
	}
}

// A shared guest that is wider than a node gets cells by itself: every vCPU is in one, their
// memory is all of it, each is on a node of its own, and nothing is promised twice.
func TestWideGuestsGetCells(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		nodes := rapid.IntRange(2, 4).Draw(t, "nodes")
		var b strings.Builder
		for n := range nodes {
			fmt.Fprintf(&b, "%d %d-%d %dG", n, 4*n, 4*n+3, rapid.IntRange(2, 8).Draw(t, "memory of a node"))
			for k := range nodes {
				fmt.Fprintf(&b, " %d", 10+11*min(1, max(n-k, k-n)))
			}
			b.WriteByte('\n')
		}
		st := plan.State{Host: plantest.Draw(b.String()), Policy: plan.DefaultPolicy()}
		f := Flavor{Name: "f", Class: workload.Shared, VCPUs: rapid.IntRange(1, 40).Draw(t, "vCPUs"), Memory: topology.KiB(rapid.IntRange(1, 16<<10).Draw(t, "MiB")) << 10,
			SMT: workload.SMTPrefer, Emulator: Share, Importance: 50, Queues: 1}
		r, err := NewRoom(st, nil, nil)
		if err != nil {
			t.Fatal(err)
		}
		for i := range 3 {
			o := Order{Flavor: f, Name: fmt.Sprintf("g%d", i)}
			h, d := r.Place(&o)
			if again, _ := r.Place(&o); fmt.Sprint(again.Next(), again.Apart, again.Placement) != fmt.Sprint(h.Next(), h.Apart, h.Placement) {
				t.Fatalf("placed twice: %v, %v", h, again)
			}
			if d.Outcome != plan.Placed {
				break
			}
			r.Commit(h)
			if bad := plan.Check(st, r.Placements()); len(bad) > 0 {
				t.Fatalf("%v", bad)
			}
			if h.Cells == nil {
				if h.Placement.Home.Len() > 1 && !slices.ContainsFunc(d.Reasons, func(r words.Reason) bool { return r.Code == words.CellsUneven || r.Code == words.CellsTooFew }) {
					t.Fatalf("on nodes %v as a whole: %v", h.Placement.Home, d.Reasons)
				}
				continue
			}
			var vcpus VCPUs
			var memory topology.KiB
			var on topology.NodeSet
			for k, p := range h.Apart {
				cell := h.Composed.Cells[k]
				if cell.VCPUs.Intersects(vcpus) || on.Has(h.Cells[k]) || p.VCPUs != cell.VCPUs.Len() || workload.On(p.Memory, p.Home) != cell.Memory || !p.Home.Equal(topology.Nodes(h.Cells[k])) || cell.Memory%1024 != 0 {
					t.Fatalf("cell %d: %+v booked as %+v", k, cell, p)
				}
				vcpus, memory = vcpus.Union(cell.VCPUs), memory+cell.Memory
				on.Add(h.Cells[k])
				for v := range cell.VCPUs.All() {
					if !h.VCPUs[v].Equal(p.CPUs) || !p.CPUs.SubsetOf(CPUsOf(st.Host, h.Cells[k])) {
						t.Fatalf("vCPU %d of cell %d floats over %v", v, k, h.VCPUs[v])
					}
				}
			}
			if vcpus.Len() != f.VCPUs || memory != f.Memory || h.Placement.VCPUs != 0 || len(h.Placement.Memory) != 0 {
				t.Fatalf("%d of %d vCPUs, %d of %d KiB, beside them %+v", vcpus.Len(), f.VCPUs, memory, f.Memory, h.Placement)
			}
		}
	})
}

// When others take CPUs, each cell has steps of its own; a move of all says so of each that moves,
// and of the definition once.
func TestStepsOfCells(t *testing.T) {
	r := room(t, eight())
	c := Spread(4, 4<<20, 0, 2)
	h, d := r.compose((&Order{Flavor: Flavor{Class: workload.Shared, VCPUs: 4}, Name: "g"}).Spec(), c, Share)
	if d.Outcome != plan.Placed {
		t.Fatal(d.Reasons)
	}
	g := Guest{Name: "g", Spec: workload.Spec{ID: ID("g")}, Home: h, Composed: c, Running: true, Placed: true}
	text := func(home Home) (out []string) {
		steps, _ := g.Steps(home)
		for _, s := range steps {
			out = append(out, fmt.Sprintf("%s %s %s>%s", s.Workload, s.Kind, s.From, s.To))
		}
		return out
	}
	p := h.Apart[1]
	p.CPUs = topology.CPUs(9, 10)
	if got, want := text(Home{Placement: p}), []string{"vm:g/cell1 set-cpus 8-15>9-10", "vm:g/cell1 set-next >9-10/1"}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	if got, want := text(h), []string{"vm:g set-next >" + h.Next()}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}

// Guests move so that the cells of another have a node each; who may not move stays, and so does
// everybody where it would be in vain.
func TestRepackForCells(t *testing.T) {
	h, err := topology.FromSynthetic("node:4(memory=8GiB) core:4 pu:1")
	if err != nil {
		t.Fatal(err)
	}
	st := plan.State{Host: h, Policy: plan.DefaultPolicy()}
	small := Flavor{Name: "small", Class: workload.Dedicated, VCPUs: 2, Memory: 1 << 20, SMT: workload.SMTPrefer, MaxNodes: 1, Emulator: Share, Queues: 1}
	for name, tt := range map[string]struct {
		small         int // guests, one on each node
		cells         string
		manual        string
		now, repacked int
	}{
		"two nodes are freed":      {4, "class: dedicated, vcpus: 8, memory: 2GiB, cells: [{vcpus: 0-3, memory: 1GiB}, {vcpus: 4-7, memory: 1GiB}]", "", 0, 1},
		"one is free":              {3, "class: dedicated, vcpus: 8, memory: 2GiB, cells: [{vcpus: 0-3, memory: 1GiB}, {vcpus: 4-7, memory: 1GiB}]", "", 0, 1},
		"the small cell is first":  {3, "class: dedicated, vcpus: 5, memory: 2GiB, cells: [{vcpus: 0, memory: 1GiB}, {vcpus: 1-4, memory: 1GiB}]", "", 1, 2},
		"mixed":                    {4, "class: mixed, vcpus: 8, dedicated_vcpus: '0-2,4-6', memory: 2GiB, cells: [{vcpus: 0-3, memory: 1GiB}, {vcpus: 4-7, memory: 1GiB}]", "", 0, 1},
		"they are bound":           {4, "class: dedicated, vcpus: 8, memory: 2GiB, cells: [{vcpus: 0-3, memory: 1GiB}, {vcpus: 4-7, memory: 1GiB}]", "bound by hand", 0, 0},
		"three cells are too many": {4, "class: dedicated, vcpus: 12, memory: 3GiB, cells: [{vcpus: 0-3, memory: 1GiB}, {vcpus: 4-7, memory: 1GiB}, {vcpus: 8-11, memory: 1GiB}]", "", 0, 0},
	} {
		var guests []Guest
		for n := range tt.small {
			o := Order{Flavor: small, Name: fmt.Sprint("s", n), Nodes: topology.Nodes(topology.NodeID(n))}
			home, d := room(t, st).Place(&o)
			if d.Outcome != plan.Placed {
				t.Fatal(d.Reasons)
			}
			s := guestOf(&o, home)
			s.Spec.Nodes, s.Manual = topology.NodeSet{}, tt.manual
			guests = append(guests, s)
		}
		r, err := NewRoom(st, guests, nil)
		if err != nil {
			t.Fatal(err)
		}
		c, err := ReadCatalogue(strings.NewReader("flavors:\n- {name: f, "+tt.cells+"}"), "f")
		if err != nil {
			t.Fatal(err)
		}
		before := r.Placements()
		if got := r.Capacity(c, true)[0]; got.Now != tt.now || got.Repacked != tt.repacked {
			t.Errorf("%s: %d now, %d after moves, want %d and %d", name, got.Now, got.Repacked, tt.now, tt.repacked)
		}
		o := Order{Flavor: c[0], Name: "big"}
		made := r.makeRoom(&o)
		after := r.Placements()
		if made != (tt.now == 0 && tt.repacked > 0) || len(after) != len(before) || !made && !cmp.Equal(before, after) {
			t.Errorf("%s: room is made: %t, %v became %v", name, made, before, after)
		}
		if bad := plan.Check(st, after); len(bad) > 0 {
			t.Errorf("%s: %v", name, bad)
		}
	}
}
