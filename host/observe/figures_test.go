package observe

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"syscall"
	"testing"
	"testing/fstest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/core/workload"
	"github.com/homenode/homenode/host/internal/proc"
)

func topologyKiB(n int) topology.KiB { return topology.KiB(n) }

func hugePool(size topology.KiB, total, free int64) topology.HugePool {
	return topology.HugePool{Size: size, Total: total, Free: free}
}

func mem(kib ...topology.KiB) []workload.NodeMemory { return byNode(kib).list() }

func TestCPUFigures(t *testing.T) {
	m := newFake()
	g, p := m.service("/a.service", 100, "a", 100*mib)
	p.threads = []fakeThread{{cpus: "0-7", cpu: 0}, {cpus: "0-7", cpu: 5, ticks: 1000}, {cpus: "0-7", cpu: 1}} // how it came by these nothing tells
	p.start = 0
	g.usage = 100 * time.Second
	r := newRig(t, m, Options{})
	s := find(t, r.look(), "/a.service")
	if s.Window != 0 || math.Abs(s.CPUUse-0.1) > 1e-9 || s.CPUTime != 100*time.Second || s.Threads != 3 {
		t.Errorf("first look: window %v, use %v, time %v, threads %d", s.Window, s.CPUUse, s.CPUTime, s.Threads)
	}
	if s.RanOnFrom != workload.AllowedSet || !cmp.Equal(s.RanOn, []workload.NodeShare{{Node: 0, Share: 0.5}, {Node: 1, Share: 0.5}}) {
		t.Errorf("first look: ran on %v from %s", s.RanOn, s.RanOnFrom)
	}
	g.usage += 4 * time.Second
	p.threads[0].ticks, p.threads[1].ticks = 100, 1300
	s = find(t, r.after(2*time.Second), "/a.service")
	if s.Window != 2*time.Second || math.Abs(s.CPUUse-2) > 1e-9 {
		t.Errorf("window %v, use %v", s.Window, s.CPUUse)
	}
	if s.RanOnFrom != workload.PerThread || !cmp.Equal(s.RanOn, []workload.NodeShare{{Node: 0, Share: 0.25}, {Node: 1, Share: 0.75}}) {
		t.Errorf("ran on %v from %s", s.RanOn, s.RanOnFrom)
	}
	// A thread that came since the last look counts whole, one that went not at all.
	p.threads = []fakeThread{p.threads[0], p.threads[1], p.threads[2], {ticks: 50, cpu: 2, cpus: "0-7"}}
	p.threads[1].ticks += 150
	g.usage += 2 * time.Second
	s = find(t, r.after(2*time.Second), "/a.service")
	if !cmp.Equal(s.RanOn, []workload.NodeShare{{Node: 0, Share: 0.25}, {Node: 1, Share: 0.75}}) {
		t.Errorf("with a new thread: ran on %v", s.RanOn)
	}
	// One tick says nothing about where it runs.
	p.threads[0].ticks++
	g.usage += 100 * time.Millisecond
	if o := find(t, r.after(2*time.Second), "/a.service"); !cmp.Equal(o.RanOn, s.RanOn) {
		t.Errorf("after one tick: ran on %v", o.RanOn)
	}
	// Sent to other CPUs, where it ran before says nothing. Homenode says so when it
	// did that; what others do is seen some seconds later.
	g.cpus = "4-7"
	if s = find(t, r.after(2*time.Second), "/a.service"); s.CPUs.String() != "0-7" {
		t.Errorf("CPU sets are read anew at every look: %s", s.CPUs)
	}
	r.o.Changed("/a.service")
	s = find(t, r.after(2*time.Second), "/a.service")
	if s.RanOnFrom != workload.AllowedSet || !cmp.Equal(s.RanOn, []workload.NodeShare{{Node: 1, Share: 1}}) {
		t.Errorf("after a move: ran on %v from %s", s.RanOn, s.RanOnFrom)
	}
}

// usage_usec is the CPU time of a cgroup, wherever it stands.
func TestCPUStat(t *testing.T) {
	for text, want := range map[string]time.Duration{
		"usage_usec 17\nuser_usec 1\n": 17 * time.Microsecond, "nr_periods 3\nusage_usec 17": 17 * time.Microsecond, "usage_usec 0\n": 0,
		"": -1, "usage_usec\n": -1, "usage_usec x\n": -1, "usage_usec 9007199254740992\n": -1, "usage_usecs 5\n": -1, "usage_usec 9007199254740991\n": (1<<53 - 1) * time.Microsecond,
	} {
		if got, ok := parseCPUStat([]byte(text)); ok != (want >= 0) || ok && got != want {
			t.Errorf("%q: %v %v, want %v", text, got, ok, want)
		}
	}
}

