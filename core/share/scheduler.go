package share

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/core/words"
	"github.com/homenode/homenode/core/workload"
)

// SchedulerID is the workload ID of the kernel's scheduler for batch work in steps, the journal,
// and undo.
const SchedulerID workload.ID = "scheduler"

// SchedulerSeen is the state of the kernel's scheduler for batch work in one scan.
type SchedulerSeen struct {
	Unable     words.Reason `json:"unable,omitzero"`      // why this kernel takes none; none when it does
	Generation string       `json:"generation,omitempty"` // of the kernel's interface for it
	Newest     string       `json:"newest,omitempty"`     // version that this program brings
	Loaded     string       `json:"loaded,omitempty"`     // version of homenode's that runs; "" when none does
	Other      string       `json:"other,omitempty"`      // name of somebody else's that runs
	Under      string       `json:"under,omitempty"`      // name of one that lets homenode's run below it
	Tiers      int          `json:"tiers,omitempty"`      // cgroups that can have tiers with it; 0 not known
	// End is how homenode's ended, when the kernel ended it and it has not been loaded since.
	End      *SchedulerEnd `json:"end,omitempty"`
	Counters []Counter     `json:"counters,omitempty"` // as the scheduler counts since it was loaded
	// threads that are not with the scheduler, by cgroup; those with none are left out
	Left map[string]int `json:"left,omitempty"`
	// Ended is how the schedulers of single cgroups ended since it was last asked, by cgroup: below another one each
	// has its own. The others go on.
	Ended map[string]SchedulerEnd `json:"ended,omitempty"`
	// Gap is how long no scheduler ran at the newest swap.
	Gap time.Duration `json:"gap,omitempty"`
}

// Runs says how homenode's scheduler runs, while it does.
func (s *SchedulerSeen) Runs() words.Reason {
	if s.Under != "" {
		return words.Because(words.SchedulerBelow, s.Under)
	}
	return words.Because(words.SchedulerRuns)
}

// Counter is one counter of the scheduler.
type Counter struct {
	Name  string `json:"name"`  // name of the counter; does not change between versions
	Value uint64 `json:"value"` // value since the scheduler was loaded
}

// EndKind is the cause of the scheduler's end.
type EndKind string

// Ends.
const (
	EndStalled EndKind = "stalled"      // the kernel's watchdog: a task was runnable and did not run
	EndSysRq   EndKind = "sysrq"        // SysRq-S
	EndError   EndKind = "error"        // an error of the scheduler
	EndHotplug EndKind = "hotplug"      // a CPU came or went
	EndAbove   EndKind = "above"        // the scheduler that it ran below ended
	EndUnknown EndKind = "unregistered" // somebody took it off, or it is not known
	EndRefused EndKind = "refused"      // the kernel did not take it: it never ran
)

// SchedulerEnd is the end of the scheduler: its cause and message.
type SchedulerEnd struct {
	// who or what ended it: stalled (the kernel's watchdog), sysrq, error, hotplug, above (the scheduler that it ran
	// below ended), unregistered, or refused (the kernel did not take it)
	Kind EndKind `json:"kind"`
	Text string  `json:"text,omitempty"` // what the kernel says
}

func (e *SchedulerEnd) String() string {
	if e.Text == "" {
		return string(e.Kind)
	}
	return string(e.Kind) + ": " + e.Text
}

// SchedulerConfig is the input of the scheduler in the kernel.
type SchedulerConfig struct {
	Nodes  []SchedulerNode  `json:"nodes"`            // rising by node
	Groups []SchedulerGroup `json:"groups,omitempty"` // rising by cgroup; all others are of the tier normal
}

// SchedulerNode is the part of one node in a SchedulerConfig.
type SchedulerNode struct {
	Node topology.NodeID `json:"node"`
	CPUs float64         `json:"cpus"` // that batch work may keep busy
	Idle int             `json:"idle"` // CPUs that stay idle
}

// SchedulerGroup is a cgroup with all cgroups below it.
type SchedulerGroup struct {
	Cgroup string           `json:"cgroup"` // path below the cgroup root
	Object uint64           `json:"object"` // its inode; 0 when not known
	Tier   workload.Tier    `json:"tier"`
	Nodes  topology.NodeSet `json:"nodes,omitzero"` // nodes that it may run on; of the tier batch
}

// Equal reports whether two configurations have the same values.
func (c *SchedulerConfig) Equal(other *SchedulerConfig) bool {
	return slices.Equal(c.Nodes, other.Nodes) && slices.EqualFunc(c.Groups, other.Groups,
		func(a, b SchedulerGroup) bool {
			return a.Cgroup == b.Cgroup && a.Object == b.Object && a.Tier == b.Tier && a.Nodes.Equal(b.Nodes)
		})
}

