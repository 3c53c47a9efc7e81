//go:build linux

package main

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"
	"unsafe"

	"github.com/homenode/homenode/e2e/suite"
)

// Memory policies, include/uapi/linux/mempolicy.h.
const (
	mpolDefault     = 0
	mpolBind        = 2
	mpolInterleave  = 3
	mpolStaticNodes = 1 << 15

	mapFixedNoreplace = 0x100000 // include/uapi/asm-generic/mman-common.h
	madvHugepage      = 14
	madvNohugepage    = 15
)

type buffer struct {
	addr, size uintptr
	words      []uint64
}

// mapBuffer maps the slot's buffer. Ordinary pages unless told otherwise, so
// that one page moves at a time and numa_maps counts what the tests count. With a file to share, the
// buffer is that file's pages, the same for all walkers that map it.
func mapBuffer(slot, mib int, huge bool, share string) (buffer, error) {
	if slot < 0 || slot >= suite.Slots || mib < 1 {
		return buffer{}, fmt.Errorf("map buffer: slot %d with %d MiB", slot, mib)
	}
	addr, size := uintptr(suite.Base(slot)), uintptr(mib)<<20
	flags, file := uintptr(syscall.MAP_PRIVATE|syscall.MAP_ANON|mapFixedNoreplace), ^uintptr(0)
	if share != "" {
		f, err := os.OpenFile(share, os.O_RDWR|os.O_CREATE, 0o600)
		if err != nil {
			return buffer{}, err
		}
		defer f.Close()
		if err := f.Truncate(int64(size)); err != nil {
			return buffer{}, err
		}
		flags, file = syscall.MAP_SHARED|mapFixedNoreplace, f.Fd()
	}
	got, _, e := syscall.Syscall6(syscall.SYS_MMAP, addr, size, syscall.PROT_READ|syscall.PROT_WRITE, flags, file, 0)
	if e != 0 {
		return buffer{}, fmt.Errorf("map buffer at %#x: %w", addr, e)
	}
	advice := uintptr(madvNohugepage)
	if huge {
		advice = madvHugepage
	}
	if _, _, e := syscall.Syscall(syscall.SYS_MADVISE, got, size, advice); e != 0 {
		return buffer{}, fmt.Errorf("advise on huge pages: %w", e)
	}
	start := *(*unsafe.Pointer)(unsafe.Pointer(&got)) // memory the Go heap knows nothing of
	return buffer{got, size, unsafe.Slice((*uint64)(start), size/8)}, nil
}

type policy struct {
	mode  uintptr
	nodes uint64
}

func parsePlace(s string, memory uint64) (policy, error) {
	switch {
	case s == "local":
		return policy{mode: mpolDefault}, nil
	case s == "interleave":
		return policy{mpolInterleave, memory}, nil
	case strings.HasPrefix(s, "bind:"):
		n, err := strconv.Atoi(s[len("bind:"):])
		if err != nil || n < 0 || n > 63 || memory>>n&1 == 0 {
			return policy{}, fmt.Errorf("place %q: no such node", s)
		}
		return policy{mpolBind, 1 << n}, nil
	}
	return policy{}, fmt.Errorf("place %q: want interleave, bind:NODE or local", s)
}

func (b buffer) setPolicy(p policy, static bool) error {
	if static && p.mode != mpolDefault {
		p.mode |= mpolStaticNodes
	}
	var mask, bits uintptr
	if p.nodes != 0 {
		// maxnode counts one more than the bits it reads (get_nodes, mm/mempolicy.c).
		mask, bits = uintptr(unsafe.Pointer(&p.nodes)), 65
	}
	if _, _, e := syscall.Syscall6(syscall.SYS_MBIND, b.addr, b.size, p.mode, mask, bits, 0); e != 0 {
		return fmt.Errorf("mbind mode %d nodes %#x: %w", p.mode, p.nodes, e)
	}
	return nil
}

// memoryNodes reads the nodes with memory as a mask; the rig has at most 16.
func memoryNodes() (uint64, error) {
	const file = "/sys/devices/system/node/has_memory"
	text, err := os.ReadFile(file)
	if err != nil {
		return 0, fmt.Errorf("read memory nodes: %w", err)
	}
	var mask uint64
	for part := range strings.SplitSeq(strings.TrimSpace(string(text)), ",") {
		from, to, isRange := strings.Cut(part, "-")
		if !isRange {
			to = from
		}
		a, err1 := strconv.Atoi(from)
		z, err2 := strconv.Atoi(to)
		if err1 != nil || err2 != nil || a < 0 || z > 63 {
			return 0, fmt.Errorf("read memory nodes: %q", text)
		}
		for n := a; n <= z; n++ {
			mask |= 1 << n
		}
	}
	return mask, nil
}
