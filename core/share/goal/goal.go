package goal

import (
	"cmp"
	"maps"
	"math"
	"slices"
	"time"

	"github.com/homenode/homenode/core/words"
	"github.com/homenode/homenode/core/workload"
)

// Resource is something besides cores that batch work shares with important work.
type Resource string

// Resources other than cores that can be limited.
const (
	Siblings  Resource = "siblings"  // SMT siblings of CPUs that run work with goals
	Cache     Resource = "cache"     // ways of the last-level caches
	Bandwidth Resource = "bandwidth" // of memory
	IO        Resource = "io"        // of block devices
	Memory    Resource = "memory"    // the amount
)

// String returns the name in sentences.
func (r Resource) String() string {
	switch r {
	case Siblings:
		return "SMT siblings"
	case Bandwidth:
		return "memory bandwidth"
	case IO:
		return "disk I/O"
	}
	return string(r)
}

// Resources lists all of them in the order in which they are tried: first those of which batch work loses least, and
// memory last, for it takes long to give back.
var Resources = []Resource{Siblings, Cache, Bandwidth, IO, Memory}

// Reading is a goal with the newest value of its metric.
type Reading struct {
	Workload workload.ID
	As       string // identity: another workload under the same ID starts without memory
	Metric   string
	Unit     string  // of Value and Most, for people
	Value    float64 // newest
	Most     float64 // limit, above 0
	Known    bool    // Value was read at least once
	At       time.Time
	Window   time.Duration // over which the metric is computed
	Failed   string        // why the newest attempt to read it failed; "" when it did not
	// Steady: a constant value is no fault, as of run-queue wait on an idle host.
	Steady bool
}

// Input is one scan.
type Input struct {
	At     time.Time
	Hour   int       // of the week, 0 to 167
	Goals  []Reading // rising by workload and metric, each once
	Target float64   // use without goals, 0 to 1
	Pool   float64   // CPUs that no dedicated work holds
	Busy   float64   // of them, all that were busy
	Batch  float64   // of Busy, batch work
	Least  float64   // CPUs that batch work may always keep busy
	// Can has the resources that can be limited on this host now.
	Can []Resource
}

// State is the memory from one scan to the next.
type State struct {
	Use     float64       `json:"use"`
	Begun   time.Time     `json:"begun,omitzero"`    // when the goals began, where one was missed then
	Changed time.Time     `json:"changed,omitzero"`  // when Use changed last
	Fell    time.Time     `json:"fell,omitzero"`     // when it fell last
	Missed  time.Time     `json:"missed,omitzero"`   // when a goal was missed last after all had held
	Raised  time.Time     `json:"raised,omitzero"`   // when Ceiling was raised last
	Misses  int           `json:"misses,omitempty"`  // steps back since the goals last held
	Well    int           `json:"well,omitempty"`    // scans in a row with slack
	Ceiling float64       `json:"ceiling,omitempty"` // the use is not raised above it; 0 before the first miss
	Hold    time.Duration `json:"hold,omitempty"`    // for how long slack is watched before the ceiling is raised
	Low     float64       `json:"low,omitempty"`     // least slack since LowFrom
	LowFrom time.Time     `json:"low_from,omitzero"`
	Held    float64       `json:"held,omitempty"` // newest use at which all goals held
	// Level is the current level of online load. Levels has the memory of each; empty before the first scan.
	Level  int         `json:"level,omitempty"`
	Levels []Level     `json:"levels,omitempty"`
	Goals  []Past      `json:"goals,omitempty"`
	Hours  map[int]int `json:"hours,omitempty"` // hour of the week → use at which the goals held, percent
	Hour   int         `json:"hour"`
	Trial  Trial       `json:"trial,omitzero"`
	// Limits has the percentage of each limited resource that is left to batch work.
	Limits  map[Resource]int       `json:"limits,omitempty"`
	Cleared map[Resource]time.Time `json:"cleared,omitempty"` // when a limit was found to bring nothing
}

// State of a goal.
const (
	Fine    = "held"
	Near    = "near" // within the margin of its limit
	Missed  = "missed"
	Unread  = "unread"
	Stale   = "stale"
	Same    = "constant"
	Waiting = "waiting" // for a first value
)

// Verdict is the state of one goal.
type Verdict struct {
	Reading
	Slack float64
	State string // Fine, Near, Missed, Unread, Stale, Same or Waiting
	Why   words.Reason
}

// Outcome is the decision.
type Outcome struct {
	Use    float64 // replaces the target
	Goals  []Verdict
	Worst  int          // index of the goal that decides; -1 when none is usable
	Fell   bool         // falls back to the target
	Next   words.Reason // step
	Limits map[Resource]int
}

const (
	// most bounds the use: a service that wakes up must find a CPU.
	most     = 0.97
	leastUse = 0.01
	// patience is how long nothing may be read, in windows of the metric, before it is stale; at least leastPatience.
	patience      = 3
	leastPatience = 15 * time.Second
	// unchanged readings in a row, over unchangedFor at least, are a metric that never changes: a p99 of real
	// requests seldom repeats to the last digit.
	unchanged    = 30
	unchangedFor = time.Minute

	mostMissed = 100 // times the limit

	wellScans = 2 // scans with slack before a step forward

	leastMargin, mostMargin = 0.08, 0.30 // slack that is kept
	leastStep, mostStep     = 0.01, 0.04 // of the pool, forward
	mostRaise               = 0.08       // of the pool, of a ceiling
	// A step back is backStep and, of what a goal was missed by, backPart; mostBack at most.
	backStep, backPart = 0.02, 0.3
	mostBack           = 0.2

	// mostOld is how long a missed value is taken for one of before the last step back, unless it rises; at most the
	// window of its metric.
	mostOld = 30 * time.Second

	// often is how soon after the last miss another one is too many: a miss lasts a scan of 2 s, and 0.5 % of the
	// time is one every seven minutes.
	often               = 20 * time.Minute
	leastHold, mostHold = time.Minute, 16 * time.Minute
	// settle is how long the use stays after a step back before it rises.
	settle = 20 * time.Second

	kept = 15 // values of each goal

	trialFor   = 20 * time.Second // a limit is tried
	clearedFor = time.Hour
	limited    = 50   // percent that a limited resource has
	helped     = 0.03 // slack that a limit must bring, beyond noise
)

