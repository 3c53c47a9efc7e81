package observe

import (
	"fmt"
	"hash/maphash"
	"io"
	"io/fs"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/core/workload"
)

// shares makes a process have memory of its own on node 0 and a mapping of a file without
// a name on node 1 that others have mapped too.
func (m *fakeMachine) shares(pid int, own topology.KiB, inode int, kib topology.KiB) {
	p := m.procs[pid]
	p.rss = own + kib
	p.maps = fmt.Sprintf("7f0000000000 default anon=%d N0=%d kernelpagesize_kB=4\n7f1000000000 default file=/dev/zero\\040(deleted) dirty=9 mapmax=21 N1=%d kernelpagesize_kB=4\n", own/4, own/4, kib/4)
	if m.more == nil {
		m.more = map[string]string{}
	}
	m.more[fmt.Sprintf("proc/%d/maps", pid)] = fmt.Sprintf(
		"7f0000000000-7f0008000000 rw-p 00000000 00:00 0 \n7f1000000000-7f1008000000 rw-s 00000000 00:01 %d                         /dev/zero (deleted)\n", inode)
}

func booked(s workload.Snapshot) (all topology.KiB) {
	for _, o := range s.Observations {
		all += workload.Total(o.Memory)
	}
	return all
}

// R3: one user's processes that share 70 MiB do not fill the host with it, and are one
// workload from the second look on.
func TestSharedMemoryIsCountedOnce(t *testing.T) {
	for _, cgroups := range []bool{true, false} {
		m := newFake()
		if !cgroups {
			m.mounts, m.top = "", ""
		}
		m.group("/user.slice", fakeGroup{})
		m.group("/user.slice/user-1000.slice", fakeGroup{})
		const scope = "/user.slice/user-1000.slice/session-1.scope"
		m.group(scope, fakeGroup{})
		for pid := 100; pid < 120; pid++ {
			m.proc(pid, 1, fmt.Sprintf("backend%d", pid), scope, 0).uid = 1000
			m.shares(pid, topology.KiB(pid-99)*64, 7, 70*mib)
		}
		const all = 70*mib + 20*21/2*64
		r := newRig(t, m, Options{})
		if s := r.look(); booked(s) != all || len(s.Observations) != 20 {
			t.Errorf("cgroups %v: %d workloads with %d KiB, want %d", cgroups, len(s.Observations), booked(s), all)
		}
		for range 40 {
			s := r.after(2 * time.Second)
			if booked(s) != all || len(s.Observations) != 1 || s.Small != 0 {
				t.Fatalf("cgroups %v: %s, %d small, %d KiB", cgroups, ids(s), s.Small, booked(s))
			}
			if o := s.Observations[0]; len(o.Processes) != 20 || o.Threads != 20 || o.UID != 1000 || workload.On(o.Memory, topology.Nodes(1)) != 70*mib || len(o.Movable) != 2 {
				t.Fatalf("%+v", o)
			}
		}
		// The one they joined ends: the others have the memory, and find together again.
		s := r.look()
		joined := s.Observations[0].ID
		for pid := range m.procs {
			if workload.ID(fmt.Sprintf("pid:%d", pid)) == joined {
				delete(m.procs, pid)
			}
		}
		if s := r.after(2 * time.Second); len(s.Observations) != 19 {
			t.Errorf("%s", ids(s))
		}
		if s := r.after(2 * time.Second); len(s.Observations) != 1 || len(s.Observations[0].Processes) != 19 || workload.On(s.Observations[0].Memory, topology.Nodes(1)) != 70*mib {
			t.Errorf("%+v", s.Observations)
		}
	}
}

// What is counted once is known by device and inode: memory without a name is another in
// another server.
func TestSharedMemoryOfOthers(t *testing.T) {
	m := newFake()
	m.mounts, m.top = "", ""
	for i, uid := range []int{1000, 1001} {
		for pid := 100 + 10*i; pid < 102+10*i; pid++ {
			m.proc(pid, 1, "postgres", "/", 0).uid = uid
			m.shares(pid, 10*mib, 7+i, 100*mib)
		}
	}
	// Another user, and one that has most memory of its own, take part in the first.
	m.proc(150, 1, "other-user", "/", 0).uid = 1002
	m.shares(150, 10*mib, 7, 100*mib)
	m.proc(160, 1, "other-work", "/", 0).uid = 1000
	m.shares(160, 400*mib, 7, 100*mib)
	r := newRig(t, m, Options{})
	r.look()
	s := r.after(2 * time.Second)
	if got := ids(s); got != "pid:100 pid:110 pid:150 pid:160" {
		t.Fatalf("workloads %s", got)
	}
	if got := booked(s); got != 5*10*mib+400*mib+2*100*mib {
		t.Errorf("%d KiB", got)
	}
	for i := range 20 { // whoever has it keeps it while another has but little more
		m.shares(150, 10*mib, 7, topology.KiB(100+i%2)*mib)
		if s := r.after(20 * time.Second); workload.On(find(t, s, "pid:100").Memory, topology.Nodes(1)) == 0 {
			t.Fatalf("%+v", s.Observations)
		}
	}
	m.shares(150, 10*mib, 7, 120*mib)
	if s := r.after(20 * time.Second); workload.On(find(t, s, "pid:150").Memory, topology.Nodes(1)) != 120*mib || booked(s) != 5*10*mib+400*mib+220*mib {
		t.Errorf("%+v", s.Observations)
	}
}

