package process

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/core/workload"
	procfs "github.com/homenode/homenode/host/internal/proc"
)

// model is a machine: its /proc and the system calls on its processes. It
// behaves as mm/migrate.c does, the awkward parts first of all.
type model struct {
	procs map[int]*modelProc
	free  map[topology.NodeID]int // ordinary pages a node has left; absent is plenty
	huge  map[topology.NodeID]int // free huge pages of 2 MiB
	nice  bool                    // CAP_SYS_NICE
	cpus  topology.CPUSet         // online
	ticks uint64                  // since boot

	cpuset string // of the cgroup of all, as the file has it; "" is no such file

	calls   int
	fault   func(call int, what string) error // nil: none
	hook    func(call int)                    // runs before each call
	trace   []string
	hang    func(pid int, what string) bool // calls that wait for release, and then fail
	release chan struct{}
	waits   *atomic.Int64    // calls that do
	home    topology.NodeSet // to count what truly came home
	moved   int64
	wrong   string // something that must not happen
}

type modelProc struct {
	pid, parent int
	uid         int
	group       int // 0 is that of PID 1
	session     int
	start       uint64
	vmLck       int // kB, as in status
	vmPin       int
	nspid       string // as in status; "" is pid
	state       byte
	vhost       int // of a thread of the kernel: whom it works for
	cgroup      string
	threads     map[int]topology.CPUSet
	allowed     topology.CPUSet // cpuset of the cgroup; empty is all
	ranges      []*modelRange
	mems        topology.NodeSet // empty is all
}

type modelRange struct {
	start  uintptr
	length int // pages
	perms  string
	dev    string
	inode  uint64
	path   string
	huge   bool
	pages  map[int]*modelPage // by position in units of the page size
	thp    bool
	locked bool
}

type modelPage struct {
	node    topology.NodeID
	maps    int  // processes that map it
	busy    int  // times it answers EBUSY
	stuck   int  // times its migration fails after it was queued; < 0 for ever
	special bool // EFAULT on moving
	file    bool // page cache
	thp     []*modelPage
}

func newModel() *model {
	return &model{procs: map[int]*modelProc{}, free: map[topology.NodeID]int{}, huge: map[topology.NodeID]int{}, nice: true, ticks: 10000,
		cpus: topology.CPUs(0, 1, 2, 3, 4, 5, 6, 7)}
}

func (m *model) add(pid, parent int) *modelProc {
	p := &modelProc{pid: pid, parent: parent, start: uint64(1000 + pid), state: 'S', cgroup: "0::/user.slice\n",
		threads: map[int]topology.CPUSet{pid: m.cpus}}
	m.procs[pid] = p
	return p
}

func (p *modelProc) process() workload.Process { return workload.Process{PID: p.pid, Start: p.start} }

// anon adds a range of pages on the given nodes, in order.
func (p *modelProc) anon(start uintptr, nodes ...topology.NodeID) *modelRange {
	r := &modelRange{start: start, length: len(nodes), perms: "rw-p", dev: "00:00", pages: map[int]*modelPage{}}
	for i, n := range nodes {
		r.pages[i] = &modelPage{node: n, maps: 1}
	}
	p.ranges = append(p.ranges, r)
	slices.SortFunc(p.ranges, func(a, b *modelRange) int { return int(int64(a.start) - int64(b.start)) })
	return r
}

func (r *modelRange) step() uintptr {
	if r.huge {
		return hugePage
	}
	return basePage
}

func (r *modelRange) end() uintptr { return r.start + uintptr(r.length)*r.step() }

// join makes huge pages of the pages of r, which must be aligned.
func (r *modelRange) join() *modelRange {
	r.thp = true
	for i := 0; i+512 <= r.length; i += 512 {
		var all []*modelPage
		for k := range 512 {
			all = append(all, r.pages[i+k])
		}
		for _, pg := range all {
			pg.thp = all
		}
	}
	return r
}

func repeat(node topology.NodeID, n int) []topology.NodeID {
	return slices.Repeat([]topology.NodeID{node}, n)
}

func (m *model) step(what string) error {
	m.calls++
	m.trace = append(m.trace, what)
	if m.calls > 200_000 {
		panic("the model was called without end: " + strings.Join(m.trace[len(m.trace)-20:], "; "))
	}
	if m.hook != nil {
		m.hook(m.calls)
	}
	if m.fault != nil {
		return m.fault(m.calls, what)
	}
	return nil
}

func (p *modelProc) page(addr uintptr) (*modelRange, *modelPage) {
	for _, r := range p.ranges {
		if addr >= r.start && addr < r.end() {
			return r, r.pages[int((addr-r.start)/r.step())]
		}
	}
	return nil, nil
}