// What is charged to a cgroup is what its lines say, without those that say nothing; shared
// memory that is mapped counts once.
func TestNUMAStat(t *testing.T) {
	var s numaStat
	for _, tt := range []struct {
		text     string
		ok       bool
		resident byNode
	}{
		{"anon N0=4096 N1=8192\nfile N0=999999\nfile_mapped N0=12288 N1=0\nshmem N0=4096 N1=20480\n", true, byNode{4 + 12, 8 + 20}},
		{"anon N1=4096", true, byNode{0, 4}}, {"shmem N0=4096\n", false, byNode{4}}, {"anon\nfile_mapped\n", false, nil}, {"", false, nil},
		{"anon x N0=4096 N1=y N1 N9999999=1 N0=9223372036854775807 N1=1023\n", true, byNode{4, 0}},
	} {
		if ok := parseNUMAStat([]byte(tt.text), &s); ok != tt.ok || !slices.Equal(s.resident(), tt.resident) {
			t.Errorf("%q: %v %v, want %v", tt.text, ok, s.resident(), tt.resident)
		}
	}
}

// TestKernelMemory: page tables and kernel stacks by node come with the memory of a cgroup, and no sum has them.
func TestKernelMemory(t *testing.T) {
	var s numaStat
	text := "anon N0=4096\nkernel_stack N0=16384 N1=0\npagetables N0=1052672 N1=4096\nsec_pagetables N0=0 N1=8192\n"
	if !parseNUMAStat([]byte(text), &s) {
		t.Fatal("not read")
	}
	want := workload.Kernel{PageTables: []workload.NodeMemory{{Node: 0, KiB: 1028}, {Node: 1, KiB: 4}}, NestedTables: []workload.NodeMemory{{Node: 1, KiB: 8}}, Stacks: []workload.NodeMemory{{Node: 0, KiB: 16}}}
	if d := cmp.Diff(want, s.kernel()); d != "" || !slices.Equal(s.resident(), byNode{4}) {
		t.Errorf("%s, resident %v", d, s.resident())
	}
	parseNUMAStat([]byte("anon N0=4096\n"), &s) // a kernel before 5.12
	if d := cmp.Diff(workload.Kernel{}, s.kernel()); d != "" {
		t.Error(d)
	}
}

// Memory by node is scaled down in proportion, never up.
func TestScaled(t *testing.T) {
	for _, tt := range []struct {
		b, want byNode
		to      topology.KiB
	}{
		{byNode{30, 10}, byNode{15, 5}, 20}, {byNode{30, 10}, byNode{30, 10}, 40}, {byNode{30, 10}, byNode{30, 10}, 50}, {byNode{30, 10}, byNode{0, 0}, 0},
		{byNode{0, 0}, byNode{0, 0}, 0}, {nil, nil, 5},
	} {
		if got := tt.b.scaled(tt.to); !slices.Equal(got, tt.want) {
			t.Errorf("%v to %d: %v, want %v", tt.b, tt.to, got, tt.want)
		}
	}
	if b := (byNode{0, 7}); b.at(1) != 7 || b.at(2) != 0 || b.total() != 7 || len(b.list()) != 1 || b.list()[0].Node != 1 {
		t.Errorf("%v", b.list())
	}
}

// A process has clearly more than its cgroup was charged for when it is more than a quarter
// and 16 MiB beyond; what several have together may be shared.
func TestChargedElsewhere(t *testing.T) {
	const charged = 400 << 10
	for _, tt := range []struct {
		anon, rss topology.KiB
		want      bool
	}{
		{charged + charged/4 + 16<<10 + 1, 1 << 30, true}, {charged + charged/4 + 16<<10, 1 << 30, false}, {1 << 30, charged + charged/4 + 16<<10, false}, {1 << 30, 1 << 29, true},
	} {
		w := &work{leaf: &leaf{stat: numaStat{anon: byNode{charged / 2, charged / 2}}}}
		w.procs = []*process{{rss: 1 << 30}, {rss: tt.rss}, {rss: charged, mapsState: mapsState{maps: &numaMaps{anon: byNode{0, charged}}}}}
		w.procs[1].maps = &numaMaps{anon: byNode{tt.anon / 2, tt.anon - tt.anon/2}}
		if got := (&Observer{}).chargedElsewhere(w); got != tt.want {
			t.Errorf("%d KiB, %d resident, of %d charged: %v", tt.anon, tt.rss, charged, got)
		}
	}
}

// Of what has no nodes of its own the host's are those with memory.
func TestNodesOfAWorkload(t *testing.T) {
	o := &Observer{host: &topology.Host{Nodes: []topology.Node{{ID: 0, Memory: 1}, {ID: 1}, {ID: 2, Memory: topology.None}}}}
	for _, tt := range []struct {
		kind workload.Kind
		leaf topology.NodeSet
		own  [2]topology.NodeSet
		want string
	}{
		{workload.InCgroup, topology.Nodes(1), [2]topology.NodeSet{topology.Nodes(0)}, "1"},
		{workload.InCgroup, topology.NodeSet{}, [2]topology.NodeSet{topology.Nodes(0), topology.Nodes(1)}, "0-1"},
		{workload.InProcess, topology.Nodes(1), [2]topology.NodeSet{topology.Nodes(0)}, "0"},
		{workload.InProcess, topology.Nodes(1), [2]topology.NodeSet{}, "0,2"},
	} {
		w := &work{kind: tt.kind, leaf: &leaf{mems: tt.leaf}, procs: []*process{{mems: tt.own[0]}, {mems: tt.own[1]}}}
		if got := o.memsOf(w); got.String() != tt.want {
			t.Errorf("%s %v %v: %v, want %s", tt.kind, tt.leaf, tt.own, got, tt.want)
		}
	}
}

