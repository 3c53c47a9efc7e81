package observe

import (
	"slices"
	"time"

	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/core/workload"
	"github.com/homenode/homenode/host/internal/proc"
)

const (
	// wideEvery is how often: what a thread uses, and where its memory is, changes slowly.
	wideEvery = 10 * time.Second
	// wideFirst is after the first look at them, which tells nothing of what they use.
	wideFirst = 2 * time.Second
)

// wide is what is known of the threads of a workload whose home has several nodes.
type wide struct {
	at      time.Time
	ticks   map[int]uint64 // by thread, then
	stale   bool           // it was changed since
	threads []workload.Thread
}

// readWide looks at the threads of the workloads whose home has several nodes, the longest
// unasked first, one in a look.
func (o *Observer) readWide(reported []*work) {
	var due *work
	for _, w := range reported {
		if !o.with.Wide[w.id] {
			w.wide = wide{}
			continue
		}
		every := wideEvery
		if w.wide.threads == nil {
			every = wideFirst
		}
		switch {
		case w.wide.stale && w.wide.threads != nil:
			o.readSets(w)
		case o.now.Sub(w.wide.at) >= every && (due == nil || w.wide.at.Before(due.wide.at)):
			due = w
		}
	}
	if due != nil {
		o.readWideOf(due)
	}
}

func (o *Observer) readWideOf(w *work) {
	before, elapsed := w.wide.ticks, o.now.Sub(w.wide.at)
	w.wide = wide{at: o.now, ticks: map[int]uint64{}}
	n := 0
	for _, p := range w.procs {
		n += max(1, p.threads)
	}
	if n > workload.MostPerThread {
		return
	}
	hinting := o.hinting.on && !o.hinting.at.IsZero()
	for _, p := range w.procs {
		tids, err := o.files.Numbers(proc.File(p.pid, "task"), o.tids[:0])
		o.tids = tids
		if err != nil {
			continue
		}
		slices.Sort(tids)
		for _, tid := range tids {
			t, ticks, ok := o.readThread(p, tid, hinting)
			if !ok {
				continue
			}
			w.wide.ticks[tid] = ticks
			if before == nil {
				continue
			}
			if was := before[tid]; ticks >= was { // one that was not there has done all of it since
				t.Use = min(1, float64(ticksDuration(ticks-was))/float64(max(elapsed, shortWindow)))
			}
			w.wide.threads = append(w.wide.threads, t)
		}
	}
}

// readSets brings the CPUs of threads up to date after homenode has set them; what they use
// is measured over longer times.
func (o *Observer) readSets(w *work) {
	w.wide.stale = false
	threads := slices.Clone(w.wide.threads) // readers have the others
	for i := range threads {
		if cpus := o.threadCPUs(threads[i].Process, threads[i].TID); !cpus.Empty() {
			threads[i].CPUs = cpus
		}
	}
	w.wide.threads = threads
}

// readThread reads one thread; it is not ok when it has ended.
func (o *Observer) readThread(p *process, tid int, hinting bool) (t workload.Thread, ticks uint64, ok bool) {
	b, err := o.files.Record(proc.TaskFile(p.pid, tid, "stat"), o.buf)
	if err != nil {
		return t, 0, false
	}
	s, err := proc.ParseStat(b)
	if err != nil {
		return t, 0, false
	}
	t = workload.Thread{Process: p.pid, TID: tid}
	if t.CPUs = o.threadCPUs(p.pid, tid); t.CPUs.Empty() {
		return t, 0, false
	}
	if !hinting || p.hintsStale {
		return t, s.Ticks, true
	}
	if b, err := o.files.Read(proc.TaskFile(p.pid, tid, "sched"), o.buf); err == nil {
		s := parseSched(b)
		t.Scans = s.scans
		for node, faults := range s.faults {
			if faults > 0 {
				t.Faults = append(t.Faults, workload.NodeFaults{Node: topology.NodeID(node), Faults: faults})
			}
		}
	}
	return t, s.Ticks, true
}

// threadCPUs is the CPUs that a thread may use and that run; none when it has ended.
func (o *Observer) threadCPUs(pid, tid int) topology.CPUSet {
	cpus, err := o.files.Affinity(tid)
	if err != nil {
		b, err := o.files.Record(proc.TaskFile(pid, tid, "status"), o.buf)
		if err != nil {
			return topology.CPUSet{}
		}
		cpus = o.cpuSet(proc.ParseStatus(b).CPUs)
	}
	return cpus.Intersect(o.host.Online)
}

// mostPerProcess is how many processes a workload may have to be looked at process by process.
const mostPerProcess = 256

// perProcess is the anonymous memory of each process of a workload whose home has several nodes.
func (o *Observer) perProcess(w *work) (out []workload.ProcessMemory) {
	if !o.with.Wide[w.id] || len(w.procs) > mostPerProcess || len(w.procs) < 2 {
		return nil
	}
	for _, p := range w.procs {
		if p.maps == nil || p.moved() {
			continue
		}
		anon := p.maps.anon
		if p.pssAnon >= 0 {
			anon = anon.scaled(p.pssAnon)
		}
		x := workload.ProcessMemory{Process: p.pid, Memory: anon.list()}
		x.RanOn, x.Use = o.ranOnOf(w, p.pid)
		out = append(out, x)
	}
	return out
}

// ranOnOf is where the threads of a process may run, each by what it uses, and the CPUs that they
// keep busy; nothing while they are not read.
func (o *Observer) ranOnOf(w *work, pid int) (ran []workload.NodeShare, use float64) {
	const idle = 0.001 // so that threads that wait count where nothing else runs
	all := 0.0
	shares := make([]float64, len(o.host.Nodes))
	for i := range w.wide.threads {
		t := &w.wide.threads[i]
		if t.Process != pid || t.CPUs.Empty() {
			continue
		}
		use += t.Use
		for k := range o.host.Nodes {
			part := float64(o.host.Nodes[k].CPUs.Overlap(t.CPUs)) / float64(t.CPUs.Len())
			shares[k] += part * (t.Use + idle)
			all += part * (t.Use + idle)
		}
	}
	for k, share := range shares {
		if share > 0 {
			ran = append(ran, workload.NodeShare{Node: o.host.Nodes[k].ID, Share: share / all})
		}
	}
	return ran, use
}
