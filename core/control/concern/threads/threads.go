package threads

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/homenode/homenode/core/control/concern"
	"github.com/homenode/homenode/core/control/concern/sharing"
	"github.com/homenode/homenode/core/control/journal"
	"github.com/homenode/homenode/core/control/scene"
	"github.com/homenode/homenode/core/control/work"
	"github.com/homenode/homenode/core/hostprep"
	"github.com/homenode/homenode/core/place"
	"github.com/homenode/homenode/core/place/inside"
	"github.com/homenode/homenode/core/plan"
	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/core/words"
	"github.com/homenode/homenode/core/workload"
)

const (
	// BalancingID stands for the kernel's NUMA balancing where homenode has switched it on.
	BalancingID workload.ID = "numa-balancing"

	// The kernel is done after samplePasses over the memory once so much of what it sees is
	// local: two bring what one thread alone uses (should_numa_migrate_memory,
	// kernel/sched/fair.c), and the third has seen it. A pass takes a second to a minute.
	sampledEnough = 0.95
	samplePasses  = 3
	// SampleMost is how long it stays on at most, and sampleLeast at least: work that has just begun has not used
	// again what it has filled, and the kernel sees only accesses.
	SampleMost  = 5 * time.Minute
	sampleLeast = 30 * time.Second
	// sampleRest is how long it stays off at least before threads that were divided anew are a
	// reason to switch it on again.
	sampleRest = time.Hour
)

// Concern decides which threads of work that is wider than a node go to which of its nodes, and
// whether the kernel's NUMA balancing may bring their memory after them.
type Concern struct {
	DividedAt map[workload.ID]time.Time // when its threads were last given nodes, or are about to be for the first time
	// KeptThreads is the threads, by ID, that were on their nodes when last seen: true of one that was given its
	// node, false of one that began on it.
	KeptThreads map[workload.ID]map[int]bool
	Passes      map[workload.ID]uint64    // of NUMA balancing over its memory when that was switched on
	Sampled     map[workload.ID]time.Time // when NUMA balancing was last switched off again after that
}

// New returns the concern of a daemon that starts.
func New() Concern {
	return Concern{DividedAt: map[workload.ID]time.Time{}, KeptThreads: map[workload.ID]map[int]bool{},
		Passes: map[workload.ID]uint64{}, Sampled: map[workload.ID]time.Time{}}
}

// Settings is the configuration of dividing threads.
type Settings struct {
	Divide bool // threads of work that is wider than a node each get one of its nodes
	Sample bool // kernel.numa_balancing may be switched on for that for a while
}

// Bound is the concern with what it needs of others.
type Bound struct {
	*Concern
	Settings Settings
	Batch    *sharing.Concern
	// Switched reports whether a trial decides on NUMA balancing now.
	Switched bool
	// Links is the devices that workloads have.
	Links map[workload.ID][]scene.Link
	// Workers returns the processes of a workload that each have GPUs of one node; nil knows none.
	Workers func(workload.ID) []inside.Worker
}

// turn is one decision.
type turn struct {
	Bound
	*concern.Scene
}

// Name implements concern.Concern.
func (Bound) Name() string { return "threads" }

// Owns implements concern.Concern: the CPU sets of threads, and NUMA balancing where homenode has
// switched it on.
func (Bound) Owns(e *plan.Entry) bool {
	return e.Kind == plan.ThreadCPUs || (e.Kind == plan.HostFile && e.Workload == BalancingID)
}

// Decide implements concern.Concern.
func (b Bound) Decide(sc *concern.Scene) concern.Desired {
	t := &turn{b, sc}
	out := concern.Desired{Leave: map[workload.ID]bool{}, Stay: map[workload.ID]bool{}}
	if !t.Acts || t.Between {
		for _, e := range t.Journal.All() {
			if b.Owns(&e) {
				out.Leave[e.Workload] = true
			}
		}
		return out
	}
	t.divide(&out)
	t.sample(&out)
	return out
}

// Ended implements concern.Concern.
func (b Bound) Ended(sc *concern.Scene, step *plan.Step, f *work.Failure) bool {
	if step.Kind != plan.DivideThreads || f != nil {
		return false
	}
	id := step.Workload
	b.DividedAt[id] = sc.At
	if b.KeptThreads[id] == nil {
		b.KeptThreads[id] = map[int]bool{}
	}
	for _, x := range step.Threads {
		b.KeptThreads[id][x.TID] = true
	}
	return false
}

// Forget forgets workloads that are gone.
func (c *Concern) Forget(gone func(workload.ID) bool) {
	maps.DeleteFunc(c.DividedAt, func(id workload.ID, _ time.Time) bool { return gone(id) })
	maps.DeleteFunc(c.KeptThreads, func(id workload.ID, _ map[int]bool) bool { return gone(id) })
	maps.DeleteFunc(c.Sampled, func(id workload.ID, _ time.Time) bool { return gone(id) })
	maps.DeleteFunc(c.Passes, func(id workload.ID, _ uint64) bool { return gone(id) })
}

