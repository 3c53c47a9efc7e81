package scheduler

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"github.com/homenode/homenode/core/control/concern"
	"github.com/homenode/homenode/core/control/concern/sharing"
	"github.com/homenode/homenode/core/control/work"
	"github.com/homenode/homenode/core/place"
	"github.com/homenode/homenode/core/plan"
	"github.com/homenode/homenode/core/share"
	"github.com/homenode/homenode/core/words"
	"github.com/homenode/homenode/core/workload"
)

// Order asks for another version of the kernel's scheduler for batch work.
type Order struct {
	Version string `json:"version,omitempty"` // "" is the one that this homenode brings
}

// Upgraded answers an Order.
type Upgraded struct {
	From string `json:"from"`
	To   string `json:"to"`            // the same when nothing is newer
	Why  string `json:"why,omitempty"` // of a dry run: why it cannot be
}

// Key is where the share.SchedulerState is on disk.
const Key = "scheduler"

// Scheduler is all that is known of the kernel's scheduler for batch work.
type Scheduler struct {
	share.SchedulerState
	Seen share.SchedulerSeen `json:"seen"` // when it was last asked

	Known bool              // it was asked at least once
	Look  uint64            // the effect that asks it, 0 for none
	Stale uint64            // answers up to this effect are older than a change
	Do    share.SchedulerDo // under way
	Drop  bool              `json:",omitempty"` // it is to leave the kernel
	Ask   uint64            // the request that waits for it
	From  string            // version before

	Untiered []string // cgroups that have none of the tiers that it takes, rising

	// Again is when threads of a cgroup are switched again, by cgroup. Another program may set their
	// policy back all the time: each try costs a write to disk.
	Again map[string]work.Retry
	// Rest is when a cgroup whose scheduler has ended is given another one, by cgroup.
	Rest map[string]work.Retry `json:",omitempty"`
}

// Concern decides whether the sched_ext scheduler for batch work is in the kernel, and which threads
// it has.
type Concern struct{ Scheduler Scheduler }

// Bound is the concern with the batch work that it is about.
type Bound struct {
	*Concern
	Batch *sharing.Concern
}

// turn is one decision.
type turn struct {
	*Concern
	*concern.Scene
	batch *sharing.Concern
}

// Name implements concern.Concern.
func (Bound) Name() string { return "scheduler" }

// Owns implements concern.Concern: the scheduler, and which threads it has.
func (Bound) Owns(e *plan.Entry) bool { return e.Kind == plan.Scheduler || e.Kind == plan.TaskPolicy }

// Decide implements concern.Concern. A scheduler is loaded between scans, when its state is known.
func (b Bound) Decide(sc *concern.Scene) concern.Desired {
	t := &turn{b.Concern, sc, b.Batch}
	out := concern.Desired{Settings: t.version()}
	if !t.Between {
		t.ask()
	}
	for _, x := range b.Batch.Mine(sc) {
		out.Settings = append(out.Settings, t.policies(&x.Observation)...)
	}
	return out
}

// Ended implements concern.Concern.
func (b Bound) Ended(sc *concern.Scene, step *plan.Step, f *work.Failure) bool {
	t := &turn{b.Concern, sc, b.Batch}
	switch {
	case step.Kind == plan.SetScheduler:
		t.done(f)
	case step.Kind == plan.SetPolicy && f == nil:
		t.switched(step.Target.Cgroup)
	}
	return false
}

// Looked takes up an answer of the scheduler, and reports whether the result was one.
func (b Bound) Looked(sc *concern.Scene, r *work.Result) bool {
	if b.Scheduler.Look == 0 || b.Scheduler.Look != r.ID {
		return false
	}
	t := &turn{b.Concern, sc, b.Batch}
	t.seen(r)
	return true
}

// Restored implements concern.Restorer.
func (b Bound) Restored(sc *concern.Scene, e *plan.Entry) {
	if e.Kind == plan.Scheduler {
		t := &turn{b.Concern, sc, b.Batch}
		t.unloaded()
	}
}

// Upgrade puts another version in the place of the one that runs.
func (b Bound) Upgrade(sc *concern.Scene, id uint64, order Order, dry bool) {
	t := &turn{b.Concern, sc, b.Batch}
	t.upgrade(id, order, dry)
}

// Hold takes up that the scheduler is undone and held: a swap under way does not come.
func (b Bound) Hold(sc *concern.Scene) {
	t := &turn{b.Concern, sc, b.Batch}
	t.refuse()
}