// What reclaim can take of a node is file pages that nothing locks, and slab that shrinks.
func TestReclaimable(t *testing.T) {
	for text, want := range map[string]topology.KiB{
		"Node 0 Active(file): 10 kB\nNode 0 Inactive(file):  20 kB\nNode 0 SReclaimable: 40 kB\nNode 0 Active(anon): 80 kB\nNode 0 Mlocked: 160 kB\n": 70,
		"Active(file): 10 kB\nSReclaimable:     4 kB": 14, "Active(file):\nSReclaimable: x kB\nInactive(file) 5 kB\n": 0, "": 0,
	} {
		if got := parseReclaimable([]byte(text)); got != want {
			t.Errorf("%q: %d, want %d", text, got, want)
		}
	}
}

// The CPU use of a workload is what its cgroup tells, if that tells it, else its processes'.
func TestUse(t *testing.T) {
	for _, tt := range []struct {
		kind  workload.Kind
		usage time.Duration
		want  float64
	}{{workload.InCgroup, 5, 7}, {workload.InCgroup, 0, 7}, {workload.InCgroup, -1, 3}, {workload.InProcess, 5, 3}} {
		w := &work{kind: tt.kind, leaf: &leaf{usage: tt.usage, use: 7}, procs: []*process{{use: 1}, {use: 2}}}
		if got := (&Observer{}).use(w); got != tt.want {
			t.Errorf("%s, usage %d: %v, want %v", tt.kind, tt.usage, got, tt.want)
		}
	}
}

// What is in use on a node and held by nobody seen is not below nothing; of a node of which
// that is not known nothing is said.
func TestUnmanaged(t *testing.T) {
	r := newRig(t, newFake(), Options{})
	r.cached = 10
	r.look()
	node := func(id topology.NodeID, memory, free topology.KiB) topology.Node {
		return topology.Node{ID: id, Memory: memory, Free: free}
	}
	r.o.host = &topology.Host{Nodes: []topology.Node{node(0, 100, 40), node(1, 100, 90), node(2, topology.None, 5), node(3, 5, topology.None), node(4, 0, 0), node(5, 7, 0)}}
	want := []workload.NodeMemory{{Node: 0, KiB: 100 - 40 - 10 - 8}, {Node: 1, KiB: 0}, {Node: 4, KiB: 0}, {Node: 5, KiB: 7}}
	if diff := cmp.Diff(want, r.o.unmanaged(byNode{8, 1})); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	r.o.host = &topology.Host{Nodes: []topology.Node{node(9, 100, 40)}} // the only one: the machine's own figures do
	r.fs.files["proc/meminfo"] = &fstest.MapFile{Data: []byte("SReclaimable: 7 kB\n")}
	if got := r.o.unmanaged(nil); len(got) != 1 || got[0].KiB != 100-40-7 {
		t.Errorf("%+v", got)
	}
}

