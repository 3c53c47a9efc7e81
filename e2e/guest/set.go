//go:build linux

package main

import (
	"fmt"
	"math/bits"
	"slices"
	"strconv"
	"strings"
)

// set is a set of CPUs or nodes below 64, which is enough for any guest here.
// The rig has its own, so that a fault in homenode's cannot hide itself.
type set uint64

func setOf(ids ...int) set {
	var s set
	for _, id := range ids {
		s |= 1 << id
	}
	return s
}

// parseSet reads the list format of cpuset(7).
func parseSet(text string) (set, error) {
	var s set
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

func (t *T) set(text string) set {
	s, err := parseSet(text)
	t.Do(err)
	return s
}

func (s set) has(id int) bool       { return s>>id&1 == 1 }
func (s set) within(other set) bool { return s&^other == 0 }
func (s set) size() int             { return bits.OnesCount64(uint64(s)) }

func (s set) ids() []int {
	var r []int
	for i := range 64 {
		if s.has(i) {
			r = append(r, i)
		}
	}
	return r
}

func (s set) String() string {
	var parts []string
	for i := 0; i < 64; i++ {
		if !s.has(i) {
			continue
		}
		z := i
		for z < 63 && s.has(z+1) {
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

func setKeys(m map[set]bool) []string {
	var r []string
	for s := range m {
		r = append(r, s.String())
	}
	slices.Sort(r)
	return r
}
