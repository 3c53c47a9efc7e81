package work

import (
	"cmp"
	"slices"
	"strconv"
	"time"

	"github.com/homenode/homenode/core/plan"
	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/core/words"
	"github.com/homenode/homenode/core/workload"
)

// wasFrozen records how long processes were kept from running for a change.
func (w *Work) wasFrozen(kind plan.EventKind, id workload.ID, r *Result) {
	if r.Frozen == 0 {
		return
	}
	code := words.WasFrozen
	notFrozen := func(f *Failure) bool { return f != nil && f.Code == NotFrozen }
	if notFrozen(r.Failed) || slices.ContainsFunc(r.Each, notFrozen) {
		code = words.FrozenInVain
	}
	milliseconds := float64(r.Frozen) / float64(time.Millisecond)
	w.loop.Event(plan.Event{Kind: kind, Workload: id, Frozen: r.Frozen.Seconds()}, code, milliseconds)
}

// intend writes the settings of a step into the journal as they are now, and changes
// them, unless another program has set one of them since homenode did.
func (w *Work) intend(id workload.ID, t *Task, step plan.Step, r *Result) {
	if t.Cancelled {
		w.end(id, t)
		return
	}
	stale := w.AdoptInherited(r.Inherited, func(workload.Process) (workload.ID, bool) { return id, true })
	if len(stale) > 0 {
		w.read(id, t, step) // else what an ended process passed on would be taken for their own
		return
	}
	beingRestored := slices.ContainsFunc(r.Changes, func(c plan.Change) bool { return w.restoring(&c) })
	if beingRestored && t.Request != 0 { // the restore takes its entry out of the journal
		w.requeue(id, t)
		return
	}
	narrowed := slices.ContainsFunc(r.Changes, func(c plan.Change) bool { return w.narrowedSince(&step, &c) })
	if t.Request == 0 && (beingRestored || narrowed) {
		w.DropSteps(Which{ID: id}) // the next scan knows more
		w.end(id, t)
		return
	}
	if !w.yield(id, t, &step, r.Changes) {
		return
	}
	for i := range r.Changes {
		c := &r.Changes[i]
		if c.Path == step.Target.Cgroup { // not another one that is made anew now
			step.Target.Object = c.Object
		}
		t.Entries = append(t.Entries, w.renew(id, &step, c))
	}
	if inherits(&step) && step.Kind.GivesCPUs() {
		w.intendYounger(id, t, step.To)
	}
	t.Writing = true
	w.run(id, t, Effect{Kind: EffectApply, Workload: id, Step: &step})
}

// requeue has the task of a request begin again when an undo has ended.
func (w *Work) requeue(id workload.ID, t *Task) {
	delete(w.Tasks, id)
	w.Queued = append(w.Queued, &Queued{id, t})
}

// yield gives way to other programs, and reports whether the step goes on: its settings are not
// theirs, and it was planned for the objects that are there.
func (w *Work) yield(id workload.ID, t *Task, step *plan.Step, changes []plan.Change) bool {
	anew := false // another one under the same path
	for i := range changes {
		c := &changes[i]
		e := w.Journal.Of(c.Kind, c.Path)
		if e == nil || e.Ours(c.Setting) || e.IsMadeAnew() {
			continue
		}
		if anotherObject(e, &c.Setting) {
			w.Mark(e, plan.Gone)
			anew = true
			continue
		}
		w.foreign(e, c.Value)
		if t.Request != 0 { // the answer says so now, and a second request means it
			w.GiveBack(e)
			w.stepDone(t, &Failure{Code: Foreign, Text: setSince(&c.Setting).String()})
			w.drop(id, t)
			return false
		}
	}
	if anew && t.Request == 0 { // the step was not planned for it
		w.DropSteps(Which{ID: id})
		w.end(id, t)
		return false
	}
	c := cmp.Or(w.theirsAmong(changes), w.chosenByOthers(step, changes))
	if c == nil || t.Request != 0 {
		return true
	}
	text := setSince(&c.Setting).String()
	w.putOff(step, Foreign, text)
	w.loop.StepEnded(step, &Failure{Code: Foreign, Text: text})
	w.drop(id, t)
	return false
}

