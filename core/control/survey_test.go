package control

import (
	"fmt"
	"math"
	"strconv"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/homenode/homenode/core/balance"
	"github.com/homenode/homenode/core/irq"
	"github.com/homenode/homenode/core/plan"
	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/core/words"
	"github.com/homenode/homenode/core/workload"
)

func surveying(kinds ...SurveyKind) func(*Settings) {
	return func(s *Settings) { s.Surveys = append(s.Surveys, kinds...) }
}

// Before other managers and links are known nothing is changed; one that cannot be made
// does not hold everything up.
func TestSurveysAreAwaited(t *testing.T) {
	f := scattered(t, surveying(Managers, Links, Interrupts))
	f.keeping(EffectSurvey)
	before := f.all()
	f.scan(3)
	if diff := cmp.Diff(before, f.all()); diff != "" || len(f.kept) != 3 || f.home("/a") == "" {
		t.Errorf("%d surveys:\n%s", len(f.kept), diff)
	}
	f.turn(Input{Survey: &Survey{Kind: Managers, Failed: "read /proc: no answer"}})
	f.turn(Input{Survey: &Survey{Kind: Interrupts}})
	f.run()
	if diff := cmp.Diff(before, f.all()); diff != "" || f.told(words.SurveyFailed) != 1 {
		t.Errorf("links are not known:\n%s", diff)
	}
	f.turn(Input{Survey: &Survey{Kind: Links}})
	f.run()
	if f.cpus("/a") == "" {
		t.Error("all is known, and nothing begins before the next scan")
	}
	f.turn(Input{Survey: &Survey{Kind: Managers, Failed: "read /proc: no answer"}})
	if f.told(words.SurveyFailed) != 1 {
		t.Error("told twice")
	}
}

// What a survey of links could not find is told once, and what it found counts.
func TestSurveyOfLinksThatLacks(t *testing.T) {
	f := scattered(t, surveying(Links))
	f.keeping(EffectSurvey)
	f.scan(1)
	in := Survey{Kind: Links, Lacks: "load the module unix_diag", Links: map[workload.ID][]workload.Link{"/a": {{Device: "eth0"}}}}
	f.turn(Input{Survey: &in})
	f.turn(Input{Survey: &in})
	if f.told(words.SurveyLacks) != 1 || len(f.s.Links["/a"]) != 1 {
		t.Errorf("told %d times, links %v", f.told(words.SurveyLacks), f.s.Links)
	}
	f.turn(Input{Survey: &Survey{Kind: Links}})
	f.turn(Input{Survey: &in})
	if f.told(words.SurveyLacks) != 2 {
		t.Error("not told again after it was over")
	}
}

// The first of managers and of links has what was scanned decided once more, no other has.
func TestSurveysThatDecideAnew(t *testing.T) {
	f := scattered(t, surveying(Managers, Links, Interrupts))
	n := 0
	f.engine(func(in balance.Input, h balance.History) (balance.Outcome, balance.History) {
		n++
		return balance.Tick(in, h)
	})
	f.blind = true // the engine is asked once
	f.keeping(EffectSurvey)
	f.turn(Input{Survey: &Survey{Kind: Managers}}) // before there is a scan
	f.scan(1)
	for k, want := range map[SurveyKind]int{Managers: 1, Interrupts: 1} {
		if f.turn(Input{Survey: &Survey{Kind: k}}); n != want {
			t.Errorf("after %s decided %d times, want %d", k, n, want)
		}
	}
	f.turn(Input{Survey: &Survey{Kind: Links}})
	f.turn(Input{Survey: &Survey{Kind: Links}})
	if n != 2 {
		t.Errorf("after that of links decided %d times", n)
	}
}

func TestSurveysAreMadeAgain(t *testing.T) {
	f := newFake(t, 2, 8, surveying(Managers, Interrupts))
	n := map[SurveyKind]int{}
	f.keep = func(e *Effect) bool {
		if e.Kind == EffectSurvey {
			n[e.Survey]++
		}
		return false
	}
	for range 61 { // 0 to 120 s
		f.scan(1)
	}
	if n[Managers] != 5 || n[Interrupts] != 13 {
		t.Errorf("%v", n)
	}
	f.now = f.now.Add(-time.Hour) // the clock was set back
	f.scan(1)
	if n[Managers] != 6 || n[Interrupts] != 14 {
		t.Errorf("after the clock was set back %v", n)
	}
}

