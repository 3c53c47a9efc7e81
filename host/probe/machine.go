package probe

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"runtime"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/homenode/homenode/core/measure"
	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/host/internal/numa"
	"github.com/homenode/homenode/host/probe/kernel"
)

// ErrBusy says that the machine has other work to do.
var ErrBusy = errors.New("the machine is busy")

// Machine measures the machine it runs on.
type Machine struct {
	Root fs.FS // for /proc and cgroup files
	Host *topology.Host
	// CPUFiles is where msr(4) and cpuid(4) are, /dev/cpu when "".
	CPUFiles string
	// Restore is a file for the old value of a register that is changed for some
	// seconds; "" changes none.
	Restore string
}

// busyLoad is the load average per CPU over which a measurement is refused.
const busyLoad = 0.25

// Memory is how much all buffers together may take: half of what the cgroup
// allows more; 0 when it sets no limit.
func (m *Machine) Memory() int64 { return cgroupRoom(m.Root) / 2 }

// Load is the one minute load average.
func (m *Machine) Load() measure.Value {
	b, err := fs.ReadFile(m.Root, "proc/loadavg")
	if err != nil {
		return measure.Unknown
	}
	first, _, _ := strings.Cut(string(b), " ")
	v, err := strconv.ParseFloat(first, 64)
	if err != nil {
		return measure.Unknown
	}
	return measure.Value(v)
}

// session is one run.
type session struct {
	ctx      context.Context
	m        *Machine
	plan     measure.Plan
	doc      *measure.Document
	numa     numa.Kernel
	arenas   map[topology.NodeID]*arena
	sweeper  []byte // read through to clear the caches
	at       topology.CPUID
	warm     topology.CPUSet // CPUs that had their spin
	progress func(float64)
	done     float64 // seconds of the plan that are behind
	samples  int
	rejected int
	reasons  map[string]int
	streak   int // disturbed samples lately, less good ones
	ranOut   bool
	rt       *realtime    // nil: normal priority
	prefetch *prefetchers // nil: left alone
}

// Run measures what the plan says and puts it into doc. An error means that
// nothing was measured; what ends early is marked partial. progress, which may
// be nil, hears the share done.
func (m *Machine) Run(ctx context.Context, plan measure.Plan, doc *measure.Document, progress func(float64)) error {
	load := m.Load()
	if !plan.Request.BusyOK && load.Known() && float64(load) > busyLoad*float64(m.Host.Online.Len()) {
		return fmt.Errorf("%w: load average %.2f on %d CPUs; wait, or measure all the same with --busy-ok", ErrBusy,
			float64(load), m.Host.Online.Len())
	}
	if progress == nil {
		progress = func(float64) {}
	}
	result := make(chan error, 1)
	// A thread of its own that ends with the run: its affinity and priority are
	// never given back to the pool.
	go func() {
		runtime.LockOSThread()
		result <- m.run(ctx, plan, doc, progress, load)
	}()
	return <-result
}

func (m *Machine) run(ctx context.Context, plan measure.Plan, doc *measure.Document, progress func(float64),
	load measure.Value) error {
	// Before all else: what a register holds is "as it was" only after this.
	left := m.restoreLeft()
	if left != nil && plan.Request.MSR {
		return fmt.Errorf("%w: %w", ErrNoMSR, left)
	}
	defer debug.SetGCPercent(debug.SetGCPercent(-1))
	runtime.GC()
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(max(runtime.GOMAXPROCS(0), m.Host.Allowed.Len()+2)))
	if n := plan.Request.Nice; n != 0 {
		if err := unix.Setpriority(unix.PRIO_PROCESS, 0, n); err != nil {
			return fmt.Errorf("set nice to %d: %w", n, err)
		}
	}
	if b := plan.Request.Budget; b > 0 {
		// The plan was made to fit; a busy machine may take longer.
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, b+b/4)
		defer cancel()
	}
	var k numa.Kernel
	// Should this thread be the process's first, it outlives the run.
	if was, err := k.Affinity(0); err == nil {
		defer k.SetAffinity(0, was)
	}
	s := &session{ctx: ctx, m: m, plan: plan, doc: doc, at: topology.None, progress: progress,
		arenas: map[topology.NodeID]*arena{}, reasons: map[string]int{}}
	defer s.release()
	if plan.Request.RT {
		rt, err := newRealtime(m.Host.Allowed)
		if err != nil {
			return err
		}
		s.rt = rt
		defer rt.close()
	}
	if plan.Request.MSR && plan.Has(measure.PartLatency) {
		var err error
		if s.prefetch, err = m.openPrefetchers(plan.NodeCPUs[0].CPU); err != nil {
			return err
		}
		defer s.prefetch.close()
	}
	start := time.Now()
	run := &measure.Run{Started: start.UTC().Format(time.RFC3339), Profile: plan.Profile, Load1: load,
		Sigma: measure.Unknown, RT: plan.Request.RT, LeftOut: plan.LeftOut, Notes: plan.Notes}
	if left != nil {
		run.Notes = append(slices.Clone(run.Notes), left.Error())
	}
	doc.Run = run
	err := s.map_()
	if errors.Is(err, measure.ErrStopped) {
		run.Partial, run.Rejected = true, measure.Unknown
		run.Seconds = math.Round(time.Since(start).Seconds()*100) / 100
		return nil
	}
	if err != nil {
		return err
	}
	s.clocks(false)
	parts := map[measure.Part]func(){
		measure.PartLatency: s.latency, measure.PartPages: s.pages, measure.PartLevels: s.levels,
		measure.PartC2C: s.c2c, measure.PartBandwidth: s.bandwidth, measure.PartLoaded: s.loaded,
	}
	for _, step := range plan.Steps {
		if s.stopped() {
			break
		}
		parts[step.Part]()
		s.done += step.Seconds
		s.tell(0)
	}
	s.clocks(true)
	if s.rt != nil && s.rt.fired.Load() {
		run.Notes = append(run.Notes,
			"a sample did not end in time; the watchdog took SCHED_FIFO away and the rest was measured without")
	}
	run.Seconds = math.Round(time.Since(start).Seconds()*100) / 100
	run.Partial = s.ranOut
	run.Rejected = measure.Unknown
	if s.samples > 0 {
		run.Rejected = measure.Value(100 * float64(s.rejected) / float64(s.samples))
	}
	run.Sigma = controlSigma(doc)
	return nil
}

