package control

import (
	"testing"

	"github.com/homenode/homenode/core/plan"
	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/core/workload"
)

// What names a workload before the first scan of a daemon has ended is answered by that scan.
func TestBeforeFirstScan(t *testing.T) {
	f := newFake(t, 2, 8)
	a, b := f.add("a", 2, 1<<20, 0), f.add("b", 2, 1<<20, 1)
	f.scan(4)
	f.undo(b)
	to := topology.NodeID(1)
	if f.home(a) == "1" {
		to = 0
	}
	f.start()
	c := f.add("c", 1, 1<<18, 0)
	scan := f.begin()
	waiting := func(name string, r Reply) uint64 {
		if r.ID != 0 {
			t.Errorf("%s is answered before the scan: %s", name, asJSON(t, r))
		}
		return f.asked
	}
	move := waiting("move", f.order("a", to))
	undone := waiting("undo of what was never changed", f.undo("c"))
	placed := waiting("place", f.admit(77, workload.Shared, 1))
	waiting("of one who leaves", f.ask(Request{Move: &MoveRequest{ID: "b", To: topology.Nodes(0)}}))
	left := f.asked
	f.turn(Input{Withdrawn: left})
	if r := f.resume("b"); r.Resumed == nil || !r.Resumed.IDs[b] {
		t.Errorf("resume of what is known to be held: %s", asJSON(t, r))
	}
	f.end(scan)
	if r := f.replies[move]; r.Failed != nil || r.Move == nil || r.Move.Outcome != plan.Placed {
		t.Errorf("move: %s", asJSON(t, r))
	}
	if r := f.replies[undone]; r.Undo == nil || r.Undo.Workload != c || !f.s.Holds.Has(c) {
		t.Errorf("undo: %s", asJSON(t, r))
	}
	if r := f.replies[placed]; r.Failed != nil || r.Place == nil {
		t.Errorf("place: %s", asJSON(t, r))
	}
	if r := f.replies[left]; r.ID != 0 {
		t.Errorf("who left is answered: %s", asJSON(t, r))
	}
	if len(f.s.Waiting) != 0 {
		t.Errorf("%d wait still", len(f.s.Waiting))
	}
}

// When nothing can be seen, who waits is told so, and undo goes by what the journal has.
func TestFirstScanFails(t *testing.T) {
	f := newFake(t, 2, 8)
	a := f.add("a", 2, 1<<20, 0)
	f.scan(4)
	f.start()
	f.begin()
	f.order("a", 1)
	move := f.asked
	if r := f.undo("a"); r.Undo == nil || r.Undo.Workload != a || f.cpus(a) != "" {
		t.Errorf("undo of what is in the journal: %s", asJSON(t, r))
	}
	f.turn(Input{Scan: &Scan{Number: f.scanNo, Failed: "no answer"}})
	f.run()
	if r := f.replies[move]; r.Failed == nil || r.Failed.Code != Failed {
		t.Errorf("move: %s", asJSON(t, r))
	}
	if r := f.order("a", 1); r.Failed == nil || r.Failed.Code != Failed {
		t.Errorf("move after that: %s", asJSON(t, r))
	}
}
