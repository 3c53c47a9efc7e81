package scene

import (
	"testing"

	"github.com/homenode/homenode/core/plan"
	"github.com/homenode/homenode/core/workload"
)

// The root of a workload of processes is the one it is named after; when that has ended,
// the first.
func TestRootOfAProcessWorkload(t *testing.T) {
	for _, tt := range []struct {
		id  workload.ID
		pid int
		is  bool
	}{{"pid:77", 77, true}, {"pid:77", 78, false}, {"pid:77", 7, false}, {"pid:7", 77, false}, {"pid:10", 10, true}, {"pid:0", 0, false}, {"pid:1", -1, false}, {"/77", 77, false}} {
		if is := isProcess(tt.id, tt.pid); is != tt.is {
			t.Errorf("%s of %d: %v", tt.id, tt.pid, is)
		}
	}
	o := workload.Observation{ID: "pid:77", Kind: workload.InProcess, Processes: []workload.Process{{PID: 5, Start: 1}, {PID: 77, Start: 2}, {PID: 78, Start: 3}}}
	if got := StartOf(&o); got != 2 {
		t.Errorf("of its root %d", got)
	}
	o.ID = "pid:9"
	if got := StartOf(&o); got != 1 {
		t.Errorf("of the first %d", got)
	}
	o.Kind = workload.InCgroup
	if got := StartOf(&o); got != 0 {
		t.Errorf("of a cgroup %d", got)
	}
}

// What was done to a part is told of what all of it is observed as: the observer knows no parts.
func TestPartsAreObservedAsTheWhole(t *testing.T) {
	s := &Scene{SeenAs: map[workload.ID][]workload.ID{"vm:a": {"/machine/a"}}}
	for id, want := range map[workload.ID]workload.ID{"vm:a": "/machine/a", "vm:a/cell1": "/machine/a", "vm:b/cell0": "vm:b/cell0", "/x/cell0": "/x/cell0"} {
		if got := s.Observed(id); len(got) != 1 || got[0] != want {
			t.Errorf("%s: %q", id, got)
		}
	}
}

// TestAtTarget: a workload is found by what its steps change.
func TestAtTarget(t *testing.T) {
	s := seen(service("db"), process(7, 1000, 1))
	for i := range s.Snapshot.Observations {
		o := &s.Snapshot.Observations[i]
		own := plan.Target{Kind: o.Kind, Cgroup: CgroupPath(o), Processes: o.Processes}
		if got := s.AtTarget(own.Own()); got != o.ID {
			t.Errorf("%s: %q", o.ID, got)
		}
	}
	if got := s.AtTarget(""); got != "" {
		t.Errorf("%q", got)
	}
	if got := s.AtTarget("/gone"); got != "" {
		t.Errorf("%q", got)
	}
}

// TestCgroupPath: an observation without a cgroup of its own is named after one.
func TestCgroupPath(t *testing.T) {
	for _, o := range []workload.Observation{{ID: "/x"}, {ID: "vm:a", Cgroup: "/x"}} {
		if got := CgroupPath(&o); got != "/x" {
			t.Errorf("%s: %q", o.ID, got)
		}
	}
}