// renew writes a change into the journal before it is made, and returns the number of the entry.
func (w *Work) renew(id workload.ID, step *plan.Step, c *plan.Change) uint64 {
	e := w.Journal.Of(c.Kind, c.Path)
	if e == nil {
		e = &plan.Entry{
			Seq: w.NextSeq(), Time: w.At.Round(0), Kind: c.Kind, Path: c.Path,
			Old: c.Value, Groups: c.Groups, Object: c.Object, Ticks: c.Ticks,
		}
		had, given, ok := w.loop.Had(c.Kind, c.Path)
		if ok && c.Value == given.String() {
			e.Old, e.New = had.String(), c.Value // what it has is of homenode
		}
	}
	renewed := *e
	renewed.Renew(id, c.Will)
	if c.Threads != "" {
		renewed.Add(c.Threads, func(tid string) bool {
			return slices.ContainsFunc(step.Threads, func(t plan.ThreadSet) bool { return strconv.Itoa(t.TID) == tid })
		})
	}
	w.Put(renewed)
	return renewed.Seq
}

// changesNothing reports whether all that a step was to set of a workload stood before: what was ordered
// is recorded as an order, and not as a change.
func (w *Work) changesNothing(t *Task, step *plan.Step) bool {
	if t.Request == 0 || !step.Kind.GivesCPUs() || step.From != step.To {
		return false
	}
	return !slices.ContainsFunc(t.Entries, func(seq uint64) bool {
		e := w.Journal.At(seq)
		return e != nil && e.Old != e.New
	})
}

// forgetUnchanged takes entries of a workload out of the journal that record no change.
func (w *Work) forgetUnchanged(id workload.ID) {
	for _, e := range w.Journal.All() {
		if e.Workload == id && e.Old == e.New {
			w.Mark(&e, plan.Restored)
		}
	}
}

// intendYounger renews the entries of processes that a workload has started since its
// settings were read: the change reaches them too. Those that inherited from what is changed are
// such processes also under the ID that the workload had before.
func (w *Work) intendYounger(id workload.ID, t *Task, to string) {
	for _, e := range w.Journal.Affinities() {
		inherited := e.Of != 0 && slices.Contains(t.Entries, e.Of)
		belongs := e.Workload == id || inherited
		if belongs && e.Kind == plan.Affinity && !slices.Contains(t.Entries, e.Seq) {
			e.Renew(id, to)
			w.Put(e)
			t.Entries = append(t.Entries, e.Seq)
		}
	}
}

// narrowedSince reports whether another program has narrowed CPUs that homenode has not set since
// the scan that a step is of: what could be used then is not in the set as it is now, or the set is of a cgroup that
// no scan has seen.
func (w *Work) narrowedSince(step *plan.Step, c *plan.Change) bool {
	ofCPUs := c.Kind == plan.CgroupCPUs || c.Kind == plan.Affinity
	if !ofCPUs || w.Journal.Of(c.Kind, c.Path) != nil {
		return false
	}
	from, err := topology.ParseCPUSet(step.From)
	now, bad := topology.ParseCPUSet(c.Value)
	if err != nil || bad != nil || now.Empty() {
		return false
	}
	own := c.Kind == plan.CgroupCPUs && c.Path == step.Target.Cgroup
	o := w.loop.Observation(step.Workload)
	return !from.SubsetOf(now) || (own && o != nil && !o.SameCgroup(c.Object))
}

