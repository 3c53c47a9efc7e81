package kernel

import (
	"runtime"
	"unsafe"
)

// stepBytes is what one step reads or writes of each stream: some tens of
// microseconds, so that a thread can be stopped and its clock read.
const stepBytes = 64 << 10

// Stream is a bandwidth kernel. Its buffer is cut into Reads + Writes streams.
type Stream struct {
	Mix           string // r, 3:1, 2:1, 1:1, w, nt, triad, nt-triad
	Name          string // instructions: avx2, avx512, ldp, go
	Reads, Writes int
	NT            bool // its stores fetch no line before
	run           func(a, b, c, d unsafe.Pointer, n uintptr)
}

// Streams lists the kernels of this CPU, one a mix, best first choice of
// instructions.
func Streams() []Stream { return archStreams() }

// StreamFor is the kernel of a mix.
func StreamFor(mix string) (Stream, bool) {
	for _, s := range Streams() {
		if s.Mix == mix {
			return s, true
		}
	}
	return Stream{}, false
}

// Portable lists the kernels in plain Go. There are no non-temporal stores in Go.
func Portable() []Stream {
	return []Stream{
		{"r", "go, one word a line", 1, 0, false, func(a, b, c, d unsafe.Pointer, n uintptr) { goRead(a, n) }},
		{"3:1", "go", 3, 1, false, func(a, b, c, d unsafe.Pointer, n uintptr) { goMix3(a, b, c, d, n) }},
		{"2:1", "go", 2, 1, false, func(a, b, c, d unsafe.Pointer, n uintptr) { goMix2(a, b, c, n) }},
		{"1:1", "go", 1, 1, false, func(a, b, c, d unsafe.Pointer, n uintptr) { goMix1(a, b, n) }},
		{"w", "go", 0, 1, false, func(a, b, c, d unsafe.Pointer, n uintptr) { goStore(a, n) }},
		{"triad", "go", 2, 1, false, func(a, b, c, d unsafe.Pointer, n uintptr) { goTriad(c, a, b, n) }},
	}
}

// Steps is how many steps a pass over a buffer of n bytes takes.
func (s Stream) Steps(n int) int { return n / (s.Reads + s.Writes) / stepBytes }

// Step does one step of a pass over buf, whose address must be a multiple of 64.
func (s Stream) Step(buf []byte, step int) { s.burst(buf, step*stepBytes, stepBytes) }

// burstBytes is what a burst reads or writes of each stream.
const burstBytes = 4 << 10

// Bursts is how many bursts, of a sixteenth of a step, a pass over n bytes takes.
func (s Stream) Bursts(n int) int { return s.Steps(n) * (stepBytes / burstBytes) }

// Burst does a small part of a pass, for load with pauses in between.
func (s Stream) Burst(buf []byte, i int) { s.burst(buf, i*burstBytes, burstBytes) }

// BurstTraffic is the bytes that a burst moves.
func (s Stream) BurstTraffic() int { return s.Traffic() / (stepBytes / burstBytes) }

func (s Stream) burst(buf []byte, off int, n uintptr) {
	streams := s.Reads + s.Writes
	part := len(buf) / streams / stepBytes * stepBytes
	var at [4]unsafe.Pointer
	for i := range streams {
		at[i] = unsafe.Pointer(&buf[i*part+off])
	}
	s.run(at[0], at[1], at[2], at[3], n)
}

// Program is the bytes that a step loads and stores.
func (s Stream) Program() int { return (s.Reads + s.Writes) * stepBytes }

// Traffic is the bytes that a step moves to and from memory: an ordinary store
// first reads the line it writes to.
func (s Stream) Traffic() int {
	if s.NT {
		return s.Program()
	}
	return s.Program() + s.Writes*stepBytes
}

// goRead reads one word of each line, in the order of addresses: prefetchers
// follow a stream, and lose it when its lines come by turns from two places. The
// more lines a turn of the loop has, the more of them are under way.
//
//go:norace
//go:noinline
func goRead(p unsafe.Pointer, n uintptr) {
	var a, b, c, d uint64
	for i := uintptr(0); i < n; i += 1024 {
		w := (*[128]uint64)(unsafe.Add(p, i))
		a += w[0]
		b += w[8]
		c += w[16]
		d += w[24]
		a += w[32]
		b += w[40]
		c += w[48]
		d += w[56]
		a += w[64]
		b += w[72]
		c += w[80]
		d += w[88]
		a += w[96]
		b += w[104]
		c += w[112]
		d += w[120]
	}
	runtime.KeepAlive(a + b + c + d) // keeps the loads
}

// fill stores x in each word of a line; the compiler inlines it.
//
//go:norace
func fill(w *[8]uint64, x uint64) {
	w[0] = x
	w[1] = x
	w[2] = x
	w[3] = x
	w[4] = x
	w[5] = x
	w[6] = x
	w[7] = x
}

//go:norace
//go:noinline
func goStore(p unsafe.Pointer, n uintptr) {
	w := unsafe.Slice((*uint64)(p), n/8)
	for v := uint64(n); len(w) >= 8; w = w[8:] {
		fill((*[8]uint64)(w), v)
	}
}

//go:norace
//go:noinline
func goMix1(a, to unsafe.Pointer, n uintptr) {
	for i := uintptr(0); i < n; i += Line {
		x := *(*uint64)(unsafe.Add(a, i))
		fill((*[8]uint64)(unsafe.Add(to, i)), x)
	}
}

//go:norace
//go:noinline
func goMix2(a, b, to unsafe.Pointer, n uintptr) {
	for i := uintptr(0); i < n; i += Line {
		x := *(*uint64)(unsafe.Add(a, i)) + *(*uint64)(unsafe.Add(b, i))
		fill((*[8]uint64)(unsafe.Add(to, i)), x)
	}
}

//go:norace
//go:noinline
func goMix3(a, b, c, to unsafe.Pointer, n uintptr) {
	for i := uintptr(0); i < n; i += Line {
		x := *(*uint64)(unsafe.Add(a, i)) + *(*uint64)(unsafe.Add(b, i)) + *(*uint64)(unsafe.Add(c, i))
		fill((*[8]uint64)(unsafe.Add(to, i)), x)
	}
}

//go:norace
//go:noinline
func goTriad(to, b, c unsafe.Pointer, n uintptr) {
	x := unsafe.Slice((*float64)(to), n/8)
	y := unsafe.Slice((*float64)(b), n/8)
	z := unsafe.Slice((*float64)(c), n/8)
	for i := range x {
		x[i] = y[i] + 3*z[i]
	}
}
