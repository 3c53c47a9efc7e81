package nextstart

import (
	"testing"

	"github.com/homenode/homenode/core/control/concern"
	"github.com/homenode/homenode/core/control/concern/concerntest"
	"github.com/homenode/homenode/core/place"
	"github.com/homenode/homenode/core/plan"
	"github.com/homenode/homenode/core/plan/plantest"
	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/core/words"
	"github.com/homenode/homenode/core/workload"
)

// on is a host of two nodes with a guest of two vCPUs, vm:a, that runs on node 1 and starts anywhere next.
func on() (*concern.Scene, *concerntest.Loop, *workload.Claim) {
	sc, loop := concerntest.On(plantest.Draw("0 0-3 16G 10 20\n1 4-7 16G 20 10\n"))
	sc.Facts.Policy = plan.DefaultPolicy()
	spec := workload.Spec{ID: "vm:a", Class: workload.Shared, CPUs: 2, Memory: plantest.GiB, Given: true}
	c := &workload.Claim{
		ID: "vm:a", Name: "a", Also: []string{"uuid"}, Driver: "guest", Running: true, Spec: &spec,
		Caps: workload.Caps{NextStart: true}, Next: &workload.Next{Spec: spec},
	}
	sc.Claims["vm:a"] = c
	concerntest.Add(sc, place.Subject{Observation: workload.Observation{ID: "vm:a"}}, &workload.Placement{
		Class: workload.Shared, Home: topology.Nodes(1), CPUs: topology.CPUs(4, 5, 6, 7), VCPUs: 2,
		Memory: []workload.NodeMemory{{Node: 1, KiB: plantest.GiB}},
	})
	return sc, loop, c
}

const runs = "guest.definition vm:a of vm:a: set-next / > 4-7/1 next-start-runs is otherwise required"

// TestRunning: a guest that runs starts where it is, unless it does already.
func TestRunning(t *testing.T) {
	next := func(cpus topology.CPUSet, mems topology.NodeSet, ours bool) func(*concern.Scene, *workload.Claim) {
		return func(_ *concern.Scene, c *workload.Claim) { c.Next.CPUs, c.Next.Mems, c.Next.Ours = cpus, mems, ours }
	}
	for _, c := range []struct {
		name   string
		facts  string
		change func(*concern.Scene, *workload.Claim)
		want   string
	}{
		{"elsewhere", "", func(*concern.Scene, *workload.Claim) {}, runs},
		{"there already", "", next(topology.CPUs(4, 5, 6, 7), topology.Nodes(1), true), ""},
		{"there by another program", "", next(topology.CPUs(4, 5, 6, 7), topology.Nodes(1), false),
			"guest.definition vm:a of vm:a: set-next 4-7/1 > 4-7/1 next-start-runs is otherwise required"},
		{"on other CPUs", "", next(topology.CPUs(4), topology.Nodes(1), true),
			"guest.definition vm:a of vm:a: set-next 4/1 > 4-7/1 next-start-runs is otherwise required"},
		{"its memory stays", "", func(_ *concern.Scene, c *workload.Claim) {
			c.Caps.MemoryStays, c.Next.Mems = true, topology.Nodes(0)
		}, "guest.definition vm:a of vm:a: set-next /0 > 4-7/0 next-start-runs is otherwise required"},
		{"nothing is changed", "", func(sc *concern.Scene, _ *workload.Claim) { sc.Acts = false }, ""},
		{"between two scans", "", func(sc *concern.Scene, _ *workload.Claim) { sc.Between = true }, ""},
		{"it cannot", "", func(_ *concern.Scene, c *workload.Claim) { c.Caps.NextStart = false }, ""},
		{"no definition", "", func(_ *concern.Scene, c *workload.Claim) { c.Next = nil }, ""},
		{"its definition is left alone", "", func(_ *concern.Scene, c *workload.Claim) {
			c.Next.Alone = words.Because(words.NotIncluded)
		}, ""},
		{"left alone by its source", "", func(_ *concern.Scene, c *workload.Claim) {
			c.Alone = words.Because(words.NotIncluded)
		}, ""},
		{"left alone by another name", "alone uuid", func(*concern.Scene, *workload.Claim) {}, ""},
		{"held", "held vm:a", func(*concern.Scene, *workload.Claim) {}, ""},
		{"busy", "busy vm:a", func(*concern.Scene, *workload.Claim) {}, ""},
		{"being changed", "changing vm:a", func(*concern.Scene, *workload.Claim) {}, ""},
		{"it has a step", "", func(sc *concern.Scene, _ *workload.Claim) {
			sc.Plan.Steps = []plan.Step{{Workload: "vm:a"}}
		}, ""},
		{"other work has a step", "", func(sc *concern.Scene, _ *workload.Claim) {
			sc.Plan.Steps = []plan.Step{{Workload: "vm:b"}}
		}, runs},
		{"no size", "", func(_ *concern.Scene, c *workload.Claim) { c.Spec = nil }, ""},
		{"dedicated", "", func(_ *concern.Scene, c *workload.Claim) { c.Spec.Class = workload.Dedicated }, ""},
		{"dedicated next", "", func(_ *concern.Scene, c *workload.Claim) { c.Next.Spec.Class = workload.Dedicated }, ""},
		{"no home", "", func(sc *concern.Scene, _ *workload.Claim) { sc.Plan.Placements = nil }, ""},
	} {
		sc, loop, claim := on()
		loop.Is(c.facts)
		c.change(sc, claim)
		concerntest.Expect(t, c.name, concerntest.Lines(Concern{}.Decide(sc).Settings), c.want)
	}
}

