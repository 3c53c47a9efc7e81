package observe

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/core/workload"
	"github.com/homenode/homenode/host/internal/proc"
)

const mib = 1 << 10 // KiB

const hexID = "3f1c0c3f6a6b0f6f1f0e5a5b8a7d9e2c4b1a0f9e8d7c6b5a49382716f5e4d3c2"

func TestDiscover(t *testing.T) {
	tests := []struct {
		name  string
		build func(m *fakeMachine)
		self  int
		want  string // IDs
		small int
		names map[workload.ID]string
	}{
		{
			name: "a service",
			build: func(m *fakeMachine) {
				m.group("/system.slice", fakeGroup{})
				m.service("/system.slice/redis.service", 100, "redis-server", 500*mib)
				m.service("/system.slice/cron.service", 101, "cron", 2*mib)
			},
			want: "/system.slice/redis.service", small: 1,
			names: map[workload.ID]string{"/system.slice/redis.service": "redis"},
		},
		{
			name: "containers under kubepods",
			build: func(m *fakeMachine) {
				pod := "/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod1.slice"
				m.group("/kubepods.slice", fakeGroup{})
				m.group("/kubepods.slice/kubepods-burstable.slice", fakeGroup{})
				m.group(pod, fakeGroup{})
				m.service(pod+"/cri-containerd-"+hexID+".scope", 200, "postgres", 900*mib)
				m.service(pod+"/cri-containerd-ffff"+hexID[4:]+".scope", 201, "pause", 1*mib)
			},
			want:  "/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod1.slice/cri-containerd-" + hexID + ".scope",
			small: 1,
			names: map[workload.ID]string{
				"/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod1.slice/cri-containerd-" + workload.ID(hexID) + ".scope": "postgres " + hexID[:12],
			},
		},
		{
			name: "a libvirt guest with threaded cgroups",
			build: func(m *fakeMachine) {
				scope := `/machine.slice/machine-qemu\x2d1\x2dweb.scope`
				m.group("/machine.slice", fakeGroup{})
				m.group(scope, fakeGroup{})
				m.service(scope+"/libvirt", 300, "qemu-system-x86", 4096*mib)
				for _, sub := range []string{"emulator", "vcpu0", "vcpu1"} {
					m.group(scope+"/libvirt/"+sub, fakeGroup{threaded: true})
				}
				m.procs[300].cgroup = scope + "/libvirt/emulator"
			},
			want:  `/machine.slice/machine-qemu\x2d1\x2dweb.scope/libvirt`,
			names: map[workload.ID]string{`/machine.slice/machine-qemu\x2d1\x2dweb.scope/libvirt`: "qemu-1-web"},
		},
		{
			name: "a cgroup with processes owns what lies below it",
			build: func(m *fakeMachine) {
				m.service("/build.service", 400, "master", 100*mib)
				m.group("/build.service/workers", fakeGroup{noMemory: true})
				m.proc(401, 400, "worker", "/build.service/workers", 10*mib)
			},
			want: "/build.service",
		},
		{
			name: "init and worker are one tree",
			build: func(m *fakeMachine) {
				m.service("/c.scope", 500, "tini", 1*mib)
				m.proc(501, 500, "java", "/c.scope", 300*mib)
				m.proc(502, 500, "sidecar", "/c.scope", 200*mib)
				m.groups["/c.scope"].anon = byNode{501 * mib}
			},
			want: "/c.scope",
		},
		{
			name: "two big trees make the leaf two workloads",
			build: func(m *fakeMachine) {
				m.service("/pair.service", 600, "mysqld", 300*mib)
				m.proc(601, 1, "mongod", "/pair.service", 300*mib)
				m.proc(602, 1, "logger", "/pair.service", 1*mib)
			},
			want: "pid:600 pid:601", small: 1,
			names: map[workload.ID]string{"pid:600": "mysqld", "pid:601": "mongod"},
		},
		{
			name: "a big tree beside small ones is still the leaf's",
			build: func(m *fakeMachine) {
				m.service("/one.service", 610, "mysqld", 300*mib)
				m.proc(611, 1, "logger", "/one.service", 1*mib)
			},
			want: "/one.service",
		},
		{
			name: "in a session the shell does not glue",
			build: func(m *fakeMachine) {
				scope := "/user.slice/user-1000.slice/session-3.scope"
				m.group("/user.slice", fakeGroup{})
				m.group("/user.slice/user-1000.slice", fakeGroup{})
				m.group(scope, fakeGroup{anon: byNode{900 * mib}})
				m.proc(700, 1, "sshd", scope, 5*mib)
				m.proc(701, 700, "bash", scope, 5*mib)
				m.proc(702, 701, "python3", scope, 300*mib)
				m.proc(703, 702, "python3", scope, 100*mib)
				m.proc(704, 701, "train", scope, 400*mib)
			},
			want: "pid:702 pid:704",
		},
		{
			name: "a big supervisor and what it started",
			build: func(m *fakeMachine) {
				m.proc(20, 1, "agent", "/", 300*mib)
				m.proc(21, 20, "agent", "/", 100*mib) // its own worker
				m.proc(22, 20, "bash", "/", 4*mib)
				m.proc(23, 22, "redis-server", "/", 500*mib)
				m.proc(24, 23, "redis-server", "/", 500*mib) // saves
				m.proc(25, 20, "helper", "/", 3*mib)
			},
			want: "pid:20 pid:23",
		},
		{
			name: "make with many small compilers is taken as one",
			build: func(m *fakeMachine) {
				scope := "/session-9.scope"
				m.group(scope, fakeGroup{})
				m.proc(710, 1, "bash", scope, 5*mib)
				m.proc(711, 710, "make", scope, 5*mib)
				for i := range 8 {
					m.proc(712+i, 711, "cc1", scope, 20*mib)
				}
			},
			want: "pid:711",
		},
		{
			name: "a process in the root cgroup",
			build: func(m *fakeMachine) {
				m.proc(720, 1, "stray", "/", 100*mib)
			},
			want: "pid:720",
		},
		{
			name: "our own process is left out of its cgroup, what was started beside it is not",
			build: func(m *fakeMachine) {
				m.service("/job.service", 730, "homenode", 500*mib)
				m.proc(731, 1, "db", "/job.service", 500*mib)
				m.proc(732, 731, "small", "/job.service", 1*mib)
			},
			self: 730, want: "pid:731",
		},
		{
			name: "our own leaf is left out",
			build: func(m *fakeMachine) {
				m.service("/homenode.service", 730, "homenode", 500*mib)
				m.service("/other.service", 731, "other", 500*mib)
			},
			self: 730, want: "/other.service",
		},
		{
			name: "our own process is left out of a session",
			build: func(m *fakeMachine) {
				m.group("/session-1.scope", fakeGroup{})
				m.proc(740, 1, "homenode", "/session-1.scope", 500*mib)
				m.proc(741, 740, "stress", "/session-1.scope", 500*mib)
			},
			self: 740, want: "pid:741",
		},
		{
			name: "another process of our own program",
			build: func(m *fakeMachine) {
				m.group("/session-1.scope", fakeGroup{})
				m.proc(730, 1, "homenode", "/homenode.service", 50*mib)
				m.proc(740, 1, "homenode", "/session-1.scope", 500*mib)
				m.links = map[string]string{"proc/730/exe": "/usr/bin/homenode", "proc/740/exe": "/usr/bin/homenode"}
			},
			self: 730, want: "",
		},
		{
			// R4: a name is no identity.
			name: "others that are called as our own program is",
			build: func(m *fakeMachine) {
				m.group("/session-1.scope", fakeGroup{})
				m.proc(730, 1, "homenode", "/homenode.service", 50*mib)
				m.proc(740, 1, "homenode", "/session-1.scope", 500*mib)
				m.proc(741, 1, "homenode", "/session-1.scope", 500*mib).uid = 1000
				m.links = map[string]string{"proc/730/exe": "/usr/bin/homenode", "proc/740/exe": "/tmp/homenode", "proc/741/exe": "/usr/bin/homenode"}
			},
			self: 730, want: "pid:740 pid:741",
		},
		{
			name: "an init.scope that is not systemd's",
			build: func(m *fakeMachine) {
				m.group("/user.slice", fakeGroup{})
				m.service("/user.slice/init.scope", 750, "miner", 500*mib)
			},
			want: "/user.slice/init.scope",
		},
		{
			name: "hybrid: the v2 hierarchy has no controllers",
			build: func(m *fakeMachine) {
				m.mounts = "31 23 0:28 / /sys/fs/cgroup rw - tmpfs tmpfs rw\n" +
					"34 31 0:31 / /sys/fs/cgroup/cpuset rw - cgroup cgroup rw,cpuset\n" +
					"41 31 0:38 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n"
				m.top, m.controllers = "sys/fs/cgroup/unified", "hugetlb\n"
				m.service("/system.slice/a.service", 800, "a", 100*mib)
				m.proc(801, 1, "b", "/system.slice/a.service", 100*mib)
			},
			want: "pid:800 pid:801",
		},
		{
			name: "cgroup v1 only",
			build: func(m *fakeMachine) {
				m.mounts = "34 31 0:31 / /sys/fs/cgroup/cpuset rw - cgroup cgroup rw,cpuset\n"
				m.top = ""
				m.proc(810, 1, "a", "/", 100*mib)
				m.proc(811, 1, "b", "/", 1*mib)
			},
			want: "pid:810", small: 1,
		},
		{
			name: "no cgroups at all",
			build: func(m *fakeMachine) {
				m.mounts, m.top = "", ""
				m.proc(820, 1, "a) (b c", "/", 100*mib)
			},
			want:  "pid:820",
			names: map[workload.ID]string{"pid:820": "a) (b c"},
		},
		{
			name: "little memory, much CPU in its life",
			build: func(m *fakeMachine) {
				_, p := m.service("/burn.service", 830, "burn", 1*mib)
				m.groups["/burn.service"].usage = 900 * time.Second
				p.threads[0].ticks = 90_000
			},
			want: "/burn.service",
		},
		{
			name: "a guest whose memory is all huge pages",
			build: func(m *fakeMachine) {
				m.service("/vm.service", 840, "firecracker", 2*mib)
				m.procs[840].huge = 2048 * mib
				m.pool = append(m.pool, hugePool(2048, 2048, 1024))
			},
			want: "/vm.service",
		},
		{
			name: "a process that has ended waits for its parent",
			build: func(m *fakeMachine) {
				m.mounts, m.top = "", ""
				m.proc(850, 1, "dead", "/", 100*mib).state = "Z"
			},
			want: "",
		},
		{
			name: "memory came along from another cgroup",
			build: func(m *fakeMachine) {
				m.service("/late.service", 860, "late", 500*mib)
				m.groups["/late.service"].anon = byNode{1 * mib}
			},
			want: "/late.service",
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			m := newFake()
			tt.build(m)
			r := newRig(t, m, Options{SelfPID: tt.self})
			s := r.look()
			if got := ids(s); got != tt.want {
				t.Fatalf("workloads %q, want %q", got, tt.want)
			}
			if s.Small != tt.small {
				t.Errorf("small %d, want %d", s.Small, tt.small)
			}
			for id, want := range tt.names {
				if got := find(t, s, id).Name; got != want {
					t.Errorf("%s: name %q, want %q", id, got, want)
				}
			}
			// Looking again finds the same.
			if got := ids(r.after(2 * time.Second)); got != tt.want && !strings.Contains(tt.name, "in its life") {
				t.Errorf("second look: %q, want %q", got, tt.want)
			}
			for _, p := range s.Problems {
				if tt.name != "memory came along from another cgroup" {
					t.Errorf("problem: %s: %s", p.Subject, p.Text)
				}
			}
		})
	}
}

