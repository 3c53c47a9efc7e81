package main

import (
	"cmp"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"

	"github.com/homenode/homenode/core/place"
	"github.com/homenode/homenode/core/place/replay"
	"github.com/homenode/homenode/core/topology"
)

// A cacheRule is what a peer's documentation says about the CPUs of exclusive work on a host whose nodes have
// several last-level caches. It is our writing of that rule, not the peer's code.
type cacheRule struct {
	name string
	// choose returns the CPUs, all free, in number as wanted; nil to refuse.
	choose func(b *cacheBook, vcpus int, mem topology.KiB) []topology.CPUID
}

var cacheRules = []cacheRule{
	{"kubelet, prefer-align-cpus-by-uncorecache", kubeletUncore},
	{"nri-plugins, topology-aware", poolTree},
	{"nri-plugins, balloons, spread",
		func(b *cacheBook, v int, m topology.KiB) []topology.CPUID { return balloon(b, v, m, true) }},
	{"nri-plugins, balloons, packed",
		func(b *cacheBook, v int, m topology.KiB) []topology.CPUID { return balloon(b, v, m, false) }},
}

// cacheBook is who holds which CPUs and how much memory of each node.
type cacheBook struct {
	host   *topology.Host
	free   topology.CPUSet
	mem    []topology.KiB
	held   map[string]cachePart
	caches [][]int // of each node, indices of LLCs
}

type cachePart struct {
	cpus topology.CPUSet
	mem  []topology.KiB
}

func newCacheBook(c *replay.Case) *cacheBook {
	b := &cacheBook{host: c.Host, held: map[string]cachePart{}, caches: make([][]int, len(c.Host.Nodes))}
	for i := range c.Host.Nodes {
		n := &c.Host.Nodes[i]
		b.free = b.free.Union(n.CPUs.Minus(c.Policy.Reserved))
		b.mem = append(b.mem, n.Memory)
		for k := range c.Host.LLCs {
			if c.Host.LLCs[k].CPUs.Intersects(n.CPUs) {
				b.caches[i] = append(b.caches[i], k)
			}
		}
	}
	return b
}

func (b *cacheBook) take(vm string, p cachePart) {
	b.free = b.free.Minus(p.cpus)
	for i, m := range p.mem {
		b.mem[i] -= m
	}
	b.held[vm] = p
}

func (b *cacheBook) drop(vm string) {
	p := b.held[vm]
	b.free = b.free.Union(p.cpus)
	for i, m := range p.mem {
		b.mem[i] += m
	}
	delete(b.held, vm)
}

// lay takes memory from the nodes of the CPUs first, then from the others; nil where the host has too little.
func (b *cacheBook) lay(cpus topology.CPUSet, mem topology.KiB) []topology.KiB {
	out := make([]topology.KiB, len(b.mem))
	for _, own := range []bool{true, false} {
		for i := range b.mem {
			if b.host.Nodes[i].CPUs.Intersects(cpus) != own {
				continue
			}
			m := min(mem, b.mem[i]-out[i])
			out[i] += m
			mem -= m
		}
	}
	if mem > 0 {
		return nil
	}
	return out
}

// span returns the narrowest node sets with enough free CPUs and memory, the lowest of equal ones first.
func (b *cacheBook) span(vcpus int, mem topology.KiB) [][]int {
	var best [][]int
	for set := uint(1); set < 1<<len(b.mem); set++ {
		var nodes []int
		cpus, m := 0, topology.KiB(0)
		for i := range b.mem {
			if set>>i&1 == 1 {
				nodes = append(nodes, i)
				cpus += b.freeOn(i).Len()
				m += b.mem[i]
			}
		}
		if cpus < vcpus || m < mem {
			continue
		}
		if len(best) > 0 && len(nodes) < len(best[0]) {
			best = nil
		}
		if len(best) == 0 || len(nodes) == len(best[0]) {
			best = append(best, nodes)
		}
	}
	return best
}

func (b *cacheBook) freeOn(i int) topology.CPUSet { return b.free.Intersect(b.host.Nodes[i].CPUs) }

// accumulator takes CPUs out of a set, whole groups first.
type accumulator struct {
	*cacheBook
	from  topology.CPUSet
	taken []topology.CPUID
	want  int
}

func (a *accumulator) needs() int { return a.want - len(a.taken) }

func (a *accumulator) take(cpus topology.CPUSet) {
	a.taken = append(a.taken, cpus.Slice()...)
	a.from = a.from.Minus(cpus)
}

// wholes takes whole groups whose CPUs are all free while so many are needed.
func (a *accumulator) wholes(groups []topology.CPUSet) {
	for _, g := range groups {
		whole := g.SubsetOf(a.from)
		if whole && g.Len() > 0 && g.Len() <= a.needs() {
			a.take(g)
		}
	}
}

