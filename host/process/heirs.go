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
)

// kin is by what the kernel lets the offspring of a process be known when the
// process is gone: a child begins in its parent's process group and cgroup.
type kin struct {
	group  int
	cgroup string // text of /proc/PID/cgroup
}

func (k kin) String() string { return fmt.Sprintf("%d %s", k.group, strings.TrimSpace(k.cgroup)) }

func parseKin(text string) (kin, bool) {
	group, cgroup, ok := strings.Cut(text, " ")
	n, err := strconv.Atoi(group)
	return kin{n, cgroup}, ok && err == nil
}

func (d *Driver) kinOf(p workload.Process) (kin, error) {
	s, err := d.proc.stat(p.PID)
	if err != nil {
		return kin{}, err
	}
	cgroup, err := d.proc.cgroup(p.PID)
	if err != nil {
		return kin{}, err
	}
	return kin{s.group, strings.TrimSpace(cgroup)}, d.proc.check(p)
}

// giver is a journal entry whose process may have left its affinity to others.
type giver struct {
	plan.Entry
	workload.Process
	old   topology.CPUSet
	given []topology.CPUSet
	since uint64
	kin   kin
	known bool // kin is
}

// Heirs finds processes that have inherited an affinity of the journal and have
// no entry of their own, among the given ones or, when among is nil, among all.
//
// A process with a live ancestor in the journal inherits from the nearest. One whose
// ancestors have exited inherits from the entry with its cgroup, its process
// group before others, when it has just the CPUs that entry gave, began after it,
// and it or what it has them from was made by somebody who is gone (see orphaned). A thread that has other
// CPUs than those given chose them itself.
func (d *Driver) Heirs(ctx context.Context, journal []plan.Entry, among []workload.Process) ([]plan.Heir, error) {
	givers := d.givers(journal)
	if len(givers) == 0 {
		return nil, nil
	}
	f := finder{Driver: d, givers: givers, least: givers[0].since, stats: map[int]*stat{}}
	for i := range givers {
		f.least = min(f.least, givers[i].since)
	}
	if among == nil {
		pids, err := d.proc.numbers("proc", 0)
		if err != nil {
			return nil, err
		}
		for _, pid := range pids {
			s, err := f.stat(pid)
			if err != nil {
				return nil, err
			}
			if s != nil {
				among = append(among, s.Process)
			}
		}
	}
	var heirs []plan.Heir
	for _, p := range among {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		h, ok, err := f.heir(p)
		if err != nil && !isGone(err) {
			return nil, err
		}
		if ok && err == nil {
			heirs = append(heirs, h)
		}
	}
	return heirs, nil
}

func (d *Driver) givers(journal []plan.Entry) []giver {
	var out []giver
	for _, e := range journal {
		if e.Kind != plan.Affinity {
			continue
		}
		p, err := plan.ParseProcessPath(e.Path)
		if err != nil {
			continue
		}
		old, err := parseAffinity(e.Old)
		if err != nil {
			continue
		}
		g := giver{Entry: e, Process: p, old: old.main, since: d.ticks(e.Time),
			given: d.given(p, append(slices.Clone(e.Past), e.New))}
		g.kin, g.known = parseKin(e.Kin)
		out = append(out, g)
	}
	return out
}

// gave reports whether a CPU set is one that the entry's process got from homenode.
func (g *giver) gave(cpus topology.CPUSet) bool {
	return !cpus.Equal(g.old) && slices.ContainsFunc(g.given, cpus.Equal)
}

// finder looks for the heirs of a journal.
type finder struct {
	*Driver
	givers []giver
	least  uint64        // start time before which nothing is an heir
	stats  map[int]*stat // by PID, as read
}