// Decide returns the use at which batch work may run, and the new state. It modifies no argument.
func Decide(in Input, was State) (Outcome, State) {
	if len(in.Goals) == 0 {
		return Outcome{Use: in.Target, Worst: -1, Next: words.Because(words.GoalNone)}, State{}
	}
	s := was.copied()
	if s.meet(&in) { // the memory belongs to the earlier ones
		goals := s.Goals
		s = State{Goals: goals}
	}
	out := Outcome{Worst: -1, Goals: s.judge(&in)}
	begins := s.Use == 0
	if begins {
		s.Use, s.Held = in.Target, in.Target
		s.Low, s.LowFrom = 1, in.At
		s.Hour = in.Hour
		s.recall(&in)
	}
	lost := false
	for i := range out.Goals {
		g := &out.Goals[i]
		switch {
		case !g.usable():
			lost = true
		case out.Worst < 0 || g.Slack < out.Goals[out.Worst].Slack:
			out.Worst = i
		}
	}
	s.heedClock(&in)
	moved := s.enter(&in, &out)
	entered := s.Use
	switch {
	case begins && out.Worst >= 0: // batch work had more CPUs until now: its slack is no evidence
		out.Next = words.Because(words.GoalBegins, s.Use)
		if out.Goals[out.Worst].State == Missed { // nor is its miss
			s.Begun, s.Changed = in.At, in.At
		}
	case out.Worst < 0:
		out.Fell = true
		out.Next = s.fallBack(&in, &out)
	default:
		out.Next = s.step(&in, &out)
		if lost && s.Use > in.Target { // the goal that cannot be read may be missed
			s.Use, out.Fell = in.Target, true
			out.Next = words.Because(words.GoalFellBack, unreadable(out.Goals), s.Use)
		}
	}
	if !moved.None() && s.Use == entered {
		out.Next = moved
	}
	s.remember(&in, &out)
	out.Use, out.Limits = s.Use, s.Limits
	return out, s
}

func (v *Verdict) usable() bool { return v.State == Fine || v.State == Near || v.State == Missed }

// unreadable names the first goal that cannot be used.
func unreadable(all []Verdict) string {
	for i := range all {
		if !all[i].usable() {
			return string(all[i].Workload) + " " + all[i].Metric
		}
	}
	return ""
}

// fallBack sets the use without any usable goal.
func (s *State) fallBack(in *Input, out *Outcome) words.Reason {
	use := in.Target
	if s.Held > 0 {
		use = min(use, s.Held)
	}
	s.set(in, use)
	s.Well, s.Misses = 0, 0
	s.endTrial()
	return words.Because(words.GoalFellBack, unreadable(out.Goals), s.Use)
}

// copied returns a copy that shares no memory with s.
func (s State) copied() State {
	s.Goals = slices.Clone(s.Goals)
	s.Levels = slices.Clone(s.Levels)
	s.Hours = maps.Clone(s.Hours)
	s.Limits = maps.Clone(s.Limits)
	s.Cleared = maps.Clone(s.Cleared)
	return s
}

// heedClock moves what lies in the future, after the clock was set back, to now.
func (s *State) heedClock(in *Input) {
	all := []*time.Time{&s.Begun, &s.Changed, &s.Fell, &s.Missed, &s.Raised, &s.LowFrom, &s.Trial.Began}
	for k := range s.Levels {
		all = append(all, &s.Levels[k].Raised, &s.Levels[k].Last)
	}
	for _, t := range all {
		if t.After(in.At) {
			*t = in.At
		}
	}
}

// recall starts an hour with its learned use.
func (s *State) recall(in *Input) {
	known := float64(s.Hours[in.Hour]) / 100
	if known > 0 && known < s.Use {
		s.set(in, known)
	}
}

// remember keeps the use at which the goals held in this hour.
func (s *State) remember(in *Input, out *Outcome) {
	if in.Hour != s.Hour {
		s.Hour = in.Hour
		s.recall(in)
	}
	if out.Worst < 0 || out.Fell || out.Goals[out.Worst].State == Missed {
		return
	}
	if s.Hours == nil {
		s.Hours = map[int]int{}
	}
	now := int(math.Round(100 * min(s.Use, in.busy())))
	was, ok := s.Hours[in.Hour]
	switch {
	case !ok || now > was:
		s.Hours[in.Hour] = now
	case out.Goals[out.Worst].State == Near && now < was:
		s.Hours[in.Hour] = was - max(1, (was-now)/8)
	}
}

// Sorted returns readings in the order that Input.Goals has, each workload and metric once.
func Sorted(all []Reading) []Reading {
	order := func(a, b Reading) int {
		return cmp.Or(cmp.Compare(a.Workload, b.Workload), cmp.Compare(a.Metric, b.Metric))
	}
	all = slices.Clone(all)
	slices.SortStableFunc(all, order)
	return slices.CompactFunc(all, func(a, b Reading) bool { return order(a, b) == 0 })
}

// HourOfWeek returns the hour of the week of a time in UTC, 0 to 167, from Sunday 0:00.
func HourOfWeek(at time.Time) int {
	at = at.UTC()
	return int(at.Weekday())*24 + at.Hour()
}
