package control

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/homenode/homenode/core/place"
	"github.com/homenode/homenode/core/plan"
	"github.com/homenode/homenode/core/share"
	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/core/words"
	"github.com/homenode/homenode/core/workload"
)

// SavedSharing is what `homenode share` set last, beside what the configuration said then:
// who changes that has the last word.
type SavedSharing struct {
	On         bool `json:"on"`
	Configured bool `json:"configured"`
}

// ShareOrder turns sharing on or off.
type ShareOrder struct {
	On bool `json:"on"`
}

// Sharing is whether CPUs are shared with batch work, and what that may have now.
type Sharing struct {
	On bool
	share.Outcome
	Left   []LeftAlone   // batch work that is not squeezed, rising by ID
	Helped []workload.ID // important work of which something is set, rising
	Rest   words.Reason  // why there is nothing to share; none when there is
	Cache  CacheUse
	Memory []workload.NodeMemory // that batch work may hold, rising by node; empty when that is not limited
	// Interference is who hurts whom, as of the newest sample.
	Interference share.Interference
	// Watched is what the observer is to look at more closely, as it calls it: what is important
	// and runs beside batch work.
	Watched map[workload.ID]bool
}

// LeftAlone is batch work that sharing changes nothing of.
type LeftAlone struct {
	Workload workload.ID
	Why      []words.Reason
}

// Leaves reports whether a workload is batch work and not squeezed.
func (v *Sharing) Leaves(id workload.ID) bool {
	return slices.ContainsFunc(v.Left, func(l LeftAlone) bool { return l.Workload == id })
}

// Of is what one workload may have, or nil.
func (v *Sharing) Of(id workload.ID) *share.Grant {
	k, ok := slices.BinarySearchFunc(v.Work, id, func(g share.Grant, id workload.ID) int { return cmp.Compare(g.Workload, id) })
	if !ok {
		return nil
	}
	return &v.Work[k]
}

// setSharing turns sharing on or off. The next scan goes by it.
func (s *State) setSharing(id uint64, on, dryRun bool) {
	if !dryRun && on != s.ShareOn {
		s.ShareOn = on
		s.save(KeySharing, SavedSharing{on, s.Settings.Share.On})
		s.order("", words.ShareOrdered, map[bool]string{true: "on", false: "off"}[on])
		if !on && s.acts() { // at once
			by := s.by
			s.by = nil // the order is told already
			s.unload()
			s.by = by
		}
	}
	s.reply(Reply{ID: id, Share: &ShareOrder{on}})
}

// sharingNow is what holds after the newest order, also before the next look goes by it.
func (s *State) sharingNow() Sharing {
	switch {
	case s.Shared.On == s.ShareOn:
		return s.Shared
	case s.ShareOn:
		return Sharing{On: true, Rest: words.Because(words.ShareSoon)}
	}
	return Sharing{Rest: words.Because(words.ShareOff)}
}

