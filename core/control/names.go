package control

import (
	"slices"

	"github.com/homenode/homenode/core/control/scene"
	"github.com/homenode/homenode/core/control/work"
	"github.com/homenode/homenode/core/words"
	"github.com/homenode/homenode/core/workload"
)

// Find is the running workload that a name means (workload.Find), with what the kernel says
// of it where it is a process.
func (v *View) Find(name workload.ID, of workload.Lineage) (*workload.Observation, *Failure) {
	all := v.Snapshot.Observations
	id, f := find(running(all, v.Claims), name, of)
	if f != nil {
		return nil, v.smaller(f, name, of)
	}
	return &all[slices.IndexFunc(all, func(o workload.Observation) bool { return o.ID == id })], nil
}

// FindKnown is the ID that a name means, of what runs, of what stands in the journal or is
// held, and of others that somebody remembers.
func (v *View) FindKnown(name workload.ID, of workload.Lineage, others ...workload.ID) (workload.ID, *Failure) {
	all := scene.Known(v.Snapshot.Observations, scene.Remembered{
		Claims: v.Claims, Journal: v.Journal, Held: v.Holds.IDs, Others: others,
	})
	id, f := find(all, name, of)
	return id, v.smaller(f, name, of)
}

// smaller adds to the failure of a name that it means something that was moved by itself, or is too
// small to be a workload.
func (v *View) smaller(f *Failure, name workload.ID, of workload.Lineage) *Failure {
	if f == nil || f.Code != NotFound {
		return f
	}
	why := scene.Smaller(&v.Snapshot, v.Journal, name, of)
	if why.None() {
		return f
	}
	return &Failure{Code: NotFound, Text: why.String()}
}

// means puts the ID of the one workload that is meant in the place of its name.
func (s *State) means(which *Which, of workload.Lineage) (f *Failure) {
	if which.All {
		return nil
	}
	if which.ID == "" {
		return work.Refuse(BadRequest, words.NameOrAll)
	}
	// What was placed since the newest scan is in none of the others.
	all := scene.Known(s.Snapshot.Observations, scene.Remembered{
		Claims: s.Claims, Journal: s.Journal.All(), Held: s.Holds.IDs, Others: sortedKeys(s.Admissions),
	})
	which.ID, f = find(all, which.ID, of)
	return f
}

// running returns the workloads that run, each by all its names.
func running(all []workload.Observation, claims map[workload.ID]*workload.Claim) []workload.Named {
	return scene.Running(all, claims)
}

// find returns the one workload that a name means.
func find(all []workload.Named, name workload.ID, of workload.Lineage) (workload.ID, *Failure) {
	id, f := scene.Find(all, name, of)
	switch {
	case f == nil:
		return id, nil
	case f.None:
		return "", &Failure{Code: NotFound, Text: f.Why.String()}
	}
	return "", &Failure{Code: BadRequest, Text: f.Why.String()}
}