func TestProcessModeTellsTheCgroup(t *testing.T) {
	m := newFake()
	m.controllers = "\n"
	m.service("/system.slice/a.service", 800, "a", 100*mib)
	o := find(t, newRig(t, m, Options{}).look(), "pid:800")
	if o.Kind != workload.InProcess || o.Cgroup != "/system.slice/a.service" {
		t.Errorf("kind %q in cgroup %q", o.Kind, o.Cgroup)
	}
}

// The whole hierarchy is looked at before a part of it, then the first that is mounted.
func TestBestMount(t *testing.T) {
	part, whole, other := proc.Mount{Type: "cgroup2", Root: "/a", Point: "/part"}, proc.Mount{Type: "cgroup2", Root: "/", Point: "/sys//fs/cgroup/"}, proc.Mount{Type: "cgroup", Root: "/", Point: "/v1"}
	second := proc.Mount{Type: "cgroup2", Root: "/", Point: "/second"}
	for _, tt := range []struct {
		mounts []proc.Mount
		want   string
	}{
		{[]proc.Mount{other, part, whole, second}, "sys/fs/cgroup"}, {[]proc.Mount{whole, part, second}, "sys/fs/cgroup"}, {[]proc.Mount{part}, "part"}, {[]proc.Mount{other}, ""}, {nil, ""},
		{[]proc.Mount{{Type: "cgroup2", Root: "/", Point: "/"}}, ""},
	} {
		if got, ok := bestMount(tt.mounts); got != tt.want || ok != (tt.want != "") {
			t.Errorf("%+v: %q %v, want %q", tt.mounts, got, ok, tt.want)
		}
	}
	if got := appendPIDs([]int{9}, []byte("1\n0\n22\nx\n\n2147483647\n2147483648\n33")); !slices.Equal(got, []int{9, 1, 22, 2147483647, 33}) {
		t.Errorf("%v", got)
	}
}

