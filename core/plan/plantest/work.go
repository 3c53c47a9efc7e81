package plantest

import (
	"math"

	"github.com/google/go-cmp/cmp"

	"github.com/homenode/homenode/core/plan"
	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/core/workload"
)

// Same compares values that hold sets: those by what they hold.
var Same = cmp.Options{
	cmp.Comparer(func(a, b topology.CPUSet) bool { return a.Equal(b) }),
	cmp.Comparer(func(a, b topology.NodeSet) bool { return a.Equal(b) }),
}

// TwoNodes draws a host of two nodes.
const TwoNodes = `
	0  0-3|8-11   16G 10 21
	1  4-7|12-15  16G 21 10
`

// OnHost is a drawn host with the usual policy, on which nothing is placed.
func OnHost(drawing string) plan.State {
	return plan.State{Host: Draw(drawing), Policy: plan.DefaultPolicy()}
}

// VM is the request of dedicated work with its own numbers.
func VM(id string, vcpus int, memory topology.KiB) workload.Spec {
	return workload.Spec{
		ID: workload.ID(id), Class: workload.Dedicated, Importance: 50, CPUs: vcpus, Memory: memory, Given: true,
	}
}

// Service is the request of shared work with its own numbers.
func Service(id string, vcpus int, memory topology.KiB) workload.Spec {
	s := VM(id, vcpus, memory)
	s.Class = workload.Shared
	return s
}

// Memory is a list of the memory on node 0, 1 and so on.
func Memory(mem ...topology.KiB) []workload.NodeMemory {
	var out []workload.NodeMemory
	for n, m := range mem {
		if m > 0 {
			out = append(out, workload.NodeMemory{Node: topology.NodeID(n), KiB: m})
		}
	}
	return out
}

// Floating is a placement of shared work on a node, without memory.
func Floating(id workload.ID, node topology.NodeID, vcpus int) plan.Placement {
	return plan.Placement{
		Workload: id, Class: workload.Shared, Importance: 50, VCPUs: vcpus, Home: topology.Nodes(node),
	}
}

// About reports whether two numbers are the same but for rounding.
func About(a, b float64) bool {
	return a == b || math.Abs(a-b) < 1e-9*max(1, math.Abs(a), math.Abs(b))
}

// Dedicated is a placement of dedicated work on a node, one CPU for each vCPU.
func Dedicated(id workload.ID, node topology.NodeID, memory topology.KiB, pins ...topology.CPUID) plan.Placement {
	p := plan.Placement{
		Workload: id, Class: workload.Dedicated, Importance: 50, VCPUs: len(pins), Home: topology.Nodes(node),
		CPUs: topology.CPUs(pins...), Pins: pins, Asked: memory, Bound: true,
	}
	if memory > 0 {
		p.Memory = []workload.NodeMemory{{Node: node, KiB: memory}}
	}
	return p
}

// Large is nodes of equal size, four to a socket, two CPUs a core, eight CPUs
// a cache, 4 GiB a CPU.
func Large(nodes, cpus int) plan.State {
	h := Grid(nodes, cpus/nodes/2, 2, topology.KiB(cpus/nodes)*4*GiB, func(i, j int) int {
		switch {
		case i == j:
			return 10
		case i/4 == j/4:
			return 12
		}
		return 28
	})
	return plan.State{Host: h, Policy: plan.DefaultPolicy()}
}
