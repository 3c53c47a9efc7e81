package control

import (
	"cmp"
	"slices"
	"strconv"
	"time"

	"github.com/homenode/homenode/core/control/work"
	"github.com/homenode/homenode/core/plan"
	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/core/words"
	"github.com/homenode/homenode/core/workload"
)

const (
	retryFirst = work.RetryFirst
	retryMost  = work.RetryMost
)

// After mostOverwrites settings that homenode had made were set anew by others, a
// workload is left alone for giveInFor.
const (
	mostOverwrites = 3
	giveInFor      = time.Hour
)

// States of a page move.
const (
	moveRunning     = "running"
	movePaused      = "paused"
	moveInterrupted = "interrupted" // the daemon ended first
	moveDone        = "done"
	moveCancelled   = "cancelled"
	moveFailed      = "failed"
)

// Task is the steps of one workload that are under way, the first of them now.
type Task struct {
	Steps     []plan.Step
	Effect    uint64   // the one under way
	Writing   bool     // it changes something; until then it reads how that is now
	Entries   []uint64 // of the journal, of the step under way
	Cancelled bool     // nothing more is begun
	Took      bool     // a step of it took
	Pinned    uint64   // scans up to this one may have seen a part of the affinities that it wrote
	Scan      uint64   // the plan was made on
	Target    string   // what it changes, as plan.Target.Own

	Move     *plan.Move // the record of a page move that has begun
	Saved    time.Time  // when Move was last written down
	Transfer *transfer  // nil for settings that are changed at once

	Request  uint64     // that asked for it; 0 for a plan of a scan
	Together bool       // of a request: nothing follows a step that failed
	Errs     []*Failure // of a request: how each step went
}

// Step is the one under way.
func (t *Task) Step() *plan.Step { return &t.Steps[0] }

// ended is when something ended that scans must begin after to see.
type ended struct {
	Scan     uint64 // the newest that had begun
	Recorded bool   // the newest record of a move is of it
	Asked    bool   // it was a change that somebody asked for
	Settings bool   // it was no page move
	Pinned   uint64 // scans up to this one may have seen a part of affinities that were written
	Target   string // what was changed, as plan.Target.Own
}

// seen reports whether the newest scan saw of a workload what was last done to it.
func (s *State) seen(id workload.ID) bool {
	end, ok := s.Ended[id]
	return !ok || end.Scan < s.Seen
}

// changing reports whether what was seen of a workload is from the midst of a change that
// somebody asked for, or older: nothing is concluded from it.
func (s *State) changing(id workload.ID) bool {
	if t := s.Tasks[id]; t != nil && t.Request != 0 {
		return true
	}
	return s.Ended[id].Asked && !s.seen(id)
}

// slow reports whether a step takes as long as there is memory: the kernel moves what
// lies outside the new nodes before the write of cpuset.mems returns.
func slow(s *plan.Step) bool {
	return s.Kind == plan.MovePages || s.Kind == plan.SetMems && !s.AtOnce
}

// dispatch begins what the plan says is left to do, workload by workload: settings at
// once; page moves and memory nodes when transfers may (see traffic).
func (s *State) dispatch() {
	if !s.acts() {
		return
	}
	var transfers []*transfer
	checking := s.checking()
	s.inUseAs = s.targetsInUse()
	waits := map[workload.ID]time.Time{}
	for _, group := range grouped(s.Plan.Steps) {
		if len(s.inUseAs) > 0 && s.inUseElsewhere(group[0].Target.Own(), group[0].Workload) {
			continue
		}
		if w := s.dispatchGroup(group, checking); w != nil {
			waits[w.ID] = s.At
			if since, ok := s.Waits[w.ID]; ok {
				waits[w.ID] = since
			}
			w.Aged = s.At.Sub(waits[w.ID]) >= agedAfter
			transfers = append(transfers, w)
		}
	}
	s.Waits = waits
	s.beginSome(transfers)
}

// dispatchRest goes on with the steps of one workload whose settings are set. What waited
// for a transfer to end goes on waiting: none has.
func (s *State) dispatchRest(id workload.ID) {
	var group []plan.Step
	for i := range s.Plan.Steps {
		if s.Plan.Steps[i].Workload == id {
			group = append(group, s.Plan.Steps[i])
		}
	}
	if len(group) == 0 || !s.acts() {
		return
	}
	if w := s.dispatchGroup(group, s.checking()); w != nil {
		s.Waits[id] = s.At
		s.beginSome([]*transfer{w})
	}
}

