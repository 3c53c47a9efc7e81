package probe

import (
	"runtime"
	"sync/atomic"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/homenode/homenode/core/measure"
	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/host/internal/numa"
)

// Round trips of a sample, and the longest a pair may take for one: 200 times
// what slow hardware needs.
const (
	trips     = 300
	pairLimit = 50 * time.Millisecond
)

// c2cRule: each sample is some 50 µs; most of a pair's time is moving threads.
var c2cRule = measure.Rule{Min: 11, Target: 0.03, Times: 3, Interval: measure.OrderInterval}

// partner answers pings from another CPU.
type partner struct {
	cpu  chan topology.CPUID
	set  chan error
	line atomic.Pointer[atomic.Uint32]
	quit atomic.Bool
}

func (q *partner) serve(s *session) {
	runtime.LockOSThread()
	defer s.free()
	for cpu := range q.cpu {
		err := s.numa.SetAffinity(0, topology.CPUs(cpu))
		line := q.line.Load()
		q.set <- err
		if err != nil {
			continue
		}
		for !q.quit.Load() {
			// Many tries between looks at quit, which is on another line.
			for range 256 {
				line.CompareAndSwap(1, 0)
			}
		}
		q.set <- nil
	}
}

func (s *session) c2c() {
	p, share := &s.plan, s.part(measure.PartC2C)
	homes := measure.LineHomes(p.Request.LineOn, len(p.Buffers))
	total := len(p.Pairs) * (len(p.Pairs) - 1) / 2 * len(homes)
	q := &partner{cpu: make(chan topology.CPUID), set: make(chan error)}
	go q.serve(s)
	defer close(q.cpu)
	done := 0
	for _, home := range homes {
		m := measure.C2C{Unit: "ns", LineHome: home, Median: measure.NewTable(len(p.Pairs), len(p.Pairs))}
		for _, c := range p.Pairs {
			m.CPUs = append(m.CPUs, int(c))
		}
		var pairs [][2]int
		for i := range p.Pairs {
			m.Median[i][i] = 0
			for j := i + 1; j < len(p.Pairs); j++ {
				pairs = append(pairs, [2]int{i, j})
			}
		}
		measure.Shuffle(measure.NewRandom(p.Request.Seed+3), pairs)
		for _, ij := range pairs {
			if s.stopped() {
				break
			}
			a, b := p.Pairs[ij[0]], p.Pairs[ij[1]]
			at := s.m.Host.NodeOf(a)
			switch home {
			case "first":
				at = p.Buffers[0].Node
			case "B":
				at = s.m.Host.NodeOf(b)
			}
			if ns, ok := s.pair(q, a, b, at); ok {
				m.Median[ij[0]][ij[1]], m.Median[ij[1]][ij[0]] = measure.Value(ns), measure.Value(ns)
			} else {
				m.Flags = append(m.Flags, []int{int(a), int(b)})
			}
			done++
			s.tell(share * float64(done) / float64(total))
		}
		s.doc.C2C = append(s.doc.C2C, m)
	}
}

// pair measures one way latency between two CPUs through a line of a fresh page
// on a node.
func (s *session) pair(q *partner, a, b topology.CPUID, home topology.NodeID) (float64, bool) {
	page, err := unix.Mmap(-1, 0, 4096, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON)
	if err != nil {
		return 0, false
	}
	defer unix.Munmap(page)
	if len(s.plan.Buffers) > 1 {
		if s.numa.Bind(page, numa.Bind|numa.StaticNodes, topology.Nodes(home), 0) != nil {
			return 0, false
		}
	}
	line := (*atomic.Uint32)(unsafe.Pointer(&page[0]))
	line.Store(0)
	if s.moveTo(a) != nil {
		return 0, false
	}
	q.line.Store(line)
	q.quit.Store(false)
	q.cpu <- b
	if <-q.set != nil {
		return 0, false
	}
	defer func() {
		q.quit.Store(true)
		<-q.set
	}()
	late := 0
	res := measure.Collect(s.ctx, []measure.Cell{{}}, func(int, int) (measure.Sample, error) {
		var w watch
		look(&w)
		ok := pingPong(line, trips)
		took, reject := since(&w)
		if !ok {
			reject = "timed out"
			late++
			if late == 3 {
				return measure.Sample{}, measure.ErrStopped
			}
		}
		return measure.Sample{X: float64(took.Nanoseconds()) / trips / 2, Reject: reject}, nil
	}, c2cRule, 1, nil)[measure.Cell{}]
	if len(res.Accepted) < measure.MinUseful {
		return 0, false
	}
	// Only this side knows when it was preempted; when the other was, the sample
	// is far too long. The lower quartile is of undisturbed samples.
	return measure.Quantile(res.Accepted, 0.25), true
}

// pingPong sets the line to 1 and waits for the partner to set it back.
func pingPong(line *atomic.Uint32, n int) bool {
	start := time.Now()
	for range n {
		for tries := 0; !line.CompareAndSwap(0, 1); tries++ {
			if tries&0x3fff == 0x3fff && time.Since(start) > pairLimit {
				return false
			}
		}
	}
	return true
}
