package share

import (
	"fmt"
	"maps"
	"math"
	"testing"

	"pgregory.net/rapid"

	"github.com/homenode/homenode/core/topology"
)

// machine builds a host: nodes by their CPUs ("" for none), caches by ID and CPUs, and the local bandwidth of each node.
func machine(t testing.TB, nodes []string, caches []string, local ...float64) *topology.Host {
	set := func(list string) topology.CPUSet {
		s, err := topology.ParseCPUSet(list)
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	h := &topology.Host{Measured: &topology.Measured{}}
	for i, cpus := range nodes {
		n := topology.Node{ID: topology.NodeID(2 * i), Kind: topology.DRAM} // IDs may have gaps
		if cpus == "" {
			n.Kind = topology.Special
		} else {
			n.CPUs = set(cpus)
		}
		h.Nodes = append(h.Nodes, n)
		h.Online = h.Online.Union(n.CPUs)
	}
	for i, cpus := range caches {
		h.LLCs = append(h.LLCs, topology.LLC{ID: topology.CacheID(4 * i), Level: 3, CPUs: set(cpus)})
	}
	for i, b := range local {
		row := make([]float64, len(nodes))
		row[i] = b
		h.Measured.BandwidthMiBs = append(h.Measured.BandwidthMiBs, row)
	}
	h.NumberLLCs()
	return h
}

// TestMeasuredBandwidth: the bandwidth behind each cache, for the shapes that there are.
func TestMeasuredBandwidth(t *testing.T) {
	two := []string{"0-3", "4-7"}
	for _, tt := range []struct {
		name string
		host *topology.Host
		want string
	}{
		{"a cache for each node", machine(t, two, two, 24000.4, 23000.6), "0=24000;4=23001"},
		{"two nodes alike", machine(t, two, two, 24000, 24000), "0,4=24000"},
		{"several nodes of a cache (SNC)", machine(t, two, []string{"0-7"}, 24000, 23000), "0=47000"},
		{"several caches of a node (AMD)", machine(t, []string{"0-7"}, two, 24000), "0,4=12000"},
		{"caches of unlike size", machine(t, []string{"0-7"}, []string{"0-5", "6-7"}, 24000), "0=18000;4=6000"},
		{"a cache across nodes", machine(t, two, []string{"0-1", "2-7"}, 24000, 23000), "0=12000;4=35000"},
		{"memory without CPUs", machine(t, []string{"0-3", "4-7", ""}, two, 24000, 23000, 9000), "0=24000;4=23000"},
		{"one node is not measured", machine(t, two, two, 0, 23000), "4=23000"},
		{"the last node is not measured", machine(t, two, two, 24000), "0=24000"},
		{"one node of a cache is not measured", machine(t, two, []string{"0-7"}, 24000), ""},
		{"nothing is measured", machine(t, two, two), ""},
		{"no number", machine(t, two, two, math.NaN(), 1), "4=1"},
		{"no bandwidth", machine(t, two, two, math.Inf(1), -5), ""},
		{"too much", machine(t, two, two, 1<<30, 1<<30+1), "0=1073741824"},
		{"too much in all", machine(t, two, []string{"0-7"}, 1<<30, 1), ""},
		{"next to nothing", machine(t, two, two, 0.4, 0.6), "4=1"},
	} {
		if got := MeasuredBandwidth(tt.host).String(); got != tt.want {
			t.Errorf("%s: %q, want %q", tt.name, got, tt.want)
		}
	}
	h := machine(t, two, two, 24000, 0)
	h.Nodes[1].Kind = topology.NoMem
	h.Measured.BandwidthMiBs[1] = []float64{9000, 0}
	if got := MeasuredBandwidth(h).String(); got != "0=24000;4=9000" {
		t.Errorf("CPUs without memory: %q", got)
	}
	h.Measured.BandwidthMiBs[1] = nil
	if got := MeasuredBandwidth(h).String(); got != "0=24000" {
		t.Errorf("CPUs without memory, not measured: %q", got)
	}
	h.LLCs[1].Level = 2
	if got := MeasuredBandwidth(h); len(got) > 0 {
		t.Errorf("a level 2 cache: %q", got)
	}
	h.Measured = nil
	if MeasuredBandwidth(h) != nil || MeasuredBandwidth(nil) != nil {
		t.Error("no measurement")
	}
	h.HMATBandwidth = [][]float64{{24000, 0}, {0, 24000}}
	if MeasuredBandwidth(h) != nil {
		t.Error("the firmware's bandwidth counts")
	}
}

// TestMeasuredBandwidthSum: the caches of a host have the bandwidth of its nodes in all.
func TestMeasuredBandwidthSum(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		const cpus = 32
		cut := func(label string) (out []string) {
			from := 0
			for from < cpus {
				to := min(cpus, from+rapid.IntRange(1, cpus).Draw(rt, label))
				out = append(out, fmt.Sprintf("%d-%d", from, to-1))
				from = to
			}
			return out
		}
		nodes, caches := cut("node"), cut("cache")
		sum := 0.0
		var local []float64
		for range nodes {
			local = append(local, rapid.Float64Range(1000, 1<<20).Draw(rt, "bandwidth"))
			sum += local[len(local)-1]
		}
		h := machine(t, nodes, caches, local...)
		got := MeasuredBandwidth(h)
		var all, part uint64
		percent := rapid.IntRange(1, 100).Draw(rt, "percent")
		for _, b := range got {
			all += uint64(b)
			part += CacheEighths(b, percent)
		}
		n := float64(len(caches))
		if len(got) != len(caches) || math.Abs(float64(all)-sum) > n {
			rt.Fatalf("%v of %v", got, local)
		}
		if want := sum * float64(percent) / 100 * mebibyte / eighth; math.Abs(float64(part)-want) > 2*n {
			rt.Fatalf("%d units, want %.1f", part, want)
		}
	})
}

