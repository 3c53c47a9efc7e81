package observe

import (
	"bufio"
	"hash/maphash"
	"io"
	"slices"

	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/host/internal/proc"
)

// numaMaps is what /proc/PID/numa_maps says of one process, in KiB.
type numaMaps struct {
	anon     byNode // anonymous, ordinary pages
	hugeAnon byNode // anonymous, of hugetlbfs
	files    []fileMemory
	forked   topology.KiB // part of anon in mappings with pages that other processes have mapped too
	policies []policyMemory
	asked    []askedMemory
	shared   []sharedMemory // file memory that others have mapped too, or this process twice
}

// sharedMemory is part of a mapping that starts at an address. file's name is that of the
// path at first: see identify.
type sharedMemory struct {
	start uint64
	file  fileMemory
}

// fileMemory is what a process has mapped of one file on one node. The file is
// known by its name only: numa_maps has no inode.
type fileMemory struct {
	fileKey
	kib topology.KiB
}

type fileKey struct {
	name uint64 // hash
	kind fileKind
	node uint16
}

type fileKind uint8

const (
	onDisk   fileKind = iota // page cache: reclaimable
	inShmem                  // tmpfs, memfd, System V
	hugePage                 // hugetlbfs
)

// policyMemory is how much memory lies in mappings under a policy of their own.
type policyMemory struct {
	policy string
	kib    topology.KiB
}

// mapsParser reads numa_maps files one after the other, reusing its buffers.
type mapsParser struct {
	lines *bufio.Reader
	files map[fileKey]topology.KiB
	seed  maphash.Seed
	row   proc.Mapping
	apart bool // what is mapped more than once goes to shared
}

func newMapsParser(seed maphash.Seed) *mapsParser {
	return &mapsParser{
		lines: bufio.NewReaderSize(nil, proc.LongestLine),
		files: map[fileKey]topology.KiB{},
		seed:  seed,
	}
}

// parse reads numa_maps(5) as fs/proc/task_mmu.c, show_numa_map, writes it. Lines
// it does not understand are left out.
func (p *mapsParser) parse(r io.Reader) (*numaMaps, error) {
	p.lines.Reset(r)
	defer p.lines.Reset(nil)
	clear(p.files)
	m := &numaMaps{}
	err := proc.EachLine(p.lines, func(line []byte) error {
		p.line(m, line)
		return nil
	})
	if err != nil {
		return nil, err
	}
	m.addFiles(p.files)
	return m, nil
}

func (m *numaMaps) addFiles(files map[fileKey]topology.KiB) {
	m.files = slices.Grow(m.files, len(files))
	for key, kib := range files {
		m.files = append(m.files, fileMemory{key, kib})
	}
}

func (p *mapsParser) line(m *numaMaps, line []byte) {
	v := &p.row
	if !v.Parse(line) {
		return
	}
	m.addPolicy(v)
	m.addAsked(v)
	if v.Pages == 0 {
		return
	}
	key := fileKey{kind: onDisk}
	if v.HasFile {
		key.name = maphash.Bytes(p.seed, v.File)
		key.kind = kindOf(v.File)
	}
	anon := &m.anon
	if v.Huge {
		anon, key.kind = &m.hugeAnon, hugePage
	}
	// The line tells the nodes of all pages, and of how many pages are anonymous:
	// a private mapping of a file may have both. Each node gets its proportion,
	// rounded so that nothing is lost.
	var before, anonBefore uint64
	isAnon := min(v.Anon, v.Pages)
	for _, n := range v.Nodes {
		before += n.Pages
		upTo := before
		if isAnon < v.Pages {
			upTo = uint64(float64(before) / float64(v.Pages) * float64(isAnon))
		}
		upTo = min(max(upTo, anonBefore), anonBefore+n.Pages)
		a := upTo - anonBefore
		anonBefore = upTo
		if a > 0 {
			anon.add(n.Node, topology.KiB(a*v.PageKiB))
		}
		if rest := n.Pages - a; rest > 0 {
			key.node = uint16(n.Node)
			kib := topology.KiB(rest * v.PageKiB)
			if p.apart && v.MapMax > 1 {
				m.shared = append(m.shared, sharedMemory{v.Start, fileMemory{key, kib}})
			} else {
				p.files[key] += kib
			}
		}
	}
	if v.MapMax > 1 && !v.Huge {
		m.forked += topology.KiB(anonBefore * v.PageKiB)
	}
}

// addPolicy notes a policy that names nodes. "default" is none; "local" is what
// the default does, and has no nodes that a narrower cpuset.mems would rewrite.
func (m *numaMaps) addPolicy(v *proc.Mapping) {
	kib := topology.KiB(v.Pages * v.PageKiB)
	if s := string(v.Policy); v.Policy2 == nil && (s == "default" || s == "local") {
		return
	}
	for i := range m.policies {
		if sameWords(m.policies[i].policy, v.Policy, v.Policy2) {
			m.policies[i].kib += kib
			return
		}
	}
	if len(m.policies) >= 64 { // a process with more is not described better by more
		return
	}
	policy := string(v.Policy)
	if v.Policy2 != nil {
		policy += " " + string(v.Policy2)
	}
	m.policies = append(m.policies, policyMemory{policy, kib})
}

func sameWords(s string, a, b []byte) bool {
	if b == nil {
		return s == string(a)
	}
	return len(s) == len(a)+1+len(b) && s[:len(a)] == string(a) && s[len(a)] == ' ' && s[len(a)+1:] == string(b)
}

// kindOf tells shared memory by its name, as the kernel names what has no file of
// its own (mm/shmem.c, mm/memfd.c, ipc/shm.c). Files on a tmpfs elsewhere count as
// page cache.
func kindOf(file []byte) fileKind {
	if proc.InShmem(file) {
		return inShmem
	}
	return onDisk
}
