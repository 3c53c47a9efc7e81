package api

import (
	"encoding/json"
	"testing"

	"github.com/homenode/homenode/core/workload"
)

// TestUsedKiB: what is unknown is no figure.
func TestUsedKiB(t *testing.T) {
	back := int64(30)
	most := int64(95)
	for _, x := range []struct {
		n     Node
		used  int64
		known bool
	}{
		{Node{MemoryKiB: 100, FreeKiB: 10}, 90, true},
		{Node{MemoryKiB: 100, FreeKiB: 10, ReclaimableKiB: &back}, 60, true},
		{Node{MemoryKiB: 100, FreeKiB: 10, ReclaimableKiB: &most}, 0, true},
		{Node{MemoryKiB: 100, FreeKiB: -1, ReclaimableKiB: &back}, 0, false},
		{Node{MemoryKiB: -1, FreeKiB: -1}, 0, false},
		{Node{}, 0, false},
	} {
		if used, known := x.n.UsedKiB(); used != x.used || known != x.known {
			t.Errorf("%+v: %d %v, want %d %v", x.n, used, known, x.used, x.known)
		}
	}
}

// TestLocality: who keeps CPUs busy counts for more, and who is not known not at all.
func TestLocality(t *testing.T) {
	of := func(x float64) *float64 { return &x }
	s := Status{Workloads: []Workload{{CPUUse: 3, Locality: of(1)}, {CPUUse: 1, Locality: of(0), LocalityExpected: of(1)}, {CPUUse: 9}}}
	if now, after := s.Locality(); now == nil || *now != 0.75 || *after != 1 {
		t.Errorf("%v %v", now, after)
	}
	s.Workloads = s.Workloads[2:]
	if now, after := s.Locality(); now != nil || after != nil {
		t.Errorf("nobody is known: %v %v", now, after)
	}
}

// TestWorst: batch work and what is not known do not count; of equal ones it is the first.
func TestWorst(t *testing.T) {
	of := func(x float64) *float64 { return &x }
	s := Status{Workloads: []Workload{{ID: "unknown", State: StateAtHome}, {ID: "batch", Class: workload.Batch, Locality: of(0)}, {ID: "near", Locality: of(1)},
		{ID: "far", Locality: of(0.25)}, {ID: "as far", Locality: of(0.25), State: StateAtHome}}}
	if w := s.Worst(); w == nil || w.ID != "far" || s.AtHome() != 2 {
		t.Errorf("%+v, %d at home", w, s.AtHome())
	}
	s.Workloads = s.Workloads[:2]
	if w := s.Worst(); w != nil {
		t.Errorf("nobody is known: %+v", w)
	}
}

// TestRoomOfBefore: a daemon of version 0.1 says offline for batch.
func TestRoomOfBefore(t *testing.T) {
	for _, text := range []string{`{"node": 1, "cpus": 2, "offline_cpus": 3.5, "offline_memory_kib": 7}`, `{"node": 1, "cpus": 2, "batch_cpus": 3.5, "batch_memory_kib": 7}`} {
		var n NodeRoom
		if err := json.Unmarshal([]byte(text), &n); err != nil || n.Node != 1 || n.CPUs != 2 || n.BatchCPUs == nil || *n.BatchCPUs != 3.5 || n.BatchMemoryKiB == nil || *n.BatchMemoryKiB != 7 {
			t.Errorf("%s: %+v, %v", text, n, err)
		}
	}
}
