package process

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/homenode/homenode/core/topology"
)

// rangeKind says what lies in a range, and so whether it is moved.
type rangeKind int

const (
	left    rangeKind = iota // page cache of files, and what is no memory: left alone
	anon                     // heap, stacks, anonymous maps
	shmem                    // tmpfs, memfd, System V and shared anonymous memory
	private                  // private map of a file: the pages written to are its own
	huge                     // hugetlb
)

// memRange is one range of a process's memory.
type memRange struct {
	start, end uintptr
	kind       rangeKind
	shared     bool // MAP_SHARED
	file       fileID
	offset     uint64
	pageSize   int64                     // of the kernel's pages there
	nodes      map[topology.NodeID]int64 // bytes by node
	anon       int64                     // bytes that are anonymous
	thp        bool                      // has transparent huge pages
	locked     bool                      // mlocked
}

// fileID names a file; the zero value is none.
type fileID struct {
	dev   string
	inode uint64
}

// off is the bytes of the range that lie off home and may be moved. In a private
// map of a file, numa_maps does not tell whose bytes are anonymous: only what
// must be is counted.
func (r *memRange) off(home topology.NodeSet) int64 {
	total, off := r.total(), int64(0)
	for n, b := range r.nodes {
		if !home.Has(n) {
			off += b
		}
	}
	switch r.kind {
	case left:
		return 0
	case private:
		return max(0, off-(total-r.anon))
	}
	return off
}

func (r *memRange) total() (t int64) {
	for _, b := range r.nodes {
		t += b
	}
	return t
}

// movable is the bytes of the range that may be moved.
func (r *memRange) movable() int64 {
	switch r.kind {
	case left:
		return 0
	case private:
		return r.anon
	}
	return r.total()
}

// ranges reads what memory a process has and where it lies.
func (p proc) ranges(pid int) ([]memRange, error) {
	maps, err := p.read(pid, "maps")
	if err != nil {
		return nil, fmt.Errorf("process %d: read maps: %w", pid, err)
	}
	numa, err := p.read(pid, "numa_maps")
	if err != nil {
		return nil, fmt.Errorf("process %d: read numa_maps: %w", pid, err)
	}
	tmpfs := map[string]bool{}
	if mounts, err := p.read(pid, "mountinfo"); err == nil {
		tmpfs = parseTmpfs(string(mounts))
	}
	// Without smaps a range may still have huge pages: they then show when pages
	// beside one that was moved have moved along.
	var thp, locked map[uintptr]bool
	if smaps, err := p.read(pid, "smaps"); err == nil {
		thp, locked = parseSmaps(string(smaps))
	}
	all, err := parseMaps(string(maps), tmpfs)
	if err != nil {
		return nil, fmt.Errorf("/proc/%d/maps: %w", pid, err)
	}
	if err := parseNumaMaps(string(numa), all); err != nil {
		return nil, fmt.Errorf("/proc/%d/numa_maps: %w", pid, err)
	}
	for i := range all {
		all[i].thp, all[i].locked = thp[all[i].start], locked[all[i].start]
	}
	return all, nil
}

// parseMaps reads /proc/PID/maps: "start-end perms offset dev inode path".
func parseMaps(text string, tmpfs map[string]bool) ([]memRange, error) {
	var all []memRange
	for line := range strings.Lines(text) {
		f := strings.Fields(line)
		if len(f) < 5 {
			return nil, fmt.Errorf("line %q", oneLine(line))
		}
		from, to, ok := strings.Cut(f[0], "-")
		start, err1 := strconv.ParseUint(from, 16, 64)
		end, err2 := strconv.ParseUint(to, 16, 64)
		offset, err3 := strconv.ParseUint(f[2], 16, 64)
		inode, err4 := strconv.ParseUint(f[4], 10, 64)
		if err := errors.Join(err1, err2, err3, err4); err != nil || !ok || end <= start || len(f[1]) < 4 {
			return nil, fmt.Errorf("line %q", oneLine(line))
		}
		r := memRange{start: uintptr(start), end: uintptr(end), offset: offset, pageSize: basePage, shared: f[1][3] == 's'}
		path := ""
		if len(f) > 5 {
			path = strings.Join(f[5:], " ")
		}
		if inode != 0 {
			r.file = fileID{f[3], inode}
		}
		switch {
		case strings.HasPrefix(path, "[v"): // [vdso], [vvar], [vvar_vclock], [vsyscall]: the kernel's own
		case inode == 0:
			r.kind = anon
		case strings.HasPrefix(path, "/memfd:"), strings.HasPrefix(path, "/SYSV"), strings.HasPrefix(path, "/dev/zero"),
			strings.HasPrefix(path, "[anon_shmem:"), tmpfs[f[3]]:
			r.kind = shmem
		case !r.shared:
			r.kind = private
		}
		all = append(all, r)
	}
	return all, nil
}

// basePage is the size of an ordinary page. Numbers in numa_maps are in it, and
// entries of pagemap stand for one. Move refuses machines with another size.
const basePage = 4096

// hugePage is what a transparent huge page has on x86-64 and on arm64 with 4 KiB
// pages.
const hugePage = 2 << 20

