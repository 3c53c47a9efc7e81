package main

import (
	"bufio"
	"fmt"
	"io"
	"strconv"
	"strings"
)

// machine is what accesses cost on a machine that was measured, read from a file (e2e/machines).
type machine struct {
	latency   [][]float64 // ns, from a CPU's node to a memory's node
	bandwidth [][]float64 // GB/s, likewise; nil: no bound
	hit       float64     // ns of an access that the last-level cache serves
	near, far float64     // ns of a line taken from another cache of the node, and of another node
	line      float64     // bytes
}

// parseMachine reads lines "latency NS NS …" and "bandwidth GB/S …", one for each node in order,
// "hit NS", "near NS", "far NS" and comments.
func parseMachine(r io.Reader) (machine, error) {
	m := machine{line: 64}
	lines := bufio.NewScanner(r)
	for n := 1; lines.Scan(); n++ {
		text, _, _ := strings.Cut(lines.Text(), "#")
		f := strings.Fields(text)
		if len(f) == 0 {
			continue
		}
		var row []float64
		for _, word := range f[1:] {
			x, err := strconv.ParseFloat(word, 64)
			if err != nil || !(x > 0 && x < 1e6) {
				return machine{}, fmt.Errorf("line %d: %q is no time or bandwidth", n, word)
			}
			row = append(row, x)
		}
		one := map[string]*float64{"hit": &m.hit, "near": &m.near, "far": &m.far}[f[0]]
		switch {
		case f[0] == "latency":
			m.latency = append(m.latency, row)
		case f[0] == "bandwidth":
			m.bandwidth = append(m.bandwidth, row)
		case one != nil && len(row) == 1:
			*one = row[0]
		default:
			return machine{}, fmt.Errorf("line %d: want latency, bandwidth, hit, near or far, and numbers: %q", n, text)
		}
	}
	if err := lines.Err(); err != nil {
		return machine{}, err
	}
	return m, m.whole()
}

func (m machine) whole() error {
	nodes := len(m.latency)
	square := func(rows [][]float64) bool {
		for _, row := range rows {
			if len(row) != nodes {
				return false
			}
		}
		return len(rows) == nodes
	}
	switch {
	case nodes == 0 || !square(m.latency):
		return fmt.Errorf("want as many latencies in each line as there are lines of them, and at least one")
	case m.bandwidth != nil && !square(m.bandwidth):
		return fmt.Errorf("want a bandwidth for each latency")
	case m.hit == 0 || m.near == 0 || m.far == 0:
		return fmt.Errorf("want hit, near and far")
	}
	return nil
}

// cost is a modelled time, in ns.
type cost struct {
	// waited is the sum of what all accesses wait, one after the other:
	//   hits × hit + near × near + far × far + Σ over pairs of nodes: misses × latency
	waited float64
	// carried is how long the busiest pair of nodes needs for its misses at full bandwidth:
	//   max over pairs of nodes: misses × line / bandwidth
	carried float64
}

// time is the modelled time of so many threads that share the work evenly: they cannot be faster
// than their waits, nor than the memory.
func (c cost) time(threads int) float64 { return max(c.waited/float64(max(1, threads)), c.carried) }

// pay models what accesses cost. Where the bottle has more nodes than the machine, local stays local
// and remote stays remote.
func (m machine) pay(counted map[place]access) cost {
	var c cost
	at := func(rows [][]float64, p place) float64 {
		cpu, mem := p.cpu%len(rows), p.mem%len(rows)
		if p.cpu != p.mem && cpu == mem {
			mem = (mem + 1) % len(rows)
		}
		return rows[cpu][mem]
	}
	for p, a := range counted {
		if p.cpu < 0 || p.mem < 0 {
			continue
		}
		served := a.misses + a.near + a.far
		c.waited += float64(a.loads+a.stores-served)*m.hit + float64(a.near)*m.near + float64(a.far)*m.far +
			float64(a.misses)*at(m.latency, p)
		if m.bandwidth != nil {
			c.carried = max(c.carried, float64(a.misses)*m.line/at(m.bandwidth, p)) // GB/s are bytes a ns
		}
	}
	return c
}