func (m *model) live(pid int) (*modelProc, error) {
	p := m.procs[pid]
	if p == nil {
		return nil, unix.ESRCH
	}
	if p.state == 'Z' {
		return nil, unix.EINVAL
	}
	return p, nil
}

// hung waits, without a touch to the model, when the call is one that hangs.
func (m *model) hung(pid int, what string) error {
	if m.hang == nil || !m.hang(pid, what) {
		return nil
	}
	if m.waits != nil {
		m.waits.Add(1)
		defer m.waits.Add(-1)
	}
	<-m.release
	return unix.EIO
}

func (m *model) PageNodes(pid int, pages []uintptr, status []int32) error {
	if err := m.hung(pid, "query"); err != nil {
		return err
	}
	if err := m.step("query"); err != nil {
		return err
	}
	p, err := m.live(pid)
	if err != nil {
		return err
	}
	for i, a := range pages {
		switch r, pg := p.page(a); {
		case r == nil:
			status[i] = -int32(unix.EFAULT)
		case pg == nil:
			status[i] = -int32(unix.ENOENT)
		default:
			status[i] = int32(pg.node)
		}
	}
	return nil
}

// MovePages is do_pages_move: pages are queued, the queue is flushed whenever a
// page is settled at once, and a flush that fails ends the call.
func (m *model) MovePages(pid int, pages []uintptr, nodes, status []int32, all bool) error {
	if err := m.hung(pid, "move"); err != nil {
		return err
	}
	if err := m.step("move"); err != nil {
		return err
	}
	if all && !m.nice {
		return unix.EPERM
	}
	p, err := m.live(pid)
	if err != nil {
		return err
	}
	var queue []int
	flush := func() (failed bool, err error) {
		for _, i := range queue {
			_, pg := p.page(pages[i])
			ok, full := m.migrate(p, pg, topology.NodeID(nodes[i]))
			if full {
				queue = nil
				return true, unix.ENOMEM
			}
			failed = failed || !ok
		}
		if !failed {
			for _, i := range queue {
				status[i] = nodes[i]
			}
		}
		queue = nil
		return failed, nil
	}
	queued := map[*modelPage]bool{}
	for i, a := range pages {
		if !p.mems.Empty() && !p.mems.Has(topology.NodeID(nodes[i])) {
			flush()
			return unix.EACCES
		}
		r, pg := p.page(a)
		errno := unix.Errno(0)
		switch {
		case r == nil:
			errno = unix.EFAULT
		case pg == nil:
			errno = unix.ENOENT
		case pg.node == topology.NodeID(nodes[i]):
			status[i] = nodes[i]
		case pg.special:
			errno = unix.EFAULT
		case pg.maps > 1 && !all:
			errno = unix.EACCES
		case pg.busy > 0:
			pg.busy--
			errno = unix.EBUSY
		case pg.thp != nil && queued[pg.thp[0]]:
			errno = unix.EBUSY // its head is isolated already
		default:
			queue = append(queue, i)
			if pg.thp != nil {
				queued[pg.thp[0]] = true
			}
			continue
		}
		if errno != 0 {
			status[i] = -int32(errno)
		}
		if failed, err := flush(); failed || err != nil {
			return err
		}
		clear(queued)
	}
	_, err = flush()
	return err
}

func (m *model) migrate(p *modelProc, pg *modelPage, to topology.NodeID) (ok, full bool) {
	if pg.stuck != 0 {
		pg.stuck--
		return false, false
	}
	whole := []*modelPage{pg}
	if pg.thp != nil {
		whole = pg.thp
	}
	isHuge := false
	for _, r := range p.ranges {
		if r.huge {
			for _, x := range r.pages {
				isHuge = isHuge || x == pg
			}
		}
	}
	if isHuge {
		if m.huge[to] < 1 {
			return false, true
		}
		m.huge[to]--
	} else if free, limited := m.free[to]; limited {
		if free < len(whole) {
			return false, true
		}
		m.free[to] -= len(whole)
	}
	bytes := int64(basePage)
	if isHuge {
		bytes = hugePage
	}
	for _, x := range whole {
		if x.file {
			m.wrong = "page cache was moved"
		}
		if x.maps < 0 {
			m.wrong = "a page of an outsider was moved"
		}
		if m.home.Has(to) && !m.home.Has(x.node) {
			m.moved += bytes
		}
		x.node = to
	}
	return true, false
}

func (m *model) MigratePages(pid int, from, to topology.NodeSet) (int, error) {
	if err := m.hung(pid, "migrate"); err != nil {
		return 0, err
	}
	if err := m.step("migrate"); err != nil {
		return 0, err
	}
	p, err := m.live(pid)
	if err != nil {
		return 0, err
	}
	left := 0
	for _, r := range p.ranges {
		for _, pg := range r.pages {
			if from.Has(pg.node) {
				if ok, _ := m.migrate(p, pg, to.Min()); !ok {
					left++
				}
			}
		}
	}
	return left, nil
}

