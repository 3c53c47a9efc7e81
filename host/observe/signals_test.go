package observe

import (
	"fmt"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/core/workload"
	"github.com/homenode/homenode/host/internal/perf"
	"github.com/homenode/homenode/host/internal/proc"
	"github.com/homenode/homenode/host/observe/files"
)

func signalOf(t tester, s workload.Snapshot, of workload.Source) workload.SourceStatus {
	t.Helper()
	for _, x := range s.Signals {
		if x.Source == of {
			return x
		}
	}
	t.Fatalf("nothing is said of %s", of)
	return workload.SourceStatus{}
}

// watching has the observer of a rig ask after the waits of one workload.
func (r *rig) watching(id workload.ID) *rig {
	r.with.Waits, r.with.Watched = true, map[workload.ID]bool{id: true}
	return r
}

const watchedService = "/system.slice/w1.service"

// TestCycles: of the watched workload alone cycles are counted, as totals, and only while it is
// watched; nothing is opened while nobody asks.
func TestCycles(t *testing.T) {
	pmu := &fakePMU{tick: func(string) (float64, float64, error) { return 3e9, 2e9, nil },
		refuse: func(_ string, p *perf.Pair) error {
			if p.Name != perf.Executed.Name {
				return syscall.ENOENT
			}
			return nil
		}}
	r := countRig(t, 3, pmu)
	r.look()
	r.run(time.Minute)
	if pmu.opened != 0 {
		t.Errorf("nobody watches, and %d counters were opened", pmu.opened)
	}
	r.watching(watchedService)
	for range 3 {
		r.run(signalEvery)
	}
	s := r.run(signalEvery / 2) // not read again so soon
	if got := find(t, s, watchedService).Executed; got != (workload.Executed{Cycles: 6e9, Instructions: 4e9}) {
		t.Errorf("executed %+v", got)
	}
	if got := find(t, s, "/system.slice/w0.service").Executed; got != (workload.Executed{}) || len(pmu.open) != 1 {
		t.Errorf("another one is counted, too: %+v, %d open", got, len(pmu.open))
	}
	if got := signalOf(t, s, workload.CPI); !got.Used || !strings.Contains(got.Text, "of 1 important workloads, 16 descriptors") {
		t.Errorf("%+v", got)
	}
	r.with.Watched = nil
	if r.run(time.Second); len(pmu.open) != 0 || r.o.signals.files != 0 {
		t.Errorf("no longer watched, and %d are open, %d descriptors", len(pmu.open), r.o.signals.files)
	}
	r.watching(watchedService)
	r.run(time.Second)
	r.o.Close()
	if len(pmu.open) != 0 {
		t.Error("something is open at the end")
	}
}

// TestCyclesDegrade: each reason why there is no CPI is told, and nothing stays open.
func TestCyclesDegrade(t *testing.T) {
	for name, tt := range map[string]struct {
		pmu   fakePMU
		looks int
		says  string
	}{
		"no PMU":        {fakePMU{refuse: func(string, *perf.Pair) error { return syscall.ENOENT }}, 3, "no such event"},
		"not allowed":   {fakePMU{refuse: func(string, *perf.Pair) error { return syscall.EACCES }}, 3, "CAP_PERFMON"},
		"by no cgroup":  {fakePMU{refuse: func(dir string, _ *perf.Pair) error { return map[bool]error{true: syscall.EINVAL}[dir != ""] }}, 8, "by cgroup: invalid argument"},
		"counts naught": {fakePMU{}, 20, "count nothing"},
	} {
		r := countRig(t, 2, &tt.pmu).watching(watchedService)
		r.look()
		var s workload.Snapshot
		for range tt.looks {
			s = r.run(signalEvery)
		}
		if got := signalOf(t, s, workload.CPI); got.Used || !strings.Contains(got.Text, tt.says) {
			t.Errorf("%s: %+v", name, got)
		}
		if got := find(t, s, watchedService).Executed; got != (workload.Executed{}) || r.o.signals.files != 0 {
			t.Errorf("%s: executed %+v, %d descriptors", name, got, r.o.signals.files)
		}
	}
	r := countRig(t, 1, &fakePMU{})
	if got := signalOf(t, r.look(), workload.CPI); got.Used || !strings.Contains(got.Text, "not asked for") {
		t.Errorf("%+v", got)
	}
}

