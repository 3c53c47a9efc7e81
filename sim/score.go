package sim

import (
	"maps"
	"math"
	"slices"
	"time"

	"github.com/homenode/homenode/core/workload"
)

// Score is how one policy did. Means are over simulated time.
type Score struct {
	Policy string `json:"policy"` // name of the policy

	AccessNs float64 `json:"access_ns"` // mean cost of a memory access, ns
	FeltNs   float64 `json:"felt_ns"`   // mean cost of an access with the wait for a CPU, ns
	// time that work takes beside the others divided by the time alone, by simulated queues; absent without them
	Stretch   float64 `json:"stretch,omitempty"`
	Access    float64 `json:"access"`             // mean cost of a memory access, where an idle local one costs 1
	LinesNs   float64 `json:"lines_ns,omitempty"` // mean cost of lines of other caches, ns an access
	Local     float64 `json:"local_share"`        // share of accesses that are local, 0 to 1
	Utility   float64 `json:"utility"`            // utility of all vCPUs, percent; see docs/design/simulator.md
	CPUServed float64 `json:"cpu_served"`         // share of the CPU time that online work wanted and got, 0 to 1
	Imbalance float64 `json:"imbalance"`          // standard deviation of CPU use over the nodes, 0 to 1

	Arrivals int `json:"arrivals"` // workloads that arrived
	Refused  int `json:"refused"`  // workloads that were refused a home
	// times that the daemon found no home for a running workload
	Unplaced    int   `json:"unplaced"`
	Steps       int   `json:"steps"`        // settings that were changed
	FailedSteps int   `json:"failed_steps"` // steps that the simulated host refused
	Moves       int   `json:"moves"`        // page moves that began
	MovedBytes  int64 `json:"moved_bytes"`  // bytes of pages that moved
	Rehomed     int   `json:"rehomed"`      // changes of home of workloads that had one
	// changes of home back to where a workload had left within 15 minutes
	Returned int `json:"returned"`
	// slowdown of important work by access cost and CPU wait, where an idle host has 1
	Important  float64 `json:"important_slowdown,omitempty"`
	MostLive   int     `json:"most_live"`  // most workloads at once
	MeanLive   float64 `json:"mean_live"`  // workloads at once, on average over time
	Seconds    float64 `json:"seconds"`    // simulated time, s
	Ticks      int     `json:"ticks"`      // decisions that were made
	Violations int     `json:"violations"` // rules that must hold and did not

	Failure *Failure `json:"failure,omitempty"` // the first failure; absent without one
}

// sums is what means are made of.
type sums struct {
	traffic, local, ns   float64 // MiB, MiB, MiB × ns
	useful, offered      float64 // vCPU seconds
	felt, asked          float64 // MiB × ns, MiB
	wanted, served       float64 // CPU seconds
	imbalance, live, all float64 // × seconds
	slowdown, important  float64 // × seconds
	took, ideal          float64 // seconds of queue.go
	lines, lined         float64 // vCPU seconds × ns, vCPU seconds
}

// leastUtility is what a vCPU is worth however slow its memory, as in the shared
// cases' score.
const leastUtility = 0.05

// felt is what an access costs that a job wants, ns: the access itself, as many
// times longer as the job waits for a CPU. Nothing costs more than what is refused.
func (m *machine) felt(j *job) float64 {
	return min(m.accessNs(j)/max(j.served, leastUtility), m.model.local/leastUtility)
}

