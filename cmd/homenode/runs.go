package main

import (
	"context"
	"errors"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/homenode/homenode/api"
	"github.com/homenode/homenode/core/control"
	"github.com/homenode/homenode/core/place"
	"github.com/homenode/homenode/core/plan"
	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/core/words"
	"github.com/homenode/homenode/core/workload"
	"github.com/homenode/homenode/host/observe"
	"github.com/homenode/homenode/host/process"
	"github.com/homenode/homenode/host/runs"
	"github.com/homenode/homenode/host/scope"
)

// systemRuns is the registry of root, which all believe.
const systemRuns = "/run/homenode/runs"

// ownRuns is the registry that this user writes.
func ownRuns() *runs.Registry {
	r := &runs.Registry{Dir: systemRuns, ForAll: true, Boot: bootID(), Processes: process.Live{}}
	if os.Geteuid() == 0 && machine == "/" {
		return r
	}
	r.ForAll = false
	r.Dir = filepath.Join(defaultState(), "runs")
	if dir := os.Getenv("XDG_RUNTIME_DIR"); dir != "" {
		r.Dir = filepath.Join(dir, "homenode", "runs")
	}
	return r
}

// livingRuns is the runs that this user may believe, rising by workload.
func livingRuns(own *runs.Registry) []runs.Run {
	all, _ := own.Living(os.Geteuid()) // what cannot be believed is seen by its affinity
	if own.Dir != systemRuns && machine == "/" {
		root := *own
		root.Dir = systemRuns
		more, _ := root.Living(0)
		all = append(all, more...)
	}
	return all
}

// quickly finds a home by topology, free memory, the registry of runs and, for dedicated work,
// the affinities of what runs: no process can hold that up.
func quickly(k *kept) func(context.Context, *control.PlaceRequest) (place.Result, error, error) {
	return func(_ context.Context, in *control.PlaceRequest) (r place.Result, unkept, err error) {
		own := ownRuns()
		if in.Process.PID > 0 {
			var unlock func()
			unlock, unkept = own.Lock(in.Spec.Class == workload.Dedicated)
			defer unlock()
			in.Spec.ID = control.ProcessID(in.Process.PID)
		}
		root := observe.Root(machine)
		h, err := k.host(root)
		if err != nil {
			return r, nil, err
		}
		st := plan.State{Host: h}
		if st.Policy, err = policy(h); err != nil {
			return r, nil, err
		}
		living := livingRuns(own)
		held := map[topology.NodeID]topology.KiB{}
		var pinned []place.Pinned
		for _, run := range living {
			p := run.Placement
			if p.Workload == in.Spec.ID {
				continue
			}
			now, err := process.AffinityOf(run.Process.PID)
			elsewhere := err == nil && p.Class == workload.Dedicated && !now.Equal(p.CPUs) && place.IsPin(h, now) // a daemon has moved it
			if elsewhere {
				p.CPUs = now
			}
			if run.Exact || elsewhere { // its CPUs are not for dedicated work
				if p.Class == workload.Dedicated {
					pinned = append(pinned, place.Pinned{PID: run.Process.PID, CPUs: p.CPUs})
				}
				continue
			}
			st.Placements = append(st.Placements, p)
			resident := process.Resident(run.Process)
			for _, m := range p.Memory {
				held[m.Node] += min(resident, m.KiB)
				resident -= min(resident, m.KiB)
			}
		}
		st.Unmanaged = observe.InUse(root, h, held)
		if in.Exact != nil {
			r = place.Result{Placement: control.ExactPlacement(h, &in.Spec, in)}
			r.Decision = plan.Decision{Workload: in.Spec.ID, Outcome: plan.Placed, Home: r.Placement.Home, Reasons: words.Reasons(words.Because(words.ExactNamed))}
		} else {
			if in.Spec.Class == workload.Dedicated {
				pinned = append(pinned, pinnedNow(h, living)...)
			}
			r = place.PlaceBeside(st, pinned, place.Request{Spec: in.Spec, Crowd: true})
		}
		if r.Placed() && in.Process.PID > 0 {
			r.Placement.Start = in.Process.Start
			had, _ := process.AffinityOf(0)
			if err := own.Put(runs.Run{Process: in.Process, Name: in.Spec.Name, Tier: in.Spec.Tier, Had: had, Placement: r.Placement, Exact: in.Exact != nil}); unkept == nil {
				unkept = err
			}
		}
		return r, unkept, nil
	}
}

