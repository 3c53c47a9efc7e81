package control

import (
	"maps"
	"slices"
	"time"

	"github.com/homenode/homenode/core/balance"
	"github.com/homenode/homenode/core/control/homes"
	"github.com/homenode/homenode/core/control/journal"
	"github.com/homenode/homenode/core/control/scene"
	"github.com/homenode/homenode/core/control/work"
	"github.com/homenode/homenode/core/irq"
	"github.com/homenode/homenode/core/place"
	"github.com/homenode/homenode/core/plan"
	"github.com/homenode/homenode/core/share"
	"github.com/homenode/homenode/core/words"
	"github.com/homenode/homenode/core/workload"
)

// Recognise is what is done with how important work seems by its kind of load (core/load).
type Recognise string

// What may be done.
const (
	RecogniseOff     Recognise = "off"
	RecogniseSuggest Recognise = "suggest" // explain and status tell
	RecogniseApply   Recognise = "apply"   // work of which nobody has said how important it is has that importance
)

// Settings is the configuration as far as decisions go by it.
type Settings struct {
	Enforce       bool             `json:"enforce"` // carry plans out
	Policy        plan.Policy      `json:"policy"`
	Partition     plan.Partition   `json:"partition,omitempty"`
	Arrange       place.Options    `json:"arrange"`
	NeverSwap     bool             `json:"never_swap,omitempty"` // dedicated work does not swap
	Divide        bool             `json:"divide,omitempty"`     // threads of work that is wider than a node each get one of its nodes
	Sample        bool             `json:"sample,omitempty"`     // kernel.numa_balancing may be switched on for that for a while
	Balance       balance.Settings `json:"balance"`
	Rules         []workload.Rule  `json:"rules,omitempty"`
	MinAge        time.Duration    `json:"min_age,omitempty"` // a process that is younger gets no home; 0 is any age
	Include       []string         `json:"include,omitempty"` // glob patterns on workload ID or name; empty is all
	Exclude       []string         `json:"exclude,omitempty"` // glob patterns; stronger than Include
	Grants        []workload.Grant `json:"grants,omitempty"`  // what the authors of pods may ask for
	Share         share.Settings   `json:"share"`
	Base          share.Base       `json:"base,omitzero"` // what beside CPU sets sharing sets
	Interrupts    InterruptMode    `json:"interrupts"`
	Queues        irq.QueueCount   `json:"queues,omitempty"`
	Recognise     Recognise        `json:"recognise,omitempty"`
	HelpersStay   bool             `json:"helpers_stay,omitempty"` // they do not follow those that they work for
	Surveys       []SurveyKind     `json:"surveys,omitempty"`      // those that there is somebody to make
	RestoreOnStop bool             `json:"restore_on_stop,omitempty"`
}

// Mode is what Enforce says, in a word: enforce or observe.
func (s *Settings) Mode() string {
	if s.Enforce {
		return "enforce"
	}
	return "observe"
}

// Holds is what undo, or the cancelling of a move, told homenode to leave alone.
type Holds struct {
	All bool                 `json:"all"`
	IDs map[workload.ID]bool `json:"ids"`
}

// Has reports whether a workload is held.
func (h *Holds) Has(id workload.ID) bool {
	whole, _ := workload.PartOf(id)
	return h.All || h.IDs[id] || h.IDs[whole]
}