// While a manager owns everything nothing is changed, and it goes on when that is gone.
func TestManagerOfEverything(t *testing.T) {
	f := scattered(t, surveying(Managers))
	before := f.all()
	f.managers = []Manager{{Name: "numad", Does: "moves processes", Owns: "everything", Everything: true}}
	f.scan(3)
	if diff := cmp.Diff(before, f.all()); diff != "" || !f.leftAlone("/a", words.ManagerMovesAll) || f.told(words.ManagerSeenOwns) != 1 {
		t.Errorf("changed beside it:\n%s", diff)
	}
	f.managers = nil
	f.after(30 * time.Second)
	f.scan(4)
	if !f.settled("/a") || f.told(words.ManagerGone) != 1 {
		t.Errorf("after it has stopped: %+v", f.decision("/a"))
	}
	f.managers = []Manager{{Name: "x", Does: "y"}}
	f.after(30 * time.Second)
	f.scan(1)
	f.managers = []Manager{{Name: "x", Does: "z"}}
	f.after(30 * time.Second)
	f.scan(2)
	if f.told(words.ManagerSeen) != 2 || f.told(words.ManagerGone) != 1 {
		t.Errorf("seen %d times, gone %d", f.told(words.ManagerSeen), f.told(words.ManagerGone))
	}
}

func TestManagerOfCgroups(t *testing.T) {
	f := newFake(t, 2, 8)
	f.s.Managers = []Manager{{Name: "kubelet", Cgroups: []string{"kubepods", "kubepods.slice"}}}
	for id, want := range map[workload.ID]bool{
		"/kubepods.slice/kubepods-pod1.slice/x.scope": true, "/kubepods/burstable/x": true, "/kubelet.slice/kubepods/x": true, "/kubepods": true,
		"/system.slice/kubelet.service": false, "/kubepods2/x": false, "pid:7": false,
	} {
		if got := f.s.leave(&workload.Observation{ID: id}, nil); (got.Code == words.ManagerOwns) != want {
			t.Errorf("%s: %v", id, got)
		}
	}
}

// CPUs that another manager gives out are taken from placements that have them.
func TestCPUsOfManagers(t *testing.T) {
	f := scattered(t, surveying(Managers))
	f.scan(4)
	for _, taken := range []topology.CPUSet{topology.CPUs(0, 1), topology.CPUs(0, 1, 8, 9, 10)} {
		f.managers = []Manager{{Name: "kubelet", CPUs: taken}, {Name: "other"}}
		f.after(31 * time.Second)
		f.scan(4)
		for _, id := range []workload.ID{"/a", "/b"} {
			if cpus, _ := topology.ParseCPUSet(f.cpus(id)); cpus.Intersects(taken) || cpus.Empty() {
				t.Errorf("%s may run on %v, of which %v are the kubelet's", id, cpus, taken)
			}
		}
	}
	if !f.s.Halted.None() {
		t.Error(f.s.Halted)
	}
}

var tap = workload.Link{Kind: workload.ByTap, Device: "eth0", Name: "eth0", Nodes: topology.Nodes(1), Evidence: "tap vnet3 → br0 → eth0", Counted: true}

func TestLinksAreLearned(t *testing.T) {
	f := newFake(t, 2, 8, observing, surveying(Links))
	f.add("web", 2, 1<<20, 0)
	f.links = map[workload.ID][]workload.Link{"/web": {tap}}
	f.grows = 500 << 20
	near := func() int {
		v := f.s.View()
		return len(v.SpecOf("/web").Near)
	}
	f.scan(1)
	f.after(30 * time.Second)
	f.scan(1)
	if near() != 0 {
		t.Error("near after one window")
	}
	f.after(30 * time.Second)
	f.scan(2)
	if l := f.s.Links["/web"]; near() != 1 || len(l) != 1 || l[0].Rate != 500 {
		t.Errorf("near %d, %+v", near(), l)
	}
	f.grows = 0 // the counter begins anew
	f.after(30 * time.Second)
	f.scan(2)
	if l := f.s.Links["/web"]; near() != 0 || l[0].Rate != 0 || l[0].Last != 0 {
		t.Errorf("after the counter began anew: %+v", l)
	}
}

// Where nothing counts the traffic of a guest, its vhost threads tell what a link of small packets
// weighs; a busy moment of theirs does not count, and each link has its part of them.
func TestVhostTellsWhatALinkWeighs(t *testing.T) {
	f := newFake(t, 2, 8, observing, surveying(Links))
	f.add("web", 2, 1<<20, 0)
	served := tap
	served.Vhost = true
	f.links = map[workload.ID][]workload.Link{"/web": {served}}
	f.grows = 10 << 20
	look := func(vhost float64) float64 {
		f.works["/web"].obs.Vhost = workload.Vhost{Threads: 1, CPUUse: vhost}
		f.after(30 * time.Second)
		f.scan(2)
		v := f.s.View()
		if near := v.SpecOf("/web").Near; len(near) == 1 {
			return near[0].Weight
		}
		return 0
	}
	look(0)
	look(0)
	for _, tt := range []struct{ vhost, weight float64 }{
		{0, 0.01},  // 10 of 2048 MiB/s
		{1, 0.01},  // for the first time
		{1, 0.5},   // half of the thread's part of two busy CPUs
		{0.2, 0.1}, // the lesser of two
		{1, 0.1},
		{0, 0.01},
	} {
		if w := look(tt.vhost); w != tt.weight {
			t.Errorf("vhost %v: weight %v, want %v", tt.vhost, w, tt.weight)
		}
	}
	links := []Link{{Rate: 30, VhostUse: 0.8}, {Rate: 10, VhostUse: 0.8}, {Rate: 500}}
	for i, want := range []float64{0.6, 0.2, 0} {
		if got := VhostUse(links, i); math.Abs(got-want) > 1e-9 {
			t.Errorf("link %d: %v, want %v", i, got, want)
		}
	}
	if got := VhostUse([]Link{{VhostUse: 1}}, 0); got != 0 {
		t.Errorf("a link that nothing went through: %v", got)
	}
}