// Bound keeps at most a given number of groups, and returns the cgroups of the others, rising.
// Batch groups come first, then online-strict and online ones. Cgroups of ordinary users, who can
// make any number, come last, equally many of each user.
func (c *SchedulerConfig) Bound(most int) (without []string) {
	if most <= 0 || len(c.Groups) <= most {
		return nil
	}
	rank := map[workload.Tier]int{workload.BatchTier: 0, workload.OnlineStrict: 1, workload.Online: 3}
	byName := func(a, b SchedulerGroup) int { return cmp.Compare(a.Cgroup, b.Cgroup) }
	byTier := func(a, b SchedulerGroup) int { return cmp.Or(cmp.Compare(rank[a.Tier], rank[b.Tier]), byName(a, b)) }
	slices.SortFunc(c.Groups, byTier)
	turns, of := map[string][2]int{}, map[int]int{}
	for _, g := range c.Groups {
		turn := [2]int{rank[g.Tier], 0}
		if user := workload.UserOf(g.Cgroup); workload.Ordinary(user) {
			turn = [2]int{2, of[user]}
			of[user]++
		}
		turns[g.Cgroup] = turn
	}
	slices.SortStableFunc(c.Groups, func(a, b SchedulerGroup) int {
		x, y := turns[a.Cgroup], turns[b.Cgroup]
		return slices.Compare(x[:], y[:])
	})
	for _, g := range c.Groups[most:] {
		without = append(without, g.Cgroup)
	}
	slices.Sort(without)
	c.Groups = c.Groups[:most]
	slices.SortFunc(c.Groups, byName)
	return without
}

// SchedulerInput is everything that a decision about the scheduler depends on.
type SchedulerInput struct {
	At     time.Time
	Not    words.Reason // why none is wanted; none when one is
	Work   bool         // batch work with a cgroup of its own is there
	Wait   float64      // share of time that important work waited for a CPU, the most of any; 0 unknown
	Most   float64      // … that it may
	Asked  string       // version that a person asked for; "" none
	Proves time.Duration
	Seen   SchedulerSeen
}

// SchedulerState is the memory about the scheduler; it outlives the daemon.
type SchedulerState struct {
	Runs     string        `json:"runs,omitempty"`     // version that ran at the newest look
	Since    time.Time     `json:"since,omitzero"`     // since when
	Loads    []time.Time   `json:"loads,omitempty"`    // within the last hour, oldest first
	Failures int           `json:"failures,omitempty"` // ends and refusals one after the other
	Next     time.Time     `json:"next,omitzero"`      // it is not loaded before
	Ended    time.Time     `json:"ended,omitzero"`     // when the kernel last ended it, or refused it
	End      *SchedulerEnd `json:"end,omitempty"`      // how
	Idle     time.Time     `json:"idle,omitzero"`      // since when there is no batch work
	Chosen   string        `json:"chosen,omitempty"`   // version that held, or was gone back to; "" the newest
	Beside   string        `json:"beside,omitempty"`   // the newest then: another one ends the choice
	Trial    *Trial        `json:"trial,omitempty"`    // under way
	Upgrade  *Trial        `json:"upgrade,omitempty"`  // the newest that is over
	Why      words.Reason  `json:"why,omitzero"`       // why it runs, or not
}

// Trial is the probation of a version that replaced another.
type Trial struct {
	From  string        `json:"from"`  // version before
	To    string        `json:"to"`    // version after
	Began time.Time     `json:"began"` // when it was swapped
	Until time.Time     `json:"until"` // when the probation ends
	Gap   time.Duration `json:"gap"`   // for which none ran
	// share of time that important work waited before, the most of any workload
	Before float64      `json:"before"`
	Worst  float64      `json:"worst"`          // … since
	Over   int          `json:"over,omitempty"` // looks one after the other with more
	Ended  time.Time    `json:"ended,omitzero"` // when it was over
	Held   bool         `json:"held"`           // it is kept
	Why    words.Reason `json:"why,omitzero"`   // why not
}

// SchedulerVerb is an action on the scheduler.
type SchedulerVerb string

// What may be done.
const (
	Leave   SchedulerVerb = ""        // as it is
	Load    SchedulerVerb = "load"    // Version, where none is
	Replace SchedulerVerb = "replace" // the one that runs by Version
	Unload  SchedulerVerb = "unload"  // what runs, or what is left of one that the kernel ended
)

// SchedulerDo is a decision.
type SchedulerDo struct {
	Verb    SchedulerVerb
	Version string
	Why     words.Reason
}

