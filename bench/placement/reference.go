package main

import (
	"slices"
	"time"

	"github.com/homenode/homenode/core/place/replay"
	"github.com/homenode/homenode/core/topology"
)

// reference is a simple policy to set beside the engine: what an unaided host or a
// rule of thumb does, in little code and little time.
type reference struct {
	name   string
	choose func(b *book, vcpus int, mem topology.KiB) []int // the nodes to use, in order; nil to refuse
}

var references = []reference{
	// The lowest free CPUs wherever they are: no policy.
	{"first-free", func(b *book, vcpus int, mem topology.KiB) []int {
		nodes := make([]int, len(b.free))
		cpus, all := 0, topology.KiB(0)
		for i := range nodes {
			nodes[i] = i
			cpus += len(b.free[i])
			all += b.mem[i]
		}
		if cpus < vcpus || all < mem {
			return nil
		}
		return nodes
	}},
	// The first single node that holds all of it.
	{"first-fit-node", func(b *book, vcpus int, mem topology.KiB) []int {
		for i := range b.free {
			if len(b.free[i]) >= vcpus && b.mem[i] >= mem {
				return []int{i}
			}
		}
		return nil
	}},
	// The rule of xl-numa-placement(7): of all node sets with room the smallest,
	// then the one with fewest vCPUs running, then with most free memory.
	{"fewest-nodes", func(b *book, vcpus int, mem topology.KiB) []int {
		var best []int
		var running int
		var free topology.KiB
		for set := uint(1); set < 1<<len(b.free); set++ {
			var nodes []int
			cpus := 0
			run := 0
			m := topology.KiB(0)
			for i := range b.free {
				if set>>i&1 == 1 {
					nodes = append(nodes, i)
					cpus += len(b.free[i])
					run += b.running[i]
					m += b.mem[i]
				}
			}
			if cpus < vcpus || m < mem || (best != nil && len(nodes) > len(best)) {
				continue
			}
			if best == nil || len(nodes) < len(best) || run < running || (run == running && m > free) {
				best = nodes
				running = run
				free = m
			}
		}
		return best
	}},
}

// book is who holds what, by node.
type book struct {
	free    [][]topology.CPUID // rising
	mem     []topology.KiB
	running []int // vCPUs
	held    map[string][]part
}

type part struct {
	node int
	cpus []topology.CPUID
	mem  topology.KiB
}

func newBook(c *replay.Case) *book {
	b := &book{held: map[string][]part{}, running: make([]int, len(c.Host.Nodes))}
	for i := range c.Host.Nodes {
		n := &c.Host.Nodes[i]
		b.free = append(b.free, n.CPUs.Minus(c.Policy.Reserved).Slice())
		b.mem = append(b.mem, n.Memory)
	}
	return b
}

func (b *book) take(vm string, parts []part) {
	for _, p := range parts {
		b.free[p.node] = slices.DeleteFunc(b.free[p.node],
			func(c topology.CPUID) bool { return slices.Contains(p.cpus, c) })
		b.mem[p.node] -= p.mem
		b.running[p.node] += len(p.cpus)
	}
	b.held[vm] = parts
}

func (b *book) drop(vm string) {
	for _, p := range b.held[vm] {
		b.free[p.node] = append(b.free[p.node], p.cpus...)
		slices.Sort(b.free[p.node])
		b.mem[p.node] += p.mem
		b.running[p.node] -= len(p.cpus)
	}
	delete(b.held, vm)
}

// divide fills the nodes in order, CPUs and memory each for itself.
func (b *book) divide(nodes []int, vcpus int, mem topology.KiB) []part {
	var parts []part
	for _, i := range nodes {
		p := part{node: i, mem: min(mem, b.mem[i])}
		p.cpus = slices.Clone(b.free[i][:min(vcpus, len(b.free[i]))])
		vcpus -= len(p.cpus)
		mem -= p.mem
		if p.mem > 0 || len(p.cpus) > 0 {
			parts = append(parts, p)
		}
	}
	return parts
}

// time runs a case and hands out how long each decision took.
func (r reference) time(c *replay.Case, decided func(ok bool, ns int64)) {
	b := newBook(c)
	for i := range c.Events {
		e := &c.Events[i]
		switch e.Op {
		case replay.Depart:
			b.drop(string(e.VM))
		case replay.Preplace:
			var parts []part
			for k := range c.Host.Nodes {
				n := &c.Host.Nodes[k]
				if p := (part{k, n.CPUs.Intersect(e.CPUs).Slice(), e.Memory[n.ID]}); len(p.cpus) > 0 || p.mem > 0 {
					parts = append(parts, p)
				}
			}
			b.take(string(e.VM), parts)
		case replay.Arrive:
			start := time.Now()
			nodes := r.choose(b, e.Spec.CPUs, e.Spec.Memory)
			if nodes != nil {
				b.take(string(e.VM), b.divide(nodes, e.Spec.CPUs, e.Spec.Memory))
			}
			decided(nodes != nil, time.Since(start).Nanoseconds())
		}
	}
}
