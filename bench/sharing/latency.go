package sharing

import (
	"math"

	"github.com/homenode/homenode/core/workload"
)

// The latency model, of one node of k CPUs in C cores of w siblings, in one tick. Times are in units of
// the service time of a request on an idle host, S0.
//
//	queue     a node is M/G/k: a request waits for one of the k CPUs. The probability that all are busy
//	          and the mean wait follow Sakasegawa ("An approximation formula Lq ≅ αρ^β/(1-ρ)", 1977):
//	          P = ρ^(√(2(k+1))-1), W = S·P·(1+cv²)/2 / (k(1-ρ)).
//	batch     work has idle priority: requests queue behind requests alone (ρ is online work and the system). But
//	          where no CPU is idle, a request takes one from batch work: that costs takeover (a switch, a cold cache).
//	siblings  online work takes idle cores first, one thread a core. Threads beyond C - b/w double up, with each other
//	          or with batch work, and are smt slower.
//	cache     the part b/k of the CPUs that batch work keeps busy evicts lines of online work: S grows by cache·b/k, less
//	          where batch work has a part of the ways.
//	bandwidth memory serves the traffic of both: S grows with the fourth power of its use.
//
// A p99 is tail·S + 4.6·W/P·P: requests that wait have an exponential wait.
const (
	serviceCV  = 1.5  // of the service time
	tail       = 2.5  // p99 of the service time
	smtCost    = 0.35 // two busy siblings do 1.3 to 1.5 times the work of one
	takeover   = 0.8  // S0
	onlineNeed = 0.35 // of the memory bandwidth, when online work keeps all CPUs busy
)

// harm is the effect of batch work on a scenario's services besides keeping CPUs busy.
type harm struct {
	cache     float64 // growth of S when batch work has all CPUs and all ways
	bandwidth float64 // part of the memory bandwidth that batch work uses when it has all CPUs
}

// shareOf is the part of caches and memory bandwidth that batch work has, 0 to 1.
type shareOf struct{ ways, bandwidth float64 }

// latency returns the p99 of requests on a node, in S0, while online work wants want CPUs and batch work keeps
// batch CPUs busy. own is the number of CPUs that online work may use; only batch work uses the others.
func (h *host) latency(n *node, want, batch float64, own int) float64 {
	k := float64(n.pool)
	if k == 0 {
		return tail
	}
	width := float64(n.cores[0].Len())
	servers := float64(own)
	taking := batch // batch work on CPUs that online work may use
	if own < n.pool {
		taking = 0
	}
	s := 1 + h.harm.cache*batch/k*(0.3+0.7*h.batchHas.ways)
	use := onlineNeed*min(want, servers)/k + h.harm.bandwidth*h.batchHas.bandwidth*batch/k
	s *= 1 + 0.6*math.Pow(min(use, 1.2), 4)
	if width > 1 {
		free := servers/width - taking/width
		if doubled := max(0, min(want, servers)-free); want > 0 {
			s *= 1 + smtCost*min(1, 2*doubled/want)
		}
	}
	rho := want / servers
	if rho >= 0.995 {
		return tail*s + 50*rho // a queue that grows
	}
	power := math.Sqrt(2*(servers+1)) - 1
	p := math.Pow(rho, power)
	wait := s * (1 + serviceCV*serviceCV) / 2 / (servers * (1 - rho))
	full := math.Pow(min(1, (want+taking)/servers), power)
	return tail*s + 4.6*wait*min(1, 10*p) + takeover*full
}

// owns is the CPUs of a node that online work may use.
func (h *host) owns(i int) int {
	if h.keeps == nil {
		return h.nodes[i].pool
	}
	return min(h.nodes[i].pool, h.keeps[i].Len())
}

// service is a workload with a goal.
type service struct {
	w    *work
	most float64 // S0
	now  float64 // p99 in this tick, S0
	seen float64 // the most since a policy read it
}

// p99 is the latency of a service in this tick: the mean of its nodes by where it runs.
func (h *host) p99(w *work) (sum float64) {
	for i, part := range w.where(h) {
		if part > 0 {
			sum += part * h.latency(h.nodes[i], h.nodes[i].want, h.nodes[i].batch, h.owns(i))
		}
	}
	return sum
}

// aloneP99 returns the p99 without batch work, on all CPUs.
func (h *host) aloneP99(w *work) (sum float64) {
	for i, part := range w.where(h) {
		if part > 0 {
			sum += part * h.latency(h.nodes[i], h.nodes[i].want, 0, h.nodes[i].pool)
		}
	}
	return sum
}

// services are the online workloads that have goals: the first of each node, at most eight, and those that run
// on all.
func (h *host) services() (out []*work) {
	seen := map[int]bool{}
	for _, w := range h.all {
		if w.class != workload.Shared || len(out) == 8 {
			continue
		}
		first := false
		for i, part := range w.on {
			if part > 0 && !seen[i] {
				seen[i], first = true, true
			}
		}
		if first {
			out = append(out, w)
		}
	}
	return out
}
