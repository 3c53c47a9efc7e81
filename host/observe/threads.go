package observe

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/core/workload"
	"github.com/homenode/homenode/host/internal/proc"
	"github.com/homenode/homenode/host/observe/files"
)

// threadTicks is the CPU time a thread had when last looked at.
type threadTicks struct {
	tid   int
	ticks uint64
}

// readThreads finds where the busy workloads ran since they were last looked at,
// the longest unseen first, as far as the budget goes.
func (o *Observer) readThreads(reported []*work) {
	var due []*work
	for _, w := range reported {
		if w.ranAt.IsZero() || (o.use(w) >= busy && o.now.Sub(w.ranAt) >= shortWindow) {
			due = append(due, w)
		}
	}
	slices.SortStableFunc(due, func(a, b *work) int { return a.ranAt.Compare(b.ranAt) })
	budget := threadBudget
	if o.look == 1 {
		budget = 1 << 30 // so that the second look has something to compare with
	}
	for _, w := range due {
		if budget <= 0 {
			return
		}
		w.vhost = vhost{}
		for _, p := range w.procs {
			budget -= o.readRan(w, p)
			o.readKernelVhost(w, p)
		}
		if window := o.now.Sub(w.ranAt); !w.ranAt.IsZero() && window > 0 {
			w.vhost.CPUUse = round2(ticksDuration(w.vhost.ticks).Seconds() / window.Seconds())
		}
		w.ranAt = o.now
		o.settleRan(w)
	}
}

// readRan adds to w where the threads of p ran since they were last looked at, and
// returns how many files that took.
func (o *Observer) readRan(w *work, p *process) int {
	before := p.seenTicks
	beforeTicks := p.ranTicks
	known := !p.ranAt.IsZero()
	p.ranAt, p.ranTicks = o.now, p.ticks
	// A workload is looked at with all its processes and threads: what was not there
	// the last time began since, and all its time is of this window.
	count := known || !w.ranAt.IsZero()
	if p.threads <= 1 {
		p.seenTicks = nil
		if count && p.ticks > beforeTicks {
			o.ranOn(w, p.cpu, p.ticks-beforeTicks)
		}
		return 0
	}
	if known && before == nil {
		before = []threadTicks{{p.pid, beforeTicks}} // had one thread then
	}
	tids, err := o.files.Numbers(proc.File(p.pid, "task"), o.tids[:0])
	o.tids = tids
	if err != nil {
		return 1
	}
	slices.Sort(tids)
	after := make([]threadTicks, 0, len(tids))
	guest := p.hypervisor()
	for _, tid := range tids {
		b, err := o.files.Record(proc.TaskFile(p.pid, tid, "stat"), o.buf)
		if err != nil {
			continue
		}
		s, err := proc.ParseStat(b)
		if err != nil {
			continue
		}
		after = append(after, threadTicks{tid, s.Ticks})
		for len(before) > 0 && before[0].tid < tid {
			before = before[1:]
		}
		was := uint64(0)
		if len(before) > 0 && before[0].tid == tid {
			was = before[0].ticks
		}
		if _, is := vhostOwner(s.Comm); is {
			o.addVhost(&w.vhost, tid, s.CPU, map[bool]uint64{true: s.Ticks - was}[count && s.Ticks > was])
		}
		if count && s.Ticks > was {
			o.ranOn(w, s.CPU, s.Ticks-was)
			if guest {
				o.vcpuRan(w, s.Comm, s.CPU, s.Ticks-was)
			}
		}
	}
	p.seenTicks = after
	return len(tids)
}

func (o *Observer) ranOn(w *work, cpu int, ticks uint64) {
	if cpu >= len(o.nodeOf) || o.nodeOf[cpu] < 0 {
		return
	}
	node := o.nodeOf[cpu]
	for node >= len(w.acc) {
		w.acc = append(w.acc, 0)
	}
	w.acc[node] += min(ticks, 1<<40)
}

// settleRan makes shares of the ticks seen, once there are enough of them.
func (o *Observer) settleRan(w *work) {
	var total uint64
	for _, t := range w.acc {
		total += t
	}
	if total == 0 || (total < enoughTicks && w.ran != nil) {
		return
	}
	w.ran = nil
	for n, t := range w.acc {
		if t > 0 {
			w.ran = append(w.ran, workload.NodeShare{Node: topology.NodeID(n), Share: float64(t) / float64(total)})
		}
	}
	clear(w.acc)
	w.settleVCPUs(total)
}

