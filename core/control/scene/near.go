package scene

import "github.com/homenode/homenode/core/workload"

// Locate gives each process and service that a person named for work of an owner its workload, and
// the nodes where it runs.
func (s *Scene) Locate(near []workload.Near, of workload.Owner) {
	if !workload.NamesOthers(near) {
		return
	}
	if s.named == nil {
		s.named = Running(s.Snapshot.Observations, s.Claims)
	}
	workload.Locate(near, s.named,
		func(id workload.ID) bool { return workload.MayName(s.Observation(id).Responsible(), of) },
		func(id workload.ID) []workload.NodeShare { return s.Observation(id).RanOn })
}
