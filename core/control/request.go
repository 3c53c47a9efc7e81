package control

import (
	"cmp"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/homenode/homenode/core/balance"
	"github.com/homenode/homenode/core/place"
	"github.com/homenode/homenode/core/plan"
	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/core/words"
	"github.com/homenode/homenode/core/workload"
)

func (s *State) request(r *Request) {
	if s.mustSee(r) {
		if why := s.Told[scanFailed]; why != "" {
			s.reply(Reply{ID: r.ID, Failed: &Failure{Failed, why}})
			return
		}
		s.Waiting = append(s.Waiting, r)
		return
	}
	s.endsTrial(r)
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
	case r.Share != nil:
		s.setSharing(r.ID, r.Share.On, r.DryRun)
	case r.Upgrade != nil:
		s.upgrade(r.ID, *r.Upgrade, r.DryRun)
	case r.Change != nil:
		s.change(r.ID, r.Change)
	default:
		s.reply(Reply{ID: r.ID, Failed: refuse(BadRequest, words.NothingAsked)})
	}
}

// mustSee reports whether a request is about what the first scan, which is under way, is to
// see. What the journal or a hold knows can be put back without.
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
	return r.Place != nil || r.Move != nil || r.Partition != nil || r.Trial != nil && !r.Trial.End
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

// admit finds a home for what is about to start. With a process it is written into the
// ledger and the process is a workload from the next scan on; with a time to hold it is
// kept so long for a workload that its source will show.
func (s *State) admit(id uint64, in *PlaceRequest) {
	if f := check(in); f != nil {
		s.reply(Reply{ID: id, Failed: f})
		return
	}
	if s.Snapshot.Host == nil {
		s.reply(Reply{ID: id, Failed: refuse(Failed, words.NotScannedYet)})
		return
	}
	s.ended(in.Ended)
	s.started(in.Admitted)
	spec := in.Spec
	if in.Release {
		s.letGo(spec.ID)
		s.reply(Reply{ID: id, Place: &Placed{}})
		return
	}
	if in.Starts {
		why := s.leave(&workload.Observation{ID: spec.ID, Name: spec.Name}, in.Names)
		if !why.None() {
			s.reply(Reply{ID: id, Failed: &Failure{Forbidden, why.String()}})
			return
		}
	}
	if a, ok := s.Admissions[spec.ID]; ok && in.Hold > 0 && a.Process.PID == 0 && reflect.DeepEqual(a.Spec, spec) { // held for longer
		a.Until, a.From = s.At.Add(in.Hold), s.origin(in)
		s.reply(Reply{ID: id, Place: s.heldStill(a)})
		return
	}
	spec.Near = slices.Clone(spec.Near)
	from := s.origin(in)
	of := from.Owner
	if s.by == nil && of == workload.SystemOwner { // nobody is known to ask
		of = workload.AnyOwner
	}
	s.locate(spec.Near, of)
	if in.Process.PID > 0 {
		spec.ID = ProcessID(in.Process.PID)
	}
	beyond := s.mayBook(&spec, &from)
	switch {
	case beyond.None():
	case in.Starts || in.Exact != nil: // it runs in any case, without what it said of itself
		withoutOwn(&spec, &from.Asked)
		spec.CPUs, from.Asked = max(1, spec.CPUs), workload.Asked{}
	default:
		s.reply(Reply{ID: id, Failed: &Failure{NoRoom, words.Because(words.NoHome, beyond).String()}})
		return
	}
	if in.Exact != nil {
		s.admitExact(id, &spec, from, in)
		return
	}
	if spec.CPUs == 0 {
		s.admitMemory(id, &spec, from, in)
		return
	}
	// A command starts whatever others asked for; what a home is held for can wait.
	result := s.placed(place.Request{Spec: spec, Crowd: spec.ID == "" || in.Process.PID > 0 || in.Starts}, in.Beside)
	answer := &Placed{Placement: result.Placement, Decision: result.Decision}
	if !beyond.None() {
		answer.Decision.Reasons = append(slices.Clip(answer.Decision.Reasons), words.Because(words.CountsAsUsed, beyond))
	}
	if result.Decision.Outcome == plan.Refused {
		if in.Process.PID > 0 {
			s.tellPlaced(&spec, &result.Decision)
		}
		s.reply(Reply{ID: id, Place: answer, Failed: &Failure{NoRoom, words.Because(words.NoHome, words.Join(result.Decision.Reasons)).String()}})
		return
	}
	if in.Process.PID == 0 && in.Hold == 0 {
		s.reply(Reply{ID: id, Place: answer})
		return
	}
	a := Admission{Spec: spec, From: from, Process: in.Process, Had: s.hadBefore(in), Placement: result.Placement, Scan: s.Scans}
	if in.Process.PID > 0 {
		a.Placement.Start = in.Process.Start
		answer.Placement, answer.Ledger = a.Placement, true
		s.book(append(result.Others, a.Placement))
		s.Given[spec.ID], s.givenSeen = a.Placement.CPUs, false
		s.chose(&result.Decision)
		s.tellPlaced(&spec, &result.Decision)
		s.savePlacements()
	} else {
		a.Until = s.At.Add(in.Hold)
		s.Ledger().Commit(a.Placement)
	}
	s.Admissions[spec.ID] = a
	s.saveAdmission(spec.ID, a)
	s.reply(Reply{ID: id, Place: answer})
}

