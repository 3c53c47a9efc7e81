package homes

import (
	"strings"
	"testing"
	"time"

	"github.com/homenode/homenode/core/balance"
	"github.com/homenode/homenode/core/place"
	"github.com/homenode/homenode/core/plan"
	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/core/words"
	"github.com/homenode/homenode/core/words/wordstest"
	"github.com/homenode/homenode/core/workload"
)

// runner returns a workload with two CPUs and 1 GiB on a node.
func runner(id workload.ID, class workload.Class, node topology.NodeID) (*place.Subject, workload.Placement) {
	first := topology.CPUID(node * 8)
	p := home(id, class, node, first, first+1)
	p.Asked = 1 << 20
	if class == workload.Shared {
		p.CPUs = topology.CPUSet{}
		for i := range topology.CPUID(8) {
			p.CPUs.Add(first + i)
		}
	} else {
		p.Pins = p.CPUs.Slice()
	}
	s := &place.Subject{
		Spec:        workload.Spec{ID: id, Class: class, CPUs: 2, Memory: 1 << 20, Given: true},
		Observation: workload.Observation{ID: id, CPUs: p.CPUs, Memory: p.Memory, CPUUse: 1, RanOn: []workload.NodeShare{{Node: node, Share: 1}}, Processes: []workload.Process{{PID: 7, Start: 70}}},
	}
	return s, p
}

// orders returns the input of an order about workloads a, b and c, which have homes on nodes 0, 0 and 1.
func orders(t *testing.T) (balance.Input, []workload.Placement) {
	in := balance.Input{State: host(t).Facts}
	for _, w := range []struct {
		id   workload.ID
		node topology.NodeID
	}{{"/a", 0}, {"/b", 0}, {"/c", 1}} {
		s, p := runner(w.id, workload.Shared, w.node)
		in.Subjects = append(in.Subjects, s)
		in.State.Placements = append(in.State.Placements, p)
	}
	return in, in.State.Placements
}

// TestOrderMoves: the answer to an order has the old and the new home, and only the steps of the workload.
func TestOrderMoves(t *testing.T) {
	in, homes := orders(t)
	in.Subjects[1].Observation.CPUs = topology.CPUs(0, 15) // b has a step of its own
	next, moved, bad := Order(in, homes, "/a", topology.Nodes(1))
	if bad != nil || moved.Workload != "/a" || moved.Outcome != plan.Placed || moved.Decision.Outcome != plan.Placed {
		t.Fatalf("%+v, %+v", bad, moved)
	}
	if moved.From.String() != "0" || moved.FromCPUs.String() != "0-7" || moved.To.String() != "1" || moved.CPUs.String() != "8-15" {
		t.Errorf("%+v", moved)
	}
	if len(moved.Steps) == 0 || len(moved.Steps) == len(next.Steps) {
		t.Errorf("%d steps of %d", len(moved.Steps), len(next.Steps))
	}
	for _, s := range moved.Steps {
		if s.Workload != "/a" {
			t.Errorf("a step of %s", s.Workload)
		}
	}
	if p := place.Of(next.Placements, "/a"); p == nil || p.Home.String() != "1" {
		t.Errorf("%+v", p)
	}
}

// TestOrderKeeps: a workload that has the home already keeps it, without a step.
func TestOrderKeeps(t *testing.T) {
	in, homes := orders(t)
	_, moved, bad := Order(in, homes, "/c", topology.Nodes(1))
	if bad != nil || moved.Outcome != plan.Kept || moved.From.String() != "1" || moved.To.String() != "1" || moved.CPUs.String() != "8-15" || len(moved.Steps) != 0 {
		t.Errorf("%+v, %+v", bad, moved)
	}
}

// TestOrderRefuses: an order that cannot be carried out has the reasons and no new home.
func TestOrderRefuses(t *testing.T) {
	in, homes := orders(t)
	for id, want := range map[workload.ID]string{"/a": "/a is not moved: ", "/gone": "/gone is not moved: "} {
		_, moved, bad := Order(in, homes, id, topology.Nodes(7))
		if bad == nil || bad.Kind != NoRoom || !strings.HasPrefix(bad.Why, want) || moved == nil || moved.Outcome != plan.Refused || !moved.To.Empty() {
			t.Errorf("%s: %+v, %+v", id, bad, moved)
		}
		if had := !moved.From.Empty(); had != (id == "/a") {
			t.Errorf("%s: from %s", id, moved.From)
		}
	}
}

