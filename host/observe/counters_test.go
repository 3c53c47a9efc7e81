package observe

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/homenode/homenode/core/workload"
	"github.com/homenode/homenode/host/internal/perf"
	"github.com/homenode/homenode/host/internal/proc"
)

// fakePMU is an Opener whose counters tick as they are told.
type fakePMU struct {
	refuse func(dir string, p *perf.Pair) error // may be nil
	none   error                                // of On
	few    int                                  // events that open all the same
	// tick is what one reading of a cgroup gives.
	tick           func(dir string) (first, second float64, err error)
	on             float64 // what one reading of an event gives
	opened, closed int
	open           map[*fakeCounter]bool
	files, most    int
	each           time.Duration // what opening, reading or closing costs a CPU, spun
}

func (m *fakePMU) spin(cpus int) {
	if m.each > 0 {
		for began := time.Now(); time.Since(began) < m.each*time.Duration(cpus); {
		}
	}
}

type fakeCounter struct {
	m     *fakePMU
	dir   string
	files int
	event bool
}

func (m *fakePMU) add(c *fakeCounter) (perf.Counter, error) {
	if m.open == nil {
		m.open = map[*fakeCounter]bool{}
	}
	m.open[c] = true
	m.spin(8 * c.files / 2) // opening costs more than reading
	m.opened, m.files = m.opened+1, m.files+c.files
	m.most = max(m.most, m.files)
	return c, nil
}

func (m *fakePMU) Cgroup(dir string, cpus []int, p *perf.Pair) (perf.Counter, error) {
	if m.refuse != nil {
		if err := m.refuse(dir, p); err != nil {
			return nil, err
		}
	}
	return m.add(&fakeCounter{m: m, dir: dir, files: 2 * len(cpus)})
}

func (m *fakePMU) On(cpu int, e perf.Event) (perf.Counter, error) {
	if m.few--; m.none != nil && m.few < 0 {
		return nil, m.none
	}
	return m.add(&fakeCounter{m: m, files: 1, event: true})
}

func (c *fakeCounter) Read() (first, second float64, err error) {
	if !c.m.open[c] {
		return 0, 0, errors.New("read after close")
	}
	if c.event {
		return c.m.on, 0, nil
	}
	c.m.spin(2 * c.files / 2)
	if c.m.tick == nil {
		return 0, 0, nil
	}
	return c.m.tick(c.dir)
}

func (c *fakeCounter) Close() error {
	if !c.m.open[c] {
		return errors.New("closed twice")
	}
	c.m.spin(4 * c.files / 2)
	delete(c.m.open, c)
	c.m.closed, c.m.files = c.m.closed+1, c.m.files-c.files
	return nil
}

// xeon is Skylake-SP, which has two pairs of events.
const xeon = "processor\t: 0\nvendor_id\t: GenuineIntel\ncpu family\t: 6\nmodel\t\t: 85\n\nprocessor\t: 1\nmodel\t: 1\n"

// countRig has a PMU, and n services that keep half a CPU busy when run.
func countRig(t tester, n int, pmu *fakePMU) *rig {
	m := newFake()
	m.more = map[string]string{"proc/cpuinfo": xeon}
	m.group("/system.slice", fakeGroup{})
	for i := range n {
		m.service(fmt.Sprintf("/system.slice/w%d.service", i), 100+10*i, "w", 100*mib)
	}
	r := newRig(t, m, Options{})
	r.o.counters.opener = pmu
	return r
}

// run lets d pass with every service busy for half of it.
func (r *rig) run(d time.Duration) workload.Snapshot {
	for _, g := range r.groups {
		g.usage += d / 2
	}
	return r.after(d)
}

func sourceOf(t tester, s workload.Snapshot, of workload.Source) workload.SourceStatus {
	t.Helper()
	for _, x := range s.Sources {
		if x.Source == of {
			return x
		}
	}
	t.Fatalf("nothing is said of %s", of)
	return workload.SourceStatus{}
}

