package guest

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/homenode/homenode/core/plan"
	"github.com/homenode/homenode/core/plan/plantest"
	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/core/words"
	"github.com/homenode/homenode/core/workload"
)

func catalogue(t testing.TB) Catalogue {
	t.Helper()
	c, err := ReadCatalogue(strings.NewReader(Example), "flavors.yaml")
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func flavor(t testing.TB, name string) Flavor {
	t.Helper()
	f, err := catalogue(t).Find(name)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func TestExampleCatalogue(t *testing.T) {
	c := catalogue(t)
	families := map[string]int{}
	for _, f := range c {
		families[f.Family]++
		if want := min(f.VCPUs, MaxQueues); f.Queues != want {
			t.Errorf("%s: %d queues, want %d", f.Name, f.Queues, want)
		}
	}
	dedicated := 0
	for _, f := range c {
		if f.Class == workload.Dedicated {
			dedicated++
		} else if f.Family != "shared" {
			t.Errorf("%s of family %s is %s", f.Name, f.Family, f.Class)
		}
	}
	if dedicated != 18 || len(c) != 23 || len(families) != 5 {
		t.Errorf("%d sizes, %d of them dedicated, in families %v; want 23, 18 dedicated, in 5", len(c), dedicated, families)
	}
	for _, want := range []string{"general", "compute", "memory", "local-SSD", "shared"} {
		if families[want] == 0 {
			t.Errorf("no family %q", want)
		}
	}
}

func TestReadCatalogueErrors(t *testing.T) {
	const ok = "name: a, vcpus: 2, memory: 4GiB"
	tests := []struct{ text, want string }{
		{"", "f.yaml: no flavor in it"},
		{"flavors:\n- name: a\n  memory: 5\n", "f.yaml: line 3 column 11: flavors[0].memory: 5; want a size with a unit, such as 16GiB"},
		{"flavors: []", "f.yaml: no flavor in it"},
		{"flavors: [{name: a, cpus: 2}]", `unknown key "cpus"`},
		{"flavours: []", `unknown key "flavours"`},
		{"{", "f.yaml: "},
		{"flavors: [{vcpus: 2, memory: 1GiB}]", `flavor 1 (""): name: empty`},
		{"flavors: [{name: a, memory: 1GiB}]", `flavor 1 ("a"): vcpus: 0; want 1 to 4096`},
		{"flavors: [{name: a, vcpus: 2}]", "memory: 0 KiB; want whole MiB, up to 64TiB"},
		{"flavors: [{name: a, vcpus: 2, memory: 1500KiB}]", "memory: 1500 KiB; want whole MiB"},
		{"flavors: [{name: a, vcpus: 2, memory: lots}]", "memory: lots; want a size with a unit"},
		{"flavors: [{" + ok + ", class: gold}]", `class: "gold"; want dedicated, shared, mixed or batch`},
		{"flavors: [{" + ok + ", huge_pages: 3MiB}]", "huge_pages: 4194304 KiB of memory are no whole number of pages of 3072 KiB"},
		{"flavors: [{" + ok + ", smt: maybe}]", `smt: "maybe"`},
		{"flavors: [{" + ok + ", emulator: maybe}]", `emulator: "maybe"`},
		{"flavors: [{" + ok + ", emulator: isolate}]", "a shared guest floats with all its threads"},
		{"flavors: [{" + ok + ", nic_queues: 1000}]", "nic_queues: 1000; want 1 to 256"},
		{"flavors: [{" + ok + ", iothreads: -1}]", "iothreads: -1"},
		{"flavors: [{" + ok + ", nvme: -1}]", "nvme: -1"},
		{"flavors: [{" + ok + ", importance: 101}]", "importance: 101"},
		{"flavors: [{" + ok + ", slo: 'most=0.1%'}]", "slo: most: 0.1 %; want"},
		{"flavors: [{" + ok + ", slo: of=command}]", "only the operator's configuration names commands"},
		{"flavors: [{" + ok + ", class: batch, slo: most=5%}]", "a batch guest gives way"},
		{"flavors: [{" + ok + ", max_nodes: -1}]", "max_nodes: -1"},
		{"flavors: [{" + ok + ", disk: {iops: -1}}]", "disk: -1"},
		{"flavors: [{" + ok + "}, {" + ok + "}]", `flavor 2 ("a"): name: there is one of that name above`},
	}
	for _, tt := range tests {
		_, err := ReadCatalogue(strings.NewReader(tt.text), "f.yaml")
		if err == nil || !strings.Contains(err.Error(), tt.want) || strings.ContainsAny(err.Error(), "\n\r") {
			t.Errorf("%s:\n got %v\nwant %s, on one line", tt.text, err, tt.want)
		}
	}
}

func TestDiskLimitGrowsWithTheVolume(t *testing.T) {
	d := DiskLimit{IOPS: 1800, IOPSPerGiB: 30, MostIOPS: 20000, Rate: 1 << 10, RatePerGiB: 512, MostRate: 10 << 10}
	for _, tt := range []struct {
		gib  topology.KiB
		iops int64
		rate topology.KiB
	}{{0, 1800, 1024}, {10, 2100, 6144}, {40, 3000, 10240}, {2000, 20000, 10240}} {
		if iops, rate := d.For(tt.gib << 20); iops != tt.iops || rate != tt.rate {
			t.Errorf("%d GiB: %d, %d; want %d, %d", tt.gib, iops, rate, tt.iops, tt.rate)
		}
	}
	if iops, rate := (DiskLimit{}).For(1 << 30); iops != 0 || rate != 0 {
		t.Errorf("no limit: %d, %d", iops, rate)
	}
}

// seed is the machine that flavors of 8 vCPUs and 16 GiB were published for: two
// sockets of 20 cores with two threads, one core on each number kept for the host.
func seed(t testing.TB, numbering string) plan.State {
	t.Helper()
	h, err := topology.FromSynthetic("package:2 node:1(memory=192GiB) core:20 pu:2 numbering=" + numbering)
	if err != nil {
		t.Fatal(err)
	}
	st := plan.State{Host: h, Policy: plan.DefaultPolicy()}
	st.Policy.Reserved = topology.CPUs(0, 1, 40, 41)
	return st
}

func room(t testing.TB, st plan.State, drives ...string) *Room {
	t.Helper()
	r, err := NewRoom(st, nil, drives)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// fill places guests of a flavor until one is refused, and checks them all.
func fill(t testing.TB, st plan.State, f Flavor, maxNodes int) (homes []Home, last plan.Decision) {
	t.Helper()
	r := room(t, st)
	for i := range 1000 {
		h, d := r.Place(&Order{Flavor: f, Name: fmt.Sprintf("g%d", i), MaxNodes: maxNodes})
		if d.Outcome != plan.Placed {
			if bad := plan.Check(st, r.Placements()); len(bad) > 0 {
				t.Fatalf("plan.Check: %v", bad)
			}
			return homes, d
		}
		r.Commit(h)
		homes = append(homes, h)
	}
	t.Fatal("a thousand guests fit")
	return nil, last
}

func TestPublishedHostTakesNine(t *testing.T) {
	f := flavor(t, "c1.xlarge")
	tests := []struct {
		numbering    string
		maxNodes     int
		whole, split int
	}{
		{"block", 0, 9, 0},
		{"interleaved", 0, 8, 0},
		{"interleaved", 2, 8, 1},
	}
	for _, tt := range tests {
		homes, last := fill(t, seed(t, tt.numbering), f, tt.maxNodes)
		whole, split := 0, 0
		for _, h := range homes {
			if h.Placement.Home.Len() == 1 {
				whole++
			} else {
				split++
			}
			if h.Emulator.Empty() || !h.Emulator.SubsetOf(topology.CPUs(0, 1, 40, 41)) {
				t.Errorf("%s: emulator on CPUs %v", tt.numbering, h.Emulator)
			}
		}
		if whole != tt.whole || split != tt.split {
			t.Errorf("%s, up to %d nodes: %d whole and %d split; want %d and %d", tt.numbering, tt.maxNodes, whole, split, tt.whole, tt.split)
		}
		if last.Outcome != plan.Refused || len(last.Reasons) == 0 {
			t.Errorf("%s: the last is %s: %v", tt.numbering, last.Outcome, last.Reasons)
		}
	}
}

func TestEmulatorPolicies(t *testing.T) {
	f := flavor(t, "c1.large")
	st := seed(t, "interleaved")
	f.Emulator = Share
	if h, _ := room(t, st).Place(&Order{Flavor: f, Name: "a"}); !h.Emulator.Equal(h.Placement.CPUs) || h.Spare != nil {
		t.Errorf("share: emulator on CPUs %v, guest on %v", h.Emulator, h.Placement.CPUs)
	}
	f.Emulator = Housekeeping
	h, _ := room(t, st).Place(&Order{Flavor: f, Name: "a"})
	// CPUs 0 and 40 are on node 0, 1 and 41 on node 1.
	if want := map[string]string{"0": "0,40", "1": "1,41"}[h.Placement.Home.String()]; h.Emulator.String() != want {
		t.Errorf("housekeeping: emulator on CPUs %v for home %v", h.Emulator, h.Placement.Home)
	}
	f.Emulator = Isolate
	h, _ = room(t, st).Place(&Order{Flavor: f, Name: "a"})
	if h.Emulator.Len() != 1 || h.Emulator.Intersects(h.Placement.CPUs) || !h.Spare.Home.Equal(h.Placement.Home) {
		t.Errorf("isolate: emulator on CPUs %v of node %v, guest on %v of node %v", h.Emulator, h.Spare.Home, h.Placement.CPUs, h.Placement.Home)
	}
	for _, e := range []Emulator{Share, Isolate, Housekeeping} {
		f.Emulator = e
		r := room(t, st)
		if _, d := r.Place(&Order{Flavor: f, Name: "a"}); d.Outcome != plan.Placed || len(r.Placements()) != 0 {
			t.Errorf("%s: asking left %v in the room", e, r.Placements())
		}
	}
	st.Policy.Reserved = topology.CPUSet{}
	f.Emulator = Housekeeping
	if _, d := room(t, st).Place(&Order{Flavor: f, Name: "a"}); d.Outcome != plan.Refused || d.Reasons[0].Code != words.NothingReserved {
		t.Errorf("housekeeping without reserved CPUs: %s %v", d.Outcome, d.Reasons)
	}
}

// A node that holds a guest to the last CPU has none for its emulator: the next
// node takes both, and where there is none the guest is refused.
func TestIsolatedEmulatorNeedsRoomBesideItsGuest(t *testing.T) {
	st := plan.State{Policy: plan.DefaultPolicy(), Host: plantest.Draw(`
		0 0-3  16G 10 21
		1 4-9  16G 21 10`)}
	f := Flavor{Name: "x", Class: workload.Dedicated, VCPUs: 4, Memory: 1 << 20, SMT: workload.SMTPrefer, MaxNodes: 1, Emulator: Isolate, Queues: 1}
	r := room(t, st)
	h, d := r.Place(&Order{Flavor: f, Name: "a"})
	if d.Outcome != plan.Placed || h.Placement.Home.String() != "1" || !h.Spare.Home.Equal(topology.Nodes(1)) {
		t.Fatalf("%s at %v, emulator %v: %v", d.Outcome, h.Placement.Home, h.Emulator, d.Reasons)
	}
	r.Commit(h)
	if _, d = r.Place(&Order{Flavor: f, Name: "b"}); d.Outcome != plan.Refused || d.Reasons[0].Code != words.EmulatorNoCPU {
		t.Errorf("the next: %s %v", d.Outcome, d.Reasons)
	}
	if got := r.Placements(); len(got) != 2 {
		t.Errorf("a refused guest left something: %v", got)
	}
}

func TestDrivesAreGivenOnceAndOnlyThoseNamed(t *testing.T) {
	st := plan.State{Policy: plan.DefaultPolicy(), Host: plantest.Draw(`
		0 0-7  64G 10 21
		1 8-15 64G 21 10`)}
	for i, n := range []topology.NodeID{0, 0, 1, 1} {
		st.Host.Devices = append(st.Host.Devices, topology.Device{Name: fmt.Sprintf("nvme%dn1", i), Kind: topology.NVMe, PCI: fmt.Sprintf("0000:0%d:00.0", i), Node: n})
	}
	f := flavor(t, "i1.large")
	r := room(t, st, "nvme1n1", "0000:02:00.0", "nvme2n1")
	var given []string
	for i := range 2 {
		h, d := r.Place(&Order{Flavor: f, Name: fmt.Sprint("g", i)})
		if d.Outcome != plan.Placed || len(h.NVMe) != 1 || !h.Placement.Home.Has(h.NVMe[0].Node) {
			t.Fatalf("guest %d: %s at %v with %v: %v", i, d.Outcome, h.Placement.Home, h.NVMe, d.Reasons)
		}
		r.Commit(h)
		given = append(given, h.NVMe[0].Name)
	}
	if slices.Sort(given); !slices.Equal(given, []string{"nvme1n1", "nvme2n1"}) {
		t.Errorf("given: %v", given)
	}
	if _, d := r.Place(&Order{Flavor: f, Name: "g2"}); d.Outcome != plan.Refused || d.Reasons[0].Code != words.NoFreeDrives {
		t.Errorf("a third: %s %v", d.Outcome, d.Reasons)
	}
	// One that a guest has is not free.
	r, err := NewRoom(st, []Guest{{Name: "old", Spec: workload.Spec{ID: ID("old")}, Drives: []string{"0000:01:00.0"},
		Home: Home{Placement: plan.Placement{Workload: ID("old"), Class: workload.Shared, VCPUs: 1, Home: topology.Nodes(0), CPUs: topology.CPUs(0)}}}}, []string{"nvme1n1"})
	if err != nil {
		t.Fatal(err)
	}
	if _, d := r.Place(&Order{Flavor: f, Name: "g"}); d.Outcome != plan.Refused {
		t.Errorf("with a drive that another holds: %s", d.Outcome)
	}
	if _, d := r.Place(&Order{Flavor: f, Name: "old"}); d.Reasons[0].Code != words.GuestExists {
		t.Errorf("a name twice: %v", d.Reasons)
	}
	if _, err := NewRoom(st, nil, []string{"sda"}); err == nil {
		t.Error("no error for a drive that is not there")
	}
}

func TestCapacityIsWhatFits(t *testing.T) {
	st := seed(t, "block")
	r := room(t, st)
	for _, n := range r.Capacity(catalogue(t), false) {
		if n.Flavor.HugePage > 0 || n.Flavor.NVMe > 0 {
			if n.Now != 0 {
				t.Errorf("%s: %d fit without huge pages or drives", n.Flavor.Name, n.Now)
			}
			continue
		}
		homes, _ := fill(t, st, n.Flavor, 0)
		if n.Now != len(homes) || n.Why.None() || n.Repacked != n.Now {
			t.Errorf("%s: %d fit (%s); %d were placed", n.Flavor.Name, n.Now, n.Why, len(homes))
		}
	}
	if len(r.Placements()) != 0 {
		t.Error("counting left something in the room")
	}
}

// Two guests of two CPUs, one on each node of four, leave no room for one of four
// until one of them moves; one that is bound by hand does not.
func TestCapacityAfterRepacking(t *testing.T) {
	st := plan.State{Policy: plan.DefaultPolicy(), Host: plantest.Draw(`
		0 0-3 16G 10 21
		1 4-7 16G 21 10`)}
	small := Flavor{Name: "small", Class: workload.Dedicated, VCPUs: 2, Memory: 1 << 20, SMT: workload.SMTPrefer, MaxNodes: 1, Emulator: Share, Queues: 1}
	large := small
	large.Name, large.VCPUs = "large", 4
	var guests []Guest
	for n := range 2 {
		o := Order{Flavor: small, Name: fmt.Sprint("s", n), Nodes: topology.Nodes(topology.NodeID(n))}
		h, d := room(t, st).Place(&o)
		if d.Outcome != plan.Placed {
			t.Fatal(d.Reasons)
		}
		s := guestOf(&o, h)
		s.Spec.Nodes = topology.NodeSet{}
		guests = append(guests, s)
	}
	for _, tt := range []struct {
		manual        string
		now, repacked int
	}{{"", 0, 1}, {"bound by hand", 0, 0}} {
		for i := range guests {
			guests[i].Manual = tt.manual
		}
		r, err := NewRoom(st, guests, nil)
		if err != nil {
			t.Fatal(err)
		}
		got := r.Capacity(Catalogue{large, small}, true)
		if got[0].Now != tt.now || got[0].Repacked != tt.repacked || got[1].Now != 2 || got[1].Repacked != 2 {
			t.Errorf("held by %q: %d and %d large, %d and %d small; want %d and %d, 2 and 2", tt.manual, got[0].Now, got[0].Repacked, got[1].Now, got[1].Repacked, tt.now, tt.repacked)
		}
	}
}

// guestOf is a guest as its document would tell.
func guestOf(o *Order, h Home) Guest {
	s := Guest{Name: o.Name, Flavor: o.Flavor.Name, Spec: o.Spec(), Home: h, Composed: h.Composed, Placed: true, Emulator: o.Flavor.Emulator}
	s.Spec.MaxNodes = 0
	return s
}

func TestMove(t *testing.T) {
	st := seed(t, "block")
	o := Order{Flavor: flavor(t, "r1.2xlarge"), Name: "a", Nodes: topology.Nodes(0)}
	o.Flavor.HugePage = 0
	h, _ := room(t, st).Place(&o)
	s := guestOf(&o, h)
	r, err := NewRoom(st, []Guest{s}, nil)
	if err != nil {
		t.Fatal(err)
	}
	before := fmt.Sprint(r.Placements())
	if _, d := r.Move(&s, topology.NodeSet{}); d.Outcome != plan.Kept {
		t.Errorf("alone on the host it would move: %s %v", d.Outcome, d.Reasons)
	}
	to, d := r.Move(&s, topology.Nodes(1))
	if d.Outcome != plan.Placed || to.Placement.Home.String() != "1" || to.Spare == nil || to.Spare.Home.String() != "1" {
		t.Fatalf("to node 1: %s %+v", d.Outcome, to)
	}
	if after := fmt.Sprint(r.Placements()); after != before {
		t.Errorf("asking changed the room:\n%s\n%s", before, after)
	}
	r.Commit(to)
	if got := r.Placements(); len(got) != 2 || got[0].Home.String() != "1" || got[1].Home.String() != "1" {
		t.Errorf("after the move: %+v", got)
	}
	if _, d := r.Move(&s, topology.Nodes(7)); d.Outcome != plan.Refused {
		t.Errorf("to a node that is not there: %s", d.Outcome)
	}
}

// A dedicated guest that runs on some CPUs and will start on others keeps both.
func TestNextStartKeepsItsCPUs(t *testing.T) {
	st := seed(t, "block")
	o := Order{Flavor: flavor(t, "r1.2xlarge"), Name: "a", Nodes: topology.Nodes(0)}
	o.Flavor.HugePage = 0
	now, _ := room(t, st).Place(&o)
	s := guestOf(&o, now)
	s.Spec.Nodes = topology.NodeSet{}
	r, err := NewRoom(st, []Guest{s}, nil)
	if err != nil {
		t.Fatal(err)
	}
	next, _ := r.Move(&s, topology.Nodes(1))
	s.Next = &next
	if r, err = NewRoom(st, []Guest{s}, nil); err != nil {
		t.Fatal(err)
	}
	if bad := plan.Check(st, r.Placements()); len(bad) > 0 || len(r.Placements()) != 4 {
		t.Fatalf("%d placements, %v", len(r.Placements()), bad)
	}
	f := flavor(t, "c1.medium")
	for i := range 100 {
		h, d := r.Place(&Order{Flavor: f, Name: fmt.Sprint("g", i)})
		if d.Outcome != plan.Placed {
			break
		}
		taken := now.Placement.CPUs.Union(now.Emulator).Union(next.Placement.CPUs).Union(next.Emulator)
		if h.Placement.CPUs.Intersects(taken) {
			t.Fatalf("g%d on CPUs %v; kept are %v", i, h.Placement.CPUs, taken)
		}
		r.Commit(h)
	}
	before := fmt.Sprint(r.Placements())
	back, d := r.Move(&s, topology.Nodes(0))
	if d.Outcome != plan.Kept || !back.Placement.Home.Equal(topology.Nodes(0)) {
		t.Errorf("back to node 0: %s %v", d.Outcome, d.Reasons)
	}
	if after := fmt.Sprint(r.Placements()); after != before {
		t.Errorf("asking changed the room:\n%s\n%s", before, after)
	}
	r.Commit(back)
	for _, p := range r.Placements() {
		if strings.HasSuffix(string(p.Workload), "/next") {
			t.Errorf("%s is still kept", p.Workload)
		}
	}
}

func drawFlavor(t *rapid.T) Flavor {
	f := Flavor{
		Name: "f", Class: rapid.SampledFrom([]workload.Class{workload.Dedicated, workload.Dedicated, workload.Shared}).Draw(t, "class"),
		VCPUs:    rapid.SampledFrom([]int{1, 2, 3, 4, 6, 8, 16}).Draw(t, "vCPUs"),
		Memory:   topology.KiB(rapid.SampledFrom([]int{64, 512, 1 << 10, 3 << 10, 8 << 10, 20 << 10}).Draw(t, "MiB")) << 10,
		SMT:      rapid.SampledFrom([]workload.SMTPolicy{workload.SMTPrefer, workload.SMTIsolate, workload.SMTRequire}).Draw(t, "SMT"),
		MaxNodes: rapid.IntRange(0, 3).Draw(t, "nodes"), Importance: rapid.IntRange(0, 100).Draw(t, "importance"),
		Emulator: Share, Queues: 1,
	}
	if rapid.IntRange(0, 2).Draw(t, "huge") == 0 {
		f.HugePage = 2048
	}
	if f.Class == workload.Dedicated {
		f.Emulator = rapid.SampledFrom([]Emulator{Share, Isolate, Housekeeping}).Draw(t, "emulator")
	}
	return f
}

// TestAnyCatalogueOnAnyHost: whatever is ordered in whatever order, placements
// can all hold at once (plan.Check: no dedicated CPU twice, no pool overdrawn),
// and no emulator that is kept apart runs where a vCPU has a CPU of its own.
func TestAnyCatalogueOnAnyHost(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		st := plantest.State(4).Draw(t, "host")
		r, err := NewRoom(st, nil, nil)
		if err != nil {
			t.Fatal(err)
		}
		var emulators topology.CPUSet
		var isolated topology.CPUSet
		var moved []Guest
		for i := range rapid.IntRange(1, 12).Draw(t, "orders") {
			o := Order{Flavor: drawFlavor(t), Name: fmt.Sprint("g", i)}
			h, d := r.Place(&o)
			if d.Outcome != plan.Placed {
				if len(d.Reasons) == 0 {
					t.Fatalf("%s without a reason", d.Outcome)
				}
				continue
			}
			r.Commit(h)
			if o.Flavor.Emulator != Isolate && rapid.Bool().Draw(t, "moved") {
				moved = append(moved, guestOf(&o, h))
			}
			if o.Flavor.Class != workload.Dedicated {
				continue
			}
			if h.Emulator.Empty() {
				t.Fatalf("no CPU for the emulator: %+v", h)
			}
			if o.Flavor.Emulator != Share {
				emulators = emulators.Union(h.Emulator)
			}
			if o.Flavor.Emulator == Isolate {
				if isolated.Intersects(h.Emulator) {
					t.Fatalf("CPUs %v twice for emulators", h.Emulator)
				}
				isolated = isolated.Union(h.Emulator)
			}
		}
		// Moving guests about keeps the room in order, and asking changes nothing.
		for i := range moved {
			before := fmt.Sprint(r.Placements())
			h, d := r.Move(&moved[i], topology.NodeSet{})
			if after := fmt.Sprint(r.Placements()); after != before {
				t.Fatalf("asking changed the room:\n%s\n%s", before, after)
			}
			if d.Outcome == plan.Placed {
				r.Commit(h)
			}
		}
		all := r.Placements()
		if bad := plan.Check(st, all); len(bad) > 0 {
			t.Fatalf("plan.Check: %v", bad)
		}
		for _, p := range all {
			if !strings.HasSuffix(string(p.Workload), "/emulator") && topology.CPUs(p.Pins...).Intersects(emulators) {
				t.Fatalf("vCPUs of %s on CPUs %v, emulators on %v", p.Workload, p.Pins, emulators)
			}
		}
	})
}

// TestCountingWithMoves: what is counted can all hold at once, moved or not, and
// moving never makes room for fewer.
func TestCountingWithMoves(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		st := plantest.State(3).Draw(t, "host")
		var guests []Guest
		r, _ := NewRoom(st, nil, nil)
		for i := range rapid.IntRange(0, 4).Draw(t, "guests") {
			o := Order{Flavor: drawFlavor(t), Name: fmt.Sprint("g", i)}
			h, d := r.Place(&o)
			if d.Outcome == plan.Placed {
				r.Commit(h)
				guests = append(guests, guestOf(&o, h))
			}
		}
		for i := range guests { // as they are in the end: others change where one floats
			for _, p := range r.Placements() {
				if p.Workload == guests[i].Spec.ID {
					guests[i].Home.Placement = p
				}
			}
		}
		r, err := NewRoom(st, guests, nil)
		if err != nil {
			t.Fatal(err)
		}
		f := drawFlavor(t)
		f.VCPUs, f.Memory = max(2, f.VCPUs), max(1<<20, f.Memory) // a few, not hundreds
		asIs, moved := r.clone(), r.clone()
		a, b := asIs.count(f, false), moved.count(f, true)
		if a.Now != b.Now || b.Repacked < b.Now || a.Repacked != a.Now || !a.Why.Equal(b.Why) || a.Why.None() {
			t.Fatalf("%+v, with moves %+v", a, b)
		}
		if bad := plan.Check(st, moved.Placements()); len(bad) > 0 {
			t.Fatalf("plan.Check: %v", bad)
		}
	})
}

