package balance

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/homenode/homenode/core/place"
	"github.com/homenode/homenode/core/plan"
	"github.com/homenode/homenode/core/plan/plantest"
	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/core/workload"
)

func TestTold(t *testing.T) {
	node := func(n ...topology.NodeID) topology.NodeSet { return topology.Nodes(n...) }
	for _, c := range []struct {
		name  string
		build func(b *bench)
		to    topology.NodeSet
		want  plan.Outcome
		home  string
		words string
	}{
		{"shared work goes where it is told", func(b *bench) { b.run("a", 0, 2, gib) }, node(1), plan.Placed, "1", "told to move from node 0 to node 1"},
		{"dedicated work too", func(b *bench) { b.run("a", 0, 2, gib, class(workload.Dedicated)) }, node(1), plan.Placed, "1", "told to move"},
		{"it is there", func(b *bench) { b.run("a", 0, 2, gib) }, node(0), plan.Kept, "0", ""},
		{"of several nodes one will do", func(b *bench) { b.run("a", 0, 2, gib) }, node(0, 1), plan.Kept, "0", ""},
		{"no such node", func(b *bench) { b.run("a", 0, 2, gib) }, node(7), plan.Refused, "", "There is no node 7."},
		{"no memory there", func(b *bench) {
			b.run("a", 0, 2, 10*gib)
			b.run("b", 1, 2, 10*gib)
		}, node(1), plan.Refused, "", "lacks 4 GiB"},
		{"its CPUs are dedicated to others", func(b *bench) {
			b.run("a", 0, 2, gib, class(workload.Dedicated))
			b.run("b", 1, 7, gib, func(s *place.Subject) { s.Spec.Class, s.Spec.CPUs, s.Spec.Given = workload.Dedicated, 7, true })
		}, node(1), plan.Refused, "", ""},
		{"offline work", func(b *bench) { b.run("a", 0, 2, gib, class(workload.Offline)) }, node(1), plan.Refused, "", "offline work"},
		{"what is left alone", func(b *bench) {
			b.run("a", 0, 2, gib, func(s *place.Subject) { s.LeaveAlone = "The configuration excludes it." })
		}, node(1), plan.LeftAlone, "", "excludes"},
		{"memory nodes that others narrowed", func(b *bench) {
			b.run("a", 0, 2, gib, func(s *place.Subject) { s.Observation.Mems = topology.Nodes(0) })
		}, node(1), plan.Refused, "", "memory on node 0 only"},
		{"a memory policy of its own is told", func(b *bench) {
			b.run("a", 0, 2, gib, func(s *place.Subject) { s.Observation.OwnPolicy = "bind:0" })
		}, node(1), plan.Placed, "1", "policy of its own (bind:0)"},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := two(t)
			c.build(b)
			out, d := Told(b.in, "a", c.to)
			text := strings.Join(d.Reasons, " ")
			if d.Outcome != c.want || !strings.Contains(text, c.words) {
				t.Fatalf("%s: %s; want %s with %q", d.Outcome, text, c.want, c.words)
			}
			if c.want != plan.Placed {
				return
			}
			if v := plan.CheckPlan(b.in.State, out); len(v) > 0 {
				t.Fatalf("the plan breaks a rule: %s", v[0])
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
func TestToldIsRemembered(t *testing.T) {
	b := two(t)
	b.run("a", 0, 5, gib)
	for range 10 {
		b.tick()
	}
	out, d := Told(b.in, "a", topology.Nodes(1))
	if d.Outcome != plan.Placed {
		t.Fatalf("%+v", d)
	}
	b.in.State.Placements = out.Placements
	b.in.Told = []Past{{Workload: "a", From: topology.Nodes(0), To: topology.Nodes(1), At: b.in.At.Add(-time.Second)}}
	b.tick()
	if len(b.memory.Past) != 1 || b.memory.Past[0].Workload != "a" {
		t.Fatalf("remembered %+v", b.memory.Past)
	}
	b.in.Told = nil
	b.tick()
	if len(b.memory.Past) != 1 {
		t.Fatalf("forgotten, or remembered twice: %+v", b.memory.Past)
	}
}

// Whatever the host and the load, an order breaks no rule, changes no argument,
// takes nobody's home, and holds at the next look.
func TestToldProperties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		st := plantest.State(4).Draw(t, "state")
		in := Input{At: epoch, State: st, Settings: DefaultSettings(), Arrange: place.Options{MoveBandwidth: 256 << 20}}
		n := rapid.IntRange(1, 6).Draw(t, "workloads")
		for i := range n {
			in.Subjects = append(in.Subjects, drawSubject(t, st.Host, workload.ID(fmt.Sprintf("w%d", i))))
		}
		in.State.Placements = place.Arrange(in.State, in.Subjects, in.Arrange).Placements
		id := workload.ID(fmt.Sprintf("w%d", rapid.IntRange(0, n-1).Draw(t, "told")))
		var nodes topology.NodeSet
		for _, x := range rapid.SliceOfN(rapid.SampledFrom(st.Host.Nodes), 1, 3).Draw(t, "to") {
			nodes.Add(x.ID)
		}
		before := asJSON(t, in)
		out, d := Told(in, id, nodes)
		again, e := Told(in, id, nodes)
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
		kept := place.Arrange(in.State, in.Subjects, in.Arrange)
		for i := range kept.Placements {
			p := &kept.Placements[i]
			if p.Class != workload.Offline && !p.Home.Equal(out.Placements[i].Home) {
				t.Fatalf("at the next look %s goes from %s to %s", p.Workload, out.Placements[i].Home, p.Home)
			}
		}
	})
}
