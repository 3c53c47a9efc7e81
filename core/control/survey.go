package control

import (
	"reflect"
	"slices"
	"time"

	"github.com/homenode/homenode/core/control/journal"
	"github.com/homenode/homenode/core/control/scene"
	"github.com/homenode/homenode/core/plan"
	"github.com/homenode/homenode/core/words"
	"github.com/homenode/homenode/core/workload"
)

// every is the time between two surveys of a kind. Managers: each reads the name of
// every process, 10 µs apiece, so that 3,000 processes cost 0.1 % of a CPU. Links change
// when workloads start. Interrupts: 300 take some 5 ms, and what is set stays until a
// driver is loaded or a CPU comes or goes.
var every = map[SurveyKind]time.Duration{Managers: 30 * time.Second, Links: 30 * time.Second, Interrupts: 10 * time.Second, Isolation: 10 * time.Second}

// surveyDue asks for the surveys that are due.
func (s *State) surveyDue() {
	for _, kind := range s.Settings.Surveys {
		if !s.surveyWanted(kind) {
			continue
		}
		if at, ok := s.Surveyed[kind]; !ok || s.Began.Sub(at) >= every[kind] || at.After(s.Began) {
			s.Surveyed[kind] = s.Began
			s.note(Effect{Kind: EffectSurvey, Survey: kind})
		}
	}
}

// surveyAgain has the next scan ask for a survey, however lately there was one.
func (s *State) surveyAgain(kind SurveyKind) { delete(s.Surveyed, kind) }

// survey takes up what a survey found. The first of managers and of links is waited for
// before anything is changed: then what the scan led to is decided once more.
func (s *State) survey(in *Survey) {
	first := !s.Known[in.Kind]
	s.Known[in.Kind] = true
	key := "survey " + string(in.Kind)
	switch {
	case in.Failed != "":
		s.once(key, plan.Event{Kind: plan.EventHost, Error: true}, words.SurveyFailed, string(in.Kind), in.Failed)
	default:
		s.over(key)
		if in.Lacks == "" {
			s.over(key + " lacks")
		} else {
			s.once(key+" lacks", plan.Event{Kind: plan.EventHost, Error: true}, words.SurveyLacks, string(in.Kind), in.Lacks)
		}
		switch in.Kind {
		case Managers:
			s.tellManagers(s.Managers, in.Managers)
			s.SetManagers(in.Managers)
		case Links:
			s.Linked(in.Links, in.Read)
			s.Scene.Follow(s.basis(), s.Placements())
		default:
			s.surveyConcerns(in)
		}
	}
	if first && needed(in.Kind) && s.Seen > 0 {
		s.decide()
	}
}

// needed reports whether nothing is changed before the first survey of a kind: it decides what may be touched.
func needed(kind SurveyKind) bool { return kind == Managers || kind == Links }

// surveyed reports whether what decides who may be touched is known.
func (s *State) surveyed() bool {
	return !slices.ContainsFunc(s.Settings.Surveys, func(k SurveyKind) bool { return needed(k) && !s.Known[k] })
}

// tellManagers tells of managers that came or went.
func (s *State) tellManagers(before, now []Manager) {
	among := func(all []Manager, m Manager) bool {
		return slices.ContainsFunc(all, func(x Manager) bool { return reflect.DeepEqual(x, m) })
	}
	for _, m := range before {
		if !among(now, m) && !slices.ContainsFunc(now, func(x Manager) bool { return x.Name == m.Name }) {
			s.event(plan.Event{Kind: plan.EventHost}, words.ManagerGone, m.Name, m.Does)
		}
	}
	for _, m := range now {
		if !among(before, m) {
			if m.Owns == "" {
				s.event(plan.Event{Kind: plan.EventHost}, words.ManagerSeen, m.Name, m.Does)
			} else {
				s.event(plan.Event{Kind: plan.EventHost}, words.ManagerSeenOwns, m.Name, m.Does, m.Owns)
			}
		}
	}
}

// pruneEvery is how often the journal is rid of settings whose thing is gone. Nothing
// waits for it, undo finds out by itself; a host where 20 cgroups a second come and go then
// has some hundreds of dead entries at most.
const pruneEvery = 20 * time.Second

// heirs is two searches: for entries of objects that are gone, and for processes that inherited a setting.
type heirs struct {
	Pruning    *pruning
	Pruned     time.Time           // when that was last begun
	Inheriting uint64              // the effect that looks for who has inherited, 0 for none
	Asked      map[processKey]bool // processes seen, and whether it is known if they have inherited
}

// pruning is the search for entries of things that are gone.
type pruning struct {
	Effect uint64
	Asked  []plan.Entry
	Dead   []uint64 // affinities, which go when no one is left who has inherited from them
	Passes int
}

// inheritPasses bounds how often all processes are gone through for those that have
// inherited: one can be made, and its maker end, while a pass goes on.
const inheritPasses = 5

func (s *State) pruneSoon() { s.Pruned = time.Time{} }

