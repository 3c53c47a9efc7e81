package share

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/homenode/homenode/core/topology"
)

// CacheSetting is what a step gives batch work's group of resctrl: a limit, and the bandwidth that it is a percentage
// of. The driver needs Whole where resctrl counts bandwidth in GB/s or MiB/s.
type CacheSetting struct {
	CacheLimit
	Whole Bandwidth // empty where bandwidth is not limited or nothing was measured
}

// Bandwidth is the memory bandwidth that CPUs of a last-level cache have, in MiB/s, 1 to mostBandwidth. A cache that
// is missing is unknown.
type Bandwidth map[topology.CacheID]int64

// mostBandwidth is 1 PiB/s, over a thousand times what a socket has: more is no measurement.
const mostBandwidth = 1 << 30

// MeasuredBandwidth returns the local read bandwidth behind each level 3 cache: the sum over its nodes, each with the
// part of the node's CPUs that are in the cache, so that the caches of a node have the node's bandwidth in all. Only
// online CPUs count. A node without memory counts with the best bandwidth that its CPUs read from another node.
//
// Only measurements count. The firmware's bandwidth (HMAT) is a nominal figure that nothing checks, and a wrong whole
// makes a limit that either limits nothing or starves batch work.
func MeasuredBandwidth(h *topology.Host) Bandwidth {
	if h == nil || h.Measured == nil {
		return nil
	}
	local := make(map[topology.NodeID]float64, len(h.Nodes))
	for i := range h.Nodes {
		if i >= len(h.Measured.BandwidthMiBs) {
			break
		}
		row, n := h.Measured.BandwidthMiBs[i], &h.Nodes[i]
		if i < len(row) {
			local[n.ID] = row[i]
		}
		if n.Kind == topology.NoMem && len(row) > 0 {
			local[n.ID] = slices.Max(row)
		}
	}
	out := Bandwidth{}
	for i := range h.LLCs {
		l := &h.LLCs[i]
		if l.Level != 3 { // resctrl's domains are level 3 caches, and with others the IDs may be positions (NumberLLCs)
			return nil
		}
		sum := 0.0
		for k := range h.Nodes {
			n := &h.Nodes[k]
			in := n.CPUs.Overlap(l.CPUs)
			if in == 0 {
				continue
			}
			b := local[n.ID]
			if !(b > 0) { // also not a number
				b = math.Inf(1)
			}
			sum += b * float64(in) / float64(n.CPUs.Len())
		}
		if whole := math.Round(sum); whole >= 1 && whole <= mostBandwidth {
			out[l.ID] = int64(whole)
		}
	}
	return out
}

// String returns the bandwidth by caches in list format: "0-3=24000;4-7=23000".
func (b Bandwidth) String() string {
	var parts []string
	for _, ids := range b.alike() {
		parts = append(parts, fmt.Sprintf("%s=%d", ids, b[ids.Min()]))
	}
	return strings.Join(parts, ";")
}

// alike returns the caches that have the same bandwidth together, by their lowest ID.
func (b Bandwidth) alike() (out []topology.CacheSet) {
	at := map[int64]int{}
	for _, id := range slices.Sorted(maps.Keys(b)) {
		k, seen := at[b[id]]
		if !seen {
			k = len(out)
			at[b[id]] = k
			out = append(out, topology.CacheSet{})
		}
		out[k].Add(id)
	}
	return out
}

// String returns the setting as steps have it: "cache=30% bandwidth=40% of 0-3=24000;4-7=23000 MiB/s".
func (s CacheSetting) String() string {
	if len(s.Whole) == 0 {
		return s.CacheLimit.String()
	}
	return s.CacheLimit.String() + wholeOf + s.Whole.String() + wholeUnit
}

const wholeOf, wholeUnit = " of ", " MiB/s"

// ParseCacheSetting parses the format of String, and a limit alone as steps of earlier versions have it.
func ParseCacheSetting(text string) (CacheSetting, error) {
	limit, whole, has := strings.Cut(text, wholeOf)
	l, err := ParseCacheLimit(limit)
	if err != nil {
		return CacheSetting{}, err
	}
	s := CacheSetting{CacheLimit: l}
	if !has {
		return s, nil
	}
	bad := fmt.Errorf("%q is no limit of caches and bandwidth; want %q", text,
		CacheSetting{CacheLimit{30, 40}, Bandwidth{0: 24000}})
	s.Whole = Bandwidth{}
	for part := range strings.SplitSeq(strings.TrimSuffix(whole, wholeUnit), ";") {
		list, value, _ := strings.Cut(part, "=")
		ids, err := topology.ParseSet[topology.CacheID](list)
		if err != nil {
			return CacheSetting{}, bad
		}
		v, err := strconv.ParseInt(value, 10, 64)
		if err != nil || v < 1 || v > mostBandwidth {
			return CacheSetting{}, bad
		}
		for id := range ids.All() {
			s.Whole[id] = v
		}
	}
	if s.String() != text {
		return CacheSetting{}, bad
	}
	return s, nil
}

// Allowed returns the bandwidth that a schemata of resctrl allows in each cache under this setting, for people. It
// returns nil where the schemata has percentages, or values that do not follow from the setting.
func (s CacheSetting) Allowed(schemata string) Bandwidth {
	values := bandwidthIn(schemata)
	if s.Bandwidth == 0 || len(values) == 0 {
		return nil
	}
	within := func(v, from, step uint64) bool { return from <= v && v-from < step } // rounded up to steps
	eighths := true
	mebibytes := true
	percent := true
	for id, v := range values {
		whole, ok := s.Whole[id]
		if !ok {
			return nil
		}
		eighths = eighths && v == CacheEighths(whole, s.Bandwidth)
		mebibytes = mebibytes && within(v, CacheMebibytes(whole, s.Bandwidth), 100) // bandwidth_gran is a percentage
		percent = percent && within(v, uint64(s.Bandwidth), 10)                     // of Intel's processors
	}
	known := eighths || mebibytes
	if percent || !known {
		return nil
	}
	out := Bandwidth{}
	for id, v := range values {
		out[id] = int64(v)
		if eighths {
			out[id] = int64(math.Round(float64(v) * eighth / mebibyte))
		}
	}
	return out
}

// bandwidthIn returns the values of MB in a schemata; nil where there are none, or one is no number.
func bandwidthIn(schemata string) map[topology.CacheID]uint64 {
	for line := range strings.FieldsSeq(schemata) {
		rest, ok := strings.CutPrefix(line, "MB:")
		if !ok {
			continue
		}
		out := map[topology.CacheID]uint64{}
		for part := range strings.SplitSeq(rest, ";") {
			id, value, _ := strings.Cut(part, "=")
			cache, err := strconv.ParseUint(id, 10, 31)
			v, bad := strconv.ParseUint(value, 10, 32)
			if err != nil || bad != nil {
				return nil
			}
			out[topology.CacheID(cache)] = v
		}
		return out
	}
	return nil
}
