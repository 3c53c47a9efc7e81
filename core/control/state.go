package control

import (
	"encoding/json"
	"maps"
	"slices"
	"time"

	"github.com/homenode/homenode/core/balance"
	"github.com/homenode/homenode/core/irq"
	"github.com/homenode/homenode/core/load"
	"github.com/homenode/homenode/core/place"
	"github.com/homenode/homenode/core/plan"
	"github.com/homenode/homenode/core/share"
	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/core/words"
	"github.com/homenode/homenode/core/workload"
)

// InterruptMode is what is done about the interrupts of devices.
type InterruptMode string

// What may be done.
const (
	InterruptsOff    InterruptMode = "off"    // nothing is read
	InterruptsReport InterruptMode = "report" // status tells where they belong
	InterruptsPlace  InterruptMode = "place"  // enforce mode puts them there
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
	Divide        bool             `json:"divide,omitempty"` // threads of work that is wider than a node each get one of its nodes
	Sample        bool             `json:"sample,omitempty"` // kernel.numa_balancing may be switched on for that for a while
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

// Admission is a home that was given to what was about to start.
type Admission struct {
	Spec      workload.Spec      `json:"spec"`
	Process   workload.Process   `json:"process,omitzero"` // its root; without one it holds until Until
	From      workload.Origin    `json:"from,omitzero"`    // who asked
	Had       topology.CPUSet    `json:"had,omitzero"`     // that Process might use before; empty when not known, or given back
	Placement workload.Placement `json:"placement"`
	Until     time.Time          `json:"until,omitzero"`
	Scan      uint64             `json:"scan,omitempty"`  // the newest that had begun: later ones must see it
	Exact     bool               `json:"exact,omitempty"` // a person said where: it is in no plan, and left there
}

// admitted is the admissions as they are saved: all at one time, which never change, and
// those since. A copy of it costs no copy of them.
type admitted struct {
	all   map[workload.ID]Admission
	since []admittedOne
}

type admittedOne struct {
	id workload.ID
	Admission
}

// MarshalJSON writes what KeyAdmissions is read as.
func (a admitted) MarshalJSON() ([]byte, error) {
	return json.Marshal(a.now())
}

// now is all of them, by ID.
func (a *admitted) now() map[workload.ID]Admission {
	if len(a.since) == 0 {
		return a.all
	}
	all := cloned(a.all)
	for _, x := range a.since {
		all[x.id] = x.Admission
	}
	return all
}

// of is one of them.
func (a *admitted) of(id workload.ID) (Admission, bool) {
	for i := range slices.Backward(a.since) {
		if a.since[i].id == id {
			return a.since[i].Admission, true
		}
	}
	one, ok := a.all[id]
	return one, ok
}

// Decisions is why homes were chosen.
type Decisions struct {
	all   map[workload.ID]plan.Decision // never changed
	since []plan.Decision               // newer ones
}

// Of is the decision that gave a workload its home.
func (d *Decisions) Of(id workload.ID) (plan.Decision, bool) {
	for i := range slices.Backward(d.since) {
		if d.since[i].Workload == id {
			return d.since[i], true
		}
	}
	one, ok := d.all[id]
	return one, ok
}

// retry is when something that failed may be tried again.
type retry struct {
	Failures int
	Next     time.Time
	Text     string
	Code     Code // of the last failure; "" where it was none of the driver's
}

// stepKey names a step among those that failed.
type stepKey struct {
	Workload workload.ID
	Kind     plan.StepKind
	To       string
	Device   string
}

// MarshalText makes it a key in JSON.
func (k stepKey) MarshalText() ([]byte, error) {
	type plain stepKey
	return json.Marshal(plain(k))
}

// UnmarshalText reads what MarshalText wrote.
func (k *stepKey) UnmarshalText(text []byte) error {
	type plain stepKey
	return json.Unmarshal(text, (*plain)(k))
}

// processKey is a process as a key.
type processKey workload.Process

// MarshalText makes it a key in JSON.
func (k processKey) MarshalText() ([]byte, error) {
	return []byte(plan.ProcessPath(workload.Process(k))), nil
}

// UnmarshalText reads what MarshalText wrote.
func (k *processKey) UnmarshalText(text []byte) error {
	p, err := plan.ParseProcessPath(string(text))
	*k = processKey(p)
	return err
}

func keyOf(s *plan.Step) stepKey {
	key := stepKey{s.Workload, s.Kind, s.To, s.Target.Part()}
	if varies(key.Device) {
		key.To = ""
	}
	if s.Kind == plan.DivideThreads { // there is one for each process
		key.Device = plan.ProcessPath(s.Target.Processes[0])
	}
	return key
}

// overwrite is how often others have set anew what homenode had set of a workload.
type overwrite struct {
	Count int
	Last  time.Time
}

// silent is a workload of which a call did not come back.
type silent struct {
	Failures int
	Until    time.Time
	Text     string
	Code     Code          // NoAnswer or NotFrozen
	Wait     time.Duration // from the failure to Until
	Target   string        // in which the call did not come back, as plan.Target.Own
}

// Link is a link with its traffic.
type Link struct {
	workload.Link
	At time.Time // of the counter
	// Rate is what went through it, MiB/s, the lesser of the last two windows: what
	// pulls must have lasted for a minute. Below 0 when nothing counts it, 0 while unknown.
	Rate float64
	Last float64 // of the newest window; below 0 before the first
	// VhostUse is the CPUs that the vhost threads of the workload kept busy, the lesser of the last
	// two looks as well; 0 for a link that they do not serve.
	VhostUse  float64
	VhostLast float64 // at the newest look
}

// Devices is the newest survey of interrupts and what it led to.
type Devices struct {
	All   []irq.Device
	Plan  irq.Plan
	Left  string          // to whom interrupts are left; "" when to nobody
	Avoid topology.CPUSet // CPUs that are somebody's alone
}

// State is everything homenode remembers of a host. Next owns the one it is given and
// may change what it refers to.
type State struct {
	Settings Settings

	// On disk.
	Seq        uint64  // of the newest journal entry ever
	Events     uint64  // numbered so far
	Journal    Journal `json:"-"`
	Admissions map[workload.ID]Admission
	Holds      Holds
	Chosen     map[workload.ID]plan.Decision // why each home was chosen, for as long as it is kept; see chose
	History    balance.History               // of it the changes of home
	Partition  plan.Partition                // between dedicated and shared work
	ShareOn    bool                          // batch work is squeezed
	Moves      map[workload.ID]plan.Move     // the newest that ended, of workloads that are there
	Undoing    []*undoing
	Theirs     map[string]Theirs // by kind and path
	Trial      *Trial            `json:",omitempty"` // under way; nil for none
	TrialOver  *TrialOver        `json:",omitempty"`

	// From the newest scan.
	At       time.Time     // of the newest input
	Began    time.Time     // the scan
	Scans    uint64        // begun
	Seen     uint64        // the newest that has ended
	Took     time.Duration // by it
	Snapshot workload.Snapshot
	Claims   map[workload.ID]*workload.Claim
	Covered  map[workload.ID]*workload.Claim // what a claim of nobody in particular is about
	SeenAs   map[workload.ID][]workload.ID   // a claimed workload, to what it is observed as
	// Of the ceiling: claims whose own words go beyond it, what the words of each party's other claims book, and what each
	// party uses by processes and scopes that have homes. Replaced, never changed.
	Beyond         map[workload.ID]words.Reason
	Words          map[workload.Owner]amount
	Used           map[workload.Owner]amount
	Bindings       map[workload.ID]binding // where each claimed workload was
	Subjects       []*place.Subject        // what was decided on, rising by ID
	Plan           plan.Plan               // Steps are those left to do
	Facts          plan.State              // the plan was made on
	Balancing      balance.Report
	Halted         words.Reason // why nothing is changed; none when something is
	Sharing        share.State
	Interference   share.Interference
	Caching        Caching
	Shared         Sharing   // what follows from them
	Scheduler      Scheduler // of the kernel, for batch work
	SharingChecked time.Time // when it was last asked whether what sharing has set stands

	// What requests have added since the newest scan, so that a home more does not cost a
	// copy of all.
	homes    *plan.Homes     // Plan.Placements and what was booked; nil when nothing was: see Homes
	saved    *plan.Homes     // as last written
	chosen   []plan.Decision // not in Chosen yet
	kept     []plan.Decision // by which Chosen stays as it is; nil when not known
	admitted admitted        // as last written

	// From surveys.
	Surveyed  map[SurveyKind]time.Time // when each was last asked for
	Known     map[SurveyKind]bool      // those that have been made
	Managers  []Manager
	Links     map[workload.ID][]Link
	Helpers   map[processKey]workload.ID      // processes that links are to, with the workload each is part of, "" for none
	Loads     map[workload.ID]load.Load       // what kind of load each is; replaced, never changed
	Following map[workload.ID]place.Following // of each helper, as of the newest scan; replaced, never changed
	Devices   Devices
	Fixed     map[string]bool // interrupts that the kernel let nobody change

	// What is under way.
	Effects    uint64 // numbered so far
	Tasks      map[workload.ID]*Task
	Running    map[uint64]workload.ID // tasks by their effect
	Queued     []*queued              // that wait for a task of their workload to end
	inUseAs    map[string]workload.ID // see targetsInUse; made anew before it is asked
	Ended      map[workload.ID]ended  // what ended, until a scan has seen what it did
	Waits      map[workload.ID]time.Time
	Checks     map[uint64]workload.ID // of settings that do not read as they should
	Pruning    *pruning
	Stopping   bool       // the daemon ends: nothing is begun any more
	Waiting    []*Request `json:",omitempty"` // for the first scan
	Inheriting uint64     // the effect that looks for who has inherited, 0 for none

	Tried      map[workload.ID]bool // since the newest scan, and nothing took: not begun again before the next
	Retries    map[stepKey]retry
	Silent     map[workload.ID]silent
	Overwrites map[workload.ID]overwrite
	Left       map[workload.ID]workload.Owner  // owners of what is gone (see left)
	Narrowed   map[workload.ID]topology.CPUSet // CPUs left of those homenode gave, where others took some
	Given      map[workload.ID]topology.CPUSet // affinity homenode gave, for the observer
	givenSeen  bool                            // all of Given were in the newest scan
	Asked      map[processKey]bool             // processes seen, and whether it is known if they have inherited
	wide       map[workload.ID]bool            // see View.Wide
	DividedAt  map[workload.ID]time.Time       // when threads of it were last given nodes, see divide
	// KeptThreads is the threads, by ID, that were given nodes and had them when last seen.
	KeptThreads map[workload.ID]map[int]bool
	Passes      map[workload.ID]uint64    // of NUMA balancing over its memory when that was switched on
	Sampled     map[workload.ID]time.Time // when the kernel's NUMA balancing was last switched off again after that
	Orders      []balance.HomeChange      // changes of home that were ordered since the newest scan
	Told        map[string]string         // what was said last of what would repeat
	Balanced    string                    // what was last said of balancing
	Swung       time.Time                 // when it was last said that a node is, or no longer is, short
	Pruned      time.Time

	ledger   *place.Ledger                        // of Plan.Placements and admissions, for requests
	own      bool                                 // nobody else has the steps of Plan
	before   workload.Snapshot                    // of the scan before
	starts   []uint64                             // of the newest observations, see startOf
	callable []workload.Named                     // what the newest snapshot has by name; nil until it is asked for
	made     made                                 // the newest subjects
	decided  func(balance.Input, balance.History) // told what a scan is decided on; nil tells nobody
	engine   func(balance.Input, balance.History) (balance.Outcome, balance.History)
	out      *Output       // of the input being worked on
	late     []workload.ID // held, and found to have begun with what homenode had set
	by       *plan.Asker   // who asked for it
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
	Theirs     []Theirs
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
	KeySharing    = "sharing"
	KeyScheduler  = "scheduler"
	KeyUndoing    = "undoing"
	KeyTheirs     = "theirs"
	KeyTrial      = "trial"
)

// New is the state of a daemon that starts on what an earlier one left.
func New(settings Settings, saved Saved) *State {
	s := &State{
		engine:   balance.Tick,
		Settings: settings,
		Seq:      saved.Seq,
		Events:   saved.Events,
		Journal:  newJournal(saved.Journal),
		Admissions: maps.Collect(func(yield func(workload.ID, Admission) bool) {
			for id, a := range saved.Admissions {
				if a.Scan = 0; !yield(id, a) { // scans are counted from the start of a daemon
					return
				}
			}
		}),
		Holds:     Holds{All: saved.Holds.All, IDs: cloned(saved.Holds.IDs)},
		Chosen:    cloned(saved.Chosen),
		Partition: settings.Partition,
		ShareOn:   settings.Share.On,
		Scheduler: Scheduler{SchedulerState: saved.Scheduler},
		Theirs:    theirs(saved.Theirs),
		Trial:     trialOf(saved.Trial),
		Moves:     map[workload.ID]plan.Move{},
		Claims:    map[workload.ID]*workload.Claim{}, SeenAs: map[workload.ID][]workload.ID{}, Bindings: map[workload.ID]binding{},
		Surveyed: map[SurveyKind]time.Time{}, Links: map[workload.ID][]Link{}, Helpers: map[processKey]workload.ID{}, Fixed: map[string]bool{},
		Known: map[SurveyKind]bool{}, Tasks: map[workload.ID]*Task{}, Running: map[uint64]workload.ID{}, Ended: map[workload.ID]ended{}, Waits: map[workload.ID]time.Time{}, Checks: map[uint64]workload.ID{},
		Tried: map[workload.ID]bool{}, Retries: map[stepKey]retry{}, Silent: map[workload.ID]silent{}, Overwrites: map[workload.ID]overwrite{},
		Narrowed: map[workload.ID]topology.CPUSet{}, Given: map[workload.ID]topology.CPUSet{}, DividedAt: map[workload.ID]time.Time{}, KeptThreads: map[workload.ID]map[int]bool{}, Sampled: map[workload.ID]time.Time{}, Passes: map[workload.ID]uint64{}, Asked: map[processKey]bool{}, Told: map[string]string{},
	}
	s.History.Changes = saved.Past
	if p := saved.Partition; p.Partition != "" && p.Configured == settings.Partition && p.Partition.Check() == nil {
		s.Partition = p.Partition
	}
	if v := saved.Sharing; v.Configured == settings.Share.On {
		s.ShareOn = v.On
	}
	for _, m := range saved.Moves {
		s.Moves[m.Workload] = m
	}
	for _, w := range saved.Undoing {
		s.Undoing = append(s.Undoing, &undoing{Which: w})
	}
	s.Plan.Placements = sharing(saved.Placements)
	s.saved = plan.HomesOf(s.Plan.Placements)
	for id, a := range s.Admissions {
		if !a.Placement.CPUs.Empty() { // not known of versions before
			s.Given[id] = a.Placement.CPUs // `homenode run` set these itself: they have no journal entry
		}
	}
	for _, e := range saved.Journal {
		s.noteGiven(e.Workload, e.Kind, e.New)
	}
	return s
}

// sharing is placements of which the thousands that have one of a few homes and CPU sets
// share those: they are compared and gone through at every scan.
func sharing(placements []workload.Placement) []workload.Placement {
	out := slices.Clone(placements)
	var homes []topology.NodeSet
	var cpus []topology.CPUSet
	for i := range out {
		out[i].Home, homes = shared(homes, out[i].Home)
		out[i].CPUs, cpus = shared(cpus, out[i].CPUs)
	}
	return out
}

// shared is one of the sets that is the same, or the set, which is then one of them.
func shared[T ~int](sets []topology.Set[T], set topology.Set[T]) (topology.Set[T], []topology.Set[T]) {
	const most = 64 // to go through
	for i := range sets {
		if sets[i].Equal(set) {
			return sets[i], sets
		}
	}
	if len(sets) < most {
		sets = append(sets, set)
	}
	return set, sets
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
	slices.SortFunc(v.Placements, byWorkload)
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
		return !slices.ContainsFunc(v.Journal, func(e plan.Entry) bool { return w.has(e.Workload) })
	})
	v.Theirs = slices.DeleteFunc(slices.Clone(v.Theirs), func(t Theirs) bool { return !survives(t.Kind) })
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

