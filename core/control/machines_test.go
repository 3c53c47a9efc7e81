package control

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/homenode/homenode/core/control/work"
	"github.com/homenode/homenode/core/plan"
	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/core/words"
	"github.com/homenode/homenode/core/words/wordstest"
	"github.com/homenode/homenode/core/workload"
)

// machinesOn is a host with machines of a made-up runtime, all of which homenode may place.
func machinesOn(t testing.TB, nodes, per int, change ...func(*Settings)) *fake {
	return newFake(t, nodes, per, change...)
}

// changed is the steps carried out on machines since the test last asked.
func (f *fake) changed() (out []string) {
	for i := range f.done {
		if e := &f.done[i]; e.Kind == EffectApply && e.Step.Target.Kind == inMachine {
			out = append(out, string(e.Step.Kind)+" "+string(e.Workload)+" "+e.Step.To)
		}
	}
	f.done = nil
	return out
}

func TestMachineIsPlacedAsItStarts(t *testing.T) {
	f := machinesOn(t, 2, 8)
	a := f.define(floating("a", 2, 1<<20))
	f.scan(1)
	if got := f.changed(); len(got) != 1 || got[0] != "set-next m:a 0-7/0" && got[0] != "set-next m:a 8-15/1" {
		t.Fatalf("while it is off: %v", got)
	}
	a.next = seat{} // somebody renews its definition
	f.set(machineNext, "a", "")
	f.boot(a, 0, 1)
	f.workOf(a).obs.Memory = []workload.NodeMemory{{Node: 0, KiB: 4 << 10}, {Node: 1, KiB: 4 << 10}} // it has only begun
	f.scan(1)
	if a.now.nodes.Len() != 1 || !f.host().Nodes[a.now.nodes.Min()].CPUs.Equal(a.now.cpus) {
		t.Fatalf("one scan after its start it is at %v: %v", &a.now, f.changed())
	}
	if a.next.ours {
		t.Errorf("its next start is at %v before it has come home", &a.next)
	}
	f.scan(1)
	if f.home("m:a") != a.now.nodes.String() || a.next.String() != a.now.String() || !a.next.ours {
		t.Errorf("home %s, at %v, next at %v", f.home("m:a"), &a.now, &a.next)
	}
	if n := len(f.s.Snapshot.Observations); n != 1 {
		t.Errorf("%d workloads; the machine is there twice", n)
	}
	f.changed()
	f.scan(5)
	if got := f.changed(); len(got) != 0 {
		t.Errorf("it goes on: %v", got)
	}
	if f.s.Journal.Len() != 3 || f.decision("m:a").Outcome != plan.Kept {
		t.Errorf("%+v", f.s.Journal.All())
	}
	r := f.undo("m:a")
	if r.Undo == nil || len(r.Undo.Restored) != 3 || a.now.String() != "0-15/0-1" || a.next.ours {
		t.Fatalf("undone it is at %v: %s", &a.now, asJSON(t, r))
	}
	f.changed()
	f.scan(3)
	if got := f.changed(); len(got) != 0 || a.next.ours {
		t.Errorf("changed although it is held: %v", got)
	}
	f.resume("m:a")
	f.scan(2)
	if a.now.nodes.Len() != 1 || !a.next.ours {
		t.Errorf("resumed, it is at %v", &a.now)
	}
	f.halt(a)
	f.scan(1)
	if len(f.s.Plan.Placements) != 0 || f.s.Observation("m:a") != nil {
		t.Errorf("off, it still holds %+v", f.s.Plan.Placements)
	}
}