// A service with two programs that share most of their memory is one workload in the end.
func TestServiceThatSharesMemory(t *testing.T) {
	m := newFake()
	g, _ := m.service("/db.service", 100, "writer", 0)
	g.anon, g.shmem, g.mapped, g.noMemory = byNode{20 * mib}, byNode{0, 200 * mib}, byNode{0, 200 * mib}, true
	m.proc(101, 1, "reader", "/db.service", 0)
	m.shares(100, 10*mib, 7, 200*mib)
	m.shares(101, 10*mib, 7, 200*mib)
	r := newRig(t, m, Options{})
	if s := r.look(); ids(s) != "pid:100 pid:101" || booked(s) != 220*mib {
		t.Errorf("%s, %d KiB", ids(s), booked(s))
	}
	if s := r.after(2 * time.Second); ids(s) != "pid:100" || booked(s) != 220*mib {
		t.Errorf("%s, %d KiB", ids(s), booked(s))
	}
	for range 20 {
		r.after(2 * time.Second)
	}
	if s := r.after(2 * time.Second); ids(s) != "/db.service" || booked(s) != 220*mib {
		t.Errorf("%s, %d KiB", ids(s), booked(s))
	}
}

// Memory that a process has since it was forked is shared out over all who have it, though
// they are workloads of their own.
func TestForkedMemoryIsCountedOnce(t *testing.T) {
	m := newFake()
	m.mounts, m.top = "", ""
	for pid := 100; pid < 104; pid++ {
		p := m.proc(pid, 1, fmt.Sprintf("p%d", pid), "/", 100*mib)
		p.maps = fmt.Sprintf("7f0000000000 default anon=%d mapmax=4 N0=%d kernelpagesize_kB=4\n", 100*mib/4, 100*mib/4)
		p.rollup = fmt.Sprintf("Rss: %d kB\nPss_Anon: %d kB\n", 100*mib, 25*mib)
	}
	if got := booked(newRig(t, m, Options{}).look()); got != 100*mib {
		t.Errorf("%d KiB", got)
	}
}

// What a process has mapped of a file counts on all nodes together for whose it is, and on
// each where it lies.
func TestSharedOnTwoNodes(t *testing.T) {
	m := newFake()
	m.mounts, m.top = "", ""
	for pid, kib := range map[int]topology.KiB{100: 100 * mib, 101: 60 * mib} {
		m.proc(pid, 1, fmt.Sprint("p", pid), "/", 0).uid = pid
		m.shares(pid, 200*mib, 7, kib)
	}
	m.procs[101].maps = strings.Replace(m.procs[101].maps, "mapmax=21 ", fmt.Sprintf("mapmax=21 N0=%d ", 60*mib/4), 1)
	s := newRig(t, m, Options{}).look()
	if o := find(t, s, "pid:101"); workload.On(o.Memory, topology.Nodes(0)) != 260*mib || workload.On(o.Memory, topology.Nodes(1)) != 100*mib {
		t.Errorf("%+v", o.Memory)
	}
	if o := find(t, s, "pid:100"); workload.Total(o.Memory) != 200*mib {
		t.Errorf("%+v", o.Memory)
	}
}

// Most of a file is whose it is; who had it keeps it until another has an eighth more.
func TestOwnerOfAFile(t *testing.T) {
	a, b, c := &work{id: "a"}, &work{id: "b"}, &work{id: "c"}
	for _, tt := range []struct {
		kib    [3]topology.KiB
		before workload.ID
		want   *work
	}{
		{[3]topology.KiB{8, 16, 8}, "", b}, {[3]topology.KiB{16, 16, 8}, "", a}, {[3]topology.KiB{8, 16, 14}, "c", c},
		{[3]topology.KiB{8, 16, 13}, "c", b}, {[3]topology.KiB{8, 8, 16}, "gone", c}, {[3]topology.KiB{0, 0, 0}, "b", b},
	} {
		f := sharedFile{users: []sharer{{a, tt.kib[0]}, {b, tt.kib[1]}, {c, tt.kib[2]}}}
		if got := f.owner(tt.before); got != tt.want {
			t.Errorf("%v, before %q: %s has it, want %s", tt.kib, tt.before, got.id, tt.want.id)
		}
	}
}

