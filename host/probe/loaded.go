package probe

import (
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/homenode/homenode/core/measure"
	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/host/probe/kernel"
)

// settle is how long load runs before latency is taken.
const settle = 5 * time.Millisecond

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
	_      [56]byte
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
	gaps := measure.Gaps(s.plan.Points())
	for k, g := range gaps {
		if s.stopped() {
			break
		}
		gap.Store(int64(g))
		time.Sleep(settle)
		before, start := total(), time.Now()
		res := measure.Collect(s.ctx, []measure.Cell{{}}, func(int, int) (measure.Sample, error) {
			return s.chase(chain, measure.SampleLoads), nil
		}, loadRule, uint64(k), nil)[measure.Cell{}]
		moved := float64(total()-before) * float64(stream.BurstTraffic()) / time.Since(start).Seconds() / 1e6
		if len(res.Accepted) >= measure.MinUseful {
			out.Points = append(out.Points, measure.LoadedPoint{Gap: g, NS: measure.Value(measure.Median(res.Accepted)), MBps: measure.Value(moved)})
		}
		tell(float64(k+1) / float64(len(gaps)))
	}
	stop.Store(true)
	running.Wait()
	measure.FinishLoaded(&out)
	return out
}

func load(s *session, stream kernel.Stream, cpu topology.CPUID, buf []byte, l *loader, gap *atomic.Int64, stop *atomic.Bool) {
	runtime.LockOSThread()
	defer s.free()
	bursts := stream.Bursts(len(buf))
	if s.numa.SetAffinity(0, topology.CPUs(cpu)) != nil || bursts == 0 {
		return
	}
	for at := 0; !stop.Load(); {
		g := gap.Load()
		if g < 0 {
			time.Sleep(time.Millisecond)
			continue
		}
		stream.Burst(buf, at)
		l.bursts.Add(1)
		if at++; at == bursts {
			at = 0
		}
		kernel.Spin(int(g))
	}
}