// prune asks which journalled settings are of things that no longer exist, so that the
// journal does not grow with every workload that came and went.
func (s *State) prune() {
	if s.Pruning != nil || s.Began.Sub(s.Pruned) < pruneEvery && !s.Pruned.After(s.Began) {
		return
	}
	s.Pruned = s.Began
	var ask []plan.Entry
	for _, e := range s.Journal.All() {
		o := s.Observation(e.Workload)
		// Processes come and go while their workload stays, and what a source claims may
		// have been started anew.
		if o == nil || e.Kind == plan.Affinity || e.Kind == plan.TaskPolicy || s.Claims[e.Workload] != nil || !scene.SameCgroup(&e, o) {
			ask = append(ask, e)
		}
	}
	if ask = append(ask, s.Theirs.Entries()...); len(ask) > 0 {
		s.Pruning = &pruning{Asked: ask}
		s.Pruning.Effect = s.Effect(Effect{Kind: EffectPresent, Entries: ask})
	}
}

// prunedResult takes entries out whose things are gone.
func (s *State) prunedResult(r *Result) {
	p := s.Pruning
	switch {
	case r.Failed != nil:
		s.Pruning = nil
		return
	case p.Passes > 0:
		found := len(r.Inherited)
		ofDead := slices.ContainsFunc(r.Inherited, func(h plan.Inherited) bool { return slices.Contains(p.Dead, h.Of) })
		s.AdoptInherited(r.Inherited, nil)
		// What lives and starts others all the time keeps its entry.
		if found > 0 && (p.Passes < inheritPasses || ofDead) {
			if p.Passes >= inheritPasses {
				s.Pruning = nil
				return
			}
			break
		}
		for _, seq := range p.Dead {
			if e := s.Journal.At(seq); e != nil {
				s.Mark(e, plan.Gone)
			}
		}
		s.Pruning = nil
		return
	default:
		for i, e := range p.Asked {
			now := s.Journal.At(e.Seq)
			if e.Seq == 0 && i < len(r.Each) && r.Each[i] != nil && r.Each[i].Code == Gone {
				s.GiveBack(&e)
			}
			if i >= len(r.Each) || r.Each[i] == nil || r.Each[i].Code != Gone || now == nil || now.New != e.New {
				continue
			}
			if journal.Inherits(e.Kind) {
				p.Dead = append(p.Dead, e.Seq)
			} else {
				s.Mark(now, plan.Gone)
			}
		}
	}
	if len(p.Dead) == 0 {
		s.Pruning = nil
		return
	}
	p.Passes++
	p.Effect = s.Effect(Effect{Kind: EffectInherited, Entries: s.Journal.Affinities()})
}

// lookForInherited asks after processes that workloads have started since their affinity
// was set. One that is younger than a scan is left for the next: most live shorter, and
// those whose makers end meanwhile are found before an entry goes.
func (s *State) lookForInherited() {
	if s.Inheriting != 0 {
		return
	}
	if s.allAsked() {
		return
	}
	asked := make(map[processKey]bool, len(s.Asked))
	var among []workload.Process
	for i := range s.Snapshot.Observations {
		o := &s.Snapshot.Observations[i]
		if o.Kind != workload.InProcess {
			continue
		}
		for _, p := range o.Processes {
			known, seen := s.Asked[processKey(p)]
			asked[processKey(p)] = seen
			if seen && !known {
				among = append(among, p)
			}
		}
	}
	s.Asked = asked
	if len(among) == 0 {
		return
	}
	entries := s.Journal.Affinities()
	if len(entries) == 0 {
		return
	}
	s.Inheriting = s.Effect(Effect{Kind: EffectInherited, Entries: entries, Among: among})
}

// allAsked reports whether of all processes there are it is known if they have inherited.
func (s *State) allAsked() bool {
	n := 0
	for i := range s.Snapshot.Observations {
		o := &s.Snapshot.Observations[i]
		if o.Kind != workload.InProcess {
			continue
		}
		for _, p := range o.Processes {
			if !s.Asked[processKey(p)] {
				return false
			}
		}
		n += len(o.Processes)
	}
	return n == len(s.Asked)
}

func (s *State) inheritedResult(r *Result) {
	s.Inheriting = 0
	if r.Failed != nil {
		s.once("inherited", plan.Event{Kind: plan.EventStep, Error: true}, words.InheritedFailed, r.Failed.Text)
		for p := range s.Asked { // they are asked again
			s.Asked[p] = false
		}
		return
	}
	s.over("inherited")
	owner := map[workload.Process]workload.ID{}
	for i := range s.Snapshot.Observations {
		for _, p := range s.Snapshot.Observations[i].Processes {
			owner[p] = s.Snapshot.Observations[i].ID
		}
	}
	for _, h := range s.AdoptInherited(r.Inherited, func(p workload.Process) (workload.ID, bool) { id, ok := owner[p]; return id, ok }) {
		if p, err := plan.ParseProcessPath(h.Path); err == nil {
			s.Asked[processKey(p)] = false // it is asked again
		}
	}
}
