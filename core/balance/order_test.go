package balance

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/homenode/homenode/core/place"
	"github.com/homenode/homenode/core/place/arrange"
	"github.com/homenode/homenode/core/plan"
	"github.com/homenode/homenode/core/plan/plantest"
	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/core/words"
	"github.com/homenode/homenode/core/words/wordstest"
	"github.com/homenode/homenode/core/workload"
)

func TestOrder(t *testing.T) {
	node := func(n ...topology.NodeID) topology.NodeSet { return topology.Nodes(n...) }
	for _, c := range []struct {
		name  string
		build func(b *bench)
		to    topology.NodeSet
		want  plan.Outcome
		home  string
		why   words.Reason
	}{
		{"shared work goes where it is told", func(b *bench) { b.run("a", 0, 2, gib) }, node(1), plan.Placed, "1", words.Because(words.Ordered, "0", "1")},
		{"dedicated work too", func(b *bench) { b.run("a", 0, 2, gib, class(workload.Dedicated)) }, node(1), plan.Placed, "1", words.Because(words.Ordered)},
		{"it is there", func(b *bench) { b.run("a", 0, 2, gib) }, node(0), plan.Kept, "0", words.Reason{}},
		{"of several nodes one will do", func(b *bench) { b.run("a", 0, 2, gib) }, node(0, 1), plan.Kept, "0", words.Reason{}},
		{"no such node", func(b *bench) { b.run("a", 0, 2, gib) }, node(7), plan.Refused, "", words.Because(words.NoSuchNode, 7)},
		{"no memory there", func(b *bench) {
			b.run("a", 0, 2, 10*gib)
			b.run("b", 1, 2, 10*gib)
		}, node(1), plan.Refused, "", words.Because(words.NodeLacks, 1, words.Reasons(words.Because(words.Memory, 4*gib)))},
		{"its CPUs are dedicated to others", func(b *bench) {
			b.run("a", 0, 2, gib, class(workload.Dedicated))
			b.run("b", 1, 7, gib, func(s *place.Subject) { s.Spec.Class, s.Spec.CPUs, s.Spec.Given = workload.Dedicated, 7, true })
		}, node(1), plan.Refused, "", words.Reason{}},
		{"batch work", func(b *bench) { b.run("a", 0, 2, gib, class(workload.Batch)) }, node(1), plan.Refused, "", words.Because(words.BatchHomeless)},
		{"what is left alone", func(b *bench) {
			b.run("a", 0, 2, gib, func(s *place.Subject) { s.Alone = words.Plain("The configuration excludes it.") })
		}, node(1), plan.LeftAlone, "", words.Plain("The configuration excludes it.")},
		{"memory nodes that others narrowed", func(b *bench) {
			b.run("a", 0, 2, gib, func(s *place.Subject) { s.Observation.Mems = topology.Nodes(0) })
		}, node(1), plan.Refused, "", words.Because(words.MemsOnly, "0")},
		{"memory nodes that its manager has and widens", func(b *bench) {
			b.run("a", 0, 2, gib, func(s *place.Subject) { s.Observation.Mems, s.Observation.Caps.Rebinds = topology.Nodes(0), true })
		}, node(1), plan.Placed, "1", words.Because(words.Ordered, "0", "1")},
		{"a memory policy of its own is told", func(b *bench) {
			b.run("a", 0, 2, gib, func(s *place.Subject) { s.Observation.OwnPolicy = "bind:0" })
		}, node(1), plan.Placed, "1", words.Because(words.PolicyKeeps, "bind:0")},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := two(t)
			c.build(b)
			out, d := Order(b.in, "a", c.to)
			if d.Outcome != c.want || !c.why.None() && !wordstest.Has(d.Reasons, c.why) {
				t.Fatalf("%s: %s; want %s with %q", d.Outcome, d.Reasons, c.want, c.why)
			}
			if c.want != plan.Placed {
				return
			}
			if v := plan.CheckPlan(b.in.State, out); len(v) > 0 {
				t.Fatalf("the plan breaks a rule: %s", v[0])
			}
			k := slices.IndexFunc(out.Report.Decisions, func(d plan.Decision) bool { return d.Workload == "a" })
			if diff := gocmp.Diff(d, out.Report.Decisions[k]); diff != "" {
				t.Errorf("the plan decides otherwise than it answers:\n%s", diff)
			}
			if d.Home.String() != c.home {
				t.Errorf("home %s, want %s", d.Home, c.home)
			}
			kinds := ""
			for _, s := range out.Steps {
				if s.Workload == "a" {
					kinds += string(s.Kind) + " "
				}
			}
			if !strings.HasPrefix(kinds, "set-cpus move-pages") {
				t.Errorf("steps %q", kinds)
			}
		})
	}
}

