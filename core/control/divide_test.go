package control

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/homenode/homenode/core/control/concern/threads"
	"github.com/homenode/homenode/core/control/work"
	"github.com/homenode/homenode/core/hostprep"
	"github.com/homenode/homenode/core/place/inside"
	"github.com/homenode/homenode/core/plan"
	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/core/words"
	"github.com/homenode/homenode/core/workload"
)

func dividing(s *Settings) { s.Divide = true }

// addWide puts a workload on the host that needs two of four nodes of 8 CPUs, with a process
// of so many threads.
func (f *fake) addWide(name string, threads int) workload.ID {
	id := f.add(name, 12, 12<<20, 0, 1)
	f.divisible(id, threads)
	return id
}

// divisible gives a workload so many threads that may be divided.
func (f *fake) divisible(id workload.ID, threads int) {
	o := &f.works[id].obs
	p := o.Processes[0]
	for i := range threads {
		o.PerThread = append(o.PerThread, workload.Thread{Process: p.PID, TID: p.PID + i, CPUs: f.host().Online, Use: 0.9})
	}
	path := plan.ProcessPath(p)
	f.values[settingKey{plan.ThreadCPUs, path}] = plan.Setting{Kind: plan.ThreadCPUs, Path: path, Value: f.host().Online.String()}
}

// setThread gives a thread CPUs.
func (f *fake) setThread(id workload.ID, tid int, cpus topology.CPUSet) {
	o := &f.works[id].obs
	o.PerThread = slices.Clone(o.PerThread)
	for i := range o.PerThread {
		if o.PerThread[i].TID == tid {
			o.PerThread[i].CPUs = cpus
		}
	}
}

// undivided gives the threads of a process that homenode has divided what they had before.
func (f *fake) undivided(path, value string) {
	if main, _, own := strings.Cut(value, ";"); own && strings.Contains(value, "=") {
		value = main
	}
	cpus, err := topology.ParseCPUSet(value)
	if err != nil { // it is being divided
		return
	}
	for id, w := range f.works {
		for _, t := range w.obs.PerThread {
			if _, given := threads.DividedOf(&f.s.Journal, id); plan.ProcessPath(w.obs.Processes[0]) == path && slices.ContainsFunc(given, t.CPUs.Equal) {
				f.setThread(id, t.TID, cpus)
			}
		}
	}
}

// sets is the CPUs of the threads of a workload, and how many have each.
func (f *fake) sets(id workload.ID) map[string]int {
	out := map[string]int{}
	for _, t := range f.works[id].obs.PerThread {
		out[t.CPUs.String()]++
	}
	return out
}

func TestDivideThreads(t *testing.T) {
	f := newFake(t, 4, 8, dividing)
	id := f.addWide("wide", 12)
	one := f.add("narrow", 2, 1<<20, 2)
	f.setThread(id, f.works[id].obs.Processes[0].PID+3, topology.CPUs(1)) // its owner's
	f.scan(6)
	p := f.placement(id)
	if p == nil || p.Home.Len() != 2 {
		t.Fatalf("home %v", p)
	}
	parts := inside.Parts(f.s.Snapshot.Host, p)
	all := f.sets(id)
	if all["1"] != 1 || all[parts[0].CPUs.String()]+all[parts[1].CPUs.String()] != 11 || all[parts[0].CPUs.String()] < 5 || all[parts[1].CPUs.String()] < 5 {
		t.Fatalf("threads are divided as %v, home %s", all, p.Home)
	}
	if steps := f.applies(plan.DivideThreads); len(steps) != 1 || steps[0].Workload != id {
		t.Fatalf("%d steps: %s", len(steps), asJSON(t, steps))
	}
	if f.s.Observation(one).PerThread != nil {
		t.Error("threads of what fits a node are looked at")
	}
	if got := f.s.View().Divided[id]; len(got) != 2 {
		t.Errorf("the observer expects %v", got)
	}
	if f.toldOf(id, words.StepTook) == 0 {
		t.Error("nothing is told of it")
	}
	told := f.toldOf(id, words.StepTook)

	// A thread that is born later and has all CPUs of the home gets a node; nothing is told.
	o := &f.works[id].obs
	o.PerThread = append(slices.Clone(o.PerThread), workload.Thread{Process: o.Processes[0].PID, TID: 9999, CPUs: p.CPUs, Use: 0.5})
	f.scan(2)
	if now := f.sets(id); now[p.CPUs.String()] != 0 {
		t.Errorf("a new thread has %v", now)
	}
	if f.toldOf(id, words.StepTook) != told {
		t.Error("each new thread is told of")
	}

	// After a restart nothing is done again.
	n := len(f.applies(plan.DivideThreads))
	f.start()
	f.scan(4)
	if len(f.applies(plan.DivideThreads)) != n {
		t.Error("a restarted daemon divides anew")
	}

	f.undo(id)
	if got := f.sets(id); got["1"] != 1 || got[f.host().Online.String()] != 12 {
		t.Errorf("after undo threads have %v", got)
	}
	if left, _ := threads.DividedOf(&f.s.Journal, id); len(left) > 0 {
		t.Errorf("entries are left: %s", asJSON(t, left))
	}
}

