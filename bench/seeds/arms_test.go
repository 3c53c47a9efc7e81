package main

import (
	"strings"
	"testing"

	"github.com/homenode/homenode/core/topology"
)

func shown(homes []home) string {
	var out []string
	for _, h := range homes {
		s := h.CPUs.String()
		if !h.Nodes.Empty() {
			s += "@" + h.Nodes.String()
		}
		out = append(out, s)
	}
	return strings.Join(out, " ")
}

// TestHomes: where each rule puts programs. The machine has two nodes of four cores with two threads,
// 8 apart; node 0 has CPUs 0-3 and 8-11, or, interleaved, the even ones.
func TestHomes(t *testing.T) {
	block := "package:2 node:1(memory=8GiB) core:4 pu:2"
	interleaved := block + " numbering=interleaved"
	three := []ask{{cpus: 4, memory: 1024}, {cpus: 4, memory: 1024}, {cpus: 4, memory: 1024}}
	wide := []ask{{cpus: 8, memory: 1024}, {cpus: 3, memory: 1024}}
	tooMany := []ask{{cpus: 8, memory: 1024}, {cpus: 8, memory: 1024}, {cpus: 1, memory: 1024}}
	batch := []ask{{cpus: 4, memory: 1024}, {cpus: 8, memory: 1024, batch: true}}
	large := []ask{{cpus: 1, memory: 6000}, {cpus: 1, memory: 6000}}
	for _, x := range []struct {
		rule, machine string
		asks          []ask
		want          string
	}{
		{"first-free", block, three, "0-3 4-7 8-11"},
		{"first-free", interleaved, three, "0-3 4-7 8-11"}, // two nodes for each
		{"first-free", block, tooMany, "0-7 8-15 "},
		{"first-free", block, batch, "0-3 4-15"},
		{"taskset", block, three, "0-4 5-9 10-15"},
		{"taskset", "node:1(memory=1GiB) core:2", three, "0 0 1"},
		{"nova", block, three, "0-1,8-9@0 2-3,10-11@0 4-5,12-13@1"},
		{"nova", interleaved, three, "0,2,8,10@0 4,6,12,14@0 1,3,9,11@1"},
		{"nova", block, large, "0@0 4@1"}, // by memory
		{"nova", block, []ask{{cpus: 9, memory: 1}}, "0-15"},
		{"kubelet", block, three, "1-2,9-10 3-4,11-12 5-6,13-14"}, // 0 and 8 are the system's; the second spans both nodes
		{"kubelet", block, wide, "4-7,12-15 1-2,9"},
		{"kubelet", block, tooMany, "4-7,12-15 0,2-3,8-11 1"},
		{"kubelet", block, batch, "1-2,9-10 0,3-8,11-15"},
	} {
		h := synthetic(t, x.machine)
		if got := shown(ruleOf(x.rule).homes(h, x.asks)); got != x.want {
			t.Errorf("%s on %s: %s, want %s", x.rule, x.machine, got, x.want)
		}
	}
}

// TestHomesAreOfTheMachine: whatever is asked, no rule gives a CPU that is not there, or one CPU to two that do not share.
func TestHomesAreOfTheMachine(t *testing.T) {
	for _, machine := range []string{"node:1(memory=1GiB) core:1", "package:2 node:2(memory=4GiB) core:3 pu:2", "package:4 node:1(memory=4GiB) core:2 numbering=interleaved"} {
		h := synthetic(t, machine)
		for _, r := range rules {
			if r.homes == nil {
				continue
			}
			for cpus := 1; cpus <= 9; cpus++ {
				asks := make([]ask, 5)
				for i := range asks {
					asks[i] = ask{cpus: cpus, memory: 100, batch: i == 4}
				}
				var given topology.CPUSet
				for i, home := range r.homes(h, asks) {
					if !home.CPUs.SubsetOf(h.Allowed) {
						t.Errorf("%s on %s: CPUs %s", r.name, machine, home.CPUs)
					}
					own := home.CPUs.Len() == cpus && i < 4
					if own && r.name != "taskset" && home.CPUs.Intersects(given) && cpus < h.Allowed.Len()/5 {
						t.Errorf("%s on %s: CPUs %s twice", r.name, machine, home.CPUs.Intersect(given))
					}
					given = given.Union(home.CPUs)
				}
			}
		}
	}
}

// TestPossible: an arm that a machine cannot have says why.
func TestPossible(t *testing.T) {
	one, two := synthetic(t, "node:1(memory=1GiB) core:2"), synthetic(t, "node:2(memory=1GiB) core:2")
	if err := ruleOf("balancing").possible(one, ""); err == nil || !strings.Contains(err.Error(), "one NUMA node") {
		t.Errorf("balancing on one node: %v", err)
	}
	if err := ruleOf("balancing").possible(two, ""); err != nil {
		t.Errorf("balancing on two nodes: %v", err)
	}
	if err := ruleOf("homenode").possible(two, ""); err == nil || !strings.Contains(err.Error(), "make build") {
		t.Errorf("without the program: %v", err)
	}
	if err := ruleOf("kernel").possible(one, ""); err != nil {
		t.Errorf("kernel: %v", err)
	}
}
