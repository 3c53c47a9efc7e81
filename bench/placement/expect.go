package main

import (
	"encoding/json"
	"fmt"
	"os"

	"github.com/homenode/homenode/core/place"
	"github.com/homenode/homenode/core/place/replay"
	"github.com/homenode/homenode/core/plan"
	"github.com/homenode/homenode/core/topology"
)

// expectation is what a probe wants to see.
type expectation struct {
	Kind string           `json:"kind"`
	VM   string           `json:"vm"`
	VMs  []string         `json:"vms"`
	Node int              `json:"node"`
	CPUs []topology.CPUID `json:"cpus"`
	Cost float64          `json:"cost"`
}

// expect says how a probe went, in the scorer's words; "" for a case that is none.
func (m *meter) expect(path string) string {
	text, err := os.ReadFile(path)
	var f struct {
		Expect *expectation `json:"expect"`
	}
	if err != nil || json.Unmarshal(text, &f) != nil || f.Expect == nil {
		return ""
	}
	x := f.Expect
	if x.VM != "" {
		x.VMs = []string{x.VM}
	}
	placed := map[string]*plan.Placement{}
	var used topology.CPUSet
	replay.Run(m.c, replay.Options{Answered: func(a *replay.Answer, _ *place.Ledger) error {
		if a.OK {
			p := a.Result.Placement
			placed[string(a.VM)] = &p
			used = used.Union(p.CPUs)
		}
		return nil
	}})
	for _, id := range x.VMs {
		if placed[id] == nil {
			return "rejected"
		}
	}
	return m.verdict(x, placed, used)
}

func (m *meter) verdict(x *expectation, placed map[string]*plan.Placement, used topology.CPUSet) string {
	ok := true
	switch x.Kind {
	case "all_local":
		for _, id := range x.VMs {
			cost, _ := m.access(placed[id])
			ok = ok && cost == 1
		}
	case "different_nodes":
		ok = !placed[x.VMs[0]].Home.Intersects(placed[x.VMs[1]].Home)
	case "max_cost":
		cost, _ := m.access(placed[x.VM])
		if cost > x.Cost {
			return fmt.Sprintf("FAIL %.2f", cost)
		}
		return fmt.Sprintf("ok %.2f", cost)
	case "on_node":
		for _, id := range x.VMs {
			ok = ok && placed[id].Home.Equal(topology.Nodes(topology.NodeID(x.Node)))
		}
	case "avoid_cpus":
		ok = !used.Intersects(topology.CPUs(x.CPUs...))
	case "no_sibling_share":
		for _, n := range m.shares {
			ok = ok && n == 0
		}
	default:
		return "unknown " + x.Kind
	}
	if ok {
		return "ok"
	}
	return "FAIL"
}
