package view

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/homenode/homenode/core/balance"
	"github.com/homenode/homenode/core/control/homes"
	"github.com/homenode/homenode/core/control/scene"
	"github.com/homenode/homenode/core/control/settings"
	"github.com/homenode/homenode/core/control/switchback"
	"github.com/homenode/homenode/core/control/work"
	"github.com/homenode/homenode/core/load"
	"github.com/homenode/homenode/core/place"
	"github.com/homenode/homenode/core/place/nearness"
	"github.com/homenode/homenode/core/plan"
	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/core/words"
	"github.com/homenode/homenode/core/workload"
)

// View is what can be seen of a State. It shares what is replaced and never changed, and
// has copies of the rest, so that it stands when the State goes on.
type View struct {
	At        time.Time     // of the newest scan
	Took      time.Duration // by it
	Scans     uint64        // that have ended
	Settings  *settings.Settings
	Snapshot  workload.Snapshot
	Plan      plan.Plan
	Balancing balance.Report
	Halted    words.Reason
	Partition Partition
	ConcernViews
	Holds   work.Holds
	Trial   switchback.Now
	Chosen  homes.Decisions
	Tasks   map[workload.ID]Task
	Moves   map[workload.ID]plan.Move
	Retries map[workload.ID][]Retry
	Silent  map[workload.ID]words.Reason // why each is left alone
	Given   map[workload.ID]topology.CPUSet
	// Writing is affinities that homenode is writing, or was as a daemon ended: threads may have one or another.
	Writing   map[workload.ID][]topology.CPUSet
	Wide      homes.Wide
	Journal   []plan.Entry
	Claims    map[workload.ID]*workload.Claim
	Managers  []scene.Manager
	Links     map[workload.ID][]scene.Link
	Helpers   map[scene.ProcessKey]workload.ID
	Following map[workload.ID]nearness.Following
	Loads     map[workload.ID]load.Load
	Subjects  []*place.Subject // what was decided on, rising by ID
	Facts     plan.State       // what placements are decided on, but for those
	Admitted  homes.Admitted
}

// Task is what is under way for a workload.
type Task struct {
	Step plan.Step
	Move *plan.Move // of a page move
}

// Retry is a step that failed and is tried again.
type Retry struct {
	Step     plan.StepKind
	To       string
	Device   string
	Failures int
	Next     time.Time
	Text     string
}

// Held is the homes that are held for work that has not been seen, by its ID.
func (v *View) Held() map[workload.ID]workload.Placement {
	var held map[workload.ID]workload.Placement
	for id, a := range v.unseen {
		if held == nil {
			held = map[workload.ID]workload.Placement{}
		}
		held[id] = a.Placement
	}
	return held
}

// unseen goes through the admissions of work that no scan has seen.
func (v *View) unseen(yield func(workload.ID, homes.Admission) bool) {
	for id, a := range v.Admitted.All() {
		if a.Process.PID == 0 && !yield(id, a) {
			return
		}
	}
}

// Left is what each node still has for dedicated work. What is held for work whose ID begins
// with without does not count as taken; "" leaves nothing out. nil before the first scan.
func (v *View) Left(without string) []place.Left {
	if v.Facts.Host == nil {
		return nil
	}
	st := v.booked()
	if without != "" {
		all := v.Held()
		st.Placements = slices.DeleteFunc(st.Placements, func(p workload.Placement) bool {
			_, held := all[p.Workload]
			return held && strings.HasPrefix(string(p.Workload), without)
		})
	}
	return place.NewLedger(st).Left()
}

// booked is what placements are decided on, with all that have a home or are held one.
func (v *View) booked() plan.State {
	st := v.Facts
	st.Placements = homes.Merge(v.Plan.Placements, slices.Collect(maps.Values(v.Held())))
	return st
}

// HelperAt is the workload that a process which others have a link to is part of; "" for none.
func (v *View) HelperAt(p workload.Process) workload.ID { return v.Helpers[scene.ProcessKey(p)] }

// RetryOf is the retry of a step, or nil.
func (v *View) RetryOf(step *plan.Step) *Retry {
	all := v.Retries[step.Workload]
	i := slices.IndexFunc(all, func(r Retry) bool {
		return work.Key{Workload: step.Workload, Kind: r.Step, To: r.To, Device: r.Device} == work.KeyOf(step)
	})
	if i < 0 {
		return nil
	}
	return &all[i]
}

// SpecOf is what was wished for a workload in the newest scan; the zero Spec when it
// was not seen.
func (v *View) SpecOf(id workload.ID) workload.Spec {
	i, ok := slices.BinarySearchFunc(v.Subjects, id,
		func(s *place.Subject, id workload.ID) int { return cmp.Compare(s.Observation.ID, id) })
	if !ok {
		return workload.Spec{}
	}
	return v.Subjects[i].Spec
}

// Partition is the line between dedicated and shared work as it holds.
type Partition struct {
	Partition plan.Partition  `json:"partition"`
	Split     bool            `json:"split"`
	Dedicated topology.CPUSet `json:"dedicated"`
}
