package control

import (
	"testing"
	"time"

	"github.com/homenode/homenode/core/plan"
	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/core/words"
	"github.com/homenode/homenode/core/workload"
)

// telling is a state that has something to tell, and where it tells it.
func telling() (*State, *Output) {
	s := New(Settings{}, Saved{})
	var out Output
	s.out, s.At = &out, time.Unix(1e9, 0)
	return s, &out
}

// What a move did to locality is told and written down once a later scan has seen it, when
// it is known and the record is of that move.
func TestLocalityIsTold(t *testing.T) {
	half := 0.5
	on := func(nodes ...topology.NodeID) *workload.Observation {
		o := &workload.Observation{ID: "/a", RanOn: []workload.NodeShare{{Node: 0, Share: 1}}}
		for _, n := range nodes {
			o.Memory = append(o.Memory, workload.NodeMemory{Node: n, KiB: 4})
		}
		return o
	}
	for name, tt := range map[string]struct {
		end   ended
		seen  *workload.Observation
		moves map[workload.ID]plan.Move
		code  words.Code
		left  int
	}{
		"seen since":         {ended{Scan: 4, Recorded: true}, on(0), map[workload.ID]plan.Move{"/a": {Workload: "/a", LocalityBefore: &half}}, words.LocalityChanged, 0},
		"not known before":   {ended{Scan: 4, Recorded: true}, on(0), map[workload.ID]plan.Move{"/a": {Workload: "/a"}}, words.LocalityAfterMove, 0},
		"not seen yet":       {ended{Scan: 5, Recorded: true}, on(0), map[workload.ID]plan.Move{"/a": {Workload: "/a"}}, "", 1},
		"not known now":      {ended{Scan: 4, Recorded: true}, on(), map[workload.ID]plan.Move{"/a": {Workload: "/a"}}, "", 0},
		"gone":               {ended{Scan: 4, Recorded: true}, nil, map[workload.ID]plan.Move{"/a": {Workload: "/a"}}, "", 0},
		"of an earlier move": {ended{Scan: 4}, on(0), map[workload.ID]plan.Move{"/a": {Workload: "/a"}}, "", 0},
		"no record":          {ended{Scan: 4, Recorded: true}, on(0), nil, "", 0},
	} {
		s, out := telling()
		s.Seen, s.Ended["/a"] = 5, tt.end
		if tt.moves != nil {
			s.Moves = tt.moves
		}
		if tt.seen != nil {
			s.Snapshot.Observations = []workload.Observation{*tt.seen}
		}
		s.ShowMoved()
		var code words.Code
		if len(out.Save.Events) == 1 {
			e := out.Save.Events[0]
			if code = e.Code; e.Move == nil || e.Workload != "/a" || e.Kind != plan.EventMove || *e.Move.LocalityAfter != 1 || *s.Moves["/a"].LocalityAfter != 1 || len(out.Save.Moves) != 1 {
				t.Errorf("%s: %+v", name, e)
			}
		}
		if code != tt.code || len(out.Save.Events) > 1 || len(s.Ended) != tt.left {
			t.Errorf("%s: %+v, %v", name, out.Save.Events, s.Ended)
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
				return &Failure{Code: Failed, Text: "no"}
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
