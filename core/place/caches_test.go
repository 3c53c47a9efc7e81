package place

import (
	"fmt"
	"math"
	"testing"

	"github.com/homenode/homenode/core/plan"
	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/core/workload"
)

// cachesOf counts the last-level caches that CPUs are in.
func cachesOf(h *topology.Host, cpus topology.CPUSet) int {
	n := 0
	for i := range h.LLCs {
		if h.LLCs[i].CPUs.Intersects(cpus) {
			n++
		}
	}
	return n
}

// pinnedTo is dedicated work with CPUs of its own.
func pinnedTo(id, home, cpus string) plan.Placement {
	h, _ := topology.ParseNodeSet(home)
	c, _ := topology.ParseCPUSet(cpus)
	return dedicatedOn(workload.ID(id), h.Min(), 1<<20, c.Slice()...)
}

func sharedOn(id, home, cpus string, vcpus int, mem topology.KiB) plan.Placement {
	h, _ := topology.ParseNodeSet(home)
	c, _ := topology.ParseCPUSet(cpus)
	return plan.Placement{
		Workload: workload.ID(id), Class: workload.Shared, Importance: 50, VCPUs: vcpus, Home: h, CPUs: c,
		Memory: []workload.NodeMemory{{Node: h.Min(), KiB: mem}}, Asked: mem,
	}
}

// twoOfFourCaches is two nodes of four caches, eight CPUs each.
const twoOfFourCaches = `
	0  0-31  64G 10 20 llc=8
	1  32-63 64G 20 10 llc=8
`

// TestFewestCaches: dedicated work gets the fewest caches over all nodes that hold it, caches that
// are broken already before whole ones.
func TestFewestCaches(t *testing.T) {
	taken := func(cpus ...string) (out []plan.Placement) {
		for i, list := range cpus {
			home := "0"
			if set, _ := topology.ParseCPUSet(list); set.Min() >= 32 {
				home = "1"
			}
			out = append(out, pinnedTo(fmt.Sprint("x", i), home, list))
		}
		return out
	}
	for _, c := range []struct {
		name   string
		taken  []plan.Placement
		vcpus  int
		cpus   string // any of these
		caches int
	}{
		{"pieces of four caches here, a whole one there", taken("0-5", "8-13", "16-21", "24-29", "32-39", "40-45"), 8, "48-63", 1},
		{"a broken cache before a whole one", taken("0-3", "32-63"), 4, "4-7", 1},
		{"a broken cache before a whole one, across nodes", taken("0-31", "32-35"), 4, "36-39", 1},
		{"two broken caches before two whole ones", taken("0-1", "8-9", "32-63"), 12, "2-7,10-15", 2},
		{"the tightest that holds it", taken("0-1", "8-12", "32-63"), 3, "13-15", 1},
		{"wider than a cache: the rest into a broken one", taken("0-3", "32-63"), 12, "4-31", 2},
	} {
		t.Run(c.name, func(t *testing.T) {
			st := onHost(twoOfFourCaches)
			st.Placements = c.taken
			r := Place(st, Request{Spec: vm("a", c.vcpus, 4*gib)})
			p := r.Placement
			want, _ := topology.ParseCPUSet(c.cpus)
			if n := cachesOf(st.Host, p.CPUs); n != c.caches || !p.CPUs.SubsetOf(want) {
				t.Errorf("home %v, CPUs %v in %d caches; want %d, of CPUs %s", p.Home, p.CPUs, n, c.caches, c.cpus)
			}
			if p.Caches.Len() != c.caches || !p.Caches.Equal(p.CachesOn(st.Host)) {
				t.Errorf("its caches are %v, want those of CPUs %v", p.Caches, p.CPUs)
			}
		})
	}
}

