package daemon

import (
	"testing"

	"github.com/homenode/homenode/api"
	"github.com/homenode/homenode/core/hostprep"
	"github.com/homenode/homenode/core/plan"
)

// What runs where the host was prepared is the host's: it is not placed until that
// is undone.
func TestPreparedCgroupsAreTheHosts(t *testing.T) {
	m := newMachine(t, 2, 4)
	service := m.add("system.slice/db.service", 2, 1<<20, 0, 1)
	m.add("system.slice", 0, 0)
	r := newRig(t, m, Enforce)
	before := m.settings()
	l := &Local{Open: func() (Store, error) { return r.store, nil }, Options: r.o}
	errs, err := l.Prepare(t.Context(), []plan.Step{{Kind: plan.SetCPUs, Workload: hostprep.ID, To: "0-1",
		Target: plan.Target{Kind: "cgroup", Cgroup: "/system.slice"}}})
	if err != nil || errs[0] != nil {
		t.Fatal(errs, err)
	}
	r.start(t, Enforce)
	r.ticks(t, 3)
	if got := m.live[service].obs.CPUs.String(); got != "0-7" {
		t.Errorf("the service was placed on CPUs %s", got)
	}
	x, err := r.Explain(t.Context(), service)
	if err != nil || x.Decision.Outcome != plan.LeftAlone {
		t.Errorf("%+v, %v", x.Decision, err)
	}
	if _, err := r.Undo(t.Context(), api.Which{ID: hostprep.ID}); err != nil {
		t.Fatal(err)
	}
	r.ticks(t, 3)
	if got := m.live[service].obs.CPUs.String(); got == "0-7" || before[service] == m.settings()[service] {
		t.Errorf("after undo the service is still on CPUs %s", got)
	}
}
