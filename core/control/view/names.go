package view

import (
	"slices"

	"github.com/homenode/homenode/core/control/scene"
	"github.com/homenode/homenode/core/control/work"
	"github.com/homenode/homenode/core/workload"
)

// Find is the running workload that a name means (workload.Find), with what the kernel says
// of it where it is a process.
func (v *View) Find(name workload.ID, of workload.Lineage) (*workload.Observation, *work.Failure) {
	all := v.Snapshot.Observations
	id, f := Find(scene.Running(all, v.Claims), name, of)
	if f != nil {
		return nil, v.smaller(f, name, of)
	}
	return &all[slices.IndexFunc(all, func(o workload.Observation) bool { return o.ID == id })], nil
}

// FindKnown is the ID that a name means, of what runs, of what stands in the journal or is
// held, and of others that somebody remembers.
func (v *View) FindKnown(name workload.ID, of workload.Lineage, others ...workload.ID) (workload.ID, *work.Failure) {
	all := scene.Known(v.Snapshot.Observations, scene.Remembered{
		Claims: v.Claims, Journal: v.Journal, Held: v.Holds.IDs, Others: others,
	})
	id, f := Find(all, name, of)
	return id, v.smaller(f, name, of)
}

// smaller adds to the failure of a name that it means something that was moved by itself, or is too
// small to be a workload.
func (v *View) smaller(f *work.Failure, name workload.ID, of workload.Lineage) *work.Failure {
	if f == nil || f.Code != work.NotFound {
		return f
	}
	why := scene.Smaller(&v.Snapshot, v.Journal, name, of)
	if why.None() {
		return f
	}
	return &work.Failure{Code: work.NotFound, Text: why.String()}
}

// Find returns the one workload that a name means.
func Find(all []workload.Named, name workload.ID, of workload.Lineage) (workload.ID, *work.Failure) {
	id, f := scene.Find(all, name, of)
	switch {
	case f == nil:
		return id, nil
	case f.None:
		return "", &work.Failure{Code: work.NotFound, Text: f.Why.String()}
	}
	return "", &work.Failure{Code: work.BadRequest, Text: f.Why.String()}
}
