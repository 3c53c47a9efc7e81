package control

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/homenode/homenode/core/plan"
	"github.com/homenode/homenode/core/share"
	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/core/words"
	"github.com/homenode/homenode/core/words/wordstest"
	"github.com/homenode/homenode/core/workload"
)

func turnedOn(s *Settings) {
	s.Share.On, s.Share.Freeze = true, true
}

// batch is a host of two nodes with 8 CPUs on 4 cores each, an online service on node 0 that is
// watched, and two batch jobs that may run anywhere.
func batch(t testing.TB, change ...func(*Settings)) *fake {
	f := newFake(t, 2, 8, append([]func(*Settings){func(s *Settings) { s.Share = share.DefaultSettings() }, ruled(workload.Rule{Match: "batch*", Class: workload.Batch, Tier: workload.BatchTier},
		workload.Rule{Match: "web", Tier: workload.Online})}, change...)...)
	f.add("web", 2, 1<<20, 0)
	f.values[settingKey{plan.CgroupCPUs, "/web"}] = plan.Setting{Kind: plan.CgroupCPUs, Path: "/web", Value: "0-7", Object: f.values[settingKey{plan.CgroupCPUs, "/web"}].Object}
	for _, name := range []string{"batch1", "batch2"} {
		f.batch(f.add(name, 2, 1<<20, 1))
	}
	f.use(2, 0)
	return f
}

// batch gives a cgroup the files that sharing sets.
func (f *fake) batch(id workload.ID) {
	for kind, unset := range plan.CgroupFiles {
		f.values[settingKey{kind, string(id)}] = plan.Setting{Kind: kind, Path: string(id), Value: unset, Object: f.values[settingKey{plan.CgroupCPUs, string(id)}].Object}
	}
}

// use says how much online work and the batch jobs keep busy.
func (f *fake) use(web, each float64) {
	f.works["/web"].obs.CPUUse = web
	for _, id := range []workload.ID{"/batch1", "/batch2"} {
		if w := f.works[id]; w != nil {
			w.obs.CPUUse = each
		}
	}
	f.uses = []workload.NodeUse{{Node: 0, CPUUse: web + each, Bandwidth: topology.None}, {Node: 1, CPUUse: each, Bandwidth: topology.None}}
}

// scans lets time pass between scans, as the daemon does.
func (f *fake) scans(n int) {
	for range n {
		f.after(2 * time.Second)
		f.scan(1)
	}
}

func (f *fake) given(id workload.ID) int {
	set, err := topology.ParseCPUSet(f.cpus(id))
	if err != nil {
		f.t.Fatal(err)
	}
	return set.Len()
}

// TestSharingIsOff: nothing of it happens until it is turned on; observe mode only tells.
func TestSharingIsOff(t *testing.T) {
	f := batch(t)
	f.scans(3)
	if f.count(EffectCheck, "") > 0 || slices.ContainsFunc(f.done, func(e Effect) bool { return e.Step != nil && e.Step.Kind == plan.SetCgroup }) {
		t.Error("sharing is off, and something of it was done")
	}
	if v := f.s.View(); v.Sharing.On || v.Sharing.Rest.Code != words.ShareOff {
		t.Errorf("%+v", v.Sharing)
	}
	f = batch(t, turnedOn, observing)
	before := f.all()
	f.scans(3)
	if diff := cmp.Diff(before, f.all()); diff != "" {
		t.Errorf("observe mode changed the host:\n%s", diff)
	}
	v := f.s.View()
	if g := v.Sharing.Of("/batch1"); g == nil || g.CPUs.Len() >= 16 || len(v.Sharing.Nodes) != 2 || !v.Sharing.Rest.None() {
		t.Errorf("observe mode does not tell: %+v", v.Sharing)
	}
	if n := len(v.Plan.Steps); n == 0 {
		t.Error("no step is shown")
	}
}

