package share

import (
	"cmp"
	"encoding/json"
	"math"
	"slices"
	"time"

	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/core/words"
	"github.com/homenode/homenode/core/workload"
)

// Who hurts whom, as CPI² finds it (Zhang and others, "CPI²: CPU performance isolation for
// shared compute clusters", EuroSys 2013, sections 4.1 and 4.2): a workload that takes more
// cycles an instruction than it usually does is hurt, and of what runs beside it that is
// blamed whose CPU time rises and falls with the harm. Where no cycles are counted the share
// of time that it waits for a CPU stands for the cycles.
//
// Other than there: what is usual is of this one workload on this host, the median and the
// median deviation of half an hour, and is not learned while it is hurt; a workload that uses
// as much CPU while the other is not hurt is never blamed, nor one whose CPU time has little to do
// with how much the other is hurt; a first cut is a minute long, and only if the other is hurt less then,
// it is as long as there; one whose cut did not help is cleared for a while.

// SampleEvery is the time between two samples.
const SampleEvery = 10 * time.Second

// Due reports whether a sample is due: whether another ten seconds of the clock have started since
// the last one. So all callers sample in the same scans.
func Due(at, last time.Time) bool { return !at.Truncate(SampleEvery).Equal(last.Truncate(SampleEvery)) }

const (
	mostVictims, mostSuspects = 16, 64 // those that use most CPU; what is kept of a host stays small

	learnt      = 180 // samples that say what is usual: half an hour
	leastLearnt = 30  // before anything is said
	beyond      = 2   // deviations above what is usual; CPI² has 2
	// leastCV is the least deviation, as a share of the mean: what a CPI differs by anyway.
	leastCV = 0.02
	// leastUse is the CPUs that must be busy for a CPI to say something (CPI² has 0.25).
	leastUse = 0.25
	// outliers of recent samples are hurt; CPI² has three of five, a minute apart.
	recent, outliers = 5, 3
	// relearn is after how many samples of harm that nobody is blamed for it is what is usual now.
	relearn = 180

	correlated  = 60 // samples that are compared: ten minutes, as CPI² has them
	leastPairs  = 12
	leastScore  = 0.35 // CPI² has 0.35
	contrast    = 1.25 // how much more CPU a suspect must use while the other is hurt
	leastFit    = 0.7  // Pearson's correlation of harm and CPU time: the score is high already where harm is great
	leastHarmed = 6    // samples of either kind for that to say something

	trialFor   = time.Minute     // is a first cut, by which the blame is proven or not
	cutFor     = 5 * time.Minute // as CPI² has it
	cutApart   = time.Minute     // between two that are cut for one workload: the first must be seen to act
	remembered = time.Hour       // who was blamed, or cleared
	// nobody is blamed again sooner whose cut did not help: something else may have hurt at that time
	clearedFor = 15 * time.Minute
	// cuts that did not help and are remembered: what hurts it is then nobody who was suspected
	mostInVain  = 4
	leastCutUse = 0.1 // CPUs; what uses less hurts nobody
)

// Watch is one workload in one scan, with its signals of interference.
type Watch struct {
	ID         workload.ID
	As         string // who it is: another one under the same ID begins anew
	Importance int
	Important  bool          // it must not be hurt
	Batch      bool          // it may be cut
	CPUTime    time.Duration // total
	workload.Executed
	Wait     float64         // share of time, 0 to 1, that it waited for a CPU
	WaitFrom workload.Source // "" when not known
	Held     bool            // a limit of its own held it back: what is seen of it says nothing
}

// Interference is the memory of interference: victims, suspects and blames.
type Interference struct {
	At       time.Time `json:"at,omitzero"`        // of the newest sample
	Victims  []Victim  `json:"victims,omitempty"`  // rising by ID
	Suspects []Suspect `json:"suspects,omitempty"` // rising by ID
	Blames   []Blame   `json:"blames,omitempty"`   // the newest last
}

