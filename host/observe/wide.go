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
	// wideFirst is in their first seconds, and where their number has changed.
	wideFirst = 2 * time.Second
	// wideYoung is how long after the first look new threads are read in each look: work starts its threads in
	// its first seconds, and each fills its memory at once.
	wideYoung = 10 * time.Second
	// wideWindow is long enough to measure what a thread uses; until then it counts since the thread began.
	wideWindow = time.Second
)

// wide is what is known of the threads of a workload whose home has several nodes.
type wide struct {
	first   time.Time      // look at them
	noticed time.Time      // when its turn was first asked for
	at      time.Time      // of the newest one
	ticks   map[int]uint64 // by thread, then
	counted int            // threads, then
	stale   bool           // it was changed since
	guessed bool           // looked at before it had a home
	threads []workload.Thread
}

// readWide looks at the threads of the workloads whose home has several nodes, the longest
// unasked first, one in a look. Every user can begin work with many threads again and again: work without a home comes
// last, and new work after work that waits for its turn.
func (o *Observer) readWide(reported []*work) {
	var due *work
	for _, w := range reported {
		n := threadsOf(w)
		switch isWide := o.with.Wide[w.id]; {
		case !isWide && (w.wide.guessed || !o.seemsWide(n)):
			w.wide = wide{guessed: true}
			continue
		case !isWide:
			w.wide.guessed = true
		}
		if w.wide.noticed.IsZero() {
			w.wide.noticed = o.now
		}
		switch {
		case w.wide.stale && w.wide.threads != nil:
			o.readSets(w)
		case o.wideDue(w, n) && (due == nil || o.comesBefore(w, due)):
			due = w
		}
	}
	if due != nil {
		o.readWideOf(due)
	}
}

// comesBefore reports whether the threads of a workload are to be read before those of another.
func (o *Observer) comesBefore(w, other *work) bool {
	home, others := o.with.Wide[w.id], o.with.Wide[other.id]
	if home != others {
		return home
	}
	return w.wide.asked().Before(other.wide.asked())
}

// asked returns when the threads were read. Those of new work count as due since they were noticed.
func (w *wide) asked() time.Time {
	if w.at.IsZero() {
		return w.noticed.Add(-wideEvery)
	}
	return w.at
}

// seemsWide reports whether work that has no home yet has more threads than its smallest node has CPUs. Its home may
// have several nodes, and then it matters where its threads were as it got it. Nothing is guessed in the first look:
// what it finds has been running.
func (o *Observer) seemsWide(threads int) bool {
	fewest := 0
	for i := range o.host.Nodes {
		if n := o.host.Nodes[i].CPUs.Len(); n > 0 && (fewest == 0 || n < fewest) {
			fewest = n
		}
	}
	return o.look > 1 && len(o.host.Nodes) > 1 && threads > fewest
}

// wideDue reports whether the threads of a workload, which are n now, are to be read.
func (o *Observer) wideDue(w *work, n int) bool {
	every := wideEvery
	young := o.now.Sub(w.wide.first) < wideYoung
	grown := n != w.wide.counted
	switch {
	case young && grown:
		return true
	case young, grown:
		every = wideFirst
	}
	return o.now.Sub(w.wide.at) >= every
}

func threadsOf(w *work) (n int) {
	for _, p := range w.procs {
		n += max(1, p.threads)
	}
	return n
}

func (o *Observer) readWideOf(w *work) {
	was, elapsed := w.wide, o.now.Sub(w.wide.at)
	w.wide = wide{first: was.first, at: o.now, ticks: map[int]uint64{}, counted: threadsOf(w), guessed: was.guessed}
	if w.wide.first.IsZero() {
		w.wide.first = o.now
	}
	if w.wide.counted > workload.MostPerThread {
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
			t, s, ok := o.readThread(p, tid, hinting)
			if !ok {
				continue
			}
			w.wide.ticks[tid] = s.Ticks
			ticks, over := s.Ticks, o.age(s.Start)
			before, known := was.ticks[tid]
			if known && elapsed >= wideWindow && s.Ticks >= before {
				ticks, over = s.Ticks-before, elapsed
			}
			if over > 0 {
				t.Use = min(1, float64(ticksDuration(ticks))/float64(max(over, shortWindow)))
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

// readThread reads one thread; it is not ok when it has ended. The name in its stat is not kept.
func (o *Observer) readThread(p *process, tid int, hinting bool) (t workload.Thread, s proc.Stat, ok bool) {
	b, err := o.files.Record(proc.TaskFile(p.pid, tid, "stat"), o.buf)
	if err != nil {
		return t, s, false
	}
	if s, err = proc.ParseStat(b); err != nil {
		return t, s, false
	}
	t = workload.Thread{Process: p.pid, TID: tid}
	if s.CPU < len(o.nodeOf) && o.nodeOf[s.CPU] >= 0 {
		t.On = topology.Nodes(topology.NodeID(o.nodeOf[s.CPU]))
	}
	if t.CPUs = o.threadCPUs(p.pid, tid); t.CPUs.Empty() {
		return t, s, false
	}
	if !hinting || p.hintsStale {
		return t, s, true
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
	return t, s, true
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
