package control

import (
	"slices"
	"strings"

	"github.com/homenode/homenode/core/place"
	"github.com/homenode/homenode/core/plan"
	"github.com/homenode/homenode/core/share"
	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/core/words"
	"github.com/homenode/homenode/core/workload"
)

// Caching is what is remembered of the group of resctrl that batch work has.
type Caching struct {
	share.CacheState
	Wanted bool
	Set    string            // limit that the group was given last: of share.CacheLimit
	Unable map[string]string // what this machine has not, by resource ("L3", "MB"), and why
	Failed string            // why the newest step did not take; "" when it did
}

// CacheUse is what batch work has of caches and memory bandwidth.
type CacheUse struct {
	Schemata string           // in force; "" when nothing is
	Limit    share.CacheLimit // … in percent
	Why      []words.Reason
}

// cacheEntry is the journal entry of the group, or nil.
func (s *State) cacheEntry() *plan.Entry { return s.Journal.Of(plan.CacheGroup, share.CacheGroup) }

// cacheSteps are the steps to the group of resctrl and into it. Each stands for itself.
func (s *State) cacheSteps(mine []*place.Subject) (out []plan.Step) {
	k, most := &s.Caching, s.Settings.Base.Cache
	k.Wanted = false
	say := func(code words.Code, args ...any) {
		s.Shared.Cache.Why = append(s.Shared.Cache.Why, words.Because(code, args...))
	}
	switch {
	case most.None() || !s.ShareOn:
		say(words.CacheOff)
	case s.Holds.Has(share.CacheID):
		say(words.CacheHeld)
	case len(mine) == 0:
		say(words.CacheNoWork)
	default:
		k.Wanted = true
	}
	if !k.Wanted {
		*k = Caching{}
		return nil
	}
	for _, name := range sortedKeys(k.Unable) {
		if say(words.Text, k.Unable[name]); name == "L3" {
			most.Cache = 0
		} else {
			most.Bandwidth = 0
		}
	}
	if id := s.unconfined(mine); most.Bandwidth > 0 && id != "" {
		most.Bandwidth = 0
		say(words.CacheNoCores, string(id))
	}
	if k.Wanted = !most.None(); !k.Wanted {
		return nil
	}
	hurt := slices.ContainsFunc(s.Interference.Victims, func(v share.Victim) bool { return v.Hurt })
	adapts := slices.ContainsFunc(s.Snapshot.Sources, func(x workload.SourceStatus) bool { return x.Source == workload.MBM && x.Used })
	k.CacheState = k.Next(s.Began.Round(0).UTC(), most, hurt, adapts)
	e, want := s.cacheEntry(), k.Now.String()
	stands := e != nil && e.State == plan.Applied
	if !stands || k.Set != want {
		step := plan.Step{Kind: plan.SetCache, Workload: share.CacheID, Target: plan.Target{Kind: workload.InCache, Host: share.CacheGroup}, To: want, Optional: true,
			Reason: words.Because(words.CacheSet, want)}
		if stands {
			step.From = e.New
		}
		out = append(out, step)
	}
	switch {
	case k.Failed != "":
		say(words.Text, k.Failed)
	case !s.Settings.Enforce:
		say(words.CacheObserved)
	case !stands:
		say(words.CacheTried)
	case !adapts:
		say(words.CacheFixed)
	case hurt:
		say(words.CacheHurt)
	case k.Now != most:
		say(words.CacheGrows)
	default:
		say(words.CacheWhole)
	}
	if !stands {
		return out
	}
	s.Shared.Cache.Schemata = e.New
	s.Shared.Cache.Limit, _ = share.ParseCacheLimit(k.Set)
	for _, x := range mine {
		o := &x.Observation
		for _, g := range s.cgroupsOf(o) {
			if e := s.Journal.Of(plan.CacheTasks, g.Cgroup); e != nil && e.State == plan.Applied && (g.Object == 0 || sameCgroup(e, o)) {
				continue
			}
			out = append(out, plan.Step{Kind: plan.SetCacheTasks, Workload: o.ID, Target: plan.Target{Kind: workload.InCache, Cgroup: g.Cgroup}, To: share.CacheGroup, Optional: true,
				Reason: words.Because(words.CacheSet, want)})
		}
	}
	return out
}

// unconfined is a batch workload that has not whole cores, or does not keep to them; "" for none.
func (s *State) unconfined(mine []*place.Subject) workload.ID {
	whole := func(cpus topology.CPUSet) bool {
		return !slices.ContainsFunc(s.Snapshot.Host.Cores, func(c topology.Core) bool {
			core := c.CPUs.Intersect(s.Snapshot.Host.Online)
			return core.Intersects(cpus) && !core.SubsetOf(cpus)
		})
	}
	for _, x := range mine {
		o := &x.Observation
		g := s.Shared.Of(o.ID)
		bad := g == nil || o.UnevenCPUs || !whole(g.CPUs) || !whole(o.CPUs)
		for key, r := range s.Retries {
			bad = bad || key.Workload == o.ID && key.Kind == plan.SetCPUs && r.Failures > 0
		}
		if bad {
			return o.ID
		}
	}
	return ""
}

// cacheDone takes up how a step to the group went; nil is well.
func (s *State) cacheDone(step *plan.Step, f *Failure) {
	k := &s.Caching
	if f == nil {
		k.Set, k.Failed = step.To, ""
		return
	}
	for _, name := range []string{"L3", "MB"} {
		if strings.HasPrefix(f.Text, name+": needs") { // the other one may do without
			if k.Unable == nil {
				k.Unable = map[string]string{}
			}
			k.Unable[name] = f.Text
			return
		}
	}
	k.Failed = f.Text
}
