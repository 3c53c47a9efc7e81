package balance

import (
	"encoding/json"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/homenode/homenode/core/place"
	"github.com/homenode/homenode/core/plan"
	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/core/workload"
)

// seen is what one tick was decided on.
type seen struct {
	in     Input
	before History
}

func logOf(t *testing.T, b *bench, ticks int) []seen {
	t.Helper()
	var log []seen
	for range ticks {
		var l struct { // a copy: the bench goes on with its own
			In     Input
			Before History
		}
		if err := json.Unmarshal([]byte(asJSON(t, map[string]any{"In": b.in, "Before": b.memory})), &l); err != nil {
			t.Fatal(err)
		}
		log = append(log, seen{l.In, l.Before})
		b.tick()
	}
	return log
}

func crowdedBench(t *testing.T) *bench {
	b := two(t)
	b.run("a", 0, 5, gib)
	b.run("b", 0, 5, 4*gib)
	b.run("c", 1, 1, gib)
	return b
}

func TestPolicySettings(t *testing.T) {
	recorded := Settings{Enabled: true, Act: true, Window: 1, Horizon: 2, Cooldown: 3, Ban: 4, Factor: 5}
	for policy, want := range map[string]Settings{
		"homenode":   recorded,
		"homes-kept": {Act: true, Window: 1, Horizon: 2, Cooldown: 3, Ban: 4, Factor: 5},
		"eager":      {Enabled: true, Act: true, Horizon: 2, Factor: 1},
	} {
		if got, err := settingsFor(policy, recorded); err != nil || got != want {
			t.Errorf("%s: %+v, %v", policy, got, err)
		}
	}
	if got, err := settingsFor("eager", Settings{}); err != nil || !got.Enabled {
		t.Errorf("eager on a host that does not balance: %+v, %v", got, err)
	}
	if _, err := NewCompare("homenode", "brave"); err == nil {
		t.Error("a policy that does not exist is compared")
	}
}

// TestCompare: each policy lives with its own homes.
func TestCompare(t *testing.T) {
	log := logOf(t, crowdedBench(t), 10)
	c, err := NewCompare("homenode", "homes-kept", "eager")
	if err != nil {
		t.Fatal(err)
	}
	for _, l := range log {
		c.Add(l.in, l.before)
	}
	got := map[string]WhatIf{}
	for i, w := range c.Results() {
		if w.Ticks != 10 || w.Policy != c.policies[i] {
			t.Errorf("%+v", w)
		}
		got[w.Policy] = w
	}
	// a has 1 GiB; it goes once, at the sixth tick by homenode and at the third by eager.
	for policy, want := range map[string]int{"homenode": 1, "homes-kept": 0, "eager": 1} {
		if w := got[policy]; w.Changes != want || w.Bytes != int64(want)<<30 {
			t.Errorf("%s: %+v, want %d changes", policy, w, want)
		}
	}
	// Crowded, 4.5 CPUs or so are lost in each tick: in all ten, in five, in two.
	each := got["homes-kept"].Lost
	if each < 1 || got["homenode"].Lost > 0.6*each || got["homenode"].Lost < 0.4*each || got["eager"].Lost > 0.3*each || got["eager"].Lost < 0.1*each {
		t.Errorf("lost: %v, %v, %v", each, got["homenode"].Lost, got["eager"].Lost)
	}
	// A log that begins in the midst: what was seen before counts, what was chosen before does not.
	late := crowdedBench(t)
	late.in.Settings.Act = false
	for range 5 {
		late.tick()
	}
	late.in.Settings.Act = true
	late.memory.Changes = []HomeChange{{Workload: "a", From: topology.Nodes(1), To: topology.Nodes(0), At: late.in.At}}
	c, _ = NewCompare("homenode")
	first := logOf(t, late, 1)[0]
	if c.Add(first.in, first.before); c.Results()[0].Changes != 1 {
		t.Errorf("after five looks: %+v", c.Results())
	}
	if c.Add(first.in, History{}); len(c.runs[0].memory.Samples) < 3 {
		t.Errorf("a second file makes it forget: %d looks", len(c.runs[0].memory.Samples))
	}
	if w := (&Compare{runs: []run{{}}}).Results(); len(w) != 1 || w[0].Lost != 0 {
		t.Errorf("nothing was added: %+v", w)
	}
}

// TestOwnHomes: a policy's homes are those it chose itself, of what lives on.
func TestOwnHomes(t *testing.T) {
	home := func(id workload.ID, node topology.NodeID, start uint64) plan.Placement {
		return plan.Placement{Workload: id, Class: workload.Shared, Home: topology.Nodes(node), Start: start}
	}
	u := run{placements: []plan.Placement{home("a", 1, 7), home("b", 1, 7), home("gone", 1, 0)}}
	recorded := []plan.Placement{home("a", 0, 7), home("b", 0, 8), home("c", 0, 0)}
	if diff := gocmp.Diff([]plan.Placement{home("a", 0, 7), home("b", 0, 8), home("c", 0, 0)}, u.carry(recorded)); diff != "" {
		t.Errorf("in the first tick (-want +got):\n%s", diff)
	}
	u.Ticks = 1
	if diff := gocmp.Diff([]plan.Placement{home("a", 1, 7), home("b", 0, 8), home("c", 0, 0)}, u.carry(recorded)); diff != "" {
		t.Errorf("later (-want +got):\n%s", diff)
	}
	if !recorded[0].Home.Equal(topology.Nodes(0)) {
		t.Error("what was recorded is changed")
	}
}

func TestElsewhere(t *testing.T) {
	subject := func(id workload.ID) *place.Subject {
		return &place.Subject{Observation: workload.Observation{ID: id, CPUs: topology.CPUs(0), RanOn: []workload.NodeShare{{Node: 0, Share: 1}},
			Memory: []workload.NodeMemory{{Node: 0, KiB: 10}, {Node: 5, KiB: 20}}, Movable: []workload.NodeMemory{{Node: 0, KiB: 5}}, Anon: []workload.NodeMemory{{Node: 0, KiB: 5}},
			Accesses: workload.Accesses{From: workload.Counters, Local: 0.9, PerSecond: 7}}}
	}
	subjects := []*place.Subject{subject("a"), subject("b"), subject("o")}
	recorded := []plan.Placement{{Workload: "a", Home: topology.Nodes(0)}, {Workload: "b", Home: topology.Nodes(0)}, {Workload: "gone", Home: topology.Nodes(0)},
		{Workload: "o", Class: workload.Batch, Home: topology.Nodes(0)}}
	own := []plan.Placement{{Workload: "a", Home: topology.Nodes(0), CPUs: topology.CPUs(1)}, {Workload: "b", Home: topology.Nodes(1, 2), CPUs: topology.CPUs(4, 8)},
		{Workload: "gone", Home: topology.Nodes(1)}, {Workload: "o", Class: workload.Batch, Home: topology.Nodes(1)}}
	moved := subject("b")
	o := &moved.Observation
	o.CPUs, o.Movable, o.Anon, o.Accesses.From = topology.CPUs(4, 8), nil, nil, ""
	o.RanOn = []workload.NodeShare{{Node: 1, Share: 0.5}, {Node: 2, Share: 0.5}}
	o.Memory = []workload.NodeMemory{{Node: 1, KiB: 15}, {Node: 2, KiB: 15}}
	want := []*place.Subject{subject("a"), moved, subject("o")}
	got := (&run{}).elsewhere(recorded, own, subjects)
	if diff := gocmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if diff := gocmp.Diff(subject("b"), subjects[1]); diff != "" {
		t.Errorf("what was recorded is changed:\n%s", diff)
	}
}
