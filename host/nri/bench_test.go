package nri

import (
	goruntime "runtime"
	"slices"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/homenode/homenode/core/topology"
)

// BenchmarkCreateContainer is how long the start of a container waits for its home on a host of
// 8 nodes and 256 CPUs with 500 containers in pods of one to three: from the request to the
// answer, with the decision and the publishing of it, without the socket and the disk. Another
// one ends for each that begins.
func BenchmarkCreateContainer(b *testing.B) {
	for _, class := range []string{"shared", "dedicated"} {
		b.Run(class, func(b *testing.B) {
			h, err := topology.FromSynthetic("package:2 node:4(memory=64GiB) core:32 pu:1")
			if err != nil {
				b.Fatal(err)
			}
			n := newNode(b, h, "/nowhere")
			n.forgets, n.grants = true, everything
			n.start()
			n.scan()
			for i := 0; len(n.live) < 500; i++ {
				p := n.addPod(nil)
				for k := range 1 + i%3 {
					n.addContainer(p, string(rune('a'+k)), uint64(1+i%2), int64(256+i%5*128)<<20)
				}
			}
			for range 3 {
				n.scan()
			}
			var took, busy []time.Duration
			goruntime.LockOSThread() // its own CPU time is counted
			defer goruntime.UnlockOSThread()
			b.ResetTimer()
			for i := range b.N {
				p := n.addPod(map[string]string{"homenode.io/class": class})
				began, used := time.Now(), cpuTime()
				n.addContainer(p, "a", 2, 512<<20)
				took, busy = append(took, time.Since(began)), append(busy, cpuTime()-used)
				n.endPod(p.Id)
				if i%50 == 49 {
					n.scan()
				}
			}
			for unit, all := range map[string][]time.Duration{"": took, "-cpu": busy} {
				slices.Sort(all)
				b.ReportMetric(float64(all[len(all)/2].Microseconds()), "p50"+unit+"-µs")
				b.ReportMetric(float64(all[len(all)*99/100].Microseconds()), "p99"+unit+"-µs")
			}
		})
	}
}

// cpuTime is the CPU time of this thread: what other work on the machine takes is not in it.
func cpuTime() time.Duration {
	var t unix.Timespec
	if unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &t) != nil {
		return 0
	}
	return time.Duration(t.Nano())
}
