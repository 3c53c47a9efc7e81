package daemon

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"syscall"
	"testing"
	"time"

	"github.com/homenode/homenode/core/balance"
	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/core/workload"
)

// BenchmarkTick is a round of the daemon without the look itself (host/observe
// has BenchmarkLook): decide, check, tell. Calm: all workloads are at home and nothing
// is wrong, as on most days. Crowded: the load of two nodes has grown, and changes of
// homes are weighed at every tick, but not carried out. heap-KiB is what the daemon, its
// store and the fake machine keep.
func BenchmarkTick(b *testing.B) {
	for _, n := range []int{100, 300, 1000, 5000} {
		r := settled(b, n)
		b.Run(fmt.Sprintf("calm/workloads=%d", n), func(b *testing.B) { benchTick(b, r, n, balance.InOrder) })
		r.o.Config.Mode = Observe
		load := make([]float64, r.m.nodes)
		for _, w := range r.m.live {
			load[w.obs.RanOn[0].Node] += w.obs.CPUUse
		}
		for _, w := range r.m.live {
			if node := w.obs.RanOn[0].Node; node < 2 {
				w.obs.CPUUse *= 1.25 * float64(r.m.per) / load[node]
			}
		}
		for range 8 { // until the window is full of it
			r.tick(b)
		}
		b.Run(fmt.Sprintf("crowded/workloads=%d", n), func(b *testing.B) { benchTick(b, r, n, balance.Would) })
	}
}

func benchTick(b *testing.B, r *rig, n int, want balance.State) {
	b.ReportAllocs()
	began := cpuUsed(b)
	for b.Loop() {
		r.tick(b)
	}
	perTick := (cpuUsed(b) - began).Seconds() / float64(b.N)
	b.ReportMetric(perTick*1000, "cpu-ms/op")
	b.ReportMetric(perTick/2*100, "%ofCPU@2s")
	runtime.GC()
	var mem runtime.MemStats
	runtime.ReadMemStats(&mem)
	b.ReportMetric(float64(mem.HeapAlloc)/1024, "heap-KiB")
	b.ReportMetric(float64(mem.HeapAlloc)/float64(n), "heap-B/workload")
	if got := r.view.balance.State; got != want {
		b.Fatalf("%s, want %s: %s", got, want, r.view.balance.Words())
	}
}

func (r *rig) tick(b *testing.B) {
	if err := r.Tick(b.Context()); err != nil {
		b.Fatal(err)
	}
	r.clock.step(r.o.Config.Period)
}

// settled is a daemon with n workloads, all at home, on 8 nodes of 64 CPUs, or of as many
// more as it takes for all of them to have a home.
func settled(b *testing.B, n int) *rig {
	m := newMachine(nil, 8, 64*max(1, n/1000))
	m.mem = 1 << 30
	random := rand.New(rand.NewPCG(1, 2))
	for i := range n {
		// The same use, so that balancing finds nothing to do: as on most days.
		use := 0.7 * min(1, 300/float64(n))
		m.add(fmt.Sprintf("w%04d", i), use, topology.KiB(64<<10+random.IntN(1<<20)), topology.NodeID(i%8))
	}
	r := &rig{m: m, clock: &handClock{}, store: NewMemory()}
	r.start(b, Enforce)
	for range 20 {
		if err := r.Tick(b.Context()); err != nil {
			b.Fatal(err)
		}
		r.wait()
		r.clock.step(r.o.Config.Period)
		r.mu.Lock()
		steps, homes := len(r.view.plan.Steps), r.view.plan.Placements
		r.mu.Unlock()
		if steps == 0 && len(homes) == n {
			return r
		}
		m.mu.Lock()
		for i := range homes { // moving pages one workload at a time would take hours
			o := &m.live[homes[i].Workload].obs
			o.Memory = []workload.NodeMemory{{Node: homes[i].Home.Min(), KiB: workload.Total(o.Memory)}}
			o.Anon, o.RanOn = o.Memory, []workload.NodeShare{{Node: homes[i].Home.Min(), Share: 1}}
		}
		m.mu.Unlock()
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
