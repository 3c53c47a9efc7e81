package store

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"slices"

	bolt "go.etcd.io/bbolt"

	"github.com/homenode/homenode/core/plan"
)

// Journal is all live entries, rising by Seq.
func (s *Store) Journal() ([]plan.Entry, error) { return readAll[plan.Entry](s, bucketJournal) }

// LastSeq is the number of the newest entry that the journal ever had.
func (s *Store) LastSeq() (seq uint64, err error) {
	err = s.view(func(tx *bolt.Tx) error {
		if s.schema < 2 {
			seq = tx.Bucket(bucketJournal).Sequence()
			return nil
		}
		t, err := openTable(tx, bucketJournal)
		if err == nil {
			seq = t.Last
		}
		return err
	})
	return seq, err
}

var keyPlacements = []byte("placements")

// Placements is the ledger of homes as last written.
func (s *Store) Placements() (p []plan.Placement, err error) {
	_, err = s.load(bucketLedger, keyPlacements, &p)
	return p, err
}

// Moves is the newest move of each workload, rising by workload ID.
func (s *Store) Moves() ([]plan.Move, error) { return readAll[plan.Move](s, bucketMoves) }

// History is the newest events, oldest first, at most limit (0 is all): the newest of any
// kind, and older steps and orders.
func (s *Store) History(limit int) (events []plan.Event, err error) {
	err = s.view(func(tx *bolt.Tx) error {
		type part struct {
			name       []byte
			c          *bolt.Cursor
			key, value []byte
		}
		var parts []*part
		for _, name := range slices.Concat([][]byte{bucketHistory}, laterBuckets) {
			if b := tx.Bucket(name); b != nil {
				p := &part{name: name, c: b.Cursor()}
				p.key, p.value = p.c.Last()
				parts = append(parts, p)
			}
		}
		for limit <= 0 || len(events) < limit {
			newest := slices.MaxFunc(parts, func(x, y *part) int { return bytes.Compare(x.key, y.key) }) // nil is least
			if newest.key == nil {
				break
			}
			var e plan.Event
			if err := s.decode(newest.name, newest.key, newest.value, &e); err != nil {
				return err
			}
			events = append(events, e)
			seq := newest.key
			for _, p := range parts {
				if bytes.Equal(p.key, seq) {
					p.key, p.value = p.c.Prev()
				}
			}
		}
		slices.Reverse(events)
		return nil
	})
	return events, err
}

// Load reads the value kept under key into v and reports whether there is one.
func (s *Store) Load(key string, v any) (found bool, err error) {
	return s.load(bucketValues, []byte(key), v)
}

func (s *Store) load(bucket, key []byte, v any) (found bool, err error) {
	err = s.view(func(tx *bolt.Tx) error {
		value := tx.Bucket(bucket).Get(key)
		if found = value != nil; !found {
			return nil
		}
		return s.decode(bucket, key, value, v)
	})
	return found, err
}

func readAll[T any](s *Store, bucket []byte) (all []T, err error) {
	err = s.view(func(tx *bolt.Tx) error {
		return tx.Bucket(bucket).ForEach(func(k, value []byte) error {
			var t T
			if err := s.decode(bucket, k, value, &t); err != nil {
				return err
			}
			all = append(all, t)
			return nil
		})
	})
	return all, err
}

// decode reads a value of the file.
func (s *Store) decode(bucket, key, value []byte, v any) (err error) {
	if s.schema >= 2 {
		if value, _, err = unseal(bucket, key, value); err != nil {
			return err
		}
	}
	if err := json.Unmarshal(value, v); err != nil {
		return fmt.Errorf("%s %q: %w", bucket, key, err)
	}
	return nil
}

// key makes numbers sort as they count.
func key(seq uint64) []byte { return binary.BigEndian.AppendUint64(nil, seq) }
