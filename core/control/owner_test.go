package control

import (
	"fmt"
	"testing"
	"time"

	"github.com/homenode/homenode/core/plan"
	"github.com/homenode/homenode/core/words"
	"github.com/homenode/homenode/core/workload"
)

// Events name who is responsible for the workload that they are about, also once it is gone:
// the history is kept by that. One user with many UIDs is one owner.
func TestEventsHaveOwners(t *testing.T) {
	f := newFake(t, 2, 4)
	eve := workload.UserOwner(1000)
	root := f.add("root", 1, 1<<20, 1)
	pod := f.add("pod", 1, 1<<20, 1)
	f.works[pod].obs.Owner = workload.PodOwner("web")
	process := f.addProcess(1000, "user", 1, 1<<20, 1)
	scope := f.add("scope", 1, 1<<20, 1)
	for i, id := range []workload.ID{process, scope} {
		f.works[id].obs.UID, f.works[id].obs.Owner = 100000+i, eve
	}
	f.scan(20)
	f.keeping(EffectRestore)
	f.undo(scope)
	f.remove(scope)
	f.remove(process)
	f.remove(pod)
	f.scan(2)
	f.release()
	f.scan(2)
	want := map[workload.ID]workload.Owner{root: workload.SystemOwner, pod: workload.PodOwner("web"), process: eve, scope: eve}
	steps, undone := map[workload.Owner]int{}, 0
	for _, e := range f.events {
		switch e.Kind {
		case plan.EventStep, plan.EventMove, plan.EventUndo:
			if e.Owner != want[e.Workload] {
				t.Errorf("%s of %s: %q: owner %q, want %q", e.Kind, e.Workload, e.Text, e.Owner, want[e.Workload])
			}
			steps[e.Owner]++
			if e.Kind == plan.EventUndo && e.Workload == scope {
				undone++
			}
		}
	}
	if len(steps) != 3 || undone == 0 {
		t.Errorf("events by owner: %v, of an undo of what is gone: %d", steps, undone)
	}
	for i := 0; i < 20 && len(f.s.Left) > 0; i++ {
		f.scan(5)
	}
	if len(f.s.Left) > 0 {
		t.Errorf("kept of what is gone: %v; journal %v", f.s.Left, f.s.Journal.All())
	}
}

// An order is of who gave it.
func TestOrdersHaveOwners(t *testing.T) {
	f := newFake(t, 2, 4)
	a := f.add("a", 1, 8<<20, 1)
	f.scan(1)
	for uid, want := range map[int]workload.Owner{0: workload.SystemOwner, 33: "user:33", 1000: workload.UserOwner(1000)} {
		f.events = nil
		f.ask(Request{Undo: &Which{ID: a}, By: &plan.Asker{UID: uid}})
		for _, e := range f.events {
			if e.Kind == plan.EventOrder && e.Owner != want {
				t.Errorf("UID %d: owner %q, want %q", uid, e.Owner, want)
			}
		}
		if len(f.events) == 0 {
			t.Error("no order is written down")
		}
	}
}

// A party that asks under one of many UIDs, or from a container, is that party: for orders and for the ceiling.
func TestAskersHaveOwners(t *testing.T) {
	f := newFake(t, 2, 8)
	a := f.add("a", 1, 8<<20, 1)
	f.scan(1)
	eve := workload.UserOwner(1000)
	f.ask(Request{Undo: &Which{ID: a}, By: &plan.Asker{UID: 100_000, Owner: eve}})
	for _, e := range f.events {
		if e.Kind == plan.EventOrder && e.Owner != eve {
			t.Errorf("%q: owner %q", e.Text, e.Owner)
		}
	}
	for i, want := range []bool{true, true, false} {
		r := f.ask(Request{By: &plan.Asker{UID: 100_000 + i, Owner: eve}, Place: &PlaceRequest{Spec: workload.Spec{ID: workload.ID(fmt.Sprint("vm", i)), Name: "vm", Class: workload.Dedicated, CPUs: 3}, Hold: time.Minute}})
		if got := r.Failed == nil; got != want {
			t.Errorf("request %d of a user with many UIDs: %+v", i, r.Failed)
		}
	}
}

// A pod counts as its namespace from the first event on, also while it is too small to be seen by itself.
func TestPodsHaveOneOwner(t *testing.T) {
	prod := workload.NamespaceOwner("prod")
	f := newFake(t, 2, 4)
	f.add("seen", 1, 1<<20, 1)
	f.set(plan.CgroupCPUs, "/seen", "2-3")
	seen, small := several("prod/seen", "/seen"), several("prod/small", "/kubepods.slice/kubepods-podaa_bb.slice/cri-containerd-cc.scope")
	seen.Owner, small.Owner = prod, prod
	seen.Began = []workload.Began{{Cgroup: "/seen", CPUs: "2-3"}}
	f.claimedScan(seen, small)
	for _, id := range []workload.ID{"prod/seen", "prod/small"} {
		if o := f.s.Observation(id); o == nil || o.Responsible() != prod {
			t.Errorf("%s: %+v", id, o)
		}
	}
	if f.told(words.BegunWith) != 1 {
		t.Fatal("no event of what it began with")
	}
	for _, e := range f.events {
		if e.Code == words.BegunWith && e.Owner != prod {
			t.Errorf("%q: owner %q", e.Text, e.Owner)
		}
	}
}
