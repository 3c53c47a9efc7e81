package probe

import (
	"fmt"
	"io/fs"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/homenode/homenode/core/measure"
	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/host/probe/kernel"
)

// chainAdds take half a millisecond or less; the fastest of chainTries is the
// one that nothing disturbed.
const (
	chainAdds  = 1 << 20
	chainTries = 9
)

// driftTold is the change of clock from which a run says so: it moves cache
// latencies by as much, and memory latency by a part of it.
const driftTold = 0.05

// clocks times the CPUs that stand for the nodes, before everything and after.
func (s *session) clocks(after bool) {
	run := s.doc.Run
	for i, n := range s.plan.NodeCPUs {
		if s.moveTo(n.CPU) != nil {
			continue
		}
		if !after {
			run.Clock = append(run.Clock, measure.Clock{CPU: int(n.CPU), Before: chainMHz(), After: measure.Unknown,
				FreqBefore: s.cpufreq(n.CPU), FreqAfter: measure.Unknown})
			continue
		}
		if i >= len(run.Clock) || run.Clock[i].CPU != int(n.CPU) {
			return
		}
		c := &run.Clock[i]
		c.After, c.FreqAfter = chainMHz(), s.cpufreq(n.CPU)
		if drift := float64(c.After/c.Before) - 1; math.Abs(drift) > driftTold {
			run.Notes = append(run.Notes,
				fmt.Sprintf("the clock of CPU %d changed by %+.0f %% during the run, from %.0f to %.0f MHz", c.CPU,
					100*drift, float64(c.Before), float64(c.After)))
		}
	}
}

// chainMHz is the clock by a chain of one-cycle operations.
func chainMHz() measure.Value {
	best := time.Duration(math.MaxInt64)
	for range chainTries {
		start := time.Now()
		kernel.Adds(chainAdds)
		best = min(best, time.Since(start))
	}
	return measure.Value(chainAdds / (float64(best.Nanoseconds()) / 1e3))
}

// cpufreq is the clock in MHz as the hardware tells it (root only) or as the
// kernel thinks it is.
func (s *session) cpufreq(cpu topology.CPUID) measure.Value {
	for _, name := range []string{"cpuinfo_cur_freq", "scaling_cur_freq"} {
		b, err := fs.ReadFile(s.m.Root, fmt.Sprintf("sys/devices/system/cpu/cpu%d/cpufreq/%s", cpu, name))
		if err != nil {
			continue
		}
		if khz, err := strconv.ParseFloat(strings.TrimSpace(string(b)), 64); err == nil && khz > 0 {
			return measure.Value(khz / 1e3)
		}
	}
	return measure.Unknown
}
