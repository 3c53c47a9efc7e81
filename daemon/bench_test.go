package daemon

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/homenode/homenode/api"
	"github.com/homenode/homenode/core/balance"
	"github.com/homenode/homenode/core/control"
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
	placeEvery(b, daemonWith(b, 5000, home, period))
}

// daemonWith is one that has looked at so many workloads on 8 nodes of 256 CPUs and has nothing to do.
func daemonWith(b *testing.B, workloads int, home bool, period time.Duration) *Daemon {
	m := newMachine(b, 8, 256)
	m.mem = 1 << 30
	for i := range workloads {
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
	beside(b, d.Run)
	settled := func(v *View) bool {
		return v.Balancing.State == balance.InOrder && (!home || len(v.Plan.Steps)+len(v.Tasks) == 0)
	}
	for !settled(d.View()) {
		time.Sleep(10 * time.Millisecond)
	}
	return d
}

// placeEvery asks for a place every 10 ms.
func placeEvery(b *testing.B, d *Daemon) {
	var took []time.Duration
	due := time.Now()
	for b.Loop() {
		came := due
		if wait := time.Until(due); wait > 0 {
			time.Sleep(wait)
			came = time.Now() // a timer that is late is no wait for an answer
		}
		if _, err := d.Place(b.Context(), api.Want{Name: "x", Class: workload.Shared, CPUs: 1}); err != nil {
			b.Fatal(err)
		}
		took = append(took, time.Since(came))
		due = due.Add(10 * time.Millisecond)
	}
	slices.Sort(took)
	b.ReportMetric(float64(took[len(took)/2].Microseconds()), "p50-µs")
	b.ReportMetric(float64(took[len(took)*99/100].Microseconds()), "p99-µs")
}

// BenchmarkWhatIf is what a question costs with 1000 workloads, and the wait of a request to place
// beside such questions without a pause: they are answered beside the loop. cpu-µs/op is the CPU
// time of the whole process, the loop's look every 2 s among it.
func BenchmarkWhatIf(b *testing.B) {
	d := daemonWith(b, 1000, true, 2*time.Second)
	one := api.WhatIf{Spec: "{name: x, cpus: 4, memory: 8GiB}"}
	var most strings.Builder
	for i := range control.MostAsked {
		fmt.Fprintf(&most, "- {name: x%d, cpus: 4, memory: 8GiB}\n", i)
	}
	for _, q := range []struct {
		name string
		api.WhatIf
	}{
		{"spec", one},
		{fmt.Sprintf("specs=%d", control.MostAsked), api.WhatIf{Spec: most.String()}},
		{"move", api.WhatIf{Workload: "w0000", To: topology.Nodes(5)}},
	} {
		b.Run(q.name, func(b *testing.B) {
			before := used()
			for b.Loop() {
				if _, err := d.WhatIf(b.Context(), q.WhatIf); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64((used()-before).Microseconds())/float64(b.N), "cpu-µs/op")
		})
	}
	b.Run("place/alone", func(b *testing.B) { placeEvery(b, d) })
	b.Run("place/beside", func(b *testing.B) {
		ctx, cancel := context.WithCancel(b.Context())
		asked := make(chan int)
		go func() {
			n := 0
			for ctx.Err() == nil {
				if _, err := d.WhatIf(ctx, one); err == nil {
					n++
				}
			}
			asked <- n
		}()
		placeEvery(b, d)
		cancel()
		b.ReportMetric(float64(<-asked), "questions")
	})
}

// BenchmarkStatus is what the status of so many workloads costs, which /metrics is made of, too.
func BenchmarkStatus(b *testing.B) {
	for _, n := range []int{100, 1000, 5000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			d := daemonWith(b, n, true, 2*time.Second)
			before := used()
			for b.Loop() {
				if _, err := d.Status(b.Context()); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64((used()-before).Microseconds())/float64(b.N), "cpu-µs/op")
		})
	}
}
