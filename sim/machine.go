package sim

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/core/workload"
)

// machine is a host with jobs on it. It does what a kernel does: gives threads
// CPUs and memory pages a node.
type machine struct {
	host   *topology.Host
	model  *model
	random *rand.Rand
	now    time.Duration // since the simulation began

	index map[topology.NodeID]int
	cpus  []int32        // online CPUs, by node
	room  []topology.KiB // memory there is, by node
	free  []topology.KiB
	byID  map[workload.ID]*job
	jobs  []*job // rising by ID

	busy   []float64 // threads that want to run, by node
	owned  []int32   // CPUs of exclusive jobs, by node
	moving []float64 // MiB/s of page moves on each node, this period

	caches  []llc      // of nodes that several divide, where jobs exchange lines
	line    float64    // ns that a line of another cache costs more
	moments *rand.Rand // of moments in caches

	holds func(j *job, from int) bool // keeps a job's threads from drifting off a node; nil: nothing does
}

// unknownMemory is taken for a node whose memory is not known.
const unknownMemory = topology.KiB(64 << 20)

func newMachine(h *topology.Host, seed uint64) *machine {
	n := len(h.Nodes)
	m := &machine{host: h, model: newModel(h), random: rand.New(rand.NewPCG(seed, 0x6b65726e656c)),
		index: map[topology.NodeID]int{},
		cpus:  make([]int32, n), room: make([]topology.KiB, n),
		byID: map[workload.ID]*job{}, busy: make([]float64, n), owned: make([]int32, n), moving: make([]float64, n)}
	for i := range h.Nodes {
		node := &h.Nodes[i]
		m.index[node.ID] = i
		for cpu := range node.CPUs.All() {
			if h.Online.Has(cpu) && h.Allowed.Has(cpu) {
				m.cpus[i]++
			}
		}
		m.room[i] = node.Memory
		if node.Memory < 0 {
			m.room[i] = unknownMemory
		}
		for _, p := range node.HugePages {
			m.room[i] -= p.Size * topology.KiB(max(0, p.Total))
		}
		m.room[i] = max(0, m.room[i])
	}
	m.free = slices.Clone(m.room)
	return m
}

// add starts a job. Its CPUs, nodes and wishes are set.
func (m *machine) add(j *job) {
	j.began = m.now
	j.served = 1
	j.asWas = setting{j.cpus, j.mems}
	j.threads = make([]int32, len(m.free))
	j.mem = make([]topology.KiB, len(m.free))
	m.byID[j.id] = j
	k, _ := slices.BinarySearchFunc(m.jobs, j.id, func(j *job, id workload.ID) int { return cmp.Compare(j.id, id) })
	m.jobs = slices.Insert(m.jobs, k, j)
	j.may = m.byNode(j.cpus)
	m.own(j, 1)
	for k := range j.demand.VCPUs {
		if on := j.demand.Runs.Slice(); len(on) > 0 {
			m.run(j, m.index[on[k%len(on)]])
			continue
		}
		m.start(j)
	}
	m.grow(j, j.demand.Memory)
}

// remove ends a job and gives its memory back.
func (m *machine) remove(j *job) {
	m.own(j, -1)
	for i, k := range j.threads {
		m.busy[i] -= float64(k) * j.demand.Busy
	}
	for i, kib := range j.mem {
		m.free[i] += kib
	}
	delete(m.byID, j.id)
	m.jobs = slices.DeleteFunc(m.jobs, func(x *job) bool { return x == j })
}

// change gives a job another demand; its vCPUs and its class stay.
func (m *machine) change(j *job, d Demand) {
	for i, k := range j.threads {
		m.busy[i] += float64(k) * (d.Busy - j.demand.Busy)
	}
	j.demand.Busy = d.Busy
	j.demand.Bandwidth = d.Bandwidth
	j.demand.Memory = d.Memory
	have := j.resident()
	switch {
	case d.Memory > have+j.short:
		m.grow(j, d.Memory-have-j.short)
	case d.Memory < have+j.short:
		less := have + j.short - d.Memory
		cut := min(less, j.short)
		j.short -= cut
		m.shrink(j, less-cut)
	}
}

