package observe

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/core/words"
	"github.com/homenode/homenode/core/workload"
)

// work is what is kept of a reported workload between looks.
type work struct {
	id    workload.ID
	kind  workload.Kind
	leaf  *leaf
	root  *process // nil for a cgroup
	procs []*process
	look  uint64
	isNew bool // reported for the first time in this look
	// terminal: it is the shell of a terminal, or starts such shells.
	terminal bool

	cpuTicks uint64 // total of its processes, ended ones too

	ranAt time.Time // when its threads were last looked at
	acc   []uint64  // ticks by node since ran was last settled
	ran   []workload.NodeShare
	// … of the vCPUs of a guest.
	vcpuAcc map[vcpuOn]uint64
	vcpus   []workload.ThreadTime

	access  access
	signal  signal
	slicing slicing
	vhost   vhost
	grouped grouped

	mem        usage // of its processes, without what is shared
	shared     usage // what of that others share is counted here
	memVersion uint64

	cpus     topology.CPUSet   // as last reported
	expected []topology.CPUSet // see control.Attention
	divided  []topology.CPUSet // see control.Attention
	wide     wide
}

// decide says what of a leaf is reported, and adds what of it is too small to o.smaller.
func (o *Observer) decide(l *leaf) []*work {
	if l.idle {
		o.addSmaller(l, nil, amount{l.charged, l.use})
		return nil
	}
	if len(l.procs) == 0 {
		return nil
	}
	slices.SortFunc(l.procs, func(a, b *process) int { return cmp.Compare(a.pid, b.pid) })
	l.procs = slices.Compact(l.procs)
	roots := o.link(l)
	if l.shared || slices.ContainsFunc(l.procs, o.isRegistered) {
		l.mode = asMany
	} else if l.named {
		if l.mode == asMany {
			untrack(l)
		}
		l.mode = asOne
	} else {
		o.settleMode(l, roots)
	}
	switch l.mode {
	case asOne:
		w := o.work(workload.ID(l.path), workload.InCgroup, l, nil)
		w.procs = append(w.procs[:0], l.procs...)
		return []*work{w}
	case asMany:
		return o.trees(l, roots)
	}
	o.addSmaller(l, nil, o.leafAmount(l))
	return nil
}

// addSmaller notes a leaf, or the tree of one of its processes, that is too small.
func (o *Observer) addSmaller(l *leaf, root *process, has amount) {
	x := workload.Smaller{ID: workload.ID(l.path), Kind: workload.InCgroup, Cgroup: l.path, Memory: has.mem,
		CPUUse: has.use}
	if root != nil {
		if root.id == "" {
			root.id = processID(root)
		}
		x.ID = root.id
		x.Kind = workload.InProcess
		x.Name = words.Printable(root.comm)
	} else {
		x.Name = o.calledOf(l)
	}
	o.smaller = append(o.smaller, x)
}

// calledOf is what people call a cgroup.
func (o *Observer) calledOf(l *leaf) string {
	if l.called == "" {
		l.called = workload.UnitName(l.path)
		if name := o.container(l.path); name != "" {
			l.called = name
		}
	}
	return l.called
}

// link makes trees of the processes of a leaf and returns their roots.
func (o *Observer) link(l *leaf) []*process {
	for _, p := range l.procs {
		asleep := p.hadParent && !p.readAt.Equal(o.now)
		if asleep && o.parentIn(l, p) == nil {
			o.readProcess(p.pid, p.clock) // who has it now
		}
	}
	var roots []*process
	for _, p := range slices.Backward(l.procs) {
		parent := o.parentIn(l, p)
		p.hadParent = parent != nil
		if parent == nil {
			roots = append(roots, p)
			continue
		}
		p.sibling, parent.child = parent.child, p
	}
	slices.Reverse(roots)
	return roots
}

// parentIn is the parent of a process if that is in the same leaf, else nil. What began after a process that was not
// read in this look has the PID of its parent, which has ended: with a descendant of its own it would make a ring that
// is in no tree.
func (o *Observer) parentIn(l *leaf, p *process) *process {
	parent := o.procs[p.ppid]
	if parent == nil || parent == p || parent.leaf != l || parent.look != o.look {
		return nil
	}
	another := parent.start > p.start && !p.readAt.Equal(o.now)
	if another {
		return nil
	}
	return parent
}

