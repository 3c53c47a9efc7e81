package observe

import (
	"bufio"
	"bytes"
	"hash/maphash"
	"io"

	"github.com/homenode/homenode/core/topology"
)

// numaMaps is what /proc/PID/numa_maps says of one process, in KiB.
type numaMaps struct {
	anon     byNode // anonymous, ordinary pages
	hugeAnon byNode // anonymous, of hugetlbfs
	files    []fileMemory
	forked   topology.KiB // part of anon in mappings with pages that other processes have mapped too
	policies []policyMemory
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

// memory is all of it, and its anonymous part.
func (m *numaMaps) memory() (all, anon byNode) {
	anon.addAll(m.anon)
	anon.addAll(m.hugeAnon)
	all.addAll(anon)
	for _, f := range m.files {
		all.add(int(f.node), f.kib)
	}
	return all, anon
}

// mapsParser reads numa_maps files one after the other, reusing its buffers.
type mapsParser struct {
	lines *bufio.Reader
	files map[fileKey]topology.KiB
	seed  maphash.Seed
	nodes []nodePages
}

type nodePages struct {
	node  int
	pages uint64
}

func newMapsParser() *mapsParser {
	return &mapsParser{
		lines: bufio.NewReaderSize(nil, 64<<10), // a path of PATH_MAX, every byte escaped to four, fits
		files: map[fileKey]topology.KiB{},
		seed:  maphash.MakeSeed(),
	}
}

// parse reads numa_maps(5) as fs/proc/task_mmu.c, show_numa_map, writes it. Lines
// it does not understand are left out.
func (p *mapsParser) parse(r io.Reader) (*numaMaps, error) {
	p.lines.Reset(r)
	defer p.lines.Reset(nil)
	clear(p.files)
	m := &numaMaps{}
	for skip := false; ; {
		line, err := p.lines.ReadSlice('\n')
		switch {
		case err == bufio.ErrBufferFull:
			skip = true // and what follows, to the end of the line
			continue
		case err != nil && err != io.EOF:
			return nil, err
		}
		if !skip {
			p.line(m, line)
		}
		skip = false
		if err == io.EOF {
			break
		}
	}
	m.files = make([]fileMemory, 0, len(p.files))
	for key, kib := range p.files {
		m.files = append(m.files, fileMemory{key, kib})
	}
	return m, nil
}

// mapping is one line.
type mapping struct {
	anon    uint64 // pages
	pageKiB uint64
	file    []byte
	hasFile bool
	huge    bool
	shared  bool // some page is mapped more than once
	policy  []byte
	policy2 []byte // second word of the policy, as in "weighted interleave:0-1"
}

func (p *mapsParser) line(m *numaMaps, line []byte) {
	v, ok := p.words(line)
	if !ok {
		return
	}
	var pages uint64
	for _, n := range p.nodes {
		pages += n.pages
	}
	if pages == 0 || v.pageKiB == 0 {
		m.addPolicy(v, 0)
		return
	}
	if pages > maxKiB/v.pageKiB {
		return
	}
	m.addPolicy(v, topology.KiB(pages*v.pageKiB))

	key := fileKey{kind: onDisk}
	if v.hasFile {
		key.name = maphash.Bytes(p.seed, v.file)
		key.kind = kindOf(v.file)
	}
	anon := &m.anon
	if v.huge {
		anon, key.kind = &m.hugeAnon, hugePage
	}
	// The line tells the nodes of all pages, and of how many pages are anonymous:
	// a private mapping of a file may have both. Each node gets its proportion,
	// rounded so that nothing is lost.
	var before, anonBefore uint64
	isAnon := min(v.anon, pages)
	for _, n := range p.nodes {
		before += n.pages
		upTo := before
		if isAnon < pages {
			upTo = uint64(float64(before) / float64(pages) * float64(isAnon))
		}
		upTo = min(max(upTo, anonBefore), anonBefore+n.pages)
		a := upTo - anonBefore
		anonBefore = upTo
		if a > 0 {
			anon.add(n.node, topology.KiB(a*v.pageKiB))
		}
		if rest := n.pages - a; rest > 0 {
			key.node = uint16(n.node)
			p.files[key] += topology.KiB(rest * v.pageKiB)
		}
	}
	if v.shared && !v.huge {
		m.forked += topology.KiB(anonBefore * v.pageKiB)
	}
}

// words takes a line apart; the pages by node are then in p.nodes.
func (p *mapsParser) words(line []byte) (mapping, bool) {
	var v mapping
	p.nodes = p.nodes[:0]
	var word []byte
	for i := 0; ; i++ {
		word, line = nextWord(line)
		if len(word) == 0 {
			break
		}
		switch {
		case i == 0: // start address
		case i == 1:
			v.policy = word
		case i == 2 && (string(v.policy) == "weighted" || bytes.HasPrefix(word, []byte("(many)"))):
			v.policy2 = word
		default:
			if !p.word(&v, word) {
				return v, false
			}
		}
	}
	return v, v.policy != nil
}

func (p *mapsParser) word(v *mapping, word []byte) bool {
	switch {
	case string(word) == "huge":
		v.huge = true
	case word[0] == 'N':
		node, n, ok := nodeAmount(word)
		if !ok || n >= maxKiB/1024 {
			return false
		}
		p.nodes = append(p.nodes, nodePages{node, n})
	case bytes.HasPrefix(word, []byte("file=")):
		v.file, v.hasFile = word[5:], true
	case bytes.HasPrefix(word, []byte("anon=")):
		n, ok := number(word[5:])
		if !ok {
			return false
		}
		v.anon = n
	case bytes.HasPrefix(word, []byte("mapmax=")):
		v.shared = true
	case bytes.HasPrefix(word, []byte("kernelpagesize_kB=")):
		n, ok := number(word[18:])
		if !ok || n > 1<<25 { // 32 GiB; the largest in use is 16 GiB (ppc64, arm64)
			return false
		}
		v.pageKiB = n
	}
	return true
}

func nextWord(b []byte) (word, rest []byte) {
	for len(b) > 0 && (b[0] == ' ' || b[0] == '\n') {
		b = b[1:]
	}
	for i, c := range b {
		if c == ' ' || c == '\n' {
			return b[:i], b[i:]
		}
	}
	return b, nil
}

// addPolicy notes a policy that names nodes. "default" is none; "local" is what
// the default does, and has no nodes that a narrower cpuset.mems would rewrite.
func (m *numaMaps) addPolicy(v mapping, kib topology.KiB) {
	if s := string(v.policy); v.policy2 == nil && (s == "default" || s == "local") {
		return
	}
	for i := range m.policies {
		if sameWords(m.policies[i].policy, v.policy, v.policy2) {
			m.policies[i].kib += kib
			return
		}
	}
	if len(m.policies) >= 64 { // a process with more is not described better by more
		return
	}
	policy := string(v.policy)
	if v.policy2 != nil {
		policy += " " + string(v.policy2)
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
	for _, prefix := range [...]string{"/dev/shm/", "/memfd:", "/SYSV", "/dev/zero", "/run/"} {
		if len(file) >= len(prefix) && string(file[:len(prefix)]) == prefix {
			return inShmem
		}
	}
	return onDisk
}
