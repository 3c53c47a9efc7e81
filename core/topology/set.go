package topology

import (
	"errors"
	"fmt"
	"iter"
	"math/bits"
	"slices"
	"strconv"
	"strings"

	"github.com/homenode/homenode/core/topology/strict"
)

// MaxID bounds the IDs a Set holds, so that a hostile list ("0-4000000000")
// cannot make the parser allocate without end. The kernel's own limits are
// 8,192 CPUs (NR_CPUS) and 1,024 nodes (MAX_NUMNODES).
const MaxID = 1<<16 - 1

// Set is a set of small non-negative IDs: a CPU set or a node set. The zero
// value is the empty set. Methods that return a Set never share storage with
// their receiver; only Add and Remove change it.
type Set[T ~int] struct{ words []uint64 }

// CPUSet is a set of logical CPUs, written in the list format of cpuset(7).
type CPUSet = Set[CPUID]

// NodeSet is a set of NUMA nodes, written in the list format of cpuset(7).
type NodeSet = Set[NodeID]

// SetOf returns the set of the given IDs.
func SetOf[T ~int](ids ...T) Set[T] {
	var s Set[T]
	for _, id := range ids {
		s.Add(id)
	}
	return s
}

// CPUs returns the CPU set of the given IDs.
func CPUs(ids ...CPUID) CPUSet { return SetOf(ids...) }

// Nodes returns the node set of the given IDs.
func Nodes(ids ...NodeID) NodeSet { return SetOf(ids...) }

// Add puts id in the set. It panics on an ID outside 0 to MaxID: parsers check before.
func (s *Set[T]) Add(id T) {
	if id < 0 || int(id) > MaxID {
		panic(fmt.Sprintf("topology: ID %d outside 0 to %d", int(id), MaxID))
	}
	w := int(id) / 64
	if w >= len(s.words) {
		grown := make([]uint64, w+1)
		copy(grown, s.words)
		s.words = grown
	}
	s.words[w] |= 1 << (uint(id) % 64)
}

// Remove takes id out of the set.
func (s *Set[T]) Remove(id T) {
	if w := int(id) / 64; id >= 0 && w < len(s.words) {
		s.words[w] &^= 1 << (uint(id) % 64)
	}
}

// Has reports whether id is in the set.
func (s Set[T]) Has(id T) bool {
	w := int(id) / 64
	return id >= 0 && w < len(s.words) && s.words[w]&(1<<(uint(id)%64)) != 0
}

// Len is the number of IDs in the set.
func (s Set[T]) Len() int {
	n := 0
	for _, w := range s.words {
		n += bits.OnesCount64(w)
	}
	return n
}

// Empty reports whether the set has no ID.
func (s Set[T]) Empty() bool {
	for _, w := range s.words {
		if w != 0 {
			return false
		}
	}
	return true
}

// Min is the lowest ID, or -1 for the empty set.
func (s Set[T]) Min() T {
	for i, w := range s.words {
		if w != 0 {
			return T(i*64 + bits.TrailingZeros64(w))
		}
	}
	return -1
}

// Max is the highest ID, or -1 for the empty set.
func (s Set[T]) Max() T {
	for i := len(s.words) - 1; i >= 0; i-- {
		if w := s.words[i]; w != 0 {
			return T(i*64 + 63 - bits.LeadingZeros64(w))
		}
	}
	return -1
}

// All yields the IDs in rising order.
func (s Set[T]) All() iter.Seq[T] {
	return func(yield func(T) bool) {
		for i, w := range s.words {
			for ; w != 0; w &= w - 1 {
				if !yield(T(i*64 + bits.TrailingZeros64(w))) {
					return
				}
			}
		}
	}
}

// Slice is the IDs in rising order.
func (s Set[T]) Slice() []T {
	ids := make([]T, 0, s.Len())
	for id := range s.All() {
		ids = append(ids, id)
	}
	return ids
}

// Clone returns a copy that shares nothing with s.
func (s Set[T]) Clone() Set[T] { return Set[T]{append([]uint64(nil), s.words...)} }

// Union is the IDs in s or in t.
func (s Set[T]) Union(t Set[T]) Set[T] {
	long, short := s.words, t.words
	if len(long) < len(short) {
		long, short = short, long
	}
	out := append([]uint64(nil), long...)
	for i, w := range short {
		out[i] |= w
	}
	return Set[T]{out}
}

// Intersect is the IDs in both s and t.
func (s Set[T]) Intersect(t Set[T]) Set[T] {
	n := min(len(s.words), len(t.words))
	out := make([]uint64, n)
	for i := range n {
		out[i] = s.words[i] & t.words[i]
	}
	return Set[T]{out}
}

// Minus is the IDs in s that are not in t.
func (s Set[T]) Minus(t Set[T]) Set[T] {
	out := append([]uint64(nil), s.words...)
	for i := range min(len(out), len(t.words)) {
		out[i] &^= t.words[i]
	}
	return Set[T]{out}
}

