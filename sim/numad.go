package sim

import (
	"context"
	"math"
	"slices"
	"time"

	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/core/workload"
)

// numad's figures: its defaults, numad(8) and numad.c of 0.5.
const (
	// MIN_INTERVAL, MAX_INTERVAL: seldom when nothing was to do
	numadOften, numadSeldom = 5 * time.Second, 15 * time.Second
	numadRest               = 300 * time.Second       // MIN_DELAY_FOR_REEVALUATION
	numadMemory             = topology.KiB(300 << 10) // MEMORY_THRESHOLD, 300 MB
	numadCPU                = 0.5                     // CPU_THRESHOLD, 50 % of a CPU
	numadUse                = 0.85                    // -u, target utilization
	numadLocal              = 0.9                     // -m, target memory locality
	numadMargin             = topology.KiB(100 << 10) // MBS_MARGIN

	// numadPace is what its call of migrate_pages(2) moves, KiB/s: what one CPU copies,
	// as core/balance takes it. numad waits for its end.
	numadPace = topology.KiB(1 << 20)
)

// numad is the daemon of that name: from time to time it takes the largest
// process, gives it the nodes with the best product of free CPU and free memory,
// confines it to their CPUs and moves its memory there.
type numad struct {
	*reference
	period time.Duration
	score  *Score
	next   time.Duration
	bound  map[workload.ID]*binding
	moving *job // whose memory moves now; nothing else is done meanwhile
	homes  homes
	spare  []float64 // CPUs free, by node, as measured last
}

// binding is what numad knows of a process.
type binding struct {
	nodes []int // nil: not bound yet
	at    time.Duration
}

func newNumad(r *reference, period time.Duration, score *Score) *numad {
	return &numad{reference: r, period: period, score: score, next: numadOften, bound: map[workload.ID]*binding{},
		homes: homes{},
		spare: make([]float64, len(r.m.free))}
}

func (n *numad) depart(j *job) {
	delete(n.bound, j.id)
	delete(n.homes, j.id)
	if n.moving == j {
		n.moving = nil
	}
	n.reference.depart(j)
}

func (n *numad) due() (time.Duration, bool) { return n.next, true }

// wake goes on with the memory that moves, or looks for what to do.
func (n *numad) wake(context.Context) {
	if n.moving != nil && n.carrySome(n.moving) {
		n.next += moveStep
		return
	}
	if n.moving != nil {
		n.moving = nil
		n.next += numadOften
		return
	}
	n.next += numadSeldom
	for i := range n.spare {
		n.spare[i] = max(0, float64(n.m.cpus[i])-n.m.busy[i])
	}
	for _, j := range n.candidates() {
		if nodes := n.judge(j); nodes != nil {
			n.bind(j, nodes)
			n.next = n.m.now
			return
		}
	}
}

// used is the CPUs that a process keeps busy.
func used(j *job) float64 { return j.served * j.demand.Busy * float64(j.demand.VCPUs) }

// candidates is what is above both thresholds: what is not bound yet before what is,
// by CPU × memory, and of like size (within 20 %) the one first that was bound first.
func (n *numad) candidates() []*job {
	var fresh, known []*job
	for _, j := range n.m.jobs {
		if used(j) <= numadCPU || j.resident() <= numadMemory {
			continue
		}
		if n.bound[j.id] == nil {
			n.bound[j.id] = &binding{}
		}
		if n.bound[j.id].nodes == nil {
			fresh = append(fresh, j)
		} else {
			known = append(known, j)
		}
	}
	size := func(j *job) float64 { return used(j) * float64(j.resident()) }
	slices.SortStableFunc(fresh, func(x, y *job) int { return -sign(size(x) - size(y)) })
	for i := range known { // no order that a sort could use: "like" is not transitive
		best := i
		for k := i + 1; k < len(known); k++ {
			x, y := size(known[k]), size(known[best])
			if (math.Abs(x-y)*5 > min(x, y) && x > y) ||
				(math.Abs(x-y)*5 <= min(x, y) && n.bound[known[k].id].at < n.bound[known[best].id].at) {
				best = k
			}
		}
		known[i], known[best] = known[best], known[i]
	}
	return append(fresh, known...)
}

func sign(x float64) int {
	switch {
	case x < 0:
		return -1
	case x > 0:
		return 1
	}
	return 0
}

// judge is the nodes a process is to be bound to now, or nil when it stays.
func (n *numad) judge(j *job) []int {
	b := n.bound[j.id]
	kib := float64(j.resident())
	cpus := min(used(j)/numadUse, float64(j.demand.VCPUs))
	if b.nodes != nil && n.m.now < b.at+numadRest && !n.better(j, b, cpus, kib/numadUse) {
		return nil
	}
	nodes := n.pick(j, b, cpus, kib/numadUse)
	far := 0.0
	for i, x := range j.mem {
		if !slices.Contains(nodes, i) {
			far += float64(x)
		}
	}
	if slices.Equal(nodes, b.nodes) && far <= (1-numadLocal)*kib {
		b.at = n.m.now
		return nil
	}
	return nodes
}