const (
	// MostLoads bounds how often the scheduler is loaded within an hour, whatever the cause:
	// each load stops every CPU for a moment, and one that does not stay up is of no use.
	MostLoads = 3

	// backOff is the wait after the first end or refusal; it doubles each time up to
	// mostBackOff. One that ran for steady has none behind it.
	backOff     = 30 * time.Second
	mostBackOff = time.Hour
	steady      = time.Hour

	// sysrqBackOff is the first wait after SysRq-S: somebody wanted it gone.
	sysrqBackOff = 10 * time.Minute

	// needless is how long there must be no batch work before it is unloaded: it costs a little
	// at each switch of tasks.
	needless = 10 * time.Minute

	// worse is how many looks one after the other must find more waiting before a version is
	// taken back, and moreWait by how much more of the time, 0 to 1: two percent is beyond
	// what some avg10 of PSI swings by on a steady host.
	worse    = 3
	moreWait = 0.02
)

// DecideScheduler returns the next action on the kernel's scheduler, and the new state. It modifies
// no argument. No earlier action may be in progress.
func DecideScheduler(in SchedulerInput, was SchedulerState) (SchedulerDo, SchedulerState) {
	now := was.after(in.At)
	seen := &in.Seen
	if now.Beside != "" && now.Beside != seen.Newest && seen.Under == "" { // below another one it waits: see version
		now.Chosen, now.Beside = "", ""
	}
	if in.Work {
		now.Idle = time.Time{}
	} else if now.Idle.IsZero() {
		now.Idle = in.At
	}
	ended := now.Runs != "" && seen.Loaded == ""
	if ended {
		now.ended(in.At, cmp.Or(seen.End, &SchedulerEnd{Kind: EndUnknown}))
	} else if seen.Loaded != now.Runs {
		now.Runs, now.Since = seen.Loaded, in.At
	}
	if seen.Loaded != "" && in.At.Sub(now.Since) >= steady {
		now.Failures = 0
	}
	do := now.decide(&in, ended)
	now.Why = do.Why
	// until it has taken, what became of the one before is what is known
	if do.Verb == Load && now.Failures > 0 && now.End != nil {
		now.Why = words.Because(words.SchedulerAgain, now.End.String())
	}
	if do.Verb == Leave && seen.Loaded != "" {
		now.Why = seen.Runs()
	}
	return do, now
}

// after is the state without what is too old to count.
func (s SchedulerState) after(at time.Time) SchedulerState {
	s.Loads = slices.DeleteFunc(slices.Clone(s.Loads),
		func(t time.Time) bool { return at.Sub(t) >= time.Hour || t.After(at) })
	if s.Next.Sub(at) > mostBackOff { // the clock was set back
		s.Next = at.Add(mostBackOff)
	}
	if s.Trial != nil {
		s.Trial = new(*s.Trial)
	}
	return s
}

func (s *SchedulerState) decide(in *SchedulerInput, ended bool) SchedulerDo {
	seen := &in.Seen
	if s.Trial != nil {
		if why := s.watch(in, ended); !why.None() && in.Not.None() {
			verb := Replace
			if seen.Loaded == "" {
				verb = Load
			}
			return SchedulerDo{verb, s.Trial.From, words.Because(words.SchedulerBack, why)}
		}
	}
	unload := func(why words.Reason) SchedulerDo {
		if seen.Loaded == "" {
			return SchedulerDo{Why: why}
		}
		return SchedulerDo{Verb: Unload, Why: why}
	}
	switch {
	case !in.Not.None():
		return unload(in.Not)
	case !in.Work && (seen.Loaded == "" || in.At.Sub(s.Idle) >= needless):
		if seen.Loaded != "" {
			return unload(words.Because(words.SchedulerNeedless, needless))
		}
		return SchedulerDo{Why: words.Because(words.SchedulerNoWork)}
	case seen.Loaded != "" && in.Asked != "" && in.Asked != seen.Loaded:
		return SchedulerDo{Replace, in.Asked, words.Because(words.SchedulerUpgraded)}
	case seen.Loaded != "":
		return SchedulerDo{}
	case !seen.Unable.None():
		return SchedulerDo{Why: seen.Unable}
	case seen.Other != "":
		return SchedulerDo{Why: words.Because(words.SchedulerOther, seen.Other)}
	case in.At.Before(s.Next):
		return SchedulerDo{Why: s.waits(in.At)}
	case len(s.Loads) >= MostLoads:
		return SchedulerDo{Why: words.Because(words.SchedulerTooOften, len(s.Loads),
			s.Loads[0].Add(time.Hour).Sub(in.At).Round(time.Second))}
	}
	return SchedulerDo{Load, s.version(seen), words.Because(words.SchedulerNeeded)}
}

// version is the one to load. A choice among those that run alone says nothing of those below another scheduler, and
// holds again when that one is gone.
func (s *SchedulerState) version(seen *SchedulerSeen) string {
	if s.Beside != "" && s.Beside != seen.Newest {
		return seen.Newest
	}
	return cmp.Or(s.Chosen, seen.Newest)
}