// The processes of a cgroup are not looked at again while they and its memory are the same,
// for a while that is shorter when it is busy.
func TestQuiet(t *testing.T) {
	now := time.Unix(1e9, 0)
	for name, tt := range map[string]struct {
		change func(*leaf)
		want   bool
	}{
		"the same":           {func(*leaf) {}, true},
		"several workloads":  {func(l *leaf) { l.mode = asMany }, false},
		"memory not told":    {func(l *leaf) { l.hasStat = false }, false},
		"CPU time not told":  {func(l *leaf) { l.usage = -1 }, false},
		"CPU time 0":         {func(l *leaf) { l.usage = 0 }, true},
		"long ago":           {func(l *leaf) { l.procsAt = now.Add(-affinityEvery) }, false},
		"not so long ago":    {func(l *leaf) { l.procsAt = now.Add(time.Second - affinityEvery) }, true},
		"busy":               {func(l *leaf) { l.use, l.procsAt = busy, now.Add(-processesEvery) }, false},
		"busy, lately":       {func(l *leaf) { l.use, l.procsAt = busy, now.Add(time.Second-processesEvery) }, true},
		"a hundredth more":   {func(l *leaf) { l.charged = 1010 }, true},
		"more":               {func(l *leaf) { l.charged = 1011 }, false},
		"less":               {func(l *leaf) { l.charged = 989 }, false},
		"another process":    {func(l *leaf) { l.pids = []int{1, 3} }, false},
		"a process has gone": {func(l *leaf) { l.pids = []int{1} }, false},
	} {
		l := &leaf{mode: asOne, hasStat: true, usage: 5, procsAt: now.Add(-time.Second), charged: 1000, procsIn: 1000, pids: []int{1, 2}, before: []int{1, 2}}
		tt.change(l)
		if got := (&Observer{now: now}).quiet(l); got != tt.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}

// What a cgroup used before it was first seen is spread over the life of its oldest process.
func TestLifetimeUse(t *testing.T) {
	o := &Observer{uptime: 100 * time.Second}
	at := func(second uint64) *process { return &process{start: second * proc.TicksPerSecond} }
	for _, tt := range []struct {
		usage time.Duration
		procs []*process
		want  float64
	}{
		{20 * time.Second, []*process{at(70), at(60), at(90)}, 0.5}, {20 * time.Second, nil, 0}, {-1, []*process{at(60)}, 0}, {0, []*process{at(60)}, 0},
		{time.Second, []*process{at(100)}, 1 * proc.TicksPerSecond}, {time.Second, []*process{at(200)}, 1 * proc.TicksPerSecond}, {time.Second, []*process{{start: 1 << 41}}, 0},
	} {
		if got := o.lifetimeUse(&leaf{usage: tt.usage, procs: tt.procs}); math.Abs(got-tt.want) > 1e-9 {
			t.Errorf("%v over %d processes: %v, want %v", tt.usage, len(tt.procs), got, tt.want)
		}
	}
	if age := (&Observer{}).age(5); age != 0 {
		t.Errorf("without an uptime %v", age)
	}
}

// What its name tells of a mapped file: whether it is memory or a file on disk.
func TestKindOf(t *testing.T) {
	for name, want := range map[string]fileKind{
		"/dev/shm/x": inShmem, "/memfd:x": inShmem, "/SYSV0001": inShmem, "/dev/zero": inShmem, "/run/x": inShmem, "/run": onDisk, "/lib/x": onDisk, "": onDisk, "/var/dev/shm/x": onDisk,
	} {
		if got := kindOf([]byte(name)); got != want {
			t.Errorf("%q: %d, want %d", name, got, want)
		}
	}
	for text, want := range map[string]topology.KiB{
		"Rss: 5 kB\nPss_Anon:  7 kB\n": 7, "Pss_Anon: 7": 7, "Pss: 5 kB\n": topology.None, "Pss_Anon:\n": topology.None, "Pss_Anon: x kB\nPss_Anon: 9 kB\n": 9, "": topology.None, "Pss_Anon: 0 kB\n": 0,
	} {
		if got := parsePssAnon([]byte(text)); got != want {
			t.Errorf("%q: %d, want %d", text, got, want)
		}
	}
	for _, tt := range []struct {
		s, a, b string
		want    bool
	}{{"bind:1", "bind:1", "", true}, {"bind:1", "bind:2", "", false}, {"weighted interleave", "weighted", "interleave", true}, {"weighted-interleave", "weighted", "interleave", false},
		{"weighted interleavf", "weighted", "interleave", false}, {"veighted interleave", "weighted", "interleave", false}, {"weighted", "weighted", "interleave", false}, {"weighted interleaved", "weighted", "interleave", false}} {
		var b []byte
		if tt.b != "" {
			b = []byte(tt.b)
		}
		if got := sameWords(tt.s, []byte(tt.a), b); got != tt.want {
			t.Errorf("%q of %q and %q: %v", tt.s, tt.a, tt.b, got)
		}
	}
}

func TestProcessCPU(t *testing.T) {
	m := newFake()
	m.proc(10, 1, "server", "/", 100*mib).threads[0].cpu = 6
	m.proc(11, 10, "server", "/", 10*mib)
	r := newRig(t, m, Options{})
	r.look()
	m.procs[10].threads[0].ticks = 100
	m.procs[11].threads[0].ticks = 100
	s := find(t, r.after(2*time.Second), "pid:10")
	if s.CPUUse != 1 || s.CPUTime != 2*time.Second || s.Threads != 2 || len(s.Processes) != 2 {
		t.Errorf("%+v", s)
	}
	// A worker that ends takes nothing away from what was used.
	delete(m.procs, 11)
	m.procs[10].threads[0].ticks = 150
	s = find(t, r.after(2*time.Second), "pid:10")
	if s.CPUUse != 0.25 || s.CPUTime != 2500*time.Millisecond {
		t.Errorf("use %v, time %v", s.CPUUse, s.CPUTime)
	}
}

func TestMemory(t *testing.T) {
	const base = "7f00 default "
	tests := []struct {
		name            string
		build           func(m *fakeMachine)
		id              workload.ID
		memory, anon    []workload.NodeMemory
		policy, problem string
		unmanaged0      topology.KiB // of node 0; used is 32 GiB, cache 8 GiB
	}{
		{
			name: "a cgroup from memory.numa_stat",
			build: func(m *fakeMachine) {
				g, _ := m.service("/a.service", 100, "a", 100*mib)
				g.anon, g.mapped, g.shmem = byNode{100 * mib, 50 * mib}, byNode{30 * mib, 0}, byNode{10 * mib, 20 * mib}
			},
			id:     "/a.service",
			memory: mem(130*mib, 70*mib), anon: mem(100*mib, 50*mib),
			unmanaged0: 24<<20 - 110*mib,
		},
		{
			name: "a cgroup without memory controller",
			build: func(m *fakeMachine) {
				g, p := m.service("/a.service", 100, "a", 100*mib)
				g.noMemory = true
				p.maps = base + "anon=25600 N0=12800 N1=12800 kernelpagesize_kB=4\n"
			},
			id:     "/a.service",
			memory: mem(50*mib, 50*mib), anon: mem(50*mib, 50*mib),
			problem:    "",
			unmanaged0: 24<<20 - 50*mib,
		},
		{
			name: "huge pages come on top of memory.numa_stat",
			build: func(m *fakeMachine) {
				_, p := m.service("/vm.service", 100, "qemu", 100*mib)
				p.maps += "7f10 bind:1 file=/dev/hugepages/guest\\040(deleted) huge dirty=512 N1=512 kernelpagesize_kB=2048\n" +
					"7f20 default file=/anon_hugepage\\040(deleted) huge anon=2 dirty=2 N0=2 kernelpagesize_kB=2048\n"
			},
			id:     "/vm.service",
			memory: mem(104*mib, 1024*mib), anon: mem(104 * mib),
			policy: "bind:1", unmanaged0: 24<<20 - 104*mib,
		},
		{
			name: "shared memory once, private memory of each",
			build: func(m *fakeMachine) {
				shm := "7f10 default file=/dev/zero\\040(deleted) dirty=25600 N0=25600 kernelpagesize_kB=4\n"
				m.proc(100, 1, "postgres", "/", 120*mib).maps = shm + base + "anon=2560 N0=2560 kernelpagesize_kB=4\n"
				m.proc(101, 100, "postgres", "/", 120*mib).maps = shm + base + "anon=2560 N1=2560 kernelpagesize_kB=4\n"
			},
			id:     "pid:100",
			memory: mem(110*mib, 10*mib), anon: mem(10*mib, 10*mib),
			unmanaged0: 24<<20 - 110*mib,
		},
		{
			name: "a little shared memory, which is not told apart",
			build: func(m *fakeMachine) {
				m.proc(100, 1, "a", "/", 100*mib).maps = base + "anon=25600 N0=25600 kernelpagesize_kB=4\n" +
					"7f10 default file=/dev/zero\\040(deleted) dirty=1024 mapmax=2 N1=1024 kernelpagesize_kB=4\n"
			},
			id:     "pid:100",
			memory: mem(100*mib, 4*mib), anon: mem(100 * mib),
			unmanaged0: 24<<20 - 100*mib,
		},
		{
			name: "pages shared by fork once",
			build: func(m *fakeMachine) {
				for i := range 2 {
					p := m.proc(100+i, 1+99*i, "prefork", "/", 100*mib)
					p.maps = base + "heap anon=25600 mapmax=2 N0=25600 kernelpagesize_kB=4\n"
					p.rollup = "7f00-7fff ---p 0 00:00 0 [rollup]\nRss: 102400 kB\nPss: 51200 kB\nPss_Anon: 51200 kB\n"
				}
			},
			id:     "pid:100",
			memory: mem(100 * mib), anon: mem(100 * mib),
			unmanaged0: 24<<20 - 100*mib,
		},
		{
			name: "mapped page cache is resident and still reclaimable",
			build: func(m *fakeMachine) {
				m.proc(100, 1, "lmdb", "/", 110*mib).maps = base + "file=/data/db mapped=25600 N0=25600 kernelpagesize_kB=4\n" +
					base + "anon=2560 N0=2560 kernelpagesize_kB=4\n"
			},
			id:     "pid:100",
			memory: mem(110 * mib), anon: mem(10 * mib),
			unmanaged0: 24<<20 - 10*mib,
		},
		{
			name: "a private mapping of a file, part of it written",
			build: func(m *fakeMachine) {
				m.proc(100, 1, "a", "/", 100*mib).maps = base + "file=/lib/x anon=10 dirty=10 mapped=40 N0=20 N1=20 kernelpagesize_kB=4\n"
			},
			id:     "pid:100",
			memory: mem(80, 80), anon: mem(20, 20),
			unmanaged0: 24<<20 - 20,
		},
		{
			name: "charged to the cgroup it came from",
			build: func(m *fakeMachine) {
				g, _ := m.service("/a.service", 100, "a", 500*mib)
				g.anon = byNode{mib, 0}
			},
			id:     "/a.service",
			memory: mem(500 * mib), anon: mem(500 * mib),
			problem: "memory is charged to other cgroups", unmanaged0: 24<<20 - 500*mib,
		},
		{
			name: "numa_maps not permitted",
			build: func(m *fakeMachine) {
				m.proc(100, 1, "a", "/", 500*mib)
				m.proc(101, 1, "b", "/", 500*mib)
				m.deny = "/numa_maps"
			},
			id: "pid:100", policy: workload.PolicyUnknown,
			problem: "memory by node and memory policies unknown: open proc/100/numa_maps: permission denied (and 1 more)", unmanaged0: 24 << 20,
		},
		{
			name: "numa_maps not permitted, one node to be on",
			build: func(m *fakeMachine) {
				m.proc(100, 1, "a", "/", 500*mib).mems = "1"
				m.deny = "/numa_maps"
			},
			id: "pid:100", policy: workload.PolicyUnknown,
			memory: mem(0, 500*mib), problem: "memory policies unknown", unmanaged0: 24 << 20,
		},
		{
			name: "the policy on most memory",
			build: func(m *fakeMachine) {
				m.proc(100, 1, "a", "/", 100*mib).maps = "7f00 weighted interleave:0-1 anon=20 N0=10 N1=10 kernelpagesize_kB=4\n" +
					"7f01 prefer (many):0-1 file=/a heap anon=5 N0=5 kernelpagesize_kB=4\n" +
					"7f02 bind=static:1 anon=15 N1=15 kernelpagesize_kB=4\n" +
					"7f03 default anon=500 N0=500 kernelpagesize_kB=4\n" +
					"7f04 local anon=500 N0=500 kernelpagesize_kB=4\n"
			},
			id:     "pid:100",
			memory: mem(4060, 100), anon: mem(4060, 100),
			policy: "weighted interleave:0-1", unmanaged0: 24<<20 - 4060,
		},
		{
			name: "a policy on memory not yet touched",
			build: func(m *fakeMachine) {
				m.proc(100, 1, "a", "/", 100*mib).maps = "7f00 prefer=relative:1\n"
			},
			id: "pid:100", policy: "prefer=relative:1", unmanaged0: 24 << 20,
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			m := newFake()
			tt.build(m)
			r := newRig(t, m, Options{})
			if m.deny != "" {
				r.fs.fail = func(name string) error {
					if strings.HasSuffix(name, m.deny) {
						return syscall.EACCES
					}
					return nil
				}
			}
			s := r.look()
			o := find(t, s, tt.id)
			if d := cmp.Diff(tt.memory, o.Memory); d != "" {
				t.Errorf("memory: %s", d)
			}
			if d := cmp.Diff(tt.anon, o.Anon); d != "" {
				t.Errorf("anonymous: %s", d)
			}
			if o.OwnPolicy != tt.policy {
				t.Errorf("policy %q, want %q", o.OwnPolicy, tt.policy)
			}
			if got := s.Unmanaged[0].KiB; got != tt.unmanaged0 {
				t.Errorf("unmanaged on node 0: %d, want %d", got, tt.unmanaged0)
			}
			if text := fmt.Sprint(s.Problems); (tt.problem == "") != (len(s.Problems) == 0) || !strings.Contains(text, tt.problem) {
				t.Errorf("problems %s, want %q", text, tt.problem)
			}
		})
	}
}