// stopped notes that something asked for is missing.
func (s *session) stopped() bool {
	if s.ctx.Err() != nil {
		s.ranOut = true
	}
	return s.ranOut
}

// tell reports the share done: what is behind, and seconds of the current part.
func (s *session) tell(seconds float64) {
	s.progress(min(1, (s.done+seconds)/max(s.plan.Seconds, 0.01)))
}

func (s *session) part(p measure.Part) float64 {
	for _, step := range s.plan.Steps {
		if step.Part == p {
			return step.Seconds
		}
	}
	return 0
}

// controlSigma is the spread of the local cells: the same memory from the same
// CPU again and again.
func controlSigma(d *measure.Document) measure.Value {
	var of []float64
	for _, l := range []*measure.Latency{d.Latency, d.CPULatency} {
		if l == nil {
			continue
		}
		for i := range l.Rows {
			best := -1
			for j := range l.Cols {
				if l.Median[i][j].Known() && (best < 0 || l.Median[i][j] < l.Median[i][best]) {
					best = j
				}
			}
			if best >= 0 && l.Sigma[i][best].Known() {
				of = append(of, float64(l.Sigma[i][best]))
			}
		}
		if len(of) > 0 {
			break
		}
	}
	if len(of) == 0 {
		return measure.Unknown
	}
	return measure.Value(measure.Median(of))
}

// map_ makes the buffers of all nodes.
func (s *session) map_() error {
	var first error
	good := 0
	for _, b := range s.plan.Buffers {
		if s.stopped() {
			return measure.ErrStopped
		}
		a := newArena(s, b)
		s.arenas[b.Node] = a
		if a.err == nil {
			good++
		} else if errors.Is(a.err, measure.ErrStopped) {
			return a.err
		} else if first == nil {
			first = a.err
		}
		for i := range s.doc.Nodes {
			if s.doc.Nodes[i].ID == int(b.Node) {
				s.doc.Nodes[i].Pages = a.pages
			}
		}
		s.done += 0.9 * float64(b.Bytes) / (1 << 30)
		s.tell(0)
	}
	if good == 0 {
		return fmt.Errorf("no node can be measured: %w", first)
	}
	sweep := min(2*s.plan.LLC, s.plan.Buffers[0].Bytes)
	mem, err := unix.Mmap(-1, 0, int(sweep), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON)
	if err != nil {
		return fmt.Errorf("map %d MiB to clear caches with: %w", sweep>>20, err)
	}
	for i := 0; i < len(mem); i += 4096 {
		mem[i] = 1
	}
	s.sweeper = mem
	return nil
}

func (s *session) release() {
	for _, a := range s.arenas {
		if a.mem != nil {
			unix.Munmap(a.mem)
		}
	}
	if s.sweeper != nil {
		unix.Munmap(s.sweeper)
	}
}

// sweep reads twice the last-level cache's size through the caches of the CPU
// this thread is on.
func (s *session) sweep() {
	read, _ := kernel.StreamFor("r")
	for i := range read.Steps(len(s.sweeper)) {
		read.Step(s.sweeper, i)
	}
}

// moveTo puts this thread on a CPU and, the first time, wakes the CPU from its
// sleep and low clock with 50 ms of work.
func (s *session) moveTo(cpu topology.CPUID) error {
	if s.at == cpu {
		return nil
	}
	if err := s.numa.SetAffinity(0, topology.CPUs(cpu)); err != nil {
		return err
	}
	s.at = cpu
	if s.rt != nil {
		s.rt.cpu.Store(int64(cpu))
	}
	if !s.warm.Has(cpu) {
		for start := time.Now(); time.Since(start) < 50*time.Millisecond; {
			kernel.Spin(10_000)
		}
		s.warm.Add(cpu)
	}
	return nil
}