// Who gives a thread its old CPUs again and again is not fought with: each time is a write to the disk.
func TestDivideIsTakenBack(t *testing.T) {
	f := newFake(t, 4, 8, dividing)
	id := f.addWide("wide", 12)
	f.scan(6)
	n, told, pid := len(f.applies(plan.DivideThreads)), f.toldOf(id, words.ThreadsTaken), f.works[id].obs.Processes[0].PID
	for range 100 {
		f.setThread(id, pid+3, f.host().Online)
		f.scan(1)
	}
	if again := len(f.applies(plan.DivideThreads)) - n; again == 0 || again > 10 {
		t.Errorf("set %d times", again)
	}
	if got := f.toldOf(id, words.ThreadsTaken) - told; got != 1 {
		t.Errorf("told %d times", got)
	}
	f.after(2 * work.RetryMost)
	f.scan(4)
	if got := f.sets(id); got[f.host().Online.String()] != 0 {
		t.Errorf("once it is quiet: %v", got)
	}
}

// A crash between the journal and the change leaves what undo puts back.
func TestDivideThreadsKilled(t *testing.T) {
	f := newFake(t, 4, 8, dividing)
	id := f.addWide("wide", 12)
	f.keep = func(e *Effect) bool { return e.Kind == EffectApply && e.Step.Kind == plan.DivideThreads }
	f.scan(6)
	if len(f.kept) != 1 {
		t.Fatalf("%d are under way", len(f.kept))
	}
	f.apply(f.kept[0].Step) // and nobody hears of it
	f.keep, f.kept = nil, nil
	f.start()
	f.undo("")
	if got := f.sets(id); len(got) != 1 || got[f.host().Online.String()] != 12 || f.s.Journal.Len() != 0 {
		t.Errorf("threads have %v, journal %s", got, asJSON(t, f.s.Journal.All()))
	}
}

// Before its CPUs change, and when it is turned off, what was divided is put back.
func TestUndivide(t *testing.T) {
	for name, change := range map[string]func(f *fake, id workload.ID){
		"turned off": func(f *fake, _ workload.ID) {
			f.start(func(s *Settings) { s.Divide = false })
		},
		"too many": func(f *fake, id workload.ID) { f.works[id].obs.Threads = workload.MostPerThread + 1 },
		"another home": func(f *fake, id workload.ID) {
			to := []topology.NodeID{2, 3}
			if f.home(id) == "2-3" {
				to = []topology.NodeID{0, 1}
			}
			if r := f.order(id, to...); r.Failed != nil {
				f.t.Fatalf("move: %v", r.Failed)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFake(t, 4, 8, dividing)
			id := f.addWide("wide", 12)
			f.scan(6)
			was := f.home(id)
			before := f.sets(id)
			change(f, id)
			f.scan(8)
			if name != "another home" {
				if got := f.sets(id); got[f.host().Online.String()] != 12 || len(f.s.View().Divided) != 0 {
					t.Errorf("threads have %v", got)
				}
				return
			}
			if f.home(id) == was {
				t.Fatal("it has the home it had")
			}
			for set := range f.sets(id) {
				if before[set] > 0 {
					t.Errorf("threads are kept on %s still, home %s", set, f.home(id))
				}
			}
		})
	}
}

