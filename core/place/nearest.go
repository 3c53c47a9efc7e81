package place

import (
	"cmp"
	"fmt"
	"slices"
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
// could ever hold, or what they could hold at most, or how many nodes it needs.
func (l *Ledger) nearestInAll(w *want, s *search, d *plan.Decision) {
	var all []int
	for i := range l.nodes {
		if l.eligible(w, i) {
			all = append(all, i)
		}
	}
	limit := len(all)
	if w.MaxNodes > 0 {
		limit = min(limit, w.MaxNodes)
	}
	now := func(i int) (int, topology.KiB) { return s.room[i], s.mem[i] }
	ever := func(i int) (int, topology.KiB) { return l.couldHold(w, i) }
	holds := func(nodes int, room func(int) (int, topology.KiB)) bool { // or may, where CPUs and memory are on different nodes
		vcpus, mem := l.most(all, nodes, room)
		return (vcpus >= w.vcpus || w.Class == workload.Offline) && mem >= w.memory
	}
	if !holds(limit, ever) {
		vcpus, mem := l.most(all, limit, ever)
		var most []string
		if vcpus < w.vcpus && w.Class != workload.Offline {
			most = append(most, count(vcpus, "vCPU"))
		}
		if mem < w.memory {
			most = append(most, l.memoryLack(w, mem))
		}
		ask := "ask for at most " + strings.Join(most, " and ")
		switch {
		case !holds(len(all), ever):
			d.Reasons = append(d.Reasons, fmt.Sprintf("It could not be admitted with nothing else there either: %s.", ask))
		case !holds(len(all), now):
			needs := limit + 1
			for !holds(needs, ever) {
				needs++
			}
			vcpus, mem := l.most(all, len(all), now)
			d.Reasons = append(d.Reasons, fmt.Sprintf("No room helps while it may be on %s at most: allow it max_nodes: %d or more, which takes %s on %s together, or %s.",
				count(limit, "node"), needs, l.moreWords(w, vcpus, mem), nodesWords(l.ids(all)), ask))
		}
		return
	}
	if limit < len(all) { // those with most room
		slices.SortStableFunc(all, func(a, b int) int {
			return cmp.Or(-cmp.Compare(s.room[a], s.room[b]), -cmp.Compare(s.mem[a], s.mem[b]))
		})
		if all = all[:limit]; !holds(limit, ever) {
			return // others that could hold it have less: no single change is the nearest
		}
	}
	if holds(len(all), now) {
		return // it is not room that is short
	}
	vcpus, mem := l.most(all, len(all), now)
	if w.Class == workload.Offline {
		vcpus = w.vcpus
	}
	nodes := l.ids(all)
	d.Nearest = l.lacks(w, nodes, vcpus, mem)
	d.Reasons = append(d.Reasons, fmt.Sprintf("It can be held in parts only, which takes %s on %s together.", l.moreWords(w, vcpus, mem), nodesWords(nodes)))
}

// most is the sum of what the best of some nodes have, CPUs and memory each by itself.
func (l *Ledger) most(of []int, nodes int, room func(int) (int, topology.KiB)) (vcpus int, mem topology.KiB) {
	var cpus []int
	var mems []topology.KiB
	for _, i := range of {
		c, m := room(i)
		cpus, mems = append(cpus, c), append(mems, m)
	}
	slices.Sort(cpus)
	slices.Sort(mems)
	for k := len(of) - nodes; k < len(of); k++ {
		vcpus += cpus[k]
		mem = min(unlimited, mem+mems[k])
	}
	return vcpus, mem
}

func (l *Ledger) ids(nodes []int) topology.NodeSet {
	var s topology.NodeSet
	for _, i := range nodes {
		s.Add(l.nodes[i].id)
	}
	return s
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