// Divided returns the entries of processes whose threads homenode has divided. The caller must not change them.
func Divided(j *journal.Journal) []plan.Entry {
	return j.Group("threads", func(k plan.SettingKind) bool { return k == plan.ThreadCPUs })
}

// DividedOf returns those of one workload, and all CPU sets that homenode has given their threads.
func DividedOf(j *journal.Journal, id workload.ID) (entries []*plan.Entry, given []topology.CPUSet) {
	all := Divided(j)
	for i := range all {
		e := &all[i]
		if e.Workload != id {
			continue
		}
		entries = append(entries, e)
		for _, written := range append([]string{e.New}, e.Past...) {
			sets, _ := plan.ParseSets(written)
			for _, cpus := range sets {
				if !slices.ContainsFunc(given, cpus.Equal) {
					given = append(given, cpus)
				}
			}
		}
	}
	return entries, given
}

// partsOf returns the nodes that the threads of a workload are divided among; fewer than two where
// they are not.
func (t *turn) partsOf(o *workload.Observation, divided bool) []inside.Part {
	p := place.Of(t.Plan.Placements, o.ID)
	wide := t.Settings.Divide && p != nil && p.Class != workload.Batch && p.Home.Len() > 1
	if !wide || t.Batch.Shared.Of(o.ID) != nil || !inside.Divisible(o.Threads, divided) {
		return nil
	}
	hasThreads := o.Kind == workload.InCgroup || o.Kind == workload.InProcess
	if !hasThreads || o.Caps.MemoryStays || o.HasPolicy() {
		return nil
	}
	return inside.Parts(t.Snapshot.Host, p)
}

// divide gives threads of work that is wider than a node their nodes. Where what it gave no longer
// fits it desires nothing, so that all is restored before anything else is set.
func (t *turn) divide(out *concern.Desired) {
	divided := map[workload.ID]bool{}
	for _, e := range Divided(t.Journal) {
		divided[e.Workload] = true
		out.Leave[e.Workload] = true // where it is not seen
	}
	busy := map[workload.ID]bool{}
	for i := range t.Plan.Steps {
		// Threads keep their nodes, or get them, before the pages move: what they fill meanwhile lies there.
		if k := t.Plan.Steps[i].Kind; k != plan.SetCPUs && !k.MovesPages() {
			busy[t.Plan.Steps[i].Workload] = true
		}
	}
	for i := range t.Snapshot.Observations {
		o := &t.Snapshot.Observations[i]
		if (!divided[o.ID] && len(o.PerThread) == 0) || t.Held(o.ID) || o.Pinned || t.Undoes(o.ID) {
			continue
		}
		entries, given := DividedOf(t.Journal, o.ID)
		parts := t.partsOf(o, len(entries) > 0)
		sets := setsOf(parts)
		changed := slices.ContainsFunc(entries, func(e *plan.Entry) bool { return e.New != sets })
		if len(entries) > 0 && (len(parts) < 2 || setsCPUs(t.Plan.Steps, o.ID) || changed) {
			delete(out.Leave, o.ID)
			continue
		}
		unsettled := t.Busy(o.ID) || !t.Settled(o.ID)
		if unsettled && len(parts) > 1 && len(entries) == 0 {
			out.Stay[o.ID] = true // a move of its pages would keep its threads waiting
		}
		if len(parts) < 2 || busy[o.ID] || unsettled || t.takesBack(o, given) {
			continue
		}
		divisions := t.divisions(o, parts, given)
		if _, before := t.DividedAt[o.ID]; !before && len(divisions) > 0 {
			t.DividedAt[o.ID] = t.At // sampling begins with it
		}
		out.Settings = append(out.Settings, divisions...)
	}
}

func setsCPUs(steps []plan.Step, id workload.ID) bool {
	return slices.ContainsFunc(steps, func(x plan.Step) bool { return x.Workload == id && x.Kind == plan.SetCPUs })
}

func setsOf(parts []inside.Part) string {
	var sets []topology.CPUSet
	for i := range parts {
		sets = append(sets, parts[i].CPUs)
	}
	return plan.JoinSets(sets)
}

