//go:build linux

package lab

import (
	"fmt"
	"runtime"
	"syscall"
	"unsafe"
)

// Constants of linux/mempolicy.h, and the size of a page.
const (
	PageSize = 4096

	MpolDefault     = 0
	MpolPreferred   = 1
	MpolBind        = 2
	mpolInterleave  = 3
	mpolStaticNodes = 1 << 15
	mpolMFMove      = 2 // MPOL_MF_MOVE
)

// Pages is anonymous memory of the test process itself.
type Pages struct{ Bytes []byte }

// MapPages maps anonymous memory until the test ends; no page of it is there yet.
func (t *T) MapPages(mib int) Pages {
	b, err := syscall.Mmap(-1, 0, mib<<20, syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_PRIVATE|syscall.MAP_ANON)
	if err != nil {
		t.Fatalf("map %d MiB: %v", mib, err)
	}
	t.Do(syscall.Madvise(b, 15)) // MADV_NOHUGEPAGE: the tests count pages
	t.Defer(func() { syscall.Munmap(b) })
	return Pages{b}
}

// Count returns the number of pages.
func (p Pages) Count() int { return len(p.Bytes) / PageSize }

// Touch writes to every page.
func (p Pages) Touch() {
	for i := 0; i < len(p.Bytes); i += PageSize {
		p.Bytes[i]++
	}
}

// Bind sets the memory policy of the pages.
func (p Pages) Bind(mode int, nodes Set) error {
	mask := uint64(nodes)
	var ptr, bits uintptr
	if nodes != 0 {
		ptr, bits = uintptr(unsafe.Pointer(&mask)), 65
	}
	_, _, e := syscall.Syscall6(syscall.SYS_MBIND, uintptr(unsafe.Pointer(&p.Bytes[0])), uintptr(len(p.Bytes)),
		uintptr(mode), ptr, bits, 0)
	runtime.KeepAlive(&mask)
	if e != 0 {
		return fmt.Errorf("mbind mode %d nodes %s: %w", mode, nodes, e)
	}
	return nil
}

// Place asks the kernel to move all pages to a node and returns the status of
// each; with node -1 it only asks where they are.
func (p Pages) Place(node int) ([]int32, error) {
	n := p.Count()
	addr := make([]uintptr, n)
	status := make([]int32, n)
	want := make([]int32, n)
	for i := range addr {
		addr[i] = uintptr(unsafe.Pointer(&p.Bytes[i*PageSize]))
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

// Tally counts equal values.
func Tally(status []int32) map[int32]int {
	r := map[int32]int{}
	for _, s := range status {
		r[s]++
	}
	return r
}

// MigratePages moves all of a process's pages on some nodes to others.
func MigratePages(pid int, from, to Set) (left int, err error) {
	f, z := uint64(from), uint64(to)
	r, _, e := syscall.Syscall6(syscall.SYS_MIGRATE_PAGES, uintptr(pid), 65, uintptr(unsafe.Pointer(&f)),
		uintptr(unsafe.Pointer(&z)), 0, 0)
	if e != 0 {
		return 0, fmt.Errorf("migrate_pages of %d from %s to %s: %w", pid, from, to, e)
	}
	return int(r), nil
}
