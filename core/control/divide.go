package control

import (
	"cmp"
	"slices"
	"time"

	"github.com/homenode/homenode/core/hostprep"
	"github.com/homenode/homenode/core/place"
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
	sampleMost    = 5 * time.Minute
	// sampleRest is how long it stays off at least before threads that were divided anew are a
	// reason to switch it on again.
	sampleRest = time.Hour
)

// divided is the entries of processes whose threads homenode has divided. It is not to be changed.
func (j *Journal) divided() []plan.Entry {
	return j.only(&j.threads, func(k plan.SettingKind) bool { return k == plan.ThreadCPUs })
}

// dividedOf is those of one workload, and all CPU sets that homenode has given their threads.
func (j *Journal) dividedOf(id workload.ID) (entries []*plan.Entry, given []topology.CPUSet) {
	all := j.divided()
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

// partsOf is the nodes that the threads of a workload are divided among; fewer than two where
// they are not. They are not while its CPUs or its home are about to change, nor when they are too many.
func (s *State) partsOf(o *workload.Observation, divided bool) []place.Part {
	p := place.Of(s.Plan.Placements, o.ID)
	if !s.Settings.Divide || p == nil || p.Class == workload.Batch || p.Home.Len() < 2 || s.Shared.Of(o.ID) != nil || !place.Divisible(o.Threads, divided) ||
		o.Kind != workload.InCgroup && o.Kind != workload.InProcess || o.Caps.MemoryStays || o.OwnPolicy != "" && o.OwnPolicy != workload.PolicyUnknown {
		return nil
	}
	return place.Parts(s.Snapshot.Host, p)
}

// divide gives threads of work that is wider than a node their nodes, and takes back what it
// gave where that no longer fits, before anything else is set.
func (s *State) divide() {
	var busy map[workload.ID]bool
	divided := map[workload.ID]bool{}
	for _, e := range s.Journal.divided() {
		divided[e.Workload] = true
	}
	for i := range s.Snapshot.Observations {
		o := &s.Snapshot.Observations[i]
		if !divided[o.ID] && len(o.PerThread) == 0 || s.Holds.Has(o.ID) || o.Pinned || s.undoes(o.ID) {
			continue
		}
		entries, given := s.Journal.dividedOf(o.ID)
		if busy == nil {
			busy = stepsOf(s.Plan.Steps)
		}
		parts := s.partsOf(o, len(entries) > 0)
		if len(entries) > 0 && (len(parts) < 2 || setsCPUs(s.Plan.Steps, o.ID) || slices.ContainsFunc(entries, func(e *plan.Entry) bool { return e.New != setsOf(parts) })) {
			s.undivide(o.ID)
			continue
		}
		if len(parts) >= 2 && !busy[o.ID] && s.Tasks[o.ID] == nil && !s.changing(o.ID) && s.seen(o.ID) && !s.takesBack(o, given) {
			s.Plan.Steps = append(s.ownSteps(), s.divisions(o, parts, given)...)
		}
	}
	if step := s.sample(); step != nil {
		s.Plan.Steps = append(s.ownSteps(), *step)
	}
}

func setsCPUs(steps []plan.Step, id workload.ID) bool {
	return slices.ContainsFunc(steps, func(x plan.Step) bool { return x.Workload == id && x.Kind == plan.SetCPUs })
}

func setsOf(parts []place.Part) string {
	var sets []topology.CPUSet
	for i := range parts {
		sets = append(sets, parts[i].CPUs)
	}
	return plan.JoinSets(sets)
}

// undivide puts back what threads could use before they were divided.
func (s *State) undivide(id workload.ID) {
	if s.Tasks[id] == nil && s.again(stepKey{Workload: id, Kind: plan.DivideThreads}) {
		s.undo(0, Which{ID: id, Sharing: true, Only: plan.ThreadCPUs}, workload.Lineage{})
	}
}

// again reports whether something that may fail may be tried now, and if so when the next time.
func (s *State) again(key stepKey) bool {
	r := s.Retries[key]
	if s.waits(r.Next) {
		return false
	}
	s.Retries[key] = retry{Failures: r.Failures + 1, Next: s.At.Add(min(retryFirst<<min(r.Failures, 10), retryMost))}
	return true
}

// takesBack reports whether somebody has given threads other CPUs than homenode gave them, and has
// not stopped for a while: what homenode sets then does not stay, and each time is written to disk.
func (s *State) takesBack(o *workload.Observation, given []topology.CPUSet) bool {
	key := stepKey{Workload: o.ID, Kind: plan.DivideThreads, To: "taken back"}
	if s.waits(s.Retries[key].Next) {
		return true
	}
	if len(given) == 0 { // or homenode itself has put back what it gave
		delete(s.KeptThreads, o.ID)
		return false
	}
	kept, taken := map[int]bool{}, (*workload.Thread)(nil)
	for i := range o.PerThread {
		if t := &o.PerThread[i]; s.KeptThreads[o.ID][t.TID] && slices.ContainsFunc(given, t.CPUs.Equal) {
			kept[t.TID] = true
		} else if s.KeptThreads[o.ID][t.TID] {
			taken = t
		}
	}
	if s.KeptThreads[o.ID] != nil {
		s.KeptThreads[o.ID] = kept
	}
	if taken == nil {
		return false
	}
	first := s.Retries[key].Failures == 0
	if s.again(key); first {
		s.event(plan.Event{Kind: plan.EventStep, Workload: o.ID}, words.ThreadsTaken, taken.TID, taken.CPUs, retryFirst, retryMost)
	}
	return true
}

// divisions is a step for each process of which a thread is to have other CPUs.
func (s *State) divisions(o *workload.Observation, parts []place.Part, given []topology.CPUSet) (out []plan.Step) {
	var whole topology.CPUSet
	for i := range parts {
		whole = whole.Union(parts[i].CPUs)
	}
	var threads []workload.Thread
	ends := make([]int, len(o.Processes)) // of the threads of each process among all
	for k, p := range o.Processes {
		mine := threadsOf(o, p.PID)
		e := s.Journal.Of(plan.ThreadCPUs, plan.ProcessPath(p))
		has := func(t workload.Thread) bool { return slices.ContainsFunc(given, t.CPUs.Equal) }
		free := 0
		for _, t := range mine {
			if has(t) || whole.SubsetOf(t.CPUs) {
				free++
			}
		}
		if e == nil && free < 2 && !slices.ContainsFunc(mine, has) {
			mine = nil // one thread: all of the process goes where that is
		}
		for _, t := range mine {
			if e == nil && has(t) { // made by a thread of another process: nobody has chosen its node
				t.CPUs = whole
			}
			threads = append(threads, t)
		}
		ends[k] = len(threads)
	}
	to := place.Divide(parts, threads, given)
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
	sets, i := setsOf(parts), 0
	for n, p := range o.Processes {
		step := plan.Step{Kind: plan.DivideThreads, Workload: o.ID, To: sets, Optional: true, Reason: words.Because(words.ThreadsDivided, each),
			Target: plan.Target{Kind: workload.InProcess, Processes: []workload.Process{p}}}
		if e := s.Journal.Of(plan.ThreadCPUs, plan.ProcessPath(p)); e != nil {
			step.From = e.New
		}
		changed := step.From == ""
		for ; i < ends[n]; i++ {
			if t := &threads[i]; to[i] >= 0 {
				step.Threads = append(step.Threads, plan.ThreadSet{TID: t.TID, CPUs: parts[to[i]].CPUs})
				changed = changed || !t.CPUs.Equal(parts[to[i]].CPUs)
			}
		}
		if changed && len(step.Threads) > 0 {
			out = append(out, step)
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

// sample switches the kernel's NUMA balancing on for a while where it is off and that is
// allowed: nothing else tells which of the pages that are there already a thread uses.
// It is switched off again once the accesses are local, or its time is over.
func (s *State) sample() *plan.Step {
	e := s.Journal.Of(plan.HostFile, hostprep.NUMABalancing)
	if s.trialBalances() {
		return nil
	}
	if e == nil && (!s.Settings.Sample || len(s.DividedAt) == 0) || e != nil && e.Workload != BalancingID || s.undoes(BalancingID) || s.Tasks[BalancingID] != nil || s.Holds.Has(BalancingID) {
		return nil
	}
	on := slices.ContainsFunc(s.Snapshot.Sources, func(x workload.SourceStatus) bool { return x.Source == workload.Hints && x.Used })
	var due []workload.ID
	for i := range s.Snapshot.Observations {
		o := &s.Snapshot.Observations[i]
		at, ok := s.DividedAt[o.ID]
		last, before := s.Sampled[o.ID]
		switch {
		case !ok || before && !at.After(last):
		case e == nil && before && s.At.Sub(last) < sampleRest:
		case e != nil && s.sampledEnough(o):
			s.Sampled[o.ID] = s.At
		default:
			due = append(due, o.ID)
		}
	}
	switch {
	case e == nil && !on && len(due) > 0:
		return &plan.Step{Kind: plan.SetFile, Workload: BalancingID, Target: plan.Target{Kind: workload.InHost, Host: hostprep.NUMABalancing}, From: "0", To: "1", Optional: true,
			Reason: words.Because(words.SamplingOn, due[0], sampleMost)}
	case e != nil && (!s.Settings.Sample || len(due) == 0 || s.At.Sub(e.Time) >= sampleMost):
		if s.again(stepKey{Workload: BalancingID, Kind: plan.SetFile}) {
			for _, id := range due {
				s.Sampled[id] = s.At
			}
			clear(s.Passes)
			s.undo(0, Which{ID: BalancingID, Sharing: true, Only: plan.HostFile}, workload.Lineage{})
		}
	}
	return nil
}

// sampledEnough reports whether the kernel has seen that the threads of a workload find their
// memory on their nodes. What it has just brought counts as found, so that it must have been
// through all of it.
func (s *State) sampledEnough(o *workload.Observation) bool {
	var local, all uint64
	least, sampled := uint64(0), false
	for i := range o.PerThread {
		t := &o.PerThread[i]
		for _, f := range t.Faults {
			all += f.Faults
			if n := nodeOf(s.Snapshot.Host, f.Node); n != nil && t.CPUs.SubsetOf(n.CPUs) {
				local += f.Faults
			}
		}
		if len(t.Faults) > 0 && (!sampled || t.Scans < least) {
			least, sampled = t.Scans, true
		}
	}
	if !sampled {
		return false
	}
	first, ok := s.Passes[o.ID]
	if !ok {
		s.Passes[o.ID], first = least, least
	}
	return least >= first+samplePasses && float64(local) >= sampledEnough*float64(all)
}
