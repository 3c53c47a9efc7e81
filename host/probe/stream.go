package probe

import (
	"fmt"
	"runtime"
	"sync/atomic"
	"time"

	"github.com/homenode/homenode/core/measure"
	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/host/probe/kernel"
)

// Windows of streaming: long against starting a thread, short against a time
// slice on a busy machine.
const (
	quickWindow = 20 * time.Millisecond
	fullWindow  = 50 * time.Millisecond
)

// streamRule: five windows, to 2 %.
var streamRule = measure.Rule{Min: 5, Target: 0.02, Times: 8, Interval: measure.OrderInterval}

// crew is threads that stream at the same time, one on each CPU.
type crew struct {
	stream  kernel.Stream
	orders  []chan time.Duration
	results chan part
	arrived *atomic.Int64
	n       int
}

// part is what one thread did in a window.
type part struct {
	steps int
	passed
	err error
}

// lost is the share of their time that the threads of a window may have been off their
// CPUs: half of what the interval is to be narrowed to (streamRule). On each of many CPUs
// something runs for some microseconds sooner or later, so that hardly a window would do
// if a single switch were too much.
const lost = 0.01

// newCrew starts a thread on each CPU, with its share of the buffer given.
func (s *session) newCrew(stream kernel.Stream, cpus []topology.CPUID, share func(i int) []byte) *crew {
	c := &crew{stream: stream, results: make(chan part, len(cpus)), arrived: &atomic.Int64{}, n: len(cpus)}
	for i, cpu := range cpus {
		order := make(chan time.Duration)
		c.orders = append(c.orders, order)
		go c.work(s, cpu, share(i), order)
	}
	return c
}

func (c *crew) work(s *session, cpu topology.CPUID, buf []byte, order chan time.Duration) {
	runtime.LockOSThread() // never unlocked: the thread ends with the crew
	pinned := s.numa.SetAffinity(0, topology.CPUs(cpu))
	defer s.free()
	steps := c.stream.Steps(len(buf))
	at := 0
	for window := range order {
		p := part{err: pinned}
		if steps == 0 && p.err == nil {
			p.err = fmt.Errorf("a share of %d KiB is too small", len(buf)>>10)
		}
		c.arrived.Add(1)
		for wait := time.Now(); c.arrived.Load() < int64(c.n) && time.Since(wait) < window; {
		}
		if p.err == nil {
			var w watch
			look(&w)
			for end := w.wall.Add(window); ; {
				for range 4 {
					c.stream.Step(buf, at)
					at++
					if at == steps {
						at = 0
					}
					p.steps++
				}
				if !time.Now().Before(end) {
					break
				}
			}
			p.passed = w.passed()
		}
		c.results <- p
	}
}

// free takes a thread's pin off again: if it is the process's first, it stays
// when its goroutine ends.
func (s *session) free() { _ = s.numa.SetAffinity(0, s.m.Host.Allowed) }

// window runs all threads once and adds up their rates, in steps a second.
func (c *crew) window(d time.Duration) (rate float64, reject string, err error) {
	c.arrived.Store(0)
	for _, o := range c.orders {
		o <- d
	}
	parts := make([]part, c.n)
	for i := range parts {
		parts[i] = <-c.results
	}
	return together(parts)
}

// together adds up the rates of threads that ran at the same time and says whether the
// window counts.
func together(parts []part) (rate float64, reject string, err error) {
	var took, off time.Duration
	for _, p := range parts {
		if p.err != nil {
			err = p.err
		}
		if p.moved {
			reject = "moved"
		}
		if p.took > 0 {
			rate += float64(p.steps) / p.took.Seconds()
		}
		took, off = took+p.took, off+p.off
	}
	if float64(off) > lost*float64(took) {
		reject = preempted
	}
	return rate, reject, err
}

func (c *crew) stop() {
	for _, o := range c.orders {
		close(o)
	}
}

// shares cuts a buffer into n pieces that begin at 4 KiB boundaries.
func shares(mem []byte, n int) func(i int) []byte {
	each := len(mem) / n / 4096 * 4096
	return func(i int) []byte { return mem[i*each : (i+1)*each] }
}

// shortestWindow still holds some hundred microsecond steps.
const shortestWindow = 2 * time.Millisecond

// rate measures one crew until its interval is narrow, in MB/s of the program.
// When all windows of a round are disturbed, shorter ones fit better between
// the turns of other work.
func (s *session) rate(c *crew, window time.Duration) *measure.CellResult {
	c.window(window) // the first one pays for page tables and clocks
	disturbed := 0
	return measure.Collect(s.ctx, []measure.Cell{{}}, func(int, int) (measure.Sample, error) {
		steps, reject, err := c.window(window)
		disturbed++
		if reject == "" {
			disturbed = 0
		} else if disturbed >= 3 {
			window, disturbed = max(shortestWindow, window/2), 0
		}
		return measure.Sample{X: steps * float64(c.stream.Program()) / 1e6, Reject: reject}, err
	}, streamRule, 1, nil)[measure.Cell{}]
}

