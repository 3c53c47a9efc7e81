package sharing

import (
	"fmt"
	"math/rand/v2"
	"syscall"
	"testing"
	"time"

	"github.com/homenode/homenode/core/control"
	"github.com/homenode/homenode/core/share"
)

// BenchmarkRound300 is what a look costs the daemon in control.Next, with the results of all that
// follows: 300 workloads, 240 of them batch work, on 8 nodes of 64 CPUs; with sharing and without.
// CPU time, for the machine may be busy.
func BenchmarkRound300(b *testing.B) {
	for _, on := range []bool{false, true} {
		b.Run(fmt.Sprintf("sharing=%v", on), func(b *testing.B) {
			s := Scenario{Name: "300", Host: "node:8 core:32 pu:2", Target: 0.65, build: func(x *builder) {
				for i := range 60 {
					x.online(i%8, steps(x.r, 0.5, 4, 5), 0.1)
				}
				jobs := make([]float64, 240)
				for i := range jobs {
					jobs[i] = 0.2 + 3*x.r.Float64()
				}
				x.batch(jobs...)
			}}
			h := newHost(s.Host, 1)
			s.build(&builder{h: h, r: rand.New(rand.NewPCG(1, 1))})
			p := &homenode{change: func(s *share.Settings) { s.On = on }}
			p.begin(h, &s)
			var spent time.Duration
			rounds := func(n int) {
				for range n {
					for range int(period / tick) {
						h.step()
					}
					p.scans++
					scan := &control.Scan{Number: p.scans, Began: epoch.Add(h.now), Snapshot: h.snapshot()}
					began := cpuTime()
					p.turn(control.Input{Begun: &control.Begun{Number: p.scans}})
					p.turn(control.Input{Scan: scan})
					spent += cpuTime() - began
				}
			}
			rounds(100) // settled
			before := p.writes
			spent = 0
			b.ReportAllocs()
			b.ResetTimer()
			rounds(b.N)
			each := spent.Seconds() / float64(b.N)
			b.ReportMetric(each*1000, "cpu-ms/op")
			b.ReportMetric(each/period.Seconds()*100, "%ofCPU@2s")
			b.ReportMetric(float64(p.writes-before)/float64(b.N), "writes/op")
		})
	}
}

func cpuTime() time.Duration {
	var r syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &r); err != nil {
		panic(err)
	}
	return time.Duration(r.Utime.Nano() + r.Stime.Nano())
}