// better is the exception to the rest of five minutes: a process that would fit one
// node, on the node with least free, whose move would narrow the gap to the
// emptiest, for CPUs (less a slop of half a CPU) and for memory.
func (n *numad) better(j *job, b *binding, cpus, kib float64) bool {
	free := make([]float64, len(n.spare))
	for i, x := range n.m.free {
		free[i] = float64(x)
	}
	narrows := func(v []float64, use, slop float64) (bool, int) {
		least := 0
		most := 0
		sum := 0.0
		for i, x := range v {
			sum += x
			if x < v[least] {
				least = i
			}
			if x > v[most] {
				most = i
			}
		}
		mean := sum / float64(len(v))
		return math.Abs(v[least]+use-mean)+math.Abs(v[most]-use-mean) < v[most]-v[least]-slop, least
	}
	byCPU, busiest := narrows(n.spare, used(j), numadCPU)
	byMemory, fullest := narrows(free, float64(j.resident()), 0)
	return (slices.Contains(b.nodes, busiest) || slices.Contains(b.nodes, fullest)) &&
		cpus < float64(n.m.cpus[0]) && kib < float64(n.m.room[0]) && byCPU && byMemory
}

// pick is pick_numa_nodes: what a process uses itself counts as free where it is,
// its memory a little more than that so that it rather stays; the value of a node is
// the product of free memory and free CPUs, what is needed weighing more than what
// is left over, by distance squared from the node to begin with.
func (n *numad) pick(j *job, b *binding, cpus, kib float64) []int {
	m := n.m
	nodes := len(m.free)
	free := make([]float64, nodes)
	spare := slices.Clone(n.spare)
	value := make([]float64, nodes)
	mean, all := used(j), 0.0
	for _, i := range b.nodes {
		mean += spare[i]
	}
	mean /= float64(max(1, len(b.nodes)))
	for i := range m.free {
		free[i] = float64(m.free[i])
		if b.nodes == nil || len(b.nodes) == nodes {
			free[i] += float64(j.mem[i]) * 17 / 16
			spare[i] += used(j) * float64(j.mem[i]) / float64(j.resident())
		} else {
			free[i] += float64(j.mem[i]) * 5 / 4
			if slices.Contains(b.nodes, i) {
				spare[i] = mean
			}
		}
		all += spare[i]
		free[i], spare[i] = min(free[i], float64(m.room[i])), max(0.01, min(spare[i], float64(m.cpus[i])))
		value[i] = (10*min(free[i], kib) + 4*max(0, free[i]-kib)) * (6*min(spare[i], cpus) + max(0, spare[i]-cpus))
	}
	enough := cpus > all || n.wanted() <= n.cpusOnline() // then memory alone decides how many nodes
	flex := (1 - numadUse) * float64(m.cpus[0]) / 2
	least := int(min(float64(nodes), max(math.Ceil(kib/float64(m.room[0])), math.Ceil((cpus-flex)/float64(m.cpus[0])))))
	best, most := []int(nil), -1.0
	for i := range nodes {
		order := n.around(i, value)
		sum := 0.0
		for _, k := range order[:least] {
			sum += value[k] / math.Pow(n.distance(i, k), 2)
		}
		if sum > most {
			best, most = order, sum
		}
	}
	var out []int
	for _, i := range best {
		if least <= 0 && kib <= 0 && (cpus <= flex || enough) {
			break
		}
		out = append(out, i)
		least--
		kib -= min(kib, max(0, free[i]-float64(numadMargin)))
		cpus -= min(cpus, spare[i])
	}
	slices.Sort(out)
	return out
}

// around is all nodes by distance from one, of equals the most valuable first.
func (n *numad) around(i int, value []float64) []int {
	order := n.all()
	slices.SortStableFunc(order, func(x, y int) int {
		if d := sign(n.distance(i, x) - n.distance(i, y)); d != 0 {
			return d
		}
		return -sign(value[x] - value[y])
	})
	return order
}

func (n *numad) distance(i, k int) float64 { return n.m.model.idle[i*n.m.model.n+k] / n.m.model.local }

// wanted is the CPUs that all candidates use, cpusOnline those there are.
func (n *numad) wanted() float64 {
	sum := 0.0
	for _, j := range n.m.jobs {
		if used(j) > numadCPU && j.resident() > numadMemory {
			sum += used(j)
		}
	}
	return sum
}

func (n *numad) cpusOnline() float64 {
	sum := 0.0
	for _, k := range n.m.cpus {
		sum += float64(k)
	}
	return sum
}

// bind confines a process and begins to move its memory.
func (n *numad) bind(j *job, nodes []int) {
	var cpus topology.CPUSet
	var home topology.NodeSet
	for _, i := range nodes {
		cpus = cpus.Union(n.m.host.Nodes[i].CPUs)
		home.Add(n.m.host.Nodes[i].ID)
	}
	if cpus = cpus.Intersect(j.asWas.cpus); !cpus.Empty() {
		n.m.setCPUs(j, cpus, j.exclusive)
	}
	*n.bound[j.id] = binding{nodes: nodes, at: n.m.now}
	n.homes.saw(j.id, j.process.Start, home, n.m.now, n.score)
	n.score.Moves++
	n.moving = j
}

// carrySome moves a second's worth and reports whether anything was left to move:
// from each node outside to the nodes of the binding, as far as there is room.
func (n *numad) carrySome(j *job) bool {
	left := numadPace * topology.KiB(moveStep/time.Second)
	before := left
	nodes := n.bound[j.id].nodes
	for from := range j.mem {
		if slices.Contains(nodes, from) {
			continue
		}
		for _, to := range nodes {
			left -= n.m.carry(j, from, to, left, n.period)
		}
	}
	n.score.MovedBytes += int64(before-left) << 10
	return left < before
}
