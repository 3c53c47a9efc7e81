package arrange

import (
	"testing"

	"github.com/homenode/homenode/core/place"
	"github.com/homenode/homenode/core/plan"
	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/core/workload"
)

// offline takes CPUs offline.
func offline(h *topology.Host, cpus ...topology.CPUID) {
	for _, cpu := range cpus {
		h.Online.Remove(cpu)
		h.Allowed.Remove(cpu)
		h.Offline.Add(cpu)
		for i := range h.Cores {
			h.Cores[i].CPUs.Remove(cpu)
		}
		for i := range h.Nodes {
			h.Nodes[i].CPUs.Remove(cpu)
		}
	}
}

// TestOfflineCPUsTakeNoOthers: dedicated work of which CPUs go offline keeps its other CPUs: what
// is held for work that has not come, and what runs and finds no other home. With room elsewhere
// the running work is placed anew.
func TestOfflineCPUsTakeNoOthers(t *testing.T) {
	const gib = topology.KiB(1) << 20
	subject := func(id workload.ID, cpus int) *place.Subject {
		return &place.Subject{Spec: vm(string(id), cpus, gib), Observation: workload.Observation{ID: id, Kind: workload.InCgroup, CPUs: topology.CPUs(0, 1, 2, 3)}}
	}
	// Node 0 has CPUs 0-3 and 8-11, node 1 has 4-7 and 12-15; they pair up as 0 and 8.
	held := dedicatedOn("held", 0, gib, 0, 8, 1)
	full := dedicatedOn("full", 1, gib, 4, 5, 6, 7, 12, 13, 14, 15)
	for _, tt := range []struct {
		name    string
		running bool // the one that holds CPUs
		full    bool // the other node
		off     []topology.CPUID
		cpus    string // it has then
		beside  string // CPUs that the new one gets
	}{
		{name: "held for work that has not come", full: true, off: []topology.CPUID{8}, cpus: "0-1", beside: "2-3,9-11"},
		{name: "all of it", full: true, off: []topology.CPUID{0, 1, 8}, cpus: "", beside: "2-3,9-11"},
		{name: "running, no other home", running: true, full: true, off: []topology.CPUID{8}, cpus: "0-1", beside: "2-3,9-11"},
		{name: "running, all of it, no other home", running: true, full: true, off: []topology.CPUID{0, 1, 8}, cpus: "", beside: "2-3,9-11"},
		{name: "running, room elsewhere", running: true, off: []topology.CPUID{8}, cpus: "4,12,5"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			st := onHost(twoNodes)
			st.Placements = []plan.Placement{held}
			if tt.full {
				st.Placements = []plan.Placement{full, held}
			}
			offline(st.Host, tt.off...)
			var subjects []*place.Subject
			if tt.running {
				subjects = append(subjects, subject("held", 3))
			}
			if tt.full {
				subjects = append(subjects, &place.Subject{Spec: vm("full", 8, gib), Observation: workload.Observation{ID: "full", Kind: workload.InCgroup, CPUs: full.CPUs}},
					subject("new", 5))
			}
			p := Arrange(st, subjects, Options{})
			if bad := plan.CheckPlan(st, p); len(bad) > 0 {
				t.Fatal(bad)
			}
			for _, step := range p.Steps {
				if step.To == "" {
					t.Errorf("%s of %s to nothing", step.Kind, step.Workload)
				}
			}
			got := func(id workload.ID) topology.CPUSet {
				if x := place.Of(p.Placements, id); x != nil {
					return x.CPUs
				}
				return topology.CPUSet{}
			}
			want, _ := topology.ParseCPUSet(tt.cpus)
			if x := got("held"); tt.name != "running, room elsewhere" && !x.Equal(want) || x.Intersects(st.Host.Offline) || tt.name == "running, room elsewhere" && x.Len() != 3 {
				t.Errorf("it has %s, want %s: %+v", x, want, p.Report.Decisions)
			}
			beside, _ := topology.ParseCPUSet(tt.beside)
			if x := got("new"); !x.Equal(beside) {
				t.Errorf("the new one has %s, want %s: %+v", x, beside, p.Report.Decisions)
			}
		})
	}
}
