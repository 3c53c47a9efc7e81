package daemon

import (
	"fmt"
	"math/rand/v2"
	"syscall"
	"testing"
	"time"

	"github.com/homenode/homenode/core/topology"
)

// BenchmarkTick is a round of the daemon without the look itself (host/observe
// has BenchmarkLook300): decide, check, tell. All workloads are at home, as on
// most days.
func BenchmarkTick(b *testing.B) {
	for _, n := range []int{100, 300, 1000} {
		b.Run(fmt.Sprintf("workloads=%d", n), func(b *testing.B) {
			m := newMachine(nil, 8, 64)
			m.mem = 1 << 30
			random := rand.New(rand.NewPCG(1, 2))
			for i := range n {
				m.add(fmt.Sprintf("w%04d", i), 0.2+random.Float64(), topology.KiB(64<<10+random.IntN(1<<20)), topology.NodeID(i%8))
			}
			r := &rig{m: m, clock: &handClock{}, store: NewMemory()}
			r.start(b, Enforce)
			for range 400 { // page moves go one at a time
				if err := r.Tick(b.Context()); err != nil {
					b.Fatal(err)
				}
				r.wait()
				r.clock.step(r.o.Config.Period)
			}
			b.ReportAllocs()
			began := cpuUsed(b)
			for b.Loop() {
				if err := r.Tick(b.Context()); err != nil {
					b.Fatal(err)
				}
			}
			perTick := (cpuUsed(b) - began).Seconds() / float64(b.N)
			b.ReportMetric(perTick*1000, "cpu-ms/op")
			b.ReportMetric(perTick/2*100, "%ofCPU@2s")
		})
	}
}

// cpuUsed is the CPU time of this process, the collector's too: what a look costs
// whatever else the machine does.
func cpuUsed(b *testing.B) time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
