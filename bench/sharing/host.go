package sharing

import (
	"cmp"
	"math"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/core/workload"
)

// tick is how long nothing changes.
const tick = 500 * time.Millisecond

// load is how many CPUs are wanted at a time, seconds since the beginning.
type load func(at float64) float64

// work is one workload.
type work struct {
	id    workload.ID
	class workload.Class
	on    []float64 // the part of it that belongs to each node; sums to 1
	wants load      // CPUs; of batch work: that it could use
	noise float64   // standard deviation of what online work wants, CPUs
	own   int       // CPUs of dedicated work
	from  time.Duration
	until time.Duration // 0: to the end
	aside bool          // homenode is told to leave it alone

	inode  uint64
	drift  float64 // of the noise
	now    float64 // wanted in this tick
	cpus   topology.CPUSet
	max    float64 // CPUs; 0 for no limit
	frozen bool
	ran    []float64 // CPU seconds on each node since the last snapshot
	lately []float64 // of them, those of the newest tick
	total  float64
}

// node is one node of the host.
type node struct {
	cpus   topology.CPUSet
	cores  []topology.CPUSet
	system load

	pool   int     // CPUs that no dedicated work holds
	want   float64 // CPUs that online work and what is no workload want in this tick
	online float64 // CPUs busy in this tick, with what is no workload
	batch  float64
	busy   float64 // CPU seconds since the last snapshot, all of it
	lately float64 // of them, those of the newest tick
	taken  float64 // CPUs that online work took from batch work in this tick, because none was idle
}

// host is a machine.
type host struct {
	top    *topology.Host
	random *rand.Rand
	now    time.Duration
	looked time.Duration // when the last snapshot was taken
	newest bool          // a snapshot covers the newest tick alone
	nodes  []*node
	all    []*work // rising by ID
	active []*work // that run now
	inodes uint64

	quota    float64 // of all batch work together, CPUs; infinite for none
	harm     harm    // of batch work, and what of caches and bandwidth it has: of the latency model alone
	batchHas shareOf
	goals    []*service // of services; none where latency is not asked
	readings *rand.Rand // noise of readings

	keeps []topology.CPUSet // CPUs of each node that online work may use; nil for all

	cut, alone float64 // CPU seconds that online work wanted and did not get; had there been no batch work
	late       float64 // CPU seconds' worth of wake-ups that found no idle CPU
	wanted     float64 // CPU seconds that online work wanted
	overlap    int     // ticks in which batch work might use CPUs of dedicated work
}

func newHost(text string, seed uint64) *host {
	top, err := topology.FromSynthetic(text)
	if err != nil {
		panic(err)
	}
	h := &host{top: top, random: rand.New(rand.NewPCG(seed, 0x73686172696e67)), quota: math.Inf(1)}
	for i := range top.Nodes {
		top.Nodes[i].Memory, top.Nodes[i].Free = 256<<20, 200<<20
		h.nodes = append(h.nodes, &node{cpus: top.Nodes[i].CPUs, system: func(float64) float64 { return 0 }})
	}
	for i := range top.Cores {
		for _, n := range h.nodes {
			if top.Cores[i].CPUs.SubsetOf(n.cpus) {
				n.cores = append(n.cores, top.Cores[i].CPUs)
			}
		}
	}
	return h
}

// add puts a workload on the host.
func (h *host) add(w *work) {
	if w.on == nil {
		w.on = make([]float64, len(h.nodes))
		for i, n := range h.nodes {
			w.on[i] = float64(n.cpus.Len()) / float64(h.top.Online.Len())
		}
	}
	h.inodes++
	w.inode = h.inodes
	w.cpus = h.top.Online
	w.ran = make([]float64, len(h.nodes))
	w.lately = make([]float64, len(h.nodes))
	k, _ := slices.BinarySearchFunc(h.all, w.id, func(x *work, id workload.ID) int { return cmp.Compare(x.id, id) })
	h.all = slices.Insert(h.all, k, w)
}

// find is a workload by its cgroup, or nil.
func (h *host) find(cgroup string) *work {
	k, ok := slices.BinarySearchFunc(h.all, workload.ID(cgroup),
		func(x *work, id workload.ID) int { return cmp.Compare(x.id, id) })
	if !ok {
		return nil
	}
	return h.all[k]
}

// holds reports whether dedicated work has CPUs of its own.
func (w *work) holds() bool { return w.class == workload.Dedicated && w.cpus.Len() == w.own }

