package memory

import (
	"cmp"
	"encoding/json"
	"maps"
	"slices"
	"sync"

	"github.com/homenode/homenode/core/plan"
	"github.com/homenode/homenode/core/workload"
)

// keepEvents bounds the history, as host/store does.
const keepEvents = 10_000

// Store implements daemon.Store. Its methods may be called from several goroutines.
type Store struct {
	mu         sync.Mutex // guards what follows
	lastSeq    uint64
	journal    map[uint64]plan.Entry
	placements []plan.Placement
	moves      map[workload.ID]plan.Move
	history    []plan.Event
	values     map[string][]byte // JSON, so that nobody shares what they point to
}

// New is an empty store.
func New() *Store {
	return &Store{journal: map[uint64]plan.Entry{}, moves: map[workload.ID]plan.Move{}, values: map[string][]byte{}}
}

// Reader is what can be read of a store.
type Reader interface {
	Journal() ([]plan.Entry, error)
	LastSeq() (uint64, error)
	Placements() ([]plan.Placement, error)
	Moves() ([]plan.Move, error)
	Load(key string, v any) (bool, error)
	History(plan.EventQuery) ([]plan.Event, error)
}

// Copy is a store that begins with what r holds, of the values those under keys.
func Copy(r Reader, keys ...string) (*Store, error) {
	m := New()
	journal, err := r.Journal()
	if err != nil {
		return nil, err
	}
	for _, e := range journal {
		m.journal[e.Seq] = e
	}
	if m.lastSeq, err = r.LastSeq(); err != nil {
		return nil, err
	}
	if m.placements, err = r.Placements(); err != nil {
		return nil, err
	}
	moves, err := r.Moves()
	if err != nil {
		return nil, err
	}
	for _, mv := range moves {
		m.moves[mv.Workload] = mv
	}
	if m.history, err = r.History(plan.EventQuery{Limit: keepEvents}); err != nil {
		return nil, err
	}
	for _, key := range keys {
		var raw json.RawMessage
		if ok, err := r.Load(key, &raw); err != nil {
			return nil, err
		} else if ok {
			m.values[key] = raw
		}
	}
	return m, nil
}

// Commit implements daemon.Store.
func (m *Store) Commit(b plan.Batch) error {
	values := make(map[string][]byte, len(b.Values))
	for key, v := range b.Values {
		text, err := json.Marshal(v)
		if err != nil {
			return err
		}
		values[key] = text
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, e := range b.Entries {
		m.lastSeq = max(m.lastSeq, e.Seq)
		if e.State == plan.Restored || e.State == plan.Gone {
			delete(m.journal, e.Seq)
		} else {
			m.journal[e.Seq] = e
		}
	}
	if b.Placements != nil {
		m.placements = slices.Clone(b.Placements.All())
	}
	for _, mv := range b.Moves {
		m.moves[mv.Workload] = mv
	}
	m.history = append(m.history, b.Events...)
	if len(m.history) > 2*keepEvents {
		m.history = slices.Clone(m.history[len(m.history)-keepEvents:])
	}
	maps.Copy(m.values, values)
	return nil
}

// Journal implements daemon.Store.
func (m *Store) Journal() ([]plan.Entry, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.SortedFunc(maps.Values(m.journal), func(a, b plan.Entry) int { return cmp.Compare(a.Seq, b.Seq) }),
		nil
}

// LastSeq implements daemon.Store.
func (m *Store) LastSeq() (uint64, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.lastSeq, nil
}

// Placements implements daemon.Store.
func (m *Store) Placements() ([]plan.Placement, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Clone(m.placements), nil
}

// Moves implements daemon.Store.
func (m *Store) Moves() ([]plan.Move, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.SortedFunc(maps.Values(m.moves),
		func(a, b plan.Move) int { return cmp.Compare(a.Workload, b.Workload) }), nil
}

// History implements daemon.Store.
func (m *Store) History(q plan.EventQuery) ([]plan.Event, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return q.Of(m.history[max(0, len(m.history)-keepEvents):]), nil
}

// About implements daemon.Store.
func (m *Store) About() ([]workload.ID, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	var ids []workload.ID
	for i := range m.history {
		if id := m.history[i].Workload; id != "" {
			ids = append(ids, id)
		}
	}
	slices.Sort(ids)
	return slices.Compact(ids), nil
}

// Load implements daemon.Store.
func (m *Store) Load(key string, v any) (bool, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	text, ok := m.values[key]
	if !ok {
		return false, nil
	}
	return true, json.Unmarshal(text, v)
}

// Close implements daemon.Store.
func (m *Store) Close() error { return nil }