// What no option says is the default; what one says stands.
func TestDefaults(t *testing.T) {
	o := New(fstest.MapFS{}, Options{}).opts
	if o.MinMemory != 64*mib || o.MinCPU != 0.2 || o.MemoryEvery != 10*time.Second || o.PageSize != topology.KiB(os.Getpagesize()/1024) || o.Now == nil || o.Host == nil || o.Free == nil {
		t.Errorf("%+v", o)
	}
	o = New(fstest.MapFS{}, Options{MinMemory: 1, MinCPU: 1, MemoryEvery: 1, PageSize: 1}).opts
	if o.MinMemory != 1 || o.MinCPU != 1 || o.MemoryEvery != 1 || o.PageSize != 1 {
		t.Errorf("%+v", o)
	}
}

// What is big by its memory or its CPU use is reported, and stays so down to half of that.
func TestBigAndKept(t *testing.T) {
	o := &Observer{opts: Options{MinMemory: 64, MinCPU: 0.2}}
	for _, tt := range []struct {
		amount    amount
		big, keep bool
	}{{amount{64, 0}, true, true}, {amount{63, 0}, false, true}, {amount{32, 0}, false, true}, {amount{31, 0}, false, false},
		{amount{0, 0.2}, true, true}, {amount{0, 0.19}, false, true}, {amount{0, 0.1}, false, true}, {amount{0, 0.09}, false, false}, {amount{31, 0.09}, false, false}} {
		if big, keep := o.big(tt.amount), o.keep(tt.amount); big != tt.big || keep != tt.keep {
			t.Errorf("%+v: big %v, kept %v", tt.amount, big, keep)
		}
	}
}

