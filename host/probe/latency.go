package probe

import (
	"fmt"
	"slices"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/homenode/homenode/core/measure"
	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/host/probe/kernel"
)

// offCPU is the share of a sample that its thread may have been off the CPU.
const offCPU = 0.005

// interrupted is what ordinary timer interrupts take of a sample: a millisecond
// tick costs some microseconds, which a kernel that accounts interrupts apart
// (CONFIG_IRQ_TIME_ACCOUNTING) does not count as the thread's.
const interrupted = 10 * time.Microsecond

// corrected is the share up to which time that interrupts took, no other thread
// having run, is taken off instead of throwing the sample out. Emulated machines
// spend a percent or two in their timer ticks.
const corrected = 0.05

// watch is the state of a thread before a sample.
type watch struct {
	usage unix.Rusage
	cpu   int
	on    int64 // thread CPU time, ns
	wall  time.Time
}

func look(w *watch) {
	w.cpu, _ = currentCPU()
	_ = unix.Getrusage(unix.RUSAGE_THREAD, &w.usage)
	w.wall = time.Now()
	w.on = threadTime()
}

// passed is what happened from w on.
type passed struct {
	took     time.Duration
	off      time.Duration // of it, the thread was not on a CPU
	switched bool          // another thread ran in its place
	slept    bool
	moved    bool // to another CPU
}

func (w *watch) passed() passed {
	on := threadTime()
	took := time.Since(w.wall)
	var now unix.Rusage
	_ = unix.Getrusage(unix.RUSAGE_THREAD, &now)
	cpu, err := currentCPU()
	return passed{took, took - time.Duration(on-w.on), now.Nivcsw != w.usage.Nivcsw, now.Nvcsw != w.usage.Nvcsw,
		err == nil && cpu != w.cpu}
}

// since judges what happened from w on: how long, and why it does not count.
func since(w *watch) (took time.Duration, reject string) {
	p := w.passed()
	switch {
	case p.switched:
		return p.took, preempted
	case p.moved:
		return p.took, "moved"
	case p.off > interrupted && float64(p.off) > corrected*float64(p.took):
		return p.took, "off the CPU"
	case p.off > interrupted && float64(p.off) > offCPU*float64(p.took) && !p.slept:
		return p.took - p.off, ""
	}
	return p.took, ""
}

// preempted is why most samples of a busy machine are thrown out.
const preempted = "preempted"

func threadTime() int64 {
	var t unix.Timespec
	if unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &t) != nil {
		return 0
	}
	return t.Nano()
}

func currentCPU() (int, error) {
	var cpu, node uint32
	_, _, errno := unix.RawSyscall(unix.SYS_GETCPU, uintptr(unsafe.Pointer(&cpu)), uintptr(unsafe.Pointer(&node)), 0)
	if errno != 0 {
		return 0, errno
	}
	return int(cpu), nil
}

// disturbedRow is how many more disturbed than good samples make them shorter.
const disturbedRow = 3

// chase takes one sample of n loads on an arena from the CPU this thread is on.
func (s *session) chase(a *arena, n int) measure.Sample {
	if a.diluted {
		s.sweep()
	}
	if s.streak > 0 {
		// Others want this CPU. Who slept a little comes back with a whole turn
		// ahead; a shorter sample fits into it better.
		time.Sleep(time.Millisecond)
		n >>= min(s.streak/disturbedRow, 2)
	}
	s.rt.enter()
	a.at = kernel.Chase(a.at, measure.WarmLoads)
	var w watch
	look(&w)
	a.at = kernel.Chase(a.at, n)
	took, reject := since(&w)
	s.rt.leave()
	s.count(reject)
	switch reject {
	case "":
		s.streak = max(0, s.streak-1)
	case preempted:
		s.streak++
	}
	return measure.Sample{X: float64(took.Nanoseconds()) / float64(n), Reject: reject}
}

func (s *session) count(reject string) {
	s.samples++
	if reject != "" {
		s.rejected++
		s.reasons[reject]++
	}
}