// share decides what batch work may have and puts the steps to it into a plan, instead
// of those that give it every CPU that no dedicated work holds.
func (s *State) share(p *plan.Plan) {
	var mine []*place.Subject
	s.Shared = Sharing{On: s.ShareOn}
	if s.ShareOn {
		for _, x := range s.Subjects {
			at, class := place.Of(p.Placements, x.Observation.ID), x.Spec.Class
			if at != nil {
				class = at.Class
			}
			switch batch := class == workload.Batch || class == workload.Shared && x.Spec.Tier == workload.BatchTier; {
			case !batch:
			case at != nil && s.shares(x):
				mine = append(mine, x)
			default:
				s.Shared.Left = append(s.Shared.Left, LeftAlone{x.Observation.ID, s.whyLeft(p, x)})
			}
		}
	}
	switch {
	case !s.ShareOn:
		s.Shared.Rest = words.Because(words.ShareOff)
	case len(mine) == 0 && len(s.Shared.Left) > 0:
		s.Shared.Rest = words.Because(words.ShareAllLeft)
	case len(mine) == 0:
		s.Shared.Rest = words.Because(words.ShareNone)
	}
	if len(mine) == 0 {
		s.Sharing, s.Interference = share.State{}, share.Interference{}
		s.cacheSteps(nil)
		if s.ShareOn { // how much there would be
			s.Shared.Outcome, _ = share.Decide(s.shareInput(p, nil), share.State{})
		}
		return
	}
	s.interferes(p, mine)
	in := s.shareInput(p, mine)
	s.Shared.Outcome, s.Sharing = share.Decide(in, s.Sharing)
	s.Interference.Narrow(&in, &s.Shared.Outcome)
	p.Steps = slices.DeleteFunc(slices.Clone(p.Steps), func(x plan.Step) bool {
		return x.Kind == plan.SetCPUs && s.Shared.Of(x.Workload) != nil
	})
	for i := range s.Shared.Work {
		if g := &s.Shared.Work[i]; g.Frozen && s.Began.Sub(g.Since) >= frozenLong {
			s.once(toldFrozen+string(g.Workload), plan.Event{Kind: plan.EventHost, Workload: g.Workload, Error: true}, words.ShareFrozenLong, frozenLong, string(g.For))
		} else {
			s.over(toldFrozen + string(g.Workload))
		}
	}
	var steps []plan.Step
	for _, x := range mine {
		steps = append(steps, s.shareSteps(x, s.Shared.Of(x.Observation.ID))...)
	}
	steps = slices.Concat(steps, s.baseSteps(p, mine), s.helpSteps(), s.cacheSteps(mine))
	for i := range steps { // memory stays where it is
		if o := s.observation(steps[i].Workload); o != nil {
			now, _, _ := o.LocalShare()
			steps[i].Gain = plan.Gain{LocalityBefore: now, LocalityAfter: now}
		}
	}
	p.Steps = append(p.Steps, steps...)
}

// toldFrozen is where Told has what is frozen for long.
const toldFrozen = "frozen "

// frozenLong is when it is told that what is frozen had better be somewhere else.
const frozenLong = 10 * time.Minute

// shares reports whether a batch workload is homenode's to squeeze.
func (s *State) shares(x *place.Subject) bool {
	return x.Alone.None() && !x.Fixed && !s.Holds.Has(x.Observation.ID)
}

// whyLeft is why a batch workload is not squeezed.
func (s *State) whyLeft(p *plan.Plan, x *place.Subject) []words.Reason {
	id := x.Observation.ID
	if s.Holds.Has(id) {
		return words.Reasons(words.Because(words.HeldByHand))
	}
	if i, ok := decisionOf(p.Report.Decisions, id); ok {
		return p.Report.Decisions[i].Reasons
	}
	return words.Reasons(x.Alone)
}

