package probe

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/homenode/homenode/core/measure"
	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/host/internal/numa"
	"github.com/homenode/homenode/host/probe/kernel"
)

// arena is the buffer on one node.
type arena struct {
	node    topology.NodeID
	mem     []byte
	ring    *kernel.Ring
	at      unsafe.Pointer // where the next sample goes on
	diluted bool
	pages   string // thp, 4k, 1g, mixed
	err     error  // why the node cannot be measured
}

// Shares below which a buffer is not what it should be.
const (
	boundShare = 0.95 // of its pages on the node: else the cell fails
	hugeShare  = 0.95 // in huge pages: else it is labelled
)

func newArena(s *session, b measure.Buffer) *arena {
	a := &arena{node: b.Node, diluted: b.Diluted}
	a.err = a.build(s, b)
	return a
}

func (a *arena) build(s *session, b measure.Buffer) error {
	if err := a.mmap(b.Bytes, s.plan.Request.Pages); err != nil {
		return err
	}
	bound := s.numa.Bind(a.mem, numa.Bind|numa.StaticNodes, topology.Nodes(a.node), 0)
	if err := s.goNear(a.node); err != nil {
		return err
	}
	for i := 0; i < len(a.mem); i += 4096 {
		if i%(16<<20) == 0 && s.stopped() {
			return measure.ErrStopped
		}
		a.mem[i] = 1
	}
	share, err := s.shareOn(a)
	switch {
	case err != nil && len(s.m.Host.Nodes) == 1:
		// A kernel without NUMA has neither call, and only one place for memory.
	case err != nil && bound != nil:
		return fmt.Errorf("memory cannot be bound to node%d (%w), nor looked at", a.node, bound)
	case err == nil && share < boundShare:
		if bound != nil {
			return fmt.Errorf("memory cannot be bound to node%d: %w", a.node, bound)
		}
		return fmt.Errorf("only %.0f %% of the buffer lies on node%d; the node is full or not allowed", 100*share,
			a.node)
	}
	a.pages = pageKind(a.mem, s.plan.Request.Pages)
	return nil
}

// mmap maps n bytes at a multiple of 2 MiB.
func (a *arena) mmap(n int64, pages string) error {
	flags := unix.MAP_PRIVATE | unix.MAP_ANON
	if pages == "1g" {
		const huge1G = 30 << 26 // MAP_HUGE_1GB
		mem, err := unix.Mmap(-1, 0, int(n), unix.PROT_READ|unix.PROT_WRITE, flags|unix.MAP_HUGETLB|huge1G)
		if err != nil {
			return fmt.Errorf("map %d pages of 1 GiB (is there a pool on node%d?): %w", n>>30, a.node, err)
		}
		a.mem = mem
		return nil
	}
	const align = kernel.PageSize
	whole, err := unix.Mmap(-1, 0, int(n)+align, unix.PROT_READ|unix.PROT_WRITE, flags)
	if err != nil {
		return fmt.Errorf("map %d MiB: %w", n>>20, err)
	}
	// The spare part stays mapped and untouched: it costs nothing.
	off := int(-uintptr(unsafe.Pointer(&whole[0])) % align)
	a.mem = whole[off : off+int(n)]
	advice := unix.MADV_HUGEPAGE
	if pages == "4k" {
		advice = unix.MADV_NOHUGEPAGE
	}
	// Kernels without huge pages say EINVAL; what came of it is looked at later.
	_ = unix.Madvise(a.mem, advice)
	return nil
}

// goNear puts this thread on a CPU of the node, or of the nearest that has one
// that is allowed.
func (s *session) goNear(node topology.NodeID) error {
	h := s.m.Host
	for _, n := range s.plan.NodeCPUs {
		if n.Node == node {
			return s.moveTo(n.CPU)
		}
	}
	best, distance := s.plan.NodeCPUs[0].CPU, 1<<30
	to := h.Index(node)
	for _, n := range s.plan.NodeCPUs {
		from := h.Index(n.Node)
		if from < 0 || to < 0 || from >= len(h.Distances) || to >= len(h.Distances[from]) ||
			h.Distances[from][to] == topology.None {
			continue
		}
		if d := h.Distances[from][to]; d < distance {
			best, distance = n.CPU, d
		}
	}
	return s.moveTo(best)
}

// shareOn asks the kernel where the pages are.
func (s *session) shareOn(a *arena) (float64, error) {
	// One 4 KiB page in sixteen tells enough, and of a huge page any does.
	const step = 64 << 10
	var pages []uintptr
	for i := 0; i < len(a.mem); i += step {
		pages = append(pages, uintptr(unsafe.Pointer(&a.mem[i])))
	}
	const never = -1 << 30
	status := make([]int32, len(pages))
	for i := range status {
		status[i] = never
	}
	if err := s.numa.PageNodes(0, pages, status); err != nil {
		return 0, err
	}
	on, known := 0, 0
	for _, n := range status {
		if n == never || n < 0 {
			continue
		}
		known++
		if topology.NodeID(n) == a.node {
			on++
		}
	}
	if known == 0 {
		return 0, errors.New("move_pages tells no page's node")
	}
	return float64(on) / float64(known), nil
}

// pageKind reads from smaps how much of a buffer is huge pages.
func pageKind(mem []byte, asked string) string {
	if asked == "1g" {
		return "1g"
	}
	f, err := os.Open("/proc/self/smaps")
	if err != nil {
		return "unknown"
	}
	defer f.Close()
	from := uint64(uintptr(unsafe.Pointer(&mem[0])))
	inside := false
	var rss, huge int64
	for lines := bufio.NewScanner(f); lines.Scan(); {
		line := lines.Text()
		if low, rest, ok := strings.Cut(line, "-"); ok && !strings.Contains(low, ":") && !strings.Contains(low, " ") {
			a, errA := strconv.ParseUint(low, 16, 64)
			high, _, _ := strings.Cut(rest, " ")
			b, errB := strconv.ParseUint(high, 16, 64)
			if errA == nil && errB == nil {
				inside = a < from+uint64(len(mem)) && from < b
				continue
			}
		}
		if !inside {
			continue
		}
		fields := strings.Fields(line)
		if len(fields) < 2 {
			continue
		}
		n, _ := strconv.ParseInt(fields[1], 10, 64)
		switch fields[0] {
		case "Rss:":
			rss += n
		case "AnonHugePages:":
			huge += n
		}
	}
	switch {
	case rss == 0:
		return "unknown"
	case float64(huge) >= hugeShare*float64(rss):
		return "thp"
	case huge == 0:
		return "4k"
	}
	return "mixed"
}

// needRing links the buffer, or links it anew after streams wrote over it, and
// drives what that left in the caches out of them.
func (a *arena) needRing(s *session) {
	if a.ring != nil {
		return
	}
	a.ring = kernel.BuildRing(a.mem, s.plan.Request.Seed+uint64(a.node)+1)
	a.at, _ = a.ring.Segment(0)
	s.sweep()
}

// flags of a cell on this memory.
func (a *arena) flag() string {
	switch {
	case a.diluted:
		return "llc-diluted"
	case a.pages == "4k" || a.pages == "mixed":
		return a.pages
	}
	return ""
}
