package control

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/homenode/homenode/core/balance"
	"github.com/homenode/homenode/core/control/homes"
	"github.com/homenode/homenode/core/control/work"
	"github.com/homenode/homenode/core/load"
	"github.com/homenode/homenode/core/place"
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
	Settings  *Settings
	Snapshot  workload.Snapshot
	Plan      plan.Plan
	Balancing balance.Report
	Halted    words.Reason
	Partition PartitionNow
	ConcernViews
	Holds   Holds
	Trial   TrialNow
	Chosen  Decisions
	Tasks   map[workload.ID]TaskView
	Moves   map[workload.ID]plan.Move
	Retries map[workload.ID][]Retry
	Silent  map[workload.ID]words.Reason // why each is left alone
	Given   map[workload.ID]topology.CPUSet
	// Writing is affinities that homenode is writing, or was as a daemon ended: threads may have one or another.
	Writing map[workload.ID][]topology.CPUSet
	// Wide is the workloads whose home has several nodes, by what the observer calls them. It is not to be changed.
	Wide      map[workload.ID]bool
	Journal   []plan.Entry
	Claims    map[workload.ID]*workload.Claim
	Managers  []Manager
	Links     map[workload.ID][]Link
	helpers   map[processKey]workload.ID
	Following map[workload.ID]place.Following
	Loads     map[workload.ID]load.Load
	Subjects  []*place.Subject // what was decided on, rising by ID
	Undoing   int
	facts     plan.State // what placements are decided on, but for those
	admitted  homes.Admitted
}

// TaskView is what is under way for a workload.
type TaskView struct {
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

// View is the state as it can be seen now.
func (s *State) View() View {
	s.Placements()
	s.SharedSteps()
	v := View{
		At: s.Began, Scans: s.Seen, Settings: &s.Settings, Snapshot: s.Snapshot, Plan: s.Plan, Balancing: s.Balancing, Halted: s.Halted,
		Partition: s.PartitionNow(), ConcernViews: s.showConcerns(), Holds: Holds{All: s.Holds.All, IDs: maps.Clone(s.Holds.IDs)}, Chosen: s.Decisions(),
		Tasks: make(map[workload.ID]TaskView, len(s.Tasks)), Moves: maps.Clone(s.Moves), Given: maps.Clone(s.Given), Wide: s.wide,
		Journal: s.Journal.All(), Claims: s.Claims, Managers: s.Managers, Undoing: len(s.Undoing), Links: s.Links, helpers: s.Helpers, Following: s.Following, Loads: s.Loads, Subjects: s.Subjects, Took: s.Took,
		facts: s.Facts, Trial: s.Trials.Now(s.trials()),
	}
	for id, t := range s.Tasks {
		v.Tasks[id] = TaskView{*t.Step(), t.Move}
	}
	if len(s.Retries) > 0 {
		v.Retries = make(map[workload.ID][]Retry, len(s.Retries))
		for key, r := range s.Retries {
			v.Retries[key.Workload] = append(v.Retries[key.Workload], Retry{key.Kind, key.To, key.Device, r.Failures, r.Next, r.Text})
		}
	}
	for _, e := range s.Journal.Intended() {
		if v.Writing == nil {
			v.Writing = map[workload.ID][]topology.CPUSet{}
		}
		for _, written := range append([]string{e.New}, e.Past...) {
			main, _, _ := strings.Cut(written, ";")
			if cpus, err := topology.ParseCPUSet(main); err == nil && !slices.ContainsFunc(v.Writing[e.Workload], cpus.Equal) {
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
	v.admitted = s.Admitted()
	return v
}

// Held is the homes that are held for work that has not been seen, by its ID.
func (v *View) Held() map[workload.ID]workload.Placement {
	var held map[workload.ID]workload.Placement
	for id, a := range v.admitted.All() {
		if a.Process.PID > 0 {
			continue
		}
		if held == nil {
			held = map[workload.ID]workload.Placement{}
		}
		held[id] = a.Placement
	}
	return held
}

// HeldFor is the home that is held for one workload that has not been seen.
func (v *View) HeldFor(id workload.ID) (workload.Placement, bool) {
	a, ok := v.admitted.Of(id)
	if !ok || a.Process.PID > 0 {
		return workload.Placement{}, false
	}
	return a.Placement, true
}

// Left is what each node still has for dedicated work. What is held for work whose ID begins
// with without does not count as taken; "" leaves nothing out. nil before the first scan.
func (v *View) Left(without string) []place.Left {
	if v.facts.Host == nil {
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
	st := v.facts
	st.Placements = homes.Merge(v.Plan.Placements, slices.Collect(maps.Values(v.Held())))
	return st
}

// HelperAt is the workload that a process which others have a link to is part of; "" for none.
func (v *View) HelperAt(p workload.Process) workload.ID { return v.helpers[processKey(p)] }

// RetryOf is the retry of a step, or nil.
func (v *View) RetryOf(step *plan.Step) *Retry {
	all := v.Retries[step.Workload]
	i := slices.IndexFunc(all, func(r Retry) bool {
		return stepKey{Workload: step.Workload, Kind: r.Step, To: r.To, Device: r.Device} == work.KeyOf(step)
	})
	if i < 0 {
		return nil
	}
	return &all[i]
}

// SpecOf is what was wished for a workload in the newest scan; the zero Spec when it
// was not seen.
func (v *View) SpecOf(id workload.ID) workload.Spec {
	i, ok := slices.BinarySearchFunc(v.Subjects, id, func(s *place.Subject, id workload.ID) int { return cmp.Compare(s.Observation.ID, id) })
	if !ok {
		return workload.Spec{}
	}
	return v.Subjects[i].Spec
}