// shareInput is what is used of each node, and by whom.
func (s *State) shareInput(p *plan.Plan, mine []*place.Subject) share.Input {
	h, policy := s.Snapshot.Host, &s.Facts.Policy
	in := share.Input{At: s.Began.Round(0).UTC(), Settings: s.Settings.Share}
	var dedicated topology.CPUSet
	for i := range p.Placements {
		if x := &p.Placements[i]; x.Class == workload.Dedicated {
			dedicated = dedicated.Union(x.CPUs).Union(x.Idle)
		}
	}
	open := h.Online.Intersect(h.Allowed).Minus(policy.Reserved).Minus(dedicated)
	index := map[topology.NodeID]int{}
	for i := range h.Nodes {
		n := share.Node{ID: h.Nodes[i].ID, Pool: h.Nodes[i].CPUs.Intersect(open), System: topology.None}
		index[n.ID] = i
		in.Nodes = append(in.Nodes, n)
	}
	for i := range s.Snapshot.Nodes {
		if k, ok := index[s.Snapshot.Nodes[i].Node]; ok {
			in.Nodes[k].System = s.Snapshot.Nodes[i].CPUUse
			in.Nodes[k].Known = in.Nodes[k].System >= 0
		}
	}
	for i := range h.Cores {
		c := h.Cores[i].CPUs.Intersect(h.Online)
		for k := range in.Nodes {
			if !c.Empty() && c.SubsetOf(in.Nodes[k].Pool) {
				in.Nodes[k].Cores = append(in.Nodes[k].Cores, c)
			}
		}
	}
	k := 0
	for _, x := range s.Subjects { // both rise by ID
		o := &x.Observation
		at, ran := place.Of(p.Placements, o.ID), s.ranOn(o)
		batch := k < len(mine) && mine[k] == x
		if batch {
			k++
			w := share.Work{ID: o.ID, Importance: at.Importance, CPUs: at.CPUs, Now: o.CPUs, Use: o.CPUUse, Traffic: o.Bandwidth, RanOn: ran, Freezes: s.ownCgroup(x) != "",
				Asks: x.Observation.Caps.Evicts || s.unitOf(x) != "", Proven: s.Interference.Proven(o.ID)}
			w.Limits, w.Max = s.limitOf(x)
			in.Work = append(in.Work, w)
		}
		own := at != nil && at.Class == workload.Dedicated
		for _, r := range ran {
			n, ok := index[r.Node]
			if !ok {
				continue
			}
			use := o.CPUUse * r.Share
			in.Nodes[n].System -= use
			if !batch && !own {
				in.Nodes[n].Online += use
			}
			if w := waited(o); !batch && w > in.Nodes[n].Wait && x.Spec.Tier.Important(x.Spec.Class) {
				in.Nodes[n].Wait, in.Nodes[n].Waiting = w, o.ID
			}
		}
	}
	for i := range in.Nodes { // what is the host's is taken to run on what is kept for it
		in.Nodes[i].System = max(0, in.Nodes[i].System-float64(h.Nodes[i].CPUs.Overlap(policy.Reserved)))
	}
	return in
}

// fills reports whether a workload keeps all CPUs busy that it may use, but for a twentieth: what
// waits there waits for its own threads, and batch work has next to nothing of these CPUs.
func fills(o *workload.Observation) bool {
	return !o.CPUs.Empty() && o.CPUUse >= 0.95*float64(o.CPUs.Len())
}

// waited is the share of time that a workload waited for CPUs that others use.
func waited(o *workload.Observation) float64 {
	if fills(o) {
		return 0
	}
	return o.Waited
}

// ranOn is where a workload ran; where it may, when that was not seen.
func (s *State) ranOn(o *workload.Observation) []workload.NodeShare {
	if len(o.RanOn) > 0 {
		return o.RanOn
	}
	var out []workload.NodeShare
	all := float64(max(1, o.CPUs.Len()))
	for i := range s.Snapshot.Host.Nodes {
		if n := &s.Snapshot.Host.Nodes[i]; n.CPUs.Intersects(o.CPUs) {
			out = append(out, workload.NodeShare{Node: n.ID, Share: float64(n.CPUs.Overlap(o.CPUs)) / all})
		}
	}
	return out
}

// ownCgroup is the one cgroup that is a workload, or that `homenode run` has made for it, and
// whose files nobody else is known to manage; "" for none.
func (s *State) ownCgroup(x *place.Subject) string {
	o := &x.Observation
	if o.Kind == workload.InProcess && workload.OfRun(o.Cgroup) {
		return o.Cgroup
	}
	if c := s.Claims[o.ID]; o.Kind != workload.InCgroup || len(s.SeenAs[o.ID]) > 1 || c != nil && c.Driver != "" {
		return ""
	}
	return cgroupPath(o)
}

// cpuPeriod is the period of cpu.max, µs: the kernel's default.
const cpuPeriod = 100_000

