package hostile

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/homenode/homenode/core/control"
	"github.com/homenode/homenode/core/plan"
	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/core/workload"
)

// absent is hardware that was taken away. Cgroup v2 shows it in scans alone: what is configured stays.
type absent struct {
	cpus topology.CPUSet
	node topology.NodeID // whose memory is offline; topology.None for no node
	less topology.KiB    // memory of the first node that was unplugged
}

// sources is what other sources claim.
type sources struct {
	second bool // a second and a third source claim some cgroups, and processes of the first
	flaps  bool // the first source claims nothing at every other scan
	scans  int
	epoch  int  // which cgroups are claimed
	calm   bool // they stay as they are
}

// upset is what happens to the machine beside its workloads.
func (g *game) upset() {
	r, h := g.random, g.host
	switch r.IntN(12) {
	case 0:
		h.absent.cpus = topology.CPUSet{}
		if r.IntN(3) > 0 {
			all := slices.Collect(h.top.Online.All())
			for range 1 + r.IntN(3) {
				h.absent.cpus.Add(all[r.IntN(len(all))])
			}
			g.tally.CPUsOff++
		}
		g.say("CPUs offline: %s", h.absent.cpus)
	case 1:
		if h.absent.node = topology.None; r.IntN(2) == 0 {
			h.absent.node = h.top.Nodes[r.IntN(len(h.top.Nodes))].ID
			g.tally.MemoryOff++
		}
		g.say("memory of a node offline: %d", h.absent.node)
	case 2:
		h.absent.less = topology.KiB(r.IntN(64 << 20))
		g.tally.MemoryOff++
		g.say("the first node has %d KiB less", h.absent.less)
	case 3:
		if h.sources.second = !h.sources.second; h.sources.second {
			g.tally.Sources++
		}
		g.say("a second source: %v", h.sources.second)
	case 4:
		if h.sources.flaps = !h.sources.flaps; h.sources.flaps {
			g.tally.Flaps++
		}
		g.say("the first source flaps: %v", h.sources.flaps)
	case 5:
		if r.IntN(4) == 0 {
			g.now = g.now.AddDate(-1, 0, 0)
			g.clockSet()
			g.tally.Back++
			g.say("the clock is set back by a year")
		}
	case 6, 7, 8:
		bound := slices.DeleteFunc(h.sortedJobs(), func(j *job) bool { // memory nodes are written of these
			c := h.cells[key{plan.CgroupMems, string(j.id)}]
			return c == nil || !c.ours() && !strings.Contains(string(j.id), "/dedicated-")
		})
		if j, ok := one(r, bound); ok {
			j.locked = true
			g.tally.Locks++
			g.say("a process of %.60q takes its mmap lock", j.id)
		}
	case 9:
		if g.blocker != nil {
			g.answersAnyway()
		}
	case 10:
		if len(h.jobs) < 9 {
			h.manyUIDs()
			g.tally.Owners++
			g.say("an owner with many UIDs starts processes")
		}
	case 11:
		if j, ok := one(r, h.sortedJobs()); ok && g.blocker == nil {
			j.locked = false
		}
	}
}

// clockSet: the hour for which homenode gives in to another program may be over.
func (g *game) clockSet() {
	for _, c := range g.host.cells {
		c.resets = 0
	}
}

// asSeen is the machine as a scan sees it.
func (h *host) asSeen() topology.Host {
	top := *h.top
	top.Nodes = slices.Clone(top.Nodes)
	off := h.absent
	if off.cpus.Empty() && off.node == topology.None && off.less == 0 {
		return top
	}
	top.Online, top.Allowed, top.Offline = top.Online.Minus(off.cpus), top.Allowed.Minus(off.cpus), top.Offline.Union(off.cpus)
	for i := range top.Nodes {
		n := &top.Nodes[i]
		n.CPUs = n.CPUs.Minus(off.cpus)
		switch {
		case n.ID == off.node:
			n.Memory, n.Free, n.Kind = 0, 0, topology.NoMem
			top.AllowedMems = top.AllowedMems.Minus(topology.Nodes(n.ID))
		case i == 0:
			n.Memory -= off.less
			n.Free = max(0, n.Free-off.less)
		}
	}
	top.Packages = slices.Clone(top.Packages)
	for i := range top.Packages {
		top.Packages[i].CPUs = top.Packages[i].CPUs.Minus(off.cpus)
	}
	top.Cores, top.LLCs = nil, nil
	for _, c := range h.top.Cores {
		if c.CPUs = c.CPUs.Minus(off.cpus); !c.CPUs.Empty() {
			top.Cores = append(top.Cores, c)
		}
	}
	for _, c := range h.top.LLCs {
		if c.CPUs = c.CPUs.Minus(off.cpus); !c.CPUs.Empty() {
			top.LLCs = append(top.LLCs, c)
		}
	}
	slices.SortFunc(top.Cores, func(a, b topology.Core) int { return int(a.CPUs.Min() - b.CPUs.Min()) })
	slices.SortFunc(top.LLCs, func(a, b topology.LLC) int { return int(a.CPUs.Min() - b.CPUs.Min()) })
	return top
}

