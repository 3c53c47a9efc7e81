package sharing

import (
	"math"

	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/core/workload"
)

// policy decides what batch work may have. It is asked after every tick.
type policy interface {
	begin(h *host, s *Scenario)
	tick()
	given() []float64 // CPUs that batch work may keep busy of each node now
	counted() int     // settings written since the beginning
}

// rule is a policy that others have published, written from what they say of it. Dedicated work
// gets CPUs at once, and no rule gives them away.
type rule struct {
	h       *host
	target  float64
	every   int // ticks between two rounds
	round   func(r *rule)
	ticks   int
	used    []float64 // CPU seconds of all but batch work, by node, since the last round
	batch   []float64 // likewise of batch work
	cpus    []int     // that batch work may use, the last of each node
	written int
}

func (r *rule) begin(h *host, s *Scenario) {
	r.h, r.target = h, s.Target
	r.used = make([]float64, len(h.nodes))
	r.batch = make([]float64, len(h.nodes))
	r.cpus = make([]int, len(h.nodes))
	for i, n := range h.nodes {
		r.cpus[i] = n.cpus.Len()
	}
	r.apply()
}

func (r *rule) tick() {
	for i, n := range r.h.nodes {
		r.used[i] += n.online * tick.Seconds()
		r.batch[i] += n.batch * tick.Seconds()
	}
	r.own()
	r.ticks++
	if r.round != nil && r.ticks%r.every == 0 {
		seconds := float64(r.every) * tick.Seconds()
		for i := range r.used {
			r.used[i] /= seconds
			r.batch[i] /= seconds
		}
		r.round(r)
		clear(r.used)
		clear(r.batch)
	}
	r.apply()
}

// own gives dedicated work the first CPUs of its nodes that nobody has.
func (r *rule) own() {
	var taken topology.CPUSet
	for _, w := range r.h.active {
		if w.holds() {
			taken = taken.Union(w.cpus)
		}
	}
	for _, w := range r.h.active {
		if w.class != workload.Dedicated || w.holds() {
			continue
		}
		var set topology.CPUSet
		for i, n := range r.h.nodes {
			for cpu := range n.cpus.Minus(taken).All() {
				if w.on[i] > 0 && set.Len() < w.own {
					set.Add(cpu)
				}
			}
		}
		w.cpus, taken = set, taken.Union(set)
	}
}

// apply gives batch work its CPUs: the last of each node that no dedicated work holds.
func (r *rule) apply() {
	var set, taken topology.CPUSet
	for _, w := range r.h.active {
		if w.holds() {
			taken = taken.Union(w.cpus)
		}
	}
	for i, n := range r.h.nodes {
		k := r.cpus[i]
		for _, c := range backward(n.cores) {
			for cpu := range c.Minus(taken).All() {
				if k > 0 {
					set.Add(cpu)
					k--
				}
			}
		}
	}
	for _, w := range r.h.all {
		if w.class == workload.Batch && !set.Empty() && !w.cpus.Equal(set) {
			w.cpus = set
			r.written++
		}
	}
}

func backward(cores []topology.CPUSet) []topology.CPUSet {
	out := make([]topology.CPUSet, len(cores))
	for i := range cores {
		out[len(cores)-1-i] = cores[i]
	}
	return out
}

func (r *rule) counted() int { return r.written }

func (r *rule) given() []float64 {
	out := make([]float64, len(r.cpus))
	for i, n := range r.h.nodes {
		out[i] = min(float64(r.cpus[i]), r.h.quota*float64(n.cpus.Len())/float64(r.h.top.Online.Len()))
	}
	return out
}

func (r *rule) sums() (pool, used float64) {
	for i, n := range r.h.nodes {
		pool, used = pool+float64(n.pool), used+r.used[i]
	}
	return pool, used
}

// hand gives so many CPUs out, a core of each node in turn.
func (r *rule) hand(cpus int) {
	clear(r.cpus)
	for left := cpus; left > 0; {
		before := left
		for i, n := range r.h.nodes {
			if k := min(n.cores[0].Len(), left, n.pool-r.cpus[i]); k > 0 {
				r.cpus[i] += k
				left -= k
			}
		}
		if left == before {
			return
		}
	}
}

// Names of the policies, in the order of the table.
const (
	Homenode    = "homenode"
	Nothing     = "nothing"
	Halves      = "static halves"
	KoordCPUs   = "Koordinator, cpuset"
	KoordQuota  = "Koordinator, quota"
	PerfIso     = "PerfIso, an eighth idle"
	PerfIsoWide = "PerfIso, idle up to the target"
)

// Policies is all of them, in the order of the table.
var Policies = []string{Homenode, KoordCPUs, KoordQuota, PerfIso, PerfIsoWide, Halves, Nothing}

func newPolicy(name string) policy {
	switch name {
	case Nothing:
		return &rule{every: 1}
	case Halves:
		return &rule{every: 1, round: halves}
	case KoordCPUs: // every second, as its suppressor
		return &rule{every: 2, round: koordCPUs}
	case KoordQuota:
		return &rule{every: 2, round: koordQuota}
	case PerfIso: // it looks all the time: every tick
		return &rule{every: 1, round: func(r *rule) { perfIso(r, 1./8) }}
	case PerfIsoWide:
		return &rule{every: 1, round: func(r *rule) { perfIso(r, 1-r.target) }}
	}
	return &homenode{}
}

// koordCPUs is Koordinator's CPU suppress with the cpuset policy: capacity × target − use of all
// else, in whole CPUs, at least 2, growing by a tenth of all CPUs at most, hyper-threads of one
// core first, nodes in turn.
func koordCPUs(r *rule) {
	pool, used := r.sums()
	now := 0
	for _, k := range r.cpus {
		now += k
	}
	want := max(2, int(math.Ceil(pool*r.target-used)))
	r.hand(min(want, now+int(math.Ceil(pool/10))))
}

// koordQuota is the same with the cfsQuota policy: a quota, at least 2 ms in 100, not changed by
// less than a hundredth of the capacity, growing by a tenth of it at most.
func koordQuota(r *rule) {
	pool, used := r.sums()
	want := max(0.02, pool*r.target-used)
	now := r.h.quota
	switch {
	case math.IsInf(now, 1):
	case math.Abs(want-now) < pool/100:
		return
	default:
		want = min(want, now+pool/10)
	}
	r.h.quota = want
	r.written++
}

// perfIso is blind isolation: a number of CPUs of each node is idle at all times; fewer, and
// batch work loses as many as are missing; more, and it has as many more.
func perfIso(r *rule, part float64) {
	for i, n := range r.h.nodes {
		buffer := int(math.Ceil(part * float64(n.pool)))
		idle := int(math.Floor(float64(n.pool) - n.online - n.batch))
		r.cpus[i] = min(max(1, min(r.cpus[i], n.pool)+idle-buffer), n.pool)
	}
}

// halves gives each half of the cores of every node.
func halves(r *rule) {
	if r.h.keeps != nil {
		return
	}
	for i, n := range r.h.nodes {
		var mine topology.CPUSet
		for _, c := range n.cores[:(len(n.cores)+1)/2] {
			mine = mine.Union(c)
		}
		r.h.keeps = append(r.h.keeps, mine)
		r.cpus[i] = n.cpus.Len() - mine.Len()
	}
}
