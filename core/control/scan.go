package control

import (
	"cmp"
	"maps"
	"slices"
	"sort"
	"strings"
	"time"

	"github.com/homenode/homenode/core/balance"
	"github.com/homenode/homenode/core/control/concern/sharing"
	"github.com/homenode/homenode/core/control/work"
	"github.com/homenode/homenode/core/place"
	"github.com/homenode/homenode/core/plan"
	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/core/words"
	"github.com/homenode/homenode/core/workload"
)

// scanFailed is where Told has why the newest scan saw nothing.
const scanFailed = "scan"

// scan decides on what was seen: what lives, what it wants, where it belongs, and what
// is to be done next.
func (s *State) scan(in *Scan) {
	defer s.answerWaiting()
	if in.Failed != "" {
		s.once(scanFailed, plan.Event{Kind: plan.EventHost, Error: true}, words.ScanFailed, in.Failed)
		s.trialDue() // a host that cannot be seen must not stay without homenode
		return
	}
	s.over(scanFailed)
	s.Before = s.Snapshot
	s.Seen, s.Began, s.Took = in.Number, in.Began, in.Took
	snap, begun := s.Merge(in.Snapshot, in.Claims)
	var late []workload.ID // held, and found to have begun with what homenode had set
	for _, c := range begun {
		if s.begun(c) && s.Holds.Has(c.ID) {
			late = append(late, c.ID)
		}
	}
	s.Show(s.named(snap))
	s.Snapshot.Observations = s.ownWrites(s.Snapshot.Observations)
	unfollowed := s.Unfollowed(s.Settings.Rules)
	if len(unfollowed) > 0 {
		s.Snapshot.Problems = append(slices.Clip(s.Snapshot.Problems), unfollowed...)
	}
	by := s.basis()
	s.BoundClaims(by)
	s.LocateHelpers()
	s.Recognise(s.Settings.Recognise != "" && s.Settings.Recognise != RecogniseOff)
	s.Follow(by, s.Homes())
	s.decide()
	for _, id := range late { // it was undone while they began
		s.undo(0, Which{ID: id}, workload.Lineage{})
	}
}

// decide plans on what was seen, checks the plan and begins it.
func (s *State) decide() {
	s.Tried = map[workload.ID]bool{}
	s.forgetLeft()
	s.dropReplaced()
	s.Homes()
	before := *s // for what is told of the difference
	before.Snapshot, s.Before = s.Before, s.Snapshot
	s.Starts = startsOf(s.Snapshot.Observations)
	living := s.living(&before)
	s.Facts = plan.State{
		Host: s.Snapshot.Host, Policy: s.policy(s.Snapshot.Host), Unmanaged: s.Snapshot.Unmanaged,
		Placements: s.withClaims(living, s.Snapshot.Host),
	}
	s.keepClear()
	out, violations := s.sound(s.input(s.Began))
	s.noted(out.Plan.Report.Decisions)
	out.Plan.Placements = s.withStartTimes(out.Plan.Placements)
	s.Plan, s.own, s.Balancing, s.Halted = out.Plan, false, out.Report, words.Reason{}
	s.inUseAs = s.targetsInUse()
	if len(violations) == 0 {
		s.reconcile()
	}
	if changing := func(x plan.Step) bool { return s.changing(x.Workload) }; slices.ContainsFunc(s.Plan.Steps, changing) {
		s.Plan.Steps = slices.DeleteFunc(slices.Clone(s.Plan.Steps), changing)
	}
	if len(violations) > 0 { // the engine or the facts are wrong: neither is a ground to act on
		s.Halted = words.Because(words.PlanUnsound, len(violations), violations[0].String())
		s.Plan.Placements, s.Plan.Steps = before.Plan.Placements, nil
	}
	out.Plan.Steps = s.Plan.Steps
	s.wide = nil
	for i := range s.Plan.Placements {
		if p := &s.Plan.Placements[i]; p.Home.Len() > 1 && s.Settings.Divide {
			if s.wide == nil {
				s.wide = map[workload.ID]bool{}
			}
			for _, part := range s.observed(p.Workload) {
				s.wide[part] = true
			}
		}
	}
	asked := s.ledger != nil // there have been requests: the next is not to wait for a ledger
	s.ledger = nil
	s.out.Plan, s.out.Balance = &out.Plan, &out.Report
	s.tellLost()
	s.tellScan(&before)
	s.tellMoved()
	if s.Halted.None() {
		s.tellBalance()
		s.keepDecisions()
		if !samePlacements(s.saved.All(), s.Plan.Placements) {
			s.savePlacements()
		}
	}
	if asked {
		s.Ledger()
	}
	s.trialDue()
	s.surveyDue()
	s.interruptsDecided()
	if !s.acts() {
		return
	}
	s.checkSettings()
	s.lookForInherited()
	s.Plan.Steps = append(s.Plan.Steps, s.nextStarts(stepsOf(s.Plan.Steps))...)
	s.dispatch()
	s.verify() // what is restored does not wait for an answer
	s.prune()
}