// dispatchGroup begins the steps of one workload, unless it is asked who set them. A transfer
// that is to be begun when it may is returned.
func (s *State) dispatchGroup(group []plan.Step, checking map[workload.ID]bool) *transfer {
	id := group[0].Workload
	if t := s.Tasks[id]; t != nil {
		if to := goal(group); t.Move != nil && to != "" && t.Move.Home != to { // its home is another one by now
			s.cancel(id, t)
		}
		return nil
	}
	if s.Tried[id] || checking[id] || s.Holds.Has(id) || s.undoes(id) || s.needsRestored(&group[0]) || s.silentNow(id) || s.waiting(&group[0]) {
		return nil
	}
	end := s.Ended[id]
	if !slow(&group[0]) {
		if end.Settings && !s.seen(id) {
			return nil
		}
		n := 1
		for n < len(group) && !slow(&group[n]) {
			n++
		}
		s.begin(id, &Task{Steps: slices.Clone(group[:n]), Scan: s.Seen})
		return nil
	}
	o := s.observation(id)
	if !end.Settings && !s.seen(id) || o != nil && o.MemoryMoved { // figures from before a move ended
		return nil
	}
	return transferFor(group, o)
}

// beginSome begins those of transfers that may.
func (s *State) beginSome(transfers []*transfer) {
	if len(transfers) == 0 {
		return
	}
	for _, w := range s.traffic().choose(transfers) {
		delete(s.Waits, w.ID)
		s.begin(w.ID, &Task{Steps: slices.Clone(w.Steps), Scan: s.Seen, Transfer: w})
	}
}

// goal is where the page move of a workload's steps goes; "" when there is none.
func goal(steps []plan.Step) string {
	for i := range steps {
		if steps[i].Kind == plan.MovePages {
			return steps[i].To
		}
	}
	return ""
}

