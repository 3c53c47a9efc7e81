package plan_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/homenode/homenode/core/plan"
	"github.com/homenode/homenode/core/topology"
)

// TestSettle: worked by hand. What a booking wants is kept as far as it can be, the
// last one makes others give way by the shortest chain, and a set that is too full
// is told as the nodes of the smallest cut.
func TestSettle(t *testing.T) {
	type kib = []topology.KiB
	for _, tt := range []struct {
		name     string
		caps     kib
		bookings []plan.Booking
		want     []kib
		spread   []kib
		full     []int
	}{
		{name: "as wanted", caps: kib{4, 4}, bookings: []plan.Booking{{[]int{0, 1}, 5}, {[]int{0}, 1}},
			want: []kib{{2, 3}, {1}}, spread: []kib{{2, 3}, {1}}},
		{name: "nothing wanted: the first node with room", caps: kib{4, 4}, bookings: []plan.Booking{{[]int{0, 1}, 5}},
			spread: []kib{{4, 1}}},
		{name: "more wanted than booked", caps: kib{4, 4}, bookings: []plan.Booking{{[]int{0, 1}, 5}},
			want: []kib{{9, 9}}, spread: []kib{{4, 1}}},
		{name: "one KiB gives way", caps: kib{1, 1}, bookings: []plan.Booking{{[]int{0, 1}, 1}, {[]int{0}, 1}},
			want: []kib{{1, 0}, {0}}, spread: []kib{{0, 1}, {1}}},
		{name: "it gives way from its second node", caps: kib{1, 1}, bookings: []plan.Booking{{[]int{0, 1}, 1}, {[]int{1}, 1}},
			want: []kib{{0, 1}, {0}}, spread: []kib{{1, 0}, {1}}},
		{name: "no more gives way than must", caps: kib{8, 8}, bookings: []plan.Booking{{[]int{0, 1}, 6}, {[]int{0}, 5}},
			want: []kib{{6, 0}, {5}}, spread: []kib{{3, 3}, {5}}},
		// The third takes 3 of node 0 from the first, which takes 3 of node 1 from the second, which takes node 2.
		{name: "a chain of three", caps: kib{3, 5, 4}, bookings: []plan.Booking{{[]int{0, 1}, 3}, {[]int{1, 2}, 5}, {[]int{0}, 3}},
			want: []kib{{3, 0}, {5, 0}, {0}}, spread: []kib{{0, 3}, {2, 3}, {3}}},
		// Of the chain, the second can give up 1 alone: the rest comes by another way.
		{name: "two ways, each with a part", caps: kib{4, 1, 3}, bookings: []plan.Booking{{[]int{0, 1}, 2}, {[]int{0, 2}, 2}, {[]int{0}, 3}},
			want: []kib{{2, 0}, {2, 0}, {0}}, spread: []kib{{1, 1}, {0, 2}, {3}}},
		{name: "unknown memory takes all", caps: kib{2, topology.None}, bookings: []plan.Booking{{[]int{0, 1}, 9}, {[]int{0}, 2}},
			want: []kib{{2, 7}, {0}}, spread: []kib{{0, 9}, {2}}},
		{name: "exactly full", caps: kib{2, 3}, bookings: []plan.Booking{{[]int{0, 1}, 5}}, spread: []kib{{2, 3}}},
		{name: "one KiB over", caps: kib{2, 3, 9}, bookings: []plan.Booking{{[]int{0, 1}, 6}}, full: []int{0, 1}},
		{name: "the cut is rising", caps: kib{1, 1, 9}, bookings: []plan.Booking{{[]int{0, 1}, 2}, {[]int{1}, 1}},
			want: []kib{{1, 1}, {0}}, full: []int{0, 1}},
		{name: "a cut of one node beside another booking on it", caps: kib{4, 9}, bookings: []plan.Booking{{[]int{1}, 9}, {[]int{0}, 5}}, full: []int{0}},
		{name: "nowhere", caps: kib{4}, bookings: []plan.Booking{{nil, 1}}, full: []int{}},
		{name: "nothing nowhere", caps: kib{4}, bookings: []plan.Booking{{nil, 0}}, spread: []kib{{}}},
	} {
		spread, full := plan.Settle(tt.caps, tt.bookings, tt.want)
		if diff := cmp.Diff(tt.spread, spread); diff != "" {
			t.Errorf("%s: spread (-want +got):\n%s", tt.name, diff)
		}
		if diff := cmp.Diff(tt.full, full); diff != "" {
			t.Errorf("%s: too full (-want +got):\n%s", tt.name, diff)
		}
	}
}

func TestCapacity(t *testing.T) {
	st := twoNodes() // 16, 16 and 8 GiB; 2 GiB of huge pages on nodes 0 and 1
	st.Host.Nodes = append(st.Host.Nodes,
		topology.Node{ID: 5, Memory: topology.None, HugePages: []topology.HugePool{{Size: 2 << 10, Total: 4}}},
		topology.Node{ID: 6, Memory: 3 * gib, HugePages: []topology.HugePool{{Size: 2 << 10, Total: topology.None}, {Size: gib, Total: 1}}},
		topology.Node{ID: 7, Memory: gib})
	st.Host.AllowedMems = topology.Nodes(0, 1, 2, 5, 6)
	for _, tt := range []struct {
		name      string
		reserved  topology.KiB
		unmanaged []topology.KiB
		want      []topology.KiB
	}{
		{"huge pages are others'", 0, nil, []topology.KiB{14 * gib, 14 * gib, 8 * gib, topology.None, 2 * gib, 0}},
		{"a reserve on each node", 2 * gib, nil, []topology.KiB{12 * gib, 12 * gib, 6 * gib, topology.None, 0, 0}},
		{"never less than nothing", 9 * gib, nil, []topology.KiB{5 * gib, 5 * gib, 0, topology.None, 0, 0}},
		{"used by others", gib, []topology.KiB{3 * gib, 0, 7*gib - 1}, []topology.KiB{10 * gib, 13 * gib, 1, topology.None, gib, 0}},
	} {
		st.Policy.ReservedMemory, st.Unmanaged = tt.reserved, on(tt.unmanaged...)
		if diff := cmp.Diff(tt.want, plan.Capacity(st)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tt.name, diff)
		}
	}
}

func TestRoundUp(t *testing.T) {
	for _, tt := range []struct{ size, page, want topology.KiB }{
		{5, 0, 5}, {5, -1, 5}, {5, 1, 5}, {0, 4, 0}, {1, 4, 4}, {4, 4, 4}, {5, 4, 8}, {7, 4, 8}, {8, 4, 8},
	} {
		if got := plan.RoundUp(tt.size, tt.page); got != tt.want {
			t.Errorf("%d in pages of %d: %d, want %d", tt.size, tt.page, got, tt.want)
		}
	}
}