// TestOrderOfAside: an order places a workload that gets no home by itself, and changes no subject of the scan.
func TestOrderOfAside(t *testing.T) {
	in, homes := orders(t)
	young := words.Because(words.TooYoung)
	s := in.Subjects[0]
	s.Spec.Given, s.Aside = false, young
	in.Subjects[1].Spec.Given, in.Subjects[1].Aside = false, young
	in.State.Placements, homes = homes[2:], homes[2:]
	next, moved, bad := Order(in, homes, "/a", topology.Nodes(1))
	if bad != nil || moved.Outcome != plan.Placed || moved.To.String() != "1" || !moved.From.Empty() {
		t.Errorf("%+v, %+v", bad, moved)
	}
	if in.Subjects[0] != s || s.Aside.Code != words.TooYoung || in.Subjects[1].Aside.Code != words.TooYoung {
		t.Errorf("%+v", s)
	}
	if p := place.Of(next.Placements, "/b"); p != nil {
		t.Errorf("nobody named it: %+v", p)
	}
}

// TestOrderOfAsideToItsNode: an order for the node that would be chosen anyway places what gets no home by itself, too.
func TestOrderOfAsideToItsNode(t *testing.T) {
	in, homes := orders(t)
	in.Subjects[0].Spec.Given, in.Subjects[0].Aside = false, words.Because(words.TerminalShell)
	in.State.Placements, homes = homes[1:], homes[1:]
	next, moved, bad := Order(in, homes, "/a", topology.Nodes(0))
	if bad != nil || moved.Outcome != plan.Placed || moved.To.String() != "0" || !moved.From.Empty() {
		t.Errorf("%+v, %+v", bad, moved)
	}
	p := place.Of(next.Placements, "/a")
	if p == nil || p.Home.String() != "0" {
		t.Errorf("%+v", p)
	}
	if !wordstest.Has(moved.Decision.Reasons, words.Because(words.OrderedTo, "0")) {
		t.Errorf("%s", moved.Decision.Reasons)
	}
	for _, d := range next.Report.Decisions {
		if d.Workload == "/a" && (d.Outcome != plan.Placed || moved.Decision.Outcome != plan.Placed) {
			t.Errorf("%+v, %+v", d, moved.Decision)
		}
	}
}

// TestMovedByManager: only a workload that its manager has fixed is refused, with the command that moves it.
func TestMovedByManager(t *testing.T) {
	if MovedByManager("/a", nil) != nil || MovedByManager("/a", &workload.Claim{}) != nil {
		t.Error("not fixed")
	}
	bad := MovedByManager("/a", &workload.Claim{Fixed: true, MovedBy: "virsh vcpupin"})
	if bad == nil || bad.Kind != NoRoom || !strings.HasPrefix(bad.Why, "/a is moved by ") || !strings.HasSuffix(bad.Why, "use virsh vcpupin") {
		t.Errorf("%+v", bad)
	}
}

// TestFollow: the plan of an order becomes the newest one, with its reasons, start times and change of home saved.
func TestFollow(t *testing.T) {
	h := host(t)
	h.History.Changes = []balance.HomeChange{{Workload: "/b"}}
	older := []balance.HomeChange{{Workload: "/c"}}
	h.Orders = older[:1:1]
	h.Ledger(at())
	order := &Moved{Workload: "/a", From: topology.Nodes(0), To: topology.Nodes(1), Decision: decision("/a", plan.Placed, 1, words.Ordered)}
	next := plan.Plan{Placements: []workload.Placement{home("/a", workload.Shared, 1, 8)}}
	at := time.Date(2026, 1, 2, 3, 4, 5, 6, time.FixedZone("", 3600))
	s := h.Follow(next, order, world{"/a": 77}.scan(), at)
	if homesOf(h.Plan.Placements) != "/a@8/1 " || h.Plan.Placements[0].Start != 77 || h.HasLedger() {
		t.Errorf("%+v, ledger %v", h.Plan, h.HasLedger())
	}
	if s.Admissions != nil || homesOf(s.Placements.All()) != "/a@8/1 " || s.Chosen["/a"].Reasons[0].Code != words.Ordered || h.Unsaved() {
		t.Errorf("%+v", s)
	}
	if len(s.Past) != 3 || s.Past[0].Workload != "/b" || s.Past[1].Workload != "/c" || len(h.Orders) != 2 {
		t.Errorf("%+v", s.Past)
	}
	last := s.Past[2]
	if last.Workload != "/a" || last.From.String() != "0" || last.To.String() != "1" || last.At != at.UTC() {
		t.Errorf("%+v", last)
	}
}
