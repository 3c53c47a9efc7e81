package sharing

import (
	"math"
	"slices"

	"github.com/homenode/homenode/core/place"
	"github.com/homenode/homenode/core/plan"
	"github.com/homenode/homenode/core/share"
	"github.com/homenode/homenode/core/share/goal"
	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/core/workload"
)

// canLimit returns the resources, other than cores, that sharing limits on this host.
func (t *turn) canLimit() (out []goal.Resource) {
	limit := &t.settings.Base.Cache
	if limit.Cache > 0 && t.cacheStands() {
		out = append(out, goal.Cache)
	}
	if limit.Bandwidth > 0 && t.cacheStands() {
		out = append(out, goal.Bandwidth)
	}
	if t.hasSiblings() && t.scheduled() {
		out = append(out, goal.Siblings)
	}
	if t.stands(plan.IOWeight) || t.stands(plan.IOMax) {
		out = append(out, goal.IO)
	}
	if t.stands(plan.MemoryHigh) {
		out = append(out, goal.Memory)
	}
	return out
}

// scheduled reports whether the scheduler for batch work is loaded.
func (t *turn) scheduled() bool {
	return t.Journal.Of(plan.Scheduler, string(share.SchedulerID)) != nil
}

// hasSiblings reports whether work with goals runs on cores with several CPUs, and the scheduler lets batch work
// run on their siblings.
func (t *turn) hasSiblings() bool {
	smt := slices.ContainsFunc(t.Snapshot.Host.Cores, func(c topology.Core) bool { return c.CPUs.Len() > 1 })
	return smt && slices.ContainsFunc(t.Subjects, func(x *place.Subject) bool {
		return len(x.Spec.Goals) > 0 && x.Spec.Tier != workload.OnlineStrict
	})
}

// stands reports whether a batch workload has a setting of a kind.
func (t *turn) stands(kind plan.SettingKind) bool {
	return slices.ContainsFunc(t.mine, func(x *place.Subject) bool {
		cgroup := t.OwnCgroup(&x.Observation)
		return cgroup != "" && t.Journal.Of(kind, cgroup) != nil
	})
}

// FreesSiblings reports whether goals keep batch work off the SMT siblings of a workload's CPUs.
func (v *View) FreesSiblings(id workload.ID) bool {
	s := v.Steering
	return s != nil && s.Limits[goal.Siblings] > 0 &&
		slices.ContainsFunc(s.Goals, func(g goal.Verdict) bool { return g.Workload == id })
}

// Base returns the memory and I/O that goals leave batch work, at most those in most.
func (v *View) Base(most share.Base) share.Base {
	if v.Steering == nil {
		return most
	}
	if percent := v.Steering.Limits[goal.Memory]; percent > 0 {
		most.Memory *= float64(percent) / 100
	}
	percent := int64(v.Steering.Limits[goal.IO])
	if percent == 0 {
		return most
	}
	part := func(limit int64) int64 {
		if limit == 0 {
			return 0
		}
		return max(1, limit/100*percent+limit%100*percent/100)
	}
	most.IOWeight = int(part(int64(most.IOWeight)))
	most.IO = slices.Clone(most.IO)
	for i := range most.IO {
		m := &most.IO[i]
		m.Read, m.Write = part(m.Read), part(m.Write)
		m.ReadIOPS, m.WriteIOPS = part(m.ReadIOPS), part(m.WriteIOPS)
	}
	return most
}

// cacheStands reports whether the resctrl group of batch work exists.
func (t *turn) cacheStands() bool { return t.Journal.Of(plan.CacheGroup, share.CacheGroup) != nil }

// Limited returns the caches and memory bandwidth that goals leave batch work, at most those in most.
func (v *View) Limited(most share.CacheLimit) share.CacheLimit {
	if v.Steering == nil {
		return most
	}
	part := func(all int, r goal.Resource) int {
		if percent := v.Steering.Limits[r]; percent > 0 && all > 0 {
			return max(5, int(math.Round(float64(all*percent)/100)))
		}
		return all
	}
	least := min(most.Bandwidth, 10)
	return share.CacheLimit{Cache: part(most.Cache, goal.Cache), Bandwidth: max(part(most.Bandwidth, goal.Bandwidth),
		least)}
}