// dropReplaced removes observations of processes that ended since they were seen, and whose PID
// `homenode run` has by now: what is known of one is not true of the other.
func (s *State) dropReplaced() {
	for _, id := range sortedKeys(s.Admissions) {
		a, o := s.Admissions[id], s.observation(id)
		if o == nil || o.Kind != workload.InProcess || a.Process.PID == 0 || a.Scan < s.Seen || startOf(o) >= a.Process.Start {
			continue
		}
		s.Snapshot.Observations = slices.DeleteFunc(slices.Clone(s.Snapshot.Observations), func(x workload.Observation) bool { return x.ID == id })
	}
}

// noted adds to decisions what the sources have to say of where workloads are.
func (s *State) noted(decisions []plan.Decision) {
	for i := range decisions {
		if c := s.Claims[decisions[i].Workload]; c != nil && !c.Note.None() {
			decisions[i].Reasons = append(slices.Clip(decisions[i].Reasons), c.Note)
		}
		if why, ok := s.Beyond[decisions[i].Workload]; ok {
			decisions[i].Reasons = append(slices.Clip(decisions[i].Reasons), words.Because(words.CountsAsUsed, why))
		}
	}
}

// begun writes into the journal what homenode had set of a workload before it began, and
// reports whether there was any.
func (s *State) begun(c *workload.Claim) (any bool) {
	for _, b := range c.Began {
		for _, x := range []struct {
			kind plan.SettingKind
			set  string
		}{{plan.CgroupCPUs, b.CPUs}, {plan.CgroupMems, b.Mems}} {
			if e := s.Journal.Of(x.kind, b.Cgroup); x.set == "" || e != nil && (e.Object == "" || e.Object == b.Object) {
				continue
			} else if e != nil { // of an earlier one under the same path
				s.mark(e, plan.Gone)
			}
			s.Seq++
			s.put(plan.Entry{Seq: s.Seq, Time: s.At.Round(0), Workload: c.ID, Kind: x.kind, Path: b.Cgroup, Object: b.Object, New: x.set, State: plan.Applied})
			s.event(plan.Event{Kind: plan.EventStep, Workload: c.ID}, words.BegunWith, string(x.kind), x.set, b.Cgroup)
			any = true
		}
	}
	return any
}

// acts reports whether plans are carried out.
func (s *State) acts() bool {
	return s.Settings.Enforce && !s.Stopping && s.Halted.None() && s.surveyed()
}

// stepsOf is the workloads that steps are about.
func stepsOf(steps []plan.Step) map[workload.ID]bool {
	out := map[workload.ID]bool{}
	for i := range steps {
		out[steps[i].Workload] = true
	}
	return out
}

// named gives observations the names that `homenode run` was given.
func (s *State) named(snap workload.Snapshot) workload.Snapshot {
	if len(s.Admissions) == 0 {
		return snap
	}
	snap.Observations = slices.Clone(snap.Observations) // the recorder has the other
	for i := range snap.Observations {
		o := &snap.Observations[i]
		if a, ok := s.Admissions[o.ID]; ok && a.Spec.Name != "" && a.Process.Start == startOf(o) {
			o.Name = a.Spec.Name
		}
	}
	return snap
}

