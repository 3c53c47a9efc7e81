package probe

import (
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/homenode/homenode/core/measure"
	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/host/probe/kernel"
)

// settle is how long load runs before latency is taken.
const settle = 5 * time.Millisecond

// loadTries is how often a point is taken whose load was starved: other work comes
// in bursts.
const loadTries = 3

// loadRule is a little coarser than idle latency: load makes it spread.
var loadRule = measure.Rule{Min: 7, Target: 0.03, Times: 4, Interval: measure.OrderInterval}

// loaded takes the curve of latency over bandwidth for each pair of the plan.
func (s *session) loaded() {
	p, share := &s.plan, s.part(measure.PartLoaded)
	mix := "r"
	if len(p.Request.Mixes) > 0 {
		mix = p.Request.Mixes[0]
	}
	stream, ok := kernel.StreamFor(mix)
	if !ok {
		s.doc.Run.Notes = append(s.doc.Run.Notes, fmt.Sprintf("loaded: no kernel for mix %s on this CPU", mix))
		return
	}
	for i, pair := range p.Load {
		a := s.arenas[pair.To]
		if a == nil || a.err != nil || s.stopped() {
			continue
		}
		l := s.curve(stream, pair, a, func(f float64) { s.tell(share * (float64(i) + f) / float64(len(p.Load))) })
		s.doc.Loaded = append(s.doc.Loaded, l)
	}
}

// loader is one thread that streams with pauses. Its counter has a line of its own.
type loader struct {
	_      [64]byte
	bursts atomic.Int64
	tid    atomic.Int64 // 0 until it runs on its CPU, -1 when it gave up
	_      [48]byte
}

// burn is the time that load threads have had on CPUs.
type burn struct {
	clock   func(tid int) (time.Duration, error)
	loaders []loader
}

// spent is the CPU time of each thread so far, none of one that never got to its
// CPU; negative when it cannot be told.
func (b *burn) spent() []time.Duration {
	out := make([]time.Duration, len(b.loaders))
	for i := range b.loaders {
		tid := int(b.loaders[i].tid.Load())
		if tid == 0 {
			continue
		}
		var err error
		if out[i], err = b.clock(tid); tid < 0 || err != nil {
			out[i] = -1
		}
	}
	return out
}

// ran is the mean share of the wall time for which the threads had a CPU; 0 when no
// clock tells. Threads of the load never wait for anything else, pauses are spun.
func (b *burn) ran(before []time.Duration, wall time.Duration) float64 {
	sum, known := 0.0, 0
	for i, now := range b.spent() {
		if now >= 0 && before[i] >= 0 && wall > 0 {
			sum += min(1, float64(now-before[i])/float64(wall))
			known++
		}
	}
	if known == 0 {
		return 0
	}
	return max(sum/float64(known), 1e-3) // 0 means unknown
}

// threadClock is the CPU time of a thread of this process. The clock's ID is made of
// the thread's (MAKE_THREAD_CPUCLOCK, include/linux/posix-timers.h).
func threadClock(tid int) (time.Duration, error) {
	const perThread, sched = 4, 2
	var ts unix.Timespec
	if err := unix.ClockGettime(int32(^tid<<3|perThread|sched), &ts); err != nil {
		return 0, err
	}
	return time.Duration(ts.Nano()), nil
}

func (s *session) curve(stream kernel.Stream, pair measure.LoadedPair, a *arena, tell func(float64)) measure.Loaded {
	out := measure.Loaded{From: int(pair.From), To: int(pair.To), Mix: stream.Mix, Load: len(pair.Load)}
	half := len(a.mem) / 2 / kernel.PageSize * kernel.PageSize
	a.ring = nil
	chain := &arena{node: a.node, ring: kernel.BuildRing(a.mem[:half], 11)}
	chain.at, _ = chain.ring.Segment(0)
	if s.moveTo(pair.Chase) != nil {
		return out
	}
	s.sweep()
	var gap atomic.Int64
	var stop atomic.Bool
	var running sync.WaitGroup
	loaders := make([]loader, len(pair.Load))
	gap.Store(-1)
	cut := shares(a.mem[half:], len(pair.Load))
	for i, cpu := range pair.Load {
		running.Go(func() { load(s, stream, cpu, cut(i), &loaders[i], &gap, &stop) })
	}
	total := func() (n int64) {
		for i := range loaders {
			n += loaders[i].bursts.Load()
		}
		return
	}
	burnt := burn{threadClock, loaders}
	gaps := measure.Gaps(s.plan.Points())
	for k, g := range gaps {
		for try := range loadTries {
			if s.stopped() {
				break
			}
			gap.Store(int64(g))
			time.Sleep(settle)
			before := total()
			cpu := burnt.spent()
			start := time.Now()
			res := measure.Collect(s.ctx, []measure.Cell{{}}, func(int, int) (measure.Sample, error) {
				return s.chase(chain, measure.SampleLoads), nil
			}, loadRule, uint64(k*loadTries+try), nil)[measure.Cell{}]
			wall := time.Since(start)
			moved := float64(total()-before) * float64(stream.BurstTraffic()) / wall.Seconds() / 1e6
			if len(res.Accepted) < measure.MinUseful {
				break
			}
			p := measure.LoadedPoint{Gap: g, NS: measure.Value(measure.Median(res.Accepted)),
				MBps: measure.Value(moved)}
			if g >= 0 {
				p.Ran = burnt.ran(cpu, wall)
			}
			if keepPoint(&out, p) {
				break
			}
		}
		tell(float64(k+1) / float64(len(gaps)))
	}
	stop.Store(true)
	running.Wait()
	measure.FinishLoaded(&out)
	return out
}

// keepPoint adds a point, or puts it in the place of an earlier try whose load was
// starved more. It is true when no further try is needed.
func keepPoint(l *measure.Loaded, p measure.LoadedPoint) bool {
	if p.Ran > 0 && p.Ran < measure.LoadRan {
		p.Flag = "~"
	}
	if n := len(l.Points); n == 0 || l.Points[n-1].Gap != p.Gap {
		l.Points = append(l.Points, p)
	} else if l.Points[n-1].Flag != "" && (p.Flag == "" || p.Ran > l.Points[n-1].Ran) {
		l.Points[n-1] = p
	}
	return p.Flag == ""
}

func load(s *session, stream kernel.Stream, cpu topology.CPUID, buf []byte, l *loader, gap *atomic.Int64,
	stop *atomic.Bool) {
	runtime.LockOSThread()
	defer s.free()
	bursts := stream.Bursts(len(buf))
	if s.numa.SetAffinity(0, topology.CPUs(cpu)) != nil || bursts == 0 {
		l.tid.Store(-1)
		return
	}
	l.tid.Store(int64(unix.Gettid()))
	for at := 0; !stop.Load(); {
		g := gap.Load()
		if g < 0 {
			time.Sleep(time.Millisecond)
			continue
		}
		stream.Burst(buf, at)
		l.bursts.Add(1)
		at++
		if at == bursts {
			at = 0
		}
		kernel.Spin(int(g))
	}
}
