package goal

import (
	"cmp"
	"math"
	"slices"
	"time"

	"github.com/homenode/homenode/core/words"
	"github.com/homenode/homenode/core/workload"
)

// Resource is one thing that batch work shares with important work.
type Resource string

// Resources, in the order in which they are tried.
const (
	Cores     Resource = "cores"
	Siblings  Resource = "siblings"  // SMT siblings
	Cache     Resource = "cache"     // ways of the last-level caches
	Bandwidth Resource = "bandwidth" // of memory
	Memory    Resource = "memory"
	IO        Resource = "io"
)

// Resources lists all of them.
var Resources = []Resource{Cores, Siblings, Cache, Bandwidth, Memory, IO}

// Reading is a goal with the newest value of its metric.
type Reading struct {
	Workload workload.ID
	As       string // who it is: another workload under the same ID begins anew
	Metric   string
	Unit     string  // of Value and Most, for people
	Value    float64 // newest
	Most     float64 // limit, above 0
	Known    bool    // Value was read at least once
	At       time.Time
	Window   time.Duration // over which the metric is computed
	Failed   string        // why the newest attempt to read it failed; "" when it did not
	// Steady: a value that stays the same is no fault, as run-queue wait on an idle host.
	Steady bool
}

// Slack is the part of the limit that is left, below 0 when the goal is missed.
func (r *Reading) Slack() float64 { return slack(r.Most, r.Value) }

// slack is at most 1 and at least -mostMissed: a value without bounds is no more than missed by far.
func slack(most, value float64) float64 {
	return min(1, max(-mostMissed, 1-value/most))
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
	// Can has the resources, other than cores, that can be limited on this host now.
	Can []Resource
}

// State is the memory from one scan to the next.
type State struct {
	Use     float64       `json:"use"`
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
	Goals   []Past        `json:"goals,omitempty"`
	Hours   map[int]int   `json:"hours,omitempty"` // hour of the week → use at which the goals held, percent
	Hour    int           `json:"hour"`
	Trial   Trial         `json:"trial,omitzero"`
	// Limits is how far each resource is limited, percent of what batch work has without; not there: not limited.
	Limits  map[Resource]int       `json:"limits,omitempty"`
	Cleared map[Resource]time.Time `json:"cleared,omitempty"` // when a limit was found to bring nothing
}

// Past is what is remembered of one goal.
type Past struct {
	Workload workload.ID `json:"workload"`
	As       string      `json:"as"`
	Metric   string      `json:"metric"`
	Most     float64     `json:"most"`
	Values   []float64   `json:"values,omitempty"` // newest last
	At       time.Time   `json:"at,omitzero"`      // of the newest value
	Same     int         `json:"same,omitempty"`   // readings in a row with the same value
	From     time.Time   `json:"from,omitzero"`    // since when the value is the same
}

