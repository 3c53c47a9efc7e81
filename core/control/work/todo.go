package work

import (
	"slices"

	"github.com/homenode/homenode/core/plan"
	"github.com/homenode/homenode/core/workload"
)

// NewPlan notes that the plan is another one.
func (w *Work) NewPlan() { w.todo = todo{} }

// SharedSteps returns the steps that are left to do, for a reader who keeps them.
func (w *Work) SharedSteps() []plan.Step {
	steps := w.Steps()
	w.todo.own = false
	return steps
}

// Steps returns the steps that are left to do, and removes the others from the plan.
func (w *Work) Steps() []plan.Step {
	p := w.loop.Planned()
	t := &w.todo
	if t.done == 0 || !sameSteps(t.steps, p.Steps) {
		return p.Steps
	}
	left := make([]bool, len(t.steps))
	for _, positions := range t.of {
		for _, i := range positions {
			left[i] = true
		}
	}
	kept := make([]plan.Step, 0, len(t.steps)-t.done)
	for i := range t.steps {
		if left[i] {
			kept = append(kept, t.steps[i])
		}
	}
	p.Steps = kept
	w.todo = todo{own: true}
	return kept
}

// OwnSteps returns the steps that are left to do. The caller may change them, and sets them again.
func (w *Work) OwnSteps() []plan.Step {
	steps := w.Steps()
	if !w.todo.own {
		steps = slices.Clone(steps)
		w.loop.Planned().Steps = steps
	}
	w.todo = todo{own: true}
	return steps
}

// index brings the index up to date.
func (w *Work) index() *todo {
	p := w.loop.Planned()
	t := &w.todo
	if t.of != nil && sameSteps(t.steps, p.Steps) {
		return t
	}
	t.steps, t.done = p.Steps, 0
	t.of = make(map[workload.ID][]int, len(t.steps))
	for i := range t.steps {
		id := t.steps[i].Workload
		t.of[id] = append(t.of[id], i)
	}
	return t
}

func sameSteps(a, b []plan.Step) bool {
	return len(a) == len(b) && (len(a) == 0 || &a[0] == &b[0])
}

// stepsOf returns the steps of a workload that are left.
func (w *Work) stepsOf(id workload.ID) []plan.Step {
	t := w.index()
	var out []plan.Step
	for _, i := range t.of[id] {
		out = append(out, t.steps[i])
	}
	return out
}

// forget removes a step that was carried out.
func (w *Work) forget(step *plan.Step) {
	key := KeyOf(step)
	t := w.index()
	positions := t.of[key.Workload]
	for k, i := range positions {
		if KeyOf(&t.steps[i]) == key {
			t.of[key.Workload] = slices.Delete(positions, k, k+1)
			t.done++
			return
		}
	}
}

// DropSteps removes what is left to do for a workload, or for all.
func (w *Work) DropSteps(which Which) {
	w.loop.Planned().Steps = slices.DeleteFunc(w.OwnSteps(), func(x plan.Step) bool { return which.Has(x.Workload) })
}

// dropCPUs removes the steps of a workload that give it a CPU set.
func (w *Work) dropCPUs(id workload.ID, to string) {
	w.loop.Planned().Steps = slices.DeleteFunc(w.OwnSteps(), func(x plan.Step) bool {
		return x.Workload == id && x.Kind.GivesCPUs() && x.To == to
	})
}

// Grouped returns steps by workload, each group in its order.
func Grouped(steps []plan.Step) [][]plan.Step {
	index := make(map[workload.ID]int, len(steps))
	var groups [][]plan.Step
	for _, s := range steps {
		i, ok := index[s.Workload]
		if !ok {
			i = len(groups)
			index[s.Workload] = i
			groups = append(groups, nil)
		}
		groups[i] = append(groups[i], s)
	}
	return groups
}
