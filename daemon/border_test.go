package daemon

import (
	"errors"
	"strings"
	"testing"

	"github.com/homenode/homenode/api"
	"github.com/homenode/homenode/core/plan"
	"github.com/homenode/homenode/core/topology"
)

// The border holds back dedicated work that is beyond it, moves only when nothing
// stands in the way, and stays moved over a restart until the configuration changes.
func TestBorderMovesAndStays(t *testing.T) {
	m := newMachine(t, 1, 8)
	db := m.add("db", 2, 1<<20, 0)
	web := m.add("web", 2, 1<<20, 0)
	rules := func(c *Config) {
		c.Border = "4-7"
		c.Workloads = []Rule{{Match: "/db", Class: "dedicated", CPUs: 2}, {Match: "/web", CPUs: 4}}
	}
	r := newRig(t, m, Enforce, rules)
	r.ticks(t, 3)
	if got := m.live[db].obs.CPUs; got.Len() != 2 || !got.SubsetOf(topology.CPUs(4, 5, 6, 7)) {
		t.Errorf("db on %v", got)
	}
	if got := m.live[web].obs.CPUs.String(); got != "0-3" {
		t.Errorf("web on %s", got)
	}
	s, _ := r.Status(t.Context())
	if s.Border == nil || s.Border.Dedicated != "4-7" || !s.Border.Split {
		t.Errorf("%+v", s.Border)
	}
	var refused *api.Error
	for border, want := range map[string]string{"0-3": "/db has CPUs", "1-7": "/web has its home on node 0", "shared": "/db has", "x": "want any", "0-99": "not on this host", "": "empty"} {
		_, err := r.Border(t.Context(), api.Border{Border: plan.Border(border)})
		if !errors.As(err, &refused) || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %s", border, err, want)
		}
	}
	now, err := r.Border(t.Context(), api.Border{Border: "2-7"})
	if err != nil || now.Dedicated != "2-7" {
		t.Fatal(now, err)
	}
	r.ticks(t, 2)
	if got := m.live[web].obs.CPUs.String(); got != "0-1" {
		t.Errorf("after the move web is on %s", got)
	}
	r.start(t, Enforce, rules)
	r.ticks(t, 2)
	if s, _ := r.Status(t.Context()); s.Border == nil || s.Border.Border != "2-7" {
		t.Errorf("after a restart: %+v", s.Border)
	}
	r.start(t, Enforce, rules, func(c *Config) { c.Border = "any" })
	r.ticks(t, 2)
	if s, _ := r.Status(t.Context()); s.Border != nil {
		t.Errorf("after the configuration changed: %+v", s.Border)
	}
}

// A border that is not of this host stops the daemon at its first look.
func TestBorderBeyondTheHost(t *testing.T) {
	m := newMachine(t, 1, 8)
	r := newRig(t, m, Enforce, func(c *Config) { c.Border = "4-70" })
	if err := r.Tick(t.Context()); err == nil || !strings.Contains(err.Error(), "border") {
		t.Error(err)
	}
}

// CPUs of the border that the host loses, as when a part of it is taken out: what is
// left of the border holds, and dedicated work there stays.
func TestBorderOfAHostThatShrinks(t *testing.T) {
	m := newMachine(t, 2, 8)
	db := m.add("db", 2, 1<<20, 0)
	r := newRig(t, m, Enforce, func(c *Config) {
		c.Border = "0-3,12-15"
		c.Workloads = []Rule{{Match: "/db", Class: "dedicated", CPUs: 2}}
	})
	r.ticks(t, 3)
	before := m.live[db].obs.CPUs
	if !before.SubsetOf(topology.CPUs(0, 1, 2, 3)) {
		t.Fatalf("db on %v", before)
	}
	m.nodes = 1
	m.live[db].obs.Mems = topology.Nodes(0)
	r.ticks(t, 2)
	s, err := r.Status(t.Context())
	if err != nil || s.Border == nil || s.Border.Dedicated != "0-3" || !m.live[db].obs.CPUs.Equal(before) || r.status(t)[db].State != "at home" {
		t.Errorf("%+v, %v; db on %v, %s", s.Border, err, m.live[db].obs.CPUs, r.status(t)[db].State)
	}
	if !r.told(t, "not on this host") {
		t.Error("the history does not tell")
	}
}
