package control

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/homenode/homenode/core/balance"
	"github.com/homenode/homenode/core/control/scene"
	"github.com/homenode/homenode/core/place"
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

// A decision is told when it is another one than before: that a home is kept is none, nor is
// a home of which `homenode run` was told when it asked.
func TestDecisionsAreTold(t *testing.T) {
	at := func(id workload.ID, o plan.Outcome, nodes ...topology.NodeID) plan.Decision {
		return plan.Decision{Workload: id, Outcome: o, Home: topology.Nodes(nodes...), Reasons: []words.Reason{words.Because(words.NotIncluded)}}
	}
	none := plan.Decision{}
	for name, tt := range map[string]struct {
		was, now plan.Decision
		admitted bool
		code     words.Code
		failed   bool
		asked    bool
	}{
		"placed":                    {none, at("/b", plan.Placed, 0), false, words.Decided, false, false},
		"kept when first seen":      {none, at("/b", plan.Kept, 0), false, words.Decided, false, false},
		"kept as it was asked for":  {none, at("/b", plan.Kept, 0), true, "", false, false},
		"placed by this scan":       {none, at("/b", plan.Placed, 0), true, words.Decided, false, false},
		"kept after it was placed":  {at("/b", plan.Placed, 0), at("/b", plan.Kept, 0), false, "", false, false},
		"another home":              {at("/b", plan.Kept, 0), at("/b", plan.Kept, 1), true, words.Decided, false, false},
		"left alone":                {at("/b", plan.Kept), at("/b", plan.LeftAlone), false, words.DecidedNoHome, false, false},
		"left alone from the first": {none, at("/b", plan.LeftAlone), false, "", false, false},
		"refused":                   {at("/b", plan.Kept, 0), at("/b", plan.Refused), false, words.DecidedNoHome, true, false},
		"refused, as asked for":     {none, at("/b", plan.Refused), false, words.DecidedNoHome, true, true},
		"refused, asked by nobody":  {none, at("/b", plan.Refused), false, "", false, false},
		"gone":                      {at("/b", plan.Kept, 0), none, false, "", false, false},
	} {
		s, out := telling()
		s.Snapshot.Host = &topology.Host{}
		if tt.admitted {
			s.Admissions["/b"] = Admission{}
		}
		s.Subjects = []*place.Subject{{Spec: workload.Spec{Given: tt.asked}, Observation: workload.Observation{ID: "/b"}}}
		among := func(d plan.Decision) []plan.Decision {
			all := []plan.Decision{at("/a", plan.Kept, 0), d, at("/c", plan.Kept, 1)}
			if d.Workload == "" {
				all = append(all[:1], all[2])
			}
			return all
		}
		before := *s
		before.Snapshot.Host = s.Snapshot.Host
		before.Plan.Report.Decisions, s.Plan.Report.Decisions = among(tt.was), among(tt.now)
		s.tellScan(&before)
		var want []plan.Event
		if tt.code != "" {
			want = []plan.Event{{Seq: 1, Time: s.At, Kind: plan.EventPlan, Workload: "/b", Error: tt.failed, Code: tt.code}}
			args := []any{string(tt.now.Outcome), tt.now.Home, tt.now.Reasons[0]}
			if tt.code == words.DecidedNoHome {
				args = []any{args[0], args[2]}
			}
			want[0].Text = words.Because(tt.code, args...).String()
		}
		if diff := cmp.Diff(want, out.Save.Events); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

// What is odd about the host is told once, when it is seen first; so is a node that has
// become nearly full.
func TestWhatTheHostIsIsTold(t *testing.T) {
	node := func(memory, free topology.KiB) topology.Node { return topology.Node{ID: 1, Memory: memory, Free: free} }
	for _, tt := range []struct {
		before, now topology.Node
		told        int
	}{
		{node(100, 50), node(100, 1), 1}, {node(100, 1), node(100, 0), 0}, {node(100, 50), node(100, 2), 0}, {topology.Node{}, node(100, 1), 1},
		{node(100, 50), node(100, topology.None), 0}, {node(0, 0), node(0, 0), 0}, {topology.Node{}, node(topology.None, 0), 0},
	} {
		s, out := telling()
		s.tellHost(&topology.Host{Nodes: []topology.Node{tt.before}}, &topology.Host{Nodes: []topology.Node{tt.now}, Notes: []topology.Note{{Subject: "cpus", Text: "odd"}}})
		if n := len(out.Save.Events); n != tt.told || n == 1 && (out.Save.Events[0].Code != words.NodeNearlyFull || !out.Save.Events[0].Error) {
			t.Errorf("%d KiB free, then %d: %+v", tt.before.Free, tt.now.Free, out.Save.Events)
		}
	}
	s, out := telling()
	s.tellHost(nil, &topology.Host{Nodes: []topology.Node{node(100, 1)}, Notes: []topology.Note{{Subject: "cpus", Text: "odd"}}})
	if all := out.Save.Events; len(all) != 1 || all[0].Code != words.ProblemSeen || all[0].Error {
		t.Errorf("at first: %+v", all)
	}
}

// Who was given a home or refused one, and is gone, is told, also when a process has the PID
// of another; nobody else is, nor who comes.
func TestGoingIsTold(t *testing.T) {
	seen := func(id workload.ID, start uint64, kib topology.KiB) workload.Observation {
		o := workload.Observation{ID: id, Name: "n", Threads: 2, Kind: workload.InCgroup, Memory: []workload.NodeMemory{{Node: 0, KiB: kib}}}
		if start > 0 {
			o.Kind, o.Processes = workload.InProcess, []workload.Process{{PID: 7, Start: start}}
		}
		return o
	}
	s, out := telling()
	s.Snapshot.Shrunk = []workload.ID{"/c"}
	s.Snapshot.Observations = []workload.Observation{seen("/b", 0, 8), seen("/d", 0, 0), seen("/e", 0, 4), seen("pid:7", 2, 4)}
	before := &State{Scene: scene.Scene{Snapshot: workload.Snapshot{Observations: []workload.Observation{
		seen("/a", 0, 4), seen("/b", 0, 4), seen("/c", 0, 4), seen("pid:7", 1, 4), seen("pid:8", 1, 4), seen("pid:9", 1, 4)}}}}
	s.Starts, before.Starts = scene.StartsOf(s.Snapshot.Observations), scene.StartsOf(before.Snapshot.Observations)
	before.Plan.Report.Decisions = []plan.Decision{{Workload: "/a", Outcome: plan.Placed}, {Workload: "/b", Outcome: plan.Kept}, {Workload: "/c", Outcome: plan.Refused},
		{Workload: "pid:7", Outcome: plan.Kept}, {Workload: "pid:8", Outcome: plan.LeftAlone}, {Workload: "pid:9", Outcome: plan.LeftAlone}}
	before.Plan.Placements = []plan.Placement{{Workload: "pid:9"}} // had a home
	s.tellWorkloads(before)
	var got []string
	for _, e := range out.Save.Events {
		got = append(got, fmt.Sprint(e.Workload, " ", e.Code))
		if e.Kind != plan.EventWorkload || e.Error {
			t.Errorf("%+v", e)
		}
	}
	want := []string{"/a workload-gone", "/c workload-small", "pid:7 workload-gone", "pid:9 workload-gone"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Fatalf("(-want +got):\n%s", diff)
	}
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