// TestMemoryEvery counts how often numa_maps is read.
func TestMemoryEvery(t *testing.T) {
	m := newFake()
	p := m.proc(100, 1, "a", "/", 100*mib)
	r := newRig(t, m, Options{})
	reads := 0
	r.fs.fail = func(name string) error {
		if strings.HasSuffix(name, "/numa_maps") {
			reads++
		}
		return nil
	}
	steps := []struct {
		after time.Duration
		do    func()
		want  int
	}{
		{0, nil, 1},
		{2 * time.Second, nil, 1},
		{2 * time.Second, func() { p.rss += 100 }, 1},
		{2 * time.Second, func() { p.rss += 20 * mib }, 2},
		{5 * time.Second, nil, 2},
		{5 * time.Second, nil, 3},
		{time.Second, func() { r.o.Stale("pid:100") }, 4},
		{time.Second, nil, 4},
	}
	for i, s := range steps {
		if s.do != nil {
			s.do()
		}
		r.after(s.after)
		if reads != s.want {
			t.Fatalf("step %d: read %d times, want %d", i, reads, s.want)
		}
	}
}

// TestMemoryEveryStill: a cgroup's processes are read less often while what is charged to
// it stays the same, and nothing can be in huge pages.
func TestMemoryEveryStill(t *testing.T) {
	for _, tt := range []struct {
		name   string
		change func(m *fakeMachine, g *fakeGroup)
		want   int // readings in a minute
	}{
		{"still", func(*fakeMachine, *fakeGroup) {}, 1 + 1},
		{"half a percent", func(_ *fakeMachine, g *fakeGroup) { g.anon[0] = 100*mib + 512 }, 1 + 1},
		{"grows", func(_ *fakeMachine, g *fakeGroup) { g.anon[0] += 4 * mib }, 1 + 5},
		{"huge pages", func(m *fakeMachine, _ *fakeGroup) { m.pool = []topology.HugePool{{Size: 2 << 10, Total: 8, Free: 7}} }, 1 + 5},
	} {
		t.Run(tt.name, func(t *testing.T) {
			m := newFake()
			g, _ := m.service("/a.service", 100, "a", 100*mib)
			r := newRig(t, m, Options{})
			reads := 0
			r.fs.fail = func(name string) error {
				if strings.HasSuffix(name, "/numa_maps") {
					reads++
				}
				return nil
			}
			r.look()
			for range 29 {
				tt.change(m, g)
				r.after(2 * time.Second)
			}
			if reads != tt.want {
				t.Errorf("read %d times in a minute, want %d", reads, tt.want)
			}
		})
	}
}