// allowedShares spreads over the CPUs of a set.
func (o *Observer) allowedShares(cpus topology.CPUSet) []workload.NodeShare {
	total := 0
	for _, n := range o.host.Nodes {
		total += n.CPUs.Overlap(cpus)
	}
	var out []workload.NodeShare
	for _, n := range o.host.Nodes {
		if k := n.CPUs.Overlap(cpus); k > 0 {
			out = append(out, workload.NodeShare{Node: n.ID, Share: float64(k) / float64(total)})
		}
	}
	slices.SortFunc(out, func(a, b workload.NodeShare) int { return cmp.Compare(a.Node, b.Node) })
	return out
}

// mask is an affinity that some threads of a process share.
type mask struct {
	cpus    topology.CPUSet
	threads int
	tid     int // one of them
}

// readAffinities brings the affinities of the threads up to date.
func (o *Observer) readAffinities(reported []*work) {
	budget := statusBudget
	for _, w := range reported {
		o.readCpuset(w.leaf)
		want, divided := o.with.Expected(w.id), o.with.Divided[w.id]
		changed := !slices.EqualFunc(want, w.expected, topology.CPUSet.Equal) ||
			!slices.EqualFunc(divided, w.divided, topology.CPUSet.Equal)
		w.expected, w.divided = want, divided
		for _, p := range w.procs {
			due := p.affAt.IsZero() || changed || !p.affCPUs.Equal(w.leaf.cpus)
			if due {
				p.statusClock = -1 // its memory nodes may be others, too
			}
			// Spread, or all that were found in the first look stay due together.
			every := affinityEvery - affinityEvery/32*time.Duration(p.pid%8)
			if due || (budget > 0 && o.now.Sub(p.affAt) >= every) {
				budget -= o.readAffinity(w, p)
				if slices.ContainsFunc(p.aff, func(m mask) bool { return !w.leaf.cpus.SubsetOf(m.cpus) }) {
					w.leaf.cpusetAt = time.Time{} // the cgroup may have been narrowed since it was read
					o.readCpuset(w.leaf)
				}
			}
		}
	}
}

// readAffinity reads the affinity of each thread of p and returns how many files
// that took.
func (o *Observer) readAffinity(w *work, p *process) int {
	p.affAt, p.affCPUs = o.now, w.leaf.cpus
	p.aff = p.aff[:0]
	tids := append(o.tids[:0], p.pid)
	if p.threads > 1 {
		var err error
		if tids, err = o.files.Numbers(proc.File(p.pid, "task"), o.tids[:0]); err != nil {
			return 1
		}
	}
	o.tids = tids
	cost := 0
	for _, tid := range tids {
		cpus, err := o.files.Affinity(tid)
		if errors.Is(err, errors.ErrUnsupported) {
			cost++
			b, err := o.files.Record(proc.TaskFile(p.pid, tid, "status"), o.buf)
			if err != nil && tid == p.pid { // a captured tree may have no task folders
				b, err = o.files.Read(proc.File(p.pid, "status"), o.buf)
			}
			if err != nil {
				if !files.Gone(err) {
					o.problems.add("proc/PID/status", "affinity unknown", err)
				}
				continue
			}
			cpus = o.cpuSet(proc.ParseStatus(b).CPUs)
		} else if err != nil {
			continue
		}
		if !cpus.Empty() {
			p.addMask(cpus, tid)
		}
	}
	asleep := p.slept(p.statusClock) && o.now.Sub(p.statusAt) < sleeperEvery
	if (w.kind == workload.InProcess || w.leaf.mems.Empty()) && !asleep {
		o.readStatus(p)
		cost++
	}
	if w.root == p {
		if p.leaf.dir == "" {
			p.cgroup = o.cgroupOf(p.pid)
		}
		p.owner = o.owners.Known(p.pid, p.uid, cmp.Or(p.cgroup, p.leaf.path))
	}
	return cost
}

func (p *process) addMask(cpus topology.CPUSet, tid int) {
	for i := range p.aff {
		if p.aff[i].cpus.Equal(cpus) {
			p.aff[i].threads++
			return
		}
	}
	p.aff = append(p.aff, mask{cpus, 1, tid})
}

