package daemon

import (
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/homenode/homenode/api"
	"github.com/homenode/homenode/core/plan"
	"github.com/homenode/homenode/core/topology"
	"github.com/homenode/homenode/core/workload"
)

// diskStore takes as long as a disk does, and may be full.
type diskStore struct {
	Store
	takes   time.Duration
	full    atomic.Bool
	commits atomic.Int64
}

func (s *diskStore) Commit(b plan.Batch) error {
	s.commits.Add(1)
	time.Sleep(s.takes)
	if s.full.Load() {
		return errBroken
	}
	return s.Store.Commit(b)
}

func none(string, workload.ID) bool { return false }

// TestFirstScanWritesTogether: the first scan of 300 workloads, each of which gets CPUs,
// takes fewer than 10 commits, for each is an fsync or two (R8).
func TestFirstScanWritesTogether(t *testing.T) {
	for _, takes := range []time.Duration{5 * time.Millisecond, 50 * time.Millisecond} {
		firstScan(t, takes)
	}
}

func firstScan(t *testing.T, takes time.Duration) {
	m := newMachine(t, 2, 256)
	for i := range 300 {
		m.add(fmt.Sprintf("w%03d", i), 0.5, 1<<15, topology.NodeID(i%2))
	}
	s := &diskStore{takes: takes}
	live(t, m, none, func(o *Options) {
		s.Store, o.Store = o.Store, s
		o.Period = time.Minute
	}, func(t *testing.T, l *life) {
		time.Sleep(30 * time.Second)
		for id, now := range m.settings() {
			if now == "0-511 0-1" {
				t.Fatalf("%s was not placed: %+v", id, workloads(t, l.Daemon)[id])
			}
		}
		if n := s.commits.Load(); n >= 10 {
			t.Errorf("%d commits", n)
		} else {
			t.Logf("%d commits", n)
		}
	})
}

// TestDiskFullForAWhile: nothing is changed without a record, undo works all the same, and
// with room again all goes on.
func TestDiskFullForAWhile(t *testing.T) {
	m := three(t)
	before := m.settings()
	s := &diskStore{takes: 5 * time.Millisecond}
	live(t, m, none, func(o *Options) { s.Store, o.Store = o.Store, s }, func(t *testing.T, l *life) {
		s.full.Store(true)
		time.Sleep(time.Minute)
		if diff := cmp.Diff(before, m.settings()); diff != "" {
			t.Errorf("changed without a record:\n%s", diff)
		}
		s.full.Store(false)
		time.Sleep(15 * time.Minute)
		for id, w := range workloads(t, l.Daemon) {
			if w.State != api.StateAtHome {
				t.Errorf("with room: %s is %s: %s", id, w.State, w.Why)
			}
		}
		s.full.Store(true)
		if _, err := l.Undo(t.Context(), api.Which{All: true}); err == nil {
			t.Error("undo does not say that it cannot be written down")
		}
		if diff := cmp.Diff(before, m.settings()); diff != "" {
			t.Errorf("undo on a full disk left:\n%s", diff)
		}
		s.full.Store(false)
		time.Sleep(time.Minute)
		if left, err := l.store.Journal(); err != nil || len(left) > 0 {
			t.Errorf("with room again the journal has %v, %v", left, err)
		}
	})
}