// Processes are one workload when they are of one cgroup and one user and nobody has
// registered either of them; no longer when that changes, or one ends.
func TestWhoMayJoin(t *testing.T) {
	for name, tt := range map[string]struct {
		change     func(o *Observer, p, to *process)
		may, stays bool
	}{
		"nothing else":        {func(*Observer, *process, *process) {}, true, true},
		"another cgroup":      {func(_ *Observer, p, _ *process) { p.leaf = &leaf{} }, false, false},
		"another user":        {func(_ *Observer, p, _ *process) { p.uid = 7 }, false, true},
		"one that joins":      {func(_ *Observer, _, to *process) { to.joins = &process{} }, false, false},
		"registered":          {func(o *Observer, p, _ *process) { o.registered[p.pid] = p.start }, false, false},
		"the other is":        {func(o *Observer, _, to *process) { o.registered[to.pid] = to.start }, false, true},
		"the other ended":     {func(_ *Observer, _, to *process) { to.look = 4 }, true, false},
		"another has its PID": {func(o *Observer, _, to *process) { o.procs[to.pid] = &process{} }, true, false},
	} {
		l := &leaf{}
		p, to := &process{pid: 1, start: 8, leaf: l, look: 5}, &process{pid: 2, start: 9, leaf: l, look: 5}
		o := &Observer{look: 5, procs: map[int]*process{1: p, 2: to}, registered: map[int]uint64{}}
		tt.change(o, p, to)
		if may := o.mayJoin(&work{root: p, leaf: p.leaf}, &work{root: to, leaf: to.leaf}); may != tt.may {
			t.Errorf("%s: may join: %v", name, may)
		}
		p.joins = to
		if j := o.joined(p); (j == to) != tt.stays || (j == nil) == tt.stays || p.joins != j {
			t.Errorf("%s: joined %v", name, j == to)
		}
	}
	o := &Observer{}
	if root := (&work{root: &process{}}); o.mayJoin(&work{}, root) || o.mayJoin(root, &work{}) {
		t.Error("a cgroup joins")
	}
}

// A line of maps is read to where its file is named, or not at all.
func TestMapsLine(t *testing.T) {
	for line, want := range map[string]string{
		"7f10-7f20 rw-s 00000000 00:01 7    /dev/zero (deleted)\n": "7f10 00:01 7    /dev/zero (deleted)",
		"7f10-7f20 rw-s 00000000 00:01 7":                          "7f10 00:01 7",
		"7f10-7f20 rw-s 00000000":                                  "",
		"xyz-7f20 rw-s 00000000 00:01 7 /a":                        "",
		"":                                                         "",
	} {
		start, file, ok := parseMapsLine([]byte(line))
		if got := fmt.Sprintf("%x %s", start, file); ok != (want != "") || ok && got != want {
			t.Errorf("%q: %v %q", line, ok, got)
		}
	}
}

func FuzzMapsLine(f *testing.F) {
	f.Add([]byte("7f1000000000-7f1008000000 rw-s 00000000 00:01 7                         /dev/zero (deleted)\n"))
	f.Add([]byte("-   "))
	f.Fuzz(func(t *testing.T, b []byte) {
		if _, file, ok := parseMapsLine(b); ok && len(file) > len(b) {
			t.Fatal(file)
		}
	})
}

var longName = strings.Repeat("n", 4000)

// endless is maps with a line of 4 KiB for each page up to an address.
type endless struct {
	next, last uint64
	line, rest []byte
}

func (e *endless) Open(string) (fs.File, error) { return e, nil }
func (e *endless) Stat() (fs.FileInfo, error)   { return nil, fs.ErrInvalid }
func (e *endless) Close() error                 { return nil }
func (e *endless) Read(b []byte) (n int, _ error) {
	if len(e.rest) == 0 {
		if e.next > e.last {
			return 0, io.EOF
		}
		e.line = fmt.Appendf(e.line[:0], "%x-%x rw-s 00000000 08:01 7 /%s\n", e.next, e.next+0x1000, longName)
		e.rest = e.line
		e.next += 0x1000
	}
	n = copy(b, e.rest)
	e.rest = e.rest[n:]
	return n, nil
}

// maps of any length are read line by line: a user can have some of 250 MB.
func TestMapsOfLongPaths(t *testing.T) {
	m := &numaMaps{shared: []sharedMemory{{start: 10_000 << 12, file: fileMemory{kib: leastShared}}}}
	var before, after runtime.MemStats
	e := &endless{last: 10_000 << 12}
	runtime.ReadMemStats(&before)
	known := m.identify(e, 1, maphash.MakeSeed())
	runtime.ReadMemStats(&after)
	if !known || len(m.shared) != 1 || m.shared[0].file.name == 0 {
		t.Errorf("%v %+v", known, m.shared)
	}
	if took := after.TotalAlloc - before.TotalAlloc; took > 24<<20 { // 11 MiB of it are the race detector's
		t.Errorf("%d KiB allocated for 40 MiB of maps", took>>10)
	}
}
