package observe

import (
	"bytes"
	"fmt"
	"io/fs"
	"slices"
	"strconv"

	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/core/workload"
	"github.com/homenode/homenode/host/internal/proc"
	"github.com/homenode/homenode/host/observe/files"
)

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
	if len(w.shared.all) > 0 {
		u = u.plus(w.shared)
	}
	l := w.leaf
	if w.kind != workload.InCgroup || !l.hasStat {
		return u
	}
	if o.chargedElsewhere(w) {
		o.problems.add("memory.numa_stat", "memory is charged to other cgroups and counted by process instead",
			fmt.Errorf("cgroup %s", l.path))
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
			version = 0 // its resident memory changes, and its problem is told every time
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
	mems := o.memsOf(w)
	for _, p := range w.procs {
		if p.maps == nil {
			o.withoutMaps(w, p, mems, &u)
			continue
		}
		anon := p.maps.anon
		if p.pssAnon >= 0 {
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

// withoutMaps places the resident memory of a process whose numa_maps is not read or
// cannot be, if mems, the nodes of its workload, are only one. Otherwise it stays unknown.
func (o *Observer) withoutMaps(w *work, p *process, mems topology.NodeSet, u *usage) {
	if files.Gone(p.mapsErr) && o.processGone(p) {
		return
	}
	inStat := w.kind == workload.InCgroup && w.leaf.hasStat
	if mems.Len() == 1 {
		if !inStat && p.mem() > 0 {
			u.all.add(int(mems.Min()), p.mem())
			u.held.add(int(mems.Min()), p.mem())
		}
		if files.Denied(p.mapsErr) {
			o.problems.add("proc/PID/numa_maps", "memory policies unknown", p.mapsErr)
		}
		return
	}
	if p.mapsErr == nil {
		return
	}
	effect := "memory by node and memory policies unknown"
	if inStat {
		effect = "memory policies and huge pages unknown"
	}
	o.problems.add("proc/PID/numa_maps", effect, p.mapsErr)
}

// unread reports whether where the memory of a workload lies has not been read yet.
func (o *Observer) unread(w *work) bool {
	for _, p := range w.procs {
		if p.maps == nil && p.mapsErr == nil && o.onlyMapsTell(w, p) {
			return o.memsOf(w).Len() != 1
		}
	}
	return false
}

// processGone reports whether the process has ended since the look began.
func (o *Observer) processGone(p *process) bool {
	_, err := o.files.Read(proc.File(p.pid, "stat"), o.buf)
	return err != nil
}

// policyOf is the policy on the largest part of the memory that has one of its own.
// One that has no memory yet counts as well: its mapping may be filled any moment.
// Of a cgroup's processes those count that have been read.
func policyOf(w *work) string {
	byPolicy := map[string]topology.KiB{}
	read := false
	for _, p := range w.procs {
		if p.maps == nil {
			if p.mapsErr != nil || p.silent || p.unasked || w.kind != workload.InCgroup {
				return workload.PolicyUnknown
			}
			continue
		}
		read = true
		for _, m := range p.maps.policies {
			byPolicy[m.policy] += m.kib
		}
	}
	if !read {
		return workload.PolicyUnknown
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

// InUse is the memory of each node that is in use, less what is held there already and what
// the kernel can simply give back. Nodes whose memory is not known are left out.
func InUse(fsys fs.FS, h *topology.Host, held map[topology.NodeID]topology.KiB) []workload.NodeMemory {
	o := &Observer{files: files.Any{FS: fsys}, host: h}
	var by byNode
	for id, kib := range held {
		by.add(int(id), kib)
	}
	return o.unmanaged(by)
}

func (o *Observer) reclaimable(n topology.Node) topology.KiB {
	b, err := o.files.Read("sys/devices/system/node/node"+strconv.Itoa(int(n.ID))+"/meminfo", o.buf)
	if err != nil && len(o.host.Nodes) == 1 {
		b, err = o.files.Read("proc/meminfo", o.buf)
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
	for line := range bytes.SplitSeq(b, []byte{'\n'}) {
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
				if n, ok := proc.Number(f[0]); ok && n < proc.MaxKiB {
					sum += topology.KiB(n)
				}
			}
		}
	}
	return sum
}
