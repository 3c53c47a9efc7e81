//go:build linux

package lab

import (
	"fmt"
	"math/bits"
	"slices"
	"strconv"
	"strings"
)

// Set is a set of CPUs or nodes below 64, which is enough for any guest here.
// The rig has its own, so that a fault in homenode's cannot hide itself.
type Set uint64

// SetOf returns the set of these IDs.
func SetOf(ids ...int) Set {
	var s Set
	for _, id := range ids {
		s |= 1 << id
	}
	return s
}

// ParseSet reads the list format of cpuset(7).
func ParseSet(text string) (Set, error) {
	var s Set
	text = strings.TrimSpace(text)
	if text == "" {
		return 0, nil
	}
	for part := range strings.SplitSeq(text, ",") {
		from, to, isRange := strings.Cut(part, "-")
		if !isRange {
			to = from
		}
		a, err1 := strconv.Atoi(from)
		z, err2 := strconv.Atoi(to)
		if err1 != nil || err2 != nil || a < 0 || z > 63 || a > z {
			return 0, fmt.Errorf("parse set %q", text)
		}
		for i := a; i <= z; i++ {
			s |= 1 << i
		}
	}
	return s, nil
}

// Set parses a CPU set or node set; the test fails if it is none.
func (t *T) Set(text string) Set {
	s, err := ParseSet(text)
	t.Do(err)
	return s
}

// Has reports whether an ID is in the set.
func (s Set) Has(id int) bool { return s>>id&1 == 1 }

// Within reports whether all of the set is in the other.
func (s Set) Within(other Set) bool { return s&^other == 0 }

// Size returns the number of IDs.
func (s Set) Size() int { return bits.OnesCount64(uint64(s)) }

// IDs returns the IDs in ascending order.
func (s Set) IDs() []int {
	var r []int
	for i := range 64 {
		if s.Has(i) {
			r = append(r, i)
		}
	}
	return r
}

// String writes the list format of cpuset(7).
func (s Set) String() string {
	var parts []string
	for i := 0; i < 64; i++ {
		if !s.Has(i) {
			continue
		}
		z := i
		for z < 63 && s.Has(z+1) {
			z++
		}
		if z > i {
			parts = append(parts, fmt.Sprintf("%d-%d", i, z))
		} else {
			parts = append(parts, strconv.Itoa(i))
		}
		i = z
	}
	return strings.Join(parts, ",")
}

// SetKeys returns the sets of a map as sorted text.
func SetKeys(m map[Set]bool) []string {
	var r []string
	for s := range m {
		r = append(r, s.String())
	}
	slices.Sort(r)
	return r
}
