package place

import (
	"fmt"
	"math"
	"os"
	"reflect"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/homenode/homenode/core/place/cores"
	"github.com/homenode/homenode/core/plan"
	"github.com/homenode/homenode/core/plan/plantest"
	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/core/workload"
)

func TestMain(m *testing.M) { os.Exit(plantest.Main(m)) }

// renaming gives nodes and CPUs other IDs, and nodes another order.
type renaming struct {
	node  map[topology.NodeID]topology.NodeID
	cpu   map[topology.CPUID]topology.CPUID
	order []int // order[i] is where node i of the old host is in the new one
}

func drawRenaming(t *rapid.T, h *topology.Host) renaming {
	r := renaming{node: map[topology.NodeID]topology.NodeID{}, cpu: map[topology.CPUID]topology.CPUID{}}
	n := len(h.Nodes)
	r.order = indices(n)
	if symmetric(h.Distances) && rapid.Bool().Draw(t, "other node order") {
		r.order = rapid.Permutation(r.order).Draw(t, "node order")
	}
	ids := make([]topology.NodeID, n)
	for i, node := range h.Nodes {
		ids[i] = node.ID
	}
	if rapid.Bool().Draw(t, "other node IDs") {
		for i := range ids {
			ids[i] = ids[i]*2 + 1
		}
	}
	for i, node := range h.Nodes {
		r.node[node.ID] = ids[r.order[i]]
	}
	cpus := h.Online.Union(h.Offline).Slice()
	for i, k := range rapid.Permutation(indices(len(cpus))).Draw(t, "CPUs") {
		r.cpu[cpus[i]] = cpus[k]
	}
	return r
}

func symmetric(m topology.Matrix) bool {
	for i, row := range m {
		for j := range row {
			if m[i][j] != m[j][i] {
				return false
			}
		}
	}
	return true
}

func indices(n int) []int {
	out := make([]int, n)
	for i := range out {
		out[i] = i
	}
	return out
}

func (r renaming) cpus(s topology.CPUSet) topology.CPUSet {
	var out topology.CPUSet
	for c := range s.All() {
		out.Add(r.cpu[c])
	}
	return out
}

func (r renaming) nodes(s topology.NodeSet) topology.NodeSet {
	var out topology.NodeSet
	for n := range s.All() {
		if to, there := r.node[n]; there {
			out.Add(to)
		} else {
			out.Add(n + 100) // a node that neither host has
		}
	}
	return out
}

func (r renaming) state(st plan.State) plan.State {
	h := st.Host
	g := &topology.Host{
		Online: r.cpus(h.Online), Offline: r.cpus(h.Offline), Allowed: r.cpus(h.Allowed), AllowedMems: r.nodes(h.AllowedMems),
		Nodes: make([]topology.Node, len(h.Nodes)),
	}
	for i, n := range h.Nodes {
		n.ID, n.CPUs = r.node[n.ID], r.cpus(n.CPUs)
		g.Nodes[r.order[i]] = n
	}
	for _, c := range h.Cores {
		c.CPUs, c.Node = r.cpus(c.CPUs), r.node[c.Node]
		g.Cores = append(g.Cores, c)
	}
	for _, c := range h.LLCs {
		c.CPUs = r.cpus(c.CPUs)
		g.LLCs = append(g.LLCs, c)
	}
	for _, d := range h.Devices {
		d.Node = r.node[d.Node]
		g.Devices = append(g.Devices, d)
	}
	if h.Distances != nil {
		g.Distances = make(topology.Matrix, len(h.Nodes))
		for i := range g.Distances {
			g.Distances[i] = make([]int, len(h.Nodes))
		}
		for i, row := range h.Distances {
			for j, d := range row {
				g.Distances[r.order[i]][r.order[j]] = d
			}
		}
	}
	out := plan.State{Host: g, Policy: st.Policy}
	out.Policy.Reserved = r.cpus(st.Policy.Reserved)
	out.Policy.Dedicated = r.cpus(st.Policy.Dedicated)
	return out
}

func (r renaming) placement(p plan.Placement) plan.Placement {
	p.Home, p.CPUs, p.Idle, p.Within = r.nodes(p.Home), r.cpus(p.CPUs), r.cpus(p.Idle), r.nodes(p.Within)
	p.Pins = slices.Clone(p.Pins)
	for i, c := range p.Pins {
		p.Pins[i] = r.cpu[c]
	}
	p.Memory = slices.Clone(p.Memory)
	for i := range p.Memory {
		p.Memory[i].Node = r.node[p.Memory[i].Node]
	}
	slices.SortFunc(p.Memory, func(a, b workload.NodeMemory) int { return int(a.Node - b.Node) })
	return p
}