func TestWhatIsGivenWinsOverWhatIsLearned(t *testing.T) {
	vfio := workload.Link{Kind: workload.ByVFIO, Device: "eth0", Name: "eth0", Nodes: topology.Nodes(1), Evidence: "/dev/vfio/3"}
	for _, tt := range []struct {
		name    string
		rules   []workload.Rule
		learned int
	}{
		{"no rule", nil, 1},
		{"a rule without near", []workload.Rule{{Match: "/web", CPUs: 2}}, 1},
		{"a rule with near", []workload.Rule{{Match: "/web", Near: []string{"nvme0n1"}, NearGiven: true}}, 0},
		{"a rule with an empty near", []workload.Rule{{Match: "/web", NearGiven: true}}, 0},
		{"a rule for another", []workload.Rule{{Match: "/db", NearGiven: true}}, 1},
	} {
		f := newFake(t, 2, 8, observing, surveying(Links), ruled(tt.rules...))
		f.add("web", 2, 1<<20, 0)
		f.links = map[workload.ID][]workload.Link{"/web": {vfio}}
		f.scan(2)
		v, n := f.s.View(), 0
		for _, x := range v.SpecOf("/web").Near {
			if x.Learned {
				n++
			}
		}
		if n != tt.learned {
			t.Errorf("%s: %d learned", tt.name, n)
		}
	}
}

// A helper is a workload of its own, with a home; nobody is near to himself.
func TestHelpersAreWorkloads(t *testing.T) {
	f := newFake(t, 2, 8, observing, surveying(Links), func(s *Settings) { s.HelpersStay = true })
	f.add("web", 2, 1<<20, 0)
	f.add("ovs", 2, 1<<20, 1)
	socket := workload.Link{Kind: workload.ByVhostUser, Helper: f.works["/ovs"].obs.Processes[0], Name: "ovs-vswitchd", Nodes: topology.Nodes(1)}
	f.links = map[workload.ID][]workload.Link{"/web": {socket}, "/ovs": {socket}}
	f.scan(2)
	v := f.s.View()
	if near := v.SpecOf("/ovs").Near; len(near) != 0 {
		t.Errorf("ovs is near %+v", near)
	}
	if near := v.SpecOf("/web").Near; len(near) != 1 || near[0].Workload != "/ovs" || !near[0].Learned {
		t.Errorf("web is near %+v", near)
	}
	f.remove("/ovs")
	f.scan(1)
	v = f.s.View()
	if near := v.SpecOf("/web").Near; len(near) != 1 || near[0].Workload != "" {
		t.Errorf("when its helper has ended web is near %+v", near)
	}
}

func TestWhatIsDoneAboutInterrupts(t *testing.T) {
	for _, tt := range []struct {
		mode   InterruptMode
		act    bool
		places bool
	}{{InterruptsReport, true, false}, {InterruptsPlace, true, true}, {InterruptsPlace, false, false}} {
		f := newFake(t, 2, 8, placing, func(s *Settings) { s.Interrupts, s.Enforce = tt.mode, tt.act })
		f.addCard()
		before := f.irqs()
		f.scan(3)
		if changed := !cmp.Equal(before, f.irqs()); changed != tt.places {
			t.Errorf("%s %v: changed %v", tt.mode, tt.act, changed)
		}
		if n := len(f.s.Devices.Plan.Reports); n != 1 || (len(f.s.Devices.Plan.Steps) == 0) != false && !tt.places {
			t.Errorf("%s: %+v", tt.mode, f.s.Devices.Plan)
		}
	}
}

