package kernel

import "unsafe"

//go:noescape
func readLDP(p unsafe.Pointer, n uintptr)

//go:noescape
func storeSTP(p unsafe.Pointer, n uintptr)

//go:noescape
func ntStoreSTNP(p unsafe.Pointer, n uintptr)

//go:noescape
func mix1LDP(a, w unsafe.Pointer, n uintptr)

//go:noescape
func mix2LDP(a, b, w unsafe.Pointer, n uintptr)

//go:noescape
func mix3LDP(a, b, c, w unsafe.Pointer, n uintptr)

//go:noescape
func triadLDP(w, a, b unsafe.Pointer, n uintptr)

// Sets is plain Go and what every arm64 CPU has.
func Sets() [][]Stream { return [][]Stream{Portable(), archStreams()} }

// STNP is a hint: cores are free to treat it as STP, so what its traffic is
// depends on the core. It is counted as if the hint were taken.
func archStreams() []Stream {
	return []Stream{
		{"r", "ldp", 1, 0, false, func(a, b, c, d unsafe.Pointer, n uintptr) { readLDP(a, n) }},
		{"3:1", "ldp, stp", 3, 1, false, func(a, b, c, d unsafe.Pointer, n uintptr) { mix3LDP(a, b, c, d, n) }},
		{"2:1", "ldp, stp", 2, 1, false, func(a, b, c, d unsafe.Pointer, n uintptr) { mix2LDP(a, b, c, n) }},
		{"1:1", "ldp, stp", 1, 1, false, func(a, b, c, d unsafe.Pointer, n uintptr) { mix1LDP(a, b, n) }},
		{"w", "stp", 0, 1, false, func(a, b, c, d unsafe.Pointer, n uintptr) { storeSTP(a, n) }},
		{"nt", "stnp", 0, 1, true, func(a, b, c, d unsafe.Pointer, n uintptr) { ntStoreSTNP(a, n) }},
		{"triad", "ldp, fmla, stp", 2, 1, false, func(a, b, c, d unsafe.Pointer, n uintptr) { triadLDP(c, a, b, n) }},
	}
}
