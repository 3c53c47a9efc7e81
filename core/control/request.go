package control

import (
	"reflect"
	"slices"

	"github.com/homenode/homenode/core/control/homes"
	"github.com/homenode/homenode/core/control/scene"
	"github.com/homenode/homenode/core/control/view"
	"github.com/homenode/homenode/core/control/work"
	"github.com/homenode/homenode/core/place"
	"github.com/homenode/homenode/core/plan"
	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/core/words"
	"github.com/homenode/homenode/core/workload"
)

func (s *State) request(r *Request) {
	if s.mustSee(r) {
		if why := s.Told[scanFailed]; why != "" {
			s.reply(Reply{ID: r.ID, Failed: &Failure{Code: Failed, Text: why}})
			return
		}
		s.Waiting = append(s.Waiting, r)
		return
	}
	if what := r.overrules(); what != "" {
		s.Overrule(s.trials(), what)
	}
	switch {
	case r.Trial != nil:
		s.orderTrial(r.ID, r.Trial)
	case r.Place != nil:
		s.admit(r.ID, r.Place)
	case r.Move != nil:
		s.move(r.ID, r.Move, r.Lineage)
	case r.Undo != nil:
		s.undo(r.ID, *r.Undo, r.Lineage)
	case r.Resume != nil:
		s.resume(r.ID, *r.Resume, r.Lineage)
	case r.Partition != nil:
		s.setPartition(r.ID, *r.Partition, r.DryRun)
	case s.orderConcerns(r):
	case r.Change != nil:
		s.change(r.ID, r.Change)
	default:
		s.reply(Reply{ID: r.ID, Failed: work.Refuse(BadRequest, words.NothingAsked)})
	}
}

// mustSee reports whether a request is about what the first scan, which is under way, is to
// see. What the journal or a hold knows can be restored without.
func (s *State) mustSee(r *Request) bool {
	if s.Seen > 0 || s.Scans == 0 {
		return false
	}
	of := func(which Which) bool {
		f := s.means(&which, r.Lineage)
		return f != nil && f.Code == NotFound && s.Told[scanFailed] == ""
	}
	switch {
	case r.Undo != nil:
		return of(*r.Undo)
	case r.Resume != nil:
		return of(*r.Resume)
	}
	return r.Place != nil || r.Move != nil || r.Partition != nil || (r.Trial != nil && !r.Trial.End)
}

// answerWaiting answers what has waited for the first scan, whether that saw anything or not.
func (s *State) answerWaiting() {
	waiting := s.Waiting
	s.Waiting = nil
	for _, r := range waiting {
		s.by = r.By
		s.request(r)
		s.by = nil
	}
}

// withdraw forgets a request that waits for the first scan.
func (s *State) withdraw(id uint64) {
	s.Waiting = slices.DeleteFunc(s.Waiting, func(r *Request) bool { return r.ID == id })
}

// admit finds a home for work that is about to start.
func (s *State) admit(id uint64, in *PlaceRequest) {
	if f := view.FailureOf(in.Check()); f != nil {
		s.reply(Reply{ID: id, Failed: f})
		return
	}
	if s.Snapshot.Host == nil {
		s.reply(Reply{ID: id, Failed: work.Refuse(Failed, words.NotScannedYet)})
		return
	}
	now := s.now()
	s.keep(s.Exited(now, in.Ended, func() plan.Policy { return s.policy(s.Snapshot.Host) }))
	s.keep(s.Adopt(now, in.Admitted, s.Holds.IDs))
	if in.Release {
		s.keep(s.Release(in.Spec.ID))
		s.reply(Reply{ID: id, Place: &Placed{}})
		return
	}
	if in.Starts {
		why := s.leave(&workload.Observation{ID: in.Spec.ID, Name: in.Spec.Name}, in.Names)
		if !why.None() {
			s.reply(Reply{ID: id, Failed: &Failure{Code: Forbidden, Text: why.String()}})
			return
		}
	}
	a, ok := s.Admissions[in.Spec.ID]
	held := ok && a.Process.PID == 0 && in.Hold > 0
	if held && reflect.DeepEqual(a.Spec, in.Spec) {
		a.Until, a.From = s.At.Add(in.Hold), s.origin(in)
		s.placed(id, s.Extend(now, a, s.runsOn))
		return
	}
	placing, f := s.placing(in)
	if f != nil {
		s.reply(Reply{ID: id, Failed: f})
		return
	}
	s.placed(id, s.Place(now, placing))
}

