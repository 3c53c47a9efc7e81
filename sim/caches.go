package sim

import (
	"math/rand/v2"

	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/core/workload"
)

// Last-level caches, where jobs exchange cache lines (Demand.Exchange) on nodes that several caches divide. What a job
// gains by few caches is that its threads are in one; what it loses is CPU time, in moments in which more threads want
// to run there than the caches have CPUs. Neither is computed by a formula of the engine: threads are put into caches
// one by one, and moments are drawn.

const (
	// lineNs is what a line costs more from another cache than from the own one, where that is not measured: 110 ns
	// and 25 ns on EPYC (AMD Zen 2 to 4, published core-to-core latencies).
	lineNs = 85

	// moments is how many moments of a period are drawn.
	moments = 32
)

// llc is a last-level cache, or the part of one that lies on one node.
type llc struct {
	node   int
	cpus   topology.CPUSet // that are online
	put    float64         // busy threads of all jobs
	wants  int             // threads that want to run in a moment
	common int             // CPUs that no job has to itself
}

// findCaches finds the caches of nodes that several of them divide, if any job exchanges lines.
func (m *machine) findCaches(events []Event, seed uint64) {
	exchanges := false
	for i := range events {
		exchanges = exchanges || events[i].Demand.Exchange > 0
	}
	if !exchanges {
		return
	}
	m.line = lineNs
	if x := m.host.Measured; x != nil && x.LineOtherNs > x.LineOwnNs {
		m.line = x.LineOtherNs - x.LineOwnNs
	}
	for i := range m.host.Nodes {
		node := &m.host.Nodes[i]
		divided := m.host.CachesOn(topology.Nodes(node.ID))
		for k := range m.host.LLCs {
			l := &m.host.LLCs[k]
			if divided.Has(l.ID) {
				m.caches = append(m.caches, llc{node: i, cpus: l.CPUs.Intersect(node.CPUs).Intersect(m.host.Online)})
			}
		}
	}
	m.moments = rand.New(rand.NewPCG(seed, 0x63616368)) // of their own: what else is drawn stays as it is
}

// settleCaches puts the threads of all jobs into caches: each into the one with the fewest busy threads for its CPUs
// that the job may use, as the kernel does without cache-aware scheduling. It counts how many pairs of threads of a
// job are in different caches.
func (m *machine) settleCaches() {
	for c := range m.caches {
		m.caches[c].put = 0
	}
	for _, j := range m.jobs {
		j.at = make([]int32, len(m.caches))
		for i, k := range j.threads {
			for range k {
				best := m.emptiest(j, i)
				if best < 0 { // no cache divides the node
					continue
				}
				j.at[best]++
				m.caches[best].put += j.demand.Busy
			}
		}
		j.crossed = crossed(j.at)
	}
}

// emptiest returns the cache of node i with the least pressure that a job may use; -1 for none.
func (m *machine) emptiest(j *job, i int) int {
	best, least := -1, 0.0
	for c := range m.caches {
		x := &m.caches[c]
		cpus := x.cpus.Overlap(j.cpus)
		if x.node != i || cpus == 0 || (j.exclusive && int(j.at[c]) >= cpus) {
			continue
		}
		pressure := x.put / float64(x.cpus.Len())
		if best < 0 || pressure < least {
			best, least = c, pressure
		}
	}
	return best
}

// crossed is the share of pairs of threads that are in different caches.
func crossed(at []int32) float64 {
	all, same := 0.0, 0.0
	for _, n := range at {
		all += float64(n)
		same += float64(n) * float64(n-1)
	}
	if all < 2 {
		return 0
	}
	return 1 - same/(all*(all-1))
}

// crowd draws moments, and takes from the CPU time of jobs what their threads wait in them. A thread that finds its
// cache full runs in another one that its job may use, where that has an idle CPU.
func (m *machine) crowd() {
	for c := range m.caches {
		x := &m.caches[c]
		free := x.cpus
		for _, j := range m.jobs {
			if j.exclusive {
				free = free.Minus(j.cpus)
			}
		}
		x.common = free.Len()
	}
	wanted, waited := make([]int, len(m.jobs)), make([]int, len(m.jobs))
	for range moments {
		m.moment(wanted, waited)
	}
	for k, j := range m.jobs {
		if wanted[k] > 0 {
			j.served *= 1 - float64(waited[k])/float64(wanted[k])
		}
	}
}

// moment draws which threads want to run, and adds them, and those that find no CPU, by job. The first of the jobs
// changes from moment to moment: none is served first.
func (m *machine) moment(wanted, waited []int) {
	for c := range m.caches {
		m.caches[c].wants = 0
	}
	for _, k := range m.moments.Perm(len(m.jobs)) {
		j := m.jobs[k]
		if j.exclusive || j.demand.Class == workload.Batch {
			continue
		}
		together := m.moments.Float64() < j.demand.Busy
		for c, n := range j.at {
			for range n {
				runs := together
				if !j.demand.Bursts {
					runs = m.moments.Float64() < j.demand.Busy
				}
				if !runs {
					continue
				}
				wanted[k]++
				if !m.takes(j, c) {
					waited[k]++
				}
			}
		}
	}
}

// takes gives a thread an idle CPU in a cache, else in another one of the node that its job may use; false where none
// has one.
func (m *machine) takes(j *job, in int) bool {
	if x := &m.caches[in]; x.wants < x.common {
		x.wants++
		return true
	}
	for c := range m.caches {
		x := &m.caches[c]
		if x.node == m.caches[in].node && x.wants < x.common && x.cpus.Intersects(j.cpus) {
			x.wants++
			return true
		}
	}
	return false
}

// lines is what the lines of other caches cost a job more, ns an access.
func (m *machine) lines(j *job) float64 { return j.demand.Exchange * j.crossed * m.line }
