package observe

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/core/workload"
	"github.com/homenode/homenode/host/internal/perf"
)

const (
	// countShare of the time between looks goes to opening and reading counters, as
	// much as to numa_maps; countCredit is how much of it can be saved up.
	countShare  = 0.0015
	countCredit = 20 * time.Millisecond
	// countFiles bounds the descriptors that are open at once: each also costs the
	// kernel some hundred nanoseconds at every switch to or from the workload.
	countFiles = 1024
	// countBusy is the use from which a workload is counted, and below half of which no
	// longer: what uses less CPU can lose little by distance.
	countBusy = 0.2
	// countSlice is how long a workload is counted when others wait: the mean over a few
	// seconds, and opening costs more than reading.
	countSlice = 10 * time.Second
	// countOld is when a figure no longer stands for what the workload does.
	countOld = time.Minute
	// leastCounts is needed to speak of a share: its error is then below 2 %.
	leastCounts = 1000
	// longPath is about the longest path that can be opened by name.
	longPath = 4000
	// countNothing is the CPU time, in seconds, after which events that have opened and
	// counted nothing are given up: some hypervisors offer them so.
	countNothing = 60
)

// counters is the state of counting accesses by hardware.
type counters struct {
	opener perf.Opener // nil: not asked for
	cpu    perf.CPU
	pairs  []perf.Pair // left to try; the first is in use when usable
	usable bool
	tried  bool
	why    string // not usable
	credit time.Duration
	files  int     // descriptors open
	all    float64 // ever counted with the pair in use
	spent  float64 // CPU seconds that it counted over
	failed int     // openings in a row that the kernel refused
}

// counting is a workload's open counter.
type counting struct {
	perf.Counter
	cpus       topology.CPUSet
	since      time.Time
	read       time.Time
	overChange bool // what was counted since read is in part from before a change
}

// access is what is known of where a workload's accesses go.
type access struct {
	count     *counting
	countedAt time.Time // when its counter was last closed
	local     float64   // since the figure was last settled
	remote    float64
	over      time.Duration
	figure    workload.Accesses
	at        time.Time // of figure

	hints hints
}

// forget drops what was counted: memory or CPUs are others now.
func (a *access) forget() {
	a.local = 0
	a.remote = 0
	a.over = 0
	a.figure = workload.Accesses{}
	if a.count != nil {
		a.count.overChange = true
	}
}

// best is the newest figure, of counters before the kernel's samples.
func (a *access) best(now time.Time) workload.Accesses {
	switch {
	case a.figure.From != "" && now.Sub(a.at) < countOld:
		return a.figure
	case a.hints.figure.From != "" && now.Sub(a.hints.at) < countOld:
		return a.hints.figure
	}
	return workload.Accesses{}
}

// findPair looks, once, for a pair of events that this machine opens.
func (o *Observer) findPair() {
	c := &o.counters
	if c.tried {
		return
	}
	c.tried = true
	b, err := o.files.Read("proc/cpuinfo", o.buf)
	if err != nil {
		c.why = err.Error()
		return
	}
	c.cpu = perf.ParseCPU(string(b))
	if c.pairs = perf.Pairs(c.cpu); len(c.pairs) == 0 {
		c.why = fmt.Sprintf("no events are known for this processor (%s family %d model %d)", c.cpu.Vendor,
			c.cpu.Family, c.cpu.Model)
		return
	}
	o.nextPair(0)
}

// nextPair drops the first n pairs and takes the first of the rest that opens.
func (o *Observer) nextPair(n int) {
	c := &o.counters
	c.usable = false
	c.all = 0
	c.spent = 0
	c.failed = 0
	for c.pairs = c.pairs[n:]; len(c.pairs) > 0; c.pairs = c.pairs[1:] {
		k, err := c.opener.Cgroup("", nil, &c.pairs[0])
		if err == nil {
			k.Close()
			c.usable, c.why = true, ""
			return
		}
		c.why = o.reason(err)
	}
}

func (o *Observer) reason(err error) string {
	b, _ := o.files.Read("proc/sys/kernel/perf_event_paranoid", o.buf)
	return perf.Reason(err, strings.TrimSpace(string(b)))
}