// Journal is the live entries: the oldest known value of everything homenode changed.
type Journal struct {
	entries   map[uint64]*plan.Entry
	bySet     map[settingKey]*plan.Entry
	all       []plan.Entry // rising by Seq, nil when stale: shared with readers, never written
	inherited []plan.Entry // of all those that pass on; nil when stale, likewise
	threads   []plan.Entry // of all those of plan.ThreadCPUs; likewise
	written   []plan.Entry // see intended; likewise
	files     []plan.Entry // of all those of plan.CgroupFiles; nil when stale, likewise
	policy    []plan.Entry // of all those of plan.TaskPolicy; likewise
	caches    []plan.Entry // of all those of resctrl; likewise
	changes   uint64       // entries written or taken out so far
	shape     uint64       // another one when a setting was added or taken out, or is of another thing
}

type settingKey struct {
	kind plan.SettingKind
	path string
}

func newJournal(entries []plan.Entry) Journal {
	j := Journal{entries: map[uint64]*plan.Entry{}, bySet: map[settingKey]*plan.Entry{}}
	for _, e := range entries {
		renameEntry(&e)
		j.put(e)
	}
	return j
}

// put writes an entry, or takes one out that is Restored or Gone.
func (j *Journal) put(e plan.Entry) {
	j.all = nil
	j.changes++
	switch {
	case passedOn(e.Kind):
		j.inherited, j.threads, j.written = nil, nil, nil
	case e.Kind.IsCgroupFile():
		j.files = nil
	case e.Kind == plan.TaskPolicy:
		j.policy = nil
	case e.Kind == plan.CacheGroup || e.Kind == plan.CacheTasks:
		j.caches = nil
	}
	key := settingKey{e.Kind, e.Path}
	if old := j.bySet[key]; old == nil || old.Object != e.Object || old.Workload != e.Workload || e.State == plan.Restored || e.State == plan.Gone {
		j.shape++
	}
	if e.State == plan.Restored || e.State == plan.Gone {
		delete(j.entries, e.Seq)
		if old := j.bySet[key]; old != nil && old.Seq == e.Seq {
			delete(j.bySet, key)
		}
		return
	}
	j.entries[e.Seq] = &e
	j.bySet[key] = &e
}