// Interrupts go to their node, away from dedicated work, rest there, and undo puts them
// back; then they are held until they are resumed.
func TestInterruptsArePlacedAndUndone(t *testing.T) {
	f := newFake(t, 2, 8, placing, ruled(workload.Rule{Match: "/db", Class: workload.Dedicated, CPUs: 4}))
	f.add("db", 4, 1<<20, 1)
	f.addCard()
	before := f.irqs()
	f.scan(4)
	dedicated := f.placement("/db").CPUs.Union(f.placement("/db").Idle)
	seen := map[string]bool{}
	for path, list := range f.irqs() {
		cpus, _ := topology.ParseCPUSet(list)
		if cpus.Empty() || !cpus.SubsetOf(f.host().Nodes[1].CPUs) || cpus.Intersects(dedicated) || seen[list] {
			t.Errorf("%s goes to %s; dedicated %v, others %v", path, list, dedicated, seen)
		}
		seen[list] = true
	}
	tried := len(f.applies(plan.SetIRQ))
	f.after(10 * time.Second)
	f.scan(2)
	if n := len(f.applies(plan.SetIRQ)); n != tried {
		t.Errorf("tried %d times again", n-tried)
	}
	f.start()
	if r := f.undo("device:eth0"); r.Undo == nil || len(r.Undo.Restored) != 4 {
		t.Fatal(asJSON(t, r))
	}
	f.scan(3)
	if diff := cmp.Diff(before, f.irqs()); diff != "" {
		t.Errorf("after undo:\n%s", diff)
	}
	f.resume("device:eth0")
	f.after(10 * time.Second)
	f.scan(2)
	f.after(10 * time.Second)
	f.scan(1)
	if r := f.s.Devices.Plan.Reports[0]; r.AtHome != 4 {
		t.Errorf("after resume: %+v", r)
	}
}

// An interrupt that the kernel manages is tried once, told of, and has no journal entry.
func TestManagedInterrupts(t *testing.T) {
	f := newFake(t, 2, 8, placing)
	f.addCard()
	f.fail = func(e *Effect) *Failure {
		if e.Kind == EffectApply && e.Step.Target.Device == "p/41" {
			return &Failure{Code: Fixed, Text: "managed"}
		}
		return nil
	}
	for range 5 {
		f.scan(2)
		f.after(10 * time.Second)
	}
	n := 0
	for _, s := range f.applies(plan.SetIRQ) {
		if s.Target.Device == "p/41" {
			n++
		}
	}
	if r := f.s.Devices.Plan.Reports[0]; n != 1 || r.Fixed != 1 || r.AtHome != 3 || r.Steps != 0 || f.s.Journal.Len() != 3 || f.told(words.StepFixed) != 1 {
		t.Errorf("tried %d times, %+v, journal %+v", n, r, f.s.Journal.All())
	}
	delete(f.values, settingKey{plan.IRQAffinity, "p/41"})
	f.after(10 * time.Second)
	f.scan(1)
	if len(f.s.Fixed) != 0 {
		t.Errorf("remembered of what is gone: %v", f.s.Fixed)
	}
}

// One that fails otherwise waits longer each time, and does not stop the others.
func TestInterruptThatFails(t *testing.T) {
	f := newFake(t, 2, 8, placing)
	f.addCard()
	f.fail = func(e *Effect) *Failure {
		if e.Kind == EffectApply && e.Step.Target.Device == "p/40" {
			return &Failure{Code: Failed, Text: "broken on purpose"}
		}
		return nil
	}
	f.scan(4)
	if r := f.s.Devices.Plan.Reports[0]; len(f.applies(plan.SetIRQ)) != 4 || r.Steps == 0 {
		t.Errorf("%d tries, %+v", len(f.applies(plan.SetIRQ)), r)
	}
	f.fail = nil
	f.after(10 * time.Second)
	f.scan(2)
	f.after(10 * time.Second)
	f.scan(1)
	if r := f.s.Devices.Plan.Reports[0]; r.AtHome != 4 || r.Steps != 0 {
		t.Errorf("%+v", r)
	}
}

func TestInterruptsAreLeftToTheirManager(t *testing.T) {
	f := newFake(t, 2, 8, placing, surveying(Managers))
	f.addCard()
	f.managers = []Manager{{Name: "irqbalance", Interrupts: true}}
	before := f.irqs()
	f.scan(4)
	if f.s.Devices.Left != "irqbalance" || !cmp.Equal(before, f.irqs()) {
		t.Errorf("%+v, %v", f.s.Devices, f.irqs())
	}
	f.managers = nil
	f.after(30 * time.Second)
	f.scan(2)
	f.after(10 * time.Second)
	f.scan(2)
	f.after(10 * time.Second)
	f.scan(2)
	if f.s.Devices.Left != "" || f.s.Devices.Plan.Reports[0].AtHome != 4 {
		t.Errorf("after it has stopped: %q %v %d %v %v %+v", f.s.Devices.Left, f.irqs(), len(f.applies(plan.SetIRQ)), f.s.Surveyed, f.now, f.s.Retries)
	}
}

