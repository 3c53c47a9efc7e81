package arrange

import (
	"math"
	"os"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/homenode/homenode/core/plan"
	"github.com/homenode/homenode/core/plan/plantest"
	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/core/words"
	"github.com/homenode/homenode/core/workload"
)

func TestMain(m *testing.M) { os.Exit(plantest.Main(m)) }

const gib = plantest.GiB

// same compares values that hold sets: those by what they hold.
var same = cmp.Options{
	cmp.Comparer(func(a, b topology.CPUSet) bool { return a.Equal(b) }),
	cmp.Comparer(func(a, b topology.NodeSet) bool { return a.Equal(b) }),
}

func onHost(drawing string) plan.State {
	return plan.State{Host: plantest.Draw(drawing), Policy: plan.DefaultPolicy()}
}

func vm(id string, vcpus int, memory topology.KiB) workload.Spec {
	return workload.Spec{ID: workload.ID(id), Class: workload.Dedicated, Importance: 50, CPUs: vcpus, Memory: memory, Given: true}
}

func service(id string, vcpus int, memory topology.KiB) workload.Spec {
	s := vm(id, vcpus, memory)
	s.Class = workload.Shared
	return s
}

func on(mem ...topology.KiB) []workload.NodeMemory {
	var out []workload.NodeMemory
	for n, m := range mem {
		if m > 0 {
			out = append(out, workload.NodeMemory{Node: topology.NodeID(n), KiB: m})
		}
	}
	return out
}

const twoNodes = `
	0  0-3|8-11   16G 10 21
	1  4-7|12-15  16G 21 10
`

// says is one reason, of the values given or any.
func says(code words.Code, args ...any) []words.Reason {
	return words.Reasons(words.Because(code, args...))
}

func floating(id workload.ID, node topology.NodeID, vcpus int) plan.Placement {
	return plan.Placement{Workload: id, Class: workload.Shared, Importance: 50, VCPUs: vcpus, Home: topology.Nodes(node)}
}

func dedicatedOn(id workload.ID, node topology.NodeID, memory topology.KiB, pins ...topology.CPUID) plan.Placement {
	p := plan.Placement{Workload: id, Class: workload.Dedicated, Importance: 50, VCPUs: len(pins), Home: topology.Nodes(node), CPUs: topology.CPUs(pins...), Pins: pins, Asked: memory, Bound: true}
	if memory > 0 {
		p.Memory = []workload.NodeMemory{{Node: node, KiB: memory}}
	}
	return p
}

func about(a, b float64) bool {
	return a == b || math.Abs(a-b) < 1e-9*max(1, math.Abs(a), math.Abs(b))
}