func (s *session) bandwidth() {
	p := &s.plan
	share := s.part(measure.PartBandwidth)
	done := 0
	window := quickWindow
	if p.Request.Full {
		window = fullWindow
	}
	total := 1
	for _, step := range p.Steps {
		if step.Part == measure.PartBandwidth {
			total = max(1, step.Cells)
		}
	}
	tick := func() { done++; s.tell(share * min(1, float64(done)/float64(total))) }
	for _, mix := range p.Mixes {
		stream, ok := kernel.StreamFor(mix)
		if !ok {
			s.doc.Run.Notes = append(s.doc.Run.Notes, fmt.Sprintf("mix %s: no kernel for it on this CPU", mix))
			continue
		}
		if s.stopped() {
			return
		}
		s.doc.Bandwidth = append(s.doc.Bandwidth, s.mix(stream, window, tick))
	}
}

func (s *session) mix(stream kernel.Stream, window time.Duration, tick func()) measure.Bandwidth {
	p := &s.plan
	rows, cols := len(p.NodeCPUs), len(p.Buffers)
	b := measure.Bandwidth{Mix: stream.Mix, Kernel: stream.Name, Unit: "MB/s", Median: measure.NewTable(rows, cols),
		Traffic: measure.NewTable(rows, cols), Total: measure.Unknown}
	for _, n := range p.NodeCPUs {
		b.Rows = append(b.Rows, int(n.Node))
	}
	for _, buf := range p.Buffers {
		b.Cols = append(b.Cols, int(buf.Node))
	}
	for range rows {
		ci := make([]measure.Interval, cols)
		for j := range ci {
			ci[j] = measure.Interval{measure.Unknown, measure.Unknown}
		}
		b.CI95 = append(b.CI95, ci)
		b.Threads, b.Knee = append(b.Threads, make([]int, cols)), append(b.Knee, make([]int, cols))
		b.Samples, b.Rejected = append(b.Samples, make([]int, cols)), append(b.Rejected, make([]int, cols))
		b.Flags = append(b.Flags, make([]string, cols))
	}
	// Pairs of nodes come in random order too.
	var cells []measure.Cell
	for i := range rows {
		for j := range cols {
			cells = append(cells, measure.Cell{Row: i, Col: j})
		}
	}
	measure.Shuffle(measure.NewRandom(p.Request.Seed+7), cells)
	for _, c := range cells {
		if s.stopped() {
			break
		}
		s.streamCell(&b, stream, c.Row, c.Col, window, tick)
	}
	b.Total = s.allLocal(stream, window)
	tick()
	return b
}

// streamCell finds how many threads it takes and what they reach.
func (s *session) streamCell(b *measure.Bandwidth, stream kernel.Stream, i, j int, window time.Duration, tick func()) {
	a := s.arenas[s.plan.Buffers[j].Node]
	if a.err != nil {
		b.Flags[i][j] = "failed: " + a.err.Error()
		return
	}
	a.ring = nil // written over
	type tried struct {
		threads int
		mbs     float64
	}
	var all []tried
	for _, cpus := range s.plan.Streams[int(s.plan.NodeCPUs[i].Node)] {
		if s.stopped() {
			break
		}
		c := s.newCrew(stream, cpus, shares(a.mem, len(cpus)))
		res := s.rate(c, window)
		c.stop()
		tick()
		b.Samples[i][j] += len(res.Accepted)
		b.Rejected[i][j] += res.Rejected
		switch {
		case res.Err != nil:
			b.Flags[i][j] = "failed: " + res.Err.Error()
			return
		case len(res.Accepted) < measure.MinUseful:
			continue
		}
		m := measure.Median(res.Accepted)
		all = append(all, tried{len(cpus), m})
		if !b.Median[i][j].Known() || m > float64(b.Median[i][j]) {
			b.Median[i][j] = measure.Value(m)
			b.CI95[i][j] = measure.MedianInterval(res.Accepted)
			b.Threads[i][j] = len(cpus)
			b.Traffic[i][j] = measure.Value(m * float64(stream.Traffic()) / float64(stream.Program()))
		}
	}
	switch {
	case len(all) == 0:
		b.Flags[i][j] = "failed: too few undisturbed samples"
	case a.diluted:
		b.Flags[i][j] = "llc-diluted"
	case b.CI95[i][j].HalfWidth() > measure.TargetBusy:
		b.Flags[i][j] = "~"
	}
	for _, t := range all {
		if b.Knee[i][j] == 0 && t.mbs >= 0.9*float64(b.Median[i][j]) {
			b.Knee[i][j] = t.threads
		}
	}
}

// allLocal streams on all nodes at once, each on its own memory.
func (s *session) allLocal(stream kernel.Stream, window time.Duration) measure.Value {
	var cpus []topology.CPUID
	var bufs [][]byte
	for _, n := range s.plan.NodeCPUs {
		a := s.arenas[n.Node]
		if a == nil || a.err != nil {
			continue
		}
		sets := s.plan.Streams[int(n.Node)]
		set := sets[len(sets)-1]
		cut := shares(a.mem, len(set))
		a.ring = nil
		for i, cpu := range set {
			cpus, bufs = append(cpus, cpu), append(bufs, cut(i))
		}
	}
	if len(cpus) == 0 || s.stopped() {
		return measure.Unknown
	}
	c := s.newCrew(stream, cpus, func(i int) []byte { return bufs[i] })
	defer c.stop()
	res := s.rate(c, window)
	if len(res.Accepted) < measure.MinUseful {
		return measure.Unknown
	}
	return measure.Value(measure.Median(res.Accepted))
}
