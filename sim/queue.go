package sim

import (
	"cmp"
	"container/heap"
	"math"
	"math/rand/v2"

	"github.com/homenode/homenode/core/workload"
)

// A second way to judge, with another mechanism than the formula that this package and
// core/balance score by: a closed network of queues, simulated event by event for a few
// milliseconds of the machine as it stands. Threads wait for a CPU of their node, work,
// wait for the memory of a node to answer them one after the other, and sleep. No queueing
// formula is in it: waits come out of who stands in line. It knows SMT siblings, which
// the formula of this package does not.

const (
	// quantum is the work between two looks of the scheduler, s, alone on an idle host
	// with near memory: base_slice_ns of EEVDF is 0.7 to 2.8 ms; less makes more
	// events and the same figure.
	quantum = 0.5e-3

	// judged is how long one instant is simulated for, s, after the first fifth, in
	// which queues fill.
	judged = 25e-3

	// burst is how much a thread that is not always busy works at once, s.
	burst = 4 * quantum

	// outstanding is how many cache lines a thread waits for at once: a core has 10 to
	// 16 line fill buffers, programs seldom fill them.
	outstanding = 6

	// mostStalled bounds the part of its time that a thread stalls for near memory:
	// what streams more than that has its lines prefetched.
	mostStalled = 0.9

	// sibling is what a second thread on a core adds to the work of the first: between
	// 1.2 and 1.3 times one thread's for both, on most loads (Intel's own figure for
	// Hyper-Threading is up to 30 %).
	sibling = 0.25

	// refusedStretch is how much longer work takes that is turned away: as in FeltNs.
	refusedStretch = 1 / leastUtility
)

// thread is one thread of a job, on one node.
type thread struct {
	job     int
	node    int
	stalled float64 // part of a quantum that it waits for near memory
	mib     float64 // it moves in a quantum
	ready   float64 // since when it waits for a CPU
	left    float64 // s of work until it sleeps
}

// event is when a thread is done with a quantum, or awake.
type event struct {
	at     float64
	thread int
	awake  bool
}

type events []event

func (e events) Len() int           { return len(e) }
func (e events) Less(i, j int) bool { return e[i].at < e[j].at }
func (e events) Swap(i, j int)      { e[i], e[j] = e[j], e[i] }
func (e *events) Push(x any)        { *e = append(*e, x.(event)) }
func (e *events) Pop() any {
	last := len(*e) - 1
	x := (*e)[last]
	*e = (*e)[:last]
	return x
}

// queues is the machine as it stands, for as long as one instant is judged.
type queues struct {
	m       *machine
	random  *rand.Rand
	now     float64
	next    events
	threads []thread
	waiting [][]int // by node: threads that want a CPU, the longest waiting first; batch ones after the others
	idle    [][]int
	shared  []int     // by node: CPUs that nobody has to himself and nobody uses
	running []int     // by node: threads on a CPU
	cores   []int     // by node
	alone   []int     // by job: CPUs of its own that it does not use; -1 when it shares
	memory  []float64 // by node: until when it is busy with what was asked of it
	link    []float64 // by pair of nodes, the same

	took, ideal float64 // s, of online work
}

// stretch is how many times longer the quanta of online work took than they do alone on
// an idle host with near memory: the sum of both.
func (m *machine) stretch(seed uint64) (took, ideal float64) {
	n := m.model.n
	q := &queues{m: m, random: rand.New(rand.NewPCG(seed, uint64(m.now))), waiting: make([][]int, n),
		idle:   make([][]int, n),
		shared: make([]int, n), running: make([]int, n), cores: make([]int, n), memory: make([]float64, n),
		link: make([]float64, n*n)}
	for i := range n {
		q.shared[i] = max(1, int(m.cpus[i]-m.owned[i]))
		for _, c := range m.host.Cores {
			if c.CPUs.Intersects(m.host.Nodes[i].CPUs) {
				q.cores[i]++
			}
		}
		q.cores[i] = cmp.Or(q.cores[i], int(m.cpus[i]))
	}
	for k, j := range m.jobs {
		own := -1
		if j.exclusive {
			own = max(1, j.cpus.Len())
		}
		q.alone = append(q.alone, own)
		for i, count := range j.threads {
			for range count {
				q.start(k, i, j)
			}
		}
	}
	q.all(judged)
	return q.took, q.ideal
}