// Victim is an important workload, with its baseline and samples.
type Victim struct {
	ID         workload.ID       `json:"id"`
	As         string            `json:"as"`
	Importance int               `json:"importance"`
	CPUTime    time.Duration     `json:"cpu_time"`
	Executed   workload.Executed `json:"executed,omitzero"`
	Signal     workload.Source   `json:"signal"`            // workload.CPI, PSI or Schedstat
	Usual      []float64         `json:"usual,omitempty"`   // samples of when nothing hurt it
	Samples    []float64         `json:"samples,omitempty"` // oldest first; -1 unknown
	Limit      float64           `json:"limit"`             // above it is hurt; 0 while too little is known
	Hurt       bool              `json:"hurt,omitempty"`
	HurtFor    int               `json:"hurt_for,omitempty"` // samples
}

// Suspect is a workload that may hurt a victim.
type Suspect struct {
	ID         workload.ID   `json:"id"`
	As         string        `json:"as"`
	Importance int           `json:"importance"`
	Batch      bool          `json:"batch,omitempty"`
	CPUTime    time.Duration `json:"cpu_time"`
	Use        []float64     `json:"use,omitempty"` // CPUs, by sample as those of a Victim; -1 unknown
}

// UnmarshalJSON also reads the format before version 0.2, which has offline for batch.
func (s *Suspect) UnmarshalJSON(text []byte) error {
	type plain Suspect
	x := struct {
		*plain
		Offline bool `json:"offline"`
	}{plain: (*plain)(s)}
	err := json.Unmarshal(text, &x)
	s.Batch = s.Batch || x.Offline
	return err
}

// Blame is a batch workload that hurts a victim. It is limited until Until, and remembered for a
// while.
type Blame struct {
	Offender workload.ID     `json:"offender"`
	Victim   workload.ID     `json:"victim"`
	Signal   workload.Source `json:"signal"`
	Score    float64         `json:"score"`   // correlation, leastScore to 1
	Samples  int             `json:"samples"` // that it is of
	Since    time.Time       `json:"since"`
	Until    time.Time       `json:"until"`
	Hurt     int             `json:"hurt,omitempty"`   // samples since in which the victim was hurt all the same
	Well     int             `json:"well,omitempty"`   // and in which not
	Proven   bool            `json:"proven,omitempty"` // it was hurt less while the offender was cut
	Cleared  bool            `json:"cleared,omitempty"`
}

// Active reports whether the offender is limited at a given time.
func (b *Blame) Active(at time.Time) bool { return !b.Cleared && at.Before(b.Until) }

// Look returns the memory after another scan, and modifies no argument. maxWait is the harmless
// share of waiting time, 0 to 1.
func (s Interference) Look(at time.Time, all []Watch, maxWait float64) Interference {
	if !Due(at, s.At) {
		return s
	}
	took := at.Sub(s.At)
	whole := !s.At.IsZero() && took > 0 && took < 3*SampleEvery // a longer gap is no sample
	now := Interference{At: at, Blames: slices.Clone(s.Blames)}
	for i := range all {
		w := &all[i]
		if w.Important {
			v := s.victim(w)
			v.sample(w, took, whole, maxWait)
			now.Victims = append(now.Victims, v)
		}
		now.Suspects = append(now.Suspects, s.suspect(w, took, whole))
	}
	now.bound()
	for i := range now.Victims {
		now.blame(&now.Victims[i])
	}
	// the clock may have been set back
	now.Blames = slices.DeleteFunc(now.Blames, func(b Blame) bool {
		return at.Sub(b.Until) >= remembered ||
			b.Until.Sub(at) > cutFor
	})
	return now
}

// victim is what was known of one.
func (s *Interference) victim(w *Watch) Victim {
	k, ok := slices.BinarySearchFunc(s.Victims, w.ID,
		func(v Victim, id workload.ID) int { return cmp.Compare(v.ID, id) })
	if ok && s.Victims[k].As == w.As {
		v := s.Victims[k]
		v.Importance = w.Importance
		return v
	}
	return Victim{ID: w.ID, As: w.As, Importance: w.Importance, CPUTime: -1}
}

