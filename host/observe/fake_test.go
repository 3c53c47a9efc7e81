package observe

import (
	"cmp"
	"context"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/homenode/homenode/core/control"
	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/core/workload"
	"github.com/homenode/homenode/host/internal/proc"
)

// fakeMachine is two NUMA nodes of four CPUs and 64 GiB each, and what runs there.
type fakeMachine struct {
	mounts      string // of mountinfo
	top         string // where cgroup v2 is mounted; "" for nowhere
	controllers string
	groups      map[string]*fakeGroup
	procs       map[int]*fakeProc
	uptime      time.Duration
	initCPUs    string
	cached      topology.KiB // evictable page cache of each node
	used        topology.KiB // not free, of each node
	pool        []topology.HugePool
	online      string            // "" is 0-7
	deny        string            // files that end so may not be read
	more        map[string]string // other files
	links       map[string]string // where symbolic links lead
}

type fakeGroup struct {
	threaded            bool
	usage               time.Duration
	anon, mapped, shmem byNode // KiB
	noMemory            bool   // without memory controller
	cpus, mems          string // effective; "" without cpuset controller
}

type fakeProc struct {
	ppid    int
	comm    string
	cgroup  string
	flags   uint64
	start   uint64
	rss     topology.KiB
	threads []fakeThread // the first is the process itself
	maps    string
	rollup  string
	mems    string
	huge    topology.KiB
	state   string
	uid     int
	session int // its session and process group; 0 is that of init
	tty     int // 0 is none
}

type fakeThread struct {
	ticks uint64
	cpu   int
	cpus  string
}

const v2Mounts = "22 1 0:20 / /proc rw - proc proc rw\n31 23 0:28 / /sys/fs/cgroup rw,nosuid shared:9 - cgroup2 cgroup2 rw\n"

func newFake() *fakeMachine {
	m := &fakeMachine{
		mounts: v2Mounts, top: "sys/fs/cgroup", controllers: "cpuset cpu io memory pids\n",
		groups: map[string]*fakeGroup{"/": {cpus: "0-7", mems: "0-1", noMemory: true}},
		procs:  map[int]*fakeProc{},
		uptime: 1000 * time.Second, initCPUs: "0-7",
		used: 32 << 20, cached: 8 << 20,
	}
	m.group("/init.scope", fakeGroup{})
	m.proc(1, 0, "systemd", "/init.scope", 10<<10)
	m.proc(2, 0, "kthreadd", "/", 0).flags = proc.KernelThread
	m.proc(3, 2, "kworker/0:0-(x) y", "/", 0).flags = proc.KernelThread
	return m
}

// proc adds a process with one idle thread and all its memory on node 0.
func (m *fakeMachine) proc(pid, ppid int, comm, cgroup string, rss topology.KiB) *fakeProc {
	p := &fakeProc{
		ppid: ppid, comm: comm, cgroup: cgroup, start: uint64(pid), rss: rss, mems: "0-1", state: "S",
		threads: []fakeThread{{cpus: "0-7"}},
		maps:    fmt.Sprintf("7f0000000000 default anon=%d dirty=%d N0=%d kernelpagesize_kB=4\n", rss/4, rss/4, rss/4),
	}
	m.procs[pid] = p
	return p
}

func (m *fakeMachine) group(path string, g fakeGroup) *fakeGroup {
	m.groups[path] = &g
	return &g
}

// service adds a cgroup with one process that has all its memory on node 0.
func (m *fakeMachine) service(path string, pid int, comm string, rss topology.KiB) (*fakeGroup, *fakeProc) {
	return m.group(path, fakeGroup{anon: byNode{rss, 0}, cpus: "0-7", mems: "0-1"}), m.proc(pid, 1, comm, path, rss)
}

