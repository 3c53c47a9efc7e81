package observe

import (
	"bytes"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/homenode/homenode/core/topology"
)

// process is what is known of one process.
type process struct {
	pid     int
	start   uint64
	comm    string
	ppid    int
	threads int
	cpu     int
	ticks   uint64
	rss     topology.KiB
	use     float64   // over the last window; the lifetime mean at first
	seen    time.Time // of stat
	look    uint64
	window  time.Duration // that use is over; 0 for the lifetime
	delta   uint64        // ticks since the last look; all of them at first

	// What status says, as of statusAt.
	huge     topology.KiB
	mems     topology.NodeSet
	statusAt time.Time
	cgroup   string

	// Within its leaf, in this look.
	leaf         *leaf
	kid, sibling *process
	sum          amount // of itself and its descendants that no tracked process has
	// A process that is reported as root of a workload stays so (see settle).
	tracked    bool
	belowSince time.Time

	aff       []mask // one per different affinity among the threads
	affAt     time.Time
	affCPUs   topology.CPUSet // of the leaf when aff was read
	seenTicks []threadTicks   // rising by TID
	ranAt     time.Time       // of seenTicks; the process's own ticks then are ranTicks
	ranTicks  uint64

	maps      *numaMaps
	mapsAt    time.Time
	mapsCost  time.Duration
	mapsRSS   topology.KiB
	mapsIn    topology.KiB // charged to the leaf then
	mapsErr   error
	mapsStale bool
	// hintsStale: its pages were moved; the kernel's samples count from scan hintsFrom on.
	hintsStale bool
	hintsFrom  uint64
	pssAnon    topology.KiB // anonymous memory with each page shared out over its users; None when not read
}

// mem is resident memory with huge pages.
func (p *process) mem() topology.KiB { return p.rss + p.huge }

// amount is memory and CPU use.
type amount struct {
	mem topology.KiB
	use float64
}

func (a *amount) add(b amount) { a.mem += b.mem; a.use += b.use }

func (o *Observer) big(a amount) bool {
	return a.mem >= o.opts.MinMemory || a.use >= o.opts.MinCPU
}

// keep reports whether what is reported stays so.
func (o *Observer) keep(a amount) bool {
	return a.mem*2 >= o.opts.MinMemory || a.use*2 >= o.opts.MinCPU
}

// leaf is a cgroup with processes, or in process mode all processes.
type leaf struct {
	path   string // below the hierarchy's root; "" in process mode
	dir    string // where its files are; "" in process mode
	shared bool   // by nature: never one workload
	look   uint64
	pids   []int
	before []int // pids of the look before

	procs   []*process   // of this look
	procsAt time.Time    // when their stat was read
	procsIn topology.KiB // charged to the leaf then

	usage   time.Duration // total CPU time, -1 when unknown
	use     float64
	usageAt time.Time
	stat    numaStat
	hasStat bool
	charged topology.KiB // by stat, on all nodes
	cpusAt  uint64       // the look in which cpus and mems were read
	// cpusetAt is when that was; zero asks for a reading at once.
	cpusetAt time.Time
	cpus     topology.CPUSet  // effective
	mems     topology.NodeSet // effective
	idle     bool             // its processes were not looked at: it is small
	known    bool             // looked at before
	window   time.Duration    // that use is over; 0 for the lifetime

	// How it is reported (see settle).
	mode       leafMode
	belowSince time.Time
	otherSince time.Time // when it began to look as if it were in the other mode
}

type leafMode byte

const (
	notReported leafMode = iota
	asOne                // one workload
	asMany               // process workloads
)

var errNoProc = errors.New("no proc file system")