// heldStill extends a hold and returns what is held. What lost CPUs that went offline is placed
// anew, for who asks learns where; unless its work runs there already, or there is no room: then
// it keeps the rest, and has the others again when they come online.
func (s *State) heldStill(a Admission) *Placed {
	lost := s.offline(&a.Placement)
	if !lost.Empty() && !s.inUse(&a.Placement) {
		l := s.Ledger()
		l.Remove(a.Spec.ID)
		if r := l.Place(place.Request{Spec: a.Spec}); r.Placed() {
			a.Placement, lost = r.Placement, topology.CPUSet{}
		}
		l.Commit(a.Placement)
	}
	s.Admissions[a.Spec.ID] = a
	s.saveAdmission(a.Spec.ID, a)
	out := &Placed{Placement: a.Placement, Decision: plan.Decision{Workload: a.Spec.ID, Outcome: plan.Kept, Home: a.Placement.Home, Reasons: words.Reasons(words.Because(words.HeldStill))}}
	if !lost.Empty() {
		p := &out.Placement
		p.CPUs, p.Idle = p.CPUs.Minus(lost), p.Idle.Minus(lost)
		p.Pins = slices.DeleteFunc(slices.Clone(p.Pins), lost.Has)
		p.VCPUs = len(p.Pins)
		out.Decision.Reasons = append(out.Decision.Reasons, words.Because(words.HeldLost, lost, p.CPUs))
	}
	return out
}

// offline returns the CPUs of dedicated work that the newest scan did not find online.
func (s *State) offline(p *workload.Placement) topology.CPUSet {
	if p.Class != workload.Dedicated {
		return topology.CPUSet{}
	}
	return p.CPUs.Union(p.Idle).Minus(s.Snapshot.Host.Online)
}

// inUse reports whether work that has its CPUs from a hold (see workload.Claim.Booked) runs on
// CPUs of this one.
func (s *State) inUse(p *workload.Placement) bool {
	for id, c := range s.Claims {
		o := s.observation(id)
		if c.Booked && o != nil && o.CPUs.Intersects(p.CPUs) {
			return true
		}
	}
	return false
}

// tellLost reports the holds that lost CPUs, for as long as they are offline.
func (s *State) tellLost() {
	for _, id := range sortedKeys(s.Admissions) {
		a := s.Admissions[id]
		lost := s.offline(&a.Placement)
		if a.Process.PID != 0 || a.Exact || lost.Empty() {
			continue
		}
		s.Snapshot.Problems = append(slices.Clip(s.Snapshot.Problems), workload.Problem{
			Subject: cmp.Or(a.Spec.Name, string(id)), Text: words.Because(words.HeldLost, lost, a.Placement.CPUs.Minus(lost)).String()})
	}
}

// admitMemory holds memory without CPUs.
func (s *State) admitMemory(id uint64, spec *workload.Spec, from workload.Origin, in *PlaceRequest) {
	p, free, ok := s.Ledger().PlaceMemory(*spec)
	if !ok {
		s.reply(Reply{ID: id, Failed: refuse(NoRoom, words.MemoryNotFree, int64(spec.Memory), spec.Nodes, int64(free))})
		return
	}
	s.Ledger().Commit(p)
	a := Admission{Spec: *spec, From: from, Placement: p, Scan: s.Scans, Until: s.At.Add(in.Hold)}
	s.Admissions[spec.ID] = a
	s.saveAdmission(spec.ID, a)
	s.reply(Reply{ID: id, Place: &Placed{Placement: p, Decision: plan.Decision{Workload: spec.ID, Outcome: plan.Placed, Home: p.Home}}})
}

