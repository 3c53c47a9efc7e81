package runs

import (
	"context"
	"path"
	"strings"
	"time"

	"github.com/homenode/homenode/core/control"
	"github.com/homenode/homenode/core/plan"
	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/core/workload"
)

// Part is which settings of runs a Journal has.
type Part int

// Parts: what a cgroup has is restored before all else, because a process gets no CPU that its cgroup lacks.
const (
	Cgroups    Part = iota // restrictions of scopes, and cgroups of batch work
	Affinities             // of commands that no daemon has booked
	Every                  // affinities of all commands
)

// Journal is a user's own: what living runs of the user have set.
type Journal struct {
	of      *Source
	entries []plan.Entry
	runs    []Run // of each entry
	unlock  func()
}

// Open locks the registry until Close and returns its journal.
func (s *Source) Open(part Part) (*Journal, error) {
	unlock, err := s.Lock(false)
	if err != nil {
		return nil, err
	}
	j := &Journal{of: s, unlock: unlock}
	living, err := s.Registry.Living(s.User)
	if err != nil {
		unlock()
		return nil, err
	}
	for _, run := range living {
		for _, e := range s.entries(&run, part) {
			e.Seq = uint64(len(j.entries) + 1)
			e.Time = time.Now()
			e.State = plan.Applied
			e.Workload = run.Placement.Workload
			j.entries, j.runs = append(j.entries, e), append(j.runs, run)
		}
	}
	return j, nil
}

// Entries implements daemon.Kept.
func (j *Journal) Entries() []plan.Entry { return j.entries }

// Close implements daemon.Kept.
func (j *Journal) Close() error {
	j.unlock()
	return nil
}

// Restored implements daemon.Kept: a setting that was restored leaves the registry.
func (j *Journal) Restored(e plan.Entry) error {
	if e.Seq > uint64(len(j.runs)) {
		return nil // another process has inherited the setting
	}
	run := j.runs[e.Seq-1]
	if e.Kind == plan.Affinity { // it holds nothing any more
		j.of.Remove(run.Process)
		return nil
	}
	return j.of.freed(run.Process, e.Kind)
}

// entries returns what one run has set.
func (s *Source) entries(run *Run, part Part) (out []plan.Entry) {
	if part != Cgroups {
		now, err := s.Affinity(run.Process.PID)
		unknown := run.Had.Empty() || run.Placement.CPUs.Empty() || (run.Ledger && part == Affinities)
		if err != nil || unknown || now.Equal(run.Had) {
			return nil
		}
		return []plan.Entry{{Kind: plan.Affinity, Path: plan.ProcessPath(run.Process), Old: run.Had.String(),
			New: run.Placement.CPUs.String(), Ticks: run.Process.Start}}
	}
	scope := run.Scope
	if scope == nil {
		return nil
	}
	if scope.Batch {
		if path.Base(s.Cgroup(run.Process.PID)) != path.Base(scope.Unit) {
			return nil // it did not get there, or is there no more
		}
		before := scope.From
		// systemd moves nothing out of a scope but into another
		if unit, ok := strings.CutSuffix(scope.Unit, ".scope"); ok {
			before = unit + "-online.scope"
		}
		return []plan.Entry{{Kind: plan.ProcessGroup, Path: plan.ProcessPath(run.Process), Old: before,
			New: scope.Unit}}
	}
	if !scope.Mems.Empty() { // an undo begins with the last entry: with the CPUs
		out = append(out, plan.Entry{Kind: plan.UnitMems, Path: scope.Unit, New: scope.Mems.String()})
	}
	if !scope.CPUs.Empty() {
		out = append(out, plan.Entry{Kind: plan.UnitCPUs, Path: scope.Unit, New: scope.CPUs.String()})
	}
	return out
}

// freed takes a setting that was restored off what is written down of a run's scope.
func (r *Registry) freed(p workload.Process, kind plan.SettingKind) error {
	run, err := r.read(plan.ProcessPath(p))
	if err != nil || run.Scope == nil {
		return nil // it has ended
	}
	switch kind {
	case plan.UnitCPUs:
		run.Scope.CPUs = topology.CPUSet{}
	case plan.UnitMems:
		run.Scope.Mems = topology.NodeSet{}
	default:
		run.Scope.Batch = false
	}
	return r.Put(run)
}

// Named returns what a name means that only a run's scope or a PID has; false for others.
func (s *Source) Named(name workload.ID) (workload.ID, bool) {
	if _, isPID := workload.PIDOf(string(name)); isPID {
		return name, true
	}
	living, _ := s.Registry.Living(s.User)
	for i := range living {
		scope := living[i].Scope
		if scope == nil {
			continue
		}
		unit, asked := path.Base(scope.Unit), path.Base(string(name))
		if unit == asked || unit == asked+".scope" {
			return living[i].Placement.Workload, true
		}
	}
	return "", false
}

// Observer sees the living runs of a user, by which names are understood, and nothing else.
type Observer struct{ Of *Source }

// Look implements daemon.Observer.
func (o Observer) Look(context.Context, control.Attention) (workload.Snapshot, error) {
	h, err := o.Of.Host()
	if err != nil {
		return workload.Snapshot{}, err
	}
	seen := workload.Snapshot{Host: h}
	living, err := o.Of.Registry.Living(o.Of.User)
	for i := range living {
		run := &living[i]
		cpus, _ := o.Of.Affinity(run.Process.PID)
		seen.Observations = append(seen.Observations, workload.Observation{
			ID: run.Placement.Workload, Kind: workload.InProcess, Name: run.Name, CPUs: cpus,
			Cgroup: o.Of.Cgroup(run.Process.PID), Processes: []workload.Process{run.Process},
		})
	}
	return seen, err
}

// Stale implements daemon.Observer: nothing is kept between two scans.
func (Observer) Stale(workload.ID) {}

// Changed implements daemon.Observer, likewise.
func (Observer) Changed(workload.ID) {}
