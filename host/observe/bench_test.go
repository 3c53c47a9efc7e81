package observe

import (
	"context"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"runtime"
	"syscall"
	"testing"
	"time"

	"github.com/homenode/homenode/core/control"
	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/core/workload"
	"github.com/homenode/homenode/host/observe/files"
)

// benchUsage is the CPU time that each cgroup has used.
const benchUsage = 20 * time.Second

// bigMachine has n cgroups of two processes each, one of them with threads threads.
// Each numa_maps has lines mappings of libraries.
func bigMachine(n, threads, lines int, mem topology.KiB) *fakeMachine {
	m := newFake()
	m.group("/system.slice", fakeGroup{})
	for i := range n {
		path := fmt.Sprintf("/system.slice/app%04d.service", i)
		g, p := m.service(path, 1000+100*i, "app", mem)
		g.usage = benchUsage
		for range threads - 1 {
			p.threads = append(p.threads, fakeThread{cpus: "0-7", cpu: i % 8})
		}
		m.proc(1000+100*i+50, 1000+100*i, "helper", path, 2*mib)
		for line := range lines {
			p.maps += fmt.Sprintf("7f%06x000 default file=/usr/lib/x86_64-linux-gnu/lib%d.so mapped=16 mapmax=40 N0=8 N1=8 kernelpagesize_kB=4\n", line, line/4)
		}
	}
	return m
}

// BenchmarkLook300 looks at 300 cgroups with 600 processes on disk, 2 s of the
// Observer's own clock apart. Of the fake machine's files a kernel would make the
// text anew on each read; BenchmarkLookSleepers has that cost.
func BenchmarkLook300(b *testing.B) {
	for _, bb := range []struct {
		name    string
		threads int
		mem     topology.KiB
		use     float64         // of each workload
		by      workload.Source // of locality, besides residence
		open    func(string) fs.FS
	}{
		{"small", 1, 8 * mib, 0, "", files.Root},
		{"idle", 1, 500 * mib, 0, "", files.Root},
		{"busy-4-threads", 4, 500 * mib, 0.1, "", files.Root},
		{"busy-waits", 4, 500 * mib, 0.1, "", files.Root},
		{"busy-counted", 4, 500 * mib, 0.3, workload.Counters, files.Root},
		{"busy-sampled", 4, 500 * mib, 0.3, workload.Hints, files.Root},
		{"idle-dirfs", 1, 500 * mib, 0, "", os.DirFS},
	} {
		b.Run(bb.name, func(b *testing.B) {
			m := bigMachine(300, bb.threads, 300, bb.mem) // as many mappings as an ordinary server has
			dir := b.TempDir()
			if bb.by != "" {
				m.addSources(bb.by)
			}
			watched := map[workload.ID]bool{}
			if bb.name == "busy-waits" { // a fifth is important
				m.more = map[string]string{}
				for path := range m.groups {
					if len(watched) < 60 {
						watched[workload.ID(path)] = true
					}
					m.more["sys/fs/cgroup"+path+"/cpu.pressure"] = "some avg10=7.00 avg60=0.00 avg300=0.00 total=5\nfull avg10=0.00 avg60=0.00 avg300=0.00 total=5\n"
				}
			}
			m.write(b, dir)
			now, clock := jumpingClock()
			o := New(bb.open(dir), Options{
				Host: m.host, Free: func(fsys fs.FS, _ *topology.Host) (*topology.Host, error) { return m.host(fsys) },
				Now: clock, PageSize: 4,
			})
			if bb.by == workload.Counters {
				o.counters.opener = &fakePMU{each: time.Microsecond, tick: func(string) (float64, float64, error) { return 1e6, 1e5, nil }}
			}
			o.Look(context.Background(), control.Attention{ConcernAttention: control.ConcernAttention{Waits: len(watched) > 0, Watched: watched}})
			counted := map[workload.ID]bool{}
			b.ReportAllocs()
			began := cpuUsed()
			for b.Loop() {
				*now += 2 * time.Second
				for _, l := range o.leaves { // as if the look before had seen less
					l.usage = benchUsage - time.Duration(bb.use*2*float64(time.Second))
				}
				s, err := o.Look(context.Background(), control.Attention{ConcernAttention: control.ConcernAttention{Waits: len(watched) > 0, Watched: watched}})
				if want := 300; err != nil || (bb.mem > 64*mib) != (len(s.Observations) == want) {
					b.Fatal(err, len(s.Observations))
				}
				for i := range s.Observations {
					if s.Observations[i].Accesses.From == bb.by && bb.by != "" {
						counted[s.Observations[i].ID] = true
					}
				}
			}
			perLook := (cpuUsed() - began).Seconds() / float64(b.N)
			b.ReportMetric(perLook*1000, "cpu-ms/op")
			b.ReportMetric(perLook/2*100, "%ofCPU@2s")
			if bb.by != "" {
				b.ReportMetric(float64(len(counted)), "told")
			}
		})
	}
}