// findLeaves lists the cgroups that hold processes, or all processes, in o.found.
func (o *Observer) findLeaves() error {
	o.found = o.found[:0]
	if !o.topKnown {
		var err error
		if o.top, o.topKnown, err = o.findTop(); err != nil {
			return err
		}
	}
	if o.now.Sub(o.kthreadAt) >= settle {
		clear(o.kthreads) // PIDs are used again
		o.kthreadAt = o.now
	}
	if o.top == "" {
		l := o.leafAt("", "")
		pids, err := o.files.numbers("proc", l.pids[:0])
		if err != nil {
			return fmt.Errorf("%w: %w", errNoProc, err)
		}
		l.pids = pids
		o.found = append(o.found, l)
		return nil
	}
	if _, err := o.walk("/", o.top, nil); err != nil {
		o.topKnown = false // mounted elsewhere, perhaps, by the next look
		return fmt.Errorf("list cgroups: %w", err)
	}
	return nil
}

// findTop is where the cgroup v2 hierarchy is, "" for process mode, and whether that is
// for good. What fails as if it were there after all is an error: workloads that are
// cgroups in one look must not be processes in the next.
func (o *Observer) findTop() (top string, known bool, err error) {
	b, err := o.files.read("proc/self/mountinfo", o.buf)
	if err != nil {
		first := err
		if b, err = o.files.read("proc/1/mountinfo", o.buf); err != nil {
			return "", false, o.noCgroups("proc/self/mountinfo", first)
		}
	}
	top, ok := bestMount(parseMountinfo(b))
	if !ok {
		return "", true, nil
	}
	b, err = o.files.read(top+"/cgroup.controllers", o.buf)
	if err != nil {
		return "", false, o.noCgroups(top, err)
	}
	for _, c := range bytes.Fields(b) {
		if string(c) == "cpuset" {
			return top, true, nil
		}
	}
	return "", true, nil
}

// noCgroups tells what is absent or not ours to see from what could not be read.
func (o *Observer) noCgroups(what string, err error) error {
	if !gone(err) && !denied(err) {
		return fmt.Errorf("find cgroups: %w", err)
	}
	o.problems.add(what, "no cgroups seen, only processes", err)
	return nil
}

func (o *Observer) leafAt(cgroup, dir string) *leaf {
	l := o.leaves[cgroup]
	if l == nil {
		base := path.Base(cgroup)
		l = &leaf{path: cgroup, dir: dir, usage: -1}
		l.shared = cgroup == "" || cgroup == "/" ||
			(strings.HasPrefix(base, "session-") && strings.HasSuffix(base, ".scope"))
		o.leaves[cgroup] = l
	}
	l.look = o.look
	return l
}

// walk adds the leaves at and below the cgroup. into is the leaf that what lies
// here belongs to, nil when there is none above. It reports whether the cgroup is there.
func (o *Observer) walk(cgroup, dir string, into *leaf) (bool, error) {
	if path.Base(cgroup) == "init.scope" {
		return true, nil
	}
	b, err := o.files.held(dir, cgroupProcs, o.buf)
	isTop := cgroup == "/"
	switch {
	case err == nil:
	case gone(err) && !isTop:
		return false, nil
	case errors.Is(err, syscall.EOPNOTSUPP): // threaded: listed at its domain root
		b = nil
	case isTop:
		return false, err
	default:
		o.problems.add("cgroup.procs", "cgroups left out", err)
		b = nil
	}
	if len(b) > 0 {
		if into == nil {
			into = o.leafAt(cgroup, dir)
			into.pids, into.before = into.before[:0], into.pids
			o.found = append(o.found, into)
		}
		into.pids = appendPIDs(into.pids, b)
	}
	if isTop {
		into = nil // the root may hold processes beside its children
	}
	subdirs, err := o.files.subdirs(dir, nil)
	if err != nil && !gone(err) {
		o.problems.add("cgroup", "cgroups left out", err)
	}
	for _, name := range subdirs {
		if _, err := o.walk(path.Join(cgroup, name), dir+"/"+name, into); err != nil {
			return true, err
		}
	}
	return true, nil
}

// appendPIDs reads cgroup.procs. A process outside our PID namespace is listed as 0.
func appendPIDs(pids []int, b []byte) []int {
	for len(b) > 0 {
		line := b
		if i := bytes.IndexByte(b, '\n'); i >= 0 {
			line, b = b[:i], b[i+1:]
		} else {
			b = nil
		}
		if n, ok := number(line); ok && n > 0 && n < 1<<31 {
			pids = append(pids, int(n))
		}
	}
	return pids
}

