package caches

import (
	"maps"
	"slices"
	"strings"

	"github.com/homenode/homenode/core/control/concern"
	"github.com/homenode/homenode/core/control/concern/sharing"
	"github.com/homenode/homenode/core/control/work"
	"github.com/homenode/homenode/core/place"
	"github.com/homenode/homenode/core/plan"
	"github.com/homenode/homenode/core/share"
	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/core/words"
	"github.com/homenode/homenode/core/workload"
)

// Concern decides what caches and memory bandwidth batch work may have: one group of resctrl.
type Concern struct{ Caching Caching }

// Caching is what is remembered of the group.
type Caching struct {
	share.CacheState
	Wanted bool
	Set    string            // limit that the group was given last: of share.CacheSetting
	Unable map[string]string // what this machine has not, by resource ("L3", "MB"), and why
	// Without is the measured bandwidth when MB was refused: it is tried again once that is another.
	Without string
	Failed  string // why the newest step did not take; "" when it did
}

// turn is one decision.
type turn struct {
	*Concern
	*concern.Scene
	batch *sharing.Concern
}

// Bound is the concern with the batch work that it is about.
type Bound struct {
	*Concern
	Batch *sharing.Concern
}

// Name implements concern.Concern.
func (Bound) Name() string { return "caches" }

// Owns implements concern.Concern: the group and what is in it.
func (Bound) Owns(e *plan.Entry) bool { return e.Kind == plan.CacheGroup || e.Kind == plan.CacheTasks }

// Decide implements concern.Concern.
func (b Bound) Decide(sc *concern.Scene) concern.Desired {
	t := &turn{b.Concern, sc, b.Batch}
	return concern.Desired{Settings: t.decide()}
}

// Verify implements concern.Verifier: at each scan, for what enters a batch cgroup from elsewhere is
// not in the group.
func (b Bound) Verify(sc *concern.Scene) []plan.Entry {
	return sc.Journal.Group(b.Name(), func(k plan.SettingKind) bool {
		return k == plan.CacheGroup ||
			k == plan.CacheTasks
	})
}

// Ended implements concern.Concern.
func (b Bound) Ended(_ *concern.Scene, step *plan.Step, f *work.Failure) bool {
	if step.Kind != plan.SetCache {
		return false
	}
	k := &b.Caching
	if f == nil {
		k.Set, k.Failed = step.To, ""
		return false
	}
	for _, name := range []string{"L3", "MB"} {
		if strings.HasPrefix(f.Text, name+": needs") { // the other one may do without
			if k.Unable == nil {
				k.Unable = map[string]string{}
			}
			k.Unable[name] = f.Text
			if name == "MB" {
				tried, _ := share.ParseCacheSetting(step.To)
				k.Without = tried.Whole.String()
			}
			return false
		}
	}
	k.Failed = f.Text
	return false
}

// say adds to why batch work has what it has.
func (t *turn) say(code words.Code, args ...any) {
	v := &t.batch.Shared.Cache
	v.Why = append(v.Why, words.Because(code, args...))
}

// decide returns the group of resctrl and what is in it. Each desire stands for itself.
func (t *turn) decide() []concern.Desire {
	k := &t.Caching
	most := t.most()
	k.Wanted = !most.None()
	if !k.Wanted {
		return nil
	}
	hurt := slices.ContainsFunc(t.batch.Interference.Victims, func(v share.Victim) bool { return v.Hurt })
	adapts := slices.ContainsFunc(t.Snapshot.Sources,
		func(x workload.SourceStatus) bool { return x.Source == workload.MBM && x.Used })
	most = t.batch.Shared.Limited(most)
	k.CacheState = k.Next(t.Began.Round(0).UTC(), most, hurt, adapts)
	e := t.Applied(plan.CacheGroup, share.CacheGroup, "")
	setting := share.CacheSetting{CacheLimit: k.Now}
	if k.Now.Bandwidth > 0 {
		setting.Whole = share.MeasuredBandwidth(t.Snapshot.Host)
	}
	want := setting.String()
	why := words.Because(words.CacheSet, k.Now.String())
	group := concern.Desire{Kind: plan.CacheGroup, Path: share.CacheGroup, Stands: concern.No,
		Step: plan.Step{Kind: plan.SetCache, Workload: share.CacheID,
			Target: plan.Target{Kind: workload.InCache, Host: share.CacheGroup}, To: want, Optional: true,
			Reason: why}}
	if e != nil {
		group.Step.From = e.New
		if k.Set == want {
			group.Stands = concern.Yes
		}
	}
	t.tell(e != nil, adapts, hurt, most)
	out := []concern.Desire{group}
	if e == nil { // the group is made again: what is in it stays
		for _, x := range t.batch.Mine(t.Scene) {
			out = append(out, t.Kept(&x.Observation, plan.CacheTasks)...)
		}
		return out
	}
	t.batch.Shared.Cache.Schemata = e.New
	set, _ := share.ParseCacheSetting(k.Set)
	t.batch.Shared.Cache.Limit = set.CacheLimit
	t.amount(set.Allowed(e.New), set.Bandwidth)
	for _, x := range t.batch.Mine(t.Scene) {
		o := &x.Observation
		for _, g := range t.Cgroups(o) {
			object := concern.Inode(g.Object)
			d := concern.Desire{Kind: plan.CacheTasks, Path: g.Cgroup, Object: object, Stands: concern.No,
				Step: plan.Step{Kind: plan.SetCacheTasks, Workload: o.ID,
					Target: plan.Target{Kind: workload.InCache, Cgroup: g.Cgroup}, To: share.CacheGroup, Optional: true,
					Reason: why}}
			if t.Applied(plan.CacheTasks, g.Cgroup, object) != nil {
				d.Stands = concern.Yes
			}
			out = append(out, d)
		}
	}
	return out
}

