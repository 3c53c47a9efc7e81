package daemon

import (
	"strings"
	"testing"

	"github.com/homenode/homenode/core/plan"
	"github.com/homenode/homenode/core/topology"
)

// CPUs that somebody else gave a cgroup stay; those that homenode gave it do not keep
// it from being managed, also after a restart and an undo.
func TestSetsOfOthersStay(t *testing.T) {
	m := newMachine(t, 2, 4)
	admin := m.add("admin", 2, 1<<20, 0)
	db := m.add("db", 2, 1<<20, 0, 1)
	m.live[admin].obs.CPUs = topology.CPUs(4, 5)
	r := newRig(t, m, Enforce)
	for range 2 {
		r.start(t, Enforce)
		r.ticks(t, 3)
		if got := m.live[admin].obs.CPUs.String(); got != "4-5" || m.writes[string(admin)] != 0 {
			t.Errorf("admin is on CPUs %s after %d writes", got, m.writes[string(admin)])
		}
		if got := m.live[db].obs.CPUs.Len(); got != 4 {
			t.Errorf("db is on %d CPUs", got)
		}
	}
	x, err := r.Explain(t.Context(), admin)
	if err != nil || x.Decision.Outcome != plan.LeftAlone || !strings.Contains(x.Workload.Why, "CPUs 4-5") {
		t.Errorf("%+v, %q, %v", x.Decision, x.Workload.Why, err)
	}
}

func TestSetByOthers(t *testing.T) {
	h := newMachine(t, 2, 4).host()
	o := newMachine(t, 2, 4)
	id := o.add("system.slice/db.service", 1, 1<<20, 0)
	obs := o.live[id].obs
	obs.CPUs = topology.CPUs(0, 1)
	for _, c := range []struct {
		sets string
		want bool
	}{{"", true}, {"/system.slice/db.service", false}, {"/system.slice", false}, {"/", false}, {"/system", true}} {
		if got := setByOthers(&obs, h, map[string]bool{c.sets: true}) != ""; got != c.want {
			t.Errorf("homenode changed %q: %v", c.sets, got)
		}
	}
	obs.CPUs = h.Allowed
	if why := setByOthers(&obs, h, nil); why != "" {
		t.Error(why)
	}
}
