package control

import (
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/homenode/homenode/core/hostprep"
	"github.com/homenode/homenode/core/plan"
	"github.com/homenode/homenode/core/trial"
	"github.com/homenode/homenode/core/words"
	"github.com/homenode/homenode/core/workload"
)

// Trial is a switchback experiment under way (`homenode trial`). Its program reads the metrics;
// the daemon switches the arms, so that everything it changes is in the journal. The program
// must renew the trial: when it does not, because it was killed, the daemon restores everything.
type Trial struct {
	Name    string        `json:"name"`
	Arm     trial.Arm     `json:"arm"`
	Names   []string      `json:"names,omitempty"`  // names or patterns of the workloads that it switches; empty is all
	Kernel  []trial.Arm   `json:"kernel,omitempty"` // arms with a setting of the kernel, which it switches, too
	Block   int           `json:"block"`            // from 1; 0 before the first
	Blocks  int           `json:"blocks"`
	Began   time.Time     `json:"began"`
	Since   time.Time     `json:"since"` // of the arm
	Until   time.Time     `json:"until"` // it ends then, unless it is renewed
	Scan    uint64        `json:"scan"`  // the newest that had begun at the switch
	By      *plan.Asker   `json:"by,omitempty"`
	Holds   Holds         `json:"holds"`            // that the trial has added
	Written kernelValues  `json:"written,omitzero"` // values that the trial tried to set last; none while they are as found
	Stands  kernelValues  `json:"stands,omitzero"`  // what of that the kernel took, since the daemon started
	Ending  *words.Reason `json:"ending,omitempty"` // why it ends; its settings are being restored
}

// kernelValues is values of settings of the kernel, by what they are journalled under.
type kernelValues map[workload.ID]string

// CachesID stands for the kernel's cache-aware scheduling where a trial has switched it.
const CachesID workload.ID = "cache-aware-scheduling"

// kernelArm is an arm that a setting of the kernel makes. A trial with this arm has the setting
// at 1 there, at 0 in the other arms without homenode, and as found in the arm on.
type kernelArm struct {
	arm     trial.Arm
	id      workload.ID // that the setting is journalled under
	file    string      // below the root
	name    string
	refused words.Code // why a trial ends when the kernel does not take a value
}

var kernelArms = []kernelArm{
	{trial.Balancing, BalancingID, hostprep.NUMABalancing, "kernel.numa_balancing", words.TrialNotBalanced},
	{trial.Caches, CachesID, hostprep.CacheAware, "cache-aware scheduling", words.TrialNotCaches},
}

// TrialOrder begins, switches, renews or ends a trial.
type TrialOrder struct {
	Name   string        `json:"name"`
	Arm    trial.Arm     `json:"arm,omitempty"`
	Begin  bool          `json:"begin,omitempty"` // else only one under way is renewed
	End    bool          `json:"end,omitempty"`
	Names  []string      `json:"names,omitempty"`
	Kernel []trial.Arm   `json:"kernel,omitempty"` // arms whose setting of the kernel is switched, too
	Lease  time.Duration `json:"lease,omitempty"`  // until it must be renewed
	Block  int           `json:"block,omitempty"`
	Blocks int           `json:"blocks,omitempty"`
}

// TrialOver is the newest trial that somebody has ended: its program must not begin it again.
type TrialOver struct {
	Name string       `json:"name"`
	Why  words.Reason `json:"why"`
}

// TrialNow answers a TrialOrder.
type TrialNow struct {
	Trial   *Trial // nil when none is under way
	Settled bool   // everything that the arm changes is done
	Pending int    // settings, steps and page moves that are not done
}

// Bounds of a lease: a program that is stopped for a moment must not lose its trial, and one
// that is gone must not keep a host without homenode.
const (
	LeastLease = 5 * time.Second
	MostLease  = time.Hour
)

// orderTrial begins, switches, renews or ends one.
func (s *State) orderTrial(id uint64, in *TrialOrder) {
	if f := s.trialOrdered(in); f != nil {
		s.reply(Reply{ID: id, Failed: f})
		return
	}
	now := s.trialNow()
	s.reply(Reply{ID: id, Trial: &now})
}