func (m *model) thread(tid int) *modelProc {
	for _, p := range m.procs {
		if _, ok := p.threads[tid]; ok {
			return p
		}
	}
	return nil
}

func (m *model) Affinity(tid int) (topology.CPUSet, error) {
	if err := m.step("get affinity"); err != nil {
		return topology.CPUSet{}, err
	}
	p := m.thread(tid)
	if p == nil {
		return topology.CPUSet{}, unix.ESRCH
	}
	return p.threads[tid].Intersect(m.cpus), nil
}

func (m *model) SetAffinity(tid int, cpus topology.CPUSet) error {
	if err := m.step("set affinity"); err != nil {
		return err
	}
	p := m.thread(tid)
	if p == nil {
		return unix.ESRCH
	}
	if !p.allowed.Empty() {
		cpus = cpus.Intersect(p.allowed)
	}
	if !cpus.Intersects(m.cpus) {
		return unix.EINVAL
	}
	p.threads[tid] = cpus
	return nil
}

// Open is the machine's file tree.
func (m *model) Open(name string) (fs.File, error) {
	if parts := strings.Split(name, "/"); len(parts) == 3 {
		pid, _ := strconv.Atoi(parts[1])
		if err := m.hung(pid, parts[2]); err != nil {
			return nil, err
		}
	}
	text, err := m.file(name)
	if err != nil {
		return nil, &fs.PathError{Op: "open", Path: name, Err: err}
	}
	return &modelFile{Reader: bytes.NewReader(text), name: name, m: m}, nil
}

func (m *model) ReadDir(name string) ([]fs.DirEntry, error) {
	if err := m.step("list " + name); err != nil {
		return nil, err
	}
	var ids []int
	parts := strings.Split(name, "/")
	switch {
	case name == "proc":
		ids = slices.Sorted(maps.Keys(m.procs))
	case len(parts) == 3 && parts[2] == "task":
		pid, _ := strconv.Atoi(parts[1])
		if m.procs[pid] == nil {
			return nil, &fs.PathError{Op: "open", Path: name, Err: fs.ErrNotExist}
		}
		ids = slices.Sorted(maps.Keys(m.procs[pid].threads))
	}
	var entries []fs.DirEntry
	for _, id := range ids {
		entries = append(entries, fs.FileInfoToDirEntry(modelInfo(strconv.Itoa(id))))
	}
	return entries, nil
}

func (m *model) Stat(name string) (fs.FileInfo, error) {
	parts := strings.Split(name, "/")
	if len(parts) == 4 && parts[2] == "task" {
		pid, _ := strconv.Atoi(parts[1])
		tid, _ := strconv.Atoi(parts[3])
		if p := m.procs[pid]; p != nil {
			if _, ok := p.threads[tid]; ok {
				return modelInfo(parts[3]), nil
			}
		}
	}
	return nil, fs.ErrNotExist
}

type modelInfo string

func (i modelInfo) Name() string     { return string(i) }
func (modelInfo) Size() int64        { return 0 }
func (modelInfo) Mode() fs.FileMode  { return fs.ModeDir }
func (modelInfo) ModTime() time.Time { return time.Time{} }
func (modelInfo) IsDir() bool        { return true }
func (modelInfo) Sys() any           { return nil }

type modelFile struct {
	*bytes.Reader
	name string
	m    *model
}

func (f *modelFile) Stat() (fs.FileInfo, error) { return nil, unix.ENOSYS }
func (f *modelFile) Close() error               { return nil }

// ReadAt is for pagemap only, whose contents stand at no place.
func (f *modelFile) ReadAt(buf []byte, at int64) (int, error) {
	if err := f.m.step("pagemap"); err != nil {
		return 0, err
	}
	var pid int
	if n, _ := fmt.Sscanf(f.name, "proc/%d/pagemap", &pid); n != 1 {
		return f.Reader.ReadAt(buf, at)
	}
	p := f.m.procs[pid]
	if p == nil {
		return 0, io.EOF // what a pagemap of a process without memory gives
	}
	clear(buf)
	for i := range len(buf) / 8 {
		if _, pg := p.page(uintptr(at)/8*basePage + uintptr(i)*basePage); pg != nil {
			entry := uint64(pagePresent)
			if pg.file {
				entry |= pageFile
			}
			binary.NativeEndian.PutUint64(buf[i*8:], entry)
		}
	}
	return len(buf), nil
}