// ownName is the program's own: a `homenode status` that runs for a moment is no
// workload. What `homenode run` starts has another name by then.
const ownName = "homenode"

// readLeaf reads the figures of a leaf and of its processes.
func (o *Observer) readLeaf(l *leaf) {
	l.idle = false
	for _, pid := range l.pids {
		if pid == o.opts.SelfPID && !l.shared {
			l.procs = l.procs[:0]
			return // our own leaf
		}
	}
	first := !l.known
	l.known = true
	if l.dir != "" && !l.shared {
		o.readLeafFiles(l)
		// What is charged to the leaf bounds what its processes have, huge pages aside:
		// there is no need to look at the processes of a small one.
		registered := slices.ContainsFunc(l.pids, func(pid int) bool { return o.registered[pid] != 0 })
		if !first && l.mode == notReported && !registered && l.hasStat && l.usage >= 0 && !o.hugeUsed &&
			!o.big(amount{l.charged, l.use}) {
			l.idle = true
			return
		}
		if o.quiet(l) {
			for _, p := range l.procs {
				p.renew(o.look)
			}
			return
		}
	}
	l.procs, l.procsAt, l.procsIn = l.procs[:0], o.now, 0
	if l.hasStat {
		l.procsIn = l.charged
	}
	for _, pid := range l.pids {
		if pid == 1 || pid == o.opts.SelfPID {
			continue
		}
		if _, ok := o.kthreads[pid]; ok {
			continue
		}
		if p := o.readProcess(pid); p != nil && p.comm != ownName {
			p.leaf = l
			l.procs = append(l.procs, p)
		}
	}
	if first {
		l.use = o.lifetimeUse(l)
	}
}

// quiet reports whether the processes of a leaf need no new look: they are the same
// as before, their memory has not changed, and it is not long ago.
func (o *Observer) quiet(l *leaf) bool {
	every := affinityEvery
	if l.use >= busy {
		every = processesEvery
	}
	if l.mode != asOne || !l.hasStat || l.usage < 0 || o.now.Sub(l.procsAt) >= every {
		return false
	}
	change := l.charged - l.procsIn
	return max(change, -change) <= l.procsIn/100 && slices.Equal(l.pids, l.before)
}

// renew takes a process over into a look as it was.
func (p *process) renew(look uint64) {
	p.look, p.delta = look, 0
	p.kid, p.sibling, p.sum = nil, nil, amount{}
}

func (o *Observer) readLeafFiles(l *leaf) {
	if b, err := o.files.held(l.dir, cpuStat, o.buf); err == nil {
		if usage, ok := parseCPUStat(b); ok {
			if window := o.now.Sub(l.usageAt); !l.usageAt.IsZero() && l.usage >= 0 && window >= shortWindow {
				l.use = max(0, float64(usage-l.usage)/float64(window))
				l.usage, l.usageAt, l.window = usage, o.now, window
			} else if l.usageAt.IsZero() {
				l.usage, l.usageAt = usage, o.now
			}
		}
	} else if !gone(err) {
		o.problems.add("cpu.stat", "CPU time is the sum over processes", err)
	}
	b, err := o.files.held(l.dir, memoryNUMAStat, o.buf)
	l.hasStat = err == nil && parseNUMAStat(b, &l.stat)
	l.charged = l.stat.resident().total()
	if err != nil && !gone(err) {
		o.problems.add("memory.numa_stat", "memory of cgroups is read from their processes", err)
	}
}

