package view

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/homenode/homenode/core/topology"
)

// part is a package, a node or a last-level cache in the picture of a host, or
// the host itself. Which holds which differs between machines (a node may span
// packages, a cache may span nodes), so parts nest by the CPUs they have.
type part struct {
	pack  *topology.Package
	node  *topology.Node
	llc   *topology.LLC
	home  bool // a cache that homes name: several divide its node
	cpus  topology.CPUSet
	inner []*part
	cores []topology.Core // those in no inner part
}

// rank orders parts with the same CPUs from outside to inside.
func (p *part) rank() int {
	switch {
	case p.pack != nil:
		return 0
	case p.node != nil:
		return 1
	}
	return 2
}

// partsOf nests the parts of a host. Nodes without CPUs come last, in their
// package if that is known.
func partsOf(h *topology.Host) *part {
	var parts, bare []*part
	for i := range h.Packages {
		parts = append(parts, &part{pack: &h.Packages[i], cpus: h.Packages[i].CPUs})
	}
	for i := range h.Nodes {
		p := &part{node: &h.Nodes[i], cpus: h.Nodes[i].CPUs}
		if p.cpus.Empty() {
			bare = append(bare, p)
		} else {
			parts = append(parts, p)
		}
	}
	named := homes(h)
	for i := range h.LLCs {
		l := &h.LLCs[i]
		parts = append(parts, &part{llc: l, home: named.Has(l.ID), cpus: l.CPUs})
	}
	slices.SortStableFunc(parts, func(a, b *part) int {
		return cmp.Or(b.cpus.Len()-a.cpus.Len(), a.rank()-b.rank(), int(a.cpus.Min()-b.cpus.Min()))
	})
	root := &part{cpus: h.Online}
	for _, p := range parts {
		root.innermost(p.cpus).add(p)
	}
	for _, c := range h.Cores {
		in := root.innermost(c.CPUs)
		in.cores = append(in.cores, c)
	}
	for _, p := range bare {
		into := root
		for _, q := range root.inner {
			if q.pack != nil && q.pack.ID == p.node.Package {
				into = q
			}
		}
		into.inner = append(into.inner, p)
	}
	return root
}

// homes returns the caches that homes name.
func homes(h *topology.Host) (in topology.CacheSet) {
	for i := range h.Nodes {
		in = in.Union(h.CachesOn(topology.Nodes(h.Nodes[i].ID)))
	}
	return in
}

func (p *part) add(q *part) {
	p.inner = append(p.inner, q)
	slices.SortStableFunc(p.inner, func(a, b *part) int { return int(a.cpus.Min() - b.cpus.Min()) })
}

// innermost is the smallest part that holds all of cpus.
func (p *part) innermost(cpus topology.CPUSet) *part {
	for _, q := range p.inner {
		if cpus.SubsetOf(q.cpus) {
			return q.innermost(cpus)
		}
	}
	return p
}

// siblings writes the CPUs of cores so that one sees which share a core:
// "0-7+32-39" (0 with 32, 1 with 33 …), "0-15 in pairs" (0-1, 2-3 …), "0-7"
// where each is alone. Cores that differ in threads or speed are kept apart.
func siblings(cores []topology.Core) string {
	var out []string
	for _, group := range alike(cores) {
		text := siblingsAlike(group)
		if c := group[0].Capacity; c != topology.None && c < 1024 {
			text += fmt.Sprintf(" at %d %% speed", (c*100+512)/1024)
		}
		out = append(out, text)
	}
	return strings.Join(out, ", ")
}

// alike splits cores into runs of the same thread count and speed.
func alike(cores []topology.Core) [][]topology.Core {
	var groups [][]topology.Core
	for _, c := range cores {
		at := slices.IndexFunc(groups, func(g []topology.Core) bool {
			return g[0].CPUs.Len() == c.CPUs.Len() && g[0].Capacity == c.Capacity
		})
		if at < 0 {
			groups = append(groups, nil)
			at = len(groups) - 1
		}
		groups[at] = append(groups[at], c)
	}
	return groups
}

func siblingsAlike(cores []topology.Core) string {
	threads := cores[0].CPUs.Len()
	all := topology.CPUSet{}
	adjacent := threads > 1
	rising := true
	columns := make([]topology.CPUSet, threads)
	last := slices.Repeat([]topology.CPUID{-1}, threads)
	for _, c := range cores {
		all = all.Union(c.CPUs)
		adjacent = adjacent && int(c.CPUs.Max()-c.CPUs.Min()) == threads-1
		for t, cpu := range c.CPUs.Slice() {
			rising = rising && cpu > last[t]
			last[t] = cpu
			columns[t].Add(cpu)
		}
	}
	switch {
	case threads == 1:
		return cpuList(all)
	case adjacent:
		names := map[int]string{2: "pairs", 3: "threes", 4: "fours", 8: "eights"}
		if len(cores) == 1 {
			return joined(all)
		}
		if name, ok := names[threads]; ok {
			return cpuList(all) + " in " + name
		}
		return fmt.Sprintf("%s in groups of %d", cpuList(all), threads)
	case rising:
		var lists []string
		for _, column := range columns {
			lists = append(lists, cpuList(column))
		}
		return strings.Join(lists, "+")
	}
	var lists []string
	for _, c := range cores {
		lists = append(lists, "{"+c.CPUs.String()+"}")
	}
	return strings.Join(lists, " ")
}

// joined is the CPUs of one core: 0+1.
func joined(cpus topology.CPUSet) string {
	var ids []string
	for cpu := range cpus.All() {
		ids = append(ids, strconv.Itoa(int(cpu)))
	}
	return strings.Join(ids, "+")
}

// cpuList is the list format, with the kernel's stride form where CPUs go round
// the nodes: 0-36:1/4 is every fourth CPU from 0 to 36.
func cpuList[T ~int](s topology.Set[T]) string {
	ids := s.Slice()
	plain := s.String()
	if len(ids) < 4 || len(plain) < 12 {
		return plain
	}
	step := int(ids[1] - ids[0])
	for i := 1; i < len(ids); i++ {
		if int(ids[i]-ids[i-1]) != step {
			return plain
		}
	}
	if step == 1 {
		return plain
	}
	return fmt.Sprintf("%d-%d:1/%d", ids[0], ids[len(ids)-1], step)
}

// nearness lists the other nodes from near to far, equally far ones joined by
// "=": "1 2=3", and "all alike" when all are. Unknown distances come last, as "?".
func nearness(nodes []topology.Node, row []int, self int) string {
	byDistance := map[int][]string{}
	var order []int
	for j, d := range row {
		if j == self {
			continue
		}
		if d != topology.None && len(byDistance[d]) == 0 {
			order = append(order, d)
		}
		byDistance[d] = append(byDistance[d], strconv.Itoa(int(nodes[j].ID)))
	}
	slices.Sort(order)
	if len(order) == 1 && len(nodes) > 2 && len(byDistance[topology.None]) == 0 {
		return "all alike"
	}
	var out []string
	for _, d := range order {
		out = append(out, strings.Join(byDistance[d], "="))
	}
	if len(byDistance[topology.None]) > 0 {
		out = append(out, "?")
	}
	return strings.Join(out, " ")
}
