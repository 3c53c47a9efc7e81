package daemon

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/homenode/homenode/api"
	"github.com/homenode/homenode/core/balance"
	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/core/workload"
	"github.com/homenode/homenode/daemon/memory"
)

// BenchmarkPlaceDuringScans is how long a request to place waits while 5,000 workloads are
// scanned and decided on, at the daemon's default period and without a pause: all of them
// at home, and in observe mode all of them off theirs, so that steps are planned for each at
// every scan. A request comes every 10 ms, whether or not those before were answered, and
// waits from then on; p99-µs is what one in a hundred exceeds.
func BenchmarkPlaceDuringScans(b *testing.B) {
	for _, home := range []bool{true, false} {
		name := "observed"
		if home {
			name = "home"
		}
		for _, period := range []time.Duration{2 * time.Second, time.Millisecond} {
			b.Run(fmt.Sprintf("%s/period=%s", name, period), func(b *testing.B) { benchPlaceDuringScans(b, home, period) })
		}
	}
}

func benchPlaceDuringScans(b *testing.B, home bool, period time.Duration) {
	m := newMachine(b, 8, 256)
	m.mem = 1 << 30
	for i := range 5000 {
		m.add(fmt.Sprintf("w%04d", i), 0.1, 1<<17, topology.NodeID(i%8))
	}
	r := rig{m: m, store: memory.New()}
	o := r.options(home)
	m.store = nil // that each change is journalled is tested elsewhere
	o.Clock, o.Inline, o.Period = bubbleClock{}, false, period
	d, err := New(o)
	if err != nil {
		b.Fatal(err)
	}
	ctx, cancel := context.WithCancel(b.Context())
	ended := make(chan error)
	go func() { ended <- d.Run(ctx) }()
	settled := func(v *View) bool {
		return v.Balancing.State == balance.InOrder && (!home || len(v.Plan.Steps)+len(v.Tasks) == 0)
	}
	for !settled(d.View()) {
		time.Sleep(10 * time.Millisecond)
	}
	var took []time.Duration
	due := time.Now()
	for b.Loop() {
		came := due
		if wait := time.Until(due); wait > 0 {
			time.Sleep(wait)
			came = time.Now() // a timer that is late is no wait for an answer
		}
		if _, err := d.Place(ctx, api.Want{Name: "x", Class: workload.Shared, CPUs: 1}); err != nil {
			b.Fatal(err)
		}
		took = append(took, time.Since(came))
		due = due.Add(10 * time.Millisecond)
	}
	slices.Sort(took)
	b.ReportMetric(float64(took[len(took)/2].Microseconds()), "p50-µs")
	b.ReportMetric(float64(took[len(took)*99/100].Microseconds()), "p99-µs")
	cancel()
	if err := <-ended; err != nil {
		b.Error(err)
	}
}