func TestCountersTellLocality(t *testing.T) {
	pmu := &fakePMU{tick: func(string) (float64, float64, error) { return 3_000_000, 1_000_000, nil }}
	r := countRig(t, 1, pmu)
	s := r.look()
	w := find(t, s, "/system.slice/w0.service")
	if _, from, _ := w.LocalShare(); from != workload.Residence {
		t.Errorf("locality from %q on the first look", from)
	}
	r.run(2 * time.Second) // opened
	s = r.run(2 * time.Second)
	w = find(t, s, "/system.slice/w0.service")
	if share, from, ok := w.LocalShare(); !ok || from != workload.Counters || share != 0.75 {
		t.Errorf("local share %v from %q, want 0.75 from counters", share, from)
	}
	if w.Accesses.PerSecond != 2_000_000 {
		t.Errorf("%v accesses a second, want 2,000,000", w.Accesses.PerSecond)
	}
	if st := sourceOf(t, s, workload.Counters); !st.Used || !strings.Contains(st.Text, "node-loads") {
		t.Errorf("status %+v", st)
	}

	// Pages were moved: what was counted before says nothing, and the next reading is in part from before.
	r.o.Stale(w.ID)
	if w = find(t, r.run(2*time.Second), w.ID); w.Accesses.From != "" {
		t.Errorf("counted %+v right after a move", w.Accesses)
	}
	if w = find(t, r.run(2*time.Second), w.ID); w.Accesses.From != workload.Counters {
		t.Errorf("not counted again: %+v", w.Accesses)
	}

	// It is sent to other CPUs: what was counted on those before says nothing.
	r.groups["/system.slice/w0.service"].cpus = "4-7"
	r.o.Changed(w.ID)
	if w = find(t, r.run(2*time.Second), w.ID); w.Accesses.From != "" {
		t.Errorf("counted %+v on other CPUs", w.Accesses)
	}
	r.run(2 * time.Second)
	if w = find(t, r.run(2*time.Second), w.ID); w.Accesses.From != workload.Counters {
		t.Errorf("not counted on its new CPUs: %+v", w.Accesses)
	}

	// Idle: its counter is given back, and the figure ages.
	r.after(2 * time.Second)
	if len(pmu.open) != 0 {
		t.Errorf("%d counters open for idle work", len(pmu.open))
	}
	if w = find(t, r.after(countOld), w.ID); w.Accesses.From != "" {
		t.Errorf("an old figure stands: %+v", w.Accesses)
	}
}

func TestCountersDegrade(t *testing.T) {
	for _, tt := range []struct {
		name   string
		pmu    fakePMU
		cpu    string
		looks  int
		used   bool
		says   string
		opened int // left open
	}{
		{name: "no PMU", pmu: fakePMU{refuse: func(string, *perf.Pair) error { return syscall.ENOENT }}, looks: 3, says: "no such event"},
		{name: "not allowed", pmu: fakePMU{refuse: func(string, *perf.Pair) error { return syscall.EACCES }}, looks: 3, says: "CAP_PERFMON"},
		{name: "unknown processor", cpu: "vendor_id\t: Who\n", looks: 3, says: "no events are known for this processor (Who"},
		{name: "only the raw pair opens", looks: 3, used: true, says: "mem_load_l3_miss_retired", opened: 1,
			pmu: fakePMU{refuse: func(_ string, p *perf.Pair) error {
				if strings.Contains(p.Name, "node-loads") {
					return syscall.ENOENT
				}
				return nil
			}}},
		{name: "not by cgroup", looks: 12, says: "by cgroup: invalid argument", pmu: fakePMU{refuse: func(dir string, _ *perf.Pair) error {
			if dir != "" {
				return syscall.EINVAL
			}
			return nil
		}}},
		{name: "opens and counts nothing", looks: 200, says: "counts nothing"},
		{name: "too few descriptors", looks: 5, used: true, pmu: fakePMU{refuse: func(dir string, _ *perf.Pair) error {
			if dir != "" {
				return syscall.EMFILE
			}
			return nil
		}}},
		{name: "cannot be read", looks: 5, used: true, says: "node-loads", pmu: fakePMU{tick: func(string) (float64, float64, error) { return 0, 0, syscall.EIO }}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := countRig(t, 1, &tt.pmu)
			if tt.cpu != "" {
				r.more["proc/cpuinfo"] = tt.cpu
			}
			s := r.look()
			for range tt.looks {
				s = r.run(2 * time.Second)
			}
			st := sourceOf(t, s, workload.Counters)
			if st.Used != tt.used || !strings.Contains(st.Text, tt.says) {
				t.Errorf("status %+v, want used %v and %q", st, tt.used, tt.says)
			}
			if w := find(t, s, "/system.slice/w0.service"); w.Accesses.From != "" {
				t.Errorf("figure %+v", w.Accesses)
			}
			if n := tt.pmu.opened - tt.pmu.closed; tt.name != "cannot be read" && n != tt.opened {
				t.Errorf("%d counters stay open, want %d", n, tt.opened)
			}
		})
	}
}

