package observe

import (
	"cmp"

	"github.com/homenode/homenode/core/workload"
)

// use is the CPU use of a workload over the last window.
func (o *Observer) use(w *work) float64 {
	if w.kind == workload.InCgroup && w.leaf.usage >= 0 {
		return w.leaf.use
	}
	var use float64
	for _, p := range w.procs {
		use += p.use
	}
	return use
}

// observation puts together what was seen of a workload, and what of its memory
// cannot be reclaimed.
func (o *Observer) observation(w *work) (workload.Observation, byNode) {
	cpus, why := o.cpusOf(w)
	if !cpus.Equal(w.cpus) { // it was sent elsewhere: where it ran before says nothing
		w.cpus = cpus
		clear(w.acc)
		w.ran = nil
		clear(w.vcpuAcc)
		w.vcpus = nil
		w.access.forget()
		w.grouped.forget(o.now)
	}
	mem := o.memoryOf(w)
	obs := workload.Observation{
		ID:        w.id,
		Name:      o.nameOf(w),
		Kind:      w.kind,
		Cgroup:    w.leaf.path,
		CgroupID:  w.leaf.inode,
		UID:       workload.UserOf(w.leaf.path),
		CPUUse:    o.use(w),
		RanOn:     w.ran,
		RanOnFrom: workload.PerThread,
		Bandwidth: w.grouped.traffic(o.now),
		Accesses:  w.accesses(o.now),
		Memory:    mem.all.list(),
		Anon:      mem.anon.list(),
		Movable:   mem.held.list(),
		CPUs:      cpus,
		Mems:      o.memsOf(w),
		Lower:     o.lower,
		OwnPolicy: policyOf(w),
		VCPUs:     w.vcpus,
		Asked:     askedOf(w),
		Pinned:    why != "",
		PinnedWhy: why,
		Terminal:  w.terminal,
		PerThread: w.wide.threads,

		PerProcess: o.perProcess(w),

		MemoryUnread: o.unread(w),
		Used:         o.usedOf(w),
	}
	if w.kind == workload.InCgroup && w.leaf.hasStat {
		obs.Kernel = w.leaf.stat.kernel()
	}
	if w.kind == workload.InCgroup {
		obs.Waited = w.leaf.waited
		obs.WaitedFrom = w.leaf.waitedFrom
		obs.Throttled = w.leaf.throttledShare
	}
	if obs.WaitedFrom == "" && w.signal.delayed && obs.Throttled == 0 {
		obs.Waited, obs.WaitedFrom = w.signal.delay, workload.Schedstat
	}
	obs.Executed = w.signal.executed
	obs.Slices = w.slicing.now
	obs.Vhost = w.vhost.Vhost
	if w.ran == nil {
		obs.RanOn, obs.RanOnFrom = o.allowedShares(cpus), workload.AllowedSet
	}
	for _, p := range w.procs {
		obs.Processes = append(obs.Processes, workload.Process{PID: p.pid, Start: p.start})
		obs.Threads += p.threads
		obs.Unanswered = obs.Unanswered || p.silent || p.unasked
		obs.Unasked = obs.Unasked || (p.unasked && !p.silent)
		obs.MemoryMoved = obs.MemoryMoved || (p.moved() && o.onlyMapsTell(w, p))
		if w.isNew {
			w.cpuTicks += p.ticks
		} else {
			w.cpuTicks += p.delta
		}
	}
	obs.CPUTime = ticksDuration(w.cpuTicks)
	switch {
	case w.kind == workload.InCgroup:
		obs.Owner = w.leaf.owner
		obs.Window = w.leaf.window
		if w.leaf.usage >= 0 {
			obs.CPUTime = w.leaf.usage
		} else {
			obs.Window = w.procs[0].window
		}
	default:
		obs.Window, obs.Owner = w.root.window, w.root.owner
		obs.UID = cmp.Or(obs.UID, w.root.uid)
		if w.root.leaf.dir == "" {
			obs.Cgroup = w.root.cgroup
		}
	}
	obs.FirstSeen = obs.Window == 0
	return obs, mem.held
}