// Something lasts when it has been so for a while, and begins anew when it was not, or was
// told.
func TestLasts(t *testing.T) {
	var since time.Time
	o := &Observer{now: time.Unix(1e9, 0)}
	for k, tt := range []struct {
		after    time.Duration
		now, yes bool
	}{{0, true, false}, {settle - 1, true, false}, {1, true, true}, {0, true, false}, {settle - 1, true, false}, {0, false, false}, {1, true, false}, {settle, true, true}, {0, false, false}} {
		o.now = o.now.Add(tt.after)
		if got := o.lasts(&since, tt.now); got != tt.yes {
			t.Errorf("%d: %v", k, got)
		}
	}
}

// TestSettle plays memory over time and says which IDs are seen.
func TestSettle(t *testing.T) {
	type step struct {
		after time.Duration
		mem   map[int]int // MiB by PID
		want  string
	}
	tests := []struct {
		name  string
		pids  []int
		steps []step
	}{
		{"stays at more than half", []int{100}, []step{
			{0, map[int]int{100: 64}, "/a.service"},
			{60 * time.Second, map[int]int{100: 40}, "/a.service"},
			{60 * time.Second, map[int]int{100: 33}, "/a.service"},
		}},
		{"goes after 30 s below half", []int{100}, []step{
			{0, map[int]int{100: 64}, "/a.service"},
			{2 * time.Second, map[int]int{100: 20}, "/a.service"},
			{20 * time.Second, nil, "/a.service"},
			{15 * time.Second, nil, ""},
			{2 * time.Second, map[int]int{100: 40}, ""},
			{2 * time.Second, map[int]int{100: 65}, "/a.service"},
		}},
		{"below half for a moment only", []int{100}, []step{
			{0, map[int]int{100: 64}, "/a.service"},
			{2 * time.Second, map[int]int{100: 20}, "/a.service"},
			{20 * time.Second, map[int]int{100: 50}, "/a.service"},
			{2 * time.Second, map[int]int{100: 20}, "/a.service"},
			{20 * time.Second, nil, "/a.service"},
		}},
		{"splits only after 30 s", []int{100, 101}, []step{
			{0, map[int]int{100: 100, 101: 1}, "/a.service"},
			{2 * time.Second, map[int]int{101: 100}, "/a.service"},
			{20 * time.Second, nil, "/a.service"},
			{20 * time.Second, nil, "pid:100 pid:101"},
			{2 * time.Second, map[int]int{101: 40}, "pid:100 pid:101"},
			{2 * time.Second, map[int]int{101: 10}, "pid:100 pid:101"},
			{40 * time.Second, nil, "/a.service"},
		}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			m := newFake()
			g, _ := m.service("/a.service", 100, "a", 0)
			for _, pid := range tt.pids[1:] {
				m.proc(pid, 1, "a", "/a.service", 0)
			}
			r := newRig(t, m, Options{})
			for i, s := range tt.steps {
				for pid, n := range s.mem {
					m.procs[pid].rss = topologyKiB(n * mib)
				}
				g.anon = byNode{0}
				for _, pid := range tt.pids {
					g.anon[0] += m.procs[pid].rss
				}
				if got := ids(r.after(s.after)); got != s.want {
					t.Fatalf("step %d: %q, want %q", i, got, s.want)
				}
			}
		})
	}
}

