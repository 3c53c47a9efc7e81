package numa

import (
	"math/bits"

	"github.com/homenode/homenode/core/topology"
)

const wordBits = bits.UintSize

// maskOf is a set as the kernel takes it: an array of unsigned long.
func maskOf[T ~int](s topology.Set[T]) []uint {
	words := make([]uint, int(max(s.Max(), 0))/wordBits+1)
	for id := range s.All() {
		words[int(id)/wordBits] |= 1 << (uint(id) % wordBits)
	}
	return words
}

func setOf[T ~int](words []uint) topology.Set[T] {
	var s topology.Set[T]
	for i, w := range words {
		for ; w != 0; w &= w - 1 {
			s.Add(T(i*wordBits + bits.TrailingZeros(w)))
		}
	}
	return s
}
