package plan_test

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/homenode/homenode/core/plan"
	"github.com/homenode/homenode/core/plan/plantest"
	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/core/workload"
)

const gib = plantest.GiB

// twoNodes has 4 cores of 2 threads and 16 GiB a node, CPU 3 of node 0 offline
// together with its sibling 11, and a memory-only node 2.
func twoNodes() plan.State {
	h := plantest.Draw(`
		0  0-2|8-10   16G 10 21 17  huge=2Mx1024 offline=3,11
		1  4-7|12-15  16G 21 10 24  huge=2Mx1024
		2  -           8G 17 24 10
	`)
	st := plan.State{Host: h, Policy: plan.DefaultPolicy()}
	st.Policy.Reserved = topology.CPUs(0)
	return st
}

var on = plantest.Memory

func dedicated(id workload.ID, home topology.NodeSet, mem []workload.NodeMemory, pins ...topology.CPUID) plan.Placement {
	return plan.Placement{
		Workload: id, Class: workload.Dedicated, VCPUs: len(pins), Home: home, Pins: pins,
		CPUs: topology.CPUs(pins...), Memory: mem, Asked: workload.Total(mem), Bound: true,
	}
}

func shared(id workload.ID, home topology.NodeSet, mem []workload.NodeMemory, cpus ...topology.CPUID) plan.Placement {
	return plan.Placement{
		Workload: id, Class: workload.Shared, VCPUs: 2, Home: home, CPUs: topology.CPUs(cpus...),
		Memory: mem, Asked: workload.Total(mem),
	}
}