// takesBack reports whether somebody has given threads other CPUs than homenode gave them, and has
// not stopped for a while: what homenode sets then does not stay, and each time is written to disk.
func (t *turn) takesBack(o *workload.Observation, given []topology.CPUSet) bool {
	key := work.Key{Workload: o.ID, Kind: plan.DivideThreads, To: "taken back"}
	if t.Later(t.RetryOf(key).Next) {
		return true
	}
	if len(given) == 0 { // or homenode itself has restored what it gave
		delete(t.KeptThreads, o.ID)
		return false
	}
	kept, taken := map[int]bool{}, (*workload.Thread)(nil)
	for i := range o.PerThread {
		thread := &o.PerThread[i]
		wasGiven, known := t.KeptThreads[o.ID][thread.TID]
		switch {
		case !known:
		case slices.ContainsFunc(given, thread.CPUs.Equal):
			kept[thread.TID] = wasGiven
		case wasGiven:
			taken = thread
		}
	}
	if t.KeptThreads[o.ID] != nil {
		t.KeptThreads[o.ID] = kept
	}
	if taken == nil {
		return false
	}
	first := t.RetryOf(key).Failures == 0
	t.Again(key)
	if first {
		t.Event(plan.Event{Kind: plan.EventStep, Workload: o.ID}, words.ThreadsTaken, taken.TID, taken.CPUs,
			work.RetryFirst, work.RetryMost)
	}
	return true
}

// divisions returns a desire for each process that has threads to divide.
func (t *turn) divisions(o *workload.Observation, parts []inside.Part, given []topology.CPUSet) (out []concern.Desire) {
	var whole topology.CPUSet
	for i := range parts {
		whole = whole.Union(parts[i].CPUs)
	}
	var threads []workload.Thread
	var has []topology.CPUSet // what each has now
	var own []int             // of the threads of workers, their part
	workers := t.workersOf(o, parts)
	kept := t.KeptThreads[o.ID]
	ends := make([]int, len(o.Processes)) // of the threads of each process among all
	for k, p := range o.Processes {
		mine := threadsOf(o, p.PID)
		e := t.Journal.Of(plan.ThreadCPUs, plan.ProcessPath(p))
		ours := func(t workload.Thread) bool { return slices.ContainsFunc(given, t.CPUs.Equal) }
		free := 0
		for _, t := range mine {
			if ours(t) || whole.SubsetOf(t.CPUs) {
				free++
			}
		}
		w, isWorker := workers[p]
		part := -1
		if isWorker {
			part = w.part
		}
		if e == nil && free < 2 && !isWorker && !slices.ContainsFunc(mine, ours) {
			mine = nil // one thread: all of the process goes where that is
		}
		for _, t := range mine {
			has = append(has, t.CPUs)
			// Made by a thread of another process, or since: nobody has chosen its node.
			_, known := kept[t.TID]
			born := kept != nil && !known
			if (e == nil || born) && ours(t) {
				t.CPUs = whole
			}
			threads = append(threads, t)
			own = append(own, part)
		}
		ends[k] = len(threads)
	}
	to := inside.Divide(parts, threads, given, own)
	counts := make([]int, len(parts))
	for _, k := range to {
		if k >= 0 {
			counts[k]++
		}
	}
	var each []words.Reason
	for k := range parts {
		each = append(each, words.Because(words.ThreadsOnNode, counts[k], parts[k].Node))
	}
	why := words.Because(words.ThreadsDivided, each)
	sets, i := setsOf(parts), 0
	for n, p := range o.Processes {
		step := plan.Step{Kind: plan.DivideThreads, Workload: o.ID, To: sets, Optional: true, Reason: why,
			Target: plan.Target{Kind: workload.InProcess, Processes: []workload.Process{p}}}
		if w, ok := workers[p]; ok {
			step.Reason = words.Because(words.WorkerAtGPU, p.PID, w.gpus, parts[w.part].Node)
		}
		if e := t.Journal.Of(plan.ThreadCPUs, plan.ProcessPath(p)); e != nil {
			step.From = e.New
		}
		changed := step.From == ""
		for ; i < ends[n]; i++ {
			if to[i] < 0 {
				continue
			}
			tid, cpus := threads[i].TID, parts[to[i]].CPUs
			step.Threads = append(step.Threads, plan.ThreadSet{TID: tid, CPUs: cpus})
			_, known := kept[tid]
			switch {
			case !has[i].Equal(cpus):
				changed = true
			case kept != nil && !known:
				kept[tid] = false
			}
		}
		d := concern.Desire{Kind: plan.ThreadCPUs, Path: plan.ProcessPath(p), Step: step, Stands: concern.Yes}
		if changed {
			d.Stands = concern.No
		}
		if len(step.Threads) > 0 {
			out = append(out, d)
		}
	}
	return out
}

// worker is a process that has GPUs of one node.
type worker struct {
	part int    // on that node
	gpus string // their names
}

