package kernel

import (
	"runtime"
	"unsafe"
)

// Line is the size of a cache line. Some machines have 128 bytes; links are
// then two to a line, and Ring's stride keeps them apart all the same.
const Line = 64

// unroll keeps the loop's own instructions below 1 in 30.
const unroll = 32

// Chase follows n links (rounded down to a multiple of 32) from p and returns
// where it ended. Each link is the address of the next.
//
//go:norace
//go:noinline
func Chase(p unsafe.Pointer, n int) unsafe.Pointer {
	for ; n >= unroll; n -= unroll {
		p = *(*unsafe.Pointer)(p)
		p = *(*unsafe.Pointer)(p)
		p = *(*unsafe.Pointer)(p)
		p = *(*unsafe.Pointer)(p)
		p = *(*unsafe.Pointer)(p)
		p = *(*unsafe.Pointer)(p)
		p = *(*unsafe.Pointer)(p)
		p = *(*unsafe.Pointer)(p)
		p = *(*unsafe.Pointer)(p)
		p = *(*unsafe.Pointer)(p)
		p = *(*unsafe.Pointer)(p)
		p = *(*unsafe.Pointer)(p)
		p = *(*unsafe.Pointer)(p)
		p = *(*unsafe.Pointer)(p)
		p = *(*unsafe.Pointer)(p)
		p = *(*unsafe.Pointer)(p)
		p = *(*unsafe.Pointer)(p)
		p = *(*unsafe.Pointer)(p)
		p = *(*unsafe.Pointer)(p)
		p = *(*unsafe.Pointer)(p)
		p = *(*unsafe.Pointer)(p)
		p = *(*unsafe.Pointer)(p)
		p = *(*unsafe.Pointer)(p)
		p = *(*unsafe.Pointer)(p)
		p = *(*unsafe.Pointer)(p)
		p = *(*unsafe.Pointer)(p)
		p = *(*unsafe.Pointer)(p)
		p = *(*unsafe.Pointer)(p)
		p = *(*unsafe.Pointer)(p)
		p = *(*unsafe.Pointer)(p)
		p = *(*unsafe.Pointer)(p)
		p = *(*unsafe.Pointer)(p)
	}
	return p
}

// Adds does n (rounded down to a multiple of 16) additions and exclusive ors of
// registers, each of which waits for the one before: one cycle each on all CPUs
// of amd64 and arm64, and none that a CPU could leave out as it can adding a
// constant. Its time tells the clock.
//
//go:noinline
func Adds(n int) {
	x, y := uint64(n), uint64(n)|5
	for ; n >= 16; n -= 16 {
		x += y
		x ^= y
		x += y
		x ^= y
		x += y
		x ^= y
		x += y
		x ^= y
		x += y
		x ^= y
		x += y
		x ^= y
		x += y
		x ^= y
		x += y
		x ^= y
	}
	runtime.KeepAlive(x)
}

// Spin burns about n × 4 cycles without touching memory.
//
//go:noinline
func Spin(n int) {
	x := uint64(n)
	for range n {
		x = x*6364136223846793005 + 1442695040888963407
	}
	runtime.KeepAlive(x)
}
