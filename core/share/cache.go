package share

import (
	"fmt"
	"math"
	"math/bits"
	"time"

	"github.com/homenode/homenode/core/workload"
)

// CacheID is the workload ID of batch work's resctrl group in steps, the journal, and undo.
const CacheID workload.ID = "resctrl"

// CacheGroup is the name of that group, below /sys/fs/resctrl.
const CacheGroup = "homenode-batch"

// CacheLimit is batch work's part of the last-level caches, and its cores' part of memory
// bandwidth, in percent; 0 is no limit.
type CacheLimit struct {
	Cache     int `json:"cache,omitempty"`
	Bandwidth int `json:"bandwidth,omitempty"`
}

// None reports whether there is no limit.
func (l CacheLimit) None() bool { return l == CacheLimit{} }

// String returns the limit as steps have it: "cache=30% bandwidth=0%".
func (l CacheLimit) String() string { return fmt.Sprintf(cacheLimit, l.Cache, l.Bandwidth) }

const cacheLimit = "cache=%d%% bandwidth=%d%%"

// ParseCacheLimit parses the format of String.
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

// CacheState is batch work's current limit, and the time of its last change.
type CacheState struct {
	At   time.Time  `json:"at,omitzero"` // of the newest round
	Now  CacheLimit `json:"now,omitzero"`
	Hurt bool       `json:"hurt,omitempty"`
}

// Next returns the limit after another scan. It halves the limit at once, and again every
// SampleEvery, while an important workload is hurt; otherwise it adds 5 points every SampleEvery,
// up to most. (openEuler rubik's dynCache works this way.) If adapts is false, the limit is most.
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
	now.Now = CacheLimit{part(s.Now.Cache, most.Cache, leastCache),
		part(s.Now.Bandwidth, most.Bandwidth, leastBandwidth)}
	if !due && hurt == s.Hurt {
		now.At = begins
	}
	return now
}

// CacheMask returns the mask for a percentage of a cache's ways: contiguous, on the low side of all
// (info/L3/cbm_mask), without the ways that devices fill (shareable_bits) if there are others, and
// with at least min_cbm_bits ways. It returns 0 if there is no such mask.
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

// CacheThrottle rounds a percentage of memory bandwidth for resctrl: to steps of bandwidth_gran,
// upwards as the kernel does, from least (min_bandwidth) to 100.
func CacheThrottle(least, step, percent int) int {
	step = max(1, step)
	v := max(percent, least, 1)
	return min(100, (v+step-1)/step*step)
}

// mebibyte is a MiB in bytes. eighth is the unit of AMD's processors: the kernel's documentation (resctrl.rst,
// "Reading/writing the schemata file (on AMD systems)") and AMD's write 1/8 GB/s, not GiB/s. If they mean GiB/s after
// all, batch work has 7 % more than was asked for.
const mebibyte, eighth = 1 << 20, 1_000_000_000 / 8

// CacheMebibytes returns a percentage, 0 to 100, of a bandwidth in MiB/s: the unit of resctrl mounted with mba_MBps
// (resctrl.rst). It is at least 1.
func CacheMebibytes(whole int64, percent int) uint64 { return partIn(mebibyte, whole, percent) }

// CacheEighths returns a percentage, 0 to 100, of a bandwidth in MiB/s, in units of 1/8 GB/s. It is at least 1.
func CacheEighths(whole int64, percent int) uint64 { return partIn(eighth, whole, percent) }

// partIn rounds to the nearest whole unit. No product is over 100 PiB, which is below 2^57.
func partIn(unit, whole int64, percent int) uint64 {
	bytes := min(max(whole, 0), mostBandwidth) * mebibyte * int64(min(max(percent, 0), 100))
	return uint64(max(1, (bytes+unit*50)/(unit*100)))
}

// CacheNoLimit is more than any bandwidth that resctrl takes, and what a new group has with mba_MBps (MBA_MAX_MBPS).
const CacheNoLimit = math.MaxUint32

// CacheRound rounds a value of bandwidth to what resctrl takes: up to steps of bandwidth_gran, at least min_bandwidth
// and 1, but no higher than the highest step within most, which is what the default group has. That is at most the
// processor's maximum, which no file shows, and batch work would have no more if there were no group.
//
// With mba_MBps too the steps must be kept: before Linux 6.12 the kernel rounds these values up as if they were
// percentages, and CacheNoLimit itself becomes 4 MiB/s (commit 2b5648416e47, "Avoid overflow in MB settings").
func CacheRound(v, least, step, most uint64) uint64 {
	step = min(max(step, 1), CacheNoLimit)
	most = min(most, CacheNoLimit)
	v = min(max(v, least, 1), most)
	v = (v + step - 1) / step * step
	if v > most {
		v -= step
	}
	if v == 0 { // most is below a step
		v = most
	}
	return max(v, 1)
}