// refuse answers the user who waits for a swap that does not come.
func (t *turn) refuse() {
	k := &t.Scheduler
	if k.Ask != 0 {
		t.Reply(k.Ask, concern.Refuse(work.Failed, words.SchedulerNotRunning, t.notRunning()), nil)
		k.Ask = 0
	}
}

// version returns whether a scheduler is to be in the kernel, and which.
func (t *turn) version() []concern.Desire {
	k := &t.Scheduler
	busy := t.Busy(share.SchedulerID)
	if !busy && !t.Between { // the loop has put it off
		k.Do = share.SchedulerDo{}
	}
	d := concern.Desire{Kind: plan.Scheduler, Path: string(share.SchedulerID), Only: true,
		Step: plan.Step{Workload: share.SchedulerID}}
	switch {
	case k.Do.Verb != share.Leave && !busy:
		d.Only = false
		d.Stands = concern.No
		d.Now = true
		d.Step = plan.Step{Kind: plan.SetScheduler, Workload: share.SchedulerID, From: k.Seen.Loaded, To: k.Do.Version,
			Target: plan.Target{Kind: workload.InKernel, Host: string(share.SchedulerID)}, Reason: k.Do.Why}
	case k.Drop || (!t.batch.ShareOn && k.Known):
		return nil
	}
	return []concern.Desire{d}
}

// config returns what the scheduler goes by: the budget of each node, and whose cgroup is
// of which tier.
func (t *turn) config(placements []workload.Placement) *share.SchedulerConfig {
	c := &share.SchedulerConfig{}
	for i := range t.batch.Shared.Nodes {
		b := &t.batch.Shared.Nodes[i]
		c.Nodes = append(c.Nodes, share.SchedulerNode{Node: b.Node, CPUs: b.CPUs, Idle: b.Idle})
	}
	for _, x := range t.Subjects {
		o := &x.Observation
		at := place.Of(placements, o.ID)
		tier := x.Spec.Tier
		g := t.batch.Shared.Of(o.ID)
		switch {
		case g != nil:
			tier = workload.BatchTier
		case tier == workload.BatchTier: // it is left alone
			continue
		case t.batch.Shared.FreesSiblings(o.ID): // they are tested as the cause, or were found to be it
			tier = workload.OnlineStrict
		case tier == "" && at != nil && at.Class == workload.Dedicated:
			tier = workload.OnlineStrict
		case tier == "" || tier == workload.Normal:
			continue
		}
		for _, one := range t.Cgroups(o) {
			one.Tier = tier
			if g != nil {
				one.Nodes = t.Snapshot.Host.NodesOf(g.CPUs)
			}
			c.Groups = append(c.Groups, one)
		}
	}
	slices.SortFunc(c.Groups, func(a, b share.SchedulerGroup) int { return cmp.Compare(a.Cgroup, b.Cgroup) })
	return c
}

// batchOf returns the cgroups of batch work.
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

// entry returns its journal entry, or nil.
func (t *turn) entry() *plan.Entry {
	return t.Journal.Of(plan.Scheduler, string(share.SchedulerID))
}

// ask tells the kernel's scheduler the current orders, and asks for its state.
func (t *turn) ask() {
	k := &t.Scheduler
	unused := !t.batch.Settings().Share.Scheduler && t.entry() == nil
	if unused || k.Look != 0 || t.Stopping || t.Busy(share.SchedulerID) || t.Snapshot.Host == nil {
		return
	}
	none := k.Known && k.Seen.Loaded == ""
	if !t.batch.ShareOn && t.entry() == nil && (!t.Enforce || none) {
		return
	}
	orders := &share.SchedulerOrders{}
	k.Untiered = nil
	if t.batch.ShareOn && t.Acts && k.Seen.Loaded != "" {
		orders.Config = t.config(t.Homes())
		k.Untiered = orders.Config.Bound(k.Seen.Tiers)
		orders.Cgroups = batchOf(orders.Config)
	}
	k.Look = t.Ask(work.Effect{Kind: work.EffectScheduler, Workload: share.SchedulerID, Scheduler: orders})
}

