package work

import (
	"encoding/json"
	"time"

	"github.com/homenode/homenode/core/plan"
	"github.com/homenode/homenode/core/share"
	"github.com/homenode/homenode/core/words"
	"github.com/homenode/homenode/core/workload"
)

// Code is the kind of a refusal or failure.
type Code string

// Codes.
const (
	BadRequest Code = "bad request"
	NotFound   Code = "not found"
	Forbidden  Code = "forbidden"
	NoRoom     Code = "no room"
	Failed     Code = "failed"

	// Of effects.
	Gone      Code = "gone"       // what it is about no longer exists
	Fixed     Code = "fixed"      // the kernel lets nobody change it
	InUse     Code = "in use"     // by others; it goes back with them
	Foreign   Code = "foreign"    // somebody else has set it since
	Lacking   Code = "lacking"    // this kernel has no such file of a cgroup
	Unchanged Code = "unchanged"  // it stands as it was, and nothing had to be restored
	NoAnswer  Code = "no answer"  // the call did not come back
	NotFrozen Code = "not frozen" // a process did not stop for it, and may hold a lock for as long as it likes
	Cancelled Code = "cancelled"
)

// Failure is why something was refused or did not work; nil is none.
type Failure struct {
	Code Code   `json:"code"`
	Text string `json:"text"`
}

func (f *Failure) Error() string { return f.Text }

// Refuse returns a failure in words.
func Refuse(code Code, text words.Code, args ...any) *Failure {
	return &Failure{Code: code, Text: words.Because(text, args...).String()}
}

// EffectKind is what is to be done.
type EffectKind string

// Effects. Each ends with one Result, but for those marked *.
const (
	EffectRead      EffectKind = "read"      // Driver.Changes(Step), and who has inherited
	EffectApply     EffectKind = "apply"     // Driver.Apply(Step); page moves tell their progress
	EffectRestore   EffectKind = "restore"   // of Entries, what is still ours
	EffectCheck     EffectKind = "check"     // Driver.Read of each of Entries
	EffectPresent   EffectKind = "present"   // which of Entries are about things that are gone
	EffectInherited EffectKind = "inherited" // who has inherited from Entries, among Among or all
	EffectCancel    EffectKind = "cancel"    // * stops the effect Of
	EffectSurvey    EffectKind = "survey"    // * ends with a Survey
	EffectChanged   EffectKind = "changed"   // * tells the observer that what Workload may use was changed
	// tells the kernel's scheduler for batch work what holds, and asks how it is
	EffectScheduler EffectKind = "scheduler"
	EffectMoved     EffectKind = "moved" // * … that its memory was moved
)

// Effect is one thing to be done beside the loop.
type Effect struct {
	ID       uint64             `json:"id,omitempty"`
	Kind     EffectKind         `json:"kind"`
	Workload workload.ID        `json:"workload,omitempty"`
	Step     *plan.Step         `json:"step,omitempty"`
	Entries  []plan.Entry       `json:"entries,omitempty"`
	Among    []workload.Process `json:"among,omitempty"`
	// Journal, of a read and of a restore, is the entries that something may have inherited from. Thousands of reads
	// share it, and a record has it not: the state has it.
	Journal   []plan.Entry           `json:"-"`
	Scheduler *share.SchedulerOrders `json:"scheduler,omitempty"`
	Of        uint64                 `json:"of,omitempty"`
	Survey    SurveyKind             `json:"survey,omitempty"`
}

// Result is how an effect ended.
type Result struct {
	ID        uint64               `json:"id"`
	Failed    *Failure             `json:"failed,omitempty"`
	Changes   []plan.Change        `json:"changes,omitempty"`   // of a read
	Inherited []plan.Inherited     `json:"inherited,omitempty"` // of a read or inherited
	Each      []*Failure           `json:"each,omitempty"`      // of a restore, check or present: one for each entry
	Settings  []plan.Setting       `json:"settings,omitempty"`  // of a check
	Scheduler *share.SchedulerSeen `json:"scheduler,omitempty"` // of a look at it
	// Standing: of an apply that failed, the step's settings as they are now; nil when
	// that could not be read.
	Standing []plan.Setting `json:"standing,omitempty"`
	// Frozen is how long an apply or a restore kept processes from running.
	Frozen time.Duration `json:"frozen,omitempty"`
}

// SurveyKind names what is read beside the scans, each with a period of its own.
type SurveyKind string

// Surveys.
const (
	Managers   SurveyKind = "managers"   // other programs that place things
	Links      SurveyKind = "links"      // devices and helpers that workloads use
	Interrupts SurveyKind = "interrupts" // where interrupts and queues of devices go
	Isolation  SurveyKind = "isolation"  // what may interrupt isolated work
)

// A step that failed waits 10 s, then twice as long each time, up to 10 minutes: a full
// node or an offline CPU seldom changes faster, and each try of a page move costs the
// workload time.
//
// A page move of which a part stayed behind for causes that last waits 10 minutes at
// once: pins for devices are held as long as the program runs. What does not answer
// waits likewise, as a whole.
const (
	RetryFirst = 10 * time.Second
	RetryMost  = 10 * time.Minute
)

// Retry is when something that failed may be tried again.
type Retry struct {
	Failures int
	Next     time.Time
	Text     string
	Code     Code // of the last failure; "" where it was none of the driver's
}

// Key names a step among those that failed.
type Key struct {
	Workload workload.ID
	Kind     plan.StepKind
	To       string
	Device   string
}

// MarshalText makes it a key in JSON.
func (k Key) MarshalText() ([]byte, error) {
	type plain Key
	return json.Marshal(plain(k))
}

// UnmarshalText reads what MarshalText wrote.
func (k *Key) UnmarshalText(text []byte) error {
	type plain Key
	return json.Unmarshal(text, (*plain)(k))
}

// KeyOf returns the key of a step.
func KeyOf(s *plan.Step) Key {
	key := Key{s.Workload, s.Kind, s.To, s.Target.Part()}
	if plan.SettingKind(key.Device).Turns() { // what hinders one value hinders all
		key.To = ""
	}
	if s.Kind.PerProcess() {
		key.Device = plan.ProcessPath(s.Target.Processes[0])
	}
	return key
}