// grouped is steps by workload, each group in its order.
func grouped(steps []plan.Step) [][]plan.Step {
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

// targetsInUse returns the cgroups and processes that are being changed, read or restored, or in
// which a call has not come back, with the workload that it is for; "" for several. They get
// another ID when a source appears or goes away: what is done under the two IDs must not run
// beside each other, or one draws its conclusions from what the other is about to change.
func (s *State) targetsInUse() map[string]workload.ID {
	out := map[string]workload.ID{}
	use := func(target string, id workload.ID) {
		if other, ok := out[target]; ok && other != id {
			id = ""
		}
		if target != "" {
			out[target] = id
		}
	}
	for id, q := range s.Silent {
		if s.waits(q.Until) {
			use(q.Target, id)
		}
	}
	for id, t := range s.Tasks {
		use(t.Target, id)
	}
	for id, end := range s.Ended {
		if !s.seen(id) {
			use(end.Target, id)
		}
	}
	if len(s.Checks)+len(s.Undoing) == 0 {
		return out
	}
	checking := s.checking()
	all := s.Journal.All()
	for i := range all {
		e := &all[i]
		if checking[e.Workload] || slices.ContainsFunc(s.Undoing, func(u *undoing) bool { return u.has(e) }) {
			use(e.Path, e.Workload)
		}
	}
	return out
}

// inUseElsewhere reports whether a target was in use under another ID than this when that was last asked.
func (s *State) inUseElsewhere(target string, id workload.ID) bool {
	other, used := s.inUseAs[target]
	return used && other != id
}

func (s *State) silentNow(id workload.ID) bool {
	q, ok := s.Silent[id]
	return ok && s.waits(q.Until)
}

// waiting reports whether a step failed lately and is not yet due again.
func (s *State) waiting(step *plan.Step) bool {
	r, ok := s.Retries[work.KeyOf(step)]
	return ok && s.waits(r.Next)
}

// waits reports whether the time of a retry is still to come. It is never further off than
// retryMost, unless the clock was set back.
func (s *State) waits(until time.Time) bool {
	left := until.Sub(s.At)
	return left > 0 && left <= retryMost
}

// begin starts a task on its first step.
func (s *State) begin(id workload.ID, t *Task) {
	if len(t.Steps) > 0 {
		t.Target = t.Steps[0].Target.Own()
	}
	s.Tasks[id], t.Cancelled = t, t.Cancelled || s.Stopping
	s.next(id, t)
}

// next begins the first step of a task, or ends it.
func (s *State) next(id workload.ID, t *Task) {
	for len(t.Steps) > 0 && !t.Cancelled && t.Request == 0 && s.waiting(t.Step()) {
		if !t.Step().Optional {
			t.Steps = nil
			break
		}
		t.Steps = t.Steps[1:]
	}
	if len(t.Steps) == 0 || t.Cancelled {
		s.end(id, t)
		return
	}
	step := *t.Step()
	t.Writing, t.Entries = false, nil
	if step.Kind == plan.MovePages {
		s.beginMove(id, t, step)
		return
	}
	s.read(id, t, step)
}

// read has the settings of a step read before they are changed.
func (s *State) read(id workload.ID, t *Task, step plan.Step) {
	e := Effect{Kind: EffectRead, Workload: id, Step: &step}
	if inherits(&step) {
		e.Journal = s.Journal.Affinities() // what it has from homenode is not its own
	}
	s.run(id, t, e)
}

// run does the effect of a task.
func (s *State) run(id workload.ID, t *Task, e Effect) {
	t.Effect = s.effect(e)
	s.Running[t.Effect] = id
}

func inherits(step *plan.Step) bool { return step.Target.Kind == workload.InProcess }

// beginMove writes the record of a page move down before the first page moves, so that
// after a crash it is known that pages were under way.
func (s *State) beginMove(id workload.ID, t *Task, step plan.Step) {
	m := plan.Move{Workload: id, Home: step.To, Planned: step.Bytes, Started: s.At.Round(0), State: moveRunning}
	if o := s.observation(id); o != nil {
		m.LocalityBefore = localityOf(o)
	}
	t.Move, t.Saved, t.Writing = &m, s.At, true
	s.out.Save.Moves = append(s.out.Save.Moves, m)
	if step.Bytes > 0 {
		s.event(plan.Event{Kind: plan.EventMove, Workload: id}, words.MoveBegins, step.Bytes, step.To, step.Reason)
	}
	s.run(id, t, Effect{Kind: EffectApply, Workload: id, Step: &step})
}

// cancel lets nothing more of a task begin, and stops a page move.
func (s *State) cancel(id workload.ID, t *Task) {
	if t.Cancelled {
		return
	}
	t.Cancelled = true
	if t.Move != nil && t.Writing && t.Step().Kind == plan.MovePages {
		s.note(Effect{Kind: EffectCancel, Workload: id, Of: t.Effect})
	}
}

// stopNow stops also what sets memory nodes: the kernel moves memory then, for minutes, and
// an undo waits for no more of that than the daemon gives it to end.
func (s *State) stopNow(id workload.ID, t *Task) {
	s.cancel(id, t)
	if t.Writing && t.Step().Kind == plan.SetMems {
		s.note(Effect{Kind: EffectCancel, Workload: id, Of: t.Effect})
	}
}

// end takes a task off, answers who asked for it, and goes on with what waited.
func (s *State) end(id workload.ID, t *Task) {
	delete(s.Tasks, id)
	pinned := max(t.Pinned, s.Ended[id].Pinned)
	if !t.Took && t.Request == 0 {
		s.Tried[id] = true
	}
	if t.Took && t.Transfer == nil {
		s.wrote(id)
	}
	if t.Transfer != nil {
		s.tellObserver(EffectMoved, id)
		s.Ended[id] = ended{Scan: s.Scans, Recorded: t.Move != nil && s.Moves[id].Started.Equal(t.Move.Started)}
	}
	if t.Request != 0 {
		s.Ended[id] = ended{Scan: s.Scans, Asked: true}
		s.changed(t)
	}
	if end, ok := s.Ended[id]; ok {
		end.Pinned, end.Target = pinned, t.Target
		s.Ended[id] = end
	}
	s.dequeue(id)
	if len(s.Undoing) > 0 {
		s.undoMore()
	}
	if t.Transfer != nil {
		s.dispatch()
	} else {
		s.dispatchRest(id)
	}
}

// wrote notes that what a scan that is under way has seen of a workload is older than what was
// written, or tried.
func (s *State) wrote(id workload.ID) {
	end, ok := s.Ended[id]
	end.Scan, end.Settings = s.Scans, end.Settings || !ok
	s.Ended[id] = end
}

// ownWrites takes for homenode's own what was seen of affinities while it wrote them: a look may
// have begun before it was known which.
func (s *State) ownWrites(seen []workload.Observation) []workload.Observation {
	out := seen
	for i := range seen {
		o := &seen[i]
		if t := s.Tasks[o.ID]; !o.Pinned || s.Ended[o.ID].Pinned < s.Seen && (t == nil || t.Pinned < s.Seen && !(t.Writing && pins(t.Step()))) {
			continue
		}
		if &out[0] == &seen[0] {
			out = slices.Clone(seen)
		}
		out[i].Pinned, out[i].PinnedWhy = false, ""
	}
	return out
}

// pins reports whether a step sets affinities of processes or threads.
func pins(step *plan.Step) bool { return step.Kind == plan.SetCPUs || step.Kind == plan.DivideThreads }

// result is how an effect ended.
func (s *State) result(r *Result) {
	switch id, ok := s.Running[r.ID]; {
	case ok:
		delete(s.Running, r.ID)
		s.taskResult(id, s.Tasks[id], r)
	case s.Pruning != nil && s.Pruning.Effect == r.ID:
		s.prunedResult(r)
	case s.Inheriting == r.ID && r.ID != 0:
		s.inheritedResult(r)
	case s.looked(r):
	case s.undoResult(r):
	default:
		if id, ok := s.Checks[r.ID]; ok {
			delete(s.Checks, r.ID)
			s.checked(id, r)
		}
	}
}

// taskResult goes on with a task after its effect has ended.
func (s *State) taskResult(id workload.ID, t *Task, r *Result) {
	step := *t.Step()
	switch {
	case step.Kind == plan.MovePages:
		s.endMove(id, t, step, r.Failed)
	case r.Failed != nil:
		s.wasFrozen(plan.EventStep, id, r)
		s.failed(id, t, step, r)
	case !t.Writing:
		s.intend(id, t, step, r)
	default:
		s.wasFrozen(plan.EventStep, id, r)
		s.applied(id, t, step)
	}
}

// wasFrozen records how long processes were kept from running for a change.
func (s *State) wasFrozen(kind plan.EventKind, id workload.ID, r *Result) {
	if r.Frozen == 0 {
		return
	}
	code := words.WasFrozen
	notFrozen := func(f *Failure) bool { return f != nil && f.Code == NotFrozen }
	if notFrozen(r.Failed) || slices.ContainsFunc(r.Each, notFrozen) {
		code = words.FrozenInVain
	}
	s.event(plan.Event{Kind: kind, Workload: id, Frozen: r.Frozen.Seconds()}, code, float64(r.Frozen)/float64(time.Millisecond))
}

// intend writes the settings of a step into the journal as they are now, and changes
// them: unless somebody else has set one of them since homenode did.
func (s *State) intend(id workload.ID, t *Task, step plan.Step, r *Result) {
	if t.Cancelled {
		s.end(id, t)
		return
	}
	if stale := s.adopt(r.Inherited, func(workload.Process) (workload.ID, bool) { return id, true }); len(stale) > 0 {
		s.read(id, t, step) // else what an ended process passed on would be taken for their own
		return
	}
	if t.Request == 0 && slices.ContainsFunc(r.Changes, func(c plan.Change) bool { return s.restoring(&c) || s.narrowedSince(&step, &c) }) {
		s.dropSteps(Which{ID: id}) // the next scan knows more
		s.end(id, t)
		return
	}
	anew := false // another one under the same path
	for i := range r.Changes {
		c := &r.Changes[i]
		if e := s.Journal.Of(c.Kind, c.Path); e != nil && !e.Ours(c.Setting) && !e.IsMadeAnew() {
			if e.Object != "" && c.Object != "" && e.Object != c.Object {
				s.mark(e, plan.Gone)
				anew = true
				continue
			}
			s.foreign(e, c.Value)
			if t.Request != 0 { // it is told now, and the next time it asks it means it
				s.giveBackOne(e)
				s.stepDone(t, &Failure{Code: Foreign, Text: setSince(&c.Setting).String()})
				s.drop(id, t)
				return
			}
		}
	}
	if anew && t.Request == 0 { // the step was not planned for it
		s.dropSteps(Which{ID: id})
		s.end(id, t)
		return
	}
	if c := cmp.Or(s.theirsAmong(r.Changes), s.chosenByOthers(&step, r.Changes)); c != nil && t.Request == 0 {
		text := setSince(&c.Setting).String()
		s.putOff(&step, Foreign, text)
		s.stepEnded(&step, &Failure{Code: Foreign, Text: text})
		s.drop(id, t)
		return
	}
	for i := range r.Changes {
		c := &r.Changes[i]
		if c.Path == step.Target.Cgroup { // not another one that is made anew now
			step.Target.Object = c.Object
		}
		e := s.Journal.Of(c.Kind, c.Path)
		if e == nil {
			s.Seq++
			e = &plan.Entry{Seq: s.Seq, Time: s.At.Round(0), Kind: c.Kind, Path: c.Path, Old: c.Value, Groups: c.Groups, Object: c.Object, Ticks: c.Ticks}
			if a, ok := s.runOf(c.Kind, c.Path); ok && c.Value == a.Placement.CPUs.String() {
				e.Old, e.New = a.Had.String(), c.Value // what it has is of homenode
			}
		}
		renewed := *e
		renewed.Renew(id, c.Will)
		if c.Threads != "" {
			renewed.Add(c.Threads, func(tid string) bool {
				return slices.ContainsFunc(step.Threads, func(t plan.ThreadSet) bool { return strconv.Itoa(t.TID) == tid })
			})
		}
		s.put(renewed)
		t.Entries = append(t.Entries, renewed.Seq)
	}
	if inherits(&step) && step.Kind == plan.SetCPUs {
		s.intendYounger(id, t, step.To)
	}
	t.Writing = true
	s.run(id, t, Effect{Kind: EffectApply, Workload: id, Step: &step})
}

// changesNothing reports whether all that a step was to set of a workload stood so before: what was ordered is
// recorded as an order, and not as a change.
func (s *State) changesNothing(t *Task, step *plan.Step) bool {
	return t.Request != 0 && step.Kind == plan.SetCPUs && step.From == step.To && !slices.ContainsFunc(t.Entries, func(seq uint64) bool {
		e := s.Journal.At(seq)
		return e != nil && e.Old != e.New
	})
}

// forgetUnchanged takes entries of a workload out of the journal that record no change.
func (s *State) forgetUnchanged(id workload.ID) {
	for _, e := range s.Journal.All() {
		if e.Workload == id && e.Old == e.New {
			s.mark(&e, plan.Restored)
		}
	}
}

// intendYounger renews the entries of processes that a workload has started since its
// settings were read: the change reaches them too. Those that inherited from what is changed are
// such processes also under the ID that the workload had before.
func (s *State) intendYounger(id workload.ID, t *Task, to string) {
	for _, e := range s.Journal.Affinities() {
		inherited := e.Of != 0 && slices.Contains(t.Entries, e.Of)
		if (e.Workload == id || inherited) && e.Kind == plan.Affinity && !slices.Contains(t.Entries, e.Seq) {
			e.Renew(id, to)
			s.put(e)
			t.Entries = append(t.Entries, e.Seq)
		}
	}
}

// narrowedSince reports whether somebody has narrowed CPUs that homenode has not set since
// the scan that a step is of: what could be used then is not in the set as it is now.
func (s *State) narrowedSince(step *plan.Step, c *plan.Change) bool {
	if c.Kind != plan.CgroupCPUs && c.Kind != plan.Affinity || s.Journal.Of(c.Kind, c.Path) != nil {
		return false
	}
	from, err := topology.ParseCPUSet(step.From)
	now, bad := topology.ParseCPUSet(c.Value)
	return err == nil && bad == nil && !now.Empty() && !from.SubsetOf(now)
}

// applied marks a step that took and goes on with the next.
func (s *State) applied(id workload.ID, t *Task, step plan.Step) {
	if t.Took = true; pins(&step) {
		t.Pinned = s.Scans
	}
	for _, seq := range t.Entries {
		if e := s.Journal.At(seq); e != nil {
			if step.Kind == plan.SetQueues && e.Kind != plan.QueueCount { // made anew: nothing of homenode's is in it
				s.put(e.MadeAnew())
				e = s.Journal.At(seq)
			}
			s.mark(e, plan.Applied)
			s.noteGiven(id, e.Kind, e.New)
		}
	}
	delete(s.Retries, work.KeyOf(&step))
	delete(s.Silent, id)
	delete(s.Narrowed, id)
	s.tellObserver(EffectChanged, id)
	e := plan.Event{Kind: plan.EventStep, Workload: id}
	if step.Target.Kind == workload.InHost {
		e.Kind = plan.EventHost
	}
	if (step.Kind != plan.DivideThreads || step.From != step.To) && !s.changesNothing(t, &step) { // threads come and go all the time
		s.event(e, words.StepTook, string(step.Kind), step.Target.Setting(), fromTold(&step), step.To, step.Reason.String())
	}
	s.stepDone(t, nil)
	defer s.stepEnded(&step, nil) // once the next one is under way
	s.forgetStep(&step)
	if step.Kind == plan.SetQueues { // the device made its interrupts anew: the next survey looks what became of them
		s.surveyAgain(Interrupts)
		t.Steps = t.Steps[:1]
	}
	t.Steps = t.Steps[1:]
	s.next(id, t)
}

// stepDone keeps how a step went for who asked for it.
func (s *State) stepDone(t *Task, f *Failure) {
	if t.Request != 0 {
		t.Errs = append(t.Errs, f)
	}
}

// forgetStep takes a step that was carried out off the plan.
func (s *State) forgetStep(step *plan.Step) {
	key := work.KeyOf(step)
	for i := range s.Plan.Steps { // by index: hundreds are gone through for each of hundreds
		if x := &s.Plan.Steps[i]; x.Workload == key.Workload && work.KeyOf(x) == key {
			s.Plan.Steps = slices.Delete(s.ownSteps(), i, i+1)
			return
		}
	}
}

// ownSteps is the steps of the plan, which no reader has.
func (s *State) ownSteps() []plan.Step {
	if !s.own {
		s.Plan.Steps, s.own = slices.Clone(s.Plan.Steps), true
	}
	return s.Plan.Steps
}

// drop goes on after a step that did not take: with the next one where the steps do not
// build on one another, else not at all.
func (s *State) drop(id workload.ID, t *Task) {
	if t.Request == 0 && !t.Step().Optional {
		s.end(id, t)
		return
	}
	t.Steps = t.Steps[1:]
	t.Cancelled = t.Cancelled || t.Together
	s.next(id, t)
}

// mark records how far an entry has come.
func (s *State) mark(e *plan.Entry, state plan.EntryState) {
	if e.State == state {
		return
	}
	marked := *e
	if marked.State = state; state == plan.Applied {
		marked.Take()
	}
	s.put(marked)
}

// failed records why a step did not take, once per reason, and puts off the next try.
// Its journal entries stay as they are, intended: part of the change may stand, and undo
// must be able to put it back.
func (s *State) failed(id workload.ID, t *Task, step plan.Step, r *Result) {
	f := r.Failed
	if t.Writing { // it may have failed half way
		if pins(&step) {
			t.Pinned = s.Scans
		}
		s.tellObserver(EffectChanged, id)
		if t.Transfer == nil {
			s.wrote(id)
		}
	}
	entries := make([]*plan.Entry, 0, len(t.Entries))
	for _, seq := range t.Entries {
		if e := s.Journal.At(seq); e != nil {
			entries = append(entries, e)
		}
	}
	s.stepDone(t, f)
	defer s.stepEnded(&step, f)
	event := plan.Event{Kind: plan.EventStep, Workload: id, Error: true}
	switch f.Code {
	case Cancelled:
		s.drop(id, t)
		return
	case Gone:
		s.pruneSoon() // what is gone for good is found there
	case Fixed:
		for _, e := range entries { // there is nothing to be put back, unless an earlier step took
			now := slices.IndexFunc(r.Standing, func(x plan.Setting) bool { return x.Kind == e.Kind && x.Path == e.Path })
			if now >= 0 && r.Standing[now].Value == e.Old {
				s.mark(e, plan.Restored)
			}
		}
		if step.Target.Device != "" {
			s.Fixed[step.Target.Device] = true
			s.surveyAgain(Interrupts)
		}
		event.Error = false
		s.event(event, words.StepFixed, string(step.Kind), step.To, f.Text)
		s.forgetStep(&step)
		s.drop(id, t)
		return
	case NoAnswer, NotFrozen:
		s.silence(id, step.Target.Own(), f)
	}
	wait, told := s.putOff(&step, f.Code, f.Text)
	code := words.StepFailed
	if f.Code == Gone {
		code = words.StepGone
	}
	if !told && t.Request == 0 {
		s.event(event, code, string(step.Kind), step.Target.Setting(), step.To, f.Text, wait)
	}
	s.drop(id, t)
}

// silence leaves a workload alone of which a call did not come back, or whose processes did not
// freeze.
func (s *State) silence(id workload.ID, target string, f *Failure) {
	q := s.Silent[id]
	wait := min(retryFirst<<min(q.Failures, 10), retryMost)
	s.Silent[id] = silent{Failures: q.Failures + 1, Until: s.At.Add(wait), Text: f.Text, Code: f.Code, Wait: wait, Target: target}
}

// why is why a silent workload is left alone.
func (q *silent) why() words.Reason {
	if q.Code == NotFrozen {
		return words.Because(words.NotFrozen, q.Wait)
	}
	return words.Because(words.Unanswered, q.Text)
}

// putOff says when a step may be tried again, and whether the same was told of it before.
func (s *State) putOff(step *plan.Step, code Code, text string) (wait time.Duration, told bool) {
	key := work.KeyOf(step)
	r := s.Retries[key]
	told = r.Text == text
	wait = min(retryFirst<<min(r.Failures, 10), retryMost)
	if m, ok := s.Moves[step.Workload]; ok && step.Kind == plan.MovePages && m.Home == step.To && immovable(&m) {
		wait = retryMost
	}
	s.Retries[key] = retry{Failures: r.Failures + 1, Next: s.At.Add(wait), Text: text, Code: code}
	return wait, told
}

// tryAgain lets what was put off be tried at the next scan.
func (s *State) tryAgain(id workload.ID) {
	delete(s.Tried, id)
	for key := range s.Retries {
		if key.Workload == id {
			delete(s.Retries, key)
		}
	}
	delete(s.Silent, id)
	delete(s.Overwrites, id)
}

// foreign gives way: what somebody else has set since homenode did is theirs.
func (s *State) foreign(e *plan.Entry, now string) {
	s.mark(e, plan.Gone)
	s.keepTheirs(e)
	delete(s.Given, e.Workload)
	s.overwritten(e.Workload)
	s.tellObserver(EffectChanged, e.Workload)
	s.event(plan.Event{Kind: plan.EventStep, Workload: e.Workload, Error: true}, words.SetSince, string(e.Kind), e.Path, words.OrAll(now))
}

func (s *State) overwritten(id workload.ID) {
	w := s.Overwrites[id]
	s.Overwrites[id] = overwrite{Count: w.Count + 1, Last: s.At}
}

// checking is the workloads of which it is not known who set what they have: nothing is
// begun for them.
func (s *State) checking() map[workload.ID]bool {
	out := make(map[workload.ID]bool, len(s.Checks))
	for _, id := range s.Checks {
		out[id] = true
	}
	return out
}

// checkSettings asks after settings that do not read in a scan as homenode set them: was
// it somebody else, or are CPUs missing that it set?
func (s *State) checkSettings() {
	checking := s.checking()
	var texts []string // of the sets met last: thousands have one of a few
	var sets []topology.CPUSet
	text := func(cpus topology.CPUSet) string {
		k := slices.IndexFunc(sets, cpus.Equal)
		if k < 0 {
			if len(sets) == 16 {
				sets, texts = sets[:0], texts[:0]
			}
			k, sets, texts = len(sets), append(sets, cpus), append(texts, cpus.String())
		}
		return texts[k]
	}
	// What read as it should still does while neither it nor the journal has changed.
	readings := s.Readings()
	reads, same := readings.Right, readings.Changes == s.Journal.Changes()
	for i := range s.Snapshot.Observations {
		if reads[i] && same {
			continue
		}
		o := &s.Snapshot.Observations[i]
		// Of several cgroups, what they may use together says nothing of one: who has set
		// theirs is found when a step reads them.
		if reads[i] = o.Kind != workload.InCgroup || len(s.SeenAs[o.ID]) > 1; reads[i] || checking[o.ID] || s.Tasks[o.ID] != nil || !s.seen(o.ID) {
			continue
		}
		if s.inUseElsewhere(cgroupPath(o), o.ID) {
			continue
		}
		e := s.Journal.Of(plan.CgroupCPUs, cgroupPath(o))
		if e != nil && !sameCgroup(e, o) {
			s.mark(e, plan.Gone)
			continue
		}
		if e == nil || e.State != plan.Applied || e.Workload != o.ID || text(o.CPUs) == e.New {
			delete(s.Narrowed, o.ID)
			reads[i] = true
			continue
		}
		if left, ok := s.Narrowed[o.ID]; ok && left.Equal(o.CPUs) {
			s.narrowed(o, e)
			continue
		}
		s.Checks[s.effect(Effect{Kind: EffectCheck, Workload: o.ID, Entries: []plan.Entry{*e}})] = o.ID
	}
	readings.Changes = s.Journal.Changes()
}

// checked learns how a setting is that did not read as it should.
func (s *State) checked(id workload.ID, r *Result) {
	s.dropSteps(Which{ID: id}) // the next scan knows more
	o := s.observation(id)
	values := len(r.Settings) > 0 && r.Settings[0].Kind != plan.CgroupCPUs
	if (o == nil && !values) || r.Failed != nil || len(r.Settings) == 0 {
		return
	}
	if values {
		for _, now := range r.Settings {
			s.checkedValue(id, now)
		}
		return
	}
	now := r.Settings[0]
	e := s.Journal.Of(now.Kind, now.Path)
	switch {
	case e == nil:
	case !e.Ours(now):
		if e.Object != "" && now.Object != "" && e.Object != now.Object {
			s.mark(e, plan.Gone)
			return
		}
		s.foreign(e, now.Value)
	case now.Value == e.New: // it stands, and does not take effect
		s.Narrowed[id] = o.CPUs
		s.narrowed(o, e)
	default: // back to what it was: it is set again, a few times
		s.overwritten(id)
		s.mark(e, plan.Intended)
		s.event(plan.Event{Kind: plan.EventStep, Workload: id, Error: true}, words.SetBack, string(e.Kind), e.Path, words.OrAll(now.Value))
	}
}

// toldNarrowed begins the keys of what was told of Narrowed.
const toldNarrowed = "narrowed "

// narrowed tells that CPUs homenode gave have no effect, and sets them not again: a
// partition or a cgroup above has taken the others. Of those that are offline the host is told.
func (s *State) narrowed(o *workload.Observation, e *plan.Entry) {
	s.dropStep(o.ID, plan.SetCPUs, e.New)
	if given, err := topology.ParseCPUSet(e.New); err == nil && given.Intersect(s.Snapshot.Host.Online).SubsetOf(o.CPUs) {
		return
	}
	s.once(toldNarrowed+string(o.ID), plan.Event{Kind: plan.EventHost, Workload: o.ID, Error: true}, words.CPUsTaken, e.New, o.CPUs.String())
}

// dropSteps takes what is left to do for a workload off the plan.
func (s *State) dropSteps(which Which) {
	s.Plan.Steps = slices.DeleteFunc(s.ownSteps(), func(x plan.Step) bool { return which.has(x.Workload) })
}

func (s *State) dropStep(id workload.ID, kind plan.StepKind, to string) {
	s.Plan.Steps = slices.DeleteFunc(s.ownSteps(), func(x plan.Step) bool { return x.Workload == id && x.Kind == kind && x.To == to })
}

// saveEvery bounds how often a page move in progress is written to disk.
const saveEvery = time.Second

// progress is how far a page move has come.
func (s *State) progress(p *Progress) {
	id, ok := s.Running[p.ID]
	if t := s.Tasks[id]; ok && t.Move != nil {
		m := *t.Move // readers have the old one
		m.Moved, m.Refused, m.RefusedBy, m.Why = p.Move.Moved, p.Move.Refused, p.Move.RefusedBy, p.Move.Why
		was := m.State
		m.State = moveRunning
		if p.Move.State == movePaused {
			m.State = movePaused
		}
		m.Seconds = s.At.Sub(m.Started).Seconds()
		t.Move = &m
		if s.At.Sub(t.Saved) >= saveEvery || m.State != was {
			t.Saved = s.At
			s.out.Save.Moves = append(s.out.Save.Moves, m)
		}
		switch {
		case m.State == was:
		case m.State == movePaused:
			s.event(plan.Event{Kind: plan.EventMove, Workload: id}, words.MoveRests, m.Home, m.Moved, m.Planned, p.Move.Why)
		default:
			s.event(plan.Event{Kind: plan.EventMove, Workload: id}, words.MoveGoesOn, m.Home)
		}
	}
}

// endMove records how a page move ended and goes on with the task.
func (s *State) endMove(id workload.ID, t *Task, step plan.Step, f *Failure) {
	m := *t.Move
	m.Seconds = s.At.Sub(m.Started).Seconds()
	switch {
	case f == nil:
		m.State = moveDone
	case f.Code == Cancelled:
		m.State = moveCancelled
	default:
		m.State, m.Why = moveFailed, f.Text
	}
	t.Move = &m
	s.saveMove(m)
	event := plan.Event{Kind: plan.EventMove, Workload: id, Move: &m}
	switch m.State {
	case moveDone:
		if m.Moved < step.Bytes/2 || immovable(&m) { // the rest would not move either if tried at once
			s.putOff(&step, "", "")
		} else {
			delete(s.Retries, work.KeyOf(&step))
		}
		switch {
		case m.Refused > 0 && m.Moved == 0:
			s.event(event, words.MoveEndedNone, m.Home, m.Refused, m.Why)
		case m.Refused > 0:
			s.event(event, words.MoveEndedPart, m.Moved, m.Home, m.Seconds, m.Refused, m.Why)
		case m.Moved > 0:
			s.event(event, words.MoveEnded, m.Moved, m.Home, m.Seconds)
		}
		s.forgetStep(&step)
		t.Steps = t.Steps[1:]
		s.next(id, t)
	case moveCancelled:
		s.event(event, words.MoveCancelled, m.Home, m.Moved, m.Planned)
		t.Cancelled = true
		s.end(id, t)
	default:
		if t.Request != 0 { // failed tells of those that homenode does by itself
			event.Error = true
			s.event(event, words.MoveFailed, m.Home, f.Text)
			s.forgetUnchanged(id)
		}
		s.failed(id, t, step, &Result{Failed: f})
	}
}

// putOff is why a page move is not tried now.
func putOff(text string) words.Reason {
	if text == "" {
		return words.Because(words.FlightPutOffRest)
	}
	return words.Because(words.FlightPutOff, text)
}

// immovable reports whether a part of the memory that counts (see package place) was
// left behind for reasons that last.
func immovable(m *plan.Move) bool {
	var lasting int64
	for _, x := range m.RefusedBy {
		if x.Cause.Lasts() {
			lasting += x.Bytes
		}
	}
	return lasting*100 >= m.Planned && lasting > 0
}

// managersCPUs is what other managers keep for work of their own.
func (s *State) managersCPUs() topology.CPUSet {
	var out topology.CPUSet
	for i := range s.Managers {
		out = out.Union(s.Managers[i].CPUs)
	}
	return out
}