// TestCacheUnits: a percentage of a bandwidth, in each unit.
func TestCacheUnits(t *testing.T) {
	for _, tt := range []struct {
		whole   int64
		percent int
		mebi    uint64
		eighths uint64
	}{
		{98304, 40, 39322, 330}, {24000, 100, 24000, 201}, {125, 10, 13, 1}, {1, 1, 1, 1}, {0, 50, 1, 1},
		{-7, -7, 1, 1}, {24000, 1000, 24000, 201}, {math.MaxInt64, 100, 1 << 30, 9007199}, {math.MinInt64, 5, 1, 1},
	} {
		if a, b := CacheMebibytes(tt.whole, tt.percent), CacheEighths(tt.whole, tt.percent); a != tt.mebi || b != tt.eighths {
			t.Errorf("%d %% of %d MiB/s: %d MiB/s, %d/8 GB/s; want %d, %d", tt.percent, tt.whole, a, b, tt.mebi, tt.eighths)
		}
	}
}

// TestCacheRound: up to whole steps, from the least to the most; and whatever the files say, neither 0 nor more than
// the most, and a whole step where there is one.
func TestCacheRound(t *testing.T) {
	const huge = math.MaxUint64
	for _, tt := range [][5]uint64{
		{81, 0, 1, 2048, 81}, {81, 0, 8, 2048, 88}, {80, 0, 8, 2048, 80}, {5, 100, 1, 2048, 100}, {5000, 0, 1, 2048, 2048},
		{95, 0, 10, 99, 90}, {95, 0, 10, 7, 7}, {95, 0, 0, 2048, 95}, {0, 0, 1, 2048, 1}, {3, 0, 1, 0, 1},
		{CacheNoLimit, 0, 10, CacheNoLimit, 4294967290}, {CacheNoLimit, 0, 1, 2048, 2048}, {5, huge, huge, huge, CacheNoLimit},
	} {
		if got := CacheRound(tt[0], tt[1], tt[2], tt[3]); got != tt[4] {
			t.Errorf("%d: %d", tt, got)
		}
	}
	rapid.Check(t, func(rt *rapid.T) {
		any := rapid.OneOf(rapid.Uint64(), rapid.Uint64Range(0, 3000))
		v, least, step, most := any.Draw(rt, "v"), any.Draw(rt, "least"), any.Draw(rt, "step"), any.Draw(rt, "most")
		got := CacheRound(v, least, step, most)
		if got < 1 || got > max(most, 1) || got > CacheNoLimit {
			rt.Fatalf("%d of at most %d", got, most)
		}
		if step > 0 && step <= most && step <= CacheNoLimit && got%step != 0 {
			rt.Fatalf("%d is no step of %d", got, step)
		}
	})
}

