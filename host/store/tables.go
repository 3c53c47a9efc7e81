package store

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	bolt "go.etcd.io/bbolt"

	"github.com/homenode/homenode/core/plan"
	"github.com/homenode/homenode/core/workload"
)

// Intend journals the settings have before they are changed to will (same
// order), in one transaction. A setting already in the journal keeps its number,
// its time and its first Old; only New is renewed.
func (s *Store) Intend(w workload.ID, have []plan.Setting, will []string, at time.Time) ([]plan.Entry, error) {
	if len(have) != len(will) {
		return nil, fmt.Errorf("journal: %d settings but %d new values", len(have), len(will))
	}
	if len(have) == 0 {
		return nil, nil
	}
	var entries []plan.Entry
	err := s.update("journal", func(tx *bolt.Tx) error {
		entries = nil
		b := tx.Bucket(bucketJournal)
		live, err := readAll[plan.Entry](b)
		if err != nil {
			return err
		}
		for i, h := range have {
			j := slices.IndexFunc(live, func(e plan.Entry) bool { return e.Kind == h.Kind && e.Path == h.Path })
			if j < 0 {
				seq, err := b.NextSequence()
				if err != nil {
					return err
				}
				// Round strips the monotonic reading, which is lost on disk anyway.
				live = append(live, plan.Entry{Seq: seq, Time: at.Round(0), Kind: h.Kind, Path: h.Path, Old: h.Value, Kin: h.Kin})
				j = len(live) - 1
			}
			e := &live[j]
			e.Renew(w, will[i])
			if err := put(b, key(e.Seq), e); err != nil {
				return err
			}
			entries = append(entries, *e)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return entries, nil
}

// Mark records how far entries have come. Restored and Gone take an entry out of
// the journal; doing so twice is no error, for a crash can come between a
// restore and its mark.
func (s *Store) Mark(state plan.EntryState, seqs ...uint64) error {
	switch state {
	case plan.Intended, plan.Applied, plan.Failed, plan.Restored, plan.Gone:
	default:
		return fmt.Errorf("mark journal: no state %q", state)
	}
	if len(seqs) == 0 {
		return nil
	}
	return s.update("mark journal", func(tx *bolt.Tx) error {
		b := tx.Bucket(bucketJournal)
		for _, seq := range seqs {
			if state == plan.Restored || state == plan.Gone {
				if seq == 0 || seq > b.Sequence() {
					return fmt.Errorf("there was never an entry %d", seq)
				}
				if err := b.Delete(key(seq)); err != nil {
					return err
				}
				continue
			}
			var e plan.Entry
			v := b.Get(key(seq))
			if v == nil {
				return fmt.Errorf("no live entry %d", seq)
			}
			if err := json.Unmarshal(v, &e); err != nil {
				return fmt.Errorf("entry %d: %w", seq, err)
			}
			e.State = state
			if err := put(b, key(seq), e); err != nil {
				return err
			}
		}
		return nil
	})
}

// Journal is all live entries, oldest first.
func (s *Store) Journal() (entries []plan.Entry, err error) {
	err = s.view(func(tx *bolt.Tx) error {
		entries, err = readAll[plan.Entry](tx.Bucket(bucketJournal))
		return err
	})
	return entries, err
}

var keyPlacements = []byte("placements")

// SavePlacements replaces the ledger of homes.
func (s *Store) SavePlacements(p []plan.Placement) error {
	return s.update("save placements", func(tx *bolt.Tx) error {
		return put(tx.Bucket(bucketLedger), keyPlacements, p)
	})
}

// Placements is the ledger of homes as last saved.
func (s *Store) Placements() (p []plan.Placement, err error) {
	err = s.view(func(tx *bolt.Tx) error {
		if v := tx.Bucket(bucketLedger).Get(keyPlacements); v != nil {
			return json.Unmarshal(v, &p)
		}
		return nil
	})
	return p, err
}

// SaveMove keeps the newest record of a workload's page move. The oldest
// finished moves make room when there are very many.
func (s *Store) SaveMove(m plan.Move) error {
	if m.Workload == "" {
		return errors.New("save move: it names no workload")
	}
	m.Started = m.Started.Round(0)
	return s.update("save move", func(tx *bolt.Tx) error {
		b := tx.Bucket(bucketMoves)
		if err := put(b, []byte(m.Workload), m); err != nil {
			return err
		}
		n, c := 0, b.Cursor() // Bucket.Stats does not see this transaction
		for k, _ := c.First(); k != nil; k, _ = c.Next() {
			n++
		}
		if n <= s.keepMoves {
			return nil
		}
		moves, err := readAll[plan.Move](b)
		if err != nil {
			return err
		}
		slices.SortStableFunc(moves, func(x, y plan.Move) int { return x.Started.Compare(y.Started) })
		for _, old := range moves {
			if n <= s.keepMoves {
				break
			}
			if old.Workload == m.Workload || old.State == "running" || old.State == "paused" {
				continue
			}
			if err := b.Delete([]byte(old.Workload)); err != nil {
				return err
			}
			n--
		}
		return nil
	})
}

// Moves is the newest move of each workload, rising by workload ID.
func (s *Store) Moves() (moves []plan.Move, err error) {
	err = s.view(func(tx *bolt.Tx) error {
		moves, err = readAll[plan.Move](tx.Bucket(bucketMoves))
		return err
	})
	return moves, err
}

// Append adds events to the history and numbers them. The oldest make room.
func (s *Store) Append(events ...plan.Event) error {
	if len(events) == 0 {
		return nil
	}
	return s.update("append to history", func(tx *bolt.Tx) error {
		b := tx.Bucket(bucketHistory)
		for _, e := range events {
			seq, err := b.NextSequence()
			if err != nil {
				return err
			}
			e.Seq, e.Time = seq, e.Time.Round(0)
			if err := put(b, key(seq), e); err != nil {
				return err
			}
		}
		if b.Sequence() <= uint64(s.keepEvents) {
			return nil
		}
		last := b.Sequence() - uint64(s.keepEvents) // the newest to go
		c := b.Cursor()
		for k, _ := c.First(); k != nil && binary.BigEndian.Uint64(k) <= last; k, _ = c.First() {
			if err := c.Delete(); err != nil {
				return err
			}
		}
		return nil
	})
}

// History is the newest events, oldest first, at most limit (0 is all).
func (s *Store) History(limit int) (events []plan.Event, err error) {
	err = s.view(func(tx *bolt.Tx) error {
		c := tx.Bucket(bucketHistory).Cursor()
		for k, v := c.Last(); k != nil && (limit <= 0 || len(events) < limit); k, v = c.Prev() {
			var e plan.Event
			if err := json.Unmarshal(v, &e); err != nil {
				return fmt.Errorf("event %d: %w", binary.BigEndian.Uint64(k), err)
			}
			events = append(events, e)
		}
		slices.Reverse(events)
		return nil
	})
	return events, err
}

// Load reads the value kept under key into v and reports whether there is one.
func (s *Store) Load(key string, v any) (found bool, err error) {
	err = s.view(func(tx *bolt.Tx) error {
		text := tx.Bucket(bucketValues).Get([]byte(key))
		if found = text != nil; !found {
			return nil
		}
		if err := json.Unmarshal(text, v); err != nil {
			return fmt.Errorf("load %s: %w", key, err)
		}
		return nil
	})
	return found, err
}

// Save keeps v under key, as JSON.
func (s *Store) Save(key string, v any) error {
	return s.update("save "+key, func(tx *bolt.Tx) error {
		return put(tx.Bucket(bucketValues), []byte(key), v)
	})
}

// key makes numbers sort as they count.
func key(seq uint64) []byte { return binary.BigEndian.AppendUint64(nil, seq) }

func put(b *bolt.Bucket, k []byte, v any) error {
	text, err := json.Marshal(v)
	if err != nil {
		return err
	}
	return b.Put(k, text)
}

func readAll[T any](b *bolt.Bucket) (all []T, err error) {
	err = b.ForEach(func(k, v []byte) error {
		var t T
		if err := json.Unmarshal(v, &t); err != nil {
			return fmt.Errorf("key %x: %w", k, err)
		}
		all = append(all, t)
		return nil
	})
	return all, err
}
