package control

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/homenode/homenode/core/place"
	"github.com/homenode/homenode/core/plan"
	"github.com/homenode/homenode/core/share"
	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/core/words"
	"github.com/homenode/homenode/core/workload"
)

// SchedulerOrders is what the kernel's scheduler for batch work is told, and asked, once a scan.
type SchedulerOrders struct {
	Config  *share.SchedulerConfig `json:"config,omitempty"`  // nil: nothing is told
	Cgroups []string               `json:"cgroups,omitempty"` // it is asked which threads of them are not with it
}

// UpgradeOrder asks for another version of the kernel's scheduler for batch work.
type UpgradeOrder struct {
	Version string `json:"version,omitempty"` // "" is the one that this homenode brings
}

// Upgraded answers an UpgradeOrder.
type Upgraded struct {
	From string `json:"from"`
	To   string `json:"to"`            // the same when nothing is newer
	Why  string `json:"why,omitempty"` // of a dry run: why it cannot be
}

// Scheduler is all that is known of the kernel's scheduler for batch work.
type Scheduler struct {
	share.SchedulerState
	Seen share.SchedulerSeen `json:"seen"` // at the newest look

	Known bool              // there was a look
	Look  uint64            // the effect that looks, 0 for none
	Stale uint64            // what looks up to this effect saw is older than a change
	Do    share.SchedulerDo // under way
	Ask   uint64            // the request that waits for it
	From  string            // version before

	Untiered []string // cgroups that have none of the tiers that it takes, rising

	// Again is when the threads of a cgroup are switched again of which some were left, by cgroup:
	// who sets the policy of a thread back all the time does not have homenode write all the time.
	Again map[string]retry
}

// PolicyExt is the value of plan.TaskPolicy of what the scheduler for batch work has: SCHED_EXT.
// (batch is SCHED_BATCH of sched(7), which threads may have had before.)
const PolicyExt = "ext"

// cgroupsOf is the cgroups that a workload has to itself: of a process tree in somebody
// else's none.
func (s *State) cgroupsOf(o *workload.Observation) []share.SchedulerGroup {
	var out []share.SchedulerGroup
	for _, id := range s.observed(o.ID) {
		g := share.SchedulerGroup{Cgroup: string(id)}
		if id == o.ID {
			switch {
			case o.Kind == workload.InCgroup:
				g.Cgroup, g.Object = cgroupPath(o), o.CgroupID
			case o.Kind == workload.InProcess && workload.OfRun(o.Cgroup):
				g.Cgroup = o.Cgroup
			default:
				continue
			}
		}
		if strings.HasPrefix(g.Cgroup, "/") && g.Cgroup != "/" {
			out = append(out, g)
		}
	}
	return out
}

// schedulerConfig is what the scheduler goes by: the budget of each node, and whose cgroup is
// of which tier.
func (s *State) schedulerConfig(placements []workload.Placement) *share.SchedulerConfig {
	c := &share.SchedulerConfig{}
	for i := range s.Shared.Nodes {
		b := &s.Shared.Nodes[i]
		c.Nodes = append(c.Nodes, share.SchedulerNode{Node: b.Node, CPUs: b.CPUs, Idle: b.Idle})
	}
	for _, x := range s.Subjects {
		o := &x.Observation
		at := place.Of(placements, o.ID)
		tier := x.Spec.Tier
		g := s.Shared.Of(o.ID)
		switch {
		case g != nil:
			tier = workload.BatchTier
		case tier == workload.BatchTier: // it is left alone
			continue
		case tier == "" && at != nil && at.Class == workload.Dedicated:
			tier = workload.OnlineStrict
		case tier == "" || tier == workload.Normal:
			continue
		}
		for _, one := range s.cgroupsOf(o) {
			one.Tier = tier
			if g != nil {
				one.Nodes = s.nodesOf(g.CPUs)
			}
			c.Groups = append(c.Groups, one)
		}
	}
	slices.SortFunc(c.Groups, func(a, b share.SchedulerGroup) int { return cmp.Compare(a.Cgroup, b.Cgroup) })
	return c
}

