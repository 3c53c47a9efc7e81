package control

import (
	"testing"

	"github.com/homenode/homenode/core/plan"
	"github.com/homenode/homenode/core/words"
	"github.com/homenode/homenode/core/workload"
)

// An affinity that homenode is writing anew is nobody else's, whichever part of it is seen: by a
// look that begins meanwhile, by one that began before, and after a crash.
func TestSeenWhileItIsWritten(t *testing.T) {
	for _, name := range []string{"a look that begins meanwhile", "a look that began before", "a crash, nothing written", "a crash, something written"} {
		t.Run(name, func(t *testing.T) {
			f := newFake(t, 2, 8)
			id := f.addProcess(77, "walker", 2, 1<<20, 0)
			path := plan.ProcessPath(f.works[id].obs.Processes[0])
			f.scan(4)
			was, home := f.get(plan.Affinity, path), f.home(id)
			if f.placement(id).CPUs.String() != was {
				t.Fatalf("home %s, affinity %s", home, was)
			}
			f.keep = func(e *Effect) bool { return e.Kind == EffectApply && e.Workload == id }
			before := f.begin()
			f.addProcess(78, "dedicated", 2, 1<<20)
			if r := f.ask(Request{Place: &PlaceRequest{Spec: workload.Spec{Name: "db", Class: workload.Dedicated, CPUs: 2, Nodes: f.placement(id).Home}, Process: workload.Process{PID: 78, Start: 7}}}); r.Failed != nil {
				t.Fatal(r.Failed)
			}
			f.end(before)
			for range 3 {
				if len(f.kept) == 0 {
					before = f.begin()
					f.scan(1)
				}
			}
			if len(f.kept) != 1 || f.kept[0].Step.Kind != plan.SetCPUs {
				t.Fatalf("%d are being written", len(f.kept))
			}
			will := f.kept[0].Step.To
			sees := func() {
				t.Helper()
				if f.leftAlone(id, words.OwnAffinity) || f.home(id) != home {
					t.Errorf("home %q, then %q: %s", home, f.home(id), asJSON(t, f.decision(id)))
				}
			}
			switch name {
			case "a look that begins meanwhile":
				f.set(plan.Affinity, path, will)
				f.scan(2)
			case "a look that began before": // what homenode had given then was the old one
				f.begin()
				before = &Scan{Number: before.Number, Began: before.Began, Snapshot: f.snapshot()}
				for i := range before.Snapshot.Observations {
					if o := &before.Snapshot.Observations[i]; o.ID == id {
						o.Pinned, o.PinnedWhy = true, "1 of 2 threads"
					}
				}
				f.turn(Input{Scan: before})
				sees()
				f.release()
				f.turn(Input{Scan: &Scan{Number: before.Number + 1, Began: before.Began, Snapshot: before.Snapshot}}) // it began before the end
			default:
				if name == "a crash, something written" {
					f.set(plan.Affinity, path, will)
				}
				f.keep, f.kept = nil, nil
				f.start()
				f.scan(1)
			}
			sees()
			f.release()
			f.scan(4)
			if sees(); f.get(plan.Affinity, path) != will {
				t.Errorf("affinity %s, want %s", f.get(plan.Affinity, path), will)
			}
			// Who pins it after that is somebody else.
			f.set(plan.Affinity, path, "3")
			if f.scan(3); !f.leftAlone(id, words.OwnAffinity) {
				t.Errorf("with another one: %s", asJSON(t, f.decision(id)))
			}
		})
	}
}

// A pin that somebody makes while homenode moves pages is seen by the look that began meanwhile:
// what moves pages sets no affinity.
func TestPinnedWhilePagesMove(t *testing.T) {
	f := newFake(t, 2, 8)
	f.byHand = true
	id := f.addProcess(77, "walker", 2, 1<<20, 0)
	path := plan.ProcessPath(f.works[id].obs.Processes[0])
	f.scan(4)
	memory := f.works[id].obs.Memory
	memory[0].Node = 1 - memory[0].Node
	f.keep = func(e *Effect) bool { return e.Kind == EffectApply && e.Step.Kind == plan.MovePages }
	for range 20 {
		if len(f.kept) == 0 {
			f.scan(1)
		}
	}
	if len(f.kept) != 1 {
		t.Fatalf("no page move has begun: %s", asJSON(t, f.decision(id)))
	}
	look := f.begin()
	f.set(plan.Affinity, path, "3")
	f.release()
	if f.end(look); !f.leftAlone(id, words.OwnAffinity) {
		t.Errorf("the look that began before its end: %s", asJSON(t, f.decision(id)))
	}
}