func TestMachinesThatAreLeftAlone(t *testing.T) {
	f := machinesOn(t, 2, 8, func(s *Settings) { s.Exclude = []string{"m:out"} })
	hand, out := f.define(floating("hand", 2, 1<<20)), f.define(floating("out", 1, 1<<18))
	hand.next = seat{cpus: topology.CPUs(0, 1), hand: "pinned by hand"}
	own := f.define(pinnedMachine("own", 0, 2, 3))
	own.next.ours, own.next.hand = false, "pinned by hand"
	for _, m := range []*machine{hand, out, own} {
		f.boot(m, 0, 1)
	}
	web := f.add("web", 8, 1<<20, 0)
	f.scan(4)
	if got := f.changed(); len(got) > 0 {
		t.Errorf("changed: %v", got)
	}
	for id, code := range map[workload.ID]words.Code{"m:hand": words.GuestBound, "m:own": words.GuestBound, "m:out": words.Excluded} {
		if d := f.decision(id); !wordstest.Has(d.Reasons, words.Reason{Code: code}) {
			t.Errorf("%s: %+v", id, d)
		}
	}
	// What a hand pinned one to one holds its CPUs all the same.
	if p := f.placement(web); p == nil || p.CPUs.Intersects(topology.CPUs(2, 3)) {
		t.Errorf("web is on %+v", p)
	}
	if p := f.placement("m:own"); p == nil || p.CPUs.String() != "2-3" {
		t.Errorf("own holds %+v", p)
	}
	for _, dry := range []bool{true, false} {
		if r := f.ask(Request{Move: &MoveRequest{ID: "m:own", To: topology.Nodes(1), DryRun: dry}}); r.Failed == nil || r.Failed.Code != NoRoom {
			t.Errorf("an order for what its runtime moves: %s", asJSON(t, r))
		}
	}
}

// A machine that homenode places may have a definition that somebody else bound.
func TestDefinitionByHandIsLeftAlone(t *testing.T) {
	f := machinesOn(t, 2, 8)
	a := f.define(floating("a", 2, 1<<20))
	f.boot(a, 0, 1)
	a.next = seat{cpus: topology.CPUs(0, 1), hand: "pinned by hand"}
	f.scan(4)
	if a.now.nodes.Len() != 1 || !a.now.ours || a.next.ours || a.next.cpus.Len() != 2 {
		t.Errorf("it runs at %v, next at %v: %v", &a.now, &a.next, f.changed())
	}
}

// A machine that somebody binds by hand while it runs is theirs from then on: it holds no
// home of homenode's, and nothing more is done to it.
func TestMachineBoundByHandWhileItRuns(t *testing.T) {
	f := machinesOn(t, 2, 8)
	a := f.define(floating("a", 2, 1<<20))
	f.boot(a, 0, 1)
	f.scan(4)
	if f.home("m:a") == "" {
		t.Fatal("not placed")
	}
	f.changed()
	a.now.hand, a.now.cpus = "pinned by hand", topology.CPUs(0, 9)
	f.set(machineCPUs, a.path(), "0,9")
	f.scan(4)
	if got := f.changed(); f.home("m:a") != "" || !wordstest.Has(f.decision("m:a").Reasons, words.Reason{Code: words.GuestBound}) || len(got) > 0 || a.now.cpus.String() != "0,9" {
		t.Errorf("home %q, at %v, %v: %+v", f.home("m:a"), &a.now, got, f.decision("m:a"))
	}
}

func TestObserveModeChangesNoMachine(t *testing.T) {
	f := machinesOn(t, 2, 8, observing)
	a := f.define(floating("a", 2, 1<<20))
	f.define(floating("off", 2, 1<<20))
	f.boot(a, 0, 1)
	f.scan(3)
	if got := f.changed(); len(got) > 0 || len(f.s.Plan.Steps) != 3 || f.s.Plan.Steps[0].Kind != plan.SetCPUs || f.s.Plan.Steps[1].Kind != plan.MovePages || f.s.Plan.Steps[2].Kind != plan.SetMems {
		t.Errorf("changed %v, planned %+v", got, f.s.Plan.Steps)
	}
}

