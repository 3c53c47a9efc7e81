package control

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/homenode/homenode/core/plan"
	"github.com/homenode/homenode/core/topology"
)

// TestDivideAmidFaults: a disk that is full by turns and calls that do not come back, or do what they
// were to long after they were given up, while threads are divided, moved and undone: each thread has
// either what its owner gave it or what homenode did, and in a calm undo gives back all.
func TestDivideAmidFaults(t *testing.T) {
	for seed := range uint64(15) {
		r := rand.New(rand.NewPCG(seed, 1))
		f := newFake(t, 4, 8, dividing)
		id := f.addWide("wide", 12)
		pid := f.works[id].obs.Processes[0].PID
		f.setThread(id, pid+3, topology.CPUs(1)) // its owner's
		f.add("narrow", 2, 1<<20, 2)
		before := f.all()
		full, hangs := false, false
		var late []plan.Step
		f.fail = func(e *Effect) *Failure {
			switch {
			case len(late) > 0 && e.Workload == id && e.Kind != EffectRead && e.Kind != EffectPresent: // nothing else is begun beside it
				return &Failure{Code: NoAnswer, Text: "a call before it has not come back"}
			case e.Kind == EffectApply && full: // as daemon does it (release)
				return &Failure{Code: Failed, Text: "not changed, for the journal could not be written: no space left on device"}
			case e.Kind == EffectApply && e.Step.Kind == plan.DivideThreads && hangs:
				late = append(late, *e.Step)
				return &Failure{Code: NoAnswer, Text: "set affinity of thread 7: no answer within 5 s"}
			}
			return nil
		}
		var did []string
		for range 30 {
			what := r.IntN(8)
			did = append(did, fmt.Sprint(what))
			switch what {
			case 0:
				full = !full
			case 1:
				hangs = !hangs
			case 2:
				for i := range late { // it comes back long after
					f.apply(&late[i])
				}
				late = nil
			case 3:
				f.undo(id)
			case 4:
				f.order(id, topology.NodeID(r.IntN(3)), 3)
			case 5:
				f.resume(id)
			case 6:
				late = nil // a call dies with its process
				f.start()
			case 7:
				f.after(time.Duration(r.IntN(20)) * time.Minute)
			}
			f.scan(1 + r.IntN(3))
			if got := f.sets(id); got["1"] < 1 {
				t.Fatalf("seed %d after %v: its owner's thread has another set: %v", seed, did, got)
			}
		}
		for i := range late {
			f.apply(&late[i])
		}
		full, hangs, late = false, false, nil
		f.after(time.Hour)
		f.scan(4)
		if reply := f.undo(""); reply.Failed != nil {
			t.Fatalf("seed %d after %v: undo: %v", seed, did, reply.Failed)
		}
		f.scan(2)
		if got := f.sets(id); got["1"] != 1 || got[f.host().Online.String()] != 11 {
			t.Errorf("seed %d after %v: threads have %v; journal %s", seed, did, got, asJSON(t, f.disk.journal()))
		}
		now := f.all()
		for k, v := range before {
			if now[k] != v {
				t.Errorf("seed %d after %v: %s was %q, is %q", seed, did, k, v, now[k])
			}
		}
		if left := f.disk.journal(); len(left) > 0 {
			t.Errorf("seed %d after %v: journal %s", seed, did, asJSON(t, left))
		}
	}
}