func TestGrownParentDoesNotRename(t *testing.T) {
	m := newFake()
	m.group("/session-1.scope", fakeGroup{})
	m.proc(10, 1, "bash", "/session-1.scope", 5*mib)
	m.proc(11, 10, "train", "/session-1.scope", 100*mib)
	r := newRig(t, m, Options{})
	if got := ids(r.look()); got != "pid:11" {
		t.Fatal(got)
	}
	m.procs[10].rss = 200 * mib
	s := r.after(2 * time.Second)
	if got := ids(s); got != "pid:10 pid:11" {
		t.Fatal(got)
	}
	if got := fmt.Sprint(find(t, s, "pid:10").Processes); got != "[{10 10}]" {
		t.Errorf("bash has %s", got)
	}
}

func TestPIDUsedAgain(t *testing.T) {
	m := newFake()
	m.proc(10, 1, "old", "/", 100*mib).threads[0].ticks = 5000
	r := newRig(t, m, Options{})
	r.look()
	m.proc(10, 1, "new", "/", 100*mib).start = 99_000
	o := find(t, r.after(2*time.Second), "pid:10")
	if o.Name != "new" || o.Processes[0].Start != 99_000 || o.Window != 0 || o.CPUTime != 0 {
		t.Errorf("%+v", o)
	}
}

func TestRegistered(t *testing.T) {
	m := newFake()
	m.service("/a.service", 100, "a", 100*mib)
	m.proc(101, 100, "tiny", "/a.service", 1*mib)
	m.service("/small.service", 110, "small", 1*mib)
	r := newRig(t, m, Options{})
	if got := ids(r.look()); got != "/a.service" {
		t.Fatal(got)
	}
	// Its leaf is several workloads from now on, without waiting.
	r.with.Registered = []workload.Process{{PID: 101, Start: 101}, {PID: 110, Start: 110}}
	if got := ids(r.after(2 * time.Second)); got != "pid:100 pid:101 pid:110" {
		t.Fatal(got)
	}
	// Another process by that PID is not meant.
	m.procs[110].start = 99_000
	if got := ids(r.after(2 * time.Second)); strings.Contains(got, "pid:110") {
		t.Fatal(got)
	}
	r.with.Registered = nil
	for range 4 {
		r.after(20 * time.Second)
	}
	if got := ids(r.look()); got != "/a.service" {
		t.Fatal(got)
	}
}

// TestRegisteredBeforeExec: `homenode run` has its home and has not become the command yet.
// Without it in the scan the daemon would forget that home.
func TestRegisteredBeforeExec(t *testing.T) {
	m := newFake()
	m.group("/session-1.scope", fakeGroup{})
	m.proc(730, 1, "homenode", "/session-1.scope", 50*mib)
	m.proc(740, 1, "homenode", "/session-1.scope", 4*mib)
	m.proc(750, 1, "homenode", "/session-1.scope", 4*mib) // `homenode status`, for one
	m.links = map[string]string{}
	for _, pid := range []string{"730", "740", "750"} {
		m.links["proc/"+pid+"/exe"] = "/usr/bin/homenode"
	}
	r := newRig(t, m, Options{SelfPID: 730})
	r.with.Registered = []workload.Process{{PID: 740, Start: 740}}
	if got := ids(r.look()); got != "pid:740" {
		t.Errorf("%q", got)
	}
}

