//go:build linux

package share

import (
	"bytes"
	"encoding/binary"
	"syscall"
	"unsafe"

	"github.com/homenode/homenode/e2e/suite"
)

// Whose work it is, by the address of the code: the plugin overlap.c goes by it.
const (
	workBatch = iota
	workStrict
)

// turn is how many instructions a turn of work has.
const turn = 32

// mapWork puts the code of a class of work where the plugin looks for it, and returns its
// address. The code counts CX down. In each turn it reads the byte of its CPU, of those from
// there on in its page: the number is in the limit of a segment (arch/x86/include/asm/segment.h,
// vdso_read_cpunode).
func mapWork(whose int) (uintptr, error) {
	const there = 2048
	code := []byte{0xba, 0x7b, 0, 0, 0} // mov edx, __CPUNODE_SEG
	code = append(code,
		0x0f, 0x03, 0xd2, // lsl edx, edx
		0x81, 0xe2, 0xff, 0x0f, 0, 0, // and edx, VDSO_CPUNODE_MASK
		0x48, 0x8d, 0x35) // lea rsi, [rip + …
	code = binary.LittleEndian.AppendUint32(code, uint32(there-len(code)-4))
	code = append(code, 0x8a, 0x04, 0x16)                                  // mov al, [rsi + rdx]
	code = append(code, bytes.Repeat([]byte{0x48, 0xff, 0xc0}, turn-7)...) // inc rax
	code = append(code, 0x48, 0xff, 0xc9)                                  // dec rcx
	code = append(code, 0x75, byte(-(len(code)+2)&0xff), 0xc3)             // jnz to the first; ret
	at := uintptr(suite.Base(whose))
	got, _, e := syscall.Syscall6(syscall.SYS_MMAP, at, suite.PageSize,
		syscall.PROT_READ|syscall.PROT_WRITE|syscall.PROT_EXEC,
		syscall.MAP_PRIVATE|syscall.MAP_ANONYMOUS|mapFixed, ^uintptr(0), 0)
	if e != 0 {
		return 0, e
	}
	copy(unsafe.Slice((*byte)(*(*unsafe.Pointer)(unsafe.Pointer(&got))), len(code)), code)
	return got, nil
}

const mapFixed = 0x100000 // MAP_FIXED_NOREPLACE

// turns runs the code that mapWork mapped, n turns of it, n at least 1.
func turns(code, n uintptr)
