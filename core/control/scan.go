package control

import (
	"cmp"
	"maps"
	"slices"
	"sort"
	"time"

	"github.com/homenode/homenode/core/balance"
	"github.com/homenode/homenode/core/control/homes"
	"github.com/homenode/homenode/core/control/scene"
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
		s.Due(s.trials()) // a host that cannot be seen must not stay without homenode
		return
	}
	s.Over(scanFailed)
	s.Before = s.Snapshot
	s.Seen = in.Number
	s.Began = in.Began
	s.Took = in.Took
	snap, begun := s.Merge(in.Snapshot, in.Claims)
	var late []workload.ID // held, and found to have begun with what homenode had set
	for _, c := range begun {
		if s.begun(c) && s.Holds.Has(c.ID) {
			late = append(late, c.ID)
		}
	}
	s.Show(scene.Named(s.Admissions, snap))
	s.allowIsolated()
	s.Snapshot.Observations = s.OwnWrites(s.Snapshot.Observations, s.admittedSince)
	unfollowed := s.Unfollowed(s.Settings.Rules)
	if len(unfollowed) > 0 {
		s.Snapshot.Problems = append(slices.Clip(s.Snapshot.Problems), unfollowed...)
	}
	by := s.basis()
	s.BoundClaims(by)
	s.LocateHelpers()
	s.Recognise(s.Settings.Recognise != "" && s.Settings.Recognise != RecogniseOff)
	s.Scene.Follow(by, s.Placements())
	s.decide()
	for _, id := range late { // it was undone while they began
		s.undo(0, Which{ID: id}, workload.Lineage{})
	}
}

// decide plans on what was seen, checks the plan and begins it.
func (s *State) decide() {
	s.Tried = map[workload.ID]bool{}
	s.ForgetLeft(&s.Scene, &s.Work)
	s.DropReplaced(s.Admissions)
	s.Placements()
	before := *s // for what is told of the difference
	before.Snapshot, s.Before = s.Before, s.Snapshot
	s.Lives = scene.LivesOf(s.Snapshot.Observations, s.Lives)
	living := s.living(&before)
	s.Facts = plan.State{
		Host: s.Snapshot.Host, Policy: s.policy(s.Snapshot.Host), Unmanaged: s.Snapshot.Unmanaged,
		Placements: s.withClaims(living, s.Snapshot.Host),
	}
	s.keepClear()
	out, violations := s.sound(s.input(s.Began))
	out.Plan.Report.Decisions = s.Note(out.Plan.Report.Decisions)
	out.Plan.Placements = homes.WithStartTimes(out.Plan.Placements, s.scanned())
	s.Plan = out.Plan
	s.Balancing = out.Report
	s.Halted = words.Reason{}
	s.NewPlan()
	s.FindTargets()
	if len(violations) == 0 {
		s.differ().Reconcile()
	}
	if changing := func(x plan.Step) bool { return s.Work.Changing(x.Workload) }; slices.ContainsFunc(s.Plan.Steps,
		changing) {
		s.Plan.Steps = slices.DeleteFunc(slices.Clone(s.Plan.Steps), changing)
	}
	if len(violations) > 0 { // the engine or the facts are wrong: neither is a ground to act on
		s.Halted = words.Because(words.PlanUnsound, len(violations), violations[0].String())
		s.Plan.Placements, s.Plan.Steps = before.Plan.Placements, nil // the recorder keeps what was planned
	} else {
		out.Plan.Steps = s.SharedSteps() // a reader keeps them
		out.Plan.Placements, out.Plan.Report = s.Plan.Placements, s.Plan.Report
	}
	s.widen(s.Plan.Placements)
	asked := s.HasLedger() // there have been requests: the next is not to wait for a ledger
	s.DropLedger()
	s.out.Plan, s.out.Balance = &out.Plan, &out.Report
	s.Snapshot.Problems = append(slices.Clip(s.Snapshot.Problems), s.Lost()...)
	s.Lines.Scan(s.history(), before.showed(), s.showed(), s.Admissions)
	s.ShowMoved()
	if s.Halted.None() {
		s.Balance(s.history(), &s.Balancing)
		s.keepDecisions()
		if s.Unsaved() {
			s.savePlacements()
		}
	}
	if asked {
		s.Ledger()
	}
	s.Due(s.trials())
	s.surveyDue()
	if !s.acts() {
		return
	}
	of := s.upkeep()
	of.Check()
	s.FindHeirs(of)
	s.Dispatch()
	s.differ().Verify() // what is restored does not wait for an answer
	s.Prune(of)
}