// TestWaitsForItself: who keeps all its CPUs busy waits for its own threads, and takes nothing
// from batch work for that.
func TestWaitsForItself(t *testing.T) {
	for use, want := range map[float64]bool{3: true, 7.8: false} { // of 8 CPUs
		f := batch(t, turnedOn)
		f.use(use, 0)
		f.works["/web"].obs.Waited, f.works["/web"].obs.WaitedFrom = 0.4, workload.PSI
		f.scans(3)
		waits := slices.ContainsFunc(f.s.View().Sharing.Nodes, func(b share.Budget) bool {
			return slices.ContainsFunc(b.Why, func(r words.Reason) bool { return r.Code == words.ShareWaits })
		})
		if waits != want {
			t.Errorf("%v of 8 CPUs busy: batch work is squeezed for it: %t", use, waits)
		}
	}
}

// TestSharingTellsWhatIsLeftAlone: batch work that is not homenode's to squeeze is named with
// the reason.
func TestSharingTellsWhatIsLeftAlone(t *testing.T) {
	for _, c := range []struct {
		name string
		do   func(f *fake, id workload.ID)
		want words.Code
	}{
		{"its cgroup, or one above, has CPUs of somebody's", func(f *fake, id workload.ID) { f.set(plan.CgroupCPUs, string(id), "2-5") }, words.SetByOthers},
		{"affinity of its own", func(f *fake, id workload.ID) { f.works[id].obs.Pinned = true }, words.OwnAffinity},
		{"undone by hand", func(f *fake, id workload.ID) { f.ask(Request{Undo: &Which{ID: id}}) }, words.HeldByHand},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := batch(t, turnedOn)
			f.scan(1)
			c.do(f, "/batch1")
			f.scans(3)
			v := f.s.View().Sharing
			if len(v.Left) != 1 || v.Left[0].Workload != "/batch1" || !wordstest.Has(v.Left[0].Why, words.Reason{Code: c.want}) || v.Of("/batch1") != nil || v.Of("/batch2") == nil || !v.Rest.None() {
				t.Errorf("%+v, %s", v.Left, v.Rest)
			}
			f.remove("/batch2")
			f.scans(3)
			if v := f.s.View().Sharing; len(v.Left) != 1 || v.Rest.Code != words.ShareAllLeft {
				t.Errorf("alone: %+v, %s", v.Left, v.Rest)
			}
			f.ask(Request{Share: &ShareOrder{On: false}})
			f.scans(1)
			if v := f.s.View().Sharing; len(v.Left) != 0 || v.Rest.Code != words.ShareOff {
				t.Errorf("off: %+v, %s", v.Left, v.Rest)
			}
		})
	}
}

