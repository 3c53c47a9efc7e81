package demand

import (
	"math/bits"

	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/core/workload"
)

// cpuHeadroom is what a workload may use beyond what it was seen to use. A
// workload that is short of CPUs cannot show that it wants more; a quarter lets
// it show, and is found by the next look.
const cpuHeadroom = 1.25

// mostMemory is far above any machine, and far below what could overflow in sums.
const mostMemory = topology.KiB(1) << 50

// SpecFrom derives what a running workload wants from what was seen of it: a
// shared workload of the size it has. The caller puts what people said over it.
func SpecFrom(obs workload.Observation) workload.Spec {
	s := workload.Spec{
		ID: obs.ID, Name: obs.Name, Class: workload.Shared, Importance: workload.DefaultImportance,
		Memory: roundMemory(workload.Total(obs.Memory)),
	}
	s.CPUs = 1
	if use := obs.CPUUse * cpuHeadroom; use > 1 && use < topology.MaxID {
		s.CPUs = int(use)
		if use-float64(s.CPUs) > tiny {
			s.CPUs++
		}
	}
	if obs.Threads > 0 {
		s.CPUs = min(s.CPUs, obs.Threads)
	}
	return s
}

// roundMemory rounds resident memory up to a sixteenth of its size, and at least
// 16 MiB: so much may come without the booking, and with it the plan, changing.
func roundMemory(m topology.KiB) topology.KiB {
	if m <= 0 {
		return 0
	}
	m = min(m, mostMemory)
	step := topology.KiB(1) << max(14, bits.Len64(uint64(m))-4)
	return (m + step - 1) / step * step
}
