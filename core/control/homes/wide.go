package homes

import (
	"time"

	"github.com/homenode/homenode/core/workload"
)

// hurryFor is how long scans follow one another quickly once work has a home of several nodes: work that has just
// begun starts its threads, and each fills its memory, in its first seconds.
const hurryFor = 10 * time.Second

// Wide is the workloads whose home has several nodes.
type Wide struct {
	IDs   map[workload.ID]bool // by what the observer calls them; it is not to be changed
	Hurry time.Time            // until when scans follow one another quickly
}

// Follow takes up which homes there are now. parts returns what the observer calls the parts of a workload.
func (w *Wide) Follow(all []workload.Placement, parts func(workload.ID) []workload.ID, now time.Time) {
	was := w.IDs
	w.IDs = nil
	for i := range all {
		if all[i].Home.Len() < 2 {
			continue
		}
		if w.IDs == nil {
			w.IDs = map[workload.ID]bool{}
		}
		for _, part := range parts(all[i].Workload) {
			w.IDs[part] = true
			if !was[part] {
				w.Hurry = now.Add(hurryFor)
			}
		}
	}
}
