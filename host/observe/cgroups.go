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
	"github.com/homenode/homenode/core/workload"
	"github.com/homenode/homenode/host/internal/proc"
	"github.com/homenode/homenode/host/observe/files"
)

// leaf is a cgroup with processes, or in process mode all processes.
type leaf struct {
	path  string // below the hierarchy's root; "" in process mode
	inode uint64 // of its folder; 0 when unknown
	dir   string // where its files are; "" in process mode
	// owner is whose the path says that it is; owned: it says.
	owner  workload.Owner
	owned  bool
	shared bool // never one workload: by nature, or because this process is in it
	look   uint64
	pids   []int
	before []int // pids of the look before

	procs   []*process   // of this look
	procsAt time.Time    // when their stat was read
	procsIn topology.KiB // charged to the leaf then

	usage   time.Duration // total CPU time, -1 when unknown
	use     float64
	usageAt time.Time
	// See Observer.waited.
	waited             float64
	waitedFrom         workload.Source // "" when not known
	periods, throttled uint64          // of cpu.stat
	throttledShare     float64
	stat               numaStat
	hasStat            bool
	charged            topology.KiB // by stat, on all nodes
	cpusAt             uint64       // the look in which cpus and mems were read
	// cpusetAt is when that was; zero asks for a reading at once.
	cpusetAt time.Time
	cpus     topology.CPUSet  // effective
	mems     topology.NodeSet // effective
	idle     bool             // its processes were not looked at: it is small
	known    bool             // looked at before
	window   time.Duration    // that use is over; 0 for the lifetime
	called   string           // its name, once it was asked for
	named    bool             // see Options.Named

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
		clear(o.vhosts)
		clear(o.ended)
		o.kthreadAt = o.now
	}
	if o.top == "" {
		l := o.leafAt("", "", 0)
		pids, err := o.files.Numbers("proc", l.pids[:0])
		if err != nil {
			return fmt.Errorf("%w: %w", errNoProc, err)
		}
		l.pids = pids
		o.found = append(o.found, l)
		return nil
	}
	if err := o.walk("/", o.top, nil); err != nil {
		o.topKnown = false // mounted elsewhere, perhaps, by the next look
		return fmt.Errorf("list cgroups: %w", err)
	}
	return nil
}

