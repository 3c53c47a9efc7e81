package sim

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/homenode/homenode/core/plan"
	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/core/workload"
)

// Scenarios names situations in which what runs should, or should not, be moved.
// Each is built for a number of nodes, every one with 8 CPUs and 32 GiB; the
// seed varies sizes and loads a little.
var Scenarios = []string{
	"even-load", "idle-many", "load-shift", "day-and-night", "noisy-neighbour", "bandwidth-hogs", "memory-shortage", "swap",
	"ping-pong", "heavy-migrant", "wide-guest",
}

const (
	scenarioCPUs   = 8
	scenarioMemory = 32 << 20 // KiB
)

// scenario builds one trace.
type scenario struct {
	nodes  int
	random *rand.Rand
	events []Event
	trace  Trace
}

// Scenario builds a situation by name for 2 to 64 nodes.
func Scenario(name string, nodes int, seed uint64) (*Trace, error) {
	if nodes < 2 || nodes > 64 {
		return nil, fmt.Errorf("%d nodes; want 2 to 64", nodes)
	}
	h, err := topology.FromSynthetic(fmt.Sprintf("package:%d node:1(memory=32GiB) core:%d", nodes, scenarioCPUs))
	if err != nil {
		return nil, err
	}
	s := &scenario{nodes: nodes, random: rand.New(rand.NewPCG(seed, 0x7363656e65)), trace: Trace{Name: name, Host: h, Policy: plan.DefaultPolicy()}}
	build := map[string]func(){
		"even-load": s.evenLoad, "idle-many": s.idleMany, "load-shift": s.loadShift, "day-and-night": s.dayAndNight,
		"noisy-neighbour": s.noisyNeighbour, "bandwidth-hogs": s.bandwidthHogs, "memory-shortage": s.memoryShortage, "swap": s.swap,
		"ping-pong": s.pingPong, "heavy-migrant": s.heavyMigrant, "wide-guest": s.wideGuest,
	}[name]
	if build == nil {
		return nil, fmt.Errorf("scenario %q; want %s", name, strings.Join(Scenarios, ", "))
	}
	build()
	slices.SortStableFunc(s.events, func(x, y Event) int { return cmp.Compare(x.At, y.At) })
	s.trace.Events = s.events
	return &s.trace, nil
}

// about is x give or take a tenth.
func (s *scenario) about(x float64) float64 { return x * (0.9 + 0.2*s.random.Float64()) }

// gib is a size near to so many GiB.
func (s *scenario) gib(x float64) topology.KiB { return topology.KiB(s.about(x)*(1<<20)) >> 10 << 10 }

func guest(vcpus int, busy float64, memory topology.KiB) Demand {
	return Demand{Class: workload.Shared, Importance: workload.DefaultImportance, VCPUs: vcpus, Busy: busy, Memory: memory, Asked: memory,
		Bandwidth: int64(vcpus) * bandwidthPerCPU, Asks: true}
}

func (s *scenario) add(at time.Duration, op Op, name string, d Demand) {
	s.events = append(s.events, Event{At: at, Op: op, Name: name, Demand: d})
}

// guests lets perNode guests a node arrive, one a second. Those with the same
// number modulo nodes come to share a node wherever placing goes by load.
func (s *scenario) guests(perNode int, draw func(k int) Demand) []Demand {
	out := make([]Demand, perNode*s.nodes)
	for k := range out {
		out[k] = draw(k)
		s.add(time.Duration(k)*time.Second, Arrive, fmt.Sprintf("g%d", k), out[k])
	}
	return out
}

func (s *scenario) load(at time.Duration, k int, d Demand, busy float64) {
	d.Busy = busy
	s.add(at, Change, fmt.Sprintf("g%d", k), d)
}

// evenLoad is guests that keep every node half busy, all day.
func (s *scenario) evenLoad() {
	s.guests(4, func(int) Demand { return guest(2, s.about(0.5), s.gib(4)) })
	s.trace.Until = 24 * time.Hour
}

// idleMany is many guests that do next to nothing.
func (s *scenario) idleMany() {
	s.guests(10, func(int) Demand { return guest(2, s.about(0.01), s.gib(1)) })
	s.trace.Until = 20 * time.Minute
}

// loadShift is calm guests, until those of one node all want everything and the
// others nearly nothing.
func (s *scenario) loadShift() {
	all := s.guests(4, func(int) Demand { return guest(4, s.about(0.3), s.gib(4)) })
	for k, d := range all {
		busy := s.about(0.1)
		if k%s.nodes == 0 {
			busy = 1
		}
		s.load(3*time.Minute, k, d, busy)
	}
	s.trace.Until = 30 * time.Minute
}