// letGo ends what is held for work that has not come.
func (s *State) letGo(id workload.ID) {
	if a, ok := s.Admissions[id]; !ok || a.Process.PID != 0 {
		return
	}
	delete(s.Admissions, id)
	s.saveAdmissions()
	if place.Of(s.Homes(), id) != nil { // as of the newest scan
		s.Plan.Placements = slices.DeleteFunc(slices.Clone(s.Homes()), func(p workload.Placement) bool { return p.Workload == id })
		s.savePlacements()
	}
	if s.ledger != nil {
		s.ledger.Remove(id)
	}
}

// hadBefore is the CPUs that a process might use before it first became a run: one within
// another, in the same process, is of the same command.
func (s *State) hadBefore(in *PlaceRequest) topology.CPUSet {
	if was, ok := s.Admissions[ProcessID(in.Process.PID)]; ok && was.Process == in.Process && !was.Had.Empty() {
		return was.Had
	}
	return in.Had
}

// Booked is the processes that hold something, each once: what `homenode run` placed, and
// those whose home a scan has booked.
func (s *State) Booked() []workload.Process {
	var out []workload.Process
	seen := map[workload.Process]bool{}
	add := func(p workload.Process) {
		if p.PID > 0 && p.Start != 0 && !seen[p] {
			seen[p] = true
			out = append(out, p)
		}
	}
	for _, id := range sortedKeys(s.Admissions) {
		add(s.Admissions[id].Process)
	}
	homes := s.Homes()
	for i := range homes {
		if pid, ok := strings.CutPrefix(string(homes[i].Workload), "pid:"); ok {
			n, _ := strconv.Atoi(pid)
			add(workload.Process{PID: n, Start: homes[i].Start})
		}
	}
	return out
}

// started books what was given a home by others than this daemon, since it started or while
// it did not answer.
func (s *State) started(all []Admission) {
	exact := false
	for _, a := range all {
		id := a.Placement.Workload
		if was, ok := s.Admissions[id]; ok && was.Process == a.Process || s.Holds.IDs[id] {
			continue
		}
		a.Scan = s.Scans
		s.Admissions[id] = a
		s.saveAdmission(id, a)
		s.Given[id], s.givenSeen = a.Placement.CPUs, false
		if exact = exact || a.Exact; !a.Exact {
			s.book([]workload.Placement{a.Placement})
			s.savePlacements()
		}
	}
	if exact {
		s.keepClear()
		s.ledger = nil
	}
}

// ended takes processes that are no more out of what is booked: what has ended holds
// nothing, also before the next scan.
func (s *State) ended(all []workload.Process) {
	gone, admitted, exact := map[workload.ID]bool{}, len(s.Admissions), false
	for _, p := range all {
		id := ProcessID(p.PID)
		if a, ok := s.Admissions[id]; ok && a.Process == p {
			delete(s.Admissions, id)
			delete(s.Given, id)
			exact = exact || a.Exact
		}
		if at := place.Of(s.Homes(), id); at != nil && at.Start == p.Start {
			gone[id] = true
		}
	}
	if len(s.Admissions) != admitted {
		s.saveAdmissions()
	}
	if exact && s.Snapshot.Host != nil { // its CPUs were reserved
		s.Facts.Policy, s.ledger = s.policy(s.Snapshot.Host), nil
		s.keepClear()
	}
	if len(gone) == 0 {
		return
	}
	s.Plan.Placements = slices.DeleteFunc(slices.Clone(s.Homes()), func(p workload.Placement) bool { return gone[p.Workload] })
	s.savePlacements()
	if s.ledger != nil {
		for _, id := range sortedKeys(gone) { // sums of fractions depend on their order
			s.ledger.Remove(id)
		}
	}
}

// chose remembers why a home was chosen.
func (s *State) chose(d *plan.Decision) { s.chosen = append(s.chosen, *d) }