// readCpuset reads what the cgroup may use. Where the cpuset controller is not on
// for a cgroup, that of the nearest one above holds.
func (o *Observer) readCpuset(l *leaf) {
	if l.cpusAt == o.look || o.now.Sub(l.cpusetAt) < cpusetEvery && !o.cpusChanged {
		return
	}
	l.cpusAt, l.cpusetAt = o.look, o.now
	if l.dir == "" {
		l.cpus, l.mems = o.host.Online, topology.NodeSet{}
		return
	}
	l.cpus, l.mems = topology.CPUSet{}, topology.NodeSet{}
	// Up to the hierarchy's root, whose own files list all CPUs and nodes.
	for dir := l.dir; ; dir = path.Dir(dir) {
		b, err := o.files.record(dir+"/cpuset.cpus.effective", o.buf)
		if err == nil {
			l.cpus = o.cpuSet(b).Intersect(o.host.Online)
			if b, err := o.files.record(dir+"/cpuset.mems.effective", o.buf); err == nil {
				l.mems = o.nodeSet(b)
			}
			break
		}
		if len(dir) <= len(o.top) {
			break
		}
	}
	if l.cpus.Empty() {
		l.cpus = o.host.Online
	}
}

// readProcess reads /proc/PID/stat; nil for what is no workload or has ended.
func (o *Observer) readProcess(pid int) *process {
	b, err := o.files.record(pidFile(pid, "stat"), o.buf)
	if err != nil {
		if !gone(err) {
			o.problems.add("proc/PID/stat", "processes left out", err)
		}
		return nil
	}
	s, err := parseStat(b)
	if err != nil {
		o.problems.add("proc/PID/stat", "processes left out", fmt.Errorf("pid %d: %w", pid, err))
		return nil
	}
	if s.flags&kernelThread != 0 {
		o.kthreads[pid] = struct{}{}
		return nil
	}
	if (s.state == 'Z' || s.state == 'X') && s.threads <= 1 {
		return nil // ended, waiting for its parent
	}
	p := o.procs[pid]
	if p == nil || p.start != s.start {
		p = &process{pid: pid, start: s.start, pssAnon: topology.None}
		o.procs[pid] = p
	}
	if p.comm != string(s.comm) {
		p.comm = string(s.comm)
	}
	p.renew(o.look)
	p.ppid, p.threads, p.cpu = s.ppid, s.threads, s.cpu
	p.rss = topology.KiB(s.rss) * o.opts.PageSize
	switch window := o.now.Sub(p.seen); {
	case p.seen.IsZero():
		p.delta = s.ticks
		if age := o.age(s.start); age > 0 {
			p.use = ticksDuration(s.ticks).Seconds() / age.Seconds()
		}
		p.ticks, p.seen = s.ticks, o.now
	case window >= shortWindow:
		p.use, p.window = 0, window
		if s.ticks > p.ticks {
			p.delta = s.ticks - p.ticks
			p.use = ticksDuration(p.delta).Seconds() / window.Seconds()
		}
		p.ticks, p.seen = s.ticks, o.now
	}
	if o.hugeUsed && o.now.Sub(p.statusAt) >= settle {
		o.readStatus(p)
	}
	return p
}

// readStatus reads /proc/PID/status.
func (o *Observer) readStatus(p *process) {
	b, err := o.files.record(pidFile(p.pid, "status"), o.buf)
	if err != nil {
		if !gone(err) {
			o.problems.add("proc/PID/status", "affinity unknown", err)
		}
		return
	}
	s := parseStatus(b)
	p.huge, p.statusAt = s.huge, o.now
	p.mems = o.nodeSet(s.mems)
}

// age is how long ago a process started; 0 when unknown.
func (o *Observer) age(start uint64) time.Duration {
	if o.uptime <= 0 || start > 1<<40 {
		return 0
	}
	// A new process may be younger than a tick.
	return max(o.uptime-ticksDuration(start), time.Second/ticksPerSecond)
}

func ticksDuration(ticks uint64) time.Duration {
	return time.Duration(min(ticks, 1<<36)) * (time.Second / ticksPerSecond)
}

// lifetimeUse is the mean use since the oldest process of the leaf started.
func (o *Observer) lifetimeUse(l *leaf) float64 {
	var oldest time.Duration
	for _, p := range l.procs {
		oldest = max(oldest, o.age(p.start))
	}
	if oldest <= 0 || l.usage <= 0 {
		return 0
	}
	return l.usage.Seconds() / oldest.Seconds()
}