// TestCountersTakeTurns: more busy work than descriptors; all of it is counted in time.
func TestCountersTakeTurns(t *testing.T) {
	pmu := &fakePMU{tick: func(string) (float64, float64, error) { return 1e6, 1e6, nil }}
	n := countFiles/16 + 40
	r := countRig(t, n, pmu)
	r.look()
	counted := map[workload.ID]bool{}
	for range 20 {
		for _, o := range r.run(2 * time.Second).Observations {
			if o.Accesses.From == workload.Counters {
				counted[o.ID] = true
			}
		}
	}
	if len(counted) != n {
		t.Errorf("%d of %d were counted", len(counted), n)
	}
	if pmu.most > countFiles {
		t.Errorf("%d descriptors at once, want at most %d", pmu.most, countFiles)
	}
	r.o.Close()
	if pmu.opened != pmu.closed || r.o.counters.files != 0 {
		t.Errorf("%d opened, %d closed; %d descriptors on the books", pmu.opened, pmu.closed, r.o.counters.files)
	}
}

// TestCountersLeakNothing: cgroups come and go, CPUs are taken and given, opening and
// reading fail; in the end nothing is open that is not on the books.
func TestCountersLeakNothing(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var failing map[string]bool
		pmu := &fakePMU{
			refuse: func(dir string, _ *perf.Pair) error {
				if failing[dir] {
					return syscall.ENODEV
				}
				return nil
			},
			tick: func(dir string) (float64, float64, error) {
				if failing[dir] {
					return 0, 0, syscall.EIO
				}
				return 5e5, 1e5, nil
			},
		}
		r := countRig(t, 0, pmu)
		r.look()
		for range rapid.IntRange(1, 25).Draw(t, "looks") {
			failing = map[string]bool{}
			for i := range 6 {
				path := fmt.Sprintf("/system.slice/w%d.service", i)
				g := r.groups[path]
				switch rapid.IntRange(0, 5).Draw(t, path) {
				case 0:
					delete(r.groups, path)
					delete(r.procs, 100+10*i)
				case 1:
					if g == nil {
						r.service(path, 100+10*i, "w", 100*mib)
					}
				case 2:
					if g != nil {
						g.cpus = rapid.SampledFrom([]string{"0-3", "4-7", "0-7", "2"}).Draw(t, "cpus")
					}
				case 3:
					failing["/sys/fs/cgroup"+path] = true
				}
			}
			r.run(rapid.SampledFrom([]time.Duration{10 * time.Millisecond, 2 * time.Second, 15 * time.Second}).Draw(t, "pause"))
			files := 0
			for _, w := range r.o.works {
				if k := w.access.count; k != nil {
					files += 2 * k.cpus.Len()
				}
			}
			if files != pmu.files || files != r.o.counters.files {
				t.Fatalf("%d descriptors are open, workloads have %d, the books say %d", pmu.files, files, r.o.counters.files)
			}
		}
		r.o.Close()
		if pmu.opened != pmu.closed || len(pmu.open) != 0 {
			t.Fatalf("%d opened, %d closed", pmu.opened, pmu.closed)
		}
	})
}

