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
	"even-load", "idle-many", "full-house", "load-shift", "slow-ramp", "day-and-night", "ping-pong", "short-spikes",
	"short-lived",
	"arrival-burst", "departures", "found-running", "noisy-neighbour", "important-pressed", "bandwidth-hogs",
	"memory-shortage",
	"memory-lost", "swap", "heavy-migrant", "wide-guest",
}

// Other is situations that need another configuration than the daemon's own: they are no
// part of comparisons.
var Other = []string{"important-untold", "caches"}

// Calm is those of Scenarios in which nothing is wrong, or nothing that a move
// could mend: nothing is to be moved.
var Calm = []string{"even-load", "idle-many", "full-house"}

const (
	scenarioCPUs = 8 // of a node, or of a cache in the situation caches
	// scenarioCaches is the caches of a node in the situation caches.
	scenarioCaches = 4
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
	h, err := topology.FromSynthetic(machineOf(name, nodes))
	if err != nil {
		return nil, err
	}
	s := &scenario{nodes: nodes, random: rand.New(rand.NewPCG(seed, 0x7363656e65)),
		trace: Trace{Name: name, Host: h, Policy: plan.DefaultPolicy()}}
	build := map[string]func(){
		"even-load": s.evenLoad, "idle-many": s.idleMany, "load-shift": s.loadShift, "day-and-night": s.dayAndNight,
		"noisy-neighbour": s.noisyNeighbour, "bandwidth-hogs": s.bandwidthHogs, "memory-shortage": s.memoryShortage,
		"swap":      s.swap,
		"ping-pong": s.pingPong, "heavy-migrant": s.heavyMigrant, "wide-guest": s.wideGuest, "full-house": s.fullHouse,
		"slow-ramp": s.slowRamp, "short-spikes": s.shortSpikes, "short-lived": s.shortLived,
		"arrival-burst": s.arrivalBurst,
		"departures":    s.departures, "found-running": s.foundRunning, "important-pressed": s.importantPressed,
		"important-untold": s.importantUntold,
		"caches":           s.caches, "memory-lost": s.memoryLost,
	}[name]
	if build == nil {
		return nil, fmt.Errorf("scenario %q; want %s", name, strings.Join(Scenarios, ", "))
	}
	build()
	slices.SortStableFunc(s.events, func(x, y Event) int { return cmp.Compare(x.At, y.At) })
	s.trace.Events = s.events
	return &s.trace, nil
}

// machineOf is the host of a situation.
func machineOf(name string, nodes int) string {
	if name == "caches" {
		return fmt.Sprintf("package:%d node:1(memory=32GiB) l3:%d core:%d", nodes, scenarioCaches, scenarioCPUs)
	}
	return fmt.Sprintf("package:%d node:1(memory=32GiB) core:%d", nodes, scenarioCPUs)
}

// about is x give or take a tenth.
func (s *scenario) about(x float64) float64 { return x * (0.9 + 0.2*s.random.Float64()) }

// gib is a size near to so many GiB.
func (s *scenario) gib(x float64) topology.KiB { return topology.KiB(s.about(x)*(1<<20)) >> 10 << 10 }

func guest(vcpus int, busy float64, memory topology.KiB) Demand {
	return Demand{Class: workload.Shared, Importance: workload.DefaultImportance, VCPUs: vcpus, Busy: busy,
		Memory: memory, Asked: memory,
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
