package control

import (
	"maps"
	"slices"
	"time"

	"github.com/homenode/homenode/core/balance"
	"github.com/homenode/homenode/core/control/history"
	"github.com/homenode/homenode/core/control/homes"
	"github.com/homenode/homenode/core/control/journal"
	"github.com/homenode/homenode/core/control/scene"
	"github.com/homenode/homenode/core/control/switchback"
	"github.com/homenode/homenode/core/control/upkeep"
	"github.com/homenode/homenode/core/control/work"
	"github.com/homenode/homenode/core/plan"
	"github.com/homenode/homenode/core/words"
	"github.com/homenode/homenode/core/workload"
)

// State is everything homenode remembers of a host. Next owns the one it is given and
// may change what it refers to.
type State struct {
	Settings Settings
	Concerns
	scene.Scene
	homes.Homes
	work.Work
	switchback.Trials
	upkeep.Searches
	history.Lines

	// On disk.
	Holds     Holds
	Partition plan.Partition // between dedicated and shared work

	// From the newest scan.
	Balancing balance.Report
	Halted    words.Reason // why nothing is changed; none when something is

	// From surveys.
	Surveyed map[SurveyKind]time.Time // when each was last asked for
	Known    map[SurveyKind]bool      // those that have been made

	// What is under way.
	Waiting []*Request `json:",omitempty"` // for the first scan

	wide homes.Wide

	decided func(balance.Input, balance.History) // told what a scan is decided on; nil tells nobody
	engine  func(balance.Input, balance.History) (balance.Outcome, balance.History)
	out     *Output     // of the input being worked on
	by      *plan.Asker // who asked for it
}

// SetEngine has another engine than balance.Engine decide: for tests.
func (s *State) SetEngine(tick func(balance.Input, balance.History) (balance.Outcome, balance.History)) {
	s.engine = tick
}

// Saved is what an earlier daemon left on disk.
type Saved struct {
	Seq        uint64
	Events     uint64 // number of the newest
	Journal    []plan.Entry
	Placements []workload.Placement
	Admissions map[workload.ID]Admission
	Holds      Holds
	Chosen     map[workload.ID]plan.Decision
	Past       []balance.HomeChange
	Partition  SavedPartition
	SavedConcerns
	Moves   []plan.Move
	Undoing []Which
	Theirs  []journal.Theirs
	Trial   *Trial
}

// SavedPartition is what `homenode host partition` set last, beside what the
// configuration said then: who changes that has the last word.
type SavedPartition struct {
	Partition  plan.Partition `json:"partition"`
	Configured plan.Partition `json:"configured"`
}

// Keys of what is saved besides journal, placements, moves and history.
const (
	KeyAdmissions = "admissions"
	KeyHolds      = "holds"
	KeyChosen     = "chosen"
	KeyPast       = "balance"
	KeyPartition  = "partition"
	KeyUndoing    = work.KeyUndoing
	KeyTheirs     = work.KeyTheirs
	KeyTrial      = switchback.Key
)

// New is the state of a daemon that starts on what an earlier one left.
func New(settings Settings, saved Saved) *State {
	s := &State{
		engine:    new(balance.Engine).Tick,
		Settings:  settings,
		Lines:     history.New(saved.Events),
		Homes:     homes.New(saved.Admissions, saved.Chosen, saved.Placements),
		Work:      work.New(saved.Seq, saved.Journal, saved.Theirs, saved.Moves, saved.Undoing),
		Holds:     Holds{All: saved.Holds.All, IDs: cloned(saved.Holds.IDs)},
		Partition: settings.Partition,
		Concerns:  newConcerns(&settings, &saved),
		Trials:    switchback.Trials{Trial: switchback.Resumed(saved.Trial)},
		Scene: scene.Scene{
			Claims:   map[workload.ID]*workload.Claim{},
			SeenAs:   map[workload.ID][]workload.ID{},
			Bindings: map[workload.ID]binding{},
			Links:    map[workload.ID][]Link{},
			Helpers:  map[processKey]workload.ID{},
		},
		Surveyed: map[SurveyKind]time.Time{},
		Known:    map[SurveyKind]bool{},
		Searches: upkeep.New(),
	}
	s.Attach(loop{s})
	s.History.Changes = saved.Past
	if p := saved.Partition; p.Partition != "" && p.Configured == settings.Partition && p.Partition.Check() == nil {
		s.Partition = p.Partition
	}
	for _, e := range saved.Journal {
		s.noteGiven(e.Workload, e.Kind, e.New)
	}
	return s
}

