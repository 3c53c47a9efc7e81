package plan_test

import (
	"strings"
	"testing"

	"github.com/homenode/homenode/core/plan"
	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/core/workload"
)

func TestBorder(t *testing.T) {
	h, err := topology.FromSynthetic("package:2 node:1 core:20 pu:2 numbering=interleaved")
	if err != nil {
		t.Fatal(err)
	}
	tests := []struct {
		border    plan.Border
		split     bool
		dedicated string
		err       string
	}{
		{"", false, "", ""}, {"any", false, "", ""}, {"shared", true, "", ""}, {"dedicated", true, "2-39,42-79", ""},
		{"0-9,40-49", true, "2-9,42-49", ""},
		{"50%", true, "22-39,62-79", ""}, // 9 of the 19 cores that each node has left
		{"1%", true, "", ""},
		{"0%", false, "", "want any"}, {"100%", false, "", "want any"}, {"x", false, "", "want any"}, {"NaN%", false, "", "want any"}, {"0-99", false, "2-39,42-79", "CPUs 80-99 are not on this host"},
	}
	for _, tt := range tests {
		p := plan.Policy{Reserved: topology.CPUs(0, 1, 40, 41)}
		err := tt.border.Apply(h, &p)
		if tt.err != "" {
			if tt.dedicated != p.Dedicated.String() {
				t.Errorf("%q: %v is left of it, want %s", tt.border, p.Dedicated, tt.dedicated)
			}
			if err == nil || !strings.Contains(err.Error(), tt.err) {
				t.Errorf("%q: %v, want %s", tt.border, err, tt.err)
			}
			continue
		}
		if err != nil || p.Split != tt.split || p.Dedicated.String() != tt.dedicated {
			t.Errorf("%q: %v, %v %v; want %v %s", tt.border, err, p.Split, p.Dedicated, tt.split, tt.dedicated)
		}
	}
}

func TestCheckKnowsTheBorder(t *testing.T) {
	h, _ := topology.FromSynthetic("node:1(memory=4GiB) core:4 pu:1")
	st := plan.State{Host: h, Policy: plan.Policy{Split: true, Dedicated: topology.CPUs(2, 3)}}
	for _, tt := range []struct {
		class workload.Class
		cpus  topology.CPUSet
		ok    bool
	}{
		{workload.Dedicated, topology.CPUs(2, 3), true}, {workload.Dedicated, topology.CPUs(1, 2), false},
		{workload.Shared, topology.CPUs(0, 1), true}, {workload.Shared, topology.CPUs(1, 2), false}, {workload.Offline, topology.CPUs(0, 1, 2, 3), true},
	} {
		p := plan.Placement{Workload: "w", Class: tt.class, VCPUs: tt.cpus.Len(), Home: topology.Nodes(0), CPUs: tt.cpus}
		if tt.class == workload.Dedicated {
			p.Pins = tt.cpus.Slice()
		}
		bad := plan.Check(st, []plan.Placement{p})
		if (len(bad) == 0) != tt.ok || !tt.ok && bad[0].Code != plan.WrongSide {
			t.Errorf("%s on %v: %v", tt.class, tt.cpus, bad)
		}
	}
}