// Trial is a resource that is limited to find out whether it hurts.
type Trial struct {
	Resource Resource  `json:"resource,omitempty"`
	Began    time.Time `json:"began,omitzero"`
	Slack    float64   `json:"slack,omitempty"` // before
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

// Verdict is what is made of one goal.
type Verdict struct {
	Reading
	Slack float64
	State string // Fine, Near, Missed, Unread, Stale, Same or Waiting
	Why   words.Reason
}

// Outcome is the decision.
type Outcome struct {
	Use    float64 // that replaces the target
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
	backStep, backPart, mostBack = 0.02, 0.3, 0.2

	// often is how soon after the last miss another one is too many: a miss lasts a scan of 2 s, and 0.5 % of the
	// time is one every seven minutes.
	often               = 20 * time.Minute
	leastHold, mostHold = time.Minute, 16 * time.Minute
	// settle is how long the use rests after a step back before it rises.
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
	if s.meet(&in) { // another workload or limit: what was learned is of the one before
		goals := s.Goals
		s = State{Goals: goals}
	}
	out := Outcome{Worst: -1, Goals: s.judge(&in)}
	begins := s.Use == 0
	if begins {
		s.Use, s.Held, s.Low, s.LowFrom = in.Target, in.Target, 1, in.At
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
	switch {
	case begins && out.Worst >= 0: // batch work has had more until now: that says nothing of the target
		out.Next = words.Because(words.GoalBegins, s.Use)
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

// fallBack is the use without any usable goal.
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

// copied is a state that shares nothing with was.
func (s State) copied() State {
	s.Goals = slices.Clone(s.Goals)
	s.Hours = cloned(s.Hours)
	s.Limits = cloned(s.Limits)
	s.Cleared = cloned(s.Cleared)
	return s
}

func cloned[K comparable, V any](m map[K]V) map[K]V {
	if m == nil {
		return nil
	}
	out := make(map[K]V, len(m))
	for k, v := range m {
		out[k] = v
	}
	return out
}

// meet takes up the readings, and reports whether one of them belongs to another workload, metric or limit than before.
func (s *State) meet(in *Input) (another bool) {
	before := s.Goals
	s.Goals = make([]Past, 0, len(in.Goals))
	another = len(before) > 0 && len(before) != len(in.Goals)
	for i := range in.Goals {
		r := &in.Goals[i]
		fresh := Past{Workload: r.Workload, As: r.As, Metric: r.Metric, Most: r.Most}
		k := slices.IndexFunc(before, func(m Past) bool {
			return m.Workload == r.Workload && m.Metric == r.Metric && m.As == r.As && m.Most == r.Most
		})
		if k >= 0 {
			fresh = before[k]
		} else if len(before) > 0 {
			another = true
		}
		fresh.take(r)
		s.Goals = append(s.Goals, fresh)
	}
	return another
}

// take adds a reading, if it is a new one.
func (m *Past) take(r *Reading) {
	if odd := math.IsNaN(r.Value) || math.IsInf(r.Value, 0); !r.Known || odd || !r.At.After(m.At) {
		return
	}
	if n := len(m.Values); n > 0 && m.Values[n-1] == r.Value {
		m.Same++
	} else {
		m.Same, m.From = 0, r.At
	}
	m.At = r.At
	m.Values = append(slices.Clone(m.Values[max(0, len(m.Values)-kept+1):]), r.Value)
}

// judge says of each goal what its reading is worth.
func (s *State) judge(in *Input) []Verdict {
	out := make([]Verdict, len(in.Goals))
	for i := range in.Goals {
		m := &s.Goals[i]
		v := Verdict{Reading: in.Goals[i]}
		late := max(patience*v.Window, leastPatience)
		age := in.At.Sub(v.At)
		odd := math.IsNaN(v.Value) || math.IsInf(v.Value, 0) || !(v.Most > 0)
		switch {
		case odd:
			v.State, v.Why = Unread, words.Because(words.GoalUnread, "its value is no number")
		case !v.Known && v.Failed == "":
			v.State, v.Why = Waiting, words.Because(words.GoalWaits)
		case !v.Known:
			v.State, v.Why = Unread, words.Because(words.GoalUnread, v.Failed)
		case age > late && v.Failed != "":
			v.State, v.Why = Unread, words.Because(words.GoalUnread, v.Failed)
		case age > late || age < -late: // or the clock was set
			v.State, v.Why = Stale, words.Because(words.GoalStale, age)
		case !v.Steady && m.Same >= unchanged && v.At.Sub(m.From) >= unchangedFor:
			v.State, v.Why = Same, words.Because(words.GoalConstant, m.Same)
		default:
			v.Slack = v.Reading.Slack()
			switch {
			case v.Slack < 0:
				v.State = Missed
			case v.Slack < m.margin():
				v.State = Near
			default:
				v.State = Fine
			}
		}
		out[i] = v
	}
	return out
}

// margin is the slack that is kept: three times the usual step from one value to the next.
func (m *Past) margin() float64 {
	n := len(m.Values)
	if n < 4 {
		return leastMargin
	}
	steps := make([]float64, n-1)
	for i := range steps {
		steps[i] = math.Abs(slack(m.Most, m.Values[i+1]) - slack(m.Most, m.Values[i]))
	}
	slices.Sort(steps)
	return min(max(leastMargin, 3*steps[len(steps)/2]), mostMargin)
}

// peak is the largest of the newest values, as slack: what a step forward is judged by.
func (m *Past) peak(n int) float64 {
	v := m.Values[max(0, len(m.Values)-n):]
	return slack(m.Most, slices.Max(v))
}

// falling reports whether the newest value is below the one before by more than noise.
func (m *Past) falling() bool {
	n := len(m.Values)
	return n >= 2 && slack(m.Most, m.Values[n-1]) > slack(m.Most, m.Values[n-2])+m.margin()/3
}

// set changes the use.
func (s *State) set(in *Input, use float64) {
	use = math.Round(min(max(use, leastUse), most)*1e4) / 1e4
	if use == s.Use {
		return
	}
	if use < s.Use {
		s.Fell = in.At
	}
	s.Use, s.Changed, s.Well = use, in.At, 0
	s.Low, s.LowFrom = 1, in.At
}

// floor is the use at which batch work has its minimum.
func (s *State) floor(in *Input) float64 {
	if in.Pool <= 0 {
		return 0.01
	}
	return min(max(0.01, (in.Busy-in.Batch+in.Least)/in.Pool), most)
}

// busy is the use that is there now.
func (in *Input) busy() float64 {
	if in.Pool <= 0 {
		return 0
	}
	return in.Busy / in.Pool
}

// step moves the use by the slack of the worst goal.
func (s *State) step(in *Input, out *Outcome) words.Reason {
	v := &out.Goals[out.Worst]
	m := &s.Goals[out.Worst]
	s.Low = min(s.Low, v.Slack)
	if v.State == Missed {
		return s.back(in, v, m)
	}
	s.Misses = 0
	s.Held = min(s.Use, max(in.busy(), 0.01))
	if !s.Trial.Began.IsZero() {
		return s.tryOn(in, v)
	}
	if v.State == Near {
		s.Well = 0
		if in.At.Sub(s.Changed) >= leastHold { // cores alone bring no more
			if next := s.tryNext(in, v); !next.None() {
				return next
			}
		}
		return words.Because(words.GoalNear, v.Slack, m.margin())
	}
	s.Well++
	return s.forward(in, v, m)
}

// back lowers the use because a goal was missed.
func (s *State) back(in *Input, v *Verdict, m *Past) words.Reason {
	s.Well = 0
	s.endTrial()
	now := min(s.Use, max(in.busy(), s.floor(in)))
	if s.Misses > 0 && m.falling() {
		return words.Because(words.GoalFalls)
	}
	if s.Misses == 0 {
		if !s.Missed.IsZero() && in.At.Sub(s.Missed) < often {
			s.Hold = min(2*s.Hold, mostHold)
		}
		s.Hold, s.Missed = max(s.Hold, leastHold), in.At
	}
	s.Misses++
	batch := in.Batch / max(in.Pool, 1)
	var use float64
	switch s.Misses {
	case 1:
		use = now - min(backStep-v.Slack*backPart, mostBack)
		s.Ceiling = max(leastUse, use)
	case 2:
		use = now - max(backStep, batch/2)
		s.Ceiling = max(leastUse, s.Ceiling-backStep)
	default:
		use = s.floor(in)
	}
	before := s.Use
	s.set(in, min(use, s.Use))
	if s.Use >= before { // at the floor already
		return words.Because(words.GoalLeast, string(v.Workload))
	}
	return words.Because(words.GoalBack, before, s.Use)
}

// forward raises the use by a step.
func (s *State) forward(in *Input, v *Verdict, m *Past) words.Reason {
	rest := max(settle, v.Window) - in.At.Sub(s.Fell)
	size := min(max(leastStep, (m.peak(wellScans)-m.margin())/6), mostStep)
	from := max(s.Use, min(s.floor(in), in.busy())) // online work alone uses so much
	to := from + size
	switch known := float64(s.Hours[in.Hour]) / 100; {
	case s.Ceiling > 0 && s.Use < s.Ceiling-mostStep, // back to where it was before a spike
		s.Ceiling == 0 && s.Use < known: // it held at this hour before
		to = from + 3*size
	}
	to = max(to, s.Use)
	switch {
	case s.Use >= most:
		return words.Because(words.GoalFull, most)
	case !s.Fell.IsZero() && rest > 0:
		return words.Because(words.GoalRests, rest)
	case s.Well < wellScans:
		return words.Because(words.GoalSlack, v.Slack, s.Use, min(to, most))
	case in.At.Sub(s.Changed) < v.Window && !s.Changed.IsZero():
		return words.Because(words.GoalWindow, v.Window-in.At.Sub(s.Changed))
	case in.busy() < s.Use-0.1 || in.Batch < 0.5*(s.Use*in.Pool-(in.Busy-in.Batch)):
		return words.Because(words.GoalUnused, in.busy(), s.Use)
	case m.peak(5) < m.margin():
		return words.Because(words.GoalNear, m.peak(5), m.margin())
	}
	if s.Ceiling > 0 && to > s.Ceiling {
		if s.Use < s.Ceiling-leastStep/2 {
			to = s.Ceiling
		} else if refused := s.raise(in, m); !refused.None() {
			return refused
		} else {
			to = s.Ceiling
		}
	}
	before := s.Use
	s.set(in, to)
	return words.Because(words.GoalForward, before, s.Use)
}

// raise lifts the ceiling when the least slack of a whole hold, with all bursts in it, leaves more than the margin.
func (s *State) raise(in *Input, m *Past) words.Reason {
	if wait := s.Hold - in.At.Sub(s.LowFrom); wait > 0 {
		return words.Because(words.GoalCeiling, s.Ceiling, wait)
	}
	spare := s.Low - m.margin()
	if spare < 0 {
		s.Low, s.LowFrom = 1, in.At
		return words.Because(words.GoalCeiling, s.Ceiling, s.Hold)
	}
	if s.Raised.After(s.Fell) { // the last one held
		s.Hold = max(s.Hold/2, leastHold)
	}
	s.Ceiling = min(most, s.Ceiling+min(max(leastStep, spare/3), mostRaise))
	s.Raised = in.At
	return words.Reason{}
}

// heedClock moves what lies in the future, after the clock was set back, to now.
func (s *State) heedClock(in *Input) {
	for _, t := range []*time.Time{&s.Changed, &s.Fell, &s.Missed, &s.Raised, &s.LowFrom, &s.Trial.Began} {
		if t.After(in.At) {
			*t = in.At
		}
	}
}

// recall begins an hour with what was learned of it.
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

// tryNext limits one resource other than cores, to see whether it is what hurts.
func (s *State) tryNext(in *Input, v *Verdict) words.Reason {
	for _, r := range Resources {
		since, tried := s.Cleared[r]
		switch {
		case !slices.Contains(in.Can, r) || s.Limits[r] != 0:
			continue
		case tried && in.At.Sub(since).Abs() < clearedFor:
			continue
		}
		s.Trial = Trial{Resource: r, Began: in.At, Slack: v.Slack}
		if s.Limits == nil {
			s.Limits = map[Resource]int{}
		}
		s.Limits[r] = limited
		return words.Because(words.GoalTries, string(r), limited)
	}
	return words.Reason{}
}

// tryOn waits for what a limit brings, and judges it.
func (s *State) tryOn(in *Input, v *Verdict) words.Reason {
	t := s.Trial
	need := max(trialFor, 2*v.Window)
	if gone := in.At.Sub(t.Began); gone < need {
		return words.Because(words.GoalTrying, string(t.Resource), need-gone)
	}
	gained := v.Slack - t.Slack
	s.Trial = Trial{}
	if gained >= helped {
		s.Ceiling = 0 // with that limit it may lie higher
		return words.Because(words.GoalHurts, string(t.Resource), gained)
	}
	delete(s.Limits, t.Resource)
	s.clear(t.Resource, in.At)
	return words.Because(words.GoalHarmless, string(t.Resource), clearedFor)
}

func (s *State) clear(r Resource, at time.Time) {
	if s.Cleared == nil {
		s.Cleared = map[Resource]time.Time{}
	}
	s.Cleared[r] = at
}

// endTrial removes a limit that is being tried: what follows is no measure of it.
func (s *State) endTrial() {
	if s.Trial.Resource != "" {
		delete(s.Limits, s.Trial.Resource)
	}
	s.Trial = Trial{}
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

// HourOfWeek is the hour of the week of a time in UTC, 0 to 167, from Sunday 0:00.
func HourOfWeek(at time.Time) int {
	at = at.UTC()
	return int(at.Weekday())*24 + at.Hour()
}
