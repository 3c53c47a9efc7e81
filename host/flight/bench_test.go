package flight

import (
	"fmt"
	"math/rand/v2"
	"os"
	"syscall"
	"testing"
	"time"

	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/core/workload"
)

// BenchmarkRecord is one look at 300 workloads of two processes on 8 nodes, whose use
// and memory differ at every look: what it takes to write down, and how many bytes it
// becomes.
func BenchmarkRecord(b *testing.B) {
	random := rand.New(rand.NewPCG(1, 2))
	cpus, nodes := topology.CPUs(0, 255), topology.Nodes(0, 1, 2, 3, 4, 5, 6, 7)
	var looks [][]workload.Observation
	for range 50 {
		var look []workload.Observation
		for i := range 300 {
			id := fmt.Sprintf("/system.slice/service-%03d.service", i)
			o := workload.Observation{ID: workload.ID(id), Name: id[14:], Kind: workload.InCgroup, Cgroup: id, Threads: 8, Window: 2 * time.Second,
				CPUTime: time.Duration(random.Uint32()) * time.Microsecond, CPUUse: 0.1 + 0.2*random.Float64(), RanOnFrom: workload.PerThread,
				Processes: []workload.Process{{PID: 1000 + 2*i, Start: uint64(5000 + i)}, {PID: 1001 + 2*i, Start: uint64(5001 + i)}},
				RanOn:     []workload.NodeShare{{Node: topology.NodeID(i % 8), Share: 1}},
				Memory:    []workload.NodeMemory{{Node: topology.NodeID(i % 8), KiB: topology.KiB(1<<20 + random.IntN(1<<12))}}, CPUs: cpus, Mems: nodes}
			o.Anon, o.Movable = o.Memory, o.Memory
			look = append(look, o)
		}
		looks = append(looks, look)
	}
	dir := b.TempDir()
	w, err := Create(dir, 1<<40)
	if err != nil {
		b.Fatal(err)
	}
	k := 0
	cpu := cpuTime(b)
	for b.Loop() {
		if err := w.Record(looks[k%len(looks)], func() any { return nil }); err != nil {
			b.Fatal(err)
		}
		k++
	}
	if err := w.Close(); err != nil {
		b.Fatal(err)
	}
	b.ReportMetric(float64(cpuTime(b)-cpu)/float64(k), "CPU-ns/op") // a busy machine does not change it
	names, _ := Files(dir)
	total := int64(0)
	for _, name := range names {
		info, err := os.Stat(name)
		if err != nil {
			b.Fatal(err)
		}
		total += info.Size()
	}
	b.ReportMetric(float64(total)/float64(k), "bytes/look")
}

func cpuTime(b *testing.B) time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
