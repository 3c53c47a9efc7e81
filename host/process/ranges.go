package process

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"strconv"
	"strings"

	"github.com/homenode/homenode/core/plan"
	"github.com/homenode/homenode/core/topology"
	procfs "github.com/homenode/homenode/host/internal/proc"
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
	asked      topology.NodeID           // the one node that its policy names, else None
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

// ranges reads, with read, what memory a process has and where it lies.
func (p proc) ranges(pid int, read func(file string, parse func(io.Reader) error) error) ([]memRange, error) {
	tmpfs := map[string]bool{}
	if err := p.parse(pid, "mountinfo", func(r io.Reader) error { return tmpfsDevices(r, tmpfs) }); err != nil {
		clear(tmpfs)
	}
	var all []memRange
	err := read("maps", func(r io.Reader) (err error) {
		all, err = parseMaps(r, tmpfs)
		return err
	})
	if errors.Is(err, fs.ErrPermission) { // ptrace access of proc_pid_maps(5)
		return nil, fmt.Errorf("process %d: only its user or root may move its memory: %w", pid, fs.ErrPermission)
	}
	if err != nil {
		return nil, fmt.Errorf("process %d: read maps: %w", pid, err)
	}
	if err := read("numa_maps", func(r io.Reader) error { return parseNumaMaps(r, all) }); err != nil {
		return nil, fmt.Errorf("process %d: read numa_maps: %w", pid, err)
	}
	// Without smaps a range may still have huge pages: they then show when pages
	// beside one that was moved have moved along.
	var thp, locked map[uintptr]bool
	err = read("smaps", func(r io.Reader) (err error) {
		thp, locked, err = parseSmaps(r)
		return err
	})
	if errors.Is(err, plan.ErrNoAnswer) {
		return nil, err
	}
	if err != nil {
		return all, nil
	}
	for i := range all {
		all[i].thp, all[i].locked = thp[all[i].start], locked[all[i].start]
	}
	return all, nil
}

// parseMaps reads /proc/PID/maps: "start-end perms offset dev inode path".
func parseMaps(text io.Reader, tmpfs map[string]bool) (all []memRange, err error) {
	dev := ""
	err = eachLine(text, func(line string) error {
		f := strings.Fields(line)
		if len(f) < 5 {
			return fmt.Errorf("line %q", oneLine(line))
		}
		from, to, ok := strings.Cut(f[0], "-")
		start, err1 := strconv.ParseUint(from, 16, 64)
		end, err2 := strconv.ParseUint(to, 16, 64)
		offset, err3 := strconv.ParseUint(f[2], 16, 64)
		inode, err4 := strconv.ParseUint(f[4], 10, 64)
		if err := errors.Join(err1, err2, err3, err4); err != nil || !ok || end <= start || len(f[1]) < 4 {
			return fmt.Errorf("line %q", oneLine(line))
		}
		r := memRange{start: uintptr(start), end: uintptr(end), offset: offset, pageSize: basePage,
			shared: f[1][3] == 's', asked: topology.None}
		path := ""
		if len(f) > 5 {
			path = strings.Join(f[5:], " ")
		}
		if inode != 0 {
			if dev != f[3] {
				dev = strings.Clone(f[3]) // a part would keep the line
			}
			r.file = fileID{dev, inode}
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
		return nil
	})
	return all, err
}

// eachLine calls each with every line of a file. A process has it in its hand how long that
// is: one that maps a file of a long path as often as it may has 250 MB of maps.
func eachLine(r io.Reader, each func(line string) error) error {
	return procfs.EachLine(bufio.NewReaderSize(r, procfs.LongestLine),
		func(line []byte) error { return each(string(line)) })
}

// basePage is the size of an ordinary page. Numbers in numa_maps are in it, and
// entries of pagemap stand for one. Move refuses machines with another size.
const basePage = 4096

// hugePage is what a transparent huge page has on x86-64 and on arm64 with 4 KiB
// pages.
const hugePage = 2 << 20

// parseNumaMaps adds what /proc/PID/numa_maps tells to the ranges. Ranges that came
// since are skipped.
func parseNumaMaps(text io.Reader, all []memRange) error {
	byStart := make(map[uintptr]*memRange, len(all))
	for i := range all {
		byStart[all[i].start] = &all[i]
	}
	var m procfs.Mapping
	return procfs.EachLine(bufio.NewReaderSize(text, procfs.LongestLine), func(line []byte) error {
		if !m.Parse(line) {
			return fmt.Errorf("line %q", oneLine(string(line)))
		}
		r := byStart[uintptr(m.Start)]
		if r == nil {
			return nil
		}
		if m.PageKiB != 0 {
			r.pageSize = int64(m.PageKiB) << 10
		}
		if r.pageSize < basePage {
			return fmt.Errorf("line %q: page size", oneLine(string(line)))
		}
		if m.Huge {
			r.kind = huge
		}
		if node, ok := m.Asked(); ok {
			r.asked = topology.NodeID(node)
		}
		r.anon = int64(min(m.Anon, m.Pages)) * r.pageSize
		r.nodes = make(map[topology.NodeID]int64, len(m.Nodes))
		for _, n := range m.Nodes {
			r.nodes[topology.NodeID(n.Node)] = int64(n.Pages) * r.pageSize
		}
		return nil
	})
}

// parseSmaps finds the ranges that have transparent huge pages, and those that are
// mlocked, in /proc/PID/smaps.
func parseSmaps(text io.Reader) (thp, locked map[uintptr]bool, err error) {
	thp, locked = map[uintptr]bool{}, map[uintptr]bool{}
	var start uint64
	err = eachLine(text, func(line string) error {
		key, rest, _ := strings.Cut(line, " ")
		if !strings.HasSuffix(key, ":") {
			from, _, _ := strings.Cut(key, "-")
			start, _ = strconv.ParseUint(from, 16, 64)
			return nil
		}
		if (key == "AnonHugePages:" || key == "ShmemPmdMapped:") && !strings.HasPrefix(strings.TrimSpace(rest), "0 ") {
			thp[uintptr(start)] = true
		}
		if key == "VmFlags:" && slices.Contains(strings.Fields(rest), "lo") {
			locked[uintptr(start)] = true
		}
		return nil
	})
	return thp, locked, err
}

// tmpfsDevices adds the device numbers of tmpfs mounts, as maps writes them ("00:1b").
func tmpfsDevices(mountinfo io.Reader, tmpfs map[string]bool) error {
	return procfs.EachLine(bufio.NewReaderSize(mountinfo, procfs.LongestLine), func(line []byte) error {
		for _, m := range procfs.Mountinfo(line) {
			if m.Type == "tmpfs" {
				tmpfs[fmt.Sprintf("%02x:%02x", m.Device.Major, m.Device.Minor)] = true
			}
		}
		return nil
	})
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

// close is also that of none.
func (m *pagemap) close() {
	if m != nil {
		m.Close()
	}
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
