package control

import (
	"testing"

	"github.com/homenode/homenode/core/control/concern/threads"
	"github.com/homenode/homenode/core/control/differ"
	"github.com/homenode/homenode/core/plan"
	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/core/workload"
)

// TestShareOffRestoresAllSoon: with the scheduler of the kernel, too, all that sharing has set is
// restored at the next scan, not only the policies.
func TestShareOffRestoresAllSoon(t *testing.T) {
	f := kernelled(t)
	f.scans(6)
	if f.get(plan.TaskPolicy, "/batch1") != plan.PolicyExt || f.get(plan.CgroupIdle, "/batch1") != "1" {
		t.Fatal("not set")
	}
	f.ask(Request{Share: &ShareOrder{On: false}})
	f.scans(1)
	if got := f.get(plan.CgroupIdle, "/batch1"); got != "0" {
		t.Errorf("cpu.idle is still %s a scan after sharing was turned off", got)
	}
}

// TestUpgradeBeforeTheFirstScan: before the first scan nothing is restored.
func TestUpgradeBeforeTheFirstScan(t *testing.T) {
	f := kernelled(t)
	f.scans(6)
	f.start()
	f.ask(Request{Upgrade: &UpgradeOrder{}})
	if got := f.get(plan.TaskPolicy, "/batch1"); got != plan.PolicyExt {
		t.Errorf("/batch1 has the policy %s before a scan saw it", got)
	}
}

// TestSwapStays: settings of swap stay where sharing is on.
func TestSwapStays(t *testing.T) {
	f := newFake(t, 2, 4, func(s *Settings) { s.NeverSwap = true }, ruled(workload.Rule{Match: "db", Class: workload.Dedicated}))
	f.add("db", 2, 1<<20, 0)
	f.batch("/db")
	f.scans(6)
	if got := f.get(plan.SwapMax, "/db"); got != "0" {
		t.Errorf("memory.swap.max is %s", got)
	}
	if n := f.count(EffectRestore, "/db"); n > 0 {
		t.Errorf("restored %d times", n)
	}
}

// TestOutputKeepsItsPlan: what is left out of the plan within a scan leaves no empty step in the
// plan that a reader gets, where concerns have added steps to it.
func TestOutputKeepsItsPlan(t *testing.T) {
	f := newFake(t, 2, 8, func(s *Settings) { s.NeverSwap = true }, ruled(workload.Rule{Match: "db", Class: workload.Dedicated}))
	id := f.add("a", 2, 1<<20, 0)
	f.scan(3)
	given, _ := topology.ParseCPUSet(f.cpus(id))
	f.works[id].taken = topology.CPUs(given.Slice()[1:]...)
	f.scan(1)
	f.batch(f.add("db", 2, 1<<20, 1))
	out := f.end(f.begin())
	for _, step := range out.Plan.Steps {
		if step.Kind == "" {
			t.Errorf("the plan has an empty step: %+v", out.Plan.Steps)
		}
	}
}

// TestOneOwner: no two concerns decide on the same setting.
func TestOneOwner(t *testing.T) {
	f := newFake(t, 2, 4)
	f.scan(1)
	for _, kind := range []plan.SettingKind{plan.CgroupIdle, plan.CgroupWeight, plan.CgroupMax, plan.CgroupFreeze, plan.CgroupBurst, plan.MemoryLow, plan.MemoryHigh,
		plan.SwapMax, plan.IOWeight, plan.IOMax, plan.TaskPolicy, plan.Scheduler, plan.CacheGroup, plan.CacheTasks, plan.ThreadCPUs, plan.HostFile} {
		var owners []string
		for _, c := range f.s.concerns() {
			if c.Owns(&plan.Entry{Kind: kind, Path: "/x", Workload: threads.BalancingID}) {
				owners = append(owners, c.Name())
			}
		}
		if len(owners) != 1 {
			t.Errorf("%s is owned by %v", kind, owners)
		}
	}
}

// TestControllerGoesWithEndedWork: a controller that was turned on for batch work goes off when the
// last cgroup that needed it has ended, and after a restart in the midst of the restores.
func TestControllerGoesWithEndedWork(t *testing.T) {
	for _, killed := range []bool{false, true} {
		f := newFake(t, 2, 4, turnedOn)
		f.disk.entries[1] = plan.Entry{Seq: 1, Workload: "/x/a", Kind: plan.CPUController, Path: "/x", Old: "", New: "+cpu", State: plan.Applied}
		if !killed {
			f.disk.entries[2] = plan.Entry{Seq: 2, Workload: "/x/a", Kind: plan.CgroupIdle, Path: "/x/a", Old: "0", New: "1", State: plan.Applied}
		}
		f.disk.seq = 2
		f.create("/x")
		f.values[settingKey{plan.CPUController, "/x"}] = plan.Setting{Kind: plan.CPUController, Path: "/x", Value: "+cpu"}
		f.add("web", 2, 1<<20, 0)
		f.start()
		f.scans(10)
		if got := f.get(plan.CPUController, "/x"); got != "" {
			t.Errorf("killed %t: the controller of /x is still %q; the journal has %+v", killed, got, f.s.Journal.All())
		}
	}
}

// TestWeightStaysWhileIdle: the entry of cpu.weight that goes with cpu.idle is neither restored nor set anew while
// batch work has cpu.idle (a kernel takes no weight then).
func TestWeightStaysWhileIdle(t *testing.T) {
	f := batch(t, turnedOn)
	f.blind = true
	f.scans(4)
	if f.get(plan.CgroupIdle, "/batch1") != "1" {
		t.Fatal("batch work is not idle")
	}
	f.s.out = &Output{}
	f.s.Seq++
	f.s.Put(plan.Entry{
		Seq: f.s.Seq, Time: f.now, Workload: "/batch1", Kind: plan.CgroupWeight, Path: "/batch1",
		Old: "100", New: "idle", State: plan.Applied,
	})
	before := len(f.done)
	f.scans(40)
	for _, e := range f.done[before:] {
		if e.Step != nil && e.Step.Target.File == string(plan.CgroupWeight) {
			t.Errorf("set anew: %+v", e.Step)
		}
		for _, entry := range e.Entries {
			if e.Kind == EffectRestore && entry.Kind == plan.CgroupWeight {
				t.Errorf("restored: %+v", entry)
			}
		}
	}
}

// TestNoConcernOwnsHomes: entries that a differ does not ask concerns for are those of no concern, whatever is configured.
func TestNoConcernOwnsHomes(t *testing.T) {
	asked := 0
	for _, protects := range []bool{false, true} {
		settings := Settings{}
		settings.Base.Protect = protects
		for _, c := range New(settings, Saved{}).concerns() {
			for _, kind := range []plan.SettingKind{plan.CgroupCPUs, plan.CgroupMems, plan.Affinity, plan.MemoryLow, plan.CgroupPartition, plan.HostFile, plan.TaskPolicy} {
				for _, id := range []workload.ID{"/a", BalancingID, IsolationID, ""} {
					if !c.Owns(&plan.Entry{Kind: kind, Workload: id, Path: "/a"}) {
						continue
					}
					if asked++; !differ.MayOwn(kind) {
						t.Errorf("%s owns %s of %q", c.Name(), kind, id)
					}
				}
			}
		}
	}
	if asked < 10 {
		t.Errorf("%d entries are owned: the test tests nothing", asked)
	}
}