func (s *State) trialOrdered(in *TrialOrder) *Failure {
	t := s.Trial
	switch {
	case in.Name == "":
		return refuse(BadRequest, words.BadValue, "name", "", "the name of the trial")
	case t != nil && t.Name != in.Name && t.Ending == nil:
		return refuse(Forbidden, words.TrialRuns, t.Name)
	case in.End:
		if t != nil && t.Ending == nil {
			s.endTrial(words.Because(words.TrialEndOrdered))
		}
		return nil
	case t != nil && t.Ending != nil:
		return refuse(Gone, words.TrialIsOver, t.Name, *t.Ending)
	case !s.Settings.Enforce:
		return refuse(Forbidden, words.TrialObserves)
	}
	if _, err := trial.ParseArm(string(in.Arm)); err != nil {
		return &Failure{Code: BadRequest, Text: "arm: " + err.Error()}
	}
	if in.Lease < LeastLease || in.Lease > MostLease {
		return refuse(BadRequest, words.BadValue, "lease_s", int64(in.Lease/time.Second), "5 to 3600")
	}
	if t == nil && !in.Begin {
		if over := s.TrialOver; over != nil && over.Name == in.Name {
			return refuse(Gone, words.TrialIsOver, in.Name, over.Why)
		}
		return refuse(NotFound, words.TrialNotRunning, in.Name)
	}
	if t == nil {
		if f := s.beginTrial(in); f != nil {
			return f
		}
		t = s.Trial
	}
	if t.Arm != in.Arm {
		s.switchArm(in.Arm)
	}
	t.Until, t.Block, t.Blocks = s.At.Add(in.Lease).Round(0), in.Block, in.Blocks
	s.saveTrial()
	return nil
}

// beginTrial checks what a trial is about. Its first arm is on: nothing is changed yet.
func (s *State) beginTrial(in *TrialOrder) *Failure {
	if s.Holds.All {
		return refuse(Forbidden, words.AllHeldFirst)
	}
	names := slices.Clone(in.Names)
	for i, name := range names {
		if strings.ContainsAny(name, "*?[{") {
			if len(s.matching([]string{name})) == 0 {
				return refuse(NotFound, words.TrialMatchesNone, name)
			}
			continue
		}
		id, f := find(running(s.Snapshot.Observations, s.Claims), workload.ID(name), workload.Lineage{})
		if f != nil {
			return f
		}
		if s.Holds.Has(id) {
			return refuse(Forbidden, words.TrialHeld, string(id), string(id))
		}
		names[i] = string(id)
	}
	for _, k := range kernelArms {
		if e := s.Journal.Of(plan.HostFile, k.file); slices.Contains(in.Kernel, k.arm) && e != nil && e.Workload != k.id {
			return refuse(Forbidden, words.TrialKernelTaken, k.name, string(e.Workload), string(e.Workload), string(k.arm))
		}
	}
	s.Trial = &Trial{Name: in.Name, Arm: trial.On, Names: names, Kernel: slices.Clone(in.Kernel), Began: s.At.Round(0), Since: s.At.Round(0), Scan: s.Scans, By: s.by,
		Holds: Holds{IDs: map[workload.ID]bool{}}, Written: kernelValues{}, Stands: kernelValues{}}
	s.TrialOver = nil
	for _, k := range kernelArms {
		delete(s.Retries, stepKey{Workload: k.id, Kind: plan.SetFile}) // of a write before the trial
	}
	if s.by != nil {
		s.order("", words.TrialOrdered, in.Name)
	}
	return nil
}

// switchArm makes another arm stand. What a trial has begun is done under the trial's own
// holds, so that a hold of the user's is never lifted.
func (s *State) switchArm(to trial.Arm) {
	t := s.Trial
	was := t.Arm
	t.Arm, t.Since, t.Scan = to, s.At.Round(0), s.Scans
	by := s.by
	s.by = nil // the order was to run a trial
	s.event(plan.Event{Kind: plan.EventDaemon}, words.TrialSwitched, t.Name, string(was), string(to))
	if was == trial.On && to != trial.On {
		s.holdForTrial()
	}
	if was != trial.On && to == trial.On {
		s.letGoForTrial()
	}
	s.setKernelForTrial()
	s.by = by
}

// holdForTrial undoes and holds what the trial is about and nobody holds yet.
func (s *State) holdForTrial() {
	t := s.Trial
	if len(t.Names) == 0 {
		if !s.Holds.All {
			t.Holds.All = true
			s.undo(0, Which{All: true, Own: true}, workload.Lineage{})
		}
		return
	}
	for _, id := range s.matching(t.Names) {
		if !s.Holds.Has(id) {
			t.Holds.IDs[id] = true
			s.undo(0, Which{ID: id}, workload.Lineage{})
		}
	}
}