// The number of queues is brought to that of the CPUs, then their interrupts come home;
// undo puts the number back first, and then the interrupts that come back with it.
func TestQueuesAreMatchedAndUndone(t *testing.T) {
	for _, most := range []int{8, 12} { // as many as node 1 has CPUs, and more
		f := newFake(t, 2, 8, placing, func(s *Settings) { s.Queues = irq.MatchQueues })
		was := 1
		if most == 12 {
			was = 12
		}
		f.give(was, most, strconv.Itoa)
		before := f.irqs()
		for range 3 {
			f.scan(2)
			f.after(10 * time.Second)
		}
		if r := f.s.Devices.Plan.Reports[0]; f.cards.queues != 8 || r.Steps != 0 || r.AtHome != 8 || len(f.applies(plan.SetQueues)) != 1 {
			t.Fatalf("%d queues, set %d times: %+v", f.cards.queues, len(f.applies(plan.SetQueues)), r)
		}
		f.after(time.Minute)
		f.scan(2)
		f.undo("device:eth0")
		if diff := cmp.Diff(before, f.irqs()); diff != "" || f.cards.queues != was || f.s.Journal.Len() != 0 {
			t.Errorf("%d queues after undo, before %d, journal %+v:\n%s", f.cards.queues, was, f.s.Journal.All(), diff)
		}
	}
}

// With another number of queues their interrupts are made anew: what they read then nobody
// has set, and they are brought home again.
func TestInterruptsOfOtherQueuesAreNobodys(t *testing.T) {
	f := newFake(t, 2, 8, placing, func(s *Settings) { s.Queues = irq.MatchQueues })
	f.give(8, 12, strconv.Itoa)
	for range 3 {
		f.scan(2)
		f.after(10 * time.Second)
	}
	if r := f.s.Devices.Plan.Reports[0]; r.AtHome != 8 || len(f.applies(plan.SetQueues)) != 0 {
		t.Fatalf("%+v", r)
	}
	f.per = 6
	for range 3 {
		f.scan(2)
		f.after(10 * time.Second)
	}
	if r := f.s.Devices.Plan.Reports[0]; f.cards.queues != 6 || r.AtHome != 6 || f.told(words.SetSince) != 0 {
		t.Errorf("%d queues, told %d times: %+v", f.cards.queues, f.told(words.SetSince), r)
	}
}

// A card that refuses another number keeps it, and its interrupts come home all the same.
func TestQueuesThatStay(t *testing.T) {
	f := newFake(t, 2, 8, placing, func(s *Settings) { s.Queues = irq.MatchQueues })
	f.give(4, 8, func(int) string { return "0-15" })
	f.fail = func(e *Effect) *Failure {
		if e.Kind == EffectApply && e.Step.Kind == plan.SetQueues {
			return &Failure{Code: Failed, Text: "broken on purpose"}
		}
		return nil
	}
	for range 4 {
		f.scan(2)
		f.after(10 * time.Second)
	}
	if r := f.s.Devices.Plan.Reports[0]; r.AtHome != 4 || r.Steps != 1 || f.told(words.StepFailed) != 1 {
		t.Errorf("%+v, told %d times", r, f.told(words.StepFailed))
	}
}

// inheritor is a child that has what an entry gave.
func inheritor(pid int, of uint64) plan.Inherited {
	return plan.Inherited{Of: of, Has: "0-7", Setting: plan.Setting{Kind: plan.Affinity, Path: plan.ProcessPath(workload.Process{PID: pid, Start: 8}), Value: "0-15"}}
}

// What a read of a process may have inherited from is all affinities there are: it gets them,
// and no record of it grows with them.
func TestReadsRecordNoJournal(t *testing.T) {
	f := newFake(t, 2, 64)
	for i := range 40 {
		f.addProcess(200+i, fmt.Sprint("p", i), 0.5, 64<<10, 0)
	}
	f.scan(6)
	id := f.addProcess(500, "late", 0.5, 64<<10, 0)
	f.scan(2)
	n := 0
	for _, e := range f.done {
		if e.Kind != EffectRead || e.Workload != id {
			continue
		}
		if n++; len(e.Journal) < 40 || len(asJSON(t, e)) > 2000 {
			t.Errorf("%d entries, %d bytes", len(e.Journal), len(asJSON(t, e)))
		}
	}
	if n == 0 {
		t.Error("nothing is read")
	}
}

// Children of a process that was given CPUs get entries of their own, by which undo finds
// them when their maker is gone.
func TestChildrenThatInherit(t *testing.T) {
	f := newFake(t, 2, 8)
	id := f.addProcess(77, "make", 3, 1<<20, 0)
	f.scan(4)
	child := workload.Process{PID: 78, Start: 8}
	f.works[id].obs.Processes = append(f.works[id].obs.Processes, child)
	f.set(plan.Affinity, "78@8", f.get(plan.Affinity, "77@7"))
	f.heirs = []Result{{Failed: &Failure{Code: Failed, Text: "read /proc"}}, {Inherited: []plan.Inherited{inheritor(78, 1)}}}
	before := f.count(EffectInherited, "")
	f.scan(1)
	if n := f.count(EffectInherited, ""); n != before {
		t.Error("asked after one that is younger than a scan")
	}
	f.scan(1)
	if f.told(words.InheritedFailed) != 1 || f.s.Journal.Len() != 1 {
		t.Errorf("told %d times, journal %+v", f.told(words.InheritedFailed), f.s.Journal.All())
	}
	f.scan(1)
	e := f.s.Journal.Of(plan.Affinity, "78@8")
	if e == nil || e.Old != "0-15" || e.New != "0-7" || e.State != plan.Applied || e.Workload != id {
		t.Fatalf("%+v", e)
	}
	n := f.count(EffectInherited, "")
	f.scan(3)
	if f.count(EffectInherited, "") != n {
		t.Error("asked again after what is known")
	}
	if f.home(id) == "1" {
		f.set(plan.Affinity, "78@8", "0-7")
	}
	f.undo("")
	if f.get(plan.Affinity, "77@7") != "0-15" || f.get(plan.Affinity, "78@8") != "0-15" || f.s.Journal.Len() != 0 {
		t.Errorf("undo left %v", f.all())
	}
}