func schedFile(scans, node int, faults ...int) string {
	b := fmt.Sprintf("w (100, #threads: 1)\n-----\nse.exec_start  :  12.5\nmm->numa_scan_seq                            :%21d\nnuma_pages_migrated  :  3\ncurrent_node=%d, numa_group_id=0\n", scans, node)
	for n, f := range faults {
		b += fmt.Sprintf("numa_faults node=%d task_private=%d task_shared=%d group_private=900 group_shared=7\n", n, f-f/3, f/3)
	}
	return b
}

func TestHints(t *testing.T) {
	m := newFake()
	m.more = map[string]string{
		"proc/sys/kernel/numa_balancing":                   "1\n",
		"proc/vmstat":                                      "nr_free_pages 3\nnuma_hint_faults 1000\nnuma_hint_faults_local 500\n",
		"sys/fs/cgroup/system.slice/a.service/memory.stat": "anon 1\nnuma_hint_faults 10\n",
		"proc/100/task/100/sched":                          schedFile(20, 0, 300, 100),
		"proc/100/task/101/sched":                          schedFile(20, 1, 300, 100),
	}
	m.group("/system.slice", fakeGroup{})
	_, p := m.service("/system.slice/a.service", 100, "a", 100*mib)
	p.threads = append(p.threads, fakeThread{cpus: "0-7", cpu: 4})
	r := newRig(t, m, Options{})
	r.look()
	s := r.run(2 * time.Second)
	w := find(t, s, "/system.slice/a.service")
	if share, from, _ := w.LocalShare(); from != workload.Hints || share != 0.5 {
		t.Errorf("local share %v from %q, want 0.5 from hints", share, from)
	}
	if w.Accesses.PerSecond != 0 {
		t.Errorf("samples are no counts: %v a second", w.Accesses.PerSecond)
	}
	if st := sourceOf(t, s, workload.Hints); !st.Used {
		t.Errorf("status %+v", st)
	}

	// Its pages are moved. The samples are from before until three scans have passed.
	r.o.Stale(w.ID)
	m.more["sys/fs/cgroup/system.slice/a.service/memory.stat"] = "numa_hint_faults 20\n"
	if w = find(t, r.run(hintsEvery), w.ID); w.Accesses.From != "" {
		t.Errorf("samples from before a move count: %+v", w.Accesses)
	}
	m.more["proc/100/task/100/sched"] = schedFile(23, 0, 300, 0)
	m.more["proc/100/task/101/sched"] = schedFile(23, 1, 300, 0)
	m.more["sys/fs/cgroup/system.slice/a.service/memory.stat"] = "numa_hint_faults 30\n"
	m.more["proc/vmstat"] = "numa_hint_faults 1100\nnuma_hint_faults_local 590\n"
	s = r.run(hintsEvery)
	if w = find(t, s, w.ID); w.Accesses.From != workload.Hints || w.Accesses.Local != 0.5 {
		t.Errorf("%+v, want half local", w.Accesses)
	}
	if st := sourceOf(t, s, workload.Hints); !strings.Contains(st.Text, "90 %") {
		t.Errorf("status %+v, want 90 %% of the machine's faults local", st)
	}

	// The kernel no longer samples it.
	if w = find(t, r.run(hintsEvery), w.ID); w.Accesses.From != "" {
		t.Errorf("no fault since, and yet %+v", w.Accesses)
	}
	// Too few faults say nothing.
	m.more["sys/fs/cgroup/system.slice/a.service/memory.stat"] = "numa_hint_faults 40\n"
	m.more["proc/100/task/100/sched"] = schedFile(24, 0, 20, 0)
	m.more["proc/100/task/101/sched"] = schedFile(24, 1, 20, 0)
	if w = find(t, r.run(hintsEvery), w.ID); w.Accesses.From != "" {
		t.Errorf("40 faults make %+v", w.Accesses)
	}
	m.more["proc/sys/kernel/numa_balancing"] = "0\n"
	if st := sourceOf(t, r.run(hintsEvery), workload.Hints); st.Used || !strings.Contains(st.Text, "numa_balancing is 0") {
		t.Errorf("status %+v", st)
	}
}