// applied marks a step that took and goes on with the next.
func (w *Work) applied(id workload.ID, t *Task, step plan.Step) {
	t.Took = true
	if step.Kind.Pins() {
		t.Pinned = w.Scans
	}
	w.markApplied(id, t, &step)
	delete(w.Retries, KeyOf(&step))
	delete(w.Silent, id)
	delete(w.Narrowed, id)
	w.Report(EffectChanged, id)
	e := plan.Event{Kind: plan.EventStep, Workload: id}
	if step.Target.Kind == workload.InHost {
		e.Kind = plan.EventHost
	}
	if !step.Routine() && !w.changesNothing(t, &step) {
		w.loop.Event(e, words.StepTook, string(step.Kind), step.Target.Setting(), step.FromText(), step.To,
			step.Reason.String())
	}
	w.stepDone(t, nil)
	defer w.loop.StepEnded(&step, nil) // once the next one is under way
	w.forget(&step)
	if step.Kind.Remakes() { // the rest is about what is no longer so
		t.Steps = t.Steps[:1]
	}
	t.Steps = t.Steps[1:]
	w.next(id, t)
}

// markApplied marks the entries of a step that took.
func (w *Work) markApplied(id workload.ID, t *Task, step *plan.Step) {
	for _, seq := range t.Entries {
		e := w.Journal.At(seq)
		if e == nil {
			continue
		}
		if step.Kind.Remakes() && !e.Kind.Remakes() { // made anew: nothing of homenode's is in it
			w.Put(e.MadeAnew())
			e = w.Journal.At(seq)
		}
		w.Mark(e, plan.Applied)
		w.loop.GaveValue(id, e.Kind, e.New)
	}
}

// stepDone keeps how a step went for the answer to a request.
func (w *Work) stepDone(t *Task, f *Failure) {
	if t.Request != 0 {
		t.Errs = append(t.Errs, f)
	}
}

// drop goes on after a step that did not take: with the next one where the steps do not
// build on one another, else not at all.
func (w *Work) drop(id workload.ID, t *Task) {
	if t.Request == 0 && !t.Step().Optional {
		w.end(id, t)
		return
	}
	t.Steps = t.Steps[1:]
	t.Cancelled = t.Cancelled || t.Together
	w.next(id, t)
}

// failed records why a step did not take, once per reason, and puts off the next try.
// Its journal entries stay as they are, intended: part of the change may stand, and undo
// must be able to restore it.
func (w *Work) failed(id workload.ID, t *Task, step plan.Step, r *Result) {
	f := r.Failed
	if t.Writing { // it may have failed half way
		w.halfDone(id, t, &step)
	}
	w.stepDone(t, f)
	defer w.loop.StepEnded(&step, f)
	switch f.Code {
	case Cancelled:
		w.drop(id, t)
		return
	case Gone:
		w.loop.PruneSoon() // what is gone for good is found there
	case Fixed:
		w.isFixed(id, t, &step, r)
		w.drop(id, t)
		return
	case NoAnswer, NotFrozen:
		w.silence(id, step.Target.Own(), f)
	}
	wait, repeated := w.putOff(&step, f.Code, f.Text)
	code := words.StepFailed
	if f.Code == Gone {
		code = words.StepGone
	}
	if !repeated && t.Request == 0 {
		event := plan.Event{Kind: plan.EventStep, Workload: id, Error: true}
		w.loop.Event(event, code, string(step.Kind), step.Target.Setting(), step.To, f.Text, wait)
	}
	w.drop(id, t)
}

// halfDone notes that a step that failed may have changed something.
func (w *Work) halfDone(id workload.ID, t *Task, step *plan.Step) {
	if step.Kind.Pins() {
		t.Pinned = w.Scans
	}
	w.Report(EffectChanged, id)
	if t.Transfer == nil {
		w.wrote(id)
	}
}

// isFixed takes up that the kernel lets nobody change a setting. Nothing is to be restored, unless an
// earlier step took.
func (w *Work) isFixed(id workload.ID, t *Task, step *plan.Step, r *Result) {
	for _, seq := range t.Entries {
		e := w.Journal.At(seq)
		if e == nil {
			continue
		}
		now := slices.IndexFunc(r.Standing, func(x plan.Setting) bool { return x.Kind == e.Kind && x.Path == e.Path })
		if now >= 0 && r.Standing[now].Value == e.Old {
			w.Mark(e, plan.Restored)
		}
	}
	w.loop.Event(plan.Event{Kind: plan.EventStep, Workload: id}, words.StepFixed, string(step.Kind), step.To,
		r.Failed.Text)
	w.forget(step)
}
