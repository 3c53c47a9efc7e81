package observe

import (
	"bufio"
	"bytes"
	"errors"
	"hash/maphash"
	"io/fs"
	"slices"
	"strconv"

	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/core/workload"
	"github.com/homenode/homenode/host/internal/proc"
)

// leastShared is the shared memory of a process from which its files are told apart by
// device and inode, for which the observer reads another file: libraries are less.
const leastShared = 8 << 10

// identify tells the files of shared mappings by device, inode and path, which
// /proc/PID/maps has: numa_maps has the path alone, and "/dev/zero (deleted)" is any shared
// memory without a name. It is false when they stay known by path only.
func (m *numaMaps) identify(fsys fs.FS, pid int, seed maphash.Seed) bool {
	var sum topology.KiB
	for _, s := range m.shared {
		sum += s.file.kib
	}
	if sum < leastShared {
		return false
	}
	f, err := fsys.Open(proc.File(pid, "maps"))
	if err != nil {
		return false
	}
	defer f.Close()
	// Both files are sorted by address.
	shared := m.shared
	var known []sharedMemory
	err = proc.EachLine(bufio.NewReaderSize(f, proc.LongestLine), func(line []byte) error {
		if len(shared) == 0 {
			return errRead
		}
		start, file, ok := parseMapsLine(line)
		for ok && len(shared) > 0 && shared[0].start <= start {
			if shared[0].start == start {
				s := shared[0]
				s.file.name = maphash.Bytes(seed, file)
				known = append(known, s)
			}
			shared = shared[1:] // else it was unmapped between the two readings
		}
		return nil
	})
	if err != nil && err != errRead {
		return false
	}
	m.shared = known
	return true
}

// errRead ends a reading: what follows need not be read.
var errRead = errors.New("all is read")

// parseMapsLine reads "start-end perms offset dev inode path" (proc_pid_maps(5)); file is
// from dev on.
func parseMapsLine(line []byte) (start uint64, file []byte, ok bool) {
	from, rest, _ := bytes.Cut(line, []byte{'-'})
	start, err := strconv.ParseUint(string(from), 16, 64)
	for range 3 {
		if _, rest, ok = bytes.Cut(rest, []byte{' '}); !ok {
			return 0, nil, false
		}
	}
	return start, bytes.TrimSpace(rest), err == nil
}

// mergeShared makes shared memory that of files known by path.
func (m *numaMaps) mergeShared() {
	if len(m.shared) == 0 {
		return
	}
	files := map[fileKey]topology.KiB{}
	for _, s := range m.shared {
		files[s.file.fileKey] += s.file.kib
	}
	m.shared = nil
	m.addFiles(files)
}

// sharedFile is a file that processes have mapped together.
type sharedFile struct {
	all   map[fileKey]topology.KiB // by node, the most that any process has mapped of it
	users []sharer
}

// sharer is a workload and what its processes have mapped of a file.
type sharer struct {
	w   *work
	kib topology.KiB
}

// shareOut gives each file that several workloads' processes have mapped to the one that
// has most of it, so that the host has it once (R3), and joins processes of one cgroup and
// one user that have most of their memory together: from the next look on they are one
// workload.
func (o *Observer) shareOut(reported []*work) {
	files := map[uint64]*sharedFile{}
	own := map[fileKey]topology.KiB{}
	for _, w := range reported {
		w.shared = usage{}
		clear(own)
		for _, p := range w.procs {
			if p.maps == nil || len(p.maps.shared) == 0 {
				continue
			}
			mapped := map[fileKey]topology.KiB{}
			for _, s := range p.maps.shared {
				mapped[s.file.fileKey] += s.file.kib
			}
			for key, kib := range mapped {
				own[key] = max(own[key], kib)
			}
		}
		for key, kib := range own {
			f := files[key.name]
			if f == nil {
				f = &sharedFile{all: map[fileKey]topology.KiB{}}
				files[key.name] = f
			}
			f.all[key] = max(f.all[key], kib)
			if n := len(f.users); n > 0 && f.users[n-1].w == w {
				f.users[n-1].kib += kib
			} else {
				f.users = append(f.users, sharer{w, kib})
			}
		}
	}
	owners := make(map[uint64]workload.ID, len(files))
	together := map[*work]map[*work]topology.KiB{} // by user, by owner
	shares := map[*work]topology.KiB{}
	for name, f := range files {
		owner := f.owner(o.sharedBy[name])
		owners[name] = owner.id
		inMemory := false
		for key, kib := range f.all {
			owner.shared.addFile(key, kib)
			inMemory = inMemory || key.kind != onDisk
		}
		for _, u := range f.users {
			shares[u.w] += u.kib
			if u.w != owner && inMemory && o.mayJoin(u.w, owner) {
				if together[u.w] == nil {
					together[u.w] = map[*work]topology.KiB{}
				}
				together[u.w][owner] += u.kib
			}
		}
	}
	o.sharedBy = owners
	for w, with := range together {
		own := o.processMemory(w)
		for owner, kib := range with {
			if 2*kib > own.all.total()+shares[w] { // one of them at most
				w.root.joins = owner.root
			}
		}
	}
}

// owner is the user that has most of the file. Who had it keeps it until another has
// clearly more; else the first of equals has it.
func (f *sharedFile) owner(before workload.ID) *work {
	best := f.users[0]
	for _, u := range f.users {
		if u.kib > best.kib {
			best = u
		}
	}
	for _, u := range f.users {
		if u.w.id == before && u.kib >= best.kib-best.kib/8 {
			return u.w
		}
	}
	return best.w
}

// mayJoin reports whether two workloads may be one.
func (o *Observer) mayJoin(w, to *work) bool {
	return w.root != nil && to.root != nil && w.leaf == to.leaf && w.root.uid == to.root.uid &&
		to.root.joins == nil && !o.isRegistered(w.root) && !o.isRegistered(to.root)
}

// joined is the process whose workload p belongs to since they share most of their
// memory; nil for none.
func (o *Observer) joined(p *process) *process {
	j := p.joins
	if j != nil &&
		(o.procs[j.pid] != j || j.leaf != p.leaf || j.look != o.look || j.joins != nil || o.isRegistered(p)) {
		p.joins, j = nil, nil
	}
	return j
}

// plus is u and v together.
func (u usage) plus(v usage) usage {
	sum := func(a, b byNode) byNode {
		out := slices.Clone(a)
		out.addAll(b)
		return out
	}
	return usage{sum(u.all, v.all), sum(u.anon, v.anon), sum(u.huge, v.huge), sum(u.hugeAnon, v.hugeAnon),
		sum(u.held, v.held)}
}
