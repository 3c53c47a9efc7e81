package control

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"github.com/homenode/homenode/core/control/journal"
	"github.com/homenode/homenode/core/plan"
	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/core/words"
	"github.com/homenode/homenode/core/workload"
)

// undoing is an undo under way. It is on disk as long as it lasts: a daemon that starts
// in its midst goes on with it.
type undoing struct {
	Which   Which
	Of      workload.ID     `json:",omitempty"` // of Entries
	Entries map[uint64]bool `json:",omitempty"` // by Seq: only these, which no concern desires; Which is empty
	Request uint64
	Running map[uint64][]plan.Entry // restores, by effect
	Tried   map[uint64]bool         // entries
	Result  Undone
}

// undo holds what matches, stops its page moves and puts its settings back, without
// waiting for those moves to end.
func (s *State) undo(id uint64, which Which, of workload.Lineage) {
	if f := s.means(&which, of); f != nil {
		s.reply(Reply{ID: id, Failed: f})
		return
	}
	if which.DryRun {
		would := Undone{Workload: which.ID}
		u := undoing{Which: which}
		for _, e := range slices.Backward(slices.Concat(s.Journal.All(), s.runEntries(which))) {
			if !u.has(&e) {
				continue
			}
			would.Restored = append(would.Restored, e)
			u.Result.Restored = would.Restored
			if _, ok := s.runOf(e.Kind, e.Path); ok {
				would.Policies = append(would.Policies, e.Workload)
			}
		}
		s.reply(Reply{ID: id, Undo: &would})
		return
	}
	if s.by != nil { // else homenode itself puts back what came late
		s.order(which.ID, words.UndoOrdered, which.name())
	}
	if !which.Stop && which.Only == "" {
		s.hold(which)
	}
	if which.Only == "" && len(s.Tasks) > 0 {
		restores := map[string]bool{} // also what was set under another ID
		for _, e := range s.Journal.All() {
			restores[e.Path] = restores[e.Path] || which.has(e.Workload)
		}
		for _, w := range sortedKeys(s.Tasks) {
			if t := s.Tasks[w]; which.has(w) || restores[t.Target] {
				s.stopNow(w, t)
			}
		}
	}
	for _, q := range s.Queued {
		q.Task.Cancelled = q.Task.Cancelled || (which.Only == "" && which.has(q.ID))
	}
	s.Undoing = slices.DeleteFunc(s.Undoing, func(u *undoing) bool { // of a command that was interrupted: this does the rest
		over := u.Request == 0 && len(u.Running) == 0 && ((which.All && !which.Own) || u.Which == which)
		if over && u.Entries == nil {
			s.tellGoesOn(u)
		}
		return over
	})
	for _, e := range s.runEntries(which) {
		if which.Only != "" {
			break
		}
		s.Seq = e.Seq
		s.put(e)
	}
	s.Undoing = append(s.Undoing, &undoing{Which: which, Request: id, Result: Undone{Workload: which.ID}})
	s.saveUndoing()
	s.undoMore()
}

func (s *State) tellGoesOn(u *undoing) {
	s.event(plan.Event{Kind: plan.EventUndo, Workload: u.Which.ID}, words.UndoGoesOn, u.Which.name())
}

func (s *State) saveUndoing() {
	which := []Which{}
	for _, u := range s.Undoing {
		if u.Entries == nil {
			which = append(which, u.Which)
		}
	}
	s.save(KeyUndoing, which)
}

func refuse(code Code, text words.Code, args ...any) *Failure {
	return &Failure{Code: code, Text: words.Because(text, args...).String()}
}

// runOf is the admission of `homenode run` that a setting is of, if it is known what its
// process had before.
func (s *State) runOf(kind plan.SettingKind, path string) (Admission, bool) {
	if kind != plan.Affinity {
		return Admission{}, false
	}
	p, err := plan.ParseProcessPath(path)
	if err != nil {
		return Admission{}, false
	}
	a, ok := s.Admissions[ProcessID(p.PID)]
	return a, ok && a.Process == p && !a.Had.Empty()
}