// own counts an exclusive job's CPUs in or out.
func (m *machine) own(j *job, sign int32) {
	if j.exclusive {
		for i, k := range j.may {
			m.owned[i] += sign * k
		}
	}
}

func (m *machine) byNode(cpus topology.CPUSet) []int32 {
	out := make([]int32, len(m.free))
	for i := range m.host.Nodes {
		out[i] = int32(m.host.Nodes[i].CPUs.Overlap(cpus))
	}
	return out
}

// setCPUs confines a job, to CPUs that are its own or not; threads on CPUs it
// lost go elsewhere.
func (m *machine) setCPUs(j *job, cpus topology.CPUSet, exclusive bool) {
	m.own(j, -1)
	j.cpus = cpus
	j.may = m.byNode(cpus)
	j.exclusive = exclusive
	m.own(j, 1)
	for i := range j.threads {
		for range j.threads[i] {
			if j.may[i] == 0 || (j.exclusive && j.threads[i] > j.may[i]) {
				m.stop(j, i)
				m.start(j)
			}
		}
	}
}

// forkRoom is how busy a node is when new threads no longer start beside their
// parent: the kernel lets an imbalance between nodes stand while the local one is
// less than a quarter busy (imb_numa_nr, kernel/sched/topology.c; since Linux 5.18).
const forkRoom = 0.25

// start puts one more thread of a job on a node: beside the others while there is
// plenty of room, else where least runs (sched_balance_find_dst_group,
// kernel/sched/fair.c).
func (m *machine) start(j *job) {
	best := -1
	for i, k := range j.may {
		switch {
		case k == 0 || (j.exclusive && j.threads[i] >= k):
		case j.threads[i] > 0 && m.busy[i]+j.demand.Busy <= forkRoom*float64(m.cpus[i]):
			m.run(j, i)
			return
		case best < 0 || m.pressure(i) < m.pressure(best):
			best = i
		}
	}
	if best < 0 { // more threads than CPUs of its own
		best = slices.IndexFunc(j.may, func(k int32) bool { return k > 0 })
	}
	m.run(j, max(0, best))
}

// pressure is how busy a node's CPUs are; those of exclusive jobs count full.
func (m *machine) pressure(i int) float64 {
	return m.busy[i] / float64(max(1, m.cpus[i]))
}

func (m *machine) run(j *job, i int) {
	j.threads[i]++
	m.busy[i] += j.demand.Busy
}

func (m *machine) stop(j *job, i int) {
	j.threads[i]--
	m.busy[i] -= j.demand.Busy
}

const (
	// imbalance is how much busier a node must be than another before the kernel
	// moves a thread between them (sd->imbalance_pct, kernel/sched/topology.c).
	imbalance = 1.17

	// wanders is the chance that a thread of a job looks for another node in one
	// period, be it by load balancing, be it at a wake-up. There is no good source for
	// the rate; at one look in ten periods of 2 s a job on a busy host has left its
	// memory within a minute, which is what unpinned guests are seen to do.
	wanders = 0.1
)

// drift lets threads look for a less busy node, as the kernel does within what
// it is allowed.
func (m *machine) drift() {
	for _, j := range m.jobs {
		if j.exclusive || m.random.Float64() >= wanders {
			continue
		}
		from, to := -1, -1
		for i, k := range j.may {
			if j.threads[i] > 0 && (from < 0 || m.pressure(i) > m.pressure(from)) {
				from = i
			}
			if k > 0 && (to < 0 || m.pressure(i) < m.pressure(to)) {
				to = i
			}
		}
		if from >= 0 && m.holds != nil && m.holds(j, from) {
			continue
		}
		if from >= 0 && to >= 0 && from != to &&
			m.pressure(from) > imbalance*(m.pressure(to)+j.demand.Busy/float64(max(1, m.cpus[to]))) {
			m.stop(j, from)
			m.run(j, to)
		}
	}
}