// What has inherited from an entry that is gone, or has an entry, gets none; what is a
// workload of its own is known to have from homenode what it has.
func TestWhoIsAdopted(t *testing.T) {
	f := newFake(t, 2, 8)
	f.scan(1)
	s, out := f.s, &Output{}
	s.out = out
	for seq, path := range []string{"", "77@7", "80@8"} {
		if seq > 0 {
			s.Journal.Put(plan.Entry{Seq: uint64(seq), Workload: "pid:77", Kind: plan.Affinity, Path: path, Old: "0-15", New: "0-7", State: plan.Applied})
		}
	}
	s.Seq = 2
	owner := func(p workload.Process) (workload.ID, bool) { return ProcessID(79), p.PID == 79 }
	s.AdoptInherited([]plan.Inherited{inheritor(78, 1), inheritor(79, 1), inheritor(80, 1), inheritor(81, 9)}, owner)
	want := map[string]workload.ID{"78@8": "pid:77", "79@8": "pid:79"}
	for _, e := range out.Save.Entries {
		if want[e.Path] != e.Workload || e.Old != "0-15" || e.New != "0-7" || e.State != plan.Applied || len(e.Past) > 0 {
			t.Errorf("%+v", e)
		}
		delete(want, e.Path)
	}
	if len(want) > 0 || s.Seq != 4 || len(s.Given) != 1 || s.Given["pid:79"].String() != "0-7" {
		t.Errorf("no entry of %v; newest %d; given %v", want, s.Seq, s.Given)
	}
}

// What a process has started before its settings are read has inherited from it, and is
// adopted with them.
func TestChildThatIsReadWithItsMaker(t *testing.T) {
	f := newFake(t, 2, 8)
	id := f.addProcess(77, "make", 3, 1<<20, 0)
	f.scan(4)
	f.set(plan.Affinity, "78@8", "0-7")
	f.heirs = []Result{{Inherited: []plan.Inherited{inheritor(78, 1)}}}
	f.order(id, 1)
	e := f.s.Journal.Of(plan.Affinity, "78@8")
	if e == nil || e.Workload != id || e.Old != "0-15" || e.New != "8-15" {
		t.Fatalf("%+v", e)
	}
	f.set(plan.Affinity, "78@8", "8-15")
	if f.undo(""); f.get(plan.Affinity, "78@8") != "0-15" {
		t.Errorf("undo left %q", f.get(plan.Affinity, "78@8"))
	}
}

// What was read before a change may name an entry that has gone since: of an ended maker, whose
// other children have entries by now. The settings are read again, with those.
func TestInheritedFromAnEntryThatHasGone(t *testing.T) {
	f := newFake(t, 2, 8)
	id := f.addProcess(77, "make", 3, 1<<20, 0)
	f.scan(4)
	f.set(plan.Affinity, "78@8", "0-7")
	const gone = 99
	f.heirs = []Result{{Inherited: []plan.Inherited{inheritor(78, gone)}}, {Inherited: []plan.Inherited{inheritor(78, 1)}}}
	before := f.count(EffectRead, id)
	f.order(id, 1)
	if n := f.count(EffectRead, id) - before; n != 2 {
		t.Errorf("read %d times, want 2", n)
	}
	e := f.s.Journal.Of(plan.Affinity, "78@8")
	if e == nil || e.Old != "0-15" || f.get(plan.Affinity, "77@7") != "8-15" {
		t.Errorf("entry %+v, on %q", e, f.get(plan.Affinity, "77@7"))
	}
}

// TestAskedAgainWhatInheritedFromAnEntryThatHasGone: such a process is asked after once more.
func TestAskedAgainWhatInheritedFromAnEntryThatHasGone(t *testing.T) {
	f := newFake(t, 2, 8)
	id := f.addProcess(77, "make", 3, 1<<20, 0)
	f.scan(4)
	f.works[id].obs.Processes = append(f.works[id].obs.Processes, workload.Process{PID: 78, Start: 8})
	f.set(plan.Affinity, "78@8", "0-7")
	const gone = 99
	f.heirs = []Result{{Inherited: []plan.Inherited{inheritor(78, gone)}}, {Inherited: []plan.Inherited{inheritor(78, 1)}}}
	f.scan(2)
	if e := f.s.Journal.Of(plan.Affinity, "78@8"); e != nil {
		t.Fatalf("%+v", e)
	}
	f.scan(1)
	if e := f.s.Journal.Of(plan.Affinity, "78@8"); e == nil || e.Old != "0-15" {
		t.Errorf("%+v", e)
	}
}