// input returns what is known now.
func (t *turn) input() share.SchedulerInput {
	k := &t.Scheduler
	in := share.SchedulerInput{At: t.At.Round(0).UTC(), Seen: k.Seen, Most: t.batch.Settings().Share.MaxWait,
		Proves: t.batch.Settings().Share.Probation}
	for _, x := range t.Subjects {
		if x.Spec.Tier.Important(x.Spec.Class) {
			in.Wait = max(in.Wait, sharing.Waited(&x.Observation))
		}
	}
	if in.Not = t.not(); in.Not.None() && t.Snapshot.Host != nil {
		in.Work = len(batchOf(t.config(t.Homes()))) > 0
	}
	return in
}

// not returns why no batch work belongs to it, whatever the kernel would take; none when it does.
func (t *turn) not() words.Reason {
	switch {
	case !t.batch.ShareOn:
		return words.Because(words.SchedulerNotShared)
	case !t.batch.Settings().Share.Scheduler:
		return words.Because(words.SchedulerOff)
	case t.Held(share.SchedulerID):
		return words.Because(words.SchedulerHeld)
	}
	return words.Reason{}
}

// seen takes up an answer, and decides what follows.
func (t *turn) seen(r *work.Result) {
	k := &t.Scheduler
	k.Look = 0
	if r.Scheduler != nil {
		t.rest(r.Scheduler)
	}
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
		t.Once("scheduler", plan.Event{Kind: plan.EventHost, Error: true}, words.SchedulerSilent, text)
		t.answer(&work.Failure{Code: work.Failed, Text: text})
		return
	}
	t.Over("scheduler")
	k.Seen = *r.Scheduler
	if len(k.Again) > 0 {
		k.Again = maps.Clone(k.Again) // a View has the other
		maps.DeleteFunc(k.Again, func(cgroup string, _ work.Retry) bool { return k.Seen.Left[cgroup] == 0 })
	}
	defer t.answer(nil)
	in := t.input()
	if !t.Acts {
		switch {
		case !in.Not.None():
			k.Why = in.Not
		case !k.Seen.Unable.None():
			k.Why = k.Seen.Unable
		case k.Seen.Loaded != "":
			k.Why = k.Seen.Runs()
		case k.Seen.Other != "":
			k.Why = words.Because(words.SchedulerOther, k.Seen.Other)
		case !t.Enforce:
			k.Why = words.Because(words.SchedulerObserve)
		}
		return
	}
	if t.Busy(share.SchedulerID) || t.Undoes(share.SchedulerID) {
		return
	}
	e := t.entry()
	switch {
	case k.Seen.Loaded == "":
	case e == nil, e.New == k.Seen.Loaded: // the journal was lost, or homenode was killed before it knew that it took
		t.Adopt(share.SchedulerID, plan.Scheduler, string(share.SchedulerID), k.Seen.Loaded)
	}
	if k.Seen.Loaded != "" && k.Runs != k.Seen.Loaded {
		t.Event(plan.Event{Kind: plan.EventHost}, words.SchedulerAdopted, k.Seen.Loaded)
	}
	was := k.SchedulerState
	do, now := share.DecideScheduler(in, was)
	t.keep(now)
	t.tell(&was)
	gone := k.Seen.Loaded == "" && t.entry() != nil
	switch {
	case do.Verb == share.Load, do.Verb == share.Replace:
		k.Do = do
		k.From = k.Seen.Loaded
		k.Drop = false
	default:
		k.Drop = gone || do.Verb == share.Unload
	}
}

// keep remembers, on disk where it must outlive the daemon.
func (t *turn) keep(now share.SchedulerState) {
	was := t.Scheduler.SchedulerState
	t.Scheduler.SchedulerState = now
	tried := was.Failures != now.Failures || !was.Next.Equal(now.Next) || len(was.Loads) != len(now.Loads)
	version := was.Runs != now.Runs || was.Chosen != now.Chosen
	if tried || version || trialState(was.Trial) != trialState(now.Trial) {
		t.Save(Key, now)
	}
}

// trialState is 0 without a trial, 1 while it goes on and 2 once it has failed.
func trialState(trial *share.Trial) int {
	switch {
	case trial == nil:
		return 0
	case trial.Why.None():
		return 1
	}
	return 2
}

