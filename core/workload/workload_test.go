package workload

import (
	"encoding/json"
	"math"
	"testing"

	"pgregory.net/rapid"

	"github.com/homenode/homenode/core/topology"
)

func TestLocality(t *testing.T) {
	tests := []struct {
		name string
		ran  []NodeShare
		mem  []NodeMemory
		want float64
		ok   bool
	}{
		{"all at home", []NodeShare{{1, 1}}, []NodeMemory{{1, 100}}, 1, true},
		{"all away", []NodeShare{{0, 1}}, []NodeMemory{{1, 100}}, 0, true},
		{"interleaved over four", []NodeShare{{0, 1}}, []NodeMemory{{0, 25}, {1, 25}, {2, 25}, {3, 25}}, 0.25, true},
		{"wide over two", []NodeShare{{0, 0.5}, {1, 0.5}}, []NodeMemory{{0, 50}, {1, 50}}, 0.5, true},
		{"three to one", []NodeShare{{0, 0.75}, {1, 0.25}}, []NodeMemory{{0, 75}, {1, 25}}, 0.625, true},
		{"a slower tier", []NodeShare{{0, 1}}, []NodeMemory{{0, 50}, {1, 25}, {9, 25}}, 0.75, true},
		{"no memory", []NodeShare{{0, 1}}, nil, 0, false},
		{"never ran", nil, []NodeMemory{{0, 1}}, 0, false},
	}
	for _, tt := range tests {
		got, ok := Locality(tt.ran, tt.mem, topology.Nodes(9))
		if ok != tt.ok || math.Abs(got-tt.want) > 1e-12 {
			t.Errorf("%s: %v, %v; want %v, %v", tt.name, got, ok, tt.want, tt.ok)
		}
	}
}

func TestLocalityProperties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 8).Draw(t, "nodes")
		var ran []NodeShare
		var mem []NodeMemory
		left := 1.0
		for i := range n {
			share := left
			if i < n-1 {
				share = left * rapid.Float64Range(0, 1).Draw(t, "share")
			}
			left -= share
			ran = append(ran, NodeShare{topology.NodeID(i), share})
			mem = append(mem, NodeMemory{topology.NodeID(i), topology.KiB(rapid.IntRange(0, 1<<30).Draw(t, "KiB"))})
		}
		got, ok := Locality(ran, mem, topology.NodeSet{})
		if ok != (Total(mem) > 0) {
			t.Fatalf("known %v with %d KiB", ok, Total(mem))
		}
		if got < 0 || got > 1+1e-9 {
			t.Fatalf("locality %v", got)
		}
		// Moving all memory to the node with most CPU time never lowers it.
		best := ran[0]
		for _, r := range ran {
			if r.Share > best.Share {
				best = r
			}
		}
		moved, _ := Locality(ran, []NodeMemory{{best.Node, Total(mem)}}, topology.NodeSet{})
		if ok && moved < got-1e-9 {
			t.Fatalf("moving to the busiest node: %v, before %v", moved, got)
		}
	})
}

func TestOn(t *testing.T) {
	mem := []NodeMemory{{0, 1}, {2, 4}, {5, 16}}
	if got := On(mem, topology.Nodes(2, 5, 7)); got != 20 {
		t.Errorf("on 2, 5, 7: %d", got)
	}
	if got := Total(mem); got != 21 {
		t.Errorf("total: %d", got)
	}
}

func TestParseClass(t *testing.T) {
	for _, c := range Classes {
		if got, err := ParseClass(string(c)); err != nil || got != c {
			t.Errorf("%s: %s, %v", c, got, err)
		}
	}
	if got, err := ParseClass("offline"); err != nil || got != Batch {
		t.Errorf("offline: %s, %v", got, err)
	}
	if got, err := ParseTier("offline"); err != nil || got != BatchTier {
		t.Errorf("tier offline: %s, %v", got, err)
	}
	var p Placement // as version 0.1 stored it
	if err := json.Unmarshal([]byte(`{"workload": "offline", "class": "offline"}`), &p); err != nil || p.Class != Batch || p.Workload != "offline" {
		t.Errorf("stored: %+v, %v", p, err)
	}
	for cgroup, want := range map[string]bool{
		"/homenode.slice/homenode-batch.slice/homenode-5.scope": true, "/homenode-batch/5": true, "/homenode-batch": false, "/x/homenode-batch/5": false,
		"/homenode.slice/homenode-offline.slice/homenode-5.scope": true, "/homenode-offline/5": true, "/offline/5": false,
	} {
		if OfRun(cgroup) != want {
			t.Errorf("OfRun(%q) is %t", cgroup, !want)
		}
	}
	for _, bad := range []string{"", "Shared", "gold", "Offline"} {
		if _, err := ParseClass(bad); err == nil {
			t.Errorf("%q: no error", bad)
		}
	}
}