// nodesOf is the nodes that have some of the CPUs.
func (s *State) nodesOf(cpus topology.CPUSet) (out topology.NodeSet) {
	for i := range s.Snapshot.Host.Nodes {
		if n := &s.Snapshot.Host.Nodes[i]; n.CPUs.Intersects(cpus) {
			out.Add(n.ID)
		}
	}
	return out
}

// batch is the cgroups of batch work.
func batchOf(c *share.SchedulerConfig) (out []string) {
	for i := range c.Groups {
		if c.Groups[i].Tier == workload.BatchTier {
			out = append(out, c.Groups[i].Cgroup)
		}
	}
	return out
}

// untiered reports whether a cgroup has none of the tiers: the scheduler would take its threads for
// normal ones, which nothing bounds.
func (k *Scheduler) untiered(cgroup string) bool {
	_, without := slices.BinarySearch(k.Untiered, cgroup)
	return without
}

// asTold is a value of a setting as the history tells it: where none is set there is no
// scheduler; elsewhere that is all CPUs or nodes.
func asTold(id workload.ID, value string) string {
	if id == share.SchedulerID {
		return cmp.Or(value, "none")
	}
	return words.OrAll(value)
}

// schedulerEntry is its journal entry, or nil.
func (s *State) schedulerEntry() *plan.Entry {
	return s.Journal.Of(plan.Scheduler, string(share.SchedulerID))
}

// lookAtScheduler tells the kernel's scheduler what holds now, and asks how it is.
func (s *State) lookAtScheduler() {
	k := &s.Scheduler
	if !s.Settings.Share.Scheduler && s.schedulerEntry() == nil || k.Look != 0 || s.Stopping || s.Tasks[share.SchedulerID] != nil || s.Snapshot.Host == nil {
		return
	}
	if !s.ShareOn && s.schedulerEntry() == nil && (!s.Settings.Enforce || k.Known && k.Seen.Loaded == "") { // none is there, or it is nobody's to change
		return
	}
	orders := &SchedulerOrders{}
	k.Untiered = nil
	if s.ShareOn && s.acts() && k.Seen.Loaded != "" {
		orders.Config = s.schedulerConfig(s.Placements())
		k.Untiered = orders.Config.Bound(k.Seen.Tiers)
		orders.Cgroups = batchOf(orders.Config)
	}
	k.Look = s.effect(Effect{Kind: EffectScheduler, Workload: share.SchedulerID, Scheduler: orders})
}

// schedulerInput is what is known now.
func (s *State) schedulerInput() share.SchedulerInput {
	k := &s.Scheduler
	in := share.SchedulerInput{At: s.At.Round(0).UTC(), Seen: k.Seen, Most: s.Settings.Share.MaxWait, Proves: s.Settings.Share.Probation}
	for _, x := range s.Subjects {
		if x.Spec.Tier.Important(x.Spec.Class) {
			in.Wait = max(in.Wait, waited(&x.Observation))
		}
	}
	if in.Not = s.schedulerNot(); in.Not.None() && s.Snapshot.Host != nil {
		in.Work = len(batchOf(s.schedulerConfig(s.Placements()))) > 0
	}
	return in
}

// schedulerNot is why no batch work belongs to it, whatever the kernel would take; none when it does: it is told whose and wanted.
func (s *State) schedulerNot() words.Reason {
	switch {
	case !s.ShareOn:
		return words.Because(words.SchedulerNotShared)
	case !s.Settings.Share.Scheduler:
		return words.Because(words.SchedulerOff)
	case s.Holds.Has(share.SchedulerID):
		return words.Because(words.SchedulerHeld)
	}
	return words.Reason{}
}