// ownerNow returns the owner of a process for a call that may wait for ever. The UID may be
// affinityEvery old: a login that was root's until then is in the user's slice by now. A
// process that has not run since status was read has the same UID.
func (o *Observer) ownerNow(p *process) workload.Owner {
	if p.leaf.owned {
		return p.leaf.owner
	}
	known := !p.statusAt.IsZero() && p.slept(p.statusClock)
	if !known && o.now.Sub(p.statusAt) >= affinityEvery {
		o.readStatus(p)
	}
	cgroup := p.leaf.path
	if p.leaf.dir == "" {
		cgroup = o.cgroupOf(p.pid)
	}
	return o.owners.Known(p.pid, p.uid, cgroup)
}

// cgroupOf is the cgroup v2 path of a process, "" when there is none.
func (o *Observer) cgroupOf(pid int) string {
	b, err := o.files.Read(proc.File(pid, "cgroup"), o.buf)
	if err != nil {
		return ""
	}
	return proc.Cgroup(b)
}

// cpusOf is the CPUs the workload may use now, and why it counts as pinned.
func (o *Observer) cpusOf(w *work) (cpus topology.CPUSet, why string) {
	// What a thread has that nobody pinned: all its cgroup allows, less what PID 1
	// was not given either (isolcpus=, CPUAffinity= of systemd).
	base := w.leaf.cpus
	if both := base.Intersect(o.initCPUs); !both.Empty() {
		base = both
	}
	var expected topology.CPUSet
	if len(w.expected) > 0 {
		expected = w.expected[0].Intersect(o.host.Online)
	}
	var union topology.CPUSet
	var first mask
	all, narrow := 0, 0
	for _, p := range w.procs {
		for _, m := range p.aff {
			all += m.threads
			online := m.cpus.Intersect(o.host.Online)
			if slices.ContainsFunc(w.divided, online.Equal) { // the others have the rest
				if union = union.Union(expected); expected.Empty() {
					union = union.Union(base)
				}
				continue
			}
			if !m.cpus.SubsetOf(union) {
				union = union.Union(m.cpus)
			}
			if base.SubsetOf(m.cpus) || o.expects(w.expected, online) || (w.root != nil && o.inherited(p, online)) {
				continue
			}
			if narrow == 0 {
				first = m
			}
			narrow += m.threads
		}
	}
	if cpus = union.Intersect(w.leaf.cpus); cpus.Empty() {
		cpus = w.leaf.cpus.Clone()
	}
	switch {
	case narrow == 0:
	case all == 1:
		why = fmt.Sprintf("its only thread has an affinity of its own (thread %d: %s)", first.tid, first.cpus)
	case narrow == all:
		why = fmt.Sprintf("all %d threads have an affinity of their own (thread %d: %s)", all, first.tid, first.cpus)
	default:
		why = fmt.Sprintf("%d of %d threads have an affinity of their own (thread %d: %s)", narrow, all, first.tid,
			first.cpus)
	}
	return cpus, why
}

// expects reports whether CPUs are a set that homenode gave, as far as those run.
func (o *Observer) expects(given []topology.CPUSet, cpus topology.CPUSet) bool {
	return !cpus.Empty() &&
		slices.ContainsFunc(given, func(x topology.CPUSet) bool { return x.Intersect(o.host.Online).Equal(cpus) })
}

// inherited reports whether CPUs are those that homenode gave to a workload that an ancestor
// of the process is the root of: then it, or who started it, began with them.
func (o *Observer) inherited(p *process, cpus topology.CPUSet) bool {
	for range maxDepth {
		parent := o.procs[p.ppid]
		if parent == nil || parent == p || parent.start > p.start {
			return false
		}
		p = parent
		if o.expects(o.with.Expected(processID(p)), cpus) || slices.ContainsFunc(o.with.Divided[processID(p)],
			cpus.Equal) {
			return true
		}
	}
	return false
}

// maxDepth bounds the way up: what was read one after the other may seem to form a ring.
const maxDepth = 1000

// memsOf is the nodes the workload may take memory from.
func (o *Observer) memsOf(w *work) topology.NodeSet {
	if w.kind == workload.InCgroup && !w.leaf.mems.Empty() {
		return w.leaf.mems.Clone()
	}
	var mems topology.NodeSet
	for _, p := range w.procs {
		if !p.mems.SubsetOf(mems) {
			mems = mems.Union(p.mems)
		}
	}
	if mems.Empty() {
		return o.host.WithMemory()
	}
	return mems
}