// TestCPUSetsOfOthers: what others change of a CPU set is seen after a while, what a
// CPU that goes offline changes at once, and once more when the kernel is done.
func TestCPUSetsOfOthers(t *testing.T) {
	m := newFake()
	g, _ := m.service("/a.service", 100, "a", 100*mib)
	r := newRig(t, m, Options{})
	r.look()
	g.cpus = "4-7"
	for waited := time.Duration(0); find(t, r.after(time.Second), "/a.service").CPUs.String() != "4-7"; waited += time.Second {
		if waited > cpusetEvery {
			t.Fatalf("not seen after %v", waited)
		}
	}
	g.cpus, m.online = "4-6", "0-6"
	if cpus := find(t, r.after(time.Second), "/a.service").CPUs.String(); cpus != "4-6" {
		t.Errorf("after a CPU went offline: %s", cpus)
	}
	g.cpus = "4-5"
	if cpus := find(t, r.after(time.Second), "/a.service").CPUs.String(); cpus != "4-5" {
		t.Errorf("in the look after: %s", cpus)
	}
}

// TestStaleFiguresOfIssue2: after a read error the old figures were taken for new ones.
func TestStaleFiguresOfIssue2(t *testing.T) {
	m := newFake()
	p := m.proc(100, 1, "a", "/", 100*mib)
	p.maps = "7f00 bind:0 anon=25600 N0=25600 kernelpagesize_kB=4\n"
	r := newRig(t, m, Options{})
	if o := find(t, r.look(), "pid:100"); o.OwnPolicy != "bind:0" || len(o.Memory) != 1 {
		t.Fatalf("policy %q, memory %v", o.OwnPolicy, o.Memory)
	}
	r.fs.fail = func(name string) error {
		if strings.HasSuffix(name, "/numa_maps") {
			return syscall.EIO
		}
		return nil
	}
	r.o.Stale("pid:100")
	if o := find(t, r.after(2*time.Second), "pid:100"); o.OwnPolicy != workload.PolicyUnknown || len(o.Memory) != 0 {
		t.Errorf("after a move and a read error: policy %q, memory %v from before the move", o.OwnPolicy, o.Memory)
	}
	r.fs.fail = nil
	p.maps = "7f00 default anon=25600 N1=25600 kernelpagesize_kB=4\n"
	if o := find(t, r.after(2*time.Second), "pid:100"); o.OwnPolicy != "" || len(o.Memory) != 1 || o.Memory[0].Node != 1 {
		t.Errorf("when it can be read again: policy %q, memory %v", o.OwnPolicy, o.Memory)
	}
}