// placing returns a request as it counts: with peers that are located, and within the ceiling
// of its party.
func (s *State) placing(in *PlaceRequest) (*homes.Placing, *Failure) {
	out := &homes.Placing{PlaceRequest: in, As: in.Spec, From: s.origin(in)}
	if len(in.Spec.Goals) > 0 && out.From.Owner != workload.SystemOwner {
		return nil, work.Refuse(Forbidden, words.GoalNotYours)
	}
	spec := &out.As
	spec.Near = slices.Clone(spec.Near)
	of := out.From.Owner
	if s.by == nil && of == workload.SystemOwner { // nobody is known to ask
		of = workload.AnyOwner
	}
	s.Locate(spec.Near, of)
	if in.Process.PID > 0 {
		spec.ID = ProcessID(in.Process.PID)
	}
	out.Beyond = s.mayBook(spec, &out.From)
	if out.Beyond.None() {
		return out, nil
	}
	runsAnyway := in.Starts || in.Exact != nil
	if !runsAnyway {
		return nil, work.Refuse(NoRoom, words.NoHome, out.Beyond)
	}
	scene.WithoutOwn(spec, &out.From.Asked) // it runs without what its party said of it
	spec.CPUs, out.From.Asked = max(1, spec.CPUs), workload.Asked{}
	return out, nil
}

// placed writes what a request for a home led to, and answers it.
func (s *State) placed(id uint64, r homes.Result) {
	if e := r.Event; e != nil {
		s.event(plan.Event{Kind: plan.EventPlan, Workload: e.Workload}, e.Code, e.Values...)
	}
	s.keep(r.Save)
	if r.Placed != nil && r.Placed.Ledger {
		s.widen(s.Placements())
	}
	s.reply(Reply{ID: id, Place: r.Placed, Failed: view.FailureOf(r.Refused)})
}

// runsOn reports whether work that has its CPUs from a hold (see workload.Claim.Booked) runs on
// some of these.
func (s *State) runsOn(cpus topology.CPUSet) bool {
	for id, c := range s.Claims {
		o := s.Observation(id)
		if c.Booked && o != nil && o.CPUs.Intersects(cpus) {
			return true
		}
	}
	return false
}

// move gives a workload the home that a person names, or cancels its page move.
func (s *State) move(id uint64, in *MoveRequest, of workload.Lineage) {
	answer, f := s.ordered(in, of)
	s.reply(Reply{ID: id, Move: answer, Failed: f})
}

func (s *State) ordered(in *MoveRequest, of workload.Lineage) (*Moved, *Failure) {
	id, f := view.Find(scene.Running(s.Snapshot.Observations, s.Claims), in.ID, of)
	switch {
	case f != nil:
		return nil, f
	case in.Cancel:
		return s.cancelMove(id, in.DryRun)
	case in.To.Empty():
		return nil, work.Refuse(BadRequest, words.NameNodes)
	}
	if f := s.mayMove(id, in.DryRun); f != nil {
		return nil, f
	}
	s.keep(s.Adopt(s.now(), in.Admitted, s.Holds.IDs))
	return s.rehome(id, in)
}

// mayMove returns why an order is refused at once.
func (s *State) mayMove(id workload.ID, dry bool) *Failure {
	if f := view.FailureOf(homes.MovedByManager(id, s.Claims[id])); f != nil {
		return f
	}
	switch {
	case dry:
		return nil
	case !s.Settings.Enforce:
		return work.Refuse(Forbidden, words.ObserveOnly)
	case s.Holds.All:
		return work.Refuse(Forbidden, words.AllHeldFirst)
	case !s.Halted.None():
		return &Failure{Code: Failed, Text: s.Halted.String()}
	}
	return nil
}

// rehome decides on an order and makes it the newest plan.
func (s *State) rehome(id workload.ID, in *MoveRequest) (*Moved, *Failure) {
	order := s.input(s.At)
	order.State.Placements = s.withAdmissions(s.Placements()) // what is held for others too
	next, answer, bad := homes.Order(order, s.Placements(), id, in.To)
	if bad != nil || in.DryRun {
		return answer, view.FailureOf(bad)
	}
	if answer.Outcome == plan.Kept {
		s.TryAgain(id)
		s.release(id)
		return answer, nil
	}
	s.release(id)
	s.keep(s.Homes.Follow(next, answer, s.scanned(), s.At))
	s.NewPlan()
	s.TryAgain(id) // what failed on the way to the old home says nothing of the new one
	s.order(id, words.MovedByOrder, answer.To, answer.CPUs, answer.From, answer.FromCPUs)
	if s.acts() {
		s.Dispatch() // a page move to the old home ends
	}
	return answer, nil
}