func TestNodeUse(t *testing.T) {
	stat := func(busy ...int) string {
		b := "cpu  1 2 3 4 5 6 7 8 9 10\n"
		for cpu, n := range busy {
			b += fmt.Sprintf("cpu%d %d 0 0 %d 0 0 0 5 0 0\n", cpu, n, 1000-n)
		}
		return b + "intr 12345 1 2\nctxt 9\n"
	}
	m := newFake()
	m.more = map[string]string{
		"proc/stat":            stat(0, 0, 0, 0, 0, 0, 0, 0),
		"proc/pressure/memory": "some avg10=1.50 avg60=0.00 avg300=0.00 total=5\nfull avg10=0.25 avg60=0.00 avg300=0.00 total=3\n",
		"proc/pressure/cpu":    "some avg10=7.00 avg60=0.00 avg300=0.00 total=5\n",
	}
	r := newRig(t, m, Options{})
	if s := r.look(); s.Nodes != nil {
		t.Errorf("one look says %+v", s.Nodes)
	}
	// As the counters stand 20 s later: 2,000 ticks. The counts of busy ticks are ignored.
	m.more["proc/stat"] = "cpu  0\n" +
		"cpu0 1000 0 0 1000 0 0 0 5 0 0\ncpu1 500 500 0 1000 1000 0 0 5 0 0\ncpu2 0 0 0 3000 0 0 0 5 0 0\ncpu3 0 0 0 3000 0 0 0 5 0 0\n" +
		"cpu4 0 0 0 3000 0 0 0 5 0 0\ncpu5 0 0 0 3000 0 0 0 5 0 0\ncpu6 0 0 250 2750 0 0 0 5 0 0\ncpu7 0 0 0 3000 0 0 0 5 0 0\n"
	s := r.after(20 * time.Second)
	if len(s.Nodes) != 2 || s.Nodes[0].CPUUse != 1.5 || s.Nodes[1].CPUUse != 0.125 {
		t.Errorf("use of nodes %+v, want 1.5 and 0.125 CPUs", s.Nodes)
	}
	if s.Nodes[0].Bandwidth >= 0 || s.Nodes[0].BandwidthFrom != "" {
		t.Errorf("bandwidth %+v without a counter", s.Nodes[0])
	}
	if want := (workload.Pressure{Resource: "memory", Some: 1.5, Full: 0.25}); len(s.Pressure) != 2 || s.Pressure[1] != want {
		t.Errorf("pressure %+v, want cpu and %+v", s.Pressure, want)
	}
}