// waits is why it is not loaded now, and when it is.
func (s *SchedulerState) waits(at time.Time) words.Reason {
	return words.Because(words.SchedulerWaits, s.Next.Sub(at).Round(time.Second), s.End.String())
}

// watch is why the version on probation is taken back; none while it holds. One that has
// held its time is kept.
func (s *SchedulerState) watch(in *SchedulerInput, ended bool) words.Reason {
	t := s.Trial
	if !t.Why.None() { // it is being taken back
		return t.Why
	}
	if ended && s.End.Kind == EndAbove { // that says nothing of the version, and the one before would end as well
		s.Trial = nil
		return words.Reason{}
	}
	if ended {
		t.Why = words.Because(words.SchedulerDidEnd, s.End.String())
		return t.Why
	}
	for _, cgroup := range slices.Sorted(maps.Keys(in.Seen.Ended)) {
		if end := in.Seen.Ended[cgroup]; end.Kind == EndError { // a stall may be the other scheduler's
			t.Why = words.Because(words.SchedulerDidEnd, end.String())
			return t.Why
		}
	}
	t.Gap = max(t.Gap, in.Seen.Gap)
	t.Worst = max(t.Worst, in.Wait)
	if in.Wait > max(in.Most, t.Before+moreWait) {
		t.Over++
		if t.Over >= worse {
			t.Why = words.Because(words.SchedulerMoreWaits, in.Wait, t.Before)
			return t.Why
		}
	} else {
		t.Over = 0
	}
	if !in.At.Before(t.Until) || t.Began.After(in.At) {
		t.Held, t.Ended = true, in.At
		s.Trial = nil
		s.Upgrade = t
		s.Chosen = t.To
		s.Beside = in.Seen.Newest
	}
	return words.Reason{}
}

// ended takes up that the kernel ended it.
func (s *SchedulerState) ended(at time.Time, end *SchedulerEnd) {
	s.Runs = ""
	s.Since = time.Time{}
	s.Ended = at
	s.End = end
	first := backOff // of EndAbove, too: what restarts the scheduler above must find its place free
	switch end.Kind {
	case EndHotplug: // not its fault; MostLoads bounds it
		s.Next = at
		return
	case EndSysRq:
		first = sysrqBackOff
	}
	s.Next = at.Add(min(first<<min(s.Failures, 10), mostBackOff))
	s.Failures++
}

// Took returns the state after the scheduler was loaded, or replaced another version.
func (s SchedulerState) Took(at time.Time, do SchedulerDo, in SchedulerInput) SchedulerState {
	s = s.after(at)
	from := s.Runs
	s.Runs = do.Version
	s.Since = at
	s.Loads = append(s.Loads, at)
	switch {
	case s.Trial != nil && do.Version == s.Trial.From: // it is back
		s.Trial.Ended = at
		s.Upgrade, s.Trial = s.Trial, nil
		s.Chosen, s.Beside = do.Version, in.Seen.Newest
	case do.Verb == Replace:
		s.Trial = &Trial{From: from, To: do.Version, Began: at, Until: at.Add(in.Proves), Before: in.Wait}
	}
	return s
}

// Refused returns the state after a failed load.
func (s SchedulerState) Refused(at time.Time, do SchedulerDo, text string, newest string) SchedulerState {
	s = s.after(at)
	if do.Verb == Replace && s.Trial == nil { // the one before runs on
		s.Upgrade = &Trial{From: s.Runs, To: do.Version, Began: at, Until: at, Ended: at,
			Why: words.Because(words.SchedulerNotLoaded, text)}
		return s
	}
	if s.Trial != nil {
		s.Trial.Ended, s.Trial.Why = at, words.Because(words.SchedulerNoBack, s.Trial.From, text)
		s.Upgrade, s.Trial = s.Trial, nil
	}
	if s.Chosen == do.Version && s.Chosen != newest { // the newest is tried next
		s.Chosen, s.Beside = "", ""
	}
	s.ended(at, &SchedulerEnd{Kind: EndRefused, Text: text})
	s.Why = s.waits(at)
	return s
}

// Stopped returns the state after homenode unloaded the scheduler.
func (s SchedulerState) Stopped() SchedulerState {
	s.Runs = ""
	s.Since = time.Time{}
	s.Trial = nil
	return s
}

// SchedulerOrders is what the kernel's scheduler for batch work is told, and asked, once a scan.
type SchedulerOrders struct {
	Config  *SchedulerConfig `json:"config,omitempty"`  // nil: nothing is told
	Cgroups []string         `json:"cgroups,omitempty"` // it is asked which threads of them are not with it
}
