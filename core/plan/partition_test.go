package plan_test

import (
	"strings"
	"testing"

	"github.com/homenode/homenode/core/plan"
	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/core/workload"
)

func TestPartition(t *testing.T) {
	h, err := topology.FromSynthetic("package:2 node:1 core:20 pu:2 numbering=interleaved")
	if err != nil {
		t.Fatal(err)
	}
	tests := []struct {
		partition plan.Partition
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
		err := tt.partition.Apply(h, &p)
		if tt.err != "" {
			if tt.dedicated != p.Dedicated.String() {
				t.Errorf("%q: %v is left of it, want %s", tt.partition, p.Dedicated, tt.dedicated)
			}
			if err == nil || !strings.Contains(err.Error(), tt.err) {
				t.Errorf("%q: %v, want %s", tt.partition, err, tt.err)
			}
			continue
		}
		if err != nil || p.Split != tt.split || p.Dedicated.String() != tt.dedicated {
			t.Errorf("%q: %v, %v %v; want %v %s", tt.partition, err, p.Split, p.Dedicated, tt.split, tt.dedicated)
		}
	}
}

func TestCheckKnowsThePartition(t *testing.T) {
	h, _ := topology.FromSynthetic("node:1(memory=4GiB) core:4 pu:1")
	st := plan.State{Host: h, Policy: plan.Policy{Split: true, Dedicated: topology.CPUs(2, 3)}}
	for _, tt := range []struct {
		class workload.Class
		cpus  topology.CPUSet
		ok    bool
	}{
		{workload.Dedicated, topology.CPUs(2, 3), true}, {workload.Dedicated, topology.CPUs(1, 2), false},
		{workload.Shared, topology.CPUs(0, 1), true}, {workload.Shared, topology.CPUs(1, 2), false}, {workload.Batch, topology.CPUs(0, 1, 2, 3), true},
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

// TestShareOfCores: a share is of each node's cores that are not reserved, rounded
// down to whole ones, taken from the highest CPU down.
func TestShareOfCores(t *testing.T) {
	even, err := topology.FromSynthetic("node:2 core:20 pu:1")
	if err != nil {
		t.Fatal(err)
	}
	hundred, err := topology.FromSynthetic("node:1 core:100 pu:1")
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		h         *topology.Host
		partition plan.Partition
		reserved  topology.CPUSet
		want      string
	}{
		{even, "50%", topology.CPUSet{}, "10-19,30-39"},
		{even, "52.5%", topology.CPUSet{}, "10-19,30-39"}, // 10.5 cores
		{even, "55%", topology.CPUSet{}, "9-19,29-39"},
		{even, "50%", topology.CPUs(0, 1, 39), "11-19,30-38"}, // of 18 and of 19 cores
		{even, "99.9%", topology.CPUSet{}, "1-19,21-39"},
		{hundred, "29%", topology.CPUSet{}, "71-99"}, // 0.29 × 100 is a little less than 29 in floating point
		{hundred, "99%", topology.CPUSet{}, "1-99"},
		{hundred, "0.9%", topology.CPUSet{}, ""},
	} {
		p := plan.Policy{Reserved: tt.reserved}
		if err := tt.partition.Apply(tt.h, &p); err != nil || p.Dedicated.String() != tt.want {
			t.Errorf("%s of %v: %v, %v; want %s", tt.partition, tt.h.Online, p.Dedicated, err, tt.want)
		}
	}
}