// What has CPUs of its own takes them as it is defined: what floats makes way at the next
// scan, and has them back when it is gone.
func TestFloatingMachinesMakeWay(t *testing.T) {
	f := machinesOn(t, 1, 8)
	a := f.define(floating("a", 2, 1<<20))
	f.boot(a, 0)
	f.scan(2)
	d := f.define(pinnedMachine("d", 0, 2, 3, 4, 5))
	f.scan(1)
	if a.now.cpus.String() != "0-1,6-7" {
		t.Fatalf("it runs on %v", a.now.cpus)
	}
	f.scan(1)
	if a.next.cpus.String() != "0-1,6-7" {
		t.Errorf("it would start on %v", a.next.cpus)
	}
	f.boot(d, 0)
	f.changed()
	f.scan(3)
	if got := f.changed(); len(got) != 0 || d.now.String() != "2-5/0" || f.home("m:d") != "0" {
		t.Errorf("touched: %v", got)
	}
	f.halt(d)
	d.gone = true
	f.scan(2)
	if a.now.cpus.String() != "0-7" || a.next.cpus.String() != "0-7" {
		t.Errorf("afterwards %v, %v", &a.now, &a.next)
	}
}

// The next start of what is off goes elsewhere when it no longer fits where it is written,
// and stays there when it fits nowhere.
func TestNextStartThatNoLongerFits(t *testing.T) {
	f := machinesOn(t, 2, 8)
	a := f.define(floating("a", 2, 1<<20))
	f.scan(2)
	first := a.next.nodes.Min()
	f.define(pinnedMachine("fill", first, f.host().Nodes[first].CPUs.Slice()...))
	if f.scan(1); a.next.nodes.String() != topology.Nodes(1-first).String() || !a.next.ours {
		t.Errorf("next at %v, %d is full", &a.next, first)
	}
	f.define(pinnedMachine("fill2", 1-first, f.host().Nodes[1-first].CPUs.Slice()...))
	was := a.next.String()
	f.changed()
	if f.scan(2); a.next.String() != was || len(f.changed()) > 0 {
		t.Errorf("next at %v, all is full", &a.next)
	}
}

// While its runtime does not answer nothing is done to a machine, what it holds stays its
// own, and the rest goes on.
func TestRuntimeGoesAndComes(t *testing.T) {
	f := machinesOn(t, 2, 8)
	a := f.define(floating("a", 2, 1<<20))
	f.boot(a, 0)
	f.scan(2)
	home := f.home("m:a")
	f.lost = "no answer"
	web := f.add("web", 2, 1<<20, 0, 1)
	f.changed()
	f.scan(3)
	if got := f.changed(); len(got) != 0 || f.home("m:a") != home || !wordstest.Has(f.decision("m:a").Reasons, words.Reason{Code: words.GuestSilent}) || !f.settled(web) {
		t.Errorf("changed %v, %+v, web settled %v", got, f.decision("m:a"), f.settled(web))
	}
	want := workload.Problem{Subject: "runtime", Text: "no answer"}
	if p := f.s.Snapshot.Problems; len(p) != 1 || p[0] != want || f.told(words.ProblemSeen) != 1 {
		t.Errorf("%+v", p)
	}
	f.halt(a)
	f.scan(1)
	b := f.define(floating("b", 2, 1<<20))
	f.boot(b, 0, 1)
	f.lost = ""
	f.scan(3)
	if b.now.nodes.Len() != 1 || len(f.s.Snapshot.Problems) != 0 {
		t.Errorf("afterwards at %v: %+v", &b.now, f.decision("m:b"))
	}
}

func TestMachineVanishesUnderItsSteps(t *testing.T) {
	f := machinesOn(t, 2, 8)
	a := floating("a", 2, 1<<20)
	a.transient = true
	f.define(a)
	f.boot(a, 0, 1)
	f.fail = func(e *Effect) *Failure {
		if e.Kind == EffectApply {
			return gone("domain not found")
		}
		return nil
	}
	f.scan(1)
	f.halt(a)
	f.fail = nil
	f.scan(15)
	if len(f.disk.journal()) != 0 || len(f.s.Snapshot.Observations) != 0 || f.told(words.StepGone) != 1 {
		t.Errorf("journal of what is gone: %+v", f.disk.journal())
	}
}

