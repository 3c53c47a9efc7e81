package scene

import (
	"time"

	"github.com/homenode/homenode/core/load"
	"github.com/homenode/homenode/core/place"
	"github.com/homenode/homenode/core/place/nearness"
	"github.com/homenode/homenode/core/plan"
	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/core/words"
	"github.com/homenode/homenode/core/workload"
)

// Scene is the workloads of a host as the newest scan and the newest surveys show them.
type Scene struct {
	// Of the newest scan.
	Began    time.Time
	Seen     uint64        // its number; 0 before the first has ended
	Took     time.Duration // from its start to its end
	Snapshot workload.Snapshot
	Before   workload.Snapshot `json:"-"` // of the scan before
	// Isolated is the CPUs of partitions that homenode made. The kernel lets no other cgroup use them, and so not
	// homenode's own: a scan sees them as not allowed. Snapshot.Host has them.
	Isolated topology.CPUSet
	Lives    []workload.Life `json:"-"` // of the observations of Snapshot, once control has decided on it

	// Of the sources.
	Claims   map[workload.ID]*workload.Claim // of each workload that a source knows
	Covered  map[workload.ID]*workload.Claim // of observations that only a claim on all such cgroups covers
	SeenAs   map[workload.ID][]workload.ID   // the observations that a claimed workload was merged from
	Bindings map[workload.ID]Binding         // the CPUs and nodes of each claimed workload at the newest scan

	// Of the ceiling. Each map is replaced, never changed.
	Beyond map[workload.ID]words.Reason // claims whose own word goes beyond it
	Words  map[workload.Owner]Amount    // what the words of each party's other claims book
	Used   map[workload.Owner]Amount    // what the processes and scopes of each party use that have homes

	// Of the surveys.
	Managers  []Manager
	Links     map[workload.ID][]Link
	Helpers   map[ProcessKey]workload.ID         // processes that links lead to, with their workload; "" for none
	Loads     map[workload.ID]load.Load          // the kind of load of each workload; replaced, never changed
	Following map[workload.ID]nearness.Following // of each helper at the newest scan; replaced, never changed

	// Subjects is what the newest decision was made on, rising by ID.
	Subjects []*place.Subject

	named []workload.Named // what Snapshot has by name; nil until Locate needs it
	made  made             // the newest subjects
}

// made is the newest subjects, and what they were made of.
type made struct {
	journal  uint64   // Journal.Shape
	hosts    []string // see hostCgroups
	allowed  topology.CPUSet
	observed []workload.Observation
	subjects []*place.Subject
	owners   []workload.Owner // see ownStart; nil where the system started all
	alike    []bool           // each of these was made of nothing but its observation, the rules and the above
	settings Readings
}

// Readings is the result of comparing the settings of workloads with the journal. It is kept from
// scan to scan for workloads that have not changed.
type Readings struct {
	Right   []bool // by index in Snapshot.Observations: its settings read as the journal has them
	Changes uint64 // of the journal when Right was found
}

// Readings returns the result of the newest comparison, for control to bring up to date.
func (s *Scene) Readings() *Readings { return &s.made.settings }

// Show makes a snapshot the newest one.
func (s *Scene) Show(snap workload.Snapshot) {
	s.Snapshot = snap
	s.named = nil
}

// SetManagers takes up the managers that a survey found: they decide which workloads are left alone.
func (s *Scene) SetManagers(all []Manager) {
	s.Managers = all
	s.made = made{}
}

// KeptCPUs returns the CPUs that other managers keep for work of their own.
func KeptCPUs(all []Manager) topology.CPUSet {
	var out topology.CPUSet
	for i := range all {
		out = out.Union(all[i].CPUs)
	}
	return out
}

// Basis is what the scene needs besides the scan and the surveys.
type Basis struct {
	Settings   Settings
	Journal    Journal
	Admissions map[workload.ID]Admission
	Work       Work
	Facts      *plan.State // the host and the policy of the newest plan
}

// Settings is the configuration of the scene.
type Settings struct {
	Rules       []workload.Rule
	Include     []string // glob patterns on workload ID or name; empty is all
	Exclude     []string // glob patterns; stronger than Include
	MinAge      time.Duration
	Overcommit  float64 // of CPUs by shared work
	Weighs      bool    // a workload without an importance has the one that its kind of load suggests
	Spreads     bool    // threads and workers of wide work each go to one node of its home
	HelpersStay bool    // helpers do not follow the workloads that they serve
}

