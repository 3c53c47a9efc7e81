package place

import (
	"cmp"
	"slices"

	"github.com/homenode/homenode/core/plan"
	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/core/words"
	"github.com/homenode/homenode/core/workload"
)

// nearestChange says what would admit a refused workload: room on the node that
// lacks least of it, or else on all nodes together, or else a smaller workload;
// and a wish dropped, where that alone would do. It uses s up.
func (s *search) nearestChange(d *plan.Decision) {
	if i := s.leastLack(); i >= 0 {
		if d.Nearest = s.shortages(i); d.Nearest != nil {
			d.Reasons = append(d.Reasons, words.Because(words.WithMore, s.w.missing(s.room[i], s.mem[i]),
				s.l.nodes[i].id))
		}
	} else {
		s.nearestInAll(d)
	}
	s.dropWish(d)
}

// couldHold is everRoom, with as many huge pages as the node has memory for: pools
// can be made larger.
func (w *want) couldHold(l *Ledger, i int) (vcpus int, mem topology.KiB) {
	vcpus, mem = w.everRoom(l, i)
	if n := &l.host.Nodes[i]; w.HugePage > 0 && w.eligible(l, i) && l.host.AllowedMems.Has(n.ID) {
		if mem = n.Memory; mem < 0 {
			mem = unlimited
		}
	}
	return vcpus, mem
}

// leastLack is the node that could hold the whole workload and lacks least of it
// now; -1 when none ever could.
func (s *search) leastLack() int {
	w := s.w
	best, least := -1, 0.0
	for i := range s.l.nodes {
		if room, mem := w.couldHold(s.l, i); room < w.vcpus || mem < w.memory {
			continue
		}
		lack := 0.0
		if w.Class != workload.Batch {
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
func (s *search) nearestInAll(d *plan.Decision) {
	w := s.w
	var all []int
	for i := range s.l.nodes {
		if w.eligible(s.l, i) {
			all = append(all, i)
		}
	}
	limit := len(all)
	if w.MaxNodes > 0 {
		limit = min(limit, w.MaxNodes)
	}
	now := func(i int) (int, topology.KiB) { return s.room[i], s.mem[i] }
	ever := func(i int) (int, topology.KiB) { return w.couldHold(s.l, i) }
	// or may, where CPUs and memory are on different nodes
	holds := func(nodes int, room func(int) (int, topology.KiB)) bool {
		vcpus, mem := most(all, nodes, room)
		return (vcpus >= w.vcpus || w.Class == workload.Batch) && mem >= w.memory
	}
	if !holds(limit, ever) {
		vcpus, mem := most(all, limit, ever)
		var atMost []words.Reason
		if vcpus < w.vcpus && w.Class != workload.Batch {
			atMost = append(atMost, words.Because(words.VCPUs, vcpus))
		}
		if mem < w.memory {
			atMost = append(atMost, w.memoryOf(mem))
		}
		switch {
		case !holds(len(all), ever):
			d.Reasons = append(d.Reasons, words.Because(words.EmptyTooSmall, atMost))
		case !holds(len(all), now):
			needs := limit + 1
			for !holds(needs, ever) {
				needs++
			}
			vcpus, mem := most(all, len(all), now)
			d.Reasons = append(d.Reasons, words.Because(words.MaxNodesShort, limit, needs, w.missing(vcpus, mem),
				s.l.ids(all), atMost))
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
	vcpus, mem := most(all, len(all), now)
	if w.Class == workload.Batch {
		vcpus = w.vcpus
	}
	nodes := s.l.ids(all)
	d.Nearest = w.lacks(nodes, vcpus, mem)
	d.Reasons = append(d.Reasons, words.Because(words.WithMoreOn, w.missing(vcpus, mem), nodes))
}

// most is the sum of what the best of some nodes have, CPUs and memory each by itself.
func most(of []int, nodes int, room func(int) (int, topology.KiB)) (vcpus int, mem topology.KiB) {
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

// missing is what the workload needs beside some room: "2 more free CPUs", "1 GiB more".
func (w *want) missing(room int, mem topology.KiB) []words.Reason {
	var out []words.Reason
	if short := w.vcpus - room; short > 0 && w.Class != workload.Batch {
		_, code := w.cpuCodes()
		out = append(out, words.Because(code, short))
	}
	switch short := w.memory - mem; {
	case short <= 0:
	case w.HugePage > 0:
		out = append(out, words.Because(words.MoreHugePages, int64(short/w.HugePage), w.HugePage))
	default:
		out = append(out, words.Because(words.MoreMemory, short))
	}
	return out
}

// dropWish says whether the workload would be admitted if it might be split over
// more nodes, or use others.
func (s *search) dropWish(d *plan.Decision) {
	l, w := s.l, s.w
	if w.MaxNodes > 0 && w.MaxNodes < len(l.nodes) {
		more := *w
		more.MaxNodes = len(l.nodes)
		if s := newSearch(l, &more); s.found() {
			d.Reasons = append(d.Reasons, words.Because(words.WithMaxNodes, len(s.top[0].shares),
				s.sharesOfSplit(&s.top[0])))
		}
	}
	other := *w
	try := func(code words.Code) {
		other.tooLarge = other.isTooLarge(l)
		if s := newSearch(l, &other); s.found() {
			d.Reasons = append(d.Reasons, words.Because(code, s.top[0].nodes(l)))
		}
	}
	switch {
	case w.required != nil:
		other.required, other.Nodes = nil, w.asked
		try(words.WithPreferred)
	case !w.Nodes.Empty():
		other.Nodes = topology.NodeSet{}
		try(words.WithAnyNode)
	}
}