// tell writes into the history what is new.
func (t *turn) tell(was *share.SchedulerState) {
	now := &t.Scheduler.SchedulerState
	host := plan.Event{Kind: plan.EventHost, Workload: share.SchedulerID}
	if bad := host; now.End != nil && !now.Ended.Equal(was.Ended) && was.Runs != "" {
		bad.Error = true
		t.Event(bad, words.SchedulerEnded, now.End.String(), max(0, now.Next.Sub(now.Ended)))
	}
	if up := now.Upgrade; up != nil && (was.Upgrade == nil || !was.Upgrade.Ended.Equal(up.Ended)) {
		if up.Held {
			t.Event(host, words.SchedulerHeldOut, up.To, up.Until.Sub(up.Began), up.Worst, up.Before)
		} else {
			host.Error = true
			t.Event(host, words.SchedulerWentBack, up.To, up.Why, now.Runs)
		}
	}
	switch now.Why.Code {
	case words.SchedulerOther, words.SchedulerTooOften:
		if was.Why.Code != now.Why.Code {
			host.Error = true
			t.Event(host, words.Text, now.Why.String())
		}
	}
	if t.Scheduler.Seen.Unable.Code != "" && t.not().None() {
		t.Once("no scheduler", plan.Event{Kind: plan.EventHost}, words.Text, t.Scheduler.Seen.Unable.String())
	} else {
		t.Over("no scheduler")
	}
}

// done takes up how a load or a swap went; nil is success.
func (t *turn) done(f *work.Failure) {
	k := &t.Scheduler
	was := k.SchedulerState
	k.Stale = t.Asked()
	if k.Do.Verb == share.Leave {
		return
	}
	if f != nil {
		t.keep(k.Refused(t.At.Round(0).UTC(), k.Do, f.Text, k.Seen.Newest))
		t.tell(&was)
		k.Do = share.SchedulerDo{}
		t.answer(f)
		return
	}
	k.Seen.Loaded, k.Seen.End = k.Do.Version, nil
	k.Rest = nil // that was another version, or below another scheduler
	t.keep(k.Took(t.At.Round(0).UTC(), k.Do, t.input()))
	k.Why = k.Seen.Runs()
	t.tell(&was)
	k.Do, k.Look = share.SchedulerDo{}, 0
	t.ask() // and tell it the current orders at once
}

// unloaded takes up that it is out of the kernel.
func (t *turn) unloaded() {
	k := &t.Scheduler
	k.Stale = t.Asked()
	k.Seen.Loaded = ""
	k.Untiered = nil
	k.Rest = nil
	k.Drop = false
	t.keep(k.Stopped())
	t.refuse() // no scan asks after it any more
}

// notRunning is why no scheduler for batch work is loaded.
func (t *turn) notRunning() words.Reason {
	why := t.not()
	if why.None() {
		why = t.Scheduler.Why
	}
	if why.None() {
		why = words.Because(words.SchedulerUnknown)
	}
	return why
}

// upgrade puts another version in the place of the one that runs.
func (t *turn) upgrade(id uint64, order Order, dry bool) {
	k := &t.Scheduler
	to := cmp.Or(order.Version, k.Seen.Newest)
	var f *work.Failure
	switch {
	case !t.Enforce && !dry:
		f = concern.Refuse(work.Forbidden, words.ObserveOnly)
	case t.AllHeld():
		f = concern.Refuse(work.Forbidden, words.AllHeldFirst)
	case !t.Acts && t.Enforce:
		f = &work.Failure{Code: work.Forbidden, Text: t.Halted().String()}
	case k.Seen.Loaded == "" || !t.not().None():
		f = concern.Refuse(work.Forbidden, words.SchedulerNotRunning, t.notRunning())
	case k.Trial != nil, t.Busy(share.SchedulerID), t.Undoes(share.SchedulerID), k.Ask != 0:
		f = concern.Refuse(work.Failed, words.SchedulerBusy)
	}
	answer := &Upgraded{From: k.Seen.Loaded, To: to}
	switch {
	case f != nil && dry:
		t.Reply(id, nil, &Upgraded{From: k.Seen.Loaded, To: k.Seen.Loaded, Why: f.Text})
		return
	case f != nil:
		t.Reply(id, f, nil)
		return
	case dry, to == k.Seen.Loaded:
		t.Reply(id, nil, answer)
		return
	}
	t.Order(share.SchedulerID, words.SchedulerOrdered, to)
	k.Ask = id
	k.Do = share.SchedulerDo{Verb: share.Replace, Version: to, Why: words.Because(words.SchedulerUpgraded)}
	k.From = k.Seen.Loaded
}