func (s *session) latency() {
	p, share := &s.plan, s.part(measure.PartLatency)
	var cols []int
	for _, b := range p.Buffers {
		cols = append(cols, int(b.Node))
	}
	take := func(cpus []topology.CPUID) measure.Take {
		return func(row, col int) (measure.Sample, error) {
			a := s.arenas[p.Buffers[col].Node]
			if a.err != nil {
				return measure.Sample{}, a.err
			}
			a.needRing(s)
			if err := s.moveTo(cpus[row]); err != nil {
				return measure.Sample{}, err
			}
			return s.chase(a, measure.SampleLoads), nil
		}
	}
	flag := func(_, col int) string { return s.arenas[p.Buffers[col].Node].flag() }
	cells := func(rows int) (out []measure.Cell) {
		for i := range rows {
			for j := range cols {
				out = append(out, measure.Cell{Row: i, Col: j})
			}
		}
		return
	}
	var nodeRows []int
	var cpus []topology.CPUID
	for _, n := range p.NodeCPUs {
		nodeRows, cpus = append(nodeRows, int(n.Node)), append(cpus, n.CPU)
	}
	nodeShare := share * float64(len(cpus)) / float64(len(cpus)+len(p.CPUs))
	results := measure.Collect(s.ctx, cells(len(cpus)), take(cpus), s.rule(), p.Request.Seed,
		func(f float64) { s.tell(f * nodeShare) })
	s.doc.Latency = measure.NewLatency("node", nodeRows, cols, results,
		func(i int) int { return slices.Index(cols, nodeRows[i]) }, flag)
	s.doc.Latency.Pages = s.pageKinds()
	if p.CPUs != nil && !s.stopped() {
		var rows []int
		for _, c := range p.CPUs {
			rows = append(rows, int(c))
		}
		results = measure.Collect(s.ctx, cells(len(rows)), take(p.CPUs), s.rule(), p.Request.Seed+1,
			func(f float64) { s.tell(nodeShare + f*(share-nodeShare)) })
		s.doc.CPULatency = measure.NewLatency("cpu", rows, cols, results,
			func(i int) int { return slices.Index(cols, int(s.m.Host.NodeOf(p.CPUs[i]))) }, flag)
		s.doc.CPULatency.Pages = s.pageKinds()
	}
	if p.Request.Full && !s.stopped() {
		s.doc.Latency.Adjacent = s.adjacent()
	}
	if s.prefetch != nil && !s.stopped() {
		var err error
		if s.doc.Latency.Prefetchers, err = s.prefetched(); err != nil {
			s.doc.Run.Notes = append(s.doc.Run.Notes, "prefetchers: "+err.Error())
		}
	}
	s.stopped()
}

// rule spends what the budget leaves over on more samples, which is what a
// noisy machine needs.
func (s *session) rule() measure.Rule {
	r := measure.DefaultRule
	if b := s.plan.Request.Budget.Seconds(); b > 0 && s.plan.Seconds > 0 {
		r.Times = min(max(r.Times, int(float64(r.Times)*b/s.plan.Seconds)), 40)
	}
	return r
}

func (s *session) pageKinds() string {
	kind := ""
	for _, b := range s.plan.Buffers {
		switch a := s.arenas[b.Node]; {
		case a.err != nil:
		case kind == "":
			kind = a.pages
		case kind != a.pages:
			kind = "mixed"
		}
	}
	return kind
}

// adjacent compares the ring with one that reads neighbouring lines close in
// time, on the first local cell, samples of both taken in turn.
func (s *session) adjacent() measure.Value {
	first := s.plan.NodeCPUs[0]
	a := s.arenas[first.Node]
	if a == nil || a.err != nil || s.moveTo(first.CPU) != nil {
		return measure.Unknown
	}
	half := len(a.mem) / 2 / kernel.PageSize * kernel.PageSize
	if half < kernel.PageSize {
		return measure.Unknown
	}
	sparse, dense := kernel.BuildRing(a.mem[:half], 5), kernel.BuildDenseRing(a.mem[half:2*half], 6)
	a.ring = nil // written over
	s.sweep()
	parts := []*arena{{node: a.node, ring: sparse, diluted: a.diluted}, {node: a.node, ring: dense, diluted: a.diluted}}
	for _, p := range parts {
		p.at, _ = p.ring.Segment(0)
	}
	res := measure.Collect(s.ctx, []measure.Cell{{Col: 0}, {Col: 1}}, func(_, col int) (measure.Sample, error) {
		return s.chase(parts[col], measure.SampleLoads), nil
	}, measure.DefaultRule, 9, nil)
	ratios := measure.Ratios(res[measure.Cell{Col: 1}], res[measure.Cell{Col: 0}])
	if len(ratios) < measure.MinUseful {
		return measure.Unknown
	}
	return measure.Value(1 - measure.Median(ratios))
}