// living is the ledger without workloads that are gone, and forgets what else is kept
// for those.
func (s *State) living(was *State) []workload.Placement {
	placements, before := was.Plan.Placements, was.Snapshot.Observations
	fresh := func(id workload.ID) bool {
		a, ok := s.Admissions[id]
		return ok && a.Process.PID > 0 && a.Scan >= s.Seen
	}
	another := map[workload.ID]bool{} // processes with the PID of an earlier one
	gone := func(id workload.ID) bool { return (another[id] || s.observation(id) == nil) && !fresh(id) }
	out, dropped := placements, false // what nobody left is shared
	all, k := s.Snapshot.Observations, 0
	for i := range placements { // both rise by ID
		p := &placements[i]
		for k < len(all) && all[k].ID < p.Workload {
			k++
		}
		here := k < len(all) && all[k].ID == p.Workload
		if here && s.Starts[k] == p.Start || fresh(p.Workload) {
			if dropped {
				out = append(out, *p)
			}
		} else {
			if !dropped {
				out, dropped = append(make([]workload.Placement, 0, len(placements)), placements[:i]...), true
			}
			another[p.Workload] = here
		}
	}
	if out == nil {
		out = []workload.Placement{}
	}
	k = 0
	left := false // somebody has
	for i := range before {
		for k < len(all) && all[k].ID < before[i].ID {
			k++
		}
		if here := k < len(all) && all[k].ID == before[i].ID; !here {
			left = true
			s.left(&before[i])
		} else if s.Starts[k] != was.Starts[i] {
			another[before[i].ID] = true
		}
	}
	admitted := len(s.Admissions)
	for id, a := range s.Admissions {
		o := s.observation(id)
		switch {
		case fresh(id):
		case a.Process.PID == 0 && o != nil: // what was held for it is its home, if nothing else is
			delete(s.Admissions, id)
			if place.Of(out, id) == nil {
				out = merge(out, []workload.Placement{a.Placement})
			}
		case a.Process.PID == 0 && !s.At.Before(a.Until),
			a.Process.PID > 0 && (o == nil || startOf(o) != a.Process.Start): // it need not have a placement: it may be left alone
			delete(s.Admissions, id)
			if a.Process.PID > 0 {
				delete(s.Given, id)
			}
		}
	}
	if len(s.Admissions) != admitted {
		s.saveAdmissions()
	}
	// The next process with the PID is another one. A cgroup that is small for a while
	// is the same one.
	held := len(s.Holds.IDs)
	maps.DeleteFunc(s.Holds.IDs, func(id workload.ID, _ bool) bool { return ofProcess(id) && (another[id] || s.observation(id) == nil) })
	if len(s.Holds.IDs) != held {
		s.saveHolds()
	}
	if !s.givenSeen || left || len(another) > 0 {
		dropGone(s.Given, gone)
		s.givenSeen = len(s.Admissions) == 0 // else some may be fresh
	}
	dropGone(s.Moves, gone)
	s.forgetGone(gone)
	s.keepSilent(gone)
	dropGone(s.Narrowed, gone)
	maps.DeleteFunc(s.Told, func(key, _ string) bool {
		for _, of := range []string{sharing.ToldFrozen} {
			if id, ok := strings.CutPrefix(key, of); ok {
				return s.observation(workload.ID(id)) == nil
			}
		}
		id, of := strings.CutPrefix(key, toldNarrowed) // what it was narrowed to is no news later
		_, still := s.Narrowed[workload.ID(id)]
		return of && !still
	})
	maps.DeleteFunc(s.Overwrites, func(id workload.ID, w overwrite) bool { return another[id] || s.At.Sub(w.Last).Abs() >= giveInFor })
	maps.DeleteFunc(s.Retries, func(key stepKey, r retry) bool { return another[key.Workload] || s.At.Sub(r.Next) > retryMost })
	return out
}

func dropGone[V any](m map[workload.ID]V, gone func(workload.ID) bool) {
	maps.DeleteFunc(m, func(id workload.ID, _ V) bool { return gone(id) })
}

// withStartTimes is placements with the start time of process workloads. One that
// was placed while the scan went on is not in it and keeps the one it has.
func (s *State) withStartTimes(placements []workload.Placement) []workload.Placement {
	seen, k, own := s.Snapshot.Observations, 0, false
	for i := range placements { // both rise by ID
		for k < len(seen) && seen[k].ID < placements[i].Workload {
			k++
		}
		if k == len(seen) || seen[k].ID != placements[i].Workload {
			continue
		}
		if start := s.Starts[k]; start != placements[i].Start {
			if !own { // the ledger may have the others
				placements, own = slices.Clone(placements), true
			}
			placements[i].Start = start
		}
	}
	return placements
}

// policy is the configured one with the partition on h and what other managers keep for
// themselves. A partition that does not fit the host, as after CPUs were taken out, is
// told of, and what is left of it holds.
func (s *State) policy(h *topology.Host) plan.Policy {
	p := s.Settings.Policy
	if err := s.Partition.Apply(h, &p); err != nil {
		p.Split = true // rather too little work than work beyond it
		s.once("partition", plan.Event{Kind: plan.EventHost, Error: true}, words.PartitionUnfit, err.Error())
	} else {
		s.over("partition")
	}
	p.Reserved = p.Reserved.Union(s.managersCPUs())
	return p
}

