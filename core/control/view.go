package control

import (
	"maps"
	"slices"
	"strings"

	"github.com/homenode/homenode/core/control/scene"
	"github.com/homenode/homenode/core/control/settings"
	"github.com/homenode/homenode/core/control/view"
	"github.com/homenode/homenode/core/control/work"
	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/core/words"
	"github.com/homenode/homenode/core/workload"
)

// This page is how package view and the rest of control meet.

// Types of packages settings and view that callers of control use.
type (
	Settings         = settings.Settings
	Recognise        = settings.Recognise
	View             = view.View
	Attention        = view.Attention
	ConcernAttention = view.ConcernAttention
	Standing         = view.Standing
	Reserved         = view.Reserved
	PartitionNow     = view.Partition
)

// What may be done with recognised importance; package settings describes it.
const (
	RecogniseOff     = settings.RecogniseOff
	RecogniseSuggest = settings.RecogniseSuggest
	RecogniseApply   = settings.RecogniseApply
)

// View is the state as it can be seen now.
func (s *State) View() View {
	s.Placements()
	s.SharedSteps()
	v := View{
		At: s.Began, Scans: s.Seen, Settings: &s.Settings, Snapshot: s.Snapshot, Plan: s.Plan, Balancing: s.Balancing,
		Halted:    s.Halted,
		Partition: s.PartitionNow(), ConcernViews: s.showConcerns(),
		Holds: Holds{All: s.Holds.All, IDs: maps.Clone(s.Holds.IDs)}, Chosen: s.Decisions(),
		Tasks: make(map[workload.ID]view.Task, len(s.Tasks)), Moves: maps.Clone(s.Moves), Given: maps.Clone(s.Given),
		Wide:    s.wide,
		Journal: s.Journal.All(), Claims: s.Claims, Managers: s.Managers, Links: s.Links, Helpers: s.Helpers,
		Following: s.Following, Loads: s.Loads, Subjects: s.Subjects, Took: s.Took,
		Facts: s.Facts, Trial: s.Trials.Now(s.trials()),
	}
	for id, t := range s.Tasks {
		v.Tasks[id] = view.Task{Step: *t.Step(), Move: t.Move}
	}
	if len(s.Retries) > 0 {
		v.Retries = make(map[workload.ID][]view.Retry, len(s.Retries))
		for key, r := range s.Retries {
			v.Retries[key.Workload] = append(v.Retries[key.Workload], view.Retry{
				Step: key.Kind, To: key.To, Device: key.Device, Failures: r.Failures, Next: r.Next, Text: r.Text,
			})
		}
	}
	for _, e := range s.Journal.Intended() {
		if v.Writing == nil {
			v.Writing = map[workload.ID][]topology.CPUSet{}
		}
		for _, written := range append([]string{e.New}, e.Past...) {
			main, _, _ := strings.Cut(written, ";")
			if cpus, err := topology.ParseCPUSet(main); err == nil && !slices.ContainsFunc(v.Writing[e.Workload],
				cpus.Equal) {
				v.Writing[e.Workload] = append(v.Writing[e.Workload], cpus)
			}
		}
	}
	if len(s.Silent) > 0 {
		v.Silent = make(map[workload.ID]words.Reason, len(s.Silent))
		for id, q := range s.Silent {
			if s.SilentNow(id) {
				v.Silent[id] = q.Why()
			}
		}
	}
	v.Admitted = s.Admitted()
	return v
}

// admittedSince reports whether `homenode run` placed a workload after the scan that saw it began: the Attention
// of the scan does not have it.
func (s *State) admittedSince(o *workload.Observation) bool {
	a, ok := s.Admissions[o.ID]
	return ok && a.Process.PID > 0 && a.Scan >= s.Seen && a.Process.Start == scene.StartOf(o)
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
	which.ID, f = view.Find(all, which.ID, of)
	return f
}
