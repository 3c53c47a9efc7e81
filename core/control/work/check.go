package work

import (
	"github.com/homenode/homenode/core/plan"
	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/core/words"
	"github.com/homenode/homenode/core/workload"
)

// KeyTheirs is the key of Theirs on disk.
const KeyTheirs = "theirs"

func (w *Work) saveTheirs() { w.loop.Save(KeyTheirs, w.Theirs.Sorted()) }

// keepTheirs remembers that the setting of an entry belongs to another program.
func (w *Work) keepTheirs(e *plan.Entry) {
	w.Theirs.Keep(e)
	w.saveTheirs()
}

// theirsAmong returns the first of the changes that is of a setting of another program.
func (w *Work) theirsAmong(changes []plan.Change) *plan.Change {
	c, changed := w.Theirs.Among(changes)
	if changed {
		w.saveTheirs()
	}
	return c
}

// GiveBackOf lets homenode set again what other programs have set of a workload.
func (w *Work) GiveBackOf(which Which) {
	if w.Theirs.GiveBackOf(which.Has) {
		w.saveTheirs()
	}
}

// GiveBack lets homenode set the setting of an entry again.
func (w *Work) GiveBack(e *plan.Entry) {
	w.Theirs.GiveBack(e)
	w.saveTheirs()
}

// setSince returns why a setting is not changed.
func setSince(x *plan.Setting) words.Reason {
	return words.Because(words.SetSince, string(x.Kind), x.Path, words.OrAll(x.Value))
}

// chosenByOthers returns the first value that another program has chosen: homenode did not write
// it, and it is not the kernel's default. It stays, also when it is the value wanted, for kinds that
// turn: homenode will want another value of those later.
func (w *Work) chosenByOthers(step *plan.Step, changes []plan.Change) *plan.Change {
	if !step.Kind.Yields() {
		return nil
	}
	for i := range changes {
		c := &changes[i]
		unset, known := c.Kind.Unset()
		if !known || c.Value == unset || w.Journal.Of(c.Kind, c.Path) != nil {
			continue
		}
		if c.Value != c.Will || c.Kind.Turns() {
			return c
		}
	}
	return nil
}

// anotherObject reports whether an entry is of an earlier object under the path of a setting.
func anotherObject(e *plan.Entry, now *plan.Setting) bool {
	return e.Object != "" && now.Object != "" && e.Object != now.Object
}

// foreign gives way: what another program has set since homenode did is theirs.
func (w *Work) foreign(e *plan.Entry, now string) {
	w.Mark(e, plan.Gone)
	w.keepTheirs(e)
	w.loop.TookAway(e.Workload)
	w.overwritten(e.Workload)
	w.Report(EffectChanged, e.Workload)
	event := plan.Event{Kind: plan.EventStep, Workload: e.Workload, Error: true}
	w.loop.Event(event, words.SetSince, string(e.Kind), e.Path, words.OrAll(now))
}

func (w *Work) overwritten(id workload.ID) {
	x := w.Overwrites[id]
	w.Overwrites[id] = Overwrite{Count: x.Count + 1, Last: w.At}
}

// Check has settings read, to find who set them.
func (w *Work) Check(id workload.ID, entries []plan.Entry) {
	w.Checks[w.Effect(Effect{Kind: EffectCheck, Workload: id, Entries: entries})] = id
}

// CheckResult takes up the current values of settings that were read to find who set them.
func (w *Work) CheckResult(r *Result) {
	id, ok := w.Checks[r.ID]
	if !ok {
		return
	}
	delete(w.Checks, r.ID)
	w.DropSteps(Which{ID: id}) // the next scan knows more
	if r.Failed != nil || len(r.Settings) == 0 {
		return
	}
	if r.Settings[0].Kind != plan.CgroupCPUs {
		for _, now := range r.Settings {
			w.checkedValue(id, now)
		}
		return
	}
	o := w.loop.Observation(id)
	if o != nil {
		w.checkedCPUs(o, r.Settings[0])
	}
}

// checkedCPUs takes up the current CPU set of a cgroup that did not read as homenode set it.
func (w *Work) checkedCPUs(o *workload.Observation, now plan.Setting) {
	id := o.ID
	e := w.Journal.Of(now.Kind, now.Path)
	switch {
	case e == nil:
	case !e.Ours(now) && anotherObject(e, &now):
		w.Mark(e, plan.Gone)
	case !e.Ours(now):
		w.foreign(e, now.Value)
	case now.Value == e.New: // it stands, and does not take effect
		w.Narrowed[id] = o.CPUs
		w.TellNarrowed(o, e)
	default: // back to what it was: it is set again, a few times
		w.setBack(id, e, words.OrAll(now.Value))
	}
}

// checkedValue takes up the current value of a setting that scans do not see.
func (w *Work) checkedValue(id workload.ID, now plan.Setting) {
	e := w.Journal.Of(now.Kind, now.Path)
	switch {
	case e == nil, now.Value == e.New:
	case anotherObject(e, &now):
		w.Mark(e, plan.Gone)
	case !e.Ours(now):
		w.foreign(e, now.Value)
	case e.Kind.Fills(): // threads came from elsewhere
		w.Mark(e, plan.Intended)
	default:
		w.setBack(id, e, now.Value)
	}
}

// setBack notes that another program has restored a setting that homenode had set.
func (w *Work) setBack(id workload.ID, e *plan.Entry, now string) {
	w.overwritten(id)
	w.Mark(e, plan.Intended)
	w.loop.Event(plan.Event{Kind: plan.EventStep, Workload: id, Error: true}, words.SetBack, string(e.Kind), e.Path,
		now)
}

// ToldNarrowed begins the keys of what was reported of Narrowed.
const ToldNarrowed = "narrowed "

// TellNarrowed reports that CPUs homenode gave have no effect, and sets them not again: a
// partition or a cgroup above has taken the others. Of those that are offline the host is reported.
func (w *Work) TellNarrowed(o *workload.Observation, e *plan.Entry) {
	w.dropCPUs(o.ID, e.New)
	given, err := topology.ParseCPUSet(e.New)
	host, _ := w.loop.Room()
	if err == nil && given.Intersect(host.Online).SubsetOf(o.CPUs) {
		return
	}
	event := plan.Event{Kind: plan.EventHost, Workload: o.ID, Error: true}
	w.loop.Once(ToldNarrowed+string(o.ID), event, words.CPUsTaken, e.New, o.CPUs.String())
}