// chosenAll brings Chosen up to date. Readers have the map as it was.
func (s *State) chosenAll() map[workload.ID]plan.Decision {
	if len(s.chosen) > 0 {
		s.Chosen, s.kept = cloned(s.Chosen), nil
		for i := range s.chosen {
			s.Chosen[s.chosen[i].Workload] = s.chosen[i]
		}
		s.chosen = nil
	}
	return s.Chosen
}

// book puts placements into the newest plan and the ledger.
func (s *State) book(changed []workload.Placement) {
	if s.homes == nil {
		s.homes = plan.HomesOf(s.Plan.Placements)
	}
	s.homes = s.homes.With(changed...)
	for _, p := range changed {
		s.Ledger().Commit(p)
	}
}

// Homes is the placements as they are now: Plan.Placements is brought up to date.
func (s *State) Homes() []workload.Placement {
	if s.homes != nil {
		all := s.homes.All()
		if s.saved == s.homes {
			s.saved = plan.HomesOf(all)
		}
		s.Plan.Placements, s.homes = all, nil
	}
	return s.Plan.Placements
}

// tellPlaced writes what became of a request into the history. A refusal is an answer to
// who asked, no error: nothing runs without a home for it.
func (s *State) tellPlaced(spec *workload.Spec, d *plan.Decision) {
	s.event(plan.Event{Kind: plan.EventPlan, Workload: spec.ID}, words.RequestDecided, spec.Name, string(spec.Class), spec.CPUs, decided(d))
}

// mostHold bounds how long a home is held for what does not come: CPUs and memory that
// nobody uses are missing to others, and hooks ask for a minute.
const mostHold = time.Hour

func check(in *PlaceRequest) *Failure {
	w := &in.Spec
	if in.Release {
		if w.ID == "" || in.Process.PID != 0 || in.Hold != 0 || in.Exact != nil {
			return refuse(BadRequest, words.BadValue, "release", true, "the id of what is held, and nothing else")
		}
		return nil
	}
	if _, err := workload.ParseClass(string(w.Class)); err != nil {
		return &Failure{BadRequest, err.Error()}
	}
	var err error
	if w.Tier, err = workload.ParseTier(string(w.Tier)); err == nil {
		_, _, err = w.Tier.With(w.Class)
	}
	if err != nil {
		return &Failure{BadRequest, err.Error()}
	}
	bad := func(key string, value any, want string) *Failure {
		return refuse(BadRequest, words.BadValue, key, value, want)
	}
	switch {
	case w.CPUs == 0 && in.Hold > 0 && w.Memory > 0 && w.Nodes.Len() == 1: // memory alone
	case w.CPUs < 1 || w.CPUs > topology.MaxID:
		return bad("cpus", w.CPUs, "1 or more")
	case w.Memory < 0 || w.Memory > 1<<50:
		return bad("memory", int64(w.Memory), "KiB, 0 (unknown) or more")
	case w.HugePage < 0 || w.HugePage > 1<<25:
		return bad("huge_page_kib", int64(w.HugePage), "a page size in KiB, or 0")
	case in.Process.PID < 0:
		return bad("process", in.Process.PID, "a PID")
	case in.Hold < 0 || in.Hold > mostHold:
		return bad("hold_s", int64(in.Hold/time.Second), "0 to 3600")
	case in.Exact != nil && in.Exact.CPUs.Empty() && (in.Exact.Nodes.Empty() || w.Class == workload.Dedicated):
		return bad("exact", "", "CPUs, or nodes for memory")
	case in.Exact != nil && in.Hold > 0:
		return bad("hold_s", int64(in.Hold/time.Second), "0 where CPUs or nodes are named")
	case in.Process.PID == 0 && in.Hold > 0 && w.ID == "":
		return bad("id", "", "the workload to hold a home for")
	}
	switch w.SMT {
	case "", workload.SMTPrefer, workload.SMTIsolate, workload.SMTRequire:
		return nil
	}
	return bad("smt", string(w.SMT), "prefer, isolate or require")
}

// move gives a workload the home that a person names, or cancels its page move.
func (s *State) move(id uint64, in *MoveRequest, of workload.Lineage) {
	answer, f := s.ordered(in, of)
	s.reply(Reply{ID: id, Move: answer, Failed: f})
}