// A child was seen with what its maker had before the step that has taken since: it may
// have either, and its entry says so.
func TestChildThatInheritsWhileAStepTakes(t *testing.T) {
	f := newFake(t, 2, 8)
	id := f.addProcess(77, "make", 3, 1<<20, 0)
	f.scan(4)
	if got := f.get(plan.Affinity, "77@7"); got != "0-7" {
		t.Fatalf("on %q", got)
	}
	f.works[id].obs.Processes = append(f.works[id].obs.Processes, workload.Process{PID: 78, Start: 8})
	f.set(plan.Affinity, "78@8", "0-7")
	f.keeping(EffectInherited)
	f.scan(2)
	if len(f.kept) != 1 {
		t.Fatalf("asked %d times", len(f.kept))
	}
	f.works[id].obs.Processes = f.works[id].obs.Processes[:1] // the step was not planned for it
	f.scan(1)
	f.order(id, 1)
	if got := f.get(plan.Affinity, "77@7"); got != "8-15" {
		t.Fatalf("on %q", got)
	}
	f.set(plan.Affinity, "78@8", "8-15")
	f.heirs = []Result{{Inherited: []plan.Inherited{inheritor(78, 1)}}}
	f.release()
	f.undo("")
	if got := f.get(plan.Affinity, "78@8"); got != "0-15" {
		t.Errorf("undo left %q", got)
	}
}

// The entry of a process that ended stays until nobody is left who has inherited from it
// and has no entry of his own.
func TestEntryOfTheDeadStaysWhileItIsInherited(t *testing.T) {
	for _, c := range []struct {
		name  string
		found []Result
		asks  int
		left  []string
	}{
		{"nobody", []Result{{}}, 1, nil},
		{"one", []Result{{Inherited: []plan.Inherited{inheritor(78, 1)}}, {}}, 2, []string{"78@8"}},
		{"it fails", []Result{{Failed: &Failure{Code: Failed, Text: "read /proc"}}}, 1, []string{"77@7"}},
		{"without end", []Result{{Inherited: []plan.Inherited{inheritor(78, 1)}}, {Inherited: []plan.Inherited{inheritor(79, 1)}}, {Inherited: []plan.Inherited{inheritor(80, 1)}},
			{Inherited: []plan.Inherited{inheritor(81, 1)}}, {Inherited: []plan.Inherited{inheritor(82, 1)}}}, 5, []string{"77@7", "78@8", "79@8", "80@8", "81@8", "82@8"}},
		{"of others without end", []Result{{Inherited: []plan.Inherited{inheritor(78, 2)}}, {Inherited: []plan.Inherited{inheritor(79, 2)}}, {Inherited: []plan.Inherited{inheritor(80, 2)}},
			{Inherited: []plan.Inherited{inheritor(81, 2)}}, {Inherited: []plan.Inherited{inheritor(82, 2)}}}, 5, []string{"78@8", "79@8", "80@8", "81@8", "82@8"}},
	} {
		f := newFake(t, 2, 8)
		f.disk.entries[1] = plan.Entry{Seq: 1, Workload: "pid:77", Kind: plan.Affinity, Path: "77@7", Old: "0-15", New: "0-7", State: plan.Applied}
		f.disk.entries[2] = plan.Entry{Seq: 2, Workload: "pid:90", Kind: plan.Affinity, Path: "90@7", Old: "0-15", New: "0-7", State: plan.Applied}
		f.disk.seq = 2
		f.addProcess(90, "lives", 3, 1<<20, 0)
		f.set(plan.Affinity, "90@7", "0-7")
		for pid := 78; pid < 83; pid++ {
			f.set(plan.Affinity, plan.ProcessPath(workload.Process{PID: pid, Start: 8}), "0-7")
		}
		f.heirs = c.found
		f.start()
		f.undo("pid:90") // nothing is begun for it
		f.disk.entries[2] = plan.Entry{Seq: 2, Workload: "pid:90", Kind: plan.Affinity, Path: "90@7", Old: "0-15", New: "0-7", State: plan.Applied}
		f.set(plan.Affinity, "90@7", "0-7")
		f.start()
		f.scan(1)
		if n := f.count(EffectInherited, ""); n != c.asks {
			t.Errorf("%s: asked %d times, want %d", c.name, n, c.asks)
		}
		var left []string
		for _, e := range f.disk.journal() {
			if e.Seq != 2 {
				left = append(left, e.Path)
			}
		}
		if diff := cmp.Diff(c.left, left); diff != "" || f.s.Pruning != nil {
			t.Errorf("%s (-want +got):\n%s", c.name, diff)
		}
	}
}