// pinnedNow is what is pinned on this machine and not in the registry. What has the CPUs of
// this process, or those of a living run, shares them with it: they are its children, say.
func pinnedNow(h *topology.Host, living []runs.Run) (out []place.Pinned) {
	if machine != "/" {
		return nil // the processes of this machine are not that one's
	}
	var known []topology.CPUSet
	if own, err := process.AffinityOf(0); err == nil {
		known = append(known, own)
	}
	of := map[int]bool{}
	for _, run := range living {
		of[run.Process.PID] = true
		if now, err := process.AffinityOf(run.Process.PID); err == nil {
			known = append(known, now)
		}
	}
	seen := map[int]bool{}
	process.Affinities(func(pid, _ int, cpus topology.CPUSet) {
		if of[pid] || seen[pid] || !place.IsPin(h, cpus) {
			return
		}
		for _, k := range known {
			if k.Equal(cpus) {
				return
			}
		}
		seen[pid] = true
		out = append(out, place.Pinned{PID: pid, CPUs: cpus})
	})
	return out
}

// keep writes down where a daemon has placed this process; the registry is locked.
func keep(want api.Want, home api.Home) error {
	had, _ := process.AffinityOf(0)
	p := workload.Placement{Workload: control.ProcessID(want.Process.PID), Class: want.Class, Importance: workload.DefaultImportance, VCPUs: want.CPUs,
		Home: home.Nodes, CPUs: home.CPUs, Pins: home.Pins, Asked: topology.KiB(want.MemoryKiB), Bound: home.Bound, Start: want.Process.Start}
	for _, m := range home.Memory {
		p.Memory = append(p.Memory, workload.NodeMemory{Node: m.Node, KiB: topology.KiB(m.KiB)})
	}
	return ownRuns().Put(runs.Run{Process: want.Process, Name: want.Name, Tier: want.Tier, Had: had, Placement: p, Exact: want.Exact != nil, Ledger: true})
}

// keepScope writes down what cgroup a command will be in, and what that is restricted to,
// before it is.
func keepScope(s runs.Scope) error {
	if s.CPUs.Empty() && s.Mems.Empty() && !s.Batch {
		return nil
	}
	p, err := self()
	if err != nil {
		return err
	}
	own := ownRuns()
	unlock, err := own.Lock(false)
	if err != nil {
		return nil // the run is not written down either, which has been told
	}
	defer unlock()
	return own.PutScope(p, s)
}

// meant is those of some living runs that a name means, as it does everywhere; those in a
// cgroup are meant by it together.
func meant(living []runs.Run, which api.Which) ([]runs.Run, error) {
	if which.All {
		return living, nil
	}
	root := observe.Root(machine)
	all := make([]workload.Named, len(living))
	for i, run := range living {
		all[i] = workload.Named{ID: run.Placement.Workload, Name: run.Name, Cgroup: observe.LineageOf(root, run.Process.PID).Cgroup, Processes: []workload.Process{run.Process}}
	}
	var of workload.Lineage
	if pid, ok := workload.PIDOf(string(which.ID)); ok {
		of = observe.LineageOf(root, pid)
	}
	found := workload.Find(all, string(which.ID), of)
	if len(found) > 1 && !strings.HasPrefix(string(which.ID), "/") {
		return nil, &api.Error{Code: api.BadRequest, Text: words.Because(words.SeveralNamed, string(which.ID), len(found), words.List(found)).String()}
	}
	return slices.DeleteFunc(living, func(r runs.Run) bool { return !slices.Contains(found, r.Placement.Workload) }), nil
}

