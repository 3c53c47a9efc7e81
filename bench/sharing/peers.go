package sharing

import (
	"math"
	"time"

	"github.com/homenode/homenode/core/topology"
)

// partitioned gives batch work whole cores that online work does not use, as Heracles and PARTIES do with cpusets.
type partitioned struct {
	rule
	cores int // of the host, that batch work has
	most  int // cores of the host
	width int
}

func (r *partitioned) begin(h *host, s *Scenario) {
	r.rule.begin(h, s)
	r.width = h.nodes[0].cores[0].Len()
	for _, n := range h.nodes {
		r.most += len(n.cores)
	}
	r.cores = len(h.nodes)
	r.part()
}

// part hands the cores out, and keeps the others for online work: one of each node at least.
func (r *partitioned) part() {
	h := r.h
	r.cores = max(0, min(r.cores, r.most-len(h.nodes)))
	r.hand(r.cores * r.width)
	h.keeps = make([]topology.CPUSet, len(h.nodes))
	for i, n := range h.nodes {
		r.cpus[i] = min(r.cpus[i], n.pool-r.width)
		left := max(0, r.cpus[i])
		taken := r.taken()
		for _, c := range backward(n.cores) {
			if free := c.Minus(taken); left >= free.Len() && !free.Empty() && left > 0 {
				left -= free.Len()
				continue
			}
			h.keeps[i] = h.keeps[i].Union(c)
		}
	}
	r.apply()
}

// taken is the CPUs that dedicated work has.
func (r *partitioned) taken() (taken topology.CPUSet) {
	for _, w := range r.h.active {
		if w.holds() {
			taken = taken.Union(w.cpus)
		}
	}
	return taken
}

// slack is that of the worst service, by readings over the time since the last ones.
func (r *partitioned) slack(every time.Duration) float64 {
	least := 1.0
	for _, s := range r.h.goals {
		least = min(least, 1-r.h.read(s, every)/s.most)
	}
	return least
}

// heracles is the controllers of Heracles (Lo and others, ISCA 2015, algorithms 1 to 3): the top one every 15 s,
// that of cores and memory every 2 s. Network and power are not modelled.
type heracles struct {
	partitioned
	cooldown time.Duration // batch work is off until then
	grows    bool
	growLLC  bool
	slackNow float64
	was      float64 // memory bandwidth
}

func (r *heracles) begin(h *host, s *Scenario) {
	r.partitioned.begin(h, s)
	r.slackNow = 1
	h.batchHas.ways = 0.1
}

// load is the part of its peak that online work wants; the peak is all CPUs.
func (r *heracles) load() float64 {
	want, pool := 0.0, 0.0
	for _, n := range r.h.nodes {
		want, pool = want+n.want, pool+float64(n.pool)
	}
	return want / max(pool, 1)
}

func (r *heracles) tick() {
	h := r.h
	r.own()
	if h.now%(15*time.Second) == 0 {
		r.top()
	}
	if h.now%(2*time.Second) == 0 && r.cores > 0 {
		r.sub()
	}
	r.part()
}

// top is algorithm 1.
func (r *heracles) top() {
	r.slackNow = r.slack(15 * time.Second)
	load := r.load()
	switch {
	case r.slackNow < 0: // disabled, and five minutes of rest
		r.cores, r.grows = 0, false
		r.cooldown = r.h.now + 5*time.Minute
		return
	case load > 0.85:
		r.cores, r.grows = 0, false
		return
	case load < 0.80 && r.h.now >= r.cooldown && r.cores == 0:
		r.cores = len(r.h.nodes)
		r.h.batchHas.ways = 0.1
	}
	r.grows = r.h.now >= r.cooldown
	if r.slackNow < 0.10 {
		r.grows = false
		if r.slackNow < 0.05 {
			r.cores = min(r.cores, 2)
		}
	}
}

// sub is algorithm 2: cores and ways by turns, while memory bandwidth is below its limit.
func (r *heracles) sub() {
	use := r.bandwidth()
	rise := use - r.was
	r.was = use
	if use > 0.9 {
		r.cores = max(1, r.cores-int(math.Ceil((use-0.9)*float64(r.cores))))
		return
	}
	if !r.grows {
		return
	}
	if r.growLLC {
		if use+max(0, rise) < 0.9 && r.h.batchHas.ways < 0.7 {
			r.h.batchHas.ways += 0.1
		}
		r.growLLC = false
		return
	}
	if r.slackNow > 0.10 && use+max(0, rise) < 0.9 {
		r.cores++
	}
	r.growLLC = r.h.batchHas.ways < 0.7
}

// bandwidth is the use of the memory of the busiest node.
func (r *heracles) bandwidth() (most float64) {
	for _, n := range r.h.nodes {
		k := float64(max(1, n.pool))
		most = max(most, onlineNeed*n.want/k+r.h.harm.bandwidth*r.h.batchHas.bandwidth*n.batch/k)
	}
	return most
}

// parties is the controller of PARTIES (Chen, Delimitrou and Martínez, ASPLOS 2019, section 4): every 500 ms.
// Slack below 0.05 of one service takes a unit of a resource from batch work at once; slack above 0.20 of all
// services gives it one. If a change does not help, the next resource follows. A unit whose gift led to a
// violation is removed. Here online work is one partition of each node, because its services share their CPUs.
type parties struct {
	partitioned
	resource int // 0 cores, 1 ways, 2 bandwidth
	before   float64
	gave     bool
	rest     time.Duration
}

func (r *parties) tick() {
	h := r.h
	r.own()
	slack := r.slack(tick)
	switch {
	case slack < 0.05:
		if r.gave { // what was given is taken back
			r.change(-1)
			r.gave, r.rest = false, h.now+30*time.Second
			break
		}
		if slack <= r.before+0.01 { // it did not help
			r.resource = (r.resource + 1) % 3
		}
		r.change(-1)
		r.before = slack
	case slack > 0.20 && h.now >= r.rest:
		r.before = -1
		r.resource = (r.resource + 1) % 3
		r.change(1)
		r.gave = true
	default:
		r.before, r.gave = -1, false
	}
	r.part()
}

// change gives or takes a unit: a core, a tenth of the ways, a tenth of the bandwidth; where one is used up, cores.
func (r *parties) change(by int) {
	b := &r.h.batchHas
	x := &b.ways
	if r.resource == 2 {
		x = &b.bandwidth
	}
	at := *x + float64(by)/10
	if r.resource == 0 || at > 1.001 || at < 0.099 {
		r.cores += by
		return
	}
	*x = at
}