// used is the CPUs that were busy between two totals; -1 when not known.
func used(before, now, took time.Duration, whole bool) float64 {
	if !whole || before < 0 || now < before {
		return -1
	}
	return round(float64(now-before) / float64(took))
}

// round leaves what a figure is worth: a state is written often.
func round(x float64) float64 { return math.Round(x*1e4) / 1e4 }

// push adds a sample and keeps so many.
func push(all []float64, x float64, most int) []float64 {
	return append(slices.Clone(all[max(0, len(all)-most+1):]), x)
}

func (v *Victim) sample(w *Watch, took time.Duration, whole bool, maxWait float64) {
	use := used(v.CPUTime, w.CPUTime, took, whole)
	cycles, instructions := w.Cycles-v.Executed.Cycles, w.Instructions-v.Executed.Instructions
	counted := v.Executed.Cycles > 0 && cycles > 0 && instructions > 0
	v.CPUTime, v.Executed = w.CPUTime, w.Executed
	signal, value := w.WaitFrom, -1.0
	if w.Cycles > 0 {
		signal = workload.CPI
	}
	switch {
	case !whole || w.Held:
	case signal == workload.CPI:
		if counted && use >= leastUse {
			value = round(cycles / instructions)
		}
	case signal != "":
		value = round(w.Wait)
	}
	if signal != v.Signal {
		*v = Victim{ID: v.ID, As: v.As, Importance: v.Importance, CPUTime: v.CPUTime, Executed: v.Executed,
			Signal: signal}
	}
	v.Samples = push(v.Samples, value, correlated)
	v.judge(maxWait)
	switch {
	case v.Hurt && v.HurtFor >= relearn: // it is so now
		v.Usual = nil
		v.Limit = 0
		v.Hurt = false
		v.HurtFor = 0
	case v.Hurt:
		v.HurtFor++
	case value >= 0:
		v.Usual, v.HurtFor = push(v.Usual, value, learnt), 0
	}
}

// judge says whether the newest samples are more than is usual.
func (v *Victim) judge(maxWait float64) {
	v.Limit, v.Hurt = 0, false
	if len(v.Usual) < leastLearnt {
		return
	}
	mean, deviation := v.usual()
	v.Limit = round(mean + beyond*deviation)
	if v.Signal != workload.CPI {
		v.Limit = max(v.Limit, maxWait)
	}
	n := 0
	for _, x := range v.Samples[max(0, len(v.Samples)-recent):] {
		if x > v.Limit {
			n++
		}
	}
	v.Hurt = n >= outliers
}

// usual is the mean and the deviation of what was learned, as robust as a median.
func (v *Victim) usual() (mean, deviation float64) {
	mean = median(v.Usual)
	off := make([]float64, len(v.Usual))
	for i, x := range v.Usual {
		off[i] = math.Abs(x - mean)
	}
	const normal = 1.4826 // median deviations in a standard deviation, of a normal distribution
	return mean, max(normal*median(off), leastCV*mean)
}

func median(all []float64) float64 {
	if len(all) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(all))
	k := len(sorted) / 2
	if len(sorted)%2 == 1 {
		return sorted[k]
	}
	return (sorted[k-1] + sorted[k]) / 2
}

// suspect returns what is known of one after another scan.
func (s *Interference) suspect(w *Watch, took time.Duration, whole bool) Suspect {
	k, ok := slices.BinarySearchFunc(s.Suspects, w.ID,
		func(x Suspect, id workload.ID) int { return cmp.Compare(x.ID, id) })
	out := Suspect{ID: w.ID, As: w.As, CPUTime: -1}
	if ok && s.Suspects[k].As == w.As {
		out = s.Suspects[k]
	}
	use := used(out.CPUTime, w.CPUTime, took, whole)
	out.Importance = w.Importance
	out.Batch = w.Batch
	out.CPUTime = w.CPUTime
	out.Use = push(out.Use, use, correlated)
	return out
}