// TestSharing: batch work has whole cores within the budget of each node, runs only when
// nothing else wants the CPU, and gets everything back when sharing is turned off.
func TestSharing(t *testing.T) {
	f := batch(t)
	f.scans(3)
	before := f.all()
	f.ask(Request{Share: &ShareOrder{On: true}, DryRun: true})
	if f.s.ShareOn {
		t.Fatal("a dry run turned it on")
	}
	if r := f.ask(Request{Share: &ShareOrder{On: true}}); r.Failed != nil || !r.Share.On {
		t.Fatal(r)
	}
	if v := f.s.View(); !v.Sharing.On || v.Sharing.Rest.Code != words.ShareSoon {
		t.Errorf("the order is not seen before the next look: %+v", v.Sharing)
	}
	f.scans(1)
	for _, x := range f.s.View().Plan.Steps {
		if x.Kind == plan.SetCgroup && x.Gain.LocalityAfter != 1 {
			t.Errorf("%s of %s, whose memory is local and stays, leads to %+v", x.Target.File, x.Workload, x.Gain)
		}
	}
	f.scans(3)
	web, _ := topology.ParseCPUSet("0-7")
	for _, id := range []workload.ID{"/batch1", "/batch2"} {
		cpus, _ := topology.ParseCPUSet(f.cpus(id))
		if n := cpus.Overlap(web); n != 4 { // 8 × 0.65 - 2 = 3.2
			t.Errorf("%s has %d CPUs of node 0 (%v), want 4", id, n, cpus)
		}
		if f.get(plan.CgroupIdle, string(id)) != "1" || f.get(plan.CgroupFreeze, string(id)) != "0" {
			t.Errorf("%s: cpu.idle %s, frozen %s", id, f.get(plan.CgroupIdle, string(id)), f.get(plan.CgroupFreeze, string(id)))
		}
	}
	if f.get(plan.CgroupIdle, "/web") == "1" || f.cpus("/web") != "0-7" {
		t.Error("online work was touched")
	}
	f.use(2, 4.9) // on 4 CPUs of node 0, of which they may use 3.2, and 6 of node 1, of which they may use 5.2
	f.uses[0].CPUUse, f.uses[1].CPUUse = 2+3.92, 5.88
	f.scans(1)
	for _, id := range []string{"/batch1", "/batch2"} {
		if got := f.get(plan.CgroupMax, id); got != "420000 100000" {
			t.Errorf("%s may use %s, want half of 3.2 and of 5.2 CPUs", id, got)
		}
	}
	f.use(7, 2)
	f.scans(1)
	if f.given("/batch1") > 2+6 {
		t.Errorf("with 7 of 8 CPUs in use batch has %s at the next look", f.cpus("/batch1"))
	}
	f.start() // a daemon that starts goes on
	f.scans(3)
	if !f.s.ShareOn {
		t.Error("a restart turned it off")
	}
	f.ask(Request{Share: &ShareOrder{On: false}})
	if v := f.s.View(); v.Sharing.On || v.Sharing.Rest.Code != words.ShareOff || len(v.Sharing.Nodes) > 0 {
		t.Errorf("the order is not seen before the next look: %+v", v.Sharing)
	}
	f.scans(4)
	for _, id := range []string{"/batch1", "/batch2"} { // every CPU again, by plan
		if before["cpuset.cpus "+id] == "" {
			before["cpuset.cpus "+id] = "0-15"
		}
	}
	if diff := cmp.Diff(before, f.all()); diff != "" {
		t.Errorf("turned off, not all is as before:\n%s", diff)
	}
	if f.s.Holds.Has("/batch1") {
		t.Error("turning it off holds work")
	}
}

// TestSharingRestored: undo and a workload that is no longer batch work take back what sharing set.
func TestSharingRestored(t *testing.T) {
	f := batch(t, turnedOn)
	before := f.all()
	f.scans(4)
	f.undo("/batch1")
	f.scans(2)
	if f.get(plan.CgroupIdle, "/batch1") != "0" || f.cpus("/batch1") != "" {
		t.Errorf("undone: cpu.idle %s, CPUs %q", f.get(plan.CgroupIdle, "/batch1"), f.cpus("/batch1"))
	}
	f.start(func(s *Settings) { s.Rules = nil })
	f.scans(4)
	if got := f.get(plan.CgroupIdle, "/batch2"); got != "0" {
		t.Errorf("no longer batch work: cpu.idle %s", got)
	}
	f.start()
	f.ask(Request{Undo: &Which{All: true}})
	f.scans(2)
	if diff := cmp.Diff(before, f.all()); diff != "" {
		t.Errorf("after undo:\n%s", diff)
	}
}