// undoScopes takes from scopes of systemd what living runs of this user restricted them to;
// what has been set anew since is not touched. It comes before all else is put back: a
// process gets no CPU that its cgroup has not. A run is named by its ID, a PID or its scope;
// Workload of the answer is its ID.
func undoScopes(ctx context.Context, which api.Which) (out api.UndoResult, err error) {
	out = undoBatch(ctx, which)
	own := ownRuns()
	living, err := own.Living(os.Geteuid())
	if err != nil {
		return out, nil // undoRuns tells
	}
	_, isPID := workload.PIDOf(string(which.ID))
	unit := path.Base(string(which.ID))
	living = slices.DeleteFunc(living, func(r runs.Run) bool {
		return r.Scope == nil || r.Scope.Batch || !which.All && !isPID && r.Scope.Unit != unit && r.Scope.Unit != unit+".scope"
	})
	if isPID {
		if living, err = meant(living, which); err != nil {
			return out, err
		}
	}
	if !which.All && len(living) == 1 {
		out.Workload = living[0].Placement.Workload
	}
	for _, run := range living {
		s := run.Scope
		cpus, mems, err := scope.Read(ctx, s.Unit)
		for _, x := range []struct {
			kind     plan.SettingKind
			now, set string
		}{{plan.UnitCPUs, cpus.String(), s.CPUs.String()}, {plan.UnitMems, mems.String(), s.Mems.String()}} {
			e := plan.Entry{Time: time.Now(), Workload: run.Placement.Workload, Kind: x.kind, Path: s.Unit, New: x.set, State: plan.Applied}
			bad := err
			switch {
			case x.set == "" || bad == nil && x.now == "":
				continue
			case bad == nil && x.now != x.set:
				out.Theirs = append(out.Theirs, e)
				continue
			case bad == nil && !which.DryRun:
				if x.kind == plan.UnitMems {
					bad = freeNodes(ctx, s.Unit, run.Process.PID)
				}
				if bad == nil {
					bad = scope.Free(ctx, s.Unit, x.kind)
				}
			}
			if bad != nil {
				out.Failed = append(out.Failed, api.UndoFailure{Entry: e, Error: bad.Error()})
				continue
			}
			e.State = plan.Restored
			out.Restored = append(out.Restored, e)
		}
	}
	return out, nil
}

// undoRuns gives living runs of this user back the CPUs that they had. What has been set anew
// since is not touched.
func undoRuns(ctx context.Context, which api.Which, daemon bool) (out api.UndoResult, err error) {
	own := ownRuns()
	if !exists(own.Dir) {
		return out, nil
	}
	unlock, err := own.Lock(false)
	if errors.Is(err, syscall.EROFS) || errors.Is(err, os.ErrPermission) {
		return out, nil // there can be none
	}
	if err != nil {
		return out, err
	}
	defer unlock()
	living, err := own.Living(os.Geteuid())
	if err == nil {
		living, err = meant(living, which)
	}
	if err != nil {
		return out, err
	}
	driver := process.New(process.Options{Root: os.DirFS("/")})
	for _, run := range living {
		id := run.Placement.Workload
		if run.Had.Empty() || run.Placement.CPUs.Empty() {
			continue
		}
		now, err := process.AffinityOf(run.Process.PID)
		if err == nil && now.Equal(run.Had) && !which.DryRun { // the daemon has put it back
			own.Remove(run.Process)
		}
		if err != nil || now.Equal(run.Had) || daemon && run.Ledger {
			continue
		}
		e := plan.Entry{Time: time.Now(), Workload: id, Kind: plan.Affinity, Path: plan.ProcessPath(run.Process),
			Old: run.Had.String(), New: run.Placement.CPUs.String(), Ticks: run.Process.Start, State: plan.Applied}
		reading, err := driver.Read(ctx, e)
		switch {
		case err == nil && !e.Ours(reading):
			out.Theirs = append(out.Theirs, e)
			continue
		case err == nil && which.DryRun:
			out.Restored, out.Policies = append(out.Restored, e), append(out.Policies, id)
			continue
		case err == nil:
			err = driver.Restore(ctx, []plan.Entry{e})[0]
		}
		if err != nil {
			out.Failed = append(out.Failed, api.UndoFailure{Entry: e, Error: err.Error()})
			continue
		}
		own.Remove(run.Process) // it holds nothing any more
		e.State = plan.Restored
		out.Restored, out.Policies = append(out.Restored, e), append(out.Policies, id)
	}
	return out, nil
}

// admitted is the living runs that this user may believe, as a daemon knows them.
func admitted() (out []control.Admission) {
	for _, run := range livingRuns(ownRuns()) {
		p := run.Placement
		spec := workload.Spec{ID: p.Workload, Name: run.Name, Class: p.Class, Tier: run.Tier, Importance: p.Importance, CPUs: p.VCPUs, Memory: p.Asked, Given: true}
		out = append(out, control.Admission{Spec: spec, Process: run.Process, Had: run.Had, Placement: p, Exact: run.Exact})
	}
	return out
}