// Work whose threads come to be a few too many, and a few less again, is not divided each time.
func TestDivideToAndFro(t *testing.T) {
	f := newFake(t, 4, 8, dividing)
	id := f.addWide("wide", 12)
	all := f.works[id].obs.PerThread
	for i := range 20 {
		o := &f.works[id].obs
		o.Threads, o.PerThread = workload.MostPerThread-12, nil
		if i%2 == 1 {
			o.Threads = workload.MostPerThread + 12
		} else {
			o.PerThread = slices.Clone(all)
		}
		f.after(time.Hour) // nothing is put off
		f.scan(4)
	}
	if n := len(f.applies(plan.DivideThreads)); n > 1 {
		t.Errorf("divided %d times", n)
	}
	o := &f.works[id].obs
	o.Threads, o.PerThread = workload.MostPerThread/2, slices.Clone(all)
	n := len(f.applies(plan.DivideThreads))
	f.scan(4)
	if len(f.applies(plan.DivideThreads)) != n+1 {
		t.Error("with half as many it is not divided")
	}
}

// TestSample: with balancing off and leave to sample, it is on until accesses are local.
func TestSample(t *testing.T) {
	f := newFake(t, 4, 8, dividing, func(s *Settings) { s.Sample = true })
	f.values[settingKey{plan.HostFile, hostprep.NUMABalancing}] = plan.Setting{Kind: plan.HostFile, Path: hostprep.NUMABalancing, Value: "0"}
	value := func() string { return f.get(plan.HostFile, hostprep.NUMABalancing) }
	id := f.addWide("wide", 12)
	f.scan(6)
	if value() != "1" {
		t.Fatal("NUMA balancing is not on")
	}
	see := func(local, remote, scans uint64) {
		o := &f.works[id].obs
		o.PerThread = slices.Clone(o.PerThread)
		for i := range o.PerThread {
			x := &o.PerThread[i]
			x.Scans = scans
			for _, n := range f.host().Nodes {
				if x.CPUs.SubsetOf(n.CPUs) {
					x.Faults = []workload.NodeFaults{{Node: n.ID, Faults: local}, {Node: n.ID + 1, Faults: remote}}
				}
			}
		}
		f.scan(1)
	}
	f.after(30 * time.Second) // until then passes do not count
	for _, x := range [][3]uint64{{900, 10, 7}, {900, 10, 8}, {600, 300, 12}, {600, 300, 13}} {
		if see(x[0], x[1], x[2]); value() != "1" {
			t.Fatalf("it is off with %d of %d local after %d passes", x[0], x[0]+x[1], x[2]-7)
		}
	}
	see(960, 40, 14)
	f.scan(2)
	if value() != "0" {
		t.Fatal("it is not put back")
	}
	f.after(2 * time.Hour)
	f.scan(3)
	if value() != "0" {
		t.Error("it is on again though nothing was divided since")
	}

	g := newFake(t, 4, 8, dividing, func(s *Settings) { s.Sample = true })
	g.values[settingKey{plan.HostFile, hostprep.NUMABalancing}] = plan.Setting{Kind: plan.HostFile, Path: hostprep.NUMABalancing, Value: "0"}
	g.addWide("wide", 12)
	g.scan(6)
	g.start() // killed meanwhile
	g.scan(2)
	g.after(threads.SampleMost)
	g.scan(3)
	if g.get(plan.HostFile, hostprep.NUMABalancing) != "0" {
		t.Error("it is on for longer than it may")
	}
}