// State is everything homenode remembers of a host. Next owns the one it is given and
// may change what it refers to.
type State struct {
	Settings Settings
	Concerns
	scene.Scene
	homes.Homes
	work.Work

	// On disk.
	Events    uint64 // numbered so far
	Holds     Holds
	Partition plan.Partition // between dedicated and shared work
	Trial     *Trial         `json:",omitempty"` // under way; nil for none
	TrialOver *TrialOver     `json:",omitempty"`

	// From the newest scan.
	Balancing balance.Report
	Halted    words.Reason // why nothing is changed; none when something is

	// From surveys.
	Surveyed map[SurveyKind]time.Time // when each was last asked for
	Known    map[SurveyKind]bool      // those that have been made

	// What is under way.
	Pruning    *pruning
	Waiting    []*Request `json:",omitempty"` // for the first scan
	Inheriting uint64     // the effect that looks for who has inherited, 0 for none

	Left     map[workload.ID]workload.Owner // owners of what is gone (see left)
	Asked    map[processKey]bool            // processes seen, and whether it is known if they have inherited
	wide     map[workload.ID]bool           // see View.Wide
	Told     map[string]string              // what was said last of what would repeat
	Balanced string                         // what was last said of balancing
	Swung    time.Time                      // when it was last said that a node is, or no longer is, short
	Pruned   time.Time

	decided func(balance.Input, balance.History) // told what a scan is decided on; nil tells nobody
	engine  func(balance.Input, balance.History) (balance.Outcome, balance.History)
	out     *Output     // of the input being worked on
	by      *plan.Asker // who asked for it
}

// SetEngine has another engine than balance.Tick decide: for tests.
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
	Sharing    SavedSharing
	Scheduler  share.SchedulerState
	Moves      []plan.Move
	Undoing    []Which
	Theirs     []journal.Theirs
	Trial      *Trial
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
	KeyTrial      = "trial"
)

// New is the state of a daemon that starts on what an earlier one left.
func New(settings Settings, saved Saved) *State {
	s := &State{
		engine:    balance.Tick,
		Settings:  settings,
		Events:    saved.Events,
		Homes:     homes.New(saved.Admissions, saved.Chosen, saved.Placements),
		Work:      work.New(saved.Seq, saved.Journal, saved.Theirs, saved.Moves, saved.Undoing),
		Holds:     Holds{All: saved.Holds.All, IDs: cloned(saved.Holds.IDs)},
		Partition: settings.Partition,
		Concerns:  newConcerns(&settings, &saved),
		Trial:     trialOf(saved.Trial),
		Scene: scene.Scene{
			Claims:   map[workload.ID]*workload.Claim{},
			SeenAs:   map[workload.ID][]workload.ID{},
			Bindings: map[workload.ID]binding{},
			Links:    map[workload.ID][]Link{},
			Helpers:  map[processKey]workload.ID{},
		},
		Surveyed: map[SurveyKind]time.Time{},
		Known:    map[SurveyKind]bool{},
		Asked:    map[processKey]bool{},
		Told:     map[string]string{},
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
	v.Placements = slices.DeleteFunc(slices.Clone(v.Placements), func(p workload.Placement) bool { return p.Start != 0 })
	v.Admissions = map[workload.ID]Admission{}
	held := Holds{All: v.Holds.All, IDs: cloned(v.Holds.IDs)}
	maps.DeleteFunc(held.IDs, func(id workload.ID, _ bool) bool { return ofProcess(id) })
	v.Holds = held
	v.Undoing = slices.DeleteFunc(append([]Which{}, v.Undoing...), func(w Which) bool {
		return !slices.ContainsFunc(v.Journal, func(e plan.Entry) bool { return w.Has(e.Workload) })
	})
	v.Theirs = slices.DeleteFunc(slices.Clone(v.Theirs), func(t journal.Theirs) bool { return !survives(t.Kind) })
	b.Placements = plan.HomesOf(v.Placements)
	b.Values = map[string]any{KeyAdmissions: v.Admissions, KeyHolds: v.Holds, KeyUndoing: v.Undoing, KeyTheirs: v.Theirs}
	if v.Scheduler.Runs != "" || v.Scheduler.Failures > 0 || len(v.Scheduler.Loads) > 0 {
		v.Scheduler = share.SchedulerState{Chosen: v.Scheduler.Chosen, Beside: v.Scheduler.Beside}
		b.Values[KeyScheduler] = v.Scheduler
	}
	v.Events++
	b.Events = []plan.Event{{Seq: v.Events, Time: at, Kind: plan.EventDaemon, Text: words.Because(words.MachineRestarted, gone).String()}}
	return v, b
}
