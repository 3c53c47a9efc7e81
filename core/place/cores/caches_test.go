package cores

import (
	"testing"

	"github.com/homenode/homenode/core/plan"
	"github.com/homenode/homenode/core/plan/plantest"
	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/core/workload"
)

// fourCaches is the books of a node of four caches, eight CPUs each, with some CPUs held.
func fourCaches(t *testing.T, held string) Books {
	cpus, err := topology.ParseCPUSet(held)
	if err != nil {
		t.Fatal(err)
	}
	st := plantest.OnHost("0  0-31  64G 10 llc=8")
	st.Placements = []plan.Placement{{Class: workload.Dedicated, CPUs: cpus}}
	return of(st)
}

// TestDivide: dedicated work divides over the fewest caches that hold it, and of such sets over a tight one.
func TestDivide(t *testing.T) {
	for _, tt := range []struct {
		name    string
		held    string
		vcpus   int
		squares float64
		over    int
	}{
		{"one cache", "", 8, 64, 0},
		{"part of a cache", "", 3, 9, 5},
		{"two caches", "", 12, 64 + 16, 4},
		{"6 and 6 before 8 and 6", "0-1,8-9", 12, 36 + 36, 0},
		{"the tightest that holds it", "0-3,8-11", 4, 16, 0},
		{"more than there is", "0-23", 12, 64, 0},
	} {
		b := fourCaches(t, tt.held)
		squares, over := b.Divide(0, tt.vcpus, workload.SMTPrefer)
		if squares != tt.squares || over != tt.over {
			t.Errorf("%s: squares %v, over %d; want %v and %d", tt.name, squares, over, tt.squares, tt.over)
		}
	}
}

// TestCaches: shared work goes to the caches with most room, next to the work booked there and the work that floats.
func TestCaches(t *testing.T) {
	in := topology.SetOf[topology.CacheID]
	for _, tt := range []struct {
		name   string
		held   string
		booked topology.CacheSet // that have 6 vCPUs of shared work
		shared Micro             // of all shared work
		vcpus  int
		prefer topology.CacheSet
		want   topology.CacheSet
	}{
		{"the first of equals", "", in(), 0, 4, in(), in(0)},
		{"most CPUs left", "0-3,8-9", in(), 0, 4, in(), in(2)},
		{"least booked", "", in(0, 1), 12e6, 4, in(), in(2)},
		{"a preferred one", "", in(), 0, 4, in(3), in(3)},
		{"the preferred one is full", "", in(3), 6e6, 4, in(3), in(0)},
		{"several", "", in(), 0, 12, in(), in(0, 1)},
		{"all of them are none", "", in(), 0, 32, in(), in()},
		{"no room next to work that floats", "", in(), 30e6, 8, in(), in()},
	} {
		b := fourCaches(t, tt.held)
		for id := range tt.booked.All() {
			b.Book(0, in(id), 6e6)
		}
		if got := b.Caches(0, tt.shared, tt.vcpus, tt.prefer); !got.Equal(tt.want) {
			t.Errorf("%s: caches %v, want %v", tt.name, got, tt.want)
		}
		for id := range tt.booked.All() {
			b.Book(0, in(id), -6e6)
		}
		for k := range b.caches {
			if b.caches[k].shared != 0 {
				t.Errorf("%s: cache %d keeps %v vCPUs", tt.name, k, b.caches[k].shared.VCPUs())
			}
		}
	}
}

// TestOpenIn: CPUs of named caches count where no dedicated work holds them, and caches of another node make it none.
func TestOpenIn(t *testing.T) {
	b := fourCaches(t, "0-2")
	for _, tt := range []struct {
		in   topology.CacheSet
		want int
	}{
		{topology.SetOf[topology.CacheID](0), 5},
		{topology.SetOf[topology.CacheID](0, 3), 13},
		{topology.SetOf[topology.CacheID](3, 9), 0},
	} {
		if got := b.OpenIn(0, tt.in); got != tt.want {
			t.Errorf("caches %v: %d CPUs, want %d", tt.in, got, tt.want)
		}
	}
}
