package hostile

import (
	"math"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/homenode/homenode/core/plan"
	"github.com/homenode/homenode/core/workload"
)

// goals is the latency goals of a game, with metrics that lie, fail and recover.
type goals struct {
	random *rand.Rand // of its own: games without goals stay as they were
	all    []workload.Goal
	now    []workload.MetricReading
}

// newGoals returns the goals of two games in three.
func newGoals(seed uint64) *goals {
	g := &goals{random: rand.New(rand.NewPCG(seed, 0x676f616c73))}
	if seed%3 == 0 {
		return g
	}
	g.all = []workload.Goal{
		{Metric: "p99", From: workload.FromFile, Text: "/run/p99", Most: 2, Unit: "ms", Window: 5 * time.Second},
		{Metric: "rate", From: workload.FromCommand, Text: "false", Most: 1e-9, Window: time.Minute},
		{Metric: "wait", From: workload.FromKernel, Most: 5, Unit: "%", Window: 10 * time.Second},
	}
	for i := range g.all {
		if g.all[i].From.Named() {
			g.now = append(g.now, workload.MetricReading{Key: g.all[i].Key()})
		}
	}
	return g
}

// rules gives the goals to some online work.
func (g *goals) rules() []workload.Rule {
	if len(g.all) == 0 {
		return nil
	}
	return []workload.Rule{{Match: slice + "/w*", Tier: workload.Online, Goals: g.all}}
}

// values are values of a metric. The daemon refuses a reading that is no number (daemon/metric.go).
var values = []float64{0, 0.5, 1, 1.9, 2.1, 5, -1, 1e300, -1e300, math.MaxFloat64, math.SmallestNonzeroFloat64}

// read returns the readings of a scan.
func (g *goals) read(at time.Time) []workload.MetricReading {
	for i := range g.now {
		m := &g.now[i]
		switch g.random.IntN(8) {
		case 0: // nothing new
		case 1:
			m.Failed = "connection refused\x1b[31m"
		case 2:
			m.At = at.Add(time.Duration(g.random.IntN(7200)-3600) * time.Second)
		case 3:
			m.Known = false
		case 4:
			m.Value, m.Known, m.At, m.Failed = values[g.random.IntN(len(values))], true, at, ""
		default:
			m.Value, m.Known, m.At, m.Failed = 3*g.random.Float64(), true, at, ""
		}
	}
	return append([]workload.MetricReading(nil), g.now...)
}

// steered: with any metric the use is above 0 and at most 1, batch work keeps its minimum, and no online work is
// limited.
func (g *game) steered() {
	for _, n := range g.state.Shared.Nodes {
		if n.Pool > 0 && n.Given.Empty() {
			fail("batch work has no CPU of node %d", n.Node)
		}
	}
	if s := g.state.Shared.Steering; s != nil {
		g.tally.Steered++
		for i := range s.Nodes {
			if n := &s.Nodes[i]; !(n.Use > 0 && n.Use <= 1) || n.Next.None() {
				fail("node %d: use %v (%s)", n.Node, n.Use, n.Next)
			}
		}
	}
	for _, e := range g.store.entries {
		switch e.Kind {
		case plan.CgroupIdle, plan.CgroupMax, plan.CgroupFreeze, plan.MemoryHigh:
			if strings.HasPrefix(e.Path, slice+"/w") {
				fail("online work is squeezed: %s of %s", e.Kind, e.Path)
			}
		}
	}
}
