package control

import (
	"github.com/homenode/homenode/core/control/history"
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
	s.Event(s.history(), e, code, args...)
}

// order writes that the user asked for something, with their name as the first value.
func (s *State) order(id workload.ID, code words.Code, args ...any) {
	s.Order(s.history(), id, code, args...)
}

// once writes an event that would repeat at every scan only when its text changes.
func (s *State) once(key string, e plan.Event, code words.Code, args ...any) {
	s.Once(s.history(), key, e, code, args...)
}

// history returns what lines of history are about.
func (s *State) history() *history.Host {
	return &history.Host{At: s.At, By: s.by, Scene: &s.Scene, Work: &s.Work, Save: &s.out.Save}
}

// showed returns what the newest scan showed.
func (s *State) showed() *history.Seen {
	return &history.Seen{Snapshot: &s.Snapshot, Plan: &s.Plan, Subjects: s.Subjects, Lives: s.Lives, Halted: s.Halted}
}

// noteGiven remembers an affinity homenode gave.
func (s *State) noteGiven(id workload.ID, kind plan.SettingKind, value string) {
	if kind != plan.Affinity {
		return
	}
	if cpus, err := topology.ParseCPUSet(value); err == nil {
		s.Give(id, cpus)
	}
}
