package control

import (
	"strings"
	"testing"
	"time"

	"github.com/homenode/homenode/core/plan"
	"github.com/homenode/homenode/core/words"
	"github.com/homenode/homenode/core/workload"
)

// A workload that does not freeze keeps its memory nodes, says so, and is tried again; what undo
// cannot restore of it stays in the journal. How long it was frozen is in the history. (A1)
func TestNotFrozen(t *testing.T) {
	f := newFake(t, 2, 8, ruled(workload.Rule{Match: "a", Class: workload.Dedicated, CPUs: 1}))
	a := f.add("a", 1, 1<<20, 0)
	stuck := true
	mems := func(e *Effect) bool {
		return e.Kind == EffectApply && e.Step.Kind == plan.SetMems || e.Kind == EffectRestore && e.Entries[0].Kind == plan.CgroupMems
	}
	f.fail = func(e *Effect) *Failure {
		if stuck && mems(e) {
			return &Failure{Code: NotFrozen, Text: "cgroup /a: its processes did not freeze"}
		}
		return nil
	}
	f.frozen = func(e *Effect) time.Duration {
		if mems(e) {
			return 3 * time.Millisecond
		}
		return 0
	}
	f.scan(4)
	why := f.s.View().Silent[a]
	if f.get(plan.CgroupMems, string(a)) != "" || !f.leftAlone(a, words.NotFrozen) || f.toldOf(a, words.FrozenInVain) != 1 ||
		!strings.Contains(why.String(), "its memory nodes were not changed. Homenode retries in 10 s; to help, end its process") {
		t.Errorf("nodes %q, %q, %+v", f.get(plan.CgroupMems, string(a)), why, f.decision(a))
	}
	stuck = false
	f.after(20 * time.Second)
	f.scan(4)
	nodes := f.get(plan.CgroupMems, string(a))
	if nodes == "" || f.toldOf(a, words.WasFrozen) != 1 || len(f.s.Silent) != 0 {
		t.Errorf("nodes %q, told %d times, %v", nodes, f.toldOf(a, words.WasFrozen), f.s.Silent)
	}
	stuck = true
	r := f.undo(a)
	if r.Undo == nil || len(r.Undo.Failed) == 0 || f.s.Journal.Of(plan.CgroupMems, string(a)) == nil || f.get(plan.CgroupMems, string(a)) != nodes || f.toldOf(a, words.FrozenInVain) != 2 {
		t.Errorf("%+v", r.Undo)
	}
	stuck = false
	if r = f.undo(a); r.Undo == nil || len(r.Undo.Failed) != 0 || f.s.Journal.Of(plan.CgroupMems, string(a)) != nil || f.toldOf(a, words.WasFrozen) != 2 {
		t.Errorf("once it freezes: %+v, told %d times", r.Undo, f.toldOf(a, words.WasFrozen))
	}
}