// limitOf is whether homenode may limit how much of its CPUs a workload uses, and to how many
// CPUs it does.
func (s *State) limitOf(x *place.Subject) (may bool, cpus float64) {
	cgroup := s.ownCgroup(x)
	if cgroup == "" || s.Retries[stepKey{Workload: x.Observation.ID, Kind: plan.SetCgroup, Device: string(plan.CgroupMax)}].Failures > 0 {
		return false, 0
	}
	e := s.Journal.Of(plan.CgroupMax, cgroup)
	if e == nil || e.State != plan.Applied || !sameCgroup(e, &x.Observation) {
		return true, 0
	}
	quota, _, _ := strings.Cut(e.New, " ")
	n, err := strconv.ParseFloat(quota, 64)
	if err != nil { // "max"
		return true, 0
	}
	return true, n / cpuPeriod
}

// shareSteps is what must change for one batch workload. Each stands for itself.
func (s *State) shareSteps(x *place.Subject, g *share.Grant) []plan.Step {
	o := &x.Observation
	target := plan.Target{Kind: o.Kind, Cgroup: o.Cgroup, Processes: slices.Clone(o.Processes)}
	var out []plan.Step
	if o.UnevenCPUs || !g.CPUs.Equal(o.CPUs) {
		out = append(out, plan.Step{Kind: plan.SetCPUs, Workload: o.ID, Target: target, From: o.CPUs.String(), To: g.CPUs.String(), Optional: true, Reason: g.Why})
	}
	cgroup := s.ownCgroup(x)
	if cgroup == "" {
		return append(out, s.policySteps(o)...)
	}
	set := func(kind plan.SettingKind, to string, why words.Reason) {
		out = append(out, s.fileStep(o, cgroup, kind, to, why)...)
	}
	set(plan.CgroupIdle, "1", words.Because(words.ShareIdle))
	if g.Max > 0 {
		set(plan.CgroupMax, fmt.Sprintf("%.0f %d", g.Max*cpuPeriod, cpuPeriod), words.Because(words.ShareMax, g.Max))
	} else {
		set(plan.CgroupMax, plan.CgroupFiles[plan.CgroupMax], words.Because(words.ShareNoMax))
	}
	if g.Frozen {
		set(plan.CgroupFreeze, "1", g.Why)
	} else {
		set(plan.CgroupFreeze, "0", words.Because(words.ShareThaw))
	}
	out = append(out, s.policySteps(o)...) // last: what runs when the scheduler ends is bound already
	if unit := s.unitOf(x); !g.Asked.IsZero() && unit != "" && s.Told[toldStopped+string(o.ID)] == "" {
		out = append(out, plan.Step{Kind: plan.StopUnit, Workload: o.ID, Target: plan.Target{Kind: workload.InHost, Host: unit}, From: "running", To: "stopped", Optional: true, Reason: g.Why})
	}
	return out
}

// ofSharing reports whether only sharing sets what a kind of setting is.
func ofSharing(kind plan.SettingKind) bool {
	return kind.IsCgroupFile() || kind == plan.TaskPolicy || kind == plan.Scheduler || kind == plan.CacheGroup || kind == plan.CacheTasks || kind.IsController() && kind != plan.CgroupControllers
}

// unsharing is the retry of putting back what sharing set.
const unsharing = "put back"

// goes reports whether what sharing has set is set no more: sharing is not about its workload
// now, or about it as work of the other kind, batch or important.
func (s *State) goes(e *plan.Entry) bool {
	helps := e.Kind == plan.MemoryLow || e.Kind == plan.CgroupBurst
	switch {
	case e.Kind == plan.CacheGroup:
		return !s.Caching.Wanted
	case s.Shared.Of(e.Workload) != nil:
		return helps || e.Kind == plan.TaskPolicy && (!s.schedulerNot().None() || s.Scheduler.untiered(e.Path)) || e.Kind == plan.CacheTasks && !s.Caching.Wanted
	case s.Shared.helps(e.Workload):
		return !helps
	}
	return true
}

