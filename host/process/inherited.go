package process

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strconv"
	"strings"

	"github.com/homenode/homenode/core/plan"
	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/core/workload"
	procfs "github.com/homenode/homenode/host/internal/proc"
)

// groups is by what the children of a process are known when it has exited: a child
// begins in its parent's process group and cgroup.
type groups struct {
	process int
	cgroup  string // text of /proc/PID/cgroup
}

func (g groups) String() string { return fmt.Sprintf("%d %s", g.process, strings.TrimSpace(g.cgroup)) }

func parseGroups(text string) (groups, bool) {
	group, cgroup, ok := strings.Cut(text, " ")
	n, err := strconv.Atoi(group)
	return groups{n, cgroup}, ok && err == nil
}

func (d *Driver) groupsOf(p workload.Process) (groups, error) {
	s, err := d.proc.stat(p.PID)
	if err != nil {
		return groups{}, err
	}
	cgroup, err := d.proc.cgroup(p.PID)
	if err != nil {
		return groups{}, err
	}
	return groups{s.group, strings.TrimSpace(cgroup)}, d.proc.check(p)
}

// source is a journal entry whose process may have passed its affinity on.
type source struct {
	plan.Entry
	workload.Process
	old    affinity
	given  []topology.CPUSet       // by homenode, as the kernel would give them back now
	one    map[int]topology.CPUSet // given to one thread of the process
	since  uint64                  // start time from which a process can have inherited
	groups groups
	known  bool  // groups is
	err    error // of restoring it

	beside  bool // it is not restored, and neither is what has inherited from it
	changed int  // threads in the scan under way
	settled bool // the last whole scan changed none
}

// source reads an entry; online is the CPUs that run.
func (d *Driver) source(e plan.Entry, online topology.CPUSet) (s source, err error) {
	if e.Kind != plan.Affinity && e.Kind != plan.ThreadCPUs {
		return s, fmt.Errorf("process %s: no setting of kind %q", e.Path, e.Kind)
	}
	s = source{Entry: e, since: e.Ticks}
	if s.since == 0 {
		s.since = d.ticks(e.Time)
	}
	if s.Process, err = plan.ParseProcessPath(e.Path); err != nil {
		return s, err
	}
	if s.old, err = parseAffinity(e.Old); err != nil {
		return s, err
	}
	for _, written := range append(slices.Clone(e.Past), e.New) {
		if e.Kind == plan.ThreadCPUs {
			sets, _ := plan.ParseSets(written)
			for _, cpus := range sets {
				s.given = append(s.given, cpus, cpus.Intersect(online))
			}
			continue
		}
		if a, err := parseAffinity(written); err == nil {
			s.given = append(s.given, a.main, a.main.Intersect(online))
			s.one = a.except
		}
	}
	s.groups, s.known = parseGroups(e.Groups)
	return s, nil
}

// gave reports whether a CPU set is one that homenode gave to the entry's process.
func (s *source) gave(cpus topology.CPUSet) bool { return slices.ContainsFunc(s.given, cpus.Equal) }

// passed reports whether a CPU set is one that a process has from s by inheritance alone.
func (s *source) passed(cpus topology.CPUSet) bool { return !cpus.Equal(s.old.main) && s.gave(cpus) }

// Inherited finds processes that have inherited an affinity of the journal and have
// no entry of their own, among the given ones or, when among is nil, among all.
//
// A process with a live ancestor in the journal inherits from the nearest. One whose
// ancestors have exited inherits from the entry with its cgroup, its process
// group before others, when it has just the CPUs that entry gave, began after it,
// and it or what it has them from was made by somebody who is gone (see orphaned). A
// thread that has other CPUs than those given chose them itself.
func (d *Driver) Inherited(ctx context.Context, journal []plan.Entry,
	among []workload.Process) ([]plan.Inherited, error) {
	online, err := d.proc.online()
	if err != nil {
		return nil, err
	}
	var sources []*source
	for _, e := range journal {
		if s, err := d.source(e, online); err == nil {
			sources = append(sources, &s)
		}
	}
	if len(sources) == 0 {
		return nil, nil
	}
	f := d.search(sources)
	if among == nil {
		if among, err = f.all(ctx); err != nil {
			return nil, err
		}
	}
	var found []plan.Inherited
	for _, p := range among {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		h, ok, err := f.inherited(p)
		if err != nil && !isGone(err) {
			return nil, err
		}
		if ok && err == nil {
			found = append(found, h)
		}
	}
	return found, nil
}