func TestPinned(t *testing.T) {
	threads := func(cpus ...string) []fakeThread {
		var out []fakeThread
		for _, c := range cpus {
			out = append(out, fakeThread{cpus: c})
		}
		return out
	}
	tests := []struct {
		name     string
		threads  []fakeThread
		cgroup   string // effective CPUs; "" for a process in the root cgroup
		init     string
		expected string
		cpus     string
		why      string
	}{
		{name: "free", threads: threads("0-7", "0-7"), cpus: "0-7"},
		{name: "all pinned", threads: threads("2-3", "2-3"), cpus: "2-3", why: "all 2 threads have an affinity of their own (thread 100: 2-3)"},
		{name: "some helpers pinned", threads: threads("0-7", "0-7", "3"), cpus: "0-7", why: "1 of 3 threads have an affinity of their own (thread 102: 3)"},
		{name: "ours", threads: threads("4-7", "4-7"), expected: "4-7", cpus: "4-7"},
		{name: "ours, but one thread went its own way", threads: threads("4-7", "5"), expected: "4-7", cpus: "4-7", why: "1 of 2 threads have an affinity of their own (thread 101: 5)"},
		{name: "ours, half written", threads: threads("4-7", "0-3", "0-3"), expected: "4-7;0-3", cpus: "0-7"},
		{name: "no wider than its cgroup", threads: threads("4-7"), cgroup: "4-7", cpus: "4-7"},
		{name: "narrower than its cgroup", threads: threads("4"), cgroup: "4-7", cpus: "4", why: "its only thread has an affinity of its own (thread 100: 4)"},
		{name: "isolated CPUs are nobody's", threads: threads("0-3"), init: "0-3", cpus: "0-3"},
		{name: "on the isolated CPUs on purpose", threads: threads("6"), init: "0-3", cpus: "6", why: "its only thread has an affinity of its own (thread 100: 6)"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			m := newFake()
			id := workload.ID("pid:100")
			p := m.proc(100, 1, "a", "/", 100*mib)
			if tt.cgroup != "" {
				id, p.cgroup = "/a.service", "/a.service"
				m.group("/a.service", fakeGroup{anon: byNode{100 * mib}, cpus: tt.cgroup, mems: "1"})
			}
			if tt.init != "" {
				m.initCPUs = tt.init
			}
			p.threads = tt.threads
			r := newRig(t, m, Options{})
			if tt.expected != "" {
				var given []topology.CPUSet
				for set := range strings.SplitSeq(tt.expected, ";") {
					given = append(given, mustCPUs(set))
				}
				r.expecting(id, given...)
			}
			o := find(t, r.look(), id)
			if got := o.CPUs.String(); got != tt.cpus {
				t.Errorf("CPUs %s, want %s", got, tt.cpus)
			}
			if got := o.PinnedWhy; got != tt.why || o.Pinned != (tt.why != "") {
				t.Errorf("pinned %v: %q, want %q", o.Pinned, got, tt.why)
			}
			if tt.cgroup != "" && o.Mems.String() != "1" {
				t.Errorf("memory nodes %s", o.Mems)
			}
		})
	}
}