func TestCheck(t *testing.T) {
	n := topology.Nodes
	tests := []struct {
		name string
		edit func(*plan.State)
		ps   []plan.Placement
		want []plan.Code
		text string // of the first violation, where its numbers matter
	}{
		{name: "nothing placed"},
		{name: "dedicated beside shared and batch", ps: []plan.Placement{
			dedicated("a", n(1), on(0, gib), 4, 12),
			shared("b", n(1), on(0, gib), 5, 6, 7, 13, 14, 15),
			{Workload: "c", Class: workload.Batch, VCPUs: 9, Home: n(0, 1), CPUs: topology.CPUs(1, 9, 5, 6)},
		}},
		{name: "dedicated twice", ps: []plan.Placement{dedicated("a", n(1), nil, 4, 12), dedicated("b", n(1), nil, 12, 5)},
			want: []plan.Code{plan.CPUUsedTwice},
			text: "CPUs 12 belong to a, which is dedicated, and are also given to b (dedicated)"},
		{name: "shared on a dedicated CPU", ps: []plan.Placement{shared("s", n(1), nil, 4, 5), dedicated("a", n(1), nil, 4)},
			want: []plan.Code{plan.CPUUsedTwice}, text: "CPUs 4 belong to a, which is dedicated, and are also given to s (shared)"},
		{name: "shared beside shared", ps: []plan.Placement{shared("s", n(1), nil, 4, 5), shared("t", n(1), nil, 4, 5)}},
		{name: "on a sibling held idle", ps: []plan.Placement{
			func() plan.Placement {
				p := dedicated("a", n(1), nil, 4)
				p.Idle = topology.CPUs(12)
				return p
			}(), shared("s", n(1), nil, 12)},
			want: []plan.Code{plan.CPUUsedTwice}, text: "CPUs 12 belong to a, which is dedicated, and are also given to s (shared)"},
		{name: "reserved CPU", ps: []plan.Placement{dedicated("a", n(0), nil, 0, 8)},
			want: []plan.Code{plan.ReservedCPU}, text: "a is given CPUs 0, which are reserved for the host"},
		{name: "offline CPU", ps: []plan.Placement{dedicated("a", n(0), nil, 3)},
			want: []plan.Code{plan.OfflineCPU}, text: "a is given CPUs 3, which are offline"},
		{name: "unknown CPU", ps: []plan.Placement{dedicated("a", n(0), nil, 99)},
			want: []plan.Code{plan.UnknownCPU}, text: "a is given CPUs 99, which this host does not have"},
		{name: "CPU that homenode may not use", edit: func(st *plan.State) { st.Host.Allowed.Remove(5) },
			ps:   []plan.Placement{shared("a", n(1), nil, 5, 6)},
			want: []plan.Code{plan.ForbiddenCPU}, text: "a is given CPUs 5, which homenode may not use (allowed: 0-2,4,6-10,12-15)"},
		{name: "CPU outside home", ps: []plan.Placement{shared("a", n(1), nil, 1, 6)},
			want: []plan.Code{plan.CPUOutsideHome}, text: "a is given CPUs 1 outside its home 1"},
		{name: "no CPU", ps: []plan.Placement{shared("a", n(1), nil)}, want: []plan.Code{plan.NoCPU}, text: "a has an empty CPU set"},
		{name: "no home", ps: []plan.Placement{{Workload: "a", Class: workload.Batch}},
			want: []plan.Code{plan.NoCPU, plan.NoHome}, text: "a has an empty CPU set"},
		{name: "unknown node", ps: []plan.Placement{shared("a", n(1, 7), nil, 5)},
			want: []plan.Code{plan.UnknownNode}, text: "a has its home on node 7, which this host does not have"},
		{name: "memory where homenode may not", edit: func(st *plan.State) { st.Host.AllowedMems = n(0) },
			ps:   []plan.Placement{shared("a", n(0, 1), on(gib, gib), 5)},
			want: []plan.Code{plan.ForbiddenNode}, text: "a books 1048576 KiB on node 1, where homenode may take no memory (allowed: 0)"},
		{name: "fewer pins than vCPUs", ps: []plan.Placement{func() plan.Placement {
			p := dedicated("a", n(1), nil, 4, 5)
			p.VCPUs = 3
			return p
		}()}, want: []plan.Code{plan.PinMismatch}, text: "a has 2 pins for 3 vCPUs"},
		{name: "one CPU pinned twice", ps: []plan.Placement{dedicated("a", n(1), nil, 4, 4)},
			want: []plan.Code{plan.PinMismatch}, text: "a pins 2 vCPUs to only 1 CPUs (4)"},
		{name: "pins beside the CPU set", ps: []plan.Placement{func() plan.Placement {
			p := dedicated("a", n(1), nil, 4, 5)
			p.CPUs = topology.CPUs(4, 6)
			return p
		}()}, want: []plan.Code{plan.PinMismatch}, text: "a pins CPUs 4-5 but has the CPU set 4,6"},
		{name: "shared with pins", ps: []plan.Placement{func() plan.Placement {
			p := shared("a", n(1), nil, 4, 5)
			p.Pins = []topology.CPUID{4, 5}
			return p
		}()}, want: []plan.Code{plan.PinMismatch}, text: "a is shared and has 2 pins: only dedicated work is pinned"},
		{name: "shared with one pin", ps: []plan.Placement{func() plan.Placement {
			p := shared("a", n(1), nil, 5)
			p.Pins = []topology.CPUID{5}
			return p
		}()}, want: []plan.Code{plan.PinMismatch}},
		{name: "shared that holds CPUs idle", ps: []plan.Placement{func() plan.Placement {
			p := shared("a", n(1), nil, 5)
			p.Idle = topology.CPUs(13)
			return p
		}()}, want: []plan.Code{plan.PinMismatch}},
		{name: "idle CPU that the host lacks", ps: []plan.Placement{func() plan.Placement {
			p := dedicated("a", n(1), nil, 4)
			p.Idle = topology.CPUs(99)
			return p
		}()}, want: []plan.Code{plan.UnknownCPU}},
		{name: "used and held idle", ps: []plan.Placement{func() plan.Placement {
			p := dedicated("a", n(1), nil, 4, 5)
			p.Idle = topology.CPUs(5)
			return p
		}()}, want: []plan.Code{plan.PinMismatch}, text: "a both uses CPUs 5 and holds them idle"},
		{name: "bookings short of the wish", ps: []plan.Placement{func() plan.Placement {
			p := shared("a", n(1), on(0, gib), 5)
			p.Asked = 2 * gib
			return p
		}()}, want: []plan.Code{plan.BookingMismatch}, text: "a wants 2097152 KiB and its bookings sum to 1048576 KiB"},
		{name: "bookings out of order", ps: []plan.Placement{shared("a", n(0, 1),
			[]workload.NodeMemory{{Node: 1, KiB: gib}, {Node: 0, KiB: gib}}, 5)},
			want: []plan.Code{plan.BookingMismatch}, text: "a books node 0 after node 1: bookings rise by node"},
		{name: "negative booking", ps: []plan.Placement{shared("a", n(0, 1),
			[]workload.NodeMemory{{Node: 0, KiB: -gib}, {Node: 1, KiB: gib}}, 5)},
			want: []plan.Code{plan.BookingMismatch}, text: "a books -1048576 KiB on node 0"},
		{name: "one node booked twice", ps: []plan.Placement{shared("a", n(0, 1),
			[]workload.NodeMemory{{Node: 1, KiB: gib}, {Node: 1, KiB: gib}}, 5)},
			want: []plan.Code{plan.BookingMismatch}},
		{name: "nothing outside home", ps: []plan.Placement{shared("a", n(1),
			[]workload.NodeMemory{{Node: 0}, {Node: 1, KiB: gib}}, 5)}},
		{name: "nothing where homenode may take no memory", edit: func(st *plan.State) { st.Host.AllowedMems = n(1) },
			ps: []plan.Placement{shared("a", n(0, 1), []workload.NodeMemory{{Node: 0}, {Node: 1, KiB: gib}}, 5)}},
		{name: "1 KiB where homenode may take no memory", edit: func(st *plan.State) { st.Host.AllowedMems = n(1) },
			ps:   []plan.Placement{shared("a", n(0, 1), on(1, gib), 5)},
			want: []plan.Code{plan.ForbiddenNode}},
		{name: "1 KiB outside home", ps: []plan.Placement{shared("a", n(1), on(1), 5)},
			want: []plan.Code{plan.BookingOutsideHome}},
		{name: "1 KiB asked for and not booked", ps: []plan.Placement{func() plan.Placement {
			p := shared("a", n(1), nil, 5)
			p.Asked = 1
			return p
		}()}, want: []plan.Code{plan.BookingMismatch}},
		{name: "booked though nobody told how much", ps: []plan.Placement{func() plan.Placement {
			p := shared("a", n(1), on(0, gib), 5)
			p.Asked = 0
			return p
		}()}},
		{name: "a wish is rounded up to whole pages", ps: []plan.Placement{func() plan.Placement {
			p := shared("a", n(1), on(0, 4<<10), 5)
			p.HugePage, p.Asked = 2<<10, 2<<10+1
			return p
		}()}},
		{name: "homes without memory", edit: func(st *plan.State) { st.Host.Nodes[1].Memory, st.Host.Nodes[1].HugePages = 0, nil },
			ps:   []plan.Placement{shared("a", n(1), on(0, 1), 5)},
			want: []plan.Code{plan.MemoryOver}},
		{name: "pages of two sizes, both over", edit: func(st *plan.State) {
			st.Host.Nodes[1].HugePages = append(st.Host.Nodes[1].HugePages, topology.HugePool{Size: gib, Total: 1, Free: 1})
		}, ps: []plan.Placement{
			func() plan.Placement {
				p := shared("a", n(1), on(0, 2*gib), 5)
				p.HugePage = gib
				return p
			}(),
			func() plan.Placement {
				p := shared("b", n(1), on(0, 2*gib), 5)
				p.HugePage = 2 << 10
				return p
			}(),
			func() plan.Placement {
				p := shared("c", n(1), on(0, 2<<10), 5)
				p.HugePage = 2 << 10
				return p
			}(),
		}, want: []plan.Code{plan.HugePagesOver, plan.HugePagesOver}, text: "1025 pages of 2048 KiB are booked on node 1, which has 1024"},
		{name: "memory outside home", ps: []plan.Placement{shared("a", n(1), on(gib), 5)},
			want: []plan.Code{plan.BookingOutsideHome}, text: "a books 1048576 KiB on node 0 outside its home 1"},
		{name: "half a huge page", ps: []plan.Placement{func() plan.Placement {
			p := shared("a", n(1), on(0, 3<<10), 5)
			p.HugePage, p.Asked = 2<<10, 3<<10
			return p
		}()}, want: []plan.Code{plan.BookingMismatch, plan.BookingMismatch},
			text: "a books 3072 KiB on node 1, which is no whole number of 2048 KiB pages"},
		// A node has 16 GiB less 2 GiB of huge pages.
		{name: "node full to the brim", ps: []plan.Placement{shared("a", n(1), on(0, 14*gib), 5)}},
		{name: "node over", ps: []plan.Placement{shared("a", n(1), on(0, 14*gib+1), 5)},
			want: []plan.Code{plan.MemoryOver}, text: "14680065 KiB are booked on node 1, which has 14680064 KiB to give"},
		{name: "reserved memory counts", edit: func(st *plan.State) { st.Policy.ReservedMemory = gib },
			ps:   []plan.Placement{shared("a", n(1), on(0, 14*gib), 5)},
			want: []plan.Code{plan.MemoryOver}, text: "14680064 KiB are booked on node 1, which has 13631488 KiB to give"},
		{name: "unmanaged memory counts", edit: func(st *plan.State) { st.Unmanaged = on(0, gib) },
			ps:   []plan.Placement{shared("a", n(1), on(0, 14*gib), 5)},
			want: []plan.Code{plan.MemoryOver}, text: "14680064 KiB are booked on node 1, which has 13631488 KiB to give"},
		// b may lie wholly on node 0, so all fits although the bookings on node 1 do not.
		{name: "wide booking can give way", ps: []plan.Placement{
			shared("a", n(1), on(0, 12*gib), 5), shared("b", n(0, 1), on(4*gib, 4*gib), 1, 5)}},
		{name: "wide booking cannot give way", ps: []plan.Placement{
			shared("a", n(1), on(0, 12*gib), 5), shared("b", n(0, 1), on(4*gib, 13*gib), 1, 5)},
			want: []plan.Code{plan.MemoryOver}, text: "30408704 KiB are booked on nodes 0-1, which has 29360128 KiB to give"},
		{name: "unknown memory holds anything", edit: func(st *plan.State) { st.Host.Nodes[1].Memory = topology.None },
			ps: []plan.Placement{shared("a", n(1), on(0, 1000*gib), 5)}},
		{name: "pool full to the brim", ps: []plan.Placement{func() plan.Placement {
			p := shared("a", n(1), on(0, 2*gib), 5)
			p.HugePage = 2 << 10
			return p
		}()}},
		{name: "pool over", ps: []plan.Placement{func() plan.Placement {
			p := shared("a", n(1), on(0, 2*gib+2<<10), 5)
			p.HugePage = 2 << 10
			return p
		}()}, want: []plan.Code{plan.HugePagesOver}, text: "1025 pages of 2048 KiB are booked on node 1, which has 1024"},
		{name: "page size the host does not have", ps: []plan.Placement{func() plan.Placement {
			p := shared("a", n(1), on(0, gib), 5)
			p.HugePage = gib
			return p
		}()}, want: []plan.Code{plan.HugePagesOver}, text: "1048576 KiB of 1048576 KiB pages are booked where there is no such page"},
		{name: "same workload three times", ps: []plan.Placement{shared("a", n(1), nil, 5), shared("a", n(1), nil, 5), shared("a", n(1), nil, 5)},
			want: []plan.Code{plan.DuplicateWorkload}},
		{name: "two pairs share CPUs", ps: []plan.Placement{
			shared("s", n(1), nil, 4, 5), dedicated("a", n(1), nil, 5, 4), dedicated("b", n(1), nil, 6), shared("t", n(1), nil, 6, 7)},
			want: []plan.Code{plan.CPUUsedTwice, plan.CPUUsedTwice}, text: "CPUs 4-5 belong to a, which is dedicated, and are also given to s (shared)"},
		{name: "same workload twice", ps: []plan.Placement{shared("a", n(1), nil, 5), shared("a", n(1), nil, 5)},
			want: []plan.Code{plan.DuplicateWorkload}, text: "a has more than one placement"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			st := twoNodes()
			if tt.edit != nil {
				tt.edit(&st)
			}
			got := plan.Check(st, tt.ps)
			var codes []plan.Code
			for _, v := range got {
				codes = append(codes, v.Code)
			}
			if diff := cmp.Diff(tt.want, codes); diff != "" {
				t.Fatalf("codes (-want +got):\n%s%v", diff, got)
			}
			if tt.text != "" && got[0].Text != tt.text {
				t.Errorf("text:\n got %q\nwant %q", got[0].Text, tt.text)
			}
		})
	}
}

