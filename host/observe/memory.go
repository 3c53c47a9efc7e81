package observe

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/core/workload"
)

// readMaps reads numa_maps of each process that has never been read or is stale,
// then of those whose figures are old, the oldest first, while there is credit.
func (o *Observer) readMaps(ctx context.Context, reported []*work) error {
	if !o.last.IsZero() {
		earned := float64(o.now.Sub(o.last)) * mapsShare
		o.credit = min(o.credit+time.Duration(earned), mapsCredit)
	}
	type old struct {
		w *work
		p *process
	}
	var due []old
	for _, w := range reported {
		for _, p := range w.procs {
			switch {
			case p.mapsAt.IsZero() || p.mapsStale:
				if err := ctx.Err(); err != nil {
					return err
				}
				o.readMapsOf(w, p)
			case o.mapsOld(w, p):
				due = append(due, old{w, p})
			}
		}
	}
	slices.SortStableFunc(due, func(a, b old) int { return a.p.mapsAt.Compare(b.p.mapsAt) })
	for _, d := range due {
		if o.credit <= 0 {
			return nil
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		o.readMapsOf(d.w, d.p)
		o.credit -= d.p.mapsCost
	}
	return nil
}

// mapsOld reports whether the figures of p are due to be read again.
func (o *Observer) mapsOld(w *work, p *process) bool {
	age := o.now.Sub(p.mapsAt)
	every := o.opts.MemoryEvery
	if o.still(w, p) {
		every *= stillTimes
	}
	if age >= max(every, time.Duration(float64(p.mapsCost)/mapsShare)) {
		return true
	}
	// For a cgroup memory.numa_stat tells what changes between.
	change := p.rss - p.mapsRSS
	return !(w.kind == workload.InCgroup && w.leaf.hasStat) && max(change, -change) > max(p.mapsRSS/100, 1<<10)
}

// still reports whether numa_maps of p can have told little new since it was read:
// where its memory lies its cgroup says, no huge pages are in use, and what is charged to
// the cgroup has not changed by 1 %. A new policy on the old memory is what it may have.
func (o *Observer) still(w *work, p *process) bool {
	if w.kind != workload.InCgroup || !w.leaf.hasStat || o.hugeUsed || p.maps == nil {
		return false
	}
	change := w.leaf.charged - p.mapsIn
	return max(change, -change) <= p.mapsIn/100
}

func (o *Observer) readMapsOf(w *work, p *process) {
	began := o.opts.Now()
	wasStale := p.mapsStale
	p.mapsAt, p.mapsStale, p.mapsRSS, p.mapsIn = o.now, false, p.rss, w.leaf.charged
	m, err := o.numaMaps(p.pid)
	p.mapsCost = o.opts.Now().Sub(began)
	if err != nil {
		// Kernels without CONFIG_NUMA have no such file; a process that has ended is
		// not there in the next look. What was read before says nothing of now: after a
		// move of pages it would have them moved again.
		p.maps, p.mapsErr, p.mapsStale = nil, err, wasStale
		return
	}
	p.maps, p.mapsErr = m, nil
	p.pssAnon = topology.None
	if len(w.procs) > 1 && m.forked > 0 && !(w.kind == workload.InCgroup && w.leaf.hasStat) {
		if b, err := o.files.read(pidFile(p.pid, "smaps_rollup"), o.buf); err == nil {
			p.pssAnon = parsePssAnon(b)
		}
		p.mapsCost = o.opts.Now().Sub(began)
	}
}

func (o *Observer) numaMaps(pid int) (*numaMaps, error) {
	f, err := o.fsys.Open(pidFile(pid, "numa_maps"))
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return o.maps.parse(f)
}

// parsePssAnon reads Pss_Anon of smaps_rollup (Linux 5.4): anonymous memory with
// each page divided by the number of processes that have it, so that what a
// server shares with the workers it forked is counted once.
func parsePssAnon(b []byte) topology.KiB {
	for len(b) > 0 {
		line, rest, _ := bytes.Cut(b, []byte{'\n'})
		b = rest
		if value, ok := bytes.CutPrefix(line, []byte("Pss_Anon:")); ok {
			if f := bytes.Fields(value); len(f) > 0 {
				if n, ok := number(f[0]); ok && n < maxKiB {
					return topology.KiB(n)
				}
			}
		}
	}
	return topology.None
}

// usage is the memory of a workload.
type usage struct {
	all  byNode // resident
	anon byNode // anonymous part of all
	huge byNode // part of all in pages of hugetlbfs
	// hugeAnon is what is both.
	hugeAnon byNode
	// held is what cannot be reclaimed: all without the page cache it has mapped.
	held byNode
}

// memoryOf is the memory of a workload by node.
func (o *Observer) memoryOf(w *work) usage {
	u := o.processMemory(w)
	l := w.leaf
	if w.kind != workload.InCgroup || !l.hasStat {
		return u
	}
	if o.chargedElsewhere(w) {
		o.problems.add("memory.numa_stat", "memory is charged to other cgroups and counted by process instead", fmt.Errorf("cgroup %s", l.path))
		return u
	}
	c := usage{all: l.stat.resident(), anon: slices.Clone(l.stat.anon)}
	c.held.addAll(l.stat.anon)
	c.held.addAll(l.stat.shmem)
	// hugetlbfs is not in memory.numa_stat (but with memory_hugetlb_accounting).
	c.all.addAll(u.huge)
	c.held.addAll(u.huge)
	c.anon.addAll(u.hugeAnon)
	return c
}

// chargedElsewhere reports whether a process has clearly more anonymous memory than
// its cgroup was charged for: it was moved in after it had taken it
// (cgroup-v2.rst, "Memory Ownership"). One process alone is compared, since those of
// several may be shared. The margin is for what lies between two readings.
func (o *Observer) chargedElsewhere(w *work) bool {
	charged := w.leaf.stat.anon.total()
	for _, p := range w.procs {
		if p.maps != nil && min(p.maps.anon.total(), p.rss) > charged+charged/4+16<<10 {
			return true
		}
	}
	return false
}

// processMemory adds up what the processes have, each thing once. The sum is kept
// until a process comes, goes or is read again.
func (o *Observer) processMemory(w *work) usage {
	version := uint64(len(w.procs))
	for _, p := range w.procs {
		if p.maps == nil {
			version = 0 // says something about its problem every time
			break
		}
		version = version*1_000_003 + uint64(p.mapsAt.UnixNano()) ^ uint64(p.pid)<<40
	}
	if version == 0 || version != w.memVersion {
		w.mem, w.memVersion = o.addProcesses(w), version
	}
	return w.mem
}

func (o *Observer) addProcesses(w *work) usage {
	var u usage
	var files map[fileKey]topology.KiB // with several processes
	if len(w.procs) > 1 {
		files = map[fileKey]topology.KiB{}
	}
	for _, p := range w.procs {
		if p.mapsErr != nil && p.maps == nil {
			o.withoutMaps(w, p, &u)
			continue
		}
		if p.maps == nil {
			continue
		}
		anon := p.maps.anon
		if p.pssAnon >= 0 && len(w.procs) > 1 {
			anon = anon.scaled(p.pssAnon)
		}
		u.anon.addAll(anon)
		u.anon.addAll(p.maps.hugeAnon)
		u.huge.addAll(p.maps.hugeAnon)
		u.hugeAnon.addAll(p.maps.hugeAnon)
		for _, f := range p.maps.files {
			if files == nil {
				u.addFile(f.fileKey, f.kib)
			} else {
				files[f.fileKey] = max(files[f.fileKey], f.kib)
			}
		}
	}
	for key, kib := range files {
		u.addFile(key, kib)
	}
	u.all.addAll(u.anon)
	u.held.addAll(u.anon)
	return u
}

func (u *usage) addFile(key fileKey, kib topology.KiB) {
	node := int(key.node)
	u.all.add(node, kib)
	if key.kind != onDisk {
		u.held.add(node, kib)
	}
	if key.kind == hugePage {
		u.huge.add(node, kib)
	}
}

// withoutMaps places the resident memory of a process whose numa_maps cannot be
// read, if there is only one node it can be on. Otherwise it stays unknown.
func (o *Observer) withoutMaps(w *work, p *process, u *usage) {
	if gone(p.mapsErr) && o.processGone(p) {
		return
	}
	inStat := w.kind == workload.InCgroup && w.leaf.hasStat
	if mems := o.memsOf(w); mems.Len() == 1 {
		if !inStat && p.mem() > 0 {
			u.all.add(int(mems.Min()), p.mem())
			u.held.add(int(mems.Min()), p.mem())
		}
		if denied(p.mapsErr) {
			o.problems.add("proc/PID/numa_maps", "memory policies unknown", p.mapsErr)
		}
		return
	}
	effect := "memory by node and memory policies unknown"
	if inStat {
		effect = "memory policies and huge pages unknown"
	}
	o.problems.add("proc/PID/numa_maps", effect, p.mapsErr)
}

// processGone reports whether the process has ended since the look began.
func (o *Observer) processGone(p *process) bool {
	_, err := o.files.read(pidFile(p.pid, "stat"), o.buf)
	return err != nil
}

// policyOf is the policy on the largest part of the memory that has one of its own.
// One that has no memory yet counts as well: its mapping may be filled any moment.
func policyOf(w *work) string {
	byPolicy := map[string]topology.KiB{}
	for _, p := range w.procs {
		if p.maps == nil {
			if p.mapsErr != nil {
				return workload.PolicyUnknown
			}
			continue
		}
		for _, m := range p.maps.policies {
			byPolicy[m.policy] += m.kib
		}
	}
	best, most := "", topology.KiB(-1)
	for policy, kib := range byPolicy {
		if kib > most || (kib == most && policy < best) {
			best, most = policy, kib
		}
	}
	return best
}

// unmanaged is the memory in use on each node that none of the workloads holds and
// that the kernel cannot simply give back: kernel memory, small workloads, tmpfs,
// locked file pages (which are on the unevictable list, not in Active or
// Inactive(file)), and the pools of huge pages, free pages too, since none but
// their users can have those.
func (o *Observer) unmanaged(held byNode) []workload.NodeMemory {
	var out []workload.NodeMemory
	for _, n := range o.host.Nodes {
		if n.Memory < 0 || n.Free < 0 {
			continue
		}
		used := n.Memory - n.Free - o.reclaimable(n) - held.at(int(n.ID))
		out = append(out, workload.NodeMemory{Node: n.ID, KiB: max(0, used)})
	}
	return out
}

func (o *Observer) reclaimable(n topology.Node) topology.KiB {
	b, err := o.files.read("sys/devices/system/node/node"+strconv.Itoa(int(n.ID))+"/meminfo", o.buf)
	if err != nil && len(o.host.Nodes) == 1 {
		b, err = o.files.read("proc/meminfo", o.buf)
	}
	if err != nil {
		o.problems.add("node"+strconv.Itoa(int(n.ID)), "page cache counts as in use", err)
		return 0
	}
	return parseReclaimable(b)
}

// parseReclaimable adds up what reclaim can take of a node's meminfo ("Node 0 SReclaimable:
// 12 kB") or of /proc/meminfo: file pages on the evictable lists, and slab that can shrink.
func parseReclaimable(b []byte) topology.KiB {
	var sum topology.KiB
	for len(b) > 0 {
		line, rest, _ := bytes.Cut(b, []byte{'\n'})
		b = rest
		key, value, ok := bytes.Cut(line, []byte{':'})
		if !ok {
			continue
		}
		if i := bytes.LastIndexByte(key, ' '); i >= 0 {
			key = key[i+1:]
		}
		switch string(key) {
		case "Active(file)", "Inactive(file)", "SReclaimable":
			if f := bytes.Fields(value); len(f) > 0 {
				if n, ok := number(f[0]); ok && n < maxKiB {
					sum += topology.KiB(n)
				}
			}
		}
	}
	return sum
}
