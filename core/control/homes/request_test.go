package homes

import (
	"strings"
	"testing"
	"time"

	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/core/workload"
)

// good returns a request that can be granted.
func good() PlaceRequest {
	return PlaceRequest{Spec: workload.Spec{ID: "/a", Class: workload.Shared, CPUs: 2, Memory: 1 << 20}}
}

// TestCheck: Check refuses each value outside its bounds and names it.
func TestCheck(t *testing.T) {
	exact := func(cpus topology.CPUSet, nodes topology.NodeSet) func(*PlaceRequest) {
		return func(in *PlaceRequest) { in.Exact = &Exact{CPUs: cpus, Nodes: nodes} }
	}
	dedicated := func(f func(*PlaceRequest)) func(*PlaceRequest) {
		return func(in *PlaceRequest) { f(in); in.Spec.Class = workload.Dedicated }
	}
	release := func(f func(*PlaceRequest)) func(*PlaceRequest) {
		return func(in *PlaceRequest) {
			*in = PlaceRequest{Release: true, Spec: workload.Spec{ID: "/a"}}
			f(in)
		}
	}
	for _, tt := range []struct {
		name   string
		change func(*PlaceRequest)
		want   string // how the refusal begins; "" for none
	}{
		{"good", func(*PlaceRequest) {}, ""},
		{"no class", func(in *PlaceRequest) { in.Spec.Class = "" }, "class "},
		{"no such class", func(in *PlaceRequest) { in.Spec.Class = "vip" }, "class "},
		{"no such tier", func(in *PlaceRequest) { in.Spec.Tier = "vip" }, "tier "},
		{"a tier of another class", func(in *PlaceRequest) { in.Spec.Tier = workload.BatchTier }, "tier: "},
		{"no CPUs", func(in *PlaceRequest) { in.Spec.CPUs = 0 }, "cpus: 0"},
		{"one CPU", func(in *PlaceRequest) { in.Spec.CPUs = 1 }, ""},
		{"the most CPUs", func(in *PlaceRequest) { in.Spec.CPUs = topology.MaxID }, ""},
		{"more CPUs", func(in *PlaceRequest) { in.Spec.CPUs = topology.MaxID + 1 }, "cpus: "},
		{"unknown memory", func(in *PlaceRequest) { in.Spec.Memory = 0 }, ""},
		{"negative memory", func(in *PlaceRequest) { in.Spec.Memory = -1 }, "memory: -1"},
		{"1 EiB", func(in *PlaceRequest) { in.Spec.Memory = 1 << 50 }, ""},
		{"more", func(in *PlaceRequest) { in.Spec.Memory = 1<<50 + 1 }, "memory: 1125899906842625"},
		{"negative page", func(in *PlaceRequest) { in.Spec.HugePage = -1 }, "huge_page_kib: -1"},
		{"a page of 32 GiB", func(in *PlaceRequest) { in.Spec.HugePage = 1 << 25 }, ""},
		{"a larger one", func(in *PlaceRequest) { in.Spec.HugePage = 1<<25 + 1 }, "huge_page_kib: 33554433"},
		{"smt prefer", func(in *PlaceRequest) { in.Spec.SMT = workload.SMTPrefer }, ""},
		{"smt isolate", func(in *PlaceRequest) { in.Spec.SMT = workload.SMTIsolate }, ""},
		{"smt require", func(in *PlaceRequest) { in.Spec.SMT = workload.SMTRequire }, ""},
		{"smt often", func(in *PlaceRequest) { in.Spec.SMT = "often" }, "smt: often"},
		{"negative PID", func(in *PlaceRequest) { in.Process.PID = -1 }, "process: -1"},
		{"a process", func(in *PlaceRequest) { in.Process.PID = 1 }, ""},
		{"negative hold", func(in *PlaceRequest) { in.Hold = -time.Second }, "hold_s: -1"},
		{"an hour", func(in *PlaceRequest) { in.Hold = time.Hour }, ""},
		{"longer", func(in *PlaceRequest) { in.Hold = 2 * time.Hour }, "hold_s: 7200"},
		{"a bit longer", func(in *PlaceRequest) { in.Hold = time.Hour + 1 }, "hold_s: 3600"},
		{"hold for nobody", func(in *PlaceRequest) { in.Hold, in.Spec.ID = 1, "" }, "id: "},
		{"hold for a process", func(in *PlaceRequest) { in.Hold, in.Spec.ID, in.Process.PID = 1, "", 1 }, ""},
		{"ask for nobody", func(in *PlaceRequest) { in.Spec.ID = "" }, ""},
		{"named CPUs", exact(topology.CPUs(1), topology.NodeSet{}), ""},
		{"named nodes", exact(topology.CPUSet{}, topology.Nodes(1)), ""},
		{"nothing named", exact(topology.CPUSet{}, topology.NodeSet{}), "exact: "},
		{"dedicated, named CPUs", dedicated(exact(topology.CPUs(1), topology.NodeSet{})), ""},
		{"dedicated, named nodes", dedicated(exact(topology.CPUSet{}, topology.Nodes(1))), "exact: "},
		{"dedicated, named both", dedicated(exact(topology.CPUs(1), topology.Nodes(1))), ""},
		{"named CPUs, held", func(in *PlaceRequest) {
			exact(topology.CPUs(1), topology.NodeSet{})(in)
			in.Hold = time.Minute
		}, "hold_s: 60"},
		{"release", release(func(*PlaceRequest) {}), ""},
		{"release of nobody", release(func(in *PlaceRequest) { in.Spec.ID = "" }), "release: "},
		{"release and a process", release(func(in *PlaceRequest) { in.Process.PID = 1 }), "release: "},
		{"release and a hold", release(func(in *PlaceRequest) { in.Hold = 1 }), "release: "},
		{"release and CPUs", release(func(in *PlaceRequest) { in.Exact = &Exact{} }), "release: "},
	} {
		in := good()
		tt.change(&in)
		wantCheck(t, tt.name, &in, tt.want)
	}
}

