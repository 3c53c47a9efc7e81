package history

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/homenode/homenode/core/balance"
	"github.com/homenode/homenode/core/control/scene"
	"github.com/homenode/homenode/core/control/work"
	"github.com/homenode/homenode/core/place"
	"github.com/homenode/homenode/core/plan"
	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/core/words"
	"github.com/homenode/homenode/core/workload"
)

func telling() (*Lines, *Host) {
	l := New(0)
	w := work.New(0, nil, nil, nil, nil)
	return &l, &Host{At: time.Unix(1e9, 0), Scene: &scene.Scene{}, Work: &w, Save: &plan.Batch{}}
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
		l, h := telling()
		admitted := map[workload.ID]scene.Admission{}
		if tt.admitted {
			admitted["/b"] = scene.Admission{}
		}
		subjects := []*place.Subject{{Spec: workload.Spec{Given: tt.asked}, Observation: workload.Observation{ID: "/b"}}}
		among := func(d plan.Decision) []plan.Decision {
			all := []plan.Decision{at("/a", plan.Kept, 0), d, at("/c", plan.Kept, 1)}
			if d.Workload == "" {
				all = append(all[:1], all[2])
			}
			return all
		}
		seen := func(d plan.Decision) *Seen {
			snapshot := &workload.Snapshot{Host: &topology.Host{}}
			return &Seen{Snapshot: snapshot, Plan: &plan.Plan{Report: plan.Report{Decisions: among(d)}}, Subjects: subjects}
		}
		l.Scan(h, seen(tt.was), seen(tt.now), admitted)
		var want []plan.Event
		if tt.code != "" {
			want = []plan.Event{{Seq: 1, Time: h.At, Kind: plan.EventPlan, Workload: "/b", Error: tt.failed, Code: tt.code}}
			args := []any{string(tt.now.Outcome), tt.now.Home, tt.now.Reasons[0]}
			if tt.code == words.DecidedNoHome {
				args = []any{args[0], args[2]}
			}
			want[0].Text = words.Because(tt.code, args...).String()
		}
		if diff := cmp.Diff(want, h.Save.Events); diff != "" {
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
		l, h := telling()
		l.hostChanged(h, &topology.Host{Nodes: []topology.Node{tt.before}}, &topology.Host{Nodes: []topology.Node{tt.now}, Notes: []topology.Note{{Subject: "cpus", Text: "odd"}}})
		if n := len(h.Save.Events); n != tt.told || n == 1 && (h.Save.Events[0].Code != words.NodeNearlyFull || !h.Save.Events[0].Error) {
			t.Errorf("%d KiB free, then %d: %+v", tt.before.Free, tt.now.Free, h.Save.Events)
		}
	}
	l, h := telling()
	l.hostChanged(h, nil, &topology.Host{Nodes: []topology.Node{node(100, 1)}, Notes: []topology.Note{{Subject: "cpus", Text: "odd"}}})
	if all := h.Save.Events; len(all) != 1 || all[0].Code != words.ProblemSeen || all[0].Error {
		t.Errorf("at first: %+v", all)
	}
}

// Demand that swings about what a node has is told of once in a while, not at each swing.
func TestSwingIsToldOnceInAWhile(t *testing.T) {
	l, h := telling()
	var r balance.Report
	for i := range 60 { // of 10 s
		r.State = []balance.State{balance.InOrder, balance.NoChoice}[i%2]
		h.At = h.At.Add(10 * time.Second)
		l.Balance(h, &r)
	}
	if n := len(h.Save.Events); n != 1 {
		t.Errorf("%d events within ten minutes", n)
	}
	h.At = h.At.Add(Swing)
	r.State = balance.InOrder
	l.Balance(h, &r)
	if n := len(h.Save.Events); n != 2 {
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
		l, h := telling()
		var r balance.Report
		for _, state := range c.states {
			r = balance.Report{State: state}
			if state == would || state == moves {
				r.Triggers = []balance.Trigger{{Workload: "/a"}}
				r.Chosen = &balance.Candidate{Changes: []balance.Change{{Workload: "/a", To: topology.Nodes(1)}}}
			}
			h.At = h.At.Add(10 * time.Second)
			l.Balance(h, &r)
		}
		if n := len(h.Save.Events); n != c.told {
			t.Errorf("%q: %d events, want %d: %+v", c.states, n, c.told, h.Save.Events)
		}
		for _, e := range h.Save.Events {
			if of := e.Code == words.WouldDo || e.Code == words.Doing; of != (e.Workload == "/a") || e.Kind != plan.EventPlan {
				t.Errorf("%q: %+v", c.states, e)
			}
		}
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
	l, h := telling()
	before, now := &workload.Snapshot{}, &workload.Snapshot{Shrunk: []workload.ID{"/c"}}
	before.Observations = []workload.Observation{
		seen("/a", 0, 4), seen("/b", 0, 4), seen("/c", 0, 4), seen("pid:7", 1, 4), seen("pid:8", 1, 4), seen("pid:9", 1, 4),
	}
	now.Observations = []workload.Observation{seen("/b", 0, 8), seen("/d", 0, 0), seen("/e", 0, 4), seen("pid:7", 2, 4)}
	decided := []plan.Decision{
		{Workload: "/a", Outcome: plan.Placed}, {Workload: "/b", Outcome: plan.Kept}, {Workload: "/c", Outcome: plan.Refused},
		{Workload: "pid:7", Outcome: plan.Kept}, {Workload: "pid:8", Outcome: plan.LeftAlone}, {Workload: "pid:9", Outcome: plan.LeftAlone},
	}
	had := []plan.Placement{{Workload: "pid:9"}}
	was := &Seen{Snapshot: before, Lives: scene.LivesOf(before.Observations, nil), Plan: &plan.Plan{Placements: had, Report: plan.Report{Decisions: decided}}}
	l.workloads(h, was, &Seen{Snapshot: now, Lives: scene.LivesOf(now.Observations, nil), Plan: &plan.Plan{}})
	var got []string
	for _, e := range h.Save.Events {
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