func (m *model) file(name string) ([]byte, error) {
	if err := m.step("open " + name); err != nil {
		return nil, err
	}
	var node, kb int
	switch {
	case name == "proc/stat":
		return []byte("cpu 1\nbtime 1700000000\n"), nil
	case name == "sys/devices/system/cpu/online":
		return []byte(m.cpus.String() + "\n"), nil
	case name == "sys/fs/cgroup/user.slice/cpuset.cpus.effective" && m.cpuset != "":
		return []byte(m.cpuset), nil
	case name == "sys/devices/system/node/has_memory":
		return []byte("0-3\n"), nil
	}
	if n, _ := fmt.Sscanf(name, "sys/devices/system/node/node%d/hugepages/hugepages-%dkB/free_hugepages", &node, &kb); n == 2 {
		return fmt.Appendf(nil, "%d\n", m.huge[topology.NodeID(node)]), nil
	}
	parts := strings.Split(name, "/")
	if len(parts) != 3 || parts[0] != "proc" {
		return nil, fs.ErrNotExist
	}
	pid, _ := strconv.Atoi(parts[1])
	p := m.procs[pid]
	if p == nil {
		return nil, fs.ErrNotExist
	}
	var b bytes.Buffer
	switch parts[2] {
	case "stat":
		comm, flags := "a) b", 0
		if p.vhost > 0 {
			comm, flags = fmt.Sprintf("vhost-%d", p.vhost), procfs.KernelThread
		}
		fmt.Fprintf(&b, "%d (%s) %c %d %d %d 0 0 %d %s%d %s\n", pid, comm, p.state, p.parent, p.group, p.session, flags, strings.Repeat("0 ", 12), p.start, strings.Repeat("0 ", 30))
	case "status":
		fmt.Fprintf(&b, "Name:\ta) b\nUid:\t%d\t%[1]d\t%[1]d\t%[1]d\nNSpid:\t%s\nVmLck:\t%8d kB\nVmPin:\t%8d kB\n", p.uid, cmp.Or(p.nspid, strconv.Itoa(pid)), p.vmLck, p.vmPin)
	case "cgroup":
		b.WriteString(p.cgroup)
	case "mountinfo":
		b.WriteString("24 1 0:27 / /dev/shm rw - tmpfs tmpfs rw\n25 1 8:1 / / rw - ext4 /dev/sda rw\n")
	case "pagemap":
	case "maps", "numa_maps", "smaps":
		if p.state == 'Z' {
			return nil, nil
		}
		for _, r := range p.ranges {
			r.write(&b, parts[2])
		}
	default:
		return nil, fs.ErrNotExist
	}
	return b.Bytes(), nil
}

func (r *modelRange) write(b *bytes.Buffer, file string) {
	switch file {
	case "maps", "smaps":
		fmt.Fprintf(b, "%x-%x %s 00000000 %s %d", r.start, r.end(), r.perms, r.dev, r.inode)
		if r.path != "" {
			fmt.Fprintf(b, "                   %s", r.path)
		}
		b.WriteByte('\n')
		if file == "smaps" {
			kb := 0
			if r.thp {
				kb = r.length * 4
			}
			flags := "rd wr"
			if r.locked {
				flags = "rd wr lo sd"
			}
			fmt.Fprintf(b, "Size:  %d kB\nAnonHugePages:    %d kB\nVmFlags: %s\n", r.length*4, kb, flags)
		}
	case "numa_maps":
		fmt.Fprintf(b, "%x prefer (many):1", r.start)
		if r.path != "" {
			fmt.Fprintf(b, " file=%s", strings.ReplaceAll(r.path, " ", "\\040"))
		}
		if r.huge {
			b.WriteString(" huge")
		}
		count := map[topology.NodeID]int{}
		anon, most := 0, 0
		for _, pg := range r.pages {
			count[pg.node]++
			if !pg.file {
				anon++
			}
			most = max(most, pg.maps)
		}
		if anon > 0 {
			fmt.Fprintf(b, " anon=%d", anon)
		}
		if most > 1 {
			fmt.Fprintf(b, " mapmax=%d", most)
		}
		for _, n := range slices.Sorted(maps.Keys(count)) {
			fmt.Fprintf(b, " N%d=%d", n, count[n])
		}
		fmt.Fprintf(b, " kernelpagesize_kB=%d\n", r.step()>>10)
	}
}

// modelClock jumps to whatever is waited for.
type modelClock struct {
	now   time.Time
	slept time.Duration
}

func (c *modelClock) Now() time.Time { return c.now }
func (c *modelClock) After(d time.Duration) <-chan time.Time {
	c.now = c.now.Add(d)
	c.slept += d
	ready := make(chan time.Time, 1)
	ready <- c.now
	return ready
}