// input is what is decided on.
func (s *State) input(at time.Time) balance.Input {
	in := balance.Input{
		At: at.Round(0).UTC(), State: s.Facts, Subjects: s.subjects(s.Snapshot.Observations),
		Arrange: s.Settings.Arrange, Settings: s.Settings.Balance, HeldAll: s.Holds.All, Flights: s.flights(),
		Ordered: s.Orders, Held: s.held(),
	}
	in.Settings.Act = s.Settings.Enforce
	for i, n := range s.Snapshot.Nodes {
		if n.Bandwidth >= 0 && in.Traffic == nil {
			in.Traffic = make([]int64, len(s.Snapshot.Nodes))
			for k := range i {
				in.Traffic[k] = topology.None
			}
		}
		if in.Traffic != nil {
			in.Traffic[i] = n.Bandwidth
		}
	}
	return in
}

// held is the workloads that are held by name, with their parts.
func (s *State) held() []workload.ID {
	out := slices.Collect(maps.Keys(s.Holds.IDs))
	for id, c := range s.Claims {
		if c.Part != nil && s.Holds.IDs[c.Part.Of] && !s.Holds.IDs[id] {
			out = append(out, id)
		}
	}
	slices.Sort(out)
	return out
}

// flights is the page moves that are planned or under way.
func (s *State) flights() []balance.Flight {
	var out []balance.Flight
	for i := range s.Plan.Steps {
		step := &s.Plan.Steps[i]
		p := place.Of(s.Homes(), step.Workload)
		if step.Kind != plan.MovePages || p == nil {
			continue
		}
		f := balance.Flight{Workload: step.Workload, To: p.Home}
		if r, ok := s.Retries[work.KeyOf(step)]; ok && s.waits(r.Next) {
			f.PutOff = putOff(r.Text)
		}
		if s.Holds.Has(step.Workload) {
			f.PutOff = words.Because(words.HeldByHand)
		}
		out = append(out, f)
	}
	slices.SortFunc(out, func(x, y balance.Flight) int { return cmp.Compare(x.Workload, y.Workload) })
	return slices.CompactFunc(out, func(x, y balance.Flight) bool { return x.Workload == y.Workload })
}

// sound plans, and when the plan breaks rules, or the engine fails on a workload, plans
// again without the workloads named in that, so that the others are not held up by them.
// They stay as they are; dedicated ones keep the CPUs that they hold. What still breaks a
// rule then is returned.
func (s *State) sound(in balance.Input) (balance.Outcome, []plan.Violation) {
	for {
		out, learnt, bad := s.tick(in)
		if bad >= 0 {
			x := in.Subjects[bad]
			s.Snapshot.Problems = append(slices.Clip(s.Snapshot.Problems), workload.Problem{Subject: string(x.Observation.ID), Text: words.Because(words.EngineFailed).String()})
			in.Subjects = slices.Delete(slices.Clone(in.Subjects), bad, bad+1)
			continue
		}
		violations := plan.CheckPlan(s.Facts, out.Plan)
		subjects, fewer := in.Subjects, false
		if len(violations) > 0 {
			subjects = slices.Clone(subjects)
		}
		for _, v := range violations {
			for i := range subjects {
				if x := *subjects[i]; x.Alone.None() && slices.Contains(v.Workloads, x.Observation.ID) {
					x.Alone, fewer = words.Because(words.PlanBreaksRule, v.String()), true
					x.Fixed = x.Fixed || x.Spec.Class == workload.Dedicated
					subjects[i] = &x
				}
			}
		}
		if fewer {
			in.Subjects = subjects
			continue
		}
		if nodes, booked, have := plan.Overpromised(s.Facts, out.Plan.Placements); !nodes.Empty() {
			s.Snapshot.Problems = append(slices.Clip(s.Snapshot.Problems), workload.Problem{Subject: words.Nodes(nodes), Text: words.Because(words.MemoryPromised, booked, nodes, have).String()})
		}
		if s.Subjects = in.Subjects; s.decided != nil {
			s.decided(in, s.History)
		}
		for i := range in.Subjects {
			if x := in.Subjects[i]; x.Alone.Code == words.PlanBreaksRule {
				s.Snapshot.Problems = append(slices.Clip(s.Snapshot.Problems), workload.Problem{Subject: string(x.Observation.ID), Text: x.Alone.String()})
			}
		}
		if !slices.EqualFunc(s.History.Changes, learnt.Changes, func(x, y balance.HomeChange) bool { return x.Workload == y.Workload && x.At.Equal(y.At) }) {
			s.save(KeyPast, learnt.Changes)
		}
		s.History, s.Orders = learnt, nil
		return out, violations
	}
}