// shifting is four calm workloads on two nodes.
func shifting(t testing.TB, change ...func(*Settings)) *fake {
	f := newFake(t, 2, 8, change...)
	for i, name := range []string{"a", "b", "c", "d"} {
		id := f.add(name, 1, 1<<18, topology.NodeID(i%2))
		f.works[id].obs.Threads = 8
	}
	return f
}

// crowd makes everybody at home on the node of a busy, and returns them.
func (f *fake) crowd() (out []workload.ID) {
	for _, id := range sortedKeys(f.works) {
		f.works[id].obs.CPUUse = 0.3
		if f.home(id) == f.home("/a") {
			f.works[id].obs.CPUUse = 4
			out = append(out, id)
		}
	}
	if len(out) < 2 {
		f.t.Fatalf("only %v on the node of /a", out)
	}
	return out
}

func TestLoadShiftMovesOneWorkload(t *testing.T) {
	f := shifting(t)
	f.scan(8)
	busy, from := f.crowd(), f.home("/a")
	f.scan(15)
	n := 0
	for _, id := range busy {
		if f.home(id) != from {
			n++
		}
		if !f.settled(id) {
			t.Errorf("%s is not at home", id)
		}
	}
	if n != len(busy)/2 || f.told(words.Doing) == 0 {
		t.Errorf("moved %d of %v, told %d times", n, busy, f.told(words.Doing))
	}
	before := f.s.History.Changes
	if len(before) == 0 {
		t.Fatal("nothing is remembered")
	}
	f.start()
	if now := f.s.History.Changes; len(now) != len(before) || !now[0].At.Equal(before[0].At) || !now[0].To.Equal(before[0].To) {
		t.Errorf("%+v, before %+v", now, before)
	}
}

func TestObserveModeOnlySaysWhatItWouldDo(t *testing.T) {
	f := shifting(t)
	f.scan(4)
	f.start(observing)
	f.scan(8)
	busy, from, before := f.crowd(), f.home("/a"), f.all()
	f.scan(20)
	for _, id := range busy {
		if f.home(id) != from {
			t.Errorf("%s was given another home", id)
		}
	}
	told := 0
	for _, e := range f.events {
		if e.Code == words.WouldDo {
			told++
		}
	}
	if diff := cmp.Diff(before, f.all()); diff != "" || told != 1 || f.s.Balancing.Chosen == nil {
		t.Errorf("told %d times, %+v\n%s", told, f.s.Balancing.State, diff)
	}
}

func TestUndoneIsNotBalanced(t *testing.T) {
	f := shifting(t)
	f.scan(8)
	busy, from := f.crowd(), f.home("/a")
	for _, id := range busy {
		f.undo(id)
	}
	f.scan(10)
	for _, id := range busy {
		if f.home(id) != from {
			t.Errorf("%s was undone, and got home %s", id, f.home(id))
		}
	}
}

// What is counted of the nodes reaches balancing, in the order of the host's nodes.
func TestTrafficOfNodes(t *testing.T) {
	for _, tt := range []struct {
		name  string
		nodes []workload.NodeUse
		want  []int64
	}{
		{"first scan", nil, nil},
		{"no counter", []workload.NodeUse{{Node: 0, Bandwidth: -1}, {Node: 1, Bandwidth: -1}}, nil},
		{"one counts", []workload.NodeUse{{Node: 0, Bandwidth: -1}, {Node: 1, Bandwidth: 7}}, []int64{-1, 7}},
		{"both", []workload.NodeUse{{Node: 0, Bandwidth: 0}, {Node: 1, Bandwidth: 7}}, []int64{0, 7}},
	} {
		f := newFake(t, 2, 8)
		f.scan(1)
		f.s.Snapshot.Nodes = tt.nodes
		if diff := cmp.Diff(tt.want, f.s.input(f.now).Traffic); diff != "" {
			t.Errorf("%s: %s", tt.name, diff)
		}
	}
}

func TestHostIsTold(t *testing.T) {
	f := newFake(t, 2, 8, observing)
	a, b := f.add("a", 3, 0), f.add("b", 3, 1<<20, 1)
	f.scan(2)
	f.free = map[topology.NodeID]topology.KiB{1: f.mem / 51}
	f.scan(3)
	if f.told(words.NodeNearlyFull) != 1 {
		t.Errorf("a full node is told %d times", f.told(words.NodeNearlyFull))
	}
	f.free = map[topology.NodeID]topology.KiB{1: f.mem/50 + 1}
	f.scan(1)
	f.free = nil
	f.remove(a)
	f.remove(b)
	f.shrunk = []workload.ID{b}
	f.problems = []workload.Problem{{Subject: "x", Text: "y"}}
	f.scan(3)
	if f.toldOf(a, words.WorkloadGone) != 1 || f.toldOf(b, words.WorkloadSmall) != 1 || f.told(words.NodeNearlyFull) != 1 || f.told(words.ProblemSeen) != 1 {
		t.Errorf("%+v", f.events)
	}
}
