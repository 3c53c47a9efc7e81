package plan

import (
	"cmp"

	"github.com/homenode/homenode/core/words"
)

// This page is what the loop knows of single kinds of step. The loop itself names none.

// MovesPages reports whether a kind moves pages little by little. Such a step has no settings, reports
// its progress, and can be stopped.
func (k StepKind) MovesPages() bool { return k == MovePages }

// PullsMemory reports whether the kernel moves memory before the write of a kind returns.
func (k StepKind) PullsMemory() bool { return k == SetMems }

// Pins reports whether a kind sets affinities of processes or threads.
func (k StepKind) Pins() bool { return k == SetCPUs || k == DivideThreads }

// GivesCPUs reports whether a kind gives CPUs to a whole workload.
func (k StepKind) GivesCPUs() bool { return k == SetCPUs }

// PerProcess reports whether a workload has one step of a kind for each of its processes.
func (k StepKind) PerProcess() bool { return k == DivideThreads }

// Remakes reports whether the kernel makes the objects of other settings of the target anew.
func (k StepKind) Remakes() bool { return k == SetQueues }

// Remakes reports whether a setting is the one whose change makes the objects of others anew.
func (k SettingKind) Remakes() bool { return k == QueueCount }

// Yields reports whether a kind leaves a value that another program has chosen.
func (k StepKind) Yields() bool { return k == SetCgroup || k == SetCache }

// Slow reports whether a step takes as long as there is memory to move: the kernel moves what lies
// outside the new nodes before the write of cpuset.mems returns.
func (s *Step) Slow() bool {
	return s.Kind.MovesPages() || (s.Kind.PullsMemory() && !s.AtOnce)
}

// Routine reports whether a step repeats what stands for threads that have come since, or makes room again in
// fast memory. Threads come and go all the time, and so does memory.
func (s *Step) Routine() bool {
	return s.Kind == ReclaimMemory || (s.Kind == DivideThreads && s.From == s.To)
}

// FromText returns the value before a step as the history has it.
func (s *Step) FromText() string {
	if s.Kind == SetScheduler {
		return Scheduler.Text(s.From)
	}
	return words.OrAll(s.From)
}

// Text returns a value of a setting as the history has it: an empty set means all CPUs or nodes, an
// empty version none.
func (k SettingKind) Text(value string) string {
	if k == Scheduler {
		return cmp.Or(value, "none")
	}
	return words.OrAll(value)
}