// most returns the limit that the configuration has, without what this machine lacks; none where the
// group is not wanted.
func (t *turn) most() share.CacheLimit {
	k := &t.Caching
	most := t.batch.Settings().Base.Cache
	wanted := false
	switch {
	case most.None() || !t.batch.ShareOn:
		t.say(words.CacheOff)
	case t.Held(share.CacheID):
		t.say(words.CacheHeld)
	case len(t.batch.Mine(t.Scene)) == 0:
		t.say(words.CacheNoWork)
	default:
		wanted = true
	}
	if !wanted {
		*k = Caching{}
		return share.CacheLimit{}
	}
	if k.Unable["MB"] != "" && k.Without != share.MeasuredBandwidth(t.Snapshot.Host).String() {
		delete(k.Unable, "MB")
	}
	for _, name := range slices.Sorted(maps.Keys(k.Unable)) {
		t.say(words.Text, k.Unable[name])
		if name == "L3" {
			most.Cache = 0
		} else {
			most.Bandwidth = 0
		}
	}
	if most.Bandwidth == 0 {
		return most
	}
	if id := t.unconfined(t.batch.Mine(t.Scene)); id != "" {
		most.Bandwidth = 0
		t.say(words.CacheNoCores, string(id))
	}
	return most
}

// amount says what a schemata that does not count in percent comes to.
func (t *turn) amount(allowed share.Bandwidth, percent int) {
	if len(allowed) == 0 {
		return
	}
	all := slices.Sorted(maps.Values(allowed))
	least, most := all[0], all[len(all)-1]
	if least == most {
		t.say(words.CacheBandwidth, least, float64(percent)/100)
		return
	}
	t.say(words.CacheBandwidths, least, most, float64(percent)/100)
}

// tell says how far the group is.
func (t *turn) tell(stands, adapts, hurt bool, most share.CacheLimit) {
	k := &t.Caching
	switch {
	case k.Failed != "":
		t.say(words.Text, k.Failed)
	case !t.Enforce:
		t.say(words.CacheObserved)
	case !stands:
		t.say(words.CacheTried)
	case !adapts:
		t.say(words.CacheFixed)
	case hurt:
		t.say(words.CacheHurt)
	case k.Now != most:
		t.say(words.CacheGrows)
	default:
		t.say(words.CacheWhole)
	}
}

// unconfined is a batch workload that has not whole cores, or does not keep to them; "" for none.
func (t *turn) unconfined(mine []*place.Subject) workload.ID {
	whole := func(cpus topology.CPUSet) bool {
		return !slices.ContainsFunc(t.Snapshot.Host.Cores, func(c topology.Core) bool {
			core := c.CPUs.Intersect(t.Snapshot.Host.Online)
			return core.Intersects(cpus) && !core.SubsetOf(cpus)
		})
	}
	for _, x := range mine {
		o := &x.Observation
		g := t.batch.Shared.Of(o.ID)
		bad := g == nil || o.UnevenCPUs || !whole(g.CPUs) || !whole(o.CPUs)
		t.Retries(func(key work.Key, r work.Retry) {
			failed := key.Workload == o.ID && key.Kind == plan.SetCPUs && r.Failures > 0
			bad = bad || failed
		})
		if bad {
			return o.ID
		}
	}
	return ""
}
