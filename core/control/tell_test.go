package control

import (
	"testing"
	"time"

	"github.com/homenode/homenode/core/balance"
	"github.com/homenode/homenode/core/plan"
	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/core/words"
)

// Demand that swings about what a node has is told of once in a while, not at each swing.
func TestSwingIsToldOnceInAWhile(t *testing.T) {
	s := New(Settings{}, Saved{})
	var out Output
	s.out, s.At = &out, time.Unix(1e9, 0)
	for i := range 60 { // of 10 s
		s.Balancing.State = []balance.State{balance.InOrder, balance.NoChoice}[i%2]
		s.At = s.At.Add(10 * time.Second)
		s.tellBalance()
	}
	if n := len(out.Save.Events); n != 1 {
		t.Errorf("%d events within ten minutes", n)
	}
	s.At = s.At.Add(swing)
	s.Balancing.State = balance.InOrder
	s.tellBalance()
	if n := len(out.Save.Events); n != 2 {
		t.Errorf("%d events ten minutes later", n)
	}
}

// What balancing does is told when it becomes something else; that it begins in order, or
// has nothing to do, is no news.
func TestBalancingIsTold(t *testing.T) {
	const (
		learning = balance.Learning
		inOrder  = balance.InOrder
		noChoice = balance.NoChoice
		would    = balance.Would
		moves    = balance.Moves
		off      = balance.Off
	)
	for _, c := range []struct {
		states []balance.State
		told   int
	}{
		{[]balance.State{learning}, 0},
		{[]balance.State{inOrder}, 0},
		{[]balance.State{noChoice}, 0},
		{[]balance.State{would}, 1},
		{[]balance.State{moves, moves}, 1},
		{[]balance.State{learning, inOrder}, 1},
		{[]balance.State{inOrder, learning}, 0},
		{[]balance.State{inOrder, moves}, 1},
		{[]balance.State{moves, inOrder}, 2},
		{[]balance.State{moves, noChoice}, 1},
		{[]balance.State{moves, noChoice, inOrder}, 2},
		{[]balance.State{moves, noChoice, inOrder, noChoice}, 2},
		{[]balance.State{inOrder, noChoice, noChoice}, 1},
		{[]balance.State{inOrder, off}, 1},
	} {
		s := New(Settings{}, Saved{})
		var out Output
		s.out, s.At = &out, time.Unix(1e9, 0)
		for _, state := range c.states {
			s.Balancing = balance.Report{State: state}
			if state == would || state == moves {
				s.Balancing.Triggers = []balance.Trigger{{Workload: "/a"}}
				s.Balancing.Chosen = &balance.Candidate{Changes: []balance.Change{{Workload: "/a", To: topology.Nodes(1)}}}
			}
			s.At = s.At.Add(10 * time.Second)
			s.tellBalance()
		}
		if n := len(out.Save.Events); n != c.told {
			t.Errorf("%q: %d events, want %d: %+v", c.states, n, c.told, out.Save.Events)
		}
		for _, e := range out.Save.Events {
			if of := e.Code == words.WouldDo || e.Code == words.Doing; of != (e.Workload == "/a") || e.Kind != plan.EventPlan {
				t.Errorf("%q: %+v", c.states, e)
			}
		}
	}
}

// A step that took is told as done, one that did not as an error.
func TestStepsAreTold(t *testing.T) {
	for _, fails := range []bool{false, true} {
		f := newFake(t, 2, 8)
		id := f.add("a", 3, 1<<20, 0)
		f.fail = func(e *Effect) *Failure {
			if fails && e.Kind == EffectApply {
				return &Failure{Failed, "no"}
			}
			return nil
		}
		f.scan(4)
		took, errs := f.toldOf(id, words.StepTook), 0
		for _, e := range f.events {
			if e.Workload == id && e.Error {
				errs++
			}
		}
		if took != map[bool]int{false: 1}[fails] || errs != map[bool]int{true: 1}[fails] {
			t.Errorf("failing %v: told of %d steps and %d errors: %+v", fails, took, errs, f.events)
		}
	}
}