// release ends the hold of one workload.
func (s *State) release(id workload.ID) {
	if s.Holds.IDs[id] {
		delete(s.Holds.IDs, id)
		s.saveHolds()
	}
}

// cancelMove stops the page move of a workload and holds it: what has moved stays, and
// nothing more is done to it until it is resumed or told to move.
func (s *State) cancelMove(id workload.ID, dry bool) (*Moved, *Failure) {
	t := s.Tasks[id]
	moving := t != nil && t.Transfer != nil
	queued := s.Settings.Enforce && !s.Holds.Has(id) &&
		slices.ContainsFunc(s.Steps(), func(x plan.Step) bool { return x.Workload == id && x.Kind.MovesPages() })
	if !moving && !queued {
		return nil, work.Refuse(NotFound, words.NoMove, string(id))
	}
	answer := &Moved{Workload: id, Outcome: plan.Cancelled}
	if p := place.Of(s.Placements(), id); p != nil {
		answer.To, answer.CPUs = p.Home, p.CPUs
	}
	if t != nil {
		answer.Move = t.Move
	}
	if dry {
		return answer, nil
	}
	s.hold(Which{ID: id})
	s.order(id, words.MoveCancelledByHand)
	if t != nil {
		s.Cancel(id, t)
	}
	return answer, nil
}

// setPartition moves the line between dedicated and shared work, unless work stands in
// the way; in a dry run it says where the line would be.
func (s *State) setPartition(id uint64, want plan.Partition, dryRun bool) {
	h := s.Snapshot.Host
	no := func(f *Failure) { s.reply(Reply{ID: id, Failed: f}) }
	if want == "" {
		no(work.Refuse(BadRequest, words.PartitionEmpty))
		return
	}
	if h == nil {
		no(work.Refuse(Failed, words.NotScannedYet))
		return
	}
	st := s.Facts
	if err := want.Apply(h, &st.Policy); err != nil {
		no(work.Refuse(BadRequest, words.PartitionUnfit, err.Error()))
		return
	}
	st.Placements = s.withAdmissions(s.Placements()) // what is held for others too
	if block := place.InTheWay(st); len(block) > 0 {
		no(work.Refuse(NoRoom, words.PartitionBlocked, words.Some(words.Sentences(block), 3)))
		return
	}
	if dryRun {
		s.reply(Reply{ID: id, Partition: &PartitionNow{Partition: orAny(want), Split: st.Policy.Split,
			Dedicated: st.Policy.Dedicated}})
		return
	}
	before := s.Partition
	s.save(KeyPartition, SavedPartition{want, s.Settings.Partition})
	s.Partition, s.Facts.Policy = want, st.Policy
	s.DropLedger()
	now := s.PartitionNow()
	s.order("", words.PartitionSet, string(orAny(before)), string(now.Partition), now.Dedicated)
	s.reply(Reply{ID: id, Partition: &now})
}

// PartitionNow is the partition as it holds.
func (s *State) PartitionNow() PartitionNow {
	p := &s.Facts.Policy
	return PartitionNow{Partition: orAny(s.Partition), Split: p.Split, Dedicated: p.Dedicated}
}

func orAny(p plan.Partition) plan.Partition {
	if p == "" {
		return plan.AnyClass
	}
	return p
}

// change carries out steps that somebody asks for, which are all about one workload.
func (s *State) change(id uint64, in *Change) {
	if len(in.Steps) == 0 {
		s.reply(Reply{ID: id})
		return
	}
	w := in.Steps[0].Workload
	for i := range in.Steps {
		if in.Steps[i].Workload != w || w == "" {
			s.reply(Reply{ID: id, Failed: work.Refuse(BadRequest, words.OneWorkload)})
			return
		}
	}
	if s.Stopping {
		s.reply(Reply{ID: id, Failed: work.Refuse(Failed, words.DaemonEnds)})
		return
	}
	if s.by != nil {
		if to := movedByHand(in.Steps); to != "" {
			s.order(w, words.MoveOrdered, to)
		} else {
			s.order(w, words.ChangeOrdered, len(in.Steps))
		}
	}
	if in.Release {
		s.release(w)
	}
	s.DropSteps(Which{ID: w}) // they were planned on how it was before
	t := &Task{Steps: slices.Clone(in.Steps), Request: id, Together: in.Together, Scan: s.Seen}
	s.Queue(w, t)
}

// movedByHand is the nodes that a person moves a process to by these steps; "" when they are others.
func movedByHand(steps []plan.Step) string {
	last := &steps[len(steps)-1]
	if last.Kind.MovesPages() && last.Reason.Code == words.MovedByHand {
		return last.To
	}
	return ""
}