// Overlap is the number of IDs in both s and t; it allocates nothing.
func (s Set[T]) Overlap(t Set[T]) int {
	n := 0
	for i := range min(len(s.words), len(t.words)) {
		n += bits.OnesCount64(s.words[i] & t.words[i])
	}
	return n
}

// Intersects reports whether s and t share an ID.
func (s Set[T]) Intersects(t Set[T]) bool {
	for i := range min(len(s.words), len(t.words)) {
		if s.words[i]&t.words[i] != 0 {
			return true
		}
	}
	return false
}

// SubsetOf reports whether every ID of s is in t.
func (s Set[T]) SubsetOf(t Set[T]) bool {
	for i, w := range s.words {
		if i < len(t.words) {
			w &^= t.words[i]
		}
		if w != 0 {
			return false
		}
	}
	return true
}

// Equal reports whether s and t hold the same IDs.
func (s Set[T]) Equal(t Set[T]) bool {
	if len(s.words) > 0 && len(s.words) == len(t.words) && &s.words[0] == &t.words[0] {
		return true
	}
	n := min(len(s.words), len(t.words))
	set := func(w uint64) bool { return w != 0 }
	return slices.Equal(s.words[:n], t.words[:n]) &&
		!slices.ContainsFunc(s.words[n:], set) && !slices.ContainsFunc(t.words[n:], set)
}

// String is the set in the kernel's list format, "0-3,8"; "" when empty.
func (s Set[T]) String() string {
	var b []byte
	for first := s.next(0, 0); first < 64*len(s.words); {
		end := s.next(first, ^uint64(0))
		if len(b) > 0 {
			b = append(b, ',')
		}
		b = strconv.AppendInt(b, int64(first), 10)
		if end > first+1 {
			b = append(b, '-')
			b = strconv.AppendInt(b, int64(end-1), 10)
		}
		first = s.next(end, 0)
	}
	return string(b)
}

// next is the first ID from one on that is in the set, or with all bits flipped the first
// that is not; when there is none, the number of bits.
func (s Set[T]) next(from int, flip uint64) int {
	for i := from / 64; i < len(s.words); i++ {
		w := s.words[i] ^ flip
		if i == from/64 {
			w &= ^uint64(0) << (from % 64)
		}
		if w != 0 {
			return i*64 + bits.TrailingZeros64(w)
		}
	}
	return 64 * len(s.words)
}

// MarshalText writes the list format.
func (s Set[T]) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// UnmarshalText reads the list format.
func (s *Set[T]) UnmarshalText(text []byte) error {
	p, err := ParseSet[T](string(text))
	if err == nil {
		*s = p
	}
	return err
}

// ParseSet reads the kernel's list format (cpuset(7), "List format"):
// "0-3,8", also with strides as in "0-31:2/4". Surrounding white space and
// the empty list are allowed; everything else is an error that names the part.
func ParseSet[T ~int](list string) (Set[T], error) {
	var s Set[T]
	list = strings.TrimSpace(list)
	if list == "" {
		return s, nil
	}
	for part := range strings.SplitSeq(list, ",") {
		lo, hi, used, group, err := parseRange(part)
		if err != nil {
			return Set[T]{}, fmt.Errorf("%q: %w", clip(list), err)
		}
		for base := lo; base <= hi; base += group {
			for id := base; id < base+used && id <= hi; id++ {
				s.Add(T(id))
			}
		}
	}
	return s, nil
}

// ParseCPUSet reads a CPU set in list format.
func ParseCPUSet(list string) (CPUSet, error) { return ParseSet[CPUID](list) }

// ParseNodeSet reads a node set in list format.
func ParseNodeSet(list string) (NodeSet, error) { return ParseSet[NodeID](list) }

func parseRange(part string) (lo, hi, used, group int, err error) {
	part, stride, strided := strings.Cut(strings.TrimSpace(part), ":")
	first, last, ranged := strings.Cut(part, "-")
	if lo, err = parseID(first); err != nil {
		return
	}
	hi = lo
	if ranged {
		if hi, err = parseID(last); err != nil {
			return
		}
	}
	if hi < lo {
		return 0, 0, 0, 0, fmt.Errorf("range runs backwards")
	}
	used, group = 1, 1
	if strided {
		u, g, ok := strings.Cut(stride, "/")
		if used, err = parseID(u); err != nil {
			return
		}
		if group, err = parseID(g); err != nil {
			return
		}
		if !ok || used < 1 || group < used {
			return 0, 0, 0, 0, fmt.Errorf("stride is not USED/GROUP with 1 ≤ USED ≤ GROUP")
		}
	}
	return
}

func parseID(s string) (int, error) {
	n, err := strconv.ParseUint(s, 10, 32)
	if err != nil {
		return 0, errors.New("want a list such as 0-3,8")
	}
	if n > MaxID {
		return 0, fmt.Errorf("ID %d is over %d", n, MaxID)
	}
	return int(n), nil
}

// clip keeps an error on one line whatever the input was.
func clip(s string) string { return strict.Clip(s) }
