package observe

import (
	"errors"
	"fmt"
	"slices"
	"syscall"
	"time"

	"github.com/homenode/homenode/core/control"
	"github.com/homenode/homenode/core/share"
	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/core/words"
	"github.com/homenode/homenode/core/workload"
	"github.com/homenode/homenode/host/internal/perf"
)

const (
	// signalEvery is the time between two readings of a workload's run queue waits and
	// cycles. They are made at the same times as core/share takes its samples.
	signalEvery = share.SampleEvery
	// delayThreads bounds the threads of one workload whose waits are read, and those of a
	// look: at 7 µs each 2 ms.
	delayThreads = 300
	// cycleFiles bounds the descriptors that are open for cycles, two a CPU and workload.
	cycleFiles = 1024
)

// signals is the state of the signals that tell whether somebody important is hurt.
type signals struct {
	psi     bool                 // a cgroup's cpu.pressure could be read in this look
	whyPSI  string               // not
	delayed int                  // workloads whose waits are read thread by thread
	nothing bool                 // the kernel keeps no run queue waits
	watched map[workload.ID]bool // whose waits are read and whose cycles are counted
	cached  map[workload.ID]bool // whose waits alone are read
	before  bool                 // the waits of some workload were read in the last look

	tried, usable bool // cycles
	why           string
	files         int
	counted, left int // workloads
	failed        int // openings in a row that the kernel refused
	worked        bool
	empty         float64 // CPU seconds over which nothing was counted
}

// signal is what is known of one watched workload.
type signal struct {
	delays   map[int]uint64 // nanoseconds that each thread has ever waited
	delaysAt time.Time
	delay    float64 // see Observation.Waited
	delayed  bool    // delay is known

	cycles   perf.Counter
	cpus     topology.CPUSet // that it counts on
	cyclesAt time.Time
	executed workload.Executed
}

// begin says what is read in a look.
func (s *signals) begin(with *control.Attention) {
	s.psi = false
	s.whyPSI = ""
	s.before = !s.none()
	s.watched, s.cached = nil, nil
	if with.Waits {
		s.watched, s.cached = with.Watched, with.Cached
	}
}

// waits reports whether the waits of a workload are read.
func (s *signals) waits(id workload.ID) bool { return s.watched[id] || s.cached[id] }

// none reports whether no waits are read.
func (s *signals) none() bool { return len(s.watched)+len(s.cached) == 0 }

// readSignals reads of the watched workloads what nothing else has told.
func (o *Observer) readSignals(reported []*work) {
	s := &o.signals
	s.delayed = 0
	s.counted = 0
	s.left = 0
	if s.none() && !s.before {
		return
	}
	budget := delayThreads
	due := slices.Clone(reported)
	slices.SortStableFunc(due, func(a, b *work) int { return a.signal.delaysAt.Compare(b.signal.delaysAt) })
	for _, w := range due {
		if !s.waits(w.id) {
			o.stopCycles(w)
			w.signal = signal{}
			continue
		}
		if w.kind != workload.InCgroup || w.leaf.waitedFrom == "" {
			s.delayed++
			if budget > 0 && share.Due(o.now, w.signal.delaysAt) {
				budget -= o.readDelays(w)
			}
		}
		if s.watched[w.id] {
			o.readCycles(w)
		} else {
			o.stopCycles(w)
		}
	}
}

// readDelays reads how long the threads of a workload have waited on run queues
// (Documentation/scheduler/sched-stats.rst, /proc/PID/schedstat), and returns how many files
// that took. That some thread waited is taken to be as likely as if they waited
// independently of each other.
func (o *Observer) readDelays(w *work) int {
	s := &w.signal
	window := float64(o.now.Sub(s.delaysAt))
	before, now := s.delays, map[int]uint64{}
	rests := 1.0
	files := o.eachRan(w, delayThreads, func(tid int, r ran) {
		if r.ran == 0 && r.waited == 0 {
			return // it has not run yet
		}
		now[tid] = r.waited
		if was, known := before[tid]; known && r.waited > was {
			rests *= 1 - min(1, float64(r.waited-was)/window)
		}
	})
	// nobody ever ran: CONFIG_SCHED_INFO is off, all are 0
	if o.signals.nothing = files > 0 && len(now) == 0; o.signals.nothing {
		return files
	}
	s.delays = now
	s.delay = 1 - rests
	s.delayed = before != nil && len(now) > 0
	s.delaysAt = o.now
	return max(files, 1)
}