// pages times every 2 MiB page from one CPU of each package.
func (s *session) pages() {
	a := s.arenas[s.plan.Buffers[0].Node]
	if a.err != nil {
		return
	}
	a.needRing(s)
	n := len(a.mem) / kernel.PageSize
	pages := make([]measure.Page, n)
	for i := range pages {
		for range s.doc.Host.Packages {
			pages[i].NS = append(pages[i].NS, measure.Unknown)
		}
	}
	share := s.part(measure.PartPages)
	for p, cpu := range s.plan.Sockets {
		if p >= len(s.doc.Host.Packages) || s.moveTo(cpu) != nil {
			continue
		}
		// The first half of the cycle visits each page once; the second half, on
		// lines not read yet, is for pages whose visit was disturbed.
		left := n
		for seg := 0; seg < a.ring.Segments() && left > 0 && !s.stopped(); seg++ {
			start, page := a.ring.Segment(seg)
			if pages[page].NS[p].Known() {
				continue
			}
			if a.diluted && seg%16 == 0 {
				s.sweep()
			}
			links := a.ring.SegmentLinks()
			s.rt.enter()
			at := kernel.Chase(start, links/8) // walks the page's tables and wakes the bank
			var w watch
			look(&w)
			kernel.Chase(at, links-links/8)
			took, reject := since(&w)
			s.rt.leave()
			s.count(reject)
			if reject == "" {
				pages[page].NS[p] = measure.Value(float64(took.Nanoseconds()) / float64(links-links/8))
				left--
			}
			if seg%16 == 0 {
				s.tell(share * (float64(p) + min(1, float64(seg)/float64(n))) / float64(len(s.plan.Sockets)))
			}
		}
	}
	s.doc.Pages = pages
}

// levels measures growing working sets, each read again and again.
func (s *session) levels() {
	a := s.arenas[s.plan.LevelNode]
	if a.err != nil {
		s.doc.Run.Notes = append(s.doc.Run.Notes, fmt.Sprintf("levels: %v", a.err))
		return
	}
	if s.moveTo(s.plan.LevelCPU) != nil {
		return
	}
	l := measure.Levels{CPU: int(s.plan.LevelCPU), Node: int(s.plan.LevelNode),
		Caches: measure.Caches(s.m.Root, s.plan.LevelCPU)}
	sizes := measure.LevelSizes(int64(len(a.mem)), s.plan.LLC)
	share := s.part(measure.PartLevels)
	a.ring = nil // written over
	for i, size := range sizes {
		if s.stopped() {
			break
		}
		ring := kernel.BuildSmallRing(a.mem[:size], uint64(size))
		part := &arena{node: a.node, ring: ring}
		part.at, _ = ring.Segment(0)
		// Once around, so that what fits is in.
		part.at = kernel.Chase(part.at, min(ring.Links(), 4<<20))
		res := measure.Collect(s.ctx, []measure.Cell{{}}, func(int, int) (measure.Sample, error) {
			return s.chase(part, measure.SampleLoads), nil
		}, measure.DefaultRule, uint64(i), nil)[measure.Cell{}]
		sum := measure.Summarize(res.Accepted, res.Rejected)
		if len(res.Accepted) >= measure.MinUseful {
			l.Points = append(l.Points, measure.LevelPoint{Bytes: int64(ring.Links()) * kernel.Line, NS: sum.Median,
				CI95: sum.CI})
		}
		s.tell(share * float64(i+1) / float64(len(sizes)))
	}
	l.Knees = measure.Knees(l.Points)
	l.NameKnees()
	s.doc.Levels = append(s.doc.Levels, l)
}