// schedulerSeen takes up what a look found, and does what follows.
func (s *State) schedulerSeen(r *Result) {
	k := &s.Scheduler
	k.Look = 0
	if r.ID <= k.Stale {
		return
	}
	k.Known = true
	if r.Failed != nil || r.Scheduler == nil {
		text := "nobody asks it"
		if r.Failed != nil {
			text = r.Failed.Text
		}
		k.Why = words.Because(words.SchedulerSilent, text)
		s.once("scheduler", plan.Event{Kind: plan.EventHost, Error: true}, words.SchedulerSilent, text)
		s.schedulerAnswer(&Failure{Failed, text})
		return
	}
	s.over("scheduler")
	k.Seen = *r.Scheduler
	if len(k.Again) > 0 {
		k.Again = maps.Clone(k.Again) // a View has the other
		maps.DeleteFunc(k.Again, func(cgroup string, _ retry) bool { return k.Seen.Left[cgroup] == 0 })
	}
	defer s.schedulerAnswer(nil)
	in := s.schedulerInput()
	if !s.acts() {
		switch {
		case !in.Not.None():
			k.Why = in.Not
		case !k.Seen.Unable.None():
			k.Why = k.Seen.Unable
		case k.Seen.Loaded != "":
			k.Why = words.Because(words.SchedulerRuns)
		case k.Seen.Other != "":
			k.Why = words.Because(words.SchedulerOther, k.Seen.Other)
		case !s.Settings.Enforce:
			k.Why = words.Because(words.SchedulerObserve)
		}
		return
	}
	if s.Tasks[share.SchedulerID] != nil || s.undoes(share.SchedulerID) {
		return
	}
	e := s.schedulerEntry()
	switch {
	case k.Seen.Loaded == "":
	case e == nil: // the journal was lost
		s.Seq++
		s.put(plan.Entry{Seq: s.Seq, Time: s.At.Round(0), Workload: share.SchedulerID, Kind: plan.Scheduler, Path: string(share.SchedulerID), New: k.Seen.Loaded, State: plan.Applied})
	case e.New == k.Seen.Loaded:
		s.mark(e, plan.Applied) // killed before it was known that it took
	}
	if k.Seen.Loaded != "" && k.Runs != k.Seen.Loaded {
		s.event(plan.Event{Kind: plan.EventHost}, words.SchedulerAdopted, k.Seen.Loaded)
	}
	was := k.SchedulerState
	do, now := share.DecideScheduler(in, was)
	s.setScheduler(now)
	s.tellScheduler(&was)
	switch {
	case do.Verb == share.Load, do.Verb == share.Replace:
		s.beginScheduler(do)
	case k.Seen.Loaded == "" && s.schedulerEntry() != nil, do.Verb == share.Unload:
		s.unload()
	}
}

// setScheduler remembers, on disk where it must outlive the daemon.
func (s *State) setScheduler(now share.SchedulerState) {
	was := s.Scheduler.SchedulerState
	s.Scheduler.SchedulerState = now
	if was.Failures != now.Failures || !was.Next.Equal(now.Next) || len(was.Loads) != len(now.Loads) || was.Runs != now.Runs || was.Chosen != now.Chosen ||
		(was.Trial == nil) != (now.Trial == nil) || was.Trial != nil && now.Trial != nil && was.Trial.Why.None() != now.Trial.Why.None() {
		s.save(KeyScheduler, now)
	}
}

