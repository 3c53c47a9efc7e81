package plan_test

import (
	"testing"

	"github.com/homenode/homenode/core/plan"
	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/core/workload"
)

func TestIdleSiblings(t *testing.T) {
	h := twoNodes().Host // cores are N and N+8; 3 and 11 are offline
	for _, tt := range []struct {
		smt  workload.SMTPolicy
		cpus string
		want string
	}{
		{workload.SMTIsolate, "4", "12"},
		{workload.SMTIsolate, "4,12", ""},
		{workload.SMTIsolate, "4,5,14", "6,12-13"},
		{workload.SMTRequire, "4,12,5", "13"},
		{workload.SMTRequire, "", ""},
		{workload.SMTPrefer, "4", ""},
		{"", "4", ""},
	} {
		cpus, _ := topology.ParseCPUSet(tt.cpus)
		if got := plan.Idle(h, tt.smt, cpus); got.String() != tt.want {
			t.Errorf("%s on %s: %v, want %s", tt.smt, tt.cpus, got, tt.want)
		}
	}
}

func TestBarredCPUs(t *testing.T) {
	h := twoNodes().Host // 0-2,4-10,12-15 are online
	p := plan.Policy{Reserved: topology.CPUs(0, 8), Dedicated: topology.CPUs(4, 5, 12, 13)}
	for _, class := range workload.Classes {
		if got := p.Barred(h, class); got.String() != "0,8" {
			t.Errorf("%s: %v without a partition", class, got)
		}
	}
	p.Split = true
	for class, want := range map[workload.Class]string{
		workload.Dedicated: "0-2,6-10,14-15", workload.Shared: "0,4-5,8,12-13", workload.Batch: "0,8",
	} {
		if got := p.Barred(h, class); got.String() != want {
			t.Errorf("%s: %v, want %s", class, got, want)
		}
	}
}

func TestTargetName(t *testing.T) {
	two := []workload.Process{{PID: 7, Start: 1}, {PID: 8, Start: 2}}
	for want, target := range map[string]plan.Target{
		"/a":        {Cgroup: "/a", Processes: two},
		"0000:01/3": {Device: "0000:01/3"},
		"system":    {Host: "system"},
		"PID 7":     {Processes: two[:1]},
		"PID 7, 8":  {Processes: two},
		"processes": {},
	} {
		if got := target.Name(); got != want {
			t.Errorf("%+v: %q, want %q", target, got, want)
		}
	}
}