// TestCpusetOfParent: where the controller is not on for the leaf, that above holds.
func TestCpusetOfParent(t *testing.T) {
	m := newFake()
	m.group("/tenant.slice", fakeGroup{cpus: "4-7", mems: "1"})
	g, p := m.service("/tenant.slice/a.service", 100, "a", 100*mib)
	g.cpus = ""
	p.threads[0].cpus = "4-7"
	o := find(t, newRig(t, m, Options{}).look(), "/tenant.slice/a.service")
	if o.CPUs.String() != "4-7" || o.Mems.String() != "1" || o.Pinned {
		t.Errorf("CPUs %s, memory nodes %s, pinned %v", o.CPUs, o.Mems, o.Pinned)
	}
}

// Mapped page cache is resident but is not the workload's to move.
func TestMovableIsWithoutPageCache(t *testing.T) {
	m := newFake()
	m.proc(100, 1, "a", "/", 100*mib).maps = "7f00 default file=/usr/bin/a mapped=25 N1=25 kernelpagesize_kB=4\n" +
		"7f01 default file=/dev/shm/a dirty=15 N1=15 kernelpagesize_kB=4\n" +
		"7f02 default anon=100 dirty=100 N0=100 kernelpagesize_kB=4\n"
	o := find(t, newRig(t, m, Options{}).look(), "pid:100")
	if d := cmp.Diff(mem(400, 160), o.Memory); d != "" {
		t.Errorf("memory: %s", d)
	}
	if d := cmp.Diff(mem(400, 60), o.Movable); d != "" {
		t.Errorf("movable: %s", d)
	}
}

// A cgroup that somebody narrows between two readings of it pins nobody.
func TestCgroupNarrowedByHand(t *testing.T) {
	m := newFake()
	p := m.proc(100, 1, "a", "/a.service", 100*mib)
	p.threads = []fakeThread{{cpus: "0-7"}, {cpus: "0-7"}}
	narrow := func(cpus string) {
		m.group("/a.service", fakeGroup{anon: byNode{100 * mib}, cpus: cpus, mems: "0-1"})
		p.threads = []fakeThread{{cpus: cpus}, {cpus: cpus}}
	}
	narrow("0-7")
	r := newRig(t, m, Options{})
	r.look()
	for range 4 {
		r.after(time.Second)
	}
	narrow("2")
	for range 12 { // whenever its affinities are read
		if o := find(t, r.after(time.Second), "/a.service"); o.Pinned {
			t.Fatalf("pinned: %s", o.PinnedWhy)
		}
	}
	if o := find(t, r.after(time.Second), "/a.service"); o.CPUs.String() != "2" {
		t.Errorf("CPUs %s", o.CPUs)
	}
}

// TestHiddenProcesses: with /proc mounted with hidepid an ordinary user sees none but his own
// processes: he is told so, where he sees all he is not.
func TestHiddenProcesses(t *testing.T) {
	for _, all := range []bool{false, true} {
		m := newFake()
		m.mounts += "22 1 0:21 / /proc rw,nosuid - proc proc rw,hidepid=invisible\n"
		if !all {
			clear(m.procs)
			m.proc(9, 1, "own", "/", 1)
		}
		r := newRig(t, m, Options{})
		r.look()
		if text := fmt.Sprint(r.look().Problems); strings.Contains(text, "hidepid") == all {
			t.Errorf("all are seen: %v; problems %s", all, text)
		}
	}
}