// addSources gives the machine what the sources of locality need.
func (m *fakeMachine) addSources(by workload.Source) {
	m.more = map[string]string{"proc/cpuinfo": xeon, "proc/stat": "cpu 1 2 3 4 5 6 7 8\n"}
	for cpu := range 8 {
		m.more["proc/stat"] += fmt.Sprintf("cpu%d 100 0 100 1000 0 0 0 0 0 0\n", cpu)
	}
	if by != workload.Hints {
		return
	}
	m.more["proc/sys/kernel/numa_balancing"] = "1\n"
	stat := ""
	for i := range 60 { // as long as the real one
		stat += fmt.Sprintf("some_counter_%d 123456\n", i)
	}
	for path := range m.groups {
		m.more["sys/fs/cgroup"+path+"/memory.stat"] = stat + "numa_pages_migrated 0\n"
	}
	for pid, p := range m.procs {
		for i := range p.threads {
			m.more[fmt.Sprintf("proc/%d/task/%d/sched", pid, pid+i)] = schedFile(9, i%2, 5000, 3000)
		}
	}
}

// BenchmarkLookGrowth looks at 100, 1,000 and 5,000 idle workloads; heap is what the
// Observer keeps.
func BenchmarkLookGrowth(b *testing.B) {
	for _, n := range []int{100, 1000, 5000} {
		b.Run(fmt.Sprintf("workloads=%d", n), func(b *testing.B) {
			dir := b.TempDir()
			bigMachine(n, 1, 10, 500*mib).write(b, dir)
			m := newFake()
			now, clock := jumpingClock()
			heap := func() float64 {
				runtime.GC()
				var s runtime.MemStats
				runtime.ReadMemStats(&s)
				return float64(s.HeapAlloc)
			}
			before := heap()
			o := New(files.Root(dir), Options{
				Host: m.host, Free: func(fsys fs.FS, _ *topology.Host) (*topology.Host, error) { return m.host(fsys) },
				Now: clock, PageSize: 4,
			})
			o.Look(context.Background(), control.Attention{})
			b.ReportAllocs()
			began := cpuUsed()
			for b.Loop() {
				*now += 2 * time.Second
				if s, err := o.Look(context.Background(), control.Attention{}); err != nil || len(s.Observations) != n {
					b.Fatal(err, len(s.Observations))
				}
			}
			perLook := (cpuUsed() - began).Seconds() / float64(b.N)
			b.ReportMetric(perLook*1000, "cpu-ms/op")
			b.ReportMetric(perLook/2*100, "%ofCPU@2s")
			b.ReportMetric((heap()-before)/float64(n), "heap-B/workload")
			runtime.KeepAlive(o)
		})
	}
}

// BenchmarkLookSleepers looks at 600 live processes, each reported as a workload.
func BenchmarkLookSleepers(b *testing.B) {
	for _, reported := range []bool{false, true} {
		b.Run(fmt.Sprintf("reported=%v", reported), func(b *testing.B) {
			for range 600 {
				cmd := exec.Command("sleep", "1000")
				if err := cmd.Start(); err != nil {
					b.Skip(err)
				}
				defer cmd.Wait()
				defer cmd.Process.Kill()
			}
			now, clock := jumpingClock()
			opts := Options{SelfPID: os.Getpid(), Now: clock}
			if reported {
				opts.MinMemory = 100
			}
			o := New(files.Root("/"), opts)
			o.Look(context.Background(), control.Attention{})
			b.ReportAllocs()
			began := cpuUsed()
			for b.Loop() {
				*now += 2 * time.Second
				s, err := o.Look(context.Background(), control.Attention{})
				if err != nil || reported != (len(s.Observations) >= 600) {
					b.Fatal(err, len(s.Observations))
				}
			}
			perLook := (cpuUsed() - began).Seconds() / float64(b.N)
			b.ReportMetric(perLook*1000, "cpu-ms/op")
			b.ReportMetric(perLook/2*100, "%ofCPU@2s")
		})
	}
}

// BenchmarkNUMAMaps reads the numa_maps of a process with 128 MiB in small pages.
func BenchmarkNUMAMaps(b *testing.B) {
	pid := startChild(b)
	o := New(files.Root("/"), Options{})
	for b.Loop() {
		r := &reading{}
		if o.maps.read(o.fsys, pid, r); r.err != nil {
			b.Fatal(r.err)
		}
	}
}

// jumpingClock is the real clock, ahead by what is added to skipped: what is timed
// takes its time, and two looks are apart as in the daemon.
func jumpingClock() (skipped *time.Duration, now func() time.Time) {
	skipped = new(time.Duration)
	return skipped, func() time.Time { return time.Now().Add(*skipped) }
}

func cpuUsed() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