// stat is what /proc says of a process; nil for one that is gone or not ours to see.
// Any other failure must not make an heir look like a stranger.
func (f *finder) stat(pid int) (*stat, error) {
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

// heir is p as an heir, if it is one.
func (f *finder) heir(p workload.Process) (plan.Heir, bool, error) {
	var none plan.Heir
	s, err := f.stat(p.PID)
	if err != nil {
		return none, false, err
	}
	if s == nil || s.Process != p || s.state == 'Z' || s.state == 'X' || p.Start < f.least || f.giver(p) != nil {
		return none, false, nil
	}
	has, err := f.kernel.Affinity(p.PID)
	if err != nil {
		return none, false, err
	}
	g, err := f.ancestor(s)
	if err != nil {
		return none, false, err
	}
	if g == nil {
		if g, err = f.bereft(s, has); g == nil || err != nil {
			return none, false, err
		}
	}
	if p.Start < g.since {
		return none, false, nil
	}
	now, err := f.affinityOf(p)
	if err != nil {
		return none, false, err
	}
	old := affinity{main: now.main, except: map[int]topology.CPUSet{}}
	if g.gave(now.main) {
		old.main = g.old
	}
	threads, err := f.proc.threads(p.PID)
	if err != nil {
		return none, false, err
	}
	inherited := g.gave(now.main)
	for _, tid := range threads {
		cpus, other := now.except[tid]
		if !other {
			continue // as the main thread
		}
		if g.gave(cpus) {
			cpus, inherited = g.old, true
		}
		if !cpus.Equal(old.main) {
			old.except[tid] = cpus
		}
	}
	if !inherited {
		return none, false, nil
	}
	k, err := f.kinOf(p)
	if err != nil {
		return none, false, err
	}
	return plan.Heir{Of: g.Seq, Has: now.String(), Setting: plan.Setting{
		Kind: plan.Affinity, Path: plan.ProcessPath(p), Value: old.String(), Kin: k.String()}}, true, nil
}

// giver is the entry of a process.
func (f *finder) giver(p workload.Process) *giver {
	for i := range f.givers {
		if f.givers[i].Process == p {
			return &f.givers[i]
		}
	}
	return nil
}

// ancestor is the entry of the nearest live ancestor that has one.
func (f *finder) ancestor(s *stat) (*giver, error) {
	for range maxDepth {
		parent, err := f.parent(s)
		if err != nil || parent == nil {
			return nil, err
		}
		if g := f.giver(parent.Process); g != nil {
			return g, nil
		}
		s = parent
	}
	return nil, nil
}

// parent is the parent of a process; nil when it is not ours to see. One that has
// exited since the process was read has left it to another, so that the process is
// read again, into s.
func (f *finder) parent(s *stat) (*stat, error) {
	for range maxParents {
		parent, err := f.stat(s.parent)
		if err != nil || parent != nil && parent.Start <= s.Start {
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
	return nil, fmt.Errorf("process %d: %d of its parents exited while it was looked at", s.PID, maxParents)
}

// maxParents bounds how often a process loses its parent between two reads; the
// first loss leaves most to PID 1.
const maxParents = 10

// maxDepth bounds the way up: PIDs read one after the other may seem to form a ring.
const maxDepth = 1000

// bereft is the entry that a process without a live ancestor in the journal
// inherits from.
func (f *finder) bereft(s *stat, has topology.CPUSet) (*giver, error) {
	if !slices.ContainsFunc(f.givers, func(g giver) bool { return g.known && s.Start >= g.since && g.gave(has) }) {
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
	var best *giver
	for i := range f.givers {
		g := &f.givers[i]
		if !g.known || s.Start < g.since || !g.gave(has) || g.kin.cgroup != cgroup {
			continue
		}
		if best == nil || g.kin.group == s.group && best.kin.group != s.group {
			best = g
		}
	}
	return best, nil
}

// ofOrphans reports whether a process or an ancestor that it has its CPUs from is
// orphaned. The ancestor is an heir itself, but may exit before it is looked at.
func (f *finder) ofOrphans(s *stat, has topology.CPUSet) (bool, error) {
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
func (f *finder) orphaned(s *stat) (bool, error) {
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
func (f *finder) isInit(pid int) (bool, error) {
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
	for line := range strings.Lines(string(text)) {
		if ids, ok := strings.CutPrefix(line, "NSpid:"); ok {
			all := strings.Fields(ids)
			return len(all) > 1 && all[len(all)-1] == "1", nil
		}
	}
	return false, nil
}