// cores takes whole free cores of a set, in order, then single CPUs, while needed.
func (a *accumulator) cores(in topology.CPUSet) {
	var cores []topology.CPUSet
	for i := range a.host.Cores {
		if c := a.host.Cores[i].CPUs; c.SubsetOf(in) {
			cores = append(cores, c)
		}
	}
	a.wholes(cores)
	rest := in.Intersect(a.from).Slice()
	slices.SortStableFunc(rest,
		func(x, y topology.CPUID) int { return cmp.Compare(a.freeSiblings(x), a.freeSiblings(y)) })
	for _, cpu := range rest {
		if a.needs() == 0 {
			return
		}
		a.take(topology.CPUs(cpu))
	}
}

// freeSiblings is the number of free CPUs of a CPU's core: broken cores are used up first.
func (a *accumulator) freeSiblings(cpu topology.CPUID) int {
	for i := range a.host.Cores {
		if c := a.host.Cores[i].CPUs; c.Has(cpu) {
			return c.Intersect(a.from).Len()
		}
	}
	return 1
}

// kubeletUncore is the static policy with prefer-align-cpus-by-uncorecache (KEP-4800 and "Control CPU Management
// Policies on the Node"), with the Topology Manager's best-effort policy: of the narrowest sets of nodes that
// have room the lowest; there whole nodes, then whole free caches while as many CPUs are needed, then the rest
// in the fullest cache that holds all of it on whole cores, then whole cores and single CPUs anywhere.
func kubeletUncore(b *cacheBook, vcpus int, mem topology.KiB) []topology.CPUID {
	spans := b.span(vcpus, mem)
	if len(spans) == 0 {
		return nil
	}
	a := &accumulator{cacheBook: b, want: vcpus}
	var nodes, caches []topology.CPUSet
	for _, i := range spans[0] {
		a.from = a.from.Union(b.freeOn(i))
		nodes = append(nodes, b.host.Nodes[i].CPUs)
		for _, k := range b.caches[i] {
			caches = append(caches, b.host.LLCs[k].CPUs)
		}
	}
	a.wholes(nodes)
	slices.SortStableFunc(caches, func(x, y topology.CPUSet) int {
		return cmp.Compare(x.Intersect(a.from).Len(), y.Intersect(a.from).Len())
	})
	a.wholes(caches)
	for _, c := range caches {
		if a.needs() > 0 && a.wholeCoresOf(c) >= a.needs() {
			a.cores(c.Intersect(a.from))
		}
	}
	a.cores(a.from)
	return a.taken
}

// wholeCoresOf is the CPUs of the cores of a set that are free as a whole.
func (a *accumulator) wholeCoresOf(in topology.CPUSet) (cpus int) {
	for i := range a.host.Cores {
		c := a.host.Cores[i].CPUs
		inside := c.SubsetOf(in)
		if inside && c.SubsetOf(a.from) {
			cpus += c.Len()
		}
	}
	return cpus
}

// poolTree is nri-plugins’ topology-aware policy, as its handbook describes it: pools are caches,
// nodes, packages and the host; of those with room the lowest in the tree, of these the one with most
// left. CPUs within a pool: whole cores, in order.
func poolTree(b *cacheBook, vcpus int, mem topology.KiB) []topology.CPUID {
	type pool struct {
		cpus topology.CPUSet
		mem  topology.KiB
	}
	levels := make([][]pool, 4)
	packages := map[topology.PackageID]*pool{}
	var order []topology.PackageID
	host := pool{cpus: b.free}
	for i := range b.host.Nodes {
		n := &b.host.Nodes[i]
		for _, k := range b.caches[i] {
			levels[0] = append(levels[0], pool{b.host.LLCs[k].CPUs.Intersect(b.free), b.mem[i]})
		}
		levels[1] = append(levels[1], pool{b.freeOn(i), b.mem[i]})
		if packages[n.Package] == nil {
			packages[n.Package] = &pool{}
			order = append(order, n.Package)
		}
		p := packages[n.Package]
		p.cpus = p.cpus.Union(b.freeOn(i))
		p.mem += b.mem[i]
		host.mem += b.mem[i]
	}
	for _, id := range order {
		levels[2] = append(levels[2], *packages[id])
	}
	levels[3] = []pool{host}
	for _, level := range levels {
		best := -1
		for i, p := range level {
			if p.cpus.Len() < vcpus || p.mem < mem {
				continue
			}
			if best < 0 || p.cpus.Len() > level[best].cpus.Len() {
				best = i
			}
		}
		if best >= 0 {
			a := &accumulator{cacheBook: b, want: vcpus, from: level[best].cpus}
			a.cores(a.from)
			return a.taken
		}
	}
	return nil
}

// balloon is a balloon for each guest of nri-plugins' balloons policy, as its handbook describes it:
// its tree has packages, nodes and cores, no last-level caches. allocatorTopologyBalancing prefers the branch
// with most free CPUs (spread), otherwise the fullest one with room is used (packed).
func balloon(b *cacheBook, vcpus int, mem topology.KiB, spread bool) []topology.CPUID {
	spans := b.span(vcpus, mem)
	if len(spans) == 0 {
		return nil
	}
	free := func(nodes []int) (cpus int) {
		for _, i := range nodes {
			cpus += b.freeOn(i).Len()
		}
		return cpus
	}
	best := spans[0]
	for _, s := range spans[1:] {
		more := free(s) - free(best)
		if (spread && more > 0) || (!spread && more < 0) {
			best = s
		}
	}
	a := &accumulator{cacheBook: b, want: vcpus}
	for _, i := range best {
		a.from = a.from.Union(b.freeOn(i))
	}
	a.cores(a.from)
	return a.taken
}