// step lets one tick pass.
func (h *host) step() {
	at, dt := h.now.Seconds(), tick.Seconds()
	h.active = h.active[:0]
	for _, n := range h.nodes {
		n.lately = 0
	}
	var taken topology.CPUSet
	for _, w := range h.all {
		if w.from > h.now || (w.until > 0 && w.until <= h.now) {
			continue
		}
		h.active = append(h.active, w)
		clear(w.lately)
		w.drift = 0.78*w.drift + 0.63*h.random.NormFloat64() // forgets within two seconds
		w.now = max(0, w.wants(at)+w.noise*w.drift)
		if w.holds() {
			taken = taken.Union(w.cpus)
		}
	}
	want, free := make([]float64, len(h.nodes)), make([]float64, len(h.nodes))
	for _, w := range h.active {
		switch {
		case w.class == workload.Batch:
			if w.cpus.Intersects(taken) {
				h.overlap++
			}
		case w.holds():
			for i, n := range h.nodes {
				used := min(w.now*float64(w.cpus.Overlap(n.cpus))/float64(w.own), float64(w.cpus.Overlap(n.cpus)))
				w.got(i, used*dt)
				n.ran(used * dt)
			}
		default:
			for i, part := range w.where(h) {
				want[i] += w.now * part
			}
		}
	}
	for i, n := range h.nodes {
		n.pool = n.cpus.Minus(taken).Len()
		system, room := min(n.system(at), float64(n.pool)), float64(n.pool)
		if h.keeps != nil {
			room = float64(h.keeps[i].Minus(taken).Len())
		}
		served := max(0, min(want[i], room-system))
		h.wanted += want[i] * dt
		h.cut += (want[i] - served) * dt
		h.alone += (want[i] - min(want[i], float64(n.pool)-system)) * dt
		n.taken = max(0, min(served+system-n.online, served+system+n.batch-float64(n.pool)))
		h.late += dt * n.taken
		for _, w := range h.active {
			if w.class != workload.Batch && !w.holds() && want[i] > 0 {
				w.got(i, served/want[i]*w.now*w.where(h)[i]*dt)
			}
		}
		n.batch = 0
		n.want = want[i] + system
		n.online = served + system
		n.ran(n.online * dt)
		free[i] = float64(n.pool) - n.online
		if h.keeps != nil {
			free[i] = min(free[i], float64(n.cpus.Minus(h.keeps[i]).Minus(taken).Len()))
		}
	}
	h.batch(free, taken)
	h.now += tick
}

// where is the part of a workload's time on each node: where it belongs, as far as it may.
func (w *work) where(h *host) []float64 {
	out, sum := make([]float64, len(h.nodes)), 0.0
	for i, n := range h.nodes {
		if w.cpus.Intersects(n.cpus) {
			out[i] = w.on[i]
			sum += out[i]
		}
	}
	for i, n := range h.nodes {
		if sum > 0 {
			out[i] /= sum
		} else {
			out[i] = float64(w.cpus.Overlap(n.cpus)) / float64(w.cpus.Len())
		}
	}
	return out
}

func (n *node) ran(seconds float64) {
	n.busy += seconds
	n.lately += seconds
}

func (w *work) got(node int, seconds float64) {
	w.ran[node] += seconds
	w.lately[node] += seconds
	w.total += seconds
}

// batch gives batch work what is left, to each alike as far as it may and can.
func (h *host) batch(free []float64, taken topology.CPUSet) {
	var jobs []*work
	for _, w := range h.active {
		if w.class == workload.Batch && !w.frozen {
			jobs = append(jobs, w)
		}
	}
	left, quota := make([]float64, len(jobs)), h.quota
	sets := make([]float64, len(h.nodes)) // CPUs that any of them may use
	for i, n := range h.nodes {
		var set topology.CPUSet
		for _, w := range jobs {
			set = set.Union(w.cpus.Intersect(n.cpus))
		}
		sets[i] = max(0, min(free[i], float64(set.Minus(taken).Len())))
	}
	for k, w := range jobs {
		if left[k] = w.now; w.max > 0 {
			left[k] = min(left[k], w.max)
		}
	}
	for range 4 { // what one does not use goes to the others
		room, ask := slices.Clone(sets), slices.Clone(left)
		for i, n := range h.nodes {
			asks, sum := make([]float64, len(jobs)), 0.0
			for k, w := range jobs {
				mine, all := 0.0, 0.0
				for j, x := range h.nodes {
					if w.cpus.Intersects(x.cpus) {
						all += room[j]
						if j == i {
							mine = room[j]
						}
					}
				}
				if all > 1e-9 {
					asks[k] = ask[k] * mine / all
				}
				sum += asks[k]
			}
			part := level(asks, min(sets[i], quota*float64(n.cpus.Len())/float64(h.top.Online.Len())))
			for k, w := range jobs {
				got := min(asks[k], part)
				left[k] -= got
				sets[i] = max(0, sets[i]-got)
				n.batch += got
				n.ran(got * tick.Seconds())
				w.got(i, got*tick.Seconds())
			}
		}
		if !math.IsInf(quota, 1) {
			break
		}
	}
}

// level is up to where all together are so much.
func level(asks []float64, all float64) float64 {
	asks = slices.Sorted(slices.Values(asks))
	for i, a := range asks {
		if part := all / float64(len(asks)-i); a >= part {
			return part
		}
		all -= a
	}
	return math.Inf(1)
}
