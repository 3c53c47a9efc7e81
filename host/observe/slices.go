package observe

import (
	"bytes"
	"slices"
	"strconv"
	"time"

	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/core/workload"
	"github.com/homenode/homenode/host/internal/proc"
)

const (
	// slicesEvery is the time over which the time slices of a busy workload are counted.
	slicesEvery = 10 * time.Second
	// slicesBudget is how many threads are looked at for that in one look: at 7 µs each 0.7 ms.
	slicesBudget = 100
	// slicesThreads bounds the threads of one workload; the first of a server are as good as all.
	slicesThreads = 64
	// busyThread is the CPU use from which on it counts whether a thread sleeps.
	busyThread = 0.01
)

// ran is how a thread came to run so far: schedstat.
type ran struct{ ran, waited, slices uint64 }

// slicing is what is known of the time slices of a workload.
type slicing struct {
	at     time.Time
	before map[int]ran
	now    workload.Slices
}

// readSlices counts the time slices of busy workloads, the longest unseen first.
func (o *Observer) readSlices(reported []*work) {
	var due []*work
	for _, w := range reported {
		if o.use(w) >= busy && o.now.Sub(w.slicing.at) >= slicesEvery {
			due = append(due, w)
		}
	}
	slices.SortStableFunc(due, func(a, b *work) int { return a.slicing.at.Compare(b.slicing.at) })
	budget := slicesBudget
	for _, w := range due {
		if budget <= 0 {
			return
		}
		budget -= o.readSlicesOf(w)
	}
}

func (o *Observer) readSlicesOf(w *work) int {
	s := &w.slicing
	window := o.now.Sub(s.at)
	first := s.before == nil
	now := map[int]ran{}
	var sum ran
	asleep, busyThreads := 0.0, 0
	files := o.eachRan(w, slicesThreads, func(tid int, r ran) {
		now[tid] = r
		was, known := s.before[tid]
		if !known || r.ran < was.ran || r.waited < was.waited || r.slices < was.slices {
			return
		}
		d := ran{r.ran - was.ran, r.waited - was.waited, r.slices - was.slices}
		sum.ran += d.ran
		sum.waited += d.waited
		sum.slices += d.slices
		if float64(d.ran) >= busyThread*float64(window) {
			busyThreads++
			asleep += max(0, 1-float64(d.ran+d.waited)/float64(window))
		}
	})
	s.before = now
	s.at = o.now
	s.now = workload.Slices{}
	if first || sum.slices == 0 || window <= 0 {
		return max(files, 1)
	}
	s.now.PerSecond = round2(float64(sum.slices) / window.Seconds())
	s.now.Mean = time.Duration(sum.ran / sum.slices).Round(time.Microsecond)
	if wanted := sum.ran + sum.waited; wanted > 0 {
		s.now.Waited = round2(float64(sum.waited) / float64(wanted))
	}
	if busyThreads > 0 {
		s.now.Asleep = round2(asleep / float64(busyThreads))
	}
	return max(files, 1)
}

// round2 leaves two decimals: more say nothing and fill the flight recorder.
func round2(x float64) float64 { return float64(int64(x*100+0.5)) / 100 }

// eachRan reads how the threads of a workload ran, of most of them at most, and returns how many
// files that took.
func (o *Observer) eachRan(w *work, most int, f func(tid int, r ran)) (files int) {
	for _, p := range w.procs {
		if files == most {
			break
		}
		tids, err := o.files.Numbers(proc.File(p.pid, "task"), o.tids[:0])
		if o.tids = tids; err != nil {
			continue
		}
		slices.Sort(tids)
		for _, tid := range tids {
			if files == most {
				break
			}
			files++
			b, err := o.files.Record(proc.TaskFile(p.pid, tid, "schedstat"), o.buf)
			if err != nil {
				continue
			}
			if r, ok := parseSchedstat(b); ok {
				f(tid, r)
			}
		}
	}
	return files
}

// parseSchedstat reads the time that a thread ran and that it waited, nanoseconds, and how often it
// was put on a CPU (Documentation/scheduler/sched-stats.rst, /proc/PID/schedstat).
func parseSchedstat(b []byte) (r ran, ok bool) {
	fields := bytes.Fields(b)
	if len(fields) < 3 {
		return r, false
	}
	for i, to := range []*uint64{&r.ran, &r.waited, &r.slices} {
		if *to, ok = proc.Number(fields[i]); !ok {
			return r, false
		}
	}
	return r, true
}

// vhostName is what the names of vhost threads begin with; the PID of who uses them follows (vhost_worker_create,
// drivers/vhost/vhost.c).
const vhostName = "vhost-"

// vhostOwner is the PID in the name of a vhost thread.
func vhostOwner(comm []byte) (pid int, ok bool) {
	of, is := bytes.CutPrefix(comm, []byte(vhostName))
	pid, err := strconv.Atoi(string(of))
	return pid, is && err == nil && pid > 0
}

// vhost is what was seen of the vhost threads of a workload since they were looked at before.
type vhost struct {
	workload.Vhost
	ticks uint64
}

// add counts one.
func (o *Observer) addVhost(v *vhost, tid, cpu int, ticks uint64) {
	v.Threads++
	v.ticks += ticks
	if cpus, err := o.files.Affinity(tid); err == nil {
		v.CPUs = v.CPUs.Union(cpus)
	}
	if cpu < len(o.nodeOf) && o.nodeOf[cpu] >= 0 {
		v.Nodes.Add(topology.NodeID(o.nodeOf[cpu]))
	}
}

// readKernelVhost looks at those threads of the kernel that carry the packets and blocks of a process, before Linux
// 6.4.
func (o *Observer) readKernelVhost(w *work, p *process) {
	for tid := range o.vhosts[p.pid] {
		b, err := o.files.Record(proc.File(tid, "stat"), o.buf)
		if err != nil {
			continue
		}
		s, err := proc.ParseStat(b)
		if err != nil || s.Flags&proc.KernelThread == 0 {
			continue
		}
		if p.vhost == nil {
			p.vhost = map[int]uint64{}
		}
		was, known := p.vhost[tid]
		p.vhost[tid] = s.Ticks
		ticks := uint64(0)
		if known && s.Ticks > was {
			ticks = s.Ticks - was
		}
		o.addVhost(&w.vhost, tid, s.CPU, ticks)
	}
}
