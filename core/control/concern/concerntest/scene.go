package concerntest

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/homenode/homenode/core/control/concern"
	"github.com/homenode/homenode/core/control/journal"
	"github.com/homenode/homenode/core/control/work"
	"github.com/homenode/homenode/core/place"
	"github.com/homenode/homenode/core/plan"
	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/core/workload"
)

// Start is the time of the scene that On returns.
var Start = time.Date(2026, 11, 2, 9, 30, 0, 0, time.UTC)

// On returns a scene of a host that homenode acts on, without any workload, and its loop.
func On(host *topology.Host) (*concern.Scene, *Loop) {
	j := journal.New(nil)
	l := &Loop{Facts: map[string]bool{}, Tries: map[work.Key]work.Retry{}, Saved: map[string]any{}}
	l.Scene = &concern.Scene{
		At: Start, Began: Start, Snapshot: &workload.Snapshot{Host: host}, Plan: &plan.Plan{}, Policy: &plan.Policy{},
		Facts: &plan.State{Host: host}, Claims: map[workload.ID]*workload.Claim{}, Journal: &j,
		Enforce: true, Acts: true, Loop: l,
	}
	return l.Scene, l
}

// Pass has time pass.
func Pass(sc *concern.Scene, d time.Duration) {
	sc.At = sc.At.Add(d)
	sc.Began = sc.At
}

// Add adds a workload; home is nil where it has none.
func Add(sc *concern.Scene, x place.Subject, home *workload.Placement) *place.Subject {
	id := x.Observation.ID
	x.Spec.ID = id
	sc.Subjects = append(sc.Subjects, &x)
	slices.SortFunc(sc.Subjects, func(a, b *place.Subject) int {
		return cmp.Compare(a.Observation.ID, b.Observation.ID)
	})
	sc.Snapshot.Observations = append(sc.Snapshot.Observations, x.Observation)
	if home != nil {
		p := *home
		p.Workload = id
		sc.Plan.Placements = append(sc.Plan.Placements, p)
		slices.SortFunc(sc.Plan.Placements, func(a, b workload.Placement) int {
			return cmp.Compare(a.Workload, b.Workload)
		})
	}
	return &x
}

// Set writes a setting of a workload into the journal, applied.
func Set(sc *concern.Scene, id workload.ID, kind plan.SettingKind, path, value string) *plan.Entry {
	sc.Journal.Put(plan.Entry{
		Seq: uint64(sc.Journal.Len() + 1), Time: sc.At, Workload: id, Kind: kind, Path: path, New: value,
		State: plan.Applied,
	})
	return sc.Journal.Of(kind, path)
}

// Service is work in a cgroup of its own, which may use some CPUs.
func Service(id workload.ID, cpus topology.CPUSet) workload.Observation {
	return workload.Observation{ID: id, Kind: workload.InCgroup, Cgroup: string(id), CgroupID: 7, CPUs: cpus}
}

// Lines writes desires, a line each.
func Lines(all []concern.Desire) string {
	var lines []string
	for i := range all {
		lines = append(lines, Line(&all[i]))
	}
	return strings.Join(lines, "\n")
}

// Line writes a desire: "cpu.idle /a of /a: set-cgroup 0 > 1 share.idle". Its object, ByJournal and Optional are not
// named, their opposites are.
func Line(d *concern.Desire) string {
	s := &d.Step
	line := fmt.Sprintf("%s %s of %s:", d.Kind, d.Path, s.Workload)
	if d.Only {
		return line + " stays"
	}
	line += fmt.Sprintf(" %s %s > %s %s", s.Kind, s.From, s.To, s.Reason.Code)
	line += map[concern.Stands]string{concern.Yes: " stands", concern.No: " is otherwise"}[d.Stands]
	if d.Now {
		line += " now"
	}
	if !s.Optional {
		line += " required"
	}
	return line
}