// What was told is not taken back: the ban and the cooldown count from then on.
func TestOrderIsRemembered(t *testing.T) {
	b := two(t)
	b.run("a", 0, 5, gib)
	for range 10 {
		b.tick()
	}
	out, d := Order(b.in, "a", topology.Nodes(1))
	if d.Outcome != plan.Placed {
		t.Fatalf("%+v", d)
	}
	b.in.State.Placements = out.Placements
	b.in.Ordered = []HomeChange{{Workload: "a", From: topology.Nodes(0), To: topology.Nodes(1), At: b.in.At.Add(-time.Second)}}
	b.tick()
	if len(b.memory.Changes) != 1 || b.memory.Changes[0].Workload != "a" {
		t.Fatalf("remembered %+v", b.memory.Changes)
	}
	b.in.Ordered = nil
	b.tick()
	if len(b.memory.Changes) != 1 {
		t.Fatalf("forgotten, or remembered twice: %+v", b.memory.Changes)
	}
}

// Whatever the host and the load, an order breaks no rule, changes no argument,
// takes nobody's home, and holds at the next look.
func TestOrderProperties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		st := plantest.State(4).Draw(t, "state")
		in := Input{At: epoch, State: st, Settings: DefaultSettings(), Arrange: arrange.Options{MoveBandwidth: 256 << 20}}
		n := rapid.IntRange(1, 6).Draw(t, "workloads")
		for i := range n {
			in.Subjects = append(in.Subjects, drawSubject(t, st.Host, workload.ID(fmt.Sprintf("w%d", i))))
		}
		in.State.Placements = arrange.Arrange(in.State, in.Subjects, in.Arrange).Placements
		id := workload.ID(fmt.Sprintf("w%d", rapid.IntRange(0, n-1).Draw(t, "told")))
		var nodes topology.NodeSet
		for _, x := range rapid.SliceOfN(rapid.SampledFrom(st.Host.Nodes), 1, 3).Draw(t, "to") {
			nodes.Add(x.ID)
		}
		before := asJSON(t, in)
		out, d := Order(in, id, nodes)
		again, e := Order(in, id, nodes)
		if asJSON(t, in) != before {
			t.Fatal("it changed its arguments")
		}
		if asJSON(t, out) != asJSON(t, again) || asJSON(t, d) != asJSON(t, e) {
			t.Fatal("asked twice it answers otherwise")
		}
		if d.Outcome != plan.Placed {
			if len(d.Reasons) == 0 {
				t.Fatalf("%s without a reason", d.Outcome)
			}
			return
		}
		for _, v := range plan.CheckPlan(in.State, out) {
			t.Fatalf("%s: %s", v.Code, v.Text)
		}
		if !d.Home.SubsetOf(nodes) {
			t.Fatalf("told to go to %s, goes to %s", nodes, d.Home)
		}
		in.State.Placements = out.Placements
		kept := arrange.Arrange(in.State, in.Subjects, in.Arrange)
		for i := range kept.Placements {
			p := &kept.Placements[i]
			if p.Class != workload.Batch && !p.Home.Equal(out.Placements[i].Home) {
				t.Fatalf("at the next look %s goes from %s to %s", p.Workload, out.Placements[i].Home, p.Home)
			}
		}
	})
}