// TestSharingRespects: what somebody else has chosen stays, also when they choose it later.
func TestSharingRespects(t *testing.T) {
	f := batch(t, turnedOn)
	f.set(plan.CgroupIdle, "/batch1", "7") // no value that homenode writes
	f.set(plan.CgroupMax, "/batch1", "777000 100000")
	f.use(2, 4.9)
	f.uses[0].CPUUse, f.uses[1].CPUUse = 2+3.92, 5.88
	f.scans(4)
	if got := f.get(plan.CgroupMax, "/batch1"); got != "777000 100000" {
		t.Errorf("the limit that somebody had set is %s now", got)
	}
	if got := f.get(plan.CgroupMax, "/batch2"); got != "max 100000" {
		t.Errorf("one takes no limit, and the other has %s", got)
	}
	if got := f.get(plan.CgroupIdle, "/batch1"); got != "7" {
		t.Errorf("what somebody had set is %s now", got)
	}
	if f.s.Journal.Of(plan.CgroupIdle, "/batch1") != nil {
		t.Error("it is in the journal")
	}
	f.set(plan.CgroupIdle, "/batch2", "5")
	f.scans(20)
	if got := f.get(plan.CgroupIdle, "/batch2"); got != "5" || f.toldOf("/batch2", words.SetSince) != 1 {
		t.Errorf("set by somebody else since: %s, told %d times", got, f.toldOf("/batch2", words.SetSince))
	}
	f.ask(Request{Undo: &Which{All: true}})
	f.scans(2)
	if f.get(plan.CgroupIdle, "/batch1") != "7" || f.get(plan.CgroupIdle, "/batch2") != "5" {
		t.Error("undo changed what is somebody else's")
	}
}

// TestSharingLeavesTheFreezesOfOthers: a cgroup that another program froze stays frozen, also where
// homenode wants the same just then, or froze and thawed the cgroup before: otherwise it would
// thaw a paused container later.
func TestSharingLeavesTheFreezesOfOthers(t *testing.T) {
	for _, c := range []struct {
		name   string
		before bool // homenode froze and thawed it before
	}{{"frozen before homenode wants that", false}, {"frozen after homenode thawed it", true}} {
		t.Run(c.name, func(t *testing.T) {
			f := batch(t, turnedOn)
			frozen := func(scans int, wait float64) {
				f.works["/web"].obs.Waited = wait
				f.scans(scans)
			}
			if c.before {
				frozen(14, 0.4)
				if f.get(plan.CgroupFreeze, "/batch1") != "1" {
					t.Fatal("homenode did not freeze it")
				}
				frozen(80, 0)
				if f.get(plan.CgroupFreeze, "/batch1") != "0" {
					t.Fatal("homenode did not thaw it")
				}
			}
			f.set(plan.CgroupFreeze, "/batch1", "1")
			frozen(14, 0.4)
			if !f.s.Shared.Of("/batch1").Frozen {
				t.Fatal("homenode does not want it frozen: nothing is tried here")
			}
			frozen(80, 0)
			if got := f.get(plan.CgroupFreeze, "/batch1"); got != "1" {
				t.Errorf("another program froze it, and it reads %s", got)
			}
			f.ask(Request{Undo: &Which{All: true}})
			f.scans(2)
			if got := f.get(plan.CgroupFreeze, "/batch1"); got != "1" {
				t.Errorf("another program froze it, and it reads %s after undo", got)
			}
		})
	}
}

// TestSharingFreezes: important work that waits though one core is left has batch work frozen,
// and let go when it no longer does.
func TestSharingFreezes(t *testing.T) {
	f := batch(t, turnedOn)
	f.works["/web"].obs.Waited = 0.4
	f.scans(10)
	if f.get(plan.CgroupFreeze, "/batch1") != "1" && f.get(plan.CgroupFreeze, "/batch2") != "1" {
		t.Fatalf("nothing is frozen: %+v", f.s.Sharing)
	}
	f.works["/web"].obs.Waited = 0
	f.scans(80)
	for _, id := range []workload.ID{"/batch1", "/batch2"} {
		if f.get(plan.CgroupFreeze, string(id)) != "0" {
			t.Errorf("%s is still frozen", id)
		}
	}
}