// settleMode decides whether the leaf is one workload, several or too small.
func (o *Observer) settleMode(l *leaf, roots []*process) {
	total := o.leafAmount(l)
	bigTrees := 0
	keptTrees := 0
	for _, r := range roots {
		sum(r, false)
		if o.joined(r) != nil {
			continue
		}
		if o.big(r.sum) {
			bigTrees++
		}
		if o.keep(r.sum) {
			keptTrees++
		}
	}
	switch l.mode {
	case asOne:
		if o.lasts(&l.otherSince, bigTrees >= 2) {
			l.mode = asMany
		} else if o.lasts(&l.belowSince, !o.keep(total)) {
			l.mode = notReported
		}
	case asMany:
		if o.lasts(&l.otherSince, keptTrees < 2) {
			untrack(l)
			l.mode = notReported
			if o.big(total) {
				l.mode = asOne
			}
		}
	default:
		l.otherSince, l.belowSince = time.Time{}, time.Time{}
		if bigTrees >= 2 {
			l.mode = asMany
		} else if o.big(total) {
			l.mode = asOne
		}
	}
}

func untrack(l *leaf) {
	for _, p := range l.procs {
		p.tracked = false
	}
}

// lasts reports whether what is true now has been so for the time settle. It
// forgets the time when it is false or has been reported.
func (o *Observer) lasts(since *time.Time, now bool) bool {
	if !now {
		*since = time.Time{}
		return false
	}
	if since.IsZero() {
		*since = o.now
	}
	if o.now.Sub(*since) < settle {
		return false
	}
	*since = time.Time{}
	return true
}

// leafAmount is what the leaf as a whole has.
func (o *Observer) leafAmount(l *leaf) amount {
	var all, largest amount
	for _, p := range l.procs {
		all.add(amount{p.mem(), p.use})
		largest.mem = max(largest.mem, p.mem())
	}
	if l.hasStat {
		// A process that was moved in left the charge for its memory behind.
		all.mem = max(l.stat.resident().total(), largest.mem)
	}
	if l.usage >= 0 {
		all.use = l.use
	}
	return all
}

// sum adds up the tree below p, with cut without what is under a tracked process.
func sum(p *process, cut bool) {
	p.sum = amount{p.mem(), p.use}
	for child := p.child; child != nil; child = child.sibling {
		sum(child, cut)
		if !cut || !child.tracked {
			p.sum.add(child.sum)
		}
	}
}

// trees gives the process workloads of a leaf.
func (o *Observer) trees(l *leaf, roots []*process) []*work {
	for _, r := range roots {
		sum(r, true)
	}
	for _, p := range l.procs {
		if o.isRegistered(p) {
			p.tracked, p.belowSince = true, time.Time{}
		} else if p.tracked && o.lasts(&p.belowSince, !o.keep(o.amountOf(p))) {
			p.tracked = false
		}
	}
	for _, r := range roots {
		sum(r, true)
		o.pick(r)
	}
	for _, p := range l.procs {
		if o.isRegistered(p) {
			o.keepWhole(p)
		}
	}
	var works []*work
	joining := map[*process][]*process{}
	for _, r := range roots {
		before, joined := len(works), 0
		for _, procs := range joining {
			joined -= len(procs)
		}
		works = o.tracked(r, nil, works, joining)
		for _, procs := range joining {
			joined += len(procs)
		}
		if len(works) == before && joined == 0 {
			o.addSmaller(l, r, r.sum)
		}
	}
	for _, w := range works {
		w.procs = append(w.procs, joining[w.root]...)
		slices.SortFunc(w.procs, func(a, b *process) int { return cmp.Compare(a.pid, b.pid) })
	}
	return works
}

// amountOf is what a process would have as a workload.
func (o *Observer) amountOf(p *process) amount {
	if o.apart(p) {
		return amount{p.mem(), p.use}
	}
	return p.sum
}

// isRegistered reports whether the process is a workload whatever its size.
func (o *Observer) isRegistered(p *process) bool {
	start, ok := o.registered[p.pid]
	return ok && start == p.start
}

// pick finds the roots of new workloads in the tree of p.
func (o *Observer) pick(p *process) {
	if o.apart(p) {
		p.tracked = p.tracked || o.big(o.amountOf(p))
		for child := p.child; child != nil; child = child.sibling {
			o.pick(child)
		}
		return
	}
	if o.isRegistered(p) {
		return
	}
	if p.tracked {
		o.pickOthers(p, p.comm)
		return
	}
	if !o.big(p.sum) {
		return
	}
	if o.big(amount{p.mem(), p.use}) {
		p.tracked = true
		o.pickOthers(p, p.comm)
		return
	}
	below := false
	for child := p.child; child != nil; child = child.sibling {
		if !child.tracked && o.big(child.sum) {
			o.pick(child)
			below = true
		}
	}
	p.tracked = !below
}