// Of is the entry of a setting, or nil.
func (j *Journal) Of(kind plan.SettingKind, path string) *plan.Entry {
	return j.bySet[settingKey{kind, path}]
}

// Len is how many entries there are.
func (j *Journal) Len() int { return len(j.entries) }

// All is every entry, rising by Seq. It is not to be changed.
func (j *Journal) All() []plan.Entry {
	if j.all == nil {
		j.all = make([]plan.Entry, 0, len(j.entries))
		for _, seq := range slices.Sorted(maps.Keys(j.entries)) {
			j.all = append(j.all, *j.entries[seq])
		}
	}
	return j.all
}

// affinities is the entries that something may have inherited from. It is not to be changed.
func (j *Journal) affinities() []plan.Entry {
	return j.only(&j.inherited, passedOn)
}

// passedOn reports whether what is made after a setting was changed has its value, too.
func passedOn(k plan.SettingKind) bool { return k == plan.Affinity || k == plan.ThreadCPUs }

// intended is the affinities of which homenode has written some or all by now, or nothing. It is not
// to be changed.
func (j *Journal) intended() []plan.Entry {
	if j.written == nil {
		j.written = []plan.Entry{}
		for _, e := range j.affinities() {
			if e.Kind == plan.Affinity && e.State == plan.Intended {
				j.written = append(j.written, e)
			}
		}
	}
	return j.written
}

// cgroupFiles is the entries of files of a cgroup that sharing sets. It is not to be changed.
func (j *Journal) cgroupFiles() []plan.Entry {
	return j.only(&j.files, plan.SettingKind.IsCgroupFile)
}

// policies is the entries of scheduling policies. It is not to be changed.
func (j *Journal) policies() []plan.Entry {
	return j.only(&j.policy, func(k plan.SettingKind) bool { return k == plan.TaskPolicy })
}

// cached is the entries of resctrl. It is not to be changed.
func (j *Journal) cached() []plan.Entry {
	return j.only(&j.caches, func(k plan.SettingKind) bool { return k == plan.CacheGroup || k == plan.CacheTasks })
}

// only is the entries of some kinds, kept until put takes up another.
func (j *Journal) only(kept *[]plan.Entry, of func(plan.SettingKind) bool) []plan.Entry {
	if *kept == nil {
		*kept = []plan.Entry{}
		for _, e := range j.All() {
			if of(e.Kind) {
				*kept = append(*kept, e)
			}
		}
	}
	return *kept
}