func cloned[K comparable, V any](m map[K]V) map[K]V {
	if m == nil {
		return map[K]V{}
	}
	return maps.Clone(m)
}

// With is Saved with what was given a home meanwhile by others than a daemon.
func (v Saved) With(admitted []Admission) Saved {
	if len(admitted) == 0 {
		return v
	}
	v.Admissions, v.Placements = cloned(v.Admissions), slices.Clone(v.Placements)
	for _, a := range admitted {
		id := a.Placement.Workload
		// One that has another placement was booked by a daemon that did not come to answer.
		if was, ok := v.Admissions[id]; ok && was.Process == a.Process && was.Placement.CPUs.Equal(a.Placement.CPUs) {
			continue
		}
		v.Admissions[id] = a
		v.Placements = slices.DeleteFunc(v.Placements, func(p workload.Placement) bool { return p.Workload == id })
		if !a.Exact {
			v.Placements = append(v.Placements, a.Placement)
		}
	}
	slices.SortFunc(v.Placements, homes.ByWorkload)
	return v
}

// AfterBoot is what is left of Saved when the machine has been restarted since: every
// cgroup and affinity is back to its origin, and the same PIDs belong to others. survives
// tells which kinds of setting are kept over a restart.
func (v Saved) AfterBoot(at time.Time, survives func(plan.SettingKind) bool) (Saved, plan.Batch) {
	var b plan.Batch
	v.Journal = slices.Clone(v.Journal)
	gone := 0
	v.Journal = slices.DeleteFunc(v.Journal, func(e plan.Entry) bool {
		if survives(e.Kind) {
			return false
		}
		e.State = plan.Gone
		b.Entries = append(b.Entries, e)
		gone++
		return true
	})
	v.Placements = slices.DeleteFunc(slices.Clone(v.Placements),
		func(p workload.Placement) bool { return p.Start != 0 })
	v.Admissions = map[workload.ID]Admission{}
	held := Holds{All: v.Holds.All, IDs: cloned(v.Holds.IDs)}
	maps.DeleteFunc(held.IDs, func(id workload.ID, _ bool) bool { return scene.OfProcess(id) })
	ended := switchback.AfterBoot(v.Trial, &held)
	v.Trial = nil
	v.Holds = held
	v.Undoing = slices.DeleteFunc(append([]Which{}, v.Undoing...), func(w Which) bool {
		return !slices.ContainsFunc(v.Journal, func(e plan.Entry) bool { return w.Has(e.Workload) })
	})
	v.Theirs = slices.DeleteFunc(slices.Clone(v.Theirs), func(t journal.Theirs) bool { return !survives(t.Kind) })
	b.Placements = plan.HomesOf(v.Placements)
	b.Values = map[string]any{KeyAdmissions: v.Admissions, KeyHolds: v.Holds, KeyUndoing: v.Undoing,
		KeyTheirs: v.Theirs}
	b.Values[KeyTrial] = v.Trial
	v.SavedConcerns = v.SavedConcerns.afterBoot(b.Values)
	for _, why := range append([]words.Reason{words.Because(words.MachineRestarted, gone)}, ended...) {
		v.Events++
		line := plan.Event{Seq: v.Events, Time: at, Kind: plan.EventDaemon, Code: why.Code, Text: why.String()}
		b.Events = append(b.Events, line)
	}
	return v, b
}