// TestRunQueueWaits: where no cpu.pressure tells, the waits of a watched workload's threads do.
func TestRunQueueWaits(t *testing.T) {
	r := countRig(t, 3, &fakePMU{refuse: func(string, *perf.Pair) error { return syscall.ENOENT }}).watching(watchedService)
	r.procs[110].threads = append(r.procs[110].threads, fakeThread{cpus: "0-7"})
	file := func(tid int, ran, waited time.Duration) {
		r.more[fmt.Sprintf("proc/110/task/%d/schedstat", tid)] = fmt.Sprintf("%d %d 7\n", ran, waited)
	}
	file(110, time.Second, time.Second)
	file(111, time.Second, 0)
	r.look()
	r.run(signalEvery)
	file(110, time.Second, 6*time.Second) // half of the next ten
	file(111, time.Second, 2*time.Second) // a fifth of it
	s := r.run(signalEvery)
	o := find(t, s, watchedService)
	if o.WaitedFrom != workload.Schedstat || o.Waited < 0.599 || o.Waited > 0.601 {
		t.Errorf("waited %v by %q, want 1 - 0.5 × 0.8", o.Waited, o.WaitedFrom)
	}
	if o := find(t, s, "/system.slice/w0.service"); o.WaitedFrom != "" {
		t.Errorf("what nobody watches is read: %+v", o)
	}
	if psi, delay := signalOf(t, s, workload.PSI), signalOf(t, s, workload.Schedstat); psi.Used || !strings.Contains(psi.Text, "CONFIG_PSI") || !delay.Used {
		t.Errorf("%+v, %+v", psi, delay)
	}
	file(110, 0, 0)
	if s = r.run(signalEvery); !signalOf(t, s, workload.Schedstat).Used {
		t.Error("one thread that has not run yet: no other is believed")
	}
	file(111, 0, 0)
	if s = r.run(signalEvery); signalOf(t, s, workload.Schedstat).Used {
		t.Error("a kernel that keeps no waits is believed")
	}
	file(111, time.Second, 0)
	if s = r.run(signalEvery); !signalOf(t, s, workload.Schedstat).Used {
		t.Error("nobody is believed for good")
	}
	r.more["sys/fs/cgroup"+watchedService+"/cpu.pressure"] = "some avg10=20.00 avg60=0.00 avg300=0.00 total=5\n"
	if o := find(t, r.run(signalEvery), watchedService); o.WaitedFrom != workload.PSI || o.Waited != 0.2 {
		t.Errorf("cpu.pressure is there: %v by %q", o.Waited, o.WaitedFrom)
	}
}

// Time slices of busy work are counted over some ten seconds, by thread, whoever is watched; of
// what idles nothing is read.
func TestSlices(t *testing.T) {
	r := countRig(t, 3, &fakePMU{refuse: func(string, *perf.Pair) error { return syscall.ENOENT }})
	r.procs[110].threads = append(r.procs[110].threads, fakeThread{cpus: "0-7"}, fakeThread{cpus: "0-7"})
	file := func(tid int, ran, waited time.Duration, slices int) {
		r.more[fmt.Sprintf("proc/110/task/%d/schedstat", tid)] = fmt.Sprintf("%d %d %d\n", ran, waited, slices)
	}
	file(110, time.Second, 0, 100)
	file(111, time.Second, 0, 100)
	file(112, time.Second, 0, 100) // sleeps all the time
	r.look()
	r.run(slicesEvery)
	file(110, 3*time.Second, time.Second, 4100)   // 2 s in 4,000 slices, waits 1 s
	file(111, 4*time.Second, 2*time.Second, 1100) // 3 s in 1,000 slices, waits 2 s
	s := r.run(slicesEvery)
	o := find(t, s, watchedService)
	if want := (workload.Slices{PerSecond: 500, Mean: time.Millisecond, Waited: 0.38, Asleep: 0.6}); o.Slices != want {
		t.Errorf("%+v, want %+v", o.Slices, want)
	}
	file(110, 0, 0, 0) // other threads with their IDs
	file(111, 0, 0, 0)
	if o := find(t, r.run(slicesEvery), watchedService); o.Slices != (workload.Slices{}) {
		t.Errorf("of threads that began since: %+v", o.Slices)
	}
}

// vhost threads are found among QEMU's own threads (since Linux 6.4) and among the threads of the
// kernel (before), by the PID in their names; a process of that name is none.
func TestVhostThreads(t *testing.T) {
	r := countRig(t, 3, &fakePMU{refuse: func(string, *perf.Pair) error { return syscall.ENOENT }})
	k := r.proc(700, 2, "vhost-110", "/", 0)
	k.flags, k.threads[0].cpu = proc.KernelThread, 5
	r.proc(701, 1, "vhost-110", "/", 0)
	r.look()
	k.threads[0].ticks += 500
	s := r.run(slicesEvery)
	o := find(t, s, watchedService)
	if o.Vhost.Threads != 1 || o.Vhost.CPUUse < 0.4 || !o.Vhost.Nodes.Equal(topology.Nodes(1)) {
		t.Errorf("%+v", o.Vhost)
	}
	for comm, want := range map[string]int{"vhost-12": 12, "vhost-": 0, "vhost-x": 0, "vhost": 0, "vhost--3": 0} {
		if pid, is := vhostOwner([]byte(comm)); is != (want > 0) || is && pid != want {
			t.Errorf("%q: %d, %v", comm, pid, is)
		}
	}
}

// TestThrottled is the share of the periods in which a limit of its own held a cgroup back.
func TestThrottled(t *testing.T) {
	o, l := &Observer{files: files.Any{FS: newRig(t, newFake(), Options{}).fs}}, &leaf{path: "/a", dir: "nowhere"}
	o.signals.watched = map[workload.ID]bool{"/a": true}
	for _, tt := range []struct {
		stat string
		want float64
	}{{"nr_periods 100\nnr_throttled 10\n", 0.1}, {"nr_periods 200\nnr_throttled 60\n", 0.5}, {"nr_periods 300\nnr_throttled 60\n", 0}, {"nr_periods 3\nnr_throttled 2\n", 0}, {"", 0}} {
		if o.waited(l, []byte(tt.stat)); l.throttledShare != tt.want {
			t.Errorf("%q: %v, want %v", tt.stat, l.throttledShare, tt.want)
		}
	}
}
