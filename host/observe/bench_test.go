package observe

import (
	"context"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"syscall"
	"testing"
	"time"

	"github.com/homenode/homenode/core/topology"
)

// bigMachine has n cgroups of two processes each, one of them with threads threads.
func bigMachine(n, threads int, mem topology.KiB) *fakeMachine {
	m := newFake()
	m.group("/system.slice", fakeGroup{})
	for i := range n {
		path := fmt.Sprintf("/system.slice/app%03d.service", i)
		_, p := m.service(path, 1000+100*i, "app", mem)
		for range threads - 1 {
			p.threads = append(p.threads, fakeThread{cpus: "0-7", cpu: i % 8})
		}
		m.proc(1000+100*i+50, 1000+100*i, "helper", path, 2*mib)
		for line := range 300 { // as many mappings as an ordinary server has
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
		busy    bool
		open    func(string) fs.FS
	}{
		{"small", 1, 8 * mib, false, Root},
		{"idle", 1, 500 * mib, false, Root},
		{"busy-4-threads", 4, 500 * mib, true, Root},
		{"idle-dirfs", 1, 500 * mib, false, os.DirFS},
	} {
		b.Run(bb.name, func(b *testing.B) {
			m := bigMachine(300, bb.threads, bb.mem)
			dir := b.TempDir()
			m.write(b, dir)
			now, clock := jumpingClock()
			o := New(bb.open(dir), Options{
				Host: m.host, Free: func(fsys fs.FS, _ *topology.Host) (*topology.Host, error) { return m.host(fsys) },
				Now: clock, PageSize: 4,
			})
			o.Look(context.Background())
			if bb.busy { // as if each used a tenth of a CPU
				for _, l := range o.leaves {
					l.use = 0.1
				}
			}
			b.ReportAllocs()
			began := cpuUsed()
			for b.Loop() {
				*now += 2 * time.Second
				if bb.busy {
					for _, l := range o.leaves {
						l.usage -= 200 * time.Millisecond
					}
				}
				s, err := o.Look(context.Background())
				if want := 300; err != nil || (bb.mem > 64*mib) != (len(s.Observations) == want) {
					b.Fatal(err, len(s.Observations))
				}
			}
			perLook := (cpuUsed() - began).Seconds() / float64(b.N)
			b.ReportMetric(perLook*1000, "cpu-ms/op")
			b.ReportMetric(perLook/2*100, "%ofCPU@2s")
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
			o := New(Root("/"), opts)
			o.Look(context.Background())
			b.ReportAllocs()
			began := cpuUsed()
			for b.Loop() {
				*now += 2 * time.Second
				s, err := o.Look(context.Background())
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
	o := New(Root("/"), Options{})
	for b.Loop() {
		if _, err := o.numaMaps(pid); err != nil {
			b.Fatal(err)
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