// TestPartialCache: five CPUs of one cache, and not two of each of two (kubernetes#137315).
func TestPartialCache(t *testing.T) {
	st := onHost("0  0,2,4,6,8,10,12,14|1,3,5,7,9,11,13,15 64G 10 llc=4\n")
	st.Placements = append(st.Placements, pinnedTo("x", "0", "0-2,4,6,8-10"))
	p := Place(st, Request{Spec: vm("a", 5, gib)}).Placement
	if p.CPUs.String() != "11-15" {
		t.Errorf("CPUs %v, want 11-15", p.CPUs)
	}
}

// TestSharedCaches: shared work that a cache holds lives in one, wider work in the fewest; in the
// modes off and report it floats over its node.
func TestSharedCaches(t *testing.T) {
	for _, c := range []struct {
		mode   plan.CacheMode
		vcpus  int
		taken  []plan.Placement
		cpus   int // that it floats over
		caches int // that it is in
		named  int // that its placement names
	}{
		{plan.CachesPlace, 4, nil, 8, 1, 1},
		{plan.CachesPlace, 8, nil, 8, 1, 1},
		{plan.CachesPlace, 12, nil, 16, 2, 2},
		{plan.CachesPlace, 60, nil, 64, 8, 0},
		{plan.CachesPlace, 4, []plan.Placement{pinnedTo("x", "0", "0-5")}, 8, 1, 1},
		{plan.CachesReport, 4, nil, 64, 8, 0},
		{plan.CachesOff, 4, nil, 64, 8, 0},
		{"", 4, nil, 64, 8, 0},
	} {
		t.Run(fmt.Sprint(c.mode, c.vcpus), func(t *testing.T) {
			st := onHost("0  0-63 64G 10 llc=8\n")
			st.Policy.Caches = c.mode
			st.Placements = c.taken
			p := Place(st, Request{Spec: service("s", c.vcpus, 2*gib)}).Placement
			if n := cachesOf(st.Host, p.CPUs); p.CPUs.Len() != c.cpus || n != c.caches || p.Caches.Len() != c.named {
				t.Errorf("floats over %d CPUs of %d caches and names %v; want %d CPUs, %d caches, %d named", p.CPUs.Len(), n, p.Caches, c.cpus, c.caches, c.named)
			}
		})
	}
}

// TestSharedCachesBeside: work that should be near another one starts in its caches, where CPUs are left for it.
func TestSharedCachesBeside(t *testing.T) {
	floats := sharedOn("db", "0", "24-31", 2, gib)
	floats.Caches = topology.SetOf[topology.CacheID](3)
	for _, c := range []struct {
		name  string
		other plan.Placement
		vcpus int
		cpus  string
	}{
		{"work that floats", floats, 2, "24-31"},
		{"a guest with CPUs of its own", pinnedTo("db", "0", "24-27"), 2, "28-31"},
		{"no room there", pinnedTo("db", "0", "24-30"), 2, "0-7"},
	} {
		t.Run(c.name, func(t *testing.T) {
			st := onHost("0  0-63 64G 10 llc=8\n")
			st.Policy.Caches = plan.CachesPlace
			st.Placements = []plan.Placement{c.other}
			s := service("helper", c.vcpus, gib)
			s.Near = []workload.Near{{Workload: "db"}}
			p := Place(st, Request{Spec: s}).Placement
			if p.CPUs.String() != c.cpus {
				t.Errorf("CPUs %v, want %s", p.CPUs, c.cpus)
			}
		})
	}
}

// TestFastCores: dedicated work gets fast cores, of low importance slow ones; a mixed set only where
// neither holds it.
func TestFastCores(t *testing.T) {
	for _, c := range []struct {
		importance, vcpus int
		cpus              string
	}{
		{90, 4, "4-7"},
		{50, 4, "4-7"},
		{50, 2, "4-5"},
		{10, 4, "0-3"},
		{90, 6, "0-7"},
	} {
		t.Run(fmt.Sprint(c.importance, " ", c.vcpus), func(t *testing.T) {
			st := onHost("0  0-7 64G 10\n")
			slowFirst(st.Host, 4)
			s := vm("a", c.vcpus, gib)
			s.Importance = c.importance
			p := Place(st, Request{Spec: s}).Placement
			want, _ := topology.ParseCPUSet(c.cpus)
			if !p.CPUs.SubsetOf(want) || p.CPUs.Len() != c.vcpus {
				t.Errorf("CPUs %v, want %d of %s (0-3 are slow)", p.CPUs, c.vcpus, c.cpus)
			}
		})
	}
}