func TestCheckPlanSteps(t *testing.T) {
	st := twoNodes()
	ps := []plan.Placement{dedicated("a", topology.Nodes(1), on(0, gib), 4, 12), dedicated("wide", topology.Nodes(0, 1), on(gib, gib), 1, 5)}
	tests := []struct {
		name string
		step plan.Step
		bad  bool
	}{
		{"leads to the placement", plan.Step{Kind: plan.SetCPUs, Workload: "a", To: "4,12"}, false},
		{"other CPUs", plan.Step{Kind: plan.SetCPUs, Workload: "a", To: "4-5"}, true},
		{"no list of CPUs", plan.Step{Kind: plan.SetCPUs, Workload: "a", To: "4,12x"}, true},
		{"memory home", plan.Step{Kind: plan.SetMems, Workload: "a", To: "1"}, false},
		{"memory on a part of the home", plan.Step{Kind: plan.SetMems, Workload: "wide", To: "1"}, false},
		{"memory off home", plan.Step{Kind: plan.SetMems, Workload: "a", To: "0"}, true},
		{"home added to what it has", plan.Step{Kind: plan.SetMems, Workload: "a", From: "0", To: "0-1"}, false},
		{"home and a node it has not", plan.Step{Kind: plan.SetMems, Workload: "a", From: "0", To: "0-2"}, true},
		{"a part of what it has, and home", plan.Step{Kind: plan.SetMems, Workload: "a", From: "0,2", To: "0-1"}, true},
		{"what it has is unreadable", plan.Step{Kind: plan.SetMems, Workload: "a", From: "x", To: "0-1"}, true},
		{"nobody knows what it has", plan.Step{Kind: plan.SetMems, Workload: "a", To: "0-1"}, true},
		{"pages home", plan.Step{Kind: plan.MovePages, Workload: "a", From: "0", To: "1"}, false},
		{"pages off home", plan.Step{Kind: plan.MovePages, Workload: "a", To: "0-1"}, true},
		{"pages to where they are", plan.Step{Kind: plan.MovePages, Workload: "a", From: "0", To: "0-1"}, true},
		{"no list of nodes", plan.Step{Kind: plan.MovePages, Workload: "a", To: "1x"}, true},
		{"no nodes", plan.Step{Kind: plan.SetMems, Workload: "a"}, true},
		{"nobody's", plan.Step{Kind: plan.SetCPUs, Workload: "b", To: "4"}, true},
		{"unknown kind", plan.Step{Kind: "reboot", Workload: "a", To: "1"}, true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			// A good step comes after it: that one is not found fault with.
			good := plan.Step{Kind: plan.SetCPUs, Workload: "wide", To: "1,5"}
			got := plan.CheckPlan(st, plan.Plan{Placements: ps, Steps: []plan.Step{tt.step, good}})
			if bad := len(got) == 1 && got[0].Code == plan.StepMismatch && got[0].Workloads[0] == tt.step.Workload; bad != tt.bad || !bad && len(got) > 0 {
				t.Errorf("got %v, want a violation: %v", got, tt.bad)
			}
		})
	}
}

