package suite

// PageSize and LinesPerPage fix what a walk touches: one word in each of four
// cache lines a page, read and then written.
const (
	PageSize     = 4096
	LinesPerPage = 4
)

// Slots is how many walkers the counting plugin keeps apart.
const Slots = 16

// Base is the address of the buffer of the walker in a slot. The plugin
// (numacount.c) takes the slot back out of it, so no other mapping of any
// process may lie at 64 to 80 TiB: Go 1.26 puts its heap at random below 64 TiB
// (runtime/malloc.go, randHeapBase), mmap chooses near 128 TiB.
func Base(slot int) uint64 { return uint64(0x40+slot) << 40 }

// HotPart is how small a part of a buffer is the hot one, which walkers with --hot visit more
// often: a 32nd.
const HotPart = 32

// LoadsPerPass is the number of loads, and of stores, in one walk over mib MiB.
func LoadsPerPass(mib int) int { return mib << 20 / PageSize * LinesPerPage }