// Journal is the part of the journal that the scene reads.
type Journal interface {
	All() []plan.Entry
	Of(plan.SettingKind, string) *plan.Entry
	Shape() uint64 // differs once a setting was added, removed, or given to another object
}

// Work is what control is doing, and what it has met while doing it.
type Work interface {
	Held(workload.ID) bool     // by the user
	Changing(workload.ID) bool // the newest scan saw it before or during a change that a user asked for
	Busy(workload.ID) bool     // steps of it are under way
	Trouble(workload.ID) *Trouble
}

// Trouble is why homenode has had difficulties with a workload. nil is none.
type Trouble struct {
	GivenIn words.Reason // another program has set its values again and again
	Silent  words.Reason // a call about it has not returned
}

// Admission is a home that was given to a workload before its start.
type Admission struct {
	Spec    workload.Spec    `json:"spec"`
	Process workload.Process `json:"process,omitzero"` // its root; without one it holds until Until
	From    workload.Origin  `json:"from,omitzero"`    // the party that asked
	// the CPUs of Process before; empty when not known, or restored
	Had       topology.CPUSet    `json:"had,omitzero"`
	Placement workload.Placement `json:"placement"`
	Until     time.Time          `json:"until,omitzero"`
	Scan      uint64             `json:"scan,omitempty"` // the newest that had begun: later ones must see it
	// a person named the CPUs: no plan has it, and it is left there
	Exact bool `json:"exact,omitempty"`
}

// Claimed is what one source says.
type Claimed struct {
	Source   string             `json:"source"`
	Claims   []workload.Claim   `json:"claims,omitempty"` // rising by ID
	Problems []workload.Problem `json:"problems,omitempty"`
	Failed   string             `json:"failed,omitempty"` // it does not answer; the rest is its previous answer
}

// Manager is another program that places things on this host.
type Manager struct {
	Name string `json:"name"`
	Does string `json:"does"`           // in words
	Owns string `json:"owns,omitempty"` // what is left to it, in words; "" when homenode works beside it
	// CPUs is what it keeps for work of its own.
	CPUs topology.CPUSet `json:"cpus,omitzero"`
	// What is left to it.
	Everything bool     `json:"everything,omitempty"` // all workloads
	Cgroups    []string `json:"cgroups,omitempty"`    // workloads below a cgroup with one of these names
	Interrupts bool     `json:"interrupts,omitempty"` // of devices
	// Names is the workloads that it is about, for status.
	Names []string `json:"names,omitempty"`
}

// Link is a link with its traffic.
type Link struct {
	workload.Link
	At time.Time // of the counter
	// Rate is its traffic in MiB/s, the lesser of the last two windows: a pull must have lasted for
	// a minute. Below 0 when nothing counts it, 0 while unknown.
	Rate float64
	Last float64 // of the newest window; below 0 before the first
	// VhostUse is the CPUs that the vhost threads of the workload kept busy, the lesser of the last
	// two scans; 0 for a link that they do not serve.
	VhostUse  float64
	VhostLast float64 // at the newest scan
}

// ProcessKey is a process as a key.
type ProcessKey workload.Process

// MarshalText makes it a key in JSON.
func (k ProcessKey) MarshalText() ([]byte, error) {
	return []byte(plan.ProcessPath(workload.Process(k))), nil
}

// UnmarshalText reads what MarshalText wrote.
func (k *ProcessKey) UnmarshalText(text []byte) error {
	p, err := plan.ParseProcessPath(string(text))
	*k = ProcessKey(p)
	return err
}

// Binding is the CPUs and nodes that a claimed workload was seen to be bound to.
type Binding struct {
	CPUs  topology.CPUSet
	Nodes topology.NodeSet
}

// Amount is CPUs and memory that are booked.
type Amount struct {
	CPUs   float64
	Memory topology.KiB
}

// Plus returns the sum of two amounts.
func (a Amount) Plus(b Amount) Amount { return Amount{a.CPUs + b.CPUs, a.Memory + b.Memory} }

// Within reports whether an amount is no more than a share of the host in both.
func (a Amount) Within(share float64, host Amount) bool {
	return a.CPUs <= share*host.CPUs+1e-9 && float64(a.Memory) <= share*float64(host.Memory)
}