// answer replies to the user who waits for a swap, once the scheduler has answered after it.
func (t *turn) answer(f *work.Failure) {
	k := &t.Scheduler
	if k.Ask == 0 || k.Do.Verb != share.Leave { // it is under way: a look from before tells nothing of it
		return
	}
	id := k.Ask
	k.Ask = 0
	if f != nil {
		t.Reply(id, f, nil)
		return
	}
	if trial := k.Trial; trial != nil {
		gap := float64(trial.Gap.Microseconds()) / 1000
		t.Event(plan.Event{Kind: plan.EventHost, Workload: share.SchedulerID}, words.SchedulerSwapped, trial.To,
			trial.From, gap, trial.Until.Sub(trial.Began))
	}
	t.Reply(id, nil, &Upgraded{From: k.From, To: k.Seen.Loaded})
}

// policies has the threads of a batch workload go to the scheduler: those that are there, and those
// that have come since.
func (t *turn) policies(o *workload.Observation) (out []concern.Desire) {
	k := &t.Scheduler
	switch {
	case !t.not().None():
		return nil
	case k.Seen.Loaded == "": // it is loaded again: the journal still has the policies of before
		kept := t.Kept(o, plan.TaskPolicy)
		return slices.DeleteFunc(kept, func(d concern.Desire) bool { return k.untiered(d.Path) })
	}
	for _, g := range t.Cgroups(o) {
		if k.untiered(g.Cgroup) {
			continue
		}
		object := concern.Inode(g.Object)
		d := concern.Desire{Kind: plan.TaskPolicy, Path: g.Cgroup, Object: object, Stands: concern.No,
			Step: plan.Step{Kind: plan.SetPolicy, Workload: o.ID,
				Target: plan.Target{Kind: workload.InKernel, Cgroup: g.Cgroup}, From: "other", To: plan.PolicyExt,
				Optional: true,
				Reason:   words.Because(words.SchedulerNeeded)}}
		rests := t.Later(k.Rest[g.Cgroup].Next)
		none := k.Seen.Left[g.Cgroup] == 0 || t.Later(k.Again[g.Cgroup].Next) || rests
		switch {
		case t.Applied(plan.TaskPolicy, g.Cgroup, object) == nil:
			if rests { // also the next one under that path
				continue
			}
		case none:
			d.Stands = concern.Yes
		}
		out = append(out, d)
	}
	return out
}

// switched takes up that the threads of a cgroup were. Those that come meanwhile are switched
// after the next looks; where there are always some, less and less often.
func (t *turn) switched(cgroup string) {
	k := &t.Scheduler
	r := k.Again[cgroup]
	k.Again = maps.Clone(k.Again) // a View has the other
	if k.Again == nil {
		k.Again = map[string]work.Retry{}
	}
	wait := time.Duration(0)
	if r.Failures >= switchedAtOnce {
		wait = min(switchedAgain<<min(r.Failures-switchedAtOnce, 10), work.RetryMost)
	}
	k.Again[cgroup] = work.Retry{Failures: r.Failures + 1, Next: t.At.Add(wait)}
}

const (
	switchedAtOnce = 5 // looks one after the other
	switchedAgain  = 10 * time.Second
)

// rest takes up that the schedulers of some cgroups have ended. Each is given another one, later each time; the batch
// work of others is not asked to wait.
func (t *turn) rest(seen *share.SchedulerSeen) {
	k := &t.Scheduler
	if len(k.Rest)+len(seen.Ended) == 0 {
		return
	}
	k.Rest = maps.Clone(k.Rest) // a View has the other
	if k.Rest == nil {
		k.Rest = map[string]work.Retry{}
	}
	maps.DeleteFunc(k.Rest, func(_ string, r work.Retry) bool { return t.At.Sub(r.Next).Abs() > restsAtMost })
	for _, x := range t.Subjects {
		for _, g := range t.Cgroups(&x.Observation) {
			end, ok := seen.Ended[g.Cgroup]
			if !ok || len(k.Rest) >= mostRests {
				continue
			}
			times := k.Rest[g.Cgroup].Failures
			wait := min(restsFirst<<min(times, 10), restsAtMost)
			k.Rest[g.Cgroup] = work.Retry{Failures: times + 1, Next: t.At.Add(wait)}
			// in its owner's part of history
			bad := plan.Event{Kind: plan.EventHost, Workload: x.Observation.ID, Error: true}
			t.Event(bad, words.SchedulerEndedIn, g.Cgroup, end.String(), wait)
		}
	}
}

const (
	restsFirst = time.Minute
	// restsAtMost is the longest rest, and how long a cgroup must do without another end to count as new.
	restsAtMost = time.Hour
	// mostRests bounds what users can have remembered, who make any number of cgroups.
	mostRests = 1024
)
