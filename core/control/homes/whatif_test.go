package homes

import (
	"fmt"
	"strings"
	"testing"

	"github.com/homenode/homenode/core/place"
	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/core/workload"
)

// wants returns workloads that want dedicated CPUs of node 0.
func wants(cpus ...int) (specs []workload.Spec) {
	for i, n := range cpus {
		specs = append(specs, workload.Spec{ID: workload.ID(fmt.Sprint("/new", i)), Class: workload.Dedicated, CPUs: n, Memory: 1 << 20, Nodes: topology.Nodes(0)})
	}
	return specs
}

// question returns a host with a dedicated workload of two CPUs on node 0.
func question(t *testing.T) *Question {
	s, p := runner("/a", workload.Dedicated, 0)
	q := &Question{State: host(t).Facts}
	q.State.Placements = []workload.Placement{p}
	q.Subjects = []*place.Subject{s}
	q.Spec = func(id workload.ID) workload.Spec {
		spec := s.Spec
		spec.ID, spec.CPUs, spec.Memory = id, 99, 99 // of another time: what is booked counts
		return spec
	}
	q.Stay = func(workload.ID) string { return "" }
	return q
}

// TestWouldFit: each workload of a question comes after those before it, and running work moves for it if it may.
func TestWouldFit(t *testing.T) {
	for _, tt := range []struct {
		name   string
		cpus   []int
		change func(*Question)
		want   string // placed or not, with its moves
	}{
		{name: "none"},
		{name: "free", cpus: []int{6}, want: "placed 0; "},
		{name: "one after the other", cpus: []int{4, 2}, want: "placed 0; placed 0; "},
		{name: "a has to move", cpus: []int{7}, want: "placed 1; "},
		{name: "it moves once", cpus: []int{7, 1}, want: "placed 1; placed 0; "},
		{name: "and leaves its CPUs", cpus: []int{7, 2}, want: "placed 1; refused 0; "},
		{name: "more than there is", cpus: []int{9, 6}, want: "refused 0; placed 0; "},
		{name: "a must stay", cpus: []int{7}, change: func(q *Question) { q.Stay = func(workload.ID) string { return "It is fixed." } }, want: "refused 0; "},
		{name: "a is held for later", cpus: []int{7}, change: func(q *Question) { q.Spec = func(workload.ID) workload.Spec { return workload.Spec{} } }, want: "refused 0; "},
	} {
		q := question(t)
		if tt.change != nil {
			tt.change(q)
		}
		was := homesOf(q.State.Placements)
		specs := wants(tt.cpus...)
		fits, bad := q.WouldFit(specs)
		got := ""
		for i, f := range fits {
			if f.Spec.ID != specs[i].ID {
				t.Errorf("%s: %s instead of %s", tt.name, f.Spec.ID, specs[i].ID)
			}
			if f.Admitted() {
				got += fmt.Sprintf("placed %d; ", len(f.Moves))
			} else {
				got += fmt.Sprintf("refused %d; ", len(f.Moves))
			}
		}
		if bad != nil || got != tt.want || homesOf(q.State.Placements) != was {
			t.Errorf("%s: %q, want %q; %+v, %s", tt.name, got, tt.want, bad, homesOf(q.State.Placements))
		}
	}
}

// TestWhatIfGoesByUse: a new workload goes where running work uses less than it has booked.
func TestWhatIfGoesByUse(t *testing.T) {
	for _, use := range []float64{0.1, 8} {
		q := question(t)
		q.State.Placements, q.Subjects = nil, nil
		for n, vcpus := range []int{8, 7} {
			s, p := runner(workload.ID(fmt.Sprint("/a", n)), workload.Shared, topology.NodeID(n))
			p.VCPUs = vcpus
			s.Observation.CPUUse = 7
			if n == 0 {
				s.Observation.CPUUse = use
			}
			q.State.Placements = append(q.State.Placements, p)
			q.Subjects = append(q.Subjects, s)
		}
		fits, bad := q.WouldFit([]workload.Spec{{ID: "/new", Class: workload.Shared, CPUs: 4, Memory: 1 << 20}})
		if bad != nil || fits[0].Result.Placement.Home.String() != map[float64]string{0.1: "0", 8: "1"}[use] {
			t.Errorf("use %v: %+v, %s", use, bad, fits[0].Result.Placement.Home)
		}
	}
}

// TestWhatIfBounds: a question about a host that no scan has seen, about too many workloads or about one that runs
// is refused.
func TestWhatIfBounds(t *testing.T) {
	for _, tt := range []struct {
		name   string
		change func(*Question)
		specs  []workload.Spec
		kind   RefusalKind
		want   string
	}{
		{"no scan", func(q *Question) { q.State.Host = nil }, wants(1), TooEarly, "the daemon has not scanned"},
		{"33 workloads", func(*Question) {}, wants(make([]int, 33)...), Malformed, "spec: 33; want 32"},
		{"it runs", func(*Question) {}, []workload.Spec{wants(1)[0], {ID: "/a"}}, Malformed, "/a is already running"},
	} {
		q := question(t)
		tt.change(q)
		fits, bad := q.WouldFit(tt.specs)
		if fits != nil || bad == nil || bad.Kind != tt.kind || !strings.HasPrefix(bad.Why, tt.want) {
			t.Errorf("%s: %+v, %d fits", tt.name, bad, len(fits))
		}
	}
	q := question(t)
	if fits, bad := q.WouldFit(wants(make([]int, 32)...)); bad != nil || len(fits) != 32 {
		t.Errorf("32 workloads: %+v", bad)
	}
}

// TestRunners: running work may make room by its booked size; batch work and holds stay where they are.
func TestRunners(t *testing.T) {
	q := question(t)
	q.State.Placements = append(q.State.Placements, home("/batch", workload.Batch, 0, 3), home("/hold", workload.Dedicated, 0, 4))
	spec := q.Spec
	q.Spec = func(id workload.ID) workload.Spec {
		if id == "/hold" {
			return workload.Spec{}
		}
		return spec(id)
	}
	q.Stay = func(id workload.ID) string { return "not " + string(id) }
	r := q.running()
	if len(r) != 1 || r[0].Spec.ID != "/a" || r[0].Spec.CPUs != 2 || r[0].Spec.Memory != 1<<20 || r[0].Stay != "not /a" {
		t.Errorf("%+v", r)
	}
}

// TestWhatIfSteps: the workloads of a question share its search effort.
func TestWhatIfSteps(t *testing.T) {
	q := question(t)
	q.State.Placements, q.Subjects = nil, nil
	for i := range topology.CPUID(16) { // each in the way of the others
		p := home(workload.ID(fmt.Sprintf("/w%02d", i)), workload.Dedicated, topology.NodeID(i/8), i)
		p.Pins, p.Asked = []topology.CPUID{i}, topology.KiB(i%5+1)<<20
		p.Memory[0].KiB = p.Asked
		q.State.Placements = append(q.State.Placements, p)
	}
	fits, bad := q.WouldFit(wants(1, 99, 99, 99))
	if bad != nil || !fits[0].CutOff || fits[0].Steps > place.DefaultSteps/4 {
		t.Errorf("%+v, %d steps", bad, fits[0].Steps)
	}
}