func TestParseDiskAndNIC(t *testing.T) {
	disks := []struct {
		text string
		want Disk
		err  string
	}{
		{"/a/b.qcow2", Disk{Source: "/a/b.qcow2", Format: "qcow2"}, ""},
		{"/a/b.img,size=10GiB", Disk{Source: "/a/b.img", Format: "raw", Size: 10 << 20}, ""},
		{"/dev/vg/lv,format=raw", Disk{Source: "/dev/vg/lv", Format: "raw"}, ""},
		{"b.img", Disk{}, "absolute path"},
		{"/a,format=vmdk", Disk{}, "want raw or qcow2"},
		{"/a,size=big", Disk{}, "with a unit"},
		{"/a,speed=9", Disk{}, "no option"},
		{"/a\nb", Disk{}, "absolute path"},
	}
	for _, tt := range disks {
		got, err := ParseDisk(tt.text)
		if tt.err == "" && (err != nil || got != tt.want) || tt.err != "" && (err == nil || !strings.Contains(err.Error(), tt.err)) {
			t.Errorf("disk %q: %+v, %v", tt.text, got, err)
		}
	}
	nics := []struct {
		text string
		want NIC
		err  string
	}{
		{"bridge=br0", NIC{Bridge, "br0", ""}, ""},
		{"network=default,mac=52:54:00:AB:cd:01", NIC{Network, "default", "52:54:00:ab:cd:01"}, ""},
		{"direct=eth0", NIC{Direct, "eth0", ""}, ""},
		{"br0", NIC{}, "want bridge=NAME"},
		{"bridge=", NIC{}, "is no name"},
		{"bridge=a b", NIC{}, "is no name"},
		{"bridge=br0,mac=53:54:00:ab:cd:01", NIC{}, "want mac="}, // multicast
		{"bridge=br0,mac=52:54:00:ab:cd", NIC{}, "want mac="},
		{"bridge=br0,", NIC{}, "want mac="},
	}
	for _, tt := range nics {
		got, err := ParseNIC(tt.text)
		if tt.err == "" && (err != nil || got != tt.want) || tt.err != "" && (err == nil || !strings.Contains(err.Error(), tt.err)) {
			t.Errorf("nic %q: %+v, %v", tt.text, got, err)
		}
	}
}