// TestRegisteredIsWhole: a command of `homenode run` is one workload with all that it starts,
// such as a server behind runuser or a start script, also what was large before it was registered.
func TestRegisteredIsWhole(t *testing.T) {
	m := newFake()
	const scope = "/session-1.scope"
	m.group(scope, fakeGroup{})
	m.proc(99, 1, "init", scope, 1*mib) // as in a container: all are in one tree
	m.proc(100, 99, "runuser", scope, 4*mib)
	m.proc(101, 100, "postgres", scope, 200*mib)
	m.proc(102, 101, "postgres", scope, 100*mib)
	m.proc(103, 101, "archiver", scope, 100*mib)
	m.proc(104, 103, "start.sh", scope, 1*mib) // a command of its own
	m.proc(105, 104, "java", scope, 100*mib)
	m.proc(110, 1, "runuser", scope, 4*mib) // by hand
	m.proc(111, 110, "redis", scope, 100*mib)
	r := newRig(t, m, Options{})
	r.look()
	r.with.Registered = []workload.Process{{PID: 100, Start: 100}, {PID: 104, Start: 104}}
	s := r.after(2 * time.Second)
	if got := ids(s); got != "pid:100 pid:104 pid:111" {
		t.Fatal(got)
	}
	if a, b := find(t, s, "pid:100"), find(t, s, "pid:104"); len(a.Processes) != 4 || len(b.Processes) != 2 {
		t.Errorf("%d and %d processes", len(a.Processes), len(b.Processes))
	}
}

// TestGoneOrShrunk: what is no longer reported is said to be there still, or is gone.
func TestGoneOrShrunk(t *testing.T) {
	m := newFake()
	g, _ := m.service("/a.service", 100, "a", 100*mib)
	m.service("/b.service", 110, "b", 100*mib)
	m.group("/session-1.scope", fakeGroup{})
	p := m.proc(120, 1, "c", "/session-1.scope", 100*mib)
	m.proc(130, 1, "d", "/session-1.scope", 100*mib)
	r := newRig(t, m, Options{})
	if s := r.look(); len(s.Observations) != 4 || len(s.Shrunk) != 0 {
		t.Fatalf("%d workloads, shrunk %v", len(s.Observations), s.Shrunk)
	}
	m.procs[100].rss, p.rss = mib, mib
	g.anon = byNode{}
	var shrunk []workload.ID
	for range 20 {
		shrunk = append(shrunk, r.after(4*time.Second).Shrunk...)
	}
	if want := []workload.ID{"/a.service", "pid:120"}; !slices.Equal(shrunk, want) {
		t.Errorf("shrunk %v, want %v, each once", shrunk, want)
	}
	delete(m.procs, 110)
	delete(m.groups, "/b.service")
	delete(m.procs, 130)
	if s := r.after(4 * time.Second); len(s.Shrunk) != 0 || len(s.Observations) != 0 {
		t.Errorf("gone, not shrunk: %v, reported %d", s.Shrunk, len(s.Observations))
	}
}

// TestNamed: a cgroup that somebody named is one workload however small it is, and however many
// trees are in it; one of a terminal is not.
func TestNamed(t *testing.T) {
	m := newFake()
	m.service("/web.service", 100, "web", 1*mib)
	m.service("/two.service", 110, "two", 100*mib)
	m.proc(111, 1, "other", "/two.service", 100*mib)
	m.service("/small.service", 120, "small", 1*mib)
	m.service("/session-1.scope", 130, "web", 1*mib)
	named := map[string]bool{}
	r := newRig(t, m, Options{Named: func(cgroup, name string) bool { return named[cgroup] || named[name] }})
	if got := ids(r.look()); got != "pid:110 pid:111" {
		t.Fatal(got)
	}
	named = map[string]bool{"/web.service": true, "two": true, "/session-1.scope": true}
	for range 4 { // also when it has been small for long
		if got := ids(r.after(20 * time.Second)); got != "/two.service /web.service" {
			t.Fatal(got)
		}
	}
}