// claimed is what all sources say, the made-up runtime first.
func (h *host) claimed(made control.Claimed) []control.Claimed {
	x := &h.sources
	if x.scans++; x.flaps && !x.calm && x.scans%2 == 0 {
		made.Claims = nil
	}
	out := []control.Claimed{made}
	if !x.second {
		return out
	}
	if !x.calm && h.random.IntN(4) == 0 {
		x.epoch++
	}
	second, third := control.Claimed{Source: "second"}, control.Claimed{Source: "third"}
	for _, j := range h.sortedJobs() {
		n := j.number + x.epoch
		switch {
		case j.kind == workload.InCgroup && n%3 == 0:
			second.Claims = append(second.Claims, j.pod("pod/"))
			if n%6 == 0 {
				third.Claims = append(third.Claims, j.pod("again/"))
			}
		case j.kind == inMade && n%4 == 0:
			c := j.pod("pod/")
			c.Cgroups, c.Process = nil, j.root
			second.Claims = append(second.Claims, c)
		}
	}
	return append(out, second, third)
}

// pod is a claim of a workload's cgroup under another name.
func (j *job) pod(prefix string) workload.Claim {
	id := workload.ID(prefix + string(j.id))
	class := workload.Shared
	if j.number%4 == 0 {
		class = workload.Dedicated
	}
	return workload.Claim{ID: id, Name: j.name, Cgroups: []string{string(j.id)}, Running: true, Ruled: true, Crowd: true,
		Spec: &workload.Spec{ID: id, Name: j.name, Class: class, Importance: 50, CPUs: 1 + j.number%3, Memory: workload.Total(j.mem), Given: true}}
}

// targets is the settings that a call changes, for those that may be done in part.
func (g *game) targets(c *call) []key {
	if c.Kind != control.EffectApply || c.Step.Kind == plan.MovePages {
		return nil
	}
	return g.host.targets(c.Step)
}

// part does some of a step, and says that it failed or nothing.
func (g *game) part(c *call, settings int) {
	g.say("apply %s %.60q is done in part", c.Step.Kind, c.Workload)
	g.tally.Parts++
	f, wrong := g.host.apply(c.Step, settings)
	if len(wrong) > 0 {
		fail("%s", strings.Join(wrong, "; "))
	}
	if g.random.IntN(2) == 0 {
		f = &control.Failure{Code: control.NoAnswer, Text: "no answer"}
	}
	g.answer(c, &control.Result{Failed: f})
}

// notFrozen is the driver's answer where a cgroup did not freeze before its memory nodes were
// written: nothing was changed.
var notFrozen = &control.Failure{Code: control.NotFrozen, Text: "did not freeze within 300 ms"}

// locks reports whether the kernel would wait for a process of a cgroup while it writes a setting.
func (h *host) locks(k key) bool {
	j := h.jobs[workload.ID(k.path)]
	return k.kind == plan.CgroupMems && j != nil && j.locked
}

// cpusets is the settings of cpusets that a call writes.
func (g *game) cpusets(c *call) []key {
	var keys []key
	switch c.Kind {
	case control.EffectApply, control.EffectRead:
		if c.Step.Kind == plan.SetCPUs || c.Step.Kind == plan.SetMems {
			keys = g.host.targets(c.Step)
		}
	case control.EffectRestore:
		for i := range c.Entries {
			keys = append(keys, key{c.Entries[i].Kind, c.Entries[i].Path})
		}
	}
	return slices.DeleteFunc(keys, func(k key) bool { return k.kind != plan.CgroupCPUs && k.kind != plan.CgroupMems })
}

