package scene

import (
	"testing"

	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/core/workload"
)

const inMachine workload.Kind = "machine"

// A claimed workload that was not observed is what its source says; bound to nothing it may
// be anywhere.
func TestClaimOfWhatIsNotSeen(t *testing.T) {
	h := &topology.Host{Online: topology.CPUs(0, 1, 2, 3), AllowedMems: topology.Nodes(0, 1)}
	p := workload.Process{PID: 5, Start: 6}
	c := workload.Claim{ID: "vm:a", Name: "a", Driver: inMachine, Process: p, Running: true}
	o := asClaimed(workload.Observation{Pinned: true, PinnedWhy: "x"}, &c, h)
	if o.ID != "vm:a" || o.Kind != inMachine || o.Pinned || o.PinnedWhy != "" || !o.CPUs.Equal(h.Online) || !o.Mems.Equal(h.AllowedMems) || len(o.Processes) != 1 || o.Processes[0] != p {
		t.Errorf("%+v", o)
	}
	c.CPUs, c.Mems = topology.CPUs(3), topology.Nodes(1)
	seen := []workload.Process{{PID: 7, Start: 8}}
	if o = asClaimed(workload.Observation{Processes: seen}, &c, h); !o.CPUs.Equal(c.CPUs) || !o.Mems.Equal(c.Mems) || len(o.Processes) != 1 || o.Processes[0] != seen[0] {
		t.Errorf("%+v", o)
	}
	c.Process = workload.Process{}
	if o = asClaimed(workload.Observation{}, &c, h); len(o.Processes) != 0 {
		t.Errorf("%+v", o)
	}
	c.Driver = ""
	if o = asClaimed(workload.Observation{ID: "/x", Kind: workload.InCgroup, Pinned: true}, &c, h); o.ID != "vm:a" || o.Kind != workload.InCgroup || !o.Pinned || !o.CPUs.Empty() {
		t.Errorf("changed as it was observed: %+v", o)
	}
	c.Caps.PinsThreads = true
	if o = asClaimed(workload.Observation{ID: "/x", Kind: workload.InCgroup, Pinned: true, PinnedWhy: "x"}, &c, h); o.Pinned || o.PinnedWhy != "" || o.Kind != workload.InCgroup {
		t.Errorf("its driver's own pins: %+v", o)
	}
}
