package kernel

import (
	"slices"
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

//go:noescape
func readSSE2(p unsafe.Pointer, n uintptr)

//go:noescape
func storeSSE2(p unsafe.Pointer, n uintptr)

//go:noescape
func ntStoreSSE2(p unsafe.Pointer, n uintptr)

//go:noescape
func mix1SSE2(a, w unsafe.Pointer, n uintptr)

//go:noescape
func mix2SSE2(a, b, w unsafe.Pointer, n uintptr)

//go:noescape
func mix3SSE2(a, b, c, w unsafe.Pointer, n uintptr)

//go:noescape
func triadSSE2(w, a, b unsafe.Pointer, n uintptr)

//go:noescape
func ntTriadSSE2(w, a, b unsafe.Pointer, n uintptr)

func archStreams() []Stream {
	sets := Sets()
	return sets[len(sets)-1]
}

// Sets lists all sets of kernels that this CPU can run, plain Go first and the
// one that is used last, for tests and `make bench-probe`.
func Sets() [][]Stream {
	out := [][]Stream{Portable(), sse2Streams()}
	if cpu.X86.HasAVX2 && cpu.X86.HasFMA {
		avx2 := avx2Streams()
		out = append(out, avx2)
		if cpu.X86.HasAVX512F {
			out = append(out, avx512Streams(avx2))
		}
	}
	return out
}

func sse2Streams() []Stream {
	return []Stream{
		{"r", "sse2, a load a line", 1, 0, false, func(a, b, c, d unsafe.Pointer, n uintptr) { readSSE2(a, n) }},
		{"3:1", "sse2", 3, 1, false, func(a, b, c, d unsafe.Pointer, n uintptr) { mix3SSE2(a, b, c, d, n) }},
		{"2:1", "sse2", 2, 1, false, func(a, b, c, d unsafe.Pointer, n uintptr) { mix2SSE2(a, b, c, n) }},
		{"1:1", "sse2", 1, 1, false, func(a, b, c, d unsafe.Pointer, n uintptr) { mix1SSE2(a, b, n) }},
		{"w", "sse2", 0, 1, false, func(a, b, c, d unsafe.Pointer, n uintptr) { storeSSE2(a, n) }},
		{"nt", "sse2 movntdq", 0, 1, true, func(a, b, c, d unsafe.Pointer, n uintptr) { ntStoreSSE2(a, n) }},
		{"triad", "sse2", 2, 1, false, func(a, b, c, d unsafe.Pointer, n uintptr) { triadSSE2(c, a, b, n) }},
		{"nt-triad", "sse2, movntpd", 2, 1, true,
			func(a, b, c, d unsafe.Pointer, n uintptr) { ntTriadSSE2(c, a, b, n) }},
	}
}

func avx2Streams() []Stream {
	return []Stream{
		{"r", "avx2", 1, 0, false, func(a, b, c, d unsafe.Pointer, n uintptr) { readAVX2(a, n) }},
		{"3:1", "avx2", 3, 1, false, func(a, b, c, d unsafe.Pointer, n uintptr) { mix3AVX2(a, b, c, d, n) }},
		{"2:1", "avx2", 2, 1, false, func(a, b, c, d unsafe.Pointer, n uintptr) { mix2AVX2(a, b, c, n) }},
		{"1:1", "avx2", 1, 1, false, func(a, b, c, d unsafe.Pointer, n uintptr) { mix1AVX2(a, b, n) }},
		{"w", "avx2", 0, 1, false, func(a, b, c, d unsafe.Pointer, n uintptr) { storeAVX2(a, n) }},
		{"nt", "avx2 vmovntdq", 0, 1, true, func(a, b, c, d unsafe.Pointer, n uintptr) { ntStoreAVX2(a, n) }},
		{"triad", "avx2 fma", 2, 1, false, func(a, b, c, d unsafe.Pointer, n uintptr) { triadAVX2(c, a, b, n) }},
		{"nt-triad", "avx2 fma, vmovntpd", 2, 1, true,
			func(a, b, c, d unsafe.Pointer, n uintptr) { ntTriadAVX2(c, a, b, n) }},
	}
}

// avx512Streams has wider loads and non-temporal stores; the rest moves no more
// lines with them.
func avx512Streams(avx2 []Stream) []Stream {
	out := slices.Clone(avx2)
	for i, s := range out {
		switch s.Mix {
		case "r":
			out[i] = Stream{"r", "avx512", 1, 0, false, func(a, b, c, d unsafe.Pointer, n uintptr) { readAVX512(a, n) }}
		case "nt":
			out[i] = Stream{"nt", "avx512 vmovntdq", 0, 1, true,
				func(a, b, c, d unsafe.Pointer, n uintptr) { ntStoreAVX512(a, n) }}
		}
	}
	return out
}