// Steal, idle and waiting are no use of a CPU; what is no line of one CPU tells nothing.
func TestCPUTicks(t *testing.T) {
	text := "cpu  1 2 3 4 5 6 7 8 9 10\ncpu0 1 2 4 8 16 32 64 128 256 512\ncpu2 1 1 1 1 1 1 1\n" +
		"cpu9 1 1 1 1 1 1 1 1\ncpux 1 1 1 1 1 1 1 1\ncpu 1 1 1 1 1 1 1 1\n" +
		"cpu1 1 2 4 99999999999999999999 16 32 64 128\ncpu3 1 2 4 8 16 32 64 1125899906842625\nintr 1\n" +
		"cpu2 9 9 9 9 9 9 9 9\n"
	want := []cpuTicks{{8 + 16 + 128, true}, {}, {}, {}}
	got := parseCPUTicks([]byte(text), 4)
	for i := range got {
		if !got[i].known {
			got[i].off = 0
		}
	}
	if !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
	second := func(ticks uint64) cpuTicks { return cpuTicks{ticks, true} }
	for _, tt := range []struct {
		before, now cpuTicks
		elapsed     time.Duration
		want        float64
	}{
		{second(10), second(85), time.Second, 0.25},
		{second(10), second(110), time.Second, 0},
		{second(10), second(210), 1600 * time.Millisecond, -0.25}, // more ticks than there was time
		{second(100), second(97), time.Second, 0},                 // it was off
		{second(10), second(10), time.Second, 1},
		{second(10), second(9), time.Second, 1}, // may go back by one
		{second(10), second(60), 0, 0},
		{second(10), second(60), -time.Second, 0},
		{cpuTicks{}, second(60), time.Second, 0}, // it came
		{second(10), cpuTicks{}, time.Second, 0}, // it went
	} {
		if got := tt.now.since(tt.before, tt.elapsed); got != tt.want {
			t.Errorf("from %v to %v in %v: %v, want %v", tt.before, tt.now, tt.elapsed, got, tt.want)
		}
	}
}

// With Sub-NUMA Clustering a cache counts for each of its nodes.
func TestTrafficOfClusters(t *testing.T) {
	m := newFake()
	m.more = map[string]string{}
	const mb = 1 << 20
	count := func(n int) {
		for node := range 2 {
			dir := fmt.Sprintf("sys/fs/resctrl/mon_data/mon_L3_00/mon_sub_L3_0%d", node)
			m.more[dir+"/mbm_local_bytes"] = fmt.Sprintln(n * (node + 1) * 20 * mb)
		}
		m.more["sys/fs/resctrl/mon_data/mon_L3_00/mbm_local_bytes"] = fmt.Sprintln(n * 999 * mb) // of both
		m.more["sys/fs/resctrl/mon_data/other/mbm_local_bytes"] = fmt.Sprintln(n * 999 * mb)
	}
	r := newRig(t, m, Options{})
	count(1)
	r.look()
	count(2)
	s := r.after(2 * time.Second)
	for i, want := range []int64{10, 20} {
		if n := s.Nodes[i]; n.Bandwidth != want || n.BandwidthFrom != workload.MBM {
			t.Errorf("node %d: %d MiB/s from %q, want %d", i, n.Bandwidth, n.BandwidthFrom, want)
		}
	}
}

// Threads are asked in turn, so many at a time; one without others is its process.
func TestThreadsAreAskedInTurn(t *testing.T) {
	var many []threadTicks
	for tid := 20; tid < 30; tid++ {
		many = append(many, threadTicks{tid: tid})
	}
	w := &work{procs: []*process{{pid: 5}, {pid: 20, seenTicks: many}}}
	for turn, want := range map[int]string{0: "5 20 21 22 23 24 25 26", 8: "27 28 29 5 20 21 22 23", 11: "5 20 21 22 23 24 25 26"} {
		var got []string
		for _, id := range w.sample(turn) {
			got = append(got, fmt.Sprint(id.tid))
			if (id.tid == 5) != (id.p.pid == 5) {
				t.Errorf("thread %d of %d", id.tid, id.p.pid)
			}
		}
		if strings.Join(got, " ") != want {
			t.Errorf("turn %d: %v, want %s", turn, got, want)
		}
	}
	w.procs = w.procs[:1]
	if got := w.sample(8); len(got) != 1 || got[0].tid != 5 {
		t.Errorf("%+v", got)
	}
}

