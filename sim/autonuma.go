package sim

import (
	"context"
	"math"
	"time"

	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/core/workload"
)

// The kernel's figures, kernel/sched/fair.c of Linux 6.12 unless said otherwise.
const (
	// scanSize is what one scan of an address space takes away access to, so that its
	// users fault: sysctl_numa_balancing_scan_size, 256 MB.
	scanSize = topology.KiB(256 << 10)

	// scanMin and scanMax are the seconds in which an address space is scanned once, at
	// the fastest and at the slowest (sysctl_numa_balancing_scan_period_min and _max);
	// the period of one scan of 256 MB is that over the number of scans, at least
	// scanFloor (task_scan_min: MAX_SCAN_WINDOW, 2560 MB/s).
	scanMin   = 1.0
	scanMax   = 60.0
	scanFloor = 0.1

	// threshold is the tenths of faults that must be local or private for a task's
	// scans to become rarer (NUMA_PERIOD_THRESHOLD of NUMA_PERIOD_SLOTS, 10).
	threshold, slots = 7, 10.0

	// activeFraction: a shared page goes to a node with so many times the faults of the
	// one it is on (ACTIVE_NODE_FRACTION, should_numa_migrate_memory).
	activeFraction = 3.0

	// smallGain is the part of all faults that must be gained by an exchange of two
	// tasks (SMALLIMP, 30 of 1000).
	smallGain = 0.03

	// hugePage is what one fault brings and moves, with transparent huge pages: of a few
	// thousand of them chance alone prefers one node to another, and ties do not last.
	hugePage = topology.KiB(2 << 10)

	// spill is the CPUs by which a node may be overfull before threads leave their
	// preferred one: threads rest, so that with as many busy ones as CPUs one is idle
	// now and then.
	spill = 0.5

	// lowWater is the part of a node that page migration leaves free
	// (migrate_balanced_pgdat: the high watermark; about 1 % of a large node).
	lowWater = 0.01
)

// autoNUMA is Linux with numa_balancing=1: nothing is confined, hint faults tell
// where memory is used, memory follows threads, threads follow memory.
type autoNUMA struct {
	*reference
	period time.Duration
	score  *Score
	known  map[workload.ID]*faults
	homes  homes
}

// faults is what the kernel knows of a task, or of the threads of a process, which
// are one NUMA group (task_numa_group) and here all alike.
type faults struct {
	period float64   // seconds between two scans of scanSize
	done   float64   // part of the address space that this pass has scanned
	weight []float64 // faults by node of the memory, decayed by half each pass
	fresh  []float64 // those of this pass
	local  float64   // those of this pass whose memory was local
	want   int       // preferred node, -1 when none yet
}

func newAutoNUMA(r *reference, period time.Duration, score *Score) *autoNUMA {
	a := &autoNUMA{reference: r, period: period, score: score, known: map[workload.ID]*faults{}, homes: homes{}}
	r.m.holds = a.holds
	return a
}

func (a *autoNUMA) depart(j *job) {
	delete(a.known, j.id)
	delete(a.homes, j.id)
	a.reference.depart(j)
}

// holds keeps threads on their preferred node while nobody waits for its CPUs
// (migrate_degrades_locality; find_busiest_queue passes over run queues all of whose
// tasks are where they prefer to be).
func (a *autoNUMA) holds(j *job, from int) bool {
	f := a.known[j.id]
	return f != nil && f.want == from && a.m.busy[from] <= float64(a.m.cpus[from])+spill
}

func (a *autoNUMA) tick(context.Context) error {
	for _, j := range a.m.jobs {
		f := a.known[j.id]
		if f == nil {
			n := len(a.m.free)
			f = &faults{period: scanMin, weight: make([]float64, n), fresh: make([]float64, n), want: -1}
			a.known[j.id] = f
		}
		if j.demand.Policy == "" { // task_numa_work passes over memory with a policy of its own (vma_policy_mof)
			a.scan(j, f)
		}
	}
	for _, j := range a.m.jobs {
		if f := a.known[j.id]; f.want >= 0 && j.demand.Busy > 0 && !j.exclusive {
			a.migrate(j, f)
		}
	}
	return nil
}

// scan is task_numa_work and the faults that come of it: all memory is touched
// alike, so what was scanned faults. Scans go by the run time of the threads
// (task_tick_numa), at most one a period for an address space.
func (a *autoNUMA) scan(j *job, f *faults) {
	total := float64(j.resident())
	if total == 0 {
		return
	}
	windows := math.Ceil(total / float64(scanSize))
	shortest, longest := max(scanFloor, scanMin/windows), max(scanFloor, scanMax/windows)
	f.period = min(max(f.period, shortest), longest)
	active := min(1, float64(j.demand.VCPUs)*j.demand.Busy*j.served)
	part := min(1, a.period.Seconds()*active*float64(scanSize)/f.period/total)
	ran := make([]float64, len(j.mem))
	for i, k := range j.threads {
		ran[i] = float64(k) / float64(j.demand.VCPUs)
	}
	for i, kib := range j.mem {
		f.local += part * ran[i] * float64(kib) / total
	}
	a.follow(j, ran, part)
	for i, kib := range j.mem {
		f.fresh[i] += part * float64(kib) / total
	}
	if f.done += part; f.done < 1 {
		return
	}
	pages := total / float64(hugePage)
	for i := range f.weight {
		part := f.fresh[i] / f.done
		f.weight[i] = f.weight[i]/2 + max(0, part+a.m.random.NormFloat64()*math.Sqrt(part*(1-min(1, part))/pages))
		if f.want < 0 || f.weight[i] > f.weight[f.want] {
			f.want = i
		}
	}
	a.homes.saw(j.id, j.process.Start, topology.Nodes(a.m.host.Nodes[f.want].ID), a.m.now, a.score)
	f.adapt(j.demand.VCPUs == 1, shortest, longest)
	f.done, f.local = 0, 0
	clear(f.fresh)
}

