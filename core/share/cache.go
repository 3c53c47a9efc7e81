package share

import (
	"fmt"
	"math/bits"
	"time"

	"github.com/homenode/homenode/core/workload"
)

// CacheID names the group of resctrl that batch work has where workloads are named: in
// steps, the journal, and undo.
const CacheID workload.ID = "resctrl"

// CacheGroup is the name of that group, below /sys/fs/resctrl.
const CacheGroup = "homenode-batch"

// CacheLimit is how much of the last-level caches, and of what its cores may ask of memory, batch
// work has: percent; 0 limits nothing.
type CacheLimit struct {
	Cache     int `json:"cache,omitempty"`
	Bandwidth int `json:"bandwidth,omitempty"`
}

// None reports whether nothing is limited.
func (l CacheLimit) None() bool { return l == CacheLimit{} }

// String is the limit as a step has it: "cache=30% bandwidth=0%".
func (l CacheLimit) String() string { return fmt.Sprintf(cacheLimit, l.Cache, l.Bandwidth) }

const cacheLimit = "cache=%d%% bandwidth=%d%%"

// ParseCacheLimit reads what String wrote.
func ParseCacheLimit(text string) (l CacheLimit, err error) {
	_, err = fmt.Sscanf(text, cacheLimit, &l.Cache, &l.Bandwidth)
	if err != nil || l.String() != text || l.Cache < 0 || l.Cache > 100 || l.Bandwidth < 0 || l.Bandwidth > 100 {
		return CacheLimit{}, fmt.Errorf("%q is no limit of caches; want %q", text, CacheLimit{Cache: 30})
	}
	return l, nil
}

const (
	leastCache, leastBandwidth = 5, 10 // percent that are left in any case
	cacheStep                  = 5     // percent that are given back in a round, at most
)

// CacheState is what batch work has now, and since when.
type CacheState struct {
	At   time.Time  `json:"at,omitzero"` // of the newest round
	Now  CacheLimit `json:"now,omitzero"`
	Hurt bool       `json:"hurt,omitempty"`
}

// Next is the limit after another look, rounds of SampleEvery: half of it is taken at once, and in
// each round again, while somebody important is hurt; else 5 points are given back in a round, up to
// most. (The shape of openEuler rubik's dynCache.) Where adapts is false the limit is most.
func (s CacheState) Next(at time.Time, most CacheLimit, hurt, adapts bool) CacheState {
	now := CacheState{At: at, Now: most, Hurt: hurt}
	if !adapts || (s.At.IsZero() && !hurt) {
		return now
	}
	begins := s.At
	if s.At.IsZero() {
		s.Now = most
	}
	due := begins.IsZero() || Due(at, begins)
	part := func(was, most, least int) int {
		if was == 0 { // it was not limited
			was = most
		}
		switch {
		case hurt && (due || !s.Hurt):
			was = max(was/2, least)
		case !hurt && due:
			was += cacheStep
		}
		return min(was, most)
	}
	now.Now = CacheLimit{part(s.Now.Cache, most.Cache, leastCache), part(s.Now.Bandwidth, most.Bandwidth, leastBandwidth)}
	if !due && hurt == s.Hurt {
		now.At = begins
	}
	return now
}

// CacheMask is the ways of a cache that a part of it is, in percent: contiguous, on the low side of
// all (info/L3/cbm_mask), off those that devices fill too (shareable_bits) as far as there are
// others, and at least so many (min_cbm_bits). 0 where there is no such mask.
func CacheMask(all, shared uint64, least, percent int) uint64 {
	if all == 0 || least < 0 {
		return 0
	}
	from := bits.TrailingZeros64(all)
	run := bits.TrailingZeros64(^(all >> from))
	ways := max(1, least, bits.OnesCount64(all)*percent/100)
	if ways > run {
		return 0
	}
	mask := ^uint64(0) >> (64 - ways)
	for at := from; at+ways <= from+run; at++ {
		if mask<<at&shared == 0 {
			return mask << at
		}
	}
	return mask << from
}

// CacheThrottle is a part of the memory bandwidth as resctrl takes it: percent in steps
// (bandwidth_gran), rounded up as the kernel does it, at least least (min_bandwidth), 100 at most.
func CacheThrottle(least, step, percent int) int {
	step = max(1, step)
	v := max(percent, least, 1)
	return min(100, (v+step-1)/step*step)
}