func (m *fakeMachine) files() map[string]string {
	f := map[string]string{
		"proc/self/mountinfo": m.mounts,
		"proc/uptime":         fmt.Sprintf("%.2f 1.00\n", m.uptime.Seconds()),
	}
	for n := range 2 {
		f[fmt.Sprintf("sys/devices/system/node/node%d/meminfo", n)] = fmt.Sprintf(
			"Node %d MemTotal: 67108864 kB\nNode %d Active(file): %d kB\nNode %d Inactive(file): %d kB\nNode %d Mlocked: 99 kB\nNode %d SReclaimable: 0 kB\n",
			n, n, m.cached/2, n, m.cached/2, n, n)
	}
	if m.top != "" {
		f[m.top+"/cgroup.controllers"] = m.controllers
		pids := map[string]string{} // by the cgroup that lists them
		for _, pid := range slices.Sorted(maps.Keys(m.procs)) {
			at := m.procs[pid].cgroup
			for at != "/" && m.groups[at] != nil && m.groups[at].threaded {
				at = filepath.Dir(at)
			}
			pids[at] += fmt.Sprintf("%d\n", pid)
		}
		for path, g := range m.groups {
			m.groupFiles(f, path, g, pids[path])
		}
	}
	for pid, p := range m.procs {
		m.procFiles(f, pid, p)
	}
	maps.Copy(f, m.more)
	return f
}

func (m *fakeMachine) groupFiles(f map[string]string, path string, g *fakeGroup, pids string) {
	dir := m.top + strings.TrimSuffix(path, "/")
	f[dir+"/cgroup.procs"] = ""
	f[dir+"/cpu.stat"] = fmt.Sprintf("usage_usec %d\nuser_usec 1\nsystem_usec 2\n", g.usage.Microseconds())
	if !g.noMemory {
		line := func(key string, b byNode) string {
			return fmt.Sprintf("%s N0=%d N1=%d\n", key, b.at(0)*1024, b.at(1)*1024)
		}
		f[dir+"/memory.numa_stat"] = line("anon", g.anon) + line("file", byNode{1 << 30, 1 << 30}) + line("file_mapped", g.mapped) + line("shmem", g.shmem)
	}
	if g.cpus != "" {
		f[dir+"/cpuset.cpus.effective"] = g.cpus + "\n"
		f[dir+"/cpuset.mems.effective"] = g.mems + "\n"
	}
	if g.threaded {
		return // the kernel answers EOPNOTSUPP; its processes are at the domain root
	}
	f[dir+"/cgroup.procs"] = pids
}

func (m *fakeMachine) procFiles(f map[string]string, pid int, p *fakeProc) {
	stat := func(id int, ticks uint64, cpu int) string {
		return fmt.Sprintf("%d (%s) %s %d %d %d %d -1 %d 0 0 0 0 %d %d 0 0 20 0 %d 0 %d 1000 %d 1 1 1 0 0 0 0 0 0 0 0 0 0 17 %d 0 0 0 0 0\n",
			id, p.comm, p.state, p.ppid, max(1, p.session), max(1, p.session), p.tty, p.flags, ticks/2, ticks-ticks/2, len(p.threads), p.start, p.rss/4, cpu)
	}
	status := func(cpus string) string {
		return fmt.Sprintf("Name:\t%s\nUid:\t%d\t%d\t%d\t%d\nHugetlbPages:\t%8d kB\nCpus_allowed:\tff\nCpus_allowed_list:\t%s\nMems_allowed_list:\t%s\n", p.comm, p.uid, p.uid, p.uid, p.uid, p.huge, cpus, p.mems)
	}
	dir := fmt.Sprintf("proc/%d/", pid)
	var total uint64
	for i, t := range p.threads {
		total += t.ticks
		f[fmt.Sprintf("%stask/%d/stat", dir, pid+i)] = stat(pid+i, t.ticks, t.cpu)
		f[fmt.Sprintf("%stask/%d/status", dir, pid+i)] = status(t.cpus)
	}
	f[dir+"stat"] = stat(pid, total, p.threads[0].cpu)
	f[dir+"status"] = status(p.threads[0].cpus)
	if pid == 1 {
		f[dir+"status"] = status(m.initCPUs)
	}
	f[dir+"numa_maps"] = p.maps
	f[dir+"cgroup"] = "1:name=systemd:/x\n0::" + p.cgroup + "\n"
	if p.rollup != "" {
		f[dir+"smaps_rollup"] = p.rollup
	}
}