// follow moves faulting pages to the node that touched them (do_numa_page,
// should_numa_migrate_memory): one fault there, and the one before too (the
// two-stage filter); memory that several threads share also by how much more the
// node uses it. numa_balancing_promote_rate_limit is for memory tiers only: between
// nodes with CPUs nothing but the scans limits the rate.
func (a *autoNUMA) follow(j *job, ran []float64, part float64) {
	total := float64(j.resident())
	was := append([]topology.KiB(nil), j.mem...)
	for from, kib := range was {
		for to, r := range ran {
			if to == from || r == 0 || kib == 0 {
				continue
			}
			src, dst := float64(was[from])/total, float64(was[to])/total
			if j.demand.VCPUs > 1 && r <= activeFraction*ran[from] && r*src*3 <= ran[from]*dst*4 {
				continue
			}
			room := a.m.free[to] - topology.KiB(lowWater*float64(a.m.room[to]))
			moved := a.m.carry(j, from, to, min(room, topology.KiB(part*r*r*float64(kib))), a.period)
			a.score.MovedBytes += int64(moved) << 10
		}
	}
}

// adapt is update_task_scan_period: rarer when the faults are local or private,
// else more often.
func (f *faults) adapt(private bool, shortest, longest float64) {
	local := math.Floor(slots * f.local / f.done)
	switch slot := f.period / slots; {
	case private:
		f.period += max(1, slots-threshold) * slot
	case local >= threshold:
		f.period += max(1, local-threshold) * slot
	default:
		f.period -= (threshold - local) * slot
	}
	f.period = min(max(f.period, shortest), longest)
}

// share is the part of a job's faults on a node's memory.
func (f *faults) share(i int) float64 {
	sum := 0.0
	for _, w := range f.weight {
		sum += w
	}
	if sum == 0 {
		return 0
	}
	return f.weight[i] / sum
}

// migrate is numa_migrate_preferred, each second or so for each thread that is not
// on the preferred node: to an idle CPU there; else when the load does not become
// more uneven; else in exchange; else to another node that is better than this.
func (a *autoNUMA) migrate(j *job, f *faults) {
	for from := range j.threads {
		for range j.threads[from] {
			if from == f.want || f.share(f.want) <= f.share(from) || a.goes(j, from, f.want) ||
				a.exchange(j, f, from, f.want) {
				continue
			}
			for to := range f.weight {
				if to != f.want && to != from && f.share(to) > f.share(from) &&
					(a.goes(j, from, to) || a.exchange(j, f, from, to)) {
					break
				}
			}
		}
	}
}

// goes moves a thread when there is an idle CPU, or when the nodes' loads differ no
// more after it (task_numa_find_cpu, load_too_imbalanced).
func (a *autoNUMA) goes(j *job, from, to int) bool {
	m := a.m
	if j.may[to] == 0 {
		return false
	}
	src := float64(m.cpus[from])
	dst := float64(m.cpus[to])
	busy := j.demand.Busy
	idle := m.busy[to]+busy <= dst+spill
	if !idle && math.Abs((m.busy[to]+busy)*src-(m.busy[from]-busy)*dst) > math.Abs(m.busy[to]*src-m.busy[from]*dst) {
		return false
	}
	m.stop(j, from)
	m.run(j, to)
	return true
}

// exchange swaps a thread with one on the target that both gain by, or that loses
// less than this one gains (task_numa_compare).
func (a *autoNUMA) exchange(j *job, f *faults, from, to int) bool {
	m := a.m
	if j.may[to] == 0 {
		return false
	}
	src, dst := float64(m.cpus[from]), float64(m.cpus[to])
	var best *job
	most := smallGain
	for _, o := range m.jobs {
		x := a.known[o.id]
		if o == j || o.threads[to] == 0 || o.exclusive || o.may[from] == 0 || x.want < 0 {
			continue
		}
		gain := f.share(to) - f.share(from) + x.share(from) - x.share(to)
		shift := j.demand.Busy - o.demand.Busy
		uneven := math.Abs((m.busy[to]+shift)*src-(m.busy[from]-shift)*dst) > math.Abs(m.busy[to]*src-m.busy[from]*dst)+
			1e-9
		if gain > most && !uneven {
			best, most = o, gain
		}
	}
	if best == nil {
		return false
	}
	m.stop(j, from)
	m.run(j, to)
	m.stop(best, to)
	m.run(best, from)
	return true
}