// TestNamesDoNotMatter: with nodes and CPUs numbered otherwise the same host with
// the same work on it gives as good an answer. With nodes in another order not to
// the last digit, for of nodes alike in all that the search looks at the first is
// filled first; and not where distances depend on the direction, nor for who gets
// what is left over of equal parts.
func TestNamesDoNotMatter(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		st := plantest.State(6).Draw(t, "state")
		r := drawRenaming(t, st.Host)
		a, b := NewLedger(st), NewLedger(r.state(st))
		place := func(id workload.ID) {
			s := plantest.Spec(id).Draw(t, "spec")
			must := rapid.Bool().Draw(t, "must")
			s.Even = s.Even && slices.IsSorted(r.order)
			ra := a.Place(Request{Spec: s, Must: must})
			s.Nodes = r.nodes(s.Nodes)
			rb := b.Place(Request{Spec: s, Must: must})
			if ra.Placed() != rb.Placed() {
				t.Fatalf("%s: placed %v and %v:\n%v\n%v", id, ra.Placed(), rb.Placed(), ra.Decision.Reasons, rb.Decision.Reasons)
			}
			if !ra.Placed() {
				return
			}
			if s.Class != workload.Batch {
				x, y := ra.Decision.Candidates[0], rb.Decision.Candidates[0]
				slack := 2 * tiny
				if !slices.IsSorted(r.order) {
					slack += 0.1 + 0.1*math.Abs(x.Score)
				}
				if math.Abs(x.Score-y.Score) > slack {
					t.Fatalf("%s: scores %v and %v:\n%+v\n%+v\n%v", id, x.Score, y.Score, x, y, r)
				}
			}
			a.Commit(ra.Placement)
			b.Commit(r.placement(ra.Placement))
		}
		for i := range rapid.IntRange(1, 8).Draw(t, "workloads") {
			place(workload.ID(fmt.Sprintf("w%d", i)))
		}
	})
}

// TestNearestChangeIsTrue: with the room that a refusal asks for on a node, the
// workload is admitted.
func TestNearestChangeIsTrue(t *testing.T) {
	tried := 0
	rapid.Check(t, func(t *rapid.T) {
		st := plantest.State(6).Draw(t, "state")
		l := NewLedger(st)
		for i := range rapid.IntRange(1, 8).Draw(t, "held") {
			// Batch work keeps a CPU, on which core is not told by counts alone.
			s := plantest.Spec(workload.ID(fmt.Sprintf("w%d", i))).Draw(t, "spec")
			if r := l.Place(Request{Spec: s, Must: true}); r.Placed() && s.Class != workload.Batch {
				l.Commit(r.Placement)
			}
		}
		s := plantest.Spec("a").Draw(t, "spec")
		if s.Class == workload.Batch {
			return
		}
		r := l.Place(Request{Spec: s})
		for _, x := range r.Decision.Nearest {
			if x.Nodes.Len() != 1 {
				return // of several nodes it is what they lack together
			}
			for i := range l.nodes {
				if n := &l.nodes[i]; x.Nodes.Has(n.id) {
					n.makeRoom(s, x)
				}
			}
		}
		if len(r.Decision.Nearest) == 0 {
			return
		}
		tried++
		w := newWant(l, &Request{Spec: s})
		l.guardBatch()
		if !newSearch(l, &w).found() {
			t.Fatalf("%+v is still refused with %+v there:\n%v", s, r.Decision.Nearest, r.Decision.Reasons)
		}
	})
	if tried < 20 {
		t.Errorf("only %d refusals: the test tests nothing", tried)
	}
}

// Whatever is asked of one node, each finds a home as long as together it is no more than
// what was left there; when all have gone the same is left as before.
func TestWhatIsLeftCanBeHad(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		l := NewLedger(plantest.State(6).Draw(t, "state"))
		for i := range rapid.IntRange(0, 6).Draw(t, "held") {
			if r := l.Place(Request{Spec: plantest.Spec(workload.ID(fmt.Sprintf("w%d", i))).Draw(t, "spec"), Must: true}); r.Placed() {
				l.Commit(r.Placement)
			}
		}
		before := l.Left()
		var ids []workload.ID
		for i, left := range before {
			cpus, memory := left.CPUs, left.Memory
			if memory == topology.None {
				memory = 1 << 30
			}
			for k := 0; cpus > 0; k++ {
				s := workload.Spec{ID: workload.ID(fmt.Sprintf("claim%d/%d", i, k)), Class: workload.Dedicated, Nodes: topology.Nodes(left.Node), Given: true,
					CPUs: rapid.IntRange(1, cpus).Draw(t, "cpus"), Memory: topology.KiB(rapid.Int64Range(0, int64(memory)).Draw(t, "memory"))}
				r := l.Place(Request{Spec: s})
				if !r.Placed() || !r.Placement.Home.Equal(topology.Nodes(left.Node)) {
					t.Fatalf("%+v is refused with %d CPUs and %d KiB left: %v", s, cpus, memory, r.Decision.Reasons)
				}
				l.Commit(r.Placement)
				ids = append(ids, s.ID)
				cpus, memory = cpus-s.CPUs, memory-s.Memory
			}
		}
		for _, id := range ids {
			l.Remove(id)
		}
		if after := l.Left(); !reflect.DeepEqual(before, after) {
			t.Fatalf("left %v, and when all have gone %v", before, after)
		}
	})
}

// makeRoom makes the room on a node that a shortage speaks of, as if others left.
func (n *node) makeRoom(s workload.Spec, x plan.Shortage) {
	more := x.Want - x.Have
	switch {
	case x.Resource == plan.Memory:
		n.memoryFree = max(0, n.memoryFree) + topology.KiB(more)
	case x.Resource == plan.HugePage:
		if n.pool(s.HugePage) == nil {
			n.pages = append(n.pages, pool{size: s.HugePage})
		}
		n.pool(s.HugePage).free += topology.KiB(more) * s.HugePage
	case s.Class == workload.Shared:
		n.shared -= cores.Micro(more * 1e6)
	default:
		threads := int(math.Ceil(n.PerCore()))
		n.Free += int(more) * threads
		n.Whole += int(more)
		n.WholeCPUs += int(more) * threads
		n.shared = 0
	}
}