func (s *State) ordered(in *MoveRequest, of workload.Lineage) (*Moved, *Failure) {
	id, f := find(running(s.Snapshot.Observations, s.Claims), in.ID, of)
	switch {
	case f != nil:
		return nil, f
	case in.Cancel:
		return s.cancelMove(id, in.DryRun)
	case in.To.Empty():
		return nil, refuse(BadRequest, words.NameNodes)
	}
	if f := s.mayMove(id, in.DryRun); f != nil {
		return nil, f
	}
	return s.rehome(id, in)
}

// mayMove is why an order is not even looked at.
func (s *State) mayMove(id workload.ID, dry bool) *Failure {
	if f := movedByManager(id, s.Claims[id]); f != nil {
		return f
	}
	switch {
	case dry:
		return nil
	case !s.Settings.Enforce:
		return refuse(Forbidden, words.ObserveOnly)
	case s.Holds.All:
		return refuse(Forbidden, words.AllHeldFirst)
	case !s.Halted.None():
		return &Failure{Failed, s.Halted.String()}
	}
	return nil
}

// movedByManager refuses to move what only its manager can.
func movedByManager(id workload.ID, c *workload.Claim) *Failure {
	if c == nil || !c.Fixed {
		return nil
	}
	return refuse(NoRoom, words.ManagerMoves, string(id), c.MovedBy)
}

// rehome decides on an order and makes it the newest plan.
func (s *State) rehome(id workload.ID, in *MoveRequest) (*Moved, *Failure) {
	facts := s.Facts
	s.Facts.Placements = s.withAdmissions(s.Homes()) // what is held for others too
	order := s.input(s.At)
	s.Facts = facts
	next, answer, f := orderOn(order, s.Homes(), id, in.To)
	if f != nil || in.DryRun {
		return answer, f
	}
	if answer.Outcome == plan.Kept {
		s.tryAgain(id)
		s.release(id)
		return answer, nil
	}
	next.Placements = s.withStartTimes(next.Placements)
	s.release(id)
	past := balance.HomeChange{Workload: id, From: answer.From, To: answer.To, At: s.At.Round(0).UTC()}
	s.Orders = append(slices.Clip(s.Orders), past)
	// The ban on going back outlives a daemon that ends before its next scan.
	s.save(KeyPast, slices.Concat(s.History.Changes, s.Orders))
	s.Plan, s.own, s.ledger = next, false, nil
	s.savePlacements()
	s.chose(&answer.Decision)
	s.save(KeyChosen, s.chosenAll())
	s.tryAgain(id) // what failed on the way to the old home says nothing of the new one
	s.order(id, words.MovedByOrder, answer.To, answer.CPUs, answer.From, answer.FromCPUs)
	if s.acts() {
		s.dispatch() // a page move to the old home ends
	}
	return answer, nil
}

// orderOn is the plan that follows from an order, and what of it is about the workload. homes
// is where everything is now.
func orderOn(in balance.Input, homes []workload.Placement, id workload.ID, to topology.NodeSet) (plan.Plan, *Moved, *Failure) {
	for i, x := range in.Subjects {
		if x.Observation.ID == id && !x.Aside.None() { // who names it wants it placed
			named := *x
			named.Aside = words.Reason{}
			in.Subjects = slices.Clone(in.Subjects)
			in.Subjects[i] = &named
		}
	}
	next, d := balance.Order(in, id, to)
	answer := &Moved{Workload: id, Outcome: d.Outcome, Decision: d}
	if was := place.Of(homes, id); was != nil {
		answer.From, answer.FromCPUs = was.Home, was.CPUs
	}
	switch d.Outcome {
	case plan.Kept:
		answer.To, answer.CPUs = answer.From, answer.FromCPUs
		return next, answer, nil
	case plan.Placed:
	default:
		return next, answer, refuse(NoRoom, words.NotMoved, string(id), words.Join(d.Reasons))
	}
	if bad := plan.CheckPlan(in.State, next); len(bad) > 0 {
		return next, answer, &Failure{Failed, words.Because(words.PlanUnsound, len(bad), bad[0].String()).String()}
	}
	p := place.Of(next.Placements, id)
	answer.To, answer.CPUs = p.Home, p.CPUs
	for _, step := range next.Steps {
		if step.Workload == id {
			answer.Steps = append(answer.Steps, step)
		}
	}
	return next, answer, nil
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
	queued := s.Settings.Enforce && !s.Holds.Has(id) && slices.ContainsFunc(s.Plan.Steps, func(x plan.Step) bool { return x.Workload == id && x.Kind == plan.MovePages })
	if !moving && !queued {
		return nil, refuse(NotFound, words.NoMove, string(id))
	}
	answer := &Moved{Workload: id, Outcome: plan.Cancelled}
	if p := place.Of(s.Homes(), id); p != nil {
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
		s.cancel(id, t)
	}
	return answer, nil
}