// search finds what has inherited from sources, in one scan of /proc.
type search struct {
	*Driver
	sources []*source
	own     map[workload.Process]*source
	least   uint64        // start time before which nothing has inherited
	stats   map[int]*stat // by PID, as read
}

func (d *Driver) search(sources []*source) *search {
	f := &search{Driver: d, sources: sources, own: map[workload.Process]*source{}, least: sources[0].since,
		stats: map[int]*stat{}}
	for _, s := range sources {
		f.least = min(f.least, s.since)
		of := f.own[s.Process]
		if of != nil && s.beside { // after all that are restored
			continue
		}
		if of != nil { // an affinity whose threads are divided: what it was before both is the affinity's
			if of.Kind == plan.ThreadCPUs {
				of, s = s, of
			}
			of.given = append(of.given, s.given...)
			s = of
		}
		f.own[s.Process] = s
	}
	return f
}

// all is every process there is, rising by PID.
func (f *search) all(ctx context.Context) ([]workload.Process, error) {
	pids, err := f.proc.numbers("proc", 0)
	if err != nil {
		return nil, err
	}
	all := make([]workload.Process, 0, len(pids)) // not nil
	for _, pid := range pids {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		s, err := f.stat(pid)
		if err != nil {
			return nil, err
		}
		if s != nil {
			all = append(all, s.Process)
		}
	}
	return all, nil
}

// stat is what /proc says of a process; nil for one that is gone or not ours to see.
// Any other failure must not make what has inherited look like a stranger.
func (f *search) stat(pid int) (*stat, error) {
	if s, ok := f.stats[pid]; ok {
		return s, nil
	}
	s, err := f.proc.stat(pid)
	switch {
	case err == nil:
		f.stats[pid] = &s
	case isGone(err), errors.Is(err, fs.ErrPermission):
		f.stats[pid] = nil
	default:
		return nil, err
	}
	return f.stats[pid], nil
}

// from is the source that a process without an entry of its own inherits from; nil
// when there is none.
func (f *search) from(p workload.Process) (*source, error) {
	s, err := f.stat(p.PID)
	if err != nil {
		return nil, err
	}
	if s == nil || s.Process != p || s.state == 'Z' || s.state == 'X' || p.Start < f.least || f.own[p] != nil {
		return nil, nil
	}
	has, err := f.kernel.Affinity(p.PID)
	if err != nil {
		return nil, err
	}
	of, err := f.ancestor(s)
	if of == nil && err == nil {
		of, err = f.orphan(s, has)
	}
	if of == nil || err != nil || p.Start < of.since {
		return nil, err
	}
	return of, nil
}

// inherited is what a process has inherited, if it has.
func (f *search) inherited(p workload.Process) (h plan.Inherited, ok bool, err error) {
	of, err := f.from(p)
	if of == nil || err != nil {
		return h, false, err
	}
	now, err := f.affinityOf(p)
	if err != nil {
		return h, false, err
	}
	// What it would have: every thread that has not chosen other CPUs, the old ones.
	old := affinity{main: now.main, except: map[int]topology.CPUSet{}}
	if of.passed(now.main) {
		old.main, ok = of.old.main, true
	}
	threads, err := f.proc.threads(p.PID)
	if err != nil {
		return h, false, err
	}
	for _, tid := range threads {
		cpus, other := now.except[tid]
		if !other {
			continue // as the main thread
		}
		if of.passed(cpus) {
			cpus, ok = of.old.main, true
		}
		if !cpus.Equal(old.main) {
			old.except[tid] = cpus
		}
	}
	if !ok {
		return h, false, nil
	}
	g, err := f.groupsOf(p)
	if err != nil {
		return h, false, err
	}
	return plan.Inherited{Of: of.Seq, Has: now.String(), Setting: plan.Setting{
			Kind: plan.Affinity, Path: plan.ProcessPath(p), Value: old.String(), Groups: g.String(), Ticks: of.since}},
		true, nil
}