// What its runtime does while the daemon runs, or does not, stands.
func TestMachineMovedBeside(t *testing.T) {
	f := machinesOn(t, 2, 8)
	a := f.define(floating("a", 2, 1<<20))
	f.boot(a, 0)
	f.scan(2)
	for range 2 {
		to := map[string][3]string{"0-7/0": {"8-15", "1", "8-15/1"}, "8-15/1": {"0-7", "0", "0-7/0"}}[a.now.String()]
		f.write(machineCPUs, a.path(), to[0])
		f.write(machineMems, a.path(), to[1])
		f.write(machineNext, "a", to[2])
		f.changed()
		f.scan(3)
		if got := f.changed(); len(got) != 0 || a.now.String() != to[2] || a.next.String() != to[2] || f.home("m:a") != to[1] {
			t.Errorf("moved to %s, it is at %v: %v", to[2], &a.now, got)
		}
		f.start()
	}
}

// A daemon that ends and starts again changes nothing of what is at home.
func TestRestartUnderMachines(t *testing.T) {
	f := machinesOn(t, 2, 8)
	a, d := f.define(floating("a", 2, 1<<20)), f.define(pinnedMachine("d", 1, 8, 9))
	a.next = seat{cpus: f.host().Nodes[0].CPUs, nodes: topology.Nodes(0), ours: true}
	f.boot(a, 0)
	f.boot(d, 1)
	for range 3 {
		f.scan(2)
		f.start()
	}
	if got := f.changed(); len(got) > 0 {
		t.Errorf("changed: %v", got)
	}
}