// What the scheduler tells of a thread is its own faults, by node.
func TestSched(t *testing.T) {
	for text, want := range map[string]sched{
		schedFile(12, 1, 30, 90): {12, 1, []uint64{30, 90}},
		"":                       {0, -1, nil},
		"mm->numa_scan_seq  7\ncurrent_node=-1, numa_group_id=0\nnuma_faults task_private=5\nnuma_faults node=1 task_private=x task_shared=3 group_shared=9 y\n": {0, -1, []uint64{0, 3}},
		"current_node=99999\nnuma_faults node=99999 task_private=5\n":                                                                                            {0, -1, nil},
		"numa_faults node=0 task_private=4\nnuma_faults node=0 task_shared=1\ncurrent_node=0,x\nnuma_faults":                                                     {0, 0, []uint64{5}},
	} {
		if got := parseSched([]byte(text)); got.scans != want.scans || got.node != want.node || !slices.Equal(got.faults, want.faults) {
			t.Errorf("%q: %+v, want %+v", text, got, want)
		}
	}
}

// The kernel's samples are asked for of what is busy and not counted, each in its time.
func TestWhoseSamplesAreRead(t *testing.T) {
	now := time.Unix(1e9, 0)
	for name, tt := range map[string]struct {
		change func(*work)
		want   bool
	}{
		"busy":                  {func(*work) {}, true},
		"idle":                  {func(w *work) { w.procs[0].use = busy / 2 }, false},
		"asked lately":          {func(w *work) { w.access.hints.tried = now.Add(time.Second - hintsEvery) }, false},
		"asked some time ago":   {func(w *work) { w.access.hints.tried = now.Add(-hintsEvery) }, true},
		"counted":               {func(w *work) { w.access.figure.From, w.access.at = workload.Counters, now.Add(time.Second-countOld) }, false},
		"counted some time ago": {func(w *work) { w.access.figure.From, w.access.at = workload.Counters, now.Add(-countOld) }, true},
		"counted by group": {func(w *work) {
			w.grouped = grouped{known: true, mibs: 5, settledAt: now}
		}, false},
	} {
		r := newRig(t, newFake(), Options{})
		r.more = map[string]string{"proc/sys/kernel/numa_balancing": "1\n"}
		r.look()
		r.o.now = now
		w := &work{kind: workload.InProcess, procs: []*process{{pid: 5, use: 1}}}
		tt.change(w)
		r.o.readHints([]*work{w})
		if got := w.access.hints.tried.Equal(now); got != tt.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}

// Samples of before a move of pages count again when the process was scanned three times.
func TestFreshSamples(t *testing.T) {
	p := &process{}
	if !p.fresh(0) {
		t.Error("nothing was moved")
	}
	p.hintsStale = true
	if p.fresh(10) || p.fresh(12) || !p.fresh(13) || !p.fresh(14) {
		t.Error("from the third on")
	}
}

func TestTrafficByMBM(t *testing.T) {
	m := newFake()
	files := func(group string, local0, total0, local1, total1 int) {
		dir := "sys/fs/resctrl/" + group + "mon_data/"
		m.more[dir+"mon_L3_00/mbm_local_bytes"] = fmt.Sprintln(local0)
		m.more[dir+"mon_L3_00/mbm_total_bytes"] = fmt.Sprintln(total0)
		m.more[dir+"mon_L3_01/mbm_local_bytes"] = fmt.Sprintln(local1)
		m.more[dir+"mon_L3_01/mbm_total_bytes"] = fmt.Sprintln(total1)
	}
	m.more = map[string]string{"sys/fs/resctrl/info/x": "", "sys/fs/resctrl/mon_groups/y/mon_data/mon_L3_00/mbm_total_bytes": "99999999999"}
	for cpu := range 8 {
		m.more[fmt.Sprintf("sys/devices/system/cpu/cpu%d/cache/index3/id", cpu)] = fmt.Sprintln(cpu / 4)
	}
	const mb = 1 << 20
	files("", 0, 0, 0, 0)
	files("batch/", 0, 0, 5*mb, 5*mb)
	r := newRig(t, m, Options{})
	r.look()
	files("", 100*mb, 120*mb, 10*mb, 20*mb)
	files("batch/", 0, 0, 15*mb, 25*mb)
	s := r.after(2 * time.Second)
	// Node 0: 100 of its own, 10 and 10 from node 1; node 1: 10 and 10 of its own, 20 from node 0.
	for i, want := range []int64{60, 20} {
		if n := s.Nodes[i]; n.Bandwidth != want || n.BandwidthFrom != workload.MBM {
			t.Errorf("node %d: %d MiB/s from %q, want %d from mbm", i, n.Bandwidth, n.BandwidthFrom, want)
		}
	}
	for name := range m.more {
		if strings.HasSuffix(name, "bytes") {
			m.more[name] = "Unavailable\n"
		}
	}
	s = r.after(2 * time.Second)
	if s.Nodes[0].Bandwidth >= 0 {
		t.Errorf("%d MiB/s of counters that are unavailable", s.Nodes[0].Bandwidth)
	}
	if st := sourceOf(t, s, workload.MBM); st.Used || !strings.Contains(st.Text, "does not count") {
		t.Errorf("status %+v", st)
	}
}

func TestTrafficByControllers(t *testing.T) {
	pmu := &fakePMU{on: 2 << 20} // MiB = counts × scale
	r := countRig(t, 0, pmu)
	const dir = "sys/bus/event_source/devices/uncore_imc_0/"
	for name, text := range map[string]string{
		"type": "17\n", "cpumask": "0,4\n", "format/event": "config:0-7\n", "format/umask": "config:8-15\n",
		"events/cas_count_read": "event=0x04,umask=0x03\n", "events/cas_count_read.scale": "6.103515625e-5\n", "events/cas_count_read.unit": "MiB\n",
		"events/cas_count_write": "event=0x04,umask=0x0c\n", "events/cas_count_write.scale": "6.103515625e-5\n", "events/cas_count_write.unit": "MiB\n",
	} {
		r.more[dir+name] = text
	}
	r.look()
	r.after(2 * time.Second)
	s := r.after(2 * time.Second)
	for _, n := range s.Nodes { // 2 events × 128 MiB in 2 s
		if n.Bandwidth != 128 || n.BandwidthFrom != workload.IMC {
			t.Errorf("node %d: %d MiB/s from %q, want 128 from imc", n.Node, n.Bandwidth, n.BandwidthFrom)
		}
	}
	r.o.Close()
	if len(pmu.open) != 0 || pmu.opened != 4+1 { // and the trial of a pair
		t.Errorf("%d opened, %d left open", pmu.opened, len(pmu.open))
	}

	pmu.none, pmu.few = syscall.EACCES, 2
	r.after(2 * time.Second)
	if st := sourceOf(t, r.after(2*time.Second), workload.IMC); st.Used || !strings.Contains(st.Text, "CAP_PERFMON") || len(pmu.open) != 0 {
		t.Errorf("status %+v, %d open", st, len(pmu.open))
	}
}

func FuzzSched(f *testing.F) {
	f.Add([]byte(schedFile(3, 1, 20, 30)))
	f.Add([]byte("numa_faults node=99999999999 task_private=18446744073709551615\ncurrent_node=-1,"))
	f.Fuzz(func(t *testing.T, b []byte) {
		s := parseSched(b)
		if len(s.faults) > proc.MaxNode+1 || s.node > proc.MaxNode {
			t.Errorf("%d nodes, on node %d", len(s.faults), s.node)
		}
		for _, c := range parseCPUTicks(b, 8) {
			if c.known && c.off > 3<<50 {
				t.Errorf("off %d", c.off)
			}
		}
	})
}
