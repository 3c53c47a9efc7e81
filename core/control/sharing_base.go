package control

import (
	"slices"
	"strconv"

	"github.com/homenode/homenode/core/place"
	"github.com/homenode/homenode/core/plan"
	"github.com/homenode/homenode/core/share"
	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/core/words"
	"github.com/homenode/homenode/core/workload"
)

// fileStep is the step that gives a file of a workload's cgroup a value; none when it has it.
func (s *State) fileStep(o *workload.Observation, cgroup string, kind plan.SettingKind, to string, why words.Reason) []plan.Step {
	e := s.fileEntry(o, cgroup, kind)
	if e == nil && to == plan.CgroupFiles[kind] || e != nil && e.State == plan.Applied && e.New == to {
		return nil
	}
	step := plan.Step{Kind: plan.SetCgroup, Workload: o.ID, Target: plan.Target{Kind: workload.InCgroup, Cgroup: cgroup, File: string(kind)},
		From: plan.CgroupFiles[kind], To: to, Optional: true, Reason: why}
	if e != nil {
		step.From = e.New
	}
	return []plan.Step{step}
}

// fileEntry is the journal entry of a file of the cgroup that was observed, or nil.
func (s *State) fileEntry(o *workload.Observation, cgroup string, kind plan.SettingKind) *plan.Entry {
	if e := s.Journal.Of(kind, cgroup); e != nil && sameCgroup(e, o) {
		return e
	}
	return nil
}

// setNow is what homenode has set a file to, as a number; 0 for nothing.
func (s *State) setNow(o *workload.Observation, cgroup string, kind plan.SettingKind) int64 {
	e := s.fileEntry(o, cgroup, kind)
	if e == nil || e.State != plan.Applied {
		return 0
	}
	n, _ := strconv.ParseInt(e.New, 10, 64)
	return n
}

// varies reports whether a file gets another value every now and then: what hinders one value
// hinders all.
func varies(file string) bool {
	return slices.Contains([]plan.SettingKind{plan.CgroupMax, plan.MemoryHigh, plan.MemoryLow, plan.IOMax}, plan.SettingKind(file))
}

// baseSteps is what beside CPUs is set of batch work: memory and block devices.
func (s *State) baseSteps(p *plan.Plan, mine []*place.Subject) (out []plan.Step) {
	base := &s.Settings.Base
	var own []*place.Subject
	for _, x := range mine {
		if s.ownCgroup(x) != "" {
			own = append(own, x)
		}
	}
	limits := s.memoryLimits(p, own)
	for i, x := range own {
		o, cgroup := &x.Observation, s.ownCgroup(x)
		set := func(kind plan.SettingKind, to string, why words.Reason) {
			out = append(out, s.fileStep(o, cgroup, kind, to, why)...)
		}
		if key := (stepKey{o.ID, plan.SetCgroup, "1", string(plan.CgroupIdle)}); s.Retries[key].Code == Lacking {
			set(plan.CgroupWeight, "1", words.Because(words.ShareWeight))
		}
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

// memoryLimits is how much each batch workload may hold; nil when that is not limited.
func (s *State) memoryLimits(p *plan.Plan, own []*place.Subject) []share.MemoryLimit {
	if s.Settings.Base.Memory <= 0 {
		return nil
	}
	in := share.MemoryInput{Target: s.Settings.Base.Memory}
	for _, r := range s.Snapshot.Pressure {
		if r.Resource == "memory" {
			in.Stalled = r.Full / 100
		}
	}
	var others []*place.Subject
	k := 0
	for _, x := range s.Subjects { // both rise by ID
		if k < len(own) && own[k] == x {
			k++
		} else {
			others = append(others, x)
		}
	}
	h := s.Snapshot.Host
	for i := range h.Nodes {
		on := topology.Nodes(h.Nodes[i].ID)
		n := share.MemoryNode{ID: h.Nodes[i].ID, Capacity: max(0, h.Nodes[i].Memory), System: workload.On(s.Snapshot.Unmanaged, on)}
		for _, x := range others {
			n.Online += workload.On(x.Observation.Memory, on)
		}
		in.Nodes = append(in.Nodes, n)
		s.Shared.Memory = append(s.Shared.Memory, workload.NodeMemory{Node: n.ID, KiB: share.MemoryBudget(&n, in.Target)})
	}
	for _, x := range own {
		o := &x.Observation
		now := topology.KiB(s.setNow(o, s.ownCgroup(x), plan.MemoryHigh) >> 10)
		in.Work = append(in.Work, share.Holder{ID: o.ID, On: o.Memory, Now: now})
	}
	return share.Memory(in)
}

// protectStep is the steps in which memory.low follows what a workload holds.
const protectStep = 64 << 10 // KiB

// throttledMost is the share of the periods of a cpu.max that may hold a workload back before
// it may burst.
const throttledMost = 0.05

// helpSteps is what is set of important work: memory.low and cpu.max.burst, where the
// configuration has them.
func (s *State) helpSteps() (out []plan.Step) {
	base := &s.Settings.Base
	s.Shared.Helped = nil
	if !base.Protect && !base.Burst {
		return nil
	}
	for _, x := range s.Subjects {
		o, cgroup := &x.Observation, s.ownCgroup(x)
		if cgroup == "" || s.Shared.Of(o.ID) != nil || s.Holds.Has(o.ID) || !x.Alone.None() || !x.Spec.Tier.Important(x.Spec.Class) {
			continue
		}
		s.Shared.Helped = append(s.Shared.Helped, o.ID)
		low := plan.CgroupFiles[plan.MemoryLow]
		if base.Protect {
			kib, now := int64(workload.Total(o.Memory)), s.setNow(o, cgroup, plan.MemoryLow)>>10
			if kib = (kib + protectStep - 1) / protectStep * protectStep; now > 0 && max(kib-now, now-kib) <= now/8 {
				kib = now
			}
			low = strconv.FormatInt(kib<<10, 10)
		}
		out = append(out, s.fileStep(o, cgroup, plan.MemoryLow, low, words.Because(words.ShareProtect))...)
		burst, why := plan.CgroupFiles[plan.CgroupBurst], words.Because(words.ShareNoBurst)
		bursts := s.fileEntry(o, cgroup, plan.CgroupBurst)
		if base.Burst && s.headroom(o) && (o.Throttled > throttledMost || bursts != nil && bursts.New == plan.WholeQuota) {
			burst, why = plan.WholeQuota, words.Because(words.ShareBurst, o.Throttled)
		}
		out = append(out, s.fileStep(o, cgroup, plan.CgroupBurst, burst, why)...)
	}
	return out
}

// headroom reports whether CPUs are idle on a node where a workload ran.
func (s *State) headroom(o *workload.Observation) bool {
	for _, r := range s.ranOn(o) {
		for i := range s.Shared.Nodes {
			if n := &s.Shared.Nodes[i]; n.Node == r.Node && float64(n.Pool)-n.Online-n.System >= float64(max(1, n.Idle)) {
				return true
			}
		}
	}
	return false
}

// helps reports whether sharing has something set of a workload that is not batch work.
func (v *Sharing) helps(id workload.ID) bool {
	_, ok := slices.BinarySearch(v.Helped, id)
	return ok
}
