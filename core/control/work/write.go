package work

import (
	"slices"

	"github.com/homenode/homenode/core/plan"
	"github.com/homenode/homenode/core/workload"
)

// wrote notes that what a scan that is under way has seen of a workload is older than what was
// written, or tried.
func (w *Work) wrote(id workload.ID) {
	end, ok := w.Ended[id]
	end.Scan, end.Settings = w.Scans, end.Settings || !ok
	w.Ended[id] = end
}

// OwnWrites returns observations of affinities as homenode's own where a scan saw them while they were
// being written: the scan may have begun before it was known which.
func (w *Work) OwnWrites(
	seen []workload.Observation, placed func(*workload.Observation) bool,
) []workload.Observation {
	out := seen
	for i := range seen {
		o := &seen[i]
		own := o.Pinned && (w.mayHavePinned(o.ID) || placed(o))
		if !own {
			continue
		}
		if &out[0] == &seen[0] {
			out = slices.Clone(seen)
		}
		out[i].Pinned, out[i].PinnedWhy = false, ""
	}
	return out
}

// mayHavePinned reports whether the newest scan may have seen a part of the affinities that homenode
// wrote of a workload.
func (w *Work) mayHavePinned(id workload.ID) bool {
	scan := w.loop.LastScan()
	if w.Ended[id].Pinned >= scan {
		return true
	}
	t := w.Tasks[id]
	if t == nil {
		return false
	}
	pinsNow := t.Writing && t.Step().Kind.Pins()
	return t.Pinned >= scan || pinsNow
}

// AdoptInherited journals what has inherited a value that an entry gave, with the value it would
// have without homenode, so that undo finds it when the one it inherited from is gone. of
// names the workload that a process belongs to; for those it does not know, the one it
// inherits from is taken. AdoptInherited returns those that inherited from an entry that has gone since
// they were looked for: the caller has to ask again.
func (w *Work) AdoptInherited(found []plan.Inherited,
	of func(workload.Process) (workload.ID, bool)) (stale []plan.Inherited) {
	for _, h := range found {
		if w.Journal.Of(h.Kind, h.Path) != nil {
			continue
		}
		from := w.Journal.At(h.Of)
		if from == nil {
			stale = append(stale, h)
			continue
		}
		id := from.Workload
		p, err := plan.ParseProcessPath(h.Path)
		if err == nil && of != nil {
			own, ok := of(p)
			if ok {
				id = own
			}
		}
		w.Put(w.inherited(&h, from, id))
		if err == nil && w.loop.IsRoot(id, p) {
			w.loop.GaveValue(id, h.Kind, h.Has)
		}
	}
	return stale
}

// inherited returns the entry of what has inherited from another one.
func (w *Work) inherited(h *plan.Inherited, from *plan.Entry, id workload.ID) plan.Entry {
	e := plan.Entry{
		Seq:      w.NextSeq(),
		Time:     from.Time, // its own children may be older than now
		Ticks:    from.Ticks,
		Workload: id,
		Kind:     h.Kind,
		Path:     h.Path,
		Groups:   h.Groups,
		Object:   h.Object,
		Old:      h.Value,
		New:      h.Has,
		Of:       h.Of,
		State:    plan.Applied,
	}
	if from.Kind != h.Kind {
		return e
	}
	// A process that it has started may have an earlier value yet.
	e.Past = slices.DeleteFunc(slices.Clone(from.Past), func(p string) bool { return p == h.Has })
	if from.New != h.Has { // what has been set since it was seen, or is now, reaches it too
		e.New = from.New
		e.Past = append(e.Past, h.Has)
	}
	return e
}