// TestSampleHarmsGuests: with a guest larger than a node, or work with a passed-through device, NUMA balancing of the
// whole host is not switched on, is switched off again where homenode has switched it on, and history says so.
func TestSampleHarmsGuests(t *testing.T) {
	large := func(f *fake) {
		o := &f.works[f.add("vm", 1, 1<<20, 0, 1)].obs
		o.Memory = []workload.NodeMemory{{Node: 0, KiB: 40 << 20}, {Node: 1, KiB: 40 << 20}}
		o.VCPUs = []workload.ThreadTime{{VCPU: 0, Node: 0, Share: 1}}
	}
	small := func(f *fake) {
		o := &f.works[f.add("vm", 1, 1<<20, 0, 1)].obs
		o.VCPUs = []workload.ThreadTime{{VCPU: 0, Node: 0, Share: 1}}
	}
	device := func(f *fake) {
		id := f.add("dpdk", 1, 1<<20, 0, 1)
		f.links = map[workload.ID][]workload.Link{id: {{Kind: workload.ByVFIO, Device: "0000:81:00.1"}}}
		f.after(2 * time.Minute) // links are surveyed now and then
	}
	for _, tt := range []struct {
		name    string
		harm    func(*fake)
		want    string
		history string
	}{
		{"a guest larger than a node", large, "0", "larger than a node"},
		{"a small guest", small, "1", ""},
		{"a passed-through device", device, "0", "0000:81:00.1"},
	} {
		for _, running := range []bool{false, true} {
			f := newFake(t, 4, 8, dividing, surveying(Links), func(s *Settings) { s.Sample = true })
			f.values[settingKey{plan.HostFile, hostprep.NUMABalancing}] = plan.Setting{Kind: plan.HostFile, Path: hostprep.NUMABalancing, Value: "0"}
			f.addWide("wide", 12)
			if running {
				f.scan(6)
				if f.get(plan.HostFile, hostprep.NUMABalancing) != "1" {
					t.Fatalf("%s: not on before it comes", tt.name)
				}
			}
			tt.harm(f)
			f.scan(6)
			if got := f.get(plan.HostFile, hostprep.NUMABalancing); got != tt.want {
				t.Errorf("%s, balancing on before: %v: numa_balancing is %s", tt.name, running, got)
			}
			told := 0
			for _, e := range f.events {
				text := e.Text
				if strings.Contains(text, "NUMA balancing is not switched on") && strings.Contains(text, tt.history) {
					told++
				}
			}
			if (told == 1) != (tt.history != "") || told > 1 {
				t.Errorf("%s: %d lines of history", tt.name, told)
			}
		}
	}
}

// The affinity that a process was given is put back after its threads, which had it when they
// were divided: also when the threads are being divided, or put back by homenode itself, as the undo begins.
func TestUndoThreadsBeforeAffinity(t *testing.T) {
	for name, late := range map[string]func(*Effect) bool{
		"being divided":  func(e *Effect) bool { return e.Kind == EffectApply && e.Step.Kind == plan.DivideThreads },
		"being put back": func(e *Effect) bool { return e.Kind == EffectRestore && e.Entries[0].Kind == plan.ThreadCPUs },
	} {
		t.Run(name, func(t *testing.T) {
			f := newFake(t, 4, 8, dividing)
			id := f.addProcess(77, "wide", 12, 12<<20, 0, 1)
			f.divisible(id, 12)
			path := plan.ProcessPath(f.works[id].obs.Processes[0])
			if name == "being put back" {
				f.scan(6)
				f.start(func(s *Settings) { s.Divide = false })
			}
			f.keep = late
			f.scan(6)
			if len(f.kept) != 1 || f.s.Journal.Of(plan.Affinity, path) == nil {
				t.Fatalf("%d are kept, journal %s", len(f.kept), asJSON(t, f.s.Journal.All()))
			}
			given := f.get(plan.Affinity, path)
			f.undo(id)
			if got := f.get(plan.Affinity, path); got != given {
				t.Errorf("the affinity is %s before the threads are done with", got)
			}
			f.release()
			if got := f.sets(id); len(got) != 1 || got[f.host().Online.String()] != 12 || f.get(plan.Affinity, path) != f.host().Online.String() || f.s.Journal.Len() != 0 {
				t.Errorf("threads have %v, affinity %s, journal %s", got, f.get(plan.Affinity, path), asJSON(t, f.s.Journal.All()))
			}
		})
	}
}