// readCounters counts the accesses of the busiest cgroups, in turns when they are
// more than can be open at once.
func (o *Observer) readCounters(reported []*work) {
	c := &o.counters
	if c.opener == nil {
		return
	}
	o.findPair()
	if !c.usable || o.last.IsZero() { // one look counts nothing
		return
	}
	c.credit = min(c.credit+time.Duration(float64(o.now.Sub(o.last))*countShare), countCredit)
	began := o.opts.Now()
	defer func() { c.credit -= o.opts.Now().Sub(began) }()
	left := func() bool { return c.credit > o.opts.Now().Sub(began) }

	var waiting []*work
	for _, w := range reported {
		if w.kind != workload.InCgroup || w.leaf.dir == "" || len(w.leaf.dir) >= longPath {
			continue
		}
		k, use := w.access.count, o.use(w)
		switch {
		case k == nil && use >= countBusy:
			waiting = append(waiting, w)
		case k == nil:
		case use < countBusy/2, !k.cpus.Equal(w.leaf.cpus):
			o.stopCounting(w)
		case left():
			o.readCounter(w, use)
		}
	}
	if !c.usable {
		return
	}
	if len(waiting) > 0 {
		for _, w := range reported {
			if k := w.access.count; k != nil && o.now.Sub(k.since) >= countSlice {
				o.stopCounting(w)
			}
		}
	}
	slices.SortStableFunc(waiting, func(a, b *work) int {
		return cmp.Or(a.access.countedAt.Compare(b.access.countedAt), cmp.Compare(o.use(b), o.use(a)))
	})
	for _, w := range waiting {
		if !left() || !c.usable {
			return
		}
		if need := 2 * w.leaf.cpus.Len(); c.files+need <= countFiles {
			o.startCounting(w)
		}
	}
}

func (o *Observer) startCounting(w *work) {
	c := &o.counters
	var cpus []int
	for cpu := range w.leaf.cpus.All() {
		cpus = append(cpus, int(cpu))
	}
	k, err := c.opener.Cgroup("/"+w.leaf.dir, cpus, &c.pairs[0])
	switch {
	case err == nil:
	case o.leafGone(w.leaf):
		return
	case errors.Is(err, syscall.EMFILE), errors.Is(err, syscall.ENFILE):
		o.problems.add("perf_event_open", "not all workloads are counted", err)
		return
	default:
		// A CPU that went off a moment ago refuses too; the same again and again is a kernel
		// that does not count cgroups (perf_event mounted as a v1 hierarchy).
		w.access.countedAt = o.now
		c.failed++
		if c.failed >= 3 && c.all == 0 {
			why := o.reason(err)
			o.closeCounters()
			o.nextPair(1)
			if !c.usable {
				c.why = "by cgroup: " + why
			}
		}
		return
	}
	c.failed = 0
	c.files += 2 * len(cpus)
	w.access.count = &counting{Counter: k, cpus: w.leaf.cpus, since: o.now, read: o.now}
}

// leafGone reports whether the cgroup was removed since the look began.
func (o *Observer) leafGone(l *leaf) bool {
	_, err := o.files.Read(l.dir+"/cgroup.procs", o.buf)
	return err != nil
}

func (o *Observer) stopCounting(w *work) {
	if k := w.access.count; k != nil {
		k.Close()
		o.counters.files -= 2 * k.cpus.Len()
		w.access.count, w.access.countedAt = nil, o.now
		w.access.local = 0
		w.access.remote = 0
		w.access.over = 0
	}
}

// readCounter takes what was counted of w since the last time.
func (o *Observer) readCounter(w *work, use float64) {
	c, a := &o.counters, &w.access
	window := o.now.Sub(a.count.read)
	if window < shortWindow {
		return
	}
	first, second, err := a.count.Read()
	if err != nil {
		o.problems.add("perf_event_open", "a workload is not counted", err)
		o.stopCounting(w)
		return
	}
	a.count.read = o.now
	if a.count.overChange {
		a.count.overChange = false
		return
	}
	local, remote := c.pairs[0].Split(first, second)
	a.local += local
	a.remote += remote
	a.over += window
	c.all, c.spent = c.all+first+second, c.spent+use*window.Seconds()
	if c.all == 0 && c.spent > countNothing {
		why := c.pairs[0].Name + " opens and counts nothing"
		o.closeCounters()
		o.nextPair(1)
		if !c.usable {
			c.why = why
		}
		return
	}
	switch sum := a.local + a.remote; {
	case sum >= leastCounts:
		a.figure = workload.Accesses{From: workload.Counters, Local: a.local / sum, PerSecond: sum / a.over.Seconds()}
		a.at = o.now
	case a.over < countSlice:
		return // not enough yet
	default:
		a.figure = workload.Accesses{} // so few that it does not matter where they go
	}
	a.local = 0
	a.remote = 0
	a.over = 0
}

// closeCounters gives every descriptor of workloads back.
func (o *Observer) closeCounters() {
	for _, w := range o.works {
		o.stopCounting(w)
	}
}

// Close gives back what stays open between looks, unless a look hangs. The Observer may
// look again.
func (o *Observer) Close() {
	select {
	case o.turn <- struct{}{}:
	case <-time.After(lookDeadline):
		return
	}
	defer func() { <-o.turn }()
	o.closeCounters()
	o.closeSignals()
	o.traffic.close()
}
