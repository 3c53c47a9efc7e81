package daemon

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/homenode/homenode/core/plan"
	"github.com/homenode/homenode/core/workload"
)

// heirPasses bounds how often all processes are gone through for heirs: one can be
// made, and its maker end, while a pass goes on. The second seldom finds any.
const heirPasses = 5

// heirsError says that each of heirPasses searches found heirs, so that there may be more.
type heirsError struct{ last []plan.Heir }

func (e *heirsError) Error() string {
	return fmt.Sprintf("all processes were gone through %d times, and each time more had inherited", heirPasses)
}

// adopt journals what has inherited a value that journal gave, with the value it
// would have without homenode, so that undo finds it when the one it inherited
// from is gone. With among only those processes are asked; without, everything, until
// nothing more is found, and *heirsError when there is no end to it. of names the
// workload that a process belongs to; for those it does not know, the one it
// inherits from is taken.
func adopt(ctx context.Context, s Store, drivers map[workload.Kind]Driver, journal []plan.Entry, among []workload.Process,
	of func(workload.Process) (workload.ID, bool)) (adopted []plan.Entry, err error) {
	driver, ok := drivers[workload.InProcess].(Heirs)
	if !ok || !slices.ContainsFunc(journal, func(e plan.Entry) bool { return e.Kind == plan.Affinity }) {
		return nil, nil
	}
	var heirs []plan.Heir
	for range heirPasses {
		heirs, err = driver.Heirs(ctx, journal, among)
		if err != nil || len(heirs) == 0 {
			return adopted, err
		}
		var found []plan.Entry
		for _, h := range heirs {
			i := slices.IndexFunc(journal, func(e plan.Entry) bool { return e.Seq == h.Of })
			if i < 0 {
				return adopted, fmt.Errorf("heir %s of entry %d, which is not in the journal", h.Path, h.Of)
			}
			id := journal[i].Workload
			if p, err := plan.ParseProcessPath(h.Path); err == nil && of != nil {
				if own, ok := of(p); ok {
					id = own
				}
			}
			// The time of the entry it inherits from: its own children may be older than now.
			entries, err := s.Intend(id, []plan.Setting{h.Setting}, []string{h.Has}, journal[i].Time)
			if err != nil {
				return adopted, fmt.Errorf("journal: %w", err)
			}
			found, adopted = append(found, entries...), append(adopted, entries...)
		}
		if err := s.Mark(plan.Applied, seqs(found)...); err != nil { // they have it
			return adopted, fmt.Errorf("journal: %w", err)
		}
		if among != nil {
			return adopted, nil
		}
		journal = append(slices.Clip(journal), found...)
	}
	return adopted, &heirsError{heirs}
}

// adoptNew journals processes that workloads have started since their affinity was
// set. One that is younger than a look is left for the next: most live shorter,
// and those whose makers end meanwhile are found before an entry goes.
func (d *Daemon) adoptNew(ctx context.Context, s workload.Snapshot) error {
	asked := make(map[workload.Process]bool, len(d.asked))
	owner := map[workload.Process]workload.ID{}
	var among []workload.Process
	for i := range s.Observations {
		o := &s.Observations[i]
		if o.Kind != workload.InProcess {
			continue
		}
		for _, p := range o.Processes {
			known, seen := d.asked[p]
			asked[p] = seen
			if seen && !known {
				among = append(among, p)
				owner[p] = o.ID
			}
		}
	}
	if len(among) == 0 {
		d.asked = asked
		return nil
	}
	d.changing.Lock()
	defer d.changing.Unlock()
	journal, err := d.o.Store.Journal()
	if err != nil {
		return err
	}
	entries, err := adopt(ctx, d.o.Store, d.o.Drivers, journal, among,
		func(p workload.Process) (workload.ID, bool) { id, ok := owner[p]; return id, ok })
	d.noteHeirs(entries)
	if err == nil { // else they are asked again
		d.asked = asked
	}
	return err
}

// noteHeirs remembers what heirs have, so that the observer does not take an
// inherited CPU set for somebody else's pin.
func (d *Daemon) noteHeirs(entries []plan.Entry) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, e := range entries {
		if p, err := plan.ParseProcessPath(e.Path); err == nil && e.Workload == processID(p.PID) {
			d.noteGiven(e.Workload, e.Kind, e.New)
		}
	}
}

// adoptAmong is adopt before a step changes the settings have, so that none is
// journalled with a value that it has from homenode. d.changing is held.
func (d *Daemon) adoptAmong(ctx context.Context, w workload.ID, have []plan.Setting) error {
	journal, err := d.o.Store.Journal()
	if err != nil {
		return err
	}
	var among []workload.Process
	for _, h := range have {
		if h.Kind != plan.Affinity || slices.ContainsFunc(journal, func(e plan.Entry) bool { return e.Kind == h.Kind && e.Path == h.Path }) {
			continue
		}
		if p, err := plan.ParseProcessPath(h.Path); err == nil {
			among = append(among, p)
		}
	}
	if len(among) == 0 {
		return nil
	}
	_, err = adopt(ctx, d.o.Store, d.o.Drivers, journal, among,
		func(workload.Process) (workload.ID, bool) { return w, true })
	return err
}

// bury marks journal entries as gone, but not before everything that has
// inherited from them has an entry of its own.
func bury(ctx context.Context, s Store, drivers map[workload.Kind]Driver, journal []plan.Entry, dead []uint64) ([]plan.Entry, error) {
	if !slices.ContainsFunc(journal, func(e plan.Entry) bool { return e.Kind == plan.Affinity && slices.Contains(dead, e.Seq) }) {
		return nil, s.Mark(plan.Gone, dead...)
	}
	adopted, err := adopt(ctx, s, drivers, journal, nil, nil)
	var more *heirsError
	ofDead := func(h plan.Heir) bool { return slices.Contains(dead, h.Of) }
	// What lives and starts others all the time keeps its entry.
	if errors.As(err, &more) && !slices.ContainsFunc(more.last, ofDead) {
		err = nil
	}
	if err != nil {
		return adopted, err
	}
	return adopted, s.Mark(plan.Gone, dead...)
}

// processID is the workload that a process is the root of.
func processID(pid int) workload.ID { return workload.ID(fmt.Sprintf("pid:%d", pid)) }