// Threads that come later with CPUs that their owner gave them are known by the journal, and
// forgotten when they have ended.
func TestDivideKeepsThreadsOfTheirOwners(t *testing.T) {
	f := newFake(t, 4, 8, dividing)
	id := f.addWide("wide", 12)
	f.scan(6)
	path := plan.ProcessPath(f.works[id].obs.Processes[0])
	old := func() string { return f.s.Journal.Of(plan.ThreadCPUs, path).Old }
	was := old()
	o := &f.works[id].obs
	later := func(tid int) {
		f.later = fmt.Sprintf(";%d=0-30", tid)
		o.PerThread = append(slices.Clone(o.PerThread), workload.Thread{Process: o.Processes[0].PID, TID: tid, CPUs: f.host().Online, Use: 0.5})
		f.scan(3)
		f.later = ""
	}
	later(9001)
	later(9002)
	if got := old(); got != was+";9001=0-30;9002=0-30" {
		t.Errorf("the journal has %s", got)
	}
	o.PerThread = slices.DeleteFunc(slices.Clone(o.PerThread), func(t workload.Thread) bool { return t.TID == 9001 })
	later(9003)
	if got := old(); got != was+";9002=0-30;9003=0-30" {
		t.Errorf("the journal has %s", got)
	}
}

// The threads of one process that cannot be put back, for the call does not return, hold up no
// others: nothing but what that process was given itself.
func TestThreadsThatHang(t *testing.T) {
	f := newFake(t, 8, 8, dividing)
	a, b := f.addProcess(77, "a", 12, 12<<20, 0, 1), f.addProcess(78, "b", 12, 12<<20, 4, 5)
	c := f.addProcess(79, "c", 2, 1<<20, 7)
	f.works[c].obs.CPUs = f.host().Online
	f.divisible(a, 12)
	f.divisible(b, 12)
	f.scan(8)
	path := func(id workload.ID) string { return plan.ProcessPath(f.works[id].obs.Processes[0]) }
	for _, id := range []workload.ID{a, b} {
		if f.s.Journal.Of(plan.ThreadCPUs, path(id)) == nil {
			t.Fatalf("%s is not divided", id)
		}
	}
	f.keep = func(e *Effect) bool {
		return e.Kind == EffectRestore && e.Entries[0].Kind == plan.ThreadCPUs && e.Entries[0].Workload == a
	}
	f.undo("")
	all := f.host().Online.String()
	if len(f.kept) != 1 || f.get(plan.Affinity, path(a)) == all {
		t.Fatalf("%d hang, the affinity of a is %s", len(f.kept), f.get(plan.Affinity, path(a)))
	}
	if got := f.sets(b); got[all] != 12 || f.get(plan.Affinity, path(b)) != all || f.get(plan.Affinity, path(c)) != all {
		t.Errorf("threads of b have %v, affinities %s and %s", got, f.get(plan.Affinity, path(b)), f.get(plan.Affinity, path(c)))
	}
	f.release()
	if f.s.Journal.Len() != 0 || f.get(plan.Affinity, path(a)) != all {
		t.Errorf("journal %s", asJSON(t, f.s.Journal.All()))
	}
}
