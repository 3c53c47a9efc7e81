package sharing

import (
	"strconv"

	"github.com/homenode/homenode/core/control/concern"
	"github.com/homenode/homenode/core/control/work"
	"github.com/homenode/homenode/core/place"
	"github.com/homenode/homenode/core/plan"
	"github.com/homenode/homenode/core/share"
	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/core/words"
	"github.com/homenode/homenode/core/workload"
)

// setNow is what homenode has set a file to, as a number; 0 for nothing.
func (t *turn) setNow(o *workload.Observation, cgroup string, kind plan.SettingKind) int64 {
	e := t.Applied(kind, cgroup, concern.Inode(o.CgroupID))
	if e == nil {
		return 0
	}
	n, _ := strconv.ParseInt(e.New, 10, 64)
	return n
}

// limits returns what batch work may have of memory and block devices.
func (t *turn) limits() (out []concern.Desire) {
	base := t.Shared.Base(t.settings.Base)
	var own []*place.Subject
	for _, x := range t.mine {
		if t.OwnCgroup(&x.Observation) != "" {
			own = append(own, x)
		}
	}
	limits := t.memoryLimits(own, base.Memory)
	for i, x := range own {
		o, cgroup := &x.Observation, t.OwnCgroup(&x.Observation)
		set := func(kind plan.SettingKind, to string, why words.Reason) {
			out = append(out, t.File(o, cgroup, kind, to, why))
		}
		out = append(out, t.weight(o, cgroup)...)
		high := plan.CgroupFiles[plan.MemoryHigh]
		var why words.Reason
		if limits != nil {
			high, why = strconv.FormatInt(int64(limits[i].High)<<10, 10), limits[i].Why
		}
		set(plan.MemoryHigh, high, why)
		weight := plan.CgroupFiles[plan.IOWeight]
		if base.IOWeight > 0 {
			weight = strconv.Itoa(base.IOWeight)
		}
		set(plan.IOWeight, weight, words.Because(words.ShareIOWeight, base.IOWeight))
		set(plan.IOMax, share.IOPart(base.IO, len(own)), words.Because(words.ShareIOMax))
	}
	return out
}

// weight has the lowest cpu.weight where the kernel has no cpu.idle. Where it has, cpu.weight reads
// "idle" while cpu.idle is 1, and its entry stays until cpu.idle is 0 again: the driver made it.
func (t *turn) weight(o *workload.Observation, cgroup string) []concern.Desire {
	idle := work.Key{Workload: o.ID, Kind: plan.SetCgroup, To: "1", Device: string(plan.CgroupIdle)}
	e := t.Journal.Of(plan.CgroupWeight, cgroup)
	lowest := e != nil && e.New == "1"
	switch {
	case lowest, t.RetryOf(idle).Code == work.Lacking:
		return []concern.Desire{t.File(o, cgroup, plan.CgroupWeight, "1", words.Because(words.ShareWeight))}
	case e != nil:
		return []concern.Desire{{Kind: plan.CgroupWeight, Path: cgroup, Only: true, Step: plan.Step{Workload: o.ID}}}
	}
	return nil
}

// memoryLimits is how much each batch workload may hold. target is the part of a node's memory that may be in use;
// nil when that is not limited.
func (t *turn) memoryLimits(own []*place.Subject, target float64) []share.MemoryLimit {
	if target <= 0 {
		return nil
	}
	in := share.MemoryInput{Target: target}
	for _, r := range t.Snapshot.Pressure {
		if r.Resource == "memory" {
			in.Stalled = r.Full / 100
		}
	}
	var others []*place.Subject
	k := 0
	for _, x := range t.Subjects { // both rise by ID
		if k < len(own) && own[k] == x {
			k++
		} else {
			others = append(others, x)
		}
	}
	h := t.Snapshot.Host
	for i := range h.Nodes {
		on := topology.Nodes(h.Nodes[i].ID)
		n := share.MemoryNode{ID: h.Nodes[i].ID, Capacity: max(0, h.Nodes[i].Memory),
			System: workload.On(t.Snapshot.Unmanaged, on)}
		for _, x := range others {
			n.Online += workload.On(x.Observation.Memory, on)
		}
		in.Nodes = append(in.Nodes, n)
		t.Shared.Memory = append(t.Shared.Memory,
			workload.NodeMemory{Node: n.ID, KiB: share.MemoryBudget(&n, in.Target)})
	}
	for _, x := range own {
		o := &x.Observation
		now := topology.KiB(t.setNow(o, t.OwnCgroup(o), plan.MemoryHigh) >> 10)
		in.Work = append(in.Work, share.Holder{ID: o.ID, On: o.Memory, Now: now})
	}
	return share.Memory(in)
}

// protectStep is the steps in which memory.low follows what a workload holds.
const protectStep = 64 << 10 // KiB

// throttledMost is the share of the periods of a cpu.max that may hold a workload back before
// it may burst.
const throttledMost = 0.05

// helps returns what is set of important work: memory.low and cpu.max.burst, where the
// configuration has them.
func (t *turn) helps() (out []concern.Desire) {
	base := &t.settings.Base
	if !base.Protect && !base.Burst {
		return nil
	}
	for _, x := range t.Subjects {
		o := &x.Observation
		cgroup := t.OwnCgroup(o)
		mine := cgroup != "" && t.Shared.Of(o.ID) == nil && !t.Held(o.ID) && x.Alone.None()
		if !mine || !x.Spec.Tier.Important(x.Spec.Class) {
			continue
		}
		t.Shared.Helped = append(t.Shared.Helped, o.ID)
		if base.Protect {
			low := strconv.FormatInt(t.protects(o, cgroup)<<10, 10)
			out = append(out, t.File(o, cgroup, plan.MemoryLow, low, words.Because(words.ShareProtect)))
		}
		burst, why := plan.CgroupFiles[plan.CgroupBurst], words.Because(words.ShareNoBurst)
		now := t.Journal.Of(plan.CgroupBurst, cgroup)
		bursts := now != nil && concern.Same(now, concern.Inode(o.CgroupID)) && now.New == plan.WholeQuota
		if base.Burst && t.headroom(o) && (o.Throttled > throttledMost || bursts) {
			burst, why = plan.WholeQuota, words.Because(words.ShareBurst, o.Throttled)
		}
		out = append(out, t.File(o, cgroup, plan.CgroupBurst, burst, why))
	}
	return out
}

// protects returns the KiB of memory.low: what the workload holds, in large steps.
func (t *turn) protects(o *workload.Observation, cgroup string) int64 {
	kib, now := int64(workload.Total(o.Memory)), t.setNow(o, cgroup, plan.MemoryLow)>>10
	kib = (kib + protectStep - 1) / protectStep * protectStep
	if now > 0 && max(kib-now, now-kib) <= now/8 {
		return now
	}
	return kib
}

// headroom reports whether CPUs are idle on a node where a workload ran.
func (t *turn) headroom(o *workload.Observation) bool {
	for _, r := range t.ranOn(o) {
		for i := range t.Shared.Nodes {
			if n := &t.Shared.Nodes[i]; n.Node == r.Node &&
				float64(n.Pool)-n.Online-n.System >= float64(max(1, n.Idle)) {
				return true
			}
		}
	}
	return false
}