// dayAndNight is loads that change every twenty minutes or so, some at a time.
func (s *scenario) dayAndNight() {
	all := s.guests(4, func(int) Demand { return guest(4, s.about(0.3), s.gib(4)) })
	for at := 5 * time.Minute; at < 2*time.Hour; at += time.Duration(s.about(20) * float64(time.Minute)) {
		hot := s.random.IntN(s.nodes)
		for k, d := range all {
			busy := s.about(0.15)
			if k%s.nodes == hot {
				busy = s.about(0.85)
			}
			s.load(at+time.Duration(s.random.IntN(60))*time.Second, k, d, busy)
		}
	}
	s.trace.Until = 2 * time.Hour
}

// important is a found guest of importance 90.
func (s *scenario) important(vcpus int, busy float64, memory topology.KiB) {
	d := guest(vcpus, busy, memory)
	d.Importance, d.Asks = 90, false
	s.add(0, Arrive, "important", d)
}

// noisyNeighbour is an important guest whose neighbours begin to want every CPU.
func (s *scenario) noisyNeighbour() {
	s.important(4, 0.7, s.gib(6))
	all := s.guests(3, func(int) Demand { return guest(4, s.about(0.2), s.gib(3)) })
	for k, d := range all {
		if k%s.nodes == 0 {
			s.load(3*time.Minute, k, d, s.about(0.9))
		} else {
			s.load(3*time.Minute, k, d, s.about(0.1))
		}
	}
	s.trace.Until = 30 * time.Minute
}

// bandwidthHogs is guests of which two a node begin to stream on some nodes, on
// a machine that counts memory traffic.
func (s *scenario) bandwidthHogs() {
	s.trace.Counters = true
	s.important(2, 0.7, s.gib(4))
	all := s.guests(3, func(int) Demand { return guest(2, s.about(0.6), s.gib(3)) })
	for k, d := range all {
		if k%s.nodes == 0 {
			d.Bandwidth = int64(s.about(110_000))
			s.add(3*time.Minute, Change, fmt.Sprintf("g%d", k), d)
		}
	}
	s.trace.Until = 30 * time.Minute
}

// memoryShortage is guests one of which grows until its node is full.
func (s *scenario) memoryShortage() {
	all := s.guests(3, func(int) Demand { return guest(2, s.about(0.5), s.gib(6)) })
	for step := range 18 {
		d := all[0]
		d.Memory += topology.KiB(step+1) << 20
		s.add(3*time.Minute+time.Duration(step)*time.Minute, Change, "g0", d)
	}
	s.trace.Until = 45 * time.Minute
}

// swap is nodes so full of memory that nothing more fits on any; two guests of
// one node get busy, all others calm.
func (s *scenario) swap() {
	all := s.guests(2, func(int) Demand { return guest(8, s.about(0.3), 14<<20) })
	for k, d := range all {
		busy := 0.1
		if k%s.nodes == 0 {
			busy = s.about(0.85)
		}
		s.load(3*time.Minute, k, d, busy)
	}
	s.trace.Until = 30 * time.Minute
}

// pingPong is two groups of guests that take turns every minute: whoever follows
// the load moves all day.
func (s *scenario) pingPong() {
	all := s.guests(4, func(int) Demand { return guest(4, s.about(0.3), s.gib(4)) })
	for turn := range 120 {
		for k, d := range all {
			busy := 0.1
			if k%s.nodes == turn%2 {
				busy = 0.9
			}
			s.load(5*time.Minute+time.Duration(turn)*time.Minute, k, d, busy)
		}
	}
	s.trace.Until = 2*time.Hour + 5*time.Minute
}

// heavyMigrant is a guest with most of a node's memory between small ones; when
// the node gets crowded the small ones should go.
func (s *scenario) heavyMigrant() {
	heavy := guest(4, 0.4, 22<<20)
	s.add(0, Arrive, "heavy", heavy)
	all := s.guests(3, func(int) Demand { return guest(4, s.about(0.3), s.gib(1.5)) })
	for k, d := range all {
		busy := 0.1
		if k%s.nodes == 1 {
			busy = 0.95
		}
		s.load(3*time.Minute, k, d, busy)
	}
	heavy.Busy = 0.9
	s.add(3*time.Minute, Change, "heavy", heavy)
	s.trace.Until = 30 * time.Minute
}

// wideGuest is a guest wider than a node that gets busy beside others.
func (s *scenario) wideGuest() {
	wide := guest(12, 0.3, s.gib(16))
	s.add(0, Arrive, "wide", wide)
	all := s.guests(2, func(int) Demand { return guest(4, s.about(0.4), s.gib(3)) })
	wide.Busy = 0.95
	s.add(3*time.Minute, Change, "wide", wide)
	for k, d := range all {
		s.load(3*time.Minute, k, d, s.about(0.2))
	}
	s.trace.Until = 30 * time.Minute
}
