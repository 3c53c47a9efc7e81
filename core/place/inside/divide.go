package inside

import (
	"cmp"
	"slices"

	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/core/workload"
)

const (
	// idleDemand is what a thread counts for beside what it uses, so that those that rest are
	// spread too: they may all wake up.
	idleDemand = 0.05
	// leastFaults is needed to say where the memory of a thread is, and clearFaults is the share
	// of them on one node from which it is taken to be there: memory that lies evenly over two
	// nodes gives 0.5 and noise.
	leastFaults = 64
	clearFaults = 0.6
	// fullPart is the share of a node's CPUs that its threads keep busy before one of them goes
	// to a node where it still finds less than roomyPart busy: in between nothing is changed.
	fullPart, roomyPart = 0.9, 0.75
	// mostToBegin is how many threads work may have that is to be divided: what is divided stays so
	// up to workload.MostPerThread, so that a pool of threads that grows and shrinks by a quarter
	// is not divided and restored each time.
	mostToBegin = workload.MostPerThread * 3 / 4
)

// Part is a node of a home with the CPUs of the home there. A group of threads, or of vCPUs,
// is kept on a part.
type Part struct {
	Node   topology.NodeID
	CPUs   topology.CPUSet
	Weight float64 // how much of the workload belongs there, 0 to 1; of all parts 1
}

// Parts is the nodes of a home that have CPUs for it, rising. How much of the workload belongs
// to each is by its CPUs there, or by its memory booked there where that is the tighter one.
func Parts(h *topology.Host, p *workload.Placement) []Part {
	var parts []Part
	cpus, memory := float64(p.CPUs.Len()), float64(workload.Total(p.Memory))
	sum := 0.0
	for i := range h.Nodes {
		n := &h.Nodes[i]
		if own := n.CPUs.Intersect(p.CPUs); p.Home.Has(n.ID) && !own.Empty() {
			w := float64(own.Len()) / cpus
			if memory > 0 {
				w = min(w, float64(workload.On(p.Memory, topology.Nodes(n.ID)))/memory)
			}
			parts, sum = append(parts, Part{n.ID, own, w}), sum+w
		}
	}
	slices.SortFunc(parts, func(a, b Part) int { return cmp.Compare(a.Node, b.Node) })
	for i := range parts {
		if sum > 0 {
			parts[i].Weight /= sum
		} else {
			parts[i].Weight = 1 / float64(len(parts))
		}
	}
	return parts
}

// Divisible reports whether work with so many threads, which is divided or not, is to be divided.
// Threads of work with more are not looked at: new ones would all stay on the node of the one
// that made them.
func Divisible(threads int, divided bool) bool {
	if divided {
		return threads <= workload.MostPerThread
	}
	return threads <= mostToBegin
}

// Divide says which of the parts of a home each thread of a workload belongs to: the index of
// the part, or -1 for one that is left as it is. given is the CPU sets that homenode has given
// threads of it so far.
//
// A thread that may use all CPUs of the home, or has a set that homenode gave, is homenode's to
// divide; any other has chosen its CPUs itself, or somebody else has, and is left alone, and
// counts where it must run. A thread that is on a part stays: the kernel brings its memory
// there, and both going to and fro would bring nothing. Only where the threads of a part keep
// all its CPUs busy and another has room, one of them goes there, one a time. All others come
// by where their memory is, the clearest first, or by where they run where that is not known:
// there they have filled what they have. A part that has got its share of the work takes no more;
// then, and where it runs elsewhere, a thread goes to the part that is furthest from its share. The
// share is not exceeded for that: the memory of the others would not fit the node.
//
// Some threads may belong to a part whatever they use: own has the index
// of the part of each thread, -1 for one that has none; nil for all. A thread that is
// left alone has none.
func Divide(parts []Part, threads []workload.Thread, given []topology.CPUSet, own []int) []int {
	d := division{
		parts: parts, to: make([]int, len(threads)),
		load: make([]float64, len(parts)), use: make([]float64, len(parts)),
	}
	var whole topology.CPUSet
	for i := range parts {
		whole = whole.Union(parts[i].CPUs)
	}
	var free []int
	for i := range threads {
		t := &threads[i]
		d.all += demand(t)
		d.to[i] = -1
		at := slices.IndexFunc(parts, func(p Part) bool { return p.CPUs.Equal(t.CPUs) })
		ours := slices.ContainsFunc(given, t.CPUs.Equal)
		switch {
		case own != nil && own[i] >= 0 && (ours || whole.SubsetOf(t.CPUs)):
			d.put(i, t, own[i])
		case at >= 0 && ours:
			d.put(i, t, at)
		case ours || whole.SubsetOf(t.CPUs):
			free = append(free, i)
		default: // somebody else's: it counts where it must run
			if k := slices.IndexFunc(parts, func(p Part) bool { return t.CPUs.SubsetOf(p.CPUs) }); k >= 0 {
				d.load[k] += demand(t)
				d.use[k] += t.Use
			}
		}
	}
	if len(parts) < 2 {
		return d.to
	}
	slices.SortStableFunc(free, func(a, b int) int {
		_, x := d.memory(&threads[a])
		_, y := d.memory(&threads[b])
		t, u := &threads[a], &threads[b]
		return cmp.Or(cmp.Compare(y, x), cmp.Compare(d.elsewhere(t), d.elsewhere(u)), cmp.Compare(demand(u), demand(t)))
	})
	for _, i := range free {
		t := &threads[i]
		k, clear := d.memory(t)
		if clear == 0 {
			k = d.runs(t)
		}
		if k < 0 || d.load[k]+demand(t)/2 > d.all*parts[k].Weight {
			k = d.shortest()
		}
		d.put(i, t, k)
	}
	if len(free) == 0 {
		d.relieve(threads, own)
	}
	return d.to
}

