package libvirt

import (
	"strings"
	"testing"

	"github.com/homenode/homenode/core/guest"
	"github.com/homenode/homenode/core/plan"
	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/core/words"
	"github.com/homenode/homenode/core/workload"
	"github.com/homenode/homenode/host/libvirt/domain"
)

// composedXML is a guest of two cells: vCPU 0 of the first floats, vCPU 1 and all of the
// second have CPUs of their own.
func composedXML(t *testing.T, name string) string {
	t.Helper()
	c, err := guest.ReadCatalogue(strings.NewReader(`flavors:
- {name: f, class: mixed, vcpus: 4, dedicated_vcpus: 1-3, memory: 4GiB, cells: [{vcpus: 0-1, memory: 1GiB}, {vcpus: 2-3, memory: 3GiB}]}`), "f")
	if err != nil {
		t.Fatal(err)
	}
	return definedXML(t, guest.Order{Flavor: c[0], Name: name})
}

// definedXML is a definition as vm define writes it on an empty host of two nodes.
func definedXML(t *testing.T, o guest.Order) string {
	t.Helper()
	r, err := guest.NewRoom(plan.State{Host: twoNodes(), Policy: plan.DefaultPolicy()}, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	h, d := r.Place(&o)
	if d.Outcome != plan.Placed {
		t.Fatal(d.Reasons)
	}
	doc, err := domain.New(twoNodes(), &o, h, domain.Machine{Arch: "x86_64"})
	if err != nil {
		t.Fatal(err)
	}
	return doc.String()
}

// What floats of a guest that was placed cell by cell makes way for others, what has CPUs of
// its own keeps them, and undo puts back what floated.
func TestDriverAndAComposedGuest(t *testing.T) {
	f := startFake(t)
	config := composedXML(t, "a")
	g := f.add(t, "a", strings.Replace(config, "<domain", "<domain id='7'", 1), config)
	f.edit(func() { g.threads = []uint32{1} })
	w := watch(t)
	s := look(t, w)[0]
	if s.Manual != "" || s.Composed == nil {
		t.Fatalf("%+v", s.Guest)
	}
	claims, _ := w.Claims(twoNodes())
	floats := s.Home.Placement.CPUs
	if got := brief(claims[0]); got != "vm:a "+floats.String()+"/0-1 home(vm:a shared "+floats.String()+"/0) holds(vm:a/pinned dedicated "+s.Home.Apart[0].CPUs.String()+"/0-1) holds(vm:a/pages-0 dedicated /1) next "+
		floats.String()+"/0-1 ours home(vm:a shared "+floats.String()+"/0)" {
		t.Errorf("%s", got)
	}
	if c := claims[0]; c.Spec.Nodes.String() != "0" || c.Spec.MinNodes != 1 || !c.Caps.MemoryStays || c.Alone.Code != (words.Reason{}).Code {
		t.Errorf("%+v", c)
	}
	to := topology.CPUs(floats.Max())
	before := s.Home.VCPUs
	entry := do(t, w, step(plan.SetCPUs, "a", to.String()))
	next := do(t, w, step(plan.SetNext, "a", to.String()+"/0-1"))
	now := look(t, w)[0]
	if now.Manual != "" || !now.Home.VCPUs[0].Equal(to) || !now.Defined.Home.VCPUs[0].Equal(to) || !now.BoundCPUs.Equal(to) {
		t.Errorf("it stands as %+v, defined %+v", now.Guest, now.Defined)
	}
	for v := 1; v < 4; v++ {
		if !now.Home.VCPUs[v].Equal(before[v]) || !now.Defined.Home.VCPUs[v].Equal(before[v]) {
			t.Errorf("vCPU %d went from %v to %v", v, before[v], now.Home.VCPUs[v])
		}
	}
	for _, e := range []plan.Entry{next, entry} {
		if err := restore(t, w, e); err != nil {
			t.Fatal(err)
		}
	}
	if back := look(t, w)[0]; back.Manual != "" || !back.Home.VCPUs[0].Equal(before[0]) || !back.Defined.Home.VCPUs[0].Equal(before[0]) {
		t.Errorf("put back it stands as %+v", back.Guest)
	}
	if _, after := g.now(); after != config {
		t.Errorf("its definition is not as it was:\n%s\n%s", after, config)
	}
}

// A guest that something else defined is placed as a dedicated one, and released to the byte.
func TestPlaceAsDedicated(t *testing.T) {
	f := startFake(t)
	g := f.add(t, "a", "", plainXML("a", 0))
	w := watch(t)
	look(t, w)
	entry := do(t, w, step(plan.SetNext, "a", "0=4 1=5 emulator=4-5/0"))
	if s := look(t, w)[0]; !s.Placed || s.Manual != "" || s.Spec.Class != "dedicated" || s.Home.Placement.Pins[1] != 5 || s.Mode != "strict" {
		t.Errorf("%+v", s.Guest)
	}
	if err := restore(t, w, entry); err != nil {
		t.Fatal(err)
	}
	if _, config := g.now(); config != plainXML("a", 0) {
		t.Errorf("put back:\n%s", config)
	}
}

// wideXML is a floating guest of two equal cells, as vm define writes one that is wider than a
// node.
func wideXML(t *testing.T, name string) string {
	t.Helper()
	f := guest.Flavor{Name: "f", Class: workload.Shared, VCPUs: 6, Memory: 2 << 20, ExactNodes: 2, SMT: workload.SMTPrefer, Emulator: guest.Share, Importance: 50, Queues: 1}
	return definedXML(t, guest.Order{Flavor: f, Name: name})
}

// Each cell of a floating guest is a workload of its own: moved by itself as it runs and in the
// definition, its emulator follows, the other cell stays; undo brings back the same bytes.
func TestCellsMoveOneByOne(t *testing.T) {
	f := startFake(t)
	config := wideXML(t, "a")
	g := f.add(t, "a", strings.Replace(config, "<domain", "<domain id='7'", 1), config)
	f.edit(func() { g.threads = []uint32{1} })
	w := watch(t)
	s := look(t, w)[0]
	if s.Manual != "" || !s.Composed.Floats() {
		t.Fatalf("%+v", s.Guest)
	}
	claims, _ := w.Claims(twoNodes())
	first, second := s.Home.Apart[0].CPUs, s.Home.Apart[1].CPUs
	if len(claims) < 3 || claims[0].Alone.Code != words.GuestInCells || claims[0].Home != nil || claims[0].Holds != nil {
		t.Fatalf("%+v", claims)
	}
	for k, c := range claims[1:3] {
		cpus := []topology.CPUSet{first, second}[k]
		if c.ID != guest.CellID("a", k) || c.Part.Of != "vm:a" || c.Part.VCPUs.Len() != 3 || c.Part.Memory != topology.NodeID(k) || !c.Home.CPUs.Equal(cpus) || c.Spec.CPUs != 3 ||
			c.Spec.Memory != 1<<20 || c.Spec.MaxNodes != 1 || c.Spec.Nodes.String() != []string{"0", "1"}[k] || !c.Alone.None() || c.Next == nil || !c.Next.Ours {
			t.Errorf("cell %d: %+v", k, c)
		}
	}
	to := topology.CPUs(first.Min())
	cell := func(kind plan.StepKind, to string) plan.Step {
		x := step(kind, "a", to)
		x.Workload = guest.CellID("a", 1)
		return x
	}
	next := do(t, w, cell(plan.SetNext, to.String()+"/0"))
	entry := do(t, w, cell(plan.SetCPUs, to.String()))
	now := look(t, w)[0]
	if now.Manual != "" || !now.Home.VCPUs[5].Equal(to) || now.Home.Cells[1] != 0 || !now.Home.VCPUs[0].Equal(first) || !now.Home.Emulator.Equal(first.Union(to)) {
		t.Errorf("it stands as %q, %+v", now.Manual, now.Home)
	}
	if d := now.Defined; d.Manual != "" || d.Home.Cells[1] != 0 || d.Asked[1] != 0 || now.Asked[1] != 1 || !d.Home.VCPUs[5].Equal(to) {
		t.Errorf("defined %+v", d.Home)
	}
	for _, e := range []plan.Entry{next, entry} {
		if err := restore(t, w, e); err != nil {
			t.Fatal(err)
		}
	}
	if back := look(t, w)[0]; back.Manual != "" || !back.Home.VCPUs[5].Equal(second) || !back.Home.Emulator.Equal(first.Union(second)) {
		t.Errorf("put back it stands as %q, %+v", back.Manual, back.Home)
	}
	if _, after := g.now(); after != config {
		t.Errorf("its definition is not as it was:\n%s\n%s", after, config)
	}
	// All of it at once, as vm move has it.
	do(t, w, step(plan.SetNext, "a", s.Home.Next()))
	if _, after := g.now(); after != config {
		t.Errorf("placed where it is:\n%s\n%s", after, config)
	}
}