// workersOf returns the processes whose GPUs are on the node of a part.
func (t *turn) workersOf(o *workload.Observation, parts []inside.Part) map[workload.Process]worker {
	if t.Workers == nil {
		return nil
	}
	out := map[workload.Process]worker{}
	for _, w := range t.Workers(o.ID) {
		k := slices.IndexFunc(parts, func(p inside.Part) bool { return p.Node == w.Node })
		if k >= 0 {
			out[w.Process] = worker{k, strings.Join(w.GPUs, ", ")}
		}
	}
	return out
}

// threadsOf is the threads of one process.
func threadsOf(o *workload.Observation, pid int) []workload.Thread {
	byProcess := func(t workload.Thread, pid int) int { return cmp.Compare(t.Process, pid) }
	from, _ := slices.BinarySearchFunc(o.PerThread, pid, byProcess)
	to, _ := slices.BinarySearchFunc(o.PerThread, pid+1, byProcess)
	return o.PerThread[from:to]
}

// sample has the kernel's NUMA balancing on for a while where it is off and that is allowed: nothing
// else shows which of the pages that are there already a thread uses. It is no longer desired once
// the accesses are local, or its time is over.
func (t *turn) sample(out *concern.Desired) {
	e := t.Journal.Of(plan.HostFile, hostprep.NUMABalancing)
	foreign := e != nil && e.Workload != BalancingID
	if t.Switched || foreign || t.Undoes(BalancingID) || t.Busy(BalancingID) || t.Held(BalancingID) {
		out.Leave[BalancingID] = true
		return
	}
	if e == nil && (!t.Settings.Sample || len(t.DividedAt) == 0) {
		return
	}
	var since time.Time
	if e != nil {
		since = e.Time
	}
	due := t.unsampled(e != nil, since)
	if t.Settings.Sample && len(due) > 0 {
		if why := t.harms(); !why.None() {
			t.Once(harmsKey, plan.Event{Kind: plan.EventStep, Workload: due[0]}, words.SamplingHarms, due[0], why)
			return // what stands is restored
		}
	}
	t.Over(harmsKey)
	if e == nil {
		on := slices.ContainsFunc(t.Snapshot.Sources,
			func(x workload.SourceStatus) bool { return x.Source == workload.Hints && x.Used })
		if on || len(due) == 0 {
			return
		}
		out.Settings = append(out.Settings, balancing(due[0], concern.No))
		return
	}
	if t.Settings.Sample && len(due) > 0 && t.At.Sub(e.Time) < SampleMost {
		out.Settings = append(out.Settings, balancing(due[0], concern.Yes))
		return
	}
	for _, id := range due {
		t.Sampled[id] = t.At
	}
	clear(t.Passes)
}

// balancing is the desire that NUMA balancing is on, for a workload.
func balancing(id workload.ID, stands concern.Stands) concern.Desire {
	return concern.Desire{Kind: plan.HostFile, Path: hostprep.NUMABalancing, Stands: stands,
		Step: plan.Step{Kind: plan.SetFile, Workload: BalancingID,
			Target: plan.Target{Kind: workload.InHost, Host: hostprep.NUMABalancing}, From: "0", To: "1",
			Optional: true,
			Reason:   words.Because(words.SamplingOn, id, SampleMost)}}
}

// unsampled returns the workloads whose threads were divided since NUMA balancing was last on for them.
func (t *turn) unsampled(on bool, since time.Time) (due []workload.ID) {
	for i := range t.Snapshot.Observations {
		o := &t.Snapshot.Observations[i]
		at, ok := t.DividedAt[o.ID]
		last, before := t.Sampled[o.ID]
		switch {
		case !ok, before && !at.After(last):
		case !on && before && t.At.Sub(last) < sampleRest:
		case on && t.At.Sub(since) >= sampleLeast && t.sampledEnough(o): // earlier passes saw less than all of it
			t.Sampled[o.ID] = t.At
		default:
			due = append(due, o.ID)
		}
	}
	return due
}

// sampledEnough reports whether the kernel has seen that the threads of a workload find their
// memory on their nodes. What it has just brought counts as found, so that it must have been
// through all of it.
func (t *turn) sampledEnough(o *workload.Observation) bool {
	var local, all uint64
	least, sampled := uint64(0), false
	for i := range o.PerThread {
		thread := &o.PerThread[i]
		for _, f := range thread.Faults {
			all += f.Faults
			if n := t.Snapshot.Host.Node(f.Node); n != nil && thread.CPUs.SubsetOf(n.CPUs) {
				local += f.Faults
			}
		}
		if len(thread.Faults) > 0 && (!sampled || thread.Scans < least) {
			least, sampled = thread.Scans, true
		}
	}
	if !sampled {
		return false
	}
	first, ok := t.Passes[o.ID]
	if !ok {
		t.Passes[o.ID], first = least, least
	}
	return least >= first+samplePasses && float64(local) >= sampledEnough*float64(all)
}