// TestCacheSetting: the format of steps, and what is no setting.
func TestCacheSetting(t *testing.T) {
	s := CacheSetting{CacheLimit{30, 40}, Bandwidth{0: 24000, 1: 24000, 2: 24000, 8: 23000, 9: 24000}}
	const text = "cache=30% bandwidth=40% of 0-2,9=24000;8=23000 MiB/s"
	if got, err := ParseCacheSetting(text); s.String() != text || err != nil || !maps.Equal(got.Whole, s.Whole) ||
		got.CacheLimit != s.CacheLimit {
		t.Errorf("%s: %+v, %v", s, got, err)
	}
	const before = "cache=30% bandwidth=40%"
	if got, err := ParseCacheSetting(before); err != nil || got.String() != before || got.Whole != nil {
		t.Errorf("of an earlier version: %+v, %v", got, err)
	}
	for _, bad := range []string{"", "x", "cache=30% bandwidth=400%", before + " of ", before + " of  MiB/s", before + " of 0=5",
		before + " of 0=0 MiB/s", before + " of 0=-1 MiB/s", before + " of 0=1073741825 MiB/s", before + " of 0=1;0=2 MiB/s",
		before + " of 1=1;0=2 MiB/s", before + " of 0=1;1=1 MiB/s", before + " of 0-9999999999=1 MiB/s", before + " of =1 MiB/s"} {
		if got, err := ParseCacheSetting(bad); err == nil || got.Whole != nil || !got.None() {
			t.Errorf("%q: %+v", bad, got)
		}
	}
}

func FuzzParseCacheSetting(f *testing.F) {
	f.Add("cache=30% bandwidth=40% of 0-2,9=24000;8=23000 MiB/s")
	f.Fuzz(func(t *testing.T, text string) {
		if s, err := ParseCacheSetting(text); err == nil && s.String() != text {
			t.Errorf("%q is %q", text, s)
		}
	})
}

// TestAllowed: what a schemata allows, in MiB/s; nothing where it may count in percent, or has other values.
func TestAllowed(t *testing.T) {
	s := CacheSetting{CacheLimit{0, 40}, Bandwidth{0: 24000, 1: 98304}}
	for schemata, want := range map[string]string{
		"L3:0=f;1=f MB:0=81;1=330":              "0=9656;1=39339",
		"MB:0=9600;1=39330":                     "0=9600;1=39330",
		"MB:0=40;1=40":                          "",
		"MB:0=81;1=81":                          "",
		"MB:0=81;1=39330":                       "",
		"MB:0=81;2=330":                         "",
		"L3:0=f":                                "",
		"MB:0=x;1=330":                          "",
		"MB:":                                   "",
		"MB:0=99999999999999;1=330":             "",
		"MB:0=4294967295;1=4294967295":          "",
		"MB:0=9600;1=39330 MB:0=9600;1=trailer": "0=9600;1=39330",
	} {
		if got := s.Allowed(schemata).String(); got != want {
			t.Errorf("%s: %q, want %q", schemata, got, want)
		}
	}
	s.Whole = Bandwidth{0: 12000, 1: 12100} // 40 % is 40 and 41 units
	if got := s.Allowed("MB:0=40;1=41"); got != nil {
		t.Errorf("units that may be percentages: %v", got)
	}
	s.CacheLimit.Bandwidth = 0
	if got := s.Allowed("MB:0=40;1=41"); got != nil {
		t.Errorf("no limit: %v", got)
	}
}