// slowFirst makes the first n cores of a host half as fast as the others.
func slowFirst(h *topology.Host, n int) {
	for i := range h.Cores {
		h.Cores[i].Capacity = 1024
		if i < n {
			h.Cores[i].Capacity = 512
		}
	}
}

// TestNearSocket: policy=socket takes a node of the device's package when its own is full; required
// refuses, and another package is refused.
func TestNearSocket(t *testing.T) {
	host := `
		0 0-3   8G 10 12 28 28 dev=eth0
		1 4-7   8G 12 10 28 28
		2 8-11  8G 28 28 10 12
		3 12-15 8G 28 28 12 10
	`
	for _, c := range []struct {
		name  string
		near  workload.Near
		taken []plan.Placement
		home  string // "" for refused
	}{
		{"its node is free", workload.Near{Device: "eth0", Socket: true}, nil, "0"},
		{"its node is full", workload.Near{Device: "eth0", Socket: true}, []plan.Placement{pinnedTo("x", "0", "0-3")}, "1"},
		{"its package is full", workload.Near{Device: "eth0", Socket: true}, []plan.Placement{pinnedTo("x", "0", "0-3"), pinnedTo("y", "1", "4-7")}, ""},
		{"required", workload.Near{Device: "eth0", Required: true}, []plan.Placement{pinnedTo("x", "0", "0-3")}, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			st := onHost(host)
			for i := range st.Host.Nodes {
				st.Host.Nodes[i].Package = topology.PackageID(i / 2)
			}
			st.Placements = c.taken
			s := vm("a", 4, gib)
			s.Near = []workload.Near{c.near}
			r := Place(st, Request{Spec: s})
			if got := r.Placement.Home.String(); got != c.home || r.Placed() != (c.home != "") {
				t.Errorf("home %q, want %q: %v", got, c.home, r.Decision.Reasons)
			}
		})
	}
}

// TestCrossingCost: the cost of crossing caches is the measured one, within bounds; a constant where a figure is missing.
func TestCrossingCost(t *testing.T) {
	memory := [][]float64{{100, 200}, {200, 100}}
	for _, x := range []struct {
		name string
		m    *topology.Measured
		want float64
	}{
		{"not measured", nil, 0.3},
		{"memory alone", &topology.Measured{LatencyNs: memory}, 0.3},
		{"lines alone", &topology.Measured{LineOwnNs: 25, LineOtherNs: 65}, 0.3},
		{"half the usual", &topology.Measured{LatencyNs: memory, LineOwnNs: 25, LineOtherNs: 65}, 0.15},
		{"no difference", &topology.Measured{LatencyNs: memory, LineOwnNs: 40, LineOtherNs: 40}, 0},
		{"the other one nearer, by chance", &topology.Measured{LatencyNs: memory, LineOwnNs: 40, LineOtherNs: 39}, 0},
		{"a busy machine", &topology.Measured{LatencyNs: memory, LineOwnNs: 25, LineOtherNs: 9000}, 0.6},
	} {
		if got := crossingCost(x.m); math.Abs(got-x.want) > 1e-9 {
			t.Errorf("%s: %v, want %v", x.name, got, x.want)
		}
	}
	st := divided(1, 32, 4, plan.CachesPlace)
	st.Host.Measured = &topology.Measured{LatencyNs: [][]float64{{100}}, LineOwnNs: 40, LineOtherNs: 40}
	if l := NewLedger(st); l.crossing != 0 || l.clone().crossing != 0 {
		t.Errorf("a ledger on a host where caches cost nothing has %v", l.crossing)
	}
}