// start puts a thread to sleep for a time drawn so that not all begin together.
func (q *queues) start(k, node int, j *job) {
	if j.demand.Busy <= 0 {
		return
	}
	rate := float64(j.demand.Bandwidth) / float64(j.demand.VCPUs) // MiB/s
	t := thread{job: k, node: node, mib: rate * quantum,
		stalled: min(mostStalled, rate*(1<<20)/64*q.m.model.local*1e-9/outstanding)}
	q.threads = append(q.threads, t)
	begin := q.random.Float64() * min(quantum, 0.1*judged)
	if q.random.Float64() >= j.demand.Busy {
		begin = q.random.ExpFloat64() * q.rest(j)
	}
	q.add(event{at: begin, thread: len(q.threads) - 1, awake: true})
}

// rest is the mean of what a job's threads sleep between bursts.
func (q *queues) rest(j *job) float64 { return burst * max(0, 1/j.demand.Busy-1) }

func (q *queues) add(e event) { heap.Push(&q.next, e) }

func (q *queues) all(until float64) {
	var moved float64 // until when page moves have been put in line
	for len(q.next) > 0 && q.next[0].at < until {
		e := heap.Pop(&q.next).(event)
		q.now = e.at
		for ; moved <= q.now; moved += quantum { // they take their turn like everybody
			for i, rate := range q.m.moving {
				q.memory[i] = max(q.memory[i], moved) + rate*quantum/q.m.model.node[i]
			}
		}
		t := &q.threads[e.thread]
		j := q.m.jobs[t.job]
		if e.awake {
			t.left = burst
			q.wait(e.thread)
		} else {
			q.leave(t)
			if j.demand.Class != workload.Batch && t.ready > until/5 {
				q.took += q.now - t.ready
				q.ideal += quantum
			}
			if t.left -= quantum; t.left > quantum/2 || j.demand.Busy >= 1 {
				q.wait(e.thread)
			} else {
				q.add(event{at: q.now + q.random.ExpFloat64()*q.rest(j), thread: e.thread, awake: true})
			}
		}
		q.dispatch(t.node)
	}
	// Who still waits at the end has waited.
	for i := range q.waiting {
		for _, k := range q.waiting[i] {
			if t := &q.threads[k]; t.ready > until/5 {
				q.took += until - t.ready
			}
		}
	}
}

// wait puts a thread in line for a CPU of its node.
func (q *queues) wait(k int) {
	t := &q.threads[k]
	t.ready = q.now
	if q.m.jobs[t.job].demand.Class == workload.Batch {
		q.idle[t.node] = append(q.idle[t.node], k)
	} else {
		q.waiting[t.node] = append(q.waiting[t.node], k)
	}
}

func (q *queues) leave(t *thread) {
	q.running[t.node]--
	if q.alone[t.job] >= 0 {
		q.alone[t.job]++
	} else {
		q.shared[t.node]++
	}
}

// dispatch gives the free CPUs of a node to those that wait.
func (q *queues) dispatch(node int) {
	for _, line := range []*[]int{&q.waiting[node], &q.idle[node]} {
		rest := (*line)[:0]
		for _, k := range *line {
			t := &q.threads[k]
			switch own := &q.alone[t.job]; {
			case *own > 0:
				*own--
			case *own < 0 && q.shared[node] > 0:
				q.shared[node]--
			default:
				rest = append(rest, k)
				continue
			}
			q.running[node]++
			q.add(event{at: q.work(t), thread: k})
		}
		*line = rest
	}
}

// work is when a thread that has a CPU now will be done with a quantum: first it
// computes, as fast as its sibling lets it, then its memory answers.
func (q *queues) work(t *thread) float64 {
	speed := 1.0
	if busy, cores := float64(q.running[t.node]), float64(q.cores[t.node]); busy > cores {
		speed = (cores + sibling*min(cores, busy-cores)) / min(busy, 2*cores)
	}
	at := q.now + quantum*(1-t.stalled)/speed
	to := q.memoryOf(q.m.jobs[t.job])
	if t.mib == 0 || to < 0 {
		return at + quantum*t.stalled
	}
	m := q.m.model
	pair := t.node*m.n + to
	answer := at + quantum*t.stalled*m.idle[pair]/m.local
	q.memory[to] = max(q.memory[to], at) + t.mib/m.node[to]
	answer = math.Max(answer, q.memory[to])
	if to != t.node {
		q.link[pair] = max(q.link[pair], at) + t.mib/m.link[pair]
		answer = math.Max(answer, q.link[pair])
	}
	return answer
}

// memoryOf is the node that a quantum's accesses go to, drawn by where the memory lies.
func (q *queues) memoryOf(j *job) int {
	total := j.resident()
	if total <= 0 {
		return -1
	}
	left := q.random.Float64() * float64(total)
	last := -1
	for i, kib := range j.mem {
		if kib > 0 {
			last = i
			if left -= float64(kib); left < 0 {
				return i
			}
		}
	}
	return last
}
