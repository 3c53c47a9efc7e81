package arrange

import (
	"slices"
	"testing"

	"github.com/homenode/homenode/core/place"
	"github.com/homenode/homenode/core/plan"
	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/core/workload"
)

// grace has two nodes with CPUs and two with the memory of a GPU.
const grace = `
	0 0-71    480G 10 40 80 80
	1 72-143  480G 40 10 80 80
	2 -       186G 80 80 10 255
	3 -       186G 80 80 255 10
`

// withCXL has a node of slower memory without CPUs.
const withCXL = `
	0  0-3|8-11   16G 10 21 17
	1  4-7|12-15  16G 21 10 27
	2  -          32G 17 27 10 type=cxl
`

// TestConfinedToAllNodes: memory nodes that a cgroup may use name no GPU, unless it may use nothing else.
func TestConfinedToAllNodes(t *testing.T) {
	st := onHost(grace)
	s := derived(seen("a", 2, "0-71", "0-2", 12*gib, 0, 0))
	r := request(st.Host, &subject{Subject: s})
	if r.Spec.Nodes.String() != "0-1" {
		t.Errorf("nodes %v, want 0-1", r.Spec.Nodes)
	}
	s.Observation.Mems = topology.Nodes(2)
	if r := request(st.Host, &subject{Subject: s}); r.Spec.Nodes.String() != "2" {
		t.Errorf("nodes %v, want 2", r.Spec.Nodes)
	}
}

// demoting is withCXL where the kernel moves cold pages to node 2.
func demoting() plan.State {
	st := onHost(withCXL)
	st.Host.Tiering = topology.Tiering{Demotion: true, Tiers: []topology.Tier{{ID: 4, Nodes: topology.Nodes(0, 1)}, {ID: 22, Nodes: topology.Nodes(2)}}}
	return st
}

// TestDemotedMemoryStays: what the kernel moved to a slower tier is not fetched back, scan after scan; what lies on
// another node of DRAM is, and the step says what stays. Without demotion the slow node is as far as any.
func TestDemotedMemoryStays(t *testing.T) {
	for _, tt := range []struct {
		name   string
		off    bool // demotion is
		memory []topology.KiB
		want   topology.KiB // planned to move
		stays  string
	}{
		{"12 GiB at home, 2 demoted", false, []topology.KiB{12 * gib, 0, 2 * gib}, 0, ""},
		{"1 GiB on the other node", false, []topology.KiB{12 * gib, gib, 2 * gib}, gib, "2"},
		{"all demoted", false, []topology.KiB{0, 0, 14 * gib}, 0, ""},
		{"demotion is off", true, []topology.KiB{12 * gib, 0, 2 * gib}, 2 * gib, ""},
	} {
		st := demoting()
		st.Host.Tiering.Demotion = !tt.off
		st.Placements = []plan.Placement{sharedOn("a", "0", "0-3,8-11", 3, 14*gib)}
		moved := topology.KiB(0)
		for range 5 {
			p := Arrange(st, []*place.Subject{derived(seen("a", 2, "0-3,8-11", "0-2", tt.memory[0], tt.memory[1], tt.memory[2]))}, options)
			for _, s := range p.Steps {
				if s.Kind != plan.MovePages {
					continue
				}
				moved += topology.KiB(s.Bytes >> 10)
				if s.Target.Stays.String() != tt.stays || s.To != "0" || workload.Total(s.Shares) != tt.memory[0]+tt.want {
					t.Errorf("%s: to %s, %v stays, shares %v", tt.name, s.To, s.Target.Stays, s.Shares)
				}
			}
			if p.Placements[0].Home.String() != "0" {
				t.Errorf("%s: home %v", tt.name, p.Placements[0].Home)
			}
		}
		if moved != 5*tt.want {
			t.Errorf("%s: %d MiB in 5 scans, want %d", tt.name, moved>>10, 5*tt.want>>10)
		}
	}
}

// TestGPUPagesStay: the GPU's driver put pages on its node.
func TestGPUPagesStay(t *testing.T) {
	st := onHost(grace)
	st.Placements = []plan.Placement{sharedOn("a", "0", "0-71", 3, 14*gib)}
	p := Arrange(st, []*place.Subject{derived(seen("a", 2, "0-71", "0-2", 12*gib, 0, 2*gib))}, options)
	for _, s := range p.Steps {
		if s.Kind == plan.MovePages {
			t.Errorf("%+v", s)
		}
	}
}

// TestDemotedBinding: dedicated work keeps the slower tiers among its memory nodes: narrowing them would bring all
// that was demoted back at once.
func TestDemotedBinding(t *testing.T) {
	st := demoting()
	s := derived(seen("a", 2, "0-1", "0-2", 12*gib, 0, 2*gib))
	s.Spec.Class, s.Spec.Given = workload.Dedicated, true
	p := Arrange(st, []*place.Subject{s}, options)
	i := slices.IndexFunc(p.Steps, func(x plan.Step) bool { return x.Kind == plan.SetMems })
	if i < 0 || p.Steps[i].To != "0,2" {
		t.Fatalf("%+v", p.Steps)
	}
	if v := plan.CheckPlan(st, p); v != nil {
		t.Error(v)
	}
	st.Host.Tiering.Demotion = false
	if v := plan.CheckPlan(st, p); len(v) != 1 {
		t.Errorf("without demotion node 2 is no part of the home: %v", v)
	}
	st.Host.Tiering.Demotion = true
	s.Observation.Mems = topology.Nodes(0, 2)
	st.Placements = p.Placements
	for _, x := range Arrange(st, []*place.Subject{s}, options).Steps {
		if x.Kind == plan.SetMems || x.Kind == plan.MovePages {
			t.Errorf("a second scan: %+v", x)
		}
	}
}