// runEntries is the affinities that `homenode run` has set itself, of what is to be undone,
// as journal entries. Before that nothing needs them: when the process ends they are gone.
func (s *State) runEntries(which Which) (out []plan.Entry) {
	for _, id := range sortedKeys(s.Admissions) {
		a := s.Admissions[id]
		path := plan.ProcessPath(a.Process)
		if !which.has(id) || a.Process.PID <= 0 || a.Had.Empty() || a.Placement.CPUs.Empty() || s.Journal.Of(plan.Affinity, path) != nil {
			continue
		}
		out = append(out, plan.Entry{Seq: s.Seq + uint64(len(out)) + 1, Time: s.At.Round(0), Workload: id, Kind: plan.Affinity, Path: path,
			Old: a.Had.String(), New: a.Placement.CPUs.String(), Ticks: a.Process.Start, State: plan.Applied})
	}
	return out
}

// undoMore puts back what is next of every undo under way: affinities together, for one
// look at all processes then finds who has inherited, but for those of processes whose
// threads are still divided; otherwise workload by workload, the
// last change first, so that one call that does not return holds up nobody else.
func (s *State) undoMore() {
	for _, u := range slices.Clone(s.Undoing) {
		if slices.Contains(s.Undoing, u) { // the end of one may have been that of others
			s.undoNext(u)
		}
	}
}

func (s *State) undoNext(u *undoing) {
	if u.Running == nil {
		u.Running, u.Tried = map[uint64][]plan.Entry{}, map[uint64]bool{}
	}
	busy := map[workload.ID]bool{}
	elsewhere := map[uint64]bool{} // put back by another undo at this moment
	for _, x := range s.Undoing {
		for _, entries := range x.Running {
			for _, e := range entries {
				if x == u {
					busy[e.Workload] = true
				} else {
					elsewhere[e.Seq] = true
				}
			}
		}
	}
	writing := s.beingWritten()
	var affinities, last []plan.Entry
	var order []workload.ID
	groups, threads := map[workload.ID][]plan.Entry{}, map[workload.ID][]plan.Entry{}
	blocked := false
	dividing := map[string]bool{} // processes whose threads are being put back, or divided at this moment
	for _, entries := range u.Running {
		for _, e := range entries {
			dividing[e.Path] = dividing[e.Path] || ofThreads(e)
		}
	}
	for _, e := range slices.Backward(s.Journal.All()) {
		if u.Tried[e.Seq] || !u.has(&e) {
			continue
		}
		if elsewhere[e.Seq] || writing[e.Seq] || e.Kind.IsController() && s.changesInside(e.Path) {
			blocked = true // it is being changed at this moment
			dividing[e.Path] = dividing[e.Path] || ofThreads(e)
			continue
		}
		switch {
		case ofThreads(e):
			threads[e.Workload] = append(threads[e.Workload], e)
			dividing[e.Path] = true
		case e.Kind == plan.Affinity:
			affinities = append(affinities, e)
		case e.Kind.IsController():
			last = append(last, e)
		default:
			if groups[e.Workload] == nil {
				order = append(order, e.Workload)
			}
			groups[e.Workload] = append(groups[e.Workload], e)
		}
	}
	// Threads that are divided come first: then they have what their process was given.
	for _, id := range sortedKeys(threads) {
		s.restore(u, threads[id])
	}
	all := len(affinities)
	affinities = slices.DeleteFunc(affinities, func(e plan.Entry) bool { return dividing[e.Path] })
	blocked = blocked || len(affinities) < all
	if len(affinities) > 0 {
		s.restore(u, affinities)
	}
	for _, id := range order {
		if busy[id] {
			blocked = true
			continue
		}
		// A number of queues goes first: it makes interrupts and queues anew.
		slices.SortStableFunc(groups[id], func(a, b plan.Entry) int { return -cmp.Compare(rank(&a), rank(&b)) })
		s.restore(u, groups[id])
	}
	switch {
	case blocked || len(u.Running) > 0:
	case len(last) > 0: // a controller goes off when no cgroup below needs it
		s.restore(u, last)
	default:
		s.undone(u)
	}
}

// about reports whether an undo is about a workload.
func (u *undoing) about(id workload.ID) bool {
	if u.Entries != nil {
		return u.Of == id
	}
	return u.Which.has(id)
}

func ofThreads(e plan.Entry) bool { return e.Kind == plan.ThreadCPUs }