// TestOff: a guest that is off gets the best home; where it will start already it stays as long as it has room.
func TestOff(t *testing.T) {
	home := func(node topology.NodeID) *workload.Placement {
		return &workload.Placement{Class: workload.Shared, Home: topology.Nodes(node)}
	}
	crowd := func(sc *concern.Scene) {
		concerntest.Add(sc, place.Subject{Observation: workload.Observation{ID: "vm:z"}}, &workload.Placement{
			Class: workload.Dedicated, Home: topology.Nodes(0), CPUs: topology.CPUs(0, 1, 2, 3), VCPUs: 4,
			Memory: []workload.NodeMemory{{Node: 0, KiB: plantest.GiB}},
		})
	}
	for _, c := range []struct {
		name   string
		change func(*concern.Scene, *workload.Claim)
		want   string
	}{
		{"the best", func(*concern.Scene, *workload.Claim) {}, "set-next / > 0-3/0 next-start-best"},
		{"node 0 is taken", func(sc *concern.Scene, _ *workload.Claim) { crowd(sc) }, "set-next / > 4-7/1 next-start-best"},
		{"it starts on node 1", func(_ *concern.Scene, c *workload.Claim) { c.Next.Ours, c.Next.Home = true, home(1) },
			"set-next / > 4-7/1 next-start-holds"},
		{"another program has it start there", func(_ *concern.Scene, c *workload.Claim) { c.Next.Home = home(1) },
			"set-next / > 0-3/0 next-start-best"},
		{"it starts nowhere", func(_ *concern.Scene, c *workload.Claim) { c.Next.Ours = true },
			"set-next / > 0-3/0 next-start-best"},
		{"it starts on node 0, which is taken", func(sc *concern.Scene, c *workload.Claim) {
			crowd(sc)
			c.Next.Ours, c.Next.Home = true, home(0)
		}, "set-next / > 4-7/1 next-start-best"},
		{"it may be on node 1 alone", func(_ *concern.Scene, c *workload.Claim) { c.Next.Spec.Nodes = topology.Nodes(1) },
			"set-next / > 4-7/1 next-start-best"},
		{"it fits nowhere", func(_ *concern.Scene, c *workload.Claim) { c.Next.Spec.Memory = 99 * plantest.GiB }, ""},
	} {
		sc, _, claim := on()
		claim.Running, sc.Plan.Placements = false, nil
		c.change(sc, claim)
		want := c.want
		if want != "" {
			want = "guest.definition vm:a of vm:a: " + want + " is otherwise required"
		}
		concerntest.Expect(t, c.name, concerntest.Lines(Concern{}.Decide(sc).Settings), want)
	}
}

// TestParts: the parts of a guest share a definition, so that one is written at a time.
func TestParts(t *testing.T) {
	sc, loop, claim := on()
	claim.Part = &workload.Part{Of: "vm"}
	second := *claim
	second.ID = "vm:b"
	sc.Claims["vm:b"] = &second
	p := sc.Plan.Placements[0]
	concerntest.Add(sc, place.Subject{Observation: workload.Observation{ID: "vm:b"}}, &p)
	concerntest.Expect(t, "the first", concerntest.Lines(Concern{}.Decide(sc).Settings), runs)
	loop.Is("redefines vm")
	concerntest.Expect(t, "while it is written", concerntest.Lines(Concern{}.Decide(sc).Settings), "")
	loop.Is("")
	next := *claim.Next
	next.CPUs, next.Mems, next.Ours = topology.CPUs(4, 5, 6, 7), topology.Nodes(1), true
	claim.Next = &next
	const other = "guest.definition vm:b of vm:b: set-next / > 4-7/1 next-start-runs is otherwise required"
	concerntest.Expect(t, "then the second", concerntest.Lines(Concern{}.Decide(sc).Settings), other)
}

// TestOwnsNothing: definitions keep their values until undo.
func TestOwnsNothing(t *testing.T) {
	if (Concern{}).Owns(&plan.Entry{Kind: plan.GuestDefinition}) || (Concern{}).Ended(nil, nil, nil) {
		t.Error("it owns definitions")
	}
}
