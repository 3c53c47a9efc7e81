package runs

import (
	"errors"
	"io/fs"
	"syscall"

	"github.com/homenode/homenode/core/control"
	"github.com/homenode/homenode/core/place"
	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/core/workload"
)

// Source is what `homenode run` has started and still lives, as one user may believe it, and the machine that a
// run without a daemon sees. No process can hold up what is read here.
type Source struct {
	*Registry
	User   int       // who writes Registry
	System *Registry // of root, which all believe; nil where Registry is that

	Host     func() (*topology.Host, error)
	InUse    func(h *topology.Host, held map[topology.NodeID]topology.KiB) []workload.NodeMemory
	Affinity func(pid int) (topology.CPUSet, error) // 0 is the caller's
	Resident func(workload.Process) topology.KiB
	Cgroup   func(pid int) string // "" where it is not known
	// Affinities calls each for every process and thread of this machine; nil where that is not the machine
	// that Host reads.
	Affinities func(each func(pid, tid int, cpus topology.CPUSet)) error
}

// Living returns the runs that the user may believe, rising by workload within each registry.
func (s *Source) Living() []Run {
	all, _ := s.Registry.Living(s.User) // what cannot be believed is seen by its affinity
	if s.System != nil {
		more, _ := s.System.Living(0)
		all = append(all, more...)
	}
	return all
}

// Admitted returns the living runs as a daemon knows them.
func (s *Source) Admitted() []control.Admission { return admissions(s.Living()) }

// Own returns the living runs of the user, by which an undo of one part of their settings knows them. It has
// what a command had before where that is in this part.
func (s *Source) Own(part Part) []control.Admission {
	living, _ := s.Registry.Living(s.User)
	out := admissions(living)
	for i := range out {
		if part == Cgroups || len(s.entries(&living[i], part)) == 0 {
			out[i].Had = topology.CPUSet{}
		}
	}
	return out
}

func admissions(living []Run) (out []control.Admission) {
	for i := range living {
		out = append(out, living[i].admission())
	}
	return out
}

func (r *Run) admission() control.Admission {
	p := r.Placement
	spec := workload.Spec{ID: p.Workload, Name: r.Name, Class: p.Class, Tier: r.Tier, Importance: p.Importance,
		CPUs: p.VCPUs, Memory: p.Asked, Given: true}
	return control.Admission{Spec: spec, Process: r.Process, Had: r.Had, Placement: p, Exact: r.Exact}
}

// Look returns what is known for one that starts now: the machine, the runs beside it, and what is pinned where
// it is to have CPUs of its own.
func (s *Source) Look(asked *control.PlaceRequest) (*control.Beside, error) {
	h, err := s.Host()
	if err != nil {
		return nil, err
	}
	seen := &control.Beside{Snapshot: workload.Snapshot{Host: h}}
	held := map[topology.NodeID]topology.KiB{}
	living := s.Living()
	for i := range living {
		run := &living[i]
		if run.Process == asked.Process {
			continue
		}
		a := run.admission()
		now, err := s.Affinity(run.Process.PID)
		dedicated := a.Placement.Class == workload.Dedicated
		if dedicated && err == nil && !now.Equal(a.Placement.CPUs) && place.IsPin(h, now) { // a daemon has moved it
			a.Placement.CPUs, a.Exact = now, true
		}
		seen.Runs = append(seen.Runs, a)
		if a.Exact {
			if dedicated {
				seen.Pinned = append(seen.Pinned, place.Pinned{PID: run.Process.PID, CPUs: a.Placement.CPUs})
			}
			continue
		}
		resident := s.Resident(run.Process)
		for _, m := range a.Placement.Memory {
			held[m.Node] += min(resident, m.KiB)
			resident -= min(resident, m.KiB)
		}
	}
	seen.Snapshot.Unmanaged = s.InUse(h, held)
	if asked.Spec.Class == workload.Dedicated && asked.Exact == nil {
		seen.Pinned = append(seen.Pinned, s.pinned(h, living)...)
	}
	return seen, nil
}

// pinned returns what is pinned on this machine and not in a registry. What has the CPUs of this process, or
// those of a living run, shares them with it: it is a child of it, say.
func (s *Source) pinned(h *topology.Host, living []Run) (out []place.Pinned) {
	if s.Affinities == nil {
		return nil
	}
	known := map[string]bool{}
	seen := map[int]bool{0: true} // the caller
	for i := range living {
		seen[living[i].Process.PID] = true
	}
	for pid := range seen {
		if cpus, err := s.Affinity(pid); err == nil {
			known[cpus.String()] = true
		}
	}
	s.Affinities(func(pid, _ int, cpus topology.CPUSet) {
		if seen[pid] || !place.IsPin(h, cpus) || known[cpus.String()] {
			return
		}
		seen[pid] = true
		out = append(out, place.Pinned{PID: pid, CPUs: cpus})
	})
	return out
}

// Keep writes down where a run was placed; ledger: a daemon has booked it. The registry is locked.
func (s *Source) Keep(a control.Admission, ledger bool) error {
	had, _ := s.Affinity(0)
	return s.Put(Run{Process: a.Process, Name: a.Spec.Name, Tier: a.Spec.Tier, Had: had, Placement: a.Placement,
		Exact: a.Exact, Ledger: ledger})
}

// Forget removes the runs that an undo was about and that have their original CPUs again, as a daemon's undo leaves
// them: they hold nothing. A dry run and an undo of cgroups alone remove none. which has the ID, not a name.
func (s *Source) Forget(part Part, which control.Which) error {
	if which.DryRun || part == Cgroups {
		return nil
	}
	unlock, err := s.Lock(false)
	if errors.Is(err, syscall.EROFS) || errors.Is(err, fs.ErrPermission) {
		return nil // there can be none
	}
	if err != nil {
		return err
	}
	defer unlock()
	living, err := s.Registry.Living(s.User)
	if err != nil {
		return err
	}
	for _, run := range living {
		if !which.All && run.Placement.Workload != which.ID {
			continue
		}
		given := !run.Had.Empty() && !run.Placement.CPUs.Empty()
		cpus, err := s.Affinity(run.Process.PID)
		if given && err == nil && cpus.Equal(run.Had) {
			s.Registry.Remove(run.Process)
		}
	}
	return nil
}