// beingWritten is the entries whose settings are being changed.
func (s *State) beingWritten() map[uint64]bool {
	out := map[uint64]bool{}
	for _, t := range s.Tasks {
		if t.Writing {
			for _, seq := range t.Entries {
				out[seq] = true
			}
		}
	}
	return out
}

// changesInside reports whether a cgroup below one is being changed, which needs its
// controllers.
func (s *State) changesInside(group string) bool {
	for _, t := range s.Tasks {
		if len(t.Steps) > 0 && inside(t.Step().Target.Cgroup, group) {
			return true
		}
	}
	return false
}

// undoes reports whether an undo under way is about a workload: nothing is begun for it.
func (s *State) undoes(id workload.ID) bool {
	return slices.ContainsFunc(s.Undoing, func(u *undoing) bool { return u.about(id) })
}

// needsRestored reports whether what a step is about, or the controllers it needs, is being
// put back: what is read then may not stand.
func (s *State) needsRestored(step *plan.Step) bool {
	return s.restores(func(e *plan.Entry) bool {
		if e.Kind == plan.Affinity {
			p, err := plan.ParseProcessPath(e.Path)
			return err == nil && slices.Contains(step.Target.Processes, p)
		}
		return e.Workload == step.Workload || e.Kind.IsController() && inside(step.Target.Cgroup, e.Path)
	})
}

// restoring reports whether a setting is being put back, or the controllers it needs.
func (s *State) restoring(c *plan.Change) bool {
	return s.restores(func(e *plan.Entry) bool {
		return e.Kind == c.Kind && e.Path == c.Path || e.Kind.IsController() && inside(c.Path, e.Path)
	})
}

// restores reports whether an entry that fits is being put back.
func (s *State) restores(fits func(*plan.Entry) bool) bool {
	for _, u := range s.Undoing {
		for _, entries := range u.Running {
			for i := range entries {
				if fits(&entries[i]) {
					return true
				}
			}
		}
	}
	return false
}

// inside reports whether a cgroup lies below another.
func inside(path, group string) bool {
	return strings.HasPrefix(path, strings.TrimSuffix(group, "/")+"/") && path != group
}

func rank(e *plan.Entry) int {
	if e.Kind == plan.QueueCount {
		return 1
	}
	return 0
}

// has reports whether an entry belongs to an undo. A controller was turned on for the
// first workload that needed it and goes off with the last.
func (u *undoing) has(e *plan.Entry) bool {
	if u.Entries[e.Seq] {
		return true
	}
	if u.Which.Only != "" {
		return u.Which.has(e.Workload) && e.Kind == u.Which.Only
	}
	if u.Entries == nil && u.Which.has(e.Workload) {
		return true
	}
	shared := e.Kind == plan.CgroupControllers // homes need it, too
	return e.Kind.IsController() && (u.Entries == nil || !shared) && slices.ContainsFunc(slices.Concat(u.Result.Restored, u.Result.Unchanged), func(r plan.Entry) bool { return inside(r.Path, e.Path) })
}

func (s *State) restore(u *undoing, entries []plan.Entry) {
	for _, e := range entries {
		u.Tried[e.Seq] = true
	}
	e := Effect{Kind: EffectRestore, Workload: entries[0].Workload, Entries: entries}
	if journal.Inherits(entries[0].Kind) {
		e.Journal = s.Journal.Affinities()
	}
	u.Running[s.effect(e)] = entries
}

// undoResult takes up what became of a restore.
func (s *State) undoResult(r *Result) bool {
	i := slices.IndexFunc(s.Undoing, func(u *undoing) bool { return u.Running[r.ID] != nil })
	if i < 0 {
		return false
	}
	u := s.Undoing[i]
	entries := u.Running[r.ID]
	delete(u.Running, r.ID)
	s.wasFrozen(plan.EventUndo, entries[0].Workload, r)
	for k, e := range entries {
		f := r.Failed
		if f == nil && k < len(r.Each) {
			f = r.Each[k]
		}
		s.restored(u, e, f)
	}
	s.undoMore()
	return true
}

