package proc

import (
	"bytes"
	"strconv"
)

// MaxNode bounds node IDs in files; the kernel's MAX_NUMNODES is at most 1,024.
const MaxNode = 1023

// Mapping is a line of /proc/PID/numa_maps. Its slices lie in the parsed line, but for
// Nodes, which the next Parse uses again.
type Mapping struct {
	Start   uint64
	Policy  []byte
	Policy2 []byte // second word of the policy, as in "weighted interleave:0-1"
	Nodes   []NodePages
	Pages   uint64 // on all nodes
	Anon    uint64 // pages
	PageKiB uint64
	File    []byte // path, escaped; only with HasFile
	HasFile bool
	Huge    bool
	Heap    bool
	Stack   bool   // of the main thread
	MapMax  uint64 // the most processes that have one of its pages mapped
}

// Asked is the one node that the mapping's policy names: bind:1, prefer:1, prefer (many):1,
// with flags bind=static:1 (mpol_to_str in mm/mempolicy.c).
func (m *Mapping) Asked() (node int, ok bool) {
	if !bytes.HasPrefix(m.Policy, []byte("bind")) && !bytes.HasPrefix(m.Policy, []byte("prefer")) {
		return 0, false
	}
	text := m.Policy
	if m.Policy2 != nil {
		text = m.Policy2
	}
	_, list, _ := bytes.Cut(text, []byte{':'})
	n, ok := Number(list)
	return int(n), ok && len(list) > 0 && n <= MaxNode
}

// NodePages is how many pages lie on a node.
type NodePages struct {
	Node  int
	Pages uint64
}

// Parse reads a line of numa_maps(5) as fs/proc/task_mmu.c, show_numa_map, writes it.
// It is false when the line is not that.
func (m *Mapping) Parse(line []byte) bool {
	*m = Mapping{Nodes: m.Nodes[:0]}
	word, line := nextWord(line)
	if len(word) == 0 || !m.address(word) {
		return false
	}
	if m.Policy, line = nextWord(line); len(m.Policy) == 0 {
		return false
	}
	for first := true; ; first = false {
		if word, line = nextWord(line); len(word) == 0 {
			break
		}
		if first && (string(m.Policy) == "weighted" || bytes.HasPrefix(word, []byte("(many)"))) {
			m.Policy2 = word
		} else if !m.word(word) {
			return false
		}
	}
	if m.PageKiB == 0 || m.Pages > MaxKiB/m.PageKiB {
		return m.Pages == 0
	}
	return true
}

// address reads a hexadecimal number of up to 64 bits.
func (m *Mapping) address(word []byte) bool {
	if len(word) > 16 {
		return false
	}
	for _, c := range word {
		switch {
		case c >= '0' && c <= '9':
			c -= '0'
		case c >= 'a' && c <= 'f':
			c -= 'a' - 10
		default:
			return false
		}
		m.Start = m.Start<<4 | uint64(c)
	}
	return true
}

func (m *Mapping) word(word []byte) bool {
	number := func(prefix string, to *uint64, limit uint64) bool {
		n, ok := Number(word[len(prefix):])
		*to = n
		return ok && n <= limit
	}
	switch {
	case string(word) == "huge":
		m.Huge = true
	case string(word) == "heap":
		m.Heap = true
	case string(word) == "stack":
		m.Stack = true
	case word[0] == 'N':
		node, n, ok := NodeAmount(word)
		if !ok || n >= MaxKiB/1024 {
			return false
		}
		m.Nodes = append(m.Nodes, NodePages{node, n})
		m.Pages += n
	case bytes.HasPrefix(word, []byte("file=")):
		m.File, m.HasFile = word[5:], true
	case bytes.HasPrefix(word, []byte("anon=")):
		return number("anon=", &m.Anon, 1<<64-1)
	case bytes.HasPrefix(word, []byte("mapmax=")):
		return number("mapmax=", &m.MapMax, 1<<64-1)
	case bytes.HasPrefix(word, []byte("kernelpagesize_kB=")):
		return number("kernelpagesize_kB=", &m.PageKiB, 1<<25) // 32 GiB; the largest in use is 16 GiB (ppc64, arm64)
	}
	return true
}

// InShmem reports whether a file of numa_maps is memory: tmpfs where it is usually mounted,
// memfd, System V.
func InShmem(file []byte) bool {
	for _, prefix := range [...]string{"/dev/shm/", "/memfd:", "/SYSV", "/dev/zero", "/run/"} {
		if len(file) >= len(prefix) && string(file[:len(prefix)]) == prefix {
			return true
		}
	}
	return false
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

// NodeAmount reads "N3=17".
func NodeAmount(word []byte) (node int, n uint64, ok bool) {
	if len(word) < 4 || word[0] != 'N' {
		return 0, 0, false
	}
	eq := bytes.IndexByte(word, '=')
	if eq < 0 {
		return 0, 0, false
	}
	id, ok := Number(word[1:eq])
	if !ok || id > MaxNode {
		return 0, 0, false
	}
	n, ok = Number(word[eq+1:])
	return int(id), n, ok
}

// File is the path of a file of the process: "proc/PID/name", below the root.
func File(pid int, name string) string {
	var b [64]byte
	p := strconv.AppendInt(append(b[:0], "proc/"...), int64(pid), 10)
	return string(append(append(p, '/'), name...))
}

// TaskFile is the path of a file of a thread: "proc/PID/task/TID/name", below the root.
func TaskFile(pid, tid int, name string) string {
	var b [64]byte
	p := strconv.AppendInt(append(b[:0], "proc/"...), int64(pid), 10)
	p = strconv.AppendInt(append(p, "/task/"...), int64(tid), 10)
	return string(append(append(p, '/'), name...))
}
