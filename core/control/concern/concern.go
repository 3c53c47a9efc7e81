package concern

import (
	"cmp"
	"iter"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/homenode/homenode/core/control/journal"
	"github.com/homenode/homenode/core/control/scene"
	"github.com/homenode/homenode/core/control/work"
	"github.com/homenode/homenode/core/place"
	"github.com/homenode/homenode/core/plan"
	"github.com/homenode/homenode/core/share"
	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/core/words"
	"github.com/homenode/homenode/core/workload"
)

// Concern is one thing that homenode decides about a host.
type Concern interface {
	// Name returns the name that history and checkpoints have.
	Name() string
	// Owns reports whether a journal entry is of a setting that this concern decides on. Only those
	// are restored when it no longer desires them. No two concerns own the same entry.
	Owns(*plan.Entry) bool
	// Decide returns what should stand now. It is asked once a scan, and again after Ended or
	// Looked has returned true and after an order of the user.
	Decide(*Scene) Desired
	// Ended takes up how a step went; nil is success. It sees the steps of all concerns. It returns
	// true when its desires have changed, and are to be acted on before the next scan.
	Ended(sc *Scene, step *plan.Step, f *work.Failure) bool
}

// Restorer is a concern that must know when a setting was restored, on its own behalf or by undo.
type Restorer interface {
	Restored(*Scene, *plan.Entry)
}

// Verifier is a concern with settings that scans do not see, and other programs may change.
type Verifier interface {
	// Verify returns the entries whose settings are to be read now.
	Verify(*Scene) []plan.Entry
}

// Looker is a concern that asks for effects of its own.
type Looker interface {
	// Looked takes up the result of an effect, and reports whether that was one of its own. Its
	// desires are then acted on before the next scan.
	Looked(*Scene, *work.Result) bool
}

// Desired is what a concern wants of a host.
type Desired struct {
	Settings []Desire
	// Leave has workloads whose settings stay for now, such as those that no scan has seen.
	Leave map[workload.ID]bool
	// Stay has workloads whose memory does not move before the next scan: another step is to come first.
	Stay map[workload.ID]bool
	// Caches is the last-level caches that shared work is kept in from now on. It becomes part of its home.
	Caches map[workload.ID]Kept
	// Why has a sentence for the decision on a workload, after those of its home.
	Why map[workload.ID]words.Reason
}

// Kept is the caches that a workload is kept in; none for its whole home.
type Kept struct {
	Caches topology.CacheSet
	CPUs   topology.CPUSet // that it may use there
}

// Amend makes the caches part of the homes of a plan, and adds the sentences to its decisions.
func (d *Desired) Amend(p *plan.Plan) {
	if len(d.Caches) > 0 {
		p.Placements = slices.Clone(p.Placements) // a reader has the others
		for i := range p.Placements {
			home := &p.Placements[i]
			if to, ok := d.Caches[home.Workload]; ok {
				home.Caches, home.CPUs = to.Caches, to.CPUs
			}
		}
	}
	if len(d.Why) == 0 {
		return
	}
	p.Report.Decisions = slices.Clone(p.Report.Decisions) // a later plan may have the others
	for i := range p.Report.Decisions {
		of := &p.Report.Decisions[i]
		if why, ok := d.Why[of.Workload]; ok {
			of.Reasons = append(slices.Clip(of.Reasons), why)
		}
	}
}

// Desire is one setting that should stand.
type Desire struct {
	Kind   plan.SettingKind
	Path   string
	Object string // what tells the object from a later one under the same path; "" where the path does
	Step   plan.Step
	Stands Stands
	// Now has the step begin as soon as it is decided: it is in no plan of a scan.
	Now bool
	// Only keeps what the journal has of the setting from being restored, and sets nothing.
	Only bool
}

// Stands is how it is known whether a desire holds.
type Stands int

// Ways to know it.
const (
	ByJournal Stands = iota // the journal has the value of the step, applied
	Yes                     // a scan saw that it holds
	No                      // a scan saw that it does not hold
)

// Scene is a host as concerns see it.
type Scene struct {
	At       time.Time // of the newest input
	Began    time.Time // the scan
	Snapshot *workload.Snapshot
	Subjects []*place.Subject // rising by ID
	Plan     *plan.Plan       // its homes, and the steps so far
	Policy   *plan.Policy
	Facts    *plan.State // the plan was made on
	Claims   map[workload.ID]*workload.Claim
	Journal  *journal.Journal
	Enforce  bool // the configuration says so
	Acts     bool // changes are carried out now
	Stopping bool // the daemon ends
	Between  bool // no scan has just ended: only what changed since the newest one is decided
	Loop
}

