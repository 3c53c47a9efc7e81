package observe

import (
	"context"
	"fmt"
	"math"
	"os"
	"os/exec"
	"runtime"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/homenode/homenode/core/control"
	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/core/workload"
	"github.com/homenode/homenode/host/internal/proc"
	"github.com/homenode/homenode/host/observe/files"
)

// TestMain lets the test binary be the child that the live test watches.
func TestMain(m *testing.M) {
	if os.Getenv("OBSERVE_CHILD") != "" {
		child()
	}
	if file := os.Getenv("OBSERVE_LOCKED"); file != "" {
		locked(file)
	}
	os.Exit(m.Run())
}

const childMiB = 128

// child takes 128 MiB and burns the CPU until it is ended or its parent is.
func child() {
	mem, err := syscall.Mmap(-1, 0, childMiB<<20, syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_PRIVATE|syscall.MAP_ANONYMOUS)
	if err != nil {
		os.Exit(1)
	}
	for i := 0; i < len(mem); i += 4096 {
		mem[i] = 1
	}
	fmt.Println("ready")
	runtime.LockOSThread()
	for began := time.Now(); time.Since(began) < time.Minute && os.Getppid() != 1; {
		for i := 0; i < 1<<26; i++ {
			mem[i%len(mem)]++
		}
	}
	os.Exit(0)
}

func startChild(t testing.TB) int {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), "OBSERVE_CHILD=1", "GOMAXPROCS=1")
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cmd.Process.Kill()
		cmd.Wait()
	})
	if _, err := out.Read(make([]byte, 6)); err != nil {
		t.Fatal(err)
	}
	return cmd.Process.Pid
}

// cpuTime is what the kernel charged a process, from the coarse figures of stat.
func cpuTime(t *testing.T, pid int) time.Duration {
	t.Helper()
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		t.Fatal(err)
	}
	s, err := proc.ParseStat(b)
	if err != nil {
		t.Fatal(err)
	}
	return ticksDuration(s.Ticks)
}

// onlyChild is a machine on which one process runs, whatever else this one has.
type onlyChild struct {
	files.Reader
	pid int
}

func (c onlyChild) Numbers(dir string, out []int) ([]int, error) {
	if dir == "proc" {
		return append(out, c.pid), nil
	}
	return c.Reader.Numbers(dir, out)
}

func TestLiveChild(t *testing.T) {
	if testing.Short() {
		t.Skip("takes 1.5 s")
	}
	pid := startChild(t)
	o := New(files.Root("/"), Options{})
	o.files = onlyChild{o.files, pid}
	o.topKnown = true // process mode, whatever this machine has: in a cgroup the child is not alone
	if _, err := o.Look(context.Background(), control.Attention{}); err != nil {
		t.Fatal(err)
	}
	began, before := time.Now(), cpuTime(t, pid)
	time.Sleep(1500 * time.Millisecond)
	s, err := o.Look(context.Background(), control.Attention{})
	if err != nil {
		t.Fatal(err)
	}
	used := (cpuTime(t, pid) - before).Seconds() / time.Since(began).Seconds()
	var obs *workload.Observation
	for i := range s.Observations {
		for _, p := range s.Observations[i].Processes {
			if p.PID == pid {
				obs = &s.Observations[i]
			}
		}
	}
	if obs == nil {
		t.Fatalf("child %d is in no workload; problems: %v", pid, s.Problems)
	}
	if math.Abs(obs.CPUUse-used) > 0.1 {
		t.Errorf("CPU use %.3f, want %.3f ± 0.1", obs.CPUUse, used)
	}
	anon := workload.Total(obs.Anon)
	if anon < childMiB<<10 || anon > (childMiB+32)<<10 {
		t.Errorf("anonymous memory %d KiB, want %d MiB to 32 MiB more", anon, childMiB)
	}
	if all := workload.Total(obs.Memory); all < anon {
		t.Errorf("memory %d KiB is below its anonymous part %d", all, anon)
	}
	if obs.RanOnFrom != workload.PerThread {
		t.Errorf("ran on %v from %q, want from threads", obs.RanOn, obs.RanOnFrom)
	}
	if obs.Pinned || !obs.CPUs.Equal(s.Host.Online) {
		t.Errorf("pinned %v to %s", obs.Pinned, obs.CPUs)
	}
	if obs.Threads < 1 || obs.Window < 1400*time.Millisecond || obs.CPUTime < before {
		t.Errorf("threads %d, window %v, CPU time %v", obs.Threads, obs.Window, obs.CPUTime)
	}
	var sum topology.KiB
	for _, n := range s.Host.Nodes {
		sum += n.Memory
	}
	if u := workload.Total(s.Unmanaged); u <= 0 || u >= sum {
		t.Errorf("unmanaged %d KiB of %d", u, sum)
	}
	if s.Host.Online.Len() < 2 {
		return
	}
	var one unix.CPUSet
	one.Set(int(obs.CPUs.Max()))
	if err := unix.SchedSetaffinity(pid, &one); err != nil {
		t.Fatal(err)
	}
	o = New(files.Root("/"), Options{})
	o.files, o.topKnown = onlyChild{o.files, pid}, true
	if s, err = o.Look(context.Background(), control.Attention{}); err != nil || len(s.Observations) != 1 || !s.Observations[0].Pinned {
		t.Errorf("a thread is pinned: %+v %v", s.Observations, err)
	}
}

func BenchmarkLookLive(b *testing.B) {
	for _, fsys := range []struct {
		name string
		o    *Observer
	}{
		{"root", New(files.Root("/"), Options{SelfPID: os.Getpid()})},
		{"dirfs", New(os.DirFS("/"), Options{SelfPID: os.Getpid()})},
	} {
		b.Run(fsys.name, func(b *testing.B) {
			b.ReportAllocs()
			var s workload.Snapshot
			for b.Loop() {
				var err error
				if s, err = fsys.o.Look(context.Background(), control.Attention{}); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(len(s.Observations)), "workloads")
			b.ReportMetric(float64(len(fsys.o.procs)), "processes")
		})
	}
}

// The affinity of a thread is what it was given, above CPU 63 as well.
