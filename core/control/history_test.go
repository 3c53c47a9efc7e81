package control

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/homenode/homenode/core/plan"
	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/core/words"
	"github.com/homenode/homenode/core/workload"
)

// TestHistoryIsNoNoise: what comes, is left alone and goes is not in the history, however
// much of it there is.
func TestHistoryIsNoNoise(t *testing.T) {
	for nodes := 1; nodes <= 2; nodes++ {
		f := newFake(t, nodes, 4, observing)
		f.addProcess(40, "small", 0.01, 1<<10, 0)
		for pid := 50; pid < 80; pid++ {
			id := f.addProcess(pid, "make", 0.1, 1<<10, 0)
			f.scan(2)
			f.remove(id)
		}
		f.scan(1)
		if len(f.events) != nodes || f.told(words.DaemonStarted) != 1 || nodes > 1 && f.events[1].Workload != "" { // once, that nodes are in balance
			t.Errorf("%d nodes: %d events: %+v", nodes, len(f.events), f.events)
		}
	}
}

// TestHistorySaysWhoAsked: every order is in the history once, with who gave it.
func TestHistorySaysWhoAsked(t *testing.T) {
	f := newFake(t, 2, 8)
	a, b := f.add("a", 3, 1<<20, 0), f.add("b", 3, 1<<20, 1)
	f.scan(6)
	alice := &plan.Asker{UID: 0, User: "root", Login: "alice"}
	partition := plan.Partition("any")
	var want []string
	for _, ask := range []struct {
		request Request
		told    string
	}{
		{Request{Undo: &Which{ID: a}}, "/a alice as root asked to undo /a, which is left alone until `homenode resume`"},
		{Request{Undo: &Which{ID: "nobody"}}, ""},
		{Request{Resume: &Which{ID: b}}, ""},
		{Request{Resume: &Which{ID: a}}, "/a alice as root asked to resume /a"},
		{Request{Undo: &Which{All: true}}, " alice as root asked to undo everything, which is left alone until `homenode resume`"},
		{Request{Resume: &Which{All: true}}, " alice as root asked to resume everything"},
		{Request{Partition: &partition}, " alice as root set the partition: any → any (no CPU for dedicated work)"},
		{Request{Change: &Change{Steps: []plan.Step{{Kind: plan.SetCPUs, Workload: a, Target: plan.Target{Kind: workload.InCgroup, Cgroup: "/a"}, To: "0-3"}}}}, "/a alice as root asked for 1 change"},
	} {
		ask.request.By = alice
		f.ask(ask.request)
		if ask.told != "" {
			want = append(want, ask.told)
		}
		f.scan(1)
	}
	f.scan(8)
	to := topology.NodeID(1)
	if f.home(a) == "1" {
		to = 0
	}
	if r := f.ask(Request{Move: &MoveRequest{ID: a, To: topology.Nodes(to)}, By: &plan.Asker{UID: 1000}}); r.Failed != nil {
		t.Fatal(r.Failed)
	}
	var got []string
	for _, e := range f.events {
		switch {
		case e.Kind == plan.EventOrder && e.By == nil, e.By != nil && !strings.Contains(e.Text, e.By.String()) && e.Kind == plan.EventOrder:
			t.Errorf("%+v", e)
		case e.Code == words.MovedByOrder:
			if e.By.UID != 1000 || !strings.HasPrefix(e.Text, "user 1000 ordered a move: ") {
				t.Errorf("%+v", e)
			}
		case e.Kind == plan.EventOrder:
			got = append(got, string(e.Workload)+" "+e.Text)
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if f.told(words.MovedByOrder) != 1 {
		t.Error("the move is not told")
	}
	orders := func() (n int) {
		for _, e := range f.events {
			if e.Kind == plan.EventOrder {
				n++
			}
		}
		return n
	}
	before := orders()
	f.undo(b) // homenode itself, of what came late
	if orders() != before {
		t.Error("what nobody asked for is told as an order")
	}
}
