package daemon

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/homenode/homenode/api"
	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/core/workload"
	"github.com/homenode/homenode/daemon/memory"
)

// BenchmarkPlaceDuringScans is how long a request to place waits while 5,000 workloads are
// scanned and decided on, at the daemon's default period and without a pause. A request
// comes every 10 ms, whether or not those before were answered, and waits from then
// on; p99-µs is what one in a hundred exceeds.
func BenchmarkPlaceDuringScans(b *testing.B) {
	b.Run("period=2s", func(b *testing.B) { benchPlaceDuringScans(b, 2*time.Second) })
	b.Run("period=0", func(b *testing.B) { benchPlaceDuringScans(b, time.Millisecond) })
}

func benchPlaceDuringScans(b *testing.B, period time.Duration) {
	m := newMachine(b, 8, 256)
	m.mem = 1 << 30
	for i := range 5000 {
		m.add(fmt.Sprintf("w%04d", i), 0.1, 1<<17, topology.NodeID(i%8))
	}
	r := rig{m: m, store: memory.New()}
	o := r.options(false)
	o.Clock, o.Inline, o.Period = bubbleClock{}, false, period
	d, err := New(o)
	if err != nil {
		b.Fatal(err)
	}
	ctx, cancel := context.WithCancel(b.Context())
	ended := make(chan error)
	go func() { ended <- d.Run(ctx) }()
	for d.View().Scans < 2 {
		time.Sleep(time.Millisecond)
	}
	var took []time.Duration
	due := time.Now()
	for b.Loop() {
		due = due.Add(10 * time.Millisecond)
		time.Sleep(time.Until(due))
		if _, err := d.Place(ctx, api.Want{Name: "x", Class: workload.Shared, CPUs: 1}); err != nil {
			b.Fatal(err)
		}
		took = append(took, time.Since(due))
	}
	slices.Sort(took)
	b.ReportMetric(float64(took[len(took)/2].Microseconds()), "p50-µs")
	b.ReportMetric(float64(took[len(took)*99/100].Microseconds()), "p99-µs")
	cancel()
	if err := <-ended; err != nil {
		b.Error(err)
	}
}
