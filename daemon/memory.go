package daemon

import (
	"encoding/json"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/homenode/homenode/core/plan"
	"github.com/homenode/homenode/core/workload"
)

// Memory is a Store that forgets: for one look without a daemon, for the
// simulator, and for tests.
type Memory struct {
	mu         sync.Mutex // guards what follows
	seq        uint64
	entries    []plan.Entry
	placements []plan.Placement
	moves      map[workload.ID]plan.Move
	events     []plan.Event
	values     map[string][]byte
}

// NewMemory is an empty store.
func NewMemory() *Memory {
	return &Memory{moves: map[workload.ID]plan.Move{}, values: map[string][]byte{}}
}

// NewMemoryFrom is a store that begins with what another one knows.
func NewMemoryFrom(s Store) (*Memory, error) {
	m := NewMemory()
	var err error
	if m.entries, err = s.Journal(); err != nil {
		return nil, err
	}
	if m.placements, err = s.Placements(); err != nil {
		return nil, err
	}
	if m.events, err = s.History(0); err != nil {
		return nil, err
	}
	for _, key := range []string{keyBoot, keyWants, keyHolds, keyWhys, keyPast} {
		var raw json.RawMessage
		if ok, err := s.Load(key, &raw); err != nil {
			return nil, err
		} else if ok {
			m.values[key] = raw
		}
	}
	moves, err := s.Moves()
	for _, mv := range moves {
		m.moves[mv.Workload] = mv
	}
	return m, err
}

// Intend implements Store.
func (m *Memory) Intend(w workload.ID, have []plan.Setting, will []string, at time.Time) ([]plan.Entry, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	var out []plan.Entry
	for i, h := range have {
		j := slices.IndexFunc(m.entries, func(e plan.Entry) bool { return e.Kind == h.Kind && e.Path == h.Path })
		if j < 0 {
			m.seq++
			m.entries = append(m.entries, plan.Entry{Seq: m.seq, Time: at, Kind: h.Kind, Path: h.Path, Old: h.Value, Kin: h.Kin})
			j = len(m.entries) - 1
		}
		m.entries[j].Renew(w, will[i])
		out = append(out, m.entries[j])
	}
	return out, nil
}

// Mark implements Store.
func (m *Memory) Mark(state plan.EntryState, seqs ...uint64) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	for i := range m.entries {
		if slices.Contains(seqs, m.entries[i].Seq) {
			m.entries[i].State = state
		}
	}
	m.entries = slices.DeleteFunc(m.entries, func(e plan.Entry) bool {
		return e.State == plan.Restored || e.State == plan.Gone
	})
	return nil
}

// Journal implements Store.
func (m *Memory) Journal() ([]plan.Entry, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Clone(m.entries), nil
}

// SavePlacements implements Store.
func (m *Memory) SavePlacements(p []plan.Placement) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.placements = slices.Clone(p)
	return nil
}

// Placements implements Store.
func (m *Memory) Placements() ([]plan.Placement, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Clone(m.placements), nil
}

// SaveMove implements Store.
func (m *Memory) SaveMove(mv plan.Move) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.moves[mv.Workload] = mv
	return nil
}

// Moves implements Store.
func (m *Memory) Moves() ([]plan.Move, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	var out []plan.Move
	for _, id := range slices.Sorted(maps.Keys(m.moves)) {
		out = append(out, m.moves[id])
	}
	return out, nil
}

// Append implements Store.
func (m *Memory) Append(events ...plan.Event) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, e := range events {
		m.seq++
		e.Seq = m.seq
		m.events = append(m.events, e)
	}
	return nil
}

// History implements Store.
func (m *Memory) History(limit int) ([]plan.Event, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	events := m.events
	if limit > 0 && len(events) > limit {
		events = events[len(events)-limit:]
	}
	return slices.Clone(events), nil
}

// Load implements Store.
func (m *Memory) Load(key string, v any) (bool, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	raw, ok := m.values[key]
	if !ok {
		return false, nil
	}
	return true, json.Unmarshal(raw, v)
}

// Save implements Store.
func (m *Memory) Save(key string, v any) error {
	raw, err := json.Marshal(v)
	if err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.values[key] = raw
	return nil
}

// Close implements Store.
func (m *Memory) Close() error { return nil }