// widen takes up which workloads have a home of several nodes.
func (s *State) widen(all []workload.Placement) {
	if s.Settings.ReadsThreads() {
		s.wide.Follow(all, s.Observed, s.At)
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
			if e := s.Journal.Of(x.kind, b.Cgroup); x.set == "" ||
				(e != nil && (e.Object == "" || e.Object == b.Object)) {
				continue
			} else if e != nil { // of an earlier one under the same path
				s.Mark(e, plan.Gone)
			}
			s.Seq++
			s.Put(plan.Entry{Seq: s.Seq, Time: s.At.Round(0), Workload: c.ID, Kind: x.kind, Path: b.Cgroup,
				Object: b.Object, New: x.set, State: plan.Applied})
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

// living returns the placements of what lives, and forgets what is kept for other workloads.
func (s *State) living(was *State) []workload.Placement {
	before := homes.Scanned{Observations: was.Snapshot.Observations, Lives: was.Lives}
	l := s.Live(&before, s.scanned(), s.Seen, s.At)
	for _, o := range l.Left {
		s.Leaves(o)
	}
	if l.Admissions {
		s.saveAdmissions()
	}
	// The next process with the PID is another one. A cgroup that is small for a while
	// is the same one.
	held := len(s.Holds.IDs)
	maps.DeleteFunc(s.Holds.IDs, func(id workload.ID, _ bool) bool {
		replaced := l.Another[id] || s.Observation(id) == nil
		return scene.OfProcess(id) && replaced
	})
	if len(s.Holds.IDs) != held {
		s.saveHolds()
	}
	s.forgetGone(l.Gone)
	s.Work.Forget(l.Gone, l.Another, s.AtTarget)
	s.Lines.Forget(&s.Scene, &s.Work, toldOf)
	return l.Placements
}

// scanned returns what the newest scan has seen.
func (s *State) scanned() *homes.Scanned {
	return &homes.Scanned{Observations: s.Snapshot.Observations, Lives: s.Lives}
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
		s.Over("partition")
	}
	p.Reserved = p.Reserved.Union(scene.KeptCPUs(s.Managers))
	return p
}

// input is what is decided on.
func (s *State) input(at time.Time) balance.Input {
	in := balance.Input{
		At: at.Round(0).UTC(), State: s.Facts, Subjects: s.subjects(s.Snapshot.Observations),
		Arrange: s.Settings.Arrange, Settings: s.Settings.Balance, HeldAll: s.Holds.All, Flights: s.flights(),
		Ordered: s.Orders, Held: s.WithParts(s.Holds.IDs),
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

// flights is the page moves that are planned or under way.
func (s *State) flights() []balance.Flight {
	var out []balance.Flight
	for i := range s.Plan.Steps {
		step := &s.Plan.Steps[i]
		p := place.Of(s.Placements(), step.Workload)
		if !step.Kind.MovesPages() || p == nil {
			continue
		}
		f := balance.Flight{Workload: step.Workload, To: p.Home}
		f.PutOff = s.PutOffMove(step)
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
	broken := false
	for {
		out, learnt, bad := s.tick(in)
		if bad >= 0 {
			x := in.Subjects[bad]
			s.Snapshot.Problems = append(slices.Clip(s.Snapshot.Problems),
				workload.Problem{Subject: string(x.Observation.ID), Text: words.Because(words.EngineFailed).String()})
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
			in.Subjects, broken = subjects, true
			continue
		}
		if nodes, booked, have := plan.Overpromised(s.Facts, out.Plan.Placements); !nodes.Empty() {
			s.Snapshot.Problems = append(slices.Clip(s.Snapshot.Problems),
				workload.Problem{Subject: words.Nodes(nodes), Text: words.Because(words.MemoryPromised, booked, nodes,
					have).String()})
		}
		if s.Subjects = in.Subjects; s.decided != nil {
			s.decided(in, s.History)
		}
		if broken {
			s.reportBroken(in.Subjects)
		}
		if !slices.EqualFunc(s.History.Changes, learnt.Changes,
			func(x, y balance.HomeChange) bool { return x.Workload == y.Workload && x.At.Equal(y.At) }) {
			s.save(KeyPast, learnt.Changes)
		}
		s.History, s.Orders = learnt, nil
		return out, violations
	}
}

// reportBroken makes problems of the workloads that are left alone because a plan with them broke a rule.
func (s *State) reportBroken(subjects []*place.Subject) {
	for _, x := range subjects {
		if x.Alone.Code == words.PlanBreaksRule {
			s.Snapshot.Problems = append(slices.Clip(s.Snapshot.Problems),
				workload.Problem{Subject: string(x.Observation.ID), Text: x.Alone.String()})
		}
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

func sortedKeys[K cmp.Ordered, V any](m map[K]V) []K { return slices.Sorted(maps.Keys(m)) }
