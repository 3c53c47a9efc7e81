package kernel

import (
	"unsafe"

	"golang.org/x/sys/cpu"
)

//go:noescape
func readAVX2(p unsafe.Pointer, n uintptr)

//go:noescape
func readAVX512(p unsafe.Pointer, n uintptr)

//go:noescape
func storeAVX2(p unsafe.Pointer, n uintptr)

//go:noescape
func ntStoreAVX2(p unsafe.Pointer, n uintptr)

//go:noescape
func ntStoreAVX512(p unsafe.Pointer, n uintptr)

//go:noescape
func mix1AVX2(a, w unsafe.Pointer, n uintptr)

//go:noescape
func mix2AVX2(a, b, w unsafe.Pointer, n uintptr)

//go:noescape
func mix3AVX2(a, b, c, w unsafe.Pointer, n uintptr)

//go:noescape
func triadAVX2(w, a, b unsafe.Pointer, n uintptr)

//go:noescape
func ntTriadAVX2(w, a, b unsafe.Pointer, n uintptr)

// Reads lists all forms of reading that this CPU has, for `make bench-probe`.
func Reads() []Stream {
	out := []Stream{Portable()[0]}
	if cpu.X86.HasAVX2 {
		out = append(out, Stream{"r", "avx2", 1, 0, false, func(a, b, c, d unsafe.Pointer, n uintptr) { readAVX2(a, n) }})
	}
	if cpu.X86.HasAVX512F {
		out = append(out, Stream{"r", "avx512", 1, 0, false, func(a, b, c, d unsafe.Pointer, n uintptr) { readAVX512(a, n) }})
	}
	return out
}

func archStreams() []Stream {
	if !cpu.X86.HasAVX2 || !cpu.X86.HasFMA {
		return Portable()
	}
	read, readName := readAVX2, "avx2"
	nt, ntName := ntStoreAVX2, "avx2 vmovntdq"
	if cpu.X86.HasAVX512F {
		read, readName = readAVX512, "avx512"
		nt, ntName = ntStoreAVX512, "avx512 vmovntdq"
	}
	return []Stream{
		{"r", readName, 1, 0, false, func(a, b, c, d unsafe.Pointer, n uintptr) { read(a, n) }},
		{"3:1", "avx2", 3, 1, false, func(a, b, c, d unsafe.Pointer, n uintptr) { mix3AVX2(a, b, c, d, n) }},
		{"2:1", "avx2", 2, 1, false, func(a, b, c, d unsafe.Pointer, n uintptr) { mix2AVX2(a, b, c, n) }},
		{"1:1", "avx2", 1, 1, false, func(a, b, c, d unsafe.Pointer, n uintptr) { mix1AVX2(a, b, n) }},
		{"w", "avx2", 0, 1, false, func(a, b, c, d unsafe.Pointer, n uintptr) { storeAVX2(a, n) }},
		{"nt", ntName, 0, 1, true, func(a, b, c, d unsafe.Pointer, n uintptr) { nt(a, n) }},
		{"triad", "avx2 fma", 2, 1, false, func(a, b, c, d unsafe.Pointer, n uintptr) { triadAVX2(c, a, b, n) }},
		{"nt-triad", "avx2 fma, vmovntpd", 2, 1, true, func(a, b, c, d unsafe.Pointer, n uintptr) { ntTriadAVX2(c, a, b, n) }},
	}
}