// setPartition moves the line between dedicated and shared work, unless work stands in
// the way; in a dry run it says where the line would be.
func (s *State) setPartition(id uint64, want plan.Partition, dryRun bool) {
	h := s.Snapshot.Host
	no := func(f *Failure) { s.reply(Reply{ID: id, Failed: f}) }
	if want == "" {
		no(refuse(BadRequest, words.PartitionEmpty))
		return
	}
	if h == nil {
		no(refuse(Failed, words.NotScannedYet))
		return
	}
	st := s.Facts
	if err := want.Apply(h, &st.Policy); err != nil {
		no(refuse(BadRequest, words.PartitionUnfit, err.Error()))
		return
	}
	st.Placements = s.withAdmissions(s.Homes()) // what is held for others too
	if block := place.InTheWay(st); len(block) > 0 {
		no(refuse(NoRoom, words.PartitionBlocked, words.Some(words.Sentences(block), 3)))
		return
	}
	if dryRun {
		s.reply(Reply{ID: id, Partition: &PartitionNow{orAny(want), st.Policy.Split, st.Policy.Dedicated}})
		return
	}
	before := s.Partition
	s.save(KeyPartition, SavedPartition{want, s.Settings.Partition})
	s.Partition, s.Facts.Policy, s.ledger = want, st.Policy, nil
	now := s.PartitionNow()
	s.order("", words.PartitionSet, string(orAny(before)), string(now.Partition), now.Dedicated)
	s.reply(Reply{ID: id, Partition: &now})
}

// PartitionNow is the partition as it holds.
func (s *State) PartitionNow() PartitionNow {
	p := &s.Facts.Policy
	return PartitionNow{orAny(s.Partition), p.Split, p.Dedicated}
}

func orAny(p plan.Partition) plan.Partition {
	if p == "" {
		return plan.AnyClass
	}
	return p
}

// queued is a task that waits for another of its workload to end.
type queued struct {
	ID   workload.ID
	Task *Task
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
			s.reply(Reply{ID: id, Failed: refuse(BadRequest, words.OneWorkload)})
			return
		}
	}
	if s.Stopping {
		s.reply(Reply{ID: id, Failed: refuse(Failed, words.DaemonEnds)})
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
	s.dropSteps(Which{ID: w}) // they were planned on how it was before
	t := &Task{Steps: slices.Clone(in.Steps), Request: id, Together: in.Together, Scan: s.Seen}
	now := s.Tasks[w]
	if now != nil { // who asks has the last word
		s.cancel(w, now)
	}
	if now != nil || s.undoes(w) {
		s.Queued = append(s.Queued, &queued{w, t})
		return
	}
	s.begin(w, t)
}

// movedByHand is the nodes that a person moves a process to by these steps; "" when they are others.
func movedByHand(steps []plan.Step) string {
	last := &steps[len(steps)-1]
	if last.Kind == plan.MovePages && last.Reason.Code == words.MovedByHand {
		return last.To
	}
	return ""
}

// changed answers who asked for steps.
func (s *State) changed(t *Task) {
	cut := &Failure{Cancelled, words.Because(words.HeldByHand).String()}
	if n := len(t.Errs); t.Together && n > 0 && t.Errs[n-1] != nil {
		cut = t.Errs[n-1]
	}
	for range t.Steps {
		t.Errs = append(t.Errs, cut)
	}
	s.reply(Reply{ID: t.Request, Changed: t.Errs})
}

// dequeue begins a task that waited for this workload.
func (s *State) dequeue(id workload.ID) {
	i := slices.IndexFunc(s.Queued, func(q *queued) bool { return q.ID == id })
	if i < 0 || s.undoes(id) {
		return
	}
	t := s.Queued[i].Task
	s.Queued = slices.Delete(s.Queued, i, i+1)
	s.begin(id, t)
}