// ancestor is the entry of the nearest live ancestor that has one.
func (f *search) ancestor(s *stat) (*source, error) {
	for range maxDepth {
		parent, err := f.parent(s)
		if err != nil || parent == nil {
			return nil, err
		}
		if of := f.own[parent.Process]; of != nil {
			return of, nil
		}
		s = parent
	}
	return nil, nil
}

// parent is the parent of a process; nil when it is not ours to see. One that has
// exited since the process was read has left it to another, so that the process is
// read again, into s; one that loses maxParents in a row is taken for a stranger's, so
// that it holds nobody else up.
func (f *search) parent(s *stat) (*stat, error) {
	for range maxParents {
		parent, err := f.stat(s.parent)
		if err != nil || (parent != nil && parent.Start <= s.Start) {
			return parent, err
		}
		now, err := f.proc.stat(s.PID)
		if err != nil || now.Process != s.Process || now.parent == s.parent {
			if isGone(err) || errors.Is(err, fs.ErrPermission) {
				err = nil
			}
			return nil, err
		}
		*s = now
		delete(f.stats, s.parent) // it may have come to its PID since that was read
	}
	return nil, nil
}

// maxParents bounds how often a process loses its parent between two reads; the
// first loss leaves most to PID 1.
const maxParents = 10

// maxDepth bounds the way up: PIDs read one after the other may seem to form a ring.
const maxDepth = 1000

// orphan is the source that a process without a live ancestor in the journal inherits
// from.
func (f *search) orphan(s *stat, has topology.CPUSet) (*source, error) {
	can := func(of *source) bool { return of.known && s.Start >= of.since && of.passed(has) }
	if !slices.ContainsFunc(f.sources, can) {
		return nil, nil
	}
	if orphaned, err := f.ofOrphans(s, has); !orphaned || err != nil {
		return nil, err
	}
	cgroup, err := f.proc.cgroup(s.PID)
	if err != nil {
		return nil, err
	}
	cgroup = strings.TrimSpace(cgroup)
	var best *source
	for _, of := range f.sources {
		if !can(of) || of.groups.cgroup != cgroup {
			continue
		}
		if best == nil || (of.groups.process == s.group && best.groups.process != s.group) {
			best = of
		}
	}
	return best, nil
}

// ofOrphans reports whether a process or an ancestor that it has its CPUs from is
// orphaned. The ancestor has inherited itself, but may exit before it is looked at.
func (f *search) ofOrphans(s *stat, has topology.CPUSet) (bool, error) {
	for range maxDepth {
		if orphaned, err := f.orphaned(s); orphaned || err != nil {
			return orphaned, err
		}
		parent, err := f.parent(s)
		if err != nil || parent == nil || parent.Start < f.least {
			return false, err
		}
		cpus, err := f.kernel.Affinity(parent.PID)
		if err != nil && !isGone(err) {
			return false, err
		}
		if err == nil && !cpus.Equal(has) {
			return false, nil
		}
		if err == nil { // else s has another parent now
			s = parent
		}
	}
	return false, nil
}

// orphaned reports whether the parent of a process is not the one that made it. A
// process begins in the session of the one that makes it and leaves it only as
// the leader of a new one (setsid(2)): with another session than its parent and
// no leader it was handed over. So it was, as far as can be told, when its parent
// is the init process of its PID namespace, which takes in all orphans
// (find_new_reaper, kernel/exit.c).
func (f *search) orphaned(s *stat) (bool, error) {
	delete(f.stats, s.parent) // it may have exited since it was read
	parent, err := f.parent(s)
	if parent == nil || err != nil {
		return false, err
	}
	if s.session != parent.session && s.session != s.PID {
		return true, nil
	}
	return f.isInit(parent.PID)
}

// isInit reports whether a process is the first of its PID namespace.
func (f *search) isInit(pid int) (bool, error) {
	if pid == 1 {
		return true, nil
	}
	text, err := f.proc.read(pid, "status")
	if isGone(err) || errors.Is(err, fs.ErrPermission) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	return procfs.ParseStatus(text).First, nil
}
