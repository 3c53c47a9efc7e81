package scene

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/homenode/homenode/core/plan"
	"github.com/homenode/homenode/core/workload"
)

// Observation returns a workload as the newest scan saw it, or nil.
func (s *Scene) Observation(id workload.ID) *workload.Observation {
	return observationIn(s.Snapshot.Observations, id)
}

// beforeOf returns a workload as the scan before saw it, or nil.
func (s *Scene) beforeOf(id workload.ID) *workload.Observation {
	return observationIn(s.Before.Observations, id)
}

// observationIn finds a workload among observations that rise by ID.
func observationIn(all []workload.Observation, id workload.ID) *workload.Observation {
	i, ok := slices.BinarySearchFunc(all, id, func(o workload.Observation, id workload.ID) int {
		return cmp.Compare(o.ID, id)
	})
	if !ok {
		return nil
	}
	return &all[i]
}

// Observed returns the names that the observer has for the parts of a workload: of a claim's part,
// those of the whole.
func (s *Scene) Observed(id workload.ID) []workload.ID {
	whole, _ := workload.PartOf(id)
	seen := s.SeenAs[whole]
	if len(seen) > 0 {
		return seen
	}
	return []workload.ID{id}
}

// AtTarget returns the workload that has a target of its own now (plan.Target.Own); "" for none.
func (s *Scene) AtTarget(target string) workload.ID {
	if target == "" {
		return ""
	}
	for i := range s.Snapshot.Observations {
		o := &s.Snapshot.Observations[i]
		own := plan.Target{Kind: o.Kind, Cgroup: CgroupPath(o), Processes: o.Processes}
		if own.Own() == target {
			return o.ID
		}
	}
	return ""
}

// CgroupPath returns the cgroup that an observation is about.
func CgroupPath(o *workload.Observation) string {
	if o.Cgroup != "" {
		return o.Cgroup
	}
	return string(o.ID)
}

// ProcessID returns the workload that a process is the root of.
func ProcessID(pid int) workload.ID { return workload.ID(fmt.Sprintf("pid:%d", pid)) }

// OfProcess reports whether a workload is named by a process.
func OfProcess(id workload.ID) bool { return strings.HasPrefix(string(id), "pid:") }

// isProcess reports whether a workload is ProcessID(pid), without making that.
func isProcess(id workload.ID, pid int) bool {
	number, ok := strings.CutPrefix(string(id), "pid:")
	if !ok || pid <= 0 {
		return false
	}
	for i := len(number) - 1; i >= 0; i-- {
		if pid == 0 || number[i] != byte('0'+pid%10) {
			return false
		}
		pid /= 10
	}
	return pid == 0
}

// StartOf returns the start of the root process, which distinguishes one process workload from a later
// one with the same PID. It is 0 for a cgroup, which keeps its home when its service restarts.
func StartOf(o *workload.Observation) uint64 {
	if o.Kind != workload.InProcess || len(o.Processes) == 0 {
		return 0
	}
	for _, p := range o.Processes {
		if isProcess(o.ID, p.PID) {
			return p.Start
		}
	}
	return o.Processes[0].Start
}

// LivesOf returns the lives that a scan saw. A workload that the scan before saw, too, has the ID as before has it: one
// string for all scans, so that comparing them is quick.
func LivesOf(all []workload.Observation, before []workload.Life) []workload.Life {
	out := make([]workload.Life, len(all))
	was := workload.Lives{All: before}
	for i := range all {
		o := &all[i]
		out[i] = workload.Life{ID: o.ID, Start: StartOf(o)}
		k, seen := was.Find(o.ID)
		if seen {
			out[i].ID = before[k].ID
		}
	}
	return out
}

// started reports whether the admission is of the process that an observation is about.
func (a *Admission) started(o *workload.Observation) bool { return a.Process.Start == StartOf(o) }

func has[V any](m map[workload.ID]V, id workload.ID) bool {
	_, ok := m[id]
	return ok
}

func sortedKeys[K cmp.Ordered, V any](m map[K]V) []K { return slices.Sorted(maps.Keys(m)) }

// OwnCgroup returns the one cgroup that is a workload, or that `homenode run` has made for it, and
// whose files no source manages; "" for none.
func (s *Scene) OwnCgroup(o *workload.Observation) string {
	if o.Kind == workload.InProcess && workload.OfRun(o.Cgroup) {
		return o.Cgroup
	}
	c := s.Claims[o.ID]
	managed := c != nil && c.Driver != ""
	if o.Kind != workload.InCgroup || len(s.SeenAs[o.ID]) > 1 || managed {
		return ""
	}
	return CgroupPath(o)
}