// TestFrozenGoesOn: a daemon that ends lets go what it froze, and nothing else; one that was killed
// has the next one do it, also when sharing is off by then.
func TestFrozenGoesOn(t *testing.T) {
	for name, end := range map[string]func(*fake){
		"stop": func(f *fake) {
			f.turn(Input{Stopped: true})
			f.ask(Request{Undo: &Which{All: true, Stop: true, Only: plan.CgroupFreeze}})
		},
		"killed":            func(f *fake) { f.start(); f.works["/web"].obs.Waited = 0; f.scans(2) },
		"killed, then off":  func(f *fake) { f.start(func(s *Settings) { s.Share.On = false }); f.scans(2) },
		"killed, no freeze": func(f *fake) { f.start(func(s *Settings) { s.Share.Freeze = false }); f.scans(2) },
	} {
		f := batch(t, turnedOn)
		f.works["/web"].obs.Waited = 0.4
		f.scans(16)
		if f.get(plan.CgroupFreeze, "/batch1") != "1" || f.get(plan.CgroupFreeze, "/batch2") != "1" {
			t.Fatalf("%s: not frozen", name)
		}
		end(f)
		if a, b := f.get(plan.CgroupFreeze, "/batch1"), f.get(plan.CgroupFreeze, "/batch2"); a != "0" || b != "0" {
			t.Errorf("%s: cgroup.freeze %s and %s", name, a, b)
		}
		if name == "stop" && (f.get(plan.CgroupIdle, "/batch1") != "1" || f.s.Holds.All) {
			t.Error("more than what was frozen is undone, or held")
		}
	}
}

// TestSharingGuest: a shared guest of tier batch stays at home and has of it what batch work is
// given; all of it again when sharing is turned off. One that is online-strict is not cut.
func TestSharingGuest(t *testing.T) {
	f := batch(t, turnedOn)
	a, b := floating("a", 2, 1<<20), floating("b", 2, 1<<20)
	a.tier, b.tier = workload.BatchTier, workload.OnlineStrict
	for _, m := range []*machine{a, b} {
		f.boot(f.define(m), 1)
	}
	f.scans(4)
	node := f.host().Nodes[0].CPUs
	if f.home("m:a") == "1" {
		node = f.host().Nodes[1].CPUs
	}
	if n := a.now.cpus.Len(); n == 0 || n >= 8 || !a.now.cpus.SubsetOf(node) {
		t.Errorf("the batch guest has CPUs %v of its home %s", a.now.cpus, f.home("m:a"))
	}
	if b.now.cpus.Len() != 8 {
		t.Errorf("the online guest has CPUs %v", b.now.cpus)
	}
	f.ask(Request{Share: &ShareOrder{On: false}})
	f.scans(4)
	if a.now.cpus.Len() != 8 {
		t.Errorf("turned off: CPUs %v", a.now.cpus)
	}
}

// TestUntoldRun: what `homenode run --class batch` started while no daemon answered is batch work by
// where it is.
func TestUntoldRun(t *testing.T) {
	f := batch(t, turnedOn)
	id := f.add("homenode-batch/7", 2, 1<<20, 1)
	f.batch(id)
	f.scans(4)
	if f.get(plan.CgroupIdle, string(id)) != "1" || f.placement(id).Class != workload.Batch {
		t.Errorf("cpu.idle %s, %+v", f.get(plan.CgroupIdle, string(id)), f.placement(id))
	}
}

// TestSharingRun: what `homenode run --class batch` has put into a cgroup of its own has cpu.idle
// there, and its CPUs by its affinity; a process in any other cgroup has no file of it touched.
func TestSharingRun(t *testing.T) {
	f := batch(t, turnedOn)
	f.scans(1)
	groups := map[int]string{501: "/homenode.slice/homenode-batch.slice/homenode-501.scope", 502: "/homenode-batch/502", 503: "/user.slice/session-1.scope"}
	for pid, group := range groups {
		id := f.addProcess(pid, "encode", 2, 1<<20, 1)
		f.works[id].obs.Cgroup = group
		f.create(group)
		f.batch(workload.ID(group))
		r := f.ask(Request{Place: &PlaceRequest{Spec: workload.Spec{Name: "encode", Class: workload.Batch, Tier: "-1", CPUs: 2}, Process: workload.Process{PID: pid, Start: 7}}})
		if r.Failed != nil {
			t.Fatal(r.Failed)
		}
	}
	f.scans(6)
	for pid, group := range groups {
		want := "1"
		if pid == 503 {
			want = "0"
		}
		if got := f.get(plan.CgroupIdle, group); got != want {
			t.Errorf("%s: cpu.idle %s, want %s", group, got, want)
		}
		if cpus, _ := topology.ParseCPUSet(f.get(plan.Affinity, fmt.Sprintf("%d@7", pid))); cpus.Len() >= 16 {
			t.Errorf("%d has every CPU", pid)
		}
	}
	f.ask(Request{Share: &ShareOrder{On: false}})
	f.scans(4)
	if got := f.get(plan.CgroupIdle, groups[501]); got != "0" {
		t.Errorf("turned off: cpu.idle %s", got)
	}
}

