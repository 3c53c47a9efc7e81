package work

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/homenode/homenode/core/plan"
	"github.com/homenode/homenode/core/workload"
)

// planned is a Loop that has a plan, and nothing else.
type planned struct {
	Loop
	plan plan.Plan
}

func (p *planned) Planned() *plan.Plan { return &p.plan }

func steps(names ...string) []plan.Step {
	var out []plan.Step
	for _, name := range names {
		id, to, _ := strings.Cut(name, " ")
		out = append(out, plan.Step{Kind: plan.SetCPUs, Workload: workload.ID(id), To: to})
	}
	return out
}

func namesOf(all []plan.Step) string {
	var out []string
	for _, s := range all {
		out = append(out, fmt.Sprintf("%s %s", s.Workload, s.To))
	}
	return strings.Join(out, ", ")
}

// TestTodo: a step that was carried out is not left, whoever asks, and a reader keeps what they have.
func TestTodo(t *testing.T) {
	p := &planned{plan: plan.Plan{Steps: steps("a 1", "b 1", "a 2", "c 1", "a 1")}}
	w := New(0, nil, nil, nil, nil)
	w.Attach(p)
	reader := p.plan.Steps
	was := namesOf(reader)
	forget := func(name string) { w.forget(&steps(name)[0]) }
	want := func(of, left string) {
		t.Helper()
		if got := namesOf(w.stepsOf(workload.ID(of))); got != left {
			t.Errorf("of %s: %q, want %q", of, got, left)
		}
	}
	forget("a 1")
	want("a", "a 2, a 1") // the first of two alike
	forget("b 1")
	forget("b 1")
	forget("z 9")
	want("b", "")
	if got := namesOf(w.Steps()); got != "a 2, c 1, a 1" || got != namesOf(p.plan.Steps) {
		t.Errorf("%q, the plan has %q", got, namesOf(p.plan.Steps))
	}
	forget("c 1")
	w.DropSteps(Which{ID: "a"})
	if left := w.Steps(); len(left) != 0 {
		t.Errorf("%q", namesOf(left))
	}
	if namesOf(reader) != was {
		t.Errorf("a reader has %q", namesOf(reader))
	}
	p.plan.Steps = steps("a 1", "d 1")
	w.NewPlan()
	want("d", "d 1")
	p.plan.Steps = append(p.plan.Steps, steps("d 2")...) // as the steps for next starts
	want("d", "d 1, d 2")
	groups := Grouped(slices.Concat(w.Steps(), steps("a 3")))
	if len(groups) != 2 || namesOf(groups[0]) != "a 1, a 3" || namesOf(groups[1]) != "d 1, d 2" {
		t.Errorf("%v", groups)
	}
}

// TestOwnSteps: who changes the steps of the plan has their own, once.
func TestOwnSteps(t *testing.T) {
	p := &planned{plan: plan.Plan{Steps: steps("a 1", "b 1")}}
	w := New(0, nil, nil, nil, nil)
	w.Attach(p)
	reader := p.plan.Steps
	own := w.OwnSteps()
	if &own[0] == &reader[0] || &own[0] != &p.plan.Steps[0] {
		t.Error("they are the reader's")
	}
	if again := w.OwnSteps(); &again[0] != &own[0] {
		t.Error("they are copied twice")
	}
	w.SharedSteps()
	if again := w.OwnSteps(); &again[0] == &own[0] {
		t.Error("they are those of a view")
	}
}
