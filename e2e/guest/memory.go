//go:build linux

package main

import (
	"fmt"
	"runtime"
	"syscall"
	"unsafe"
)

const (
	pageSize = 4096

	mpolDefault     = 0
	mpolPreferred   = 1
	mpolBind        = 2
	mpolInterleave  = 3
	mpolStaticNodes = 1 << 15
	mpolMFMove      = 2 // MPOL_MF_MOVE
)

// pages is anonymous memory of the test process itself.
type pages struct{ b []byte }

func (t *T) mapPages(mib int) pages {
	b, err := syscall.Mmap(-1, 0, mib<<20, syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_PRIVATE|syscall.MAP_ANON)
	if err != nil {
		t.Fatalf("map %d MiB: %v", mib, err)
	}
	t.Do(syscall.Madvise(b, 15)) // MADV_NOHUGEPAGE: the tests count pages
	t.Defer(func() { syscall.Munmap(b) })
	return pages{b}
}

func (p pages) count() int { return len(p.b) / pageSize }

func (p pages) touch() {
	for i := 0; i < len(p.b); i += pageSize {
		p.b[i]++
	}
}

func (p pages) bind(mode int, nodes set) error {
	mask := uint64(nodes)
	var ptr, bits uintptr
	if nodes != 0 {
		ptr, bits = uintptr(unsafe.Pointer(&mask)), 65
	}
	_, _, e := syscall.Syscall6(syscall.SYS_MBIND, uintptr(unsafe.Pointer(&p.b[0])), uintptr(len(p.b)), uintptr(mode), ptr, bits, 0)
	runtime.KeepAlive(&mask)
	if e != 0 {
		return fmt.Errorf("mbind mode %d nodes %s: %w", mode, nodes, e)
	}
	return nil
}

// place asks the kernel to move all pages to a node and returns the status of
// each; with node -1 it only asks where they are.
func (p pages) place(node int) ([]int32, error) {
	n := p.count()
	addr, status, want := make([]uintptr, n), make([]int32, n), make([]int32, n)
	for i := range addr {
		addr[i] = uintptr(unsafe.Pointer(&p.b[i*pageSize]))
		want[i] = int32(node)
	}
	var to uintptr
	if node >= 0 {
		to = uintptr(unsafe.Pointer(&want[0]))
	}
	_, _, e := syscall.Syscall6(syscall.SYS_MOVE_PAGES, 0, uintptr(n), uintptr(unsafe.Pointer(&addr[0])), to,
		uintptr(unsafe.Pointer(&status[0])), mpolMFMove)
	runtime.KeepAlive(want)
	if e != 0 {
		return status, fmt.Errorf("move_pages to node %d: %w", node, e)
	}
	return status, nil
}

// tally counts equal values.
func tally(status []int32) map[int32]int {
	r := map[int32]int{}
	for _, s := range status {
		r[s]++
	}
	return r
}

// migratePages moves all of a process's pages on some nodes to others.
func migratePages(pid int, from, to set) (left int, err error) {
	f, z := uint64(from), uint64(to)
	r, _, e := syscall.Syscall6(syscall.SYS_MIGRATE_PAGES, uintptr(pid), 65, uintptr(unsafe.Pointer(&f)), uintptr(unsafe.Pointer(&z)), 0, 0)
	if e != 0 {
		return 0, fmt.Errorf("migrate_pages of %d from %s to %s: %w", pid, from, to, e)
	}
	return int(r), nil
}