// blocks has the kernel wait for a process that holds its mmap lock: the write of memory nodes takes
// the lock of each process while it holds cpuset_mutex (cpuset_update_tasks_nodemask,
// kernel/cgroup/cpuset.c), and all other writes of cpusets, and scans, wait for it. A driver that
// freezes the cgroup first is refused and writes nothing.
func (g *game) blocks(c *call, r *control.Result) bool {
	keys := g.cpusets(c)
	waits := g.blocker != nil && len(keys) > 0
	for _, k := range keys { // who watches its own CPUs and pages knows when the write is due
		if j := g.host.jobs[workload.ID(k.path)]; j != nil && k.kind == plan.CgroupMems && !g.peaceful && g.random.IntN(4) == 0 {
			j.locked = true
			g.tally.Locks++
		}
	}
	if c.Kind != control.EffectRead && !waits && slices.ContainsFunc(keys, g.host.locks) {
		if g.host.guarded {
			g.tally.Refused++
			g.say("%s of %q is refused", c.Kind, c.Workload)
			r.Failed = notFrozen
			return c.Kind == control.EffectApply // of others in a restore nothing is refused: see host.restore
		}
		g.tally.Blocked++
		g.say("%s of %q blocks all writes of cpusets", c.Kind, c.Workload)
		g.blocker, waits = c, true
	}
	if !waits {
		return false
	}
	c.left = true
	if c.Kind != control.EffectRead {
		g.hung[c.target()] = c
	}
	r.Failed = &control.Failure{Code: control.NoAnswer, Text: "no answer"}
	return true
}

// unblock has the process let go, and returns what hung in it.
func (g *game) unblock() string {
	c := g.blocker
	g.blocker = nil
	for _, k := range g.cpusets(c) {
		if j := g.host.jobs[workload.ID(k.path)]; j != nil {
			j.locked = false
		}
	}
	g.say("the process lets go of its lock")
	return c.target()
}

// answersAnyway: while the kernel blocks all writes of cpusets and all scans, every call is given up, every request
// is answered, and the workload that it waits for is left alone and named.
func (g *game) answersAnyway() {
	g.say("while all is blocked")
	for range 8 {
		if g.scan == nil {
			g.look()
		}
		g.seen()
		g.drain()
		if g.blocker == nil {
			return
		}
		g.now = g.now.Add(15 * time.Second)
	}
	g.allAnswered()
}

func (g *game) allAnswered() {
	for id, what := range g.asked {
		fail("request %d (%s) is never answered", id, what)
	}
}

// triedAgain: once everything answers, what did not is tried again.
func (g *game) triedAgain() {
	for n := 0; ; n++ {
		v := g.state.View()
		if len(v.Silent) == 0 {
			return
		}
		if n == 40 {
			fail("%v are never tried again", v.Silent)
		}
		g.now = g.now.Add(10 * time.Minute)
		g.look()
		g.seen()
		g.drain()
	}
}

// manyUIDs starts processes of one owner, each under a UID of its own, that would take most of the host.
func (h *host) manyUIDs() {
	n := 3 + h.random.IntN(3)
	each := topology.KiB(len(h.top.Nodes)) * h.top.Nodes[0].Memory / topology.KiB(n+1)
	for i := range n {
		h.starts++
		j := &job{name: fmt.Sprintf("sub%d", h.starts%24), kind: workload.InProcess, number: h.starts, use: float64(h.random.IntN(40)) / 10,
			owner: workload.UserOwner(1000), uid: 100000 + h.starts}
		j.mem = []workload.NodeMemory{{Node: h.top.Nodes[(h.starts+i)%len(h.top.Nodes)].ID, KiB: each}}
		h.begin(j)
	}
}

// ceiling: one owner books at most half of the host with what it started by itself.
func (g *game) ceiling() {
	s := g.state
	if !s.Halted.None() {
		return
	}
	var memory topology.KiB
	for _, n := range s.Snapshot.Host.Nodes {
		memory += n.Memory
	}
	booked := map[workload.Owner]topology.KiB{}
	used := map[workload.Owner]float64{}
	for _, d := range s.Plan.Report.Decisions {
		if d.Outcome != plan.Placed && d.Outcome != plan.Kept {
			continue
		}
		k := slices.IndexFunc(s.Snapshot.Observations, func(o workload.Observation) bool { return o.ID == d.Workload })
		if k < 0 {
			continue
		}
		o := &s.Snapshot.Observations[k]
		_, admitted := s.Admissions[o.ID]
		owner := o.Responsible()
		if o.Kind != workload.InProcess || admitted || s.Claims[o.ID] != nil || owner == workload.SystemOwner {
			continue
		}
		booked[owner] += workload.Total(o.Memory)
		used[owner] += o.CPUUse
	}
	for owner, kib := range booked {
		if cpus := s.Snapshot.Host.Online.Len(); 2*kib > memory || 2*used[owner] > float64(cpus)+1e-6 { // added up in another order
			fail("%s holds %d of %d KiB and %.1f of %d CPUs", owner, kib, memory, used[owner], cpus)
		}
	}
}
