package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/homenode/homenode/e2e/suite"
)

// localEnough is the share of local accesses asked of a walker whose home is one
// node: what is left is room for a page or two of hundreds that the kernel would
// not let go.
const localEnough = 0.99

// wideEnough is the same of one whose home is several nodes, each thread of which homenode
// keeps on one of them: memory that threads share, or that came between two looks, is left.
const wideEnough = 0.9

// judgeLocal: under homenode whatever fits a node finds its memory there, and
// what is wider finds it on its home nodes.
func judgeLocal(t *tally, c counts) (string, error) {
	var said []string
	for _, m := range t.marks {
		var near, total access
		for _, w := range t.walkers {
			everything := c.of(m.tag, w.slot, everything)
			total = total.plus(everything)
			near = near.plus(c.of(m.tag, w.slot, local))
			if !strings.HasPrefix(m.phase, homenodePhase) {
				continue
			}
			nodes := m.homes[w.slot]
			if len(nodes) == 0 {
				return "", fmt.Errorf("walker %s: no home reported", w.name)
			}
			if p := part(c.of(m.tag, w.slot, home(nodes)), everything); p < localEnough {
				return "", fmt.Errorf("%s, walker %s: %s of its accesses stay on its home %v", m.phase, w.name,
					percent(p), nodes)
			}

		}
		said = append(said, fmt.Sprintf("%s %s", m.phase, percent(part(near, total))))
	}
	return "local accesses: " + strings.Join(said, "; "), nil
}

// judgeWide: so does what is wider, for homenode keeps each of its threads on one node.
func judgeWide(t *tally, c counts) (string, error) {
	text, err := judgeLocal(t, c)
	if err != nil {
		return "", err
	}
	for _, m := range t.marks {
		for _, w := range t.walkers {
			all := c.of(m.tag, w.slot, everything)
			if p := part(c.of(m.tag, w.slot, local), all); strings.HasPrefix(m.phase, homenodePhase) && p < wideEnough {
				return "", fmt.Errorf("%s, walker %s: %s of its accesses are local", m.phase, w.name, percent(p))
			}
		}
	}
	return text, nil
}

// gpuLocal is the share of local accesses asked of workers on the nodes of their GPUs.
const gpuLocal = 0.99

// judgeGPUs fails unless each worker accesses memory on the node of its GPU, where it runs. Its text also has
// the figures without homenode, and the local accesses on any node.
func judgeGPUs(t *tally, c counts) (string, error) {
	if len(t.marks) == 0 {
		return "", fmt.Errorf("no marks were reported")
	}
	var said []string
	for _, m := range t.marks {
		var near, atGPU, total access
		for _, w := range m.walkers {
			all := c.of(m.tag, w.slot, everything)
			if want := uint64(w.loads * m.passes); all.loads < want {
				return "", fmt.Errorf("%s, %s: %d loads counted, it made %d", m.phase, w.name, all.loads, want)
			}
			atHome := c.of(m.tag, w.slot, home(m.homes[w.slot]))
			total, atGPU = total.plus(all), atGPU.plus(atHome)
			near = near.plus(c.of(m.tag, w.slot, local))
			p := part(atHome, all)
			if strings.HasPrefix(m.phase, homenodePhase) && p < gpuLocal {
				const off = "%s, %s: %s of its accesses are on the node of its GPU, %v"
				return "", fmt.Errorf(off, m.phase, w.name, percent(p), m.homes[w.slot])
			}
		}
		phase := strings.TrimPrefix(m.scene+", "+m.phase, ", ")
		shares := fmt.Sprintf("%s (local on any node %s)", percent(part(atGPU, total)), percent(part(near, total)))
		said = append(said, phase+" "+shares)
	}
	return "accesses on the node of the GPU: " + strings.Join(said, "; "), nil
}

// cellLocal is the share of local accesses asked of the memory of a cell of a guest.
const cellLocal = 0.95

// judgeCells: what the vCPUs of a guest access in each of its cells lies on their node.
func judgeCells(t *tally, c counts) (string, error) {
	if len(t.marks) == 0 || len(t.walkers) == 0 {
		return "", fmt.Errorf("no marks or no cells were reported")
	}
	var said []string
	for _, m := range t.marks {
		for _, w := range t.walkers {
			all := c.of(m.tag, w.slot, everything)
			if pages := uint64(w.mib) << 20 / suite.PageSize; all.loads < pages { // a vCPU goes over all of them
				return "", fmt.Errorf("%s, %s: %d loads counted", m.phase, w.name, all.loads)
			}
			p := part(c.of(m.tag, w.slot, local), all)
			if said = append(said, fmt.Sprintf("%s, %s: %s of %d", m.phase, w.name, percent(p),
				all.loads+all.stores)); p < cellLocal {
				return "", fmt.Errorf("%s", said[len(said)-1])
			}
		}
	}
	return "local accesses: " + strings.Join(said, "; "), nil
}

// homenodePhase begins the name of every phase that homenode has a hand in.
const homenodePhase = "homenode"

func (a access) plus(b access) access {
	return access{a.loads + b.loads, a.stores + b.stores, a.misses + b.misses, a.near + b.near, a.far + b.far}
}

func percent(f float64) string { return fmt.Sprintf("%.1f %%", f*100) }

// localityTable has a row for each walker and a column for each phase: the share
// of its accesses that went to memory on the node of the CPU.
func localityTable(t *tally, c counts) *table {
	tb := &table{title: "Share of local memory accesses, every load and store counted"}
	head := []string{"walker", "MiB", "threads", "started", "home"}
	for _, m := range t.marks {
		head = append(head, m.phase)
	}
	tb.rows = append(tb.rows, head)
	sums, totals := make([]access, len(t.marks)), make([]access, len(t.marks))
	for _, w := range t.everyWalker() {
		row := []string{w.name, fmt.Sprint(w.mib), fmt.Sprint(w.threads), w.start, listText(t.homes[w.slot])}
		for i, m := range t.marks {
			if !m.counts(w) {
				row = append(row, "-")
				continue
			}
			l, a := c.of(m.tag, w.slot, local), c.of(m.tag, w.slot, everything)
			sums[i], totals[i] = sums[i].plus(l), totals[i].plus(a)
			cell := percent(part(l, a))
			if nodes := m.homes[w.slot]; len(nodes) > 1 && strings.HasPrefix(m.phase, homenodePhase) {
				cell += fmt.Sprintf(" (%s within its home)", percent(part(c.of(m.tag, w.slot, home(nodes)), a)))
			}
			row = append(row, cell)
		}
		tb.rows = append(tb.rows, row)
	}
	row := []string{"all", "", "", "", ""}
	for i := range t.marks {
		row = append(row, percent(part(sums[i], totals[i])))
	}
	tb.rows = append(tb.rows, row)
	return tb
}

func listText(nodes []int) string {
	nodes = slices.Sorted(slices.Values(nodes))
	var s []string
	for _, n := range nodes {
		s = append(s, fmt.Sprint(n))
	}
	return strings.Join(s, ",")
}

// localityNote says what the numbers are and are not.
func localityNote(s suite.Shape, kernel string) string {
	return fmt.Sprintf("A local access is a load or store by a CPU to memory of its own NUMA node. Counted by a QEMU "+
		"plugin, each access once, "+
		"in a guest with %d nodes of %d CPUs and %d MiB under software emulation, Linux %s. These are counts, not "+
		"times.\n", s.Nodes, s.CPUsPerNode, s.NodeMiB, kernel)
}