func (m *fakeMachine) host(fs.FS) (*topology.Host, error) {
	h := &topology.Host{Online: mustCPUs(cmp.Or(m.online, "0-7")), Allowed: mustCPUs("0-7")}
	for n, cpus := range []string{"0-3", "4-7"} {
		h.Nodes = append(h.Nodes, topology.Node{
			ID: topology.NodeID(n), CPUs: mustCPUs(cpus), Memory: 64 << 20, Free: 64<<20 - m.used, HugePages: m.pool,
		})
	}
	return h, nil
}

func mustCPUs(list string) topology.CPUSet {
	s, err := topology.ParseCPUSet(list)
	if err != nil {
		panic(err)
	}
	return s
}

// fakeFS reads the machine as it stands; fail may make a file fail.
type fakeFS struct {
	m     *fakeMachine
	files fstest.MapFS
	fail  func(name string) error
}

func (f *fakeFS) Open(name string) (fs.File, error) {
	if f.fail != nil {
		if err := f.fail(name); err != nil {
			return nil, &fs.PathError{Op: "open", Path: name, Err: err}
		}
	}
	return f.files.Open(name)
}

func (f *fakeFS) ReadLink(name string) (string, error) {
	if to, ok := f.m.links[name]; ok {
		return to, nil
	}
	return "", &fs.PathError{Op: "readlink", Path: name, Err: fs.ErrNotExist}
}

func (f *fakeFS) Lstat(name string) (fs.FileInfo, error) { return f.files.Lstat(name) }

func (f *fakeFS) refresh() {
	f.files = fstest.MapFS{}
	for name, text := range f.m.files() {
		f.files[name] = &fstest.MapFile{Data: []byte(text)}
	}
}

// tester is what testing.T and rapid.T share.
type tester interface {
	Helper()
	Errorf(string, ...any)
	Fatal(...any)
	Fatalf(string, ...any)
}

// rig is an Observer of a fake machine with its own clock.
type rig struct {
	with control.Attention
	t    tester
	*fakeMachine
	fs  *fakeFS
	now time.Time
	o   *Observer
}

func newRig(t tester, m *fakeMachine, opts Options) *rig {
	r := &rig{t: t, fakeMachine: m, fs: &fakeFS{m: m}, now: time.Unix(1_700_000_000, 0)}
	opts.Now = func() time.Time { return r.now }
	opts.PageSize = 4
	opts.Host = m.host
	opts.Free = func(fsys fs.FS, _ *topology.Host) (*topology.Host, error) { return m.host(fsys) }
	r.o = New(r.fs, opts)
	// A file of the fake answers, however busy this machine is; tests in which it hangs
	// set their own times.
	r.o.maps.deadline, r.o.maps.lookPatience, r.o.maps.onePatience = time.Minute, time.Minute, time.Minute
	return r
}

func (r *rig) look() workload.Snapshot {
	r.t.Helper()
	r.fs.refresh()
	s, err := r.o.Look(context.Background(), r.with)
	if err != nil {
		r.t.Fatal(err)
	}
	return s
}

// expecting has a workload have some affinities from homenode: the current one, and those that are being written.
func (r *rig) expecting(id workload.ID, sets ...topology.CPUSet) *rig {
	r.with = control.Attention{Given: map[workload.ID]topology.CPUSet{id: sets[0]}, Writing: map[workload.ID][]topology.CPUSet{id: sets[1:]}}
	return r
}

// after lets time pass and looks.
func (r *rig) after(d time.Duration) workload.Snapshot {
	r.t.Helper()
	r.now = r.now.Add(d)
	r.uptime += d
	return r.look()
}

func ids(s workload.Snapshot) string {
	var out []string
	for _, o := range s.Observations {
		out = append(out, string(o.ID))
	}
	return strings.Join(out, " ")
}

func find(t tester, s workload.Snapshot, id workload.ID) workload.Observation {
	t.Helper()
	for _, o := range s.Observations {
		if o.ID == id {
			return o
		}
	}
	t.Fatalf("no %q among %q", id, ids(s))
	return workload.Observation{}
}

// write puts the machine on disk below dir.
func (m *fakeMachine) write(t testing.TB, dir string) {
	t.Helper()
	for name, text := range m.files() {
		name = filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}
