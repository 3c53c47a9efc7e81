package control

import "github.com/homenode/homenode/core/workload"

// locate gives each process and service that a person named for work of an owner the workload that
// it is, and the nodes where it runs.
func (s *State) locate(near []workload.Near, of workload.Owner) {
	s.locateBy(near, func(by workload.Owner) bool { return workload.MayName(by, of) })
}

// locateBy is locate where what the owners run counts that counts says.
func (s *State) locateBy(near []workload.Near, counts func(workload.Owner) bool) {
	if !workload.NamesOthers(near) {
		return
	}
	if s.callable == nil {
		s.callable = running(s.Snapshot.Observations, s.Claims)
	}
	workload.Locate(near, s.callable,
		func(id workload.ID) bool { return counts(s.observation(id).Responsible()) },
		func(id workload.ID) []workload.NodeShare { return s.observation(id).RanOn })
}
