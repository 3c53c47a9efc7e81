package control

import (
	"maps"
	"strings"

	"github.com/homenode/homenode/core/plan"
	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/core/words"
	"github.com/homenode/homenode/core/workload"
)

// Next is what homenode remembers after something happened, and what is to be done. It
// owns the state it is given: the caller goes on with the one returned.
func Next(s *State, in Input) (*State, Output) {
	var out Output
	s.out, s.At = &out, in.At
	s.Attach(loop{s})
	ofTask := in.Result != nil || in.Progress != nil
	if !ofTask { // after thousands of results, only once
		s.Steps()
	}
	switch {
	case in.Started != nil:
		s.start(in.Started)
	case in.Begun != nil:
		s.Scans = in.Begun.Number
	case in.Scan != nil:
		s.scan(in.Scan)
	case in.Survey != nil:
		s.survey(in.Survey)
	case in.Request != nil:
		s.by = in.Request.By
		s.request(in.Request)
		s.by = nil
	case in.Result != nil:
		s.result(in.Result)
	case in.Progress != nil:
		s.Progressed(in.Progress)
	case in.Withdrawn != 0:
		s.withdraw(in.Withdrawn)
	case in.Stopped:
		s.stop()
	}
	s.out = nil
	return s, out
}

// start tells what an earlier daemon left half done and goes on with it.
func (s *State) start(in *Started) {
	s.event(plan.Event{Kind: plan.EventDaemon}, words.DaemonStarted, in.Version, s.Settings.Mode(), in.Period)
	if s.Holds.All && (s.Trial == nil || !s.Trial.Holds.All) {
		s.event(plan.Event{Kind: plan.EventDaemon}, words.AllHeld)
	}
	s.Interrupt()
	if s.Trial != nil && s.Trial.Ending == nil {
		s.event(plan.Event{Kind: plan.EventDaemon}, words.TrialGoesOn, s.Trial.Name)
	}
	s.GoOn()
}

// stop begins nothing more.
func (s *State) stop() {
	s.event(plan.Event{Kind: plan.EventDaemon}, words.DaemonStopped)
	s.Stop()
}

// note asks for something that has no result.
func (s *State) note(e Effect) { s.out.Effects = append(s.out.Effects, e) }

func (s *State) reply(r Reply) {
	if r.ID != 0 {
		s.out.Replies = append(s.out.Replies, r)
	}
}

func (s *State) save(key string, v any) {
	if s.out.Save.Values == nil {
		s.out.Save.Values = map[string]any{}
	}
	s.out.Save.Values[key] = v
}

func (s *State) saveHolds() { s.save(KeyHolds, Holds{All: s.Holds.All, IDs: cloned(s.Holds.IDs)}) }

// event writes one line of history.
func (s *State) event(e plan.Event, code words.Code, args ...any) {
	s.Events++
	e.Seq, e.Time, e.Code, e.By = s.Events, s.At, code, s.by
	e.Owner = s.ownerOf(&e)
	e.Text = strings.Join(strings.Fields(words.Because(code, args...).String()), " ") // joined errors have several lines
	s.out.Save.Events = append(s.out.Save.Events, e)
}

// ownerOf is who is responsible for what an event is about: of an order who gave it, else of
// the workload. The user of a service is one here, too: its orders must not push out root's.
func (s *State) ownerOf(e *plan.Event) workload.Owner {
	if e.Kind == plan.EventOrder && e.By != nil {
		return e.By.Responsible().Holder(e.By.UID)
	}
	if o := s.Observation(e.Workload); o != nil {
		return o.Responsible()
	}
	if c := s.Claims[e.Workload]; c != nil { // a scan is about to show it
		return c.Owner
	}
	return s.Left[e.Workload]
}

// left notes whose a workload was that is gone, as long as something of it is in the journal or
// under way: events about that are to count as its owner's.
func (s *State) left(o *workload.Observation) {
	if owner := o.Responsible(); owner != workload.SystemOwner {
		if s.Left == nil { // as in checkpoints of an older version
			s.Left = map[workload.ID]workload.Owner{}
		}
		s.Left[o.ID] = owner
	}
}

func (s *State) forgetLeft() {
	if len(s.Left) == 0 {
		return
	}
	remains := map[workload.ID]bool{}
	for _, e := range s.Journal.All() {
		remains[e.Workload] = true
	}
	for _, u := range s.Undoing {
		for _, entries := range u.Running {
			for i := range entries {
				remains[entries[i].Workload] = true
			}
		}
	}
	maps.DeleteFunc(s.Left, func(id workload.ID, _ workload.Owner) bool {
		return s.Observation(id) != nil || !remains[id] && s.Tasks[id] == nil
	})
}

// order writes down that somebody asked for something, with the name as first value.
func (s *State) order(id workload.ID, code words.Code, args ...any) {
	s.event(plan.Event{Kind: plan.EventOrder, Workload: id}, code, append([]any{s.by.String()}, args...)...)
}

// once writes an event that would repeat at every scan only when its text changes.
func (s *State) once(key string, e plan.Event, code words.Code, args ...any) {
	text := words.Because(code, args...).String()
	if s.Told[key] != text {
		s.Told[key] = text
		s.event(e, code, args...)
	}
}

// over says that what once told of is over.
func (s *State) over(key string) { delete(s.Told, key) }

// noteGiven remembers an affinity homenode gave.
func (s *State) noteGiven(id workload.ID, kind plan.SettingKind, value string) {
	if kind != plan.Affinity {
		return
	}
	if cpus, err := topology.ParseCPUSet(value); err == nil {
		s.Give(id, cpus)
	}
}