// readCycles counts the cycles and instructions of a watched workload.
func (o *Observer) readCycles(w *work) {
	s, g := &o.signals, &w.signal
	if o.counters.opener == nil || w.kind != workload.InCgroup || w.leaf.dir == "" || len(w.leaf.dir) >= longPath {
		return
	}
	if !s.tried {
		s.tried = true
		k, err := o.counters.opener.Cgroup("", nil, &perf.Executed)
		if s.usable = err == nil; s.usable {
			k.Close()
		} else {
			s.why = o.reason(err)
		}
	}
	if !s.usable {
		return
	}
	if g.cycles != nil && !g.cpus.Equal(w.leaf.cpus) {
		o.stopCycles(w)
	}
	if g.cycles == nil {
		o.startCycles(w)
		return
	}
	s.counted++
	if !share.Due(o.now, g.cyclesAt) {
		return
	}
	window := o.now.Sub(g.cyclesAt)
	g.cyclesAt = o.now
	cycles, instructions, err := g.cycles.Read()
	if err != nil {
		o.problems.add("perf_event_open", "the cycles of a workload are not counted", err)
		o.stopCycles(w)
		return
	}
	g.executed.Cycles += cycles
	g.executed.Instructions += instructions
	if s.worked = s.worked || (cycles > 0 && instructions > 0); !s.worked {
		if s.empty += o.use(w) * window.Seconds(); s.empty > countNothing {
			s.usable, s.why = false, perf.Executed.Name+" open and count nothing"
			for _, each := range o.works {
				o.stopCycles(each)
			}
		}
	}
}

func (o *Observer) startCycles(w *work) {
	s, g := &o.signals, &w.signal
	var cpus []int
	for cpu := range w.leaf.cpus.All() {
		cpus = append(cpus, int(cpu))
	}
	if s.files+2*len(cpus) > cycleFiles {
		s.left++
		return
	}
	k, err := o.counters.opener.Cgroup("/"+w.leaf.dir, cpus, &perf.Executed)
	switch {
	case err == nil:
		s.failed = 0
		s.files += 2 * len(cpus)
		s.counted++
		g.cycles = k
		g.cpus = w.leaf.cpus
		g.cyclesAt = o.now
	case o.leafGone(w.leaf):
	case errors.Is(err, syscall.EMFILE), errors.Is(err, syscall.ENFILE):
		s.left++
	default:
		s.failed++
		if s.failed >= 3 && !s.worked { // see startCounting
			s.usable, s.why = false, "by cgroup: "+o.reason(err)
		}
	}
}

func (o *Observer) stopCycles(w *work) {
	if g := &w.signal; g.cycles != nil {
		g.cycles.Close()
		o.signals.files -= 2 * g.cpus.Len()
		g.cycles = nil
	}
}

// signalsHere says which signals there are, for people.
func (o *Observer) signalsHere() []workload.SourceStatus {
	s := &o.signals
	say := func(source workload.Source, used bool, text, why string) workload.SourceStatus {
		if !used {
			text = why
		}
		return workload.SourceStatus{Source: source, Used: used, Text: text}
	}
	const nobody = "no important workload that shares CPUs with batch work was seen"
	whyPSI := s.whyPSI
	whyThrottled := ""
	whyDelay := "cpu.pressure tells"
	why := s.why
	switch {
	case !o.with.Waits:
		whyPSI = "not asked for: sharing is off, or share.max_wait is 0"
		whyThrottled = whyPSI
		whyDelay = whyPSI
		why = whyPSI
	case o.top == "":
		whyThrottled = "workloads are processes here: there is no cgroup v2 with the cpuset controller"
		whyPSI = whyThrottled
		why = whyThrottled
	case s.psi:
		whyPSI = ""
	case s.none():
		whyPSI = nobody
	}
	switch {
	case !o.with.Waits:
	case s.nothing:
		whyDelay = "the kernel keeps no waits of threads (CONFIG_SCHED_INFO)"
	case !s.psi:
		whyDelay = nobody
	}
	if why == "" {
		switch {
		case o.counters.opener == nil:
			why = "not asked for"
		case s.left > 0:
			why = fmt.Sprintf("too many CPUs: more than %d descriptors", cycleFiles)
		default:
			why = nobody
		}
	}
	cpi := fmt.Sprintf("cycles and instructions of %d important workloads, %d descriptors open", s.counted, s.files)
	if s.left > 0 {
		cpi += fmt.Sprintf("; %d more would take too many", s.left)
	}
	traffic := workload.SourceStatus{Source: workload.Bandwidth, Text: "of memory controllers: " + o.traffic.whyIMC +
		"; of resctrl: " + o.traffic.whyMBM}
	switch {
	case len(o.traffic.imc) > 0:
		traffic.Used, traffic.Text = true, "of each node, by the counters of its memory controllers"
	case o.traffic.mbm != nil:
		traffic.Used, traffic.Text = true, "of each node, by resctrl"
	}
	return []workload.SourceStatus{
		say(workload.PSI, o.with.Waits && s.psi,
			"cpu.pressure of each important cgroup: share of the last ten seconds in which a task waited for a CPU",
			whyPSI),
		say(workload.Schedstat, o.with.Waits && s.delayed > 0 && !s.nothing, "/proc/PID/task/TID/schedstat of "+
			words.Count(s.delayed, "important workload")+" without cpu.pressure", whyDelay),
		say(workload.Throttling, o.with.Waits && o.top != "",
			"nr_throttled of cpu.stat: what a limit of its own holds back waits for nobody else", whyThrottled),
		say(workload.CPI, o.with.Waits && s.counted > 0, cpi, why),
		traffic,
	}
}

// closeSignals gives back every descriptor.
func (o *Observer) closeSignals() {
	for _, w := range o.works {
		o.stopCycles(w)
	}
}
