package daemon

import (
	"context"
	"strings"
	"testing"

	"github.com/homenode/homenode/api"
	"github.com/homenode/homenode/core/hostprep"
	"github.com/homenode/homenode/core/plan"
	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/core/words"
	"github.com/homenode/homenode/core/workload"
)

// TestPreparedCgroupsAreTheHosts: what runs where the host was prepared, without a daemon,
// is not placed by the next until that is undone.
func TestPreparedCgroupsAreTheHosts(t *testing.T) {
	m := newMachine(t, 2, 4)
	service := m.add("system.slice/db.service", 2, 1<<20, 0, 1)
	m.add("system.slice", 0, 0)
	r := newRig(t, m, true)
	l := &Local{Open: func() (Store, error) { return r.store, nil }, Options: r.options(true)}
	errs, err := l.Change(t.Context(), api.Change{Steps: []plan.Step{{Kind: plan.SetCPUs, Workload: hostprep.ID, To: "0-1",
		Target: plan.Target{Kind: "cgroup", Cgroup: "/system.slice"}}}})
	if err != nil || errs[0] != nil {
		t.Fatal(errs, err)
	}
	r.start(t, true)
	r.ticks(3)
	if got := m.live[service].obs.CPUs.String(); got != "0-7" {
		t.Errorf("the service was placed on CPUs %s", got)
	}
	if x, err := r.Explain(t.Context(), service); err != nil || x.Decision.Outcome != plan.LeftAlone {
		t.Errorf("%+v, %v", x.Decision, err)
	}
	if _, err := r.undo(api.Which{ID: hostprep.ID}); err != nil {
		t.Fatal(err)
	}
	r.ticks(3)
	if got := m.live[service].obs.CPUs.String(); got == "0-7" {
		t.Errorf("after undo the service is still on CPUs %s", got)
	}
}

// Of processes only the agents of the host are changed on request.
func TestWhatIsChangedOnRequest(t *testing.T) {
	process := plan.Target{Kind: workload.InProcess, Processes: []workload.Process{{PID: 7, Start: 9}}}
	for _, tt := range []struct {
		name string
		step plan.Step
		may  bool
	}{
		{"an agent", plan.Step{Kind: plan.SetCPUs, Workload: hostprep.ID, Target: process}, true},
		{"another process", plan.Step{Kind: plan.SetCPUs, Workload: "pid:7", Target: process}, false},
		{"a cgroup", plan.Step{Kind: plan.SetCPUs, Workload: hostprep.ID, Target: plan.Target{Kind: workload.InCgroup, Cgroup: "/a"}}, true},
		{"a cgroup that is none", plan.Step{Kind: plan.SetCPUs, Workload: hostprep.ID, Target: plan.Target{Kind: workload.InCgroup, Cgroup: "/a/../b"}}, false},
		{"a unit that is to be stopped", plan.Step{Kind: plan.StopUnit, Workload: hostprep.ID, Target: plan.Target{Kind: workload.InHost, Host: "dbus.service"}}, false},
		{"pages of an agent", plan.Step{Kind: plan.MovePages, Workload: hostprep.ID, Target: process}, false},
	} {
		if err := mayChange([]plan.Step{tt.step}); (err == nil) != tt.may {
			t.Errorf("%s: %v", tt.name, err)
		}
	}
}

// spelled is a driver that reads what a step would change in another form than it writes, as
// the kernel has a mask for a list of CPUs; Read knows both.
type spelled struct{ Driver }

func (d spelled) Changes(ctx context.Context, s plan.Step) ([]plan.Change, error) {
	changes, err := d.Driver.Changes(ctx, s)
	for i := range changes {
		changes[i].Value = "mask of " + strings.ReplaceAll(changes[i].Value, "-", "..")
	}
	return changes, err
}

// TestWhatIsReadInAnotherForm is still homenode's, and changed again.
func TestWhatIsReadInAnotherForm(t *testing.T) {
	r := newRig(t, scattered(t), true, func(o *Options) { o.Drivers[workload.InCgroup] = spelled{o.Drivers[workload.InCgroup]} })
	r.ticks(6)
	w := r.status(t)["/a"]
	to := topology.Nodes(1)
	if w.Home == "1" {
		to = topology.Nodes(0)
	}
	if _, err := within(r, func() (api.MoveAnswer, error) { return r.Move(t.Context(), api.MoveOrder{ID: "/a", To: to}) }); err != nil {
		t.Fatal(err)
	}
	r.ticks(6)
	if now := r.status(t)["/a"]; now.CPUSet == w.CPUSet || now.Home != to.String() || r.happened(t, words.SetSince) {
		t.Errorf("on CPUs %s, as before; home %s, %s: %s", now.CPUSet, now.Home, now.State, now.Why)
	}
}