// bound keeps those that use most.
func (s *Interference) bound() {
	if len(s.Victims) > mostVictims {
		slices.SortStableFunc(s.Victims,
			func(a, b Victim) int { return cmp.Or(-cmp.Compare(a.CPUTime, b.CPUTime), cmp.Compare(a.ID, b.ID)) })
		s.Victims = s.Victims[:mostVictims]
		slices.SortFunc(s.Victims, func(a, b Victim) int { return cmp.Compare(a.ID, b.ID) })
	}
	if len(s.Suspects) > mostSuspects {
		batch := map[bool]int{true: 1}
		slices.SortStableFunc(s.Suspects, func(a, b Suspect) int {
			return cmp.Or(-cmp.Compare(batch[a.Batch], batch[b.Batch]), -cmp.Compare(sum(a.Use), sum(b.Use)),
				cmp.Compare(a.ID, b.ID))
		})
		s.Suspects = s.Suspects[:mostSuspects]
		slices.SortFunc(s.Suspects, func(a, b Suspect) int { return cmp.Compare(a.ID, b.ID) })
	}
}

func sum(all []float64) (out float64) {
	for _, x := range all {
		out += max(0, x)
	}
	return out
}

// Score returns the correlation of a suspect with the harm of the victim, -1 to 1, and the number
// of samples (section 4.2 of the paper). Each sample is weighted by the suspect's share of CPU
// time; above the limit it counts against the suspect, below for it. rises reports whether the
// suspect used more CPU while the victim was hurt.
func (v *Victim) Score(x *Suspect) (score float64, samples int, rises bool) {
	n := min(len(v.Samples), len(x.Use))
	values, uses := v.Samples[len(v.Samples)-n:], x.Use[len(x.Use)-n:]
	var all, harmed, well float64
	worse, better := 0, 0
	for i, value := range values {
		use := uses[i]
		if value < 0 || use < 0 {
			continue
		}
		samples++
		all += use
		if value > v.Limit {
			score += use * (1 - v.Limit/value)
			harmed, worse = harmed+use, worse+1
		} else {
			score += use * (value/v.Limit - 1)
			well, better = well+use, better+1
		}
	}
	if all <= 0 || v.Limit <= 0 {
		return 0, samples, false
	}
	if worse >= leastHarmed && better >= leastHarmed {
		during := harmed / float64(worse)
		rises = during >= leastCutUse && during >= contrast*well/float64(better) && fit(values, uses) >= leastFit
	}
	return score / all, samples, rises
}

// fit is Pearson's correlation of what is known of both, -1 to 1.
func fit(a, b []float64) float64 {
	var n, sa, sb, aa, bb, ab float64
	for i, x := range a {
		if y := b[i]; x >= 0 && y >= 0 {
			n++
			sa += x
			sb += y
			aa += x * x
			bb += y * y
			ab += x * y
		}
	}
	if d := (n*aa - sa*sa) * (n*bb - sb*sb); d > 0 {
		return (n*ab - sa*sb) / math.Sqrt(d)
	}
	return 0
}

// Found is the suspect with the highest score for a victim.
type Found struct {
	Suspect
	Score   float64
	Samples int
}

// worst is the most suspicious of those that may be suspected, or nil.
func (s *Interference) worst(v *Victim, may func(*Suspect) bool) *Found {
	var out *Found
	for i := range s.Suspects {
		x := &s.Suspects[i]
		if x.ID == v.ID || !may(x) {
			continue
		}
		score, samples, rises := v.Score(x)
		if score > leastScore && samples >= leastPairs && rises && (out == nil || score > out.Score) {
			out = &Found{*x, score, samples}
		}
	}
	return out
}