// TestSettleIsHall compares the flow with the definition: every union of node
// sets, here every subset of nodes, has room for the bookings inside it.
func TestSettleIsHall(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 5).Draw(t, "nodes")
		caps := make([]topology.KiB, n)
		for i := range caps {
			caps[i] = topology.KiB(rapid.IntRange(0, 12).Draw(t, "capacity"))
		}
		var bookings []plan.Booking
		var want [][]topology.KiB
		for range rapid.IntRange(0, 6).Draw(t, "bookings") {
			mask := rapid.IntRange(1, 1<<n-1).Draw(t, "nodes of a booking")
			b := plan.Booking{KiB: topology.KiB(rapid.IntRange(0, 12).Draw(t, "size"))}
			var w []topology.KiB
			for i := range n {
				if mask>>i&1 == 1 {
					b.Nodes = append(b.Nodes, i)
					w = append(w, topology.KiB(rapid.IntRange(0, 12).Draw(t, "wish")))
				}
			}
			bookings, want = append(bookings, b), append(want, w)
		}
		fits := true
		for z := 1; z < 1<<n; z++ {
			room, inside := topology.KiB(0), topology.KiB(0)
			for i := range n {
				if z>>i&1 == 1 {
					room += caps[i]
				}
			}
			for _, b := range bookings {
				if !slices.ContainsFunc(b.Nodes, func(i int) bool { return z>>i&1 == 0 }) {
					inside += b.KiB
				}
			}
			fits = fits && inside <= room
		}
		spread, full := plan.Settle(caps, bookings, want)
		if fits != (full == nil) {
			t.Fatalf("Hall says %v, flow says full=%v", fits, full)
		}
		if full != nil {
			return
		}
		left := slices.Clone(caps)
		for i, b := range bookings {
			sum := topology.KiB(0)
			for k, node := range b.Nodes {
				if spread[i][k] < 0 {
					t.Fatalf("negative share: %v", spread)
				}
				sum += spread[i][k]
				left[node] -= spread[i][k]
			}
			if sum != b.KiB {
				t.Fatalf("booking %d of %d is spread as %v", i, b.KiB, spread[i])
			}
		}
		if slices.Min(left) < 0 {
			t.Fatalf("over capacity: left %v", left)
		}
	})
}

// TestSharedCPUsOfOthers: CPUs that are right for one workload are not so for every other.
func TestSharedCPUsOfOthers(t *testing.T) {
	st := twoNodes()
	st.Policy.Split, st.Policy.Dedicated = true, topology.CPUs(4, 5, 12, 13)
	a := shared("a", topology.Nodes(1), nil, 6, 7)
	b, c, d, e := a, a, a, a
	b.Workload, b.Home = "b", topology.Nodes(0)
	c.Workload, c.Class, c.CPUs = "c", workload.Batch, topology.CPUs(4, 6)
	d.Workload, d.CPUs = "d", c.CPUs
	e.Workload, e.CPUs = "e", topology.CPUs(4, 7)
	var got []string
	for _, v := range plan.Check(st, []plan.Placement{a, b, c, d, e}) {
		got = append(got, string(v.Workloads[0])+" "+string(v.Code))
	}
	if diff := cmp.Diff([]string{"b cpu-outside-home", "d wrong-side-of-partition", "e wrong-side-of-partition"}, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
