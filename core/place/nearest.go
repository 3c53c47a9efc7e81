package place

import (
	"fmt"
	"strings"

	"github.com/homenode/homenode/core/plan"
	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/core/workload"
)

// nearestChange says what would admit a refused workload: room on the node that
// lacks least of it, or else on all nodes together, or else a smaller workload;
// and a wish dropped, where that alone would do. It uses s up.
func (l *Ledger) nearestChange(w *want, s *search, d *plan.Decision) {
	if i := l.leastLack(w, s); i >= 0 {
		if d.Nearest = l.shortages(w, s, i); d.Nearest != nil {
			d.Reasons = append(d.Reasons, fmt.Sprintf("It would be admitted as soon as node %d has %s.", l.nodes[i].id, l.moreWords(w, s.room[i], s.mem[i])))
		}
	} else {
		l.nearestInAll(w, s, d)
	}
	l.dropWish(w, d)
}

// couldHold is everRoom, with as many huge pages as the node has memory for: pools
// can be made larger.
func (l *Ledger) couldHold(w *want, i int) (vcpus int, mem topology.KiB) {
	vcpus, mem = l.everRoom(w, i)
	if n := &l.host.Nodes[i]; w.HugePage > 0 && l.eligible(w, i) && l.host.AllowedMems.Has(n.ID) {
		if mem = n.Memory; mem < 0 {
			mem = unlimited
		}
	}
	return vcpus, mem
}

// leastLack is the node that could hold the whole workload and lacks least of it
// now; -1 when none ever could.
func (l *Ledger) leastLack(w *want, s *search) int {
	best, least := -1, 0.0
	for i := range l.nodes {
		if room, mem := l.couldHold(w, i); room < w.vcpus || mem < w.memory {
			continue
		}
		lack := 0.0
		if w.Class != workload.Offline {
			lack = float64(max(0, w.vcpus-s.room[i])) / float64(w.vcpus)
		}
		if w.memory > 0 {
			lack += float64(max(0, w.memory-s.mem[i])) / float64(w.memory)
		}
		if best < 0 || lack < least {
			best, least = i, lack
		}
	}
	return best
}

// nearestInAll is what the nodes together lack for a workload that none of them
// could ever hold, or what they could hold at most.
func (l *Ledger) nearestInAll(w *want, s *search, d *plan.Decision) {
	var nodes topology.NodeSet
	room, ever := 0, 0
	mem, everMem := topology.KiB(0), topology.KiB(0)
	for i := range l.nodes {
		if !l.eligible(w, i) {
			continue
		}
		nodes.Add(l.nodes[i].id)
		e, m := l.couldHold(w, i)
		room, ever = room+s.room[i], ever+e
		mem, everMem = min(unlimited, mem+s.mem[i]), min(unlimited, everMem+m)
	}
	if w.Class == workload.Offline {
		room, ever = w.vcpus, max(ever, w.vcpus)
	}
	if ever < w.vcpus || everMem < w.memory {
		var most []string
		if ever < w.vcpus {
			most = append(most, count(ever, "vCPU"))
		}
		if everMem < w.memory {
			most = append(most, l.memoryLack(w, everMem))
		}
		d.Reasons = append(d.Reasons, fmt.Sprintf("It could not be admitted with nothing else there either: ask for at most %s.", strings.Join(most, " and ")))
		return
	}
	if room >= w.vcpus && mem >= w.memory {
		return // it is not room that is short
	}
	d.Nearest = l.lacks(w, nodes, room, mem)
	d.Reasons = append(d.Reasons, fmt.Sprintf("It can be held in parts only, which takes %s on %s together.", l.moreWords(w, room, mem), nodesWords(nodes)))
}

// moreWords is what is missing beside some room: "2 more free CPUs and 1 GiB more".
func (l *Ledger) moreWords(w *want, room int, mem topology.KiB) string {
	var words []string
	if short := w.vcpus - room; short > 0 && w.Class != workload.Offline {
		words = append(words, count(short, "more "+w.cpuWord()))
	}
	if short := w.memory - mem; short > 0 {
		words = append(words, l.memoryLack(w, short)+" more")
	}
	return strings.Join(words, " and ")
}

// dropWish says whether the workload would be admitted if it might be split over
// more nodes, or use others.
func (l *Ledger) dropWish(w *want, d *plan.Decision) {
	if w.MaxNodes > 0 && w.MaxNodes < len(l.nodes) {
		more := *w
		more.MaxNodes = len(l.nodes)
		if s := l.newSearch(&more); s.found() {
			d.Reasons = append(d.Reasons, fmt.Sprintf("Split over %s it would be admitted now, as %s.", count(len(s.top[0].shares), "node"), l.shareWords(&s.top[0])))
		}
	}
	if !w.Nodes.Empty() {
		other := *w
		other.Nodes = topology.NodeSet{}
		other.wide = l.isWide(&other)
		if s := l.newSearch(&other); s.found() {
			d.Reasons = append(d.Reasons, fmt.Sprintf("Allowed on any node it would be admitted now, on %s.", nodesWords(l.nodeSet(&s.top[0]))))
		}
	}
}

// found runs the search and reports whether there is an answer.
func (s *search) found() bool {
	s.run()
	return len(s.top) > 0
}