// findTop is where the cgroup v2 hierarchy is, "" for process mode, and whether that is
// for good. What fails as if it were there after all is an error: workloads that are
// cgroups in one look must not be processes in the next.
func (o *Observer) findTop() (top string, known bool, err error) {
	b, err := o.files.Read("proc/self/mountinfo", o.buf)
	if err != nil {
		first := err
		if b, err = o.files.Read("proc/1/mountinfo", o.buf); err != nil {
			return "", false, o.noCgroups("proc/self/mountinfo", first)
		}
	}
	top, ok := bestMount(proc.Mountinfo(b))
	if !ok {
		return "", true, nil
	}
	b, err = o.files.Read(top+"/cgroup.controllers", o.buf)
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

// bestMount is the mount of cgroup v2 to look at: the whole hierarchy before a part of it, then
// the first. The path is relative, as fs.FS wants it.
func bestMount(mounts []proc.Mount) (string, bool) {
	best := -1
	for i, m := range mounts {
		if m.Type == "cgroup2" && (best < 0 || (m.Root == "/" && mounts[best].Root != "/")) {
			best = i
		}
	}
	if best < 0 {
		return "", false
	}
	p := path.Clean("/" + mounts[best].Point)[1:]
	return p, p != ""
}

// noCgroups tells what is absent or not ours to see from what could not be read.
func (o *Observer) noCgroups(what string, err error) error {
	if !files.Gone(err) && !files.Denied(err) {
		return fmt.Errorf("find cgroups: %w", err)
	}
	o.problems.add(what, "no cgroups seen, only processes", err)
	return nil
}

// ofTerminals is how the scopes begin in which a shell and all that it starts are: those of
// systemd-logind, of tmux (compat/systemd.c there) and of VTE, the terminal of GNOME.
var ofTerminals = []string{"session-", "tmux-spawn-", "vte-spawn-"}

// leafAt is what is kept of a cgroup. One that was removed and made again under the same
// path, which its inode tells (kernfs gives every folder another), begins anew.
func (o *Observer) leafAt(cgroup, dir string, inode uint64) *leaf {
	l := o.leaves[cgroup]
	if l == nil || (l.inode != inode && inode != 0) {
		base := path.Base(cgroup)
		l = &leaf{path: cgroup, dir: dir, inode: inode, usage: -1}
		l.owner, l.owned = workload.CgroupOwner(cgroup)
		l.shared = cgroup == "" || cgroup == "/" ||
			(strings.HasSuffix(base, ".scope") &&
				slices.ContainsFunc(ofTerminals, func(prefix string) bool { return strings.HasPrefix(base, prefix) }))
		o.leaves[cgroup] = l
	}
	l.look = o.look
	return l
}

// walk adds the leaves at and below the cgroup. into is the leaf that what lies
// here belongs to, nil when there is none above.
func (o *Observer) walk(cgroup, dir string, into *leaf) error {
	if cgroup == "/init.scope" { // systemd's own; of that name elsewhere may be anybody's
		return nil
	}
	subdirs, inode, subdirsErr := o.files.Subdirs(dir, nil)
	b, err := o.files.ReadOpen(dir, files.CgroupProcs, o.buf)
	isTop := cgroup == "/"
	switch {
	case err == nil:
	case files.Gone(err) && !isTop:
		return nil
	case errors.Is(err, syscall.EOPNOTSUPP): // threaded: listed at its domain root
		b = nil
	case isTop:
		return err
	default:
		o.problems.add("cgroup.procs", "cgroups left out", err)
		b = nil
	}
	if len(b) > 0 {
		if into == nil {
			into = o.find(cgroup, dir, inode)
		}
		into.pids = appendPIDs(into.pids, b)
	}
	if isTop {
		into = nil // the root may hold processes beside its children
	}
	if subdirsErr != nil && !files.Gone(subdirsErr) {
		o.problems.add("cgroup", "cgroups left out", subdirsErr)
	}
	var beyond *leaf
	for _, name := range subdirs {
		below, at := into, path.Join(cgroup, name)
		if below == nil && len(at) > longestPath {
			if beyond == nil {
				beyond = o.find(cgroup, dir, inode)
			}
			below = beyond
		}
		if err := o.walk(at, dir+"/"+name, below); err != nil {
			return err
		}
	}
	return nil
}

// longestPath is of a cgroup that is a workload, as long as the kernel tells it
// (/proc/PID/cgroup, PATH_MAX). What lies deeper belongs to the last one that is not longer,
// whose CPUs it has: whoever makes cgroups could fill the history and the journal with paths.
const longestPath = 4096

// find begins a leaf in this look.
func (o *Observer) find(cgroup, dir string, inode uint64) *leaf {
	l := o.leafAt(cgroup, dir, inode)
	l.pids, l.before = l.before[:0], l.pids
	o.found = append(o.found, l)
	return l
}

// appendPIDs reads cgroup.procs. A process outside our PID namespace is listed as 0.
func appendPIDs(pids []int, b []byte) []int {
	for line := range bytes.SplitSeq(b, []byte{'\n'}) {
		if n, ok := proc.Number(line); ok && n > 0 && n < 1<<31 {
			pids = append(pids, int(n))
		}
	}
	return pids
}

// readLeaf reads the figures of a leaf and of its processes.
func (o *Observer) readLeaf(l *leaf) {
	l.idle = false
	if slices.Contains(l.pids, o.opts.SelfPID) {
		l.shared = true
	}
	first := !l.known
	l.known = true
	l.named = !l.shared && l.path != "" && o.opts.Named != nil && o.opts.Named(l.path, o.calledOf(l))
	if l.dir != "" && !l.shared {
		o.readLeafFiles(l)
		// What is charged to the leaf bounds what its processes have, huge pages aside:
		// there is no need to look at the processes of a small one.
		registered := slices.ContainsFunc(l.pids, func(pid int) bool { return o.registered[pid] != 0 })
		if !first && l.mode == notReported && !l.named && !registered && l.hasStat && l.usage >= 0 && !o.hugeUsed &&
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
	l.procs = l.procs[:0]
	l.procsAt = o.now
	l.procsIn = 0
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
		if p := o.process(pid); p != nil && (o.isRegistered(p) || !o.isOwn(p)) {
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

func (o *Observer) readLeafFiles(l *leaf) {
	if b, err := o.files.ReadOpen(l.dir, files.CPUStat, o.buf); err == nil {
		if usage, ok := parseCPUStat(b); ok {
			if window := o.now.Sub(l.usageAt); !l.usageAt.IsZero() && l.usage >= 0 && window >= shortWindow {
				l.use = max(0, float64(usage-l.usage)/float64(window))
				l.usage = usage
				l.usageAt = o.now
				l.window = window
			} else if l.usageAt.IsZero() {
				l.usage, l.usageAt = usage, o.now
			}
		}
		o.waited(l, b)
	} else if !files.Gone(err) {
		o.problems.add("cpu.stat", "CPU time is the sum over processes", err)
	}
	b, err := o.files.ReadOpen(l.dir, files.MemoryNUMAStat, o.buf)
	l.hasStat = err == nil && parseNUMAStat(b, &l.stat)
	l.charged = l.stat.resident().total()
	if err != nil && !files.Gone(err) {
		o.problems.add("memory.numa_stat", "memory of cgroups is read from their processes", err)
	}
}

// readCpuset reads what the cgroup may use. Where the cpuset controller is not on
// for a cgroup, that of the nearest one above holds.
func (o *Observer) readCpuset(l *leaf) {
	if l.cpusAt == o.look || (o.now.Sub(l.cpusetAt) < cpusetEvery && !o.cpusChanged) {
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
		b, err := o.files.Record(dir+"/cpuset.cpus.effective", o.buf)
		if err == nil {
			l.cpus = o.cpuSet(b).Intersect(o.host.Online)
			if b, err := o.files.Record(dir+"/cpuset.mems.effective", o.buf); err == nil {
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
