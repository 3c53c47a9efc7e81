package sim

import (
	"runtime/debug"
	"syscall"
	"testing"
	"time"
)

// BenchmarkRealTime tells how many times faster than real time the daemon is
// simulated with 200 workloads on 8 nodes of 16 cores and 32 CPUs: by the clock,
// and by the CPU time used, which a busy machine does not change.
func BenchmarkRealTime(b *testing.B) {
	defer debug.SetGCPercent(debug.SetGCPercent(800)) // as the command does
	for _, kind := range []string{"steady", "phases", "churn"} {
		b.Run(kind, func(b *testing.B) {
			trace := generated(b, Generation{Kind: kind, Host: synthetic(b, "package:2 node:4 core:16 pu:2"), Seed: 1, Events: 2000, Workloads: 200, Found: DefaultFound})
			seconds := 0.0
			before := cpuTime(b)
			for b.Loop() {
				r := sound(b, Options{Trace: trace, Seed: 1, Policies: []string{"homenode"}})
				seconds += r.Policies[0].Seconds
			}
			b.ReportMetric(seconds/b.Elapsed().Seconds(), "×real-time")
			b.ReportMetric(seconds/(cpuTime(b)-before).Seconds(), "×real-time-by-CPU")
			b.ReportMetric(0, "ns/op")
		})
	}
}

func cpuTime(b *testing.B) time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