// Loop answers what a concern asks of the rest of homenode, and takes what it has to report.
type Loop interface {
	// Observation returns what the newest scan saw of a workload, or nil.
	Observation(workload.ID) *workload.Observation
	// Observed returns what the observer calls the parts of a workload.
	Observed(workload.ID) []workload.ID
	// OwnCgroup returns the one cgroup that a workload has to itself, and whose files no source
	// manages; "" for none.
	OwnCgroup(*workload.Observation) string
	// Start returns the start time of the root of a process tree, in clock ticks since boot; 0 for a cgroup.
	Start(*workload.Observation) uint64
	// Homes returns the homes that are booked now.
	Homes() []workload.Placement

	// Held reports whether the user has homenode leave a workload alone.
	Held(workload.ID) bool
	// AllHeld reports whether the user has homenode leave everything alone.
	AllHeld() bool
	// Busy reports whether steps of a workload are under way.
	Busy(workload.ID) bool
	// Undoes reports whether settings of a workload are being restored.
	Undoes(workload.ID) bool
	// Settled reports whether the newest scan saw what was last done to a workload.
	Settled(workload.ID) bool
	// Changing reports whether the newest scan saw a workload before or during a change that a user asked for.
	Changing(workload.ID) bool
	// Redefines reports whether the definition of a workload or of one of its parts is being changed.
	Redefines(workload.ID) bool
	// LeftAlone returns why a workload is left alone; none when it is not.
	LeftAlone(o *workload.Observation, names []string) words.Reason
	// Halted returns why nothing is changed; none when something is.
	Halted() words.Reason

	// RetryOf returns when what failed is tried again.
	RetryOf(work.Key) work.Retry
	// Retries calls f with all that is tried again.
	Retries(f func(work.Key, work.Retry))
	// Later reports whether a time is still to come and no farther off than the longest retry.
	Later(time.Time) bool
	// Again reports whether something may be tried now, and if so puts off the next try.
	Again(work.Key) bool

	// SurveyAgain has the next scan ask for a survey, however recent the newest one is.
	SurveyAgain(work.SurveyKind)

	// Event writes a line of history.
	Event(plan.Event, words.Code, ...any)
	// Order writes that the user asked for something, with their name as the first value.
	Order(workload.ID, words.Code, ...any)
	// Once writes a line that each scan would repeat only when its text changes.
	Once(key string, e plan.Event, code words.Code, args ...any)
	// Over forgets a line of Once.
	Over(key string)
	// Save writes a value to disk.
	Save(key string, value any)
	// Ask has something done beside the loop and returns its number.
	Ask(work.Effect) uint64
	// Asked returns the number of the newest effect.
	Asked() uint64
	// Reply answers a request.
	Reply(id uint64, f *work.Failure, answer any)
	// Adopt writes a setting that stands into the journal as homenode's own.
	Adopt(workload.ID, plan.SettingKind, string, string)
}

// Applied returns the journal entry of a setting if it is of the same object and applied; else nil.
func (sc *Scene) Applied(kind plan.SettingKind, path, object string) *plan.Entry {
	e := sc.Journal.Of(kind, path)
	if e == nil || e.State != plan.Applied {
		return nil
	}
	if !Same(e, object) {
		return nil
	}
	return e
}

// Placed yields the subjects that have a home in the plan, with it, rising by ID.
func (sc *Scene) Placed() iter.Seq2[*place.Subject, *workload.Placement] {
	return func(yield func(*place.Subject, *workload.Placement) bool) {
		homes := sc.Plan.Placements
		for _, x := range sc.Subjects {
			id := x.Observation.ID
			for len(homes) > 0 && homes[0].Workload < id { // both rise
				homes = homes[1:]
			}
			if len(homes) > 0 && homes[0].Workload == id && !yield(x, &homes[0]) {
				return
			}
		}
	}
}

// Decision returns what the plan decided about a workload, or nil.
func (sc *Scene) Decision(id workload.ID) *plan.Decision {
	all := sc.Plan.Report.Decisions
	i, ok := slices.BinarySearchFunc(all, id,
		func(d plan.Decision, id workload.ID) int { return cmp.Compare(d.Workload, id) })
	if !ok {
		return nil
	}
	return &all[i]
}

// Cgroups returns the cgroups that a workload has to itself: of a process tree in the cgroup of
// another workload none.
func (sc *Scene) Cgroups(o *workload.Observation) []share.SchedulerGroup {
	var out []share.SchedulerGroup
	for _, id := range sc.Observed(o.ID) {
		g := share.SchedulerGroup{Cgroup: string(id)}
		if id == o.ID {
			switch {
			case o.Kind == workload.InCgroup:
				g.Cgroup, g.Object = scene.CgroupPath(o), o.CgroupID
			case o.Kind == workload.InProcess && workload.OfRun(o.Cgroup):
				g.Cgroup = o.Cgroup
			default:
				continue
			}
		}
		if strings.HasPrefix(g.Cgroup, "/") && g.Cgroup != "/" {
			out = append(out, g)
		}
	}
	return out
}

// Refuse returns a failure in words.
func Refuse(code work.Code, text words.Code, args ...any) *work.Failure {
	return work.Refuse(code, text, args...)
}

// Inode returns the object of settings of a cgroup, from its inode; "" when that is unknown (0).
func Inode(id uint64) string {
	if id == 0 {
		return ""
	}
	return strconv.FormatUint(id, 10)
}

// Kept has what the journal has of a kind for the cgroups of a workload, so that it is neither set nor restored now.
func (sc *Scene) Kept(o *workload.Observation, kind plan.SettingKind) (out []Desire) {
	for _, g := range sc.Cgroups(o) {
		out = append(out, Desire{Kind: kind, Path: g.Cgroup, Only: true, Step: plan.Step{Workload: o.ID}})
	}
	return out
}

// Same reports whether an entry is about an object, and not an earlier one under its path.
func Same(e *plan.Entry, object string) bool {
	return e.Object == "" || object == "" || e.Object == object
}

// File returns the desire that a file of the cgroup of a workload has a value.
func (sc *Scene) File(o *workload.Observation, cgroup string, kind plan.SettingKind, to string,
	why words.Reason) Desire {
	step := plan.Step{Kind: plan.SetCgroup, Workload: o.ID, Target: plan.Target{Kind: workload.InCgroup, Cgroup: cgroup,
		File: string(kind)},
		From: plan.CgroupFiles[kind], To: to, Optional: true, Reason: why}
	inode := Inode(o.CgroupID)
	if e := sc.Journal.Of(kind, cgroup); e != nil && Same(e, inode) {
		step.From = e.New
	}
	return Desire{Kind: kind, Path: cgroup, Object: inode, Step: step}
}