// cacheTally is how a policy did over cases.
type cacheTally struct {
	name                            string
	arrivals, accepted, vcpus       int
	caches, least, nodes, leastNode int
	over                            int // guests in more caches than their size needs
}

// take adds a guest that was given CPUs.
func (t *cacheTally) take(h *topology.Host, cpus topology.CPUSet) {
	in, most := 0, 0
	for k := range h.LLCs {
		most = max(most, h.LLCs[k].CPUs.Len())
		if h.LLCs[k].CPUs.Intersects(cpus) {
			in++
		}
	}
	nodes, large := 0, 0
	for i := range h.Nodes {
		large = max(large, h.Nodes[i].CPUs.Len())
		if h.Nodes[i].CPUs.Intersects(cpus) {
			nodes++
		}
	}
	need := (cpus.Len() + most - 1) / max(1, most)
	t.accepted++
	t.vcpus += cpus.Len()
	t.caches += in
	t.least += need
	t.nodes += nodes
	t.leastNode += (cpus.Len() + large - 1) / max(1, large)
	if in > need {
		t.over++
	}
}

// run replays a case under a rule. It fails where the rule gives out a CPU twice or too few.
func (r cacheRule) run(c *replay.Case, t *cacheTally) error {
	b := newCacheBook(c)
	for i := range c.Events {
		e := &c.Events[i]
		switch e.Op {
		case replay.Depart:
			b.drop(string(e.VM))
		case replay.Preplace:
			p := cachePart{cpus: e.CPUs}
			for k := range c.Host.Nodes {
				p.mem = append(p.mem, e.Memory[c.Host.Nodes[k].ID])
			}
			b.take(string(e.VM), p)
		case replay.Arrive:
			t.arrivals++
			cpus := topology.CPUs(r.choose(b, e.Spec.CPUs, e.Spec.Memory)...)
			if cpus.Empty() {
				continue
			}
			if cpus.Len() != e.Spec.CPUs || !cpus.SubsetOf(b.free) {
				return fmt.Errorf("%s, %s: %s gets CPUs %s, wanted %d of the free ones %s", c.Name, r.name, e.VM, cpus,
					e.Spec.CPUs, b.free)
			}
			mem := b.lay(cpus, e.Spec.Memory)
			if mem == nil {
				continue
			}
			b.take(string(e.VM), cachePart{cpus, mem})
			t.take(c.Host, cpus)
		}
	}
	return nil
}

// cacheCases reads the cases whose hosts have several caches a node.
func cacheCases(paths []string) ([]*replay.Case, error) {
	var out []*replay.Case
	for _, path := range paths {
		name := filepath.Base(path)
		if !strings.HasPrefix(name, "churn_") && !strings.HasPrefix(name, "short_") {
			continue
		}
		c, err := read(path)
		if err != nil {
			return nil, err
		}
		if len(c.Host.LLCs) > len(c.Host.Nodes) {
			out = append(out, c)
		}
	}
	if len(out) == 0 {
		return nil, fmt.Errorf("no case has a host with several last-level caches a node")
	}
	return out, nil
}

// compareCaches sets the caches that dedicated guests get under homenode beside those under the peers' rules.
func compareCaches(w io.Writer, paths []string, o replay.Options) error {
	cases, err := cacheCases(paths)
	if err != nil {
		return err
	}
	ours := cacheTally{name: "homenode"}
	all := cacheTally{name: "homenode, admits what fits"}
	for _, c := range cases {
		for _, t := range []*cacheTally{&ours, &all} {
			o := o
			o.Must = t == &all
			o.Answered = func(a *replay.Answer, _ *place.Ledger) error {
				t.arrivals++
				if a.OK {
					t.take(c.Host, a.Result.Placement.CPUs)
				}
				return nil
			}
			if err := replay.Run(c, o); err != nil {
				return err
			}
		}
	}
	rows := []cacheTally{ours, all}
	for _, r := range cacheRules {
		t := cacheTally{name: r.name}
		for _, c := range cases {
			if err := r.run(c, &t); err != nil {
				return err
			}
		}
		rows = append(rows, t)
	}
	fmt.Fprintf(w, "%d traces on hosts with several last-level caches a node, %d arrivals:\n\n", len(cases),
		ours.arrivals)
	fmt.Fprintln(w,
		"| policy | accepted guests | their vCPUs | caches a guest | least possible for these | guests in more "+
			"caches than needed | nodes a guest |")
	fmt.Fprintln(w, "|---|---|---|---|---|---|---|")
	for _, t := range rows {
		n := float64(max(1, t.accepted))
		fmt.Fprintf(w, "| %s | %d | %d | %.3f | %.3f | %.1f %% | %.3f |\n", t.name, t.accepted, t.vcpus,
			float64(t.caches)/n, float64(t.least)/n, 100*float64(t.over)/n, float64(t.nodes)/n)
	}
	return nil
}