// parseNumaMaps adds what /proc/PID/numa_maps tells to the ranges: a line is
// "start policy key=value... flag...". Ranges that came since are skipped.
func parseNumaMaps(text string, all []memRange) error {
	byStart := make(map[uintptr]*memRange, len(all))
	for i := range all {
		byStart[all[i].start] = &all[i]
	}
	for line := range strings.Lines(text) {
		f := strings.Fields(line)
		if len(f) < 2 {
			return fmt.Errorf("line %q", oneLine(line))
		}
		start, err := strconv.ParseUint(f[0], 16, 64)
		if err != nil {
			return fmt.Errorf("line %q", oneLine(line))
		}
		r := byStart[uintptr(start)]
		if r == nil {
			continue
		}
		var anonPages int64
		pages := map[topology.NodeID]int64{}
		isHuge := false
		for _, word := range f[2:] {
			key, value, hasValue := strings.Cut(word, "=")
			if !hasValue {
				isHuge = isHuge || key == "huge"
				continue
			}
			if key == "file" {
				continue // a path, escaped: whatever it looks like
			}
			n, err := strconv.ParseInt(value, 10, 64)
			if err != nil || n < 0 || n > math.MaxInt64>>32 {
				continue // a policy of two words, "prefer (many):1", has no value to read
			}
			switch {
			case key == "anon":
				anonPages = n
			case key == "kernelpagesize_kB":
				r.pageSize = n << 10
			case len(key) > 1 && key[0] == 'N':
				if node, err := strconv.Atoi(key[1:]); err == nil && node >= 0 && node <= topology.MaxID {
					pages[topology.NodeID(node)] = n
				}
			}
		}
		if r.pageSize < basePage || r.pageSize > 1<<40 {
			return fmt.Errorf("line %q: page size", oneLine(line))
		}
		if isHuge {
			r.kind = huge
		}
		r.anon = anonPages * r.pageSize
		r.nodes = make(map[topology.NodeID]int64, len(pages))
		for node, n := range pages {
			r.nodes[node] = n * r.pageSize
		}
	}
	return nil
}

// parseSmaps finds the ranges that have transparent huge pages, and those that are
// mlocked, in /proc/PID/smaps.
func parseSmaps(text string) (thp, locked map[uintptr]bool) {
	thp, locked = map[uintptr]bool{}, map[uintptr]bool{}
	var start uint64
	for line := range strings.Lines(text) {
		key, rest, _ := strings.Cut(line, " ")
		if !strings.HasSuffix(key, ":") {
			from, _, _ := strings.Cut(key, "-")
			start, _ = strconv.ParseUint(from, 16, 64)
			continue
		}
		if (key == "AnonHugePages:" || key == "ShmemPmdMapped:") && !strings.HasPrefix(strings.TrimSpace(rest), "0 ") {
			thp[uintptr(start)] = true
		}
		if key == "VmFlags:" && slices.Contains(strings.Fields(rest), "lo") {
			locked[uintptr(start)] = true
		}
	}
	return thp, locked
}

// parsePinned reads VmPin and VmLck of /proc/PID/status, in bytes.
func parsePinned(text string) (pin, lock int64) {
	for line := range strings.Lines(text) {
		key, value, _ := strings.Cut(line, ":")
		if key != "VmPin" && key != "VmLck" {
			continue
		}
		f := strings.Fields(value)
		if len(f) == 0 {
			continue
		}
		kib, err := strconv.ParseInt(f[0], 10, 64)
		if err != nil || kib < 0 || kib > math.MaxInt64>>10 {
			continue
		}
		if key == "VmPin" {
			pin = kib << 10
		} else {
			lock = kib << 10
		}
	}
	return pin, lock
}

// parseTmpfs finds the device numbers of tmpfs mounts in /proc/PID/mountinfo, as
// maps writes them ("00:1b", hexadecimal; mountinfo has decimals).
func parseTmpfs(text string) map[string]bool {
	tmpfs := map[string]bool{}
	for line := range strings.Lines(text) {
		before, after, _ := strings.Cut(line, " - ")
		f := strings.Fields(before)
		if len(f) < 3 || !strings.HasPrefix(after, "tmpfs ") {
			continue
		}
		major, minor, _ := strings.Cut(f[2], ":")
		x, err1 := strconv.Atoi(major)
		y, err2 := strconv.Atoi(minor)
		if err1 == nil && err2 == nil {
			tmpfs[fmt.Sprintf("%02x:%02x", x, y)] = true
		}
	}
	return tmpfs
}

// Bits of an entry of /proc/PID/pagemap (Documentation/admin-guide/mm/pagemap.rst).
const (
	pagePresent   = 1 << 63
	pageFile      = 1 << 61 // page of a file, or shared anonymous
	pagemapBuffer = 4096    // entries read at once: 16 MiB of memory, a multiple of a huge page
)

// pagemap tells which pages of a process are there, without asking for each of a
// large range that is mostly empty.
type pagemap struct {
	file io.ReaderAt
	io.Closer
	buf [pagemapBuffer * 8]byte
}

// openPagemap returns nil when there is none to be had: every address is asked
// for then.
func (p proc) openPagemap(pid int) *pagemap {
	f, err := p.root.Open(fmt.Sprintf("proc/%d/pagemap", pid))
	if err != nil {
		return nil
	}
	r, ok := f.(io.ReaderAt)
	if !ok {
		f.Close()
		return nil
	}
	return &pagemap{file: r, Closer: f}
}

// present appends the addresses of pages between start and end that are there;
// with own, only anonymous ones.
func (m *pagemap) present(pages []uintptr, start, end uintptr, own bool) ([]uintptr, error) {
	n := int((end - start) / basePage)
	got, err := m.file.ReadAt(m.buf[:n*8], int64(start/basePage*8))
	if err != nil && !errors.Is(err, io.EOF) {
		return pages, err
	}
	for i := range got / 8 {
		entry := binary.NativeEndian.Uint64(m.buf[i*8:])
		if entry&pagePresent != 0 && (!own || entry&pageFile == 0) {
			pages = append(pages, start+uintptr(i)*basePage)
		}
	}
	return pages, nil
}