// unshare puts back what sharing has set and sets no more.
func (s *State) unshare() {
	if !s.acts() {
		return
	}
	all := slices.Concat(s.Journal.cgroupFiles(), s.Journal.policies(), s.Journal.cached()) // as they are now: undo may change them
	for i := range all {
		e := &all[i]
		if !s.goes(e) {
			continue
		}
		which := Which{ID: e.Workload, Sharing: true}
		if s.Shared.Of(e.Workload) != nil {
			which.Only = e.Kind
		}
		if s.undoes(e.Workload) || s.Tasks[e.Workload] != nil || s.inUseElsewhere(e.Path, e.Workload) {
			continue
		}
		key := stepKey{Workload: e.Workload, Kind: plan.SetCgroup, To: unsharing}
		r := s.Retries[key]
		if s.waits(r.Next) {
			continue
		}
		s.Retries[key] = retry{Failures: r.Failures + 1, Next: s.At.Add(min(retryFirst<<min(r.Failures, 10), retryMost))}
		s.undo(0, which, workload.Lineage{})
	}
}

// sharingChecked is how often it is asked whether what sharing has set still stands: scans do
// not read it, and what the manager of a cgroup writes comes seldom.
const sharingChecked = 30 * time.Second

// checkSharing asks after what sharing has set; of resctrl at each scan, for what enters a batch
// cgroup from elsewhere is not in the group.
func (s *State) checkSharing() {
	all := s.Journal.cached()
	if s.At.Sub(s.SharingChecked).Abs() >= sharingChecked {
		s.SharingChecked = s.At
		all = slices.Concat(s.Journal.cgroupFiles(), all)
	}
	checking := s.checking()
	of := map[workload.ID][]plan.Entry{}
	for _, e := range all {
		if e.State == plan.Applied && !checking[e.Workload] && s.Tasks[e.Workload] == nil && !s.undoes(e.Workload) && !s.inUseElsewhere(e.Path, e.Workload) {
			of[e.Workload] = append(of[e.Workload], e)
		}
	}
	for _, id := range sortedKeys(of) {
		s.Checks[s.effect(Effect{Kind: EffectCheck, Workload: id, Entries: of[id]})] = id
	}
}

// checkedValue learns how a value that sharing has set reads now.
func (s *State) checkedValue(id workload.ID, now plan.Setting) {
	e := s.Journal.Of(now.Kind, now.Path)
	switch {
	case e == nil || now.Value == e.New:
	case e.Object != "" && now.Object != "" && e.Object != now.Object:
		s.mark(e, plan.Gone)
	case !e.Ours(now):
		s.foreign(e, now.Value)
	case e.Kind == plan.CacheTasks: // threads came from elsewhere
		s.mark(e, plan.Intended)
	default:
		s.overwritten(id)
		s.mark(e, plan.Intended)
		s.event(plan.Event{Kind: plan.EventStep, Workload: id, Error: true}, words.SetBack, string(e.Kind), e.Path, now.Value)
	}
}

// chosenByOthers returns the first value of a cgroup that another program has chosen: homenode did
// not write it, and it is not the kernel's default. It stays, also when it is the value wanted, for
// kinds that turn: homenode will want another value of those later.
func (s *State) chosenByOthers(step *plan.Step, changes []plan.Change) *plan.Change {
	if step.Kind != plan.SetCgroup && step.Kind != plan.SetCache {
		return nil
	}
	for i := range changes {
		c := &changes[i]
		if c.Kind == plan.CacheGroup && c.Value != "" && s.Journal.Of(c.Kind, c.Path) == nil { // somebody else has made it
			return c
		}
		unset, ok := plan.CgroupFiles[c.Kind]
		if !ok || c.Value == unset || s.Journal.Of(c.Kind, c.Path) != nil {
			continue
		}
		if c.Value != c.Will || c.Kind.Turns() {
			return c
		}
	}
	return nil
}