// TestBatchWorkEnds: that what sharing has set ends with its cgroup is no news. Who asks for an
// undo learns of it.
func TestBatchWorkEnds(t *testing.T) {
	f := batch(t, turnedOn)
	f.scans(4)
	f.remove("/batch1")
	f.scans(10)
	if n := f.toldOf("/batch1", words.NothingToRestore); n > 0 || slices.ContainsFunc(f.s.Journal.All(), func(e plan.Entry) bool { return e.Workload == "/batch1" }) {
		t.Errorf("told %d times; the journal has %+v", n, f.s.Journal.All())
	}
	f.remove("/batch2")
	if r := f.undo("/batch2"); r.Undo == nil || len(r.Undo.Gone) == 0 || f.toldOf("/batch2", words.NothingToRestore) != len(r.Undo.Gone) {
		t.Errorf("asked: %+v, told %d times", r, f.toldOf("/batch2", words.NothingToRestore))
	}
}

// TestFirstUseIsNoDip: a service whose cgroup is older than its processes is first seen with a mean over its life
// that no CPU ever ran. Batch work keeps its budget, and what the service really uses still counts.
func TestFirstUseIsNoDip(t *testing.T) {
	f := batch(t, turnedOn)
	f.use(0.5, 2)
	f.scans(20)
	before := f.s.View().Sharing.Nodes[0]
	if before.Online < 0.4 || before.Online > 0.6 {
		t.Errorf("%.2f CPUs are busy with online work, want 0.5", before.Online)
	}
	web := f.works["/web"]
	web.obs.FirstSeen, web.obs.CPUUse = true, 7
	f.scans(1)
	now := f.s.View().Sharing.Nodes[0]
	if now.CPUs < before.CPUs {
		t.Errorf("the budget fell from %.2f to %.2f CPUs", before.CPUs, now.CPUs)
	}
	if used := now.Online + now.System; used < 0.4 || used > 0.6 {
		t.Errorf("%.2f CPUs count as used by others than batch work, want the 0.5 that were busy", used)
	}
}

// TestFirstUseOfDedicatedWork: dedicated work that is seen for the first time runs on CPUs that batch work has no part
// in. Its use does not count as that of the system: batch work keeps its budget.
func TestFirstUseOfDedicatedWork(t *testing.T) {
	db := workload.Rule{Match: "db", Class: workload.Dedicated}
	f := batch(t, turnedOn, func(s *Settings) { s.Rules = append(s.Rules, db) })
	f.add("db", 2, 1<<20, 0)
	f.works["/db"].obs.CPUUse = 2
	f.use(0.5, 2)
	f.uses[0].CPUUse += 2
	f.scans(20)
	before := f.s.View().Sharing.Nodes[0]
	f.works["/db"].obs.FirstSeen = true
	f.scans(1)
	now := f.s.View().Sharing.Nodes[0]
	if now.CPUs < before.CPUs || now.System > before.System {
		t.Errorf("the budget went from %.2f to %.2f CPUs, the use of the system from %.2f to %.2f",
			before.CPUs, now.CPUs, before.System, now.System)
	}
}
