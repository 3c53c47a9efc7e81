package daemon

import (
	"errors"
	"strings"
	"testing"

	"github.com/homenode/homenode/api"
	"github.com/homenode/homenode/core/plan"
	"github.com/homenode/homenode/core/workload"
)

// TestPlacedHoldsOnOneNode: what `homenode run` booked stays booked until the process
// ends, on a host of one node as well. It was forgotten at the next look, and
// its dedicated CPUs were given out again.
func TestPlacedHoldsOnOneNode(t *testing.T) {
	m := newMachine(t, 1, 4)
	r := newRig(t, m, Observe)
	r.ticks(t, 1)
	run := func(pid int, cpus int) (api.Home, error) {
		return r.Place(t.Context(), api.Want{Name: "db", Class: workload.Dedicated, CPUs: cpus,
			Process: workload.Process{PID: pid, Start: 5}})
	}
	home, err := run(77, 3)
	if err != nil {
		t.Fatal(err)
	}
	id := m.add("x", 1, 1<<20, 0)
	thing := m.live[id]
	delete(m.live, id)
	thing.obs.ID, thing.obs.Kind, thing.obs.Processes = "pid:77", workload.InProcess, []workload.Process{{PID: 77, Start: 5}}
	thing.obs.CPUs = home.CPUs
	m.live["pid:77"] = thing
	r.ticks(t, 3)

	w := r.status(t)["pid:77"]
	if w.Name != "db" || w.Class != workload.Dedicated || w.CPUs != 3 || w.CPUSetPlanned != home.CPUs.String() {
		t.Errorf("status has %s, %s, %d CPUs on %q; want db, dedicated, 3 on %v", w.Name, w.Class, w.CPUs, w.CPUSetPlanned, home.CPUs)
	}
	var refused *api.Error
	if again, err := run(78, 3); !errors.As(err, &refused) || refused.Code != api.NoRoom {
		t.Errorf("CPUs %v were given out again (%v)", again.CPUs, err)
	}
	var told []string
	for _, e := range r.history(t) {
		if e.Kind == plan.EventPlan && strings.HasPrefix(string(e.Workload), "pid:") {
			told = append(told, string(e.Workload)+" "+strings.SplitN(e.Text, ".", 2)[0])
		}
	}
	if got, want := strings.Join(told, "; "), "pid:77 db (dedicated, 3 CPUs) placed: node 0; pid:78 db (dedicated, 3 CPUs) refused"; got != want {
		t.Errorf("history tells %q, want %q", got, want)
	}

	delete(m.live, "pid:77")
	r.ticks(t, 1)
	if _, err := run(78, 3); err != nil {
		t.Errorf("after the first has ended: %v", err)
	}
}

// TestSeenWithUnknownMemory: memory that cannot be read was told as 0 B.
func TestSeenWithUnknownMemory(t *testing.T) {
	m := newMachine(t, 2, 4)
	m.add("a", 1, 0)
	m.add("b", 1, 2<<20, 0)
	r := newRig(t, m, Observe)
	r.ticks(t, 1)
	for _, want := range []string{"seen: a, 1 thread, memory unknown", "seen: b, 1 thread, 2.0 GiB"} {
		if !r.told(t, want) {
			t.Errorf("history lacks %q", want)
		}
	}
}