// A vCPU that is plugged in comes to the home of the others.
func TestPluggedVCPU(t *testing.T) {
	f := machinesOn(t, 2, 8)
	a := f.define(floating("a", 2, 1<<20))
	f.boot(a, 0)
	f.scan(3)
	home := a.now.cpus
	a.vcpus, a.now.loose = 3, true
	f.changed()
	f.scan(1)
	if diff := cmp.Diff([]string{"set-cpus m:a " + home.String()}, f.changed()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// large is a machine at home on node 0 that has to leave it.
func large(f *fake) *machine {
	a := f.define(floating("a", 2, 4<<20))
	a.next = seat{cpus: f.host().Nodes[0].CPUs, nodes: topology.Nodes(0), ours: true}
	f.boot(a, 0)
	f.scan(2)
	if got := f.changed(); len(got) > 0 {
		f.t.Fatalf("at home, and changed: %v", got)
	}
	f.define(pinnedMachine("fill", 0, f.host().Nodes[0].CPUs.Slice()...))
	return a
}

// The memory of a large machine moves page by page, paced: its nodes are widened first and
// narrowed last.
func TestLargeMachineMovesAtAPace(t *testing.T) {
	f := machinesOn(t, 2, 8)
	a := large(f)
	midst := ""
	f.mid = func(*Effect) {
		f.mid = nil
		midst = a.now.String()
		f.scan(2) // scans go on, and find it on its way
	}
	f.scan(3)
	want := []string{"set-cpus m:a 8-15", "set-mems m:a 0-1", "set-mems m:a 1", "set-next m:a 8-15/1"}
	if diff := cmp.Diff(want, f.changed()); diff != "" || midst != "8-15/0-1" {
		t.Errorf("in the midst at %q (-want +got):\n%s", midst, diff)
	}
	if m := f.s.Moves["m:a"]; m.State != work.MoveDone || m.Moved != 4<<30 || f.home("m:a") != "1" || f.onHome(f.workOf(a).obs.ID) != 0 {
		t.Errorf("%+v", m)
	}
}

// Where pages cannot be moved one by one they go with the nodes; a daemon that ends in
// the middle goes on where it was.
func TestLargeMachineHalfWay(t *testing.T) {
	for _, restart := range []bool{false, true} {
		f := machinesOn(t, 2, 8)
		a := large(f)
		if restart {
			f.mid = func(e *Effect) {
				f.mid = nil
				f.start()
				f.stopped[e.ID] = true
			}
		} else {
			f.fail = func(e *Effect) *Failure {
				if e.Kind == EffectApply && e.Step.Kind == plan.MovePages {
					return &Failure{Code: Failed, Text: "broken on purpose"}
				}
				return nil
			}
		}
		f.scan(4)
		if a.now.String() != "8-15/1" || f.home("m:a") != "1" || a.next.String() != "8-15/1" {
			t.Errorf("restart %v: at %v, home %s: %v", restart, &a.now, f.home("m:a"), f.changed())
		}
	}
}

// A move whose machine has another home by now ends.
func TestLargeMachineBelongsElsewhere(t *testing.T) {
	f := machinesOn(t, 2, 8)
	a := large(f)
	f.mid = func(e *Effect) {
		f.mid = nil
		f.machines[1].gone = true
		f.define(pinnedMachine("fill2", 1, f.host().Nodes[1].CPUs.Slice()...))
		f.end(f.begin())
		if f.home("m:a") != "0" || !f.stopped[e.ID] {
			t.Errorf("home %s, told to stop %v", f.home("m:a"), f.stopped[e.ID])
		}
	}
	f.scan(4)
	if a.now.String() != "0-7/0" {
		t.Errorf("at %v", &a.now)
	}
}

// An undo that comes while the runtime moves the memory of a small machine waits for that.
func TestUndoWhileASmallMachineMoves(t *testing.T) {
	f := machinesOn(t, 2, 8)
	a := f.define(floating("a", 2, 1<<20))
	f.boot(a, 0, 1)
	f.workOf(a).obs.Memory = []workload.NodeMemory{{Node: 0, KiB: 4 << 10}, {Node: 1, KiB: 4 << 10}}
	f.keep = func(e *Effect) bool { return e.Kind == EffectApply && e.Step.Kind == plan.SetMems }
	f.scan(1)
	if r := f.undo("m:a"); r.Undo != nil || len(f.kept) != 1 {
		t.Fatalf("undone in the middle of the change: %s", asJSON(t, r))
	}
	f.release()
	if r := f.replies[f.asked]; r.Undo == nil || a.now.String() != "0-15/0-1" || f.s.Journal.Len() != 0 {
		t.Errorf("at %v, %s", &a.now, asJSON(t, r))
	}
}

// What of a runtime no claim is about is left alone as it says; two sources of one
// workload: the first has it.
func TestClaimsOfNobodyInParticular(t *testing.T) {
	f := newFake(t, 2, 8)
	box, free := f.add("box.slice/x", 3, 1<<20, 0), f.add("web", 3, 1<<20, 0)
	scan := f.begin()
	scan.Snapshot = f.snapshot()
	scan.Claims = []Claimed{
		{Source: "one", Claims: []workload.Claim{{Cgroups: []string{"box.slice"}, Alone: words.Because(words.GuestForeignCgroup), Running: true},
			{ID: "m:x", Name: "first", Cgroups: []string{"/nowhere"}, Driver: inMachine}}},
		{Source: "two", Claims: []workload.Claim{{ID: "m:x", Name: "second", Driver: inMachine}}, Problems: []workload.Problem{{Subject: "two", Text: "odd"}}},
	}
	f.turn(Input{Scan: scan})
	f.run()
	if !f.leftAlone(box, words.GuestForeignCgroup) || f.home(free) == "" || f.s.Claims["m:x"].Name != "first" || len(f.s.Snapshot.Problems) != 2 {
		t.Errorf("%+v, %+v", f.decision(box), f.s.Claims)
	}
}