// letGoForTrial ends the holds that the trial has added.
func (s *State) letGoForTrial() {
	t := s.Trial
	if t.Holds.All {
		s.Holds.All = false
		s.GiveBackOf(Which{All: true})
		s.DropSteps(Which{All: true})
	}
	for _, id := range sortedKeys(t.Holds.IDs) {
		delete(s.Holds.IDs, id)
		s.GiveBackOf(Which{ID: id})
		s.DropSteps(Which{ID: id})
	}
	t.Holds = Holds{IDs: map[workload.ID]bool{}}
	s.Retries = map[stepKey]retry{}
	s.saveHolds()
}

// setKernelForTrial sets the kernel's settings as the arm wants them, or as they were found.
// What is under way there ends first; it is asked again at each scan.
func (s *State) setKernelForTrial() {
	t := s.Trial
	for _, k := range kernelArms {
		if !slices.Contains(t.Kernel, k.arm) || s.Tasks[k.id] != nil || s.Undoes(k.id) {
			continue
		}
		if t.Arm == trial.On {
			s.restoreKernel(&k)
			continue
		}
		want := "0"
		if t.Arm == k.arm {
			want = "1"
		}
		if want == t.Written[k.id] && want == t.Stands[k.id] {
			continue
		}
		t.Written[k.id] = want
		s.Begin(k.id, &Task{Steps: []plan.Step{{Kind: plan.SetFile, Workload: k.id, Target: plan.Target{Kind: workload.InHost, Host: k.file}, To: want, Optional: true,
			Reason: words.Because(words.TrialArm, t.Name, string(t.Arm))}}, Scan: s.Seen})
	}
}

// restoreKernel restores what the trial has written, until it is restored. What homenode itself has
// set under the same ID stays: the trial has written nothing then.
func (s *State) restoreKernel(k *kernelArm) {
	t := s.Trial
	e := s.Journal.Of(plan.HostFile, k.file)
	switch {
	case t.Written[k.id] == "":
	case e == nil || e.Workload != k.id:
		delete(t.Written, k.id)
		delete(t.Stands, k.id)
	case s.Again(stepKey{Workload: k.id, Kind: plan.SetFile}):
		s.RestoreOnly(k.id, map[uint64]bool{e.Seq: true})
	}
}

// kernelSet notes what came of a write of a setting of the kernel. An arm that the kernel refuses
// would be measured as if it stood, so the trial ends.
func (s *State) kernelSet(id workload.ID, to string, f *Failure) {
	i := slices.IndexFunc(kernelArms, func(k kernelArm) bool { return k.id == id })
	t := s.Trial
	if i < 0 || t == nil || t.Written[id] != to || t.Ending != nil {
		return
	}
	if f != nil && f.Code != Cancelled {
		s.endTrial(words.Because(kernelArms[i].refused, f.Text))
		return
	}
	if f == nil {
		t.Stands[id] = to
		s.saveTrial()
	}
}

// endTrial restores what a trial has switched; it is over once that is done.
func (s *State) endTrial(why words.Reason) {
	t := s.Trial
	t.Ending = &why
	if why.Code != words.TrialLeft { // its program may come back
		s.TrialOver = &TrialOver{t.Name, why}
	}
	s.event(plan.Event{Kind: plan.EventDaemon}, words.TrialEnds, t.Name, why)
	if t.Arm != trial.On {
		s.switchArm(trial.On)
	}
	s.saveTrial()
	s.trialDue()
}

// trialDue ends a trial that was not renewed, goes on with one, and forgets one that is over.
func (s *State) trialDue() {
	t := s.Trial
	if t == nil {
		return
	}
	if t.Ending == nil {
		switch {
		case !s.At.Before(t.Until):
			s.endTrial(words.Because(words.TrialLeft))
			return
		case t.Until.Sub(s.At) > MostLease: // the clock was set back
			t.Until = s.At.Add(MostLease).Round(0)
			s.saveTrial()
		case !s.Settings.Enforce:
			s.endTrial(words.Because(words.TrialObserves))
			return
		}
		if t.Arm != trial.On && len(t.Names) > 0 {
			before := len(t.Holds.IDs)
			s.holdForTrial() // what matches and has come since
			if len(t.Holds.IDs) != before {
				s.saveTrial()
			}
		}
	}
	if was := maps.Clone(t.Written); (s.Settings.Enforce || t.Ending != nil) && !s.Stopping {
		s.setKernelForTrial()
		if !maps.Equal(t.Written, was) {
			s.saveTrial()
		}
	}
	if t.Ending != nil && len(t.Written) == 0 && !s.setsKernel() {
		s.Trial = nil
		s.saveTrial()
	}
}

