package sim

import (
	"slices"
	"time"

	"github.com/homenode/homenode/core/plan"
	"github.com/homenode/homenode/core/workload"
	"github.com/homenode/homenode/daemon"
)

// store is daemon.Memory with an index, so that a long run does not search a
// long journal, and with an ear for what the simulator wants to hear.
type store struct {
	*daemon.Memory
	seq     uint64
	entries map[settingKey]*plan.Entry
	bySeq   map[uint64]settingKey
	events  []plan.Event // the newest
	ledger  []plan.Placement
	saved   bool // the ledger was written since this was last reset
	heard   func(plan.Event)
	begun   bool // a daemon has read what there was; it is not started again
}

type settingKey struct {
	kind plan.SettingKind
	path string
}

func newStore() *store {
	return &store{Memory: daemon.NewMemory(), entries: map[settingKey]*plan.Entry{}, bySeq: map[uint64]settingKey{}, heard: func(plan.Event) {}}
}

// Intend implements daemon.Store.
func (s *store) Intend(w workload.ID, have []plan.Setting, will []string, at time.Time) ([]plan.Entry, error) {
	out := make([]plan.Entry, 0, len(have))
	for i, h := range have {
		key := settingKey{h.Kind, h.Path}
		e := s.entries[key]
		if e == nil {
			s.seq++
			e = &plan.Entry{Seq: s.seq, Time: at, Kind: h.Kind, Path: h.Path, Old: h.Value, Kin: h.Kin}
			s.entries[key], s.bySeq[e.Seq] = e, key
		}
		e.Workload, e.New, e.State = w, will[i], plan.Intended
		out = append(out, *e)
	}
	return out, nil
}

// Mark implements daemon.Store.
func (s *store) Mark(state plan.EntryState, seqs ...uint64) error {
	for _, seq := range seqs {
		key, ok := s.bySeq[seq]
		if !ok {
			continue
		}
		s.entries[key].State = state
		if state == plan.Restored || state == plan.Gone {
			delete(s.entries, key)
			delete(s.bySeq, seq)
		}
	}
	return nil
}

// Journal implements daemon.Store.
func (s *store) Journal() ([]plan.Entry, error) {
	out := make([]plan.Entry, 0, len(s.entries))
	for _, e := range s.entries {
		out = append(out, *e)
	}
	slices.SortFunc(out, func(a, b plan.Entry) int { return int(a.Seq) - int(b.Seq) })
	return out, nil
}

// SavePlacements implements daemon.Store.
func (s *store) SavePlacements(p []plan.Placement) error {
	s.ledger, s.saved = slices.Clone(p), true
	return nil
}

// Placements implements daemon.Store.
func (s *store) Placements() ([]plan.Placement, error) { return slices.Clone(s.ledger), nil }

// Save implements daemon.Store. What only a later daemon would read is not kept:
// to write all reasons as JSON at every change takes a tenth of a run.
func (s *store) Save(key string, v any) error {
	if s.begun {
		return nil
	}
	return s.Memory.Save(key, v)
}

// newestEvents is how many events are kept to tell of when something breaks.
const newestEvents = 64

// Append implements daemon.Store.
func (s *store) Append(events ...plan.Event) error {
	for _, e := range events {
		s.heard(e)
		s.events = append(s.events, e)
	}
	if n := len(s.events); n >= 2*newestEvents {
		s.events = slices.Clone(s.events[n-newestEvents:])
	}
	return nil
}

// History implements daemon.Store.
func (s *store) History(int) ([]plan.Event, error) { return slices.Clone(s.events), nil }