// pickOthers finds other programs below a workload's process that are big by
// themselves: what a big supervisor or shell started is not part of it. Processes
// of the same name are: a server and its workers.
func (o *Observer) pickOthers(p *process, comm string) {
	for child := p.child; child != nil; child = child.sibling {
		if o.apart(child) {
			o.pick(child)
			continue
		}
		if o.isRegistered(child) {
			continue
		}
		if child.comm != comm && o.big(amount{child.mem(), child.use}) {
			child.tracked = true
		}
		if child.tracked {
			o.pickOthers(child, child.comm)
		} else {
			o.pickOthers(child, comm)
		}
	}
}

// keepWhole makes everything below a registered process part of its workload, however large:
// the process may be a start script, sudo or runuser.
func (o *Observer) keepWhole(p *process) {
	for child := p.child; child != nil; child = child.sibling {
		switch {
		case o.apart(child):
			o.pick(child)
		case !o.isRegistered(child):
			child.tracked = false
			o.keepWhole(child)
		}
	}
}

// tracked adds the workloads in the tree of p to works, and to joining what belongs to
// the workload of a process elsewhere in the leaf; into is the one that p is in, nil for
// none.
func (o *Observer) tracked(p *process, into *work, works []*work, joining map[*process][]*process) []*work {
	if j := o.joined(p); p.tracked && j != nil && j.tracked {
		joined := &work{}
		for child := p.child; child != nil; child = child.sibling {
			works = o.tracked(child, joined, works, joining)
		}
		joining[j] = append(append(joining[j], p), joined.procs...)
		return works
	}
	if o.apart(p) {
		if into != nil {
			into.terminal = true
		}
		into = nil
	}
	if p.tracked {
		into = o.work(processID(p), workload.InProcess, p.leaf, p)
		into.procs, into.terminal = into.procs[:0], p.shell
		works = append(works, into)
	}
	if into != nil {
		into.procs = append(into.procs, p)
	}
	if o.apart(p) {
		into = nil
	}
	for child := p.child; child != nil; child = child.sibling {
		works = o.tracked(child, into, works, joining)
	}
	return works
}

// processID is the workload that a process is the root of.
func processID(p *process) workload.ID { return workload.ID("pid:" + strconv.Itoa(p.pid)) }

// work finds what is kept of the workload, or begins to keep it.
func (o *Observer) work(id workload.ID, kind workload.Kind, l *leaf, root *process) *work {
	w := o.works[id]
	if w == nil || w.leaf != l || w.root != root {
		w = &work{id: id, kind: kind, leaf: l, root: root, isNew: true}
		o.works[id] = w
	} else {
		w.isNew = false
	}
	w.look = o.look
	return w
}

// nameOf is the workload for people, a container as its engine calls it.
func (o *Observer) nameOf(w *work) string {
	if w.root == nil {
		if name := o.container(w.leaf.path); name != "" {
			return name
		}
	}
	return w.name()
}

// container is what people call the container that a cgroup is of, or lies in; "" when
// nobody knows. Below the slice of a user that user chooses names, also those of others' containers.
func (o *Observer) container(cgroup string) string {
	if o.opts.Container == nil || workload.UserOf(cgroup) != 0 {
		return ""
	}
	for part := range strings.SplitSeq(cgroup, "/") {
		if id := workload.ContainerID(part); id != "" {
			return o.opts.Container(id)
		}
	}
	return ""
}

// name is the workload for people.
func (w *work) name() string {
	if w.root != nil {
		return words.Printable(w.root.comm)
	}
	base := workload.UnitName(w.leaf.path)
	// A container's own name is not in the path: the largest process says more than its ID.
	prefix, id := "", base
	if i := strings.LastIndexByte(base, '-'); i >= 0 {
		prefix, id = base[:i], base[i+1:]
	}
	if isHex(id) && len(id) >= 32 && !strings.Contains(prefix, ":") {
		return words.Printable(w.largest().comm) + " " + id[:12]
	}
	return base
}

func isHex(s string) bool { return strings.Trim(s, "0123456789abcdef") == "" }