// Offender returns the most likely cause of a victim's harm: batch work first, then less important
// work. It returns nil when the victim is not hurt, or no suspect explains the harm.
func (s *Interference) Offender(v *Victim) *Found {
	if !v.Hurt {
		return nil
	}
	if x := s.worst(v, func(x *Suspect) bool { return x.Batch }); x != nil {
		return x
	}
	return s.worst(v, func(x *Suspect) bool { return x.Importance < v.Importance })
}

// blame brings what is known of those that are cut for a victim up to date, and has the
// batch workload that hurts it most cut.
func (s *Interference) blame(v *Victim) {
	newest := v.Samples[len(v.Samples)-1]
	spared := map[workload.ID]bool{}
	newlyCut := false
	inVain := 0
	for i := range s.Blames {
		b := &s.Blames[i]
		if b.Victim != v.ID {
			continue
		}
		if active := s.At.Before(b.Until); active && newest >= 0 && s.At.Sub(b.Since) >= 2*SampleEvery {
			if newest > v.Limit {
				b.Hurt++
			} else {
				b.Well++
			}
		}
		if trial := !b.Proven && !b.Cleared && b.Hurt+b.Well > 0 &&
			s.At.Sub(b.Since) >= trialFor; trial && b.Well > b.Hurt {
			b.Proven, b.Until = true, b.Since.Add(cutFor)
		} else if trial || (!s.At.Before(b.Until) && b.Hurt > b.Well) {
			b.Cleared = true
		}
		if b.Cleared {
			inVain++
		}
		spared[b.Offender] = spared[b.Offender] || (b.Cleared && s.At.Sub(b.Until) < clearedFor) || s.At.Before(b.Until)
		newlyCut = newlyCut || s.At.Sub(b.Since).Abs() < cutApart
	}
	if !v.Hurt || newlyCut || inVain >= mostInVain {
		return
	}
	if x := s.worst(v, func(x *Suspect) bool { return x.Batch && !spared[x.ID] }); x != nil {
		s.Blames = append(s.Blames, Blame{Offender: x.ID, Victim: v.ID, Signal: v.Signal, Score: round(x.Score),
			Samples: x.Samples, Since: s.At, Until: s.At.Add(trialFor)})
	}
}

// Proven reports whether a workload hurt a victim recently and was not cleared since.
func (s *Interference) Proven(id workload.ID) bool {
	return slices.ContainsFunc(s.Blames, func(b Blame) bool { return b.Offender == id && b.Proven && !b.Cleared })
}

// Cut returns the newest active blame of a workload; nil without one.
func (s *Interference) Cut(id workload.ID, at time.Time) *Blame {
	for i := range slices.Backward(s.Blames) {
		if b := &s.Blames[i]; b.Offender == id && b.Active(at) {
			return b
		}
	}
	return nil
}

// Narrow limits each blamed workload to one core of each node.
func (s *Interference) Narrow(in *Input, out *Outcome) {
	var floors topology.CPUSet
	for i := range in.Nodes {
		floors = floors.Union(floorOf(&in.Nodes[i]))
	}
	for i := range out.Work {
		g := &out.Work[i]
		b := s.Cut(g.Workload, in.At)
		if b == nil || g.Frozen || !g.Asked.IsZero() {
			continue
		}
		if least := g.CPUs.Intersect(floors); !least.Empty() {
			g.CPUs = least
		}
		g.Cut = true
		g.For = b.Victim
		g.Since = b.Since
		g.Why = words.Because(words.ShareCut, b.Until.Sub(b.Since), string(b.Victim))
	}
}