// division is one run of Divide.
type division struct {
	parts []Part
	to    []int
	all   float64   // demand of all threads
	load  []float64 // demand of the threads of each part
	use   []float64 // CPUs that those keep busy
}

func demand(t *workload.Thread) float64 { return t.Use + idleDemand }

func (d *division) put(i int, t *workload.Thread, part int) {
	d.to[i] = part
	d.load[part] += demand(t)
	d.use[part] += t.Use
}

// memory is the part where the memory of a thread is, and how clearly; 0 when that is not known.
func (d *division) memory(t *workload.Thread) (part int, clear float64) {
	var total, most uint64
	for _, f := range t.Faults {
		total += f.Faults
		if k := slices.IndexFunc(d.parts, func(p Part) bool { return p.Node == f.Node }); k >= 0 && f.Faults > most {
			part, most = k, f.Faults
		}
	}
	if share := float64(most) / float64(max(1, total)); total >= leastFaults && share >= clearFaults {
		return part, share
	}
	return 0, 0
}

// runs is the part on which a thread ran last; -1 where that is none of them, or not known.
func (d *division) runs(t *workload.Thread) int {
	return slices.IndexFunc(d.parts, func(p Part) bool { return t.On.Has(p.Node) })
}

// elsewhere is 1 for a thread that runs on no part, or that may: those that run on one come first.
func (d *division) elsewhere(t *workload.Thread) int {
	if d.runs(t) < 0 {
		return 1
	}
	return 0
}

// shortest is the part that has least of its share of the work.
func (d *division) shortest() int {
	best, least := 0, 0.0
	for k := range d.parts {
		if x := d.load[k] / max(d.parts[k].Weight, 1e-3); k == 0 || x < least {
			best, least = k, x
		}
	}
	return best
}

// relieve lets one thread go from a part whose CPUs are all busy to one that has room: the
// largest that leaves it no busier than the other.
func (d *division) relieve(threads []workload.Thread, own []int) {
	busy := func(k int) float64 { return d.use[k] / float64(d.parts[k].CPUs.Len()) }
	from, to := 0, 0
	for k := range d.parts {
		if busy(k) > busy(from) {
			from = k
		}
		if busy(k) < busy(to) {
			to = k
		}
	}
	if busy(from) < fullPart {
		return
	}
	best := -1
	for i := range threads {
		t := &threads[i]
		if own != nil && own[i] >= 0 {
			continue
		}
		if d.to[i] != from || t.Use == 0 || (d.use[to]+t.Use)/float64(d.parts[to].CPUs.Len()) > roomyPart ||
			d.use[to]+t.Use > d.use[from]-t.Use {
			continue
		}
		if best < 0 || t.Use > threads[best].Use {
			best = i
		}
	}
	if best >= 0 {
		d.to[best] = to
	}
}