// tellScheduler writes into the history what is new.
func (s *State) tellScheduler(was *share.SchedulerState) {
	now := &s.Scheduler.SchedulerState
	host := plan.Event{Kind: plan.EventHost, Workload: share.SchedulerID}
	if bad := host; now.End != nil && !now.Ended.Equal(was.Ended) && was.Runs != "" {
		bad.Error = true
		s.event(bad, words.SchedulerEnded, now.End.String(), max(0, now.Next.Sub(now.Ended)))
	}
	if t := now.Upgrade; t != nil && (was.Upgrade == nil || !was.Upgrade.Ended.Equal(t.Ended)) {
		if t.Held {
			s.event(host, words.SchedulerHeldOut, t.To, t.Until.Sub(t.Began), t.Worst, t.Before)
		} else {
			host.Error = true
			s.event(host, words.SchedulerWentBack, t.To, t.Why, now.Runs)
		}
	}
	switch now.Why.Code {
	case words.SchedulerOther, words.SchedulerTooOften:
		if was.Why.Code != now.Why.Code {
			host.Error = true
			s.event(host, words.Text, now.Why.String())
		}
	}
	if s.Scheduler.Seen.Unable.Code != "" && s.schedulerNot().None() {
		s.once("no scheduler", plan.Event{Kind: plan.EventHost}, words.Text, s.Scheduler.Seen.Unable.String())
	} else {
		s.over("no scheduler")
	}
}

// beginScheduler loads a version, or puts it in the place of the one that runs.
func (s *State) beginScheduler(do share.SchedulerDo) {
	k := &s.Scheduler
	k.Do, k.From = do, k.Seen.Loaded
	s.begin(share.SchedulerID, &Task{Scan: s.Seen, Steps: []plan.Step{{Kind: plan.SetScheduler, Workload: share.SchedulerID, From: k.Seen.Loaded, To: do.Version,
		Target: plan.Target{Kind: workload.InKernel, Host: string(share.SchedulerID)}, Reason: do.Why}}})
	if s.Tasks[share.SchedulerID] == nil { // it is put off
		k.Do = share.SchedulerDo{}
	}
}

// schedulerDone takes up how a load or a swap went; nil is well.
func (s *State) schedulerDone(f *Failure) {
	k := &s.Scheduler
	was := k.SchedulerState
	k.Stale = s.Effects
	if k.Do.Verb == share.Leave {
		return
	}
	if f != nil {
		s.setScheduler(k.Refused(s.At.Round(0).UTC(), k.Do, f.Text, k.Seen.Newest))
		s.tellScheduler(&was)
		k.Do = share.SchedulerDo{}
		s.schedulerAnswer(f)
		return
	}
	k.Seen.Loaded, k.Seen.End = k.Do.Version, nil
	s.setScheduler(k.Took(s.At.Round(0).UTC(), k.Do, s.schedulerInput()))
	k.Why = words.Because(words.SchedulerRuns)
	s.tellScheduler(&was)
	k.Do, k.Look = share.SchedulerDo{}, 0
	s.lookAtScheduler() // and tell it at once what holds
}

// unload takes the scheduler out of the kernel.
func (s *State) unload() {
	if s.schedulerEntry() == nil || s.undoes(share.SchedulerID) || s.Tasks[share.SchedulerID] != nil {
		return
	}
	s.undo(0, Which{ID: share.SchedulerID, Sharing: true}, workload.Lineage{})
}

// unloaded takes up that it is out of the kernel.
func (s *State) unloaded() {
	k := &s.Scheduler
	k.Stale, k.Seen.Loaded, k.Untiered = s.Effects, "", nil
	s.setScheduler(k.Stopped())
	if k.Ask != 0 { // no scan asks after it any more: who waits for a swap gets the answer now
		s.reply(Reply{ID: k.Ask, Failed: refuse(Failed, words.SchedulerNotRunning, s.notRunning())})
		k.Ask = 0
	}
}

// notRunning is why no scheduler for batch work is loaded.
func (s *State) notRunning() words.Reason {
	why := s.schedulerNot()
	if why.None() {
		why = s.Scheduler.Why
	}
	if why.None() {
		why = words.Because(words.SchedulerUnknown)
	}
	return why
}