// wantCheck wants a request to be refused as malformed, for a reason that begins so; "" is not refused.
func wantCheck(t *testing.T, name string, in *PlaceRequest, want string) {
	t.Helper()
	bad := in.Check()
	switch {
	case (bad != nil) != (want != ""):
		t.Errorf("%s: %+v", name, bad)
	case bad != nil && (bad.Kind != Malformed || !strings.HasPrefix(bad.Why, want)):
		t.Errorf("%s: %+v, want %q", name, bad, want)
	}
}

// TestCheckOfMemoryAlone: memory of one node can be held without CPUs, within the bounds of every other hold.
func TestCheckOfMemoryAlone(t *testing.T) {
	for _, tt := range []struct {
		name   string
		change func(*PlaceRequest)
		want   string
	}{
		{"good", func(*PlaceRequest) {}, ""},
		{"on two nodes", func(in *PlaceRequest) { in.Spec.Nodes = topology.Nodes(0, 1) }, "cpus: 0"},
		{"anywhere", func(in *PlaceRequest) { in.Spec.Nodes = topology.NodeSet{} }, "cpus: 0"},
		{"not held", func(in *PlaceRequest) { in.Hold = 0 }, "cpus: 0"},
		{"no memory", func(in *PlaceRequest) { in.Spec.Memory = 0 }, "cpus: 0"},
		{"fewer than no CPUs", func(in *PlaceRequest) { in.Spec.CPUs = -1 }, "cpus: -1"},
		{"an hour", func(in *PlaceRequest) { in.Hold = time.Hour }, ""},
		{"for longer than an hour", func(in *PlaceRequest) { in.Hold = time.Hour + 1 }, "hold_s: 3600"},
		{"more than there can be", func(in *PlaceRequest) { in.Spec.Memory = 1<<50 + 1 }, "memory: "},
		{"a page larger than there is", func(in *PlaceRequest) { in.Spec.HugePage = 1<<25 + 1 }, "huge_page_kib: "},
		{"for nobody", func(in *PlaceRequest) { in.Spec.ID = "" }, "id: "},
		{"for a process", func(in *PlaceRequest) { in.Process.PID = 1 }, "cpus: 0"},
		{"for a process that cannot be", func(in *PlaceRequest) { in.Process.PID = -1 }, "cpus: 0"},
		{"where a person named CPUs", func(in *PlaceRequest) { in.Exact = &Exact{CPUs: topology.CPUs(1)} }, "hold_s: "},
	} {
		in := good()
		in.Spec.CPUs, in.Spec.Memory, in.Spec.Nodes, in.Hold = 0, 1, topology.Nodes(1), 1
		tt.change(&in)
		wantCheck(t, tt.name, &in, tt.want)
	}
}

// TestTierOfRequest: a tier given as the number of Group Identity becomes the tier.
func TestTierOfRequest(t *testing.T) {
	for tier, want := range map[workload.Tier]workload.Tier{"2": workload.OnlineStrict, "1": workload.Online, "": "", "normal": workload.Normal} {
		in := good()
		in.Spec.Tier = tier
		if bad := in.Check(); bad != nil || in.Spec.Tier != want {
			t.Errorf("%q: %+v, %q", tier, bad, in.Spec.Tier)
		}
	}
}