// Harm is the state of one important workload and its most likely offender.
type Harm struct {
	Workload  workload.ID
	Signal    workload.Source // CPI, PSI or Schedstat; "" when nothing tells
	Value     float64         // of the newest sample: cycles an instruction, or share of time; -1 unknown
	Usual     float64         // what it was while nothing hurt it
	Deviation float64         // of that
	Limit     float64         // above it is hurt; 0 while too little is known
	Learned   int             // samples that Usual is of
	Hurt      bool            // three of the newest five samples are above
	By        workload.ID     // who most likely does; "" when nobody is found
	Score     float64         // correlation of By, 0 to 1
	Samples   int             // that Score is of
	Why       []words.Reason
}

// Harms returns the state of all important workloads, by rising ID.
func (s *Interference) Harms() []Harm {
	out := make([]Harm, 0, len(s.Victims))
	for i := range s.Victims {
		out = append(out, s.harm(&s.Victims[i]))
	}
	return out
}

func (s *Interference) harm(v *Victim) Harm {
	h := Harm{Workload: v.ID, Signal: v.Signal, Value: -1, Limit: v.Limit, Learned: len(v.Usual), Hurt: v.Hurt}
	if len(v.Samples) > 0 {
		h.Value = v.Samples[len(v.Samples)-1]
	}
	if v.Signal == "" {
		h.Why = words.Reasons(words.Because(words.ShareNoSignal))
		return h
	}
	h.Usual, h.Deviation = v.usual()
	cpi := v.Signal == workload.CPI
	switch {
	case h.Value < 0 && cpi:
		h.Why = append(h.Why, words.Because(words.ShareNoCPI, leastUse))
	case h.Value < 0:
		h.Why = append(h.Why, words.Because(words.ShareNoWait))
	case cpi:
		h.Why = append(h.Why, words.Because(words.ShareCPI, h.Value))
	default:
		h.Why = append(h.Why, words.Because(words.ShareWait, h.Value, string(v.Signal)))
	}
	if v.Limit == 0 {
		h.Why = append(h.Why, words.Because(words.ShareLearns, len(v.Usual), leastLearnt))
		return h
	}
	if cpi {
		h.Why = append(h.Why, words.Because(words.ShareUsualCPI, h.Usual, h.Deviation, len(v.Usual), v.Limit))
	} else {
		h.Why = append(h.Why, words.Because(words.ShareUsualWait, h.Usual, len(v.Usual), v.Limit))
	}
	if v.Hurt {
		h.Why = append(h.Why, words.Because(words.ShareHurt, outliers, recent))
		if x := s.Offender(v); x != nil {
			h.By = x.ID
			h.Score = x.Score
			h.Samples = x.Samples
			h.Why = append(h.Why, words.Because(words.ShareOffender, string(x.ID), x.Score, x.Samples, leastScore))
			if !x.Batch {
				h.Why = append(h.Why, words.Because(words.ShareNotBatch, string(x.ID)))
			}
		} else {
			h.Why = append(h.Why, words.Because(words.ShareNobody))
		}
	} else {
		h.Why = append(h.Why, words.Because(words.ShareUnhurt))
	}
	for i := range s.Blames {
		if b := &s.Blames[i]; b.Victim == v.ID {
			h.Why = append(h.Why, s.told(b, words.ShareWasCut, string(b.Offender)))
		}
	}
	return h
}

// told is what became of a blame.
func (s *Interference) told(b *Blame, cut words.Code, who string) words.Reason {
	switch {
	case b.Cleared:
		return words.Because(words.ShareCleared, string(b.Offender), string(b.Victim), clearedFor)
	case b.Active(s.At):
		return words.Because(words.ShareIsCut, string(b.Offender), b.Until.Sub(s.At))
	}
	return words.Because(cut, who, s.At.Sub(b.Until))
}

// Hurts returns the victims of a batch workload, in words.
func (s *Interference) Hurts(id workload.ID) []words.Reason {
	var out []words.Reason
	for i := range s.Blames {
		if b := &s.Blames[i]; b.Offender == id {
			out = append(out, words.Because(words.ShareHurts, string(b.Victim), b.Score, b.Samples),
				s.told(b, words.ShareHadCut, string(b.Victim)))
		}
	}
	return out
}