// tick asks the engine. When that panics, bad is the index of a subject without which it
// may not: the last of the shortest run of subjects, from the first, that it panics on.
func (s *State) tick(in balance.Input) (out balance.Outcome, learnt balance.History, bad int) {
	panics := func(n int) (failed bool) {
		defer func() { failed = recover() != nil }()
		part := in
		part.Subjects = in.Subjects[:n]
		out, learnt = s.engine(part, s.History)
		return false
	}
	if !panics(len(in.Subjects)) {
		return out, learnt, -1
	}
	n := sort.Search(len(in.Subjects), panics)
	if n == 0 {
		panic("the engine panics on a host without workloads")
	}
	return out, learnt, n - 1
}

// keepDecisions remembers why homes were chosen: a kept home is later explained by what
// spoke for it when it was new.
func (s *State) keepDecisions() {
	s.chosenAll()
	if s.sameDecisions() {
		return
	}
	chosen := make(map[workload.ID]plan.Decision, len(s.Chosen))
	renewed := false
	for i := range s.Plan.Report.Decisions {
		d := &s.Plan.Report.Decisions[i]
		old, ok := s.Chosen[d.Workload]
		switch {
		case d.Outcome == plan.Placed:
			chosen[d.Workload] = *d
			renewed = true
		case d.Outcome == plan.Kept && ok && old.Home.Equal(d.Home):
			chosen[d.Workload] = old
		}
	}
	for id, a := range s.Admissions { // not in the plan's report yet
		if old, ok := s.Chosen[id]; ok && a.Scan >= s.Seen && chosen[id].Outcome == "" {
			chosen[id] = old
		}
	}
	if renewed || len(chosen) != len(s.Chosen) {
		s.save(KeyChosen, chosen) // replaced at the next scan, never changed
	}
	s.Chosen, s.kept = chosen, nil
}

// sameDecisions reports whether the homes that were chosen are those that were kept.
func (s *State) sameDecisions() bool {
	now := s.Plan.Report.Decisions
	if s.kept != nil && slices.EqualFunc(s.kept, now, func(x, y plan.Decision) bool {
		return x.Workload == y.Workload && x.Outcome == y.Outcome && x.Home.Equal(y.Home)
	}) {
		return true
	}
	n := 0
	for i := range s.Plan.Report.Decisions {
		d := &s.Plan.Report.Decisions[i]
		switch d.Outcome {
		case plan.Placed:
			return false
		case plan.Kept:
			if old, ok := s.Chosen[d.Workload]; ok && old.Home.Equal(d.Home) {
				n++
			}
		}
	}
	if s.kept = nil; n == len(s.Chosen) {
		s.kept = now
	}
	return n == len(s.Chosen)
}

// samePlacements compares ledgers so that the disk is written only on change.
func samePlacements(a, b []workload.Placement) bool {
	if len(a) > 0 && len(a) == len(b) && &a[0] == &b[0] {
		return true
	}
	return slices.EqualFunc(a, b, func(x, y workload.Placement) bool {
		return x.Workload == y.Workload && x.Start == y.Start && x.Class == y.Class && x.VCPUs == y.VCPUs &&
			x.Home.Equal(y.Home) && x.CPUs.Equal(y.CPUs) && slices.Equal(x.Pins, y.Pins) && slices.Equal(x.Memory, y.Memory)
	})
}

// Ledger is what is booked now, for requests between two scans.
func (s *State) Ledger() *place.Ledger {
	if s.ledger == nil {
		st := s.Facts
		st.Placements = s.withAdmissions(s.Homes())
		s.ledger = place.NewLedger(st)
		s.ledger.Measure(s.Subjects)
		s.countExact()
	}
	return s.ledger
}

// keepSilent has what is left alone stay so under the ID that its cgroup or process has by now: it is
// told there, and nothing is begun.
func (s *State) keepSilent(gone func(workload.ID) bool) {
	for _, id := range sortedKeys(s.Silent) {
		q := s.Silent[id]
		if s.At.Sub(q.Until) > retryMost {
			delete(s.Silent, id)
			continue
		}
		if !gone(id) {
			continue
		}
		delete(s.Silent, id)
		if now := s.AtTarget(q.Target); now != "" && !s.Silent[now].Until.After(q.Until) {
			s.Silent[now] = q
		}
	}
}

func sortedKeys[K cmp.Ordered, V any](m map[K]V) []K { return slices.Sorted(maps.Keys(m)) }

func byWorkload(a, b workload.Placement) int { return cmp.Compare(a.Workload, b.Workload) }