// upgrade puts another version in the place of the one that runs.
func (s *State) upgrade(id uint64, order UpgradeOrder, dry bool) {
	k := &s.Scheduler
	to := cmp.Or(order.Version, k.Seen.Newest)
	var f *Failure
	switch {
	case !s.Settings.Enforce && !dry:
		f = refuse(Forbidden, words.ObserveOnly)
	case s.Holds.All:
		f = refuse(Forbidden, words.AllHeldFirst)
	case !s.acts() && s.Settings.Enforce:
		f = &Failure{Forbidden, s.Halted.String()}
	case k.Seen.Loaded == "" || !s.schedulerNot().None():
		f = refuse(Forbidden, words.SchedulerNotRunning, s.notRunning())
	case k.Trial != nil, s.Tasks[share.SchedulerID] != nil, s.undoes(share.SchedulerID), k.Ask != 0:
		f = refuse(Failed, words.SchedulerBusy)
	}
	answer := &Upgraded{From: k.Seen.Loaded, To: to}
	switch {
	case f != nil && dry:
		s.reply(Reply{ID: id, Upgrade: &Upgraded{From: k.Seen.Loaded, To: k.Seen.Loaded, Why: f.Text}})
		return
	case f != nil:
		s.reply(Reply{ID: id, Failed: f})
		return
	case dry, to == k.Seen.Loaded:
		s.reply(Reply{ID: id, Upgrade: answer})
		return
	}
	s.order(share.SchedulerID, words.SchedulerOrdered, to)
	k.Ask = id
	s.beginScheduler(share.SchedulerDo{Verb: share.Replace, Version: to, Why: words.Because(words.SchedulerUpgraded)})
}

// schedulerAnswer answers who waits for a swap, once the look after it is there.
func (s *State) schedulerAnswer(f *Failure) {
	k := &s.Scheduler
	if k.Ask == 0 || k.Do.Verb != share.Leave { // it is under way: a look from before tells nothing of it
		return
	}
	r := Reply{ID: k.Ask, Failed: f}
	if f == nil {
		r.Upgrade = &Upgraded{From: k.From, To: k.Seen.Loaded}
		if t := k.Trial; t != nil {
			s.event(plan.Event{Kind: plan.EventHost, Workload: share.SchedulerID}, words.SchedulerSwapped, t.To, t.From, float64(t.Gap.Microseconds())/1000, t.Until.Sub(t.Began))
		}
	}
	k.Ask = 0
	s.reply(r)
}

// policySteps have the threads of a batch workload go to the scheduler: all that are
// there, and those that have come since.
func (s *State) policySteps(o *workload.Observation) (out []plan.Step) {
	k := &s.Scheduler
	if k.Seen.Loaded == "" || !s.schedulerNot().None() {
		return nil
	}
	for _, g := range s.cgroupsOf(o) {
		e := s.Journal.Of(plan.TaskPolicy, g.Cgroup)
		if e != nil && g.Object != 0 && !sameCgroup(e, o) {
			e = nil
		}
		if k.untiered(g.Cgroup) {
			continue
		}
		if e != nil && e.State == plan.Applied && (k.Seen.Left[g.Cgroup] == 0 || s.waits(k.Again[g.Cgroup].Next)) {
			continue
		}
		out = append(out, plan.Step{Kind: plan.SetPolicy, Workload: o.ID, Target: plan.Target{Kind: workload.InKernel, Cgroup: g.Cgroup}, From: "other", To: PolicyExt, Optional: true,
			Reason: words.Because(words.SchedulerNeeded)})
	}
	return out
}

// switched takes up that the threads of a cgroup were. Those that come meanwhile are switched
// after the next looks; where there are always some, less and less often.
func (s *State) switched(cgroup string) {
	k := &s.Scheduler
	r := k.Again[cgroup]
	if k.Again = maps.Clone(k.Again); k.Again == nil {
		k.Again = map[string]retry{}
	}
	wait := time.Duration(0)
	if r.Failures >= switchedAtOnce {
		wait = min(switchedAgain<<min(r.Failures-switchedAtOnce, 10), retryMost)
	}
	k.Again[cgroup] = retry{Failures: r.Failures + 1, Next: s.At.Add(wait)}
}

const (
	switchedAtOnce = 5 // looks one after the other
	switchedAgain  = 10 * time.Second
)