// setsKernel reports whether a setting of the kernel that trials switch is being written or restored.
func (s *State) setsKernel() bool {
	return slices.ContainsFunc(kernelArms, func(k kernelArm) bool { return s.Tasks[k.id] != nil || s.Undoes(k.id) })
}

// endsTrial ends a trial where a person orders what it would undo, or has undone: the last word
// is the person's.
func (s *State) endsTrial(r *Request) {
	if s.Trial == nil || s.Trial.Ending != nil || s.by == nil {
		return
	}
	what := ""
	switch {
	case r.Undo != nil && !r.Undo.DryRun:
		what = "undo " + r.Undo.Name()
	case r.Resume != nil && !r.Resume.DryRun:
		what = "resume " + r.Resume.Name()
	case r.Move != nil && !r.Move.DryRun:
		what = "move " + string(r.Move.ID)
	case r.Share != nil && !r.DryRun:
		what = "share"
	case r.Partition != nil && !r.DryRun:
		what = "host partition"
	case r.Upgrade != nil && !r.DryRun:
		what = "share upgrade"
	}
	if what != "" {
		s.endTrial(words.Because(words.TrialOverruled, what))
	}
}

// trialNow is how far the switch to the arm has come.
func (s *State) trialNow() TrialNow {
	if s.Trial == nil {
		return TrialNow{Settled: true}
	}
	t := *s.Trial
	t.Written, t.Stands = maps.Clone(t.Written), maps.Clone(t.Stands)
	now := TrialNow{Trial: &t}
	now.Pending = len(s.Undoing) + len(s.Tasks)
	for id, value := range t.Written {
		if value != t.Stands[id] {
			now.Pending++
		}
	}
	if t.Arm == trial.On {
		steps := stepsOf(s.Plan.Steps)
		for _, id := range sortedKeys(steps) {
			if s.Tasks[id] == nil && !s.Holds.Has(id) && !s.Failing(id) && s.inTrial(id) {
				now.Pending++
			}
		}
	}
	seen := s.Seen > t.Scan || s.Scans == 0
	now.Settled = now.Pending == 0 && seen && t.Ending == nil
	return now
}

func (s *State) inTrial(id workload.ID) bool {
	return len(s.Trial.Names) == 0 || slices.Contains(s.matching(s.Trial.Names), id)
}

// matching is the workloads that fit one of some names or patterns, rising by ID.
func (s *State) matching(names []string) []workload.ID {
	var out []workload.ID
	for i := range s.Snapshot.Observations {
		o := &s.Snapshot.Observations[i]
		whole, _ := workload.PartOf(o.ID)
		if slices.ContainsFunc(names, func(p string) bool { return p == string(o.ID) || p == string(whole) || Matches(p, o) }) {
			out = append(out, o.ID)
		}
	}
	return out
}

// trialBalances reports whether a trial decides on kernel.numa_balancing now.
func (s *State) trialBalances() bool {
	t := s.Trial
	return t != nil && slices.Contains(t.Kernel, trial.Balancing) && (t.Arm != trial.On || t.Written[BalancingID] != "")
}

func (s *State) saveTrial() {
	if s.Trial == nil {
		s.save(KeyTrial, (*Trial)(nil))
		return
	}
	t := *s.Trial
	t.Names, t.Holds = slices.Clone(t.Names), Holds{t.Holds.All, cloned(t.Holds.IDs)}
	t.Written, t.Stands = maps.Clone(t.Written), maps.Clone(t.Stands)
	s.save(KeyTrial, &t)
}

// trialOf is a trial as it was saved, which nobody else has.
func trialOf(saved *Trial) *Trial {
	if saved == nil {
		return nil
	}
	t := *saved
	t.Scan = 0                // scans are counted from the start of a daemon
	t.Stands = kernelValues{} // the daemon before may have restored them when it stopped
	t.Written = cloned(t.Written)
	t.Holds = Holds{t.Holds.All, cloned(t.Holds.IDs)}
	return &t
}
