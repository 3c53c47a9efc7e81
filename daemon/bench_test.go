package daemon

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"syscall"
	"testing"
	"time"

	"github.com/homenode/homenode/core/topology"
)

// BenchmarkTick is a round of the daemon without the look itself (host/observe
// has BenchmarkLook): decide, check, tell. All workloads are at home, as on most
// days. heap-KiB is what the daemon, its store and the fake machine keep.
func BenchmarkTick(b *testing.B) {
	for _, n := range []int{100, 300, 1000, 5000} {
		b.Run(fmt.Sprintf("workloads=%d", n), func(b *testing.B) {
			r := settled(b, n)
			b.ReportAllocs()
			began := cpuUsed(b)
			for b.Loop() {
				if err := r.Tick(b.Context()); err != nil {
					b.Fatal(err)
				}
				r.clock.step(r.o.Config.Period)
			}
			perTick := (cpuUsed(b) - began).Seconds() / float64(b.N)
			b.ReportMetric(perTick*1000, "cpu-ms/op")
			b.ReportMetric(perTick/2*100, "%ofCPU@2s")
			runtime.GC()
			var mem runtime.MemStats
			runtime.ReadMemStats(&mem)
			b.ReportMetric(float64(mem.HeapAlloc)/1024, "heap-KiB")
			b.ReportMetric(float64(mem.HeapAlloc)/float64(n), "heap-B/workload")
			runtime.KeepAlive(r)
		})
	}
}

// settled is a daemon with n workloads, all at home, on 8 nodes of 64 CPUs, or of as many
// more as it takes for all of them to have a home.
func settled(b *testing.B, n int) *rig {
	m := newMachine(nil, 8, 64*max(1, n/1000))
	m.mem = 1 << 30
	random := rand.New(rand.NewPCG(1, 2))
	for i := range n {
		// 0.06 to 0.36 CPUs each where there are many: the host holds them all.
		use := (0.2 + random.Float64()) * min(1, 300/float64(min(n, 1000)))
		m.add(fmt.Sprintf("w%04d", i), use, topology.KiB(64<<10+random.IntN(1<<20)), topology.NodeID(i%8))
	}
	r := &rig{m: m, clock: &handClock{}, store: NewMemory()}
	r.start(b, Enforce)
	for left := n; left > 0; { // page moves go one at a time between two nodes
		if err := r.Tick(b.Context()); err != nil {
			b.Fatal(err)
		}
		r.wait()
		r.clock.step(r.o.Config.Period)
		r.mu.Lock()
		steps, homes := len(r.view.plan.Steps), len(r.view.plan.Placements)
		r.mu.Unlock()
		if steps == 0 && homes == n {
			return r
		}
		left--
	}
	b.Fatal("not all are at home")
	return nil
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