// measure brings the machine up to date for a period and adds it to the score.
// offered is the vCPUs that want to run, those refused included.
func (r *run) measure(period time.Duration, offered int) {
	m, dt := r.m, period.Seconds()
	m.drift()
	m.settleMemory()
	served := m.serve()
	if len(m.caches) > 0 {
		m.settleCaches()
		m.crowd()
	}
	m.flow(served)
	m.model.load(m.moving)
	r.judge()
	clear(m.moving)
	s := &r.sums
	n := m.model.n
	for i := range n {
		for k := range n {
			t := m.model.traffic[i*n+k] * dt
			s.traffic += t
			s.ns += t * m.model.cost[i*n+k]
			if i == k {
				s.local += t
			}
		}
	}
	for _, j := range m.jobs {
		if j.demand.Importance > workload.DefaultImportance && j.demand.Class != workload.Batch && j.served > 0 {
			s.slowdown += m.accessNs(j) / m.model.local / j.served * dt
			s.important += dt
		}
		want := j.demand.Busy * float64(j.demand.VCPUs) * dt
		j.ran += time.Duration(want * j.served * float64(time.Second))
		if j.demand.Class != workload.Batch {
			t := float64(j.demand.Bandwidth) * j.demand.Busy * dt
			s.asked += t
			s.felt += t * m.felt(j)
			s.lines += want * m.lines(j)
			s.lined += want
			s.wanted += want
			s.served += want * j.served
			s.useful += float64(j.demand.VCPUs) * dt * j.served * max(leastUtility, 2-m.accessNs(j)/m.model.local)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(r.refused)) { // one order: sums of floats differ by it
		if d := r.refused[name]; d.Class != workload.Batch {
			t := float64(d.Bandwidth) * d.Busy * dt
			s.asked += t
			s.felt += t * m.model.local / leastUtility
		}
	}
	s.offered += float64(offered) * dt
	s.imbalance += m.imbalance() * dt
	s.live += float64(len(m.jobs)) * dt
	s.all += dt
	r.score.MostLive = max(r.score.MostLive, len(m.jobs))
}

// judge lets the queues of queue.go run for an instant, as often in a run as was asked for.
func (r *run) judge() {
	of := r.o.Judge
	if of == 0 || r.m.now < r.o.Trace.Until*time.Duration(r.judged+1)/time.Duration(of) || r.judged == of {
		return
	}
	r.judged++
	took, ideal := r.m.stretch(r.o.Seed)
	r.sums.took += took
	r.sums.ideal += ideal
	for _, name := range slices.Sorted(maps.Keys(r.refused)) {
		if d := r.refused[name]; d.Class != workload.Batch {
			wants := d.Busy * float64(d.VCPUs) * judged
			r.sums.took += wants * refusedStretch
			r.sums.ideal += wants
		}
	}
}

// settleMemory tries again for jobs that are short of memory, and recounts what
// runs where.
func (m *machine) settleMemory() {
	clear(m.busy)
	for _, j := range m.jobs {
		if j.short > 0 {
			more := j.short
			j.short = 0
			m.grow(j, more)
		}
		for i, k := range j.threads {
			m.busy[i] += float64(k) * j.demand.Busy
		}
	}
}

// rates is the part of the CPU time they want that threads get on each node, if they have no
// CPUs of their own; those that have get all.
type rates struct {
	common []float64
	idle   []float64 // of jobs with cpu.idle
}

// of returns those of a job.
func (r *rates) of(j *job) []float64 {
	if j.idle() {
		return r.idle
	}
	return r.common
}

// serve shares out the CPU time of each node. Jobs with cpu.idle get what the others leave, on the
// CPUs that they may use.
func (m *machine) serve() *rates {
	n := len(m.busy)
	r := &rates{make([]float64, n), make([]float64, n)}
	have, haveIdle := make([]int32, n), make([]int32, n)
	for _, j := range m.jobs {
		if j.exclusive {
			continue
		}
		want, have := r.common, have
		if j.idle() {
			want, have = r.idle, haveIdle
		}
		for i, k := range j.threads {
			if k > 0 {
				want[i] += float64(k) * j.demand.Busy
				have[i] = max(have[i], min(j.may[i], m.cpus[i]-m.owned[i]))
			}
		}
	}
	for i := range n {
		used := min(r.common[i], float64(max(1, have[i])))
		if r.common[i] > 0 {
			r.common[i] = used / r.common[i]
		}
		if r.idle[i] > 0 {
			left := float64(max(1, have[i], haveIdle[i])) - used
			r.idle[i] = min(1, max(0, min(left, float64(haveIdle[i])))/r.idle[i])
		}
	}
	for _, j := range m.jobs {
		j.served, j.got = 1, nil
		if !j.exclusive {
			j.served = 0
			rate := r.of(j)
			if j.idle() {
				j.got = make([]float64, n)
			}
			for i, k := range j.threads {
				got := float64(k) / float64(j.demand.VCPUs) * rate[i]
				j.served += got
				if j.got != nil {
					j.got[i] = got
				}
			}
		}
		if wants := j.demand.Busy * float64(j.demand.VCPUs); wants > 0 {
			j.served = min(j.served, j.limit()/wants)
		}
	}
	return r
}

// flow is the memory traffic between nodes: threads touch all of their job's
// memory alike.
func (m *machine) flow(served *rates) {
	n := m.model.n
	clear(m.model.traffic)
	for _, j := range m.jobs {
		total := float64(j.resident())
		if total == 0 {
			continue
		}
		rate := float64(j.demand.Bandwidth) * j.demand.Busy / float64(j.demand.VCPUs) / total
		for i, k := range j.threads {
			if k == 0 {
				continue
			}
			t := rate * float64(k)
			if !j.exclusive {
				t *= served.of(j)[i]
			}
			row := m.model.traffic[i*n : (i+1)*n]
			for to, kib := range j.mem {
				row[to] += t * float64(kib)
			}
		}
	}
}

// accessNs is what an access costs a job on average now.
func (m *machine) accessNs(j *job) float64 {
	total := float64(j.resident())
	if total == 0 {
		return m.model.local
	}
	n, sum := m.model.n, 0.0
	for i, k := range j.threads {
		if k == 0 {
			continue
		}
		row := m.model.cost[i*n : (i+1)*n]
		part := 0.0
		for to, kib := range j.mem {
			if kib > 0 {
				part += float64(kib) * row[to]
			}
		}
		sum += float64(k) * part
	}
	return sum/total/float64(j.demand.VCPUs) + m.lines(j)
}

// imbalance is the standard deviation over nodes of how busy their CPUs are.
func (m *machine) imbalance() float64 {
	n := 0.0
	sum := 0.0
	square := 0.0
	for i, cpus := range m.cpus {
		if cpus > 0 {
			x := min(1, m.busy[i]/float64(cpus))
			n++
			sum += x
			square += x * x
		}
	}
	return math.Sqrt(max(0, square/n-sum/n*sum/n))
}

// finish turns sums into means.
func (r *run) finish() {
	s, out := &r.sums, r.score
	per := func(x, y float64) float64 {
		if y == 0 {
			return 0
		}
		return math.Round(x/y*1e6) / 1e6
	}
	out.AccessNs = per(s.ns, s.traffic)
	out.FeltNs = per(s.felt, s.asked)
	out.Stretch = per(s.took, s.ideal)
	out.LinesNs = per(s.lines, s.lined)
	out.Access = per(s.ns/r.m.model.local, s.traffic)
	out.Local = per(s.local, s.traffic)
	out.Utility = per(100*s.useful, s.offered)
	out.CPUServed = per(s.served, s.wanted)
	out.Imbalance = per(s.imbalance, s.all)
	out.Important = per(s.slowdown, s.important)
	out.MeanLive = per(s.live, s.all)
	out.Seconds = r.m.now.Seconds()
}