func (s *State) restored(u *undoing, e plan.Entry, f *Failure) {
	event := plan.Event{Kind: plan.EventUndo, Workload: e.Workload}
	switch {
	case f == nil || f.Code == Unchanged:
		e.State = plan.Restored
		if f == nil {
			s.event(event, words.PutBack, string(e.Kind), e.Path, e.New, asTold(e.Kind, e.Old))
			u.Result.Restored = append(u.Result.Restored, e)
		} else {
			s.event(event, words.StoodAsBefore, string(e.Kind), e.Path, asTold(e.Kind, e.Old))
			u.Result.Unchanged = append(u.Result.Unchanged, e)
		}
		s.tellObserver(EffectChanged, e.Workload)
		if e.Kind == plan.Affinity {
			delete(s.Given, e.Workload)
			if a, ok := s.runOf(e.Kind, e.Path); ok {
				a.Had = topology.CPUSet{}
				s.Admissions[e.Workload] = a
				s.saveAdmissions()
				u.Result.Policies = append(u.Result.Policies, e.Workload)
			} else if a, ok := s.Admissions[e.Workload]; ok && e.Old == a.Placement.CPUs.String() { // back to what `homenode run` gave it
				s.Give(e.Workload, a.Placement.CPUs)
			}
		}
	case f.Code == Gone:
		if u.Entries == nil { // batch work ends all the time, and what was set of it with it
			s.event(event, words.NothingToRestore, string(e.Kind), e.Path)
		}
		e.State = plan.Gone
		u.Result.Gone = append(u.Result.Gone, e)
	case f.Code == Foreign:
		s.event(event, words.NotRestoredTheirs, string(e.Kind), e.Path, f.Text)
		e.State = plan.Gone
		s.keepTheirs(&e)
		u.Result.Foreign = append(u.Result.Foreign, e)
	case f.Code == InUse:
		s.event(event, words.RestoredLater, f.Text)
		u.Result.Deferred = append(u.Result.Deferred, NotUndone{e, f.Text})
		return
	default:
		event.Error = true
		s.event(event, words.NotRestored, string(e.Kind), e.Path, asTold(e.Kind, e.Old), f.Text)
		u.Result.Failed = append(u.Result.Failed, NotUndone{e, f.Text})
		return
	}
	if s.Journal.At(e.Seq) != nil {
		s.put(e)
	}
	s.wasRestored(&e)
}

// undone ends an undo and answers it.
func (s *State) undone(u *undoing) {
	s.Undoing = slices.DeleteFunc(s.Undoing, func(x *undoing) bool { return x == u })
	if u.Entries == nil {
		s.saveUndoing()
	}
	s.reply(Reply{ID: u.Request, Undo: &u.Result})
	for _, q := range slices.Clone(s.Queued) { // what waited for it
		if s.Tasks[q.ID] == nil {
			s.dequeue(q.ID)
		}
	}
}

// hold writes down that something is to be left alone.
func (s *State) hold(which Which) {
	if which.All {
		s.Holds.All = true
	} else {
		s.Holds.IDs[which.ID] = true
	}
	s.saveHolds()
}

// resume takes a hold back: the next scan plans the workload again.
func (s *State) resume(id uint64, which Which, of workload.Lineage) {
	if f := s.means(&which, of); f != nil {
		s.reply(Reply{ID: id, Failed: f})
		return
	}
	held := Holds{All: s.Holds.All, IDs: maps.Clone(s.Holds.IDs)}
	if !which.All {
		held.All, held.IDs = false, map[workload.ID]bool{which.ID: true}
	}
	switch {
	case which.All && which.DryRun:
	case which.All:
		s.Holds = Holds{IDs: map[workload.ID]bool{}}
	case s.Holds.All:
		s.reply(Reply{ID: id, Failed: refuse(BadRequest, words.AllHeldResumeAll)})
		return
	case !s.Holds.IDs[which.ID]:
		s.reply(Reply{ID: id, Failed: refuse(NotFound, words.NotHeld, string(which.ID))})
		return
	case !which.DryRun:
		delete(s.Holds.IDs, which.ID)
	}
	if which.DryRun || !held.All && len(held.IDs) == 0 { // nothing is held, nothing changes
		s.reply(Reply{ID: id, Resumed: &held})
		return
	}
	if s.by != nil {
		s.order(which.ID, words.ResumeOrdered, which.name())
	}
	s.Retries = map[stepKey]retry{}
	s.giveBack(which)
	s.dropSteps(which)
	s.saveHolds()
	s.reply(Reply{ID: id, Resumed: &held})
}