func TestNamesAndUUIDs(t *testing.T) {
	for _, good := range []string{"web1", "Ünï cödé", "a.b_c-d", strings.Repeat("x", 128)} {
		if err := CheckName(good); err != nil {
			t.Errorf("%q: %v", good, err)
		}
	}
	for _, bad := range []string{"", "a/b", "a\nb", " a", "-a", "..", "\xff", strings.Repeat("x", 129)} {
		if CheckName(bad) == nil {
			t.Errorf("%q: no error", bad)
		}
	}
	if u, err := ParseUUID("6695EB01-F6A4-8304-79AA-97F2502E193F"); err != nil || u != "6695eb01-f6a4-8304-79aa-97f2502e193f" {
		t.Errorf("UUID: %q, %v", u, err)
	}
	for _, bad := range []string{"x", "6695eb01f6a4830479aa97f2502e193f", "6695eb01-f6a4-8304-79aa-97f2502e193g"} {
		if _, err := ParseUUID(bad); err == nil {
			t.Errorf("UUID %q: no error", bad)
		}
	}
}

func FuzzReadCatalogue(f *testing.F) {
	f.Add(Example)
	f.Add("flavors: [{name: a, vcpus: 2, memory: 4GiB, disk: {iops: 1, rate: 1MiB}}]")
	f.Fuzz(func(t *testing.T, text string) {
		c, err := ReadCatalogue(strings.NewReader(text), "f")
		if err != nil {
			if strings.ContainsAny(err.Error(), "\n\r") {
				t.Errorf("more than one line: %q", err)
			}
			return
		}
		for i := range c {
			if err := c[i].validate(); err != nil {
				t.Errorf("read and not valid: %v", err)
			}
		}
	})
}