// grow gives a job memory the way the kernel does: on the node of the thread that
// touches it, within the nodes it prefers or is bound to, then on the nearest
// with room. What finds none is short and tried again.
func (m *machine) grow(j *job, kib topology.KiB) {
	left := kib
	if j.scattered {
		part := left / topology.KiB(max(1, len(m.free)))
		for i := range m.free {
			left -= m.take(j, i, part)
		}
	} else {
		for i, k := range j.threads {
			part := kib / topology.KiB(j.demand.VCPUs) * topology.KiB(k) // in this order: it cannot overflow
			if j.prefer.Empty() || j.prefer.Has(m.host.Nodes[i].ID) {
				left -= m.take(j, i, part)
			}
		}
	}
	at := 0
	for i, k := range j.threads {
		if k > j.threads[at] {
			at = i
		}
	}
	for _, preferred := range []bool{true, false} {
		if (preferred && j.prefer.Empty()) || (!preferred && j.bound) {
			continue
		}
		for _, i := range m.model.near[at] {
			if !preferred || j.prefer.Has(m.host.Nodes[i].ID) {
				left -= m.take(j, i, left)
			}
		}
	}
	j.short += left
}

// take is up to kib of node i for a job.
func (m *machine) take(j *job, i int, kib topology.KiB) topology.KiB {
	if !j.mems.Has(m.host.Nodes[i].ID) {
		return 0
	}
	kib = max(0, min(kib, m.free[i]))
	m.free[i] -= kib
	j.mem[i] += kib
	return kib
}

// lay puts a job's memory on some nodes in equal parts, as far as there is room; empty leaves it
// where it is.
func (m *machine) lay(j *job, on topology.NodeSet) {
	if on.Empty() {
		return
	}
	have := j.resident()
	m.shrink(j, have)
	left := have
	for i := range m.host.Nodes {
		if on.Has(m.host.Nodes[i].ID) {
			left -= m.take(j, i, have/topology.KiB(on.Len()))
		}
	}
	m.grow(j, left)
}

// shrink takes memory away in proportion to where it lies.
func (m *machine) shrink(j *job, kib topology.KiB) {
	have := j.resident()
	if have == 0 {
		return
	}
	left := min(kib, have)
	total := left
	for i := range j.mem {
		part := min(left, topology.KiB(float64(j.mem[i])/float64(have)*float64(total)))
		j.mem[i] -= part
		m.free[i] += part
		left -= part
	}
	for i := range j.mem {
		part := min(left, j.mem[i])
		j.mem[i] -= part
		m.free[i] += part
		left -= part
	}
}

// carry moves up to kib of a job's memory between nodes, as far as there is room,
// and says how much; the traffic of it counts in this period.
func (m *machine) carry(j *job, from, to int, kib topology.KiB, period time.Duration) topology.KiB {
	kib = max(0, min(kib, j.mem[from], m.free[to]))
	j.mem[from] -= kib
	j.mem[to] += kib
	m.free[from] += kib
	m.free[to] -= kib
	perSecond := float64(kib) / 1024 / period.Seconds()
	m.moving[from] += perSecond
	m.moving[to] += perSecond
	return kib
}

// conserved says what is wrong with the machine's own books: memory made or
// lost, threads too many or too few. They can only be wrong by an error in here
// or in a driver.
func (m *machine) conserved() error {
	for i := range m.free {
		sum := m.free[i]
		for _, j := range m.jobs {
			if j.mem[i] < 0 {
				return fmt.Errorf("%s holds %d KiB on node %d", j.id, j.mem[i], m.host.Nodes[i].ID)
			}
			sum += j.mem[i]
		}
		if sum != m.room[i] {
			return fmt.Errorf("node %d has %d KiB and %d KiB are accounted for: memory was lost or made",
				m.host.Nodes[i].ID, m.room[i], sum)
		}
	}
	for _, j := range m.jobs {
		sum := int32(0)
		for i, k := range j.threads {
			if sum += k; k > 0 && j.may[i] == 0 {
				return fmt.Errorf("%s runs on node %d, where it may use no CPU", j.id, m.host.Nodes[i].ID)
			}
		}
		if int(sum) != j.demand.VCPUs {
			return fmt.Errorf("%s has %d threads, %d run", j.id, j.demand.VCPUs, sum)
		}
		if total := j.resident() + j.short; total != j.demand.Memory {
			return fmt.Errorf("%s needs %d KiB and holds %d KiB (%d KiB of them wait for room)", j.id, j.demand.Memory,
				total, j.short)
		}
	}
	return nil
}
